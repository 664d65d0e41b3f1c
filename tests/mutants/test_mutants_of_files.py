"""Mutants are made of every rule, check, price and number, and a sample of them is noticed by the tests."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from egraph_rules.catalogue import rules
from egraph_rules.engine import rule_text
from pypto_ir.diagnostics import CODES
from pypto_ir.verify import verify_program
from tests.mutants.__main__ import SAMPLE, equivalents, sample
from tests.mutants.data_mutants import data_mutants
from tests.mutants.mutant import mutants_of
from tests.mutants.python_mutants import python_edits
from tests.mutants.rule_mutants import rule_edits
from tests.mutants.subjects import ROOT, SUBJECTS, everything

CODE = """
TABLE = {"a": ("x", "y"), "b": ("z",)}

def check(bag: Bag, n: int, limit: int = 3) -> bool:
    if n > limit and not n.even:
        bag.add("V101", f"{n} is above {limit + 1}")
        return False
    return max(n, 1) + 2 * n <= limit
"""


def changes(source: str) -> dict[str, str]:
    """What each edit of a module is called, with the line that it gives."""
    found = mutants_of("m.py", source, python_edits(source))
    before = source.splitlines()
    return {m.name.removeprefix("m.py "): next((a for a, b in zip(m.text.splitlines(), before, strict=True) if a != b), "") for m in found}


def test_conditions_comparisons_terms_and_tables_of_code_are_changed() -> None:
    found = changes(CODE)
    lines = {line.strip() for line in found.values()}
    assert {
        'TABLE = {"b": ("z",), }', 'TABLE = {"a": ("x", ), "b": ("z",)}',
        "if True:", "if False:", "if (n > limit):", "if (not n.even):", "if n >= limit and not n.even:", "if n > limit and (n.even):",
        "pass", "return True",
        "return min(n, 1) + 2 * n <= limit", "return (n) + 2 * n <= limit", "return (1) + 2 * n <= limit",
        "return max(n, 2) + 2 * n <= limit",
        "return (max(n, 1)) <= limit", "return (2 * n) <= limit", "return max(n, 1) + (2) <= limit", "return max(n, 1) + (n) <= limit",
        "return max(n, 1) + 3 * n <= limit", "return max(n, 1) + 2 * n < limit",
    } <= lines  # fmt: skip
    assert not any("above" in line and "pass" not in line for line in lines)
    assert 'check: bag.add("V101", f"{n} is above {limit + 1}") left out' in found


def test_code_that_is_changed_is_code() -> None:
    for _, mutant in [m for m in everything() if m[1].file.endswith(".py")][::25]:
        ast.parse(mutant.text)


def test_conditions_and_terms_of_a_rule_are_changed_where_the_engine_takes_it() -> None:
    source = rule_text("slices")
    found = {m.name.removeprefix("slices.egg ") for m in mutants_of("slices.egg", source, rule_edits(source))}
    assert "slice.slice: without (whole x)" in found
    assert "slice.slice: does not (union y (Slice2 i x t (Plus r1 r2) (Plus c1 c2)))" in found
    assert "slice.slice: (Plus r1 r2) and (Plus c1 c2) of Slice2 swapped" in found
    assert "slice.whole: (Num 0): 0 -> 1" in found
    assert not any("without (= z (Slice2 j x s r1 c1))" in name for name in found), "nothing would bind r1"


def test_every_rule_has_mutants() -> None:
    changed = {m.where for _, m in everything() if m.file.endswith(".egg")}
    assert {part for r in rules() for part in r.parts} <= changed


def test_every_code_of_a_check_has_a_mutant_that_does_not_report_it() -> None:
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "pypto_ir" / "verify").glob("*.py")}
    declared = [code for text in sources.values() for code in CODES if f"    {code}=" in text]
    assert verify_program.__module__ == "pypto_ir.verify" and len(declared) >= 15
    mutants = [m for _, m in everything() if m.file in sources]
    for code in declared:
        assert any(m.text.count(f'"{code}"') < sources[m.file].count(f'"{code}"') for m in mutants), code


def numbers(value: Any) -> int:
    if isinstance(value, dict | list):
        return sum(map(numbers, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float)


@pytest.mark.parametrize("path", sorted((ROOT / "extract" / "targets").glob("*.json")), ids=lambda path: path.stem)
def test_every_number_of_a_target_has_a_mutant(path: Path) -> None:
    text = path.read_text()
    found = list(data_mutants(path.name, text))
    assert len(found) == numbers(json.loads(text)) - 1, "all but the number of the format"
    assert len({m.text for m in found}) == len(found)


def test_names_are_unique_and_equivalent_mutants_exist() -> None:
    names = [m.name for _, m in everything()]
    assert len(set(names)) == len(names)
    assert set(equivalents()) <= set(names), set(equivalents()) - set(names)
    assert all(len(reason) > 20 for reason in equivalents().values())


def test_the_sample_is_of_all_kinds_and_every_mutant_of_it_exists() -> None:
    chosen = [mutant.name for _, mutant in sample()]
    assert sorted(chosen) == sorted(json.loads(SAMPLE.read_text()))
    assert {subject.name for subject, _ in sample()} == {subject.name for subject in SUBJECTS}


def test_a_sample_of_mutants_is_noticed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.mutants", "--sample", "--unchecked", "--results", str(tmp_path / "results")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(sample()):11}" in done.stdout.splitlines()[-1]
