"""Optimising random accumulator programs: 2-D, addressable, within L0C, equal by value and in the blocks of L0C, never dearer than
upstream's program; and faults that are put in are seen.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import count

import pytest

import extract.elaborate
import extract.machine
from egraph_rules import forms
from pypto_ir.expr import MakeTuple, const_int
from pypto_ir.stmt import Assign, Block, Call, For, If, Program, blocks, tuple_items, walk
from pypto_ir.types import TileType
from tests.generators import Failure, check_accumulators, random_accumulators

#: programs, and the most statements of one: these runs are short, long ones are for `benchmarks.fuzz --kind accumulators`
PROGRAMS, STATEMENTS = 500, 14
#: programs of one test
CHUNK = 50


@cache
def programs() -> tuple[Program, ...]:
    """The first programs that are short enough."""
    made = (random_accumulators(random.Random(seed), deep=True) for seed in count())
    short = (p for p in made if sum(1 for _ in walk(p.functions[0].body)) <= STATEMENTS)
    return tuple(next(short) for _ in range(PROGRAMS))


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_random_accumulators_are_lowered_as_promised_or_refused_with_a_reason(first: int) -> None:
    outcomes = [check_accumulators(p) for p in programs()[first : first + CHUNK]]
    lowered = [o for o in outcomes if not o.refused]
    assert len(lowered) >= 0.75 * CHUNK, Counter(code for o in outcomes for code in o.codes)
    assert sum(o.ran for o in lowered) >= 0.9 * sum(o.changed for o in lowered) > 0.7 * len(lowered)


def _caught() -> Counter[str]:
    found = Counter[str]()
    for p in programs()[:40]:
        try:
            check_accumulators(p)
        except Failure as failure:
            found[failure.kind] += 1
    return found


def test_pages_at_wrong_columns_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = extract.elaborate.columns_of_page

    def shifted(packed: TileType, pages: int, number: int) -> tuple[forms.Shape, MakeTuple]:
        return honest(packed, pages, min(number, pages - 2))

    monkeypatch.setattr(extract.elaborate, "columns_of_page", shifted)
    assert _caught()


def test_pages_of_half_blocks_side_by_side_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition that pages are whole blocks, with 8 in the place of 16."""

    def packs(t: TileType) -> bool:
        shape = t.static_shape
        if shape is None or t.rank <= 2 or t.memory.value != "Acc" or forms.pages(shape) == 1:
            return False
        return shape[-2] % 8 == 0 and shape[-1] % 8 == 0

    monkeypatch.setattr(forms, "packs_columns", packs)
    monkeypatch.setitem(forms.FACTS, "kind-packs", packs)
    assert any({"V301", "V302", "V303", "V304"} & set(_codes(p)) for p in programs()[:60])


def _codes(p: Program) -> tuple[str, ...]:
    try:
        return check_accumulators(p).codes
    except Failure as failure:
        return (failure.kind,)


# ---- what the programs cover -------------------------------------------------------------------------------


def _calls(op: str) -> Iterator[Call]:
    for p in programs():
        for s in walk(p.functions[0].body):
            if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == op:
                yield s.value


def _depth(block: Block) -> int:
    return max((isinstance(s, For) + max(map(_depth, blocks(s)), default=0) for s in block), default=0)


def test_the_programs_have_what_accumulators_can_have() -> None:
    bodies = [p.functions[0].body for p in programs()]
    assert {_depth(body) for body in bodies} == {0, 1, 2, 3}
    assert sum(isinstance(s, If) for body in bodies for s in walk(body)) > 15
    assert {len(c.args) for c in _calls("tile.batch_matmul_acc")} == {3, 4}
    assert {sum(isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.create" for s in body) for body in bodies} >= {
        1,
        2,
    }
    assert {sum(isinstance(s.value, Call) and s.value.op == "tile.store" for s in body if isinstance(s, Assign)) for body in bodies} >= {
        1,
        2,
        3,
    }
    started = [*_calls("tile.batch_matmul"), *_calls("tile.matmul")]
    assert len(started) > 20


def test_windows_are_pages_rows_and_columns_at_constant_and_at_run_time_offsets() -> None:
    offsets = [tuple_items(c.args[2]) or () for c in _calls("tile.slice")]
    for rank in (2, 3, 4):
        fixed = {const_int(o[0]) is not None for o in offsets if len(o) == rank}
        assert fixed == {False, True}, rank
    assert any(const_int(o[-1]) is None for o in offsets)
    cut = [
        c for c in _calls("tile.batch_matmul_acc") if isinstance(c.args[1].type, TileType) and c.args[1].type.valid != c.args[1].type.shape
    ]  # type: ignore[union-attr]
    assert len(cut) > 5 and any(const_int(c.args[1].type.valid[-2]) is None for c in cut)  # type: ignore[union-attr]
