"""Addresses for intervals: rectangles of fixed time and given height that must not overlap, below a ceiling.

Heights are in units of the alignment. Three items of height 2 at times 0..1, 1..2 and 2..3 need 4 units: the
third lies where the first did. `place` tries, in this order, and stops at the first that fits:

1. a sweep in order of birth that takes the lowest gap, or the tightest one;
2. for each group of items that are joined by overlaps, the lowest free address for each in several orders,
   then again with those first that did not fit;
3. a search that is complete: items bottom up, each on top of what lies below it. Every placement can be
   pushed down until each item rests on another or on the ground, so some such order finds one where one
   exists. It ends after `NODES` steps of a group.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

#: steps of the complete search for one group, and rounds of the reordering before it
NODES, ROUNDS = 20_000, 60
#: overlaps that all rounds of one order may look at (a group of 10,000 items has one round)
WORK = 200_000
#: items of a group up to which the complete search is tried
MOST = 64


class Item(NamedTuple):
    """An interval: live at times first..last, `height` units."""

    first: int
    last: int
    height: int


class Placed(NamedTuple):
    """An address for every item, in units; `fits` where all lie below the ceiling. Where they do not,
    `proved` tells that no placement does."""

    at: tuple[int, ...]
    fits: bool
    proved: bool = False


def height_of(items: Sequence[Item], at: Sequence[int]) -> int:
    """The units that a placement takes."""
    return max((a + item.height for item, a in zip(items, at, strict=True)), default=0)


def place(items: Sequence[Item], ceiling: int | None) -> Placed:
    """Addresses below the ceiling (None: as low as a sweep finds). Deterministic; near linear unless step 1
    fails."""
    best = _sweep(items, tight=False)
    if ceiling is None or height_of(items, best) <= ceiling:
        return Placed(tuple(best), True)
    other = _sweep(items, tight=True)
    if height_of(items, other) <= ceiling:
        return Placed(tuple(other), True)
    at, fits, proved = [0] * len(items), True, False
    for group in _groups(items):
        found = _place_group([items[i] for i in group], ceiling)
        fits, proved = fits and found.fits, proved or found.proved
        for i, address in zip(group, found.at, strict=True):
            at[i] = address
    return Placed(tuple(at), fits, proved)


def _sweep(items: Sequence[Item], tight: bool) -> list[int]:
    """In order of birth, each item into the lowest gap that holds it, or into the smallest one."""
    at = [0] * len(items)
    gaps: list[tuple[int, int]] = []  # start and end, by start
    top = 0
    ends: list[tuple[int, int]] = []
    for i in sorted(range(len(items)), key=lambda i: (items[i].first, -items[i].height)):
        item = items[i]
        while ends and ends[0][0] < item.first:
            gone = heappop(ends)[1]
            _free(gaps, at[gone], at[gone] + items[gone].height)
        fitting = [g for g in gaps if g[1] - g[0] >= item.height]
        if fitting:
            start, end = min(fitting, key=lambda g: (g[1] - g[0], g[0])) if tight else fitting[0]
            del gaps[bisect_left(gaps, (start, end))]
            at[i] = start
            if end > start + item.height:
                insort(gaps, (start + item.height, end))
        else:
            at[i] = gaps.pop()[0] if gaps and gaps[-1][1] == top else top
            top = at[i] + item.height
        heappush(ends, (item.last, i))
    return at


def _free(gaps: list[tuple[int, int]], start: int, end: int) -> None:
    """Add a gap, joined with its neighbours."""
    k = bisect_left(gaps, (start, end))
    if k < len(gaps) and gaps[k][0] == end:
        end = gaps.pop(k)[1]
    if k and gaps[k - 1][1] == start:
        start = gaps.pop(k - 1)[0]
        k -= 1
    gaps.insert(k, (start, end))


def _groups(items: Sequence[Item]) -> list[list[int]]:
    """Items that are joined by overlaps in time, group by group."""
    groups: list[list[int]] = []
    reach = -1
    for i in sorted(range(len(items)), key=lambda i: items[i].first):
        if not groups or items[i].first > reach:
            groups.append([])
        groups[-1].append(i)
        reach = max(reach, items[i].last)
    return groups


def _place_group(items: list[Item], ceiling: int) -> Placed:
    near = _neighbours(items)
    size = range(len(items))
    rounds = min(ROUNDS, 1 + WORK // (1 + sum(map(len, near))))
    keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda i: (-items[i].height, items[i].first),
        lambda i: (-items[i].height * (items[i].last - items[i].first + 1), items[i].first),
        lambda i: (items[i].first - items[i].last, -items[i].height),
        lambda i: (-sum(items[j].height for j in near[i]) - items[i].height, items[i].first),
        lambda i: (items[i].first, -items[i].height),
        lambda i: (-items[i].last, -items[i].height),
    )
    best: list[int] = []
    for key in keys:
        order = sorted(size, key=key)
        for _ in range(rounds):
            at = _lowest(items, near, order)
            if not best or height_of(items, at) < height_of(items, best):
                best = at
            late = [i for i in order if at[i] + items[i].height > ceiling]
            if not late:
                return Placed(tuple(at), True)
            rest = set(late)
            moved = [*late, *(i for i in order if i not in rest)]
            if moved == order:
                break
            order = moved
    if len(items) <= MOST:
        search = _Search(items, ceiling)
        found = search.run()
        if found is not None:
            return Placed(tuple(found), True)
        return Placed(tuple(best), False, search.complete)
    return Placed(tuple(best), False)


def _neighbours(items: list[Item]) -> list[list[int]]:
    """The items that each one overlaps in time."""
    near: list[list[int]] = [[] for _ in items]
    active: list[int] = []
    for i in sorted(range(len(items)), key=lambda i: items[i].first):
        active = [j for j in active if items[j].last >= items[i].first]
        for j in active:
            near[i].append(j)
            near[j].append(i)
        active.append(i)
    return near


def _lowest(items: list[Item], near: list[list[int]], order: list[int]) -> list[int]:
    """Each item in turn at the lowest address that is free while it lives."""
    at = [-1] * len(items)
    for i in order:
        address = 0
        for start, end in sorted((at[j], at[j] + items[j].height) for j in near[i] if at[j] >= 0):
            if start >= address + items[i].height:
                break
            address = max(address, end)
        at[i] = address
    return at


class _Search:
    """Search over orders of rising address, with a bound for every time and a table of dead ends."""

    def __init__(self, items: list[Item], ceiling: int) -> None:
        self.items, self.ceiling = items, ceiling
        times = sorted({item.first for item in items})
        self.spans = [(bisect_left(times, a), bisect_left(times, b + 1)) for a, b, _ in items]
        self.left = [0] * len(times)
        for item, (a, b) in zip(items, self.spans, strict=True):
            for t in range(a, b):
                self.left[t] += item.height
        self.skyline = [0] * len(times)
        self.at = [-1] * len(items)
        self.dead: set[tuple[int, int, tuple[int, ...]]] = set()
        self.nodes, self.complete = NODES, True

    def run(self) -> list[int] | None:
        """Addresses, or None; then `complete` tells that there are none."""
        return self.at if self.step(0, 0, len(self.items)) else None

    def step(self, placed: int, floor: int, left: int) -> bool:
        if not left:
            return True
        tops = zip(self.skyline, self.left, strict=True)
        if any(rest and max(top, floor) + rest > self.ceiling for top, rest in tops):
            return False
        key = (placed, floor, tuple(self.skyline))
        if key in self.dead:
            return False
        if self.nodes <= 0:
            self.complete = False
            return False
        self.nodes -= 1
        tried: set[tuple[int, int, int]] = set()
        choices = []
        for i, (a, b) in enumerate(self.spans):
            if self.at[i] < 0:
                address = max(self.skyline[a:b])
                kind = (a, b, self.items[i].height)
                if address >= floor and kind not in tried:
                    tried.add(kind)
                    choices.append((address, -self.items[i].height * (b - a), i))
        for address, _, i in sorted(choices):
            if self.put(i, address, placed, left):
                return True
        self.dead.add(key)
        return False

    def put(self, i: int, address: int, placed: int, left: int) -> bool:
        """Place item i and go on; take it back where that leads nowhere."""
        (a, b), height = self.spans[i], self.items[i].height
        before = self.skyline[a:b]
        self.at[i] = address
        self.skyline[a:b] = [address + height] * (b - a)
        for t in range(a, b):
            self.left[t] -= height
        if self.step(placed | 1 << i, address, left - 1):
            return True
        for t in range(a, b):
            self.left[t] += height
        self.skyline[a:b] = before
        self.at[i] = -1
        return False
