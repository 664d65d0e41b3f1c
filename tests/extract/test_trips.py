"""Bounds of expressions and of loops hold at the width of their types, whichever way is divided; trips of real loops."""

from __future__ import annotations

import random
from itertools import product

import pytest

from extract.trips import interval, loop_range, surely_runs, trips
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Unary, Var, index
from pypto_ir.interp.scalars import DIVISIONS, compile_expr
from pypto_ir.interp.values import RunError
from pypto_ir.stmt import For
from pypto_ir.text import expr_text
from pypto_ir.types import ScalarType

OPERATORS = ("add", "sub", "mul", "min", "max", "floordiv", "mod", "bitand", "bitor", "bitxor", "shl", "shr")
RANGES = {"x": (-8, 5), "y": (0, 3), "u": (0, 15)}


def drawn(source: random.Random, depth: int, dtype: DType) -> Expr:
    if depth == 0:
        names = "u" if dtype.is_unsigned else "xy"
        if dtype.bits == 4 and source.randrange(3):
            return Var(source.choice(names), ScalarType(dtype))
        return Const(source.choice((0, 1, 2, 3, 5, 7)), dtype)
    if source.randrange(6) == 0:
        narrow = drawn(source, depth - 1, source.choice((DType.INT4, DType.UINT4)))
        return Cast(narrow, dtype)
    if source.randrange(8) == 0:
        return Unary(source.choice(("neg", "abs", "bitnot")), drawn(source, depth - 1, dtype))
    left, right = drawn(source, depth - 1, dtype), drawn(source, depth - 1, source.choice((dtype, dtype, DType.INT4)))
    return Binary(source.choice(OPERATORS), left, right)


@pytest.mark.parametrize("dtype", [DType.INT4, DType.UINT4, DType.INT8, DType.UINT8, DType.INDEX], ids=lambda d: d.value)
def test_bounds_hold_at_the_width_for_all_values(dtype: DType) -> None:
    source, told = random.Random(dtype.value), 0
    for _ in range(120):
        e = drawn(source, 1 + source.randrange(3), dtype)
        low, high = interval(e, RANGES)
        told += low is not None or high is not None
        for division in DIVISIONS:
            run = compile_expr(e, division)
            for x, y, u in product(range(-8, 6, 3), range(4), range(0, 16, 5)):
                try:
                    value = int(run({"x": x, "y": y, "u": u}))
                except RunError:
                    continue
                assert low is None or low <= value, f"{expr_text(e)}: {value} of {low, high}, {division}"
                assert high is None or value <= high, f"{expr_text(e)}: {value} of {low, high}, {division}"
    assert told > 30


def loop(start: Expr, stop: Expr, step: Expr, dtype: DType) -> For:
    return For(Var("i", ScalarType(dtype)), start, stop, step, ())


def test_loops_run_as_their_bounds_say() -> None:
    source, sure = random.Random(5), 0
    for _ in range(200):
        start, stop, step = drawn(source, 1, DType.INT4), drawn(source, 1, DType.INT4), Const(source.choice((1, 2, 3, -1, -3)), DType.INT4)
        made = loop(start, stop, step, DType.INT4)
        low, high = loop_range(made, RANGES)
        count, runs = trips(made, RANGES, 99), surely_runs(made, RANGES)
        sure += runs
        for division in DIVISIONS[:2]:
            first, last = (compile_expr(e, division) for e in (start, stop))
            for x, y in product(range(-8, 6), range(4)):
                try:
                    found = range(int(first({"x": x, "y": y})), int(last({"x": x, "y": y})), int(step.value))
                except RunError:
                    continue
                assert not runs or len(found) > 0
                assert all((low is None or low <= i) and (high is None or i <= high) for i in found)
                assert count == 99 or len(found) <= count, f"{expr_text(start)}, {expr_text(stop)}"
    assert sure > 10


def test_a_truncated_rest_of_an_unknown_number_may_be_negative() -> None:
    """range(0, x % 4 + 1) runs at least once where the rest floors, and not at all for x = -3 where it truncates to -3."""
    x = Var("n", ScalarType(DType.INDEX))
    stop = Binary("add", Binary("mod", x, index(4)), index(1))
    assert not surely_runs(loop(index(0), stop, index(1), DType.INDEX), {})
    assert surely_runs(loop(index(0), stop, index(1), DType.INDEX), {"n": (0, None)})
    assert interval(stop, {}) == (-2, 4)


def test_equal_terms_cancel_whatever_they_are() -> None:
    n = Var("n", ScalarType(DType.INDEX))
    assert interval(Binary("sub", Binary("add", n, index(8)), n), {}) == (8, 8)
    assert interval(Binary("sub", Binary("min", n, index(64)), index(4)), {}) == (None, 60)
