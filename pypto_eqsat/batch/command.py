"""`pypto-eqsat optimize DIR -o OUTDIR`: every program of a folder, by several processes or by a cluster.

What is finished is written at once, result by result, and kept in `OUTDIR/.pypto-eqsat` under all that it depends on: a run that was
killed is resumed by the same command, and a run after a change of three programs lowers three. The bytes are those of lowering the
programs one by one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pypto_eqsat.batch.cache import Cache, key_of
from pypto_eqsat.batch.folder import program_files
from pypto_eqsat.batch.job import DONE, LIMIT, REFUSED, Job, Outcome
from pypto_eqsat.batch.summary import Line, line_of, table
from pypto_eqsat.cli import DONE as EXIT_DONE
from pypto_eqsat.cli import INTERRUPTED, USAGE, report
from pypto_eqsat.cli import LIMIT as EXIT_LIMIT
from pypto_eqsat.cli import REFUSED as EXIT_REFUSED
from pypto_eqsat.files import STANDARD, UsageFault, check_writable, make_folder, read_input, say, write_atomically
from pypto_eqsat.options import Options, options_of
from pypto_eqsat.terminal import Progress, duration
from pypto_ir.diagnostics import Diagnostic, Place, Refused, Severity, declare

declare(U105="a run over many programs was interrupted")

#: the folder of kept results inside the folder of results
CACHE = ".pypto-eqsat"


def optimize_folder(arguments: argparse.Namespace) -> int:
    """Lower every program of a folder; the exit code is 1 where one of them was not lowered, else 3 where one hit a limit."""
    source, output = arguments.input, arguments.output
    if output == STANDARD:
        raise UsageFault("U001", "many programs need a folder for their results", source, "name one with -o OUTDIR")
    options = options_of(arguments)
    make_folder(output)
    check_writable(os.path.join(output, "summary"))
    if arguments.stats is not None:
        check_writable(arguments.stats)
    cache = None if arguments.no_cache else Cache(arguments.cache or os.path.join(output, CACHE))
    batch = _Batch(source, output, options, cache, program_files(source, output), keep_stats=arguments.stats is not None)
    if not batch.names:
        raise UsageFault("U002", "there is no program file in it", source, "programs end in .json or .py")
    try:
        with _ending_cleanly(), _pool(arguments) as pool, Progress(batch.progress) as progress:
            batch.run(pool, progress)
    except KeyboardInterrupt:
        report([batch.left("U105", "interrupted")])
        return INTERRUPTED
    except UsageFault as fault:
        report([fault.diagnostic, batch.left(fault.diagnostic.code, "stopped")])
        return USAGE
    lines = [batch.lines[name] for name in batch.names]
    if not arguments.quiet:
        say(table(lines))
    if arguments.stats is not None:
        write_atomically(arguments.stats, (json.dumps(batch.stats, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode())
    statuses = {line.status for line in lines}
    return EXIT_REFUSED if statuses - {DONE, LIMIT} else EXIT_LIMIT if LIMIT in statuses else EXIT_DONE


def _pool(arguments: argparse.Namespace) -> Any:
    if arguments.scheduler is not None:
        from pypto_eqsat.batch.dask_pool import DaskPool

        return DaskPool(arguments.scheduler)
    from pypto_eqsat.batch.local_pool import LocalPool

    return LocalPool(arguments.jobs or processors())


def processors() -> int:
    """The processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not told on every system
        return os.cpu_count() or 1


@contextmanager
def _ending_cleanly() -> Iterator[None]:
    """A request to end (SIGTERM) is an interrupt, so that processes are ended and half-written files go."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread of the process: whoever runs it has a handler
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass(slots=True)
class _Batch:
    """What is asked, and what is known by now: a line for each finished program, in memory only that."""

    source: str
    output: str
    options: Options
    cache: Cache | None
    names: list[str]
    keep_stats: bool = False
    lines: dict[str, Line] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)

    @property
    def finished(self) -> int:
        return len(self.lines)

    def run(self, pool: Any, progress: Progress) -> None:
        """Finish every program; what others have finished before comes first."""
        for job, outcome in pool.run(self._jobs(progress)):
            name = os.path.relpath(job.name, self.source)
            if self.cache is not None:
                self.cache.put(self.keys.pop(name), outcome.named(""))
            self._finish(name, outcome, False, progress)

    def _jobs(self, progress: Progress) -> Iterator[Job]:
        """The programs that are not finished yet, read when their turn comes."""
        for name in self.names:
            path = os.path.join(self.source, name)
            try:
                job = Job(path, read_input(path), self.options)
            except (UsageFault, Refused) as fault:
                found = (fault.diagnostic,) if isinstance(fault, UsageFault) else fault.diagnostics
                self._finish(name, Outcome(REFUSED, None, found), False, progress)
                continue
            kept = None
            if self.cache is not None:
                self.keys[name] = key_of(job)
                kept = self.cache.get(self.keys[name])
            if kept is None:
                yield job
            else:
                del self.keys[name]
                self._finish(name, kept.named(path), True, progress)

    def _finish(self, name: str, outcome: Outcome, cached: bool, progress: Progress) -> None:
        """Write a result and note its line; an earlier result of the same bytes stays as it is."""
        if outcome.output is not None:
            path = os.path.join(self.output, name)
            make_folder(os.path.dirname(path))
            if not _holds(path, outcome.output):
                write_atomically(path, outcome.output)
        if outcome.diagnostics:
            progress.aside()
            report(outcome.diagnostics)
        self.lines[name] = line_of(name, outcome, cached)
        if self.keep_stats:
            self.stats[name] = {"status": outcome.status, "cached": cached, **outcome.stats}

    def left(self, code: str, what: str) -> Diagnostic:
        """What is said of a run that ended before its time."""
        text = f"{what}: {self.finished} of {len(self.names)} programs are finished"
        kept = "the same command goes on from there" if self.cache is not None else "without kept results the next run starts anew"
        return Diagnostic(code, text, Place(self.output), kept, Severity.NOTE)

    def progress(self) -> str:
        """How far the work is, in one line."""
        done, total = self.finished, len(self.names)
        bad = sum(line.status not in (DONE, LIMIT) for line in list(self.lines.values()))
        spent = time.monotonic() - self.begun
        left = f", about {duration(spent / done * (total - done))} left" if done else ""
        return f"{done} of {total} programs, {bad} not lowered, {duration(spent)}{left}"


def _holds(path: str, data: bytes) -> bool:
    try:
        if os.path.getsize(path) != len(data):
            return False
        with open(path, "rb") as file:
            return file.read() == data
    except OSError:
        return False
