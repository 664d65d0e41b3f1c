"""What `optimize` tells beside its result: remarks, as text, JSON or SARIF, and the report.

    with observing(arguments) as watched:       checks the paths; on the way out, also of a refusal, writes what was asked for
        watched.source = load(..)
        watched.result = optimize(.., record=watched.record)

SARIF holds the diagnostics, too, so that a program which is refused gives a whole log.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pypto_eqsat.files import UsageFault, check_writable, display_name, tell, write_atomically
from pypto_eqsat.version import installed
from pypto_ir.diagnostics import Diagnostic, Refused

if TYPE_CHECKING:
    from pypto_eqsat.commands import Source
    from pypto_eqsat.driver import Result
    from pypto_eqsat.record import Record
    from pypto_eqsat.remarks import Remark

TEXT, JSON, SARIF = "text", "json", "sarif"


@dataclass(slots=True)
class Watched:
    """One run: what is known of it so far. `record` is None where nobody asked how the program was decided."""

    arguments: argparse.Namespace
    record: Record | None = None
    source: Source | None = None
    result: Result | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What the optimiser is asked for so that there is something to tell."""
        return {} if self.record is None else {"record": self.record, "policy_cost": True}


@contextmanager
def observing(arguments: argparse.Namespace) -> Iterator[Watched]:
    """Watch a run and write what was asked for at its end, also where it is refused. Raises `UsageFault` where options do not go
    together or a file cannot be written."""
    watched = Watched(arguments)
    remarks = _tells(arguments)
    if remarks or arguments.report is not None:
        _check(arguments, remarks)
        from pypto_eqsat.record import Record

        watched.record = Record()
    try:
        yield watched
    except Refused as refused:
        if watched.record is not None:
            _finish(watched, remarks, refused.diagnostics)
        raise
    if watched.record is not None:
        _finish(watched, remarks, ())


def one_program_only(arguments: argparse.Namespace) -> None:
    """Raise `UsageFault` where remarks or a report are asked for beside a folder of programs."""
    if _tells(arguments) or arguments.report is not None:
        text = "remarks and the report are about one program, and this is a folder"
        raise UsageFault("U001", text, arguments.input, "give them with a single program file")


def _tells(arguments: argparse.Namespace) -> bool:
    """True where remarks are asked for."""
    return arguments.remarks is not None or arguments.remarks_file is not None or arguments.remarks_format != TEXT


def _check(arguments: argparse.Namespace, remarks: bool) -> None:
    """Raise `UsageFault` for a pattern or a path that will not do."""
    try:
        re.compile(arguments.remarks or "")
    except re.error as fault:
        raise UsageFault("U001", f"--remarks={arguments.remarks} is no regular expression: {fault}") from None
    if remarks and arguments.remarks_format != TEXT and arguments.remarks_file is None:
        text = f"remarks as {arguments.remarks_format} need a file to go to"
        raise UsageFault("U001", text, None, "name one with --remarks-file, - for standard output")
    places = {"the result": arguments.output, "--stats": arguments.stats}
    for option, path in (("--remarks-file", arguments.remarks_file), ("--report", arguments.report)):
        taken = next((what for what, other in places.items() if other is not None and other == path), None)
        if path is not None and taken is not None:
            raise UsageFault("U001", f"{taken} and {option} go to the same place", path, f"give {option} another file")
        if path is not None:
            check_writable(path)
        places[option] = path


def _finish(watched: Watched, remarks: bool, found: tuple[Diagnostic, ...]) -> None:
    arguments, source, result = watched.arguments, watched.source, watched.result
    if remarks:
        _write_remarks(watched, found)
    if arguments.report is not None and source is not None:
        from pypto_eqsat.report.page import page

        assert watched.record is not None
        located = tuple(source.located(result.diagnostics)) if result is not None else found
        text = page(source.program, source.name, watched.record, result, located, arguments.target, times=arguments.report_times)
        write_atomically(arguments.report, text.encode())


def _write_remarks(watched: Watched, found: tuple[Diagnostic, ...]) -> None:
    arguments, source = watched.arguments, watched.source
    told = _remarks(watched)
    if source is not None and watched.result is not None:
        found = (*source.document.warnings, *watched.result.diagnostics)
    name = display_name(arguments.input)
    if arguments.remarks_format == SARIF:
        from pypto_eqsat.remarks import placed
        from pypto_eqsat.sarif import sarif

        if source is not None:
            found = tuple(source.located(placed(source.program, found)))
        text = json.dumps(sarif(found, told, name, installed()), indent=1, ensure_ascii=False) + "\n"
    elif arguments.remarks_format == JSON:
        text = json.dumps([values_of(r) for r in told], indent=1, ensure_ascii=False) + "\n"
    else:
        text = "".join(f"{r}\n" for r in told)
    if arguments.remarks_file is not None:
        write_atomically(arguments.remarks_file, text.encode())
    else:
        tell(text)


def _remarks(watched: Watched) -> list[Remark]:
    """The remarks that were asked for, with lines and columns of the program file; none where it could not be read."""
    source, record = watched.source, watched.record
    if source is None or record is None:
        return []
    from extract.target import load_target
    from pypto_eqsat.remarks import matching, remarks

    machine = load_target(watched.arguments.target or source.program.target)
    told = matching(remarks(source.program, record, watched.result, machine), watched.arguments.remarks or "")
    # remarks are located as diagnostics are, so they go there as such: only the place comes back
    located = source.located(Diagnostic("W001", r.message, r.place) for r in told)
    return [replace(r, place=replace(d.place, path=None)) for r, d in zip(told, located, strict=True)]


def values_of(r: Remark) -> dict[str, Any]:
    """A remark as JSON values."""
    p = r.place
    place = {"file": p.file, "line": p.line, "column": p.column, "function": p.function, "statement": p.statement, "loc": p.loc}
    return {"kind": r.kind, "name": r.name, "message": r.message, **place, "values": dict(r.values)}
