"""MX scale tensors: logical matrices whose bytes lie in boxes of 16 x 2 (`spec/mx.md` section 2).

    MX_A_ZZ [64, 4]  ->  [1, 4, 2, 16, 2]     block axis 0 (16 rows), group axis 1 (2 groups of K)
    MX_B_NN [4, 64]  ->  [1, 4, 2, 16, 2]     block axis 1, group axis 0

The blocked shape is the packed memory row by row: scale (37, 3) of A and (3, 37) of B both lie at byte
`((37 // 16) * 2 + 3 // 2) * 32 + (37 % 16) * 2 + 3 % 2 = 171`. A logical shape is a label over these bytes.
"""

from __future__ import annotations

from typing import TypeGuard, TypeVar

from pypto_ir.expr import const_int
from pypto_ir.regions import static
from pypto_ir.types import Dims, Layout, TensorType, TileLayout, TileType, Type

T = TypeVar("T")

#: cells of a box along the block axis and along the group axis: 32 bytes of FP8E8M0
BOX = (16, 2)
#: rank of a blocked tensor: a unit, blocks, pairs of groups, and the box
BLOCKED_RANK = 5
#: bytes of a box, the fractal of scale tiles
FRACTAL = 32
#: the layouts of scales, and the order of boxes and of cells in a box in the tiles that are loaded from them
MX_LAYOUTS = {Layout.MX_A_ZZ: TileLayout.ROW_MAJOR, Layout.MX_B_NN: TileLayout.COL_MAJOR}
AXES = ("block", "group")


def is_mx(t: Type | None) -> TypeGuard[TensorType]:
    """True for tensors of MX scales, logical or blocked."""
    return isinstance(t, TensorType) and t.layout in MX_LAYOUTS


def is_blocked(t: Type | None) -> TypeGuard[TensorType]:
    """True for tensors of MX scales in their physical form [1, blocks, pairs, 16, 2]."""
    return is_mx(t) and len(t.shape) == BLOCKED_RANK and _boxed(t.shape)


def _boxed(shape: Dims) -> bool:
    return const_int(shape[0]) == 1 and tuple(map(const_int, shape[3:])) == BOX


def by_axis(layout: Layout, pair: tuple[T, T]) -> tuple[T, T]:
    """What belongs to the block axis, then what belongs to the group axis, of a pair in logical order; the same call leads back."""
    return pair if layout is Layout.MX_A_ZZ else (pair[1], pair[0])


def blocked_shape(layout: Layout, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The physical shape of a logical one, None where it is not made of whole boxes: [64, 4] of A is (1, 4, 2, 16, 2)."""
    if layout not in MX_LAYOUTS or len(shape) != 2:
        return None
    sizes = by_axis(layout, (shape[0], shape[1]))
    if any(n <= 0 or n % box for n, box in zip(sizes, BOX, strict=True)):
        return None
    return (1, sizes[0] // BOX[0], sizes[1] // BOX[1], *BOX)


def logical_shape(layout: Layout, shape: tuple[int, ...]) -> tuple[int, int]:
    """The logical shape of a blocked one: (1, 4, 2, 16, 2) of A is (64, 4)."""
    return by_axis(layout, (shape[1] * BOX[0], shape[2] * BOX[1]))


def strides(layout: Layout, shape: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """For each axis of a logical shape of whole boxes: cells of a box along it, and the distance in bytes between boxes and between
    cells of a box. A [64, 4]: ((16, 64, 2), (2, 32, 1))."""
    groups = by_axis(layout, (shape[0], shape[1]))[1]
    row = groups // BOX[1] * FRACTAL
    return by_axis(layout, ((BOX[0], row, BOX[1]), (BOX[1], FRACTAL, 1)))


def same_memory(a: TensorType, b: TensorType) -> bool:
    """True where one of two tensors of one layout is the blocked form of the other."""
    if a.layout is not b.layout or a.dtype is not b.dtype:
        return False
    x, y = static(a.shape), static(b.shape)
    return x is not None and y is not None and (blocked_shape(a.layout, x) == y or blocked_shape(a.layout, y) == x)


def is_scale_tile(t: Type, layout: Layout) -> bool:
    """True for tiles whose boxes lie as those of a tensor of `layout`: ZZ for A, NN for B, 32 bytes each."""
    if not isinstance(t, TileType):
        return False
    view, order = t.effective_view, MX_LAYOUTS[layout]
    return (view.blayout, view.slayout, view.fractal) == (order, order, FRACTAL)
