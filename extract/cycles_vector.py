"""Prices of vector instructions (`spec/hardware.md` 2.3 and 2.4).

One repeat handles 256 bytes. Adding two [64, 64] tiles of FP32 on ascend910b takes 64 repeats of 2 cycles:
128 cycles on V, and 24 more where the add starts a stream, which a price does not count. A [6, 4] tile takes
6 repeats, one per row, since it is narrower than a repeat.
"""

from __future__ import annotations

from math import ceil

from extract.extent import Extent
from extract.moves import Cost, instruction, together
from extract.target import Family, Target
from pypto_ir.dtypes import DType
from pypto_ir.types import Memory

#: pointwise op -> the instructions that it is made of
_POINTWISE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "sub", "maximum", "minimum", "part_add", "part_max", "part_min"), ("add",)),
    **dict.fromkeys(("mul", "part_mul"), ("mul",)),
    "div": ("div",), "divs": ("divs",),
    "exp": ("exp",), "sqrt": ("sqrt",), "rsqrt": ("rsqrt",), "log": ("log",),
    "recip": ("recip",), "abs": ("abs",), "neg": ("muls",), "relu": ("mins",), "lrelu": ("lrelu",),
    **dict.fromkeys(("adds", "subs"), ("adds",)),
    "muls": ("muls",),
    **dict.fromkeys(("maximums", "minimums"), ("mins",)),
    **dict.fromkeys(("and", "or", "xor", "not", "shl", "shr"), ("logic",)),
    **dict.fromkeys(("ands", "ors", "xors", "shls", "shrs"), ("logic",)),
    **dict.fromkeys(("fmod", "rem"), ("div", "cast", "mul", "add")),
    **dict.fromkeys(("fmods", "rems"), ("divs", "cast", "muls", "add")),
    **dict.fromkeys(("addc", "subc", "addsc", "subsc"), ("add", "add")),
    "prelu": ("compare", "mul", "select"),
    **dict.fromkeys(("cmp", "cmps"), ("compare",)),
    **dict.fromkeys(("sel", "sels"), ("select",)),
    **dict.fromkeys(("sin", "cos"), ("cast", "cast") + ("mul", "add") * 8),
    **dict.fromkeys(("expands", "full", "ci"), ("fill",)),
    "tri": ("fill", "select"),
    "random": ("mul", "logic") * 10,
    **dict.fromkeys(("gather", "gatherb", "gather_mask", "scatter", "scatter_mask"), ("gather",)),
    "fillpad_inplace": ("fill",),
    **dict.fromkeys(("fillpad", "fillpad_expand"), ("copy", "fill")),
}  # fmt: skip
_BROADCAST = {
    "add": ("add",), "sub": ("add",), "mul": ("mul",), "div": ("div",), "max": ("add",), "min": ("add",),
    "expdif": ("add", "exp"),
}  # fmt: skip
_HALF = (DType.FP16, DType.BF16)


def pointwise(op: str) -> tuple[str, ...] | None:
    """The families of an op on the elements of a tile, or None where it is none."""
    return _POINTWISE.get(op.removeprefix("tile."))


def broadcast(op: str) -> tuple[str, tuple[str, ...]] | None:
    """`("row", families)` for `tile.row_expand_mul`, `("col", families)` for `tile.col_expand_mul`, ..; else
    None."""
    for axis in ("row", "col"):
        families = _BROADCAST.get(op.removeprefix(f"tile.{axis}_expand_"))
        if families is not None:
            return axis, families
    return None


def reduction(op: str) -> tuple[str, int] | None:
    """`("row" or "col", instructions)` for reductions: 1, and 2 for those that also find the position; else
    None."""
    axis, _, kind = op.removeprefix("tile.").partition("_")
    if axis in ("row", "col") and kind in ("sum", "max", "min", "prod", "argmax", "argmin"):
        return axis, 2 if kind.startswith("arg") else 1
    return None


def repeats(tile: Extent, target: Target, by_row: bool = False) -> tuple[int, int, bool]:
    """`(rows, repeats of a row, strided)` of an instruction over the valid region; a contiguous tile is one
    row.

    A column tile [N, 1] lies as one run of N elements and counts as such.
    """
    unit = target.vector.repeat_bytes
    if tile.column:
        return 1, ceil(tile.valid_rows * tile.valid_cols * tile.size / unit), by_row
    if by_row or (tile.strided and not (target.vector.narrow_rows and tile.cols * tile.size < unit)):
        return tile.valid_rows, ceil(tile.row_bytes / unit), True
    if target.vector.narrow_rows and tile.cols * tile.size < unit:
        return 1, tile.valid_rows, False
    return 1, ceil(tile.valid_rows * tile.valid_cols * tile.size / unit), False


def steady(family: Family, tile: Extent, target: Target, precise: bool = False) -> float:
    """Cycles of one instruction that does not start a stream."""
    rows, each, strided = repeats(tile, target, family.by_row)
    half = tile.dtype in _HALF
    if strided:
        return rows * ((family.half_row_slope if half else family.row_slope) * each + family.row_fixed)
    slope = family.half_slope if half else family.slope
    return each * (max(slope, family.precise_slope) if precise else slope)


def elementwise(families: tuple[str, ...], tile: Extent, target: Target, precise: bool = False, extra: float = 0.0) -> Cost:
    """The price of instructions over every element of `tile`, `extra` cycles on V added to the first."""
    found = target.vector.families
    first, *rest = (steady(found[name], tile, target, precise) for name in families)
    return together([instruction("V", cycles, target) for cycles in (first + extra, *rest)])


def cast(source: Extent, result: Extent, target: Target) -> Cost:
    """The price of a cast, over the repeats of its wider side."""
    widens = result.size > source.size
    return elementwise(("widen",) if widens else ("cast",), result if widens else source, target)


def reduce(axis: str, count: int, source: Extent, target: Target) -> Cost:
    """The price of a reduction along the last axis ("row") or down the rows ("col"): so many cycles per row
    of the source."""
    steps = target.vector.row_reduce if axis == "row" else target.vector.col_reduce
    each = instruction("V", source.valid_rows * steps.per_row(source.row_bytes), target)
    return together([each] * count)


def expand_rows(result: Extent, target: Target) -> Cost:
    """The price of writing one value per row over its row (`tile.row_expand`)."""
    return instruction("V", result.valid_rows * target.vector.row_expand.per_row(result.row_bytes), target)


def expand_columns(result: Extent, target: Target) -> Cost:
    """The price of copying one row to all rows (`tile.col_expand`): a copy of at least a cycle per row."""
    rate = target.channels[Memory.VEC, Memory.VEC].bytes_per_cycle
    return instruction("V", result.valid_rows * max(1.0, result.row_bytes / rate), target)


def transpose(source: Extent, target: Target) -> Cost:
    """The price of a transpose through scratch in UB, page by page; physical extents, since the result is
    fully valid."""
    t = target.vector.transpose
    columns = ceil(source.cols * source.size / 32)
    blocks = ceil(source.height / 16)
    rate = target.channels[Memory.VEC, Memory.VEC].bytes_per_cycle
    page = columns * (t.column + t.block * blocks) + t.fixed + source.height * source.cols * source.size / rate
    return instruction("V", source.pages * page, target)
