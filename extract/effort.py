"""How long the choice of a program may take, counted in work: the same program gets the same choice on every machine, however busy.

Work is counted in seconds of a core like that of `docs/performance.md`: a partial choice of branch and bound is 16 µs of work wherever it
is looked at. The clock ends a choice only on a machine that is much slower than that, or at a time limit of the whole program.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from egraph_rules.resident import exceeds

#: seconds of work unless told otherwise
SOLVE_SECONDS = 5.0
#: partial choices of branch and bound
NODES = 4_000
#: what the limit of work is called
WORK = "the seconds of the choice"
#: seconds on the clock for each second of work
SLOWEST = 4.0

# seconds of work, from least squares over the choices of 150 random programs, loops of 200 to 800 ops and straight lines of 100 to 10,000
NODE = 16e-6
STATEMENT, PROGRAM = 0.13e-3, 1.6e-3
CONSTRAINT, MODEL = 15e-6, 4e-3
#: seconds of work for each deterministic second of CP-SAT
SOLVER = 4.8


@dataclass(slots=True)
class ChoiceLimits:
    """When a proof stops early, and what was spent so far: seconds of work, partial choices of one branch and bound, MiB that the process
    may take, and seconds on the clock."""

    seconds: float = SOLVE_SECONDS
    nodes: int = NODES
    memory: int | None = None
    clock: float | None = None
    spent: float = 0.0
    begun: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """The seconds of work that are left; none where the clock has run out."""
        return max(0.0, self.seconds - self.spent) if self.clock_left > 0 else 0.0

    @property
    def clock_left(self) -> float:
        clock = SLOWEST * self.seconds if self.clock is None else self.clock
        return max(0.0, self.begun + clock - time.monotonic())

    @property
    def reached(self) -> str | None:
        """The limit that is reached, as it is told: of memory, or of work; None where there is room for more."""
        if exceeds(self.memory):
            return f"{self.memory} MiB"
        return None if self.left else WORK

    @property
    def of_solver(self) -> str:
        """The limit that ended the solver before its proof: that of work, unless some is left."""
        return f"{self.memory} MiB" if self.memory is not None and self.left else WORK

    def again(self, part: float) -> ChoiceLimits:
        """Limits for going on with what was found: what is left, or a part of the whole where that is more."""
        return ChoiceLimits(max(self.left, part * self.seconds), self.nodes, self.memory, None if self.clock is None else self.clock_left)

    def charge(self, seconds: float) -> None:
        """Count work that was done."""
        self.spent += seconds
