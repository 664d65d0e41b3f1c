"""Shapes of machine ops that follow from their operands: a wrong rule of a shape stops the run."""

from __future__ import annotations

import pytest
from alternatives import rules_changed
from building import Build

from egraph_rules.engine import UnsoundRule, rule_text
from egraph_rules.graph import saturated
from extract.lower import lower
from extract.target import load_target
from pypto_ir.diagnostics import Refused
from pypto_ir.dtypes import DType
from pypto_ir.stmt import Assign, Call, Function
from pypto_ir.types import TileType

A, MASK = (2, 3, 8), (2, 3, 32)


def call_of(op: str, *kinds: str, **kwargs: object) -> Function:
    """One call of an op on tiles x (the whole shape), m (its mask), and s (a scalar of the tile's dtype)."""
    b = Build()
    operands = []
    for i, kind in enumerate(kinds):
        if kind == "s":
            operands.append(2.0)
        elif kind == "tmp":
            operands.append(b.let(f"t{i}", "tile.create", A, dtype="FP32", target_memory="Vec"))
        else:
            shape, dtype = (MASK, DType.UINT8) if kind == "m" else (A, DType.FP32)
            operands.append(b.load(f"x{i}", shape, dtype=dtype))
    b.out(b.let("y", op, *operands, **kwargs))
    return b.function()


#: part of facts.egg -> a program that it speaks of, and text of it in a wrong form
RULES = {
    "shape.second": (call_of("tile.sels", "m", "x", "tmp", "s"), "(= s (shape y))", "(= s (shape x))"),
    "shape.broadcast.after-mask": (call_of("tile.sel", "m", "x", "x", "tmp"), "(wide v x y)", "(wide v m y)"),
    "shape.broadcast-3": (call_of("tile.addc", "x", "x", "x"), "(max (vec-get s 0)", "(+ (vec-get s 0)"),
    "shape.broadcast-mask": (call_of("tile.cmp", "x", "x", cmp_type=2), "(+ n 7)", "(+ n 700)"),
    "shape.broadcast": (call_of("tile.addsc", "x", "s", "x"), "(max (vec-get s 0)", "(+ (vec-get s 0)"),
}


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_shape_follows_from_the_operands(name: str) -> None:
    program, text, wrong = RULES[name]
    saturated(program)
    facts = rule_text("facts")
    start = facts.rindex("(rule", 0, facts.index(f':name "{name}"'))
    end = facts.index(f':name "{name}"')
    part = facts[start:end]
    assert text in part
    changed = facts[:start] + part.replace(text, wrong) + facts[end:]
    with rules_changed({"facts": changed}), pytest.raises(UnsoundRule):
        saturated(program)


def gather(valid: tuple[int, ...] | None) -> Function:
    b = Build()
    x, i = b.load("x", A), b.load("i", (2, 3, 4), valid, DType.INT32)
    tmp = b.let("tmp", "tile.create", (2, 3, 4), dtype="INT32", target_memory="Vec")
    b.out(b.let("g", "tile.gather", x, i, tmp))
    return b.function()


def test_an_op_on_flat_order_has_a_flat_form_where_no_tile_is_cut() -> None:
    made = lower(gather(None), load_target("ascend910b"))
    with pytest.raises(Refused, match="no 2-D form"):
        lower(gather((2, 3, 2)), load_target("ascend910b"))
    calls = [s for s in made.function.body if isinstance(s, Assign) and isinstance(s.value, Call)]
    (found,) = (s.target.type for s in calls if s.value.op == "tile.gather")
    assert isinstance(found, TileType) and found.static_shape == (6, 4)
