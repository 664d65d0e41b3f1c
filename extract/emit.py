"""Emission by scoped elaboration: walk the skeleton and write each chosen node where the author wrote the value that it holds.

    x = load(..) [2, 3, 4]         x = load(..) [6, 4]         the flat form of x was chosen: emitted here, under its name
    y = add(x, x)                  y = add(x, x) [6, 4]
    o = store(y, .., out)          o = store(y, .., out, [2, 3, 4])

A class that two statements hold is emitted at the first and seen by the second where its scope reaches. What no author's statement
holds (a page, a packed tile) is emitted just before its first use, page by page. A load is emitted before the next write to the buffer
that it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from egraph_rules import forms
from egraph_rules.buffers import EVERYTHING, Versions, written
from egraph_rules.encode import is_store, is_value
from egraph_rules.graph import ENode, Graph
from extract.choice import Choice, Option, pack_entry
from extract.machine import fill_call, page_call, store_pages, tile_call, tuple_of, typed
from extract.names import Names
from pypto_ir.expr import Expr, MakeTuple, Var, transform, variables
from pypto_ir.ops.registry import OpError
from pypto_ir.stmt import (
    Assign, Block, Call, Carry, Eval, For, Function, FunctionCall, If, Keywords, Literal, Record, Return, Scope, Stmt, Submit,
    Value, While, Yield, definitions, terminator, value_exprs, walk,
)  # fmt: skip
from pypto_ir.types import TileType, Type, type_exprs

K = TypeVar("K")
T = TypeVar("T")


class NotAvailable(Exception):
    """A chosen node reads something that the point of emission does not see."""


@dataclass(slots=True)
class _Frame:
    """What one region sees beside its surroundings."""

    tiles: dict[int, Var] = field(default_factory=dict)
    pages: dict[tuple[int, int], Var] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


def emit(graph: Graph, choice: Choice) -> Function:
    """The function that a choice stands for. Raises `NotAvailable` where no option of a class can be emitted at its place."""
    return _Emitter(graph, choice).function()


class _Emitter:
    def __init__(self, graph: Graph, choice: Choice) -> None:
        self.graph, self.choice, self.encoded = graph, choice, graph.encoded
        function = self.encoded.function
        taken = [p.var.name for p in function.params] + [v.name for s in walk(function.body) for v in definitions(s)]
        self.names = Names(taken)
        self.versions = Versions(self.encoded.buffers)
        self.frames = [_Frame()]
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
        self.late_loads = [c for c in choice.needed if choice.best(c).node.name == "LoadEach"]
        #: dynamic dims of the signature, visible everywhere
        dims = [e for p in function.params for e in type_exprs(p.var.type)]
        self.free = {v.name for e in dims for v in variables(e)}

    def function(self) -> Function:
        f = self.encoded.function
        for param in f.params:
            self.bind(param.var)
        return replace(f, body=self.block(f.body, _Frame()))

    # scopes

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

    def block(self, statements: Block, frame: _Frame) -> Block:
        saved, self.out = self.out, []
        self.frames.append(frame)
        for s in statements:
            self.here = s
            self.statement(s)
        self.frames.pop()
        result, self.out = tuple(self.out), saved
        return result

    def put(self, s: Stmt) -> None:
        """Append a statement; comments of statements that vanished go to the next one."""
        if self.comment and not isinstance(s, Yield | Return):
            own = [s.comment] if s.comment else []
            s, self.comment = replace(s, comment="\n".join([*self.comment, *own])), []
        self.out.append(s)

    # statements

    def statement(self, s: Stmt) -> None:
        if is_value(s):
            assert isinstance(s, Assign)
            before = len(self.out)
            c = self.graph.flat.get(self.encoded.numbers[s.target.name])
            if c in self.choice.needed and self.visible(c) is None:
                self.produce(c)
            if len(self.out) == before and s.comment:
                self.comment.append(s.comment)
            return
        touched = written(s, self.encoded.buffers)
        if touched and not isinstance(s, If):
            self.flush(touched)
        if is_store(s):
            self.store(s)  # type: ignore[arg-type]
            self.versions.bump(touched)
            return
        match s:
            case For() | While():
                self.loop(s, touched)
            case If():
                self.branch(s, touched)
            case Scope(body=body, var=var):
                if var is not None:
                    self.bind(var)
                saved, self.out = self.out, []
                for inner in body:
                    self.here = inner
                    self.statement(inner)
                inside, self.out = tuple(self.out), saved
                self.put(replace(s, body=inside, attrs=self.keywords(s.attrs)))
            case Return(values=values) | Yield(values=values):
                self.put(replace(s, values=tuple(map(self.expr, values))))
            case Assign(targets=targets, value=value):
                self.put(replace(s, value=self.operands(value)))
                self.versions.bump(touched)
                for target in targets:
                    self.bind(target)
            case Eval(value=value):
                self.put(replace(s, value=self.operands(value)))  # type: ignore[arg-type]
                self.versions.bump(touched)
            case _:
                self.put(s)

    def loop(self, s: For | While, touched: tuple[str, ...]) -> None:
        frame, carries = _Frame(), []
        for carry in s.carries:
            init = self.expr(carry.init)
            carries.append(Carry(_retyped(carry.var, init), init))
        bounds = {k: self.expr(getattr(s, k)) for k in ("start", "stop", "step")} if isinstance(s, For) else {}
        self.versions.bump(touched)
        self.frames.append(frame)
        if isinstance(s, For):
            self.bind(s.var)
        for carry in carries:
            self.bind(carry.var)
        if isinstance(s, While):
            bounds = {"cond": self.expr(s.cond)}
        self.frames.pop()
        body = self.block(s.body, frame)
        self.versions.bump(touched)
        results = tuple(_retyped(r, c.var) for r, c in zip(s.results, carries, strict=False))
        self.here = s
        self.put(replace(s, body=body, carries=tuple(carries), results=results, **bounds))
        for var in results:
            self.bind(var)

    def branch(self, s: If, touched: tuple[str, ...]) -> None:
        cond = self.expr(s.cond)
        before = self.versions.snapshot()
        then = self.block(s.then, _Frame())
        self.versions.restore(before)
        orelse = None if s.orelse is None else self.block(s.orelse, _Frame())
        self.versions.restore(before)
        self.versions.bump(touched)
        last = terminator(then) or (terminator(orelse) if orelse else None)
        values = last.values if isinstance(last, Yield) else ()
        results = tuple(_retyped(r, v) for r, v in zip(s.results, values, strict=True)) if values else s.results
        self.here = s
        self.put(replace(s, cond=cond, then=then, orelse=orelse, results=results))
        for var in results:
            self.bind(var)

    def store(self, s: Assign | Eval) -> None:
        number = self.encoded.stores[id(s)]
        entry = self.graph.tables.stores[number]
        node = self.choice.best(self.graph.writes[number]).node
        call = entry.call
        if node.name == "Store2":
            source = self.tile(node.children[0])
            window = () if entry.window is None else (MakeTuple(entry.window),)
            self.put(replace(s, value=replace(call, args=(source, *call.args[1:], *window))))
        else:
            target = call.args[2]
            pages = store_pages(call, entry.tile)
            for page, (offsets, window) in enumerate(pages):
                source = self.page(node.children[0], page)
                stored = replace(call, args=(source, MakeTuple(offsets), target, MakeTuple(window)))
                if page == len(pages) - 1 or isinstance(s, Eval):
                    self.put(replace(s, value=stored, comment=s.comment if page == len(pages) - 1 else None))
                else:
                    step = Var(self.names.derived(s.target.name, str(page)), s.target.type)
                    self.put(Assign((step,), stored, s.loc))
                    self.bind(step)
                    target = step
        if isinstance(s, Assign):
            self.bind(s.target)

    def flush(self, touched: tuple[str, ...]) -> None:
        """Emit the pages of loads whose buffer is about to be written, where their statements have been passed."""
        for c in self.late_loads:
            entry = self.graph.tables.loads[self.choice.best(c).node.data[0]]
            hit = EVERYTHING in touched or any(name in touched for name, _ in entry.reads)
            if hit and self.current(entry.reads, entry.call.args[0]):
                self.attempt(lambda c=c: [self.page(c, i) for i in range(self.graph.page_counts.get(c, 1))])

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

    # expressions

    def expr(self, e: Expr) -> Expr:
        return transform(e, self.leaf)

    def leaf(self, v: Var) -> Expr:
        number = self.encoded.numbers.get(v.name)
        return v if number is None else self.tile(self.graph.flat[number])

    def operands(self, value: Value) -> Value:
        match value:
            case Call() | FunctionCall():
                return replace(
                    value,
                    args=tuple(map(self.expr, value.args)),
                    kwargs=self.keywords(value.kwargs),
                    attrs=self.keywords(value.attrs),
                )
            case Submit():
                return replace(
                    value,
                    args=tuple(map(self.expr, value.args)),
                    fields=self.keywords(value.fields),
                    attrs=self.keywords(value.attrs),
                )
        return self.expr(value)

    def keywords(self, items: Keywords) -> Keywords:
        return tuple((k, self.literal(v)) for k, v in items)

    def literal(self, value: Literal) -> Literal:
        if isinstance(value, tuple):
            return tuple(map(self.literal, value))
        if isinstance(value, Record):
            return Record(self.keywords(value.items))
        if value is None or isinstance(value, int | float | str):
            return value
        return self.expr(value)

    # tiles

    def visible(self, c: int) -> Var | None:
        return next((f.tiles[c] for f in reversed(self.frames) if c in f.tiles), None)

    def tile(self, c: int) -> Var:
        return self.visible(c) or self.produce(c)

    def produce(self, c: int) -> Var:
        """Emit the first option of a class that this point can emit."""
        for option in self.choice.options[c]:
            var = self.attempt(lambda option=option: self.make(c, option))
            if var is not None:
                self.remember(self.frames[-1].tiles, c, var)
                return var
        raise NotAvailable(f"no form of {self.hint(c)} can be emitted here")

    def remember(self, table: dict[K, Var], key: K, var: Var) -> None:
        frame = self.frames[-1]
        table[key] = var
        frame.names.add(var.name)

        def forget() -> None:
            del table[key]
            frame.names.discard(var.name)
            self.names.release(var.name)

        self.made.append(forget)

    def make(self, c: int, option: Option) -> Var:
        node = option.node
        if node.name == "Leaf2":
            raise NotAvailable(self.graph.tables.leaves[node.data[0]].name)
        if node.name == "Load2":
            entry = self.graph.tables.loads[node.data[0]]
            if not self.current(entry.reads, entry.call.args[0]):
                raise NotAvailable("the buffer was written since")
        if node.name == "PackRows":
            return self.pack(c, node)
        call, made = tile_call(self.graph, node, tuple(self.tile(child) for child in node.children))
        return self.assign(self.name(c), call, made, c)

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
            node = self.choice.best(top[0]).node
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
            node = self.choice.best(c).node
            match node.name:
                case "Spread":
                    number = forms.spread_index(number, *node.data)
                    c = node.children[0]
                case "WithPages":
                    placed = self.graph.tables.pages[node.data[0]]
                    inside = number in placed
                    number = placed.index(number) if inside else number
                    c = node.children[1 if inside else 0]
                case _:
                    return c, number

    def make_page(self, key: tuple[int, int], node: ENode, operands: tuple[Expr, ...]) -> Var:
        if node.name == "One":
            assert isinstance(operands[0], Var)
            return operands[0]
        c, number = key
        call, made = page_call(self.graph, node, number, operands)
        # a page cut from a whole tile belongs to its reader, any other page to the value that it is a part of
        return self.assign(self.names.derived(self.hint(c), str(number)), call, made, None if node.name == "RowsOf" else c)

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


def _retyped(var: Var, value: Expr) -> Var:
    """A carried name or result with the type of the tile that it now holds."""
    return Var(var.name, value.type) if isinstance(value, Var) and isinstance(value.type, TileType) else var
