"""The candidates of a problem: where each option of a class may be materialised.

A candidate is placed before the author's statement that holds the class if one stands in the region, else before the first statement there
that could ask for it. Demands are followed from the roots down; each may move a place forward, until none does.
"""

from __future__ import annotations

from dataclasses import replace

from egraph_rules.encode import is_value
from egraph_rules.graph import ENode, Graph
from extract.bound import skeleton, surely_code
from extract.choice import FORMS, Choice, Form, leaf_form, obligations
from extract.cycles import ZERO, Cycles
from extract.earliest import Earliest, named
from extract.least import least
from extract.machine import LEAVES, STORES, written_operands
from extract.price import HANDED_SCALARS, price
from extract.problem import Candidate, Demand, Problem, form_class, handover_class
from extract.regions import Regions, free_dims, regions
from extract.target import Target
from extract.trips import DEFAULT_TRIPS
from pypto_ir.expr import Var, const_int, variables
from pypto_ir.stmt import Assign, For, If, Stmt, While, Yield, terminator, uses, walk
from pypto_ir.types import TileType


def problem(graph: Graph, choice: Choice, target: Target, default_trips: int = DEFAULT_TRIPS) -> Problem:
    """The problem of a saturated function; `choice` holds the legal options of every class."""
    places = regions(graph.encoded, default_trips)
    builder = _Builder(Problem(graph, choice, choice, places), free_dims(graph.encoded))
    builder.build()
    out = builder.out
    out.least = least(graph, choice)
    for i, k in enumerate(out.candidates):
        if k.c >= 0:
            out.candidates[i] = replace(k, cycles=out.least.options[k.c][k.option].cycles)
    fixed = price(skeleton(graph.encoded.function), target, default_trips)
    # price numbers regions in the same order, and has none for an absent else-arm
    for number, region in zip(priced_regions(graph, places), fixed.regions, strict=True):
        if region.cycles != ZERO:
            out.loads[number] = region.cycles
    out.code, out.surely = target.code, fixed.instructions + surely_code(graph, out.least)
    return out


def priced_regions(graph: Graph, places: Regions) -> list[int]:
    """The regions in the order in which `price` lists them: no region for an absent else-arm."""
    branches = [s for s in walk(graph.encoded.function.body) if isinstance(s, If)]
    absent = {places.blocks[(id(s), 1)] for s in branches if s.orelse is None}
    return [r for r in range(len(places.items)) if r not in absent]


class _Builder:
    def __init__(self, out: Problem, free: set[str]) -> None:
        self.out, self.free = out, free
        self.graph, self.places = out.graph, out.regions
        self.earliest = Earliest(self.graph.tables, out.choice, self.places)
        self.anchors: dict[tuple[int, int], int] = {}
        self.first: dict[tuple[int, int], int] = {}
        self.legal: dict[tuple[int, int], dict[int, None]] = {}
        self.pending: list[tuple[Demand, bool]] = []
        #: handovers that come out of a branch
        self._branches: set[int] = set()

    def build(self) -> None:
        """Find the places where classes may be asked for, until no demand moves a place forward; then write the candidates."""
        self.collect_anchors()
        self.collect_roots()
        moved = True
        while moved:
            moved, seen = False, set[tuple[Demand, bool]]()
            self.legal, self.pending = {}, [(d, True) for d in self.out.roots]
            for h in range(len(self.graph.encoded.handovers)):
                for form in FORMS:
                    self.pending.extend((d, True) for d in self.oblige(h, form))
            while self.pending:
                asked = self.pending.pop()
                if asked not in seen:
                    seen.add(asked)
                    moved |= self.visit(*asked)
        self.write_handovers()
        for c, region in sorted(self.first, key=lambda k: (self.first[k], k)):
            self.write(c, region)
        self.out.prune()

    # where the author computes, and where the skeleton reads

    def collect_anchors(self) -> None:
        graph, places = self.graph, self.places
        leaves = {leaf.name for leaf in graph.tables.leaves.items}
        for s in walk(graph.encoded.function.body):
            if isinstance(s, Assign) and s.target.name in graph.encoded.numbers and s.target.name not in leaves:
                number, position = graph.encoded.numbers[s.target.name], places.position[id(s)]
                for c in (graph.flat.get(number), graph.families.get(number), graph.columns.get(number)):
                    if c is not None and self.earliest.of(c) <= position:
                        # statements come in order: the first that can be
                        self.anchors.setdefault((c, places.region[id(s)]), position)

    def collect_roots(self) -> None:
        graph, places, roots = self.graph, self.places, self.out.roots
        numbers, demanded = graph.encoded.numbers, graph.encoded.demanded
        for s in walk(graph.encoded.function.body):
            r, p = places.region[id(s)], places.position[id(s)]
            store = graph.encoded.stores.get(id(s))
            if store is not None:
                roots.append(Demand(graph.writes[store], r, p))
            elif not is_value(s):
                # what is handed on in a form of its own choosing is asked for by its handover
                read = dict.fromkeys(v.name for v in uses(s) if isinstance(v.type, TileType) and v.name in demanded)
                free = self.free_sources(s)
                roots += [Demand(graph.flat[numbers[name]], r, p) for name in read if name not in free]
        roots += [Demand(handover_class(h), self.handing(h), 0) for h in range(len(graph.encoded.handovers))]

    def free_sources(self, s: Stmt) -> set[str]:
        """The names that a statement reads only to hand them on in a chosen form."""
        sources = {name for h in self.graph.encoded.handovers for name in h.sources}
        if isinstance(s, Yield):
            return {e.name for e in s.values if isinstance(e, Var) and e.name in sources}
        if isinstance(s, For | While):
            return {c.init.name for c in s.carries if isinstance(c.init, Var) and c.init.name in sources}
        return set()

    def oblige(self, h: int, form: Form) -> list[Demand]:
        """The demands that carrying a handover in a form makes, each where its source is handed in."""
        classes = obligations(self.graph, h, form)
        if classes is None:
            return []
        return [Demand(c, r, p) for c, (r, p) in zip(classes, self.handed_in(h), strict=True)]

    def handed_in(self, h: int) -> list[tuple[int, int]]:
        if not hasattr(self, "_handed_in"):
            self._handed_in = self.find_handovers()
        return self._handed_in[h]

    def handing(self, h: int) -> int:
        """The region that pays for handing a value on: a loop's body, or the region that a branch stands in."""
        (first, _), *rest = self.handed_in(h)
        return self.places.items[first].parent if h in self._branches else rest[0][0]

    def find_handovers(self) -> dict[int, list[tuple[int, int]]]:
        places, names = self.places, {h.names[0]: i for i, h in enumerate(self.graph.encoded.handovers)}
        result: dict[int, list[tuple[int, int]]] = {}
        for s in walk(self.graph.encoded.function.body):
            here = (places.region[id(s)], places.position[id(s)])
            if isinstance(s, For | While):
                for carry in s.carries:
                    if carry.var.name in names:
                        # init at the loop's statement, then the yield in its body
                        result[names[carry.var.name]] = [here, self.at_yield(s.body, places.blocks[(id(s), 0)])]
            elif isinstance(s, If):
                for var in s.results:
                    if var.name in names:
                        arms = [(s.then, 0), (s.orelse or (), 1)]
                        self._branches.add(names[var.name])
                        result[names[var.name]] = [self.at_yield(block, places.blocks[(id(s), arm)]) for block, arm in arms if block]
        return result

    def at_yield(self, block: tuple[Stmt, ...], r: int) -> tuple[int, int]:
        last = terminator(block)
        return r, self.places.position[id(last)]

    # where classes may stand

    def visit(self, d: Demand, sure: bool) -> bool:
        """Note that a class may be asked for, and ask for what its options read; True where a place moved forward. `sure` tells that
        the author's program computes the class whenever it comes to where it is asked for."""
        moved = False
        for number in range(len(self.out.choice.options.get(d.c, ()))):
            for region, computed in self.legal_regions(number, d, sure).items():
                place = self.place(d, region)
                self.legal.setdefault((d.c, region), {})[number] = None
                if place < self.first.get((d.c, region), place + 1):
                    self.first[(d.c, region)] = place
                    moved = True
                self.pending.extend((read, computed) for read in self.reads(d.c, number, region, self.first[(d.c, region)]))
        return moved

    def reads(self, c: int, number: int, region: int, position: int) -> list[Demand]:
        node = self.out.choice.options[c][number].node
        leaf = leaf_form(self.graph, node)
        if leaf is not None:
            self.pending.extend((d, True) for d in self.oblige(*leaf))
            return [Demand(form_class(*leaf), 0, 0)]
        consumed = written_operands(self.graph, node)
        return [Demand(child, region, position, i in consumed) for i, child in enumerate(node.children)]

    def legal_regions(self, number: int, d: Demand, sure: bool) -> dict[int, bool]:
        """The regions in which an option may be materialised for a demand: its own, and those around as far as what it names is seen and
        nothing partial leaves a branch, or a loop that may not run. With each, whether the author's program computes the class
        whenever it comes there."""
        node, earliest = self.out.choice.options[d.c][number].node, self.earliest.option(d.c, number)
        if node.name in LEAVES:
            at = self.places.defined[self.graph.tables.leaves[node.data[0]].name]
            return {at[0]: True} if self.places.inside(d.region, at[0]) else {}
        if node.name in STORES:
            return {d.region: sure}
        result: dict[int, bool] = {}
        free, total = True, self.total(node)
        around = self.places.ancestors(d.region)
        # nothing moves into a region from where the author computes it: a value that two arms read would be written twice
        own = next((i for i, r in enumerate(around) if self.anchored(d, r)), 0)
        for i, region in enumerate(around):
            # where the author computes the value, so may we, whatever lies between
            here = (d.c, region) in self.anchors
            allowed = i >= own and (here or (free and (total or sure)))
            place = self.place(d, region)
            if allowed and earliest <= place and self.available(node, region, place):
                result[region] = sure or here
            # out of a loop goes what it would compute anew in every trip, if it can be computed at all; out of an arm goes nothing
            free = free and self.places.items[region].loop
            sure = sure and self.places.items[region].sure
        return result

    def anchored(self, d: Demand, region: int) -> bool:
        """True where the author computes a class in a region before it is asked for, and the buffers that it reads are still as then."""
        anchor = self.anchors.get((d.c, region))
        return anchor is not None and anchor <= self.places.lifted(d.region, d.position, region)

    def place(self, d: Demand, region: int) -> int:
        """Where a region would materialise a class for a demand: the author's statement, or the statement that asks for it."""
        wanted = self.places.lifted(d.region, d.position, region)
        anchor = self.anchors.get((d.c, region))
        return anchor if anchor is not None and anchor <= wanted else wanted

    def available(self, node: ENode, region: int, position: int) -> bool:
        exprs, load = named(self.graph.tables, node)
        if load is not None and not self.places.current(position, load.call.args[0], load.reads):
            return False
        return all(self.places.sees(region, position, e) for e in exprs)

    def total(self, node: ENode) -> bool:
        """True where a node can be computed whenever its operands can: no global memory, no position that could be out of range."""
        exprs, load = named(self.graph.tables, node)
        if load is not None or node.name in ("Create2", "CreateEach"):
            return False
        if node.name in ("Slice2", "Assemble2", "PiecesOf", "AssembleEach"):
            return all(const_int(e) is not None for e in exprs)
        if node.name in ("Op2", "OpEach", "AccCols"):
            return not any(True for e in exprs for _ in variables(e))
        return True

    def write_handovers(self) -> None:
        """A candidate for every legal form of every handover; that it is chosen means that the value is carried in that form."""
        out = self.out
        for h in range(len(self.graph.encoded.handovers)):
            for number, form in enumerate(FORMS):
                classes = obligations(self.graph, h, form)
                if classes is None or not all(c in out.choice.options for c in classes):
                    continue
                out.by_class.setdefault(handover_class(h), []).append(len(out.candidates))
                out.by_class[form_class(h, form)] = [len(out.candidates)]
                tiles = self.graph.page_counts.get(classes[0], 1) if form == "pages" else 1
                cycles = Cycles(s=HANDED_SCALARS * tiles)
                out.candidates.append(
                    Candidate(handover_class(h), number, self.handing(h), -1, cycles, (), tuple(self.oblige(h, form)), True)
                )

    def write(self, c: int, region: int) -> None:
        place = self.first[(c, region)]
        for number, option in enumerate(self.out.choice.options[c]):
            if number not in self.legal[(c, region)] or region not in self.legal_regions(number, Demand(c, region, place), True):
                continue
            own = (c, region) in self.anchors and self.anchors[(c, region)] == place
            wanted = tuple(self.reads(c, number, region, place))
            leaf = leaf_form(self.graph, option.node) is not None
            own = own or not option.cycles.total or option.node.name in STORES
            self.out.by_class.setdefault(c, []).append(len(self.out.candidates))
            reads, obliges = ((), wanted) if leaf else (wanted, ())
            self.out.candidates.append(Candidate(c, number, region, place, option.cycles, reads, obliges, own))
