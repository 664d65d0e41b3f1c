"""Cycles per pipe, and the one objective that every choice is made by.

A load of 836 cycles on MTE2 that takes 3 cycles of S to issue is `Cycles(mte2=836, s=3)`. A loop body of four
such loads and one matmul of 533 cycles, run 8 times, costs `8 * (max + (sum of all pipes) / 16)` = 8 * (3344
+ (3344 + 533 + 16) / 16): pipes run side by side, so the busiest one decides, and the rest counts a little so
that every saving is a gain.

Static code has a price of its own: instructions beyond those that the instruction cache holds are fetched in
every run. A program of 300 instructions on a machine that keeps 128, at 50 cycles each, pays 172 * 50 cycles,
whatever its loops do.

Cycles are multiples of 1/1024, rounded up: sums of them are exact in floating point, do not depend on the
order of addition, and an instruction cut in two is never cheaper than the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, fsum

from extract.target import FREE_CODE, PIPES, Code

#: the weight of the sum over pipes beside the busiest pipe
EPSILON = 1 / 16
#: the unit of cycles is one over this
GRID = 1024


@dataclass(frozen=True, slots=True)
class Cycles:
    """Busy cycles of each pipe (`spec/hardware.md` 3), and the static instructions (`code`) that keep them busy."""

    mte2: float = 0.0
    mte1: float = 0.0
    m: float = 0.0
    fix: float = 0.0
    v: float = 0.0
    mte3: float = 0.0
    s: float = 0.0
    code: float = 0.0

    def __add__(self, other: Cycles) -> Cycles:
        return Cycles(
            self.mte2 + other.mte2,
            self.mte1 + other.mte1,
            self.m + other.m,
            self.fix + other.fix,
            self.v + other.v,
            self.mte3 + other.mte3,
            self.s + other.s,
            self.code + other.code,
        )

    def __mul__(self, times: float) -> Cycles:
        return Cycles(*(times * value for value in self.values))

    __rmul__ = __mul__

    @property
    def values(self) -> tuple[float, ...]:
        """The cycles in the order of `PIPES`, then the instructions."""
        return (self.mte2, self.mte1, self.m, self.fix, self.v, self.mte3, self.s, self.code)

    @property
    def pipes(self) -> tuple[float, ...]:
        """The cycles in the order of `PIPES`."""
        return (self.mte2, self.mte1, self.m, self.fix, self.v, self.mte3, self.s)

    @property
    def peak(self) -> float:
        """The cycles of the busiest pipe."""
        return max(self.pipes)

    @property
    def total(self) -> float:
        """The sum over pipes."""
        return sum(self.pipes)

    def items(self) -> Iterator[tuple[str, float]]:
        """Pipe names with their cycles, in the order of `PIPES`."""
        return zip(PIPES, self.pipes, strict=True)


ZERO = Cycles()


def rounded(cycles: float) -> float:
    """`cycles` on the grid of 1/1024, rounded up."""
    return ceil(cycles * GRID) / GRID


def on_pipe(pipe: str, cycles: float, issue: float = 0.0) -> Cycles:
    """`cycles` on one pipe, and `issue` on S."""
    fields = {pipe.lower(): rounded(cycles)}
    fields["s"] = fields.get("s", 0.0) + rounded(issue)
    return Cycles(**fields)


def objective(regions: Iterable[tuple[float, Cycles]], code: Code = FREE_CODE) -> float:
    """The cost of a choice: the sum over regions of `trips * (busiest pipe + EPSILON * sum over pipes)`, and the
    price of its static code.

    A region is given as its trips and the cycles of what it holds itself, nested regions left out. The sum is
    rounded once, so that the order of the regions does not matter.
    """
    held = list(regions)
    dynamic = fsum(weight(trips, cycles.values) for trips, cycles in held)
    return dynamic + code.cost(fsum(cycles.code for _, cycles in held))


def weight(trips: float, values: tuple[float, ...]) -> float:
    """What a region adds to the cost beside its code: `values` are those of its cycles."""
    pipes = values[:-1]
    return trips * (max(pipes) + EPSILON * sum(pipes))
