"""Capacity rows: what a memory holds at one point of the author's program, as a condition on candidates.

    3  x = load(..)  flat, 64 KiB      read at 5
    4  y = exp(x)    flat, 64 KiB      read at 7
    5  z = add(x, w) flat, 64 KiB      at 5 the op writes z while it reads x, and y is still to be read: 192 KiB

A row counts what is sure: a flat tile that the author computes at a statement (it is emitted there, neither sooner nor later) and that is
read behind the point, and what the op at the point reads and writes. A tile that lies in another one (a reshape, a result in place) keeps
that one live. What is sure for one choice is sure for every choice with the same readers; pages, which are emitted where they are asked
for, and copies are left to the allocator.
"""

from __future__ import annotations

from dataclasses import replace

from egraph_rules.encode import is_value
from egraph_rules.graph import ENode
from egraph_rules.tables import Hole
from extract.cuts import Link, Need, Row
from extract.machine import FAMILIES, LEAVES, STORES
from extract.problem import Demand, Problem
from extract.slots import footprint
from extract.target import Target
from pypto_ir.ops.registry import find_op
from pypto_ir.stmt import Assign, For, While, walk
from pypto_ir.types import Memory, TileType

#: nodes that lie in the tile of their first operand
_VIEWS = frozenset({"Reshape2", "Reinterpret2", "Slice2", "Assemble2", "AssembleEach", "PageOf", "AccCols"})


class Rows:
    """The rows of one problem, made where they are asked for."""

    def __init__(self, problem: Problem, target: Target) -> None:
        self.problem, self.target = problem, target
        self.live = problem.live
        self.anchored = self._anchored()
        self.stages = self._stages()
        self.sizes = {i: self._size(i) for i in self.live}
        self.memories = {i: self._memory(i) for i in self.live}
        #: for every candidate the demands that it may serve, with who asks and who else could serve
        self.reads: dict[int, list[tuple[Demand, Link]]] = {i: [] for i in self.live}
        for d in problem.roots:
            self._link(d, None)
        for u in self.live:
            k = problem.candidates[u]
            for d in (*k.demands, *k.obligations):
                self._link(d, u)
        self.parts = self._parts()

    # facts of candidates

    def _node(self, i: int) -> ENode | None:
        k = self.problem.candidates[i]
        return self.problem.choice.options[k.c][k.option].node if k.c >= 0 else None

    def _type(self, i: int) -> TileType | None:
        k, node = self.problem.candidates[i], self._node(i)
        if node is None or node.name in FAMILIES or node.name in STORES or node.name in LEAVES:
            return None
        made = self.problem.choice.options[k.c][k.option].type
        return made if isinstance(made, TileType) and made.memref is None else None

    def _memory(self, i: int) -> Memory | None:
        made = self._type(i)
        return None if made is None else made.memory or Memory.VEC

    def _size(self, i: int) -> int:
        """The bytes of the buffer that a candidate makes; 0 where it lies in another, or nothing is sure."""
        made = self._type(i)
        if made is None or self._shared(i) is not None:
            return 0
        node = self._node(i)
        loads = node is not None and node.name in ("Load2", "LoadIn2") and (made.memory or Memory.VEC) in (Memory.VEC, Memory.MAT)
        return footprint(made, self.target) * (self.stages.get(self.problem.candidates[i].region, 1) if loads else 1)

    def _shared(self, i: int) -> int | None:
        """The operand, by number, in whose tile a candidate lies."""
        node = self._node(i)
        if node is None or node.name in FAMILIES:
            return None
        if node.name in _VIEWS:
            return 0
        if node.name != "Op2":
            return None
        entry = self.problem.graph.tables.ops[node.data[0]]
        op = find_op(entry.op)
        shared = None if op is None else op.aliases if op.aliases is not None else op.writes[0] if op.writes else None
        holes = [n for n, e in enumerate(entry.template) if isinstance(e, Hole)]
        return holes.index(shared) if shared in holes else None

    def _anchored(self) -> set[int]:
        """Candidates that are emitted at the statement of the author that computes their flat form."""
        graph, places = self.problem.graph, self.problem.regions
        at = {
            (carrier.get(graph.encoded.numbers[s.target.name]), places.region[id(s)], places.position[id(s)])
            for s in walk(graph.encoded.function.body)
            if isinstance(s, Assign) and is_value(s) and s.target.name in graph.encoded.numbers
            for carrier in (graph.flat, graph.columns)
        }
        found = set()
        for i in self.live:
            k = self.problem.candidates[i]
            if (k.c, k.region, k.position) in at:
                found.add(i)
        return found

    def _stages(self) -> dict[int, int]:
        """How many copies of a loaded tile the pipelined loops around a region make."""
        places, found = self.problem.regions, {0: 1}
        loops = {places.blocks[(id(s), 0)]: s for s in walk(self.problem.graph.encoded.function.body) if isinstance(s, For | While)}
        for r, region in enumerate(places.items[1:], 1):
            own = 1
            s = loops.get(r)
            if isinstance(s, For) and s.kind == "pipeline":
                stated = next((v for key, v in s.attrs if key == "pipeline_stages"), 1)
                own = stated if isinstance(stated, int) and stated > 0 else 1
            found[r] = found[region.parent] * own
        return found

    def _link(self, d: Demand, user: int | None) -> None:
        servers, candidates = self.problem.servers(d), self.problem.candidates
        for i in servers:
            others = tuple(j for j in servers if candidates[j].region != candidates[i].region)
            self.reads[i].append((d, Link(user, others)))

    def _parts(self) -> dict[int, list[Link]]:
        """For every candidate what lies in its tile, where a copy of that would be no smaller."""
        whole = self._whole()
        found: dict[int, list[Link]] = {}
        for v in self.live:
            shared = self._shared(v)
            if shared is None:
                continue
            d = self.problem.candidates[v].demands[shared]
            for i in self.problem.servers(d):
                if i in whole:
                    found.setdefault(i, []).extend(link for at, link in self.reads[i] if link.user == v and at == d)
        return found

    def _whole(self) -> set[int]:
        """Candidates whose tile is all of its buffer: no window, nor something that may lie in one."""
        found = {i for i in self.live if self._type(i) is not None}
        while True:
            cut = {
                i
                for i in found
                if (shared := self._shared(i)) is not None
                and (
                    self._node(i).name == "Slice2"  # type: ignore[union-attr]
                    or not found.issuperset(self.problem.servers(self.problem.candidates[i].demands[shared]))
                )
            }
            if not cut:
                return found
            found -= cut

    # rows

    def last(self, i: int, d: Demand) -> int:
        """The position up to which a demand keeps a candidate live: the end of the loops that lie between."""
        items, last, r = self.problem.regions.items, d.position, d.region
        while r != self.problem.candidates[i].region:
            if items[r].loop:
                last = items[r].end
            r = items[r].parent
        return last

    def reads_at(self, i: int, d: Demand, link: Link, position: int) -> bool:
        """True where a read keeps a candidate live at a position, for sure."""
        if i in self.anchored and self.problem.candidates[i].position <= position < self.last(i, d):
            return True
        if d.position != position:
            return False
        node = None if link.user is None else self._node(link.user)
        return link.user is None or link.user in self.anchored or (node is not None and node.name in STORES)

    def row(self, memory: Memory, position: int, capacity: int) -> Row:
        """The row of a memory at a position."""
        needs: list[Need] = []
        done: set[int] = set()
        mine = [i for i in self.live if self.memories[i] is memory]

        def add(i: int) -> None:
            stack = [(i, iter(self.parts.get(i, ())))]
            done.add(i)
            while stack:
                top, rest = stack[-1]
                link = next(rest, None)
                if link is None:
                    stack.pop()
                    self._need(top, position, needs)
                elif link.user is not None and link.user not in done:
                    done.add(link.user)
                    stack.append((link.user, iter(self.parts.get(link.user, ()))))

        for i in mine:
            if i not in done:
                add(i)
        return _useful(Row(memory.value, capacity, position, tuple(needs)))

    def _need(self, i: int, position: int, needs: list[Need]) -> None:
        readers = tuple(dict.fromkeys(link for d, link in self.reads[i] if self.reads_at(i, d, link, position)))
        parts = tuple(self.parts.get(i, ()))
        if readers or parts:
            needs.append(Need(i, self.sizes[i], readers, parts))

    def worst(self, chosen: list[int], memory: Memory, capacity: int) -> Row | None:
        """The row that a choice exceeds, at the point where it needs most; None where it keeps all of them."""
        members = set(chosen)
        change: dict[int, int] = {}
        ends = {i: self._range(i, members) for i in chosen if self.memories.get(i) is memory}
        for _ in range(len(ends)):
            grown = False
            for i, parts in self.parts.items():
                for link in parts:
                    if i in ends and link.user in ends and link.holds(members) and ends[link.user][1] > ends[i][1]:
                        ends[i], grown = (ends[i][0], ends[link.user][1]), True
            if not grown:
                break
        for i, (first, last) in ends.items():
            if last >= first:
                change[first] = change.get(first, 0) + self.sizes[i]
                change[last + 1] = change.get(last + 1, 0) - self.sizes[i]
        tried: list[tuple[int, int]] = []
        total = 0
        for position in sorted(change):
            total += change[position]
            tried.append((-total, position))
        for load, position in sorted(tried)[:4]:
            if -load > capacity:
                row = self.row(memory, position, capacity)
                if row.exceeded(members):
                    return row
        return None

    def _range(self, i: int, members: set[int]) -> tuple[int, int]:
        """About where a chosen candidate is live."""
        held = [(d, self.last(i, d)) for d, link in self.reads[i] if link.holds(members)]
        if not held:
            return 0, -1
        anchored = i in self.anchored
        first = self.problem.candidates[i].position if anchored else min(d.position for d, _ in held)
        last = max(last - (last > d.position) for d, last in held)
        return first, last


def _useful(row: Row) -> Row:
    """The row without what can never be live in it."""
    possible: set[int] = set()
    needs = []
    for need in row.needs:
        parts = tuple(link for link in need.parts if link.user in possible)
        if need.readers or parts:
            possible.add(need.candidate)
            needs.append(replace(need, parts=parts))
    return replace(row, needs=tuple(needs))
