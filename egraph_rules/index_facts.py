"""What is known of index expressions: multiples, intervals, and that nothing wraps.

    facts = IndexFacts(program)
    facts.of("gemm", offset, statement)            # multiple of 16, in [0, 240]
    facts.prove("gemm", offset, 16, statement)     # a Proof: holds, or what broke it

A fact holds for every value that an expression takes at a statement of a function, in every run of the program, with floor and with
truncating division, arithmetic wrapping at the width of each type. What comes from outside (parameters of functions that nobody in the
program calls, values read from memory) may be anything that its type holds, or that the `range` of the parameter says; an INDEX parameter
and an extent are at most 2**40 in size, and no run makes more than 2**48 trips of a loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from egraph_rules.index_blame import Blame, Obstacle
from egraph_rules.index_build import equations_of
from egraph_rules.index_calls import CallSite
from egraph_rules.index_contexts import Contexts
from egraph_rules.index_domain import Fact, bounds, meet, never, top
from egraph_rules.index_operands import Operands
from egraph_rules.index_places import Place
from egraph_rules.index_quotients import Quotients
from egraph_rules.index_relations import Relation, relate
from egraph_rules.index_solve import extend, solve
from egraph_rules.index_values import ValueId
from egraph_rules.index_wrapping import cannot_wrap
from pypto_ir.collection import collector_paused
from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, dtype_of, variables
from pypto_ir.stmt import Program, Stmt

__all__ = ["CallSite", "Fact", "IndexFacts", "Obstacle", "Proof", "Relation"]


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether an offset is a multiple of `divisor` and not negative; `fact` is the best known of it, `obstacle` what broke the proof."""

    divisor: int
    fact: Fact
    obstacle: Obstacle | None = None

    @property
    def proved(self) -> bool:
        return self.obstacle is None


def _lacking(fact: Fact, divisor: int) -> str | None:
    """What keeps a fact from being that of a non-negative multiple; None where nothing does."""
    if fact.never:
        return None
    if not fact.is_multiple_of(divisor):
        return "divisible"
    if fact.lo < 0:
        return "sign"
    return "range" if fact.dtype.is_unsigned and fact.hi > bounds(fact.dtype)[1] // 2 else None


class IndexFacts:
    """The facts of a program. `entries` names functions that are called from outside although the program calls them too.

    Raises `ValueError` for a program that is not in SSA form.
    """

    def __init__(self, program: Program, entries: Iterable[str] = ()) -> None:
        self.program = program
        with collector_paused():
            self._equations = equations_of(program, entries)
            self._system = self._equations.system
            self._facts = solve(self._system)
        self._quotients = Quotients(self._system, self._facts)
        self._contexts = Contexts(self._equations, self._facts)
        self._blame = Blame(self._fact, self._equations.graph)

    def of(self, function: str, expr: Expr, at: Stmt | None = None) -> Fact:
        """The fact of an expression where a statement of a function reads it; where its names are defined for None.

        `at` is a statement of the program that these facts are of, the object itself. Raises `KeyError` for an unknown function, and for
        names that are not in view at the statement.
        """
        fact = self._fact(function, expr, at)
        value, place = self._value(function, expr, at)
        wraps = value is None or not cannot_wrap(self._system, self._facts, value, place)
        return replace(fact, cannot_wrap=not wraps)

    def prove(self, function: str, expr: Expr, divisor: int, at: Stmt | None = None) -> Proof:
        """Whether an offset is a multiple of `divisor` and, read as an index, not negative."""
        fact = self._fact(function, expr, at)
        kind = _lacking(fact, divisor)
        if kind is not None:
            fact = self._by_calls(function, expr, at, fact)
            kind = _lacking(fact, divisor)
        return Proof(divisor, fact, None if kind is None else self._blame.obstacle(kind, function, expr, divisor, at))

    def _by_calls(self, function: str, expr: Expr, at: Stmt | None, fact: Fact) -> Fact:
        """A fact, met with what each call of the function says."""
        value, place = self._value(function, expr, at)
        found = None if value is None else self._contexts.fact(self._equations.functions[function], value, place)
        return fact if found is None else meet(fact, found) or fact

    def quotient(self, function: str, expr: Expr, divisor: int, at: Stmt | None = None) -> Expr:
        """`expr // divisor` as an index for an offset that is proved to be a non-negative multiple of `divisor`: the plain quotient, or a
        cheaper expression that equals it. Both mean the same with floor and with truncating division.
        """
        value, _ = self._value(function, expr, at)
        return self._quotients.of(self._equations.functions[function], expr, value, divisor, at)

    def relation(self, function: str, a: Expr, b: Expr, at: Stmt | None = None) -> Relation | None:
        """The difference `a - b` at a statement; None where nothing is known of it, or the statement is never reached."""
        x, place = self._value(function, a, at)
        y, _ = self._value(function, b, at)
        return None if x is None or y is None else relate(self._system, self._facts, x, y, place)

    def inside(self, function: str, offset: Expr, size: Expr, extent: Expr, at: Stmt | None = None) -> bool | None:
        """Whether the window [offset, offset + size) lies in [0, extent): True always, False never, None where it may or may not."""
        start = self._fact(function, offset, at)
        room = self.relation(function, extent, offset, at)
        length = self._fact(function, size, at)
        if start.never or room is None:
            return True
        if start.hi < 0 or room.hi < length.lo:
            return False
        return True if start.lo >= 0 and self._fits(function, offset, size, extent, room, length, at) else None

    def _fits(self, function: str, offset: Expr, size: Expr, extent: Expr, room: Relation, length: Fact, at: Stmt | None) -> bool:
        """True where what is left behind an offset is at least a size, by numbers or by what both are made of."""
        if room.lo >= length.hi:
            return True
        values = [self._value(function, e, at) for e in (extent, offset, size)]
        numbers = [v for v, _ in values if v is not None]
        if len(numbers) < 3:
            return False
        rest = self._system.values.binary("sub", numbers[0], numbers[1])
        if rest is None or not cannot_wrap(self._system, self._facts, rest, values[0][1]):
            return False
        left = relate(self._system, self._facts, rest, numbers[2], values[0][1])
        return left is not None and left.lo >= 0

    def _value(self, function: str, expr: Expr, at: Stmt | None) -> tuple[ValueId | None, Place]:
        f = self._equations.functions[function]
        place = f.place(at) if at is not None else f.innermost(v.name for v in variables(expr))
        found = Operands(self._equations, f).handle(expr, place)
        return (found if isinstance(found, int) else None), place

    def _fact(self, function: str, expr: Expr, at: Stmt | None) -> Fact:
        value, place = self._value(function, expr, at)
        if value is None:
            return top(dtype_of(expr) or DType.INDEX)
        node = self._system.node(value, place)
        extend(self._system, self._facts)
        fact = None if self._facts[place.reach()] is None else self._facts[node]
        return never(self._system.values[value].dtype) if fact is None else fact
