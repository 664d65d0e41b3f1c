"""Matrix products of tensors in Orchestration and Opaque bodies (`spec/tile_ir.md` section 7).

`tensor.matmul(a [16, 64], b [32, 64], b_trans=True)` is [16, 32]. Without `out_dtype` the result has the
promoted dtype of the operands. Leading dims broadcast. Sums are those of `tile.batch_matmul`: FP32 (INT32 for
integers) in ascending k, rounded once.
"""

from __future__ import annotations

from typing import Any

from pypto_ir.dtypes import DType, promote
from pypto_ir.interp.memory import Tensor
from pypto_ir.interp.values import UNDEFINED, Evaluation, Tile, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.linear import provably_gt
from pypto_ir.ops.matmul import multiply, product_shape
from pypto_ir.ops.numeric import rounded
from pypto_ir.ops.registry import (
    DTYPE_WORDS,
    CallSite,
    Kwarg,
    OpError,
    Trait,
    declare_op,
    dims_text,
    scalar,
    tensor,
)
from pypto_ir.ops.tensor_twins import loaded
from pypto_ir.regions import broadcast
from pypto_ir.types import Dims, TensorType, TensorView, Type, tensor_type


def _turned(d: Any, turn: object) -> Any:
    return (*d[:-2], d[-1], d[-2]) if turn else d


def _operand(c: CallSite, i: int, word: str) -> tuple[TensorType, Dims, Dims]:
    t = c.tensor(i)
    if t.rank < 2:
        raise OpError(f"operand {i} of {c.op.name} is {dims_text(t.shape)}", "it needs rank 2 or more")
    turn = c.kwarg(word)
    return t, _turned(t.shape, turn), _turned(t.valid, turn)


def _product(c: CallSite, first: int) -> tuple[Dims, Dims, DType]:
    """Shape, valid extents and promoted dtype of the product of operands `first` and `first + 1`."""
    lhs, a, a_valid = _operand(c, first, "a_trans")
    rhs, b, b_valid = _operand(c, first + 1, "b_trans")
    if provably_gt(a[-1], b[-2]) or provably_gt(b[-2], a[-1]):
        raise OpError(f"{c.op.name} of {dims_text(a)} and {dims_text(b)}: K does not agree")
    batch = broadcast(c.op.name, a[:-2], b[:-2])
    shape = (*batch, a[-2], b[-1])
    return shape, (*batch, a_valid[-2], b_valid[-1]), promote(lhs.dtype, rhs.dtype)


def _matmul_type(c: CallSite) -> Type:
    shape, valid, dtype = _product(c, 0)
    word = c.kwarg("out_dtype")
    return tensor_type(shape, dtype if word is None else DType(str(word)), TensorView(valid=valid))


def _acc_type(c: CallSite) -> Type:
    shape, _, _ = _product(c, 1)
    acc = c.tensor(0)
    unequal = (provably_gt(a, b) or provably_gt(b, a) for a, b in zip(acc.shape, shape, strict=False))
    if acc.rank != len(shape) or any(unequal):
        raise OpError(f"the accumulator of {c.op.name} is {dims_text(acc.shape)}, the product {dims_text(shape)}")
    return acc


def _sum(ev: Evaluation, first: int, start: Any) -> tuple[Any, Any]:
    """The product of operands `first` and `first + 1` onto `start` (None: zeros), in its sum type."""
    tiles = []
    for i, word in ((first, "a_trans"), (first + 1, "b_trans")):
        t, turn = loaded(ev.args[i]), ev.kwarg(word)
        data, ok = ((np.swapaxes(x, -1, -2) if turn else x) for x in (t.data, t.ok))
        tiles.append(Tile(data, ok, _turned(t.valid, turn)))
    held = np.int32 if ev.tensor(first).dtype.is_int else np.float32
    zeros = np.zeros(product_shape(*tiles), dtype=held)
    return multiply(tiles[0], tiles[1], held, zeros if start is None else start.astype(held))


def _matmul(ev: Evaluation) -> Tensor:
    total, ok = _sum(ev, 0, None)
    assert ev.dtype is not None
    made = Tensor.fresh(ev.op.name, total.shape, ev.dtype)
    made.write((0,) * total.ndim, rounded(total, ev.dtype), ok)
    return made.view(made.shape, ev.valid)


def _matmul_acc(ev: Evaluation) -> Tensor:
    """The accumulator's memory holds the sum; a true `init_cond` starts from 0 instead of what is there."""
    target = ev.tensor(0)
    fresh = len(ev.args) > 3 and ev.args[3] is not UNDEFINED and bool(ev.args[3])
    acc = loaded(target)
    total, ok = _sum(ev, 1, None if fresh else acc.data)
    known = ok if fresh else ok & acc.readable()
    target.write((0,) * total.ndim, rounded(total, target.dtype).astype(numpy_dtype(target.dtype)), known)
    return target


_SIDES = (Kwarg("a_trans", bool, default=False), Kwarg("b_trans", bool, default=False))
declare_op(
    "tensor.matmul",
    (tensor("lhs"), tensor("rhs")),
    infer=_matmul_type,
    trait=Trait.OPAQUE,
    meaning=_matmul,
    reads_memory=(0, 1),
    kwargs=(
        *_SIDES,
        Kwarg("c_matrix_nz", bool, default=False),
        Kwarg("out_dtype", DType, words=DTYPE_WORDS),
    ),
    annotated=True,
)
declare_op(
    "tensor.matmul_acc",
    (tensor("acc"), tensor("lhs"), tensor("rhs"), scalar("init_cond", optional=True)),
    infer=_acc_type,
    trait=Trait.OPAQUE,
    meaning=_matmul_acc,
    reads_memory=(0, 1, 2),
    writes_memory=(0,),
    aliases=0,
    kwargs=_SIDES,
    annotated=True,
)
