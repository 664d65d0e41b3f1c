"""Ops on the valid region and on single cells: set_validshape, fillpad, concat, read, write
(`spec/tile_ir.md` section 7).

`tile.fillpad` of [32, 64] valid [r, w] with pad_value min is [32, 64] fully valid: FP32 cells outside [r, w]
hold -inf, INT8 cells -128.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pypto_ir.interp.values import UNDEFINED, Evaluation, RunError, Tile, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.linear import provably_equal, provably_gt, provably_negative
from pypto_ir.ops.numeric import extreme, same_cells, working
from pypto_ir.ops.registry import (
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
from pypto_ir.ops.rules import (
    check_cell,
    constant_shape,
    in_vec,
    inherited_view,
    inherits,
    require_rank,
    require_same_dtype,
)
from pypto_ir.regions import add_index
from pypto_ir.types import Pad, ScalarType, TileType, TileView, Type, tile_type, with_valid

_SRC = tile("src")

# ---- set_validshape ----------------------------------------------------------------------------------------


def _set_validshape_type(c: CallSite) -> TileType:
    source, valid = require_rank(c, 0, 2), (c.args[1], c.args[2])
    for v, extent in zip(valid, source.shape, strict=True):
        if provably_negative(v) or provably_gt(v, extent):
            raise OpError(
                f"tile.set_validshape {dims_text(valid)} of a tile {dims_text(source.shape)}",
                "0 up to the extent",
            )
    return with_valid(source, valid)


declare_op(
    "tile.set_validshape",
    (_SRC, scalar("rows"), scalar("cols")),
    infer=inherits(_set_validshape_type),
    trait=Trait.STRUCTURE,
    meaning=same_cells,
    shape=ShapeRule.FIRST,
    aliases=0,
)

# ---- fillpad -----------------------------------------------------------------------------------------------


def _pad(c: CallSite) -> Pad:
    return Pad(str(c.kwarg("pad_value")))


def _fillpad_type(c: CallSite) -> TileType:
    source = c.tile(0)
    view = replace(source.effective_view, valid=source.shape, pad=_pad(c))
    return tile_type(source.shape, source.dtype, source.memory, view)


def _fillpad_expand_type(c: CallSite) -> TileType:
    source, shape = c.tile(0), constant_shape(c, 1)
    if len(shape) != source.rank or any(map(provably_gt, source.shape, shape)):
        raise OpError(
            f"tile.fillpad_expand of {dims_text(source.shape)} to {dims_text(shape)}",
            "no dimension may shrink",
        )
    return tile_type(shape, source.dtype, None, replace(inherited_view(source, shape), pad=_pad(c)))


def _fill_value(ev: Evaluation) -> Any:
    assert ev.dtype is not None
    word = ev.kwarg("pad_value")
    return 0 if word == "zero" else extreme(ev.dtype, largest=word == "max")


def _fillpad(ev: Evaluation) -> Tile:
    """Valid cells keep their place at the origin, everything else becomes the pad value."""
    source = ev.tile(0)
    assert ev.dtype is not None
    region = tuple(slice(0, v) for v in source.valid)
    data = np.full(ev.shape, _fill_value(ev), dtype=numpy_dtype(ev.dtype))
    ok = np.ones(ev.shape, dtype=bool)
    data[region], ok[region] = source.data[region], source.ok[region]
    return ev.fresh(data, ok)


def _fillpad_inplace(ev: Evaluation) -> Tile:
    target = ev.target(0)
    outside = np.ones(target.shape, dtype=bool)
    outside[tuple(slice(0, v) for v in target.valid)] = False
    target.data[outside], target.ok[outside] = _fill_value(ev), True
    return ev.view(target.data, target.ok)


_PAD_VALUE = (Kwarg("pad_value", str, default="zero", words=("zero", "max", "min")),)
declare_op(
    "tile.fillpad",
    (_SRC,),
    infer=inherits(_fillpad_type),
    trait=Trait.STRUCTURE,
    meaning=_fillpad,
    shape=ShapeRule.FIRST,
    kwargs=_PAD_VALUE,
)
declare_op(
    "tile.fillpad_inplace",
    (_SRC,),
    infer=inherits(_fillpad_type),
    trait=Trait.STRUCTURE,
    meaning=_fillpad_inplace,
    shape=ShapeRule.FIRST,
    writes=(0,),
    aliases=0,
    kwargs=_PAD_VALUE,
)
declare_op(
    "tile.fillpad_expand",
    (_SRC, tuple_of("shape")),
    infer=in_vec(_fillpad_expand_type),
    trait=Trait.STRUCTURE,
    meaning=_fillpad,
    kwargs=_PAD_VALUE,
)

# ---- concat ------------------------------------------------------------------------------------------------


def _concat_type(c: CallSite) -> TileType:
    a, b = require_rank(c, 0, 2), require_rank(c, 1, 2)
    require_same_dtype(c, 0, 1)
    if not provably_equal(a.shape[0], b.shape[0]):
        raise OpError(
            f"tile.concat of {dims_text(a.shape)} and {dims_text(b.shape)}",
            "both need the same number of rows",
        )
    return tile_type((a.shape[0], add_index(a.shape[1], b.shape[1])), a.dtype, None, TileView())


def _concat(ev: Evaluation) -> Tile:
    a, b = ev.tile(0), ev.tile(1)
    return ev.fresh(np.concatenate((a.data, b.data), axis=1), np.concatenate((a.readable(), b.readable()), axis=1))


declare_op(
    "tile.concat",
    (tile("lhs"), tile("rhs")),
    infer=in_vec(_concat_type),
    trait=Trait.STRUCTURE,
    meaning=_concat,
)

# ---- single cells ------------------------------------------------------------------------------------------


def _check_index(c: CallSite) -> TileType:
    source = c.tile(0)
    check_cell(c, "tile", source.shape)
    return source


def _cell(ev: Evaluation) -> tuple[int, ...]:
    at: tuple[int, ...] = ev.args[1]
    if any(not 0 <= i < n for i, n in zip(at, ev.tile(0).shape, strict=True)):
        raise RunError(f"{ev.op.name} at {list(at)} of a tile of shape {list(ev.tile(0).shape)}")
    return at


def _read_type(c: CallSite) -> Type:
    return ScalarType(_check_index(c).dtype)


def _read(ev: Evaluation) -> Any:
    at = _cell(ev)
    return ev.tile(0).data[at] if ev.tile(0).readable()[at] else UNDEFINED


def _write(ev: Evaluation) -> Tile:
    """The tile with one cell set."""
    at, value = _cell(ev), ev.args[2]
    target = ev.target(0)
    assert ev.dtype is not None
    target.ok[at] = value is not UNDEFINED
    if value is not UNDEFINED:
        target.data[at] = working(value, ev.dtype).astype(numpy_dtype(ev.dtype))
    return ev.view(target.data, target.ok)


declare_op("tile.read", (_SRC, tuple_of("index")), infer=_read_type, trait=Trait.OPAQUE, meaning=_read)
declare_op(
    "tile.write",
    (tile("dst"), tuple_of("index"), scalar("value")),
    infer=in_vec(_check_index),
    trait=Trait.STRUCTURE,
    meaning=_write,
    shape=ShapeRule.FIRST,
    writes=(0,),
    aliases=0,
)
