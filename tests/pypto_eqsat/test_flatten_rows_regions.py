"""Programs whose valid regions end inside a tile: tails of dynamic length, and regions with gaps.

A region that is no run of rows has no flat form and goes page by page; a tail is padded, or kept as it is.
"""

from __future__ import annotations

import pytest
from helpers import (
    assert_all_2d,
    const,
    cost,
    flat,
    give,
    incore,
    let,
    load,
    loop,
    lowered,
    ops,
    out,
    ret,
    scalar,
    shapes,
    store,
    tensor,
    windows,
)

from pypto_ir.stmt import Program


@pytest.mark.parametrize(("rows", "valid"), [(3, "v"), (16, 10)])
def test_region_with_gaps_is_taken_page_by_page_or_as_its_load_packs_it(rows: int, valid: int | str) -> None:
    """Valid [2, 10, 8] of [2, 16, 8]: rows 10 to 15 of page 0 hold nothing, row 16 does. One load puts the rows of both pages one after
    another, and one store takes them apart again."""
    before = incore(
        [tensor("x", 2, rows, 8), scalar("v", range=(1, 3)), out("out_0", 2, rows, 8)],
        [
            load("t", "x", [0, 0, 0], (2, rows, 8), [2, valid, 8]),
            let("y", "tile.exp", "t"),
            store("o", "y", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    by_pages = lowered(before, dearer=True, without_rules=frozenset({"packed.load"}))
    assert set(shapes(by_pages).values()) == {(rows, 8)}
    assert ops(by_pages).count("exp") == 2
    packed = lowered(before, dearer=True)
    assert set(shapes(packed).values()) == {(2 * rows, 8)}
    assert ops(packed) == ["load", "exp", "store"] and cost(packed) < cost(by_pages)


def test_axis_of_one_that_may_be_missing_takes_its_rows_with_it() -> None:
    """Valid [u, v, 8] of [1, 1, 8], and of [1, 4, 8], is a run of u * v rows; a row that is cut is a column that is cut."""
    before = incore(
        [tensor("x", 2, 4, 8), *(scalar(n, range=(0, 1)) for n in "uv"), out("p0", 1, 1, 8), out("p1", 1, 4, 8), out("p2", 1, 8, 1)],
        [
            load("t", "x", [0, 0, 0], [2, 4, 8]),
            let("y", "tile.neg", "t"),
            let("a", "tile.slice", "y", [1, 1, 8], ["u", "v", 0], ["u", "v", 8]),
            let("b", "tile.slice", "y", [1, 4, 8], ["u", 0, 0], ["u", "2 * v", 5]),
            let("c", "tile.slice", "y", [1, 1, 8], ["v", 0, 0], [1, 1, "v"]),
            let("d", "tile.exp", "a"),
            let("e", "tile.reshape", "c", [1, 8, 1]),
            store("o0", "d", [0, 0, 0], "p0"),
            store("o1", "b", [0, 0, 0], "p1"),
            store("o2", "e", [0, 0, 0], "p2"),
            ret("o0", "o1", "o2"),
        ],
    )
    assert_all_2d(lowered(before, dearer=True))


def test_region_with_gaps_is_carried_and_branched_on_packed_or_page_by_page() -> None:
    body = [
        load("t", "x", [0, 0, 0], (2, 16, 8), [2, 10, 8]),
        {
            "if": "k > 0",
            "then": [let("e", "tile.add", "a", "t"), give("e")],
            "else": [let("f", "tile.sub", "a", "t"), give("f")],
            "results": ["a1"],
        },
        give("a1"),
    ]
    before = incore(
        [tensor("x", 2, 16, 8), out("out_0", 2, 16, 8)],
        [
            load("z", "x", [0, 0, 0], (2, 16, 8), [2, 10, 8]),
            loop("k", [0, 3, 1], {"a": "z"}, body, ["r"]),
            store("o", "r", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    packed = lowered(before, dearer=True)
    assert_all_2d(packed)
    assert windows(packed) == [[2, 10, 8]]
    by_pages = lowered(before, dearer=True, without_rules=frozenset({"packed.leaf"}))
    assert windows(by_pages) == [[1, 10, 8], [1, 10, 8]]


def test_tail_is_padded_before_it_is_summed() -> None:
    def build(lower: bool) -> Program:
        made = {"type": flat(4, 8)} if lower else {}
        body = [
            {"let": "v", "expr": "min(4, n - c)"},
            load("t", "x", [0, "c", 0], [1, 4, 8], [1, "v", 8], **made),
            let("p", "tile.fillpad", "t", pad_value="zero"),
            let("a1", "tile.add", "a", "p"),
            give("a1"),
        ]
        zeros = let("z", "tile.full", [4, 8] if lower else [1, 4, 8], const(0.0), dtype="FP32")
        return incore(
            [tensor("x", 1, 20, 8), scalar("n", range=(1, 20)), out("out_0", 1, 4, 8)],
            [
                zeros,
                loop("c", [0, "n", 4], {"a": "z"}, body, ["r"]),
                store("o", "r", [0, 0, 0], "out_0", [1, 4, 8] if lower else None),
                ret("o"),
            ],
        )

    assert lowered(build(lower=False)) == build(lower=True)


def test_rows_of_a_load_that_goes_beyond_what_its_tensor_holds_along_one_axis_only() -> None:
    """Of [2, n] rows of a tensor that holds [1, 1] of its [8, 8], [1 - 2 k, n] are read: the first extent is cut, the second is as asked.
    The load of rows says so itself, since the number of rows does not."""
    held = tensor("x", 8, 8, 4, valid=[1, 1, 4])
    before = incore(
        [held, scalar("k", range=(0, 3)), scalar("n", range=(1, 8)), out("o", 2, 8, 4)],
        [
            load("t", "x", ["k * 2", 0, 0], [2, 8, 4], [2, "n", 4]),
            store("s", "t", [0, 0, 0], "o"),
            ret("s"),
        ],
    )
    flat = lowered(before, dearer=True)
    assert set(shapes(flat).values()) == {(16, 4)}
