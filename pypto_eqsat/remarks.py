"""Remarks about a run, as compilers have them: what was done (passed), what could not be (missed), what was found (analysis).

    kernel.json:12:4 function q_proj, q1 = tile.store from q.py:31: remark[passed:store.flat]: stored as one tile

A remark is asked for by `kind:name:function`: `passed:` matches all that was done, `:pages\\.` what rules of pages did, `:q_proj$` what
is said of one function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from extract.machine import FAMILIES
from extract.trace import Pass
from extract.ways import Ways
from pypto_eqsat.explain_text import policy_text, proof
from pypto_eqsat.explanation import PREPARED, capacity, memory_use, same_tiles
from pypto_eqsat.numbers import change, count, cycles
from pypto_eqsat.obstacle_chains import chains
from pypto_eqsat.record import Record
from pypto_ir.diagnostics import Diagnostic, Place
from pypto_ir.json_place import path_text, steps_of
from pypto_ir.stmt import Function, Program, Stmt, definitions
from pypto_ir.types import TileType
from pypto_ir.verify.places import statement_text, walk_paths

if TYPE_CHECKING:
    from extract.lower import Lowered
    from extract.target import Target
    from pypto_eqsat.driver import Result

PASSED, MISSED, ANALYSIS = "passed", "missed", "analysis"
#: what a rule recorded where its side condition failed, in words
_REASONS = {
    "gaps": "since its valid region is no run of rows of the collapse",
    "repeats": "since it is repeated along an outer axis of the result",
}


@dataclass(frozen=True, slots=True)
class Remark:
    """One remark: its kind, the rule or the subject by name, the message, where, and numbers for machines."""

    kind: str
    name: str
    message: str
    place: Place
    values: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}:{self.place.function or ''}"

    def __str__(self) -> str:
        where = str(self.place)
        return f"{where}{': ' if where else ''}remark[{self.kind}:{self.name}]: {self.message}"


def remarks(program: Program, record: Record, result: Result | None, machine: Target) -> list[Remark]:
    """All remarks about a run, by function in program order: what was done, what was missed, what was found."""
    found: list[Remark] = []
    for number, f in enumerate(program.functions):
        places = _Places(number, f)
        if f.name in record.refused:
            found += _refused(f, record.refused[f.name], places)
        elif f.name in record.lowered:
            item = record.lowered[f.name]
            done = [*_other_start(f, item, places)]
            for run in item.passes:
                ways = Ways(run.question)
                done += [*_passed(run, ways, places), *_missed(run, ways, places)]
            found += sorted(done, key=lambda r: places.order(r.place))
            found += [*_limits(item, places), *_analysis(item, places, machine, result)]
    return [*found, *(_scales(result) if result is not None else ())]


def matching(items: Iterable[Remark], pattern: str) -> list[Remark]:
    """The remarks whose `kind:name:function` a regular expression is found in. Raises `re.error`."""
    wanted = re.compile(pattern)
    return [r for r in items if wanted.search(r.key)]


class _Places:
    """Where the names of one function are defined in the program file."""

    def __init__(self, number: int, f: Function) -> None:
        self.f, self.path = f, ("functions", number)
        self.named: dict[str, tuple[tuple[str | int, ...], Stmt]] = {}
        for path, s in walk_paths(f.body, (*self.path, "body")):
            for name in [*(v.name for v in definitions(s)), *(c.var.name for c in getattr(s, "carries", ()))] or [statement_text(s)]:
                self.named.setdefault(name, (path, s))

    def order(self, place: Place) -> tuple[int, ...]:
        """Where a place comes in program order."""
        return tuple(step for step in steps_of(place.path or "") if isinstance(step, int))

    def name(self, place: Place) -> str | None:
        """The name that the statement of a place goes by here."""
        text = place.statement or ""
        return next((n for n in (text.partition(" = ")[0], text) if n in self.named), None)

    def of(self, name: str | None = None) -> Place:
        """The place of the statement that makes a name, that of the function where there is none."""
        known = None if name is None else self.named.get(name)
        if known is None:
            return Place(path=path_text(self.path), function=self.f.name, statement=name)
        path, s = known
        return Place(path=path_text(path), function=self.f.name, statement=statement_text(s), loc=s.loc)


def placed(program: Program, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics that name a function, and a statement of it, with the paths of these, so that they get lines."""
    numbers = {f.name: i for i, f in enumerate(program.functions)}
    known: dict[str, _Places] = {}
    result = []
    for d in diagnostics:
        name = d.place.function
        if name in numbers and d.place.path is None and d.place.line is None:
            if name not in known:
                known[name] = _Places(numbers[name], program.functions[numbers[name]])
            path = known[name].of(known[name].name(d.place)).path
            d = replace(d, place=replace(d.place, path=path))
        result.append(d)
    return result


def _passed(run: Pass, ways: Ways, places: _Places) -> Iterator[Remark]:
    for name in run.prepared:
        yield Remark(PASSED, name, PREPARED[name], places.of())
    for i in run.chosen:
        if not ways.named(i) or ways.leaf(i) or _as_written(run, ways, i):
            continue
        way = ways.way(i)
        rules = ", ".join(way.rules[1:])
        k = run.question.candidates[i]
        trips = run.question.regions.items[k.region].trips
        values = (("cycles", k.cycles.total), ("trips", trips), ("rules", list(way.rules)))
        also = f" (also by {rules})" if rules else ""
        yield Remark(PASSED, way.rules[0] if way.rules else "placement", f"{way}{also}", places.of(way.name), values)
    for name, other in same_tiles(run):
        yield Remark(PASSED, "same-tile", f"{name} is the 2-D tile of {other}: it takes no op of its own", places.of(name))


def _other_start(f: Function, item: Lowered, places: _Places) -> Iterator[Remark]:
    """That upstream's program was lowered in place of the author's, and what the author's misses."""
    if not item.from_other_text:
        return
    text = f"lowered from upstream's program at {cycles(item.cost)} cycles"
    if item.beaten is None:
        yield Remark(PASSED, "upstream-start", f"{text}; the rules give no 2-D form of the author's text", places.of())
        yield from _refused(f, item.refusal, places)
        return
    yield Remark(PASSED, "upstream-start", f"{text}; what the rules make of the author's costs {cycles(item.beaten.cost)}", places.of())
    for run in item.beaten.passes:
        yield from _missed(run, Ways(run.question), places)


def _as_written(run: Pass, ways: Ways, i: int) -> bool:
    """True for a 2-D value that is made where and as the author makes it."""
    k, node = run.question.candidates[i], ways.node(i)
    if node is None or not k.own or node.name in FAMILIES or node.name not in ("Load2", "Op2", "Create2", "Full2", "Store2", "Reshape2"):
        return False
    graph = run.question.graph
    if node.name == "Store2":
        return graph.tables.stores[node.data[0]].tile.rank <= 2
    number = graph.encoded.numbers.get(ways.sites[k.c][0])
    t = graph.encoded.types[number] if number is not None else None
    return isinstance(t, TileType) and t.rank <= 2


def _missed(run: Pass, ways: Ways, places: _Places) -> Iterator[Remark]:
    graph = run.question.graph
    text = capacity(run, ways, run.chosen)
    if text is not None and run.first is not None and run.first.allocation is not None:
        for o in run.first.allocation.overflows:
            values = (("memory", o.memory.value), ("capacity", o.capacity), ("needed", o.needed))
            yield Remark(MISSED, "capacity", text, places.of(), values)
    for name, number in graph.encoded.numbers.items():
        words = " and ".join(_REASONS[r] for r in graph.obstacles.get(graph.values[number], ()) if r in _REASONS)
        formed = graph.flat.get(number) in run.question.choice.options
        if words and not formed and graph.encoded.types[number].rank > 2:
            yield Remark(MISSED, "flat", f"{name}: no op takes it as one 2-D tile, {words}", places.of(name))


def _limits(item: Lowered, places: _Places) -> Iterator[Remark]:
    for what, limit in (("saturation", item.report.limit), ("choice", item.limit)):
        if limit:
            yield Remark(MISSED, f"limit.{what}", f"{what} stopped at {limit}; a cheaper program may exist", places.of())


def _analysis(item: Lowered, places: _Places, machine: Target, result: Result | None) -> Iterator[Remark]:
    text = f"{cycles(item.cost)} cycles, {proof(item.cost, item.lower_bound)}; as written {cycles(item.input_cost)}"
    text += f" ({change(item.input_cost, item.cost)})"
    values: tuple[tuple[str, Any], ...] = (("cost", item.cost), ("input_cost", item.input_cost), ("lower_bound", item.lower_bound))
    yield Remark(ANALYSIS, "cost", text, places.of(), values)
    if result is not None and places.f.name in result.policy:
        policy = result.policy[places.f.name]
        yield Remark(ANALYSIS, "policy", policy_text(item.cost, policy), places.of(), (("policy_cost", policy.cost),))
    busy = sorted(((p, c) for p, c in item.price.cycles.items() if c), key=lambda p: -p[1])
    if busy:
        text = ", ".join(f"{pipe} {cycles(c)}" for pipe, c in busy)
        yield Remark(ANALYSIS, "pipes", f"busy cycles by pipe, over all trips: {text}", places.of(), tuple(busy))
    for m in memory_use(item.function, item.allocation, machine):
        values = (("memory", m.memory), ("bytes", m.bytes), ("capacity", m.capacity))
        yield Remark(ANALYSIS, "memory", f"{m.most} are live together, at `{m.statement}`", places.of(), values)
    text = f"{count(item.classes, 'class', 'classes')}, {count(item.nodes, 'node')}, {count(item.report.iterations, 'round')}"
    values = (("classes", item.classes), ("nodes", item.nodes), ("iterations", item.report.iterations))
    yield Remark(ANALYSIS, "egraph", text, places.of(), values)


def _refused(f: Function, found: Iterable[Diagnostic], places: _Places) -> Iterator[Remark]:
    for d, chain in chains(f, found):
        place = replace(places.of(places.name(d.place)), statement=d.place.statement, loc=d.place.loc)
        waits = f"; {', '.join(chain[1:])} cannot be written because of it" if len(chain) > 1 else ""
        yield Remark(MISSED, d.code, f"{d.message}{waits}", place, (("chain", chain),))


def _scales(result: Result) -> Iterator[Remark]:
    mx = result.stats["mx"]
    if not mx["run"]:
        return
    for name, uses in result.stats["rules_fired"].items():
        if name.startswith("mx."):
            yield Remark(PASSED, name, f"MX scales in physical form: {count(uses, 'use')}", Place(), (("uses", uses),))
    for item in mx["unbounded"]:
        place = Place(function=item["function"], statement=item["statement"])
        yield Remark(ANALYSIS, "mx.bounds", "no bound is known that keeps this window of scales inside its tensor", place)
