"""Paths to statements and the places of their diagnostics.

The second statement in the then-arm of the fourth statement of the first function is `("functions", 0,
"body", 3, "then", 1)`, printed as `$.functions[0].body[3].then[1]`: the path at which the JSON form of the
program has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from pypto_ir.diagnostics import Place
from pypto_ir.json_place import path_text
from pypto_ir.stmt import (
    Assign,
    Block,
    Break,
    Call,
    Continue,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Return,
    Scope,
    Stmt,
    Submit,
    While,
    Yield,
)

#: a path from the root of the program, or from a function where only a function is known
StmtPath: TypeAlias = tuple[str | int, ...]


def arms(s: Stmt) -> tuple[tuple[str, Block], ...]:
    """The nested blocks of a statement with the keys that they have in the JSON form."""
    match s:
        case For(body=body) | While(body=body) | Scope(body=body):
            return (("body", body),)
        case If(then=then, orelse=orelse):
            return (("then", then),) if orelse is None else (("then", then), ("else", orelse))
    return ()


def walk_paths(block: Block, base: StmtPath) -> Iterator[tuple[StmtPath, Stmt]]:
    """Every statement of a block with its path, in program order; `base` is the path of the block itself."""
    stack: list[Iterator[tuple[StmtPath, Stmt]]] = [_numbered(block, base)]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
            continue
        path, s = found
        yield path, s
        stack.extend(_numbered(inner, (*path, key)) for key, inner in reversed(arms(s)))


def _numbered(block: Block, base: StmtPath) -> Iterator[tuple[StmtPath, Stmt]]:
    return (((*base, i), s) for i, s in enumerate(block))


def statement_text(s: Stmt) -> str:
    """A statement in a few words: what it defines and what it calls (`y = tile.add`)."""
    match s:
        case Assign(targets=targets, value=value):
            return ", ".join(t.name for t in targets) + (f" = {_callee(value)}" if _callee(value) else "")
        case Eval(value=value):
            return _callee(value)
        case For(var=var):
            return f"for {var.name}"
        case If():
            return "if"
        case While():
            return "while"
        case Scope(kind=kind):
            return f"scope {kind}"
        case Return():
            return "return"
        case Yield():
            return "yield"
        case Break():
            return "break"
        case Continue():
            return "continue"
    return ""


def _callee(value: object) -> str:
    match value:
        case Call(op=name) | FunctionCall(function=name) | Submit(function=name):
            return name
    return ""


def place(function: Function | str, path: StmtPath, s: Stmt | None = None) -> Place:
    """The place of a statement, or of a function where `s` is None."""
    name = function if isinstance(function, str) else function.name
    loc = s.loc if s is not None else None
    return Place(path=path_text(path), function=name, statement=statement_text(s) if s is not None else None, loc=loc)
