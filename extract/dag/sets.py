"""What every extraction has in common, as sets of classes in the bits of integers.

    must[c]      classes that every way of making c needs, c among them
    with_[c]     classes that every extraction with c in it holds: what c needs, and what whoever asks for c needs beside it
    over[c]      classes that are made of c, directly or not, in every extraction that needs c: its dominators
    above[c]     classes from which c can be reached
    needs[c][i]  classes that node i of c needs, whatever is chosen below it

All are the largest solutions of their equations: they start at "everything" (-1, all bits) and are swept until nothing changes, which
is soon where classes stand after those that they read. With root = f(a, b), b = g(a) | h(a): must[b] = {a, b}, with_[a] = {root, a, b}.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from extract.dag.graph import Dag, Node

#: above this many classes the sets, whose size is the square of that, are those of single classes
MAX_CLASSES = 30_000


@dataclass(slots=True)
class Sets:
    must: list[int]
    needs: list[list[int]]
    with_: list[int] = field(default_factory=list)
    over: list[int] = field(default_factory=list)
    above: list[int] = field(default_factory=list)


def bits(mask: int) -> Iterator[int]:
    """The members of a set, in order."""
    digits = f"{mask:b}"[::-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)


def mask_of(members: frozenset[int]) -> int:
    mask = 0
    for x in members:
        mask |= 1 << x
    return mask


def extractable(dag: Dag) -> list[int]:
    """The classes that have an extraction, each after the classes of one of its nodes."""
    users: dict[int, list[tuple[int, int]]] = {}
    missing: list[int] = []
    order: list[int] = []
    for c, nodes in enumerate(dag.classes):
        for node in nodes:
            for x in node.children:
                users.setdefault(x, []).append((c, len(missing)))
            missing.append(len(node.children))
            if not node.children:
                order.append(c)
    order = list(dict.fromkeys(order))
    found = set(order)
    for x in order:
        for c, i in users.get(x, ()):
            missing[i] -= 1
            if not missing[i] and c not in found:
                found.add(c)
                order.append(c)
    return order


def sets_of(dag: Dag, context: bool) -> Sets:
    """The sets of a graph whose classes are all extractable; `with_` and `above` where asked for."""
    if len(dag.classes) > MAX_CLASSES:
        single = [1 << c for c in range(len(dag.classes))]
        return Sets(single, [[mask_of(n.children) for n in nodes] for nodes in dag.classes])
    must = _must(dag)
    sets = Sets(must, [[_union(must, n) for n in nodes] for nodes in dag.classes])
    if context:
        users: list[list[tuple[int, int]]] = [[] for _ in dag.classes]
        for c, nodes in enumerate(dag.classes):
            for i, node in enumerate(nodes):
                for x in node.children:
                    users[x].append((c, i))
        parents = [sorted({user for user, _ in found}) for found in users]
        sets.with_ = _with(dag.root, sets, users)
        sets.over = _over(dag.root, parents)
        sets.above = _above(parents)
    return sets


def _union(must: list[int], node: Node) -> int:
    mask = 0
    for x in node.children:
        mask |= must[x]
    return mask


def _must(dag: Dag) -> list[int]:
    must = [-1] * len(dag.classes)
    changed = True
    while changed:
        changed = False
        for c, nodes in enumerate(dag.classes):
            common = -1
            for node in nodes:
                common &= _union(must, node)
            common |= 1 << c
            if common != must[c]:
                must[c] = common
                changed = True
    return must


def _with(root: int, sets: Sets, users: list[list[tuple[int, int]]]) -> list[int]:
    held = [-1] * len(users)
    held[root] = sets.must[root]
    changed = True
    while changed:
        changed = False
        for c in reversed(range(len(users))):
            common = -1
            for user, i in users[c]:
                common &= held[user] | sets.needs[user][i]
            common |= sets.must[c]
            if common != held[c] and c != root:
                held[c] = common
                changed = True
    return held


def _over(root: int, parents: list[list[int]]) -> list[int]:
    over = [-1] * len(parents)
    over[root] = 1 << root
    changed = True
    while changed:
        changed = False
        for c in reversed(range(len(parents))):
            common = -1
            for user in parents[c]:
                common &= over[user]
            common |= 1 << c
            if common != over[c] and c != root:
                over[c] = common
                changed = True
    return over


def _above(parents: list[list[int]]) -> list[int]:
    above = [1 << c for c in range(len(parents))]
    changed = True
    while changed:
        changed = False
        for c in reversed(range(len(parents))):
            mask = above[c]
            for user in parents[c]:
                mask |= above[user]
            if mask != above[c]:
                above[c] = mask
                changed = True
    return above
