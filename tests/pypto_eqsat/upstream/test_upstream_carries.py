"""Carries of partly valid accumulators (`spec/flatten.md` section 11): the rows of the file test_narrow_loop_carry_valid_shape.py."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import give, loop, main, scalar
from upstream_support import calls, incore, let, lowered_as_upstream, ops, out, ret, store, tensor, types

from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.stmt import Assign, walk
from pypto_ir.text import expr_text
from pypto_ir.types import Compact, Memory
from tests.carried_programs import carried, split_k


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
        optimize(split_k([64, 256], inside="v + 0 * k"), policy="upstream")
    assert "V304" in {d.code for d in caught.value.diagnostics}
    assert "w rows" in str(caught.value)
