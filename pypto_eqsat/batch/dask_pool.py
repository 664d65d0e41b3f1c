"""Jobs on the workers of a Dask cluster: the same jobs and outcomes as on this machine.

    with DaskPool("tcp://10.0.0.5:8786") as pool:
        for job, outcome in pool.run(jobs): ..

Needs the extra `dask`. Programs travel to the workers and results back, so that the machines need no folder in common; the same engine
has to be installed there, which every outcome proves by its digest. A worker that dies loses nothing but its program, which another one
gets; a program whose workers die again and again is given up and said so.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from time import monotonic
from typing import Any

from pypto_eqsat.batch.engine import engine_digest
from pypto_eqsat.batch.job import DIED, FAULT, Job, Outcome, perform
from pypto_eqsat.files import UsageFault
from pypto_ir.diagnostics import Diagnostic, Place, declare

declare(
    U102="the scheduler of a cluster cannot be reached any more, or never could",
    U103="a package that an option needs is not installed",
    U104="a worker of a cluster runs another version",
)

#: seconds to reach a scheduler, and to wait for workers where it has none
CONNECT, WORKERS = 10.0, 30.0
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
        except (OSError, ValueError, TypeError) as fault:
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
        done = self.distributed.as_completed(loop=self.client.loop)
        while True:
            while len(waiting) < most and (job := next(jobs, None)) is not None:
                future = self.client.submit(perform, job, pure=False)
                waiting[future] = job
                done.add(future)
            if not waiting:
                return
            try:
                future = next(done)
            except StopIteration:
                raise _unreachable(self.address, "the scheduler was lost") from None
            job = waiting.pop(future)
            yield job, self._outcome(job, future)

    def _threads(self) -> int:
        """Threads of the cluster, of which there has to be one before long."""
        try:
            self.client.wait_for_workers(1, timeout=self.patience)
            return max(1, sum(int(count) for count in self.client.nthreads().values()))
        except (TimeoutError, OSError) as fault:
            raise _unreachable(self.address, f"no worker came within {self.patience:g} s ({_line(fault)})") from None

    def _result(self, future: Any) -> Any:
        """The result of a future that was done, which is computed again where the worker that held it died since."""
        lost = None
        while True:
            try:
                return future.result(timeout=1)
            except TimeoutError:
                if self.client.status == "running":
                    lost = None
                    continue
                lost = lost or monotonic() + CONNECT
                if monotonic() > lost:
                    raise

    def _outcome(self, job: Job, future: Any) -> Outcome:
        try:
            outcome: Outcome = self._result(future)
        except self.distributed.KilledWorker as fault:
            help = "look at the log of the workers, mostly for memory; run this program by itself"
            message = f"the workers of the cluster that worked on this program died: {_line(fault)}"
            return Outcome(DIED, None, (Diagnostic("U101", message, Place(job.name), help),))
        except (self.distributed.client.FutureCancelledError, TimeoutError, OSError) as fault:
            raise _unreachable(self.address, f"the scheduler was lost ({_line(fault)})") from None
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
