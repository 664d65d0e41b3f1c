"""Prices of single ops: the worked examples of spec/hardware.md 2 and 5, and what must hold for all."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from effort import calls_of

from extract.cost import call_cost, cost, cycles
from extract.cycles import EPSILON, Cycles, objective, rounded
from extract.target import Target, load_target
from pypto_ir.dtypes import DType
from pypto_ir.expr import Var
from pypto_ir.ops.registry import Kind, OpDef, ShapeRule, all_ops
from pypto_ir.stmt import Call
from pypto_ir.types import (
    INDEX,
    Memory,
    ScalarType,
    TensorType,
    TileType,
    TileView,
    TupleType,
    Type,
    UnknownType,
    dims,
    scalar_var,
    tensor_type,
    tile_type,
    with_valid,
)

A2, A5 = load_target("ascend910b"), load_target("ascend950")
BOTH = pytest.mark.parametrize("target", [A2, A5], ids=["ascend910b", "ascend950"])
F32, F16, I8 = DType.FP32, DType.FP16, DType.INT8
VEC, MAT, LEFT, RIGHT, ACC = Memory.VEC, Memory.MAT, Memory.LEFT, Memory.RIGHT, Memory.ACC


def tile(*shape: int, dtype: DType = F32, memory: Memory | None = VEC) -> TileType:
    return tile_type(dims(*shape), dtype, memory)


def load(t: TileType, target: Target = A2) -> Cycles:
    return cycles("tile.load", (tensor_type(t.shape, t.dtype),), t, (), target)


def store(t: TileType, target: Target = A2, dtype: DType | None = None) -> Cycles:
    out = tensor_type(t.shape, dtype or t.dtype)
    return cycles("tile.store", (t, TupleType((INDEX, INDEX)), out), out, (), target)


def unary(op: str, t: TileType, target: Target = A2, made: TileType | None = None) -> float:
    """Cycles on V, without the start of a stream."""
    return cycles(f"tile.{op}", (t,), made or t, (), target).v


def binary(op: str, t: TileType, target: Target = A2) -> float:
    return cycles(f"tile.{op}", (t, t), t, (), target).v


def startup(family: str, target: Target = A2) -> float:
    return target.vector.families[family].startup


def move(t: TileType, to: Memory, target: Target = A2, dtype: DType | None = None) -> Cycles:
    return cycles("tile.move", (t,), tile_type(t.shape, dtype or t.dtype, to), (), target)


def matmul(m: int, k: int, n: int, dtype: DType, target: Target = A2, memory: Memory | None = None) -> Cycles:
    a = tile(m, k, dtype=dtype, memory=memory or LEFT)
    b = tile(k, n, dtype=dtype, memory=memory or RIGHT)
    return cycles("tile.matmul", (a, b), tile(m, n, memory=ACC), (), target)


def test_loads_take_the_cycles_of_the_simulator() -> None:
    """spec/hardware.md 2.2, the examples marked [RUN], truncated as there."""
    assert int(load(tile(128, 256, dtype=F16, memory=MAT)).mte2) == 836
    assert int(load(tile(128, 256, dtype=F16)).mte2) == 1119
    assert int(load(tile(16, 128, dtype=F16, memory=MAT)).mte2) == 52
    assert int(load(tile(64, 64, memory=MAT)).mte2) == 209
    assert int(load(tile(64, 64)).mte2) == 279


def test_stores_take_the_cycles_of_the_simulator() -> None:
    assert int(store(tile(128, 256, dtype=F16)).mte3) == 599
    assert int(store(tile(64, 64)).mte3) == 149


@pytest.mark.parametrize(("m", "n", "expected"), [(16, 256, 303), (128, 128, 734), (128, 256, 1275), (64, 80, 1114)])
def test_drains_of_accumulators_follow_the_device_fit(m: int, n: int, expected: int) -> None:
    assert round(store(tile(m, n, memory=ACC)).fix) == expected
    assert store(tile(m, n, memory=ACC), dtype=F16) == store(tile(m, n, memory=ACC))


def test_a_drain_with_the_bandwidth_of_the_a5_simulator_takes_890_cycles() -> None:
    simulated = replace(A5, drain=replace(A5.drain, bandwidth=30.0))
    assert round(store(tile(16, 256, memory=ACC), simulated).fix) == 890


def test_a_wide_a5_drain_stays_near_the_published_gemm() -> None:
    """spec/hardware.md 1.4: about 950 cycles for [128, 256]."""
    assert round(store(tile(128, 256, memory=ACC), A5).fix) == pytest.approx(950, rel=0.02)


def test_accumulators_move_into_l1_at_two_bytes_an_element() -> None:
    assert int(move(tile(128, 128, memory=ACC), MAT, dtype=F16).fix - A2.drain.fixed) == 441
    window = tile(64, 64, dtype=F16, memory=MAT)
    taken = cycles("tile.extract", (tile(64, 128, memory=ACC), INDEX, INDEX), window, (), A2)
    assert int(taken.fix - A2.drain.fixed) == 110


def test_operands_move_into_l0_at_the_calibrated_rates() -> None:
    a, b = tile(128, 64, dtype=F16, memory=MAT), tile(64, 256, dtype=F16, memory=MAT)
    assert (round(move(a, LEFT).mte1), round(move(b, RIGHT).mte1)) == (126, 384)
    square = tile(128, 128, dtype=F16, memory=MAT)
    assert (round(move(square, LEFT).mte1), round(move(square, RIGHT).mte1)) == (253, 384)
    assert move(square, LEFT, A5).mte1 == rounded(32768 / 206.3)
    assert move(square, RIGHT, A5).mte1 == rounded(32768 / 223.8)


@pytest.mark.parametrize(
    ("m", "k", "n", "dtype", "expected"),
    [(128, 128, 128, F16, 533), (16, 128, 256, F16, 149), (16, 16, 16, F16, 22), (128, 64, 128, F32, 1045),
     (128, 128, 128, I8, 277), (128, 64, 256, F16, 533)],
)  # fmt: skip
def test_matmuls_follow_the_device_fit(m: int, k: int, n: int, dtype: DType, expected: int) -> None:
    assert matmul(m, k, n, dtype).m == expected


def test_matmuls_of_a5_follow_the_simulator_fit() -> None:
    assert matmul(128, 128, 128, F16, A5).m == 537
    assert matmul(128, 64, 128, F32, A5).m == 4121


def test_a_matmul_on_l1_operands_is_charged_its_way_into_l0() -> None:
    in_l0, in_l1 = matmul(128, 128, 128, F16), matmul(128, 128, 128, F16, memory=MAT)
    moves = move(tile(128, 128, dtype=F16, memory=MAT), LEFT) + move(tile(128, 128, dtype=F16, memory=MAT), RIGHT)
    assert (in_l0.mte1, in_l1.m) == (0.0, in_l0.m)
    assert in_l1 == in_l0 + moves


def test_a_batched_matmul_costs_its_pages() -> None:
    a, b = tile(2, 3, 32, 64, dtype=F16, memory=MAT), tile(3, 64, 16, dtype=F16, memory=MAT)
    batched = cycles("tile.batch_matmul", (a, b), tile(2, 3, 32, 16, memory=ACC), (), A2)
    assert batched == matmul(32, 64, 16, F16, memory=MAT) * 6


def test_scale_operands_of_a_product_are_charged_too() -> None:
    f8, e8 = DType.FP8E4M3FN, DType.FP8E8M0
    a, b = tile(16, 256, dtype=f8, memory=MAT), tile(256, 128, dtype=f8, memory=MAT)
    sa, sb = tile(16, 8, dtype=e8, memory=MAT), tile(8, 128, dtype=e8, memory=MAT)
    acc = tile(16, 128, memory=ACC)
    plain = cycles("tile.matmul", (a, b), acc, (), A5)
    scaled = cycles("tile.matmul_mx", (a, sa, b, sb), acc, (), A5)
    assert scaled.m == plain.m == 25 + 8 * 8
    assert scaled.mte1 > plain.mte1
    assert cycles("tile.matmul_mx_acc", (acc, a, sa, b, sb), acc, (), A5) == scaled


@pytest.mark.parametrize(
    ("op", "family", "operands", "expected"),
    [("add", "add", 2, 152), ("mul", "mul", 2, 153), ("div", "div", 2, 286), ("exp", "exp", 1, 159),
     ("muls", "muls", 1, 90), ("expands", "fill", 1, 88)],
)  # fmt: skip
def test_the_first_vector_op_of_a_stream_takes_startup_and_slope(op: str, family: str, operands: int, expected: int) -> None:
    """spec/hardware.md 2.3, fp32 64x64; the price leaves the startup out."""
    price = cycles(f"tile.{op}", (tile(64, 64),) * operands, tile(64, 64), (), A2)
    assert price.v + startup(family) == expected


def test_back_to_back_adds_take_128_cycles() -> None:
    assert binary("add", tile(64, 64)) == 128
    assert binary("add", tile(128, 128, dtype=F16)) + startup("add") == 280
    assert binary("add", tile(128, 128)) + startup("add") == pytest.approx(549, rel=0.03)


def test_casts_reductions_and_broadcasts_take_what_the_tables_say() -> None:
    t, column, row = tile(64, 64), tile(64, 1), tile(1, 64)
    v = A2.vector
    assert unary("cast", t, made=tile(64, 64, dtype=F16)) + startup("cast") == 91
    assert unary("row_max", t, made=column) + v.row_reduce.startup == 480
    assert unary("col_sum", t, made=row) + v.col_reduce.startup == 1263
    assert cycles("tile.row_expand", (t, column), t, (), A2).v + v.row_expand.startup == 933
    assert cycles("tile.row_expand_mul", (t, column), t, (), A2).v + startup("mul") == 172
    assert cycles("tile.col_expand_mul", (t, row), t, (), A2) == cycles("tile.mul", (t, t), t, (), A2)
    assert int(move(t, VEC).v) == 27
    assert unary("row_argmax", t, made=column) == 2 * unary("row_max", t, made=column)


@pytest.mark.parametrize(("rows", "dtype", "expected"), [(64, F32, 130), (128, F32, 437), (64, F16, 68), (128, F16, 222)])
def test_transposes_take_the_cycles_of_the_simulator(rows: int, dtype: DType, expected: int) -> None:
    t = tile(rows, rows, dtype=dtype)
    assert int(cycles("tile.transpose", (t, INDEX, INDEX, t), t, (), A2).v) == expected


def test_a5_vector_ops_follow_their_fit() -> None:
    """spec/hardware.md 2.4, examples: TADD 135 (strided 348), TEXP 189, TCVT 137, fp16 128x128 TADD 215."""
    t = tile(64, 64)
    strided = with_valid(tile(64, 128), dims(64, 64))
    assert round(binary("add", t, A5) + startup("add", A5)) == 135
    assert round(binary("add", strided, A5) + A5.vector.families["add"].row_startup) == 348
    assert round(unary("exp", t, A5) + startup("exp", A5)) == 189
    assert round(unary("cast", t, A5, tile(64, 64, dtype=F16)) + startup("cast", A5)) == 137
    assert round(binary("add", tile(128, 128, dtype=F16), A5) + startup("add", A5)) == 215


def test_strided_tiles_take_repeats_per_row() -> None:
    strided = with_valid(tile(64, 128), dims(64, 65))
    assert binary("add", strided) == 2 * 64 * 2
    assert binary("add", with_valid(tile(64, 128), dims(10, 128))) == 2 * 20


def test_narrow_tiles_take_a_repeat_per_row_and_columns_none() -> None:
    assert binary("add", tile(100, 8)) == 2 * 100
    assert binary("add", tile(128, 1)) == 2 * 2
    assert binary("add", tile(100, 8), A5) == rounded(1.247 * 13)


def test_dynamic_valid_extents_are_priced_as_physical() -> None:
    t = tile(64, 128)
    dynamic = with_valid(t, (scalar_var("v"), t.shape[1]))
    assert binary("add", dynamic) == binary("add", t)
    assert load(dynamic) == load(t)
    assert load(with_valid(t, dims(32, 128))).mte2 == pytest.approx(load(t).mte2 / 2, rel=1e-4)


@BOTH
def test_tiles_of_higher_rank_cost_their_flat_form(target: Target) -> None:
    deep, flat = tile(2, 3, 16, 40), tile(96, 40)
    for op in ("add", "exp", "muls", "row_expand_mul", "fillpad"):
        assert cycles(f"tile.{op}", (deep, deep), deep, (), target) == cycles(f"tile.{op}", (flat, flat), flat, (), target)
    assert load(deep, target) == load(flat, target)
    assert store(deep, target) == store(flat, target)


def test_moves_that_the_machine_lacks_go_the_shortest_way_round() -> None:
    acc = tile(64, 64, memory=ACC)
    around = move(acc, VEC)
    assert (around.fix, around.mte2) == (store(acc).fix, load(tile(64, 64)).mte2)
    assert move(acc, VEC, A5).mte2 == 0.0
    assert move(tile(64, 64, dtype=F16), MAT).mte3 > 0 and move(tile(64, 64, dtype=F16), MAT).mte2 > 0
    assert move(tile(64, 64, dtype=F16), MAT, A5).mte2 == 0.0


def test_windows_of_an_accumulator_and_their_write_backs_cost_nothing() -> None:
    big, part = tile(64, 128, memory=ACC), tile(64, 64, memory=ACC)
    assert cycles("tile.assemble", (big, part), big, (), A2) == Cycles()
    assert cycles("tile.slice", (big,), part, (), A2) == Cycles()
    assert cycles("tile.slice", (tile(64, 128),), tile(64, 64), (), A2) == Cycles(s=1.0)
    big, part = tile(64, 128), tile(64, 64)
    assert cycles("tile.assemble", (big, part), big, (), A2).v == 64.0
    big, part = tile(128, 64), tile(64, 64)
    assert int(cycles("tile.assemble", (big, part), big, (), A2).v) == 27


def test_traffic_counts_bytes_per_channel() -> None:
    t = tile(64, 64)
    assert cost("tile.load", (tensor_type(t.shape, F32),), t, (), A2).traffic == (("DDR->Vec", 16384),)
    assert cost("tile.move", (tile(64, 64, memory=ACC),), t, (), A2).traffic == (
        ("Acc->DDR", 16384),
        ("DDR->Vec", 16384),
    )
    assert cost("tile.add", (t, t), t, (), A2).traffic == ()


SIZES = (1, 2, 3, 7, 15, 16, 17, 31, 32, 63, 64, 65, 96, 127, 128, 129, 255, 256, 300)


@BOTH
@pytest.mark.parametrize("op", ["load", "store", "add", "exp", "cast", "row_sum", "col_max", "row_expand",
                                "row_expand_sub", "fillpad", "move", "gather", "transpose", "rem",
                                "unknown"])  # fmt: skip
def test_a_larger_tile_is_never_cheaper(op: str, target: Target) -> None:
    def price(rows: int, cols: int) -> Cycles:
        t = tile(rows, cols)
        if op in ("load", "store"):
            return load(t, target) if op == "load" else store(t, target)
        made = {"cast": tile(rows, cols, dtype=F16), "row_sum": tile(rows, 1), "col_max": tile(1, cols)}.get(op, t)
        return cycles(f"tile.{op}", (t, t), made, (), target)

    for fixed in (2, 16, 60, 128):
        for small, large in pairwise(SIZES[1:]):
            assert price(small, fixed).total <= price(large, fixed).total, (small, fixed)
            assert price(fixed, small).total <= price(fixed, large).total, (fixed, small)


@BOTH
@pytest.mark.parametrize("op", ["load", "store", "add", "exp", "cast", "row_sum"])
def test_one_instruction_is_cheaper_than_two_halves(op: str, target: Target) -> None:
    def price(rows: int, cols: int) -> float:
        t = tile(rows, cols)
        if op in ("load", "store"):
            return objective([(1.0, load(t, target) if op == "load" else store(t, target))])
        made = {"cast": tile(rows, cols, dtype=F16), "row_sum": tile(rows, 1)}.get(op, t)
        return objective([(1.0, cycles(f"tile.{op}", (t, t), made, (), target))])

    for rows in SIZES:
        for cols in SIZES:
            assert price(2 * rows, cols) < 2 * price(rows, cols), (rows, cols)


def operands_of(op: OpDef, t: TileType) -> tuple[Type, ...]:
    kinds: dict[Kind, Type] = {
        Kind.TILE: t,
        Kind.TENSOR: tensor_type(t.shape, t.dtype),
        Kind.SCALAR: ScalarType(DType.INT32),
        Kind.TUPLE: TupleType((INDEX, INDEX)),
        Kind.ANY: t,
    }
    return tuple(kinds[o.kind] for o in op.operands)


@BOTH
def test_every_declared_op_has_a_price(target: Target) -> None:
    t = tile(32, 64)
    for op in all_ops():
        for result in (t, tensor_type(t.shape, t.dtype), ScalarType(DType.INT32), TupleType((t, t))):
            price = cycles(op.name, operands_of(op, t), result, (), target)
            assert price.total > 0, op.name
            assert all(value >= 0 for value in price.values), op.name


def test_every_declared_op_on_tile_elements_is_priced_as_vector_work() -> None:
    t = tile(32, 64)
    reductions = (ShapeRule.ROW_REDUCE, ShapeRule.COL_REDUCE)
    for op in all_ops():
        if op.name.startswith("tile.") and (op.trait.value == "pointwise" or op.shape in reductions):
            assert cycles(op.name, operands_of(op, t), t, (), A2).v > 0, op.name


def test_an_op_that_nothing_is_known_of_takes_the_fallback() -> None:
    t, gm = tile(32, 64), tensor_type(dims(32, 64), F32)
    assert cycles("tile.mystery", (t,), t, (), A2) == Cycles(v=2 + 2048 / 32, s=2)
    assert cycles("tile.mystery", (gm,), t, (), A2) == Cycles(mte2=3 + 2048 / 32, s=3)
    assert cycles("tile.mystery", (t, gm), gm, (), A2) == Cycles(mte3=3 + 2048 / 32, s=3)
    assert cycles("tile.mystery", (t,), tile(32, 64, memory=ACC), (), A2) == Cycles(m=4 + 2048 / 16, s=4)
    assert cycles("tile.mystery", (t,), tile(32, 64, memory=LEFT), (), A2) == Cycles(mte1=1 + 2048 / 64, s=1)
    assert cycles("system.mystery", (), INDEX, (), A2) == Cycles(s=1)


def test_high_precision_costs_more_where_the_target_says_so() -> None:
    t, precise = tile(32, 64), (("high_precision", True),)
    assert cycles("tile.recip", (t,), t, precise, A5).v == 345 * 32
    assert cycles("tile.recip", (t,), t, precise, A2) == cycles("tile.recip", (t,), t, (), A2)


def test_sums_of_prices_do_not_depend_on_their_order() -> None:
    parts = [load(tile(m, n)) for m in SIZES for n in SIZES]
    parts += [cycles("tile.exp", (tile(m, n),), tile(m, n), (), A5) for m in SIZES for n in SIZES]
    forward, backward = Cycles(), Cycles()
    for part in parts:
        forward = forward + part
    for part in reversed(parts):
        backward = backward + part
    assert forward == backward
    weighted = [(float(i % 7) / 2, part) for i, part in enumerate(parts)]
    assert objective(weighted) == objective(reversed(weighted))


def test_the_objective_is_the_busiest_pipe_and_a_part_of_the_sum() -> None:
    body = Cycles(mte2=800, m=500, s=16)
    assert objective([(1.0, Cycles(s=4)), (8, body)]) == 4 * (1 + EPSILON) + 8 * (800 + 1316 * EPSILON)


def test_a_remembered_price_is_quick() -> None:
    a = with_valid(tile(64, 64), dims(32, 64))
    made = tile(64, 64)
    call = Call("tile.add", (Var("a", a), Var("b", made)), (("mode", 1),))
    call_cost(call, made, A2)
    again = calls_of(lambda: call_cost(call, made, A2))
    first = calls_of(lambda: cost("tile.add", (a, made), made, call.kwargs, A2))
    assert again < first / 2


def test_a_boxless_l1_load_counts_whole_blocks() -> None:
    plain = tile_type(dims(16, 20), F16, MAT, TileView())
    assert cost("tile.load", (TensorType(plain.shape, F16),), plain, (), A2).traffic == (("DDR->Mat", 16 * 64),)


def test_a_gather_by_comparison_works_on_its_source() -> None:
    t, found = tile(8, 64), tile(8, 8, dtype=DType.INT32)
    price = cycles("tile.gather_compare", (t, ScalarType(F32), t), TupleType((found, found)), (), A2)
    parts = cycles("tile.cmp", (t, t), t, (), A2) + cycles("tile.gather", (t, t, t), t, (), A2)
    assert price == parts


def test_freeing_a_queue_slot_moves_no_data() -> None:
    assert cycles("system.tfree_to_aic", (tile(32, 64),), UnknownType(), (), A2) == Cycles(s=1)


@BOTH
@pytest.mark.parametrize("memory", [ACC, MAT])
def test_vector_op_pays_for_bringing_its_operands_to_ub(target: Target, memory: Memory) -> None:
    """A later pass moves to UB what an op there reads (`spec/tile_ir.md` 6), so that leaving the move out makes nothing cheaper."""
    afar, near = tile(16, 64, memory=memory), tile(16, 64)
    move = cost("tile.move", (afar,), near, (("target_memory", "Vec"),), target)
    for op, operands in (("tile.exp", (afar,)), ("tile.add", (near, afar)), ("tile.cast", (afar,))):
        moved = cost(op, tuple(near for _ in operands), near, (), target)
        there = cost(op, operands, near, (), target)
        assert there.cycles == moved.cycles + move.cycles and set(move.traffic) <= set(there.traffic)
