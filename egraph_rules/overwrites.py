"""Which of many writes into a tile a window sees, and which of them a later write leaves nothing of.

    y1 = assemble(t, a, [0, 0])         rows 0 to 15
    y2 = assemble(y1, b, [16, 0])       rows 16 to 31
    y3 = assemble(y2, c, [32, 0])       rows 32 to 47
    s = slice(y3, [16, 64], [0, 0])     sees a: what lies there in y3 lies there in y1

Where boxes stand at constants, or at constants beside one scalar, it is found without going through the writes one by one: a box is
filed under the power-of-two intervals of rows and columns that it is made of and that it lies in, so that a window finds the last write
that touches it under the logarithm of the tile's sizes many keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

from pypto_ir.expr import Expr
from pypto_ir.linear import Linear, linear

#: positions that boxes may be told apart by: the first ones that a tile is written at
ORIGINS = 4

#: a power-of-two interval of one axis, as its level and its number; its role: touched by a box, or covered by one
_Node = tuple[int, int]
_Key = tuple[bool, _Node]
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Span:
    """Rows or columns: `size` of them from `start` beyond `origin`, which is what varies of a position."""

    origin: Linear
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Box:
    """What a window reads or an assemble writes; where it is no run of rows, what lies between its pages too."""

    rows: Span
    columns: Span


def span(e: Expr, size: int) -> Span:
    """So many rows or columns from a position on."""
    form = linear(e)
    return Span(replace(form, constant=0), form.constant, size)


@dataclass(slots=True)
class Overwrites:
    """The writes into a tile of `sizes` rows and columns, one after another; `names[n]` is the tile after n of them. The type of the tile
    stays the same."""

    sizes: tuple[int, int]
    names: list[str]
    boxes: list[Box] = field(default_factory=list)
    _files: dict[tuple[Linear, Linear], _File] = field(default_factory=dict)

    def write(self, name: str, box: Box) -> None:
        """A box is written into the last tile, which makes the tile `name`."""
        self.boxes.append(box)
        self.names.append(name)
        for origins, file in self._files.items():
            file.add(len(self.boxes), self._intervals(box, origins))

    def seen(self, count: int, box: Box) -> int:
        """How many of the first `count` writes there are up to the last that may touch a box."""
        file, origins = self._file(box)
        return count if file is None else file.last(self._intervals(box, origins), count)

    def beside(self, count: int, box: Box) -> int:
        """How many of the first `count` writes there are up to the last that may touch anything outside of a box."""
        origins = box.rows.origin, box.columns.origin
        file, found = self._file(box)
        if file is None or found != origins:
            return count
        (top, bottom), (left, right) = self._intervals(box, origins)
        (first, end), (start, stop) = self._all()
        around = (
            ((first, top), (start, stop)),
            ((bottom, end), (start, stop)),
            ((first, end), (start, left)),
            ((first, end), (right, stop)),
        )
        return max(file.last(part, count) for part in around)

    def _file(self, box: Box) -> tuple[_File | None, tuple[Linear, Linear]]:
        """The file of boxes beside the origin of a box, or one that knows its rows or its columns at least."""
        own = box.rows.origin, box.columns.origin
        if own not in self._files and len(self._files) < ORIGINS:
            self._files[own] = file = _File((_level(3 * self.sizes[0]), _level(3 * self.sizes[1])))
            for number, written in enumerate(self.boxes, 1):
                file.add(number, self._intervals(written, own))
        if own in self._files:
            return self._files[own], own
        near = next((o for o in self._files if own[1] == o[1]), None) or next((o for o in self._files if own[0] == o[0]), None)
        return (None, own) if near is None else (self._files[near], near)

    def _all(self) -> tuple[Interval, Interval]:
        """Every row and column that a box may be in, counted from one tile before the origin."""
        return (0, 3 * self.sizes[0]), (0, 3 * self.sizes[1])

    def _intervals(self, box: Box, origins: tuple[Linear, Linear]) -> tuple[Interval, Interval]:
        """Rows and columns of a box counted from one tile before an origin; all of them where it stands beside another one."""
        found = []
        for s, origin, size, everything in zip((box.rows, box.columns), origins, self.sizes, self._all(), strict=True):
            start = s.start + size
            inside = s.origin == origin and everything[0] <= start and start + s.size <= everything[1]
            found.append((start, start + s.size) if inside else everything)
        return found[0], found[1]


class _File:
    """Numbers of boxes by the intervals of both axes that they touch or cover, least first; `tops` are the levels of the intervals that
    hold all others."""

    def __init__(self, tops: tuple[int, int]) -> None:
        self.tops = tops
        self.numbers: dict[tuple[_Key, ...], list[int]] = {}

    def add(self, number: int, intervals: tuple[Interval, Interval]) -> None:
        for key in product(*map(self._filed, intervals, self.tops)):
            self.numbers.setdefault(key, []).append(number)

    def last(self, intervals: tuple[Interval, Interval], count: int) -> int:
        """The last number up to `count` of a box that shares a row and a column with these; 0 where there is none."""
        best = 0
        for key in product(*map(self._asked, intervals, self.tops)):
            numbers = self.numbers.get(key, ())
            place = bisect_left(numbers, count + 1)
            if place:
                best = max(best, numbers[place - 1])
        return best

    # two intervals meet where a part of one is a part of the other, or lies in one

    def _filed(self, interval: Interval, top: int) -> list[_Key]:
        parts = list(_parts(interval))
        touched = dict.fromkeys(n for part in parts for n in (part, *_around(part, top)))
        return [*((True, n) for n in touched), *((False, part) for part in parts)]

    def _asked(self, interval: Interval, top: int) -> list[_Key]:
        parts = list(_parts(interval))
        around = dict.fromkeys(n for part in parts for n in _around(part, top))
        return [*((True, part) for part in parts), *((False, n) for n in around)]


def _parts(interval: Interval) -> Iterator[_Node]:
    """The largest power-of-two intervals that an interval is made of: 3 to 8 is 3, 4 to 7 and 8."""
    start, stop = interval
    level = 0
    while start < stop:
        if start & 1:
            yield level, start
            start += 1
        if stop & 1:
            stop -= 1
            yield level, stop
        start, stop, level = start >> 1, stop >> 1, level + 1


def _around(node: _Node, top: int) -> Iterator[_Node]:
    """The power-of-two intervals that one lies in, up to that of level `top`."""
    level, number = node
    while level < top:
        level, number = level + 1, number >> 1
        yield level, number


def _level(size: int) -> int:
    """The level of the interval that holds so many positions from 0 on."""
    return (size - 1).bit_length()
