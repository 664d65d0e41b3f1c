"""Calls of ops on concrete values, for the tests of type rules and meanings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, MakeTuple, Var, const_int, index
from pypto_ir.interp.memory import Tensor
from pypto_ir.interp.values import Evaluation, Tile, numpy_dtype
from pypto_ir.ops.registry import find_op
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import Call
from pypto_ir.types import (
    Dims,
    Layout,
    Memory,
    ScalarType,
    TensorType,
    TensorView,
    TileType,
    TileView,
    Type,
    dims,
    implicit_view,
    scalar_var,
    tensor_type,
    tile_type,
)

FP32, FP16, BF16 = DType.FP32, DType.FP16, DType.BF16
INT8, INT16, INT32, UINT8 = DType.INT8, DType.INT16, DType.INT32, DType.UINT8
V, W = scalar_var("v"), scalar_var("w")


def tile_t(
    shape: tuple[int, ...],
    dtype: DType = FP32,
    valid: tuple[int | Expr, ...] | None = None,
    memory: Memory | None = Memory.VEC,
    **view: Any,
) -> TileType:
    """A tile type; `view` fields override the implicit view."""
    full = implicit_view(dims(*shape), memory)
    return tile_type(dims(*shape), dtype, memory, replace(full, valid=dims(*valid) if valid else (), **view))


def raw_t(shape: tuple[int, ...], dtype: DType = FP32, memory: Memory | None = Memory.VEC, **view: Any) -> TileType:
    """A tile type whose view starts as row_major, none_box, 512 whatever shape and space imply."""
    return tile_type(dims(*shape), dtype, memory, TileView(**view))


def tensor_t(
    shape: tuple[int | Expr, ...],
    dtype: DType = FP32,
    valid: tuple[int | Expr, ...] = (),
    layout: Layout = Layout.ND,
) -> Type:
    return tensor_type(dims(*shape), dtype, TensorView(layout=layout, valid=dims(*valid)))


def var(t: Type, name: str = "x") -> Var:
    return Var(name, t)


def at(*items: int | Expr) -> MakeTuple:
    return MakeTuple(dims(*items))


def infer(op: str, *operands: Any, **kwargs: Any) -> Type:
    """The result type of an op on operands given as types, expressions, numbers (INDEX) or tuples."""
    args = []
    for i, o in enumerate(operands):
        if isinstance(o, Const | Var | MakeTuple):
            args.append(o)
        elif isinstance(o, int):
            args.append(index(o))
        elif isinstance(o, tuple):
            args.append(at(*o))
        else:
            args.append(o if hasattr(o, "op") or hasattr(o, "operand") else Var(f"x{i}", o))
    return infer_call(Call(op, tuple(args), tuple(kwargs.items())))


@dataclass
class Value:
    """A tile operand: data, dtype, valid extents, memory space and view fields."""

    data: Any
    dtype: DType = FP32
    valid: tuple[int, ...] | None = None
    memory: Memory | None = Memory.VEC
    view: dict[str, Any] | None = None
    ok: Any = True

    @property
    def array(self) -> Any:
        return np.asarray(self.data).astype(numpy_dtype(self.dtype))


def run(op: str, *operands: Any, in_place: bool = False, **kwargs: Any) -> Any:
    """Evaluate an op: operands are `Value`, `Tensor`, tuples of ints, constants or ints."""
    exprs, values = [], []
    for i, o in enumerate(operands):
        if isinstance(o, Value):
            array = o.array
            t = tile_t(array.shape, o.dtype, o.valid, o.memory, **(o.view or {}))
            exprs.append(Var(f"x{i}", t))
            ok = np.array(np.broadcast_to(o.ok, array.shape))
            values.append(Tile(array, ok, o.valid or array.shape))
        elif isinstance(o, Tensor):
            view = TensorView(layout=o.layout, valid=dims(*o.valid))
            exprs.append(Var(f"x{i}", tensor_type(dims(*o.shape), o.dtype, view)))
            values.append(o)
        elif isinstance(o, tuple):
            exprs.append(at(*o))
            values.append(o or None)
        elif isinstance(o, Const):
            exprs.append(o)
            values.append(o.value)
        else:
            exprs.append(index(o))
            values.append(o)
    call = Call(op, tuple(exprs), tuple(kwargs.items()))
    found = find_op(op)
    assert found is not None and found.meaning is not None
    t = infer_call(call)
    return found.meaning(evaluation(found, values, kwargs, t, in_place, call))


def evaluation(op: Any, values: list[Any], kwargs: dict[str, Any], t: Type, in_place: bool = False, call: Call | None = None) -> Evaluation:
    shape, valid, dtype = (), (), None
    if isinstance(t, TileType) or (isinstance(t, TensorType) and op.aliases is None):
        shape, valid, dtype = ints(t.shape), ints(t.valid), t.dtype
    elif isinstance(t, ScalarType | TensorType):
        dtype = t.dtype
    return Evaluation(
        op, tuple(values), tuple(kwargs.items()), t, shape, valid, dtype, in_place, call or Call(op.name, (), tuple(kwargs.items()))
    )


def ints(d: Dims) -> tuple[int, ...]:
    values = tuple(const_int(e) for e in d)
    assert None not in values
    return values  # type: ignore[return-value]


def defined(t: Tile) -> list[Any]:
    """The cells of a tile as nested lists, undefined ones as None."""
    cells = np.where(t.readable(), t.data.astype(object), None)
    return cells.tolist()


def cells(t: Tensor) -> list[Any]:
    """The cells of a tensor as nested lists, undefined ones as None."""
    data, ok = t.read((0,) * len(t.shape), t.shape)
    return np.where(ok, data.astype(object), None).tolist()


def const(value: int | float | bool, dtype: DType = FP32) -> Const:
    return Const(value, dtype)
