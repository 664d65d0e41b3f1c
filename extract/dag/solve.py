"""Extraction of least DAG cost: greedy, simplified, taken apart, improved and proved, in turns until nothing is open or the time is up.

A turn searches large neighbourhoods of every part, simplifies it by the cost then known, bounds it by the linear relaxation and asks
CP-SAT for something cheaper; the next turn has four times the work, or sixteen times where a part is small. So an easy graph is proved in
the first turn, and a hard one has a good extraction before a solver spends its time on the proof.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from extract.dag.exact import solve
from extract.dag.graph import Dag, Taken, cost_of, keys_of, settled
from extract.dag.greedy import greedy
from extract.dag.parts import parts
from extract.dag.reduce import Reduced, reduced
from extract.dag.relax import relaxed
from extract.dag.search import improved

#: neighbourhoods without success, and solver's deterministic units, of the first turn
PATIENCE, WORK = 16, 1.0
#: nodes up to which CP-SAT comes before the search
SMALL = 2_000
#: searches of a small part in a turn
STARTS = 2
#: how both grow from turn to turn, and the solver's units where a part is small
GROWTH, GROWTH_SMALL = 4, 16
#: costs this close, as a part of the cost, are one
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Extraction:
    """The extraction, its cost and a lower bound of every other in units, and the cost of the greedy one that it started from."""

    taken: Taken
    cost: int
    bound: int
    greedy_cost: int

    @property
    def optimal(self) -> bool:
        return self.cost - self.bound <= TOLERANCE * self.cost


def extract(dag: Dag, seconds: float = 60.0) -> Extraction | None:
    """The cheapest extraction that the time suffices for; None where the root has none. What is proved optimal in time is the same in every
    run."""
    deadline = time.monotonic() + seconds
    start = greedy(dag)
    if start is None:
        return None
    known = cost_of(start)
    first = reduced(dag, known)
    assert first is not None, "simplification lost the extraction that it was given the cost of"
    pieces = sorted((_Piece(piece) for piece in parts(first.dag)), key=lambda piece: piece.dag.node_count)
    turn = 0
    while any(not piece.done for piece in pieces) and time.monotonic() < deadline:
        for i, piece in enumerate(pieces):
            if not piece.done:
                open_pieces = sum(not other.done for other in pieces[i:])
                now = time.monotonic()
                piece.turn(turn, now + (deadline - now) / open_pieces)
        turn += 1
    taken = _decoded(dag, first, pieces, start)
    cost = cost_of(taken)
    bound = min(cost, sum(piece.bound for piece in pieces))
    return Extraction(taken, cost, cost if cost - bound <= TOLERANCE * cost else bound, known)


def _decoded(dag: Dag, first: Reduced, pieces: list[_Piece], start: Taken) -> Taken:
    """The extraction that those of the parts make, or the one at the start where that is as cheap."""
    keys = [key for piece in pieces for key in keys_of(piece.taken)]
    found = settled(dag, [*keys, *first.free])
    assert found is not None, "the extractions of the parts make no extraction of the graph"
    return found if cost_of(found) < cost_of(start) else start


class _Piece:
    """A part, the best extraction known of it, and a lower bound."""

    def __init__(self, dag: Dag) -> None:
        start = greedy(dag)
        assert start is not None, "a part of a simplified graph has no extraction"
        self.dag, self.first, self.taken, self.cost = dag, start, start, cost_of(start)
        self.bound = 0 if any(True for _ in dag.choices()) else self.cost
        #: what may still hold something cheaper
        self.rest = Reduced(dag, ())

    @property
    def done(self) -> bool:
        return self.cost - self.bound <= TOLERANCE * self.cost

    def turn(self, number: int, deadline: float) -> None:
        self.narrow(deadline)
        small = self.rest.dag.node_count <= SMALL
        if number or small:
            self.prove(WORK * (GROWTH_SMALL if small else GROWTH) ** number, deadline)
        patience = PATIENCE * GROWTH**number
        # where one search ends is chance: small parts are searched from the start again, large ones go on
        searches = [(self.first, patience // STARTS)] * STARTS if small else [(self.taken, patience)]
        for i, (origin, patience) in enumerate(searches):
            if not self.done:
                self.take(improved(self.dag, origin, deadline - time.monotonic(), patience, number * STARTS + i))

    def prove(self, work: float, deadline: float) -> None:
        if self.done or time.monotonic() >= deadline:
            return
        solution = solve(self.rest.dag, self.start(), deadline - time.monotonic(), work)
        if solution.taken is not None:
            self.take(settled(self.dag, [*keys_of(solution.taken), *self.rest.free]))
        self.raise_to(solution.bound)

    def start(self) -> Taken:
        """What is known, in what is left: nodes that are still there, and the rest of it greedily."""
        keys = set(keys_of(self.taken))
        kept = ([n for n in nodes if keys.issuperset(n.keys)] or nodes for nodes in self.rest.dag.classes)
        return greedy(Dag(list(kept), self.rest.dag.root)) or {}

    def narrow(self, deadline: float) -> None:
        """Simplify by what is known and by the relaxation, as long as a tenth of the nodes goes."""
        while True:
            size = self.rest.dag.node_count
            for bound in (True, False):
                found = reduced(self.rest.dag, self.cost)
                if found is None:
                    self.bound = self.cost
                    return
                self.rest = Reduced(found.dag, (*self.rest.free, *found.free))
                if bound:
                    relaxation = relaxed(self.rest.dag, self.cost, deadline - time.monotonic())
                    self.raise_to(relaxation.bound)
                    self.rest = Reduced(relaxation.dag, self.rest.free)
            if self.done or self.rest.dag.node_count > 0.9 * size or time.monotonic() >= deadline:
                return

    def take(self, found: Taken | None) -> None:
        assert found is not None, "a simplified part has an extraction that the part does not have"
        if cost_of(found) < self.cost:
            self.taken, self.cost = found, cost_of(found)

    def raise_to(self, bound: int) -> None:
        self.bound = max(self.bound, min(bound, self.cost))
