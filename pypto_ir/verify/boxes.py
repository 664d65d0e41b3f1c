"""Boxes of MX scales: what a function that carries the stamp `mx_tensor_views_blocked` may hold (`spec/mx.md` sections 2 and 3).

Its MX tensors are blocked, [1, blocks, pairs, 16, 2]. A load from one takes whole boxes at [0, block, pair, 0, 0], all of them whatever
the valid region of its tile is, and gives the logical tile that they hold: [1, 2, 1, 16, 2] of MX_A_ZZ is a tile [32, 2] in
row_major/row_major with fractal 32, in Mat.
"""

from __future__ import annotations

from pypto_ir.diagnostics import Diagnostic, Diagnostics, declare
from pypto_ir.expr import const_int
from pypto_ir.ops.registry import dims_text, kind_name, type_of
from pypto_ir.regions import static
from pypto_ir.scale_boxes import BLOCKED_RANK, BOX, blocked_shape, is_blocked, is_mx, is_scale_tile, logical_shape
from pypto_ir.stmt import Assign, Call, Eval, Function, Stmt, definitions, tuple_items
from pypto_ir.types import Dims, Memory, TensorType, TileType, TupleType, Type, dims
from pypto_ir.verify.places import StmtPath, place, walk_paths

declare(
    V401="a function whose scales are stamped as blocked holds an MX tensor that is not",
    V402="a window of blocked scales is not made of whole boxes of its tensor",
    V403="the tile of a load of blocked scales is not what its boxes hold",
)

#: the attribute of functions whose MX tensors are blocked; its presence counts, not its value
STAMP = "mx_tensor_views_blocked"


def stamped(f: Function) -> bool:
    return any(key == STAMP for key, _ in f.attrs)


def blocked_scales(f: Function, path: StmtPath = ()) -> list[Diagnostic]:
    """What contradicts the stamp of a function; nothing for a function without it. `path` is the function's own path."""
    bag = Diagnostics()
    if not stamped(f):
        return []
    for key, types in (("params", [p.var.type for p in f.params]), ("returns", list(f.returns))):
        for i, t in enumerate(types):
            _check_type(bag, t, f, (*path, key, i), None)
    for at, s in walk_paths(f.body, (*path, "body")):
        for var in definitions(s):
            _check_type(bag, var.type, f, at, s)
        if isinstance(s, Assign | Eval) and isinstance(s.value, Call):
            _check_call(bag, s.value, s.target.type if isinstance(s, Assign) else None, f, at, s)
    return list(bag)


def _check_type(bag: Diagnostics, t: Type, f: Function, at: StmtPath, s: Stmt | None) -> None:
    for item in t.items if isinstance(t, TupleType) else (t,):
        if isinstance(item, TupleType):
            _check_type(bag, item, f, at, s)
        elif is_mx(item) and not is_blocked(item):
            help = "block the program without the stamp, or state the blocked form [1, blocks, pairs, 16, 2]"
            bag.add("V401", f"{kind_name(item)} is not blocked in a function that carries {STAMP}", place(f, at, s), help)


def _check_call(bag: Diagnostics, call: Call, target: Type | None, f: Function, at: StmtPath, s: Stmt) -> None:
    operand = {"tile.load": 0, "tile.store": 2}.get(call.op)
    source = None if operand is None else type_of(call.args[operand])
    if is_blocked(source):
        _check_window(bag, call, source, target, f, at, s)


def _check_window(bag: Diagnostics, call: Call, source: TensorType, target: Type | None, f: Function, at: StmtPath, s: Stmt) -> None:
    windows = [items for a in call.args[2:] if (items := tuple_items(a))] or [_held(call, source)]
    why = _misplaced(source, tuple_items(call.args[1]), windows)
    if why is not None:
        bag.add("V402", f"{call.op} {why}", place(f, at, s), "a window of scales is [1, blocks, pairs, 16, 2] at [0, block, pair, 0, 0]")
    elif isinstance(target, TileType):
        held = logical_shape(source.layout, static(windows[0]) or ())
        if static(target.shape) != held or target.memory is not Memory.MAT or not is_scale_tile(target, source.layout):
            message = f"the tile of a load of {dims_text(windows[0])} from {kind_name(source)} is {kind_name(target)}"
            bag.add("V403", message, place(f, at, s), f"it is a tile {list(held)} in Mat, in boxes as those of {source.layout.value}")


def _held(call: Call, target: TensorType) -> Dims:
    """The boxes that a store without a window writes: those of its tile's valid region, none where that is not made of boxes."""
    tile = type_of(call.args[0])
    assert isinstance(tile, TileType)
    valid = static(tile.valid)
    return dims(*((blocked_shape(target.layout, valid) if valid is not None else None) or ()))


def _misplaced(source: TensorType, offsets: Dims | None, windows: list[Dims]) -> str | None:
    """Why a window is not made of whole boxes of its tensor, in the words of a message."""
    if offsets is None or len(offsets) != BLOCKED_RANK or any(const_int(offsets[i]) != 0 for i in (0, 3, 4)):
        return f"of blocked scales at {dims_text(offsets) if offsets is not None else 'no literal offsets'}"
    for window in windows:
        sizes = static(window)
        if sizes is None or len(sizes) != BLOCKED_RANK or sizes[0] != 1 or sizes[3:] != BOX or sizes != static(windows[0]):
            return f"of blocked scales with the window {dims_text(window)}"
        for i in (1, 2):
            at, extent = const_int(offsets[i]), const_int(source.shape[i])
            if at is not None and extent is not None and not 0 <= at <= extent - sizes[i]:
                return f"takes {dims_text(window)} at {dims_text(offsets)} of {kind_name(source)}"
    return None
