"""What is known of an integer scalar: a congruence, an interval and, where they are few, the values, all as its type holds them.

`Fact(INDEX, lo=0, hi=240, modulus=16, residue=0)` is "multiple of 16, in [0, 240]". Facts form a lattice: `join` is what holds of either
of two values (a phi, two call sites), `meet` is what two facts say of one value. Every operation tightens its result, so that
`{8 mod 16} in [0, 20]` is the constant 8. What contradicts itself is None: the value is never computed.

Three calls that hand in 0, 16 and 80 give "one of 0, 16, 80": congruence and interval alone would also allow 32, 48 and 64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import gcd

from pypto_ir.dtypes import DType

#: What code outside of the program hands in as an INDEX, and every extent, is at most this in size: indices count things in memory, and
#: no memory of a target holds 2**40 bytes. Values of other types may be anything that their type holds.
INDEX_LIMIT = 1 << 40
#: more values than these are told by congruence and interval alone
FEW = 32
#: so many values are told one by one
_NAMED = 6
#: a modulus beyond this is dropped where two congruences are combined
_MODULUS_LIMIT = 1 << 128


def bounds(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type or BOOL."""
    if dtype is DType.BOOL:
        return 0, 1
    if dtype.is_unsigned:
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def wrapped(value: int, dtype: DType) -> int:
    """A number brought into an integer type, modulo 2**bits."""
    least, greatest = bounds(dtype)
    return (value - least) % (greatest - least + 1) + least


@dataclass(frozen=True, slots=True)
class Fact:
    """`lo <= value <= hi` and `value = residue (mod modulus)`; modulus 0 is the constant `residue`.

    `values` are all values in increasing order, where they are few and not all that the congruence allows in the interval.
    `cannot_wrap` says that no operation of the expression, definitions of its variables included, leaves its type's range on the way to
    the value; it belongs to an expression and takes no part in comparisons.
    """

    dtype: DType
    lo: int
    hi: int
    modulus: int = 1
    residue: int = 0
    cannot_wrap: bool = field(default=False, compare=False)
    values: tuple[int, ...] | None = None

    @property
    def members(self) -> Sequence[int] | None:
        """All values in increasing order, None where they are not few."""
        if self.values is not None or self.modulus == 0:
            return (self.residue,) if self.values is None else self.values
        return range(self.lo, self.hi + 1, self.modulus) if self.hi - self.lo < FEW * self.modulus else None

    @property
    def interval(self) -> tuple[int, int]:
        """The least and the greatest value, both included."""
        return self.lo, self.hi

    @property
    def congruence(self) -> tuple[int, int]:
        """(modulus, residue); (0, c) for the constant c."""
        return self.modulus, self.residue

    @property
    def multiple_of(self) -> int:
        """The largest number that divides every value; 0 where the value is 0 or never computed."""
        return gcd(self.modulus, self.residue)

    @property
    def never(self) -> bool:
        """True where the place is never reached, so that anything holds."""
        return self.lo > self.hi

    @property
    def constant(self) -> int | None:
        """The value where it is known, else None."""
        return self.residue if self.modulus == 0 and not self.never else None

    @property
    def non_negative(self) -> bool:
        return self.lo >= 0 or self.never

    def is_multiple_of(self, divisor: int) -> bool:
        """True where `divisor` divides every value."""
        return self.multiple_of % divisor == 0

    def allows(self, value: int) -> bool:
        """True for a number that the value may be."""
        if self.values is not None:
            return value in self.values
        return self.lo <= value <= self.hi and (value - self.residue) % (self.modulus or 1) == 0

    def within(self, lo: int, hi: int) -> bool:
        """True where every value lies in [lo, hi]."""
        return self.never or (lo <= self.lo and self.hi <= hi)

    def __str__(self) -> str:
        if self.never:
            return "never computed"
        if self.modulus == 0:
            return str(self.residue)
        if self.values is not None and len(self.values) <= _NAMED:
            return f"one of {', '.join(map(str, self.values))}"
        parts = []
        if self.modulus > 1:
            rest = f"{self.residue} more than a " if self.residue else ""
            parts.append(f"{rest}multiple of {self.modulus}")
        least, greatest = bounds(self.dtype)
        if self.dtype.bits == 64:  # bounds that come from assumptions on sizes tell nothing
            least, greatest = max(least, -(INDEX_LIMIT >> 1)), INDEX_LIMIT >> 1
        low, high = self.lo - least >= self.modulus, greatest - self.hi >= self.modulus
        if high and (low or least == 0):
            parts.append(f"in [{self.lo}, {self.hi}]")
        elif low:
            parts.append(f"at least {self.lo}")
        elif high:
            parts.append(f"at most {self.hi}")
        return ", ".join(parts) or f"any {self.dtype.value}"


def never(dtype: DType) -> Fact:
    """The fact of a place that is never reached."""
    return Fact(dtype, 1, 0, 0, 0, True)


def top(dtype: DType) -> Fact:
    """Nothing but the type."""
    lo, hi = bounds(dtype)
    return Fact(dtype, lo, hi)


def outside(dtype: DType) -> Fact:
    """A value that comes from outside of the program: anything of its type, an INDEX within `INDEX_LIMIT`."""
    return Fact(dtype, -INDEX_LIMIT, INDEX_LIMIT) if dtype is DType.INDEX else top(dtype)


def exactly(dtype: DType, value: int) -> Fact:
    """The fact of a constant, wrapped into its type."""
    held = wrapped(value, dtype)
    return Fact(dtype, held, held, 0, held)


def make(dtype: DType, lo: int, hi: int, modulus: int = 1, residue: int = 0) -> Fact | None:
    """The tightest fact of a set within a type: bounds move inwards to the congruence. None for an empty set."""
    if modulus:
        residue %= modulus
        lo += (residue - lo) % modulus
        hi -= (hi - residue) % modulus
    elif lo <= residue <= hi:
        lo = hi = residue
    else:
        return None
    if lo > hi:
        return None
    return Fact(dtype, lo, hi, 0, lo) if lo == hi else Fact(dtype, lo, hi, modulus, residue)


def one_of(dtype: DType, values: Iterable[int]) -> Fact | None:
    """The fact of a value that is one of these, all of them numbers of the type."""
    known = sorted(set(values))
    if not known:
        return None
    first, last = known[0], known[-1]
    if first == last:
        return Fact(dtype, first, first, 0, first)
    modulus = gcd(*(v - first for v in known))
    regular = (last - first) // modulus + 1 == len(known)
    return Fact(dtype, first, last, modulus, first % modulus, values=None if regular or len(known) > FEW else tuple(known))


def into(dtype: DType, lo: int, hi: int, modulus: int = 1, residue: int = 0) -> Fact | None:
    """An exact integer within [lo, hi], of a congruence, brought into a type as fixed-width arithmetic does.

    Where the whole interval is moved by one multiple of 2**bits, it stays an interval; otherwise a few values are told one by one, and
    of many only the congruence modulo a divisor of 2**bits survives: `(1 << 30) * 3` wraps to no multiple of 3, but to one of 2**30.
    """
    least, greatest = bounds(dtype)
    span = greatest - least + 1
    turns = (lo - least) // span
    if turns == (hi - least) // span:
        return make(dtype, lo - turns * span, hi - turns * span, modulus, residue - turns * span)
    if modulus and hi - lo < FEW * modulus:
        first = lo + (residue - lo) % modulus
        return one_of(dtype, (wrapped(n, dtype) for n in range(first, hi + 1, modulus)))
    return make(dtype, least, greatest, gcd(modulus, span), residue)


def join(a: Fact | None, b: Fact | None) -> Fact | None:
    """What holds of a value that is one or the other."""
    if a is None or b is None:
        return b if a is None else a
    x, y = a.members, b.members
    if x is not None and y is not None:
        return one_of(a.dtype, (*x, *y))
    modulus = gcd(a.modulus, b.modulus, a.residue - b.residue)
    return make(a.dtype, min(a.lo, b.lo), max(a.hi, b.hi), modulus, a.residue)


def meet(a: Fact | None, b: Fact | None) -> Fact | None:
    """What holds of a value of which both facts hold."""
    if a is None or b is None:
        return None
    if a.values is not None or b.values is not None:
        known, other = (a, b) if a.values is not None else (b, a)
        assert known.values is not None
        return one_of(a.dtype, filter(other.allows, known.values))
    lo, hi = max(a.lo, b.lo), min(a.hi, b.hi)
    if a.modulus == 0 or b.modulus == 0:
        fixed, other = (a, b) if a.modulus == 0 else (b, a)
        fits = lo <= fixed.residue <= hi and (fixed.residue - other.residue) % (other.modulus or 1) == 0
        same = other.modulus != 0 or other.residue == fixed.residue
        return fixed if fits and same else None
    common = gcd(a.modulus, b.modulus)
    if (a.residue - b.residue) % common:
        return None
    modulus = a.modulus // common * b.modulus
    if modulus > _MODULUS_LIMIT:
        return make(a.dtype, lo, hi, a.modulus, a.residue)
    # the residue r = a.residue + a.modulus * t with r = b.residue (mod b.modulus)
    rest = b.modulus // common
    t = (b.residue - a.residue) // common * pow(a.modulus // common, -1, rest) % rest if rest > 1 else 0
    return make(a.dtype, lo, hi, modulus, a.residue + a.modulus * t)


def widen(old: Fact | None, new: Fact | None) -> Fact | None:
    """An upper bound of both that is reached after few steps: a bound that moves goes to the next of -1, 0, 1 and those of the type."""
    if old is None or new is None:
        return new if old is None else old
    both = join(old, new)
    assert both is not None
    if both == old:
        return old
    least, greatest = bounds(old.dtype)
    lo = both.lo if both.lo == old.lo else next((t for t in (1, 0, -1) if t <= both.lo), least)
    hi = both.hi if both.hi == old.hi else next((t for t in (-1, 0, 1) if t >= both.hi), greatest)
    return make(old.dtype, lo, hi, both.modulus, both.residue)


def below(a: Fact | None, b: Fact | None) -> bool:
    """True where `a` says at least as much as `b`: every value that `a` allows, `b` allows."""
    if a is None or b is None:
        return a is None
    if b.values is not None:
        return a.members is not None and set(a.members) <= set(b.values)
    if b.modulus == 0:
        congruent = a.modulus == 0 and a.residue == b.residue
    else:
        congruent = a.modulus % b.modulus == 0 and (a.residue - b.residue) % b.modulus == 0
    return b.lo <= a.lo and a.hi <= b.hi and congruent
