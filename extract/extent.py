"""The extents of a tile as prices see them: rows and columns, valid and physical, and bytes.

A tile of rank above 2 counts its leading dims as rows: [2, 3, 4] of FP32 is 6 rows of 4 columns, 96 bytes,
and costs what its flat form [6, 4] does. A dynamic valid extent counts as the physical one, since that is
what the buffer can hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, const_int
from pypto_ir.types import Dims, Memory, TileLayout, TileType

#: what a dimension that is no constant counts as where the physical extent itself is unknown
UNKNOWN_EXTENT = 16


@dataclass(frozen=True, slots=True)
class Extent:
    """A tile in numbers: `pages` of `height` x `cols` elements, of which `pages * valid_height` rows and
    `valid_cols` columns are valid; `size` bytes an element."""

    pages: int
    height: int
    cols: int
    valid_pages: int
    valid_height: int
    valid_cols: int
    size: float
    dtype: DType
    memory: Memory | None
    boxed: bool
    column: bool

    @property
    def rows(self) -> int:
        return self.pages * self.height

    @property
    def valid_rows(self) -> int:
        return self.valid_pages * self.valid_height

    @property
    def strided(self) -> bool:
        """True where the valid cells are not one run of the buffer."""
        return self.valid_cols < self.cols and self.valid_rows > 1

    @property
    def valid_bytes(self) -> int:
        return ceil(self.valid_rows * self.valid_cols * self.size)

    @property
    def row_bytes(self) -> float:
        """Bytes of the valid part of a row."""
        return self.valid_cols * self.size

    @property
    def elements(self) -> int:
        return self.rows * self.cols


def element_bytes(dtype: DType) -> float:
    """Bytes of an element in a buffer: half a byte for 4-bit types, a byte for BOOL."""
    return 1.0 if dtype is DType.BOOL else dtype.bits / 8


def extent(tile: TileType) -> Extent:
    """The extents of a tile of any rank."""
    shape = tuple(_size(d, UNKNOWN_EXTENT) for d in tile.shape) or (1,)
    valid = _clipped(tile.valid, shape)
    view = tile.effective_view
    plain = view.slayout is TileLayout.NONE_BOX
    column = plain and (shape[-1] == 1 or (view.blayout is TileLayout.COL_MAJOR and len(shape) == 2))
    return Extent(
        pages=prod(shape[:-2]),
        height=shape[-2] if len(shape) > 1 else 1,
        cols=shape[-1],
        valid_pages=prod(valid[:-2]),
        valid_height=valid[-2] if len(valid) > 1 else 1,
        valid_cols=valid[-1],
        size=element_bytes(tile.dtype),
        dtype=tile.dtype,
        memory=tile.memory,
        boxed=not plain,
        column=column,
    )


def _clipped(valid: Dims, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(valid) != len(shape):
        return shape
    return tuple(min(_size(v, s), s) for v, s in zip(valid, shape, strict=True))


def _size(dim: Expr, otherwise: int) -> int:
    value = const_int(dim)
    return max(value, 0) if value is not None else otherwise
