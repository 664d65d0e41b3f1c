"""The type of a result from what is deduced and what its statement states.

`{"memory": "Vec"}` fills in where a result lies whose space is not deduced. What an annotation states must
agree with the deduction, except on loads and creates: `{"tile": [6, 4], "dtype": "FP32"}` on a load of a [2,
3, 4] window keeps the shape that flattening gave it (`spec/tile_ir.md` section 8). On ops whose type rule is
marked as not pinned down (`OpDef.annotated`) the annotation stands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pypto_ir.diagnostics import declare
from pypto_ir.json_context import Reading
from pypto_ir.json_findings import Bad
from pypto_ir.json_types import Written, complete, refuse_fields, tensor_view
from pypto_ir.linear import all_provably_equal
from pypto_ir.ops.registry import dims_text, find_op, kind_name
from pypto_ir.regions import static_size
from pypto_ir.types import (
    INDEX,
    ScalarType,
    TensorType,
    TensorView,
    TileType,
    Type,
    UnknownType,
    implicit_view,
    same_dims,
    tensor_type,
    tile_type,
)  # fmt: skip

declare(J402="the annotated type contradicts the deduced one")

#: ops whose annotation may state another view, or, above rank 2, another shape
_ANNOTATED = frozenset({"tile.load", "tile.create"})


def merge(r: Reading, deduced: Type, w: Written, op: str | None) -> Type:
    """The type of a result from its deduction and its annotation. Raises `Bad` where they contradict each
    other, unless the annotation of the op is believed."""
    declared = find_op(op) if op is not None else None
    if declared is None or not declared.annotated:
        return _merge(r, deduced, w, op)
    try:
        return _merge(Reading(), deduced, w, op)
    except Bad:
        return _stated(r, deduced, w)


def _stated(r: Reading, deduced: Type, w: Written) -> Type:
    """The type that an annotation states; kind, shape and dtype that it leaves open are those that are deduced."""
    kind = "tile" if isinstance(deduced, TileType) else "tensor"
    if w.whole is not None or not isinstance(deduced, TileType | TensorType) or w.kind not in (None, kind):
        return complete(r, w)
    return complete(r, replace(w, kind=kind, shape=w.shape or deduced.shape, dtype=w.dtype or deduced.dtype))


def _merge(r: Reading, deduced: Type, w: Written, op: str | None) -> Type:
    match deduced:
        case UnknownType():
            return complete(r, w)
        case TileType() if w.kind in (None, "tile"):
            tile = replace(w, kind="tile")
            refuse_fields(r, tile, ("layout", w.layout), ("stride", w.stride), ("distributed", w.distributed))
            return _merge_tile(r, deduced, w, op)
        case TensorType() if w.kind in (None, "tensor"):
            refuse_fields(r, replace(w, kind="tensor"), ("memory", w.memory), ("view", w.view or None))
            return _merge_tensor(r, deduced, w)
    if op is None and deduced == INDEX and isinstance(w.whole, ScalarType) and w.whole.dtype.is_int:
        return w.whole  # a value of dtype INDEX takes the dtype that its annotation states
    if w.whole != deduced:
        stated = kind_name(w.whole) if w.whole else f"a {w.kind or 'partial'} type"
        r.fail("J402", w.path, f"found {stated}, deduced is {kind_name(deduced)}")
    return deduced


def _merge_tile(r: Reading, d: TileType, w: Written, op: str | None) -> Type:
    _agree(r, w, "dtype", w.dtype in (None, d.dtype), w.dtype and w.dtype.value, d.dtype.value)
    memory = w.memory or d.memory
    if w.shape is not None and not same_dims(w.shape, d.shape):
        flattens = op in _ANNOTATED and len(d.shape) > 2 and len(w.shape) == 2 and static_size(w.shape) == static_size(d.shape)
        _agree(r, w, "tile", flattens, dims_text(w.shape), dims_text(d.shape))
        return complete(r, replace(w, kind="tile", dtype=d.dtype, memory=memory))
    _agree(r, w, "memory", d.memory in (None, memory), memory and memory.value, d.memory and d.memory.value)
    base = (d.view or implicit_view(d.shape, memory)) if memory is not d.memory else d.effective_view
    view = replace(base, valid=d.valid if w.valid is None else w.valid)
    if w.valid is not None:
        equal = all_provably_equal(w.valid, d.valid)
        _agree(r, w, "valid", equal, dims_text(w.valid), dims_text(d.valid))
    for key, value in w.view.items():
        old = getattr(base, key)
        free = op in _ANNOTATED or d.memory is None
        inside = replace(w, path=(w.path, "view"))
        _agree(r, inside, key, free or value == old, _field_text(value), _field_text(old))
        view = replace(view, **{key: value})
    return tile_type(w.shape or d.shape, d.dtype, memory, view, w.memref or d.memref)


def _merge_tensor(r: Reading, d: TensorType, w: Written) -> Type:
    _agree(r, w, "dtype", w.dtype in (None, d.dtype), w.dtype and w.dtype.value, d.dtype.value)
    if w.shape is not None:
        equal = all_provably_equal(w.shape, d.shape)
        _agree(r, w, "tensor", equal, dims_text(w.shape), dims_text(d.shape))
    view = d.view or TensorView()
    _agree(r, w, "layout", w.layout in (None, view.layout), w.layout and w.layout.value, view.layout.value)
    _agree(r, w, "pad", w.pad in (None, view.pad), w.pad and w.pad.value, view.pad.value)
    _agree(r, w, "distributed", w.distributed in (None, d.distributed), w.distributed, d.distributed)
    if w.valid is not None:
        equal = all_provably_equal(w.valid, d.valid)
        _agree(r, w, "valid", equal, dims_text(w.valid), dims_text(d.valid))
    if w.stride is not None:
        fits = not view.stride or same_dims(w.stride, view.stride)
        _agree(r, w, "stride", fits, dims_text(w.stride), dims_text(view.stride))
    return tensor_type(w.shape or d.shape, d.dtype, tensor_view(view, w), d.distributed, w.memref or d.memref)


def _agree(r: Reading, w: Written, key: str, fits: bool, stated: Any, deduced: Any) -> None:
    if not fits:
        message = f"the annotation states {key} {stated}, deduced is {deduced}"
        r.fail("J402", (w.path, key), message, "leave the annotation out")


def _field_text(value: Any) -> str:
    if isinstance(value, tuple):
        return dims_text(value)
    return str(getattr(value, "value", value))
