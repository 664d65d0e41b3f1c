"""The normal form of integer expressions: equal forms are equal numbers at their width, whatever wraps; order holds of extents.

Types of four bits stand for all widths: every value of every name is tried, with each way to divide.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Unary, Var, dtype_of, index
from pypto_ir.interp.scalars import DIVISIONS, compile_expr
from pypto_ir.interp.values import RunError
from pypto_ir.linear import difference, linear, normalize, provably_equal, provably_gt, provably_le, provably_negative
from pypto_ir.text import expr_text
from pypto_ir.types import ScalarType

#: names by type; all are of few bits
NAMES = {DType.INT4: ("x", "y"), DType.UINT4: ("u",)}
WIDE = (DType.INT8, DType.UINT8, DType.INDEX)
PAIRS = 250


def bounds(dtype: DType) -> tuple[int, int]:
    return (0, (1 << dtype.bits) - 1) if dtype.is_unsigned else (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1)


def drawn(source: random.Random, depth: int, dtype: DType) -> Expr:
    """An expression of a type, of sums and products mostly."""
    if depth == 0:
        if dtype in NAMES and source.randrange(4):
            return Var(source.choice(NAMES[dtype]), ScalarType(dtype))
        return Const(source.choice([n for n in (0, 1, 2, 3, 5, 7, 12, -1, -8, 100) if bounds(dtype)[0] <= n <= bounds(dtype)[1]]), dtype)
    kind = source.randrange(10)
    if kind == 0 and dtype in WIDE:  # a narrower operand, or a cast of one
        narrow = drawn(source, depth - 1, source.choice(tuple(NAMES)))
        return Cast(narrow, dtype) if source.randrange(2) else Binary("add", narrow, drawn(source, 0, dtype))
    if kind == 1:
        return Unary("neg", drawn(source, depth - 1, dtype))
    if kind == 2:
        return Binary(source.choice(("min", "max", "floordiv", "mod")), drawn(source, depth - 1, dtype), drawn(source, depth - 1, dtype))
    if kind == 3:
        return Binary("mul", drawn(source, depth - 1, dtype), Const(source.choice((2, 3, 4)), dtype))
    return Binary(source.choice(("add", "sub", "add", "mul")), drawn(source, depth - 1, dtype), drawn(source, depth - 1, dtype))


def worlds() -> Iterator[dict[str, int]]:
    """All values of all names."""
    names = [(name, dtype) for dtype, group in NAMES.items() for name in group]
    for values in product(*(range(bounds(d)[0], bounds(d)[1] + 1) for _, d in names)):
        yield {name: v for (name, _), v in zip(names, values, strict=True)}


WORLDS = list(worlds())[::37]


def values(e: Expr, division: str) -> list[int | None]:
    found = compile_expr(e, division)
    result: list[int | None] = []
    for world in WORLDS:
        try:
            result.append(int(found(dict(world))))
        except RunError:
            result.append(None)
    return result


@pytest.mark.parametrize("dtype", [DType.INT4, DType.UINT4, *WIDE], ids=lambda d: d.value)
def test_a_normal_form_is_the_same_number_and_its_own_normal_form(dtype: DType) -> None:
    source = random.Random(dtype.value)
    for _ in range(80):
        e = drawn(source, 3, dtype)
        form = normalize(e)
        assert dtype_of(form) is dtype_of(e), expr_text(e)
        assert normalize(form) == form, expr_text(e)
        for division in DIVISIONS:
            for a, b in zip(values(e, division), values(form, division), strict=True):
                assert a is None or a == b, f"{expr_text(e)} -> {expr_text(form)}"


@pytest.mark.parametrize("dtype", [DType.INT4, DType.UINT4, *WIDE], ids=lambda d: d.value)
def test_what_is_said_of_two_expressions_holds(dtype: DType) -> None:
    """Order of two numbers that are no extents is not claimed."""
    source, said = random.Random(f"{dtype.value} pairs"), 0
    for _ in range(PAIRS):
        a = drawn(source, 2, dtype)
        b = source.choice((
            drawn(source, 1, source.choice((dtype, DType.INT4))), Binary("add", a, drawn(source, 0, dtype)), normalize(a),
            Binary("max", Binary("add", drawn(source, 0, dtype), a), drawn(source, 1, dtype)), Binary("min", a, drawn(source, 1, dtype)),
        ))  # fmt: skip
        equal, less, more = provably_equal(a, b), provably_le(a, b), provably_gt(a, b)
        said += equal + less + more
        if not (equal or less or more):
            continue
        for division in DIVISIONS:
            for x, y in zip(values(a, division), values(b, division), strict=True):
                if x is None or y is None:
                    continue
                assert not equal or x == y, f"{expr_text(a)} == {expr_text(b)}"
                if 0 <= x <= _largest(a) and 0 <= y <= _largest(b):
                    assert not less or x <= y, f"{expr_text(a)} <= {expr_text(b)}: {x}, {y}"
                    assert not more or x > y, f"{expr_text(a)} > {expr_text(b)}: {x}, {y}"
    assert said > PAIRS // 5


def _largest(e: Expr) -> int:
    """The largest extent of a type."""
    dtype = dtype_of(e)
    assert dtype is not None
    return (1 << dtype.bits - 1) - 1


X, N = Var("x", ScalarType(DType.INT8)), Var("n", ScalarType(DType.INDEX))


def byte(value: int) -> Const:
    return Const(value, DType.INT8)


def test_a_narrow_sum_wraps_before_it_is_widened() -> None:
    narrow, wide = Binary("add", X, byte(100)), Binary("add", X, index(100))
    assert not provably_equal(narrow, wide) and difference(narrow, wide) is None
    assert not provably_equal(Binary("add", narrow, index(100)), Binary("add", X, index(200)))
    assert provably_equal(Binary("add", narrow, index(100)), Binary("add", index(100), narrow))
    assert normalize(Binary("sub", Binary("add", narrow, N), N)) == Cast(narrow, DType.INDEX)


def test_constants_are_those_of_the_width() -> None:
    assert normalize(Binary("add", byte(100), byte(100))) == byte(-56)
    assert normalize(Binary("sub", Const(3, DType.UINT8), Const(5, DType.UINT8))) == Const(254, DType.UINT8)
    assert provably_negative(Binary("add", byte(100), byte(100))) and not provably_negative(Binary("add", index(100), index(100)))
    assert linear(Binary("mul", Binary("mul", N, index(1 << 40)), index(1 << 40))).is_constant


def test_a_maximum_of_narrow_sums_may_be_the_other_one() -> None:
    """x + 1 of x = 127 is -128 in INT8; at 64 bits no extent is so large."""
    assert not provably_le(X, Binary("max", Binary("add", X, byte(1)), byte(0)))
    assert not provably_le(X, Binary("max", Binary("min", Binary("add", X, byte(1)), X), byte(0)))
    assert provably_le(X, Binary("max", X, byte(0)))
    assert provably_le(N, Binary("max", Binary("add", N, index(1)), index(0)))
