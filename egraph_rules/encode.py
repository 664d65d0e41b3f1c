"""From a function to the e-graph: values become e-nodes, control flow and effects stay outside as a skeleton.

    x = tile.load(..)        value 0: (Load 0)
    y = tile.add(x, x)       value 1: (Op 0 (Data v0 (Data v0 (Nil))))
    out_1 = tile.store(y)    write 0: (Store 0 v1)

What crosses a region (a carried value, a branch's result, a parameter) is a leaf. What control flow hands on is
noted as a handover: one form for init, argument, yield and result.
"""

from __future__ import annotations

from egraph_rules import forms
from egraph_rules.buffers import Versions, buffers, written
from egraph_rules.engine import Commands
from egraph_rules.entries import Encoded
from egraph_rules.loads import ViewEntry, flat_view
from egraph_rules.opened import opened
from egraph_rules.tables import Handover, StoreEntry
from egraph_rules.transposes import swap
from egraph_rules.values import Values
from pypto_ir.expr import Expr, Var, const_int, index
from pypto_ir.linear import normalize
from pypto_ir.ops.registry import Trait, find_op, type_of
from pypto_ir.partition import NoWindow, is_row_run, partition_window, row_boxes
from pypto_ir.regions import collapse_contiguous
from pypto_ir.scale_boxes import is_blocked
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
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
    tuple_items,
    walk,
)  # fmt: skip
from pypto_ir.types import Dims, Memory, TensorType, TileType, same_dims


def is_value(s: Stmt) -> bool:
    """True for statements whose tile value lives in the e-graph: pure tile ops and aliases of tiles. All others are skeleton."""
    if not isinstance(s, Assign) or len(s.targets) != 1 or not isinstance(s.target.type, TileType):
        return False
    if isinstance(s.value, Var):
        return True
    if not isinstance(s.value, Call):
        return False
    op = find_op(s.value.op)
    if op is None or not op.pure or op.trait is Trait.OPAQUE:
        return False
    return all(isinstance(a, Var) for a in s.value.args if isinstance(type_of(a), TileType))


def is_store(s: Stmt) -> bool:
    """True for stores of tiles to global memory, whose lowerings the e-graph holds."""
    if not isinstance(s, Assign | Eval) or not isinstance(s.value, Call) or s.value.op != "tile.store":
        return False
    return all(isinstance(a, Var) for a in (s.value.args[0], s.value.args[2]))


def encode(function: Function, aliased: tuple[tuple[str, str], ...] = ()) -> tuple[Encoded, Commands]:
    """The e-graph commands of a function and the tables that give its numbers their meaning.

    The function has passed the verifier; tiles of rank above 2 have static shapes.
    """
    encoder = _Encoder(Encoded(function, buffers(function, aliased), carried=carried(function)))
    encoder.function()
    return encoder.out, encoder.commands


def carried(function: Function) -> frozenset[str]:
    """Names of the tiles that loops start from, through aliases and reshapes.

    A carry lives in the buffer of its first value, so that two carries that start from equal fills need two of them.
    """
    statements = list(walk(function.body))
    loops = [s for s in statements if isinstance(s, For | While)]
    found = {carry.init.name for s in loops for carry in s.carries if isinstance(carry.init, Var)}
    for s in reversed(statements):
        match s:
            case Assign(targets=(target,), value=Var(name=source) | Call(op="tile.reshape", args=(Var(name=source), *_))):
                if target.name in found:
                    found.add(source)
    return frozenset(found)


class _Encoder:
    def __init__(self, out: Encoded) -> None:
        self.out, self.commands = out, Commands()
        self.versions = Versions(out.buffers)
        self.values = Values(out, self.commands, self.versions)

    def function(self) -> None:
        for param in self.out.function.params:
            if isinstance(param.var.type, TileType):
                self.values.leaf(param.var)
        self.block(self.out.function.body)

    def demand(self, e: Expr, placed: bool = True) -> None:
        """Note that the skeleton reads a value, which may be defined further down (a yield, seen from the loop's head); `placed` tells that
        it needs the rows at their places in the collapse."""
        if isinstance(e, Var) and isinstance(e.type, TileType):
            self.out.demanded[e.name] = None
            if placed:
                self.out.placed.add(e.name)

    # statements

    def block(self, block: Block) -> None:
        for s in block:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        if is_value(s):
            assert isinstance(s, Assign)
            self.values.assign(s.target, s.value)  # type: ignore[arg-type]
            return
        if is_store(s):
            self.store(s)  # type: ignore[arg-type]
            self.versions.bump(written(s, self.out.buffers))
            return
        match s:
            case For(carries=carries, results=results, body=body) | While(carries=carries, results=results, body=body):
                touched = written(s, self.out.buffers)
                yields = yielded(body)
                numbers = []
                for i, carry in enumerate(carries):
                    names = (carry.var, *results[i : i + 1])
                    numbers.append(self.handover(names, (carry.init, *yields[i : i + 1])))
                    if isinstance(carry.var.type, TileType):
                        self.values.leaf(carry.var, numbers[i])
                self.versions.bump(touched)
                self.block(body)
                self.versions.bump(touched)
                for var, number in zip(results, numbers, strict=False):
                    if isinstance(var.type, TileType):
                        self.values.leaf(var, number)
            case If(then=then, orelse=orelse, results=results):
                before = self.versions.snapshot()
                for arm in (then, orelse or ()):
                    self.versions.restore(before)
                    self.block(arm)
                self.versions.restore(before)
                self.versions.bump(written(s, self.out.buffers))
                for i, var in enumerate(results):
                    sources = tuple(yielded(arm)[i] for arm in (then, orelse or ()) if i < len(yielded(arm)))
                    number = self.handover((var,), sources)
                    if isinstance(var.type, TileType):
                        self.values.leaf(var, number)
            case Scope(body=body):
                self.block(body)
            case Return(values=values):
                for value in values:
                    self.demand(value)
            case Assign(targets=targets, value=value):
                self.operands(value)
                self.versions.bump(written(s, self.out.buffers))
                for target in targets:
                    if isinstance(target.type, TileType):
                        self.values.leaf(target)
            case Eval(value=value):
                self.operands(value)
                self.versions.bump(written(s, self.out.buffers))

    def handover(self, names: tuple[Var, ...], sources: tuple[Expr, ...]) -> int | None:
        """The number of a handover of tiles whose form may be chosen: rank above 2, and every source a value of the function."""
        first = names[0].type
        if not isinstance(first, TileType) or first.rank <= 2 or not all(isinstance(e, Var) for e in sources):
            for e in sources:
                self.demand(e)
            return None
        regions = {tuple(map(normalize, t.valid)) for e in (*names, *sources) if isinstance(t := type_of(e), TileType)}
        handover = Handover(tuple(v.name for v in names), tuple(e.name for e in sources if isinstance(e, Var)), len(regions) == 1)
        self.out.handovers.append(handover)
        return len(self.out.handovers) - 1

    def operands(self, value: object) -> None:
        # the row of a cell may be counted among those that are valid: one that is not is undefined
        placed = not (isinstance(value, Call) and value.op == "tile.read")
        for e in getattr(value, "args", ()):
            for part in tuple_items(e) or (e,):
                self.demand(part, placed)

    # effects

    def store(self, s: Assign | Eval) -> None:
        call = s.value
        assert isinstance(call, Call)
        source, target = call.args[0], call.args[2]
        name = s.target.name if isinstance(s, Assign) else None
        assert isinstance(source, Var) and isinstance(source.type, TileType) and isinstance(target, Var)
        assert isinstance(target.type, TensorType)
        window, refusal = _window(call, source.type, target.type)
        offsets = tuple_items(call.args[1]) or ()
        run = refusal is not None and is_row_run(source.type.valid, target.type.shape, offsets)
        boxes = row_boxes(source.type.valid, target.type.shape, offsets) if run else None
        entry = StoreEntry(call, name, source.type, window, refusal, _view(s, call, source.type, window, run), boxes or ())
        number, c = len(self.out.tables.stores), self.commands
        self.out.tables.stores.items.append(entry)
        self.out.stores[id(s)] = number
        c.set("write", number, c.call("Store", number, self.values.value(source.name)))
        if entry.refusal is None:
            c.fact("box", number)
        if source.type.dtype is target.type.dtype:
            c.fact("stored-as-is", number)
        if source.type.rank > 2 and _by_pages(call, source.type, target.type, window):
            c.fact("store-pages", number)
        elif entry.view is not None:
            c.set("store-pages-in", number, self.out.tables.views.number(entry.view))
        if entry.view is not None and (run or source.type.memory is Memory.ACC):
            c.set("store-in", number, self.out.tables.views.number(entry.view))
        moved = self.values.transposes.swapped.get(source.name)
        if moved is not None and _by_pages(call, source.type, target.type, window) and moved[2][1] < source.type.rank - 1:
            # pages of what was transposed go along the axes that the transpose puts them on
            op, given, axes = moved
            assert isinstance(given.type, TileType)
            order = swap(tuple(range(given.type.rank)), axes)
            self.out.tables.stores.items.append(StoreEntry(call, name, opened(given.type), order=order))
            c.set("moved-store", number, op, number + 1)
            c.fact("store-pages", number + 1)
        if boxes and all(_starts_a_block(source.type, box.first) for box in boxes):
            c.fact("store-boxes", number)
        if len(call.args) == 3 and source.type.rank == target.type.rank == 2:
            c.fact("store-bands", number)


def _by_pages(call: Call, tile: TileType, target: TensorType, window: Dims | None) -> bool:
    """True where page b of a tile goes to the target's position o + b: the target has the tile's axes, behind others."""
    if target.rank < tile.rank or is_blocked(target):
        return False
    if len(call.args) == 3 and target.rank == tile.rank:
        return True
    box = tuple_items(call.args[3]) if len(call.args) > 3 else window
    return box is not None and same_dims(box, (*(index(1) for _ in range(target.rank - tile.rank)), *tile.valid))


def _starts_a_block(tile: TileType, row: int) -> bool:
    """True where a row of the flat form starts at a 32-byte multiple, as views do."""
    columns = const_int(tile.shape[-1])
    return columns is not None and row * columns * tile.dtype.bytes % forms.VIEW_BYTES == 0


def _view(s: Assign | Eval, call: Call, tile: TileType, window: Dims | None, run: bool) -> ViewEntry | None:
    """The 2-D view of a store's target in which what is stored is one run of rows; None where there is none. `run` tells that the rows
    go one after another without filling a box."""
    target = call.args[2]
    view = flat_view(target)
    assert isinstance(target, Var) and isinstance(target.type, TensorType)
    if view is None or view.valid is not None or (isinstance(s, Assign) and s.target.type != target.type):
        return None
    if run:
        return view
    box = tuple_items(call.args[3]) if len(call.args) > 3 else window
    if box is None and tile.rank != target.type.rank:
        return None
    return view if collapse_contiguous(box or tile.valid, target.type.shape) else None


def yielded(block: Block) -> tuple[Expr, ...]:
    """What a block hands on."""
    last = terminator(block)
    return last.values if isinstance(last, Yield) else ()


def _window(call: Call, tile: TileType, target: TensorType) -> tuple[Dims | None, str | None]:
    """The box operand that the flat form of a store needs, or why it has none. A box that is given is kept, and blocked scales take the
    boxes that their tile holds."""
    offsets = tuple_items(call.args[1])
    if len(call.args) > 3 or target.rank <= 2 or offsets is None or is_blocked(target):
        return None, None
    found = partition_window(tile.valid, target.shape, offsets)
    return (None, found.reason) if isinstance(found, NoWindow) else (found, None)
