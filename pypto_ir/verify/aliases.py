"""Which buffer a tile value lies in, which part of it, and which writes into it the value does not know of.

A value is a few alternatives (a branch or a loop that may run zero times gives more than one), each a `Ref`:
a buffer, a box in the buffer's coordinates, and what has been written to the buffer since. For `w = slice(a,
[16, 32], [t * 16, 0])`, `p = matmul_acc(w, ..)`, `p` is the box rows t*16..t*16+16 of a's buffer and knows of
its own write; `a` misses that write, and reading `a` now would read `p`'s data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TypeAlias

from pypto_ir.expr import Binary, Expr, const_int, index
from pypto_ir.linear import normalize, provably_le
from pypto_ir.stmt import Stmt
from pypto_ir.types import TileType
from pypto_ir.verify.places import StmtPath

#: most writes that are told apart among those that a value does not know of
MISSED = 8


@dataclass(frozen=True, slots=True)
class Box:
    """A box in the coordinates of a buffer: offsets in normal form, sizes in elements."""

    offsets: tuple[Expr, ...]
    sizes: tuple[int, ...]

    @staticmethod
    def of(t: TileType) -> Box | None:
        """The whole of a tile, None where its shape is not constant."""
        shape = t.static_shape
        return Box((index(0),) * len(shape), shape) if shape is not None else None

    def part(self, offsets: Sequence[Expr], sizes: Sequence[int]) -> Box | None:
        """The box at `offsets` in this one; None where the ranks differ."""
        if len(offsets) != len(self.offsets) or len(sizes) != len(self.sizes):
            return None
        starts = tuple(normalize(Binary("add", a, b)) for a, b in zip(self.offsets, offsets, strict=True))
        return Box(starts, tuple(sizes))


def disjoint(a: Box | None, b: Box | None) -> bool:
    """True where two boxes of one buffer provably share no cell."""
    if a is None or b is None or len(a.sizes) != len(b.sizes):
        return False
    axes = zip(a.offsets, a.sizes, b.offsets, b.sizes, strict=True)
    return any(_before(x, m, y) or _before(y, n, x) for x, m, y, n in axes)


def covers(outer: Box | None, inner: Box | None) -> bool:
    """True where `inner` provably lies in `outer`; None is the whole buffer."""
    if outer is None:
        return True
    if inner is None or len(outer.sizes) != len(inner.sizes):
        return False
    axes = zip(outer.offsets, outer.sizes, inner.offsets, inner.sizes, strict=True)
    return all(provably_le(x, y) and _before(y, n - m, x) for x, m, y, n in axes)


def _before(start: Expr, size: int, limit: Expr) -> bool:
    x, y = const_int(start), const_int(limit)
    if x is not None and y is not None:
        return x + size <= y
    return provably_le(Binary("add", start, index(size)), limit)


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """One execution of an op that writes a buffer in place; `scratch` where it only leaves garbage there."""

    box: Box | None
    path: StmtPath
    statement: Stmt
    scratch: bool = False


@dataclass(frozen=True, slots=True)
class Ref:
    """A place in a buffer: `seen` writes of the buffer's log are part of the value except those in `missing`.

    `exact` tells that the value's coordinates are the buffer's, shifted by the box, so that a slice of it is
    a smaller box."""

    buffer: int
    box: Box | None
    exact: bool
    seen: int
    missing: tuple[Write, ...] = ()


Value: TypeAlias = tuple[Ref, ...]


@dataclass(slots=True)
class Buffers:
    """All buffers met so far, each with the log of its writes, and a journal that lets the writes of an arm
    be taken back.
    """

    names: list[str] = field(default_factory=list)
    blank: list[bool] = field(default_factory=list)
    logs: list[list[Write]] = field(default_factory=list)
    journal: list[int] = field(default_factory=list)

    def fresh(self, name: str, t: TileType, blank: bool = False) -> Value:
        """A new buffer, named after the variable it is made for; `blank` where its content is undefined."""
        self.names.append(name)
        self.blank.append(blank)
        self.logs.append([])
        return (Ref(len(self.names) - 1, Box.of(t), True, 0),)

    def write(self, ref: Ref, write: Write) -> None:
        self.logs[ref.buffer].append(write)
        self.journal.append(ref.buffer)

    def missed(self, ref: Ref) -> tuple[Write, ...]:
        """The writes that changed cells of `ref` and that it does not know of; past the first `MISSED` of
        them one write of the whole buffer stands for all that follow.
        """
        log = self.logs[ref.buffer]
        if not ref.missing and len(log) == ref.seen:
            return ()
        found: list[Write] = []
        for write in chain(ref.missing, islice(log, ref.seen, None)):
            if not disjoint(write.box, ref.box):
                if len(found) == MISSED:
                    found.append(Write(None, write.path, write.statement, write.scratch))
                    break
                found.append(write)
        return tuple(found)

    def knows_all(self, ref: Ref, missing: tuple[Write, ...] = ()) -> Ref:
        """`ref` as a value that knows of every write up to now but those in `missing`."""
        return Ref(ref.buffer, ref.box, ref.exact, len(self.logs[ref.buffer]), missing)

    def settle(self, value: Value) -> Value:
        """`value` with its missed writes listed, as seen from here; what is written later in other arms or
        trips is not its concern.
        """
        return tuple(self.knows_all(ref, self.missed(ref)) for ref in value)

    def merge(self, settled: Iterable[Value]) -> Value:
        """One value of several settled ones, of which each is the value on some path to here."""
        found: dict[tuple[int, Box | None, bool], dict[Write, None]] = {}
        for value in settled:
            for ref in value:
                found.setdefault((ref.buffer, ref.box, ref.exact), {}).update(dict.fromkeys(ref.missing))
        return tuple(Ref(buffer, box, exact, len(self.logs[buffer]), tuple(missing)) for (buffer, box, exact), missing in found.items())

    def take_back(self, mark: int) -> list[tuple[int, Write]]:
        """Undo the writes since the journal had `mark` entries; returns them in order."""
        undone = []
        while len(self.journal) > mark:
            buffer = self.journal.pop()
            undone.append((buffer, self.logs[buffer].pop()))
        return undone[::-1]

    def put_back(self, writes: Iterable[tuple[int, Write]]) -> None:
        for buffer, write in writes:
            self.logs[buffer].append(write)
            self.journal.append(buffer)
