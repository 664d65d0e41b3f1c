"""The price of a function: cycles per region, weighted by how often the region runs.

`for k in range(8)` whose body loads 836 cycles and multiplies 533 is one region of 8 trips beside the
function body; its cost is `8 * (836 + (836 + 533 + ..) / 16)`. A loop inside it is a region of its own with
the product of the trips, and each arm of a branch is one with half of them: an arm runs every other time on
average, so that what one arm alone needs is cheapest inside it and what both arms need costs the same inside
and in front. The body of a scope belongs to the region around it.

Statements of the skeleton cost scalar cycles: a trip of a loop two (count and compare), a branch one, every
tile that a trip or a branch hands on one, an assigned expression with an operator one, a call of a function one
(the called function has a price of its own). Index arithmetic written inside an operand is part of the issue of its instruction.
Whatever costs a cycle is one static instruction of the function, however often it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from extract.cost import call_cost
from extract.cycles import ZERO, Cycles, objective
from extract.target import Target
from extract.trips import DEFAULT_TRIPS, Interval, interval, loop_range, nested, parameter_ranges, trips
from pypto_ir.expr import Binary, Cast, Unary, Var
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
    Carry,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Program,
    Scope,
    Stmt,
    Submit,
    While,
)
from pypto_ir.types import ScalarType, TileType, TupleType, Type, UnknownType

#: the share of a branch's trips that each of its arms runs
ARM_TRIPS = 0.5
#: scalar cycles of one trip of a loop, of one branch, and of one tile that either hands on
LOOP_SCALARS, BRANCH_SCALARS, HANDED_SCALARS = 2.0, 1.0, 1.0


@dataclass(frozen=True, slots=True)
class RegionPrice:
    """A region: `kind` is body, for, while, then or else; `label` is the loop variable, if any; `parent` is
    the index of the region around it. `cycles` are those of one run, `trips` the runs per run of the
    function."""

    kind: str
    label: str | None
    parent: int | None
    trips: float
    cycles: Cycles


@dataclass(frozen=True, slots=True)
class Price:
    """What a function costs: `cost` is the objective, `cycles` and `traffic` (bytes per channel) are weighted
    by trips. `instructions` are those of its text, `code` the cycles of `cost` that it takes to fetch them."""

    cost: float
    cycles: Cycles
    traffic: Mapping[str, float]
    regions: tuple[RegionPrice, ...]
    instructions: int
    code: float

    @property
    def memory_bytes(self) -> float:
        """Bytes to and from global memory."""
        return sum(size for channel, size in self.traffic.items() if "DDR" in channel.split("->"))


def price(function: Function, target: Target, default_trips: int = DEFAULT_TRIPS) -> Price:
    """The price of one run of a function; loops whose bounds say nothing run `default_trips` times. Linear in
    its size."""
    work = _Work(target, default_trips, dict(parameter_ranges(function)))
    work.region("body", None, None, 1.0, function.body)
    regions = tuple(RegionPrice(r.kind, r.label, r.parent, r.trips, Cycles(*r.sums)) for r in work.regions)
    total, instructions = ZERO, round(sum(r.cycles.code for r in regions))
    for r in regions:
        total = total + r.cycles * r.trips
    cost = objective(((r.trips, r.cycles) for r in regions), target.code)
    return Price(cost, replace(total, code=float(instructions)), work.traffic, regions, instructions, target.code.cost(instructions))


def price_program(program: Program, target: Target, default_trips: int = DEFAULT_TRIPS) -> dict[str, Price]:
    """The prices of the in-core functions of a program, by name in program order."""
    return {f.name: price(f, target, default_trips) for f in program.functions if f.in_core}


@dataclass(slots=True)
class _Region:
    kind: str
    label: str | None
    parent: int | None
    trips: float
    sums: list[float] = field(default_factory=lambda: [0.0] * len(ZERO.values))

    def scalar(self, cycles: float) -> None:
        """One scalar instruction of the skeleton, if it takes any cycles."""
        self.add(Cycles(s=cycles, code=float(cycles > 0)))

    def add(self, cycles: Cycles) -> None:
        for i, value in enumerate(cycles.values):
            self.sums[i] += value


class _Work:
    def __init__(self, target: Target, default_trips: int, ranges: dict[str, Interval]) -> None:
        self.target, self.default_trips, self.ranges = target, default_trips, ranges
        self.regions: list[_Region] = []
        self.traffic: dict[str, float] = {}

    def region(self, kind: str, label: str | None, parent: int | None, count: float, block: Block, scalars: float = 0.0) -> None:
        """Price a block that is a region of its own; `scalars` are the cycles of a trip beside its statements."""
        region = _Region(kind, label, parent, count)
        self.regions.append(region)
        region.scalar(scalars)
        self.block(block, region, len(self.regions) - 1)

    def block(self, block: Block, region: _Region, at: int) -> None:
        for s in block:
            self.statement(s, region, at)

    def statement(self, s: Stmt, region: _Region, at: int) -> None:
        match s:
            case Assign(targets=targets, value=Call() as call):
                self.call(call, _result(targets), region)
            case Eval(value=Call() as call):
                self.call(call, UnknownType(), region)
            case Assign(value=FunctionCall() | Submit()) | Eval():
                region.scalar(1.0)
            case Assign(targets=(Var(name=name, type=ScalarType()),), value=value):
                if isinstance(value, Unary | Binary | Cast):
                    region.scalar(1.0)
                self.ranges[name] = interval(value, self.ranges)  # type: ignore[arg-type]
            case For(var=var, body=body):
                count = trips(s, self.ranges, self.default_trips)
                self.ranges[var.name] = loop_range(s, self.ranges)
                self.region("for", var.name, at, nested(region.trips, count), body, LOOP_SCALARS + _handed(s.carries))
            case While(body=body):
                self.region("while", None, at, nested(region.trips, self.default_trips), body, LOOP_SCALARS + _handed(s.carries))
            case If(then=then, orelse=orelse, results=results):
                region.scalar(BRANCH_SCALARS + _handed(results))
                self.region("then", None, at, region.trips * ARM_TRIPS, then)
                if orelse is not None:
                    self.region("else", None, at, region.trips * ARM_TRIPS, orelse)
            case Scope(body=body):
                self.block(body, region, at)

    def call(self, call: Call, result: Type, region: _Region) -> None:
        priced = call_cost(call, result, self.target)
        region.add(priced.cycles)
        for channel, size in priced.traffic:
            self.traffic[channel] = self.traffic.get(channel, 0.0) + size * region.trips


def _handed(items: Sequence[Carry | Var]) -> float:
    """Scalar cycles for the tiles that a trip or a branch hands on."""
    names = (i.var if isinstance(i, Carry) else i for i in items)
    return HANDED_SCALARS * sum(isinstance(v.type, TileType) for v in names)


def _result(targets: tuple[Var, ...]) -> Type:
    return targets[0].type if len(targets) == 1 else TupleType(tuple(t.type for t in targets))
