"""Runners-up are the best programs without a choice: against a brute force, against lowering without rules, and in the large."""

from __future__ import annotations

from random import Random

import pytest
from alternatives import TARGET
from building import Build
from generators import random_program
from helpers import incore, let, load, out, ret, store, tensor

from egraph_rules.buffers import aliased_params
from extract.alternatives import WHOLE, Alternatives, alternatives, best_without
from extract.lower import lower
from extract.trace import Pass
from extract.verdict import Judge
from extract.ways import Ways
from pypto_ir.diagnostics import Refused
from pypto_ir.stmt import Function, Program
from tests.extract.brute_force import BruteForce, TooMany

PROGRAMS, CHECKED = 20, 25
#: choices of a function that are written as programs one by one
MOST = 60


def passes(function: Function, aliased: tuple[tuple[str, str], ...] = ()) -> list[Pass]:
    return lower(function, TARGET, aliased, traced=True).passes


def found(run: Pass, **options: int) -> Alternatives:
    return alternatives(run, Ways(run.question), **options)


def chain(length: int, *shape: int) -> Program:
    names = [f"y{i}" for i in range(length)]
    body = [load("x", "a", [0] * len(shape), list(shape))]
    body += [let(name, "tile.exp", before) for name, before in zip(names, ["x", *names], strict=False)]
    return incore([tensor("a", *shape), out("b", *shape)], [*body, store("o", names[-1], [0] * len(shape), "b"), ret("o")])


def brute(run: Pass, banned: int) -> float | None:
    """The cost of the cheapest program that fits without a candidate, of all that there are."""
    judge = Judge(run.question, run.target, run.default_trips)
    choices = [c for c in BruteForce(run.question, 1 << 11).choices() if banned not in c]
    if len(choices) > MOST:
        raise TooMany
    verdicts = (judge.judge(sorted(c)) for c in choices)
    return min((v.price.cost for v in verdicts if v.fits and v.price is not None), default=None)


def test_runner_up_is_the_cheapest_program_without_the_choice_by_brute_force() -> None:
    checked = 0
    for seed in range(PROGRAMS):
        program = random_program(Random(seed), 2 + seed % 5)
        aliased = aliased_params(program)
        for function in program.functions:
            try:
                runs = passes(function, aliased.get(function.name, ())) if function.in_core else []
            except Refused:
                continue
            for run in runs[:1]:
                for i in run.chosen:
                    try:
                        expected = brute(run, i)
                    except TooMany:
                        break
                    other = best_without(run, frozenset({i}))
                    if expected is None:
                        assert other is None or other.found is None
                        continue
                    assert other is not None and other.found is not None
                    assert i not in other.chosen
                    assert other.found.price.cost == pytest.approx(expected)
                    checked += 1
    assert checked >= CHECKED


def test_runner_up_of_a_chain_is_the_program_that_is_lowered_without_the_rules_of_the_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("extract.lower.ROUNDS", 0)  # the rules that are left out are those of 2-D programs, too
    (function,) = chain(3, 4, 16, 64).functions
    (run,) = passes(function)
    result = found(run)
    costs = [d.found.price.cost for d in result.items if d.found is not None and d.proved]
    assert len(costs) == len(result.items) == 5, "the chain may be cut into pages behind every value"
    assert costs == sorted(costs, reverse=True)
    first = result.items[0]
    assert costs[0] == pytest.approx(lower(function, TARGET, without=frozenset({"flat.load"})).cost)
    assert costs[-1] == pytest.approx(lower(function, TARGET, without=frozenset({"store.flat"})).cost)
    assert {w.name for w in map(Ways(run.question).way, first.chosen)} == {"x", "y0", "y1", "y2", "o"}
    assert (result.forced, result.left_out) == (0, 0)


def test_choices_that_leave_one_program_are_forced() -> None:
    (function,) = chain(2, 16, 64).functions
    (run,) = passes(function) or [None]
    assert run is None or found(run).items == []
    (function,) = chain(2, 1, 16, 64).functions
    (run,) = passes(function)
    result = found(run)
    assert result.items == [] and result.forced == 4


def test_what_nothing_else_fits_beside_says_what_is_too_large() -> None:
    (function,) = chain(1, 8, 96, 128).functions
    (run,) = passes(function)
    (decision,) = found(run).items
    assert decision.found is None
    assert [d.code for d in decision.faults] == ["M001"]


def test_large_functions_are_decided_anew_around_a_choice_only_and_say_how_much_is_left() -> None:
    (function,) = chain(150, 4, 16, 64).functions
    (run,) = passes(function)
    assert sum(map(len, run.question.by_class.values())) > WHOLE
    result = found(run, examined=3)
    assert result.left_out >= 140
    assert all(not d.proved for d in result.items)


def test_every_runner_up_fits_and_costs_no_less_than_the_proved_choice() -> None:
    b = Build()
    x = b.load("x", (2, 16, 64))
    b.out(b.let("z", "tile.exp", b.let("y", "tile.exp", x)))
    (run,) = passes(b.function())
    result = found(run)
    assert result.items
    for decision in result.items:
        assert decision.found is not None and decision.found.allocation.fits
        assert decision.found.price.cost >= run.best.price.cost - 1e-9
        assert decision.found.function != run.best.function
