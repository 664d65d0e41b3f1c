"""Casts, comparisons into packed masks, and selection by a mask (`spec/tile_ir.md` section 7).

A mask is UINT8: bit b of byte w of a row says whether the comparison holds in column 8 w + b. `tile.cmp` of
[16, 64] with 60 valid columns is a [16, 32] mask (rows are padded to 32 bytes) of which [16, 8] is valid.
"""

from __future__ import annotations

from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, const_int, index
from pypto_ir.interp.values import UNDEFINED, Evaluation, Tile
from pypto_ir.lazy import np
from pypto_ir.linear import provably_le
from pypto_ir.ops.numeric import Meaning, extreme, rounded, working
from pypto_ir.ops.registry import (
    DTYPE_WORDS,
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
)
from pypto_ir.ops.rules import (
    TileRule,
    check_scalars,
    elementwise,
    in_vec,
    inherited_view,
    lifted_valid,
    require_dtype,
    same_as,
)
from pypto_ir.regions import broadcast
from pypto_ir.types import TileType, TileView, tile_type

CAST_MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")
_MASK_ALIGN = 32  # bytes of a mask row are a multiple of this


def _ceil_div(e: Expr, by: int) -> Expr:
    value = const_int(e)
    if value is not None:
        return index(-(-value // by))
    return Binary("floordiv", Binary("add", e, index(by - 1)), index(by))


def mask_width(columns: Expr) -> Expr:
    """Bytes of a mask row for `columns` columns: `ceil(columns / 8)` rounded up to 32."""
    blocks = _ceil_div(_ceil_div(columns, 8), _MASK_ALIGN)
    value = const_int(blocks)
    return index(value * _MASK_ALIGN) if value is not None else Binary("mul", blocks, index(_MASK_ALIGN))


# ---- cast --------------------------------------------------------------------------------------------------


def _cast_type(c: CallSite) -> TileType:
    source, target = c.tile(0), DType(str(c.kwarg("target_type")))
    if source.dtype is target:
        raise OpError(f"tile.cast from {target.value} to itself", "drop the cast")
    return tile_type(source.shape, target, None, inherited_view(source, source.valid))


def _round_float(x: Any, mode: str) -> Any:
    """A float64 array (of values that FP32 holds) rounded to integers; `none` is `rint`, `odd` takes the odd
    neighbour at ties."""
    match mode:
        case "round":
            return np.trunc(x + np.copysign(0.5, x))
        case "floor":
            return np.floor(x)
        case "ceil":
            return np.ceil(x)
        case "trunc":
            return np.trunc(x)
        case "odd":
            low = np.floor(x)
            return np.where(x - low == 0.5, np.where(np.mod(low, 2) == 1, low, low + 1), np.rint(x))
    return np.rint(x)


def _to_int(data: Any, target: DType, mode: str) -> Any:
    """Floats as integers of `target`: rounded by `mode`, clamped to its range, NaN as 0."""
    held = working(0, target).dtype
    low, high = (np.array(extreme(target, largest), dtype=held) for largest in (False, True))
    with np.errstate(all="ignore"):
        wide = data.astype(np.float64)
        wide = _round_float(np.where(np.isnan(wide), 0.0, wide), mode)
        inside = (wide > float(low)) & (wide < float(high))
        return np.where(inside, np.where(inside, wide, 0.0).astype(held), np.where(wide > 0, high, low))


def is_floating(array: Any) -> bool:
    """True for float arrays, narrow formats included."""
    return not np.issubdtype(array.dtype, np.integer) and array.dtype != np.bool_


def _cast(ev: Evaluation) -> Tile:
    """Float to integer rounds by `mode` and clamps; integer to integer wraps; into a float type goes the
    nearest value (ties to even) in every mode, since the modes are stated for float to integer only."""
    source, target = ev.tile(0), ev.dtype
    assert target is not None
    data = source.data
    if is_floating(data) and target.is_int:
        data = _to_int(data, target, ev.kwarg("mode"))
    return ev.fresh(rounded(data, target), source.readable())


declare_op(
    "tile.cast",
    (tile("src"),),
    infer=in_vec(_cast_type),
    trait=Trait.POINTWISE,
    meaning=_cast,
    shape=ShapeRule.FIRST,
    kwargs=(
        Kwarg("target_type", DType, required=True, words=DTYPE_WORDS),
        Kwarg("mode", str, default="round", words=CAST_MODES),
    ),
)

# ---- comparison --------------------------------------------------------------------------------------------

#: cmp_type -> comparison
COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def _mask_type(tiles: tuple[int, ...]) -> TileRule:
    def rule(c: CallSite) -> TileType:
        kind = c.kwarg("cmp_type")
        if not isinstance(kind, int) or not 0 <= kind < len(COMPARE):
            raise OpError(f"cmp_type of {c.op.name} is {kind}", "0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge")
        check_scalars(c)
        first = c.tile(tiles[0])
        shape = first.shape
        for i in tiles[1:]:
            shape = broadcast(c.op.name, shape, c.tile(i).shape)
        valid = lifted_valid(first, shape)
        view = TileView(valid=(*valid[:-1], _ceil_div(valid[-1], 8)))
        return tile_type((*shape[:-1], mask_width(shape[-1])), DType.UINT8, None, view)

    return rule


def _compare(ev: Evaluation) -> Tile:
    """A byte is defined where its columns inside the left operand's valid region are; bits behind that region
    are 0."""
    a, b = ev.tile(0), ev.args[1]
    with np.errstate(all="ignore"):
        if isinstance(b, Tile):
            (left, right), b_ok = common(a.data, b.data), b.readable()
        else:
            left, right = a.data, np.asarray(0 if b is UNDEFINED else b).astype(a.data.dtype)
            b_ok = np.asarray(b is not UNDEFINED)
        bits = getattr(np, COMPARE[ev.kwarg("cmp_type")])(left, right)
    outside = np.arange(bits.shape[-1]) >= a.valid[-1]
    known = (a.readable() & b_ok) | outside
    return ev.fresh(_pack(bits & ~outside, ev.shape[-1]), _pack(~known, ev.shape[-1]) == 0)


def common(a: Any, b: Any) -> tuple[Any, Any]:
    """Two arrays in a type that holds both exactly enough to compare: FP32 for floats (FP64 against
    integers), else the integers."""
    floats = is_floating(a) + is_floating(b)
    if not floats:
        return a, b
    wide = np.float32 if floats == 2 else np.float64
    return a.astype(wide), b.astype(wide)


def _pack(bits: Any, width: int) -> Any:
    packed = np.packbits(bits, axis=-1, bitorder="little")
    return np.pad(packed, [(0, 0)] * (packed.ndim - 1) + [(0, width - packed.shape[-1])])


for _name, _operands, _tiles in (
    ("cmp", (tile("lhs"), tile("rhs")), (0, 1)),
    ("cmps", (tile("src"), scalar("s")), (0,)),
):
    declare_op(
        f"tile.{_name}",
        _operands,
        infer=in_vec(_mask_type(_tiles)),
        trait=Trait.ROW_WISE,
        meaning=_compare,
        shape=ShapeRule.ROW_MASK if _name == "cmps" else ShapeRule.BROADCAST_MASK,
        kwargs=(Kwarg("cmp_type", int, required=True),),
    )

# ---- selection ---------------------------------------------------------------------------------------------


def _covers(c: CallSite, source: TileType) -> None:
    """Refuse a mask that is not proved to hold a bit for every valid cell of `source`."""
    mask = c.tile(0).valid
    valid, whole = ((*d[:-1], _ceil_div(d[-1], 8)) for d in (source.valid, source.shape))
    if len(mask) != len(valid) or not all(provably_le(v, m) or provably_le(w, m) for v, w, m in zip(valid, whole, mask, strict=True)):
        raise OpError(f"the mask of {c.op.name} has {dims_text(mask)} valid bytes where {dims_text(valid)} are needed")


def _sel_type(c: CallSite) -> TileType:
    require_dtype(c, 0, frozenset({DType.UINT8}))
    return elementwise((1, 2), (1, 2))(c)


def _sels_type(c: CallSite) -> TileType:
    require_dtype(c, 0, frozenset({DType.UINT8}))
    _covers(c, c.tile(1))
    return same_as(1)(c)


def _select(otherwise: int) -> Meaning:
    """Where the bit of a cell is set operand 1, else operand `otherwise`; only the chosen one has to be
    defined."""

    def meaning(ev: Evaluation) -> Tile:
        assert ev.dtype is not None
        mask, first, other = ev.tile(0), ev.tile(1), ev.args[otherwise]
        crop = (*(slice(0, n) for n in ev.shape[-mask.data.ndim : -1]), slice(0, ev.shape[-1]))
        bits = np.unpackbits(np.ascontiguousarray(mask.data), axis=-1, bitorder="little")[crop].astype(bool)
        known = np.repeat(mask.readable(), 8, axis=-1)[crop]
        if isinstance(other, Tile):
            value, ok = working(other.data, ev.dtype), other.readable()
        else:
            value, ok = (
                working(0 if other is UNDEFINED else other, ev.dtype),
                np.asarray(other is not UNDEFINED),
            )
        data = np.where(bits, working(first.data, ev.dtype), value)
        return ev.fresh(rounded(data, ev.dtype), known & np.where(bits, first.readable(), ok))

    return meaning


declare_op(
    "tile.sel",
    (tile("mask"), tile("lhs"), tile("rhs"), scratch()),
    infer=in_vec(_sel_type),
    trait=Trait.ROW_WISE,
    meaning=_select(2),
    shape=ShapeRule.BROADCAST_12,
)
declare_op(
    "tile.sels",
    (tile("mask"), tile("src"), scratch(), scalar("s")),
    infer=in_vec(_sels_type),
    trait=Trait.ROW_WISE,
    meaning=_select(3),
    shape=ShapeRule.SECOND,
)
