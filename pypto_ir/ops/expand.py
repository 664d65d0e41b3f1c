"""Expansion ops: a value per row, per column or for all, spread over a tile (`spec/tile_ir.md` section 7).

`tile.row_expand_sub` of t [2, 16, 64] and m [2, 16, 1] is t - m with m repeated over the 64 columns;
`tile.col_expand_mul` repeats the row [1, 64] over the 16 rows. Shape, valid region and layout are those of
the first operand. The second operand may have fewer axes; it is aligned from the right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto_ir.dtypes import promote
from pypto_ir.expr import const_int
from pypto_ir.interp.values import Evaluation, Tile
from pypto_ir.lazy import np
from pypto_ir.linear import all_provably_equal, provably_equal
from pypto_ir.ops.numeric import Meaning, divide, filled, rounded, working
from pypto_ir.ops.registry import (
    CallSite,
    OpError,
    Role,
    ShapeRule,
    Trait,
    declare_op,
    dims_text,
    scalar,
    scratch,
    tile,
)
from pypto_ir.ops.rules import TileRule, elementwise, in_vec, inherited_view, require_same_dtype
from pypto_ir.regions import broadcast, is_one
from pypto_ir.types import Dims, TileType, tile_type


def _leading_fits(c: CallSite, part: Dims, whole: Dims) -> None:
    """Refuse leading dims of the expanded operand that do not broadcast into those of the tile."""
    extra, inner = part[: max(len(part) - len(whole), 0)], part[max(len(part) - len(whole), 0) :]
    fits = all(map(is_one, extra))
    if fits:
        shape = broadcast(c.op.name, inner, whole)
        fits = all_provably_equal(shape, whole)
    if not fits:
        raise OpError(f"{c.op.name} cannot spread {dims_text(c.tile(1).shape)} over {dims_text(c.tile(0).shape)}")


def _result(c: CallSite) -> TileType:
    target = c.tile(0)
    return tile_type(target.shape, promote(target.dtype, c.tile(1).dtype), None, inherited_view(target, target.valid))


def _row_rule(carrier: bool) -> TileRule:
    """With `carrier` (row_expand_add only) the row values may come as [R, 32 bytes], and dtype and valid rows
    must be proved equal."""

    def rule(c: CallSite) -> TileType:
        target, rows = c.tile(0), c.tile(1)
        width = const_int(rows.shape[-1])
        if width != 1 and not (carrier and width == 32 // rows.dtype.bytes):
            raise OpError(f"operand 1 of {c.op.name} must have a last dim of 1, found {dims_text(rows.shape)}")
        _leading_fits(c, (*rows.shape[:-1], target.shape[-1]), target.shape)
        if carrier:
            require_same_dtype(c, 0, 1)
            pairs = zip(
                reversed(rows.valid[:-1]),
                reversed(target.valid[:-1]),
                reversed(rows.shape[:-1]),
                strict=False,
            )
            if not all(provably_equal(r, t) or is_one(d) for r, t, d in pairs):
                raise OpError(f"{c.op.name} needs equal valid rows, found {dims_text(target.valid)} and {dims_text(rows.valid)}")
        return _result(c)

    return rule


def _col_rule(c: CallSite) -> TileType:
    target, vector = c.tile(0), c.tile(1)
    if not provably_equal(vector.shape[-1], target.shape[-1]):
        raise OpError(f"{c.op.name} needs as many columns in {dims_text(vector.shape)} as in {dims_text(target.shape)}")
    if vector.rank > 1 and target.rank > 1:
        _leading_fits(c, (*vector.shape[:-2], *target.shape[-2:]), target.shape)
    return _result(c)


def _expanded(fn: Callable[[Any, Any], Any] | None, cut: Callable[[Any], Any]) -> Meaning:
    """`fn` of the tile and the part that `cut` takes of operand 1; without `fn` that part is copied and the
    tile is not read."""

    def meaning(ev: Evaluation) -> Tile:
        assert ev.dtype is not None
        target, spread = ev.tile(0), ev.tile(1)
        data, ok = (_aligned(cut(x), len(ev.shape)) for x in (working(spread.data, ev.dtype), spread.readable()))
        if fn is None:
            return ev.fresh(rounded(data, ev.dtype), ok)
        with np.errstate(all="ignore"):
            result = fn(working(target.data, ev.dtype), data)
        return ev.fresh(rounded(result, ev.dtype), target.readable() & ok)

    return meaning


def _aligned(array: Any, rank: int) -> Any:
    return array.reshape(array.shape[max(array.ndim - rank, 0) :])


def _first_column(array: Any) -> Any:
    return array[..., :1]


def _first_row(array: Any) -> Any:
    return array[..., :1, :] if array.ndim > 1 else array


_VARIANTS: tuple[tuple[str, Callable[[Any, Any], Any] | None], ...] = (
    ("", None),
    ("_add", lambda a, b: a + b),
    ("_sub", lambda a, b: a - b),
    ("_mul", lambda a, b: a * b),
    ("_div", divide),
    ("_max", lambda a, b: np.maximum(a, b)),
    ("_min", lambda a, b: np.minimum(a, b)),
    ("_expdif", lambda a, b: np.exp(a - b)),
)
for _suffix, _fn in _VARIANTS:
    _rows = (tile("src"), tile("rows", Role.ROW_SCALAR))
    declare_op(
        f"tile.row_expand{_suffix}",
        (*_rows, scratch(optional=True)) if _suffix == "_add" else _rows,
        infer=in_vec(_row_rule(carrier=_suffix == "_add")),
        trait=Trait.POINTWISE,
        meaning=_expanded(_fn, _first_column),
        shape=ShapeRule.FIRST,
    )
    declare_op(
        f"tile.col_expand{_suffix}",
        (tile("src"), tile("columns", Role.COL_VECTOR)),
        infer=in_vec(_col_rule),
        trait=Trait.POINTWISE,
        meaning=_expanded(_fn, _first_row),
        shape=ShapeRule.FIRST,
    )
declare_op(
    "tile.expands",
    (tile("src"), scalar("s")),
    infer=in_vec(elementwise((0,), (0, 1))),
    trait=Trait.POINTWISE,
    meaning=filled,
    shape=ShapeRule.FIRST,
)
