"""Prices of functions: regions, trips, and the objective."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from effort import calls_of

from extract.cost import call_cost
from extract.cycles import Cycles, objective
from extract.price import ARM_TRIPS, Price, price, price_program
from extract.target import Code, load_target
from extract.trips import DEFAULT_TRIPS, interval, trips
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, MakeTuple, Unary, Var, index
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
    Carry,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Param,
    Return,
    Scope,
    Submit,
    While,
    Yield,
)
from pypto_ir.types import Memory, TensorType, TileType, TupleType, dims, scalar_var, tensor_type, tile_type

A2, A5 = load_target("ascend910b"), load_target("ascend950")
F32 = DType.FP32
KERNELS = Path(__file__).parents[2].parent / "shared" / "kernels"


def tup(*values: int | Expr) -> MakeTuple:
    return MakeTuple(dims(*values))


def add_twice(name: str, shape: tuple[int, ...]) -> Block:
    """load, add, store of a whole tensor."""
    t, gm = tile_type(dims(*shape), F32, Memory.VEC), tensor_type(dims(*shape), F32)
    x, y, out = Var(f"{name}_x", t), Var(f"{name}_y", t), Var("out", gm)
    window = (tup(*[0] * len(shape)), tup(*shape), tup(*shape))
    return (
        Assign((x,), Call("tile.load", (Var("gm", gm), *window), (("target_memory", "Vec"),))),
        Assign((y,), Call("tile.add", (x, x))),
        Assign((Var(f"{name}_o", gm),), Call("tile.store", (y, window[0], out))),
    )


def function(body: Block, *params: Param) -> Function:
    return Function("main", params, body=body, kind="InCore")


def of(body: Block, *params: Param, default_trips: int = DEFAULT_TRIPS) -> Price:
    return price(function(body, *params), A2, default_trips)


def loop(body: Block, stop: Expr | int, start: Expr | int = 0, step: Expr | int = 1, name: str = "i") -> For:
    return For(scalar_var(name), *dims(start, stop, step), body)


def ranged(name: str, low: int, high: int) -> Param:
    return Param(scalar_var(name), range=(low, high))


N = scalar_var("n")


def test_a_straight_body_is_the_sum_of_its_calls() -> None:
    body = add_twice("a", (64, 64))
    calls = [call_cost(s.value, s.target.type, A2).cycles for s in body if isinstance(s, Assign) and isinstance(s.value, Call)]
    total = calls[0] + calls[1] + calls[2]
    found = of((*body, Return(())))
    assert found.cycles == total
    assert found.cost == objective([(1.0, total)]) == total.mte2 + total.total / 16
    assert found.traffic == {"DDR->Vec": 16384, "Vec->DDR": 16384}
    assert found.memory_bytes == 32768


def test_an_n_d_program_costs_its_flat_form() -> None:
    assert of(add_twice("a", (2, 3, 4))).cost == of(add_twice("a", (6, 4))).cost
    assert of(add_twice("a", (2, 3, 4))).cycles == of(add_twice("a", (6, 4))).cycles


def test_loops_multiply_what_they_hold() -> None:
    body = add_twice("a", (64, 64))
    single, looped = of(body), of((loop(body, 8),))
    assert [r.kind for r in looped.regions] == ["body", "for"]
    assert [r.trips for r in looped.regions] == [1.0, 8.0]
    assert looped.regions[1].cycles == single.cycles + Cycles(s=2.0, code=1.0)
    assert looped.traffic["DDR->Vec"] == 8 * 16384
    nested = of((loop((loop(body, 4, name="j"),), 8),))
    assert [(r.label, r.parent, r.trips) for r in nested.regions] == [
        (None, None, 1.0),
        ("i", 0, 8.0),
        ("j", 1, 32.0),
    ]


def test_each_arm_of_a_branch_counts_half() -> None:
    body = add_twice("a", (64, 64))
    cond = Const(True, DType.BOOL)
    one, both = of((If(cond, body),)), of((If(cond, body, body),))
    assert [r.kind for r in both.regions] == ["body", "then", "else"]
    assert both.regions[1].trips == ARM_TRIPS == 0.5
    assert one.cost - one.regions[0].cycles.peak * 17 / 16 == of(body).cost / 2
    assert both.cycles.pipes == (of(body).cycles + Cycles(s=1.0)).pipes
    assert both.instructions == 2 * of(body).instructions + 1


def test_what_both_arms_need_costs_the_same_in_front() -> None:
    body, cond = add_twice("a", (64, 64)), Const(True, DType.BOOL)
    assert of((If(cond, body, body),)).cycles.pipes == of((*body, If(cond, (), ()))).cycles.pipes


def test_a_while_runs_the_default_number_of_trips() -> None:
    body = add_twice("a", (64, 64))
    found = of((While(Const(True, DType.BOOL), (*body, Yield(())), (Carry(N, index(0)),)),), default_trips=5)
    assert found.regions[1].trips == 5.0


def test_the_body_of_a_scope_belongs_to_the_region_around_it() -> None:
    body = add_twice("a", (64, 64))
    assert of((Scope("cluster", body),)) == of(body)


def test_scalar_statements_cost_a_cycle_and_aliases_none() -> None:
    v = scalar_var("v")
    assert of((Assign((v,), Binary("add", N, index(4))),)).cycles == Cycles(s=1.0, code=1.0)
    assert of((Assign((v,), N),)).cycles == of((Assign((v,), index(4)),)).cycles == Cycles()
    assert of((Eval(FunctionCall("g")),)).cycles == Cycles(s=1.0, code=1.0)


def test_each_expression_with_an_operator_costs_a_cycle() -> None:
    v = scalar_var("v")
    for value in (Unary("neg", N), Binary("add", N, N), Cast(N, DType.INT32)):
        assert of((Assign((v,), value),)).cycles == Cycles(s=1.0, code=1.0)
    assert of((Assign((v,), FunctionCall("g")),)).cycles == of((Assign((v,), Submit("g")),)).cycles == Cycles(s=1.0, code=1.0)
    assert of((Eval(N),)).cycles == Cycles(s=1.0, code=1.0)


T = tile_type(dims(16, 16), F32, Memory.VEC)
X = Var("x", T)


def test_a_trip_and_a_branch_cost_scalar_cycles_and_one_for_each_tile_that_they_hand_on() -> None:
    carries = (Carry(Var("a", T), X), Carry(Var("k", N.type), N), Carry(Var("b", T), X))
    body = (Yield((X, N, X)),)
    results = (Var("r", T), Var("m", N.type), Var("q", T))
    always = Const(True, DType.BOOL)
    for s in (For(scalar_var("i"), index(0), index(4), index(1), body, carries, results), While(always, body, carries, results)):
        assert [r.cycles for r in of((s,)).regions] == [Cycles(), Cycles(s=4.0, code=1.0)]
    branch = of((If(Const(True, DType.BOOL), body, body, results),))
    assert [r.cycles for r in branch.regions] == [Cycles(s=3.0, code=1.0), Cycles(), Cycles()]
    assert [r.cycles for r in of((loop((), 4),)).regions] == [Cycles(), Cycles(s=2.0, code=1.0)]


def test_regions_know_the_one_around_them() -> None:
    inner = If(Const(True, DType.BOOL), (), ())
    found = of(
        (
            loop(
                (
                    inner,
                    While(Const(True, DType.BOOL), (inner,)),
                ),
                8,
            ),
        ),
        default_trips=3,
    )
    assert [(r.kind, r.label, r.parent, r.trips) for r in found.regions] == [
        ("body", None, None, 1.0), ("for", "i", 0, 8.0), ("then", None, 1, 4.0), ("else", None, 1, 4.0), ("while", None, 1, 24.0),
        ("then", None, 4, 12.0), ("else", None, 4, 12.0),
    ]  # fmt: skip


def test_calls_that_nobody_names_are_priced_and_traffic_adds_up() -> None:
    body = add_twice("a", (64, 64))
    store = body[-1]
    assert isinstance(store, Assign) and isinstance(store.value, Call)
    assert of((*body[:2], Eval(store.value))).cycles == of(body).cycles
    twice = of((*body, *add_twice("b", (64, 64))))
    assert twice.traffic == {"DDR->Vec": 2 * 16384, "Vec->DDR": 2 * 16384}


def test_only_channels_of_global_memory_count_as_memory() -> None:
    left, made = (tile_type(dims(64, 64), DType.FP16, m) for m in (Memory.MAT, Memory.LEFT))
    found = of((*add_twice("a", (64, 64)), Assign((Var("l", made),), Call("tile.move", (Var("m", left),), (("target_memory", "Left"),)))))
    assert len(found.traffic) == 3 and sum(found.traffic.values()) > found.memory_bytes == 2 * 16384


def test_a_call_of_several_results_gives_a_tuple() -> None:
    call = Call("vendor.two", ())
    both = (Var("a", T), Var("b", T))
    assert of((Assign(both, call),)).cycles == call_cost(call, TupleType((T, T)), A2).cycles
    assert of((Assign(both[:1], call),)).cycles == call_cost(call, T, A2).cycles != call_cost(call, TupleType((T, T)), A2).cycles


@pytest.mark.parametrize(
    ("start", "stop", "step", "expected"),
    [(0, 16, 1, 16), (0, 17, 4, 5), (3, 3, 1, 0), (5, 3, 1, 0), (10, 0, -3, 4), (0, 4, -1, 0), (0, 8, 0, 7)],
)
def test_constant_bounds_give_exact_trips(start: int, stop: int, step: int, expected: int) -> None:
    assert trips(loop((), stop, start, step), {}, default=7) == expected


def test_ranges_give_the_most_trips_that_are_possible() -> None:
    ranges = {"n": (1, 128), "m": (0, 10)}
    m, unknown = scalar_var("m"), scalar_var("u")
    assert trips(loop((), N), ranges) == 128
    assert trips(loop((), N, step=16), ranges) == 8
    assert trips(loop((), Binary("mul", N, index(2)), m), ranges) == 256
    assert trips(loop((), Binary("add", m, index(8)), m), {}) == 8
    assert trips(loop((), Binary("floordiv", N, index(32))), ranges) == 4
    assert trips(loop((), Binary("min", unknown, index(12))), ranges) == 12
    assert trips(loop((), Binary("max", m, N)), ranges) == 128
    assert trips(loop((), Binary("sub", index(20), m)), ranges) == 20
    assert trips(loop((), Binary("mod", unknown, index(9))), ranges) == 8
    assert trips(loop((), unknown), ranges, default=3) == 3
    assert trips(loop((), N, step=unknown), ranges, default=3) == 3
    assert trips(loop((), m, N, -1), ranges) == 128


def test_intervals_hold_what_they_bound() -> None:
    ranges = {"n": (-3, 5), "m": (2, 4)}
    m = scalar_var("m")
    cases = [
        Binary("mul", N, m), Binary("sub", N, m), Unary("neg", N), Unary("abs", N), Binary("min", N, m),
        Binary("max", Binary("mul", N, index(-2)), m), Binary("floordiv", N, index(2)),
        Binary("mod", N, index(4)),
    ]  # fmt: skip
    python = [
        lambda n, m: n * m, lambda n, m: n - m, lambda n, m: -n, lambda n, m: abs(n), lambda n, m: min(n, m),
        lambda n, m: max(n * -2, m), lambda n, m: n // 2, lambda n, m: n % 4,
    ]  # fmt: skip
    for e, f in zip(cases, python, strict=True):
        low, high = interval(e, ranges)
        values = [f(n, m) for n in range(-3, 6) for m in range(2, 5)]
        assert low is not None and high is not None and low <= min(values) and max(values) <= high, e
    assert interval(Binary("sub", Binary("add", N, index(8)), N), {}) == (8, 8)


def test_inner_loops_see_the_ranges_of_outer_ones_and_of_scalars() -> None:
    i, k = scalar_var("i"), scalar_var("k")
    inner = loop((), 16, i, name="j")
    assert of((loop((inner,), 8),)).regions[2].trips == 8 * 16
    found = of((Assign((k,), Binary("min", N, index(6))), loop((), k)))
    assert found.regions[1].trips == 6
    assert of((loop((), N),), ranged("n", 2, 40)).regions[1].trips == 40
    assert of((loop((), N),), default_trips=9).regions[1].trips == 9


def test_removing_any_call_of_a_loop_is_a_gain() -> None:
    body = (*add_twice("a", (64, 64)), *add_twice("b", (2, 3, 4)))
    whole = of((loop(body, 8),)).cost
    for i in range(len(body)):
        assert of((loop(body[:i] + body[i + 1 :], 8),)).cost < whole


def test_pricing_is_linear_in_the_size_of_a_function() -> None:
    def calls(count: int) -> int:
        big = function(tuple(s for i in range(count) for s in add_twice(f"a{i}", (64, 64))))
        price(big, A2)
        return calls_of(lambda: price(big, A2))

    assert calls(3000) < 10.2 * calls(300)


def test_a_program_is_priced_by_in_core_function() -> None:
    from pypto_ir.stmt import Program

    host = Function("host", body=(), kind="Orchestration")
    found = price_program(Program(functions=(host, function(add_twice("a", (64, 64))))), A2)
    assert list(found) == ["main"]


@pytest.mark.parametrize("file", sorted(p.name for p in KERNELS.glob("*.json")))
@pytest.mark.parametrize("target", [A2, A5], ids=["ascend910b", "ascend950"])
def test_every_kernel_has_a_price(file: str, target: object) -> None:
    from pypto_ir.json_reader import read_program

    program = read_program((KERNELS / file).read_text(), file)
    for found in price_program(program, A2 if target is A2 else A5).values():
        assert found.cost > 0 and found.memory_bytes > 0
        assert found.cost == objective((r.trips, r.cycles) for r in found.regions)


def test_the_core_share_of_a_large_gemm_is_near_the_device() -> None:
    """spec/hardware.md 1.4 and 5: fp16 6144^3 on 24 cores takes 2.79 M cycles on the device.

    A core computes 1536 x 1024 in tiles [128, 256] of the result from [128, 256] of A and [256, 256] of B in
    L1; a step of the cube is 128 x 64 x 256.
    """
    f16 = DType.FP16
    gm_a, gm_b = tensor_type(dims(6144, 6144), f16), tensor_type(dims(6144, 6144), f16)
    out = Var("out", tensor_type(dims(6144, 6144), F32))

    def tile(name: str, rows: int, cols: int, memory: Memory, dtype: DType = f16) -> Var:
        return Var(name, tile_type(dims(rows, cols), dtype, memory))

    a, b = tile("a", 128, 256, Memory.MAT), tile("b", 256, 256, Memory.MAT)
    al, br = tile("al", 128, 64, Memory.LEFT), tile("br", 64, 256, Memory.RIGHT)
    acc, done = tile("acc", 128, 256, Memory.ACC, F32), tile("done", 128, 256, Memory.ACC, F32)

    def load(v: Var, source: TensorType) -> Assign:
        assert isinstance(v.type, TileType)
        window = MakeTuple(v.type.shape)
        return Assign(
            (v,),
            Call("tile.load", (Var("gm", source), tup(0, 0), window, window), (("target_memory", "Mat"),)),
        )

    def extract(v: Var, source: Var, to: str) -> Assign:
        assert isinstance(v.type, TileType)
        zero = index(0)
        return Assign(
            (v,),
            Call("tile.extract", (source, zero, zero, MakeTuple(v.type.shape)), (("target_memory", to),)),
        )

    step = (
        extract(al, a, "Left"),
        extract(br, b, "Right"),
        Assign((done,), Call("tile.matmul_acc", (acc, al, br))),
    )
    k_loop = loop((load(a, gm_a), load(b, gm_b), loop(step, 4, name="s")), 24, name="k")
    drain = Assign((Var("o", out.type),), Call("tile.store", (done, tup(0, 0), out)))
    found = of((loop((k_loop, drain), 48, name="t"),))
    assert found.cycles.mte2 == pytest.approx(2_900_485, rel=0.01)
    assert found.cycles.peak == found.cycles.mte2 == pytest.approx(2_790_000, rel=0.05)


def test_instructions_beyond_those_that_are_cached_are_fetched_once_a_run() -> None:
    body = add_twice("a", (64, 64))
    tight = replace(A2, code=Code(2, 7.5, "made up"))
    for text in (body, (loop(body, 8),), (loop((loop(body, 4, name="j"),), 8),)):
        found, cached = price(function(text), tight), price(function(text), A2)
        assert found.instructions == cached.instructions == 3 + sum(r.kind == "for" for r in found.regions)
        assert (found.code, cached.code) == (7.5 * (found.instructions - 2), 0.0)
        assert found.cost == cached.cost + found.code == objective(((r.trips, r.cycles) for r in found.regions), tight.code)
    assert price(function(body), replace(A2, code=Code(3, 7.5, "made up"))).code == 0


def test_windows_of_l0c_and_aliases_are_no_instructions() -> None:
    acc = Var("acc", tile_type(dims(16, 64), F32, Memory.ACC))
    window = Call("tile.slice", (acc, MakeTuple(dims(16, 16)), MakeTuple(dims(0, 16))))
    w = Var("w", infer_call(window))
    assert of((Assign((w,), window), Assign((Var("v", w.type),), w))).instructions == 0
