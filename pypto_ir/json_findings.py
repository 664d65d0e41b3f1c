"""What the reader finds wrong, and how it becomes diagnostics.

A finding is recorded with a JSON path (`$.functions[0].body[2].args[1]`); line and column are looked up once,
at the end, and only when there are findings. A part that cannot be read raises `Bad` after it has reported;
whoever reads the list around it goes on with the next element, so that every error of a program is found in
one run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from pypto_ir.diagnostics import Diagnostic, Place, Refused
from pypto_ir.json_place import Path, locate, path_text, positions, steps, steps_of

#: findings after which reading stops
MAX_FINDINGS = 1000


class Bad(Exception):
    """A part of the program could not be read; the reason has been reported."""


class Enough(Exception):
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
class Finding:
    """`offset` is a place inside the string at `path`; `on_key` points at the key instead."""

    code: str
    message: str
    path: Path
    help: str | None
    on_key: bool
    offset: int | None
    function: str | None
    statement: str | None
    loc: str | None


def refuse_if_any(findings: list[Finding], text: str, file: str | None, repeated: bool) -> None:
    """Raise `Refused` with every finding, each with its place; `repeated` asks for the keys that occur
    twice as well."""
    if not findings and not repeated:
        return
    paths = [steps(f.path) for f in findings]
    located = locate(text, paths)
    doubles = located.repeated[:MAX_FINDINGS]
    offsets = [_offset(f, p, text, located.values, located.keys) for f, p in zip(findings, paths, strict=True)]
    where = positions(text, (*offsets, *(at for _, at in doubles)))
    result = []
    for finding, path, offset in zip(findings, paths, offsets, strict=True):
        place = Place(file, *where[offset], path_text(path), finding.function, finding.statement, finding.loc)
        result.append((offset, Diagnostic(finding.code, finding.message, place, finding.help)))
    for path, offset in doubles:
        place = Place(file, *where[offset], path_text(path))
        result.append(
            (
                offset,
                Diagnostic("J005", f"the key {short(str(path[-1]))} occurs twice in this object", place),
            )
        )
    result.sort(key=lambda pair: pair[0])
    raise Refused([diagnostic for _, diagnostic in result])


def in_file(diagnostics: Iterable[Diagnostic], text: str, file: str | None) -> list[Diagnostic]:
    """Diagnostics about a program with the lines and columns of the text that it was read from, by their JSON
    paths."""
    items = list(diagnostics)
    paths = [steps_of(d.place.path) if d.place.path else None for d in items]
    located = locate(text, (p for p in paths if p is not None))
    where = positions(text, located.values.values())
    result: list[Diagnostic] = []
    for d, path in zip(items, paths, strict=True):
        if d.place.line is None and path is not None:
            while path not in located.values and path:
                path = path[:-1]
            line, column = where.get(located.values.get(path, 0), (1, 1))
            d = replace(d, place=replace(d.place, file=file, line=line, column=column))
        elif d.place.file is None:
            d = replace(d, place=replace(d.place, file=file))
        result.append(d)
    return result


def _offset(
    finding: Finding,
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


def short(text: str) -> str:
    """A quoted piece of the input for a message, at most 40 characters of it."""
    return ascii(text) if len(text) <= 40 else ascii(text[:40]) + ".."


def bound(value: int) -> str:
    """A bound for a message; powers of two beyond 32 bits as such."""
    for power in (63, 64, 31, 32):
        for base, name in (
            (2**power, f"2**{power}"),
            (-(2**power), f"-2**{power}"),
            (2**power - 1, f"2**{power} - 1"),
        ):
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
