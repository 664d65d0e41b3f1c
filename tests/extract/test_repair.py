"""Repair: copies where a tile is read after an op in place, fresh scratch, and what cannot be copied."""

from __future__ import annotations

import pytest
from alternatives import TARGET, difference
from building import Build

from extract.lower import lower
from extract.repair import linear
from pypto_ir.diagnostics import Refused
from pypto_ir.stmt import Assign, Call, For, Function, walk
from pypto_ir.verify.linearity import violations


def ops(function: Function) -> list[str]:
    return [s.value.op for s in walk(function.body) if isinstance(s, Assign) and isinstance(s.value, Call)]


def old_and_new(memory: str = "Vec") -> Function:
    """x is assembled into, and read afterwards."""
    b = Build()
    x, s = (b.load(n, shape, target_memory=memory) for n, shape in (("x", (16, 16)), ("s", (8, 16))))
    b.out(b.let("before", "tile.neg", x) if memory == "Vec" else b.let("before", "tile.move", s, target_memory="Vec"))
    y = b.let("y", "tile.assemble", x, s, (0, 0))
    if memory == "Vec":
        b.out(b.let("z", "tile.add", x, y))
    else:
        x, y = (b.let(f"{v.name}_vec", "tile.move", v, target_memory="Vec") for v in (x, y))
        b.out(b.let("z", "tile.add", x, y))
    return b.function()


def test_linear_function_is_handed_back_itself() -> None:
    b = Build()
    b.out(b.let("y", "tile.assemble", b.load("x", (8, 16)), b.load("s", (4, 16)), (4, 0)))
    function = b.function()
    assert linear(function) == (function, [])
    assert linear(function)[0] is function


def test_tile_read_after_it_was_overwritten_gets_a_copy_in_front() -> None:
    function = old_and_new()
    assert violations(function)
    made, problems = linear(function)
    assert not problems and not violations(made)
    copies = [i for i, op in enumerate(ops(made)) if op == "tile.move"]
    assert len(copies) == 1 and ops(made)[copies[0] + 1] == "tile.assemble"
    assert difference(function, made) is None


def test_copy_has_a_name_of_its_own_and_the_position_of_the_op() -> None:
    b = Build()
    x = b.load("x", (8, 16))
    b.load("x_copy", (8, 16))
    y = b.let("y", "tile.assemble", x, b.load("s", (8, 16)), (0, 0), loc="model.py:7")
    b.out(b.let("z", "tile.add", x, y))
    made, _ = linear(b.function())
    (copy,) = (s for s in made.body if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.move")
    assert copy.target.name == "x_copy_1" and copy.loc == "model.py:7"


def test_op_in_a_loop_gets_its_copy_in_the_loop() -> None:
    b = Build()
    x, start = b.load("x", (8, 16)), b.load("start", (8, 16))
    with b.loop("i", 3, {"acc": start}) as (_, acc):
        y = b.let("y", "tile.assemble", x, b.load("s", (4, 16)), (0, 0))
        b.yields(b.let("sum", "tile.add", acc, y))
    b.out(b.ended[0])
    function = b.function()
    assert violations(function)
    made, problems = linear(function)
    assert not problems and not violations(made)
    (loop,) = (s for s in made.body if isinstance(s, For))
    assert "tile.move" in ops(Function("f", body=loop.body)) and difference(function, made) is None


def test_scratch_that_is_read_later_gets_a_tile_of_its_own() -> None:
    b = Build()
    x, t = b.load("x", (8, 16)), b.load("t", (8, 16))
    m = b.let("m", "tile.row_max", x, t)
    b.out(b.let("z", "tile.row_expand_mul", t, m))
    function = b.function()
    assert violations(function)
    made, problems = linear(function)
    assert not problems and not violations(made)
    assert "tile.create" in ops(made) and "tile.move" not in ops(made)
    assert difference(function, made) is None


def test_tile_outside_vec_cannot_be_copied_and_is_refused() -> None:
    function = old_and_new("Mat")
    assert violations(function)
    made, problems = linear(function)
    assert made is function and [d.code for d in problems] == ["V202"]
    assert "only a Vec tile can be copied" in problems[0].message
    assert problems[0].place.function == "main" and "y" in (problems[0].place.statement or "")
    with pytest.raises(Refused) as refused:
        lower(function, TARGET)
    assert [d.code for d in refused.value.diagnostics] == ["V202"]
