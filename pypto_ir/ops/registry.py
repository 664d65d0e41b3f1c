"""The op registry: one declaration per op that answers everything the system asks about it.

A declaration names the operands and their roles, the keyword arguments, the rule for the result type, what
the op computes on NumPy arrays, what it writes, and the trait that says which carriers it commutes with.
`tile.muls`, for example:

    declare_op("tile.muls", (tile("src"), scalar("s")), infer=same_as(0), trait=Trait.POINTWISE,
               meaning=pointwise(lambda a, s: a * s), shape=ShapeRule.FIRST)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, Item, MakeTuple, Var, dtype_of
from pypto_ir.stmt import Call, Literal, tuple_items
from pypto_ir.text import expr_text
from pypto_ir.types import (
    ArrayType,
    CommCtxType,
    Memory,
    PtrType,
    ScalarType,
    TensorType,
    TileType,
    TupleType,
    Type,
    UnknownType,
)  # fmt: skip

if TYPE_CHECKING:
    from pypto_ir.interp.values import Evaluation


class Trait(Enum):
    """What carriers an op commutes with."""

    POINTWISE = "pointwise"  # the result at an index depends on the data operands at that index only
    ROW_WISE = "row_wise"  # works along the last axis only
    PAGE_WISE = "page_wise"  # works within the last two axes
    WHOLE = "whole"  # works on the flat order of the tile
    VIEW = "view"  # moves no data
    STRUCTURE = "structure"  # load, store, create, full, slice, assemble, ..: has rules of its own
    OPAQUE = "opaque"  # has effects, or a meaning that rules must not look into


class Role(Enum):
    """What an operand is to its op."""

    DATA = "data"
    ROW_SCALAR = "row_scalar"  # [.., 1], one value a row
    COL_VECTOR = "col_vector"  # [1, N], one value a column
    SCRATCH = "scratch"  # content is neither read nor kept
    SCALAR = "scalar"
    INDEX = "index"  # a tuple of index expressions: offsets, shapes, valid shapes
    MEMORY = "memory"  # a tensor in global memory


class Kind(Enum):
    """What an operand may be."""

    TILE = "tile"
    TENSOR = "tensor"
    SCALAR = "scalar"
    TUPLE = "tuple"
    ANY = "any"


class ShapeRule(Enum):
    """The shape of a tile result as a function of operand shapes, for the shape facts of the rules."""

    FIRST = "first"  # that of operand 0
    SECOND = "second"  # that of operand 1 (selection against a scalar)
    BROADCAST = "broadcast"  # right-aligned broadcast of the first two tile operands
    BROADCAST_3 = "broadcast_3"  # of the first three
    BROADCAST_12 = "broadcast_12"  # of operands 1 and 2 (select)
    BROADCAST_MASK = "broadcast_mask"  # ROW_MASK of the broadcast of operands 0 and 1 (compare)
    ROW_REDUCE = "row_reduce"  # operand 0 with last dim 1
    COL_REDUCE = "col_reduce"  # operand 0 with first dim 1
    ROW_MASK = "row_mask"  # operand 0 with last dim roundup(ceil(C/8), 32)
    OTHER = "other"  # not a function of operand shapes alone


@dataclass(frozen=True, slots=True)
class Operand:
    name: str
    kind: Kind
    role: Role
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Kwarg:
    """A keyword argument. `words` are the allowed words of an enumeration; `type` is int, float, bool, str,
    an enumeration class (DType, Memory, ..), tuple for a list, or object for any value."""

    name: str
    type: type
    required: bool = False
    default: Literal = None
    words: tuple[str, ...] = ()


class OpError(Exception):
    """A type rule refuses its operands: `message` says what was found, `help` what to do instead."""

    def __init__(self, message: str, help: str | None = None, code: str = "T101") -> None:
        super().__init__(message)
        self.message, self.help, self.code = message, help, code


@dataclass(frozen=True, slots=True)
class OpDef:
    """A declared op. `writes` are the operands that it overwrites in place (the result aliases the first of
    them); `reads_memory`/`writes_memory` name the operands that are global tensors read or written; `barrier`
    ops keep their order with everything. `infer` gives the result type and raises `OpError`; `meaning` is
    None where the op has none.

    `annotated` marks a type rule that its sources do not pin down: where a program states another type, the
    program is believed. `open` ops take keyword arguments that are not listed, since their sources do not
    list them. `page_op` is the op that computes one 2-D page of the result from the pages of the operands."""

    name: str
    operands: tuple[Operand, ...]
    infer: Callable[[CallSite], Type]
    trait: Trait
    kwargs: tuple[Kwarg, ...] = ()
    meaning: Callable[[Evaluation], Any] | None = None
    shape: ShapeRule = ShapeRule.OTHER
    writes: tuple[int, ...] = ()
    aliases: int | None = None
    reads_memory: tuple[int, ...] = ()
    writes_memory: tuple[int, ...] = ()
    barrier: bool = False
    variadic: bool = False
    annotated: bool = False
    open: bool = False
    page_op: str | None = None
    doc: str = ""

    def kwarg(self, name: str) -> Kwarg | None:
        """The declaration of a keyword argument; None where the op takes no such argument."""
        found = next((k for k in self.kwargs if k.name == name), None)
        return Kwarg(name, object) if found is None and self.open else found

    @property
    def pure(self) -> bool:
        """True where the op neither writes global memory nor orders itself against other ops."""
        return not self.writes_memory and not self.barrier


class CallSite:
    """A call as a type rule sees it: typed operands by position, keyword arguments with their defaults."""

    __slots__ = ("args", "call", "op")

    def __init__(self, op: OpDef, call: Call) -> None:
        self.op, self.call, self.args = op, call, call.args

    def __len__(self) -> int:
        return len(self.args)

    def type(self, i: int) -> Type:
        """The type of operand `i`."""
        return type_of(self.args[i])

    def tile(self, i: int) -> TileType:
        """The tile type of operand `i`; raises `OpError` where it is no tile."""
        t = self.type(i)
        if not isinstance(t, TileType):
            raise OpError(f"operand {i} ({self.name(i)}) of {self.op.name} must be a tile, found {kind_name(t)}")
        return t

    def tensor(self, i: int) -> TensorType:
        """The tensor type of operand `i`; raises `OpError` where it is no tensor."""
        t = self.type(i)
        if not isinstance(t, TensorType):
            raise OpError(f"operand {i} ({self.name(i)}) of {self.op.name} must be a tensor, found {kind_name(t)}")
        return t

    def dtype(self, i: int) -> DType:
        """The scalar type of operand `i`; raises `OpError` where it is no scalar."""
        d = dtype_of(self.args[i])
        if d is None:
            raise OpError(f"operand {i} ({self.name(i)}) of {self.op.name} must be a scalar, found {kind_name(self.type(i))}")
        return d

    def tuple(self, i: int) -> tuple[Expr, ...]:
        """The elements of the literal tuple at operand `i`."""
        items = tuple_items(self.args[i])
        if items is None:
            raise OpError(f"operand {i} ({self.name(i)}) of {self.op.name} must be a literal tuple")
        return items

    def name(self, i: int) -> str:
        """The declared name of operand `i`."""
        return self.op.operands[min(i, len(self.op.operands) - 1)].name if self.op.operands else str(i)

    def kwarg(self, name: str) -> Literal:
        """The value of a keyword argument, its default where absent."""
        declared = self.op.kwarg(name)
        return self.call.kwarg(name, declared.default if declared else None)


def type_of(e: Expr) -> Type:
    """The type of an operand expression."""
    match e:
        case Var(type=t):
            return t
        case MakeTuple(items=items):
            return TupleType(tuple(type_of(i) for i in items))
        case Item(of=of, index=i):
            t = type_of(of)
            return t.items[i] if isinstance(t, TupleType) and i < len(t.items) else UnknownType()
    d = dtype_of(e)
    return ScalarType(d) if d else UnknownType()


def kind_name(t: Type) -> str:
    """A type in a few words, for messages."""
    match t:
        case TileType(shape=s, dtype=d):
            return f"a tile {dims_text(s)} of {d.value}"
        case TensorType(shape=s, dtype=d):
            return f"a tensor {dims_text(s)} of {d.value}"
        case ScalarType(dtype=d):
            return f"a scalar {d.value}"
        case TupleType():
            return "a tuple"
        case ArrayType():
            return "an array"
        case PtrType():
            return "a pointer"
        case CommCtxType():
            return "a communication context"
    return "a value of unknown type"


def dims_text(dims: tuple[Expr, ...]) -> str:
    return "[" + ", ".join(expr_text(d) for d in dims) + "]"


_OPS: dict[str, OpDef] = {}


def declare_op(name: str, operands: tuple[Operand, ...], *, infer: Callable[[CallSite], Type], trait: Trait, **rest: Any) -> OpDef:
    """Add an op to the registry; a name is declared once."""
    if name in _OPS:
        raise ValueError(f"op {name} is declared twice")
    op = _OPS[name] = OpDef(name, operands, infer, trait, **rest)
    return op


def find_op(name: str) -> OpDef | None:
    """The declaration of an op, or None where the registry does not know it."""
    _load()
    return _OPS.get(name)


def declared_op(name: str) -> OpDef:
    """The declaration of an op whose module is already loaded, for declarations that build on it."""
    return _OPS[name]


def all_ops() -> tuple[OpDef, ...]:
    """Every declared op, by name."""
    _load()
    return tuple(_OPS[name] for name in sorted(_OPS))


_loaded = False


def _load() -> None:
    global _loaded
    if not _loaded:
        _loaded = True
        import pypto_ir.ops.declarations  # noqa: F401


def tile(name: str, role: Role = Role.DATA, optional: bool = False) -> Operand:
    return Operand(name, Kind.TILE, role, optional)


def scratch(name: str = "tmp", optional: bool = False) -> Operand:
    return Operand(name, Kind.TILE, Role.SCRATCH, optional)


def tensor(name: str, optional: bool = False) -> Operand:
    return Operand(name, Kind.TENSOR, Role.MEMORY, optional)


def scalar(name: str, optional: bool = False) -> Operand:
    return Operand(name, Kind.SCALAR, Role.SCALAR, optional)


def tuple_of(name: str, optional: bool = False) -> Operand:
    return Operand(name, Kind.TUPLE, Role.INDEX, optional)


def anything(name: str, optional: bool = False) -> Operand:
    """An operand of any type whose content the op reads."""
    return Operand(name, Kind.ANY, Role.DATA, optional)


MEMORY_WORDS = tuple(m.value for m in Memory)
DTYPE_WORDS = tuple(d.value for d in DType)
