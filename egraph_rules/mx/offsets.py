"""Offsets of windows of scales in boxes, where they are proved to be whole boxes.

MX_A_ZZ [m0, g0]  ->  [0, m0 // 16, g0 // 2, 0, 0]          MX_B_NN [g0, n0]  ->  [0, n0 // 16, g0 // 2, 0, 0]
"""

from __future__ import annotations

from egraph_rules.mx.proofs import Prover, Where
from pypto_ir.diagnostics import Diagnostics, declare
from pypto_ir.expr import Expr, const_int, index
from pypto_ir.ops.registry import dims_text
from pypto_ir.scale_boxes import AXES, BOX, by_axis
from pypto_ir.text import expr_text
from pypto_ir.types import Dims, Layout

declare(
    B106="the offsets of a window of MX scales are no pair",
    B107="a constant offset into MX scales is negative or no multiple of the box",
    B108="an offset into MX scales is not proved to be a multiple of the box",
    B109="an offset into MX scales is not proved to be non-negative",
    B116="a window of MX scales reaches past the end of its tensor",
)


def blocked_offsets(at: Where, layout: Layout, offsets: Dims, prover: Prover, bag: Diagnostics, fired: dict[str, int]) -> Dims | None:
    """The offsets in boxes, or None after reporting why there are none. `fired` counts the rules that were used."""
    if len(offsets) != 2:
        message = f"the offsets {dims_text(offsets)} into a tensor with layout {layout.value} are {len(offsets)}; the layout needs 2"
        bag.add("B106", message, at.place, "give one for the rows and one for the columns")
        return None
    parts = [
        _boxes(at, layout, axis, offset, by, prover, bag, fired)
        for axis, offset, by in zip(AXES, by_axis(layout, (offsets[0], offsets[1])), BOX, strict=True)
    ]
    if parts[0] is None or parts[1] is None:
        return None
    return (index(0), parts[0], parts[1], index(0), index(0))


def _boxes(
    at: Where, layout: Layout, axis: str, offset: Expr, by: int, prover: Prover, bag: Diagnostics, fired: dict[str, int]
) -> Expr | None:
    """One offset in boxes of `by` cells."""
    where, aligned = f"the {axis} axis of a tensor with layout {layout.value}", "slice on a box boundary"
    value = const_int(offset)
    if value is not None:
        if value < 0 or value % by:
            message = f"the offset {value} on {where} must be a non-negative multiple of {by}"
            bag.add("B107", message, at.place, f"{aligned}: 0, {by}, {2 * by}, ..")
            return None
        fired["mx.offset.constant"] = fired.get("mx.offset.constant", 0) + 1
        return index(value // by)
    what = f"the offset {expr_text(offset)} on {where} cannot be proven to be"
    gap = prover.divisible(at, offset, by)
    if gap is not None:
        help = f"{aligned}, so that the offset is a multiple of {by} at every call; proved are {prover.forms}"
        bag.add("B108", f"{what} a multiple of {by}: {gap}", at.place, help)
        return None
    gap = prover.non_negative(at, offset)
    if gap is not None:
        why = "a negative offset of a partition is clamped to 0, which silently reads the wrong box"
        bag.add("B109", f"{what} non-negative: {gap}; {why}", at.place, f"make it non-negative at every call; proved are {prover.forms}")
        return None
    fired["mx.offset.quotient"] = fired.get("mx.offset.quotient", 0) + 1
    return prover.quotient(at, offset, by)


def check_inside(
    at: Where, layout: Layout, offsets: Dims, window: Dims, shape: Dims, prover: Prover, bag: Diagnostics
) -> tuple[bool, bool]:
    """Report axes on which a window surely reaches past the end of its tensor: its boxes are read whole, however narrow the valid
    region is. Returns whether none does, and whether the whole window is proved to lie inside."""
    fits = proved = True
    pairs = (by_axis(layout, (d[0], d[1])) for d in (offsets, window, shape))
    for axis, offset, size, extent in zip(AXES, *pairs, strict=True):
        held, whole = const_int(size), const_int(extent)
        assert held is not None and whole is not None
        found = prover.inside(at, offset, held, whole)
        proved = proved and found is True
        if found is False:
            fits = False
            message = (
                f"the window {dims_text(window)} at {dims_text(offsets)} takes {held} from {expr_text(offset)} on the {axis} axis of MX "
                f"scales {dims_text(shape)} with layout {layout.value}: past their end, although its valid region may be narrower"
            )
            bag.add("B116", message, at.place, "load a window of as many whole boxes as are there")
    return fits, fits and proved
