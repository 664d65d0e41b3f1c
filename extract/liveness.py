"""Live ranges of tile buffers in a 2-D function, by position: the index of a statement in program order.

    0  x = load(..)  16 KiB     x 0..2
    1  y = load(..)  16 KiB     y 1..2
    2  z = add(x, y) 16 KiB     z 2..4      peak 48 KiB at 2: the op writes z while it reads x and y
    3  w = slice(z, ..)                     a view lies in z's buffer
    4  store(w, ..)

A range holds both its ends, so an op shares no buffer between what it reads and what it writes, unless it
writes in place. Views (`OpDef.aliases`) and results in place lie in the buffer of their operand. A value
that nobody reads takes its buffer at its definition, scratch at its op.

**Loops.** A buffer that is born outside and read inside is live to the end of the loop. A carry has a
home, one buffer for argument and result, live from the loop's statement to its end. The home is the
buffer of the initial value where nothing else reads that afterwards (or the loop never overwrites it),
else a buffer of its own, which the initial value is copied to. Where the yielded tile lies in the home
nothing moves. Where it does not, the device copies it there when the body ends, so both live until then;
where carries of one loop change places, a staging buffer lives there too. Memories without a copy to
themselves (all but Vec) cannot do that: there the yielded tile is made in the home itself, if nothing
reads the home from the tile's birth on.

**Branches.** The result lies in the buffer that both arms yield, else in one that is born in an arm, live
from the branch's statement on, else in one of its own; the other arm copies its tile there at its end.
Without a copy the tiles of both arms are one buffer, under the same condition: `if k == 0: matmul(..)
else: matmul_acc(a, ..)` writes a's buffer in both arms.

**Pipelining.** The result of an op that reads global memory into Vec or Mat (`tile.load`, ..) inside a
`pipeline` loop of `pipeline_stages` F, at whatever depth, counts F times (the product, for nested ones):
the next F - 1 are loaded while one is used. A tile in memory that the author has placed (`MemRef`) does
not: its slots are its copies. Tiles of one `MemRef` base are one buffer.

Operands that a matmul takes from Mat are tiled into L0A and L0B by a later pass and are not counted
there; tiles of the program in Left and Right are. A tile parameter is live throughout. Time is linear in
the program but for a sort.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extract.ranges import slots_of
from extract.target import Target
from pypto_ir.stmt import Function, Stmt
from pypto_ir.types import Memory


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer that lives at positions first..last; `bytes` are those of one of its `copies`, rounded up
    to the allocation unit. `statement` is what it is made by, None for a parameter."""

    name: str
    memory: Memory
    bytes: int
    copies: int
    first: int
    last: int
    statement: Stmt | None

    @property
    def total(self) -> int:
        return self.bytes * self.copies


@dataclass(frozen=True, slots=True)
class Peak:
    """The most bytes that are live together in a memory, the first position where they are, and the
    buffers, by birth."""

    bytes: int
    position: int
    live: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Liveness:
    """Buffers by birth, the peak of every memory that holds one, and the number of the buffer that a tile
    lies in, by its name (`t.0` for the first item of a tuple t)."""

    buffers: tuple[Buffer, ...]
    peaks: Mapping[Memory, Peak]
    places: Mapping[str, int]


def liveness(function: Function, target: Target) -> Liveness:
    """Live ranges of the tile buffers of a function of 2-D tiles; N-D tiles count as their flat form."""
    found, places = slots_of(function, target)
    buffers = tuple(Buffer(s.name, s.memory, s.size, s.copies, s.first, s.last, s.statement) for s in found)
    memories = [m for m in Memory if any(b.memory is m for b in buffers)]
    peaks = {m: _peak([b for b in buffers if b.memory is m]) for m in memories}
    return Liveness(buffers, peaks, places)


def _peak(buffers: list[Buffer]) -> Peak:
    change: dict[int, int] = {}
    for b in buffers:
        change[b.first] = change.get(b.first, 0) + b.total
        change[b.last + 1] = change.get(b.last + 1, 0) - b.total
    live = most = at = 0
    for position in sorted(change):
        live += change[position]
        if live > most:
            most, at = live, position
    return Peak(most, at, tuple(b for b in buffers if b.first <= at <= b.last))
