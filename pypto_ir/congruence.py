"""What is known of an integer modulo another: `t * 32 + 16` is 16 modulo 32 whatever `t` is.

    offset = congruence(parse("(t0 // R) * 64 + n0"), {"n0": Congruence(0, 16)})    # 0 modulo 16
    offset.divisible_by(16)                                                        # True

Granger's domain: values `residue + k * modulus` for integers k; modulus 0 is the residue alone, modulus 1 is
any integer. Sums and products keep what both sides know, a quotient keeps what the divisor leaves, and what
comes together where paths meet keeps what is common. As in `pypto_ir.linear`, index arithmetic is taken not
to overflow 64 bits; narrower types wrap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Unary, Var, dtype_of


@dataclass(frozen=True, slots=True)
class Congruence:
    """All integers `residue + k * modulus`; in canonical form 0 <= residue < modulus unless modulus is 0.
    Build with `integers` or `exactly`."""

    residue: int
    modulus: int

    @property
    def exact(self) -> int | None:
        """The one value that it stands for, else None."""
        return self.residue if self.modulus == 0 else None

    def divisible_by(self, n: int) -> bool:
        """True where every value is a multiple of `n`."""
        return self.residue % n == 0 and self.modulus % n == 0

    def within_block(self, size: int, block: int) -> bool:
        """True where `size` elements from such a value on never cross a multiple of `block`."""
        known = gcd(self.modulus, block)
        return self.residue % known + size <= known

    def joined(self, other: Congruence) -> Congruence:
        """The least congruence that holds both."""
        return integers(self.residue, gcd(self.modulus, other.modulus, self.residue - other.residue))

    def plus(self, other: Congruence) -> Congruence:
        return integers(self.residue + other.residue, gcd(self.modulus, other.modulus))

    def times(self, other: Congruence) -> Congruence:
        crossed = gcd(self.modulus * other.modulus, self.residue * other.modulus, other.residue * self.modulus)
        return integers(self.residue * other.residue, crossed)

    def over(self, n: int) -> Congruence:
        """Quotients by `n` > 0: known where `n` divides every value (any kind of division agrees then), or where the value is known and
        not negative."""
        if self.divisible_by(n):
            return integers(self.residue // n, self.modulus // n)
        return exactly(self.residue // n) if self.modulus == 0 and self.residue >= 0 else ANY

    def modulo(self, n: int) -> Congruence:
        """Remainders by `n` > 0, whichever sign they take."""
        if self.modulus == 0 and self.residue >= 0:
            return exactly(self.residue % n)
        return integers(self.residue, gcd(self.modulus, n))


def integers(residue: int, modulus: int) -> Congruence:
    """Every `residue + k * modulus`."""
    return Congruence(residue % modulus if modulus else residue, modulus)


def exactly(value: int) -> Congruence:
    return Congruence(value, 0)


ANY = Congruence(0, 1)
#: what is known of scalars, by name
Known = Mapping[str, Congruence]


def congruence(e: Expr, known: Known) -> Congruence:
    """What is known of an integer expression; `ANY` for what is no integer."""
    dtype = dtype_of(e)
    if dtype is None or not dtype.is_int:
        return ANY
    found = _of(e, known)
    # a type of w bits keeps what is known modulo 2**w
    return found if dtype.bits >= 64 or _fits(found, dtype) else integers(found.residue, gcd(found.modulus, 1 << dtype.bits))


def _fits(c: Congruence, dtype: DType) -> bool:
    return c.modulus == 0 and 0 <= c.residue < 1 << (dtype.bits - 1)


def _of(e: Expr, known: Known) -> Congruence:
    match e:
        case Const(value=value):
            return exactly(int(value))
        case Var(name=name):
            return known.get(name, ANY)
        case Cast(operand=a):
            return congruence(a, known)
        case Unary(op="neg", operand=a):
            return congruence(a, known).times(exactly(-1))
        case Unary(op="abs", operand=a):
            inner = congruence(a, known)
            return inner.joined(inner.times(exactly(-1)))
        case Binary(op=op, left=a, right=b):
            return _binary(op, congruence(a, known), congruence(b, known))
    return ANY


def _binary(op: str, a: Congruence, b: Congruence) -> Congruence:
    n = b.exact
    match op:
        case "add":
            return a.plus(b)
        case "sub":
            return a.plus(b.times(exactly(-1)))
        case "mul":
            return a.times(b)
        case "min" | "max":
            return a.joined(b)
        case "floordiv" if n is not None and n > 0:
            return a.over(n)
        case "mod" if n is not None and n > 0:
            return a.modulo(n)
        case "shl" if n is not None and 0 <= n < 64:
            return a.times(exactly(1 << n))
        case "bitand":
            return _masked(a, b)
    return ANY


def _masked(a: Congruence, b: Congruence) -> Congruence:
    """A bit that is clear on either side stays clear: so many low bits are."""
    return integers(0, max(_power_of_two(a), _power_of_two(b)))


def _power_of_two(c: Congruence) -> int:
    """The largest power of two that divides every value; 2**63 for 0."""
    common = gcd(c.residue, c.modulus)
    return common & -common if common else 1 << 63


def progression(start: Congruence, step: Congruence) -> Congruence:
    """The values of a loop variable: `start + k * step`."""
    return start.plus(ANY.times(step))
