"""How the instructions of a target read accumulator memory, a part of what a target says of itself (`spec/hardware.md` 4.5)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AccReads:
    """`to_vec` tells that an instruction brings a tile to Vec, which else takes a store to global memory; `by_valid_rows` that a move to
    L1 takes columns of blocks to lie as far apart as the valid rows of the tile, where these are no constant, and else as all its rows.
    """

    to_vec: bool = False
    by_valid_rows: bool = False
