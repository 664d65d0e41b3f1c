"""Rows of `spec/flatten.md` section 13, groups RankRaisingViews, ReshapedStore, CollapsedStore, Assemble and
DynamicValid.

Where upstream keeps a redundant reshape (a star in the section), the expected program holds it and the result
must not be dearer. Rows that upstream rejects are refused with the words of the row, or compiled and equal.
"""

from __future__ import annotations

import pytest
from helpers import (
    assert_all_2d,
    assert_no_dearer,
    calls,
    cost,
    flat,
    incore,
    ints,
    let,
    load,
    lowered,
    main,
    ops,
    out,
    refused_or_equal,
    ret,
    scalar,
    shapes,
    store,
    tensor,
    types,
    windows,
)  # fmt: skip

from pypto_eqsat.driver import optimize
from pypto_ir.expr import const_int, variables
from pypto_ir.stmt import Program
from pypto_ir.verify import tile_ops_2d

# rank-raising views


def raised(target: list[int], lower: list[int] | None = None) -> Program:
    """[16, 128] reshaped to `target`, doubled, stored; `lower` is the 2-D shape that upstream reshapes to."""
    zeros = [0] * len(target)
    return incore(
        [tensor("x", 16, 128), out("out_0", *target)],
        [
            load("t", "x", [0, 0], [16, 128]),
            let("r", "tile.reshape", "t", lower or target),
            let("y", "tile.add", "r", "r"),
            store("out_1", "y", zeros, "out_0", target if lower else None),
            ret("out_1"),
        ],
    )


@pytest.mark.parametrize("target", [[2, 8, 128], [16, 1, 128], [4, 4, 128], [2, 2, 4, 128]], ids=str)
def test_rank_raising_reshape_collapses_to_2d(target: list[int]) -> None:
    after = lowered(raised(target))
    assert_no_dearer(after, raised(target, lower=[16, 128]))
    assert ops(after) == ["load", "add", "store"]
    assert shapes(after) == {"t": (16, 128), "y": (16, 128)}
    assert windows(after) == [target]


def test_rank_raising_reshape_that_changes_rows_stays_a_reshape() -> None:
    after = lowered(raised([16, 8, 16]))
    assert_no_dearer(after, raised([16, 8, 16], lower=[128, 16]))
    assert ops(after).count("reshape") == 1
    assert ints(calls(after, "tile.reshape")[0], 1) == [128, 16]
    assert windows(after) == [[16, 8, 16]]


def test_rank_raising_reshape_leaves_no_nd_tile_for_the_verifier() -> None:
    before = raised([2, 8, 128])
    assert {d.code for d in tile_ops_2d(main(before))} == {"V101", "V104"}
    after = lowered(before)
    assert tile_ops_2d(main(after)) == []
    assert_all_2d(after)


def test_rank_raising_reinterpret_view_collapses_to_2d() -> None:
    def build(shape: list[int], window: list[int] | None) -> Program:
        return incore(
            [tensor("x", 4, 8), out("out_0", 4, 1, 16, dtype="INT16")],
            [
                load("t", "x", [0, 0], [4, 8]),
                let("r", "tile.reinterpret_view", "t", shape, dtype="INT16"),
                store("out_1", "r", [0, 0, 0], "out_0", window),
                ret("out_1"),
            ],
        )

    assert lowered(build([4, 1, 16], None)) == build([4, 16], [4, 1, 16])


# reshaped and collapsed stores


def test_2d_tile_reshape_to_3d_then_store() -> None:
    def build(target: list[int], window: list[int] | None) -> Program:
        return incore(
            [tensor("x", 4, 64), out("out_0", 4, 6, 64), scalar("s", range=(0, 5))],
            [
                load("t", "x", [0, 0], [4, 64]),
                let("r", "tile.reshape", "t", target),
                store("out_1", "r", [0, "s", 0], "out_0", window),
                ret("out_1"),
            ],
        )

    after = lowered(build([4, 1, 64], None))
    assert_no_dearer(after, build([4, 64], [4, 1, 64]))
    assert ops(after) == ["load", "store"]
    assert windows(after) == [[4, 1, 64]]


def collapsed_store(rows: int, cols: int, target: list[int | str], offsets: list[int], window: list[int] | None = None) -> Program:
    """The 2-D tile [rows, cols] stored into a tensor of rank above 2."""
    dynamic = [d for d in target if isinstance(d, str)]
    return incore(
        [tensor("x", rows, cols), out("out_0", *target)],
        [load("t", "x", [0, 0], [rows, cols]), store("out_1", "t", offsets, "out_0", window), ret("out_1")],
        dynamic=dynamic,
    )


def test_collapsed_2d_tile_store_distributes_rows_over_leading_dims() -> None:
    after = lowered(collapsed_store(6, 8, [2, 3, 8], [0, 0, 0]))
    assert after == collapsed_store(6, 8, [2, 3, 8], [0, 0, 0], [2, 3, 8])


def test_partial_innermost_leading_dim_keeps_the_outer_dims_at_one() -> None:
    after = lowered(collapsed_store(3, 8, [4, 3, 8], [0, 0, 0]))
    assert after == collapsed_store(3, 8, [4, 3, 8], [0, 0, 0], [1, 3, 8])


def test_row_count_that_is_not_a_whole_number_of_axes_is_rejected() -> None:
    before = collapsed_store(12, 8, [2, 2, 4, 8], [0, 0, 0, 0])
    refused_or_equal(before, "must fill axis 1 (extent 2) a whole number of times")


def test_nonzero_offset_on_a_fully_consumed_axis_is_rejected() -> None:
    before = collapsed_store(6, 8, [4, 4, 8], [0, 2, 0])
    refused_or_equal(before, "must fill axis 1 (extent 4) a whole number of times")


def test_valid_tail_block_smaller_than_the_physical_tile_is_not_rejected() -> None:
    def build(lower: bool) -> Program:
        made = {"type": flat(16, 512)} if lower else {}
        return incore(
            [tensor("x", 1, 16, 512), out("out_0", 1, 10, 512)],
            [
                load("t", "x", [0, 0, 0], [1, 16, 512], [1, 10, 512], **made),
                store("out_1", "t", [0, 0, 0], "out_0", [1, 10, 512] if lower else None),
                ret("out_1"),
            ],
        )

    assert lowered(build(lower=False)) == build(lower=True)


def test_dynamic_innermost_tensor_dim_does_not_block_the_window() -> None:
    after = lowered(collapsed_store(6, 8, [2, 3, "D"], [0, 0, 0]))
    assert after == collapsed_store(6, 8, [2, 3, "D"], [0, 0, 0], [2, 3, 8])


# assemble


def assembled(source: list[int], offsets: list[int], lower: bool = False, at: list[int] | None = None) -> Program:
    """`source` written into a tile [4, 8, 16], which is stored; in the lowered form at row and column
    `at`."""
    made = {"type": flat(32, 16)} if lower else {}
    page = {"type": flat(source[0] * source[1], source[2])} if lower else {}
    return incore(
        [tensor("x", 4, 8, 16), tensor("s", *source), out("out_0", 4, 8, 16)],
        [
            load("t", "x", [0, 0, 0], [4, 8, 16], **made),
            load("u", "s", [0, 0, 0], source, **page),
            let("z", "tile.assemble", "t", "u", at or offsets),
            let("e", "tile.exp", "z"),
            store("out_1", "e", [0, 0, 0], "out_0", [4, 8, 16] if lower else None),
            ret("out_1"),
        ],
    )


@pytest.mark.parametrize(
    ("source", "offsets", "at"),
    [([1, 8, 16], [2, 0, 0], [16, 0]), ([1, 4, 16], [2, 4, 0], [20, 0]), ([2, 8, 16], [1, 0, 0], [8, 0])],
    ids=["a page", "half a page", "two pages"],
)
def test_nd_assemble_offset_collapses_to_row(source: list[int], offsets: list[int], at: list[int]) -> None:
    after, expected = lowered(assembled(source, offsets)), assembled(source, offsets, lower=True, at=at)
    assert_no_dearer(after, expected)
    # a box of whole pages costs less page by page: what it covers is not loaded
    assert after == expected or (source[1] == 8 and cost(after) < cost(expected))


def test_nd_assemble_zero_offset() -> None:
    after, expected = (
        lowered(assembled([1, 8, 16], [0, 0, 0])),
        assembled([1, 8, 16], [0, 0, 0], lower=True, at=[0, 0]),
    )
    assert_no_dearer(after, expected)
    assert after == expected or cost(after) < cost(expected)


def test_2d_assemble_unchanged() -> None:
    before = incore(
        [tensor("x", 32, 16), tensor("s", 8, 16), out("out_0", 32, 16)],
        [
            load("t", "x", [0, 0], [32, 16]),
            load("u", "s", [0, 0], [8, 16]),
            let("z", "tile.assemble", "t", "u", [16, 0]),
            store("out_1", "z", [0, 0], "out_0"),
            ret("out_1"),
        ],
    )
    after = lowered(before)
    assert_no_dearer(after, before)
    assert [ints(c, 2) for c in calls(after, "tile.assemble")] in ([], [[16, 0]])


def test_nd_assemble_non_contiguous_rejected() -> None:
    refused_or_equal(assembled([2, 4, 16], [0, 0, 0]), "contiguous row band")


def test_nd_assemble_rank_mismatched_source_rejected() -> None:
    before = incore(
        [tensor("x", 4, 8, 16), tensor("s", 8, 16), out("out_0", 4, 8, 16)],
        [
            load("t", "x", [0, 0, 0], [4, 8, 16]),
            load("u", "s", [0, 0], [8, 16]),
            let("z", "tile.assemble", "t", "u", [2, 0, 0]),
            store("out_1", "z", [0, 0, 0], "out_0"),
            ret("out_1"),
        ],
    )
    refused_or_equal(before, "rank-2 source", "pl.tile.reshape")


# dynamic valid shapes


def converted(valid: list[int | str], lower: bool, size: int | str = 16) -> Program:
    """load, cast BF16 to FP32, store, of the physical tile [1, 16, 512]."""
    made = {"type": flat(16, 512)} if lower else {}
    return incore(
        [tensor("x", 1, size, 512, dtype="BF16"), scalar("v", range=(1, 16)), out("out_0", 1, size, 512)],
        [
            load("t", "x", [0, 0, 0], [1, 16, 512], valid, **made),
            let("c", "tile.cast", "t", target_type="FP32", mode="round"),
            store("out_1", "c", [0, 0, 0], "out_0", valid if lower else None),
            ret("out_1"),
        ],
        dynamic=["S"] if size == "S" else [],
    )


@pytest.mark.parametrize(("extent", "size"), [("v", 16), ("min(16, S)", "S")])
def test_static_physical_dynamic_valid_preserved(extent: str, size: int | str) -> None:
    after = lowered(converted([1, extent, 512], lower=False, size=size))
    assert after == converted([1, extent, 512], lower=True, size=size)
    for t in types(after).values():
        assert t.static_shape == (16, 512)
        assert const_int(t.valid[0]) is None and list(variables(t.valid[0])) and const_int(t.valid[1]) == 512


def test_static_partial_valid_flattens_without_widening() -> None:
    after = lowered(converted([1, 10, 512], lower=False))
    assert after == converted([1, 10, 512], lower=True)
    assert [[const_int(e) for e in t.valid] for t in types(after).values()] == [[10, 512]] * 2


def test_static_3d_flattens() -> None:
    assert lowered(converted([1, 16, 512], lower=False)) == converted([1, 16, 512], lower=True)


def test_dynamic_physical_shape_errors() -> None:
    before = incore(
        [tensor("x", 1, "S", 512, dtype="BF16"), out("out_0", 1, "S", 512)],
        [
            let("t", "tile.load", "x", [0, 0, 0], [1, "S", 512], [1, "S", 512], target_memory="Vec"),
            let("c", "tile.cast", "t", target_type="FP32", mode="round"),
            store("out_1", "c", [0, 0, 0], "out_0"),
            ret("out_1"),
        ],
        dynamic=["S"],
    )
    assert refused_or_equal(before, "cannot be flattened to 2D", "pl.parallel", "reshap", "dynamic (non-constant) dimension 1") is None


def test_valid_extent_of_a_dynamic_tensor_is_read_in_every_trip() -> None:
    def build(lower: bool) -> Program:
        made = {"type": flat(16, 32)} if lower else {}
        window = [1, "v", 32]
        return incore(
            [tensor("x", 1, "S", 32), out("out_0", 1, "S", 32)],
            [
                {
                    "for": "c",
                    "range": [0, "S", 16],
                    "carry": [{"name": "o", "init": "out_0"}],
                    "body": [
                        {"let": "v", "expr": "min(16, S - c)"},
                        load("t", "x", [0, "c", 0], [1, 16, 32], window, **made),
                        let("y", "tile.exp", "t"),
                        store("o1", "y", [0, "c", 0], "o", window if lower else None),
                        {"yield": ["o1"]},
                    ],
                    "results": ["o2"],
                },
                ret("o2"),
            ],
            dynamic=["S"],
        )

    assert lowered(build(lower=False)) == build(lower=True)


def test_2d_program_with_a_valid_tail_comes_back_as_the_same_object() -> None:
    before = incore(
        [tensor("x", 16, 512, dtype="BF16"), scalar("v", range=(1, 16)), out("out_0", 16, 512)],
        [
            load("t", "x", [0, 0], [16, 512], ["v", 512]),
            let("c", "tile.cast", "t", target_type="FP32", mode="round"),
            store("out_1", "c", [0, 0], "out_0"),
            ret("out_1"),
        ],
    )
    assert optimize(before).program is before
