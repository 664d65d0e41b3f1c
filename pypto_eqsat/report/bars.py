"""Cycles by pipe of the author's text, of upstream's program and of the result, as lengths of bars."""

from __future__ import annotations

from dataclasses import dataclass

from extract.cycles import Cycles
from extract.target import PIPES


@dataclass(frozen=True, slots=True)
class Bar:
    """Cycles and the share of the longest bar in per cent; None where there is no program."""

    cycles: float | None
    percent: float


@dataclass(frozen=True, slots=True)
class PipeRow:
    """A pipe and its bars, in the order of the programs; `busiest` where the result keeps no pipe busy for longer."""

    pipe: str
    bars: tuple[Bar, ...]
    busiest: bool


def pipe_rows(programs: list[Cycles | None]) -> list[PipeRow]:
    """The pipes that some program uses; the last program is the result."""
    longest = max((c.peak for c in programs if c is not None), default=0.0) or 1.0
    result = programs[-1]
    rows = []
    for number, pipe in enumerate(PIPES):
        values = [None if c is None else c.pipes[number] for c in programs]
        if any(values):
            bars = tuple(Bar(v, 0.0 if v is None else round(100 * v / longest, 2)) for v in values)
            rows.append(PipeRow(pipe, bars, result is not None and values[-1] == result.peak))
    return rows
