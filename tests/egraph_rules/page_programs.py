"""For each rule of pages.egg and slices.egg a generator of programs in which it fires."""

from __future__ import annotations

from math import prod

from building import Build, Shape
from drawing import BINARY, COL_EXPAND, FLOATS, ROW_EXPAND, Draw, Generator, scratch_like
from flat_programs import handed_on

from pypto_ir.expr import Const, Var
from pypto_ir.stmt import Function, Param
from pypto_ir.types import Layout, TensorView, TileType, dims, tensor_type


def store_pages(d: Draw) -> Function:
    b, shape = Build(), d.shape()
    x = b.load("x", shape, d.page_valid(b, shape), d.dtype())
    b.out(x, tuple(n + 1 for n in shape), tuple(d.random.randint(0, 1) for _ in shape))
    return b.function()


def row_run(d: Draw) -> Function:
    """Rows that go one after another over axes of their target without filling a box; every other target has gaps between its rows."""
    b = Build()
    count, rows, cols = d.random.randint(2, 3), d.random.choice((4, 8)), d.random.choice((8, 16))
    x = d.pointwise(b, "y", b.load("x", (count * rows - d.random.choice((0, 2)), cols), dtype=d.dtype()))
    shape: Shape = (count + 2, rows, cols) if d.number % 3 else (2, count + 2, rows, cols)
    pitches = tuple(2 * prod(shape[i + 1 :]) for i in range(len(shape) - 1))
    assert isinstance(x.type, TileType)
    view = TensorView(stride=dims(*pitches, 1)) if d.number % 2 else None
    target = Var("out", tensor_type(dims(*shape), x.type.dtype, view))
    b.params.append(Param(target, "Out"))
    first = b.scalar("k", 0, 1) if len(shape) == 3 and d.number % 4 else 0
    b.results.append(b.store("out_1", x, target, (first, rows // 2, 0) if len(shape) == 3 else (1, 0, rows // 2, 0)))
    return b.function()


def one(d: Draw) -> Function:
    """A tile of one page beside tiles of several, which read it page by page."""
    b, shape = Build(), d.shape()
    dtype, page = d.dtype(), d.random.choice((shape[-2:], (1, *shape[-2:])))
    x = b.load("x", shape, dtype=dtype)
    y = b.load("y", page[-2:], dtype=dtype)
    b.out(b.let("z", d.random.choice(BINARY), x, y))
    return b.function()


def rows(d: Draw) -> Function:
    """Pages of a tile that has a flat form."""
    b, shape = Build(), d.shape()
    x = b.load("x", shape, dtype=d.dtype())
    b.out(d.pointwise(b, "y", x))
    return b.function()


def leaf(d: Draw) -> Function:
    """A tile that a loop or a branch hands on."""
    return handed_on(d, d.page_valid)


def load(d: Draw) -> Function:
    if d.number % 4 == 3:
        return column_load(d)
    b, shape = Build(), d.shape()
    dtype, valid = d.dtype(), d.page_valid(b, shape)
    source = b.tensor("src", tuple(n + 2 for n in shape), dtype)
    x = b.read("x", source, shape, valid, tuple(d.random.randint(0, 2) for _ in shape))
    b.out(d.pointwise(b, "y", x))
    return b.function()


def column_load(d: Draw) -> Function:
    """Loads into L1 of pages that lie column by column, which have no 2-D view."""
    b, batch, dtype = Build(), d.batch(), d.dtype(FLOATS)
    left = b.read("l", b.tensor("left", (16, 32), dtype), (16, 32), target_memory="Mat")
    source = Var("right", tensor_type(dims(*batch, 32, 16), dtype, TensorView(layout=Layout.DN)))
    b.params.append(Param(source, "In"))
    right = b.read("r", source, (*batch, 32, 16), target_memory="Mat")
    b.out(b.let("z", "tile.batch_matmul", left, right))
    return b.function()


def create(d: Draw) -> Function:
    """A created tile that is filled page by page."""
    b, shape = Build(), d.shape()
    dtype, page = d.dtype(), (*(1 for _ in shape[:-2]), *shape[-2:])
    made, x = b.create("made", shape, dtype), b.load("x", page, dtype=dtype)
    at = tuple(d.random.randrange(n) for n in shape[:-2])
    b.out(b.let("y", "tile.assemble", made, x, (*at, 0, 0)))
    return b.function()


def full(d: Draw) -> Function:
    b, shape = Build(), d.shape()
    dtype = d.dtype()
    c = b.full("c", shape, d.random.choice((0.0, -0.0, 2.5)) if dtype in FLOATS else d.random.randint(-3, 3), dtype)
    b.out(b.let("y", d.random.choice(BINARY), c, b.load("x", shape, dtype=dtype)))
    return b.function()


def op(d: Draw) -> Function:
    b, shape = Build(), d.shape()
    x = b.load("x", shape, d.page_valid(b, shape), d.dtype(FLOATS))
    by_row = d.number % 2
    b.out(b.let("y", "tile.row_max", x, scratch_like(b, "tmp", x)) if by_row else d.pointwise(b, "y", x))
    return b.function()


def write(d: Draw) -> Function:
    """Cells of a tile that is made page by page written, within its valid rows and beyond them."""
    b, shape = Build(), d.shape()
    y = b.let("y", "tile.exp", b.load("x", shape, d.page_valid(b, shape)))
    at = (*(d.random.randrange(n) for n in shape[:-1]), b.scalar("c", 0, shape[-1] - 1) if d.number % 2 else 0)
    b.out(b.let("z", "tile.write", y, at, Const(1.5, y.type.dtype)))
    return b.function()


def args(d: Draw) -> Function:
    """Operands of every role, with as many pages as the result and with fewer."""
    b, shape = Build(), d.shape()
    valid, dtype = d.page_valid(b, shape), d.dtype(FLOATS)
    x = b.load("x", shape, valid, dtype)
    rows, cols = shape[-2:]
    few = (1, *shape[1:-2])
    match d.number % 4:
        case 0:
            y = b.let("y", d.random.choice(BINARY), x, b.load("w", (*few, rows, cols), dtype=dtype))
        case 1:
            y = b.let("y", d.random.choice(ROW_EXPAND), x, b.load("w", (*few, rows, 1), dtype=dtype))
        case 2:
            y = b.let("y", d.random.choice(COL_EXPAND), x, b.load("w", (*few, 1, cols), dtype=dtype))
        case _:
            y = b.let("y", "tile.row_sum", x, scratch_like(b, "tmp", x))
    b.out(y)
    return b.function()


def spread_same(d: Draw) -> Function:
    """Batches that are equal up to unit axes."""
    b, shape = Build(), d.shape()
    dtype = d.dtype()
    other = d.random.choice((shape, (1, *shape)))
    b.out(b.let("z", d.random.choice(BINARY), b.load("x", shape, dtype=dtype), b.load("y", other, dtype=dtype)))
    return b.function()


def reshape(d: Draw) -> Function:
    """Batch dims regrouped around the same pages. A page of 15 elements is no window of the flat form."""
    b, shape = Build(), (*d.batch(), 3, 5)
    x = b.load("x", shape, dtype=d.dtype())
    target = d.random.choice(((1, *shape), (*shape[:-2], 1, 3, 5), (prod(shape[:-2]), 1, 3, 5)))
    b.out(d.pointwise(b, "z", b.let("y", "tile.reshape", x, target)))
    return b.function()


def assemble(d: Draw) -> Function:
    """Whole pages written over a tile: the last axes of the batch, or one page."""
    b, shape = Build(), d.shape()
    dtype = d.dtype()
    one = tuple(1 for _ in shape[:-2])
    lead = d.random.choice((one, (1, *shape[1:-2]))) if shape[0] > 1 else one
    at = tuple(d.random.randint(0, n - k) for n, k in zip(shape[:-2], lead, strict=True))
    t, x = b.load("t", shape, dtype=dtype), b.load("x", (*lead, *shape[-2:]), dtype=dtype)
    y = b.let("y", "tile.assemble", t, x, (*at, 0, 0))
    b.out(d.pointwise(b, "z", y))
    return b.function()


def pack(d: Draw) -> Function:
    """A consumer that needs the flat form of what is made page by page: an op whose operand repeats along the
    batch, an assemble of pages that are no run, or a slice of such."""
    b = Build()
    if d.number % 4 == 3:
        page, dtype = d.page(), d.dtype()
        t, at = b.load("t", (3, 2, *page), dtype=dtype), (d.random.randint(0, 1), d.random.randint(0, 1), 0, 0)
        if d.number % 8 == 3:
            y = b.let("y", "tile.assemble", t, b.load("w", (2, 1, *page), dtype=dtype), at)
        else:
            y = b.let("y", "tile.slice", t, (2, 1, *page), at)
        b.out(b.let("z", "tile.reshape", y, (y.type.shape[0], y.type.shape[1], page[0] // 2, page[1] * 2)))  # type: ignore[union-attr]
        return b.function()
    batch, (rows, cols), dtype = (
        (d.batch(3) if d.rank == 3 else (2, *d.batch(d.rank - 1))),
        d.page(),
        d.dtype(FLOATS),
    )
    shape, ones = (*batch, rows, cols), tuple(1 for _ in batch)
    x = b.load("x", shape, dtype=dtype)
    match d.number % 4:
        case 0:
            y = b.let("y", d.random.choice(BINARY), x, b.load("w", (*ones, rows, cols), dtype=dtype))
        case 1:
            y = b.let("y", d.random.choice(ROW_EXPAND[:3]), x, b.load("w", (*ones, rows, 1), dtype=dtype))
        case _:
            y = b.let("y", d.random.choice(COL_EXPAND[:3]), x, b.load("w", (*batch, 1, cols), dtype=dtype))
    b.out(b.let("z", "tile.reshape", y, (*batch, rows // 2, cols * 2)))
    return b.function()


def opened(d: Draw) -> Function:
    """Ops of which an operand repeats along the batch, on a tile that is valid in some slabs of its first axis, one after another."""
    b, dtype = Build(), d.dtype(FLOATS)
    lead = d.batch(3) if d.rank == 3 else (2, *d.batch(d.rank - 1))
    shape, ones = (*lead, *d.page()), tuple(1 for _ in lead)
    rows, cols = shape[-2:]
    n = b.scalar("n", 0, shape[0]) if d.number % 5 else shape[0] - 1
    y = b.load("x", shape, (n, *shape[1:]), dtype)
    for i in range(2 if d.number % 4 == 0 else 1):
        match (d.number + i) % 3:
            case 0:
                y = b.let(f"y{i}", d.random.choice(BINARY), y, b.load(f"w{i}", (*ones, rows, cols), dtype=dtype))
            case 1:
                y = b.let(f"y{i}", d.random.choice(ROW_EXPAND[:3]), y, b.load(f"w{i}", (*ones, rows, 1), dtype=dtype))
            case _:
                y = b.let(f"y{i}", d.random.choice(COL_EXPAND[:3]), y, b.load(f"w{i}", (*lead, 1, cols), (n, *lead[1:], 1, cols), dtype))
    b.out(y)
    return b.function()


def opened_back(d: Draw) -> Function:
    """Two such ops, one after the other."""
    b, dtype = Build(), d.dtype(FLOATS)
    shape, ops = (d.random.choice((2, 3)), *d.shape()[1:]), (d.random.choice(BINARY), d.random.choice(BINARY))
    y = b.load("x", shape, (b.scalar("n", 0, shape[0]) if d.number % 2 else 1, *shape[1:]), dtype)
    for i, op in enumerate(ops):
        y = b.let(f"y{i}", op, y, b.load(f"w{i}", (1, *shape[1:]), dtype=dtype))
    b.out(y)
    return b.function()


def slice_load(d: Draw) -> Function:
    """Windows of loads, which may be cut, of rank 2 and more, at constants and at scalars."""
    b, shape = Build(), d.page() if d.number % 4 == 3 else d.shape()
    source = b.tensor("src", tuple(n + 2 for n in shape), d.dtype())
    valid = (*shape[:-2], shape[-2] - 1, shape[-1]) if d.number % 2 else shape
    x = b.read("x", source, shape, valid, at=tuple(d.random.randint(0, 2) for _ in shape))
    window = tuple(max(1, n - d.random.randint(0, 1)) for n in shape[:-2])
    extents = (*window, shape[-2] // 2, shape[-1])
    row = b.scalar("r", 0, shape[-2] // 2) if d.number % 3 == 0 else shape[-2] // 2
    b.out(d.pointwise(b, "z", b.let("y", "tile.slice", x, extents, (*(0 for _ in window), row, 0))))
    return b.function()


def slice_slice(d: Draw) -> Function:
    """Windows of windows, at constants and at scalars."""
    b = Build()
    x = b.load("x", (16, 32), dtype=d.dtype())
    r = b.scalar("r", 0, 4) if d.number % 2 else d.random.randint(0, 4)
    y = b.let("y", "tile.slice", x, (12, 16), (r, 16))
    z = b.let("z", "tile.slice", y, (d.random.choice((2, 4)), 8), (d.random.randint(0, 8), d.random.choice((0, 8))))
    b.out(d.pointwise(b, "w", z))
    return b.function()


def slice_whole(d: Draw) -> Function:
    b, shape = Build(), d.page()
    x = d.pointwise(b, "x", b.load("w", shape, dtype=d.dtype()))
    b.out(d.pointwise(b, "z", b.let("y", "tile.slice", x, shape, (0, 0))))
    return b.function()


def assemble_whole(d: Draw) -> Function:
    """A tile that covers its target: an N-D one or a 2-D one."""
    b = Build()
    shape, dtype = d.page() if d.number % 2 else d.shape(), d.dtype()
    t = b.create("t", shape, dtype)
    y = b.let("y", "tile.assemble", t, b.load("x", shape, dtype=dtype), (0,) * len(shape))
    b.out(d.pointwise(b, "z", y))
    return b.function()


PROGRAMS: dict[str, Generator] = {
    "store.pages": store_pages,
    "store.boxes": row_run,
    "pages.one": one,
    "pages.rows": rows,
    "pages.leaf": leaf,
    "pages.load": load,
    "pages.create": create,
    "pages.full": full,
    "pages.op": op,
    "pages.write": write,
    "pages.args.nil": args,
    "pages.args": args,
    "spread.same": spread_same,
    "pages.reshape": reshape,
    "pages.assemble": assemble,
    "op.opened": opened,
    "opened.back": opened_back,
    "flat.pack": pack,
    "slice.slice": slice_slice,
    "slice.load": slice_load,
    "slice.whole": slice_whole,
    "assemble.whole": assemble_whole,
}
