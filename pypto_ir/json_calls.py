"""Calls in program files: of ops, of functions of the program, and task launches.

`{"let": "u", "op": "tile.muls", "args": ["t", 2]}` with t of BF16 is `muls(t, 2.0)` with a BF16 constant: a
plain number in a scalar position takes the tile's dtype. The result type comes from the op's type rule, from
the `returns` of a function with its scalar parameters replaced by the arguments, or, for an op that the
registry does not know, from the statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, Var, const_int, substitute
from pypto_ir.json_annotations import merge
from pypto_ir.json_context import Reading
from pypto_ir.json_exprs import (
    DTYPES,
    is_poisoned,
    read_expr,
    read_exprs,
    read_keywords,
    read_literal,
    read_scalar,
)
from pypto_ir.json_findings import Bad
from pypto_ir.json_names import POISON
from pypto_ir.json_place import Path
from pypto_ir.json_types import Written, complete, read_annotation, refuse_overflow
from pypto_ir.ops.registry import Kind, OpDef, OpError, Role, all_ops, find_op, kind_name, type_of
from pypto_ir.ops.rules import check_call, infer_call
from pypto_ir.scale_boxes import same_memory
from pypto_ir.stmt import Call, Function, FunctionCall, Keywords, Literal, Submit
from pypto_ir.types import (
    MemRef,
    ScalarType,
    TensorType,
    TileType,
    TupleType,
    Type,
    UnknownType,
    tensor_type,
    tile_type,
)  # fmt: skip

declare(
    J404="the op is not known and the statement gives no complete type",
    J405="a function that is not in the program is called",
    J406="the arguments of a call do not fit the function",
    J407="an op without a result is bound to a name",
)

#: effect-only namespaces whose unknown ops are accepted without a type: they have no result
EFFECTS = ("system.", "pld.system.")
TASK_ID = ScalarType(DType.TASK_ID)


def read_op_call(r: Reading, s: dict[str, Any], path: Path) -> tuple[Call, Type]:
    """The call of an op at a statement and the type of its result. Raises `Bad` after reporting."""
    name = r.string(s["op"], (path, "op"), "the name of an op")
    op = find_op(name)
    bad = False
    kwargs: Keywords = ()
    attrs: Keywords = ()
    args: tuple[Expr, ...] = ()
    try:
        kwargs = read_keywords(r, s.get("kwargs", {}), (path, "kwargs"), "the keyword arguments")
    except Bad:
        bad = True
    try:
        attrs = read_keywords(r, s.get("attrs", {}), (path, "attrs"), "the attributes")
    except Bad:
        bad = True
    if op is not None:
        bad = not _known_kwargs(r, op, kwargs, (path, "kwargs")) or bad
    try:
        args = _read_args(r, op, s["args"], kwargs, (path, "args"))
    except Bad:
        bad = True
    if bad:
        raise Bad
    call = Call(name, args, kwargs, attrs)
    return call, _result_type(r, op, call, s, path)


def _known_kwargs(r: Reading, op: OpDef, kwargs: Keywords, path: Path) -> bool:
    good = True
    for key, _ in kwargs:
        if op.kwarg(key) is None:
            r.unknown(
                "J102",
                (path, key),
                f"the keyword argument {key[:40]} of {op.name}",
                key,
                [k.name for k in op.kwargs],
                on_key=True,
            )
            good = False
    return good


def _read_args(r: Reading, op: OpDef | None, value: Any, kwargs: Keywords, path: Path) -> tuple[Expr, ...]:
    elements = r.list(value, path, "the operands")
    args: list[Expr] = []
    bad = False
    for i, element in enumerate(elements):
        plain = plain_dtype(op, i, args, kwargs) if type(element) in (int, float) else None
        try:
            args.append(read_expr(r, element, (path, i), plain))
        except Bad:
            args.append(Var("_", POISON))
            bad = True
    if bad:
        raise Bad
    return tuple(args)


def plain_dtype(op: OpDef | None, i: int, args: list[Expr] | tuple[Expr, ...], kwargs: Keywords) -> DType | None:
    """The dtype that a plain number takes as operand `i`: that of the tile before it, else of the `dtype`
    keyword argument; None where the operand is no scalar of data (then it is an INDEX constant)."""
    if op is None or not op.operands or not op.name.startswith("tile."):
        return None
    operand = op.operands[min(i, len(op.operands) - 1)]
    if operand.kind is not Kind.SCALAR or operand.role is not Role.SCALAR or op.name in _INDEX_SCALARS:
        return None
    if op.name in _FIXED_SCALARS:
        return _FIXED_SCALARS[op.name]
    for arg in args[:i]:
        t = type_of(arg)
        if isinstance(t, TileType):
            return t.dtype
    word = next((v for k, v in kwargs if k == "dtype"), None)
    return DTYPES.get(word) if isinstance(word, str) else None


#: ops whose scalar operands are positions or counts, not data
_INDEX_SCALARS = frozenset({"tile.set_validshape", "tile.extract", "tile.transpose", "tile.mrgsort_format1"})
_FIXED_SCALARS = {"tile.tri": DType.INT32, "tile.random": DType.INT32}


def _result_type(r: Reading, op: OpDef | None, call: Call, s: dict[str, Any], path: Path) -> Type:
    written = read_annotation(r, s["type"], (path, "type")) if "type" in s else None
    if op is None:
        if written is None and "let" not in s and call.op.startswith(EFFECTS):
            return UnknownType()
        if written is None or not _is_whole(written):
            why = f"the op {call.op[:60]} is not known" + ("; its statement gives no complete type" if "let" in s else "")
            names = [o.name for o in all_ops()]
            close = _closest(call.op, names)
            help = (f"did you mean {close}? " if close else "") + "An op that is not known needs its result type at the statement"
            r.fail("J404", (path, "op"), why, help)
        return complete(r, written)
    if any(map(is_poisoned, call.args)):
        return complete(r, written) if written and written.shape and written.dtype and written.kind else POISON
    try:
        deduced = infer_call(call)
    except OpError as fault:
        if op.annotated and written is not None and _is_whole(written) and _fits_declaration(op, call):
            return complete(r, written)  # the type rule is not pinned down: what is stated is believed
        at = (path, "args") if s["args"] else path
        r.fail(fault.code, at, fault.message, fault.help)
    if isinstance(deduced, TileType | TensorType):
        refuse_overflow(r, deduced.shape, (path, "args"))
    return deduced if written is None else merge(r, deduced, written, call.op)


def _is_whole(w: Written) -> bool:
    """True where an annotation states a complete type."""
    return w.whole is not None or (w.kind is not None and w.shape is not None and w.dtype is not None)


def _fits_declaration(op: OpDef, call: Call) -> bool:
    try:
        check_call(op, call)
    except OpError:
        return False
    return True


def _closest(word: str, words: list[str]) -> str | None:
    import difflib

    close = difflib.get_close_matches(word[:60], words, 1)
    return close[0] if close else None


def read_function_call(
    r: Reading, s: dict[str, Any], path: Path, functions: Mapping[str, Function]
) -> tuple[FunctionCall, tuple[Type, ...]]:
    """A call of a function of the program and the types of its results."""
    callee = _callee(r, s["call"], (path, "call"), functions)
    args = read_exprs(r, s["args"], (path, "args"), "the arguments")
    if len(args) != len(callee.params):
        r.fail(
            "J406",
            (path, "args"),
            f"{callee.name} takes {len(callee.params)} arguments, found {len(args)}",
            _parameters(callee),
        )
    _check_args(r, callee, args, (path, "args"))
    kwargs = read_keywords(r, s.get("kwargs", {}), (path, "kwargs"), "the keyword arguments")
    attrs = read_keywords(r, s.get("attrs", {}), (path, "attrs"), "the attributes")
    return FunctionCall(callee.name, args, kwargs, attrs), result_types(callee, args)


def read_submit(r: Reading, s: dict[str, Any], path: Path, functions: Mapping[str, Function]) -> tuple[Submit, tuple[Type, ...]]:
    """A task launch and the types of its results, the task id last (`spec/tile_ir.md` section 3)."""
    callee = _callee(r, s["submit"], (path, "submit"), functions)
    args = read_exprs(r, s["args"], (path, "args"), "the arguments")
    if len(args) > len(callee.params):
        r.fail(
            "J406",
            (path, "args"),
            f"{callee.name} takes {len(callee.params)} arguments at most, found {len(args)}",
            _parameters(callee),
        )
    if len(args) == len(callee.params):
        _check_args(r, callee, args, (path, "args"))
    fields = tuple((key, _submit_field(r, key, s[key], (path, key))) for key in SUBMIT_FIELDS if key in s)
    attrs = read_keywords(r, s.get("attrs", {}), (path, "attrs"), "the attributes")
    return Submit(callee.name, args, fields, attrs), (*result_types(callee, args), TASK_ID)


SUBMIT_FIELDS = ("deps", "core_num", "sync_start", "allow_early_resolve", "predicate", "dumps", "device")


def _submit_field(r: Reading, key: str, value: Any, path: Path) -> Literal:
    match key:
        case "deps" | "dumps":
            return read_exprs(r, value, path, key)
        case "predicate":
            return tuple(read_literal(r, e, (path, i)) for i, e in enumerate(r.list(value, path, "a predicate")))
        case "sync_start" | "allow_early_resolve":
            return r.flag(value, path, key)
    return read_scalar(r, value, path, key, "integer")


def _callee(r: Reading, value: Any, path: Path, functions: Mapping[str, Function]) -> Function:
    name = r.string(value, path, "the name of a function")
    if name not in functions:
        r.unknown("J405", path, f"the function {name[:40]}", name, functions)
        raise Bad
    return functions[name]


def _parameters(callee: Function) -> str:
    listed = ", ".join(f"{p.var.name} ({kind_name(p.var.type)})" for p in callee.params)
    return f"its parameters are {listed}" if listed else "it has no parameters"


def _check_args(r: Reading, callee: Function, args: tuple[Expr, ...], path: Path) -> None:
    bad = False
    for i, (arg, param) in enumerate(zip(args, callee.params, strict=True)):
        found_type, wanted = type_of(arg), param.var.type
        if not is_poisoned(arg) and not _fits(found_type, wanted):
            what = f"argument {i} ({param.var.name}) of {callee.name} is {kind_name(found_type)}"
            r.report("J406", (path, i), f"{what}, allowed is {kind_name(wanted)}")
            bad = True
    if bad:
        raise Bad


def _fits(given: Type, wanted: Type) -> bool:
    """True where an argument may be passed: same kind and dtype, and no two constant dims differ; scales in either form."""
    match given, wanted:
        case (UnknownType(), _) | (_, UnknownType()):
            return True
        case ScalarType(dtype=a), ScalarType(dtype=b):
            return a is b or (a.is_index_like and b.is_index_like)
        case (TensorType(shape=s, dtype=a), TensorType(shape=z, dtype=b)) | (
            TileType(shape=s, dtype=a), TileType(shape=z, dtype=b)
        ):  # fmt: skip
            pairs = [(const_int(x), const_int(y)) for x, y in zip(s, z, strict=False)]
            fits = a is b and len(s) == len(z) and all(x == y or x is None or y is None for x, y in pairs)
            return fits or (isinstance(given, TensorType) and isinstance(wanted, TensorType) and same_memory(given, wanted))
        case TupleType(items=s), TupleType(items=z):
            return len(s) == len(z) and all(map(_fits, s, z))
    return type(given) is type(wanted)


def result_types(callee: Function, args: tuple[Expr, ...]) -> tuple[Type, ...]:
    """The types of a function's results at a call: its scalar parameters are replaced by the arguments."""
    by = {p.var.name: a for p, a in zip(callee.params, args, strict=False) if isinstance(p.var.type, ScalarType)}
    return tuple(substituted(t, by) for t in callee.returns) if by else callee.returns


def substituted(t: Type, by: Mapping[str, Expr]) -> Type:
    """A type with the variables in its extents, strides and offsets replaced by name."""

    def dims(values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(substitute(v, by) for v in values)

    def ref(m: MemRef | None) -> MemRef | None:
        return m and replace(m, offset=m.offset and substitute(m.offset, by), slot=m.slot and substitute(m.slot, by))

    match t:
        case TensorType():
            view = t.view and replace(t.view, stride=dims(t.view.stride), valid=dims(t.view.valid))
            return tensor_type(dims(t.shape), t.dtype, view, t.distributed, ref(t.memref))
        case TileType():
            tile_view = t.view and replace(t.view, stride=dims(t.view.stride), valid=dims(t.view.valid))
            if tile_view is not None and tile_view.start_offset is not None:
                tile_view = replace(tile_view, start_offset=substitute(tile_view.start_offset, by))
            return tile_type(dims(t.shape), t.dtype, t.memory, tile_view, ref(t.memref))
        case TupleType(items=items):
            return TupleType(tuple(substituted(i, by) for i in items))
    return t
