"""Accumulator memory as the chip has it: bytes in blocks of 16 x 16, written by a matrix unit that knows no
stride, read by instructions that each have one (`spec/hardware.md` 4.2, 4.4 and 4.5).

A tile [32, 64] of FP32 lies in 8 blocks of 1024 bytes, block columns one after another: element (r, c) is at
byte ((c // 16) * 32 + r) * 64 + c % 16 * 4. Its window [32, 16] at column 48 begins at byte 6144 and is
contiguous. The window [16, 64] at row 16 begins at byte 1024, and its blocks lie 2048 bytes apart; a product
[16, 64] written there goes to 4 blocks in a row all the same, so only its first 16 columns arrive where a
store looks for them.

Nothing but a product writes accumulators. An assemble that puts a window back where it was taken is no
instruction; every other write, and an access outside the accumulator, is a `RunError` R011. What a product
of m x n elements leaves in the rest of its blocks is not documented: those cells become undefined, unless the
machine is told that it keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

from pypto_ir.acc_chains import is_acc
from pypto_ir.acc_reads import AccReads
from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import const_int
from pypto_ir.interp.values import Evaluation, RunError, Tile, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.ops.matmul import factors
from pypto_ir.ops.registry import OpDef
from pypto_ir.types import Compact, Memory, TileType, Type

declare(R011="no instruction accesses accumulator memory so")

#: rows and columns of a block (`spec/hardware.md` 4.1: Acc fractal)
BLOCK = 16


def whole_blocks(extent: int) -> int:
    """An extent rounded up to whole blocks."""
    return -(-extent // BLOCK) * BLOCK


def element(row: int, column: int, stride: int) -> int:
    """How many elements after its tile's first one element (row, column) lies, where block columns are
    `stride` rows apart (`spec/hardware.md` 4.2)."""
    return (column // BLOCK * stride + row) * BLOCK + column % BLOCK


@lru_cache(maxsize=256)
def elements(rows: int, columns: int, stride: int) -> Any:
    """`element` of every cell of the box [0, rows) x [0, columns); the array is shared and must not be
    written."""
    r, c = np.arange(rows)[:, None], np.arange(columns)[None, :]
    return (c // BLOCK * stride + r) * BLOCK + c % BLOCK


class Storage:
    """The bytes of one accumulator, all undefined at first; whole elements are defined or not."""

    __slots__ = ("bytes", "cells", "ok")

    def __init__(self, size: int, dtype: DType) -> None:
        held = numpy_dtype(dtype)
        self.bytes = np.zeros(size * held.itemsize, dtype=np.uint8)
        self.cells = self.bytes.view(held)
        self.ok = np.zeros(size, dtype=bool)


@dataclass(frozen=True, slots=True, eq=False)
class AccTile:
    """A tile or window in accumulator memory.

    `first` is the element that it begins with, `rows` the physical rows of the accumulator in whole blocks,
    which is the stride that instructions take from its type. `compact` tiles are read with the stride of their
    valid rows; `fixed` tells that the valid rows are a constant of the type.
    """

    storage: Storage
    first: int
    rows: int
    shape: tuple[int, int]
    valid: tuple[int, int]
    compact: bool
    fixed: bool

    @property
    def byte(self) -> int:
        """The address of its first byte in its accumulator."""
        return self.first * int(self.storage.cells.itemsize)

    def seen_as(self, t: Type | None, valid: tuple[int, ...]) -> AccTile:
        """The same bytes under the valid region and the compact mode of another type of this shape."""
        rows, columns = valid
        compact, fixed = _mode(t)
        return replace(self, valid=(rows, columns), compact=compact, fixed=fixed)

    def window(self, row: int, column: int, shape: tuple[int, int]) -> AccTile:
        """The box of `shape` at (row, column), fully valid as far as this tile is."""
        inside = tuple(not (o < 0 or o + n > d) for o, n, d in zip((row, column), shape, self.shape, strict=True))
        if not all(inside):
            raise RunError(f"a window {list(shape)} at {[row, column]} leaves an accumulator of shape {list(self.shape)}")
        at = self.first + element(row, column, self.rows)
        rows, columns = (min(max(v - o, 0), n) for v, o, n in zip(self.valid, (row, column), shape, strict=True))
        return replace(self, first=at, shape=shape, valid=(rows, columns))

    def read(self, stride: int) -> Tile:
        """Its valid region, as an instruction sees it that takes block columns to be `stride` rows apart."""
        data, ok = np.zeros(self.shape, dtype=self.storage.cells.dtype), np.zeros(self.shape, dtype=bool)
        where = self._cells(*self.valid, stride, "read")
        region = tuple(slice(0, v) for v in self.valid)
        data[region], ok[region] = self.storage.cells[where], self.storage.ok[where]
        return Tile(data, ok, self.valid)

    def written_by(self, m: int, n: int) -> Tile:
        """What a product of m x n elements adds to: block columns `whole_blocks(m)` rows apart, whatever the
        accumulator's own rows are (`spec/hardware.md` 4.4)."""
        return replace(self, valid=(m, n)).read(whole_blocks(m))

    def write(self, m: int, n: int, made: Tile, keep: bool) -> None:
        """Write the first m x n cells of a product as the matrix unit does; with `keep` the rest of its blocks
        stays as it was."""
        if not m or not n:
            return
        cells, ok, stride = self.storage.cells, self.storage.ok, whole_blocks(m)
        if not keep:
            ok[self._cells(stride, whole_blocks(n), stride, "written")] = False
        where = self._cells(m, n, stride, "written")
        cells[where], ok[where] = made.data[:m, :n], made.ok[:m, :n]

    def fill(self, data: Any, ok: Any) -> None:
        """Set its contents so that a store of the tile finds them."""
        rows, columns = self.valid if self.compact else self.shape
        where = self._cells(rows, columns, whole_blocks(rows) if self.compact else self.rows, "written")
        self.storage.cells[where], self.storage.ok[where] = data[:rows, :columns], ok[:rows, :columns]

    def blank(self) -> None:
        """Leave nothing of it defined."""
        for stride in {self.rows, whole_blocks(self.valid[0])}:
            self.storage.ok[self._cells(*self.valid, stride, "written")] = False

    def _cells(self, rows: int, columns: int, stride: int, did: str) -> Any:
        last = self.first + element(rows - 1, columns - 1, stride) if rows and columns else 0
        size = self.storage.cells.size
        if last >= size:
            end, width = (last + 1) * self.storage.cells.itemsize, self.storage.cells.itemsize
            reason = f"a box {[rows, columns]} from byte {self.byte} on with {stride} rows a block column is {did} up to byte {end}"
            raise RunError(f"{reason} of an accumulator of {size * width} bytes", "R011")
        return elements(rows, columns, stride) + self.first


def _mode(t: Type | None) -> tuple[bool, bool]:
    """Whether a tile type is compact, and whether its valid rows are constant."""
    if not isinstance(t, TileType):
        return False, True
    view = t.effective_view
    return view.compact is Compact.NORMAL, const_int(view.valid[0]) is not None


Meaning = Callable[[Evaluation], Any]


@dataclass(frozen=True, slots=True)
class Accumulators:
    """How one run treats accumulators: `reads` tells how instructions read them, `keep`
    tells that a product keeps the cells of its last blocks that it does not fill.
    """

    reads: AccReads
    keep: bool = False

    def meaning(self, op: OpDef, t: Type | None) -> Meaning:
        """What an op with a result of type `t` does where tiles in Acc are `AccTile`s."""
        assert op.meaning is not None
        if factors(op) is not None:
            return self._product(op, op.meaning, t)
        if op.name == "tile.create" and is_acc(t):
            return lambda ev: self.allocate(t, ev.shape, ev.valid)
        return self._other(op, op.meaning, t)

    def allocate(self, t: Type | None, shape: tuple[int, ...], valid: tuple[int, ...]) -> AccTile:
        """An accumulator of its own, nothing of it defined. Raises `RunError` R003 for ranks other than 2."""
        assert isinstance(t, TileType)
        self._check_rank(shape)
        rows, columns = map(whole_blocks, shape)
        compact, fixed = _mode(t)
        return AccTile(Storage(rows * columns, t.dtype), 0, rows, (shape[0], shape[1]), (valid[0], valid[1]), compact, fixed)

    def _check_rank(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 2:
            raise RunError(f"a tile {list(shape)} has no place in accumulator memory: lower the program to 2-D tiles first", "R003")

    def place(self, value: Any, t: Type) -> Any:
        """An argument as this machine holds it: a tile of an Acc parameter goes into an accumulator."""
        if not isinstance(value, Tile) or not is_acc(t) or len(value.shape) != 2:
            return value
        placed = self.allocate(t, value.shape, value.valid)
        placed.fill(value.data, value.ok)
        return placed

    def result(self, value: Any) -> Any:
        """A returned value with accumulators as a store finds them."""
        if isinstance(value, tuple):
            return tuple(map(self.result, value))
        return self.read(value, "tile.store", None) if isinstance(value, AccTile) else value

    def read(self, source: AccTile, op: str, into: Memory | None) -> Tile:
        """The contents of an accumulator as the instruction of an op finds them that brings it to `into`."""
        return source.read(self._stride(source, op, into))

    def _stride(self, source: AccTile, op: str, into: Memory | None) -> int:
        """The rows of a block column for an instruction (`spec/hardware.md` 4.5, table). What reads a tile in
        Vec has it moved there first; Ascend910B moves it by a store to global memory."""
        packed = whole_blocks(source.valid[0])
        by_mode = packed if source.compact else source.rows
        if op == "tile.store" or (into is not Memory.MAT and not self.reads.to_vec):
            return by_mode
        if op == "tile.extract":
            return source.rows if into is Memory.MAT else by_mode
        if op == "tile.assemble":
            return source.rows if into is Memory.MAT else packed
        return packed if self.reads.by_valid_rows and not source.fixed else source.rows

    # ---- ops ----

    def _product(self, op: OpDef, plain: Meaning, t: Type | None) -> Meaning:
        positions = factors(op)
        assert positions is not None
        left, right = positions

        def run(ev: Evaluation) -> Any:
            target = ev.args[0] if op.writes else self.allocate(t, ev.shape, ev.valid)
            if not isinstance(target, AccTile):
                raise RunError(f"the accumulator of {op.name} is not in Acc", "R003")
            args = self._operands(ev, op.name, Memory.MAT, keep=0 if op.writes else None)
            m, n = args[left].valid[-2], args[right].valid[-1]
            if op.writes:
                held = target.written_by(m, n)
                args = (Tile(held.data, held.ok, held.shape), *args[1:])
            target.write(m, n, plain(replace(ev, args=args)), self.keep)
            return target.seen_as(t, ev.valid)

        return run

    def _other(self, op: OpDef, plain: Meaning, t: Type | None) -> Meaning:
        into = t.memory if isinstance(t, TileType) else None
        view = _VIEWS.get(op.name)

        def run(ev: Evaluation) -> Any:
            first = ev.args[0] if ev.args else None
            if isinstance(first, AccTile):
                if view is not None:
                    self._check_rank(ev.shape)
                    return view(ev, first).seen_as(t, ev.valid)
                if op.name == "tile.extract":
                    first = first.window(int(ev.args[1]), int(ev.args[2]), ev.args[3])
                    cut = self.read(first, op.name, into)
                    return ev.fresh(cut.data, cut.readable())
                if op.name == "tile.assemble":
                    return _put_back(ev, first).seen_as(t, ev.valid)
            if op.writes and isinstance(ev.args[op.writes[0]], AccTile):
                raise RunError(f"{op.name} writes an accumulator, which only matrix products do", "R011")
            result = plain(replace(ev, args=self._operands(ev, op.name, into)))
            if is_acc(t) and isinstance(result, Tile):
                raise RunError(f"{op.name} makes a tile in Acc, which only matrix products write", "R011")
            return result

        return run

    def _operands(self, ev: Evaluation, op: str, into: Memory | None, keep: int | None = None) -> tuple[Any, ...]:
        """The operands with accumulators read, operand `keep` excepted."""
        return tuple([self.read(a, op, into) if isinstance(a, AccTile) and i != keep else a for i, a in enumerate(ev.args)])


def _put_back(ev: Evaluation, target: AccTile) -> AccTile:
    """An assemble into an accumulator: nothing to do where the source is the window itself, else there is no
    instruction for it."""
    source, (row, column) = ev.args[1], ev.args[2]
    if isinstance(source, AccTile):
        place = target.window(row, column, source.shape)
        if (place.storage, place.first, place.rows) == (source.storage, source.first, source.rows):
            return target
    raise RunError(f"tile.assemble at {[row, column]} of an accumulator copies into it, which no instruction does", "R011")


def _slice(ev: Evaluation, source: AccTile) -> AccTile:
    row, column = ev.args[2]
    made = source.window(row, column, ev.args[1])
    if tuple(made.shape) != tuple(ev.shape):
        raise RunError(f"a window {list(made.shape)} of an accumulator cannot be seen as {list(ev.shape)}", "R011")
    return made


def _reshape(ev: Evaluation, source: AccTile) -> AccTile:
    """The same bytes under other rows: block columns lie as far apart as the new rows say."""
    rows, columns = ev.shape
    if source.shape == (rows, columns):
        return source
    if whole_blocks(source.shape[0]) != source.rows or prod(map(whole_blocks, ev.shape)) > prod(map(whole_blocks, source.shape)):
        raise RunError(f"an accumulator {list(source.shape)} cannot be seen as {list(ev.shape)}", "R011")
    return replace(source, rows=whole_blocks(rows), shape=(rows, columns))


_VIEWS: dict[str, Callable[[Evaluation, AccTile], AccTile]] = {
    "tile.slice": _slice,
    "tile.reshape": _reshape,
    "tile.set_validshape": lambda ev, source: source,
}
