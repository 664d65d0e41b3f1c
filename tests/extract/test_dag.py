"""Extraction by DAG cost: every step keeps the best extraction, every bound is one, and the whole equals trying all."""

from __future__ import annotations

import pytest

from extract.dag.exact import solve
from extract.dag.graph import Dag, Node, cost_of, keys_of, settled
from extract.dag.greedy import greedy
from extract.dag.parts import parts
from extract.dag.reduce import reduced
from extract.dag.relax import relaxed
from extract.dag.search import improved
from extract.dag.sets import bits, sets_of
from extract.dag.solve import extract
from tests.extract.dag_graphs import brute_force, random_dag

SEEDS = range(300)


def dag_of(*classes: list[tuple[int, set[int]]]) -> Dag:
    """A graph from the costs and children of the nodes of each class; the last class is the root."""
    numbers = iter(range(1000))
    made = [[Node(cost, frozenset(children), (next(numbers),)) for cost, children in nodes] for nodes in classes]
    return Dag(made, len(made) - 1)


def test_the_extraction_equals_trying_all_on_small_graphs_with_circles() -> None:
    found = 0
    for seed in SEEDS:
        dag = random_dag(seed)
        result, best = extract(dag), brute_force(dag)
        assert (result and result.cost) == best, seed
        if result is not None:
            found += 1
            assert result.bound == result.cost and result.optimal
            taken = settled(dag, keys_of(result.taken))
            assert taken == result.taken and cost_of(taken) == result.cost
    assert found > 150


def test_greedy_gives_an_extraction_wherever_there_is_one() -> None:
    for seed in SEEDS:
        dag = random_dag(seed)
        taken, best = greedy(dag), brute_force(dag)
        assert (taken is None) == (best is None)
        if taken is not None and best is not None:
            assert settled(dag, keys_of(taken)) == taken and cost_of(taken) >= best


@pytest.mark.parametrize("thorough", [True, False])
def test_simplification_keeps_the_best_extraction_and_it_can_be_read_back(thorough: bool) -> None:
    for seed in SEEDS:
        dag = random_dag(seed)
        best = brute_force(dag)
        for known in (None, best):
            small = reduced(dag, known, thorough)
            assert (small is None) == (best is None)
            if small is None:
                continue
            assert brute_force(small.dag) == best, seed
            taken = greedy(small.dag)
            assert taken is not None
            back = settled(dag, [*keys_of(taken), *small.free])
            assert back is not None and cost_of(back) <= cost_of(taken)
        if best:
            assert reduced(dag, best - 1, thorough) is None or brute_force(dag) == best


def test_parts_make_the_whole() -> None:
    several = 0
    for seed in SEEDS:
        small = reduced(random_dag(seed, classes=9, most=2))
        if small is None:
            continue
        pieces = parts(small.dag)
        several += len(pieces) > 1
        costs = [brute_force(piece) for piece in pieces]
        assert None not in costs and sum(cost or 0 for cost in costs) == brute_force(small.dag)
    assert several > 10


def test_the_relaxation_is_a_bound_and_rules_out_only_what_is_dearer() -> None:
    for seed in SEEDS:
        dag = random_dag(seed)
        best, start = brute_force(dag), greedy(dag)
        if best is None or start is None:
            continue
        small = reduced(dag, cost_of(start))
        assert small is not None
        for known in (best, cost_of(start)):
            found = relaxed(small.dag, known, 10.0)
            assert found.bound <= best
            assert brute_force(found.dag) == best


def test_the_relaxation_finds_the_bound_of_its_docstring() -> None:
    dag = dag_of([(4, set())], [(2, set())], [(2, {0}), (3, {1})], [(0, {2})])
    assert relaxed(dag, 6, 10.0).bound == 5


def test_the_solver_alone_equals_trying_all() -> None:
    for seed in range(60):
        dag = random_dag(seed)
        start = greedy(dag)
        if start is None:
            continue
        alive = reduced(dag, None)
        assert alive is not None
        solution = solve(alive.dag, {}, 10.0, 10.0)
        assert solution.complete and solution.taken is not None
        assert cost_of(solution.taken) == solution.bound == brute_force(dag)


def test_the_search_improves_what_greedy_does_not_see() -> None:
    # greedy pays 3 for each of four classes; together they can read one class of 4
    separate = [(3, set[int]())]
    dag = dag_of([(4, set())], *[[*separate, (0, {0})] for _ in range(4)], [(0, {1, 2, 3, 4})])
    start = greedy(dag)
    assert start is not None and cost_of(start) == 12
    assert cost_of(improved(dag, start, 10.0, 20, 0)) == 4


def test_circles_are_no_extraction() -> None:
    dag = dag_of([(0, {1}), (9, set())], [(0, {0}), (7, set())], [(0, {0, 1})])
    result = extract(dag)
    assert result is not None and result.cost == 7 and result.optimal
    assert settled(dag, [0, 2, 4]) is None
    assert extract(dag_of([(1, {1})], [(1, {0})], [(0, {0})])) is None


def test_sets_are_those_of_the_docstring() -> None:
    dag = dag_of([(1, set())], [(1, {0}), (2, {0})], [(0, {0, 1})])
    sets = sets_of(dag, context=True)
    assert list(bits(sets.must[1])) == [0, 1]
    assert list(bits(sets.with_[0])) == [0, 1, 2]
    assert list(bits(sets.over[0])) == [0, 2] and list(bits(sets.above[0])) == [0, 1, 2]


def test_the_same_graph_gives_the_same_extraction() -> None:
    for seed in range(20):
        first, second = (extract(random_dag(seed, classes=40, most=4)) for _ in range(2))
        assert first == second


def test_costs_beyond_the_solver_are_rounded_down_and_summed_exactly() -> None:
    big = 2**70
    dag = dag_of([(big + 1, set())], [(big, {0}), (2 * big, set())], [(big, {0}), (2 * big, set())], [(0, {1, 2})])
    result = extract(dag)
    assert result is not None and result.cost == 3 * big + 1 and result.optimal
