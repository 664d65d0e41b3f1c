"""For each rule of packed.egg a generator of programs in which it fires, and the programs on which it must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from building import Build, Shape
from drawing import BINARY, COL_EXPAND, FLOATS, ROW_EXPAND, Draw, Generator, scratch_like
from flat_programs import handed_on

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Var, index
from pypto_ir.stmt import Function
from pypto_ir.types import TileType

Make = Callable[[], Function]
Region = tuple[Any, ...]


def shape_of(d: Draw) -> Shape:
    """Two or three pages, with or without axes of 1."""
    batch = ((2,), (3,), (2, 1), (1, 2), (2, 2))[d.number % 5]
    return (*batch, *d.page())


def gaps(d: Draw, b: Build, shape: Shape) -> Region:
    """A valid region with gaps between its pages: fewer rows of each, by a number or a scalar, perhaps fewer pages or columns as well."""
    rows, cols = shape[-2:]
    kept: Any = b.scalar("v", 1, rows) if d.number % 3 == 1 else rows - 1
    batch = shape[:-2]
    if d.number % 4 == 3 and batch[0] == 3:
        batch = (2, *batch[1:])
    return (*batch, kept, cols - 1 if d.number % 4 == 2 else cols)


def loaded(d: Draw, b: Build) -> Var:
    shape = shape_of(d)
    return b.load("x", shape, gaps(d, b, shape), d.dtype(FLOATS))


def load(d: Draw) -> Function:
    b = Build()
    b.out(d.pointwise(b, "y", loaded(d, b)))
    return b.function()


def write(d: Draw) -> Function:
    """A cell of the last valid row of a page written, in the first page or the second; one of the first page is read before."""
    b, shape = Build(), shape_of(d)
    x = b.load("x", shape, gaps(d, b, shape))
    assert isinstance(x.type, TileType)
    row, column = Binary("sub", x.type.valid[-2], index(1)), d.random.randrange(shape[-1] - 1)
    batch = (1 if shape[0] == 2 else 0, *(0 for _ in shape[1:-2]))
    value = b.let("c", "tile.read", x, (*(0 for _ in batch), row, column)) if d.number % 2 else Const(1.5, x.type.dtype)
    y = b.let("y", "tile.write", x, (*batch, row, 0), value)
    b.out(d.pointwise(b, "z", y))
    return b.function()


def leaf(d: Draw) -> Function:
    return handed_on(d, lambda b, shape: gaps(d, b, shape))


def args(d: Draw) -> Function:
    """Operands of every role with the region of the result."""
    b, shape = Build(), shape_of(d)
    dtype, valid = d.dtype(FLOATS), gaps(d, b, shape)
    x = b.load("x", shape, valid, dtype)
    match d.number % 3:
        case 0:
            y = b.let("y", d.random.choice(BINARY), x, b.load("w", shape, valid, dtype))
        case 1:
            y = b.let("y", d.random.choice(ROW_EXPAND), x, b.load("w", (*shape[:-1], 1), (*valid[:-1], 1), dtype))
        case _:
            y = b.let("y", "tile.row_sum", x, scratch_like(b, "tmp", x))
    b.out(y)
    return b.function()


def reduced(d: Draw) -> Function:
    b = Build()
    x = loaded(d, b)
    m = b.let("m", "tile.row_max", x, scratch_like(b, "tmp", x))
    b.out(b.let("y", "tile.row_expand_sub", x, m))
    return b.function()


def one_row(d: Draw) -> Function:
    """A single row for all rows, as data or as a vector of columns."""
    b = Build()
    x = loaded(d, b)
    assert isinstance(x.type, TileType)
    shape = x.type.static_shape
    assert shape is not None
    row = b.load("w", (*(1 for _ in shape[:-1]), shape[-1]), None, x.type.dtype)
    b.out(b.let("y", d.random.choice(COL_EXPAND if d.number % 2 else BINARY), x, row))
    return b.function()


def reshape(d: Draw) -> Function:
    """Axes of 1 come and go."""
    b = Build()
    x = loaded(d, b)
    assert isinstance(x.type, TileType) and x.type.static_shape is not None
    shape = x.type.static_shape
    seen = d.random.choice(((1, *shape), (*shape[:-2], 1, *shape[-2:])))
    b.out(d.pointwise(b, "z", b.let("y", "tile.reshape", d.pointwise(b, "w", x), seen)))
    return b.function()


PROGRAMS: dict[str, Generator] = {
    "packed.load": load,
    "packed.leaf": leaf,
    "packed.op": load,
    "packed.write": write,
    "packed.args.nil": load,
    "packed.args": args,
    "packed.args.one-row": one_row,
    "packed.args.scratch": reduced,
    "packed.reshape": reshape,
    "packed.store": load,
}


def _chain(valid: Shape | None, *steps: tuple[str, dict[str, Any]], shape: Shape = (2, 4, 8), target: Shape | None = None) -> Make:
    def make() -> Function:
        b = Build()
        x = b.load("x", shape, valid)
        for i, (op, kwargs) in enumerate(steps):
            x = b.let(f"t{i}", op, x, *kwargs.get("args", ()), **{k: v for k, v in kwargs.items() if k != "args"})
        b.out(x, target)
        return b.function()

    return make


def _pair(op: str, valid: Shape, other: Shape, other_valid: Shape | None) -> Make:
    def make() -> Function:
        b = Build()
        b.out(b.let("y", op, b.load("x", (2, 4, 8), valid), b.load("w", other, other_valid)))
        return b.function()

    return make


def _two_arms() -> Function:
    """One arm hands on a region with gaps, the other all of its tile."""
    b = Build()
    x, w = b.load("x", (2, 4, 8), (2, 3, 8)), b.load("w", (2, 4, 8))
    wide = b.branch(Binary("gt", b.scalar("k", 0, 1), Const(0)), lambda: b.yields(x), lambda: b.yields(w), {"r": x.type})
    b.out(wide[0])
    return b.function()


def _in_l1() -> Function:
    b = Build()
    left = b.load("l", (2, 16, 32), (2, 8, 32), target_memory="Mat")
    b.out(b.let("z", "tile.batch_matmul", left, b.load("r", (2, 32, 16), target_memory="Mat")))
    return b.function()


CUT: Shape = (2, 3, 8)
NEAR_MISSES: dict[str, tuple[Make, ...]] = {
    "packed.load": (_chain(None, ("tile.abs", {})), _chain((1, 3, 8), ("tile.abs", {})), _in_l1),
    "packed.leaf": (_two_arms,),
    "packed.op": (_chain(CUT, ("tile.fillpad", {"pad_value": "zero"})),),
    "packed.write": (_chain(CUT, ("tile.write", {"args": ((0, 3, 0), Const(1.5, DType.FP32))})),),
    "packed.args": (_pair("tile.add", CUT, (2, 4, 8), None),),
    "packed.args.one-row": (_pair("tile.add", CUT, (2, 1, 8), None),),
    "packed.reshape": (_chain((1, 3, 8), ("tile.reshape", {"args": ((1, 2, 4, 8),)})),),
    "packed.store": (_chain(None), _chain((1, 3, 8))),
}
