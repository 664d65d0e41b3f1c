"""One buffer for what two arms hand on as one accumulator.

    if k == 0: m = matmul(x, y)              if k == 0: m = matmul_acc(acc, x, y, true)         m = matmul_acc(acc, x, y, k == 0)
    else:      m = matmul_acc(acc, x, y)     else:      m = matmul_acc(acc, x, y)

A product writes a new accumulator; one that starts at zero in a given accumulator computes the same (`spec/flatten.md` E8). In the arm
that does not accumulate, the content of the other arm's accumulator is dead, so the product may as well be written there: no copy is
needed where the arms meet, and L0C holds one tile where it held two. Arms that differ in nothing else are one op with a predicate. A
product of some rows only, that a next trip takes for an accumulator of all rows, leaves the others undefined: they may keep what they hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from egraph_rules.chains import accumulates, handed, in_acc
from pypto_ir.expr import Expr, Unary, Var
from pypto_ir.ops.registry import find_op
from pypto_ir.stmt import TRUE, Assign, Block, Call, For, Function, If, Scope, Stmt, While, Yield, definitions, terminator, uses, walk
from pypto_ir.types import TileType, Type

E = TypeVar("E", bound=Expr)

#: a product -> the op that adds it to operand 0
_INTO = {"tile.matmul": "tile.matmul_acc", "tile.batch_matmul": "tile.batch_matmul_acc"}


def one_buffer(function: Function) -> Function:
    """The function with products written into the accumulator that the other arm adds to, where its content is dead."""
    if not any(isinstance(s, If) and any(map(in_acc, s.results)) for s in walk(function.body)):
        return function
    work = _Work(function)
    body = work.block(function.body, frozenset(p.var.name for p in function.params))
    return replace(function, body=body) if work.changed else function


def _handed_on(function: Function) -> Iterator[tuple[str, Type]]:
    """Results that a loop hands on to its next trip, with the types that they have there."""
    for s in walk(function.body):
        if isinstance(s, For | While):
            for carry, (_, *yielded) in handed(s):
                for e in yielded[:1]:
                    if isinstance(e, Var):
                        yield e.name, carry.type


class _Work:
    """`readers` counts the uses of names, `handed_on` are the types under which a next trip gets them, `retyped` those of results that are
    accumulators of all rows now."""

    def __init__(self, function: Function) -> None:
        self.readers = Counter(v.name for s in walk(function.body) for v in uses(s))
        self.handed_on = {name: t for name, t in _handed_on(function) if self.readers[name] == 1}
        self.retyped: dict[str, Type] = {}
        self.changed = False

    def block(self, statements: Block, fresh: frozenset[str]) -> Block:
        """`fresh` are the names that are bound anew in every run of the innermost loop's body."""
        result: list[Stmt] = []
        for s in statements:
            match s:
                case For(body=body, carries=carries) | While(body=body, carries=carries):
                    s = replace(s, body=self.block(body, frozenset(c.var.name for c in carries)))
                case Scope(body=body):
                    s = replace(s, body=self.block(body, fresh))
                case If():
                    s = self.branch(s, fresh)
                case Yield(values=values):
                    s = replace(s, values=tuple(map(self.as_is, values)))
            result.append(s)
            fresh |= {v.name for v in definitions(s)}
        return tuple(result)

    def branch(self, s: If, fresh: frozenset[str]) -> Stmt:
        then = self.block(s.then, fresh)
        orelse = None if s.orelse is None else self.block(s.orelse, fresh)
        s = replace(s, then=then, orelse=orelse)
        if orelse is None:
            return s
        for i, result in enumerate(s.results):
            if in_acc(result):
                then, orelse = s.then, s.orelse
                assert orelse is not None
                t = self.handed_on.get(result.name, result.type)
                written = self.into(then, orelse, i, fresh, t), self.into(orelse, then, i, fresh, t)
                s = replace(s, then=written[0] or then, orelse=written[1] or orelse)
                if any(written) and t != result.type:
                    self.retyped[result.name] = t
        return _merged(replace(s, results=tuple(self.as_is(v) for v in s.results)))

    def as_is(self, e: E) -> E:
        """A result under its type by now."""
        return Var(e.name, self.retyped[e.name]) if isinstance(e, Var) and e.name in self.retyped else e  # type: ignore[return-value]

    def into(self, arm: Block, other: Block, i: int, fresh: frozenset[str], t: Type) -> Block | None:
        """An arm whose product is written into the accumulator of type `t` that the other arm adds to; None where it cannot be."""
        product, call = _yielded(arm, i)
        added, adding = _yielded(other, i)
        if product is None or added is None or call.op not in _INTO or not accumulates(adding):
            return None
        acc = adding.args[0]
        if not isinstance(acc, Var) or not acc.type == added.target.type == t or not _same_tile(product.target.type, t):
            return None
        # the accumulator must be of this trip, and nobody else may read it
        if acc.name not in fresh or self.readers[acc.name] != 1 or self.readers[product.target.name] != 1:
            return None
        self.changed = True
        if product.target.type != t:
            self.retyped[product.target.name] = t
        into = replace(call, op=_INTO[call.op], args=(acc, *call.args, TRUE))
        return tuple(
            replace(product, targets=(self.as_is(product.target),), value=into) if s is product
            else replace(s, values=tuple(map(self.as_is, s.values))) if isinstance(s, Yield) else s
            for s in arm
        )  # fmt: skip


def _same_tile(a: Type, b: Type) -> bool:
    """True for tiles that differ in what is valid of them at most."""
    return isinstance(a, TileType) and isinstance(b, TileType) and (a.shape, a.dtype, a.memory) == (b.shape, b.dtype, b.memory)


def _yielded(arm: Block, i: int) -> tuple[Assign | None, Call]:
    """The statement of an arm that computes what it hands on as result `i`, and its call."""
    end = terminator(arm)
    value = end.values[i] if isinstance(end, Yield) and i < len(end.values) else None
    for t in arm:
        if isinstance(t, Assign) and isinstance(t.value, Call) and isinstance(value, Var) and t.targets == (value,):
            return t, t.value
    return None, Call("", ())


def _merged(s: If) -> Stmt:
    """A branch that only chooses whether one accumulation starts at zero, as that accumulation with a predicate."""
    if len(s.results) != 1 or len(s.then) != 2 or s.orelse is None or len(s.orelse) != 2:
        return s
    a, first = _yielded(s.then, 0)
    b, second = _yielded(s.orelse, 0)
    if a is None or b is None or first.op != second.op or not accumulates(first):
        return s
    op = find_op(first.op)
    if op is None or len(op.operands) < 4 or first.args[:3] != second.args[:3] or first.kwargs != second.kwargs:
        return s
    predicate = _predicate(s.cond, first.args[3:], second.args[3:])
    if predicate is None or a.target.type != b.target.type:
        return s
    call = replace(second, args=(*second.args[:3], predicate))
    return Assign((Var(s.results[0].name, b.target.type),), call, b.loc or s.loc, s.comment)


def _predicate(cond: Expr, then: tuple[Expr, ...], orelse: tuple[Expr, ...]) -> Expr | None:
    """When the merged accumulation starts at zero."""
    if then == (TRUE,) and not orelse:
        return cond
    return Unary("not", cond) if orelse == (TRUE,) and not then else None
