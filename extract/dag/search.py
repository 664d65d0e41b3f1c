"""Large-neighbourhood search: an extraction is improved by choosing anew for some of its classes, exactly, while the others stay.

Neighbourhoods are classes near each other in the graph. They grow while they are solved with ease and shrink where they are not. Each is
asked for something cheaper than what is known, so that simplification alone refutes most of them.
"""

from __future__ import annotations

import random
import time

from extract.dag.exact import solve
from extract.dag.graph import Dag, Taken, cost_of, keys_of, restricted, settled
from extract.dag.reduce import reduced
from extract.dag.relax import relaxed

#: classes of the first neighbourhood, and of the least
SIZE, SMALLEST = 8.0, 2.0
#: solver's deterministic units (about a second) for one neighbourhood
WORK = 0.1


def improved(dag: Dag, taken: Taken, seconds: float, patience: int, seed: int) -> Taken:
    """An extraction that costs no more than the one given; the search ends after some seconds, or when so many neighbourhoods one after the
    other had nothing cheaper. The same for the same graph and seed, as long as the time suffices."""
    deadline = time.monotonic() + seconds
    random_ = random.Random(seed)
    near = _near(dag)
    size, failures = SIZE, 0
    while failures < patience and time.monotonic() < deadline:
        chosen = sorted(c for c in taken if len(dag.classes[c]) > 1)
        if not chosen:
            break
        free = _neighbourhood(near, random_, chosen, size)
        found, easy = _better(dag, taken, free, deadline)
        failures = 0 if found else failures + 1
        taken = found or taken
        # the whole was looked at, or even the least part is too much
        if not found and len(free) == len(chosen) if easy else size < SMALLEST:
            break
        size = min(size * 1.05, len(chosen)) if easy else size * 0.7
    return taken


def _near(dag: Dag) -> list[list[int]]:
    """For every class those that its nodes read or that read it, the root left out."""
    near: list[set[int]] = [set() for _ in dag.classes]
    for c, nodes in enumerate(dag.classes):
        if c != dag.root:
            for node in nodes:
                for x in node.children:
                    near[c].add(x)
                    near[x].add(c)
    return [sorted(found) for found in near]


def _neighbourhood(near: list[list[int]], random_: random.Random, chosen: list[int], size: float) -> set[int]:
    """So many chosen classes around one of them, in random order of search."""
    members = set(chosen)
    start = random_.choice(chosen)
    free: set[int] = set()
    seen, edge = {start}, [start]
    while edge and len(free) < size:
        i = random_.randrange(len(edge))
        edge[i], edge[-1] = edge[-1], edge[i]
        c = edge.pop()
        if c in members:
            free.add(c)
        fresh = [x for x in near[c] if x not in seen]
        seen.update(fresh)
        edge += fresh
    return free


def _better(dag: Dag, taken: Taken, free: set[int], deadline: float) -> tuple[Taken | None, bool]:
    """A cheaper extraction that differs in the free classes and what is below them; and whether that question was easy to answer."""
    goal = cost_of(taken) - 1
    first = reduced(restricted(dag, taken, free), goal, thorough=False)
    if first is None:
        return None, True
    bounded = relaxed(first.dag, goal, deadline - time.monotonic())
    second = reduced(bounded.dag, goal, thorough=False) if bounded.bound <= goal else None
    if second is None:
        return None, True
    solution = solve(second.dag, {}, deadline - time.monotonic(), WORK)
    if solution.taken is None:
        return None, solution.complete
    found = settled(dag, [*keys_of(solution.taken), *first.free, *second.free])
    assert found is not None, "a simplified graph has an extraction that the graph does not have"
    return (found if cost_of(found) <= goal else None), solution.complete
