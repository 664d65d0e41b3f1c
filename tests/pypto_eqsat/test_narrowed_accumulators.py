"""Accumulators of products that fill a part of their rows: the rows of `spec/flatten.md` 11 and 13 without upstream's pass, batches, and
what keeps an accumulator as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from egraph_rules.narrowed import narrow_accumulators
from extract.price import price_program
from extract.target import load_target
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused, Severity
from pypto_ir.interp.compare import equivalent
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import For, Program, definitions, walk
from pypto_ir.text import expr_text
from pypto_ir.types import Compact, Memory
from pypto_ir.verify import accumulators, verify_program
from tests.carried_programs import carried, split_k
from tests.generators import check_accumulators
from tests.helpers import Json, calls, give, incore, let, load, loop, main, ops, out, ret, scalar, store, tensor, tile, types


def lowered(before: Program) -> Program:
    """The result, which runs rightly in the blocks of L0C and which a second run does not change."""
    result = optimize(before, policy_cost=True)
    after = result.program
    assert not [d for f in after.functions for d in accumulators(f)] and all(d.severity is Severity.NOTE for d in result.diagnostics)
    assert result.stats["validated"]["equal"]
    assert result.stats["cost"] == pytest.approx(sum(p.cost for p in price_program(after, load_target(after.target)).values()))
    assert result.stats["policy_cost"] is None or result.stats["cost"] <= result.stats["policy_cost"] * (1 + 1e-9)
    verdict = equivalent(before, after, mode="l0c", seeds=range(3), seconds=5.0)
    assert verdict.equal and (verdict.validated or after is before)
    assert write_program(optimize(after).program) == write_program(after)
    return after


@pytest.mark.parametrize("shape", [[64, 256], [1, 64, 256]])
def test_seed_is_declared_by_its_valid_rows_and_stored_by_them(shape: list[int]) -> None:
    after = lowered(split_k(shape))
    (create,) = [c for c in calls(after, "tile.create") if c.kwarg("compact")]
    assert create.kwarg("target_memory") == "Acc" and ops(after).count("set_validshape") == 1
    (t,) = carried(after)
    assert [expr_text(e) for e in t.valid] == ["v", "256"] and t.static_shape == (64, 256)
    assert (t.memory, t.effective_view.compact) == (Memory.ACC, Compact.NORMAL)
    (drain,) = calls(after, "tile.store")
    assert [expr_text(e) for e in drain.args[0].type.valid] == ["v", "256"]  # type: ignore[union-attr]
    assert len(drain.args) == 3 or [expr_text(e) for e in drain.args[3].items] == ["1", "v", "256"]  # type: ignore[union-attr]


def test_narrowed_carry_reaches_the_carry_of_a_later_loop() -> None:
    after = lowered(split_k([64, 256], again=True))
    assert [[expr_text(e) for e in t.valid] for t in carried(after)] == [["v", "256"]] * 2
    assert ops(after).count("set_validshape") == 1


def test_alias_of_the_seed_is_typed_anew() -> None:
    after = lowered(split_k([64, 256], alias=True))
    assert [expr_text(e) for e in carried(after)[0].valid] == ["v", "256"]


@pytest.mark.parametrize(("shape", "valid"), [([16, 256], "v"), ([8, 256], "v"), ([64, 256], 64), ([64, 256], 52), ([64, 16], "v")])
def test_accumulator_whose_rows_have_one_pitch_is_left_alone(shape: list[int], valid: Any) -> None:
    after = lowered(split_k(shape, valid))
    assert "set_validshape" not in ops(after)


@pytest.mark.parametrize("valid", ["v", 20])
def test_batch_becomes_a_narrow_tile_for_each_page(valid: Any) -> None:
    """Side by side the pages would lie at the pitch of all their rows."""
    after = lowered(split_k([3, 64, 64], valid))
    assert ops(after).count("set_validshape") == 3 and len(carried(after)) == 3
    assert {tuple(expr_text(e) for e in t.valid) for t in carried(after)} == {(str(valid), "64")}


def test_pages_of_one_block_of_rows_stand_side_by_side_however_many_rows_are_valid() -> None:
    after = lowered(split_k([3, 16, 64]))
    assert [t.static_shape for t in carried(after)] == [(16, 192)]


# ---- one accumulator, several products ---------------------------------------------------------------------


def several(
    *rows: Any,
    use: Callable[[str], list[Json]] | None = None,
    outs: tuple[list[int], ...] = ([64, 64],),
    between: Json | None = None,
) -> Program:
    """Products of the given rows onto one accumulator [64, 64], which `use` stores in "out_0"."""
    body: list[Json] = [let("acc", "tile.create", [64, 64], dtype="FP32", target_memory="Acc"), *([between] if between else [])]
    body += [load("b", "y", [0, 0], [16, 64], memory="Mat")]
    last = "acc"
    for i, n in enumerate(rows):
        body += [load(f"a{i}", "x", [0, 0], [64, 16], [n, 16], memory="Mat")]
        body += [let(f"m{i}", "tile.matmul_acc", last, f"a{i}", "b", {"const": i == 0, "dtype": "BOOL"})]
        last = f"m{i}"
    body += use(last) if use else [store("o", last, [0, 0], "out_0"), ret("o")]
    params = [tensor("x", 64, 16, dtype="FP16"), tensor("y", 16, 64, dtype="FP16"), scalar("v", range=(1, 32))]
    return incore([*params, *(out(f"out_{i}", *shape) for i, shape in enumerate(outs))], body)


def narrowed(before: Program) -> bool:
    assert not verify_program(before)
    return "set_validshape" in ops(replace(before, functions=(narrow_accumulators(main(before)),)))


def assert_by_blocks(before: Program) -> None:
    """Products are written a column of blocks at a time, and every promise is kept."""
    assert not narrowed(before)
    outcome = check_accumulators(before)
    assert outcome.changed and outcome.ran
    after = optimize(before, validate=False).program
    assert 16 in {c.args[0].type.static_shape[1] for c in calls(after, "tile.matmul_acc")}  # type: ignore[union-attr]


def test_rows_that_are_computed_inside_the_loop_have_no_name_before_it() -> None:
    assert_by_blocks(split_k([64, 256], inside="v + 0 * k"))


def test_rows_that_are_the_same_in_every_step_are_computed_before_the_loop() -> None:
    after = lowered(split_k([64, 256], inside="min(v, 40)"))
    assert [expr_text(e) for e in carried(after)[0].valid] == ["w", "256"] and ops(after).count("set_validshape") == 1
    (turn,) = [s for s in walk(main(after).body) if isinstance(s, For)]
    assert "w" not in {v.name for s in turn.body for v in definitions(s)}


def test_products_of_equal_rows_are_narrowed_in_a_straight_line() -> None:
    after = lowered(several("v", "v"))
    assert types(after)["m1"].valid[0] == types(after)["m0"].valid[0] and ops(after).count("set_validshape") == 1


def test_rows_that_are_known_after_the_create_and_before_its_use_are_taken() -> None:
    after = lowered(several("w", between={"let": "w", "expr": "v + 1"}))
    assert ops(after).index("set_validshape") < ops(after).index("matmul_acc")


@pytest.mark.parametrize("rows", [(64, "v"), ("v", 64), ("v", 20), (20, 40)])
def test_products_of_different_rows_share_no_pitch(rows: tuple[Any, ...]) -> None:
    """The rows of the longer one would be lost; a column of blocks has no pitch."""
    assert_by_blocks(several(*rows))


def test_products_of_different_rows_and_one_pitch_are_left_alone() -> None:
    assert not narrowed(several(50, 60)) and not narrowed(several(64, 49))


def test_what_is_moved_on_is_narrow_too() -> None:
    def moved(last: str) -> list[Json]:
        return [
            let("u", "tile.move", last, target_memory="Vec"),
            let("e", "tile.muls", "u", {"const": 2.0, "dtype": "FP32"}),
            store("o", "e", [0, 0], "out_0"),
            ret("o"),
        ]

    after = lowered(several("v", use=moved))
    assert expr_text(types(after)["e"].valid[0]) == "v"


def test_windows_of_a_narrow_accumulator_have_no_address() -> None:
    def cut(last: str) -> list[Json]:
        return [let("w", "tile.slice", last, [64, 32], [0, 32]), store("o", "w", [0, 0], "out_0"), ret("o")]

    assert_by_blocks(several("v", use=cut))


def test_a_window_from_inside_a_block_on_is_told_of_as_it_was_written() -> None:
    """24 columns from 72 on are no columns of blocks: nothing is written there in smaller steps, and no name of ours is told."""
    body = [
        load("a", "x", [0, 0], [32, 16], memory="Mat"),
        load("b", "y", [0, 0], [16, 96], memory="Mat"),
        let("m", "tile.matmul", "a", "b"),
        let("w", "tile.slice", "m", [32, 24], [0, 72]),
        load("c", "x", [0, 0], [32, 16], ["v", 16], memory="Mat"),
        load("d", "y", [0, 0], [16, 24], memory="Mat"),
        let("n", "tile.matmul_acc", "w", "c", "d"),
        let("r", "tile.assemble", "m", "n", [0, 72]),
        store("o", "r", [0, 0], "out"),
        ret("o"),
    ]
    params = [tensor("x", 32, 16, dtype="FP16"), tensor("y", 16, 96, dtype="FP16"), scalar("v", range=(0, 32)), out("out", 32, 96)]
    with pytest.raises(Refused) as caught:
        optimize(incore(params, body, target="ascend950"))
    assert {d.code for d in caught.value.diagnostics} == {"V302", "V304"}
    assert {d.place.statement for d in caught.value.diagnostics} == {"n = tile.matmul_acc"}


def test_what_a_loop_hands_on_beside_the_accumulator_keeps_its_type() -> None:
    """The moved tile would be carried under a type of fewer rows, and the carry begins with all of them."""

    def handed(last: str) -> list[Json]:
        turn = [let("u", "tile.move", last, target_memory="Vec"), give("u")]
        full = let("f", "tile.full", [64, 64], {"const": 0.0, "dtype": "FP32"}, dtype="FP32")
        return [full, loop("i", [0, 2, 1], {"c": "f"}, turn, ["r"]), store("o", "r", [0, 0], "out_0"), ret("o")]

    assert_by_blocks(several("v", use=handed))


def test_box_that_splits_the_rows_keeps_the_accumulator_as_it_is() -> None:
    def split(last: str) -> list[Json]:
        return [store("o", last, [0, 0, 0], "out_0", [2, 32, 64]), ret("o")]

    assert_by_blocks(several("v", use=split, outs=([2, 32, 64],)))


def test_accumulator_that_comes_from_outside_keeps_its_type() -> None:
    params = [tile("acc", 64, 64, memory="Acc"), tensor("x", 64, 16, dtype="FP16"), tensor("y", 16, 64, dtype="FP16"), out("out_0", 64, 64)]
    body = [
        load("a", "x", [0, 0], [64, 16], [20, 16], memory="Mat"),
        load("b", "y", [0, 0], [16, 64], memory="Mat"),
        let("m", "tile.matmul_acc", "acc", "a", "b"),
        store("o", "m", [0, 0], "out_0"),
        ret("o"),
    ]
    assert_by_blocks(incore(params, body))
