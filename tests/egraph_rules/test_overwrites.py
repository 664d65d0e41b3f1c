"""Which of many writes a window sees, against going through all of them; nodes and calls for many windows of many writes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from building import Build, Shape

from egraph_rules.graph import saturated
from egraph_rules.overwrites import Box, Overwrites, Span, span
from pypto_ir.expr import Binary, index
from pypto_ir.stmt import Function
from pypto_ir.types import scalar_var
from tests.effort import calls_of

ROWS, COLUMNS = 24, 20
#: origins of positions: constants, and scalars
ORIGINS = [span(e, 1).origin for e in (index(0), *(scalar_var(n) for n in "abcdef"))]


def _span(random: Random, extent: int, origins: int) -> Span:
    size = random.choice((1, 2, extent // 2, extent - 2))
    origin = ORIGINS[random.randrange(origins)]
    return Span(origin, random.randint(0 if origin == ORIGINS[0] else -extent // 2, extent - size), size)


def _cells(s: Span, asked: Span) -> set[int] | None:
    """Rows or columns that a box touches as seen from another, None where they cannot be told."""
    return set(range(s.start, s.start + s.size)) if s.origin == asked.origin else None


def _apart(one: Box, two: Box) -> bool:
    pairs = ((_cells(a, b), _cells(b, b)) for a, b in ((one.rows, two.rows), (one.columns, two.columns)))
    return any(a is not None and b is not None and a.isdisjoint(b) for a, b in pairs)


def _within(one: Box, two: Box) -> bool:
    pairs = ((_cells(a, b), _cells(b, b)) for a, b in ((one.rows, two.rows), (one.columns, two.columns)))
    return all(a is not None and b is not None and a <= b for a, b in pairs)


@pytest.mark.parametrize("origins", [1, 2, 7])
def test_window_sees_the_last_write_that_is_not_apart(origins: int) -> None:
    seen = set()
    for seed in range(40):
        random = Random(seed)
        state, boxes = Overwrites((ROWS, COLUMNS), ["t"]), list[Box]()
        for number in range(12):
            box, count = (Box(_span(random, ROWS, origins), _span(random, COLUMNS, origins)) for _ in range(2)), len(boxes)
            asked, written = box
            earlier = random.randint(0, count)
            sees = max((n for n in range(1, earlier + 1) if not _apart(boxes[n - 1], asked)), default=0)
            found = state.seen(earlier, asked)
            # beside more origins than are kept apart nothing is told of some writes
            assert found == sees if origins < 7 else sees <= found <= earlier
            left = max((n for n in range(1, count + 1) if not _within(boxes[n - 1], written)), default=0)
            over = state.beside(count, written)
            assert over == left if origins < 7 else left <= over <= count
            seen |= {("sees", sees < earlier), ("over", left < count)}
            state.write(f"t{number}", written)
            boxes.append(written)
    assert len(seen) == 4, "windows that see all writes and fewer, boxes that leave something of each and that do not"


def _reads(n: int, lead: Shape = ()) -> Function:
    """Windows of a tile that was written in as many parts, last part first."""
    b = Build()
    y, at = b.load("t", (*lead, 16 * n, 32)), tuple(0 for _ in lead)
    row = b.scalar("r", 0, 0)
    for i in range(n):
        y = b.let(f"y{i}", "tile.assemble", y, b.load(f"x{i}", (*lead, 16, 32)), (*at, Binary("add", row, index(16 * i)), 0))
    for i in reversed(range(n)):
        b.out(b.let(f"e{i}", "tile.exp", b.let(f"s{i}", "tile.slice", y, (*lead, 16, 32), (*at, Binary("add", row, index(16 * i)), 0))))
    return b.function()


def _over(n: int) -> Function:
    """Rows that are written over and over."""
    b = Build()
    y = b.load("t", (64, 32))
    for i in range(n):
        y = b.let(f"y{i}", "tile.assemble", y, b.load(f"x{i}", (16, 32)), (16, 0))
    b.out(y)
    return b.function()


@pytest.mark.parametrize("function", [_reads, lambda n: _reads(n, (1,)), _over])
def test_windows_of_many_writes_make_a_few_nodes_each(function: Callable[[int], Function]) -> None:
    few, many = (saturated(function(n)) for n in (10, 40))
    assert many.node_count <= 4.2 * few.node_count
    assert many.report.iterations <= few.report.iterations


def test_write_and_window_cost_the_logarithm_of_the_sizes() -> None:
    def work(n: int) -> None:
        state = Overwrites((n, 1), ["t"])
        for i in range(n):
            state.write(f"y{i}", Box(span(index(i), 1), span(index(0), 1)))
        assert [state.seen(n, Box(span(index(i), 1), span(index(0), 1))) for i in range(n)] == list(range(1, n + 1))

    assert calls_of(lambda: work(400)) < 5.5 * calls_of(lambda: work(100))
