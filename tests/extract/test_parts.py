"""Regions that share nothing are chosen for apart, and together they cost what the whole costs."""

from __future__ import annotations

import random
from dataclasses import replace

from alternatives import TARGET
from effort import calls_of
from generators import random_program

from benchmarks.scaling import loops
from egraph_rules.graph import saturated
from extract.candidates import problem
from extract.choice import choose
from extract.decide import decide
from extract.effort import ChoiceLimits
from extract.legal import refusals
from extract.parts import parts, rest
from extract.problem import Problem
from extract.search import search
from extract.target import FREE_CODE, Code, Target
from extract.weights import class_weights
from pypto_ir.json_reader import read_program

#: a machine that fetches all code of any program that has a choice
BARE = replace(TARGET, code=Code(1, 2.5, "made up"))


def problems(seeds: range, target: Target = TARGET) -> list[Problem]:
    found = []
    for seed in seeds:
        for function in random_program(random.Random(seed)).functions:
            if not function.in_core or refusals(function):
                continue
            graph = saturated(function)
            choice = choose(graph, target, class_weights(graph))
            if not choice.missing:
                found.append(problem(graph, choice, target))
    return found


def test_parts_hold_every_candidate_and_root_once() -> None:
    several = 0
    for whole in problems(range(1, 40)):
        pieces = parts(whole)
        several += len(pieces) > 1
        live = sorted(i for members in whole.by_class.values() for i in members)
        assert sorted(i for piece in pieces for members in piece.by_class.values() for i in members) == live
        assert sum(len(piece.roots) for piece in pieces) == len(whole.roots)
        for piece in pieces:
            for d in piece.roots:
                assert piece.servers(d) == whole.servers(d)
    assert several >= 3


def test_parts_decide_what_the_whole_decides() -> None:
    checked = paid = 0
    for whole in (*problems(range(1, 30, 2)), *problems(range(1, 30), BARE)):
        pieces = parts(whole)
        if len(pieces) == 1:
            continue
        alone = search(whole, [], float("inf"), nodes=20_000)
        apart = decide(whole, [whole.choice], 0.0, ChoiceLimits())
        if alone.complete and apart.proof == "optimal":
            checked += 1
            paid += whole.code.fetch > 0 and pieces[0].code.fetch > 0
            assert abs(alone.cost - apart.cost) < 1e-6
            assert (
                abs(rest(whole, pieces) + sum(piece.cost([i for i in apart.chosen if _in(piece, i)]) for piece in pieces) - apart.cost)
                < 1e-6
            )
    assert checked >= 4 and paid >= 2


def test_code_that_may_be_cached_or_not_holds_a_problem_together() -> None:
    several = 0
    for whole in problems(range(1, 40)):
        least = whole.surely
        most = sum(load.code for load in whole.loads.values()) + sum(
            max(whole.candidates[i].cycles.code for i in m) for m in whole.by_class.values()
        )
        pieces = parts(whole)
        if len(pieces) > 1 and least < most:
            several += 1
            assert len(parts(replace(whole, code=Code(int(least) + 1, 1.0, "")))) == 1
            assert len(parts(replace(whole, code=Code(int(least), 1.0, "")))) == len(pieces)
    assert several


def _in(piece: Problem, i: int) -> bool:
    return any(i in members for members in piece.by_class.values())


def independent(count: int) -> Problem:
    """So many loops one after the other that only hand a tensor on."""
    body: list[str] = []
    for n in range(count):
        before = "out" if n == 0 else f"r{n - 1}"
        body.append(
            f'{{"for": "i{n}", "range": [0, 4, 1], "carry": [{{"name": "c{n}", "init": "{before}"}}], "body": ['
            f'{{"let": "x{n}", "op": "tile.load", "args": ["a", ["i{n}", 0, 0], [2, 8, 16], [2, 8, 16]]}},'
            f'{{"let": "y{n}", "op": "tile.exp", "args": ["x{n}"]}},'
            f'{{"let": "o{n}", "op": "tile.store", "args": ["y{n}", ["i{n}", 0, 0], "c{n}"]}},'
            f'{{"yield": ["o{n}"]}}], "results": ["r{n}"]}}'
        )
    tensor = '{"tensor": [8, 8, 16], "dtype": "FP32"}'
    return posed(
        f'{{"pypto_ir": 1, "functions": [{{"name": "f", "kind": "InCore", "params": [{{"name": "a", "type": {tensor}}},'
        f'{{"name": "out", "type": {tensor}, "direction": "Out"}}], "returns": [{tensor}],'
        f'"body": [{",".join(body)}, {{"return": ["r{count - 1}"]}}]}}]}}'
    )


def posed(text: str) -> Problem:
    """The problem of a program on a machine that has room for any code."""
    target, graph = replace(TARGET, code=FREE_CODE), saturated(read_program(text).functions[0])
    return problem(graph, choose(graph, target, class_weights(graph)), target)


def test_independent_loops_are_parts_of_their_own() -> None:
    assert len(parts(independent(3))) == 3


def test_deciding_grows_with_the_loops_and_not_with_their_square() -> None:
    few, many = independent(20), independent(80)
    assert decide(few, [few.choice], 0.0, ChoiceLimits()).proof == "optimal"
    calls = [calls_of(lambda: decide(whole, [whole.choice], 0.0, ChoiceLimits())) for whole in (few, many)]  # noqa: B023
    assert calls[1] <= 4.2 * calls[0]


def test_looking_for_servers_grows_with_the_loops_where_all_of_them_make_one_class() -> None:
    """Each loop loads the same window: one class, which every loop may hold."""
    few, many = posed(loops(20, 160)), posed(loops(80, 640))
    assert max(map(len, few.by_class.values())) >= 20
    assert calls_of(lambda: parts(many)) <= 4.2 * calls_of(lambda: parts(few))
