"""One buffer for what two arms hand on as one accumulator.

    if k == 0: m = matmul(x, y)              if k == 0: m = matmul_acc(acc, x, y, true)         m = matmul_acc(acc, x, y, k == 0)
    else:      m = matmul_acc(acc, x, y)     else:      m = matmul_acc(acc, x, y)

A product writes a new accumulator; one that starts at zero in a given accumulator computes the same (`spec/flatten.md` E8). In the arm
that does not accumulate, the content of the other arm's accumulator is dead, so the product may as well be written there: no copy is
needed where the arms meet, and L0C holds one tile where it held two. Arms that differ in nothing else are one op with a predicate.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from egraph_rules.chains import accumulates, in_acc
from pypto_ir.expr import Expr, Unary, Var
from pypto_ir.ops.registry import find_op
from pypto_ir.stmt import TRUE, Assign, Block, Call, For, Function, If, Scope, Stmt, While, Yield, definitions, terminator, uses, walk

#: a product -> the op that adds it to operand 0
_INTO = {"tile.matmul": "tile.matmul_acc", "tile.batch_matmul": "tile.batch_matmul_acc"}


def one_buffer(function: Function) -> Function:
    """The function with products written into the accumulator that the other arm adds to, where its content is dead."""
    if not any(isinstance(s, If) and any(map(in_acc, s.results)) for s in walk(function.body)):
        return function
    work = _Work(Counter(v.name for s in walk(function.body) for v in uses(s)))
    body = work.block(function.body, frozenset(p.var.name for p in function.params))
    return replace(function, body=body) if work.changed else function


class _Work:
    def __init__(self, readers: Counter[str]) -> None:
        self.readers = readers
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
                written = self.into(then, orelse, i, fresh), self.into(orelse, then, i, fresh)
                s = replace(s, then=written[0] or then, orelse=written[1] or orelse)
        return _merged(s)

    def into(self, arm: Block, other: Block, i: int, fresh: frozenset[str]) -> Block | None:
        """An arm whose product is written into the accumulator that the other arm adds to; None where it cannot be."""
        product, call = _yielded(arm, i)
        added, adding = _yielded(other, i)
        if product is None or added is None or call.op not in _INTO or not accumulates(adding):
            return None
        acc = adding.args[0]
        if not isinstance(acc, Var) or not acc.type == product.target.type == added.target.type:
            return None
        # the accumulator must be of this trip, and nobody else may read it
        if acc.name not in fresh or self.readers[acc.name] != 1 or self.readers[product.target.name] != 1:
            return None
        self.changed = True
        first = replace(product, value=replace(call, op=_INTO[call.op], args=(acc, *call.args, TRUE)))
        return tuple(first if t is product else t for t in arm)


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
