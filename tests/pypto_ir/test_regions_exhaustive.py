"""Region rules against their definition, over all small cases: the cells named are the cells that move."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np

from pypto_ir.ops.registry import OpError
from pypto_ir.partition import NoWindow, is_row_run, partition_window, row_boxes
from pypto_ir.regions import reshape_valid, static, write_union
from pypto_ir.types import dims

SHAPES = [s for n in (1, 2, 3) for s in product((1, 2, 3, 4), repeat=n) if prod(s) <= 16]


def box(shape: tuple[int, ...], sizes: tuple[int, ...], at: tuple[int, ...] | None = None) -> np.ndarray:
    """The mask of a box in an array of a shape."""
    mask = np.zeros(shape, dtype=bool)
    start = at or (0,) * len(shape)
    mask[tuple(slice(o, o + n) for o, n in zip(start, sizes, strict=True))] = True
    return mask


def below(shape: tuple[int, ...], low: int = 0) -> Iterator[tuple[int, ...]]:
    return product(*(range(low, d + 1) for d in shape))


def test_a_reshaped_region_names_the_same_cells() -> None:
    seen = refused = 0
    for old in SHAPES:
        for new in (s for s in SHAPES if prod(s) == prod(old)):
            for valid in below(old):
                try:
                    found = static(reshape_valid("op", dims(*valid), dims(*old), dims(*new)))
                except OpError:
                    refused += 1
                    continue
                assert found is not None
                assert (box(old, valid).reshape(new) == box(new, found)).all(), (old, valid, new, found)
                seen += 1
    assert seen > 1000 and refused > 500


def test_a_union_holds_the_target_and_the_written_cells_and_no_gap() -> None:
    seen = refused = 0
    for shape in ((4,), (3, 4), (2, 2, 3)):
        for valid, size in product(below(shape), below(shape, 1)):
            for at in below(tuple(d - n for d, n in zip(shape, size, strict=True))):
                parts = (dims(*d) for d in (shape, valid, size, size, at))
                try:
                    found = static(write_union("op", *parts, exact=True))
                except OpError:
                    refused += 1
                    continue
                assert found is not None
                assert (box(shape, found) == box(shape, valid) | box(shape, size, at)).all(), (
                    valid,
                    size,
                    at,
                )
                seen += 1
    assert seen > 500 and refused > 500


def test_a_partition_window_is_the_run_of_rows_that_a_flat_store_writes() -> None:
    seen = refused = 0
    for tensor in ((2, 3, 2), (3, 2, 2), (2, 2, 2, 2)):
        rows, last = prod(tensor[:-1]), tensor[-1]
        for count, columns in product(range(1, rows + 1), range(1, last + 1)):
            for at in product(*(range(d) for d in tensor)):
                found = partition_window(dims(count, columns), dims(*tensor), dims(*at))
                start = int(np.ravel_multi_index(at[:-1], tensor[:-1]))
                if isinstance(found, NoWindow):
                    refused += 1
                    continue
                window = static(found)
                assert window is not None
                run = np.zeros((rows, last), dtype=bool)
                run[start : start + count, at[-1] : at[-1] + columns] = True
                assert (box(tensor, window, at) == run.reshape(tensor)).all(), (tensor, count, columns, at)
                seen += 1
    assert seen > 100 and refused > 100


def test_the_boxes_of_a_run_of_rows_are_the_run() -> None:
    seen = several = 0
    for tensor in ((4, 3, 2), (2, 2, 2, 2), (3, 2, 3, 1)):
        rows, last = prod(tensor[:-1]), tensor[-1]
        for count, at in product(range(1, rows + 2), product(*(range(d + 1) for d in tensor))):
            where = (dims(count, 1), dims(*tensor), dims(*at))
            inside = all(o < d for o, d in zip(at, tensor, strict=True))
            start = int(np.ravel_multi_index(at[:-1], tensor[:-1])) if inside else rows
            if not is_row_run(*where):
                fits = inside and start + count <= rows
                assert not fits or not isinstance(found := partition_window(*where), NoWindow) or found.cause == "outside", where
                continue
            boxes = row_boxes(*where)
            assert boxes is not None and sum(b.rows for b in boxes) == count
            run, filled, first = np.zeros((rows, last), dtype=bool), np.zeros(tensor, dtype=int), 0
            run[start : start + count, at[-1]] = True
            for b in boxes:
                offsets, window = static(b.offsets), static(b.window)
                assert offsets is not None and window is not None and b.first == first and prod(window[:-1]) == b.rows
                assert int(np.ravel_multi_index(offsets[:-1], tensor[:-1])) == start + first
                filled += box(tensor, window, offsets)
                first += b.rows
            assert (filled == run.reshape(tensor)).all(), where
            seen, several = seen + 1, several + (len(boxes) > 1)
    assert seen > 100 and several > 100
