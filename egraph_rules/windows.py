"""Windows of tiles: where a slice reads and an assemble writes, as rows and columns of the collapse.

    [2, 4, 16] at [1, 2, 0] of [4, 8, 16]     rows 10 to 13 and 18 to 21 of [32, 16]: scattered, in pieces of 4 rows at 10 + 0 and 10 + 8,
                                              or rows 2 to 5 of pages 1 and 2

What is no run of rows is read and written piece by piece, a piece for every page of the window. Pieces are tiles of our own making, so
they start at multiples of 32 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from egraph_rules import forms
from egraph_rules.buffers import Versions
from egraph_rules.engine import Commands
from egraph_rules.entries import Encoded, Entries
from egraph_rules.loads import row_of
from egraph_rules.operands import static
from egraph_rules.overwrites import Box, Overwrites, span
from egraph_rules.tables import Hole, OpEntry
from pypto_ir.expr import Binary, Expr, MakeTuple, Var, const_int, index
from pypto_ir.linear import linear, provably_equal, to_expr
from pypto_ir.ops.registry import OpError, ShapeRule
from pypto_ir.ops.rules import infer_call
from pypto_ir.regions import add_index, collapse_contiguous, merged_valid, mul_index
from pypto_ir.stmt import Call
from pypto_ir.types import Dims, TileLayout, TileType, dims, same_dim


@dataclass(frozen=True, slots=True)
class Window:
    """A box of a tile of type `of`: `op` is the entry of the op that reads or writes it whole, `piece` of that for one page of it."""

    op: int
    piece: int
    of: TileType
    box: forms.Shape
    offsets: Dims


class Windows(Entries):
    """What rules are told of windows, by the number of a window; `broken` are those of which some piece starts where no view can."""

    def __init__(self, out: Encoded, commands: Commands, versions: Versions) -> None:
        super().__init__(out, commands, versions)
        self.broken: set[int] = set()
        #: what was written into the tiles of this name one after another, and how often up to it
        self.states: dict[str, tuple[Overwrites, int]] = {}

    def position(self, shape: forms.Shape, offsets: Dims) -> tuple[object, object]:
        """Row and column of the collapse: [2, 0, 0] over [4, 8, 16] is (16, 0)."""
        return self.place(row_of(offsets, dims(*shape))), self.place(offsets[-1])

    def place(self, e: Expr) -> object:
        """A position: a constant, or what varies of it and a constant."""
        form, c = linear(e), self.commands
        if form.is_constant:
            return c.call("Num", form.constant)
        varies = c.call("Sym", self.tables.positions.number(to_expr(replace(form, constant=0))))
        return c.call("Plus", varies, c.call("Num", form.constant)) if form.constant else varies

    def window(self, w: Window, writes: bool, whole_pages: bool = False) -> int:
        """The number of a window; what rules need of it is stated once. `writes` tells an assemble from a slice, `whole_pages` that it
        may take pages as they are, or replace them."""
        number, c = self.tables.windows.number(w), self.commands
        if not self.once("window", number):
            return number
        c.set("window-op", number, w.op)
        c.set("piece-shape", number, w.box[-2:])
        self.shape(w.box[-2:])
        if forms.pages(w.box) == 1:
            c.fact("one-page", number)
        scattered = not collapse_contiguous(dims(*w.box), w.of.shape)
        c.fact("scattered" if scattered else "band", number)
        if forms.pages(w.box) > 1:
            steps = page_rows(static(w.of), w.box)
            if starts_aligned(w, steps):
                c.set("pieces", number, self.tables.pages.number(steps))
                c.set("piece-op", number, w.piece)
            elif scattered:
                self.broken.add(number)
        covered = pages_of(static(w.of), w.box, w.offsets)
        if covered is not None and w.of.rank > 2:
            if whole_pages and w.box[-2:] == static(w.of)[-2:] and all(const_int(o) == 0 for o in w.offsets[-2:]):
                c.set("page-map", number, self.tables.pages.number(covered))
            if part_aligned(w):
                c.set("part-pages", number, self.tables.pages.number(covered))
                c.set("part-op", number, self.part(w, writes))
        column = column_of(w)
        if column is not None:
            c.set("window-at", number, self.place(column))
        return number

    def written(self, var: Var, call: Call, number: int, w: Window) -> None:
        """Note what an assemble writes into a tile of the same type, and what earlier writes it leaves nothing of."""
        target = call.args[0]
        assert isinstance(target, Var)
        if w.of.effective_view.slayout is not TileLayout.NONE_BOX:
            return
        state, count = self.states.get(target.name, (None, 0))
        if state is None or count < len(state.boxes):
            state, count = Overwrites((forms.lead(static(w.of)), static(w.of)[-1]), [target.name]), 0
        box = box_of(w)
        if collapse_contiguous(dims(*w.box), w.of.shape):
            self.earlier("overwrites", number, target, state.names[state.beside(count, box)])
        state.write(var.name, box)
        self.states[var.name] = (state, count + 1)

    def read(self, call: Call, number: int, w: Window) -> None:
        """Note which of the writes into a tile a window of it sees."""
        source = call.args[0]
        assert isinstance(source, Var)
        if source.name in self.states:
            state, count = self.states[source.name]
            self.earlier("sees", number, source, state.names[state.seen(count, box_of(w))])

    def earlier(self, relation: str, window: int, tile: Var, name: str) -> None:
        """A fact of a window, its tile and an earlier tile."""
        if name != tile.name:
            self.commands.fact(relation, window, self.value(tile.name), self.value(name))

    def region_of_write(self, var: Var, w: Window, source: TileType) -> None:
        """How the flat form of an assemble gets its valid region, where a 2-D assemble does not deduce it from that of its target."""
        t, target, offsets = var.type, w.of, w.offsets
        assert isinstance(t, TileType)
        if forms.whole(target) or not all(map(forms.rows_prefix, (t, target, source))):
            return
        flat = forms.flat_type(target)
        at = MakeTuple((row_of(offsets, target.shape), offsets[-1]))
        write = Call("tile.assemble", (Var("target", flat), Var("source", forms.flat_type(source)), at))
        if not deduces(write, forms.region(t)):
            opened = self.valid_entry(flat.shape)
            value = self.value(var.name)
            self.commands.set("opened", value, opened)
            self.commands.set("closed", value, opened if forms.whole(t) else self.valid_entry(forms.region(t)))

    def region_of_reshape(self, var: Var, source: TileType) -> None:
        """Note that a 2-D reshape of the flat form of what is cut deduces the valid region of the flat form of the result: [1, n] of
        [1, 16] is [n, 1] of [16, 1]."""
        t = var.type
        assert isinstance(t, TileType)
        if source.static_shape is None or forms.whole(source) or not (forms.rows_prefix(source) and forms.rows_prefix(t)):
            return
        shape = MakeTuple(dims(*forms.collapsed(static(t))))
        if deduces(Call("tile.reshape", (Var("source", forms.flat_type(source)), shape)), forms.region(t)):
            self.commands.fact("recut", self.value(var.name))

    def valid_entry(self, valid: Dims) -> int:
        """The entry of the op that gives a 2-D tile a valid region."""
        number = self.tables.ops.number(OpEntry("tile.set_validshape", (Hole(0), *valid)))
        if self.once("op", number):
            self.commands.fact("shape-rule", number, ShapeRule.FIRST.value)
        return number

    def region_of_window(self, t: TileType, source: TileType, offsets: Dims, valid: Dims | None) -> Dims:
        """The valid region that the flat form of a window asks for: none where a 2-D slice deduces that of the N-D one."""
        asked = merged_valid(valid) if valid else ()
        if source.rank <= 2 or not forms.rows_prefix(source) or not forms.rows_prefix(t):
            return asked
        at, shape = MakeTuple((row_of(offsets, source.shape), offsets[-1])), MakeTuple(dims(*forms.collapsed(static(t))))
        cut = Call("tile.slice", (Var("source", forms.flat_type(source)), shape, at, *((MakeTuple(asked),) if asked else ())))
        return asked if deduces(cut, forms.region(t)) else forms.region(t)

    def part(self, w: Window, writes: bool) -> int:
        """The entry of the op that reads or writes the part of a window that lies in one page."""
        entry, at = self.tables.ops[w.piece], MakeTuple(w.offsets[-2:])
        asked = tuple(e for e in entry.template[1:] if not isinstance(e, Hole))
        template = (Hole(0), Hole(1), at) if writes else (Hole(0), MakeTuple(dims(*w.box[-2:])), at, *asked)
        return self.tables.ops.number(OpEntry(entry.op, template, entry.kwargs, entry.attrs))


def deduces(call: Call, valid: Dims) -> bool:
    """True where the type rules give a call's result this valid region."""
    try:
        made = infer_call(call)
    except OpError:
        return False
    return isinstance(made, TileType) and all(same_dim(a, b) or provably_equal(a, b) for a, b in zip(made.valid, valid, strict=True))


def page_rows(of: forms.Shape, box: forms.Shape) -> tuple[int, ...]:
    """How many rows of the collapse the pages of a box are apart from its first: [2, 4, 16] in [4, 8, 16] gives (0, 8)."""
    return tuple(n * of[-2] for n in _batches(of, box))


def box_of(w: Window) -> Box:
    """Rows and columns of the collapse that a window touches; between its pages those that it leaves out are among them."""
    height = page_rows(static(w.of), w.box)[-1] + w.box[-2]
    return Box(span(row_of(w.offsets, w.of.shape), height), span(w.offsets[-1], w.box[-1]))


def _batches(of: forms.Shape, box: forms.Shape) -> list[int]:
    numbers = [0]
    for dim, size in zip(of[:-2], box[:-2], strict=True):
        numbers = [n * dim + i for n in numbers for i in range(size)]
    return numbers


def pages_of(of: forms.Shape, box: forms.Shape, offsets: Dims) -> tuple[int, ...] | None:
    """The pages of a tile that a box at constant batch offsets touches, in the order of its own; None where an offset is not constant or
    out of range. [1, 4, 16] at [2, r, 0] of [4, 8, 16] touches page 2."""
    first = 0
    for dim, size, offset in zip(of[:-2], box[:-2], offsets[:-2], strict=True):
        start = const_int(offset)
        if start is None or start < 0 or start + size > dim:
            return None
        first = first * dim + start
    return tuple(first + n for n in _batches(of, box))


def starts_aligned(w: Window, steps: tuple[int, ...]) -> bool:
    """True where every piece of a window starts at a 32-byte multiple of the flat tile, whatever its offsets are."""
    columns = index(static(w.of)[-1])
    start = add_index(mul_index(row_of(w.offsets, w.of.shape), columns), w.offsets[-1])
    return all(_multiple(add_index(start, index(step * static(w.of)[-1])), w.of.dtype.bytes) for step in steps)


def part_aligned(w: Window) -> bool:
    """True where the part of a window in one page starts at a 32-byte multiple of the page."""
    start = add_index(mul_index(w.offsets[-2], index(static(w.of)[-1])), w.offsets[-1])
    return _multiple(start, w.of.dtype.bytes)


def _multiple(e: Expr, width: int) -> bool:
    form = linear(e)
    return all(n * width % forms.VIEW_BYTES == 0 for n in (form.constant, *(n for _, n in form.terms)))


def column_of(w: Window) -> Expr | None:
    """Where a window of an accumulator stands when all pages stand side by side, if it lies in one page at its full height."""
    if not forms.packs_columns(w.of):
        return None
    shape = static(w.of)
    if forms.pages(w.box) > 1 or w.box[-2] != shape[-2] or const_int(w.offsets[-2]) != 0:
        return None
    number = row_of((*w.offsets[:-2], index(0)), (*w.of.shape[:-2], index(1)))
    return Binary("add", Binary("mul", number, index(shape[-1])), w.offsets[-1])
