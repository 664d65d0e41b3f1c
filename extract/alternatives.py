"""What would have been: the best program without a choice that was made.

For each choice (how the flat tile of x is made, where it is computed, in which form a loop hands it on) its candidates are taken out of the
problem and the rest is decided, written, priced and placed again. What comes out is the runner-up and its true cost. Choices with one
runner-up are one decision: on [4, 16, 64], leaving out the flat load and leaving out the flat store both give the program of pages.

    x, y, out    as one 2-D tile     13.4 cycles
    without      page by page        22.1 cycles    4 loads, ops and stores in place of one

Where nothing is left without a choice, it was forced. A function of many candidates is not decided anew as a whole: around the choice
all candidates are free, elsewhere only the chosen ones. The cost is then one that can be had, and no proof that there is no better.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

from extract.cuts import Conditions
from extract.decide import decide
from extract.effort import ChoiceLimits
from extract.exact import realized
from extract.fit import Fitted, fitted
from extract.problem import Problem
from extract.trace import Pass
from extract.verdict import Judge
from extract.ways import Ways
from pypto_ir.diagnostics import Diagnostic, Refused

#: choices of a pass that are decided anew without what was chosen, those that hold the most cycles first
EXAMINED = 24
#: candidates up to which the whole function is decided anew
WHOLE = 160
#: candidates around a choice that are free in larger functions; more where the function cannot do without the choice otherwise
NEAR = (96, 384)
#: seconds for one decision; what is left of a large function is decided in a fraction of one
SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Alternative:
    """A decision: the `chosen` candidates that the runner-up does without, and `instead` what it has in their place; `found` is the
    runner-up, None where none fits, and then `faults` say what is too large. `proved` where no program without the choice is cheaper
    than `found`."""

    chosen: tuple[int, ...]
    instead: tuple[int, ...]
    found: Fitted | None
    faults: tuple[Diagnostic, ...]
    proved: bool


@dataclass(slots=True)
class Alternatives:
    """The decisions of a pass, the largest difference first; how many choices were forced, and how many were not looked at."""

    items: list[Alternative] = field(default_factory=list)
    forced: int = 0
    left_out: int = 0


def alternatives(run: Pass, ways: Ways, examined: int = EXAMINED) -> Alternatives:
    """The runner-up of every choice of a pass that holds most cycles. Every choice is settled in time that is linear in the function."""
    if run.kept:
        return _author_stays(run)
    links, result = _Links(run.question), Alternatives()
    groups: dict[tuple[int, ...], list[tuple[int, Solved]]] = {}
    solved = 0
    for i, banned in _choices(run, ways):
        rest = links.without(banned)
        if rest is None:
            result.forced += 1
        elif solved >= examined:
            result.left_out += 1
        else:
            solved += 1
            other = _solve(run, links, banned, rest)
            if other is None:
                result.forced += links.small
                result.left_out += not links.small
            elif other.found is None or other.found.function != run.best.function:
                groups.setdefault(tuple(sorted(other.chosen)), []).append((i, other))
    for members in groups.values():
        found = members[0][1]
        named = {i for i in found.chosen if ways.named(i)}
        chosen = tuple(i for i in run.chosen if ways.named(i) and i not in named)
        asked = tuple(i for i, _ in members)
        instead = tuple(i for i in found.chosen if i in named and i not in run.chosen)
        result.items.append(Alternative(tuple(dict.fromkeys((*asked, *chosen))), instead, found.found, found.faults, found.proved))
    result.items.sort(key=lambda a: -(inf if a.found is None else a.found.price.cost))
    return result


@dataclass(frozen=True, slots=True)
class Solved:
    """The best program without some candidates: its choice, and what came of it; `found` is None where it does not fit."""

    chosen: tuple[int, ...]
    found: Fitted | None
    faults: tuple[Diagnostic, ...]
    proved: bool


def _author_stays(run: Pass) -> Alternatives:
    """What the cheapest other program costs where the author's stayed."""
    judge = Judge(run.question, run.target, run.default_trips)
    try:
        found = fitted(run.question, run.choices, run.free, None, judge, ChoiceLimits(SECONDS))
    except Refused as refused:
        return Alternatives([Alternative((), (), None, refused.diagnostics, True)])
    if found.function == run.function:
        return Alternatives()
    return Alternatives([Alternative((), tuple(found.chosen or ()), found, (), found.proved)])


def _choices(run: Pass, ways: Ways) -> list[tuple[int, frozenset[int]]]:
    """The chosen candidates with the candidates that the same choice stands for: those of one node wherever they are, or, for what the
    author computes elsewhere, those of one place. What holds the most cycles comes first."""
    problem, members = run.question, set(run.chosen)
    result: list[tuple[float, int, frozenset[int]]] = []
    for order, i in enumerate(run.chosen):
        if not ways.named(i) or ways.leaf(i):
            continue
        k = problem.candidates[i]
        group = problem.by_class.get(k.c, [])
        same = frozenset(j for j in group if problem.candidates[j].option == k.option)
        weight = -max(problem.candidates[j].cycles.total * problem.regions.items[problem.candidates[j].region].trips for j in same | {i})
        result.append((weight, order, same if i == min(same & members) else frozenset()))
        if not k.own:
            result.append((weight, order, frozenset(j for j in group if problem.candidates[j].region == k.region)))
    return [(run.chosen[order], banned) for _, order, banned in sorted(result, key=lambda r: r[:2]) if banned]


class _Links:
    """Who serves whom among the live candidates of a problem; roots are users below zero. `small` where the whole problem is decided
    anew for every choice."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.live = problem.live
        self.servers: dict[tuple[int, int], list[int]] = {}
        self.users: dict[int, list[tuple[int, int]]] = {i: [] for i in self.live}
        self.small = len(self.live) <= WHOLE
        demands = {i: (*problem.candidates[i].demands, *problem.candidates[i].obligations) for i in self.live}
        for user, asked in ((-1, problem.roots), *demands.items()):
            for n, d in enumerate(asked):
                self.servers[(user, n)] = problem.servers(d)
                for j in self.servers[(user, n)]:
                    self.users[j].append((user, n))

    def without(self, banned: frozenset[int]) -> set[int] | None:
        """The candidates that fall with the banned ones, these included; None where the function cannot do without them."""
        dead, missing, waiting = set(banned), dict[tuple[int, int], int](), sorted(banned)
        while waiting:
            for user in self.users[waiting.pop()]:
                missing[user] = missing.get(user, 0) + 1
                if missing[user] == len(self.servers[user]):
                    if user[0] < 0:
                        return None
                    if user[0] not in dead:
                        dead.add(user[0])
                        waiting.append(user[0])
        return dead

    def near(self, banned: frozenset[int], size: int) -> set[int]:
        """The candidates nearest to some, by who reads whom, whole classes at a time."""
        problem, found = self.problem, dict.fromkeys(sorted(banned))
        waiting = list(found)
        for i in waiting:
            k = problem.candidates[i]
            around = [*problem.by_class.get(k.c, ()), *(u for u, _ in self.users[i] if u >= 0)]
            for n in range(len(k.demands) + len(k.obligations)):
                around += self.servers[(i, n)]
            for j in around:
                if j not in found:
                    found[j] = None
                    waiting.append(j)
            if len(found) > size:
                break
        return set(found)


def best_without(run: Pass, banned: frozenset[int]) -> Solved | None:
    """The best program of a pass without some candidates, None where every program has one of them."""
    links = _Links(run.question)
    dead = links.without(banned)
    return None if dead is None else _solve(run, links, banned, dead)


def _solve(run: Pass, links: _Links, banned: frozenset[int], dead: set[int]) -> Solved | None:
    """The best program without some candidates; None where there is none at all, or none near them in a large function."""
    if links.small:
        return _decided(run, dead, True)
    for size in NEAR:
        near = links.near(banned, size).union(run.chosen)
        narrowed = links.without(frozenset(dead.union(i for i in links.live if i not in near)))
        found = None if narrowed is None else _decided(run, narrowed, False)
        if found is not None:
            return found
    return None


def _decided(run: Pass, dead: set[int], whole: bool) -> Solved | None:
    """The best program of the candidates that are left; None where they give none."""
    question = run.question
    by_class = {c: left for c, members in question.by_class.items() if (left := [i for i in members if i not in dead])}
    conditions = Conditions(list(question.conditions.cuts), list(question.conditions.rows))
    problem = replace(question, by_class=by_class, conditions=conditions)
    limits = ChoiceLimits(SECONDS)
    decision = decide(problem, run.choices, 0.0, limits)
    if decision.cost == inf and (conditions.rows or conditions.cuts):
        # what was learned of memories rules all of them out: the nearest is looked for anew, to tell what is too large in it
        problem = replace(problem, conditions=Conditions([], []))
        decision = decide(problem, run.choices, 0.0, limits)
    if decision.cost == inf and decision.proof == "infeasible":
        return None
    try:
        found = fitted(problem, run.choices, decision, None, Judge(problem, run.target, run.default_trips), limits)
    except Refused as refused:
        return Solved(tuple(decision.chosen), None, refused.diagnostics, whole)
    chosen = found.chosen or decision.chosen
    return Solved(tuple(realized(problem, chosen)), found, (), whole and found.proved)
