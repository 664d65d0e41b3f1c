"""Loops over K once for every group of pages, where L0C cannot hold all pages of an accumulator at a time.

    acc = create [8, 64, 256]                      for each group of g pages, b = 0, g, ..:
    for k carry c = acc:                             acc = create [g, 64, 256]
        a = load(x, [0, 0, k], [8, 64, 32])          for k carry c = acc:
        b = load(y, [0, k, 0], [8, 32, 256])             a = load(x, [b, 0, k], [g, 64, 32])
        m = batch_matmul_acc(c, a, b)                    b = load(y, [b, k, 0], [g, 32, 256])
        yield m                                          m = batch_matmul_acc(c, a, b)
    store(r, [o, 0, 0], out)                             yield m
                                                     store(r, [o + b, 0, 0], out)

Pages of a batched product do not see each other, so the loop may run for some of them first. It is written out as an author would: the
loop may hold nothing but scalars, loads of parameters that the function does not write, and products of the accumulator; between its first
and its last statement stands nothing else that reads or writes memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

from egraph_rules.chains import Chains, chains, in_acc
from egraph_rules.page_parts import Aliased, factors, part_of_load, plus, readable, whole_loads
from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, MakeTuple, Var
from pypto_ir.names import names_of
from pypto_ir.ops.registry import find_op, type_of
from pypto_ir.ops.rules import infer_call
from pypto_ir.rebuilding import Rebuilder
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
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
from pypto_ir.types import TensorType, TileType, Type, dims, same_dims, tile_type

Shape = tuple[int, ...]


def split_page_loops(function: Function, capacity: int, acc_rows: Callable[[DType], int], aliased: Aliased = ()) -> Function:
    """The function with accumulators of more than `capacity` bytes written out by groups of pages; the same object where none is, or
    none can be. L0C pads a tile to a multiple of `acc_rows` rows; `aliased` are parameters that may be one tensor."""
    if not any(isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.batch_matmul_acc" for s in walk(function.body)):
        return function
    found = chains(function)
    large: dict[str, Shape] = {}
    for s in walk(function.body):
        for v in definitions(s):
            group = _group(v, capacity, acc_rows)
            if group is not None:
                large.setdefault(found.of(v.name), group)
    for chain, group in large.items():
        function = _Splitter(function, found, chain, group, aliased).function()
    return function


def _group(v: Var, capacity: int, acc_rows: Callable[[DType], int]) -> Shape | None:
    """Batch dims of the largest group of pages of an accumulator that fits, where not all of them do."""
    t = v.type
    if not in_acc(v) or not isinstance(t, TileType) or t.static_shape is None or t.rank < 3 or not same_dims(t.valid, t.shape):
        return None
    *batch, rows, columns = t.static_shape
    unit = acc_rows(t.dtype)
    held = -(-rows // unit) * unit * columns * t.dtype.bytes
    fits = capacity // held
    if fits == 0:
        return None
    group: list[int] = []
    for extent in reversed(batch):
        most = max(n for n in range(1, extent + 1) if extent % n == 0 and n <= fits) if _all_whole(group, batch) else 1
        group.insert(0, most)
        fits //= most
    return None if group == batch else tuple(group)


def _all_whole(group: list[int], batch: list[int]) -> bool:
    """True where a group takes its inner batch dims as a whole, so that it may take some of the next one."""
    return not group or group == batch[len(batch) - len(group) :]


class _Splitter:
    """Writes the block that an accumulator lives in anew, its statements once for each group of pages."""

    def __init__(self, function: Function, found: Chains, chain: str, group: Shape, aliased: Aliased) -> None:
        self.source, self.found, self.chain, self.group = function, found, chain, group
        self.readable = readable(function, aliased)
        #: the tensor that a store's result is, by name
        self.root: dict[str, str] = {}
        self.loads = whole_loads(function)
        for s in walk(function.body):
            match s:
                case Assign(value=Call(op="tile.store", args=(_, _, Var() as target, *_))):
                    self.root[s.target.name] = self.root.get(target.name, target.name)
        self.names = names_of(function)

    def function(self) -> Function:
        body = self.block(self.source.body)
        return self.source if body is self.source.body else replace(self.source, body=body)

    def member(self, e: object) -> bool:
        return isinstance(e, Var) and in_acc(e) and self.found.of(e.name) == self.chain

    def touches(self, s: Stmt) -> bool:
        return any(map(self.member, (*definitions(s), *uses(s))))

    def within(self, s: Stmt) -> bool:
        return any(self.touches(t) for t in walk((s,)))

    def block(self, statements: Block) -> Block:
        """A block with the chain written out, where all of the chain stands in it and may be."""
        own = [i for i, s in enumerate(statements) if self.within(s)]
        if len(own) == 1 and blocks(statements[own[0]]) and not self.touches(statements[own[0]]):
            s = statements[own[0]]
            inner = self.inside(s)
            return statements if inner is s else (*statements[: own[0]], inner, *statements[own[0] + 1 :])
        first, last = own[0], own[-1]
        if not self.splittable(statements, own):
            return statements
        rest = [s for i, s in enumerate(statements[first:last], first) if i not in own]
        copies = tuple(self.copies([statements[i] for i in own]))
        return (*statements[:first], *rest, *copies, *statements[last + 1 :])

    def inside(self, s: Stmt) -> Stmt:
        """A statement around the block that holds the chain."""
        if isinstance(s, If):
            then, orelse = s.then, s.orelse
            if any(map(self.within, then)):
                then = self.block(then)
            elif orelse is not None:
                orelse = self.block(orelse)
            return s if then is s.then and orelse is s.orelse else replace(s, then=then, orelse=orelse)
        assert isinstance(s, For | While | Scope)
        body = self.block(s.body)
        return s if body is s.body else replace(s, body=body)

    # what may be written out

    def splittable(self, statements: Block, own: list[int]) -> bool:
        chosen = [statements[i] for i in own]
        made = {v.name for s in chosen for v in definitions(s)}
        between = [statements[i] for i in range(own[0], own[-1]) if i not in own]
        if not any(isinstance(s, For | While) for s in chosen) or not all(self.plain(s) for s in walk(tuple(chosen))):
            return False
        return all(self.pure(t) and not any(v.name in made for v in uses(t)) for s in between for t in walk((s,)))

    def plain(self, s: Stmt) -> bool:
        """True for a statement that can be repeated for some pages."""
        match s:
            case For(carries=carries, results=results) | While(carries=carries, results=results):
                return all(self.carried(v) for v in (*(c.var for c in carries), *results))
            case If(results=results):
                return all(map(self.carried, results))
            case Yield(values=values):
                return all(map(self.carried, values))
            case Assign(value=Var() as source) if self.member(source):
                return True
            case Assign(value=Call(op="tile.store", args=args)) if self.member(args[0]):
                return len(args) == 3 and len(tuple_items(args[1]) or ()) == len(args[0].type.shape)  # type: ignore[union-attr]
            case Assign(value=Call(op="tile.create")) if self.member(s.target):
                return True
            case Assign(value=Call(op="tile.batch_matmul" | "tile.batch_matmul_acc") as call) if self.member(s.target):
                return all(isinstance(e, Var) and isinstance(e.type, TileType) and e.type.rank >= 2 for e in factors(call))
        return self.pure(s) and not self.touches(s)

    def carried(self, e: Expr) -> bool:
        """True for what the copies may hand on: pages of the chain, and scalars, which are the same in all of them."""
        return self.member(e) or not isinstance(type_of(e), TileType | TensorType)

    def pure(self, s: Stmt) -> bool:
        """True for what computes a new value, and for loads of what the function does not write."""
        match s:
            case Assign(value=Call(op="tile.load", args=args)):
                return isinstance(args[0], Var) and args[0].name in self.readable
            case Assign(value=Call(op=op)):
                known = find_op(op)
                return known is not None and known.pure and not known.writes and not known.reads_memory
            case Assign(value=value):
                return isinstance(value, Expr)
            case For(carries=(), results=()) | If(results=()) | Yield():
                return True
        return False

    # the copies

    def copies(self, chosen: list[Stmt]) -> Iterator[Stmt]:
        """The statements of a chain for each group of pages; the last copy has the author's names."""
        t = next(v.type for s in chosen for v in definitions(s) if self.member(v))
        assert isinstance(t, TileType) and t.static_shape is not None
        batch = t.static_shape[:-2]
        starts = list(product(*(range(0, extent, step) for extent, step in zip(batch, self.group, strict=True))))
        targets: dict[str, Var] = {}
        for start in starts:
            copy = _Copy(self, start, targets, last=start == starts[-1])
            yield from copy.block(tuple(chosen))


class _Copy(Rebuilder):
    """One group of pages: chain types of the group, factors cut to it, stores below where the group begins. `targets` are the tensors as
    the copies before have left them."""

    def __init__(self, split: _Splitter, start: Shape, targets: dict[str, Var], last: bool) -> None:
        self.split, self.start, self.targets, self.last = split, start, targets, last
        self.renamed: dict[str, str] = {}

    def define(self, name: str) -> str:
        if not self.last:
            self.renamed[name] = self.split.names.derived(name, "group")
        return self.renamed.get(name, name)

    def var(self, v: Var) -> Var:
        t = self.paged(v.type) if self.split.member(v) else v.type
        return Var(self.renamed.get(v.name, v.name), t)

    def paged(self, t: Type) -> Type:
        assert isinstance(t, TileType) and t.static_shape is not None
        return tile_type(dims(*self.split.group, *t.static_shape[-2:]), t.dtype, t.memory)

    def block(self, block: Block) -> Block:
        return tuple(t for s in block for t in self.statements(s))

    def statements(self, s: Stmt) -> list[Stmt]:
        before: list[Stmt] = []
        match s:
            case Assign(value=Call() as call) if self.split.member(s.target):
                s = replace(s, value=self.made(s, call, before))
            case Assign(value=Call(op="tile.store") as call):
                return [self.stored(s, call)]
        for v in definitions(s):
            self.define(v.name)
        return [*before, self.statement(s)]

    def made(self, s: Assign, call: Call, before: list[Stmt]) -> Call:
        """A create or a product of the group; the cuts of its factors go to `before`."""
        if call.op == "tile.create":
            t = self.paged(s.target.type)
            return replace(call, args=(MakeTuple(t.shape), *call.args[1:]))  # type: ignore[union-attr]
        cuts = {e: self.cut(s, e, before) for e in factors(call) if isinstance(e, Var)}
        return replace(call, args=tuple(cuts.get(a, a) if isinstance(a, Var) and not self.split.member(a) else a for a in call.args))

    def cut(self, s: Assign, e: Var, before: list[Stmt]) -> Var:
        """The pages of a factor that the group reads: all of it along batch dims that it does not have or has once."""
        t = e.type
        assert isinstance(t, TileType) and t.static_shape is not None
        *batch, rows, columns = t.static_shape
        skipped = len(self.start) - len(batch)
        at = [0 if n == 1 else self.start[skipped + i] for i, n in enumerate(batch)]
        shape = [1 if n == 1 else self.split.group[skipped + i] for i, n in enumerate(batch)]
        if shape == batch:
            return e
        call = self.window(e, (*shape, rows, columns), (*at, 0, 0))
        name = self.split.names.derived(self.renamed.get(e.name, e.name), "pages")
        made = Var(name, infer_call(call))
        before.append(Assign((made,), replace(call, loc=s.value.loc), s.loc))  # type: ignore[union-attr]
        return made

    def window(self, e: Var, shape: Shape, at: Shape) -> Call:
        """A part of a factor: a load of less where a load made it, whose own value nothing needs then."""
        load = self.split.loads.get(e.name)
        if load is None:
            return Call("tile.slice", (self.var(e), MakeTuple(dims(*shape)), MakeTuple(dims(*at))))
        return part_of_load(replace(load, args=tuple(map(self.expr, load.args))), shape, at)

    def stored(self, s: Assign, call: Call) -> Stmt:
        """The store of a group, into what the group before has left."""
        source, offsets, target = call.args
        assert isinstance(target, Var)
        at = tuple_items(offsets) or ()
        moved = tuple(plus(e, n) for e, n in zip(at, (*self.start, 0, 0), strict=True))
        root = self.split.root.get(target.name, target.name)
        into = self.targets.get(root, target)
        made = Var(self.define(s.target.name), s.target.type)
        self.targets[root] = made
        return replace(s, targets=(made,), value=replace(call, args=(self.var(source), MakeTuple(moved), into)))  # type: ignore[arg-type]
