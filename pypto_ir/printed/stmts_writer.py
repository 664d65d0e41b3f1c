"""Statements as PyPTO prints them.

A loop prints its results with the yield that ends its body, `r: T = pl.yield_(v)`, or without types where
they are several; a definition of several names prints in steps, `_tuple_tmp: pl.Tuple[A, B] = self.f(x)` and
`p: A = _tuple_tmp[0]` (`spec/tile_ir.md` section 8).
"""

from __future__ import annotations

from collections.abc import Callable

from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, Var
from pypto_ir.printed.exprs_writer import ExprWriter
from pypto_ir.printed.tuples import CALL, base_name
from pypto_ir.printed.types_writer import TypeWriter
from pypto_ir.printed.values_writer import ValueWriter, quoted
from pypto_ir.printed.words import OF_SCOPE
from pypto_ir.stmt import (
    Assign,
    Block,
    Break,
    Carry,
    Continue,
    Eval,
    For,
    FunctionCall,
    If,
    Keywords,
    Return,
    Scope,
    Stmt,
    Submit,
    While,
    Yield,
)  # fmt: skip
from pypto_ir.types import TupleType

_INDENT = "    "
#: scopes that print a count as positional argument: the attribute and its default
_COUNTS: dict[str, tuple[str, int | None]] = {"spmd": ("core_num", None), "split_aiv": ("count", 2)}


class StatementWriter:
    """Writes the statements of one function to `lines`. `fresh` gives unused names for temporaries."""

    def __init__(self, lines: list[str], exprs: ExprWriter, types: TypeWriter, fresh: Callable[[str], str]) -> None:
        self.lines, self.exprs, self.types, self.fresh = lines, exprs, types, fresh
        self.values = ValueWriter(exprs)

    def block(self, block: Block, indent: str, results: tuple[Var, ...] = ()) -> None:
        """A block; `results` are the names that its yield binds."""
        if not block:
            self.lines.append(f"{indent}pass")
        for s in block:
            self.statement(s, indent, results)

    def name(self, var: Var) -> str:
        return self.exprs.names.get(var.name, var.name)

    def statement(self, s: Stmt, indent: str, results: tuple[Var, ...]) -> None:
        if s.comment is not None:
            for line in s.comment.split("\n"):
                self.lines.append(f"{indent}# {line}" if line else f"{indent}#")
        match s:
            case Assign(targets=targets, value=value):
                if len(targets) == 1:
                    var = targets[0]
                    text = self.values.text(value)
                    self.lines.append(f"{indent}{self.name(var)}: {self.types.text(var.type)} = {text}")
                else:
                    self._steps(s, indent)
            case Eval(value=value):
                self.lines.append(indent + self.values.text(value))
            case Return(values=values):
                self.lines.append(f"{indent}return {self._listed(values)}".rstrip())
            case Yield(values=values):
                self.lines.append(f"{indent}{self._bound(results)}pl.yield_({self._listed(values)})")
            case Break():
                self.lines.append(f"{indent}break")
            case Continue():
                self.lines.append(f"{indent}continue")
            case For():
                self._for(s, indent)
            case While():
                self._while(s, indent)
            case If(cond=cond, then=then, orelse=orelse):
                self.lines.append(f"{indent}if {self.exprs.text(cond)}:")
                self.block(then, indent + _INDENT, s.results)
                if orelse:
                    self.lines.append(f"{indent}else:")
                    self.block(orelse, indent + _INDENT, s.results)
            case Scope():
                self._scope(s, indent)

    def _listed(self, values: tuple[Expr, ...]) -> str:
        return ", ".join([self.exprs.text(v) for v in values])

    def _bound(self, results: tuple[Var, ...]) -> str:
        if not results:
            return ""
        if len(results) == 1:
            return f"{self.name(results[0])}: {self.types.text(results[0].type)} = "
        return ", ".join(map(self.name, results)) + " = "

    def _steps(self, s: Assign, indent: str) -> None:
        base = self.fresh(base_name(s.value) if isinstance(s.value, FunctionCall | Submit) else CALL)
        whole = TupleType(tuple(t.type for t in s.targets))
        self.lines.append(f"{indent}{base}: {self.types.text(whole)} = {self.values.text(s.value)}")
        for i, var in enumerate(s.targets):
            self.lines.append(f"{indent}{self.name(var)}: {self.types.text(var.type)} = {base}[{i}]")

    def _carried(self, carries: tuple[Carry, ...]) -> tuple[str, str]:
        """The carried names and their initial values, both as tuples."""
        tail = "," if len(carries) == 1 else ""
        names = ", ".join(self.name(c.var) for c in carries)
        inits = ", ".join(self.exprs.text(c.init) for c in carries)
        return f"({names}{tail})", f"init_values=({inits}{tail})"

    def _for(self, s: For, indent: str) -> None:
        args = self._bounds(s)
        attrs = s.attrs
        if s.kind == "pipeline":
            args += [f"stage={self.values.literal(v, None)}" for key, v in attrs if key == "pipeline_stages"]
            attrs = tuple((key, v) for key, v in attrs if key != "pipeline_stages")
        target = self.name(s.var)
        if s.carries:
            names, inits = self._carried(s.carries)
            target += f", {names}"
            args.append(inits)
        if attrs:
            args.append(f"attrs={self.values.record(attrs, {})}")
        self.lines.append(f"{indent}for {target} in pl.{s.kind}({', '.join(args)}):")
        self.block(s.body, indent + _INDENT, s.results)

    def _bounds(self, s: For) -> list[str]:
        start, stop, step = (self.exprs.text(e) for e in (s.start, s.stop, s.step))
        if not _is(s.step, 1):
            return [start, stop, step]
        return [stop] if _is(s.start, 0) else [start, stop]

    def _while(self, s: While, indent: str) -> None:
        cond = self.exprs.text(s.cond)
        if not s.carries:
            self.lines.append(f"{indent}while {cond}:")
            self.block(s.body, indent + _INDENT, s.results)
            return
        names, inits = self._carried(s.carries)
        self.lines.append(f"{indent}for {names} in pl.while_({inits}):")
        self.lines.append(f"{indent}{_INDENT}pl.cond({cond})")
        for inner in s.body:
            self.statement(inner, indent + _INDENT, s.results)

    def _scope(self, s: Scope, indent: str) -> None:
        call = f"pl.{s.kind}({', '.join(self._scope_arguments(s.kind, s.attrs))})"
        if s.var is not None and s.kind in _COUNTS:
            self.lines.append(f"{indent}for {self.name(s.var)} in {call}:")
        else:
            binding = f" as {self.name(s.var)}" if s.var is not None else ""
            self.lines.append(f"{indent}with {call}{binding}:")
        self.block(s.body, indent + _INDENT)

    def _scope_arguments(self, kind: str, attrs: Keywords) -> list[str]:
        enums = OF_SCOPE.get(kind, {})
        given = dict(attrs)
        result: list[str] = []
        if kind in _COUNTS:
            key, default = _COUNTS[kind]
            count = given.pop(key, default)
            if count is not None:
                result.append(self.values.literal(count, None))
        for key, value in given.items():
            if kind == "at" and key == "split":
                result.append(f"optimizations=[pl.split({self.values.literal(value, 'SplitMode')})]")
            elif isinstance(value, str) and key not in enums:
                result.append(f"{key}={quoted(value)}")
            else:
                result.append(f"{key}={self.values.literal(value, enums.get(key))}")
        return result


def _is(e: Expr, value: int) -> bool:
    return isinstance(e, Const) and e.dtype is DType.INDEX and e.value == value
