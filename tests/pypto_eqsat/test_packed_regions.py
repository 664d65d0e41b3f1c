"""Valid regions with gaps between their pages, as a load packs them: the valid rows of all pages one after another in one 2-D tile.

valid [2, 2, 8] of [2, 3, 8]     rows 0 and 1 are page 0, rows 2 and 3 are page 1
"""

from __future__ import annotations

from typing import Any

import pytest
from helpers import (
    Json,
    calls,
    const,
    cost,
    give,
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
    windows,
)

from pypto_ir.stmt import Program

CUT = [2, 2, 8]
#: a reduction of axis 0, which upstream has no lowering of: what comes out is this engine's own
BESIDE = [load("u", "w", [0, 0, 0], [2, 3, 8], [1, 3, 8]), let("s", "tile.col_sum", "u"), store("p1", "s", [0, 0, 0], "p")]


def beside(body: list[Json], shape: list[int], *more: Json) -> Program:
    """A program with a statement that upstream refuses."""
    params = [tensor("x", *shape), tensor("y", *shape), *more, scalar("v", range=(1, 2)), tensor("w", 2, 3, 8)]
    return incore([*params, out("out_0", *shape), out("p", 1, 3, 8)], [*body, *BESIDE, ret("o", "p1")])


def own(p: Program) -> list[str]:
    return [op for op in ops(p) if op not in ("reshape", "col_sum")][:-2]


def test_cells_are_read_and_written_among_the_rows_that_are_valid() -> None:
    """Row 1 of page 1 of valid [2, 2, 8] of [2, 3, 8] is row 3 of the packed tile, and row 4 of the collapse."""
    body = [
        load("t", "x", [0, 0, 0], [2, 3, 8], CUT),
        let("e", "tile.exp", "t"),
        let("c", "tile.read", "e", [1, 1, 3]),
        let("d", "tile.read", "e", ["v - 1", 0, 0]),
        let("f", "tile.write", "e", [1, 0, 5], "c"),
        let("g", "tile.write", "f", [0, 1, 0], "d"),
        store("o", "g", [0, 0, 0], "out_0"),
    ]
    after = lowered(beside(body, [2, 3, 8]), dearer=True)
    assert [ints(call, 1) for call in calls(after, "tile.read")] == [[3, 3], [None, 0]]
    assert [ints(call, 1) for call in calls(after, "tile.write")] == [[2, 5], [1, 0]]


def test_write_of_a_row_that_may_be_missing_is_refused() -> None:
    body = [
        load("t", "x", [0, 0, 0], [2, 3, 8], CUT),
        let("f", "tile.write", "t", ["v - 1", 0, 0], const(1.0)),
        store("o", "f", [0, 0, 0], "out_0"),
    ]
    refused(beside(body, [2, 3, 8]), "tile.write", "contiguous row band")


@pytest.mark.parametrize(
    ("shape", "valid"),
    [
        ([2, 3, 8], CUT),
        ([2, 3, 8], [2, "v", 8]),
        ([4, 3, 8], CUT),
        ([4, 3, 8], ["v", "v", 8]),
        ([2, 3, 4, 8], [2, 2, 4, 8]),
        ([2, 3, 8], [2, 2, 5]),
    ],
    ids=str,
)
def test_region_with_gaps_goes_from_load_to_store_as_one_tile(shape: list[int], valid: list[Any]) -> None:
    zeros = [0] * len(shape)
    body = [
        load("t", "x", zeros, shape, valid),
        let("e", "tile.exp", "t"),
        let("f", "tile.muls", "e", const(2.0)),
        store("o", "f", zeros, "out_0"),
    ]
    after = lowered(beside(body, shape), dearer=True)
    assert own(after) == ["load", "exp", "muls", "store"]
    assert windows(after)[0] == [d if isinstance(d, int) else None for d in valid]


def test_rows_of_a_packed_tile_are_reduced_and_expanded() -> None:
    body = [
        load("t", "x", [0, 0, 0], [2, 3, 8], CUT),
        let("tmp", "tile.create", [2, 3, 8], dtype="FP32", target_memory="Vec"),
        let("m", "tile.row_max", "t", "tmp"),
        let("d", "tile.row_expand_sub", "t", "m"),
        store("o", "d", [0, 0, 0], "out_0"),
    ]
    after = lowered(beside(body, [2, 3, 8]), dearer=True)
    assert own(after) == ["load", "create", "row_max", "row_expand_sub", "store"] and shapes(after)["m"] == (6, 1)


def test_packed_tile_is_carried_by_a_loop() -> None:
    step = [load("t", "y", [0, 0, 0], [2, 3, 8], CUT), let("a1", "tile.add", "a", "t"), give("a1")]
    body = [load("z", "x", [0, 0, 0], [2, 3, 8], CUT), loop("k", [0, 3, 1], {"a": "z"}, step, ["r"]), store("o", "r", [0, 0, 0], "out_0")]
    after = lowered(beside(body, [2, 3, 8]), dearer=True)
    assert shapes(after)["a1"] == (6, 8) and windows(after)[0] == CUT


@pytest.mark.parametrize("other", [[2, 3, 8], [1, 3, 8], [2, 1, 8]], ids=str)
def test_tiles_of_other_regions_do_not_meet_packed(other: list[int]) -> None:
    body = [
        load("t", "x", [0, 0, 0], [2, 3, 8], CUT),
        load("q", "y", [0, 0, 0], [2, 3, 8], other),
        let("z", "tile.add", "t", "q"),
        store("o", "z", [0, 0, 0], "out_0"),
    ]
    before = beside(body, [2, 3, 8])
    if other[0] == 1:
        refused(before)
        return
    after = lowered(before, dearer=True)
    assert ops(after).count("add") == 2


def test_arms_that_hand_on_other_regions_are_taken_page_by_page() -> None:
    body: list[Json] = [
        load("t", "x", [0, 0, 0], [2, 3, 8], CUT),
        load("q", "y", [0, 0, 0], [2, 3, 8]),
        {"if": "v > 1", "then": [give("t")], "else": [give("q")], "results": ["r"]},
        store("o", "r", [0, 0, 0], "out_0"),
    ]
    after = lowered(beside(body, [2, 3, 8]), dearer=True)
    assert windows(after)[:-1] == [[1, 2, 8]] * 2


def test_padding_fills_the_rows_of_every_page() -> None:
    body = [load("t", "x", [0, 0, 0], [2, 3, 8], CUT), let("f", "tile.fillpad", "t", pad_value="zero"), store("o", "f", [0, 0, 0], "out_0")]
    after = lowered(beside(body, [2, 3, 8]), dearer=True)
    assert ops(after).count("fillpad") == 2


def test_cut_window_that_starts_where_no_view_can_says_so() -> None:
    body = [
        load("t", "x", [0, 0, 0], [2, 3, 8]),
        let("e", "tile.exp", "t"),
        let("f", "tile.slice", "e", [2, 2, 4], [0, 0, "v"], [2, 1, 4]),
        store("o", "f", [0, 0, 0], "out_0"),
    ]
    refusal = refused(beside(body, [2, 3, 8]), "no multiple of 32, where no view can start")
    assert [(d.code, "start at a multiple of 32 bytes" in str(d.help)) for d in refusal.diagnostics] == [("L104", True)]


def test_one_packed_tile_is_cheaper_than_its_pages() -> None:
    body = [load("t", "x", [0, 0, 0], [2, 3, 8], CUT), let("e", "tile.exp", "t"), store("o", "e", [0, 0, 0], "out_0")]
    before = beside(body, [2, 3, 8])
    assert cost(lowered(before, dearer=True)) < cost(lowered(before, dearer=True, without_rules=frozenset({"packed.load"})))
