"""Functions in the e-graph as far as tables hold them: ops with what rules do not look at, and the ops that make one page."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from egraph_rules import forms
from egraph_rules.buffers import Buffers, Versions
from egraph_rules.engine import Commands
from egraph_rules.tables import FillEntry, Handover, Hole, OpEntry, Tables
from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, Var, const_int, index
from pypto_ir.ops.registry import find_op
from pypto_ir.stmt import TRUE, Call, Function
from pypto_ir.types import Memory, TileType


@dataclass(slots=True)
class Encoded:
    """A function in the e-graph: `numbers` of its tile values by name, `writes` of its stores by call identity (index of statement),
    `carried` the names that a loop starts from, `placed` those of which a statement outside needs each row at its place."""

    function: Function
    buffers: Buffers
    tables: Tables = field(default_factory=Tables)
    numbers: dict[str, int] = field(default_factory=dict)
    types: list[TileType] = field(default_factory=list)
    stores: dict[int, int] = field(default_factory=dict)
    handovers: list[Handover] = field(default_factory=list)
    demanded: dict[str, None] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)
    carried: frozenset[str] = frozenset()


#: reductions of axis 0 -> what each does of two tiles
FOLDS = {"tile.col_sum": "tile.add", "tile.col_max": "tile.maximum", "tile.col_min": "tile.minimum", "tile.col_prod": "tile.mul"}


class Entries:
    """The table entries of ops, and what rules are told of an entry."""

    def __init__(self, out: Encoded, commands: Commands, versions: Versions) -> None:
        self.out, self.tables, self.commands, self.versions = out, out.tables, commands, versions
        self._entries: set[tuple[str, int]] = set()
        self._shapes: dict[forms.Shape, None] = {}

    def once(self, what: str, number: int) -> bool:
        """True the first time that a table entry is seen."""
        key = (what, number)
        if key in self._entries:
            return False
        self._entries.add(key)
        return True

    def value(self, name: str) -> object:
        """A tile value of the program that was defined before."""
        return self.commands.value(self.out.numbers[name])

    def shape(self, shape: forms.Shape) -> None:
        """Shape arithmetic for a shape and what its carriers have."""
        if shape in self._shapes:
            return
        self._shapes[shape] = None
        c, flat, page = self.commands, forms.collapsed(shape), forms.page(shape)
        c.set("lead", shape, forms.lead(shape))
        c.set("last", shape, shape[-1])
        c.set("collapsed", shape, flat)
        c.set("page", shape, page)
        c.set("batch", shape, forms.batch(shape))
        if forms.pages(shape) > 1:
            c.fact("batched", shape)
            c.set("columns", shape, forms.columns(shape))
        else:
            c.fact("single", shape)
        for width in (1, 2, 4, 8):
            if len(page) == 2 and page[0] * page[1] * width % forms.VIEW_BYTES == 0:
                c.fact("view-aligned", page, width)
            rest = forms.stacked(shape)
            if len(shape) > 2 and (rest == flat or rest[0] == 1 or rest[1] * width % forms.VIEW_BYTES == 0):
                c.set("stacked", shape, width, rest)
        self.shape(flat)
        self.shape(page)

    def op_entry(self, call: Call, t: TileType, keep: int | None = None) -> int:
        """The table number of an op; `keep` cuts operands whose content the node itself holds (a shape)."""
        template: list[Expr | Hole] = []
        holes = 0
        for e in call.args[:keep]:
            if isinstance(e, Var) and e.name in self.out.numbers:
                template.append(Hole(holes))
                holes += 1
            else:
                template.append(e)
        reads: tuple[tuple[str, int], ...] = ()
        op = find_op(call.op)
        for i in op.reads_memory if op else ():
            if i < len(call.args):
                reads += self.versions.of(call.args[i])
        return self.tables.ops.number(OpEntry(call.op, tuple(template), call.kwargs, call.attrs, reads, t.memref))

    def paged(self, number: int, page_op: str, var: Var) -> None:
        """An op whose pages another op computes: the entry of that op; for a product also that which accumulates into a given tile."""
        entry, c = self.tables.ops[number], self.commands
        page = replace(entry, op=page_op, memref=entry.memref if _tile(var).rank == 2 else None)
        c.set("page-form", number, self.tables.ops.number(page))
        if page_op == "tile.transpose_view":
            c.fact("swaps", number)
        if page_op == "tile.matmul_acc":
            c.fact("accumulates", number)
        if page_op == "tile.matmul":
            c.fact("multiplies", number)
            first = OpEntry("tile.matmul_acc", (Hole(0), *_shifted(entry.template), TRUE), entry.kwargs, entry.attrs)
            c.set("first-form", number, self.tables.ops.number(first))
            c.set("scratch-id", number, self.buffer(_tile(var), f"{var.name}_acc"))

    def folded(self, number: int, call: Call) -> None:
        """An op that reduces axis 0 as another op does two tiles, page by page: the entry of that op, and which pages go together."""
        source = call.args[0] if call.args else None
        if call.op not in FOLDS or not isinstance(source, Var):
            return
        shape, dtype = _tile(source).static_shape, _tile(source).dtype
        # narrow floats are added and multiplied in FP32, and rounded once
        exact = call.op in ("tile.col_max", "tile.col_min") or dtype.is_int or dtype is DType.FP32
        if not exact or shape is None or len(shape) <= 2:
            return
        fold = FOLDS[call.op]
        self.commands.set("folds", number, self.tables.ops.number(OpEntry(fold, (Hole(0), Hole(1)))))
        if self.once(f"slabs of {shape}", 0):
            pages = forms.pages(shape[1:])
            for i in range(shape[0]):
                self.commands.set("slab", shape, i, self.tables.pages.number(tuple(range(i * pages, (i + 1) * pages))))

    def buffer(self, t: TileType, identity: str) -> int:
        """The number of a create of tiles like `t`."""
        create = Call("tile.create", (), (("dtype", t.dtype.value), ("target_memory", (t.memory or Memory.VEC).value)))
        return self.tables.fills.number(FillEntry(create, TileType(t.shape, t.dtype, t.memory), identity))

    def scratch(self, number: int, kind: int, call: Call, var: Var) -> None:
        """A transpose of the last two axes on a 2-D tile with its scratch: the entry of the op, and a create for the scratch, for operands
        of a kind. The entry alone does not tell which axes are the last two, nor what the scratch holds."""
        entry = self.tables.ops[number]
        source = call.args[0].type  # type: ignore[union-attr]
        assert isinstance(source, TileType)
        axes = {a % source.rank for a in map(const_int, call.args[1:3]) if a is not None}
        last = axes == {source.rank - 1, source.rank - 2} and (source.rank > 2 or len(call.args) == 3)
        if not last or not self.once(f"scratch of {kind}", number):
            return
        ends = call.args[1:3] if source.rank == 2 else (index(0), index(1))
        memref = entry.memref if source.rank == 2 else None
        wide = OpEntry(entry.op, (Hole(0), *ends, Hole(1)), entry.kwargs, entry.attrs, entry.reads, memref)
        self.commands.set("scratch-form", number, kind, self.tables.ops.number(wide))
        self.commands.set("scratch-of", number, kind, self.buffer(source, f"{var.name}_tmp"))


def _shifted(template: tuple[Expr | Hole, ...]) -> tuple[Expr | Hole, ...]:
    """A template whose tile operands come one place later."""
    return tuple(Hole(e.number + 1) if isinstance(e, Hole) else e for e in template)


def _tile(var: Var) -> TileType:
    assert isinstance(var.type, TileType)
    return var.type
