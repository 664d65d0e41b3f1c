"""Where a class can stand at all: the first position at which some option of it, and all that the option reads, can be computed.

    0  x = load(t, ..)                 m is x, or a window of z; the window waits for y
    1  v = view(u, ..)
    2  y = load(v, ..)
    3  z = assemble(x', y, ..)         position 0 for m, 2 for y and for z
    4  m = slice(z, ..)

An option that cannot be computed where its class is asked for asks for nothing there: what it reads would be looked for, with all that
stands in the same class, before its own operands are seen.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from math import inf

from egraph_rules.graph import ENode
from egraph_rules.tables import Hole, LoadEntry, Tables
from extract.choice import Choice
from extract.machine import LEAVES
from extract.regions import Regions
from pypto_ir.expr import Expr, variables
from pypto_ir.types import type_exprs


def named(tables: Tables, node: ENode) -> tuple[tuple[Expr, ...], LoadEntry | None]:
    """The expressions that a node brings along, and its load, if any."""
    match node.name:
        case "View2":
            return (tables.views[node.data[0]].tensor,), None
        case "Load2" | "LoadEach" | "LoadIn2" | "LoadInEach":
            entry = tables.loads[node.data[0]]
            return (*entry.call.args, *type_exprs(entry.type)), entry
        case "Op2" | "OpEach" | "AccCols":
            return tuple(e for e in tables.ops[node.data[0]].template if not isinstance(e, Hole)), None
        case "Slice2" | "Assemble2" | "PiecesOf" | "AssembleEach":
            asked = (e for e in tables.ops[node.data[0]].template if not isinstance(e, Hole))
            return (*(e for e in node.data[1:] if not isinstance(e, int | tuple)), *asked), None
        case "Full2" | "FullEach":
            return tables.fills[node.data[0]].call.args, None
    return (), None


class Earliest:
    """The first position of every class and of every option of it; infinite where an option is made of itself, or of nothing."""

    def __init__(self, tables: Tables, choice: Choice, places: Regions) -> None:
        self.tables, self.places = tables, places
        self.classes: dict[int, int] = {}
        self.options: dict[tuple[int, int], int] = {}
        self._settle(choice)

    def of(self, c: int) -> float:
        return self.classes.get(c, inf)

    def option(self, c: int, number: int) -> float:
        return self.options.get((c, number), inf)

    def _settle(self, choice: Choice) -> None:
        """Settle classes in order of position."""
        waiting: dict[int, list[tuple[int, int]]] = {}
        unsettled: dict[tuple[int, int], int] = {}
        heap: list[tuple[int, int]] = []
        for c, options in choice.options.items():
            for number, option in enumerate(options):
                children = dict.fromkeys(option.node.children)
                unsettled[(c, number)] = len(children)
                for child in children:
                    waiting.setdefault(child, []).append((c, number))
                if not children:
                    self.options[(c, number)] = self._own(option.node)
                    heap.append((self.options[(c, number)], c))
        heapq.heapify(heap)
        while heap:
            position, c = heapq.heappop(heap)
            if c in self.classes:
                continue
            self.classes[c] = position
            for user, number in waiting.get(c, ()):
                unsettled[(user, number)] -= 1
                if not unsettled[(user, number)]:
                    # its operands are settled in order, this one last
                    found = self.options[(user, number)] = max(position, self._own(choice.options[user][number].node))
                    heapq.heappush(heap, (found, user))

    def _own(self, node: ENode) -> int:
        """The first position at which all that a node names is defined, and what it loads is in its buffer."""
        if node.name in LEAVES:
            return self.places.defined[self.tables.leaves[node.data[0]].name][1] + 1
        exprs, load = named(self.tables, node)
        loaded = 0 if load is None else self.places.since(load.reads)
        return max(loaded, *self._defined(exprs), 0)

    def _defined(self, exprs: tuple[Expr, ...]) -> Iterator[int]:
        for e in exprs:
            for v in variables(e):
                if v.name in self.places.defined:
                    yield self.places.defined[v.name][1] + 1
