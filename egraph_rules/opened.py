"""Tiles that are cut, made fully valid before they are written into or transposed.

valid [2, 2, 8] of [2, 3, 8]     row 2 of each page is undefined, whether it counts as valid or not
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from egraph_rules import forms
from egraph_rules.tables import Hole, OpEntry
from pypto_ir.expr import const_int, index
from pypto_ir.types import Memory, TileType, dims, same_dims, tile_type

if TYPE_CHECKING:
    from egraph_rules.values import Values


def opened(t: TileType) -> TileType:
    """A tile type with all of its region valid."""
    return t if forms.whole(t) else tile_type(t.shape, t.dtype, t.memory, t.view and replace(t.view, valid=t.shape))


def opening(values: Values, t: TileType) -> int | None:
    """The entry of the op that makes all of a tile valid, its flat form where it has one, else every page; None where pages are missing."""
    shape = t.static_shape
    if shape is None or t.memory is not Memory.VEC or t.memref is not None:
        return None
    if forms.rows_prefix(t):
        number = values.tables.ops.number(OpEntry("tile.set_validshape", (Hole(0), *t.shape)))
        if values.once("opening", number):
            values.commands.set("open-flat", number, values.valid_entry(dims(*forms.collapsed(shape))))
        return number
    if not forms.even_pages(t):
        return None
    number = values.valid_entry(t.shape[-2:])
    values.commands.fact("commutes-pages", number)
    return number


def state_write_into_gaps(values: Values, value: object, t: TileType, target: TileType) -> None:
    """How an assemble into a tile with gaps, of result type `t`, goes by way of one without: [2, 2, 8] of [2, 4, 8] as pages of which all
    rows are valid."""
    opens = opening(values, target)
    if opens is None or not forms.even_pages(t):
        return
    closes = opens if forms.whole(t) else values.valid_entry(t.valid[-2:])
    values.commands.fact("commutes-pages", closes)
    values.commands.fact("opened-pages", value, opens, values.kind(opened(t)), closes)


def state_first_cut(values: Values, kind: int, t: TileType) -> None:
    """How a tile is cut where axis 0 are its rows, if it is valid in as many slabs of axis 0 as a run tells: [n, 3, 8] of [4, 3, 8] as n
    rows of [4, 24], once all of [12, 8] is valid."""
    shape = t.static_shape
    if shape is None or t.rank <= 2 or t.memory is not Memory.VEC:
        return
    if const_int(t.valid[0]) is not None or not same_dims(t.valid[1:], t.shape[1:]):
        return
    rows = (t.valid[0], index(forms.stacked(shape)[1]))
    values.commands.fact("first-cut", kind, values.valid_entry(dims(*forms.collapsed(shape))), values.valid_entry(rows))
