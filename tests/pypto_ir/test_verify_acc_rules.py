"""Rules of accumulator memory one by one: which product may write which window, and which instruction reads which tile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_verify_acc_places import MULTIPLE, K, V, acc, axis

from pypto_ir.acc_reads import AccReads
from pypto_ir.congruence import ANY, Congruence, exactly, integers
from pypto_ir.expr import Expr, index
from pypto_ir.types import Memory, TileType
from pypto_ir.verify.acc_places import NOTHING, Axis, Place, Stride, Written
from pypto_ir.verify.acc_rules import (
    Finding,
    Product,
    Reading,
    complete,
    cut,
    handed_on,
    made,
    misaligned,
    reshaped,
    stride_text,
    window_text,
    written_over,
)

MAT, VEC = Memory.MAT, Memory.VEC


def whole(rows: int, columns: int, written: Written = NOTHING) -> Place:
    return Place.whole("a", acc(rows, columns), written)


def window(row: int | Expr, column: int | Expr, rows: int | None, columns: int | None, begins: Congruence | None = None) -> Place:
    """A window of an accumulator of so many rows and columns, of which nothing is written."""
    across = begins or (exactly(column) if isinstance(column, int) else ANY)
    down = exactly(row) if isinstance(row, int) else ANY
    return Place("a", axis(row, down, rows, NOTHING), axis(column, across, columns, NOTHING))


def product(t: TileType, place: Place, m: Expr | int, n: Expr | int, keep: bool = True, **known: Congruence) -> list[Finding]:
    m, n = (index(e) if isinstance(e, int) else e for e in (m, n))
    return list(Product("tile.matmul_acc", t, place, m, n, known, keep).findings())


def codes(found: list[Finding]) -> list[str]:
    return [f.code for f in found]


# ---- products ----------------------------------------------------------------------------------------------


def test_a_product_needs_a_constant_shape() -> None:
    (found,) = product(acc(V, 64), Place.unknown("a"), V, 64)
    assert found.code == "V301" and "[v, 64] whose shape is not constant" in found.message and "T * N" in found.help


@pytest.mark.parametrize(
    ("t", "place", "expected"),
    [
        (acc(16, 16), window(16, 0, 64, 64), []),
        (acc(16, 17), window(16, 0, 64, 64), ["V301"]),
        (acc(16, 32), window(16, 0, 64, 64), ["V301"]),
        (acc(64, 32), window(0, 32, 64, 64), []),
        (acc(16, 32), window(0, 0, None, None), ["V301"]),
        (acc(16, 16), window(0, 0, None, None), []),
    ],
)
def test_windows_of_several_block_columns_have_the_height_of_the_accumulator(t: TileType, place: Place, expected: list[str]) -> None:
    rows, columns = t.static_shape or (0, 0)
    assert codes(product(t, place, rows, columns)) == expected


def test_the_distances_of_block_columns_are_told() -> None:
    (found,) = product(acc(15, 32), window(16, 0, 60, 64), 15, 32)
    assert "16 rows apart" in found.message and "64 rows apart" in found.message
    (found,) = product(acc(16, 32), window(0, 0, None, None), 16, 32)
    assert "merges from several of different heights" in found.message


@pytest.mark.parametrize(
    ("t", "place", "m", "expected"),
    [
        (acc(32, 64, V), whole(32, 64), V, ["V304"]),
        (acc(32, 64, V, compact=True), whole(32, 64), V, []),
        (acc(32, 64), whole(32, 64), 32, []),
        (acc(32, 64), whole(32, 64), 17, []),
        (acc(32, 64), whole(32, 64), 16, ["V304"]),
        (acc(16, 64, V), whole(16, 64), V, []),
        # a window is addressed by the rows of its accumulator
        (acc(32, 32, V, compact=True), window(0, 32, 32, 64), V, ["V304"]),
        (acc(32, 32), window(0, 32, 32, 64), 32, []),
        # one block column has no stride
        (acc(32, 16, V), whole(32, 16), V, []),
    ],
)
def test_a_product_writes_with_the_stride_that_is_read(t: TileType, place: Place, m: Expr | int, expected: list[str]) -> None:
    found = product(t, place, m, t.shape[1])
    assert codes(found) == expected
    assert all("set_validshape" in f.help and "it is read as if" in f.message for f in found)


@pytest.mark.parametrize(
    ("columns", "begins", "expected"),
    [
        (16, exactly(16), []), (16, exactly(8), ["V302"]), (8, exactly(8), []), (8, exactly(9), ["V302"]), (32, exactly(16), []),
        (32, exactly(8), ["V302"]), (16, MULTIPLE, []), (16, integers(0, 8), ["V302"]), (8, integers(0, 8), []), (16, ANY, ["V302"]),
    ],
)  # fmt: skip
def test_columns_of_a_window_stay_in_their_block(columns: int, begins: Congruence, expected: list[str]) -> None:
    column = begins.exact if begins.exact is not None else K
    assert codes(product(acc(16, columns), window(0, column, 16, 128, begins), 16, columns)) == expected


def beside(extent: int | None, at: Congruence, written: Written) -> Axis:
    return axis(0, at, extent, written)


@pytest.mark.parametrize("axis_of", ["rows", "columns"])
@pytest.mark.parametrize(
    ("size", "used", "place", "whose"),
    [
        (16, index(16), beside(64, exactly(0), index(64)), None),
        (8, index(8), beside(8, exactly(0), index(8)), None),
        (8, index(8), beside(16, exactly(0), NOTHING), "behind the window"),
        (8, index(8), beside(24, exactly(16), NOTHING), None),
        (8, index(8), beside(16, exactly(8), NOTHING), "behind the window"),
        (8, index(8), beside(40, exactly(16), NOTHING), "behind the window"),
        (8, index(8), beside(24, MULTIPLE, NOTHING), "behind the window"),
        (8, index(8), beside(None, exactly(16), NOTHING), "behind the window"),
        (8, index(8), beside(8, MULTIPLE, index(8)), None),
        (16, V, beside(16, exactly(0), NOTHING), None),
        (16, V, beside(16, exactly(0), V), None),
        (16, V, beside(64, exactly(32), NOTHING), None),
        (16, V, beside(16, exactly(0), index(16)), "written before"),
        (16, V, beside(16, exactly(0), None), "written before"),
        (8, index(4), beside(8, exactly(0), index(8)), "written before"),
        (8, index(8), beside(8, exactly(0), None), None),
        (16, K, beside(16, exactly(0), None), None),
    ],
)  # fmt: skip
def test_the_rest_of_the_last_blocks_belongs_to_nobody(axis_of: str, size: int, used: Expr, place: Axis, whose: str | None) -> None:
    """k is a multiple of 16; the other axis fills its blocks."""
    full = axis(0, exactly(0), 16, index(16))
    if axis_of == "rows":
        t, where, m, n = acc(size, 16), Place("a", place, full), used, index(16)
    else:
        t, where, m, n = acc(16, size), Place("a", full, place), index(16), used
    within = axis_of == "rows" or place.begins.within_block(size, 16)
    found = product(t, where, m, n, keep=False, k=MULTIPLE)
    assert codes(found) == (["V302"] if not within else ["V303"] if whose else [])
    for f in found if within else ():
        assert f"{axis_of} {whose}" in f.message or f"{axis_of} of the window that were {whose}" in f.message
        assert "is not documented" in f.message and f"let {axis_of} be a multiple" in f.help
    assert not product(t, where, m, n, keep=True, k=MULTIPLE) or not within


# ---- reads -------------------------------------------------------------------------------------------------


def read(t: TileType, place: Place, op: str = "tile.move", into: Memory | None = VEC, a5: bool = False, **more: object) -> list[Finding]:
    at, columns = more.get("at", place.columns), more.get("columns", (t.static_shape or (0, 0))[1])
    return list(Reading(op, t, place, at, columns, into, AccReads(a5, a5)).findings())  # type: ignore[arg-type]


def lies(place: Place, written: Written = V) -> Place:
    return Place("a", replace(place.rows, written=written), replace(place.columns, written=written))


FULL, FEW, FEW_OF_TYPE = acc(32, 64), acc(32, 64, V, compact=True), acc(32, 64, V)


def test_what_holds_nothing_may_be_read_in_any_way() -> None:
    assert not read(FEW, whole(32, 64), into=MAT)
    assert codes(read(FEW, lies(whole(32, 64)), into=MAT)) == ["V304"]


@pytest.mark.parametrize(
    ("op", "into", "a5", "strides"),
    [
        # strides of a full tile, of a compact one, of one whose valid rows the type only tells
        ("tile.store", None, False, (32, V, 32)),
        ("tile.store", MAT, True, (32, V, 32)),
        ("tile.move", VEC, False, (32, V, 32)),
        ("tile.extract", VEC, True, (32, V, 32)),
        ("tile.extract", MAT, True, (32, 32, 32)),
        ("tile.extract", MAT, False, (32, 32, 32)),
        ("tile.assemble", MAT, False, (32, 32, 32)),
        ("tile.assemble", MAT, True, (32, 32, 32)),
        ("tile.assemble", VEC, True, (32, V, V)),
        ("tile.move", MAT, False, (32, 32, 32)),
        ("tile.move", MAT, True, (32, V, V)),
        ("tile.move", VEC, True, (32, V, V)),
    ],
)
def test_each_instruction_reads_with_its_stride(op: str, into: Memory | None, a5: bool, strides: tuple[Stride, ...]) -> None:
    place = lies(whole(32, 64))
    for t, stride in zip((FULL, FEW, FEW_OF_TYPE), strides, strict=True):
        assert Reading(op, t, place, place.columns, 64, into, AccReads(a5, a5))._stride() == stride
    # 8 valid rows that are constant: only an assemble packs them
    constant = Reading(op, acc(32, 64, 8), place, place.columns, 64, into, AccReads(a5, a5))._stride()
    assert constant == (16 if op == "tile.assemble" and into is VEC else 32)


@pytest.mark.parametrize(("columns", "expected"), [(16, []), (17, ["V304"]), (64, ["V304"])])
def test_a_single_block_column_is_read_whatever_its_stride(columns: int, expected: list[str]) -> None:
    place = lies(Place.whole("a", acc(32, columns), None))
    found = read(acc(32, columns, V, compact=True), place, into=MAT)
    assert codes(found) == expected
    assert all("32 rows apart; they lie v rows, rounded up to 16, apart" in f.message and "all rows be valid" in f.help for f in found)
    # one of several block columns has to be found
    assert codes(read(FEW, lies(whole(32, 64)), into=MAT, columns=16, at=axis(16, exactly(16), 64, V))) == ["V304"]


@pytest.mark.parametrize(
    ("columns", "begins", "expected"),
    [(16, exactly(16), []), (16, exactly(8), ["V302"]), (8, exactly(8), []), (32, exactly(8), ["V302"]), (64, exactly(16), [])],
)
def test_what_is_read_begins_at_a_block(columns: int, begins: Congruence, expected: list[str]) -> None:
    at = axis(begins.exact, begins, 64, V)
    assert codes(read(FULL, lies(whole(32, 64)), columns=columns, at=at)) == expected
    # where it lies elsewhere, too, only that is told
    assert expected == [] or codes(read(FEW, lies(whole(32, 64)), into=MAT, columns=columns, at=at)) == expected


# ---- what is handed on -------------------------------------------------------------------------------------


def test_what_is_handed_on_keeps_its_stride() -> None:
    place = lies(whole(32, 64))
    assert codes([*handed_on(FEW, place, FULL)]) == codes([*handed_on(FULL, place, FEW)]) == ["V304"]
    assert not [*handed_on(FEW, place, FEW)] and not [*handed_on(FULL, place, FEW_OF_TYPE)]
    assert not [*handed_on(FEW, whole(32, 64), FULL)], "nothing is written"
    assert not [*handed_on(acc(32, 16, V, compact=True), place, acc(32, 16))], "one block column"
    assert codes([*handed_on(acc(32, 17, V, compact=True), place, acc(32, 17))]) == ["V304"]
    assert not [*handed_on(acc(32, K, V, compact=True), place, acc(32, K))], "an unknown number of columns"
    (found,) = handed_on(FEW, place, FULL)
    assert "[32, 64] with block columns v rows, rounded up to 16, apart is handed on as one with 32 rows" in found.message


def test_a_window_is_cut_where_rows_lie_as_far_apart_as_those_of_the_accumulator() -> None:
    place = lies(whole(32, 64))
    assert codes([*cut(FEW, place)]) == ["V304"] and not [*cut(FULL, place)] and not [*cut(FEW_OF_TYPE, place)]
    assert not [*cut(FEW, whole(32, 64))] and not [*cut(acc(32, 16, V, compact=True), place)]


def test_other_shapes_other_writers_and_windows_that_leave() -> None:
    (found,) = reshaped(FULL, lies(whole(32, 64)))
    assert found.code == "V306" and "the accumulator [32, 64]" in found.message
    assert not [*reshaped(FULL, whole(32, 64))]
    assert not [*complete(FULL, whole(32, 64), "returned")]
    (found,) = complete(acc(32, 32), window(0, 32, 32, 64), "returned")
    assert found.code == "V301" and "the window [32, 32] at [0, 32] of an accumulator [32, 64] is returned" in found.message
    assert codes([*complete(acc(16, 64), window(0, 0, 32, 64), "returned")]) == ["V301"]
    (found,) = written_over("tile.assemble", FULL, whole(32, 64))
    assert found.code == "V305" and "writes a tile that is not proved to be the window there into the accumulator" in found.message
    (found,) = written_over("tile.fillpad_inplace", FULL, whole(32, 64))
    assert "tile.fillpad_inplace writes it into" in found.message
    (found,) = made("tile.move")
    assert found.code == "V305" and "tile.move makes a tile in Acc" in found.message


# ---- words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (axis(8, exactly(8)), "begins at column 8,"),
        (axis(K, integers(8, 16)), "(`k`) that is not proved to be a multiple of 16: it is 8 modulo 16"),
        (axis(K, ANY), "(`k`) that is not proved to be a multiple of 16: nothing is known of it"),
        (axis(0, integers(8, 56)), "(known at run time only) that is not proved to be a multiple of 16: it is 8 modulo 56"),
        (axis(None, ANY), "(known at run time only)"),
    ],
)
def test_a_misaligned_column_is_told_with_what_is_known_of_it(at: Axis, words: str) -> None:
    (found,) = misaligned("tile.matmul", "the window", at)
    assert found.code == "V302" and words in found.message


@pytest.mark.parametrize(
    ("t", "place", "text"),
    [
        (acc(32, 64), whole(32, 64), "the accumulator [32, 64]"),
        (acc(16, 32), window(16, K, 64, 128), "the window [16, 32] at [16, k] of an accumulator [64, 128]"),
        (acc(16, 32), window(16, 0, 64, 128, MULTIPLE), "the window [16, 32] of an accumulator [64, 128]"),
        (acc(16, 32), Place("a", axis(None, ANY, 64), axis(16, exactly(16), 128)), "the window [16, 32] of an accumulator [64, 128]"),
        (acc(16, 32), window(16, 32, None, 128), "the window [16, 32] at [16, 32] of an accumulator"),
        (acc(16, 32), window(16, 32, 64, None), "the window [16, 32] at [16, 32] of an accumulator"),
    ],
)
def test_a_window_is_named_by_its_extents_and_what_is_known_of_its_place(t: TileType, place: Place, text: str) -> None:
    assert window_text(t, place) == text


def test_strides_are_named_in_rows() -> None:
    assert stride_text(None) == "an unknown number of rows" and stride_text(32) == "32 rows"
    assert stride_text(V) == "v rows, rounded up to 16,"
