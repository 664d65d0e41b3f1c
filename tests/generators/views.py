"""Windows, views and writes in place: slice, assemble, reshape, reinterpret_view, set_validshape.

A window of [4, 8, 16] is [2, 8, 16] at [1, 0, 0] (contiguous), [4, 8, 8] at [0, 0, 8] (a column band), or any
other box; its offset is a constant or moves with a loop.
"""

from __future__ import annotations

from math import prod

from pypto_ir.expr import Expr, Var, index
from pypto_ir.types import Memory
from tests.generators import memory, values
from tests.generators.builder import FLOATS, INTS, Builder, Shape, ints, shape_of, tile


def window(b: Builder, shape: Shape) -> tuple[Shape, tuple[Expr, ...]]:
    """A box inside a shape and an offset for it: mostly one that is contiguous in row-major order."""
    sizes = list(shape)
    axis = next((i for i, n in enumerate(shape) if n > 1), 0)
    if b.chance(65):
        steps = b.choose((1, 1, 2))
        for i in range(axis, min(axis + steps, len(shape))):
            sizes[i] = _smaller(b, shape[i]) if i == axis + steps - 1 else 1
    else:
        for i, n in enumerate(shape):
            if b.chance(50):
                sizes[i] = _smaller(b, n)
    offsets = tuple(b.offset(d - n) if d > n else index(0) for d, n in zip(shape, sizes, strict=True))
    return tuple(sizes), offsets


def _smaller(b: Builder, n: int) -> int:
    return b.choose([k for k in (n // 2, 1, n // 4, n - 1) if k >= 1] or [1])


def cut(b: Builder) -> bool:
    """A slice, with a valid extent or dropped unit axes sometimes."""
    known = b.tiles(lambda t: t.rank >= 2)
    if not known:
        return False
    source = b.recent(known)
    sizes, offsets = window(b, shape_of(source))
    args: list[Expr | tuple[object, ...]] = [source, sizes, offsets]
    if b.chance(12):
        args.append(tuple(b.extent(n) for n in sizes) if b.chance(50) else ())
        units = tuple(i for i, n in enumerate(sizes[:-1]) if n == 1)
        if units and b.chance(70):
            args.append(units[: 1 + b.below(len(units))])
    return b.call("tile.slice", args) is not None


def assemble(b: Builder) -> Var | None:
    """A window of a tile overwritten in place by a slice, a load, or what is computed from either."""
    known = b.tiles(lambda t: t.rank >= 2 and t.dtype in (*FLOATS, *INTS))
    if not known:
        return None
    return assemble_into(b, b.recent(known))


def assemble_into(b: Builder, target: Var) -> Var | None:
    """An assemble into a given tile; it is mostly not drawn afterwards."""
    shape, dtype = shape_of(target), tile(target).dtype
    sizes, offsets = window(b, shape)
    if b.chance(8) and len(shape) > 2 and all(n == 1 for n in sizes[:-2]):
        part = memory.load(b, sizes[-2:], dtype, full=True)
    else:
        fitting = b.tiles(lambda t: t.dtype is dtype and ints(t.shape) == sizes)
        way = b.below(3)
        if fitting and way == 0:
            part = b.recent(fitting)
        elif way == 1:
            taken = b.call("tile.slice", [target, sizes, offsets])
            made = b.call("tile.adds", [taken, b.constant(dtype)]) if taken is not None else None
            if made is None:
                return None
            part = made
        else:
            part = memory.load(b, sizes, dtype, full=not b.chance(10))
    result = b.call("tile.assemble", [target, part, offsets], "y")
    if result is not None:
        values.overwritten(b, target)
    return result


def pages(b: Builder) -> bool:
    """A tile filled page by page: created, then assembled at each index of its first axis."""
    shape = b.shape(b.choose((3, 4, 2)))
    if not 1 < shape[0] <= 4:
        return False
    dtype = b.dtype()
    made = b.call("tile.create", [shape], "c", dtype=dtype.value, target_memory="Vec")
    part = memory.load(b, (1, *shape[1:]), dtype, full=not b.chance(10))
    for i in range(shape[0]):
        if made is None:
            return False
        b.hide(made)
        if b.chance(70):
            part = b.call("tile.adds", [part, b.constant(dtype)]) or part
        made = b.call("tile.assemble", [made, part, (i, *(0 for _ in shape[1:]))], "y")
    return made is not None


def reshape(b: Builder) -> bool:
    """The same elements with other dims, of rank 1 to 5."""
    known = b.tiles()
    if not known:
        return False
    source = b.recent(known)
    shape = shape_of(source)
    if b.chance(60):
        wanted: Shape = (*_factors(b, prod(shape[:-1]), b.choose((1, 2, 3, 0))), shape[-1])
        if b.chance(20):
            wanted = (prod(shape[:-1]), shape[-1])
    else:
        wanted = _factors(b, prod(shape), b.choose((2, 3, 4, 1, 5)))
    return b.call("tile.reshape", [source, wanted], "r") is not None


def _factors(b: Builder, n: int, count: int) -> Shape:
    """`count` factors of n; none where n is 1 and none are wanted."""
    if count <= 0:
        return () if n == 1 else (n,)
    found: list[int] = []
    for _ in range(count - 1):
        f = b.choose([k for k in (1, 2, 4, 3, 8, n) if n % k == 0])
        found.append(f)
        n //= f
    return (*found, n)


def reinterpret(b: Builder) -> bool:
    """The bytes of a tile as another dtype, with dims of another rank sometimes."""
    known = b.tiles(lambda t: t.dtype in (*FLOATS, *INTS))
    if not known:
        return False
    source = b.recent(known)
    t, shape = tile(source), shape_of(source)
    dtype = b.choose([d for d in (*INTS, *FLOATS) if d is not t.dtype])
    args: list[Expr | Shape] = [source]
    total = prod(shape) * t.dtype.bytes
    if b.chance(60) and total % dtype.bytes == 0:
        last = shape[-1] * t.dtype.bytes
        if last % dtype.bytes:
            return False
        args.append((*_factors(b, prod(shape[:-1]), b.choose((1, 2, 3))), last // dtype.bytes))
    return b.call("tile.reinterpret_view", args, "r", dtype=dtype.value) is not None


def set_valid(b: Builder) -> bool:
    """Another valid region of a 2-D tile."""
    known = b.tiles(lambda t: t.rank == 2)
    if not known:
        return False
    source = b.recent(known)
    rows, cols = shape_of(source)
    return b.call("tile.set_validshape", [source, b.extent(rows), b.extent(cols)], "v") is not None


def accumulator_window(b: Builder) -> bool:
    """A window of an accumulator overwritten by a product."""
    known = b.tiles(lambda t: t.rank == 2, Memory.ACC)
    if not known:
        return False
    acc = b.recent(known)
    m, n = shape_of(acc)
    if m % 2:
        return False
    at = (b.offset(m // 2), 0)
    part = b.call("tile.slice", [acc, (m // 2, n), at])
    pair = [memory.load(b, s, b.choose(FLOATS), "Mat", full=True) for s in ((m // 2, 8), (8, n))]
    if part is None or tile(pair[0]).dtype is not tile(pair[1]).dtype:
        return False
    product = b.call("tile.matmul_acc", [part, *pair], "acc")
    if product is None:
        return False
    b.hide(part)
    b.hide(product)
    result = b.call("tile.assemble", [acc, product, at], "acc")
    if result is None:
        return False
    values.overwritten(b, acc)
    return memory.store(b, result)
