"""Tiles and pages at a point of emission: what is visible, and how what is not visible yet is written there.

`Elaborator.tile(i)` gives the variable that holds instance i, and writes the chosen node, with what it reads, where it was not written
yet. `page(i, b)` does so for page b of a family. What turns out to read something that this point does not see is taken
back, and the next option of the class is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, TypeVar

from egraph_rules import forms
from egraph_rules.buffers import Versions
from egraph_rules.graph import ENode, Graph
from extract.choice import Choice, Option, pack_entry
from extract.machine import (
    LEAVES,
    LOADS,
    OF_WHOLE,
    columns_of_page,
    fill_call,
    op_call,
    page_call,
    piece_writes,
    separate_pages,
    tile_call,
    tuple_of,
    typed,
    written_operands,
)
from extract.plan import Plan
from pypto_ir.expr import Expr, Var, variables
from pypto_ir.names import names_of
from pypto_ir.ops.registry import OpError
from pypto_ir.stmt import Assign, Call, Eval, Return, Stmt, Yield, value_exprs, walk
from pypto_ir.types import TileType, Type, type_exprs

#: a class and the region that materialises it
Instance: TypeAlias = tuple[int, int]

K = TypeVar("K")
T = TypeVar("T")


class NotAvailable(Exception):
    """A chosen node reads something that the point of emission does not see."""


@dataclass(slots=True)
class Frame:
    """What one region sees beside its surroundings."""

    region: int = 0
    tiles: dict[int, Var] = field(default_factory=dict)
    pages: dict[tuple[Instance, int], Var] = field(default_factory=dict)
    equal: dict[tuple[int, tuple[str, ...]], Var] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


class Elaborator:
    """Writes chosen nodes into `out`, the statements of the innermost region; `here` is the author's statement at hand."""

    def __init__(self, graph: Graph, choice: Choice, plan: Plan) -> None:
        self.graph, self.choice, self.plan, self.encoded = graph, choice, plan, graph.encoded
        self.region, self.position = 0, -1
        function = self.encoded.function
        self.names = names_of(function)
        self.versions = Versions(self.encoded.buffers)
        self.frames = [Frame()]
        self.out: list[Stmt] = []
        self.here: Stmt | None = None
        self.comment: list[str] = []
        self.made: list[Callable[[], None]] = []
        #: the class that every name was written for
        self.origins: dict[str, int] = {}
        self.authors: dict[int, list[str]] = {}
        leaves = {leaf.name for leaf in graph.tables.leaves.items}
        for name, number in self.encoded.numbers.items():
            for c in (graph.flat.get(number), graph.columns.get(number), graph.families.get(number)):
                if c is not None and name not in leaves:
                    self.authors.setdefault(c, []).append(name)
        self.statements = {s.target.name: s for s in walk(function.body) if isinstance(s, Assign)}
        #: dynamic dims of the signature, visible everywhere
        dims = [e for p in function.params for e in type_exprs(p.var.type)]
        self.free = {v.name for e in dims for v in variables(e)}

    def bind(self, var: Var) -> None:
        """Make a defined name visible in the innermost region; a tile also as the flat form of its value."""
        frame = self.frames[-1]
        frame.names.add(var.name)
        self.names.own(var.name)
        number = self.encoded.numbers.get(var.name)
        if number is not None and number in self.graph.flat:
            frame.tiles[self.graph.flat[number]] = var

    def hold(self, var: Var, c: int) -> None:
        """Make a name visible in the innermost region as the tile of a class."""
        self.frames[-1].names.add(var.name)
        self.names.own(var.name)
        self.frames[-1].tiles[c] = var

    def sees(self, e: Expr) -> bool:
        return all(any(v.name in f.names for f in self.frames) or v.name in self.free for v in variables(e))

    def put(self, s: Stmt) -> None:
        """Append a statement; comments of statements that vanished go to the next one."""
        if self.comment and not isinstance(s, Yield | Return):
            own = [s.comment] if s.comment else []
            s, self.comment = replace(s, comment="\n".join([*self.comment, *own])), []
        self.out.append(s)

    def attempt(self, emission: Callable[[], T]) -> T | None:
        """What `emission` gives, or None and nothing emitted where it reads what this point does not see."""
        length, undo = len(self.out), len(self.made)
        try:
            return emission()
        except (NotAvailable, OpError):
            del self.out[length:]
            while len(self.made) > undo:
                self.made.pop()()
            return None

    def current(self, reads: tuple[tuple[str, int], ...], tensor: Expr) -> bool:
        return self.versions.of(tensor) == reads

    # instances: a class as one region materialises it

    def serving(self, c: int) -> Instance:
        """The instance that the plan gives the statement at hand."""
        return c, self.plan.serving(c, self.region, self.position)

    def operand(self, user: Instance, child: int) -> Instance:
        """The instance that an instance reads."""
        found = self.plan.reads.get((user, child))
        return child, self.plan.serving(child, user[1], self.position) if found is None else found

    def node(self, instance: Instance) -> ENode:
        """The node that an instance is made by."""
        return (self.plan.options.get(instance) or self.choice.best(instance[0])).node

    def visible(self, instance: Instance) -> Var | None:
        """The tile of an instance, where it was emitted; that of another region around where the plan says nothing."""
        c, region = instance
        found = next((f.tiles[c] for f in reversed(self.frames) if f.region == region and c in f.tiles), None)
        if found is None and instance not in self.plan.options:
            found = next((f.tiles[c] for f in reversed(self.frames) if c in f.tiles), None)
        return found

    def tile(self, instance: Instance) -> Var:
        return self.visible(instance) or self.produce(instance)

    def produce(self, instance: Instance) -> Var:
        """Emit a class: the planned option, else the first that this point can emit."""
        c, _ = instance
        planned = self.plan.options.get(instance)
        for option in [*([planned] if planned else []), *self.choice.options[c]]:
            var = self.attempt(partial(self.make, instance, option))
            if var is not None:
                self.remember(self.frames[-1].tiles, c, var)
                return var
        raise NotAvailable(f"no form of {self.hint(c)} can be emitted here")

    def remember(self, table: dict[K, Var], key: K, var: Var) -> None:
        table[key] = var
        self.made.append(lambda: table.__delitem__(key))

    def make(self, instance: Instance, option: Option) -> Var:
        node, c = option.node, instance[0]
        self.check(node)
        if node.name == "PackRows":
            return self.pack(instance, node)
        if node.name == "AccCols":
            return self.accumulate(instance, node)
        if node.name == "AssembleEach":
            return self.pieces(instance, node)
        if node.name == "PageOf":
            return self.page(self.operand(instance, node.children[0]), 0)
        operands = tuple(self.tile(self.operand(instance, child)) for child in node.children)
        call, made = tile_call(self.graph, node, operands)
        tensor = self.graph.tables.views[node.data[0]].tensor.name if node.name == "View2" else None
        return self.assign(self.names.derived(tensor, "2d") if tensor else self.name(c), call, made, c)

    def check(self, node: ENode) -> None:
        """Raise `NotAvailable` for a leaf that this point does not see, and for a load from a buffer that was written since."""
        if node.name in LEAVES:
            raise NotAvailable(self.graph.tables.leaves[node.data[0]].name)
        if node.name in LOADS:
            entry = self.graph.tables.loads[node.data[0]]
            if not self.current(entry.reads, entry.call.args[0]):
                raise NotAvailable("the buffer was written since")

    def pack(self, instance: Instance, node: ENode) -> Var:
        c, shape = instance[0], node.data[0]
        family = self.operand(instance, node.children[0])
        first = self.page(family, 0)
        assert isinstance(first.type, TileType) and first.type.static_shape is not None
        rows = first.type.static_shape[0]
        count = shape[0] // rows
        call, made = fill_call(pack_entry(first.type), shape)
        packed = self.assign(self.names.derived(self.hint(c), "pages"), call, made, c)
        for page in range(count):
            source = self.page(family, page)
            call, made = typed(Call("tile.assemble", (packed, source, tuple_of(page * rows, 0))))
            name = self.name(c) if page == count - 1 else self.names.derived(self.hint(c), f"pages{page}")
            packed = self.assign(name, call, made, c)
        return packed

    def pieces(self, instance: Instance, node: ENode) -> Var:
        """Write page b of a family at its own rows of a tile, for every b."""
        c, (entry, places) = instance[0], piece_writes(self.graph, node)
        target, family = (self.operand(instance, child) for child in node.children)
        written = self.tile(target)
        for number, at in enumerate(places):
            source = self.page(family, number)
            call, made = typed(Call(entry.op, (written, source, at), entry.kwargs, entry.attrs))
            name = self.name(c) if number == len(places) - 1 else self.names.derived(self.hint(c), f"piece{number}")
            written = self.assign(name, call, made, c)
        return written

    def accumulate(self, instance: Instance, node: ENode) -> Var:
        """Add a product to every page of an accumulator: slice its columns, accumulate into them, write them back where they are."""
        c, entry = instance[0], self.graph.tables.ops[node.data[0]]
        packed = self.tile(self.operand(instance, node.children[0]))
        families = [self.operand(instance, child) for child in node.children[1:]]
        count = self.graph.page_counts[node.children[1]]
        for number in range(count):
            operands = tuple(self.page(family, number) for family in families)
            assert isinstance(packed.type, TileType)
            shape, at = columns_of_page(packed.type, count, number)
            call, made = typed(Call("tile.slice", (packed, tuple_of(*shape), at)))
            window = self.assign(self.names.derived(self.hint(c), f"window{number}"), call, made, c)
            call, made = op_call(entry, (window, *operands))
            page = self.assign(self.names.derived(self.hint(c), f"page{number}"), call, made, c)
            call, made = typed(Call("tile.assemble", (packed, page, at)))
            name = self.name(c) if number == count - 1 else self.names.derived(self.hint(c), f"after{number}")
            packed = self.assign(name, call, made, c)
        return packed

    def page(self, instance: Instance, number: int) -> Var:
        """Page `number` of a family, emitted with what it reads where nobody emitted it yet."""
        wanted = self.source(instance, number)
        stack = [wanted]
        while stack:
            top, at = stack[-1]
            if self.seen_page(stack[-1]) is not None:
                stack.pop()
                continue
            node = self.node(top)
            if node.name in OF_WHOLE:
                operands: tuple[Expr, ...] = (self.tile(self.operand(top, node.children[0])),)
            else:
                reads = [self.source(self.operand(top, child), at) for child in node.children]
                waiting = [r for r in reads if self.seen_page(r) is None]
                if waiting:
                    stack.extend(reversed(waiting))
                    continue
                operands = tuple(self.seen_page(r) for r in reads)  # type: ignore[misc]
            made = self.make_page(top[0], at, node, operands)
            self.remember(self.frames[-1].pages, stack[-1], made)
        found = self.seen_page(wanted)
        assert found is not None
        return found

    def seen_page(self, key: tuple[Instance, int]) -> Var | None:
        return next((f.pages[key] for f in reversed(self.frames) if key in f.pages), None)

    def source(self, instance: Instance, number: int) -> tuple[Instance, int]:
        """The family and page that a page of a family is, through spreads and writes of whole pages."""
        while True:
            node = self.node(instance)
            match node.name:
                case "Spread":
                    number = forms.spread_index(number, *node.data)
                    instance = self.operand(instance, node.children[0])
                case "Pick":
                    number = self.graph.tables.pages[node.data[0]][number]
                    instance = self.operand(instance, node.children[0])
                case "WithPages":
                    placed = self.graph.tables.pages[node.data[0]]
                    inside = number in placed
                    number = placed.index(number) if inside else number
                    instance = self.operand(instance, node.children[1 if inside else 0])
                case "FullEach" if not separate_pages(self.graph, node):
                    return instance, 0
                case _:
                    return instance, number

    def make_page(self, c: int, number: int, node: ENode, operands: tuple[Expr, ...]) -> Var:
        if node.name == "One":
            assert isinstance(operands[0], Var)
            return operands[0]
        self.check(node)
        shared = (c, tuple(o.name for o in operands if isinstance(o, Var)))
        if node.name == "OpEach" and not written_operands(self.graph, node):
            # pages of equal operands are one tile
            for frame in reversed(self.frames):
                if shared in frame.equal:
                    return frame.equal[shared]
        call, made = page_call(self.graph, node, number, operands)
        # a page cut from a whole tile belongs to its reader, any other page to the value that it is a part of
        cut = node.name in ("RowsOf", "ColsOf")
        var = self.assign(self.names.derived(self.hint(c), str(number)), call, made, None if cut else c)
        self.origins[var.name] = c
        self.remember(self.frames[-1].equal, shared, var)
        return var

    def assign(self, name: str, call: Call, made: Type, c: int | None) -> Var:
        for e in (*value_exprs(call), *type_exprs(made)):
            if not self.sees(e):
                self.names.release(name)
                raise NotAvailable(f"{name} reads what is not visible here")
        source = self.origin(c)
        own = source if isinstance(source, Assign | Eval) else None
        if own is not None and isinstance(own.value, Call):
            attrs = own.value.attrs if not call.attrs and call.op == own.value.op else call.attrs
            call = replace(call, loc=own.value.loc, attrs=attrs)
        var = Var(name, made)
        here = self.here
        named = isinstance(here, Assign) and here.target.name == name
        self.put(Assign((var,), call, source.loc if source else None, here.comment if named and here else None))
        if c is not None:
            self.origins[name] = c
        frame = self.frames[-1]
        frame.names.add(name)

        def forget() -> None:
            frame.names.discard(name)
            self.names.release(name)

        self.made.append(forget)
        return var

    def origin(self, c: int | None) -> Stmt | None:
        """The statement whose position an emitted one takes: the author's for the class, else the statement at hand."""
        authors = self.authors.get(c, ()) if c is not None else ()
        if not authors or (isinstance(self.here, Assign) and self.here.target.name in authors):
            return self.here
        return self.statements[authors[0]]

    def name(self, c: int) -> str:
        """The name of a class: that of the statement at hand if it holds the class, of another author's value, or one made from it."""
        authors = self.authors.get(c, ())
        here = self.here
        if isinstance(here, Assign) and here.target.name in authors:
            own = self.names.own(here.target.name)
            if own:
                return own
        for author in authors:
            own = self.names.own(author)
            if own:
                return own
        return self.names.derived(self.hint(c), "2d")

    def hint(self, c: int) -> str:
        authors = self.authors.get(c)
        if authors:
            return authors[0]
        if isinstance(self.here, Assign):
            return self.here.target.name
        return "tile"
