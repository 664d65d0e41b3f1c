"""Places in buffers: boxes that provably share no cell or contain each other, and the writes that a value does not know of."""

from __future__ import annotations

import pytest

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, index
from pypto_ir.stmt import Eval
from pypto_ir.types import Memory, TileType, dims, scalar_var, tile_type
from pypto_ir.verify.aliases import MISSED, Box, Buffers, Ref, Write, covers, disjoint

K, N = scalar_var("i"), scalar_var("n")
STATEMENT = Eval(N)


def tile(*shape: int | Expr) -> TileType:
    return tile_type(dims(*shape), DType.FP32, Memory.VEC)


def box(offsets: tuple[int | Expr, ...], sizes: tuple[int, ...]) -> Box:
    return Box(dims(*offsets), sizes)


def plus(e: Expr, n: int) -> Expr:
    return Binary("add", e, index(n))


def write(b: Box | None) -> Write:
    return Write(b, ("body", 0), STATEMENT)


def test_the_box_of_a_tile_is_all_of_it_where_its_shape_is_constant() -> None:
    assert Box.of(tile(16, 32)) == box((0, 0), (16, 32))
    assert Box.of(tile(N, 32)) is None


def test_a_part_of_a_box_lies_at_the_sum_of_the_offsets() -> None:
    whole = box((4, K), (16, 32))
    assert whole.part(dims(3, 8), (2, 4)) == Box((index(7), whole.part(dims(0, 8), (1, 1)).offsets[1]), (2, 4))  # type: ignore[union-attr]
    assert box((4, 8), (16, 32)).part(dims(3, 5), (2, 4)) == box((7, 13), (2, 4))
    assert whole.part(dims(0), (2, 4)) is None
    assert whole.part(dims(0, 0), (2,)) is None
    assert whole.part(dims(0, 0, 0), (1, 2, 4)) is None


@pytest.mark.parametrize("axis", [0, 1])
def test_boxes_share_no_cell_where_one_ends_before_the_other_begins_on_some_axis(axis: int) -> None:
    def at(start: int | Expr, size: int) -> Box:
        offsets: list[int | Expr] = [0, 0]
        sizes = [32, 32]
        offsets[axis], sizes[axis] = start, size
        return box(tuple(offsets), tuple(sizes))

    for a, b, apart in (
        (at(0, 16), at(16, 16), True),
        (at(0, 17), at(16, 16), False),
        (at(16, 8), at(0, 32), False),
        (at(K, 16), at(plus(K, 16), 4), True),
        (at(K, 17), at(plus(K, 16), 4), False),
        (at(K, 4), at(N, 4), False),
        (at(0, 4), at(N, 4), False),
    ):
        assert disjoint(a, b) == disjoint(b, a) == apart, (a, b)


def test_a_box_that_is_not_known_may_share_cells_with_every_other() -> None:
    small = box((0, 0), (1, 1))
    assert not disjoint(None, small) and not disjoint(small, None) and not disjoint(None, None)
    assert not disjoint(small, box((5,), (1,))) and not disjoint(box((5,), (1,)), small)
    assert not disjoint(box((0, 5), (1, 1)), box((3, 5, 0), (1, 1, 1)))


def test_a_box_covers_those_that_lie_in_it() -> None:
    outer = box((4, 8), (16, 32))
    assert covers(outer, outer)
    assert covers(outer, box((4, 8), (16, 32))) and covers(outer, box((5, 9), (15, 31))) and covers(outer, box((19, 39), (1, 1)))
    for beside in (box((3, 8), (16, 32)), box((4, 7), (1, 1)), box((5, 8), (16, 32)), box((4, 9), (16, 32)), box((20, 8), (1, 1))):
        assert not covers(outer, beside), beside
    assert covers(box((K, 0), (16, 4)), box((plus(K, 4), 0), (12, 4)))
    assert not covers(box((K, 0), (16, 4)), box((plus(K, 5), 0), (12, 4)))
    assert not covers(box((K, 0), (16, 4)), box((N, 0), (1, 4)))


def test_the_whole_buffer_covers_everything_and_nothing_known_covers_it() -> None:
    known = box((0, 0), (16, 32))
    assert covers(None, known) and covers(None, None)
    assert not covers(known, None)
    assert not covers(known, box((0,), (1,)))


def test_a_value_misses_the_writes_after_it_that_touch_its_cells() -> None:
    buffers = Buffers()
    (ref,) = buffers.fresh("t", tile(16, 32))
    assert ref == Ref(0, box((0, 0), (16, 32)), True, 0) and buffers.missed(ref) == ()
    upper, lower = write(box((0, 0), (8, 32))), write(box((8, 0), (8, 32)))
    buffers.write(ref, upper)
    buffers.write(ref, lower)
    assert buffers.missed(ref) == (upper, lower)
    assert buffers.missed(Ref(0, box((8, 0), (8, 32)), True, 0)) == (lower,)
    assert buffers.missed(Ref(0, None, True, 0)) == (upper, lower)
    assert buffers.missed(Ref(0, box((0, 0), (16, 32)), True, 1)) == (lower,)
    assert buffers.missed(buffers.knows_all(ref)) == ()
    assert buffers.missed(buffers.knows_all(ref, (upper,))) == (upper,)


def test_past_eight_missed_writes_one_of_the_whole_buffer_stands_for_the_rest() -> None:
    buffers = Buffers()
    (ref,) = buffers.fresh("t", tile(16, 32))
    writes = [write(box((i, 0), (1, 32))) for i in range(MISSED + 3)]
    for i, w in enumerate(writes):
        buffers.write(ref, w)
        found = buffers.missed(ref)
        if i < 8:
            assert list(found) == writes[: i + 1]
    assert list(found[:8]) == writes[:8] and len(found) == 9
    assert found[8].box is None and found[8].path == writes[8].path


def test_writes_of_an_arm_are_taken_back_and_put_back_in_order() -> None:
    buffers = Buffers()
    (a,) = buffers.fresh("a", tile(16, 32))
    (b,) = buffers.fresh("b", tile(16, 32))
    first, second, third = (write(box((i, 0), (1, 32))) for i in range(3))
    buffers.write(a, first)
    mark = len(buffers.journal)
    buffers.write(a, second)
    buffers.write(b, third)
    undone = buffers.take_back(mark)
    assert undone == [(0, second), (1, third)]
    assert buffers.logs == [[first], []] and len(buffers.journal) == mark
    buffers.put_back(undone)
    assert buffers.logs == [[first, second], [third]]
    assert buffers.take_back(mark) == undone


def test_a_merged_value_misses_what_any_of_its_sources_misses() -> None:
    buffers = Buffers()
    value = buffers.fresh("t", tile(16, 32))
    other = buffers.fresh("u", tile(16, 32))
    w, v = write(box((0, 0), (1, 32))), write(box((1, 0), (1, 32)))
    buffers.write(value[0], w)
    stale = buffers.settle(value)
    buffers.write(value[0], v)
    staler = buffers.settle(value)
    known = (buffers.knows_all(value[0]),)
    assert [r.missing for r in stale] == [(w,)] and [r.missing for r in staler] == [(w, v)]
    merged = buffers.merge([known, stale, staler, other])
    assert [(r.buffer, r.missing) for r in merged] == [(0, (w, v)), (1, ())]
    assert all(buffers.missed(r) == r.missing for r in merged)
