"""The choice of a machine node for every class that is needed: greedy over the sum of costs, with a bound.

Costs grow from leaves to roots: a class gets the node whose own cycles and operands cost least, cheapest classes first, so that pairs
like {flat(x), pages(x)} that could be made of each other are never chosen in a circle. What is shared counts for each user here; the
cost that is reported is that of the emitted program.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from egraph_rules import forms
from egraph_rules.encode import is_store, is_value
from egraph_rules.graph import ENode, Graph
from egraph_rules.tables import FillEntry, StoreEntry
from extract.cost import call_cost
from extract.cycles import ZERO, Cycles
from extract.legal import is_nd
from extract.machine import (
    FAMILIES,
    band_call,
    columns_of_page,
    fill_call,
    op_call,
    page_call,
    piece_writes,
    separate_pages,
    store_in_view,
    store_pages,
    tile_call,
    tuple_of,
    typed,
)
from extract.target import Target
from pypto_ir.expr import Expr, MakeTuple, Var, const_int, index
from pypto_ir.linear import provably_equal
from pypto_ir.ops.registry import OpError, type_of
from pypto_ir.stmt import Call, tuple_items, walk
from pypto_ir.types import Memory, TileType, Type, UnknownType, same_dim, same_dims, tile_type, with_valid

_LIMIT = 1e300

#: the forms in which control flow hands a tile on: one flat tile, a tile for every page, all pages side by side
Form: TypeAlias = Literal["flat", "pages", "cols"]
FORMS: tuple[Form, ...] = ("flat", "pages", "cols")


@dataclass(frozen=True, slots=True)
class Option:
    """A node that may be chosen for a class: its own cycles, and the type of the tile or of one page that it makes."""

    node: ENode
    cycles: Cycles
    type: Type


@dataclass(slots=True)
class Choice:
    """`options[c]` are the legal nodes of a class, the chosen one first; `needed` are the classes that the roots reach through chosen
    nodes; `forms[h]` are the forms in which handover h is carried; `missing` are roots that have no legal node."""

    options: dict[int, list[Option]]
    needed: dict[int, None] = field(default_factory=dict)
    forms: dict[int, tuple[Form, ...]] = field(default_factory=dict)
    missing: tuple[int, ...] = ()

    def best(self, c: int) -> Option:
        return self.options[c][0]


def choose(graph: Graph, target: Target, weights: dict[int, float], prefer: Form | None = None) -> Choice:
    """The greedy choice; `weights[c]` is how often the region of class c runs (1 where absent).

    `prefer` is the form of everything that control flow hands on wherever it is legal; without it each use takes the form that costs it
    least, and what is used in both forms is carried in both.
    """
    count = len(graph.encoded.handovers)
    banned = {(h, form) for h in range(count) for form in FORMS if prefer is not None and form != prefer}
    while True:
        search = _Search(graph, target, weights, banned)
        search.run()
        options = search.ranked()
        illegal = {(h, f) for h in range(count) for f in FORMS if (h, f) not in banned and not _legal(graph, options, h, f)}
        if not illegal:
            break
        # a form that cannot be kept up is taken back; where it was the preferred one, the other gets its turn
        spared = {(h, f) for h, form in illegal if form == prefer for f in FORMS if f != prefer}
        banned = (banned | illegal) - (spared - illegal)
    result = Choice(options)
    result.missing = tuple(dict.fromkeys(c for c in roots_of(graph) if c not in options))
    if not result.missing:
        _complete(graph, result)
    return result


def _legal(graph: Graph, options: dict[int, list[Option]], h: int, form: Form) -> bool:
    classes = obligations(graph, h, form)
    return classes is not None and all(c in options for c in classes)


def obligations(graph: Graph, h: int, form: Form) -> tuple[int, ...] | None:
    """What carrying handover h in a form obliges its sources to provide; None where some source has no such form."""
    classes = carriers(graph)[form]
    found = [classes.get(graph.encoded.numbers[name]) for name in graph.encoded.handovers[h].sources]
    return None if None in found else tuple(found)  # type: ignore[arg-type]


def carriers(graph: Graph) -> dict[Form, dict[int, int]]:
    """For each form the classes of the values that have it, by number."""
    return {"flat": graph.flat, "pages": graph.families, "cols": graph.columns}


_LEAF_FORMS: dict[str, Form] = {"Leaf2": "flat", "LeafEach": "pages", "LeafCols": "cols"}


def leaf_form(graph: Graph, node: ENode) -> tuple[int, Form] | None:
    """The handover and form that a leaf node stands for, None for all other nodes and for leaves whose form is given."""
    form = _LEAF_FORMS.get(node.name)
    h = None if form is None else graph.tables.leaves[node.data[0]].handover
    return None if form is None or h is None else (h, form)


def with_option(graph: Graph, choice: Choice, c: int, number: int) -> Choice | None:
    """The choice with option `number` of class c in front, or None where it would be made of itself."""
    options = choice.options[c]
    front = [options[number], *options[:number], *options[number + 1 :]]
    result = Choice({**choice.options, c: front})
    seen: dict[int, None] = {}
    stack = list(front[0].node.children)
    while stack:
        child = stack.pop()
        if child == c:
            return None
        if child not in seen:
            seen[child] = None
            stack.extend(result.best(child).node.children)
    _complete(graph, result)
    return result


def roots_of(graph: Graph) -> list[int]:
    """The classes that every choice must provide: stores, and what the skeleton reads."""
    return [*graph.writes.values(), *(graph.flat[graph.encoded.numbers[n]] for n in graph.encoded.demanded)]


def _complete(graph: Graph, choice: Choice) -> None:
    """Follow the chosen nodes from the roots, close what leaves oblige to, and give handovers that nobody reads a form."""
    carried: dict[int, dict[Form, None]] = {h: {} for h in range(len(graph.encoded.handovers))}
    stack = list(reversed(roots_of(graph)))
    while True:
        while stack:
            c = stack.pop()
            if c in choice.needed:
                continue
            choice.needed[c] = None
            node = choice.best(c).node
            stack.extend(reversed(node.children))
            leaf = leaf_form(graph, node)
            if leaf is not None and leaf[1] not in carried[leaf[0]]:
                carried[leaf[0]][leaf[1]] = None
                stack.extend(obligations(graph, *leaf) or ())
        unread = next((h for h, forms in carried.items() if not forms), None)
        if unread is None:
            break
        form = next((f for f in FORMS if _legal(graph, choice.options, unread, f)), None)
        if form is None:
            name = graph.encoded.handovers[unread].names[0]
            choice.missing = (*choice.missing, graph.flat[graph.encoded.numbers[name]])
            break
        carried[unread][form] = None
        stack.extend(obligations(graph, unread, form) or ())
    choice.forms = {h: tuple(f for f in FORMS if f in forms) for h, forms in carried.items()}


class _Search:
    def __init__(self, graph: Graph, target: Target, weights: dict[int, float], banned: set[tuple[int, Form]]) -> None:
        self.graph, self.target, self.weights, self.banned = graph, target, weights, banned
        self.expected = _expected(graph)
        # where the author's text alone does not stay in the instruction cache, every instruction is fetched
        written = sum(is_value(s) or is_store(s) for s in walk(graph.encoded.function.body))
        self.code = target.code if written <= target.code.cached else replace(target.code, cached=0)
        # a text that is 2-D already is its author's, and may be all that there is
        self.lowers = is_nd(graph.encoded.function)
        self.types: dict[int, Type] = {}
        self.costs: dict[int, float] = {}
        #: how many options of a class were found when it was settled
        self.settled: dict[int, int] = {}
        self.found: dict[int, list[tuple[float, int, Option]]] = {}
        self.waiting: dict[int, list[tuple[int, int]]] = {}
        self.open: dict[tuple[int, int], int] = {}

    def run(self) -> None:
        """Settle classes in order of cost (Knuth's generalisation of Dijkstra's method to and-or graphs)."""
        heap: list[tuple[float, int, int]] = []
        for c, nodes in self.graph.classes.items():
            for i, node in enumerate(nodes):
                if c in node.children:
                    continue
                children = dict.fromkeys(node.children)
                self.open[(c, i)] = len(children)
                for child in children:
                    self.waiting.setdefault(child, []).append((c, i))
                if not children:
                    self.offer(c, i, heap)
        while heap:
            cost, c, _ = heapq.heappop(heap)
            if c in self.costs:
                continue
            self.costs[c], self.settled[c] = cost, len(self.found[c])
            self.types[c] = min(self.found[c])[2].type
            for user, i in self.waiting.get(c, ()):
                self.open[(user, i)] -= 1
                if self.open[(user, i)] == 0:
                    self.offer(user, i, heap)

    def offer(self, c: int, i: int, heap: list[tuple[float, int, int]]) -> None:
        node = self.graph.classes[c][i]
        if leaf_form(self.graph, node) in self.banned:
            return
        option = self.option(c, node)
        if option is None:
            return
        own = option.cycles.total * self.weights.get(c, 1.0) + self.code.cost(option.cycles.code)
        cost = min(_LIMIT, own + sum(self.costs[child] for child in node.children))
        self.found.setdefault(c, []).append((cost, i, option))
        heapq.heappush(heap, (cost, c, i))

    def ranked(self) -> dict[int, list[Option]]:
        """Options by cost. A node whose operands were settled after its class stays behind the chosen one, also where costs reach their
        limit and are equal."""

        def order(found: list[tuple[float, int, Option]]) -> list[Option]:
            return [option for _, _, option in sorted(found, key=lambda f: f[:2])]

        return {c: order(found[: self.settled[c]]) + order(found[self.settled[c] :]) for c, found in self.found.items()}

    def option(self, c: int, node: ENode) -> Option | None:
        """The node as an option, or None where the type rules refuse it or it makes another type than its class has."""
        try:
            made, cycles = self.priced(c, node)
        except OpError:
            return None
        wanted, layout = self.expected.get(c) or (self.types.get(c), True)
        if isinstance(made, TileType) and isinstance(wanted, TileType) and not _same(_promised(made, wanted), wanted, layout):
            return None
        return Option(node, cycles, made)

    def priced(self, c: int, node: ENode) -> tuple[Type, Cycles]:
        operands = tuple(Var(f"operand{i}", self.types[child]) for i, child in enumerate(node.children))
        graph, tables = self.graph, self.graph.tables
        match node.name:
            case "Leaf2":
                return forms.flat_type(tables.leaves[node.data[0]].type), ZERO
            case "LeafEach":
                return forms.page_type(tables.leaves[node.data[0]].type), ZERO
            case "LeafCols":
                return forms.columns_type(tables.leaves[node.data[0]].type), ZERO
            case "AccCols":
                return self.accumulated(node, operands)
            case "Store2":
                entry = tables.stores[node.data[0]]
                _check_drain(entry, operands[0])
                return UnknownType(), self.call(Call("tile.store", (operands[0], *entry.call.args[1:]), entry.call.kwargs))
            case "StoreEach":
                entry = tables.stores[node.data[0]]
                pages = store_pages(entry, node.data[1])
                one = Call("tile.store", (operands[0], MakeTuple(pages[0][0]), entry.call.args[2]), entry.call.kwargs)
                return UnknownType(), self.call(one) * len(pages)
            case "StoreBoxes":
                entry, total = tables.stores[node.data[0]], ZERO
                for box in entry.boxes:
                    band, made = band_call(operands[0], box)
                    args = (Var("band", made), MakeTuple(box.offsets), entry.call.args[2])
                    total = total + self.call(band, made) + self.call(Call("tile.store", args, entry.call.kwargs))
                return UnknownType(), total
            case "StoreIn2" | "StoreInEach":
                entry = tables.stores[node.data[0]]
                count = 1 if node.name == "StoreIn2" else forms.pages(node.data[1])
                at = store_in_view(entry.call, 0, 0)
                return UnknownType(), self.call(Call("tile.store", (operands[0], MakeTuple(at), operands[1]), entry.call.kwargs)) * count
            case "PackRows":
                return self.packed(node, operands)
            case "AssembleEach":
                return self.pieces(node, operands)
            case "One" | "Pick" | "PageOf" | "Spread" | "WithPages":
                return self.types[node.children[0]], ZERO
        if node.name in FAMILIES:
            call, made = page_call(graph, node, 0, operands)
            _check_l1(call)
            return made, self.call(call, made) * (self.graph.page_counts.get(c, 1) if separate_pages(graph, node) else 1)
        call, made = tile_call(graph, node, operands)
        if self.lowers:
            _check_l1(call)
        return made, self.call(call, made)

    def accumulated(self, node: ENode, operands: tuple[Expr, ...]) -> tuple[Type, Cycles]:
        """For each page its window, the product into it, and the write-back."""
        made, count = self.types[node.children[0]], self.graph.page_counts[node.children[1]]
        assert isinstance(made, TileType)
        shape, at = columns_of_page(made, count, 0)
        window, window_type = typed(Call("tile.slice", (operands[0], tuple_of(*shape), at)))
        product, page_type = op_call(self.graph.tables.ops[node.data[0]], (Var("window", window_type), *operands[1:]))
        back, made = typed(Call("tile.assemble", (operands[0], Var("page", page_type), at)))
        calls = ((window, window_type), (product, page_type), (back, made))
        return made, sum((self.call(*c) for c in calls), ZERO) * count

    def pieces(self, node: ENode, operands: tuple[Expr, ...]) -> tuple[Type, Cycles]:
        """One assemble a piece."""
        entry, places = piece_writes(self.graph, node)
        made, cycles = self.types[node.children[0]], ZERO
        for at in places:
            call, made = typed(Call(entry.op, (Var("target", made), operands[1], at), entry.kwargs, entry.attrs))
            _check_l1(call)
            cycles = cycles + self.call(call, made)
        return made, cycles

    def packed(self, node: ENode, operands: tuple[Expr, ...]) -> tuple[Type, Cycles]:
        """A create and one assemble a page."""
        page = self.types[node.children[0]]
        assert isinstance(page, TileType)
        create, made = fill_call(pack_entry(page), node.data[0])
        rows, own = node.data[0][0], page.static_shape
        assert own is not None
        at = MakeTuple((index(0), index(0)))
        write = self.call(Call("tile.assemble", (Var("packed", made), operands[0], at)), made)
        return made, self.call(create, made) + write * (rows // own[0])

    def call(self, call: Call, made: Type | None = None) -> Cycles:
        return call_cost(call, made or UnknownType(), self.target).cycles


def _check_drain(entry: StoreEntry, source: Expr) -> None:
    """Raise `OpError` where an accumulator would be stored through a box of several pages: the unit that drains it writes 2-D windows
    (`spec/hardware.md` 4.5)."""
    box = entry.window or (tuple_items(entry.call.args[3]) if len(entry.call.args) > 3 else None) or ()
    t = type_of(source)
    if isinstance(t, TileType) and t.memory is Memory.ACC and not all(const_int(d) == 1 for d in box[:-2]):
        raise OpError("an accumulator is stored through 2-D windows")


def _check_l1(call: Call) -> None:
    """Raise `OpError` where a tile in L1 would be copied into another, or transposed there: the graph of memories has no way from L1 to
    L1 (`spec/flatten.md` 9), and the unit that transposes reads UB."""
    memories = [t.memory for t in map(type_of, call.args) if isinstance(t, TileType)]
    if call.op == "tile.assemble" and memories[:2] == [Memory.MAT] * 2:
        raise OpError("nothing copies from L1 to L1")
    if call.op == "tile.transpose" and memories[0] is Memory.MAT:
        raise OpError("nothing transposes tiles in L1")


def pack_entry(page: TileType) -> FillEntry:
    """The create that pages are packed into."""
    memory = page.memory.value if page.memory else "Vec"
    return FillEntry(Call("tile.create", (), (("dtype", page.dtype.value), ("target_memory", memory))), page)


def _expected(graph: Graph) -> dict[int, tuple[TileType, bool]]:
    """The type that the flat form of every value must have, and whether its layout counts: a tile that the author wrote with rank 2
    keeps the layout that was deduced for it, the layout of a tile that we make is deduced anew."""
    result: dict[int, tuple[TileType, bool]] = {}
    for number, c in graph.flat.items():
        t = graph.encoded.types[number]
        if t.static_shape is not None and (c not in result or t.rank <= 2):
            result[c] = (forms.flat_type(t), t.rank <= 2)
    return result


def _promised(made: TileType, wanted: TileType) -> TileType:
    """The type of a product as an N-D product promises it: fully valid, although cut operands leave rows or columns undefined."""
    if made.memory is not Memory.ACC or forms.whole(made) or not forms.whole(wanted) or not same_dims(made.shape, wanted.shape):
        return made
    return with_valid(tile_type(made.shape, made.dtype, made.memory, memref=made.memref), wanted.valid)


def _same(a: TileType, b: TileType, layout: bool) -> bool:
    """Equal types, extents compared in normal form, with or without the layout."""
    x, y = a.effective_view, b.effective_view
    return (
        len(a.shape) == len(b.shape)
        and all(map(same_dim, a.shape, b.shape))
        and (a.dtype, a.memory, a.memref) == (b.dtype, b.memory, b.memref)
        and (not layout or (x.blayout, x.slayout, x.fractal, x.pad, x.compact) == (y.blayout, y.slayout, y.fractal, y.pad, y.compact))
        and all(same_dim(p, q) or provably_equal(p, q) for p, q in zip(x.valid, y.valid, strict=True))
    )
