"""Comments of a function, handed to the statements that they stand above or beside.

`# a` above `t = ..  # b` gives the statement the comment "a\\nb". A comment that ends a block belongs to no
statement: it is dropped with a warning (`spec/tile_ir.md` section 8).
"""

from __future__ import annotations

import ast

from pypto_ir.diagnostics import declare
from pypto_ir.printed.reading import Reading

declare(P503="a comment stands where no statement follows; it is dropped")


class Comments:
    """The comments of a program in the order of the text, taken statement by statement."""

    def __init__(self, r: Reading) -> None:
        self.r = r
        self.items = r.source.comments()
        self.at = 0
        self.docs: list[str] = []

    def skip_to(self, line: int, indent: int) -> None:
        """Drop what stands above `line`: silently, unless its indent says that it ends a body."""
        while self.at < len(self.items) and self.items[self.at][0] < line:
            number, alone, _ = self.items[self.at]
            if alone and self._column(number) > indent:
                self._dropped()
            else:
                self.at += 1

    def end_before(self, line: int) -> None:
        """Drop with a warning what stands above `line` and was not taken."""
        while self.at < len(self.items) and self.items[self.at][0] < line:
            self._dropped()

    def _dropped(self) -> None:
        line = self.items[self.at][0]
        self.r.warn("P503", line, "the comment is dropped: no statement of its block follows")
        self.at += 1

    def document(self, text: str) -> None:
        """A docstring, which becomes a comment of the next statement."""
        self.docs.extend(line.strip() for line in text.strip().splitlines())

    def take(self, node: ast.stmt) -> str | None:
        """The comment of a statement, or None."""
        items, at = self.items, self.at
        if not self.docs and (at >= len(items) or items[at][0] > (node.end_lineno or 0)):
            return None
        lines, self.docs = self.docs, []
        last = _header_end(node)
        while self.at < len(items) and items[self.at][0] <= last:
            line, alone, text = items[self.at]
            if alone and line < node.lineno and self._column(line) > node.col_offset:
                self._dropped()
                continue
            lines.append(text)
            self.at += 1
        return "\n".join(lines) if lines else None

    def _column(self, line: int) -> int:
        text = self.r.source.line(line)
        return len(text) - len(text.lstrip())


def _header_end(node: ast.stmt) -> int:
    """The last line of a statement, of its head where it holds others."""
    match node:
        case ast.For(iter=head) | ast.While(test=head) | ast.If(test=head):
            return head.end_lineno or node.lineno
        case ast.With(items=[*_, item]):
            end = item.optional_vars or item.context_expr
            return end.end_lineno or node.lineno
    return node.end_lineno or node.lineno
