"""Diagnostics: what is wrong, where, what was found, why it cannot be, and what to do instead.

Every message that a user can see is a `Diagnostic` with a code from `CODES`. Functions that check collect all of them in a
`Diagnostics` bag and raise `Refused` once, so that a user sees every error of a program in one run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a diagnostic points: a file position, a path into the JSON, a function and the author's source position."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str | None = None
    function: str | None = None
    statement: str | None = None
    loc: str | None = None

    def __str__(self) -> str:
        position = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        parts = [position, self.path]
        if self.function is not None:
            parts.append(f"function {self.function}" + (f", {self.statement}" if self.statement else ""))
        elif self.statement is not None:
            parts.append(self.statement)
        if self.loc is not None:
            parts.append(f"from {self.loc}")
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `message` says what was found and why it cannot be, `help` what to do instead; `excerpt` is the source line
    with a caret below it, where the input is text."""

    code: str
    message: str
    place: Place = field(default_factory=Place)
    help: str | None = None
    severity: Severity = Severity.ERROR
    excerpt: str | None = None

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"diagnostic code {self.code!r} is not in the catalogue")

    def __str__(self) -> str:
        where = str(self.place)
        head = f"{where}: " if where else ""
        tail = f"\n  help: {self.help}" if self.help else ""
        shown = "".join(f"\n  | {line}" for line in self.excerpt.split("\n")) if self.excerpt else ""
        return f"{head}{self.severity.value}[{self.code}]: {self.message}{shown}{tail}"


class Refused(Exception):
    """Input that cannot be worked on; carries every diagnostic."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(map(str, self.diagnostics)))


class Diagnostics:
    """Collects diagnostics and refuses once at the end."""

    def __init__(self) -> None:
        self._items: list[Diagnostic] = []

    def add(self, code: str, message: str, place: Place | None = None, help: str | None = None) -> None:
        """Record an error."""
        self._items.append(Diagnostic(code, message, place or Place(), help))

    def warn(self, code: str, message: str, place: Place | None = None, help: str | None = None) -> None:
        """Record a warning."""
        self._items.append(Diagnostic(code, message, place or Place(), help, Severity.WARNING))

    def extend(self, items: Iterable[Diagnostic]) -> None:
        self._items.extend(items)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def has_errors(self) -> bool:
        return any(d.severity is Severity.ERROR for d in self._items)

    def refuse_if_any(self) -> None:
        """Raise `Refused` with everything collected if there is an error among it."""
        if self.has_errors:
            raise Refused(self._items)


#: code -> what it means. B: boxes of MX scales, G: e-graphs of others, J: reading JSON, L: lowering, M: memory, P: reading printed
#: programs, R: running, S: SSA and scopes, T: types and ops, U: use of the command line, V: shape of the result (TileOps2D,
#: linearity, accumulators), W: warnings, X: an internal fault that was caught
CODES: dict[str, str] = {}


def declare(**codes: str) -> None:
    """Add codes to the catalogue; a code is declared once, next to what reports it."""
    for code, meaning in codes.items():
        if CODES.setdefault(code, meaning) != meaning:
            raise ValueError(f"diagnostic code {code} is declared twice")
