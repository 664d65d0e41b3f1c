"""Sorting of (value, index) pairs along rows (`spec/tile_ir.md` section 7).

A pair takes 8 bytes: in an FP32 tile a value and, in the next element, the bits of a UINT32 index.
`tile.sort32` of [1, 64] values is [1, 128]: two runs of 32 pairs, each in descending order of value.
`tile.mrgsort_format1` with block length 64 (elements, so 32 pairs) merges every four such runs into one,
`tile.mrgsort_format2` merges two to four tiles. Among equal values the earlier one comes first.

The layout of FP16 pairs is not settled in the sources: results of FP16 are undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import index
from pypto_ir.interp.values import Evaluation, Tile
from pypto_ir.lazy import np
from pypto_ir.ops.registry import (
    CallSite,
    Kwarg,
    OpError,
    Trait,
    declare_op,
    scalar,
    tile,
)
from pypto_ir.ops.rules import in_vec, inherited_view, require_dtype, require_same_dtype
from pypto_ir.regions import mul_index
from pypto_ir.types import TileType, TileView, same_dims, tile_type

_SORTED = frozenset({DType.FP16, DType.FP32})
_POSITIONS = frozenset({DType.UINT32, DType.INT32, DType.UINT16, DType.INT16})
RUN = 32  # pairs that sort32 orders among themselves
PAIR = 2  # FP32 elements of a pair
WAYS = 4  # runs that one merge takes


def _sort32_type(c: CallSite) -> TileType:
    source, positions = c.tile(0), c.tile(1)
    require_dtype(c, 0, _SORTED)
    require_dtype(c, 1, _POSITIONS)
    if positions.rank != source.rank:
        raise OpError("tile.sort32 takes an index tile of the rank of its values")
    doubled, two = source.shape[:-1], index(PAIR)
    shape = (*doubled, mul_index(source.shape[-1], two))
    valid = shape if same_dims(source.valid, source.shape) else (*source.valid[:-1], mul_index(source.valid[-1], two))
    return tile_type(shape, source.dtype, None, inherited_view(source, valid))


def descending(values: Any) -> Any:
    """The order of the last axis that is descending by value, equal values in their old order."""
    return np.argsort(-values, axis=-1, kind="stable")


def _sort32(ev: Evaluation) -> Tile:
    """A run that holds an undefined value or index is undefined as a whole."""
    source, positions = ev.tile(0), ev.tile(1)
    if ev.dtype is not DType.FP32:
        return ev.fresh(np.zeros(ev.shape), np.False_)
    bits = np.broadcast_to(positions.data.astype(np.uint32), source.shape)
    known = source.readable() & positions.readable()
    data, ok = np.zeros(ev.shape, dtype=np.float32), np.zeros(ev.shape, dtype=bool)
    for start in range(0, source.shape[-1], RUN):
        run = (..., slice(start, start + RUN))
        order = descending(source.data[run])
        pairs = (..., slice(PAIR * start, PAIR * (start + RUN)))
        values = np.take_along_axis(source.data[run], order, axis=-1)
        data[pairs] = _joined(values, np.take_along_axis(bits[run], order, axis=-1))
        ok[pairs] = known[run].all(axis=-1, keepdims=True)
    return ev.fresh(data, ok)


def _joined(values: Any, bits: Any) -> Any:
    pairs = np.stack((np.ascontiguousarray(values).view(np.uint32), bits), axis=-1)
    return np.ascontiguousarray(pairs).reshape(*values.shape[:-1], -1).view(np.float32)


def merged(runs: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Runs of pairs of one row, each as elements and their definedness, merged into one in descending order;
    undefined as a whole where one of them is not wholly defined."""
    data = np.concatenate([d for d, _ in runs])
    pairs = np.ascontiguousarray(data).reshape(-1, PAIR)
    order = descending(pairs[:, 0])
    return pairs[order].reshape(-1), np.full(data.shape, all(ok.all() for _, ok in runs))


# ---- merging the runs of one tile --------------------------------------------------------------------------


def _format1_type(c: CallSite) -> TileType:
    require_dtype(c, 0, _SORTED)
    if not c.dtype(1).is_int:
        raise OpError(f"the block length of {c.op.name} has dtype {c.dtype(1).value}", "it must be an integer")
    source = c.tile(0)
    return tile_type(source.shape, source.dtype, None, inherited_view(source, source.valid))


def _format1(ev: Evaluation) -> Tile:
    """Elements behind the last whole group of four runs are undefined."""
    source, length = ev.tile(0), int(ev.args[1])
    data, ok = np.zeros(ev.shape, dtype=source.data.dtype), np.zeros(ev.shape, dtype=bool)
    known = source.readable()
    if ev.dtype is DType.FP32 and length > 0 and length % PAIR == 0:
        for row in np.ndindex(*source.shape[:-1]):
            for start in range(0, source.shape[-1] - WAYS * length + 1, WAYS * length):
                group = (*row, slice(start, start + WAYS * length))
                cells = source.data[group].reshape(WAYS, length), known[group].reshape(WAYS, length)
                data[group], ok[group] = merged(list(zip(*cells, strict=True)))
    return ev.fresh(data, ok)


# ---- merging several tiles ---------------------------------------------------------------------------------


def _format2_type(c: CallSite) -> TileType:
    require_dtype(c, 0, _SORTED)
    for i in range(1, len(c)):
        require_same_dtype(c, 0, i)
    out = c.tile(len(c) - 1)
    return tile_type(out.shape, out.dtype, None, TileView())


def _format2(ev: Evaluation) -> Tile:
    """With `exhausted` merging stops when one list ends: behind the pairs that are sure to come out before
    that, nothing is defined."""
    sources = [ev.tile(i) for i in range(len(ev.args) - 1)]
    data, ok = np.zeros(ev.shape, dtype=sources[0].data.dtype), np.zeros(ev.shape, dtype=bool)
    if ev.dtype is not DType.FP32 or any(s.shape[:-1] != ev.shape[:-1] for s in sources):
        return ev.fresh(data, ok)
    for row in np.ndindex(*ev.shape[:-1]):
        runs = [(s.data[row], s.readable()[row]) for s in sources]
        cells, known = merged(runs)
        if ev.kwarg("exhausted"):
            known = known & (np.arange(known.size) < PAIR * _until_one_ends([d for d, _ in runs]))
        count = min(cells.size, ev.shape[-1])
        data[row][:count], ok[row][:count] = cells[:count], known[:count]
    return ev.fresh(data, ok)


def _until_one_ends(runs: list[Any]) -> int:
    """The number of pairs that have come out when the last pair of some run does."""
    owner = np.concatenate([np.full(r.size // PAIR, i) for i, r in enumerate(runs)])
    order = descending(np.concatenate([r.reshape(-1, PAIR)[:, 0] for r in runs]))
    ends = [int(np.flatnonzero(owner[order] == i)[-1]) for i, r in enumerate(runs) if r.size]
    return min(ends) + 1 if len(ends) == len(runs) else 0


_SRC = tile("src")
declare_op(
    "tile.sort32",
    (_SRC, tile("indices")),
    infer=in_vec(_sort32_type),
    trait=Trait.ROW_WISE,
    meaning=_sort32,
    annotated=True,
)
declare_op(
    "tile.mrgsort_format1",
    (_SRC, scalar("block_len")),
    infer=in_vec(_format1_type),
    trait=Trait.ROW_WISE,
    meaning=_format1,
)
declare_op(
    "tile.mrgsort_format2",
    (tile("src0"), tile("src1"), tile("src2"), tile("src3", optional=True), tile("tmp", optional=True)),
    infer=in_vec(_format2_type),
    trait=Trait.OPAQUE,
    meaning=_format2,
    kwargs=(Kwarg("exhausted", bool, default=False),),
    doc="the last operand is the scratch tile, whose shape the result has",
)
