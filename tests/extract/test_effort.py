"""The choice is bounded by work, not by time: what is found is the same on a machine that is three times as slow."""

from __future__ import annotations

import time
from typing import Any

import pytest

from benchmarks.scaling import loops
from extract.effort import SLOWEST, WORK, ChoiceLimits
from extract.exact import Model
from extract.lower import lower
from extract.target import load_target
from pypto_ir.json_reader import read_program
from pypto_ir.stmt import Function

TARGET = load_target("ascend910b")


def test_work_is_charged_and_the_clock_ends_what_is_far_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ChoiceLimits(2.0)
    limits.charge(1.5)
    assert limits.left == 0.5
    limits.charge(1.0)
    assert limits.left == 0.0
    slow = ChoiceLimits(2.0)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + SLOWEST * 2.0 - 0.1)
    assert slow.left == 2.0
    monkeypatch.setattr(time, "monotonic", lambda: now + SLOWEST * 2.0 + 0.1)
    assert slow.left == 0.0


def test_what_goes_on_with_a_result_has_work_left() -> None:
    """A program of which the first pass took all work is lowered again all the same, so that a second run changes nothing."""
    limits = ChoiceLimits(4.0, clock=100.0)
    limits.charge(1.0)
    assert limits.again(0.25).left == 3.0
    limits.charge(5.0)
    again = limits.again(0.25)
    assert again.left == 1.0 and again.clock is not None and 90.0 < again.clock <= 100.0


#: loops and ops of programs that are left to the solver, and seconds of work that are too few for its proof
CUT_SHORT = [(4, 100, 0.1), (8, 160, 0.2)]


def hurried(count: int, ops: int, seconds: float) -> tuple[Function, float, str | None]:
    """A function lowered with little work: what comes of it, its bound, and the limit that ended the choice."""
    program = read_program(loops(count, ops), "loops.json")
    found = lower(program.functions[0], TARGET, choice_limits=ChoiceLimits(seconds, clock=60.0))
    return found.function, found.lower_bound, found.limit


@pytest.mark.parametrize(("count", "ops", "seconds"), CUT_SHORT)
def test_a_choice_that_is_cut_short_is_the_same_on_a_slower_machine(
    monkeypatch: pytest.MonkeyPatch, count: int, ops: int, seconds: float
) -> None:
    before, least = hurried(count, ops, seconds), hurried(count, ops, 0.001)
    assert before[2] == least[2] == WORK and before[1] > 2.0 * least[1], "the solver proved something, and not all of it"
    solved: list[float] = []
    solve = Model.solve

    def slowly(self: Model, limits: ChoiceLimits) -> Any:
        solved.append(limits.left)
        time.sleep(0.1)
        return solve(self, limits)

    monkeypatch.setattr(Model, "solve", slowly)
    assert hurried(count, ops, seconds) == before
    assert solved
