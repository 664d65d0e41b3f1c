"""Cells and windows of N-D tiles: read, write, slice and assemble.

A cell has one place in the collapse; a window is one run of rows, several of them, or parts of pages.
"""

from __future__ import annotations

import pytest
from helpers import (
    assert_all_2d,
    calls,
    const,
    incore,
    ints,
    let,
    load,
    loop,
    lowered,
    ops,
    out,
    refused,
    ret,
    scalar,
    shapes,
    store,
    tensor,
)

from pypto_ir.expr import Var
from pypto_ir.stmt import Program

# cells


def with_cell_written(at: list[int | str]) -> Program:
    """A cell of [2, 3, 8] read, doubled and written to its neighbour."""
    return incore(
        [tensor("x", 2, 3, 8), scalar("k", range=(0, 1)), out("out_0", 2, 3, 8)],
        [
            load("t", "x", [0, 0, 0], [2, 3, 8]),
            let("v", "tile.read", "t", at),
            let("d", "tile.adds", "t", "v"),
            let("w", "tile.write", "d", [1, 2, 7], "v"),
            store("o", "w", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )


def test_cells_are_read_and_written_at_their_place_in_the_collapse() -> None:
    after = lowered(with_cell_written([1, 1, 5]), dearer=True)
    assert ops(after) == ["load", "read", "adds", "write", "store"]
    assert ints(calls(after, "tile.read")[0], 1) == [4, 5]
    assert ints(calls(after, "tile.write")[0], 1) == [5, 7]


def test_cell_at_a_run_time_index_is_read_at_its_row() -> None:
    after = lowered(with_cell_written(["k", "k + 1", 0]), dearer=True)
    assert ints(calls(after, "tile.read")[0], 1) == [None, 0]


def test_cells_that_a_loop_writes_are_carried_flat() -> None:
    before = incore(
        [tensor("x", 2, 4, 8), out("out_0", 2, 4, 8)],
        [
            load("t", "x", [0, 0, 0], [2, 4, 8]),
            loop(
                "i",
                [0, 4, 1],
                {"acc": "t"},
                [let("v", "tile.read", "acc", [0, "i", 1]), let("w", "tile.write", "acc", [1, "i", 0], "v"), {"yield": ["w"]}],
                ["end"],
            ),
            store("o", "end", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    after = lowered(before, dearer=True)
    assert_all_2d(after)
    assert ops(after) == ["load", "read", "write", "store"]


def test_tile_whose_cell_is_written_while_its_old_value_is_read_is_copied() -> None:
    before = incore(
        [tensor("x", 2, 3, 8), out("out_0", 2, 3, 8), out("out_1", 2, 3, 8)],
        [
            load("t", "x", [0, 0, 0], [2, 3, 8]),
            let("v", "tile.read", "t", [0, 0, 0]),
            let("w", "tile.write", "t", [1, 0, 3], "v"),
            store("o", "w", [0, 0, 0], "out_0"),
            store("p", "t", [0, 0, 0], "out_1"),
            ret("o", "p"),
        ],
    )
    after = lowered(before, dearer=True)
    written = calls(after, "tile.write")[0].args[0]
    stored = [call.args[0] for call in calls(after, "tile.store")]
    assert isinstance(written, Var) and written not in stored


# windows in pieces


def written(source: list[int], at: list[int | str], shape: tuple[int, ...] = (4, 8, 16), dtype: str = "FP32") -> Program:
    """A tile written into a window of another one."""
    return incore(
        [
            tensor("x", *shape, dtype=dtype),
            tensor("w", *source, dtype=dtype),
            scalar("k", range=(0, 2)),
            out("out_0", *shape, dtype=dtype),
        ],
        [
            load("t", "x", [0] * len(shape), shape),
            load("s", "w", [0] * len(source), source),
            let("y", "tile.assemble", "t", "s", at),
            store("o", "y", [0] * len(shape), "out_0"),
            ret("o"),
        ],
    )


def read(window: list[int], at: list[int | str], *more: list[int], shape: tuple[int, ...] = (4, 8, 16), dtype: str = "FP32") -> Program:
    """A window of a computed tile, doubled."""
    kept = [n for i, n in enumerate(window) if not more or i not in more[-1]]
    return incore(
        [tensor("x", *shape, dtype=dtype), scalar("k", range=(0, 2)), out("out_0", *kept, dtype=dtype)],
        [
            load("w", "x", [0] * len(shape), shape),
            let("t", "tile.neg", "w"),
            let("y", "tile.slice", "t", window, at, *more),
            let("z", "tile.add", "y", "y"),
            store("o", "z", [0] * len(kept), "out_0"),
            ret("o"),
        ],
    )


def test_window_of_several_pages_is_written_page_by_page() -> None:
    after = lowered(written([2, 4, 16], [1, 2, 0]), dearer=True)
    assert [ints(call, 2) for call in calls(after, "tile.assemble")] == [[10, 0], [18, 0]]


@pytest.mark.parametrize(
    ("source", "at", "rows"),
    [
        ([2, 4, 16], ["k", 2, 0], 2),
        ([2, 4, 8], ["k", "k", 8], 2),
        ([4, 16], [2, 3, 0], 1),
        ([1, 4, 16], [2, 3, 0], 1),
        ([2, 8, 16], [1, 0, 0], 1),
    ],
    ids=["run-time page", "run-time row, part of the columns", "fewer axes", "one page", "whole pages"],
)
def test_windows_are_written_in_as_few_pieces_as_they_have_runs_of_rows(source: list[int], at: list[int | str], rows: int) -> None:
    assert len(calls(lowered(written(source, at), dearer=True), "tile.assemble")) <= rows


@pytest.mark.parametrize(
    ("window", "at", "slices"),
    [([2, 4, 16], [1, 2, 0], 2), ([2, 4, 8], ["k", 0, 8], 2), ([1, 4, 16], ["k", 2, 0], 1)],
    ids=["rows of two pages", "run-time page, part of the columns", "one page"],
)
def test_windows_are_read_in_pieces(window: list[int], at: list[int | str], slices: int) -> None:
    after = lowered(read(window, at), dearer=True)
    assert_all_2d(after)
    assert len(calls(after, "tile.slice")) <= slices


def test_row_of_every_page_is_one_tile() -> None:
    after = lowered(read([4, 1, 16], [0, "k", 0], [], [1]), dearer=True)
    assert_all_2d(after)
    assert len(calls(after, "tile.slice")) == 4


@pytest.mark.parametrize("program", [written([2, 4, 3], [0, 2, 5]), read([2, 4, 3], [0, 2, 5])], ids=["assemble", "slice"])
def test_pieces_that_start_where_no_view_can_are_refused(program: Program) -> None:
    refused(program, "contiguous row band", "no multiple of 32", "pad the last dim")


def test_pages_of_a_source_that_start_where_no_view_can_are_the_reason() -> None:
    before = incore(
        [
            tensor("x", 3, 4, 8, dtype="FP16"),
            tensor("w", 3, 3, 8, dtype="FP16"),
            scalar("k", range=(0, 2)),
            out("out_0", 3, 4, 8, dtype="FP16"),
        ],
        [
            load("t", "x", [0, 0, 0], [3, 4, 8]),
            load("s", "w", [0, 0, 0], [3, 3, 8]),
            let("e", "tile.write", "s", ["k", 1, 2], const(1.5, "FP16")),
            let("y", "tile.assemble", "t", "e", [0, 0, 0]),
            store("o", "y", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    refusal = refused(before, "a page of it is 48 bytes", "pad the last dim")
    assert [d.code for d in refusal.diagnostics] == ["L104"]


def test_part_of_a_page_of_what_is_made_page_by_page_is_cut_from_the_page() -> None:
    before = incore(
        [tensor("x", 2, 8, 16), tensor("w", 1, 8, 16), out("out_0", 1, 4, 16)],
        [
            load("t", "x", [0, 0, 0], [2, 8, 16]),
            load("s", "w", [0, 0, 0], [1, 8, 16]),
            let("y", "tile.add", "t", "s"),
            let("z", "tile.slice", "y", [1, 4, 16], [1, 2, 0]),
            let("e", "tile.exp", "z"),
            store("o", "e", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    after = lowered(before, dearer=True)
    assert ops(after).count("add") == 1, "page 0 is not computed"


def test_rows_written_into_pages_of_a_region_with_gaps_stay_in_their_pages() -> None:
    before = incore(
        [tensor("x", 2, 8, 16), tensor("w", 2, 2, 16), out("out_0", 2, 8, 16)],
        [
            load("t", "x", [0, 0, 0], [2, 8, 16], [2, 6, 16]),
            load("s", "w", [0, 0, 0], [2, 2, 16]),
            let("y", "tile.assemble", "t", "s", [0, 3, 0]),
            store("o", "y", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    after = lowered(before, dearer=True)
    assert (8, 16) in shapes(after).values() and (16, 16) not in shapes(after).values()
