"""E-graphs made for measuring: like programs after rewriting, as large as asked for, the same for the same seed.

Classes stand in the order of a program. A class has one to five nodes; each reads one to three classes, most of them of the last forty,
some from anywhere before, and one node in fifty reads a class after its own, as rules that work in both directions make them.
"""

from __future__ import annotations

import random

from extract.dag.graph import Dag, Node

#: how far back nodes mostly read
WINDOW = 40


def generated(size: int, seed: int) -> Dag:
    """An e-graph of at least `size` nodes with an extraction."""
    rnd = random.Random(seed)
    classes: list[list[Node]] = []
    key = 0
    while key < size:
        c = len(classes)
        nodes = []
        for i in range(rnd.choice((1, 1, 2, 2, 3, 5))):
            later = i > 0 and rnd.random() < 0.02
            nodes.append(Node(rnd.randint(1, 20), _children(rnd, c, later), (key,)))
            key += 1
        classes.append(nodes)
    last = len(classes) - 1
    # what would read beyond the end reads the last class
    classes = [[n._replace(children=frozenset(min(x, last) for x in n.children)) for n in nodes] for nodes in classes]
    roots = frozenset(rnd.sample(range(last + 1), max(1, last // 100)))
    return Dag([*classes, [Node(0, roots, (key,))]], last + 1)


def _children(rnd: random.Random, c: int, later: bool) -> frozenset[int]:
    if c < 4:
        return frozenset()
    near = [rnd.randint(max(0, c - WINDOW), c - 1) if rnd.random() < 0.9 else rnd.randrange(c) for _ in range(rnd.choice((1, 2, 2, 3)))]
    return frozenset([*near, c + rnd.randint(1, WINDOW)] if later else near)
