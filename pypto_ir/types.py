"""Types in canonical form: what a tile, a tensor or a scalar is (`spec/tile_ir.md` section 2).

A tile type that says only what its shape and memory space imply carries no view:
`tile([64, 64], FP32, Mat)` and the same with `blayout=col_major, slayout=row_major, fractal=512` are one type, and both compare
equal. Always build tiles with `tile_type` and tensors with `tensor_type`; they canonicalise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property
from typing import TypeAlias

from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, Var, const_int, index

Dims: TypeAlias = tuple[Expr, ...]


class Memory(Enum):
    """A memory space; the value is its printed name."""

    DDR = "DDR"
    VEC = "Vec"
    MAT = "Mat"
    LEFT = "Left"
    RIGHT = "Right"
    ACC = "Acc"
    BIAS = "Bias"
    SCALAR_LOCAL = "ScalarLocal"
    LEFT_SCALE = "LeftScale"
    RIGHT_SCALE = "RightScale"

    __hash__ = object.__hash__  # as of `DType`


class Layout(Enum):
    """Layout of a tensor in global memory."""

    ND = "ND"
    DN = "DN"
    NZ = "NZ"
    MX_A_ZZ = "MX_A_ZZ"
    MX_B_NN = "MX_B_NN"


class TileLayout(Enum):
    """Order of boxes in a tile (blayout) or of elements in a box (slayout)."""

    NONE_BOX = "none_box"
    ROW_MAJOR = "row_major"
    COL_MAJOR = "col_major"


class Pad(Enum):
    NULL = "null"
    ZERO = "zero"
    MAX = "max"
    MIN = "min"


class Compact(Enum):
    NULL = "null"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class MemRef:
    """A named on-chip or global buffer; offset and size in bytes."""

    base: str
    pinned: bool = False
    offset: Expr | None = None
    size: int | None = None
    slots: int | None = None
    slot: Expr | None = None


@dataclass(frozen=True, slots=True)
class TensorView:
    """How a tensor lies in global memory; empty `stride` means packed for the layout, empty `valid` means fully valid."""

    stride: Dims = ()
    layout: Layout = Layout.ND
    valid: Dims = ()
    pad: Pad = Pad.NULL


@dataclass(frozen=True, slots=True)
class TileView:
    """How a tile lies in its memory; empty `valid` means fully valid, `fractal` is the box size in bytes."""

    valid: Dims = ()
    stride: Dims = ()
    start_offset: Expr | None = None
    blayout: TileLayout = TileLayout.ROW_MAJOR
    slayout: TileLayout = TileLayout.NONE_BOX
    fractal: int = 512
    pad: Pad = Pad.NULL
    compact: Compact = Compact.NULL


@dataclass(frozen=True, slots=True)
class ScalarType:
    dtype: DType


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor in global memory; `view` is absent where it is packed ND, fully valid and unpadded."""

    shape: Dims
    dtype: DType
    view: TensorView | None = None
    distributed: bool = False
    memref: MemRef | None = None

    @property
    def layout(self) -> Layout:
        return self.view.layout if self.view else Layout.ND

    @property
    def valid(self) -> Dims:
        """The valid extents, the shape where fully valid."""
        return self.view.valid if self.view and self.view.valid else self.shape

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True)
class TileType:
    """An on-chip tile; `view` is absent where (shape, memory) imply it. What is asked of it again and again is kept."""

    shape: Dims
    dtype: DType
    memory: Memory | None = None
    view: TileView | None = None
    memref: MemRef | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @cached_property
    def effective_view(self) -> TileView:
        """The view with defaults filled in; its `valid` is never empty."""
        view = self.view or implicit_view(self.shape, self.memory)
        return view if view.valid else replace(view, valid=self.shape)

    @property
    def valid(self) -> Dims:
        """The valid extents, the shape where fully valid."""
        return self.view.valid if self.view and self.view.valid else self.shape

    @cached_property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape as integers, or None where a dim is not constant."""
        dims = tuple(const_int(d) for d in self.shape)
        return None if None in dims else dims  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class TupleType:
    items: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A scalar-local array of `extent` elements."""

    extent: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class PtrType:
    pass


@dataclass(frozen=True, slots=True)
class CommCtxType:
    pass


@dataclass(frozen=True, slots=True)
class UnknownType:
    pass


Type: TypeAlias = ScalarType | TensorType | TileType | TupleType | ArrayType | PtrType | CommCtxType | UnknownType

INDEX = ScalarType(DType.INDEX)
BOOL = ScalarType(DType.BOOL)


def dims(*values: int | Expr) -> Dims:
    """A dims tuple from integers and expressions."""
    return tuple(index(v) if isinstance(v, int) else v for v in values)


def same_dim(a: Expr, b: Expr) -> bool:
    """Equality of extents: constants by value whatever their dtype, everything else by structure."""
    x, y = const_int(a), const_int(b)
    return x == y if x is not None and y is not None else a == b


def same_dims(a: Dims, b: Dims) -> bool:
    return len(a) == len(b) and all(map(same_dim, a, b))


_BOXED = {
    Memory.MAT: (TileLayout.COL_MAJOR, TileLayout.ROW_MAJOR, 512),
    Memory.LEFT: (TileLayout.COL_MAJOR, TileLayout.ROW_MAJOR, 512),
    Memory.ACC: (TileLayout.COL_MAJOR, TileLayout.ROW_MAJOR, 1024),
    Memory.LEFT_SCALE: (TileLayout.ROW_MAJOR, TileLayout.ROW_MAJOR, 32),
    Memory.RIGHT_SCALE: (TileLayout.COL_MAJOR, TileLayout.COL_MAJOR, 32),
}


def implicit_view(shape: Dims, memory: Memory | None) -> TileView:
    """The view that an absent tile view stands for (`spec/tile_ir.md` section 2, table)."""
    rows, cols = (const_int(shape[0]), const_int(shape[1])) if len(shape) == 2 else (None, None)
    return _implied(memory, cols == 1 and rows is not None and rows > 1)


@cache
def _implied(memory: Memory | None, column: bool) -> TileView:
    if memory in _BOXED:
        blayout, slayout, fractal = _BOXED[memory]
        return TileView(blayout=blayout, slayout=slayout, fractal=fractal)
    blayout = TileLayout.COL_MAJOR if column else TileLayout.ROW_MAJOR
    slayout = TileLayout.COL_MAJOR if memory is Memory.RIGHT else TileLayout.NONE_BOX
    return TileView(blayout=blayout, slayout=slayout)


def is_boxed(memory: Memory | None) -> bool:
    """True for spaces whose tiles are made of boxes unless a view says otherwise."""
    return memory in _BOXED or memory is Memory.RIGHT


def tile_type(
    shape: Dims,
    dtype: DType,
    memory: Memory | None = None,
    view: TileView | None = None,
    memref: MemRef | None = None,
) -> TileType:
    """A canonical tile type: a full valid shape is cleared, a view that (shape, memory) imply is dropped."""
    if view is not None:
        if view.valid and same_dims(view.valid, shape):
            view = replace(view, valid=())
        if view == implicit_view(shape, memory):
            view = None
    return TileType(shape, dtype, memory, view, memref)


def tensor_type(
    shape: Dims,
    dtype: DType,
    view: TensorView | None = None,
    distributed: bool = False,
    memref: MemRef | None = None,
) -> TensorType:
    """A canonical tensor type: a full valid shape is cleared, an empty ND view is dropped."""
    if view is not None:
        if view.valid and same_dims(view.valid, shape):
            view = replace(view, valid=())
        if view == TensorView():
            view = None
    return TensorType(shape, dtype, view, distributed, memref)


def with_valid(t: TileType, valid: Dims) -> TileType:
    """`t` with another valid region, canonical again."""
    return tile_type(t.shape, t.dtype, t.memory, replace(t.effective_view, valid=valid), t.memref)


def type_exprs(t: Type) -> tuple[Expr, ...]:
    """Every expression inside a type (dims, valid extents, strides, offsets), for walks over uses."""
    match t:
        case TensorType(shape=shape, view=view, memref=ref):
            parts: Dims = (*shape, *((*view.stride, *view.valid) if view else ()))
        case TileType(shape=shape, view=view, memref=ref):
            parts = (*shape, *((*view.valid, *view.stride) if view else ()))
            if view and view.start_offset is not None:
                parts = (*parts, view.start_offset)
        case TupleType(items=items):
            return tuple(e for item in items for e in type_exprs(item))
        case _:
            return ()
    refs = tuple(e for e in (ref.offset, ref.slot) if e is not None) if ref else ()
    return (*parts, *refs)


def is_constant(e: Expr) -> bool:
    return isinstance(e, Const)


def scalar_var(name: str, dtype: DType = DType.INDEX) -> Var:
    return Var(name, ScalarType(dtype))
