"""The choice beside a brute force: all choices of a problem, each written as a program, on a target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pytest

from extract.decide import decide
from extract.effort import ChoiceLimits
from extract.fit import Fitted, fitted
from extract.plan import greedy_choices
from extract.question import Question
from extract.target import Target
from extract.trips import DEFAULT_TRIPS
from extract.verdict import Judge, Verdict
from pypto_ir.diagnostics import Refused
from tests.extract.brute_force import BruteForce, TooMany

SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Compared:
    """What one function showed: how many choices it had, and whether limits made it dearer, or impossible."""

    choices: int
    dearer: bool
    refused: bool


@dataclass(frozen=True)
class EveryChoice:
    """A question and all its choices."""

    question: Question
    brute: BruteForce
    choices: list[frozenset[int]]

    @classmethod
    def of(cls, question: Question, most: int) -> EveryChoice | None:
        """All choices of a question, None where there are more than `most`."""
        brute = BruteForce(question.problem, most)
        try:
            return cls(question, brute, brute.choices())
        except TooMany:
            return None

    @cached_property
    def order(self) -> list[frozenset[int]]:
        """All choices, the cheapest first."""
        return sorted(self.choices, key=lambda chosen: (self.brute.cost(chosen), sorted(chosen)))

    @property
    def cheapest(self) -> frozenset[int]:
        """The cheapest choice without limits."""
        return self.order[0]

    def compared(self, target: Target, written: int | None = None) -> Compared | None:
        """Write the choices and hold the exact choice against the cheapest that fits; asserts that they agree. With `written` those that
        cost more than a program that fits are left out, for no program costs less than its choice, and functions that more than so many
        programs have to be written for (None)."""
        judge = Judge(self.question.problem, target, DEFAULT_TRIPS)
        verdicts: list[Verdict] = []
        least: float | None = None
        for chosen in self.order:
            if written is not None and least is not None and self.brute.cost(chosen) > least * (1 + 1e-9):
                break
            if written is not None and len(verdicts) == written:
                return None
            v = judge.judge(sorted(chosen))
            verdicts.append(v)
            if v.fits and v.price is not None:
                least = v.price.cost if least is None else min(least, v.price.cost)
        found = chosen_by(self.question, judge)
        if least is None:
            assert isinstance(found, Refused), "brute force finds no program that fits"
            nearest = [v for v in verdicts if v.allocation is not None]
            assert not nearest or {d.code for d in found.diagnostics} == {"M001"}
            return Compared(len(self.choices), False, True)
        assert isinstance(found, Fitted), f"brute force finds a program that fits, at {least}: {found}"
        assert found.price.cost == pytest.approx(least, rel=1e-9)
        # cut operands make the tiles of products narrower than those that are priced: the bound is one of prices, not of such programs
        cheaper = any(v.price is not None and v.price.cost < self.brute.cost(frozenset(v.chosen)) * (1 - 1e-9) for v in verdicts)
        assert cheaper or found.bound == pytest.approx(least, rel=1e-9)
        assert found.proved and found.limit is None
        for chosen in greedy_choices(self.question.problem, self.question.choices):
            first = judge.judge(chosen) if self.brute.valid(frozenset(chosen)) else None
            assert first is None or not first.fits or first.price is None or first.price.cost >= least * (1 - 1e-9)
        sound(self.question, verdicts)
        return Compared(len(self.choices), least > self.brute.cost(self.cheapest) * (1 + 1e-9), False)

    def first_that_fits(self, target: Target, most: int) -> Verdict | None:
        """The first of the `most` cheapest choices that fits."""
        judge = Judge(self.question.problem, target, DEFAULT_TRIPS)
        return next((v for v in (judge.judge(sorted(chosen)) for chosen in self.order[:most]) if v.fits), None)


def chosen_by(question: Question, judge: Judge) -> Fitted | Refused:
    """What the exact choice comes to."""
    decision = decide(question.problem, question.choices, question.bound, ChoiceLimits(SECONDS))
    try:
        return fitted(question.problem, question.choices, decision, None, judge, ChoiceLimits(SECONDS))
    except Refused as refused:
        return refused


def sound(question: Question, verdicts: list[Verdict]) -> None:
    """What was learned rules out no program that fits, and prices none too high, superfluous tiles left aside."""
    alike: dict[float, list[Verdict]] = {}
    for v in verdicts:
        if v.price is not None:
            alike.setdefault(v.price.cost, []).append(v)
    for v in verdicts:
        if v.fits and v.price is not None and len(v.chosen) == len(set(v.chosen)):
            cheaper = (w.function == v.function for w in alike[v.price.cost] if set(w.chosen) < set(v.chosen))
            assert question.problem.conditions.allow(set(v.chosen)) or any(cheaper), "a choice that fits was ruled out"
