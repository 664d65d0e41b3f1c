"""Random programs about accumulators: products in loops up to three deep, under branches and predicates, into
windows at constant and run-time offsets, of several accumulators with several drains.

    program = random_accumulators(random.Random(7))             # 2-D: windows of any kind, addressable or not
    program = random_accumulators(random.Random(7), deep=True)  # batches too, via tile.batch_matmul_acc, and short

What `deep` adds: pages as windows, at constant and run-time positions, of factors that are valid in some rows; accumulators that a product
starts, everywhere or in one of two arms; epilogues in vector memory.

Every accumulator is written whole first, or by the first trips of its loops, so that most cells are defined
and a product that goes astray is seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, Var, index
from pypto_ir.stmt import TRUE, Assign, Carry, For, Function, If, Program, Return, Yield
from pypto_ir.types import Memory, dims, scalar_var, tensor_type
from tests.generators import control, memory
from tests.generators.builder import Bounded, Builder, Shape, Source, shape_of, tile

#: deepest nest of loops
DEPTH = 3
#: most bytes of an accumulator
MOST = 16_384
_ROWS, _COLUMNS, _K = (16, 32, 48, 16, 64, 32, 16, 32, 8, 16, 48, 24), (32, 64, 16, 48, 128, 64, 96, 24), (16, 8, 32)


@dataclass(slots=True)
class Accumulator:
    """A chain of values that is one accumulator: its current value and what it is multiplied from; `deep` allows more ways to write and
    read it."""

    var: Var
    shape: Shape
    dtype: DType
    k: int
    deep: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)


def random_accumulators(source: Source, deep: bool = False) -> Program:
    """A program of one function; `deep` lets accumulators have batch dims."""
    b = Builder(source, 0)
    accs = [_created(b, deep) for _ in range(b.choose((1, 1, 1, 2) if deep else (1, 1, 2, 3)))]
    for acc in accs:
        if b.chance(60):
            acc.var = product(b, acc, TRUE)
    for _ in range(b.choose((1, 1, 1, 2) if deep else (1, 2, 3))):
        _work(b, accs, b.choose((1, 2, 3, 0)))
    for acc in accs:
        for _ in range(b.choose((1, 1, 1, 2) if deep else (1, 2, 1, 3))):
            drain(b, acc)
    if not memory.outputs(b):
        memory.store(b, accs[0].var)
    outputs = memory.outputs(b)
    b.emit(Return(tuple(b.frames[0].current[p.var.name] for p in outputs)))
    types = tuple(p.var.type for p in outputs)
    function = Function("main", tuple(b.params), types, tuple(b.frames[0].block), b.choose(("InCore", "AIC", "InCore")))
    return Program("accumulators", (function,), b.choose(("ascend910b", "ascend950", None)))


def _created(b: Builder, deep: bool) -> Accumulator:
    batch: Shape = b.choose(((2,), (3,), (2, 2), (1,), ())) if deep else ()
    rows, columns = b.choose(_ROWS), b.choose(_COLUMNS)
    while 4 * rows * columns > MOST // (4 if batch else 1):
        rows = 16
        columns //= 2
    dtype = b.choose((DType.FP16, DType.BF16, DType.FP32, DType.INT8))
    held = DType.INT32 if dtype is DType.INT8 else DType.FP32
    shape = (*batch, rows, columns)
    kwargs = {"dtype": held.value, "target_memory": "Acc"}
    var = b.call("tile.create", [shape], "acc", **kwargs)
    assert var is not None, "an accumulator is created"
    acc = Accumulator(var, shape, dtype, b.choose(_K), deep)
    if deep and b.chance(20):
        acc.var = product(b, acc, None, new=True)
    return acc


# ---- statements --------------------------------------------------------------------------------------------


def _work(b: Builder, accs: list[Accumulator], depth: int) -> None:
    """A nest of `depth` loops with updates in the innermost, and some between."""
    chosen = [acc for acc in accs if b.chance(60)] or [b.choose(accs)]
    if depth:
        _loop(b, chosen, depth)
        return
    for acc in chosen:
        for _ in range(b.choose((1, 1, 2))):
            _branch(b, acc) if b.chance(25) else _update(b, acc, None)


def _loop(b: Builder, accs: list[Accumulator], depth: int) -> None:
    var, trips, step = scalar_var(b.fresh("i")), b.choose((2, 3, 1)), b.choose((1, 16, 1, 32, 8))
    stop: Expr = index(trips * step)
    if step == 1 and b.chance(25):
        stop = b.count(1, trips).var
    inits = [acc.var for acc in accs]
    carries = tuple(Carry(Var(b.fresh("c"), v.type), v) for v in inits)
    with b.block() as frame:
        frame.bounded.append(Bounded(var, 0, (trips - 1) * step))
        for acc, carry in zip(accs, carries, strict=True):
            acc.var = carry.var
        if depth > 1:
            if b.chance(30):
                _update(b, b.choose(accs), Binary("eq", var, index(0)))
            _loop(b, accs, depth - 1)
        else:
            for acc in accs:
                first = Binary("eq", var, index(0)) if b.chance(60) else None
                _branch(b, acc) if b.chance(20) else _update(b, acc, first)
        frame.block.append(Yield(tuple(acc.var for acc in accs)))
        body = tuple(frame.block)
    results = tuple(Var(b.fresh("z"), v.type) for v in inits)
    kind = b.choose(("range", "range", "parallel"))
    b.emit(For(var, index(0), stop, index(step), body, carries, results, kind))
    for acc, result in zip(accs, results, strict=True):
        acc.var = result


def _branch(b: Builder, acc: Accumulator) -> None:
    """Both arms hand on the accumulator, one of them untouched sometimes, or one without what was there before."""
    cond, before = control.condition(b), acc.var
    starts = b.below(4) if acc.deep else 2
    arms = []
    for arm in range(2):
        with b.block() as frame:
            acc.var = before
            if arm == starts:
                acc.var = product(b, acc, None, new=True)
            elif arm == 0 or starts == 0 or b.chance(70):
                _update(b, acc, TRUE if arm == 0 and b.chance(50) else None)
            frame.block.append(Yield((acc.var,)))
            arms.append(tuple(frame.block))
    acc.var = Var(b.fresh("p"), before.type)
    b.emit(If(cond, arms[0], arms[1], (acc.var,)))


def _update(b: Builder, acc: Accumulator, first: Expr | None) -> None:
    share = 70 if acc.rank == 2 else 15 * acc.deep
    acc.var = windowed(b, acc, first) if b.chance(share) else product(b, acc, first)


# ---- products ----------------------------------------------------------------------------------------------


def predicate(b: Builder) -> Expr | None:
    """An init_cond: none, a comparison or true."""
    return b.choose((None, None, control.condition(b), TRUE)) if b.chance(60) else None


def product(b: Builder, acc: Accumulator, first: Expr | None, target: Var | None = None, new: bool = False) -> Var:
    """A product onto the accumulator, or onto a window of it, or one that is a `new` accumulator; a batched factor has batch dims 1
    sometimes, and none where both have the others."""
    into = target or acc.var
    *batch, rows, columns = shape_of(into)
    lead = [tuple(batch), tuple(batch)]
    if batch and b.chance(30):
        lead[b.below(2)] = tuple(1 for _ in batch) if b.chance(60) else ()
    few = (acc.deep or not batch) and not new and b.chance(6)
    left = _factor(b, (*lead[0], rows, acc.k), acc.dtype, b.extent(rows) if few else index(rows))
    right = _factor(b, (*lead[1], acc.k, columns), acc.dtype, index(acc.k))
    if new:
        made = b.call("tile.batch_matmul" if batch else "tile.matmul", [left, right], "m")
        assert made is not None, "a product takes its factors"
        return made
    init = first if first is not None else predicate(b)
    op = "tile.batch_matmul_acc" if batch else "tile.matmul_acc"
    made = b.call(op, [into, left, right, *([init] if init is not None else [])], "m")
    assert made is not None, f"{op} takes its factors"
    return made


def _factor(b: Builder, shape: Shape, dtype: DType, rows: Expr) -> Var:
    """A factor of which the first rows are valid, loaded from where loops take it."""
    sizes, offsets = memory.place(b, shape)
    source = b.parameter(tensor_type(dims(*sizes), dtype), "a")
    valid = (*dims(*shape[:-2]), rows, index(shape[-1]))
    made = b.call("tile.load", [source, offsets, shape, valid], "x", target_memory="Mat")
    assert made is not None, "a window in bounds loads"
    return made


def windowed(b: Builder, acc: Accumulator, first: Expr | None) -> Var:
    """A product onto a window that is put back at the offsets where it was taken."""
    shape, offsets = _window(b, acc.shape)
    part = b.call("tile.slice", [acc.var, shape, offsets], "w")
    assert part is not None, "a window in bounds is sliced"
    made = product(b, acc, first, part)
    result = b.call("tile.assemble", [acc.var, made, offsets], "acc")
    assert result is not None, "a window goes back"
    return result


def _window(b: Builder, shape: Shape) -> tuple[Shape, tuple[Expr, ...]]:
    """Shape and offsets of a window: full height mostly, some rows, one column of blocks, or anywhere; of a batch, a page or a part of
    its columns."""
    *batch, rows, columns = shape
    if batch:
        part = b.choose([columns, columns, *(n for n in (16, 32) if columns % n == 0)])
        at = (*(offset(b, n, 1) for n in batch), index(0), offset(b, columns // part, part))
        return (*(1 for _ in batch), rows, part), at
    blocks = (8,) if b.chance(6) else (32, 16, 64, 48, 24)
    part = b.choose([n for n in blocks if columns % n == 0])
    band = b.choose([n for n in (*blocks, 8) if rows % n == 0][:2])
    match b.below(16):
        case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8:
            return (rows, part), (index(0), offset(b, columns // part, part))
        case 9 | 10:
            return (band, columns), (offset(b, rows // band, band), index(0))
        case 11 | 12 | 13 | 14:
            narrow = min(part, 16)
            return (band, narrow), (offset(b, rows // band, band), offset(b, columns // narrow, narrow))
        case _:
            return (rows, part), (index(0), b.offset(columns - part))


def offset(b: Builder, count: int, pitch: int) -> Expr:
    """One of `count` multiples of `pitch`, as a constant or as an expression of what is known at run time; now and then one that is no
    multiple. A name stands for it sometimes."""
    most = (count - 1) * pitch
    steps = [s.var for s in b.bounded() if s.low >= 0 and s.high < count]
    direct = [s.var for s in b.bounded() if s.low >= 0 and 0 < s.high <= most]
    e: Expr = index(b.below(count) * pitch)
    match b.below(8):
        case 3 | 4 if steps and most:
            e = Binary("mul", b.recent(steps), index(pitch))
        case 5 if direct and b.chance(30):
            e = b.recent(direct)
        case 6 if most:
            e = Binary("mul", b.count(0, count - 1).var, index(pitch))
        case 7 if most:
            e = Binary("mul", Binary("floordiv", b.count(0, most).var, index(pitch)), index(pitch))
    if isinstance(e, Binary) and b.chance(40):
        name = scalar_var(b.fresh("at"))
        b.emit(Assign((name,), e))
        return name
    return e


# ---- drains ------------------------------------------------------------------------------------------------


def drain(b: Builder, acc: Accumulator) -> None:
    """Store an accumulator or a window of it: straight, or by way of another memory."""
    value: Var | None = acc.var
    if acc.rank == 2 and b.chance(50):
        shape, offsets = _window(b, acc.shape)
        if b.chance(30):
            space = b.choose(("Vec", "Mat"))
            value = b.call("tile.extract", [acc.var, *offsets, shape], "e", target_memory=space)
        else:
            value = b.call("tile.slice", [acc.var, shape, offsets], "d")
    if value is not None and tile(value).memory is Memory.ACC and b.chance(20):
        value = b.call("tile.move", [value], "v", target_memory=b.choose(("Vec", "Mat")))
    if value is not None and acc.deep and tile(value).memory is Memory.VEC and b.chance(70):
        value = b.call("tile.muls", [value, b.constant(tile(value).dtype)], "e") or value
    memory.store(b, value if value is not None else acc.var)
