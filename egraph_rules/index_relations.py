"""How two index expressions of one place differ.

Of `i * 16` and `(i + 1) * 16` the difference is -16 whatever i is, of n and c in `for c in range(0, n, 16)` it is at least 1. Slices
[a, a + 16) and [b, b + 16) with a - b >= 16 are disjoint; a window [a, a + 16) with a + 16 <= n is in bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from egraph_rules.index_domain import Fact, bounds
from egraph_rules.index_places import Place
from egraph_rules.index_solve import extend
from egraph_rules.index_system import System
from egraph_rules.index_values import Form, ValueId, combine


@dataclass(frozen=True, slots=True)
class Relation:
    """`a - b` as an exact integer lies in [lo, hi], and is `residue` modulo `modulus`."""

    lo: int
    hi: int
    modulus: int = 1
    residue: int = 0

    @property
    def difference(self) -> int | None:
        """`a - b` where it is one number."""
        return self.lo if self.lo == self.hi else None

    @property
    def equal(self) -> bool:
        return self.lo == self.hi == 0

    @property
    def differ(self) -> bool:
        """True where a and b are never equal."""
        return self.lo > 0 or self.hi < 0 or (self.residue % self.modulus != 0 if self.modulus else self.residue != 0)

    def disjoint(self, a_size: int, b_size: int) -> bool:
        """True where [a, a + a_size) and [b, b + b_size) have no element in common."""
        return self.lo >= b_size or self.hi <= -a_size


def relate(system: System, facts: list[Fact | None], a: ValueId, b: ValueId, place: Place) -> Relation | None:
    """The relation of two values at a place; None where one of them is never computed."""
    nodes = system.node(a, place), system.node(b, place)
    extend(system, facts)
    left, right = facts[nodes[0]], facts[nodes[1]]
    if left is None or right is None:
        return None
    p, q = _exact(system, facts, a, place), _exact(system, facts, b, place)
    sums = system.sums(combine(p, q, -1), place)
    extend(system, facts)
    lo, hi = left.lo - right.hi, left.hi - right.lo
    found = sums.interval(facts)
    if found is None:
        return None
    lo, hi = max(lo, found[0]), min(hi, found[1])
    if (p, q) != (_itself(a), _itself(b)):  # relations may be those of the values themselves
        whole = system.sums(combine(_itself(a), _itself(b), -1), place)
        extend(system, facts)
        found = whole.interval(facts) or found
        lo, hi = max(lo, found[0]), min(hi, found[1])
    modulus, residue = sums.congruence(facts)
    x, y = system.values[a], system.values[b]
    if modulus and x.dtype.bits == y.dtype.bits and (p, q) != (x.form, y.form):
        # the forms say what the difference is modulo 2**bits even where one of them wraps
        wrapped = system.sums(combine(x.form, y.form, -1), place)
        extend(system, facts)
        if wrapped.interval(facts) is None:
            return None
        m, r = wrapped.congruence(facts)
        if gcd(m, 1 << x.dtype.bits) > modulus:
            modulus, residue = gcd(m, 1 << x.dtype.bits), r
    return Relation(lo, hi, modulus, residue % modulus if modulus else residue)


def _itself(value: ValueId) -> Form:
    return Form(0, ((value, 1),))


def _exact(system: System, facts: list[Fact | None], value: ValueId, place: Place) -> Form:
    """The form that a value exactly is: its own where it cannot wrap at the end, else the value itself."""
    term = system.values[value]
    sums = system.sums(term.form, place)
    extend(system, facts)
    found = sums.interval(facts)
    least, greatest = bounds(term.dtype)
    if found is not None and least <= found[0] and found[1] <= greatest:
        return term.form
    return _itself(value)
