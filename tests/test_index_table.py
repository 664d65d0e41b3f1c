"""The page about index facts beside upstream's prover: its tables count what they say, and what it lists as false is false."""

from __future__ import annotations

import csv
import random
import re
from dataclasses import astuple

from benchmarks.fuzz_index import examine, report
from benchmarks.index_table import FalseAccept, accepts, definitions, origin, spelled
from benchmarks.pages import DOCS, generated
from pypto_ir.expr import dtype_of
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.stmt import Assign, walk
from tests.generators.index_programs import INTEGERS, random_index_program
from tests.generators.index_property import as_index, check_index

PAGE = generated((DOCS / "index-facts.md").read_text(encoding="utf-8"), "comparison")
ROWS = list(csv.DictReader((DOCS / "upstream-false-accepts.csv").read_text(encoding="utf-8").splitlines()))


def test_every_expression_is_counted_once_by_type_and_once_by_origin() -> None:
    found = examine(range(20, 50))
    assert found.failures == [] and found.sums["programs"] == 30
    types = {d.value for d in INTEGERS}
    for what, total in (
        ("asked", "expressions"),
        ("proved", "proved"),
        ("upstream", "upstream"),
        ("false", "false_upstream"),
        ("true", "true"),
    ):
        by_type = sum(n for (row, name), n in found.rows.items() if name == what and row in types)
        by_origin = sum(n for (row, name), n in found.rows.items() if name == what and row not in types)
        assert by_type == by_origin == found.sums[total] > 0
    assert len(found.accepts) == found.sums["false_upstream"]
    assert found.sums["upstream"] == found.sums["both"] + found.sums["false_upstream"] + found.sums["missed"] + found.sums["undecided"]
    text = report(found)
    assert all(f"| {name} |" in text for name in types) and f"{found.sums['proved']:,}" in text


TEXT = """import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, n: pl.Scalar[pl.INDEX]):
        b: pl.Scalar[pl.INDEX] = pl.tile.get_block_idx()
        for i in pl.range(0, n, 16):
            a: pl.Scalar[pl.INDEX] = i * 16
            c: pl.Scalar[pl.INDEX] = a + b
            d: pl.Scalar[pl.INDEX] = c
"""


def test_names_are_followed_to_what_makes_them() -> None:
    main = read_printed(TEXT).program.functions[0]
    known = definitions(main)
    values = {s.target.name: s.target for s in walk(main.body) if isinstance(s, Assign)}
    assert [origin(known, values[name]) for name in "abcd"] == ["*", "block or lane", "+", "+"]
    assert known["i"] == "loop variable" and known["n"] == "parameter"
    assert spelled(known, values["d"]) == "i * 16 + b"


def test_false_accepts_are_told_by_why_they_are_false_and_once_for_an_expression() -> None:
    found = [
        FalseAccept(1, "f", "INT32", "i * i", -2146459392, -2146459392), FalseAccept(2, "g", "INT32", "i * i", -32, -32),
        FalseAccept(3, "f", "UINT8", "x", 240, -16), FalseAccept(4, "f", "INT8", "y // 2", 8, 8),
    ]  # fmt: skip
    assert [a.reason for a in found] == ["negative", "negative", "unsigned, negative as an index", "no multiple of 16"]
    text = accepts(found, 40)
    assert text.count("`i * i`") == 1 and "| negative | 2 | INT32 2 |" in text and "| 3 | f | UINT8 | `x` | 240 | -16 |" in text


def test_the_page_and_the_list_are_of_one_run() -> None:
    (count,) = re.findall(r"all ([\d,]+) are in", PAGE)
    assert int(count.replace(",", "")) == len(ROWS) > 100
    (programs,) = re.findall(r"^([\d,]+) random programs", PAGE)
    assert max(int(row["seed"]) for row in ROWS) <= int(programs.replace(",", "")) >= 4000


def test_what_is_listed_as_false_is_accepted_by_upstream_and_false() -> None:
    for row in random.Random(1).sample(ROWS, 8):
        program = random_index_program(random.Random(int(row["seed"])))
        known = {f.name: definitions(f) for f in program.program.functions}
        listed = FalseAccept(int(row["seed"]), row["function"], row["dtype"], row["expression"], int(row["value"]), int(row["index"]))
        found = set()
        for j in check_index(program).judged:
            dtype = dtype_of(j.probe.expr)
            assert dtype is not None
            value = j.proof.fact.lo if j.contradicted is None else j.contradicted
            text = spelled(known[j.probe.function], j.probe.expr)
            if j.false_upstream:
                found.add((listed.seed, j.probe.function, dtype.value, text, value, as_index(value, dtype)))
        assert astuple(listed) in found and (listed.index < 0 or listed.index % 16 != 0)
