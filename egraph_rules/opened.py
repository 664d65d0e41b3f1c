"""Tiles that are cut, made fully valid before they are written into: what is outside of their valid region is undefined in either."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from egraph_rules import forms
from pypto_ir.types import Memory, TileType, tile_type

if TYPE_CHECKING:
    from egraph_rules.values import Values


def opened(t: TileType) -> TileType:
    """A tile type with all of its region valid."""
    return tile_type(t.shape, t.dtype, t.memory, t.view and replace(t.view, valid=t.shape))


def state_write_into_gaps(values: Values, value: object, t: TileType, target: TileType) -> None:
    """How an assemble into a tile with gaps, of result type `t`, goes by way of one without: [2, 2, 8] of [2, 4, 8] as pages of which all
    rows are valid."""
    if target.memory is not Memory.VEC or target.memref is not None or not (forms.even_pages(target) and forms.even_pages(t)):
        return
    opens = values.valid_entry(t.shape[-2:])
    closes = opens if forms.whole(t) else values.valid_entry(t.valid[-2:])
    for entry in (opens, closes):
        values.commands.fact("commutes-pages", entry)
    values.commands.fact("opened-pages", value, opens, values.kind(opened(t)), closes)
