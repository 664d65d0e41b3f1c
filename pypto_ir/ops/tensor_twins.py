"""Tensor ops that compute what a tile op of the same name computes (`spec/tile_ir.md` section 7).

In Orchestration and Opaque bodies `tensor.row_sum(x [32, 64])` is a new tensor [32, 1], as `tile.row_sum` of
a tile [32, 64] is a tile [32, 1]. The type rule and the meaning of such a twin are those of the tile op, run
on tensors as tiles; scratch operands, which only tiles need, are left out. Twins of ops that overwrite
operand 0 (scatter, ..) write its memory.

The sources name these ops without their result types, so the program's own types are believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pypto_ir.expr import Expr, Var
from pypto_ir.interp.memory import Tensor
from pypto_ir.interp.values import Evaluation, RunError, Tile
from pypto_ir.ops import (  # noqa: F401
    cross_core,
    elementwise,
    expand,
    gather,
    indexed,
    pads,
    reduce,
    scatter,
    select,
    sequences,
    sort,
    views,
)
from pypto_ir.ops.numeric import Meaning
from pypto_ir.ops.registry import (
    CallSite,
    Kind,
    Kwarg,
    OpDef,
    Operand,
    OpError,
    Role,
    Trait,
    declare_op,
    declared_op,
    tensor,
    type_of,
)
from pypto_ir.ops.rules import elementwise as broadcasting
from pypto_ir.stmt import Call
from pypto_ir.types import (
    Pad,
    TensorType,
    TensorView,
    TileType,
    TileView,
    TupleType,
    Type,
    tensor_type,
    tile_type,
)

# ---- types -------------------------------------------------------------------------------------------------


def as_tile(t: TensorType) -> TileType:
    """The type of a tile that holds a tensor: its shape, dtype, valid extents and pad."""
    return tile_type(t.shape, t.dtype, None, TileView(valid=t.valid, pad=t.view.pad if t.view else Pad.NULL))


def as_tensor(t: Type) -> Type:
    """The type of a new tensor that holds a tile; tuples part by part."""
    match t:
        case TileType(shape=shape, dtype=dtype, effective_view=view):
            return tensor_type(shape, dtype, TensorView(valid=view.valid, pad=view.pad))
        case TupleType(items=items):
            return TupleType(tuple(map(as_tensor, items)))
    return t


def tile_call(op: OpDef, call: Call) -> Call:
    """The call of the tile op `op` that stands for a call of its twin; required scratch has the type of the
    first tensor."""
    given = iter(call.args)
    args: list[Expr] = []
    for operand in op.operands:
        if operand.role is not Role.SCRATCH:
            arg = next(given, None)
            if arg is None:
                break
            args.append(as_operand(arg) if operand.kind is Kind.TILE else arg)
        elif not operand.optional:
            args.append(Var("tmp", next(t for t in map(type_of, args) if isinstance(t, TileType))))
    return Call(op.name, tuple(args), call.kwargs)


def as_operand(e: Expr) -> Expr:
    """A tensor operand of a twin as the tile operand that it stands for."""
    t = type_of(e)
    return Var("tensor", as_tile(t)) if isinstance(t, TensorType) else e


# ---- values ------------------------------------------------------------------------------------------------


def loaded(value: Any) -> Any:
    """The content of a tensor as a tile; anything else as it is."""
    if not isinstance(value, Tensor):
        return value
    data, ok = value.read((0,) * len(value.shape), value.shape)
    return Tile(data, ok, tuple(value.valid))


def stored(name: str, value: Any, t: Type | None) -> Any:
    """A tile as a new tensor of type `t`; tuples part by part."""
    if isinstance(value, tuple) and isinstance(t, TupleType):
        return tuple(stored(name, v, part) for v, part in zip(value, t.items, strict=True))
    if not isinstance(value, Tile) or not isinstance(t, TensorType):
        return value
    made = Tensor.fresh(name, value.shape, t.dtype)
    made.write((0,) * len(value.shape), value.data, value.readable())
    return made.view(value.shape, value.valid)


def _tile_type_of(t: Type | None) -> Type | None:
    match t:
        case TensorType():
            return as_tile(t)
        case TupleType(items=items):
            return TupleType(tuple(as_tile(i) if isinstance(i, TensorType) else i for i in items))
    return t


def _arguments(op: OpDef, args: tuple[Any, ...]) -> Iterator[Any]:
    """The arguments of the tile op: tensors as tiles, no content for scratch."""
    given = iter(args)
    for operand in op.operands:
        if operand.role is Role.SCRATCH:
            yield None
            continue
        for value in given:
            yield loaded(value) if operand.kind is Kind.TILE else value
            break


def _run(op: OpDef, ev: Evaluation, shape: tuple[int, ...], valid: tuple[int, ...]) -> Any:
    args = tuple(_arguments(op, ev.args))
    assert op.meaning is not None
    return op.meaning(replace(ev, op=op, args=args, type=_tile_type_of(ev.type), shape=shape, valid=valid, in_place=True))


def _fresh(op: OpDef) -> Meaning | None:
    def meaning(ev: Evaluation) -> Any:
        return stored(ev.op.name, _run(op, ev, ev.shape, ev.valid), ev.type)

    return meaning if op.meaning else None


def _overwritten(op: OpDef) -> Meaning:
    def meaning(ev: Evaluation) -> Any:
        target = ev.tensor(0)
        result = _run(op, replace(ev, dtype=target.dtype), target.shape, tuple(target.valid))
        target.write((0,) * len(target.shape), result.data, result.ok)
        return target

    return meaning


# ---- declarations ------------------------------------------------------------------------------------------


def _operand(o: Operand) -> Operand:
    return replace(tensor(o.name), optional=o.optional) if o.kind is Kind.TILE else o


def twin(name: str, rule: Callable[[CallSite], Type] | None = None, own: tuple[Kwarg, ...] = ()) -> None:
    """Declare `tensor.<name>` as the twin of `tile.<name>`; `rule` replaces the tile op's type rule. `own` are keyword arguments that
    the tile op has not: a call that uses one has no meaning here."""
    op = declared_op(f"tile.{name}")
    infer = rule or op.infer
    operands = tuple(_operand(o) for o in op.operands if o.role is not Role.SCRATCH)
    memory = tuple(i for i, o in enumerate(operands) if o.kind is Kind.TENSOR)

    def deduced(c: CallSite) -> Type:
        result = as_tensor(infer(CallSite(op, tile_call(op, c.call))))
        return c.tensor(0) if op.writes else result

    declare_op(
        f"tensor.{name}",
        operands,
        infer=deduced,
        trait=Trait.OPAQUE,
        meaning=_without(own, _overwritten(op) if op.writes else _fresh(op)),
        kwargs=(*op.kwargs, *own),
        reads_memory=memory,
        writes_memory=(0,) if op.writes else (),
        aliases=0 if op.writes else None,
        barrier=op.barrier,
        annotated=True,
    )


def _without(own: tuple[Kwarg, ...], meaning: Meaning | None) -> Meaning | None:
    """The meaning of calls that use none of some keyword arguments."""

    def checked(ev: Evaluation) -> Any:
        used = [k.name for k in own if ev.kwarg(k.name) is not None]
        if used:
            raise RunError(f"{ev.op.name} with {used[0]} has no meaning here", "R003")
        return meaning(ev) if meaning is not None else None

    return checked if own and meaning is not None else meaning


def _reduction(name: str) -> None:
    op = declared_op(f"tile.{name}")
    by_row = name.startswith("row_")

    def deduced(c: CallSite) -> Type:
        source, axis = c.tensor(0), c.kwarg("axis")
        reduced = source.rank - 1 if by_row else 0
        if axis not in (None, reduced, reduced - source.rank):
            raise OpError(f"axis of {c.op.name} is {axis}", f"it reduces axis {reduced} of rank {source.rank}")
        result = as_tensor(op.infer(CallSite(op, tile_call(op, Call(c.op.name, c.args)))))
        assert isinstance(result, TensorType)
        if c.kwarg("keep_dim") or source.rank == 1:
            return result
        kept = [i for i in range(source.rank) if i != reduced]
        valid = tuple(result.valid[i] for i in kept)
        return tensor_type(tuple(result.shape[i] for i in kept), result.dtype, TensorView(valid=valid))

    def meaning(ev: Evaluation) -> Any:
        source = ev.tensor(0)
        whole, valid = ((*d[:-1], 1) if by_row else (1, *d[1:]) for d in (tuple(source.shape), tuple(source.valid)))
        result = _run(op, ev, whole, valid)
        shaped = Tile(result.data.reshape(ev.shape), result.ok.reshape(ev.shape), ev.valid)
        return stored(ev.op.name, shaped, ev.type)

    declare_op(
        f"tensor.{name}",
        (tensor("src"),),
        infer=deduced,
        trait=Trait.OPAQUE,
        meaning=meaning,
        kwargs=(Kwarg("axis", int), Kwarg("keep_dim", bool, default=True)),
        reads_memory=(0,),
        annotated=True,
    )


_AXES = ("row", "col")
_EXPANDED = ("add", "sub", "mul", "div", "max", "min", "expdif")
#: tile ops with a twin of the same name
TWINS = (
    "add", "sub", "mul", "maximum", "minimum", "fmod", "and", "or", "xor", "rem", "shl", "shr",
    "adds", "subs", "muls", "divs", "maximums", "minimums", "fmods", "rems",
    "ands", "ors", "xors", "shls", "shrs",
    "addc", "subc", "addsc", "subsc", "part_add", "part_mul", "part_max", "part_min",
    "neg", "exp", "recip", "sqrt", "rsqrt", "abs", "relu", "log", "sin", "cos", "not", "lrelu", "prelu",
    "cast", "cmp", "cmps", "sel", "sels", "expands", "row_expand", "col_expand",
    *(f"{axis}_expand_{kind}" for axis in _AXES for kind in _EXPANDED),
    "transpose", "concat", "fillpad", "fillpad_expand", "ci", "tri", "random",
    "gather", "gather_mask", "gatherb", "gather_compare", "gather_row",
    "scatter", "scatter_mask", "scatter_update", "sort32", "mrgsort_format1", "mrgsort_format2",
    "aiv_shard", "aic_gather",
)  # fmt: skip
REDUCTIONS = tuple(f"{axis}_{kind}" for axis in _AXES for kind in ("sum", "max", "min", "prod", "argmax", "argmin"))
#: keyword arguments of tensor ops that say what their tile ops cannot
_OWN = {"gather": (Kwarg("dim", int),)}
for _name in TWINS:
    twin(_name, own=_OWN.get(_name, ()))
twin("div", broadcasting())
for _name in REDUCTIONS:
    _reduction(_name)
