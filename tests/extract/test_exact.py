"""The choice is exact: greedy, branch and bound and the solver against a brute force over everything that could be chosen.

The brute force gives every demand every server in turn. Two regions, a loop of 8 trips in a body, and a value that either may hold are
two choices; a second value that reads the first makes four, of which those that give one region two ways of making a class, or that
make a value of itself, are left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import pytest
from alternatives import TARGET
from building import Build
from generators import random_program

from egraph_rules.buffers import aliased_params
from egraph_rules.graph import saturated
from extract.bound import lower_bound
from extract.choice import FORMS, Choice, choose
from extract.cleanup import without_dead_tiles
from extract.decide import decide
from extract.emit import emit
from extract.exact import realized, solve
from extract.gaps import packed
from extract.legal import refusals
from extract.plan import greedy, plan
from extract.price import price
from extract.problem import Candidate, Demand, Problem, problem
from extract.repair import linear
from extract.search import search
from extract.trips import DEFAULT_TRIPS
from extract.weights import class_weights
from pypto_ir.stmt import Function

ROOT = Path(__file__).parents[2]
#: partial choices of a problem that is small enough for the brute force
CHOICES = 1 << 14
#: programs of the short and the long run, and functions of them that must have been small enough
SHORT, SHORT_CHECKED = 60, 40
LONG, LONG_CHECKED = 2_000, 1_300
#: seconds for the solver: far more than a problem of this size takes
SECONDS = 30.0


@dataclass(slots=True)
class Question:
    """A problem, the greedy choices and the bound that a lowering would start from."""

    problem: Problem
    choices: list[Choice]
    bound: float


def asked(function: Function, aliased: tuple[tuple[str, str], ...] = ()) -> Question | None:
    """The question that lowering a function asks, None where it is refused."""
    if refusals(function):
        return None
    graph = saturated(function, aliased)
    weights = class_weights(graph)
    free = choose(graph, TARGET, weights)
    if free.missing:
        return None
    preferred = FORMS if graph.encoded.handovers else ()
    choices = [*(c for c in (choose(graph, TARGET, weights, form) for form in preferred) if not c.missing), free]
    question = problem(graph, free, TARGET)
    return Question(question, choices, lower_bound(graph, free, TARGET, question.held(), DEFAULT_TRIPS))


class TooMany(Exception):
    """More partial choices than the brute force looks at."""


class BruteForce:
    """The least cost of every way to give each demand a server. It shares nothing with the search but the problem."""

    def __init__(self, question: Problem, most: int = CHOICES) -> None:
        self.problem, self.most = question, most
        self.known: dict[Demand, list[int]] = {}

    def meets(self, k: Candidate, d: Demand) -> bool:
        """True where a candidate stands before what asks, in its block or in one around it."""
        region, position = d.region, d.position
        while True:
            if region == k.region:
                return k.position <= position
            if region == 0:
                return False
            position, region = self.problem.regions.items[region].owner, self.problem.regions.items[region].parent

    def trip(self, region: int) -> int:
        """The loop of whose trips a region is a part."""
        while region != 0 and not self.problem.regions.items[region].loop:
            region = self.problem.regions.items[region].parent
        return region

    def servers(self, d: Demand) -> list[int]:
        if d not in self.known:
            candidates = self.problem.candidates
            found = [i for i in self.problem.by_class.get(d.c, []) if self.meets(candidates[i], d)]
            near = [i for i in found if self.trip(candidates[i].region) == self.trip(d.region)]
            self.known[d] = near if d.consumed and near else found
        return self.known[d]

    def assignments(self) -> Iterator[frozenset[int]]:
        """The sets of candidates that serve all that they make others provide: some server for every reachable demand."""
        waiting = [(frozenset[int](), frozenset(self.problem.roots), frozenset[Demand]())]
        seen = set(waiting)
        while waiting:
            chosen, wanted, served = waiting.pop()
            if not wanted:
                yield chosen
                continue
            # what leaves no choice first
            d = min(wanted, key=lambda d: (len(self.servers(d)), d.c, d.region, d.position, d.consumed))
            for i in self.servers(d):
                k, done = self.problem.candidates[i], served | {d}
                if any(self.clash(i, j) for j in chosen):
                    continue
                state = (chosen | {i}, (wanted | {*k.demands, *k.obligations}) - done, done)
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)
                    if len(seen) > self.most:
                        raise TooMany

    def clash(self, i: int, j: int) -> bool:
        """True for two ways of making a class in one region; what is handed on may be carried in two forms."""
        a, b = self.problem.candidates[i], self.problem.candidates[j]
        return i != j and a.c >= 0 and (a.c, a.region) == (b.c, b.region)

    def can_be_computed(self, chosen: frozenset[int]) -> bool:
        """True where some order has every candidate behind what it reads."""
        left, computed = set(chosen), set[int]()
        while left:
            ready = {i for i in left if all(computed & set(self.servers(d)) for d in self.problem.candidates[i].demands)}
            if not ready:
                return False
            left -= ready
            computed |= ready
        return True

    def cost(self, chosen: frozenset[int]) -> float:
        """Trips times the busiest pipe and a sixteenth of all, summed over regions."""
        total = 0.0
        for r, region in enumerate(self.problem.regions.items):
            pipes = list(self.problem.loads[r].values)
            for i in chosen:
                if self.problem.candidates[i].region == r:
                    pipes = [a + b for a, b in zip(pipes, self.problem.candidates[i].cycles.values, strict=True)]
            total += region.trips * (max(pipes) + sum(pipes) / 16)
        return total

    def least(self) -> float:
        return min(self.cost(chosen) for chosen in self.assignments() if self.can_be_computed(chosen))


def subsets(question: Problem) -> Iterator[frozenset[int]]:
    """Every set of candidates that meets the definition, found by trying them all."""
    brute = BruteForce(question)
    live = sorted({i for members in question.by_class.values() for i in members})
    for bits in range(1 << len(live)):
        chosen = frozenset(i for n, i in enumerate(live) if bits >> n & 1)
        demands = [*question.roots, *(d for i in chosen for d in (*question.candidates[i].demands, *question.candidates[i].obligations))]
        if (
            all(chosen & set(brute.servers(d)) for d in demands)
            and not any(brute.clash(i, j) for i in chosen for j in chosen)
            and brute.can_be_computed(chosen)
        ):
            yield chosen


def valid(question: Problem, chosen: list[int]) -> bool:
    """True where a choice is one: everything served, one way a region, computable."""
    brute, members = BruteForce(question), frozenset(chosen)
    demands = [*question.roots, *(d for i in members for d in (*question.candidates[i].demands, *question.candidates[i].obligations))]
    return (
        all(members & set(brute.servers(d)) for d in demands)
        and not any(brute.clash(i, j) for i in members for j in members)
        and brute.can_be_computed(members)
    )


@dataclass(frozen=True, slots=True)
class Checked:
    """What was compared for one function; `priced` where its program was priced too."""

    choices: int
    priced: bool


def check(function: Function, aliased: tuple[tuple[str, str], ...] = ()) -> Checked | None:
    """Compare every way of choosing for one function with the brute force; None where it is refused or too large."""
    question = asked(function, aliased)
    if question is None:
        return None
    brute = BruteForce(question.problem)
    try:
        costs = [brute.cost(chosen) for chosen in brute.assignments() if brute.can_be_computed(chosen)]
    except TooMany:
        return None
    least = pytest.approx(min(costs), rel=1e-9)
    decision = decide(question.problem, question.choices, question.bound, SECONDS)
    assert (decision.proof, decision.cost) == ("optimal", least)
    assert question.problem.cost(decision.chosen) == least and valid(question.problem, decision.chosen)
    assert question.bound <= min(costs) * (1 + 1e-9), "the lower bound is none"
    assert decision.greedy_cost >= min(costs) * (1 - 1e-9)
    found = search(question.problem, [], float("inf"), 1 << 30)
    assert (found.complete, found.cost) == (True, least) and valid(question.problem, found.chosen)
    solution = solve(question.problem, SECONDS)
    assert solution is not None and solution.optimal and valid(question.problem, list(solution.chosen))
    assert solution.cost == least and solution.bound <= solution.cost
    graph, options = question.problem.graph, question.problem.choice.options
    made = without_dead_tiles(emit(graph, question.problem.choice, plan(question.problem, decision.chosen)))
    copied = any(repair(made) != (made, []) for repair in (packed, linear))
    if not copied:
        cost = price(made, TARGET).cost
        chosen = (question.problem.candidates[i] for i in decision.chosen)
        # pages that an assemble replaces are paid for with the rest of their family, and are not in the program
        replaced = any(k.c >= 0 and options[k.c][k.option].node.name == "WithPages" for k in chosen)
        assert cost <= min(costs) * (1 + 1e-9) if replaced else cost == least, "the program is not what was chosen"
    return Checked(len(costs), not copied)


def run(seeds: range) -> list[Checked]:
    """What was checked of the programs of these seeds."""
    found = []
    for seed in seeds:
        program = random_program(Random(seed), 2 + seed % 4)
        aliased = aliased_params(program)
        for function in program.functions:
            if function.in_core:
                found.append(check(function, aliased.get(function.name, ())))
    return [c for c in found if c is not None]
