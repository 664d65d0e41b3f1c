"""Gathers within a tile (`spec/tile_ir.md` section 7).

`tile.gather` of a [2, 4] tile with indices [[7, 0]] takes its cells by row-major position: the last one and
the first. `tile.gather_mask` with pattern P0101 (1) of [16, 64] keeps columns 0, 2, .. as [16, 32].
`tile.gatherb` copies 32-byte blocks by byte offset, `tile.gather_compare` finds the columns of each row in
which a comparison holds.

Results are fully valid; what an index, an offset or a mark does not determine is an undefined cell.
"""

from __future__ import annotations

from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, const_int, index
from pypto_ir.interp.values import Evaluation, Tile, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.ops.numeric import working
from pypto_ir.ops.registry import (
    DTYPE_WORDS,
    CallSite,
    Kwarg,
    OpError,
    Trait,
    declare_op,
    dims_text,
    scalar,
    scratch,
    tile,
)
from pypto_ir.ops.rules import check_scalars, in_vec, require_dtype, require_rank, stamp
from pypto_ir.ops.select import COMPARE, common
from pypto_ir.regions import mul_index
from pypto_ir.types import Memory, TileType, TileView, TupleType, Type, tile_type

WORDS_32 = frozenset({DType.INT32})
_GATHERED = frozenset({DType.FP16, DType.FP32, DType.INT16, DType.INT32})
BLOCK = 32  # bytes that tile.gatherb moves at a time

#: mask_pattern -> (first marked column, distance of marked columns); the printed bits count from the right
PATTERNS = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}


def index_cells(indices: Tile, size: int) -> tuple[Any, Any]:
    """Positions of an index tile, flat, and which of them are defined and inside `size` elements; the others
    are 0."""
    at, known = indices.data.reshape(-1).astype(np.int64), indices.readable().reshape(-1)
    good = known & (at >= 0) & (at < size)
    return np.where(good, at, 0), good


# ---- by index ----------------------------------------------------------------------------------------------


def _gather_type(c: CallSite) -> TileType:
    source, indices = c.tile(0), c.tile(1)
    require_dtype(c, 0, _GATHERED)
    require_dtype(c, 1, WORDS_32 | ({DType.INT16} if source.dtype.bits == 16 else set()))
    return tile_type(indices.shape, source.dtype, None, TileView())


def _gather(ev: Evaluation) -> Tile:
    source, indices = ev.tile(0), ev.tile(1)
    at, known = index_cells(indices, source.data.size)
    ok = known & source.readable().reshape(-1)[at]
    return ev.fresh(source.data.reshape(-1)[at].reshape(ev.shape), ok.reshape(ev.shape))


declare_op(
    "tile.gather",
    (tile("src"), tile("indices"), scratch()),
    infer=in_vec(_gather_type),
    trait=Trait.WHOLE,
    meaning=_gather,
)

# ---- by mask -----------------------------------------------------------------------------------------------


def pattern_of(c: CallSite) -> tuple[int, int]:
    """First marked column and distance of the marked columns of the keyword argument mask_pattern."""
    word = c.kwarg("mask_pattern")
    if not isinstance(word, int) or word not in PATTERNS:
        raise OpError(f"mask_pattern of {c.op.name} is {word}", f"allowed: {', '.join(map(str, PATTERNS))}")
    return PATTERNS[word]


def bits_as(c: CallSite, source: TileType) -> DType:
    """The dtype of the same width that output_dtype names for the bits of `source`, its own where absent."""
    word = c.kwarg("output_dtype")
    if word is None:
        return source.dtype
    dtype = DType(str(word))
    if dtype.bits != source.dtype.bits:
        raise OpError(f"{c.op.name} gives {source.dtype.value} as {dtype.value}", "both must have the same width")
    return dtype


def _divided(c: CallSite, columns: Expr, by: int) -> Expr:
    count = const_int(columns)
    if count is None or count % by:
        raise OpError(
            f"{c.op.name} takes every column of {by} from a tile of {dims_text((columns,))} columns",
            f"the columns must be a constant multiple of {by}",
        )
    return index(count // by)


def _gather_mask_type(c: CallSite) -> TileType:
    source, (_, step) = require_rank(c, 0, 2), pattern_of(c)
    shape = (source.shape[0], _divided(c, source.shape[1], step))
    return tile_type(shape, bits_as(c, source), None, TileView())


def _gather_mask(ev: Evaluation) -> Tile:
    source, (first, step) = ev.tile(0), PATTERNS[ev.kwarg("mask_pattern")]
    assert ev.dtype is not None
    data = np.ascontiguousarray(source.data[:, first::step]).view(numpy_dtype(ev.dtype))
    return ev.fresh(data, source.readable()[:, first::step])


_OUTPUT = Kwarg("output_dtype", DType, words=DTYPE_WORDS)
declare_op(
    "tile.gather_mask",
    (tile("src"),),
    infer=in_vec(_gather_mask_type),
    trait=Trait.STRUCTURE,
    meaning=_gather_mask,
    kwargs=(Kwarg("mask_pattern", int, required=True), _OUTPUT),
    annotated=True,
)

# ---- by byte offset ----------------------------------------------------------------------------------------


def _gatherb_type(c: CallSite) -> TileType:
    source, offsets = c.tile(0), c.tile(1)
    require_dtype(c, 1, frozenset({DType.UINT32}))
    word = c.kwarg("output_dtype")
    dtype = source.dtype if word is None else DType(str(word))
    shape = (*offsets.shape[:-1], mul_index(offsets.shape[-1], index(BLOCK // dtype.bytes)))
    return tile_type(shape, dtype, None, TileView())


def _gatherb(ev: Evaluation) -> Tile:
    """Cell k of a block comes from the 32 bytes at the offset; a block that reaches past the source is
    undefined."""
    source, offsets = ev.tile(0), ev.tile(1)
    assert ev.dtype is not None
    held, size = numpy_dtype(ev.dtype), source.data.dtype.itemsize
    raw = np.ascontiguousarray(source.data).reshape(-1).view(np.uint8)
    known = np.repeat(source.readable().reshape(-1), size)
    start, good = index_cells(offsets, max(raw.size - BLOCK + 1, 0))
    if not raw.size or not good.any():
        return ev.fresh(np.zeros(ev.shape, dtype=held), np.False_)
    at = start[:, None] + np.arange(BLOCK)
    data = np.ascontiguousarray(raw[at]).view(held)
    ok = known[at].reshape(data.shape[0], -1, held.itemsize).all(axis=2) & good[:, None]
    return ev.fresh(data.reshape(ev.shape), ok.reshape(ev.shape))


declare_op(
    "tile.gatherb",
    (tile("src"), tile("offsets")),
    infer=in_vec(_gatherb_type),
    trait=Trait.WHOLE,
    meaning=_gatherb,
    kwargs=(_OUTPUT,),
    annotated=True,
)

# ---- by comparison -----------------------------------------------------------------------------------------


def _gather_compare_type(c: CallSite) -> Type:
    source = require_rank(c, 0, 2)
    check_scalars(c)
    mode, columns = c.kwarg("cmp_mode"), c.kwarg("out_cols")
    if not isinstance(mode, int) or not 0 <= mode < len(COMPARE):
        raise OpError(f"cmp_mode of {c.op.name} is {mode}", "0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge")
    if not isinstance(columns, int) or columns <= 0:
        raise OpError(f"out_cols of {c.op.name} is {columns}", "it must be positive")
    counted = DType(str(c.kwarg("count_dtype")))
    found = tile_type((source.shape[0], index(columns)), DType.INT32, None, TileView())
    counts = tile_type((index(1), source.shape[0]), counted, None, TileView())
    return TupleType((stamp(found, Memory.VEC), stamp(counts, Memory.VEC)))


def _gather_compare(ev: Evaluation) -> tuple[Tile, Tile]:
    """Row r holds the matching columns in ascending order, and the count row says how many there are. Not
    determined, hence undefined: cells behind the last match, all indices where `offset` is not 0, and a count
    above out_cols."""
    source = ev.tile(0)
    left, right = common(source.data, np.asarray(ev.args[1]).astype(source.data.dtype))
    with np.errstate(all="ignore"):
        hits = getattr(np, COMPARE[ev.kwarg("cmp_mode")])(left, right)
    inside = np.arange(hits.shape[1]) < source.valid[1]
    row_ok = (source.ok | ~inside).all(axis=1) & (np.arange(hits.shape[0]) < source.valid[0])
    rows, columns = hits.shape[0], int(ev.kwarg("out_cols"))
    data, ok = np.zeros((rows, columns), dtype=np.int32), np.zeros((rows, columns), dtype=bool)
    counts = np.zeros((1, rows), dtype=np.int64)
    for r in range(rows):
        found = np.flatnonzero(hits[r] & inside)
        counts[0, r], kept = found.size, found[:columns]
        data[r, : kept.size], ok[r, : kept.size] = kept, row_ok[r] and ev.kwarg("offset") == 0
    assert isinstance(ev.type, TupleType) and isinstance(ev.type.items[1], TileType)
    held = working(counts, ev.type.items[1].dtype).astype(numpy_dtype(ev.type.items[1].dtype))
    counted = row_ok[None, :] & (counts <= columns)
    return Tile(data, ok, data.shape), Tile(held, counted, held.shape)


declare_op(
    "tile.gather_compare",
    (tile("src"), scalar("key"), scratch()),
    infer=_gather_compare_type,
    trait=Trait.OPAQUE,
    meaning=_gather_compare,
    kwargs=(
        Kwarg("cmp_mode", int, required=True),
        Kwarg("offset", int, default=0),
        Kwarg("out_cols", int, required=True),
        Kwarg("count_dtype", DType, default="INT32", words=DTYPE_WORDS),
    ),
    annotated=True,
)
