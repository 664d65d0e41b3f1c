"""Number formats of the interpreter and the helper that turns an array function into the meaning of an op.

Floats of 16 bits and fewer are computed in FP32 and rounded once to the result type; FP32 stays FP32;
integers wrap at their width. BF16 1.0 + BF16 0.00390625 is 1.00390625 in FP32 and rounds to BF16 1.0; INT8
127 + 1 is -128.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pypto_ir.dtypes import DType
from pypto_ir.interp.values import UNDEFINED, Evaluation, Tile, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.ops.registry import Kind, Role

Meaning: TypeAlias = Callable[[Evaluation], Any]


def working_dtype(dtype: DType) -> Any:
    """The NumPy type in which values of `dtype` are computed."""
    if dtype.is_float:
        return np.dtype(np.float32)
    return np.dtype(np.int8) if dtype is DType.BOOL else numpy_dtype(dtype)


def working(value: Any, dtype: DType) -> Any:
    """`value` (array or scalar of any type) rounded to `dtype`, as a contiguous array of its working type."""
    array = np.asarray(value)
    if array.dtype != numpy_dtype(dtype):
        array = rounded(array, dtype)
    return array.astype(working_dtype(dtype), order="C")


def rounded(array: Any, dtype: DType) -> Any:
    """`array` in the format that holds `dtype`; 4-bit integers wrap at 4 bits inside their byte."""
    with np.errstate(all="ignore"):
        held = np.asarray(array).astype(numpy_dtype(dtype), order="C")
    if dtype is DType.INT4:
        return ((held & 15) ^ 8) - 8
    return held & 15 if dtype is DType.UINT4 else held


def pointwise(fn: Callable[..., Any]) -> Meaning:
    """The meaning of an op that applies `fn` cell by cell to its data and scalar operands, broadcast from the
    right.

    Operands are rounded to the result's dtype first (a scalar, too); a cell is defined where all tile
    operands are readable."""

    def meaning(ev: Evaluation) -> Tile:
        assert ev.dtype is not None
        arrays, ok = [], np.True_
        for operand, arg in zip(ev.op.operands, ev.args, strict=False):
            if operand.role is Role.SCRATCH or arg is None:
                continue
            if operand.kind is Kind.TILE:
                arrays.append(working(arg.data, ev.dtype))
                ok = ok & arg.readable()
            elif arg is UNDEFINED:
                arrays.append(working(0, ev.dtype))
                ok = ok & np.False_
            else:
                arrays.append(working(arg, ev.dtype))
        with np.errstate(all="ignore"):
            result = fn(*arrays)
        return ev.fresh(rounded(result, ev.dtype), ok)

    return meaning


def filled(ev: Evaluation) -> Tile:
    """Operand 1, a scalar, in every cell; operand 0 gives the shape only and is not read."""
    assert ev.dtype is not None
    known = ev.args[1] is not UNDEFINED
    return ev.fresh(working(ev.args[1] if known else 0, ev.dtype), np.asarray(known))


def same_cells(ev: Evaluation) -> Tile:
    """The cells of operand 0 in the type of the result."""
    return ev.view(ev.tile(0).data, ev.tile(0).ok)


def divide(a: Any, b: Any) -> Any:
    """`a / b`; integers truncate toward zero and x / 0 is 0 (`spec/tile_ir.md` leaves integer rounding
    open)."""
    if not np.issubdtype(a.dtype, np.integer):
        return a / b
    zero = b == 0
    divisor = np.where(zero, 1, b).astype(b.dtype)
    floor = np.floor_divide(a, divisor)
    inexact = (np.mod(a, divisor) != 0) & ((a < 0) != (divisor < 0))
    return np.where(zero, 0, floor + inexact).astype(a.dtype)


def extreme(dtype: DType, largest: bool) -> Any:
    """The largest or smallest value of a type: an infinity where the format has one, else the last finite
    value."""
    if dtype is DType.BOOL:
        return largest
    if dtype.is_int:
        bits = dtype.bits - (0 if dtype.is_unsigned else 1)
        low = 0 if dtype.is_unsigned else -(1 << bits)
        return (1 << bits) - 1 if largest else low
    held = numpy_dtype(dtype)
    if dtype in (DType.FP16, DType.BF16, DType.FP32, DType.FP8E5M2):
        return np.array(np.inf if largest else -np.inf, dtype=np.float32).astype(held)
    from pypto_ir.lazy import ml_dtypes

    info = ml_dtypes.finfo(held)
    return info.max if largest else info.min
