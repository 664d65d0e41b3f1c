"""Transposes of tiles of rank above 2: what each is equal to, as facts for the rules.

    [1, 3, 8] axes 0, 1       the axes that are not 1 keep their order: a reshape to [3, 1, 8]
    [2, 3, 4, 8] axes 0, 1    whole pages change their places: page (j, i) of the result is page (i, j)
    [2, 3, 8] axes 0, 1       seen as [2, 3, 1, 8], whose pages are rows; from global memory three pages [2, 8] with the axes swapped
    [1, 3, 8] axes 0, 2       seen as [3, 8], which is one page
    [2, 3, 8] axes 0, 2       three transposes: axes 0, 1, then 1, 2, then 0, 1

A transpose of the last two axes works on one page at a time and needs none of this. What is cut is made fully valid first, and so is the
result by its type, whose cells are undefined where those of the operand are outside of its valid region.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from egraph_rules import forms
from egraph_rules.opened import opened, opening
from egraph_rules.tables import Hole, OpEntry
from pypto_ir.expr import Expr, MakeTuple, Var, const_int, index
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import Call
from pypto_ir.types import Layout, Memory, TensorType, TileLayout, TileType

if TYPE_CHECKING:
    from egraph_rules.values import Values

Axes = tuple[int, int]


class Transposes:
    """The transposes of a function as far as rules ask for them; `swapped` finds one by its result: its table entry, its operand and
    its axes in order."""

    def __init__(self, values: Values) -> None:
        self.values, self.commands, self.tables = values, values.commands, values.tables
        self.swapped: dict[str, tuple[int, Var, Axes]] = {}

    def transpose(self, number: int, var: Var, call: Call) -> None:
        """State what a transpose of the program is equal to."""
        source = call.args[0]
        axes = swapped_axes(call)
        if not isinstance(source, Var) or not isinstance(source.type, TileType) or axes is None:
            return
        self.twice(number, source, axes)
        self.swapped[var.name] = (number, source, axes)
        self.cut(number, var, call)
        if _rows_in_order(source.type):
            self.state(number, source.type, axes, var.name)
            self.load(number, source, var, axes)
        elif axes[1] < source.type.rank - 2 and (shape := source.type.static_shape) is not None and self.values.once("boxes", number):
            # boxes of a page stay where they are in it
            self.commands.set("page-order", number, shape, self.tables.pages.number(page_order(shape, axes)))

    def cut(self, number: int, var: Var, call: Call) -> None:
        """State what a transpose of a tile that is cut is equal to, by way of one that is fully valid."""
        source, axes = call.args[0], swapped_axes(call)
        assert isinstance(source, Var) and isinstance(source.type, TileType) and axes is not None
        entry = None if forms.whole(source.type) or source.type.rank <= 2 else opening(self.values, source.type)
        if entry is None:
            return
        whole = opened(source.type)
        kinds = self.values.kind(source.type), self.values.kind(whole)
        self.commands.fact("opened-operand", number, kinds[0], entry, kinds[1])
        self.values.scratch(number, kinds[1], replace(call, args=(Var(source.name, whole), *call.args[1:])), var)
        if _rows_in_order(whole):
            self.state(number, whole, axes, var.name)

    def twice(self, number: int, source: Var, axes: Axes) -> None:
        """That the transpose undoes another one."""
        before = self.swapped.get(source.name)
        if before is not None and before[2] == axes and isinstance(source.type, TileType) and source.type.static_shape is not None:
            self.commands.fact("undoes", number, before[0], source.type.static_shape)

    def state(self, number: int, t: TileType, axes: Axes, name: str) -> None:
        """What entry `number` makes of tiles of type `t`, and of the tiles that it goes through."""
        shape = t.static_shape
        assert shape is not None
        kind, (a, b), n, c = self.values.kind(t), axes, len(shape), self.commands
        if n <= 2 or not self.values.once(f"transpose {kind}", number):
            return
        order = swap(tuple(range(n)), axes)
        wide = [i for i in order if shape[i] != 1]
        kept = sorted(wide)
        moved = [k for k, (i, j) in enumerate(zip(wide, kept, strict=True)) if i != j]
        if not moved:
            c.fact("order-kept", number, shape)
        elif b < n - 2:
            c.set("page-order", number, shape, self.tables.pages.number(page_order(shape, axes)))
        elif len(kept) < n and len(moved) == 2:
            self.seen_as(number, kind, t, tuple(shape[i] for i in kept), (moved[0], moved[1]), name)
        elif b == n - 2:
            self.seen_as(number, kind, t, (*shape[:-1], 1, shape[-1]), axes, name)
        elif a < n - 2:
            self.three(number, kind, t, a, name)

    def seen_as(self, number: int, kind: int, t: TileType, shape: forms.Shape, axes: Axes, name: str) -> None:
        """The transpose as one of a tile of another shape with the same rows of cells, between two reshapes."""
        seen = infer_call(Call("tile.reshape", (Var("x", t), MakeTuple(tuple(map(index, shape))))))
        assert isinstance(seen, TileType)
        entry, result = self.entry(number, seen, axes, name)
        self.commands.fact("seen-as", number, kind, shape, self.values.kind(seen), entry, self.values.kind(result))

    def three(self, number: int, kind: int, t: TileType, a: int, name: str) -> None:
        """A transpose of an outer and the last axis: the outer axis comes before the last one, the two are swapped, and it goes back."""
        outer, last = (a, t.rank - 2), (t.rank - 2, t.rank - 1)
        first, u = self.entry(number, t, outer, name)
        second, v = self.entry(number, u, last, name)
        third, w = self.entry(number, v, outer, name)
        kinds = (self.values.kind(x) for x in (u, v, w))
        self.commands.fact("by-three", number, kind, first, second, third, *kinds)

    def entry(self, number: int, t: TileType, axes: Axes, name: str) -> tuple[int, TileType]:
        """The entry of another transpose that takes part in one, and the type of its result."""
        ends: tuple[Expr, ...] = (index(axes[0]), index(axes[1]))
        call = Call("tile.transpose", (Var(name, t), *ends))
        result = infer_call(call)
        assert isinstance(result, TileType)
        entry = self.tables.ops.number(OpEntry(call.op, (Hole(0), *ends)))
        self.values.scratch(entry, self.values.kind(t), call, Var(name, result))
        self.state(entry, t, axes, name)
        return entry, result

    def load(self, number: int, source: Var, var: Var, axes: Axes) -> None:
        """A transposed load as a load of pages along other axes, where the buffer was not written since."""
        found = self.values.loaded.get(source.name)
        assert isinstance(var.type, TileType) and isinstance(source.type, TileType)
        if found is None or axes[1] == source.type.rank - 1:
            return
        load = self.tables.loads[found]
        tensor = load.call.args[0].type  # type: ignore[union-attr]
        plain = isinstance(tensor, TensorType) and tensor.layout is Layout.ND and source.type.memory is Memory.VEC
        columns = const_int(source.type.shape[-1])
        if not plain or columns == 1 or load.order or self.values.versions.of(load.call.args[0]) != load.reads:
            return
        moved = self.tables.loads.number(replace(load, type=var.type, order=swap(tuple(range(var.type.rank)), axes)))
        self.commands.set("moved-load", found, number, moved)
        self.commands.fact("by-page", moved)


def swapped_axes(call: Call) -> Axes | None:
    """The axes of a transpose, the outer one first; None where they are not constant."""
    t = getattr(call.args[0], "type", None)
    axes = [const_int(e) for e in call.args[1:3]]
    if not isinstance(t, TileType) or t.static_shape is None:
        return None
    found = sorted(a % t.rank for a in axes if a is not None)
    return (found[0], found[1]) if len(found) == 2 else None


def swap(items: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    """The items with two of them swapped: (0, 1, 2) with axes 0 and 1 is (1, 0, 2)."""
    result = list(items)
    a, b = axes
    result[a], result[b] = result[b], result[a]
    return tuple(result)


def page_order(shape: forms.Shape, axes: Axes) -> tuple[int, ...]:
    """For each page of the result of swapping two batch axes the page that it is: [2, 3, ..] with 0 and 1 gives 0, 3, 1, 4, 2, 5."""
    batch = shape[:-2]
    order = []
    for number in range(prod(batch)):
        place = swap(forms.unravel(number, swap(batch, axes)), axes)
        page = 0
        for i, d in zip(place, batch, strict=True):
            page = page * d + i
        order.append(page)
    return tuple(order)


def _rows_in_order(t: TileType) -> bool:
    """True where a tile is fully valid and its cells lie row by row: what is moved are then rows."""
    return t.rank > 2 and forms.whole(t) and t.memref is None and t.effective_view.slayout is TileLayout.NONE_BOX
