"""Tiles that are cut, made fully valid before they are written into, transposed, reduced along axis 0, or meet what repeats.

valid [2, 2, 8] of [2, 3, 8]     row 2 of each page is undefined, whether it counts as valid or not
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from egraph_rules import forms
from egraph_rules.tables import Hole, OpEntry
from pypto_ir.expr import Var, const_int, index
from pypto_ir.ops.registry import OpDef, Trait
from pypto_ir.stmt import Call
from pypto_ir.types import Memory, TileType, dims, same_dim, same_dims, tile_type

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


def cut_along_first(t: TileType) -> bool:
    """True for N-D tiles in UB of which some slabs of axis 0 are valid in full, and the others not at all."""
    nd_in_ub = t.static_shape is not None and t.rank > 2 and t.memory is Memory.VEC
    return nd_in_ub and same_dims(t.valid[1:], t.shape[1:]) and not same_dim(t.valid[0], t.shape[0])


def state_opened_op(values: Values, var: Var, call: Call, op: OpDef, number: int) -> None:
    """How an op of which an operand repeats along an outer axis goes by way of tiles that are fully valid: [1, 3, 8] and valid [n, 3, 8] of
    [4, 3, 8] as pages of [4, 3, 8], of which n are valid."""
    t = var.type
    if op.trait not in (Trait.POINTWISE, Trait.ROW_WISE) or not isinstance(t, TileType) or not cut_along_first(t):
        return
    tiles = {i: e.type for i, e in enumerate(call.args) if isinstance(e, Var) and isinstance(e.type, TileType)}
    if not any(1 < forms.lead(u.static_shape or ()) < forms.lead(t.static_shape or ()) for u in tiles.values()):
        return
    if not all(forms.whole(u) or cut_along_first(u) for u in tiles.values()):
        return
    opens = {i: opening(values, u) for i, u in tiles.items() if not forms.whole(u)}
    if None in opens.values():
        return
    c, closes = values.commands, values.tables.ops.number(OpEntry("tile.set_validshape", (Hole(0), *t.valid)))
    c.set("open-flat", closes, values.valid_entry(forms.region(t)))
    operands: dict[int, object] = {}
    for i, u in tiles.items():
        operands[i] = values.arg(call, i)
        if i in opens:
            operands[i] = c.call("Op", opens[i], c.call("Data", operands[i], c.call("Nil")))
            c.set("kind", operands[i], values.kind(opened(u)))
    whole = c.call("Op", number, values.operands(call, op, operands))
    c.set("kind", whole, values.kind(opened(t)))
    c.fact("opened-op", values.value(var.name), whole, closes)


def state_first_cut(values: Values, kind: int, t: TileType) -> None:
    """How a tile is cut where axis 0 are its rows, if it is valid in as many slabs of axis 0 as a run tells: [n, 3, 8] of [4, 3, 8] as n
    rows of [4, 24], once all of [12, 8] is valid."""
    shape = t.static_shape
    if shape is None or not cut_along_first(t) or const_int(t.valid[0]) is not None:
        return
    rows = (t.valid[0], index(forms.stacked(shape)[1]))
    values.commands.fact("first-cut", kind, values.valid_entry(dims(*forms.collapsed(shape))), values.valid_entry(rows))
