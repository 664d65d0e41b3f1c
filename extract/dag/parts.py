"""A graph in parts: what shares no class that may or may not be taken is extracted apart.

Classes that are always needed are paid in any case, and nobody else asks for them once a graph is simplified; so the classes below one of
them may share nothing with the classes below another.
"""

from __future__ import annotations

from extract.dag.graph import Dag, Node


def parts(dag: Dag) -> list[Dag]:
    """Graphs whose best extractions make the best one together, each with a root of its own that has the number of the root; one that is
    the graph itself where its root has a choice or reads nothing."""
    if len(dag.classes[dag.root]) != 1:
        return [dag]
    top = dag.classes[dag.root][0]
    group = list(range(len(dag.classes)))

    def find(c: int) -> int:
        while group[c] != c:
            group[c] = group[group[c]]
            c = group[c]
        return c

    for c, nodes in enumerate(dag.classes):
        for node in nodes:
            for x in node.children:
                if c != dag.root:
                    group[find(c)] = find(x)
    members: dict[int, list[int]] = {}
    for c in range(len(dag.classes)):
        if c != dag.root and dag.classes[c]:
            members.setdefault(find(c), []).append(c)
    return [_part(dag, top, found) for found in sorted(members.values())] or [dag]


def _part(dag: Dag, top: Node, members: list[int]) -> Dag:
    number = {c: i for i, c in enumerate(members)}
    classes = [[n._replace(children=frozenset(number[x] for x in n.children)) for n in dag.classes[c]] for c in members]
    asked = frozenset(number[x] for x in top.children if x in number)
    return Dag([*classes, [Node(0, asked, top.keys)]], len(classes))
