"""The stage of MX scales in the pipeline and on the command line: alone, after flattening, from and to both forms of text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import SHARED, assert_all_2d, calls, cost, function, incore, kernel, let, load, out, program, ret, scalar, store, tensor
from scales import A, blocked, call, compared, keep, kept, mx_refused, scale_load, scales, shape_of, texts

from egraph_rules.catalogue import every_rule, rule
from egraph_rules.mx.facts import FactProver
from egraph_rules.mx.rules import RULES
from pypto_eqsat import FLATTEN
from pypto_eqsat.cli import DONE, REFUSED, USAGE
from pypto_eqsat.cli import main as command
from pypto_eqsat.driver import optimize
from pypto_eqsat.properties import BLOCK_MX
from pypto_ir.diagnostics import CODES, Refused
from pypto_ir.expr import Binary, index
from pypto_ir.formats import read_any
from pypto_ir.stmt import Program

EXPERT = SHARED / "kernels" / "mx_expert.json"
PRODUCTS = SHARED / "dumps" / "mx_products.py"


ZZ = {"view": {"blayout": "row_major", "fractal": 32}}


def nd_with_scales() -> Program:
    """A function with N-D tiles and with scales: both stages have work to do."""
    return incore(
        [tensor("x", 2, 3, 8), out("y_0", 2, 3, 8), scales("s", 32, 4), kept(16, 2)],
        [load("u", "x", [0, 0, 0], [2, 3, 8]), let("v", "tile.add", "u", "u"), store("y", "v", [0, 0, 0], "y_0"),
         scale_load("t", "s", [16, 2], [16, 2]), *keep("t"), ret("y", "o")],
    )  # fmt: skip


def test_mx_expert_is_blocked_through_its_call() -> None:
    before = kernel("mx_expert")
    result = optimize(before)
    after = result.program
    assert shape_of(after, "a_s", "mx_gemm") == ["1", "16", "32", "16", "2"] == shape_of(after, "a_s")
    assert shape_of(after, "b_s", "mx_gemm") == ["1", "32", "32", "16", "2"] == shape_of(after, "b_s")
    assert texts(after, "tile.load", 2, "mx_gemm")[1::2] == [["1", "1", "4", "16", "2"], ["1", "8", "4", "16", "2"]]
    assert result.stats["mx"] == {"run": True, "windows": 2, "unbounded": [{"function": "mx_gemm", "statement": "bs = tile.load"}]}
    assert result.stats["validated"]["equal"] and any(f["runs"] for f in result.stats["validated"]["functions"].values())
    assert compared(before, after, ["mx_gemm"], seeds=range(1)).validated
    upstream = optimize(before, stages=("mx",), policy="upstream").program
    boxes = [["0", rows, "g0 // 2", "0", "0"] for rows in ("r0 // 16", "n0 // 16")]
    assert texts(upstream, "tile.load", 1, "mx_gemm")[1::2] == boxes
    assert optimize(after).program is after
    assert cost(after) == cost(before), "no cost tells a logical tensor from a blocked one"


def test_both_stages_run_one_after_the_other() -> None:
    before = nd_with_scales()
    after = optimize(before).program
    assert_all_2d(after)
    assert shape_of(after, "s") == ["1", "2", "2", "16", "2"]
    assert compared(before, after).validated
    assert optimize(after).program is after
    one = optimize(before, stages=("flatten",)).program
    assert shape_of(one, "s") == ["32", "4"]
    two = optimize(one, stages=("mx",)).program
    assert two == after


def test_the_stage_alone_leaves_tiles_alone() -> None:
    before = nd_with_scales()
    after = optimize(before, stages=("mx",)).program
    assert [c.op for c in calls(after)] == [c.op for c in calls(before)]
    assert optimize(before, stages=("mx",)).stats["functions"] == {}


def test_a_program_without_scales_is_stamped_only_where_the_stage_is_asked_for() -> None:
    before = incore([tensor("x", 4, 4), out("o_0", 4, 4)], [load("t", "x", [0, 0], [4, 4]), store("o", "t", [0, 0], "o_0"), ret("o")])
    assert optimize(before).program is before
    assert optimize(before).stats["mx"] == {"run": False}
    after = blocked(before)
    assert after.functions[0].body is before.functions[0].body


def test_a_printed_program_goes_in_and_comes_out_blocked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "out.py"
    assert command(["optimize", str(PRODUCTS), "-o", str(written), "--stage", "mx"]) == DONE
    text = written.read_text()
    assert 'pl.func_attr({"mx_tensor_views_blocked": True})' in text
    assert "a_s: pl.Tensor[[1, 2, 1, 16, 2], pl.FP8E8M0, pl.TensorView(stride=[], layout=pl.TensorLayout.MX_A_ZZ)]" in text
    assert "pl.tile.load(b_s, [0, 0, 0, 0, 0], [1, 2, 1, 16, 2], [1, 2, 1, 16, 2], target_memory=pl.Mem.Mat)" in text
    assert "um: pl.Tile[[2, 32], pl.FP8E8M0, pl.Mem.Mat, pl.TileView(slayout=pl.TileLayout.col_major, fractal=32)]" in text
    assert capsys.readouterr().err == ""
    assert command(["optimize", str(written), "-o", str(tmp_path / "again.py"), "--stage", "mx"]) == DONE
    assert (tmp_path / "again.py").read_bytes() == written.read_bytes()
    as_json = tmp_path / "out.json"
    assert command(["convert", str(written), "-o", str(as_json)]) == DONE
    assert command(["convert", str(as_json), "-o", str(tmp_path / "back.py")]) == DONE
    assert (tmp_path / "back.py").read_bytes() == written.read_bytes()
    assert read_any(as_json.read_text()) == read_any(text)
    assert compared(read_any(PRODUCTS.read_text()), read_any(text)).validated


@pytest.mark.parametrize("policy", ["cheapest", "upstream"])
def test_the_command_line_chooses_stage_and_policy(policy: str, tmp_path: Path) -> None:
    written, stats = tmp_path / "o.json", tmp_path / "s.json"
    arguments = ["optimize", str(EXPERT), "-o", str(written), "--stats", str(stats), "--stage", "mx", "--policy", policy]
    assert command(arguments) == DONE
    assert json.loads(stats.read_text())["mx"]["windows"] == 2
    assert json.loads(stats.read_text())["rules_fired"] == {"mx.load": 2, "mx.offset.quotient": 4, "mx.type": 4}
    assert ("n0 // 16" in written.read_text()) is (policy == "upstream")
    assert command(["optimize", str(EXPERT), "-o", str(written), "--stage", "flatten"]) == DONE
    assert read_any(written.read_text()) == kernel("mx_expert")


def test_an_unknown_stage_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["optimize", str(EXPERT), "--stage", "nz"]) == USAGE
    assert "flatten" in capsys.readouterr().err


def test_a_refusal_names_file_line_path_statement_and_position(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = {**scale_load("t", "s", ["n", 0], [16, 2]), "loc": "kernel.py:12:8"}
    value = {"pypto_ir": 1, "functions": [function("main", [scales("s", 64, 4), scalar("n"), kept(16, 2)], [bad, *keep("t"), ret("o")])]}
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(value, indent=1))
    line = next(i for i, text in enumerate(file.read_text().splitlines(), 1) if '"let": "t"' in text) - 1
    assert command(["optimize", str(file), "-o", str(tmp_path / "o.json")]) == REFUSED
    shown = capsys.readouterr().err
    assert f"bad.json:{line}:" in shown and "$.functions[0].body[0]" in shown and "t = tile.load" in shown
    assert "kernel.py:12:8" in shown and "error[B108]" in shown and not (tmp_path / "o.json").exists()
    text = (
        PRODUCTS.read_text()
        .replace("pl.tile.load(a_s, [0, 0]", "pl.tile.load(a_s, [8, 0]")
        .replace("a_s: pl.Tensor[[32, 2]", "a_s: pl.Tensor[[64, 2]")
    )
    printed = tmp_path / "bad.py"
    printed.write_text(text)
    assert command(["optimize", str(printed), "-o", str(tmp_path / "o.py")]) == REFUSED
    shown = capsys.readouterr().err
    assert "bad.py:9:" in shown and "error[B107]" in shown and "^" in shown


def test_a_place_in_a_function_that_was_flattened_is_that_of_its_statement() -> None:
    """Paths lead through the input; where flattening wrote other statements, name and position remain."""
    before = incore(
        [tensor("x", 2, 3, 8), out("y_0", 2, 3, 8), scales("s", 64, 4), scalar("n"), kept(16, 2)],
        [load("u", "x", [0, 0, 0], [2, 3, 8]), let("v", "tile.add", "u", "u"), store("y", "v", [0, 0, 0], "y_0"),
         {**scale_load("t", "s", ["n", 0], [16, 2]), "loc": "k.py:4:1"}, *keep("t"), ret("y", "o")],
    )  # fmt: skip
    with pytest.raises(Refused) as caught:
        optimize(before)
    (d,) = caught.value.diagnostics
    assert (d.code, d.place.path, d.place.function, d.place.statement, d.place.loc) == ("B108", None, "main", "t = tile.load", "k.py:4:1")


def test_a_function_with_an_author_who_stores_scales_passes_where_it_is_asked_for(tmp_path: Path) -> None:
    load_t = let("t", "tile.load", "x", [0, 0], [16, 2], [16, 2], target_memory="Mat", type=ZZ)
    before = incore(
        [tensor("x", 16, 2, dtype="FP8E8M0"), scales("o_0", 32, 4, direction="Out")], [load_t, store("o", "t", [16, 2], "o_0"), ret("o")]
    )
    mx_refused(before, "B114")
    after = optimize(before, mx_stores=True).program
    assert texts(after, "tile.store", 1) == [["0", "1", "1", "0", "0"]] and len(calls(after, "tile.store")[0].args) == 3
    assert compared(before, after).validated
    assert optimize(after).program is after, "a blocked store needs no box"


def test_the_rules_of_the_pass_are_in_the_catalogue_and_fire_somewhere() -> None:
    assert {r.name for r in RULES} <= {r.name for r in every_rule()} and len({r.name for r in RULES}) == len(RULES) == 7
    for r in RULES:
        assert rule(r.name) is r and r.equation and r.condition and r.counterexample and r.ruleset == "mx" and r.parts == (r.name,)
    view = let("v", "tensor.view", "s", [1, 128], layout="ND")
    make = let("m", "tensor.create", [32, 2], dtype="FP8E8M0", layout=A)
    load_t = let("t", "tile.load", "x", [0, 0], [16, 2], [16, 2], target_memory="Mat", type=ZZ)
    stored = [view, load_t, store("o", "t", [0, 0], "o_0"), ret("o")]
    loaded = [let("b", "tile.get_block_idx"), {"let": "r", "expr": "b * 16"}, scale_load("t", "s", ["r", 2], [16, 2]), *keep("t"), ret("o")]
    x, s = tensor("x", 16, 2, dtype="FP8E8M0"), scales("s", 32, 4)
    k = function("k", [s, x, scales("o_0", 32, 2, direction="Out")], stored)
    j = function("j", [s, kept(16, 2)], loaded)
    main = function("main", [s, x], [make, call("o", "k", "s", "x", "m"), ret()], kind="Orchestration")
    result = optimize(program(k, j, main), stages=("mx",), mx_stores=True)
    assert set(result.stats["rules_fired"]) == {r.name for r in RULES}


def test_codes_of_the_pass_are_declared_with_what_they_mean() -> None:
    assert {code for code in CODES if code.startswith("B")} == {f"B{n}" for n in range(101, 121)}
    assert all(CODES[code] for code in ("V401", "V402", "V403"))


def test_what_the_pass_asks_for_is_what_flattening_gives() -> None:
    held = FLATTEN.after(("SSAForm", "IncoreTileOps", "NormalizedStmtStructure"))
    assert BLOCK_MX.missing(held) == () and set(held) <= set(BLOCK_MX.after(held))


def launched_by(*body: dict[str, object]) -> Program:
    """A kernel that loads a box of scales at a row, called from a function that cannot be interpreted."""
    k = function(
        "k", [scales("s", 64, 2), scalar("row"), scalar("n"), kept(16, 2)],
        [{"let": "x", "expr": "row + 8"}, scale_load("t", "s", ["x", 0], [16, 2]), *keep("t"), ret("o")],
    )  # fmt: skip
    barrier = {"let": "u", "op": "tensor.strange", "args": ["s2"], "type": {"tensor": [4], "dtype": "FP32"}}
    params = [scales("s", 64, 2), tensor("s2", 4), kept(16, 2)]
    return program(k, function("main", params, [barrier, *body, ret("o")], kind="Orchestration"))


def test_a_kernel_whose_callers_cannot_run_is_run_on_numbers_that_fit_its_facts() -> None:
    before = launched_by(call("a", "k", "s", 8, 1, "o_0"), call("o", "k", "s", 24, 3, "o_0"))
    result = optimize(before, stages=("mx",), validate_seconds=1.0)
    ran = result.stats["validated"]["functions"]
    assert ran["k"]["runs"] and not ran["k"]["not_run"]
    assert not ran["main"]["runs"] and any("tensor.strange" in reason for reason in ran["main"]["not_run"])
    assert texts(result.program, "tile.load", 1, "k") == [["0", "x // 16", "0", "0", "0"]]


def test_a_wrong_box_in_a_kernel_whose_callers_cannot_run_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    before = launched_by(call("a", "k", "s", 8, 1, "o_0"), call("o", "k", "s", 24, 3, "o_0"))
    monkeypatch.setattr(FactProver, "quotient", lambda self, at, e, by: Binary("floordiv", e, index(2 * by)))
    with pytest.raises(Refused) as caught:
        optimize(before, stages=("mx",), validate_seconds=1.0)
    assert [d.code for d in caught.value.diagnostics] == ["X004"]
