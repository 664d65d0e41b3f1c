"""Where the value at a JSON path stands in the text: computed only for the paths of diagnostics.

In `{"a": [1, 2]}` the value at `$.a[1]` starts at line 1, column 11, its key `a` at column 2. One linear walk
over the tokens, without recursion, finds any number of paths; the text must be JSON (it has been parsed
before).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import TypeAlias

#: a path from the root as a linked list, cheap to extend: `((None, "functions"), 0)` is `$.functions[0]`
Path: TypeAlias = "tuple[Path, str | int] | None"

_TOKEN = re.compile(r'[ \t\n\r]*(?:([{}\[\],:])|("[^"\\]*(?:\\.[^"\\]*)*")|([^ \t\n\r{}\[\],:"]+))', re.DOTALL)
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[(\d+)\]")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(slots=True)
class _Wanted:
    """A node of the tree of wanted paths."""

    below: dict[str | int, _Wanted] = field(default_factory=dict)


@dataclass(slots=True)
class Located:
    """Offsets of values and of the keys before them, by wanted path; keys that occur twice as (path, offset
    of the later key)."""

    values: dict[tuple[str | int, ...], int] = field(default_factory=dict)
    keys: dict[tuple[str | int, ...], int] = field(default_factory=dict)
    repeated: list[tuple[tuple[str | int, ...], int]] = field(default_factory=list)


def steps(path: Path) -> tuple[str | int, ...]:
    """The steps of a path from the root."""
    result: list[str | int] = []
    while path is not None:
        path, step = path
        result.append(step)
    return tuple(reversed(result))


def path_text(parts: Iterable[str | int]) -> str:
    """A path in the usual spelling: `$.functions[0].body[2]`; keys that are no names are quoted."""
    text = "$"
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.match(part):
            text += f".{part}"
        else:
            text += f"[{part[:60]!a}]"
    return text


def steps_of(path: str) -> tuple[str | int, ...]:
    """The steps of a path in the usual spelling, as far as they are plain keys and numbers."""
    result: list[str | int] = []
    at = 1
    while found := _STEP.match(path, at):
        result.append(found[1] if found[1] is not None else int(found[2]))
        at = found.end()
    return tuple(result)


def locate(text: str, paths: Iterable[tuple[str | int, ...]]) -> Located:
    """Offsets of the wanted paths, and every repeated key, in one walk. For a repeated key the last value
    counts, as in reading."""
    root = _Wanted()
    for path in paths:
        node = root
        for step in path:
            node = node.below.setdefault(step, _Wanted())
    return _walk(text, root)


def _walk(text: str, root: _Wanted) -> Located:
    found = Located()
    path: list[str | int] = []
    wanted: list[_Wanted | None] = [root]
    keys: list[set[str] | None] = []  # per open container: the keys seen, or None for a list
    expect_key = False
    for token in _TOKEN.finditer(text):
        mark, start = token[1], token.start(token.lastindex or 0)
        if mark == ",":
            last = path[-1]
            if isinstance(last, int):
                path[-1] = last + 1
                wanted[-1] = _child(wanted[-2], last + 1)
            else:
                expect_key = True
        elif mark in ("]", "}"):
            keys.pop()
            path.pop()
            wanted.pop()
        elif mark == ":":
            expect_key = False
        elif expect_key:
            key = str(scanstring(text, start + 1)[0])
            seen = keys[-1]
            path[-1] = key
            wanted[-1] = _child(wanted[-2], key)
            if seen is not None and key in seen:
                found.repeated.append((tuple(path), start))
            elif seen is not None:
                seen.add(key)
            if wanted[-1] is not None:
                found.keys[tuple(path)] = start
        else:
            if wanted[-1] is not None:
                found.values[tuple(path)] = start
            if mark == "{":
                keys.append(set())
                path.append("")
                wanted.append(None)
                expect_key = True
            elif mark == "[":
                keys.append(None)
                path.append(0)
                wanted.append(_child(wanted[-1], 0))
            continue
        if mark in ("]", "}"):
            expect_key = False
    return found


def _child(node: _Wanted | None, step: str | int) -> _Wanted | None:
    return None if node is None else node.below.get(step)


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1, the column in characters."""
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def positions(text: str, offsets: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Line and column of many offsets in one pass."""
    result: dict[int, tuple[int, int]] = {}
    line, before = 1, 0
    for offset in sorted(set(offsets)):
        line += text.count("\n", before, offset)
        before = offset
        result[offset] = (line, offset - text.rfind("\n", 0, offset))
    return result
