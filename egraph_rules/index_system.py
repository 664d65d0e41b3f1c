"""The system of equations of a program: values, nodes, and how the node of a value at a place is found or made.

Asked for the node of 16 * c in an arm where c >= 2, it takes the node from outside of the arm and makes one of its own, with the refined
c below it, since more is known there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egraph_rules.index_bounds import Limit, Sums
from egraph_rules.index_division import Division, split
from egraph_rules.index_domain import Fact, bounds, one_of
from egraph_rules.index_enumerated import Closed, Joint, closed
from egraph_rules.index_nodes import Given, Node, NodeId, Operation, Rule
from egraph_rules.index_places import Place
from egraph_rules.index_values import Form, Term, ValueId, Values
from pypto_ir.dtypes import DType
from pypto_ir.interp.scalars import DIVISIONS

#: how many values a form's bounds take into account, and how far from its atoms
_REACH, _VALUES = 3, 24
#: of how many atoms all combinations of values may be tried
_JOINT = 4


class System:
    """Values and nodes of one program. `order` ranks nodes for the solver: definitions before uses where that can be."""

    def __init__(self) -> None:
        self.values = Values()
        self.nodes: list[Node] = []
        self.order: list[int] = []
        self._rank = 0
        self._making: set[tuple[ValueId, int]] = set()
        self._by_division: dict[ValueId, Closed | None] = {}

    def add(self, rule: Rule, form: Form, head: bool = False) -> NodeId:
        """A new node."""
        self.nodes.append(Node(rule, form, head))
        self.order.append(0)
        self.rank(len(self.nodes) - 1)
        return len(self.nodes) - 1

    def rank(self, node: NodeId) -> None:
        """Put a node behind all others in the order."""
        self.order[node] = self._rank
        self._rank += 1

    def leaf(self, dtype: DType, name: str, place: Place, rule: Rule, head: bool = False) -> ValueId:
        """A new value without an expression, and its node at a place."""
        value = self.values.leaf(dtype, name)
        place.nodes[value] = self.add(rule, self.values[value].form, head)
        return value

    def term(self, value: ValueId, place: Place, without: frozenset[ValueId] = frozenset()) -> Term:
        """What a value is at a place: the first of its ways."""
        return self.ways(value, place, without)[0]

    def ways(self, value: ValueId, place: Place, without: frozenset[ValueId] = frozenset()) -> list[Term]:
        """What a value is at a place, made without itself and some others. Of equal operands that it was written with somewhere not all
        are in view everywhere: `0 * n` is the value that `(i - i) * n` is in a loop over i, and that `(m - m) * n` is where m is it."""
        term = self.values[value]
        others = self.values.others.get(value, ())
        if not others:
            return [term]
        without |= {value}
        found = [way for way in (term.operands, *others) if all(self.in_view(o, place, without) for o in way)]
        return [term if way is term.operands else replace(term, operands=way) for way in found] or [term]

    def in_view(self, value: ValueId, place: Place, without: frozenset[ValueId] = frozenset()) -> bool:
        """True where all that a value is made of is known at a place, and none of it is one of `without`."""
        term = self.values[value]
        if place.node(value) is not None or not (term.operands or term.op == "leaf"):
            return True
        if term.op == "leaf" or value in without:
            return False
        within = without | {value}
        return any(all(self.in_view(o, place, within) for o in way) for way in (term.operands, *self.values.others.get(value, ())))

    def node(self, value: ValueId, place: Place) -> NodeId:
        """The node of a value at a place."""
        found = place.node(value)
        term = self.values[value]
        if term.op == "leaf" or (found is not None and not self._refined(term, place, found[1])):
            if found is None:
                raise KeyError(f"{term.name} has no value here")
            return found[0]
        outer = None if found is None else found[0]
        if outer is not None and (value, id(place)) in self._making:
            return outer  # a relation leads back to what is being made
        term = self.term(value, place, self._begun(place) if self.values.others.get(value) else frozenset())
        self._making.add((value, id(place)))
        place.nodes[value] = made = self._made(value, term, place, outer)
        self._making.discard((value, id(place)))
        return made

    def _begun(self, place: Place) -> frozenset[ValueId]:
        """The values that are being made at a place."""
        return frozenset(v for v, where in self._making if where == id(place))

    def _refined(self, term: Term, place: Place, upto: Place) -> bool:
        """True where a place inside of `upto` knows more of what a value is made of."""
        for p in place.around():
            if p is upto:
                return False
            if p.refines and any(v in p.refines for v in (*term.operands, *(atom for atom, _ in term.form.terms))):
                return True
        return False

    def _made(self, value: ValueId, term: Term, place: Place, outer: NodeId | None) -> NodeId:
        if term.constant is not None:
            fact = Fact(term.dtype, term.constant, term.constant, 0, term.constant)
            return self.add(Given(fact), term.form)
        operands = tuple(self.node(o, place) for o in term.operands)
        if outer is None and len(set(by_division := self._closed(value) or ())) > 1 and (known := one_of(term.dtype, by_division)):
            outer = self.add(Given(known), term.form)
        atom = term.form.terms == ((value, 1),)
        sums = None if atom else self.sums(term.form, place)
        same = len(operands) == 2 and self.values.same[term.operands[0]] == self.values.same[term.operands[1]]
        joint = self._joint(term, place) if atom else None
        return self.add(Operation(term, operands, sums, same, outer, self._division(term, place), joint), term.form)

    def _closed(self, value: ValueId) -> Closed | None:
        """What a value is by each meaning of division, where it is made of integer constants of one type."""
        term = self.values[value]
        if term.constant is not None:
            return (term.constant,) * len(DIVISIONS)
        if value not in self._by_division:
            self._by_division[value] = None
            if len(term.operands) == 2 and term.dtype.is_int and all(self.values[o].dtype is term.dtype for o in term.operands):
                known = [c for o in term.operands if (c := self._closed(o)) is not None]
                if len(known) == 2:
                    self._by_division[value] = closed(term.op, term.dtype, known)
        return self._by_division[value]

    def _joint(self, term: Term, place: Place) -> Joint | None:
        """The forms of two operands that have an atom in common."""
        if len(term.operands) != 2 or not term.dtype.is_int or any(self.values[o].dtype is not term.dtype for o in term.operands):
            return None
        a, b = (self.values[o].form for o in term.operands)
        atoms = {atom for atom, _ in (*a.terms, *b.terms)}
        if len(atoms) == len(a.terms) + len(b.terms) or len(atoms) > _JOINT:
            return None
        return Joint(term.op, (a, b), tuple((atom, self.node(atom, place)) for atom in sorted(atoms)))

    def _division(self, term: Term, place: Place) -> Division | None:
        """The split of a dividend by a constant, where its form has one."""
        if term.op not in ("floordiv", "mod") or not term.dtype.is_int:
            return None
        x, by = (self.values[o] for o in term.operands)
        if by.constant is None or by.constant < 2 or x.dtype is not term.dtype or by.constant > bounds(term.dtype)[1] // 2:
            return None
        parts = split(x.form, by.constant)
        if parts is None:
            return None
        whole, multiple, rest = (self.sums(form, place) for form in (x.form, *parts))
        return Division(term.op, by.constant, whole, multiple, rest)

    def enter(self, place: Place, rule: Rule) -> None:
        """Say when a place is reached."""
        place.reached = self.add(rule, Form(1))

    # ---- relations ----

    def sums(self, form: Form, place: Place) -> Sums:
        """What bounds a form at a place."""
        places: dict[ValueId, NodeId] = {}
        limits: dict[ValueId, tuple[Limit, ...]] = {}
        forms: dict[ValueId, tuple[Form, int, int]] = {}
        waiting = [(atom, _REACH if len(form.terms) > 1 else 1) for atom, _ in form.terms]
        for value, reach in waiting:  # grows while it is walked
            if value in places:
                continue
            places[value] = self.node(value, place)
            if not reach or len(places) > max(_VALUES, len(form.terms)):
                continue
            own = self._own_form(value, place)
            if own is not None:
                forms[value] = own
                waiting.extend((atom, reach - 1) for atom, _ in own[0].terms)
            found = (*self._by_meaning(value, place), *place.limits_of(value)) if len(form.terms) > 1 else ()
            if found:
                limits[value] = found
                waiting.extend((limit.other, reach - 1) for limit in found)
        return Sums(form, places, self._useful(form, limits), forms)

    def _useful(self, form: Form, limits: dict[ValueId, tuple[Limit, ...]]) -> dict[ValueId, tuple[Limit, ...]]:
        """The relations that lead, one after the other, to another atom of the form, which may cancel."""
        kept: dict[ValueId, tuple[Limit, ...]] = {}
        atoms = {atom for atom, _ in form.terms}
        for _ in range(_REACH):
            leads = {value: atoms | kept.keys() - {value} for value in limits}
            found = {
                value: tuple(x for x in group if any(a in leads[value] and a != value for a in self._atoms(x.other)))
                for value, group in limits.items()
            }
            found = {value: group for value, group in found.items() if group}
            if found.keys() == kept.keys():
                break
            kept = found
        return kept

    def _atoms(self, value: ValueId) -> tuple[ValueId, ...]:
        return (value, *(atom for atom, _ in self.values[value].form.terms))

    def _own_form(self, value: ValueId, place: Place) -> tuple[Form, int, int] | None:
        """The form that a value exactly is if it lies between two numbers; None for an atom."""
        term = self.term(value, place)
        if term.op == "cast" and term.dtype.is_int:
            source = self.values[term.operands[0]].dtype
            if source.is_int and source.bits < term.dtype.bits:
                least, greatest = bounds(source)
                least = 0 if term.dtype.is_unsigned else least
                return Form(0, ((term.operands[0], 1),)), least, greatest // 2 if source.is_unsigned else greatest
        if term.form.terms == ((value, 1),):
            return None
        return term.form, *bounds(term.dtype)

    def _by_meaning(self, value: ValueId, place: Place) -> list[Limit]:
        """Relations that hold of a value because of what it is: min(a, b) <= a."""
        term = self.term(value, place)
        if len(term.operands) != 2 or not term.dtype.is_int or any(self.values[o].dtype is not term.dtype for o in term.operands):
            return []
        a, b = term.operands
        half = bounds(DType.INDEX if term.dtype.bits == 64 else term.dtype)[1]
        if term.dtype.is_unsigned:
            half = bounds(term.dtype)[1] // 2
        if term.op in ("min", "max"):
            return [Limit(term.op == "min", o) for o in (a, b)]
        if term.op == "mod":
            return [Limit(True, a, guards=((self.node(a, place), 0, half), (self.node(b, place), 0, half)))]
        c = self.values[b].constant
        if term.op == "floordiv" and c is not None and 0 < c <= half:
            dividend = self.node(a, place)
            return [
                Limit(True, a, guards=((dividend, 0, half),)),
                Limit(True, a, scale=c, guards=((dividend, 0, half),)),
                Limit(False, a, 1 - c, scale=c, guards=((dividend, 0, half),)),
            ]
        return []


def closure(nodes: Sequence[Node]) -> list[list[NodeId]]:
    """The users of every node."""
    users: list[list[NodeId]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for n in dict.fromkeys(node.rule.inputs):
            users[n].append(i)
    return users
