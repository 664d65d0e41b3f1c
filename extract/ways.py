"""Candidates in plain words: whose value it is, how it is made, where, and by which rules.

The candidate (class of flat(x), LoadIn2, body of `for k`) of `x = tile.load(..) [4, 16, 64]` reads

    x    loaded as one 2-D tile [64, 64] FP32 through a 2-D view    in the body of for k    flat.load.view
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from egraph_rules.catalogue import rule
from egraph_rules.graph import ENode, Graph
from extract.choice import FORMS, Form, leaf_form
from extract.machine import FAMILIES, LEAVES
from extract.problem import Candidate, Problem, handover_of
from extract.regions import Regions
from pypto_ir.ops.registry import dims_text
from pypto_ir.stmt import Assign, For, If, Stmt, While, definitions, walk
from pypto_ir.types import TileType
from pypto_ir.verify.places import statement_text

_ONE = {
    "Load2": "loaded as one 2-D tile {type}",
    "LoadIn2": "loaded as one 2-D tile {type} through a 2-D view of the tensor",
    "Create2": "created as one 2-D tile {type}",
    "Full2": "filled as one 2-D tile {type}",
    "Op2": "computed on one 2-D tile {type}",
    "Reshape2": "reshaped to {type}, a view",
    "Reinterpret2": "reinterpreted as {type}, a view",
    "Slice2": "a window {type} of a 2-D tile",
    "Assemble2": "written into a window of one 2-D tile {type}",
    "PackRows": "copied page by page into one 2-D tile {type}",
    "PageOf": "one page {type} of several",
    "AssembleEach": "written piece by piece into one 2-D tile {type}",
    "AccCols": "accumulated page by page in column windows of one tile {type}",
    "View2": "a 2-D view of the tensor",
    "Leaf2": "taken as one 2-D tile {type}",
    "LeafCols": "taken with its pages side by side in one tile {type}",
    "Store2": "stored as one tile",
    "StoreBoxes": "stored band by band of its rows, one box of the tensor for each",
    "StoreIn2": "stored as one tile through a 2-D view of the tensor",
    "StoreEach": "stored page by page",
    "StoreInEach": "stored page by page through a 2-D view of the tensor",
}
_EACH = {
    "LoadEach": "loaded page by page: {count} of {type}",
    "LoadInEach": "loaded page by page through a 2-D view of the tensor: {count} of {type}",
    "CreateEach": "created page by page: {count} of {type}",
    "FullEach": "filled page by page: {count} of {type}",
    "OpEach": "computed page by page: {count} of {type}",
    "LeafEach": "taken page by page: {count} of {type}",
    "One": "its only page is the flat tile {type}",
    "RowsOf": "its pages are windows of rows of the flat tile: {count} of {type}",
    "PiecesOf": "its pages are windows of the flat tile, several rows apart: {count} of {type}",
    "Pick": "its pages are some pages of another tile, or in another order: {count} of {type}",
    "ColsOf": "its pages are windows of columns of the packed tile: {count} of {type}",
    "WithPages": "its pages taken from the target and from what is written into it: {count} of {type}",
    "Spread": "its pages repeated for the batch of the result: {count} of {type}",
}
_CARRIED = {
    "flat": "handed on as one 2-D tile",
    "pages": "handed on page by page",
    "cols": "handed on with all pages side by side in one tile",
}


@dataclass(frozen=True, slots=True)
class Way:
    """How a value of the author's is made: `name` and `statement` are the author's, `rules` those that made the node, `where` the region
    if that is not where the author computes it."""

    name: str
    statement: Stmt | None
    words: str
    rules: tuple[str, ...] = ()
    where: str | None = None

    def __str__(self) -> str:
        return self.words + (f", {self.where}" if self.where else "")


class Ways:
    """The words of one problem's candidates."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.graph = problem, problem.graph
        self.sites = dict(_sites(self.graph))
        self.owners = {name: s for s in walk(self.graph.encoded.function.body) for name in _bound(s)}
        #: names in program order
        self.order = tuple(self.owners)
        self.regions = _region_names(self.graph, problem.regions)
        self.carried = self._carried()

    def named(self, i: int) -> bool:
        """True where a candidate belongs to a value or a store of the author's, or to what control flow hands on."""
        c = self.problem.candidates[i].c
        return c < 0 or c in self.sites

    def node(self, i: int) -> ENode | None:
        """The node of a candidate, None for a form in which something is handed on."""
        k = self.problem.candidates[i]
        return self.problem.choice.options[k.c][k.option].node if k.c >= 0 else None

    def way(self, i: int) -> Way:
        """A named candidate in words."""
        k = self.problem.candidates[i]
        if k.c < 0:
            name = self.graph.encoded.handovers[handover_of(k.c)].names[0]
            rules = self.carried.get((handover_of(k.c), FORMS[k.option]), ())
            return Way(name, self.owners.get(name), _CARRIED[FORMS[k.option]], rules)
        name, statement = self.sites[k.c]
        option = self.problem.choice.options[k.c][k.option]
        return Way(name, statement, self.words(k), self.rules(k.c, option.node), None if k.own else self.regions[k.region])

    def words(self, k: Candidate) -> str:
        option = self.problem.choice.options[k.c][k.option]
        t = option.type
        text = f"{dims_text(t.shape)} {t.dtype.value}" if isinstance(t, TileType) else ""
        if option.node.name in FAMILIES:
            return _EACH[option.node.name].format(type=text, count=self.graph.page_counts.get(k.c, 1))
        return _ONE[option.node.name].format(type=text)

    def rules(self, c: int, node: ENode) -> tuple[str, ...]:
        """The rewrite rules that made a node, by the names of the catalogue."""
        known = (rule(part) for part in self.graph.makers.get((c, node), ()))
        return tuple(dict.fromkeys(r.name for r in known if r is not None))

    def leaf(self, i: int) -> bool:
        """True for candidates that only take what is handed to them."""
        node = self.node(i)
        return node is not None and node.name in LEAVES

    def _carried(self) -> dict[tuple[int, Form], tuple[str, ...]]:
        """The rules of the leaves that take what is handed on, by handover and form."""
        found: dict[tuple[int, Form], tuple[str, ...]] = {}
        for c, options in self.problem.choice.options.items():
            for option in options:
                taken = leaf_form(self.graph, option.node)
                if taken is not None:
                    found.setdefault(taken, self.rules(c, option.node))
        return found


def _sites(graph: Graph) -> Iterator[tuple[int, tuple[str, Stmt | None]]]:
    """The author's value or store of every class that has one, the last in program order first, so that the first one stays."""
    encoded = graph.encoded
    made = {s.target.name: s for s in walk(encoded.function.body) if isinstance(s, Assign) and len(s.targets) == 1}
    for name, number in reversed(encoded.numbers.items()):
        for carrier in (graph.flat, graph.families, graph.columns):
            if number in carrier:
                yield carrier[number], (name, made.get(name))
    for s in walk(encoded.function.body):
        store = encoded.stores.get(id(s))
        if store is not None:
            yield graph.writes[store], (_store_name(s), s)


def _store_name(s: Stmt) -> str:
    names = [v.name for v in definitions(s)]
    return names[0] if names else statement_text(s)


def _bound(s: Stmt) -> list[str]:
    """What a statement binds, its carried names included; a store without a result goes by its text."""
    carried = [c.var.name for c in s.carries] if isinstance(s, For | While) else []
    return [*carried, *(v.name for v in definitions(s))] or [statement_text(s)]


def _region_names(graph: Graph, places: Regions) -> dict[int, str]:
    names = {0: "in the body of the function"}
    for s in walk(graph.encoded.function.body):
        arms = ("in the then-arm", "in the else-arm") if isinstance(s, If) else ("",)
        for arm, words in enumerate(arms):
            region = places.blocks.get((id(s), arm))
            if region is not None:
                names[region] = words or f"in the body of {statement_text(s)}"
    return names
