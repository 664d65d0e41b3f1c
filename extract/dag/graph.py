"""E-graphs as directed graphs of classes and nodes, and extractions of them.

An extraction takes one node for every class that it needs, without circles; its cost is the sum over the nodes taken, each paid once,
however often its class is used (DAG cost). Costs are whole multiples of one unit, a power of two, so that sums are exact: 0.75 and 0.5
are 3 and 2 units of 0.25.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple


class Node(NamedTuple):
    """An e-node: what it costs in units, the classes that it reads, and its number, which stays with it while graphs are simplified. A
    node that others were merged into has their numbers, too."""

    cost: int
    children: frozenset[int]
    keys: tuple[int, ...]


#: the node taken for every class that an extraction needs
Taken = dict[int, Node]


@dataclass(slots=True)
class Dag:
    """Classes of nodes; everything is extracted for the class `root`. Classes that are gone have no nodes."""

    classes: list[list[Node]]
    root: int

    @property
    def node_count(self) -> int:
        return sum(map(len, self.classes))

    @property
    def class_count(self) -> int:
        return sum(map(bool, self.classes))

    def choices(self) -> Iterator[int]:
        """The classes with more than one node."""
        return (c for c, nodes in enumerate(self.classes) if len(nodes) > 1)


def cost_of(taken: Taken) -> int:
    """The cost of an extraction in units."""
    return sum(node.cost for node in taken.values())


def settled(dag: Dag, keys: Iterable[int]) -> Taken | None:
    """The extraction that the nodes with these numbers make: what the root needs of them. None where a class has no such node, or
    where classes need each other in a circle."""
    members = set(keys)
    taken: Taken = {}
    path: set[int] = set()
    waiting = [dag.root]
    while waiting:
        c = waiting[-1]
        if c in path:
            path.discard(c)
            waiting.pop()
        elif c in taken:
            waiting.pop()
        else:
            node = next((n for n in dag.classes[c] if members.issuperset(n.keys)), None)
            path.add(c)
            if node is None or not path.isdisjoint(node.children):
                return None
            taken[c] = node
            waiting.extend(x for x in sorted(node.children) if x not in taken)
    return taken


def keys_of(taken: Taken) -> list[int]:
    """The numbers of the nodes of an extraction."""
    return [key for node in taken.values() for key in node.keys]


#: no unit is smaller; a node costs less than that too little where its cost has more digits
MIN_UNIT = Fraction(1, 2**128)


def unit_of(costs: Iterable[float]) -> Fraction:
    """The largest power of two, at most 1, of which all costs are multiples, as far as `MIN_UNIT` allows."""
    return max(MIN_UNIT, Fraction(1, max((Fraction(cost).denominator for cost in costs), default=1)))
