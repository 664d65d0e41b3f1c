"""Every transfer function holds at its width: z3 finds no operands that their facts allow and whose result the result's fact does not.

Facts are drawn, and the proof is over all values of the operands, with floor and with truncating division (and, for unsigned types, the
division that kernels do on their bits). At small widths all facts of a family are tried.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest
import z3
from index_models import OPERATORS, Integers, Vectors, counterexample, ways
from index_proofs import proves

from egraph_rules import index_bits, index_domain, index_transfer
from egraph_rules.index_domain import Fact, below, bounds, into, join, make, meet, one_of, top, widen
from egraph_rules.index_transfer import binary, cast, compare, operand, power, square, unary
from pypto_ir.dtypes import DType

WIDTHS = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32, DType.INT64, DType.UINT64, DType.INDEX)
NARROW = (DType.INT4, DType.UINT4)
MODULI = (1, 2, 3, 4, 6, 8, 12, 16, 48)
POWERS = (1, 2, 4, 8, 16, 32)


def named(dtype: DType) -> str:
    return dtype.value


def facts(source: random.Random, dtype: DType, count: int, moduli: tuple[int, ...] = MODULI) -> Iterator[Fact]:
    """Facts of all shapes: constants, whole types, ends of the range, around 0, with a congruence or without."""
    least, greatest = bounds(dtype)
    for _ in range(count):
        middle = source.choice((0, 0, least, greatest, 16, (least + greatest) // 2, source.randint(least, greatest)))
        lo = max(least, middle - source.choice((0, 0, 1, 7, 50, 1 << dtype.bits // 2)))
        hi = min(greatest, middle + source.choice((0, 1, 9, 64, 1 << dtype.bits // 2, 1 << dtype.bits)))
        modulus = source.choice(moduli)
        made = make(dtype, lo, hi, modulus, source.randrange(modulus))
        if made is not None:
            yield made


def constants(dtype: DType) -> Iterator[Fact]:
    """Constants of both signs, at the ends of the type and inside."""
    least, greatest = bounds(dtype)
    for c in (1, 2, 3, 4, 5, 12, 16, greatest, *((-1, -2, -3, -16, least) if least else (greatest // 2 + 1, greatest // 2))):
        yield Fact(dtype, c, c, 0, c)


def by_integers(op: str, dtype: DType, a: Fact, b: Fact) -> None:
    """Prove a result for all operands, as integers."""
    result = binary(op, dtype, a, b)
    for way in ways(op, dtype):
        model = Integers(dtype)
        x = model.value("x")
        y = model.value("y") if b.constant is None else b.constant
        got = model.apply(op, x, y, way)
        allowed = model.holds(a, x), True if b.constant is not None else model.holds(b, y)
        wrong = counterexample(*model.given, *allowed, z3.Not(model.holds(result, got)))
        assert wrong is None, f"{a} {op} {b} of {dtype.value} is said to be {result}, {way}: {wrong}"


def by_vectors(op: str, dtype: DType, a: Fact, b: Fact) -> None:
    """Prove a result for all operands, as bits."""
    model, result = Vectors(dtype), binary(op, dtype, a, b)
    x, y = model.value("x"), model.value("y")
    for way in ways(op, dtype):
        got = model.apply(op, x, y, way)
        wrong = counterexample(model.holds(a, x), model.holds(b, y), model.defined(op, y), z3.Not(model.holds(result, got)))
        assert wrong is None, f"{a} {op} {b} of {dtype.value} is said to be {result}, {way}: {wrong}"


@pytest.mark.parametrize("dtype", WIDTHS, ids=named)
@pytest.mark.parametrize("op", ["add", "sub", "min", "max"])
@proves(index_transfer.binary, add=index_transfer.add, sub=index_transfer.subtract, min=index_transfer.minimum, max=index_transfer.maximum)
def test_sums_and_order(op: str, dtype: DType) -> None:
    source = random.Random(f"{op} {dtype.value}")
    for a, b in zip(facts(source, dtype, 24), facts(source, dtype, 24), strict=False):
        by_integers(op, dtype, a, b)


@pytest.mark.parametrize("dtype", WIDTHS, ids=named)
@pytest.mark.parametrize("op", ["mul", "floordiv", "mod"])
@proves(mul=index_transfer.multiply, floordiv=index_transfer.floor_divide, mod=index_transfer.remainder)
def test_products_and_quotients_by_constants(op: str, dtype: DType) -> None:
    source = random.Random(f"{op} {dtype.value}")
    for c in constants(dtype):
        for a in facts(source, dtype, 6):
            by_integers(op, dtype, a, c)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=named)
@pytest.mark.parametrize("op", ["mul", "floordiv", "mod"])
@proves(mul=index_transfer.multiply, floordiv=index_transfer.floor_divide, mod=index_transfer.remainder)
def test_products_and_quotients_of_two_unknowns(op: str, dtype: DType) -> None:
    source = random.Random(f"{op} {dtype.value} both")
    for a, b in zip(facts(source, dtype, 16), facts(source, dtype, 16), strict=False):
        by_vectors(op, dtype, a, b)


@pytest.mark.parametrize("dtype", WIDTHS, ids=named)
@pytest.mark.parametrize("op", ["bitand", "bitor", "bitxor"])
@proves(index_bits.bitwise, index_bits.known_bits, index_bits.fact_of_bits)
def test_bit_operators(op: str, dtype: DType) -> None:
    source = random.Random(f"{op} {dtype.value}")
    moduli = MODULI if dtype.bits < 16 else POWERS
    for a, b in zip(facts(source, dtype, 24, moduli), facts(source, dtype, 24, moduli), strict=False):
        by_vectors(op, dtype, a, b)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.UINT64, DType.INDEX], ids=named)
@pytest.mark.parametrize("op", ["shl", "shr"])
@proves(shl=index_bits.shift_left, shr=index_bits.shift_right)
def test_shifts(op: str, dtype: DType) -> None:
    source = random.Random(f"{op} {dtype.value}")
    moduli = MODULI if dtype.bits < 16 else POWERS
    amounts = [make(dtype, k, k + more) for k, more in ((0, 0), (1, 0), (4, 0), (dtype.bits - 1, 0), (1, 3), (0, dtype.bits))]
    for b in amounts:
        assert b is not None
        for a in facts(source, dtype, 8, moduli):
            by_vectors(op, dtype, a, b)


@pytest.mark.parametrize("dtype", WIDTHS, ids=named)
@pytest.mark.parametrize("op", ["neg", "abs", "bitnot"])
@proves(index_transfer.unary, neg=index_transfer.negate, abs=index_transfer.absolute, bitnot=index_bits.invert)
def test_unary_operators(op: str, dtype: DType) -> None:
    source = random.Random(f"{op} {dtype.value}")
    for a in facts(source, dtype, 24):
        model, result = Integers(dtype), unary(op, dtype, a)
        x = model.value("x")
        got = model.unary(op, x)
        wrong = counterexample(*model.given, model.holds(a, x), z3.Not(model.holds(result, got)))
        assert wrong is None, f"{op} {a} of {dtype.value} is said to be {result}: {wrong}"


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=named)
@proves(index_transfer.square, index_transfer.power)
def test_squares_and_powers(dtype: DType) -> None:
    source, model = random.Random(dtype.value), Vectors(dtype)
    x = model.value("x")
    for a in facts(source, dtype, 16):
        assert counterexample(model.holds(a, x), z3.Not(model.holds(square(dtype, a), x * x))) is None, str(a)
        for k, got in ((0, model.number(1)), (1, x), (3, x * x * x)):
            result = power(dtype, a, Fact(dtype, k, k, 0, k))
            assert counterexample(model.holds(a, x), z3.Not(model.holds(result, got))) is None, f"{a} ** {k}"


@pytest.mark.parametrize("target", [DType.INT8, DType.UINT8, DType.INT32, DType.UINT32, DType.INDEX, DType.UINT64], ids=named)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT32, DType.UINT32, DType.INT64, DType.UINT64], ids=named)
@proves(index_transfer.cast)
def test_casts_also_where_an_unsigned_value_is_extended_by_its_top_bit(dtype: DType, target: DType) -> None:
    source, half = random.Random(f"{dtype.value} {target.value}"), 1 << (dtype.bits - 1)
    for a in facts(source, dtype, 16):
        said = cast(a, target)
        for signed in {False, dtype.is_unsigned and dtype.bits < target.bits}:
            model, into_type = Integers(dtype), Integers(target, count=100)
            x = model.value("x")
            got = into_type.wrap(z3.If(x >= half, x - 2 * half, x) if signed else x)
            wrong = counterexample(*model.given, *into_type.given, model.holds(a, x), z3.Not(into_type.holds(said, got)))
            assert wrong is None, f"{a} of {dtype.value} as {target.value} is said to be {said}: {wrong}"


@pytest.mark.parametrize("dtype", WIDTHS, ids=named)
@proves(index_transfer.compare)
def test_comparisons_are_certain_only_where_they_are(dtype: DType) -> None:
    source, certain = random.Random(dtype.value), 0
    for a, b in zip(facts(source, dtype, 60), facts(source, dtype, 60), strict=False):
        model = Integers(dtype)
        x, y = model.value("x"), model.value("y")
        outcomes = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
        for op, outcome in outcomes.items():
            said = compare(op, a, b)
            assert said is not None
            if said.constant is not None:
                certain += 1
                against = z3.Not(outcome) if said.constant else outcome
                assert counterexample(*model.given, model.holds(a, x), model.holds(b, y), against) is None, f"{a} {op} {b}"
    assert certain > 20


# ---- all facts of small types, by trying all values ----


def values(fact: Fact | None) -> set[int]:
    return set() if fact is None else set(filter(fact.allows, range(fact.lo, fact.hi + 1)))


def small(dtype: DType) -> list[Fact]:
    """All facts with moduli up to 6 of a type of 4 bits, every third of the intervals."""
    least, greatest = bounds(dtype)
    found = {
        made
        for lo, hi in product(range(least, greatest + 1, 3), range(least, greatest + 1, 3))
        for m in (1, 2, 3, 4, 6)
        for r in range(m)
        if (made := make(dtype, lo, hi, m, r)) is not None
    }
    few = (one_of(dtype, some) for some in ((least, 0, greatest), (0, 1, 4, 6), (max(least, -3), 2, 3), (1, 2, 7)))
    return sorted(found | {made for made in few if made is not None}, key=repr)


@pytest.mark.parametrize("few", [2, index_domain.FEW])
@pytest.mark.parametrize("dtype", NARROW, ids=named)
def test_joins_and_meets_are_what_both_and_either_allow(dtype: DType, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_domain, "FEW", few)
    source = random.Random(1)
    pool = small(dtype)
    for _ in range(4000):
        a, b = source.choice(pool), source.choice(pool)
        assert values(meet(a, b)) >= values(a) & values(b)
        assert values(join(a, b)) >= values(a) | values(b)
        assert values(widen(a, b)) >= values(a) | values(b)
        assert not below(a, b) or values(a) <= values(b)
        assert below(a, join(a, b)) and below(meet(a, b), a)


@pytest.mark.parametrize("dtype", NARROW, ids=named)
def test_what_is_brought_into_a_type_is_what_wrapping_gives(dtype: DType) -> None:
    least, greatest = bounds(dtype)
    span = greatest - least + 1
    for lo, size, m in product(range(-40, 40, 3), (0, 1, 5, 15, 16, 40), (1, 2, 3, 4, 6, 16, 48)):
        for r in (0, 1):
            exact = {v for v in range(lo, lo + size + 1) if (v - r) % m == 0}
            wrapped = {(v - least) % span + least for v in exact}
            assert wrapped <= values(into(dtype, lo, lo + size, m, r)), (lo, size, m, r)


@pytest.mark.parametrize("dtype", NARROW, ids=named)
@pytest.mark.parametrize("op", OPERATORS)
def test_results_of_small_types_by_trying_all_values(op: str, dtype: DType) -> None:
    source = random.Random(op)
    pool = small(dtype)
    for _ in range(60):
        by_vectors(op, dtype, source.choice(pool), source.choice(pool))


def test_operands_of_another_sign_are_read_by_value_and_by_bits() -> None:
    minus = make(DType.INT8, -4, -4)
    assert minus is not None
    read = operand(minus, DType.UINT8)
    assert read is not None and 252 in values(read)
    large = make(DType.UINT8, 200, 210)
    assert large is not None and operand(large, DType.INT8) == top(DType.INT8)
    assert values(operand(large, DType.INT32)) >= {200, -56}


def test_numbers_of_the_models_are_those_of_the_interpreter() -> None:
    """The z3 models agree with the interpreter on values of four bits: the one of bits on all where a quotient or a shift is asked for, the
    one of integers on every third."""
    from pypto_ir.expr import Binary, Const
    from pypto_ir.interp.scalars import compile_expr
    from pypto_ir.interp.values import RunError

    for dtype, op, way in product(NARROW, OPERATORS, ("floor", "trunc")):
        least, greatest = bounds(dtype)
        for a, b in product(range(least, greatest + 1), range(least, greatest + 1, 1 if op in ("floordiv", "mod", "shl", "shr") else 3)):
            try:
                want = compile_expr(Binary(op, Const(a, dtype), Const(b, dtype)), way)({})
            except RunError:
                continue
            got = z3.simplify(Vectors(dtype).apply(op, z3.BitVecVal(a, dtype.bits), z3.BitVecVal(b, dtype.bits), way))
            assert (got.as_signed_long() if dtype.is_signed else got.as_long()) == want, (dtype, op, way, a, b)
            if op in ("add", "sub", "mul", "floordiv", "mod", "min", "max") and (a + b) % 3 == 0:
                model = Integers(dtype)
                same = model.apply(op, z3.IntVal(a), b, way)
                assert counterexample(*model.given, same != want) is None, (dtype, op, way, a, b)
