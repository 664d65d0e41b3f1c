"""Ops on tensors in global memory that occur inside InCore functions: view, dim, read, write
(`spec/tile_ir.md` section 7).

`tensor.view(x [4, 16, 64], [64, 64])` is the same memory as [64, 64] with the explicit strides [64, 1]; with
`layout="DN"` alone a view of [64, 32] is [32, 64] with the strides [1, 32].
"""

from __future__ import annotations

from math import prod
from typing import Any

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import index
from pypto_ir.interp.values import UNDEFINED, Evaluation, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.linear import all_provably_equal, provably_gt
from pypto_ir.ops.numeric import working
from pypto_ir.ops.registry import (
    CallSite,
    Kwarg,
    OpError,
    Trait,
    declare_op,
    dims_text,
    kind_name,
    scalar,
    tensor,
    tuple_of,
)
from pypto_ir.ops.rules import check_cell, constant_int, optional_tuple
from pypto_ir.regions import mul_index, static
from pypto_ir.scale_boxes import BLOCKED_RANK, MX_LAYOUTS
from pypto_ir.types import (
    INDEX,
    Dims,
    Layout,
    ScalarType,
    TensorType,
    TensorView,
    Type,
    same_dims,
    tensor_type,
)

declare(B118="a view to or from MX scales is no view of the packed bytes of a whole FP8E8M0 tensor under another shape")

_SRC = tensor("src")


def packed_strides(shape: Dims, layout: Layout) -> Dims:
    """The strides of a packed tensor in elements: row-major, for DN with the last two axes swapped
    (`spec/tile_ir.md` section 2)."""
    if layout is Layout.DN and len(shape) > 1:
        swapped = packed_strides((*shape[:-2], shape[-1], shape[-2]), Layout.ND)
        return (*swapped[:-2], swapped[-1], swapped[-2])
    strides = [index(1)]
    for d in reversed(shape[1:]):
        strides.append(mul_index(d, strides[-1]))  # type: ignore[arg-type]
    return tuple(reversed(strides))


def _swapped(d: Dims) -> Dims:
    return (*d[:-2], d[-1], d[-2]) if len(d) > 1 else d


def _view_type(c: CallSite) -> Type:
    source, shape, valid = c.tensor(0), optional_tuple(c, 1), optional_tuple(c, 2)
    word = c.kwarg("layout")
    layout = Layout(str(word)) if word is not None else source.layout
    if layout is Layout.NZ and word is not None:
        raise OpError("tensor.view to NZ", "a tensor gets NZ by its type only")
    if {layout, source.layout} & MX_LAYOUTS.keys():
        _check_scale_view(source, layout, shape)
    pad = source.view.pad if source.view else TensorView().pad
    stride = source.view.stride if source.view else ()
    strides = stride or packed_strides(source.shape, source.layout)
    if shape is None:
        if word is None:
            raise OpError("tensor.view needs a shape or a layout")
        if layout is source.layout or source.rank < 2:
            return _with(source, source.shape, TensorView(strides, layout, source.valid, pad))
        return _with(source, _swapped(source.shape), TensorView(_swapped(strides), layout, _swapped(source.valid), pad))
    if stride and not all_provably_equal(stride, packed_strides(source.shape, source.layout)):
        raise OpError(f"tensor.view to {dims_text(shape)} requires a packed source, found strides {dims_text(stride)}")
    have, want = static(source.shape), static(shape)
    if have is not None and want is not None and prod(have) != prod(want):
        raise OpError(f"tensor.view of {dims_text(source.shape)} as {dims_text(shape)}: {prod(have)} elements are not {prod(want)}")
    if valid is None and not same_dims(source.valid, source.shape):
        raise OpError("tensor.view of a partly valid tensor needs valid extents", "give them as the third operand")
    if valid is not None and (len(valid) != len(shape) or any(map(provably_gt, valid, shape))):
        raise OpError(f"tensor.view as {dims_text(shape)} with the valid extents {dims_text(valid)}")
    boxes = layout in MX_LAYOUTS and len(shape) == BLOCKED_RANK  # blocked scales state no strides
    return _with(source, shape, TensorView(() if boxes else packed_strides(shape, layout), layout, valid or (), pad))


def _check_scale_view(source: TensorType, layout: Layout, shape: Dims | None) -> None:
    """A view to or from scales sees the packed bytes, so that all of them are there and none is told by a logical position."""
    what = f"tensor.view of {kind_name(source)} {source.layout.value} as {layout.value}"
    if shape is None:
        raise OpError(f"{what} names no shape", "give the shape of the view", "B118")
    if source.dtype is not DType.FP8E8M0:
        raise OpError(what, "scales are seen under another layout as FP8E8M0", "B118")
    if not {layout, source.layout} <= MX_LAYOUTS.keys() | {Layout.ND}:
        raise OpError(what, "scales are seen as ND, MX_A_ZZ or MX_B_NN", "B118")
    if not same_dims(source.valid, source.shape):
        raise OpError(f"{what}: the source is valid in {dims_text(source.valid)} only", "view a tensor that is valid as a whole", "B118")


def _with(source: TensorType, shape: Dims, view: TensorView) -> TensorType:
    return tensor_type(shape, source.dtype, view, source.distributed, source.memref)


def _view(ev: Evaluation) -> Any:
    source = ev.tensor(0)
    word = ev.kwarg("layout")
    own = source.layout
    layout = Layout(word) if word is not None else own
    shape = ev.args[1] if len(ev.args) > 1 and ev.args[1] else None
    if shape is not None:
        valid = ev.args[2] if len(ev.args) > 2 and ev.args[2] else shape
        return source.view(shape, valid, layout)
    if layout is own or len(source.shape) < 2:
        return source.view(source.shape, source.valid, layout, source.strides)
    shape, valid, strides = ((*d[:-2], d[-1], d[-2]) for d in (source.shape, source.valid, source.strides))
    return source.view(shape, valid, layout, strides)


def _check_index(c: CallSite) -> TensorType:
    source = c.tensor(0)
    check_cell(c, "tensor", source.shape)
    return source


def _read_type(c: CallSite) -> Type:
    return ScalarType(_check_index(c).dtype)


def _read(ev: Evaluation) -> Any:
    at = ev.args[1]
    data, ok = ev.tensor(0).read(at, (1,) * len(at))
    return data.reshape(-1)[0] if ok.all() else UNDEFINED


def _write(ev: Evaluation) -> Any:
    target, at, value = ev.tensor(0), ev.args[1], ev.args[2]
    known = value is not UNDEFINED
    cell = working(value if known else 0, target.dtype).astype(numpy_dtype(target.dtype)).reshape((1,) * len(at))
    target.write(at, cell, np.full(cell.shape, known))
    return target


def _dim_type(c: CallSite) -> Type:
    rank, axis = c.tensor(0).rank, constant_int(c, 1)
    if not -rank <= axis < rank:
        raise OpError(f"tensor.dim of axis {axis} of a tensor of rank {rank}")
    return INDEX


def _dim(ev: Evaluation) -> Any:
    return np.int64(ev.tensor(0).shape[int(ev.args[1])])


declare_op(
    "tensor.view",
    (_SRC, tuple_of("shape", optional=True), tuple_of("valid", optional=True)),
    infer=_view_type,
    trait=Trait.VIEW,
    meaning=_view,
    aliases=0,
    kwargs=(Kwarg("layout", Layout, words=tuple(m.value for m in Layout)),),
)
declare_op("tensor.dim", (_SRC, scalar("axis")), infer=_dim_type, trait=Trait.OPAQUE, meaning=_dim)
declare_op(
    "tensor.read",
    (_SRC, tuple_of("index")),
    infer=_read_type,
    trait=Trait.OPAQUE,
    meaning=_read,
    reads_memory=(0,),
)
declare_op(
    "tensor.write",
    (tensor("dst"), tuple_of("index"), scalar("value")),
    infer=_check_index,
    trait=Trait.OPAQUE,
    meaning=_write,
    writes_memory=(0,),
    aliases=0,
)
