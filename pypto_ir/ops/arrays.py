"""Scalar-local arrays (`spec/tile_ir.md` section 7).

`array.create(4, dtype=INT32)` is an array of four elements of which none is defined; updating element 0 to 5
makes a new array, whose element 0 reads as 5 and whose other elements are still undefined. Arrays are values:
an update changes no array that exists. In the interpreter they are tuples.
"""

from __future__ import annotations

from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import index
from pypto_ir.interp.values import UNDEFINED, Evaluation, RunError, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.linear import provably_gt, provably_negative
from pypto_ir.ops.registry import (
    DTYPE_WORDS,
    CallSite,
    Kwarg,
    OpError,
    Trait,
    anything,
    declare_op,
    kind_name,
    scalar,
)
from pypto_ir.ops.rules import constant_int
from pypto_ir.regions import add_index
from pypto_ir.types import ArrayType, ScalarType, Type


def _create_type(c: CallSite) -> Type:
    extent, dtype = constant_int(c, 0), DType(str(c.kwarg("dtype")))
    if extent <= 0:
        raise OpError(f"array.create of {extent} elements", "the extent must be positive")
    if dtype.is_float:
        raise OpError(f"array.create of {dtype.value}", "elements are integers, BOOL or TASK_ID")
    return ArrayType(extent, dtype)


def _create(ev: Evaluation) -> Any:
    return (UNDEFINED,) * int(ev.args[0])


def _array(c: CallSite) -> ArrayType:
    t = c.type(0)
    if not isinstance(t, ArrayType):
        raise OpError(f"operand 0 ({c.name(0)}) of {c.op.name} must be an array, found {kind_name(t)}")
    if not c.dtype(1).is_int:
        raise OpError(f"the index of {c.op.name} has dtype {c.dtype(1).value}", "it must be an integer")
    if provably_negative(c.args[1]) or provably_gt(add_index(c.args[1], index(1)), index(t.extent)):
        raise OpError(f"{c.op.name} outside an array of {t.extent} elements", "indices are 0 up to the extent")
    return t


def _get_type(c: CallSite) -> Type:
    return ScalarType(_array(c).dtype)


def _update_type(c: CallSite) -> Type:
    t, value = _array(c), c.dtype(2)
    if value.is_float or (value is DType.BOOL) != (t.dtype is DType.BOOL):
        raise OpError(f"array.update_element puts {value.value} into an array of {t.dtype.value}", "cast it")
    return t


def _position(ev: Evaluation) -> int:
    held, at = ev.args[0], int(ev.args[1])
    if not 0 <= at < len(held):
        raise RunError(f"{ev.op.name} at {at} of an array of {len(held)} elements")
    return at


def _get(ev: Evaluation) -> Any:
    return ev.args[0][_position(ev)]


def _update(ev: Evaluation) -> Any:
    """The value is held in the element type; integers wrap."""
    held, at, value = ev.args[0], _position(ev), ev.args[2]
    assert isinstance(ev.type, ArrayType)
    if value is not UNDEFINED:
        wide = numpy_dtype(ev.type.dtype)
        value = bool(value) if ev.type.dtype is DType.BOOL else np.asarray(int(value)).astype(wide)[()]
    return (*held[:at], value, *held[at + 1 :])


declare_op(
    "array.create",
    (scalar("extent"),),
    infer=_create_type,
    trait=Trait.OPAQUE,
    meaning=_create,
    kwargs=(Kwarg("dtype", DType, required=True, words=DTYPE_WORDS),),
)
declare_op(
    "array.get_element",
    (anything("array"), scalar("index")),
    infer=_get_type,
    trait=Trait.OPAQUE,
    meaning=_get,
)
declare_op(
    "array.update_element",
    (anything("array"), scalar("index"), scalar("value")),
    infer=_update_type,
    trait=Trait.OPAQUE,
    meaning=_update,
)
