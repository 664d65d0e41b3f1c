"""Calls with several results, which print in steps, as one definition of several names.

    _tuple_tmp: pl.Tuple[A, B] = self.f(x)
    p: A = _tuple_tmp[0]
    q: B = _tuple_tmp[1]

is `p, q = f(x)`. Steps are joined only where writing them again gives the same temporary names, so that no
text changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from pypto_ir.expr import Item, Var
from pypto_ir.stmt import (
    Assign,
    Block,
    For,
    Function,
    FunctionCall,
    If,
    Scope,
    Stmt,
    Submit,
    While,
    definitions,
    uses,
    walk,
)
from pypto_ir.types import TupleType

SUBMIT, CALL = "_submit_tmp", "_tuple_tmp"
_TEMPORARY = re.compile(rf"(?:{SUBMIT}|{CALL})(?:_\d+)?\Z")


def base_name(value: FunctionCall | Submit) -> str:
    """The name of the temporary that holds the results of a call."""
    return SUBMIT if isinstance(value, Submit) else CALL


def fresh(base: str, taken: set[str]) -> str:
    """The smallest of `base`, `base_1`, .. that is not taken, which it is from then on."""
    name, n = base, 1
    while name in taken:
        name, n = f"{base}_{n}", n + 1
    taken.add(name)
    return name


def joined(f: Function, taken: frozenset[str], lines: dict[int, tuple[int, int]]) -> Function:
    """A function whose calls in steps are one definition each. `taken` are names that temporaries cannot have
    besides its own; `lines` gets the places of statements that are built again."""
    candidates = [s for s in walk(f.body) if _is_candidate(s)]
    if not candidates:
        return f
    used = Counter(v.name for s in walk(f.body) for v in uses(s))
    joiner = _Joiner(used, lines)
    body = joiner.block(f.body)
    own = {v.name for s in walk(body) for v in definitions(s)} | {p.var.name for p in f.params} | taken
    again = [fresh(base_name(value), own) for value in _several(body)]
    return replace(f, body=body) if again == joiner.names else f


def _several(body: Block) -> Iterator[FunctionCall | Submit]:
    for s in walk(body):
        if isinstance(s, Assign) and len(s.targets) > 1 and isinstance(s.value, FunctionCall | Submit):
            yield s.value


def _is_candidate(s: Stmt) -> bool:
    return (
        isinstance(s, Assign)
        and isinstance(s.value, FunctionCall | Submit)
        and len(s.targets) == 1
        and isinstance(s.targets[0].type, TupleType)
        and len(s.targets[0].type.items) > 1
        and _TEMPORARY.match(s.targets[0].name) is not None
    )


class _Joiner:
    """Builds blocks again; `names` are the temporaries that went, in program order."""

    def __init__(self, used: Counter[str], lines: dict[int, tuple[int, int]]) -> None:
        self.used, self.lines = used, lines
        self.names: list[str] = []

    def block(self, block: Block) -> Block:
        result: list[Stmt] = []
        at = 0
        while at < len(block):
            s = block[at]
            at += 1
            targets = self._targets(s, block, at)
            if targets is not None and isinstance(s, Assign):
                self.names.append(s.targets[0].name)
                result.append(self._kept(s, replace(s, targets=targets)))
                at += len(targets)
            else:
                result.append(self._inside(s))
        return tuple(result)

    def _targets(self, s: Stmt, block: Block, at: int) -> tuple[Var, ...] | None:
        """The names that the statements after a call give its results, where they do just that."""
        if not _is_candidate(s) or not isinstance(s, Assign):
            return None
        whole = s.targets[0]
        assert isinstance(whole.type, TupleType)
        items = whole.type.items
        steps = block[at : at + len(items)]
        if len(steps) != len(items) or self.used[whole.name] != len(items):
            return None
        for i, (step, t) in enumerate(zip(steps, items, strict=True)):
            match step:
                case Assign(targets=(var,), value=Item(of=Var(name=name), index=index), comment=None):
                    if name != whole.name or index != i or var.type != t:
                        return None
                case _:
                    return None
        return tuple(step.targets[0] for step in steps if isinstance(step, Assign))

    def _inside(self, s: Stmt) -> Stmt:
        match s:
            case For(body=body) | While(body=body) | Scope(body=body):
                inner = self.block(body)
                return s if inner == body else self._kept(s, replace(s, body=inner))
            case If(then=then, orelse=orelse):
                arms = self.block(then), None if orelse is None else self.block(orelse)
                return s if arms == (then, orelse) else self._kept(s, replace(s, then=arms[0], orelse=arms[1]))
        return s

    def _kept(self, old: Stmt, new: Stmt) -> Stmt:
        if id(old) in self.lines:
            self.lines[id(new)] = self.lines[id(old)]
        return new
