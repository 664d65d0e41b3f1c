"""The partition windows of `spec/flatten.md` section 4.1 through the whole pipeline.

A flat store writes consecutive row-major positions; a box is such a run only if every axis that it consumes
is consumed whole from 0, except the outermost one.
"""

from __future__ import annotations

import pytest
from helpers import (
    Dim,
    flat,
    incore,
    let,
    load,
    loop,
    lowered,
    out,
    refused_or_equal,
    ret,
    scalar,
    store,
    tensor,
    windows,
)

from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.stmt import Program


def stored(rows: int, cols: int, target: list[Dim], offsets: list[Dim], window: list[Dim] | None = None) -> Program:
    """The tile [rows, cols], doubled, stored into `target`; with the window that the flat form needs."""
    zeros = [0] * len(target)
    return incore(
        [tensor("x", rows, cols), out("out_0", *target)],
        [
            load("t", "x", [0, 0], [rows, cols]),
            let("y", "tile.add", "t", "t"),
            store("o", "y", offsets or zeros, "out_0", window),
            ret("o"),
        ],
        dynamic=[d for d in target if isinstance(d, str)],
    )


WINDOWS: dict[str, tuple[int, int, list[Dim], list[Dim], list[Dim]]] = {
    "one page": (3, 8, [4, 3, 8], [2, 0, 0], [1, 3, 8]),
    "part of a page": (2, 8, [4, 3, 8], [1, 1, 0], [1, 2, 8]),
    "part of the columns": (3, 4, [4, 3, 8], [1, 0, 4], [1, 3, 4]),
    "all of the target": (6, 8, [2, 3, 8], [0, 0, 0], [2, 3, 8]),
    "dynamic columns": (6, 8, [2, 3, "D"], [0, 0, 0], [2, 3, 8]),
    "two pages from page 1": (8, 8, [4, 4, 8], [1, 0, 0], [2, 4, 8]),
    "one row of a rank 4 target": (1, 8, [2, 3, 4, 8], [1, 2, 3, 0], [1, 1, 1, 8]),
    "an inner axis whole, the next in part": (8, 8, [3, 3, 4, 8], [1, 0, 0, 0], [1, 2, 4, 8]),
    "three axes": (24, 8, [2, 3, 4, 8], [0, 0, 0, 0], [2, 3, 4, 8]),
    "rank 5": (12, 16, [5, 2, 2, 3, 16], [4, 0, 0, 0, 0], [1, 2, 2, 3, 16]),
}


@pytest.mark.parametrize("row", WINDOWS)
def test_2d_tile_is_stored_into_the_box_that_its_rows_fill(row: str) -> None:
    rows, cols, target, offsets, window = WINDOWS[row]
    after = lowered(stored(rows, cols, target, offsets))
    assert after == stored(rows, cols, target, offsets, window)


REJECTED: dict[str, tuple[int, int, list[Dim], list[Dim], str]] = {
    "rows that start inside a page": (
        6,
        8,
        [4, 4, 8],
        [0, 2, 0],
        "must fill axis 1 (extent 4) a whole number of times",
    ),
    "whole pages from inside a page": (8, 8, [4, 4, 8], [0, 2, 0], "must start at offset 0"),
    "an axis filled one and a half times": (12, 8, [2, 2, 4, 8], [0, 0, 0, 0], "must fill axis 1 (extent 2)"),
    "more rows than the target": (24, 8, [2, 2, 4, 8], [0, 0, 0, 0], "axis"),
    "more columns than the target": (6, 10, [2, 3, 8], [0, 0, 0], "runs past the tensor"),
    "a page that ends past the target": (6, 8, [2, 3, 8], [1, 0, 0], "runs past the tensor"),
}


@pytest.mark.parametrize("row", REJECTED)
def test_rows_that_fill_no_box_are_refused_with_the_axis_named(row: str) -> None:
    rows, cols, target, offsets, words = REJECTED[row]
    refused_or_equal(stored(rows, cols, target, offsets), words)


def nd_stored(shape: list[int], valid: list[Dim], target: list[Dim], offsets: list[Dim], lower: bool = False) -> Program:
    """A tile of rank above 2 loaded and stored; its valid region is the window."""
    rows = 1
    for d in shape[:-1]:
        rows *= d
    made = {"type": flat(rows, shape[-1])} if lower else {}
    names = sorted({d for d in [*valid, *offsets] if isinstance(d, str)} - {"S"})
    return incore(
        [tensor("x", *shape), *(scalar(n, range=(1, 3)) for n in names), out("out_0", *target)],
        [
            load("t", "x", [0] * len(shape), shape, valid, **made),
            store("o", "t", offsets, "out_0", valid if lower else None),
            ret("o"),
        ],
        dynamic=[d for d in target if isinstance(d, str)],
    )


ND: dict[str, tuple[list[int], list[Dim], list[Dim], list[Dim]]] = {
    "the whole tile": ([2, 3, 4], [2, 3, 4], [2, 3, 4], [0, 0, 0]),
    "a valid tail": ([1, 16, 512], [1, 10, 512], [1, 10, 512], [0, 0, 0]),
    "one row of every batch": ([4, 1, 16], [4, 1, 16], [4, 6, 16], [0, 3, 0]),
    "a box inside the target": ([2, 3, 8], [2, 3, 8], [4, 6, 8], [1, 2, 0]),
    "columns inside the target": ([2, 3, 8], [2, 3, 8], [2, 3, 32], [0, 0, 16]),
    "a valid extent of a scalar": ([1, 4, 8], [1, "v", 8], [2, 4, 8], [1, 0, 0]),
    "offsets of scalars": ([1, 2, 8], [1, 2, 8], [4, 5, 8], ["i", "j", 0]),
    "rank 4": ([2, 2, 3, 8], [2, 2, 3, 8], [3, 2, 5, 8], [1, 0, 2, 0]),
    "rank 5": ([1, 2, 1, 3, 8], [1, 2, 1, 3, 8], [2, 2, 4, 3, 8], [1, 0, 3, 0, 0]),
    "rank 6": ([1, 2, 1, 2, 2, 8], [1, 2, 1, 2, 2, 8], [2, 2, 3, 2, 2, 8], [1, 0, 2, 0, 0, 0]),
}


@pytest.mark.parametrize("row", ND)
def test_nd_tile_is_stored_into_the_box_of_its_valid_region(row: str) -> None:
    after = lowered(nd_stored(*ND[row]))
    assert after == nd_stored(*ND[row], lower=True)


def test_window_of_the_author_is_kept() -> None:
    before = incore(
        [tensor("x", 6, 8), out("out_0", 2, 3, 8)],
        [load("t", "x", [0, 0], [6, 8]), store("o", "t", [0, 0, 0], "out_0", [2, 3, 8]), ret("o")],
    )
    assert windows(lowered(before)) == [[2, 3, 8]]


def test_store_into_a_2d_target_gets_no_window() -> None:
    before = incore(
        [tensor("x", 2, 4, 8), out("out_0", 8, 8)],
        [
            load("t", "x", [0, 0, 0], [2, 4, 8]),
            let("r", "tile.reshape", "t", [8, 8]),
            store("o", "r", [0, 0], "out_0"),
            ret("o"),
        ],
    )
    assert windows(lowered(before)) == [None]


def test_the_tile_keeps_what_a_window_that_is_put_back_lacks() -> None:
    """The cells that s lacks are not defined in y, but in x they are."""
    refused_or_equal(
        incore(
            [tensor("a", 2, 8, 16), scalar("n", range=(1, 8)), out("out_0", 2, 8, 16), out("out_1", 1, 8, 16)],
            [
                load("x", "a", [0, 0, 0], [2, 8, 16]),
                let("s", "tile.slice", "x", [1, 8, 1], [0, 0, 6], [1, "n", 1]),
                let("y", "tile.assemble", "x", "s", [0, 0, 6]),
                store("o", "y", [0, 0, 0], "out_0"),
                let("z", "tile.slice", "x", [1, 8, 16], [0, 0, 0]),
                store("p", "z", [0, 0, 0], "out_1"),
                ret("o", "p"),
            ],
        )
    )


@pytest.mark.parametrize("looped", [False, True])
def test_rows_of_a_load_whose_tensor_was_written_since_are_not_loaded_again(looped: bool) -> None:
    """A row of 16 bytes at a run-time offset is no window of a tile, and behind the write it is no window of the load either."""
    write = {"op": "tile.store", "args": ["w", [0, 0, 0], "t"]}
    program = incore(
        [
            scalar("n", range=(1, 2)),
            tensor("a", 1, 1, 8, dtype="FP16"),
            tensor("t", 3, 3, 8, dtype="FP16", direction="InOut"),
            out("out_0", 4, 2, 1, 8, dtype="FP16"),
        ],
        [
            load("w", "a", [0, 0, 0], [1, 1, 8]),
            load("x", "t", [0, 0, 0], [2, 3, 8]),
            loop("i", [0, 3, 1], {}, [write]) if looped else write,
            let("s", "tile.slice", "x", [2, 1, 8], [0, "n", 0]),
            store("o", "s", ["n", 0, 0, 0], "out_0", [1, 2, 1, 8]),
            ret("t", "o"),
        ],
    )
    with pytest.raises(Refused) as caught:
        optimize(program)
    assert [d.code for d in caught.value.diagnostics] == ["L109"] and "s has a 2-D form, but none here" in str(caught.value)
