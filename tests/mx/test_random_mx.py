"""Random programs over MX scales: blocked, verified, and equal on packed bytes; with another order of boxes they are not.

Long runs: `pytest -m long tests/mx/test_random_mx.py`.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from helpers import calls
from scales import blocked, compared

import pypto_ir.ops.memory as memory
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.stmt import For, If, Program, walk
from pypto_ir.types import Layout
from tests.generators.mx_programs import A, B, Drawn, random_mx_program

PROGRAMS, CHUNK = 32, 8
LONG, LONG_CHUNK = 1200, 100


def examine(seed: int) -> tuple[Drawn, Program | None]:
    """A program and what it becomes; None where an offset is refused that is none of whole boxes."""
    drawn = random_mx_program(random.Random(seed))
    called = ["kernel"] if len(drawn.program.functions) > 1 else []
    try:
        return drawn, blocked(drawn.program, without=called, mx_stores=drawn.stores)
    except Refused as refused:
        assert drawn.refused, f"seed {seed}: {refused}"
        assert {d.code for d in refused.diagnostics} <= {"B108", "B109"}, f"seed {seed}: {refused}"
        return drawn, None


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_random_programs_are_blocked_and_equal_on_packed_bytes(first: int) -> None:
    assert any(after is not None for _, after in map(examine, range(first, first + CHUNK)))


@pytest.mark.long
@pytest.mark.parametrize("first", range(PROGRAMS, PROGRAMS + LONG, LONG_CHUNK))
def test_many_random_programs_are_blocked_and_equal_on_packed_bytes(first: int) -> None:
    refused = sum(after is None for _, after in map(examine, range(first, first + LONG_CHUNK)))
    assert 0 < refused < LONG_CHUNK // 2


@pytest.mark.parametrize("seed", range(100, 112))
def test_another_order_of_boxes_or_of_their_cells_gives_other_numbers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would happen on a machine that read boxes, or the cells of a box, in another order than they are packed."""
    drawn, after = examine(seed)
    if after is None or not drawn.loads:
        return
    called = ["kernel"] if len(drawn.program.functions) > 1 else []
    monkeypatch.setitem(memory._BOX_ORDER, Layout(A), (0, 3, 1, 2))
    monkeypatch.setitem(memory._BOX_ORDER, Layout(B), (1, 2, 0, 3))
    assert not compared(drawn.program, after, called).equal


def test_drawn_programs_hold_everything_that_they_should() -> None:
    found: Counter[str] = Counter()
    for seed in range(40):
        drawn = random_mx_program(random.Random(seed))
        kernel = drawn.program.function("kernel")
        assert kernel is not None
        found.update(called=len(drawn.program.functions) > 1, stores=drawn.stores, refused=drawn.refused, loads=drawn.loads)
        for s in walk(kernel.body):
            found.update(loops=isinstance(s, For), branches=isinstance(s, If))
        for c in calls(drawn.program, "tensor.view", "kernel"):
            found["to bytes" if c.kwarg("layout") == "ND" else "to scales"] += 1
        narrowed = [c for c in calls(drawn.program, "tile.load", "kernel") if len(c.args) > 3 and c.args[2] != c.args[3]]
        found["narrowed"] += len(narrowed)
        found[A] += any(A in str(p.var.type) for p in kernel.params)
        found[B] += any(B in str(p.var.type) for p in kernel.params)
    wanted = ("called", "stores", "refused", "loads", "loops", "branches", "to bytes", "to scales", "narrowed", A, B)
    assert all(found[what] >= 3 for what in wanted), found


def test_what_is_refused_is_not_refused_by_chance() -> None:
    """Most offsets that are none of whole boxes are refused; the others are whole boxes for all that is handed in."""
    drawn = [random_mx_program(random.Random(seed)) for seed in range(200, 240)]
    bad = [d for d in drawn if d.refused]
    refused = 0
    for d in bad:
        try:
            optimize(d.program, stages=("mx",), mx_stores=d.stores, validate=False)
        except Refused:
            refused += 1
    assert len(bad) > 3 and refused > len(bad) // 2
