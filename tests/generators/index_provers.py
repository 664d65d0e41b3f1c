"""Two provers on the same offsets: what index facts prove, what upstream's rules prove, and which of these are true.

    compare_provers(random_index_program(random.Random(7)))

An offset that only upstream proves must be a false proof, which running the program for all values of its parameters shows: the value is
negative or no multiple of the divisor at some point. What facts prove is checked by `index_property`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from egraph_rules.index_domain import top
from egraph_rules.index_facts import IndexFacts, Obstacle, Proof
from egraph_rules.mx.proofs import Where
from egraph_rules.mx.upstream import UpstreamProver
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Expr, dtype_of
from pypto_ir.stmt import Program, Stmt
from pypto_ir.text import expr_text
from tests.generators.index_programs import Drawn, Probe
from tests.generators.index_property import FalseFact, check_index


@dataclass(slots=True)
class Compared:
    """Offsets by who proves them. Of those that only upstream proves, `false` are contradicted by some value, `unseen` have no value in
    any run, and `missed` are true for every value that was seen."""

    offsets: int = 0
    both: int = 0
    only_facts: int = 0
    false: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def add(self, other: Compared) -> None:
        self.offsets += other.offsets
        self.both += other.both
        self.only_facts += other.only_facts
        self.false += other.false
        self.unseen += other.unseen
        self.missed += other.missed


def compare_provers(drawn: Drawn, divisor: int = 16) -> Compared:
    """Ask both provers about every probe of a program."""
    facts, upstream = IndexFacts(drawn.program), UpstreamProver(drawn.program)
    result = Compared(len(drawn.probes))
    for probe in drawn.probes:
        proved = facts.prove(probe.function, probe.expr, divisor, probe.statement).proved
        accepted = accepts(upstream, drawn.program, probe, divisor)
        result.both += proved and accepted
        result.only_facts += proved and not accepted
        if accepted and not proved:
            text = f"{probe.function}: {expr_text(probe.expr)}"
            truth = held(drawn, probe, divisor)
            (result.unseen if truth is None else result.missed if truth else result.false).append(text)
    return result


def accepts(upstream: UpstreamProver, program: Program, probe: Probe, divisor: int) -> bool:
    """Whether upstream's rules take an offset."""
    function = program.function(probe.function)
    assert function is not None
    at = Where(function, (), probe.statement)
    return upstream.divisible(at, probe.expr, divisor) is None and upstream.non_negative(at, probe.expr) is None


def held(drawn: Drawn, probe: Probe, divisor: int) -> bool | None:
    """Whether every value of an offset in every run is a non-negative multiple; None where no run computes it."""
    try:
        checked = check_index(Drawn(drawn.program, [probe]), divisor, _Believed)  # type: ignore[arg-type]
    except FalseFact:
        return False
    return True if checked.seen else None


class _Believed:
    """Facts that say of every offset that it is proved, and nothing else."""

    def __init__(self, program: Program) -> None:
        pass

    def of(self, function: str, expr: Expr, at: Stmt) -> Any:
        return top(dtype_of(expr) or DType.INDEX)

    def prove(self, function: str, expr: Expr, divisor: int, at: Stmt) -> Proof:
        obstacle: Obstacle | None = None
        return Proof(divisor, self.of(function, expr, at), obstacle)

    def quotient(self, function: str, expr: Expr, divisor: int, at: Stmt) -> Expr:
        return Binary("floordiv", expr, Const(divisor, dtype_of(expr) or DType.INDEX))

    def relation(self, function: str, a: Expr, b: Expr, at: Stmt) -> None:
        return None
