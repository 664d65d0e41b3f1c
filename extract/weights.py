"""How often the region of every class runs: the trip count of the loops around the statement that defines it."""

from __future__ import annotations

from dataclasses import dataclass, field

from egraph_rules.graph import Graph
from extract.price import ARM_TRIPS
from extract.trips import DEFAULT_TRIPS, Interval, interval, loop_range, nested, parameter_ranges, trips
from pypto_ir.expr import Var
from pypto_ir.stmt import Assign, Block, Call, For, FunctionCall, If, Scope, Stmt, Submit, While
from pypto_ir.types import ScalarType


@dataclass(slots=True)
class _Walk:
    """Runs of every statement for one run of the function: of named values, and of stores by their number."""

    stores_by_id: dict[int, int]
    default_trips: int
    ranges: dict[str, Interval]
    names: dict[str, float] = field(default_factory=dict)
    stores: dict[int, float] = field(default_factory=dict)

    def block(self, statements: Block, weight: float) -> None:
        for s in statements:
            self.statement(s, weight)

    def statement(self, s: Stmt, weight: float) -> None:
        if id(s) in self.stores_by_id:
            self.stores[self.stores_by_id[id(s)]] = weight
        match s:
            case Assign(targets=targets, value=value):
                for target in targets:
                    self.names[target.name] = weight
                    if isinstance(target.type, ScalarType) and not isinstance(value, Call | FunctionCall | Submit):
                        bounds = interval(value, self.ranges)
                        if bounds != (None, None):
                            self.ranges[target.name] = bounds
            case For(var=Var(name=name), body=body):
                count = trips(s, self.ranges, self.default_trips)
                self.ranges[name] = loop_range(s, self.ranges)
                self.block(body, nested(weight, count))
            case While(body=body):
                self.block(body, nested(weight, self.default_trips))
            case If(then=then, orelse=orelse):
                self.block(then, weight * ARM_TRIPS)
                self.block(orelse or (), weight * ARM_TRIPS)
            case Scope(body=body):
                self.block(body, weight)


def class_weights(graph: Graph, default_trips: int = DEFAULT_TRIPS) -> dict[int, float]:
    """Runs of the region of every class that an author's statement holds (flat form, pages, store): the least where several do."""
    encoded = graph.encoded
    walk = _Walk(encoded.stores, default_trips, dict(parameter_ranges(encoded.function)))
    walk.block(encoded.function.body, 1.0)
    result: dict[int, float] = {}

    def least(c: int | None, weight: float) -> None:
        if c is not None:
            result[c] = min(result.get(c, weight), weight)

    for name, number in encoded.numbers.items():
        if name in walk.names:
            least(graph.flat.get(number), walk.names[name])
            least(graph.families.get(number), walk.names[name])
    for number, weight in walk.stores.items():
        least(graph.writes[number], weight)
    return result
