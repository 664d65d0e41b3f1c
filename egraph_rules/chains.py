"""Chains of accumulators: the names of one function that share a buffer in L0C.

acc0 = create(..)                        acc0, acc, acc1 and accf are one chain: an op that accumulates writes its operand 0,
for k carry acc = acc0:                  an assemble its target, and control flow hands buffers on. `w` is another chain:
    w = slice(acc, ..)                   a window is linked to the chain that it is cut from.
    m = matmul_acc(w, ..)
    acc1 = assemble(acc, m, ..)
    yield acc1
result accf
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto_ir.expr import Expr, Var
from pypto_ir.linear import provably_equal
from pypto_ir.ops.registry import find_op
from pypto_ir.stmt import Assign, Call, For, Function, If, While, Yield, blocks, terminator, walk
from pypto_ir.types import Memory, TileType
from pypto_ir.unions import Unions


class Chains(Unions):
    """The chain of every accumulator by name."""


def chains(function: Function) -> Chains:
    """The chains of a function, over all its accumulators."""
    found = Chains()
    for a, b in _links(function):
        found.join(a, b)
    return found


def in_acc(e: Expr) -> bool:
    return isinstance(e, Var) and isinstance(e.type, TileType) and e.type.memory is Memory.ACC


def accumulates(call: Call) -> bool:
    """True for ops that add a product to operand 0, in place."""
    op = find_op(call.op)
    return op is not None and op.writes == (0,) and call.op.endswith("_acc")


def fills_partly(function: Function) -> bool:
    """True where a batched accumulation fills some rows or columns of its pages only."""
    return any(
        isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.batch_matmul_acc" and not _fills(s.value)
        for s in walk(function.body)
    )


def _fills(call: Call) -> bool:
    left, right = (e.type for e in call.args[1:3] if isinstance(e, Var) and isinstance(e.type, TileType))
    return provably_equal(left.valid[-2], left.shape[-2]) and provably_equal(right.valid[-1], right.shape[-1])


def handed(s: For | While | If) -> Iterator[tuple[Var, tuple[Expr, ...]]]:
    """What a loop or a branch hands on: each carried name or result with what it is joined to."""
    if isinstance(s, If):
        ends = [terminator(arm) for arm in blocks(s)]
        for i, result in enumerate(s.results):
            yield result, tuple(e.values[i] for e in ends if isinstance(e, Yield) and i < len(e.values))
        return
    end = terminator(s.body)
    yields = end.values if isinstance(end, Yield) else ()
    for i, carry in enumerate(s.carries):
        yield carry.var, (carry.init, *yields[i : i + 1], *s.results[i : i + 1])


def _links(function: Function) -> Iterator[tuple[str, str]]:
    for s in walk(function.body):
        match s:
            case Assign(targets=(target,), value=Var() as source) if in_acc(target):
                yield target.name, source.name
            case Assign(targets=(target,), value=Call() as call) if in_acc(target):
                op = find_op(call.op)
                # a window is a chain of its own
                if op is not None and op.writes[:1] == (0,) and isinstance(call.args[0], Var):
                    yield target.name, call.args[0].name
            case For() | While() | If():
                for var, others in handed(s):
                    if in_acc(var):
                        yield from ((var.name, e.name) for e in others if isinstance(e, Var))
