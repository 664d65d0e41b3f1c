"""`convert` between the two forms, and printed programs as input and output of every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_eqsat.cli import DONE, REFUSED, USAGE, main

SHARED = Path(__file__).parents[2].parent / "shared"
DUMP = SHARED / "dumps" / "elementwise.py"
KERNEL = SHARED / "kernels" / "add_3d.json"


def test_there_and_back(tmp_path: Path) -> None:
    program, printed = tmp_path / "p.json", tmp_path / "p.py"
    assert main(["convert", str(DUMP), "-o", str(program)]) == DONE
    assert program.read_text().startswith("{")
    assert main(["convert", str(program), "-o", str(printed)]) == DONE
    assert printed.read_bytes() == DUMP.read_bytes()


def test_the_other_form_is_written_unless_told(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    assert main(["convert", str(KERNEL)]) == DONE
    assert capfdbinary.readouterr().out.startswith(b"# pypto.program: ")
    assert main(["convert", str(DUMP)]) == DONE
    assert capfdbinary.readouterr().out.startswith(b"{")
    assert main(["convert", str(DUMP), "--to", "text"]) == DONE
    assert capfdbinary.readouterr().out == DUMP.read_bytes()
    same = tmp_path / "same.txt"
    assert main(["convert", str(DUMP), "-o", str(same), "--to", "text"]) == DONE
    assert same.read_bytes() == DUMP.read_bytes()


def test_optimize_writes_the_form_of_its_input_or_of_the_suffix(tmp_path: Path) -> None:
    flattened = SHARED / "dumps" / "elementwise.flattened.py"
    for name, start in (("a.py", "# pypto.program"), ("a.json", "{"), ("a.txt", "# pypto.program")):
        out = tmp_path / name
        assert main(["optimize", str(flattened), "-o", str(out), "--no-validate"]) == DONE
        assert out.read_text().startswith(start)


def test_findings_in_printed_text_show_the_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(DUMP.read_text().replace("pl.tile.sub(a, b)", "pl.tile.sub(a, zz)"))
    assert main(["check", str(bad)]) == REFUSED
    shown = capsys.readouterr().err
    assert "error[P201]: zz is not defined" in shown and "pl.tile.sub(a, zz)\n" in shown
    caret = next(line for line in shown.split("\n") if line.strip() == "| ^" or line.strip().endswith("^"))
    source = next(line for line in shown.split("\n") if "pl.tile.sub(a, zz)" in line and line.startswith("  | "))
    assert source[len(caret) - 1 :].startswith("zz")


def test_an_annotation_that_a_type_rule_contradicts_is_a_warning_at_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bad, out = tmp_path / "bad.py", tmp_path / "out.py"
    text = DUMP.read_text()
    line = next(line for line in text.split("\n") if "pl.tile.sub(a, b)" in line)
    bad.write_text(text.replace(line, line.replace("pl.FP32", "pl.FP16")))
    number = text.split("\n").index(line) + 1
    for command in (["check", str(bad)], ["optimize", str(bad), "-o", str(out)]):
        assert main(command) == DONE
        shown = capsys.readouterr().err
        assert f"bad.py:{number}:" in shown and "warning[P501]" in shown and "error" not in shown
        assert "pl.FP32" in shown and "pl.FP16" in shown
    good = tmp_path / "good.py"
    assert main(["optimize", str(DUMP), "-o", str(good)]) == DONE
    assert out.read_text() == good.read_text()


def test_findings_of_the_verifier_show_the_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    text = DUMP.read_text()
    line = next(line for line in text.split("\n") if "pl.tile.sub(a, b)" in line)
    bad.write_text(text.replace(line, line.replace("pl.tile.sub(a, b)", "pl.tile.sub(a, b, a)")))
    assert main(["check", str(bad)]) == REFUSED
    shown = capsys.readouterr().err
    number = text.split("\n").index(line) + 1
    assert f"bad.py:{number}:" in shown and "warning[P502]" in shown and "error[T101]" in shown


def test_a_directory_cannot_be_written(tmp_path: Path) -> None:
    assert main(["convert", str(DUMP), "-o", str(tmp_path)]) == USAGE
