"""Large-neighbourhood search: an extraction is improved by choosing anew for some of its classes, exactly, while the others stay.

Neighbourhoods are classes near each other in the graph. They grow while they are solved with ease and shrink where they are not. Each is
asked for something cheaper than what is known, so that simplification alone refutes most of them.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from extract.dag.exact import solve
from extract.dag.graph import Dag, Node, Taken, cost_of, keys_of, settled
from extract.dag.reduce import reduced
from extract.dag.relax import relaxed
from extract.dag.sets import bits, mask_of, sets_of

#: classes of the first neighbourhood, and of the least
SIZE, SMALLEST = 8.0, 2.0
#: solver's deterministic units (about a second) for one neighbourhood
WORK = 0.1


def improved(dag: Dag, taken: Taken, seconds: float, patience: int, seed: int) -> Taken:
    """An extraction that costs no more than the one given; the search ends after some seconds, or when so many neighbourhoods one after the
    other had nothing cheaper. The same for the same graph and seed, as long as the time suffices."""
    deadline = time.monotonic() + seconds
    random_ = random.Random(seed)
    search = _Search(dag, deadline)
    size, failures = SIZE, 0
    while failures < patience and time.monotonic() < deadline:
        chosen = sorted(c for c in taken if len(dag.classes[c]) > 1)
        if not chosen:
            break
        free = _neighbourhood(search.near, random_, chosen, size)
        found, easy = search.better(taken, free)
        failures = 0 if found else failures + 1
        taken = found or taken
        if easy and not found and len(free) == len(chosen):
            break
        size = min(size * 1.05, len(chosen)) if easy else max(SMALLEST, size * 0.7)
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


@dataclass(slots=True)
class _Search:
    dag: Dag
    deadline: float
    near: list[list[int]] = field(init=False)
    needs: list[list[int]] = field(init=False)
    least: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.near = _near(self.dag)
        self.needs = sets_of(self.dag, context=False).needs
        self.least = [min((n.cost for n in nodes), default=0) for nodes in self.dag.classes]

    def better(self, taken: Taken, free: set[int]) -> tuple[Taken | None, bool]:
        """A cheaper extraction that differs in the free classes and what only they need; and whether that question was easy to answer."""
        kept, asked = _kept(self.dag, taken, free)
        goal = sum(node.cost for c, node in taken.items() if c not in kept) - 1
        first = reduced(self.around(kept, asked, goal), goal, thorough=False)
        if first is None:
            return None, True
        bounded = relaxed(first.dag, goal, self.deadline - time.monotonic())
        second = reduced(bounded.dag, goal, thorough=False) if bounded.bound <= goal else None
        if second is None:
            return None, True
        solution = solve(second.dag, {}, self.deadline - time.monotonic(), WORK)
        if solution.taken is None:
            return None, solution.complete
        kept_keys = [key for c in kept for key in taken[c].keys]
        found = settled(self.dag, [*keys_of(solution.taken), *first.free, *second.free, *kept_keys])
        assert found is not None, "a neighbourhood has an extraction that the graph does not have"
        return (found if cost_of(found) < cost_of(taken) else None), solution.complete

    def around(self, kept: dict[int, frozenset[int]], asked: list[int], goal: int) -> Dag:
        """What may take the place of the free classes, without what costs more than the goal anyway. Classes that are kept cost nothing
        more; who reads one of them depends on the free classes that it depends on."""
        classes: dict[int, list[Node]] = {}
        paid = ~mask_of(frozenset(kept)) & mask_of(frozenset(c for c, cost in enumerate(self.least) if cost))
        waiting = list(asked)
        while waiting:
            c = waiting.pop()
            if c in classes:
                continue
            classes[c] = []
            for node, needs in zip(self.dag.classes[c], self.needs[c], strict=True):
                if node.cost <= goal and node.cost + sum([self.least[x] for x in bits(needs & paid)]) <= goal:
                    children = frozenset(y for x in node.children for y in kept.get(x, (x,)))
                    classes[c].append(node._replace(children=children))
                    waiting += sorted(x for x in children if x not in classes)
        number = {c: i for i, c in enumerate(sorted(classes))}
        made = [[n._replace(children=frozenset(number[x] for x in n.children)) for n in classes[c]] for c in number]
        return Dag([*made, [Node(0, frozenset(number[c] for c in asked), ())]], len(made))


def _kept(dag: Dag, taken: Taken, free: set[int]) -> tuple[dict[int, frozenset[int]], list[int]]:
    """The classes that stay whatever is chosen for the free ones, each with the free classes that it depends on; and the free classes
    that they ask for."""
    kept: dict[int, frozenset[int]] = {}
    asked: dict[int, None] = {}
    waiting = [dag.root]
    while waiting:
        c = waiting[-1]
        missing = [x for x in sorted(taken[c].children) if x not in free and x not in kept]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        below = [x for x in sorted(taken[c].children) if x in free]
        asked.update(dict.fromkeys(below))
        kept[c] = frozenset(below).union(*(kept[x] for x in taken[c].children if x in kept))
    return kept, list(asked)
