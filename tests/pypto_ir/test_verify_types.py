"""Types and the 2-D form: what contradicts is reported with its code, what may be annotated is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, MakeTuple, Var, index
from pypto_ir.json_reader import read_program
from pypto_ir.stmt import (
    Assign,
    Call,
    Carry,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Param,
    Program,
    Return,
    Stmt,
    Submit,
    While,
    Yield,
)  # fmt: skip
from pypto_ir.types import (
    BOOL,
    INDEX,
    Memory,
    ScalarType,
    TensorType,
    TileType,
    TupleType,
    Type,
    dims,
    scalar_var,
    tile_type,
)  # fmt: skip
from pypto_ir.verify import tile_ops_2d, verify_program
from pypto_ir.verify.types import verify_types

KERNELS = sorted((Path(__file__).parents[2].parent / "shared" / "kernels").glob("*.json"))
N, M = scalar_var("n"), scalar_var("m")
P = Var("p", BOOL)
F = scalar_var("s", DType.FP32)


def tile(*shape: int | Expr, dtype: DType = DType.FP32) -> TileType:
    return tile_type(dims(*shape), dtype, Memory.VEC)


X = Var("x", TensorType(dims(2, 3, 4), DType.FP32))
T = Var("t", tile(6, 4))
T3 = Var("t3", tile(2, 3, 4))
U = Var("u", tile(3, 4))
LEAF = Function("leaf", (Param(Var("a", TensorType(dims(2, 3, 4), DType.FP32))), Param(N)), (INDEX,))


def function(*body: Stmt, returns: tuple[Type, ...] = (), kind: str = "Opaque") -> Function:
    params = tuple(Param(v) for v in (X, T, T3, U, N, M, P, F))
    return Function("f", params, returns, tuple(body), kind)


def found(*body: Stmt, returns: tuple[Type, ...] = ()) -> list[str]:
    return [d.code for d in verify_types(Program(functions=(function(*body, returns=returns), LEAF)))]


def let(name: str, t: Type, value: Expr | Call | FunctionCall | Submit) -> Assign:
    return Assign((Var(name, t),), value)


def load(shape: tuple[int, ...], source: Var = X) -> Call:
    window = MakeTuple(dims(*shape))
    zeros = MakeTuple(dims(*([0] * len(shape))))
    return Call("tile.load", (source, zeros, window, window), (("target_memory", "Vec"),))


def test_a_call_whose_result_is_annotated_otherwise_is_reported() -> None:
    assert found(let("y", tile(6, 4), Call("tile.add", (T, T)))) == []
    assert found(let("y", tile(6, 5), Call("tile.add", (T, T)))) == ["T201"]
    assert found(let("y", tile(6, 4, dtype=DType.FP16), Call("tile.add", (T, T)))) == ["T201"]
    assert found(let("y", INDEX, Call("tile.add", (T, T)))) == ["T201"]


def test_a_call_that_its_type_rule_refuses_is_reported_with_the_rules_code() -> None:
    (code,) = found(let("y", tile(6, 4), Call("tile.add", (T,))))
    assert code.startswith("T1")


def test_a_load_or_create_of_more_dims_may_carry_its_flat_type() -> None:
    assert found(let("y", tile(6, 4), load((2, 3, 4)))) == []
    assert found(let("y", tile(2, 3, 4), load((2, 3, 4)))) == []
    assert found(let("y", tile(4, 6), load((2, 3, 4)))) == ["T201"]
    assert found(let("y", tile(12, 2), load((2, 3, 4)))) == ["T201"]
    create = Call("tile.create", (MakeTuple(dims(2, 3, 4)),), (("dtype", "FP32"), ("target_memory", "Vec")))
    assert found(let("y", tile(6, 4), create)) == []
    assert found(let("y", tile(6, 4), Call("tile.add", (T3, T3)))) == ["T201"]


def test_an_op_that_is_not_known_is_taken_as_annotated() -> None:
    assert found(let("y", tile(9, 9), Call("vendor.something", (T,)))) == []


def test_extents_are_compared_as_normal_forms() -> None:
    doubled, twice = Binary("add", N, N), Binary("mul", index(2), N)
    source = Var("d", tile(doubled, 4))
    assert found(let("y", tile(twice, 4), source)) == []
    assert found(let("y", tile(M, 4), source)) == ["T201"]


def loop(carry: Type, init: Expr, handed: Expr, result: Type) -> For:
    carried = Carry(Var("c", carry), init)
    return For(scalar_var("i"), index(0), N, index(1), (Yield((handed,)),), (carried,), (Var("r", result),))


def test_init_yield_and_result_of_a_carry_agree() -> None:
    assert found(loop(tile(6, 4), T, T, tile(6, 4))) == []
    assert found(loop(tile(6, 4), U, T, tile(6, 4))) == ["T202"]
    assert found(loop(tile(6, 4), T, U, tile(6, 4))) == ["T202"]
    assert found(loop(tile(6, 4), T, T, tile(3, 4))) == ["T202"]
    assert found(loop(tile(6, 4), N, N, INDEX)) == ["T202", "T202", "T202"]


def test_the_arms_of_a_branch_yield_what_its_result_is() -> None:
    assert found(If(P, (Yield((T,)),), (Yield((T,)),), (Var("r", tile(6, 4)),))) == []
    assert found(If(P, (Yield((T,)),), (Yield((U,)),), (Var("r", tile(6, 4)),))) == ["T202"]


def test_conditions_are_bool_and_loop_bounds_are_integers() -> None:
    assert found(If(N, (), None)) == ["T204"]
    assert found(While(N, ())) == ["T204"]
    assert found(For(scalar_var("i"), index(0), F, index(1), ())) == ["T204"]
    assert found(For(scalar_var("i"), index(0), Const(4, DType.INT32), P, ())) == ["T204"]


def test_scalar_operands_that_do_not_mix_are_reported() -> None:
    assert "T207" in found(let("y", INDEX, Binary("add", N, F)))
    assert found(let("y", ScalarType(DType.FP32), Binary("add", Cast(N, DType.FP32), F))) == []
    assert found(let("y", ScalarType(DType.INT32), Cast(N, DType.INT64))) == ["T201"]
    # a value of dtype INDEX takes the integer dtype that its definition states
    assert found(let("y", ScalarType(DType.INT32), N)) == []
    assert found(let("y", ScalarType(DType.FP32), N)) == ["T201"]
    assert found(let("y", ScalarType(DType.INT64), N)) == []


def test_arguments_fit_the_parameters_of_the_callee() -> None:
    assert found(let("y", INDEX, FunctionCall("leaf", (X, N)))) == []
    assert found(let("y", INDEX, FunctionCall("leaf", (X,)))) == ["T203"]
    assert found(let("y", INDEX, FunctionCall("leaf", (T, N)))) == ["T203"]
    assert found(let("y", tile(6, 4), FunctionCall("leaf", (X, N)))) == ["T201"]
    assert found(Eval(FunctionCall("nothing", ()))) == ["T205"]
    other = Var("z", TensorType(dims(2, 3, 5), DType.FP32))
    assert found(let("y", INDEX, FunctionCall("leaf", (other, N)))) == ["T203"]


def test_a_submit_gives_a_task_id_and_may_leave_out_parameters() -> None:
    task = Var("tid", ScalarType(DType.TASK_ID))
    assert found(Assign((Var("y", INDEX), task), Submit("leaf", (X,)))) == []
    assert found(Assign((Var("y", INDEX),), Submit("leaf", (X,)))) == ["T203"]


def test_returned_values_have_the_declared_types() -> None:
    assert found(Return((T, N)), returns=(tile(6, 4), INDEX)) == []
    assert found(Return((U, N)), returns=(tile(6, 4), INDEX)) == ["T206"]


def codes_2d(*body: Stmt, kind: str = "InCore") -> list[str]:
    return [d.code for d in tile_ops_2d(function(*body, kind=kind), ("functions", 0))]


ADD3 = let("y", tile(2, 3, 4), Call("tile.add", (T3, T3)))


def test_results_and_operands_of_more_than_two_dims_are_reported_once_each() -> None:
    assert codes_2d(ADD3) == ["V101", "V104"]
    assert codes_2d(let("y", tile(6, 4), Call("tile.add", (T, T)))) == []
    assert codes_2d(let("y", tile(6, 4), Call("tile.reshape", (T3, MakeTuple(dims(6, 4)))))) == ["V104"]
    assert codes_2d(let("y", tile(2, 3, 4), Call("tile.reshape", (T, MakeTuple(dims(2, 3, 4)))))) == ["V101"]


def test_loads_stores_and_other_function_kinds_are_exempt() -> None:
    zeros = MakeTuple(dims(0, 0, 0))
    assert codes_2d(let("y", tile(2, 3, 4), load((2, 3, 4)))) == []
    assert codes_2d(let("y", X.type, Call("tile.store", (T3, zeros, X)))) == []
    assert codes_2d(ADD3, kind="Group") == codes_2d(ADD3, kind="Orchestration") == []
    assert codes_2d(ADD3, kind="AIC") == codes_2d(ADD3, kind="AIV") == ["V101", "V104"]


def test_a_transpose_needs_its_scratch_and_an_assemble_a_two_dim_offset() -> None:
    swap = (T, index(0), index(1))
    assert codes_2d(let("y", tile(4, 6), Call("tile.transpose", swap))) == ["V102"]
    assert codes_2d(let("y", tile(4, 6), Call("tile.transpose", (*swap, T)))) == []
    assemble = Call("tile.assemble", (T, U, MakeTuple(dims(0, 0, 0))))
    assert codes_2d(let("y", tile(6, 4), assemble)) == ["V103"]
    everything = Call("tile.assemble", (T3, T3, MakeTuple(dims(0, 0, 0))))
    assert codes_2d(let("y", tile(2, 3, 4), everything)) == ["V101", "V103", "V104"]


def test_statements_that_call_no_op_on_tiles_are_no_matter_of_dims() -> None:
    assert codes_2d(let("k", INDEX, N), Eval(FunctionCall("leaf", (T3,))), let("m", tile(2, 3, 4), Call("vendor.magic", (T3,)))) == []


def test_calls_without_a_name_are_held_to_two_dims_too() -> None:
    assert codes_2d(Eval(Call("tile.add", (T3, T3)))) == ["V101", "V104"]
    assert codes_2d(Eval(Call("tile.add", (T, T)))) == []
    assert codes_2d(Eval(Call("tile.add", (T3,)))) == ["V104"], "what it gives is not known"
    assert codes_2d(Eval(Call("tile.magic", (T3,)))) == ["V104"] and codes_2d(Eval(Call("tile.magic", (T,)))) == []


def test_a_tile_in_a_tuple_has_two_dims_at_most() -> None:
    for items, expected in (
        ((INDEX, tile(2, 3, 4)), ["V101"]),
        ((INDEX, tile(6, 4)), []),
        ((TupleType((tile(2, 3, 4),)), INDEX), ["V101"]),
    ):
        assert codes_2d(let("y", TupleType(items), Call("tile.magic", (T,)))) == expected
    both = TupleType((tile(2, 3, 4), tile(2, 3, 4)))
    assert codes_2d(let("y", both, Call("tile.magic", (T3, T3)))) == ["V101", "V104"], "once each"


def test_an_offset_that_is_no_literal_is_told_apart_from_a_long_one() -> None:
    at = Var("at", TupleType((INDEX, INDEX)))
    for offset, words in ((at, "no literal tuple"), (MakeTuple(dims(0, 0, 0)), "3 elements")):
        (d,) = tile_ops_2d(function(let("y", tile(6, 4), Call("tile.assemble", (T, U, offset))), kind="InCore"))
        assert d.code == "V103" and words in d.message
    assert codes_2d(let("y", tile(6, 4), Call("tile.assemble", (T, U, MakeTuple(dims(0, 0)))))) == []


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_every_kernel_verifies_clean(path: Path) -> None:
    assert verify_program(read_program(path.read_text(), path.name)) == []


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_a_kernel_with_an_n_d_tile_is_not_in_2d_form(path: Path) -> None:
    data = json.loads(path.read_text())
    program = read_program(json.dumps(data), path.name)
    n_d = {"add_3d", "rmsnorm_4d", "softmax_tail_4d", "kv_cache_write", "assemble_pages", "batch_acc_k_loop"}
    n_d |= {"broadcast_bmm", "expert_gate", "one_fits_bmm", "q_proj_4d"}
    assert any(tile_ops_2d(f) for f in program.functions) == (path.stem in n_d)
