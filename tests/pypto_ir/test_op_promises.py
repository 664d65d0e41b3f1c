"""What holds for all meanings: sharing of storage, order of sums, equal pages, poison, flat order."""

from __future__ import annotations

import numpy as np
import pytest
from op_support import BF16, FP16, FP32, INT8, Value, const, defined, evaluation, run, tile_t

from pypto_ir.interp.values import RunError, Tile, numpy_dtype
from pypto_ir.ops.registry import find_op

RNG = np.random.default_rng(7)


def wide(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 10.0 ** RNG.integers(-3, 4, shape)).astype(np.float32)


def held(*shape: int) -> Tile:
    return Tile(np.ones(shape, dtype=np.float32), np.ones(shape, dtype=bool), shape)


@pytest.mark.parametrize(
    ("op", "rest", "result"),
    [
        ("tile.slice", [(1, 2), (1, 0), None, None], (1, 2)),
        ("tile.reshape", [(4, 1)], (4, 1)),
        ("tile.transpose_view", [], (2, 2)),
        ("tile.set_validshape", [2, 2], (2, 2)),
        ("tile.reinterpret_view", [], (2, 2)),
    ],
)
def test_views_share_the_storage_of_their_operand(op: str, rest: list[object], result: tuple[int, ...]) -> None:
    source, declared = held(2, 2), find_op(op)
    assert declared is not None and declared.meaning is not None
    view = declared.meaning(evaluation(declared, [source, *rest], {}, tile_t(result)))
    view.data[-1, 0], view.ok[-1, 0] = 5.0, False
    assert 5.0 in source.data and not source.ok.all()


@pytest.mark.parametrize("shape", [(1, 4, 3), (2, 2, 3), (4, 1, 3), (4, 3, 1), (4, 3)])
def test_a_reshape_of_a_window_shares_its_storage_where_it_can(shape: tuple[int, ...]) -> None:
    whole, declared = held(4, 8), find_op("tile.reshape")
    assert declared is not None and declared.meaning is not None
    window = Tile(whole.data[:, 2:5], whole.ok[:, 2:5], (4, 3))
    view = declared.meaning(evaluation(declared, [window, shape], {}, tile_t(shape), True))
    view.data[..., 0], view.ok[..., 0] = 5.0, False
    assert 5.0 in whole.data and not whole.ok.all()


def test_a_reshape_over_the_gaps_of_a_window_is_a_copy_by_value_only() -> None:
    whole, declared = held(4, 8), find_op("tile.reshape")
    assert declared is not None and declared.meaning is not None
    window = Tile(whole.data[:, 2:5], whole.ok[:, 2:5], (4, 3))
    flat = declared.meaning(evaluation(declared, [window, (1, 12)], {}, tile_t((1, 12))))
    assert flat.data.tolist() == [[1.0] * 12] and not np.shares_memory(flat.data, whole.data)
    with pytest.raises(RunError, match="with gaps"):
        declared.meaning(evaluation(declared, [window, (1, 12)], {}, tile_t((1, 12)), True))


@pytest.mark.parametrize("in_place", [False, True])
def test_in_place_ops_write_the_buffer_only_in_buffer_mode(in_place: bool) -> None:
    small = held(1, 2)
    for op, rest in (
        ("tile.assemble", [small, (0, 0)]),
        ("tile.matmul_acc", [held(2, 2), held(2, 2)]),
        ("tile.write", [(0, 0), 3.0]),
        ("tile.fillpad_inplace", []),
    ):
        target, declared = (
            Tile(np.zeros((2, 2), dtype=np.float32), np.ones((2, 2), dtype=bool), (1, 1)),
            find_op(op),
        )
        assert declared is not None and declared.meaning is not None
        result = declared.meaning(evaluation(declared, [target, *rest], {"pad_value": "max"}, tile_t((2, 2)), in_place))
        assert np.shares_memory(result.data, target.data) is in_place, op
        assert bool(target.data.any()) is in_place, op


def test_row_sums_add_from_left_to_right() -> None:
    data = wide(5, 300)
    expected = np.zeros(5, dtype=np.float32)
    for column in data.T:
        expected = (expected + column).astype(np.float32)
    found = run("tile.row_sum", Value(data), Value(data))
    assert found.data[:, 0].tobytes() == expected.tobytes()


def test_column_sums_add_from_top_to_bottom() -> None:
    data = wide(300, 5)
    expected = data[0]
    for row in data[1:]:
        expected = expected + row
    assert run("tile.col_sum", Value(data)).data[0].tobytes() == expected.tobytes()


def test_narrow_floats_are_summed_in_single_precision() -> None:
    data = np.array([[2048.0, 1.0, 1.0]])
    assert defined(run("tile.row_sum", Value(data, FP16), Value(data, FP16))) == [[2050.0]]
    assert defined(run("tile.row_sum", Value([[256.0, 1.0, 1.0]], BF16), Value(data, BF16))) == [[258.0]]


def test_products_add_in_ascending_k() -> None:
    a, b = wide(4, 100), wide(100, 6)
    expected = np.zeros((4, 6), dtype=np.float32)
    for k in range(100):
        expected = expected + a[:, k, None] * b[None, k, :]
    assert run("tile.matmul", Value(a), Value(b)).data.tobytes() == expected.tobytes()


def test_pages_of_a_batched_product_are_products_bit_for_bit() -> None:
    a, b = wide(2, 1, 4, 50), wide(3, 50, 6)
    batched = run("tile.batch_matmul", Value(a), Value(b)).data
    for i in range(2):
        for j in range(3):
            page = run("tile.matmul", Value(a[i, 0]), Value(b[j])).data
            assert batched[i, j].tobytes() == page.tobytes()


def test_a_product_in_two_parts_of_k_is_the_whole_product() -> None:
    a, b = wide(4, 64), wide(64, 6)
    first = run("tile.matmul", Value(a[:, :40]), Value(b[:40])).data
    both = run("tile.matmul_acc", Value(first), Value(a[:, 40:]), Value(b[40:])).data
    assert both.tobytes() == run("tile.matmul", Value(a), Value(b)).data.tobytes()


@pytest.mark.parametrize("op", ["exp", "neg", "rsqrt", "sin"])
def test_flattening_commutes_with_unary_ops_bit_for_bit(op: str) -> None:
    data = np.abs(wide(3, 5, 17))
    nd = run(f"tile.{op}", Value(data)).data.reshape(15, 17)
    assert nd.tobytes() == run(f"tile.{op}", Value(data.reshape(15, 17))).data.tobytes()


@pytest.mark.parametrize("op", ["row_sum", "row_max", "row_prod", "row_argmin"])
def test_flattening_commutes_with_row_reductions_bit_for_bit(op: str) -> None:
    data = wide(3, 5, 17)
    flat = Value(data.reshape(15, 17))
    nd = run(f"tile.{op}", Value(data), Value(data)).data.reshape(15, 1)
    assert nd.tobytes() == run(f"tile.{op}", flat, flat).data.tobytes()


def test_an_undefined_cell_spoils_what_reads_it_and_no_more() -> None:
    hole = Value([[1.0, 2.0], [3.0, 4.0]], ok=[[True, True], [False, True]])
    full = Value([[1.0, 1.0], [1.0, 1.0]])
    assert defined(run("tile.add", full, hole)) == [[2.0, 3.0], [None, 5.0]]
    assert defined(run("tile.row_sum", hole, full)) == [[3.0], [None]]
    assert defined(run("tile.col_max", hole)) == [[None, 4.0]]
    assert defined(run("tile.matmul", full, hole)) == [[None, 6.0], [None, 6.0]]
    assert defined(run("tile.matmul_acc", hole, full, full)) == [[3.0, 4.0], [None, 6.0]]


def test_the_left_operand_decides_what_is_valid() -> None:
    part, full = Value([[1.0, 2.0]], valid=(1, 1)), Value([[5.0, 5.0]])
    assert run("tile.add", part, full).valid == (1, 1)
    assert defined(run("tile.add", full, part)) == [[6.0, None]]


def test_scalars_are_rounded_to_the_tile_first() -> None:
    assert defined(run("tile.adds", Value([[0.0]], BF16), const(1.00390625, FP32))) == [[1.0]]
    assert defined(run("tile.adds", Value([[1]], INT8), const(2.9, FP32))) == [[3]]


def test_narrow_results_are_rounded_once() -> None:
    assert run("tile.addc", *(Value([[x]], BF16) for x in (1.0, 0.0078125, 0.00390625))).data[0, 0] == numpy_dtype(BF16).type(1.01171875)


def test_a_window_outside_its_tile_is_a_run_error() -> None:
    for op, args in (
        ("tile.slice", [(1, 2), (2, 0)]),
        ("tile.assemble", [held(1, 2), (2, 0)]),
        ("tile.read", [(0, 2)]),
    ):
        declared = find_op(op)
        assert declared is not None and declared.meaning is not None
        with pytest.raises(RunError):
            declared.meaning(evaluation(declared, [held(2, 2), *args], {}, tile_t((1, 2))))
