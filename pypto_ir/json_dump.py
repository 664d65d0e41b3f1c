"""Expressions, literals and types as plain JSON values: the inverse of `json_exprs` and `json_types`.

`k0 * 32` is `"k0 * 32"`, the INT16 constant 2 is `{"const": 2, "dtype": "INT16"}`, and a type annotation is
written only where it differs from what is deduced, with just the fields that make the reader arrive at the
same type again.
"""

from __future__ import annotations

import math
from dataclasses import fields
from enum import Enum
from typing import Any

from pypto_ir.diagnostics import Diagnostic, Place, Refused, declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, Item, MakeTuple, Var, children
from pypto_ir.json_annotations import merge
from pypto_ir.json_context import Reading
from pypto_ir.json_findings import Bad
from pypto_ir.json_types import Written
from pypto_ir.stmt import Keywords, Literal, Record
from pypto_ir.text import expr_text
from pypto_ir.types import (
    ArrayType,
    CommCtxType,
    Dims,
    Layout,
    MemRef,
    Pad,
    PtrType,
    ScalarType,
    TensorType,
    TensorView,
    TileType,
    TileView,
    TupleType,
    Type,
    UnknownType,
    implicit_view,
)  # fmt: skip

declare(J701="the program holds a value that program files have no form for")


def dump_expr(e: Expr, plain: DType | None = None) -> Any:
    """An expression. `plain` is what a plain number at this place would be read as; None is INDEX."""
    match e:
        case Const(value=bool() as value, dtype=DType.BOOL):
            return value
        case Const(value=int() as value, dtype=dtype) if dtype.is_float or dtype is DType.BOOL:
            return {"const": value, "dtype": dtype.value, "integer": True}
        case Const(value=value, dtype=DType.INDEX) if plain is None:
            return value
        case Const(value=value, dtype=dtype):
            finite = not isinstance(value, float) or math.isfinite(value)
            return {"const": value if finite else str(value), "dtype": dtype.value}
        case Var(name=name):
            return name
        case MakeTuple(items=items):
            return [dump_expr(i) for i in items]
        case Item(of=of, index=index):
            return {"item": index, "of": dump_expr(of)}
    if any(isinstance(part, MakeTuple) for part in _parts(e)):
        raise _no_form(f"the tuple inside of {expr_text(e)}")
    return expr_text(e)


def _parts(e: Expr) -> list[Expr]:
    result, stack = [], [e]
    while stack:
        result.append(stack.pop())
        stack.extend(children(result[-1]))
    return result


def dump_literal(value: Literal) -> Any:
    """A value of a keyword argument or attribute."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if not math.isfinite(value):
                raise _no_form(f"the literal {value}")
            return value
        case tuple():
            return [dump_literal(v) for v in value]
        case Record(items=items):
            if len(items) == 1 and items[0][0] in ("var", "expr"):
                raise _no_form(f"an object literal whose only key is {items[0][0]}")
            return dump_keywords(items)
        case Var(name=name):
            return {"var": name}
        case MakeTuple(items=items):
            return [dump_literal(v) for v in items]
    return {"expr": dump_expr(value)}


def dump_keywords(items: Keywords) -> dict[str, Any]:
    return {key: dump_literal(value) for key, value in items}


def _no_form(what: str) -> Refused:
    return Refused([Diagnostic("J701", f"{what} has no form in program files", Place())])


def dump_type(t: Type) -> dict[str, Any]:
    """A complete type with its defaults left out."""
    match t:
        case ScalarType(dtype=d):
            return {"scalar": d.value}
        case TupleType(items=items):
            return {"tuple": [dump_type(i) for i in items]}
        case ArrayType(extent=n, dtype=d):
            return {"array": n, "dtype": d.value}
        case PtrType():
            return {"ptr": True}
        case CommCtxType():
            return {"comm_ctx": True}
        case UnknownType():
            return {"unknown": True}
    return _dump_written(written(t))


def dump_annotation(deduced: Type | None, t: Type, op: str | None) -> dict[str, Any] | None:
    """The `type` of a statement, or None where `t` is what is deduced. Where the plain form would leave a
    deduced field standing that `t` does not have, every field is spelled out."""
    if t == deduced:
        return None
    if deduced is None or not isinstance(t, TileType | TensorType):
        return dump_type(t)
    for candidate in (written(t), written(t, spelled_out=True)):
        try:
            if merge(Reading(), deduced, candidate, op) == t:
                return _dump_written(candidate)
        except Bad:
            continue
    return dump_type(t)


def written(t: TileType | TensorType, spelled_out: bool = False) -> Written:
    """The fields of a type that differ from what their absence means, or all of them."""
    w = Written(None, "tile" if isinstance(t, TileType) else "tensor", shape=t.shape, dtype=t.dtype, memref=t.memref)
    w.valid = t.valid if spelled_out or (t.view and t.view.valid) else None
    if isinstance(t, TensorType):
        view = t.view or TensorView()
        w.layout = view.layout if spelled_out or view.layout is not Layout.ND else None
        w.stride = view.stride if spelled_out or view.stride else None
        w.pad = view.pad if spelled_out or view.pad is not Pad.NULL else None
        w.distributed = True if t.distributed else None
        return w
    w.memory = t.memory
    view_now, base = t.effective_view, implicit_view(t.shape, t.memory)
    for f in fields(TileView):
        value = getattr(view_now, f.name)
        if f.name != "valid" and (value != getattr(base, f.name) or (spelled_out and value is not None)):
            w.view[f.name] = value
    return w


def _dump_written(w: Written) -> dict[str, Any]:
    assert w.kind is not None and w.shape is not None and w.dtype is not None
    result: dict[str, Any] = {w.kind: dump_dims(w.shape), "dtype": w.dtype.value}
    if w.memory is not None:
        result["memory"] = w.memory.value
    if w.layout is not None:
        result["layout"] = w.layout.value
    if w.valid is not None:
        result["valid"] = dump_dims(w.valid)
    if w.stride is not None:
        result["stride"] = dump_dims(w.stride)
    if w.pad is not None:
        result["pad"] = w.pad.value
    if w.distributed is not None:
        result["distributed"] = w.distributed
    if w.view:
        result["view"] = {key: _dump_field(w.view[key]) for key in _VIEW_ORDER if key in w.view}
    if w.memref is not None:
        result["memref"] = _dump_memref(w.memref)
    return result


_VIEW_ORDER = ("blayout", "slayout", "fractal", "compact", "pad", "stride", "start_offset")


def dump_dims(values: Dims) -> list[Any]:
    return [dump_expr(v) for v in values]


def _dump_field(value: Any) -> Any:
    if isinstance(value, tuple):
        return dump_dims(value)
    if isinstance(value, int):
        return value
    return value.value if isinstance(value, Enum) else dump_expr(value)


def _dump_memref(m: MemRef) -> dict[str, Any]:
    result: dict[str, Any] = {"base": m.base}
    if m.pinned:
        result["pinned"] = True
    if m.offset is not None:
        result["offset"] = dump_expr(m.offset)
    if m.size is not None:
        result["size"] = m.size
    if m.slots is not None:
        result["slots"] = m.slots
    if m.slot is not None:
        result["slot"] = dump_expr(m.slot)
    return result
