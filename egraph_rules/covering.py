"""Writes that cover a tile: what was in it before is not seen in the last of them.

y1 = assemble(t, a, [0, 0])      rows 0 to 7 of [16, 64]
y2 = assemble(y1, b, [8, 0])     rows 8 to 15: nothing of t is left, y2 is made of a new tile as well
with a and b the same rows of one x, y2 is x
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from egraph_rules import forms
from egraph_rules.operands import static, tile_of
from egraph_rules.windows import Window, box_of
from pypto_ir.expr import Var
from pypto_ir.regions import collapse_contiguous
from pypto_ir.stmt import Call
from pypto_ir.types import Dims, Memory, TileType, dims

if TYPE_CHECKING:
    from egraph_rules.values import Values

#: most writes that are followed back: each is told again
MOST = 32


@dataclass(frozen=True, slots=True)
class Write:
    """An assemble: its window by number, what is written, row and column; the rectangle of the collapse that it fills."""

    target: str
    window: int
    source: Var
    at: tuple[object, object]
    rectangle: tuple[int, int, int, int]


class Covering:
    """The writes of a function at constant places, by the name of what each makes; `cut` are the windows of tiles, by name."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.writes: dict[str, Write] = {}
        self.area: dict[str, int] = {}
        self.cut: dict[str, tuple[Var, forms.Shape, Dims]] = {}
        self.places: dict[str, tuple[forms.Shape, Dims]] = {}
        self.created: set[str] = set()
        self.count = 0

    def window(self, var: Var, call: Call, w: Window) -> None:
        """Note a window that keeps all axes of a tile."""
        source = call.args[0]
        if isinstance(source, Var) and isinstance(var.type, TileType) and var.type.static_shape == w.box:
            self.cut[var.name] = (source, w.box, w.offsets)

    def written(self, var: Var, call: Call, number: int, w: Window, at: tuple[object, object]) -> None:
        """Note a write, and state what it is equal to where nothing of the tile before is left."""
        target, source = call.args[0], call.args[1]
        assert isinstance(target, Var) and isinstance(source, Var)
        shape, rectangle = static(w.of), _rectangle(w)
        if rectangle is None or var.type != w.of or not _plain(w.of, tile_of(call, 1)):
            return
        self.writes[var.name] = Write(target.name, number, source, at, rectangle)
        self.places[var.name] = (w.box, w.offsets)
        area = self.area[var.name] = self.area.get(target.name, 0) + forms.lead(w.box) * w.box[-1]
        if area < forms.lead(shape) * shape[-1]:
            return
        chain = self.chain(var.name)
        if chain and covers([self.writes[name].rectangle for name in chain], forms.lead(shape), shape[-1]):
            self.state(var, chain, w.of)
            del self.writes[var.name], self.area[var.name]

    def chain(self, name: str) -> list[str]:
        """The writes that made a tile, first to last; none where they are too many."""
        found: list[str] = []
        while name in self.writes and len(found) <= MOST:
            found.append(name)
            name = self.writes[name].target
        return found[::-1] if len(found) <= MOST else []

    def state(self, var: Var, chain: list[str], t: TileType) -> None:
        """State what the last of the writes of a chain is equal to: what they are windows of, or the same writes into a new tile."""
        values, c = self.values, self.values.commands
        first = self.cut.get(self.writes[chain[0]].source.name)
        windows = [(self.cut.get(self.writes[name].source.name), self.places[name]) for name in chain]
        if first and first[0].type == t and all(cut == (first[0], *place) for cut, place in windows):
            c.fact("covered", values.value(var.name), values.value(first[0].name))
            return
        root = self.writes[chain[0]].target
        if root in self.created or any(leaf.name == root for leaf in values.tables.leaves.items):
            return
        made = self.made(c.call("Create", values.buffer(t, f"{var.name}_new"), static(t)), t)
        for name in chain:
            w = self.writes[name]
            made = self.made(c.call("Assemble", w.window, made, values.value(w.source.name), *w.at), t)
        c.fact("covered", values.value(var.name), made)

    def made(self, term: object, t: TileType) -> object:
        """A value that no statement of the program names, of type `t`."""
        c, self.count = self.values.commands, self.count + 1
        value = c.let(f"renewed{self.count}", term)
        c.set("kind", value, self.values.kind(t))
        c.fact("Flat", value)
        if t.rank > 2 and forms.pages(static(t)) > 1:
            c.fact("Pages", value)
        return value


def _plain(target: TileType, source: TileType) -> bool:
    """True where a write leaves nothing of the cells that it covers, and a new tile may take their place."""
    vec = target.memory is Memory.VEC and target.memref is None
    return vec and forms.whole(target) and forms.whole(source) and target.dtype is source.dtype


def _rectangle(w: Window) -> tuple[int, int, int, int] | None:
    """Rows and columns of the collapse that a run of rows at constant offsets fills, each from and to."""
    if not collapse_contiguous(dims(*w.box), w.of.shape):
        return None
    box = box_of(w)
    if box.rows.origin.terms or box.columns.origin.terms:
        return None
    return (box.rows.start, box.rows.start + box.rows.size, box.columns.start, box.columns.start + box.columns.size)


def covers(rectangles: list[tuple[int, int, int, int]], rows: int, columns: int) -> bool:
    """True where rectangles cover so many rows and columns: between two neighbouring edges each row looks like the first of them."""
    edges = sorted({0, *(edge for r in rectangles for edge in r[:2] if 0 < edge < rows)})
    for row in edges:
        reached = 0
        for start, end in sorted((r[2], r[3]) for r in rectangles if r[0] <= row < r[1]):
            reached = max(reached, end) if start <= reached else reached
        if reached < columns:
            return False
    return True
