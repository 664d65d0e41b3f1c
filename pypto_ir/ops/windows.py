"""Windows of a tile: slice, extract and assemble (`spec/tile_ir.md` section 7).

A slice shares storage with its operand: [1, 16, 64] at [3, 0, 0] of [4, 16, 64] is the last page itself.
`tile.extract` copies a window into another space, `tile.assemble` writes a tile over a window of another one
in place.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import const_int, index
from pypto_ir.interp.values import Evaluation, RunError, Tile, numpy_dtype
from pypto_ir.linear import provably_equal
from pypto_ir.ops.numeric import working
from pypto_ir.ops.registry import (
    MEMORY_WORDS,
    CallSite,
    Kwarg,
    OpError,
    ShapeRule,
    Trait,
    declare_op,
    dims_text,
    scalar,
    tile,
    tuple_of,
)
from pypto_ir.ops.rules import constant_shape, inherits, optional_tuple, require_rank
from pypto_ir.regions import is_one, window_read, write_union
from pypto_ir.types import (
    Compact,
    Dims,
    Memory,
    Pad,
    TileLayout,
    TileType,
    TileView,
    implicit_view,
    same_dims,
    tile_type,
)

ROW, COL = TileLayout.ROW_MAJOR, TileLayout.COL_MAJOR
PAD_WORDS = tuple(p.value for p in Pad)

# ---- slice and extract -------------------------------------------------------------------------------------


def _slice_type(c: CallSite) -> TileType:
    source, shape, offsets = c.tile(0), constant_shape(c, 1), c.tuple(2)
    valid = window_read(c.op.name, source.shape, source.valid, offsets, shape, optional_tuple(c, 3), exact=True)
    shape, valid = dropped(c.op.name, shape, valid, optional_tuple(c, 4) or (), least=2)
    if source.view is not None:
        v = source.view
        view = TileView((), (), None, v.blayout, v.slayout, v.fractal, v.pad, v.compact)
    else:
        view = implicit_view(shape, None)
    pad = c.kwarg("pad_value")
    view = replace(view, valid=valid, pad=Pad(str(pad)) if pad is not None else view.pad)
    return tile_type(shape, source.dtype, None, view)


def dropped(op: str, shape: Dims, valid: Dims, axes: Dims, *, least: int) -> tuple[Dims, Dims]:
    """Shape and valid extents without the axes of drop_dims, padded back to `least` dims with leading
    ones."""
    gone = [const_int(a) for a in axes]
    for axis in gone:
        if axis is None or not 0 <= axis < len(shape) or gone.count(axis) > 1:
            raise OpError(f"drop_dims {dims_text(axes)} of {op} must be distinct axes of {dims_text(shape)}")
        if not is_one(shape[axis]) or not provably_equal(valid[axis], index(1)):
            raise OpError(
                f"{op} drops axis {axis} of {dims_text(shape)} valid {dims_text(valid)}",
                "only full unit axes drop",
            )
    keep = [i for i in range(len(shape)) if i not in gone]
    front = (index(1),) * (least - len(keep)) if gone else ()
    return (*front, *(shape[i] for i in keep)), (*front, *(valid[i] for i in keep))


def _window(ev: Evaluation, offsets: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Any, Any]:
    source = ev.tile(0)
    if any(o < 0 or o + n > d for o, n, d in zip(offsets, shape, source.shape, strict=True)):
        raise RunError(f"{ev.op.name} of {list(shape)} at {list(offsets)} leaves a tile of shape {list(source.shape)}")
    where = tuple(slice(o, o + n) for o, n in zip(offsets, shape, strict=True))
    return source.data[where], source.readable()[where] if ev.op.aliases is None else source.ok[where]


def _slice(ev: Evaluation) -> Tile:
    data, ok = _window(ev, ev.args[2], ev.args[1])
    return ev.view(data.reshape(ev.shape), ok.reshape(ev.shape))


def _extract_type(c: CallSite) -> TileType:
    source, space = require_rank(c, 0, 2), Memory(str(c.kwarg("target_memory")))
    shape = constant_shape(c, 3)
    valid = window_read(c.op.name, source.shape, source.valid, (c.args[1], c.args[2]), shape, exact=True)
    view = replace(implicit_view(shape, space), valid=valid)
    if space in (Memory.LEFT, Memory.RIGHT):
        partial = not same_dims(valid, shape)
        slayout = ROW if space is Memory.LEFT else COL
        view = replace(view, blayout=ROW, slayout=slayout, compact=Compact.NORMAL if partial else Compact.NULL)
    return tile_type(shape, source.dtype, space, view)


def _extract(ev: Evaluation) -> Tile:
    return ev.fresh(*_window(ev, (int(ev.args[1]), int(ev.args[2])), ev.args[3]))


_SRC = tile("src")
_TARGET = Kwarg("target_memory", Memory, default="Vec", words=MEMORY_WORDS)
declare_op(
    "tile.slice",
    (
        _SRC,
        tuple_of("shape"),
        tuple_of("offsets"),
        tuple_of("valid", optional=True),
        tuple_of("drop_dims", optional=True),
    ),
    infer=inherits(_slice_type),
    trait=Trait.STRUCTURE,
    meaning=_slice,
    aliases=0,
    kwargs=(Kwarg("pad_value", str, words=PAD_WORDS),),
)
declare_op(
    "tile.extract",
    (_SRC, scalar("row"), scalar("col"), tuple_of("shape")),
    infer=_extract_type,
    trait=Trait.STRUCTURE,
    meaning=_extract,
    kwargs=(_TARGET,),
)

# ---- assemble ----------------------------------------------------------------------------------------------


def _assemble_type(c: CallSite) -> TileType:
    target, source, offsets = c.tile(0), c.tile(1), c.tuple(2)
    narrowed = source.dtype is DType.FP32 and target.dtype in (DType.BF16, DType.FP16)
    if source.dtype is not target.dtype and not narrowed:
        raise OpError(f"tile.assemble of {source.dtype.value} into {target.dtype.value}", "cast the source first")
    valid = target.shape
    if source.rank == target.rank:
        valid = write_union(c.op.name, target.shape, target.valid, source.shape, source.valid, offsets, exact=True)
    elif len(offsets) != target.rank:
        raise OpError(
            f"tile.assemble has {len(offsets)} offsets for a target of rank {target.rank}",
            "one index per target dimension",
        )
    return tile_type(target.shape, target.dtype, target.memory, replace(target.effective_view, valid=valid))


def _assemble(ev: Evaluation) -> Tile:
    """The whole physical source is written: where it holds no defined data, neither does the target
    afterwards."""
    target, source, offsets = ev.target(0), ev.tile(1), ev.args[2]
    shape = (
        *(1,) * (len(offsets) - source.data.ndim),
        *source.shape[max(source.data.ndim - len(offsets), 0) :],
    )
    if prod(shape) != prod(source.shape) or any(o < 0 or o + n > d for o, n, d in zip(offsets, shape, target.shape, strict=True)):
        raise RunError(f"tile.assemble of {list(source.shape)} at {list(offsets)} leaves a tile of shape {list(target.shape)}")
    where = tuple(slice(o, o + n) for o, n in zip(offsets, shape, strict=True))
    assert ev.dtype is not None
    target.data[where] = working(source.data, ev.dtype).astype(numpy_dtype(ev.dtype)).reshape(shape)
    target.ok[where] = source.readable().reshape(shape)
    return ev.view(target.data, target.ok)


declare_op(
    "tile.assemble",
    (tile("dst"), _SRC, tuple_of("offsets")),
    infer=_assemble_type,
    trait=Trait.STRUCTURE,
    meaning=_assemble,
    shape=ShapeRule.FIRST,
    writes=(0,),
    aliases=0,
)
