"""Loads and stores (`spec/tile_ir.md` section 7).

`tile.load(x, [k, 0], [16, 64], [16, 64])` of a tensor of which v rows are valid is a tile [16, 64] with valid
`[min(max(v - k, 0), 16), 64]`. `tile.store` transfers the valid region of its tile; a tile of another rank
than its tensor fills the box of operand 3 (or the one that `partition_window` finds) row by row, as a 2-D
store of a flattened tile does. Where its rows fill no box, they go one after another over the axes.
"""

from __future__ import annotations

from math import prod
from typing import Any

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, const_int, index
from pypto_ir.interp.values import Evaluation, RunError, Tile, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.linear import provably_gt
from pypto_ir.ops.numeric import working
from pypto_ir.ops.registry import (
    CallSite,
    Kwarg,
    OpError,
    Trait,
    declare_op,
    dims_text,
    kind_name,
    tensor,
    tile,
    tuple_of,
    type_of,
)
from pypto_ir.ops.rules import optional_tuple
from pypto_ir.partition import NoWindow, is_row_run, partition_window, row_boxes
from pypto_ir.regions import add_index, static, window_read, write_union
from pypto_ir.scale_boxes import BLOCKED_RANK, BOX, FRACTAL, MX_LAYOUTS, by_axis, is_blocked, is_scale_tile, logical_shape
from pypto_ir.stmt import tuple_items
from pypto_ir.types import (
    Layout,
    Memory,
    TensorType,
    TensorView,
    TileLayout,
    TileType,
    TileView,
    Type,
    dims,
    tensor_type,
    tile_type,
)

ROW, COL = TileLayout.ROW_MAJOR, TileLayout.COL_MAJOR
_MX_DTYPES = frozenset({DType.FP8E8M0, DType.UINT8})

declare(B112="a load of MX scales goes elsewhere than to Mat")

# ---- load --------------------------------------------------------------------------------------------------


def target_space(c: CallSite) -> Memory | None:
    """The space that the keyword argument target_memory names."""
    word = c.kwarg("target_memory")
    return Memory(str(word)) if word is not None else None


def _load_type(c: CallSite) -> TileType:
    source, space = c.tensor(0), target_space(c)
    offsets, window = c.tuple(1), c.tuple(2)
    valid = window_read(
        c.op.name,
        source.shape,
        source.valid,
        offsets,
        window,
        optional_tuple(c, 3),
        exact=False,
        clamp=bool(c.kwarg("clamp")),
    )
    view = TileView(valid=valid)
    if source.layout in MX_LAYOUTS:
        _check_scales(source, space)
        order = MX_LAYOUTS[source.layout]
        view = TileView(valid=valid, blayout=order, slayout=order, fractal=FRACTAL)
    elif space is Memory.MAT:
        transposed = source.layout is Layout.DN
        rows = window[1 if transposed else 0] if len(window) == 2 else index(0)
        if const_int(rows) != 1:
            blayout, slayout = (ROW, COL) if transposed else (COL, ROW)
            view = TileView(valid=valid, blayout=blayout, slayout=slayout)
    elif const_int(window[-1]) == 1:
        view = TileView(valid=valid, blayout=COL)
    return tile_type(window, source.dtype, space, view)


def _check_scales(source: TensorType, space: Memory | None) -> None:
    what = f"tile.load of a {source.layout.value} tensor of {source.dtype.value}"
    help = "MX scales are FP8E8M0 or UINT8 and are loaded with target_memory Mat"
    if source.dtype not in _MX_DTYPES:
        raise OpError(what, help)
    if space is not Memory.MAT:
        raise OpError(f"{what} has {f'target_memory {space.value}' if space else 'no target_memory'}", help, "B112")


def _load(ev: Evaluation) -> Tile:
    """The valid cells come from memory, all others are undefined. A result of fewer axes than its window
    holds the window's valid rows one after another (`spec/flatten.md` section 2)."""
    source, offsets, window = ev.tensor(0), ev.args[1], ev.args[2]
    assert ev.dtype is not None
    data, ok = np.zeros(ev.shape, dtype=numpy_dtype(ev.dtype)), np.zeros(ev.shape, dtype=bool)
    if len(ev.shape) == len(window):
        _copy(source, offsets, ev.valid, data, ok)
        return Tile(data, ok, ev.valid)
    if len(ev.shape) != 2:
        raise RunError(f"a window of rank {len(window)} cannot be loaded into a tile of rank {len(ev.shape)}")
    if len(window) == BLOCKED_RANK and isinstance(ev.type, TileType) and ev.type.effective_view.fractal == FRACTAL:
        return _load_boxes(ev, window)
    region = _declared_region(ev, source, offsets, window)
    block, block_ok = np.zeros(region, dtype=data.dtype), np.zeros(region, dtype=bool)
    _copy(source, offsets, region, block, block_ok)
    rows, columns = prod(region[:-1]), region[-1]
    data[:rows, :columns], ok[:rows, :columns] = block.reshape(rows, columns), block_ok.reshape(rows, columns)
    return Tile(data, ok & _inside(ev), ev.valid)


def _inside(ev: Evaluation) -> Any:
    mask = np.zeros(ev.shape, dtype=bool)
    mask[tuple(slice(0, v) for v in ev.valid)] = True
    return mask


def _copy(source: Any, offsets: tuple[int, ...], region: tuple[int, ...], data: Any, ok: Any) -> None:
    """Read `region` at `offsets` into the origin of `data` and `ok`; an empty region reads nothing, wherever
    it lies."""
    if all(region):
        where = tuple(slice(0, n) for n in region)
        data[where], ok[where] = source.read(offsets, region)


def _declared_region(ev: Evaluation, source: Any, offsets: tuple[int, ...], window: tuple[int, ...]) -> tuple[int, ...]:
    """The valid box of an N-D window whose result is 2-D: what is requested, cut to what the source holds
    where the result says so."""
    given = tuple(ev.args[3]) if len(ev.args) > 3 and ev.args[3] else tuple(window)
    clamp = bool(ev.kwarg("clamp"))
    held = tuple(
        min(request, size if valid == extent and not clamp else min(max(valid - offset, 0), size))
        for request, size, valid, extent, offset in zip(given, window, source.valid, source.shape, offsets, strict=True)
    )
    # the rows and the columns are cut each for itself: a request that may be kept is
    lead = given[:-1] if prod(given[:-1]) == ev.valid[0] else held[:-1]
    return (*lead, given[-1] if given[-1] == ev.valid[1] else held[-1])


def _load_boxes(ev: Evaluation, window: tuple[int, ...]) -> Tile:
    """A window [1, h, w, 16, 2] of blocked MX scales as the logical tile [16 h, 2 w] (A) or [2 w, 16 h] (B);
    `spec/mx.md` sections 2, 3."""
    assert isinstance(ev.type, TileType)
    layout = Layout.MX_A_ZZ if ev.type.effective_view.blayout is ROW else Layout.MX_B_NN
    order = _BOX_ORDER[layout]
    parts = ev.tensor(0).read(ev.args[1], window)
    data, ok = (x[0].transpose(order).reshape(logical_shape(layout, window)) for x in parts)
    return ev.fresh(data, ok)


#: axes of blocks, pairs of groups, rows and columns of a box in the order of logical rows, then columns
_BOX_ORDER = {Layout.MX_A_ZZ: (0, 2, 1, 3), Layout.MX_B_NN: (1, 3, 0, 2)}


declare_op(
    "tile.load",
    (tensor("src"), tuple_of("offsets"), tuple_of("shapes"), tuple_of("valid", optional=True)),
    infer=_load_type,
    trait=Trait.STRUCTURE,
    meaning=_load,
    reads_memory=(0,),
    kwargs=(Kwarg("target_memory", Memory, words=("Vec", "Mat")), Kwarg("clamp", bool, default=False)),
)

# ---- store -------------------------------------------------------------------------------------------------

ATOMIC_DTYPES = frozenset({DType.FP32, DType.BF16, DType.FP16, DType.INT32, DType.INT16, DType.INT8})


def _store_type(c: CallSite) -> Type:
    source, offsets, target = c.tile(0), c.tuple(1), c.tensor(2)
    box = optional_tuple(c, 3)
    if len(offsets) != target.rank:
        raise OpError(
            f"tile.store has {len(offsets)} offsets for a tensor of rank {target.rank}",
            "give one per tensor dimension",
        )
    if c.kwarg("atomic") == "Add" and target.dtype not in ATOMIC_DTYPES:
        raise OpError(
            f"tile.store adds atomically into {target.dtype.value}",
            "allowed: FP32, BF16, FP16, INT32, INT16, INT8",
        )
    if is_blocked(target):
        _check_scale_store(source, target)
    if box is not None:
        _check_box(target, offsets, box)
        return target
    if source.rank != target.rank:
        if source.rank > target.rank:
            raise OpError(
                f"tile.store of a rank-{source.rank} tile into a tensor of rank {target.rank}",
                "reshape the tile first",
            )
        return target
    valid = write_union(c.op.name, target.shape, target.valid, source.shape, source.valid, offsets, exact=False)
    if target.view is None:
        return target
    v = target.view
    view = TensorView(v.stride, v.layout, valid, v.pad)
    return tensor_type(target.shape, target.dtype, view, target.distributed, target.memref)


def _check_scale_store(source: TileType, target: TensorType) -> None:
    """What is stored into blocked scales are whole boxes in the order of the tensor."""
    whole = static(source.valid)
    boxes = whole is not None and len(whole) == 2 and not any(n % box for n, box in zip(by_axis(target.layout, whole), BOX, strict=True))
    if source.dtype is not target.dtype or not is_scale_tile(source, target.layout) or not boxes:
        order = MX_LAYOUTS[target.layout].value
        raise OpError(
            f"tile.store of {kind_name(source)} valid {dims_text(source.valid)} into blocked {target.layout.value} scales",
            f"it needs whole boxes of 16 x 2 scales in {order}/{order}, fractal {FRACTAL}",
        )


def _check_box(target: TensorType, offsets: tuple[Expr, ...], box: tuple[Expr, ...]) -> None:
    if len(box) != target.rank:
        raise OpError(f"the box of tile.store has {len(box)} dims for a tensor of rank {target.rank}")
    for i, (offset, size, extent) in enumerate(zip(offsets, box, target.shape, strict=True)):
        if provably_gt(add_index(offset, size), extent):
            raise OpError(f"tile.store writes past the end of dimension {i}: box {dims_text(box)} at {dims_text(offsets)}")


def _store(ev: Evaluation) -> Any:
    """Transfer the valid region; cells are converted to the tensor's dtype (nearest value). Returns the
    tensor."""
    source, offsets, target = ev.tile(0), ev.args[1], ev.tensor(2)
    region = tuple(slice(0, v) for v in source.valid)
    data, ok = _stored(source.data[region], target.dtype), source.ok[region]
    if not data.size:
        return target
    add = ev.kwarg("atomic") == "Add"
    if target.layout in MX_LAYOUTS and len(target.shape) == BLOCKED_RANK and data.ndim == 2:
        _store_boxes(target, offsets, data, ok)
        return target
    box = ev.args[3] if len(ev.args) > 3 and ev.args[3] else None
    if box is None and data.ndim == len(target.shape):
        target.write(offsets, data, ok, accumulate=add)
        return grown(target, offsets, source.valid)
    if box is None:
        where = (dims(*source.valid), dims(*target.shape), dims(*offsets))
        found = partition_window(*where)
        if isinstance(found, NoWindow):
            if not _written_as_run(ev) or not is_row_run(*where):
                raise RunError(f"tile.store {found.reason}")
            data, ok = (x.reshape(-1, x.shape[-1]) for x in (data, ok))
            for part in row_boxes(*where) or ():
                rows = slice(part.first, part.first + part.rows)
                _write_rows(target, static(part.offsets) or (), static(part.window) or (), data[rows], ok[rows], add)
            return target
        box = tuple(const_int(e) or 0 for e in found)
    _write_rows(target, offsets, box, data, ok, add)
    return target


def _written_as_run(ev: Evaluation) -> bool:
    """True where the types tell that the rows fill no box. A box of dynamic extents that fits by its type is a promise, and one that is
    broken is an error."""
    source, target = type_of(ev.call.args[0]), type_of(ev.call.args[2])
    at = tuple_items(ev.call.args[1])
    return isinstance(source, TileType) and isinstance(target, TensorType) and at is not None and is_row_run(source.valid, target.shape, at)


def grown(target: Any, offsets: tuple[int, ...], written: tuple[int, ...]) -> Any:
    """The tensor with the valid extents that it has after a write at `offsets` (write_union): [8, 64] of
    [32, 64] and 8 rows at row 8 are [16, 64]. The type rule has made sure that the union is a rectangle."""
    if target.valid == target.shape or not all(written):
        return target
    far = tuple(min(o + n, d) for o, n, d in zip(offsets, written, target.shape, strict=True))
    union = tuple(map(max, target.valid, far)) if all(target.valid) else far
    same = union == target.valid
    return target if same else target.view(target.shape, union, target.layout, target.strides)


def _store_boxes(target: Any, offsets: tuple[int, ...], data: Any, ok: Any) -> None:
    """Whole boxes of a logical tile to blocked scales: the inverse of `_load_boxes`."""
    by_row = target.layout is Layout.MX_A_ZZ
    (h, block), (w, group) = zip(by_axis(target.layout, data.shape), BOX, strict=True)
    split = (h // block, block, w // group, group) if by_row else (w // group, group, h // block, block)
    order = (0, 2, 1, 3) if by_row else (2, 0, 3, 1)
    target.write(offsets, *(x.reshape(split).transpose(order)[None] for x in (data, ok)))


def _stored(data: Any, dtype: DType) -> Any:
    return data if data.dtype == numpy_dtype(dtype) else working(data, dtype).astype(numpy_dtype(dtype))


def _write_rows(target: Any, offsets: tuple[int, ...], box: tuple[int, ...], data: Any, ok: Any, add: bool) -> None:
    """Row r of the valid rows goes to the box position `unravel(r, box[:-1])`, columns along the last
    axis."""
    rows, columns = prod(data.shape[:-1]), data.shape[-1]
    data, ok = data.reshape(rows, columns), ok.reshape(rows, columns)
    if rows > prod(box[:-1]) or columns > box[-1]:
        raise RunError(f"tile.store of {rows} rows of {columns} columns does not fit its box {list(box)}")
    if rows == prod(box[:-1]):
        shape = (*box[:-1], columns)
        target.write(offsets, data.reshape(shape), ok.reshape(shape), accumulate=add)
        return
    one = (1,) * (len(box) - 1)
    for r in range(rows):
        at = tuple(int(o) + int(i) for o, i in zip(offsets, (*np.unravel_index(r, box[:-1]), 0), strict=True))
        target.write(at, data[r].reshape(*one, columns), ok[r].reshape(*one, columns), accumulate=add)


declare_op(
    "tile.store",
    (tile("src"), tuple_of("offsets"), tensor("dst"), tuple_of("shapes", optional=True)),
    infer=_store_type,
    trait=Trait.STRUCTURE,
    meaning=_store,
    writes_memory=(2,),
    aliases=2,
    kwargs=(Kwarg("atomic", str, words=("Add",)),),
)
