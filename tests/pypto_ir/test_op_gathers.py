"""Gathers, scatters, sorts and sequences: their result types, what they compute, what they refuse."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from op_support import (
    FP16,
    FP32,
    INT8,
    INT16,
    INT32,
    UINT8,
    V,
    Value,
    const,
    defined,
    infer,
    run,
    tensor_t,
    tile_t,
)

from pypto_ir.dtypes import DType
from pypto_ir.interp.memory import Tensor
from pypto_ir.interp.values import RunError
from pypto_ir.ops.registry import OpError
from pypto_ir.types import Memory, TileLayout, TupleType, Type, scalar_var

UINT16, UINT32, INT64 = DType.UINT16, DType.UINT32, DType.INT64
N = None
T, IX = tile_t((8, 64)), tile_t((8, 16), INT32)
TMP = tile_t((8, 64), UINT8)
GM, OUT = tensor_t((128, 64)), tensor_t((8, 64))
BUFFER = tile_t((16, 64))
FOUND = TupleType((tile_t((8, 4), INT32), tile_t((1, 8), INT32)))
SEEDS = tuple(scalar_var(f"s{i}", INT32) for i in range(6))

TYPES: list[tuple[str, tuple[Any, ...], dict[str, Any], Type]] = [
    ("tile.gather", (T, IX, IX), {}, tile_t((8, 16))),
    ("tile.gather", (tile_t((8, 64), INT16), tile_t((2, 4), INT16, (1, V)), TMP), {}, tile_t((2, 4), INT16)),
    ("tile.gather_mask", (T,), {"mask_pattern": 3}, tile_t((8, 16))),
    ("tile.gather_mask", (T,), {"mask_pattern": 7, "output_dtype": "UINT32"}, tile_t((8, 64), UINT32)),
    ("tile.gatherb", (T, tile_t((8, 2), UINT32)), {}, tile_t((8, 16))),
    ("tile.gatherb", (T, tile_t((8, 2), UINT32)), {"output_dtype": "INT8"}, tile_t((8, 64), INT8)),
    ("tile.gather_compare", (T, const(3.0), TMP), {"cmp_mode": 4, "offset": 0, "out_cols": 4}, FOUND),
    (
        "tile.gather_compare",
        (T, const(3.0), TMP),
        {"cmp_mode": 0, "out_cols": 8, "count_dtype": "UINT32"},
        TupleType((tile_t((8, 8), INT32), tile_t((1, 8), UINT32))),
    ),
    ("tile.mgather", (GM, tile_t((1, 16), INT32)), {"coalesce": 0}, tile_t((16, 64))),
    ("tile.mgather", (GM, IX), {"coalesce": 1}, tile_t((8, 16))),
    (
        "tile.mgather",
        (GM, tile_t((1, 16), INT32), (), (V, 64)),
        {"coalesce": 0},
        tile_t((16, 64), valid=(V, 64)),
    ),
    ("tile.mgather", (GM, tensor_t((16,), INT32)), {"coalesce": 0}, tile_t((16, 64), memory=Memory.MAT)),
    ("tile.mscatter", (tile_t((8, 16)), IX, OUT), {}, OUT),
    ("tile.gather_row", (BUFFER, GM, (0, 0), (7, 0), (1, 64)), {"transpose": False}, BUFFER),
    ("tile.gather_row", (BUFFER, GM, (0, 3), (7, 0), (1, 16), (1, V)), {"transpose": True}, BUFFER),
    ("tile.scatter", (T, tile_t((8, 16)), IX), {}, T),
    (
        "tile.scatter",
        (tile_t((8, 64), FP16, (V, 64)), tile_t((1, 4), FP16), tile_t((1, 4), INT16)),
        {},
        tile_t((8, 64), FP16, (V, 64)),
    ),
    ("tile.scatter_mask", (T, tile_t((8, 32))), {"mask_pattern": 2}, T),
    ("tile.scatter_update", (T, tile_t((2, 2), INT32), tile_t((4, 64))), {"dim": -2}, T),
    (
        "tile.scatter_update",
        (tile_t((4, 2, 1, 64)), tile_t((1, 3), INT64), tile_t((1, 3, 1, 64))),
        {},
        tile_t((4, 2, 1, 64)),
    ),
    ("tile.sort32", (T, tile_t((8, 64), UINT32)), {}, tile_t((8, 128))),
    (
        "tile.sort32",
        (tile_t((8, 64), valid=(V, 32)), tile_t((8, 64), UINT32)),
        {},
        tile_t((8, 128), valid=(V, 64)),
    ),
    ("tile.mrgsort_format1", (T, const(64, INT32)), {}, T),
    ("tile.mrgsort_format2", (T, T, tile_t((8, 128))), {"exhausted": False}, tile_t((8, 128))),
    ("tile.mrgsort_format2", (T, T, T, T, tile_t((8, 256))), {}, tile_t((8, 256))),
    ("tile.ci", (const(0, INT32), (1, 64)), {"dtype": "INT32", "descending": False}, tile_t((1, 64), INT32)),
    ("tile.ci", (const(0, UINT16), (1, 1, 8)), {"dtype": "UINT16"}, tile_t((1, 1, 8), UINT16)),
    ("tile.tri", (const(0, INT32), (16, 64)), {"dtype": "FP32", "upper": False}, tile_t((16, 64))),
    ("tile.tri", (SEEDS[0], (16, 64), (8, V)), {"dtype": "INT16"}, tile_t((16, 64), INT16, (8, V))),
    ("tile.random", (*SEEDS, (8, 64)), {"dtype": "UINT32", "rounds": 7}, tile_t((8, 64), UINT32)),
]


def names(rows: list[Any]) -> list[str]:
    return [f"{r[0]}-{i}" for i, r in enumerate(rows)]


@pytest.mark.parametrize(("op", "operands", "kwargs", "expected"), TYPES, ids=names(TYPES))
def test_the_result_type_of(op: str, operands: Any, kwargs: Any, expected: Type) -> None:
    assert infer(op, *operands, **kwargs) == expected


REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("tile.gather", (tile_t((8, 64), INT8), IX, IX), {}, "dtype INT8"),
    ("tile.gather", (T, tile_t((8, 16), INT16), IX), {}, "dtype INT16"),
    ("tile.gather_mask", (T,), {"mask_pattern": 8}, "mask_pattern"),
    ("tile.gather_mask", (T,), {"mask_pattern": 1, "output_dtype": "INT16"}, "same width"),
    ("tile.gather_mask", (tile_t((8, 6)),), {"mask_pattern": 4}, "multiple of 4"),
    ("tile.gatherb", (T, IX), {}, "dtype INT32"),
    ("tile.gather_compare", (T, const(1.0), TMP), {"cmp_mode": 6, "out_cols": 8}, "cmp_mode"),
    ("tile.gather_compare", (T, const(1.0), TMP), {"cmp_mode": 0, "out_cols": 0}, "out_cols"),
    ("tile.gather_compare", (T, const(1.0), TMP), {"cmp_mode": 0}, "needs the keyword argument out_cols"),
    ("tile.mgather", (GM, T), {"coalesce": 0}, "tensor of INT32"),
    ("tile.mgather", (GM, IX, (), (1, 1, 1)), {"coalesce": 1}, "valid extents"),
    ("tile.mscatter", (T, IX, OUT), {}, "one index for each element"),
    ("tile.mscatter", (tile_t((8, 16), FP16), IX, OUT), {}, "FP16 into a tensor of FP32"),
    ("tile.gather_row", (BUFFER, GM, (16, 0), (7, 0), (1, 64)), {}, "must lie inside"),
    ("tile.gather_row", (BUFFER, GM, (0, 0), (128, 0), (1, 64)), {}, "must lie inside"),
    ("tile.gather_row", (BUFFER, GM, (0, 0), (0, 0), (1, 64), (2, 64)), {}, "valid extents"),
    ("tile.gather_row", (BUFFER, GM, (0, 0), (0,), (1, 64)), {}, "one offset and one extent"),
    ("tile.gather_row", (tile_t((16, 64), FP16), GM, (0, 0), (0, 0), (1, 64)), {}, "dtypes must be equal"),
    ("tile.scatter", (T, T, IX), {}, "one index for each element"),
    ("tile.scatter", (tile_t((8, 64), FP16), tile_t((8, 16), FP16), IX), {}, "dtype INT32"),
    ("tile.scatter_mask", (T, T), {"mask_pattern": 1}, "needs a target"),
    ("tile.scatter_update", (T, tile_t((2, 2), INT32), tile_t((3, 64))), {}, "one index for each row"),
    ("tile.scatter_update", (T, tile_t((2, 2), INT32), tile_t((4, 32))), {}, "rows of"),
    ("tile.scatter_update", (T, tile_t((2, 2), INT32), tile_t((4, 64))), {"dim": -1}, "dim -2"),
    ("tile.sort32", (tile_t((8, 64), INT32), tile_t((8, 64), UINT32)), {}, "dtype INT32"),
    ("tile.mrgsort_format1", (T, const(64.0)), {}, "must be an integer"),
    ("tile.mrgsort_format2", (T, tile_t((8, 64), FP16), T), {}, "one dtype"),
    ("tile.ci", (const(0, INT16), (1, 8)), {"dtype": "INT32"}, "must agree"),
    ("tile.ci", (const(0, INT32), (2, 8)), {"dtype": "INT32"}, "all dims but the last"),
    ("tile.ci", (const(0, INT32), (1, 1)), {"dtype": "INT32"}, "the last is not"),
    ("tile.tri", (const(0, INT32), (2, 2, 2)), {"dtype": "FP32"}, "rank 2"),
    ("tile.tri", (const(0, INT64), (2, 2)), {"dtype": "FP32"}, "must be INT32"),
    ("tile.tri", (const(0, INT32), (2, 2), (3, 2)), {"dtype": "FP32"}, "valid extents"),
    ("tile.random", (*SEEDS, (8, 64)), {"dtype": "INT32", "rounds": 8}, "allowed: 7, 10"),
]


@pytest.mark.parametrize(("op", "operands", "kwargs", "text"), REFUSED, ids=names(REFUSED))
def test_operands_that_do_not_fit_are_refused(op: str, operands: Any, kwargs: Any, text: str) -> None:
    with pytest.raises(OpError) as caught:
        infer(op, *operands, **kwargs)
    assert re.search(text, f"{caught.value.message}; {caught.value.help}")


def t(data: Any, dtype: DType = FP32, **rest: Any) -> Value:
    return Value(data, dtype, **rest)


def pairs(*values: float) -> Value:
    """A row of (value, index) pairs, numbered from 0."""
    return Value([joined(values, range(len(values)))])


def joined(values: Any, numbers: Any) -> list[float]:
    bits = np.array(list(numbers), dtype=np.uint32).view(np.float32)
    return np.stack((np.array(values, dtype=np.float32), bits), axis=1).reshape(-1).tolist()


SRC = t([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
HOLE = t([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], ok=[[True] * 4, [True, False, True, True]])
WIDE = t([np.arange(16.0), np.arange(16.0) + 100])
MEANINGS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("tile.gather", (HOLE, t([[7, 0], [5, 8]], INT32), SRC), {}, [[8.0, 1.0], [N, N]]),
    ("tile.gather", (SRC, t([[0, 3]], INT32, ok=[[True, False]]), SRC), {}, [[1.0, N]]),
    ("tile.gather_mask", (HOLE,), {"mask_pattern": 1}, [[1.0, 3.0], [5.0, 7.0]]),
    ("tile.gather_mask", (HOLE,), {"mask_pattern": 2}, [[2.0, 4.0], [N, 8.0]]),
    ("tile.gather_mask", (SRC,), {"mask_pattern": 5}, [[3.0], [7.0]]),
    ("tile.gather_mask", (t([[1.0, 2.0]]),), {"mask_pattern": 1, "output_dtype": "UINT32"}, [[0x3F800000]]),
    ("tile.gatherb", (WIDE, t([[32], [100]], UINT32)), {}, [list(range(8, 16)), [N] * 8]),
    ("tile.gatherb", (WIDE, t([[4]], UINT32)), {"output_dtype": "FP32"}, [list(range(1, 9))]),
    (
        "tile.scatter",
        (SRC, t([[9.0, 8.0]]), t([[7, 0]], INT32)),
        {},
        [[8.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 9.0]],
    ),
    (
        "tile.scatter",
        (SRC, t([[9.0, 8.0]]), t([[1, 1]], INT32)),
        {},
        [[1.0, 8.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]],
    ),
    ("tile.scatter", (SRC, t([[9.0]]), t([[1]], INT32, ok=False)), {}, [[N] * 4, [N] * 4]),
    ("tile.scatter_mask", (t([[0.0] * 4]), t([[1.0, 2.0]])), {"mask_pattern": 2}, [[N, 1.0, N, 2.0]]),
    ("tile.scatter_update", (SRC, t([[1]], INT32), t([[9.0] * 4])), {}, [[1.0, 2.0, 3.0, 4.0], [9.0] * 4]),
    (
        "tile.scatter_update",
        (t(np.zeros((2, 2, 1, 2))), t([[3, 0]], INT32), t([[[[1.0, 2.0]], [[3.0, 4.0]]]])),
        {},
        [[[[3.0, 4.0]], [[0.0, 0.0]]], [[[0.0, 0.0]], [[1.0, 2.0]]]],
    ),
    ("tile.ci", (const(5, INT32), (1, 3)), {"dtype": "INT32"}, [[5, 6, 7]]),
    ("tile.ci", (const(1, UINT16), (1, 3)), {"dtype": "UINT16", "descending": True}, [[1, 0, 65535]]),
    ("tile.tri", (const(0, INT32), (2, 3)), {"dtype": "FP32"}, [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]),
    (
        "tile.tri",
        (const(1, INT32), (2, 3), (1, 3)),
        {"dtype": "INT16", "upper": True},
        [[0, 1, 1], [N, N, N]],
    ),
    (
        "tile.gather_row",
        (
            t(np.zeros((3, 3))),
            Tensor.of("x", np.arange(6.0).reshape(2, 3), FP32),
            (1, 0),
            (1, 0),
            (1, 3),
            (1, 2),
        ),
        {},
        [[0.0, 0.0, 0.0], [3.0, 4.0, N], [0.0, 0.0, 0.0]],
    ),
    (
        "tile.gather_row",
        (t(np.zeros((2, 2))), Tensor.of("x", np.arange(4.0).reshape(2, 2), FP32), (0, 1), (1, 0), (1, 2)),
        {"transpose": True},
        [[0.0, 2.0], [0.0, 3.0]],
    ),
    (
        "tile.mgather",
        (Tensor.of("x", np.arange(6.0).reshape(3, 2), FP32), t([[2, 3, 0]], INT32)),
        {"coalesce": 0},
        [[4.0, 5.0], [N, N], [0.0, 1.0]],
    ),
    (
        "tile.mgather",
        (Tensor.of("x", np.arange(6.0).reshape(3, 2), FP32), t([[5, -1]], INT32)),
        {"coalesce": 1},
        [[5.0, N]],
    ),
]


@pytest.mark.parametrize(("op", "operands", "kwargs", "expected"), MEANINGS, ids=names(MEANINGS))
def test_the_meaning_of(op: str, operands: Any, kwargs: Any, expected: Any) -> None:
    assert defined(run(op, *operands, **kwargs)) == expected


def test_matches_are_listed_row_by_row_with_their_count() -> None:
    source = t([[5.0, 1.0, 6.0], [0.0, 9.0, 0.0], [7.0, 7.0, 7.0]], valid=(3, 2))
    found, counts = run("tile.gather_compare", source, const(4.0), source, cmp_mode=4, out_cols=2)
    assert defined(found) == [[0, N], [1, N], [0, 1]]
    assert defined(counts) == [[1, 1, 2]]


def test_matches_that_do_not_fit_leave_their_count_open() -> None:
    source = t([[1.0, 1.0], [1.0, 0.0]])
    found, counts = run("tile.gather_compare", source, const(1.0), source, cmp_mode=0, out_cols=1)
    assert (defined(found), defined(counts)) == ([[0], [0]], [[N, 1]])
    found, counts = run("tile.gather_compare", source, const(1.0), source, cmp_mode=0, out_cols=2, offset=8)
    assert (defined(found), defined(counts)) == ([[N, N], [N, N]], [[2, 1]])


def test_sort32_orders_runs_of_32_and_keeps_ties_in_order() -> None:
    values = np.concatenate((np.arange(32.0), [3.0, 7.0, 7.0]))
    result = run("tile.sort32", t([values]), t([np.arange(35)], UINT32))
    numbers = result.data.reshape(-1, 2)[:, 1].copy().view(np.uint32)
    assert numbers.tolist() == [*range(31, -1, -1), 33, 34, 32]
    assert result.data.reshape(-1, 2)[:, 0].tolist() == values[numbers].tolist()


def test_an_undefined_value_spoils_its_run_only() -> None:
    ok = [[i != 40 for i in range(64)]]
    result = run("tile.sort32", t([np.arange(64.0)], ok=ok), t([np.arange(64)], UINT32))
    assert result.ok[0, :64].all() and not result.ok[0, 64:].any()
    half = run("tile.sort32", t([np.arange(32.0)], FP16), t([np.arange(32)], UINT32))
    assert not half.ok.any()


def test_format1_merges_four_runs() -> None:
    values = [5.0, 1.0, 8.0, 8.0, 3.0, 2.0, 9.0, 0.0, 4.0, 4.0]
    merged = run("tile.mrgsort_format1", pairs(*values), const(4, INT32))
    assert merged.data[0, :16:2].tolist() == [9.0, 8.0, 8.0, 5.0, 3.0, 2.0, 1.0, 0.0]
    assert merged.data[0, 1:16:2].copy().view(np.uint32).tolist() == [6, 2, 3, 0, 4, 5, 1, 7]
    assert merged.ok[0, :16].all() and not merged.ok[0, 16:].any()


def test_format2_merges_tiles_and_stops_where_told() -> None:
    a, b, out = pairs(9.0, 4.0), pairs(7.0, 4.0, 1.0), pairs(*[0.0] * 6)
    merged = run("tile.mrgsort_format2", a, b, out)
    assert merged.data[0, :10:2].tolist() == [9.0, 7.0, 4.0, 4.0, 1.0]
    assert merged.ok[0].tolist() == [True] * 10 + [False] * 2
    stopped = run("tile.mrgsort_format2", a, b, out, exhausted=True)
    assert stopped.ok[0].tolist() == [True] * 6 + [False] * 6


def test_mscatter_writes_elements_by_position() -> None:
    target = Tensor.of("x", np.zeros((2, 2)), FP32)
    source = t([[1.0, 2.0, 3.0]], ok=[[True, True, False]])
    assert run("tile.mscatter", source, t([[3, 0, 1]], INT32), target) is target
    data, ok = target.read((0, 0), (2, 2))
    assert (data[ok].tolist(), ok.tolist()) == ([2.0, 0.0, 1.0], [[True, False], [True, True]])


@pytest.mark.parametrize("index", [4, -1])
def test_a_scatter_outside_its_target_is_a_run_error(index: int) -> None:
    with pytest.raises(RunError, match="4 elements"):
        run("tile.mscatter", t([[1.0]]), t([[index]], INT32), Tensor.of("x", np.zeros((2, 2)), FP32))
    with pytest.raises(RunError, match="4 elements"):
        run("tile.scatter", t([[0.0] * 4]), t([[1.0]]), t([[index]], INT32))


def test_mscatter_by_an_undefined_index_is_a_run_error() -> None:
    target = Tensor.of("x", np.zeros((2, 2)), FP32)
    with pytest.raises(RunError) as caught:
        run("tile.mscatter", t([[1.0]]), t([[1]], INT32, ok=False), target)
    assert caught.value.code == "R005"


@pytest.mark.parametrize("in_place", [False, True])
def test_scatters_overwrite_their_target_in_buffer_mode_only(in_place: bool) -> None:
    from op_support import evaluation

    from pypto_ir.interp.values import Tile
    from pypto_ir.ops.registry import find_op

    target = Tile(np.zeros((1, 2), dtype=np.float32), np.ones((1, 2), dtype=bool), (1, 2))
    source = Tile(np.ones((1, 1), dtype=np.float32), np.ones((1, 1), dtype=bool), (1, 1))
    at = Tile(np.zeros((1, 1), dtype=np.int32), np.ones((1, 1), dtype=bool), (1, 1))
    op = find_op("tile.scatter")
    assert op is not None and op.meaning is not None
    result = op.meaning(evaluation(op, [target, source, at], {}, tile_t((1, 2)), in_place))
    assert np.shares_memory(result.data, target.data) is in_place
    assert bool(target.data.any()) is in_place and result.data.tolist() == [[1.0, 0.0]]


def test_columns_of_a_gathered_tile_lie_in_rows() -> None:
    result = infer("tile.gather", T, tile_t((8, 1), INT32), IX)
    assert result.effective_view.blayout is TileLayout.ROW_MAJOR  # type: ignore[union-attr]
