"""TileOps2D: what in-core functions may hold after lowering (`spec/flatten.md` section 12).

For every `tile.*` call except `tile.load` and `tile.store`, in this order: its result is no tile of more than
two dims, a transpose has its scratch operand, an assemble has a literal offset of two elements, no tile
operand has more than two dims. `tile.add` of two [2, 3, 4] tiles gives V101 (result) and V104 (operand), once
each.
"""

from __future__ import annotations

from pypto_ir.diagnostics import Diagnostic, Diagnostics, declare
from pypto_ir.ops.registry import OpError, dims_text, find_op, type_of
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import Assign, Call, Eval, Function, Stmt, tuple_items
from pypto_ir.types import TileType, TupleType, Type
from pypto_ir.verify.places import StmtPath, place, walk_paths

declare(
    V101="an op in an in-core function produces a tile of more than two dims",
    V102="tile.transpose has no scratch operand",
    V103="tile.assemble has no literal offset of two elements",
    V104="an op in an in-core function takes a tile of more than two dims",
)


def tile_ops_2d(function: Function, path: StmtPath = ()) -> list[Diagnostic]:
    """What keeps a function from TileOps2D; nothing for kinds other than InCore, AIC and AIV. `path` is the
    function's own path.
    """
    bag = Diagnostics()
    if function.in_core:
        for at, s in walk_paths(function.body, (*path, "body")):
            if isinstance(s, Assign | Eval) and isinstance(s.value, Call):
                _check(bag, function, s, s.value, at)
    return list(bag)


def _check(bag: Diagnostics, function: Function, s: Stmt, call: Call, at: StmtPath) -> None:
    if not call.op.startswith("tile.") or call.op in ("tile.load", "tile.store"):
        return
    where = place(function, at, s)
    for t in _tiles(_result(s, call)):
        if t.rank > 2:
            message = f"{call.op} produces >2D tile {dims_text(t.shape)}"
            bag.add("V101", message, where, "only two-dimensional tiles have a machine form; lower it")
            break
    if call.op == "tile.transpose" and len(call.args) != 4:
        message = f"tile.transpose has {len(call.args)} operands, a lowered one has 4"
        bag.add("V102", message, where, "give a scratch tile as the last operand")
    if call.op == "tile.assemble":
        offset = tuple_items(call.args[2])
        if offset is None or len(offset) != 2:
            found = "no literal tuple" if offset is None else f"{len(offset)} elements"
            bag.add(
                "V103",
                f"the offset of tile.assemble has {found}, not 2 elements",
                where,
                "give a row and a column",
            )
    for i, arg in enumerate(call.args):
        found_type = type_of(arg)
        if isinstance(found_type, TileType) and found_type.rank > 2:
            message = f"operand {i} of {call.op} is a >2D tile {dims_text(found_type.shape)}"
            bag.add("V104", message, where, "only two-dimensional tiles have a machine form; lower what makes it")
            break


def _result(s: Stmt, call: Call) -> Type | None:
    if isinstance(s, Assign):
        return s.target.type
    if find_op(call.op) is None:
        return None
    try:
        return infer_call(call)
    except OpError:
        return None  # reported by the type check


def _tiles(t: Type | None) -> list[TileType]:
    if isinstance(t, TupleType):
        return [tile for item in t.items for tile in _tiles(item)]
    return [t] if isinstance(t, TileType) else []
