"""New tiles: create and full (`spec/tile_ir.md` section 7).

`tile.create([2, 16, 64])` is a tile of which no cell is defined, `tile.full([1, 16], 0.0)` one that holds 0.0
in every cell.
"""

from __future__ import annotations

from dataclasses import replace

from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, dtype_of
from pypto_ir.interp.values import Evaluation, Tile, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.ops.memory import target_space
from pypto_ir.ops.numeric import filled
from pypto_ir.ops.registry import (
    DTYPE_WORDS,
    MEMORY_WORDS,
    CallSite,
    Kwarg,
    OpError,
    Trait,
    declare_op,
    dims_text,
    scalar,
    tuple_of,
)
from pypto_ir.ops.rules import constant_shape, in_vec
from pypto_ir.types import (
    Compact,
    Memory,
    TileLayout,
    TileType,
    TileView,
    implicit_view,
    tile_type,
)

ROW, COL, NONE = TileLayout.ROW_MAJOR, TileLayout.COL_MAJOR, TileLayout.NONE_BOX


def _create_type(c: CallSite) -> TileType:
    shape, space, dtype = constant_shape(c, 0), target_space(c), DType(str(c.kwarg("dtype")))
    if space in (Memory.LEFT_SCALE, Memory.RIGHT_SCALE):
        raise OpError(f"tile.create in {space.value}", "create or load the scales in Mat and move them")
    view = None
    for name, wanted, allowed in (
        ("transpose", (ROW, COL), len(shape) == 2),
        ("flat_layout", (ROW, NONE), True),
    ):
        if c.kwarg(name):
            if space is not Memory.MAT or not allowed or view is not None:
                raise OpError(
                    f"tile.create with {name} of {dims_text(shape)}",
                    "only Mat tiles (2-D for transpose) take one of them",
                )
            view = TileView(blayout=wanted[0], slayout=wanted[1])
    if c.kwarg("compact"):
        if space is not Memory.ACC or len(shape) != 2:
            raise OpError(f"tile.create with compact of {dims_text(shape)}", "only 2-D Acc tiles take it")
        view = replace(implicit_view(shape, space), compact=Compact.NORMAL)
    return tile_type(shape, dtype, space, view)


def _create(ev: Evaluation) -> Tile:
    """A tile of which no cell is defined."""
    assert ev.dtype is not None
    return ev.fresh(np.zeros(ev.shape, dtype=numpy_dtype(ev.dtype)), np.False_)


def _full_type(c: CallSite) -> TileType:
    value = c.args[1]
    if not isinstance(value, Const):
        raise OpError("the value of tile.full must be a constant", "use tile.create and tile.expands for a scalar")
    if dtype_of(value) is DType.BOOL and c.kwarg("dtype") != "BOOL":
        raise OpError("tile.full of a number cannot take a BOOL value")
    return tile_type(constant_shape(c, 0), DType(str(c.kwarg("dtype"))), None, TileView())


_DTYPE = Kwarg("dtype", DType, required=True, words=DTYPE_WORDS)
declare_op(
    "tile.create",
    (tuple_of("shape"),),
    infer=_create_type,
    trait=Trait.STRUCTURE,
    meaning=_create,
    kwargs=(
        _DTYPE,
        Kwarg("target_memory", Memory, words=MEMORY_WORDS),
        Kwarg("transpose", bool, default=False),
        Kwarg("flat_layout", bool, default=False),
        Kwarg("compact", bool, default=False),
    ),
)
declare_op(
    "tile.full",
    (tuple_of("shape"), scalar("value")),
    infer=in_vec(_full_type),
    trait=Trait.STRUCTURE,
    meaning=filled,
    kwargs=(_DTYPE,),
)
