"""The lower bound: never above what any choice costs, and met where there is no choice."""

from __future__ import annotations

import pytest
from alternatives import TARGET, alternatives
from building import Build
from drawing import Draw
from flat_programs import PROGRAMS as FLAT
from page_programs import PROGRAMS as PAGES

from egraph_rules.graph import saturated
from extract.bound import lower_bound
from extract.candidates import problem
from extract.choice import choose
from extract.lower import lower
from extract.price import price
from extract.trips import DEFAULT_TRIPS
from extract.weights import class_weights
from pypto_ir.stmt import Function


def bound_of(function: Function) -> float:
    graph = saturated(function)
    choice = choose(graph, TARGET, class_weights(graph))
    return lower_bound(graph, choice, TARGET, problem(graph, choice, TARGET).held(), DEFAULT_TRIPS)


@pytest.mark.parametrize("name", [*FLAT, *PAGES])
def test_bound_is_at_most_the_cost_of_every_alternative(name: str) -> None:
    for number in (0, 3, 5):
        function = {**FLAT, **PAGES}[name](Draw(name, number))
        bound = bound_of(function)
        costs = [price(f, TARGET).cost for f in alternatives(function).functions.values()]
        assert costs and 0 < bound <= min(costs) + 1e-9


def single(trips: int, valid: tuple[int, ...] | None = None) -> Function:
    """Programs of which every class has one node: 2-D ops, in a loop or not."""
    b = Build()
    x = b.load("x", (16, 64), valid)
    if trips:
        with b.loop("i", trips, {"acc": x}) as (_, acc):
            b.yields(b.let("sum", "tile.add", acc, x))
        x = b.ended[0]
    b.out(b.let("y", "tile.exp", x))
    return b.function()


@pytest.mark.parametrize("trips", [0, 2, 7])
def test_bound_is_the_cost_where_there_is_one_choice(trips: int) -> None:
    function = single(trips)
    assert len(alternatives(function).functions) == 1
    assert bound_of(function) == pytest.approx(price(function, TARGET).cost)
    assert lower(function, TARGET).lower_bound == pytest.approx(lower(function, TARGET).cost)


def test_reported_bound_is_at_most_the_reported_cost() -> None:
    for name in ("flat.leaf", "flat.pack", "pages.args", "store.flat"):
        found = lower({**FLAT, **PAGES}[name](Draw(name, 2)), TARGET)
        assert 0 < found.lower_bound <= found.cost


def hoistable() -> Function:
    """A value that the author computes in every trip and that needs no more than the loads in front of the loop."""
    b = Build()
    x, y = b.load("x", (16, 64)), b.load("y", (16, 64))
    with b.loop("i", 8, {"acc": x}) as (_, acc):
        b.yields(b.let("sum", "tile.add", acc, b.let("e", "tile.exp", y)))
    b.out(b.ended[0])
    return b.function()


def test_bound_is_at_most_the_cost_of_a_value_moved_out_of_a_loop() -> None:
    function = hoistable()
    found = lower(function, TARGET)
    assert bound_of(function) <= found.cost < price(function, TARGET).cost
    assert found.cost == pytest.approx(found.lower_bound)
