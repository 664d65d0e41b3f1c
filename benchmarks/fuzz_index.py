"""Long runs of random index programs: every fact, proof, quotient and relation is held against all values of small ranges.

    python -m benchmarks fuzz_index --programs 20000 --seed 1 --jobs 2

prints what was asked and proved, beside what upstream's prover accepts, and every false fact with its seed, as well as every offset that
upstream accepts, no value contradicts and facts do not prove. Exit code 1 where there is one of either.
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
from pathlib import Path

from pypto_ir.text import expr_text
from tests.generators.index_programs import random_index_program
from tests.generators.index_property import FalseFact, check_index

#: seeds that one task checks
CHUNK = 50


def examine(seeds: range) -> tuple[Counter[str], list[str]]:
    """Counts over programs of a range of seeds, and what was false."""
    counts, failures = Counter[str](), []
    for seed in seeds:
        try:
            checked = check_index(random_index_program(random.Random(seed)))
        except FalseFact as failure:
            failures.append(f"seed {seed}: {failure}")
            continue
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            failures.append(f"seed {seed}: {error!r} at {Path(place.filename).name}:{place.lineno}")
            continue
        counts.update(programs=1, runs=checked.complete, values=checked.seen, missed=len(checked.missed))
        for j in checked.judged:
            seen = j.seen and j.contradicted is None
            counts.update(expressions=1, proved=j.proved, true=seen, proved_true=seen and j.proved, upstream_true=seen and j.upstream)
            counts.update(upstream=j.upstream, both=j.upstream and j.proved, false_upstream=j.false_upstream)
        failures += [f"seed {seed}: upstream proves {expr_text(j.probe.expr)} in {j.probe.function}" for j in checked.missed]
    return counts, failures


def main(argv: list[str] | None = None) -> int:
    """Check programs in parallel processes; the result is the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz_index", description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=20000, help="how many (default 20000)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="parallel processes (default 2)")
    args = parser.parse_args(argv)
    if args.programs < 1 or args.jobs < 1:
        parser.error("--programs and --jobs must be at least 1")
    stop = args.seed + args.programs
    chunks = [range(s, min(s + CHUNK, stop)) for s in range(args.seed, stop, CHUNK)]
    started, counts, failed = time.monotonic(), Counter[str](), 0
    with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, (found, failures) in enumerate(pool.map(examine, chunks), 1):
            counts.update(found)
            failed += len(failures)
            for line in failures:
                print(line, flush=True)
            if number % 10 == 0:
                print(f"{counts['programs']} programs, {failed} failures, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(f"{counts['programs']} programs in {time.monotonic() - started:.0f} s, {failed} failures")
    print(f"{counts['values']} values in {counts['runs']} complete runs, floor and truncating division and as kernels divide")
    print(f"{counts['expressions']} expressions asked of whether they are non-negative multiples of 16")
    print(f"{counts['proved']} proved, none of them contradicted; {counts['upstream']} accepted by upstream's prover, of these")
    print(f"{counts['both']} proved, {counts['false_upstream']} contradicted by a value, {counts['missed']} neither, though true")
    print(f"of {counts['true']} that were seen and are true, facts prove {counts['proved_true']}, upstream {counts['upstream_true']}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
