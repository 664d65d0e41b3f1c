"""The two forms of a program, told apart by content: JSON program files and printed Python.

`read_any(text, "13_before.py")` reads either: a text whose first character is `{` is JSON, every other one is
printed. `write_as(program, "text")` writes the printed form. Converting there and back gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pypto_ir.diagnostics import Diagnostic
from pypto_ir.stmt import Program

JSON, TEXT = "json", "text"
FORMATS = (JSON, TEXT)
_SUFFIXES = {".json": JSON, ".py": TEXT}


@dataclass(frozen=True, slots=True)
class Document:
    """A program with the text that it was read from: its format and the warnings of its reader."""

    program: Program
    format: str
    text: str
    file: str | None = None
    warnings: tuple[Diagnostic, ...] = ()

    def located(self, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Diagnostics about the program with lines and columns of the text."""
        items = list(diagnostics)
        if not items:
            return items
        if self.format == JSON:
            from pypto_ir.json_findings import in_file

            return in_file(items, self.text, self.file)
        from pypto_ir.printed.program_reader import read_printed

        # places are wanted seldom: reading again costs less than keeping them for every statement
        return read_printed(self.text, self.file).located(items)


#: a comment, an import, a decorator or a definition at the start of a line
_PRINTED = re.compile(r"^\s*(#|import |from |@|class |def )", re.MULTILINE)


def format_of(text: str) -> str:
    """The format of a text: "text" where it says something of the language of printed programs, else "json"."""
    return TEXT if text.lstrip()[:1] not in ("{", "[") and _PRINTED.search(text) else JSON


def format_of_path(path: str) -> str | None:
    """The format that the suffix of a path asks for, or None."""
    return next((f for suffix, f in _SUFFIXES.items() if path.lower().endswith(suffix)), None)


def read_document(text: str, file: str | None = None) -> Document:
    """The program of a text in either form, with what its reader warns of. Raises `Refused`."""
    if format_of(text) == JSON:
        from pypto_ir.json_reader import read_program

        return Document(read_program(text, file), JSON, text, file)
    from pypto_ir.printed.program_reader import read_printed

    printed = read_printed(text, file)
    return Document(printed.program, TEXT, text, file, printed.warnings)


def read_any(text: str, file: str | None = None) -> Program:
    """The program of a text in either form. `file` names it in diagnostics. Raises `Refused` with every error
    found."""
    return read_document(text, file).program


def write_as(program: Program, format: str) -> str:
    """The canonical text of a program as "json" or "text". Raises `Refused` for what the format has no form
    for."""
    if format == JSON:
        from pypto_ir.json_writer import write_program

        return write_program(program)
    if format == TEXT:
        from pypto_ir.printed.program_writer import write_text

        return write_text(program)
    raise ValueError(f"no format {format!r}; known: {', '.join(FORMATS)}")
