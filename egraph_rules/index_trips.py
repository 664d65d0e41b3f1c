"""What the bounds of a loop say: the values of its variable, how often it runs, whether it surely does.

`range(48, -1, -16)` is 48, 32, 16, 0. Bounds of an unsigned type count by value or, as kernels count, by the signed numbers of their bits:
a step of 65520 in UINT16 is one of -16 there. What is said holds of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

from egraph_rules.index_domain import Fact, bounds, into, join
from egraph_rules.index_transfer import by_bits
from pypto_ir.dtypes import DType

#: No run makes more trips of one loop, or more calls of a function within itself, than these: at one a nanosecond they take three days, and
#: no launch lives as long. A UINT64 variable of `range(64, n, 16)` is thereby no index beyond 2**63, whatever n is.
MOST_TRIPS = 1 << 48


@dataclass(frozen=True, slots=True)
class Bounds:
    """Start, stop and step of a loop, read in one way."""

    start: Fact
    stop: Fact
    step: Fact

    def values(self, dtype: DType) -> Fact | None:
        """The values of the loop variable; None where the body never runs."""
        start, stop, step = self.start, self.stop, self.step
        ends = []
        if step.hi > 0 and start.lo < stop.hi:
            ends.append((start.lo, stop.hi - 1))
        if step.lo < 0 and start.hi > stop.lo:
            ends.append((stop.lo + 1, start.hi))
        if step.constant == 0:
            ends.append((start.lo, start.hi))
        if not ends:
            return None
        modulus = gcd(start.modulus, step.multiple_of)
        least, greatest = grown(start.interval, step.interval, MOST_TRIPS)
        lo, hi = max(least, min(e[0] for e in ends)), min(greatest, max(e[1] for e in ends))
        if modulus:
            lo, hi = lo + (start.residue - lo) % modulus, hi - (hi - start.residue) % modulus
        return into(dtype, lo, hi, modulus, start.residue) if lo <= hi else None

    @property
    def trips(self) -> int | None:
        """The most trips; None where the sign of the step is not known."""
        if self.step.lo > 0:
            return max(0, -(-(self.stop.hi - self.start.lo) // self.step.lo))
        if self.step.hi < 0:
            return max(0, -(-(self.start.hi - self.stop.lo) // -self.step.hi))
        return None

    @property
    def runs(self) -> bool:
        """True where there surely is a first trip."""
        upwards = self.step.lo > 0 and self.start.hi < self.stop.lo
        return upwards or (self.step.hi < 0 and self.start.lo > self.stop.hi)


def readings(facts: Sequence[Fact | None]) -> list[Bounds]:
    """The ways to read start, stop and step; none where one of them is never computed."""
    start, stop, step = facts
    if start is None or stop is None or step is None:
        return []
    found = [Bounds(start, stop, step)]
    if any(f.dtype.is_unsigned and f.hi > bounds(f.dtype)[1] // 2 for f in (start, stop, step)):
        found.append(Bounds(_signed(start), _signed(stop), _signed(step)))
    return found


def _signed(a: Fact) -> Fact:
    """A bound as the signed number of its bits."""
    found = reduce(join, by_bits(a), None) if a.dtype.is_unsigned else a
    assert found is not None
    return found


def variable(dtype: DType, facts: Sequence[Fact | None]) -> Fact | None:
    """The fact of a loop variable."""
    return reduce(join, (b.values(dtype) for b in readings(facts)), None)


def most_trips(facts: Sequence[Fact | None]) -> int:
    """The most trips that a loop makes."""
    return max((MOST_TRIPS if b.trips is None else min(MOST_TRIPS, b.trips) for b in readings(facts)), default=0)


def grown(first: tuple[int, int], by: tuple[int, int], times: int) -> tuple[int, int]:
    """Where a number that starts in an interval can be after up to so many increments of another."""
    return first[0] + min(0, by[0]) * times, first[1] + max(0, by[1]) * times


def surely_runs(facts: Sequence[Fact | None]) -> bool:
    """True where the body runs at least once."""
    return all(b.runs for b in readings(facts))
