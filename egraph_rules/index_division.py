"""Quotients and rests of sums, of which one part is a multiple of the divisor.

(256 * b + r) // 16 with r in [0, 15] is 16 * b, a multiple of 16, although nothing is known of the sum as such: the sum splits into
16 * (16 * b) and a rest whose own quotient is 0. That is so for floor division of exact numbers, and for truncating division of what is
not negative, so the sum must be neither negative nor wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egraph_rules.index_bounds import Sums
from egraph_rules.index_domain import Fact, bounds, make
from egraph_rules.index_values import Form
from pypto_ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Division:
    """`whole // by` or `whole % by`, where `whole = by * multiple + rest`."""

    op: str
    by: int
    whole: Sums
    multiple: Sums
    rest: Sums

    @property
    def nodes(self) -> tuple[int, ...]:
        return (*self.whole.nodes, *self.multiple.nodes, *self.rest.nodes)

    def fact(self, dtype: DType, facts: Sequence[Fact | None]) -> Fact | None:
        """What the split says of the result; the whole type where it says nothing."""
        least, greatest = bounds(dtype)
        whole, rest, multiple = (s.interval(facts) for s in (self.whole, self.rest, self.multiple))
        if whole is None or rest is None or multiple is None:
            return None
        largest = greatest // 2 if dtype.is_unsigned else greatest
        low, high = rest[0] // self.by, rest[1] // self.by
        if whole[0] < 0 or whole[1] > largest or (self.op == "mod" and low != high):
            return make(dtype, least, greatest)
        if self.op == "mod":
            modulus, residue = self.rest.congruence(facts)
            return make(dtype, rest[0] - low * self.by, rest[1] - low * self.by, modulus, residue - low * self.by)
        modulus, residue = self.multiple.congruence(facts) if low == high else (1, 0)
        return make(dtype, max(least, multiple[0] + low), min(greatest, multiple[1] + high), modulus, residue + low)


def split(form: Form, by: int) -> tuple[Form, Form] | None:
    """(multiple, rest) with `form = by * multiple + rest`, the constant's rest not negative; None where there is nothing to split."""
    inside = tuple((atom, k // by) for atom, k in form.terms if k % by == 0)
    outside = tuple((atom, k) for atom, k in form.terms if k % by)
    if not inside or (not outside and form.constant % by == 0):
        return None
    return Form(form.constant // by, inside), Form(form.constant % by, outside)
