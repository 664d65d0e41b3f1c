"""What every part of the reader shares: findings with their paths, checked access to fields, and the names in scope.

A finding is recorded with a JSON path (`$.functions[0].body[2].args[1]`); line and column are looked up once, at the end, and only when
there are findings. A part that cannot be read raises `Bad` after it has reported; whoever reads the list around it goes on with the next
element, so that every error of a program is found in one run. A value that could not be read has the type `POISON`, and nothing is
reported about what uses it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pypto_ir.diagnostics import Diagnostic, Place, Refused, declare
from pypto_ir.expr import Var
from pypto_ir.expr_parser import NAME, RESERVED
from pypto_ir.json_place import Path, locate, path_text, positions, steps
from pypto_ir.types import Type, UnknownType

declare(
    J101="a value has the wrong JSON type",
    J102="a key is not known here",
    J103="a key is missing",
    J104="a word is not one of the allowed ones",
    J105="a number is outside the allowed range",
    J106="a list has the wrong number of elements",
    J107="text holds half of a surrogate pair and cannot be written as UTF-8",
    J199="there are more errors than are listed",
    J201="a name is defined twice",
    J202="a name is not defined",
    J203="a name is used outside its scope or before its definition",
    J204="a name is not allowed",
)

#: the type of a value that could not be read; told from a real unknown type by identity
POISON = UnknownType()
#: findings after which reading stops
MAX_FINDINGS = 1000


class Bad(Exception):
    """A part of the program could not be read; the reason has been reported."""


class _Enough(Exception):
    """So many findings that reading stops."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that an object may have."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    allowed: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowed", frozenset((*self.required, *self.optional)))


@dataclass(frozen=True, slots=True)
class _Finding:
    code: str
    message: str
    path: Path
    help: str | None
    on_key: bool
    offset: int | None
    function: str | None
    statement: str | None
    loc: str | None


class Reading:
    """One run of the reader: what was found, and where it is at the moment."""

    def __init__(self) -> None:
        self.findings: list[_Finding] = []
        self.function: str | None = None
        self.statement: str | None = None
        self.loc: str | None = None
        self.names = Names(self)

    def report(
        self, code: str, path: Path, message: str, help: str | None = None, *, on_key: bool = False, offset: int | None = None
    ) -> None:
        """Record a finding at a path; `offset` is a place inside the string there, `on_key` points at the key instead."""
        self.findings.append(
            _Finding(code, message, path, help, on_key, offset, self.function, self.statement, self.loc)
        )
        if len(self.findings) >= MAX_FINDINGS:
            raise _Enough

    def fail(self, code: str, path: Path, message: str, help: str | None = None, **rest: Any) -> NoReturn:
        """Record a finding and give up the part at hand."""
        self.report(code, path, message, help, **rest)
        raise Bad

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """A part whose failure does not stop the parts after it."""
        try:
            yield
        except Bad:
            return

    def object(self, value: Any, path: Path, what: str, keys: Keys) -> dict[str, Any]:
        """A JSON object with only the allowed keys; every unknown and every missing key is reported."""
        if type(value) is not dict:
            self.fail("J101", path, f"found {found(value)}, allowed is {what}, an object")
        if not value.keys() <= keys.allowed:
            for key in value:
                if key not in keys.allowed:
                    self.unknown("J102", (path, key), f"the key {short(key)} in {what}", key, (*keys.required, *keys.optional), on_key=True)
        missing = [key for key in keys.required if key not in value]
        if missing:
            self.fail("J103", path, f"{what} needs the key{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
        return value

    def unknown(self, code: str, path: Path, what: str, word: str, allowed: Iterable[str], *, on_key: bool = False) -> None:
        """Report a word that is not among the allowed ones, with the nearest of them."""
        choices = list(allowed)
        close = difflib.get_close_matches(word[:60], choices, 1)
        listed = ", ".join(choices[:30]) + (", .." if len(choices) > 30 else "")
        message = f"found {what}, which is not known; allowed: {listed}" if choices else f"found {what}, allowed is nothing"
        self.report(code, path, message, f"did you mean {close[0]}?" if close else None, on_key=on_key)

    def list(self, value: Any, path: Path, what: str) -> list[Any]:
        if type(value) is not list:
            self.fail("J101", path, f"found {found(value)}, allowed is {what}, a list")
        return value

    def string(self, value: Any, path: Path, what: str) -> str:
        if type(value) is not str:
            self.fail("J101", path, f"found {found(value)}, allowed is {what}, a string")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                self.fail("J107", path, f"{what} holds half of a surrogate pair")
        return value

    def word(self, value: Any, path: Path, what: str, allowed: Sequence[str]) -> str:
        """One of the allowed words."""
        if type(value) is str and value in allowed:
            return value
        if type(value) is not str:
            self.fail("J101", path, f"found {found(value)}, allowed is {what}, one of {', '.join(allowed)}")
        self.unknown("J104", path, f"the {what} {short(value)}", value, allowed)
        raise Bad

    def integer(self, value: Any, path: Path, what: str, low: int = -(2**63), high: int = 2**63 - 1) -> int:
        if type(value) is not int:
            self.fail("J101", path, f"found {found(value)}, allowed is {what}, an integer")
        if not low <= value <= high:
            self.fail("J105", path, f"found {found(value)}, allowed is {what} from {bound(low)} to {bound(high)}")
        return value

    def flag(self, value: Any, path: Path, what: str) -> bool:
        if type(value) is not bool:
            self.fail("J101", path, f"found {found(value)}, allowed is {what}, true or false")
        return value

    def refuse_if_any(self, text: str, file: str | None, repeated: bool) -> None:
        """Raise `Refused` with every finding, each with its place; `repeated` asks for the keys that occur twice as well."""
        if not self.findings and not repeated:
            return
        paths = [steps(f.path) for f in self.findings]
        located = locate(text, paths)
        doubles = located.repeated[:MAX_FINDINGS]
        offsets = [_offset(f, p, text, located.values, located.keys) for f, p in zip(self.findings, paths, strict=True)]
        where = positions(text, (*offsets, *(at for _, at in doubles)))
        result = []
        for finding, path, offset in zip(self.findings, paths, offsets, strict=True):
            place = Place(file, *where[offset], path_text(path), finding.function, finding.statement, finding.loc)
            result.append((offset, Diagnostic(finding.code, finding.message, place, finding.help)))
        for path, offset in doubles:
            place = Place(file, *where[offset], path_text(path))
            result.append((offset, Diagnostic("J005", f"the key {short(str(path[-1]))} occurs twice in this object", place)))
        result.sort(key=lambda pair: pair[0])
        raise Refused([diagnostic for _, diagnostic in result])

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """The whole reading: stops quietly after `MAX_FINDINGS` findings, with a last one that says so."""
        try:
            yield
        except _Enough:
            self.findings.append(_Finding("J199", f"reading stopped after {MAX_FINDINGS} errors", None, None, False, None, None, None, None))
        except Bad:
            return


def _offset(
    finding: _Finding,
    path: tuple[str | int, ...],
    text: str,
    values: dict[tuple[str | int, ...], int],
    keys: dict[tuple[str | int, ...], int],
) -> int:
    if finding.on_key and path in keys:
        return keys[path]
    while path not in values and path:
        path = path[:-1]
    start = values.get(path, 0)
    if finding.offset is not None and text.startswith('"', start) and "\\" not in text[start : start + finding.offset + 1]:
        return start + 1 + finding.offset
    return start


class Names:
    """The names of one function: defined once, visible in their block and the blocks inside it."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.visible: dict[str, Var] = {}
        self.defined: set[str] = set()
        self.trail: list[str] = []

    def start(self, dynamic: Iterable[Var]) -> None:
        """Begin a function: only the dynamic dims of the program are visible."""
        self.visible = {var.name: var for var in dynamic}
        self.defined = set(self.visible)
        self.trail = []

    def check(self, value: Any, path: Path, what: str) -> str:
        """A name that may be given to something; raises `Bad` where it may not."""
        name = self.reading.string(value, path, what)
        if not NAME.match(name):
            self.reading.fail("J204", path, f"found {short(name)}, a name is letters, digits and _, and starts with no digit")
        if name in RESERVED:
            self.reading.fail("J204", path, f"found {short(name)}, which is a reserved word and cannot be a name", f"write {name}_")
        return name

    def define(self, value: Any, path: Path, t: Type) -> Var:
        """A new variable; a name that cannot be one, or is taken, is reported and the variable given all the same."""
        try:
            name = self.check(value, path, "the name of a value")
        except Bad:
            return Var("_", POISON)
        if name in self.defined:
            self.reading.report("J201", path, f"{name} is defined before in this function", "a name is defined once in a function")
            if name in self.visible:
                return Var(name, t)
        var = Var(name, t)
        self.defined.add(name)
        self.visible[name] = var
        self.trail.append(name)
        return var

    def lookup(self, name: str, path: Path, offset: int | None) -> Var:
        """The variable of a name; an unknown one is reported and given the type `POISON`."""
        var = self.visible.get(name)
        if var is not None:
            return var
        if name in self.defined:
            message = f"{name} is defined inside another block and cannot be seen here"
            self.reading.report("J203", path, message, "hand it on with a yield and the results of its block", offset=offset)
        else:
            close = difflib.get_close_matches(name[:60], list(self.visible)[-2000:], 1)
            self.reading.report("J202", path, f"{short(name)} is not defined", f"did you mean {close[0]}?" if close else None, offset=offset)
        return Var(name, POISON)

    @contextmanager
    def block(self) -> Iterator[None]:
        """A block whose names end with it."""
        mark = len(self.trail)
        try:
            yield
        finally:
            for name in self.trail[mark:]:
                self.visible.pop(name, None)
            del self.trail[mark:]


def short(text: str) -> str:
    """A quoted piece of the input for a message, at most 40 characters of it."""
    return ascii(text) if len(text) <= 40 else ascii(text[:40]) + ".."


def bound(value: int) -> str:
    """A bound for a message; powers of two beyond 32 bits as such."""
    for power in (63, 64, 31, 32):
        for base, name in ((2**power, f"2**{power}"), (-(2**power), f"-2**{power}"), (2**power - 1, f"2**{power} - 1")):
            if value == base:
                return name
    return str(value)


def found(value: Any) -> str:
    """A JSON value in a few words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if abs(value) < 10**40 else "a number of more than 40 digits"
        case float():
            return repr(value)
        case str():
            return f"the string {short(value)}"
        case list():
            return f"a list of {len(value)}"
        case dict():
            keys = ", ".join(short(k)[1:-1] for k in list(value)[:4])
            return f"an object with the keys {keys}" if value else "an empty object"
    return type(value).__name__
