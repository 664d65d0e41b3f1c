"""Cells of tiles that are read or written one by one: where each carrier holds them.

[1, 2, 5] of [2, 3, 8]                    row 5 of the collapse; row 2 of page 1
[1, 1, 5] of [2, 3, 8], valid [2, 2, 8]   row 3 of the valid rows, one after another
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from egraph_rules import forms
from egraph_rules.loads import row_of
from egraph_rules.tables import OpEntry
from egraph_rules.windows import pages_of
from pypto_ir.expr import MakeTuple
from pypto_ir.linear import provably_gt
from pypto_ir.ops.registry import type_of
from pypto_ir.stmt import Call, tuple_items
from pypto_ir.types import Dims, TileType

if TYPE_CHECKING:
    from egraph_rules.values import Values


def cell(call: Call) -> Dims:
    """The index of a read or write of one cell in the tile that holds all rows: in the collapse, or among the rows that are valid where
    these have gaps between them. What is not valid is undefined, and stays within the tile: of valid [2, 2, 8] of [2, 3, 8] the row 2 of
    page 1 is row 4 of 6."""
    at, tile = _index(call)
    if tile.rank <= 2:
        return at
    return (row_of(at, tile.shape if forms.rows_prefix(tile) else tile.valid), at[-1])


def _among_valid(at: Dims, tile: TileType) -> bool:
    """True where the row of a cell is known to be valid."""
    return all(provably_gt(v, i) for i, v in zip(at[:-1], tile.valid[:-1], strict=True))


def flat_write(call: Call) -> Call:
    """A write with the place of its cell in the collapse."""
    at, tile = _index(call)
    row = at if tile.rank <= 2 else (row_of(at, tile.shape), at[-1])
    return replace(call, args=(call.args[0], MakeTuple(row), *call.args[2:]))


def state_write(values: Values, call: Call, number: int) -> None:
    """What rules are told of a write, entry `number`: how it writes packed rows, and one page."""
    (at, tile), c, tables = _index(call), values.commands, values.tables
    shape, entry = tile.static_shape, tables.ops[number]
    if tile.rank <= 2 or shape is None:
        return

    def placed(index: Dims) -> int:
        return tables.ops.number(OpEntry(entry.op, (entry.template[0], MakeTuple(index), *entry.template[2:]), entry.kwargs, entry.attrs))

    if not forms.rows_prefix(tile) and _among_valid(at, tile):
        c.set("write-packed", number, tables.regions.number(forms.packing(tile)), placed(cell(call)))
    page = pages_of(shape, tuple(1 for _ in shape), at)
    if page is not None and forms.pages(shape) > 1:
        c.set("write-page", number, shape, placed(at[-2:]))
        c.set("written-page", number, shape, tables.pages.number(page))


def _index(call: Call) -> tuple[Dims, TileType]:
    at, tile = tuple_items(call.args[1]), type_of(call.args[0])
    assert at is not None and isinstance(tile, TileType)
    return at, tile
