"""Cells and windows of N-D tiles: read, write, slice and assemble.

A cell has one place in the collapse; a window is one run of rows, several of them, or parts of pages.
"""

from __future__ import annotations

from helpers import assert_all_2d, calls, incore, ints, let, load, loop, lowered, ops, out, ret, scalar, store, tensor

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
