"""The encoder: versions of buffers in loads, identity of creates, sharing of equal values."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign

import pytest
from building import Build

from egraph_rules.buffers import aliased_params
from egraph_rules.encode import Encoded, encode
from egraph_rules.graph import saturated
from pypto_ir.expr import Binary, Var
from pypto_ir.stmt import Function, Program

SHAPE = (2, 3, 8)


def encoded(function: Function, aliased: tuple[tuple[str, str], ...] = ()) -> Encoded:
    return encode(function, aliased)[0]


def same_load(function: Function, a: str, b: str, aliased: tuple[tuple[str, str], ...] = ()) -> bool:
    """True where two loaded values are one class."""
    graph = saturated(function, aliased)
    numbers = graph.encoded.numbers
    return graph.values[numbers[a]] == graph.values[numbers[b]]


def test_equal_loads_of_one_version_are_one_value() -> None:
    b = Build()
    source = b.tensor("src", SHAPE)
    x, y = b.read("x", source, SHAPE), b.read("y", source, SHAPE)
    b.out(b.let("z", "tile.add", x, y))
    assert same_load(b.function(), "x", "y")


def test_loads_at_other_offsets_are_other_values() -> None:
    b = Build()
    source = b.tensor("src", (4, 3, 8))
    x, y = b.read("x", source, SHAPE), b.read("y", source, SHAPE, at=(1, 0, 0))
    b.out(b.let("z", "tile.add", x, y))
    assert not same_load(b.function(), "x", "y")


def _around_a_store(read_result: bool) -> Function:
    """Loads of one tensor before and after a store into it, through its first or its new name."""
    b = Build()
    data = b.tensor("data", SHAPE, direction="InOut")
    x = b.read("x", data, SHAPE)
    new = b.store("data_1", b.let("n", "tile.neg", x), data)
    b.out(b.let("z", "tile.add", x, b.read("y", new if read_result else data, SHAPE)))
    b.results.append(new)
    return b.function()


@pytest.mark.parametrize("read_result", [False, True])
def test_load_after_a_store_is_another_value(read_result: bool) -> None:
    assert not same_load(_around_a_store(read_result), "x", "y")


def test_load_after_a_store_into_another_buffer_is_the_same_value() -> None:
    b = Build()
    source, target = b.tensor("src", SHAPE), b.tensor("target", SHAPE, direction="Out")
    x = b.read("x", source, SHAPE)
    b.results.append(b.store("target_1", x, target))
    b.out(b.let("z", "tile.add", x, b.read("y", source, SHAPE)))
    assert same_load(b.function(), "x", "y")


def _two_params() -> Function:
    b = Build()
    source, target = b.tensor("src", SHAPE), b.tensor("target", SHAPE, direction="InOut")
    x = b.read("x", source, SHAPE)
    b.results.append(b.store("target_1", b.let("n", "tile.neg", x), target))
    b.out(b.let("z", "tile.add", x, b.read("y", source, SHAPE)))
    return b.function()


def test_parameters_that_a_call_passes_one_buffer_are_one_buffer() -> None:
    callee = _two_params()
    caller = Build("caller", kind="Orchestration")
    data = caller.tensor("data", SHAPE, direction="InOut")
    more = caller.tensor("more", SHAPE, direction="Out")
    result_type = callee.returns[0]
    caller.results.append(caller.call("r", "main", data, data, more, type=result_type))
    pairs = aliased_params(Program("p", (callee, caller.function())))
    assert list(pairs) == ["main"] and ("src", "target") in pairs["main"]
    assert same_load(callee, "x", "y")
    assert not same_load(callee, "x", "y", pairs["main"])


def test_load_in_a_loop_that_writes_its_buffer_is_no_load_from_before_it() -> None:
    b = Build()
    data = b.tensor("data", SHAPE, direction="InOut")
    x = b.read("x", data, SHAPE)
    with b.loop("i", 3, {"carried": data}) as (_, carried):
        y = b.read("y", carried, SHAPE)
        b.yields(b.store("data_1", b.let("n", "tile.add", x, y), carried))
    z = b.read("z", b.ended[0], SHAPE)
    b.out(b.let("w", "tile.add", x, z))
    b.results.append(b.ended[0])
    function = b.function()
    for one, other in (("x", "y"), ("y", "z"), ("x", "z")):
        assert not same_load(function, one, other)


def test_load_in_a_loop_that_writes_elsewhere_is_the_load_before_it() -> None:
    b = Build()
    source, target = b.tensor("src", SHAPE), b.tensor("target", SHAPE, direction="Out")
    x = b.read("x", source, SHAPE)
    with b.loop("i", 3, {"carried": target}) as (_, carried):
        y = b.read("y", source, SHAPE)
        b.yields(b.store("target_1", b.let("n", "tile.add", x, y), carried))
    b.results.append(b.ended[0])
    assert same_load(b.function(), "x", "y")


def _branching(store_in_then: bool) -> Function:
    """A load in each arm and one after; the first arm may store before its load."""
    b = Build()
    data = b.tensor("data", SHAPE, direction="InOut")
    out = b.tensor("out", SHAPE, direction="Out")
    k = b.scalar("k", 0, 1)
    first = b.load("first", SHAPE)

    def then() -> None:
        new = b.store("data_1", first, data) if store_in_then else data
        b.store("out_1", b.read("x", new, SHAPE), out)

    def orelse() -> None:
        b.store("out_2", b.read("y", data, SHAPE), out)

    b.branch(Binary("gt", k, Binary("sub", k, k)), then, orelse)
    b.out(b.read("z", data, SHAPE))
    return b.function()


def test_arms_start_from_the_version_before_the_branch() -> None:
    function = _branching(store_in_then=False)
    assert same_load(function, "x", "y") and same_load(function, "y", "z")
    function = _branching(store_in_then=True)
    assert not same_load(function, "x", "y") and not same_load(function, "y", "z")


def test_two_creates_are_two_values_and_two_fulls_of_one_value_are_one() -> None:
    b = Build()
    made = [b.create(f"made{i}", SHAPE) for i in range(2)]
    full = [b.full(f"full{i}", SHAPE, 1.5) for i in range(2)]
    x = b.load("x", SHAPE)
    for i in range(2):
        b.out(b.let(f"y{i}", "tile.add", b.let(f"a{i}", "tile.assemble", made[i], x, (0, 0, 0)), full[i]))
    graph = saturated(b.function())
    of: Callable[[str], int] = lambda name: graph.values[graph.encoded.numbers[name]]  # noqa: E731
    assert of("made0") != of("made1") and of("full0") == of("full1")
    fills = graph.tables.fills.items
    assert [f.identity for f in fills] == ["made0", "made1", None]


@pytest.mark.parametrize(("a", "b", "same"), [(0.0, -0.0, False), (0.0, 0.0, True), (-0.0, -0.0, True), (1.0, 2.0, False)])
def test_fills_are_equal_bit_by_bit(a: float, b: float, same: bool) -> None:
    build = Build()
    x, y = build.full("x", SHAPE, a), build.full("y", SHAPE, b)
    build.out(build.let("z", "tile.add", x, y))
    assert same_load(build.function(), "x", "y") is same
    assert copysign(1.0, -0.0) == -1.0


@pytest.mark.parametrize(("a", "b", "same"), [(2.0, 2.0, True), (0.0, -0.0, False), (2.0, 3.0, False)])
def test_ops_with_other_scalars_are_other_values(a: float, b: float, same: bool) -> None:
    build = Build()
    x = build.load("x", SHAPE)
    y, z = build.let("y", "tile.muls", x, a), build.let("z", "tile.muls", x, b)
    build.out(build.let("w", "tile.add", y, z))
    assert same_load(build.function(), "y", "z") is same


def test_ops_with_other_keyword_arguments_are_other_values() -> None:
    b = Build()
    x = b.load("x", SHAPE)
    y = b.let("y", "tile.cast", x, target_type="INT32", mode="rint")
    z = b.let("z", "tile.cast", x, target_type="INT32", mode="floor")
    b.out(b.let("w", "tile.add", y, z))
    assert not same_load(b.function(), "y", "z")


def test_alias_of_a_tile_is_the_tile() -> None:
    from pypto_ir.stmt import Assign

    b = Build()
    x = b.load("x", SHAPE)
    alias = Var("alias", x.type)
    b.put(Assign((alias,), x))
    b.out(b.let("y", "tile.neg", alias))
    assert same_load(b.function(), "x", "alias")


def test_window_of_a_store_and_the_reason_where_there_is_none_are_recorded() -> None:
    b = Build()
    b.out(b.load("x", (2, 3, 8)), (2, 4, 8))
    b.out(b.load("y", (4, 3, 8)), (2, 2, 4, 8))
    b.out(b.load("z", (6, 8)))
    box, none, plain = encoded(b.function()).tables.stores.items
    assert box.window is not None and len(box.window) == 3 and box.refusal is None
    assert none.window is None and none.refusal
    assert plain.window is None and plain.refusal is None
