"""The counter-examples of the rules of products.egg and accumulators.egg as programs: the rule must not fire on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from building import Build, Shape
from product_programs import matrix

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Var, index
from pypto_ir.stmt import Assign, Function
from pypto_ir.types import Layout, MemRef, TensorView, TileType, dims, tensor_type

FP16 = DType.FP16
Make = Callable[[], Function]


def _product(left: Shape, right: Shape, flat: Shape | None = None) -> Make:
    """A product, stored as it is or under a flat shape."""

    def make() -> Function:
        b = Build()
        z = b.let("z", "tile.batch_matmul", matrix(b, "l", left, FP16), matrix(b, "r", right, FP16))
        b.out(b.let("y", "tile.reshape", z, flat) if flat else z)
        return b.function()

    return make


def _accumulated(page: Shape, windows: bool = False) -> Make:
    """Two batched products into one accumulator of two pages [M, N], and a window of one of them."""

    def make() -> Function:
        b, (m, n) = Build(), page
        left, right = matrix(b, "l", (2, m, 16), FP16), matrix(b, "r", (2, 16, n), FP16)
        acc = b.let("acc", "tile.create", (2, m, n), dtype="FP32", target_memory="Acc")
        with b.loop("i", 2, {"a": acc}) as (i, a):
            more = b.let("more", "tile.batch_matmul_acc", a, left, right, Binary("eq", i, Const(0)))
            b.yields(more)
        b.out(b.let("again", "tile.batch_matmul_acc", b.ended[0], left, right))
        if windows:
            z = b.let("z", "tile.batch_matmul", left, right)
            b.out(b.let("cut", "tile.slice", z, (1, 16, n), (0, 16, 0)))
        return b.function()

    return make


def _other_pages() -> Function:
    """[2, 16, 32] seen as [4, 16, 16]."""
    b = Build()
    acc = b.let("acc", "tile.create", (2, 16, 32), dtype="FP32", target_memory="Acc")
    left, right = matrix(b, "l", (4, 16, 16), FP16), matrix(b, "r", (4, 16, 16), FP16)
    seen = b.let("seen", "tile.reshape", acc, (4, 16, 16))
    b.out(b.let("more", "tile.batch_matmul_acc", seen, left, right, True))
    return b.function()


def _fixed_address() -> Function:
    """An accumulator at an address of the author's, of which the pages side by side would be another."""
    b = Build()
    left, right = matrix(b, "l", (2, 16, 16), FP16), matrix(b, "r", (2, 16, 16), FP16)
    free = b.let("acc", "tile.create", (2, 1, 16, 16), dtype="FP32", target_memory="Acc")
    made = b.blocks[0].pop()
    assert isinstance(made, Assign) and isinstance(free.type, TileType)
    acc = Var("acc", replace(free.type, memref=MemRef("l0c", offset=index(0), size=2048)))
    b.put(replace(made, targets=(acc,)))
    seen = b.let("seen", "tile.reshape", acc, (2, 16, 16))
    b.out(b.let("more", "tile.batch_matmul_acc", seen, left, right, True))
    return b.function()


def _transposed(shape: Shape, axes: Shape, valid: Shape | None = None) -> Make:
    def make() -> Function:
        b = Build()
        b.out(b.let("y", "tile.transpose", b.load("x", shape, valid), *axes))
        return b.function()

    return make


def _turned(left: Shape, right: Shape) -> Make:
    """A product whose right side is seen transposed."""

    def make() -> Function:
        b = Build()
        t = b.let("t", "tile.transpose_view", matrix(b, "r", right, FP16))
        b.out(b.let("z", "tile.batch_matmul", matrix(b, "l", left, FP16), t))
        return b.function()

    return make


def _by_columns(shape: Shape, whole: Shape | None = None, turned: bool = False, one: bool = True, **more: object) -> Make:
    """A product of one matrix, or of as many, and a window of a tensor that lies column by column; `more` are options of that tensor and
    of its valid region."""

    def make() -> Function:
        b = Build()
        t = tensor_type(dims(*(whole or shape)), FP16, TensorView(layout=Layout.DN, **more))  # type: ignore[arg-type]
        w = b.read("w", b.given("w_in", t), shape, target_memory="Mat")
        w = b.let("t", "tile.transpose_view", w) if turned else w
        depth = w.type.shape[-2].value  # type: ignore[union-attr]
        b.out(b.let("z", "tile.batch_matmul", matrix(b, "l", (16, depth) if one else (2, 16, depth), FP16), w))
        return b.function()

    return make


def _turned_window(load: bool, **options: object) -> Make:
    """A window of the transposed view of a load, or of what is no load."""

    def make() -> Function:
        b = Build()
        x = matrix(b, "x", (2, 32, 64) if load else (1, 2, 32, 64), FP16)
        t = b.let("t", "tile.transpose_view", x if load else b.let("r", "tile.reshape", x, (2, 32, 64)))
        b.out(
            b.let(
                "z", "tile.batch_matmul", matrix(b, "l", (2, 16, 64), FP16), b.let("y", "tile.slice", t, (2, 64, 16), (0, 0, 0), **options)
            )
        )
        return b.function()

    return make


#: no run of columns, gaps between pages, a part that is valid, pages that start inside a box, a tensor that lies row by row
_NO_COLUMNS = (
    _by_columns((2, 32, 16), (2, 32, 48)),
    _by_columns((2, 32, 16), stride=dims(2048, 1, 32)),
    _by_columns((2, 32, 16), valid=dims(2, 32, 9)),
    _by_columns((2, 32, 8)),
    _turned((16, 32), (2, 16, 32)),
)


def _cut_swap() -> Function:
    b = Build()
    source = b.tensor("src", (2, 16, 32), FP16)
    x = b.read("x", source, (2, 16, 32), (2, 8, 32), target_memory="Mat")
    left = matrix(b, "l", (2, 16, 32), FP16)
    b.out(b.let("z", "tile.batch_matmul", left, b.let("t", "tile.transpose_view", x)))
    return b.function()


def _rows_of_pages() -> Function:
    """Rows 8 to 24 of two pages of 16 rows are parts of both."""
    b = Build()
    z = b.let("z", "tile.batch_matmul", matrix(b, "l", (2, 32, 16), FP16), matrix(b, "r", (2, 16, 32), FP16))
    b.out(b.let("cut", "tile.slice", z, (1, 16, 32), (1, 16, 0)))
    return b.function()


def _write_rows_of_pages() -> Function:
    b = Build()
    z = b.let("z", "tile.batch_matmul", matrix(b, "l", (2, 32, 16), FP16), matrix(b, "r", (2, 16, 32), FP16))
    w = b.let("w", "tile.batch_matmul", matrix(b, "pl", (1, 16, 16), FP16), matrix(b, "pr", (1, 16, 32), FP16))
    b.out(b.let("all", "tile.assemble", z, w, (1, 16, 0)))
    return b.function()


def _bands(shape: Shape, valid: Shape | None) -> Make:
    def make() -> Function:
        b = Build()
        x = b.load("x", shape, valid)
        b.out(b.let("y", "tile.reshape", x, (shape[0] * shape[1], shape[2])))
        return b.function()

    return make


def _two_pages_of_part() -> Function:
    """Rows 0 and 1 of two pages of four rows."""
    b = Build()
    source = b.tensor("src", (2, 32, 16), FP16)
    x = b.read("x", source, (2, 16, 16), None, (0, 16, 0), target_memory="Mat")
    b.out(b.let("z", "tile.batch_matmul", x, matrix(b, "r", (16, 16), FP16)))
    return b.function()


def _cut_load() -> Function:
    b = Build()
    source = b.tensor("src", (2, 16, 16), FP16)
    x = b.read("x", source, (2, 16, 16), (1, 16, 16), target_memory="Mat")
    b.out(b.let("z", "tile.move", x, target_memory="Left"))
    return b.function()


def _stored(shape: Shape, into: Shape, valid: Shape | None = None) -> Make:
    """A tile into a larger tensor of more axes."""

    def make() -> Function:
        b = Build()
        x = b.load("x", shape, valid)
        target = b.tensor("out", into, direction="Out")
        b.results.append(b.store("o", x, target, None, (*(1 for _ in range(len(into) - len(shape))), *(valid or shape))))
        return b.function()

    return make


def _drained(narrow: str, mode: str = "round", vector: bool = False, move: bool = True) -> Make:
    """A product, or a tile of another memory, that is moved or not, cast and stored."""

    def make() -> Function:
        b = Build()
        z = b.load("z", (2, 16, 16)) if vector else b.let(
            "z", "tile.batch_matmul", matrix(b, "l", (2, 16, 16), FP16), matrix(b, "r", (2, 16, 16), FP16)
        )  # fmt: skip
        moved = b.let("v", "tile.move", z, target_memory="Vec", blayout="row_major", slayout="none_box") if move else z
        b.out(b.let("c", "tile.cast", moved, target_type=narrow, mode=mode))
        return b.function()

    return make


def _reduced(shape: Shape, valid: Shape | None = None, op: str = "tile.col_max", dtype: DType = DType.FP32) -> Make:
    """Axis 0 reduced."""

    def make() -> Function:
        b = Build()
        b.out(b.let("y", op, b.load("x", shape, valid, dtype)))
        return b.function()

    return make


def _first_reduced(shape: Shape, axis: int) -> Make:
    """Axis 0 reduced of a tile that is valid as far as a run tells along an axis, and in the first slab only where that is not axis 0."""

    def make() -> Function:
        b = Build()
        n = b.scalar("n", 0, shape[axis])
        valid = tuple(n if i == axis else 1 if i < axis else extent for i, extent in enumerate(shape))
        b.out(b.let("y", "tile.col_max", b.load("x", shape, valid)))
        return b.function()

    return make


def _expanded(shape: Shape, larger: Shape, valid: Shape | None = None) -> Make:
    """A tile padded to a larger shape."""

    def make() -> Function:
        b = Build()
        b.out(b.let("y", "tile.fillpad_expand", b.load("x", shape, valid), larger, pad_value="zero"))
        return b.function()

    return make


NEAR_MISSES: dict[str, tuple[Make, ...]] = {
    "store.bands": (_bands((2, 4, 8), (1, 4, 8)), _bands((1, 4, 8), None)),
    "store.drain": (
        *(_drained("INT8", move=move) for move in (True, False)),
        *(_drained("FP16", "floor", move=move) for move in (True, False)),
        *(_drained("FP16", vector=True, move=move) for move in (True, False)),
    ),
    "store.moved": (_drained("FP16", vector=True), _drained("FP16")),
    "store.view": (_stored((2, 3, 8), (1, 2, 4, 8)), _stored((2, 3, 8), (2, 3, 8))),
    "store.pages.view": (_stored((2, 3, 8), (1, 2, 4, 8)), _stored((2, 4, 8), (2, 4, 8), (2, 3, 8))),
    "pages.load.view": (_cut_load,),
    "pages.product": (_product((1, 16, 16), (1, 16, 32)),),
    "flat.product": (_product((2, 16, 16), (2, 16, 32)),),
    "flat.product.rows": (
        _product((2, 16, 16), (2, 16, 32), (32, 32)),
        _product((2, 2048, 16), (16, 16), (4096, 16)),
    ),
    "pages.swap": (_cut_swap,),
    "cols.load": _NO_COLUMNS,
    "pages.load.cols": _NO_COLUMNS,
    "flat.swap": (_by_columns((2, 16, 32), (2, 16, 48), turned=True), _turned((16, 32), (2, 16, 32))),
    "cols.product.load": (
        *_NO_COLUMNS,
        _by_columns((2, 32, 16), one=False),
        _by_columns((2, 16, 2048)),
    ),
    "slice.turned": (_turned_window(False), _turned_window(True, pad_value="zero")),
    "pages.transpose": (_transposed((2, 4, 8), (0, 1)), _transposed((3, 4, 8), (1, 2), (2, 3, 8))),
    "flat.transpose": (_transposed((2, 4, 8), (1, 2)), _transposed((1, 4, 8), (0, 1))),
    "pages.expand": (_expanded((1, 3, 8), (2, 4, 8)), _expanded((3, 3, 8), (3, 4, 8), (2, 2, 8))),
    "expand.steps": (_expanded((2, 3, 8), (2, 4, 16)), _expanded((3, 3, 8), (3, 4, 8), (2, 2, 8))),
    "flat.expand": (_expanded((2, 3, 8), (2, 4, 8)), _expanded((2, 3, 8), (2, 3, 16), (2, 2, 8))),
    "flat.col-reduce": (_reduced((2, 3, 3)), _reduced((2, 3, 8), (2, 2, 8)), _reduced((6, 8))),
    "flat.first-reduce": (
        _first_reduced((2, 3, 3), 0),
        _first_reduced((2, 3, 8), 1),
        _reduced((2, 3, 8), (1, 3, 8)),
        _first_reduced((6, 8), 0),
    ),
    "pages.col-reduce": (_reduced((2, 3, 8), (1, 3, 8)), _reduced((2, 3, 8), None, "tile.col_sum", DType.BF16), _reduced((6, 8))),
    "fold.first": (_reduced((6, 8)),),
    "fold.next": (_reduced((1, 3, 8)), _reduced((6, 8))),
    "flat.pack.products": (_product((2, 16, 16), (2, 16, 24), (32, 24)),),
    "cols.create": (_accumulated((16, 24)), _accumulated((8, 16))),
    "cols.leaf": (_accumulated((16, 24)),),
    "cols.reshape": (_other_pages, _fixed_address),
    "cols.accumulate": (_accumulated((16, 24)), _accumulated((24, 16))),
    "cols.product": (_product((2, 16, 16), (2, 16, 24)), _product((2, 8, 16), (2, 16, 16))),
    "cols.product.turned": (
        _turned((2, 16, 32), (2, 16, 32)),
        _turned((16, 32), (2, 24, 32)),
        _turned((16, 16), (2, 2048, 16)),
    ),
    "cols.slice": (_rows_of_pages,),
    "cols.assemble": (_write_rows_of_pages,),
    "pages.cols": (_accumulated((16, 24)),),
    "flat.load.view": (_two_pages_of_part,),
}
