"""Everything that makes facts is proved by z3 at the widths of its types: the rules of nodes, bounds of sums, splits of dividends, what
conditions and loops say, the identities of linear forms. What has no proof fails the run.

Facts are drawn; each proof is over all values that they allow, with every way to divide.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import index_proofs
import pytest
import test_egg_rules
import test_index_transfer
import test_quotient_rules
import z3
from helpers import const, loop, scalar
from index_models import OPERATORS, Integers, Vectors, counterexample, ways
from index_proofs import proves
from test_index_facts import let, main, where
from test_index_transfer import facts, named

from egraph_rules import (
    index_bounds,
    index_conditions,
    index_division,
    index_domain,
    index_enumerated,
    index_nodes,
    index_reach,
    index_relations,
    index_system,
    index_transfer,
    index_trips,
    index_values,
    index_walk,
    index_wrapping,
)
from egraph_rules.index_bounds import Limit, Sums
from egraph_rules.index_build import equations_of
from egraph_rules.index_domain import Fact, bounds, make, meet, one_of, top
from egraph_rules.index_nodes import AfterLoop, Carried, Choice, Given, Join, LoopVariable, Refined
from egraph_rules.index_places import Place
from egraph_rules.index_relations import Relation
from egraph_rules.index_solve import extend, solve
from egraph_rules.index_system import System
from egraph_rules.index_trips import MOST_TRIPS
from egraph_rules.index_values import Form, Term, Values
from pypto_ir.dtypes import DType
from pypto_ir.stmt import For

SIGNED = (DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.INDEX)
WIDTHS = (*SIGNED, DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64)
EVERY = pytest.mark.parametrize("dtype", WIDTHS, ids=named)


def drawn(source: random.Random, dtype: DType, count: int) -> list[Fact]:
    """Facts of all shapes, also of a few values one by one."""
    found = list(facts(source, dtype, count))
    least, greatest = bounds(dtype)
    some = (one_of(dtype, source.sample((least, 0, 1, 2, 4, 16, 20, 48, 100, greatest), 3)) for _ in range(count // 4))
    return source.sample([*found, *(f for f in some if f is not None)], len(found))


def holds(fact: Fact | None, x: Any) -> Any:
    """That a number is one that a fact allows."""
    return Integers(DType.INDEX).holds(fact, x)


def proved(said: Fact | None, x: Any, *given: Any) -> None:
    """z3 finds no value that is not as said."""
    wrong = counterexample(*given, z3.Not(holds(said, x)))
    assert wrong is None, f"said to be {said}: {wrong}"


def test_everything_that_makes_facts_is_proved() -> None:
    assert test_egg_rules and test_index_transfer and test_quotient_rules
    assert sorted(index_proofs.required() - set(index_proofs.PROVED)) == []
    assert sorted(set(index_proofs.PROVED) - index_proofs.required()) == [], "no longer there"


def test_a_transfer_function_or_a_rule_without_a_proof_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(dtype: DType, a: Fact) -> Fact | None:
        return index_transfer.add(dtype, a, a)

    monkeypatch.setattr(doubled, "__module__", index_transfer.__name__)
    monkeypatch.setattr(doubled, "__qualname__", "doubled")
    monkeypatch.setattr(index_transfer, "doubled", doubled, raising=False)
    assert index_proofs.required() - set(index_proofs.PROVED) == {"index_transfer.doubled"}
    monkeypatch.undo()
    text = '(rule ((= q (Quot x (Known 2)))) ((union q x)) :ruleset quotients :name "quotient.two")'
    real = index_proofs.rule_text
    monkeypatch.setattr(index_proofs, "rule_text", lambda name: real(name) + (text if name == "quotients" else ""))
    assert index_proofs.required() - set(index_proofs.PROVED) == {"egg quotient.two"}


def test_a_proof_that_does_not_call_what_it_proves_is_none() -> None:
    try:
        with pytest.raises(AssertionError, match=r"does not call index_transfer\.negate"):
            proves(index_transfer.negate)(lambda: None)()
    finally:
        index_proofs.PROVED["index_transfer.negate"].remove("<lambda>")


# ---- the lattice ----


@EVERY
@proves(index_domain.meet, index_domain.join, index_domain.widen, index_domain.below)
def test_meets_and_joins(dtype: DType) -> None:
    source, model = random.Random(dtype.value), Integers(dtype)
    x = model.value("x")
    pool = drawn(source, dtype, 24)
    for a, b in zip(pool[::2], pool[1::2], strict=False):
        proved(meet(a, b), x, holds(a, x), holds(b, x))
        for wider in (index_domain.join(a, b), index_domain.widen(a, b)):
            proved(wider, x, z3.Or(holds(a, x), holds(b, x)))
        if index_domain.below(a, b):
            proved(b, x, holds(a, x))


@EVERY
@proves(index_domain.into, index_domain.make, index_domain.one_of)
def test_what_is_brought_into_a_type(dtype: DType) -> None:
    source, (least, greatest) = random.Random(dtype.value), bounds(dtype)
    span = greatest - least + 1
    for _ in range(24):
        lo = source.choice((least - 5, greatest - 20, -span, 0, 3 * span + 7, source.randint(-2 * span, 2 * span)))
        hi, m = lo + source.choice((0, 30, 200, span, 4 * span)), source.choice((1, 2, 3, 4, 12, 16, 48, span, 3 * span))
        r, model = source.randrange(min(m, 1 << 40)), Integers(dtype)
        exact = z3.Int("exact")
        wrapped = model.wrap(exact)
        said = index_domain.into(dtype, lo, hi, m, r)
        proved(said, wrapped, lo <= exact, exact <= hi, (exact - r) % m == 0, *model.given)
    few = one_of(dtype, (0, 4, 6, greatest))
    proved(few, z3.Int("x"), z3.Or([z3.Int("x") == v for v in (0, 4, 6, greatest)]))


# ---- bounds of sums ----


def a_sum(source: random.Random, dtype: DType) -> tuple[Sums, list[Fact | None], list[Any], Any]:
    """A form of three atoms with relations and forms of their own; facts, what is given, and the exact form."""
    known: list[Fact | None] = list(drawn(source, dtype, 16)[:3])
    while len(known) < 3:
        known.append(top(dtype))
    v = [z3.Int(f"v{i}") for i in range(3)]
    given = [holds(f, x) for f, x in zip(known, v, strict=True)]
    form = Form(source.choice((0, 8, -3)), tuple((i, source.choice((1, -1, 2, 16))) for i in range(source.randrange(1, 4))))
    limits: dict[int, tuple[Limit, ...]] = {}
    for a, b in ((0, 1), (1, 2), (2, 0)):
        if source.randrange(2):
            limit = Limit(source.random() < 0.5, b, source.choice((0, -1, 5)), source.choice((1, 1, 2)))
            limits[a] = (limit,)
            left, right = limit.scale * v[a], v[b] + limit.offset
            given.append(left <= right if limit.upper else left >= right)
    forms: dict[int, tuple[Form, int, int]] = {}
    if source.randrange(2):
        own, (least, greatest) = Form(source.choice((0, 7)), ((1, source.choice((1, 4))), (2, 1))), bounds(dtype)
        forms[0] = (own, least, greatest)
        exact = own.constant + sum(k * v[i] for i, k in own.terms)
        given.append(z3.Implies(z3.And(least <= exact, exact <= greatest), v[0] == exact))
    sums = Sums(form, {0: 0, 1: 1, 2: 2}, limits, forms)
    return sums, known, given, form.constant + sum(k * v[i] for i, k in form.terms)


@EVERY
@proves(index_bounds.Sums.interval, index_bounds.Sums.congruence, index_bounds.Sums.fact)
def test_bounds_of_sums_by_relations_and_own_forms(dtype: DType) -> None:
    source = random.Random(dtype.value)
    for _ in range(12):
        sums, known, given, exact = a_sum(source, dtype)
        found = sums.interval(known)
        assert found is not None
        m, r = sums.congruence(known)
        inside = z3.And(found[0] <= exact, exact <= found[1], (exact - r) % m == 0 if m else exact == r)
        assert counterexample(*given, z3.Not(inside)) is None, (sums, known)
        model = Integers(dtype, given)
        proved(sums.fact(dtype, known), model.wrap(exact), *model.given)


@EVERY
@proves(index_enumerated.sum_of)
def test_sums_of_few_values(dtype: DType) -> None:
    source = random.Random(dtype.value)
    for _ in range(6):
        few = [one_of(dtype, source.sample((0, 1, 4, 16, 20, 100, bounds(dtype)[1]), 3)) for _ in range(2)]
        form = Form(source.choice((0, 5)), ((0, 1), (1, source.choice((1, -2, 16)))))
        model = Integers(dtype)
        v = [z3.Int("v0"), z3.Int("v1")]
        got = model.wrap(form.constant + sum(k * v[i] for i, k in form.terms))
        said = index_enumerated.sum_of(Sums(form, {0: 0, 1: 1}, {}, {}), dtype, few)
        proved(said, got, *model.given, *(holds(f, x) for f, x in zip(few, v, strict=True)))


@EVERY
@proves(index_division.Division.fact, index_division.split)
def test_splits_of_dividends(dtype: DType) -> None:
    """A dividend that may wrap, or be negative, must get the whole type."""
    source, (least, greatest) = random.Random(dtype.value), bounds(dtype)
    largest = greatest // 2 if dtype.is_unsigned else greatest
    told = 0
    for _ in range(40):
        by = source.choice((2, 3, 16))
        form = Form(source.choice((0, 20, -4)), ((0, by * source.choice((1, 2, 16))), (1, source.choice((1, 1, 2)))))
        parts = index_division.split(form, by)
        if parts is None:
            assert all(k % by == 0 for k in (form.constant, *(k for _, k in form.terms)))
            continue
        known: list[Fact | None] = [make(dtype, lo, lo + source.choice((0, 3, 15))) for lo in source.choices((0, 0, 1, 5), k=2)]
        if source.randrange(4) == 0:
            known[source.randrange(2)] = top(dtype)
        whole, multiple, rest = (Sums(f, {0: 0, 1: 1}, {}, {}) for f in (form, *parts))
        v = [z3.Int("v0"), z3.Int("v1")]
        exact = form.constant + sum(k * v[i] for i, k in form.terms)
        x, got = z3.Int("x"), z3.Int("got")
        fits = z3.And(exact >= 0, exact <= largest)
        for op in ("floordiv", "mod"):
            said = index_division.Division(op, by, whole, multiple, rest).fact(dtype, known)
            told += said is not None and said != top(dtype)
            result = exact / by if op == "floordiv" else exact % by
            given = [holds(f, n) for f, n in zip(known, v, strict=True)]
            proved(said, got, *given, z3.If(fits, got == result, z3.And(least <= got, got <= greatest)), x == exact)
    assert told > 15


# ---- nodes ----


def node_facts(source: random.Random, dtype: DType, count: int) -> list[Fact | None]:
    found: list[Fact | None] = list(drawn(source, dtype, 3 * count)[:count])
    return found + [top(dtype)] * (count - len(found))


@EVERY
@proves(Given.evaluate, Choice.evaluate)
def test_results_of_branches(dtype: DType) -> None:
    source, x, c = random.Random(dtype.value), z3.Int("x"), z3.Bool("c")
    for lo, hi in ((0, 1), (0, 0), (1, 1)):
        condition = make(DType.BOOL, lo, hi)
        known = [condition, *node_facts(source, dtype, 2)]
        assert Given(condition).evaluate(known) is condition
        taken = z3.If(c, holds(known[1], x), holds(known[2], x))
        proved(Choice(dtype, 0, 1, 2).evaluate(known), x, taken, z3.If(c, 1, 0) >= lo, z3.If(c, 1, 0) <= hi)


@EVERY
@proves(Join.evaluate, index_trips.grown)
def test_parameters_also_of_functions_that_call_themselves(dtype: DType) -> None:
    source, model = random.Random(dtype.value), Integers(dtype)
    for _ in range(8):
        known = [*node_facts(source, dtype, 3), make(DType.BOOL, 1, 1)]
        given = source.choice((None, known[1]))
        x, calls, added = z3.Int("x"), z3.Int("calls"), z3.Int("added")
        joined = Join(dtype, [(0, 3), (2, 3)], given)
        proved(joined.evaluate(known), x, z3.Or(holds(known[0], x), holds(known[2], x), *([holds(given, x)] if given else [])))
        by = source.choice(((0, 0), (16, 16), (-16, -4), (-1, 8)))
        known[2] = make(dtype, *by) if bounds(dtype)[0] <= by[0] else make(dtype, 0, max(by[1], 0))
        least, greatest = known[2].lo, known[2].hi  # type: ignore[union-attr]
        deeper = Join(dtype, [(0, 3)], None, [(1, 3, Sums(Form(0, ((7, 1),)), {7: 2}, {}, {}))])
        known[1] = top(dtype)
        said = deeper.evaluate(known)
        steps = [calls >= 0, calls <= MOST_TRIPS, calls * least <= added, added <= calls * greatest]
        proved(said, model.wrap(x + added), holds(known[0], x), *steps, *model.given)


@pytest.mark.parametrize("dtype", [*SIGNED, DType.UINT8, DType.UINT32], ids=named)
@proves(
    LoopVariable.evaluate, Carried.evaluate, AfterLoop.evaluate, index_trips.variable, index_trips.readings, index_trips.Bounds.values,
    index_trips.Bounds.trips, index_trips.Bounds.runs, index_trips.most_trips, index_trips.surely_runs,
)  # fmt: skip
def test_loops(dtype: DType) -> None:
    """Of every trip: the variable, a value that each trip adds to, and whether there is one; by value and, for unsigned types, by bits."""
    source, (_, greatest) = random.Random(dtype.value), bounds(dtype)
    half = (greatest + 1) // 2
    for _ in range(10):
        step = source.choice((1, 3, 16)) if dtype.is_unsigned and source.randrange(2) else source.choice((1, 16, -1, -16))
        held = step % (greatest + 1) if dtype.is_unsigned else step
        small = (make(dtype, lo, lo + source.randrange(40)) for lo in source.choices((0, 5, 16, 60), k=2))
        known = [*(small if source.randrange(2) else node_facts(source, dtype, 2)), make(dtype, held, held)]
        known += [*node_facts(source, dtype, 2), make(dtype, 1, 4)]
        start, stop, t = z3.Int("start"), z3.Int("stop"), z3.Int("t")
        read = [(start, stop, held)]
        if dtype.is_unsigned:
            read.append((*(z3.If(n >= half, n - 2 * half, n) for n in (start, stop)), held - 2 * half if held >= half else held))
        given = [holds(known[0], start), holds(known[1], stop), t >= 0, t < MOST_TRIPS]
        for first, last, by in read:
            model = Integers(dtype, list(given))
            i = first + by * t
            trip = i < last if by > 0 else i > last
            proved(LoopVariable(dtype, 0, 1, 2).evaluate(known), model.wrap(i), trip, *model.given)
            assert counterexample(*given, trip, t >= index_trips.most_trips(known[:3])) is None
            none = first >= last if by > 0 else first <= last
            assert not index_trips.surely_runs(known[:3]) or counterexample(*given, none) is None
            x, added = z3.Int("x"), z3.Int("added")
            proved(AfterLoop(dtype, 3, 4, (0, 1, 2)).evaluate(known), x, z3.If(none, holds(known[3], x), holds(known[4], x)), *given)
            total = Integers(dtype, [*given, z3.Or(trip, t == 0), t <= added, added <= 4 * t, holds(known[3], x)])
            carried = Carried(dtype, 3, 4, (0, 1, 2), Sums(Form(0, ((7, 1),)), {7: 5}, {}, {}))
            known[4] = top(dtype)
            proved(carried.evaluate(known), total.wrap(x + added), trip, *total.given)


NARROWINGS = sorted(index_conditions._NARROWINGS)


@EVERY
@proves(*index_conditions._NARROWINGS.values(), Refined.evaluate)
def test_conditions(dtype: DType) -> None:
    source, (least, greatest) = random.Random(dtype.value), bounds(dtype)
    x, y = z3.Int("x"), z3.Int("y")
    outcomes = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    pool = drawn(source, dtype, 40)
    for n, op in enumerate(NARROWINGS * 4):
        a, b = pool[n % len(pool)], pool[(n + 7) % len(pool)]
        given = [holds(a, x), holds(b, y)]
        narrow = index_conditions._NARROWINGS[op]
        proved(narrow(a, b), x, *given, outcomes[op])
        k, c = source.choice((1, 2, 16, -1)), source.choice((0, 8, -3))
        seen = k * x + c
        through = z3.substitute(outcomes[op], (x, seen))
        fits = z3.And(least <= seen, seen <= greatest)  # what is compared may wrap; then nothing is said
        said = Refined(0, 1, narrow, (k, c, dtype)).evaluate([a, b])
        proved(said, x, *given, z3.Implies(fits, through))


@pytest.mark.parametrize("dtype", SIGNED, ids=named)
@proves(index_conditions._congruent)
def test_conditions_on_rests(dtype: DType) -> None:
    source, x = random.Random(dtype.value), z3.Int("x")
    for c, r, way in ((16, 0, "floor"), (4, 3, "trunc"), (-4, 1, "trunc"), (3, 2, "floor"), (16, -5, "trunc")):
        for a in drawn(source, dtype, 4):
            rest = x - c * Integers(dtype).quotient(x, c, way)
            proved(index_conditions._congruent(c, r)(a, a), x, holds(a, x), rest == r)


@proves(index_reach.Entered.evaluate, index_reach.Reached.evaluate)
def test_places_that_are_reached() -> None:
    """Reached in some run: what decides it can be so, and the place around it is."""
    condition, around = z3.Bool("condition"), z3.Bool("around")
    for fact in (None, make(DType.BOOL, 0, 0), make(DType.BOOL, 1, 1), make(DType.BOOL, 0, 1)):
        for outside in (None, make(DType.BOOL, 1, 1)):
            for outcome in (True, False):
                said = index_reach.Reached(0, 1, outcome).evaluate([outside, fact])
                given = [around if outside is not None else z3.Not(around), holds(fact, z3.If(condition, 1, 0))]
                if said is None:
                    assert counterexample(*given, around, condition if outcome else z3.Not(condition)) is None
            loops = index_reach.Reached(0, 1).evaluate([outside, fact])
            assert (loops is None) is (outside is None or fact is None)
            for entered in (True, False):
                said = index_reach.Entered(entered, [0]).evaluate([outside])
                assert (said is None) is (not entered and outside is None)


# ---- values and their forms ----


def shapes(values: Values, x: int, y: int, c: int) -> Iterator[tuple[int, Any]]:
    """Linear values of x and y, and identities of quotients, each with what it is of bits; q is x // c however it is divided."""
    dtype = values[x].dtype
    model = Vectors(dtype)
    a, b, q = model.value("x"), model.value("y"), model.value("q")
    k = values.const(dtype, c)
    n, rest = model.number(c), a - q * model.number(c)
    quotient, remainder = values.binary("floordiv", x, k), values.binary("mod", x, k)
    assert quotient is not None and remainder is not None

    def made(op: str, p: int, r: int) -> int:
        found = values.binary(op, p, r)
        assert found is not None
        return found

    yield made("add", x, y), a + b
    yield made("sub", x, y), a - b
    yield made("mul", x, k), a * n
    yield made("mul", made("sub", x, y), k), (a - b) * n
    yield made("shl", x, values.const(dtype, 3)), a << 3
    yield values.unary("neg", made("sub", x, k)), n - a
    yield values.unary("bitnot", x), ~a
    yield made("sub", x, remainder), a - rest
    yield made("add", remainder, made("mul", quotient, k)), rest + q * n
    yield made("sub", x, made("mul", k, quotient)), a - n * q
    yield made("add", made("sub", y, remainder), x), b - rest + a
    yield made("sub", made("mul", x, k), made("mul", made("mul", quotient, k), k)), a * n - q * n * n


@EVERY
@proves(index_values.combine, index_values.scale, index_values.balanced, index_values.Values._form, index_values.Values._shortened)
def test_forms_and_identities_of_quotients(dtype: DType) -> None:
    """The form of a value is the value modulo 2**bits, whatever wraps; with `whole` it is also the exact result."""
    for c in (2, 3, 16, bounds(dtype)[1] // 2 + 1):
        values = Values()
        x, y = values.leaf(dtype, "x"), values.leaf(dtype, "y")
        model = Vectors(dtype)
        found = list(shapes(values, x, y, c))
        atoms = {x: model.value("x"), y: model.value("y")}
        q, k = values.binary("floordiv", x, values.const(dtype, c)), values.const(dtype, c)
        rest = values.binary("mod", x, k)
        assert q is not None and rest is not None
        atoms |= {q: model.value("q"), rest: model.value("x") - model.value("q") * c}
        shortened = 0
        for value, exact in found:
            form = values[value].form
            shortened += form.terms in (((x, 1),), ((q, c),), ((rest, 1),), ((rest, c),))
            got = model.number(form.constant)
            for atom, times in form.terms:
                got += model.number(times) * atoms[atom]
            assert counterexample(got != exact) is None, (values[value], c)
        assert shortened >= 3 or c > 16


def test_whole_forms_are_exact() -> None:
    """Where no coefficient was taken modulo 2**bits, exact arithmetic of the operations gives the form."""
    source = random.Random(3)
    for dtype in WIDTHS:
        values = Values()
        leaves = [values.leaf(dtype, name) for name in "xy"]
        exact: dict[int, Any] = {leaf: z3.Int(f"v{leaf}") for leaf in leaves}
        for _ in range(60):
            op, a = source.choice(("add", "sub", "mul", "neg", "bitnot", "shl")), source.choice(list(exact))
            if op in ("neg", "bitnot"):
                made, result = values.unary(op, a), {"neg": -exact[a], "bitnot": -exact[a] - 1}[op]
            else:
                c = source.choice((1, 2, 3, 16, 100))
                b = values.const(dtype, c) if op in ("mul", "shl") else source.choice(list(exact))
                by = c if op in ("mul", "shl") else exact[b]
                if op == "shl" and c >= dtype.bits:
                    continue
                found = values.binary(op, a, b)
                assert found is not None
                made = found
                result = {"add": exact[a] + by, "sub": exact[a] - by, "mul": exact[a] * by, "shl": exact[a] * 2**c if op == "shl" else 0}[
                    op
                ]
            exact[made] = result
            term = values[made]
            if term.whole and all(atom in leaves for atom, _ in term.form.terms):
                form = term.form.constant + sum(k * exact[atom] for atom, k in term.form.terms)
                assert counterexample(form != result) is None, (dtype, term)


@EVERY
@proves(index_system.System._by_meaning)
def test_relations_by_what_a_value_is(dtype: DType) -> None:
    source, asked = random.Random(dtype.value), 0
    for op in ("min", "max", "mod", "floordiv"):
        for c in (None, 1, 3, 16, bounds(dtype)[1]):
            system, place = System(), Place()
            known = [*drawn(source, dtype, 8)[:1], make(dtype, 0, 100)]
            for low in (known[0], known[1]):
                assert low is not None
                a = system.leaf(dtype, "a", place, Given(low))
                b = system.leaf(dtype, "b", place, Given(known[1])) if c is None else system.values.const(dtype, c)
                value = system.values.binary(op, a, b)
                assert value is not None
                if op in ("mod", "floordiv") and c is None:
                    continue
                node_a, node_b = system.node(a, place), system.node(b, place)
                system.node(value, place)
                told: list[Fact | None] = []
                extend(system, told)
                model = Integers(dtype)
                x, y = model.value("a"), model.value("b")
                by: Any = y if c is None else c
                for way in ways(op, dtype):
                    got = model.apply(op, x, by, way)
                    given = [*model.given, holds(told[node_a], x), holds(told[node_b], y)]
                    for limit in system._by_meaning(value, place):
                        if limit.holds(told):
                            asked += 1
                            left, right = limit.scale * got, (x if limit.other == a else y) + limit.offset
                            wrong = counterexample(*given, z3.Not(left <= right if limit.upper else left >= right))
                            assert wrong is None, (op, c, limit, wrong)
    assert asked > 12


@pytest.mark.parametrize("dtype", ["INT32", "INDEX", "UINT32", "UINT8"])
@proves(index_walk.Walk.loop)
def test_relations_of_loop_variables(dtype: str) -> None:
    kind = DType[dtype]
    half = (bounds(kind)[1] + 1) // 2
    for ends in ((0, 100), None):
        for step in (1, 16, -16):
            ranged: Any = {} if ends is None else {"range": ends}
            held = step % (1 << kind.bits) if kind.is_unsigned else step
            body = [loop("k", ["s", "t", const(held, dtype)], {}, [let("o", "k")])]
            p = main([scalar("s", dtype, **ranged), scalar("t", dtype, **ranged)], *body)
            equations = equations_of(p)
            told = solve(equations.system)
            f = equations.functions["main"]
            _, _, s = where(p)
            assert isinstance(p.functions[0].body[0], For)
            var, place = f.names["k"], f.place(s)
            assert isinstance(var, int)
            model = Integers(kind)
            start, stop, t = model.value("s"), model.value("t"), z3.Int("n")
            given = [*model.given, t >= 0, *([start <= ends[1], stop <= ends[1], start >= 0, stop >= 0] if ends else [])]
            read = [(start, stop, held)]
            if kind.is_unsigned:
                read.append((*(z3.If(n >= half, n - 2 * half, n) for n in (start, stop)), held - 2 * half if held >= half else held))
            for first, last, by in read:
                i = first + by * t
                more = Integers(kind, [*given, i < last if by > 0 else i > last], 50)
                value = more.wrap(i)
                for limit in place.limits_of(var):
                    if limit.holds(told):
                        right = (start if limit.other == f.names["s"] else stop) + limit.offset
                        assert counterexample(*more.given, z3.Not(value <= right if limit.upper else value >= right)) is None, limit


# ---- what wraps, what differs, few values ----


@EVERY
@proves(index_wrapping._reach)
def test_operations_that_are_said_to_stay_in_their_type_do(dtype: DType) -> None:
    source, (least, greatest) = random.Random(dtype.value), bounds(dtype)
    x, y, stayed = z3.Int("x"), z3.Int("y"), 0
    for op in ("add", "sub", "mul", "neg", "abs", "bitnot", "shl", "floordiv"):
        for a in drawn(source, dtype, 10):
            for b in (*drawn(source, dtype, 4)[:1], make(dtype, 3, 3), make(dtype, 16, 16)):
                if b is None or (op in ("mul", "shl", "floordiv") and b.constant is None) or (op == "shl" and b.lo >= dtype.bits):
                    continue
                found = index_wrapping._reach(Term(op, dtype, (0, 1), Form(0)), [a] if op in ("neg", "abs", "bitnot") else [a, b])
                if found is None or found[0] < least or found[1] > greatest:
                    continue
                stayed += 1
                c = 1 if b.constant is None else b.constant
                exact = {
                    "add": x + y, "sub": x - y, "mul": x * c, "neg": -x, "abs": z3.If(x < 0, -x, x), "bitnot": -x - 1,
                    "shl": x * (1 << c if op == "shl" else 1), "floordiv": Integers(dtype).quotient(x, c, "floor"),
                }[op]  # fmt: skip
                outside = z3.Or(exact < least, exact > greatest)
                assert counterexample(holds(a, x), holds(b, y), outside) is None, (op, a, b)
    assert stayed > 20
    if dtype.bits < 64:
        for a in drawn(source, dtype, 12):
            for target in (DType.INT8, DType.INT32, DType.INDEX, DType.UINT16):
                found = index_wrapping._reach(Term("cast", target, (0,), Form(0)), [a])
                low, high = bounds(target)
                if found is not None and low <= found[0] and found[1] <= high:
                    assert counterexample(holds(a, x), z3.Or(x < low, x > high)) is None, (a, target)


@proves(index_relations.Relation.disjoint)
def test_slices_that_are_said_to_be_disjoint_are() -> None:
    a, b, cell = z3.Int("a"), z3.Int("b"), z3.Int("cell")
    for lo, hi, m, n in ((16, 16, 8, 16), (16, 99, 100, 16), (-40, -16, 16, 4), (-3, 5, 1, 1), (1, 9, 1, 2), (-5, -1, 2, 9)):
        if Relation(lo, hi).disjoint(m, n):
            both = z3.And(a <= cell, cell < a + m, b <= cell, cell < b + n)
            assert counterexample(lo <= a - b, a - b <= hi, both) is None
    assert Relation(16, 16).disjoint(8, 16) and not Relation(15, 99).disjoint(8, 16)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16], ids=named)
@proves(index_enumerated.results, index_enumerated.enumerable, index_enumerated.Joint.fact)
def test_operations_on_a_few_values(dtype: DType) -> None:
    source, model = random.Random(dtype.value), Vectors(dtype)
    x, y = model.value("x"), model.value("y")
    for op in OPERATORS:
        for _ in range(3):
            a, b = (one_of(dtype, source.sample((0, 1, 2, 3, 5, 16, 20, 48, bounds(dtype)[1], bounds(dtype)[0]), 3)) for _ in range(2))
            assert a is not None and b is not None
            tried, said = index_enumerated.results(op, dtype, [a, b], False)
            assert tried
            joint = index_enumerated.Joint(op, (Form(8, ((0, 1),)), Form(0, ((0, 2),))), ((0, 0),)).fact(dtype, [a])
            for way in ways(op, dtype):
                for fact, p, q, given in ((said, x, y, model.holds(b, y)), (joint, x + 8, x + x, z3.BoolVal(True))):
                    wrong = z3.Not(model.holds(fact, model.apply(op, p, q, way)))
                    assert counterexample(model.holds(a, x), given, model.defined(op, q), wrong) is None, (op, a, b, fact)


@EVERY
@proves(index_enumerated.closed)
def test_operations_on_constants_by_one_meaning_of_division(dtype: DType) -> None:
    """Each meaning goes on from its own numbers: x // y // 3 is computed from what the same meaning makes of x // y."""
    source, model = random.Random(dtype.value), Vectors(dtype)
    x, y = model.value("x"), model.value("y")
    meanings = dict(zip(("floor", "trunc", "signed"), range(3), strict=True))
    for op in OPERATORS:
        a, b = (source.choice((1, 2, 3, 5, 16, 48, bounds(dtype)[1] - 7)) for _ in range(2))
        first = index_enumerated.closed(op, dtype, ((a,) * 3, (b,) * 3))
        assert first is not None or op in ("shl", "shr")
        for way in ways(op, dtype) if first is not None else ():
            then = index_enumerated.closed("floordiv", dtype, (first, (3,) * 3))
            assert then is not None
            if op in ("floordiv", "mod") or way == "floor":
                once = model.apply(op, x, y, way)
                twice = model.divide(once, z3.BitVecVal(3, dtype.bits), way)
                for said, made in ((first, once), (then, twice)):
                    wrong = z3.Not(model.holds(one_of(dtype, [said[meanings[way]]]), made))
                    given = (model.holds(one_of(dtype, [a]), x), model.holds(one_of(dtype, [b]), y))
                    assert counterexample(*given, wrong) is None, (op, a, b, way, said)
    assert index_enumerated.closed("floordiv", dtype, ((5,) * 3, (0,) * 3)) is None


@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64, DType.UINT32], ids=named)
@proves(index_transfer.operand, index_transfer.by_bits)
def test_operands_of_another_type(dtype: DType) -> None:
    """By value or by bits where the signs differ, extended by either where the width does."""
    source, x = random.Random(dtype.value), z3.Int("x")
    for other in (DType.INT8, DType.UINT8, DType.INT32, DType.UINT32, DType.INT64, DType.UINT64):
        for a in drawn(source, other, 8):
            said = index_transfer.operand(a, dtype)
            half, model = 1 << (other.bits - 1), Integers(dtype)
            as_signed = z3.If(x >= half, x - 2 * half, x) if other.is_unsigned else x
            proved(said, model.wrap(x), holds(a, x), *model.given)
            if other.bits < dtype.bits:
                model = Integers(dtype)
                proved(said, model.wrap(as_signed), holds(a, x), *model.given)
            if other.is_unsigned:
                parts = list(index_transfer.by_bits(a))
                assert counterexample(holds(a, x), z3.Not(z3.Or([holds(part, as_signed) for part in parts]))) is None
    assert list(index_transfer.by_bits(top(DType.UINT8)))


def tree(
    source: random.Random, values: Values, leaves: Sequence[tuple[int, Any]], model: Vectors, depth: int, way: str
) -> tuple[int, Any, Any]:
    """A random value, what it is of bits, and when it has a result."""
    dtype = model.dtype
    if depth == 0:
        if source.randrange(3) == 0:
            n = source.choice((1, 2, 3, 4, 7, 16))
            return values.const(dtype, n), model.number(n), z3.BoolVal(True)
        value, bits = source.choice(leaves)
        return value, bits, z3.BoolVal(True)
    op = source.choice((*OPERATORS, "add", "sub", "mul"))
    a, x, p = tree(source, values, leaves, model, depth - 1, way)
    b, y, q = tree(source, values, leaves, model, depth - 1, way)
    made = values.binary(op, a, b)
    assert made is not None
    return made, model.apply(op, x, y, way), z3.And(p, q, model.defined(op, y))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=named)
@proves(index_nodes.Operation.evaluate)
def test_facts_of_nested_operations(dtype: DType) -> None:
    """What operators, forms, splits and few values say together, of trees of operations with common leaves."""
    source, model = random.Random(dtype.value), Vectors(dtype)
    for _ in range(30):
        pool = drawn(source, dtype, 16)[:2]
        for way in ways("floordiv", dtype):
            system, place = System(), Place()
            leaves = [(system.leaf(dtype, name, place, Given(f)), model.value(name)) for name, f in zip("xy", pool, strict=False)]
            state = source.getstate()
            value, bits, defined = tree(source, system.values, leaves, model, 2, way)
            if way != list(ways("floordiv", dtype))[-1]:
                source.setstate(state)
            node = system.node(value, place)
            told: list[Fact | None] = []
            extend(system, told)
            given = [model.holds(f, b) for f, (_, b) in zip(pool, leaves, strict=False)]
            wrong = counterexample(*given, defined, z3.Not(model.holds(told[node], bits)))
            assert wrong is None, (system.values[value], told[node], way, wrong)
