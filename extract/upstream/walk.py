"""The walk over a function (`spec/flatten.md` 5.6): each statement by its kind, control flow with what it hands on.

A loop whose init has become [6, 4] carries [6, 4]; its results have the types of its carried names, a branch's those of what its first
arm yields.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from egraph_rules import forms
from egraph_rules.encode import yielded
from extract.upstream import loads, ops, products
from extract.upstream.routing import Routing, routing
from extract.upstream.state import State, Stop, handed
from extract.upstream.stores import store
from pypto_ir.diagnostics import declare
from pypto_ir.expr import Expr, Var
from pypto_ir.ops.registry import dims_text, type_of
from pypto_ir.stmt import Assign, Block, Call, Carry, Eval, For, If, Return, Scope, Stmt, While, Yield, definitions
from pypto_ir.types import Memory, TileType

declare(L413="upstream: a tile of rank above 2 that no rule lowers")


class Walk:
    """One walk; `counts` are the uses of every name in the function."""

    def __init__(self, state: State, counts: Counter[str]) -> None:
        self.state, self.counts = state, counts

    def block(self, block: Block) -> Block:
        state = self.state
        saved = state.inside()
        found = routing(block, self.counts, state.target.capacity(Memory.MAT), state.buffers)
        taken = False
        for i, s in enumerate(block):
            if taken:
                taken = False
                continue
            state.comment = s.comment
            try:
                taken = self.statement(s, found, block[i + 1] if i + 1 < len(block) else None)
            except Stop as stop:
                state.bag.add(stop.code, stop.message, state.place(s), stop.help)
                self.hope(s)
        return state.outside(saved)

    def hope(self, s: Stmt) -> None:
        """Go on behind a statement that has no lowering as if it had one, so that all of them are found."""
        for v in definitions(s):
            if isinstance(v.type, TileType) and v.type.rank > 2:
                self.state.env[v.name] = Var(v.name, forms.flat_type(v.type))

    def statement(self, s: Stmt, found: Routing, follows: Stmt | None) -> bool:
        """Lower a statement; True where the next one was taken with it."""
        match s:
            case Assign(value=Call() as call):
                return self.call(s, call, found, follows)
            case Assign():
                ops.generic(self.state, s)
            case Eval(value=Call(op="tile.store") as call):
                store(self.state, s, call)
            case Eval():
                ops.evaluated(self.state, s)
            case For() | While():
                self.loop(s)
            case If():
                self.branch(s)
            case Scope():
                self.scope(s)
            case Return(values=values) | Yield(values=values):
                new = self.state.exprs(values)
                for e in new if isinstance(s, Return) else ():
                    self.whole(e)
                self.state.put(s if new is values else replace(s, values=new))
            case _:
                self.state.put(s)
        return False

    def call(self, s: Assign, call: Call, found: Routing, follows: Stmt | None) -> bool:
        state, name = self.state, s.target.name
        early = found.early.get(name)
        if early is not None:
            loads.load_early(state, early)
        if name in found.drop and call.op != "tile.transpose":
            return False
        only = name in found.only
        match call.op:
            case "tile.load":
                loads.load(state, s, call, only and loads.is_pending(s, call))
            case "tile.store":
                store(state, s, call)
            case "tile.create" | "tile.full":
                ops.fill(state, s, call)
            case "tile.assemble":
                ops.assemble(state, s, call)
            case "tile.slice":
                ops.window(state, s, call)
            case "tile.transpose":
                ops.transpose(state, s, call, only)
            case "tile.transpose_view":
                ops.transpose_view(state, s, call)
            case "tile.reshape" | "tile.reinterpret_view":
                ops.reshape(state, s, call, only)
            case "tile.batch_matmul":
                return products.product(state, s, found, self.store_of(s, follows))
            case "tile.batch_matmul_acc":
                products.accumulated(state, s, found)
            case _:
                ops.generic(state, s)
        return False

    def store_of(self, s: Assign, follows: Stmt | None) -> Assign | None:
        """The next statement, where it stores a product that nothing else reads."""
        match follows:
            case Assign(value=Call(op="tile.store", args=(Var(name=name), *_))) if name == s.target.name:
                if self.counts[name] == 1:
                    return follows
                self.state.fault(s, f"upstream stores {name} at once although it is read again, and then reads what no longer exists")
        return None

    # control flow

    def loop(self, s: For | While) -> None:
        state = self.state
        inits = state.exprs(tuple(c.init for c in s.carries))
        if isinstance(s, For):
            bounds, attrs = state.exprs((s.start, s.stop, s.step)), state.keywords(s.attrs)
            if not same(bounds, (s.start, s.stop, s.step)) or attrs is not s.attrs:
                s = replace(s, start=bounds[0], stop=bounds[1], step=bounds[2], attrs=attrs)
        carries = tuple(self.carry(c, init) for c, init in zip(s.carries, inits, strict=True))
        if isinstance(s, While) and (cond := state.expr(s.cond)) is not s.cond:
            s = replace(s, cond=cond)
        comment, state.comment = state.comment, None
        body = self.block(s.body)
        results = tuple(self.received(r, c.var) for r, c in zip(s.results, carries, strict=False))
        results = (*results, *s.results[len(results) :])
        state.comment = comment
        if not (same(carries, s.carries) and same(body, s.body) and same(results, s.results)):
            s = replace(s, carries=carries, body=body, results=results)
        state.put(s)

    def carry(self, c: Carry, init: Expr) -> Carry:
        var = self.received(c.var, init) if init is not c.init else c.var
        return c if var is c.var and init is c.init else Carry(var, init)

    def branch(self, s: If) -> None:
        state = self.state
        cond = state.expr(s.cond)
        comment, state.comment = state.comment, None
        then = self.block(s.then)
        orelse = None if s.orelse is None else self.block(s.orelse)
        first, second = yielded(then), yielded(orelse or ())
        for value in (*first, *second):
            self.whole(value)
        results = tuple(self.received(r, v) for r, v in zip(s.results, first or second, strict=False))
        results = (*results, *s.results[len(results) :])
        state.comment = comment
        if cond is not s.cond or not (same(then, s.then) and same(orelse or (), s.orelse or ()) and same(results, s.results)):
            s = replace(s, cond=cond, then=then, orelse=orelse, results=results)
        state.put(s)

    def scope(self, s: Scope) -> None:
        comment, self.state.comment = self.state.comment, None
        body, attrs = self.block(s.body), self.state.keywords(s.attrs)
        self.state.comment = comment
        self.state.put(s if same(body, s.body) and attrs is s.attrs else replace(s, body=body, attrs=attrs))

    def received(self, var: Var, value: Expr) -> Var:
        """A carried name or result with the type of what it is handed."""
        self.whole(value)
        wanted = type_of(value) if var.name in self.state.packed else var.type
        if isinstance(wanted, TileType) and wanted.static_shape is not None:
            wanted = forms.flat_type(wanted)
        new = handed(var, value, wanted)
        if new is not var:
            self.state.env[var.name] = new
        return new

    def whole(self, value: Expr) -> None:
        if isinstance(value, Var) and value.name in self.state.columns and isinstance(value.type, TileType):
            raise Stop(
                "L416",
                f"{value.name} is a transposed view {dims_text(value.type.shape)} whose pages stand side by side, and is handed on",
                "take the view where the product is",
            )


def same(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    """True where two tuples hold the very same objects."""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
