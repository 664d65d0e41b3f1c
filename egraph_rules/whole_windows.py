"""Windows that are all of a batched accumulator: the accumulator itself.

    w = slice(acc, [1, 16, 24], [0, 0, 0])         w = acc
    m = batch_matmul_acc(w, x, y)                  m = batch_matmul_acc(w, x, y)
    acc1 = assemble(acc, m, [0, 0, 0])             acc1 = m

Where both have one type no column reads or writes anything else. A page of 24 columns has no window of rows or columns in L0C, but it has
itself.
"""

from __future__ import annotations

from egraph_rules.chains import in_acc
from pypto_ir.expr import Expr, Var, const_int
from pypto_ir.rebuilding import Rebuilder, changed
from pypto_ir.stmt import Assign, Call, Function, Stmt, tuple_items
from pypto_ir.types import TileType


def whole_windows(function: Function) -> Function:
    """The function with windows that are all of a batched accumulator as other names of it; the same object where there are none."""
    return _Whole().function(function)


class _Whole(Rebuilder):
    def statement(self, s: Stmt) -> Stmt:
        match s:
            case Assign(targets=(target,), value=Call(op="tile.slice" | "tile.assemble" as op, args=(Var() as acc, part, at), kwargs=())):
                same = part if op == "tile.assemble" else acc
                if in_acc(acc) and isinstance(same, Var) and _alike(target, acc, same) and _at_the_beginning(at):
                    return changed(s, value=same)
        return super().statement(s)


def _alike(*tiles: Var) -> bool:
    """True for batched tiles of one type."""
    first = tiles[0].type
    return isinstance(first, TileType) and first.rank > 2 and all(v.type == first for v in tiles)


def _at_the_beginning(at: Expr) -> bool:
    offsets = tuple_items(at)
    return offsets is not None and all(const_int(e) == 0 for e in offsets)
