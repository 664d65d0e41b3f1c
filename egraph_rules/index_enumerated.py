"""What operators do to a few values: each combination is computed, as every division does it.

Of x in {4, 20} and y in {3, 5} the product is one of 12, 20, 60, 100. So an INT8 product that wraps for no combination that can occur is
known not to, and `(x * 256) // 16` of one that does is known as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias

from egraph_rules.index_bounds import Sums
from egraph_rules.index_domain import Fact, bounds, one_of, wrapped
from egraph_rules.index_values import Form, ValueId
from pypto_ir.dtypes import DType
from pypto_ir.interp.scalars import DIVISIONS, operation, operation_of_one
from pypto_ir.interp.values import RunError

#: more combinations than these are not tried
COMBINATIONS = 64


def enumerable(facts: Iterable[Fact]) -> list[Sequence[int]] | None:
    """The values of every fact, None where their combinations are not few."""
    found = []
    for fact in facts:
        members = fact.members
        if members is None:
            return None
        found.append(members)
    return found if prod(map(len, found)) <= COMBINATIONS else None


def results(op: str, dtype: DType, operands: list[Fact], same: bool) -> tuple[bool, Fact | None]:
    """Whether an operator was tried on all values, and the fact of what it gives; None where no combination has a result. `same` says
    that both operands are one value."""
    values = enumerable(operands[:1] if same else operands)
    if values is None:
        return False, None
    if len(operands) == 1:
        unary = operation_of_one(op, operands[0].dtype)
        return True, one_of(dtype, (int(unary(v)) for v in values[0]))
    pairs = [(v, v) for v in values[0]] if same else list(product(values[0], values[1]))
    return True, one_of(dtype, _computed(op, dtype, pairs))


def _computed(op: str, dtype: DType, pairs: Sequence[tuple[int, int]]) -> set[int]:
    """What an operator may give for pairs of numbers, by every division."""
    found = set()
    for division in DIVISIONS if op in ("floordiv", "mod") else DIVISIONS[:1]:
        binary = operation(op, dtype, division)
        for a, b in pairs:
            try:
                found.add(int(binary(a, b)))
            except RunError:
                continue
    return found


#: what an expression of constants is by each of DIVISIONS
Closed: TypeAlias = tuple[int, ...]


def closed(op: str, dtype: DType, operands: Sequence[Closed]) -> Closed | None:
    """An integer operation on two closed operands of its own type, with one meaning of division throughout: of UINT8 `240 // 8 // 8` is 3,
    or 0 where kernels read -16 for 240, but never 31, which is 254 // 8. None where it has no result."""
    a, b = operands
    try:
        return tuple(int(operation(op, dtype, d)(x, y)) for d, x, y in zip(DIVISIONS, a, b, strict=True))
    except RunError:
        return None


@dataclass(frozen=True, slots=True)
class Joint:
    """An operation on two forms with an atom in common: `(x + 8) * (x + x)` of x in {0, 8} is one of 0, 256."""

    op: str
    forms: tuple[Form, Form]
    atoms: tuple[tuple[ValueId, int], ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(node for _, node in self.atoms)

    def fact(self, dtype: DType, facts: Sequence[Fact | None]) -> Fact | None:
        """What the values of the atoms say; the whole type where they are not few."""
        known = [fact for node in self.nodes if (fact := facts[node]) is not None]
        values = enumerable(known) if len(known) == len(self.atoms) else None
        if values is None:
            return Fact(dtype, *bounds(dtype))
        pairs = []
        for each in product(*values):
            numbers = {atom: v for (atom, _), v in zip(self.atoms, each, strict=True)}
            a, b = (wrapped(form.constant + sum(k * numbers[atom] for atom, k in form.terms), dtype) for form in self.forms)
            pairs.append((a, b))
        return one_of(dtype, _computed(self.op, dtype, pairs))


def sum_of(sums: Sums, dtype: DType, facts: Sequence[Fact | None]) -> Fact | None:
    """The fact of a linear form, brought into a type, by all values of its atoms; the whole type where they are not few."""
    least, greatest = bounds(dtype)
    terms = sums.form.terms
    values = enumerable(f for atom, _ in terms if (f := facts[sums.places[atom]]) is not None)
    if values is None or len(values) < len(terms):
        return Fact(dtype, least, greatest)
    exact = (sums.form.constant + sum(k * v for (_, k), v in zip(terms, each, strict=True)) for each in product(*values))
    return one_of(dtype, (wrapped(n, dtype) for n in exact))
