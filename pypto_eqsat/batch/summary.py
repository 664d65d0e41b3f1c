"""The table of a batch: a line for each program, before, under upstream's policy and after, and what became of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from pypto_eqsat.batch.job import DONE, LIMIT, Outcome

_HEADS = ("program", "before", "upstream", "after", "status")


@dataclass(frozen=True, slots=True)
class Line:
    """A program of a batch: costs in cycles of the model, None where there is none; `codes` are those of its errors."""

    name: str
    status: str
    before: float | None = None
    upstream: float | None = None
    after: float | None = None
    proof: str = ""
    codes: tuple[str, ...] = ()
    cached: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        about = self.proof if self.status in (DONE, LIMIT) else " ".join(self.codes)
        costs = ("-" if cost is None else f"{cost:,.1f}" for cost in (self.before, self.upstream, self.after))
        return (self.name, *costs, f"{self.status}, {about}" if about else self.status)


def line_of(name: str, outcome: Outcome, cached: bool) -> Line:
    """The line of a program."""
    stats: dict[str, Any] = outcome.stats
    codes = tuple(dict.fromkeys(d.code for d in outcome.diagnostics if d.severity.value == "error"))
    if not outcome.good:
        return Line(name, outcome.status, codes=codes, cached=cached)
    costs = (stats["input_cost"], stats["policy_cost"], stats["cost"])
    return Line(name, outcome.status, *costs, proof=stats["proof"], cached=cached)


def table(lines: list[Line]) -> str:
    """All lines in columns, numbers to the right, and a last line with counts and sums."""
    rows = [_HEADS, *(line.cells for line in lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADS))]
    text = []
    for row in rows:
        name, *numbers, status = (
            cell.rjust(w) if 0 < i < 4 else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        text.append("  ".join((name, *numbers, status)).rstrip())
    return "\n".join([*text, "", totals(lines)])


def totals(lines: list[Line]) -> str:
    """How many programs became what, and what those that were lowered cost before, after, and beside upstream's."""
    count = Counter(line.status for line in lines)
    parts = [f"{len(lines)} program{'s' * (len(lines) != 1)}: " + ", ".join(f"{n} {status}" for status, n in sorted(count.items()))]
    lowered = [line for line in lines if line.after is not None and line.before is not None]
    if lowered:
        parts.append(f"cost {_sum(lowered, 'before')} before, {_sum(lowered, 'after')} after")
    compared = [line for line in lowered if line.upstream is not None]
    if compared:
        which = "" if len(compared) == len(lowered) else f" of the {len(compared)} that upstream compiles"
        parts.append(f"{_sum(compared, 'after')}{which} where upstream's cost {_sum(compared, 'upstream')}")
    return "; ".join(parts)


def _sum(lines: list[Line], field: str) -> str:
    return f"{sum(getattr(line, field) for line in lines):,.1f}"
