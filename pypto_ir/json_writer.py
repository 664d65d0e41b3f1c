"""Programs to program files in canonical form: stable key order, defaults left out.

Reading what was written gives a structurally equal program, and writing that again the same bytes. A
statement's `type` is written where the reader would deduce another one from the operands: always for an op
that the registry does not know, and for the 2-D tile that a flattened load makes of its [2, 3, 4] window.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pypto_ir.expr import Expr, Var, transform
from pypto_ir.json_calls import EFFECTS, TASK_ID, plain_dtype, result_types
from pypto_ir.json_dump import dump_annotation, dump_expr, dump_keywords, dump_literal, dump_type
from pypto_ir.json_layout import Line, Open, layout
from pypto_ir.json_reader import FORMAT
from pypto_ir.json_renaming import spelled
from pypto_ir.ops.registry import OpError, find_op, type_of
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import (
    Assign,
    Block,
    Break,
    Call,
    Carry,
    Continue,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Keywords,
    Param,
    Program,
    Return,
    Scope,
    Stmt,
    Submit,
    Value,
    While,
    Yield,
    definitions,
)  # fmt: skip
from pypto_ir.types import TupleType, Type, UnknownType

_Object = TypeVar("_Object", bound=dict[str, Any])


def write_program(program: Program) -> str:
    """The canonical text of a program, with a final newline. Raises `Refused` (J701) for what the format has
    no form for."""
    program = spelled(program)
    result = Open(pypto_ir=FORMAT)
    if program.name != Program().name:
        result["name"] = program.name
    if program.target is not None:
        result["target"] = program.target
    if program.dynamic:
        result["dynamic"] = list(program.dynamic)
    result["functions"] = [_function(f, program) for f in program.functions]
    return layout(result)


def function_lines(program: Program) -> dict[str, list[str]]:
    """The lines of every function of a program, by the name that it has in the program."""
    written = spelled(program)
    pairs = zip(program.functions, written.functions, strict=True)
    return {f.name: layout(_function(w, written)).splitlines() for f, w in pairs}


def _function(f: Function, program: Program) -> Open:
    result = Open(name=f.name)
    if f.kind != Function("").kind:
        result["kind"] = f.kind
    for key in ("level", "role", "auto_scope", "external_source"):
        value = getattr(f, key)
        if value is not None:
            result[key] = value
    if f.attrs:
        result["attrs"] = dump_keywords(f.attrs)
    if f.params:
        result["params"] = [_param(p) for p in f.params]
    if f.returns:
        result["returns"] = [dump_type(t) for t in f.returns]
    if f.verbatim is not None:
        result["verbatim"] = f.verbatim
    elif f.body or f.external_source is None:
        result["body"] = _Statements(program, f).block(f.body)
    return result


def _param(p: Param) -> Line:
    result = Line(name=p.var.name, type=dump_type(p.var.type))
    if p.direction != "In":
        result["direction"] = p.direction
    if p.range is not None:
        result["range"] = list(p.range)
    return result


class _Statements:
    """Writes the statements of one function; `types` holds the variables by name as they are defined."""

    def __init__(self, program: Program, f: Function) -> None:
        self.program = program
        self.types: dict[str, Var] = {p.var.name: p.var for p in f.params}

    def block(self, block: Block) -> list[Any]:
        return [self.statement(s) for s in block]

    def statement(self, s: Stmt) -> dict[str, Any]:
        result = self._statement(s)
        if s.loc is not None:
            result["loc"] = s.loc
        if s.comment is not None:
            result["comment"] = s.comment
        for var in definitions(s):
            self.types.setdefault(var.name, var)
        return result

    def _statement(self, s: Stmt) -> dict[str, Any]:
        match s:
            case Assign(targets=targets, value=value):
                let = targets[0].name if len(targets) == 1 else [t.name for t in targets]
                result = Line(let=let, **self.value(value))
                annotation = dump_annotation(self.deduced(value), targets[0].type, _op(value)) if len(targets) == 1 else None
                if annotation is not None and not isinstance(value, FunctionCall | Submit):
                    result["type"] = annotation
                return result
            case Eval(value=value):
                result = Line(self.value(value))
                if isinstance(value, Call) and find_op(value.op) is None and not value.op.startswith(EFFECTS):
                    result["type"] = dump_type(UnknownType())
                return result
            case Return(values=values):
                return Line({"return": [dump_expr(v) for v in values]})
            case Yield(values=values):
                return Line({"yield": [dump_expr(v) for v in values]})
            case Break():
                return Line({"break": True})
            case Continue():
                return Line({"continue": True})
            case For():
                return self.loop(s)
            case While(cond=cond, body=body, carries=carries, results=results):
                opened = Open({"while": dump_expr(cond)})
                self._carries(opened, carries)
                opened["body"] = self.inner(s, body)
                return self._results(opened, results, tuple(c.init for c in carries))
            case If(cond=cond, then=then, orelse=orelse, results=results):
                opened = Open({"if": dump_expr(cond), "then": self.block(then)})
                if orelse is not None:
                    opened["else"] = self.block(orelse)
                last = then[-1] if then else None
                return self._results(opened, results, last.values if isinstance(last, Yield) else ())
            case Scope(kind=kind, var=var, attrs=attrs, body=body):
                opened = Open(scope=kind)
                if var is not None:
                    opened["var"] = var.name
                _with(opened, attrs=dump_keywords(attrs))
                opened["body"] = self.inner(s, body)
                return opened
        raise TypeError(f"not a statement: {s!r}")

    def loop(self, s: For) -> Open:
        result = Open({"for": s.var.name, "range": [dump_expr(s.start), dump_expr(s.stop), dump_expr(s.step)]})
        if s.kind != "range":
            result["kind"] = s.kind
        self._carries(result, s.carries)
        result["body"] = self.inner(s, s.body)
        self._results(result, s.results, tuple(c.init for c in s.carries))
        return _with(result, attrs=dump_keywords(s.attrs))

    def _results(self, opened: Open, results: tuple[Var, ...], values: tuple[Expr, ...]) -> Open:
        """The names of results, and their types where they are not those of `values`."""
        _with(opened, results=[v.name for v in results])
        implied = [type_of(self.defined(v)) for v in values]
        if len(implied) == len(results) and any(v.type != t for v, t in zip(results, implied, strict=True)):
            pairs = zip(results, implied, strict=True)
            opened["types"] = [None if v.type == t else dump_type(v.type) for v, t in pairs]
        return opened

    def inner(self, s: Stmt, body: Block) -> list[Any]:
        for var in definitions(s):
            self.types.setdefault(var.name, var)
        return self.block(body)

    def _carries(self, result: Open, carries: tuple[Carry, ...]) -> None:
        _with(result, carry=[Line(name=c.var.name, init=dump_expr(c.init)) for c in carries])

    def value(self, value: Value) -> dict[str, Any]:
        match value:
            case Call(op=op, args=args, kwargs=kwargs, attrs=attrs):
                declared = find_op(op)
                plain = [plain_dtype(declared, i, args, kwargs) for i in range(len(args))]
                result = {"op": op, "args": [dump_expr(a, p) for a, p in zip(args, plain, strict=True)]}
                return _with(result, kwargs=dump_keywords(kwargs), attrs=dump_keywords(attrs))
            case FunctionCall(function=function, args=args, kwargs=kwargs, attrs=attrs):
                result = {"call": function, "args": [dump_expr(a) for a in args]}
                return _with(result, kwargs=dump_keywords(kwargs), attrs=dump_keywords(attrs))
            case Submit(function=function, args=args, fields=fields, attrs=attrs):
                result = {"submit": function, "args": [dump_expr(a) for a in args], **_submit_fields(fields)}
                return _with(result, attrs=dump_keywords(attrs))
        return {"expr": dump_expr(value)}

    def deduced(self, value: Value) -> Type | None:
        """The type that the reader deduces: from the definitions of the operands, whatever their uses say."""
        match value:
            case Call(op=op, args=args, kwargs=kwargs, attrs=attrs):
                try:
                    return infer_call(Call(op, tuple(map(self.defined, args)), kwargs, attrs))
                except (KeyError, OpError):
                    return None
            case FunctionCall(function=name, args=args) | Submit(function=name, args=args):
                callee = self.program.function(name)
                types = result_types(callee, args) if callee else ()
                types = (*types, TASK_ID) if isinstance(value, Submit) else types
                return types[0] if len(types) == 1 else TupleType(types)
        return type_of(self.defined(value))

    def defined(self, e: Expr) -> Expr:
        return transform(e, lambda v: self.types.get(v.name, v))


def _op(value: Value) -> str | None:
    return value.op if isinstance(value, Call) else None


def _submit_fields(fields: Keywords) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in fields:
        if key in ("deps", "dumps") and isinstance(value, tuple):
            result[key] = [dump_expr(v) if isinstance(v, Expr) else dump_literal(v) for v in value]
        else:
            result[key] = dump_expr(value) if isinstance(value, Expr) else dump_literal(value)
    return result


def _with(result: _Object, **parts: Any) -> _Object:
    """`result` with the parts that are not empty."""
    result.update({key: part for key, part in parts.items() if part})
    return result
