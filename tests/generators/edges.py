"""Random programs at the edges: valid regions that are cut, windows that are no box, slices of what was just written.

    t1 = create [4, 8, 16];  t2 = assemble(t1, x [2, 4, 16], [1, 2, 0])      rows 10-13 and 18-21 of the collapse
    s3 = slice(t2, [1, 4, 16], [i, 2, 0])                                    is that x, part of it, or what lay there before

Windows are drawn beside earlier ones: the same box, a part of it, one that overlaps it, one that is disjoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto_ir.expr import Binary, Expr, Var, index
from pypto_ir.stmt import Function, Program, Return
from pypto_ir.types import tensor_type
from tests.generators import control, memory, values, views
from tests.generators.builder import FLOATS, Builder, Shape, Source, ints, shape_of, tile

#: deepest nest of loops and branches
DEPTH = 1
#: tiles with several pages, bands of rows, and columns to cut
SHAPES: tuple[Shape, ...] = (
    (4, 8, 16), (2, 4, 8), (2, 8, 16), (3, 4, 8), (2, 2, 4, 8), (8, 16), (16, 16), (2, 3, 8), (1, 8, 16), (2, 1, 8, 8), (4, 4, 4),
)  # fmt: skip
#: ops that see every cell, or every row
OPS = tuple(op for op in values.POINTWISE if op.name in ("tile.add", "tile.sub", "tile.muls", "tile.adds", "tile.neg", "tile.maximum"))


@dataclass(frozen=True, slots=True)
class Box:
    """A window that was read or written: its extents and where it stands."""

    sizes: Shape
    at: tuple[Expr, ...]


@dataclass(slots=True)
class Edges:
    """A function under construction with the windows of each tile shape that were drawn so far."""

    b: Builder
    boxes: dict[Shape, list[Box]] = field(default_factory=dict)

    def box(self, shape: Shape) -> Box:
        """A window of a tile: beside an earlier one mostly, else any."""
        known = self.boxes.setdefault(shape, [])
        box = self.beside(shape, self.b.recent(known)) if known and self.b.chance(65) else Box(*views.window(self.b, shape))
        known.append(box)
        return box

    def beside(self, shape: Shape, near: Box) -> Box:
        """The same window, a part of it, or one that was moved along an axis."""
        b, way = self.b, self.b.below(4)
        if way == 0:
            return near
        axis = b.choose([i for i, n in enumerate(shape) if n > 1] or [0])
        sizes, at = list(near.sizes), list(near.at)
        if way == 1:
            inner = b.choose([n for n in (1, sizes[axis] // 2, sizes[axis] - 1) if n >= 1] or [sizes[axis]])
            at[axis] = _plus(at[axis], b.below(sizes[axis] - inner + 1))
            sizes[axis] = inner
        else:
            at[axis] = b.offset(shape[axis] - sizes[axis])
        return Box(tuple(sizes), tuple(at))

    # ---- statements ----------------------------------------------------------------------------------------

    def statement(self, size: int) -> None:
        b = self.b
        match b.below(24):
            case 0 | 1 | 2 | 3 | 4:
                self.cut()
            case 5 | 6 | 7 | 8 | 9:
                self.assemble()
            case 10 | 11 | 12:
                self.loaded(b.choose(SHAPES), full=b.chance(50))
            case 13 | 14:
                values.apply(b, b.choose(OPS))
            case 15:
                values.apply(b, b.choose(values.ROW_WISE))
            case 16:
                self.cell()
            case 17:
                self.fill()
            case 18 | 19 | 20:
                known = b.tiles()
                if known:
                    memory.store(b, b.recent(known))
            case 21 if len(b.frames) <= DEPTH:
                control.loop(b, self.block, max(2, size // 2))
            case 22 if len(b.frames) <= DEPTH:
                control.branch(b, self.block, max(2, size // 2))
            case _:
                views.reshape(b)

    def block(self, b: Builder, size: int) -> None:
        """Statements of a block; windows whose offsets may name what it defines are forgotten behind it."""
        before = {shape: list(boxes) for shape, boxes in self.boxes.items()}
        for _ in range(size):
            self.statement(size)
        control.drain(b, 2)
        self.boxes = before

    def loaded(self, shape: Shape, full: bool) -> Var:
        return memory.load(self.b, shape, self.b.choose(FLOATS[:2]), full=full)

    def fill(self) -> Var | None:
        b, dtype = self.b, self.b.choose(FLOATS[:2])
        if b.chance(50):
            return b.call("tile.create", [b.choose(SHAPES)], "c", dtype=dtype.value, target_memory="Vec")
        return b.call("tile.full", [b.choose(SHAPES), b.constant(dtype)], "f", dtype=dtype.value)

    def cut(self) -> bool:
        """A slice, with a valid region or dropped unit axes sometimes."""
        b = self.b
        known = b.tiles(lambda t: t.rank >= 2)
        if not known:
            return False
        source = b.recent(known)
        box = self.box(shape_of(source))
        args: list[Expr | tuple[object, ...]] = [source, box.sizes, box.at]
        if b.chance(15):
            args.append(tuple(b.extent(n) for n in box.sizes) if b.chance(60) else ())
            units = tuple(i for i, n in enumerate(box.sizes[:-1]) if n == 1)
            if units and b.chance(60):
                args.append(units[: 1 + b.below(len(units))])
        return b.call("tile.slice", args, "s") is not None

    def assemble(self) -> bool:
        """A window of a tile overwritten by a tile that fits, by a load, or by one of fewer axes."""
        b = self.b
        known = b.tiles(lambda t: t.rank >= 2 and t.dtype in FLOATS)
        target = b.recent(known) if known and not b.chance(20) else self.fill()
        if target is None or tile(target).rank < 2:
            return False
        shape, dtype = shape_of(target), tile(target).dtype
        box = self.whole(shape) if b.chance(10) else self.box(shape)
        sizes = box.sizes
        if len(sizes) > 2 and all(n == 1 for n in sizes[:-2]) and b.chance(35):
            sizes = sizes[-2:]
        fitting = b.tiles(lambda t: t.dtype is dtype and ints(t.shape) == sizes)
        part = b.recent(fitting) if fitting and b.chance(50) else memory.load(b, sizes, dtype, full=not b.chance(20))
        if b.chance(25):
            part = b.call("tile.adds", [part, b.constant(dtype)]) or part
        if b.call("tile.assemble", [target, part, box.at], "y") is None:
            return False
        values.overwritten(b, target)
        return True

    def whole(self, shape: Shape) -> Box:
        return Box(shape, tuple(index(0) for _ in shape))

    def cell(self) -> bool:
        """One cell of a tile read into a scalar, or written in place."""
        b = self.b
        known = b.tiles(lambda t: t.rank >= 2 and t.dtype in FLOATS and ints(t.valid) is not None)
        known = [v for v in known if 0 not in (ints(tile(v).valid) or ())]
        if not known:
            return False
        source = b.recent(known)
        at = tuple(b.offset(n - 1) for n in ints(tile(source).valid) or ())
        if b.chance(55):
            return b.call("tile.read", [source, at], "v") is not None
        if b.call("tile.write", [source, at, b.constant(tile(source).dtype)], "w") is None:
            return False
        values.overwritten(b, source)
        return True


def _plus(e: Expr, n: int) -> Expr:
    return e if n == 0 else Binary("add", e, index(n))


def random_edges(source: Source, most: int = 9) -> Program:
    """A program of about at most `most` statements beside loads and stores, in which every index is in bounds."""
    b = Builder(source, 3)
    edges = Edges(b)
    edges.loaded(b.choose(SHAPES), full=b.chance(60))
    if b.chance(30):
        # a tensor that is read and written
        shape = b.choose(SHAPES)
        b.parameter(tensor_type(tuple(map(index, shape)), FLOATS[0]), "io", "InOut")
    edges.block(b, 2 + b.below(most))
    if not any(p.var.name in b.used for p in memory.outputs(b)):
        memory.store(b, (b.tiles() or [edges.loaded(b.choose(SHAPES), full=True)])[-1])
    outputs = memory.outputs(b)
    current = b.frames[0].current
    b.emit(Return(tuple(current[p.var.name] for p in outputs)))
    returns = tuple(p.var.type for p in outputs)
    target = b.choose(("ascend910b", "ascend950"))
    return Program("edges", (Function("main", tuple(b.params), returns, tuple(b.frames[0].block), "InCore"),), target)
