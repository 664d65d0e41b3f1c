"""A printed program as text: parsed by Python's own parser and never executed, with its comments and places.

`ast` drops comments; they are found by one walk over strings and comments: in `x = f("a # b")  # c` the
comment is `c`. Input comes from anywhere: at most 16 MiB, and whatever the parser does not take, too deep
nesting included, is a diagnostic with line, column, the source line and a caret.
"""

from __future__ import annotations

import ast
import bisect
import re
import warnings

from pypto_ir.diagnostics import Diagnostic, Place, Refused, declare

declare(
    P001="the printed program is larger than the size limit",
    P002="the text is no Python",
    P003="nesting is deeper than the limit",
)

#: largest printed program in bytes; real ones have about a million
MAX_BYTES = 16 * 2**20
#: widest excerpt of a source line in a diagnostic, in characters
_EXCERPT = 160

#: what Python's parser refuses without saying where: null bytes and halves of surrogate pairs
_ODD = re.compile("[\0\ud800-\udfff]")
_LEXEME = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
    r"|#[^\n]*",
    re.DOTALL,
)


class Source:
    """The text of a printed program and the name of its file."""

    def __init__(self, text: str, file: str | None) -> None:
        self.text, self.file = text, file
        #: True where byte columns are character columns
        self.plain = text.isascii()
        self._starts: list[int] = []

    def parse(self) -> ast.Module:
        """The syntax tree. Raises `Refused` (P001, P002, P003)."""
        text, size = self.text, len(self.text)
        if size > MAX_BYTES or (not self.plain and len(text.encode(errors="replace")) > MAX_BYTES):
            raise self._refused("P001", f"the text has more than {MAX_BYTES} bytes", None, None)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(text)
        except SyntaxError as fault:
            deep = "too many nested" in fault.msg or "too many levels" in fault.msg
            message = f"not Python: {fault.msg}" if not deep else f"nested too deeply: {fault.msg}"
            odd = _ODD.search(text) if fault.lineno is None else None
            line, column = fault.lineno or 1, max(fault.offset or 1, 1)
            if odd is not None:
                line, column = self.position(odd.start())
            raise self._refused("P003" if deep else "P002", message, line, column) from None
        except (RecursionError, MemoryError):
            message = "an expression is nested more deeply than Python's parser takes"
            raise self._refused("P003", message, *self._longest()) from None
        except (ValueError, OverflowError) as fault:  # null bytes, half of a surrogate pair
            odd = _ODD.search(text)
            at = self.position(odd.start()) if odd else (1, 1)
            raise self._refused("P002", f"not Python: {str(fault)[:200]}", *at) from None

    def _refused(self, code: str, message: str, line: int | None, column: int | None) -> Refused:
        excerpt = self.excerpt(line, column) if line is not None and column is not None else None
        return Refused([Diagnostic(code, message, Place(self.file, line, column), excerpt=excerpt)])

    def _longest(self) -> tuple[int, int]:
        """The start of the longest line, which is where nesting is too deep when Python does not say."""
        ends = [*self.starts[1:], len(self.text)]
        number = max(range(len(ends)), key=lambda i: ends[i] - self.starts[i])
        line = self.line(number + 1)
        return number + 1, len(line) - len(line.lstrip()) + 1

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of an offset in the text."""
        line = bisect.bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    @property
    def starts(self) -> list[int]:
        """The offset of every line."""
        if not self._starts:
            self._starts = [0, *(m.end() for m in re.finditer("\n", self.text))]
        return self._starts

    def line(self, number: int) -> str:
        """Line `number` (from 1) without its end."""
        if not 1 <= number <= len(self.starts):
            return ""
        start = self.starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end].rstrip("\r")

    def lines(self, first: int, last: int) -> list[str]:
        """The lines `first` to `last`, both included."""
        return [self.line(n) for n in range(first, last + 1)]

    def column(self, line: int, offset: int) -> int:
        """The column from 1 of a byte offset in a line."""
        if self.plain:
            return offset + 1
        return len(self.line(line).encode(errors="replace")[:offset].decode(errors="replace")) + 1

    def excerpt(self, line: int, column: int) -> str | None:
        """The source line and a caret under the column; a long line is cut around it."""
        text = self.line(line).replace("\t", " ")
        if not text.strip():
            return None
        start = max(0, column - 1 - _EXCERPT // 2) if len(text) > _EXCERPT else 0
        shown = text[start : start + _EXCERPT]
        shown = "".join(c if c.isprintable() else "?" for c in shown)
        return f"{shown}\n{' ' * max(0, column - 1 - start)}^"

    def segment(self, node: ast.expr) -> str | None:
        """The text of a node on one line, or None where it spans several."""
        if node.end_lineno != node.lineno or node.end_col_offset is None:
            return None
        if not self.plain and not self.line(node.lineno).isascii():
            return None
        start = self.starts[node.lineno - 1]
        return self.text[start + node.col_offset : start + node.end_col_offset]

    def comments(self) -> list[tuple[int, bool, str]]:
        """Every comment as (line, whether it stands alone on it, text without `#` and one blank)."""
        if "#" not in self.text:
            return []
        result: list[tuple[int, bool, str]] = []
        text, starts = self.text, self.starts
        for found in _LEXEME.finditer(text):
            if text[found.start()] == "#":
                line = bisect.bisect_right(starts, found.start())
                alone = not text[starts[line - 1] : found.start()].strip()
                result.append((line, alone, found[0][1:].removeprefix(" ").rstrip("\r")))
        return result
