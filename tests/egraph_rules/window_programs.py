"""For each rule of windows.egg a generator of programs in which it fires, and the programs on which its condition fails."""

from __future__ import annotations

from collections.abc import Callable

from building import Build, Shape
from drawing import BINARY, Draw, Generator

from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr
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
    t, x = b.load("t", shape, dtype=dtype), b.load("x", box, dtype=dtype)
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


def slice_pieces(d: Draw) -> Function:
    """Rows of several pages read, wherever they stand."""
    b, dtype = Build(), d.dtype()
    shape, box = _scattered(d)
    x = b.load("x", shape, dtype=dtype)
    y = b.let("y", "tile.slice", x, box, _places(d, b, shape, box, d.number % 2 == 0))
    b.out(d.pointwise(b, "z", y))
    return b.function()


def slice_part(d: Draw) -> Function:
    """Rows of several pages read of a tile that is made page by page, or whose pages are cut."""
    b, dtype = Build(), d.dtype()
    shape, box = _scattered(d)
    if d.number % 2:
        x = b.load("x", shape, (*shape[:-2], shape[-2] - 1, shape[-1]), dtype)
    else:
        x = b.let("x", d.random.choice(BINARY), b.load("u", shape, dtype=dtype), b.load("v", (1, *shape[1:]), dtype=dtype))
    y = b.let("y", "tile.slice", x, box, _places(d, b, shape, box, False))
    b.out(d.pointwise(b, "z", y))
    return b.function()


def one_part(d: Draw) -> Function:
    """A part of one page of a tile that is made page by page, or whose pages are cut."""
    b, dtype = Build(), d.dtype()
    shape, (_, *_, rows, cols) = _scattered(d)
    box = (*(1 for _ in shape[:-2]), rows, cols)
    if d.number % 2:
        x = b.load("x", shape, (*shape[:-2], shape[-2] - 1, shape[-1]), dtype)
    else:
        x = b.let("x", d.random.choice(BINARY), b.load("u", shape, dtype=dtype), b.load("v", (1, *shape[1:]), dtype=dtype))
    y = b.let("y", "tile.slice", x, box, _places(d, b, shape, box, False))
    b.out(d.pointwise(b, "z", y))
    return b.function()


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


PROGRAMS: dict[str, Generator] = {
    "pages.assemble.part": assemble_part,
    "flat.assemble.pieces": assemble_pieces,
    "pages.slice.pieces": slice_pieces,
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


def _assembled(shape: Shape, box: Shape, at: Shape, valid: Shape | None = None, moving: bool = False) -> Function:
    b = Build()
    t, x = b.load("t", shape, valid, DType.FP32), b.load("x", box, dtype=DType.FP32)
    b.out(b.let("y", "tile.assemble", t, x, (b.scalar("k", 0, 1), *at[1:]) if moving else at))
    return b.function()


#: an unaligned start, a page that is not known, a type that grows, what is no scattered window
NEAR_MISSES: dict[str, tuple[Callable[[], Function], ...]] = {
    "pages.assemble.part": (
        lambda: _assembled((2, 8, 16), (1, 2, 16), (0, 3, 0), moving=True),
        lambda: _assembled((2, 8, 16), (2, 2, 8), (0, 3, 1)),
        lambda: _assembled((2, 8, 16), (2, 3, 16), (0, 5, 0), (2, 5, 16)),
    ),
    "flat.assemble.pieces": (
        lambda: _assembled((4, 8, 6), (2, 4, 3), (0, 0, 3)),
        lambda: _assembled((4, 8, 16), (2, 8, 16), (1, 0, 0)),
    ),
    "pages.slice.pieces": (
        lambda: _sliced((4, 8, 6), (2, 4, 3), (0, 0, 3)),
        lambda: _sliced((4, 8, 16), (2, 4, 16), (0, 0, 0), (1, 8, 16)),
        lambda: _sliced((4, 8, 16), (4, 1, 16), (0, 2, 0), None, (1,)),
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
    ),
    "flat.slice.pieces": (
        lambda: _sliced((4, 8, 16), (2, 4, 16), (0, 0, 0)),
        lambda: _sliced((4, 8, 6), (4, 1, 6), (0, 1, 0), None, (1,)),
        lambda: _sliced((4, 8, 16), (4, 1, 16), (0, 2, 0), (4, 8, 9), (1,)),
    ),
}
