"""Scatters into a tile, which they overwrite in place (`spec/tile_ir.md` section 7).

`tile.scatter` of a source [[5, 6]] by indices [[3, 0]] sets the cells of its target with row-major positions
3 and 0 to 5 and 6. `tile.scatter_mask` places columns into the marked ones of its target,
`tile.scatter_update` replaces whole rows by number.

Cells are written in row-major order of the indices: of two that name one cell, the later one stays.
"""

from __future__ import annotations

from math import prod
from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import index
from pypto_ir.interp.values import Evaluation, RunError, Tile
from pypto_ir.lazy import np
from pypto_ir.linear import all_provably_equal, provably_equal, provably_gt
from pypto_ir.ops.gather import PATTERNS, pattern_of
from pypto_ir.ops.registry import CallSite, Kwarg, OpError, Trait, declare_op, dims_text, tile
from pypto_ir.ops.rules import in_vec, require_dtype, require_rank, require_same_dtype
from pypto_ir.regions import mul_index, static
from pypto_ir.types import TileType, tile_type

_DST, _SRC = tile("dst"), tile("src")


def kept(t: TileType) -> TileType:
    """The type of a tile that an op has overwritten in place."""
    return tile_type(t.shape, t.dtype, t.memory, t.view)


def index_width(dtype: DType) -> frozenset[DType]:
    """The index types for cells of `dtype`: INT32 for 4 bytes, INT16 for 1 and 2."""
    return frozenset({DType.INT32 if dtype.bytes == 4 else DType.INT16})


def positions(indices: Tile, size: int, op: str) -> tuple[Any, bool]:
    """The defined positions of an index tile, flat, and whether all of it is defined; raises `RunError` for
    one outside `size` elements."""
    known = indices.readable().reshape(-1)
    at = indices.data.reshape(-1).astype(np.int64)
    if ((at[known] < 0) | (at[known] >= size)).any():
        raise RunError(f"{op} at position {int(at[known].max())} or below 0 of {size} elements")
    return at, bool(known.all())


# ---- by index ----------------------------------------------------------------------------------------------


def _scatter_type(c: CallSite) -> TileType:
    target, source, indices = c.tile(0), c.tile(1), c.tile(2)
    require_same_dtype(c, 0, 1)
    require_dtype(c, 2, index_width(target.dtype))
    if not all_provably_equal(source.shape, indices.shape):
        raise OpError(
            f"tile.scatter of {dims_text(source.shape)} by indices {dims_text(indices.shape)}",
            "it takes one index for each element",
        )
    return kept(target)


def _scatter(ev: Evaluation) -> Tile:
    """Where an index is undefined any cell may have been written: the whole target is undefined."""
    target, source = ev.target(0), ev.tile(1)
    at, known = positions(ev.tile(2), target.data.size, ev.op.name)
    if known:
        where = np.unravel_index(at, target.shape)
        target.data[where] = source.data.reshape(-1)
        target.ok[where] = source.readable().reshape(-1)
    else:
        target.ok[...] = False
    return ev.view(target.data, target.ok)


declare_op(
    "tile.scatter",
    (_DST, _SRC, tile("indices")),
    infer=in_vec(_scatter_type),
    trait=Trait.WHOLE,
    meaning=_scatter,
    writes=(0,),
    aliases=0,
)

# ---- by mask -----------------------------------------------------------------------------------------------


def _scatter_mask_type(c: CallSite) -> TileType:
    target, source = require_rank(c, 0, 2), require_rank(c, 1, 2)
    require_same_dtype(c, 0, 1)
    _, step = pattern_of(c)
    wide = (source.shape[0], mul_index(source.shape[1], index(step)))
    if not all(map(provably_equal, target.shape, wide)):
        raise OpError(
            f"tile.scatter_mask of {dims_text(source.shape)} into {dims_text(target.shape)}",
            f"this pattern needs a target {dims_text(wide)}",
        )
    return kept(target)


def _scatter_mask(ev: Evaluation) -> Tile:
    """The marked columns take the source's. Sources disagree on the others (kept, or zeroed): they are
    undefined."""
    target, source, (first, step) = ev.target(0), ev.tile(1), PATTERNS[ev.kwarg("mask_pattern")]
    target.ok[...] = False
    target.data[:, first::step] = source.data
    target.ok[:, first::step] = source.readable()
    return ev.view(target.data, target.ok)


declare_op(
    "tile.scatter_mask",
    (_DST, _SRC),
    infer=in_vec(_scatter_mask_type),
    trait=Trait.STRUCTURE,
    meaning=_scatter_mask,
    writes=(0,),
    aliases=0,
    kwargs=(Kwarg("mask_pattern", int, required=True),),
)

# ---- whole rows --------------------------------------------------------------------------------------------


def _scatter_update_type(c: CallSite) -> TileType:
    target, indices, source = c.tile(0), require_rank(c, 1, 2), c.tile(2)
    require_same_dtype(c, 0, 2)
    require_dtype(c, 1, frozenset(d for d in DType if d.is_int and d.bits >= 16))
    if c.kwarg("dim") != -2 or target.rank not in (2, 4) or source.rank != target.rank:
        raise OpError(
            f"tile.scatter_update of {dims_text(source.shape)} into {dims_text(target.shape)} along dim {c.kwarg('dim')}",
            "it takes two tiles of rank 2 or 4 and dim -2",
        )
    wanted, found = target.shape[-1:], source.shape[-1:]
    if provably_gt(*wanted, *found) or provably_gt(*found, *wanted):
        raise OpError(f"tile.scatter_update of rows of {dims_text(found)} elements into rows of {dims_text(wanted)}")
    given, rows = static(indices.shape), static(source.shape[:-1])
    if given is not None and rows is not None and prod(given) != prod(rows):
        raise OpError(
            f"tile.scatter_update of {dims_text(source.shape)} by indices {dims_text(indices.shape)}",
            "it takes one index for each row",
        )
    return kept(target)


def _scatter_update(ev: Evaluation) -> Tile:
    """Row `indices.flat[k]` of the target, its leading dims taken as one, becomes row k of the source."""
    target, source = ev.target(0), ev.tile(2)
    rows = target.data.size // max(target.shape[-1], 1)
    at, known = positions(ev.tile(1), rows, ev.op.name)
    if known:
        where = np.unravel_index(at, target.shape[:-1])
        target.data[where] = source.data.reshape(at.size, -1)
        target.ok[where] = source.readable().reshape(at.size, -1)
    else:
        target.ok[...] = False
    return ev.view(target.data, target.ok)


declare_op(
    "tile.scatter_update",
    (_DST, tile("indices"), _SRC),
    infer=in_vec(_scatter_update_type),
    trait=Trait.WHOLE,
    meaning=_scatter_update,
    writes=(0,),
    aliases=0,
    kwargs=(Kwarg("dim", int, default=-2),),
)
