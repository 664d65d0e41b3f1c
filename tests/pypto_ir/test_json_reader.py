"""Reading program files: what statements, types and literals become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pypto_ir.diagnostics import Refused
from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Var, index
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Assign, Call, For, Function, If, Program, Scope, walk
from pypto_ir.types import (
    INDEX,
    Memory,
    ScalarType,
    TensorType,
    TileLayout,
    TileType,
    TupleType,
    Type,
    dims,
    tile_type,
)  # fmt: skip

X = {"name": "x", "type": {"tensor": [2, 3, 8], "dtype": "BF16"}}
LOAD = {
    "let": "t",
    "op": "tile.load",
    "args": ["x", [0, 0, 0], [2, 3, 8], [2, 3, 8]],
    "kwargs": {"target_memory": "Vec"},
}


def read(body: list[Any], params: list[Any] | None = None, **rest: Any) -> Function:
    f = {"name": "f", "kind": "InCore", "params": [X] if params is None else params, "body": body, **rest}
    return read_program(json.dumps({"pypto_ir": 1, "functions": [f]})).functions[0]


def types(f: Function) -> dict[str, Type]:
    return {t.name: t.type for s in walk(f.body) if isinstance(s, Assign) for t in s.targets}


def refused(body: list[Any], params: list[Any] | None = None, **rest: Any) -> list[str]:
    with pytest.raises(Refused) as caught:
        read(body, params, **rest)
    return [d.code for d in caught.value.diagnostics]


def test_result_types_are_deduced() -> None:
    f = read([LOAD, {"let": "u", "op": "tile.add", "args": ["t", "t"]}])
    assert types(f)["u"] == tile_type(dims(2, 3, 8), DType.BF16, Memory.VEC)


def test_a_plain_number_takes_the_dtype_of_the_tile() -> None:
    f = read(
        [
            LOAD,
            {"let": "u", "op": "tile.muls", "args": ["t", 2]},
            {"let": "v", "op": "tile.muls", "args": ["t", 0.5]},
        ]
    )
    calls = [s.value for s in f.body if isinstance(s, Assign) and isinstance(s.value, Call)]
    assert calls[1].args[1] == Const(2.0, DType.BF16)
    assert calls[2].args[1] == Const(0.5, DType.BF16)


def test_a_plain_number_takes_the_dtype_of_the_keyword_argument() -> None:
    f = read([{"let": "u", "op": "tile.full", "args": [[4, 16], 3], "kwargs": {"dtype": "INT16"}}])
    assert isinstance(f.body[0], Assign) and isinstance(f.body[0].value, Call)
    assert f.body[0].value.args[1] == Const(3, DType.INT16)


def test_positions_stay_index_constants() -> None:
    create = {"let": "a", "op": "tile.create", "args": [[4, 16]], "kwargs": {"dtype": "FP32"}}
    f = read([create, {"let": "b", "op": "tile.set_validshape", "args": ["a", 2, 16]}])
    assert isinstance(f.body[1], Assign) and isinstance(f.body[1].value, Call)
    assert f.body[1].value.args[1] == index(2)


def test_a_fraction_is_no_integer_tile_scalar() -> None:
    full = {"let": "u", "op": "tile.full", "args": [[4, 16], 1.5], "kwargs": {"dtype": "INT16"}}
    assert refused([full]) == ["J303"]


def test_loop_variables_take_the_dtype_of_a_typed_bound() -> None:
    typed = {"const": 4, "dtype": "INT32"}
    f = read([{"for": "k", "range": [0, typed, 1], "body": []}, {"for": "j", "range": [0, 4, 1], "body": []}])
    assert [s.var.type for s in f.body if isinstance(s, For)] == [ScalarType(DType.INT32), INDEX]


def test_loops_and_branches_type_what_they_hand_on() -> None:
    f = read([
        LOAD,
        {"for": "k", "range": [0, 4, 1], "carry": [{"name": "c", "init": "t"}, {"name": "n", "init": 0}],
         "body": [{"yield": ["c", "n + k"]}], "results": ["r", "m"]},
        {"if": "m == 0", "then": [{"yield": ["r"]}], "else": [{"yield": ["t"]}], "results": ["y"]},
    ])  # fmt: skip
    loop, branch = f.body[1], f.body[2]
    assert isinstance(loop, For) and isinstance(branch, If)
    tile = tile_type(dims(2, 3, 8), DType.BF16, Memory.VEC)
    assert [c.var.type for c in loop.carries] == [v.type for v in loop.results] == [tile, INDEX]
    assert branch.results[0].type == tile


def test_names_of_a_scope_stay_visible_and_those_of_a_loop_do_not() -> None:
    scope = {"scope": "split_aiv", "var": "i", "body": [{"let": "s", "expr": "i * 2"}]}
    f = read([scope, {"let": "u", "expr": "s + i"}])
    assert isinstance(f.body[0], Scope)
    loop = {"for": "k", "range": [0, 4, 1], "body": [{"let": "s", "expr": "k * 2"}]}
    assert refused([loop, {"let": "u", "expr": "s + k"}]) == ["J203", "J203"]


def test_functions_may_be_called_before_they_are_defined() -> None:
    caller = {
        "name": "main",
        "body": [{"let": ["a", "b"], "call": "two", "args": [4]}, {"let": "t", "call": "two", "args": ["a"]}],
    }
    n = {"name": "n", "type": {"scalar": "INDEX"}}
    two = {
        "name": "two", "params": [n], "returns": [{"scalar": "INDEX"}, {"tensor": ["n", 2], "dtype": "FP32"}],
        "external_source": "two.cpp",
    }  # fmt: skip
    program = read_program(json.dumps({"pypto_ir": 1, "functions": [caller, two]}))
    found = types(program.functions[0])
    assert found["b"] == TensorType(dims(4, 2), DType.FP32)
    assert found["t"] == TupleType((INDEX, TensorType(dims(Var("a", INDEX), 2), DType.FP32)))


def test_a_submit_hands_back_the_results_and_a_task_id() -> None:
    callee = {"name": "k", "returns": [{"scalar": "INDEX"}], "external_source": "k.cpp"}
    main = {"name": "main", "body": [{"let": ["a", "tid"], "submit": "k", "args": [], "deps": []}]}
    program = read_program(json.dumps({"pypto_ir": 1, "functions": [callee, main]}))
    assert types(program.functions[1]) == {"a": INDEX, "tid": ScalarType(DType.TASK_ID)}


def test_a_flattened_load_keeps_its_annotated_shape() -> None:
    f = read([{**LOAD, "type": {"tile": [6, 8], "dtype": "BF16", "memory": "Vec"}}])
    assert types(f)["t"] == tile_type(dims(6, 8), DType.BF16, Memory.VEC)
    again = read_program(write_program(Program(functions=(f,)))).functions[0]
    assert types(again)["t"] == tile_type(dims(6, 8), DType.BF16, Memory.VEC)


def test_a_partial_annotation_fills_only_what_it_names() -> None:
    load = {"let": "t", "op": "tile.load", "args": ["x", [0, 0, 0], [2, 3, 8], [2, 3, 8]]}
    assert types(read([{**load, "type": {"memory": "Mat"}}]))["t"] == tile_type(dims(2, 3, 8), DType.BF16, Memory.MAT)
    t = types(read([{**LOAD, "type": {"memref": {"base": "b0", "size": 96}}}]))["t"]
    assert isinstance(t, TileType) and t.memref is not None and t.memref.size == 96 and t.memory is Memory.VEC
    t = types(read([{**LOAD, "type": {"view": {"blayout": "col_major"}}}]))["t"]
    assert isinstance(t, TileType) and t.effective_view.blayout is TileLayout.COL_MAJOR


@pytest.mark.parametrize(
    "annotation",
    [
        {"tile": [2, 3, 9], "dtype": "BF16"},
        {"tile": [2, 3, 8], "dtype": "FP32"},
        {"memory": "Mat"},
        {"tile": [6, 9], "dtype": "BF16"},
        {"valid": [2, 3, 7]},
        {"tensor": [2, 3, 8], "dtype": "BF16"},
        {"scalar": "BF16"},
        {"dtype": "FP16"},
    ],
)
def test_an_annotation_that_contradicts_the_deduction_is_refused(annotation: dict[str, Any]) -> None:
    assert refused([{**LOAD, "type": annotation}]) == ["J402"]


def test_only_loads_and_creates_may_be_flattened_by_annotation() -> None:
    add = {"let": "u", "op": "tile.add", "args": ["t", "t"], "type": {"tile": [6, 8], "dtype": "BF16"}}
    assert refused([LOAD, add]) == ["J402"]


def test_an_unknown_op_needs_its_type() -> None:
    magic = {"let": "u", "op": "vendor.magic", "args": ["t"]}
    f = read([LOAD, {**magic, "type": {"tile": [4, 4], "dtype": "FP32"}}, {"op": "system.bar_all", "args": []}])
    assert types(f)["u"] == tile_type(dims(4, 4), DType.FP32)
    assert refused([LOAD, magic]) == ["J404"]
    assert refused([LOAD, {**magic, "type": {"memory": "Vec"}}]) == ["J404"]
    assert refused([LOAD, {"op": "tile.stroe", "args": ["t"]}]) == ["J404"]


def test_literals_are_words_and_values() -> None:
    attrs = {"a": "Mat", "b": [1, 2.5, None], "c": {"var": "n"}, "d": {"e": {"var": "n"}}}
    f = read([], [{"name": "n", "type": {"scalar": "INDEX"}}], attrs={k: attrs[k] for k in ("a", "b")})
    assert f.attrs == (("a", "Mat"), ("b", (1, 2.5, None)))
    f = read(
        [{"for": "k", "range": [0, 4, 1], "body": [], "attrs": attrs}],
        [{"name": "n", "type": {"scalar": "INDEX"}}],
    )
    assert isinstance(f.body[0], For)
    assert dict(f.body[0].attrs)["c"] == Var("n", INDEX)


def test_loc_and_comment_are_kept() -> None:
    f = read([{**LOAD, "loc": "k.py:3", "comment": "first"}])
    assert (f.body[0].loc, f.body[0].comment) == ("k.py:3", "first")


def test_bytes_and_text_read_alike() -> None:
    text = json.dumps({"pypto_ir": 1, "name": "P", "functions": []})
    assert read_program(text) == read_program(text.encode())
