"""What comes of a choice: its program, price and places, and what that says of other choices.

A program is judged as a whole: emitted, repaired, priced and placed. What is found is then laid at the door of the candidates that it
comes from, and holds for every choice with the same of them: the copy in front of `u = assemble(x, s)` is due wherever x and u are made
and read as here, whatever the rest of the function does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from extract.allocate import Allocation, Overflow, allocate, capacity_faults
from extract.candidates import priced_regions
from extract.cleanup import without_dead_tiles
from extract.clock import Clock
from extract.cost import call_cost
from extract.cuts import Cut, Row
from extract.cycles import ZERO, Cycles
from extract.emit import NotAvailable, emit
from extract.gaps import packed
from extract.liveness import Buffer
from extract.plan import plan
from extract.price import Price, price
from extract.problem import Demand, Problem
from extract.repair import linear
from extract.rows import Rows
from extract.target import Target
from pypto_ir.diagnostics import Diagnostic, Place, declare
from pypto_ir.expr import Var
from pypto_ir.stmt import Assign, Block, Call, For, Function, If, Scope, While, definitions, walk
from pypto_ir.verify.linearity import violations

#: cycles that a program costs beside its choice: region, the class or tile that they are for, None where that is not known
Surplus: TypeAlias = tuple[int, str | int | None, Cycles]
#: cycles that are no difference between sums of floats
LEAST = 1e-6

declare(X002="a chosen value cannot be emitted where it is needed")


@dataclass(slots=True)
class Verdict:
    """A choice as a program; `faults` say why it is none where `allocation` is None, or does not fit. `origins` gives the class that
    a tile was written for, `surplus` what the program costs beside the choice."""

    chosen: list[int]
    function: Function | None = None
    price: Price | None = None
    allocation: Allocation | None = None
    faults: list[Diagnostic] = field(default_factory=list)
    origins: dict[str, int] = field(default_factory=dict)
    surplus: list[Surplus] = field(default_factory=list)
    blamed: tuple[str, ...] | None = None

    @property
    def fits(self) -> bool:
        return self.allocation is not None and self.allocation.fits

    @property
    def excess(self) -> float:
        """How far a program is from fitting: what it needs over what there is, in the memory where that is most."""
        if self.allocation is None:
            return float("inf")
        return max((o.needed / o.capacity if o.capacity else float("inf") for o in self.allocation.overflows), default=0.0)


@dataclass(slots=True)
class Lesson:
    """What a verdict says of other choices; `sure` False where a placement was not found, though there may be one."""

    cuts: list[Cut]
    rows: list[Row]
    sure: bool = True

    @property
    def nothing(self) -> bool:
        return not self.cuts and not self.rows


class Judge:
    """Judges the choices of one problem for a target."""

    def __init__(self, problem: Problem, target: Target, default_trips: int, clock: Clock | None = None) -> None:
        self.problem, self.target, self.default_trips = problem, target, default_trips
        self.clock = clock or Clock()
        self._rows: Rows | None = None
        self._tops: dict[int, int] | None = None

    def judge(self, chosen: list[int]) -> Verdict:
        """The program of a choice, or why there is none."""
        problem, verdict = self.problem, Verdict(chosen)
        function = problem.graph.encoded.function
        try:
            written = without_dead_tiles(emit(problem.graph, problem.choice, plan(problem, chosen), verdict.origins))
        except NotAvailable as error:
            verdict.faults = [internal("X002", function, str(error))]
            return verdict
        made = written
        for repair in (packed, linear):
            made, problems = repair(made)
            if problems:
                verdict.faults, verdict.blamed = problems, _blamed(made)
                return verdict
        self.clock.lap("emit")
        its_price = price(made, self.target, self.default_trips)
        verdict.surplus = self._surplus(verdict, written, made)
        verdict.surplus += self._unexplained(verdict, its_price)
        self.clock.lap("price")
        return self.placed(verdict, made, its_price)

    def placed(self, verdict: Verdict, function: Function, its_price: Price) -> Verdict:
        """The verdict with places for the tiles of its program."""
        verdict.function, verdict.price = function, its_price
        verdict.allocation = allocate(function, self.target)
        verdict.faults = capacity_faults(function, verdict.allocation)
        self.clock.lap("allocate")
        return verdict

    def _surplus(self, verdict: Verdict, before: Function, after: Function) -> list[Surplus]:
        """What the program costs beside its choice, region by region: the tiles that repair added, and what was made of a class beyond
        the least."""
        known = {v.name for s in walk(before.body) for v in definitions(s)}
        numbers = priced_regions(self.problem.graph, self.problem.regions)
        copies: list[Surplus] = []
        made: dict[tuple[int, int], Cycles] = {}
        for number, target, call in _calls(after):
            cycles, region = call_cost(call, target.type, self.target).cycles, numbers[number]
            c = verdict.origins.get(target.name)
            if c is not None:
                made[(c, region)] = made.get((c, region), ZERO) + cycles
            elif target.name not in known:
                source = call.args[0] if call.args else None
                copies.append((region, source.name if isinstance(source, Var) else target.name, cycles))
        for i in verdict.chosen:
            k = self.problem.candidates[i]
            if (k.c, k.region) in made:
                made[(k.c, k.region)] = made[(k.c, k.region)] + k.cycles * -1.0
        rest = [(region, c, Cycles(*(max(0.0, v) for v in cycles.values))) for (c, region), cycles in made.items()]
        return [item for item in (*copies, *rest) if item[2] != ZERO]

    def _unexplained(self, verdict: Verdict, its_price: Price) -> list[Surplus]:
        """What the program costs beside its choice and beside the surplus that is laid at a door: it is that of the whole choice."""
        problem = self.problem
        known = problem.loads_with(verdict.chosen)
        for region, _, cycles in verdict.surplus:
            known[region] = known.get(region, ZERO) + cycles
        found: list[Surplus] = []
        for number, priced in zip(priced_regions(problem.graph, problem.regions), its_price.regions, strict=True):
            more = Cycles(*(v if v > LEAST else 0.0 for v in (priced.cycles + known.get(number, ZERO) * -1.0).values))
            if more != ZERO:
                found.append((number, None, more))
        return found

    # what a verdict says of other choices

    def lesson(self, verdict: Verdict) -> Lesson:
        """Conditions that this choice breaks, or that it costs more by; none where its program fits and costs what was thought."""
        found = Lesson([], [])
        for groups, surplus in self._by_group(verdict).items():
            cost: dict[int, Cycles] = {}
            for region, cycles in surplus:
                cost[region] = cost.get(region, ZERO) + cycles
            found.cuts.append(self._cut(verdict.chosen, groups, tuple(sorted(cost.items(), key=lambda item: item[0]))))
        if verdict.allocation is None:
            found.cuts.append(self._cut(verdict.chosen, self._groups(verdict, verdict.blamed)))
            return found
        for overflow in verdict.allocation.overflows:
            row = self.rows.worst(verdict.chosen, overflow.memory, overflow.capacity)
            if row is not None:
                found.rows.append(row)
                continue
            found.sure &= overflow.proved or not overflow.fragmented
            names = [name for b in _cause(overflow, verdict.allocation) for name in _sources(b, verdict.origins)]
            found.cuts.append(self._cut(verdict.chosen, self._groups(verdict, names)))
        return found

    @property
    def rows(self) -> Rows:
        if self._rows is None:
            self._rows = Rows(self.problem, self.target)
        return self._rows

    def _by_group(self, verdict: Verdict) -> dict[frozenset[int] | None, list[tuple[int, Cycles]]]:
        """The surplus by the groups of candidates that it comes from."""
        result: dict[frozenset[int] | None, list[tuple[int, Cycles]]] = {}
        for region, source, cycles in verdict.surplus:
            result.setdefault(self._groups(verdict, None if source is None else [source]), []).append((region, cycles))
        return result

    def _groups(self, verdict: Verdict, names: Sequence[str | int] | None) -> frozenset[int] | None:
        """The groups of candidates that tiles, or classes, belong to; None for all groups, where a tile is of unknown origin."""
        if names is None:
            return None
        graph, found = self.problem.graph, set[int]()
        for name in names:
            c = name if isinstance(name, int) else verdict.origins.get(name)
            if c is None and name in graph.encoded.numbers:
                c = graph.flat.get(graph.encoded.numbers[name])
            if c is None:
                return None
            found.update(self.group(i) for i in self.problem.by_class.get(c, ()))
        return frozenset(found)

    def group(self, i: int) -> int:
        """The group of a candidate: candidates that may serve each other, directly or through others. How the tiles of a group are
        written depends on the choice within the group alone."""
        if self._tops is None:
            self._tops = self._grouped()
        return self._tops[i]

    def _grouped(self) -> dict[int, int]:
        problem = self.problem
        tops = {i: i for members in problem.by_class.values() for i in members}

        def find(i: int) -> int:
            while tops[i] != i:
                tops[i] = tops[tops[i]]
                i = tops[i]
            return i

        for i in tops:
            k = problem.candidates[i]
            for d in (*k.demands, *k.obligations):
                for j in problem.servers(d):
                    tops[find(j)] = find(i)
        for d in problem.roots:
            first, *others = problem.servers(d)
            for j in others:
                tops[find(j)] = find(first)
        return {i: find(i) for i in tops}

    def _cut(self, chosen: list[int], groups: frozenset[int] | None, extra: tuple[tuple[int, Cycles], ...] | None = None) -> Cut:
        """All choices that serve every demand of these groups as this one does."""
        problem, members = self.problem, set(chosen)
        taken: dict[int, None] = {}
        absent: dict[int, None] = {}
        places: set[tuple[int, int]] = set()
        waiting: list[Demand] = list(problem.roots)
        while waiting:
            for j in problem.servers(waiting.pop()):
                if groups is not None and self.group(j) not in groups:
                    break
                if j not in members:
                    absent[j] = None
                elif j not in taken:
                    k = problem.candidates[j]
                    taken[j] = None
                    places.add((k.c, k.region))
                    waiting += [*k.demands, *k.obligations]
        # a region makes a class in one way only
        left = [j for j in absent if problem.candidates[j].c < 0 or (problem.candidates[j].c, problem.candidates[j].region) not in places]
        return Cut(tuple(sorted(taken)), tuple(sorted(left)), extra)


def _calls(function: Function) -> Iterator[tuple[int, Var, Call]]:
    """The calls whose result has a name, with the number of their region in the order of `price`."""
    regions = 0

    def block(statements: Block, region: int) -> Iterator[tuple[int, Var, Call]]:
        nonlocal regions
        for s in statements:
            match s:
                case Assign(targets=(target,), value=Call() as call):
                    yield region, target, call
                case For(body=body) | While(body=body):
                    regions += 1
                    yield from block(body, regions)
                case If(then=then, orelse=orelse):
                    for arm in (then, orelse):
                        if arm is not None:
                            regions += 1
                            yield from block(arm, regions)
                case Scope(body=body):
                    yield from block(body, region)

    yield from block(function.body, 0)


def _blamed(function: Function) -> tuple[str, ...] | None:
    """The tiles that are read after they were overwritten; None where that is not what is wrong."""
    return tuple(dict.fromkeys(v.var for v in violations(function))) or None


def _cause(overflow: Overflow, allocation: Allocation) -> Iterable[Buffer]:
    """The buffers that make a memory overflow: the largest at the worst point; all of the memory where only their order is at fault."""
    if overflow.fragmented:
        yield from (b for b in allocation.live.buffers if b.memory is overflow.memory)
        return
    total = 0
    for b in sorted(overflow.peak.live, key=lambda b: (-b.total, b.first)):
        yield b
        total += b.total
        if total > overflow.capacity:
            return


def _sources(b: Buffer, origins: dict[str, int]) -> list[str]:
    """The tiles that a buffer was made for: its own, or those that it is a copy of."""
    if b.statement is None:
        return []
    call = b.statement.value if isinstance(b.statement, Assign) else None
    if b.name not in origins and isinstance(call, Call) and call.op == "tile.move" and isinstance(call.args[0], Var):
        return [call.args[0].name]
    return [b.name]


def internal(code: str, function: Function, message: str) -> Diagnostic:
    """The diagnostic of a fault of the optimiser itself."""
    return Diagnostic(
        code, message.strip(), Place(function=function.name), "this is a fault of the optimiser: please report it with the program"
    )
