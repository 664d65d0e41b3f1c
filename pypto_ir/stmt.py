"""Statements, functions and programs.

A function body is a tuple of statements in SSA form: a name is defined once in a function, blocks end in `Yield` where they hand on
values, and `For`, `While` and `If` bind what they hand on as `results`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, MakeTuple, Var, variables
from pypto_ir.types import Type, type_exprs

#: a compile-time value of a keyword argument or attribute; enumeration members are words ("Mat", "FP32"), lists are tuples
Literal: TypeAlias = "int | float | bool | str | Expr | Record | tuple[Literal, ...] | None"
Keywords: TypeAlias = tuple[tuple[str, Literal], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """An object literal inside an attribute."""

    items: Keywords


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an op (`tile.add`). `loc` is the position of the expression where it differs from its statement's."""

    op: str
    args: tuple[Expr, ...] = ()
    kwargs: Keywords = ()
    attrs: Keywords = ()
    loc: str | None = field(default=None, compare=False)

    def kwarg(self, name: str, default: Literal = None) -> Literal:
        return next((v for k, v in self.kwargs if k == name), default)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function of the program."""

    function: str
    args: tuple[Expr, ...] = ()
    kwargs: Keywords = ()
    attrs: Keywords = ()


@dataclass(frozen=True, slots=True)
class Submit:
    """A task launch; `fields` are deps, core_num, sync_start, allow_early_resolve, predicate, dumps, device as given."""

    function: str
    args: tuple[Expr, ...] = ()
    fields: Keywords = ()
    attrs: Keywords = ()


Value: TypeAlias = Expr | Call | FunctionCall | Submit


@dataclass(frozen=True, slots=True)
class Assign:
    """`targets = value`; several targets only for calls of functions and submits with several results."""

    targets: tuple[Var, ...]
    value: Value
    loc: str | None = field(default=None, compare=False)
    comment: str | None = field(default=None, compare=False)

    @property
    def target(self) -> Var:
        return self.targets[0]


@dataclass(frozen=True, slots=True)
class Eval:
    """A call for its effect."""

    value: Call | FunctionCall | Submit
    loc: str | None = field(default=None, compare=False)
    comment: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Return:
    values: tuple[Expr, ...]
    loc: str | None = field(default=None, compare=False)
    comment: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Yield:
    values: tuple[Expr, ...]
    loc: str | None = field(default=None, compare=False)
    comment: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Break:
    loc: str | None = field(default=None, compare=False)
    comment: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Continue:
    loc: str | None = field(default=None, compare=False)
    comment: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Carry:
    """A loop-carried value: `var` inside the body, `init` before the first trip."""

    var: Var
    init: Expr


@dataclass(frozen=True, slots=True)
class For:
    """`kind` is range, parallel, pipeline or unroll; all four mean the same. Trips run while var < stop (step > 0) or var > stop."""

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Stmt, ...]
    carries: tuple[Carry, ...] = ()
    results: tuple[Var, ...] = ()
    kind: str = "range"
    attrs: Keywords = ()
    loc: str | None = field(default=None, compare=False)
    comment: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class While:
    """The condition reads the carried names."""

    cond: Expr
    body: tuple[Stmt, ...]
    carries: tuple[Carry, ...] = ()
    results: tuple[Var, ...] = ()
    loc: str | None = field(default=None, compare=False)
    comment: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class If:
    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] | None = None
    results: tuple[Var, ...] = ()
    loc: str | None = field(default=None, compare=False)
    comment: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Scope:
    """A named scope (`split_aiv`, `cluster`, ..); names defined inside are visible after it."""

    kind: str
    body: tuple[Stmt, ...]
    var: Var | None = None
    attrs: Keywords = ()
    loc: str | None = field(default=None, compare=False)
    comment: str | None = field(default=None, compare=False)


Stmt: TypeAlias = Assign | Eval | Return | Yield | Break | Continue | For | While | If | Scope
Block: TypeAlias = tuple[Stmt, ...]

IN_CORE_KINDS = frozenset({"InCore", "AIC", "AIV"})
FUNCTION_KINDS = ("InCore", "AIC", "AIV", "Orchestration", "Opaque", "Group", "Spmd", "Inline", "Graph")
LOOP_KINDS = ("range", "parallel", "pipeline", "unroll")
DIRECTIONS = ("In", "Out", "InOut")


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter; `range` bounds a scalar, both ends included."""

    var: Var
    direction: str = "In"
    range: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    params: tuple[Param, ...] = ()
    returns: tuple[Type, ...] = ()
    body: Block = ()
    kind: str = "Opaque"
    attrs: Keywords = ()
    level: str | None = None
    role: str | None = None
    auto_scope: bool | None = None
    external_source: str | None = None
    verbatim: str | None = None

    @property
    def in_core(self) -> bool:
        """True for the kinds that hold tiles: InCore, AIC and AIV."""
        return self.kind in IN_CORE_KINDS


@dataclass(frozen=True, slots=True)
class Program:
    """A program; `target` None means no backend (no capacity limits), `dynamic` names the free dims of signatures."""

    name: str = "program"
    functions: tuple[Function, ...] = ()
    target: str | None = None
    dynamic: tuple[str, ...] = ()

    def function(self, name: str) -> Function | None:
        return next((f for f in self.functions if f.name == name), None)


def blocks(s: Stmt) -> tuple[Block, ...]:
    """The nested blocks of a statement."""
    match s:
        case For(body=body) | While(body=body) | Scope(body=body):
            return (body,)
        case If(then=then, orelse=orelse):
            return (then,) if orelse is None else (then, orelse)
    return ()


def walk(block: Block) -> Iterator[Stmt]:
    """Every statement of a block in program order, nested ones after the statement that holds them."""
    stack = [iter(block)]
    while stack:
        for s in stack[-1]:
            yield s
            nested = blocks(s)
            if nested:
                stack.extend(iter(b) for b in reversed(nested))
                break
        else:
            stack.pop()


def literal_exprs(value: Literal) -> Iterator[Expr]:
    """The expressions inside a keyword argument or attribute."""
    if isinstance(value, tuple):
        for item in value:
            yield from literal_exprs(item)
    elif isinstance(value, Record):
        for _, item in value.items:
            yield from literal_exprs(item)
    elif value is not None and not isinstance(value, int | float | str):
        yield value


def value_exprs(value: Value) -> Iterator[Expr]:
    """The operand expressions of an assigned value, keyword arguments and attributes included."""
    match value:
        case Call(args=args, kwargs=kwargs, attrs=attrs) | FunctionCall(args=args, kwargs=kwargs, attrs=attrs):
            groups = (kwargs, attrs)
        case Submit(args=args, fields=fields, attrs=attrs):
            groups = (fields, attrs)
        case _:
            yield value
            return
    yield from args
    for group in groups:
        for _, literal in group:
            yield from literal_exprs(literal)


def own_exprs(s: Stmt) -> Iterator[Expr]:
    """The expressions that a statement itself evaluates (nested blocks excluded, types of its targets included)."""
    match s:
        case Assign(targets=targets, value=value):
            yield from value_exprs(value)
            for target in targets:
                yield from type_exprs(target.type)
        case Eval(value=value):
            yield from value_exprs(value)
        case Return(values=values) | Yield(values=values):
            yield from values
        case For(start=a, stop=b, step=c, carries=carries, attrs=attrs):
            yield from (a, b, c)
            yield from (carry.init for carry in carries)
            for _, literal in attrs:
                yield from literal_exprs(literal)
        case While(cond=cond, carries=carries):
            yield from (carry.init for carry in carries)
            yield cond
        case If(cond=cond):
            yield cond
        case Scope(attrs=attrs):
            for _, literal in attrs:
                yield from literal_exprs(literal)


def uses(s: Stmt) -> Iterator[Var]:
    """The variables that a statement itself reads (nested blocks excluded)."""
    for e in own_exprs(s):
        yield from variables(e)


def definitions(s: Stmt) -> tuple[Var, ...]:
    """The variables that a statement binds: targets, loop variable, carried names, results, scope variable."""
    match s:
        case Assign(targets=targets):
            return targets
        case For(var=var, carries=carries, results=results):
            return (var, *(c.var for c in carries), *results)
        case While(carries=carries, results=results):
            return (*(c.var for c in carries), *results)
        case If(results=results):
            return results
        case Scope(var=Var() as var):
            return (var,)
    return ()


def terminator(block: Block) -> Stmt | None:
    """The yield, return, break or continue that ends a block, if any."""
    return block[-1] if block and isinstance(block[-1], Yield | Return | Break | Continue) else None


def tuple_items(e: Expr) -> tuple[Expr, ...] | None:
    """The elements of a literal tuple, else None."""
    return e.items if isinstance(e, MakeTuple) else None


TRUE = Const(True, DType.BOOL)
