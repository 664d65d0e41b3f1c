"""What bit operators do to facts, by the bits that are known.

A congruence knows low bits, an interval high ones: x in [0, 48], multiple of 16, is 0000 0000 00?? 0000 in 16 bits. `x & 0b100000` is
then in [0, 32] and a multiple of 32. Bits are those of two's complement at the width of the type.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from egraph_rules.index_domain import Fact, bounds, into, make, meet
from pypto_ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Bits:
    """Masks of the bits known to be 0 and known to be 1."""

    zeros: int
    ones: int


def known_bits(a: Fact, width: int) -> Bits:
    """The bits of a value of `width` bits that its fact pins down."""
    mask = (1 << width) - 1
    low = mask if a.modulus == 0 else gcd(a.modulus, 1 << width) - 1
    ones, zeros = a.residue & low, ~a.residue & low
    first, last = a.lo & mask, a.hi & mask
    # ends of one sign share their first bits with all that lies between; those of both signs share none
    high = mask & ~((1 << (first ^ last).bit_length()) - 1)
    ones |= first & high
    zeros |= ~first & high
    return Bits(zeros & mask, ones & mask)


def fact_of_bits(dtype: DType, bits: Bits) -> Fact | None:
    """What known bits say of a value: the least and greatest pattern, and the run of known low bits."""
    width = dtype.bits
    mask, sign = (1 << width) - 1, (1 << (width - 1)) if dtype.is_signed else 0
    known = bits.zeros | bits.ones
    run = (~known & (known + 1)).bit_length() - 1
    least, greatest = bits.ones, mask & ~bits.zeros
    if sign and not bits.zeros & sign:
        least |= sign
    if sign and not bits.ones & sign:
        greatest &= ~sign
    lo, hi = _signed(least, sign), _signed(greatest, sign)
    modulus = 1 << min(run, width)
    return make(dtype, lo, hi, modulus, bits.ones & (modulus - 1))


def _signed(pattern: int, sign: int) -> int:
    return pattern - 2 * sign if pattern & sign else pattern


def bitwise(op: str, dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """a & b, a | b, a ^ b"""
    x, y = known_bits(a, dtype.bits), known_bits(b, dtype.bits)
    match op:
        case "bitand":
            bits = Bits(x.zeros | y.zeros, x.ones & y.ones)
        case "bitor":
            bits = Bits(x.zeros & y.zeros, x.ones | y.ones)
        case _:
            bits = Bits((x.zeros & y.zeros) | (x.ones & y.ones), (x.zeros & y.ones) | (x.ones & y.zeros))
    return meet(fact_of_bits(dtype, bits), _ordered(op, dtype, a, b))


def _ordered(op: str, dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """Bounds by order: x & y is at most a y >= 0, x | y at least the larger of two that are not negative."""
    least, greatest = bounds(dtype)
    lows = [f for f in (a, b) if f.lo >= 0]
    if op == "bitand" and lows:
        return make(dtype, 0, min(f.hi for f in lows))
    if op == "bitor" and len(lows) == 2:
        return make(dtype, max(a.lo, b.lo), greatest)
    return make(dtype, least, greatest)


def invert(dtype: DType, a: Fact) -> Fact | None:
    """~a, which is -a - 1 at the width."""
    return into(dtype, -a.hi - 1, -a.lo - 1, a.modulus, -a.residue - 1)


def _amounts(dtype: DType, b: Fact) -> tuple[int, int] | None:
    """The least and greatest amount of a shift; others have no result."""
    least, greatest = max(b.lo, 0), min(b.hi, dtype.bits - 1)
    return (least, greatest) if least <= greatest else None


def shift_left(dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """a << b, a product with 2**b."""
    amounts = _amounts(dtype, b)
    if amounts is None:
        return None
    least, greatest = amounts
    corners = [n << k for n in (a.lo, a.hi) for k in amounts]
    if least == greatest:
        modulus, residue = a.modulus << least, a.residue << least
    else:
        modulus, residue = gcd(a.modulus, a.residue) << least, 0
    return into(dtype, min(corners), max(corners), modulus, residue)


def shift_right(dtype: DType, a: Fact, b: Fact) -> Fact | None:
    """a >> b, a floor division by 2**b: arithmetic where the type is signed, logical where it is not."""
    amounts = _amounts(dtype, b)
    if amounts is None:
        return None
    least, greatest = amounts
    corners = [n >> k for n in (a.lo, a.hi) for k in amounts]
    modulus, residue = 1, 0
    if least == greatest and a.modulus % (1 << least) == 0:
        modulus, residue = a.modulus >> least, a.residue >> least
    return into(dtype, min(corners), max(corners), modulus, residue)
