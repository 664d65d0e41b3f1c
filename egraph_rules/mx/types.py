"""Types of MX scales in their physical form, and what keeps a tensor from one.

MX_A_ZZ [64, 4]  ->  [1, 4, 2, 16, 2]          Tuple[MX_B_NN [4, 64], FP32]  ->  Tuple[[1, 4, 2, 16, 2], FP32]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pypto_ir.diagnostics import Diagnostics, Place, declare
from pypto_ir.expr import const_int
from pypto_ir.linear import all_provably_equal
from pypto_ir.ops.registry import dims_text
from pypto_ir.ops.tensors import packed_strides
from pypto_ir.regions import static
from pypto_ir.scale_boxes import AXES, BOX, MX_LAYOUTS, blocked_shape, by_axis, is_mx
from pypto_ir.types import Dims, Layout, TensorType, TensorView, TupleType, Type, dims, tensor_type

declare(
    B101="MX scales, or a window of them, are no matrix",
    B102="MX scales, or a window of them, have a dynamic extent along the block axis",
    B103="MX scales, or a window of them, have a dynamic extent along the group axis",
    B104="the extent of MX scales along the block axis is no positive multiple of 16",
    B105="the extent of MX scales along the group axis is no positive multiple of 2",
    B110="an MX tensor is only partly valid",
    B111="an MX tensor is distributed",
    B115="an MX tensor has strides that are not packed",
)

_CODES = {"dynamic": ("B102", "B103"), "extent": ("B104", "B105")}


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a type or window has no blocked form."""

    code: str
    message: str
    help: str

    def report(self, bag: Diagnostics, place: Place) -> None:
        bag.add(self.code, self.message, place, self.help)


def shape_finding(what: str, layout: Layout, shape: Dims) -> Finding | None:
    """Why `shape`, of a tensor or of a window, is not made of whole boxes, the first of the reasons in upstream's order."""
    if len(shape) != 2:
        message = f"{what} {dims_text(shape)} with layout {layout.value} has rank {len(shape)}; the layout needs rank 2"
        return Finding("B101", message, "give scales as the matrix [M, K / 32] or [K / 32, N]; the blocked form is made here")
    extents = by_axis(layout, (shape[0], shape[1]))
    for axis, extent, code in zip(AXES, extents, _CODES["dynamic"], strict=True):
        if const_int(extent) is None:
            message = f"the {axis} dim of {what} {dims_text(shape)} with layout {layout.value} is dynamic; it must be static"
            return Finding(code, message, "dynamic MX scales are not supported: give constant extents")
    for axis, extent, box, code in zip(AXES, extents, BOX, _CODES["extent"], strict=True):
        size = const_int(extent)
        assert size is not None
        if size <= 0 or size % box:
            message = f"the {axis} dim of {what} {dims_text(shape)} with layout {layout.value} is {size}, no positive multiple of {box}"
            return Finding(code, message, f"pad it to a multiple of {box}: a box of scales is {BOX[0]} x {BOX[1]}")
    return None


def type_finding(t: TensorType) -> Finding | None:
    """Why an MX tensor has no blocked form."""
    name = f"an MX tensor {dims_text(t.shape)}"
    if t.distributed:
        return Finding("B111", f"{name} with layout {t.layout.value} is distributed, which is not supported", "annotate it ND instead")
    found = shape_finding("an MX tensor", t.layout, t.shape)
    if found is not None:
        return found
    if not all_provably_equal(t.valid, t.shape):
        message = f"{name} with layout {t.layout.value} is valid in {dims_text(t.valid)} only; the whole tensor must be valid"
        return Finding("B110", message, "narrow the valid shape of the load instead")
    stride = t.view.stride if t.view else ()
    if stride and not all_provably_equal(stride, packed_strides(t.shape, t.layout)):
        message = f"{name} with layout {t.layout.value} has strides {dims_text(stride)}; scales are packed boxes"
        return Finding("B115", message, "leave the strides out")
    return None


def mx_tensors(t: Type) -> tuple[TensorType, ...]:
    """The MX tensors in a type, tuples looked into."""
    if isinstance(t, TupleType):
        return tuple(found for item in t.items for found in mx_tensors(item))
    return (t,) if isinstance(t, TensorType) and t.layout in MX_LAYOUTS else ()


def blocked_window(layout: Layout, shape: Dims) -> Dims:
    """The physical form of a shape that `shape_finding` has nothing against."""
    sizes = static(shape)
    found = None if sizes is None else blocked_shape(layout, sizes)
    assert found is not None, "the shape was checked before"
    return dims(*found)


def blocked_type(t: Type) -> Type:
    """A type with its MX tensors in physical form; the same object where there is none. What `type_finding` refuses stays."""
    if isinstance(t, TupleType):
        items = tuple(map(blocked_type, t.items))
        return t if all(a is b for a, b in zip(items, t.items, strict=True)) else replace(t, items=items)
    if not isinstance(t, TensorType) or not is_mx(t) or type_finding(t) is not None:
        return t
    assert t.view is not None
    return tensor_type(blocked_window(t.layout, t.shape), t.dtype, TensorView(layout=t.layout, pad=t.view.pad), memref=t.memref)
