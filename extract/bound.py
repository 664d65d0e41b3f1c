"""A lower bound of the cost of every choice that the e-graph holds.

What the skeleton does is paid by every choice. A class that every legal node of a needed class reads is needed by every choice; it costs at
least the least of its nodes on every pipe. Where only regions of 8 trips may hold a class, its cycles are paid 8 times there and may fill
the busiest pipe; where it may also stand in the body around, it is sure to be paid once, and only its share of the sum of pipes: the
busiest pipe may be another one. Where the bound meets the cost of the emitted program, the choice is proved optimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import fsum

from egraph_rules.encode import is_store, is_value
from egraph_rules.graph import Graph
from extract.choice import Choice, Option, leaf_form, obligations, roots_of
from extract.cycles import EPSILON, ZERO, Cycles, objective
from extract.price import price
from extract.target import Target
from pypto_ir.expr import Var
from pypto_ir.stmt import Block, For, Function, If, Scope, While
from pypto_ir.types import TileType


def lower_bound(graph: Graph, choice: Choice, target: Target, held: Mapping[int, tuple[float, ...]], default_trips: int) -> float:
    """The bound, in the units of `price(..).cost`; `held[c]` are the trips of the regions that may hold class c, each once."""
    rest = price(skeleton(graph.encoded.function), target, default_trips)
    # regions of one weight are bounded together: a sum of maxima is at least the maximum of the sums
    groups: dict[float, Cycles] = {}
    code = 0.0
    for region in rest.regions:
        groups[region.trips] = groups.get(region.trips, ZERO) + region.cycles
    shares = []
    for c in _unavoidable(graph, choice):
        least = _least(choice.options[c])
        code += least.code
        match held.get(c, ()):
            case (trips,):
                groups[trips] = groups.get(trips, ZERO) + least
            case (_, *_) as several:
                shares.append(min(several) * EPSILON * least.total)
    return fsum((objective(groups.items()), *shares, target.code.cost(rest.instructions + code)))


def surely_code(graph: Graph, choice: Choice) -> float:
    """The static instructions of the classes that every choice needs."""
    return fsum(_least(choice.options[c]).code for c in _unavoidable(graph, choice))


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
    """The function without tile values, stores, and what is handed on in a form of its own choosing."""

    def stays(v: Var) -> bool:
        return not isinstance(v.type, TileType) or v.type.rank <= 2

    def block(statements: Block) -> Block:
        kept = []
        for s in statements:
            if is_value(s) or is_store(s):
                continue
            match s:
                case For(body=body, carries=carries) | While(body=body, carries=carries):
                    s = replace(s, body=block(body), carries=tuple(c for c in carries if stays(c.var)))
                case Scope(body=body):
                    s = replace(s, body=block(body))
                case If(then=then, orelse=orelse, results=results):
                    orelse = None if orelse is None else block(orelse)
                    s = replace(s, then=block(then), orelse=orelse, results=tuple(filter(stays, results)))
            kept.append(s)
        return tuple(kept)

    return replace(function, body=block(function.body))
