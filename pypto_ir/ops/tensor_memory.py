"""New tensors in Orchestration and Opaque bodies: create, full, expand_clone (`spec/tile_ir.md` section 7).

`tensor.create([32, 64], dtype=FP32)` is memory of its own in which nothing is defined, with `init_value` 0.0
memory of zeros. `tensor.expand_clone(x [1, 64], [32, 64])` is a new tensor of 32 copies of the row.
"""

from __future__ import annotations

from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, const_int
from pypto_ir.interp.memory import Tensor
from pypto_ir.interp.values import UNDEFINED, Evaluation, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.linear import provably_negative
from pypto_ir.ops.cross_core import no_result
from pypto_ir.ops.numeric import working
from pypto_ir.ops.registry import (
    DTYPE_WORDS,
    CallSite,
    Kwarg,
    OpError,
    Trait,
    anything,
    declare_op,
    dims_text,
    scalar,
    tensor,
    tuple_of,
)
from pypto_ir.regions import broadcast
from pypto_ir.types import (
    Dims,
    Layout,
    TensorType,
    TensorView,
    Type,
    tensor_type,
)

_LAYOUTS = tuple(m.value for m in Layout)
_DTYPE = Kwarg("dtype", DType, required=True, words=DTYPE_WORDS)

# ---- new tensors -------------------------------------------------------------------------------------------


def tensor_shape(c: CallSite, i: int) -> Dims:
    """The tuple at operand `i` as the shape of a tensor: dims may be dynamic, constant ones are positive."""
    shape = c.tuple(i)
    if not shape or any(const_int(d) == 0 or provably_negative(d) for d in shape):
        raise OpError(f"{c.op.name} of {dims_text(shape)}", "it needs at least one dim, all positive")
    return shape


def _create_type(c: CallSite) -> Type:
    view = TensorView(layout=Layout(str(c.kwarg("layout"))))
    return tensor_type(tensor_shape(c, 0), DType(str(c.kwarg("dtype"))), view)


def _create(ev: Evaluation) -> Tensor:
    """Undefined memory, or memory that holds `init_value` everywhere."""
    made = _fresh(ev)
    value = ev.kwarg("init_value")
    if isinstance(value, Const):
        value = value.value
    if value is not None:
        _fill(made, value)
    return made


def _fresh(ev: Evaluation) -> Tensor:
    assert ev.dtype is not None
    layout = ev.type.layout if isinstance(ev.type, TensorType) else Layout.ND
    return Tensor.fresh(ev.op.name, ev.args[0], ev.dtype, layout)


def _fill(made: Tensor, value: Any) -> None:
    cells = working(value, made.dtype).astype(numpy_dtype(made.dtype))
    made.write((0,) * len(made.shape), np.broadcast_to(cells, made.shape))


def _full_type(c: CallSite) -> Type:
    return tensor_type(tensor_shape(c, 0), DType(str(c.kwarg("dtype"))))


def _full(ev: Evaluation) -> Tensor:
    made = _fresh(ev)
    if ev.args[1] is not UNDEFINED:
        _fill(made, ev.args[1])
    return made


declare_op(
    "tensor.create",
    (tuple_of("shape"),),
    infer=_create_type,
    trait=Trait.OPAQUE,
    meaning=_create,
    kwargs=(
        _DTYPE,
        Kwarg("layout", Layout, default="ND", words=_LAYOUTS),
        Kwarg("manual_dep", bool, default=False),
        Kwarg("init_value", object),
    ),
)
declare_op(
    "tensor.full",
    (tuple_of("shape"), scalar("value")),
    infer=_full_type,
    trait=Trait.OPAQUE,
    meaning=_full,
    kwargs=(_DTYPE,),
    annotated=True,
)
declare_op(
    "tensor.create_l1",
    (tuple_of("shape"),),
    infer=_full_type,
    trait=Trait.OPAQUE,
    kwargs=(_DTYPE,),
    annotated=True,
    open=True,
)

# ---- copies ------------------------------------------------------------------------------------------------


def _expand_clone_type(c: CallSite) -> Type:
    source, shape = c.tensor(0), tensor_shape(c, 1)
    if broadcast(c.op.name, source.shape, shape) != shape:
        raise OpError(f"tensor.expand_clone of {dims_text(source.shape)} to {dims_text(shape)}")
    return tensor_type(shape, source.dtype)


def _expand_clone(ev: Evaluation) -> Tensor:
    source, shape = ev.tensor(0), ev.args[1]
    made = Tensor.fresh(ev.op.name, shape, source.dtype)
    cells = source.read((0,) * len(source.shape), source.shape)
    data, ok = (np.broadcast_to(x, shape) for x in cells)
    made.write((0,) * len(shape), data, ok)
    return made


declare_op(
    "tensor.expand_clone",
    (tensor("src"), tuple_of("shape")),
    infer=_expand_clone_type,
    trait=Trait.OPAQUE,
    meaning=_expand_clone,
    reads_memory=(0,),
    annotated=True,
)
declare_op(
    "tensor.paged_gather",
    (anything("operands", optional=True),),
    infer=no_result,
    trait=Trait.OPAQUE,
    barrier=True,
    variadic=True,
    annotated=True,
    open=True,
)
