"""Valid regions: the forms of spec/tile_ir.md section 6, the tables of spec/flatten.md 1.1, 2 and 4.1."""

from __future__ import annotations

import re

import pytest

from pypto_ir.expr import Binary, Expr
from pypto_ir.ops.registry import OpError, dims_text
from pypto_ir.partition import row_boxes
from pypto_ir.regions import (
    NoWindow,
    broadcast,
    collapse_contiguous,
    merged_shape,
    merged_valid,
    partition_window,
    reshape_valid,
    window_read,
    write_union,
)
from pypto_ir.types import dims, scalar_var

v, k, n, S, B, D, u = (scalar_var(name) for name in "vknSBDu")


def read(shape, valid, offsets, window, requested=None, exact=True, clamp=False) -> str:
    request = dims(*requested) if requested is not None else None
    found = window_read("op", dims(*shape), dims(*valid), dims(*offsets), dims(*window), request, exact=exact, clamp=clamp)
    return dims_text(found)


def test_a_window_of_a_partial_source_is_valid_behind_its_offset() -> None:
    assert read([16], [v], [k], [8]) == "[min(max(v - k, 0), 8)]"
    assert read([16], [v], [0], [8]) == "[min(v, 8)]"
    assert read([16], [5], [0], [8]) == "[5]"
    assert read([16], [10], [4], [8]) == "[6]"
    assert read([16], [3], [4], [8]) == "[0]"


def test_a_window_of_a_full_source_is_full_unless_clamped() -> None:
    assert read([16], [16], [k], [8]) == "[8]"
    assert read([4], [4], [n], [1], exact=False, clamp=True) == "[min(max(4 - n, 0), 1)]"
    assert read([60], [60], [32], [32], exact=False, clamp=True) == "[28]"


def test_offsets_that_cancel_are_simplified() -> None:
    step = Binary("mul", k, dims(16)[0])
    left = Binary("add", step, n)
    assert read([64], [left], [step], [8]) == "[min(max(n, 0), 8)]"
    assert read([64], [Binary("add", k, dims(3)[0])], [k], [8]) == "[3]"


def test_a_request_wins_unless_less_is_known_to_be_there() -> None:
    assert read([16], [16], [0], [8], [v]) == "[v]"
    assert read([16], [v], [0], [8], [8]) == "[min(v, 8)]"
    assert read([16], [v], [0], [16], [10]) == "[10]"
    assert read([64], [60], [32], [32], [32], exact=False) == "[28]"


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        (([16], [16], [-1], [8]), {}, "negative offset"),
        (([16], [16], [0], [8], [9]), {}, "window of 8"),
        (([16], [16], [12], [8]), {}, "past the end of dimension 0"),
        (([16], [16], [12], [8], [6]), {"exact": False}, "past the end of dimension 0"),
        (([16, 16], [16, 16], [0], [8, 8]), {}, "1 offsets for a source of rank 2"),
    ],
)
def test_reads_that_provably_leave_the_source_are_refused(args, kwargs, text) -> None:
    with pytest.raises(OpError, match=text):
        read(*args, **kwargs)


def test_a_transfer_may_reach_over_the_end_outside_its_request() -> None:
    assert read([16], [16], [12], [8], [4], exact=False) == "[4]"


def union(shape, valid, source, source_valid, offsets, exact=False) -> str:
    parts = (dims(*d) for d in (shape, valid, source, source_valid, offsets))
    return dims_text(write_union("op", *parts, exact=exact))


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (([8, 8], [8, 8], [2, 8], [2, 8], [k, 0]), "[8, 8]"),
        (([8, 8], [v, 8], [2, 8], [0, 8], [0, 0]), "[v, 8]"),
        (([8, 8], [0, 8], [2, 8], [2, 8], [0, 0]), "[2, 8]"),
        (([8, 8], [4, 8], [2, 8], [2, 8], [1, 0]), "[4, 8]"),
        (([8, 8], [4, 4], [8, 8], [6, 5], [0, 0]), "[6, 5]"),
        (([8, 8], [4, 8], [2, 8], [2, 8], [4, 0]), "[6, 8]"),
        (([8, 8], [4, 8], [2, 8], [v, 8], [4, 0]), "[min(max(4, 4 + v), 8), 8]"),
    ],
)
def test_the_union_of_a_write_is_the_rectangle_that_it_makes(args, expected) -> None:
    assert union(*args) == expected


@pytest.mark.parametrize(
    ("args", "exact", "text"),
    [
        (([8, 8], [0, 8], [2, 8], [2, 8], [1, 0]), False, "empty target"),
        (([8, 8], [4, 4], [2, 8], [2, 8], [4, 0]), False, "not known to be a rectangle"),
        (([8, 8], [4, 8], [2, 8], [2, 8], [5, 0]), False, "not known to be a rectangle"),
        (([8, 8], [8, 8], [4, 8], [2, 8], [6, 0]), True, "past the end"),
        (([8, 8], [8, 8], [4, 8], [3, 8], [6, 0]), False, "past the end"),
        (([8, 8], [8, 8], [2, 8], [2, 8], [-1, 0]), False, "negative"),
        (([8, 8], [8, 8], [2, 8], [2, 8], [0]), False, "1 offsets"),
    ],
)
def test_writes_that_leave_gaps_or_the_target_are_refused(args, exact, text) -> None:
    with pytest.raises(OpError, match=text):
        union(*args, exact=exact)


def reshaped(valid, old, new, row_major=True) -> str:
    return dims_text(reshape_valid("op", dims(*valid), dims(*old), dims(*new), row_major))


@pytest.mark.parametrize(
    ("valid", "old", "new", "expected"),
    [
        ([2, 8], [2, 8], [16], "[16]"),
        ([0, 8], [2, 8], [4, 4], "[0, 0]"),
        ([v, 5], [16, 8], [1, 16, 1, 8], "[1, v, 1, 5]"),
        ([v, 1], [16, 1], [1, 16], "[1, v]"),
        ([1, 10, 512], [1, 16, 512], [16, 512], "[10, 512]"),
        ([1, v, 512], [1, 16, 512], [16, 512], "[v, 512]"),
        ([3, 8], [4, 8], [2, 2, 8], None),
        ([2, 8], [4, 8], [2, 2, 8], "[1, 2, 8]"),
        ([1, 4, 8], [2, 8, 8], [16, 8], "[4, 8]"),
        ([1, 1, 8], [2, 3, 8], [6, 8], "[1, 8]"),
        ([v, 8], [4, 8], [8, 8], "[v, 8]"),
        ([v, 4, 8], [4, 4, 8], [16, 8], None),
        ([4, 5], [4, 8], [2, 16], None),
        ([2, 3, 8], [2, 4, 8], [8, 8], None),
    ],
)
def test_a_reshaped_region_is_the_same_cells_or_refused(valid, old, new, expected) -> None:
    if expected is None:
        with pytest.raises(OpError, match="only part of it holds real data"):
            reshaped(valid, old, new)
    else:
        assert reshaped(valid, old, new) == expected


def test_a_flat_prefix_needs_row_major_storage() -> None:
    with pytest.raises(OpError, match="real data"):
        reshaped([1, 4, 8], [2, 8, 8], [16, 8], row_major=False)
    assert reshaped([v, 8], [4, 8], [1, 4, 8], row_major=False) == "[1, v, 8]"


def test_shapes_broadcast_from_the_right() -> None:
    assert dims_text(broadcast("op", dims(2, 1), dims(1, 3))) == "[2, 3]"
    assert dims_text(broadcast("op", dims(8), dims(4, 8))) == "[4, 8]"
    assert dims_text(broadcast("op", dims(v, 8), dims(v, 8))) == "[v, 8]"
    with pytest.raises(OpError, match="2 against 3"):
        broadcast("op", dims(2), dims(3))


@pytest.mark.parametrize(
    ("valid", "full", "contiguous"),
    [
        ([1, 2, 5], [2, 4, 5], True),
        ([2, 2, 5], [2, 4, 5], False),
        ([2, 16, 128], [4, 16, 128], True),
        ([1, 16, 128], [2, 16, 128], True),
        ([2, 4, 16], [4, 8, 16], False),
        ([2, 4, 16], [4, 4, 32], True),
        ([1, v, 512], [B, S, 512], True),
        ([2, v, 512], [B, S, 512], False),
        ([2, S, 512], [B, S, 512], True),
        ([1, 2, 4, 8], [2, 2, 4, 8], True),
        ([2, 1, 4, 8], [2, 2, 4, 8], False),
        ([4], [2, 4], True),
    ],
)
def test_which_regions_collapse_to_one_run_of_rows(valid, full, contiguous) -> None:
    assert collapse_contiguous(dims(*valid), dims(*full)) is contiguous


@pytest.mark.parametrize(
    ("shape", "merged"),
    [([2, 3, 4], "[6, 4]"), ([2, 3, 4, 5], "[24, 5]"), ([2, 2, 2, 2, 4], "[16, 4]"), ([8], "[1, 8]")],
)
def test_leading_dims_merge(shape, merged) -> None:
    assert dims_text(merged_shape(dims(*shape))) == merged


@pytest.mark.parametrize(
    ("shape", "text"),
    [([2, v, 4], "found a dynamic"), ([2, 0, 4], "not positive"), ([2**40, 2**40, 4], "more elements")],
)
def test_dims_that_cannot_merge_are_refused(shape, text) -> None:
    with pytest.raises(OpError, match=text) as caught:
        merged_shape(dims(*shape), "tile.add")
    assert caught.value.code == "T102"


@pytest.mark.parametrize(
    ("valid", "merged"),
    [
        ([1, v, 512], "[v, 512]"),
        ([2, v, 8], "[2 * v, 8]"),
        ([1, 10, 512], "[10, 512]"),
        ([1, 1, 8], "[1, 8]"),
        ([2, u, 3, v, 7], "[6 * (u * v), 7]"),
        ([0, v, 7], "[0, 7]"),
    ],
)
def test_valid_extents_merge_with_constants_first(valid, merged) -> None:
    assert dims_text(merged_valid(dims(*valid))) == merged


M, N = scalar_var("M"), scalar_var("N")
WINDOWS: list[tuple[list[int | Expr], list[int | Expr], list[int | Expr], str]] = [
    ([M, N], [0, 0, 0], [B, M, N], "[1, M, N]"),
    ([2, 3, 4], [0, 0, 0], [2, 3, 4], "[2, 3, 4]"),
    ([6, 8], [0, 0, 0], [2, 3, 8], "[2, 3, 8]"),
    ([3, 8], [0, 0, 0], [4, 3, 8], "[1, 3, 8]"),
    ([6, 8], [0, 0, 0], [2, 3, D], "[2, 3, 8]"),
    ([1, 10, 512], [0, 0, 0], [1, 10, 512], "[1, 10, 512]"),
    ([B, 1, D], [0, 0, 0], [B, S, D], "[B, 1, D]"),
    ([8, 8], [1, 0, 0], [4, 4, 8], "[2, 4, 8]"),
]
REFUSED: list[tuple[list[int | Expr], list[int | Expr], list[int | Expr], str]] = [
    ([6, 8], [0, 2, 0], [4, 4, 8], r"must fill axis 1 \(extent 4\) a whole number of times"),
    ([8, 8], [0, 2, 0], [4, 4, 8], "must start at offset 0"),
    ([8, 8], [0, k, 0], [4, 4, 8], "must start at offset 0"),
    ([12, 8], [0, 0, 0, 0], [2, 2, 4, 8], r"must fill axis 1 \(extent 2\)"),
    ([24, 8], [0, 0, 0, 0], [2, 2, 4, 8], r"must fill axis 0 \(extent 2\)"),
    ([32, 8], [0, 0, 0, 0], [2, 2, 4, 8], "hold only 16 rows"),
    ([6, 10], [0, 0, 0], [2, 3, 8], "writes 10 columns at offset 0"),
    ([6, 4], [0, 0, 6], [2, 3, 8], "writes 4 columns at offset 6"),
    ([6, 8], [1, 0, 0], [2, 3, 8], "2 rows at offset 1 of axis 0"),
    ([7, v], [0, 0, 0], [2, 3, 8], "dynamic extent"),
    ([4, 10], [0, 0, 0], [2, v, 8], "writes 10 columns"),
    ([3, 6, 8], [0, 0, 0], [2, v, 8], "axis 1 has the dynamic extent v"),
    ([4, 8], [0, 0, 4], [2, 6, 8], "runs past the tensor"),
    ([6, 8], [5, 0, 0], [2, 6, 8], "runs past the tensor"),
    ([4, 8], [-1, 0, 0], [2, 6, 8], "negative offset"),
]


@pytest.mark.parametrize(("valid", "offsets", "tensor", "window"), WINDOWS)
def test_partition_windows(valid, offsets, tensor, window) -> None:
    found = partition_window(dims(*valid), dims(*tensor), dims(*offsets))
    assert not isinstance(found, NoWindow)
    assert dims_text(found) == window


@pytest.mark.parametrize(("valid", "offsets", "tensor", "text"), REFUSED)
def test_stores_without_a_partition_window_say_why(valid, offsets, tensor, text) -> None:
    found = partition_window(dims(*valid), dims(*tensor), dims(*offsets))
    assert isinstance(found, NoWindow)
    assert re.search(text, found.reason), found.reason


def test_a_run_of_rows_of_dynamic_columns_or_outermost_offset_has_boxes() -> None:
    boxes = row_boxes(dims(6, v), dims(4, 4, 8), dims(k, 2, 0))
    assert boxes is not None
    assert [(b.first, b.rows, dims_text(b.offsets), dims_text(b.window)) for b in boxes] == [
        (0, 2, "[k, 2, 0]", "[1, 2, v]"),
        (2, 4, "[k + 1, 0, 0]", "[1, 4, v]"),
    ]


@pytest.mark.parametrize(
    ("valid", "tensor", "offsets"),
    [((v, 8), (4, 4, 8), (0, 2, 0)), ((6, 8), (4, v, 8), (0, 2, 0)), ((6, 8), (4, 4, 8), (0, k, 0))],
    ids=["rows", "axis", "place"],
)
def test_a_run_of_rows_over_what_is_not_constant_has_no_boxes(valid, tensor, offsets) -> None:
    assert row_boxes(dims(*valid), dims(*tensor), dims(*offsets)) is None


def test_ranks_that_do_not_go_together_are_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="rank-3 tile"):
        partition_window(dims(1, 2, 3), dims(2, 3), dims(0, 0))
