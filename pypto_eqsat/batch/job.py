"""One program of many: the bytes of its file in, what became of it out, whatever happens in between.

    outcome = perform(Job("dir/add_3d.json", data, options))
    outcome.status, outcome.output       "done", the bytes that `optimize dir/add_3d.json` writes

A job holds all that a process on another machine needs; neither it nor its outcome names a folder to read or write.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from pypto_eqsat.options import Options
from pypto_ir.diagnostics import CODES, Diagnostic, Diagnostics, Place, Refused, declare
from pypto_ir.formats import format_of_path, read_document, write_as

declare(U101="a worker ended before its program was done")

DONE, LIMIT, REFUSED, FAULT, DIED = "done", "limit", "refused", "fault", "died"
#: what can be kept: it would come out the same again
LASTING = (DONE, LIMIT, REFUSED)


@dataclass(frozen=True, slots=True)
class Job:
    """A program file: its name for diagnostics and for the form of its result, its bytes, and what is asked."""

    name: str
    data: bytes
    options: Options


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job. `output` is there where the status is "done" or "limit", `stats` are those of the driver, with the cost of
    upstream's program; `codes` say what the codes of the diagnostics mean, `engine` is the digest of the engine that worked."""

    status: str
    output: bytes | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    stats: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)
    engine: str = ""

    @property
    def good(self) -> bool:
        return self.output is not None

    def arrived(self) -> Outcome:
        """The outcome in a process which it comes to: codes that modules declare are known here too, though it has not loaded them."""
        declare(**self.codes)
        return self

    def named(self, file: str) -> Outcome:
        """The outcome with diagnostics that point into `file`."""
        moved = (replace(d, place=replace(d.place, file=file)) if d.place.file is not None else d for d in self.diagnostics)
        return replace(self, diagnostics=tuple(moved))


def perform(job: Job) -> Outcome:
    """Lower one program; raises nothing but what ends a process."""
    from pypto_eqsat.batch.engine import engine_digest

    bag = Diagnostics()
    try:
        outcome = _performed(job, bag)
    except Refused as refused:
        found = (*bag, *refused.diagnostics)
        outcome = Outcome(FAULT if any(d.code.startswith("X") for d in found) else REFUSED, None, found)
    except Exception as fault:
        from pypto_eqsat.cli import internal

        outcome = Outcome(FAULT, None, (*bag, replace(internal(fault), place=Place(job.name))))
    codes = {d.code: CODES[d.code] for d in outcome.diagnostics}
    return replace(outcome, codes=codes, engine=engine_digest())


def _performed(job: Job, bag: Diagnostics) -> Outcome:
    from pypto_eqsat.driver import optimize
    from pypto_ir.json_text import decode

    document = read_document(decode(job.data, job.name), job.name)
    bag.extend(document.warnings)
    try:
        result = optimize(document.program, **job.options.keywords(), policy_cost=True)
        text = write_as(result.program, format_of_path(job.name) or document.format)
    except Refused as refused:
        raise Refused(document.located(refused.diagnostics)) from None
    bag.extend(document.located(result.diagnostics))
    return Outcome(LIMIT if result.limit_hit else DONE, text.encode(), tuple(bag), result.stats)
