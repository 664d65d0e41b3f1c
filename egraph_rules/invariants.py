"""Scalars that are the same in every trip, computed in front of their loop.

    for k carry acc = acc0:                        v = min(64, read(rows, [b, 0]))
        v = min(64, read(rows, [b, 0]))            for k carry acc = acc0:
        a = load(x, .., valid [v, 16])                 a = load(x, .., valid [v, 16])

scalar.invariant: of a scalar whose operands are known in front of the loop, every trip computes the same. In front it is computed where
the loop runs no trip, too, so it must be a value there: `n // m` is none where m is 0, and a cell of a tensor none beyond its end. A cell
that the loop writes is another one in the next trip.
"""

from __future__ import annotations

from collections.abc import Iterable

from egraph_rules.buffers import Buffers, written
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Unary, Var, const_int, dtype_of
from pypto_ir.ops.registry import type_of
from pypto_ir.rebuilding import Rebuilder, changed
from pypto_ir.stmt import (
    Assign,
    Block,
    Break,
    Call,
    Continue,
    For,
    Function,
    Return,
    Stmt,
    Value,
    While,
    definitions,
    tuple_items,
    uses,
    walk,
)
from pypto_ir.types import ScalarType, TensorType
from pypto_ir.verify.loops import trip_count

#: operators that give a value for all values of their operands
_TOTAL = frozenset(
    ("add", "sub", "mul", "min", "max", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "bitand", "bitor", "bitxor")
)  # fmt: skip


def hoisted(function: Function, names: Iterable[str]) -> Function:
    """The function with scalars of these names, and what they are computed from, in front of the loops in which they do not change; the
    same object where none of them moves."""
    made = {s.target.name: s for s in walk(function.body) if isinstance(s, Assign) and len(s.targets) == 1}
    wanted, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name in made and name not in wanted:
            wanted.add(name)
            waiting += [v.name for v in uses(made[name])]
    return _Hoisting(wanted).function(function)


class _Hoisting(Rebuilder):
    """Builds a function with the scalars of these names in front of their loops, inner loops first."""

    def __init__(self, wanted: set[str]) -> None:
        self.wanted = wanted

    def block(self, block: Block) -> Block:
        result: list[Stmt] = []
        for s in super().block(block):
            if isinstance(s, For | While):
                early, body = _split(s, self.wanted)
                result += early
                s = changed(s, body=body)
            result.append(s)
        return tuple(result)


def _split(loop: For | While, wanted: set[str]) -> tuple[list[Stmt], Block]:
    """The statements of a loop's body that may stand in front of it, and the others."""
    inside = {v.name for s in walk((loop,)) for v in definitions(s) if s is not loop or v not in loop.results}
    unchanged = not written(loop, Buffers())
    runs = bool(trip_count(loop)) and not any(isinstance(s, Break | Continue | Return) for s in walk(loop.body))
    early: list[Stmt] = []
    stay: list[Stmt] = []
    for s in loop.body:
        match s:
            case Assign(targets=(Var(name=name),), value=value) if name in wanted and inside.isdisjoint(v.name for v in uses(s)):
                moves = _total(value) if isinstance(value, Expr) else unchanged and _known(value, runs)
            case _:
                moves = False
        if moves:
            inside.difference_update(v.name for v in definitions(s))
        (early if moves else stay).append(s)
    return early, tuple(stay)


def _total(e: Expr) -> bool:
    """True for integers, and what is told of them, that are values whatever their operands are."""
    match e:
        case Const() | Var():
            return isinstance(type_of(e), ScalarType)
        case Unary(operand=a):
            return _total(a)
        case Cast(operand=a):
            return _total(a) and (dtype_of(a) or DType.FP32).is_int
        case Binary(op="floordiv" | "mod", left=a, right=b):
            return _total(a) and bool(const_int(b))
        case Binary(op=op, left=a, right=b):
            return op in _TOTAL and _total(a) and _total(b)
    return False


def _known(value: Value, runs: bool) -> bool:
    """True for an extent of a tensor, and for a cell of it that is surely there, or `runs` to be read in every run."""
    if not isinstance(value, Call) or value.op not in ("tensor.dim", "tensor.read"):
        return False
    return value.op == "tensor.dim" or runs or _within(value)


def _within(call: Call) -> bool:
    """True for a cell that the tensor is sure to have."""
    source = type_of(call.args[0])
    at, shape = tuple_items(call.args[1]), source.shape if isinstance(source, TensorType) else ()
    if at is None or len(at) != len(shape):
        return False
    pairs = zip(map(const_int, at), map(const_int, shape), strict=True)
    return all(i is not None and n is not None and 0 <= i < n for i, n in pairs)
