"""Greedy choices, then a proof: by a bound, by branch and bound, or by the solver, whichever suffices first."""

from __future__ import annotations

from dataclasses import dataclass

from extract.choice import Choice
from extract.exact import realized, solve
from extract.plan import greedy
from extract.problem import Problem
from extract.search import search

#: seconds for the solver unless told otherwise
SOLVE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Decision:
    """Chosen candidates, what they cost, a lower bound of every choice, and how that was found: optimal, bounded or heuristic."""

    chosen: list[int]
    cost: float
    bound: float
    proof: str
    greedy_cost: float


def decide(problem: Problem, choices: list[Choice], bound: float, seconds: float = SOLVE_SECONDS) -> Decision:
    """The cheapest choice that can be found in time; `choices` are greedy ones to start from, `bound` is a lower bound that is known."""
    if not problem.roots:  # a function without tiles
        nothing = problem.cost([])
        return Decision([], nothing, nothing, "optimal", nothing)
    start, cost = _start(problem, choices)
    first = cost
    if not start or cost - bound > 1e-9 * max(1.0, cost):
        found = search(problem, start, cost)
        start, cost = found.chosen, found.cost
        if found.complete and start:
            bound = cost
    if not start or cost - bound > 1e-9 * max(1.0, cost):
        solution = solve(problem, seconds, start or None)
        if solution is not None:
            bound = max(bound, solution.bound)
            if not start or solution.cost < cost - 1e-9:
                start, cost = list(solution.chosen), solution.cost
    optimal = cost - bound <= 1e-9 * max(1.0, cost)
    return Decision(start, cost, min(bound, cost), "optimal" if optimal else "bounded", first)


def _start(problem: Problem, choices: list[Choice]) -> tuple[list[int], float]:
    """The cheapest of the greedy choices that can be carried out; empty where none can."""
    best: tuple[list[int], float] = ([], float("inf"))
    for choice in choices:
        chosen = greedy(problem, choice)
        if len(realized(problem, chosen)) == len(chosen):
            cost = problem.cost(chosen)
            if cost < best[1]:
                best = (chosen, cost)
    return best
