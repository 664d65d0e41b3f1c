"""Before and after side by side: lines that define one name stand beside each other, and what differs in them is marked.

x: pl.Tile[[4, 16, 64], ..] = load(x_in, ..)        x: pl.Tile[[64, 64], ..] = load(x_in, ..)
y: ..                                               y_0: ..
                                                    y_1: ..
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from pypto_ir.diagnostics import Refused
from pypto_ir.formats import TEXT, write_as
from pypto_ir.stmt import Program

#: unchanged lines around a change; longer runs of them are folded
CONTEXT = 3
#: lines in which single words are marked; beyond these whole lines are
MARKED = 600
_KEY = re.compile(r"\s*(?:for )?(?P<name>[A-Za-z_]\w*)(?:: |,| = )")
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_HEAD = re.compile(r"^ *(@pl\.function|def (?P<name>\w+)\()")

#: a piece of a line and whether it differs
Piece = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class Row:
    """A line before and the line after it, None where there is none; `kind` is same, changed, added or removed."""

    kind: str
    before: tuple[Piece, ...] | None
    after: tuple[Piece, ...] | None


def indent(pieces: tuple[Piece, ...]) -> int:
    """The spaces that a line starts with."""
    text = "".join(piece for piece, _ in pieces)
    return len(text) - len(text.lstrip(" "))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows in a row; `folded` where nothing in them changes and nothing near them does."""

    rows: tuple[Row, ...]
    folded: bool


def functions_text(program: Program) -> dict[str, list[str]]:
    """The printed lines of every function by name, indentation of the class taken away; none for a program that has no printed form."""
    try:
        lines = write_as(program, TEXT).splitlines()
    except Refused:
        return {}
    starts = [i for i, line in enumerate(lines) if line.startswith("    @pl.function")]
    found: dict[str, list[str]] = {}
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        part = [line[4:].rstrip() for line in lines[start:end]]
        while part and not part[-1]:
            part.pop()
        name = next((m["name"] for line in part if (m := _HEAD.match(line)) and m["name"]), None)
        if name is not None:
            found[name] = part
    return found


def stretches(before: list[str], after: list[str]) -> list[Stretch]:
    """The rows of two texts, long runs of equal lines as stretches of their own."""
    rows = sides(before, after)
    near = [False] * len(rows)
    for i, row in enumerate(rows):
        if row.kind != "same":
            for j in range(max(0, i - CONTEXT), min(len(rows), i + CONTEXT + 1)):
                near[j] = True
    result: list[Stretch] = []
    start = 0
    for i in range(1, len(rows) + 1):
        if i == len(rows) or near[i] != near[start]:
            part = tuple(rows[start:i])
            result.append(Stretch(part, not near[start] and len(part) > 2 * CONTEXT))
            start = i
    return result


def sides(before: list[str], after: list[str]) -> list[Row]:
    """The rows of two texts, in order."""
    keys = [_key(line) for line in before], [_key(line) for line in after]
    rows: list[Row] = []
    marked = 0
    for tag, a, b, c, d in SequenceMatcher(None, *keys, autojunk=len(before) > 2_000).get_opcodes():
        if tag == "equal":
            for old, new in zip(before[a:b], after[c:d], strict=True):
                if old == new:
                    rows.append(Row("same", ((old, False),), ((new, False),)))
                else:
                    marked += 1
                    left, right = _words(old, new) if marked <= MARKED else (((old, True),), ((new, True),))
                    rows.append(Row("changed", left, right))
        else:
            rows += [Row("removed", ((line, True),), None) for line in before[a:b]]
            rows += [Row("added", None, ((line, True),)) for line in after[c:d]]
    return rows


def _key(line: str) -> str:
    """What a line is known by: the name that it defines, else all of it."""
    found = _KEY.match(line)
    if found is not None:
        return f"{len(line) - len(line.lstrip())} {found['name']}"
    head = _HEAD.match(line)
    return line if head is None or head["name"] is None else f"def {head['name']}"


def _words(old: str, new: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    a, b = _WORD.findall(old), _WORD.findall(new)
    left: list[Piece] = []
    right: list[Piece] = []
    for tag, i, j, k, n in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        same = tag == "equal"
        left.append(("".join(a[i:j]), not same))
        right.append(("".join(b[k:n]), not same))
    return tuple(p for p in left if p[0]), tuple(p for p in right if p[0])
