"""The counter-example of each rule's comment as a program: the rule must not fire on it.

`NEAR_MISSES` finds programs by the rule's name. In most of them the rule fires nowhere; where it rightly
fires on another value of the same program, `ON_VALUE` looks at the value that it must not touch.
"""

from __future__ import annotations

from collections.abc import Callable

from building import Build, Shape
from drawing import scratch_like
from product_programs import matrix

from egraph_rules.graph import Graph
from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Var
from pypto_ir.stmt import Function

FP32, BF16 = DType.FP32, DType.BF16
Make = Callable[[], Function]


def _stored(shape: Shape, valid: Shape | None = None) -> Make:
    """A load and a store."""

    def make() -> Function:
        b = Build()
        b.out(b.load("x", shape, valid))
        return b.function()

    return make


def _pair(op: str, x: Shape, y: Shape, valid: Shape | None = None, y_valid: Shape | None = None) -> Make:
    """`z = op(x, y)`, stored."""

    def make() -> Function:
        b = Build()
        b.out(b.let("z", op, b.load("x", x, valid), b.load("y", y, y_valid)))
        return b.function()

    return make


def _chain(shape: Shape, valid: Shape | None, *steps: tuple[str, tuple[object, ...], dict[str, object]]) -> Make:
    """One op after another on a loaded tile, the last result stored."""

    def make() -> Function:
        b = Build()
        x = b.load("x", shape, valid)
        for i, (op, args, kwargs) in enumerate(steps):
            x = b.let(f"t{i}", op, x, *args, **kwargs)
        b.out(x)
        return b.function()

    return make


def _reshaped(shape: Shape, valid: Shape | None, *targets: Shape) -> Make:
    return _chain(shape, valid, *(("tile.reshape", (target,), {}) for target in targets))


def _assembled(target: Shape, source: Shape, at: Shape, into: DType = FP32, valid: Shape | None = None) -> Make:
    """A tile, which may be cut, written into another."""

    def make() -> Function:
        b = Build()
        b.out(b.let("y", "tile.assemble", b.load("t", target, dtype=into), b.load("x", source, valid), at))
        return b.function()

    return make


def _in_l1(*step: object) -> Make:
    """A factor in L1 that has no flat form beside that of what it is made of, [2, 32, 32]."""

    def make() -> Function:
        b = Build()
        x = matrix(b, "x", (2, 32, 32), DType.FP16)
        op, *operands = (matrix(b, "part", o[1], DType.FP16) if o and o[0] == "load" else o for o in step)
        b.out(b.let("z", "tile.batch_matmul", b.let("y", str(op), x, *operands), matrix(b, "r", (32, 16), DType.FP16)))
        return b.function()

    return make


def _carried(valid: Shape) -> Make:
    """A loop that carries [2, 3, 8] with a valid region."""

    def make() -> Function:
        b = Build()
        x = b.load("x", (2, 3, 8), valid)
        with b.loop("i", 2, {"acc": x}) as (_, acc):
            b.yields(b.let("sum", "tile.add", acc, x))
        b.out(b.ended[0])
        return b.function()

    return make


def _row_run(shape: Shape, target: Shape, at: Shape) -> Make:
    """Rows stored over the axes of a target."""

    def make() -> Function:
        b = Build()
        b.out(b.load("x", shape), target, at)
        return b.function()

    return make


def _no_box() -> Function:
    b = Build()
    b.out(b.load("x", (4, 3, 8)), (2, 2, 4, 8))
    return b.function()


def _one_page_create() -> Function:
    b = Build()
    y: Var = b.create("y0", (1, 4, 8))
    for i in range(2):
        y = b.let(f"y{i + 1}", "tile.assemble", y, b.load(f"w{i}", (1, 2, 8)), (0, 2 * i, 0))
    b.out(b.let("z", "tile.add", b.load("x", (2, 4, 8)), y))
    return b.function()


def _one_page_full() -> Function:
    b = Build()
    b.out(b.let("z", "tile.add", b.load("x", (2, 4, 8)), b.full("c", (1, 4, 8), 1.5)))
    return b.function()


def _spread() -> Function:
    """[2, 1] and [1, 2] pages beside [2, 2] pages."""
    b = Build()
    z = b.let("z0", "tile.add", b.load("x", (2, 2, 3, 5)), b.load("y", (2, 1, 3, 5)))
    b.out(b.let("z", "tile.sub", z, b.load("w", (1, 2, 3, 5))))
    return b.function()


def _cut_pages() -> Function:
    """What would be packed is valid in a part of every page."""
    b = Build()
    y = b.let("y", "tile.add", b.load("x", (2, 4, 8), (2, 3, 8)), b.load("w", (1, 4, 8), (1, 3, 8)))
    b.out(b.let("z", "tile.reshape", y, (1, 2, 4, 8)))
    return b.function()


def _written_somewhere() -> Function:
    """A cell written in a page that is known at run time only."""
    b = Build()
    x = b.let("x", "tile.exp", b.load("u", (2, 4, 8), (2, 3, 8)))
    b.out(b.let("y", "tile.write", x, (b.scalar("k", 0, 1), 0, 0), Const(1.5, FP32)))
    return b.function()


def _scratch_given() -> Function:
    b = Build()
    x = b.load("x", (8, 16))
    b.out(b.let("y", "tile.transpose", x, 0, 1, scratch_like(b, "tmp", x)))
    return b.function()


def _two_scratch() -> Function:
    """A row reduction whose operand is cut in every page."""
    b = Build()
    x = b.load("x", (2, 3, 8), (2, 2, 8))
    b.out(b.let("m", "tile.row_max", x, scratch_like(b, "tmp", x)))
    return b.function()


_COL_MAJOR = ("tile.move", (), {"target_memory": "Vec", "blayout": "col_major"})
_LAYOUT = _chain((8, 16), None, _COL_MAJOR, ("tile.reshape", ((8, 16),), {}))

NEAR_MISSES: dict[str, tuple[Make, ...]] = {
    "flat.identity": (_stored((2, 3, 8)),),
    "flat.leaf": (_carried((2, 2, 8)),),
    "flat.load": (_stored((2, 3, 8), (2, 2, 8)),),
    "flat.op": (
        _chain((2, 3, 8), None, ("tile.col_sum", (), {})),
        _chain((2, 2, 8), None, ("tile.transpose", (0, 1), {})),
        _two_scratch,
    ),
    "flat.plain": (_pair("tile.add", (2, 3, 8), (2, 3, 8)), _pair("tile.add", (2, 3, 8), (1, 8))),
    "flat.args.data": (
        _pair("tile.add", (2, 3, 8), (1, 3, 8)),
        _pair("tile.mul", (2, 3, 8), (3, 8)),
        _pair("tile.sub", (2, 3, 8), (2, 3, 8), None, (2, 2, 8)),
    ),
    "flat.args.one-row": (_pair("tile.add", (1, 1, 8), (1, 1, 8)),),
    "flat.args.row-scalar": (_pair("tile.row_expand_mul", (2, 3, 8), (1, 3, 1)),),
    "flat.args.col-vector": (_pair("tile.col_expand_mul", (2, 3, 8), (2, 1, 8)),),
    "flat.reshape.rows": (_reshaped((1, 2, 8), None, (1, 4, 4)), _reshaped((2, 8), None, (4, 4)), _LAYOUT),
    "flat.reshape": (_reshaped((2, 3, 8), (1, 3, 8), (8, 6)),),
    "flat.reshape.cut": (_reshaped((2, 4, 8), (2, 2, 8), (2, 4, 8, 1)),),
    "reshape.reshape": (_reshaped((4, 8), (2, 8), (8, 4), (2, 16)),),
    "reshape.back": (_reshaped((4, 8), (2, 8), (8, 4), (4, 8)),),
    "reshape.same": (_LAYOUT,),
    "flat.reinterpret": (_chain((2, 3, 8), (1, 3, 8), ("tile.reinterpret_view", ((2, 3, 16),), {"dtype": "INT16"})),),
    "flat.assemble": (_assembled((4, 8, 16), (2, 4, 16), (0, 0, 0)),),
    "flat.slice": (_chain((4, 8, 16), None, ("tile.slice", ((2, 4, 16), (0, 0, 0)), {})),),
    "store.flat": (_no_box,),
    "store.pages": (_stored((2, 3, 8), (1, 3, 8)), _stored((1, 3, 8))),
    "store.boxes": (
        _row_run((6, 6), (4, 4, 6), (0, 2, 0)),
        _row_run((8, 8), (4, 4, 8), (1, 0, 0)),
        _row_run((24, 8), (4, 4, 8), (0, 2, 0)),
    ),
    "pages.one": (_stored((2, 3, 8)),),
    "pages.rows": (_stored((2, 3, 1)), _stored((2, 3, 8), (1, 3, 8))),
    "pages.leaf": (_carried((1, 3, 8)),),
    "pages.load": (_stored((2, 3, 8), (1, 3, 8)),),
    "pages.create": (_one_page_create,),
    "pages.full": (_one_page_full,),
    "pages.op": (_chain((2, 3, 8), None, ("tile.col_sum", (), {})),),
    "pages.write": (_written_somewhere,),
    "pages.args": (_pair("tile.add", (2, 3, 8), (2, 3, 8), None, (1, 3, 8)),),
    "spread.same": (_spread,),
    "pages.reshape": (_reshaped((2, 3, 8), None, (3, 2, 8)),),
    "pages.assemble": (
        _assembled((2, 4, 8), (1, 2, 8), (1, 2, 0)),
        _assembled((2, 4, 8), (1, 4, 8), (1, 0, 0), BF16),
        _assembled((2, 4, 8), (1, 4, 8), (1, 0, 0), FP32, (1, 3, 8)),
    ),
    "op.opened": (
        _pair("tile.add", (4, 3, 8), (1, 3, 8), (1, 2, 8)),
        _pair("tile.add", (4, 3, 8), (1, 1, 8), (1, 3, 8)),
        _pair("tile.add", (4, 3, 8), (1, 3, 8), (4, 3, 8)),
        _pair("tile.add", (4, 3, 8), (4, 3, 8), (1, 3, 8)),
    ),
    "opened.back": (_pair("tile.add", (4, 3, 8), (1, 3, 8), (2, 3, 8)),),
    "flat.pack": (
        _cut_pages,
        _pair("tile.add", (2, 3, 1), (1, 3, 1)),
        _in_l1("tile.transpose_view"),
        _in_l1("tile.slice", (2, 16, 32), (0, 16, 0)),
        _in_l1("tile.assemble", ("load", (2, 16, 32)), (0, 16, 0)),
    ),
    "slice.slice": (_chain((16, 32), (10, 32), *(("tile.slice", a, {}) for a in (((8, 16), (4, 0)), ((2, 8), (1, 0))))),),
    "slice.load": (_chain((2, 16, 16), (2, 8, 16), ("tile.slice", ((2, 12, 16), (0, 0, 0)), {"pad_value": "zero"})),),
    "slice.whole": (_chain((8, 16), None, ("tile.slice", ((8, 16), (0, 0)), {"pad_value": "zero"})),),
    "assemble.whole": (_assembled((8, 16), (8, 16), (0, 0), BF16), _assembled((8, 16), (4, 16), (0, 0))),
}


def _no_flat_operand(graph: Graph) -> bool:
    """The second operand has its obstacle, and the op no flat form."""
    numbers = graph.encoded.numbers
    return bool(graph.obstacles.get(graph.values[numbers["y"]])) and all(
        n.name != "Op2" for n in graph.classes.get(graph.flat[numbers["z"]], ())
    )


def _no_packed_op(graph: Graph) -> bool:
    """One operand has a packed form, the op has none."""
    return not graph.classes.get(graph.flat[graph.encoded.numbers["y"]])


def _no_same_spread(graph: Graph) -> bool:
    """The spread pages of y and w are not their pages."""
    families = [graph.families[graph.encoded.numbers[name]] for name in "yw"]
    return not any(n.name == "Spread" for c in families for n in graph.classes[c])


def _no_page_op(graph: Graph) -> bool:
    return not any(n.name == "OpEach" for nodes in graph.classes.values() for n in nodes)


ON_VALUE: dict[str, Callable[[Graph], bool]] = {
    "flat.args.data": _no_flat_operand,
    "packed.args": _no_packed_op,
    "pages.args": _no_page_op,
    "spread.same": _no_same_spread,
}
