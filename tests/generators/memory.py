"""Loads, stores, and scalar reads and writes of global memory.

A store of a tile [6, 8] finds or makes an output tensor of its own shape, a larger one, one of higher rank
such as [3, 6, 8], or one whose box it fills row by row, such as [2, 3, 8].
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, Var, index
from pypto_ir.partition import NoWindow, partition_window
from pypto_ir.stmt import Param
from pypto_ir.types import Dims, ScalarType, TensorType, TensorView, dims, tensor_type
from tests.generators.builder import Builder, Shape, ints, shape_of, tile

ATOMIC = frozenset({DType.FP32, DType.BF16, DType.FP16, DType.INT32, DType.INT16, DType.INT8})


def load(b: Builder, shape: Shape | None = None, dtype: DType | None = None, space: str = "Vec", full: bool = False) -> Var:
    """A tile loaded from a new or known tensor, full or with a random valid region."""
    shape, dtype = shape or b.shape(), dtype or b.dtype()
    source, offsets = _source(b, shape, dtype)
    valid: tuple[Expr, ...] = dims(*shape) if full or b.chance(60) else region(b, shape)
    kwargs = {"target_memory": space}
    var = b.call("tile.load", [source, offsets, shape, valid], "x", **kwargs)
    if var is None:
        var = b.call("tile.load", [source, offsets, shape, shape], "x", **kwargs)
    assert var is not None, "a window in bounds loads"
    return var


def region(b: Builder, shape: Shape, signature: bool = False) -> tuple[Expr, ...]:
    """Valid extents: a band of rows or columns mostly, any box sometimes."""
    last = len(shape) - 1
    extents = list(dims(*shape))
    if b.chance(20):
        return tuple(b.extent(n, signature) if b.chance(50) else index(n) for n in shape)
    axis = next((i for i, n in enumerate(shape[:-1]) if n > 1), last)
    if b.chance(50) or axis == last:
        extents[last] = b.extent(shape[last], signature)
    if axis != last and b.chance(60):
        if b.chance(30) and axis + 1 < last:
            extents[axis], axis = index(1), axis + 1
        extents[axis] = b.extent(shape[axis], signature)
    return tuple(extents)


def _source(b: Builder, shape: Shape, dtype: DType) -> tuple[Var, Dims]:
    """A tensor with room for a window, and an offset for it."""
    known = [v for v in _tensors(b) if _holds(v, shape, dtype)]
    if known and b.chance(60):
        source = b.choose(known)
        return source, tuple(b.offset(d - n) for d, n in zip(shape_of(source), shape, strict=True))
    sizes, offsets = place(b, shape)
    view = None
    if b.chance(6):
        view = TensorView(valid=region(b, sizes, signature=True))
    return b.parameter(tensor_type(dims(*sizes), dtype, view), "a"), offsets


def _tensors(b: Builder) -> list[Var]:
    own = [p.var for p in b.params if isinstance(p.var.type, TensorType) and p.direction == "In"]
    return own * 2 + list(b.frames[-1].current.values())


def _holds(v: Var, shape: Shape, dtype: DType) -> bool:
    t = v.type
    return (
        isinstance(t, TensorType) and t.dtype is dtype and t.rank == len(shape)
        and all(d >= n for d, n in zip(shape_of(v), shape, strict=True))
    )  # fmt: skip


def place(b: Builder, shape: Shape) -> tuple[Shape, Dims]:
    """Dims of a new tensor with room for a window, and offsets in it that loops move where there are any."""
    sizes, offsets = list(shape), list(dims(*(0 for _ in shape)))
    moving = [s for s in b.bounded() if s.low >= 0 and 0 < s.high < 8]
    if moving and b.chance(65):
        axis, s = b.below(max(1, len(shape) - 1)), b.recent(moving)
        sizes[axis] *= s.high + 1
        offsets[axis] = s.var if shape[axis] == 1 else Binary("mul", s.var, index(shape[axis]))
    elif b.chance(35):
        axis = b.below(len(shape))
        extra = b.choose((1, 2, shape[axis]))
        sizes[axis] += extra
        offsets[axis] = b.offset(extra)
    return tuple(sizes), tuple(offsets)


def output(b: Builder, sizes: Shape, dtype: DType) -> Var:
    """A new output tensor, written from any block on."""
    return b.parameter(tensor_type(dims(*sizes), dtype), "out", "InOut" if b.chance(30) else "Out")


def store(b: Builder, var: Var) -> bool:
    """Store a tile; False where no way was found."""
    t, shape = tile(var), shape_of(var)
    valid = ints(t.valid)
    kwargs = {"atomic": "Add"} if t.dtype in ATOMIC and b.chance(10) else {}
    known = [v for v in b.frames[-1].current.values() if _holds(v, shape, t.dtype)]
    if known and b.chance(50):
        target = b.choose(known)
        offsets = tuple(b.offset(d - n) for d, n in zip(shape_of(target), shape, strict=True))
        return _put(b, var, offsets, target, None, kwargs)
    way = b.below(10)
    if way >= 8 and len(shape) < 5:
        lead = b.choose(((2,), (3,), (1,), (2, 2)))[: 5 - len(shape)]
        sizes, offsets = place(b, shape)
        at = (*(b.offset(n - 1) for n in lead), *offsets)
        target = output(b, (*lead, *sizes), t.dtype)
        if not isinstance(partition_window(t.valid, target.type.shape, at), NoWindow):  # type: ignore[union-attr]
            return _put(b, var, at, target, None, kwargs)
    if way >= 6 and valid is not None and len(shape) < 5 and prod(valid) > 0:
        box = split(b, valid, len(shape) + 1)
        if box is not None and len(box) <= 5:
            sizes, offsets = place(b, box)
            if b.chance(50):
                return _put(b, var, offsets, output(b, sizes, t.dtype), box, kwargs)
            zeros = dims(*(0 for _ in box))
            if not isinstance(partition_window(t.valid, dims(*box), zeros), NoWindow):
                return _put(b, var, zeros, output(b, box, t.dtype), None, kwargs)
    sizes, offsets = place(b, shape)
    return _put(b, var, offsets, output(b, sizes, t.dtype), None, kwargs)


def _put(b: Builder, var: Var, offsets: Dims, target: Var, box: Shape | None, kwargs: dict[str, str]) -> bool:
    args: list[Expr | Shape] = [var, offsets, target]  # type: ignore[list-item]
    if box is not None:
        args.append(box)
    root = next((name for name, v in b.frames[-1].current.items() if v.name == target.name), None)
    if root is not None and b.chance(20):
        return b.effect("tile.store", args, **kwargs)
    result = b.call("tile.store", args, "o", **kwargs)
    if result is None:
        return False
    if root is not None and b.chance(80):
        b.frames[-1].current[root] = result
    return True


def split(b: Builder, shape: Shape, rank: int) -> Shape | None:
    """The same elements in the same rows over `rank` axes, the rows in random factors."""
    if len(shape) < 2 or rank <= len(shape):
        return None
    rows = prod(shape[:-1])
    factors = [n for n in range(1, rows + 1) if rows % n == 0]
    lead: list[int] = []
    for _ in range(rank - 2):
        n = b.choose([f for f in factors if rows % f == 0])
        lead.append(n)
        rows //= n
    return (*lead, rows, shape[-1])


def read_tensor(b: Builder) -> bool:
    """A scalar read from memory."""
    known = [v for v in _tensors(b) if isinstance(v.type, TensorType) and v.type.dtype in ATOMIC]
    if not known:
        return False
    source = b.choose(known)
    at = tuple(b.offset(n - 1) for n in shape_of(source))
    return b.call("tensor.read", [source, at], "s") is not None


def write_tensor(b: Builder) -> bool:
    """A scalar written into an output."""
    known = [v for v in b.frames[-1].current.values() if v.type.dtype in ATOMIC]  # type: ignore[union-attr]
    if not known:
        return False
    target = b.choose(known)
    dtype = target.type.dtype  # type: ignore[union-attr]
    at = tuple(b.offset(n - 1) for n in shape_of(target))
    value = b.constant(dtype)
    if not isinstance(value, Var) or value.type != ScalarType(dtype):
        value = replace(value, dtype=dtype) if hasattr(value, "value") else value  # type: ignore[type-var]
    return b.effect("tensor.write", [target, at, value])


def outputs(b: Builder) -> list[Param]:
    return [p for p in b.params if p.direction != "In"]
