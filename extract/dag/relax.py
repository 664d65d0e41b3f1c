"""A lower bound by linear relaxation, and the nodes that it rules out.

Nodes are taken in parts of 0 to 1. A class that is always needed has parts that sum to 1 at least. The parts of the nodes of c that need
z sum to no more than the parts of those nodes of z that do not need c: whoever makes c of z cannot make z of c. GLOP solves this in
floating point; only the prices of its rows are used. They are rounded to whole numbers, with which the bound is computed anew and exactly
(Lagrangian relaxation), so that it holds whatever the solver did.

With f(z) and g(w) in class c of costs 2 and 3, z of cost 4 and w of cost 2, c is needed: the bound is 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extract.dag.graph import Dag
from extract.dag.sets import Sets, bits, mask_of, sets_of

#: prices are multiples of this part of a unit
_SHIFT = 24
#: costs as GLOP sees them: its tolerances are absolute
_SCALE = 1000.0


@dataclass(frozen=True, slots=True)
class Row:
    """sum of parts of `more` - sum of parts of `less` >= `least`; nodes by class and place in it."""

    more: tuple[tuple[int, int], ...]
    less: tuple[tuple[int, int], ...]
    least: int


@dataclass(frozen=True, slots=True)
class Relaxed:
    """A lower bound of every extraction, in units, and the graph without nodes that only dearer extractions than `known` have."""

    bound: int
    dag: Dag


def relaxed(dag: Dag, known: int, seconds: float) -> Relaxed:
    """The bound of a simplified graph and what is left of it; the bound is 0 where GLOP finds none in time."""
    sets = sets_of(dag, context=True)
    rows = list(rows_of(dag, sets))
    prices = _prices(dag, rows, known, seconds)
    if prices is None:
        return Relaxed(0, dag)
    rest = [[n.cost << _SHIFT for n in nodes] for nodes in dag.classes]
    total = 0
    for row, price in zip(rows, prices, strict=True):
        if price:
            total += price * row.least
            for c, i in row.more:
                rest[c][i] -= price
            for c, i in row.less:
                rest[c][i] += price
    # a class takes one node at most
    gain = [min(0, *values) if values else 0 for values in rest]
    total += sum(gain)
    classes = [
        [n for n, left in zip(nodes, values, strict=True) if total - gained + left <= known << _SHIFT]
        for nodes, values, gained in zip(dag.classes, rest, gain, strict=True)
    ]
    return Relaxed(max(0, -(-total >> _SHIFT)), Dag(classes, dag.root))


def rows_of(dag: Dag, sets: Sets) -> Iterator[Row]:
    """What every extraction satisfies."""
    forced = sets.must[dag.root]
    for c in bits(forced):
        yield Row(tuple((c, i) for i in range(len(dag.classes[c]))), (), 1)
    circles = _components(sets)
    for c, nodes in enumerate(dag.classes):
        direct = 0
        for node in nodes:
            direct |= mask_of(node.children)
        readers: dict[int, list[int]] = {}
        for i, needs in enumerate(sets.needs[c]):
            for z in bits(needs & (direct | circles[c])):
                readers.setdefault(z, []).append(i)
        for z, members in readers.items():
            free = tuple((z, i) for i, needs in enumerate(sets.needs[z]) if not needs >> c & 1)
            circular = len(free) < len(dag.classes[z])
            if circular or (direct >> z & 1 and not forced >> z & 1):
                yield Row(free, tuple((c, i) for i in members), 0)


def _components(sets: Sets) -> list[int]:
    """For every class the classes that it can reach and that can reach it."""
    members: dict[int, int] = {}
    for c, above in enumerate(sets.above):
        members[above] = members.get(above, 0) | 1 << c
    return [members[above] for above in sets.above]


def _prices(dag: Dag, rows: list[Row], known: int, seconds: float) -> list[int] | None:
    if seconds <= 0:
        return None
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    solver.SetTimeLimit(max(1, round(seconds * 1000)))
    scale = _SCALE / max(1, known)
    goal, infinity = solver.Objective(), solver.infinity()
    parts = []
    for nodes in dag.classes:
        found = [solver.NumVar(0, 1, "") for _ in nodes]
        for part, node in zip(found, nodes, strict=True):
            goal.SetCoefficient(part, node.cost * scale)
        parts.append(found)
    constraints = []
    for row in rows:
        constraint = solver.Constraint(row.least, infinity)
        for c, i in row.more:
            constraint.SetCoefficient(parts[c][i], 1)
        for c, i in row.less:
            constraint.SetCoefficient(parts[c][i], -1)
        constraints.append(constraint)
    if solver.Solve() != solver.OPTIMAL:
        return None
    return [max(0, int(c.dual_value() / scale * (1 << _SHIFT))) for c in constraints]
