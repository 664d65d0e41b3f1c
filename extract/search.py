"""Branch and bound on small problems: proves most functions optimal in a few milliseconds, before a solver is loaded.

Demands are met one after the other; every server of an open demand is a branch. A partial choice costs at least what it holds and what
its open demands cannot do without; where that is no less than the best choice known, the branch is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import fsum
from operator import add

from extract.cycles import ZERO, weight
from extract.effort import NODES
from extract.exact import realized
from extract.problem import Candidate, Demand, Problem

#: problems with more candidates go to the solver at once
CANDIDATES = 160


@dataclass(slots=True)
class Found:
    """The best choice known, whether nothing better exists, and how many partial choices were looked at."""

    chosen: list[int]
    cost: float
    complete: bool
    nodes: int = 0


def search(problem: Problem, chosen: list[int], cost: float, nodes: int = NODES) -> Found:
    """Improve on a choice until it is proved best or `nodes` partial choices were looked at."""
    if len(problem.live) > CANDIDATES:
        return Found(chosen, cost, False)
    run = _Search(problem, Found(chosen, cost, True), nodes)
    run.start()
    return replace(run.best, nodes=nodes - run.nodes)


def listed(problem: Problem, limit: float, nodes: int) -> tuple[list[tuple[float, list[int]]] | None, int]:
    """All choices that cost less than `limit` with their costs, in the order in which the search comes to them, and how many partial
    choices were looked at; None where `nodes` are too few for it."""
    if len(problem.live) > CANDIDATES:
        return None, 0
    run = _Search(problem, Found([], limit, True), nodes, all=[])
    run.start()
    return (run.all if run.best.complete else None), nodes - run.nodes


#: busy cycles of each pipe and instructions, as `Cycles.values`
_Load = tuple[float, ...]


@dataclass(slots=True)
class _Search:
    """A partial choice: the candidates taken, the classes and places that they make, and the load and weight of every region."""

    problem: Problem
    best: Found
    nodes: int
    #: where all choices cheaper than the best known are asked for, not the cheapest: those found so far
    all: list[tuple[float, list[int]]] | None = None
    taken: dict[int, None] = field(default_factory=dict)
    made: dict[int, int] = field(default_factory=dict)
    places: set[tuple[int, int]] = field(default_factory=set)
    loads: dict[int, _Load] = field(default_factory=dict)
    weights: dict[int, float] = field(default_factory=dict)
    servers: dict[Demand, list[int]] = field(default_factory=dict)
    musts: dict[int, frozenset[int]] = field(default_factory=dict)
    least: dict[int, tuple[int, _Load]] = field(default_factory=dict)
    open: list[Demand] = field(default_factory=list)
    #: a tile that is made twice is live for less long: conditions may ask for that, costs never do
    again: bool = False

    def start(self) -> None:
        """Prepare and start with the roots."""
        problem = self.problem
        for region in sorted({*problem.loads, *(problem.candidates[i].region for i in problem.live)}):
            self.load(region, problem.loads.get(region, ZERO).values)
        self.again = bool(problem.conditions)
        for c, indices in problem.by_class.items():
            members = [problem.candidates[i] for i in indices]
            regions = {k.region for k in members}
            # a form is a candidate of its handover: it costs something there, and nothing again as a form
            if len(regions) == 1 and all(k.c == c for k in members):
                columns = zip(*(k.cycles.values for k in members), strict=True)
                self.least[c] = (regions.pop(), tuple(map(min, columns)))
        self.open = list(reversed(problem.roots))
        self.step()

    def serving(self, d: Demand) -> list[int]:
        found = self.servers.get(d)
        if found is None:
            candidates, regions = self.problem.candidates, self.problem.regions.items
            found = sorted(
                self.problem.servers(d),
                key=lambda j: (candidates[j].cycles.total * regions[candidates[j].region].trips, not candidates[j].own, j),
            )
            self.servers[d] = found
        return found

    def must(self, c: int) -> frozenset[int]:
        """Classes that every way of making c needs, as far as two steps down show it."""
        found = self.musts.get(c)
        if found is None:
            self.musts[c] = frozenset((c,))
            members = [self.problem.candidates[i] for i in self.problem.by_class.get(c, ())]
            reads = [frozenset((k.c, *(d.c for d in (*k.demands, *k.obligations)))) for k in members]
            common = frozenset.intersection(*reads) if reads else frozenset()
            found = self.musts[c] = frozenset((c,)).union(*(self.must(child) for child in sorted(common)))
        return found

    def bound(self) -> float:
        """What the partial choice costs at least."""
        more: dict[int, _Load] = {}
        for c in frozenset[int]().union(*(self.must(d.c) for d in self.open)).difference(self.made):
            if c in self.least:
                region, load = self.least[c]
                more[region] = tuple(map(add, more.get(region) or self.loads[region], load))
        weights, code = dict(self.weights), fsum(load[-1] for load in self.loads.values())
        for region, load in more.items():
            weights[region] = weight(self.problem.regions.items[region].trips, load)
            code += load[-1] - self.loads[region][-1]
        return fsum(weights.values()) + self.problem.code.cost(code)

    def served(self, d: Demand) -> bool:
        return any(j in self.taken for j in self.serving(d))

    def step(self) -> None:
        """Meet the next open demand in every way that can still be better than the best choice."""
        waiting = []
        while self.open and self.served(self.open[-1]) and not self.again:
            waiting.append(self.open.pop())
        if not self.open:
            self.finish()
        else:
            d = self.open.pop()
            if self.served(d):
                self.step()
            self.branch(d)
            self.open.append(d)
        self.open.extend(reversed(waiting))

    def branch(self, d: Demand) -> None:
        """Take every server of a demand that is not taken yet."""
        candidates = self.problem.candidates
        for j in self.serving(d):
            k = candidates[j]
            if j in self.taken or (k.c, k.region) in self.places:
                continue
            if self.nodes <= 0:
                self.best.complete = False
                break
            self.nodes -= 1
            load, size = self.loads[k.region], len(self.open)
            self.take(j, k)
            if self.bound() < self.best.cost - 1e-9:
                self.step()
            del self.open[size:]
            self.leave(j, k, load)

    def take(self, j: int, k: Candidate) -> None:
        """Make a candidate part of the choice."""
        self.taken[j] = None
        self.made[k.c] = self.made.get(k.c, 0) + 1
        if k.c >= 0:
            self.places.add((k.c, k.region))
        self.load(k.region, tuple(map(add, self.loads[k.region], k.cycles.values)))
        self.open.extend(reversed((*k.demands, *k.obligations)))

    def leave(self, j: int, k: Candidate, load: _Load) -> None:
        """Take a candidate out again, whose region had this load without it."""
        del self.taken[j]
        self.made[k.c] -= 1
        if not self.made[k.c]:
            del self.made[k.c]
        self.places.discard((k.c, k.region))
        self.load(k.region, load)

    def load(self, region: int, load: _Load) -> None:
        """Give a region another load."""
        self.loads[region], self.weights[region] = load, weight(self.problem.regions.items[region].trips, load)

    def finish(self) -> None:
        chosen = list(self.taken)
        cost = self.problem.cost(chosen)
        if self.all is not None:
            if cost < self.best.cost - 1e-9:
                self.all.append((cost, chosen))
        elif cost < self.best.cost - 1e-9 and len(realized(self.problem, chosen)) == len(chosen):
            self.best.chosen, self.best.cost = chosen, cost
