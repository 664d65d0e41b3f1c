"""Row windows of an accumulator that are no pages, as tiles of their own: one for every band of rows.

    acc = create [48, 32]                          acc_band = create [16, 32];  acc_band_1 = create [32, 32]
    w = slice(acc, [32, 32], [16, 0])              w = slice(acc_band_1, [32, 32], [0, 0])
    m = matmul_acc(w, x, y)                        m = matmul_acc(w, x, y)
    acc1 = assemble(acc, m, [16, 0])               acc1 = assemble(acc_band_1, m, [0, 0])
    store(acc1, [r, c], out)                       store(acc_band, [r, c], out);  store(acc1, [r + 16, c], out)

Bands need no common height, no multiple of a box and no room side by side: within its band every window has full height, which the cube
unit can address. Where the windows begin and how high they are must be known, and none may reach from one band into another: half of a
product has nowhere to go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from egraph_rules.chains import Chains, accumulates, in_acc
from egraph_rules.page_parts import factors, plus
from pypto_ir.expr import Expr, MakeTuple, Var, const_int, index
from pypto_ir.names import names_of
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import (
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
    definitions,
    tuple_items,
    uses,
    walk,
)
from pypto_ir.types import TileType, dims, same_dims, tile_type

#: what touches a window of an accumulator
_WINDOWS = ("tile.slice", "tile.extract", "tile.assemble")

#: rows and columns of a box in L0C; at its rows the left side of a product can be cut
BOX = 16


@dataclass(frozen=True, slots=True)
class Bands:
    """The rows at which the bands of a chain begin, and after the last one its height."""

    bounds: tuple[int, ...]

    def heights(self) -> tuple[int, ...]:
        return tuple(b - a for a, b in pairwise(self.bounds))

    def of(self, row: int) -> int:
        """The band that a row is in."""
        return bisect_right(self.bounds[:-1], row) - 1


def bands(members: list[Var], touching: Iterable[Stmt], written: Container[str], stored: Container[str]) -> Bands | str:
    """The bands of a chain whose members have one static shape and are valid everywhere, or why it has none. `written` names the
    slices that a product goes through: with the assembles they make the bands, and all others only read. `stored`
    names those that are stored and nothing else, which may take several bands."""
    t = members[0].type
    assert isinstance(t, TileType) and t.static_shape is not None
    cuts: dict[tuple[int, int], None] = {}
    reads: list[tuple[Stmt, int, int]] = []
    whole: list[Call] = []
    for s in touching:
        call = s.value if isinstance(s, Assign | Eval) and isinstance(s.value, Call) else None
        if call is None:
            if isinstance(s, For | While | If | Yield) or (isinstance(s, Assign) and isinstance(s.value, Var)):
                continue
            return "it is handed to something that reads it as one tile"
        if call.op in _WINDOWS:
            window = _rows(s, call)
            if window is None:
                return "the rows of some window are known at run time only"
            if call.op == "tile.assemble" or definitions(s)[0].name in written:
                cuts[window] = None
            else:
                reads.append((s, *window))
        elif call.op in ("tile.matmul", "tile.matmul_acc"):
            whole.append(call)
        elif call.op != "tile.create" and not (call.op == "tile.store" and len(call.args) == 3):
            return f"{call.op} reads or writes it as one tile"
    height = t.static_shape[0]
    bounds = sorted({0, height, *(row for cut in cuts for row in cut)})
    for start, end in cuts:
        if not 0 <= start < end <= height or bounds.index(end) != bounds.index(start) + 1:
            return f"its rows {start} to {end} overlap other windows in part"
    for s, start, end in reads:
        within = 0 <= start < end <= bounds[bisect_right(bounds[:-1], start)]
        if not within and not (start in bounds and end in bounds and definitions(s)[0].name in stored):
            return f"its rows {start} to {end} are read together and are no part of one tile"
    if whole and (any(b % BOX for b in bounds[:-1]) or not all(map(_cuttable, whole))):
        return "a product writes all of its rows at once"
    return Bands(tuple(bounds))


def only_stored(function: Function) -> set[str]:
    """The windows of which every use is a store of all of it at given offsets."""
    stored: set[str] = set()
    read: set[str] = set()
    for s in walk(function.body):
        match s:
            case (
                Assign(value=Call(op="tile.store", args=(Var() as source, _, _)))
                | Eval(value=Call(op="tile.store", args=(Var() as source, _, _)))
            ):
                stored.add(source.name)
            case _:
                read.update(v.name for v in uses(s))
    return stored - read


def _rows(s: Stmt, call: Call) -> tuple[int, int] | None:
    """First row and end of the window that a slice, an extract or an assemble touches, where they are known."""
    window = call.args[1] if call.op == "tile.assemble" else s.target if isinstance(s, Assign) else None
    at = _at(call)
    t = window.type if isinstance(window, Var) else None
    if not isinstance(t, TileType) or t.static_shape is None or t.rank != 2 or at is None or not same_dims(t.valid, t.shape):
        return None
    start = const_int(at[0])
    return None if start is None else (start, start + t.static_shape[0])


def _at(call: Call) -> tuple[Expr, ...] | None:
    """Row and column of a window, where the call has no more than them."""
    if call.op == "tile.extract":
        return call.args[1:3] if len(call.args) == 4 else None
    return tuple_items(call.args[2]) if len(call.args) == 3 and not call.kwargs else None


def _cuttable(call: Call) -> bool:
    """True where the left side of a product can be cut into rows."""
    left, _ = factors(call)
    return isinstance(left, Var) and isinstance(left.type, TileType) and same_dims(left.type.valid, left.type.shape)


def split_bands(function: Function, found: Chains, planned: dict[str, Bands]) -> Function:
    """The function with the chains of `planned` as a tile for each of their bands."""
    return _Split(function, found, planned).function()


class _Split:
    def __init__(self, function: Function, found: Chains, planned: dict[str, Bands]) -> None:
        self.source, self.found, self.planned = function, found, planned
        self.names = names_of(function)
        #: the tiles of every member of a chain, a band each
        self.tiles: dict[str, tuple[Var, ...]] = {}

    def function(self) -> Function:
        return replace(self.source, body=self.block(self.source.body))

    def plan(self, e: object) -> Bands | None:
        return self.planned.get(self.found.of(e.name)) if isinstance(e, Var) and in_acc(e) else None

    def apart(self, e: Expr) -> bool:
        """True for what is several tiles: a member of a chain, or a window of several bands."""
        return isinstance(e, Var) and e.name in self.tiles

    def define(self, v: Var) -> tuple[Var, ...]:
        """New tiles for all bands of a member; any other name as it is."""
        plan = self.plan(v)
        if plan is None:
            return (v,)
        t = v.type
        assert isinstance(t, TileType) and t.static_shape is not None
        made = (tile_type(dims(rows, t.static_shape[1]), t.dtype, t.memory) for rows in plan.heights())
        self.tiles[v.name] = tuple(Var(self.names.derived(v.name, "band"), m) for m in made)
        return self.tiles[v.name]

    def read(self, e: Expr) -> tuple[Expr, ...]:
        return self.tiles[e.name] if isinstance(e, Var) and self.apart(e) else (e,)

    def block(self, statements: Block) -> Block:
        return tuple(t for s in statements for t in self.statement(s))

    def statement(self, s: Stmt) -> list[Stmt]:
        match s:
            case For(body=body, carries=carries) | While(body=body, carries=carries):
                moved = tuple(Carry(var, init) for c in carries for init, var in zip(self.read(c.init), self.define(c.var), strict=True))
                inner = self.block(body)
                return [replace(s, body=inner, carries=moved, results=self.defined(s.results))]
            case If(then=then, orelse=orelse, results=results):
                arms = self.block(then), None if orelse is None else self.block(orelse)
                return [replace(s, then=arms[0], orelse=arms[1], results=self.defined(results))]
            case Scope(body=body):
                return [replace(s, body=self.block(body))]
            case Yield(values=values):
                return [replace(s, values=tuple(e for v in values for e in self.read(v)))]
            case Assign(value=Var() as source) if self.plan(source) is not None:
                self.tiles[s.target.name] = self.tiles[source.name]
                return []
            case Assign(value=Call() as call):
                return self.call(s, call)
            case Eval(value=Call(op="tile.store") as call) if self.apart(call.args[0]):
                return [replace(s, value=one) for one in self.stores(call)]
        return [s]

    def defined(self, results: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(v for r in results for v in self.define(r))

    def call(self, s: Assign, call: Call) -> list[Stmt]:
        if call.op == "tile.store":
            return self.stored(s, call) if self.apart(call.args[0]) else [s]
        made = call.op in ("tile.create", "tile.matmul", "tile.matmul_acc")
        plan = self.plan(s.target if made else call.args[0] if call.args else None)
        if plan is None:
            return [s]
        match call.op:
            case "tile.create":
                return [
                    replace(s, targets=(v,), value=replace(call, args=(MakeTuple(v.type.shape), *call.args[1:])))  # type: ignore[union-attr]
                    for v in self.define(s.target)
                ]
            case "tile.slice" | "tile.extract" | "tile.assemble":
                return self.window(s, call, plan)
        return self.product(s, call, plan)

    def window(self, s: Assign, call: Call, plan: Bands) -> list[Stmt]:
        """A window of a chain is one of its band, or of several; an assemble makes a new tile of one band, the others stay what they
        were."""
        base, window, *_ = call.args
        at = _at(call)
        assert isinstance(base, Var) and at is not None
        start = const_int(at[0])
        assert start is not None
        band = plan.of(start)
        tile, row = self.tiles[base.name][band], index(start - plan.bounds[band])
        if call.op == "tile.extract":
            return [replace(s, value=replace(call, args=(tile, row, *call.args[2:])))]
        moved = replace(call, args=(tile, window, MakeTuple((row, at[1]))))
        if call.op == "tile.slice":
            t = s.target.type
            assert isinstance(t, TileType) and t.static_shape is not None
            end = start + t.static_shape[0]
            if end > plan.bounds[band + 1]:
                return self.windows(s, call, range(band, plan.bounds.index(end)), t.static_shape[1])
            return [replace(s, value=moved)]
        after = list(self.tiles[base.name])
        after[band] = Var(s.target.name, after[band].type)
        self.tiles[s.target.name] = tuple(after)
        return [replace(s, targets=(after[band],), value=moved)]

    def windows(self, s: Assign, call: Call, of: range, columns: int) -> list[Stmt]:
        """A window of several bands, as one of each."""
        base, at = call.args[0], _at(call)
        assert isinstance(base, Var) and at is not None
        result: list[Stmt] = []
        parts: list[Var] = []
        for tile in (self.tiles[base.name][i] for i in of):
            assert isinstance(tile.type, TileType)
            cut = replace(call, args=(tile, MakeTuple((tile.type.shape[0], index(columns))), MakeTuple((index(0), at[1]))))
            parts.append(Var(self.names.derived(s.target.name, "band"), infer_call(cut)))
            result.append(replace(s, targets=(parts[-1],), value=cut))
        self.tiles[s.target.name] = tuple(parts)
        return result

    def stores(self, call: Call) -> list[Call]:
        """A store of every band, each below the one before."""
        source, at, target = call.args
        *outer, row, column = tuple_items(at) or ()
        result: list[Call] = []
        start = 0
        for tile in self.read(source):
            assert isinstance(tile, Var) and isinstance(tile.type, TileType) and tile.type.static_shape is not None
            result.append(replace(call, args=(tile, MakeTuple((*outer, plus(row, start), column)), target)))
            start += tile.type.static_shape[0]
        return result

    def stored(self, s: Assign, call: Call) -> list[Stmt]:
        """The stores of a chain, each into what the one before has made."""
        result: list[Stmt] = []
        *before, last = self.stores(call)
        target = call.args[2]
        for one in before:
            made = Var(self.names.derived(s.target.name, "band"), s.target.type)
            result.append(Assign((made,), replace(one, args=(*one.args[:2], target)), s.loc))
            target = made
        return [*result, replace(s, value=replace(last, args=(*last.args[:2], target)))]

    def product(self, s: Assign, call: Call, plan: Bands) -> list[Stmt]:
        """A product of the whole accumulator, band by band: rows of the left side go with the bands."""
        left, _ = factors(call)
        assert isinstance(left, Var) and isinstance(left.type, TileType)
        inputs = self.read(call.args[0]) if accumulates(call) else ()
        result: list[Stmt] = []
        for i, made in enumerate(self.define(s.target)):
            shape = MakeTuple((index(plan.heights()[i]), left.type.shape[1]))
            cut = Call("tile.slice", (left, shape, MakeTuple((index(plan.bounds[i]), index(0)))))
            part = Var(self.names.derived(left.name, "band"), infer_call(cut))
            args = tuple(part if a is left else a for a in call.args[len(inputs) and 1 :])
            result.append(Assign((part,), replace(cut, loc=call.loc), s.loc))
            result.append(replace(s, targets=(made,), value=replace(call, args=(*inputs[i : i + 1], *args))))
        return result
