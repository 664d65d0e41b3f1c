"""A printed program with the places of its statements, for diagnostics that name a path or a statement.

The verifier reports `$.functions[0].body[3]`, lowering the statement `z = tile.batch_matmul` of the function
`pair`: both get the line and column of the text, and the line with a caret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pypto_ir.diagnostics import Diagnostic, Place
from pypto_ir.json_place import steps_of
from pypto_ir.printed.source import Source
from pypto_ir.stmt import Assign, Block, Program, blocks, walk

_DEFINED = re.compile(r"([A-Za-z_]\w*) = ")


@dataclass(frozen=True, slots=True)
class Printed:
    """A program and the text that it was read from, which gives diagnostics their lines."""

    program: Program
    source: Source
    warnings: tuple[Diagnostic, ...] = ()
    lines: dict[int, tuple[int, int]] = field(default_factory=dict)

    def located(self, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Diagnostics about the program with the lines of the text, by their paths into the program."""
        return [self._located(d) for d in diagnostics]

    def _located(self, d: Diagnostic) -> Diagnostic:
        if d.place.line is not None:
            return d
        at = self._position(steps_of(d.place.path)) if d.place.path else self._named(d.place)
        if at is None:
            return replace(d, place=replace(d.place, file=d.place.file or self.source.file))
        line, offset = at
        column = self.source.column(line, offset)
        place = replace(d.place, file=self.source.file, line=line, column=column, path=None)
        return replace(d, place=place, excerpt=self.source.excerpt(line, column))

    def _position(self, steps: tuple[str | int, ...]) -> tuple[int, int] | None:
        """The place of the innermost statement or function that a path leads through."""
        if len(steps) < 2 or steps[0] != "functions" or not isinstance(steps[1], int):
            return None
        if steps[1] >= len(self.program.functions):
            return None
        function = self.program.functions[steps[1]]
        found = self.lines.get(id(function))
        arms: tuple[Block, ...] = (function.body,)
        for word, at in zip(steps[2::2], steps[3::2], strict=False):
            block = arms[-1] if word == "else" else arms[0] if arms else ()
            if word not in ("body", "then", "else") or not isinstance(at, int) or at >= len(block):
                break
            found, arms = self.lines.get(id(block[at]), found), blocks(block[at])
        return found

    def _named(self, place: Place) -> tuple[int, int] | None:
        """The place of the function that a diagnostic names, and in it of the statement, `z = tile.add`."""
        function = self.program.function(place.function) if place.function is not None else None
        if function is None:
            return None
        found = _DEFINED.match(place.statement or "")
        if found is not None:
            for s in walk(function.body):
                if isinstance(s, Assign) and s.targets[0].name == found[1]:
                    return self.lines.get(id(s))
        return self.lines.get(id(function))
