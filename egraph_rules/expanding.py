"""Tiles that are padded to a larger shape (`tile.fillpad_expand`): which axes grow, and in which order.

[2, 3, 8] to [2, 4, 8]     every page grows
[2, 3, 8] to [4, 3, 16]    rows grow, and more of them follow
[2, 3, 8] to [4, 4, 8]     every page grows, then more of them follow
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from egraph_rules import forms
from egraph_rules.tables import Hole, OpEntry
from pypto_ir.expr import MakeTuple, Var
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import Call
from pypto_ir.types import TileType, dims

if TYPE_CHECKING:
    from egraph_rules.values import Values


def state_expand(values: Values, number: int, call: Call, shape: forms.Shape) -> None:
    """What rules are told of an op that pads tiles to `shape`, entry `number`: what pads one page and the flat form, and the steps that it
    takes for tiles like its operand."""
    entry = values.tables.ops[number]
    for name, wanted in (("expand-page", forms.page(shape)), ("expand-flat", forms.collapsed(shape))):
        padded = replace(entry, template=(Hole(0), MakeTuple(dims(*wanted))), memref=None)
        values.commands.set(name, number, values.tables.ops.number(padded))
    source = call.args[0]
    assert isinstance(source, Var) and isinstance(source.type, TileType)
    if source.type.static_shape is not None:
        _steps(values, number, call, source.type, shape)


def _steps(values: Values, number: int, call: Call, t: TileType, shape: forms.Shape) -> None:
    """State how tiles of type `t` are padded to `shape`."""
    of = t.static_shape
    assert of is not None
    if not values.once(f"expand {values.kind(t)}", number):
        return
    if of[1:-1] == shape[1:-1]:
        values.commands.fact("outermost-grows", number, of)
    elif forms.rows_prefix(t) and not forms.even_pages(t):
        _step(values, number, call, replace(call, op="tile.fillpad", args=(Var("x", t),)), t, shape)
    elif of[:-2] != shape[:-2]:
        _step(values, number, call, replace(call, args=(Var("x", t), MakeTuple(dims(*of[:-2], *shape[-2:])))), t, shape)


def _step(values: Values, number: int, call: Call, first: Call, t: TileType, shape: forms.Shape) -> None:
    """State that `first` may be done of a tile of type `t` before `call`, and how `call` pads what it makes to `shape`."""
    result, c = infer_call(first), values.commands
    assert isinstance(result, TileType) and result.static_shape is not None
    entry = values.tables.ops.number(OpEntry(first.op, (Hole(0), *first.args[1:]), first.kwargs, first.attrs))
    if first.op == "tile.fillpad":
        c.fact("commutes-flat", entry)
    else:
        state_expand(values, entry, first, result.static_shape)
    c.fact("expand-step", number, values.kind(t), entry, values.kind(result))
    _steps(values, number, call, result, shape)
