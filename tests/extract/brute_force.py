"""Questions of choice, and a brute force over everything that could be chosen.

The brute force gives every demand every server in turn. Where a value may stand in a loop or in front of it, and what reads it may be a
flat tile or pages, those are four choices. Choices that give one region two ways of making a class, or that make a value of itself, are
left out. It shares nothing with the search and the solver but the problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from egraph_rules.graph import saturated
from egraph_rules.prepared import prepared
from extract.cycles import ZERO
from extract.legal import refusals
from extract.problem import Candidate, Demand, Problem
from extract.question import Question, ask
from extract.target import Target, load_target
from pypto_ir.diagnostics import Refused
from pypto_ir.stmt import Function

TARGET = load_target("ascend910b")
#: choices of a problem that is small enough for the brute force, and partial ones on the way there
CHOICES, PARTIAL = 1 << 14, 1 << 17


def asked(function: Function, aliased: tuple[tuple[str, str], ...] = (), target: Target = TARGET) -> Question | None:
    """The question that lowering a function asks, None where it is refused."""
    text = prepared(function)
    if refusals(function) or text.obstacles:
        return None
    try:
        return ask(saturated(text.function, aliased), target)
    except Refused:
        return None


class TooMany(Exception):
    """More choices, or partial choices, than the brute force looks at."""


class BruteForce:
    """Every way to give each demand a server."""

    def __init__(self, question: Problem, most: int = CHOICES, partial: int = PARTIAL) -> None:
        self.problem, self.most, self.partial = question, most, partial
        self.known: dict[Demand, list[int]] = {}

    def meets(self, k: Candidate, d: Demand) -> bool:
        """True where a candidate stands before what asks, in its block or in one around it; a form has no place."""
        if d.c < 0:
            return True
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
                    if len(seen) > self.partial:
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
        """Trips times the busiest pipe and a sixteenth of all, summed over regions, and each instruction that is not cached."""
        total, instructions = 0.0, 0.0
        for r, region in enumerate(self.problem.regions.items):
            pipes = list(self.problem.loads.get(r, ZERO).values)
            for i in chosen:
                if self.problem.candidates[i].region == r:
                    pipes = [a + b for a, b in zip(pipes, self.problem.candidates[i].cycles.values, strict=True)]
            *pipes, held = pipes
            instructions += held
            total += region.trips * (max(pipes) + sum(pipes) / 16)
        return total + self.problem.code.fetch * max(0.0, instructions - self.problem.code.cached)

    def choices(self) -> list[frozenset[int]]:
        """The assignments that can be carried out. Raises `TooMany`."""
        found = list(islice((chosen for chosen in self.assignments() if self.can_be_computed(chosen)), self.most + 1))
        if len(found) > self.most:
            raise TooMany
        return found

    def valid(self, members: frozenset[int]) -> bool:
        """True where a set of candidates is a choice: everything served, one way a region, computable."""
        candidates = self.problem.candidates
        demands = [*self.problem.roots, *(d for i in members for d in (*candidates[i].demands, *candidates[i].obligations))]
        served = all(members & set(self.servers(d)) for d in demands)
        return served and not any(self.clash(i, j) for i in members for j in members) and self.can_be_computed(members)


def subsets(question: Problem) -> Iterator[frozenset[int]]:
    """Every set of candidates that is a choice, found by trying them all."""
    brute = BruteForce(question)
    live = sorted({i for members in question.by_class.values() for i in members})
    for bits in range(1 << len(live)):
        chosen = frozenset(i for n, i in enumerate(live) if bits >> n & 1)
        if brute.valid(chosen):
            yield chosen
