"""The partition window of a store: the box of an N-D tensor that a flat tile fills.

A flat store writes R consecutive row-major rows from its offsets. A box equals such a run only if every axis
that it consumes is consumed whole and from 0, except the outermost one: 8 rows at [1, 0, 0] of [4, 4, 8] are
the box [2, 4, 8], 6 rows at [0, 2, 0] are no box.

Source: `spec/flatten.md` section 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pypto_ir.expr import Binary, const_int, index
from pypto_ir.linear import provably_gt, provably_negative
from pypto_ir.text import expr_text
from pypto_ir.types import Dims


@dataclass(frozen=True, slots=True)
class NoWindow:
    """A store has no partition window; `reason` says why, `cause` in one word: negative, outside (the aligned box leaves the tensor),
    dynamic, columns (too many), rows (too many for an axis), whole (an axis is not filled a whole number of times), start (a filled axis
    does not start at 0), leading (rows are left)."""

    reason: str
    cause: str = "outside"


def partition_window(valid: Dims, tensor_dims: Dims, offsets: Dims) -> Dims | NoWindow:
    """The box of a tensor that a flat store of a tile fills, or why there is none (`spec/flatten.md` 4.1).

    `valid` are the valid extents of the tile before flattening (rank at most the tensor's). [6, 8] at the
    origin of [2, 3, 8] gives [2, 3, 8]; [8, 8] at [1, 0, 0] of [4, 4, 8] gives [2, 4, 8]. Other than the
    text, offsets that are known to leave the tensor are refused also where the aligned box fits. Raises
    `ValueError` for ranks that do not go together.
    """
    n = len(tensor_dims)
    if not valid or len(valid) > n or len(offsets) != n:
        raise ValueError(f"a rank-{len(valid)} tile and {len(offsets)} offsets do not fit a tensor of rank {n}")
    for i, offset in enumerate(offsets):
        if provably_negative(offset):
            return NoWindow(f"starts at the negative offset {expr_text(offset)} of axis {i}", "negative")
    aligned = (*(index(1) for _ in range(n - len(valid))), *valid)
    sizes = [(const_int(a), const_int(d)) for a, d in zip(aligned, tensor_dims, strict=True)]
    if all(a is None or d is None or a <= d for a, d in sizes):
        return _checked_bounds(aligned, tensor_dims, offsets)
    extents = [c for c in map(const_int, valid) if c is not None]
    if len(extents) < len(valid):
        return NoWindow("only part of the tile is valid by a dynamic extent, so its rows cannot be laid over several axes", "dynamic")
    return _distribute(prod(extents[:-1]), extents[-1], tensor_dims, offsets)


def _checked_bounds(window: Dims, dims: Dims, offsets: Dims) -> Dims | NoWindow:
    for i, (size, extent, offset) in enumerate(zip(window, dims, offsets, strict=True)):
        if provably_gt(Binary("add", offset, size), extent):
            return NoWindow(
                f"writes {expr_text(size)} elements at offset {expr_text(offset)} of axis {i} whose extent "
                f"is {expr_text(extent)}; "
                "the write runs past the tensor"
            )
    return window


def _distribute(rows: int, columns: int, dims: Dims, offsets: Dims) -> Dims | NoWindow:
    """Step B: lay `rows` over the axes from the innermost row axis outwards."""
    n = len(dims)
    last, start = const_int(dims[-1]), const_int(offsets[-1])
    if last is not None and start is not None and start + columns > last:
        return NoWindow(
            f"writes {columns} columns at offset {start} of an axis whose extent is {last}; the write runs past the tensor", "columns"
        )
    window, left = [1] * n, rows
    window[-1] = columns
    for i in range(n - 2, -1, -1):
        extent, offset = const_int(dims[i]), const_int(offsets[i])
        if extent is None:
            return NoWindow(f"axis {i} has the dynamic extent {expr_text(dims[i])}, so {left} rows cannot be laid over it", "dynamic")
        if left <= extent:
            if offset is not None and offset + left > extent:
                return NoWindow(
                    f"writes {left} rows at offset {offset} of axis {i} (extent {extent}); the write runs past the tensor", "rows"
                )
            window[i] = left
            return _checked_bounds(tuple(index(w) for w in window), dims, offsets)
        if extent <= 0 or left % extent:
            return NoWindow(
                f"cannot lower a {rows}x{columns} tile into this tensor: its rows span several axes, so they "
                f"must fill axis {i} "
                f"(extent {extent}) a whole number of times, but {left} rows remain; store one whole axis at "
                "a time (loop), or "
                "reshape the destination",
                "whole",
            )
        if offset != 0:
            return NoWindow(
                f"fills axis {i} (extent {extent}) completely, so it must start at offset 0, but starts at "
                f"{expr_text(offsets[i])}; the rows would be a non-contiguous run",
                "start",
            )
        window[i] = extent
        left //= extent
    return NoWindow(f"the leading axes hold only {rows // left} rows; the write runs past the tensor", "leading")
