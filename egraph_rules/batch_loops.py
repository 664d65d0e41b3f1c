"""Products of large batches as loops over their pages, so that the program does not grow with the batch.

    m = batch_matmul_acc(acc, a, b, first)         for p in range(64) carry c = acc:
                                                       w = slice(c, [1, 16, 32], [p, 0, 0])
                                                       a_page = load(x, [p, 0, k], [1, 16, 16])
                                                       b_page = load(y, [p, k, 0], [1, 16, 32])
                                                       n = batch_matmul_acc(w, a_page, b_page, first)
                                                       yield assemble(c, n, [p, 0, 0])
    o = store(batch_matmul(a, b), [0, 0, 0], out)  for p in range(64) carry t = out:
                                                       yield store(batch_matmul(a_page, b_page), [p, 0, 0], t)

Every statement that is written out once a page takes room in the instruction cache, and time in every compiler behind this one; a loop
costs scalar cycles in each trip. Which of the two is cheaper is not decided here: both texts are lowered. A batch can be a loop where every
page can be loaded, multiplied and stored on its own; moves and ops on single cells on the way to the store are part of it. The pages of an
accumulator then stand in one tile, so they must be whole boxes that L0C holds side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from egraph_rules import forms
from egraph_rules.chains import accumulates, chains, in_acc
from egraph_rules.page_parts import Aliased, factors, part_of_load, plus, readable, whole_loads
from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, MakeTuple, Var, index
from pypto_ir.names import names_of
from pypto_ir.ops.registry import Trait, find_op, type_of
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import (
    TRUE,
    Assign,
    Block,
    Call,
    Carry,
    Eval,
    For,
    Function,
    If,
    Scope,
    Stmt,
    While,
    Yield,
    blocks,
    definitions,
    tuple_items,
    uses,
    walk,
)
from pypto_ir.types import INDEX, TileType, dims, same_dims

_PRODUCTS = ("tile.batch_matmul", "tile.batch_matmul_acc")
#: what a statement makes of the value that its loop hands on, and of a page's position
Step = Callable[[Var, Sequence[Expr]], tuple[list[Stmt], Var]]


def roll_batches(function: Function, least: int, capacity: int | None, acc_rows: Callable[[DType], int], aliased: Aliased = ()) -> Function:
    """The function with products of `least` pages and more as loops; the same object where none can be. L0C has `capacity` bytes (None
    for no limit) and pads a tile to a multiple of `acc_rows` rows; `aliased` are parameters that may be one tensor."""
    large = [s for s in _products(function) if forms.pages(_shape(s.target)) >= least]
    if not large:
        return function
    roller = _Roller(function, aliased)
    roller.plan(large, capacity, acc_rows)
    return replace(function, body=roller.block(function.body)) if roller.loops or roller.stored else function


def page_counts(function: Function) -> list[int]:
    """The pages of every product of a batch, in program order."""
    return [n for n in (forms.pages(_shape(s.target)) for s in _products(function)) if n > 1]


def _products(function: Function) -> list[Assign]:
    return [s for s in walk(function.body) if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op in _PRODUCTS]


def _shape(v: Expr) -> tuple[int, ...]:
    """The shape of a tile that is constant and valid everywhere; empty for any other value."""
    t = v.type if isinstance(v, Var) else None
    if not isinstance(t, TileType) or t.static_shape is None or not same_dims(t.valid, t.shape) or t.memref is not None:
        return ()
    return t.static_shape


class _Roller:
    def __init__(self, function: Function, aliased: Aliased) -> None:
        self.source, self.found = function, chains(function)
        self.readable = readable(function, aliased)
        self.loads = whole_loads(function)
        self.blocks = {id(s): i for i, block in enumerate(_blocks(function.body)) for s in block}
        self.readers = Counter(v.name for s in walk(function.body) for v in uses(s))
        self.reader = {v.name: s for s in walk(function.body) for v in uses(s) if self.readers[v.name] == 1}
        self.names = names_of(function)
        #: chains of accumulators whose products and stores are loops
        self.loops: set[str] = set()
        #: products and what is made of them page by page, where it is stored, by the name of what is stored
        self.stored: dict[str, list[Assign]] = {}
        self.gone: set[str] = set()

    # what becomes a loop

    def plan(self, large: list[Assign], capacity: int | None, acc_rows: Callable[[DType], int]) -> None:
        touching: dict[str, list[Stmt]] = {}
        for s in walk(self.source.body):
            for name in {self.found.of(v.name) for v in (*definitions(s), *uses(s)) if in_acc(v)}:
                touching.setdefault(name, []).append(s)
        for s in large:
            call, name = s.value, self.found.of(s.target.name)
            assert isinstance(call, Call)
            links = self.links(s) if not accumulates(call) and self.by_page(call) else []
            if links:
                self.stored[links[-1].target.name] = links
                self.gone.update(link.target.name for link in links)
            elif name not in self.loops and self.resident(s.target, capacity, acc_rows) and all(map(self.plain, touching.get(name, []))):
                self.loops.add(name)

    def links(self, s: Assign) -> list[Assign]:
        """A product and the ops that take its pages one by one to a store in the same block; none where something else reads them."""
        found = [s]
        while True:
            last = found[-1].target
            reader = self.reader.get(last.name)
            if reader is None or self.blocks[id(reader)] != self.blocks[id(s)]:
                return []
            if self.whole_store(reader, last):
                return found
            if not isinstance(reader, Assign) or not _page_by_page(reader, last):
                return []
            found.append(reader)

    def resident(self, v: Var, capacity: int | None, acc_rows: Callable[[DType], int]) -> bool:
        """True where the pages of an accumulator can stand side by side, and L0C holds all of them."""
        t = v.type
        if not isinstance(t, TileType) or not forms.packs_columns(t):
            return False
        rows, columns = forms.columns(_shape(v))
        unit = acc_rows(t.dtype)
        return capacity is None or columns * (-(-rows // unit) * unit) * t.dtype.bytes <= capacity

    def plain(self, s: Stmt) -> bool:
        """True for what loops over pages can take the place of, and for what hands accumulators on."""
        match s:
            case For() | While() | If() | Yield() | Assign(value=Var()) | Assign(value=Call(op="tile.create")):
                return True
            case Assign(value=Call(op="tile.batch_matmul" | "tile.batch_matmul_acc") as call):
                return bool(_shape(s.target)) and self.by_page(call)
        return self.whole_store(s, None)

    def by_page(self, call: Call) -> bool:
        """True where each page of both factors can be loaded on its own."""
        return all(_shape(e) and (forms.pages(_shape(e)) == 1 or self.loadable(e)) for e in factors(call))

    def loadable(self, e: Expr) -> bool:
        load = self.loads.get(e.name) if isinstance(e, Var) else None
        if load is None or not isinstance(e, Var):
            return False
        source, offsets = load.args[0], tuple_items(load.args[1]) or ()
        return isinstance(source, Var) and source.name in self.readable and len(offsets) == len(_shape(e)) and self.readers[e.name] == 1

    def whole_store(self, s: Stmt, of: Var | None) -> bool:
        """True for a store of a whole accumulator at offsets of its own rank, `of` that one where it is given."""
        match s:
            case (
                Assign(value=Call(op="tile.store", args=(Var() as source, at, _)))
                | Eval(value=Call(op="tile.store", args=(Var() as source, at, _)))
            ):
                return (of is None or source.name == of.name) and len(tuple_items(at) or ()) == len(_shape(source)) > 2
        return False

    # the function with loops

    def block(self, statements: Block) -> Block:
        return tuple(t for s in statements for t in self.statement(s))

    def statement(self, s: Stmt) -> list[Stmt]:
        match s:
            case For(body=body) | While(body=body) | Scope(body=body):
                return [replace(s, body=self.block(body))]
            case If(then=then, orelse=orelse):
                return [replace(s, then=self.block(then), orelse=None if orelse is None else self.block(orelse))]
            case Assign(targets=(target,)) if target.name in self.gone:
                return []
            case Assign(value=Call(op="tile.batch_matmul" | "tile.batch_matmul_acc") as call):
                if self.found.of(s.target.name) in self.loops:
                    return self.accumulated(s, call)
            case (
                Assign(value=Call(op="tile.store", args=(Var() as source, _, Var() as out)) as call)
                | Eval(value=Call(op="tile.store", args=(Var() as source, _, Var() as out)) as call)
            ) if self.rolled(source):
                made = s.target if isinstance(s, Assign) else Var(self.names.derived(source.name, "stored"), out.type)
                return self.nest(s, made, out, _shape(source), lambda t, at: self.page_store(s, call, t, at))
        return [s]

    def rolled(self, source: Var) -> bool:
        return source.name in self.stored or (in_acc(source) and self.found.of(source.name) in self.loops)

    def accumulated(self, s: Assign, call: Call) -> list[Stmt]:
        """A product onto every page of an accumulator; one that begins it creates it first."""
        shape = _shape(s.target)
        if accumulates(call):
            return self.nest(s, s.target, call.args[0], shape, lambda c, at: self.page_product(s, call, c, at, call.args[3:]))
        t = s.target.type
        assert isinstance(t, TileType)
        create = Call("tile.create", (MakeTuple(t.shape),), (("dtype", t.dtype.value), ("target_memory", "Acc")))
        made = Var(self.names.derived(s.target.name, "pages"), infer_call(create))
        loop = self.nest(s, s.target, made, shape, lambda c, at: self.page_product(s, call, c, at, (TRUE,)))
        return [Assign((made,), replace(create, loc=call.loc), s.loc), *loop]

    def nest(self, s: Stmt, result: Var, init: Expr, shape: tuple[int, ...], step: Step) -> list[Stmt]:
        """Loops over the batch dims of `shape` that hand on what `step` makes, beginning with `init`, and end as `result`."""
        axes = [axis for axis, extent in enumerate(shape[:-2]) if extent > 1]
        at: list[Expr] = [index(0)] * len(shape)

        def level(depth: int, start: Expr, end: Var) -> list[Stmt]:
            axis = axes[depth]
            page = Var(self.names.derived(result.name, "page"), INDEX)
            held = Var(self.names.derived(result.name, "held"), end.type)
            at[axis] = page
            if depth + 1 < len(axes):
                last = Var(self.names.derived(result.name, "pages"), end.type)
                body = level(depth + 1, held, last)
            else:
                body, last = step(held, tuple(at))
            loop = For(page, index(0), index(shape[axis]), index(1), (*body, Yield((last,))), (Carry(held, start),), (end,))
            return [replace(loop, loc=s.loc)]

        return level(0, init, result)

    def page_product(self, s: Assign, call: Call, held: Var, at: Sequence[Expr], rest: tuple[Expr, ...]) -> tuple[list[Stmt], Var]:
        """The factors of a product, added to one page of the accumulator `held`; `rest` are the operands after them."""
        shape = _shape(s.target)
        window = self.let(s, s.target.name, "tile.slice", (held, MakeTuple(_one(shape)), MakeTuple(tuple(at))))
        loads, parts = self.page_factors(s, call, shape, at)
        product = self.let(s, s.target.name, "tile.batch_matmul_acc", (window.target, *parts, *rest), call.kwargs)
        back = self.let(s, s.target.name, "tile.assemble", (held, product.target, MakeTuple(tuple(at))))
        return [window, *loads, product, back], back.target

    def page_store(self, s: Assign | Eval, call: Call, held: Var, at: Sequence[Expr]) -> tuple[list[Stmt], Var]:
        source, offsets, *_ = call.args
        assert isinstance(source, Var)
        shape, before = _shape(source), list[Stmt]()
        links = self.stored.get(source.name)
        if links is None:
            part = self.let(s, source.name, "tile.slice", (source, MakeTuple(_one(shape)), MakeTuple(tuple(at))))
        else:
            first, *rest = links
            product = first.value
            assert isinstance(product, Call)
            before, parts = self.page_factors(first, product, shape, at)
            part, whole = self.let(first, first.target.name, product.op, parts, product.kwargs), first.target
            for link in rest:
                assert isinstance(link.value, Call)
                before.append(part)
                args = tuple(part.target if a == whole else a for a in link.value.args)
                part, whole = self.let(link, link.target.name, link.value.op, args, link.value.kwargs), link.target
        moved = MakeTuple(tuple(plus(o, n) for o, n in zip(tuple_items(offsets) or (), at, strict=True)))
        made = Var(self.names.derived(held.name, "stored"), held.type)
        return [*before, part, Assign((made,), replace(call, args=(part.target, moved, held)), s.loc)], made

    def page_factors(self, s: Assign | Eval, call: Call, shape: tuple[int, ...], at: Sequence[Expr]) -> tuple[list[Stmt], tuple[Expr, ...]]:
        """Loads of one page of both factors of a product of this shape; a factor without batch stays as it is."""
        loads: list[Stmt] = []
        parts: list[Expr] = []
        for e in factors(call):
            own = _shape(e)
            if forms.pages(own) == 1:
                parts.append(e)
                continue
            assert isinstance(e, Var), "only what a load made is taken page by page"
            skipped = len(shape) - len(own)
            place = [index(0) if n == 1 else at[skipped + i] for i, n in enumerate(own[:-2])]
            load = part_of_load(self.loads[e.name], [*(1 for _ in own[:-2]), *own[-2:]], [*place, 0, 0])
            made = Assign((Var(self.names.derived(e.name, "page"), infer_call(load)),), load, s.loc)
            loads.append(made)
            parts.append(made.target)
        return loads, tuple(parts)

    def let(self, s: Assign | Eval, name: str, op: str, args: tuple[Expr, ...], kwargs: tuple[tuple[str, object], ...] = ()) -> Assign:
        call = Call(op, args, kwargs, loc=s.value.loc)  # type: ignore[arg-type, union-attr]
        return Assign((Var(self.names.derived(name, "page"), infer_call(call)),), call, s.loc)


def _blocks(body: Block) -> Iterator[Block]:
    """A block and all blocks in it."""
    yield body
    for s in body:
        for inner in blocks(s):
            yield from _blocks(inner)


def _page_by_page(s: Assign, v: Var) -> bool:
    """True for an op that makes of `v`, its only tile, another one cell by cell."""
    call = s.value
    op = find_op(call.op) if isinstance(call, Call) else None
    if op is None or not isinstance(call, Call) or op.writes or not op.pure:
        return False
    tiles = [a for a in call.args if isinstance(type_of(a), TileType)]
    return (call.op == "tile.move" or op.trait is Trait.POINTWISE) and tiles == [v] and _shape(s.target) == _shape(v)


def _one(shape: tuple[int, ...]) -> tuple[Expr, ...]:
    """The shape of one page."""
    return dims(*(1 for _ in shape[:-2]), *shape[-2:])
