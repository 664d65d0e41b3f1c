"""The table of docs/accumulators.md is what the code does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import Json
from test_upstream_accumulators import ADDED, batch_acc, chained, create, row_windows, two_allocations
from upstream_support import let, load

from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused, Severity
from pypto_ir.stmt import Program
from tests.acc_programs import Window, windowed

PAGE = Path(__file__).parents[3] / "docs" / "accumulators.md"


def moved() -> list[Json]:
    return [create("z", [2, 16, 64]), ADDED, let("v", "tile.move", "c", target_memory="Vec")]


CASES: dict[str, Callable[[], Program]] = {
    "row windows do not divide the rows evenly": lambda: row_windows(40, 32, [([16, 32], [0, 0])]),
    "row windows of different heights": lambda: row_windows(48, 32, [([16, 32], [0, 0]), ([24, 32], [24, 0])]),
    "several allocations that control flow merges": lambda: two_allocations("n == 0"),
    "rows of a page are no multiple of 16": lambda: batch_acc(24, 32),
    "rows of a window are no multiple of 16": lambda: row_windows(24, 32, [([8, 32], [8, 0])]),
    "columns of a page are no multiple of 16": lambda: batch_acc(16, 24),
    "columns of an accumulator with row windows are no multiple of 16": lambda: row_windows(32, 24, [([16, 24], [0, 0])]),
    "larger than L0C, carried by a loop": lambda: batch_acc(128, 256, carried=True),
    "larger than L0C once its rows are aligned": lambda: row_windows(1024, 32, [([16, 32], [16, 0])], dtype="INT8"),
    "stated to be in another memory": lambda: chained([create("z", [2, 16, 64], memory="Vec"), ADDED]),
    "made by an op that does not write L0C": lambda: chained([load("z", "f", [0, 0, 0], [2, 16, 64]), ADDED]),
    "offset of a row window not known to be a multiple of its height": lambda: row_windows(32, 32, [([16, 32], ["n", 0])]),
    "rows of a window are no multiple of 16, at run-time rows": lambda: row_windows(32, 32, [([8, 32], ["8 * n", 0])]),
    "row windows that overlap in part": lambda: row_windows(48, 32, [([16, 32], [0, 0]), ([16, 32], [8, 0])]),
    "row windows of different heights at run-time rows": lambda: row_windows(64, 32, [([16, 32], ["16 * n", 0]), ([32, 32], [0, 0])]),
    "the same, of 8 rows": lambda: row_windows(32, 32, [([8, 32], ["n", 0])]),
    "columns that begin inside a block": lambda: windowed((32, 64), [Window(0, 24, 32, 32)]),
    "columns that begin inside a block, at run time or overlapping": lambda: windowed(
        (32, 64), [Window(0, 8, 32, 32), Window(0, 24, 32, 32)]
    ),
    "row window written back elsewhere": lambda: row_windows(32, 32, [([16, 32], [0, 0])], [[16, 0]]),
    "moved to Vec": lambda: chained(moved(), "v"),
}


def rows() -> dict[str, tuple[str, str]]:
    """Cause -> upstream's code and what the page says of the default."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    ]
    return {c[0]: (c[1], c[2]) for c in cells[1:] if len(c) == 3}


@pytest.mark.parametrize("cause", CASES)
def test_the_table_says_what_becomes_of_an_accumulator(cause: str) -> None:
    code, said = rows()[cause]
    program = CASES[cause]()
    if code:
        with pytest.raises(Refused) as caught:
            optimize(program, policy="upstream")
        assert code in {d.code for d in caught.value.diagnostics}
    if not said.startswith("lowered"):
        with pytest.raises(Refused) as caught:
            optimize(program)
        assert {d.code for d in caught.value.diagnostics if d.severity is Severity.ERROR} == {said.partition(":")[0]}
        return
    result = optimize(program)
    assert {d.code for d in result.diagnostics} == {code} - {""} and all(d.severity is Severity.NOTE for d in result.diagnostics)
    assert result.stats["validated"]["equal"]
