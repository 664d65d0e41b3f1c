"""What an expression is at each call of its function, where all calls together say too little.

`x + y` of calls that give (8, 8) and (16, 0) is 16 in both, although x may be 8 or 16 and y 0 or 8, and so x + y also 8 or 24. One code
serves all calls, so what is asked for must hold of every one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from egraph_rules.index_calls import arguments, called
from egraph_rules.index_domain import Fact, join
from egraph_rules.index_equations import Equations, FunctionEquations
from egraph_rules.index_operands import Operands
from egraph_rules.index_places import Place
from egraph_rules.index_solve import extend
from egraph_rules.index_values import Term, ValueId

#: calls of calls that are looked at, how many calls in all, and how many values of one expression
_DEPTH, _CALLS, _VALUES = 3, 64, 64


class Contexts:
    """Facts of expressions of a program call by call."""

    def __init__(self, equations: Equations, facts: list[Fact | None]) -> None:
        self.equations, self.system, self.facts = equations, equations.system, facts

    def fact(self, f: FunctionEquations, value: ValueId, place: Place) -> Fact | None:
        """What holds of a value at a place in all calls of its function; None where calls say nothing more of it."""
        found: Fact | None = None
        count = 0
        for inner, caller, where in self._expanded(f, value, place, _DEPTH):
            count += 1
            if inner is None or count > _CALLS:
                return None
            if self.facts[caller.reach()] is None:
                continue
            node = self.system.node(inner, where)
            extend(self.system, self.facts)
            found = join(found, self.facts[node])
        return found

    def _expanded(self, f: FunctionEquations, value: ValueId, place: Place, depth: int) -> Iterator[tuple[ValueId | None, Place, Place]]:
        """The value with arguments for parameters, for each call, with the place of the call and one where all of it is known; None for
        a call that says nothing of it."""
        params = {p for p in f.params if isinstance(p, int)}
        parts = self._parts(value, place)
        used = _leaves(parts)
        if parts is None or not used & params or f.entered.outside:
            yield None, place, place
            return
        sites = self.equations.graph.of(f.function.name)
        for site in sites if len(sites) <= _CALLS else ():
            caller = self.equations.functions[site.caller]
            given = None if (call := called(site.statement)) is None else arguments(call, f.function)
            if given is None or caller is f:
                yield None, place, place
                return
            at = caller.place(site.statement)
            handles = (None if e is None else Operands(self.equations, caller).handle(e, at) for e in given)
            by = {p: a for p, a in zip(f.params, handles, strict=True) if isinstance(p, int) and isinstance(a, int)}
            inner = self._substituted(parts, by) if used & params <= by.keys() else None
            if inner is None:
                yield None, at, at
                return
            joined = Place(at)
            joined.nodes.update({leaf: self.system.node(leaf, place) for leaf in used - params})
            deeper = _leaves(self._parts(inner, joined))
            more = {p for p in caller.params if isinstance(p, int)}
            if depth > 1 and deeper & more and not caller.entered.outside:
                yield from self._expanded(caller, inner, joined, depth - 1)
            else:
                yield inner, at, joined

    def _parts(self, value: ValueId, place: Place) -> dict[ValueId, Term] | None:
        """What a value is made of at a place, every part behind its own parts; None for one of too many values."""
        found, above = dict[ValueId, Term](), set[ValueId]()

        def add(v: ValueId) -> bool:
            if v in found:
                return True
            if v in above or len(found) + len(above) >= _VALUES:
                return False
            term = self.system.term(v, place, frozenset(above))
            above.add(v)
            whole = all(map(add, term.operands))
            above.discard(v)
            found[v] = term
            return whole

        return found if add(value) else None

    def _substituted(self, parts: Mapping[ValueId, Term], by: Mapping[ValueId, ValueId]) -> ValueId | None:
        """The last of these parts with others for some leaves, each handed on as its type; None where types do not mix."""
        values, made = self.system.values, dict[ValueId, ValueId]()
        new: ValueId | None = None
        for v, term in parts.items():
            known = [made[o] for o in term.operands]
            if v in by:
                new = values.cast(by[v], term.dtype)
            elif known == list(term.operands):
                new = v
            elif term.op == "cast":
                new = values.cast(known[0], term.dtype)
            else:
                new = values.unary(term.op, known[0]) if len(known) == 1 else values.binary(term.op, known[0], known[1])
            if new is None:
                return None
            made[v] = new
        return new


def _leaves(parts: Mapping[ValueId, Term] | None) -> set[ValueId]:
    return set() if parts is None else {v for v, term in parts.items() if term.op == "leaf"}
