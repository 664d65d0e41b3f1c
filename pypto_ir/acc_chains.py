"""Which tiles lie in accumulator memory although no space is stated: those that are one buffer with an
accumulator.

In `acc = create([16, 64])`, `w = slice(acc, ..)`, `p = matmul_acc(w, ..)`, `d = assemble(acc, p, ..)` only
`p` says Acc. The compiler gives spaces later, and the matrix unit writes no other memory, so `acc`, `w` and
`d` lie there too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pypto_ir.expr import Var
from pypto_ir.ops.registry import find_op
from pypto_ir.stmt import Assign, Call, For, Function, If, Stmt, While, Yield, blocks, definitions, terminator, walk
from pypto_ir.types import Memory, TileType, Type
from pypto_ir.unions import Unions


def is_acc(t: Type | None) -> bool:
    """True for a tile that its type puts into accumulator memory."""
    return isinstance(t, TileType) and t.memory is Memory.ACC


def stated(var: Var, unstated: frozenset[str]) -> Type:
    """The type of a name, in Acc where it is one of `unstated`."""
    t = var.type
    return replace(t, memory=Memory.ACC) if isinstance(t, TileType) and var.name in unstated else t


def unstated_accumulators(function: Function) -> frozenset[str]:
    """The names of tiles without a stated space that share a buffer with an accumulator, views and windows included."""
    bound = [*(p.var for p in function.params), *(v for s in walk(function.body) for v in definitions(s))]
    unstated = {v.name for v in bound if _unset(v.type)}
    if not unstated:
        return frozenset()
    buffers, accumulators = Unions(), set[str]()
    for s in walk(function.body):
        for a, b in _one_buffer(s):
            buffers.join(a.name, b.name)
            accumulators.update(v.name for v in (a, b) if is_acc(v.type))
    roots = {buffers.of(name) for name in accumulators}
    return frozenset(name for name in unstated if buffers.of(name) in roots)


def _unset(t: Type) -> bool:
    return isinstance(t, TileType) and t.memory is None


def _one_buffer(s: Stmt) -> Iterator[tuple[Var, Var]]:
    """Pairs of names that a statement makes names of one buffer."""
    match s:
        case Assign(targets=(target,), value=Var() as source):
            yield target, source
        case Assign(targets=(target,), value=Call(op=name, args=args)):
            op = find_op(name)
            if op is None or op.aliases is None or op.aliases >= len(args):
                return
            first = args[op.aliases]
            if isinstance(first, Var) and isinstance(target.type, TileType):
                yield target, first
        case For() | While() | If():
            carries = () if isinstance(s, If) else s.carries
            ends = [end.values for block in blocks(s) if isinstance(end := terminator(block), Yield)]
            for c in carries:
                if isinstance(c.init, Var):
                    yield c.var, c.init
            for i, result in enumerate(s.results):
                if i < len(carries):
                    yield result, carries[i].var
                for values in ends:
                    if i < len(values) and isinstance(value := values[i], Var):
                        yield result, value
