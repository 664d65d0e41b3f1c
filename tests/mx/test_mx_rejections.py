"""Every row of the table of rejections (`spec/mx.md` section 7), with its code and what its message says, and a near miss that passes."""

from __future__ import annotations

import json

import pytest
from helpers import Json, function, incore, let, loop, out, program, ret, scalar, store, tensor
from scales import POLICIES, A, B, blocked, call, keep, kept, mx_refused, scale_load, scales

from egraph_rules.mx.offsets import blocked_offsets
from egraph_rules.mx.proofs import Where
from egraph_rules.mx.upstream import UpstreamProver
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Diagnostic, Diagnostics, Refused
from pypto_ir.dtypes import DType
from pypto_ir.expr import MakeTuple, Var
from pypto_ir.json_reader import read_program
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.stmt import Call, Eval, Function, Param, Program
from pypto_ir.types import Layout, TensorView, dims, tensor_type


def loading(offsets: list, window: list, shape: tuple = (64, 4), layout: str = A, valid: list | None = None, **more: object) -> Program:
    """A program with one load of scales, whose tile nobody reads."""
    scalars = {"n": "INDEX"} | more.pop("scalars", {})  # type: ignore[operator, arg-type]
    params = [scales("s", *shape, layout=layout, **more), *(scalar(name, dtype) for name, dtype in scalars.items())]
    return incore(params, [scale_load("t", "s", offsets, window, valid), ret()])


def holding(*shape: int | str, layout: str = A, dynamic: tuple[str, ...] = (), **more: object) -> Program:
    """A program with a parameter that nobody reads."""
    return incore([scales("s", *shape, layout=layout, **more)], [ret()], dynamic=dynamic)


def test_r1_scales_of_another_rank_than_2() -> None:
    for shape in ((64,), (2, 64, 4), (1, 4, 2, 16, 2)):
        (d,) = mx_refused(holding(*shape), "B101")
        assert A in d.message and "rank 2" in d.message and f"rank {len(shape)}" in d.message
        assert d.place.path == "$.functions[0].params[0]"
    blocked(holding(64, 4), equal=False)


def test_r1_a_window_of_another_rank_than_2() -> None:
    s = Var("s", tensor_type(dims(2, 64, 4), DType.FP8E8M0, TensorView(layout=Layout.MX_A_ZZ)))
    load = Call("tile.load", (s, *(MakeTuple(dims(*d)) for d in ((0, 0, 0), (1, 16, 2), (1, 16, 2)))), (("target_memory", "Mat"),))
    f = Function("main", (Param(s),), (), (Eval(load, "k.py:3:1"),), "InCore")
    found = mx_refused(Program("P", (f,)), "B101", "B101", "B106")
    assert "window" in found[1].message and found[1].place.loc == "k.py:3:1"


@pytest.mark.parametrize(("layout", "shape", "code", "axis"), [
    (A, ("M", 4), "B102", "block"), (A, (64, "M"), "B103", "group"), (B, (4, "M"), "B102", "block"), (B, ("M", 64), "B103", "group"),
    (A, ("M", "N"), "B102", "block"),
])  # fmt: skip
def test_r2_r3_dynamic_extents(layout: str, shape: tuple[int | str, ...], code: str, axis: str) -> None:
    (d,) = mx_refused(holding(*shape, layout=layout, dynamic=("M", "N")), code)
    assert layout in d.message and axis in d.message and "static" in d.message and "dynamic MX scales are not supported" in str(d.help)


@pytest.mark.parametrize(("layout", "shape", "code", "said"), [
    (A, (24, 4), "B104", ("block", "16", "24")), (A, (64, 3), "B105", ("group", "2", "3")),
    (B, (4, 24), "B104", ("block", "16", "24")), (B, (3, 64), "B105", ("group", "2", "3")),
    (A, (0, 4), "B104", ("block", "16", "0")), (B, (0, 64), "B105", ("group", "2", "0")), (A, (24, 3), "B104", ("block", "24")),
])  # fmt: skip
def test_r4_r5_extents_that_are_not_whole_boxes(layout: str, shape: tuple[int, int], code: str, said: tuple[str, ...]) -> None:
    t = tensor_type(dims(*shape), DType.FP8E8M0, TensorView(layout=Layout(layout)))
    before = Program("P", (Function("main", (Param(Var("s", t)),), (), (), "InCore"),))
    (d,) = mx_refused(before, code)
    assert all(word in d.message for word in (layout, *said))


@pytest.mark.parametrize(("layout", "window", "code"), [
    (A, [8, 2], "B104"), (A, [16, 1], "B105"), (B, [2, 8], "B104"), (B, [1, 16], "B105"), (A, ["n", 2], "B102"), (B, ["n", 16], "B103"),
])  # fmt: skip
def test_r2_to_r5_hold_of_windows_as_of_tensors(layout: str, window: list, code: str) -> None:
    shape = (64, 4) if layout == A else (4, 64)
    (d,) = mx_refused(loading([0, 0], window, shape, layout), code)
    assert "window" in d.message and layout in d.message and d.place.statement == "t = tile.load"


def direct(*offsets: int) -> list[Diagnostic]:
    """What is wrong with constant offsets that no type rule has looked at."""
    f = Function("main", (), (), (), "InCore")
    bag, at = Diagnostics(), Where(f, ("functions", 0), Eval(Call("tile.load")))
    assert blocked_offsets(at, Layout.MX_A_ZZ, dims(*offsets), UpstreamProver(Program("P", (f,))), bag, {}) is None
    return list(bag)


@pytest.mark.parametrize("offsets", [(0, 0, 0), (0,), ()])
def test_r6_offsets_that_are_no_pair(offsets: tuple[int, ...]) -> None:
    (d,) = direct(*offsets)
    assert d.code == "B106" and str(len(offsets)) in d.message


@pytest.mark.parametrize(("layout", "offsets", "said"), [
    (A, [8, 0], ("block", "16", "8")), (A, [0, 1], ("group", "2", "1")),
    (B, [0, 8], ("block", "16", "8")), (B, [1, 0], ("group", "2", "1")),
])  # fmt: skip
def test_r7_a_misaligned_constant(layout: str, offsets: list[int], said: tuple[str, ...]) -> None:
    shape, window = ((64, 4), [16, 2]) if layout == A else ((4, 64), [2, 16])
    (d,) = mx_refused(loading(offsets, window, shape, layout), "B107")
    assert all(word in d.message for word in (layout, *said)) and "multiple of" in d.message


@pytest.mark.parametrize("offsets", [(-16, 0), (0, -2)])
def test_r7_a_negative_constant(offsets: tuple[int, int]) -> None:
    """The type rule of loads refuses what is surely negative before the pass sees it."""
    (d,) = direct(*offsets)
    assert d.code == "B107" and str(min(offsets)) in d.message


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("layout", "offsets", "axis", "by"), [
    (A, ["n * 8", 0], "block", 16), (A, [0, "n"], "group", 2), (B, [0, "n * 8"], "block", 16), (B, ["n", 0], "group", 2),
])  # fmt: skip
def test_r8_a_multiple_that_is_not_proved(layout: str, offsets: list, axis: str, by: int, policy: str) -> None:
    shape, window = ((64, 4), [16, 2]) if layout == A else ((4, 64), [2, 16])
    (d,) = mx_refused(loading(offsets, window, shape, layout), "B108", policy=policy)
    assert f"cannot be proven to be a multiple of {by}" in d.message and layout in d.message and axis in d.message
    assert "boundary" in str(d.help) and "proved are" in str(d.help) and "n" in d.message


@pytest.mark.parametrize("policy", POLICIES)
def test_r9_a_sign_that_is_not_proved(policy: str) -> None:
    (d,) = mx_refused(loading(["n * 16", 0], [16, 2]), "B109", policy=policy)
    assert "cannot be proven to be non-negative" in d.message and "block" in d.message and A in d.message
    assert "clamped to 0" in d.message and "wrong box" in d.message


@pytest.mark.parametrize("policy", POLICIES)
def test_r8_both_axes_are_reported_at_once(policy: str) -> None:
    found = mx_refused(loading(["n * 8", "n * 2"], [16, 2]), "B108", "B109", policy=policy)
    assert "block" in found[0].message and "group" in found[1].message


def test_r8_names_the_best_fact_of_what_broke_the_proof() -> None:
    before = incore([scales("s", 64, 4), scalar("n", range=(0, 7))], [scale_load("t", "s", ["n * 4 + 16", 0], [16, 2]), ret()])
    (d,) = mx_refused(before, "B108")
    assert "it is multiple of 4, in [16, 44]" in d.message and "at n of main, which is in [0, 7]" in d.message


def test_r10_a_tensor_that_is_only_partly_valid() -> None:
    (d,) = mx_refused(holding(64, 4, valid=[48, 4]), "B110")
    assert "[48, 4]" in d.message and "whole tensor must be valid" in d.message
    blocked(holding(64, 4, valid=[64, 4]), equal=False)


def test_r11_a_distributed_tensor() -> None:
    (d,) = mx_refused(holding(64, 4, distributed=True), "B111")
    assert "distributed" in d.message and "ND" in str(d.help)
    blocked(incore([tensor("s", 64, 4, dtype="FP8E8M0", distributed=True)], [ret()]), equal=False)


@pytest.mark.parametrize(("kwargs", "said"), [({}, "no target_memory"), ({"target_memory": "Vec"}, "target_memory Vec")])
def test_r12_a_load_that_goes_elsewhere_than_to_mat(kwargs: Json, said: str) -> None:
    load = {"let": "t", "op": "tile.load", "args": ["s", [0, 0], [16, 2], [16, 2]], "kwargs": kwargs}
    text = {"pypto_ir": 1, "functions": [function("main", [scales("s", 64, 4)], [load, ret()])]}
    with pytest.raises(Refused) as caught:
        read_program(json.dumps(text), "test.json")
    (d,) = caught.value.diagnostics
    assert d.code == "B112" and said in d.message and A in d.message and "Mat" in str(d.help)


def test_r12_programs_that_were_not_read_are_refused_too() -> None:
    s = Var("s", tensor_type(dims(64, 4), DType.FP8E8M0, TensorView(layout=Layout.MX_A_ZZ)))
    load = Call("tile.load", (s, *(MakeTuple(dims(*d)) for d in ((0, 0), (16, 2), (16, 2)))))
    with pytest.raises(Refused) as caught:
        optimize(Program("P", (Function("main", (Param(s),), (), (Eval(load),), "InCore"),)))
    assert [d.code for d in caught.value.diagnostics] == ["B112"]


def test_r12_text_for_people_may_leave_the_target_out() -> None:
    text = """import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def main(s: pl.Tensor[[64, 4], pl.FP8E8M0, pl.MX_A_ZZ]):
        t = pl.load(s, [16, 2], [16, 2])
"""
    blocked(read_printed(text).program, equal=False)


@pytest.mark.parametrize(("body", "op", "operand"), [
    ([let("d", "tensor.dim", "s", 0)], "tensor.dim", 0),
    ([let("d", "tensor.read", "s", [0, 0])], "tensor.read", 0),
    ([let("d", "tensor.slice", "s", [16, 2], [0, 0])], "tensor.slice", 0),
    ([let("d", "tensor.assemble", "x", "s", [0, 0])], "tensor.assemble", 1),
    ([{"let": "d", "op": "tensor.strange", "args": ["x", "s"], "type": {"tensor": [64, 4], "dtype": "FP32"}}], "tensor.strange", 1),
])  # fmt: skip
def test_r13_an_op_that_has_no_form_for_scales(body: list[Json], op: str, operand: int) -> None:
    before = incore([scales("s", 64, 4), tensor("x", 64, 4, dtype="FP8E8M0")], [*body, ret()], kind="Orchestration")
    (d,) = mx_refused(before, "B113")
    assert op in d.message and f"operand {operand}" in d.message
    assert "tile.load (operand 0)" in str(d.help) and "tensor.view (operand 0)" in str(d.help) and "tile.store" not in str(d.help)


def test_r13_a_result_that_is_no_view_or_new_tensor() -> None:
    made = {"let": "m", "op": "tensor.strange", "args": ["x"], "type": {"tensor": [64, 4], "dtype": "FP8E8M0", "layout": A}}
    (d,) = mx_refused(incore([tensor("x", 64, 4)], [made, ret()], kind="Orchestration"), "B113")
    assert "makes an MX tensor" in d.message


def storing(shape: tuple[int, int] = (32, 2), window: list[int] | None = None, view: Json | None = None, **more: object) -> Program:
    tile: list[int] = more.pop("tile", [16, 2])  # type: ignore[assignment]
    load = let("t", "tile.load", "x", [0, 0], tile, more.pop("valid", tile), target_memory="Mat", type={"view": view or ZZ})
    params = [tensor("x", *tile, dtype=str(more.pop("dtype", "FP8E8M0"))), scales("o_0", *shape, direction="Out")]
    return incore(params, [load, store("o", "t", more.pop("at", [16, 0]), "o_0", window), ret("o")])  # type: ignore[arg-type]


ZZ = {"blayout": "row_major", "slayout": "row_major", "fractal": 32}


def test_r14_a_store_is_refused_unless_it_is_asked_for() -> None:
    (d,) = mx_refused(storing(), "B114")
    assert "tile.store" in d.message and "operand 2" in d.message
    blocked(storing(), mx_stores=True)
    blocked(storing(window=[16, 2]), mx_stores=True)


@pytest.mark.parametrize(("change", "code"), [
    ({"view": {"blayout": "col_major", "slayout": "col_major", "fractal": 32}}, "B120"),
    ({"view": {"blayout": "row_major", "slayout": "row_major", "fractal": 512}}, "B120"),
    ({"valid": [8, 2]}, "B120"),
    ({"tile": [8, 2], "at": [0, 0]}, "B120"),
    ({"at": [8, 0]}, "B107"),
])  # fmt: skip
def test_r14_only_whole_boxes_of_the_order_of_the_tensor_are_stored(change: Json, code: str) -> None:
    mx_refused(storing(**change), code, mx_stores=True)


def test_r14_bytes_of_another_type_are_not_stored() -> None:
    load = let("t", "tile.load", "x", [0, 0], [16, 2], [16, 2], target_memory="Mat", type={"view": ZZ})
    before = incore(
        [tensor("x", 16, 2, dtype="UINT8"), scales("o_0", 16, 2, direction="Out")], [load, store("o", "t", [0, 0], "o_0"), ret("o")]
    )
    (d,) = mx_refused(before, "B120", mx_stores=True)
    assert "UINT8" in d.message


def inner(row: str = "row") -> Json:
    return function("k", [scales("s", 64, 4), scalar("row"), kept(16, 2)], [scale_load("t", "s", [row, 0], [16, 2]), *keep("t"), ret("o")])


def outer(name: str, *body: Json) -> Json:
    return function(name, [scales("s", 64, 4), scalar("m"), kept(16, 2)], [*body, ret("o")], kind="Orchestration")


@pytest.mark.parametrize("policy", POLICIES)
def test_r15_a_caller_that_gives_anything(policy: str) -> None:
    mx_refused(program(inner(), outer("main", call("o", "k", "s", "m", "o_0"))), "B108", policy=policy)
    blocked(program(inner(), outer("main", call("o", "k", "s", 48, "o_0"))), policy=policy, without=["k"])


@pytest.mark.parametrize("policy", POLICIES)
def test_r15_no_caller(policy: str) -> None:
    mx_refused(program(inner("row * 16")), "B109", policy=policy)


def test_b115_strides_that_are_not_packed() -> None:
    (d,) = mx_refused(holding(64, 4, stride=[8, 1]), "B115")
    assert "[8, 1]" in d.message
    blocked(holding(64, 4, stride=[4, 1]), equal=False)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("layout", "shape", "offsets", "window", "valid", "axis"), [
    (A, (32, 4), [16, 0], [32, 2], [16, 2], "block"), (A, (32, 4), [0, 2], [16, 4], [16, 2], "group"),
    (B, (4, 32), [0, 16], [2, 32], [2, 16], "block"), (B, (4, 32), [2, 0], [4, 16], [2, 16], "group"),
])  # fmt: skip
def test_b116_boxes_past_the_end_are_seen_although_the_valid_region_ends_before(
    layout: str, shape: tuple[int, int], offsets: list[int], window: list[int], valid: list[int], axis: str, policy: str
) -> None:
    (d,) = mx_refused(loading(offsets, window, shape, layout, valid), "B116", policy=policy)
    assert axis in d.message and layout in d.message and "past their end" in d.message
    blocked(loading([0, 0], window, shape, layout, valid), equal=False, policy=policy)


def test_b116_a_symbolic_offset_that_is_surely_too_large() -> None:
    body = [scale_load("t", "s", ["i", 0], [32, 2], [16, 2])]
    before = incore([scales("s", 64, 4)], [loop("i", [48, 64, 16], {}, body), ret()])
    (d,) = mx_refused(before, "B116")
    assert "takes 32 from i" in d.message
    blocked(incore([scales("s", 64, 4)], [loop("i", [32, 48, 16], {}, body), ret()]), equal=False)


PRODUCT = [
    scale_load("ats", "a_s", [0, 0], [32, 2]), scale_load("bs", "b_s", [0, 0], [2, 32]),
    let("at", "tile.load", "a", [0, 0], [32, 64], [32, 64], target_memory="Mat"),
    let("bt", "tile.load", "b", [0, 0], [64, 32], [64, 32], target_memory="Mat"),
    let("al", "tile.move", "at", target_memory="Left"), let("br", "tile.move", "bt", target_memory="Right"),
    let("asl", "tile.move", "ats", target_memory="LeftScale"), let("bsr", "tile.move", "bs", target_memory="RightScale"),
]  # fmt: skip


def multiplying(*args: str, more: tuple[Json, ...] = ()) -> Program:
    params = [
        tensor("a", 32, 64, dtype="FP8E4M3FN"), scales("a_s", 32, 2), tensor("b", 64, 32, dtype="FP8E4M3FN"),
        scales("b_s", 2, 32, layout=B), out("o_0", 32, 32),
    ]  # fmt: skip
    body = [*PRODUCT, *more, let("p", "tile.matmul_mx", *args), store("o", "p", [0, 0], "o_0"), ret("o")]
    return incore(params, body, target="ascend950")


@pytest.mark.parametrize("args", [("al", "asl", "br", "bsr"), ("at", "ats", "bt", "bs"), ("at", "asl", "br", "bs")])
def test_b117_operands_in_their_memories_or_on_the_way_there_pass(args: tuple[str, ...]) -> None:
    blocked(multiplying(*args))


def test_b117_operands_of_the_other_side_are_refused() -> None:
    plain = let("u", "tile.load", "n", [0, 0], [32, 2], [32, 2], target_memory="Mat")
    before = multiplying("al", "u", "br", "bsr", more=(let("n", "tensor.view", "a_s", [32, 2], layout="ND"), plain))
    (d,) = mx_refused(before, "B117")
    assert "scales of the lhs" in d.message and "LeftScale" in str(d.help) and "fractal 512" in d.message
    wrong = let("w", "tile.move", "at", target_memory="Right"), let("z", "tile.move", "bs", target_memory="RightScale")
    (d,) = mx_refused(multiplying("w", "asl", "br", "z", more=wrong), "B117")
    assert "the lhs of tile.matmul_mx" in d.message and "in Right" in d.message and "Left" in str(d.help)


@pytest.mark.parametrize(("view", "said"), [
    (let("v", "tensor.view", "x", layout=A), "names no shape"),
    (let("v", "tensor.view", "s", layout="ND"), "names no shape"),
    (let("v", "tensor.view", "u", [16, 2], layout=A), "UINT8"),
    (let("v", "tensor.view", "p", [16, 2], layout=A), "valid in"),
    (let("v", "tensor.view", "s", [2, 16], layout="DN"), "seen as ND"),
])  # fmt: skip
def test_b118_views_that_are_none_of_packed_bytes(view: Json, said: str) -> None:
    params = [
        tensor("x", 16, 2, dtype="FP8E8M0"), scales("s", 16, 2), tensor("u", 16, 2, dtype="UINT8"),
        tensor("p", 16, 2, dtype="FP8E8M0", valid=[8, 2]),
    ]  # fmt: skip
    text = {"pypto_ir": 1, "functions": [function("main", params, [view, ret()])]}
    with pytest.raises(Refused) as caught:
        read_program(json.dumps(text), "test.json")
    (d,) = caught.value.diagnostics
    assert d.code == "B118" and said in str(d) and d.help


@pytest.mark.parametrize("shape", [[24, 2], [16, 3]])
def test_a_view_as_scales_that_are_not_whole_boxes_is_refused(shape: list[int]) -> None:
    before = incore([tensor("x", *shape, dtype="FP8E8M0")], [let("v", "tensor.view", "x", shape, layout=A), ret()])
    mx_refused(before, "B104" if shape[0] == 24 else "B105")


def test_everything_wrong_is_reported_in_one_run_in_program_order() -> None:
    first = function("f", [scales("s", 24, 2), scales("r", 64, 4, distributed=True)], [let("d", "tensor.dim", "s", 0), ret()])
    second = function(
        "main", [scales("s", 64, 4), scalar("n")],
        [scale_load("t", "s", ["n", 0], [16, 2]), scale_load("u", "s", [8, 0], [16, 2]), let("d", "tensor.dim", "s", 0), ret()],
    )  # fmt: skip
    found = mx_refused(program(first, second), "B104", "B111", "B113", "B108", "B107", "B113")
    assert [d.place.function for d in found] == ["f"] * 3 + ["main"] * 3
    assert [d.place.statement for d in found[2:]] == ["d = tensor.dim", "t = tile.load", "u = tile.load", "d = tensor.dim"]


def test_one_bad_type_is_reported_once_for_its_function() -> None:
    alias = [{"let": f"s{i}", "expr": "s"} for i in range(3)]
    mx_refused(incore([scales("s", 24, 2)], [*alias, ret()]), "B104")
