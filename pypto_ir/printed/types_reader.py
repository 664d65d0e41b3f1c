"""Types of printed programs: `pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[12, 64])]`.

A TileView starts from the implicit view of shape and space and changes what is written; that a type states a
space, a view or a MemRef at all is kept, since an annotation leaves to the deduction what it does not state.
Equal texts give one object: a program of ten thousand tiles has some dozen types.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, replace
from typing import Any

from pypto_ir.diagnostics import declare
from pypto_ir.expr import Var, const_int, variables
from pypto_ir.printed.exprs_reader import Exprs, attribute, shown
from pypto_ir.printed.words import COMPACTS, DTYPES, LAYOUTS, MEMORIES, PADS, TILE_LAYOUTS
from pypto_ir.types import (
    ArrayType,
    CommCtxType,
    Dims,
    Layout,
    Memory,
    MemRef,
    PtrType,
    ScalarType,
    TensorView,
    TileView,
    TupleType,
    Type,
    UnknownType,
    implicit_view,
    tensor_type,
    tile_type,
    type_exprs,
)  # fmt: skip

declare(
    P311="a type is malformed",
    P312="a field of a view is not known or has the wrong value",
)

MAX_RANK = 16
#: deepest nesting of tuple types
_MAX_TUPLES = 20
_FIELDLESS: dict[tuple[str, ...], Type] = {
    ("pl", "Ptr"): PtrType(),
    ("pl", "UnknownType"): UnknownType(),
    ("pl", "Unknown"): UnknownType(),
    ("pld", "CommCtxType"): CommCtxType(),
    ("pl", "CommCtxType"): CommCtxType(),
}
_SHORTHANDS = {"ND": Layout.ND, "NZ": Layout.NZ, "MX_A_ZZ": Layout.MX_A_ZZ, "MX_B_NN": Layout.MX_B_NN}


@dataclass(frozen=True, slots=True)
class Annotation:
    """A type as written: the whole type, and whether it states a space, a view, a MemRef."""

    type: Type
    memory: bool = False
    view: bool = False
    memref: bool = False


class Types:
    """Reads the types of one function; `shared` holds those that are the same in every function."""

    def __init__(self, exprs: Exprs, shared: dict[str, Annotation]) -> None:
        self.exprs, self.r, self.shared = exprs, exprs.r, shared

    def type(self, node: ast.expr) -> Type:
        """A complete type, or `Bad` after reporting."""
        return self.annotation(node).type

    def annotation(self, node: ast.expr) -> Annotation:
        """A type with what it states."""
        text = self.r.source.segment(node)
        if text is not None:
            found = self.shared.get(text)
            if found is not None:
                return found
        result = self._read(node, 0)
        if text is not None and not (result.memref and not _pinned(result.type)):
            free = [v for e in type_exprs(result.type) for v in variables(e)]
            if not free:
                self.shared[text] = result
        return result

    def _read(self, node: ast.expr, depth: int) -> Annotation:
        path = attribute(node)
        if path in _FIELDLESS:
            return Annotation(_FIELDLESS[path])
        if not isinstance(node, ast.Subscript):
            self.r.fail("P311", node, f"found {shown(node)}, allowed is a type such as pl.Scalar[pl.INDEX]")
        path = attribute(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        match path:
            case ("pl", "Scalar") if len(parts) == 1:
                return Annotation(ScalarType(self.exprs.dtype(parts[0])))
            case ("pl" | "pld", "Tensor" | "DistributedTensor" as kind) if len(parts) >= 2:
                return self._tensor(parts, kind == "DistributedTensor")
            case ("pl", "Tile") if len(parts) >= 2:
                return self._tile(parts)
            case ("pl", "Tuple") | ("tuple",):
                return self._tuple(node, parts, depth)
            case ("pl", "Array") if len(parts) == 2:
                extent = self.exprs.number(parts[0], "the extent of an array")
                if not 1 <= extent < 2**31:
                    self.r.fail("P311", parts[0], f"found {extent}, an array has 1 to 2**31 - 1 elements")
                return Annotation(ArrayType(extent, self.exprs.dtype(parts[1])))
        self.r.fail("P311", node, f"found {shown(node)}, which is no type", "types are pl.Tile[[2, 3], pl.FP32], ..")

    def _tuple(self, node: ast.Subscript, parts: list[ast.expr], depth: int) -> Annotation:
        if depth >= _MAX_TUPLES:
            self.r.fail("P003", node, f"tuple types are nested more than {_MAX_TUPLES} deep")
        if isinstance(node.slice, ast.Tuple) and not node.slice.elts:
            return Annotation(TupleType(()))
        return Annotation(TupleType(tuple(self._read(part, depth + 1).type for part in parts)))

    def _shape(self, node: ast.expr, least: int) -> Dims:
        shape = self.exprs.dims(node, "a shape", 1)
        if not least <= len(shape) <= MAX_RANK:
            self.r.fail("P311", node, f"found {len(shape)} dims, allowed are {least} to {MAX_RANK}")
        if math.prod(d for d in map(const_int, shape) if d is not None) * 8 >= 2**63:
            self.r.fail("P311", node, "the shape has 2**60 elements or more")
        return shape

    def _fitting(self, node: ast.Call, shape: Dims, valid: Dims, stride: Dims) -> None:
        """Refuse a view whose extents or strides do not fit the shape."""
        for what, given in (("valid extents", valid), ("strides", stride)):
            if given and len(given) != len(shape):
                self.r.fail("P312", node, f"found {len(given)} {what}, the shape has {len(shape)} dims")
        for v, d in zip(valid, shape, strict=False):
            x, y = const_int(v), const_int(d)
            if x is not None and y is not None and x > y:
                self.r.fail("P312", node, f"found a valid extent of {x}, the dim has {y}")

    def _tensor(self, parts: list[ast.expr], distributed: bool) -> Annotation:
        shape, dtype = self._shape(parts[0], 0), self.exprs.dtype(parts[1])
        view: TensorView | None = None
        memref: MemRef | None = None
        stated = False
        for part in parts[2:]:
            path = attribute(part)
            if path is not None and len(path) == 2 and path[1] in _SHORTHANDS:
                view, stated = TensorView(layout=_SHORTHANDS[path[1]]), True
            elif path == ("pl", "DN"):
                help = "write pl.TensorView(stride=[], layout=pl.TensorLayout.DN)"
                self.r.fail("P311", part, "pl.DN is no shorthand for a view", help)
            elif isinstance(part, ast.Call) and attribute(part.func) == ("pl", "TensorView"):
                view, stated = self._tensor_view(part), True
                self._fitting(part, shape, view.valid, view.stride)
            else:
                memref = self.memref(part)
        t = tensor_type(shape, dtype, view, distributed, memref)
        return Annotation(t, view=stated, memref=memref is not None)

    def _tensor_view(self, node: ast.Call) -> TensorView:
        fields = self._fields(node, ("valid_shape", "stride", "layout", "pad"))
        if fields and "layout" not in fields:
            self.r.fail("P312", node, "a TensorView without layout", "write layout=pl.TensorLayout.ND")
        view = TensorView()
        for key, value in fields.items():
            match key:
                case "valid_shape":
                    view = replace(view, valid=self.exprs.dims(value, "valid extents"))
                case "stride":
                    view = replace(view, stride=self.exprs.dims(value, "strides"))
                case "layout":
                    view = replace(view, layout=self._word(value, "TensorLayout", LAYOUTS))
                case _:
                    view = replace(view, pad=self._word(value, "PadValue", PADS))
        return view

    def _fields(self, node: ast.Call, allowed: tuple[str, ...]) -> dict[str, ast.expr]:
        if node.args:
            self.r.fail("P312", node.args[0], f"fields are given by keyword: {', '.join(allowed)}")
        fields: dict[str, ast.expr] = {}
        for k in node.keywords:
            if k.arg not in allowed:
                self.r.fail("P312", k.value, f"found the field {k.arg}, allowed: {', '.join(allowed)}")
            fields[str(k.arg)] = k.value
        return fields

    def _counted(self, node: ast.expr, what: str, low: int) -> int:
        number = self.exprs.number(node, what)
        if number < low:
            self.r.fail("P312", node, f"found {number} as {what}, allowed are {low} and more")
        return number

    def _word(self, node: ast.expr, enum: str, members: dict[str, Any]) -> Any:
        path = attribute(node)
        if path is None or path[:-1] != ("pl", enum) or path[-1] not in members:
            self.r.fail("P312", node, f"found {shown(node)}, allowed: pl.{enum}.{' '.join(members)}")
        return members[path[-1]]

    def _tile(self, parts: list[ast.expr]) -> Annotation:
        shape, dtype = self._shape(parts[0], 1), self.exprs.dtype(parts[1])
        memory: Memory | None = None
        memref: MemRef | None = None
        written: ast.Call | None = None
        for part in parts[2:]:
            path = attribute(part)
            if path is not None and path[:2] == ("pl", "Mem"):
                memory = self._word(part, "Mem", MEMORIES)
            elif isinstance(part, ast.Call) and attribute(part.func) == ("pl", "TileView"):
                written = part
            else:
                memref = self.memref(part)
        if memref is not None and memory is None:
            self.r.fail("P311", parts[2], "a MemRef on a tile needs its memory space", "add pl.Mem.Vec")
        view = None
        if written is not None:
            view = self._tile_view(written, implicit_view(shape, memory))
            self._fitting(written, shape, view.valid, view.stride)
        t = tile_type(shape, dtype, memory, view, memref)
        return Annotation(t, memory is not None, view is not None, memref is not None)

    def _tile_view(self, node: ast.Call, base: TileView) -> TileView:
        allowed = (
            "valid_shape", "stride", "start_offset", "blayout", "slayout", "fractal", "pad", "compact"
        )  # fmt: skip
        changes: dict[str, Any] = {}
        for key, value in self._fields(node, allowed).items():
            match key:
                case "valid_shape":
                    changes["valid"] = self.exprs.dims(value, "valid extents")
                case "stride":
                    changes["stride"] = self.exprs.dims(value, "strides")
                case "start_offset":
                    changes["start_offset"] = self.exprs.integer(self.exprs.expr(value), value, key)
                case "blayout" | "slayout":
                    changes[key] = self._word(value, "TileLayout", TILE_LAYOUTS)
                case "fractal":
                    changes[key] = self._counted(value, "the size of a box", 1)
                case "pad":
                    changes[key] = self._word(value, "PadValue", PADS)
                case _:
                    changes[key] = self._word(value, "CompactMode", COMPACTS)
        return replace(base, **changes)

    def memref(self, node: ast.expr) -> MemRef:
        """`pl.MemRef("ring", slots=2)[i % 2]`, `pl.MemRef(buf, 4096, 8192)`."""
        slot = None
        call = node
        if isinstance(node, ast.Subscript):
            call = node.value
            slot = self.exprs.integer(self.exprs.expr(node.slice), node.slice, "the number of a slot")
        if not (isinstance(call, ast.Call) and attribute(call.func) == ("pl", "MemRef") and call.args):
            self.r.fail("P311", node, f"found {shown(node)}, allowed here are a space, a view, a MemRef")
        match call.args[0]:
            case ast.Constant(value=str() as base):
                pass
            case ast.Name() as name:
                base = self.exprs.names.lookup(name.id, name).name
            case other:
                self.r.fail("P311", other, f"found {shown(other)}, allowed is the name of a buffer")
        given: dict[str, ast.expr] = dict(zip(("offset", "size"), call.args[1:], strict=False))
        given.update({str(k.arg): k.value for k in call.keywords})
        pinned: bool | None = None
        fields: dict[str, Any] = {}
        for key, value in given.items():
            match key:
                case "offset" | "byte_offset":
                    fields["offset"] = self.exprs.integer(self.exprs.expr(value), value, "an offset")
                case "size":
                    fields["size"] = self._counted(value, "a size", 0)
                case "slots":
                    fields["slots"] = self._counted(value, "the number of slots", 1)
                case "pinned" if isinstance(value, ast.Constant) and type(value.value) is bool:
                    pinned = value.value
                case _:
                    self.r.fail("P311", value, f"found {key}, a MemRef has a base, offset, size and slots")
        if pinned is None:
            pinned = isinstance(call.args[0], ast.Constant) and not fields.keys() & {"offset", "size"}
        return MemRef(base, pinned, slot=slot, **fields)


def _pinned(t: Type) -> bool:
    ref = getattr(t, "memref", None)
    return isinstance(ref, MemRef) and ref.pinned


__all__ = ["DTYPES", "Annotation", "Types", "Var"]
