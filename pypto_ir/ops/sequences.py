"""Tiles that are made from numbers alone: ci, tri and random (`spec/tile_ir.md` section 7).

`tile.ci(5, [1, 4])` is [[5, 6, 7, 8]], descending [[5, 4, 3, 2]]. `tile.tri(0, [3, 3])` is the lower triangle
of ones with its diagonal. `tile.random` comes from a counter-based generator whose bits the sources do not
define: it has a type, but no meaning.
"""

from __future__ import annotations

from pypto_ir.dtypes import DType
from pypto_ir.expr import const_int
from pypto_ir.interp.values import Evaluation, Tile
from pypto_ir.lazy import np
from pypto_ir.linear import provably_gt
from pypto_ir.ops.registry import (
    DTYPE_WORDS,
    CallSite,
    Kwarg,
    OpError,
    Trait,
    declare_op,
    dims_text,
    scalar,
    tuple_of,
)
from pypto_ir.ops.rules import constant_shape, in_vec, optional_tuple
from pypto_ir.types import TileType, TileView, tile_type

_COUNTED = ("INT16", "INT32", "UINT16", "UINT32")


def _require_int32(c: CallSite, operands: range) -> None:
    for i in operands:
        if c.dtype(i) is not DType.INT32:
            raise OpError(f"operand {i} ({c.name(i)}) of {c.op.name} has dtype {c.dtype(i).value}", "it must be INT32")


def _made(c: CallSite, i: int) -> TileType:
    """The type of a tile with the shape at operand `i` and, where given, the valid extents behind it."""
    shape, valid = constant_shape(c, i), optional_tuple(c, i + 1) or ()
    if valid and (len(valid) != len(shape) or any(map(provably_gt, valid, shape))):
        raise OpError(f"{c.op.name} of {dims_text(shape)} with the valid extents {dims_text(valid)}")
    return tile_type(shape, DType(str(c.kwarg("dtype"))), None, TileView(valid=valid))


# ---- ci ----------------------------------------------------------------------------------------------------


def _ci_type(c: CallSite) -> TileType:
    shape, dtype = constant_shape(c, 1), DType(str(c.kwarg("dtype")))
    if c.dtype(0) is not dtype:
        raise OpError(f"the start of tile.ci has dtype {c.dtype(0).value}, the tile {dtype.value}", "they must agree")
    if any(const_int(d) != 1 for d in shape[:-1]) or const_int(shape[-1]) == 1:
        raise OpError(f"tile.ci of {dims_text(shape)}", "all dims but the last are 1, and the last is not")
    return tile_type(shape, dtype, None, TileView())


def _ci(ev: Evaluation) -> Tile:
    """Integers wrap at their width."""
    steps = np.arange(ev.shape[-1], dtype=np.int64)
    start = int(ev.args[0])
    values = start - steps if ev.kwarg("descending") else start + steps
    return ev.fresh(values.reshape(ev.shape), np.True_)


declare_op(
    "tile.ci",
    (scalar("start"), tuple_of("shape")),
    infer=in_vec(_ci_type),
    trait=Trait.STRUCTURE,
    meaning=_ci,
    kwargs=(
        Kwarg("dtype", DType, required=True, words=_COUNTED),
        Kwarg("descending", bool, default=False),
    ),
)

# ---- tri ---------------------------------------------------------------------------------------------------


def _tri_type(c: CallSite) -> TileType:
    _require_int32(c, range(1))
    if len(c.tuple(1)) != 2:
        raise OpError(f"tile.tri of {dims_text(c.tuple(1))}", "it makes tiles of rank 2")
    return _made(c, 1)


def _tri(ev: Evaluation) -> Tile:
    """Ones where `j <= i + diagonal` (upper: `j >= i + diagonal`), zeros elsewhere."""
    rows, columns = np.indices(ev.shape)
    edge = rows + int(ev.args[0])
    return ev.fresh(columns >= edge if ev.kwarg("upper") else columns <= edge, np.True_)


declare_op(
    "tile.tri",
    (scalar("diagonal"), tuple_of("shape"), tuple_of("valid_shape", optional=True)),
    infer=in_vec(_tri_type),
    trait=Trait.STRUCTURE,
    meaning=_tri,
    kwargs=(
        Kwarg("dtype", DType, required=True, words=DTYPE_WORDS),
        Kwarg("upper", bool, default=False),
    ),
)

# ---- random ------------------------------------------------------------------------------------------------

_SEEDS = ("key0", "key1", "counter0", "counter1", "counter2", "counter3")
_ROUNDS = (7, 10)


def _random_type(c: CallSite) -> TileType:
    _require_int32(c, range(len(_SEEDS)))
    if c.kwarg("rounds") not in _ROUNDS:
        raise OpError(f"rounds of tile.random is {c.kwarg('rounds')}", "allowed: 7, 10")
    return _made(c, len(_SEEDS))


declare_op(
    "tile.random",
    (*map(scalar, _SEEDS), tuple_of("shape"), tuple_of("valid_shape", optional=True)),
    infer=in_vec(_random_type),
    trait=Trait.OPAQUE,
    kwargs=(
        Kwarg("dtype", DType, required=True, words=("INT32", "UINT32")),
        Kwarg("rounds", int, default=10),
    ),
)
