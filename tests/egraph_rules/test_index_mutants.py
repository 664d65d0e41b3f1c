"""The tests of index facts notice wrong facts: off by one, the wrong division, a missing guard against wrapping.

A mutant is a function with a piece of its text changed. It is caught by numbers (results of types of four bits against all operands) or
by random programs, which are tried from a first seed on.
"""

from __future__ import annotations

import inspect
import random
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import Any

import pytest
from test_index_facts import test_facts_of_forms
from test_index_places import test_a_sum_of_two_parameters_is_proved_call_by_call
from test_index_proofs import test_relations_of_loop_variables
from test_index_quotients import test_an_operation_that_wraps_at_its_width_is_not_done_at_another

from egraph_rules import (
    index_bits,
    index_bounds,
    index_conditions,
    index_contexts,
    index_division,
    index_domain,
    index_enumerated,
    index_nodes,
    index_quotients,
    index_reach,
    index_relations,
    index_system,
    index_transfer,
    index_trips,
    index_values,
    index_walk,
    index_wrapping,
)
from egraph_rules.index_domain import Fact, bounds, into, join, make, meet, one_of
from egraph_rules.index_transfer import binary, cast, unary
from pypto_ir.dtypes import DType
from pypto_ir.expr import COMPARISONS, Binary, Const, Unary
from pypto_ir.interp.scalars import compile_expr
from pypto_ir.interp.values import RunError
from tests.generators.index_programs import random_index_program
from tests.generators.index_property import FalseFact, check_index

#: function, text in it, text in its place
Mutant = tuple[Callable[..., Any], str, str]

NUMBERS: dict[str, Mutant] = {
    "a sum is one less": (index_transfer.add, "a.hi + b.hi", "a.hi + b.hi - 1"),
    "a difference of the wrong ends": (index_transfer.subtract, "a.lo - b.hi", "a.lo - b.lo"),
    "a product keeps a modulus": (index_transfer.multiply, ", b.modulus * a.residue)", ")"),
    "a square keeps a modulus": (index_transfer.square, "2 * a.modulus * a.residue", "a.modulus * a.modulus"),
    "the rest of a negative quotient is that of floor": (index_transfer._quotient_congruence, "a.lo < 0 or c < 0", "False"),
    "a quotient of a multiple is one": (index_transfer._quotient_congruence, "a.modulus // abs(c)", "a.modulus"),
    "quotients do not truncate": (index_transfer._quotient, "(n // d, _truncated(n, d))", "(n // d,)"),
    "quotients do not floor": (index_transfer._quotient, "(n // d, _truncated(n, d))", "(_truncated(n, d),)"),
    "nothing is divided by one": (index_transfer._divisors, "ends |= {-1, 1}", "pass"),
    "unsigned values are divided as such": (index_transfer._read, "a.dtype.is_unsigned and", "False and"),
    "the top bit counts as any other": (index_transfer.by_bits, "max(a.lo, half) - 2 * half", "max(a.lo, half) - half"),
    "the rest of a value with the top bit is that of the value": (index_transfer.by_bits, "a.residue - 2 * half", "a.residue"),
    "a rest has the sign of the divisor": (index_transfer._rest, "a.lo >= 0 and b.lo >= 0 else -largest", "b.lo >= 0 else -largest"),
    "a rest has the sign of the dividend": (index_transfer._rest, "a.hi <= 0 and b.hi <= 0", "a.hi <= 0"),
    "a rest is at most the dividend": (index_transfer._rest, "min(hi, a.hi) if a.lo >= 0 else hi", "min(hi, a.hi)"),
    "a rest is at least the dividend": (index_transfer._rest, "max(lo, min(a.lo, 0))", "max(lo, a.lo)"),
    "a rest forgets the divisor": (index_transfer._rest, "gcd(a.modulus, b.modulus, b.residue)", "a.modulus"),
    "the least is congruent to one": (index_transfer.minimum, "both.modulus, both.residue", "a.modulus, a.residue"),
    "the greatest is the lower end": (index_transfer.maximum, "max(a.lo, b.lo), both.hi", "max(a.lo, b.lo), min(a.hi, b.hi)"),
    "less also where equal": (index_transfer.compare, '"lt": (a.hi < b.lo,', '"lt": (a.hi <= b.lo,'),
    "differs by any modulus": (index_transfer.compare, "apart = gcd(a.modulus, b.modulus)", "apart = a.modulus"),
    "a magnitude keeps its residue": (index_transfer.absolute, "gcd(a.modulus, 2 * a.residue)", "a.modulus"),
    "casts extend without the top bit": (index_transfer.cast, "a.hi < half", "True"),
    "multiples survive wrapping": (index_domain.into, "gcd(modulus, span)", "modulus"),
    "nothing wraps": (index_domain.into, "turns == (hi - least) // span", "True"),
    "a join keeps the modulus": (index_domain.join, ", a.residue - b.residue)", ")"),
    "a meet takes the wrong residue": (index_domain.meet, "a.residue + a.modulus * t", "a.residue + b.modulus * t"),
    "bounds move past the residue": (index_domain.make, "(hi - residue) % modulus", "(hi - residue) % modulus + 1"),
    "high bits reach one too far": (index_bits.known_bits, "(first ^ last).bit_length()", "(first ^ last).bit_length() // 2"),
    "known low bits reach one too far": (index_bits.known_bits, "gcd(a.modulus, 1 << width) - 1", "2 * gcd(a.modulus, 1 << width) - 1"),
    "an or is at least both": (index_bits._ordered, "max(a.lo, b.lo)", "a.lo + b.lo"),
    "an exclusive or is an or": (index_bits.bitwise, "(x.zeros & y.ones) | (x.ones & y.zeros)", "x.ones | y.ones"),
    "an inverse is a negative": (index_bits.invert, "-a.hi - 1, -a.lo - 1", "-a.hi, -a.lo"),
    "shifts keep residues": (index_bits.shift_right, "a.modulus % (1 << least) == 0", "True"),
    "a choice of few keeps its ends": (index_domain.one_of, "sorted(set(values))", "sorted(set(values))[:3]"),
    "few and many are few": (index_domain.join, "(*x, *y)", "x"),
    "a few values meet all": (index_domain.meet, "known.values)", "known.values[1:])"),
    "values are combined pairwise": (index_enumerated.results, "list(product(values[0], values[1]))", "list(zip(values[0], values[1]))"),
    "few values divide by floor": (index_enumerated._computed, '("floordiv", "mod")', '("shl",)'),
    "few values widen without the top bit": (index_transfer.cast, "if source.is_unsigned and", "if False and"),
    "shifts by the least amount": (index_bits.shift_left, "for k in amounts]", "for k in amounts[:1]]"),
}

#: mutants that only programs notice, with the first seed to try
PROGRAMS: dict[str, tuple[Mutant, int]] = {
    "the last trip is left out upwards": ((index_trips.Bounds.values, "stop.hi - 1", "stop.hi - 2"), 4),
    "the last trip is left out downwards": ((index_trips.Bounds.values, "stop.lo + 1", "stop.lo + 2"), 1),
    "a loop starts at a multiple of its step": ((index_trips.Bounds.values, "gcd(start.modulus, ", "max(0, "), 1),
    "the first value of a loop is forgotten": ((index_nodes.AfterLoop.evaluate, "None if surely_runs(found) else", "None if True else"), 0),
    "a carried value misses a trip": ((index_nodes.Carried._reach, "trips - 1", "trips - 2"), 27),
    "carried sums do not wrap": ((index_nodes._within, "least <= interval[0] and interval[1] <= greatest", "True"), 90),
    "loops of unsigned types count by value": ((index_trips.readings, "f.dtype.is_unsigned and", "False and"), 49),
    "a function is never entered": ((index_reach.Entered.evaluate, "self.outside or ", ""), 0),
    "one call enters a function": ((index_reach.Entered.evaluate, "any(", "all("), 0),
    "a block needs the other outcome": ((index_reach.Reached.evaluate, "int(self.holds)", "int(not self.holds)"), 1),
    "a call in an arm is never made": ((index_nodes.Join._joined, "if facts[place] is not None", "if facts[place] is None"), 0),
    "a call of itself gives the same": ((index_nodes.Join.evaluate, "grown(first.interval, by, MOST_TRIPS)", "first.interval"), 1),
    "a loop stays where it starts": ((index_trips.Bounds.values, "grown(start.interval, step.interval, MOST_TRIPS)", "start.interval"), 4),
    "an arm is never taken": ((index_nodes.Choice.evaluate, "if not condition.lo", "if False"), 0),
    "a condition on a sum that wraps": ((index_nodes.Refined.evaluate, "ends[0] < least or ends[1] > greatest", "False"), 113),
    "operands of the other sign are read by value": ((index_nodes._read_two_ways, "not a.within(*bounds(dtype))", "False"), 36),
    "less than is one more": ((index_conditions._below, "b.hi - 1", "b.hi - 2"), 2),
    "not equal takes the ends": ((index_conditions._different, "(c == a.hi)", "1"), 38),
    "the other arm is this arm": ((index_conditions.refine, "term.op if holds else _NEGATED[term.op]", "term.op"), 0),
    "or is and": ((index_conditions.refine, 'holds is (term.op in ("and", "bitand"))', "True"), 46),
    "relations need no guards": ((index_bounds.Limit.holds, "fact is None or not fact.within(lo, hi)", "False"), 1),
    "own forms may wrap": ((index_bounds._Search.own_form, "form if least <= low and high <= greatest else None", "form"), 5),
    "a widened value is its form": ((index_values.Values._foreign, "term.dtype.bits >= dtype.bits", "True"), 11),
    "a rest is taken twice": ((index_values.Values._shortened, "((quotient, c),)), -k)", "((quotient, c),)), k)"), 16),
    "signed values widen to unsigned ones": ((index_system.System._own_form, "0 if term.dtype.is_unsigned else least", "least"), 141),
    "a loop variable stays two below its stop": ((index_walk.Walk.loop, "-1 if up else 1", "-2 if up else 2"), 614),
    "every call fits": ((index_wrapping._reach, "a.lo + b.lo, a.hi + b.hi", "0, 0"), 38),
    "sums do not wrap by their form": ((index_wrapping._by_form, "not term.whole or ", ""), 2),
    "values are their forms": ((index_relations._exact, "least <= found[0] and found[1] <= greatest", "True"), 5),
}  # fmt: skip


#: mutants that forms of `test_index_facts` notice, with the form
FORMS: dict[str, tuple[Mutant, str]] = {
    "equal values compare as others": ((index_nodes.apply, '("eq", "le", "ge")', '("eq", "lt", "gt")'), "x >= x"),
    "sums of any sign are split": ((index_division.Division.fact, "whole[0] < 0 or ", ""), "(x * 256 + j % 16) // 16"),
    "sums that wrap are split": ((index_division.Division.fact, "or whole[1] > largest ", ""), "(i * 1152921504606846976 + j % 16) // 16"),
    "the rest of a sum is less than the divisor": (
        (index_division.Division.fact, '(self.op == "mod" and low != high)', "False"),
        "(i * 16 + j % 16 + 8) % 16",
    ),
}


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """The program with one function changed."""
    function, old, new = mutant
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(old) >= 1, f"{old!r} is not in {function.__qualname__}"
    scope = dict(function.__globals__)
    exec(compile("from __future__ import annotations\n" + text.replace(old, new), "<mutant>", "exec"), scope)
    code = function.__code__
    function.__code__ = scope[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = code


# ---- caught by numbers ----


def values(fact: Fact | None) -> set[int]:
    return set() if fact is None else set(filter(fact.allows, range(fact.lo, fact.hi + 1)))


def pool(dtype: DType) -> list[Fact]:
    least, greatest = bounds(dtype)
    ends = (least, least + 2, -3, -1, 0, 1, 5, greatest - 1, greatest)
    inside = sorted({max(least, min(greatest, e)) for e in ends})
    sets = {(lo, hi, m, r) for lo, hi in product(inside, inside) if lo <= hi for m, r in ((1, 0), (2, 1), (3, 0), (3, 1), (4, 2), (4, 0))}
    few = [one_of(dtype, ends) for ends in ((least, 1, greatest), (1, 2, 6), (max(least, -3), 0, 2, 7))]
    regular = [make(dtype, lo, hi, m, r) for lo, hi, m, r in sorted(sets)]
    return [made for made in (*regular, *few * 8) if made is not None and values(made)]


@cache
def results(op: str, dtype: DType, a: int, b: int) -> set[int]:
    """What an operation may give, with either division and, for unsigned values, with that of their bits."""
    found = set()
    for way in ("floor", "trunc"):
        try:
            found.add(int(compile_expr(Binary(op, Const(a, dtype), Const(b, dtype)), way)({})))
        except RunError:
            return set()
    if dtype.is_unsigned and op in ("floordiv", "mod"):
        signed = {DType.UINT4: DType.INT4}[dtype]
        x, y = (v - 16 if v > 7 else v for v in (a, b))
        found.add(int(compile_expr(Binary(op, Const(x, signed), Const(y, signed)), "trunc")({})) % 16)
    return found


OPERATORS = ("add", "sub", "mul", "floordiv", "mod", "min", "max", "bitand", "bitor", "bitxor", "shl", "shr", "lt", "eq", "pow")


def false_binary(source: random.Random, dtype: DType, facts: list[Fact]) -> bool:
    op, a, b = source.choice(OPERATORS), source.choice(facts), source.choice(facts)
    told = [binary(op, dtype, a, b)]
    tried, enumerated = index_enumerated.results(op, DType.BOOL if op in COMPARISONS else dtype, [a, b], False)
    told += [enumerated] if tried else []
    return any(said is None or not said.allows(n) for x in values(a) for y in values(b) for n in results(op, dtype, x, y) for said in told)


def false_unary(source: random.Random, dtype: DType, facts: list[Fact]) -> bool:
    op, a = source.choice(("neg", "abs", "bitnot")), source.choice(facts)
    said = values(unary(op, dtype, a))
    return any(int(compile_expr(Unary(op, Const(x, dtype)))({})) not in said for x in values(a))


def false_square(source: random.Random, dtype: DType, facts: list[Fact]) -> bool:
    a = source.choice(facts)
    return not values(index_transfer.square(dtype, a)) >= {next(iter(results("mul", dtype, x, x))) for x in values(a)}


def false_cast(source: random.Random, dtype: DType, facts: list[Fact]) -> bool:
    a, to = source.choice(facts), source.choice((DType.INT8, DType.INT4, DType.UINT4))
    least, greatest = bounds(to)
    extended = {n - 16 for n in values(a) if n > 7} if dtype.is_unsigned and to.bits > dtype.bits else set()
    arrived = {(n - least) % (greatest - least + 1) + least for n in values(a) | extended}
    return not values(cast(a, to)) >= arrived


def false_lattice(source: random.Random, dtype: DType, facts: list[Fact]) -> bool:
    a, b = source.choice(facts), source.choice(facts)
    return not (values(join(a, b)) >= values(a) | values(b) and values(meet(a, b)) >= values(a) & values(b))


def false_wrapping(source: random.Random, dtype: DType, facts: list[Fact]) -> bool:
    lo, m = source.randrange(-40, 40), source.choice((1, 2, 3, 4, 6))
    exact = {v for v in range(lo, lo + source.randrange(30)) if v % m == 0}
    least, greatest = bounds(dtype)
    arrived = {(v - least) % (greatest - least + 1) + least for v in exact}
    return bool(exact) and not values(into(dtype, lo, max(exact), m)) >= arrived


#: checks of one draw, the more often the more there is to draw
CHECKS = (false_binary,) * 12 + (false_unary, false_cast, *(false_square,) * 4, false_lattice, false_lattice, false_wrapping)


def false_numbers(draws: int = 12_000) -> bool:
    """True where the result of some operation on types of four bits is one that its fact excludes. Of every two operations one knows
    hardly any values one by one, since all of so few bits would be."""
    source, few = random.Random(5), index_domain.FEW
    facts = {dtype: pool(dtype) for dtype in (DType.INT4, DType.UINT4)}
    try:
        for _ in range(draws):
            dtype, index_domain.FEW = source.choice((DType.INT4, DType.UINT4)), source.choice((few, 2))
            if source.choice(CHECKS)(source, dtype, facts[dtype]):
                return True
    finally:
        index_domain.FEW = few
    return False


def test_numbers_find_nothing_without_a_mutant() -> None:
    assert not false_numbers()


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_catch(name: str) -> None:
    with mutated(NUMBERS[name]):
        assert false_numbers()


# ---- caught by programs ----


def caught_at(first: int, count: int = 600) -> int | None:
    """The first seed from `first` on whose program shows something false."""
    for seed in (first, *range(count)):
        try:
            check_index(random_index_program(random.Random(seed)))
        except FalseFact:
            return seed
    return None


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_catch(name: str) -> None:
    mutant, first = PROGRAMS[name]
    with mutated(mutant):
        assert caught_at(first) is not None


# ---- caught by forms ----


@pytest.mark.parametrize("name", FORMS)
def test_forms_catch(name: str) -> None:
    mutant, text = FORMS[name]
    test_facts_of_forms(text)
    with mutated(mutant), pytest.raises(AssertionError):
        test_facts_of_forms(text)


def test_an_operation_that_wraps_and_is_done_as_an_index_is_caught() -> None:
    with mutated((index_quotients._Extraction.__init__, "inputs in exact[name]", "True")), pytest.raises(AssertionError):
        test_an_operation_that_wraps_at_its_width_is_not_done_at_another()


@pytest.mark.parametrize(
    ("old", "new"),
    [("join(found, self.facts[node])", "self.facts[node]"), ("if self.facts[caller.reach()] is None:", "if found is not None:")],
)
def test_facts_of_one_call_for_all_are_caught(old: str, new: str) -> None:
    with mutated((index_contexts.Contexts.fact, old, new)), pytest.raises(AssertionError):
        test_a_sum_of_two_parameters_is_proved_call_by_call()


def test_bounds_of_loops_that_never_have_the_top_bit_are_caught() -> None:
    proof = test_relations_of_loop_variables.__wrapped__  # type: ignore[attr-defined]
    with mutated((index_walk.Walk.loop, "if dtype.is_unsigned else ()", "if False else ()")), pytest.raises(AssertionError):
        proof("UINT8")
