"""Regions: numbers in program order, what each point sees, how often each runs, and which loads still read what they read."""

from __future__ import annotations

from building import Build

from egraph_rules.encode import encode
from egraph_rules.tables import LoadEntry
from extract.regions import Regions, free_dims, regions
from pypto_ir.expr import Binary, Expr, Var, index
from pypto_ir.stmt import Assign, Break, Continue, Function, If, Stmt, walk
from pypto_ir.types import INDEX, ScalarType

SHAPE = (16, 64)


def measured(function: Function) -> Regions:
    return regions(encode(function)[0])


def assigned(function: Function, name: str) -> Assign:
    return next(s for s in walk(function.body) if isinstance(s, Assign) and s.target.name == name)


def at(places: Regions, s: Stmt) -> tuple[int, int]:
    """Region and position of a statement."""
    return places.region[id(s)], places.position[id(s)]


def nested() -> tuple[Function, Regions]:
    """A load (0), a loop (1) with an op (2) and a branch (3) in it (4 and 5), and what follows behind them (8)."""
    b = Build()
    x = b.load("x", SHAPE)
    with b.loop("i", 4, {"acc": x}) as (i, acc):
        y = b.let("y", "tile.exp", x)

        def arm(name: str) -> None:
            b.yields(b.let(name, "tile.add", acc, y))

        (p,) = b.branch(Binary("lt", i, index(2)), lambda: arm("s"), lambda: arm("t"), {"p": x.type})
        b.yields(p)
    b.out(b.let("z", "tile.neg", b.ended[0]))
    function = b.function()
    return function, measured(function)


def test_statements_are_numbered_in_program_order_with_a_number_behind_every_block() -> None:
    function, places = nested()
    positions = [places.position[id(s)] for s in walk(function.body)]
    assert positions == sorted(set(positions))
    assert [r.parent for r in places.items] == [0, 0, 1, 1]
    for number, region in enumerate(places.items):
        inside = [p for s in walk(function.body) if places.region[id(s)] == number and (p := places.position[id(s)]) >= 0]
        assert all(region.owner < p < region.end for p in inside)
    assert places.items[2].end <= min(places.position[id(s)] for s in walk(function.body) if places.region[id(s)] == 3)
    assert places.items[1].end < at(places, assigned(function, "z"))[1]


def test_region_of_a_statement_is_the_block_it_stands_in() -> None:
    function, places = nested()
    assert [places.region[id(assigned(function, n))] for n in ("x", "y", "s", "t", "z")] == [0, 1, 2, 3, 0]
    assert places.ancestors(3) == [3, 1, 0] and places.ancestors(0) == [0]
    assert places.inside(2, 1) and places.inside(2, 2) and not places.inside(1, 2) and not places.inside(2, 3)
    assert [places.loop(r) for r in range(4)] == [0, 1, 1, 1]
    assert [r.loop for r in places.items] == [False, True, False, False]


def test_position_is_lifted_to_the_statement_that_holds_it() -> None:
    function, places = nested()
    branch = next(s for s in walk(function.body) if isinstance(s, If))
    s = assigned(function, "s")
    assert places.lifted(*at(places, s), 2) == places.position[id(s)]
    assert places.lifted(*at(places, s), 1) == places.position[id(branch)]
    assert places.lifted(*at(places, s), 0) == places.items[1].owner


def test_a_name_is_seen_behind_its_definition_and_only_in_its_region() -> None:
    function, places = nested()
    names = {v.name: v for s in walk(function.body) for v in getattr(s, "targets", ())}
    acc, i, results = Var("acc", names["x"].type), Var("i", INDEX), Var("acc_end", names["x"].type)
    y, s, z = (assigned(function, n) for n in "ysz")
    assert places.sees(*at(places, y), names["x"]) and not places.sees(0, 0, names["x"])
    assert places.sees(*at(places, s), names["y"]) and not places.sees(*at(places, y), names["y"])
    assert places.sees(*at(places, y), i) and places.sees(*at(places, s), acc)
    assert not places.sees(*at(places, z), i) and not places.sees(*at(places, z), names["y"])
    assert not places.sees(*at(places, assigned(function, "t")), names["s"])
    assert places.sees(*at(places, z), results) and not places.sees(*at(places, y), results)
    # names of the signature are seen everywhere
    assert all(places.sees(r, 0, Var("unknown", INDEX)) for r in range(4))


def loaded(function: Function, name: str) -> LoadEntry:
    """The entry of the table for the load that is assigned to a name; loads of one program have windows of their own."""
    encoded = encode(function)[0]
    return next(entry for entry in encoded.tables.loads.items if entry.call == assigned(function, name).value)


def fresh(function: Function, name: str, place: str | int) -> bool:
    """True where the load that is assigned to a name would read the same before another statement, or behind the last for -1."""
    places, entry = measured(function), loaded(function, name)
    position = places.items[0].end if place == -1 else places.position[id(assigned(function, str(place)))]
    return places.current(position, entry.call.args[0], entry.reads)


def rewritten() -> Function:
    """A load, a store into another window of the tensor, and a load from what the store gave."""
    b = Build()
    t, u = b.tensor("t", (32, 64), direction="InOut"), b.tensor("u", SHAPE)
    x = b.read("x", t, SHAPE)
    w = b.read("w", u, SHAPE)
    t1 = b.store("t1", b.let("y", "tile.exp", x), t)
    z = b.read("z", t1, SHAPE)
    b.results.append(b.store("t2", b.let("v", "tile.add", z, w), t1, (16, 0)))
    return b.function()


def test_a_load_reads_the_same_until_its_buffer_is_written() -> None:
    function = rewritten()
    assert [fresh(function, "x", p) for p in ("x", "y", "t1", "z", -1)] == [True, True, True, False, False]
    assert [fresh(function, "z", p) for p in ("t1", "z", "t2", -1)] == [False, True, True, False]
    assert all(fresh(function, "w", p) for p in ("x", "t1", "t2", -1))


def stored_in_loop() -> Function:
    """A tensor that is written in a loop, with loads from it in front, inside and behind."""
    b = Build()
    t = b.tensor("t", (96, 64), direction="InOut")
    x = b.read("x", t, SHAPE)
    with b.loop("i", 4) as i:
        y = b.read("y", t, SHAPE, at=(16, 0))
        b.store("t1", b.let("s", "tile.add", y, x), t, (Binary("mul", i, index(16)), 0))
        b.read("late", t, SHAPE, at=(32, 0))
    b.out(b.read("z", t, SHAPE, at=(48, 0)))
    b.results.append(t)
    return b.function()


def test_a_loop_that_writes_a_buffer_begins_and_ends_with_versions_of_its_own() -> None:
    function = stored_in_loop()
    assert [fresh(function, "x", p) for p in ("x", "y", "z")] == [True, False, False]
    assert [fresh(function, "y", p) for p in ("x", "y", "s", "t1", "late", "z")] == [False, True, True, True, False, False]
    assert [fresh(function, "late", p) for p in ("y", "late", "z")] == [False, True, False]
    assert [fresh(function, "z", p) for p in ("x", "y", "late", "z")] == [False, False, False, True]


def stored_in_arm() -> Function:
    """A tensor that one arm writes."""
    b = Build()
    t = b.tensor("t", (96, 64), direction="InOut")
    n = b.scalar("n", 0, 3)
    x = b.read("x", t, SHAPE)

    def then() -> None:
        b.read("a", t, SHAPE, at=(16, 0))
        b.store("t1", b.let("y", "tile.exp", x), t, (16, 0))
        b.read("c", t, SHAPE, at=(32, 0))

    b.branch(Binary("lt", n, index(2)), then, lambda: b.out(b.read("d", t, SHAPE, at=(48, 0))))
    b.out(b.read("e", t, SHAPE, at=(64, 0)))
    b.results.append(t)
    return b.function()


def test_an_arm_begins_with_the_versions_before_the_branch_and_what_one_writes_is_new_behind_both() -> None:
    function = stored_in_arm()
    assert [fresh(function, "x", p) for p in ("x", "a", "t1", "c", "d", "e")] == [True, True, True, False, True, False]
    assert [fresh(function, "c", p) for p in ("a", "c", "d", "e")] == [False, True, False, False]
    assert fresh(function, "e", "e") and not fresh(function, "e", "c")


def loop_region(start: object, stop: object) -> tuple[float, bool]:
    """Trips and sureness of a loop from `start` to `stop`; numbers in a tuple are the range of a scalar parameter."""
    b = Build()
    x = b.load("x", SHAPE)

    def bound(name: str, value: object) -> Expr | object:
        return b.scalar(name, *value) if isinstance(value, tuple) else value

    with b.loop("i", bound("n", stop), start=bound("m", start)):
        b.let("y", "tile.exp", x)
    b.out(x)
    region = measured(b.function()).items[1]
    return region.trips, region.sure


def test_a_loop_is_sure_where_its_bounds_say_that_it_runs() -> None:
    assert loop_region(0, 4) == (4.0, True)
    assert loop_region(2, 5) == (3.0, True)
    assert loop_region(0, (1, 8))[1] and loop_region((0, 2), (3, 8))[1]
    assert not loop_region(3, 3)[1]
    assert not loop_region(0, (0, 8))[1] and not loop_region((0, 3), (3, 8))[1]


def test_a_loop_that_may_be_left_early_is_not_sure() -> None:
    for left in (Break(), Continue()):
        b = Build()
        x = b.load("x", SHAPE)
        with b.loop("i", 4) as i:
            b.put(If(Binary("eq", i, index(0)), (left,)))
            b.let("y", "tile.exp", x)
        b.out(x)
        assert not measured(b.function()).items[1].sure


def test_trips_multiply_inwards_and_an_arm_runs_every_other_time() -> None:
    _, places = nested()
    assert [r.trips for r in places.items] == [1.0, 4.0, 2.0, 2.0]
    assert [r.sure for r in places.items] == [True, True, False, False]
    assert [r.depth for r in places.items] == [0, 1, 2, 2]


def test_a_while_loop_is_not_sure_and_runs_as_often_as_told() -> None:
    b = Build()
    x = b.load("x", SHAPE)
    with b.repeat(lambda k: Binary("lt", k, index(3)), {"k": (INDEX, index(0))}) as (k,):
        b.let("y", "tile.exp", x)
        b.yields(Binary("add", k, index(1)))
    b.out(x)
    (_, inner) = regions(encode(b.function())[0], default_trips=5).items
    assert (inner.trips, inner.sure, inner.loop) == (5.0, False, True)


def test_scalars_that_are_assigned_bound_a_loop() -> None:
    b = Build()
    n = b.scalar("n", 1, 4)
    x = b.load("x", SHAPE)
    m = Var("m", ScalarType(INDEX.dtype))
    b.put(Assign((m,), Binary("add", n, index(1))))
    with b.loop("i", m, start=1):
        b.let("y", "tile.exp", x)
    b.out(x)
    assert measured(b.function()).items[1].sure


def test_dims_of_the_signature_are_free() -> None:
    b = Build()
    size = Var("rows", INDEX)
    t = b.tensor("t", (size, 64))
    b.out(b.read("x", t, SHAPE))
    assert free_dims(encode(b.function())[0]) == {"rows"}
