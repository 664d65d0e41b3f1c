"""Places of accumulator tiles: what is known of windows, of what is written in them, and of the strides with which they lie."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pypto_ir.congruence import ANY, Congruence, exactly, integers
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, index
from pypto_ir.types import Compact, Memory, TileType, dims, implicit_view, scalar_var, tile_type
from pypto_ir.verify.acc_places import (
    NOTHING,
    Axis,
    Place,
    Stride,
    Written,
    coincide,
    is_nothing,
    met,
    most,
    reaches,
    stride_by_type,
    stride_of,
    whole_blocks,
)

K, V = scalar_var("k"), scalar_var("v")
MULTIPLE = integers(0, 16)
UP_TO_16 = Binary("min", V, index(16))


def acc(rows: int | Expr, columns: int | Expr, valid: int | Expr | None = None, compact: bool = False) -> TileType:
    shape = dims(rows, columns)
    view = implicit_view(shape, Memory.ACC)
    view = replace(view, valid=shape if valid is None else dims(valid, columns), compact=Compact.NORMAL if compact else Compact.NULL)
    return tile_type(shape, DType.FP32, Memory.ACC, view)


def axis(offset: Expr | int | None, begins: Congruence, extent: int | None = 64, written: Written = None) -> Axis:
    return Axis(index(offset) if isinstance(offset, int) else offset, begins, extent, written)


def test_nothing_is_an_extent_of_no_rows() -> None:
    assert is_nothing(NOTHING) and is_nothing(index(0))
    assert not is_nothing(index(1)) and not is_nothing(V) and not is_nothing(None)


def test_an_offset_is_named_where_it_is_one_of_the_accumulator() -> None:
    assert axis(32, exactly(32)).shown == index(32)
    assert axis(K, MULTIPLE).shown == K and axis(K, exactly(8)).shown == K
    # of a window that control flow gives, 0 is where that window begins
    assert axis(0, MULTIPLE).shown is None and axis(None, MULTIPLE).shown is None and axis(None, exactly(0)).shown is None


def test_a_window_begins_at_the_sum_of_the_offsets() -> None:
    assert axis(16, exactly(16)).part(index(8), exactly(8)) == axis(24, exactly(24))
    assert axis(K, MULTIPLE).part(index(8), exactly(8)).begins == integers(8, 16)
    assert axis(None, ANY).part(index(8), exactly(8)) == axis(None, ANY)
    assert axis(16, exactly(16), None).part(index(8), exactly(8)).extent is None


@pytest.mark.parametrize(
    ("written", "at", "then"),
    [
        (V, exactly(0), V), (V, exactly(16), None), (V, ANY, None), (V, MULTIPLE, None),
        (NOTHING, exactly(0), NOTHING), (NOTHING, exactly(16), NOTHING), (NOTHING, ANY, NOTHING), (None, exactly(0), None),
        (index(24), exactly(0), index(24)), (index(24), exactly(16), index(8)), (index(24), exactly(24), NOTHING),
        (index(24), exactly(32), NOTHING), (index(24), ANY, None), (None, exactly(16), None),
        (UP_TO_16, exactly(0), UP_TO_16), (UP_TO_16, exactly(16), NOTHING), (UP_TO_16, exactly(15), None),
        (Binary("add", UP_TO_16, index(16)), exactly(32), NOTHING), (Binary("add", UP_TO_16, index(16)), exactly(31), None),
    ],
)  # fmt: skip
def test_what_is_written_counts_from_the_window(written: Written, at: Congruence, then: Written) -> None:
    assert axis(0, exactly(0), 64, written).part(K, at).written == then


@pytest.mark.parametrize(
    ("before", "window", "at", "after"),
    [
        (NOTHING, index(16), exactly(0), index(16)), (NOTHING, index(16), exactly(32), index(48)),
        (index(64), index(16), exactly(32), index(64)),
        (NOTHING, None, exactly(0), None), (NOTHING, index(16), ANY, None),
        (NOTHING, index(16), MULTIPLE, None), (None, index(16), exactly(0), None),
    ],
)  # fmt: skip
def test_a_window_that_is_put_back_is_written_up_to_its_end(before: Written, window: Written, at: Congruence, after: Written) -> None:
    found = axis(0, exactly(0), 64, before).putting_back(axis(K, ANY, 64, window), at)
    assert found == axis(0, exactly(0), 64, after)


def test_a_buffer_of_its_own_has_the_extents_of_its_type() -> None:
    assert Place.whole("a", acc(16, 64), V) == Place("a", axis(0, exactly(0), 16, V), axis(0, exactly(0), 64, V))
    assert Place.whole("a", acc(V, 64), None) == Place("a", axis(0, exactly(0), None), axis(0, exactly(0), None))
    assert Place.unknown("a") == Place("a", axis(0, ANY, None), axis(0, ANY, None))


def test_blank_is_what_has_no_row_or_no_column_written() -> None:
    def place(rows: Written, columns: Written) -> Place:
        return Place("a", axis(0, exactly(0), 64, rows), axis(0, exactly(0), 64, columns))

    assert place(NOTHING, V).blank and place(V, NOTHING).blank and place(NOTHING, NOTHING).blank
    assert not place(V, V).blank and not place(None, V).blank and not place(None, None).blank


@pytest.mark.parametrize(("extent", "stride"), [(16, 16), (17, 32), (8, 16), (64, 64), (None, None)])
def test_block_columns_of_an_accumulator_are_whole_blocks_apart(extent: int | None, stride: int | None) -> None:
    assert Place("a", axis(0, exactly(0), extent), axis(0, exactly(0))).stride == stride
    assert extent is None or whole_blocks(extent) == stride


def test_windows_are_the_same_where_both_begin_at_one_cell_of_one_buffer() -> None:
    def place(root: str, row: Expr | int | None, column: Expr | int | None) -> Place:
        return Place(root, axis(row, ANY), axis(column, ANY))

    a = place("a", K, 16)
    assert a.same_window(place("a", K, 16)) and a.same_window(place("a", Binary("sub", Binary("add", K, V), V), 16))
    for other in (place("b", K, 16), place("a", V, 16), place("a", K, 32), place("a", None, 16), place("a", K, None)):
        assert not a.same_window(other) and not other.same_window(a)
    assert not place("a", None, 16).same_window(place("a", None, 16)), "two unknown rows may be two"


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        (index(8), index(16), index(16)), (index(16), index(8), index(16)), (V, V, V), (NOTHING, V, V), (V, NOTHING, V),
        (V, K, None), (None, V, None), (V, None, None), (None, None, None), (NOTHING, NOTHING, NOTHING),
    ],
)  # fmt: skip
def test_what_is_written_by_either_lies_below_the_greater_extent(a: Written, b: Written, both: Written) -> None:
    assert most(a, b) == both


def test_an_extent_reaches_what_is_provably_below_it() -> None:
    assert reaches(V, NOTHING) and reaches(V, V) and reaches(index(16), index(8)) and reaches(index(16), index(16))
    assert not reaches(None, NOTHING) and not reaches(V, None) and not reaches(V, K) and not reaches(index(8), index(16))


def test_what_two_paths_have_in_common() -> None:
    a = Place("a", axis(0, exactly(0), 64, index(8)), axis(16, exactly(16), 64, V))
    assert met(a, a, "r") == a
    beside = Place("a", axis(0, exactly(0), 64, index(16)), axis(48, exactly(48), 64, V))
    assert met(a, beside, "r") == Place("r", axis(0, exactly(0), 64, index(16)), axis(0, integers(16, 32), 64, V))
    other = Place("b", axis(0, exactly(0), 32, index(8)), axis(16, exactly(16), 64, K))
    assert met(a, other, "r") == Place("r", axis(0, exactly(0), None, index(8)), axis(0, exactly(16), 64, None))
    longer = Place("a", axis(0, exactly(0), 64, index(16)), axis(16, exactly(16), 64, V))
    assert met(a, longer, "r") == longer


@pytest.mark.parametrize(
    ("rows", "most_rows", "stride"),
    [
        (index(16), None, 16), (index(17), None, 32), (index(8), 64, 16), (V, 16, 16), (V, 8, 16), (V, 17, V), (V, 32, V), (V, None, V),
    ],
)  # fmt: skip
def test_the_stride_of_rows_is_in_whole_blocks(rows: Expr, most_rows: int | None, stride: Stride) -> None:
    assert stride_of(rows, most_rows) == stride


def test_compact_tiles_are_addressed_by_their_valid_rows() -> None:
    place = Place.whole("a", acc(32, 64), None)
    assert stride_by_type(acc(32, 64, V), place) == 32 and stride_by_type(acc(32, 64, V, compact=True), place) == V
    assert stride_by_type(acc(32, 64, 16, compact=True), place) == 16
    assert stride_by_type(acc(16, 64, V, compact=True), Place.whole("a", acc(16, 64), None)) == 16
    assert stride_by_type(acc(V, 64), Place.unknown("a")) is None


@pytest.mark.parametrize(
    ("a", "b", "one"),
    [
        (16, 16, True), (16, 32, False), (V, V, True), (V, Binary("sub", Binary("add", V, K), K), True),
        (V, K, False), (V, 16, False), (16, V, False),
        (None, None, False), (16, None, False), (None, 16, False), (V, None, False), (None, V, False),
    ],
)  # fmt: skip
def test_strides_coincide_where_they_are_provably_one(a: Stride | None, b: Stride | None, one: bool) -> None:
    assert coincide(a, b) == one
