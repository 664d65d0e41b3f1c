"""Arrays, queues between cores, synchronisation, communication, addresses: types, order and effects."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from op_support import (
    BF16,
    FP32,
    INT8,
    INT32,
    V,
    Value,
    at,
    const,
    defined,
    evaluation,
    infer,
    run,
    tensor_t,
    tile_t,
    var,
)

from pypto_ir.dtypes import DType
from pypto_ir.interp.calls import compile_call
from pypto_ir.interp.inputs import Lane
from pypto_ir.interp.values import UNDEFINED, RunError
from pypto_ir.ops.registry import OpError, Trait, all_ops, find_op
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import Call
from pypto_ir.types import (
    INDEX,
    ArrayType,
    CommCtxType,
    Memory,
    PtrType,
    ScalarType,
    Type,
    UnknownType,
    scalar_var,
)

E4M3, E8M0, TASK = DType.FP8E4M3FN, DType.FP8E8M0, ScalarType(DType.TASK_ID)
I32, NOTHING = ScalarType(INT32), UnknownType()
ARRAY = ArrayType(4, INT32)
ACC = tile_t((32, 32), memory=Memory.ACC)
T, GM = tile_t((16, 16)), tensor_t((64, 64))
SCALE, LEFT = tile_t((32, 2), E8M0, memory=Memory.LEFT_SCALE), tile_t((32, 64), E4M3, memory=Memory.LEFT)
PIPES = {"set_pipe": "MTE2", "wait_pipe": "V", "event_id": 0}

TYPES: list[tuple[str, tuple[Any, ...], dict[str, Any], Type]] = [
    ("array.create", (4,), {"dtype": "INT32"}, ARRAY),
    ("array.get_element", (ARRAY, scalar_var("i")), {}, I32),
    ("array.update_element", (ARRAY, 0, 5), {}, ARRAY),
    ("tile.aiv_shard", (ACC,), {"split": 2}, tile_t((32, 16))),
    ("tile.aiv_shard", (tile_t((7, 32)),), {"split": 1}, tile_t((4, 32))),
    ("tile.aiv_shard", (tile_t((8, 32), valid=(V, 32)),), {"split": 0}, tile_t((8, 32), valid=(V, 32))),
    ("tile.aiv_shard", (tile_t((8, 32), valid=(3, 32)),), {"split": 1}, tile_t((4, 32), valid=(3, 32))),
    ("tile.aiv_shard", (ACC,), {}, NOTHING),
    ("tile.aic_gather", (T,), {"split": 1}, tile_t((32, 16), memory=Memory.MAT)),
    ("tile.aic_gather", (T,), {}, NOTHING),
    ("tile.tpush_to_aiv", (ACC,), {"split": 0}, NOTHING),
    ("tile.tpush_to_aic", (T,), {"split": 1, "id": 2, "lane_stride": 64}, NOTHING),
    ("tile.tpop_from_aic", (), {"split": 0}, NOTHING),
    ("tile.tpop_from_aiv", (), {}, NOTHING),
    ("tile.alloc", (8192,), {"memory": "Vec"}, PtrType()),
    ("tile.tget_scale_addr", (SCALE, LEFT), {}, SCALE),
    ("system.sync_src", (), PIPES, NOTHING),
    ("system.sync_dst", (), PIPES, NOTHING),
    ("system.bar_v", (), {}, NOTHING),
    ("system.bar_m", (), {}, NOTHING),
    ("system.bar_all", (), {}, NOTHING),
    ("system.syncall", (), {"core_type": "aiv_only"}, NOTHING),
    ("system.fence", (), {}, NOTHING),
    ("system.cacheinvalid", (GM,), {}, NOTHING),
    ("system.tfree_to_aic", (T,), {}, NOTHING),
    ("system.tfree_to_aiv", (T,), {"id": 1}, NOTHING),
    ("system.aic_initialize_pipe", (var(I32), const(0, INT32)), {"dir_mask": 1, "slot_size": 1024}, NOTHING),
    ("system.aiv_initialize_pipe", (var(I32), const(0, INT32)), {"dir_mask": 1}, NOTHING),
    ("system.reserve_buffer", (), {"name": "c2v", "size": 4096, "base": 4096}, I32),
    ("system.import_peer_buffer", (), {"name": "c2v", "peer_func": "consumer"}, I32),
    ("system.task_dummy", (), {"deps": (scalar_var("t1", DType.TASK_ID),)}, TASK),
    ("system.task_invalid", (), {}, TASK),
    ("system.async_prefetch", (GM,), {"bytes": 64}, NOTHING),
    ("pld.tile.remote_load", (GM, 0, (0, 0), (16, 16)), {}, T),
    ("pld.tile.remote_load", (GM, 0, (48, 0), (16, 16), (V, 16)), {}, tile_t((16, 16), valid=(V, 16))),
    ("pld.tile.remote_store", (T, 0, (0, 0), GM), {}, NOTHING),
    ("pld.tile.get", (GM, GM), {"peer": 1}, NOTHING),
    ("pld.tile.put", (GM, GM), {}, NOTHING),
    ("pld.tensor.get", (GM, GM), {}, NOTHING),
    ("pld.tensor.put", (GM, GM), {}, NOTHING),
    ("pld.tensor.allreduce", (GM,), {"kind": "sum"}, NOTHING),
    ("pld.alloc_window_buffer", (4096,), {}, NOTHING),
    ("pld.window", (at(16, 16),), {"dtype": "FP32"}, NOTHING),
    ("pld.system.notify", (GM, 0, 1), {"kind": "set"}, NOTHING),
    ("pld.system.wait", (GM, 0, 1), {}, NOTHING),
    ("pld.system.fence", (), {}, NOTHING),
    ("pld.system.barrier", (), {}, NOTHING),
    ("pld.world_size", (), {}, INDEX),
    ("pld.rank", (), {}, INDEX),
    ("pld.nranks", (), {}, INDEX),
    ("pld.get_comm_ctx", (GM,), {}, CommCtxType()),
]


@pytest.mark.parametrize(("op", "operands", "kwargs", "expected"), TYPES, ids=[f"{r[0]}-{i}" for i, r in enumerate(TYPES)])
def test_the_result_type_of(op: str, operands: Any, kwargs: Any, expected: Type) -> None:
    assert infer(op, *operands, **kwargs) == expected


REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("array.create", (0,), {"dtype": "INT32"}, "positive"),
    ("array.create", (4,), {"dtype": "FP32"}, "integers, BOOL or TASK_ID"),
    ("array.get_element", (ARRAY, 4), {}, "outside an array of 4"),
    ("array.get_element", (T, 0), {}, "must be an array"),
    ("array.get_element", (ARRAY, const(1.0)), {}, "must be an integer"),
    ("array.update_element", (ARRAY, 0, const(1.5)), {}, "puts FP32"),
    ("tile.aiv_shard", (ACC,), {"split": 3}, "0 not split"),
    ("tile.aiv_shard", (tile_t((2, 4, 8)),), {"split": 1}, "rank 2"),
    ("tile.tpush_to_aiv", (ACC,), {"speed": 3}, "no keyword argument speed"),
    ("tile.alloc", (const(1.0),), {"memory": "Vec"}, "number of bytes"),
    ("tile.alloc", (8192,), {"memory": "Cache"}, "cannot be Cache"),
    ("tile.tget_scale_addr", (SCALE, tile_t((32, 64), E4M3, memory=Memory.RIGHT)), {}, "a Left one"),
    ("tile.tget_scale_addr", (SCALE, tile_t((32, 64), BF16, memory=Memory.LEFT)), {}, "dtype BF16"),
    ("system.sync_src", (), {"set_pipe": "V"}, "needs the keyword argument wait_pipe"),
    ("system.task_dummy", (), {"deps": 3}, "cannot be 3"),
    ("system.reserve_buffer", (), {"name": "c2v"}, "needs the keyword argument size"),
    ("pld.tile.remote_load", (GM, 0, (56, 0), (16, 16)), {}, "past the end"),
]


@pytest.mark.parametrize(("op", "operands", "kwargs", "text"), REFUSED, ids=[f"{r[0]}-{r[3]}" for r in REFUSED])
def test_operands_that_do_not_fit_are_refused(op: str, operands: Any, kwargs: Any, text: str) -> None:
    with pytest.raises(OpError) as caught:
        infer(op, *operands, **kwargs)
    assert re.search(text, f"{caught.value.message}; {caught.value.help}")


def element(op: str, t: Type, *values: Any, **kwargs: Any) -> Any:
    declared = find_op(op)
    assert declared is not None and declared.meaning is not None
    return declared.meaning(evaluation(declared, list(values), kwargs, t))


def test_an_array_holds_what_was_put_into_it() -> None:
    empty = element("array.create", ARRAY, 4, dtype="INT32")
    one = element("array.update_element", ARRAY, empty, 2, 5)
    assert element("array.get_element", I32, one, 2) == 5
    assert element("array.get_element", I32, one, 0) is UNDEFINED
    assert element("array.get_element", I32, empty, 2) is UNDEFINED


def test_elements_of_an_array_wrap_and_stay_in_bounds() -> None:
    bytes_ = ArrayType(2, INT8)
    empty = element("array.create", bytes_, 2, dtype="INT8")
    assert element("array.update_element", bytes_, empty, 0, 200)[0] == -56
    for i in (-1, 2):
        with pytest.raises(RunError, match="array of 2 elements"):
            element("array.get_element", I32, empty, i)


def test_a_bound_scale_holds_the_scales() -> None:
    scales = Value(np.full((32, 2), 2.0), E8M0, memory=Memory.LEFT_SCALE)
    data = Value(np.ones((32, 64)), E4M3, memory=Memory.LEFT)
    assert defined(run("tile.tget_scale_addr", scales, data)) == [[2.0, 2.0]] * 32


def test_an_allocation_has_an_address() -> None:
    assert element("tile.alloc", PtrType(), 8192, memory="Vec") == 0


def test_barriers_are_nothing_to_one_core_and_pushes_are_not() -> None:
    def done(op: str, *args: Any, **kwargs: Any) -> Any:
        call = Call(op, tuple(var(a) for a in args), tuple(kwargs.items()))
        return compile_call(call, None, in_place=False, division="floor", lane=Lane.of(0))({})

    assert done("system.bar_all") is None
    assert done("system.sync_src", **PIPES) is None
    assert done("system.tfree_to_aic", T) is None
    for op, operand in (("tile.tpush_to_aiv", ACC), ("pld.tensor.put", GM)):
        with pytest.raises(RunError, match="no meaning") as caught:
            done(op, operand)
        assert caught.value.code == "R003"


EFFECTS = ("system.", "pld.system.", "pld.tile.", "pld.tensor.", "tile.tpush", "tile.tpop", "tile.ai")


def test_ops_that_other_cores_see_keep_their_order() -> None:
    seen = [op for op in all_ops() if op.name.startswith(EFFECTS)]
    assert len(seen) > 25
    for op in seen:
        assert op.barrier and op.trait is Trait.OPAQUE and not op.pure, op.name


def test_ops_with_open_lists_take_any_operand_and_keyword() -> None:
    call = Call("pld.tensor.put", (var(GM), at(1, 2), const(1.5, FP32)), (("mode", "ring"), ("n", 3)))
    assert infer_call(call) == NOTHING
    found = find_op("pld.tensor.put")
    assert found is not None and found.kwarg("whatever") is not None
    closed = find_op("tile.add")
    assert closed is not None and closed.kwarg("whatever") is None
