"""Types of program files, complete ones and the partial ones that annotate statements.

`{"tile": [64, 64], "dtype": "FP32", "memory": "Mat"}` is complete. On a statement `{"memory": "Vec"}` says
only where the result lies and leaves the rest to the deduction (`json_annotations`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, const_int, dtype_of
from pypto_ir.json_context import Reading
from pypto_ir.json_exprs import DTYPES, is_poisoned, read_expr
from pypto_ir.json_findings import Bad, Keys, found
from pypto_ir.json_place import Path
from pypto_ir.ops.registry import dims_text
from pypto_ir.types import (
    ArrayType,
    CommCtxType,
    Compact,
    Dims,
    Layout,
    Memory,
    MemRef,
    Pad,
    PtrType,
    ScalarType,
    TensorView,
    TileLayout,
    TupleType,
    Type,
    UnknownType,
    implicit_view,
    tensor_type,
    tile_type,
)  # fmt: skip

declare(
    J401="a type is incomplete or mixes kinds",
    J403="a shape is too large",
)

MEMORIES = {m.value: m for m in Memory}
LAYOUTS = {v.value: v for v in Layout}
TILE_LAYOUTS = {v.value: v for v in TileLayout}
PADS = {p.value: p for p in Pad}
COMPACTS = {c.value: c for c in Compact}
#: most dims of a tensor or tile
MAX_RANK = 16

_TENSOR = ("tensor", "dtype", "layout", "valid", "stride", "pad", "distributed", "memref")
_TILE = ("tile", "dtype", "memory", "valid", "view", "memref")
_KINDS: dict[str, Keys] = {
    "scalar": Keys(("scalar",)),
    "tensor": Keys(("tensor", "dtype"), _TENSOR[2:]),
    "tile": Keys(("tile", "dtype"), _TILE[2:]),
    "ptr": Keys(("ptr",)),
    "unknown": Keys(("unknown",)),
    "comm_ctx": Keys(("comm_ctx",)),
    "tuple": Keys(("tuple",)),
    "array": Keys(("array", "dtype")),
}
_PARTIAL = Keys((), tuple(dict.fromkeys((*_TENSOR, *_TILE, *_KINDS))))
_VIEW = Keys((), ("blayout", "slayout", "fractal", "compact", "pad", "stride", "start_offset"))
_MEMREF = Keys(("base",), ("pinned", "offset", "size", "slots", "slot"))
_FIELDLESS: dict[str, Type] = {"ptr": PtrType(), "unknown": UnknownType(), "comm_ctx": CommCtxType()}


@dataclass(slots=True)
class Written:
    """A type as it is written: only the stated fields are set. `view` holds the stated fields of a tile
    view."""

    path: Path
    kind: str | None = None
    whole: Type | None = None
    shape: Dims | None = None
    dtype: DType | None = None
    memory: Memory | None = None
    valid: Dims | None = None
    view: dict[str, Any] = field(default_factory=dict)
    memref: MemRef | None = None
    layout: Layout | None = None
    stride: Dims | None = None
    pad: Pad | None = None
    distributed: bool | None = None


def read_type(r: Reading, value: Any, path: Path) -> Type:
    """A complete type. Raises `Bad` after reporting."""
    kind = _kind(value)
    if kind is None:
        r.fail(
            "J401",
            path,
            f"found {found(value)}, allowed is a type, an object with one of the keys {', '.join(_KINDS)}",
        )
    return complete(r, _read(r, r.object(value, path, f"a {kind} type", _KINDS[kind]), path, kind))


def read_annotation(r: Reading, value: Any, path: Path) -> Written:
    """The type at a statement, complete or partial."""
    kind = _kind(value)
    keys = _KINDS[kind] if kind in _FIELDLESS or kind in ("scalar", "tuple", "array") else _PARTIAL
    fields = r.object(value, path, "a type", keys)
    if "tensor" in fields and "tile" in fields:
        r.fail("J401", path, "found a type that is both a tensor and a tile")
    return _read(r, fields, path, kind)


def _kind(value: Any) -> str | None:
    return next((key for key in _KINDS if key in value), None) if type(value) is dict else None


def _read(r: Reading, fields: dict[str, Any], path: Path, kind: str | None) -> Written:
    w = Written(path, kind)
    if kind in _FIELDLESS:
        if fields[kind] is not True:
            r.fail("J101", (path, kind), f"found {found(fields[kind])}, allowed is true")
        w.whole = _FIELDLESS[kind]
    elif kind == "scalar":
        w.whole = ScalarType(_dtype(r, fields["scalar"], (path, "scalar")))
    elif kind == "tuple":
        items = r.list(fields["tuple"], (path, "tuple"), "the types of a tuple")
        w.whole = TupleType(tuple(read_type(r, item, ((path, "tuple"), i)) for i, item in enumerate(items)))
    elif kind == "array":
        extent = r.integer(fields["array"], (path, "array"), "the extent of an array", 1, 2**31)
        w.whole = ArrayType(extent, _dtype(r, fields["dtype"], (path, "dtype")))
    else:
        _read_shaped(r, w, fields)
    return w


def _read_shaped(r: Reading, w: Written, fields: dict[str, Any]) -> None:
    bad = False
    for key, value in fields.items():
        at = (w.path, key)
        try:
            match key:
                case "tensor" | "tile" if key == w.kind:
                    w.shape = _shape(r, value, at, key)
                case "dtype":
                    w.dtype = _dtype(r, value, at)
                case "memory":
                    w.memory = MEMORIES[r.word(value, at, "memory space", tuple(MEMORIES))]
                case "valid":
                    w.valid = read_dims(r, value, at, "valid extents", 0)
                case "stride":
                    w.stride = read_dims(r, value, at, "strides", 0)
                case "layout":
                    w.layout = LAYOUTS[r.word(value, at, "layout", tuple(LAYOUTS))]
                case "pad":
                    w.pad = PADS[r.word(value, at, "pad", tuple(PADS))]
                case "distributed":
                    w.distributed = r.flag(value, at, "distributed")
                case "memref":
                    w.memref = _memref(r, value, at)
                case "view":
                    w.view = _view(r, value, at)
        except Bad:
            bad = True
    if bad:
        raise Bad
    for key, extents in (("valid", w.valid), ("stride", w.stride)):
        if extents is not None and w.shape is not None and len(extents) != len(w.shape):
            r.fail("J106", (w.path, key), f"found {len(extents)} extents, the shape has {len(w.shape)}")
    if w.valid is not None and w.shape is not None:
        for i, (v, d) in enumerate(zip(w.valid, w.shape, strict=True)):
            x, y = const_int(v), const_int(d)
            if x is not None and y is not None and x > y:
                r.fail("J105", ((w.path, "valid"), i), f"found a valid extent of {x}, the dim has {y}")


def _shape(r: Reading, value: Any, path: Path, key: str) -> Dims:
    shape = read_dims(r, value, path, f"the shape of a {key}", 1)
    if len(shape) > MAX_RANK or (key == "tile" and not shape):
        r.fail(
            "J106",
            path,
            f"found {len(shape)} dims, allowed are {'1' if key == 'tile' else '0'} to {MAX_RANK}",
        )
    refuse_overflow(r, shape, path)
    return shape


def refuse_overflow(r: Reading, shape: Dims, path: Path) -> None:
    """Refuse a shape whose bytes could not be counted in 64 bits (elements have at most 8)."""
    constants = [d for d in map(const_int, shape) if d is not None]
    if math.prod(constants) * 8 >= 2**63:
        r.fail("J403", path, f"the shape {dims_text(shape)} has 2**60 elements or more")


def read_dims(r: Reading, value: Any, path: Path, what: str, low: int) -> Dims:
    """A list of integer expressions whose constants are at least `low`."""
    result: list[Expr] = []
    bad = False
    for i, element in enumerate(r.list(value, path, what)):
        try:
            result.append(_dim(r, element, (path, i), low))
        except Bad:
            bad = True
    if bad:
        raise Bad
    return tuple(result)


def _dim(r: Reading, value: Any, path: Path, low: int) -> Expr:
    e = read_expr(r, value, path)
    constant = const_int(e)
    if constant is not None and constant < low:
        r.fail("J105", path, f"found the extent {constant}, allowed are {low} and more")
    d = dtype_of(e)
    if constant is None and ((d is not None and not d.is_int) or (d is None and not is_poisoned(e))):
        r.fail("J302", path, "found no integer, allowed as an extent is an integer expression")
    return e


def _dtype(r: Reading, value: Any, path: Path) -> DType:
    return DTYPES[r.word(value, path, "dtype", tuple(DTYPES))]


def _view(r: Reading, value: Any, path: Path) -> dict[str, Any]:
    fields = r.object(value, path, "a tile view", _VIEW)
    result: dict[str, Any] = {}
    for key, v in fields.items():
        at = (path, key)
        match key:
            case "blayout" | "slayout":
                result[key] = TILE_LAYOUTS[r.word(v, at, key, tuple(TILE_LAYOUTS))]
            case "fractal":
                result[key] = r.integer(v, at, "the box size in bytes", 1, 2**31)
            case "compact":
                result[key] = COMPACTS[r.word(v, at, key, tuple(COMPACTS))]
            case "pad":
                result[key] = PADS[r.word(v, at, key, tuple(PADS))]
            case "stride":
                result[key] = read_dims(r, v, at, "strides", 0)
            case "start_offset":
                result[key] = _dim(r, v, at, 0)
    return result


def _memref(r: Reading, value: Any, path: Path) -> MemRef:
    fields = r.object(value, path, "a memref", _MEMREF)
    return MemRef(
        r.string(fields["base"], (path, "base"), "the name of a buffer"),
        r.flag(fields["pinned"], (path, "pinned"), "pinned") if "pinned" in fields else False,
        _dim(r, fields["offset"], (path, "offset"), 0) if "offset" in fields else None,
        r.integer(fields["size"], (path, "size"), "a size in bytes", 0) if "size" in fields else None,
        r.integer(fields["slots"], (path, "slots"), "a number of slots", 1, 2**31) if "slots" in fields else None,
        _dim(r, fields["slot"], (path, "slot"), 0) if "slot" in fields else None,
    )


def complete(r: Reading, w: Written) -> Type:
    """The type that `w` states in full. Raises `Bad` where shape, dtype or kind is missing."""
    if w.whole is not None:
        return w.whole
    if w.kind not in ("tile", "tensor") or w.shape is None or w.dtype is None:
        r.fail(
            "J401",
            w.path,
            "the type is partial and nothing is deduced here; give it whole, with its shape and dtype",
        )
    if w.kind == "tensor":
        refuse_fields(r, w, ("memory", w.memory), ("view", w.view or None))
        return tensor_type(w.shape, w.dtype, tensor_view(TensorView(), w), bool(w.distributed), w.memref)
    refuse_fields(r, w, ("layout", w.layout), ("stride", w.stride), ("pad", w.pad), ("distributed", w.distributed))
    base = implicit_view(w.shape, w.memory)
    view = replace(base, **w.view, valid=w.valid or ()) if w.view or w.valid else None
    return tile_type(w.shape, w.dtype, w.memory, view, w.memref)


def refuse_fields(r: Reading, w: Written, *fields: tuple[str, Any]) -> None:
    """Refuse stated fields that a type of this kind does not have."""
    for key, value in fields:
        if value is not None:
            help = "layouts, strides and pads of a tile are fields of its view" if w.kind == "tile" else None
            r.fail("J102", (w.path, key), f"a {w.kind} type has no field {key}", help, on_key=True)


def tensor_view(base: TensorView, w: Written) -> TensorView:
    """`base` with the stated fields."""
    return TensorView(
        base.stride if w.stride is None else w.stride,
        w.layout or base.layout,
        base.valid if w.valid is None else w.valid,
        w.pad or base.pad,
    )
