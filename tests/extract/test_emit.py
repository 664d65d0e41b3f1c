"""Emission keeps what the author wrote: names, positions, keywords, attributes, comments, order of writes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from alternatives import TARGET, difference, planned
from building import Build

from egraph_rules.graph import ENode, Graph, saturated
from extract.choice import Choice, Option, choose, with_option
from extract.cleanup import without_dead_tiles
from extract.cycles import ZERO
from extract.emit import NotAvailable, emit
from extract.lower import lower
from extract.weights import class_weights
from pypto_ir.expr import Binary
from pypto_ir.stmt import Assign, Call, For, Function, If, walk

SHAPE = (2, 3, 8)
#: a region that only pages hold
GAPS = (2, 2, 8)


#: without the packed form, regions with gaps go page by page
PAGED = frozenset({"packed"})


def lowered(function: Function, without: frozenset[str] = frozenset()) -> Function:
    made = lower(function, TARGET, without=without).function
    assert difference(function, made) is None
    return made


def calls(function: Function, op: str = "") -> list[tuple[Assign, Call]]:
    return [(s, s.value) for s in walk(function.body) if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op.startswith(op)]


def names(function: Function) -> list[str]:
    return [s.target.name for s, _ in calls(function)]


def chosen(function: Function) -> tuple[Graph, Choice]:
    graph = saturated(function)
    return graph, choose(graph, TARGET, class_weights(graph))


def annotated(valid: tuple[int, ...] | None = None) -> Function:
    """A load, a cast, an op and a store with positions, attributes and comments."""
    b = Build()
    x = b.load("x", SHAPE, valid, loc="m.py:1", at=None, attrs={"hint": "first"}, comment="the input")
    y = b.let(
        "y",
        "tile.cast",
        x,
        target_type="INT32",
        mode="floor",
        loc="m.py:2",
        at="m.py:2:9",
        attrs={"pipe": 3},
        comment="down",
    )
    z = b.let("z", "tile.add", y, y, loc="m.py:3")
    target = b.tensor("out", SHAPE, y.type.dtype, "Out")
    b.results.append(b.store("out_1", z, target, loc="m.py:4", comment="the end", attrs={"mark": True}))
    return b.function()


def test_values_keep_their_names() -> None:
    assert names(lowered(annotated())) == ["x", "y", "z", "out_1"]


def test_pages_are_named_after_their_value_and_the_last_store_keeps_its_name() -> None:
    made = lowered(annotated(GAPS), PAGED)
    assert set(names(made)) == {f"{n}_{i}" for n in "xyz" for i in range(2)} | {"out_1_0", "out_1"}
    assert names(made)[-1] == "out_1"


def test_derived_names_give_way_to_the_authors() -> None:
    b = Build()
    x = b.load("x", SHAPE, GAPS)
    b.out(b.let("x_0", "tile.neg", x))
    assert {"x_0_1", "x_0_0"} & set(names(lowered(b.function(), PAGED)))
    assert len(set(names(lowered(b.function(), PAGED)))) == len(names(lowered(b.function(), PAGED)))


@pytest.mark.parametrize("valid", [None, GAPS])
def test_positions_of_statements_and_calls_are_those_of_the_value(valid: tuple[int, ...] | None) -> None:
    places = {"x": "m.py:1", "y": "m.py:2", "z": "m.py:3", "o": "m.py:4"}
    made = lowered(annotated(valid))
    assert all(s.loc == places[s.target.name[0]] for s, _ in calls(made))
    assert {c.loc for s, c in calls(made, "tile.cast")} == {"m.py:2:9"}


@pytest.mark.parametrize("valid", [None, GAPS])
def test_keyword_arguments_and_attributes_stay_with_their_call(valid: tuple[int, ...] | None) -> None:
    made = lowered(annotated(valid))
    for _, call in calls(made, "tile.cast"):
        assert call.kwargs == (("target_type", "INT32"), ("mode", "floor")) and call.attrs == (("pipe", 3),)
    for _, call in calls(made, "tile.load"):
        assert call.kwargs == (("target_memory", "Vec"),) and call.attrs == (("hint", "first"),)
    for _, call in calls(made, "tile.store"):
        assert call.attrs == (("mark", True),)
    assert all(call.attrs == () for _, call in calls(made, "tile.add"))


def test_comments_stay_with_their_statement() -> None:
    made = lowered(annotated())
    assert [s.comment for s, _ in calls(made)] == ["the input", "down", None, "the end"]


def test_comments_of_statements_that_vanish_go_to_the_next() -> None:
    b = Build()
    x = b.load("x", SHAPE, comment="one")
    y = b.let("y", "tile.reshape", x, (6, 8), comment="two")
    z = b.let("z", "tile.reshape", y, (2, 3, 8), comment="three")
    b.out(b.let("w", "tile.neg", z, comment="four"))
    made = lowered(b.function())
    assert names(made)[:-1] == ["x", "w"]
    assert [s.comment for s, _ in calls(made)] == ["one", "two\nthree\nfour", None]


def ordered_stores(valid: tuple[int, ...] | None) -> Function:
    """Three writes, two of them into one buffer."""
    b = Build()
    x, y = b.load("x", SHAPE, valid), b.load("y", SHAPE, valid)
    first, second = (b.tensor(n, SHAPE, direction="Out") for n in ("first", "second"))
    one = b.store("one", x, first)
    b.results.append(b.store("two", y, second))
    b.results.append(b.store("three", y, one))
    return b.function()


@pytest.mark.parametrize("valid", [None, GAPS])
def test_stores_keep_their_order(valid: tuple[int, ...] | None) -> None:
    made = lowered(ordered_stores(valid))
    stored = [s.target.name.split("_")[0] for s, _ in calls(made, "tile.store")]
    assert list(dict.fromkeys(stored)) == ["one", "two", "three"]
    assert stored == sorted(stored, key=["one", "two", "three"].index)


def read_before_write() -> Function:
    """Pages of a tensor that is written before they are used."""
    b = Build()
    data = b.tensor("data", SHAPE, direction="InOut")
    x = b.read("x", data, SHAPE, GAPS)
    y = b.load("y", SHAPE)
    b.results.append(b.store("data_1", y, data))
    b.out(b.let("z", "tile.neg", x))
    return b.function()


def test_pages_are_loaded_before_their_buffer_is_written() -> None:
    made = lowered(read_before_write(), PAGED)
    order = [(c.op, s.target.name) for s, c in calls(made)]
    write = order.index(("tile.store", "data_1"))
    assert {n for op, n in order[:write] if op == "tile.load"} == {"x_0", "x_1", "y"}
    assert not [n for op, n in order[write:] if op == "tile.load"]


def two_arms(valid: tuple[int, ...] | None) -> Function:
    """Equal loads in two arms."""
    b = Build()
    source, out = b.tensor("src", SHAPE), b.tensor("out", SHAPE, direction="Out")
    k = b.scalar("k", 0, 1)

    def arm(name: str, op: str) -> None:
        x = b.read(f"x_{name}", source, SHAPE, valid)
        b.yields(b.store(f"out_{name}", b.let(f"y_{name}", op, x), out))

    cond = Binary("gt", k, Binary("sub", k, k))
    b.results += b.branch(cond, lambda: arm("a", "tile.neg"), lambda: arm("b", "tile.exp"), {"out_1": out.type})
    return b.function()


@pytest.mark.parametrize("valid", [None, GAPS])
def test_equal_loads_in_two_arms_are_emitted_in_each(valid: tuple[int, ...] | None) -> None:
    made = lowered(two_arms(valid), PAGED)
    (branch,) = (s for s in made.body if isinstance(s, If))
    arms = [branch.then, branch.orelse or ()]
    loads = [[c for _, c in calls(Function("arm", body=arm), "tile.load")] for arm in arms]
    assert [len(found) for found in loads] == ([1, 1] if valid is None else [2, 2])
    assert len(set(names(made))) == len(names(made))


def test_load_before_a_loop_is_not_repeated_in_it() -> None:
    b = Build()
    source, out = b.tensor("src", SHAPE), b.tensor("out", SHAPE, direction="Out")
    x = b.read("x", source, SHAPE)
    with b.loop("i", 3, {"acc": x}) as (_, acc):
        again = b.read("again", source, SHAPE)
        b.yields(b.let("sum", "tile.add", acc, again))
    b.results.append(b.store("out_1", b.ended[0], out))
    made = lowered(b.function())
    (loop,) = (s for s in made.body if isinstance(s, For))
    assert not calls(Function("f", body=loop.body), "tile.load")


def carried() -> Function:
    b = Build()
    x = b.load("x", SHAPE)
    with b.loop("i", 3, {"acc": x}) as (_, acc):
        b.yields(b.let("sum", "tile.add", acc, x))
    b.out(b.let("y", "tile.neg", x))
    b.out(b.ended[0])
    return b.function()


def _with_leaf(graph: Graph, choice: Choice, value: str, only: bool) -> Choice:
    """The flat form of a value is said to be the carried tile, which only the body of the loop sees."""
    leaf = next(i for i, entry in enumerate(graph.tables.leaves.items) if entry.name == "acc")
    c = graph.flat[graph.encoded.numbers[value]]
    option = Option(ENode("Leaf2", (), (leaf,)), ZERO, choice.best(c).type)
    return replace(choice, options={**choice.options, c: [option, *(() if only else choice.options[c])]})


def _emitted_with_leaf(graph: Graph, choice: Choice, value: str, only: bool) -> Function:
    """The function of a plan that takes the carried tile for a value outside of the loop."""
    wrong, arranged = _with_leaf(graph, choice, value, only), planned(graph, choice)
    c = graph.flat[graph.encoded.numbers[value]]
    arranged.options[(c, 0)] = wrong.options[c][0]
    return emit(graph, wrong, arranged)


def test_option_that_its_place_does_not_see_falls_back_to_the_next() -> None:
    graph = saturated(carried())
    choice = choose(graph, TARGET, class_weights(graph), "flat")
    wanted = emit(graph, choice, planned(graph, choice))
    assert _emitted_with_leaf(graph, choice, "y", only=False) == wanted
    with pytest.raises(NotAvailable):
        _emitted_with_leaf(graph, choice, "y", only=True)


def test_option_taken_back_leaves_no_name_and_no_statement_behind() -> None:
    graph = saturated(carried())
    choice = choose(graph, TARGET, class_weights(graph), "flat")
    made = _emitted_with_leaf(graph, choice, "y", only=False)
    assert names(made) == names(emit(graph, choice, planned(graph, choice))) and "y" in names(made)


def test_carried_tile_is_named_for_every_page_or_keeps_its_name() -> None:
    graph = saturated(carried())
    weights = class_weights(graph)
    for form, expected in (("flat", ["acc"]), ("pages", ["acc_0", "acc_1"])):
        choice = choose(graph, TARGET, weights, form)  # type: ignore[arg-type]
        made = emit(graph, choice, planned(graph, choice))
        (loop,) = (s for s in made.body if isinstance(s, For))
        assert [c.var.name for c in loop.carries] == expected
        assert len(loop.results) == len(expected)


def test_every_page_is_stored_at_its_place_with_its_valid_region() -> None:
    b = Build()
    out = b.tensor("out", (4, 5, 8), direction="Out")
    b.results.append(b.store("out_1", b.load("x", SHAPE, GAPS), out, (1, 2, 0)))
    made = lowered(b.function(), PAGED)
    places = [tuple(e.value for e in c.args[1].items) for _, c in calls(made, "tile.store")]  # type: ignore[union-attr]
    boxes = [tuple(e.value for e in c.args[3].items) for _, c in calls(made, "tile.store")]  # type: ignore[union-attr]
    assert places == [(1, 2, 0), (2, 2, 0)] and boxes == [(1, 2, 8)] * 2
    targets = [c.args[2].name for _, c in calls(made, "tile.store")]  # type: ignore[union-attr]
    assert targets == ["out", "out_1_0"]


def test_dead_tiles_go_and_chains_of_them_with_them() -> None:
    b = Build()
    x = b.load("x", (8, 16))
    b.let("d2", "tile.exp", b.let("d1", "tile.neg", x))
    b.out(x)
    assert names(without_dead_tiles(b.function())) == ["x", "x_out_1"]


def test_packed_tile_is_a_create_and_an_assemble_of_every_page() -> None:
    b = Build()
    y = b.let("y", "tile.add", b.load("x", (2, 4, 8)), b.load("w", (1, 4, 8)))
    b.out(b.let("z", "tile.reshape", y, (2, 2, 16)))
    made = lowered(b.function())
    packed = [(s.target.name, c) for s, c in calls(made) if c.op in ("tile.create", "tile.assemble")]
    assert [c.op for _, c in packed] == ["tile.create", "tile.assemble", "tile.assemble"]
    assert packed[-1][0] == "y"
    rows = [c.args[2].items[0].value for _, c in packed[1:]]  # type: ignore[union-attr]
    assert rows == [0, 4]


def test_forced_store_by_pages_equals_the_flat_one() -> None:
    b = Build()
    b.out(b.load("x", SHAPE))
    function = b.function()
    graph, choice = chosen(function)
    (root,) = graph.writes.values()
    ops = set()
    for number in range(len(choice.options[root])):
        made = with_option(graph, choice, root, number)
        assert made is not None
        emitted = without_dead_tiles(emit(graph, made, planned(graph, made)))
        assert difference(function, emitted) is None
        ops.add(len(calls(emitted, "tile.store")))
    assert ops == {1, 2}
