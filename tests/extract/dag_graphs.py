"""Small random e-graphs, with circles and shared classes, and their best extractions by trying all."""

from __future__ import annotations

import random
from itertools import product

from extract.dag.graph import Dag, Node, settled


def random_dag(seed: int, classes: int = 7, most: int = 3) -> Dag:
    """A graph in which any class may read any other; every class but the root has a node, some read nothing."""
    rnd = random.Random(seed)
    key = 0
    result: list[list[Node]] = []
    for _ in range(classes):
        nodes = []
        for _ in range(rnd.randint(1, most)):
            children = frozenset(rnd.sample(range(classes), rnd.choice((0, 0, 1, 1, 2, 2, 3))))
            nodes.append(Node(rnd.choice((0, 0, 1, 1, 2, 3, 5, 8)), children, (key,)))
            key += 1
        result.append(nodes)
    roots = frozenset(rnd.sample(range(classes), rnd.choice((1, 2))))
    return Dag([*result, [Node(0, roots, (key,))]], classes)


def brute_force(dag: Dag) -> int | None:
    """The cost of the best extraction, None where there is none."""
    costs = []
    for nodes in product(*dag.classes):
        taken = settled(dag, [key for node in nodes for key in node.keys])
        if taken is not None:
            costs.append(sum(node.cost for node in taken.values()))
    return min(costs, default=None)
