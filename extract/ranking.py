"""All choices that cost less than a program that is known, cheapest first, while what is learned makes some of them dearer.

    4.0  a b d      4.0  a c         the program of `a b d` needs a copy:      4.0  a c
    4.0  a c        4.5  a b d       2 cycles more wherever a and b are        4.5  a b e
    4.5  a b e      4.5  a b e                                                 6.0  a b d      and so on

Conditions only ever raise the cost of a choice. So the choices that are listed once stay all that can beat the program, and choosing again
means to look at the top of the list, instead of a search from the beginning.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heapreplace
from math import inf

from extract.exact import realized
from extract.problem import Problem
from extract.search import Found, listed, search

#: choices are the same in cost where they are in so many digits behind the point: then the first that the search found comes first
DIGITS = 8
#: partial choices that are looked at for a list, for each that a search may look at: a list serves many searches
LISTED = 8
#: where nothing is known to be beaten, choices are listed up to so many times the cost of the cheapest
FARTHER = 1.03


@dataclass(slots=True, order=True)
class _Ranked:
    """A choice with its cost under the first `cuts` and `rows` of the conditions; `order` is that of the search."""

    cost: float
    order: int
    chosen: list[int] = field(compare=False)
    cuts: int = field(compare=False)
    rows: int = field(compare=False)
    realized: bool = field(default=False, compare=False)


class Ranking:
    """The choices of a part of a problem that cost less than `limit`. `looks` counts how often one of them was looked at."""

    def __init__(self, problem: Problem, limit: float, choices: list[tuple[float, list[int]]]) -> None:
        self.limit, self.looks = limit, 0
        cuts, rows = _known(problem)
        self.heap = [_Ranked(round(cost, DIGITS), n, chosen, cuts, rows) for n, (cost, chosen) in enumerate(choices)]
        heapify(self.heap)

    def first(self, problem: Problem) -> _Ranked | None:
        """The cheapest under the conditions that the part has now, None where every choice costs `limit` or more."""
        heap, (cuts, rows) = self.heap, _known(problem)
        while heap:
            top = heap[0]
            self.looks += 1
            if (top.cuts, top.rows) != (cuts, rows):
                members = set(top.chosen)
                if any(cut.holds(members) for cut in problem.conditions.cuts[top.cuts :]) or any(
                    row.exceeded(members) for row in problem.conditions.rows[top.rows :]
                ):
                    top.cost = round(problem.cost(top.chosen), DIGITS)
                top.cuts, top.rows = cuts, rows
            elif top.realized or len(realized(problem, top.chosen)) == len(top.chosen):
                top.realized = True
                return top
            else:
                top.cost = inf
            if top.cost < self.limit:
                heapreplace(heap, top)
            else:
                heappop(heap)
        return None


@dataclass(slots=True)
class Rankings:
    """The rankings of the parts of one problem, by their candidates; None for a part that has too many choices. `settled` are the best
    choices of parts of which nothing was learned, `least` what the best choice of a part cost when it was last searched for, `unfinished`
    the parts of which no search came to an end."""

    parts: dict[frozenset[int], Ranking | None] = field(default_factory=dict)
    least: dict[frozenset[int], float] = field(default_factory=dict)
    settled: dict[frozenset[int], Found] = field(default_factory=dict)
    unfinished: set[frozenset[int]] = field(default_factory=set)

    def best(self, problem: Problem, chosen: list[int], cost: float, nodes: int) -> Found:
        """The cheapest choice of a part that can be found without a solver, where `chosen` is one that is known; `nodes` as in `search`. A
        part that is too large for a search is searched once."""
        key, learned = _key(problem), bool(problem.conditions)
        if not learned and key in self.settled:
            return self.settled[key]
        found, spent = self.cheapest(problem, chosen, cost, nodes)
        if found is None:
            found = Found(chosen, cost, False) if key in self.unfinished else search(problem, chosen, cost, nodes)
            self.least[key] = found.cost
            if not found.complete:
                self.unfinished.add(key)
            elif not learned:
                self.settled[key] = replace(found, nodes=0)
        return replace(found, nodes=found.nodes + spent)

    def cheapest(self, problem: Problem, chosen: list[int], cost: float, nodes: int) -> tuple[Found | None, int]:
        """The cheapest choice of a part, where `chosen` is one that is known; `nodes` as in `search`. None where that has to be searched
        for: nothing was learned of the part yet, nothing is known of what it costs, or too much would have to be listed. With it, how many
        choices and partial choices were looked at."""
        key = _key(problem)
        ranking, limit = self.parts.get(key), cost if cost < inf else FARTHER * self.least.get(key, inf)
        if limit == inf or not problem.conditions or (key in self.parts and ranking is None):
            return None, 0
        looks, spent = 0 if ranking is None else ranking.looks, 0
        first = None if ranking is None else ranking.first(problem)
        if first is None and (ranking is None or limit > ranking.limit):
            choices, spent = listed(problem, limit, LISTED * nodes)
            ranking = self.parts[key] = None if choices is None else Ranking(problem, limit, choices)
            if ranking is None:
                return None, spent
            looks, first = 0, ranking.first(problem)
        assert ranking is not None
        spent += ranking.looks - looks
        if first is not None and first.cost < cost - 1e-9:
            return Found(first.chosen, problem.cost(first.chosen), True), spent
        return Found(chosen, cost, True) if cost < inf else None, spent


def _key(problem: Problem) -> frozenset[int]:
    return frozenset(problem.live)


def _known(problem: Problem) -> tuple[int, int]:
    return len(problem.conditions.cuts), len(problem.conditions.rows)
