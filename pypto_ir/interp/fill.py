"""What memory holds that nobody has written: values made from a hash of (seed, buffer name, element index).

The same cell always holds the same value, so two runs agree on memory that neither has written, and a weight
of 256 MiB costs nothing until a page of it is read. Two ways to fill:

* `small`: floats are integers in -4..4, so that a product over K = 4096 stays below 2**24 and every FP32 sum
  is exact in any order; integers are 0..7 for even seeds (usable as indices) and -4..4 with the type's bounds
  now and then for odd ones;
* `wide`: any value of the type: signed zeros, infinities, NaN, magnitudes from 2**-20 to 2**20.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.interp.values import numpy_dtype
from pypto_ir.lazy import np

FILLS = ("small", "wide")


@lru_cache(maxsize=4096)
def key(seed: int, name: str) -> int:
    """A 64-bit number for (seed, name), the same in every process."""
    return int.from_bytes(hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest(), "little")


def mix(index: Any, salt: int) -> Any:
    """The splitmix64 hash of an array of element indices under a salt, as uint64."""
    z = index.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def generate(start: int, count: int, dtype: DType, seed: int, name: str, fill: str = "small") -> Any:
    """The `count` elements from flat index `start` of a buffer, an array of the dtype's NumPy type."""
    bits = mix(np.arange(start, start + count, dtype=np.uint64), key(seed, name))
    if dtype is DType.BOOL:
        return (bits >> np.uint64(40)) % np.uint64(2) == 1
    if dtype is DType.FP8E8M0:
        exponent = (bits >> np.uint64(33)) % np.uint64(3 if fill == "small" else 31)
        return np.exp2(exponent.astype(np.float32) - (1 if fill == "small" else 15)).astype(numpy_dtype(dtype))
    if dtype.is_float:
        values = _small(bits) if fill == "small" else _wide(bits)
        return values.astype(np.float32).astype(numpy_dtype(dtype))
    return _integers(bits, dtype, seed, fill)


def _small(bits: Any) -> Any:
    return ((bits >> np.uint64(33)) % np.uint64(9)).astype(np.int64) - 4


def _wide(bits: Any) -> Any:
    mantissa = 1.0 + ((bits >> np.uint64(8)) % np.uint64(1 << 23)).astype(np.float64) / (1 << 23)
    exponent = ((bits >> np.uint64(33)) % np.uint64(41)).astype(np.int64) - 20
    sign = np.where((bits >> np.uint64(60)) % np.uint64(2) == 1, -1.0, 1.0)
    values = sign * mantissa * np.exp2(exponent)
    choice = (bits >> np.uint64(48)) % np.uint64(128)
    for which, special in enumerate((0.0, -0.0, np.inf, -np.inf, np.nan)):
        values = np.where(choice == which, special, values)
    return values


def _integers(bits: Any, dtype: DType, seed: int, fill: str) -> Any:
    lowest, highest = bounds(dtype)
    holder = numpy_dtype(dtype)
    if fill == "wide":
        span = np.uint64(highest - lowest) if dtype.bits < 64 else None
        raw = bits if span is None else bits % (span + np.uint64(1))
        return raw.astype(holder) if lowest == 0 or span is None else (raw.astype(np.int64) + lowest).astype(holder)
    if seed % 2 == 0 or lowest == 0:
        return ((bits >> np.uint64(33)) % np.uint64(8)).astype(np.int64).astype(holder)
    values = _small(bits).astype(holder)
    edge = (bits >> np.uint64(48)) % np.uint64(128)
    values[edge == 0] = holder.type(lowest)
    values[edge == 1] = holder.type(highest)
    return values


def bounds(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type, both included."""
    if dtype.is_unsigned:
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
