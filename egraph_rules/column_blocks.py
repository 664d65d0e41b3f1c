"""Products a column of blocks at a time, where a window of an accumulator lies at another pitch than the cube unit writes.

    w = slice(acc, [16, 32], [r, 0])               w_0 = slice(acc, [16, 16], [r, 0])
    m = matmul_acc(w, x, y)                        m_0 = matmul_acc(w_0, x, slice(y, [16, 16], [0, 0]))
                                                   acc_0 = assemble(acc, m_0, [r, 0])
                                                   w_1 = slice(acc_0, [16, 16], [r, 16])
                                                   m_1 = matmul_acc(w_1, x, slice(y, [16, 16], [0, 16]))
                                                   acc_1 = assemble(acc_0, m_1, [r, 16])
                                                   m = slice(acc_1, [16, 32], [r, 0])

accumulator.column-blocks: one column of blocks has no pitch, its rows follow one another in memory, so a window of at most 16 columns has
an address at any row (`spec/hardware.md` 4.4). Columns of a product do not see each other: the two columns above compute the same, bit for
bit. Windows may overlap, have any heights and begin at rows that nothing is known of. What a product leaves of blocks that it does not fill
is not documented, so its rows are whole blocks: 8 rows of a window would take the 8 below with them.
"""

from __future__ import annotations

from dataclasses import replace

from egraph_rules.bands import BOX
from egraph_rules.chain_rebuilding import ChainRebuilder
from egraph_rules.page_parts import plus
from pypto_ir.expr import Expr, MakeTuple, Var, const_int, index
from pypto_ir.stmt import Assign, Call, Eval, Function, Stmt, tuple_items
from pypto_ir.types import TileType, dims, same_dims


def by_column_blocks(function: Function, products: set[str]) -> Function:
    """The function with the products of these names written a column of blocks at a time; `unblocked` says which can be."""
    return _Blocks(function, products).built()


def unblocked(call: Call, column: int | None, whole: int | None) -> str | None:
    """Why a product onto a window that begins at `column` of an accumulator of `whole` columns is not written by columns of blocks, or
    None."""
    if call.op != "tile.matmul_acc":
        return f"{call.op} has no form for a part of its columns"
    right = call.args[2].type if isinstance(call.args[2], Var) else None
    assert isinstance(right, TileType)
    if right.static_shape is None or not same_dims(right.valid, right.shape):
        return "its right factor is valid in part"
    if column is None or column % BOX:
        return f"its window begins at a column that is no multiple of {BOX}"
    columns = right.static_shape[1]
    if columns % BOX and column + columns != whole:
        return f"its {columns} columns end inside a block that goes on"
    return None


def open_rows(call: Call) -> str | None:
    """Why a product may change rows beside its own, or None."""
    left = call.args[1].type if isinstance(call.args[1], Var) else None
    assert isinstance(left, TileType)
    rows = const_int(left.valid[0])
    if rows is not None and rows % BOX == 0:
        return None
    said = "a number of rows that is known at run time only" if rows is None else f"{rows} rows"
    return f"it has {said}, and what it leaves of its last blocks of {BOX} rows is not documented"


class _Blocks(ChainRebuilder):
    def __init__(self, function: Function, products: set[str]) -> None:
        super().__init__(function)
        self.products = products
        #: windows by name: what they are cut from, and where
        self.windows: dict[str, tuple[Var, Expr, Expr]] = {}

    def become(self, v: Var) -> None:
        return None

    def call(self, s: Assign | Eval, call: Call) -> list[Stmt]:
        if isinstance(s, Assign):
            if s.target.name in self.products:
                return self.product(s, call)
            if call.op == "tile.slice" and len(call.args) == 3 and not call.kwargs:
                at = tuple_items(call.args[2]) or ()
                if isinstance(call.args[0], Var) and len(at) == 2:
                    self.windows[s.target.name] = (call.args[0], *at)
        return [s]

    def product(self, s: Assign, call: Call) -> list[Stmt]:
        window, left, right, *init = call.args
        assert isinstance(window, Var) and isinstance(window.type, TileType) and isinstance(right, Var) and isinstance(right.type, TileType)
        assert right.type.static_shape is not None
        parent, row, column = self.windows.get(window.name, (window, index(0), index(0)))
        height, (depth, columns) = window.type.shape[0], right.type.static_shape
        result: list[Stmt] = []

        def made(name: str, suffix: str, call: Call) -> Var:
            result.append(self.value_at(s, self.names.derived(name, suffix), call))
            return result[-1].target  # type: ignore[union-attr]

        for start in range(0, columns, BOX):
            width = min(BOX, columns - start)
            at = MakeTuple((row, plus(column, start)))
            cut = made(window.name, "block", Call("tile.slice", (parent, MakeTuple((height, index(width))), at)))
            part = made(right.name, "block", Call("tile.slice", (right, MakeTuple(dims(depth, width)), MakeTuple(dims(0, start)))))
            product = made(s.target.name, "block", replace(call, args=(cut, left, part, *init)))
            parent = made(parent.name if start else s.target.name, "blocks", Call("tile.assemble", (parent, product, at)))
        if window.name in self.windows:
            whole = Call("tile.slice", (parent, MakeTuple(window.type.shape), MakeTuple((row, column))), loc=call.loc)
            self.windows[s.target.name] = (parent, row, column)
            return [*result, replace(s, value=whole)]
        return [*result, replace(s, value=parent)]
