"""Small programs of several ranks, shapes and regions: what their carriers hold is stated in `test_carriers`.

In each stands a store of a tile [3, 4, 16], so that a rule which takes any shape for a value's own shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from building import Build, Shape
from drawing import scratch_like
from product_programs import ROW_MAJOR, by_columns, matrix

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Var
from pypto_ir.stmt import Assign, Function
from pypto_ir.types import TileType, dims

FP16 = DType.FP16
ROWS, EVEN = (1, 3, 8), (2, 2, 8)


def _with(fill: Callable[[Build], object]) -> Function:
    b = Build()
    fill(b)
    b.out(b.let("other", "tile.exp", b.load("beside", (3, 4, 16))))
    return b.function()


def _stored(shape: Shape, valid: Shape | None = None, into: Shape | None = None, at: Shape | None = None) -> Callable[[Build], object]:
    return lambda b: b.out(b.load("x", shape, valid), into, at)


def _boxed(shape: Shape, valid: Shape | None, into: Shape, *box: Shape) -> Callable[[Build], None]:
    def fill(b: Build) -> None:
        x = b.load("x", shape, valid)
        b.results.append(b.store("o", x, b.tensor("out", into, direction="Out"), None, *box))

    return fill


def _pair(
    op: str, left: Shape, right: Shape, left_valid: Shape | None = None, right_valid: Shape | None = None
) -> Callable[[Build], object]:
    return lambda b: b.out(b.let("z", op, b.load("x", left, left_valid), b.load("y", right, right_valid)))


def _then(shape: Shape, valid: Shape | None, *ops: tuple[object, ...], **last: object) -> Callable[[Build], object]:
    def fill(b: Build) -> None:
        x = b.load("x", shape, valid)
        for i, (op, *args) in enumerate(ops):
            x = b.let(f"y{i}", str(op), x, *args, **(last if i == len(ops) - 1 else {}))
        b.out(x)

    return fill


def _cut_sum(valid: Shape | None, other: Shape | None, shape: Shape = (2, 3, 8)) -> Callable[[Build], object]:
    """A sum of a tile and another one, which may be cut or of another shape."""

    def fill(b: Build) -> None:
        x, w = b.load("x", (2, 3, 8), valid), b.load("w", shape, other)
        b.out(b.let("z", "tile.exp", b.let("y", "tile.add", x, w)))

    return fill


def _slabs(op: str) -> Callable[[Build], object]:
    """An op on a tile of which a run tells how many slabs of axis 0 are valid, or where a window of it starts."""

    def fill(b: Build) -> None:
        n = b.scalar("n", 0, 1)
        x = b.load("x", (2, 3, 8), None if op == "tile.slice" else (n, 3, 8))
        match op:
            case "tile.slice":
                b.out(b.let("y", op, x, (2, 3, 8), (n, 0, 0), (2, 2, 8)))
            case "tile.add":
                b.out(b.let("z", op, b.let("y", op, x, b.load("w", (1, 3, 8))), b.load("u", (1, 3, 8))))
            case _:
                b.out(b.let("y", op, x, *((scratch_like(b, "tmp", x),) if op == "tile.col_argmax" else ())))

    return fill


def _relaid(b: Build) -> None:
    x = b.let("y0", "tile.move", b.load("x", (8, 16)), target_memory="Vec", blayout="col_major")
    b.out(b.let("y2", "tile.exp", b.let("y1", "tile.reshape", x, (8, 16))))


def _narrowed(b: Build) -> None:
    """A reshape whose result is stated to hold fewer columns."""
    x = b.load("x", (2, 3, 8))
    y = b.let("y", "tile.reshape", x, (2, 1, 3, 8))
    made = b.blocks[0].pop()
    assert isinstance(made, Assign) and isinstance(y.type, TileType)
    y = Var("y", replace(y.type, view=replace(y.type.effective_view, valid=dims(2, 1, 3, 5))))
    b.put(replace(made, targets=(y,)))
    b.out(b.let("z", "tile.exp", y))


def _reduced(b: Build, valid: Shape | None = None, scratch: Shape | None = None) -> None:
    x = b.load("x", (2, 3, 8), valid)
    m = b.let("m", "tile.row_max", x, b.load("tmp", (2, 3, 8), scratch) if scratch else scratch_like(b, "tmp", x))
    b.out(b.let("y", "tile.row_expand_sub", x, m))


def _filled(b: Build, shape: Shape) -> None:
    x = b.load("x", (2, 3, 8))
    y = b.let("y", "tile.assemble", b.create("new", shape), b.load("w", (1, 3, 8)), (0, 0, 0))
    b.out(b.let("z", "tile.add", x, b.let("sum", "tile.add", y, b.full("c", shape, 1.5))))


def _assembled(target: Shape, source: Shape, at: Shape, valid: Shape | None = None, into: DType = DType.FP32) -> Callable[[Build], object]:
    def fill(b: Build) -> None:
        y = b.let("y", "tile.assemble", b.load("t", target, dtype=into), b.load("x", source, valid), at)
        b.out(b.let("z", "tile.exp", y))

    return fill


def _carried(valid: Shape) -> Callable[[Build], object]:
    def fill(b: Build) -> None:
        x = b.load("x", (2, 3, 8), valid)
        with b.loop("i", 2, {"acc": x}) as (_, acc):
            b.yields(b.let("sum", "tile.add", acc, x))
        b.out(b.ended[0])

    return fill


def _carried_page(b: Build) -> None:
    """One page is carried, several are added to it."""
    x, y = b.load("x", (1, 3, 8)), b.load("y", (2, 3, 8))
    with b.loop("i", 2, {"acc": x}) as (_, acc):
        b.yields(b.let("sum", "tile.add", acc, x))
    b.out(b.let("z", "tile.add", y, b.ended[0]))


def _spread(b: Build) -> None:
    z = b.let("z0", "tile.add", b.load("x", (2, 2, 3, 8)), b.load("y", (2, 1, 3, 8)))
    b.out(b.let("z", "tile.sub", z, b.load("w", (1, 2, 3, 8))))


def _bands(b: Build, shape: Shape, valid: Shape | None = None, rows: Shape | None = None, into: Shape = (7, 17)) -> None:
    """A batch stored as rows, beside one that has as many of them."""
    x = b.let("x", "tile.exp", b.load("src", shape, valid))
    b.out(b.let("y", "tile.reshape", x, rows or (shape[0] * shape[1], shape[2])), into, tuple(0 for _ in into))
    b.out(b.load("as_many", (3, 2, 8)))


def _product(b: Build, left: Shape, right: Shape, flat: Shape | None = None) -> None:
    z = b.let("z", "tile.batch_matmul", matrix(b, "l", left, FP16), matrix(b, "r", right, FP16))
    b.out(b.let("y", "tile.reshape", z, flat) if flat else z)


def _by_columns(b: Build, shape: Shape, rows: int = 16, one: bool = False, turned: bool = False, cut: bool = False) -> None:
    """A product of a batch, or of one matrix, which may be cut, and a load of a tensor that lies column by column."""
    w = by_columns(b, "w", shape, FP16)
    w = b.let("t", "tile.transpose_view", w) if turned else w
    depth = shape[-1 if turned else -2]
    of = (rows, depth) if one else (shape[0], rows, depth)
    left = b.read("l", b.tensor("l_in", of, FP16), of, (rows - 3, depth) if cut else None, target_memory="Mat")
    b.out(b.let("z", "tile.batch_matmul", left, w))


def _turned_window(b: Build) -> None:
    """Columns of every page of a factor that is seen transposed."""
    t = b.let("t", "tile.transpose_view", matrix(b, "x", (2, 32, 64), FP16))
    y = b.let("y", "tile.slice", t, (2, 64, 16), (0, 0, 16))
    b.out(b.let("z", "tile.batch_matmul", matrix(b, "l", (2, 16, 64), FP16), y))


def _in_l1(b: Build, op: str, shape: Shape) -> None:
    """Rows of every page of a factor in L1, read or written, times one matrix."""
    x = matrix(b, "x", (2, 32, 32), FP16)
    y = b.let("y", op, x, shape if op == "tile.slice" else matrix(b, "part", shape, FP16), (0, 16, 0))
    b.out(b.let("z", "tile.batch_matmul", y, matrix(b, "r", (32, 16), FP16)))


def _added(b: Build, make: Callable[[Build], Var]) -> None:
    """One page added to two."""
    b.out(b.let("z", "tile.add", b.load("x", (2, 3, 8)), make(b)))


def _product_in_boxes(b: Build) -> None:
    z = b.let("z", "tile.batch_matmul", matrix(b, "l", (3, 16, 32), FP16), matrix(b, "r", (3, 32, 48), FP16))
    b.results.append(b.store("o", z, b.tensor("out", (2, 2, 32, 48), direction="Out")))


def _swapped(b: Build, shape: Shape, valid: Shape | None = None) -> None:
    x = b.read("x", b.tensor("src", shape, FP16), shape, valid, target_memory="Mat")
    b.out(b.let("z", "tile.batch_matmul", matrix(b, "l", (2, 16, shape[-1]), FP16), b.let("t", "tile.transpose_view", x)))


def _drained(b: Build, narrow: str | None, vector: bool = False, move: bool = True) -> None:
    z = b.load("z", (2, 16, 16))
    if not vector:
        z = b.let("p", "tile.batch_matmul", matrix(b, "l", (2, 16, 32), FP16), matrix(b, "r", (2, 32, 16), FP16))
    moved = b.let("v", "tile.move", z, **ROW_MAJOR) if move else z
    b.out(b.let("c", "tile.cast", moved, target_type=narrow, mode="round") if narrow else moved)


def _transposed(shape: Shape, axes: Shape, valid: Shape | None = None) -> Callable[[Build], object]:
    return _then(shape, valid, ("tile.transpose", *axes))


def _window(b: Build, at: int = 0, page: int = 1, rows: int = 16) -> None:
    """A window of an accumulator of two pages, updated and put back."""
    acc = b.let("acc", "tile.batch_matmul", matrix(b, "fl", (2, 16, 32), FP16), matrix(b, "fr", (2, 32, 48), FP16))
    place = (page, 16 - rows, at)
    cut = b.let("cut", "tile.slice", acc, (1, rows, 16), place)
    flat = b.let("flat", "tile.reshape", cut, (rows, 16))
    more = b.let("more", "tile.matmul_acc", flat, matrix(b, "l", (rows, 32), FP16), matrix(b, "r", (32, 16), FP16))
    b.out(b.let("all", "tile.assemble", acc, b.let("back", "tile.reshape", more, (1, rows, 16)), place))


def _accumulated(b: Build, page: Shape) -> None:
    m, n = page
    left, right = matrix(b, "l", (2, m, 32), FP16), matrix(b, "r", (2, 32, n), FP16)
    acc = b.let("acc", "tile.create", (2, 1, m, n), dtype="FP32", target_memory="Acc")
    seen = b.let("seen", "tile.reshape", acc, (2, m, n))
    with b.loop("i", 2, {"a": seen}) as (i, a):
        b.yields(b.let("more", "tile.batch_matmul_acc", a, left, right, Binary("eq", i, Const(0))))
    b.out(b.ended[0])


def _read(shape: Shape, room: Shape, at: Shape, valid: Shape | None = None) -> Callable[[Build], None]:
    """A load into L1 of a window of a larger tensor, and a product of it."""

    def fill(b: Build) -> None:
        x = b.read("x", b.tensor("src", room, FP16), shape, valid, at, target_memory="Mat")
        b.out(b.let("z", "tile.batch_matmul", x, matrix(b, "r", (shape[-1], 16), FP16)))

    return fill


def _windows(b: Build, valid: Shape | None = None, **outer: object) -> None:
    x = b.load("x", (16, 32), valid)
    y = b.let("y", "tile.slice", x, (8, 16), (4, 8))
    b.out(b.let("z", "tile.slice", y, (2, 8), (1, 8), **outer))


def _written(b: Build, source: Shape, at: Shape, then: tuple[Shape, Shape], into: DType = DType.FP32) -> None:
    y = b.let("y", "tile.assemble", b.load("t", (8, 16), dtype=into), b.load("x", source), at)
    b.out(y)
    b.out(b.let("z", "tile.slice", y, *then))


def _plain(op: str, *operands: Shape) -> Callable[[Build], object]:
    return lambda b: b.out(b.let("z", op, *(b.load(f"x{i}", shape) for i, shape in enumerate(operands))))


def _gathered(b: Build, valid: Shape | None = None) -> None:
    at = b.load("at", (2, 3, 4), valid, DType.INT32)
    tmp = b.let("tmp", "tile.create", (2, 3, 4), dtype="INT32", target_memory="Vec")
    b.out(b.let("z", "tile.gather", b.load("x", (2, 3, 8)), at, tmp))


PROGRAMS: dict[str, Callable[[], Function]] = {
    name: partial(_with, fill)
    for name, fill in {
        "load": _stored((2, 3, 8)),
        "load of rows": _stored((2, 3, 8), ROWS),
        "load of even pages": _stored((2, 3, 8), EVEN),
        "load of neither": _stored((2, 2, 3, 8), (1, 2, 2, 8)),
        "load of one page": _stored((1, 3, 8)),
        "load of rank 2": _stored((6, 8)),
        "store of rows into several boxes": _boxed((12, 8), None, (2, 2, 4, 8)),
        "store of pages into several boxes": _boxed((4, 3, 8), None, (2, 2, 4, 8)),
        "store of cut pages into several boxes": _boxed((4, 3, 8), (3, 2, 8), (2, 2, 4, 8)),
        "store into a given box": _boxed((2, 3, 8), None, (2, 3, 8), (2, 3, 8)),
        "store of an unaligned page": _stored((2, 3, 1)),
        "store of a page that is aligned in 8 bytes": _stored((2, 3, 4)),
        "store in a larger tensor": _stored((2, 3, 8), None, (3, 4, 9), (1, 1, 1)),
        "add": _pair("tile.add", (2, 3, 8), (2, 3, 8)),
        "add of one page": _pair("tile.add", (2, 3, 8), (1, 3, 8)),
        "add of one page that is created": partial(_added, make=lambda b: b.create("y", (1, 3, 8))),
        "add of one page that is filled": partial(_added, make=lambda b: b.full("y", (1, 3, 8), 1.5)),
        "add of one page that is reshaped": partial(
            _added, make=lambda b: b.let("y", "tile.reshape", b.load("w", (1, 1, 3, 8)), (1, 3, 8))
        ),
        "add of one row": _pair("tile.add", (2, 3, 8), (1, 8)),
        "add of one row to one": _pair("tile.add", (1, 1, 8), (1, 1, 8)),
        "add of an uneven page": _pair("tile.add", (2, 3, 8), (2, 3, 8), None, ROWS),
        "add of rows": _pair("tile.add", (2, 3, 8), (2, 3, 8), ROWS, ROWS),
        "add of even pages": _pair("tile.add", (2, 3, 8), (2, 3, 8), EVEN, EVEN),
        "add of an unaligned page": _pair("tile.add", (2, 3, 1), (1, 3, 1)),
        "add of a page that is aligned in 8 bytes": _pair("tile.add", (2, 3, 4), (1, 3, 4)),
        "row scalar": _pair("tile.row_expand_mul", (2, 3, 8), (2, 3, 1)),
        "row scalar of one page": _pair("tile.row_expand_mul", (2, 3, 8), (1, 3, 1)),
        "row scalar of an uneven page": _pair("tile.row_expand_mul", (2, 3, 8), (2, 3, 1), None, (1, 3, 1)),
        "column vector of an uneven page": _pair("tile.col_expand_mul", (2, 3, 8), (2, 1, 8), None, (1, 1, 8)),
        "row scalar of rows": _pair("tile.row_expand_mul", (2, 3, 8), (2, 3, 1), ROWS, (1, 3, 1)),
        "row scalar of rank 2": _pair("tile.row_expand_mul", (6, 8), (6, 1)),
        "column vector": _pair("tile.col_expand_mul", (2, 3, 8), (1, 1, 8)),
        "column vector of pages": _pair("tile.col_expand_mul", (2, 3, 8), (2, 1, 8)),
        "column vector of rank 2": _pair("tile.col_expand_mul", (6, 8), (1, 8)),
        "reduction": _reduced,
        "reduction of even pages": partial(_reduced, valid=EVEN),
        "reduction with uneven scratch": partial(_reduced, scratch=ROWS),
        "sum of columns": _then((2, 3, 8), None, ("tile.col_sum",)),
        "sum of columns of rank 2": _then((6, 8), None, ("tile.col_sum",)),
        "create and full": partial(_filled, shape=(2, 3, 8)),
        "create and full of one page": partial(_filled, shape=(1, 3, 8)),
        "reshape of pages": _then((2, 3, 8), None, ("tile.exp",), ("tile.reshape", (3, 2, 8)), ("tile.exp",)),
        "reshape of batches": _then((2, 3, 8), None, ("tile.exp",), ("tile.reshape", (2, 1, 3, 8)), ("tile.exp",)),
        "reshape of rows of pages": _then((2, 3, 8), EVEN, ("tile.exp",), ("tile.reshape", (2, 1, 3, 8)), ("tile.exp",)),
        "reshape to fewer columns": _narrowed,
        "reshape to rank 2": _then((2, 4, 8), None, ("tile.exp",), ("tile.reshape", (4, 16)), ("tile.exp",)),
        "reshape of cut rows": _then((2, 4, 8), (1, 3, 8), ("tile.exp",), ("tile.reshape", (8, 8)), ("tile.exp",)),
        "reshape of cut rows of rank 2": _then((4, 8), (2, 8), ("tile.exp",), ("tile.reshape", (2, 16)), ("tile.exp",)),
        "reshape that cuts rows": _then((2, 3, 8), (1, 3, 8), ("tile.exp",), ("tile.reshape", (8, 6)), ("tile.exp",)),
        "reshape of rank 2": _then((2, 8), None, ("tile.exp",), ("tile.reshape", (4, 4)), ("tile.exp",)),
        "reshape to one page": _then((1, 2, 8), None, ("tile.exp",), ("tile.reshape", (1, 4, 4)), ("tile.exp",)),
        "reshape and back": _then((4, 8), None, ("tile.reshape", (8, 4)), ("tile.reshape", (4, 8)), ("tile.exp",)),
        "reshape twice": _then((4, 8), None, ("tile.reshape", (8, 4)), ("tile.reshape", (2, 16)), ("tile.exp",)),
        "reshape twice of cut rows": _then((4, 8), (2, 8), ("tile.reshape", (8, 4)), ("tile.reshape", (2, 16)), ("tile.exp",)),
        "reshape back of cut rows": _then((4, 8), (2, 8), ("tile.reshape", (8, 4)), ("tile.reshape", (4, 8)), ("tile.exp",)),
        "reshape to itself": _then((2, 3, 8), None, ("tile.reshape", (2, 3, 8)), ("tile.exp",)),
        "reshape of a layout": _relaid,
        "other dtype": _then((2, 3, 8), None, ("tile.reinterpret_view", (2, 3, 16)), dtype="INT16"),
        "other dtype of cut pages": _then((2, 3, 8), ROWS, ("tile.reinterpret_view", (2, 3, 16)), dtype="INT16"),
        "other dtype of cut rows of rank 2": _then((6, 8), (4, 8), ("tile.reinterpret_view", (6, 16)), dtype="INT16"),
        "other dtype of columns": _then((2, 16, 1), None, ("tile.reinterpret_view",), dtype="INT16"),
        "sum with cut pages": _cut_sum(None, EVEN),
        "sum of slabs": _cut_sum((1, 3, 8), None, (1, 3, 8)),
        "sum of slabs that a run tells": _slabs("tile.add"),
        "reduction of slabs that a run tells": _slabs("tile.col_max"),
        "reduction of slabs that a run tells, with scratch": _slabs("tile.col_argmax"),
        "window of cut pages at run time": _slabs("tile.slice"),
        "other dtype of rank 2": _then((6, 8), None, ("tile.reinterpret_view", (6, 16)), dtype="INT16"),
        "assemble of rows": _assembled((2, 4, 8), (1, 2, 8), (1, 2, 0)),
        "assemble of columns": _assembled((2, 4, 16), (1, 4, 8), (1, 0, 8)),
        "assemble of pages": _assembled((3, 4, 8), (2, 4, 8), (1, 0, 0)),
        "assemble of parts of pages": _assembled((3, 4, 8), (2, 2, 8), (0, 2, 0)),
        "assemble of parts of unaligned pages": _assembled((4, 8, 6), (2, 4, 3), (1, 2, 3)),
        "assemble of a part of a page": _assembled((2, 4, 16), (1, 2, 8), (1, 2, 8)),
        "assemble of parts of cut pages": _assembled((3, 4, 8), (2, 2, 8), (0, 2, 0), (2, 1, 8)),
        "assemble of uneven parts": _assembled((3, 4, 8), (2, 2, 8), (0, 2, 0), (1, 2, 8)),
        "assemble of cut rows": _assembled((3, 4, 8), (1, 4, 8), (1, 0, 0), (1, 2, 8)),
        "assemble of another dtype": _assembled((3, 4, 8), (2, 4, 8), (1, 0, 0), None, DType.BF16),
        "slice of rows": _then((2, 4, 8), None, ("tile.slice", (1, 2, 8), (1, 2, 0)), ("tile.exp",)),
        "slice of parts of pages": _then((2, 4, 8), None, ("tile.slice", (2, 2, 8), (0, 2, 0)), ("tile.exp",)),
        "slice of parts of unaligned pages": _then((4, 8, 6), None, ("tile.slice", (2, 4, 3), (1, 2, 3)), ("tile.exp",)),
        "slice of a part of a page": _then((2, 4, 16), None, ("tile.slice", (1, 2, 8), (1, 2, 8)), ("tile.exp",)),
        "slice of parts of cut pages": _then((2, 4, 8), (2, 3, 8), ("tile.slice", (2, 2, 8), (0, 1, 0)), ("tile.exp",)),
        "slice of pages": _then((4, 4, 8), None, ("tile.slice", (2, 4, 8), (1, 0, 0)), ("tile.exp",)),
        "slice of cut rows": _then((2, 4, 8), (1, 3, 8), ("tile.slice", (1, 4, 8), (0, 0, 0)), ("tile.exp",)),
        "carry": _carried((2, 3, 8)),
        "carry of rows": _carried(ROWS),
        "carry of even pages": _carried(EVEN),
        "carry of one page": _carried_page,
        "operands of other batches": _spread,
        "bands": partial(_bands, shape=(2, 3, 8)),
        "bands of other rows": partial(_bands, shape=(2, 3, 8), rows=(3, 16)),
        "bands of cut pages": partial(_bands, shape=(2, 3, 8), valid=ROWS),
        "bands of one page": partial(_bands, shape=(1, 3, 8)),
        "bands of rank 3": partial(_bands, shape=(2, 3, 8), into=(1, 7, 17)),
        "product": partial(_product, left=(2, 16, 32), right=(2, 32, 48)),
        "product stored into several boxes": _product_in_boxes,
        "product of one page": partial(_product, left=(1, 16, 32), right=(1, 32, 48)),
        "product of rows": partial(_product, left=(2, 16, 32), right=(32, 48), flat=(32, 48)),
        "product of repeated rows": partial(_product, left=(1, 16, 32), right=(2, 32, 48), flat=(32, 48)),
        "product of too many rows": partial(_product, left=(2, 2048, 16), right=(16, 16), flat=(4096, 16)),
        "product of a transposed side": partial(_swapped, shape=(2, 32, 16)),
        "product of a transposed page": partial(_swapped, shape=(1, 32, 16)),
        "product of a transposed side that is cut": partial(_swapped, shape=(2, 32, 16), valid=(2, 16, 16)),
        "product of a transposed side that is aligned in 4 bytes": partial(_swapped, shape=(2, 6, 4)),
        "product of columns": partial(_by_columns, shape=(2, 32, 16)),
        "product of one page of columns": partial(_by_columns, shape=(1, 32, 16)),
        "product of columns that are no boxes": partial(_by_columns, shape=(2, 32, 8)),
        "product of columns side by side": partial(_by_columns, shape=(2, 32, 16), one=True),
        "product of rows that do not pack and columns": partial(_by_columns, shape=(2, 32, 16), rows=8, one=True),
        "product of cut rows and columns": partial(_by_columns, shape=(2, 32, 16), one=True, cut=True),
        "product of too many columns": partial(_by_columns, shape=(2, 16, 2048), one=True),
        "product of transposed columns": partial(_by_columns, shape=(2, 16, 32), turned=True),
        "product of a window of a transposed side": _turned_window,
        "product of rows of pages in L1": partial(_in_l1, op="tile.slice", shape=(2, 16, 32)),
        "product of rows that were written in L1": partial(_in_l1, op="tile.assemble", shape=(2, 16, 32)),
        "product moved out": partial(_drained, narrow=None),
        "product converted on its way out": partial(_drained, narrow="FP16"),
        "product converted where it lies": partial(_drained, narrow="FP16", move=False),
        "product converted to INT8": partial(_drained, narrow="INT8"),
        "product converted to INT8 where it lies": partial(_drained, narrow="INT8", move=False),
        "tile moved": partial(_drained, narrow=None, vector=True),
        "tile converted": partial(_drained, narrow="FP16", vector=True),
        "tile converted where it lies": partial(_drained, narrow="FP16", vector=True, move=False),
        "transpose": _transposed((2, 8, 16), (1, 2)),
        "transpose of a page that is aligned in 8 bytes": _transposed((2, 3, 4), (1, 2)),
        "transpose of one page": _transposed((1, 8, 16), (1, 2)),
        "transpose of pages": _transposed((2, 4, 8), (0, 1)),
        "transpose of cut pages": _transposed((2, 8, 16), (1, 2), (1, 8, 16)),
        "window of an accumulator": _window,
        "window at a column": partial(_window, at=16),
        "accumulator": partial(_accumulated, page=(16, 48)),
        "accumulator that does not pack": partial(_accumulated, page=(16, 24)),
        "read of a run of rows": _read((2, 16, 16), (3, 16, 48), (1, 0, 16)),
        "read of parts of pages": _read((2, 16, 16), (3, 32, 48), (0, 16, 16)),
        "read of one page": _read((1, 16, 16), (3, 16, 48), (1, 0, 16)),
        "windows of windows": _windows,
        "windows of cut windows": partial(_windows, valid=(10, 32)),
        "windows with a pad": partial(_windows, pad_value="zero"),
        "window that was written": partial(_written, source=(4, 16), at=(4, 0), then=((4, 16), (4, 0))),
        "window beside what was written": partial(_written, source=(4, 16), at=(4, 0), then=((4, 16), (2, 0))),
        "window of another dtype": partial(_written, source=(4, 16), at=(4, 0), then=((4, 16), (4, 0)), into=DType.BF16),
        "all is written": partial(_written, source=(8, 16), at=(0, 0), then=((8, 16), (0, 0))),
        "all is converted": partial(_written, source=(8, 16), at=(0, 0), then=((8, 16), (0, 0)), into=DType.BF16),
        "gather": _gathered,
        "gather of a cut tile": partial(_gathered, valid=(2, 3, 2)),
    }.items()
}
