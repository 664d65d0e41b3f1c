"""Where scales lie: boxes of 16 x 2, by the formulas of `spec/mx.md` section 2 against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from pypto_ir.dtypes import DType
from pypto_ir.interp.memory import Buffer, Tensor
from pypto_ir.interp.values import RunError
from pypto_ir.scale_boxes import blocked_shape, is_blocked, logical_shape, same_memory, strides
from pypto_ir.types import Layout, TensorView, dims, tensor_type

A, B = Layout.MX_A_ZZ, Layout.MX_B_NN
SHAPES = [(16, 2), (64, 4), (16, 64), (48, 6), (32, 2), (256, 64)]


def packed(layout: Layout, x: np.ndarray) -> np.ndarray:
    """The bytes of logical scales in memory order, as `spec/mx.md` section 2 packs them."""
    if layout is A:
        m, g = x.shape
        return x.reshape(m // 16, 16, g // 2, 2).transpose(0, 2, 1, 3).reshape(-1)
    g, n = x.shape
    return x.reshape(g // 2, 2, n // 16, 16).transpose(2, 0, 3, 1).reshape(-1)


def logical(layout: Layout, shape: tuple[int, int]) -> tuple[int, int]:
    return shape if layout is A else (shape[1], shape[0])


@pytest.mark.parametrize("layout", [A, B])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_cell_of_logical_scales_is_where_packing_puts_it(layout: Layout, shape: tuple[int, int]) -> None:
    rows, columns = logical(layout, shape)
    x = np.arange(rows * columns, dtype=np.uint32).reshape(rows, columns)
    tensor = Tensor(Buffer("s", x.size, DType.UINT32), x.shape, layout=layout)
    tensor.load(x)
    assert (tensor.buffer.arrays()[0] == packed(layout, x)).all()
    assert (tensor.read((0, 0), x.shape)[0] == x).all()
    assert tensor.physical().shape == blocked_shape(layout, x.shape)
    assert tensor.physical().logical().shape == x.shape == logical_shape(layout, tensor.physical().shape)


@pytest.mark.parametrize("layout", [A, B])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_aligned_window_of_logical_scales_is_the_window_of_its_boxes(layout: Layout, shape: tuple[int, int]) -> None:
    rows, columns = logical(layout, shape)
    tensor = Tensor(Buffer("s", rows * columns, DType.UINT8, seed=3, fill="wide"), (rows, columns), layout=layout)
    boxes = tensor.physical()
    rng = np.random.default_rng(1)
    for _ in range(20):
        blocks, pairs = boxes.shape[1], boxes.shape[2]
        h, w = rng.integers(1, blocks + 1), rng.integers(1, pairs + 1)
        b, p = rng.integers(0, blocks - h + 1), rng.integers(0, pairs - w + 1)
        at, size = ((16 * b, 2 * p), (16 * h, 2 * w)) if layout is A else ((2 * p, 16 * b), (2 * w, 16 * h))
        window = tensor.read(tuple(map(int, at)), tuple(map(int, size)))[0]
        assert (packed(layout, window) == boxes.read((0, int(b), int(p), 0, 0), (1, int(h), int(w), 16, 2))[0].reshape(-1)).all()


def test_the_example_of_the_specification_lies_at_byte_171() -> None:
    for layout, shape, cell in ((A, (64, 4), (37, 3)), (B, (4, 64), (3, 37))):
        x = np.zeros(shape, dtype=np.uint8)
        x[cell] = 7
        tensor = Tensor(Buffer("s", x.size, DType.UINT8), shape, layout=layout)
        tensor.load(x)
        assert int(np.argmax(tensor.buffer.arrays()[0])) == 171
        assert blocked_shape(layout, shape) == (1, 4, 2, 16, 2)
    assert strides(A, (64, 4)) == ((16, 64, 2), (2, 32, 1))
    assert strides(B, (4, 64)) == ((2, 32, 1), (16, 64, 2))


def test_large_scales_come_into_being_page_by_page_and_agree_with_their_boxes() -> None:
    tensor = Tensor(Buffer("s", 4096 * 64, DType.UINT8, seed=2, fill="wide"), (4096, 64), layout=A)
    window = tensor.read((4080, 62), (16, 2))[0]
    assert (packed(A, window) == tensor.physical().read((0, 255, 31, 0, 0), (1, 1, 1, 16, 2))[0].reshape(-1)).all()
    assert tensor.buffer.resident <= 2 * 4096
    tensor.write((16, 2), np.full((16, 2), 9, dtype=np.uint8))
    assert (tensor.physical().read((0, 1, 1, 0, 0), (1, 1, 1, 16, 2))[0] == 9).all()


def test_a_view_as_nd_counts_the_bytes_of_boxes() -> None:
    x = np.arange(128, dtype=np.uint8).reshape(32, 4)
    tensor = Tensor(Buffer("s", 128, DType.UINT8), (32, 4), layout=A)
    tensor.load(x)
    assert (tensor.view((1, 128), layout=Layout.ND).read((0, 0), (1, 128))[0][0] == packed(A, x)).all()
    line = Tensor(Buffer("s", 128, DType.UINT8, fill="wide"), (1, 128))
    assert (packed(B, line.view((4, 32), layout=B).read((0, 0), (4, 32))[0]) == line.read((0, 0), (1, 128))[0][0]).all()


def test_windows_of_scales_are_whole_boxes_and_keep_their_places() -> None:
    x = np.arange(256, dtype=np.uint8).reshape(64, 4)
    tensor = Tensor(Buffer("s", 256, DType.UINT8), (64, 4), layout=A)
    tensor.load(x)
    for window in (tensor.window((16, 2), (32, 2)), tensor.window((16, 0), (48, 4)).window((0, 2), (32, 2))):
        assert (window.read((0, 0), (32, 2))[0] == x[16:48, 2:4]).all()
        assert (window.view(window.shape, window.shape).read((16, 0), (16, 2))[0] == x[32:48, 2:4]).all()
    with pytest.raises(RunError, match="cuts a box"):
        tensor.window((8, 0), (16, 2))


def test_what_is_not_made_of_whole_packed_boxes_lies_by_its_strides() -> None:
    assert Tensor(Buffer("s", 48, DType.UINT8), (24, 2), layout=A).boxes is None
    assert Tensor(Buffer("s", 128, DType.UINT8), (16, 2), layout=A, strides=(8, 1)).boxes is None
    assert Tensor(Buffer("s", 32, DType.UINT8), (16, 2), layout=A, strides=(2, 1)).boxes is not None
    assert Tensor(Buffer("s", 32, DType.UINT8), (16, 2)).boxes is None
    assert (
        blocked_shape(Layout.ND, (16, 2)) is blocked_shape(A, (16, 3)) is blocked_shape(A, (0, 2)) is blocked_shape(A, (16, 2, 1)) is None
    )


def test_the_two_forms_of_a_tensor_are_the_same_memory() -> None:
    def t(*shape: int, layout: Layout = A, dtype: DType = DType.FP8E8M0):  # type: ignore[no-untyped-def]
        return tensor_type(dims(*shape), dtype, TensorView(layout=layout))

    assert same_memory(t(64, 4), t(1, 4, 2, 16, 2)) and same_memory(t(1, 4, 2, 16, 2), t(64, 4))
    assert not same_memory(t(64, 4), t(1, 2, 4, 16, 2))
    assert not same_memory(t(64, 4), t(1, 4, 2, 16, 2, layout=B))
    assert not same_memory(t(64, 4), t(1, 4, 2, 16, 2, dtype=DType.UINT8))
    assert is_blocked(t(1, 4, 2, 16, 2)) and not is_blocked(t(64, 4)) and not is_blocked(t(2, 4, 2, 16, 2))
