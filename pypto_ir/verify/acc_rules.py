"""The rules of accumulator memory: which windows a product may write, which instruction reads which tile.

Each rule gives findings: a code, what was found and why it cannot be, and what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pypto_ir.acc_reads import AccReads
from pypto_ir.congruence import Congruence, congruence
from pypto_ir.diagnostics import declare
from pypto_ir.expr import Expr, const_int, index
from pypto_ir.linear import provably_equal
from pypto_ir.ops.registry import dims_text
from pypto_ir.text import expr_text
from pypto_ir.types import Memory, TileType
from pypto_ir.verify.acc_places import BLOCK, Axis, Place, Stride, coincide, reaches, stride_by_type, stride_of, whole_blocks

declare(
    V301="a matrix product writes a window of an accumulator whose rows have another stride",
    V302="a window of an accumulator is not proved to begin at a block",
    V303="a matrix product that fills no whole blocks may overwrite what lies beside it",
    V304="an accumulator is read or handed on with another stride than it was written with",
    V305="something else than a matrix product writes an accumulator",
    V306="an accumulator is viewed under another shape",
)

SIDE_BY_SIDE = (
    "lay the windows side by side, full height, one behind another in columns (window t of [R, N] at column t * N of [R, T * N]), "
    "give each a tile of its own, or keep them at most 16 columns wide"
)
NARROWED = (
    "give the accumulator the valid rows of the product: tile.create with compact=True and tile.set_validshape before it, or use "
    "accumulators of at most 16 rows or 16 columns"
)


@dataclass(frozen=True, slots=True)
class Finding:
    code: str
    message: str
    help: str


@dataclass(frozen=True, slots=True)
class Product:
    """A product of m x n elements by `op` onto a tile of type `t` at `place`; `known` is what is known of scalars. `keep` tells that the
    rest of its blocks stays as it is."""

    op: str
    t: TileType
    place: Place
    m: Expr
    n: Expr
    known: Mapping[str, Congruence]
    keep: bool

    def findings(self) -> Iterator[Finding]:
        """What keeps the matrix unit from writing this."""
        shape = self.t.static_shape
        if shape is None:
            yield Finding("V301", f"{self.op} writes an accumulator {dims_text(self.t.shape)} whose shape is not constant", SIDE_BY_SIDE)
            return
        rows, columns = shape
        at = self.place.columns
        if columns > BLOCK:
            yield from self._stride(rows, columns)
        # one column of blocks may lie at any row: its rows follow one another
        if not at.begins.within_block(min(columns, BLOCK), BLOCK):
            yield from misaligned(self.op, self.window(), at)
        elif not self.keep:
            yield from self._rest(rows, columns)

    def window(self) -> str:
        return window_text(self.t, self.place)

    def _stride(self, rows: int, columns: int) -> Iterator[Finding]:
        """A tile of several block columns must be one that lies as the product writes: full height, block columns as far apart."""
        place = self.place
        if place.rows.extent != rows:
            have = "which control flow merges from several of different heights" if place.stride is None else f"{place.stride} rows apart"
            why = f"the matrix unit writes its block columns {whole_blocks(rows)} rows apart, those of the accumulator lie {have}"
            yield Finding("V301", f"{self.op} writes {self.window()}: {why}, so only the first 16 columns arrive", SIDE_BY_SIDE)
            return
        written = stride_of(self.m, rows)
        read = stride_by_type(self.t, place) if place.columns.extent == columns else place.stride
        if not coincide(written, read):
            why = f"{self.op} writes {self.window()} with block columns {stride_text(written)} apart; it is read as if {stride_text(read)}"
            yield Finding("V304", why, NARROWED)

    def _rest(self, rows: int, columns: int) -> Iterator[Finding]:
        """The cells of the last blocks that the product does not fill must belong to nobody."""
        for what, size, used, axis in (("rows", rows, self.m, self.place.rows), ("columns", columns, self.n, self.place.columns)):
            if congruence(used, self.known).divisible_by(BLOCK):
                continue
            at = axis.begins.exact
            last = at is not None and at + size == axis.extent and at % BLOCK == 0
            ends = size == axis.extent or last
            mine = provably_equal(used, index(size)) or reaches(used, axis.written)
            if size % BLOCK and not ends:
                whose = f"the {what} behind the window"
            elif not mine:
                whose = f"{what} of the window that were written before"
            else:
                continue
            message = (
                f"{self.op} writes {expr_text(used)} {what} of {self.window()}: whether it leaves the rest of its blocks of 16, {whose}, "
                "as it is, is not documented"
            )
            yield Finding(
                "V303", message, f"let {what} be a multiple of 16 (a page pitch of whole blocks), or give the window a tile of its own"
            )


@dataclass(frozen=True, slots=True)
class Reading:
    """A read by `op` of `columns` columns of a tile of type `t` at `place`, from `at` of the accumulator's columns on, into memory
    `into`; `reads` tells how instructions of the target do that."""

    op: str
    t: TileType
    place: Place
    at: Axis
    columns: int
    into: Memory | None
    reads: AccReads

    def findings(self) -> Iterator[Finding]:
        if self.place.blank:
            return
        what = window_text(self.t, self.place)
        if not self.at.begins.within_block(min(self.columns, BLOCK), BLOCK):
            yield from misaligned(self.op, what, self.at)
            return
        lies, read = stride_by_type(self.t, self.place), self._stride()
        several = self.columns > BLOCK or self.at != self.place.columns
        if several and not coincide(lies, read):
            message = f"{self.op} reads {what} with block columns {stride_text(read)} apart; they lie {stride_text(lies)} apart"
            yield Finding("V304", message, "let all rows be valid, store the tile to global memory, or keep it at most 16 rows or columns")

    def _stride(self) -> Stride | None:
        """`spec/hardware.md` 4.5, table; Ascend910B brings a tile to Vec by a store to global memory."""
        by_type, packed = stride_by_type(self.t, self.place), stride_of(self.t.valid[0], self.place.stride)
        if self.op == "tile.store" or (self.into is not Memory.MAT and not self.reads.to_vec):
            return by_type
        if self.op == "tile.extract":
            return self.place.stride if self.into is Memory.MAT else by_type
        if self.op == "tile.assemble":
            return self.place.stride if self.into is Memory.MAT else packed
        return packed if self.reads.by_valid_rows and const_int(self.t.valid[0]) is None else self.place.stride


def misaligned(op: str, window: str, at: Axis) -> Iterator[Finding]:
    """A column that is no multiple of 16, or is not proved to be one."""
    known = at.begins
    if known.exact is not None:
        found = f"begins at column {known.exact}"
    else:
        said = f"`{expr_text(at.shown)}`" if at.shown is not None else "known at run time only"
        fact = "nothing is known of it" if known.modulus == 1 else f"it is {known.residue} modulo {known.modulus}"
        found = f"begins at a column ({said}) that is not proved to be a multiple of 16: {fact}"
    help = "let the column be a sum of multiples of 16, such as `t * 64 + n0` with n0 from range(0, 64, 16)"
    yield Finding("V302", f"{op}: {window} {found}, and accumulators are addressed in block columns of 16", help)


def handed_on(t: TileType, place: Place, to: TileType) -> Iterator[Finding]:
    """A written tile under a type that has its block columns elsewhere (`spec/flatten.md` 11)."""
    lies, then = stride_by_type(t, place), stride_by_type(to, place)
    if _several(t, place) and not coincide(lies, then):
        message = (
            f"an accumulator {dims_text(t.shape)} with block columns {stride_text(lies)} apart is handed on as one with {stride_text(then)}"
        )
        yield Finding("V304", message, "give what hands it on and what takes it one valid shape")


def cut(t: TileType, place: Place) -> Iterator[Finding]:
    """A window of a tile is addressed by the rows of its accumulator."""
    if _several(t, place) and not coincide(stride_by_type(t, place), place.stride):
        message = f"a window of {window_text(t, place)}, whose block columns lie as far apart as its valid rows need"
        yield Finding("V304", message, "let all rows of the accumulator be valid, or give each window a tile of its own")


def reshaped(t: TileType, place: Place) -> Iterator[Finding]:
    """Another shape of what is written."""
    if not place.blank:
        message = f"tile.reshape of {window_text(t, place)}: blocks stay where they are, rows do not follow one another in memory"
        yield Finding("V306", message, "store the accumulator and load it in the other shape")


def complete(t: TileType, place: Place, how: str) -> Iterator[Finding]:
    """A tile that leaves the function, which nothing tells to be a window of a larger one."""
    if (place.rows.extent, place.columns.extent) != t.static_shape:
        yield Finding("V301", f"{window_text(t, place)} is {how}, where nothing tells that it lies in a larger one", SIDE_BY_SIDE)


def written_over(op: str, t: TileType, place: Place) -> Iterator[Finding]:
    """A write that is neither a product nor puts a window back."""
    what = "a tile that is not proved to be the window there" if op == "tile.assemble" else "it"
    message = f"{op} writes {what} into {window_text(t, place)}: nothing but a matrix product writes an accumulator"
    help = "let the product write the window itself: slice, tile.matmul_acc with init_cond true, assemble at the same offsets"
    yield Finding("V305", message, help)


def made(op: str) -> Iterator[Finding]:
    """A tile in Acc that no product makes."""
    yield Finding("V305", f"{op} makes a tile in Acc, which only matrix products write", "let it make a tile in Vec or Mat")


def _several(t: TileType, place: Place) -> bool:
    """True where a tile holds something in more than one block column."""
    columns = const_int(t.shape[-1])
    return not place.blank and columns is not None and columns > BLOCK


def window_text(t: TileType, place: Place) -> str:
    """`the window [16, 64] at [0, t * 64] of an accumulator [16, 256]`."""
    offsets = (place.rows.shown, place.columns.shown)
    extents = (place.rows.extent, place.columns.extent)
    if extents == t.static_shape:
        return f"the accumulator {dims_text(t.shape)}"
    at = "" if None in offsets else f" at [{', '.join(expr_text(e) for e in offsets if e is not None)}]"
    of = "" if None in extents else f" {list(extents)}"
    return f"the window {dims_text(t.shape)}{at} of an accumulator{of}"


def stride_text(stride: Stride | None) -> str:
    if stride is None:
        return "an unknown number of rows"
    return f"{stride} rows" if isinstance(stride, int) else f"{expr_text(stride)} rows, rounded up to 16,"
