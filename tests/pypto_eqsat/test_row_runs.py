"""Stores of rows that fill no box of their target: in several boxes, or through a 2-D view of the target.

[6, 8] at [0, 2, 0] of [4, 4, 8]     rows 0 and 1 fill [1, 2, 8] at [0, 2, 0], rows 2 to 5 fill [1, 4, 8] at [1, 0, 0]
                                     or: rows 2 to 7 of tensor.view(out, [16, 8])
"""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, calls, cost, incore, ints, load, lowered, ops, out, refused, ret, scalar, store, tensor, windows

from pypto_ir.stmt import Program


def stored(shape: list[int], target: list[Any], offsets: list[Any], valid: list[Any] | None = None, **more: Any) -> Program:
    """A tile loaded and stored into a target of higher rank."""
    params: list[Json] = [tensor("x", *shape), scalar("k", range=(0, 1)), scalar("v", range=(1, 8)), out("out_0", *target, **more)]
    body = [load("t", "x", [0] * len(shape), shape, valid), store("o", "t", offsets, "out_0"), ret("o")]
    return incore(params, body, dynamic=[d for d in target if isinstance(d, str)])


#: tile, target, offsets, then the offsets and windows of the boxes
RUNS: dict[str, tuple[list[int], list[int], list[Any], list[tuple[list[int | None], list[int]]]]] = {
    "one and a half times an axis": (
        [12, 8],
        [2, 2, 4, 8],
        [0, 0, 0, 0],
        [([0, 0, 0, 0], [1, 2, 4, 8]), ([1, 0, 0, 0], [1, 1, 4, 8])],
    ),
    "from inside a page": ([6, 8], [4, 4, 8], [0, 2, 0], [([0, 2, 0], [1, 2, 8]), ([1, 0, 0], [1, 4, 8])]),
    "whole pages from inside one": (
        [8, 8],
        [4, 4, 8],
        [0, 2, 0],
        [([0, 2, 0], [1, 2, 8]), ([1, 0, 0], [1, 4, 8]), ([2, 0, 0], [1, 2, 8])],
    ),
    "over the end of an inner axis": ([4, 8], [4, 2, 2, 8], [0, 1, 0, 0], [([0, 1, 0, 0], [1, 1, 2, 8]), ([1, 0, 0, 0], [1, 1, 2, 8])]),
    "columns": ([12, 4], [2, 2, 4, 8], [0, 0, 0, 4], [([0, 0, 0, 4], [1, 2, 4, 4]), ([1, 0, 0, 4], [1, 1, 4, 4])]),
    "an outermost offset of a scalar": ([6, 8], [4, 4, 8], ["k", 2, 0], [([None, 2, 0], [1, 2, 8]), ([None, 0, 0], [1, 4, 8])]),
}


@pytest.mark.parametrize("row", RUNS)
def test_rows_that_fill_no_box_go_through_a_view_of_a_packed_target(row: str) -> None:
    shape, target, offsets, _ = RUNS[row]
    after = lowered(stored(shape, target, offsets), dearer=True)
    assert ops(after) == ["load", "tensor.view", "store"]
    assert windows(after) == [None]


@pytest.mark.parametrize("row", RUNS)
def test_rows_that_fill_no_box_of_a_strided_target_fill_several(row: str) -> None:
    shape, target, offsets, boxes = RUNS[row]
    strides = [1]
    for d in reversed(target[1:]):
        strides.insert(0, strides[0] * d * (2 if len(strides) == 1 else 1))
    after = lowered(stored(shape, target, offsets, stride=strides), dearer=True)
    assert [(ints(c, 1), ints(c, 3)) for c in calls(after, "tile.store")] == boxes


def test_several_boxes_cost_more_than_one_store_through_a_view() -> None:
    before = stored([6, 8], [4, 4, 8], [0, 2, 0])
    boxes = lowered(before, dearer=True, without_rules=frozenset({"store.view"}))
    assert windows(boxes) == [[1, 2, 8], [1, 4, 8]]
    assert cost(lowered(before, dearer=True)) < cost(boxes)


def test_rows_over_a_dynamic_axis_go_through_a_view() -> None:
    after = lowered(stored([8, 8], [2, "D", 4, 8], [0, 0, 0, 0]), dearer=True)
    assert ops(after) == ["load", "tensor.view", "store"]


@pytest.mark.parametrize(
    ("shape", "target", "offsets", "valid"),
    [([1, 16, 8], [4, 4, 2, 8], [0, 1, 0, 0], [1, 9, 8]), ([16, 8], [4, "D", 4, 8], [0, 0, 0, 0], [16, "v"])],
    ids=["rows", "dynamic columns"],
)
def test_valid_cells_alone_are_stored(shape: list[int], target: list[Any], offsets: list[Any], valid: list[Any]) -> None:
    after = lowered(stored(shape, target, offsets, valid), dearer=True)
    assert ops(after) == ["load", "tensor.view", "store"]


@pytest.mark.parametrize(
    ("shape", "target", "offsets", "words"),
    [
        ([24, 8], [2, 2, 4, 8], [0, 0, 0, 0], "axis 0 (extent 2)"),
        ([8, 8], [4, 4, 8], [2, 2, 0], "must start at offset 0"),
        ([6, 10], [2, 3, 8], [0, 0, 0], "writes 10 columns"),
        ([6, 8], [2, 6, 8], [5, 0, 0], "runs past the tensor"),
        ([6, 8], [2, 6, 8], [0, 0, 4], "runs past the tensor"),
        ([6, 8], [4, 4, 8], [0, 5, 0], "axis 1 (extent 4)"),
    ],
    ids=["rows", "rows from inside", "columns", "page", "column offset", "row offset"],
)
def test_rows_that_leave_their_target_are_refused(shape: list[int], target: list[Any], offsets: list[int], words: str) -> None:
    assert {d.code for d in refused(stored(shape, target, offsets), words).diagnostics} == {"L103"}
