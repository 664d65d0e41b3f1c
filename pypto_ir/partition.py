"""The partition window of a store: the box of an N-D tensor that a flat tile fills.

A flat store writes R consecutive row-major rows from its offsets. A box equals such a run only if every axis
that it consumes is consumed whole and from 0, except the outermost one: 8 rows at [1, 0, 0] of [4, 4, 8] are
the box [2, 4, 8], 6 rows at [0, 2, 0] are no box. They are two: [1, 2, 8] at [0, 2, 0], and
[1, 4, 8] at [1, 0, 0] for the rows from 2 on.

Source: `spec/flatten.md` sections 4.1 and 14 (L8).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pypto_ir.expr import Binary, const_int, index
from pypto_ir.linear import normalize, provably_gt, provably_negative
from pypto_ir.text import expr_text
from pypto_ir.types import Dims


@dataclass(frozen=True, slots=True)
class NoWindow:
    """A store has no partition window; `reason` says why, `cause` in one word: negative, outside (the aligned box leaves the tensor),
    dynamic, columns (too many), rows (too many for an axis), whole (an axis is not filled a whole number of times), start (a filled axis
    does not start at 0), leading (rows are left)."""

    reason: str
    cause: str = "outside"


#: why a run of rows is no box, where it may be several
RUNS = frozenset({"whole", "start", "rows", "dynamic"})


@dataclass(frozen=True, slots=True)
class RowBox:
    """Rows `first` to `first + rows - 1` of a flat tile, and the box of the tensor that they fill, at `offsets`."""

    first: int
    rows: int
    offsets: Dims
    window: Dims


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


def is_row_run(valid: Dims, tensor_dims: Dims, offsets: Dims) -> bool:
    """True where the rows of a flat tile go one after another over axes of the tensor without filling one box, and stay inside it as
    far as that is known: 12 rows at the origin of [2, 2, 4, 8], not 24."""
    found = partition_window(valid, tensor_dims, offsets)
    rows = _rows(valid)
    if not isinstance(found, NoWindow) or found.cause not in RUNS or rows is None:
        return False
    if provably_gt(Binary("add", offsets[-1], valid[-1]), tensor_dims[-1]):
        return False
    if any(provably_gt(Binary("add", o, index(1)), d) for o, d in zip(offsets[1:-1], tensor_dims[1:-1], strict=True)):
        return False
    first, total = offsets[0], tensor_dims[0]
    for offset, extent in zip(offsets[1:-1], tensor_dims[1:-1], strict=True):
        first, total = Binary("add", Binary("mul", first, extent), offset), Binary("mul", total, extent)
    return not provably_gt(normalize(Binary("add", first, index(rows))), normalize(total))


def row_boxes(valid: Dims, tensor_dims: Dims, offsets: Dims) -> tuple[RowBox, ...] | None:
    """The boxes that a run of rows (`is_row_run`) fills, each as large as it can be; None where an axis that it may cross has no
    constant extent, or it starts at no constant place of one. The columns and the outermost offset may be dynamic."""
    rows, inner, starts = _rows(valid), _constants(tensor_dims[1:-1]), _constants(offsets[1:-1])
    if rows is None or inner is None or starts is None:
        return None
    # rows that one step along an axis takes: 8, 4 and 1 for [2, 2, 4, 8]
    steps = [prod(inner[i:]) for i in range(len(inner) + 1)]
    start = sum(o * step for o, step in zip(starts, steps[1:], strict=True))
    found, first = [], 0
    while first < rows:
        at, left = start + first, rows - first
        axis = next(i for i, step in enumerate(steps) if at % step == 0 and left >= step)
        count = left // steps[axis]
        if axis:
            count = min(count, inner[axis - 1] - at // steps[axis] % inner[axis - 1])
        moved = (at // step % d for step, d in zip(steps[1:], inner, strict=True))
        outer = normalize(Binary("add", offsets[0], index(at // steps[0])))
        window = (*(index(1) for _ in range(axis)), index(count), *map(index, inner[axis:]), valid[-1])
        found.append(RowBox(first, count * steps[axis], (outer, *map(index, moved), offsets[-1]), window))
        first += count * steps[axis]
    return tuple(found)


def _rows(valid: Dims) -> int | None:
    """The rows of the collapse of a valid region, None where they are not constant."""
    sizes = _constants(valid[:-1])
    return None if sizes is None else prod(sizes)


def _constants(dims: Dims) -> tuple[int, ...] | None:
    found = [c for c in map(const_int, dims) if c is not None]
    return tuple(found) if len(found) == len(dims) else None
