"""What the reader refuses: every error at once, each with its code, line, column and JSON path."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from effort import calls_of

from pypto_ir.diagnostics import Diagnostic, Refused
from pypto_ir.json_findings import MAX_FINDINGS
from pypto_ir.json_reader import read_program
from pypto_ir.json_text import MAX_BYTES, MAX_NESTING
from pypto_ir.json_writer import write_program

ADD = json.loads((Path(__file__).parents[2].parent / "shared" / "kernels" / "add_3d.json").read_text())


def refusal(text: str | bytes) -> list[Diagnostic]:
    with pytest.raises(Refused) as caught:
        read_program(text, "p.json")
    for d in caught.value.diagnostics:
        assert d.place.file == "p.json" and d.message
    return list(caught.value.diagnostics)


def broken(change: Callable[[Any, Any], object]) -> list[Diagnostic]:
    """What is said about add_3d after `change(function, body)`."""
    program = copy.deepcopy(ADD)
    change(program["functions"][0], program["functions"][0]["body"])
    return refusal(json.dumps(program, indent=1))


def only(diagnostics: list[Diagnostic]) -> tuple[str, str | None]:
    assert len(diagnostics) == 1, "\n".join(map(str, diagnostics))
    d = diagnostics[0]
    assert d.place.line and d.place.column
    return d.code, d.place.path


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("", "J003", 1, 1),
        ("   \n ", "J003", 2, 2),
        ('{"pypto_ir": 1, "functions": [', "J003", 1, 31),
        ('{"pypto_ir": 1,\n "functions" []}', "J003", 2, 14),
        ('{"pypto_ir": 1,\n "functions": nul}', "J003", 2, 15),
        ('{"pypto_ir": 1,\n "name": "a\nb"}', "J003", 2, 12),
        ('{"pypto_ir": 1,\n "functions": NaN}', "J006", 2, 15),
        ('{"pypto_ir": -Infinity}', "J006", 1, 14),
        ('{"pypto_ir": ' + "7" * 5000 + "}", "J006", 1, 14),
        ('{"pypto_ir": 1} x', "J003", 1, 17),
        ("\ufeff{}", "J003", 1, 1),
        ("[" * 10_000, "J004", 1, MAX_NESTING + 1),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "J004", 1, 5 * MAX_NESTING + 1),
        ("[" * 150 + "]" * 150, "J004", 1, MAX_NESTING + 1),
    ],
)
def test_text_that_is_no_json_is_refused_with_its_place(text: str, code: str, line: int, column: int) -> None:
    (d,) = refusal(text)
    assert (d.code, d.place.line, d.place.column) == (code, line, column), str(d)


@pytest.mark.parametrize(
    ("data", "code", "column"),
    [
        (b"\xef\xbb\xbf{}", "J002", 1),
        ("{}".encode("utf-16"), "J002", 1),
        (b'{"a": "\xff"}', "J002", 8),
        ('{"ü": "'.encode() + b"\xc3", "J002", 8),
    ],
)
def test_bytes_that_are_no_utf8_are_refused_with_their_place(data: bytes, code: str, column: int) -> None:
    (d,) = refusal(data)
    assert (d.code, d.place.line, d.place.column) == (code, 1, column)


def test_truncation_at_any_byte_is_refused() -> None:
    text = json.dumps(ADD, indent=1)
    for end in range(0, len(text) - 1, 7):
        assert refusal(text[:end])[0].code == "J003"


def test_too_large_a_file_is_refused_at_once() -> None:
    data = b"\x00" * (MAX_BYTES + 1)
    assert calls_of(lambda: refusal(data)) < 1000
    assert only_code(refusal(data)) == "J001"


def only_code(diagnostics: list[Diagnostic]) -> str:
    assert len(diagnostics) == 1
    return diagnostics[0].code


def test_a_repeated_key_is_refused_at_its_second_place() -> None:
    text = '{"pypto_ir": 1,\n "functions": [{"name": "f",\n  "body": [], "name": "g"}]}'
    (d,) = refusal(text)
    assert (d.code, d.place.line, d.place.column, d.place.path) == ("J005", 3, 15, "$.functions[0].name")


def test_an_unknown_key_is_refused_with_the_nearest_one() -> None:
    (d,) = broken(lambda f, b: b[1].update(kwarg={}))
    assert (d.code, d.place.path) == ("J102", "$.functions[0].body[1].kwarg")
    assert d.help == "did you mean kwargs?"


CASES: dict[str, tuple[Callable[[Any, Any], object], str, str]] = {
    "a number for a name": (lambda f, b: b.insert(0, {"let": 5, "expr": 1}), "J101", "body[0].let"),
    "a string for a list": (lambda f, b: b[0].update(args="x"), "J101", "body[0].args"),
    "null for an operand": (lambda f, b: b[1].update(args=["x_tile", None]), "J101", "body[1].args[1]"),
    "a list for kwargs": (lambda f, b: b[0].update(kwargs=[]), "J101", "body[0].kwargs"),
    "a string for a statement": (lambda f, b: b.insert(0, "return"), "J101", "body[0]"),
    "an empty statement": (lambda f, b: b.insert(0, {}), "J501", "body[0]"),
    "two statements in one": (lambda f, b: b[1].update(call="f"), "J501", "body[1]"),
    "a missing key": (lambda f, b: b[1].pop("args"), "J103", "body[1]"),
    "an unknown keyword argument": (
        lambda f, b: b[0]["kwargs"].update(target="Vec"),
        "J102",
        "body[0].kwargs.target",
    ),
    "an unknown kind": (lambda f, b: f.update(kind="Incore"), "J104", "kind"),
    "an unknown dtype": (
        lambda f, b: f["params"][0]["type"].update(dtype="F32"),
        "J104",
        "params[0].type.dtype",
    ),
    "an unknown direction": (
        lambda f, b: f["params"][0].update(direction="out"),
        "J104",
        "params[0].direction",
    ),
    "an unknown name": (lambda f, b: b[1].update(args=["x_tile", "y"]), "J202", "body[1].args[1]"),
    "a name used before its definition": (
        lambda f, b: b[0].update(args=["x", [0, 0, 0], [2, 3, 4], [2, 3, "later"]]) or b.insert(1, {"let": "later", "expr": 4}),
        "J202",
        "body[0].args[3][2]",
    ),
    "a name defined twice": (
        lambda f, b: b[1].update(let="x_tile") or b[2].update(args=["x_tile", [0, 0, 0], "out_0"]),
        "J201",
        "body[1].let",
    ),
    "a parameter defined again": (lambda f, b: b.insert(0, {"let": "x", "expr": 1}), "J201", "body[0].let"),
    "two parameters of one name": (
        lambda f, b: f["params"].append({"name": "x", "type": {"scalar": "INDEX"}}),
        "J201",
        "params[2].name",
    ),
    "a keyword as a name": (lambda f, b: b.insert(0, {"let": "lambda", "expr": 1}), "J204", "body[0].let"),
    "a reserved word as a name": (lambda f, b: b.insert(0, {"let": "min", "expr": 1}), "J204", "body[0].let"),
    "a name with a dash": (lambda f, b: b.insert(0, {"let": "a-b", "expr": 1}), "J204", "body[0].let"),
    "a use out of scope": (
        lambda f, b: (
            b.insert(0, {"for": "k", "range": [0, 2, 1], "body": [{"let": "i", "expr": "k"}]}) or b.insert(1, {"let": "j", "expr": "i"})
        ),
        "J203",
        "body[1].expr",
    ),
    "too few operands": (lambda f, b: b[1].update(args=["x_tile"]), "T101", "body[1].args"),
    "too many operands": (lambda f, b: b[1].update(args=["x_tile"] * 3), "T101", "body[1].args"),
    "a tensor for a tile": (lambda f, b: b[1].update(args=["x", "x"]), "T101", "body[1].args"),
    "a scalar for a tuple": (lambda f, b: b[2].update(args=["y_tile", 0, "out_0"]), "T101", "body[2].args"),
    "a shape that does not fit": (
        lambda f, b: b[0].update(args=["x", [0, 0], [2, 3], [2, 3]]),
        "T",
        "body[0].args",
    ),
    "a window past the end": (
        lambda f, b: b[0].update(args=["x", [0, 0, 0], [2, 3, 9], [2, 3, 9]]),
        "T",
        "body[0].args",
    ),
    "a negative dim": (
        lambda f, b: f["params"][0]["type"].update(tensor=[2, -3, 4]),
        "J105",
        "params[0].type.tensor[1]",
    ),
    "a dim of 0": (
        lambda f, b: f["params"][0]["type"].update(tensor=[2, 0, 4]),
        "J105",
        "params[0].type.tensor[1]",
    ),
    "a dim of 2**63": (
        lambda f, b: f["params"][0]["type"].update(tensor=[2, 2**63, 4]),
        "J105",
        "params[0].type.tensor[1]",
    ),
    "dims whose product overflows": (
        lambda f, b: f["params"][0]["type"].update(tensor=[2**31, 2**31, 4]),
        "J403",
        "params[0].type.tensor",
    ),
    "a fraction for a dim": (
        lambda f, b: f["params"][0]["type"].update(tensor=[2, 3.5, 4]),
        "J101",
        "params[0].type.tensor[1]",
    ),
    "a float expression for a dim": (
        lambda f, b: f["params"][0]["type"].update(tensor=[2, "1.5 + 2.5", 4]),
        "J302",
        "params[0].type.tensor[1]",
    ),
    "17 dims": (lambda f, b: f["params"][0]["type"].update(tensor=[1] * 17), "J106", "params[0].type.tensor"),
    "valid extents of another rank": (
        lambda f, b: f["params"][0]["type"].update(valid=[2, 3]),
        "J106",
        "params[0].type.valid",
    ),
    "a valid extent past its dim": (
        lambda f, b: f["params"][0]["type"].update(valid=[2, 5, 4]),
        "J105",
        "params[0].type.valid[1]",
    ),
    "an integer of 65 bits": (lambda f, b: b.insert(0, {"let": "i", "expr": 2**64}), "J105", "body[0].expr"),
    "a constant that does not fit its type": (
        lambda f, b: b.insert(0, {"let": "i", "expr": {"const": 128, "dtype": "INT8"}}),
        "J303",
        "body[0].expr.const",
    ),
    "a fraction without a type": (
        lambda f, b: b.insert(0, {"let": "i", "expr": 1.5}),
        "J101",
        "body[0].expr",
    ),
    "an expression with an error": (
        lambda f, b: b.insert(0, {"let": "i", "expr": "1 +"}),
        "J301",
        "body[0].expr",
    ),
    "mixed widths": (
        lambda f, b: b.insert(0, {"let": "i", "expr": 'cast(1, "INT32") + 1'}),
        "J301",
        "body[0].expr",
    ),
    "a deep expression": (
        lambda f, b: b.insert(0, {"let": "i", "expr": "(" * 5000 + "1" + ")" * 5000}),
        "J301",
        "body[0].expr",
    ),
    "a name for a number of elements": (
        lambda f, b: b.insert(0, {"let": "i", "expr": {"item": 0, "of": "x"}}),
        "J302",
        "body[0].expr.of",
    ),
    "a step of 0": (
        lambda f, b: b.insert(0, {"for": "k", "range": [0, 2, 0], "body": []}),
        "J504",
        "body[0].range[2]",
    ),
    "two bounds": (
        lambda f, b: b.insert(0, {"for": "k", "range": [0, 2], "body": []}),
        "J106",
        "body[0].range",
    ),
    "a float bound": (
        lambda f, b: b.insert(0, {"for": "k", "range": [0, "2.5", 1], "body": []}),
        "J302",
        "body[0].range[1]",
    ),
    "an integer condition": (lambda f, b: b.insert(0, {"if": 1, "then": []}), "J302", "body[0].if"),
    "a loop without yield": (
        lambda f, b: b.insert(
            0,
            {
                "for": "k",
                "range": [0, 2, 1],
                "carry": [{"name": "c", "init": 0}],
                "body": [],
                "results": ["r"],
            },
        ),
        "J503",
        "body[0].body",
    ),
    "a yield of too many": (
        lambda f, b: b.insert(0, {"for": "k", "range": [0, 2, 1], "body": [{"yield": ["k"]}]}),
        "J503",
        "body[0].body[0].yield",
    ),
    "results without carries": (
        lambda f, b: b.insert(0, {"for": "k", "range": [0, 2, 1], "body": [], "results": ["r"]}),
        "J503",
        "body[0].results",
    ),
    "results without else": (
        lambda f, b: b.insert(0, {"if": "1 == 1", "then": [{"yield": [1]}], "results": ["r"]}),
        "J503",
        "body[0]",
    ),
    "a return of too few": (lambda f, b: b[3].update({"return": []}), "J503", "body[3].return"),
    "no return": (lambda f, b: b.pop(), "J503", "body"),
    "a return in a loop": (
        lambda f, b: b.insert(0, {"for": "k", "range": [0, 2, 1], "body": [{"return": ["x"]}]}),
        "J502",
        "body[0].body[0]",
    ),
    "a statement after return": (lambda f, b: b.insert(0, {"return": ["x"]}), "J502", "body[0]"),
    "break outside of a loop": (
        lambda f, b: b.insert(0, {"if": "1 == 1", "then": [{"break": True}]}),
        "J502",
        "body[0].then[0]",
    ),
    "break in a loop with carries": (
        lambda f, b: b.insert(
            0,
            {
                "for": "k",
                "range": [0, 2, 1],
                "carry": [{"name": "c", "init": 0}],
                "body": [{"if": "k == 0", "then": [{"break": True}]}, {"yield": ["c"]}],
                "results": ["r"],
            },
        ),
        "J502",
        "body[0].body[0].then[0]",
    ),
    "a call of no function": (
        lambda f, b: b.insert(0, {"call": "main_incore", "args": []}),
        "J405",
        "body[0].call",
    ),
    "a call with too few arguments": (
        lambda f, b: b.insert(0, {"let": "r", "call": "main_incore_0", "args": ["x"]}),
        "J406",
        "body[0].args",
    ),
    "a call with a wrong argument": (
        lambda f, b: b.insert(0, {"let": "r", "call": "main_incore_0", "args": ["x", 5]}),
        "J406",
        "body[0].args[1]",
    ),
    "two names for one result": (
        lambda f, b: b.insert(0, {"let": ["p", "q"], "call": "main_incore_0", "args": ["x", "x"]}),
        "J505",
        "body[0].let",
    ),
    "two names for an op": (lambda f, b: b[1].update(let=["y_tile", "z"]), "J505", "body[1].let"),
    "an unknown op": (lambda f, b: b[1].update(op="tile.ad"), "J404", "body[1].op"),
    "half of a surrogate pair": (lambda f, b: b[1].update(comment="\ud800"), "J107", "body[1].comment"),
    "body and verbatim": (lambda f, b: f.update(verbatim="..."), "J603", ""),
    "no body": (lambda f, b: f.pop("body"), "J603", ""),
    "an empty range": (
        lambda f, b: f["params"].append({"name": "n", "type": {"scalar": "INDEX"}, "range": [3, 2]}),
        "J604",
        "params[2].range",
    ),
    "a range of a tensor": (lambda f, b: f["params"][0].update(range=[0, 2]), "J604", "params[0].range"),
    "a tile and a tensor in one": (
        lambda f, b: f["params"][0]["type"].update(tile=[2]),
        "J102",
        "params[0].type.tile",
    ),
    "an object for true": (
        lambda f, b: f["params"].append({"name": "n", "type": {"ptr": 1}}),
        "J101",
        "params[2].type.ptr",
    ),
    "an unknown scope of literals": (
        lambda f, b: b[0].update(attrs={"v": {"var": "nobody"}}),
        "J202",
        "body[0].attrs.v.var",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_broken_program_is_refused_with_code_and_path(name: str) -> None:
    change, code, path = CASES[name]
    found_code, found_path = only(broken(change))
    assert found_code.startswith(code)
    assert found_path == "$.functions[0]" + (f".{path}" if path else "")


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        ("[]", "J101", "$"),
        ("5", "J101", "$"),
        ("null", "J101", "$"),
        ('"x"', "J101", "$"),
        ("{}", "J103", "$"),
        ('{"pypto_ir": 2, "functions": []}', "J601", "$.pypto_ir"),
        ('{"pypto_ir": true, "functions": []}', "J601", "$.pypto_ir"),
        ('{"pypto_ir": 1}', "J103", "$"),
        ('{"pypto_ir": 1, "functions": {}}', "J101", "$.functions"),
        ('{"pypto_ir": 1, "functions": [], "target": "ascend910"}', "J104", "$.target"),
        ('{"pypto_ir": 1, "functions": [], "name": "a b"}', "J204", "$.name"),
        ('{"pypto_ir": 1, "functions": [], "dynamic": ["S", "S"]}', "J201", "$.dynamic[1]"),
        ('{"pypto_ir": 1, "functions": [7]}', "J101", "$.functions[0]"),
        (
            '{"pypto_ir": 1, "functions": [{"name": "f", "body": []}, {"name": "f", "body": []}]}',
            "J602",
            "$.functions[1].name",
        ),
    ],
)
def test_a_broken_frame_is_refused_with_code_and_path(text: str, code: str, path: str) -> None:
    assert only(refusal(text)) == (code, path)


def test_line_and_column_point_into_the_file() -> None:
    text = json.dumps(ADD, indent=1).replace('"x_tile",\n      "x_tile"', '"x_tile",\n      "x_tile + oops"')
    diagnostics = refusal(text)
    assert [d.code for d in diagnostics] == ["J202"] or diagnostics[0].place.line is not None
    for d in diagnostics:
        assert d.place.line is not None and d.place.column is not None
        line = text.split("\n")[d.place.line - 1]
        assert line[d.place.column - 1 :].startswith(("oops", "x_tile"))


def test_place_names_function_statement_and_source_position() -> None:
    (d,) = broken(lambda f, b: b[1].update(args=["x_tile", "y"], loc="k.py:7:2"))
    assert (d.place.function, d.place.statement, d.place.loc) == (
        "main_incore_0",
        "y_tile = tile.add",
        "k.py:7:2",
    )
    assert d.help is None or "did you mean" in d.help


def test_every_error_is_reported_in_the_order_of_the_file() -> None:
    def change(f: Any, b: Any) -> None:
        f["kindd"] = 1
        f["params"][0]["type"]["dtype"] = "FP33"
        b[0]["args"] = ["x", [0, 0, "q"], [2, 3, 4], [2, "w", 4]]
        b[1]["args"] = ["x_tile", "x_tile", "x_tile"]
        b[2]["op"] = "tile.stor"
        b.insert(3, {"let": "z", "expr": "1 +* 2"})

    diagnostics = broken(change)
    assert sorted(d.code for d in diagnostics) == ["J102", "J104", "J202", "J202", "J301", "J404"]
    lines = [(d.place.line, d.place.column) for d in diagnostics]
    assert lines == sorted(lines)  # type: ignore[type-var]


def test_an_error_is_not_repeated_by_what_uses_its_value() -> None:
    (d,) = broken(lambda f, b: b[0].update(op="tile.lod"))
    assert d.code == "J404" and d.help is not None and "tile.load" in d.help


def test_a_flood_of_errors_stops() -> None:
    body = [{"let": f"v{i}", "expr": "oops"} for i in range(5000)]
    diagnostics = refusal(json.dumps({"pypto_ir": 1, "functions": [{"name": "f", "body": body}]}))
    assert len(diagnostics) == MAX_FINDINGS + 1
    assert sum(d.code == "J199" for d in diagnostics) == 1


def test_reading_is_linear_in_the_number_of_statements() -> None:
    def calls(count: int) -> int:
        body = [{"let": f"v{i}", "expr": f"v{i - 1} + 1" if i else 0} for i in range(count)]
        text = json.dumps({"pypto_ir": 1, "functions": [{"name": "f", "body": body}]})
        return calls_of(lambda: read_program(text))

    calls(1000)
    assert calls(20_000) < 20.5 * calls(1000)


@pytest.mark.parametrize("expression", ["(" * 97 + "1" + ")" * 97, "min(1, " * 49 + "1" + ")" * 49, "+".join("1" * 99)])
def test_what_is_just_deep_enough_is_read_and_written(expression: str) -> None:
    body: list[Any] = [{"let": "i", "expr": expression}]
    for k in range(MAX_NESTING // 2 - 2):
        body = [{"for": f"k{k}", "range": [0, 2, 1], "body": body}]
    program = read_program(json.dumps({"pypto_ir": 1, "functions": [{"name": "f", "body": body}]}))
    assert read_program(write_program(program)) == program
