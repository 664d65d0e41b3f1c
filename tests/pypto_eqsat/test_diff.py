"""`diff`: what changed, what it costs, and a verdict that rests on runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import function, incore, kernel, let, load, out, program, ret, scalar, store, tensor

from pypto_eqsat.cli import main
from pypto_eqsat.driver import optimize
from pypto_eqsat.program_diff import DIFFERENT, EQUAL, IDENTICAL, UNKNOWN, difference
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Program


def unary(op: str, *more: object, name: str = "x") -> Program:
    """`out = op(x)` on a tile of [2, 16, 64]."""
    body = [load("t", name, [0, 0, 0], [2, 16, 64]), let("y", op, "t", *more), store("o", "y", [0, 0, 0], "out"), ret("o")]
    return incore([tensor(name, 2, 16, 64), out("out", 2, 16, 64)], body)


def saved(folder: Path, **programs: Program) -> list[str]:
    paths = []
    for name, p in programs.items():
        (folder / f"{name}.json").write_text(write_program(p))
        paths.append(str(folder / f"{name}.json"))
    return paths


def test_a_program_and_its_result_are_equal_with_the_lines_and_cycles_that_changed() -> None:
    before = kernel("expert_gate")
    after = optimize(before, validate=False).program
    found = difference(before, after, seconds=0.5)
    assert found.verdict == EQUAL and sum(found.runs.values()) > 0
    (name,) = (n for n, f in found.functions.items() if f.status == "changed")
    changed = found.functions[name]
    assert changed.before is not None and changed.after is not None and changed.after < changed.before
    assert found.after == pytest.approx(sum(f.after or 0 for f in found.functions.values()))
    assert any(a != b for a, b in changed.cycles.values())
    assert any(line.startswith("-") for line in changed.changes) and any(line.startswith("+") for line in changed.changes)


def test_equal_programs_are_identical_without_a_run() -> None:
    found = difference(unary("tile.exp"), unary("tile.exp"))
    assert (found.verdict, found.runs) == (IDENTICAL, {}) and found.functions["main"].changes == ()


def test_other_values_are_a_difference_with_its_cell() -> None:
    found = difference(unary("tile.exp"), unary("tile.neg"), seconds=0.5)
    assert found.verdict == DIFFERENT and "buffer out[" in found.reason


def test_a_wrong_packing_of_an_accumulator_is_seen() -> None:
    """The author's row windows are right by value and wrong where products know no stride."""
    before = kernel("row_windows")
    assert difference(before, optimize(before, validate=False).program, seconds=0.5).verdict == EQUAL
    renamed = Program("other", before.functions, before.target, before.dynamic)
    assert difference(before, renamed).verdict == IDENTICAL


def test_scales_in_boxes_are_the_logical_ones() -> None:
    before = kernel("mx_expert")
    after = optimize(before, validate=False).program
    found = difference(before, after, seconds=0.5)
    assert found.verdict == EQUAL and any(f.status == "changed" for f in found.functions.values())


def test_other_parameters_differ_without_a_run() -> None:
    found = difference(unary("tile.exp"), unary("tile.exp", name="z"))
    assert found.verdict == DIFFERENT and "parameters or results of main differ" in found.reason


def test_a_function_of_one_program_leaves_the_answer_open() -> None:
    body = [load("t", "x", [0, 0], [16, 64]), store("o", "t", [0, 0], "out"), ret("o")]
    params = [tensor("x", 16, 64), out("out", 16, 64)]
    one, two = program(function("main", params, body)), program(function("main", params, body), function("more", params, body))
    found = difference(one, two)
    assert found.verdict == UNKNOWN and found.functions["more"].status == "added" and "more stands in one program only" in found.reason
    assert found.functions["more"].changes[0].startswith("+") and difference(two, one).functions["more"].status == "removed"


def test_functions_that_cannot_be_run_leave_the_answer_open() -> None:
    """An offset that is out of bounds in every run: neither program has a meaning."""
    programs = []
    for op in ("tile.exp", "tile.neg"):
        body = [load("t", "x", ["n", 0, 0], [2, 16, 64]), let("y", op, "t"), store("o", "y", [0, 0, 0], "out"), ret("o")]
        programs.append(incore([scalar("n", range=(100, 200)), tensor("x", 10, 16, 64), out("out", 2, 16, 64)], body))
    found = difference(*programs, seconds=0.1)
    assert found.verdict == UNKNOWN and "main was not run" in found.reason


def test_the_command_tells_by_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c = saved(tmp_path, a=unary("tile.exp"), b=unary("tile.neg"), c=optimize(unary("tile.exp"), validate=False).program)
    assert main(["diff", a, a]) == 0
    assert capsys.readouterr().out.endswith("verdict: identical (every function is the same)\n")
    assert main(["diff", a, c, "--seconds", "0.2"]) == 0
    assert "verdict: equal (" in capsys.readouterr().out
    assert main(["diff", a, b, "--seconds", "0.2"]) == 1
    text = capsys.readouterr().out
    assert "function main: changed, cost " in text and "\x1b" not in text and "verdict: different (" in text
    assert main(["diff", a, b, "--seconds", "0.2", "--json", "--target", "ascend950"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["verdict"] == "different" and value["functions"]["main"]["status"] == "changed"
    assert value["cost"]["before"] == value["functions"]["main"]["cost"]["before"] > 0


def test_what_the_command_cannot_take_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (a,) = saved(tmp_path, a=unary("tile.exp"))
    for given, code, exit in ((["-", "-"], "U001", 2), ([a, "none.json"], "U002", 2), ([a, a, "--target", "x"], "U004", 2)):
        assert main(["diff", *given]) == exit
        assert f"[{code}]" in capsys.readouterr().err
    (tmp_path / "bad.json").write_text("{}")
    assert main(["diff", a, str(tmp_path / "bad.json")]) == 1


def test_changed_lines_have_colours_where_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = saved(tmp_path, a=unary("tile.exp"), b=unary("tile.neg"))
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["diff", a, b, "--seconds", "0.2"]) == 1
    assert "\x1b[31m-" in capsys.readouterr().out
