"""Communication between devices: the `pld` namespace (`spec/tile_ir.md` sections 7 and 10).

`pld.tile.remote_load(d, peer, [0, 0], [16, 64])` is a tile [16, 64] of the part of a distributed tensor that
lies on another device. Puts, notifications and waits have effects that other devices see: nothing moves
across them. The sources name these ops but not all of their operands and types, so any operands are taken and
the program's own types are believed.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto_ir.expr import const_int
from pypto_ir.ops.cross_core import no_result
from pypto_ir.ops.registry import CallSite, Trait, anything, declare_op, scalar, tensor, tuple_of
from pypto_ir.ops.rules import in_vec, optional_tuple
from pypto_ir.regions import window_read
from pypto_ir.types import (
    INDEX,
    CommCtxType,
    TileLayout,
    TileType,
    TileView,
    Type,
    tile_type,
)


def _remote_load_type(c: CallSite) -> TileType:
    source, offsets, window = c.tensor(0), c.tuple(2), c.tuple(3)
    valid = window_read(c.op.name, source.shape, source.valid, offsets, window, optional_tuple(c, 4), exact=False)
    column = const_int(window[-1]) == 1
    blayout = TileLayout.COL_MAJOR if column else TileLayout.ROW_MAJOR
    return tile_type(window, source.dtype, None, TileView(valid=valid, blayout=blayout))


declare_op(
    "pld.tile.remote_load",
    (
        tensor("src"),
        scalar("peer"),
        tuple_of("offsets"),
        tuple_of("shapes"),
        tuple_of("valid", optional=True),
    ),
    infer=in_vec(_remote_load_type),
    trait=Trait.OPAQUE,
    barrier=True,
    annotated=True,
    open=True,
)


def _gives(t: Type) -> Callable[[CallSite], Type]:
    return lambda c: t


_EFFECTS = (
    "pld.tile.remote_store", "pld.tile.get", "pld.tile.put",
    "pld.tensor.get", "pld.tensor.put", "pld.tensor.allreduce",
    "pld.alloc_window_buffer", "pld.window",
    "pld.system.notify", "pld.system.wait", "pld.system.fence", "pld.system.barrier",
)  # fmt: skip
#: questions to the run time and what they give
_QUERIES: tuple[tuple[str, Type], ...] = (
    ("pld.world_size", INDEX),
    ("pld.rank", INDEX),
    ("pld.nranks", INDEX),
    ("pld.get_comm_ctx", CommCtxType()),
)
for _name in _EFFECTS:
    declare_op(
        _name,
        (anything("operands", optional=True),),
        infer=no_result,
        trait=Trait.OPAQUE,
        barrier=True,
        variadic=True,
        annotated=True,
        open=True,
    )
for _name, _t in _QUERIES:
    declare_op(
        _name,
        (anything("operands", optional=True),),
        infer=_gives(_t),
        trait=Trait.OPAQUE,
        variadic=True,
        annotated=True,
        open=True,
    )
