"""The page of a run: what is shown is gathered here, how it looks is in `page.html` and `page.css`.

    text = page(program, "q_proj.json", record, result, diagnostics)

The page holds its style and its pictures, loads nothing and runs nothing. Times are in it only where they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape

from egraph_rules.catalogue import rule
from extract.alternatives import EXAMINED
from extract.price import price
from extract.target import Target, load_target
from extract.trips import DEFAULT_TRIPS
from extract.ways import Way
from pypto_eqsat.driver import Result
from pypto_eqsat.explain_text import SHOWN, headline, left, policy_text, proof, reason, start, written
from pypto_eqsat.explanation import PREPARED, Choice, Explained, explained
from pypto_eqsat.numbers import change, count, cycles, listed, saving
from pypto_eqsat.record import Record
from pypto_eqsat.remarks import MISSED, Remark, remarks
from pypto_eqsat.report.bars import PipeRow, pipe_rows
from pypto_eqsat.report.egraph_map import EGraphMap, egraph_map
from pypto_eqsat.report.memory_map import MemoryMap, memory_maps
from pypto_eqsat.report.sides import Stretch, functions_text, indent, stretches
from pypto_ir.diagnostics import Diagnostic
from pypto_ir.stmt import Function, Program

#: functions of a program that are shown in full
FUNCTIONS = 60


@dataclass(frozen=True, slots=True)
class ChoiceView:
    """A choice as rows: a value, how it is made, how the runner-up makes it, and the rules of either."""

    title: str
    choice: Choice
    rows: list[tuple[str, Way | None, Way | None]]
    headline: str
    reason: str
    difference: str


@dataclass(frozen=True, slots=True)
class FunctionView:
    """One function as it is shown."""

    number: int
    explained: Explained
    verdict: str
    details: list[str]
    choices: list[ChoiceView]
    left: str
    obstacles: list[tuple[Diagnostic, list[str]]]
    missed: list[Remark]
    stretches: list[Stretch]
    changed: int
    pipes: list[PipeRow]
    totals: list[tuple[str, str, str]]
    memories: list[MemoryMap]
    egraph: EGraphMap | None


def page(
    program: Program,
    name: str,
    record: Record,
    result: Result | None,
    diagnostics: tuple[Diagnostic, ...],
    target: str | None = None,
    *,
    times: bool = False,
    examined: int = EXAMINED,
) -> str:
    """The page of a recorded run, as HTML; `result` is None where the program was refused. With `times` it shows how long each phase
    took, and then differs from run to run."""
    machine = load_target(target or program.target)
    told = explained(program, record, result, diagnostics if result is None else (), target, examined)
    said = remarks(program, record, result, machine)
    before, after = functions_text(program), functions_text(result.program) if result is not None else {}
    views = []
    for number, e in enumerate(told.functions[:FUNCTIONS]):
        function = program.function(e.name)
        assert function is not None
        missed = [r for r in said if r.kind == MISSED and r.place.function == e.name and not r.name.startswith(("L", "M", "B", "X"))]
        sides = before.get(e.name, []), after.get(e.name, before.get(e.name, []))
        views.append(_view(number, e, function, machine, missed, stretches(*sides)))
    return (
        environment()
        .get_template("page.html")
        .render(
            name=name,
            program=program,
            machine=machine,
            result=result,
            stats=None if result is None else result.stats,
            cards=_cards(result),
            functions=views,
            left_out=len(told.functions) - len(views),
            untouched=[f.name for f in program.functions if f.name not in {e.name for e in told.functions}],
            rules=_rules(result),
            diagnostics=diagnostics,
            times=_times(result) if times else [],
            css=_source("page.css"),
        )
    )


@cache
def environment() -> Environment:
    """The templates; every value is escaped, every name must be known."""
    made = Environment(
        loader=FunctionLoader(_source),
        autoescape=select_autoescape(("html",), default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(cycles=cycles, change=change, count=count, listed=listed, indent=indent)
    made.globals.update(prepared=PREPARED)
    return made


def _source(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _cards(result: Result | None) -> list[tuple[str, str, str, str]]:
    """The figures at the top: title, figure, words, and how good it is."""
    if result is None:
        return []
    stats = result.stats
    cost, policy = stats["cost"], stats["policy_cost"]
    cards = [("Cost of the result", f"{cycles(cost)} cycles", proof(cost, stats["lower_bound"]), _tone(stats["proof"] == "optimal"))]
    if policy is not None:
        less = cost < policy - 1e-9 * policy
        cards.append(("Beside upstream's policy", change(policy, cost), f"{cycles(policy)} cycles under its policy", _tone(less)))
    else:
        cards.append(("Beside upstream's policy", "no legal program", "upstream's program is refused or not legal; see the functions", ""))
    cards.append(("Beside the text as written", change(stats["input_cost"], cost), f"{cycles(stats['input_cost'])} cycles as written", ""))
    cards.append(("Checked", *_checked(stats["validated"])))
    return cards


def _tone(good: bool) -> str:
    return "good" if good else ""


def _checked(validated: dict[str, Any]) -> tuple[str, str, str]:
    """Whether the result was interpreted against the input."""
    if validated.get("identical"):
        return "identical", "nothing changed", "good"
    if not validated["equal"]:
        return "not run", "input and result were not interpreted", "warn"
    # how many runs there is time for differs from run to run, and is told by --stats
    return "equal", "interpreted on made inputs, input and result gave the same", "good"


def _view(number: int, e: Explained, function: Function, machine: Target, missed: list[Remark], shown: list[Stretch]) -> FunctionView:
    item = e.lowered
    changed = sum(row.kind != "same" for stretch in shown for row in stretch.rows)
    choices = [_choice(c) for c in e.choices[:SHOWN]]
    if item is None:
        rest = _marked(shown)
        return FunctionView(number, e, "refused", [], choices, "", e.obstacles, missed, rest, 0, [], [], [], None)
    before = price(function, machine, DEFAULT_TRIPS)
    policy = e.policy.price if e.policy is not None else None
    prices = [before, policy, item.price]
    totals = []
    for title, its in zip(("as written", "upstream's policy", "result"), prices, strict=True):
        totals.append((title, "-" if its is None else cycles(its.cost), "-" if its is None else f"{its.memory_bytes:,.0f}"))
    details = [written(e), policy_text(item.cost, e.policy), *([start(e)] if e.status == "upstream" else [])]
    details += [f"{count(item.classes, 'e-class', 'e-classes')}, {count(item.nodes, 'e-node')}, {count(item.report.iterations, 'round')}"]
    return FunctionView(
        number, e, proof(item.cost, item.lower_bound), details, choices, left(e, SHOWN), e.obstacles, missed, shown, changed,
        pipe_rows([None if p is None else p.cycles for p in prices]), totals,
        memory_maps(item.function, item.allocation, machine),
        egraph_map(item.passes[0], f"f{number}c") if item.passes else None,
    )  # fmt: skip


def _marked(shown: list[Stretch]) -> list[Stretch]:
    """A refused function has one side only; nothing in it is folded away."""
    return [Stretch(s.rows, False) for s in shown]


def _choice(c: Choice) -> ChoiceView:
    other = {w.name: w for w in (c.runner_up.ways if c.runner_up is not None else ())}
    rows: list[tuple[str, Way | None, Way | None]] = [(w.name, w, other.pop(w.name, None)) for w in c.ways]
    rows += [(w.name, None, w) for w in other.values()]
    if c.runner_up is None:
        return ChoiceView(listed(c.names, 6), c, rows, "Nothing else fits", "", "forced by memory")
    difference = saving(c.cost, c.runner_up.cost)
    return ChoiceView(listed(c.names, 6), c, rows, headline(c.cost, c.runner_up), reason(c.runner_up), difference)


def _rules(result: Result | None) -> list[tuple[str, int, str]]:
    """The rewrite rules that matched: name, matches, equation; parts of a rule count for it."""
    if result is None:
        return []
    found: dict[str, int] = {}
    for part, matches in result.stats["rules_fired"].items():
        known = rule(part)
        name = part if known is None else known.name
        found[name] = found.get(name, 0) + matches
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [(name, matches, r.equation if (r := rule(name)) is not None else "") for name, matches in ordered]


def _times(result: Result | None) -> list[tuple[str, float, float]]:
    """The phases with their seconds and their share of the whole in per cent."""
    if result is None:
        return []
    seconds = result.stats["seconds"]
    total = seconds["total"] or 1.0
    return [(phase, spent, round(100 * spent / total, 1)) for phase, spent in seconds.items()]
