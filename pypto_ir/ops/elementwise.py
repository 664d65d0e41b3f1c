"""Elementwise ops: arithmetic, scalar forms, bit ops, shifts and unary functions (`spec/tile_ir.md` section
7).

`tile.add` of [16, 64] FP32 valid [v, 64] and [16, 64] is [16, 64] FP32 valid [v, 64] in Vec: the left operand
decides valid region and layout. Ops with a `tmp` operand neither read nor keep it. Float remainders follow
their names: `fmod` has the sign of the dividend, `rem` that of the divisor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pypto_ir.dtypes import DType
from pypto_ir.interp.values import Evaluation, Tile
from pypto_ir.lazy import np
from pypto_ir.linear import all_provably_equal, provably_negative
from pypto_ir.ops.numeric import divide, pointwise, rounded, working
from pypto_ir.ops.registry import (
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
from pypto_ir.ops.rules import INTS, TileRule, elementwise, in_vec, require_same_dtype, same_as
from pypto_ir.types import TileType

HIGH_PRECISION = (Kwarg("high_precision", bool),)
_DIVISIBLE: frozenset[DType] = frozenset({DType.INT16, DType.INT32, DType.FP16, DType.FP32})
_HALF_OR_SINGLE: frozenset[DType] = frozenset({DType.FP16, DType.FP32})
_SINGLE: frozenset[DType] = frozenset({DType.FP32})
_WORDS: frozenset[DType] = frozenset({DType.INT16, DType.UINT16})
_SUBTRACTABLE: frozenset[DType] = frozenset({DType.INT8, DType.INT16, DType.INT32, DType.FP16, DType.FP32, DType.BF16})


def _same_region(c: CallSite, i: int, j: int) -> None:
    """Refuse tiles whose shapes or valid regions are not proved to be equal."""
    a, b = c.tile(i), c.tile(j)
    for what, x, y in (("shapes", a.shape, b.shape), ("valid regions", a.valid, b.valid)):
        if not all_provably_equal(x, y):
            raise OpError(
                f"{c.op.name} needs equal {what}, found {dims_text(x)} and {dims_text(y)}",
                "it does not broadcast",
            )


def _exact(allowed: frozenset[DType]) -> TileRule:
    rule = elementwise(allowed=allowed)

    def exact(c: CallSite) -> TileType:
        require_same_dtype(c, 0, 1)
        _same_region(c, 0, 1)
        return rule(c)

    return exact


def _shift_by_scalar(c: CallSite) -> TileType:
    if provably_negative(c.args[1]):
        raise OpError(f"{c.op.name} shifts by a negative amount", "the amount must be 0 or more")
    return same_as(0, INTS)(c)


def _pointwise(name: str, operands: tuple[Any, ...], rule: TileRule, fn: Callable[..., Any], **rest: Any) -> None:
    shape = rest.pop("shape", ShapeRule.FIRST)
    declare_op(
        f"tile.{name}",
        operands,
        infer=in_vec(rule),
        trait=Trait.POINTWISE,
        meaning=pointwise(fn),
        shape=shape,
        **rest,
    )


def _part(fn: Callable[[Any, Any], Any]) -> Callable[[Evaluation], Tile]:
    """Both cells valid: `fn`; one: that cell; none: 0. A valid cell that is undefined makes the result
    undefined."""

    def meaning(ev: Evaluation) -> Tile:
        assert ev.dtype is not None
        a, b = ev.tile(0), ev.tile(1)
        inside = [np.broadcast_to(_inside(t), ev.shape) for t in (a, b)]
        x, y = (np.broadcast_to(working(t.data, ev.dtype), ev.shape) for t in (a, b))
        with np.errstate(all="ignore"):
            both = fn(x, y)
        data = np.where(inside[0] & inside[1], both, np.where(inside[0], x, np.where(inside[1], y, 0)))
        return ev.fresh(rounded(data, ev.dtype), (a.ok | ~_inside(a)) & (b.ok | ~_inside(b)))

    return meaning


def _inside(t: Tile) -> Any:
    mask = np.zeros(t.shape, dtype=bool)
    mask[tuple(slice(0, v) for v in t.valid)] = True
    return mask


Fn: TypeAlias = Callable[..., Any]
Allowed: TypeAlias = frozenset[DType] | None

PAIR = (tile("lhs"), tile("rhs"))
WITH_SCALAR = (tile("src"), scalar("s"))
BROADCAST = ShapeRule.BROADCAST
_TMP = scratch()

#: of two tiles
_BINARY: tuple[tuple[str, Fn, Allowed], ...] = (
    ("add", lambda a, b: a + b, None),
    ("sub", lambda a, b: a - b, None),
    ("mul", lambda a, b: a * b, None),
    ("maximum", lambda a, b: np.maximum(a, b), None),
    ("minimum", lambda a, b: np.minimum(a, b), None),
    ("fmod", lambda a, b: np.fmod(a, b), None),
    ("and", lambda a, b: a & b, INTS),
    ("or", lambda a, b: a | b, INTS),
)
#: of a tile and a scalar; the result has the tile's dtype
_SCALAR: tuple[tuple[str, Fn, Allowed], ...] = (
    ("adds", lambda a, s: a + s, None),
    ("subs", lambda a, s: a - s, _SUBTRACTABLE),
    ("muls", lambda a, s: a * s, None),
    ("divs", divide, None),
    ("maximums", lambda a, s: np.maximum(a, s), None),
    ("minimums", lambda a, s: np.minimum(a, s), None),
    ("fmods", lambda a, s: np.fmod(a, s), None),
    ("lrelu", lambda a, s: np.where(a > 0, a, a * s), None),
    ("ands", lambda a, s: a & s, INTS),
    ("ors", lambda a, s: a | s, INTS),
)
#: shifts of a tile by a tile and, with an `s`, by a scalar: right shifts are arithmetic for signed, logical
#: for unsigned types, an amount of the width or more shifts everything out
_SHIFTS: tuple[tuple[str, Fn], ...] = (("shl", lambda a, b: a << b), ("shr", lambda a, b: a >> b))
#: of three operands: `c` of tiles, `sc` with a scalar in the middle
_TERNARY: tuple[tuple[str, Fn], ...] = (
    ("add", lambda a, b, c: a + b + c),
    ("sub", lambda a, b, c: a - b - c),
)
#: of one tile
_UNARY: tuple[tuple[str, Fn, Allowed, tuple[Kwarg, ...]], ...] = (
    ("neg", lambda a: np.negative(a), None, ()),
    ("exp", lambda a: np.exp(a), None, ()),
    ("recip", lambda a: 1 / a, None, HIGH_PRECISION),
    ("sqrt", lambda a: np.sqrt(a), None, ()),
    ("abs", lambda a: np.abs(a), None, ()),
    ("relu", lambda a: np.maximum(a, 0), None, ()),
    ("log", lambda a: np.log(a), _HALF_OR_SINGLE, HIGH_PRECISION),
    ("sin", lambda a: np.sin(a), _SINGLE, ()),
    ("cos", lambda a: np.cos(a), _SINGLE, ()),
    ("not", lambda a: ~a, _WORDS, ()),
)
#: of the valid cells of two tiles
_PARTS: tuple[tuple[str, Fn], ...] = (
    ("add", lambda a, b: a + b),
    ("mul", lambda a, b: a * b),
    ("max", lambda a, b: np.maximum(a, b)),
    ("min", lambda a, b: np.minimum(a, b)),
)


def _declare_all() -> None:
    for name, fn, allowed in _BINARY:
        _pointwise(name, PAIR, elementwise(allowed=allowed), fn, shape=BROADCAST)
    for name, fn, allowed in _SCALAR:
        _pointwise(name, WITH_SCALAR, same_as(0, allowed), fn)
    for name, fn in _SHIFTS:
        _pointwise(name, PAIR, elementwise((0, 1), (0,), INTS), fn, shape=BROADCAST)
        _pointwise(name + "s", WITH_SCALAR, _shift_by_scalar, fn)
    tiles, mixed = (tile("a"), tile("b"), tile("c")), (tile("a"), scalar("s"), tile("c"))
    for name, fn in _TERNARY:
        _pointwise(name + "c", tiles, elementwise((0, 1, 2), (0, 1, 2)), fn, shape=ShapeRule.BROADCAST_3)
        _pointwise(name + "sc", mixed, elementwise((0, 2), (0, 1, 2)), fn, shape=BROADCAST)
    for name, fn, allowed, kwargs in _UNARY:
        _pointwise(name, (tile("src"),), same_as(0, allowed), fn, kwargs=kwargs)
    for name, fn in _PARTS:
        rule = in_vec(elementwise())
        part = _part(fn)
        declare_op(f"tile.part_{name}", PAIR, infer=rule, trait=Trait.POINTWISE, meaning=part, shape=BROADCAST)


_declare_all()
_pointwise("div", PAIR, _exact(_DIVISIBLE), divide, kwargs=HIGH_PRECISION, shape=BROADCAST)
_pointwise("xor", (*PAIR, _TMP), elementwise(allowed=INTS), lambda a, b: a ^ b, shape=BROADCAST)
_pointwise("xors", (*WITH_SCALAR, _TMP), same_as(0, INTS), lambda a, s: a ^ s)
_pointwise("rem", (*PAIR, _TMP), elementwise(), lambda a, b: np.mod(a, b), shape=BROADCAST)
_pointwise("rems", (*WITH_SCALAR, _TMP), elementwise((0,), (0, 1, 2)), lambda a, s: np.mod(a, s))
_slope = (tile("src"), tile("slope"), _TMP)
_pointwise("prelu", _slope, _exact(_HALF_OR_SINGLE), lambda a, b: np.where(a > 0, a, a * b))
_pointwise("rsqrt", (tile("src"), scratch(optional=True)), same_as(0), lambda a: 1 / np.sqrt(a))
