"""The default prover: offsets by the index facts of the whole program (`egraph_rules.index_facts`).

`row + blk * 16` with row from mt * 16 at every call is a multiple of 16, in [0, 496]: both proofs and a bound in one fact.
"""

from __future__ import annotations

from egraph_rules.index_domain import bounds
from egraph_rules.index_facts import Fact, IndexFacts, Obstacle
from egraph_rules.mx.proofs import Gap, Where
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Expr, Var, children
from pypto_ir.stmt import Program


class FactProver:
    """Proofs by congruences and intervals."""

    forms = (
        "integer arithmetic over constants, loops, branches, carried values, block indices and parameters that are the same at every "
        "call or have a range, as far as nothing wraps around"
    )
    rewrites = True

    def __init__(self, program: Program) -> None:
        self.facts = IndexFacts(program)

    def divisible(self, at: Where, e: Expr, by: int) -> Gap | None:
        return self._gap(at, e, by, ("divisible",))

    def non_negative(self, at: Where, e: Expr) -> Gap | None:
        return self._gap(at, e, 1, ("sign", "range"))

    def _gap(self, at: Where, e: Expr, by: int, kinds: tuple[str, ...]) -> Gap | None:
        found = self.facts.prove(at.function.name, e, by, at.statement).obstacle
        if found is None or found.kind not in kinds:
            return None
        reason = "it may be too large for an index" if found.kind == "range" else None
        return Gap(found.expr, found.function, _known(found), tuple(map(str, found.calls)), reason)

    def bounds(self, at: Where, e: Expr) -> tuple[int | None, int | None]:
        fact = self._fact(at, e)
        return (None, None) if fact.never else (fact.lo, fact.hi)

    def exact(self, at: Where, e: Expr) -> bool:
        if isinstance(e, Const | Var):
            return True
        if not isinstance(e, Binary) or not all(self.exact(at, part) for part in children(e)):
            return False
        left, right = self._fact(at, e.left), self._fact(at, e.right)
        span = _interval(e.op, left, right)
        least, greatest = bounds(DType.INDEX)
        return left.dtype is right.dtype is DType.INDEX and span is not None and least <= span[0] and span[1] <= greatest

    def _fact(self, at: Where, e: Expr) -> Fact:
        return self.facts.of(at.function.name, e, at.statement)


def _known(found: Obstacle) -> str:
    return str(found.fact)


def _interval(op: str, a: Fact, b: Fact) -> tuple[int, int] | None:
    """The exact result of an operation on integers of any size; None where that is not known."""
    if a.never or b.never:
        return None
    match op:
        case "add":
            return a.lo + b.lo, a.hi + b.hi
        case "sub":
            return a.lo - b.hi, a.hi - b.lo
        case "mul":
            corners = [x * y for x in a.interval for y in b.interval]
            return min(corners), max(corners)
        case "floordiv" | "mod" if b.lo > 0:
            size = max(abs(a.lo), abs(a.hi), b.hi)
            return -size, size
        case "min" | "max":
            return min(a.lo, b.lo), max(a.hi, b.hi)
    return None
