"""What is known of integers modulo others: every value that an expression takes is one that it tells of."""

from __future__ import annotations

import random
from itertools import product

import pytest

from pypto_ir.congruence import ANY, Congruence, congruence, exactly, integers, progression
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Unary, Var
from pypto_ir.expr_parser import parse_expr
from pypto_ir.interp.scalars import compile_expr
from pypto_ir.interp.values import RunError
from pypto_ir.types import scalar_var


def known() -> dict[str, Congruence]:
    return {"n0": integers(0, 16), "m": integers(5, 24), "R": exactly(48)}


def said(text: str) -> Congruence:
    return congruence(parse_expr(text, lambda name, at: scalar_var(name)), known())


@pytest.mark.parametrize(
    ("text", "residue", "modulus"),
    [
        ("t * 32 + 16", 16, 32),
        ("(t // R) * 64 + n0", 0, 16),
        ("t0 * 16 // 16", 0, 1),
        ("n0 * 3 // 16", 0, 3),
        ("n0 * t", 0, 16),
        ("m + m", 10, 24),
        ("m - m", 0, 24),
        ("m % 8", 5, 8),
        ("m % 16", 5, 8),
        ("-m", 19, 24),
        ("abs(m)", 1, 2),
        ("min(n0, t * 24)", 0, 8),
        ("max(16, 32)", 0, 16),
        ("(t << 4) + 3", 3, 16),
        ("t & 240", 0, 16),
        ("n0 & t", 0, 16),
        ("t & 0", 0, 1 << 63),
        ("17 // 5", 3, 0),
        ("m // 4", 0, 1),
        ("R * t // 24", 0, 2),
        ("t ** 2", 0, 1),
        ("t // n0", 0, 1),
    ],
)
def test_expressions(text: str, residue: int, modulus: int) -> None:
    assert said(text) == Congruence(residue, modulus)


def test_loop_variables_run_in_steps() -> None:
    assert progression(exactly(8), exactly(16)) == integers(8, 16)
    assert progression(exactly(0), integers(0, 32)) == integers(0, 32)
    assert progression(integers(0, 16), exactly(24)) == integers(0, 8)
    assert progression(exactly(3), ANY) == ANY


def test_meeting_keeps_what_is_common() -> None:
    assert exactly(16).joined(exactly(48)) == integers(16, 32)
    assert exactly(16).joined(exactly(16)) == exactly(16)
    assert integers(3, 12).joined(integers(7, 16)) == integers(3, 4)
    assert integers(3, 12).joined(ANY) == ANY


def test_questions() -> None:
    assert integers(16, 32).divisible_by(16) and not integers(8, 32).divisible_by(16) and not integers(0, 24).divisible_by(16)
    assert integers(8, 16).within_block(8, 16) and not integers(8, 16).within_block(9, 16) and not integers(0, 8).within_block(9, 16)
    assert integers(0, 8).within_block(8, 16) and integers(4, 8).within_block(4, 24) and not integers(4, 8).within_block(5, 24)
    assert exactly(40).within_block(8, 16) and exactly(5).exact == 5 and integers(5, 6).exact is None


def test_narrow_types_wrap() -> None:
    """200 in 8 bits is -56: a multiple of 25 no longer, and what is known is known modulo 256."""
    x = Var("x", scalar_var("x", DType.INT8).type)
    times = Binary("mul", x, Const(24, DType.INT8))
    assert congruence(times, {}) == integers(0, 8)
    assert congruence(Cast(scalar_var("m"), DType.INT8), known()) == integers(5, 8)
    assert congruence(Const(-3, DType.INT8), {}) == integers(253, 256)
    assert congruence(Const(7, DType.INT8), {}) == exactly(7)
    assert congruence(Const(1.5, DType.FP32), {}) == ANY


def _random(draw: random.Random, depth: int, dtype: DType, names: list[str]) -> Expr:
    if depth == 0 or draw.random() < 0.2:
        if draw.random() < 0.5:
            return Const(draw.choice((0, 1, 2, 3, 5, 8, 16, 24, 48)), dtype)
        return scalar_var(draw.choice(names), dtype)
    op = draw.choice(("add", "sub", "mul", "min", "max", "floordiv", "mod", "shl", "bitand", "neg", "abs"))
    left = _random(draw, depth - 1, dtype, names)
    if op in ("neg", "abs"):
        return Unary(op, left)
    if op in ("floordiv", "mod", "shl"):
        return Binary(op, left, Const(draw.choice((1, 2, 3, 4)), dtype) if op == "shl" else Const(draw.choice((1, 2, 3, 8, 16)), dtype))
    return Binary(op, left, _random(draw, depth - 1, dtype, names))


@pytest.mark.parametrize("dtype", [DType.INDEX, DType.INT16, DType.UINT8])
def test_every_value_is_one_of_those_told(dtype: DType) -> None:
    """Random expressions under random facts, run with random values that the facts allow, in both kinds of division."""
    draw, told, checked = random.Random(5), 0, 0
    for _ in range(1500):
        facts = {name: integers(draw.randrange(48), draw.choice((0, 1, 6, 8, 16, 48))) for name in "abc"}
        e = _random(draw, 4, dtype, list("abc"))
        found = congruence(e, {name: c for name, c in facts.items()})
        told += found != ANY
        for division, _ in product(("floor", "trunc"), range(3)):
            values = {name: c.residue + draw.randrange(0, 3) * c.modulus for name, c in facts.items()}
            try:
                value = compile_expr(e, division)(values)
            except RunError:
                continue
            checked += 1
            assert value == found.residue if found.modulus == 0 else (value - found.residue) % found.modulus == 0, (e, values, found)
    assert told > 500 and checked > 5000
