"""Functions built again with some of their parts changed: `Rebuilder` changes nothing, what it is derived into changes names, types or
calls. What stays is the same object, so that a function in which nothing changes comes back as it is.

    class Retyped(Rebuilder):
        def type(self, t: Type) -> Type: ..       every type of a parameter, a definition, a use, a result
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from pypto_ir.expr import Expr, Var, transform
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
    Record,
    Return,
    Scope,
    Stmt,
    Submit,
    Value,
    While,
    Yield,
)
from pypto_ir.types import Type

T = TypeVar("T")


def changed(node: T, **fields: Any) -> T:
    """A statement, call or function with other fields; the same object where none of them is another one."""
    others = {key: value for key, value in fields.items() if not same(value, getattr(node, key))}
    return replace(node, **others) if others else node  # type: ignore[type-var]


def same(a: Any, b: Any) -> bool:
    """True for one object, and for tuples of the same objects."""
    return a is b or (isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b)))


class Rebuilder:
    """Builds a function again, statement by statement in program order; methods are overridden for what changes."""

    def function(self, f: Function) -> Function:
        params = tuple(changed(p, var=self.var(p.var)) for p in f.params)
        returns = tuple(map(self.type, f.returns))
        return changed(f, params=params, returns=returns, body=self.block(f.body))

    def type(self, t: Type) -> Type:
        return t

    def var(self, v: Var) -> Var:
        """A variable where it is defined or used."""
        t = self.type(v.type)
        return v if t is v.type else Var(v.name, t)

    def expr(self, e: Expr) -> Expr:
        return transform(e, self.var)

    def exprs(self, items: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(map(self.expr, items))

    def literal(self, value: Literal) -> Literal:
        if isinstance(value, tuple):
            items = tuple(map(self.literal, value))
            return value if same(items, value) else items
        if isinstance(value, Record):
            return changed(value, items=self.keywords(value.items))
        return value if value is None or isinstance(value, int | float | str) else self.expr(value)

    def keywords(self, items: Keywords) -> Keywords:
        result = tuple((key, self.literal(value)) for key, value in items)
        return items if all(new is old for (_, new), (_, old) in zip(result, items, strict=True)) else result

    def value(self, value: Value) -> Value:
        match value:
            case Call(args=args, kwargs=kwargs, attrs=attrs) | FunctionCall(args=args, kwargs=kwargs, attrs=attrs):
                return changed(value, args=self.exprs(args), kwargs=self.keywords(kwargs), attrs=self.keywords(attrs))
            case Submit(args=args, fields=fields, attrs=attrs):
                return changed(value, args=self.exprs(args), fields=self.keywords(fields), attrs=self.keywords(attrs))
        return self.expr(value)

    def block(self, block: Block) -> Block:
        return tuple(map(self.statement, block))

    def statement(self, s: Stmt) -> Stmt:
        match s:
            case Assign(targets=targets, value=value):
                return changed(s, targets=tuple(map(self.var, targets)), value=self.value(value))
            case Eval(value=value):
                return changed(s, value=self.value(value))
            case Return(values=values) | Yield(values=values):
                return changed(s, values=self.exprs(values))
            case For(var=var, carries=carries, results=results):
                start, stop, step = self.expr(s.start), self.expr(s.stop), self.expr(s.step)
                held = self.carries(carries)
                body, after = self.block(s.body), self.results(results)
                s = changed(s, var=self.var(var), start=start, stop=stop, step=step)
                return changed(s, carries=held, body=body, results=after, attrs=self.keywords(s.attrs))
            case While(cond=cond, carries=carries, results=results):
                held = self.carries(carries)
                return changed(s, cond=self.expr(cond), carries=held, body=self.block(s.body), results=self.results(results))
            case If(cond=cond, orelse=orelse, results=results):
                then = self.block(s.then)
                other = None if orelse is None else self.block(orelse)
                return changed(s, cond=self.expr(cond), then=then, orelse=other, results=self.results(results))
            case Scope(var=bound, attrs=attrs):
                lane = self.var(bound) if bound is not None else None
                return changed(s, var=lane, attrs=self.keywords(attrs), body=self.block(s.body))
        return s

    def carries(self, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
        return tuple(changed(c, var=self.var(c.var), init=self.expr(c.init)) for c in carries)

    def results(self, results: tuple[Var, ...]) -> tuple[Var, ...]:
        """What a loop or a branch gives."""
        return tuple(map(self.var, results))
