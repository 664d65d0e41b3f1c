"""Scalars in front of their loops: what moves, what may not, and that a run finds the same either way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egraph_rules.invariants import hoisted
from pypto_ir.interp.compare import equivalent
from pypto_ir.stmt import Assign, For, Program, walk
from pypto_ir.verify import verify_program
from tests.helpers import Json, give, incore, let, load, loop, main, out, ret, scalar, store, tensor


def cut(*scalars: Json, rows: str = "w", trips: list[object] | None = None, before: list[Json] | None = None) -> Program:
    """Loads of so many rows, in a loop in a loop; the scalars stand in the inner one."""
    inner = [
        *scalars,
        load("t", "x", [0, "16 * k"], [32, 16], [rows, 16]),
        let("s", "tile.add", "a", "t"),
        give("s"),
    ]
    turn = [*(before or []), loop("k", trips or [0, 4, 1], {"a": "b"}, inner, ["r"]), give("r")]
    start = load("z", "x", [0, 0], [32, 16])
    return incore(
        [
            scalar("m", range=(4, 8)),
            tensor("x", 32, 64),
            tensor("ns", 4, dtype="INT32"),
            tensor("more", "m", dtype="INT32"),
            scalar("v", range=(1, 32)),
            scalar("n", range=(0, 4)),
            out("out_0", 32, 16),
        ],
        [start, loop("i", [0, 2, 1], {"b": "z"}, turn, ["q"]), store("o", "q", [0, 0], "out_0"), ret("o")],
    )


def depth(program: Program, name: str) -> int:
    """How many loops a scalar stands in."""
    loops = [s for s in walk(main(program).body) if isinstance(s, For)]
    return sum(any(isinstance(t, Assign) and t.targets[0].name == name for t in walk(s.body)) for s in loops)


def moved(program: Program, *names: str) -> Program:
    assert not verify_program(program)
    after = replace(program, functions=(hoisted(main(program), names), *program.functions[1:]))
    assert not verify_program(after)
    verdict = equivalent(program, after, seeds=range(3))
    assert verdict.equal
    return after


def test_a_scalar_and_what_it_is_computed_from_stand_in_front_of_all_loops() -> None:
    after = moved(cut({"let": "u", "expr": "v + 3"}, {"let": "w", "expr": "min(u, 30)"}), "w")
    assert (depth(after, "u"), depth(after, "w")) == (0, 0)


def test_what_changes_in_the_outer_loop_stays_in_it() -> None:
    after = moved(cut({"let": "w", "expr": "min(v, 8 + 4 * i)"}), "w")
    assert depth(after, "w") == 1


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("min(v, 8 + 4 * k)", id="it changes in every trip"),
        pytest.param("min(v, 32 // n)", id="nothing can be divided by 0"),
        pytest.param("min(v, 32 % n)", id="nothing has a rest by 0"),
    ],
)
def test_what_may_be_no_value_in_front_of_the_loop_stays(value: str) -> None:
    before = cut({"let": "w", "expr": value}, trips=["4 - n", 4, 1])
    assert hoisted(main(before), ("w",)) is main(before)


def test_a_scalar_that_is_not_asked_for_stays() -> None:
    before = cut({"let": "w", "expr": "min(v, 30)"})
    assert hoisted(main(before), ("u",)) is main(before)


def cell(tensor: str, at: object) -> list[Json]:
    return [let("c", "tensor.read", tensor, [at]), {"let": "w", "expr": 'min(cast(c, "INDEX"), 30)'}]


@pytest.mark.parametrize(
    ("tensor_", "at", "trips", "where"),
    [
        pytest.param("ns", 3, ["n", 4, 1], 0, id="a cell that is there"),
        pytest.param("ns", "i", [0, 4, 1], 1, id="a cell that is read in every run"),
        pytest.param("ns", "i", ["n", 4, 1], 2, id="a loop may run no trip"),
        pytest.param("more", 3, ["n", 4, 1], 2, id="a tensor may be shorter"),
    ],
)
def test_a_cell_is_read_early_where_it_is_surely_there(tensor_: str, at: object, trips: list[object], where: int) -> None:
    before = cut(*cell(tensor_, at), trips=trips)
    function = hoisted(main(before), ("w",))
    after = replace(before, functions=(function, *before.functions[1:]))
    assert not verify_program(after) and depth(after, "c") == depth(after, "w") == where


def test_a_cell_that_the_loop_writes_is_read_where_it_is() -> None:
    inner = [let("c", "tensor.read", "ns", [0]), let("ns2", "tensor.write", "ns", [0], {"const": 3, "dtype": "INT32"}), give("c")]
    outer = loop("k", [0, 4, 1], {"last": {"const": 0, "dtype": "INT32"}}, inner, ["r"])
    program = incore(
        [tensor("ns", 4, dtype="INT32", direction="InOut"), tensor("x", 16, 16), out("out_0", 16, 16)],
        [outer, load("t", "x", [0, 0], [16, 16]), store("o", "t", [0, 0], "out_0"), ret("ns", "o")],
    )
    assert not verify_program(program)
    assert hoisted(main(program), ("c",)) is main(program)
