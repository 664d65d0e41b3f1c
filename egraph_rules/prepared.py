"""A function made ready for the rules: what they could not find one value at a time is said in other words before they see it.

Loads that feed products alone go to L1, windows that are all of an accumulator are the accumulator, what two arms hand on is one buffer,
and windows of rows become pages, tiles of their own or columns of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from egraph_rules.one_buffer import one_buffer
from egraph_rules.pending import into_l1
from egraph_rules.row_windows import Obstacle, lift_row_windows
from egraph_rules.whole_windows import whole_windows
from pypto_ir.stmt import Function

IN_L1, ONE_BUFFER, ROW_WINDOWS = "products.open-loads", "accumulators.one-buffer", "accumulators.row-windows"
BANDS, COLUMN_BLOCKS = "accumulators.bands", "accumulators.column-blocks"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The function as the rules see it, by name what was done, and what stood in the way of windows of rows. `lifted` tells that such
    windows were said in other words, so that the author's own may not stand."""

    function: Function
    done: tuple[str, ...]
    obstacles: list[Obstacle]
    lifted: bool


def prepared(function: Function) -> Prepared:
    """A function made ready; it stays the same object where nothing is to be done."""
    placed = into_l1(function)
    joined = one_buffer(whole_windows(placed))
    found = lift_row_windows(joined)
    steps = (
        (IN_L1, placed is not function),
        (ONE_BUFFER, joined is not placed),
        (ROW_WINDOWS, found.pages),
        (BANDS, found.bands),
        (COLUMN_BLOCKS, found.blocks),
    )
    done = tuple(name for name, changed in steps if changed)
    return Prepared(found.function, done, found.obstacles, found.function is not joined)
