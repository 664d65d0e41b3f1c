"""Jobs in processes of this machine, one program at a time in each.

A process that ends before its program is done (the system was out of memory and killed it, a library crashed) costs that program alone:
another process takes its place, and the program is tried once more, since its neighbour may have been what took the memory. Processes
are started anew (spawn), because an e-graph must not be forked, and end by themselves when the one that started them is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Any

from pypto_eqsat.batch.job import DIED, Job, Outcome, perform
from pypto_ir.diagnostics import Diagnostic, Place

#: how often a program is tried whose worker ended
TRIES = 2
#: programs after which a process is replaced by a new one: what libraries hold grows slowly, by 8 of 150 MiB in as many programs
LIFE = 100
#: seconds that a worker gets to end by itself
PATIENCE = 2.0


class LocalPool:
    """Up to `count` processes; they start when there is work for them and end with the `with` block."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.workers: list[_Worker] = []

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()

    def run(self, jobs: Iterator[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Every job with its outcome, in the order in which they are done; no more jobs are drawn than processes are free."""
        again: list[tuple[Job, int]] = []
        while True:
            while len(busy := [w for w in self.workers if w.job is not None]) < self.count:
                job, tried = again.pop() if again else (next(jobs, None), 0)
                if job is None:
                    break
                self._free().give(job, tried + 1)
            if not busy:
                return
            ready = wait([w.connection for w in busy])
            for worker in [w for w in busy if w.connection in ready]:
                job, tried, outcome = worker.job, worker.tried, worker.take()
                assert job is not None
                if outcome is not None:
                    if worker.done >= LIFE:
                        self.workers.remove(worker)
                        worker.stop()
                    yield job, outcome
                    continue
                self.workers.remove(worker)
                if tried < TRIES:
                    again.append((job, tried))
                else:
                    yield job, _died(job, worker.stop())

    def _free(self) -> _Worker:
        """A process without a job, a new one where all have one."""
        for worker in self.workers:
            if worker.job is None:
                return worker
        self.workers.append(_Worker())
        return self.workers[-1]


class _Worker:
    """A process and the pipe to it."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other,), daemon=True)
        self.process.start()
        other.close()  # so that the pipe ends when the process does
        self.job: Job | None = None
        self.tried = self.done = 0

    def give(self, job: Job, tried: int) -> None:
        self.job, self.tried = job, tried
        with contextlib.suppress(OSError):  # it ended while it was idle: `take` finds the end of the pipe
            self.connection.send(job)

    def take(self) -> Outcome | None:
        """The outcome of the job; None where the process ended instead."""
        self.job = None
        try:
            outcome: Outcome = self.connection.recv()
        except (EOFError, OSError):
            return None
        self.done += 1
        return outcome.arrived()

    def stop(self) -> int | None:
        """End the process; its exit code, negative for the signal that ended it."""
        self.connection.close()
        self.process.join(0 if self.job is not None else PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return self.process.exitcode


def serve(connection: Connection[Any, Any]) -> None:
    """The work of a process: jobs from the pipe, outcomes into it, until the other end is gone. An interrupt from the keyboard reaches
    every process of a terminal; what ends the work then is the process that gave it, by its end if it cannot otherwise."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(parent_process(),), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            connection.send(perform(connection.recv()))


def _end_with(parent: Any) -> None:
    """End this process in the midst of its work when the one that started it is gone: nobody takes what comes of it."""
    if parent is not None:
        parent.join()
        os._exit(1)


def _died(job: Job, code: int | None) -> Outcome:
    how = f"exit code {code}"
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            how = f"signal {-code}, {signal.Signals(-code).name}"
    out_of_memory = code == -signal.SIGKILL
    why = "; the system does that to a process where memory runs out" if out_of_memory else ""
    help = "run fewer at a time (--jobs), bound the search (--node-limit, --memory-limit), or run this program by itself"
    message = f"the process that worked on this program ended ({how}), {TRIES} times{why}"
    return Outcome(DIED, None, (Diagnostic("U101", message, Place(job.name), help),))
