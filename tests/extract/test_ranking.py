"""Choices that are listed once and looked at again as conditions come: the first of the list is what a search from the beginning finds."""

from __future__ import annotations

import random
from math import inf

import pytest
from building import Build

from extract import ranking as ranked
from extract.cuts import Cut
from extract.cycles import Cycles
from extract.exact import realized
from extract.problem import Problem
from extract.ranking import Rankings
from extract.search import listed, search
from pypto_ir.stmt import Function
from tests.extract.brute_force import BruteForce, asked

UNLIMITED = 1 << 20


def chain(length: int) -> Problem:
    """Ops one after the other on tiles of pages, each of which can be flat or pages, in a loop or in front of it."""
    b = Build()
    x, y = b.load("x", (2, 16, 64)), b.load("y", (2, 16, 64))
    with b.loop("i", 4, {"acc": x}) as (_, acc):
        made = y
        for n in range(length):
            made = b.let(f"e{n}", "tile.exp", made)
        b.yields(b.let("sum", "tile.add", acc, made))
    b.out(b.ended[0])
    return problem_of(b.function())


def problem_of(function: Function) -> Problem:
    question = asked(function)
    assert question is not None
    return question.problem


def without(problem: Problem, source: random.Random, chosen: list[int], possible: list[int]) -> Cut:
    """A condition that a choice breaks: some of its candidates together cost more, or cannot be where that leaves another `possible`."""
    some = tuple(sorted(source.sample(chosen, min(len(chosen), source.randint(1, 4)))))
    if source.random() < 0.2 and not set(some) <= set(possible):
        return Cut(some, (), None)
    region = problem.candidates[some[0]].region
    return Cut(some, (), ((region, Cycles(v=float(source.randint(1, 4)))),))


@pytest.mark.parametrize("seed", range(12))
def test_the_first_of_the_list_is_what_a_search_finds_whatever_is_learned(seed: int) -> None:
    source, problem, rankings = random.Random(seed), chain(1 + seed % 3), Rankings()
    first = search(problem, [], inf, UNLIMITED)
    dear = _dearest(problem)
    problem.conditions.cuts.append(without(problem, source, first.chosen, dear))
    took = 0
    for _ in range(25):
        cost = problem.cost(dear)
        if cost == inf:
            break
        wanted = search(problem, dear, cost, UNLIMITED)
        found = rankings.cheapest(problem, dear, cost, UNLIMITED)[0]
        assert found is not None and found.complete
        assert found.cost == pytest.approx(wanted.cost) == problem.cost(found.chosen)
        assert BruteForce(problem).valid(frozenset(found.chosen)) and len(realized(problem, found.chosen)) == len(found.chosen)
        took += found.nodes < wanted.nodes
        if found.chosen == dear:
            break
        problem.conditions.cuts.append(without(problem, source, found.chosen, dear))
    assert took >= 20


def _dearest(problem: Problem) -> list[int]:
    brute = BruteForce(problem)
    found = max((c for c in brute.choices() if brute.cost(c) < inf), key=lambda c: (brute.cost(c), sorted(c)))
    return sorted(found)


def test_a_list_holds_every_choice_below_its_limit_and_no_other() -> None:
    problem = chain(2)
    problem.conditions.cuts.append(Cut((-1,), (), None))  # breaks nothing, but tiles may now be made twice
    brute = BruteForce(problem)
    limit = sorted({round(brute.cost(c), 6) for c in brute.choices()})[4]
    choices, nodes = listed(problem, limit, UNLIMITED)
    assert choices is not None and nodes > 0
    assert all(cost == problem.cost(chosen) < limit for cost, chosen in choices)
    valid = {frozenset(c) for _, c in choices if len(realized(problem, c)) == len(c)}
    below = {c for c in brute.choices() if brute.cost(c) < limit - 1e-6}
    assert below <= valid and len(below) > 3


def test_nothing_is_listed_before_something_is_learned_or_without_anything_to_beat() -> None:
    problem, rankings = chain(1), Rankings()
    best = search(problem, [], inf, UNLIMITED)
    assert rankings.cheapest(problem, best.chosen, best.cost, UNLIMITED) == (None, 0)
    problem.conditions.cuts.append(Cut(tuple(best.chosen), (), None))
    assert rankings.cheapest(problem, [], inf, UNLIMITED) == (None, 0)
    assert not rankings.parts


def test_where_nothing_is_known_what_costs_little_more_than_the_best_is_listed() -> None:
    problem, rankings = chain(2), Rankings()
    brute = BruteForce(problem)
    costs = sorted(brute.cost(c) for c in brute.choices())
    searched = 0
    for _ in range(40):
        before = rankings.least.copy()
        found = rankings.best(problem, [], inf, UNLIMITED)
        searched += rankings.least != before
        assert found.complete and found.cost == pytest.approx(search(problem, [], inf, UNLIMITED).cost)
        problem.conditions.cuts.append(Cut(tuple(found.chosen), (), None))
    assert costs[0] < found.cost and 2 <= searched <= 20, "most are found in a list, and lists are made anew"


def test_a_part_of_too_many_choices_is_searched_and_not_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, rankings = chain(2), Rankings()
    dear = _dearest(problem)
    problem.conditions.cuts.append(Cut((-1,), (), None))
    found, spent = rankings.cheapest(problem, dear, problem.cost(dear), 1)
    assert found is None and spent > 0, "what a list took counts, also where it came to no end"
    monkeypatch.setattr(ranked, "listed", None)  # would fail if it were asked
    assert rankings.cheapest(problem, dear, problem.cost(dear), UNLIMITED) == (None, 0)


def test_a_list_is_made_anew_where_the_known_choice_got_dearer_than_its_limit() -> None:
    problem, rankings = chain(1), Rankings()
    best, dear = search(problem, [], inf, UNLIMITED), _dearest(problem)
    problem.conditions.cuts.append(Cut(tuple(best.chosen), (), ((0, Cycles(v=1.0)),)))
    close = problem.cost(best.chosen) - 0.5
    assert rankings.cheapest(problem, best.chosen, close, UNLIMITED)[0] is not None
    (part,) = rankings.parts.values()
    assert part is not None and part.limit == close
    found, _ = rankings.cheapest(problem, dear, problem.cost(dear), UNLIMITED)
    wanted = search(problem, dear, problem.cost(dear), UNLIMITED)
    (part,) = rankings.parts.values()
    assert part is not None and part.limit == problem.cost(dear)
    assert found is not None and found.cost == pytest.approx(wanted.cost)


def test_a_part_that_no_search_comes_to_the_end_of_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, rankings = chain(2), Rankings()
    first = rankings.best(problem, [], inf, 2)
    assert not first.complete and first.nodes == 2
    monkeypatch.setattr(ranked, "search", None)  # would fail if it were asked
    assert rankings.best(problem, [], inf, 2).nodes == 0


def test_a_part_of_which_nothing_is_learned_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, rankings = chain(2), Rankings()
    first = rankings.best(problem, [], inf, UNLIMITED)
    monkeypatch.setattr(ranked, "search", None)  # would fail if it were asked
    again = rankings.best(problem, _dearest(problem), problem.cost(_dearest(problem)), UNLIMITED)
    assert (again.chosen, again.cost, again.complete, again.nodes) == (first.chosen, first.cost, True, 0)
