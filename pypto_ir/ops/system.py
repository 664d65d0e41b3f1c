"""Ops for synchronisation, tasks, buffers between cores and on-chip allocation (`spec/tile_ir.md` section 7).

`system.sync_src` and `system.sync_dst` order two pipes, `system.bar_all` all of them, `system.syncall` all
cores. They compute nothing, and nothing may move across them. `system.reserve_buffer` gives the base of a
buffer as INT32, `system.task_dummy` a task that ends after those in `deps`, `tile.alloc(8192, memory=Vec)` a
pointer to 8192 bytes of Vec.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto_ir.dtypes import DType
from pypto_ir.interp.values import Evaluation
from pypto_ir.ops.cross_core import no_result
from pypto_ir.ops.registry import (
    MEMORY_WORDS,
    CallSite,
    Kwarg,
    Operand,
    OpError,
    Trait,
    anything,
    declare_op,
    scalar,
    tile,
)
from pypto_ir.types import Memory, PtrType, ScalarType, Type


def _gives(t: Type) -> Callable[[CallSite], Type]:
    return lambda c: t


_INT32, _TASK = _gives(ScalarType(DType.INT32)), _gives(ScalarType(DType.TASK_ID))
_PIPES = (
    Kwarg("set_pipe", str, required=True),
    Kwarg("wait_pipe", str, required=True),
    Kwarg("event_id", int, required=True),
)
_PIPE_INIT = (Kwarg("dir_mask", int), Kwarg("slot_size", int))
_BASES = (scalar("c2v_base"), scalar("v2c_base", optional=True))
#: name, operands, keyword arguments in printed order, result
_OPS: tuple[tuple[str, tuple[Operand, ...], tuple[Kwarg, ...], Callable[[CallSite], Type]], ...] = (
    ("sync_src", (), _PIPES, no_result),
    ("sync_dst", (), _PIPES, no_result),
    ("bar_v", (), (), no_result),
    ("bar_m", (), (), no_result),
    ("bar_all", (), (), no_result),
    ("syncall", (), (Kwarg("core_type", str),), no_result),
    ("fence", (), (), no_result),
    ("cacheinvalid", (anything("target", optional=True),), (), no_result),
    ("tfree_to_aic", (tile("src"),), (Kwarg("id", int),), no_result),
    ("tfree_to_aiv", (tile("src"),), (Kwarg("id", int),), no_result),
    ("aic_initialize_pipe", _BASES, _PIPE_INIT, no_result),
    ("aiv_initialize_pipe", _BASES, _PIPE_INIT, no_result),
    (
        "reserve_buffer",
        (),
        (Kwarg("name", str, required=True), Kwarg("size", int, required=True), Kwarg("base", int)),
        _INT32,
    ),
    (
        "import_peer_buffer",
        (),
        (Kwarg("name", str, required=True), Kwarg("peer_func", str, required=True)),
        _INT32,
    ),
    ("task_dummy", (), (Kwarg("deps", tuple),), _TASK),
    ("task_invalid", (), (), _TASK),
    ("async_prefetch", (anything("source"),), (), no_result),
)
#: ops of which the sources name neither all operands nor all keyword arguments
_OPEN = frozenset({"syncall", "fence", "cacheinvalid", "aic_initialize_pipe", "aiv_initialize_pipe", "async_prefetch"})
for _name, _operands, _kwargs, _result in _OPS:
    declare_op(
        f"system.{_name}",
        _operands,
        infer=_result,
        trait=Trait.OPAQUE,
        barrier=True,
        kwargs=_kwargs,
        open=_name in _OPEN,
        variadic=_name in _OPEN and bool(_operands),
    )


def _alloc_type(c: CallSite) -> Type:
    if not c.dtype(0).is_int:
        raise OpError(f"the size of tile.alloc has dtype {c.dtype(0).value}", "it is a number of bytes")
    return PtrType()


def _address(ev: Evaluation) -> int:
    """Where a buffer lies decides nothing that is computed: every buffer is at 0."""
    return 0


declare_op(
    "tile.alloc",
    (scalar("size"),),
    infer=_alloc_type,
    trait=Trait.OPAQUE,
    meaning=_address,
    barrier=True,
    kwargs=(
        Kwarg("memory", Memory, required=True, words=MEMORY_WORDS),
        Kwarg("pinned", bool, default=False),
    ),
)
