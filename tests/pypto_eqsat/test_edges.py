"""Optimising random programs of windows and cut regions: 2-D, equal, stable, never dearer than upstream's program, or refused with a
reason; and faults that are put in are seen.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from egraph_rules.values import Values
from pypto_ir.expr import Binary, Expr, const_int, index
from pypto_ir.stmt import Assign, Call, Eval, For, If, Program, tuple_items, walk
from pypto_ir.types import Dims, TileType
from tests.generators import Failure, check, random_edges

#: programs, and about the most statements of one: these runs are short, long ones are for `benchmarks fuzz --kind edges`
PROGRAMS, STATEMENTS = 500, 6
#: programs of one test
CHUNK = 50
#: least part of the programs of one test that is not refused
LOWERED = 0.65


@cache
def programs() -> tuple[Program, ...]:
    return tuple(random_edges(random.Random(seed), STATEMENTS) for seed in range(PROGRAMS))


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_random_programs_of_windows_are_lowered_as_promised_or_refused_with_a_reason(first: int) -> None:
    outcomes = [check(p, upstream=True) for p in programs()[first : first + CHUNK]]
    lowered = [o for o in outcomes if not o.refused]
    assert len(lowered) >= LOWERED * CHUNK, Counter(code for o in outcomes for code in o.codes)
    assert sum(o.ran for o in lowered) >= 0.9 * sum(o.changed for o in lowered) > 0.7 * len(lowered)


def test_rows_that_are_counted_with_the_wrong_extent_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(self: Values, shape: tuple[int, ...], offsets: Dims) -> tuple[object, object]:
        row: Expr = offsets[0]
        for dim, offset in zip(shape[:-2], offsets[1:-1], strict=True):
            row = Binary("add", Binary("mul", row, index(dim)), offset)
        return self.place(row), self.place(offsets[-1])

    monkeypatch.setattr(Values, "position", shifted)
    found = Counter[str]()
    for p in programs()[:40]:
        try:
            check(p)
        except Failure as failure:
            found[failure.kind] += 1
    assert found["equality"]


# ---- what the programs cover -------------------------------------------------------------------------------


def _statements() -> Iterator[tuple[Call, str | None]]:
    """The calls of all programs, each with the op that made its first operand."""
    for p in programs():
        made: dict[str, str] = {}
        for s in walk(p.functions[0].body):
            if isinstance(s, Assign | Eval) and isinstance(s.value, Call):
                yield s.value, made.get(getattr(s.value.args[0], "name", ""))
                if isinstance(s, Assign):
                    made[s.target.name] = s.value.op


def _calls(op: str) -> list[Call]:
    return [call for call, _ in _statements() if call.op == op]


def _rank(call: Call, operand: int) -> int:
    t = call.args[operand].type  # type: ignore[union-attr]
    assert isinstance(t, TileType)
    return t.rank


@pytest.mark.parametrize("op", ["tile.slice", "tile.assemble"])
def test_windows_are_of_every_rank_at_constant_and_at_run_time_offsets(op: str) -> None:
    places = [tuple_items(call.args[2]) or () for call in _calls(op)]
    for rank in (2, 3, 4):
        assert {all(const_int(o) is not None for o in at) for at in places if len(at) == rank} == {False, True}, rank


def test_windows_are_cut_from_loads_windows_and_what_was_written_over() -> None:
    sources = Counter(source for call, source in _statements() if call.op == "tile.slice")
    assert min(sources[op] for op in ("tile.load", "tile.slice", "tile.assemble")) >= 20


def test_cells_of_nd_tiles_sources_of_fewer_axes_and_control_flow_occur() -> None:
    assert sum(_rank(call, 1) < _rank(call, 0) for call in _calls("tile.assemble")) >= 5
    for op in ("tile.read", "tile.write"):
        assert sum(_rank(call, 0) > 2 for call in _calls(op)) >= 10
    kinds = Counter(type(s) for p in programs() for s in walk(p.functions[0].body))
    assert kinds[For] >= 20 and kinds[If] >= 20


def test_valid_regions_are_whole_cut_at_constants_and_at_run_time_extents() -> None:
    regions = [(tuple_items(call.args[2]), tuple_items(call.args[3])) for call in _calls("tile.load")]
    kinds = Counter("whole" if window == valid else all(const_int(v) is not None for v in valid or ()) for window, valid in regions)
    assert min(kinds[kind] for kind in ("whole", True, False)) >= 50
