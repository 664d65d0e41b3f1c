"""Scalar expressions: fixed width, both divisions, undefined operands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Item, MakeTuple, Unary, index
from pypto_ir.interp.fill import bounds
from pypto_ir.interp.scalars import compile_dims, compile_expr
from pypto_ir.interp.values import UNDEFINED, RunError
from pypto_ir.types import scalar_var

INTS = [d for d in DType if d.is_int]
N, M = scalar_var("n"), scalar_var("m")


def value(e: Expr, division: str = "floor", **env: Any) -> Any:
    return compile_expr(e, division)(env)


def binary(op: str, a: int, b: int, dtype: DType = DType.INDEX, division: str = "floor") -> Any:
    return value(Binary(op, Const(a, dtype), Const(b, dtype)), division)


def wrapped(n: int, dtype: DType) -> int:
    lowest, highest = bounds(dtype)
    return (n - lowest) % (highest - lowest + 1) + lowest


@pytest.mark.parametrize("dtype", INTS, ids=lambda d: d.value)
def test_integer_arithmetic_wraps_to_its_width(dtype: DType) -> None:
    lowest, highest = bounds(dtype)
    for a in (lowest, highest, 1, 7):
        for b in (lowest, highest, 1, 7):
            assert binary("add", a, b, dtype) == wrapped(a + b, dtype)
            assert binary("sub", a, b, dtype) == wrapped(a - b, dtype)
            assert binary("mul", a, b, dtype) == wrapped(a * b, dtype)
            assert binary("bitxor", a, b, dtype) == wrapped(a ^ b, dtype)
        assert value(Unary("neg", Const(a, dtype))) == wrapped(-a, dtype)
        assert value(Unary("abs", Const(a, dtype))) == wrapped(abs(a), dtype)
        assert value(Unary("bitnot", Const(a, dtype))) == wrapped(~a, dtype)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1).filter(bool))
def test_both_divisions_satisfy_their_own_identity(a: int, b: int) -> None:
    floor, rest = a // b, a % b
    assert binary("floordiv", a, b) == wrapped(floor, DType.INDEX) and binary("mod", a, b) == rest
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    assert binary("floordiv", a, b, division="trunc") == wrapped(quotient, DType.INDEX)
    remainder = binary("mod", a, b, division="trunc")
    assert remainder == a - quotient * b and (remainder == 0 or (remainder < 0) == (a < 0))


def test_division_by_zero_and_shifts_past_the_width_are_refused() -> None:
    for op, b in (("floordiv", 0), ("mod", 0), ("truediv", 0), ("shl", 64), ("shr", -1), ("pow", -1)):
        for division in ("floor", "trunc"):
            with pytest.raises(RunError) as caught:
                binary(op, 1, b, division=division)
            assert caught.value.code == "R006"


def test_shifts_are_arithmetic_for_signed_and_logical_for_unsigned_integers() -> None:
    assert binary("shr", -8, 1, DType.INT8) == -4
    assert binary("shr", 248, 1, DType.UINT8) == 124
    assert binary("shl", 64, 1, DType.INT8) == -128
    assert binary("pow", 3, 5, DType.UINT8) == 243 and binary("pow", 3, 6, DType.UINT8) == 729 % 256


def test_comparisons_minimum_and_maximum() -> None:
    assert binary("min", -1, 1) == -1 and binary("max", -1, 1) == 1
    assert [binary(op, 1, 2) for op in ("eq", "ne", "lt", "le", "gt", "ge")] == [
        False,
        True,
        True,
        True,
        False,
        False,
    ]


def test_logical_operators_evaluate_both_sides() -> None:
    false, fails = Const(False, DType.BOOL), Binary("eq", Binary("floordiv", index(1), index(0)), index(0))
    with pytest.raises(RunError):
        value(Binary("and", false, fails))
    assert value(Binary("or", false, Const(True, DType.BOOL))) is True
    assert value(Unary("not", false)) is True


def test_casts_wrap_truncate_and_round() -> None:
    assert value(Cast(Const(300, DType.INT32), DType.INT8)) == 44
    assert value(Cast(Const(-1, DType.INT32), DType.UINT16)) == 65535
    assert value(Cast(Const(-2.75, DType.FP32), DType.INT32)) == -2
    assert value(Cast(Const(2.0**40, DType.FP32), DType.INT32)) is UNDEFINED
    assert value(Cast(Const(math.nan, DType.FP32), DType.INT32)) is UNDEFINED
    assert value(Cast(Const(True, DType.BOOL), DType.INT32)) == 1
    assert value(Cast(Const(2, DType.INT32), DType.BOOL)) is True
    assert value(Cast(Const(2049, DType.INT32), DType.FP16)) == np.float16(2048)


def test_floats_are_computed_in_their_own_type() -> None:
    tenth = Const(0.1, DType.FP32)
    total = value(Binary("add", tenth, Const(0.2, DType.FP32)))
    assert isinstance(total, np.float32) and total == np.float32(0.1) + np.float32(0.2)
    one = Const(1.0, DType.BF16)
    assert float(value(Binary("add", one, Const(2.0**-9, DType.BF16)))) == 1.0
    assert value(Binary("truediv", Const(7.0, DType.FP32), Const(2.0, DType.FP32))) == 3.5
    minus, two = Const(-7.0, DType.FP32), Const(2.0, DType.FP32)
    assert value(Binary("floordiv", minus, two)) == -4 and value(Binary("floordiv", minus, two), "trunc") == -3
    assert value(Binary("mod", minus, two)) == 1 and value(Binary("mod", minus, two), "trunc") == -1


def test_undefined_operands_make_undefined_results_and_no_decisions() -> None:
    assert value(Binary("add", N, index(1)), n=UNDEFINED) is UNDEFINED
    assert value(Binary("and", Binary("lt", N, M), Const(False, DType.BOOL)), n=UNDEFINED, m=1) is UNDEFINED
    assert value(Unary("neg", Cast(N, DType.INT8)), n=UNDEFINED) is UNDEFINED
    with pytest.raises(RunError) as caught:
        bool(UNDEFINED)
    assert caught.value.code == "R005"
    with pytest.raises(RunError):
        compile_dims((N,), "floor")[1]({"n": UNDEFINED})


def test_tuples_and_their_elements() -> None:
    both = MakeTuple((N, Binary("add", N, M)))
    assert value(both, n=2, m=3) == (2, 5)
    assert value(Item(both, 1), n=2, m=3) == 5


def test_operands_that_do_not_mix_are_refused_when_they_are_reached() -> None:
    mixed = compile_expr(Binary("add", N, Const(1.0, DType.FP32)))
    with pytest.raises(RunError, match="do not mix"):
        mixed({"n": 1})
