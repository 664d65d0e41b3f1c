"""Remarks of a run: what was done, missed and found, each with its place, by regular expression, as text, JSON and SARIF."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import attr
import pytest
import sarif_om
from cli_support import ADD, KERNELS, ROOT, cli
from helpers import function, incore, let, load, out, program, ret, store, tensor

from egraph_rules.catalogue import rule
from egraph_rules.graph import saturated
from extract.target import load_target
from pypto_eqsat.driver import optimize
from pypto_eqsat.record import Record
from pypto_eqsat.remarks import ANALYSIS, MISSED, PASSED, Remark, matching, remarks
from pypto_ir.diagnostics import CODES, Refused
from pypto_ir.formats import read_any
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Program

NAMES = tuple(sorted(file.stem for file in KERNELS.glob("*.json")))


def exponential(*shape: int) -> Program:
    at = [0] * len(shape)
    return incore(
        [tensor("x", *shape), out("y", *shape)],
        [load("t", "x", at, list(shape)), let("e", "tile.exp", "t"), store("o", "e", at, "y"), ret("o")],
    )


def of(p: Program) -> list[Remark]:
    record, result = Record(), None
    try:
        result = optimize(p, record=record, policy_cost=True)
    except Refused:
        assert record.refused
    return remarks(p, record, result, load_target(p.target))


def named(items: list[Remark], kind: str, name: str) -> list[Remark]:
    return [r for r in items if (r.kind, r.name) == (kind, name)]


def test_what_was_done_goes_by_its_rule_and_stands_at_its_statement() -> None:
    found = of(exponential(4, 16, 64))
    done = [(r.name, r.place.statement) for r in found if r.kind == PASSED]
    assert done == [("flat.load", "t = tile.load"), ("flat.op", "e = tile.exp"), ("store.flat", "o = tile.store")]
    assert [r.place.path for r in found if r.kind == PASSED] == [f"$.functions[0].body[{i}]" for i in range(3)]


def test_two_dimensional_values_that_stay_as_written_are_no_remark() -> None:
    assert [r for r in of(exponential(16, 64)) if r.kind == PASSED] == []


def test_capacity_that_kept_a_cheaper_program_away_is_missed() -> None:
    (missed,) = named(of(exponential(8, 96, 128)), MISSED, "capacity")
    assert dict(missed.values) == {"memory": "Vec", "capacity": 188_416, "needed": 786_432}
    assert named(of(exponential(4, 16, 64)), MISSED, "capacity") == []


def test_better_start_and_values_without_a_flat_form_are_told_with_the_side_condition_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without packed tiles upstream's text, which packs, is the better start."""
    monkeypatch.setattr("extract.lower.saturated", lambda *given: saturated(*given[:3], given[3] | {"packed"}, *given[4:]))
    shape = [2, 8, 64]
    p = incore(
        [tensor("x", 2, 8, 64), out("y", 2, 8, 64)],
        [load("t", "x", [0, 0, 0], shape, valid=[2, 5, 64]), let("e", "tile.exp", "t"), store("o", "e", [0, 0, 0], "y"), ret("o")],
    )
    found = of(p)
    (start,) = named(found, PASSED, "upstream-start")
    assert "what the rules make of the author's costs" in start.message
    missed = named(found, MISSED, "flat")
    assert [r.place.statement for r in missed] == ["t = tile.load", "e = tile.exp"]
    assert "its valid region is no run of rows" in missed[0].message
    monkeypatch.undo()
    assert not named(of(p), PASSED, "upstream-start") and not named(of(p), MISSED, "flat")


def test_numbers_of_the_analysis_are_those_of_the_statistics() -> None:
    p = exponential(4, 16, 64)
    stats = optimize(p, policy_cost=True).stats["functions"]["main"]
    found = {r.name: dict(r.values) for r in of(p) if r.kind == ANALYSIS}
    assert found["cost"] == {"cost": stats["cost"], "input_cost": stats["input_cost"], "lower_bound": stats["lower_bound"]}
    assert found["policy"] == {"policy_cost": stats["policy_cost"]}
    assert found["pipes"] == {pipe: busy for pipe, busy in stats["cycles"].items() if busy}
    assert found["memory"]["bytes"] == stats["peak_bytes"]["Vec"]


def test_refused_function_misses_with_the_chain_and_others_are_told_of() -> None:
    text = (ROOT / "examples" / "refused.json").read_text()
    found = of(read_any(text, "refused.json"))
    first = found[0]
    assert (first.kind, first.name) == (MISSED, "L001")
    assert dict(first.values)["chain"] == ["x_tile = tile.load", "out_1 = tile.store"]
    assert "out_1 = tile.store cannot be written because of it" in first.message


def test_expression_is_searched_for_in_kind_name_and_function() -> None:
    good = (
        [tensor("x", 2, 16, 64), out("y", 2, 16, 64)],
        [load("t", "x", [0, 0, 0], [2, 16, 64]), store("o", "t", [0, 0, 0], "y"), ret("o")],
    )
    found = of(program(function("one", *good), function("two", *good)))
    assert {r.place.function for r in matching(found, ":two$")} == {"two"}
    assert {r.kind for r in matching(found, "^passed:")} == {PASSED}
    assert {r.name for r in matching(found, r":(load|flat)\.")} == {"flat.load"}
    assert matching(found, "") == found
    with pytest.raises(re.error):
        matching(found, "(")


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_has_remarks_with_places_and_rules_that_exist(name: str) -> None:
    found = of(read_any((KERNELS / f"{name}.json").read_text(), name))
    assert {ANALYSIS} <= {r.kind for r in found}
    special = {
        "same-tile",
        "placement",
        "accumulators.one-buffer",
        "accumulators.row-windows",
        "accumulators.bands",
        "accumulators.column-blocks",
        "accumulators.page-loops",
        "products.batch-loops",
        "products.open-loads",
        "upstream-start",
    }
    assert all(rule(r.name) is not None or r.name in special for r in found if r.kind == PASSED)
    assert all(r.place.path for r in found if not r.name.startswith("mx."))


# the command line


def test_remarks_go_to_standard_error_with_lines_and_columns_and_the_result_stays_the_same(tmp_path: Path) -> None:
    plain, told = cli("optimize", ADD), cli("optimize", ADD, "--remarks")
    assert told.out == plain.out and plain.err == ""
    lines = told.err.splitlines()
    assert all(re.match(rf"{re.escape(str(ADD))}:\d+:\d+ function main_incore_0(, .+)?: remark\[\w+:[\w.-]+\]: ", line) for line in lines)
    assert lines == [
        *cli("optimize", "--remarks=passed:", ADD).err.splitlines(),
        *cli("optimize", "--remarks=^analysis", ADD).err.splitlines(),
    ]


def test_remarks_without_an_expression_do_not_swallow_the_name_of_the_program() -> None:
    assert cli("optimize", "--remarks", ADD).code == 0
    assert cli("optimize", "--", "--remarks").code == 2


def test_remarks_as_json_are_values(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    done = cli("optimize", ADD, "-o", tmp_path / "o.json", "--remarks-format", "json", "--remarks-file", file)
    assert (done.code, done.out, done.err) == (0, "", "")
    items = json.loads(file.read_text())
    assert [set(i) for i in items] == [
        {"kind", "name", "message", "file", "line", "column", "function", "statement", "loc", "values"}
    ] * len(items)
    assert items[0]["name"] == "flat.load" and items[0]["line"] > 1 and items[0]["values"]["rules"] == ["flat.load"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--remarks=(",), "no regular expression"),
        (("--remarks-format", "sarif"), "need a file"),
        (("--remarks-format", "json", "--remarks"), "need a file"),
        (("--remarks-format", "yaml"), "invalid choice"),
        (("-o", "x.json", "--remarks-file", "x.json"), "go to the same place"),
        (("--remarks-file", "-"), "go to the same place"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_any_work(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = cli("optimize", ADD, *arguments, cwd=tmp_path)
    done.refused_with("U001")
    assert done.code == 2 and words in done.err and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--remarks", "--remarks-file=r.txt", "--report=r.html"])
def test_folder_of_programs_has_no_remarks_and_no_report(tmp_path: Path, option: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "p.json").write_text(ADD.read_text())
    done = cli("optimize", "in", "-o", "out", option, cwd=tmp_path)
    done.refused_with("U001")
    assert done.code == 2 and [f.name for f in tmp_path.iterdir()] == ["in"]


def test_printed_programs_get_the_lines_of_their_text(tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    assert cli("convert", ADD, "-o", file).code == 0
    first = cli("optimize", file, "--remarks=flat.load").err.partition(" ")[0]
    line = int(first.rsplit(":", 2)[1])
    assert "pl.tile.load" in file.read_text().splitlines()[line - 1]


# SARIF


#: what SARIF 2.1.0 allows where the object model knows strings only (OASIS sarif-v2.1.0, 3.27.9, 3.27.10, 3.14.27, 3.33.7)
_WORDS = {
    ("Result", "level"): {"none", "note", "warning", "error"},
    ("Result", "kind"): {"notApplicable", "pass", "fail", "review", "open", "informational"},
    ("Run", "columnKind"): {"utf16CodeUnits", "unicodeCodePoints"},
    ("LogicalLocation", "kind"): {"function", "member", "module", "namespace", "type", "variable"},
}
#: properties that hold objects of the model, and their classes
_PARTS = {
    "runs": "Run",
    "tool": "Tool",
    "driver": "ToolComponent",
    "rules": "ReportingDescriptor",
    "shortDescription": "MultiformatMessageString",
    "results": "Result",
    "message": "Message",
    "locations": "Location",
    "relatedLocations": "Location",
    "physicalLocation": "PhysicalLocation",
    "artifactLocation": "ArtifactLocation",
    "region": "Region",
    "logicalLocations": "LogicalLocation",
    "invocations": "Invocation",
}


def check_object(name: str, value: dict[str, Any]) -> None:
    """An object has the properties of its class in the published object model, all that must be there, and words that are allowed."""
    known = {f.metadata["schema_property_name"]: f for f in attr.fields(getattr(sarif_om, name))}
    assert set(value) <= set(known), (name, set(value) - set(known))
    assert {key for key, f in known.items() if f.default is attr.NOTHING} <= set(value), name
    for key, inside in value.items():
        assert (name, key) not in _WORDS or inside in _WORDS[(name, key)], (name, key, inside)
        if key in _PARTS:
            for item in inside if isinstance(inside, list) else [inside]:
                check_object(_PARTS[key], item)
        elif key != "properties":
            assert isinstance(inside, str | int | bool), (name, key)


def check_log(log: dict[str, Any]) -> list[dict[str, Any]]:
    """A whole log; gives its results."""
    assert log["version"] == "2.1.0"
    check_object("SarifLog", log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({r["id"] for r in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] == "none" or result["kind"] == "fail", "a level needs a finding"
        for place in (*result["locations"], *result.get("relatedLocations", ())):
            region = place["physicalLocation"].get("region", {"startLine": 1})
            assert region["startLine"] >= 1 and region.get("startColumn", 1) >= 1
            assert " " not in place["physicalLocation"]["artifactLocation"]["uri"]
    return list(run["results"])


def sarif_of(tmp_path: Path, source: Path, *arguments: str) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    file = tmp_path / "log.sarif"
    done = cli("optimize", source, "-o", tmp_path / "o.json", "--remarks-format", "sarif", "--remarks-file", file, *arguments)
    log = json.loads(file.read_text())
    return done.code, check_log(log), log


@pytest.mark.parametrize("name", NAMES)
def test_sarif_of_every_kernel_is_valid(tmp_path: Path, name: str) -> None:
    code, results, log = sarif_of(tmp_path, KERNELS / f"{name}.json")
    assert code == 0 and log["runs"][0]["invocations"] == [{"executionSuccessful": True}]
    assert {r["properties"]["remark"] for r in results if "properties" in r} <= {PASSED, MISSED, ANALYSIS}
    assert all(r["level"] == "note" for r in results if r.get("properties", {}).get("remark") == MISSED)


def test_sarif_of_a_refused_program_holds_its_errors_with_places_in_the_file_and_in_the_source(tmp_path: Path) -> None:
    code, results, log = sarif_of(tmp_path, ROOT / "examples" / "refused.json")
    assert code == 1 and not (tmp_path / "o.json").exists()
    assert log["runs"][0]["invocations"] == [{"executionSuccessful": False}]
    errors = [r for r in results if r["level"] == "error"]
    assert [r["ruleId"] for r in errors] == ["L001", "L001"]
    assert all(r["ruleId"] in CODES for r in errors)
    first = errors[0]
    assert first["locations"][0]["physicalLocation"]["region"]["startLine"] == 16
    related = first["relatedLocations"][0]["physicalLocation"]
    assert (related["artifactLocation"]["uri"], related["region"]) == ("kernel.py", {"startLine": 7, "startColumn": 4})


def test_sarif_holds_faults_of_reading_and_warnings(tmp_path: Path) -> None:
    bad = tmp_path / "a program.json"
    bad.write_text(ADD.read_text()[:300])
    code, results, _ = sarif_of(tmp_path, bad)
    assert code == 1 and {r["ruleId"] for r in results} == {"J003"}
    assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("a%20program.json")
    big = tmp_path / "big.json"
    big.write_text(write_program(exponential(4, 16, 64)))
    code, results, _ = sarif_of(tmp_path, big, "--node-limit", "1")
    assert code == 3 and "W001" in {r["ruleId"] for r in results if r["level"] == "warning"}
    assert "limit.saturation" in {r["ruleId"] for r in results}


def test_sarif_is_the_same_in_every_run(tmp_path: Path) -> None:
    first, second = (sarif_of(tmp_path, KERNELS / "row_windows.json")[2] for _ in range(2))
    assert first == second
