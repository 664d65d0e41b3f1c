"""What operators do to facts: from what is known of the operands to what is known of the result.

Each holds for fixed-width arithmetic and for both meanings that division has: floor, as the IR names it, and truncating, as kernels
compute it. -7 // 4 is -2 or -1, so x // 4 of x in [-7, 8] is in [-2, 2]; it is exact only where 4 divides x, or x is not negative.
An unsigned value of 2**(bits - 1) or more may be divided, or widened, as a negative one. Proofs by z3 at the widths are in
`tests/egraph_rules/test_index_transfer.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import product
from math import gcd

from egraph_rules.index_bits import bitwise, invert, shift_left, shift_right
from egraph_rules.index_domain import Fact, bounds, exactly, into, join, make, one_of, top, wrapped
from pypto_ir.dtypes import DType
from pypto_ir.expr import COMPARISONS

#: the largest exponent that is multiplied out
_POWER_LIMIT = 64


def negate(dtype: DType, a: Fact) -> Fact | None:
    """-a"""
    return into(dtype, -a.hi, -a.lo, a.modulus, -a.residue)


def absolute(dtype: DType, a: Fact) -> Fact | None:
    """|a|; that of the least value wraps to itself."""
    if a.lo >= 0:
        return into(dtype, a.lo, a.hi, a.modulus, a.residue)
    if a.hi <= 0:
        return negate(dtype, a)
    return into(dtype, 0, max(-a.lo, a.hi), gcd(a.modulus, 2 * a.residue), a.residue)


def add(dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """a + b"""
    return into(dtype, a.lo + b.lo, a.hi + b.hi, gcd(a.modulus, b.modulus), a.residue + b.residue)


def subtract(dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """a - b"""
    return into(dtype, a.lo - b.hi, a.hi - b.lo, gcd(a.modulus, b.modulus), a.residue - b.residue)


def multiply(dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """a * b; multiples of 4 and of 4 give one of 16."""
    corners = (a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi)
    modulus = gcd(a.modulus * b.modulus, a.modulus * b.residue, b.modulus * a.residue)
    return into(dtype, min(corners), max(corners), modulus, a.residue * b.residue)


def square(dtype: DType, a: Fact) -> Fact | None:
    """a * a: not negative unless it wraps."""
    ends = (a.lo * a.lo, a.hi * a.hi)
    least = 0 if a.lo <= 0 <= a.hi else min(ends)
    return into(dtype, least, max(ends), gcd(a.modulus * a.modulus, 2 * a.modulus * a.residue), a.residue * a.residue)


def power(dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """a ** b for a small constant b, multiplied out; nothing is known of others."""
    if b.constant is None or not 0 <= b.constant <= _POWER_LIMIT:
        return top(dtype)
    result: Fact | None = exactly(dtype, 1)
    for _ in range(b.constant):
        if result is None:
            break
        result = multiply(dtype, result, a)
    return result


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _divisors(b: Fact) -> list[int]:
    """The ends of the ranges of a divisor without 0, by which nothing is divided."""
    ends = {b.lo, b.hi} - {0}
    if b.lo < 0 < b.hi:
        ends |= {-1, 1}
    elif b.lo == 0 < b.hi:
        ends.add(1)
    elif b.lo < 0 == b.hi:
        ends.add(-1)
    return sorted(ends)


def _read(a: Fact, b: Fact) -> Iterator[tuple[Fact, Fact]]:
    """The operands of a division by value, and by the bits of signed numbers, as kernels divide unsigned values too."""
    yield a, b
    half = 1 << (a.dtype.bits - 1)
    if a.dtype.is_unsigned and (a.hi >= half or b.hi >= half):
        yield from product(by_bits(a), by_bits(b))


def by_bits(a: Fact) -> Iterator[Fact]:
    """An unsigned value as the signed number of its bits: without the top bit, then with it."""
    half = 1 << (a.dtype.bits - 1)
    low = make(a.dtype, a.lo, min(a.hi, half - 1), a.modulus, a.residue)
    high = make(a.dtype, max(a.lo, half) - 2 * half, a.hi - 2 * half, a.modulus, a.residue - 2 * half)
    yield from (part for part in (low, high) if part is not None)


def floor_divide(dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """a // b, floor or truncating. Nothing is divided by 0."""
    return reduce(join, (_quotient(dtype, x, y) for x, y in _read(a, b)), None)


def _quotient(dtype: DType, a: Fact, b: Fact) -> Fact | None:
    quotients = [q for d in _divisors(b) for n in (a.lo, a.hi) for q in (n // d, _truncated(n, d))]
    if not quotients:
        return None
    modulus, residue = _quotient_congruence(a, b)
    return into(dtype, min(quotients), max(quotients), modulus, residue)


def _quotient_congruence(a: Fact, b: Fact) -> tuple[int, int]:
    c = b.constant
    if c is None or a.modulus % c:
        return 1, 0
    rest = a.residue % abs(c)
    if rest and (a.lo < 0 or c < 0):
        return 1, 0  # floor and truncation differ
    return a.modulus // abs(c), (a.residue - rest) // c


def remainder(dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """a % b, floor (sign of b) or truncating (sign of a). Both leave a where 0 <= a < b."""
    return reduce(join, (_rest(dtype, x, y) for x, y in _read(a, b)), None)


def _rest(dtype: DType, a: Fact, b: Fact) -> Fact | None:
    divisors = _divisors(b)
    if not divisors:
        return None
    if a.lo >= 0 and a.hi < b.lo:
        return a
    largest = max(map(abs, divisors)) - 1
    lo = 0 if a.lo >= 0 and b.lo >= 0 else -largest
    hi = 0 if a.hi <= 0 and b.hi <= 0 else largest
    if b.lo >= 0:
        lo = max(lo, min(a.lo, 0))  # floor is not negative, truncation lies between a and 0
        hi = min(hi, a.hi) if a.lo >= 0 else hi
    modulus = gcd(a.modulus, b.modulus, b.residue)
    return into(dtype, lo, hi, modulus, a.residue)


def minimum(dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """min(a, b)"""
    if a.hi <= b.lo or b.hi <= a.lo:
        return a if a.hi <= b.lo else b
    both = join(a, b)
    assert both is not None
    return make(dtype, both.lo, min(a.hi, b.hi), both.modulus, both.residue)


def maximum(dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """max(a, b)"""
    if a.hi <= b.lo or b.hi <= a.lo:
        return b if a.hi <= b.lo else a
    both = join(a, b)
    assert both is not None
    return make(dtype, max(a.lo, b.lo), both.hi, both.modulus, both.residue)


def compare(op: str, a: Fact, b: Fact) -> Fact | None:
    """The outcome of a comparison where it is certain, else [0, 1]."""
    apart = gcd(a.modulus, b.modulus)
    differ = a.hi < b.lo or b.hi < a.lo or (a.residue - b.residue) % apart != 0 if apart else a.residue != b.residue
    same = a.constant is not None and a.constant == b.constant
    certain: dict[str, tuple[bool, bool]] = {
        "eq": (same, differ),
        "ne": (differ, same),
        "lt": (a.hi < b.lo, a.lo >= b.hi),
        "le": (a.hi <= b.lo, a.lo > b.hi),
        "gt": (a.lo > b.hi, a.hi <= b.lo),
        "ge": (a.lo >= b.hi, a.hi < b.lo),
    }
    yes, no = certain[op]
    return make(DType.BOOL, int(yes), int(not no))


def cast(a: Fact, dtype: DType) -> Fact | None:
    """`a` in another integer type, or BOOL. An unsigned value with its top bit set may arrive sign-extended."""
    if dtype is DType.BOOL:
        zero, certain = a.lo <= 0 <= a.hi and a.residue % (a.modulus or 1) == 0, a.constant == 0
        return make(DType.BOOL, 0 if zero else 1, 0 if certain else 1)
    source = a.dtype
    half = 1 << (source.bits - 1)
    if a.values is not None:
        read = {*a.values, *((v ^ half) - half for v in a.values if source.is_unsigned and source.bits < dtype.bits)}
        return one_of(dtype, (wrapped(v, dtype) for v in read))
    if not source.is_unsigned or source.bits >= dtype.bits or a.hi < half:
        return into(dtype, a.lo, a.hi, a.modulus, a.residue)
    modulus = gcd(a.modulus, 2 * half)
    return join(into(dtype, a.lo, a.hi, modulus, a.residue), into(dtype, -half, -1, modulus, a.residue))


def operand(a: Fact, dtype: DType) -> Fact | None:
    """An operand as an operation of a type sees it: another width is cast, another sign may be read by value or by bits."""
    if a.dtype is dtype or dtype is DType.BOOL:
        return a
    least, greatest = bounds(dtype)
    if a.dtype.bits == dtype.bits and not a.within(least, greatest):
        return make(dtype, least, greatest, gcd(a.modulus, 1 << dtype.bits), a.residue)
    return cast(a, dtype)


_BINARY: dict[str, Callable[[DType, Fact, Fact], Fact | None]] = {
    "add": add, "sub": subtract, "mul": multiply, "pow": power, "floordiv": floor_divide, "mod": remainder,
    "min": minimum, "max": maximum, "shl": shift_left, "shr": shift_right,
}  # fmt: skip


def binary(op: str, dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """The fact of `a op b` of a result type; operands are of that type but for comparisons and shifts."""
    if op in _BINARY:
        return _BINARY[op](dtype, a, b)
    if op in COMPARISONS:
        return compare(op, a, b)
    if op in ("and", "bitand") and dtype is DType.BOOL:
        return make(dtype, min(a.lo, b.lo), min(a.hi, b.hi))
    if op in ("or", "bitor") and dtype is DType.BOOL:
        return make(dtype, max(a.lo, b.lo), max(a.hi, b.hi))
    if op in ("bitand", "bitor", "bitxor"):
        return bitwise(op, dtype, a, b)
    return top(dtype)


def unary(op: str, dtype: DType, a: Fact) -> Fact | None:
    """The fact of a unary operator."""
    if op == "not" or (op == "bitnot" and dtype is DType.BOOL):
        return make(DType.BOOL, 1 - a.hi, 1 - a.lo)
    return {"neg": negate, "abs": absolute, "bitnot": invert}[op](dtype, a)
