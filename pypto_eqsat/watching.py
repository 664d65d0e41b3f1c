"""What a person sees of one run of `optimize` beside its result: progress on a terminal, programs between phases, times, what was gained.

    with Watching(arguments, source) as watching:
        result = optimize(program, watch=watching.watch)
    watching.close(result)

All of it goes to standard error; the result has standard output for itself.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from pypto_eqsat.files import tell
from pypto_eqsat.terminal import Progress, duration, is_quiet
from pypto_ir.formats import write_as
from pypto_ir.stmt import Program

if TYPE_CHECKING:
    from pypto_eqsat.commands import Source
    from pypto_eqsat.driver import Result


class Watching(Progress):
    """The line of progress, and what `--print-after`, `--timing` and `-v` ask for."""

    def __init__(self, arguments: argparse.Namespace, source: Source) -> None:
        super().__init__(self._text)
        self.phases = frozenset(arguments.print_after)
        self.timing, self.verbose = arguments.timing, arguments.verbose
        self.source, self.begun, self.doing = source, time.monotonic(), "verifying"
        self.watch("read", source.program)

    def watch(self, phase: str, program: Program | None = None) -> None:
        """Called by the driver: with a program where a phase is done, without one where a piece of work begins."""
        if program is None:
            self.doing = phase
            if self.verbose:
                self._say(f"{self.source.name}: {phase}")
        elif self.phases & {phase, "all"}:
            self._say(f"--- after {phase}\n{write_as(program, self.source.document.format).rstrip()}")

    def close(self, result: Result) -> None:
        """Say what is known when all is done."""
        stats = result.stats
        if self.verbose:
            bound = "optimal" if stats["proof"] == "optimal" else f"within {stats['gap']:.1%} of the least possible"
            self._say(f"{self.source.name}: cost {stats['input_cost']:,.1f} before, {stats['cost']:,.1f} after, {bound}")
        if self.timing:
            total = stats["seconds"]["total"]
            for phase, spent in stats["seconds"].items():
                part = f"  {spent / total:4.0%}" if total else ""
                self._say(f"{phase:10} {spent:9.4f} s{part}")

    def _text(self) -> str:
        return f"{os.path.basename(self.source.name)}: {self.doing}, {duration(time.monotonic() - self.begun)}"

    def _say(self, text: str) -> None:
        if is_quiet():
            return
        self.aside()
        tell(f"{text}\n")
