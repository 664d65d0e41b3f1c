"""What a condition says of values where it holds, or where it does not.

In the arm of `if 16 * x + 8 < n and y % 16 == 0`, with n at most 100, x is at most 5 and y is a multiple of 16. Only values of that
place are meant: a carried name is another value in the next trip.
"""

from __future__ import annotations

from egraph_rules.index_bounds import Limit
from egraph_rules.index_domain import Fact, bounds, exactly, make, meet
from egraph_rules.index_nodes import Given, Narrowing, NodeId, Refined
from egraph_rules.index_places import Place
from egraph_rules.index_system import System
from egraph_rules.index_values import ValueId, alike
from pypto_ir.dtypes import DType
from pypto_ir.expr import COMPARISONS

_NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def refine(system: System, place: Place, condition: ValueId, holds: bool) -> None:
    """Put into a place what a condition says there; `holds` is its outcome."""
    term = system.term(condition, place)
    if term.constant is not None:
        return
    if term.op in COMPARISONS:
        a, b = term.operands
        op = term.op if holds else _NEGATED[term.op]
        _compare(system, place, op, a, b)
        _compare(system, place, _MIRRORED[op], b, a)
    elif term.op == "not":
        refine(system, place, term.operands[0], not holds)
    elif term.op in ("and", "bitand", "or", "bitor") and holds is (term.op in ("and", "bitand")):
        for part in term.operands:
            refine(system, place, part, holds)
    place.nodes[condition] = system.add(Given(exactly(DType.BOOL, int(holds))), term.form)
    place.refines.add(condition)


def _compare(system: System, place: Place, op: str, a: ValueId, b: ValueId) -> None:
    """`a op b` holds in a place: what that says of a."""
    values = system.values
    x, y = system.term(a, place), values[b]
    if not x.dtype.is_int or not alike(x.dtype, y.dtype) or x.constant is not None:
        return
    other = system.node(b, place)
    _narrow(system, place, a, Refined(system.node(a, place), other, _NARROWINGS[op]))
    _relate(system, place, op, a, b, 0)
    if x.op == "mod" and op == "eq" and y.constant is not None and (c := values[x.operands[1]].constant):
        z = x.operands[0]
        if values[z].constant is None and values[z].dtype is x.dtype and not x.dtype.is_unsigned:
            _narrow(system, place, z, Refined(system.node(z, place), other, _congruent(c, y.constant)))
    if len(x.form.terms) == 1 and x.form.terms[0] != (a, 1):
        (atom, k), c = x.form.terms[0], x.form.constant
        base = system.node(atom, place)
        _narrow(system, place, atom, Refined(base, other, _NARROWINGS[op], (k, c, x.dtype)))
        least, greatest = bounds(x.dtype)
        if k == 1:
            _relate(system, place, op, atom, b, -c, ((base, least - c, greatest - c),))


def _narrow(system: System, place: Place, value: ValueId, rule: Refined) -> None:
    place.nodes[value] = system.add(rule, system.values[value].form)
    place.refines.add(value)


def _relate(
    system: System, place: Place, op: str, a: ValueId, b: ValueId, offset: int, guards: tuple[tuple[NodeId, int, int], ...] = ()
) -> None:
    """The relation `a op b + offset`, where b is no constant."""
    if system.values[b].constant is not None:
        return
    if op in ("lt", "le", "eq"):
        place.add_limit(a, Limit(True, b, offset - (op == "lt"), guards=guards))
    if op in ("gt", "ge", "eq"):
        place.add_limit(a, Limit(False, b, offset + (op == "gt"), guards=guards))


# ---- narrowings ----


def _below(a: Fact, b: Fact) -> Fact | None:
    return make(a.dtype, a.lo, min(a.hi, b.hi - 1), a.modulus, a.residue)


def _at_most(a: Fact, b: Fact) -> Fact | None:
    return make(a.dtype, a.lo, min(a.hi, b.hi), a.modulus, a.residue)


def _above(a: Fact, b: Fact) -> Fact | None:
    return make(a.dtype, max(a.lo, b.lo + 1), a.hi, a.modulus, a.residue)


def _at_least(a: Fact, b: Fact) -> Fact | None:
    return make(a.dtype, max(a.lo, b.lo), a.hi, a.modulus, a.residue)


def _equal(a: Fact, b: Fact) -> Fact | None:
    found = meet(a, b)
    return None if found is None else Fact(a.dtype, found.lo, found.hi, found.modulus, found.residue)


def _different(a: Fact, b: Fact) -> Fact | None:
    c = b.constant
    if c is None or not a.lo <= c <= a.hi:
        return a
    return make(a.dtype, a.lo + (c == a.lo), a.hi - (c == a.hi), a.modulus, a.residue)


def _congruent(c: int, r: int) -> Narrowing:
    """x % c == r: x is congruent to r, whether % floors or truncates."""

    def narrow(a: Fact, _: Fact) -> Fact | None:
        return meet(a, make(a.dtype, *bounds(a.dtype), abs(c), r))

    return narrow


_NARROWINGS: dict[str, Narrowing] = {
    "lt": _below, "le": _at_most, "gt": _above, "ge": _at_least, "eq": _equal, "ne": _different,
}  # fmt: skip
