"""A fault inside the optimiser leaves the program behind, and no output."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import incore, kernel, let, load, out, ret, store, tensor

from pypto_eqsat import driver
from pypto_eqsat.cli import main
from pypto_ir.diagnostics import Diagnostic, Refused
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Program


def test_fault_of_the_optimiser_keeps_its_program_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def faulty(*_: object, **__: object) -> None:
        raise Refused([Diagnostic("X001", "two shapes met")])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(driver, "lower", faulty)
    before = kernel("add_3d")
    Path("in.json").write_text(write_program(before))
    assert main(["optimize", "in.json", "-o", "out.json"]) == 1
    (kept,) = tmp_path.glob("pypto-eqsat-*.json")
    assert kept.name in capsys.readouterr().err
    assert read_program(kept.read_text()) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.json", kept.name]


def column_sum() -> Program:
    """A reduction across pages of which some are cut and some are missing, which has no 2-D form."""
    body = [load("t", "x", [0, 0, 0], [2, 4, 8], [1, 4, 6]), let("y", "tile.col_sum", "t"), store("o", "y", [0, 0, 0], "out_0"), ret("o")]
    return incore([tensor("x", 2, 4, 8), out("out_0", 1, 4, 8)], body)


def test_refusal_of_a_program_keeps_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.json").write_text(write_program(column_sum()))
    assert main(["optimize", "in.json", "-o", "out.json"]) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["in.json"]
