"""Whether an expression can wrap: whether some operation on the way to its value leaves the range of its type.

`i * i` of an INT32 i in [0, 46352] can: 46352**2 is above 2**31. `n - c` of an INT32 c in [0, n - 1] cannot, whatever n is, although
the intervals of n and c alone do not say so.
"""

from __future__ import annotations

from collections.abc import Sequence

from egraph_rules.index_domain import Fact, bounds
from egraph_rules.index_nodes import NodeId, Operation
from egraph_rules.index_places import Place
from egraph_rules.index_solve import extend
from egraph_rules.index_system import System
from egraph_rules.index_values import Form, Term, ValueId, combine
from pypto_ir.dtypes import DType

#: operations whose result always lies in their type where their operands do
_INSIDE = frozenset({"mod", "min", "max", "bitand", "bitor", "bitxor", "shr", "and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge"})


def cannot_wrap(system: System, facts: list[Fact | None], value: ValueId, place: Place) -> bool:
    """True where no operation of a value, definitions included, can leave its type's range at a place."""
    seen: set[ValueId] = set()
    waiting = [value]
    while waiting:
        v = waiting.pop()
        if v in seen:
            continue
        seen.add(v)
        for term in system.ways(v, place):
            if term.operands and not stays(system, facts, term, system.node(v, place), place):
                return False
            waiting.extend(term.operands)
    return True


def stays(system: System, facts: list[Fact | None], term: Term, node: NodeId, place: Place) -> bool:
    """True where one operation on operands that did not wrap does not wrap."""
    operands = [system.node(o, place) for o in term.operands]
    extend(system, facts)
    known = [facts[n] for n in operands]
    if any(f is None for f in known):
        return True
    reached = _reach(term, [f for f in known if f is not None])
    if reached is None:
        return False
    least, greatest = bounds(term.dtype)
    if least <= reached[0] and reached[1] <= greatest:
        return True
    found = _by_form(system, facts, term, node)
    return found is not None and least <= found[0] and found[1] <= greatest


def _by_form(system: System, facts: Sequence[Fact | None], term: Term, node: NodeId) -> tuple[int, int] | None:
    """The exact range of an operation by its form, where its form is what exact operations give."""
    rule = system.nodes[node].rule
    if not term.whole or not isinstance(rule, Operation) or rule.sums is None:
        return None
    forms = [system.values[o].form for o in term.operands]
    exact: Form | None = combine(forms[0], forms[1], 1 if term.op == "add" else -1) if term.op in ("add", "sub") else None
    return rule.sums.interval(facts) if exact is None or exact == term.form else None


def _reach(term: Term, known: list[Fact]) -> tuple[int, int] | None:
    """The least and greatest exact result of an operation; None where its operands are read in two ways."""
    a, b = known[0], known[-1]
    if term.op in _INSIDE or term.dtype is DType.BOOL:
        return bounds(term.dtype)
    if not term.dtype.is_int or any(not f.dtype.is_int for f in known):
        return None
    least, greatest = bounds(term.dtype)
    if term.op != "cast" and any(not f.within(least, greatest) for f in known):
        return None
    match term.op:
        case "cast":
            extended = a.dtype.is_unsigned and a.dtype.bits < term.dtype.bits and a.hi >> (a.dtype.bits - 1)
            return None if extended else a.interval
        case "neg":
            return -a.hi, -a.lo
        case "abs":
            return 0, max(abs(a.lo), abs(a.hi))
        case "bitnot":
            return ~a.hi, ~a.lo
        case "add":
            return a.lo + b.lo, a.hi + b.hi
        case "sub":
            return a.lo - b.hi, a.hi - b.lo
        case "mul":
            return _corners([x * y for x in a.interval for y in b.interval])
        case "shl" if b.lo >= 0 and b.hi < term.dtype.bits:
            return _corners([x << y for x in a.interval for y in b.interval])
        case "pow" if b.lo >= 0 and b.hi <= term.dtype.bits:
            most = max(abs(a.lo), abs(a.hi), 1) ** b.hi
            return -most if a.lo < 0 else 0, most
        case "floordiv":
            return bounds(term.dtype) if a.lo > least or b.lo > -1 or b.hi < -1 else None
    return None


def _corners(results: list[int]) -> tuple[int, int]:
    return min(results), max(results)
