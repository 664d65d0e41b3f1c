"""Loads into L1: which of them go through a 2-D view of their tensor, and how; rows of a collapse.

    load(x [2, 16, 128], [1, 0, k], [1, 16, 64])     v = tensor.view(x, [32, 128])
                                                     load(v, [16, k], [16, 64])
    load(d DN [2, 64, 32], [0, k, 0], [2, 16, 32])   v = tensor.view(d, [64, 64])
                                                     load(v, [k, 0], [16, 64])

The engine that makes boxes, NZ or of DN tensors ZN, reads 2-D windows only (`spec/hardware.md` 4.7). A packed row-major tensor has a 2-D
view in which a window of a run of rows is one window again, a packed DN tensor, whose columns follow one another, one in which a run of
columns is. Any other tensor is read page by page, through windows whose outer extents are 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from pypto_ir.expr import Expr, MakeTuple, Var, const_int, index
from pypto_ir.linear import all_provably_equal
from pypto_ir.ops.registry import OpError
from pypto_ir.ops.rules import infer_call
from pypto_ir.ops.tensors import packed_strides
from pypto_ir.regions import add_index, collapse_contiguous, merged_valid, mul_index
from pypto_ir.stmt import Call, tuple_items
from pypto_ir.types import Dims, Layout, Memory, Pad, TensorType, TileLayout, TileType, same_dims


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A tensor seen with its leading axes collapsed; `valid` is given where it is partly valid (or () where it is only padded)."""

    tensor: Var
    shape: Dims
    valid: Dims | None = None


def boxed(t: TileType) -> bool:
    """True for tiles that a load cuts into boxes on its way to L1, NZ or ZN."""
    return t.memory is Memory.MAT and t.effective_view.slayout is not TileLayout.NONE_BOX


def natural(t: TileType) -> bool:
    """True for NZ tiles: rows of the tensor become rows of boxes."""
    v = t.effective_view
    return boxed(t) and (v.blayout, v.slayout, v.fractal) == (TileLayout.COL_MAJOR, TileLayout.ROW_MAJOR, 512)


def flat_view(tensor: Expr) -> ViewEntry | None:
    """The view of a tensor of rank above 2 with its leading axes collapsed; None where it is not packed row by row."""
    if not isinstance(tensor, Var) or not isinstance(tensor.type, TensorType):
        return None
    t = tensor.type
    if t.rank <= 2 or t.layout is not Layout.ND:
        return None
    if t.view and t.view.stride and not all_provably_equal(t.view.stride, packed_strides(t.shape, Layout.ND)):
        return None
    shape = merged_valid(t.shape)
    if same_dims(t.valid, t.shape):
        return ViewEntry(tensor, shape, () if t.view and t.view.pad is not Pad.NULL else None)
    return ViewEntry(tensor, shape, merged_valid(t.valid)) if collapse_contiguous(t.valid, t.shape) else None


def column_view(tensor: Expr) -> ViewEntry | None:
    """The view of a DN tensor of rank above 2 with all its columns side by side, [2, 64, 32] as [64, 64]: the column of the collapse
    [.., N] starts K elements after the one before. None where it is not packed column by column, or not valid as a whole."""
    if not isinstance(tensor, Var) or not isinstance(tensor.type, TensorType):
        return None
    t = tensor.type
    if t.rank <= 2 or t.layout is not Layout.DN or not same_dims(t.valid, t.shape):
        return None
    if t.view and t.view.stride and not all_provably_equal(t.view.stride, packed_strides(t.shape, Layout.DN)):
        return None
    columns = merged_valid((*t.shape[:-2], t.shape[-1], index(1)))[0]
    return ViewEntry(tensor, (t.shape[-2], columns), () if t.view and t.view.pad is not Pad.NULL else None)


def load_of_columns(call: Call, t: TileType, view: ViewEntry) -> tuple[Call, TileType] | None:
    """The load of all pages of a DN load side by side, by its place in the view of its tensor, and its tile. None where the window's
    columns are no run in the view, or a page would start inside a box."""
    offsets, window, dims = tuple_items(call.args[1]), tuple_items(call.args[2]), view.tensor.type.shape  # type: ignore[union-attr]
    width, shape = const_int(t.shape[-1]), t.static_shape
    if offsets is None or window is None or shape is None or not same_dims(t.valid, t.shape) or call.kwarg("clamp"):
        return None
    if width is None or width % 16 or not collapse_contiguous((*window[:-2], window[-1], index(1)), (*dims[:-2], dims[-1], index(1))):
        return None
    column = row_of((*offsets[:-2], offsets[-1], index(0)), (*dims[:-2], dims[-1], index(1)))
    extents = MakeTuple((t.shape[-2], index(prod(shape[:-2]) * width)))
    seen = infer_call(Call("tensor.view", (view.tensor, MakeTuple(view.shape))))
    load = Call(call.op, (Var("view", seen), MakeTuple((offsets[-2], column)), extents, extents), call.kwargs, call.attrs)
    made = infer_call(load)
    assert isinstance(made, TileType)
    return replace(load, args=(view.tensor, *load.args[1:])), made


def row_of(offsets: Dims, extents: Dims) -> Expr:
    """The row of the collapse of a tensor of these extents: [b, r, c] in [B, M, N] is b * M + r."""
    row = offsets[0]
    for extent, offset in zip(extents[1:-1], offsets[1:-1], strict=True):
        row = add_index(mul_index(row, extent), offset)
    return row


def load_of_window(load: Call, cut: Call, t: TileType) -> Call | None:
    """The load of what a plain window of a load holds: rows 16 to 31 of load(x [64, 64], [0, 8], [32, 32]) are load(x, [16, 8], [16, 32]),
    of which as much is asked for as is valid. None where that is a tile of another type than the window's `t`."""
    offsets, window = tuple_items(load.args[1]), tuple_items(load.args[2])
    at, extents = tuple_items(cut.args[2]), tuple_items(cut.args[1])
    if offsets is None or window is None or at is None or extents is None or not len(offsets) == len(window) == len(at) == len(extents):
        return None
    if load.kwarg("clamp"):
        return None
    moved = MakeTuple(tuple(map(add_index, offsets, at)))
    call = Call(load.op, (load.args[0], moved, MakeTuple(extents), MakeTuple(t.valid)), load.kwargs, load.attrs)
    try:
        return call if infer_call(call) == t else None
    except OpError:
        return None
