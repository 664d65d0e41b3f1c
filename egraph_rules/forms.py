"""Shapes and types of carriers, and the facts of a type that rules guard on.

The tile type [1, 16, 512] with valid [1, v, 512] has the flat form [16, 512] with valid [v, 512]; its region is a run of rows. Valid
[2, 10, 512] of [2, 16, 512] is none: rows 10 to 15 of page 0 are not valid, row 16 is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from pypto_ir.expr import const_int, index
from pypto_ir.linear import normalize
from pypto_ir.regions import collapse_contiguous, is_empty, is_one, merged_valid
from pypto_ir.types import Compact, Dims, Memory, TileLayout, TileType, same_dim, tile_type

Shape = tuple[int, ...]
#: bytes that a view of a tile starts at a multiple of
VIEW_BYTES = 32


def collapsed(shape: Shape) -> Shape:
    """[2, 3, 4] -> [6, 4]; rank 2 and less stay."""
    return shape if len(shape) <= 2 else (prod(shape[:-1]), shape[-1])


def stacked(shape: Shape) -> Shape:
    """Axis 0 as rows: [2, 3, 4] -> [2, 12]."""
    return (shape[0], prod(shape[1:]))


def lead(shape: Shape) -> int:
    """The rows of the collapse: [2, 3, 4] -> 6, [4] -> 1."""
    return prod(shape[:-1])


def page(shape: Shape) -> Shape:
    """The last two dims; rank 1 stays."""
    return shape[-2:]


def batch(shape: Shape) -> Shape:
    """The dims before the page, unit axes left out: [2, 1, 3, 4] -> [2]."""
    return tuple(d for d in shape[:-2] if d != 1)


def columns(shape: Shape) -> Shape:
    """All pages side by side: [2, 3, 16, 64] -> [16, 384], page b at columns b * 64."""
    return (shape[-2], pages(shape) * shape[-1])


def pages(shape: Shape) -> int:
    """How many pages: [2, 3, 16, 64] -> 6."""
    return prod(shape[:-2])


def rows_prefix(t: TileType) -> bool:
    """True where the valid region is a run of rows of the collapse that starts at row 0 (its columns may be cut). An axis of 1 has all or
    nothing of it: valid [u, v, 8] of [1, 4, 8] is u * v rows, and what is empty is no row at all."""
    if t.rank <= 2 or is_empty(t.valid):
        return True
    wide = [(v, d) for v, d in zip(t.valid[:-1], t.shape[:-1], strict=True) if not is_one(d)]
    rows = (*wide, (t.valid[-1], t.shape[-1]))
    return collapse_contiguous(tuple(v for v, _ in rows), tuple(d for _, d in rows))


def even_pages(t: TileType) -> bool:
    """True where every page has the same valid region: the batch dims are fully valid."""
    return all(same_dim(v, d) for v, d in zip(t.valid[:-2], t.shape[:-2], strict=True))


def whole(t: TileType) -> bool:
    return all(same_dim(v, d) for v, d in zip(t.valid, t.shape, strict=True))


def packs_columns(t: TileType) -> bool:
    """True for accumulators whose pages can stand side by side: the cube unit writes a page of whole 16 x 16 boxes of 4-byte elements at
    full height, wherever its columns start (`spec/hardware.md` 4.4). Not those whose rows lie as a product of fewer rows leaves them."""
    shape = t.static_shape
    if shape is None or t.rank <= 2 or t.memory is not Memory.ACC or t.memref is not None:
        return False
    if t.effective_view.compact is not Compact.NULL:
        return False
    return pages(shape) > 1 and whole(t) and t.dtype.bytes == 4 and shape[-2] % 16 == 0 and shape[-1] % 16 == 0


def has_row_windows(t: TileType) -> bool:
    """True where runs of rows of the flat form have an address: in L0C those of one column of boxes only, or of a tile that the author
    made 2-D."""
    shape = t.static_shape
    return t.memory is not Memory.ACC or t.rank <= 2 or (shape is not None and shape[-1] <= 16 and shape[-2] % 16 == 0)


def region(t: TileType) -> Dims:
    """Valid rows and columns of the collapse, in normal form; meaningful where `rows_prefix` holds."""
    return tuple(normalize(e) for e in (merged_valid(t.valid) if t.rank > 2 else t.valid))


def packing(t: TileType) -> Dims:
    """The valid rows of every axis and its rows, axes of 1 left out: what tells packed tiles with the same places of rows."""
    rows = [(normalize(v), d) for v, d in zip(t.valid[:-1], t.shape[:-1], strict=True) if const_int(v) != 1 or const_int(d) != 1]
    return tuple(e for pair in rows for e in pair)


def flat_type(t: TileType) -> TileType:
    """The type of the flat form (`spec/flatten.md` 3.1): layout, pad and compact of an explicit view stay, stride and start go."""
    if t.rank <= 2:
        return t
    shape = t.static_shape
    assert shape is not None, "the encoder refuses dynamic tiles"
    dims = tuple(index(d) for d in collapsed(shape))
    view = t.view and replace(t.view, valid=merged_valid(t.valid), stride=(), start_offset=None)
    return tile_type(dims, t.dtype, t.memory, view, t.memref)


def columns_type(t: TileType) -> TileType:
    """The type of all pages of an accumulator side by side."""
    shape = t.static_shape
    assert shape is not None, "the encoder refuses dynamic tiles"
    return tile_type(tuple(map(index, columns(shape))), t.dtype, t.memory)


def page_type(t: TileType) -> TileType:
    """The type of one page, as a load of the page alone would have it."""
    view = t.view and replace(t.view, valid=t.valid[-2:], stride=(), start_offset=None)
    return tile_type(t.shape[-2:], t.dtype, t.memory, view)


def spread_index(number: int, source: Shape, target: Shape) -> int:
    """The page of a value of shape `source` that page `number` of shape `target` reads under batch broadcasting: page 5 of [2, 3] is
    (1, 2), which reads page 1 of [2, 1] and page 2 of [1, 3]."""
    wide, narrow = target[:-2], source[:-2]
    position = []
    for d in reversed(wide):
        position.append(number % d)
        number //= d
    position = position[::-1][len(wide) - len(narrow) :] if narrow else []
    result = 0
    for i, d in zip(position, narrow, strict=True):
        result = result * d + (0 if d == 1 else i)
    return result


def unravel(number: int, dims: Shape) -> tuple[int, ...]:
    """The index of element `number` in row-major order: 5 in [2, 3] is (1, 2)."""
    position = []
    for d in reversed(dims):
        position.append(number % d)
        number //= d
    return tuple(reversed(position))


def in_acc(t: TileType) -> bool:
    return t.memory is Memory.ACC


def movable(t: TileType) -> bool:
    """True for pages that can be put together: the graph of memories has no way from L1 to L1 (`spec/flatten.md` 9)."""
    return t.memory in (None, Memory.VEC) and t.rank > 2 and t.static_shape is not None and pages(t.static_shape) > 1


def row_major(t: TileType) -> bool:
    return t.effective_view.slayout is TileLayout.NONE_BOX


#: what rules ask of a type, as facts of its number -> where it holds
FACTS: dict[str, Callable[[TileType], bool]] = {
    "kind-even-pages": even_pages,
    "kind-whole": whole,
    "kind-packs": packs_columns,
    "kind-in-acc": in_acc,
    "kind-movable": movable,
    "kind-row-major": row_major,
    "kind-row-windows": has_row_windows,
}
