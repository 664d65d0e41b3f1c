"""Running programs: statements, loops, calls, limits, and the difference between the two modes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import calls_of

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, Var, index
from pypto_ir.interp.machine import Cut, Outcome, run
from pypto_ir.interp.values import UNDEFINED, RunError, Tile
from pypto_ir.json_reader import read_program
from pypto_ir.stmt import (
    Assign,
    Break,
    Carry,
    Continue,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Param,
    Program,
    Return,
    Scope,
    Stmt,
    Submit,
    While,
    Yield,
)  # fmt: skip
from pypto_ir.types import BOOL, INDEX, ScalarType, TensorType, dims, scalar_var

KERNELS = sorted((Path(__file__).parents[2].parent / "shared" / "kernels").glob("*.json"))
N = scalar_var("n")
P = Var("p", BOOL)


def let(name: str, value: Expr) -> Assign:
    return Assign((scalar_var(name),), value)


def scalars(*body: Stmt, **options: Any) -> tuple[Any, ...]:
    """Returned values of a function of n (7) and p (True)."""
    function = Function("f", (Param(N), Param(P)), (), tuple(body))
    inputs = {"n": 7, "p": True, **options.pop("inputs", {})}
    return run(Program(functions=(function,)), "f", inputs, **options).returned


def summing(start: int, stop: int, step: int, kind: str = "range") -> For:
    body = (
        let("b", Binary("add", Binary("mul", scalar_var("a"), index(10)), scalar_var("i"))),
        Yield((scalar_var("b"),)),
    )
    carry = (Carry(scalar_var("a"), index(0)),)
    return For(scalar_var("i"), index(start), index(stop), index(step), body, carry, (scalar_var("r"),), kind)


@pytest.mark.parametrize("kind", ["range", "parallel", "pipeline", "unroll"])
def test_every_kind_of_loop_carries_in_order(kind: str) -> None:
    assert scalars(summing(1, 4, 1, kind), Return((scalar_var("r"),))) == (123,)


def test_loops_step_like_python_ranges_and_give_their_init_for_no_trip() -> None:
    assert scalars(summing(5, 0, -2), Return((scalar_var("r"),))) == (531,)
    assert scalars(summing(3, 3, 1), Return((scalar_var("r"),))) == (0,)
    assert scalars(summing(1, 8, 3), Return((scalar_var("r"),))) == (147,)
    with pytest.raises(RunError, match="step 0"):
        scalars(summing(1, 4, 0))


def test_a_cut_loop_runs_its_first_trips_and_the_last_one() -> None:
    function = Function("f", (), (), (summing(1, 9, 1), Return((scalar_var("r"),))))
    program = Program(functions=(function,))
    outcome = run(program, "f", max_trips=3)
    assert outcome.returned == (128,) and not outcome.complete
    assert outcome.cuts == (Cut("f", "i", 8, 3),)
    assert run(program, "f", max_trips=8).complete
    assert run(program, "f", max_trips=3, cuttable=frozenset()).returned == (12345678,)
    assert run(program, "f", max_trips=1).returned == (8,)


def counting(stop: Expr) -> While:
    a, b = scalar_var("a"), scalar_var("b")
    body = (let("b", Binary("add", a, index(2))), Yield((b,)))
    return While(Binary("lt", a, stop), body, (Carry(a, index(0)),), (scalar_var("r"),))


def test_a_while_reads_its_carries_and_can_be_stopped() -> None:
    assert scalars(counting(N), Return((scalar_var("r"),))) == (8,)
    assert scalars(counting(index(0)), Return((scalar_var("r"),))) == (0,)
    assert scalars(counting(N), Return((scalar_var("r"),)), max_trips=2) == (4,)


def test_branches_hand_on_values_and_returns_end_the_function() -> None:
    r = scalar_var("r")
    branch = If(P, (Yield((N,)),), (Yield((index(1),)),), (r,))
    assert scalars(branch, Return((r,))) == (7,)
    assert scalars(branch, Return((r,)), inputs={"p": False}) == (1,)
    early = For(scalar_var("i"), index(0), N, index(1), (If(P, (Return((scalar_var("i"),)),)),))
    assert scalars(early, Return((N,))) == (0,)
    assert scalars(early, Return((N,)), inputs={"p": False}) == (7,)


def written(outcome: Outcome, name: str) -> list[int]:
    _, _, marks = outcome.memory[name].page(0)
    return [int(i) for i in np.flatnonzero(marks)]


def test_break_and_continue_leave_a_loop_or_a_trip() -> None:
    out = Var("out", TensorType(dims(8), DType.INT32))
    text = json.dumps({"op": "tensor.write", "args": ["out", ["i"], {"const": 1, "dtype": "INT32"}]})
    skip = {"if": "i == 1", "then": [{"continue": True}]}
    stop = {"if": "i == 4", "then": [{"break": True}]}
    loop = {"for": "i", "range": [0, 8, 1], "body": [skip, stop, json.loads(text)]}
    params = [{"name": out.name, "type": {"tensor": [8], "dtype": "INT32"}, "direction": "Out"}]
    program = read_program(json.dumps({"pypto_ir": 1, "functions": [{"name": "f", "params": params, "body": [loop]}]}))
    assert written(run(program, "f"), "out") == [0, 2, 3]
    assert any(isinstance(s, If) and isinstance(s.then[0], Break | Continue) for s in program.functions[0].body[0].body)


def test_names_of_a_scope_are_seen_after_it() -> None:
    scope = Scope("split_aiv", (let("a", Binary("add", N, index(1))),), scalar_var("lane"))
    a, lane = scalars(scope, Return((scalar_var("a"), scalar_var("lane"))), seed=1)
    assert a == 8 and lane in (0, 1)


def test_calls_bind_parameters_and_results() -> None:
    double = Function("double", (Param(N),), (INDEX, INDEX), (Return((Binary("add", N, N), N)),))
    x, y = scalar_var("x"), scalar_var("y")
    main = Function(
        "f",
        (Param(N),),
        (),
        (Assign((x, y), FunctionCall("double", (Binary("add", N, index(1)),))), Return((x, y))),
    )
    assert run(Program(functions=(double, main)), "f", {"n": 4}).returned == (10, 5)
    with pytest.raises(RunError, match="no function g"):
        run(Program(functions=(Function("f", (), (), (Eval(FunctionCall("g")),)),)), "f")


def test_a_submit_runs_its_function_on_fresh_tensors_for_what_is_left_out() -> None:
    tensor = TensorType(dims(2, 4), DType.FP32)
    leaf = Function("leaf", (Param(N), Param(Var("o", tensor), "Out")), (tensor,), (Return((Var("o", tensor),)),))
    result, task = Var("r", tensor), Var("tid", ScalarType(DType.TASK_ID))
    main = Function("f", (Param(N),), (), (Assign((result, task), Submit("leaf", (N,))), Return((result, task))))
    given, number = run(Program(functions=(leaf, main)), "f").returned
    assert number == 0 and given.shape == (2, 4) and not given.read((0, 0), (2, 4))[1].any()


def test_endless_programs_are_stopped() -> None:
    forever = While(P, ())
    for options, code in (({"step_limit": 1000}, "R004"), ({"deadline": time.monotonic() + 0.05}, "R007")):
        with pytest.raises(RunError) as caught:
            scalars(forever, **options)
        assert caught.value.code == code
    recursive = Function("f", (), (), (Eval(FunctionCall("f")),))
    with pytest.raises(RunError) as caught:
        run(Program(functions=(recursive,)), "f")
    assert caught.value.code == "R008"


def test_division_is_chosen_for_the_whole_run() -> None:
    quotient = Binary("floordiv", Binary("sub", index(0), N), index(2))
    assert scalars(Return((quotient,)), division="floor") == (-4,)
    assert scalars(Return((quotient,)), division="trunc") == (-3,)


def test_inputs_are_checked() -> None:
    tensor = Function("f", (Param(Var("x", TensorType(dims(2, 2), DType.FP32))),))
    program = Program(functions=(tensor,))
    with pytest.raises(RunError, match="neither parameters"):
        run(program, "f", {"y": 1})
    with pytest.raises(RunError, match="has shape"):
        run(program, "f", {"x": np.zeros((2, 3))})
    with pytest.raises(RunError, match="no function g"):
        run(program, "g")
    for options in ({"mode": "other"}, {"division": "other"}, {"max_trips": 0}):
        with pytest.raises(ValueError):
            run(program, "f", **options)


def test_scalars_are_drawn_from_their_range_ends_first() -> None:
    function = Function("f", (Param(N, range=(16, 496)),), (INDEX,), (Return((N,)),))
    drawn = [run(Program(functions=(function,)), "f", seed=seed).returned[0] for seed in range(40)]
    assert drawn[:2] == [496, 16] and all(16 <= v <= 496 for v in drawn) and len(set(drawn)) > 5


def test_dynamic_dims_are_one_size_in_the_whole_program() -> None:
    rows = scalar_var("S")
    tensor = TensorType((rows, index(8)), DType.FP32)
    body = (Return((Var("x", tensor), Var("y", tensor), rows)),)
    function = Function("f", (Param(Var("x", tensor)), Param(Var("y", tensor))), (), body)
    program = Program(functions=(function,), dynamic=("S",))
    sizes = set()
    for seed in range(20):
        x, y, size = run(program, "f", seed=seed).returned
        assert x.shape == y.shape == (size, 8) and 1 <= size <= 70
        sizes.add(size)
    assert len(sizes) > 5
    assert run(program, "f", {"S": 3}).returned[2] == 3


def in_core(*body: dict[str, Any], outs: int = 1) -> Program:
    params = [
        {"name": "x", "type": {"tensor": [16, 16], "dtype": "FP32"}},
        {"name": "k", "type": {"scalar": "INDEX"}},
    ]
    params += [{"name": f"o{i}", "type": {"tensor": [16, 16], "dtype": "FP32"}, "direction": "Out"} for i in range(outs)]
    function = {"name": "f", "kind": "InCore", "params": params, "body": list(body)}
    return read_program(json.dumps({"pypto_ir": 1, "functions": [function]}))


def op(name: str | None, op: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    head = {} if name is None else {"let": name}
    return {**head, "op": op, "args": list(args), **({"kwargs": kwargs} if kwargs else {})}


def load(name: str, shape: list[int], valid: list[Any] | None = None, row: Any = 0) -> dict[str, Any]:
    return op(name, "tile.load", "x", [row, 0], shape, valid or shape, target_memory="Vec")


ALIASED = in_core(
    load("t", [16, 16]), load("s", [8, 16], row=8),
    op("a", "tile.assemble", "t", "s", [0, 0]),
    op("w1", "tile.store", "t", [0, 0], "o0"), op("w2", "tile.store", "a", [0, 0], "o1"),
    outs=2,
)  # fmt: skip


def test_by_value_an_op_in_place_leaves_its_operand_and_in_buffer_mode_it_does_not() -> None:
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    changed = x.copy()
    changed[:8] = x[8:]
    for mode, old in (("value", x), ("buffer", changed)):
        memory = run(ALIASED, "f", {"x": x}, mode=mode).memory
        assert np.array_equal(memory["o0"].page(0)[0].reshape(16, 16), old)
        assert np.array_equal(memory["o1"].page(0)[0].reshape(16, 16), changed)


def test_in_buffer_mode_a_view_shows_writes_to_what_it_views() -> None:
    program = in_core(
        load("t", [16, 16]), load("s", [8, 16], row=8),
        op("v", "tile.slice", "t", [8, 16], [0, 0]),
        op("a", "tile.assemble", "t", "s", [0, 0]),
        op("w", "tile.store", "v", [0, 0], "o0"),
    )  # fmt: skip
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    for mode, rows in (("value", x[:8]), ("buffer", x[8:])):
        stored = run(program, "f", {"x": x}, mode=mode).memory["o0"].page(0)[0]
        assert np.array_equal(stored[:128].reshape(8, 16), rows)


def test_in_buffer_mode_scratch_operands_lose_their_content() -> None:
    program = in_core(
        load("t", [16, 16]), load("c", [16, 16]),
        op("m", "tile.row_max", "t", "c"), op("w", "tile.store", "c", [0, 0], "o0"),
    )  # fmt: skip
    assert run(program, "f").memory["o0"].page(0)[1].all()
    assert not run(program, "f", mode="buffer").memory["o0"].page(0)[1].any()


def test_cells_outside_of_the_valid_region_are_not_stored() -> None:
    program = in_core(load("t", [16, 16], ["k", 16]), op("w", "tile.store", "t", [0, 0], "o0"))
    outcome = run(program, "f", {"k": 3})
    assert written(outcome, "o0") == list(range(48))


def test_extents_that_leave_the_shape_and_reads_out_of_bounds_are_refused() -> None:
    too_many = in_core(load("t", [16, 16], ["k", 16]), op("w", "tile.store", "t", [0, 0], "o0"))
    for k in (17, -1):
        with pytest.raises(RunError) as caught:
            run(too_many, "f", {"k": k})
        assert caught.value.code == "R001"
    outside = in_core(load("t", [8, 16], row="k"), op("w", "tile.store", "t", [0, 0], "o0"))
    assert run(outside, "f", {"k": 8}).steps == 3
    with pytest.raises(RunError, match="axis 0 of x"):
        run(outside, "f", {"k": 9})


def test_a_scalar_read_from_an_undefined_cell_is_undefined_and_decides_nothing() -> None:
    made = op("t", "tile.create", [16, 16], dtype="FP32", target_memory="Vec")
    read = op("s", "tile.read", "t", [0, 0])
    spread = [op("u", "tile.full", [16, 16], 1, dtype="FP32"), op("v", "tile.muls", "u", "s")]
    stored = run(in_core(made, read, *spread, op("w", "tile.store", "v", [0, 0], "o0")), "f").memory["o0"]
    assert not stored.page(0)[1].any()
    returned = run(in_core(made, read, {"return": []}), "f")
    assert returned.returned == ()
    choice = {"if": "s > 0.0", "then": [op("w", "tile.store", "t", [0, 0], "o0")]}
    with pytest.raises(RunError) as caught:
        run(in_core(made, read, choice), "f")
    assert caught.value.code == "R005"


def test_writing_an_undefined_scalar_makes_one_cell_undefined() -> None:
    made = op("t", "tile.create", [16, 16], dtype="FP32", target_memory="Vec")
    body = [
        made, op("s", "tile.read", "t", [0, 0]), op("f", "tile.full", [16, 16], 1, dtype="FP32"),
        op("g", "tile.write", "f", [1, 2], "s"), op("w", "tile.store", "g", [0, 0], "o0"),
        op(None, "tensor.write", "o1", [2, 3], "s"),
    ]  # fmt: skip
    for mode in ("value", "buffer"):
        memory = run(in_core(*body, outs=2), "f", mode=mode).memory
        assert np.flatnonzero(~memory["o0"].page(0)[1]).tolist() == [18]
        assert np.flatnonzero(~memory["o1"].page(0)[1]).tolist() == [35]


def test_ops_without_a_meaning_are_refused_when_they_are_reached_and_barriers_do_nothing() -> None:
    unknown = {"let": "t", "op": "vendor.thing", "args": [], "type": {"tile": [16, 16], "dtype": "FP32"}}
    store = op("w", "tile.store", "t", [0, 0], "o0")
    with pytest.raises(RunError, match=r"vendor\.thing") as caught:
        run(in_core(unknown, store), "f")
    assert caught.value.code == "R003"
    unreached = in_core({"if": "k > 100", "then": [unknown, store]})
    assert run(unreached, "f").memory["o0"].resident == 0
    verbatim = Function("f", verbatim="pass")
    with pytest.raises(RunError) as caught:
        run(Program(functions=(verbatim,)), "f")
    assert caught.value.code == "R003"


def test_block_indices_come_from_the_seed_and_lie_below_their_number() -> None:
    program = in_core(
        op("b", "tile.get_block_idx"),
        op("c", "tile.get_block_num"),
        op("a", "tile.get_subblock_idx"),
        {"return": []},
    )
    read = [
        {"name": "f", "kind": "InCore", "returns": [{"scalar": "INDEX"}] * 3, "body": [
            op("b", "tile.get_block_idx"), op("c", "tile.get_block_num"), op("a", "tile.get_subblock_idx"),
            {"return": ["b", "c", "a"]},
        ]},
    ]  # fmt: skip
    assert run(program, "f").returned == ()
    lanes = [run(read_program(json.dumps({"pypto_ir": 1, "functions": read})), "f", seed=s).returned for s in range(20)]
    assert lanes[0][0] == 0 and len(set(lanes)) > 5
    assert all(0 <= block < blocks and sub in (0, 1) for block, blocks, sub in lanes)


def test_returned_tiles_carry_their_valid_region() -> None:
    body = [load("t", [16, 16], ["k", 16]), {"return": ["t"]}]
    function = {
        "name": "f",
        "kind": "InCore",
        "params": [
            {"name": "x", "type": {"tensor": [16, 16], "dtype": "FP32"}},
            {"name": "k", "type": {"scalar": "INDEX"}},
        ],
        "returns": [{"tile": [16, 16], "dtype": "FP32"}],
        "body": body,
    }
    (tile,) = run(read_program(json.dumps({"pypto_ir": 1, "functions": [function]})), "f", {"k": 5}).returned
    assert isinstance(tile, Tile) and tile.valid == (5, 16) and tile.readable().sum() == 80
    assert UNDEFINED is not tile


@pytest.mark.parametrize("mode", ["value", "buffer"])
@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_every_kernel_runs_and_writes_its_outputs(path: Path, mode: str) -> None:
    program = read_program(path.read_text(), path.name)
    for function in program.functions:
        outcome = run(program, function.name, mode=mode, max_trips=2)
        for param in function.params:
            if param.direction != "In":
                assert any(True for _ in outcome.memory[param.var.name].written_pages()), param.var.name
            elif isinstance(param.var.type, TensorType):
                assert not list(outcome.memory[param.var.name].written_pages())


def test_add_3d_adds() -> None:
    (path,) = [p for p in KERNELS if p.stem == "add_3d"]
    program = read_program(path.read_text(), path.name)
    function = program.functions[0]
    inputs = [p.var for p in function.params if p.direction == "In"]
    shape = inputs[0].type.shape
    x = np.arange(np.prod([d.value for d in shape]), dtype=np.float32).reshape([d.value for d in shape])
    outcome = run(program, function.name, {v.name: x for v in inputs})
    (out,) = [p.var.name for p in function.params if p.direction == "Out"]
    assert np.array_equal(outcome.memory[out].page(0)[0].reshape(x.shape), x + x)


def test_a_small_op_costs_little() -> None:
    body = [
        load("t", [1, 16]),
        {"for": "i", "range": [0, 2000, 1], "carry": [{"name": "c", "init": "t"}],
         "body": [op("d", "tile.adds", "c", 1), {"yield": ["d"]}], "results": ["r"]},
        op("w", "tile.store", "r", [0, 0], "o0"),
    ]  # fmt: skip
    program = in_core(*body)
    run(program, "f")
    assert calls_of(lambda: run(program, "f")) < 100 * 2000
