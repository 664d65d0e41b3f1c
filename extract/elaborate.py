"""Tiles and pages at a point of emission: what is visible, and how what is not visible yet is written there.

`Elaborator.tile(c)` gives the variable that holds class c, and writes the chosen node, with what it reads, where no region around this
point has it yet. `page(c, b)` does so for page b of a family. What turns out to read something that this point does not see is taken
back, and the next option of the class is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from egraph_rules import forms
from egraph_rules.buffers import Versions
from egraph_rules.graph import ENode, Graph
from extract.choice import Choice, Option, pack_entry
from extract.machine import fill_call, page_call, separate_pages, tile_call, tuple_of, typed
from extract.names import Names
from extract.plan import Plan
from extract.problem import written_operands
from pypto_ir.expr import Expr, Var, variables
from pypto_ir.ops.registry import OpError
from pypto_ir.stmt import Assign, Call, Eval, Return, Stmt, Yield, definitions, value_exprs, walk
from pypto_ir.types import TileType, Type, type_exprs

K = TypeVar("K")
T = TypeVar("T")


class NotAvailable(Exception):
    """A chosen node reads something that the point of emission does not see."""


@dataclass(slots=True)
class Frame:
    """What one region sees beside its surroundings."""

    tiles: dict[int, Var] = field(default_factory=dict)
    pages: dict[tuple[int, int], Var] = field(default_factory=dict)
    equal: dict[tuple[int, tuple[str, ...]], Var] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


class Elaborator:
    """Writes chosen nodes into `out`, the statements of the innermost region; `here` is the author's statement at hand."""

    def __init__(self, graph: Graph, choice: Choice, plan: Plan) -> None:
        self.graph, self.choice, self.plan, self.encoded = graph, choice, plan, graph.encoded
        self.region = 0
        function = self.encoded.function
        taken = [p.var.name for p in function.params] + [v.name for s in walk(function.body) for v in definitions(s)]
        self.names = Names(taken)
        self.versions = Versions(self.encoded.buffers)
        self.frames = [Frame()]
        self.out: list[Stmt] = []
        self.here: Stmt | None = None
        self.comment: list[str] = []
        self.made: list[Callable[[], None]] = []
        self.authors: dict[int, list[str]] = {}
        leaves = {leaf.name for leaf in graph.tables.leaves.items}
        for name, number in self.encoded.numbers.items():
            for c in (graph.flat.get(number), graph.families.get(number)):
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

    def node(self, c: int) -> ENode:
        """The node that this region sees of a class."""
        return (self.plan.option(c, self.region) or self.choice.best(c)).node

    def visible(self, c: int) -> Var | None:
        return next((f.tiles[c] for f in reversed(self.frames) if c in f.tiles), None)

    def tile(self, c: int) -> Var:
        return self.visible(c) or self.produce(c)

    def produce(self, c: int) -> Var:
        """Emit a class: the option planned for this region or the nearest around it, else the first that this point can emit."""
        planned = self.plan.option(c, self.region)
        for option in [*([planned] if planned else []), *self.choice.options[c]]:
            var = self.attempt(partial(self.make, c, option))
            if var is not None:
                self.remember(self.frames[-1].tiles, c, var)
                return var
        raise NotAvailable(f"no form of {self.hint(c)} can be emitted here")

    def remember(self, table: dict[K, Var], key: K, var: Var) -> None:
        table[key] = var
        self.made.append(lambda: table.__delitem__(key))

    def make(self, c: int, option: Option) -> Var:
        node = option.node
        self.check(node)
        if node.name == "PackRows":
            return self.pack(c, node)
        call, made = tile_call(self.graph, node, tuple(self.tile(child) for child in node.children))
        return self.assign(self.name(c), call, made, c)

    def check(self, node: ENode) -> None:
        """Raise `NotAvailable` for a leaf that this point does not see, and for a load from a buffer that was written since."""
        if node.name in ("Leaf2", "LeafEach"):
            raise NotAvailable(self.graph.tables.leaves[node.data[0]].name)
        if node.name in ("Load2", "LoadEach"):
            entry = self.graph.tables.loads[node.data[0]]
            if not self.current(entry.reads, entry.call.args[0]):
                raise NotAvailable("the buffer was written since")

    def pack(self, c: int, node: ENode) -> Var:
        shape = node.data[0]
        family = node.children[0]
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

    def page(self, c: int, number: int) -> Var:
        """Page `number` of a family, emitted with what it reads where nobody emitted it yet."""
        wanted = self.source(c, number)
        stack = [wanted]
        while stack:
            top = stack[-1]
            if self.seen_page(top) is not None:
                stack.pop()
                continue
            node = self.node(top[0])
            if node.name in ("RowsOf", "One"):
                operands: tuple[Expr, ...] = (self.tile(node.children[0]),)
            else:
                reads = [self.source(child, top[1]) for child in node.children]
                waiting = [r for r in reads if self.seen_page(r) is None]
                if waiting:
                    stack.extend(reversed(waiting))
                    continue
                operands = tuple(self.seen_page(r) for r in reads)  # type: ignore[misc]
            self.remember(self.frames[-1].pages, top, self.make_page(top, node, operands))
        found = self.seen_page(wanted)
        assert found is not None
        return found

    def seen_page(self, key: tuple[int, int]) -> Var | None:
        return next((f.pages[key] for f in reversed(self.frames) if key in f.pages), None)

    def source(self, c: int, number: int) -> tuple[int, int]:
        """The family and page that page `number` of c is, through spreads and writes of whole pages."""
        while True:
            node = self.node(c)
            match node.name:
                case "Spread":
                    number = forms.spread_index(number, *node.data)
                    c = node.children[0]
                case "WithPages":
                    placed = self.graph.tables.pages[node.data[0]]
                    inside = number in placed
                    number = placed.index(number) if inside else number
                    c = node.children[1 if inside else 0]
                case "FullEach" if not separate_pages(self.graph, node):
                    return c, 0
                case _:
                    return c, number

    def make_page(self, key: tuple[int, int], node: ENode, operands: tuple[Expr, ...]) -> Var:
        if node.name == "One":
            assert isinstance(operands[0], Var)
            return operands[0]
        c, number = key
        self.check(node)
        shared = (c, tuple(o.name for o in operands if isinstance(o, Var)))
        if node.name == "OpEach" and not written_operands(self.graph, node):
            # pages of equal operands are one tile
            for frame in reversed(self.frames):
                if shared in frame.equal:
                    return frame.equal[shared]
        call, made = page_call(self.graph, node, number, operands)
        # a page cut from a whole tile belongs to its reader, any other page to the value that it is a part of
        var = self.assign(self.names.derived(self.hint(c), str(number)), call, made, None if node.name == "RowsOf" else c)
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
        self.frames[-1].names.add(name)
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
