"""The choice as a problem: which node of which class is materialised in which region.

A candidate (class, option, region) has a fixed place. It serves every demand that comes later in its region or in a region inside. What it
reads are demands at its own place; what a carried leaf obliges to are demands at the loop's head and at the end of its body. Roots are the
demands of the skeleton: stores, results, operands.

The cost of a choice is the objective of the regions' loads: what the skeleton does in them, and the candidates that were chosen there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from egraph_rules.graph import Graph
from extract.choice import FORMS, Choice, Form
from extract.cuts import Conditions
from extract.cycles import ZERO, Cycles, objective
from extract.regions import Regions
from extract.target import FREE_CODE, Code


@dataclass(frozen=True, slots=True)
class Demand:
    """Class `c` is wanted before statement `position` of `region`; `consumed` where it is overwritten there in place, so that no loop
    may lie between: the next trip would find what this one wrote."""

    c: int
    region: int
    position: int
    consumed: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """Option `option` of class `c`, materialised in `region` before statement `position`; `own` where the author does so. `demands` are
    what it reads, `obligations` what a carried leaf makes others provide (no order follows from them: a back edge is no circle)."""

    c: int
    option: int
    region: int
    position: int
    cycles: Cycles
    demands: tuple[Demand, ...]
    obligations: tuple[Demand, ...]
    own: bool


@dataclass(slots=True)
class Problem:
    """Candidates, the demands that every choice must meet, the load of regions beside them, if any, and what else is known of choices.
    `least` is `choice` with every option at the least that it costs, as candidates cost. `code` is the price of static code, `surely` the
    instructions that every choice has."""

    graph: Graph
    choice: Choice
    least: Choice
    regions: Regions
    candidates: list[Candidate] = field(default_factory=list)
    by_class: dict[int, list[int]] = field(default_factory=dict)
    roots: list[Demand] = field(default_factory=list)
    loads: dict[int, Cycles] = field(default_factory=dict)
    conditions: Conditions = field(default_factory=lambda: Conditions([], []))
    code: Code = FREE_CODE
    surely: float = 0.0
    #: candidates of a class by region, and the members that they are of
    _held: dict[int, tuple[list[int], dict[int, list[int]]]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def servers(self, d: Demand) -> list[int]:
        """The candidates that meet a demand: earlier, in its region or one around it. A form that a value is handed on in has no place."""
        if d.c < 0:
            return self.by_class.get(d.c, [])
        found, held = [], self._by_region(d.c)
        region, position = d.region, d.position
        while held:
            found += [i for i in held.get(region, ()) if self.candidates[i].position <= position]
            if not region:
                break
            # the statement around it, in which the demand lies
            position, region = self.regions.items[region].owner, self.regions.items[region].parent
        found.sort()
        if d.consumed:
            # an instance of this trip, where there is one; else the op gets a copy of the one that stands outside
            loop = self.regions.loop(d.region)
            return [i for i in found if self.regions.loop(self.candidates[i].region) == loop] or found
        return found

    def _by_region(self, c: int) -> dict[int, list[int]]:
        members = self.by_class.get(c, [])
        of, held = self._held.get(c, ([], {}))
        if of is not members:
            held = {}
            for i in members:
                held.setdefault(self.candidates[i].region, []).append(i)
            self._held[c] = members, held
        return held

    def prune(self) -> None:
        """Leave out candidates that read something which no candidate provides there."""
        while True:
            dead = {
                i
                for members in self.by_class.values()
                for i in members
                if not all(self.servers(d) for d in (*self.candidates[i].demands, *self.candidates[i].obligations))
            }
            if not dead:
                return
            self.by_class = {c: [i for i in members if i not in dead] for c, members in self.by_class.items()}

    def held(self) -> dict[int, tuple[float, ...]]:
        """The trips of the regions that may hold a class, each once, least first."""
        items, candidates = self.regions.items, self.candidates
        return {c: tuple(sorted({items[candidates[i].region].trips for i in members})) for c, members in self.by_class.items()}

    @property
    def live(self) -> list[int]:
        """The candidates that may be chosen, each once: what hands a carry on is listed by its handover and by its form."""
        return sorted({i for members in self.by_class.values() for i in members})

    def loads_with(self, chosen: list[int]) -> dict[int, Cycles]:
        """The loads of regions with these candidates in them."""
        loads = dict(self.loads)
        for i in chosen:
            k = self.candidates[i]
            loads[k.region] = loads.get(k.region, ZERO) + k.cycles
        return loads

    def cost(self, chosen: list[int]) -> float:
        """The objective of a set of candidates, infinite where the conditions rule it out."""
        members = set(chosen)
        if not self.conditions.allow(members):
            return inf
        loads = self.loads_with(chosen)
        for region, cycles in self.conditions.extra(members):
            loads[region] = loads.get(region, ZERO) + cycles
        return objective(((self.regions.items[r].trips, load) for r, load in loads.items()), self.code)


#: classes below zero: for each handover one that it has a form, and one for each form
_STRIDE = 1 + len(FORMS)


def handover_class(h: int) -> int:
    """The class that stands for "handover h has a form"."""
    return -1 - _STRIDE * h


def handover_of(c: int) -> int:
    """The handover that a class of `handover_class` or `form_class` speaks of."""
    return (-1 - c) // _STRIDE


def form_class(h: int, form: Form) -> int:
    """The class that stands for "handover h has this form"."""
    return -2 - _STRIDE * h - FORMS.index(form)
