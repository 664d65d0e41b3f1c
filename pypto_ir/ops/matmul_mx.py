"""Products of FP8 matrices with shared scales per 32 elements of K (`spec/mx.md` section 8).

`C[i, j] = sum over k of A[i, k] * B[k, j] * SA[i, k // 32] * SB[k // 32, j]`, summed in FP64 in ascending k
and stored as FP32. A is [M, K], its scales [M, K / 32]; B is [K, N], its scales [K / 32, N].
"""

from __future__ import annotations

from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import const_int
from pypto_ir.interp.values import Evaluation, Tile
from pypto_ir.lazy import np
from pypto_ir.ops.matmul import (
    Multiply,
    acc_tile,
    added_product,
    check_acc,
    check_bias,
    fresh_product,
    multiply,
)
from pypto_ir.ops.numeric import same_cells
from pypto_ir.ops.registry import CallSite, OpError, Trait, declare_op, dims_text, tile
from pypto_ir.ops.rules import require_dtype, require_rank
from pypto_ir.types import Memory, TileType, tile_type

GROUP = 32  # elements of K that share a scale
_DATA, _SCALE = frozenset({DType.FP8E4M3FN}), frozenset({DType.FP8E8M0})


def _groups(k: int) -> int:
    return -(-k // GROUP)


def _check_operand(c: CallSite, i: int, k_axis: int) -> None:
    """Data tile `i` and scale tile `i + 1`: dtypes, and the scale's extents where they are constant."""
    data, scale = require_rank(c, i, 2), require_rank(c, i + 1, 2)
    require_dtype(c, i, _DATA)
    require_dtype(c, i + 1, _SCALE)
    for what, d, s in (("shape", data.shape, scale.shape), ("valid region", data.valid, scale.valid)):
        for axis in (0, 1):
            have, size = const_int(s[axis]), const_int(d[axis])
            want = _groups(size) if size is not None and axis == k_axis else size
            if None not in (have, want) and have != want:
                raise OpError(
                    f"the {what} of scale operand {i + 1} of {c.op.name} is {dims_text(s)} for data {dims_text(d)}",
                    f"it needs one scale per {GROUP} elements of K",
                )
    k, valid = const_int(data.shape[k_axis]), const_int(data.valid[k_axis])
    if k is not None and valid is not None and (valid <= 0 or _groups(valid) != _groups(k)):
        raise OpError(f"{c.op.name}: valid K {valid} of {k} leaves scale groups without data")


def _product(c: CallSite, first: int) -> TileType:
    _check_operand(c, first, 1)
    _check_operand(c, first + 2, 0)
    lhs, rhs = c.tile(first), c.tile(first + 2)
    for name, extent, align in (("M", lhs.shape[0], 16), ("K", lhs.shape[1], 64), ("N", rhs.shape[1], 32)):
        value = const_int(extent)
        if value is not None and (value <= 0 or value % align):
            raise OpError(f"{c.op.name}: {name} is {value}", f"it must be a positive multiple of {align}")
    for what, a, b in (("K", lhs.shape[1], rhs.shape[0]), ("valid K", lhs.valid[1], rhs.valid[0])):
        x, y = const_int(a), const_int(b)
        if None not in (x, y) and x != y:
            raise OpError(f"{c.op.name}: {what} is {x} on the left and {y} on the right")
    return acc_tile((lhs.shape[0], rhs.shape[1]), DType.FP32, (lhs.valid[0], rhs.valid[1]))


def _scaled(data: Tile, scale: Tile, axis: int) -> Tile:
    """A data tile times its scales, in FP64."""
    size = data.shape[axis]
    factor, known = (np.take(x, np.arange(size) // GROUP, axis=axis) for x in (scale.data.astype(np.float64), scale.readable()))
    return Tile(data.data.astype(np.float64) * factor, data.ok & known, data.valid)


def _of(i: int) -> Multiply:
    def run(ev: Evaluation, start: Any) -> tuple[Any, Any]:
        lhs, rhs = _scaled(ev.tile(i), ev.tile(i + 1), 1), _scaled(ev.tile(i + 2), ev.tile(i + 3), 0)
        total, ok = multiply(lhs, rhs, np.float64, np.zeros(start.shape))
        with np.errstate(all="ignore"):
            return (start.astype(np.float64) + total).astype(np.float32), ok

    return run


def _plain_type(c: CallSite) -> TileType:
    return _product(c, 0)


def _acc_type(c: CallSite) -> TileType:
    return check_acc(c, _product(c, 1), same_valid=True)


def _bias_type(c: CallSite) -> TileType:
    return check_bias(c, 4, _product(c, 0))


_OPERANDS = (tile("lhs"), tile("lhs_scale"), tile("rhs"), tile("rhs_scale"))
declare_op("tile.matmul_mx", _OPERANDS, infer=_plain_type, trait=Trait.PAGE_WISE, meaning=fresh_product(_of(0), 0, 2))
declare_op(
    "tile.matmul_mx_acc",
    (tile("acc"), *_OPERANDS),
    infer=_acc_type,
    trait=Trait.PAGE_WISE,
    meaning=added_product(_of(1), 1, 3),
    writes=(0,),
    aliases=0,
)
declare_op(
    "tile.matmul_mx_bias",
    (*_OPERANDS, tile("bias")),
    infer=_bias_type,
    trait=Trait.PAGE_WISE,
    meaning=fresh_product(_of(0), 0, 2, 4),
)

# ---- addresses of scales -----------------------------------------------------------------------------------

_PAIRED = {Memory.LEFT_SCALE: Memory.LEFT, Memory.RIGHT_SCALE: Memory.RIGHT}


def _scale_addr_type(c: CallSite) -> TileType:
    scale, data = require_rank(c, 0, 2), require_rank(c, 1, 2)
    require_dtype(c, 0, _SCALE)
    require_dtype(c, 1, _DATA)
    if scale.memory not in _PAIRED or data.memory is not _PAIRED[scale.memory]:
        raise OpError("tile.tget_scale_addr binds a LeftScale tile to a Left one, or a RightScale tile to a Right one")
    return tile_type(scale.shape, scale.dtype, scale.memory, scale.view)


declare_op(
    "tile.tget_scale_addr",
    (tile("dst"), tile("src")),
    infer=_scale_addr_type,
    trait=Trait.OPAQUE,
    meaning=same_cells,  # only the address of the scales is bound to that of the data
    writes=(0,),
    aliases=0,
)
