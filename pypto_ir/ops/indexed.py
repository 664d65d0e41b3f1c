"""Global memory by index: mgather, mscatter and gather_row (`spec/tile_ir.md` section 7).

`tile.mgather` of a [128, 64] tensor with 16 INT32 indices and coalesce 0 is a tile [16, 64] of rows; with
coalesce 1 it takes single elements by row-major position and has the shape of the indices.
`tile.gather_row` copies a window of memory into a window of a tile, in place.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, index
from pypto_ir.interp.values import Evaluation, RunError, Tile
from pypto_ir.lazy import np
from pypto_ir.linear import all_provably_equal, provably_gt, provably_negative
from pypto_ir.ops.gather import index_cells
from pypto_ir.ops.memory import target_space
from pypto_ir.ops.registry import (
    CallSite,
    Kwarg,
    OpError,
    Trait,
    anything,
    declare_op,
    dims_text,
    scratch,
    tensor,
    tile,
    tuple_of,
)
from pypto_ir.ops.rules import optional_tuple, require_dtype, stamp
from pypto_ir.ops.scatter import kept, positions
from pypto_ir.regions import add_index, mul_index
from pypto_ir.types import Dims, Memory, TensorType, TileType, TileView, Type, implicit_view, tile_type

_INT32 = frozenset({DType.INT32})

# ---- mgather -----------------------------------------------------------------------------------------------


def _volume(shape: Dims) -> Expr:
    total: Expr = index(1)
    for d in shape:
        total = mul_index(total, d)
    return total


def _mgather_type(c: CallSite) -> TileType:
    source, indices, space = c.tensor(0), c.type(1), target_space(c)
    if not isinstance(indices, TileType | TensorType) or indices.dtype is not DType.INT32:
        raise OpError("the indices of tile.mgather must be a tile or a tensor of INT32")
    shape = indices.shape
    if c.kwarg("coalesce") == 0:
        shape = (_volume(indices.shape), source.shape[-1])
    valid = optional_tuple(c, 3) or ()
    if valid and (len(valid) != len(shape) or any(map(provably_gt, valid, shape))):
        raise OpError(f"tile.mgather of {dims_text(shape)} with the valid extents {dims_text(valid)}")
    if space is Memory.MAT or (space is None and isinstance(indices, TensorType)):
        view = replace(implicit_view(shape, Memory.MAT), valid=valid)
        return tile_type(shape, source.dtype, Memory.MAT, view)
    return stamp(tile_type(shape, source.dtype, None, TileView(valid=valid)), Memory.VEC)


def _mgather(ev: Evaluation) -> Tile:
    """An index outside the tensor gives undefined cells."""
    source, indices = ev.tensor(0), _index_tile(ev.args[1])
    rows = ev.kwarg("coalesce") == 0
    width = source.shape[-1] if rows else 1
    at, good = index_cells(indices, prod(source.shape) // max(width, 1))
    data = np.zeros((at.size, width), dtype=source.buffer._data.dtype)
    ok = np.zeros(data.shape, dtype=bool)
    sizes = (*(1,) * (len(source.shape) - 1), width)
    for k in np.flatnonzero(good):
        start = np.unravel_index(int(at[k]) * width, source.shape)
        cells, known = source.read(tuple(int(i) for i in start), sizes)
        data[k], ok[k] = cells.reshape(-1), known.reshape(-1)
    return ev.fresh(data.reshape(ev.shape), ok.reshape(ev.shape))


def _index_tile(value: Any) -> Tile:
    if isinstance(value, Tile):
        return value
    data, ok = value.read((0,) * len(value.shape), value.shape)
    return Tile(data, ok, tuple(value.valid))


declare_op(
    "tile.mgather",
    (
        tensor("src"),
        anything("indices"),
        scratch("scratch", optional=True),
        tuple_of("valid_shape", optional=True),
    ),
    infer=_mgather_type,
    trait=Trait.STRUCTURE,
    meaning=_mgather,
    reads_memory=(0, 1),
    kwargs=(
        Kwarg("coalesce", int, required=True),
        Kwarg("gather_oob", int),
        Kwarg("target_memory", Memory, words=("Vec", "Mat")),
    ),
)

# ---- mscatter ----------------------------------------------------------------------------------------------


def _mscatter_type(c: CallSite) -> Type:
    source, indices = c.tile(0), c.tile(1)
    require_dtype(c, 1, _INT32)
    if not all_provably_equal(source.shape, indices.shape):
        raise OpError(
            f"tile.mscatter of {dims_text(source.shape)} by indices {dims_text(indices.shape)}",
            "it takes one index for each element",
        )
    if source.dtype is not c.tensor(2).dtype:
        raise OpError(
            f"tile.mscatter of {source.dtype.value} into a tensor of {c.tensor(2).dtype.value}",
            "cast the tile first",
        )
    return c.tensor(2)


def _mscatter(ev: Evaluation) -> Any:
    """Element k goes to the row-major position `indices.flat[k]` of the tensor, in order of k. Raises
    `RunError` where a valid index is undefined."""
    source, indices, target = ev.tile(0), ev.tile(1), ev.tensor(2)
    inside = np.zeros(indices.shape, dtype=bool)
    inside[tuple(slice(0, v) for v in source.valid)] = True
    if (inside & ~indices.readable()).any():
        raise RunError("tile.mscatter writes memory by an undefined index", "R005")
    at, _ = positions(Tile(indices.data, inside, indices.shape), prod(target.shape), ev.op.name)
    one = (1,) * len(target.shape)
    for k in np.flatnonzero(inside.reshape(-1)):
        where = tuple(int(i) for i in np.unravel_index(int(at[k]), target.shape))
        target.write(where, source.data.reshape(-1)[k].reshape(one), source.ok.reshape(-1)[k].reshape(one))
    return target


declare_op(
    "tile.mscatter",
    (tile("src"), tile("indices"), tensor("dst")),
    infer=_mscatter_type,
    trait=Trait.STRUCTURE,
    meaning=_mscatter,
    writes_memory=(2,),
    aliases=2,
)

# ---- gather_row --------------------------------------------------------------------------------------------


def _gather_row_type(c: CallSite) -> TileType:
    target, source = c.tile(0), c.tensor(1)
    to, start, shape, valid = c.tuple(2), c.tuple(3), c.tuple(4), optional_tuple(c, 5)
    if source.dtype is not target.dtype:
        raise OpError(
            f"tile.gather_row of {source.dtype.value} into a tile of {target.dtype.value}",
            "the dtypes must be equal",
        )
    written = (*shape[:-2], shape[-1], shape[-2]) if c.kwarg("transpose") and len(shape) > 1 else shape
    for what, at, size, extents in (
        ("writes", to, written, target.shape),
        ("reads", start, valid or shape, source.shape),
    ):
        if not len(at) == len(size) == len(extents):
            raise OpError(
                f"tile.gather_row {what} {dims_text(size)} at {dims_text(at)} of {dims_text(extents)}",
                "give one offset and one extent for each dimension",
            )
        for o, n, extent in zip(at, size, extents, strict=True):
            if provably_negative(o) or provably_gt(add_index(o, n), extent):
                raise OpError(
                    f"tile.gather_row {what} {dims_text(size)} at {dims_text(at)} of {dims_text(extents)}",
                    "the window must lie inside",
                )
    if valid is not None and (len(valid) != len(shape) or any(map(provably_gt, valid, shape))):
        raise OpError(f"tile.gather_row of {dims_text(shape)} with the valid extents {dims_text(valid)}")
    return kept(target)


def _gather_row(ev: Evaluation) -> Tile:
    """The valid part of the window comes from memory, the rest of it is undefined afterwards."""
    target, (to, start, shape) = ev.target(0), ev.args[2:5]
    valid = ev.args[5] if len(ev.args) > 5 and ev.args[5] else shape
    data, ok = np.zeros(shape, dtype=target.data.dtype), np.zeros(shape, dtype=bool)
    region = tuple(slice(0, n) for n in valid)
    if all(valid):
        data[region], ok[region] = ev.tensor(1).read(start, valid)
    if ev.kwarg("transpose"):
        data, ok = np.swapaxes(data, -1, -2), np.swapaxes(ok, -1, -2)
    if any(o < 0 or o + n > d for o, n, d in zip(to, data.shape, target.shape, strict=True)):
        raise RunError(f"tile.gather_row of {list(data.shape)} at {list(to)} leaves a tile {list(target.shape)}")
    where = tuple(slice(o, o + n) for o, n in zip(to, data.shape, strict=True))
    target.data[where], target.ok[where] = data, ok
    return ev.view(target.data, target.ok)


declare_op(
    "tile.gather_row",
    (
        tile("dst"),
        tensor("src"),
        tuple_of("dst_offsets"),
        tuple_of("src_offsets"),
        tuple_of("shape"),
        tuple_of("valid_shape", optional=True),
    ),
    infer=_gather_row_type,
    trait=Trait.STRUCTURE,
    meaning=_gather_row,
    writes=(0,),
    aliases=0,
    reads_memory=(1,),
    kwargs=(Kwarg("transpose", bool, default=False),),
)
