"""The exact choice: the candidates of least cost, found and proved by OR-Tools CP-SAT.

A variable for every candidate; every root and every demand of a chosen candidate has a server; a region costs its trips times the most
loaded pipe and a share of all pipes. What would be made of itself (a flat tile packed from pages that are rows of that tile) is cut off
when it shows up: some member of such a circle must be served from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from extract.cycles import EPSILON
from extract.problem import Problem

#: cycles are multiples of 1/1024; trips of branch arms are multiples of a power of two
_UNIT = 1024


@dataclass(frozen=True, slots=True)
class Solution:
    """Chosen candidates, their cost recomputed exactly, a lower bound of every choice, and whether the two meet."""

    chosen: tuple[int, ...]
    cost: float
    bound: float
    optimal: bool


def solve(problem: Problem, seconds: float, start: list[int] | None = None) -> Solution | None:
    """The best choice within a time limit, or None where none was found; `start` is a choice to improve on."""
    model = Model(problem)
    if start is not None:
        model.hint(start)
    return model.solve(seconds)


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
    """The problem as a CP-SAT model, which can be solved again after choices were ruled out."""

    def __init__(self, problem: Problem) -> None:
        from ortools.sat.python import cp_model

        self.cp, self.problem = cp_model, problem
        self.model = cp_model.CpModel()
        self.take = [self.model.new_bool_var(f"y{i}") for i in range(len(problem.candidates))]
        for d in problem.roots:
            self.model.add_bool_or([self.take[j] for j in problem.servers(d)])
        live = {i for members in problem.by_class.values() for i in members}
        for i, k in enumerate(problem.candidates):
            if i not in live:
                self.model.add(self.take[i] == 0)
                continue
            for d in (*k.demands, *k.obligations):
                self.model.add_bool_or([self.take[j] for j in problem.servers(d) if j != i] + [self.take[i].negated()])
        instances: dict[tuple[int, int], list[int]] = {}
        for i, k in enumerate(problem.candidates):
            instances.setdefault((k.c, k.region), []).append(i)
        for (c, _), members in instances.items():
            # a region makes a class in one way; what is handed on may take both forms
            if c >= 0 and len(members) > 1:
                self.model.add_at_most_one(self.take[i] for i in members)
        self.scale = self.objective()

    def objective(self) -> float:
        """Minimise the cost in whole units; gives what one unit is worth. Candidates that the author did not place cost a last bit, so
        that ties keep the author's program."""
        problem = self.problem
        in_region: dict[int, list[int]] = {}
        for i, k in enumerate(problem.candidates):
            in_region.setdefault(k.region, []).append(i)
        fractions = max((_denominator(r.trips) for r in problem.regions.items), default=1)
        share = round(1 / EPSILON)
        tie = 1 + sum(not k.own for k in problem.candidates)
        terms: list[Any] = []
        for r, region in enumerate(problem.regions.items):
            weight = round(region.trips * fractions)
            base = [round(v * _UNIT) for v in problem.loads[r].values]
            members = in_region.get(r, [])
            costs = {i: [round(v * _UNIT) for v in problem.candidates[i].cycles.values] for i in members}
            limit = max((base[p] + sum(c[p] for c in costs.values()) for p in range(len(base))), default=0)
            peak = self.model.new_int_var(max(base), max(limit, max(base)), f"peak{r}")
            for p in range(len(base)):
                self.model.add(peak >= base[p] + sum(c[p] * self.take[i] for i, c in costs.items() if c[p]))
            total = sum(base) + sum(sum(c) * self.take[i] for i, c in costs.items() if any(c))
            terms.append(weight * tie * (share * peak + total))
        self.model.minimize(sum(terms) + sum(self.take[i] for i, k in enumerate(problem.candidates) if not k.own))
        return 1.0 / (tie * share * fractions * _UNIT)

    def hint(self, chosen: list[int]) -> None:
        members = set(chosen)
        for i, var in enumerate(self.take):
            self.model.add_hint(var, i in members)

    def solve(self, seconds: float) -> Solution | None:
        problem, left = self.problem, seconds
        while True:
            solver = self.cp.CpSolver()
            solver.parameters.max_time_in_seconds = max(left, 0.01)
            solver.parameters.num_workers = 1
            solver.parameters.random_seed = 1
            status = solver.solve(self.model)
            left -= solver.wall_time
            if status not in (self.cp.OPTIMAL, self.cp.FEASIBLE):
                return None
            chosen = [i for i, var in enumerate(self.take) if solver.value(var)]
            order = realized(problem, chosen)
            if len(order) == len(chosen):
                break
            for circle in circles(problem, chosen, order):
                self.cut(circle)
            if left <= 0:
                return None
        cost = problem.cost(chosen)
        bound = max(0.0, solver.best_objective_bound) * self.scale
        bound = min(cost, bound) if bound < inf else 0.0
        return Solution(tuple(order), cost, bound, status == self.cp.OPTIMAL)

    def forbid(self, chosen: tuple[int, ...]) -> None:
        """Rule out one choice."""
        members = set(chosen)
        self.model.add_bool_or([var.negated() if i in members else var for i, var in enumerate(self.take)])

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


def _denominator(value: float) -> int:
    """The power of two that makes a trip count whole: 1 for 8.0, 4 for 2.25."""
    factor = 1
    while value * factor != int(value * factor) and factor < 1 << 20:
        factor *= 2
    return factor
