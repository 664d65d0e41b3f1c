"""An explanation as text and as JSON values.

function main_incore_0: lowered to 13.41 cycles, proved least
  as written 13.41 cycles (the same); under upstream's policy 13.41 cycles (the same)

  1. x_tile, y_tile and out_1: 13.41 cycles
       x_tile  loaded as one 2-D tile [6, 4] FP32                      flat.load
     the best without it: 17.91 cycles (+4.50 cycles, +34 %)
       x_tile  loaded page by page: 2 of [3, 4] FP32                   pages.load
     because MTE2 would take 6 cycles instead of 4, ..
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from extract.ways import Way
from pypto_eqsat.explanation import PREPARED, Choice, Explained, Explanation, RunnerUp
from pypto_eqsat.numbers import change, count, cycles, listed
from pypto_eqsat.policy import PolicyCost
from pypto_ir.diagnostics import Diagnostic

#: choices of a function that are shown as text unless told otherwise
SHOWN = 8
_STATUS = {
    "lowered": "lowered",
    "kept": "stays as the author wrote it",
    "upstream": "lowered from upstream's program, which is a better start than the author's text",
    "refused": "refused",
}


def text_of(e: Explanation, file: str, shown: int = SHOWN) -> str:
    """The explanation for people; `shown` choices of each function."""
    lines = [f"{file}: {count(len(e.functions), 'in-core function')}"]
    for f in e.functions:
        lines += ["", *_function(f, shown)]
    general = [d for d in e.diagnostics if not any(d is o for f in e.functions for o, _ in f.obstacles)]
    for d in general:
        lines += ["", f"refused: {d}"]
    return "\n".join(lines) + "\n"


def _function(f: Explained, shown: int) -> Iterator[str]:
    item = f.lowered
    if item is None:
        yield f"function {f.name}: refused"
    else:
        yield f"function {f.name}: {_STATUS[f.status]}, {cycles(item.cost)} cycles, {proof(item.cost, item.lower_bound)}"
        yield f"  {written(f)}; {policy_text(item.cost, f.policy)}"
    if f.status == "upstream":
        yield f"  {start(f)}"
    for name in f.prepared:
        yield f"  before the choice: {PREPARED[name]} ({name})"
    for name, other in f.same:
        yield f"  {name} is the 2-D tile of {other}: it takes no op of its own"
    for number, choice in enumerate(f.choices[:shown], 1):
        yield from ("", *_choice(number, choice))
    if item is not None:
        yield ""
        yield f"  {left(f, shown)}"
        for m in f.memory:
            yield f"  {m.most}, at `{m.statement}`"
    behind: dict[str, str] = {}
    for d, chain in f.obstacles:
        first = behind.get(f"{d.code} {d.place.statement}")
        if first is not None:
            yield f"     [{d.code}] the same of {d.place.statement}, which waits for {first}"
            continue
        behind.update({f"{d.code} {s}": chain[0] for s in chain[1:]})
        yield from ("", *_obstacle(d, chain))


def proof(cost: float, bound: float) -> str:
    """How good a cost is known to be."""
    if cost - bound <= 1e-9 * max(1.0, cost):
        return "proved least"
    return f"no program of the rules costs less than {cycles(bound)}"


def written(f: Explained) -> str:
    """What the author's text would cost, were it legal."""
    assert f.lowered is not None
    as_is = "as written" if f.two_d else "as written, with N-D tiles that no machine has,"
    return f"{as_is} {cycles(f.lowered.input_cost)} cycles{_than(f.lowered.cost, f.lowered.input_cost)}"


def start(f: Explained) -> str:
    """Why upstream's program was the better start."""
    assert f.lowered is not None
    if f.lowered.beaten is not None:
        return f"what the rules make of the author's text costs {cycles(f.lowered.beaten.cost)} cycles"
    return f"the rules give no 2-D form of the author's text: {f.lowered.refusal[0].message}"


def _than(cost: float, other: float) -> str:
    return f" ({change(other, cost)})"


def policy_text(cost: float, policy: PolicyCost | None) -> str:
    """What upstream's program costs, or why there is none."""
    if policy is None:
        return "upstream's program was not asked for"
    if policy.cost is None:
        return f"upstream has no legal program: {policy.reason}"
    return f"under upstream's policy {cycles(policy.cost)} cycles{_than(cost, policy.cost)}"


def left(f: Explained, shown: int) -> str:
    """How many choices are not told of, and why."""
    parts = [f"{count(f.forced, 'choice')} had one legal way"]
    if len(f.choices) > shown:
        parts.append(f"{count(len(f.choices) - shown, 'decision')} of less weight not shown")
    if f.left_out:
        parts.append(f"{count(f.left_out, 'choice')} of fewer cycles not decided anew")
    return "; ".join(parts)


def _choice(number: int, c: Choice) -> Iterator[str]:
    yield f"  {number}. {listed(c.names, 6)}: {cycles(c.cost)} cycles"
    yield from _ways(c.ways)
    if c.runner_up is None:
        yield "     nothing else fits:"
        for d in c.faults:
            yield f"       [{d.code}] {d.message}"
    else:
        yield f"     {headline(c.cost, c.runner_up)}"
        yield from _ways(c.runner_up.ways)
        yield f"     {reason(c.runner_up)}"
    if c.capacity is not None:
        yield f"     capacity decided: {c.capacity}"


def headline(cost: float, r: RunnerUp) -> str:
    """The runner-up's cost beside that of the choice."""
    words = "the best without it" if r.proved else "the best that was found without it"
    return f"{words}: {cycles(r.cost)} cycles ({change(cost, r.cost)})"


def reason(r: RunnerUp) -> str:
    """Which pipes a runner-up keeps busy for how much longer, and which for less long."""
    told = [p for p in r.pipes if cycles(p[1]) != cycles(p[2])]
    longer, shorter = ([p for p in told if (p[2] > p[1]) is more][:3] for more in (True, False))
    if not told:
        return "because every pipe would be as busy as now" if not r.pipes else "because pipes would be busy a fraction of a cycle longer"
    parts = []
    if longer:
        parts.append("because " + ", ".join(f"{pipe} would take {cycles(b)} cycles instead of {cycles(a)}" for pipe, a, b in longer))
    if shorter:
        parts.append("although " + ", ".join(f"{pipe} only {cycles(b)} instead of {cycles(a)}" for pipe, a, b in shorter))
    return "; ".join(parts)


def _ways(ways: Sequence[Way]) -> Iterator[str]:
    name = max((len(w.name) for w in ways), default=0)
    words = max((len(str(w)) for w in ways if len(str(w)) <= 72), default=0)
    for w in ways:
        yield f"       {w.name:{name}}  {w!s:{words}}  {', '.join(w.rules)}".rstrip()


def _obstacle(d: Diagnostic, chain: Sequence[str]) -> Iterator[str]:
    yield f"  [{d.code}] {d.place.statement or d.place.function}" + (f" from {d.place.loc}" if d.place.loc else "")
    yield f"     {d.message}"
    if len(chain) > 1:
        yield f"     so none of these can be written: {' <- '.join(chain)}"
    if d.help:
        yield f"     help: {d.help}"


def values_of(e: Explanation, file: str) -> dict[str, Any]:
    """The explanation as JSON values."""
    result = e.result
    return {
        "file": file,
        "refused": result is None,
        "cost": None if result is None else result.stats["cost"],
        "functions": [_function_values(f) for f in e.functions],
        "diagnostics": [_diagnostic(d) for d in e.diagnostics],
    }


def _function_values(f: Explained) -> dict[str, Any]:
    item = f.lowered
    cost = {} if item is None else {"cost": item.cost, "input_cost": item.input_cost, "lower_bound": item.lower_bound}
    policy = f.policy
    return {
        "name": f.name,
        "status": f.status,
        **cost,
        "policy_cost": None if policy is None else policy.cost,
        "policy_reason": None if policy is None else policy.reason,
        "prepared": [{"name": name, "words": PREPARED[name]} for name in f.prepared],
        "same": [{"name": name, "as": other} for name, other in f.same],
        "choices": [_choice_values(c) for c in f.choices],
        "forced": f.forced,
        "left_out": f.left_out,
        "memory": [{"memory": m.memory, "bytes": m.bytes, "capacity": m.capacity, "statement": m.statement} for m in f.memory],
        "obstacles": [{**_diagnostic(d), "chain": chain} for d, chain in f.obstacles],
    }


def _choice_values(c: Choice) -> dict[str, Any]:
    r = c.runner_up
    other = None
    if r is not None:
        other = {
            "cost": r.cost,
            "proved": r.proved,
            "values": [_way(w) for w in r.ways],
            "pipes": {pipe: {"chosen": a, "runner_up": b} for pipe, a, b in r.pipes},
        }
    return {
        "values": [_way(w) for w in c.ways],
        "cost": c.cost,
        "runner_up": other,
        "nothing_else_fits": [_diagnostic(d) for d in c.faults],
        "capacity": c.capacity,
    }


def _way(w: Way) -> dict[str, Any]:
    loc = w.statement.loc if w.statement is not None else None
    return {"name": w.name, "loc": loc, "form": w.words, "where": w.where, "rules": list(w.rules)}


def _diagnostic(d: Diagnostic) -> dict[str, Any]:
    place = {"function": d.place.function, "statement": d.place.statement, "loc": d.place.loc, "path": d.place.path}
    return {"code": d.code, "severity": d.severity.value, "message": d.message, "help": d.help, **place}
