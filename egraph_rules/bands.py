"""Windows of an accumulator that are no pages, as tiles of their own: one for every band of rows, or of columns.

    acc = create [48, 32]                          acc_band = create [16, 32];  acc_band_1 = create [32, 32]
    w = slice(acc, [32, 32], [16, 0])              w = slice(acc_band_1, [32, 32], [0, 0])
    m = matmul_acc(w, x, y)                        m = matmul_acc(w, x, y)
    acc1 = assemble(acc, m, [16, 0])               acc1 = assemble(acc_band_1, m, [0, 0])
    store(acc1, [r, c], out)                       store(acc_band, [r, c], out);  store(acc1, [r + 16, c], out)

Bands need no common height, no multiple of a box and no room side by side: within its band every window has full height, and one of columns
24 to 56 begins at a box, which the cube unit can address. Where the windows begin and how far they reach must be known, and none may reach
from one band into another: half of a product has nowhere to go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from egraph_rules.chain_rebuilding import ChainRebuilder
from egraph_rules.chains import Chains, accumulates, in_acc
from egraph_rules.page_parts import factors, plus
from pypto_ir.expr import Expr, MakeTuple, Var, const_int, index
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import (
    Assign,
    Call,
    Eval,
    For,
    Function,
    If,
    Stmt,
    While,
    Yield,
    definitions,
    tuple_items,
    uses,
    walk,
)
from pypto_ir.types import TileType, same_dims, tile_type

#: what touches a window of an accumulator
_WINDOWS = ("tile.slice", "tile.extract", "tile.assemble")

#: rows and columns of a box in L0C; at its bounds a factor of a product can be cut
BOX = 16


ROWS, COLUMNS = 0, 1
_AXES = ("rows", "columns")


@dataclass(frozen=True, slots=True)
class Bands:
    """The rows (axis 0) or columns (axis 1) at which the bands of a chain begin, and after the last one its extent."""

    axis: int
    bounds: tuple[int, ...]

    def extents(self) -> tuple[int, ...]:
        return tuple(b - a for a, b in pairwise(self.bounds))

    def of(self, position: int) -> int:
        """The band that a row or column is in."""
        return bisect_right(self.bounds[:-1], position) - 1

    def shape(self, t: TileType, extent: Expr | int) -> tuple[Expr, ...]:
        """The shape of a tile, of `extent` along the axis."""
        return self.moved(t.shape, extent)

    def moved(self, position: tuple[Expr, ...], to: Expr | int) -> tuple[Expr, ...]:
        """A shape or position of two dims with another one along the axis."""
        new = index(to) if isinstance(to, int) else to
        return (new, position[1]) if self.axis == ROWS else (position[0], new)


def bands(members: list[Var], touching: Iterable[Stmt], written: Container[str], stored: Container[str], axis: int) -> Bands | str:
    """The bands of a chain whose members have one static shape and are valid everywhere, or why it has none. `written` names the
    slices that a product goes through: with the assembles they make the bands, and all others only read. `stored`
    names those that are stored and nothing else, which may take several bands."""
    t = members[0].type
    assert isinstance(t, TileType) and t.static_shape is not None
    what = _AXES[axis]
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
            window = _reach(s, call, axis)
            if window is None:
                return f"the {what} of some window are known at run time only"
            if call.op == "tile.assemble" or definitions(s)[0].name in written:
                cuts[window] = None
            else:
                reads.append((s, *window))
        elif call.op in ("tile.matmul", "tile.matmul_acc"):
            whole.append(call)
        elif call.op != "tile.create" and not (call.op == "tile.store" and len(call.args) == 3):
            return f"{call.op} reads or writes it as one tile"
    extent = t.static_shape[axis]
    bounds = sorted({0, extent, *(n for cut in cuts for n in cut)})
    for start, end in cuts:
        if not 0 <= start < end <= extent or bounds.index(end) != bounds.index(start) + 1:
            return f"its {what} {start} to {end} overlap other windows in part"
    for s, start, end in reads:
        within = 0 <= start < end <= bounds[bisect_right(bounds[:-1], start)]
        if not within and not (start in bounds and end in bounds and definitions(s)[0].name in stored):
            return f"its {what} {start} to {end} are read together and are no part of one tile"
    if whole and (any(b % BOX for b in bounds[:-1]) or not all(_cuttable(c, axis) for c in whole)):
        return f"a product writes all of its {what} at once"
    return Bands(axis, tuple(bounds))


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


def _reach(s: Stmt, call: Call, axis: int) -> tuple[int, int] | None:
    """First row or column and end of the window that a slice, an extract or an assemble touches, where they are known."""
    window = call.args[1] if call.op == "tile.assemble" else s.target if isinstance(s, Assign) else None
    at = _at(call)
    t = window.type if isinstance(window, Var) else None
    if not isinstance(t, TileType) or t.static_shape is None or t.rank != 2 or at is None or not same_dims(t.valid, t.shape):
        return None
    start = const_int(at[axis])
    return None if start is None else (start, start + t.static_shape[axis])


def _at(call: Call) -> tuple[Expr, ...] | None:
    """Row and column of a window, where the call has no more than them."""
    if call.op == "tile.extract":
        return call.args[1:3] if len(call.args) == 4 else None
    return tuple_items(call.args[2]) if len(call.args) == 3 and not call.kwargs else None


def _cuttable(call: Call, axis: int) -> bool:
    """True where the factor of a product that has its rows, or its columns, can be cut into them."""
    factor = factors(call)[axis]
    return isinstance(factor, Var) and isinstance(factor.type, TileType) and same_dims(factor.type.valid, factor.type.shape)


def split_bands(function: Function, found: Chains, planned: dict[str, Bands]) -> Function:
    """The function with the chains of `planned` as a tile for each of their bands."""
    return _Split(function, found, planned).built()


class _Split(ChainRebuilder):
    """Members of chains, and windows of several bands, as a tile for each band."""

    def __init__(self, function: Function, found: Chains, planned: dict[str, Bands]) -> None:
        super().__init__(function)
        self.found, self.planned = found, planned

    def plan(self, e: object) -> Bands | None:
        return self.planned.get(self.found.of(e.name)) if isinstance(e, Var) and in_acc(e) else None

    def become(self, v: Var) -> tuple[Var, ...] | None:
        plan, t = self.plan(v), v.type
        if plan is None:
            return None
        assert isinstance(t, TileType)
        made = (tile_type(plan.shape(t, extent), t.dtype, t.memory) for extent in plan.extents())
        return tuple(Var(self.names.derived(v.name, "band"), m) for m in made)

    def apart(self, e: Expr) -> bool:
        """True for what is several tiles."""
        return isinstance(e, Var) and e.name in self.tiles

    def call(self, s: Assign | Eval, call: Call) -> list[Stmt]:
        if call.op == "tile.store":
            return self.stored(s, call) if self.apart(call.args[0]) else [s]
        made = call.op in ("tile.create", "tile.matmul", "tile.matmul_acc")
        plan = self.plan(definitions(s)[0] if made else call.args[0] if call.args else None)
        if plan is None or not isinstance(s, Assign):
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
        reach, at = _reach(s, call, plan.axis), _at(call)
        assert isinstance(base, Var) and reach is not None and at is not None
        start, end = reach
        band = plan.of(start)
        tile, inside = self.tiles[base.name][band], plan.moved(at, start - plan.bounds[band])
        if call.op == "tile.extract":
            return [replace(s, value=replace(call, args=(tile, *inside, *call.args[3:])))]
        moved = replace(call, args=(tile, window, MakeTuple(inside)))
        if call.op == "tile.slice":
            if end > plan.bounds[band + 1]:
                return self.windows(s, call, plan, range(band, plan.bounds.index(end)))
            return [replace(s, value=moved)]
        after = list(self.tiles[base.name])
        after[band] = Var(s.target.name, after[band].type)
        self.tiles[s.target.name] = tuple(after)
        return [replace(s, targets=(after[band],), value=moved)]

    def windows(self, s: Assign, call: Call, plan: Bands, of: range) -> list[Stmt]:
        """A window of several bands, as one of each."""
        base, at, t = call.args[0], _at(call), s.target.type
        assert isinstance(base, Var) and at is not None and isinstance(t, TileType)
        result: list[Stmt] = []
        parts: list[Var] = []
        for i in of:
            shape = plan.shape(t, plan.extents()[i])
            cut = replace(call, args=(self.tiles[base.name][i], MakeTuple(shape), MakeTuple(plan.moved(at, 0))))
            parts.append(Var(self.names.derived(s.target.name, "band"), infer_call(cut)))
            result.append(replace(s, targets=(parts[-1],), value=cut))
        self.tiles[s.target.name] = tuple(parts)
        return result

    def stored(self, s: Assign | Eval, call: Call) -> list[Stmt]:
        """The stores of all bands, each behind the one before and into what that has made."""
        source, at, target = call.args
        assert isinstance(source, Var)
        *outer, row, column = tuple_items(at) or ()
        axis = _axis(source, self.tiles[source.name])
        result: list[Stmt] = []
        start, tiles = 0, self.tiles[source.name]
        for i, tile in enumerate(tiles):
            assert isinstance(tile.type, TileType) and tile.type.static_shape is not None
            place = (plus(row, start), column) if axis == ROWS else (row, plus(column, start))
            one = replace(s, value=replace(call, args=(tile, MakeTuple((*outer, *place)), target)))
            start += tile.type.static_shape[axis]
            if isinstance(one, Assign) and i < len(tiles) - 1:
                target = Var(self.names.derived(one.target.name, "band"), one.target.type)
                one = replace(one, targets=(target,), comment=None)
            result.append(one)
        return result

    def product(self, s: Assign, call: Call, plan: Bands) -> list[Stmt]:
        """A product of the whole accumulator, band by band: one factor goes with the bands."""
        factor = factors(call)[plan.axis]
        assert isinstance(factor, Var) and isinstance(factor.type, TileType)
        inputs = self.read(call.args[0]) if accumulates(call) else ()
        result: list[Stmt] = []
        for i, made in enumerate(self.define(s.target)):
            shape, at = plan.shape(factor.type, plan.extents()[i]), plan.moved((index(0), index(0)), plan.bounds[i])
            cut = self.value_at(s, self.names.derived(factor.name, "band"), Call("tile.slice", (factor, MakeTuple(shape), MakeTuple(at))))
            args = tuple(cut.target if a is factor else a for a in call.args[len(inputs) and 1 :])
            result += [cut, replace(s, targets=(made,), value=replace(call, args=(*inputs[i : i + 1], *args)))]
        return result


def _axis(whole: Var, parts: tuple[Var, ...]) -> int:
    """The axis along which a tile is in parts."""
    assert isinstance(whole.type, TileType) and isinstance(parts[0].type, TileType)
    return COLUMNS if same_dims(whole.type.shape[:1], parts[0].type.shape[:1]) else ROWS
