"""What upstream looks at before it rewrites anything (`spec/flatten.md` section 1): every op of a function, all findings at once.

`tile.assemble` of [2, 4, 16] into [4, 8, 16] writes rows 0 to 3 and 8 to 11 of the collapse, which is no run of rows: L403.
"""

from __future__ import annotations

from pypto_ir.diagnostics import Diagnostic, Diagnostics, Place, declare
from pypto_ir.expr import const_int
from pypto_ir.ops.registry import dims_text, type_of
from pypto_ir.regions import collapse_contiguous
from pypto_ir.stmt import Assign, Call, Eval, Function, Stmt, walk
from pypto_ir.types import TileType
from pypto_ir.verify.places import statement_text

declare(
    L401="upstream: cells and windows of a tile of rank above 2 are not supported",
    L402="upstream: a tile of another rank is assembled into a tile of rank above 2",
    L403="upstream: an assemble writes a region that is no run of rows of its flattened target",
)

_NO_ND_FORM = ("tile.read", "tile.write", "tile.slice")


def preconditions(function: Function) -> list[Diagnostic]:
    """Why upstream refuses a function before it rewrites it, in program order."""
    bag = Diagnostics()
    for s in walk(function.body):
        if isinstance(s, Assign | Eval) and isinstance(s.value, Call) and s.value.op.startswith("tile."):
            _check(bag, s, s.value, Place(function=function.name, statement=statement_text(s), loc=s.loc))
    return list(bag)


def _check(bag: Diagnostics, s: Stmt, call: Call, place: Place) -> None:
    dynamic = _dynamic(s, call)
    if dynamic is not None:
        t, axis = dynamic
        bag.add(
            "L001",
            f"{call.op}: a tile {dims_text(t.shape)} has a dynamic (non-constant) dimension {axis} and cannot be flattened to 2D: tiles "
            "are buffers of fixed size on the chip, and a dynamic dim has no bound",
            place,
            "iterate over it with pl.range or pl.parallel so that each slice is static, or reshape the tensor to 2D before the in-core "
            "scope (pl.at)",
        )
        return
    target = type_of(call.args[0]) if call.args else None
    if not isinstance(target, TileType) or target.rank <= 2:
        return
    if call.op in _NO_ND_FORM:
        bag.add(
            "L401",
            f"{call.op} is not supported on >2D tiles, found {dims_text(target.shape)}",
            place,
            "reshape the tile to two dims first (pl.tile.reshape), and give the position in its rows and columns",
        )
    elif call.op == "tile.assemble":
        _assemble(bag, call, target, place)


def _dynamic(s: Stmt, call: Call) -> tuple[TileType, int] | None:
    """The first tile of rank above 2 among operands and result that has a dim which is not constant, and the dim."""
    results = (s.target.type,) if isinstance(s, Assign) else ()
    for t in (*map(type_of, call.args), *results):
        if isinstance(t, TileType) and t.rank > 2 and t.static_shape is None:
            return t, next(i for i, d in enumerate(t.shape) if const_int(d) is None)
    return None


def _assemble(bag: Diagnostics, call: Call, target: TileType, place: Place) -> None:
    source = type_of(call.args[1])
    assert isinstance(source, TileType), "the op takes tiles"
    if source.rank != target.rank:
        bag.add(
            "L402",
            f"tile.assemble into a {target.rank}D tile {dims_text(target.shape)} has a rank-{source.rank} source {dims_text(source.shape)}",
            place,
            f"give the source {target.rank} dims with pl.tile.reshape",
        )
    elif not collapse_contiguous(source.shape, target.shape):
        bag.add(
            "L403",
            f"tile.assemble writes a {dims_text(source.shape)} region into a {dims_text(target.shape)} tile, which does not collapse to a "
            "contiguous row band: every dimension below the outermost partial one must be written in full",
            place,
            "write in a loop, assembling one contiguous page per iteration",
        )
