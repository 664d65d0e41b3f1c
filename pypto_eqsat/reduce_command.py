"""`pypto-eqsat reduce IN -o OUT`: the smallest program that still fails as this one does.

What a failure is, is said in one of three ways: `--check CMD` runs a command on every candidate (exit code 0: it still fails),
`--code L001` asks for a diagnostic of `optimize`, and without either it is the first error that `optimize` gives for the input. A result
that costs more than upstream's (`--dearer`) is a failure as well, for those who look after the rules.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pypto_eqsat.cli import DONE, INTERRUPTED, LIMIT, internal
from pypto_eqsat.commands import Source, load_verified
from pypto_eqsat.files import UsageFault, check_writable, reason, tell, write_atomically
from pypto_eqsat.options import Options, options_of
from pypto_eqsat.terminal import Progress
from pypto_ir.diagnostics import Refused, Severity, declare
from pypto_ir.formats import JSON, format_of_path, write_as
from pypto_ir.reducing import Fails, reduced
from pypto_ir.stmt import Program, walk

declare(U201="a program to reduce does not fail", U202="the command that tells whether a program fails cannot be run")

#: seconds of search for one candidate, so that none holds up the others
CANDIDATE_SECONDS = 10.0
#: seconds after which a command is ended; a candidate that takes longer does not count as failing
CHECK_SECONDS = 60.0
#: cycles by which a result has to be dearer, as a part of upstream's cost
_MARGIN = 1e-9


class _OutOfTime(Exception):
    """The time for all candidates is over."""


def reduce_program(arguments: argparse.Namespace) -> int:
    """Reduce a program file; the exit code is 3 where the time was over before nothing more could go, and 130 after an interrupt. What was
    found by then is written all the same."""
    if sum((arguments.check is not None, arguments.code is not None, arguments.dearer)) > 1:
        raise UsageFault("U001", "--check, --code and --dearer are three ways to say what a failure is", None, "give one of them")
    options = options_of(arguments)
    check_writable(arguments.output)
    source = load_verified(arguments.input)
    reduction = _Reduction(source.program, arguments.time_limit)
    code = DONE
    with _failing(arguments, options, source) as (fails, what), Progress(reduction.progress):
        if not fails(source.program):
            raise UsageFault("U201", f"the program does not fail: {what} was looked for", source.name, "see pypto-eqsat reduce --help")
        try:
            reduced(source.program, reduction.counting(fails), found=reduction.found)
        except _OutOfTime:
            code = LIMIT
        except KeyboardInterrupt:
            code = INTERRUPTED
    format = format_of_path(arguments.output) or source.document.format
    write_atomically(arguments.output, write_as(reduction.best, format).encode())
    if not arguments.quiet:
        tell(f"{what}: {_size(source.program)} reduced to {_size(reduction.best)}, {reduction.tries} candidates tried\n")
    return code


class _Reduction:
    """The smallest failing program so far, and how much was tried."""

    def __init__(self, program: Program, seconds: float | None) -> None:
        self.best, self.tries = program, 0
        self.deadline = None if seconds is None else time.monotonic() + seconds

    def counting(self, fails: Fails) -> Fails:
        def counted(program: Program) -> bool:
            if self.deadline is not None and time.monotonic() > self.deadline:
                raise _OutOfTime
            self.tries += 1
            return fails(program)

        return counted

    def found(self, program: Program) -> None:
        self.best = program

    def progress(self) -> str:
        return f"{_size(self.best)}, {self.tries} candidates tried"


def _size(program: Program) -> str:
    count = sum(1 for f in program.functions for _ in walk(f.body))
    functions = len(program.functions)
    return f"{count} statement{'s' * (count != 1)} in {functions} function{'s' * (functions != 1)}"


@contextmanager
def _failing(arguments: argparse.Namespace, options: Options, source: Source) -> Iterator[tuple[Fails, str]]:
    """What tells whether a program fails, and the failure in a few words."""
    if arguments.check is not None:
        with tempfile.TemporaryDirectory(prefix="pypto-eqsat-") as folder:
            yield _checked_by(arguments.check, folder, source.document.format), f"the exit code 0 of {arguments.check}"
        return
    limited = replace(options, time_limit=min(options.time_limit or CANDIDATE_SECONDS, CANDIDATE_SECONDS))
    if arguments.dearer:
        yield _dearer(limited), "a result that costs more than upstream's"
        return
    wanted = arguments.code
    if wanted is None:
        found = _errors(source.program, limited)
        if not found:
            help = "say what a failure is: --check CMD, --code CODE or --dearer"
            raise UsageFault("U201", "optimize has nothing against the program", source.name, help)
        wanted = found[0]
    yield (lambda program: wanted in _errors(program, limited)), f"error {wanted}"


def _errors(program: Program, options: Options) -> list[str]:
    """The codes of the errors that `optimize` gives, in order."""
    from pypto_eqsat.driver import optimize

    try:
        optimize(program, **options.keywords())
    except Refused as refused:
        return [d.code for d in refused.diagnostics if d.severity is Severity.ERROR]
    except Exception as fault:
        return [internal(fault).code]
    return []


def _dearer(options: Options) -> Fails:
    from pypto_eqsat.driver import optimize

    def fails(program: Program) -> bool:
        try:
            stats = optimize(program, **options.keywords(), policy_cost=True).stats
        except Refused:
            return False
        return stats["policy_cost"] is not None and bool(stats["cost"] > stats["policy_cost"] * (1 + _MARGIN))

    return fails


def _checked_by(command: str, folder: str, format: str) -> Callable[[Program], bool]:
    """Runs a command on a candidate: its path stands for `{}`, or is the last argument."""
    try:
        words = shlex.split(command)
    except ValueError as fault:
        raise UsageFault("U202", f"{command}: {str(fault).lower()}", None, "quote it as a shell would") from None
    if not words:
        raise UsageFault("U202", "the command is empty")
    path = os.path.join(folder, "candidate.json" if format == JSON else "candidate.py")
    if "{}" not in words:
        words.append("{}")

    def fails(program: Program) -> bool:
        write_atomically(path, write_as(program, format).encode())
        given = [path if word == "{}" else word for word in words]
        try:
            quiet = subprocess.DEVNULL
            done = subprocess.run(given, stdin=quiet, stdout=quiet, stderr=quiet, timeout=CHECK_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return False
        except (OSError, ValueError) as fault:
            raise UsageFault("U202", f"{words[0]}: {reason(fault)}", None, "it is run without a shell; sh -c '..' runs one") from None
        return done.returncode == 0

    return fails
