"""Views and copies: reshape, reinterpret_view, transposes and move (`spec/tile_ir.md` section 7).

Views share storage with their operand: `tile.reshape` of [2, 8, 64] to [16, 64] is the same cells. A window
with gaps, such as [8, 32] of [8, 64], has a reshape to [2, 4, 32], but none to [4, 64]: by value that is a
copy, in buffer mode, where no such view of the buffer exists, a `RunError`.
"""

from __future__ import annotations

from math import prod
from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, const_int, index
from pypto_ir.interp.values import Evaluation, RunError, Tile, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.ops.registry import (
    DTYPE_WORDS,
    MEMORY_WORDS,
    CallSite,
    Kwarg,
    OpError,
    ShapeRule,
    Trait,
    declare_op,
    dims_text,
    scalar,
    scratch,
    tile,
    tuple_of,
)
from pypto_ir.ops.rules import constant_int, constant_shape, inherits, optional_tuple
from pypto_ir.regions import is_one, mul_index, reshape_valid, static
from pypto_ir.types import (
    Dims,
    Memory,
    Pad,
    TileLayout,
    TileType,
    TileView,
    implicit_view,
    is_boxed,
    tile_type,
)

ROW, COL, NONE = TileLayout.ROW_MAJOR, TileLayout.COL_MAJOR, TileLayout.NONE_BOX
_FLIPPED = {ROW: COL, COL: ROW, NONE: NONE}
_LAYOUT_WORDS = tuple(m.value for m in TileLayout)

# ---- reshape and reinterpret_view --------------------------------------------------------------------------


def _is_flat(t: TileType) -> bool:
    """True where flat order is row-major order: no boxes, row_major or a single column."""
    v = t.effective_view
    return v.slayout is NONE and not v.stride and (v.blayout is ROW or is_one(t.shape[-1]))


def _reshape_type(c: CallSite) -> TileType:
    source, shape = c.tile(0), constant_shape(c, 1)
    have, want = static(source.shape), static(shape)
    if have is not None and want is not None and prod(have) != prod(want):
        raise OpError(f"tile.reshape of {dims_text(source.shape)} to {dims_text(shape)}: {prod(have)} elements are not {prod(want)}")
    v = source.effective_view
    valid = reshape_valid(c.op.name, source.valid, source.shape, shape, _is_flat(source))
    blayout = implicit_view(shape, None).blayout
    return tile_type(shape, source.dtype, None, TileView(valid=valid, blayout=blayout, pad=v.pad, compact=v.compact))


def _reshape(ev: Evaluation) -> Tile:
    source = ev.tile(0)
    data, ok = source.data.reshape(ev.shape), source.ok.reshape(ev.shape)
    if ev.in_place and data.size and not np.may_share_memory(data, source.data):
        raise RunError(f"tile.reshape to {list(ev.shape)} of a window {list(source.shape)} with gaps")
    return ev.view(data, ok)


def _scaled(c: CallSite, e: Expr, old: int, new: int, exact: bool) -> Expr:
    """An extent in elements of `old` bytes as one in elements of `new` bytes."""
    if old % new == 0:
        return mul_index(e, index(old // new))
    value = const_int(e)
    if value is not None and value * old % new == 0:
        return index(value * old // new)
    if value is not None and exact:
        raise OpError(f"{c.op.name}: {value} elements of {old} bytes are no whole number of elements of {new} bytes")
    return Binary("floordiv", e, index(new // old))


def _contiguous_axis(t: TileType) -> int:
    return t.rank - 2 if t.effective_view.blayout is COL and t.rank > 1 else t.rank - 1


def _reinterpret_type(c: CallSite) -> TileType:
    source, dtype = c.tile(0), DType(str(c.kwarg("dtype")))
    v = source.effective_view
    if v.slayout is not NONE or v.stride or v.start_offset is not None:
        raise OpError("tile.reinterpret_view needs a packed flat tile", "move it to Vec first")
    axis, old, new = _contiguous_axis(source), source.dtype.bytes, dtype.bytes
    shape, valid = list(source.shape), list(source.valid)
    shape[axis] = _scaled(c, shape[axis], old, new, exact=True)
    valid[axis] = _scaled(c, valid[axis], old, new, exact=True)
    pad = v.pad if v.pad is Pad.ZERO else Pad.NULL
    given = optional_tuple(c, 1)
    if given is None:
        return tile_type(tuple(shape), dtype, None, TileView(valid=tuple(valid), blayout=v.blayout, pad=pad))
    wanted = constant_shape(c, 1)
    have, want = static(tuple(shape)), static(wanted)
    if have is not None and want is not None and prod(have) != prod(want):
        raise OpError(f"tile.reinterpret_view of {dims_text(source.shape)} {source.dtype.value} as {dims_text(wanted)} {dtype.value}")
    region = reshape_valid(c.op.name, tuple(valid), tuple(shape), wanted, _is_flat(source))
    return tile_type(wanted, dtype, None, TileView(valid=region, blayout=implicit_view(wanted, None).blayout, pad=pad))


def _reinterpret(ev: Evaluation) -> Tile:
    """The same bytes in another format; a cell is defined where all of its bytes are."""
    source, dtype = ev.tile(0), ev.dtype
    assert dtype is not None
    columns = isinstance(ev.type, TileType) and ev.type.effective_view.blayout is COL and source.data.ndim > 1
    data, ok = source.data, source.ok
    if columns and ev.shape[-1] == source.shape[-1]:
        data, ok = (np.swapaxes(x, -1, -2) for x in (data, ok))
        shape = (*ev.shape[:-2], ev.shape[-1], ev.shape[-2])
        data, ok = _recast(data, ok, numpy_dtype(dtype), shape)
        return ev.view(np.swapaxes(data, -1, -2), np.swapaxes(ok, -1, -2))
    return ev.view(*_recast(data, ok, numpy_dtype(dtype), ev.shape))


def _recast(data: Any, ok: Any, held: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    old, new = data.dtype.itemsize, held.itemsize
    flat = data.reshape(-1).view(held).reshape(shape)
    if old == new:
        return flat, ok.reshape(shape)
    if old > new:
        return flat, np.repeat(ok.reshape(-1), old // new).reshape(shape)
    return flat, ok.reshape(-1, new // old).all(axis=1).reshape(shape)


_SRC = tile("src")
declare_op(
    "tile.reshape",
    (_SRC, tuple_of("shape")),
    infer=inherits(_reshape_type),
    trait=Trait.VIEW,
    meaning=_reshape,
    aliases=0,
)
declare_op(
    "tile.reinterpret_view",
    (_SRC, tuple_of("shape", optional=True)),
    infer=inherits(_reinterpret_type),
    trait=Trait.VIEW,
    meaning=_reinterpret,
    aliases=0,
    kwargs=(Kwarg("dtype", DType, required=True, words=DTYPE_WORDS),),
)

# ---- transposes and move -----------------------------------------------------------------------------------


def _axes(c: CallSite, rank: int) -> tuple[int, int]:
    a, b = (constant_int(c, i) for i in (1, 2))
    if not all(-rank <= x < rank for x in (a, b)) or a % rank == b % rank:
        raise OpError(
            f"tile.transpose of axes {a} and {b} of a tile of rank {rank}",
            "give two different axes of the tile",
        )
    return a % rank, b % rank


def _transpose_type(c: CallSite) -> TileType:
    source = c.tile(0)
    a, b = _axes(c, source.rank)
    if len(c) > 3 and (c.tile(3).dtype is not source.dtype or c.tile(3).rank != source.rank):
        raise OpError("the scratch of tile.transpose must have dtype and rank of the source")
    shape = list(source.shape)
    shape[a], shape[b] = shape[b], shape[a]
    return tile_type(tuple(shape), source.dtype, None, TileView())


def _transpose(ev: Evaluation) -> Tile:
    source, a, b = ev.tile(0), int(ev.args[1]), int(ev.args[2])
    return ev.fresh(np.swapaxes(source.data, a, b), np.swapaxes(source.readable(), a, b))


def _swapped(d: Dims) -> Dims:
    return (*d[:-2], d[-1], d[-2])


def _transpose_view_type(c: CallSite) -> TileType:
    source = c.tile(0)
    if source.rank < 2:
        raise OpError("tile.transpose_view needs a tile of rank 2 or more")
    v = source.effective_view
    view = TileView(
        valid=_swapped(v.valid), blayout=_FLIPPED[v.blayout], slayout=_FLIPPED[v.slayout],
        fractal=v.fractal, pad=v.pad, compact=v.compact,
    )  # fmt: skip
    return tile_type(_swapped(source.shape), source.dtype, source.memory, view)


def _transpose_view(ev: Evaluation) -> Tile:
    source = ev.tile(0)
    return ev.view(np.swapaxes(source.data, -1, -2), np.swapaxes(source.ok, -1, -2))


_SCALES = {Memory.LEFT_SCALE: ROW, Memory.RIGHT_SCALE: COL}


def _move_type(c: CallSite) -> TileType:
    source, space = c.tile(0), Memory(str(c.kwarg("target_memory")))
    given = {name: TileLayout(str(c.kwarg(name))) for name in ("blayout", "slayout") if c.kwarg(name) is not None}
    view, implied, dtype = source.effective_view, implicit_view(source.shape, space), source.dtype
    if space in _SCALES:
        order = _SCALES[space]
        exact = source.memory is Memory.MAT and (view.blayout, view.slayout, view.fractal) == (
            order,
            order,
            32,
        )
        if source.rank != 2 or not exact or dtype not in (DType.UINT8, DType.FP8E8M0) or set(given.values()) - {order}:
            raise OpError(
                f"tile.move into {space.value} of a {dims_text(source.shape)} tile of {dtype.value}",
                f"it needs a 2-D Mat tile of UINT8 or FP8E8M0 in {order.value}/{order.value}, fractal 32",
            )
        dtype = DType.FP8E8M0
    boxed = is_boxed(space)
    blayout = given.get("blayout", implied.blayout if boxed else view.blayout)
    slayout = given.get("slayout", implied.slayout if boxed else view.slayout)
    if space is Memory.RIGHT:
        blayout = ROW
    moved = TileView(valid=view.valid, blayout=blayout, slayout=slayout, fractal=implied.fractal, pad=view.pad)
    return tile_type(source.shape, dtype, space, moved)


def _move(ev: Evaluation) -> Tile:
    """A copy; into a scale space UINT8 bytes become the FP8E8M0 values that they encode."""
    source = ev.tile(0)
    assert ev.dtype is not None
    held = numpy_dtype(ev.dtype)
    data = source.data if source.data.dtype == held else np.ascontiguousarray(source.data).view(held)
    return ev.fresh(data, source.readable())


declare_op(
    "tile.transpose",
    (_SRC, scalar("axis1"), scalar("axis2"), scratch(optional=True)),
    infer=inherits(_transpose_type),
    trait=Trait.PAGE_WISE,
    meaning=_transpose,
)
declare_op(
    "tile.transpose_view",
    (_SRC,),
    infer=_transpose_view_type,
    trait=Trait.VIEW,
    meaning=_transpose_view,
    aliases=0,
    page_op="tile.transpose_view",
)
declare_op(
    "tile.move",
    (_SRC,),
    infer=_move_type,
    trait=Trait.POINTWISE,
    meaning=_move,
    shape=ShapeRule.FIRST,
    kwargs=(
        Kwarg("target_memory", Memory, default="Vec", words=MEMORY_WORDS),
        Kwarg("blayout", TileLayout, words=_LAYOUT_WORDS),
        Kwarg("slayout", TileLayout, words=_LAYOUT_WORDS),
    ),
)
