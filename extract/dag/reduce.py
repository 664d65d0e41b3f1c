"""Simplifications that keep the cost of the best extraction, or prove that nothing beats what is known.

A node goes where another of its class does as well: it costs no more and reads only what the first one needs anyway, or what is held
whenever the class is. A node goes, too, where what is held with it costs more than the best extraction known. A class goes where it is
free or read by one class only, and a child where it is needed anyway. What is left reads as before: its nodes have the numbers of the
graph that it came from, and `Reduced.free` has those of the nodes that went with their classes.

On `rover-mcm_3_7_21_original_8iteration`, 16,206 nodes become 4, and the choice is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from extract.dag.graph import Dag, Node
from extract.dag.sets import Sets, bits, extractable, mask_of, sets_of

#: children of a node up to which the nodes of a class that only it reads are merged into it
FEW = 3


@dataclass(frozen=True, slots=True)
class Reduced:
    """A simplified graph, and the keys of the nodes that classes left out of it take where they are needed."""

    dag: Dag
    free: tuple[int, ...]


def reduced(dag: Dag, known: int | None = None, thorough: bool = True) -> Reduced | None:
    """A graph of the same best extraction, as long as that costs no more than `known`; None where no extraction does. Goes on until
    nothing changes, or, where that need not be thorough, until a round takes out less than a tenth."""
    gain = 0.0 if thorough else 0.1
    work: Dag | None = Dag([list(nodes) for nodes in dag.classes], dag.root)
    free: list[int] = []
    for context in (False, True) if thorough else (True,):
        size = inf
        while True:
            work = _trimmed(work) if work else None
            if work is None:
                return None
            now = work.node_count + sum(len(n.children) for nodes in work.classes for n in nodes)
            if now >= size * (1 - gain):
                break
            size = now
            free += _freed(work)
            _merge(work)
            _pruned(work, sets_of(work, context), known)
    assert work is not None
    return Reduced(work, tuple(free))


def _trimmed(dag: Dag) -> Dag | None:
    """The classes that can be extracted and that the root can reach, numbered anew, leaves first."""
    order = extractable(dag)
    alive = set(order)
    if dag.root not in alive:
        return None
    classes = [[n for n in nodes if c not in n.children and alive.issuperset(n.children)] for c, nodes in enumerate(dag.classes)]
    reached, waiting = {dag.root}, [dag.root]
    while waiting:
        for node in classes[waiting.pop()]:
            for x in node.children:
                if x not in reached:
                    reached.add(x)
                    waiting.append(x)
    number = {c: i for i, c in enumerate(c for c in order if c in reached)}
    renamed = [[Node(n.cost, frozenset([number[x] for x in n.children]), n.keys) for n in classes[c]] for c in number]
    return Dag(renamed, number[dag.root])


def _freed(dag: Dag) -> list[int]:
    """Take out classes that cost nothing of their own: those with a node that is free and reads nothing, and those with a single
    node, which is free, whose users read its children instead. Gives the nodes that they take."""
    instead: dict[int, frozenset[int]] = {}
    taken: list[int] = []
    for c, nodes in enumerate(dag.classes):
        if c == dag.root:
            continue
        leaf = next((n for n in nodes if n.cost == 0 and not n.children), None)
        node = leaf or (nodes[0] if len(nodes) == 1 and nodes[0].cost == 0 else None)
        if node is not None:
            # classes are numbered leaves first, and a single node reads earlier classes only
            instead[c] = frozenset(y for x in node.children for y in instead.get(x, (x,)))
            taken.extend(node.keys)
    if instead:
        for c, nodes in enumerate(dag.classes):
            if c in instead:
                dag.classes[c] = []
            else:
                dag.classes[c] = [n if instead.keys().isdisjoint(n.children) else _reading(n, instead) for n in nodes]
    return taken


def _reading(node: Node, instead: dict[int, frozenset[int]]) -> Node:
    return node._replace(children=frozenset(y for x in node.children for y in instead.get(x, (x,))))


def _merge(dag: Dag) -> None:
    """Merge classes into the one class that reads them: those with one node, and those that one node reads. The root stays as it is."""
    users: list[set[int]] = [set() for _ in dag.classes]
    for c, nodes in enumerate(dag.classes):
        for node in nodes:
            for x in node.children:
                users[x].add(c)
    for x, nodes in enumerate(dag.classes):
        if len(users[x]) != 1 or not nodes:
            continue
        (c,) = users[x]
        readers = [n for n in dag.classes[c] if x in n.children]
        if c in (x, dag.root) or not (len(nodes) == 1 or (len(readers) == 1 and len(readers[0].children) <= FEW)):
            continue
        rest = [n for n in dag.classes[c] if x not in n.children]
        dag.classes[c] = rest + [_joined(n, x, node) for n in readers for node in nodes]
        dag.classes[x] = []
        for z in {z for node in nodes for z in node.children}:
            users[z].discard(x)
            users[z].add(c)


def _joined(reader: Node, x: int, node: Node) -> Node:
    return Node(reader.cost + node.cost, (reader.children - {x}) | node.children, reader.keys + node.keys)


def _pruned(dag: Dag, sets: Sets, known: int | None) -> None:
    """Remove the nodes that another replaces or that cost too much, and the children that are there anyway."""
    least = [min((n.cost for n in nodes), default=0) for nodes in dag.classes]
    paid = mask_of(frozenset(c for c, cost in enumerate(least) if cost))
    context = bool(sets.with_)
    forced = sets.must[dag.root] if context else 0
    base = sum(least[x] for x in bits(forced & paid))
    for c, nodes in enumerate(dag.classes):
        # what is held with c and cannot come to need c
        beside = sets.with_[c] & ~sets.above[c] if context else 0
        circle = sets.over[c] if context else 1 << c
        rest = [(n, needs) for n, needs in zip(nodes, sets.needs[c], strict=True) if not needs & circle]
        rest = list(_undominated(rest, beside))
        if context and known is not None:
            held = sets.with_[c]
            left = known - base - sum([least[x] for x in bits(held & ~forced & paid)]) + least[c]
            rest = [(n, m) for n, m in rest if n.cost + sum([least[x] for x in bits(m & ~held & paid)]) <= left]
        spare = forced & ~sets.above[c] if context else 0
        dag.classes[c] = [_lean(n, sets.must, spare) for n, _ in rest]
    # what users no longer ask for themselves, the root does
    asked = frozenset(bits(forced & ~(1 << dag.root)))
    dag.classes[dag.root] = [n._replace(children=n.children | asked) for n in dag.classes[dag.root]]


def _undominated(nodes: list[tuple[Node, int]], beside: int) -> Iterator[tuple[Node, int]]:
    """Of nodes and what they need, those that no other does as well as."""
    ranked = sorted(nodes, key=lambda item: (item[0].cost, len(item[0].children), item[0].keys))
    kept: list[tuple[Node, int, int]] = []
    for node, needs in ranked:
        if not any(children & ~(needs | beside) == 0 for _, _, children in kept):
            kept.append((node, needs, mask_of(node.children)))
    for i, (node, needs, _) in enumerate(kept):
        later = (children for other, _, children in kept[i + 1 :] if other.cost == node.cost)
        if not any(children & ~(needs | beside) == 0 for children in later):
            yield node, needs


def _lean(node: Node, must: list[int], spare: int) -> Node:
    """A node without the children that are needed anyway, by others of its children or by the root."""
    children = [x for x in node.children if not spare >> x & 1]
    if len(children) > 1:
        children = [x for x in children if not any(y != x and must[y] >> x & 1 for y in children)]
    return node if len(children) == len(node.children) else node._replace(children=frozenset(children))
