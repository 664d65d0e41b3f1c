"""The catalogue of upstream's tests for this pass (`spec/mx.md` section 9), row by row, under both provers."""

from __future__ import annotations

import pytest
from helpers import calls, function, give, incore, ints, let, loop, main, out, program, ret, scalar, store, tensor, types
from scales import POLICIES, A, B, blocked, call, keep, kept, mx_refused, scale_load, scales, shape_of, texts

from pypto_ir.diagnostics import Refused
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.stmt import Assign, Call, FunctionCall, Submit, walk
from pypto_ir.types import TupleType
from pypto_ir.verify import verify_program


@pytest.mark.parametrize("policy", POLICIES)
def test_1_shapes_and_load_windows_of_both_layouts(policy: str) -> None:
    before = incore(
        [scales("a_s", 64, 4), scales("b_s", 4, 64, layout=B), kept(16, 2), kept(2, 16, name="p_0")],
        [
            scale_load("x", "a_s", [16, 2], [16, 2]),
            *keep("x"),
            scale_load("y", "b_s", [2, 16], [2, 16]),
            *keep("y", "p", "p_0"),
            ret("o", "p"),
        ],
    )
    after = blocked(before, policy=policy)
    assert shape_of(after, "a_s") == shape_of(after, "b_s") == ["1", "4", "2", "16", "2"]
    assert [ints(c, 1) for c in calls(after, "tile.load")] == [[0, 1, 1, 0, 0]] * 2
    assert [ints(c, i) for c in calls(after, "tile.load") for i in (2, 3)] == [[1, 1, 1, 16, 2]] * 4
    assert types(after) == types(before)


@pytest.mark.parametrize("policy", POLICIES)
def test_2_scales_that_are_returned_are_stored_as_boxes_where_stores_are_asked_for(policy: str) -> None:
    before = incore(
        [tensor("x", 16, 2, dtype="FP8E8M0"), scales("o_0", 16, 2, direction="Out")],
        [let("t", "tile.load", "x", [0, 0], [16, 2], [16, 2], target_memory="Mat", type=ZZ), store("o", "t", [0, 0], "o_0"), ret("o")],
    )
    after = blocked(before, policy=policy, mx_stores=True)
    assert [ints(c, 1) for c in calls(after, "tile.store")] == [[0, 0, 0, 0, 0]]
    assert shape_of(after, "o_0") == ["1", "1", "1", "16", "2"]
    mx_refused(before, "B114", policy=policy)


#: the view of a tile that holds scales of a left operand
ZZ = {"view": {"blayout": "row_major", "slayout": "row_major", "fractal": 32}}


@pytest.mark.parametrize("policy", POLICIES)
def test_3_quantised_operands_reach_the_scaled_product_as_tiles(policy: str) -> None:
    made = (
        ("l", "x", [32, 64], "FP8E4M3FN"),
        ("l_s", "x", [32, 2], "FP8E8M0"),
        ("r", "y", [64, 32], "FP8E4M3FN"),
        ("r_s", "y", [2, 32], "FP8E8M0"),
    )
    quantised = [
        {"let": name, "op": "tile.quant_mx", "args": [source], "type": {"tile": shape, "dtype": dtype, "memory": "Vec"}}
        for name, source, shape, dtype in made
    ]
    loads = [let(n, "tile.load", f"{n}_0", [0, 0], s, s, target_memory="Vec") for n, s in (("x", [32, 64]), ("y", [64, 32]))]
    before = incore(
        [tensor("x_0", 32, 64, dtype="BF16"), tensor("y_0", 64, 32, dtype="BF16"), out("o_0", 32, 32)],
        [*loads, *quantised, let("p", "tile.matmul_mx", "l", "l_s", "r", "r_s"), store("o", "p", [0, 0], "o_0"), ret("o")],
    )
    after = blocked(before, policy=policy, equal=False)
    assert main(after).body == main(before).body


@pytest.mark.parametrize("policy", POLICIES)
def test_4_attributes_of_calls_name_the_blocked_arguments(policy: str) -> None:
    inner = function("inner", [scales("s", 32, 2), kept(16, 2)], [scale_load("t", "s", [16, 0], [16, 2]), *keep("t"), ret("o")])
    outer = function(
        "main", [scales("a_s", 32, 2), kept(16, 2)],
        [{**call("o", "inner", "a_s", "o_0"), "attrs": {"dump_vars": [{"var": "a_s"}], "device": {"var": "a_s"}}}, ret("o")],
        kind="Orchestration",
    )  # fmt: skip
    after = blocked(program(inner, outer), policy=policy)
    value = next(s.value for s in walk(main(after).body) if isinstance(s, Assign))
    assert isinstance(value, FunctionCall)
    named = dict(value.attrs)
    assert named["dump_vars"][0].type is named["device"].type is main(after).params[0].var.type is value.args[0].type  # type: ignore
    assert not verify_program(after)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("layout", "valid"), [(A, [16, 2]), (A, [20, 1]), (B, [2, 16]), (B, [1, 20])])
def test_5_a_narrowed_load_reads_whole_boxes_and_keeps_its_valid_region(layout: str, valid: list[int], policy: str) -> None:
    window = [32, 2] if layout == A else [2, 32]
    shape = (64, 4) if layout == A else (4, 64)
    before = incore(
        [scales("s", *shape, layout=layout), kept(*window)], [scale_load("t", "s", [0, 0], window, valid), *keep("t"), ret("o")]
    )
    after = blocked(before, policy=policy)
    (load,) = calls(after, "tile.load")
    assert ints(load, 2) == ints(load, 3) == [1, 2, 1, 16, 2]
    assert load.args[2] is load.args[3]
    assert types(after)["t"] == types(before)["t"]
    assert [str(d.value) for d in types(after)["t"].valid] == list(map(str, valid))  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", POLICIES)
def test_6_an_offset_that_nobody_gives_is_refused(policy: str) -> None:
    before = incore([scales("s", 64, 4), scalar("row"), kept(16, 2)], [scale_load("t", "s", ["row", 0], [16, 2]), *keep("t"), ret("o")])
    (d,) = mx_refused(before, "B108", policy=policy)
    assert "cannot be proven" in d.message and "multiple of 16" in d.message and "row" in d.message


@pytest.mark.parametrize("policy", POLICIES)
def test_7_a_quotient_of_a_loop_variable_is_proved(policy: str) -> None:
    body = [let_expr("g", "k0 // 32"), scale_load("t", "s", [0, "g"], [16, 8]), store("n", "t", [0, "g"], "c"), give("n")]
    before = incore(
        [scales("s", 16, 64), kept(16, 64)],
        [loop("k0", [256, 2048, 256], {"c": "o_0"}, body, ["o"], kind="pipeline", attrs={"pipeline_stages": 2}), ret("o")],
    )
    after = blocked(before, policy=policy)
    (load,) = calls(after, "tile.load")
    assert texts(after, "tile.load", 1) == [["0", "0", "g // 2", "0", "0"]]
    assert ints(load, 2) == [1, 1, 4, 16, 2]


def let_expr(name: str, text: str, **more: object) -> dict[str, object]:
    return {"let": name, "expr": text, **more}


@pytest.mark.parametrize("policy", POLICIES)
def test_8_an_offset_is_proved_through_outlined_scalar_parameters(policy: str) -> None:
    inner = function(
        "tile_0", [scales("s", 32, 2), scalar("row"), kept(32, 2)],
        [let("block", "tile.get_block_idx"), let_expr("at", "row + block * 16"),
         scale_load("t", "s", ["at", 0], [16, 2]), store("o", "t", ["at", 0], "o_0"), ret("o")],
    )  # fmt: skip
    body = [let_expr("row", "mt * 16"), call("n", "tile_0", "s", "row", "c"), give("n")]
    outer = function(
        "main", [scales("s", 32, 2), kept(32, 2)],
        [loop("mt", [0, 2, 1], {"c": "o_0"}, body, ["o"], kind="parallel"), ret("o")], kind="Orchestration",
    )  # fmt: skip
    before = program(inner, outer)
    after = blocked(before, policy=policy, without=["tile_0"])
    assert texts(after, "tile.load", 1, "tile_0") == [["0", "at // 16", "0", "0", "0"]]


@pytest.mark.parametrize("policy", POLICIES)
def test_9_one_caller_that_is_not_aligned_refuses_the_offset(policy: str) -> None:
    inner = function(
        "k", [scales("s", 32, 2), scalar("row"), kept(16, 2)], [scale_load("t", "s", ["row", 0], [16, 2]), *keep("t"), ret("o")]
    )
    bodies = [[call("o", "k", "s", row, "o_0"), ret("o")] for row in (0, 1)]
    outer = [function(f"main{i}", [scales("s", 32, 2), kept(16, 2)], body, kind="Orchestration") for i, body in enumerate(bodies)]
    (d,) = mx_refused(program(inner, *outer), "B108", policy=policy)
    assert "main1" in d.message and "main0" not in d.message


@pytest.mark.parametrize("policy", POLICIES)
def test_10_a_second_run_gives_the_same_object(policy: str) -> None:
    from pypto_eqsat.driver import optimize

    before = incore([scales("s", 32, 2), kept(16, 2)], [scale_load("t", "s", [16, 0], [16, 2]), *keep("t"), ret("o")])
    after = blocked(before, policy=policy)
    assert optimize(after, stages=("mx",), policy=policy).program is after
    assert optimize(after, policy=policy).program is after


@pytest.mark.parametrize("policy", POLICIES)
def test_11_views_between_bytes_and_scales_are_rewritten_both_ways(policy: str) -> None:
    before = incore(
        [tensor("x", 1, 128, dtype="FP8E8M0"), scales("s", 32, 4), kept(4, 32), kept(1, 128, name="p_0")],
        [let("m", "tensor.view", "x", [4, 32], layout=B), scale_load("t", "m", [0, 0], [4, 32]), *keep("t"),
         let("n", "tensor.view", "s", [1, 128], layout="ND"),
         let("u", "tile.load", "n", [0, 0], [1, 128], [1, 128], target_memory="Vec"), *keep("u", "p", "p_0"), ret("o", "p")],
    )  # fmt: skip
    after = blocked(before, policy=policy)
    assert [ints(c, 1) for c in calls(after, "tensor.view")] == [[1, 2, 2, 16, 2], [1, 128]]
    assert shape_of(after, "s") == ["1", "2", "2", "16", "2"]
    views = {s.target.name: s.target.type for s in walk(main(after).body) if isinstance(s, Assign) and isinstance(s.value, Call)}
    assert [str(d.value) for d in views["m"].shape] == ["1", "2", "2", "16", "2"]  # type: ignore[union-attr]
    assert [str(d.value) for d in views["n"].shape] == ["1", "128"]  # type: ignore[union-attr]


SCALES = "pl.Tensor[[32, 4], pl.FP8E8M0, pl.MX_A_ZZ]"
FIELDS = 'deps=[t0], dumps=[s], core_num=n + 1, sync_start=True, allow_early_resolve=True, attrs={"w": 3, "v": s}'
SUBMITTED = f"""# pypto.program: Launch
import pypto.language as pl

@pl.program
class Launch:
    @pl.function(type=pl.FunctionType.InCore, level=pl.Level.CHIP_DIE, role=pl.Role.SubWorker)
    def k(s: {SCALES}, o_0: pl.Out[{SCALES}]) -> {SCALES}:
        return s
    @pl.function(type=pl.FunctionType.Orchestration, level=pl.Level.CHIP, role=pl.Role.Orchestrator)
    def main(self, s: {SCALES}, n: pl.Scalar[pl.INDEX]) -> {SCALES}:
        first, t0 = pl.submit(self.k, s)
        second, t1 = pl.submit(self.k, s, {FIELDS})
        return second
"""


@pytest.mark.parametrize("policy", POLICIES)
def test_12_results_of_a_launch_are_blocked_and_its_fields_survive(policy: str) -> None:
    before = read_printed(SUBMITTED).program
    after = blocked(before, policy=policy)
    old, new = ([s for s in walk(main(p).body) if isinstance(s, Assign) and isinstance(s.value, Submit)] for p in (before, after))
    for s, t in zip(old, new, strict=True):
        assert isinstance(s.value, Submit) and isinstance(t.value, Submit)
        assert [v.name for v in t.targets] == [v.name for v in s.targets]
        assert [str(d.value) for d in t.targets[0].type.shape] == ["1", "2", "2", "16", "2"]  # type: ignore[union-attr]
        assert t.targets[1] is s.targets[1]
        assert [k for k, _ in t.value.fields] == [k for k, _ in s.value.fields]
        for (key, was), (_, now) in zip(s.value.fields, t.value.fields, strict=True):
            assert now is was or key == "dumps"
    dumps = dict(new[1].value.fields)["dumps"]  # type: ignore[union-attr]
    assert dumps[0].type is main(after).params[0].var.type  # type: ignore[index, union-attr]
    assert dict(new[1].value.attrs)["w"] == 3  # type: ignore[union-attr]


def test_a_tuple_of_a_launch_is_blocked_element_by_element() -> None:
    source = SUBMITTED.replace("second, t1 =", "both =").replace("        return second", "        second = both[0]\n        return second")
    try:
        before = read_printed(source).program
    except Refused as refused:
        pytest.fail(str(refused))
    after = blocked(before)
    both = next(s for s in walk(main(after).body) if isinstance(s, Assign) and s.target.name == "both")
    assert isinstance(both.target.type, TupleType)
    assert [str(d.value) for d in both.target.type.items[0].shape] == ["1", "2", "2", "16", "2"]  # type: ignore[union-attr]
