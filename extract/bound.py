"""A lower bound of the cost of every choice that the e-graph holds, with each value where the author computes it.

What the skeleton does is paid by every choice. A class that every legal node of a needed class reads is needed by every choice; it costs at
least the least of its nodes on every pipe. The sum of both, region by region, is a bound; where it meets the cost of the emitted
program, the choice is proved optimal.
"""

from __future__ import annotations

from dataclasses import replace

from egraph_rules.encode import is_store, is_value
from egraph_rules.graph import Graph
from extract.choice import Choice, Option, leaf_form, obligations, roots_of
from extract.cycles import ZERO, Cycles, objective
from extract.price import price
from extract.target import Target
from pypto_ir.stmt import Block, For, Function, If, Scope, While


def lower_bound(graph: Graph, choice: Choice, target: Target, weights: dict[int, float], default_trips: int) -> float:
    """The bound, in the units of `price(..).cost`."""
    rest = price(skeleton(graph.encoded.function), target, default_trips)
    groups: dict[float, Cycles] = {}
    for c in _unavoidable(graph, choice):
        weight = weights.get(c, 0.0)
        groups[weight] = groups.get(weight, ZERO) + _least(choice.options[c])
    # regions of one weight are bounded together: a sum of maxima is at least the maximum of the sums
    fixed: dict[float, Cycles] = {}
    for region in rest.regions:
        fixed[region.trips] = fixed.get(region.trips, ZERO) + region.cycles
    for weight, cycles in groups.items():
        fixed[weight] = fixed.get(weight, ZERO) + cycles
    return objective(fixed.items())


def _least(options: list[Option]) -> Cycles:
    """The least on every pipe over the options of a class."""
    columns = zip(*(o.cycles.values for o in options), strict=True)
    return Cycles(*(min(column) for column in columns))


def _unavoidable(graph: Graph, choice: Choice) -> dict[int, None]:
    """Classes that every choice needs, in a stable order."""
    done: dict[int, None] = {}
    stack = list(reversed(roots_of(graph)))
    while stack:
        c = stack.pop()
        if c in done:
            continue
        done[c] = None
        first, *others = (o.node.children for o in choice.options[c])
        stack.extend(child for child in dict.fromkeys(reversed(first)) if all(child in other for other in others))
        leaf = leaf_form(graph, choice.best(c).node)
        if leaf is not None and not others:
            stack.extend(obligations(graph, *leaf) or ())
    return done


def skeleton(function: Function) -> Function:
    """The function without tile values and stores."""

    def block(statements: Block) -> Block:
        kept = []
        for s in statements:
            if is_value(s) or is_store(s):
                continue
            match s:
                case For(body=body) | While(body=body) | Scope(body=body):
                    s = replace(s, body=block(body))
                case If(then=then, orelse=orelse):
                    s = replace(s, then=block(then), orelse=None if orelse is None else block(orelse))
            kept.append(s)
        return tuple(kept)

    return replace(function, body=block(function.body))
