"""The exact choice: the candidates of least cost, found and proved by OR-Tools CP-SAT.

A variable for every candidate; every root and every demand of a chosen candidate has a server; a region costs its trips times the most
loaded pipe and a share of all pipes. What would be made of itself (a flat tile packed from pages that are rows of that tile) is cut off,
pairs beforehand and larger circles when they show up: some member must be served from outside. Cuts and capacity rows are constraints like
all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf
from typing import Any

from extract.cuts import Link, Row
from extract.cycles import EPSILON, GRID, ZERO, Cycles
from extract.effort import CONSTRAINT, MODEL, SOLVER, ChoiceLimits
from extract.problem import Problem

#: the solver's sums stay below this: it counts in 64 bits
_MOST = 1 << 60


@dataclass(frozen=True, slots=True)
class Solution:
    """Chosen candidates, their cost recomputed exactly, a lower bound of every choice, and whether the two meet. The cost is infinite
    where no choice was found, so is the bound where it is proved that there is none."""

    chosen: tuple[int, ...]
    cost: float
    bound: float
    optimal: bool


def solve(problem: Problem, limits: ChoiceLimits, start: list[int] | None = None) -> Solution:
    """The best choice within limits, which are charged for it; `start` is a choice to improve on."""
    if not limits.left:
        return Solution((), inf, 0.0, False)
    model = Model(problem)
    if start is not None:
        model.hint(start)
    return model.solve(limits)


def realized(problem: Problem, chosen: list[int]) -> list[int]:
    """The chosen candidates that can be computed one after the other, in such an order; fewer than were chosen where some only serve
    each other."""
    members = set(chosen)
    serves: dict[int, list[tuple[int, int]]] = {}
    open_demands: dict[int, int] = {}
    met: set[tuple[int, int]] = set()
    for i in chosen:
        demands = problem.candidates[i].demands
        open_demands[i] = len(demands)
        for n, d in enumerate(demands):
            for j in problem.servers(d):
                if j in members:
                    serves.setdefault(j, []).append((i, n))
    order = [i for i in chosen if open_demands[i] == 0]
    for i in order:
        for user, n in serves.get(i, ()):
            if (user, n) not in met:
                met.add((user, n))
                open_demands[user] -= 1
                if open_demands[user] == 0:
                    order.append(user)
    return order


def circles(problem: Problem, chosen: list[int], order: list[int]) -> list[list[int]]:
    """The smallest sets of chosen candidates outside an order of `realized` that only serve each other, each once."""
    done = set(order)
    stuck = [i for i in chosen if i not in done]
    members = set(chosen)
    waits: dict[int, list[int]] = {}
    for i in stuck:
        serving = ([j for j in problem.servers(d) if j in members] for d in problem.candidates[i].demands)
        waits[i] = next(servers for servers in serving if done.isdisjoint(servers))
    reach: dict[int, set[int]] = {}
    for i in stuck:
        found, waiting = set[int](), [i]
        while waiting:
            new = [j for j in waits[waiting.pop()] if j not in found]
            found.update(new)
            waiting += new
        reach[i] = found
    # a set is smallest where all that its members wait for wait for them
    return [sorted(reach[i]) for i in stuck if i == min(reach[i]) and all(i in reach[j] for j in reach[i])]


class Model:
    """The problem as a CP-SAT model, which can be solved again after circles were ruled out."""

    def __init__(self, problem: Problem) -> None:
        from ortools.sat.python import cp_model

        self.cp, self.problem = cp_model, problem
        self.model = cp_model.CpModel()
        self.live = problem.live
        self.take = {i: self.model.new_bool_var(f"y{i}") for i in self.live}
        self.extras: list[tuple[Any, int, Cycles]] = []
        for d in problem.roots:
            self.model.add_bool_or([self.take[j] for j in problem.servers(d)])
        for i in self.live:
            k = problem.candidates[i]
            for d in (*k.demands, *k.obligations):
                self.model.add_bool_or([self.take[j] for j in problem.servers(d) if j != i] + [self.take[i].negated()])
        instances: dict[tuple[int, int], list[int]] = {}
        for i in self.live:
            k = problem.candidates[i]
            instances.setdefault((k.c, k.region), []).append(i)
        for (c, _), members in instances.items():
            # a region makes a class in one way; what is handed on may take both forms
            if c >= 0 and len(members) > 1:
                self.model.add_at_most_one(self.take[i] for i in members)
        self.add_pairs()
        self.add_conditions()
        self.scale = self.objective()

    # what is known of choices

    def add_pairs(self) -> None:
        """Two candidates do not make each other, as a tile and one of its pages would: one of them is served by a third. Larger circles
        are rare, and cut off when they show up."""
        problem = self.problem
        for i in self.live:
            for d in problem.candidates[i].demands:
                servers = problem.servers(d)
                for j in servers:
                    for back in problem.candidates[j].demands if j > i else ():
                        if i in (others := problem.servers(back)):
                            third = [self.take[n] for n in dict.fromkeys((*servers, *others)) if n not in (i, j)]
                            self.model.add_bool_or([*third, self.take[i].negated(), self.take[j].negated()])

    def add_conditions(self) -> None:
        for cut in self.problem.conditions.cuts:
            escapes = [self.take[i].negated() for i in cut.chosen] + [self.take[i] for i in cut.absent]
            if cut.extra is None:
                self.model.add_bool_or(escapes)
            else:
                held = self.model.new_bool_var("")
                self.model.add_bool_or([*escapes, held])
                self.extras += [(held, region, cycles) for region, cycles in cut.extra]
        for row in self.problem.conditions.rows:
            self.add_row(row)

    def add_row(self, row: Row) -> None:
        """A variable for every tile that may be live at the point, which is so where a reader keeps it live."""
        live: dict[int, Any] = {}
        for need in row.needs:
            live[need.candidate] = held = self.model.new_bool_var("")
            for link in need.readers:
                self.model.add_bool_or([held, self.take[need.candidate].negated(), *self.unless(link)])
            for link in need.parts:
                if link.user in live:
                    self.model.add_bool_or([held, self.take[need.candidate].negated(), live[link.user].negated(), *self.unless(link)])
        self.model.add(sum(need.size * live[need.candidate] for need in row.needs) <= row.capacity)

    def unless(self, link: Link) -> list[Any]:
        """What may hold instead of a link."""
        read = [] if link.user is None else [self.take[link.user].negated()]
        return read + [self.take[j] for j in link.others]

    def objective(self) -> float:
        """Minimise the cost in whole units; gives what one unit is worth. Candidates that the author did not place cost a last bit, so
        that ties keep the author's program. Where the sums would need more than 64 bits, weights are rounded down: the solver's bound is
        one still, and the cost of what it finds is computed anew."""
        problem = self.problem
        in_region: dict[int, list[tuple[Any, list[int]]]] = {}
        for var, r, cycles in [
            *((self.take[i], problem.candidates[i].region, problem.candidates[i].cycles) for i in self.live),
            *self.extras,
        ]:
            if cycles.total:
                in_region.setdefault(r, []).append((var, [round(v * GRID) for v in cycles.pipes]))
        moved = [i for i in self.live if not problem.candidates[i].own]
        share, tie = round(1 / EPSILON), 1 + len(moved)
        held = sorted({*problem.loads, *in_region})
        weights = {r: Fraction(problem.regions.items[r].trips) for r in held}
        bases = {r: [round(v * GRID) for v in problem.loads.get(r, ZERO).pipes] for r in held}
        fetch, beyond, most_beyond = self.beyond()
        most = {r: max(base[p] + sum(c[p] for _, c in in_region.get(r, ())) for p in range(len(base))) for r, base in bases.items()}
        total = sum((w * (share + len(bases[r])) * most[r] for r, w in weights.items()), Fraction(share * fetch * most_beyond))
        whole = _whole(weights.values())
        total *= tie / whole
        if total >= _MOST:
            total, tie = total / tie, 1
        self.exact = total < _MOST
        unit = whole if self.exact else whole * total / _MOST
        terms: list[Any] = []
        for r, base in bases.items():
            weight, costs = int(weights[r] / unit), in_region.get(r, [])
            if not weight:
                continue
            peak = self.model.new_int_var(max(base), max(most[r], max(base)), f"peak{r}")
            for p in range(len(base)):
                self.model.add(peak >= base[p] + sum(c[p] * var for var, c in costs if c[p]))
            terms.append(weight * tie * (share * peak + sum(base) + sum(sum(c) * var for var, c in costs)))
        terms.append(int(1 / unit) * tie * share * fetch * beyond)
        last = sum(self.take[i] for i in moved) if tie > 1 else 0
        self.model.minimize(sum(terms) + last)
        self.tie = tie
        return float(unit / (share * GRID))

    def beyond(self) -> tuple[int, Any, int]:
        """What fetching an instruction costs in units of the grid, how many have to be fetched in every run, and the most that may be."""
        problem, code = self.problem, self.problem.code
        items = [(self.take[i], problem.candidates[i].cycles.code) for i in self.live]
        items += [(var, cycles.code) for var, _, cycles in self.extras]
        counted = [(var, round(n)) for var, n in items if n]
        free = code.cached - round(sum(load.code for load in problem.loads.values()))
        most = max(0, sum(n for _, n in counted) - free)
        if not code.fetch or not most:
            return 0, 0, 0
        beyond = self.model.new_int_var(max(0, -free), most, "code")
        self.model.add(beyond >= sum(n * var for var, n in counted) - free)
        return round(code.fetch * GRID), beyond, most

    # solving

    def hint(self, chosen: list[int]) -> None:
        members = set(chosen)
        for i, var in self.take.items():
            self.model.add_hint(var, i in members)

    def solve(self, limits: ChoiceLimits) -> Solution:
        """Solve until what is found can be computed; what bounds it without a cut bounds it with the cut, too."""
        problem, least = self.problem, 0.0
        while True:
            limits.charge(MODEL + CONSTRAINT * len(self.model.proto.constraints))
            if not limits.left:
                return Solution((), inf, least, False)
            solver = self.cp.CpSolver()
            solver.parameters.max_deterministic_time = limits.left / SOLVER
            solver.parameters.max_time_in_seconds = limits.clock_left
            solver.parameters.num_workers = 1
            solver.parameters.random_seed = 1
            solver.parameters.linearization_level = 2  # all clauses go into the relaxation: costs are sums, bounds come from it
            if limits.memory is not None:
                solver.parameters.max_memory_in_mb = limits.memory
            status = solver.solve(self.model)
            limits.charge(SOLVER * solver.response_proto.deterministic_time)
            if status == self.cp.INFEASIBLE:
                return Solution((), inf, inf, True)
            least = max(least, self.bound(solver.best_objective_bound))
            if status not in (self.cp.OPTIMAL, self.cp.FEASIBLE):
                return Solution((), inf, least, False)
            chosen = [i for i, var in self.take.items() if solver.value(var)]
            order = realized(problem, chosen)
            if len(order) == len(chosen):
                break
            for circle in circles(problem, chosen, order):
                self.cut(circle)
        cost = problem.cost(chosen)
        proved = status == self.cp.OPTIMAL and self.exact
        return Solution(tuple(order), cost, cost if proved else min(cost, least), proved)

    def bound(self, found: float) -> float:
        """What the solver's bound says of the cost: whole units of it, without the last bits of ties."""
        return floor(found / self.tie) * self.scale if 0 < found < inf else 0.0

    def cut(self, circle: list[int]) -> None:
        """Some member of a set of candidates that serve only each other must be served by others."""
        members = set(circle)
        outside = []
        for i in circle:
            helped = self.model.new_bool_var("")
            self.model.add_implication(helped, self.take[i])
            for d in self.problem.candidates[i].demands:
                servers = self.problem.servers(d)
                if any(j in members for j in servers):
                    self.model.add_bool_or([self.take[j] for j in servers if j not in members] + [helped.negated()])
            outside.append(helped)
        for i in circle:
            self.model.add_bool_or([*outside, self.take[i].negated()])


def _whole(weights: Iterable[Fraction]) -> Fraction:
    """The largest power of two of which all trips are multiples."""
    return Fraction(1, max((w.denominator for w in weights), default=1))
