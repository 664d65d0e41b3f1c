"""Emission by scoped elaboration: walk the skeleton and write each chosen node where the author wrote the value that it holds.

    x = load(..) [2, 3, 4]         x = load(..) [6, 4]         the flat form of x was chosen: emitted here, under its name
    y = add(x, x)                  y = add(x, x) [6, 4]
    o = store(y, .., out)          o = store(y, .., out, [2, 3, 4])

A class that two statements hold is emitted at the first and seen by the second where its scope reaches. What no author's statement
holds (a page, a packed tile) is emitted just before its first use, page by page. A load is emitted before the next write to the buffer
that it reads. A tile that a loop or a branch hands on page by page becomes a name for every page: `acc` becomes `acc_0`, `acc_1`, ..
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from egraph_rules import forms
from egraph_rules.buffers import EVERYTHING, written
from egraph_rules.cells import cell
from egraph_rules.encode import is_store, is_value
from egraph_rules.graph import ENode, Graph
from extract.choice import Choice, Form, carriers
from extract.elaborate import Elaborator, Frame, Instance, NotAvailable
from extract.machine import band_call, store_in_view, store_pages
from extract.plan import Plan
from pypto_ir.expr import Expr, MakeTuple, Var, const_int, transform
from pypto_ir.linear import provably_equal
from pypto_ir.partition import RowBox
from pypto_ir.rebuilding import Rebuilder
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
    Carry,
    Eval,
    For,
    Function,
    If,
    Return,
    Scope,
    Stmt,
    While,
    Yield,
    terminator,
)  # fmt: skip
from pypto_ir.types import Dims, Memory, TensorType, TileType, same_dim, with_valid

__all__ = ["NotAvailable", "emit"]


def emit(graph: Graph, choice: Choice, plan: Plan, origins: dict[str, int] | None = None) -> Function:
    """The function that a plan stands for; `origins` is filled with the class that every emitted tile, or result of a store, was written
    for. Raises `NotAvailable` where no option of a class can be emitted at its place."""
    emitter = _Emitter(graph, choice, plan)
    if origins is not None:
        emitter.at.origins = origins
    return emitter.function()


class _Emitter:
    def __init__(self, graph: Graph, choice: Choice, plan: Plan) -> None:
        self.graph, self.plan, self.encoded, self.regions = graph, plan, graph.encoded, plan.regions
        self.at = Elaborator(graph, choice, plan)
        self.rebuilt = _Operands(self.leaf)
        self.late_loads = [(c, r) for (c, r), option in plan.options.items() if option.node.name in ("LoadEach", "LoadInEach")]
        self.handover = {name: h for h, item in enumerate(self.encoded.handovers) for name in item.names}
        #: for the block at hand, the handover that each yielded value goes into
        self.yields: list[list[int | None]] = [[]]

    def function(self) -> Function:
        f = self.encoded.function
        for param in f.params:
            self.at.bind(param.var)
        return replace(f, body=self.block(f.body, Frame()))

    def block(self, statements: Block, frame: Frame, region: int = 0, yields: list[int | None] | None = None) -> Block:
        at = self.at
        around, at.region, frame.region = at.region, region, region
        saved, at.out = at.out, []
        at.frames.append(frame)
        self.yields.append(yields or [])
        for s in statements:
            at.here = s
            self.statement(s)
        self.yields.pop()
        at.frames.pop()
        result, at.out, at.region = tuple(at.out), saved, around
        return result

    # statements

    def statement(self, s: Stmt) -> None:
        at, position = self.at, self.regions.position[id(s)]
        at.position = position
        for due in self.plan.due.get(position, ()):
            self.whole((due, at.region))
        if is_value(s):
            assert isinstance(s, Assign)
            before, number = len(at.out), self.encoded.numbers[s.target.name]
            for c in (self.graph.flat.get(number), self.graph.columns.get(number)):
                if c is not None and self.plan.places.get((c, at.region)) == position and at.visible((c, at.region)) is None:
                    at.produce((c, at.region))
            if len(at.out) == before and s.comment:
                at.comment.append(s.comment)
            return
        touched = written(s, self.encoded.buffers)
        if touched:
            self.flush(touched)
        if is_store(s):
            self.store(s)  # type: ignore[arg-type]
            at.versions.bump(touched)
            return
        match s:
            case For() | While():
                self.loop(s, touched)
            case If():
                self.branch(s, touched)
            case Scope(body=body, var=var):
                if var is not None:
                    at.bind(var)
                saved, at.out = at.out, []
                for inner in body:
                    at.here = inner
                    self.statement(inner)
                inside, at.out = tuple(at.out), saved
                at.put(replace(s, body=inside, attrs=self.rebuilt.keywords(s.attrs)))
            case Return(values=values):
                at.put(replace(s, values=tuple(map(self.expr, values))))
            case Yield(values=values):
                groups = self.yields[-1] or [None] * len(values)
                handed = (e for v, h in zip(values, groups, strict=True) for e in self.handed(v, h))
                at.put(replace(s, values=tuple(handed)))
            case Assign(targets=targets, value=value):
                if isinstance(value, Call) and value.op == "tile.read":
                    value = replace(value, args=(value.args[0], MakeTuple(cell(value))))
                at.put(replace(s, value=self.rebuilt.value(value)))
                at.versions.bump(touched)
                for target in targets:
                    at.bind(target)
            case Eval(value=value):
                at.put(replace(s, value=self.rebuilt.value(value)))  # type: ignore[arg-type]
                at.versions.bump(touched)
            case _:
                at.put(s)

    def loop(self, s: For | While, touched: tuple[str, ...]) -> None:
        at, region = self.at, self.regions.blocks[(id(s), 0)]
        frame = Frame(region)
        inits = [(carry.var, self.handed(carry.init, self.handover.get(carry.var.name))) for carry in s.carries]
        if isinstance(s, For):
            s = replace(s, start=self.expr(s.start), stop=self.expr(s.stop), step=self.expr(s.step))
        at.versions.bump(touched)
        at.frames.append(frame)
        if isinstance(s, For):
            at.bind(s.var)
        carries = [Carry(var, init) for name, values in inits for var, init in zip(self.received(name, values), values, strict=True)]
        if isinstance(s, While):
            s = replace(s, cond=self.expr(s.cond))
        at.frames.pop()
        body = self.block(s.body, frame, region, [self.handover.get(carry.var.name) for carry in s.carries])
        at.versions.bump(touched)
        at.here = s
        results = tuple(var for r, (_, values) in zip(s.results, inits, strict=False) for var in self.received(r, values))
        at.put(replace(s, body=body, carries=tuple(carries), results=results))

    def branch(self, s: If, touched: tuple[str, ...]) -> None:
        at = self.at
        cond = self.expr(s.cond)
        groups = [self.handover.get(r.name) for r in s.results]
        before = at.versions.snapshot()
        then = self.block(s.then, Frame(), self.regions.blocks[(id(s), 0)], groups)
        at.versions.restore(before)
        orelse = None if s.orelse is None else self.block(s.orelse, Frame(), self.regions.blocks[(id(s), 1)], groups)
        at.versions.restore(before)
        at.versions.bump(touched)
        last = terminator(then) or (terminator(orelse) if orelse else None)
        values = list(last.values) if isinstance(last, Yield) else []
        at.here = s
        results: list[Var] = []
        for r in s.results:
            width = self.width(self.handover.get(r.name))
            results += self.received(r, values[:width] or [r] * width)
            del values[:width]
        at.put(replace(s, cond=cond, then=then, orelse=orelse, results=tuple(results)))

    # what control flow hands on

    def parts(self, h: int | None) -> list[tuple[Form, int]]:
        """The values that a handover is carried as: the flat tile, or every page, or both."""
        if h is None:
            return [("flat", 0)]
        family = self.graph.families.get(self.encoded.numbers[self.encoded.handovers[h].names[0]])
        pages = range(self.graph.page_counts.get(family, 1)) if family is not None else ()
        return [part for form in self.plan.forms[h] for part in ([(form, b) for b in pages] if form == "pages" else [(form, 0)])]

    def width(self, h: int | None) -> int:
        return len(self.parts(h))

    def handed(self, e: Expr, h: int | None) -> list[Expr]:
        """A value in the forms in which it is handed on."""
        if h is None:
            return [self.expr(e)]
        assert isinstance(e, Var)
        number = self.encoded.numbers[e.name]
        classes = carriers(self.graph)
        return [
            self.at.page(self.at.serving(classes[form][number]), b)
            if form == "pages"
            else self.at.tile(self.at.serving(classes[form][number]))
            for form, b in self.parts(h)
        ]

    def received(self, var: Var, values: list[Expr]) -> list[Var]:
        """The names under which a handed-on value arrives in the innermost region, with the types of what was handed."""
        at, h = self.at, self.handover.get(var.name)
        result = []
        for (form, b), value in zip(self.parts(h), values, strict=True):
            if form == "flat":
                tile = isinstance(var.type, TileType) and isinstance(value, Var) and isinstance(value.type, TileType)
                result.append(_retyped(var.name, value, forms.flat_type(var.type)) if tile else var)  # type: ignore[arg-type]
                at.bind(result[-1])
                if tile and self.encoded.numbers[var.name] in self.graph.flat:
                    at.origins[var.name] = self.graph.flat[self.encoded.numbers[var.name]]
            elif form == "cols":
                assert isinstance(var.type, TileType)
                name = at.names.own(var.name) or at.names.derived(var.name, "cols")
                result.append(_retyped(name, value, forms.columns_type(var.type)))
                at.origins[name] = self.graph.columns[self.encoded.numbers[var.name]]
                at.hold(result[-1], at.origins[name])
            else:
                name = at.names.derived(var.name, str(b))
                assert isinstance(var.type, TileType)
                result.append(_retyped(name, value, forms.page_type(var.type)))
                at.bind(result[-1])
                family = at.origins[name] = self.graph.families[self.encoded.numbers[var.name]]
                at.frames[-1].pages[((family, at.frames[-1].region), b)] = result[-1]
        return result

    # stores

    def store(self, s: Assign | Eval) -> None:
        at = self.at
        number = self.encoded.stores[id(s)]
        write = at.serving(self.graph.writes[number])
        node = at.node(write)
        entry = self.graph.tables.stores[node.data[0]]
        call = entry.call
        if node.name in ("StoreIn2", "StoreInEach"):
            self.store_in_view(s, call, write, node)
            return
        if node.name == "Store2":
            source = at.tile(at.operand(write, node.children[0]))
            box = () if entry.window is None else (MakeTuple(_box(source, call, entry.window)),)
            at.put(replace(s, value=replace(call, args=(source, *call.args[1:], *box))))
        else:
            target = call.args[2]
            boxes = entry.boxes if node.name == "StoreBoxes" else None
            pages = [(b.offsets, b.window) for b in boxes] if boxes else store_pages(entry, node.data[1])
            operand = at.operand(write, node.children[0])
            for page, (offsets, window) in enumerate(pages):
                source = self.band(operand, boxes[page]) if boxes else at.page(operand, page)
                box = () if window is None else (MakeTuple(_box(source, call, window)),)
                stored = replace(call, args=(source, MakeTuple(offsets), target, *box))
                if page == len(pages) - 1 or isinstance(s, Eval):
                    at.put(replace(s, value=stored, comment=s.comment if page == len(pages) - 1 else None))
                else:
                    step = Var(at.names.derived(s.target.name, str(page)), s.target.type)
                    at.put(Assign((step,), stored, s.loc))
                    at.bind(step)
                    at.origins[step.name] = write[0]
                    target = step
        if isinstance(s, Assign):
            at.bind(s.target)
            at.origins[s.target.name] = write[0]

    def band(self, instance: Instance, box: RowBox) -> Var:
        """The rows of a tile that fill a box of the target."""
        tile = self.at.tile(instance)
        call, made = band_call(tile, box)
        return self.at.assign(self.at.names.derived(tile.name, f"from{box.first}"), call, made, None)

    def store_in_view(self, s: Assign | Eval, call: Call, write: Instance, node: ENode) -> None:
        """A store through the 2-D view of its target, of which the author's result is another name."""
        at = self.at
        view = at.tile(at.operand(write, node.children[1]))
        family = at.operand(write, node.children[0])
        count, rows = (1, 0) if node.name == "StoreIn2" else (forms.pages(node.data[1]), node.data[1][-2])
        for page in range(count):
            source = at.tile(family) if node.name == "StoreIn2" else at.page(family, page)
            stored = replace(call, args=(source, MakeTuple(store_in_view(call, page, rows)), view))
            at.put(Eval(stored, s.loc, s.comment if page == count - 1 else None))
        if isinstance(s, Assign):
            at.put(Assign(s.targets, call.args[2], s.loc))
            at.bind(s.target)

    def flush(self, touched: tuple[str, ...]) -> None:
        """Emit the pages of loads whose buffer is about to be written, where their statements have been passed."""
        at = self.at
        for c, r in self.late_loads:
            if r != at.region:
                continue
            entry = self.graph.tables.loads[at.node((c, r)).data[0]]
            hit = EVERYTHING in touched or any(name in touched for name, _ in entry.reads)
            if hit and at.current(entry.reads, entry.call.args[0]):
                at.attempt(partial(self.whole, (c, r)))

    def whole(self, instance: Instance) -> bool:
        """Emit an instance with all its pages."""
        count = self.graph.page_counts.get(instance[0])
        if count is None:
            self.at.tile(instance)
        for number in range(count or 0):
            self.at.page(instance, number)
        return True

    # expressions

    def expr(self, e: Expr) -> Expr:
        return self.rebuilt.expr(e)

    def leaf(self, v: Var) -> Expr:
        number = self.encoded.numbers.get(v.name)
        return v if number is None else self.at.tile(self.at.serving(self.graph.flat[number]))


class _Operands(Rebuilder):
    """Operands of the skeleton's statements, with what was chosen for the tiles that they read."""

    def __init__(self, leaf: Callable[[Var], Expr]) -> None:
        self.leaf = leaf

    def expr(self, e: Expr) -> Expr:
        return transform(e, self.leaf)


def _box(source: Var, call: Call, window: Dims) -> Dims:
    """The window of a store; that of a product whose operands are cut is smaller than its type promised (`spec/flatten.md` section 6)."""
    target = call.args[2]
    assert isinstance(source.type, TileType) and isinstance(target, Var) and isinstance(target.type, TensorType)
    valid = source.type.valid
    if source.type.memory is not Memory.ACC or not all(const_int(d) == 1 for d in window[:-2]):
        return window
    if all(same_dim(a, b) or provably_equal(a, b) for a, b in zip(valid, window[-2:], strict=True)):
        return window
    return (*window[:-2], *valid)


def _retyped(name: str, value: Expr, wanted: TileType) -> Var:
    """A carried name or result with the layout of the tile that it now holds, and the valid region that the author's type states: a
    result may promise less than what one arm hands on."""
    assert isinstance(value, Var) and isinstance(value.type, TileType)
    if all(same_dim(a, b) or provably_equal(a, b) for a, b in zip(value.type.valid, wanted.valid, strict=True)):
        return Var(name, value.type)
    return Var(name, with_valid(value.type, wanted.valid))
