"""Where an accumulator tile lies in its accumulator, and which part of it has been written.

`w = slice(acc, [16, 64], [0, t * 64])` of `acc = create([16, 256])` is the place rows 0, columns 0 modulo 64
of the root `acc` [16, 256], of which nothing is written; after a product of v x 64 elements rows below v are.
Where paths meet, places of different roots become one of a root of its own: what is known of the offsets is
what both know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pypto_ir.congruence import ANY, Congruence, exactly
from pypto_ir.expr import Binary, Const, Expr, const_int, index
from pypto_ir.linear import linear, normalize, provably_equal, provably_le, to_expr
from pypto_ir.types import Compact, TileType

#: rows and columns of a block (`spec/hardware.md` 4.1: Acc fractal of 1024 bytes)
BLOCK = 16

#: an extent of written cells: below it, or None where nothing is known
Written = Expr | None
NOTHING = index(0)


def is_nothing(written: Written) -> bool:
    return written == NOTHING


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a place: the offset from its root as an expression (None: unknown), what is known of the offset in the accumulator
    itself, the extent of the accumulator (None: unknown), and the extent of what is written, counted from the offset."""

    offset: Expr | None
    begins: Congruence
    extent: int | None
    written: Written

    @property
    def shown(self) -> Expr | None:
        """The offset as a message names it; None where it counts from a window that control flow gives."""
        if self.begins.exact is None and isinstance(self.offset, Const):
            return None
        return self.offset

    def part(self, offset: Expr, known: Congruence) -> Axis:
        """The axis of a window at `offset`, of which `known` is known."""
        start = normalize(Binary("add", self.offset, offset)) if self.offset is not None else None
        return Axis(start, self.begins.plus(known), self.extent, self.behind(known.exact))

    def behind(self, offset: int | None) -> Written:
        """The extent of what is written from an offset on."""
        if offset == 0 or is_nothing(self.written):
            return self.written
        if offset is None or self.written is None:
            return None
        size = const_int(self.written)
        if size is not None:
            return index(max(0, size - offset))
        # of min(n, 16) + 16, what can be compared is min(n, 16)
        form = linear(self.written)
        start = index(offset - form.constant)
        return NOTHING if provably_le(to_expr(replace(form, constant=0)), start) else None

    def putting_back(self, window: Axis, offset: Congruence) -> Axis:
        """The axis after a window of it, at `offset`, was written."""
        at, size = offset.exact, window.written
        grown = normalize(Binary("add", size, index(at))) if at is not None and size is not None else None
        return replace(self, written=most(self.written, grown))


@dataclass(frozen=True, slots=True)
class Place:
    """Rows and columns of a tile in the buffer that the name `root` stands for."""

    root: str
    rows: Axis
    columns: Axis

    @staticmethod
    def whole(root: str, t: TileType, written: Written) -> Place:
        """All of a buffer of its own, a 2-D tile."""
        rows, columns = t.static_shape or (None, None)
        return Place(root, *(Axis(index(0), exactly(0), n, written) for n in (rows, columns)))

    @staticmethod
    def unknown(root: str) -> Place:
        return Place(root, *(Axis(index(0), ANY, None, None) for _ in range(2)))

    @property
    def blank(self) -> bool:
        """True where nothing of it is written."""
        return is_nothing(self.rows.written) or is_nothing(self.columns.written)

    @property
    def stride(self) -> int | None:
        """Rows of a block column of the accumulator."""
        return None if self.rows.extent is None else whole_blocks(self.rows.extent)

    def same_window(self, other: Place) -> bool:
        """True where both provably begin at one cell of one buffer."""
        pairs = ((self.rows.offset, other.rows.offset), (self.columns.offset, other.columns.offset))
        return self.root == other.root and all(a is not None and b is not None and provably_equal(a, b) for a, b in pairs)


def most(a: Written, b: Written) -> Written:
    """The extent that holds two of them."""
    return b if reaches(b, a) else a if reaches(a, b) else None


def reaches(extent: Written, written: Written) -> bool:
    """True where all that is written provably lies below an extent, which is never negative."""
    return extent is not None and written is not None and (is_nothing(written) or provably_le(written, extent))


def met(a: Place, b: Place, name: str) -> Place:
    """What is known where two places come together under a name."""
    same = a.same_window(b)
    axes = tuple(_met(x, y, same) for x, y in ((a.rows, b.rows), (a.columns, b.columns)))
    return Place(a.root if same else name, *axes)


def _met(a: Axis, b: Axis, same: bool) -> Axis:
    extent = a.extent if a.extent == b.extent else None
    return Axis(a.offset if same else index(0), a.begins.joined(b.begins), extent, most(a.written, b.written))


def whole_blocks(extent: int) -> int:
    """An extent rounded up to whole blocks."""
    return -(-extent // BLOCK) * BLOCK


#: rows between the block columns of a tile: a number, or as many whole blocks as this many rows take
Stride = int | Expr


def stride_of(rows: Expr, most_rows: int | None) -> Stride:
    """Whole blocks of `rows`, of which there are at most `most_rows`."""
    known = const_int(rows)
    if known is not None:
        return whole_blocks(known)
    return BLOCK if most_rows is not None and most_rows <= BLOCK else rows


def stride_by_type(t: TileType, place: Place) -> Stride | None:
    """The stride with which a tile is addressed by its type: that of its valid rows where it is compact."""
    if t.effective_view.compact is Compact.NORMAL:
        return stride_of(t.valid[0], place.stride)
    return place.stride


def coincide(a: Stride | None, b: Stride | None) -> bool:
    """True where two strides are provably one."""
    return a is not None and b is not None and provably_equal(_rows(a), _rows(b))


def _rows(stride: Stride) -> Expr:
    return index(stride) if isinstance(stride, int) else stride
