"""Diagnostics and remarks as SARIF 2.1.0, the form that editors and code hosts read (OASIS, Static Analysis Results Interchange Format).

An error is a result of level error; a missed remark is a note, what was done or found is informational. The program file is the place, the
author's own source position a related one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from pypto_eqsat.remarks import MISSED, Remark
from pypto_ir.diagnostics import CODES, Diagnostic, Place, Severity

VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_LOC = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?")
#: what remarks are about that go by no rule and no code
SUBJECTS = {
    "capacity": "a cheaper program does not fit into a memory of the target",
    "cost": "the cost of the result under the cost model",
    "egraph": "the size of the e-graph",
    "flat": "a value has no form as one 2-D tile",
    "limit.choice": "a limit stopped the choice",
    "limit.saturation": "a limit stopped the rules",
    "memory": "the most bytes of a memory that are live together",
    "mx.bounds": "a window of scales is not proved to end inside its tensor",
    "pipes": "the busy cycles of each pipe",
    "placement": "a value is computed elsewhere than the author does",
    "policy": "the cost of the program of upstream's hand-written passes",
    "upstream-start": "upstream's program was a better start than the author's text",
    "same-tile": "a value is the tile of another one",
}


def sarif(diagnostics: Iterable[Diagnostic], remarks: Iterable[Remark], file: str, version: str | None) -> dict[str, Any]:
    """The log of one run on a program file; `version` is that of the optimiser, where it is known."""
    rules = _Rules()
    results = [_diagnostic(d, rules, file) for d in diagnostics]
    results += [_remark(r, rules, file) for r in remarks]
    driver: dict[str, Any] = {"name": "pypto-eqsat"}
    if version is not None:
        driver |= {"version": version, "semanticVersion": version}
    run = {
        "tool": {"driver": {**driver, "rules": list(rules.items.values())}},
        "invocations": [{"executionSuccessful": not any(r["level"] == "error" for r in results)}],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


class _Rules:
    """What results refer to, in order of first use."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, Any]] = {}
        self.numbers: dict[str, int] = {}

    def refer(self, name: str, about: str) -> dict[str, Any]:
        if name not in self.items:
            self.numbers[name] = len(self.items)
            self.items[name] = {"id": name, "shortDescription": {"text": about}}
        return {"ruleId": name, "ruleIndex": self.numbers[name]}


def _diagnostic(d: Diagnostic, rules: _Rules, file: str) -> dict[str, Any]:
    text = d.message + (f"\n{d.help}" if d.help else "")
    return {**rules.refer(d.code, CODES[d.code]), **_result(text, _LEVELS[d.severity], "fail", d.place, file)}


def _remark(r: Remark, rules: _Rules, file: str) -> dict[str, Any]:
    level, kind = ("note", "fail") if r.kind == MISSED else ("none", "informational")
    made = _result(r.message, level, kind, r.place, file)
    return {**rules.refer(r.name, _about(r.name)), **made, "properties": {"remark": r.kind, **dict(r.values)}}


def _about(name: str) -> str:
    """What a remark's name stands for: the equation of a rewrite rule, or a subject."""
    from egraph_rules.catalogue import rule
    from pypto_eqsat.explanation import PREPARED

    known = rule(name)
    if known is not None:
        return known.equation
    return CODES.get(name) or PREPARED.get(name) or SUBJECTS[name]


def _result(text: str, level: str, kind: str, place: Place, file: str) -> dict[str, Any]:
    made: dict[str, Any] = {"level": level, "kind": kind, "message": {"text": text}}
    made["locations"] = [_location(place, file)]
    loc = _LOC.fullmatch(place.loc) if place.loc else None
    if loc is not None:
        made["relatedLocations"] = [
            {
                "physicalLocation": _physical(loc["file"], int(loc["line"]), int(loc["column"] or 0)),
                "message": {"text": "the author's source"},
            }
        ]
    return made


def _location(place: Place, file: str) -> dict[str, Any]:
    made: dict[str, Any] = {"physicalLocation": _physical(place.file or file, place.line, place.column)}
    if place.function is not None:
        logical = {"name": place.function, "fullyQualifiedName": place.function, "kind": "function"}
        made["logicalLocations"] = [logical]
        if place.statement:
            inner = {"name": place.statement, "fullyQualifiedName": f"{place.function}: {place.statement}", "kind": "member"}
            made["logicalLocations"].append(inner)
    return made


def _physical(file: str, line: int | None, column: int | None) -> dict[str, Any]:
    made: dict[str, Any] = {"artifactLocation": {"uri": quote(PurePath(file).as_posix())}}
    if line:
        made["region"] = {"startLine": line, **({"startColumn": column} if column else {})}
    return made
