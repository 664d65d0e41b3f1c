"""Bad input, case by case through the command line and the library: a coded diagnostic with its place, exit
code 1 or 2, no traceback, no partial file."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_support import ADD, cli

from pypto_ir.diagnostics import Refused
from pypto_ir.json_reader import read_program

PROGRAM = json.loads(ADD.read_text())
TEXT = ADD.read_text()


def changed(change: Callable[[Any, Any], object]) -> str:
    program = copy.deepcopy(PROGRAM)
    change(program["functions"][0], program["functions"][0]["body"])
    return json.dumps(program, indent=1)


def inserted(*statements: Any) -> str:
    return changed(lambda f, b: b.__setitem__(slice(0, 0), statements))


CASES: dict[str, tuple[str | bytes, str]] = {
    "truncated JSON": (TEXT[:400], "J003"),
    "an empty file": ("", "J003"),
    "nonsense": (b"\x00\x01\x02nonsense" * 50, "J003"),
    "no UTF-8": (b'{"pypto_ir": 1, "name": "\xff\xfe"}', "J002"),
    "UTF-16": (TEXT.encode("utf-16"), "J002"),
    "a byte order mark": (b"\xef\xbb\xbf" + TEXT.encode(), "J002"),
    "a list for a program": ("[]", "J101"),
    "a wrong type of a key": (changed(lambda f, b: f.update(params="none")), "J101"),
    "a wrong type of a value": (changed(lambda f, b: b[0].update(args={})), "J101"),
    "NaN": ('{"pypto_ir": NaN}', "J006"),
    "an unknown key": (changed(lambda f, b: f.update(boddy=[])), "J102"),
    "a duplicate key": (TEXT.replace('"name": "AddTwice",', '"name": "AddTwice", "name": "Other",'), "J005"),
    "an unknown name": (changed(lambda f, b: b[1].update(args=["x_tile", "y"])), "J202"),
    "an unknown name in an expression": (inserted({"let": "i", "expr": "min(4, k) + 1"}), "J202"),
    "an unknown function": (inserted({"call": "nobody", "args": []}), "J405"),
    "an unknown op": (changed(lambda f, b: b[1].update(op="tile.addd")), "J404"),
    "a name defined twice": (inserted({"let": "a", "expr": 1}, {"let": "a", "expr": 2}), "J201"),
    "a use out of scope": (
        inserted({"if": "1 == 1", "then": [{"let": "a", "expr": 1}]}, {"let": "b", "expr": "a"}),
        "J203",
    ),
    "a use before the definition": (inserted({"let": "b", "expr": "a"}, {"let": "a", "expr": 1}), "J202"),
    "too few operands": (changed(lambda f, b: b[1].update(args=["x_tile"])), "T101"),
    "too many operands": (changed(lambda f, b: b[1].update(args=["x_tile"] * 4)), "T101"),
    "a tensor where a tile belongs": (changed(lambda f, b: b[1].update(args=["x", "x_tile"])), "T101"),
    "a number where a tile belongs": (changed(lambda f, b: b[1].update(args=[5, "x_tile"])), "T101"),
    "shapes that do not fit": (
        inserted(
            {"let": "p", "op": "tile.create", "args": [[2, 8]], "kwargs": {"dtype": "FP32"}},
            {"let": "q", "op": "tile.create", "args": [[3, 8]], "kwargs": {"dtype": "FP32"}},
            {"let": "r", "op": "tile.add", "args": ["p", "q"]},
        ),
        "T",
    ),
    "a window that leaves its tensor": (
        changed(lambda f, b: b[0].update(args=["x", [0, 0, 0], [2, 3, 40], [2, 3, 40]])),
        "T",
    ),
    "a negative dim": (changed(lambda f, b: f["params"][0]["type"].update(tensor=[2, -3, 4])), "J105"),
    "a negative dim of an op": (
        inserted({"let": "p", "op": "tile.create", "args": [[2, -8]], "kwargs": {"dtype": "FP32"}}),
        "T",
    ),
    "an overflowing dim": (
        changed(lambda f, b: f["params"][0]["type"].update(tensor=[2, 10**30, 4])),
        "J105",
    ),
    "an overflowing shape": (
        changed(lambda f, b: f["params"][0]["type"].update(tensor=[2**40, 2**40])),
        "J403",
    ),
    "an overflowing shape of an op": (
        inserted({"let": "p", "op": "tile.create", "args": [[2**40, 2**40]], "kwargs": {"dtype": "FP32"}}),
        "J403",
    ),
    "10,000 lists": ("[" * 10_000 + "]" * 10_000, "J004"),
    "10,000 open objects": ('{"a":' * 10_000, "J004"),
    "10,000 nested loops": (
        '{"pypto_ir": 1, "functions": [{"name": "f", "body": ['
        + '{"for": "k", "range": [0, 1, 1], "body": [' * 10_000
        + "]}" * 10_000
        + "]}]}",
        "J004",
    ),
    "10,000 parentheses": (inserted({"let": "i", "expr": "(" * 9_000 + "1" + ")" * 9_000}), "J301"),
    "10,000 signs": (inserted({"let": "i", "expr": "-" * 10_000 + "1"}), "J301"),
    "10,000 terms": (inserted({"let": "i", "expr": "+".join("1" * 10_000)}), "J301"),
    "a call of itself without end": (inserted({"let": "i", "expr": "__import__('os')"}), "J301"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_by_the_library(name: str) -> None:
    data, code = CASES[name]
    with pytest.raises(Refused) as caught:
        read_program(data, "p.json")
    assert any(d.code.startswith(code) for d in caught.value.diagnostics), caught.value
    for d in caught.value.diagnostics:
        assert d.place.file == "p.json" and d.place.line is not None and d.place.column is not None


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_by_the_command_line(name: str, tmp_path: Path) -> None:
    data, code = CASES[name]
    path = tmp_path / "p.json"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    done = cli("optimize", "p.json", "-o", "out.json", cwd=tmp_path)
    assert done.code == 1, done
    assert f"error[{code}" in done.err and done.err.startswith("p.json:"), done
    assert "Traceback" not in done.err + done.out and "X900" not in done.err
    assert [p.name for p in tmp_path.iterdir()] == ["p.json"]


def test_every_error_is_listed_with_line_column_and_path(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(changed(lambda f, b: (f.update(kinds=1), b[0].update(op="tile.lod"), b[2].update(args=["q", 1, "z"]))))
    done = cli("check", "p.json", cwd=tmp_path)
    assert done.code == 1
    heads = [line for line in done.err.splitlines() if line.startswith("p.json:")]
    assert len(heads) == 4 and done.err.splitlines()[-1] == "4 errors"
    for head in heads:
        place, path_text = head.split()[:2]
        _, line, column = place.split(":")
        assert int(line) > 1 and int(column) > 0 and path_text.startswith("$.functions[0]")


@pytest.mark.parametrize("source", ["file", "pipe"])
def test_a_hundred_megabytes_of_nonsense_are_refused_at_once(source: str, tmp_path: Path) -> None:
    data = os.urandom(2**20) * 100
    if source == "file":
        (tmp_path / "p.json").write_bytes(data)
        done = cli("check", "p.json", cwd=tmp_path)
    else:
        done = cli("check", "-", stdin=data)
    assert done.code == 1 and "error[J001]" in done.err and "Traceback" not in done.err


def test_nonsense_below_the_size_limit_is_refused_soon(tmp_path: Path) -> None:
    for data in (
        b'{"a": "' + b"x" * 50_000_000,
        b"[" + b"0," * 20_000_000,
        b"[" * 50_000_000,
        os.urandom(2**20) * 40,
    ):
        (tmp_path / "p.json").write_bytes(data)
        done = cli("check", "p.json", cwd=tmp_path)
        assert done.code == 1 and "error[J00" in done.err and "Traceback" not in done.err


def test_an_output_that_cannot_be_written_is_refused_with_its_place(tmp_path: Path) -> None:
    done = cli("optimize", ADD, "-o", "none/out.json", cwd=tmp_path)
    assert done.code == 2 and done.err.startswith("none/out.json: error[U003]: cannot be written: no such file")
    assert list(tmp_path.iterdir()) == []
