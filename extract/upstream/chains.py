"""Chains of accumulators: the values that control flow and in-place ops make one buffer (`spec/flatten.md` 8.2).

`acc1 = batch_matmul_acc(acc, ..)` inside a loop that carries `acc` from `acc0` and gives `accf` puts all four names into one chain. Of
each name it is known what defines it and what reads it. A `tile.slice` begins a chain of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from egraph_rules.encode import yielded
from pypto_ir.expr import Expr, Var, variables
from pypto_ir.stmt import Assign, Call, Eval, For, Function, FunctionCall, If, Stmt, Submit, While, Yield, own_exprs, walk
from pypto_ir.types import TileType
from pypto_ir.unions import Unions

ACCUMULATES = frozenset({"tile.matmul_acc", "tile.batch_matmul_acc"})
#: what reading operand 0 of an op means for a chain
_KINDS = {
    "tile.matmul_acc": "accumulate",
    "tile.batch_matmul_acc": "accumulate",
    "tile.store": "store",
    "tile.move": "move",
    "tile.slice": "window",
    "tile.assemble": "insert",
}


@dataclass(frozen=True, slots=True)
class Use:
    """`kind` is accumulate, store, move, window, insert, carry or other; `by` names the reader for messages."""

    kind: str
    s: Stmt
    by: str


@dataclass(slots=True)
class Chains(Unions):
    """`defs` are the assignments, `given` the names that control flow binds, `poisoned` those that cannot be retyped. Names are in
    program order."""

    types: dict[str, TileType] = field(default_factory=dict)
    defs: dict[str, Assign] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    poisoned: set[str] = field(default_factory=set)
    uses: dict[str, list[Use]] = field(default_factory=dict)

    def members(self) -> dict[str, list[str]]:
        """The names of every chain, in program order."""
        result: dict[str, list[str]] = {}
        for name in self.types:
            result.setdefault(self.of(name), []).append(name)
        return result


def chains(function: Function) -> Chains:
    """The chains of a function."""
    found = Chains()
    for p in function.params:
        if isinstance(p.var.type, TileType):
            found.types[p.var.name] = p.var.type
            found.poisoned.add(p.var.name)
    for s in walk(function.body):
        _statement(found, s)
    return found


def _statement(found: Chains, s: Stmt) -> None:
    for v in _bound(s):
        if isinstance(v.type, TileType):
            found.types[v.name] = v.type
    match s:
        case Assign(targets=(target,), value=Var() as source) if isinstance(target.type, TileType):
            found.defs[target.name] = s
            found.join(target.name, source.name)
            _use(found, source, "carry", s, "an alias")
        case Assign(value=Call() as call) | Eval(value=Call() as call):
            _call(found, s, call)
        case For() | While():
            _loop(found, s)
        case If():
            _branch(found, s)
        case Yield():
            return  # read by the loop or the branch that it belongs to
        case _:
            if isinstance(s, Assign):
                found.defs.update((t.name, s) for t in s.targets)
            _others(found, s, own_exprs(s), _reader(s))


def _bound(s: Stmt) -> tuple[Var, ...]:
    match s:
        case Assign(targets=targets):
            return targets
        case For(carries=carries, results=results) | While(carries=carries, results=results):
            return (*(c.var for c in carries), *results)
        case If(results=results):
            return results
    return ()


def _reader(s: Stmt) -> str:
    match s:
        case Assign(value=(FunctionCall() | Submit()) as call) | Eval(value=(FunctionCall() | Submit()) as call):
            return f"a call of {call.function}"
    return f"a {type(s).__name__.lower()} statement"


def _use(found: Chains, e: Expr, kind: str, s: Stmt, by: str) -> None:
    if isinstance(e, Var) and isinstance(e.type, TileType):
        found.uses.setdefault(e.name, []).append(Use(kind, s, by))


def _others(found: Chains, s: Stmt, exprs: Iterator[Expr] | tuple[Expr, ...], by: str) -> None:
    for e in exprs:
        for v in variables(e):
            _use(found, v, "other", s, by)


def _call(found: Chains, s: Assign | Eval, call: Call) -> None:
    kind = _KINDS.get(call.op)
    first, rest = call.args[:1], call.args[1:]
    if kind is None or not first or not isinstance(first[0], Var):
        first, rest = (), call.args
    for e in first:
        _use(found, e, kind or "other", s, call.op)
    _others(found, s, rest, call.op)
    if isinstance(s, Assign):
        found.defs.update((t.name, s) for t in s.targets)
        if first and (call.op in ACCUMULATES or call.op == "tile.assemble"):
            found.join(s.target.name, first[0].name)  # type: ignore[union-attr]


def _loop(found: Chains, s: For | While) -> None:
    values = yielded(s.body)
    whole = len(s.carries) == len(s.results) == len(values)
    for i, c in enumerate(s.carries):
        names = [v.name for v in (c.var, *s.results[i : i + 1]) if isinstance(v.type, TileType)]
        found.given.update(names)
        handed = (c.init, *values[i : i + 1])
        for name in names:
            found.join(names[0], name)
            if not whole or not all(isinstance(e, Var) for e in handed):
                found.poisoned.add(name)
        for e in handed:
            if names and isinstance(e, Var):
                found.join(names[0], e.name)
            _use(found, e, "carry", s, "a loop")


def _branch(found: Chains, s: If) -> None:
    arms = [yielded(arm) for arm in (s.then, *((s.orelse,) if s.orelse is not None else ()))]
    whole = len(arms) == 2 and all(len(values) == len(s.results) for values in arms)
    for i, r in enumerate(s.results):
        if not isinstance(r.type, TileType):
            continue
        found.given.add(r.name)
        handed = [values[i] for values in arms if i < len(values)]
        if not whole or not all(isinstance(e, Var) for e in handed):
            found.poisoned.add(r.name)
        for e in handed:
            if isinstance(e, Var):
                found.join(r.name, e.name)
            _use(found, e, "carry", s, "a branch")
