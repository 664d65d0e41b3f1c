"""What lowering a function asks: its problem, greedy choices to start from, and a bound.

What control flow hands on is chosen all flat, all by pages, or each as its uses like it best; the first of the cheapest is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from egraph_rules.graph import Graph
from extract.bound import lower_bound
from extract.candidates import problem
from extract.choice import FORMS, Choice, Form, choose
from extract.explain import obstacles, too_late
from extract.problem import Problem
from extract.target import Target
from extract.trips import DEFAULT_TRIPS
from extract.weights import class_weights
from pypto_ir.diagnostics import Refused


@dataclass(slots=True)
class Question:
    """A problem, the greedy choices to start from, and a lower bound of every choice."""

    problem: Problem
    choices: list[Choice]
    bound: float


def ask(graph: Graph, target: Target, default_trips: int = DEFAULT_TRIPS) -> Question:
    """The question of a saturated function. Raises `Refused` where a value has no legal form, or none where it is read."""
    weights = class_weights(graph, default_trips)
    free = choose(graph, target, weights)
    if free.missing:
        raise Refused(obstacles(graph, free))
    preferred: tuple[Form, ...] = FORMS if graph.encoded.handovers else ()
    choices = [*(c for c in (choose(graph, target, weights, form) for form in preferred) if not c.missing), free]
    asked = problem(graph, free, target, default_trips)
    late = too_late(asked)
    if late:
        raise Refused(late)
    return Question(asked, choices, lower_bound(graph, asked.least, target, asked.held(), default_trips))
