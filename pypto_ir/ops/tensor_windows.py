"""Windows and views of tensors in Orchestration and Opaque bodies (`spec/tile_ir.md` section 7).

`tensor.slice(x, [32, 64], [i, 0])` is that window of x and shares its memory; `tensor.assemble(t, s, [i, 0])`
writes s into t at row i, and the result is t.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from pypto_ir.interp.memory import Tensor, packed_strides
from pypto_ir.interp.values import Evaluation, RunError
from pypto_ir.linear import provably_gt
from pypto_ir.ops.memory import ATOMIC_DTYPES, grown
from pypto_ir.ops.registry import (
    CallSite,
    Kwarg,
    OpError,
    Trait,
    declare_op,
    dims_text,
    scalar,
    tensor,
    tuple_of,
)
from pypto_ir.ops.rules import optional_tuple
from pypto_ir.ops.tensor_memory import tensor_shape
from pypto_ir.ops.windows import PAD_WORDS, dropped
from pypto_ir.regions import reshape_valid, static, window_read, write_union
from pypto_ir.types import (
    Layout,
    Pad,
    TensorView,
    Type,
    dims,
    tensor_type,
)

_SRC = tensor("src")

# ---- windows and views -------------------------------------------------------------------------------------


def _slice_type(c: CallSite) -> Type:
    source, shape, offsets = c.tensor(0), c.tuple(1), c.tuple(2)
    valid = window_read(
        c.op.name,
        source.shape,
        source.valid,
        offsets,
        shape,
        optional_tuple(c, 3),
        exact=False,
        clamp=bool(c.kwarg("clamp")),
    )
    shape, valid = dropped(c.op.name, shape, valid, optional_tuple(c, 4) or (), least=1)
    pad = c.kwarg("pad_value")
    view = TensorView(valid=valid, pad=Pad(str(pad)) if pad is not None else Pad.NULL)
    return tensor_type(shape, source.dtype, view, source.distributed)


def _slice(ev: Evaluation) -> Tensor:
    """The window as far as it lies in the source; what is cut off is not valid and never read."""
    source, shape, offsets = ev.tensor(0), ev.args[1], ev.args[2]
    asked = ev.args[3] if len(ev.args) > 3 and ev.args[3] else shape
    if any(o < 0 or o > d for o, d in zip(offsets, source.shape, strict=True)):
        raise RunError(f"{ev.op.name} of {list(shape)} at {list(offsets)} of a tensor {list(source.shape)}")
    held = tuple(min(n, d - o) for n, o, d in zip(shape, offsets, source.shape, strict=True))
    if held != tuple(shape) and not ev.kwarg("clamp") and any(a > h for a, h in zip(asked, held, strict=True)):
        raise RunError(f"{ev.op.name} of {list(shape)} at {list(offsets)} of a tensor {list(source.shape)}")
    left = (max(v - o, 0) for v, o in zip(source.valid, offsets, strict=True))
    valid = tuple(map(min, asked, held, left))
    gone = {int(a) for a in ev.args[4]} if len(ev.args) > 4 and ev.args[4] else set()
    keep = [i for i in range(len(held)) if i not in gone] or [len(held) - 1]
    window = source.window(offsets, held, valid)
    return Tensor(
        window.buffer,
        tuple(held[i] for i in keep),
        tuple(valid[i] for i in keep),
        window.layout,
        tuple(window.strides[i] for i in keep),
        window.offset,
    )


declare_op(
    "tensor.slice",
    (
        _SRC,
        tuple_of("shape"),
        tuple_of("offsets"),
        tuple_of("valid", optional=True),
        tuple_of("drop_dims", optional=True),
    ),
    infer=_slice_type,
    trait=Trait.OPAQUE,
    meaning=_slice,
    aliases=0,
    kwargs=(Kwarg("pad_value", Pad, words=PAD_WORDS), Kwarg("clamp", bool, default=False)),
)


def _reshape_type(c: CallSite) -> Type:
    source, shape = c.tensor(0), tensor_shape(c, 1)
    have, want = static(source.shape), static(shape)
    if have is not None and want is not None and prod(have) != prod(want):
        raise OpError(f"tensor.reshape of {dims_text(source.shape)} to {dims_text(shape)}: {prod(have)} elements are not {prod(want)}")
    valid = reshape_valid(c.op.name, source.valid, source.shape, shape)
    return tensor_type(shape, source.dtype, TensorView(valid=valid), source.distributed)


def _reshape(ev: Evaluation) -> Tensor:
    """The same memory; a window with gaps has no such view, and its reshape is a `RunError`."""
    source, shape = ev.tensor(0), ev.args[1]
    if source.strides != packed_strides(source.shape):
        raise RunError(f"tensor.reshape of a window {list(source.shape)} with gaps")
    before, after = dims(*source.shape), dims(*shape)
    valid = static(reshape_valid(ev.op.name, dims(*source.valid), before, after))
    return source.view(shape, valid, Layout.ND)


declare_op(
    "tensor.reshape",
    (_SRC, tuple_of("shape")),
    infer=_reshape_type,
    trait=Trait.OPAQUE,
    meaning=_reshape,
    aliases=0,
    annotated=True,
)


def _set_validshape_type(c: CallSite) -> Type:
    source, valid = c.tensor(0), c.args[1:]
    if len(valid) != source.rank or any(map(provably_gt, valid, source.shape)):
        raise OpError(f"tensor.set_validshape {dims_text(valid)} of a tensor {dims_text(source.shape)}")
    view = replace(source.view or TensorView(), valid=valid)
    return tensor_type(source.shape, source.dtype, view, source.distributed)


def _set_validshape(ev: Evaluation) -> Tensor:
    source = ev.tensor(0)
    return source.view(source.shape, tuple(map(int, ev.args[1:])), source.layout, source.strides)


declare_op(
    "tensor.set_validshape",
    (_SRC, scalar("rows"), scalar("cols")),
    infer=_set_validshape_type,
    trait=Trait.OPAQUE,
    meaning=_set_validshape,
    aliases=0,
    variadic=True,
    annotated=True,
)

# ---- assembling --------------------------------------------------------------------------------------------


def _assemble_type(c: CallSite) -> Type:
    target, source, offsets = c.tensor(0), c.tensor(1), c.tuple(2)
    if source.rank != target.rank:
        raise OpError(
            f"tensor.assemble of a tensor {dims_text(source.shape)} into {dims_text(target.shape)}",
            "both need the same rank; reshape the source",
        )
    if source.dtype is not target.dtype:
        raise OpError(f"tensor.assemble of {source.dtype.value} into {target.dtype.value}", "cast the source first")
    if c.kwarg("atomic") == "Add" and target.dtype not in ATOMIC_DTYPES:
        raise OpError(f"tensor.assemble adds atomically into {target.dtype.value}")
    valid = write_union(c.op.name, target.shape, target.valid, source.shape, source.valid, offsets, exact=False)
    return tensor_type(target.shape, target.dtype, TensorView(valid=valid), target.distributed)


def _assemble(ev: Evaluation) -> Any:
    target, source = ev.tensor(0), ev.tensor(1)
    if all(source.valid):
        data, ok = source.read((0,) * len(source.shape), source.valid)
        target.write(ev.args[2], data, ok, accumulate=ev.kwarg("atomic") == "Add")
    return grown(target, ev.args[2], source.valid)


declare_op(
    "tensor.assemble",
    (tensor("dst"), _SRC, tuple_of("offsets")),
    infer=_assemble_type,
    trait=Trait.OPAQUE,
    meaning=_assemble,
    reads_memory=(1,),
    writes_memory=(0,),
    aliases=0,
    kwargs=(Kwarg("atomic", str, words=("Add",)),),
)
