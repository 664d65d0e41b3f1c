"""Accumulators in loops three deep: time and e-graph against the number of pages.

    python -m benchmarks accumulators             measures and writes the table of docs/performance.md
    python -m benchmarks accumulators --rounds 15 --dry-run

Few pages are written out one after the other; many are done in loops, and then neither the e-graph, nor the result, nor the time of a warm
call knows how many there are. Where pages are written out, the e-graph does not know either, and the time grows with the text of
the result. The exit code is 1 where the time of a call depends on the pages more than `BOUNDS` says, or grows more than that text.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from benchmarks.accumulating import LOOPS, WRITTEN_OUT, accumulating_program
from benchmarks.machine import here
from benchmarks.pages import rewrite
from benchmarks.performance import alternating
from pypto_eqsat.driver import Result, optimize
from pypto_ir.json_reader import read_program
from pypto_ir.stmt import walk

#: most times as long as a call for other pages: (pages, others, bound)
BOUNDS = ((LOOPS[0], WRITTEN_OUT[0], 2.0), (LOOPS[1], LOOPS[0], 1.25))


def statements(result: Result) -> int:
    """How many statements the lowered kernel has."""
    return sum(1 for _ in walk(result.program.functions[0].body))


def call(pages: int) -> Callable[[], Result]:
    """A warm call for an accumulator of so many pages."""
    program = read_program(accumulating_program(pages), "accumulating.json")
    return lambda: optimize(program, validate=False)


def row(pages: int, result: Result, seconds: float) -> str:
    """A line of the table."""
    graph: dict[str, Any] = result.stats["egraph"]
    how = "written out" if pages in WRITTEN_OUT else "in loops"
    return f"| {pages} | {how} | {graph['classes']} / {graph['nodes']} | {statements(result)} | {seconds * 1e3:.0f} ms |"


def main(argv: list[str]) -> int:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks accumulators", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="runs of each measurement (default: 9)")
    parser.add_argument("--dry-run", action="store_true", help="print the table, write nothing")
    arguments = parser.parse_args(argv)
    rounds = max(1, arguments.rounds)
    counts = (*WRITTEN_OUT, *LOOPS)
    calls = [call(pages) for pages in counts]
    results = dict(zip(counts, (once() for once in calls), strict=True))
    seconds = dict(zip(counts, alternating(rounds, *calls), strict=True))
    few, more = WRITTEN_OUT
    longer = statements(results[more]) / statements(results[few])
    ratios = [(pages, than, seconds[pages] / seconds[than], bound) for pages, than, bound in (*BOUNDS, (more, few, longer))]
    lines = [
        f"{here()}; medians of {rounds} alternating runs.",
        "",
        "| pages | result | classes / nodes of the e-graph | statements of the result | warm call |",
        "|---|---|---|---|---|",
        *(row(pages, result, seconds[pages]) for pages, result in results.items()),
        "",
        *(f"{pages} pages over {than}: {ratio:.2f} (bound {bound:.3g})." for pages, than, ratio, bound in ratios),
        f"The bound of {more} over {few} is how many times as many statements the result has.",
    ]
    text = "\n".join(lines)
    print(text)
    if not arguments.dry_run:
        rewrite("performance.md", "accumulators", text)
    return 0 if all(ratio <= bound for _, _, ratio, bound in ratios) else 1
