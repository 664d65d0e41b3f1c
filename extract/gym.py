"""E-graphs in the JSON form of the public extraction-gym benchmark, plain or gzipped, and extractions of them.

    {"nodes": {"a0": {"op": "f", "children": ["b0"], "eclass": "a", "cost": 2.5}, "b0": {"op": "x", "eclass": "b"}}, "root_eclasses": ["a"]}

A child is the name of a node and means the class of it. `children` may be absent (none), and so may `cost` (1) and `subsumed` (false);
subsumed nodes stand for their class where they are children, and are never taken. Other keys are for others to read.
"""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from typing import Any

from extract.dag.graph import Dag, Node, unit_of
from extract.dag.solve import Extraction, extract
from pypto_ir.collection import collector_paused
from pypto_ir.diagnostics import Diagnostic, Place, Refused, declare
from pypto_ir.json_context import Reading
from pypto_ir.json_findings import Bad, found, refuse_if_any, short
from pypto_ir.json_place import Path
from pypto_ir.json_text import MAX_BYTES, decode, parse_json, too_large

declare(
    G001="a child or a root of an e-graph names nothing in it",
    G002="a cost is negative or too large",
    G003="an e-graph has no extraction without circles",
    G004="a compressed file is damaged",
)

#: largest cost of a node
MAX_COST = 2**63
#: class, cost, children, subsumed
_Fields = tuple[str, float, list[str], bool]


@dataclass(frozen=True, slots=True)
class Gym:
    """An e-graph as read: names of classes and nodes by their numbers, costs in multiples of `unit`; the last class of `dag` reads all
    roots."""

    dag: Dag
    unit: Fraction
    classes: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The node taken for each class that is needed, by name; cost, lower bound and greedy cost in the file's own measure."""

    choices: dict[str, str]
    cost: float
    bound: float
    greedy_cost: float
    optimal: bool

    @property
    def gap(self) -> float:
        """The part of the cost that the bound does not account for."""
        return (self.cost - self.bound) / self.cost if self.cost else 0.0


def read_gym(data: bytes, file: str | None = None) -> Gym:
    """The e-graph of a file. Raises `Refused` with everything that is wrong with it."""
    text = decode(_plain(data, file), file)
    with collector_paused():
        value, repeated = parse_json(text, file)
        reader = _Reader()
        result = reader.read(value)
        refuse_if_any(reader.reading.findings, text, file, repeated)
    assert result is not None
    return result


def best(gym: Gym, seconds: float, file: str | None = None) -> Result:
    """The cheapest extraction found in so many seconds. Raises `Refused` where there is none."""
    with collector_paused():
        found = extract(gym.dag, seconds)
    if found is None:
        message = "the roots have no extraction: every choice of nodes needs itself"
        raise Refused(
            [Diagnostic("G003", message, Place(file, path="$.root_eclasses"), "give a class of every circle a node that ends it")]
        )
    return _named(gym, found)


def _named(gym: Gym, result: Extraction) -> Result:
    choices = {gym.classes[c]: gym.nodes[node.keys[0]] for c, node in sorted(result.taken.items()) if c != gym.dag.root}
    cost, bound, greedy_cost = (float(units * gym.unit) for units in (result.cost, result.bound, result.greedy_cost))
    return Result(choices, cost, bound, greedy_cost, result.optimal)


def _plain(data: bytes, file: str | None) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as stream:
            plain = stream.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as fault:
        raise Refused([Diagnostic("G004", f"cannot be unpacked: {fault}", Place(file), "compress it again with gzip")]) from None
    if len(plain) > MAX_BYTES:
        raise too_large(file)
    return plain


class _Reader:
    def __init__(self) -> None:
        self.reading = Reading()

    def read(self, value: Any) -> Gym | None:
        """The e-graph; None where something was reported."""
        with self.reading.bounded():
            return self.graph(value)
        return None

    def graph(self, value: Any) -> Gym | None:
        r = self.reading
        top = self.mapping(value, None, "an e-graph", ("nodes", "root_eclasses"))
        nodes = self.mapping(top["nodes"], (None, "nodes"), "the nodes by name", ())
        fields = [self.fields(name, node) for name, node in nodes.items()]
        class_of = {name: node[0] for name, node in zip(nodes, fields, strict=True) if node}
        number = {name: c for c, name in enumerate(dict.fromkeys(class_of.values()))}
        unit = unit_of(node[1] for node in fields if node)
        classes: list[list[Node]] = [[] for _ in number]
        for key, (name, node) in enumerate(zip(nodes, fields, strict=True)):
            if node is None:
                continue
            c, cost, children, subsumed = node
            known = [
                number[class_of[x]]
                for i, x in enumerate(children)
                if self.known(x, class_of, nodes, (((None, "nodes"), name), "children"), i)
            ]
            if not subsumed:
                classes[number[c]].append(Node(int(Fraction(cost) / unit), frozenset(known), (key,)))
        path: Path = (None, "root_eclasses")
        roots = []
        for i, root in enumerate(r.list(top["root_eclasses"], path, "the root classes")):
            try:
                root = r.string(root, (path, i), "a class")
            except Bad:
                continue
            if root in number:
                roots.append(number[root])
            else:
                r.report("G001", (path, i), f"no node is of the class {short(root)}")
        if r.findings:
            return None
        dag = Dag([*classes, [Node(0, frozenset(roots), (len(nodes),))]], len(classes))
        return Gym(dag, unit, tuple(number), tuple(nodes))

    def mapping(self, value: Any, path: Path, what: str, required: tuple[str, ...]) -> dict[str, Any]:
        if type(value) is not dict:
            self.reading.fail("J101", path, f"found {found(value)}, allowed is {what}, an object")
        missing = [key for key in required if key not in value]
        if missing:
            self.reading.fail("J103", path, f"{what} needs the key{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
        return value

    def fields(self, name: str, value: Any) -> _Fields | None:
        """Class, cost, children and whether it is subsumed, of a node; None where something was reported."""
        r, path, before = self.reading, ((None, "nodes"), name), len(self.reading.findings)
        try:
            node = self.mapping(value, path, "a node", ("eclass",))
        except Bad:
            return None
        children: list[str] = []
        c, cost, subsumed = "", 0.0, False
        with suppress(Bad):
            c = r.string(node["eclass"], (path, "eclass"), "a class")
        with suppress(Bad):
            cost = self.cost(node.get("cost", 1), (path, "cost"))
        with suppress(Bad):
            subsumed = r.flag(node.get("subsumed", False), (path, "subsumed"), "whether the node is subsumed")
        with suppress(Bad):
            for i, x in enumerate(r.list(node.get("children", []), (path, "children"), "the children")):
                with suppress(Bad):
                    children.append(r.string(x, ((path, "children"), i), "a child"))
        return (c, cost, children, subsumed) if len(r.findings) == before else None

    def cost(self, value: Any, path: Path) -> float:
        if type(value) not in (int, float):
            self.reading.fail("J101", path, f"found {found(value)}, allowed is a cost, a number")
        if not 0 <= value <= MAX_COST:
            self.reading.fail(
                "G002", path, f"found {found(value)}, allowed is a cost from 0 to 2**63", "scale the costs, or add to all of a class"
            )
        return value if type(value) is int else float(value)

    def known(self, child: str, class_of: dict[str, str], nodes: dict[str, Any], path: Path, i: int) -> bool:
        """Whether a child names a node; one that was reported itself counts as missing, without another report."""
        if child not in nodes:
            self.reading.report(
                "G001", (path, i), f"no node has the name {short(child)}", "children are names of nodes, which stand for their classes"
            )
        return child in class_of
