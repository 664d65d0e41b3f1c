"""The cheapest program that fits: against a brute force over every choice, each written as a program, with and without limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest
from alternatives import TARGET
from generators import random_program
from helpers import incore, let, load, lowered, ops, out, ret, store, tensor

from egraph_rules.buffers import aliased_params
from extract.decide import decide
from extract.effort import ChoiceLimits
from extract.fit import Fitted
from extract.lower import lower
from extract.question import Question
from extract.rows import Rows
from extract.target import Target
from extract.trips import DEFAULT_TRIPS
from extract.verdict import Judge, Verdict
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.stmt import Function, Program
from pypto_ir.types import Memory
from tests.extract.brute_force import CHOICES, asked
from tests.extract.every_choice import SECONDS, Compared, EveryChoice, chosen_by
from tests.extract.memory_machine import MemoryMachine

#: the same prices, memories without a limit
FREE = replace(TARGET, name="free", memories={memory: replace(its, capacity=None) for memory, its in TARGET.memories.items()})
#: choices of one function, all of which are written as programs; of one of a long run, and how many of these may have to be written
MOST, MANY, WRITTEN = 400, CHOICES, 300
#: shares of what the cheapest program needs that the memories hold
SHARES = (0.5, 0.6, 0.75, 0.9, 0.99, 1.0, 1.0, 1.2)
#: the same for programs that are to fit more often
NEAR = (0.8, 0.9, 0.95, 1.0, 1.0, 1.0, 1.0, 1.05)
SHORT, LONG = 50, 2_000


def tight(free: Verdict, source: Random) -> Target:
    """A target with memories about as large as what a program needs."""
    assert free.allocation is not None
    memories = {}
    for memory, its in TARGET.memories.items():
        share = source.choice(SHARES)
        size = int(free.allocation.peak.get(memory, 0) * share) // its.allocation * its.allocation
        memories[memory] = replace(its, capacity=max(its.allocation, size))
    return replace(TARGET, name="tight", memories=memories)


def compare(function: Function, aliased: tuple[tuple[str, str], ...], source: Random | None, most: int = MOST) -> Compared | None:
    """Compare the choice with the brute force, under limits drawn from `source` where one is given; None for functions that are refused
    or have too many choices. Where there may be many, those that are dearer than the cheapest program are not written."""
    question = asked(function, aliased)
    every = None if question is None else EveryChoice.of(question, most)
    if every is None:
        return None
    target = FREE
    if source is not None:
        free = Judge(every.question.problem, FREE, DEFAULT_TRIPS).judge(sorted(every.cheapest))
        if free.allocation is None:
            return None
        target = tight(free, source)
    return every.compared(target, None if most <= MOST else WRITTEN)


def all_compared(seeds: Iterable[int], limited: bool, most: int = MOST) -> list[Compared]:
    found: list[Compared | None] = []
    for seed in seeds:
        program = random_program(Random(seed), 2 + seed % 7)
        aliased, source = aliased_params(program), Random(seed) if limited else None
        found += [compare(f, aliased.get(f.name, ()), source, most) for f in program.functions if f.in_core]
    return [c for c in found if c is not None]


def test_the_cheapest_program_is_found_without_limits() -> None:
    found = all_compared(range(SHORT), False)
    assert len(found) >= SHORT * 0.7 and sum(c.choices > 1 for c in found) >= SHORT * 0.3


def test_the_cheapest_program_that_fits_is_found_and_none_where_there_is_none() -> None:
    found = all_compared(range(100, 100 + SHORT), True)
    assert len(found) >= SHORT * 0.7
    assert sum(c.refused for c in found) >= SHORT * 0.2 and sum(c.dearer for c in found) >= SHORT * 0.05


@pytest.mark.long
@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("part", range(10))
def test_the_cheapest_program_is_found_at_length(part: int, limited: bool) -> None:
    size = LONG // 10
    found = all_compared(range(20_000 + part * size, 20_000 + (part + 1) * size), limited, MANY)
    assert len(found) >= size * 0.7 and sum(c.choices > 1 for c in found) >= size * 0.3
    assert not limited or sum(c.dearer for c in found) >= size * 0.02


# ---- rows and cuts ----


def chain(links: int, *shape: int) -> Program:
    """`links` exponentials of a tile, the first of which is read again at the end."""
    body = [load("t0", "x", [0] * len(shape), list(shape))]
    body += [let(f"t{n}", "tile.exp", f"t{n - 1}") for n in range(1, links + 1)]
    body += [let("sum", "tile.add", f"t{links}", "t1"), store("s", "sum", [0] * len(shape), "o"), ret("s")]
    return incore([tensor("x", *shape), out("o", *shape)], body)


def rows_of(program: Program) -> tuple[Question, Rows]:
    question = asked(program.functions[0])
    assert question is not None
    return question, Rows(question.problem, TARGET)


def test_row_counts_what_is_read_behind_a_point_and_what_its_op_reads_and_writes() -> None:
    question, rows = rows_of(chain(3, 2, 8, 16))
    chosen = decide(question.problem, question.choices, question.bound, ChoiceLimits(SECONDS)).chosen
    size = 2 * 8 * 16 * 4
    at = {p: rows.row(Memory.VEC, p, 0) for p in range(6)}
    live = {p: sum(need.size for need in row.needs if need.candidate in row.live(set(chosen))) for p, row in at.items()}
    # t0; t1 beside t0; t1 and t2; t1, t2 and t3; t3, t1 and the sum; the sum
    assert live == {0: size, 1: 2 * size, 2: 2 * size, 3: 3 * size, 4: 3 * size, 5: size}
    worst = rows.worst(chosen, Memory.VEC, 3 * size - 1)
    assert worst is not None and worst.exceeded(set(chosen)) and rows.worst(chosen, Memory.VEC, 3 * size) is None


def test_long_chain_that_does_not_fit_whole_goes_page_by_page_after_few_tries() -> None:
    program = chain(40, 8, 64, 128)
    question = asked(program.functions[0])
    assert question is not None
    found = chosen_by(question, Judge(question.problem, TARGET, DEFAULT_TRIPS))
    assert isinstance(found, Fitted) and found.proved
    assert ops(lowered(program, dearer=True)) == (["load", *["exp"] * 40, "add", "store"]) * 8
    conditions = question.problem.conditions
    assert len(conditions.rows) + len(conditions.cuts) <= 80


def test_what_fits_nowhere_is_refused_for_the_choice_that_comes_nearest() -> None:
    question = asked(chain(2, 2, 256, 128).functions[0])
    assert question is not None
    found = chosen_by(question, Judge(question.problem, TARGET, DEFAULT_TRIPS))
    assert isinstance(found, Refused)
    # a page of 128 KiB beside another one, not two tiles of 256 KiB
    assert [d.code for d in found.diagnostics] == ["M001"] and "here 393,216 are live together" in str(found)


# ---- programs near the limits, watched while they run ----


def shrunk(program: Program, source: Random) -> Target | None:
    """A target with memories about as large as what the cheapest form of a program needs; None for programs that the rules give none."""
    try:
        result = optimize(program, target="ascend910b", validate=False)
    except Refused:
        return None
    if any(d.code == "W403" for d in result.diagnostics):
        return None
    peaks: dict[Memory, int] = {}
    for item in result.functions.values():
        for memory, size in item.allocation.peak.items():
            peaks[memory] = max(size, peaks.get(memory, 0))
    memories = {}
    for memory, its in TARGET.memories.items():
        size = int(peaks.get(memory, 0) * source.choice(NEAR)) // its.allocation * its.allocation
        memories[memory] = replace(its, capacity=max(its.allocation, size))
    return replace(TARGET, name="tight", memories=memories)


def watch(seed: int) -> bool | None:
    """Lower a program under tight limits and run what comes out in a memory of marks; False where it is refused for its size, None where
    it is refused anyway."""
    program, source = random_program(Random(seed), 3 + seed % 10), Random(seed)
    target = shrunk(program, source)
    if target is None:
        return None
    aliased = aliased_params(program)
    for function in program.functions:
        if not function.in_core:
            continue
        try:
            made = lower(function, target, aliased.get(function.name, ()))
        except Refused as refused:
            assert "M001" in {d.code for d in refused.diagnostics}
            return False
        assert made.allocation.fits
        for run in range(4):
            MemoryMachine(made.function, target, made.allocation, Random(1000 * seed + run)).run()
    return True


def test_no_tile_of_a_program_near_the_limits_is_overwritten_or_lies_outside() -> None:
    found = [watch(seed) for seed in range(40)]
    assert found.count(True) >= 15 and found.count(False) >= 4


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_no_tile_of_two_thousand_programs_near_the_limits_is_overwritten_or_lies_outside(part: int) -> None:
    found = [watch(seed) for seed in range(1_000 + part * 125, 1_125 + part * 125)]
    assert found.count(True) >= 50 and found.count(True) + found.count(False) >= 90
