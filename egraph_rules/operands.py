"""Calls of a program as the encoder sees them: the tiles that they read, and what tells some ops from others."""

from __future__ import annotations

from egraph_rules import forms
from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, Var, const_int
from pypto_ir.ops.registry import OpDef, find_op
from pypto_ir.stmt import Call, tuple_items
from pypto_ir.types import TileLayout, TileType

#: rounding modes of a cast that the way out of L0C has too
_NEAREST = ("none", "rint", "round")


def narrows(var: Var, call: Call) -> bool:
    """A cast that a store from L0C does on the way: FP32 to FP16 or BF16, to the nearest value (`spec/hardware.md` 4.5)."""
    narrow = static_type(var).dtype in (DType.FP16, DType.BF16)
    return narrow and tile_of(call, 0).dtype is DType.FP32 and call.kwarg("mode", "round") in _NEAREST


def one_argument_view(call: Call) -> bool:
    """reinterpret_view without a shape scales the last axis, so it works row by row."""
    return call.op == "tile.reinterpret_view" and len(call.args) == 1 and not stacks_columns(tile_of(call, 0))


def stacks_columns(t: TileType) -> bool:
    """True for N-D tiles that lie column by column: a view as another dtype scales their rows."""
    return t.rank > 2 and t.effective_view.blayout is TileLayout.COL_MAJOR


def one_column(t: TileType) -> bool:
    """True for those with one column, which lies as rows would."""
    return stacks_columns(t) and const_int(t.shape[-1]) == 1


def without_shape(call: Call) -> Call:
    return Call(call.op, call.args[1:], call.kwargs, call.attrs, call.loc)


def static(t: TileType) -> forms.Shape:
    shape = t.static_shape
    assert shape is not None, "the encoder refuses dynamic tiles"
    return shape


def static_type(var: Var) -> TileType:
    assert isinstance(var.type, TileType)
    return var.type


def is_tuple(e: Expr) -> bool:
    return tuple_items(e) is not None


def tile_of(call: Call, i: int) -> TileType:
    e = call.args[i]
    assert isinstance(e, Var) and isinstance(e.type, TileType)
    return e.type


def declared(name: str) -> OpDef:
    op = find_op(name)
    assert op is not None
    return op
