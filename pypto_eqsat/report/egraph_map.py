"""The e-graph of a small function as a picture: a box for each class, a line in it for each node, operands below.

The chosen nodes are filled and their operands joined by full lines. A box leads to the words about its class below the picture, so that the
graph can be walked without scripts.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from egraph_rules.graph import ENode, Graph
from extract.choice import leaf_form, obligations
from extract.trace import Pass
from extract.ways import Ways
from pypto_eqsat.numbers import cycles
from pypto_ir.expr import Var

#: classes and nodes of the largest e-graph that is drawn
CLASSES, NODES = 60, 160
_LINE, _PAD, _CHAR, _GAP, _LAYER = 17, 8, 6.7, 22, 46


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node in words: its constructor, its op, operands as (anchor, label), cycles, rules, whether it was chosen or may not be."""

    label: str
    operands: list[tuple[int, str]]
    cycles: str
    rules: tuple[str, ...]
    chosen: bool
    legal: bool


@dataclass(frozen=True, slots=True)
class ClassRow:
    """A class in words."""

    number: int
    label: str
    nodes: list[NodeRow]
    chosen: bool


@dataclass(frozen=True, slots=True)
class EGraphMap:
    """The picture and the classes in program order; no picture where there are too many."""

    classes: int
    nodes: int
    picture: Markup | None
    rows: list[ClassRow]


def egraph_map(run: Pass, prefix: str) -> EGraphMap:
    """The e-graph of a pass; anchors of classes start with `prefix`."""
    graph = run.question.graph
    reached = _reached(graph)
    nodes = sum(len(graph.classes[c]) for c in reached)
    if len(reached) > CLASSES or nodes > NODES:
        return EGraphMap(len(reached), nodes, None, [])
    ways = Ways(run.question)
    labels = _labels(graph, ways, reached)
    chosen = {(k.c, node) for i in run.chosen if (k := run.question.candidates[i]).c >= 0 and (node := ways.node(i)) is not None}
    rows = [_row(run, ways, c, labels, chosen) for c in reached]
    return EGraphMap(len(reached), nodes, _Drawing(graph, reached, labels, chosen, prefix).svg(), rows)


def _reached(graph: Graph) -> list[int]:
    """The classes that roots reach, roots first."""
    found: dict[int, None] = {}
    waiting = [*graph.writes.values(), *(graph.flat[graph.encoded.numbers[n]] for n in graph.encoded.demanded)]
    while waiting:
        c = waiting.pop(0)
        if c not in found and c in graph.classes:
            found[c] = None
            waiting += [child for node in graph.classes[c] for child in (*node.children, *_handed_in(graph, node))]
    return list(found)


def _handed_in(graph: Graph, node: ENode) -> tuple[int, ...]:
    """The classes that control flow hands to a leaf."""
    taken = leaf_form(graph, node)
    return () if taken is None else obligations(graph, *taken) or ()


def _labels(graph: Graph, ways: Ways, reached: list[int]) -> dict[int, str]:
    kinds: dict[int, str] = {}
    for kind, carrier in (("cols", graph.columns), ("pages", graph.families), ("flat", graph.flat)):
        kinds.update(dict.fromkeys(carrier.values(), kind))
    kinds.update(dict.fromkeys(graph.writes.values(), "store"))
    named = {c: f"{kinds.get(c, 'tile')} {ways.sites[c][0]}" for c in reached if c in ways.sites}
    return {c: named.get(c) or _unnamed(graph, c, n) for n, c in enumerate(reached)}


def _unnamed(graph: Graph, c: int, number: int) -> str:
    """A class that is no value of the author's: a view of a tensor, or one that rules made."""
    view = next((node for node in graph.classes[c] if node.name == "View2"), None)
    tensor = None if view is None else graph.tables.views[view.data[0]].tensor
    return f"view of {tensor.name}" if isinstance(tensor, Var) else f"class {number}"


def _op(graph: Graph, node: ENode) -> str:
    """A node's constructor, with the op where it holds one."""
    if node.name in ("Op2", "OpEach", "AccCols"):
        return f"{node.name} {graph.tables.ops[node.data[0]].op.removeprefix('tile.')}"
    return node.name


def _row(run: Pass, ways: Ways, c: int, labels: dict[int, str], chosen: set[tuple[int, ENode]]) -> ClassRow:
    graph = run.question.graph
    legal = {o.node: o for o in run.question.least.options.get(c, ())}
    nodes = []
    for node in graph.classes[c]:
        option = legal.get(node)
        operands = [(child, labels[child]) for child in dict.fromkeys(node.children) if child in labels]
        cost = "" if option is None else cycles(option.cycles.total)
        nodes.append(NodeRow(_op(graph, node), operands, cost, ways.rules(c, node), (c, node) in chosen, option is not None))
    return ClassRow(c, labels[c], nodes, any(n.chosen for n in nodes))


class _Drawing:
    """Places of boxes, layer by layer from the roots down; classes that can be made of each other share a layer."""

    def __init__(self, graph: Graph, reached: list[int], labels: dict[int, str], chosen: set[tuple[int, ENode]], prefix: str) -> None:
        self.graph, self.reached, self.labels, self.chosen, self.prefix = graph, reached, labels, chosen, prefix
        self.lines = {c: [_op(graph, node) for node in graph.classes[c]] for c in reached}
        self.widths = {c: _CHAR * max(len(labels[c]), *map(len, self.lines[c])) + 2 * _PAD for c in reached}
        self.heights = {c: _LINE * (1 + len(self.lines[c])) + _PAD for c in reached}
        self.at: dict[int, tuple[float, float]] = {}
        self.width, self.height = self.place()

    def layers(self) -> list[list[int]]:
        import networkx as nx

        known = set(self.reached)
        whole = nx.DiGraph()
        whole.add_nodes_from(self.reached)
        whole.add_edges_from((c, d) for c in self.reached for n in self.graph.classes[c] for d in n.children if d in known)
        parts = nx.condensation(whole, sorted(map(sorted, nx.strongly_connected_components(whole))))
        order = {c: n for n, c in enumerate(self.reached)}
        found = []
        for generation in nx.topological_generations(parts):
            members = [c for part in generation for c in parts.nodes[part]["members"]]
            found.append(sorted(members, key=lambda c: order[c]))
        return found

    def place(self) -> tuple[float, float]:
        """Give every box a place: layers below each other, in them by the mean place of their users."""
        layers = self.layers()
        users: dict[int, list[int]] = {}
        for c in self.reached:
            for node in self.graph.classes[c]:
                for d in node.children:
                    users.setdefault(d, []).append(c)
        wide = max(sum(self.widths[c] + _GAP for c in layer) for layer in layers)
        y = _GAP
        for layer in layers:
            means = {c: _mean([self.at[u][0] + self.widths[u] / 2 for u in users.get(c, ()) if u in self.at], wide / 2) for c in layer}
            layer.sort(key=lambda c: means[c])
            x = (wide - sum(self.widths[c] + _GAP for c in layer)) / 2 + _GAP
            for c in layer:
                self.at[c] = (x, y)
                x += self.widths[c] + _GAP
            y += max(self.heights[c] for c in layer) + _LAYER
        return wide + _GAP, y - _LAYER + _GAP

    def svg(self) -> Markup:
        parts = [*self.edges(), *(self.box(c) for c in self.reached)]
        label = f"e-graph of {len(self.reached)} classes; chosen nodes are filled"
        return Markup('<svg viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}" role="img" aria-label="{2}">{3}</svg>').format(
            self.width, self.height, label, Markup("").join(parts)
        )

    def edges(self) -> list[Markup]:
        drawn: dict[tuple[int, int, int], str] = {}
        for c in self.reached:
            for line, node in enumerate(self.graph.classes[c]):
                on = " on" if (c, node) in self.chosen else ""
                for kind, operands in (("edge", node.children), ("edge handed", _handed_in(self.graph, node))):
                    drawn.update({(c, line, d): kind + on for d in operands if d in self.at and d != c})
        return [self.edge(c, line, d, kind) for (c, line, d), kind in sorted(drawn.items(), key=lambda item: item[1].endswith("on"))]

    def edge(self, c: int, line: int, d: int, kind: str) -> Markup:
        """A curve from a node to the top of an operand."""
        x, y = self.at[c][0] + self.widths[c] / 2, self.at[c][1] + _LINE * (line + 2) - 2
        u, v = self.at[d][0] + self.widths[d] / 2, self.at[d][1]
        bend = max(20.0, abs(v - y) / 2)
        path = f"M{x:.1f} {y:.1f} C{x:.1f} {y + bend:.1f} {u:.1f} {v - bend:.1f} {u:.1f} {v:.1f}"
        return Markup('<path class="{0}" d="{1}"/>').format(kind, path)

    def box(self, c: int) -> Markup:
        x, y = self.at[c]
        on = any((c, node) in self.chosen for node in self.graph.classes[c])
        parts = [
            Markup('<rect class="class{0}" x="{1:.1f}" y="{2:.1f}" width="{3:.1f}" height="{4:.1f}" rx="6"/>').format(
                " on" if on else "", x, y, self.widths[c], self.heights[c]
            ),
            Markup('<text class="name" x="{0:.1f}" y="{1:.1f}">{2}</text>').format(x + _PAD, y + _LINE - 3, self.labels[c]),
        ]
        for n, (text, node) in enumerate(zip(self.lines[c], self.graph.classes[c], strict=True)):
            top = y + _LINE * (n + 1) + 2
            if (c, node) in self.chosen:
                box = Markup('<rect class="node" x="{0:.1f}" y="{1:.1f}" width="{2:.1f}" height="{3}" rx="3"/>')
                parts.append(box.format(x + 3, top, self.widths[c] - 6, _LINE - 1))
            style = "chosen" if (c, node) in self.chosen else "other"
            parts.append(Markup('<text class="{0}" x="{1:.1f}" y="{2:.1f}">{3}</text>').format(style, x + _PAD, top + _LINE - 5, text))
        return Markup('<a href="#{0}{1}"><title>{2}</title>{3}</a>').format(self.prefix, c, self.labels[c], Markup("").join(parts))


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
