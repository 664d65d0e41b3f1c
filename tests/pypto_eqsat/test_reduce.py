"""`reduce`: failing programs become small, and still fail alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_support import KERNELS
from helpers import give, incore, let, load, loop, out, ret, store, tensor

from pypto_eqsat import driver, reduce_command
from pypto_eqsat.cli import main
from pypto_ir.diagnostics import Diagnostic, Refused
from pypto_ir.formats import read_any
from pypto_ir.json_writer import write_program
from pypto_ir.reducing import reduced
from pypto_ir.stmt import Assign, Call, Program, walk
from pypto_ir.verify import verify_program


def ops(p: Program) -> list[str]:
    found = (s.value for f in p.functions for s in walk(f.body) if isinstance(s, Assign))
    return [value.op for value in found if isinstance(value, Call)]


def long_program(count: int = 30) -> Program:
    """A loop of `count` ops, one of which sums columns across pages, some cut and some missing, which no rule lowers."""
    at = ["i * 2", 0, 0]
    inner = [load("t0", "x", at, [2, 16, 64], [1, 16, 60])]
    inner += [let(f"t{n + 1}", ("tile.exp", "tile.neg", "tile.abs")[n % 3], f"t{n}") for n in range(count)]
    inner += [let("s", "tile.col_sum", f"t{count // 2}"), store("o1", f"t{count}", at, "c")]
    inner += [store("o2", "s", ["i", 0, 0], "d"), give("o1", "o2")]
    body = [loop("i", [0, 4, 1], {"c": "out", "d": "sums"}, inner, ["r", "q"]), ret("r", "q")]
    return incore([tensor("x", 8, 16, 64), out("out", 8, 16, 64), out("sums", 4, 16, 64)], body)


def test_what_has_no_part_in_a_failure_goes() -> None:
    seen: list[Program] = []
    small = reduced(long_program(), lambda p: "tile.col_sum" in ops(p), found=seen.append)
    assert ops(small) == ["tile.load", "tile.col_sum"] and seen[-1] is small
    assert verify_program(small) == [] and all(verify_program(p) == [] for p in seen)


def test_no_invalid_candidate_is_tried_and_nothing_is_lost_where_all_is_needed() -> None:
    program = long_program(4)
    wanted = ops(program)
    tried: list[Program] = []

    def fails(p: Program) -> bool:
        tried.append(p)
        return ops(p) == wanted

    assert ops(reduced(program, fails)) == wanted
    assert tried and all(not [d for d in verify_program(p) if d.severity.value == "error"] for p in tried)


def test_the_first_error_of_optimize_is_the_failure_unless_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, small = tmp_path / "p.json", tmp_path / "small.json"
    source.write_text(write_program(long_program(12)))
    assert main(["optimize", str(source)]) == 1
    code = capsys.readouterr().err.partition("error[")[2][:4]
    assert main(["reduce", str(source), "-o", str(small), "--no-validate"]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"error {code}: ") and " reduced to " in said
    assert ops(read_any(small.read_text())) == ["tile.load", "tile.col_sum", "tile.store"]
    assert main(["optimize", str(small)]) == 1 and f"error[{code}]" in capsys.readouterr().err


def test_a_command_tells_what_fails(tmp_path: Path) -> None:
    source, small = tmp_path / "p.json", tmp_path / "small.json"
    source.write_text(write_program(long_program(6)))
    for how in ("grep -q tile.abs", "sh -c 'grep -q tile.abs $0' {}"):
        assert main(["reduce", str(source), "-o", str(small), "-q", "--check", how]) == 0
        assert ops(read_any(small.read_text())) == ["tile.load", "tile.abs"]


def test_printed_programs_are_checked_and_written_printed(tmp_path: Path) -> None:
    source, small = tmp_path / "p.py", tmp_path / "small.py"
    assert main(["convert", str(KERNELS / "add_3d.json"), "-o", str(source)]) == 0
    assert main(["reduce", str(source), "-o", str(small), "-q", "--check", "grep -q pl.tile.load"]) == 0
    assert small.read_text().startswith("# pypto.program") and "pl.tile.load" in small.read_text()
    assert len(small.read_text()) < len(source.read_text())


@pytest.mark.parametrize(
    ("fault", "given"),
    [(ZeroDivisionError(), ()), (Refused([Diagnostic("L001", "no"), Diagnostic("X003", "wrong")]), ("--code", "X003"))],
)
def test_a_fault_inside_is_reduced(fault: Exception, given: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(program: Program, **_: object) -> driver.Result:
        if "tile.abs" in ops(program):
            raise fault
        return driver.Result(program, {})

    monkeypatch.setattr(driver, "optimize", faulty)
    source, small = tmp_path / "p.json", tmp_path / "small.json"
    source.write_text(write_program(long_program(6)))
    assert main(["reduce", str(source), "-o", str(small), *given]) == 0
    assert ops(read_any(small.read_text())) == ["tile.load", "tile.abs"]


def test_a_result_dearer_than_upstreams_is_reduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def priced(program: Program, **_: object) -> driver.Result:
        return driver.Result(program, {"cost": 2.0, "policy_cost": 1.0 if "tile.neg" in ops(program) else None})

    monkeypatch.setattr(driver, "optimize", priced)
    source, small = tmp_path / "p.json", tmp_path / "small.json"
    source.write_text(write_program(long_program(3)))
    assert main(["reduce", str(source), "-o", str(small), "--dearer"]) == 0
    assert ops(read_any(small.read_text())) == ["tile.load", "tile.neg"]


def test_an_interrupt_or_the_end_of_the_time_writes_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, small = tmp_path / "p.json", tmp_path / "small.json"
    source.write_text(write_program(long_program(12)))
    count = 0

    def errors(program: Program, _: object) -> list[str]:
        nonlocal count
        count += 1
        if count == 20:
            raise KeyboardInterrupt
        return ["L001"] if "tile.col_sum" in ops(program) else []

    monkeypatch.setattr(reduce_command, "_errors", errors)
    assert main(["reduce", str(source), "-o", str(small)]) == 130
    assert 1 < len(ops(read_any(small.read_text()))) < len(ops(long_program(12)))
    assert main(["reduce", str(source), "-o", str(small), "--time-limit", "1e-9"]) == 3
    assert read_any(small.read_text()) == long_program(12)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ((), "U201"),
        (("--code", "L001"), "U201"),
        (("--check", "false"), "U201"),
        (("--check", "no-such-command-at-all"), "U202"),
        (("--check", ""), "U202"),
        (("--check", "'"), "U202"),
        (("--check", "true", "--dearer"), "U001"),
        (("-o", "none/o.json"), "U003"),
    ],
)
def test_what_cannot_be_reduced_is_said(given: tuple[str, ...], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reduce", str(KERNELS / "add_3d.json"), *given]) == 2
    done = capsys.readouterr()
    assert f"[{code}]" in done.err and done.out == "" and "Traceback" not in done.err
