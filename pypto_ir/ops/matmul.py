"""Matrix products into Acc: matmul, gemv and batched forms (`spec/tile_ir.md` section 7, `spec/flatten.md`
section 6).

`tile.matmul` of [32, 64] valid [v, 48] and [64, 128] is [32, 128] FP32 valid [v, 128] with compact rows, and
adds the 48 products of a cell in ascending k, each sum rounded to FP32 (INT32 wraps). A page of
`tile.batch_matmul` is the same sum, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import const_int, index
from pypto_ir.interp.values import Evaluation, Tile, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.linear import provably_equal, provably_gt
from pypto_ir.ops.numeric import Meaning
from pypto_ir.ops.registry import (
    CallSite,
    Kwarg,
    OpDef,
    OpError,
    Trait,
    declare_op,
    dims_text,
    scalar,
    tile,
)
from pypto_ir.ops.rules import TileRule, require_rank, require_same_dtype
from pypto_ir.regions import broadcast
from pypto_ir.types import Compact, Dims, Memory, TileType, implicit_view, tile_type

ACC = Memory.ACC
_GEMV = frozenset({DType.INT8, DType.FP16, DType.BF16, DType.FP32})


def product_dtype(c: CallSite, i: int, j: int) -> DType:
    """FP32 for float operands, INT32 for integers; the operands must agree."""
    require_same_dtype(c, i, j)
    return DType.FP32 if c.tile(i).dtype.is_float else DType.INT32


def acc_tile(shape: Dims, dtype: DType, valid: Dims) -> TileType:
    """An Acc tile; compact rows where the valid rows are not proved to be all rows."""
    full = provably_equal(valid[-2], shape[-2])
    compact = Compact.NULL if full else Compact.NORMAL
    return tile_type(shape, dtype, ACC, replace(implicit_view(shape, ACC), valid=valid, compact=compact))


def _check_k(c: CallSite, i: int, j: int) -> None:
    """Refuse operands whose K dims provably differ, or a right operand that provably holds fewer valid rows
    than K needs."""
    lhs, rhs = c.tile(i), c.tile(j)
    if lhs.rank < 2 or rhs.rank < 2:
        raise OpError(f"{c.op.name} of {dims_text(lhs.shape)} and {dims_text(rhs.shape)}: matrices have rank 2")
    k, other = lhs.shape[-1], rhs.shape[-2]
    if provably_gt(k, other) or provably_gt(other, k):
        raise OpError(f"{c.op.name} of {dims_text(lhs.shape)} and {dims_text(rhs.shape)}: K does not agree")
    if provably_gt(lhs.valid[-1], rhs.valid[-2]):
        raise OpError(f"{c.op.name} of valid {dims_text(lhs.valid)} and {dims_text(rhs.valid)}: the right operand holds too few rows")


def _product(c: CallSite, i: int, j: int) -> TileType:
    lhs, rhs = require_rank(c, i, 2), require_rank(c, j, 2)
    _check_k(c, i, j)
    return acc_tile((lhs.shape[0], rhs.shape[1]), product_dtype(c, i, j), (lhs.valid[0], rhs.valid[1]))


def check_acc(c: CallSite, product: TileType, same_valid: bool = False) -> TileType:
    """The type of accumulator 0 after `product` is added: its shape and valid region in Acc. It must have the
    product's dtype and shape and provably no smaller valid region."""
    acc = c.tile(0)
    if acc.dtype is not product.dtype:
        raise OpError(f"the accumulator of {c.op.name} has dtype {acc.dtype.value}", f"it must be {product.dtype.value}")
    if acc.rank != product.rank or any(provably_gt(a, p) or provably_gt(p, a) for a, p in zip(acc.shape, product.shape, strict=True)):
        raise OpError(f"the accumulator of {c.op.name} is {dims_text(acc.shape)}, the product {dims_text(product.shape)}")
    small = any(map(provably_gt, product.valid, acc.valid))
    if small or (same_valid and any(map(provably_gt, acc.valid, product.valid))):
        raise OpError(f"the accumulator of {c.op.name} is valid {dims_text(acc.valid)}, the product {dims_text(product.valid)}")
    view = replace(implicit_view(acc.shape, ACC), valid=acc.valid, compact=acc.effective_view.compact)
    return tile_type(acc.shape, acc.dtype, ACC, view)


def check_bias(c: CallSite, i: int, product: TileType) -> TileType:
    """`product` again, with bias `i` checked: [1, N] of the product's dtype."""
    bias = require_rank(c, i, 2)
    if const_int(bias.shape[0]) != 1 or not provably_equal(bias.shape[1], product.shape[1]) or bias.dtype is not product.dtype:
        raise OpError(
            f"the bias of {c.op.name} is {dims_text(bias.shape)} of {bias.dtype.value}",
            f"it must be {dims_text((index(1), product.shape[1]))} of {product.dtype.value}",
        )
    return product


def _gemv_product(c: CallSite, i: int, j: int) -> TileType:
    lhs, rhs = require_rank(c, i, 2), require_rank(c, j, 2)
    _check_k(c, i, j)
    dtype = product_dtype(c, i, j)
    if const_int(lhs.shape[0]) != 1 or const_int(lhs.valid[0]) != 1 or lhs.dtype not in _GEMV:
        raise OpError(
            f"{c.op.name} of {dims_text(lhs.shape)} {lhs.dtype.value}",
            "the left operand is one row of INT8, FP16, BF16, FP32",
        )
    shape = (index(16), rhs.shape[1])
    return tile_type(shape, dtype, ACC, replace(implicit_view(shape, ACC), valid=(index(1), rhs.valid[1])))


def _batch_product(c: CallSite, i: int, j: int) -> TileType:
    lhs, rhs = c.tile(i), c.tile(j)
    if lhs.rank < 2 or rhs.rank < 2:
        raise OpError(f"{c.op.name} of {dims_text(lhs.shape)} and {dims_text(rhs.shape)}", "both need rank 2 or more")
    _check_k(c, i, j)
    batch = broadcast(c.op.name, lhs.shape[:-2], rhs.shape[:-2])
    return tile_type((*batch, lhs.shape[-2], rhs.shape[-1]), product_dtype(c, i, j), ACC)


# ---- meaning -----------------------------------------------------------------------------------------------


def multiply(a: Tile, b: Tile, held: Any, start: Any) -> tuple[Any, Any]:
    """`start + a @ b` in the type `held`, k ascending below the valid K of `a`; and where the product is
    defined: inside the valid rows of `a` and columns of `b`, of defined cells.

    Batch dims broadcast; `start` has the shape of the product."""
    k = a.valid[-1]
    left, right = a.data.astype(held), b.data.astype(held)
    total, term = np.array(start, dtype=held), np.empty(start.shape, dtype=held)
    with np.errstate(all="ignore"):
        for step in range(k):
            np.multiply(left[..., :, step, None], right[..., None, step, :], out=term)
            total += term
    rows, columns = a.readable()[..., :k].all(axis=-1), b.readable()[..., :k, :].all(axis=-2)
    # without a single product to add, what lies outside of the operands' regions is no product all the same
    rows[..., a.valid[-2] :], columns[..., b.valid[-1] :] = False, False
    return total, rows[..., :, None] & columns[..., None, :]


def product_shape(a: Tile, b: Tile) -> tuple[int, ...]:
    """The shape of `a @ b` with broadcast batch dims."""
    return (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])


Multiply = Callable[[Evaluation, Any], tuple[Any, Any]]


def _of(i: int) -> Multiply:
    """The product of operands `i` and `i + 1` onto a start."""

    def run(ev: Evaluation, start: Any) -> tuple[Any, Any]:
        assert ev.dtype is not None
        return multiply(ev.tile(i), ev.tile(i + 1), numpy_dtype(ev.dtype), start)

    return run


def fresh_product(run: Multiply, a: int, b: int, bias: int | None = None) -> Meaning:
    """A new accumulator from operands `a` and `b`; rows that the product has not (gemv) stay undefined."""

    def meaning(ev: Evaluation) -> Tile:
        assert ev.dtype is not None
        held = numpy_dtype(ev.dtype)
        shape = product_shape(ev.tile(a), ev.tile(b))
        total, ok = run(ev, np.zeros(shape, dtype=held))
        if bias is not None:
            with np.errstate(all="ignore"):
                total = total + ev.tile(bias).data.astype(held)
            ok = ok & ev.tile(bias).readable()
        data, mask = np.zeros(ev.shape, dtype=held), np.zeros(ev.shape, dtype=bool)
        where = tuple(slice(0, n) for n in shape)
        data[where], mask[where] = total, ok
        return ev.fresh(data, mask)

    return meaning


def added_product(run: Multiply, a: int, b: int, init: int | None = None) -> Meaning:
    """Accumulator 0 with the product of operands `a` and `b` added in place; a true `init` operand starts
    from 0 instead.

    Only the product's valid region is touched."""

    def meaning(ev: Evaluation) -> Tile:
        target, lhs, rhs = ev.target(0), ev.tile(a), ev.tile(b)
        shape = product_shape(lhs, rhs)
        fresh = init is not None and len(ev.args) > init and bool(ev.args[init])
        whole = tuple(slice(0, n) for n in shape)
        start = np.zeros(shape, dtype=target.data.dtype) if fresh else target.data[whole]
        total, ok = run(ev, start)
        if not fresh:
            ok = ok & target.readable()[whole]
        region = (..., slice(0, lhs.valid[-2]), slice(0, rhs.valid[-1]))
        target.data[whole][region], target.ok[whole][region] = total[region], ok[region]
        return ev.view(target.data, target.ok)

    return meaning


def factors(op: OpDef) -> tuple[int, int] | None:
    """The positions of the left and the right factor of a matrix product; None for ops that are none."""
    if not op.name.startswith(("tile.matmul", "tile.gemv", "tile.batch_matmul")):
        return None
    names = [o.name for o in op.operands]
    return names.index("lhs"), names.index("rhs")


# ---- declarations ------------------------------------------------------------------------------------------

_A, _B, _BIAS, _ACC = tile("lhs"), tile("rhs"), tile("bias"), tile("acc")
_INIT = scalar("init_cond", optional=True)
_PHASE = (Kwarg("acc_phase", str, default="unspecified", words=("unspecified", "partial", "final")),)


def _check_init(c: CallSite) -> None:
    if len(c) > 3 and c.dtype(3) is not DType.BOOL:
        raise OpError(f"init_cond of {c.op.name} has dtype {c.dtype(3).value}", "it must be BOOL")


def _family(
    name: str, product: Callable[[CallSite, int, int], TileType], init: bool, bias: bool, page: str | None = None, **rest: Any
) -> None:
    """`name`, `name_acc` and, with `bias`, `name_bias`; `page` is the family that works on one page."""

    def plain(c: CallSite) -> TileType:
        return product(c, 0, 1)

    def acc(c: CallSite) -> TileType:
        _check_init(c)
        return check_acc(c, product(c, 1, 2))

    def biased(c: CallSite) -> TileType:
        return check_bias(c, 2, product(c, 0, 1))

    def declare(suffix: str, operands: tuple[Any, ...], rule: TileRule, meaning: Meaning, **more: Any) -> None:
        declare_op(
            f"tile.{name}{suffix}",
            operands,
            infer=rule,
            trait=Trait.PAGE_WISE,
            meaning=meaning,
            page_op=f"tile.{page}{suffix}" if page else None,
            **rest,
            **more,
        )

    declare("", (_A, _B), plain, fresh_product(_of(0), 0, 1))
    operands = (_ACC, _A, _B, _INIT) if init else (_ACC, _A, _B)
    declare("_acc", operands, acc, added_product(_of(1), 1, 2, 3), writes=(0,), aliases=0)
    if bias:
        declare("_bias", (_A, _B, _BIAS), biased, fresh_product(_of(0), 0, 1, 2))


_family("matmul", _product, init=True, bias=True)
_family("gemv", _gemv_product, init=False, bias=True, kwargs=_PHASE)
_family("batch_matmul", _batch_product, init=True, bias=False, page="matmul")
