"""Meanings on memory and single cells: collapsed loads, stores into boxes, tensor ops, reads and writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_support import FP16, FP32, INT32, Value, const, defined, evaluation, run, tile_t

from pypto_ir.dtypes import DType
from pypto_ir.interp.memory import Tensor
from pypto_ir.interp.values import UNDEFINED, RunError, Tile
from pypto_ir.ops.registry import OpDef, find_op
from pypto_ir.types import Layout, Memory, TileLayout

N = None


def declared(name: str) -> OpDef:
    op = find_op(name)
    assert op is not None
    return op


def content(x: Tensor) -> list[Any]:
    data, ok = x.read((0,) * len(x.shape), x.shape)
    return np.where(ok, data.astype(object), None).tolist()


def counted(*shape: int) -> Tensor:
    return Tensor.of("x", np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape), FP32)


def collapsed(
    x: Tensor,
    offsets: tuple[int, ...],
    window: tuple[int, ...],
    valid: tuple[int, ...],
    shape: Any,
    flat: Any,
) -> Any:
    """A load whose result is 2-D while its window is not."""
    op = declared("tile.load")
    ev = evaluation(op, [x, offsets, window, valid], {"target_memory": "Vec"}, tile_t(shape, FP32, flat))
    assert op.meaning is not None
    return defined(op.meaning(ev))


def test_a_collapsed_load_lays_rows_one_after_another() -> None:
    rows = np.arange(24.0).reshape(6, 4).tolist()
    assert collapsed(counted(2, 3, 4), (0, 0, 0), (2, 3, 4), (2, 3, 4), (6, 4), (6, 4)) == rows


def test_a_collapsed_load_of_a_prefix_keeps_rows_in_place() -> None:
    found = collapsed(counted(2, 3, 4), (1, 0, 0), (1, 3, 4), (1, 2, 3), (3, 4), (2, 3))
    assert found == [[12.0, 13.0, 14.0, N], [16.0, 17.0, 18.0, N], [N] * 4]


def test_a_collapsed_load_of_a_box_with_gaps_packs_its_rows() -> None:
    found = collapsed(counted(2, 3, 2), (0, 0, 0), (2, 3, 2), (2, 2, 2), (6, 2), (4, 2))
    assert found == [[0.0, 1.0], [2.0, 3.0], [6.0, 7.0], [8.0, 9.0], [N, N], [N, N]]


def test_a_collapsed_load_is_cut_where_its_source_ends() -> None:
    x = counted(2, 3, 2).view((2, 3, 2), (2, 2, 2))
    found = collapsed(x, (0, 0, 0), (2, 3, 2), (2, 3, 2), (6, 2), (4, 2))
    assert found == [[0.0, 1.0], [2.0, 3.0], [6.0, 7.0], [8.0, 9.0], [N, N], [N, N]]


def test_an_empty_valid_region_reads_nothing() -> None:
    found = run("tile.load", counted(4, 2), (4, 0), (2, 2), (0, 2), clamp=True)
    assert defined(found) == [[N, N], [N, N]]


def test_a_load_outside_the_tensor_is_a_run_error() -> None:
    with pytest.raises(RunError):
        collapsed(counted(2, 3, 2), (1, 0, 0), (2, 3, 2), (2, 3, 2), (6, 2), (6, 2))


def test_blocked_scales_load_as_their_logical_tile() -> None:
    logical = np.arange(64, dtype=np.uint8).reshape(32, 2)
    packed = logical.reshape(2, 16, 1, 2).transpose(0, 2, 1, 3)[None]
    op = declared("tile.load")
    t = tile_t((32, 2), DType.UINT8, memory=Memory.MAT, blayout=TileLayout.ROW_MAJOR, fractal=32)
    x = Tensor.of("s", packed, DType.UINT8)
    assert op.meaning is not None
    assert op.meaning(evaluation(op, [x, (0,) * 5, packed.shape], {}, t)).data.tolist() == logical.tolist()
    b = logical.T
    packed_b = b.reshape(1, 2, 2, 16).transpose(2, 0, 3, 1)[None]
    t = tile_t((2, 32), DType.UINT8, memory=Memory.MAT, slayout=TileLayout.COL_MAJOR, fractal=32)
    x = Tensor.of("s", packed_b, DType.UINT8)
    assert op.meaning(evaluation(op, [x, (0,) * 5, packed_b.shape], {}, t)).data.tolist() == b.tolist()


def test_a_store_transfers_the_valid_region() -> None:
    out = counted(2, 3)
    assert run("tile.store", Value([[7.0, 8.0], [9.0, 9.0]], valid=(1, 2)), (1, 1), out) is out
    assert content(out) == [[0.0, 1.0, 2.0], [3.0, 7.0, 8.0]]


def test_a_store_of_an_undefined_cell_leaves_an_undefined_cell() -> None:
    out = counted(1, 2)
    run("tile.store", Value([[7.0, 8.0]], ok=[[True, False]]), (0, 0), out)
    assert content(out) == [[7.0, N]]


def test_a_store_grows_the_valid_region_of_its_tensor() -> None:
    part = Tensor.of("o", np.zeros((4, 2)), FP32).view((4, 2), (1, 2))
    two = run("tile.store", Value([[1.0, 2.0]]), (1, 0), part)
    assert (two.valid, two.buffer) == ((2, 2), part.buffer)
    assert run("tile.store", Value([[1.0, 2.0]]), (0, 0), two) is two
    whole = run("tile.store", Value(np.ones((2, 2))), (2, 0), two)
    assert whole.valid == (4, 2)
    assert run("tensor.assemble", part, Tensor.of("s", np.ones((2, 2)), FP32), (1, 0)).valid == (3, 2)


def test_a_first_store_makes_an_empty_tensor_valid_where_it_wrote() -> None:
    empty = Tensor.of("o", np.zeros((4, 2)), FP32).view((4, 2), (0, 2))
    assert run("tile.store", Value([[1.0, 2.0]], valid=(1, 1)), (0, 0), empty).valid == (1, 1)


def test_an_atomic_store_adds_and_converts() -> None:
    out = Tensor.of("o", np.ones((1, 2)), FP16)
    run("tile.store", Value([[1.5, 2.0]]), (0, 0), out, atomic="Add")
    assert content(out) == [[2.5, 3.0]]


def test_a_flat_tile_fills_its_box_row_by_row() -> None:
    out = Tensor.of("o", np.zeros((2, 3, 2)), FP32)
    run("tile.store", Value(np.arange(1.0, 9.0).reshape(4, 2)), (0, 0, 0), out, (2, 2, 2))
    assert content(out) == [[[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]], [[5.0, 6.0], [7.0, 8.0], [0.0, 0.0]]]


def test_a_box_larger_than_the_valid_rows_is_filled_from_its_start() -> None:
    out = Tensor.of("o", np.zeros((2, 2, 2)), FP32)
    run("tile.store", Value(np.arange(1.0, 9.0).reshape(4, 2), valid=(3, 1)), (0, 0, 0), out, (2, 2, 2))
    assert content(out) == [[[1.0, 0.0], [3.0, 0.0]], [[5.0, 0.0], [0.0, 0.0]]]


def test_a_store_without_a_box_uses_the_partition_window() -> None:
    out = Tensor.of("o", np.zeros((2, 2, 1)), FP32)
    run("tile.store", Value([[1.0], [2.0], [3.0], [4.0]]), (0, 0, 0), out)
    assert content(out) == [[[1.0], [2.0]], [[3.0], [4.0]]]
    run("tile.store", Value([[9.0]]), (1, 1, 0), out)
    assert content(out) == [[[1.0], [2.0]], [[3.0], [9.0]]]


def test_rows_that_fill_no_box_go_one_after_another() -> None:
    out = Tensor.of("o", np.zeros((3, 2, 1)), FP32)
    run("tile.store", Value([[1.0], [2.0], [3.0], [4.0]]), (0, 1, 0), out)
    assert content(out) == [[[0.0], [1.0]], [[2.0], [3.0]], [[4.0], [0.0]]]


def test_a_store_that_is_no_box_is_a_run_error() -> None:
    out = Tensor.of("o", np.zeros((2, 2, 1)), FP32)
    with pytest.raises(RunError, match="start at offset 0"):
        run("tile.store", Value(np.zeros((4, 1))), (0, 1, 0), out)
    with pytest.raises(RunError, match="does not fit its box"):
        run("tile.store", Value(np.zeros((4, 1))), (0, 0, 0), out, (1, 2, 1))


def test_cells_are_read_and_written() -> None:
    t = Value([[1.0, 2.0]], valid=(1, 1))
    assert run("tile.read", t, (0, 0)) == 1.0
    assert run("tile.read", t, (0, 1)) is UNDEFINED
    x = counted(2, 2)
    assert run("tensor.read", x, (1, 0)) == 2.0
    assert run("tensor.write", x, (1, 0), const(9.0)) is x
    assert content(x) == [[0.0, 1.0], [9.0, 3.0]]
    assert run("tensor.dim", counted(5, 2), 0) == 5
    fresh = Tensor.fresh("f", (1, 1), INT32)
    assert run("tensor.read", fresh, (0, 0)) is UNDEFINED


def test_an_undefined_scalar_makes_undefined_cells() -> None:
    op = declared("tile.adds")
    tile = Tile(np.ones((1, 2), dtype=np.float32), np.ones((1, 2), dtype=bool), (1, 2))
    for name in ("tile.adds", "tile.expands"):
        op = declared(name)
        assert op.meaning is not None
        assert defined(op.meaning(evaluation(op, [tile, UNDEFINED], {}, tile_t((1, 2))))) == [[N, N]]
    op = declared("tile.write")
    assert op.meaning is not None
    assert defined(op.meaning(evaluation(op, [tile, (0, 1), UNDEFINED], {}, tile_t((1, 2))))) == [[1.0, N]]


def test_tensor_views_share_memory() -> None:
    x = counted(2, 2, 2)
    flat = run("tensor.view", x, (4, 2))
    flat.write((3, 1), np.array([[50.0]], dtype=np.float32))
    assert content(x)[1][1] == [6.0, 50.0]
    columns = run("tensor.view", counted(2, 3), layout="DN")
    assert columns.layout is Layout.DN
    assert content(columns) == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    part = run("tensor.view", counted(2, 2, 2), (4, 2), (2, 2))
    assert part.valid == (2, 2)
    same = run("tensor.view", counted(2, 3), layout="ND")
    assert content(same) == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
