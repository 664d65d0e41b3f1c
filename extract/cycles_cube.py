"""Prices of matrix products (`spec/hardware.md` 2.1).

FP16 128 x 128 x 128 is 8 * 8 * 8 = 512 fractals: 21 + 512 = 533 cycles on M for ascend910b. Where the
operands lie in L1, each product also pays its way into L0A and L0B on MTE1: 253 + 384 cycles. Operands in
Left and Right were moved by an op of their own.
"""

from __future__ import annotations

from math import ceil

from extract.extent import Extent
from extract.moves import Cost, instruction, times, together, transfer
from extract.target import Target
from pypto_ir.dtypes import DType
from pypto_ir.types import Memory

#: op -> (index of the left operand, of the right one, of the bias or None, indices of scale operands)
_PLACES: dict[str, tuple[int, int, int | None, tuple[int, ...]]] = {
    "tile.matmul": (0, 1, None, ()),
    "tile.matmul_acc": (1, 2, None, ()),
    "tile.matmul_bias": (0, 1, 2, ()),
    "tile.gemv": (0, 1, None, ()),
    "tile.gemv_acc": (1, 2, None, ()),
    "tile.gemv_bias": (0, 1, 2, ()),
    "tile.batch_matmul": (0, 1, None, ()),
    "tile.batch_matmul_acc": (1, 2, None, ()),
    "tile.matmul_mx": (0, 2, None, (1, 3)),
    "tile.matmul_mx_acc": (1, 3, None, (2, 4)),
    "tile.matmul_mx_bias": (0, 2, 4, (1, 3)),
}
_ON_CHIP = (Memory.LEFT, Memory.RIGHT, Memory.BIAS, Memory.LEFT_SCALE, Memory.RIGHT_SCALE)


def is_product(op: str) -> bool:
    """True for the ops that this module prices."""
    return op in _PLACES


def fractals(left: Extent, right: Extent) -> int:
    """The number of 16 x (32 bytes) x 16 fractals of one page: m and k of the left operand, n of the
    right."""
    deep = int(32 / left.size)
    return ceil(left.valid_height / 16) * ceil(left.valid_cols / deep) * ceil(right.valid_cols / 16)


def product(op: str, tiles: tuple[Extent | None, ...], pages: int, target: Target) -> Cost | None:
    """The price of a product op on the extents of its operands; `pages` is the batch count of the result.

    None where the operands are no tiles. A batched op is `pages` machine instructions, each with its own
    operand traffic.
    """
    at_left, at_right, at_bias, at_scales = _PLACES[op]
    left, right = _at(tiles, at_left), _at(tiles, at_right)
    if left is None or right is None:
        return None
    cube = target.cube
    each = cube.fractal_fp32 if left.dtype is DType.FP32 else cube.fractal
    parts = [
        instruction("M", cube.fixed + each * fractals(left, right), target),
        _fetch(left, Memory.LEFT, target),
        _fetch(right, Memory.RIGHT, target),
        _fetch(_at(tiles, at_bias), Memory.BIAS, target),
    ]
    for index, to in zip(at_scales, (Memory.LEFT_SCALE, Memory.RIGHT_SCALE), strict=False):
        parts.append(_fetch(_at(tiles, index), to, target))
    return times(max(pages, 1), together(part for part in parts if part is not None))


def _at(tiles: tuple[Extent | None, ...], index: int | None) -> Extent | None:
    return tiles[index] if index is not None and index < len(tiles) else None


def _fetch(tile: Extent | None, to: Memory, target: Target) -> Cost | None:
    """The traffic of one page of an operand into its buffer; nothing where it lies there already."""
    if tile is None or tile.memory in _ON_CHIP:
        return None
    return transfer(tile.memory or Memory.MAT, to, _page(tile), target)


def _page(tile: Extent) -> Extent:
    if tile.pages == 1:
        return tile
    return Extent(
        1, tile.height, tile.cols, 1, tile.valid_height, tile.valid_cols,
        tile.size, tile.dtype, tile.memory, tile.boxed, tile.column,
    )  # fmt: skip
