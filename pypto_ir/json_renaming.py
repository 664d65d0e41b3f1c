"""Names that program files do not have, given others: a value `max` of a printed program becomes `max_1`.

In program files min, max, abs, cast, true and false are words of expressions. Names are cosmetic, so the
program stays the same; one without such names comes back as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pypto_ir.expr import Expr, Var, substitute
from pypto_ir.expr_parser import RESERVED
from pypto_ir.json_calls import substituted
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
    Carry,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Keywords,
    Literal,
    Param,
    Program,
    Record,
    Return,
    Scope,
    Stmt,
    Submit,
    Value,
    While,
    Yield,
    definitions,
    walk,
)  # fmt: skip
from pypto_ir.types import MemRef, TensorType, TileType, Type


def spelled(program: Program) -> Program:
    """The program with names that program files can spell."""
    functions = tuple(_function(f, program.dynamic) for f in program.functions)
    return program if functions == program.functions else replace(program, functions=functions)


def _function(f: Function, dynamic: tuple[str, ...]) -> Function:
    variables = [p.var for p in f.params] + [v for s in walk(f.body) for v in definitions(s)]
    names = {v.name for v in variables}
    clashes = sorted(names & RESERVED)
    if not clashes:
        return f
    taken = names | set(dynamic) | RESERVED
    by: dict[str, str] = {}
    for name in clashes:
        n = 1
        while f"{name}_{n}" in taken:
            n += 1
        by[name] = f"{name}_{n}"
        taken.add(by[name])
    renamer = _Renamer(by, {v.name: Var(by[v.name], v.type) for v in variables if v.name in by})
    params = tuple(Param(renamer.var(p.var), p.direction, p.range) for p in f.params)
    returns = tuple(map(renamer.type, f.returns))
    return replace(f, params=params, returns=returns, body=renamer.block(f.body))


class _Renamer:
    """Builds a function again with other names."""

    def __init__(self, names: Mapping[str, str], variables: Mapping[str, Expr]) -> None:
        self.names, self.variables = names, variables

    def type(self, t: Type) -> Type:
        t = substituted(t, self.variables)
        ref = t.memref if isinstance(t, TensorType | TileType) else None
        if isinstance(t, TensorType | TileType) and isinstance(ref, MemRef) and ref.base in self.names:
            return replace(t, memref=replace(ref, base=self.names[ref.base]))
        return t

    def var(self, v: Var) -> Var:
        return Var(self.names.get(v.name, v.name), self.type(v.type))

    def expr(self, e: Expr) -> Expr:
        return substitute(e, self.variables)

    def exprs(self, items: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(map(self.expr, items))

    def literal(self, value: Literal) -> Literal:
        if isinstance(value, tuple):
            return tuple(map(self.literal, value))
        if isinstance(value, Record):
            return Record(self.keywords(value.items))
        return value if value is None or isinstance(value, int | float | str) else self.expr(value)

    def keywords(self, items: Keywords) -> Keywords:
        return tuple((key, self.literal(value)) for key, value in items)

    def value(self, value: Value) -> Value:
        match value:
            case Call(args=args, kwargs=kwargs, attrs=attrs) | FunctionCall(args=args, kwargs=kwargs, attrs=attrs):
                return replace(value, args=self.exprs(args), kwargs=self.keywords(kwargs), attrs=self.keywords(attrs))
            case Submit(args=args, fields=fields, attrs=attrs):
                return replace(value, args=self.exprs(args), fields=self.keywords(fields), attrs=self.keywords(attrs))
        return self.expr(value)

    def block(self, block: Block) -> Block:
        return tuple(map(self.statement, block))

    def statement(self, s: Stmt) -> Stmt:
        match s:
            case Assign(targets=targets, value=value):
                return replace(s, targets=tuple(map(self.var, targets)), value=self.value(value))
            case Eval(value=value):
                return replace(s, value=self.value(value))  # type: ignore[arg-type]
            case Return(values=values) | Yield(values=values):
                return replace(s, values=self.exprs(values))
            case For(var=var, carries=carries, body=body, results=results):
                carries, body, results = self.loop(carries, body, results)
                s = replace(s, var=self.var(var), carries=carries, body=body, results=results)
                s = replace(s, start=self.expr(s.start), stop=self.expr(s.stop), step=self.expr(s.step))
                return replace(s, attrs=self.keywords(s.attrs))
            case While(cond=cond, carries=carries, body=body, results=results):
                carries, body, results = self.loop(carries, body, results)
                return replace(s, cond=self.expr(cond), carries=carries, body=body, results=results)
            case If(cond=cond, orelse=orelse):
                s = replace(s, cond=self.expr(cond), results=tuple(map(self.var, s.results)))
                other = None if orelse is None else self.block(orelse)
                return replace(s, then=self.block(s.then), orelse=other)
            case Scope(var=bound, attrs=attrs):
                lane = self.var(bound) if bound is not None else None
                return replace(s, var=lane, attrs=self.keywords(attrs), body=self.block(s.body))
        return s

    def loop(self, carries: tuple[Carry, ...], body: Block, results: tuple[Var, ...]) -> tuple[tuple[Carry, ...], Block, tuple[Var, ...]]:
        renamed = tuple(Carry(self.var(c.var), self.expr(c.init)) for c in carries)
        return renamed, self.block(body), tuple(map(self.var, results))
