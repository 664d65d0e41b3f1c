"""Branch and bound on small problems: proves most functions optimal in a few milliseconds, before a solver is loaded.

Demands are met one after the other; every server of an open demand is a branch. A partial choice costs at least what it holds and what
its open demands cannot do without; where that is no less than the best choice known, the branch is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from extract.cycles import Cycles, objective
from extract.exact import realized
from extract.problem import Demand, Problem

#: problems with more candidates go to the solver at once
CANDIDATES = 160
#: partial choices that are looked at
NODES = 4_000


@dataclass(slots=True)
class Found:
    """The best choice known and whether nothing better exists."""

    chosen: list[int]
    cost: float
    complete: bool


def search(problem: Problem, chosen: list[int], cost: float, nodes: int = NODES) -> Found:
    """Improve on a choice until it is proved best or `nodes` partial choices were looked at."""
    if sum(map(len, problem.by_class.values())) > CANDIDATES:
        return Found(chosen, cost, False)
    run = _Search(problem, Found(chosen, cost, True), nodes)
    run.start()
    return run.best


@dataclass(slots=True)
class _Search:
    problem: Problem
    best: Found
    nodes: int
    taken: dict[int, None] = field(default_factory=dict)
    loads: list[Cycles] = field(default_factory=list)
    servers: dict[Demand, list[int]] = field(default_factory=dict)
    musts: dict[int, frozenset[int]] = field(default_factory=dict)
    least: dict[int, tuple[int, Cycles]] = field(default_factory=dict)
    open: list[Demand] = field(default_factory=list)
    #: a tile that is made twice is live for less long: conditions may ask for that, costs never do
    again: bool = False

    def start(self) -> None:
        """Prepare and start with the roots."""
        problem = self.problem
        self.loads = list(problem.loads)
        self.again = bool(problem.conditions.cuts or problem.conditions.rows)
        for c, members in problem.by_class.items():
            regions = {problem.candidates[i].region for i in members}
            if len(regions) == 1:
                columns = zip(*(problem.candidates[i].cycles.values for i in members), strict=True)
                self.least[c] = (regions.pop(), Cycles(*map(min, columns)))
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
            reads = [frozenset(d.c for d in (*k.demands, *k.obligations)) for k in members]
            common = frozenset.intersection(*reads) if reads else frozenset()
            found = self.musts[c] = frozenset((c,)).union(*(self.must(child) for child in sorted(common)))
        return found

    def bound(self) -> float:
        """What the partial choice costs at least."""
        problem, loads = self.problem, list(self.loads)
        made = {problem.candidates[i].c for i in self.taken}
        for c in frozenset().union(*(self.must(d.c) for d in self.open)) - made:
            if c in self.least:
                region, cycles = self.least[c]
                loads[region] = loads[region] + cycles
        return objective((r.trips, load) for r, load in zip(problem.regions.items, loads, strict=True))

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
        problem = self.problem
        made = {(problem.candidates[i].c, problem.candidates[i].region) for i in self.taken}
        for j in self.serving(d):
            if j in self.taken or (d.c >= 0 and (d.c, problem.candidates[j].region) in made):
                continue
            if self.nodes <= 0:
                self.best.complete = False
                break
            self.nodes -= 1
            k = problem.candidates[j]
            before, size = self.loads[k.region], len(self.open)
            self.taken[j] = None
            self.loads[k.region] = before + k.cycles
            self.open.extend(reversed((*k.demands, *k.obligations)))
            if self.bound() < self.best.cost - 1e-9:
                self.step()
            del self.open[size:]
            del self.taken[j]
            self.loads[k.region] = before

    def finish(self) -> None:
        chosen = list(self.taken)
        cost = self.problem.cost(chosen)
        if cost < self.best.cost - 1e-9 and len(realized(self.problem, chosen)) == len(chosen):
            self.best.chosen, self.best.cost = chosen, cost
