"""What a class costs at least in a choice: pages that somebody surely reads, once for equal ones.

A value whose pages are all replaced (`WithPages`) is computed in vain, and what nobody reads is not emitted; equal pages of equal operands
are one tile. Which of its pages a class is asked for depends on its readers, so every choice is priced by what all of its possible readers
ask for; what its program costs beside that is found out when it is emitted (`extract/verdict.py`).
"""

from __future__ import annotations

from dataclasses import replace

from egraph_rules import forms
from egraph_rules.graph import ENode, Graph
from extract.choice import Choice, Option
from extract.cycles import ZERO, Cycles
from extract.machine import FAMILIES, separate_pages, written_operands


def least(graph: Graph, choice: Choice) -> Choice:
    """The choice with every option at the least that it costs where it is chosen."""
    if not any(o.node.name in ("WithPages", "FullEach", "Pick", "Spread") for options in choice.options.values() for o in options):
        return choice
    work = _Work(graph, choice)
    options = {c: [replace(o, cycles=work.cycles(c, o)) for o in options] for c, options in choice.options.items()}
    return replace(choice, options=options)


class _Work:
    """`asked[c]` are the pages of class c that every reader asks for, as bits; one bit for a flat tile or a store."""

    def __init__(self, graph: Graph, choice: Choice) -> None:
        self.graph, self.choice = graph, choice
        self.asked = {c: self.all(c) for c in choice.options}
        self.known: dict[int, int] = {}
        self.narrow()

    def pages(self, c: int) -> int:
        return self.graph.page_counts.get(c, 1)

    def all(self, c: int) -> int:
        return (1 << self.pages(c)) - 1

    def narrow(self) -> None:
        """Take away what some reader does not ask for, until nothing changes."""
        waiting = dict.fromkeys(self.choice.options)
        while waiting:
            user = next(iter(waiting))
            del waiting[user]
            for option in self.choice.options[user]:
                for n, child in enumerate(option.node.children):
                    left = self.asked[child] & self.reads(user, option.node, n, child)
                    if left != self.asked[child]:
                        self.asked[child] = left
                        waiting[child] = None

    def reads(self, user: int, node: ENode, n: int, child: int) -> int:
        """The pages of operand n that a node reads for the pages that it is asked for."""
        wanted = self.asked[user]
        if not wanted:
            return 0
        if node.name == "OpEach":
            return wanted
        if node.name == "Spread":
            found = 0
            for b in range(self.pages(user)):
                if wanted >> b & 1:
                    found |= 1 << forms.spread_index(b, *node.data)
            return found
        if node.name == "Pick":
            picked = self.graph.tables.pages[node.data[0]]
            return sum({1 << picked[b] for b in range(len(picked)) if wanted >> b & 1})
        if node.name == "WithPages":
            placed = self.graph.tables.pages[node.data[0]]
            taken = {b: i for i, b in reversed(list(enumerate(placed)))}
            if n == 0:
                return wanted & ~sum(1 << b for b in taken)
            return sum(1 << i for b, i in taken.items() if wanted >> b & 1)
        return self.all(child)

    def tiles(self, c: int) -> int:
        """How many different tiles the pages of a family are at least."""
        if c not in self.known:
            self.known[c] = 1
            self.known[c] = min((self.tiles_of(c, o.node) for o in self.choice.options.get(c, ())), default=1)
        return self.known[c]

    def tiles_of(self, c: int, node: ENode) -> int:
        match node.name:
            case "Spread":
                return self.tiles(node.children[0])
            case "Pick":
                missing = self.pages(node.children[0]) - len(set(self.graph.tables.pages[node.data[0]]))
                return max(1, self.tiles(node.children[0]) - missing)
            case "WithPages":
                return self.tiles(node.children[1])
            case "FullEach" if not separate_pages(self.graph, node):
                return 1
            case "OpEach" if not written_operands(self.graph, node):
                return max(map(self.tiles, node.children), default=1)
        return self.pages(c)

    def cycles(self, c: int, option: Option) -> Cycles:
        """The cycles of the tiles that are surely made."""
        count, wanted = self.pages(c), self.asked[c].bit_count()
        if not wanted:
            return ZERO
        if option.cycles == ZERO or option.node.name not in FAMILIES or not separate_pages(self.graph, option.node):
            return option.cycles
        sure = max(1, self.tiles_of(c, option.node) - (count - wanted))
        return option.cycles if sure == count else Cycles(*(v / count * sure for v in option.cycles.values))
