"""Buffers while liveness is being found: which names lie in which buffer, and which buffers are one.

    acc = tile.create(..)                   buffer acc
    for k, (a,) in range(8), init (acc,):   buffer a, the home of the carry
        b = matmul_acc(a, ..); yield b      b lies in a: the carry stays in its home
    -> r                                    a and acc are one buffer, read nowhere else; r lies in it

Buffers are joined by union-find. Each remembers when it is born, read and last needed, and in which
loops: a buffer that is born outside a loop and read inside must outlive every trip of it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from extract.extent import extent
from extract.target import Target
from pypto_ir.stmt import Stmt
from pypto_ir.types import Memory, TileType

#: spaces that hold no tile buffers of the chip
NOT_COUNTED = frozenset({Memory.DDR, Memory.SCALAR_LOCAL})


def footprint(tile: TileType, target: Target) -> int:
    """Bytes of a tile's buffer: physical rows * columns * element bytes (`spec/hardware.md` 1.1), rows of
    accumulators rounded up to `Target.acc_row_alignment`, the whole to `Target.allocation`. The valid
    shape is irrelevant."""
    e = extent(tile)
    memory = tile.memory or Memory.VEC
    rows = e.rows
    if memory is Memory.ACC:
        step = target.acc_row_alignment(tile.dtype)
        rows = -(-rows // step) * step
    unit = target.allocation(memory)
    return -(-ceil(rows * e.cols * e.size) // unit) * unit


class Location(NamedTuple):
    """Where a value lies: a buffer, and a region of it that only equals itself (0 is the whole)."""

    slot: int
    region: int


@dataclass(slots=True)
class Slot:
    """A buffer: `depth` loops are around its birth, `fresh_in` is the loop (0: none) that sets its
    content anew in every trip, `next_read` the last position at which a name bound so far is read,
    `overwritten` tells of writes that are no op in place."""

    name: str
    memory: Memory
    size: int
    first: int
    last: int
    statement: Stmt | None
    depth: int
    fresh_in: int
    copies: int = 1
    next_read: int = -1
    overwritten: bool = False
    reads: list[int] = field(default_factory=list)

    def read_within(self, first: int, last: int) -> bool:
        """True where a read in first..last has been met."""
        i = bisect_left(self.reads, first)
        return i < len(self.reads) and self.reads[i] <= last


@dataclass(slots=True)
class Slots:
    """All buffers met so far; `find` gives the buffer that a number stands for now."""

    items: list[Slot] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)

    def add(self, slot: Slot) -> int:
        self.items.append(slot)
        self.parents.append(len(self.parents))
        return len(self.parents) - 1

    def find(self, number: int) -> int:
        parents = self.parents
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    def of(self, where: Location) -> Slot:
        return self.items[self.find(where.slot)]

    def same(self, a: Location, b: Location) -> bool:
        """True where two values lie in the same bytes."""
        return self.find(a.slot) == self.find(b.slot) and a.region == b.region

    def join(self, goes: int, into: int) -> None:
        """Make two buffers one; `into` keeps its name and the loop that renews it."""
        goes, into = self.find(goes), self.find(into)
        if goes == into:
            return
        self.parents[goes] = into
        a, b = self.items[goes], self.items[into]
        b.first, b.last, b.depth = min(a.first, b.first), max(a.last, b.last), min(a.depth, b.depth)
        b.size, b.copies, b.next_read = (
            max(a.size, b.size),
            max(a.copies, b.copies),
            max(a.next_read, b.next_read),
        )
        b.overwritten |= a.overwritten
        b.reads = sorted(a.reads + b.reads) if a.reads and b.reads else a.reads or b.reads
        a.reads = []

    def roots(self) -> list[int]:
        """The numbers of the buffers of the chip that are left, by birth."""
        left = [i for i, s in enumerate(self.items) if self.parents[i] == i and s.size > 0]
        return sorted(left, key=lambda i: self.items[i].first)
