"""Why a program became what it is: for each function the choices that mattered, with their runners-up, and what stood in the way.

    explained = explain(program)
    explained.functions[0].choices[0].ways          x: loaded as one 2-D tile [64, 64] FP32, by flat.load
    explained.functions[0].choices[0].runner_up     13.4 cycles would be 17.9, page by page

A choice mattered if another one was open and gives another program. Runners-up are programs that were written and priced, none is guessed
(`extract/alternatives.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from egraph_rules.prepared import BANDS, COLUMN_BLOCKS, IN_L1, ONE_BUFFER, ROW_WINDOWS
from extract.allocate import Allocation
from extract.alternatives import EXAMINED, Alternative, alternatives
from extract.legal import is_two_d
from extract.lower import Lowered
from extract.price import Price
from extract.target import PIPES, Target, load_target
from extract.trace import BATCH_LOOPS, PAGE_LOOPS, Pass
from extract.ways import Way, Ways
from pypto_eqsat.driver import Result, optimize
from pypto_eqsat.numbers import cycles
from pypto_eqsat.obstacle_chains import chains
from pypto_eqsat.policy import PolicyCost
from pypto_eqsat.record import Record
from pypto_ir.diagnostics import Diagnostic, Refused
from pypto_ir.stmt import Assign, Call, Function, Program, walk
from pypto_ir.verify.places import statement_text

#: what was done before the choice, in words
PREPARED = {
    ONE_BUFFER: "both arms of a branch write one accumulator, so that no copy joins them",
    ROW_WINDOWS: "windows of rows of an accumulator are pages of a batch, so that they can be packed",
    BATCH_LOOPS: "products of large batches are loops over their pages, so that the program does not grow with the batch",
    IN_L1: "loads that name no memory and feed products only go to L1, from where the matrix unit is fed, and transposes there are views",
    PAGE_LOOPS: "the loop runs once for every group of pages of an accumulator, since L0C cannot hold all of them",
    BANDS: "windows of an accumulator are tiles of their own, since they cannot be packed",
    COLUMN_BLOCKS: "products onto windows of rows are written a column of blocks at a time, since the windows are neither pages nor tiles",
}


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The best program without a choice: its cost, how the values are made in it, and the cycles by pipe of both programs (weighted by
    trips); `proved` where no program without the choice costs less."""

    cost: float
    ways: tuple[Way, ...]
    pipes: tuple[tuple[str, float, float], ...]
    proved: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice: how values are made, and what it costs in cycles. Without a `runner_up` no other program fits, for the reasons in
    `faults`. `capacity` tells what memory decided, where one did."""

    ways: tuple[Way, ...]
    cost: float
    runner_up: RunnerUp | None
    faults: tuple[Diagnostic, ...] = ()
    capacity: str | None = None

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(w.name for w in self.ways))


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The most bytes of a memory that are live together, what it holds (None: no limit), and the statement where that is."""

    memory: str
    bytes: int
    capacity: int | None
    statement: str

    @property
    def most(self) -> str:
        """`Mat: at most 57,344 of 524,288 bytes`."""
        holds = f"of {self.capacity:,} bytes" if self.capacity is not None else "bytes, without limit"
        return f"{self.memory}: at most {self.bytes:,} {holds}"


@dataclass(slots=True)
class Explained:
    """One function. `status` is lowered, kept (the author's text stayed), upstream (upstream's program was a better start), or refused;
    `two_d` where the author's text holds no N-D tile, `obstacles` are the reasons of a refusal, each with the statements that wait for
    it."""

    name: str
    status: str
    two_d: bool = False
    lowered: Lowered | None = None
    policy: PolicyCost | None = None
    prepared: tuple[str, ...] = ()
    choices: list[Choice] = field(default_factory=list)
    forced: int = 0
    left_out: int = 0
    same: list[tuple[str, str]] = field(default_factory=list)
    memory: list[MemoryUse] = field(default_factory=list)
    obstacles: list[tuple[Diagnostic, list[str]]] = field(default_factory=list)


@dataclass(slots=True)
class Explanation:
    """All in-core functions in program order; `result` is None where the program is refused, and `diagnostics` say why."""

    program: Program
    functions: list[Explained]
    result: Result | None
    diagnostics: tuple[Diagnostic, ...]


def explain(program: Program, *, examined: int = EXAMINED, **options: Any) -> Explanation:
    """Optimise a program and say why it became what it is. `examined` bounds the choices of a function that are decided anew, `options`
    are those of `optimize`. A refused program is explained as far as it was understood."""
    record, result, found = Record(), None, tuple[Diagnostic, ...]()
    try:
        result = optimize(program, record=record, policy_cost=True, **options)
    except Refused as refused:
        found = refused.diagnostics
    return explained(program, record, result, found, options.get("target"), examined)


def explained(
    program: Program, record: Record, result: Result | None, found: tuple[Diagnostic, ...], target: str | None, examined: int = EXAMINED
) -> Explanation:
    """The explanation of a run that was recorded: its result, or the reasons of its refusal."""
    machine = load_target(target or program.target)
    functions = []
    for f in program.functions:
        if f.name in record.refused:
            functions.append(Explained(f.name, "refused", obstacles=chains(f, record.refused[f.name])))
        elif f.name in record.lowered:
            policy = result.policy.get(f.name) if result is not None else None
            functions.append(_lowered(f, record.lowered[f.name], policy, machine, examined))
    later = [d for d in found if not any(d in reasons for reasons in record.refused.values())]
    for f in program.functions:
        mine = [d for d in later if d.place.function == f.name]
        if mine:
            _refuse(functions, f, mine)
    return Explanation(program, functions, result, found)


def _refuse(functions: list[Explained], f: Function, found: list[Diagnostic]) -> None:
    """Note what a later step had against a function."""
    known = next((e for e in functions if e.name == f.name), None)
    if known is None:
        known = Explained(f.name, "refused")
        functions.append(known)
    known.status = "refused"
    known.obstacles += chains(f, found)


def _lowered(f: Function, item: Lowered, policy: PolicyCost | None, machine: Target, examined: int) -> Explained:
    status = "upstream" if item.from_other_text else "lowered" if item.changed else "kept"
    result = Explained(f.name, status, is_two_d(f), item, policy, memory=memory_use(item.function, item.allocation, machine))
    for run in item.passes:
        ways = Ways(run.question)
        result.prepared += run.prepared
        found = alternatives(run, ways, examined)
        result.forced += found.forced
        result.left_out += found.left_out
        result.choices += [_choice(run, ways, a) for a in found.items]
        result.same += same_tiles(run)
    return result


def memory_use(function: Function, allocation: Allocation, machine: Target) -> list[MemoryUse]:
    """The peak of every memory that a function uses."""
    statements = list(walk(function.body))
    result = []
    for memory, peak in allocation.live.peaks.items():
        at = statement_text(statements[peak.position]) if peak.position < len(statements) else "the end"
        result.append(MemoryUse(memory.value, peak.bytes, machine.capacity(memory), at))
    return result


def _choice(run: Pass, ways: Ways, a: Alternative) -> Choice:
    cost, chosen = run.best.price.cost, told(ways, a.chosen)
    if not a.chosen:
        chosen = (Way("the whole function", None, "stays as the author wrote it, in 2-D"),)
    if a.found is None:
        return Choice(chosen, cost, None, a.faults, capacity(run, ways, a.chosen))
    runner_up = RunnerUp(a.found.price.cost, told(ways, a.instead), pipes(run.best.price, a.found.price), a.proved)
    return Choice(chosen, cost, runner_up, (), capacity(run, ways, a.chosen))


def told(ways: Ways, candidates: Iterable[int]) -> tuple[Way, ...]:
    """Candidates in words, what belongs to one value in one way; what only takes a value over is left to what hands it on."""
    merged: dict[str, Way] = {}
    for i in candidates:
        if not ways.named(i) or ways.leaf(i):
            continue
        way = ways.way(i)
        known = merged.get(way.name)
        if known is not None and way.words not in known.words.split("; "):
            way = replace(known, words=f"{known.words}; {way.words}", rules=tuple(dict.fromkeys((*known.rules, *way.rules))))
        merged[way.name] = way
    order = {name: n for n, name in enumerate(ways.order)}
    return tuple(sorted(merged.values(), key=lambda w: order.get(w.name, len(order))))


def pipes(chosen: Price, other: Price) -> tuple[tuple[str, float, float], ...]:
    """The pipes that two programs keep busy for different times, and fetching code where it takes them different times, the largest
    difference first."""
    both = [*zip(PIPES, chosen.cycles.pipes, other.cycles.pipes, strict=True), ("fetching code", chosen.code, other.code)]
    differing = [(pipe, a, b) for pipe, a, b in both if abs(a - b) > 1e-9 * max(1.0, a)]
    return tuple(sorted(differing, key=lambda p: -abs(p[2] - p[1])))


def capacity(run: Pass, ways: Ways, chosen: Iterable[int]) -> str | None:
    """What memory had to say in a choice: the program that would be cheapest without memories makes the values in another way, and does
    not fit."""
    first = run.first
    if first is None or first.fits or first.allocation is None or first.price is None:
        return None
    if set(chosen) and not set(chosen) - set(first.chosen):
        return None
    statements = list(walk(first.function.body)) if first.function is not None else []
    parts = []
    for o in first.allocation.overflows:
        at = f" at `{statement_text(statements[o.peak.position])}`" if o.peak.position < len(statements) else ""
        parts.append(f"{o.memory.value} holds {o.capacity:,} bytes, it would need {o.needed:,}{at}")
    names = {w.name for w in told(ways, chosen)}
    wanted = [f"{w.name} {w}" for w in told(ways, (i for i in first.chosen if i not in run.chosen)) if not names or w.name in names]
    by = f" ({'; '.join(wanted[:3])}{'; ..' if len(wanted) > 3 else ''})" if wanted else ""
    return f"the cheapest program of all, {cycles(first.price.cost)} cycles{by}, does not fit: {'; '.join(parts)}"


def same_tiles(run: Pass) -> Iterator[tuple[str, str]]:
    """The author's values whose flat tile is that of an earlier value, although the author makes them apart."""
    graph, first = run.question.graph, dict[int, str]()
    for s in walk(graph.encoded.function.body):
        if isinstance(s, Assign) and isinstance(s.value, Call) and len(s.targets) == 1:
            name = s.target.name
            c = graph.flat.get(graph.encoded.numbers.get(name, -1))
            if c is not None and first.setdefault(c, name) != name:
                yield name, first[c]
