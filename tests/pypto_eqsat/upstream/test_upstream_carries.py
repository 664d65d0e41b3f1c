"""Carries of partly valid accumulators (`spec/flatten.md` section 11): the rows of the file test_narrow_loop_carry_valid_shape.py."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, give, loop, main, scalar
from upstream_support import calls, incore, let, lowered_as_upstream, mat, ops, out, ret, store, tensor, types

from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.stmt import Assign, For, Program, walk
from pypto_ir.text import expr_text
from pypto_ir.types import Compact, Memory, TileType


def split_k(
    shape: list[int], valid: Any = "v", *, memory: str = "Acc", alias: bool = False, again: bool = False, inside: bool = False
) -> Program:
    """A K loop over products of `valid` rows: the first step multiplies, every other one adds."""
    rows, cols = shape[-2:]
    lead = shape[:-2]
    batched = "batch_" if lead else ""
    zeros = [0] * len(lead)
    region = [*lead, "w" if inside else valid, 64]
    start: Json = let("z", "tile.create", shape, dtype="FP32", target_memory=memory)

    def step(i: int, acc: str, result: str) -> list[Json]:
        return [
            *([{"let": f"w{i}" if i else "w", "expr": "v + 0 * k"}] if inside else []),
            mat(f"a{i}", "x", [*zeros, 0, "k"], [*lead, rows, 64], region),
            mat(f"b{i}", "y", [*zeros, "k", 0], [*lead, 64, cols]),
            {
                "if": "k == 0",
                "then": [let(f"p{i}", f"tile.{batched}matmul", f"a{i}", f"b{i}"), give(f"p{i}")],
                "else": [let(f"q{i}", f"tile.{batched}matmul_acc", acc, f"a{i}", f"b{i}"), give(f"q{i}")],
                "results": [result],
            },
        ]

    body: list[Json] = [start, *([{"let": "z2", "expr": "z"}] if alias else [])]
    body.append(loop("k", [0, 128, 64], {"acc": "z2" if alias else "z"}, [*step(0, "acc", "n"), give("n")], ["r"]))
    last = "r"
    if again:
        body.append(loop("k", [0, 128, 64], {"acc2": "r"}, [*step(1, "acc2", "n1"), give("n1")], ["r2"]))
        body[-1]["for"] = "k2"
        body[-1]["body"] = [_renamed(s) for s in body[-1]["body"]]
        last = "r2"
    return incore(
        [
            tensor("x", *lead, rows, 128, dtype="FP16"),
            tensor("y", *lead, 128, cols, dtype="FP16"),
            scalar("v", range=(1, rows)),
            out("out_0", *shape),
        ],
        [*body, store("out_1", last, [0] * len(shape), "out_0"), ret("out_1")],
    )


def _renamed(value: Any) -> Any:
    """The loop variable k as k2."""
    if isinstance(value, dict):
        return {key: _renamed(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_renamed(v) for v in value]
    return {"k": "k2", "k == 0": "k2 == 0", "v + 0 * k": "v + 0 * k2"}.get(value, value) if isinstance(value, str) else value


def carried(p: Program) -> list[TileType]:
    """The tiles that the loops of a function carry."""
    found = [c.var.type for s in walk(main(p).body) if isinstance(s, For) for c in s.carries]
    return [t for t in found if isinstance(t, TileType)]


def test_seed_is_declared_again_as_a_compact_box_of_the_valid_rows() -> None:
    after = lowered_as_upstream(split_k([64, 256]))
    compact = [c for c in calls(after, "tile.create") if c.kwarg("compact")]
    assert len(compact) == 1 and compact[0].kwarg("target_memory") == "Acc"
    assert ops(after).count("set_validshape") == 1
    found = types(after)
    assert found["z_narrowed_storage"].effective_view.compact is Compact.NORMAL
    (t,) = carried(after)
    assert [expr_text(e) for e in t.valid] == ["v", "256"]
    assert (t.memory, t.effective_view.compact) == (Memory.ACC, Compact.NORMAL)


def test_carry_of_an_nd_seed_is_repaired_and_stored_by_its_valid_rows() -> None:
    after = lowered_as_upstream(split_k([1, 64, 256]))
    (t,) = carried(after)
    assert [expr_text(e) for e in t.valid] == ["min(v, 64)", "256"] and t.static_shape == (64, 256)
    assert len([c for c in calls(after, "tile.create") if c.kwarg("compact")]) == 1


def test_repaired_carry_reaches_the_carry_of_a_later_loop() -> None:
    after = lowered_as_upstream(split_k([64, 256], again=True))
    assert [[expr_text(e) for e in t.valid] for t in carried(after)] == [["v", "256"]] * 2
    assert ops(after).count("set_validshape") == 1


def test_alias_of_the_seed_is_looked_through() -> None:
    after = lowered_as_upstream(split_k([64, 256], alias=True))
    assert [expr_text(e) for e in carried(after)[0].valid] == ["v", "256"]
    assert "z_narrowed" in {s.target.name for s in walk(main(after).body) if isinstance(s, Assign)}


@pytest.mark.parametrize(
    ("shape", "valid"), [([16, 256], "v"), ([64, 256], 64), ([64, 256], 52)], ids=["one block of rows", "all rows", "the same pitch"]
)
def test_carry_whose_rows_have_one_pitch_is_left_alone(shape: list[int], valid: Any) -> None:
    after = lowered_as_upstream(split_k(shape, valid))
    assert ops(after).count("create") == 1 and "set_validshape" not in ops(after)


def test_carry_in_vec_is_left_alone() -> None:
    before = incore(
        [tensor("x", 64, 256), scalar("v", range=(1, 64)), out("out_0", 64, 256)],
        [
            let("z", "tile.create", [64, 256], dtype="FP32", target_memory="Vec"),
            loop(
                "k",
                [0, 2, 1],
                {"acc": "z"},
                [let("n", "tile.load", "x", [0, 0], [64, 256], ["v", 256], target_memory="Vec"), give("n")],
                ["r"],
            ),
            store("out_1", "r", [0, 0], "out_0"),
            ret("out_1"),
        ],
    )
    after = lowered_as_upstream(before)
    assert after is before


def test_extent_that_is_computed_inside_the_loop_is_declined_and_refused() -> None:
    with pytest.raises(Refused) as caught:
        optimize(split_k([64, 256], inside=True), policy="upstream")
    assert "V304" in {d.code for d in caught.value.diagnostics}
    assert "w rows" in str(caught.value)
