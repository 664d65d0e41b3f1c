"""One run of the reader of printed programs: what was found, and the names that are in view.

A name that is bound again gets a fresh one, as `t = f(t)` becomes `t_1 = f(t)`; names of a block end with it.
Every finding has line, column, the source line and a caret.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from pypto_ir.diagnostics import Diagnostic, Place, Refused, Severity, declare
from pypto_ir.expr import Var
from pypto_ir.printed.source import Source
from pypto_ir.types import Type, UnknownType

declare(
    P199="there are more errors than are listed",
    P201="a name is not defined",
    P202="a name is used outside its block",
)

MAX_FINDINGS = 100

#: the type of a value that could not be read; told from a real unknown type by identity
POISON = UnknownType()


class Bad(Exception):
    """The part at hand cannot be read; what is wrong has been reported."""


class Enough(Exception):
    """There are too many findings to go on."""


class Reading:
    """One run of the reader: the source, what was found, and where it is at the moment."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self.function: str | None = None
        self.statement: ast.stmt | None = None

    def diagnostic(self, code: str, node: ast.AST | int, message: str, help: str | None, severity: Severity) -> Diagnostic:
        if isinstance(node, int):
            line = node
            text = self.source.line(line)
            column = len(text) - len(text.lstrip()) + 1
        else:
            line = getattr(node, "lineno", 1)
            column = self.source.column(line, getattr(node, "col_offset", 0))
        place = Place(self.source.file, line, column, function=self.function)
        return Diagnostic(code, message, place, help, severity, self.source.excerpt(line, column))

    def report(self, code: str, node: ast.AST | int, message: str, help: str | None = None) -> None:
        """Record an error at a node or line."""
        self.errors.append(self.diagnostic(code, node, message, help, Severity.ERROR))
        if len(self.errors) >= MAX_FINDINGS:
            message = f"reading stopped after {MAX_FINDINGS} errors"
            self.errors.append(Diagnostic("P199", message, Place(self.source.file)))
            raise Enough

    def fail(self, code: str, node: ast.AST | int, message: str, help: str | None = None) -> NoReturn:
        """Record an error and give up the part at hand."""
        self.report(code, node, message, help)
        raise Bad

    def warn(self, code: str, node: ast.AST | int, message: str, help: str | None = None) -> None:
        """Record a warning; the first `MAX_FINDINGS` are kept."""
        if len(self.warnings) < MAX_FINDINGS:
            self.warnings.append(self.diagnostic(code, node, message, help, Severity.WARNING))

    def refuse_if_any(self) -> None:
        """Raise `Refused` with every error and warning, in the order of the text, if there is an error."""
        if self.errors:
            found = [*self.errors, *self.warnings]
            found.sort(key=lambda d: (d.place.line or 2**31, d.place.column or 0))
            raise Refused(found)


class Names:
    """The names of one function: as the text spells them, and the variables that they stand for."""

    def __init__(self, reading: Reading, outer: Iterable[Var], spelled: Callable[[], frozenset[str]]) -> None:
        self.reading, self.spelled = reading, spelled
        self.visible: dict[str, Var] = {var.name: var for var in outer}
        self.taken: set[str] = set(self.visible)
        self.ended: set[str] = set()
        self._trail: list[tuple[str, Var | None]] = []
        self._next: dict[str, int] = {}

    def define(self, name: str, t: Type) -> Var:
        """A new variable; it keeps its name where that is free in the function."""
        own = name if name not in self.taken else self.fresh(name)
        var = Var(own, t)
        self.taken.add(own)
        self.bind(name, var)
        return var

    def bind(self, name: str, var: Var) -> None:
        """Let a name stand for a variable from here to the end of the block."""
        self._trail.append((name, self.visible.get(name)))
        self.visible[name] = var

    def fresh(self, base: str) -> str:
        """The smallest `base_1`, `base_2`, .. that the function does not spell anywhere."""
        spelled, n = self.spelled(), self._next.get(base, 1)
        while f"{base}_{n}" in self.taken or f"{base}_{n}" in spelled:
            n += 1
        self._next[base] = n + 1
        return f"{base}_{n}"

    def temporary(self, base: str, t: Type) -> Var:
        """A variable that the text has no name for."""
        own = base if base not in self.taken and base not in self.spelled() else self.fresh(base)
        self.taken.add(own)
        return Var(own, t)

    def lookup(self, name: str, node: ast.AST) -> Var:
        """The variable of a name; an unknown one is reported and raises `Bad`."""
        var = self.visible.get(name)
        if var is not None:
            return var
        if name in self.ended:
            self.reading.fail(
                "P202",
                node,
                f"{name} is defined inside another block and cannot be seen here",
                f"hand it on: `{name}: T = pl.yield_(..)` as the last statement of the block",
            )
        close = difflib.get_close_matches(name[:60], list(self.visible)[-2000:], 1)
        help = f"did you mean {close[0]}?" if close else None
        self.reading.fail("P201", node, f"{name[:60]} is not defined", help)

    @contextmanager
    def block(self) -> Iterator[None]:
        """A block whose names end with it."""
        mark = len(self._trail)
        try:
            yield
        finally:
            while len(self._trail) > mark:
                name, previous = self._trail.pop()
                if previous is None:
                    self.visible.pop(name, None)
                    self.ended.add(name)
                else:
                    self.visible[name] = previous
