"""Smaller programs that fail alike, by delta debugging: runs of statements, carries, arms, parameters and functions are taken away.

    small = reduced(program, fails)

A failing program of 40 statements mostly comes down to five or so. As in ddmin, runs of half of a block are tried first, then of a
quarter, and so on; what is left of a statement is made smaller itself. Nothing is assumed about the failure: `fails` says whether a
candidate still shows it, and candidates that the verifier rejects are not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias, TypeVar

from pypto_ir.diagnostics import Severity
from pypto_ir.expr import Const, Expr, MakeTuple, Var, index, transform
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Program,
    Return,
    Stmt,
    While,
    Yield,
)  # fmt: skip
from pypto_ir.types import TileType
from pypto_ir.verify import verify_program

_Item = TypeVar("_Item")
#: whether a program still shows what is looked for
Fails: TypeAlias = Callable[[Program], bool]


def reduced(program: Program, fails: Fails, rounds: int = 8, found: Callable[[Program], None] | None = None) -> Program:
    """The smallest program that was found on which `fails` still holds; `found` is told every smaller one on the way."""
    for _ in range(rounds):
        smaller = _round(program, fails, found)
        if smaller is program:
            break
        program = smaller
    return program


def _valid(program: Program) -> bool:
    return not any(d.severity is Severity.ERROR for d in verify_program(program))


def _round(program: Program, fails: Fails, found: Callable[[Program], None] | None) -> Program:
    position = 0
    while True:
        tried = False
        for candidate in _skip(_candidates(program), position):
            tried = True
            if candidate != program and _valid(candidate) and fails(candidate):
                program = candidate
                if found is not None:
                    found(program)
                break
            position += 1
        else:
            return program
        if not tried:
            return program


def _skip(items: Iterator[Program], count: int) -> Iterator[Program]:
    for i, item in enumerate(items):
        if i >= count:
            yield item


def _candidates(program: Program) -> Iterator[Program]:
    for i in range(len(program.functions)):
        if len(program.functions) > 1:
            yield replace(program, functions=(*program.functions[:i], *program.functions[i + 1 :]))
    for i, f in enumerate(program.functions):
        for smaller in _functions(f):
            yield replace(program, functions=(*program.functions[:i], smaller, *program.functions[i + 1 :]))


def _functions(f: Function) -> Iterator[Function]:
    for body in _blocks(f.body):
        yield replace(f, body=body)
    for i, p in enumerate(f.params):
        rest = (*f.params[:i], *f.params[i + 1 :])
        yield replace(f, params=rest)
        if p.direction != "In":
            yield replace(_without_return(f, p.var), params=rest)
            yield _without_return(f, p.var)


def _without_return(f: Function, var: Var) -> Function:
    """A function that does not hand back its last result of the type of `var`."""
    last = f.body[-1] if f.body else None
    if not isinstance(last, Return):
        return f
    for i in reversed(range(len(last.values))):
        if f.returns[i] == var.type:
            values, returns = (*last.values[:i], *last.values[i + 1 :]), (*f.returns[:i], *f.returns[i + 1 :])
            return replace(f, body=(*f.body[:-1], Return(values)), returns=returns)
    return f


def _blocks(block: Block) -> Iterator[Block]:
    """A block without a run of statements, without one whose uses its operand takes over, or with one that is
    smaller; later statements first, so that what defines goes after what uses it."""
    size = len(block)
    while size >= 1:
        for end in range(len(block), size - 1, -max(1, size // 2)):
            if not isinstance(block[end - 1], Yield | Return):
                yield (*block[: end - size], *block[end:])
        size //= 2
    for i in reversed(range(len(block))):
        for name, by in _forwarded(block[i]):
            yield (*block[:i], *(_substituted(t, {name: by}) for t in block[i + 1 :]))
        for smaller in _statements(block[i]):
            yield (*block[:i], *smaller, *block[i + 1 :])


def _forwarded(s: Stmt) -> Iterator[tuple[str, Expr]]:
    """A result and an operand of its type that may stand for it."""
    if isinstance(s, Assign) and isinstance(s.value, Call) and len(s.targets) == 1:
        for e in s.value.args:
            if isinstance(e, Var) and type(e.type) is type(s.target.type) and _like(e, s.target):
                yield s.target.name, e
    elif isinstance(s, For | While) and len(s.results) == len(s.carries) == 1 and isinstance(s.carries[0].init, Var):
        yield s.results[0].name, s.carries[0].init


def _like(a: Var, b: Var) -> bool:
    if isinstance(a.type, TileType) and isinstance(b.type, TileType):
        return a.type.shape == b.type.shape and a.type.dtype is b.type.dtype
    return a.type == b.type


def _statements(s: Stmt) -> Iterator[tuple[Stmt, ...]]:
    match s:
        case For(body=body, carries=carries, results=results):
            for smaller in _blocks(body):
                yield (replace(s, body=smaller),)
            for i in range(len(carries)):
                yield (replace(s, carries=_drop(carries, i), results=_drop(results, i), body=_short(body, i)),)
            if not carries:
                zero: dict[str, Expr] = {s.var.name: index(0)}
                yield tuple(_substituted(t, zero) for t in body)
            if s.kind != "range":
                yield (replace(s, kind="range", attrs=()),)
        case While(body=body):
            for smaller in _blocks(body):
                yield (replace(s, body=smaller),)
        case If(then=then, orelse=orelse, results=results):
            if not results:
                yield then
                yield orelse or ()
            for smaller in _blocks(then):
                yield (replace(s, then=smaller),)
            for smaller in _blocks(orelse or ()):
                yield (replace(s, orelse=smaller),)
            for i in range(len(results)):
                short = _short(orelse, i) if orelse is not None else None
                yield (replace(s, then=_short(then, i), orelse=short, results=_drop(results, i)),)
        case Assign(value=Call(args=args) as call) | Eval(value=Call(args=args) as call):
            for i, e in enumerate(args):
                if isinstance(e, MakeTuple):
                    for j, item in enumerate(e.items):
                        if not isinstance(item, Const):
                            items = MakeTuple((*e.items[:j], index(0), *e.items[j + 1 :]))
                            yield (replace(s, value=replace(call, args=(*args[:i], items, *args[i + 1 :]))),)


def _drop(items: tuple[_Item, ...], i: int) -> tuple[_Item, ...]:
    return (*items[:i], *items[i + 1 :])


def _short(block: Block, i: int) -> Block:
    """A block whose yield leaves out value i."""
    last = block[-1] if block else None
    if not isinstance(last, Yield):
        return block
    values = (*last.values[:i], *last.values[i + 1 :])
    return (*block[:-1], *((Yield(values),) if values else ()))


def _substituted(s: Stmt, by: dict[str, Expr]) -> Stmt:
    """A statement with variables replaced, nested blocks included; types of results stay."""

    def e(x: Expr) -> Expr:
        return transform(x, lambda v: by.get(v.name, v))

    def block(inner: Block) -> Block:
        return tuple(_substituted(t, by) for t in inner)

    match s:
        case Assign(value=Call() as c) | Eval(value=Call() as c):
            return replace(s, value=replace(c, args=tuple(map(e, c.args))))
        case Assign(value=FunctionCall() as f) | Eval(value=FunctionCall() as f):
            return replace(s, value=replace(f, args=tuple(map(e, f.args))))
        case Return(values=values) | Yield(values=values):
            return replace(s, values=tuple(map(e, values)))
        case For():
            carries = tuple(replace(c, init=e(c.init)) for c in s.carries)
            return replace(s, carries=carries, body=block(s.body), start=e(s.start), stop=e(s.stop), step=e(s.step))
        case While():
            carries = tuple(replace(c, init=e(c.init)) for c in s.carries)
            return replace(s, carries=carries, cond=e(s.cond), body=block(s.body))
        case If():
            orelse = None if s.orelse is None else block(s.orelse)
            return replace(s, cond=e(s.cond), then=block(s.then), orelse=orelse)
    return s
