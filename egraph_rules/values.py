"""Tile values as e-nodes, and the facts of their types.

    x = tile.load(..) [2, 3, 4]     value 0: (Load 0), of type 0
    y = tile.add(x, x)              value 1: (Op 0 (Data v0 (Data v0 (Nil)))), of type 0
    type 0                          shape [2, 3, 4], 4 bytes wide, fully valid; its flat form is type 1, [6, 4]

What a type says is stated once, however many values have it. Operands that rules do not look at stay in the tables.
"""

from __future__ import annotations

from dataclasses import replace

from egraph_rules import forms
from egraph_rules.buffers import Versions
from egraph_rules.cells import flat_write, state_write
from egraph_rules.covering import Covering
from egraph_rules.engine import Commands
from egraph_rules.entries import Encoded
from egraph_rules.expanding import state_expand
from egraph_rules.loads import boxed, column_view, flat_view, load_of_columns, load_of_window, natural
from egraph_rules.narrowed import partly_written
from egraph_rules.opened import state_first_cut, state_opened_op, state_write_into_gaps
from egraph_rules.operands import (
    declared,
    is_tuple,
    narrows,
    one_argument_view,
    one_column,
    static,
    static_type,
    tile_of,
    without_shape,
)
from egraph_rules.tables import FillEntry, LeafEntry, LoadEntry
from egraph_rules.transposes import Transposes
from egraph_rules.windows import Window, Windows
from pypto_ir.expr import MakeTuple, Var, const_int
from pypto_ir.ops.registry import OpDef, OpError, Role, ShapeRule, Trait, find_op
from pypto_ir.ops.rules import infer_call
from pypto_ir.regions import collapse_contiguous
from pypto_ir.stmt import Call, tuple_items
from pypto_ir.types import Compact, Layout, Memory, TensorType, TileType, same_dims

#: rank-preserving ops that work on the collapse although they are declared as structure: each row keeps its own valid columns
_ROW_LOCAL = frozenset({"tile.fillpad", "tile.fillpad_inplace"})


class Values(Windows):
    """Numbers the tile values of a function and states what the e-graph is told of each: a term, and facts."""

    def __init__(self, out: Encoded, commands: Commands, versions: Versions) -> None:
        super().__init__(out, commands, versions)
        #: values that come from ops on pages, which may have no flat form but one that is put together
        self.by_pages: set[str] = set()
        #: the entries of loads, by the names of what they load
        self.loaded: dict[str, int] = {}
        #: transposed views of loads, by name: the entry of the view, and of the load
        self.turned: dict[str, tuple[int, int]] = {}
        #: those of loads that may have their pages side by side
        self.by_columns: set[int] = set()
        self.transposes = Transposes(self)
        self.covering = Covering(self)
        #: accumulators whose rows lie as some product of fewer rows leaves them
        self.partly = partly_written(out.function)

    def define(self, var: Var, term: object) -> None:
        """Give a value its number, its term, and the facts of its type."""
        t = var.type
        assert isinstance(t, TileType)
        number = self.out.numbers[var.name] = len(self.out.types)
        self.out.types.append(t)
        c = self.commands
        value = c.define(number, term)
        if t.static_shape is None:
            return
        if var.name in self.partly:
            t = replace(t, view=replace(t.effective_view, compact=Compact.NORMAL))
        c.set("kind", value, self.kind(t))
        # carriers are asked for at once: a demand that travels from the stores upwards would take a round for every op on its way
        c.fact("Flat", value)
        if not forms.rows_prefix(t):
            c.fact("Packed", value)
        if t.rank > 2 and forms.pages(static(t)) > 1 and forms.even_pages(t):
            c.fact("Pages", value)
        if forms.packs_columns(t):
            c.fact("Cols", value)

    def kind(self, t: TileType) -> int:
        """The number of a type; what it says of its values is stated once."""
        number = self.tables.kinds.number(t)
        if not self.once("kind", number):
            return number
        shape, c = static(t), self.commands
        self.shape(shape)
        c.set("kind-shape", number, shape)
        c.set("kind-width", number, t.dtype.bytes)
        if forms.rows_prefix(t):
            c.fact("kind-rows-prefix", number)
            c.set("kind-region", number, self.tables.regions.number(forms.region(t)))
            state_first_cut(self, number, t)
        else:
            c.fact("kind-gaps", number)
            c.set("kind-packing", number, self.tables.regions.number(forms.packing(t)))
        for fact, holds in forms.FACTS.items():
            if holds(t):
                c.fact(fact, number)
        if forms.even_pages(t) and t.rank >= 2:
            c.set("page-kind", number, self.kind(forms.page_type(t)))
        c.set("flat-kind", number, number if t.rank <= 2 else self.kind(forms.flat_type(t)))
        return number

    def leaf(self, var: Var, handover: int | None = None) -> None:
        t = var.type
        assert isinstance(t, TileType)
        number = self.tables.leaves.number(LeafEntry(var.name, t, handover))
        self.define(var, self.commands.call("Leaf", number))
        if handover is not None and not self.by_pages.isdisjoint(self.out.handovers[handover].sources):
            self.note_pages(var)
        if t.rank <= 2 or handover is not None:
            self.commands.fact("handed-on", number)
            if handover is not None and self.out.handovers[handover].alike:
                self.commands.fact("handed-alike", number)
        else:
            self.commands.fact("obstacle", self.value(var.name), "given")

    # the statement of a value

    def note_pages(self, var: Var) -> None:
        self.by_pages.add(var.name)
        self.commands.fact("by-pages", self.value(var.name))

    def assign(self, var: Var, value: Var | Call) -> None:
        """A statement that gives a tile: the term of its value, and its facts."""
        self.term(var, value)
        names = {value.name} if isinstance(value, Var) else {e.name for e in value.args if isinstance(e, Var)}
        paged = isinstance(value, Call) and value.op in ("tile.transpose", "tile.fillpad_expand")
        if paged or not self.by_pages.isdisjoint(names) or (isinstance(value, Call) and declared(value.op).page_op is not None):
            self.note_pages(var)

    def term(self, var: Var, value: Var | Call) -> None:
        if isinstance(value, Var):
            self.define(var, self.value(value.name))
            if value.name in self.loaded:
                self.loaded[var.name] = self.loaded[value.name]
            if value.name in self.states:
                self.states[var.name] = self.states[value.name]
            return
        op = find_op(value.op)
        assert op is not None and isinstance(var.type, TileType)
        match value.op:
            case "tile.load":
                self.load(var, value)
            case "tile.create":
                self.fill(var, value, "Create", var.name)
            case "tile.full":
                self.fill(var, value, "Full", self.identity(var))
            case "tile.reshape" if self.plain(var, value):
                self.define(var, self.commands.call("Reshape", self.arg(value, 0), static(var.type)))
                self.region_of_reshape(var, tile_of(value, 0))
            case "tile.reinterpret_view" if (len(value.args) == 2 or one_column(tile_of(value, 0))) and var.type.memref is None:
                entry = self.op_entry(value, var.type, keep=1)
                self.define(var, self.commands.call("Reinterpret", entry, self.arg(value, 0), static(var.type)))
            case "tile.assemble" if self.positioned(value):
                self.assemble(var, value)
            case "tile.slice" if self.positioned(value):
                self.slice(var, value)
            case "tile.write":
                state_write(self, value, self.op(var, flat_write(value), op))
            case _:
                self.op(var, value, op)

    def plain(self, var: Var, call: Call) -> bool:
        return not call.attrs and isinstance(var.type, TileType) and var.type.memref is None

    def arg(self, call: Call, i: int) -> object:
        e = call.args[i]
        assert isinstance(e, Var)
        return self.value(e.name)

    def load(self, var: Var, call: Call) -> None:
        assert isinstance(var.type, TileType)
        number = self.loaded[var.name] = self.load_entry(LoadEntry(call, var.type, self.versions.of(call.args[0])))
        self.define(var, self.commands.call("Load", number))
        if number in self.by_columns:
            self.commands.fact("Cols", self.value(var.name))

    def load_entry(self, entry: LoadEntry) -> int:
        """The table number of a load; what rules are told of it is stated once."""
        number = self.tables.loads.number(entry)
        if self.once("load", number):
            self.commands.set("load-shape", number, forms.collapsed(static(entry.type)))
            self.source(number, entry.call, entry.type)
            self.columns(number, entry)
        return number

    def columns(self, number: int, entry: LoadEntry) -> None:
        """What loads all pages of a DN load side by side, where something does."""
        view = column_view(entry.call.args[0]) if boxed(entry.type) and forms.pages(static(entry.type)) > 1 else None
        found = load_of_columns(entry.call, entry.type, view) if view is not None else None
        if view is not None and found is not None:
            beside = self.load_entry(LoadEntry(*found, entry.reads))
            self.commands.set("columns-load", number, beside)
            self.commands.set("in-view", beside, self.tables.views.number(view))
            self.by_columns.add(number)

    def source(self, number: int, call: Call, t: TileType) -> None:
        """How a load reads its tensor: as it stands, in a 2-D view, or page by page only."""
        c, shape = self.commands, static(t)
        if not boxed(t) or t.rank <= 2 or (isinstance(call.args[0].type, TensorType) and call.args[0].type.layout is Layout.NZ):  # type: ignore[union-attr]
            c.fact("direct", number)
            return
        view = flat_view(call.args[0]) if natural(t) else None
        if view is None:
            # outer extents of 1 are all that the engine takes
            c.fact("direct" if forms.pages(shape) == 1 else "by-page", number)
            return
        c.set("in-view", number, self.tables.views.number(view))
        if collapse_contiguous(t.valid, call.args[0].type.shape):  # type: ignore[union-attr]
            c.fact("one-window", number)

    def identity(self, var: Var) -> str | None:
        """The name of a fill that a loop carries: the carry takes its buffer, so that an equal fill must not share it."""
        return var.name if var.name in self.out.carried else None

    def fill(self, var: Var, call: Call, constructor: str, identity: str | None) -> None:
        assert isinstance(var.type, TileType)
        if constructor == "Create":
            self.covering.created.add(var.name)
        number = self.tables.fills.number(FillEntry(without_shape(call), var.type, identity))
        self.define(var, self.commands.call(constructor, number, static(var.type)))

    def op(self, var: Var, call: Call, op: OpDef) -> int:
        """State an op of the program; gives its entry."""
        assert isinstance(var.type, TileType)
        number, c = self.op_entry(call, var.type), self.commands
        tiles = {i: self.value(e.name) for i, e in enumerate(call.args) if isinstance(e, Var) and e.name in self.out.numbers}
        self.define(var, c.call("Op", number, self.operands(call, op, tiles)))
        if op.name == "tile.transpose":
            self.scratch(number, self.kind(tile_of(call, 0)), call, var)
            if self.plain(var, call):
                self.transposes.transpose(number, var, call)
        if op.name == "tile.transpose_view" and self.plain(var, call) and (loaded := getattr(call.args[0], "name", "")) in self.loaded:
            self.turned[var.name] = (number, self.loaded[loaded])
        if self.low_rank(var, call) or (op.trait is Trait.WHOLE and self.all_valid(var, call)):
            c.fact("plain", self.value(var.name))
        self.folded(number, call)
        if op.name == "tile.fillpad_expand" and var.type.rank > 2:
            state_expand(self, number, call, static(var.type))
        state_opened_op(self, var, call, op, number)
        if not self.once("op", number):
            return number
        local = op.trait in (Trait.POINTWISE, Trait.ROW_WISE) or op.name in _ROW_LOCAL
        if local or one_argument_view(call) or op.name == "tile.write":
            c.fact("commutes-flat", number)
        if local or one_argument_view(call):
            c.fact("commutes-packed", number)
        if local:
            c.fact("commutes-pages", number)
        if op.shape is not ShapeRule.OTHER:
            c.fact("shape-rule", number, op.shape.value)
        if op.shape is ShapeRule.COL_REDUCE:
            c.fact("reduces-first", number)
        if op.name == "tile.move":
            c.fact("copies", number)
        if op.name == "tile.cast" and narrows(var, call):
            c.fact("narrows", number)
        if op.page_op is not None:
            self.paged(number, op.page_op, var)
        return number

    def operands(self, call: Call, op: OpDef, values: dict[int, object]) -> object:
        """The list of the tiles that an op takes, by what it does with each."""
        term = self.commands.call("Nil")
        for i in reversed(range(len(call.args))):
            if i in values:
                role = op.operands[min(i, len(op.operands) - 1)].role
                term = self.commands.call(_ROLE_NODES.get(role, "Data"), values[i], term)
        return term

    def low_rank(self, var: Var, call: Call) -> bool:
        """A 2-D op of 2-D tiles is its own machine form, whatever it does; a transpose is one only with its scratch tile."""
        if call.op == "tile.transpose" and len(call.args) == 3:
            return False
        op = declared(call.op)
        return op.page_op in (None, op.name) and all(t.rank <= 2 for t in self.tiles(var, call))

    def all_valid(self, var: Var, call: Call) -> bool:
        """True where no tile of an op is cut: what works on flat order then works on the flat forms."""
        return all(same_dims(t.valid, t.shape) for t in self.tiles(var, call))

    def tiles(self, var: Var, call: Call) -> list[TileType]:
        """The types of the tiles that a call reads, and of its result."""
        assert isinstance(var.type, TileType)
        names = [e.name for e in call.args if isinstance(e, Var) and e.name in self.out.numbers]
        return [*(self.out.types[self.out.numbers[name]] for name in names), var.type]

    def positioned(self, call: Call) -> bool:
        """A slice or assemble whose offset is a literal tuple with one entry for each dim, so that it has a place in the collapse."""
        first = call.args[0].type if isinstance(call.args[0], Var) else None
        offsets = tuple_items(call.args[2]) if len(call.args) > 2 else None
        return (
            isinstance(first, TileType)
            and first.static_shape is not None
            and offsets is not None
            and len(offsets) == first.rank
            and first.rank >= 2
            and (len(call.args) == 3 or (call.op == "tile.slice" and first.rank > 2 and all(map(is_tuple, call.args[3:]))))
        )

    def assemble(self, var: Var, call: Call) -> None:
        target, source = tile_of(call, 0), tile_of(call, 1)
        offsets = tuple_items(call.args[2])
        assert offsets is not None
        if not 2 <= source.rank <= target.rank or source.static_shape is None:
            self.op(var, call, declared(call.op))
            return
        # a source of fewer axes is one with unit axes before them
        box = (*(1 for _ in range(target.rank - source.rank)), *static(source))
        entry, c = self.op_entry(call, static_type(var), keep=2), self.commands
        w = Window(entry, entry, target, box, offsets)
        number = self.window(w, True, target.dtype is source.dtype)
        at = self.position(static(target), offsets)
        self.define(var, c.call("Assemble", number, self.arg(call, 0), self.arg(call, 1), *at))
        self.unaligned(var, number)
        if forms.rows_prefix(target):
            self.region_of_write(var, w, source)
        else:
            state_write_into_gaps(self, self.value(var.name), static_type(var), target)
        if var.type == target:
            self.written(var, call, number, w)
            self.covering.written(var, call, number, w, at)

    def unaligned(self, var: Var, window: int) -> None:
        """Note why a window in pieces may have no form."""
        if window in self.broken:
            self.commands.fact("obstacle", self.value(var.name), "unaligned")

    def slice(self, var: Var, call: Call) -> None:
        source, offsets = tile_of(call, 0), tuple_items(call.args[2])
        assert offsets is not None and isinstance(var.type, TileType)
        shape, extents = static(source), tuple_items(call.args[1])
        box = tuple(const_int(e) or 0 for e in extents or ())
        if len(box) != len(shape) or 0 in box:
            self.op(var, call, declared(call.op))
            return
        # of a requested valid region only its rows and columns count; axes that are dropped are gone in 2-D anyway
        valid = tuple_items(call.args[3]) if len(call.args) > 3 else None
        entry, piece = (
            self.op_entry(replace(call, args=(call.args[0], *((MakeTuple(part),) if part else ()))), var.type)
            for part in (self.region_of_window(static_type(var), source, offsets, valid), valid[-2:] if valid else ())
        )
        w = Window(entry, piece, source, box, offsets)
        # a window of an accumulator is written where it lies, or is a tile of its own
        own = source.memref is None and var.type.memref is None and source.memory is not Memory.ACC
        number, c = self.window(w, False, own), self.commands
        self.define(var, c.call("Slice", number, self.arg(call, 0), static(var.type), *self.position(shape, offsets)))
        self.unaligned(var, number)
        self.read(call, number, w)
        plain = not call.kwargs and not call.attrs and not valid and var.type.memref is None
        if plain and self.once("plain-window", entry):
            c.fact("plain-window", entry)
        if plain and len(call.args) == 3 and source.memref is None:
            self.loaded_window(var, call)
            self.turned_window(var, call)
            self.covering.window(var, call, w)

    def loaded_window(self, var: Var, call: Call) -> None:
        """The load of what a window of a load holds, where there is one."""
        number = self.loaded.get(getattr(call.args[0], "name", ""))
        whole = None if number is None else self.tables.loads[number]
        part = None if whole is None else load_of_window(whole.call, call, static_type(var))
        if whole is not None and part is not None:
            entry = self.load_entry(LoadEntry(part, static_type(var), whole.reads))
            self.loaded[var.name] = entry
            self.commands.fact("loaded-window", self.value(var.name), entry)

    def turned_window(self, var: Var, call: Call) -> None:
        """The load of what a window of the transposed view of a load turns, where there is one."""
        view, number = self.turned.get(getattr(call.args[0], "name", ""), (None, None))
        if view is None or number is None:
            return
        whole = self.tables.loads[number]
        turned = [MakeTuple((*items[:-2], items[-1], items[-2])) for i in (1, 2) if (items := tuple_items(call.args[i])) is not None]
        cut = replace(call, args=(Var("load", whole.type), *turned))
        try:
            t = infer_call(cut)
            seen = infer_call(Call("tile.transpose_view", (Var("cut", t),)))
        except OpError:
            return
        part = load_of_window(whole.call, cut, t) if isinstance(t, TileType) and seen == var.type else None
        if part is not None and isinstance(t, TileType):
            entry = self.load_entry(LoadEntry(part, t, whole.reads))
            self.commands.fact("turned-window", self.value(var.name), view, entry, self.kind(t))


_ROLE_NODES = {Role.ROW_SCALAR: "RowScalar", Role.COL_VECTOR: "ColVector", Role.SCRATCH: "Scratch"}
