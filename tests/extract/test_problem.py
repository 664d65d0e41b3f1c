"""The problem: where a value may stand, what it asks for there, and what every choice pays."""

from __future__ import annotations

import pytest
from alternatives import TARGET
from building import Build

from extract.bound import skeleton
from extract.choice import FORMS
from extract.cycles import Cycles
from extract.earliest import Earliest
from extract.lower import lower
from extract.price import price
from extract.problem import Candidate, Demand, Problem, form_class, handover_class
from pypto_ir.expr import Binary, Expr, index
from pypto_ir.stmt import Assign, Function, walk
from tests.extract.brute_force import asked

SHAPE = (16, 64)


def problem_of(function: Function) -> Problem:
    question = asked(function)
    assert question is not None
    return question.problem


def flat(asking: Problem, name: str) -> int:
    return asking.graph.flat[asking.graph.encoded.numbers[name]]


def candidates(asking: Problem, c: int) -> list[Candidate]:
    return [asking.candidates[i] for i in asking.by_class.get(c, ())]


def stands(function: Function, name: str) -> list[int]:
    """The regions in which the flat form of a value may be materialised."""
    asking = problem_of(function)
    return sorted({k.region for k in candidates(asking, flat(asking, name))})


def looped(low: int, high: int, op: str = "op") -> Function:
    """A loop of `low` to `high` trips that adds a value which is the same in every trip."""
    b = Build()
    x, y = b.load("x", SHAPE), b.load("y", SHAPE)
    t = b.tensor("t", (64, 64))
    stop: Expr | int = low if low == high else b.scalar("n", low, high)
    m = b.scalar("m", 0, 3)
    with b.loop("i", stop, {"acc": x}) as (i, acc):
        match op:
            case "op":
                v = b.let("v", "tile.exp", y)
            case "load":
                v = b.read("v", t, SHAPE)
            case "window":
                v = b.read("v", t, SHAPE, at=(Binary("mul", i, index(16)), 0))
            case "cut":
                v = b.let("v", "tile.exp", b.let("cut", "tile.slice", y, (8, 64), (Binary("mul", m, index(2)), 0)))
                b.out(v)
                v = b.let("w", "tile.exp", y)
        b.yields(b.let("sum", "tile.add", acc, v))
    b.out(b.ended[0])
    return b.function()


@pytest.mark.parametrize("trips", [(4, 4), (1, 4), (0, 4)])
def test_total_op_of_what_no_trip_changes_may_stand_in_front_of_the_loop(trips: tuple[int, int]) -> None:
    function = looped(*trips)
    assert stands(function, "v") == [0, 1]
    assert stands(function, "sum") == [1], "what reads the carried value stays"


def test_load_leaves_only_a_loop_that_surely_runs() -> None:
    assert stands(looped(4, 4, "load"), "v") == [0, 1] == stands(looped(1, 4, "load"), "v")
    assert stands(looped(0, 4, "load"), "v") == [1]
    assert stands(looped(4, 4, "window"), "v") == [1], "a window that moves with the loop stays"


def test_cut_at_a_position_that_may_be_out_of_range_leaves_only_a_loop_that_surely_runs() -> None:
    assert stands(looped(1, 4, "cut"), "cut") == [0, 1]
    assert stands(looped(0, 4, "cut"), "cut") == [1]


def test_load_of_what_the_loop_writes_stays() -> None:
    b = Build()
    t = b.tensor("t", (64, 64), direction="InOut")
    with b.loop("i", 4) as i:
        y = b.read("y", t, SHAPE)
        b.store("t1", b.let("v", "tile.exp", y), t, (Binary("mul", i, index(16)), 0))
    b.results.append(t)
    function = b.function()
    assert stands(function, "y") == [1] == stands(function, "v")


def test_nothing_leaves_an_arm() -> None:
    b = Build()
    x, n = b.load("x", SHAPE), b.scalar("n", 0, 3)

    def arm(name: str, op: str) -> None:
        b.yields(b.let(name, op, x))

    with b.loop("i", 4, {"acc": x}):
        (p,) = b.branch(Binary("lt", n, index(2)), lambda: arm("s", "tile.exp"), lambda: arm("t", "tile.neg"), {"p": x.type})
        b.yields(p)
    b.out(b.ended[0])
    function = b.function()
    assert stands(function, "s") == [2] and stands(function, "t") == [3]


def test_nothing_moves_into_a_region_below_the_authors_statement() -> None:
    b = Build()
    x = b.load("x", SHAPE)
    v, n = b.let("v", "tile.exp", x), b.scalar("n", 0, 3)
    with b.loop("i", 4, {"acc": x}) as (_, acc):
        b.yields(b.let("sum", "tile.add", acc, v))

    def arm(name: str) -> None:
        b.yields(b.let(name, "tile.add", v, v))

    b.branch(Binary("lt", n, index(2)), lambda: arm("s"), lambda: arm("t"), {"p": x.type})
    b.out(b.ended[0])
    assert stands(b.function(), "v") == [0]


def test_a_candidate_stands_where_the_author_put_it_or_before_the_statement_that_asks() -> None:
    function = looped(4, 4)
    asking = problem_of(function)
    loop = asking.regions.items[1]
    outer, inner = sorted(candidates(asking, flat(asking, "v")), key=lambda k: k.region)
    assert (outer.position, outer.own) == (loop.owner, False)
    assert (inner.own, inner.position > loop.owner) == (True, True)
    for k in (outer, inner):
        assert k.demands == (Demand(flat(asking, "y"), k.region, k.position),)
    assert asking.held()[flat(asking, "v")] == (1.0, 4.0)


def test_candidates_serve_what_comes_later_in_their_region_or_inside_it() -> None:
    asking = problem_of(looped(4, 4))
    c = flat(asking, "v")
    inner = next(k for k in candidates(asking, c) if k.region == 1)
    end, owner = asking.regions.items[1].end, asking.regions.items[1].owner

    def served(region: int, position: int, consumed: bool = False) -> list[int]:
        return sorted(asking.candidates[i].region for i in asking.servers(Demand(c, region, position, consumed)))

    assert served(1, end - 1) == [0, 1] and served(1, inner.position - 1) == [0]
    assert served(0, end) == [0] and served(0, owner - 1) == []
    # what is overwritten in every trip is made anew in every trip
    assert served(1, end - 1, consumed=True) == [1] and served(0, end, consumed=True) == [0]


def assembled(inside: bool) -> Function:
    """A tile that every trip writes into a tile, which the author makes in the loop or in front of it."""
    b = Build()
    x, rows = b.load("x", SHAPE), b.load("rows", (8, 64))
    early = None if inside else b.let("v", "tile.neg", x)
    with b.loop("i", 4) as i:
        into = early or b.let("v", "tile.neg", x)
        made = b.let("made", "tile.assemble", into, rows, (0, 0))
        t = b.tensor("t", (64, 64), direction="Out")
        b.store("t1", made, t, (Binary("mul", i, index(16)), 0))
    b.results.append(t)
    return b.function()


def test_an_operand_that_is_overwritten_stays_in_its_loop() -> None:
    asking = problem_of(assembled(True))
    made = [k for k in candidates(asking, flat(asking, "made")) if k.region == 1]
    (wanted,) = {d for k in made for d in k.demands if d.consumed}
    assert wanted.c == flat(asking, "v")
    assert {asking.candidates[i].region for i in asking.servers(wanted)} == {1}
    assert 0 in {k.region for k in candidates(asking, wanted.c)}, "there is another instance, which does not serve"


def test_an_operand_that_stands_outside_its_loop_serves_where_there_is_no_other() -> None:
    asking = problem_of(assembled(False))
    made = [k for k in candidates(asking, flat(asking, "made")) if k.region == 1]
    (wanted,) = {d for k in made for d in k.demands if d.consumed}
    assert {asking.candidates[i].region for i in asking.servers(wanted)} == {0}


def carried() -> Function:
    """Pages and a flat tile both serve for what the loop hands on."""
    b = Build()
    x = b.load("x", (2, 4, 8))
    with b.loop("i", 3, {"acc": x}) as (_, acc):
        b.yields(b.let("sum", "tile.add", acc, x))
    b.out(b.ended[0])
    return b.function()


def test_a_handover_has_a_candidate_for_each_form_that_obliges_its_sources_where_they_are_handed_in() -> None:
    asking = problem_of(carried())
    graph, loop = asking.graph, asking.regions.items[1]
    forms = candidates(asking, handover_class(0))
    assert [FORMS[k.option] for k in forms] == ["flat", "pages"]
    for k, classes in zip(forms, (graph.flat, graph.families), strict=True):
        numbers = graph.encoded.numbers
        head, tail = k.obligations
        assert (head.c, head.region, head.position) == (classes[numbers["x"]], 0, loop.owner)
        assert (tail.c, tail.region) == (classes[numbers["sum"]], 1) and tail.position < loop.end
        assert (k.demands, k.own, k.region) == ((), True, 1)
        # a scalar cycle for every tile that a trip hands on
        assert k.cycles == Cycles(s=1.0 if classes is graph.flat else graph.page_counts[classes[numbers["x"]]])
        assert candidates(asking, form_class(0, FORMS[k.option])) == [k]
    assert Demand(handover_class(0), 1, 0) in asking.roots


def test_a_carried_leaf_obliges_to_the_form_it_is_read_in() -> None:
    asking = problem_of(carried())
    graph = asking.graph
    numbers = graph.encoded.numbers
    for form, classes in zip(FORMS[:2], (graph.flat, graph.families), strict=True):
        leaves = [k for k in candidates(asking, classes[numbers["acc"]]) if not k.demands]
        assert {k.obligations for k in leaves} == {(Demand(form_class(0, form), 0, 0),)}
        assert {k.region for k in leaves} == {1}


def test_a_candidate_that_reads_what_nobody_makes_is_left_out() -> None:
    asking = problem_of(looped(4, 4))
    gone, outer = flat(asking, "y"), flat(asking, "x")
    asking.by_class[gone] = []
    asking.prune()
    assert not asking.by_class[flat(asking, "v")] and not asking.by_class[flat(asking, "sum")]
    assert asking.by_class[outer], "what does not read it stays"


def test_cost_is_what_the_skeleton_and_the_chosen_candidates_load() -> None:
    function = looped(4, 4)
    asking = problem_of(function)
    nothing = asking.cost([])
    assert nothing == pytest.approx(price(skeleton(function), TARGET).cost)
    outer, inner = sorted(asking.by_class[flat(asking, "v")], key=lambda i: asking.candidates[i].region)
    cycles = asking.candidates[outer].cycles
    assert asking.cost([outer]) == pytest.approx(nothing + cycles.peak + cycles.total / 16)
    assert asking.candidates[inner].cycles == cycles and asking.cost([inner]) > asking.cost([outer])


@pytest.mark.parametrize("otherwise", [False, True])
def test_a_loop_in_the_first_arm_keeps_its_load(otherwise: bool) -> None:
    b = Build()
    x, n = b.load("x", SHAPE), b.scalar("n", 0, 3)

    def then() -> None:
        with b.loop("i", 4):
            b.out(b.let("v", "tile.exp", x))

    b.branch(Binary("lt", n, index(2)), then, lambda: b.out(b.let("w", "tile.neg", x)) if otherwise else None)
    function = b.function()
    asking = problem_of(function)
    loops = [load.s for r, load in asking.loads.items() if asking.regions.items[r].loop]
    assert loops == [2.0], "a trip costs two scalar cycles"
    assert asking.cost([]) == pytest.approx(price(skeleton(function), TARGET).cost)


def waits(late: str) -> Function:
    """A window of two tiles side by side that is the first of them, while the second waits for a store or for the end of a loop."""
    b = Build()
    io = b.tensor("io", SHAPE, direction="InOut")
    m = b.let("m", "tile.exp", b.load("x", SHAPE))
    first = b.let("first", "tile.assemble", b.load("t", (32, 64)), m, (0, 0))
    if late == "store":
        n = b.read("n", b.store("io_1", m, io), SHAPE)
    else:
        with b.loop("i", 4, {"acc": m}) as (_, acc):
            b.yields(b.let("sum", "tile.add", acc, acc))
        n = b.ended[0]
    both = b.let("both", "tile.assemble", first, b.let("minus", "tile.neg", n), (16, 0))
    b.out(b.let("z", "tile.neg", b.let("w", "tile.slice", both, SHAPE, (0, 0))))
    b.out(both)
    return b.function()


@pytest.mark.parametrize("late", ["store", "loop"])
def test_what_cannot_be_computed_yet_asks_for_nothing(late: str) -> None:
    function = waits(late)
    asking = problem_of(function)
    assert flat(asking, "m") == flat(asking, "w"), "the window is the tile"
    assert all(map(asking.servers, asking.roots))
    places = asking.regions
    statements = {s.target.name: places.position[id(s)] for s in walk(function.body) if isinstance(s, Assign)}
    assert {k.position for k in candidates(asking, flat(asking, "m"))} == {statements["m"]}
    assert {k.position for k in candidates(asking, flat(asking, "both"))} == {statements["both"]}
    earliest = Earliest(asking.graph.tables, asking.choice, places)
    assert earliest.of(flat(asking, "m")) == 0, "its load reads a parameter"
    after = "io_1" if late == "store" else "sum"
    assert statements[after] < earliest.of(flat(asking, "minus")) == earliest.of(flat(asking, "both")) <= statements["minus"]
    assert lower(function, TARGET).changed
