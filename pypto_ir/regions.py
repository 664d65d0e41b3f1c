"""Valid regions: which rectangle of a tile or tensor holds data after a read, a write, a reshape or a
collapse.

A region is a tuple of extents from the origin. Extents are expressions, so relations between them are
three-valued (proved, disproved, unknown) and only what is disproved is refused, unless a rule says that it
must prove. Reading 8 rows at offset k of a tile of which v rows are valid gives `min(max(v - k, 0), 8)` valid
rows; at offset 0 it gives `min(v, 8)`; with v = 5 it gives 5.

Source: `spec/tile_ir.md` section 6, `spec/flatten.md` sections 1.1 and 2. Every refusal is an `OpError`.
"""

from __future__ import annotations

from math import prod

from pypto_ir.expr import Binary, Const, Expr, const_int, index
from pypto_ir.linear import (
    difference,
    linear,
    normalize,
    provably_equal,
    provably_gt,
    provably_le,
    provably_negative,
)
from pypto_ir.ops.registry import OpError, dims_text
from pypto_ir.partition import NoWindow, partition_window
from pypto_ir.text import expr_text
from pypto_ir.types import Dims, same_dim, same_dims

__all__ = [
    "ZERO",
    "NoWindow",
    "add_index",
    "broadcast",
    "collapse_contiguous",
    "is_empty",
    "is_one",
    "is_zero",
    "max_extent",
    "merged_shape",
    "merged_valid",
    "min_extent",
    "mul_index",
    "partition_window",
    "reshape_valid",
    "static",
    "window_read",
    "write_union",
]

ZERO = index(0)
#: largest number of elements that a merged dim may stand for; beyond it an offset does not fit 64 bits
MAX_ELEMENTS = 2**63 - 1


def is_zero(e: Expr) -> bool:
    """True where `e` is proved to be 0."""
    return difference(e, ZERO) == 0


def is_one(e: Expr) -> bool:
    """True for the constant 1."""
    return const_int(e) == 1


def is_empty(valid: Dims) -> bool:
    """True where the region is proved to hold nothing."""
    return any(is_zero(v) for v in valid)


def static(dims: Dims) -> tuple[int, ...] | None:
    """The dims as integers, or None where one is not constant."""
    values = tuple(const_int(d) for d in dims)
    return None if None in values else values  # type: ignore[return-value]


def static_size(dims: Dims) -> int | None:
    """The number of cells of constant extents, else None: 2048 for [2, 16, 64]."""
    extents = static(dims)
    return None if extents is None else prod(extents)


def add_index(a: Expr, b: Expr) -> Expr:
    """`a + b`; two constants fold, `+ 0` is dropped (`spec/flatten.md` section 2)."""
    x, y = const_int(a), const_int(b)
    if x is not None and y is not None:
        return index(x + y)
    if x == 0:
        return b
    return a if y == 0 else Binary("add", a, b)


def mul_index(a: Expr, b: Expr) -> Expr:
    """`a * b`; two constants fold, `* 0` is 0, `* 1` is dropped (`spec/flatten.md` section 2)."""
    x, y = const_int(a), const_int(b)
    if x is not None and y is not None:
        return index(x * y)
    if x == 0 or y == 0:
        return ZERO
    if x == 1:
        return b
    return a if y == 1 else Binary("mul", a, b)


def min_extent(a: Expr, b: Expr) -> Expr:
    """The smaller of two extents; one side where the order is proved."""
    if provably_le(a, b):
        return a
    return b if provably_le(b, a) else Binary("min", a, b)


def max_extent(a: Expr, b: Expr) -> Expr:
    """The larger of two extents; one side where the order is proved."""
    if provably_le(a, b):
        return b
    return a if provably_le(b, a) else Binary("max", a, b)


def _rest(valid: Expr, offset: Expr) -> Expr:
    """What is left of `valid` behind `offset`: `max(valid - offset, 0)`."""
    left, right = linear(valid), linear(offset)
    whole = normalize(Binary("sub", valid, offset))
    shorter = len(linear(whole).terms) < max(len(left.terms), len(right.terms))
    return max_extent(whole if shorter or isinstance(whole, Const) else Binary("sub", valid, offset), ZERO)


def window_read(
    op: str,
    source_shape: Dims,
    source_valid: Dims,
    offsets: Dims,
    window: Dims,
    requested: Dims | None = None,
    *,
    exact: bool,
    clamp: bool = False,
) -> Dims:
    """The valid extents of a window of a source (`spec/tile_ir.md` section 6, window_read).

    An exact read (tile.slice, tile.extract) reaches over the whole window, any other over what is requested.
    Raises `OpError` for a provably negative offset, a request provably larger than the window, and a reach
    provably beyond the source (not with `clamp`).
    """
    rank = len(source_shape)
    for what, dims in (("offsets", offsets), ("window", window), ("valid extents", requested)):
        if dims is not None and len(dims) != rank:
            raise OpError(f"{op} has {len(dims)} {what} for a source of rank {rank}", f"give {rank} of them")
    result = []
    for i in range(rank):
        offset, size, extent, valid = offsets[i], window[i], source_shape[i], source_valid[i]
        request = requested[i] if requested is not None else None
        if provably_negative(offset):
            raise OpError(f"{op} reads at the negative offset {expr_text(offset)} of dimension {i}")
        if request is not None and provably_gt(request, size):
            raise OpError(
                f"{op} asks for {expr_text(request)} valid elements of dimension {i} in a window of {expr_text(size)}",
                "a valid extent is at most the extent of the window",
            )
        reach = size if exact or request is None else request
        if not clamp and provably_gt(Binary("add", offset, reach), extent):
            raise OpError(
                f"{op} reads past the end of dimension {i}: {expr_text(reach)} elements at offset "
                f"{expr_text(offset)} "
                f"of an extent of {expr_text(extent)}",
                "make the window smaller, or give a valid extent that ends with the source",
            )
        available = size if same_dim(valid, extent) and not clamp else min_extent(valid if is_zero(offset) else _rest(valid, offset), size)
        result.append(available if request is None or provably_le(available, request) else request)
    return tuple(result)


def write_union(
    op: str,
    target_shape: Dims,
    target_valid: Dims,
    source_shape: Dims,
    source_valid: Dims,
    offsets: Dims,
    *,
    exact: bool,
) -> Dims:
    """The valid extents of a target after a source was written into it (`spec/tile_ir.md` section 6,
    write_union).

    An exact write (tile.assemble) covers the physical source, a transfer (tile.store) its valid part. Raises
    `OpError` where the write provably leaves the target, or where the union is not a rectangle from the
    origin (an L-shape or a gap).
    """
    rank = len(target_shape)
    if len(offsets) != rank:
        raise OpError(
            f"{op} has {len(offsets)} offsets for a target of rank {rank}",
            "give exactly one per target dimension",
        )
    reach = source_shape if exact else source_valid
    for i, (offset, size, extent) in enumerate(zip(offsets, reach, target_shape, strict=True)):
        if provably_negative(offset):
            raise OpError(f"{op} writes at the negative offset {expr_text(offset)} of dimension {i}")
        if provably_gt(Binary("add", offset, size), extent):
            raise OpError(
                f"{op} writes past the end of dimension {i}: {expr_text(size)} elements at offset "
                f"{expr_text(offset)} "
                f"of an extent of {expr_text(extent)}"
            )
    at_origin = all(is_zero(o) for o in offsets)
    if is_empty(source_valid):
        return target_valid
    if is_empty(target_valid):
        if at_origin:
            return source_valid
        raise OpError(
            f"{op} writes into an empty target at {dims_text(offsets)}",
            "the first write must start at the origin",
        )
    if same_dims(target_valid, target_shape):
        return target_valid
    far = tuple(add_index(o, v) for o, v in zip(offsets, source_valid, strict=True))
    growing = [i for i in range(rank) if not provably_le(far[i], target_valid[i])]
    if not growing:
        return target_valid
    if at_origin and all(map(provably_le, target_valid, source_valid)):
        return source_valid
    spanned = all(is_zero(offsets[i]) and provably_equal(source_valid[i], target_valid[i]) for i in range(rank) if i != growing[0])
    grown = growing[0]
    if len(growing) > 1 or not spanned or not provably_le(offsets[grown], target_valid[grown]):
        raise OpError(
            f"{op} writes {dims_text(source_valid)} at {dims_text(offsets)} into a target of which "
            f"{dims_text(target_valid)} is "
            "valid; the union is not known to be a rectangle from the origin",
            "write next to the valid region over its whole width, or make the target fully valid first",
        )
    extent = min_extent(max_extent(target_valid[grown], far[grown]), target_shape[grown])
    return (*target_valid[:grown], extent, *target_valid[grown + 1 :])


def reshape_valid(op: str, valid: Dims, in_shape: Dims, out_shape: Dims, row_major: bool = True) -> Dims:
    """The valid extents after a row-major reshape (`spec/tile_ir.md` section 6, reshape_valid): [1, 10, 512]
    of [1, 16, 512] becomes [10, 512] of [16, 512]. Raises `OpError` where the valid part is no rectangle of
    the new shape."""
    if same_dims(valid, in_shape):
        return out_shape
    if is_empty(valid):
        return tuple(ZERO for _ in out_shape)
    units_full = all(is_one(v) for v, d in zip(valid, in_shape, strict=True) if is_one(d))
    kept = [i for i, d in enumerate(in_shape) if not is_one(d)]
    if units_full and same_dims(tuple(in_shape[i] for i in kept), tuple(d for d in out_shape if not is_one(d))):
        mapped = iter(kept)
        return tuple(d if is_one(d) else valid[next(mapped)] for d in out_shape)
    prefix = _flat_prefix(valid, in_shape) if row_major else None
    placed = _place_prefix(*prefix, out_shape) if prefix else None
    if placed is None:
        raise OpError(
            f"{op} changes {dims_text(in_shape)} to {dims_text(out_shape)}, but only part of it holds real "
            "data "
            f"({dims_text(valid)}) and that part is no rectangle of the new shape",
            "fill the tile first (tile.fillpad), or keep the partial dimension as it is",
        )
    return placed


def _flat_prefix(valid: Dims, shape: Dims) -> tuple[Expr, Expr, int] | None:
    """A region that is a prefix of the flat order as (free extent, its physical extent, elements below
    it)."""
    free = next((i for i, v in enumerate(valid) if not is_one(v)), len(valid) - 1)
    below = static(shape[free + 1 :])
    if below is None or not same_dims(valid[free + 1 :], shape[free + 1 :]):
        return None
    return valid[free], shape[free], prod(below)


def _place_prefix(free: Expr, extent: Expr, volume: int, out_shape: Dims) -> Dims | None:
    for axis in range(len(out_shape)):
        below = static(out_shape[axis + 1 :])
        if below is None:
            return None
        suffix = prod(below)
        count = const_int(free)
        if count is not None:
            flat = count * volume
            size = const_int(out_shape[axis])
            if suffix and flat % suffix == 0 and size is not None and flat // suffix <= size:
                return (*(index(1) for _ in range(axis)), index(flat // suffix), *out_shape[axis + 1 :])
        elif suffix == volume and (provably_le(extent, out_shape[axis]) or provably_le(free, out_shape[axis])):
            return (*(index(1) for _ in range(axis)), free, *out_shape[axis + 1 :])
    return None


def broadcast(op: str, a: Dims, b: Dims) -> Dims:
    """The right-aligned broadcast of two shapes: dims proved equal, or 1. Raises `OpError` otherwise."""
    rank = max(len(a), len(b))
    left = (*(index(1) for _ in range(rank - len(a))), *a)
    right = (*(index(1) for _ in range(rank - len(b))), *b)
    result = []
    for x, y in zip(left, right, strict=True):
        if is_one(x):
            result.append(y)
        elif is_one(y) or same_dim(x, y) or provably_equal(x, y):
            result.append(x)
        else:
            raise OpError(
                f"the shapes {dims_text(a)} and {dims_text(b)} of {op} do not broadcast: {expr_text(x)} against {expr_text(y)}",
                "aligned from the right, dimensions must be equal or 1",
            )
    return tuple(result)


def collapse_contiguous(valid: Dims, dims: Dims) -> bool:
    """True where the rows of a region of `dims` form one run of the collapsed rows (`spec/flatten.md` 1.1):
    below the first dim that is not 1, every row dim is full. The last dim is free; other ranks are taken as
    contiguous."""
    if len(valid) != len(dims):
        return True
    rows = list(zip(valid, dims, strict=True))[:-1]
    boundary = next((i for i, (v, _) in enumerate(rows) if not is_one(v)), len(rows))
    return all(same_dim(v, d) for v, d in rows[boundary + 1 :])


def merged_shape(shape: Dims, context: str = "a tile") -> Dims:
    """`[.., L]` as `[product of the leading dims, L]`: [2, 3, 4, 5] is [24, 5]. Raises `OpError` for dims
    that are not constant and positive, or whose product does not fit 63 bits."""
    sizes = static(shape)
    if sizes is None:
        raise OpError(
            f"found a dynamic (non-constant) dimension in {context} of shape {dims_text(shape)}, but "
            "flattening tiles of rank > 2 "
            "to 2-D (and unrolling batched matmul) requires constant dimensions",
            "iterate over the dynamic dimension with a loop, so that each tile has a static shape",
            "T102",
        )
    if any(s <= 0 for s in sizes):
        raise OpError(f"{context} of shape {dims_text(shape)} has a dimension that is not positive", code="T102")
    if prod(sizes) > MAX_ELEMENTS:
        raise OpError(f"{context} of shape {dims_text(shape)} has more elements than an offset can count", code="T102")
    return (index(prod(sizes[:-1])), shape[-1])


def merged_valid(valid: Dims) -> Dims:
    """`[.., w]` as `[product of the leading extents, w]`: constants first, dynamic factors after them in
    order, so [2, u, 3, v, 7] is [6 * (u * v), 7] (`spec/flatten.md` section 2). No check of contiguity."""
    constant, dynamic = 1, None
    for v in valid[:-1]:
        c = const_int(v)
        if c is not None:
            constant *= c
        else:
            dynamic = v if dynamic is None else Binary("mul", dynamic, v)
    rows = index(constant) if dynamic is None else mul_index(index(constant), dynamic)
    return (rows, valid[-1])
