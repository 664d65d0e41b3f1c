"""Addresses of tiles: none overlap while they live, all fit where they can, what does not fit is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest
from generators import random_program
from helpers import incore, let, load, loop, main, out, refused, ret, scalar, store, tensor
from live_programs import live_function

from extract import placement
from extract.allocate import Allocation, allocate, capacity_faults
from extract.placement import Item, height_of, place
from extract.target import Target, load_target
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused, Severity
from pypto_ir.stmt import Function, Program
from pypto_ir.types import Memory
from pypto_ir.verify import verify_program
from tests.extract.memory_machine import MemoryMachine

FREE = load_target(None)
ASCEND = load_target("ascend910b")

# ---- intervals ----


def peak_of(items: Sequence[Item]) -> int:
    return max(sum(i.height for i in items if i.first <= t <= i.last) for t in {i.first for i in items})


def overlaps(items: Sequence[Item], at: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs that share a unit while both live."""
    return [
        (x, y)
        for x, y in combinations(range(len(items)), 2)
        if items[x].first <= items[y].last
        and items[y].first <= items[x].last
        and at[x] < at[y] + items[y].height
        and at[y] < at[x] + items[x].height
    ]


def any_placement(items: Sequence[Item], ceiling: int) -> bool:
    """Whether addresses below the ceiling exist, by trying every address of every item."""

    def rest(at: list[int]) -> bool:
        n = len(at)
        if n == len(items):
            return True
        return any(
            not any(n in pair for pair in overlaps(items[: n + 1], [*at, address])) and rest([*at, address])
            for address in range(ceiling - items[n].height + 1)
        )

    return rest([])


def drawn(seed: int, count: int, times: int) -> list[Item]:
    r = Random(seed)
    firsts = [r.randrange(times) for _ in range(count)]
    return [Item(a, min(times - 1, a + r.randrange(times)), r.randint(1, 4)) for a in firsts]


#: groups that only the complete search places at the height of their peak
HARD = [
    (7, [(0, 1, 2), (2, 4, 1), (4, 4, 1), (3, 4, 3), (0, 0, 3), (0, 2, 1), (1, 4, 2), (0, 3, 1), (1, 2, 1)]),
    (5, [(0, 1, 2), (4, 7, 1), (6, 7, 3), (3, 6, 1), (0, 4, 1), (0, 2, 2), (3, 5, 1), (2, 3, 1), (5, 5, 2),
         (2, 3, 1), (7, 7, 1)]),
]  # fmt: skip
#: groups that need more than their peak
FRAGMENTED = [
    (6, [(4, 7, 3), (0, 0, 3), (1, 1, 1), (0, 2, 3), (7, 7, 3), (5, 5, 2), (3, 4, 2), (2, 3, 2), (5, 5, 1),
         (1, 4, 1)]),
    (7, [(0, 0, 3), (4, 6, 3), (3, 4, 3), (5, 6, 3), (0, 2, 1), (1, 3, 2), (0, 1, 3), (6, 6, 1), (1, 2, 1),
         (2, 3, 2)]),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_small_groups_are_placed_exactly_where_they_can_be(seed: int) -> None:
    items = drawn(seed, 3 + seed % 4, 3 + seed % 3)
    peak = peak_of(items)
    for ceiling in (peak - 1, peak, peak + 1):
        found = place(items, ceiling)
        assert overlaps(items, found.at) == []
        assert found.fits == any_placement(items, ceiling) == (height_of(items, found.at) <= ceiling)
        assert found.fits or found.proved


@pytest.mark.parametrize(("ceiling", "rows"), HARD)
def test_groups_that_no_order_of_births_or_sizes_packs_are_searched(
    ceiling: int, rows: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [Item(*row) for row in rows]
    assert ceiling == peak_of(items)
    found = place(items, ceiling)
    assert found.fits and height_of(items, found.at) <= ceiling and overlaps(items, found.at) == []
    monkeypatch.setattr(placement, "MOST", 0)
    assert not place(items, ceiling).fits, "the search is not what places this group"


@pytest.mark.parametrize(("ceiling", "rows"), FRAGMENTED)
def test_a_group_that_cannot_be_placed_at_its_peak_is_proved_so(
    ceiling: int, rows: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [Item(*row) for row in rows]
    assert ceiling == peak_of(items)
    found = place(items, ceiling)
    assert not found.fits and found.proved and overlaps(items, found.at) == []
    assert place(items, ceiling + 1).fits
    monkeypatch.setattr(placement, "NODES", 3)
    assert not place(items, ceiling).proved


def test_thousands_of_intervals_are_placed_without_a_limit_and_under_one() -> None:
    r = Random(5)
    items = [Item(i, i + r.choice((1, 2, 5, 40)), r.randint(1, 64)) for i in range(5_000)]
    free = place(items, None)
    for found in (free, place(items, height_of(items, free.at))):
        by_birth = sorted(range(len(items)), key=lambda i: items[i].first)
        for k, x in enumerate(by_birth):
            for y in by_birth[k + 1 : k + 42]:
                assert overlaps([items[x], items[y]], [found.at[x], found.at[y]]) == []


# ---- functions ----


def tiles(*shapes: tuple[str, int, int], last: bool = True) -> Function:
    """Loads of FP32 tiles that are all stored behind the last of them."""
    body: list[Any] = [load(name, "x", [0, 0], [rows, cols]) for name, rows, cols in shapes]
    body += [store(f"o_{name}", name, [0, 0], "o") for name, _, _ in shapes]
    return main(incore([tensor("x", 512, 512), out("o", 512, 512), scalar("n")], [*body, ret("o")]))


def test_tiles_that_fill_a_memory_to_the_last_byte_fit() -> None:
    found = allocate(tiles(("a", 64, 256), ("b", 64, 256), ("c", 56, 256)), ASCEND)
    assert found.fits
    assert found.peak == {Memory.VEC: 188_416} == found.extent
    assert found.addresses == ((0,), (65_536,), (131_072,))


def test_tiles_that_do_not_fit_are_named_with_their_sizes_and_statements() -> None:
    function = tiles(("small", 8, 256), ("a", 64, 256), ("b", 64, 256), ("c", 56, 256))
    found = allocate(function, ASCEND)
    assert not found.fits
    (fault,) = capacity_faults(function, found)
    assert (fault.code, fault.severity) == ("M001", Severity.ERROR)
    assert fault.message == (
        "Vec holds 188,416 bytes, and here 196,608 are live together: a (65,536 bytes, a = tile.load), "
        "b (65,536 bytes, b = tile.load), c (57,344 bytes, c = tile.load), "
        "small (8,192 bytes, small = tile.load)"
    )
    assert (fault.place.function, fault.place.statement) == ("main", "c = tile.load")
    assert fault.help and "smaller tiles" in fault.help


def test_of_very_many_tiles_the_largest_are_named() -> None:
    function = tiles(*((f"t{i}", 8 if i else 16, 256) for i in range(40)))
    (fault,) = capacity_faults(function, allocate(function, ASCEND))
    assert fault.message.count("tile.load") == 16
    assert "together: t0 (16,384 bytes, t0 = tile.load), t1 (8,192" in fault.message
    assert fault.message.endswith("t15 = tile.load) and 24 others (196,608 bytes)")


def test_every_memory_that_is_too_small_is_reported_and_one_that_is_missing_as_such() -> None:
    none = replace(ASCEND.memories[Memory.MAT], capacity=0)
    small = replace(ASCEND.memories[Memory.VEC], capacity=1024)
    target = replace(ASCEND, memories={**ASCEND.memories, Memory.MAT: none, Memory.VEC: small})
    body = [
        load("v", "x", [0, 0], [16, 64]),
        store("o1", "v", [0, 0], "o"),
        load("m", "x", [0, 0], [16, 64], memory="Mat"),
        store("o2", "m", [0, 0], "o"),
        ret("o"),
    ]
    function = main(incore([tensor("x", 64, 64), out("o", 64, 64)], body))
    messages = [d.message for d in capacity_faults(function, allocate(function, target))]
    assert len(messages) == 2
    assert "Vec holds 1,024 bytes, and here 4,096 are live" in messages[0]
    assert "no memory Mat" in messages[1] and "m (4,096 bytes, m = tile.load)" in messages[1]


def test_copies_of_a_pipelined_load_have_addresses_of_their_own_and_are_named() -> None:
    body = [load("a", "x", [0, 0], [64, 256]), let("b", "tile.exp", "a"), store("s", "b", [0, 0], "o")]
    pipeline = {"kind": "pipeline", "attrs": {"pipeline_stages": 2}}
    params = [tensor("x", 512, 512), out("o", 512, 512), scalar("n")]
    function = main(incore(params, [loop("k", [0, "n", 1], {}, body, **pipeline), ret("o")]))
    free = allocate(function, FREE)
    assert sorted(a for addresses in free.addresses for a in addresses) == [0, 65_536, 131_072]
    (fault,) = capacity_faults(function, allocate(function, ASCEND))
    assert "a (131,072 bytes for 2 stages, a = tile.load)" in fault.message
    assert fault.help and "fewer stages" in fault.help


def test_without_a_target_nothing_is_too_large() -> None:
    found = allocate(tiles(*((f"t{i}", 256, 256) for i in range(20))), FREE)
    assert found.fits and found.peak == {Memory.VEC: 20 * 262_144}
    assert len(set(found.addresses)) == 20


# ---- lowering ----


def three_pages(rows: int) -> Program:
    """Three FP32 tiles [2, rows, 128], of 1,024 * rows bytes each; a page of each takes half of that."""
    shape = [2, rows, 128]
    body = [load("a", "x", [0, 0, 0], shape), load("b", "y", [0, 0, 0], shape)]
    body += [let("c", "tile.add", "a", "b"), store("s", "c", [0, 0, 0], "o"), ret("s")]
    return incore([tensor("x", *shape), tensor("y", *shape), out("o", *shape)], body)


def test_a_function_that_the_target_cannot_hold_is_refused_with_the_tiles_that_do_not_fit() -> None:
    refusal = refused(three_pages(128), "M001", "Vec holds 188,416 bytes", "c_0 = tile.add", "smaller tiles")
    assert {d.code for d in refusal.diagnostics} == {"M001"}
    assert optimize(three_pages(56), validate=False).program is not None
    assert optimize(replace(three_pages(128), target=None), validate=False).program is not None


def test_statistics_say_what_each_pipe_channel_and_memory_bears() -> None:
    body = [load("a", "x", [0, 0], [64, 128]), load("b", "y", [0, 0], [64, 128])]
    body += [let("c", "tile.add", "a", "b"), store("s", "c", [0, 0], "o"), ret("s")]
    result = optimize(incore([tensor("x", 64, 128), tensor("y", 64, 128), out("o", 64, 128)], body))
    found = result.stats["functions"]["main"]
    assert found["peak_bytes"] == {"Vec": 3 * 32_768}
    assert found["traffic"] == {"DDR->Vec": 2 * 32_768, "Vec->DDR": 32_768}
    assert list(found["cycles"]) == ["MTE2", "MTE1", "M", "FIX", "V", "MTE3", "S"]
    assert {pipe for pipe, cycles in found["cycles"].items() if cycles} == {"MTE2", "V", "MTE3", "S"}
    assert len(result.functions["main"].allocation.addresses) == 3


# ---- programs near the limits ----


def tightest(function: Function) -> tuple[Target, Allocation]:
    """A target whose memories hold the peaks of a function and no more, or what the allocation needs."""
    capacities = dict(allocate(function, FREE).peak)
    while True:
        memories = {m: replace(s, capacity=capacities.get(m, 0)) for m, s in FREE.memories.items()}
        target = replace(FREE, name="tight", memories=memories)
        found = allocate(function, target)
        if found.fits:
            return target, found
        for over in found.overflows:
            assert over.fragmented and over.needed > over.capacity
            capacities[over.memory] = over.needed


def check(seed: int) -> None:
    function = live_function(Random(seed), 6 + seed % 25)
    errors = [d for d in verify_program(Program("p", (function,))) if d.severity is Severity.ERROR]
    assert errors == []
    target, found = tightest(function)
    for run in range(4):
        MemoryMachine(function, target, found, Random(1000 * seed + run)).run()


@pytest.mark.parametrize("part", range(10))
def test_no_tile_is_overwritten_while_it_is_read_at_the_tightest_capacities(part: int) -> None:
    for seed in range(part * 10, part * 10 + 10):
        check(seed)


def check_emitted(seed: int) -> bool:
    """Lower a random N-D program and run what comes out; False where it is refused."""
    try:
        result = optimize(random_program(Random(seed)), target="ascend910b", validate=False)
    except Refused:
        return False
    for function in result.program.functions:
        if function.in_core:
            target, found = tightest(function)
            for run in range(4):
                MemoryMachine(function, target, found, Random(1000 * seed + run)).run()
    return True


def test_no_tile_of_an_emitted_program_is_overwritten_while_it_is_read() -> None:
    assert sum(map(check_emitted, range(40))) >= 20


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_no_tile_is_overwritten_in_two_thousand_programs_at_the_tightest_capacities(part: int) -> None:
    for seed in range(1000 + part * 100, 1100 + part * 100):
        check(seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_no_tile_of_two_thousand_emitted_programs_is_overwritten_while_it_is_read(part: int) -> None:
    assert sum(map(check_emitted, range(1000 + part * 100, 1100 + part * 100))) >= 50
