"""Scalar expressions and the tuples built of them.

Expressions are trees that keep their shape: `k0 * 32 + 0` stays as written. Two variables are equal when their names are, since a
name is defined once in a function; a variable carries its type for convenience only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pypto_ir.dtypes import DType, promote_scalar

if TYPE_CHECKING:
    from pypto_ir.types import Type


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A typed constant; `value` is bool for BOOL, float for float types, int otherwise.

    Equality is that of bits: 0.0 and -0.0 differ, a NaN equals a NaN.
    """

    value: int | float | bool
    dtype: DType = DType.INDEX

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const):
            return NotImplemented
        return self.dtype is other.dtype and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash((self.value, self.dtype)) if self.value == self.value else hash(self.dtype)


@dataclass(frozen=True, slots=True)
class Var:
    """A use (or the definition) of a named value."""

    name: str
    type: Type = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """`op` is one of neg, abs, not, bitnot."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Cast:
    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Binary:
    """`op` is a key of `BINARY_OPS`; both operands have the same type unless an explicit cast says otherwise."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class MakeTuple:
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """Element `index` of a tuple value."""

    of: Expr
    index: int


Expr: TypeAlias = Const | Var | Unary | Cast | Binary | MakeTuple | Item

#: operator name -> Python spelling; `min` and `max` are spelled as calls
BINARY_OPS: dict[str, str] = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**",
    "min": "min", "max": "max",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "and": "and", "or": "or", "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
LOGICAL = frozenset({"and", "or"})


def index(value: int) -> Const:
    """An INDEX constant."""
    return Const(value, DType.INDEX)


def const_int(e: Expr) -> int | None:
    """The value of an integer constant, else None."""
    return int(e.value) if isinstance(e, Const) and not e.dtype.is_float and e.dtype is not DType.BOOL else None


def dtype_of(e: Expr) -> DType | None:
    """The scalar type of an expression, or None where it is not scalar or its operands do not mix."""
    match e:
        case Const(dtype=d):
            return d
        case Var(type=t):
            return getattr(t, "dtype", None) if type(t).__name__ == "ScalarType" else None
        case Cast(dtype=d):
            return d
        case Unary(op=op, operand=a):
            return DType.BOOL if op == "not" else dtype_of(a)
        case Binary(op=op, left=a, right=b):
            if op in COMPARISONS or op in LOGICAL:
                return DType.BOOL
            left, right = dtype_of(a), dtype_of(b)
            return promote_scalar(left, right) if left and right else None
        case Item(of=Var(type=t), index=i):
            items = getattr(t, "items", ())
            return getattr(items[i], "dtype", None) if i < len(items) else None
    return None


def children(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Unary(operand=a) | Cast(operand=a) | Item(of=a):
            return (a,)
        case Binary(left=a, right=b):
            return (a, b)
        case MakeTuple(items=items):
            return items
    return ()


def rebuild(e: Expr, parts: tuple[Expr, ...]) -> Expr:
    """`e` with its children replaced; the same object where nothing changed."""
    if all(a is b for a, b in zip(children(e), parts, strict=True)):
        return e
    match e:
        case Unary(op=op):
            return Unary(op, parts[0])
        case Cast(dtype=d):
            return Cast(parts[0], d)
        case Item(index=i):
            return Item(parts[0], i)
        case Binary(op=op):
            return Binary(op, parts[0], parts[1])
        case MakeTuple():
            return MakeTuple(parts)
    return e


def transform(e: Expr, leaf: Callable[[Var], Expr]) -> Expr:
    """`e` with every variable replaced by `leaf(variable)`."""
    if isinstance(e, Var):
        return leaf(e)
    parts = children(e)
    return rebuild(e, tuple(transform(p, leaf) for p in parts)) if parts else e


def substitute(e: Expr, by: Mapping[str, Expr]) -> Expr:
    """`e` with variables replaced by name; the same object where none occurs."""
    return transform(e, lambda v: by.get(v.name, v)) if by else e


def variables(e: Expr) -> Sequence[Var]:
    """Every variable use in `e`, left to right, repeats included."""
    if isinstance(e, Var):
        return (e,)
    if isinstance(e, Const):
        return ()
    found: list[Var] = []
    stack: list[Expr] = [e]
    while stack:
        node = stack.pop()
        if isinstance(node, Var):
            found.append(node)
        elif not isinstance(node, Const):
            stack.extend(reversed(children(node)))
    return found
