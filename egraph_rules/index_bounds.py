"""Bounds of linear forms, also by relations between their atoms.

Inside of `for c in range(0, n, 16)` the form n - c is at least 1, although both are anything: c <= n - 1 replaces c and n cancels. A
relation `scale * value <= other + offset` comes from a loop, a condition, or from what a minimum, a maximum or a quotient is; it may have
guards, intervals that other values must lie in. A value is replaced by its own form where that provably does not wrap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from egraph_rules.index_domain import Fact, into
from egraph_rules.index_values import Form, ValueId, combine
from pypto_ir.dtypes import DType

#: how many relations are used one after the other, and how many forms are looked at in all
_DEPTH, _FORMS = 3, 48


@dataclass(frozen=True, slots=True)
class Limit:
    """`scale * value <= other + offset`, or `>=` where not `upper`, if the facts of the guarded nodes lie in their intervals."""

    upper: bool
    other: ValueId
    offset: int = 0
    scale: int = 1
    guards: tuple[tuple[int, int, int], ...] = ()

    def holds(self, facts: Sequence[Fact | None]) -> bool:
        for node, lo, hi in self.guards:
            fact = facts[node]
            if fact is None or not fact.within(lo, hi):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Sums:
    """A form at a place: the node of every value that bounds it, what relates them, and their own forms, each with the least and
    greatest value for which it does not wrap."""

    form: Form
    places: Mapping[ValueId, int]
    limits: Mapping[ValueId, tuple[Limit, ...]]
    forms: Mapping[ValueId, tuple[Form, int, int]]

    @property
    def nodes(self) -> tuple[int, ...]:
        guards = (node for group in self.limits.values() for limit in group for node, _, _ in limit.guards)
        return (*self.places.values(), *guards)

    def fact(self, dtype: DType, facts: Sequence[Fact | None]) -> Fact | None:
        """The fact of the form, brought into a type; None where an atom is never computed."""
        found = self.interval(facts)
        if found is None:
            return None
        return into(dtype, *found, *self.congruence(facts))

    def congruence(self, facts: Sequence[Fact | None]) -> tuple[int, int]:
        """Modulus and residue of the exact form."""
        modulus, residue = 0, self.form.constant
        for atom, k in self.form.terms:
            fact = facts[self.places[atom]]
            assert fact is not None
            modulus, residue = gcd(modulus, k * fact.modulus), residue + k * fact.residue
        return modulus, residue

    def interval(self, facts: Sequence[Fact | None]) -> tuple[int, int] | None:
        """The least and greatest exact value of the form; None where an atom is never computed."""
        if any(facts[self.places[atom]] is None for atom, _ in self.form.terms):
            return None
        search = _Search(self, facts)
        if not self.limits and not self.forms:
            return search.direct(self.form, False), search.direct(self.form, True)
        return search.extreme(self.form, False, _DEPTH), search.extreme(self.form, True, _DEPTH)


@dataclass(slots=True)
class _Search:
    """The best bounds of forms that relations give, within a number of steps."""

    sums: Sums
    facts: Sequence[Fact | None]
    left: int = _FORMS

    def extreme(self, form: Form, upper: bool, depth: int) -> int:
        """The least upper or greatest lower bound that is found."""
        best = self.direct(form, upper)
        if depth == 0 or (len(form.terms) < 2 and not self.sums.forms):
            return best
        for atom, k in form.terms:
            for replaced in self.replacements(form, atom, k, upper, depth):
                if self.left <= 0:
                    return best
                self.left -= 1
                found = self.extreme(replaced, upper, depth - 1)
                best = min(best, found) if upper else max(best, found)
        return best

    def direct(self, form: Form, upper: bool) -> int:
        """The bound by intervals alone."""
        total = form.constant
        for atom, k in form.terms:
            fact = self.facts[self.sums.places[atom]]
            assert fact is not None
            total += k * (fact.hi if (k > 0) is upper else fact.lo)
        return total

    def replacements(self, form: Form, atom: ValueId, k: int, upper: bool, depth: int) -> list[Form]:
        """Forms that bound `form` with one atom replaced, none longer than it."""
        found = []
        without = Form(form.constant, tuple(t for t in form.terms if t[0] != atom))
        own = self.own_form(atom, depth)
        if own is not None:
            found.append(combine(without, own, k))
        for limit in self.sums.limits.get(atom, ()):
            if limit.upper is not ((k > 0) is upper) or k % limit.scale or not self.known(limit.other) or not limit.holds(self.facts):
                continue
            times = k // limit.scale
            found.append(combine(without, Form(limit.offset, ((limit.other, 1),)), times))
            other = self.own_form(limit.other, depth)
            if other is not None:
                found.append(combine(combine(without, Form(limit.offset), times), other, times))
        return [f for f in found if len(f.terms) <= len(form.terms)]

    def known(self, value: ValueId) -> bool:
        return value in self.sums.places and self.facts[self.sums.places[value]] is not None

    def own_form(self, value: ValueId, depth: int) -> Form | None:
        """The form that a value exactly is: one that cannot wrap."""
        if value not in self.sums.forms or depth == 0:
            return None
        form, least, greatest = self.sums.forms[value]
        if not all(self.known(atom) for atom, _ in form.terms):
            return None
        low, high = self.direct(form, False), self.direct(form, True)
        if low < least and self.left > 0:
            low = self.extreme(form, False, depth - 1)
        if high > greatest and self.left > 0:
            high = self.extreme(form, True, depth - 1)
        return form if least <= low and high <= greatest else None
