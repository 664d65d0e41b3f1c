"""Greedy choices, then a proof: by a bound, by branch and bound, or by the solver, whichever suffices first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from extract.choice import Choice
from extract.effort import NODE, ChoiceLimits
from extract.exact import realized, solve
from extract.parts import parts, rest
from extract.plan import greedy_choices
from extract.problem import Problem
from extract.ranking import Rankings


@dataclass(frozen=True, slots=True)
class Decision:
    """Chosen candidates, what they cost, a lower bound of every choice, and how that was found: optimal, bounded, or infeasible
    where it is proved that there is no choice. `limit` is the limit that ended the search for a better one, if any did."""

    chosen: list[int]
    cost: float
    bound: float
    proof: str
    greedy_cost: float
    limit: str | None = None


def decide(
    problem: Problem,
    choices: list[Choice],
    bound: float,
    limits: ChoiceLimits,
    known: Sequence[list[int]] = (),
    rankings: Rankings | None = None,
) -> Decision:
    """The cheapest choice that can be found in time; `choices` are greedy ones to start from, `known` are candidates of others, `bound`
    is a lower bound that is known. `rankings` remember, from one choice to the next, what could be chosen instead."""
    start, cost = _start(problem, choices, known)
    if cost < inf and cost - bound <= 1e-9 * max(1.0, cost):
        return Decision(start, cost, min(bound, cost), "optimal", cost)
    pieces = parts(problem)
    if len(pieces) == 1:
        return _decide_part(problem, start, cost, bound, limits, rankings)
    chosen: list[int] = []
    least, limit = rest(problem, pieces), None
    for piece in pieces:
        members = set(piece.live)
        own = [i for i in start if i in members]
        found = _decide_part(piece, own, piece.cost(own) if own or not piece.roots else inf, 0.0, limits, rankings)
        if found.cost == inf:
            proof = found.proof if found.proof == "infeasible" else "bounded"
            return Decision(start, cost, min(bound, cost), proof, cost, found.limit)
        chosen += found.chosen
        least += found.bound
        limit = limit or found.limit
    total = problem.cost(chosen)
    least = min(total, max(bound, least))
    optimal = total - least <= 1e-9 * max(1.0, total)
    return Decision(chosen, total, total if optimal else least, "optimal" if optimal else "bounded", cost, None if optimal else limit)


def _decide_part(
    problem: Problem, start: list[int], cost: float, bound: float, limits: ChoiceLimits, rankings: Rankings | None
) -> Decision:
    """Branch and bound, then the solver, on a problem that hangs together."""
    first, limit = cost, None
    found = (rankings or Rankings()).best(problem, start, cost, limits.nodes)
    limits.charge(NODE * found.nodes)
    start, cost = found.chosen, found.cost
    if found.complete:
        if cost == inf:
            return Decision([], inf, inf, "infeasible", first)
        bound = cost
    if cost == inf or cost - bound > 1e-9 * max(1.0, cost):
        if limits.reached is not None:
            return Decision(start, cost, min(bound, cost), "bounded", first, limits.reached)
        solution = solve(problem, limits, start or None)
        if solution.bound == inf:
            return Decision([], inf, inf, "infeasible", first)
        bound = max(bound, solution.bound)
        if solution.cost < cost - 1e-9:
            start, cost = list(solution.chosen), solution.cost
        if not solution.optimal:
            limit = limits.of_solver
    optimal = cost < inf and cost - bound <= 1e-9 * max(1.0, cost)
    return Decision(start, cost, min(bound, cost), "optimal" if optimal else "bounded", first, None if optimal else limit)


def _start(problem: Problem, choices: list[Choice], known: Sequence[list[int]]) -> tuple[list[int], float]:
    """The cheapest of the choices at hand that can be carried out; empty where none can."""
    best: tuple[list[int], float] = ([], inf)
    for chosen in (*known, *greedy_choices(problem, choices)):
        if len(realized(problem, chosen)) == len(chosen):
            cost = problem.cost(chosen)
            if cost < best[1]:
                best = (chosen, cost)
    return best
