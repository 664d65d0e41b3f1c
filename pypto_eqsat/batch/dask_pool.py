"""Jobs on the workers of a Dask cluster: the same jobs and outcomes as on this machine.

    with DaskPool("tcp://10.0.0.5:8786") as pool:
        for job, outcome in pool.run(jobs): ..

Needs the extra `dask`. Programs travel to the workers and results back, so that the machines need no folder in common; the same engine
has to be installed there, which every outcome proves by its digest. A worker that dies loses nothing but its program, which another one
gets; a program whose workers die again and again is given up and said so.
"""

from __future__ import annotations

from asyncio import run_coroutine_threadsafe
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from importlib import import_module
from time import monotonic
from typing import Any

from pypto_eqsat.batch.engine import engine_digest
from pypto_eqsat.batch.job import DIED, FAULT, Job, Outcome, perform
from pypto_eqsat.files import UsageFault
from pypto_ir.diagnostics import Diagnostic, Place, declare

declare(
    U102="a cluster cannot be reached, or lost its scheduler or its last worker",
    U103="a package that an option needs is not installed",
    U104="a worker of a cluster runs another version",
)

#: seconds to reach a scheduler, and to wait for workers where it has none
CONNECT, WORKERS = 10.0, 30.0
#: seconds to wait for an outcome before a look at whether the cluster is still there
MOMENT = 1.0
#: programs that are on their way for each thread of the cluster: one at work, one waiting there
AHEAD = 2


class DaskPool:
    """The workers of the scheduler at an address. Raises `UsageFault`: U103 without the extra, U102 where nobody answers or no worker
    comes."""

    def __init__(self, address: str, connect: float = CONNECT, workers: float = WORKERS) -> None:
        try:
            self.distributed: Any = import_module("distributed")
        except ImportError as fault:
            help = "install it: pip install 'pypto-eqsat[dask]'"
            raise UsageFault("U103", f"--scheduler needs the package {fault.name or 'distributed'}", None, help) from None
        try:
            self.client = self.distributed.Client(address, timeout=connect, set_as_default=False)
        except (OSError, ValueError, TypeError, AssertionError) as fault:  # the last where its thread does not start in time
            raise _unreachable(address, f"no scheduler answered within {connect:g} s ({_line(fault)})") from None
        self.address, self.patience = address, workers

    def __enter__(self) -> DaskPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close(timeout=2)

    def run(self, jobs: Iterator[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Every job with its outcome, in the order in which they are done. A job whose workers died is tried again after all others and
        by itself, since any of those that were on their way to the same worker may have been what killed it. Raises `UsageFault` (U102)
        where the scheduler is lost."""
        suspects: list[Job] = []
        for job, outcome in self._ahead(jobs, AHEAD * self._threads()):
            if outcome.status == DIED:
                suspects.append(job)
            else:
                yield job, outcome
        yield from self._ahead(iter(suspects), 1)

    def _ahead(self, jobs: Iterator[Job], most: int) -> Iterator[tuple[Job, Outcome]]:
        """Every job with its outcome, at most so many of them on their way at any time."""
        waiting: dict[Any, Job] = {}
        while True:
            while len(waiting) < most and (job := next(jobs, None)) is not None:
                waiting[self.client.submit(perform, job, pure=False)] = job
            if not waiting:
                return
            for future in self._watched(partial(self._done, waiting)):
                job = waiting.pop(future)
                yield job, self._outcome(job, future)

    def _done(self, waiting: Iterable[Any]) -> list[Any]:
        """Those of the futures that are done. Raises `TimeoutError` where in a moment none is."""
        with self.client.as_current():
            done = self.distributed.wait(list(waiting), timeout=MOMENT, return_when="FIRST_COMPLETED").done
        return [future for future in waiting if future in done]

    def _threads(self) -> int:
        """Threads of the cluster, of which there has to be one before long."""
        try:
            self.client.wait_for_workers(1, timeout=self.patience)
            return max(1, sum(int(count) for count in self.client.nthreads().values()))
        except (TimeoutError, OSError) as fault:
            raise _unreachable(self.address, f"no worker came within {self.patience:g} s ({_line(fault)})") from None

    def _watched(self, ask: Callable[[], Any]) -> Any:
        """What `ask` gives, which is asked again whenever it raises `TimeoutError`, as long as there is a cluster that may answer. Raises
        `UsageFault` (U102) where the scheduler is lost, or its last worker."""
        missed: float | None = None
        while True:
            try:
                return ask()
            except TimeoutError:
                missing, patience = self._missing()
                if missing is None:
                    missed = None
                    continue
                missed = missed or monotonic()
                if monotonic() - missed > patience:
                    raise _unreachable(self.address, missing) from None
            except (CancelledError, OSError) as fault:
                raise _unreachable(self.address, f"the scheduler was lost ({_line(fault)})") from None

    def _missing(self) -> tuple[str | None, float]:
        """What the cluster lacks to go on, if anything, and the seconds that it has to come back."""
        try:
            workers = self.client.status == "running" and self.client.nthreads()
        except (TimeoutError, OSError):
            workers = False
        if workers is False:
            return "the scheduler was lost", CONNECT
        return (None if workers else f"no worker is left, and none came within {self.patience:g} s"), self.patience

    def _outcome(self, job: Job, future: Any) -> Outcome:
        try:
            # asked once and not given up: a worker that held a result may have died since, and it takes a while until that is found out and
            # the result is computed again
            asked = run_coroutine_threadsafe(self.client.gather(future, asynchronous=True), self.client.loop.asyncio_loop)
            outcome: Outcome = self._watched(partial(asked.result, MOMENT))
        except self.distributed.KilledWorker as fault:
            help = "look at the log of the workers, mostly for memory; run this program by itself"
            message = f"the workers of the cluster that worked on this program died: {_line(fault)}"
            return Outcome(DIED, None, (Diagnostic("U101", message, Place(job.name), help),))
        except UsageFault:
            raise
        except Exception as fault:  # what a worker cannot even load, such as another version of this package
            return Outcome(FAULT, None, (_other_version(job, _line(fault)),))
        if outcome.engine != engine_digest():
            return Outcome(FAULT, None, (_other_version(job, f"digest {outcome.engine[:12]}, here {engine_digest()[:12]}"),))
        return outcome.arrived()


def _unreachable(address: str, why: str) -> UsageFault:
    return UsageFault("U102", why, address, "what is finished is kept: run the same command again when the cluster is up")


def _other_version(job: Job, what: str) -> Diagnostic:
    help = "install the same version of pypto-eqsat and of its libraries on every worker"
    return Diagnostic("U104", f"the worker does not run this version: {what}", Place(job.name), help)


def _line(fault: BaseException) -> str:
    return (str(fault) or type(fault).__name__).splitlines()[0][:200]
