"""The type of a result from what its op says and what its annotation says.

What an annotation states wins, the deduction fills what it leaves open (`spec/tile_ir.md` section 8). Where
the two contradict each other, which is allowed only for the 2-D tile that flattening makes of a load or
create, a warning shows both types. Then the annotation wins again, unless it states another kind, dtype or
shape and the type rule of the op is pinned down (`OpDef.annotated` is False): `u: pl.Tile[[16, 32], ..] =
pl.tile.exp(t)` of a [16, 64] tile is [16, 64], `u` of `pl.tile.gather_mask` what its annotation says.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType
from pypto_ir.linear import all_provably_equal
from pypto_ir.ops.registry import find_op
from pypto_ir.printed.reading import Reading
from pypto_ir.printed.types_reader import Annotation
from pypto_ir.regions import static_size
from pypto_ir.types import (
    ScalarType,
    TensorType,
    TensorView,
    TileType,
    Type,
    UnknownType,
    same_dims,
    tensor_type,
    tile_type,
)  # fmt: skip

declare(P501="an annotation disagrees with the type that is deduced")

_ANNOTATED = frozenset({"tile.load", "tile.create"})


def merged(r: Reading, node: ast.stmt, deduced: Type, written: Annotation, op: str | None, called: bool = False) -> Type:
    """The type of a result; warns where annotation and deduction disagree. `called` says that a function of the
    program gives the value, whose extents are those of its own parameters."""
    t = written.type
    if t == deduced or isinstance(deduced, UnknownType):
        return t
    match deduced, t:
        case TileType(), TileType():
            result: Type = _tile(deduced, t, written)
            agrees = _tiles_agree(deduced, t, written, op)
        case TensorType(), TensorType():
            result = _tensor(deduced, t, written)
            agrees = _tensors_agree(deduced, t, written)
        case ScalarType(), ScalarType():
            # a value of dtype INDEX takes the dtype that its annotation states
            result, agrees = t, op is None and deduced.dtype is DType.INDEX and t.dtype.is_int
        case _:
            result, agrees = t, False
    if not agrees:
        from pypto_ir.printed.types_writer import type_text

        stated, found = type_text(t), type_text(deduced)
        what = op or "the value"
        believed = called or _believed(op, t, deduced)
        help = "the annotation is believed" if believed else "the type that is found is taken"
        r.warn("P501", node, f"{what} gives {found}, annotated is {stated}", help)
        return result if believed else deduced
    return result


def _believed(op: str | None, stated: Type, deduced: Type) -> bool:
    """True where a contradicted annotation stands: it only refines, or the type rule is not pinned down."""
    from pypto_ir.verify.types import agree

    declared = find_op(op) if op is not None else None
    return agree(stated, deduced) or (declared is not None and declared.annotated)


def _tile(d: TileType, t: TileType, written: Annotation) -> TileType:
    memory = t.memory if written.memory else d.memory
    memref = t.memref if written.memref else d.memref
    if written.view or not same_dims(t.shape, d.shape):
        return tile_type(t.shape, t.dtype, memory, t.view, memref)
    return tile_type(t.shape, t.dtype, memory, d.view, memref)


def _tensor(d: TensorType, t: TensorType, written: Annotation) -> TensorType:
    memref = t.memref if written.memref else d.memref
    distributed = t.distributed or d.distributed
    if written.view or len(t.shape) != len(d.shape):
        return tensor_type(t.shape, t.dtype, t.view, distributed, memref)
    return tensor_type(t.shape, t.dtype, d.view, distributed, memref)


def _tiles_agree(d: TileType, t: TileType, written: Annotation, op: str | None) -> bool:
    if t.dtype is not d.dtype:
        return False
    if not all_provably_equal(t.shape, d.shape):
        return op in _ANNOTATED and len(d.shape) > 2 and len(t.shape) == 2 and static_size(t.shape) == static_size(d.shape) is not None
    if written.memory and d.memory is not None and t.memory is not d.memory:
        return False
    if not written.view or t.view == d.view:
        return True
    stated, deduced = t.effective_view, d.effective_view
    if not all_provably_equal(stated.valid, deduced.valid):
        return False
    return op in _ANNOTATED or replace(stated, valid=()) == replace(deduced, valid=())


def _tensors_agree(d: TensorType, t: TensorType, written: Annotation) -> bool:
    if t.dtype is not d.dtype or t.distributed is not d.distributed or not all_provably_equal(t.shape, d.shape):
        return False
    if not written.view or t.view == d.view:
        return True
    stated, deduced = t.view or TensorView(), d.view or TensorView()
    return (
        stated.layout is deduced.layout
        and stated.pad is deduced.pad
        and same_dims(stated.stride, deduced.stride)
        and all_provably_equal(t.valid, d.valid)
    )
