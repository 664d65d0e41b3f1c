"""For each rule of windows.egg, and for those of slices.egg on writes, programs in which it fires, and in which its condition fails."""

from __future__ import annotations

from collections.abc import Callable

from building import Build, Shape
from drawing import BINARY, Draw, Generator

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, index
from pypto_ir.stmt import Function


def _scattered(d: Draw) -> tuple[Shape, Shape]:
    """A tile of several pages, and a window of some rows of two of them."""
    rows, cols = d.random.choice((4, 6)), d.random.choice((16, 32))
    lead = (d.random.choice((2, 3)), *d.batch(d.rank - 1)) if d.rank > 3 else (d.random.choice((2, 3)),)
    return (*lead, rows, cols), (2, *lead[1:], rows // 2, d.random.choice((cols, 16)))


def _places(d: Draw, b: Build, shape: Shape, box: Shape, moving: bool) -> tuple[int | Expr, ...]:
    """Where a window stands: at a column that is a multiple of 16, in pages that are constant unless it moves."""
    first: int | Expr = b.scalar("k", 0, shape[0] - box[0]) if moving else d.random.randint(0, shape[0] - box[0])
    row: int | Expr = b.scalar("r", 0, shape[-2] - box[-2]) if d.number % 4 == 1 else d.random.randint(0, shape[-2] - box[-2])
    return (first, *(0 for _ in shape[1:-2]), row, d.random.choice(range(0, shape[-1] - box[-1] + 1, 16)))


def assemble_pieces(d: Draw) -> Function:
    """Rows of several pages written over, wherever they stand."""
    b, dtype = Build(), d.dtype()
    shape, box = _scattered(d)
    if d.number % 5 == 4:
        # what is written is cut in every page
        box = (*box[:-2], *shape[-2:])
    t, x = b.load("t", shape, dtype=dtype), b.load("x", box, (*box[:-2], box[-2] - (d.number % 5 == 4), box[-1]), dtype)
    y = b.let("y", "tile.assemble", t, x, _places(d, b, shape, box, d.number % 2 == 0))
    b.out(d.pointwise(b, "z", y))
    return b.function()


def assemble_part(d: Draw) -> Function:
    """Rows of several pages written over in a tile that is made page by page."""
    b, dtype = Build(), d.dtype()
    shape, box = _scattered(d)
    t = b.let("t", d.random.choice(BINARY), b.load("u", shape, dtype=dtype), b.load("v", (1, *shape[1:]), dtype=dtype))
    y = b.let("y", "tile.assemble", t, b.load("x", box, dtype=dtype), _places(d, b, shape, box, False))
    b.out(d.pointwise(b, "z", y))
    return b.function()


def assemble_cut(d: Draw) -> Function:
    """Rows written behind the valid ones of a tile of several pages, or somewhere between what may be missing."""
    b, dtype, shape = Build(), d.dtype(), d.shape()
    pages, ones = shape[0], (1,) * (len(shape) - 3)
    shape = (pages, *ones, *shape[-2:])
    n = b.scalar("n", 0, pages)
    t = b.load("t", shape, (n, *shape[1:]), dtype)
    at = (Binary("min", n, index(pages - 1)), *(0 for _ in shape[1:]))
    # with fewer axes the result is fully valid
    box = shape[-2:] if d.number % 2 else (1, *shape[1:])
    b.out(b.let("y", "tile.assemble", t, b.load("x", box, dtype=dtype), at))
    return b.function()


def assemble_opened(d: Draw) -> Function:
    """A row written into a page of a tile with gaps that is known at run time only, which makes all of it valid; or into every page, behind
    the valid rows."""
    b, dtype = Build(), d.dtype()
    shape, _ = _scattered(d)
    rows = shape[-2] - 2
    t = b.load("t", shape, (*shape[:-2], b.scalar("v", 1, rows) if d.number % 4 == 1 else rows, shape[-1]), dtype)
    if d.number % 2:
        part, at = (1, shape[-1]), (b.scalar("k", 0, shape[0] - 1), *(0 for _ in shape[1:]))
    else:
        part, at = (*shape[:-2], 1, shape[-1]), (*(0 for _ in shape[:-2]), rows, 0)
    b.out(b.let("y", "tile.assemble", t, b.load("x", part, dtype=dtype), at))
    return b.function()


def covered(d: Draw) -> Function:
    """Parts that cover a computed tile: its halves, thirds or columns, other tiles or windows of one."""
    b, dtype, (rows, cols) = Build(), d.dtype(), d.page()
    shape = (*((2,) if d.number % 2 else ()), 3 * rows, 2 * cols) if d.number % 3 else (3, rows, 2 * cols)
    t = d.pointwise(b, "y", b.load("t", shape, dtype=dtype))
    x = d.pointwise(b, "x", b.load("u", shape, dtype=dtype))
    if d.number % 4 == 3:
        box, places = (*shape[:-1], cols), [(*(0 for _ in shape[:-1]), c) for c in (cols, 0)]
    elif len(shape) == 2:
        box, places = (rows, 2 * cols), [(i * rows, 0) for i in (2, 0, 1)]
    else:
        box, places = (1, *shape[1:]), [(i, 0, 0) for i in range(shape[0])]
    for i, at in enumerate(places):
        part = b.let(f"p{i}", "tile.slice", x, box, at) if d.number % 5 == 1 else b.load(f"p{i}", box, dtype=dtype)
        t = b.let(f"y{i}", "tile.assemble", t, part, at)
    b.out(d.pointwise(b, "z", t))
    return b.function()


def slice_pages(d: Draw) -> Function:
    """Whole pages of a tile that is made page by page, or whose pages are cut."""
    b, dtype, shape = Build(), d.dtype(), d.shape()
    if d.number % 2:
        x = b.let("x", "tile.exp", b.load("u", shape, (*shape[:-2], shape[-2] - 1, shape[-1])))
    else:
        x = b.let("x", d.random.choice(BINARY), b.load("u", shape, dtype=dtype), b.load("v", (1, *shape[1:]), dtype=dtype))
    pages = d.random.randint(1, shape[0])
    at = (d.random.randint(0, shape[0] - pages), *(0 for _ in shape[1:]))
    b.out(d.pointwise(b, "z", b.let("y", "tile.slice", x, (pages, *shape[1:]), at)))
    return b.function()


def slice_pieces(d: Draw) -> Function:
    """Rows of several pages read, wherever they stand."""
    b, dtype = Build(), d.dtype()
    shape, box = _scattered(d)
    x = b.load("x", shape, dtype=dtype)
    y = b.let("y", "tile.slice", x, box, _places(d, b, shape, box, d.number % 2 == 0))
    b.out(d.pointwise(b, "z", y))
    return b.function()


def slice_cut(d: Draw) -> Function:
    """Whole pages read, wherever they stand, of which the first rows are asked for, and perhaps the first columns."""
    b, dtype = Build(), d.dtype()
    shape, _ = _scattered(d)
    box, rows = (2, *shape[1:]), shape[-2] - 1
    first = b.scalar("k", 0, shape[0] - 2) if d.number % 2 == 0 else d.random.randint(0, shape[0] - 2)
    cut = (b.scalar("m", 0, rows) if d.number % 3 == 1 else rows, b.scalar("n", 0, shape[-1]) if d.number % 4 == 1 else shape[-1])
    x = d.pointwise(b, "x", b.load("u", shape, dtype=dtype))
    y = b.let("y", "tile.slice", x, box, (first, *(0 for _ in shape[1:])), (*box[:-2], *cut))
    b.out(d.pointwise(b, "z", y))
    return b.function()


def _part_of_pages(d: Draw, b: Build, dtype: DType, shape: Shape, box: Shape) -> Function:
    """A box of a tile that is made page by page, or whose pages are cut."""
    if d.number % 2:
        x = b.load("x", shape, (*shape[:-2], shape[-2] - 1, shape[-1]), dtype)
    else:
        x = b.let("x", d.random.choice(BINARY), b.load("u", shape, dtype=dtype), b.load("v", (1, *shape[1:]), dtype=dtype))
    y = b.let("y", "tile.slice", x, box, _places(d, b, shape, box, False))
    b.out(d.pointwise(b, "z", y))
    return b.function()


def slice_part(d: Draw) -> Function:
    """Rows of several pages read of a tile that is made page by page, or whose pages are cut."""
    b, dtype = Build(), d.dtype()
    shape, box = _scattered(d)
    return _part_of_pages(d, b, dtype, shape, box)


def one_part(d: Draw) -> Function:
    """A part of one page of a tile that is made page by page, or whose pages are cut."""
    b, dtype = Build(), d.dtype()
    shape, (_, *_, rows, cols) = _scattered(d)
    box = (*(1 for _ in shape[:-2]), rows, cols)
    return _part_of_pages(d, b, dtype, shape, box)


def slice_dropped(d: Draw) -> Function:
    """A row of every page, as one tile of rank 2."""
    b, dtype = Build(), d.dtype()
    shape = (*(1 for _ in range(d.rank - 3)), d.random.choice((2, 3)), d.page()[0], d.random.choice((16, 32)))
    x = b.load("x", shape, dtype=dtype)
    row: int | Expr = b.scalar("r", 0, shape[-2] - 1) if d.number % 2 else d.random.randrange(shape[-2])
    at, box = (*(0 for _ in shape[:-2]), row, 0), (*shape[:-2], 1, shape[-1])
    y = b.let("y", "tile.slice", x, box, at, (), (len(shape) - 2,))
    b.out(d.pointwise(b, "z", y))
    return b.function()


def _halves(d: Draw) -> tuple[Build, Shape, Shape, DType]:
    """A function, a 2-D tile, and a box of half of its rows and of some columns."""
    (rows, cols), dtype = d.page(), d.dtype()
    return Build(), (4 * rows, 2 * cols), (2 * rows, d.random.choice((cols, 2 * cols))), dtype


def slice_assemble(d: Draw) -> Function:
    """What was just written, or a part of it, at a constant or beside a scalar."""
    b, shape, box, dtype = _halves(d)
    rows, row = box[0] // 2, b.scalar("r", 0, 3) if d.number % 2 else d.random.randint(0, 3)
    y = b.let("y", "tile.assemble", b.load("t", shape, dtype=dtype), b.load("x", box, dtype=dtype), (row, 0))
    inside = d.random.randint(0, rows)
    at = Binary("add", row, index(inside)) if isinstance(row, Expr) else row + inside
    window, start = ((rows, 8), (at, box[1] - 8)) if d.number % 3 else (box, (row, 0))
    b.out(d.pointwise(b, "w", b.let("z", "tile.slice", y, window, start)))
    return b.function()


def slice_apart(d: Draw) -> Function:
    """Rows or columns beside those that were just written."""
    b, (rows, cols), dtype = Build(), d.page(), d.dtype()
    t = b.load("t", (rows, cols) if d.number % 2 else (3 * rows, cols), dtype=dtype)
    if d.number % 2:
        y = b.let("y", "tile.assemble", t, b.load("x", (rows, cols - 4), dtype=dtype), (0, 4))
        z = b.let("z", "tile.slice", y, (rows - 1, 4), (0, 0))
    else:
        row = b.scalar("r", 0, rows)
        y = b.let("y", "tile.assemble", t, b.load("x", (rows, cols), dtype=dtype), (row, 0))
        z = b.let("z", "tile.slice", y, (rows, cols), (Binary("add", row, index(rows)), 0))
    b.out(d.pointwise(b, "w", z))
    b.out(d.pointwise(b, "v", y))
    return b.function()


def overwritten(d: Draw) -> Function:
    """A box that is written over by a larger one, at a constant or beside a scalar."""
    b, shape, box, dtype = _halves(d)
    rows, row = d.random.randint(1, box[0]), b.scalar("r", 0, 3) if d.number % 2 else d.random.randint(0, 3)
    first = b.load("a", (rows, 8), dtype=dtype)
    inside = box[0] - rows
    at = Binary("add", row, index(inside)) if isinstance(row, Expr) else row + inside
    y = b.let("y", "tile.assemble", b.load("t", shape, dtype=dtype), first, (at, box[1] - 8))
    z = b.let("z", "tile.assemble", y, b.load("x", box, dtype=dtype), (row, 0))
    b.out(d.pointwise(b, "w", z))
    return b.function()


PROGRAMS: dict[str, Generator] = {
    "slice.assemble": slice_assemble,
    "slice.apart": slice_apart,
    "assemble.assemble": overwritten,
    "assemble.covered": covered,
    "pages.assemble.part": assemble_part,
    "assemble.opened": assemble_opened,
    "flat.assemble.pieces": assemble_pieces,
    "flat.assemble.cut": assemble_cut,
    "pages.slice.pages": slice_pages,
    "pages.slice.pieces": slice_pieces,
    "pages.slice.cut": slice_cut,
    "pages.slice.part": slice_part,
    "flat.slice.part": one_part,
    "flat.slice.pieces": slice_dropped,
}


def _sliced(shape: Shape, box: Shape, at: Shape, valid: Shape | None = None, drop: Shape | None = None, row: bool = False) -> Function:
    """A window of a load, stored; `row` moves it by a scalar along the first axis."""
    b = Build()
    x = b.load("x", shape, valid)
    offsets: tuple[int | Expr, ...] = (b.scalar("k", 0, 1), *at[1:]) if row else at
    b.out(b.let("y", "tile.slice", x, box, offsets, *(((), drop) if drop else ())))
    return b.function()


def _cut_window(shape: Shape, asked: Shape, valid: Shape | None = None) -> Function:
    """Two pages of a load, of which a part is asked for, stored."""
    b = Build()
    x = b.load("x", shape, valid)
    b.out(b.let("y", "tile.slice", x, (2, *shape[1:]), (b.scalar("k", 0, 1), 0, 0), asked))
    return b.function()


def _perhaps_none() -> Function:
    """A window of one page, or of none at run time."""
    b = Build()
    x = b.load("x", (4, 8, 16), (4, 7, 16))
    b.out(b.let("y", "tile.slice", x, (1, 4, 16), (0, 0, 0), (b.scalar("n", 0, 1), 4, 16)))
    return b.function()


def _assembled(shape: Shape, box: Shape, at: Shape, valid: Shape | None = None, moving: bool = False) -> Function:
    b = Build()
    t, x = b.load("t", shape, valid, DType.FP32), b.load("x", box, dtype=DType.FP32)
    b.out(b.let("y", "tile.assemble", t, x, (b.scalar("k", 0, 1), *at[1:]) if moving else at))
    return b.function()


def _windowed(box: Shape, at: Shape, window: Shape, then: Shape, dtype: DType = DType.FP32, valid: Shape | None = None) -> Function:
    """A window of a tile [8, 16] into which a box was written."""
    b = Build()
    y = b.let("y", "tile.assemble", b.load("t", (8, 16), valid, dtype), b.load("x", box), at)
    b.out(b.let("z", "tile.slice", y, window, then))
    return b.function()


def _twice(first: Shape, at: Shape, valid: Shape | None = None) -> Function:
    """A box and then one of [4, 16] at row 2 written into a tile [8, 16]."""
    b = Build()
    y = b.let("y", "tile.assemble", b.load("t", (8, 16)), b.load("a", first), at)
    b.out(b.let("z", "tile.assemble", y, b.load("x", (4, 16), valid), (2, 0)))
    return b.function()


#: an unaligned start, a page that is not known, a type that grows, what is no scattered window
NEAR_MISSES: dict[str, tuple[Callable[[], Function], ...]] = {
    "slice.assemble": (
        lambda: _windowed((4, 16), (4, 0), (4, 16), (2, 0)),
        lambda: _windowed((8, 8), (0, 0), (4, 8), (2, 4)),
        lambda: _windowed((4, 16), (4, 0), (2, 16), (4, 0), DType.BF16),
    ),
    "slice.apart": (
        lambda: _windowed((4, 16), (2, 0), (2, 16), (4, 0)),
        lambda: _windowed((8, 8), (0, 8), (4, 8), (0, 4)),
        lambda: _windowed((4, 16), (4, 0), (2, 16), (0, 0), DType.FP32, (4, 16)),
    ),
    "assemble.assemble": (
        lambda: _twice((4, 16), (3, 0)),
        lambda: _twice((4, 16), (1, 0)),
        lambda: _twice((4, 16), (2, 0), (3, 16)),
    ),
    "assemble.covered": (
        lambda: _twice((2, 16), (0, 0)),
        lambda: _twice((8, 8), (0, 0)),
    ),
    "pages.assemble.part": (
        lambda: _assembled((2, 8, 16), (1, 2, 16), (0, 3, 0), moving=True),
        lambda: _assembled((2, 8, 16), (2, 2, 8), (0, 3, 1)),
        lambda: _assembled((2, 8, 16), (2, 8, 8), (0, 0, 8), (2, 8, 8)),
    ),
    "assemble.opened": (
        lambda: _assembled((4, 4, 8), (4, 8), (1, 0, 0), (2, 3, 8)),
        lambda: _assembled((4, 4, 8), (1, 4, 8), (1, 0, 0), (2, 4, 8)),
    ),
    "flat.assemble.pieces": (
        lambda: _assembled((4, 8, 6), (2, 4, 3), (0, 0, 3)),
        lambda: _assembled((4, 8, 16), (2, 8, 16), (1, 0, 0)),
    ),
    "flat.assemble.cut": (
        lambda: _assembled((2, 8, 16), (1, 2, 16), (1, 2, 0)),
        lambda: _assembled((4, 8, 16), (2, 2, 16), (0, 3, 0), (3, 8, 16)),
    ),
    "pages.slice.pages": (
        lambda: _sliced((4, 8, 16), (1, 8, 16), (0, 0, 0), row=True),
        lambda: _sliced((4, 8, 16), (2, 7, 16), (1, 0, 0), (4, 7, 16)),
        lambda: _sliced((4, 8, 16), (2, 8, 16), (0, 0, 0), (3, 8, 16)),
    ),
    "pages.slice.pieces": (
        lambda: _sliced((4, 8, 6), (2, 4, 3), (0, 0, 3)),
        lambda: _sliced((4, 8, 16), (2, 4, 16), (0, 0, 0), (1, 8, 16)),
        lambda: _sliced((4, 8, 16), (4, 1, 16), (0, 2, 0), None, (1,)),
    ),
    "pages.slice.cut": (
        lambda: _cut_window((4, 4, 8), (2, 3, 8), (3, 4, 8)),
        lambda: _cut_window((4, 4, 8), (2, 4, 7)),
        lambda: _cut_window((4, 3, 3), (2, 2, 3)),
        lambda: _cut_window((4, 4, 8), (1, 3, 8)),
    ),
    "pages.slice.part": (
        lambda: _sliced((4, 8, 16), (2, 4, 16), (0, 0, 0), row=True),
        lambda: _sliced((4, 8, 6), (2, 4, 3), (0, 0, 3)),
        lambda: _sliced((4, 8, 16), (2, 4, 16), (0, 0, 0), (1, 8, 16)),
        lambda: _sliced((4, 8, 16), (4, 1, 16), (0, 2, 0), None, (1,)),
    ),
    "flat.slice.part": (
        lambda: _sliced((4, 8, 16), (1, 4, 16), (0, 2, 0), row=True),
        lambda: _sliced((4, 8, 6), (1, 4, 3), (0, 0, 3)),
        lambda: _sliced((4, 8, 16), (2, 4, 16), (0, 0, 0)),
        lambda: _sliced((4, 8, 16), (1, 4, 16), (0, 0, 0), (1, 8, 16)),
        lambda: _perhaps_none(),
    ),
    "flat.slice.pieces": (
        lambda: _sliced((4, 8, 16), (2, 4, 16), (0, 0, 0)),
        lambda: _sliced((4, 8, 6), (4, 1, 6), (0, 1, 0), None, (1,)),
        lambda: _sliced((4, 8, 16), (4, 1, 16), (0, 2, 0), (4, 8, 9), (1,)),
    ),
}
