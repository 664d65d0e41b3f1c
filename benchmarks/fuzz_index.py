"""Long runs of random index programs: every fact, proof, quotient and relation is held against all values of small ranges.

    python -m benchmarks fuzz_index --programs 20000 --seed 1 --jobs 2
    python -m benchmarks fuzz_index --programs 20000 --docs       writes docs/index-facts.md and docs/upstream-false-accepts.csv

prints what was asked and proved, beside what upstream's prover accepts, and every false fact with its seed, as well as every offset that
upstream accepts, facts do not prove, and nothing shows to be false. Exit code 1 where there is one of either.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.index_table import FalseAccept, accepts, counted, definitions, spelled, table
from benchmarks.pages import DOCS, rewrite
from benchmarks.tables import csv_text
from pypto_ir.expr import dtype_of
from pypto_ir.text import expr_text
from tests.generators.index_programs import INTEGERS, random_index_program
from tests.generators.index_property import Checked, FalseFact, as_index, check_index

#: seeds that one task checks
CHUNK = 50
#: false accepts that the page shows; the file beside it has all
SHOWN = 40


@dataclass(slots=True)
class Found:
    """What came of some programs: sums, counts by row of the tables, upstream's false accepts, and what was false of facts."""

    sums: Counter[str] = field(default_factory=Counter)
    rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    accepts: list[FalseAccept] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        self.sums.update(other.sums)
        self.rows.update(other.rows)
        self.accepts += other.accepts
        self.failures += other.failures


def examine(seeds: range) -> Found:
    """What comes of the programs of a range of seeds."""
    found = Found()
    for seed in seeds:
        try:
            program = random_index_program(random.Random(seed))
            checked = check_index(program)
        except FalseFact as failure:
            found.failures.append(f"seed {seed}: {failure}")
            continue
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            found.failures.append(f"seed {seed}: {error!r} at {Path(place.filename).name}:{place.lineno}")
            continue
        known = {f.name: definitions(f) for f in program.program.functions}
        found.sums.update(programs=1, runs=checked.complete, values=checked.seen, **_of_program(checked))
        found.sums.update(missed=len(checked.missed), undecided=len(checked.undecided))
        found.rows.update(counted((j, known[j.probe.function]) for j in checked.judged))
        for j in checked.judged:
            found.sums.update(expressions=1, proved=j.proved, upstream=j.upstream, both=j.upstream and j.proved)
            found.sums.update(true=j.true, proved_true=j.true and j.proved, upstream_true=j.true and j.upstream)
            found.sums.update(false_upstream=j.false_upstream)
            if j.false_upstream:
                dtype = dtype_of(j.probe.expr)
                assert dtype is not None
                value = j.proof.fact.lo if j.contradicted is None else j.contradicted
                text = spelled(known[j.probe.function], j.probe.expr)
                found.accepts.append(FalseAccept(seed, j.probe.function, dtype.value, text, value, as_index(value, dtype)))
        found.failures += [f"seed {seed}: upstream proves {expr_text(j.probe.expr)} in {j.probe.function}" for j in checked.missed]
    return found


def _of_program(checked: Checked) -> dict[str, int]:
    """Whether a program would be compiled if its true expressions were its offsets: all of them proved, here and by upstream."""
    true = [j for j in checked.judged if j.true]
    return {
        "with_true": bool(true),
        "whole": bool(true) and all(j.proved for j in true),
        "whole_upstream": bool(true) and all(j.upstream for j in true),
    }


def report(found: Found) -> str:
    """What is said of a run, as text for the page."""
    n = found.sums
    types = [d.value for d in INTEGERS]
    origins = sorted({row for row, _ in found.rows} - set(types), key=lambda row: (-found.rows[row, "asked"], row))
    return "\n".join(
        [
            f"{n['programs']:,} random programs were run for all values of their parameters, {n['runs']:,} runs that came to their end and "
            f"{n['values']:,} values. Of {n['expressions']:,} expressions it was asked whether they are non-negative multiples of 16:",
            "",
            "| | facts | upstream's prover |",
            "|---|---|---|",
            f"| proved | {n['proved']:,} | {n['upstream']:,} |",
            f"| of these, proved by the other too | {n['both']:,} | {n['both']:,} |",
            f"| of {n['true']:,} that some run sees and no value contradicts | {n['proved_true']:,} | {n['upstream_true']:,} |",
            f"| programs of which every such expression is proved, of {n['with_true']:,} that have one | {n['whole']:,} | "
            f"{n['whole_upstream']:,} |",
            f"| false | 0 | {n['false_upstream']:,} |",
            f"| accepted by upstream only, and true | | {n['missed']:,} |",
            f"| accepted by upstream only, in programs that stop before they show it to be true or false | | {n['undecided']:,} |",
            "",
            "By the type of the value:",
            "",
            table(found.rows, types, "type"),
            "",
            "By what makes the value, names followed to their definitions:",
            "",
            table(found.rows, origins, "value"),
            "",
            f"What upstream's prover accepts and is false, the shortest {SHOWN} of different expressions (all {len(found.accepts):,} are "
            "in [upstream-false-accepts.csv](upstream-false-accepts.csv)); definitions are put in for names where that stays short:",
            "",
            accepts(found.accepts, SHOWN),
        ]
    )


def main(argv: list[str] | None = None) -> int:
    """Check programs in parallel processes; the result is the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz_index", description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=20000, help="how many (default 20000)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="parallel processes (default 2)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no more programs after these")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/index-facts.md, the false accepts beside it")
    args = parser.parse_args(argv)
    if args.programs < 1 or args.jobs < 1:
        parser.error("--programs and --jobs must be at least 1")
    stop = args.seed + args.programs
    chunks = [range(s, min(s + CHUNK, stop)) for s in range(args.seed, stop, CHUNK)]
    started, found = time.monotonic(), Found()
    with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, part in enumerate(pool.map(examine, chunks), 1):
            found.add(part)
            for line in part.failures:
                print(line, flush=True)
            if number % 10 == 0:
                done, failed = found.sums["programs"], len(found.failures)
                print(f"{done} programs, {failed} failures, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
            if time.monotonic() - started > args.seconds:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    text = report(found)
    print(f"{found.sums['programs']} programs in {time.monotonic() - started:.0f} s, {len(found.failures)} failures\n\n{text}")
    if args.docs and not found.failures:
        rewrite("index-facts.md", "comparison", text)
        (DOCS / "upstream-false-accepts.csv").write_text(csv_text(sorted(found.accepts), FalseAccept), encoding="utf-8")
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
