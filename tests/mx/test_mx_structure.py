"""Where MX types may stand: parameters, returns, tuples, variables, carried values, branches, calls, launches, scopes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers import calls, function, give, incore, let, loop, main, out, program, ret, scalar, store, tensor, types
from scales import A, B, blocked, call, compared, keep, kept, mx_refused, run_mx, scale_load, scales, shape_of, texts

from egraph_rules.mx.block import block_scales, holds_mx
from egraph_rules.mx.types import blocked_type, mx_tensors
from egraph_rules.mx.upstream import UpstreamProver
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Diagnostics
from pypto_ir.dtypes import DType
from pypto_ir.expr import Item, MakeTuple, Var, index
from pypto_ir.interp.machine import run
from pypto_ir.json_reader import read_program
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.stmt import Assign, Call, For, Function, If, Param, Program, Return, While, walk
from pypto_ir.types import Layout, Pad, TensorType, TensorView, TupleType, Type, dims, tensor_type

BOXES = (1, 2, 1, 16, 2)


def mx(*shape: int, layout: Layout = Layout.MX_A_ZZ, **more: object) -> TensorType:
    return tensor_type(dims(*shape), DType.FP8E8M0, TensorView(layout=layout), **more)  # type: ignore[arg-type]


def shape(t: Type) -> tuple[object, ...]:
    assert isinstance(t, TensorType)
    return tuple(d.value for d in t.shape)  # type: ignore[union-attr]


def test_types_are_rebuilt_only_where_something_changes() -> None:
    plain = tensor_type(dims(4, 4), DType.FP32)
    nested = TupleType((plain, TupleType((mx(32, 2), plain))))
    changed = blocked_type(nested)
    assert isinstance(changed, TupleType) and changed.items[0] is plain
    assert isinstance(changed.items[1], TupleType) and shape(changed.items[1].items[0]) == BOXES
    for t in (plain, TupleType((plain, plain)), TupleType(()), tensor_type(dims(4, 4), DType.FP8E8M0, TensorView(layout=Layout.NZ))):
        assert blocked_type(t) is t
    assert len(mx_tensors(nested)) == 1


def test_what_a_type_says_besides_its_shape_is_kept() -> None:
    padded = tensor_type(dims(32, 2), DType.UINT8, TensorView(layout=Layout.MX_A_ZZ, pad=Pad.ZERO))
    assert blocked_type(padded) == tensor_type(dims(*BOXES), DType.UINT8, TensorView(layout=Layout.MX_A_ZZ, pad=Pad.ZERO))
    strided = tensor_type(dims(32, 2), DType.FP8E8M0, TensorView(stride=dims(2, 1), layout=Layout.MX_A_ZZ))
    assert blocked_type(strided) == tensor_type(dims(*BOXES), DType.FP8E8M0, TensorView(layout=Layout.MX_A_ZZ))


def test_aliases_and_returned_scales() -> None:
    f = function(
        "main", [scales("s", 32, 2), kept(16, 2)],
        [{"let": "u", "expr": "s"}, scale_load("t", "u", [16, 0], [16, 2]), *keep("t"), ret("o", "u")],
        returns=[kept(16, 2)["type"], scales("s", 32, 2)["type"]],
    )  # fmt: skip
    after = blocked(program(f))
    assert shape(main(after).returns[1]) == BOXES
    assert {v.name: shape(v.type) for s in walk(main(after).body) if isinstance(s, Assign) for v in s.targets if v.name == "u"} == {
        "u": BOXES
    }


def test_tuples_and_their_items() -> None:
    s, o = Var("s", mx(32, 2)), Var("o_0", tensor_type(dims(16, 2), DType.FP8E8M0))
    both = Var("both", TupleType((s.type, o.type)))
    u = Var("u", s.type)
    p = incore([scales("s", 32, 2), kept(16, 2)], [scale_load("t", "s", [16, 0], [16, 2]), *keep("t"), ret("o")])
    load, kept_tile, end = main(p).body
    assert isinstance(load, Assign) and isinstance(load.value, Call)
    body = (
        Assign((both,), MakeTuple((s, o))), Assign((u,), Item(both, 0)),
        replace(load, value=replace(load.value, args=(u, *load.value.args[1:]))), kept_tile, end,
    )  # fmt: skip
    before = replace(p, functions=(replace(main(p), body=body),))
    after = run_mx(before)
    bound = {v.name: v.type for s in walk(main(after).body) if isinstance(s, Assign) for v in s.targets}
    assert isinstance(bound["both"], TupleType) and shape(bound["both"].items[0]) == shape(bound["u"]) == BOXES
    assert bound["both"].items[1] is o.type
    verdict = compared(before, after)
    assert verdict.equal and verdict.validated


def test_scales_in_a_tuple_that_a_function_returns() -> None:
    s, o = Var("s", mx(32, 2)), Var("o", tensor_type(dims(16, 2), DType.FP8E8M0))
    both = TupleType((s.type, o.type))
    f = Function("main", (Param(s), Param(o)), (both,), (Return((MakeTuple((s, o)),)),), "Opaque")
    (after,) = run_mx(Program("P", (f,))).functions
    (returned,) = after.returns
    assert isinstance(returned, TupleType) and shape(returned.items[0]) == BOXES and returned.items[1] is o.type
    (end,) = after.body
    assert isinstance(end, Return) and isinstance(end.values[0], MakeTuple)
    assert end.values[0].items[0] is after.params[0].var and shape(after.params[0].var.type) == BOXES


def test_a_view_of_a_view_counts_bytes_in_memory_order() -> None:
    """Bytes seen as scales and as bytes again are the same bytes; in the order of logical scales they would be others."""
    before = incore(
        [tensor("x", 1, 128, dtype="FP8E8M0"), kept(1, 128), kept(4, 32, name="p_0")],
        [let("m", "tensor.view", "x", [4, 32], layout=B), let("n", "tensor.view", "m", [1, 128], layout="ND"),
         let("t", "tile.load", "n", [0, 0], [1, 128], [1, 128], target_memory="Vec"), *keep("t"),
         scale_load("u", "m", [0, 0], [4, 32]), *keep("u", "p", "p_0"), ret("o", "p")],
    )  # fmt: skip
    after = blocked(before)
    assert len(calls(after, "tensor.view")) == 2
    data = np.arange(128, dtype=np.float32)[None] % 8 + 1
    for p in (before, after):
        outcome = run(p, "main", {"x": np.exp2(data)})
        line, box = (outcome.memory[name].arrays()[0].astype(np.float32) for name in ("o_0", "p_0"))
        assert (np.log2(line.reshape(1, 128)) == data).all()
        assert (np.log2(box.reshape(4, 32)) != data.reshape(4, 32)).any()


def test_carried_scales_through_for_and_while() -> None:
    body = [scale_load("t", "c", ["i", 0], [16, 2]), store("n", "t", ["i", 0], "d"), give("c", "n")]
    turn = {
        "while": "k < 2",
        "carry": [{"name": "e", "init": "q"}, {"name": "k", "init": "zero"}],
        "body": [{"let": "k1", "expr": "k + 1"}, give("e", "k1")],
        "results": ["w", "k2"],
    }
    before = incore(
        [scales("s", 32, 2), kept(32, 2), kept(16, 2, name="p_0")],
        [{"let": "zero", "expr": "0"}, loop("i", [0, 32, 16], {"c": "s", "d": "o_0"}, body, ["q", "o"]), turn,
         scale_load("u", "w", [16, 0], [16, 2]), *keep("u", "p", "p_0"), ret("o", "p")],
    )  # fmt: skip
    after = blocked(before)
    first = next(s for s in walk(main(after).body) if isinstance(s, For))
    second = next(s for s in walk(main(after).body) if isinstance(s, While))
    for s in (first, second):
        assert shape(s.carries[0].var.type) == shape(s.results[0].type) == BOXES
        assert isinstance(s.carries[0].init, Var) and shape(s.carries[0].init.type) == BOXES


def test_scales_chosen_by_a_branch() -> None:
    branch = {"if": "n == 0", "then": [give("s")], "else": [give("r")], "results": ["q"]}
    before = incore(
        [scales("s", 32, 2), scales("r", 32, 2), scalar("n"), kept(16, 2)],
        [branch, scale_load("t", "q", [16, 0], [16, 2]), *keep("t"), ret("o")],
    )
    after = blocked(before)
    assert [shape(s.results[0].type) for s in walk(main(after).body) if isinstance(s, If)] == [BOXES]


def test_new_scales_of_an_orchestration_are_made_blocked() -> None:
    inner = function(
        "k",
        [tensor("x", 16, 2, dtype="FP8E8M0"), scales("o_0", 32, 2, direction="Out")],
        [STORED, store("o", "t", [16, 0], "o_0"), ret("o")],
    )
    outer = function(
        "main", [tensor("x", 16, 2, dtype="FP8E8M0"), kept(1, 64)],
        [let("m", "tensor.create", [32, 2], dtype="FP8E8M0", layout=A), call("n", "k", "x", "m"),
         let("v", "tensor.view", "n", [1, 64], layout="ND"), let("o", "tensor.assemble", "o_0", "v", [0, 0]), ret("o")],
        kind="Orchestration",
    )  # fmt: skip
    after = blocked(program(inner, outer), mx_stores=True)
    assert [c.args[0] for c in calls(after, "tensor.create")] == [MakeTuple(dims(*BOXES))]
    assert [c.kwarg("layout") for c in calls(after, "tensor.create")] == [A]


STORED = let(
    "t", "tile.load", "x", [0, 0], [16, 2], [16, 2], target_memory="Mat",
    type={"view": {"blayout": "row_major", "slayout": "row_major", "fractal": 32}},
)  # fmt: skip


def test_a_function_of_another_language_gets_the_blocked_signature_of_its_callers() -> None:
    k = Function("k", (Param(Var("s", mx(32, 2))),), (mx(32, 2),), (), "InCore", verbatim="// kernel", external_source=None)
    s = Var("s", mx(32, 2))
    f = Function("main", (Param(s),), (mx(32, 2),), (Return((s,)),), "Opaque")
    after = run_mx(Program("P", (k, f)))
    assert [shape(g.params[0].var.type) for g in after.functions] == [shape(g.returns[0]) for g in after.functions] == [BOXES, BOXES]
    assert after.functions[0].verbatim == "// kernel"


def test_every_function_is_stamped_and_a_stamped_one_is_left_alone() -> None:
    plain = function("plain", [tensor("x", 4, 4)], [ret()], kind="Opaque")
    done = function("done", [scales("s", 1, 2, 1, 16, 2)], [ret()], attrs={"mx_tensor_views_blocked": False, "k": 3})
    before = program(plain, done, function("main", [scales("s", 32, 2)], [ret()]))
    after = run_mx(before)
    assert [dict(f.attrs) for f in after.functions] == [
        {"mx_tensor_views_blocked": True}, {"mx_tensor_views_blocked": False, "k": 3}, {"mx_tensor_views_blocked": True},
    ]  # fmt: skip
    assert after.functions[1] is before.functions[1]
    assert after.functions[0].body is before.functions[0].body and after.functions[0].params is before.functions[0].params
    assert shape_of(after, "s") == ["1", "2", "1", "16", "2"]


def test_a_program_of_stamped_functions_is_the_same_object() -> None:
    stamped = {"mx_tensor_views_blocked": True}
    before = program(function("f", [], [ret()], attrs=stamped), function("main", [scales("s", 32, 2)], [ret()], attrs=stamped))
    bag = Diagnostics()
    assert block_scales(before, UpstreamProver(before), bag).program is before and not len(bag)
    assert optimize(before, stages=("mx",)).program is before and not holds_mx(before)


def test_facts_come_from_stamped_callers_too() -> None:
    inner = function(
        "k", [scales("s", 32, 2), scalar("row"), kept(16, 2)], [scale_load("t", "s", ["row", 0], [16, 2]), *keep("t"), ret("o")]
    )
    outer = function(
        "main", [scales("s", 1, 2, 1, 16, 2), kept(16, 2)], [call("o", "k", "s", 16, "o_0"), ret("o")],
        kind="Orchestration", attrs={"mx_tensor_views_blocked": True},
    )  # fmt: skip
    for policy in ("cheapest", "upstream"):
        after = blocked(program(inner, outer), policy=policy, without=["k"])
        box = "1" if policy == "cheapest" else "row // 16"  # the facts know that every caller gives 16
        assert texts(after, "tile.load", 1, "k") == [["0", box, "0", "0", "0"]]


@pytest.mark.parametrize("attr", [{"dump_vars": [{"var": "s"}]}, {"deep": {"list": [{"var": "s"}, 3]}}])
def test_attributes_of_ops_and_loops_follow(attr: dict[str, object]) -> None:
    load = {**scale_load("t", "s", [0, 0], [16, 2]), "attrs": attr}
    before = incore([scales("s", 32, 2)], [loop("i", [0, 2, 1], {}, [load], attrs=attr), ret()])
    after = blocked(before, equal=False)
    text = repr(main(after).body)
    assert text.count("Var(name='s')") == repr(main(before).body).count("Var(name='s')")
    seen = [v for v in _variables(main(after)) if v.name == "s"]
    assert seen and all(v is seen[0] for v in seen)


def _variables(f: Function) -> list[Var]:
    from pypto_ir.expr import variables
    from pypto_ir.stmt import own_exprs

    return [v for s in walk(f.body) for e in own_exprs(s) for v in variables(e)]


def test_comments_positions_and_frames_are_kept() -> None:
    load = {**scale_load("t", "s", [16, 0], [16, 2]), "loc": "k.py:7:3", "comment": "scales"}
    before = incore([scales("s", 32, 2), kept(16, 2)], [load, *keep("t"), ret("o")], level="CHIP_DIE", attrs={"k": 1})
    after = blocked(before)
    f, g = main(before), main(after)
    assert replace(g, params=f.params, returns=f.returns, body=f.body, attrs=f.attrs) == f
    assert [(s.loc, s.comment) for s in g.body] == [(s.loc, s.comment) for s in f.body]
    assert g.attrs == (("k", 1), ("mx_tensor_views_blocked", True))
    assert g.body[1:] == f.body[1:] and g.body[2] is f.body[2]


TEXT = """import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def main(s: pl.Tensor[[1, 2, 1, 16, 2], pl.FP8E8M0, pl.TensorView(stride=[], layout=pl.TensorLayout.MX_A_ZZ)]):
        pl.func_attr({"mx_tensor_views_blocked": True})
        t: pl.Tile[[16, 2], pl.FP8E8M0, pl.Mem.Mat, pl.TileView(blayout=pl.TileLayout.row_major, fractal=32)] = pl.tile.load(s, [0, 1, 0, 0, 0], [1, 1, 1, 16, 2], [1, 1, 1, 16, 2], target_memory=pl.Mem.Mat)
"""  # noqa: E501


def test_scales_of_both_layouts_and_of_bytes_reach_the_product_as_before() -> None:
    def gemm(dtype: str, name: str = "main") -> Program:
        params = [
            tensor("a", 32, 64, dtype="FP8E4M3FN"), scales("a_s", 32, 2, dtype=dtype), tensor("b", 64, 32, dtype="FP8E4M3FN"),
            scales("b_s", 2, 32, layout=B, dtype=dtype), out("o_0", 32, 32),
        ]  # fmt: skip
        body = [
            scale_load("x", "a_s", [0, 0], [32, 2]), scale_load("y", "b_s", [0, 0], [2, 32]),
            let("u", "tile.load", "a", [0, 0], [32, 64], [32, 64], target_memory="Mat"),
            let("v", "tile.load", "b", [0, 0], [64, 32], [64, 32], target_memory="Mat"),
            let("l", "tile.move", "u", target_memory="Left"), let("r", "tile.move", "v", target_memory="Right"),
            let("ls", "tile.move", "x", target_memory="LeftScale"), let("rs", "tile.move", "y", target_memory="RightScale"),
            let("p", "tile.matmul_mx", "l", "ls", "r", "rs"), store("o", "p", [0, 0], "o_0"), ret("o"),
        ]  # fmt: skip
        return incore(params, body, target="ascend950")

    for dtype in ("FP8E8M0", "UINT8"):
        after = blocked(gemm(dtype))
        assert len(calls(after, "tile.matmul_mx")) == 1
        assert optimize(gemm(dtype)).program == after


def test_reading_back_a_blocked_program_needs_no_stamp_to_be_typed() -> None:
    unstamped = TEXT.replace('        pl.func_attr({"mx_tensor_views_blocked": True})\n', "")
    assert not read_printed(unstamped).warnings
    assert read_program is not None and index(0) == index(0)


def test_loads_without_a_valid_operand_with_a_dynamic_one_and_in_a_branch() -> None:
    short = let("t", "tile.load", "s", [16, 2], [16, 2], target_memory="Mat")
    after = blocked(incore([scales("s", 64, 4), kept(16, 2)], [short, *keep("t"), ret("o")]))
    assert len(calls(after, "tile.load")[0].args) == 3
    tail = scale_load("t", "s", [16, 2], [16, 2], ["n", 2])
    before = incore([scales("s", 64, 4), scalar("n", range=(1, 16)), kept(16, 2)], [tail, *keep("t"), ret("o")])
    assert types(blocked(before)) == types(before)
    arm = [scale_load("t", "s", [16, 2], [16, 2]), store("w", "t", [0, 0], "o_0"), give("w")]
    branch = {"if": "n == 0", "then": arm, "else": [give("o_0")], "results": ["o"]}
    blocked(incore([scales("s", 64, 4), scalar("n"), kept(16, 2)], [branch, ret("o")]))


def test_a_clamped_load_reads_whole_boxes_too() -> None:
    def clamped(row: int) -> Program:
        load = let("t", "tile.load", "s", [row, 0], [32, 2], [32, 2], target_memory="Mat", clamp=True)
        return incore([scales("s", 32, 4), kept(32, 2)], [load, *keep("t"), ret("o")])

    mx_refused(clamped(16), "B116")
    assert [c.kwarg("clamp") for c in calls(blocked(clamped(0)), "tile.load")] == [True]
