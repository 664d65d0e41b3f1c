"""The exact extraction, found and proved by OR-Tools CP-SAT.

A variable for every node and every class: a class takes one node or none, and a taken node takes its classes. Within a strongly connected
component, classes have places in an order, and a node's classes stand before its own. One thread and a fixed seed: the same graph gives the
same extraction, as long as the time suffices for the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from extract.dag.graph import Dag, Taken, cost_of, settled
from extract.dag.relax import Row, rows_of
from extract.dag.sets import bits, sets_of

#: largest objective that is given to the solver; costs beyond are rounded down
_BITS = 46


@dataclass(frozen=True, slots=True)
class Solution:
    """The best extraction found, None where none was; a lower bound of all extractions in units; whether the search came to its end."""

    taken: Taken | None
    bound: int
    complete: bool


def solve(dag: Dag, start: Taken, seconds: float, work: float) -> Solution:
    """The cheapest extraction of a simplified graph; `start` is one to improve on, empty where none is
    known. Stops after some seconds, or some work in the solver's deterministic units."""
    from ortools.sat.python import cp_model

    model = _Model(cp_model, dag)
    if start:
        model.hint(start)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_time_in_seconds = max(0.01, seconds)
    solver.parameters.max_deterministic_time = work
    status = solver.solve(model.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solution(None, 0, status == cp_model.INFEASIBLE)
    pairs = ((n, x) for nodes, take in zip(dag.classes, model.take, strict=True) for n, x in zip(nodes, take, strict=True))
    taken = settled(dag, [key for node, x in pairs if solver.value(x) for key in node.keys])
    bound = max(0, round(solver.best_objective_bound)) << model.shift
    if status == cp_model.OPTIMAL and model.shift == 0 and taken is not None:
        bound = cost_of(taken)
    return Solution(taken, bound, status == cp_model.OPTIMAL)


class _Model:
    def __init__(self, cp: Any, dag: Dag) -> None:
        self.model, self.dag = cp.CpModel(), dag
        sets = sets_of(dag, context=True)
        self.forced = sets.must[dag.root]
        self.places: dict[int, Any] = {}
        true = self.model.new_constant(1)
        self.held = [true if self.forced >> c & 1 else self.model.new_bool_var("") for c in range(len(dag.classes))]
        self.take = [self._take(c) for c in range(len(dag.classes))]
        for row in rows_of(dag, sets):
            if row.less:
                self._row(row)
        self._order(sets.above)
        most = sum(max((n.cost for n in nodes), default=0) for nodes in dag.classes)
        self.shift = max(0, most.bit_length() - _BITS)
        pairs = ((n, x) for nodes, take in zip(dag.classes, self.take, strict=True) for n, x in zip(nodes, take, strict=True))
        self.model.minimize(sum((n.cost >> self.shift) * x for n, x in pairs))

    def _take(self, c: int) -> list[Any]:
        nodes = self.dag.classes[c]
        if len(nodes) == 1:
            return [self.held[c]]
        take = [self.model.new_bool_var("") for _ in nodes]
        self.model.add_exactly_one([*take, self.held[c].negated()])
        return take

    def _row(self, row: Row) -> None:
        """Whoever is taken of the readers needs one of the nodes that are read."""
        reader = row.less[0][0]
        some = [self.take[c][i] for c, i in row.more]
        if row.more and len(row.more) == len(self.take[row.more[0][0]]):
            some = [self.held[row.more[0][0]]]
        readers = {i for _, i in row.less}
        if len(readers) == len(self.take[reader]):
            self.model.add_bool_or([*some, self.held[reader].negated()])
            return
        for i in sorted(readers):
            self.model.add_bool_or([*some, self.take[reader][i].negated()])
        others = [x for i, x in enumerate(self.take[reader]) if i not in readers]
        self.model.add_bool_or([*some, *others, self.held[reader].negated()])

    def _order(self, above: list[int]) -> None:
        """Places for classes that can reach each other."""
        for c, nodes in enumerate(self.dag.classes):
            for node, x in zip(nodes, self.take[c], strict=True):
                for z in sorted(node.children):
                    if above[c] >> z & 1:
                        size = sum(1 for other in bits(above[c]) if above[other] >> c & 1)
                        for y in (c, z):
                            if y not in self.places:
                                self.places[y] = self.model.new_int_var(0, size - 1, "")
                        self.model.add(self.places[z] < self.places[c]).only_enforce_if(x)

    def hint(self, start: Taken) -> None:
        for c, (nodes, take) in enumerate(zip(self.dag.classes, self.take, strict=True)):
            if len(nodes) > 1:
                for node, x in zip(nodes, take, strict=True):
                    self.model.add_hint(x, c in start and start[c].keys == node.keys)
            if not self.forced >> c & 1:
                self.model.add_hint(self.held[c], c in start)
        for c, place in self._places_of(start).items():
            self.model.add_hint(self.places[c], place)

    def _places_of(self, start: Taken) -> dict[int, int]:
        """The least place of every class that has one: how many ordered classes stand below it at most."""
        result: dict[int, int] = {}
        waiting = [self.dag.root]
        while waiting:
            c = waiting[-1]
            below = [z for z in start[c].children if z in self.places] if c in self.places else []
            missing = [z for z in start[c].children if z not in result]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            result[c] = 1 + max((result[z] for z in below), default=-1)
        return {c: place for c, place in result.items() if c in self.places}
