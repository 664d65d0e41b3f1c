"""The greedy choice: least costs, no circles, what is needed, what is missing."""

from __future__ import annotations

import pytest
from alternatives import TARGET, choices
from building import Build
from drawing import Draw
from flat_programs import PROGRAMS as FLAT
from page_programs import PROGRAMS as PAGES

from egraph_rules.graph import Graph, saturated
from extract.choice import Choice, choose, roots_of, with_option
from extract.cost import call_cost
from extract.machine import load_page
from extract.weights import class_weights
from pypto_ir.stmt import Function

NAMES = [*FLAT, *PAGES]


def function_of(name: str, number: int = 1) -> Function:
    return {**FLAT, **PAGES}[name](Draw(name, number))


def chosen(function: Function) -> tuple[Graph, Choice]:
    graph = saturated(function)
    return graph, choose(graph, TARGET, class_weights(graph))


def order_of(choice: Choice) -> list[int]:
    """Needed classes, operands first; fails on a circle."""
    done: dict[int, None] = {}

    def visit(c: int, above: tuple[int, ...]) -> None:
        assert c not in above, f"class {c} is made of itself"
        if c not in done:
            for child in choice.best(c).node.children:
                visit(child, (*above, c))
            done[c] = None

    for c in choice.needed:
        visit(c, ())
    return list(done)


def packed() -> Function:
    """A flat form that is packed from pages, which could be cut from the flat form."""
    b = Build()
    y = b.let("y", "tile.add", b.load("x", (2, 4, 8)), b.load("w", (1, 4, 8)))
    b.out(b.let("z", "tile.reshape", y, (2, 2, 16)))
    return b.function()


@pytest.mark.parametrize("name", NAMES)
def test_chosen_option_costs_least_with_its_operands(name: str) -> None:
    graph, choice = chosen(function_of(name))
    weights = class_weights(graph)
    costs: dict[int, float] = {}
    for c in order_of(choice):
        own = [o.cycles.total * weights.get(c, 1.0) for o in choice.options[c]]
        costs[c] = own[0] + sum(costs[child] for child in choice.best(c).node.children)
    for c in choice.needed:
        for option in choice.options[c]:
            if all(child in costs for child in option.node.children):
                other = option.cycles.total * weights.get(c, 1.0) + sum(costs[k] for k in option.node.children)
                assert other >= costs[c] - 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_no_choice_is_made_of_itself_and_all_hold_what_their_roots_need(name: str) -> None:
    graph = saturated(function_of(name))
    for choice in choices(graph):
        assert set(roots_of(graph)) <= set(choice.needed)
        assert set(order_of(choice)) == set(choice.needed)


def test_option_that_would_be_made_of_itself_is_refused() -> None:
    graph, choice = chosen(packed())
    family = graph.families[graph.encoded.numbers["y"]]
    assert choice.best(graph.flat[graph.encoded.numbers["y"]]).node.name == "PackRows"
    options = [o.node.name for o in choice.options[family]]
    assert options[0] == "OpEach" and "RowsOf" in options
    assert with_option(graph, choice, family, options.index("RowsOf")) is None


def test_forced_option_comes_first_and_changes_nothing_else() -> None:
    graph, choice = chosen(function_of("store.pages"))
    (root,) = graph.writes.values()
    assert len(choice.options[root]) == 2
    other = with_option(graph, choice, root, 1)
    assert other is not None and other.best(root) == choice.options[root][1]
    assert {c: o for c, o in other.options.items() if c != root} == {c: o for c, o in choice.options.items() if c != root}
    assert set(other.options[root]) == set(choice.options[root])


def test_root_without_a_form_is_missing() -> None:
    b = Build()
    b.out(b.load("x", (2, 4, 8)))
    w = b.load("w", (2, 3, 3))
    b.out(b.let("y", "tile.col_argmax", w, b.let("t", "tile.create", (2, 3, 3), dtype="FP32", target_memory="Vec")))
    graph, choice = chosen(b.function())
    assert choice.missing == (graph.writes[1],)
    assert not choice.needed


def test_pages_cost_as_many_times_what_a_page_costs() -> None:
    b = Build()
    b.out(b.load("x", (5, 4, 8), (5, 3, 8)))
    graph, choice = chosen(b.function())
    (option,) = choice.options[graph.families[0]]
    entry = graph.tables.loads[0]
    assert option.cycles == call_cost(*load_page(entry.call, entry.type, 0), TARGET).cycles * 5


def looped() -> Function:
    b = Build()
    x = b.load("x", (2, 4, 8))
    with b.loop("i", 3, {"acc": x}) as (_, acc):
        b.yields(b.let("sum", "tile.add", acc, x))
    b.out(b.ended[0])
    return b.function()


def test_what_control_flow_hands_on_takes_the_preferred_form_and_its_sources_have_it() -> None:
    graph = saturated(looped())
    weights = class_weights(graph)
    numbers = graph.encoded.numbers
    for form, classes in (("flat", graph.flat), ("pages", graph.families)):
        choice = choose(graph, TARGET, weights, form)  # type: ignore[arg-type]
        assert choice.forms == {0: (form,)}
        assert {classes[numbers["x"]], classes[numbers["sum"]]} <= set(choice.needed)


def test_value_in_a_loop_weighs_as_often_as_it_runs() -> None:
    graph = saturated(looped())
    weights = class_weights(graph)
    numbers = graph.encoded.numbers
    assert weights[graph.flat[numbers["x"]]] == 1.0 and weights[graph.flat[numbers["sum"]]] == 3.0
