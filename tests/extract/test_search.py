"""Branch and bound: proves what is best, keeps what it was given where nothing is better, and stops when told."""

from __future__ import annotations

import pytest
from building import Build

from extract import search as searching
from extract.plan import greedy
from extract.problem import Problem
from extract.question import Question
from extract.search import search
from pypto_ir.stmt import Function
from tests.extract.brute_force import BruteForce, asked

UNLIMITED = 1 << 30


def question_of(function: Function) -> Question:
    question = asked(function)
    assert question is not None
    return question


def hoistable() -> Function:
    """An op that costs less in front of the loop than in every trip."""
    b = Build()
    x, y = b.load("x", (16, 64)), b.load("y", (16, 64))
    with b.loop("i", 8, {"acc": x}) as (_, acc):
        b.yields(b.let("sum", "tile.add", acc, b.let("e", "tile.exp", y)))
    b.out(b.ended[0])
    return b.function()


def paged() -> Function:
    """A tile that is made by pages and used flat."""
    b = Build()
    y = b.let("y", "tile.add", b.load("x", (2, 4, 8)), b.load("w", (1, 4, 8)))
    b.out(b.let("z", "tile.reshape", y, (2, 2, 16)))
    return b.function()


def start_of(question: Question) -> tuple[list[int], float]:
    chosen = greedy(question.problem, question.choices[-1])
    return chosen, question.problem.cost(chosen)


def least(asking: Problem) -> float:
    brute = BruteForce(asking)
    return min(map(brute.cost, brute.choices()))


@pytest.mark.parametrize("program", [hoistable, paged])
def test_search_finds_the_least_cost_from_nothing_and_from_a_greedy_choice(program: object) -> None:
    question = question_of(program())  # type: ignore[operator]
    best = pytest.approx(least(question.problem))
    for start, cost in (([], float("inf")), start_of(question)):
        found = search(question.problem, start, cost, UNLIMITED)
        assert (found.complete, found.cost, question.problem.cost(found.chosen)) == (True, best, best)
        assert BruteForce(question.problem).valid(frozenset(found.chosen))


def test_search_improves_on_a_greedy_choice_that_leaves_work_in_a_loop() -> None:
    question = question_of(hoistable())
    chosen, cost = start_of(question)
    found = search(question.problem, chosen, cost)
    assert found.cost < cost and found.complete
    moved = [question.problem.candidates[i] for i in found.chosen if not question.problem.candidates[i].own]
    assert [k.region for k in moved] == [0]


def test_a_choice_that_is_best_is_kept_as_it_is() -> None:
    question = question_of(hoistable())
    best = search(question.problem, [], float("inf"), UNLIMITED)
    again = search(question.problem, best.chosen, best.cost, UNLIMITED)
    assert (again.chosen, again.cost, again.complete) == (best.chosen, best.cost, True)


def test_search_without_nodes_keeps_the_start_and_is_not_complete() -> None:
    question = question_of(hoistable())
    chosen, cost = start_of(question)
    stopped = search(question.problem, chosen, cost, 0)
    assert (stopped.chosen, stopped.cost, stopped.complete) == (chosen, cost, False)


def test_problems_of_many_candidates_are_left_to_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    question = question_of(hoistable())
    chosen, cost = start_of(question)
    size = len(question.problem.live)
    monkeypatch.setattr(searching, "CANDIDATES", size - 1)
    assert not search(question.problem, chosen, cost, UNLIMITED).complete
    monkeypatch.setattr(searching, "CANDIDATES", size)
    assert search(question.problem, chosen, cost, UNLIMITED).complete


def test_search_leaves_the_problem_as_it_was() -> None:
    question = question_of(paged())
    loads, classes = dict(question.problem.loads), {c: list(m) for c, m in question.problem.by_class.items()}
    search(question.problem, [], float("inf"), UNLIMITED)
    assert (question.problem.loads, question.problem.by_class) == (loads, classes)
