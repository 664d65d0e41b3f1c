"""The default prover: offsets by the index facts of the whole program (`egraph_rules.index_facts`).

`row + blk * 16` with row from mt * 16 at every call is a multiple of 16, in [0, 496]: both proofs and a bound in one fact.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from egraph_rules.mx.proofs import Gap, Where
from pypto_ir.expr import Expr, index
from pypto_ir.stmt import Program

if TYPE_CHECKING:
    from egraph_rules.index_facts import IndexFacts


class FactProver:
    """Proofs by congruences and intervals; quotients with as few operations as their rules allow."""

    forms = (
        "integer arithmetic over constants, loops, branches, carried values, block indices and parameters that have a range or are given "
        "by every call, as far as nothing wraps around"
    )

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def facts(self) -> IndexFacts:
        """The facts, found when the first offset asks for them."""
        from egraph_rules.index_facts import IndexFacts

        return IndexFacts(self.program)

    def divisible(self, at: Where, e: Expr, by: int) -> Gap | None:
        return self._gap(at, e, by, ("divisible",))

    def non_negative(self, at: Where, e: Expr) -> Gap | None:
        return self._gap(at, e, 1, ("sign", "range"))

    def _gap(self, at: Where, e: Expr, by: int, kinds: tuple[str, ...]) -> Gap | None:
        proof = self.facts.prove(at.function.name, e, by, at.statement)
        found = proof.obstacle
        if found is None or found.kind not in kinds:
            return None
        reason = "it may be too large for an index" if found.kind == "range" else None
        return Gap(found.expr, found.function, str(found.fact), tuple(map(str, found.calls)), reason, str(proof.fact))

    def inside(self, at: Where, offset: Expr, size: int, extent: int) -> bool | None:
        return self.facts.inside(at.function.name, offset, index(size), index(extent), at.statement)

    def quotient(self, at: Where, e: Expr, by: int) -> Expr:
        return self.facts.quotient(at.function.name, e, by, at.statement)
