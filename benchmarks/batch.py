"""Many programs in processes: how many a second, whether memory grows, whether the bytes are those of one by one.

    python -m benchmarks batch                               1,000 generated programs, two processes, written to docs/performance.md
    python -m benchmarks batch --programs 100 --jobs 1 --dry-run

Every program goes through a worker as `optimize DIR` sends it there, then through this process by itself. The memory of all workers
together is read after each program; its growth is what they held in the last quarter of the run, in the median, over the second quarter.
The exit code is 1 where bytes differ or memory grew by more than the bound.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from statistics import median
from time import perf_counter, process_time

from benchmarks.machine import here, memory
from benchmarks.pages import rewrite
from pypto_eqsat.batch.job import DIED, FAULT, Job, Outcome, perform
from pypto_eqsat.batch.local_pool import LocalPool
from pypto_eqsat.options import Options
from pypto_ir.json_writer import write_program
from tests.generators import random_program

#: programs, processes, and how much more memory the workers may hold in the last quarter of a run than in the second
PROGRAMS, JOBS, GROWTH = 1_000, 2, 1.05
#: seconds that input and result are compared; every changed function is run at least once
VALIDATE_SECONDS = 0.005


@dataclass(slots=True)
class Found:
    """What one run gave: statuses, seconds of it, MiB of all workers after each program, and programs whose bytes differ."""

    seconds: float = 0.0
    alone: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    memory: list[float] = field(default_factory=list)
    different: list[str] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """How much more the workers held in the last quarter than in the second."""
        return growth(self.memory)

    @property
    def good(self) -> bool:
        return not self.different and self.growth <= GROWTH and not self.statuses.keys() & {FAULT, DIED}


def growth(memory: list[float]) -> float:
    """The median of the last quarter over that of the second: what is loaded and remembered at first is no growth."""
    quarter = len(memory) // 4
    if not quarter:
        return 1.0
    return median(memory[-quarter:]) / median(memory[quarter : 2 * quarter])


def programs(count: int, seed: int = 1) -> Iterator[Job]:
    """Generated programs of one or two functions, as program files."""
    options = Options(validate_seconds=VALIDATE_SECONDS)
    for number in range(seed, seed + count):
        yield Job(f"random_{number}.json", write_program(random_program(random.Random(number))).encode(), options)


def resident(pid: int) -> float:
    """MiB that a process holds now; 0 where the system does not tell."""
    return (memory("VmRSS", pid) or 0) / 1024


def measured(count: int, jobs: int) -> Found:
    """Lower the programs in processes, then one by one."""
    found, outcomes = Found(), dict[str, Outcome]()
    work = list(programs(count))
    begun = perf_counter()
    with LocalPool(jobs) as pool:
        for job, outcome in pool.run(iter(work)):
            outcomes[job.name] = outcome
            found.statuses[outcome.status] += 1
            found.memory.append(sum(resident(worker.process.pid or 0) for worker in pool.workers))
    found.seconds = perf_counter() - begun
    begun = process_time()
    for job in work:
        alone = perform(job)
        if (alone.status, alone.output) != (outcomes[job.name].status, outcomes[job.name].output):
            found.different.append(job.name)
    found.alone = process_time() - begun
    return found


def report(found: Found, count: int, jobs: int) -> str:
    """The part of the page."""
    statuses = ", ".join(f"{n:,} {status}" for status, n in sorted(found.statuses.items()))
    differ = f"{len(found.different)} differ: {', '.join(found.different[:5])}" if found.different else "the same"
    rows = (
        ("programs", f"{count:,}: {statuses}"),
        ("processes", str(jobs)),
        ("programs a second", f"{count / found.seconds:.1f}"),
        ("processor time of a program by itself", f"{found.alone / count * 1e3:.0f} ms"),
        ("memory of all processes, most", f"{max(found.memory, default=0):.0f} MiB"),
        ("memory of all processes, last quarter over second", f"{found.growth:.3f} (bound {GROWTH:g})"),
        ("bytes beside one by one", differ),
    )
    head = f"{here()}, egglog {version('egglog')}."
    return "\n".join([head, "", "| what | measured |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows)])


def main(argv: list[str]) -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks batch", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=PROGRAMS, metavar="N", help=f"how many (default: {PROGRAMS})")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help=f"processes (default: {JOBS})")
    parser.add_argument("--dry-run", action="store_true", help="print the table, write nothing")
    arguments = parser.parse_args(argv)
    count, jobs = max(1, arguments.programs), max(1, arguments.jobs)
    found = measured(count, jobs)
    text = report(found, count, jobs)
    print(text)
    if not arguments.dry_run:
        rewrite("performance.md", "batch", text)
    return 0 if found.good else 1
