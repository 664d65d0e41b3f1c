"""The facts of a program as a system of equations: one node for a value at a place, with the rule that its fact follows from others by.

The node of a loop variable follows from those of the bounds, that of a carried value from what it starts as and what the body yields,
that of a parameter from the arguments of every call. A rule takes the facts of other nodes (None: never computed) and gives one; it never
looks at what it is called for, so rules are solved in any order (`index_solve.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Protocol, TypeAlias

from egraph_rules.index_bounds import Sums
from egraph_rules.index_division import Division
from egraph_rules.index_domain import Fact, bounds, exactly, join, make, meet
from egraph_rules.index_enumerated import Joint, results, sum_of
from egraph_rules.index_transfer import binary, cast, operand, square, unary
from egraph_rules.index_trips import MOST_TRIPS, grown, most_trips, surely_runs, variable
from egraph_rules.index_values import Form, Term
from pypto_ir.dtypes import DType
from pypto_ir.expr import COMPARISONS

#: number of a node, and its fact; None for what is never computed
NodeId: TypeAlias = int
Facts: TypeAlias = Sequence[Fact | None]
_BY_VALUE = frozenset({"floordiv", "mod", "min", "max", "shr", "eq", "ne", "lt", "le", "gt", "ge"})


class Rule(Protocol):
    """How the fact of a node follows from those of its inputs."""

    @property
    def inputs(self) -> Sequence[NodeId]: ...

    def evaluate(self, facts: Facts) -> Fact | None: ...


@dataclass(frozen=True, slots=True)
class Given:
    """A fact that follows from nothing in the program."""

    fact: Fact | None
    inputs: tuple[NodeId, ...] = ()

    def evaluate(self, facts: Facts) -> Fact | None:
        return self.fact


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator on nodes, met with what the linear form says, and with what is known of the same value outside of a branch."""

    term: Term
    operands: tuple[NodeId, ...]
    sums: Sums | None
    same: bool = False
    outer: NodeId | None = None
    division: Division | None = None
    joint: Joint | None = None

    @property
    def inputs(self) -> tuple[NodeId, ...]:
        more = () if self.sums is None else self.sums.nodes
        if self.division is not None:
            more = (*more, *self.division.nodes)
        if self.joint is not None:
            more = (*more, *self.joint.nodes)
        return (*self.operands, *more) if self.outer is None else (*self.operands, *more, self.outer)

    def evaluate(self, facts: Facts) -> Fact | None:
        found = apply(self.term, [facts[n] for n in self.operands], self.same)
        if found is not None and self.sums is not None:
            found = meet(found, self.sums.fact(self.term.dtype, facts))
            if found is not None and found.constant is None:
                found = meet(found, sum_of(self.sums, self.term.dtype, facts))
        if found is not None and self.division is not None:
            found = meet(found, self.division.fact(self.term.dtype, facts))
        if found is not None and found.constant is None and self.joint is not None:
            found = meet(found, self.joint.fact(self.term.dtype, facts))
        return found if self.outer is None else meet(found, facts[self.outer])


def apply(term: Term, operands: list[Fact | None], same: bool = False) -> Fact | None:
    """The fact of an operation on operands of these facts; `same` says that both operands are one value."""
    dtype = term.dtype
    known = [f for f in operands if f is not None]
    if len(known) < len(operands):
        return None
    if not dtype.is_int and dtype is not DType.BOOL:
        return make(dtype, *bounds(dtype))
    if any(not f.dtype.is_int and f.dtype is not DType.BOOL for f in known):
        return make(dtype, *bounds(dtype))
    if term.op == "cast":
        return cast(known[0], dtype)
    if len(known) == 1:
        tried, found = results(term.op, dtype, known, False)
        return found if tried else unary(term.op, dtype, known[0])
    a, b = known
    common = a.dtype if dtype is DType.BOOL else dtype
    if term.op in _BY_VALUE and any(_read_two_ways(f, common) for f in known):
        return make(dtype, *bounds(dtype))
    x, y = operand(a, common), b if term.op in ("shl", "shr", "pow") else operand(b, common)
    if x is None or y is None:
        return None
    tried, found = results(term.op, dtype, [x, y], same)
    if tried:
        return found
    if same and term.op in COMPARISONS:
        return exactly(dtype, int(term.op in ("eq", "le", "ge")))
    return square(dtype, x) if same and term.op == "mul" else binary(term.op, dtype, x, y)


def _read_two_ways(a: Fact, dtype: DType) -> bool:
    """True for an operand that is one number by value and another as one of the operation's type: its sign is not that of the operation.
    min(5, x) of an unsigned type is 5 or, where x is -8, what -8 wraps to."""
    return a.dtype.bits <= dtype.bits and not a.within(*bounds(dtype))


@dataclass(slots=True)
class Join:
    """One of several: a phi, a parameter of many calls. A source is a node, and one that has a fact where it can arrive at all; sources
    may come later than the node does. `deeper` are those that a function hands to itself: its own value and an increment."""

    dtype: DType
    sources: list[tuple[NodeId, NodeId]] = field(default_factory=list)
    given: Fact | None = None
    deeper: list[tuple[NodeId, NodeId, Sums]] = field(default_factory=list)

    @property
    def inputs(self) -> tuple[NodeId, ...]:
        found = tuple(n for source in self.sources for n in source)
        return (*found, *(n for value, place, by in self.deeper for n in (value, place, *by.nodes)))

    def evaluate(self, facts: Facts) -> Fact | None:
        first = self._joined(self.given, self.sources, facts)
        if first is None or not self.deeper:
            return first
        both = self._joined(first, [(value, place) for value, place, _ in self.deeper], facts)
        found = [by.interval(facts) for _, place, by in self.deeper if facts[place] is not None]
        steps = [by for by in found if by is not None]
        if len(steps) < len(found) or not steps:
            return both
        by = min(lo for lo, _ in steps), max(hi for _, hi in steps)
        return meet(both, _within(self.dtype, grown(first.interval, by, MOST_TRIPS)))

    def _joined(self, start: Fact | None, sources: Sequence[tuple[NodeId, NodeId]], facts: Facts) -> Fact | None:
        arrived = (retyped(facts[n], self.dtype) for n, place in sources if facts[place] is not None)
        return reduce(join, arrived, start)


def _within(dtype: DType, interval: tuple[int, int]) -> Fact | None:
    """An interval where it lies in a type, else the whole type."""
    least, greatest = bounds(dtype)
    fits = least <= interval[0] and interval[1] <= greatest
    return make(dtype, *interval) if fits else make(dtype, least, greatest)


def retyped(fact: Fact | None, dtype: DType) -> Fact | None:
    """A value handed on under another type: INDEX and INT64 are one, anything else is read by its bits."""
    return fact if fact is None or fact.dtype is dtype else cast(fact, dtype)


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of a branch: what the arms yield, where they can be reached."""

    dtype: DType
    condition: NodeId
    then: NodeId
    orelse: NodeId

    @property
    def inputs(self) -> tuple[NodeId, ...]:
        return self.condition, self.then, self.orelse

    def evaluate(self, facts: Facts) -> Fact | None:
        condition = facts[self.condition]
        if condition is None:
            return None
        then = facts[self.then] if condition.hi else None
        orelse = facts[self.orelse] if not condition.lo else None
        return join(retyped(then, self.dtype), retyped(orelse, self.dtype))


@dataclass(frozen=True, slots=True)
class LoopVariable:
    """start, start + step, .. before stop: `range(48, -1, -16)` is 48, 32, 16, 0. None where the body never runs."""

    dtype: DType
    start: NodeId
    stop: NodeId
    step: NodeId

    @property
    def inputs(self) -> tuple[NodeId, ...]:
        return self.start, self.stop, self.step

    def evaluate(self, facts: Facts) -> Fact | None:
        return variable(self.dtype, [facts[n] for n in self.inputs])


@dataclass(slots=True)
class Carried:
    """A loop-carried value: what it starts as, and what the body yields, which no trip sees of a loop that runs once.

    Where each trip adds an increment d to it (`loop` names start, stop and step of a loop that counts its trips), it lies within the first
    value plus so many times d; no sum on the way wraps, by induction over trips.
    """

    dtype: DType
    init: NodeId
    yielded: NodeId | None = None
    loop: tuple[NodeId, NodeId, NodeId] | None = None
    increment: Sums | None = None

    @property
    def inputs(self) -> tuple[NodeId, ...]:
        found = (self.init,) if self.yielded is None else (self.init, self.yielded)
        more = () if self.increment is None else self.increment.nodes
        return (*found, *(self.loop or ()), *more)

    def evaluate(self, facts: Facts) -> Fact | None:
        start = retyped(facts[self.init], self.dtype)
        once = self.loop is not None and most_trips([facts[n] for n in self.loop]) <= 1
        after = None if self.yielded is None or once else retyped(facts[self.yielded], self.dtype)
        both = join(start, after)
        reach = self._reach(start, facts)
        return both if both is None or reach is None else meet(both, reach)

    def _reach(self, start: Fact | None, facts: Facts) -> Fact | None:
        by = None if self.increment is None else self.increment.interval(facts)
        if start is None or by is None:
            return None
        trips = MOST_TRIPS if self.loop is None else most_trips([facts[n] for n in self.loop])
        before = max(0, trips - 1)  # trips that came before the one that the value is read in
        return _within(self.dtype, grown(start.interval, by, before))


@dataclass(frozen=True, slots=True)
class AfterLoop:
    """The result of a loop: what the last trip yielded, or the first value where it may not run."""

    dtype: DType
    init: NodeId
    yielded: NodeId
    loop: tuple[NodeId, NodeId, NodeId]

    @property
    def inputs(self) -> tuple[NodeId, ...]:
        return (self.init, self.yielded, *self.loop)

    def evaluate(self, facts: Facts) -> Fact | None:
        found = [facts[n] for n in self.loop]
        if most_trips(found) == 0:
            return None if any(f is None for f in found) else retyped(facts[self.init], self.dtype)
        init = None if surely_runs(found) else retyped(facts[self.init], self.dtype)
        return join(init, retyped(facts[self.yielded], self.dtype))


#: what a fact becomes where a condition on it holds, given the fact of the other side
Narrowing: TypeAlias = Callable[[Fact, Fact], Fact | None]


@dataclass(frozen=True, slots=True)
class Refined:
    """A value where a condition holds: `narrow` says what the condition means for it. `through` is the linear form `k * value + c` that
    is compared, of a type in which it must not wrap."""

    base: NodeId
    other: NodeId
    narrow: Narrowing
    through: tuple[int, int, DType] | None = None

    @property
    def inputs(self) -> tuple[NodeId, ...]:
        return self.base, self.other

    def evaluate(self, facts: Facts) -> Fact | None:
        base, other = facts[self.base], facts[self.other]
        if base is None or other is None:
            return None
        if self.through is None:
            return self.narrow(base, other)
        k, c, dtype = self.through
        ends = sorted((k * base.lo + c, k * base.hi + c))
        least, greatest = bounds(dtype)
        if ends[0] < least or ends[1] > greatest:
            return base
        seen = make(dtype, ends[0], ends[1], abs(k) * base.modulus, k * base.residue + c)
        narrowed = None if seen is None else self.narrow(seen, other)
        if narrowed is None:
            return None
        back = sorted((_towards(narrowed.lo - c, k, k > 0), _towards(narrowed.hi - c, k, k < 0)))
        return meet(base, make(base.dtype, max(back[0], base.lo), min(back[1], base.hi)))


def _towards(n: int, k: int, up: bool) -> int:
    """n / k rounded up or down."""
    return -(-n // k) if up else n // k


@dataclass(slots=True)
class Node:
    """A value at a place: its rule, and whether the facts may grow around it without end, so that they are widened here."""

    rule: Rule
    form: Form
    head: bool = False
