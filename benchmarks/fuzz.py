"""Long runs of the property of `tests/generators` over random programs, in parallel processes.

    python -m benchmarks.fuzz --programs 10000 --seed 1 --jobs 2 --save failures
    python -m benchmarks.fuzz --kind accumulators --programs 20000 --jobs 2
    python -m benchmarks.fuzz --kind batched --programs 1000 --jobs 1
    python -m benchmarks.fuzz --kind large --programs 200 --jobs 1
    python -m benchmarks.fuzz --kind near --programs 1000 --jobs 1

checks the programs of seeds 1 .. 10000 and prints how many were lowered, how refusals distribute over codes
and ops, and every failure with its seed. With `--save`, a failing program is written there as
`<kind>-<seed>.json`, made smaller first with `--reduce`. Exit code 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pypto_ir.json_writer import write_program
from pypto_ir.reducing import reduced
from pypto_ir.stmt import Program
from tests.generators import Failure, Outcome, check, check_accumulators, random_accumulators, random_batched, random_edges, random_program
from tests.generators.lowered_products import check_large, check_near, check_products

#: seeds that one task checks
CHUNK = 50


@dataclass(frozen=True, slots=True)
class Finding:
    """What checking one seed gave: `kind` is lowered, unchanged, refused or the kind of a failure."""

    seed: int
    kind: str
    detail: str = ""
    text: str = ""
    failed: bool = False


def examine(program: Program, promise: Callable[[Program], Outcome] = check) -> tuple[str, str, bool]:
    """Kind, detail and whether a promise is broken."""
    try:
        outcome = promise(program)
    except Failure as failure:
        return failure.kind, str(failure), True
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return (
            f"crash-{type(error).__name__}",
            f"{error!r} at {Path(place.filename).name}:{place.lineno}",
            True,
        )
    if outcome.refused:
        return "refused", f"{'+'.join(outcome.codes)}: {_stem(outcome.message)}", False
    if not outcome.changed:
        return "unchanged", "", False
    return ("lowered" if outcome.ran else "lowered, not run"), "", False


def _stem(message: str) -> str:
    """The op that a refusal names, for counting."""
    return next((word.rstrip(":") for word in message.split() if word.startswith(("tile.", "tensor."))), "")


#: kinds of programs -> how one of about so many statements is made, and what is promised of it
KINDS: dict[str, tuple[Callable[[random.Random, int], Program], Callable[[Program], Outcome]]] = {
    "any": (random_program, check),
    "edges": (random_edges, partial(check, upstream=True)),
    "accumulators": (lambda source, _: random_accumulators(source, deep=True), check_accumulators),
    "batched": (lambda source, _: random_batched(source), check_products),
    "large": (lambda source, _: random_batched(source, large=True), check_large),
    "near": (lambda source, _: random_batched(source, near=True), check_near),
}


def examine_seeds(seeds: range, most: int, smaller: bool, kind: str = "any") -> list[Finding]:
    """The findings of a range of seeds."""
    found = []
    made, promise = KINDS[kind]
    for seed in seeds:
        try:
            program = made(random.Random(seed), most)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            found.append(Finding(seed, "generator", f"{error!r} at {place.filename}:{place.lineno}", failed=True))
            continue
        outcome, detail, failed = examine(program, promise)
        if failed and smaller:
            program = reduced(program, lambda p, same=outcome: examine(p, promise)[0] == same)  # type: ignore[misc]
        found.append(Finding(seed, outcome, detail, write_program(program) if failed else "", failed))
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description="check random programs")
    parser.add_argument("--kind", choices=sorted(KINDS), default="any", help="what the programs are about (default any)")
    parser.add_argument("--programs", type=int, default=10000, help="how many (default 10000)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="parallel processes (default 2)")
    parser.add_argument("--statements", type=int, default=12, help="about the most statements of a function (default 12)")
    parser.add_argument("--save", type=Path, help="folder for failing programs")
    parser.add_argument("--reduce", action="store_true", help="make failing programs smaller")
    args = parser.parse_args(argv)
    if args.programs < 1 or args.jobs < 1:
        parser.error("--programs and --jobs must be at least 1")
    stop = args.seed + args.programs
    chunks = [range(s, min(s + CHUNK, stop)) for s in range(args.seed, stop, CHUNK)]
    started, kinds, reasons, failures = time.monotonic(), Counter[str](), Counter[str](), 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.jobs, mp_context=context) as pool:
        results = pool.map(examine_seeds, chunks, *([option] * len(chunks) for option in (args.statements, args.reduce, args.kind)))
        for number, findings in enumerate(results, 1):
            for f in findings:
                kinds[f.kind] += 1
                if f.kind == "refused":
                    reasons[f.detail] += 1
                if f.failed:
                    failures += 1
                    print(f"seed {f.seed}: {f.detail}", flush=True)
                    _save(args.save, f)
            if number % 10 == 0:
                seconds = time.monotonic() - started
                print(
                    f"{sum(kinds.values())} programs, {failures} failures, {seconds:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
    _report(kinds, reasons, time.monotonic() - started)
    return 1 if failures else 0


def _save(folder: Path | None, f: Finding) -> None:
    if folder is not None and f.text:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{f.kind}-{f.seed}.json").write_text(f.text)


def _report(kinds: Counter[str], reasons: Counter[str], seconds: float) -> None:
    total = sum(kinds.values())
    print(f"{total} programs in {seconds:.0f} s")
    for kind, count in kinds.most_common():
        print(f"{count:7} {count / total:6.1%}  {kind}")
    if reasons:
        print("refusals by codes and op of the first reason")
        for reason, count in reasons.most_common():
            print(f"{count:7} {count / total:6.1%}  {reason}")


if __name__ == "__main__":
    sys.exit(main())
