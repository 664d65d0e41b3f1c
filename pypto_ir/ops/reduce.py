"""Reductions along rows and columns (`spec/tile_ir.md` section 7).

`tile.row_sum` of [16, 64] valid [v, 60] is [16, 1] valid [v, 1], col_major, and adds the 60 valid columns
from left to right, each partial sum rounded to FP32 (narrow floats are summed in FP32 and rounded once).
`tile.col_sum` is [1, 64] valid [1, 60]; for more than two axes it reduces axis 0 only. Arg-reductions give
the first index of the extreme as INT32.
"""

from __future__ import annotations

from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import index
from pypto_ir.interp.values import Evaluation, Tile
from pypto_ir.lazy import np
from pypto_ir.ops.numeric import Meaning, rounded, working
from pypto_ir.ops.registry import CallSite, OpError, ShapeRule, Trait, declare_op, scratch, tile
from pypto_ir.ops.rules import TileRule, in_vec, require_dtype, require_not_empty, require_scratch
from pypto_ir.ops.select import is_floating
from pypto_ir.types import TileLayout, TileType, TileView, tile_type

_ROW_MIN = frozenset({DType.INT16, DType.INT32, DType.FP16, DType.FP32})
ONE = index(1)


def _row_type(arg: bool, allowed: frozenset[DType] | None = None) -> TileRule:
    def rule(c: CallSite) -> TileType:
        source = c.tile(0)
        if allowed is not None:
            require_dtype(c, 0, allowed)
            if source.effective_view.blayout is TileLayout.COL_MAJOR and source.shape[-1] != ONE:
                raise OpError(f"{c.op.name} of a col_major tile", "move it to a row_major tile first")
        require_not_empty(c, 0)
        require_scratch(c, 1, source, exact=arg)
        view = TileView(valid=(*source.valid[:-1], ONE), blayout=TileLayout.COL_MAJOR)
        return tile_type((*source.shape[:-1], ONE), DType.INT32 if arg else source.dtype, None, view)

    return rule


def _col_type(arg: bool) -> TileRule:
    def rule(c: CallSite) -> TileType:
        source = c.tile(0)
        if source.rank < 2:
            raise OpError(f"{c.op.name} needs a tile of rank 2 or more", "reshape the tile to [N, 1]")
        require_not_empty(c, 0)
        if len(c) > 1:
            require_scratch(c, 1, source, exact=arg)
        view = TileView(valid=(ONE, *source.valid[1:]))
        return tile_type((ONE, *source.shape[1:]), DType.INT32 if arg else source.dtype, None, view)

    return rule


def _valid_part(ev: Evaluation, axis: int) -> tuple[Any, Any]:
    """The data along `axis` inside the valid region, and where all of it is defined; an empty part counts as
    undefined."""
    source = ev.tile(0)
    count = max(source.valid[axis], 1)
    where = [slice(None)] * source.data.ndim
    where[axis] = slice(0, count)
    return source.data[tuple(where)], source.readable()[tuple(where)].all(axis=axis, keepdims=True)


def _accumulate(ufunc: str, axis: int) -> Meaning:
    def meaning(ev: Evaluation) -> Tile:
        assert ev.dtype is not None
        data, ok = _valid_part(ev, axis)
        part = working(data, ev.dtype)
        with np.errstate(all="ignore"):
            partial = getattr(np, ufunc).accumulate(part, axis=axis, dtype=part.dtype)
        return ev.fresh(rounded(np.take(partial, [-1], axis=axis), ev.dtype), ok)

    return meaning


def _arg(function: str, axis: int) -> Meaning:
    def meaning(ev: Evaluation) -> Tile:
        data, ok = _valid_part(ev, axis)
        wide = data.astype(np.float32) if is_floating(data) else data
        return ev.fresh(getattr(np, function)(wide, axis=axis, keepdims=True), ok)

    return meaning


_SRC, _TMP = tile("src"), scratch()
for _name, _ufunc in (("sum", "add"), ("max", "maximum"), ("min", "minimum"), ("prod", "multiply")):
    declare_op(
        f"tile.row_{_name}",
        (_SRC, _TMP),
        infer=in_vec(_row_type(False, _ROW_MIN if _name == "min" else None)),
        trait=Trait.ROW_WISE,
        meaning=_accumulate(_ufunc, -1),
        shape=ShapeRule.ROW_REDUCE,
    )
    declare_op(
        f"tile.col_{_name}",
        (_SRC, scratch(optional=True)) if _name == "sum" else (_SRC,),
        infer=in_vec(_col_type(False)),
        trait=Trait.PAGE_WISE,
        meaning=_accumulate(_ufunc, 0),
        shape=ShapeRule.COL_REDUCE,
    )
for _name in ("argmax", "argmin"):
    declare_op(
        f"tile.row_{_name}",
        (_SRC, _TMP),
        infer=in_vec(_row_type(True)),
        trait=Trait.ROW_WISE,
        meaning=_arg(_name, -1),
        shape=ShapeRule.ROW_REDUCE,
    )
    declare_op(
        f"tile.col_{_name}",
        (_SRC, _TMP),
        infer=in_vec(_col_type(True)),
        trait=Trait.PAGE_WISE,
        meaning=_arg(_name, 0),
        shape=ShapeRule.COL_REDUCE,
    )
