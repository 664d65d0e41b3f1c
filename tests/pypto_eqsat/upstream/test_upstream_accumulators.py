"""Rows BatchMatmulAcc and RowWindowAccumulatorPacking of `spec/flatten.md` section 13, and every cause of 8.4 with its code."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Dim, Json, give, kernel, loop, main, scalar, shapes
from upstream_support import (
    calls,
    incore,
    ints,
    let,
    load,
    lowered_as_upstream,
    mat,
    ops,
    out,
    refused_by_upstream,
    ret,
    slices,
    store,
    store_offsets,
    tensor,
    types,
    windows,
)

from pypto_eqsat.driver import optimize
from pypto_ir.expr import Const
from pypto_ir.stmt import For, Program, walk
from pypto_ir.text import expr_text
from pypto_ir.types import Memory, TileType


def create(name: str, shape: list[int], dtype: str = "FP32", memory: str = "Acc", **more: Any) -> Json:
    return let(name, "tile.create", shape, dtype=dtype, target_memory=memory, **more)


def batch_acc(m: int, n: int, steps: int = 2, *, batch: int = 2, k: int = 32, carried: bool = False) -> Program:
    """Products of k columns each are added to one batched accumulator, which is stored."""
    shape = [batch, m, n]

    def step(i: int, acc: str, at: Dim) -> list[Json]:
        return [
            mat(f"a{i}", "x", [0, 0, at], [batch, m, k]),
            mat(f"b{i}", "y", [0, at, 0], [batch, k, n]),
            let(f"c{i}", "tile.batch_matmul_acc", acc, f"a{i}", f"b{i}", f"{at} == 0"),
        ]

    if carried:
        work = [loop("k", [0, steps * k, k], {"acc": "z"}, [*step(0, "acc", "k"), give("c0")], ["r"])]
    else:
        work = [s for i in range(steps) for s in step(i, "z" if i == 0 else f"c{i - 1}", i * k)]
    return incore(
        [tensor("x", batch, m, steps * k, dtype="FP16"), tensor("y", batch, steps * k, n, dtype="FP16"), out("out_0", *shape)],
        [
            create("z", shape),
            *work,
            store("out_1", "r" if carried else f"c{steps - 1}", [0, 0, 0], "out_0"),
            ret("out_1"),
        ],
    )


# BatchMatmulAcc


def test_two_steps_pack_their_pages_by_columns() -> None:
    after = lowered_as_upstream(batch_acc(16, 64))
    found = ops(after)
    assert found.count("create") == 1 and types(after)["z"].static_shape == (16, 128) and types(after)["z"].memory is Memory.ACC
    assert (found.count("matmul_acc"), found.count("matmul"), found.count("move")) == (4, 0, 0)
    cut = [at for shape, at in slices(after) if shape == [16, 64]]
    assert cut == [[0, 0], [0, 64]] * 3  # four windows and two drains
    assert store_offsets(after) == [[0, 0, 0], [1, 0, 0]] and windows(after) == [[1, 16, 64]] * 2


def test_window_and_write_back_share_one_offset() -> None:
    after = lowered_as_upstream(batch_acc(16, 64))
    written = calls(after, "tile.assemble")
    cut = [c for c in calls(after, "tile.slice") if ints(c, 1) == [16, 64]]
    assert all(any(w.args[2] is c.args[2] for c in cut) for w in written) and len(written) == 4


def test_carried_accumulator_is_one_iter_arg() -> None:
    after = lowered_as_upstream(batch_acc(16, 64, carried=True))
    (inner,) = [s for s in walk(main(after).body) if isinstance(s, For)]
    assert [c.var.type.static_shape for c in inner.carries if isinstance(c.var.type, TileType)] == [(16, 128)]
    cut = [at for shape, at in slices(after) if shape == [16, 64]]
    assert cut == [[0, 0], [0, 64], [0, 0], [0, 64]]
    assert all(len(c.args) == 4 for c in calls(after, "tile.matmul_acc"))


def test_batch_acc_kernel_is_one_accumulator_of_128_columns() -> None:
    after = lowered_as_upstream(kernel("batch_acc_k_loop"))
    assert shapes(after, "batch_acc")["acc0"] == (16, 128)
    found = ops(after, "batch_acc")
    assert (found.count("matmul_acc"), found.count("store"), found.count("move"), found.count("create")) == (2, 2, 0, 1)


def test_product_that_begins_an_accumulator_is_written_with_a_true_predicate() -> None:
    before = incore(
        [tensor("x", 2, 16, 64, dtype="FP16"), tensor("y", 2, 64, 64, dtype="FP16"), out("out_0", 2, 16, 64)],
        [
            mat("a", "x", [0, 0, 0], [2, 16, 64]),
            mat("b", "y", [0, 0, 0], [2, 64, 64]),
            let("z", "tile.batch_matmul", "a", "b"),
            let("c", "tile.batch_matmul_acc", "z", "a", "b"),
            store("out_1", "c", [0, 0, 0], "out_0"),
            ret("out_1"),
        ],
    )
    after = lowered_as_upstream(before)
    found = ops(after)
    assert (found.count("create"), found.count("matmul"), found.count("matmul_acc"), found.count("move")) == (1, 0, 4, 0)
    predicates = [c.args[3].value for c in calls(after, "tile.matmul_acc")[:2] if isinstance(c.args[3], Const)]
    assert predicates == [True, True]
    assert [len(c.args) for c in calls(after, "tile.matmul_acc")[2:]] == [3, 3]


def test_narrow_unaligned_pages_stay_below_each_other() -> None:
    after = lowered_as_upstream(
        batch_acc(8, 16),
        faults=("W402 the box [2, 8, 16] of an accumulator", *("V303 tile.matmul_acc writes 8 rows of the window [8, 16]",) * 4),
    )
    assert types(after)["z"].static_shape == (16, 16)
    cut = [at for shape, at in slices(after) if shape == [8, 16]]
    assert cut[-2:] == [[0, 0], [8, 0]]
    assert windows(after) == [[2, 8, 16]] and ops(after).count("store") == 1


def test_accumulator_of_batch_one_needs_no_packing() -> None:
    after = lowered_as_upstream(batch_acc(16, 24, batch=1, carried=True))
    assert ops(after).count("matmul_acc") == 1 and "move" not in ops(after) and "assemble" not in ops(after)


COLUMNS = ("packed along COLUMNS", "write the batch loop out in the kernel")


def test_pages_of_24_columns_are_refused() -> None:
    refused_by_upstream(batch_acc(16, 24), "L426", "16x24 FP32 pages", "N=24 is not a multiple of 16", *COLUMNS)


def test_pages_of_24_rows_are_refused() -> None:
    refused_by_upstream(batch_acc(24, 32), "L425", "M=24 is not a multiple of 16", *COLUMNS)


def test_accumulator_larger_than_l0c_is_refused_on_the_smaller_machine_only() -> None:
    before = batch_acc(128, 256, carried=True)
    refused_by_upstream(before, "L427", "262144 bytes of Acc (L0C)", "131072-byte budget", *COLUMNS)
    after = optimize(before, policy="upstream", target="ascend950", validate=False).program
    assert types(after)["z"].static_shape == (128, 512)


def two_allocations(join: str) -> Program:
    return incore(
        [
            tensor("x", 2, 16, 64, dtype="FP16"),
            tensor("y", 2, 64, 64, dtype="FP16"),
            scalar("n", range=(0, 1)),
            out("out_0", 2, 16, 64),
        ],
        [
            mat("a", "x", [0, 0, 0], [2, 16, 64]),
            mat("b", "y", [0, 0, 0], [2, 64, 64]),
            create("z", [2, 16, 64]),
            {
                "if": "n > 0",
                "then": [let("m", "tile.batch_matmul", "a", "b"), give("m")],
                "else": [let("c", "tile.batch_matmul_acc", "z", "a", "b", join), give("c")],
                "results": ["r"],
            },
            store("out_1", "r", [0, 0, 0], "out_0"),
            ret("out_1"),
        ],
    )


def test_two_allocations_that_control_flow_merges_are_refused() -> None:
    words = ("allocated by 2 separate definitions", "L0C-to-L0C copy", "single allocation")
    refused_by_upstream(two_allocations("n == 0"), "L423", *words, without=("COLUMNS",))


def chained(body: list[Json], result: str = "c", **more: Any) -> Program:
    """A chain that begins with `z`, of which `body` says the rest; products are a times b."""
    return incore(
        [tensor("x", 2, 16, 64, dtype="FP16"), tensor("y", 2, 64, 64, dtype="FP16"), tensor("f", 2, 16, 64), out("out_0", 2, 16, 64)],
        [
            mat("a", "x", [0, 0, 0], [2, 16, 64]),
            mat("b", "y", [0, 0, 0], [2, 64, 64]),
            *body,
            store("out_1", result, [0, 0, 0], "out_0"),
            ret("out_1"),
        ],
        **more,
    )


ADDED = let("c", "tile.batch_matmul_acc", "z", "a", "b")


def test_accumulator_that_another_op_made_is_refused_with_the_real_cause() -> None:
    before = chained([load("z", "f", [0, 0, 0], [2, 16, 64]), ADDED])
    words = ("produced by tile.load", "cannot write Acc (L0C) at all", "fails the same way at batch 1")
    refused_by_upstream(before, "L435", *words, without=("packed along COLUMNS",))


def test_accumulator_that_is_moved_is_refused_with_the_layout() -> None:
    before = chained([create("z", [2, 16, 64]), ADDED, let("v", "tile.move", "c", target_memory="Vec")], "v")
    words = ("drained by tile.move", "keep L0C's block layout", "not specific to accumulators")
    refused_by_upstream(before, "L439", *words, without=("COLUMNS",))


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [
        ("L433", [create("z", [2, 16, 64], memory="Vec"), ADDED], "annotated to live in Vec memory"),
        ("L440", [create("z", [2, 16, 64]), ADDED, let("e", "tile.exp", "c")], "consumed by tile.exp"),
        ("L440", [create("z", [2, 16, 64]), ADDED, let("r", "tile.reshape", "z", [4, 8, 64])], "consumed by tile.reshape"),
    ],
    ids=["memory", "read", "reshaped"],
)
def test_other_members_and_readers_are_refused(code: str, body: list[Json], words: str) -> None:
    refused_by_upstream(chained(body), code, words, *COLUMNS)


def test_store_with_a_box_of_its_own_is_refused() -> None:
    body = [create("z", [2, 16, 64]), ADDED]
    before = incore(
        [tensor("x", 2, 16, 64, dtype="FP16"), tensor("y", 2, 64, 64, dtype="FP16"), out("out_0", 2, 16, 64)],
        [
            mat("a", "x", [0, 0, 0], [2, 16, 64]),
            mat("b", "y", [0, 0, 0], [2, 64, 64]),
            *body,
            store("out_1", "c", [0, 0, 0], "out_0", [2, 16, 64]),
            ret("out_1"),
        ],
    )
    refused_by_upstream(before, "L438", "cannot be split into one store per batch page", *COLUMNS)


def test_branch_that_accumulates_in_one_arm_is_packed() -> None:
    arms = {"if": "1 > 0", "then": [ADDED, give("c")], "else": [give("z")], "results": ["r"]}
    first = let("z", "tile.batch_matmul", "a", "b")
    after = lowered_as_upstream(chained([first, arms], "r"))
    assert shapes(after)["z"] == (16, 128)


# RowWindowAccumulatorPacking


def row_windows(
    rows: int,
    cols: int,
    cut: list[tuple[list[int], list[Dim]]],
    back: list[list[Dim]] | None = None,
    dtype: str = "FP16",
    first: tuple[Json, ...] = (),
) -> Program:
    """Windows of an accumulator [rows, cols] are accumulated into and written back at the offsets `back`, by default their own."""
    held = "INT32" if dtype == "INT8" else "FP32"
    body: list[Json] = [*first, create("z", [rows, cols], dtype=held)]
    acc = "z"
    for i, (shape, at) in enumerate(cut):
        body += [
            mat(f"a{i}", "x", [0, 0], [shape[0], 32]),
            mat(f"b{i}", "y", [0, 0], [32, shape[1]]),
            let(f"w{i}", "tile.slice", acc, shape, at),
            let(f"m{i}", "tile.matmul_acc", f"w{i}", f"a{i}", f"b{i}", "n == 0"),
            let(f"z{i}", "tile.assemble", acc, f"m{i}", back[i] if back else at),
        ]
        acc = f"z{i}"
    return incore(
        [
            tensor("x", 64, 32, dtype=dtype),
            tensor("y", 32, max(cols, 16), dtype=dtype),
            scalar("n", range=(0, 1)),
            out("out_0", rows, cols, dtype=held),
        ],
        [*body, store("out_1", acc, [0, 0], "out_0"), ret("out_1")],
    )


def test_row_windows_become_columns_and_their_rows_come_back_at_the_store() -> None:
    after = lowered_as_upstream(row_windows(32, 32, [([16, 32], [0, 0]), ([16, 32], [16, 0])]))
    assert types(after)["z"].static_shape == (16, 64)
    assert [at for shape, at in slices(after) if shape == [16, 32]] == [[0, 0], [0, 32], [0, 0], [0, 32]]
    assert [ints(c, 2) for c in calls(after, "tile.assemble")] == [[0, 0], [0, 32]]
    assert store_offsets(after) == [[0, 0], [16, 0]] and windows(after) == [None, None]


def test_row_windows_kernel_divides_its_row_offset_as_it_is_written() -> None:
    after = lowered_as_upstream(kernel("row_windows"))
    name = "row_windows"
    assert shapes(after, name)["acc0"] == (16, 128)
    (cut,) = [c for c in calls(after, "tile.slice", name) if not all(isinstance(e, Const) for e in c.args[2].items)]  # type: ignore[union-attr]
    assert expr_text(cut.args[2].items[1]) == "t0 // 16 * 32"  # type: ignore[union-attr]
    assert [ints(c, 1) for c in calls(after, "tile.store", name)] == [[0, 0], [16, 0], [32, 0], [48, 0]]


@pytest.mark.parametrize(
    ("rows", "cols", "cut"),
    [
        (32, 16, [([16, 16], [16, 0])]),
        (48, 16, [([32, 16], [0, 0]), ([16, 16], [32, 0])]),
        (48, 32, [([32, 16], [0, 0]), ([16, 16], [32, 16])]),
    ],
    ids=["narrow accumulator", "mixed heights", "narrow windows of a wide parent"],
)
def test_windows_inside_one_block_of_columns_stay_as_they_are(rows: int, cols: int, cut: list[Any]) -> None:
    before = row_windows(rows, cols, cut)
    assert optimize(before, policy="upstream").program is before


@pytest.mark.parametrize(
    ("rows", "cols", "cut", "back", "code", "words"),
    [
        (32, 32, [([16, 32], [8, 0])], [[8, 0]], "L436", "aligned row offset"),
        (32, 32, [([16, 32], [0, 0])], [[16, 0]], "L437", "original window"),
        (48, 32, [([16, 32], [0, 0]), ([24, 32], [24, 0])], None, "L422", "row windows of different heights (16 and 24 rows)"),
        (40, 32, [([16, 32], [0, 0])], None, "L420", "evenly divide the parent row extent; got 16 rows in a 40-row accumulator"),
        (32, 24, [([16, 24], [0, 0])], None, "L426", "N=24 is not a multiple of 16"),
        (24, 32, [([8, 32], [8, 0])], None, "L425", "M=8 is not a multiple of 16"),
        (32, 32, [([16, 32], ["n", 0])], None, "L436", "aligned row offset"),
    ],
    ids=str,
)
def test_row_windows_that_cannot_be_packed_are_refused(rows: int, cols: int, cut: list[Any], back: Any, code: str, words: str) -> None:
    refused_by_upstream(row_windows(rows, cols, cut, back), code, words, without=("batch_matmul_acc",))


def test_narrow_window_that_straddles_two_blocks_is_packed_and_then_not_addressable() -> None:
    refused_by_upstream(row_windows(32, 32, [([16, 16], [16, 8])]), "V302", "the window [16, 16] at [0, 40] of an accumulator [16, 64]")


@pytest.mark.parametrize(("offset", "height", "fits"), [("n * 16", 16, True), ("n * 8", 16, False), ("n * 48", 48, False)])
def test_alignment_is_proved_for_powers_of_two_only(offset: str, height: int, fits: bool) -> None:
    before = row_windows(2 * height, 32, [([height, 32], ["t", 0])], first=({"let": "t", "expr": offset},))
    if fits:
        assert types(lowered_as_upstream(before))["z"].static_shape == (height, 64)
    else:
        refused_by_upstream(before, "L436", "aligned row offset")


def test_int32_windows_take_twice_the_rows_on_the_smaller_machine() -> None:
    before = row_windows(1024, 32, [([16, 32], [16, 0])], dtype="INT8")
    refused_by_upstream(before, "L428", "physical L0C capacity after row alignment")
    assert types(optimize(before, policy="upstream", target="ascend950", validate=False).program)["z"].static_shape == (16, 2048)
