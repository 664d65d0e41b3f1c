"""Greedy choices, then a proof: by a bound, by branch and bound, or by the solver, whichever suffices first."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf

from extract.choice import Choice
from extract.exact import realized, solve
from extract.parts import parts, rest
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
    start, cost = _start(problem, choices)
    if cost < inf and cost - bound <= 1e-9 * max(1.0, cost):
        return Decision(start, cost, min(bound, cost), "optimal", cost)
    pieces = parts(problem)
    if len(pieces) == 1:
        return _decide_part(problem, start, cost, bound, seconds)
    deadline = time.monotonic() + seconds
    chosen: list[int] = []
    least = rest(problem, pieces)
    for piece in pieces:
        members = {i for group in piece.by_class.values() for i in group}
        own = [i for i in start if i in members]
        found = _decide_part(piece, own, piece.cost(own) if own or not piece.roots else inf, 0.0, max(0.0, deadline - time.monotonic()))
        if found.cost == inf:
            return Decision(start, cost, min(bound, cost), "bounded", cost)
        chosen += found.chosen
        least += found.bound
    total = problem.cost(chosen)
    least = min(total, max(bound, least))
    optimal = total - least <= 1e-9 * max(1.0, total)
    return Decision(chosen, total, total if optimal else least, "optimal" if optimal else "bounded", cost)


def _decide_part(problem: Problem, start: list[int], cost: float, bound: float, seconds: float) -> Decision:
    """Branch and bound, then the solver, on a problem that hangs together."""
    first = cost
    found = search(problem, start, cost)
    start, cost = found.chosen, found.cost
    if found.complete and cost < inf:
        bound = cost
    if cost == inf or cost - bound > 1e-9 * max(1.0, cost):
        solution = solve(problem, seconds, start or None)
        if solution is not None:
            bound = max(bound, solution.bound)
            if solution.cost < cost - 1e-9:
                start, cost = list(solution.chosen), solution.cost
    optimal = cost < inf and cost - bound <= 1e-9 * max(1.0, cost)
    return Decision(start, cost, min(bound, cost), "optimal" if optimal else "bounded", first)


def _start(problem: Problem, choices: list[Choice]) -> tuple[list[int], float]:
    """The cheapest of the greedy choices that can be carried out; empty where none can."""
    best: tuple[list[int], float] = ([], inf)
    for choice in choices:
        chosen = greedy(problem, choice)
        if len(realized(problem, chosen)) == len(chosen):
            cost = problem.cost(chosen)
            if cost < best[1]:
                best = (chosen, cost)
    return best
