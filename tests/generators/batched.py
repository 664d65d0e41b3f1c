"""Random programs of batched products: batches that broadcast, operands in every form, accumulations, drains of every kind.

    program = random_batched(random.Random(7))
    program = random_batched(random.Random(7), near=True)   # tiles whose sum is close to what L1, L0C or UB hold
    program = random_batched(random.Random(7), large=True)  # batches whose code is more than the instruction cache holds

An operand [2, 16, 32] is a load of that shape, of [2, 32, 16] and a transposed view, a page of a larger tile, rows of one, a reshape of
[1, 2, 16, 32], or what an earlier product read. Its tensor lies row by row, column by column or in boxes, with gaps between pages or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, Var, index
from pypto_ir.stmt import TRUE, Assign, Carry, For, Function, If, Program, Return, Yield
from pypto_ir.types import Layout, Memory, TensorView, dims, scalar_var, tensor_type
from tests.generators import control, memory
from tests.generators.builder import Bounded, Builder, Shape, Source, shape_of, tile

#: batch dims, and rows, inner dim and columns of a product; near the limits the latter are large
_BATCHES: tuple[Shape, ...] = ((2,), (3,), (1,), (2, 2), (1, 2), (2, 1), (2, 3), (4,), ())
_MANY: tuple[Shape, ...] = ((40,), (5, 8), (64,), (8, 1, 6), (48,))
#: pairs of factors that are drawn for a product: cut ones may not meet
_TRIES = 20
_SMALL = ((16, 8, 32), (16, 32), (16, 32, 64, 24))
_LARGE = ((64, 128, 32), (256, 512, 128), (128, 256, 64))
#: most bytes of the flat form of one operand near the limits: more than L1 holds are loaded by pages
_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class Product:
    """The dims of a product: batch, rows, inner dim, columns, and the dtype of its factors."""

    batch: Shape
    m: int
    k: int
    n: int
    dtype: DType

    @property
    def shape(self) -> Shape:
        return (*self.batch, self.m, self.n)

    @property
    def held(self) -> DType:
        """The dtype of the accumulator."""
        return DType.INT32 if self.dtype is DType.INT8 else DType.FP32


@dataclass(slots=True)
class _Drawing:
    """A function in the making: `operands` are those that a later product may read again. A `simple` one has the operands and drains
    that upstream lowers rightly for the most part."""

    b: Builder
    near: bool
    simple: bool
    operands: list[Var] = field(default_factory=list)
    large: bool = False


def random_batched(source: Source, near: bool = False, large: bool = False) -> Program:
    """A program of one function and up to three products, accumulations or loops of them."""
    b = Builder(source, 0)
    d = _Drawing(b, near, b.chance(45), large=large)
    for _ in range(b.choose((1, 1, 2) if near or large else (1, 2, 1, 3))):
        b.choose((_products, _products, _products, _accumulation, _k_loop, _looped, _transposed))(d)
    outputs = memory.outputs(b)
    b.emit(Return(tuple(b.frames[0].current[p.var.name] for p in outputs)))
    types = tuple(p.var.type for p in outputs)
    function = Function("main", tuple(b.params), types, tuple(b.frames[0].block), b.choose(("InCore", "AIC", "InCore")))
    targets = ("ascend910b", "ascend950") if near or large else ("ascend910b", "ascend950", None)
    return Program("batched", (function,), b.choose(targets))


def _drawn(d: _Drawing) -> Product:
    b = d.b
    batch, (m, k, n) = b.choose(_MANY if d.large else _BATCHES), map(b.choose, _LARGE if d.near else _SMALL)
    dtype = b.choose((DType.FP16, DType.BF16, DType.FP16, DType.FP32, DType.INT8))
    if d.simple:
        m, n = max(m, 16), n // 16 * 16
    while d.near and prod(batch) * max(m * k, k * n) * dtype.bytes > _MOST:
        k //= 2
    return Product(batch, m, k, n, dtype)


# ---- statements --------------------------------------------------------------------------------------------


def _products(d: _Drawing) -> None:
    """One product or two of the same dims, which share an operand mostly, each drained at once or after both."""
    p, made = _drawn(d), []
    for _ in range(d.b.choose((1, 1, 2))):
        made.append(_multiplied(d, p))
        if d.simple or d.b.chance(60):
            _drain(d, made.pop())
    for result in made:
        _drain(d, result)


def _multiplied(d: _Drawing, p: Product, at: Expr | None = None, span: int = 0) -> Var:
    for _ in range(_TRIES):
        result = d.b.call("tile.batch_matmul", _factors(d, p, at, span), "p")
        if result is not None:
            return result
    raise AssertionError("a product takes its factors")


def _accumulation(d: _Drawing) -> None:
    """Products one after the other onto an accumulator that is created or starts as a product."""
    b, p = d.b, _drawn(d)
    created = b.chance(50)
    acc = _created(d, p) if created else _multiplied(d, p)
    for i in range(b.choose((1, 2, 1))):
        acc = _added(d, p, acc, TRUE if created and i == 0 else None)
    _drain(d, acc)


def _created(d: _Drawing, p: Product) -> Var:
    acc = d.b.call("tile.create", [p.shape], "acc", dtype=p.held.value, target_memory="Acc")
    assert acc is not None, "an accumulator is created"
    return acc


def _added(d: _Drawing, p: Product, acc: Var, first: Expr | None, at: Expr | None = None, span: int = 0) -> Var:
    init = [first] if first is not None else []
    result = d.b.call("tile.batch_matmul_acc", [acc, *_factors(d, p, at, span), *init], "acc")
    assert result is not None, "an accumulation takes its factors"
    return result


def _k_loop(d: _Drawing) -> None:
    """An accumulator carried through a loop over K, whose first trip starts it, by a predicate or in an arm."""
    b, p = d.b, _drawn(d)
    trips, seed, known = b.choose((2, 3)), _created(d, p), len(d.operands)
    var, carry = scalar_var(b.fresh("k")), Var(b.fresh("c"), seed.type)
    first = Binary("eq", var, index(0))
    with b.block() as frame:
        frame.bounded.append(Bounded(var, 0, (trips - 1) * p.k))
        acc = _branch(d, p, carry, first, var, trips * p.k) if b.chance(25) else _added(d, p, carry, first, var, trips * p.k)
        frame.block.append(Yield((acc,)))
    del d.operands[known:]
    result = Var(b.fresh("z"), seed.type)
    b.emit(For(var, index(0), index(trips * p.k), index(p.k), tuple(frame.block), (Carry(carry, seed),), (result,)))
    _drain(d, result)


def _branch(d: _Drawing, p: Product, acc: Var, cond: Expr, at: Expr, span: int) -> Var:
    b, arms, known = d.b, [], len(d.operands)
    for first in (cond, None):
        with b.block() as frame:
            frame.block.append(Yield((_added(d, p, acc, first, at, span),)))
        arms.append(tuple(frame.block))
        del d.operands[known:]
    result = Var(b.fresh("c"), acc.type)
    b.emit(If(cond, arms[0], arms[1], (result,)))
    return result


def _looped(d: _Drawing) -> None:
    """Products in a loop, of windows that it moves."""

    def fill(_: Builder, __: int) -> None:
        known = len(d.operands)
        _products(d)
        del d.operands[known:]

    control.loop(d.b, fill, 1)


def _transposed(d: _Drawing) -> None:
    """A tile in UB with its last two axes swapped, stored or multiplied."""
    b = d.b
    shape = (*b.choose(_BATCHES), *((64, 32) if d.near else (b.choose((16, 8)), b.choose((16, 32)))))
    source = memory.load(b, shape, b.choose((DType.FP32, DType.FP16)), full=True)
    rank = len(shape)
    made = b.call("tile.transpose", [source, index(rank - 2), index(rank - 1)], "t")
    assert made is not None, "the last two axes are swapped"
    memory.store(b, made)


# ---- operands ----------------------------------------------------------------------------------------------


def _factors(d: _Drawing, p: Product, at: Expr | None = None, span: int = 0) -> list[Expr | tuple[object, ...]]:
    """Two matrix operands; with `at`, windows at that offset of an inner dim that is `span` long in their tensors."""
    narrow = tuple(n if d.b.chance(70) else 1 for n in p.batch)
    if narrow[:1] == (1,) and d.b.chance(40):
        narrow = narrow[1:]
    batches = (narrow, p.batch) if d.b.chance(50) else (p.batch, narrow)
    left = _operand(d, (*batches[0], p.m, p.k), p.dtype, at, -1, span)
    right = _operand(d, (*batches[1], p.k, p.n), p.dtype, at, -2, span)
    return [left, right]


def _operand(d: _Drawing, shape: Shape, dtype: DType, at: Expr | None, axis: int, span: int) -> Var:
    """A matrix operand of a shape: one that is known, or a new one in one of many forms."""
    b = d.b
    known = [v for v in d.operands if tile(v).dtype is dtype and shape_of(v) == shape]
    if known and at is None and b.chance(60):
        return b.recent(known)
    forms: tuple[_Form, ...] = (_plain, _turned, _plain, _in_boxes)
    if not d.simple:
        forms = (*forms, _plain, _reshaped, _by_columns, _in_vec, _anywhere, _page, _rows, _cut)
    made = b.choose(forms if at is None else forms[:3])(d, shape, dtype, at, axis, span)
    if at is None:
        d.operands.append(made)
    return made


_Form = Callable[[_Drawing, Shape, DType, Expr | None, int, int], Var]


def _loaded(
    d: _Drawing, shape: Shape, dtype: DType, at: Expr | None, axis: int, span: int, layout: Layout = Layout.ND, space: str | None = "Mat"
) -> Var:
    """A load whose window moves along `axis`, or lies somewhere in a larger tensor."""
    b = d.b
    sizes, offsets = (tuple(shape), dims(*(0 for _ in shape))) if layout is Layout.NZ or d.near else memory.place(b, shape)
    if at is not None:
        sizes = tuple(span if i == len(shape) + axis else n for i, n in enumerate(shape))
        offsets = tuple(at if i == len(shape) + axis else index(0) for i in range(len(shape)))
    view = None if layout is Layout.ND else TensorView(layout=layout)
    source = b.parameter(tensor_type(dims(*sizes), dtype, view), "a")
    kwargs = {} if space is None else {"target_memory": space}
    made = b.call("tile.load", [source, offsets, shape, shape], "x", **kwargs)
    assert made is not None, "a window in bounds loads"
    return made


def _plain(d: _Drawing, shape: Shape, dtype: DType, at: Expr | None, axis: int, span: int) -> Var:
    return _loaded(d, shape, dtype, at, axis, span)


def _turned(d: _Drawing, shape: Shape, dtype: DType, at: Expr | None, axis: int, span: int) -> Var:
    """The transposed view of a load."""
    source = _loaded(d, (*shape[:-2], shape[-1], shape[-2]), dtype, at, -3 - axis, span)
    made = d.b.call("tile.transpose_view", [source], "v")
    assert made is not None, "a tile in L1 has a transposed view"
    return made


def _in_boxes(d: _Drawing, shape: Shape, dtype: DType, at: Expr | None, axis: int, span: int) -> Var:
    """A load of a tensor that lies in boxes, whole ones of 32 bytes by 16 rows."""
    boxed = shape[-2] % 16 == 0 and shape[-1] * dtype.bytes % 32 == 0
    return _loaded(d, shape, dtype, at, axis, span, Layout.NZ if boxed else Layout.ND)


def _by_columns(d: _Drawing, shape: Shape, dtype: DType, at: Expr | None, axis: int, span: int) -> Var:
    return _loaded(d, shape, dtype, at, axis, span, Layout.DN)


def _in_vec(d: _Drawing, shape: Shape, dtype: DType, at: Expr | None, axis: int, span: int) -> Var:
    return _loaded(d, shape, dtype, at, axis, span, space="Mat" if d.near else "Vec")


def _anywhere(d: _Drawing, shape: Shape, dtype: DType, at: Expr | None, axis: int, span: int) -> Var:
    """A load that names no memory."""
    return _loaded(d, shape, dtype, at, axis, span, space=None)


def _sliced(d: _Drawing, whole: Shape, shape: Shape, offsets: tuple[Expr, ...], dtype: DType) -> Var:
    made = d.b.call("tile.slice", [_loaded(d, whole, dtype, None, -1, 0), shape, offsets], "s")
    assert made is not None, "a window in bounds is sliced"
    return made


def _page(d: _Drawing, shape: Shape, dtype: DType, at: Expr | None, axis: int, span: int) -> Var:
    """Some pages of a tile of more: the batch dims of a window, each of them cut."""
    b = d.b
    grown = tuple(n + b.choose((1, 0, 2)) for n in shape[:-2]) or ()
    offsets = tuple(b.offset(m - n) for m, n in zip(grown, shape[:-2], strict=True))
    return _sliced(d, (*grown, *shape[-2:]), shape, (*offsets, index(0), index(0)), dtype)


def _rows(d: _Drawing, shape: Shape, dtype: DType, at: Expr | None, axis: int, span: int) -> Var:
    """Some rows, or columns, of every page."""
    b = d.b
    where = len(shape) - 1 - b.choose((1, 0))
    whole = tuple(n * 2 if i == where else n for i, n in enumerate(shape))
    offsets = tuple(index(b.choose((n, 0))) if i == where else index(0) for i, n in enumerate(shape))
    return _sliced(d, whole, shape, offsets, dtype)


def _reshaped(d: _Drawing, shape: Shape, dtype: DType, at: Expr | None, axis: int, span: int) -> Var:
    """A load of the same pages in other batch dims."""
    b = d.b
    count = prod(shape[:-2])
    others: list[Shape] = [(count,), (1, count), (count, 1), *(((2, count // 2),) if count % 2 == 0 else ())]
    source = _loaded(d, (*b.choose(others), *shape[-2:]), dtype, None, -1, 0)
    made = b.call("tile.reshape", [source, shape], "r")
    assert made is not None, "pages are kept"
    return made


def _cut(d: _Drawing, shape: Shape, dtype: DType, at: Expr | None, axis: int, span: int) -> Var:
    """A load of which the first rows of each page are valid, as a left factor, or the first columns, as a right one."""
    b = d.b
    where = len(shape) - (2 if axis == -1 else 1)
    valid = tuple(b.extent(n) if i == where else index(n) for i, n in enumerate(shape))
    source = b.parameter(tensor_type(dims(*shape), dtype), "a")
    made = b.call("tile.load", [source, tuple(0 for _ in shape), shape, valid], "x", target_memory="Mat")
    assert made is not None, "a window in bounds loads"
    return made


# ---- drains ------------------------------------------------------------------------------------------------


def _drain(d: _Drawing, acc: Var) -> None:
    """Store an accumulator: straight, to a narrower dtype, after other batch dims, or by way of UB and an op there."""
    b = d.b
    value: Var | None = acc
    if b.chance(5 if d.simple else 25):
        b.emit(Assign((scalar_var(b.fresh("i")),), index(1)))
    if d.simple:
        shape = shape_of(acc)
        sizes, offsets = memory.place(b, shape)
        _put(b, acc, offsets, memory.output(b, sizes, tile(acc).dtype), **({"atomic": "Add"} if b.chance(20) else {}))
        return
    match b.below(10):
        case 0 | 1 | 2 | 3:
            pass
        case 4 | 5 if tile(acc).dtype is DType.FP32:
            _narrowed(d, acc)
            return
        case 6:
            shape = shape_of(acc)
            value = b.call("tile.reshape", [acc, (prod(shape[:-2]), *shape[-2:])], "r")
        case 7 | 8 | 9:
            value = b.call("tile.move", [acc], "v", target_memory="Vec")
            if value is not None and b.chance(60):
                value = b.call("tile.muls", [value, b.constant(tile(value).dtype)], "e") or value
    memory.store(b, value if value is not None else acc)


def _narrowed(d: _Drawing, acc: Var) -> None:
    """An FP32 accumulator into a tensor of two bytes: converted on the way out, or by a cast in UB."""
    b, dtype = d.b, d.b.choose((DType.FP16, DType.BF16))
    value: Var | None = acc
    if b.chance(50):
        value = b.call("tile.move", [acc], "v", target_memory="Vec")
        assert value is not None and tile(value).memory is Memory.VEC
        value = b.call("tile.cast", [value], "n", target_type=dtype.value, mode=b.choose(("round", "rint")))
    assert value is not None, "an accumulator is moved and narrowed"
    _put(b, value, dims(*(0 for _ in shape_of(value))), memory.output(b, shape_of(value), dtype))


def _put(b: Builder, value: Var, offsets: tuple[Expr, ...], target: Var, **kwargs: str) -> None:
    """Store into a new tensor, of which the result is the current version."""
    result = b.call("tile.store", [value, offsets, target], "o", **kwargs)
    assert result is not None, "a tile is stored where it fits"
    b.frames[-1].current[target.name] = result
