"""Ops between the cube core and its two vector cores (`spec/tile_ir.md` section 7).

`tile.aiv_shard` hands each vector lane one half of a tile: [32, 32] with split 2 (columns) is [32, 16] in
Vec. `tile.aic_gather` puts the halves together again in Mat. The tpush and tpop ops move tiles through a
queue: a push has no result, a pop gives the type that the program states.

None of them has a meaning of one core alone, and all keep their order.
"""

from __future__ import annotations

from dataclasses import replace

from pypto_ir.expr import Binary, Expr, const_int, index
from pypto_ir.ops.registry import CallSite, Kwarg, OpError, Trait, declare_op, tile
from pypto_ir.ops.rules import require_rank
from pypto_ir.regions import min_extent, mul_index
from pypto_ir.types import Memory, Type, UnknownType, implicit_view, tile_type

#: values of the keyword argument split: not split, by rows (UP_DOWN), by columns (LEFT_RIGHT)
SPLITS = (0, 1, 2)


def _split_axis(c: CallSite) -> int | None:
    """The axis that the keyword argument split names; None for 0. Raises `OpError` for other values."""
    split = c.kwarg("split")
    if split not in SPLITS:
        raise OpError(f"split of {c.op.name} is {split}", "0 not split, 1 by rows, 2 by columns")
    return int(split) - 1 if isinstance(split, int) and split else None


def _half(e: Expr) -> Expr:
    value = const_int(e)
    if value is not None:
        return index(-(-value // 2))
    return Binary("floordiv", Binary("add", e, index(1)), index(2))


def _shard_type(c: CallSite) -> Type:
    """Half of the tile along the split axis, rounded up; valid extents are those of lane 0. Inside a
    `split_aiv` scope that states the split, the type is the stated one."""
    source = require_rank(c, 0, 2)
    if c.kwarg("split") is None:
        return UnknownType()
    axis = _split_axis(c)
    shape, valid = list(source.shape), list(source.valid)
    if axis is not None:
        shape[axis] = _half(shape[axis])
        valid[axis] = min_extent(valid[axis], shape[axis])
    view = replace(implicit_view(tuple(shape), Memory.VEC), valid=tuple(valid))
    return tile_type(tuple(shape), source.dtype, Memory.VEC, view)


def _gather_type(c: CallSite) -> Type:
    """Twice the tile along the split axis; fully valid where the tile is, else as the program states."""
    source = require_rank(c, 0, 2)
    if c.kwarg("split") is None:
        return UnknownType()
    axis = _split_axis(c)
    shape, valid = list(source.shape), list(source.valid)
    if axis is not None:
        shape[axis] = mul_index(shape[axis], index(2))
        valid[axis] = mul_index(valid[axis], index(2))
    view = replace(implicit_view(tuple(shape), Memory.MAT), valid=tuple(valid))
    return tile_type(tuple(shape), source.dtype, Memory.MAT, view)


def no_result(c: CallSite) -> Type:
    """The result of an op that is called for its effect, or of which only the program knows the type."""
    return UnknownType()


_SPLIT = (Kwarg("split", int), Kwarg("lane_stride", int))
_QUEUE = (Kwarg("split", int), Kwarg("id", int), Kwarg("lane_stride", int))
for _name, _rule in (("aiv_shard", _shard_type), ("aic_gather", _gather_type)):
    declare_op(
        f"tile.{_name}",
        (tile("src"),),
        infer=_rule,
        trait=Trait.OPAQUE,
        barrier=True,
        annotated=True,
        kwargs=_SPLIT,
    )
for _name in ("tpush_to_aiv", "tpush_to_aic"):
    declare_op(f"tile.{_name}", (tile("src"),), infer=no_result, trait=Trait.OPAQUE, barrier=True, kwargs=_QUEUE)
for _name in ("tpop_from_aic", "tpop_from_aiv"):
    declare_op(f"tile.{_name}", (), infer=no_result, trait=Trait.OPAQUE, barrier=True, kwargs=_QUEUE)
