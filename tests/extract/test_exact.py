"""The choice is exact: greedy, branch and bound and the solver against a brute force, and the program is what was chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

import pytest
from alternatives import TARGET
from building import Build
from generators import random_program

from egraph_rules.buffers import aliased_params
from extract import choice as choosing
from extract import decide as deciding
from extract import exact as solving
from extract import ranking
from extract.decide import decide
from extract.effort import ChoiceLimits
from extract.exact import Solution, circles, realized, solve
from extract.lower import lower
from extract.parts import parts
from extract.plan import greedy
from extract.problem import Problem
from extract.question import Question
from extract.search import Found, search
from extract.target import Code, Target
from extract.trips import DEFAULT_TRIPS
from extract.verdict import Judge
from pypto_ir.stmt import Function
from tests.extract.brute_force import BruteForce, TooMany, asked, subsets

ROOT = Path(__file__).parents[2]
#: programs of the short and the long run; functions of them that the brute force does, and of those that leave a choice, at least
SHORT, SHORT_DONE, SHORT_OPEN = 60, 50, 15
LONG, LONG_DONE, LONG_OPEN = 2_000, 1_500, 700
#: a program with candidates in a loop of which nothing is wanted
UNWANTED = 10_342
#: a program with a handover whose form is wanted beside it: one candidate, to be paid once
FORM_TOO = 20_339
#: a program with a handover that costs something: listed by its form too, the solver has to count it once
LISTED_TWICE = 11_137
#: seconds for the solver: far more than a problem of this size takes
SECONDS = 300.0
#: a machine whose instruction cache holds less than most of these programs: every second one is lowered for it
TINY = replace(TARGET, code=Code(5, 2.5, "made up"))


@dataclass(frozen=True, slots=True)
class Checked:
    """What was compared for one function: how many choices there were, and whether its program was priced too."""

    choices: int
    priced: bool


def check(function: Function, aliased: tuple[tuple[str, str], ...], target: Target) -> Checked | None:
    """Compare every way of choosing for one function with the brute force; None where it is refused or too large."""
    question = asked(function, aliased, target)
    if question is None:
        return None
    asking, brute = question.problem, BruteForce(question.problem)
    try:
        costs = [brute.cost(chosen) for chosen in brute.choices()]
    except TooMany:
        return None
    least = pytest.approx(min(costs), rel=1e-9)
    assert question.bound <= min(costs) * (1 + 1e-9), "the lower bound is none"
    decision = decide(asking, question.choices, question.bound, ChoiceLimits(SECONDS))
    assert (decision.proof, decision.cost, asking.cost(decision.chosen)) == ("optimal", least, least)
    assert brute.valid(frozenset(decision.chosen))
    for choice in question.choices:
        first = greedy(asking, choice)
        assert not brute.valid(frozenset(first)) or asking.cost(first) >= min(costs) * (1 - 1e-9)
    found = search(asking, [], float("inf"), 1 << 30)
    assert (found.complete, found.cost) == (True, least) and brute.valid(frozenset(found.chosen))
    solution = solve(asking, ChoiceLimits(SECONDS))
    assert (solution.optimal, solution.cost, solution.bound) == (True, least, least)
    assert brute.valid(frozenset(solution.chosen))
    return Checked(len(costs), priced(question, decision.chosen, min(costs), target))


def priced(question: Question, chosen: list[int], least: float, target: Target) -> bool:
    """Compare the price of the program of a choice with the cost of the choice; False where it costs more, for copies or for pages
    that the model was not sure of."""
    verdict = Judge(question.problem, target, DEFAULT_TRIPS).judge(chosen)
    if verdict.price is None:
        return False
    assert verdict.price.cost >= least * (1 - 1e-9), "the program is cheaper than what was chosen"
    assert verdict.surplus or verdict.price.cost == pytest.approx(least, rel=1e-9), "the program is not what was chosen"
    return not verdict.surplus


def compared(seeds: Iterable[int]) -> list[Checked]:
    """What was checked of the programs of these seeds."""
    found = []
    for seed in seeds:
        program = random_program(Random(seed), 2 + seed % 7)
        aliased = aliased_params(program)
        target = TINY if seed % 2 else TARGET
        found += [check(f, aliased.get(f.name, ()), target) for f in program.functions if f.in_core]
    return [c for c in found if c is not None]


def test_every_way_of_choosing_finds_what_brute_force_finds() -> None:
    found = compared([*range(SHORT), UNWANTED, FORM_TOO, LISTED_TWICE])
    assert len(found) >= SHORT_DONE and sum(c.choices > 1 for c in found) >= SHORT_OPEN
    assert sum(c.priced for c in found) >= 0.8 * len(found)


@pytest.mark.long
def test_every_way_of_choosing_finds_what_brute_force_finds_at_length() -> None:
    found = compared(range(10_000, 10_000 + LONG))
    assert len(found) >= LONG_DONE and sum(c.choices > 1 for c in found) >= LONG_OPEN
    assert sum(c.priced for c in found) >= 0.8 * len(found)


def test_brute_force_finds_what_trying_every_set_finds() -> None:
    compared_sets = 0
    for seed in range(200):
        for function in random_program(Random(seed), 3).functions:
            question = asked(function) if function.in_core else None
            if question is not None and 4 <= len(question.problem.candidates) <= 10:
                brute = BruteForce(question.problem)
                tried = list(subsets(question.problem))
                served = brute.choices()
                assert set(served) <= set(tried)
                assert min(map(brute.cost, served)) == min(map(brute.cost, tried))
                compared_sets += len(tried) > 1
    assert compared_sets >= 20


def circular() -> Function:
    """The sum is made by pages; its flat form is packed from them, and they could be cut from its flat form."""
    b = Build()
    y = b.let("y", "tile.add", b.load("x", (2, 4, 8)), b.load("w", (1, 4, 8)))
    b.out(b.let("z", "tile.reshape", y, (2, 2, 16)))
    return b.function()


def test_greedy_choice_is_made_of_nothing_of_its_own_where_costs_reach_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "_LIMIT", 1.0)
    question = asked(circular())
    assert question is not None
    for choice in question.choices:
        assert BruteForce(question.problem).valid(frozenset(greedy(question.problem, choice)))


def candidate(asking: Problem, name: str, reader: int | None = None) -> int:
    """The one candidate with a node of this name, among those that a reader may read where one is given."""
    reads = None if reader is None else {j for d in asking.candidates[reader].demands for j in asking.servers(d)}
    (found,) = (
        i
        for i, k in enumerate(asking.candidates)
        if k.c >= 0 and asking.choice.options[k.c][k.option].node.name == name and (reads is None or i in reads)
    )
    return found


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """What the solver proposes, round by round."""
    found: list[set[int]] = []

    def recorded(problem: Problem, chosen: list[int]) -> list[int]:
        found.append(set(chosen))
        return realized(problem, chosen)

    monkeypatch.setattr(solving, "realized", recorded)
    return found


@pytest.fixture
def without_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Circles of two show up like larger ones."""
    monkeypatch.setattr(solving.Model, "add_pairs", lambda self: None)


@pytest.mark.usefixtures("without_pairs")
def test_what_would_be_made_of_itself_is_cut_off(met: list[set[int]]) -> None:
    question = asked(circular())
    assert question is not None
    asking = question.problem
    circle = {candidate(asking, "PackRows"), candidate(asking, "RowsOf", candidate(asking, "PackRows"))}
    assert realized(asking, sorted(circle)) == [] and circles(asking, sorted(circle), []) == [sorted(circle)]
    solution = solve(asking, ChoiceLimits(SECONDS))
    assert solution.optimal
    assert circle <= met[0], "the solver never met the circle"
    assert not circle <= set(solution.chosen)
    assert len(realized(asking, list(solution.chosen))) == len(solution.chosen)


def large(trips: int = 0) -> Problem:
    """Six circles, in a loop where `trips` are given: too much to prove in no time."""
    b = Build()

    def body() -> None:
        for n in range(6):
            y = b.let(f"y{n}", "tile.add", b.load(f"x{n}", (4, 4, 8)), b.load(f"w{n}", (1, 4, 8)))
            b.out(b.let(f"z{n}", "tile.reshape", b.let(f"e{n}", "tile.exp", y), (4, 2, 16)))

    if trips:
        with b.loop("i", trips):
            body()
    else:
        body()
    question = asked(b.function())
    assert question is not None
    return question.problem


def test_pairs_that_would_make_each_other_are_ruled_out_beforehand(met: list[set[int]]) -> None:
    asking = large(4)
    solution = solve(asking, ChoiceLimits(SECONDS))
    assert solution.optimal and solution.bound == pytest.approx(solution.cost)
    assert len(met) == 1, "what the solver finds at first can be computed"


@pytest.mark.usefixtures("without_pairs")
def test_circles_are_cut_one_by_one_and_not_their_union(met: list[set[int]]) -> None:
    asking = large(4)
    solution = solve(asking, ChoiceLimits(SECONDS))
    assert solution.optimal and solution.bound == pytest.approx(solution.cost)
    first = sorted(met[0])
    found = circles(asking, first, realized(asking, first))
    assert len(found) == 6 and all(realized(asking, circle) == [] for circle in found)
    assert len(met) <= 8, "each round cuts every circle of its choice"


@pytest.mark.usefixtures("without_pairs")
def test_bound_of_a_run_counts_where_the_next_one_has_no_time(met: list[set[int]]) -> None:
    class Once(ChoiceLimits):
        @property
        def left(self) -> float:
            return 0.0 if met else SECONDS

    asking = large(4)
    hurried, best = solve(asking, Once()), solve(asking, ChoiceLimits(SECONDS))
    assert not hurried.chosen and not hurried.optimal
    assert asking.cost([]) < hurried.bound <= best.cost < hurried.cost


@pytest.mark.parametrize("trips", [1 << 20, 1 << 50, (1 << 62) - 1])
def test_trips_of_any_number_are_within_the_range_of_the_solver(trips: int) -> None:
    asking, small = large(trips), large(1 << 12)
    solution = solve(asking, ChoiceLimits(SECONDS))
    assert solution.bound <= solution.cost == asking.cost(list(solution.chosen))
    assert solution.cost - solution.bound <= 1e-6 * solution.cost
    best = solve(small, ChoiceLimits(SECONDS))
    assert solution.cost == pytest.approx(asking.cost(list(best.chosen)), rel=1e-6)


def test_trips_of_nested_loops_stay_finite() -> None:
    b = Build()
    loops = [b.loop(f"i{n}", (1 << 62) - 1) for n in range(20)]
    for loop in loops:
        loop.__enter__()
    b.out(b.let("y", "tile.add", b.load("x", (4, 4, 8)), b.load("w", (1, 4, 8))))
    for loop in reversed(loops):
        loop.__exit__(None, None, None)
    found = lower(b.function(), TARGET)
    assert 0 < found.lower_bound <= found.cost < float("inf")


def test_solver_without_time_proves_nothing_that_is_not_so() -> None:
    asking = large()
    best = solve(asking, ChoiceLimits(SECONDS))
    assert best.optimal
    hurried = solve(asking, ChoiceLimits(0.0))
    assert hurried.bound <= best.cost <= hurried.cost and not hurried.optimal and not hurried.chosen


def test_decision_without_time_keeps_the_greedy_choice_and_calls_it_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    question = asked(circular())
    assert question is not None
    monkeypatch.setattr(ranking, "search", lambda problem, chosen, cost, nodes: Found(chosen, cost, False))
    monkeypatch.setattr(deciding, "solve", lambda problem, limits, start: Solution((), float("inf"), 0.0, False))
    decision = decide(question.problem, question.choices, 1.0, ChoiceLimits(0.0))
    assert (decision.proof, decision.bound, decision.cost) == ("bounded", 1.0, decision.greedy_cost)
    assert BruteForce(question.problem).valid(frozenset(decision.chosen))


def test_a_part_of_which_nothing_is_wanted_is_decided_without_a_choice() -> None:
    b = Build()
    x = b.load("x", (4, 4, 8))
    with b.loop("i", 4):
        b.let("unused", "tile.exp", b.load("w", (4, 4, 8)))
    b.out(b.let("y", "tile.exp", x))
    question = asked(b.function())
    assert question is not None
    nothing = replace(question.problem, roots=[])
    pieces = parts(nothing)
    assert pieces and not any(piece.roots for piece in pieces)
    decision = decide(nothing, question.choices, 0.0, ChoiceLimits())
    assert (decision.chosen, decision.cost, decision.bound, decision.proof) == ([], nothing.cost([]), nothing.cost([]), "optimal")
    assert decide(question.problem, question.choices, 0.0, ChoiceLimits()).proof == "optimal"


def test_search_that_runs_out_of_nodes_is_not_complete() -> None:
    asking = large()
    stopped = search(asking, [], float("inf"), 10)
    assert (stopped.complete, stopped.chosen) == (False, [])


@cache
def fingerprint() -> str:
    """What is chosen for some programs, candidate by candidate."""
    lines = []
    for seed in range(20):
        for function in random_program(Random(seed), 6).functions:
            question = asked(function) if function.in_core else None
            if question is not None:
                solution = solve(question.problem, ChoiceLimits(SECONDS))
                decision = decide(question.problem, question.choices, question.bound, ChoiceLimits(SECONDS))
                lines.append(f"{seed} {question.problem.candidates} {decision} {solution}")
    return "\n".join(lines)


def test_choices_are_the_same_in_every_process() -> None:
    folders = [ROOT, ROOT / "tests", ROOT / "tests" / "extract", ROOT / "tests" / "egraph_rules"]
    command = "from test_exact import fingerprint; print(fingerprint())"
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(map(str, folders))}
        done = subprocess.run([sys.executable, "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == fingerprint()
