"""For each rule of flatten.egg a generator of programs in which it fires, found by its name."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from building import Build, Shape
from drawing import ALL, BINARY, COL_EXPAND, FLOATS, ROW_EXPAND, Draw, Generator, scratch_like

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Expr
from pypto_ir.stmt import Function


def _collapsed(shape: Shape) -> Shape:
    return (prod(shape[:-1]), shape[-1])


def identity(d: Draw) -> Function:
    b = Build()
    shape = d.page() if d.number % 2 else (1, d.page()[1])
    x = b.load("x", shape, d.rows_valid(b, shape), d.dtype())
    b.out(d.pointwise(b, "y", x))
    return b.function()


def leaf(d: Draw) -> Function:
    """A tile that a loop or a branch hands on."""
    return handed_on(d, d.rows_valid)


def handed_on(d: Draw, region: Callable[[Build, Shape], tuple[int | Expr, ...]]) -> Function:
    """A tile that a loop or a branch hands on, with a valid region that `region` draws."""
    b, shape = Build(), d.shape()
    valid, dtype = region(b, shape), d.dtype()
    x, s = b.load("x", shape, valid, dtype), b.load("s", shape, valid, dtype)
    if d.number % 2:
        with b.loop("i", d.random.randint(0, 3), {"acc": x}) as (_, acc):
            b.yields(b.let("sum", d.random.choice(BINARY), acc, s))
        b.out(b.ended[0])
    else:
        k = b.scalar("k", 0, 1)
        arms = (lambda: b.yields(b.let("p", "tile.add", x, s)), lambda: b.yields(x))
        (joined,) = b.branch(Binary("gt", k, Binary("sub", k, k)), *arms, {"joined": x.type})
        b.out(b.let("z", "tile.mul", joined, s))
    return b.function()


def load(d: Draw) -> Function:
    b, shape = Build(), d.shape()
    valid, dtype = d.rows_valid(b, shape), d.dtype()
    if d.number % 2:
        source = b.tensor("src", tuple(n + 2 for n in shape), dtype)
        x = b.read("x", source, shape, valid, tuple(d.random.randint(0, 2) for _ in shape))
    else:
        x = b.load("x", shape, valid, dtype)
    b.out(x)
    return b.function()


def create(d: Draw) -> Function:
    """Created tiles of which an assemble fills one page each."""
    b, shape = Build(), d.shape()
    dtype, count = d.dtype(), 1 + d.number % 2
    x = b.load("x", (*(1 for _ in shape[:-2]), *shape[-2:]), dtype=dtype)
    for i in range(count):
        at = tuple(d.random.randrange(n) for n in shape[:-2])
        b.out(b.let(f"y{i}", "tile.assemble", b.create(f"made{i}", shape, dtype), x, (*at, 0, 0)))
    return b.function()


def full(d: Draw) -> Function:
    """Fills of two values, among them both zeros."""
    b, shape = Build(), d.shape()
    dtype = d.dtype()
    values = (0.0, -0.0, 1.5, -2.0) if dtype in FLOATS else (0, 1, -3, 2)
    one, two = (b.full(f"c{i}", shape, value, dtype) for i, value in enumerate(d.random.sample(values, 2)))
    y = b.let("y", d.random.choice(BINARY), one, b.load("x", shape, dtype=dtype))
    b.out(b.let("z", "tile.sub", y, two))
    return b.function()


def op(d: Draw) -> Function:
    """Pointwise and row-wise ops, casts, and a cell that is written."""
    b, shape = Build(), d.shape()
    x = b.load("x", shape, d.rows_valid(b, shape), d.dtype(FLOATS))
    match d.number % 4:
        case 0:
            y = d.pointwise(b, "y", x)
        case 1:
            name = d.random.choice(("tile.row_sum", "tile.row_max"))
            y = b.let("y", name, x, scratch_like(b, "tmp", x))
        case 2:
            y = b.let("y", "tile.write", x, tuple(d.random.randrange(n) for n in shape), Const(1.5, x.type.dtype))
        case _:
            y = b.let("y", "tile.cast", x, target_type=d.random.choice(("INT32", "INT16")), mode="rint")
    b.out(y)
    return b.function()


def plain(d: Draw) -> Function:
    """2-D ops, some of which have no other form."""
    b, shape = Build(), d.page()
    x = b.load("x", shape, dtype=d.dtype(FLOATS[:2]))
    rows, cols = shape
    match d.number % 5:
        case 0:
            y = b.let("y", "tile.col_sum", x)
        case 1:
            m = b.let("m", "tile.row_max", x, scratch_like(b, "tmp", x))
            y = b.let("y", d.random.choice(ROW_EXPAND), x, m)
        case 2:
            line = b.load("line", (1, cols), dtype=x.type.dtype)
            y = b.let("y", d.random.choice(COL_EXPAND), x, line)
        case 3:
            flat = b.let("wide", "tile.reshape", b.load("w", (1, rows, cols), dtype=x.type.dtype), shape)
            y = b.let("y", d.random.choice(BINARY), x, flat)
        case _:
            y = b.let("y", "tile.row_sum", x, scratch_like(b, "tmp", x))
    b.out(y)
    return b.function()


def args_nil(d: Draw) -> Function:
    return args_data(d)


def args_data(d: Draw) -> Function:
    """Operands with as many rows as the result: of its shape, of one column, or of another rank."""
    b, shape = Build(), d.shape()
    valid, dtype = d.rows_valid(b, shape), d.dtype()
    x = b.load("x", shape, valid, dtype)
    match d.number % 3:
        case 0:
            y = b.load("y", shape, valid, dtype)
        case 1:
            y = b.load("y", (*shape[:-1], 1), (*valid[:-1], 1), dtype)
        case _:
            y = b.load("y", (1, *shape), (1, *valid), dtype)
    b.out(b.let("z", d.random.choice(BINARY), x, y))
    return b.function()


def args_one_row(d: Draw) -> Function:
    """A row that every row of the result reads, of whatever rank."""
    b, shape = Build(), d.shape()
    dtype, cols = d.dtype(), shape[-1]
    x = b.load("x", shape, d.rows_valid(b, shape), dtype)
    row = d.random.choice(((1, cols), (1, 1, cols), (1,) * (len(shape) - 1) + (cols,)))
    b.out(b.let("z", d.random.choice(BINARY), x, b.load("row", row, dtype=dtype)))
    return b.function()


def args_row_scalar(d: Draw) -> Function:
    """One value a row: reduced from the tile, or loaded."""
    b, shape = Build(), d.shape()
    x = b.load("x", shape, d.rows_valid(b, shape), d.dtype(FLOATS))
    m = b.let("m", "tile.row_max", x, scratch_like(b, "tmp", x)) if d.number % 2 else b.load("m", (*shape[:-1], 1), dtype=x.type.dtype)
    b.out(b.let("z", d.random.choice(ROW_EXPAND), x, m))
    return b.function()


def args_col_vector(d: Draw) -> Function:
    b, shape = Build(), d.shape()
    dtype, cols = d.dtype(), shape[-1]
    x = b.load("x", shape, d.rows_valid(b, shape), dtype)
    line = b.load("line", d.random.choice(((1, cols), (1,) * (len(shape) - 1) + (cols,))), dtype=dtype)
    b.out(b.let("z", d.random.choice(COL_EXPAND), x, line))
    return b.function()


def args_scratch(d: Draw) -> Function:
    b, shape = Build(), d.shape()
    if d.number % 2:
        x = b.load("x", shape, d.rows_valid(b, shape), d.dtype(FLOATS))
        y = b.let(
            "y",
            d.random.choice(("tile.row_sum", "tile.row_max", "tile.row_prod")),
            x,
            scratch_like(b, "tmp", x),
        )
    else:
        x, z = (b.load(n, shape, dtype=d.dtype(ALL[3:])) for n in ("x", "z"))
        if x.type.dtype is not z.type.dtype:
            z = x
        y = b.let("y", "tile.xor", x, z, scratch_like(b, "tmp", x))
    b.out(y)
    return b.function()


def reshape_rows(d: Draw) -> Function:
    """Another rank with the same last dim and region: also [1, v, C] as [v, C]."""
    b, shape = Build(), d.shape()
    if d.number % 2:
        rows, cols = d.page()
        x = b.load("x", (1, rows, cols), (1, b.scalar("v", 1, rows), cols), d.dtype())
        y = b.let("y", "tile.reshape", x, (rows, cols))
    else:
        x = b.load("x", shape, dtype=d.dtype())
        y = b.let(
            "y",
            "tile.reshape",
            x,
            d.random.choice((_collapsed(shape), (1, *shape), (shape[0] * shape[1], *shape[2:]))),
        )
    b.out(d.pointwise(b, "z", y))
    return b.function()


def reshape(d: Draw) -> Function:
    """Other rows, of a fully valid tile; every other one of two 2-D tiles with a run of cells."""
    b, shape = Build(), d.shape()
    if d.number % 2:
        rows, cols = d.page()
        x = b.load("x", (rows, cols), dtype=d.dtype())
        target: Shape = (rows * 2, cols // 2)
    else:
        x = b.load("x", shape, dtype=d.dtype())
        target = d.random.choice(((*shape[:-1], 2, shape[-1] // 2), (*shape[:-2], shape[-2] // 2, shape[-1] * 2)))
    b.out(d.pointwise(b, "z", b.let("y", "tile.reshape", x, target)))
    return b.function()


def reshape_cut(d: Draw) -> Function:
    """Other rows of what is cut: a row as a column, the first rows of a page, and what is empty."""
    b, dtype, ones = Build(), d.dtype(), (1,) * (d.rank - 2)
    match d.number % 3:
        case 0:
            x = b.load("x", (*ones, 1, 16), (*ones, 1, b.scalar("v", 0, 16)), dtype)
            target: Shape = (*ones, 16, 1)
        case 1:
            x = b.load("x", (*ones, 4, 16), (*ones, d.random.choice((1, 2)), 16), dtype)
            target = (*ones, 8, 8)
        case _:
            x = b.load("x", (*ones, 4, 16), (*ones, 0, 5), dtype)
            target = (2, *ones[1:], 4, 8)
    b.out(d.pointwise(b, "z", b.let("y", "tile.reshape", x, target)))
    return b.function()


def reshape_reshape(d: Draw) -> Function:
    b, shape = Build(), d.shape()
    x = b.load("x", shape, dtype=d.dtype())
    y = b.let("y", "tile.reshape", x, (*shape[:-1], 2, shape[-1] // 2))
    z = b.let("z", "tile.reshape", y, (*shape[:-2], shape[-2] // 2, shape[-1] * 2))
    b.out(d.pointwise(b, "w", z))
    return b.function()


def reshape_back(d: Draw) -> Function:
    b, shape = Build(), d.shape()
    x = b.load("x", shape, dtype=d.dtype())
    y = b.let("y", "tile.reshape", x, (*shape[:-1], 2, shape[-1] // 2))
    z = b.let("z", "tile.reshape", y, d.random.choice((shape, _collapsed(shape))))
    b.out(d.pointwise(b, "w", z))
    return b.function()


def reshape_same(d: Draw) -> Function:
    """A reshape to the tile's own shape, of a region with gaps, so that no other rule takes it away."""
    b, shape = Build(), d.shape()
    rows, cols = shape[-2:]
    x = b.load("x", shape, (*shape[:-2], d.random.randint(1, rows - 1), cols - d.random.randint(0, 2)), d.dtype())
    b.out(d.pointwise(b, "z", b.let("y", "tile.reshape", x, shape)))
    return b.function()


def reinterpret(d: Draw) -> Function:
    """The same bytes as another type: equal width, wider, narrower; with a shape, or columns of rows that become more or fewer."""
    b = Build()
    shape = d.page() if d.number % 2 else d.shape()
    old, new = d.random.choice((("FP32", "INT32"), ("FP32", "INT16"), ("INT16", "INT32"), ("FP16", "INT16")))
    if d.number % 8 == 6:
        x = b.load("x", (*shape[:-2], 16, 1), dtype=DType(old))
        b.out(d.pointwise(b, "z", b.let("y", "tile.reinterpret_view", x, dtype=new)))
        return b.function()
    last = shape[-1] * DType(old).bytes // DType(new).bytes
    x = b.load("x", shape, dtype=DType(old))
    target = d.random.choice(((*shape[:-1], last), (*shape[:-2], shape[-2] * last)))
    y = b.let("y", "tile.reinterpret_view", x, target, dtype=new)
    b.out(d.pointwise(b, "z", y))
    return b.function()


def assemble(d: Draw) -> Function:
    """A box that is a run of rows of the collapse: pages, rows of one page, columns of all rows."""
    b, shape = Build(), d.shape()
    dtype, rows, cols = d.dtype(), *shape[-2:]
    t = b.load("t", shape, dtype=dtype)
    ones = (1,) * (len(shape) - 2)
    at = tuple(d.random.randrange(n) for n in shape[:-2])
    box, offsets = d.random.choice(
        (
            ((*ones, rows, cols), (*at, 0, 0)),
            ((*ones, rows // 2, cols), (*at, b.scalar("r", 0, rows - rows // 2), 0)),
            ((*shape[:-1], cols // 2), (*(0 for _ in shape[:-1]), cols // 2)),
        )
    )
    fewer = box[-2:] if d.number % 3 == 2 and box[:-2] == ones else box
    y = b.let("y", "tile.assemble", t, b.load("x", fewer, dtype=dtype), offsets)
    b.out(y)
    return b.function()


def slice_(d: Draw) -> Function:
    """A window that is a run of rows of the collapse."""
    b, shape = Build(), d.shape()
    rows, cols = shape[-2:]
    x = b.load("x", shape, dtype=d.dtype())
    ones = (1,) * (len(shape) - 2)
    at = tuple(d.random.randrange(n) for n in shape[:-2])
    window, offsets = d.random.choice(
        (
            ((*ones, rows, cols), (*at, 0, 0)),
            ((*ones, rows // 2, cols), (*at, b.scalar("r", 0, rows - rows // 2), 0)),
            ((*shape[:-1], 8), (*(0 for _ in shape[:-1]), cols - 8)),
        )
    )
    match d.number % 3:
        case 1:
            # a valid region of its own, which is a run of rows
            first = (*ones, window[-2], 5) if window[:-2] == ones else (*window[:-1], 5)
            y = b.let("y", "tile.slice", x, window, offsets, first)
        case 2 if window[:-2] == ones:
            y = b.let("y", "tile.slice", x, window, offsets, (), tuple(range(len(ones))))
        case _:
            y = b.let("y", "tile.slice", x, window, offsets)
    b.out(d.pointwise(b, "z", y))
    return b.function()


def store_flat(d: Draw) -> Function:
    """Stores into tensors of the tile's rank and of higher ones, at offsets."""
    b, shape = Build(), d.shape()
    x = b.load("x", shape, d.rows_valid(b, shape), d.dtype())
    lift = d.number % 2
    target = (*((2,) if lift else ()), *(n + 1 for n in shape))
    b.out(x, target, (*((1,) if lift else ()), *(d.random.randint(0, 1) for _ in shape)))
    return b.function()


PROGRAMS: dict[str, Generator] = {
    "flat.identity": identity,
    "flat.leaf": leaf,
    "flat.load": load,
    "flat.create": create,
    "flat.full": full,
    "flat.op": op,
    "flat.plain": plain,
    "flat.args.nil": args_nil,
    "flat.args.data": args_data,
    "flat.args.one-row": args_one_row,
    "flat.args.row-scalar": args_row_scalar,
    "flat.args.col-vector": args_col_vector,
    "flat.args.scratch": args_scratch,
    "flat.reshape.rows": reshape_rows,
    "flat.reshape": reshape,
    "flat.reshape.cut": reshape_cut,
    "reshape.reshape": reshape_reshape,
    "reshape.back": reshape_back,
    "reshape.same": reshape_same,
    "flat.reinterpret": reinterpret,
    "flat.assemble": assemble,
    "flat.slice": slice_,
    "store.flat": store_flat,
}
