"""Greedy extraction by DAG cost: each class keeps the cheapest set of nodes that it has seen, and tells its users when that changes.

The set of a node is the union of the sets of its classes. Sets only get cheaper and a user's set is never cheaper than the sets in it,
so that no class comes to be made of itself.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from extract.dag.graph import Dag, Node, Taken


def greedy(dag: Dag) -> Taken | None:
    """An extraction that is good where little is shared; None where the root cannot be extracted at all."""
    users: dict[int, list[tuple[int, Node]]] = {}
    waiting: list[tuple[int, int, int, Node]] = []
    for c, nodes in enumerate(dag.classes):
        for node in nodes:
            for x in node.children:
                users.setdefault(x, []).append((c, node))
            if not node.children:
                waiting.append((node.cost, len(waiting), c, node))
    heapify(waiting)
    queued = {node.keys for _, _, _, node in waiting}
    count = len(waiting)
    best: dict[int, tuple[int, Node]] = {}
    held: dict[int, dict[int, int]] = {}
    while waiting:
        _, _, c, node = heappop(waiting)
        queued.discard(node.keys)
        known = best.get(c)
        union = _union(c, node, held, best, known[0] if known else None)
        if union is None:
            continue
        total = sum(union.values())
        if known is None or total < known[0]:
            best[c], held[c] = (total, node), union
            for user in users.get(c, ()):
                if user[1].keys not in queued and all(x in best for x in user[1].children):
                    queued.add(user[1].keys)
                    count += 1
                    heappush(waiting, (user[1].cost + max(best[x][0] for x in user[1].children), count, *user))
    return _needed(dag, best)


def _union(
    c: int, node: Node, held: dict[int, dict[int, int]], best: dict[int, tuple[int, Node]], limit: int | None
) -> dict[int, int] | None:
    """The costs of what a node needs, by class; None where that is not known yet, holds the class itself or is surely no cheaper."""
    if not all(x in held for x in node.children):
        return None
    if limit is not None and node.cost + max((best[x][0] for x in node.children), default=0) >= limit:
        return None
    parts = sorted((held[x] for x in sorted(node.children)), key=len)
    if any(c in part for part in parts):
        return None
    union = dict(parts.pop()) if parts else {}
    for part in parts:
        union.update(part)
    union[c] = node.cost
    return union


def _needed(dag: Dag, best: dict[int, tuple[int, Node]]) -> Taken | None:
    if dag.root not in best:
        return None
    taken: Taken = {}
    waiting = [dag.root]
    while waiting:
        c = waiting.pop()
        if c not in taken:
            taken[c] = best[c][1]
            waiting.extend(taken[c].children)
    return taken
