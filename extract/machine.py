"""Machine nodes as ops: the call that an e-node stands for, given its operands.

A node of one tile is one call. A node of a family is one call a page; `page_call(graph, node, b, ..)` builds that of page b. The
load of [2, 16, 128] at [0, 0, k] is, page by page, `load(t, [0, 0, k], [1, 16, 128])` and `load(t, [1, 0, k], [1, 16, 128])`.
"""

from __future__ import annotations

from dataclasses import replace

from egraph_rules import forms, loads
from egraph_rules.graph import ENode, Graph
from egraph_rules.tables import FillEntry, Hole, OpEntry, StoreEntry
from pypto_ir.expr import Expr, MakeTuple, Var, const_int, index
from pypto_ir.linear import normalize
from pypto_ir.ops.registry import Role, find_op, type_of
from pypto_ir.ops.rules import infer_call
from pypto_ir.partition import RowBox
from pypto_ir.regions import add_index, merged_valid
from pypto_ir.stmt import Call, tuple_items
from pypto_ir.types import Dims, TensorType, TileType, Type, dims, same_dim

#: nodes whose class is a family of pages
FAMILIES = frozenset(
    {
        *("LeafEach", "One", "RowsOf", "PiecesOf", "ColsOf", "LoadEach", "LoadInEach", "CreateEach", "FullEach", "OpEach"),
        *("WithPages", "Pick", "Spread"),
    }
)
#: families whose pages are made of one tile or tensor
OF_WHOLE = frozenset({"One", "RowsOf", "PiecesOf", "ColsOf", "LoadInEach"})
#: nodes that stand for what control flow hands on
LEAVES = frozenset({"Leaf2", "LeafEach", "LeafCols"})
#: nodes that write global memory
STORES = frozenset({"Store2", "StoreEach", "StoreBoxes", "StoreIn2", "StoreInEach"})
#: nodes that read global memory
LOADS = frozenset({"Load2", "LoadEach", "LoadIn2", "LoadInEach"})


def tuple_of(*values: int | Expr) -> MakeTuple:
    return MakeTuple(dims(*values))


def tile_call(graph: Graph, node: ENode, operands: tuple[Expr, ...]) -> tuple[Call, Type]:
    """The call of a node that is one tile, and its result type. Raises `OpError` where the type rule refuses the operands.

    Leaves, `PageOf`, `PackRows`, `AssembleEach` and `AccCols` are no single call and are not handled here.
    """
    tables = graph.tables
    match node.name:
        case "Load2":
            load = tables.loads[node.data[0]]
            return _load_rows(load.call, load.type), forms.flat_type(load.type)
        case "View2":
            view = tables.views[node.data[0]]
            valid = () if view.valid is None else (MakeTuple(view.valid),)
            return typed(Call("tensor.view", (view.tensor, MakeTuple(view.shape), *valid)))
        case "LoadIn2":
            load = tables.loads[node.data[0]]
            return load_in(load.call, operands[0], load.type), forms.flat_type(load.type)
        case "Create2" | "Full2":
            return fill_call(tables.fills[node.data[0]], node.data[1])
        case "Op2":
            return op_call(tables.ops[node.data[0]], operands)
        case "Reshape2":
            return typed(Call("tile.reshape", (operands[0], tuple_of(*node.data[0]))))
        case "Reinterpret2":
            entry = tables.ops[node.data[0]]
            return typed(Call(entry.op, (operands[0], tuple_of(*node.data[1])), entry.kwargs, entry.attrs), entry)
        case "Slice2":
            entry = tables.ops[node.data[0]]
            shape, row, col = node.data[1:]
            asked = tuple(e for e in entry.template[1:] if not isinstance(e, Hole))
            return typed(Call(entry.op, (operands[0], tuple_of(*shape), tuple_of(row, col), *asked), entry.kwargs, entry.attrs), entry)
        case "Assemble2":
            entry = tables.ops[node.data[0]]
            row, col = node.data[1:]
            return typed(Call(entry.op, (*operands, tuple_of(row, col)), entry.kwargs, entry.attrs), entry)
    raise ValueError(f"{node.name} is not the call of one tile")


def typed(call: Call, entry: OpEntry | None = None) -> tuple[Call, Type]:
    """A call with its deduced type; a MemRef that the author bound to the result stays."""
    t = infer_call(call)
    if entry is not None and entry.memref is not None and isinstance(t, TileType):
        t = replace(t, memref=entry.memref)
    return call, t


def op_call(entry: OpEntry, operands: tuple[Expr, ...]) -> tuple[Call, Type]:
    args = tuple(operands[a.number] if isinstance(a, Hole) else a for a in entry.template)
    return typed(Call(entry.op, args, entry.kwargs, entry.attrs), entry)


def fill_call(entry: FillEntry, shape: forms.Shape) -> tuple[Call, Type]:
    call = entry.call
    made, t = typed(Call(call.op, (tuple_of(*shape), *call.args), call.kwargs, call.attrs))
    return (made, replace(t, memref=entry.type.memref)) if isinstance(t, TileType) else (made, t)


def page_call(graph: Graph, node: ENode, number: int, operands: tuple[Expr, ...]) -> tuple[Call, Type]:
    """The call that makes page `number` of a family node; `operands` are the pages (RowsOf: the flat tile) that it reads.

    `One`, `Pick`, `WithPages` and `Spread` hand pages on and make none.
    """
    tables = graph.tables
    match node.name:
        case "RowsOf":
            rows, cols = node.data[0]
            return typed(Call("tile.slice", (operands[0], tuple_of(rows, cols), tuple_of(number * rows, 0))))
        case "ColsOf":
            rows, cols = node.data[0]
            return typed(Call("tile.slice", (operands[0], tuple_of(rows, cols), tuple_of(0, number * cols))))
        case "PiecesOf":
            entry = tables.ops[node.data[0]]
            shape, steps, row, col = node.data[1:]
            at = tuple_of(normalize(add_index(row, index(tables.pages[steps][number]))), col)
            asked = tuple(e for e in entry.template[1:] if not isinstance(e, Hole))
            return typed(Call(entry.op, (operands[0], tuple_of(*shape), at, *asked), entry.kwargs, entry.attrs))
        case "LoadEach":
            load = tables.loads[node.data[0]]
            return load_page(load.call, load.type, number, load.order)
        case "LoadInEach":
            load = tables.loads[node.data[0]]
            page, made = load_page(load.call, load.type, number)
            return load_in(page, operands[0], load.type), made
        case "CreateEach" | "FullEach":
            return fill_call(replace(tables.fills[node.data[0]], type=_unbound(tables.fills[node.data[0]].type)), node.data[1])
        case "OpEach":
            return op_call(replace(tables.ops[node.data[0]], memref=None), operands)
    raise ValueError(f"{node.name} makes no pages")


def separate_pages(graph: Graph, node: ENode) -> bool:
    """False where one tile serves as every page of a family: that of a fill, unless a loop carries its pages."""
    return node.name != "FullEach" or graph.tables.fills[node.data[0]].identity is not None


def _unbound(t: TileType) -> TileType:
    return replace(t, memref=None)


def _load_rows(call: Call, t: TileType) -> Call:
    """The load of a window as rows. Its valid extents are those of the N-D tile where of its leading axes some are cut to what the tensor
    holds and others, which the author says, may go beyond that: the number of rows does not say which were cut. Of `[2, n]` rows asked
    for in a tensor that holds `[1 - k, 1]`, `[1 - k, n]` are read."""
    source, asked = call.args[0], tuple_items(call.args[3])
    assert asked is not None and isinstance(source.type, TensorType)  # type: ignore[union-attr]
    held = zip(t.valid[:-1], asked, source.type.valid, source.type.shape, strict=False)  # type: ignore[union-attr]
    kinds = {same_dim(valid, ask) for valid, ask, there, extent in held if not (same_dim(valid, ask) and same_dim(there, extent))}
    return call if len(kinds) < 2 else replace(call, args=(*call.args[:3], MakeTuple(t.valid)))


def load_page(call: Call, t: TileType, number: int, order: tuple[int, ...] = ()) -> tuple[Call, Type]:
    """The load of one page: its offsets, a window of one page, and the valid region of a page. Axis k of the tile is axis order[k] of
    the window, k where no order is given."""
    offsets, window, valid = (tuple_items(call.args[i]) for i in (1, 2, 3))
    assert offsets is not None and window is not None and valid is not None
    lead, order = len(window) - 2, order or tuple(range(len(window)))
    at = forms.unravel(number, tuple(_extent(window[axis]) for axis in order[:lead]))
    moved = _moved(offsets, order, at)
    args = (call.args[0], MakeTuple(moved), *(MakeTuple(_page_extents(d, order[lead:])) for d in (window, valid)))
    return Call(call.op, args, call.kwargs, call.attrs), forms.page_type(t)


def _moved(offsets: Dims, axes: tuple[int, ...], at: tuple[int, ...]) -> Dims:
    """Offsets moved by at[k] along axis axes[k]."""
    steps = dict(zip(axes, at, strict=False))
    return tuple(add_index(o, index(steps.get(axis, 0))) for axis, o in enumerate(offsets))


def _page_extents(extents: Dims, axes: tuple[int, ...]) -> Dims:
    """The extents along the axes of a page, 1 along all others."""
    return tuple(e if axis in axes else index(1) for axis, e in enumerate(extents))


def load_in(call: Call, view: Expr, t: TileType) -> Call:
    """A load of a run of rows, or of one page, through the 2-D view of its tensor; the valid region is that of the tile. One that is 2-D
    has its place in the view already."""
    offsets, window = tuple_items(call.args[1]), tuple_items(call.args[2])
    if window is not None and len(window) == 2:
        return replace(call, args=(view, *call.args[1:]))
    assert offsets is not None and window is not None and isinstance(call.args[0], Var) and isinstance(call.args[0].type, TensorType)
    lead = len(window) - 2
    batch = t.valid[:lead] if not all(const_int(d) == 1 for d in window[:lead]) else window[:lead]
    row = loads.row_of(offsets, call.args[0].type.shape)
    args = (view, tuple_of(row, offsets[-1]), MakeTuple(merged_valid(window)), MakeTuple(merged_valid((*batch, *t.valid[lead:]))))
    return Call(call.op, args, call.kwargs, call.attrs)


def piece_writes(graph: Graph, node: ENode) -> tuple[OpEntry, list[MakeTuple]]:
    """The op of an `AssembleEach`, and where it writes each piece."""
    steps, row, col = node.data[1:]
    at = [tuple_of(normalize(add_index(row, index(step))), col) for step in graph.tables.pages[steps]]
    return graph.tables.ops[node.data[0]], at


def columns_of_page(packed: TileType, pages: int, number: int) -> tuple[forms.Shape, MakeTuple]:
    """Shape and offset of page `number` of pages that stand side by side."""
    shape = packed.static_shape
    assert shape is not None
    cols = shape[1] // pages
    return (shape[0], cols), tuple_of(0, number * cols)


def store_pages(entry: StoreEntry, shape: forms.Shape) -> list[tuple[Dims, Dims | None]]:
    """Offsets and window of the store of every page of a tile of `shape`. Pages of a tile that goes into a 2-D tensor are bands of rows
    and need no window."""
    offsets, t = tuple_items(entry.call.args[1]), entry.tile
    assert offsets is not None
    if t.rank == 2:
        return [((add_index(offsets[0], index(b * shape[-2])), offsets[1]), None) for b in range(forms.pages(shape))]
    first = len(offsets) - len(shape)
    axes = tuple(first + axis for axis in entry.order or range(len(shape)))
    cells = dict(zip(axes[-2:], t.valid[-2:], strict=True))
    window = tuple(cells.get(axis, index(1)) for axis in range(len(offsets)))
    return [(_moved(offsets, axes, forms.unravel(number, shape[:-2])), window) for number in range(forms.pages(shape))]


def band_call(tile: Expr, box: RowBox) -> tuple[Call, Type]:
    """The rows of a flat tile that fill a box of a store's target."""
    t = type_of(tile)
    assert isinstance(t, TileType)
    return typed(Call("tile.slice", (tile, MakeTuple((index(box.rows), t.shape[-1])), tuple_of(box.first, 0))))


def store_in_view(call: Call, number: int, rows: int) -> tuple[Expr, Expr]:
    """Where page `number` of `rows` rows is stored in the 2-D view of a store's target."""
    offsets, target = tuple_items(call.args[1]), call.args[2]
    assert offsets is not None and isinstance(target, Var) and isinstance(target.type, TensorType)
    return add_index(loads.row_of(offsets, target.type.shape), index(number * rows)), offsets[-1]


def _extent(e: Expr) -> int:
    value = const_int(e)
    assert value is not None, "a window has constant extents"
    return value


def written_operands(graph: Graph, node: ENode) -> tuple[int, ...]:
    """The operands of a node, by number, that it overwrites: in place, or as scratch."""
    if node.name in ("Assemble2", "AssembleEach", "AccCols"):
        return (0,)
    if node.name not in ("Op2", "OpEach"):
        return ()
    entry = graph.tables.ops[node.data[0]]
    op = find_op(entry.op)
    if op is None:
        return ()
    holes = [i for i, e in enumerate(entry.template) if isinstance(e, Hole)]
    scratch = [i for i in holes if op.operands[min(i, len(op.operands) - 1)].role is Role.SCRATCH]
    return tuple(holes.index(i) for i in (*op.writes, *scratch) if i in holes)
