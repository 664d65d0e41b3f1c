"""What type rules share: the generic check of a call, memory stamping, and the rules that whole families of
ops follow.

A type rule maps a call to its result type and raises `OpError` where the operands do not fit. `infer_call`
first checks what no rule should repeat (operand counts and kinds, keyword arguments), then runs the rule of
the op:

    infer_call(Call("tile.muls", (t, s)))   # t: [16, 64] FP32 valid [v, 64], s: FP32 -> t's type in Vec

Most rules build a type without a memory space; `in_vec`, `inherits` and `in_space` stamp the space
afterwards, and the view is compared with what that space implies again (`spec/tile_ir.md` section 6, "memory
stamping").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType, promote
from pypto_ir.expr import Expr, const_int, index
from pypto_ir.linear import provably_gt, provably_negative
from pypto_ir.ops.registry import (
    CallSite,
    Kind,
    Kwarg,
    OpDef,
    Operand,
    OpError,
    Role,
    dims_text,
    find_op,
    kind_name,
    type_of,
)
from pypto_ir.regions import add_index, broadcast, is_empty, static
from pypto_ir.stmt import Call, Literal, tuple_items
from pypto_ir.types import Dims, Memory, ScalarType, TensorType, TileType, TileView, Type, tile_type

declare(
    T101="an op refuses its operands or keyword arguments",
    T102="a tile has a dimension that is not constant, not positive or too large to be flattened",
)

Rule: TypeAlias = Callable[[CallSite], Type]
TileRule: TypeAlias = Callable[[CallSite], TileType]

INTS = frozenset(d for d in DType if d.is_int and d is not DType.INDEX)
FLOATS = frozenset(d for d in DType if d.is_float)


# ---- the generic check -------------------------------------------------------------------------------------


def infer_call(call: Call) -> Type:
    """The canonical result type of a call, its memory space stamped. Raises `KeyError` for an op that the
    registry does not know and `OpError` where the call does not fit its declaration or its type rule."""
    op = find_op(call.op)
    if op is None:
        raise KeyError(call.op)
    check_call(op, call)
    return op.infer(CallSite(op, call))


def check_call(op: OpDef, call: Call) -> None:
    """Check operand count, operand kinds and keyword arguments against the declaration; raise `OpError` for
    the first misfit."""
    count, least, most = len(call.args), sum(not o.optional for o in op.operands), len(op.operands)
    if count < least or (count > most and not op.variadic):
        wanted = f"at least {least}" if op.variadic else str(most) if least == most else f"{least} to {most}"
        raise OpError(f"{op.name} takes {wanted} operands, found {count}", f"its operands are {_signature(op)}")
    for i, arg in enumerate(call.args):
        operand = op.operands[min(i, most - 1)]
        if not _fits(operand, arg):
            raise OpError(
                f"operand {i} ({operand.name}) of {op.name} must be {_KIND_TEXT[operand.kind]}, found {kind_name(type_of(arg))}",
                f"its operands are {_signature(op)}",
            )
    given = {name for name, _ in call.kwargs}
    for name, value in call.kwargs:
        declared = op.kwarg(name)
        if declared is None:
            allowed = ", ".join(k.name for k in op.kwargs) or "none"
            raise OpError(f"{op.name} has no keyword argument {name}", f"allowed: {allowed}")
        _check_kwarg(op, declared, value)
    for declared in op.kwargs:
        if declared.required and declared.name not in given:
            raise OpError(f"{op.name} needs the keyword argument {declared.name}", _kwarg_help(declared))


_KIND_TEXT = {
    Kind.TILE: "a tile",
    Kind.TENSOR: "a tensor",
    Kind.SCALAR: "a scalar",
    Kind.TUPLE: "a literal tuple of integer expressions",
    Kind.ANY: "a value",
}


def _signature(op: OpDef) -> str:
    return ", ".join(f"{o.name} ({o.kind.value}{', optional' if o.optional else ''})" for o in op.operands) or "none"


def _fits(operand: Operand, arg: Expr) -> bool:
    items = tuple_items(arg)
    if operand.optional and items == ():
        return True
    match operand.kind:
        case Kind.TILE:
            return isinstance(type_of(arg), TileType)
        case Kind.TENSOR:
            return isinstance(type_of(arg), TensorType)
        case Kind.SCALAR:
            return isinstance(type_of(arg), ScalarType)
        case Kind.TUPLE:
            return items is not None and all(_is_index(i) for i in items)
        case Kind.ANY:
            return True


def _is_index(e: Expr) -> bool:
    t = type_of(e)
    return isinstance(t, ScalarType) and t.dtype.is_int


def _check_kwarg(op: OpDef, declared: Kwarg, value: Literal) -> None:
    if declared.words:
        good = isinstance(value, str) and value in declared.words
    elif declared.type is float:
        good = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        good = declared.type in (object, type(value))
    if not good:
        shown = value if isinstance(value, str | int | float | None) else "an expression or a list"
        raise OpError(f"keyword argument {declared.name} of {op.name} cannot be {shown}", _kwarg_help(declared))


def _kwarg_help(declared: Kwarg) -> str:
    return "allowed: " + (", ".join(declared.words) if declared.words else f"a value of type {declared.type.__name__}")


# ---- memory stamping ---------------------------------------------------------------------------------------


def stamp(t: TileType, space: Memory | None) -> TileType:
    """`t` in `space` where it has no space of its own; its view is made canonical against that space."""
    return t if t.memory is not None or space is None else tile_type(t.shape, t.dtype, space, t.view, t.memref)


def in_space(space: Memory, rule: TileRule) -> Rule:
    """`rule` with results in a fixed space."""
    return lambda c: stamp(rule(c), space)


def in_vec(rule: TileRule) -> Rule:
    """`rule` with results in Vec."""
    return in_space(Memory.VEC, rule)


def inherits(rule: TileRule) -> Rule:
    """`rule` with results in the space of the first tile operand that has one."""

    def stamped(c: CallSite) -> TileType:
        tiles = (t for t in map(type_of, c.args) if isinstance(t, TileType))
        return stamp(rule(c), next((t.memory for t in tiles if t.memory is not None), None))

    return stamped


# ---- checks that rules share -------------------------------------------------------------------------------


def require_dtype(c: CallSite, i: int, allowed: frozenset[DType]) -> None:
    """Refuse operand `i` (a tile) where its dtype is not in `allowed`."""
    dtype = c.tile(i).dtype
    if dtype not in allowed:
        names = ", ".join(d.value for d in DType if d in allowed)
        raise OpError(
            f"operand {i} ({c.name(i)}) of {c.op.name} has dtype {dtype.value}",
            f"allowed: {names}; cast it first",
        )


def require_same_dtype(c: CallSite, i: int, j: int) -> None:
    """Refuse tiles `i` and `j` of unequal dtypes."""
    a, b = c.tile(i).dtype, c.tile(j).dtype
    if a is not b:
        raise OpError(
            f"operands {i} and {j} of {c.op.name} must have one dtype, found {a.value} and {b.value}",
            "cast one of them",
        )


def require_rank(c: CallSite, i: int, rank: int) -> TileType:
    """Tile `i`, which must have exactly `rank` dims."""
    t = c.tile(i)
    if t.rank != rank:
        raise OpError(f"operand {i} ({c.name(i)}) of {c.op.name} must be a tile of rank {rank}, found {dims_text(t.shape)}")
    return t


def require_not_empty(c: CallSite, i: int) -> None:
    """Refuse tile `i` where its valid region is proved to be empty."""
    if is_empty(c.tile(i).valid):
        raise OpError(f"{c.op.name} of an empty valid region {dims_text(c.tile(i).valid)} has no value")


def constant_shape(c: CallSite, i: int) -> Dims:
    """The tuple at operand `i` as a shape: at least one dim, all constant and positive."""
    shape = c.tuple(i)
    sizes = static(shape)
    if sizes is None or not shape or min(sizes) <= 0:
        raise OpError(f"operand {i} ({c.name(i)}) of {c.op.name} must be constant positive dims, found {dims_text(shape)}")
    return shape


def optional_tuple(c: CallSite, i: int) -> Dims | None:
    """The tuple at operand `i`, or None where it is omitted or given as the empty tuple."""
    return (c.tuple(i) or None) if i < len(c) else None


def constant_int(c: CallSite, i: int) -> int:
    """The value of operand `i`, which must be an integer constant."""
    value = const_int(c.args[i])
    if value is None:
        raise OpError(f"operand {i} ({c.name(i)}) of {c.op.name} must be an integer constant")
    return value


def require_scratch(c: CallSite, i: int, source: TileType, exact: bool = False) -> None:
    """Refuse scratch tile `i` where it has another dtype or rank than `source`, or a dim that is provably too
    small (or unequal)."""
    t = c.tile(i)
    small = t.rank != source.rank or any(map(provably_gt, source.shape, t.shape))
    if t.dtype is not source.dtype or small or (exact and any(map(provably_gt, t.shape, source.shape))):
        how = "the shape" if exact else "at least the shape"
        raise OpError(
            f"scratch operand {i} ({c.name(i)}) of {c.op.name} is {kind_name(t)}",
            f"it needs {how} {dims_text(source.shape)} and dtype {source.dtype.value}",
        )


# ---- families ----------------------------------------------------------------------------------------------


def inherited_view(source: TileType, valid: Dims) -> TileView:
    """A view with the layout (blayout, slayout, pad, compact) of `source`; fractal and stride are not
    inherited (inherit_layout)."""
    v = source.effective_view
    return TileView(valid=valid, blayout=v.blayout, slayout=v.slayout, pad=v.pad, compact=v.compact)


def lifted_valid(source: TileType, shape: Dims) -> Dims:
    """The valid extents of `source` as those of a result of `shape`: dims that broadcasting adds in front are
    full."""
    return (*shape[: len(shape) - source.rank], *source.valid)


def check_scalars(c: CallSite, ints: bool = False) -> None:
    """Refuse scalar operands that tile arithmetic does not take: INDEX and BOOL, with `ints` also floats."""
    for i in range(len(c)):
        if c.op.operands[i].role is Role.SCALAR:
            d = c.dtype(i)
            if d in (DType.INDEX, DType.BOOL) or (ints and not d.is_int):
                what = "an integer" if ints else "an integer or float"
                raise OpError(
                    f"operand {i} ({c.name(i)}) of {c.op.name} has dtype {d.value}",
                    f"it must be {what}; cast the scalar",
                )


def check_cell(c: CallSite, kind: str, shape: Dims) -> None:
    """Refuse an index (operand 1) of another rank than the `kind` of `shape` that it points into, or one that
    is provably outside."""
    at = c.tuple(1)
    if len(at) != len(shape):
        raise OpError(f"{c.op.name} has {len(at)} indices for a {kind} of rank {len(shape)}")
    for i, extent in zip(at, shape, strict=True):
        if provably_negative(i) or provably_gt(add_index(i, index(1)), extent):
            raise OpError(
                f"{c.op.name} at {dims_text(at)} of a {kind} {dims_text(shape)}",
                "indices are 0 up to the extent",
            )


def elementwise(tiles: tuple[int, ...] = (0, 1), dtypes: tuple[int, ...] = (0, 1), allowed: frozenset[DType] | None = None) -> TileRule:
    """The "elt" rule of `spec/tile_ir.md` section 7: the broadcast of `tiles`, the promotion of the operands
    `dtypes`, valid region and layout of the first tile. `add([1, 64] valid [1, 64], [16, 64])` is [16, 64]
    with valid [1, 64]."""

    def rule(c: CallSite) -> TileType:
        check_scalars(c, ints=allowed is not None and not allowed & FLOATS)
        first = c.tile(tiles[0])
        shape = first.shape
        for i in tiles[1:]:
            shape = broadcast(c.op.name, shape, c.tile(i).shape)
        if allowed is not None:
            for i in tiles:
                require_dtype(c, i, allowed)
        dtype: DType | None = None
        for i in dtypes:
            t = c.type(i)
            d = t.dtype if isinstance(t, TileType) else c.dtype(i)
            dtype = d if dtype is None else promote(dtype, d)
        return tile_type(shape, dtype or first.dtype, None, inherited_view(first, lifted_valid(first, shape)))

    return rule


def same_as(i: int = 0, allowed: frozenset[DType] | None = None) -> TileRule:
    """The type of tile `i`: shape, dtype, valid region and layout."""
    return elementwise((i,), (i,), allowed)
