"""Lazy global memory: addressing, bounds, definedness, and what unwritten cells hold."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from pypto_ir.dtypes import DType
from pypto_ir.interp.fill import FILLS, bounds, generate
from pypto_ir.interp.memory import DENSE, PAGE, Buffer, Tensor, packed_strides
from pypto_ir.interp.values import RunError, numpy_dtype
from pypto_ir.types import Layout

FORMATS = [d for d in DType if d not in (DType.HF4, DType.HF8)]
BIG = (32, 2048, 4096)  # 268,435,456 elements


def big(name: str = "w") -> Tensor:
    return Tensor(Buffer(name, 32 * 2048 * 4096, DType.INT8), BIG)


def test_a_large_weight_costs_what_is_read_of_it() -> None:
    tracemalloc.start()
    weight = big()
    data, ok = weight.read((31, 2032, 100), (1, 16, 512))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.shape == (1, 16, 512) and ok.all()
    assert weight.buffer.resident == 16 * PAGE
    assert peak < 4 << 20


@pytest.mark.parametrize("shape", [(8, 32), (4, 1024, 1024)])
def test_a_cell_holds_the_same_value_however_it_is_read(shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    whole = Tensor(Buffer("x", size, DType.FP32, seed=5), shape)
    parts = Tensor(Buffer("x", size, DType.FP32, seed=5), shape)
    origin = (0,) * len(shape)
    corner = tuple(n - 3 for n in shape)
    one = parts.read(corner, (3,) * len(shape))[0]
    assert np.array_equal(one, whole.read(origin, shape)[0][tuple(slice(c, None) for c in corner)])
    other = Tensor(Buffer("x", size, DType.FP32, seed=6), shape)
    assert not np.array_equal(whole.read(origin, (3,) * len(shape))[0], other.read(origin, (3,) * len(shape))[0])


def test_contents_do_not_depend_on_the_process() -> None:
    program = (
        "from pypto_ir.interp.fill import generate; from pypto_ir.dtypes import DType;"
        "print(generate(4090, 12, DType.FP16, 3, 'x').tolist())"
    )
    again = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert again.stdout.strip() == str(generate(4090, 12, DType.FP16, 3, "x").tolist())


@pytest.mark.parametrize("dtype", FORMATS, ids=lambda d: d.value)
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_type_is_filled_with_values_of_its_own(dtype: DType, fill: str, seed: int) -> None:
    with np.errstate(all="ignore"):
        values = generate(0, 4096, dtype, seed, "x", fill)
    assert values.dtype == numpy_dtype(dtype) and values.shape == (4096,)
    assert len(np.unique(values.view(np.uint8))) > 1
    if dtype.is_int:
        lowest, highest = bounds(dtype)
        assert lowest <= int(values.min()) and int(values.max()) <= highest


def test_small_floats_are_integers_whose_sums_are_exact() -> None:
    values = generate(0, 4096, DType.BF16, 0, "x").astype(np.float64)
    assert set(values) == {-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0}
    rng = np.random.default_rng(0)
    single = values.astype(np.float32)
    assert float(np.cumsum(rng.permutation(single * single))[-1]) == float((values * values).sum())


def test_small_integers_are_usable_as_indices_for_even_seeds_and_meet_the_bounds_for_odd_ones() -> None:
    even, odd = generate(0, 4096, DType.INT32, 2, "x"), generate(0, 4096, DType.INT32, 3, "x")
    assert even.min() == 0 and even.max() == 7
    assert odd.min() == -(2**31) and odd.max() == 2**31 - 1 and np.median(np.abs(odd.astype(np.int64))) <= 4


def test_wide_floats_have_signed_zeros_infinities_nan_and_large_magnitudes() -> None:
    values = generate(0, 4096, DType.FP32, 0, "x", "wide")
    zeros = values[values == 0]
    assert np.signbit(zeros).any() and not np.signbit(zeros).all()
    assert np.isposinf(values).any() and np.isneginf(values).any() and np.isnan(values).any()
    assert np.abs(values[np.isfinite(values)]).max() > 1e5


def test_packed_strides_follow_the_layout() -> None:
    assert packed_strides((2, 4, 8)) == (32, 8, 1)
    assert packed_strides((2, 4, 8), Layout.DN) == (32, 1, 4)
    assert packed_strides((16, 8), Layout.NZ) == packed_strides((16, 8), Layout.MX_A_ZZ) == (8, 1)


def numbered(*shape: int) -> Tensor:
    return Tensor.of("x", np.arange(np.prod(shape), dtype=np.int32).reshape(shape), DType.INT32)


def test_views_address_the_same_memory_by_their_own_strides() -> None:
    x = numbered(4, 8)
    assert x.read((2, 3), (1, 1))[0].item() == 19
    assert x.view((8, 4), layout=Layout.DN).read((2, 3), (1, 1))[0].item() == 26
    assert x.view((2, 3), strides=(10, 2)).read((0, 0), (2, 3))[0].tolist() == [[0, 2, 4], [10, 12, 14]]
    x.view((32,)).write((19,), np.array([-1], dtype=np.int32))
    assert x.read((2, 3), (1, 1))[0].item() == -1
    window = x.window((1, 2), (2, 4))
    assert window.read((1, 1), (1, 1))[0].item() == -1
    assert window.view((2, 4), strides=window.strides).read((0, 0), (1, 1))[0].item() == 10


@pytest.mark.parametrize("shape", [(64, 64), (1024, 1024)])
def test_windows_of_dense_and_of_paged_buffers_agree_with_numpy(shape: tuple[int, int]) -> None:
    model = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    x = Tensor.of("x", model, DType.INT32)
    assert x.buffer.dense == (model.size <= DENSE)
    rng = np.random.default_rng(1)
    for _ in range(30):
        at = [int(rng.integers(0, n - 20)) for n in shape]
        sizes = [int(n) for n in rng.integers(1, 20, 2)]
        box = tuple(slice(o, o + n) for o, n in zip(at, sizes, strict=True))
        assert np.array_equal(x.read(at, sizes)[0], model[box])
        new = rng.integers(0, 100, sizes).astype(np.int32)
        x.write(at, new)
        model[box] = new
    assert np.array_equal(x.read((0, 0), shape)[0], model)


@pytest.mark.parametrize("shape", [(4, 8), (4, 40_000)])
def test_what_leaves_the_tensor_is_refused(shape: tuple[int, int]) -> None:
    x = Tensor(Buffer("x", shape[0] * shape[1], DType.FP32), shape)
    with pytest.raises(RunError, match="axis 0 of x, which has 4") as caught:
        x.read((3, 0), (2, 1))
    assert caught.value.code == "R001"
    with pytest.raises(RunError):
        x.read((-1, 0), (1, 1))
    with pytest.raises(RunError):
        x.write((0, shape[1]), np.zeros((1, 1), dtype=np.float32))
    with pytest.raises(RunError):
        x.read((0,), (1,))
    with pytest.raises(RunError):
        x.window((0, 1), shape)
    with pytest.raises(RunError):
        x.view((5, shape[1]))
    assert x.read((9, 9), (0, 5))[0].shape == (0, 5)


@pytest.mark.parametrize("columns", [8, 40_000])
def test_undefined_cells_make_memory_undefined_and_can_be_written_again(columns: int) -> None:
    x = Tensor(Buffer("x", 4 * columns, DType.FP32), (4, columns))
    x.write((1, 2), np.ones((1, 2), dtype=np.float32), np.array([[True, False]]))
    assert x.read((1, 1), (1, 4))[1].tolist() == [[True, True, False, True]]
    x.write((1, 3), np.ones((1, 1), dtype=np.float32))
    assert x.read((1, 1), (1, 4))[1].all()
    fresh = Tensor.fresh("y", (4, columns), DType.FP32)
    assert not fresh.read((0, 0), (4, 4))[1].any()


@pytest.mark.parametrize("columns", [8, 40_000])
def test_accumulating_adds_to_what_is_there(columns: int) -> None:
    x = Tensor.of("x", np.full((2, columns), 3.0), DType.FP16)
    x.write((0, 1), np.full((1, 2), 2.0, dtype=np.float16), accumulate=True)
    x.write((1, 0), np.zeros((1, 1), dtype=np.float16), np.zeros((1, 1), dtype=bool))
    x.write((1, 0), np.full((1, 1), 2.0, dtype=np.float16), accumulate=True)
    assert x.read((0, 0), (1, 4))[0].tolist() == [[3.0, 5.0, 5.0, 3.0]]
    assert not x.read((1, 0), (1, 1))[1].any()


def test_only_written_pages_are_reported_as_written() -> None:
    x = big()
    x.read((0, 0, 0), (1, 1, 1))
    x.write((1, 0, 4095), np.ones((1, 2, 1), dtype=np.int8))
    row = 2048 * 4096 // PAGE
    assert list(x.buffer.written_pages()) == [row, row + 1]
    assert x.buffer.page(row)[2].sum() == 1
    assert list(numbered(4, 8).buffer.written_pages()) == []


def test_a_buffer_that_cannot_be_addressed_is_refused() -> None:
    with pytest.raises(RunError) as caught:
        Buffer("x", 1 << 60, DType.INT8)
    assert caught.value.code == "R009"
