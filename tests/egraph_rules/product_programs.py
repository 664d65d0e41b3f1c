"""For each rule of products.egg and accumulators.egg a generator of programs in which it fires."""

from __future__ import annotations

from math import prod

from building import Build, Shape
from drawing import ALL, FLOATS, Draw, Generator, scratch_like

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Var
from pypto_ir.stmt import Function
from pypto_ir.types import Layout, TensorView, dims, tensor_type

HALVES = (DType.FP16, DType.BF16, DType.FP32, DType.INT8)
ROW_MAJOR = {"target_memory": "Vec", "blayout": "row_major", "slayout": "none_box"}


def matrix(b: Build, name: str, shape: Shape, dtype: DType, at: Shape | None = None, room: int = 0) -> Var:
    """A load into L1 of a window of a new tensor parameter; `room` is what the tensor is larger in its last axis."""
    source = b.tensor(f"{name}_in", (*shape[:-1], shape[-1] + room), dtype)
    return b.read(name, source, shape, None, at, target_memory="Mat")


def by_columns(b: Build, name: str, shape: Shape, dtype: DType, number: int = 0) -> Var:
    """A load into L1 from a tensor that lies column by column, of a window of rows where `number` is odd."""
    rows = shape[-2] + 16 * (number % 2)
    source = b.given(f"{name}_in", tensor_type(dims(*shape[:-2], rows, shape[-1]), dtype, TensorView(layout=Layout.DN)))
    at = tuple(rows - shape[-2] if axis == len(shape) - 2 else 0 for axis in range(len(shape)))
    return b.read(name, source, shape, None, at, target_memory="Mat")


def ones(batch: Shape) -> Shape:
    return tuple(1 for _ in batch)


def factors(b: Build, d: Draw, left: Shape, right: Shape, page: Shape = (16, 16, 16)) -> tuple[Var, Var]:
    """Operands of a product with these batch dims and (M, K, N)."""
    m, k, n = page
    dtype = d.dtype(HALVES)
    return matrix(b, "l", (*left, m, k), dtype), matrix(b, "r", (*right, k, n), dtype, room=16 * (d.number % 2))


def accumulator(b: Build, name: str, shape: Shape, like: Var) -> Var:
    dtype = "INT32" if like.type.dtype is DType.INT8 else "FP32"  # type: ignore[union-attr]
    return b.let(name, "tile.create", shape, dtype=dtype, target_memory="Acc")


def product(d: Draw) -> Function:
    """A batched product, its batches equal or broadcast."""
    b, batch = Build(), d.batch()
    left, right = d.random.choice(((batch, batch), (batch, ones(batch)), (ones(batch), batch)))
    b.out(b.let("z", "tile.batch_matmul", *factors(b, d, left, right)))
    return b.function()


def one_product(d: Draw) -> Function:
    """A product with one page."""
    b, batch = Build(), ones(d.batch())
    left, right = d.random.choice(((batch, batch), (batch, ()), ((), batch), ((), ())))
    b.out(b.let("z", "tile.batch_matmul", *factors(b, d, left, right)))
    return b.function()


def rows_product(d: Draw) -> Function:
    """A batch of rows times one matrix, stored as rows."""
    b, batch = Build(), d.batch()
    z = b.let("z", "tile.batch_matmul", *factors(b, d, batch, d.random.choice(((), ones(batch)))))
    b.out(b.let("y", "tile.reshape", z, (prod(batch) * 16, 16)))
    return b.function()


def swap(d: Draw) -> Function:
    """A product whose right side is seen transposed."""
    b, batch = Build(), d.batch()
    dtype = d.dtype(HALVES)
    left, right = matrix(b, "l", (*batch, 16, 32), dtype), matrix(b, "r", (*batch, 16, 32), dtype)
    b.out(b.let("z", "tile.batch_matmul", left, b.let("t", "tile.transpose_view", right)))
    return b.function()


def turned_product(d: Draw) -> Function:
    """One matrix times a batch that is seen transposed."""
    b, batch = Build(), d.batch()
    dtype, n = d.dtype(HALVES), d.random.choice((16, 32))
    left = matrix(b, "l", (*d.random.choice(((), ones(batch))), 16, 32), dtype)
    right = matrix(b, "r", (*batch, n, 32), dtype, room=16 * (d.number % 2))
    b.out(b.let("z", "tile.batch_matmul", left, b.let("t", "tile.transpose_view", right)))
    return b.function()


def column_product(d: Draw) -> Function:
    """A batch times matrices that lie column by column, or one matrix times them."""
    b, batch = Build(), d.batch()
    dtype, n = d.dtype(HALVES), d.random.choice((16, 32))
    left = matrix(b, "l", (*d.random.choice((batch, ones(batch))), 16, 32), dtype)
    b.out(b.let("z", "tile.batch_matmul", left, by_columns(b, "r", (*batch, 32, n), dtype, d.number)))
    return b.function()


def one_side(d: Draw) -> Function:
    """One matrix times a batch of matrices that lie column by column."""
    b, batch = Build(), d.batch()
    dtype, n = d.dtype(HALVES), d.random.choice((16, 32))
    left = matrix(b, "l", (*d.random.choice(((), ones(batch))), 16, 32), dtype)
    b.out(b.let("z", "tile.batch_matmul", left, by_columns(b, "r", (*batch, 32, n), dtype, d.number)))
    return b.function()


def turned_window(d: Draw) -> Function:
    """A window of the transposed view of a load, at constants and at scalars."""
    b, batch = Build(), d.batch()
    dtype = d.dtype(HALVES)
    t = b.let("t", "tile.transpose_view", matrix(b, "r", (*batch, 32, 64), dtype, room=16 * (d.number % 2)))
    depth, row = d.random.choice(((64, 0), (32, 32), (32, b.scalar("k", 0, 32) if d.number % 3 == 0 else 0)))
    first = tuple(0 for _ in batch)
    window = b.let("y", "tile.slice", t, (*batch, depth, 16), (*first, row, 16))
    b.out(b.let("z", "tile.batch_matmul", matrix(b, "l", (*batch, 16, depth), dtype), window))
    return b.function()


def turned_columns(d: Draw) -> Function:
    """Matrices that lie column by column, seen transposed, times one matrix."""
    b, batch = Build(), d.batch()
    dtype = d.dtype(HALVES)
    left = b.let("t", "tile.transpose_view", by_columns(b, "l", (*batch, 32, 16), dtype, d.number))
    b.out(b.let("z", "tile.batch_matmul", left, matrix(b, "r", (*d.random.choice(((), ones(batch))), 32, 16), dtype)))
    return b.function()


def transpose(d: Draw) -> Function:
    b, batch = Build(), d.batch()
    x = b.load("x", (*batch, *d.random.choice(((8, 16), (16, 8), (32, 8)))), dtype=d.dtype(ALL[:4]))
    last = d.rank - 1
    scratch = (scratch_like(b, "given", x),) if d.number % 3 == 2 else ()
    b.out(b.let("y", "tile.transpose", x, d.random.choice((last - 1, -2)), last, *scratch))
    return b.function()


def one_transpose(d: Draw) -> Function:
    b, batch = Build(), ones(d.batch()) if d.number % 2 else ()
    x = b.load("x", (*batch, *d.random.choice(((8, 16), (16, 8), (16, 16), (32, 8)))), dtype=d.dtype(ALL[:4]))
    b.out(b.let("y", "tile.transpose", x, -2, len(batch) + 1))
    return b.function()


def pack(d: Draw) -> Function:
    """What is made page by page and needed as one tile."""
    b, batch = Build(), d.batch()
    if d.number % 2:
        x = b.load("x", (*batch, 8, 16), dtype=d.dtype(ALL[:4]))
        y = b.let("y", "tile.transpose", x, -2, -1)
        b.out(b.let("z", "tile.reshape", y, (*batch, 8, 16)))
    else:
        z = b.let("z", "tile.batch_matmul", *factors(b, d, batch, batch))
        y = b.let("y", "tile.move", z, **ROW_MAJOR)
        b.out(b.let("w", "tile.reshape", y, (*batch, 8, 32)))
    return b.function()


def create(d: Draw) -> Function:
    """An accumulator that two products add to, one after the other."""
    b, batch = Build(), d.batch()
    left, right = factors(b, d, batch, d.random.choice((batch, ones(batch))))
    acc = accumulator(b, "acc", (*batch, 16, 16), left)
    first = b.let("first", "tile.batch_matmul_acc", acc, left, right, True)
    b.out(b.let("second", "tile.batch_matmul_acc", first, left, right))
    return b.function()


def leaf(d: Draw) -> Function:
    """An accumulator that a K loop carries."""
    b, batch = Build(), d.batch()
    dtype, steps = d.dtype(HALVES), d.random.randint(1, 3)
    a, w = b.tensor("a", (*batch, 16, 16 * steps), dtype), b.tensor("w", (*batch, 16 * steps, 32), dtype)
    acc0 = accumulator(b, "acc0", (*batch, 16, 32), a)
    with b.loop("k", steps, {"acc": acc0}) as (k, acc):
        at = Binary("mul", k, Const(16))
        zero = tuple(0 for _ in batch)
        left = b.read("l", a, (*batch, 16, 16), None, (*zero, 0, at), target_memory="Mat")
        right = b.read("r", w, (*batch, 16, 32), None, (*zero, at, 0), target_memory="Mat")
        b.yields(b.let("more", "tile.batch_matmul_acc", acc, left, right, Binary("eq", k, Const(0))))
    b.out(b.ended[0])
    return b.function()


def reshape(d: Draw) -> Function:
    """An accumulator whose batch dims are regrouped between two products."""
    b, batch = Build(), d.batch()
    left, right = factors(b, d, batch, batch)
    acc = accumulator(b, "acc", (prod(batch), 1, 16, 16), left)
    seen = b.let("seen", "tile.reshape", acc, (*batch, 16, 16))
    b.out(b.let("more", "tile.batch_matmul_acc", seen, left, right, True))
    return b.function()


def started(d: Draw) -> Function:
    """A product that a second one adds to."""
    b, batch = Build(), d.batch()
    page = d.random.choice(((16, 32, 48), (16, 16, 32), (32, 16, 16)))
    left, right = factors(b, d, batch, d.random.choice((batch, ones(batch))), page)
    first = b.let("first", "tile.batch_matmul", left, right)
    b.out(b.let("second", "tile.batch_matmul_acc", first, left, right))
    return b.function()


def window(d: Draw) -> Function:
    """One page of an accumulator, at a constant or at a scalar, updated by a product of its own."""
    b, batch = Build(), d.batch()
    dtype = d.dtype(HALVES)
    left, right = matrix(b, "l", (16, 16), dtype), matrix(b, "r", (16, 32), dtype)
    full, wide = matrix(b, "fl", (*batch, 16, 16), dtype), matrix(b, "fr", (*batch, 16, 32), dtype)
    acc = b.let("acc", "tile.batch_matmul", full, wide)
    at = [d.random.randrange(n) for n in batch]
    place = (b.scalar("p", 0, batch[0] - 1), *at[1:], 0, 0) if d.number % 2 else (*at, 0, 0)
    cut = b.let("cut", "tile.slice", acc, (*ones(batch), 16, 32), place)
    page = b.let("page", "tile.matmul_acc", b.let("flat", "tile.reshape", cut, (16, 32)), left, right)
    back = b.let("back", "tile.reshape", page, (*ones(batch), 16, 32))
    b.out(b.let("all", "tile.assemble", acc, back, place))
    return b.function()


def bands(d: Draw) -> Function:
    """A batch stored as rows of a 2-D tensor."""
    b, shape = Build(), d.shape()
    x = b.load("x", shape, dtype=d.dtype())
    y = b.let("y", "tile.reshape", d.pointwise(b, "w", x), (prod(shape[:-1]), shape[-1]))
    b.out(y, (prod(shape[:-1]) + 3, shape[-1] + 1), (d.random.randint(0, 3), d.random.randint(0, 1)))
    return b.function()


def stored_rows(d: Draw) -> Function:
    """A merged product stored as a batch of pages, into a tensor of the same axes or of others."""
    b, batch = Build(), d.batch()
    z = b.let("z", "tile.batch_matmul", *factors(b, d, batch, ()))
    if d.number % 2:
        b.out(z, (batch[0] + 1, *batch[1:], 16, 24), (d.random.randint(0, 1), *(0 for _ in batch[1:]), 0, d.random.randint(0, 8)))
    else:
        flat = b.let("flat", "tile.reshape", z, (prod(batch) * 16, 16))
        target = b.tensor("out", (2 * prod(batch) + 1, 8, 16), z.type.dtype, "Out")  # type: ignore[union-attr]
        b.results.append(b.store("o", flat, target, (d.random.randint(0, 1), 0, 0), (2 * prod(batch), 8, 16)))
    return b.function()


def drained(d: Draw) -> Function:
    """A product that is converted on its way out."""
    b, batch = Build(), d.batch() if d.number % 2 else ones(d.batch())
    dtype = d.random.choice((DType.FP16, DType.BF16))
    left, right = matrix(b, "l", (*batch, 16, 32), dtype), matrix(b, "r", (*batch, 32, 16), dtype)
    z = b.let("z", "tile.batch_matmul", left, right)
    moved = z if d.number % 3 == 2 else b.let("v", "tile.move", z, **ROW_MAJOR)
    narrow = d.random.choice(("FP16", "BF16"))
    b.out(b.let("c", "tile.cast", moved, target_type=narrow, mode=d.random.choice(("round", "rint"))))
    return b.function()


def moved_out(d: Draw) -> Function:
    """A product that is moved to Vec only to be stored."""
    b, batch = Build(), d.batch() if d.number % 2 else ones(d.batch())
    z = b.let("z", "tile.batch_matmul", *factors(b, d, batch, batch))
    b.out(b.let("v", "tile.move", z, **ROW_MAJOR))
    return b.function()


def stored_pages(d: Draw) -> Function:
    """Pages that fill several axes of a tensor of other axes."""
    b, batch = Build(), d.batch()
    z = b.let("z", "tile.batch_matmul", *factors(b, d, batch, d.random.choice((batch, ones(batch)))))
    flat = b.let("flat", "tile.reshape", z, (prod(batch), 16, 16))
    target = b.tensor("out", (2 * prod(batch) + 2, 1, 8, 24), z.type.dtype, "Out")  # type: ignore[union-attr]
    box = (2 * prod(batch), 1, 8, 16)
    b.results.append(b.store("o", flat, target, (d.random.randint(0, 2), 0, 0, d.random.randint(0, 8)), box))
    return b.function()


def load_view(d: Draw) -> Function:
    """Loads into L1 of a run of rows of a larger tensor."""
    b, batch = Build(), d.batch()
    dtype = d.dtype(HALVES)
    source = b.tensor("src", (batch[0] + 1, *batch[1:], 16, 48), dtype)
    at = (b.scalar("p", 0, 1) if d.number % 2 else 1, *(0 for _ in batch[1:]), 0, 16)
    x = b.read("x", source, (*batch, 16, 16), None, at, target_memory="Mat")
    b.out(b.let("z", "tile.batch_matmul", x, matrix(b, "r", (16, 16), dtype)))
    return b.function()


def col_reduce(d: Draw) -> Function:
    """Axis 0 of a tile of rank above 2 is reduced, over all of it or over its first pages."""
    b, shape = Build(), d.shape()
    valid = d.random.choice((shape, (1, *shape[1:]), (*(1 for _ in shape[:-2]), shape[-2] - 1, shape[-1])))
    x = b.load("x", shape, valid, d.dtype(FLOATS))
    op = ("tile.col_sum", "tile.col_max", "tile.col_argmax", "tile.col_min", "tile.col_prod", "tile.col_sum")[d.number % 6]
    with_scratch = op == "tile.col_argmax" or d.number % 6 == 5
    b.out(b.let("y", op, x, *((scratch_like(b, "tmp", x),) if with_scratch else ())))
    return b.function()


def first_reduce(d: Draw) -> Function:
    """Axis 0 is reduced over as many slabs as a run tells, which may be none."""
    b, shape = Build(), (d.random.choice((2, 3)), *d.shape()[1:])
    x = b.load("x", shape, (b.scalar("n", 0, shape[0] - 1), *shape[1:]), d.dtype(FLOATS))
    op = ("tile.col_sum", "tile.col_max", "tile.col_argmin", "tile.col_min", "tile.col_prod", "tile.col_sum")[d.number % 6]
    with_scratch = op == "tile.col_argmin" or d.number % 6 == 5
    b.out(b.let("y", op, d.pointwise(b, "z", x), *((scratch_like(b, "tmp", x),) if with_scratch else ())))
    return b.function()


def col_fold(d: Draw) -> Function:
    """Axis 0 of a tile whose pages are cut, or start where no view can, is reduced."""
    b, shape = Build(), (d.random.choice((2, 3)), *d.shape()[1:])
    valid = (*shape[:-2], shape[-2] - (d.number % 3 == 0), shape[-1] - 1)
    op = ("tile.col_sum", "tile.col_max", "tile.col_min", "tile.col_prod")[d.number % 4]
    x = b.load("x", shape, valid, d.dtype(FLOATS) if op in ("tile.col_max", "tile.col_min") else DType.FP32)
    b.out(b.let("y", op, x))
    return b.function()


def expand_pages(d: Draw) -> Function:
    """Every page is padded to a larger one."""
    b, shape = Build(), d.shape()
    x = b.load("x", shape, d.page_valid(b, shape), d.dtype())
    larger = (*shape[:-2], shape[-2] + 2, shape[-1] + d.random.choice((0, 16)))
    b.out(b.let("y", "tile.fillpad_expand", x, larger, pad_value=d.random.choice(("zero", "max", "min"))))
    return b.function()


def expand_flat(d: Draw) -> Function:
    """Every row is padded to a longer one, perhaps with more pages behind, or one page to a larger one."""
    b, shape = Build(), d.shape() if d.number % 2 else (1, 1, *d.page())
    x = b.load("x", shape, d.rows_valid(b, shape), d.dtype())
    more = d.random.randrange(2) if d.number % 2 else 0
    larger = (shape[0] + more, *shape[1:-2], shape[-2] + (0 if d.number % 2 else 2), shape[-1] + (0 if more else 16))
    b.out(b.let("y", "tile.fillpad_expand", x, larger, pad_value=d.random.choice(("zero", "max", "min"))))
    return b.function()


def expand_steps(d: Draw) -> Function:
    """Pages are padded to larger ones, with more pages behind them, or some of them are missing."""
    b, (rows, cols) = Build(), d.page()
    shape = (2, *(1 for _ in range(d.rank - 3)), rows, cols)
    v = b.scalar("v", 0, 2)
    match d.number % 4:
        case 0:
            valid = (v, *shape[1:])
        case 1:
            valid = (*shape[:-2], rows - 1, cols)
        case 2:
            valid = (1, *shape[1:-1], cols - 1)
        case _:
            valid = shape
    more = 0 if d.number % 4 == 0 else d.random.choice((1, 2))
    larger = (2 + more, *shape[1:-2], rows + 2, cols)
    b.out(
        b.let("y", "tile.fillpad_expand", b.load("x", shape, valid, d.dtype()), larger, pad_value=d.random.choice(("zero", "max", "min")))
    )
    return b.function()


PROGRAMS: dict[str, Generator] = {
    "store.bands": bands,
    "store.view": stored_rows,
    "store.drain": drained,
    "store.moved": moved_out,
    "store.pages.view": stored_pages,
    "flat.load.view": load_view,
    "pages.load.view": load_view,
    "pages.product": product,
    "flat.product": one_product,
    "flat.product.rows": rows_product,
    "pages.swap": swap,
    "cols.load": column_product,
    "pages.load.cols": column_product,
    "flat.swap": turned_columns,
    "cols.product.load": one_side,
    "slice.turned": turned_window,
    "pages.transpose": transpose,
    "flat.transpose": one_transpose,
    "flat.col-reduce": col_reduce,
    "flat.first-reduce": first_reduce,
    "pages.col-reduce": col_fold,
    "fold.first": col_fold,
    "fold.next": col_fold,
    "pages.expand": expand_pages,
    "flat.expand": expand_flat,
    "expand.steps": expand_steps,
    "flat.pack.products": pack,
    "cols.create": create,
    "cols.leaf": leaf,
    "cols.reshape": reshape,
    "cols.accumulate": create,
    "cols.product": started,
    "cols.product.turned": turned_product,
    "cols.slice": window,
    "cols.assemble": window,
    "pages.cols": started,
}
