"""What is known of index expressions: multiples, intervals, and that nothing wraps.

    facts = IndexFacts(program)
    facts.of("gemm", offset, statement)            # multiple of 16, in [0, 240]
    facts.prove("gemm", offset, 16, statement)     # a Proof: holds, or what broke it

A fact holds for every value that an expression takes at a statement of a function, in every run of the program, with floor and with
truncating division, arithmetic wrapping at the width of each type. What comes from outside (parameters of functions that nobody in the
program calls, values read from memory) may be anything that its type holds, or that the `range` of the parameter says; an INDEX from
outside and an extent are at most 2**40 in size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr
from pypto_ir.stmt import Program, Stmt
from pypto_ir.text import expr_text

from egraph_rules.index_build import Builder, FunctionBuilder, FunctionEquations
from egraph_rules.index_calls import CallSite
from egraph_rules.index_domain import Fact, bounds, never, top
from egraph_rules.index_solve import extend, solve

__all__ = ["CallSite", "Fact", "IndexFacts", "Obstacle", "Proof", "Relation"]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What broke a proof: an expression of a function, the best fact that is known of it, and the calls that led to it, outermost last.

    `kind` is "divisible", "sign" or "range" (an unsigned value that may be too large for an index).
    """

    kind: str
    function: str
    expr: Expr
    fact: Fact
    calls: tuple[CallSite, ...] = ()

    def __str__(self) -> str:
        where = "".join(f", in {call}" for call in self.calls)
        return f"{expr_text(self.expr)} is {self.fact}{where}"


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether an offset is a multiple of `divisor` and not negative; `fact` is the best known of it, `obstacle` what broke the proof."""

    divisor: int
    fact: Fact
    obstacle: Obstacle | None = None

    @property
    def proved(self) -> bool:
        return self.obstacle is None


@dataclass(frozen=True, slots=True)
class Relation:
    """How two index expressions of one place differ: `a - b` as an exact integer lies in [lo, hi]; `difference` where it is one number."""

    lo: int
    hi: int

    @property
    def difference(self) -> int | None:
        return self.lo if self.lo == self.hi else None

    @property
    def equal(self) -> bool:
        return self.lo == self.hi == 0

    def disjoint(self, a_size: int, b_size: int) -> bool:
        """True where [a, a + a_size) and [b, b + b_size) have no element in common."""
        return self.lo >= b_size or self.hi <= -a_size


class IndexFacts:
    """The facts of a program. `entries` names functions that are called from outside although the program calls them too.

    Raises `ValueError` for a program that is not in SSA form.
    """

    def __init__(self, program: Program, entries: Iterable[str] = ()) -> None:
        self.program = program
        self._builder = Builder(program, entries)
        self._system = self._builder.system
        self._facts = solve(self._system)

    def of(self, function: str, expr: Expr, at: Stmt | None = None) -> Fact:
        """The fact of an expression where a statement of a function reads it; where the function's names are in view for None."""
        equations = self._equations(function)
        place = equations.place(at)
        value = FunctionBuilder(self._builder, equations).handle(expr, place)
        if not isinstance(value, int):
            return top(DType.INDEX)
        node = self._system.node(value, place)
        extend(self._system, self._facts, len(self._facts))
        fact = self._facts[node]
        dtype = self._system.values[value].dtype
        return never(dtype) if fact is None else replace(fact, cannot_wrap=False)

    def prove(self, function: str, expr: Expr, divisor: int, at: Stmt | None = None) -> Proof:
        """Whether an offset is a multiple of `divisor` and an index that is not negative."""
        fact = self.of(function, expr, at)
        kind = None
        if not fact.never:
            if not fact.is_multiple_of(divisor):
                kind = "divisible"
            elif fact.lo < 0:
                kind = "sign"
            elif fact.hi > bounds(fact.dtype)[1] // 2 and fact.dtype.is_unsigned:
                kind = "range"
        return Proof(divisor, fact, None if kind is None else Obstacle(kind, function, expr, fact))

    def quotient(self, function: str, expr: Expr, divisor: int, at: Stmt | None = None) -> Expr:
        """`expr // divisor` as an INDEX expression for an offset that is proved to be a non-negative multiple of `divisor`: the plain
        quotient, or a cheaper expression that is proved equal to it. The same meaning with floor and with truncating division."""
        fact = self.of(function, expr, at)
        if fact.constant is not None:
            return Const(fact.constant // divisor, DType.INDEX)
        dtype = fact.dtype
        if dtype.bits < 64:
            return Binary("floordiv", Cast(expr, DType.INDEX), Const(divisor, DType.INDEX))
        return Binary("floordiv", expr, Const(divisor, DType.UINT64 if dtype is DType.UINT64 else DType.INDEX))

    def relation(self, function: str, a: Expr, b: Expr, at: Stmt | None = None) -> Relation | None:
        """The difference `a - b` at a statement, as exact integers; None where nothing is known of it."""
        x, y = self.of(function, a, at), self.of(function, b, at)
        return Relation(x.lo - y.hi, x.hi - y.lo)

    def _equations(self, function: str) -> FunctionEquations:
        return self._builder.functions[function]
