"""The pipeline: verify, lower every in-core function, verify again, interpret input against output.

result = optimize(read_program(text))
result.program      the 2-D program
result.stats        costs, bounds, rule counts and times, ready for JSON
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from egraph_rules.buffers import aliased_params
from egraph_rules.catalogue import rule
from egraph_rules.engine import Limits
from egraph_rules.mx.block import holds_mx
from extract.lower import Lowered, lower
from extract.target import PIPES, Target, load_target
from extract.trips import DEFAULT_TRIPS
from pypto_eqsat.mx_stage import block, compared
from pypto_eqsat.mx_stage import stats as mx_stats
from pypto_ir.diagnostics import Diagnostic, Diagnostics, Refused, Severity, declare
from pypto_ir.stmt import Function, Program
from pypto_ir.verify import linearity, tile_ops_2d, verify_program
from pypto_ir.verify.boxes import blocked_scales

declare(
    X003="the emitted program does not pass the verifier",
    X004="the emitted program computes other values than the input",
    W001="a limit stopped the rules before their end",
)

#: the passes, in the order in which they run: tiles to 2-D, then MX scales to boxes
STAGES = ("flatten", "mx")
#: seconds that interpretation goes on for unless told otherwise; every changed function is run at least once, however short that is
VALIDATE_SECONDS = 0.01


@dataclass(slots=True)
class Result:
    """What `optimize` gives: the program, statistics, warnings, and whether a limit was hit on the way."""

    program: Program
    stats: dict[str, Any]
    diagnostics: tuple[Diagnostic, ...] = ()
    limit_hit: bool = False
    functions: dict[str, Lowered] = field(default_factory=dict)


def optimize(
    program: Program,
    *,
    target: str | None = None,
    time_limit: float | None = None,
    validate: bool = True,
    validate_seconds: float = VALIDATE_SECONDS,
    default_trips: int = DEFAULT_TRIPS,
    without_rules: frozenset[str] = frozenset(),
    policy: str = "cheapest",
    stages: tuple[str, ...] = STAGES,
    mx_stores: bool = False,
) -> Result:
    """Lower every InCore, AIC and AIV function to 2-D tiles at the least cost that the rules reach, then block MX scales.

    `stages` are the passes that run; where both do, a program without MX scales is not stamped as blocked. `policy` chooses the prover
    of offsets into scales, `mx_stores` lets stores of whole boxes into scales pass. `target` overrides the program's; `time_limit`
    bounds the seconds of saturation over the whole program; `without_rules` leaves out rules or rule files by name. Raises `Refused`
    with every reason where a function has no legal form, or where the result fails the verifier or computes other values than the
    input: a wrong program never leaves.
    """
    started = time.perf_counter()
    bag = Diagnostics()
    bag.extend(verify_program(program))
    bag.refuse_if_any()
    machine = load_target(target or program.target)
    seconds = {"verify": time.perf_counter() - started}
    flatten, mx = (stage in stages for stage in STAGES)
    lowered = _lower_all(program, machine, bag, time_limit, default_trips, without_rules) if flatten else {}
    functions = tuple(lowered[f.name].function if f.name in lowered else f for f in program.functions)
    same = all(a is b for a, b in zip(functions, program.functions, strict=True))
    output = program if same else replace(program, functions=functions)
    flat, blocking = output, None
    if mx and (not flatten or holds_mx(output)):
        begun = time.perf_counter()
        blocking = block(output, program, policy=policy, stores=mx_stores)
        output, same = blocking.program, same and blocking.program is output
        seconds["mx"] = time.perf_counter() - begun
    for item in lowered.values():
        for phase, spent in item.seconds.items():
            seconds[phase] = seconds.get(phase, 0.0) + spent
    if not same:
        begun = time.perf_counter()
        _verify_output(program, output, flatten)
        seconds["verify"] += time.perf_counter() - begun
    validated: dict[str, Any] | None = None
    if validate and not same:
        begun = time.perf_counter()
        validated = _validated(program, flat, output, validate_seconds)
        seconds["validate"] = time.perf_counter() - begun
    seconds["total"] = time.perf_counter() - started
    limit_hit = any(item.report.limit for item in lowered.values())
    stats = _stats(lowered, validated, same, validate, seconds)
    if blocking is not None:
        stats["rules_fired"] = dict(sorted({**stats["rules_fired"], **blocking.fired}.items()))
    return Result(output, {**stats, "mx": mx_stats(blocking)}, tuple(bag), limit_hit, lowered)


def _lower_all(
    program: Program, machine: Target, bag: Diagnostics, time_limit: float | None, default_trips: int, without: frozenset[str]
) -> dict[str, Lowered]:
    """Every in-core function lowered; all refusals at once."""
    aliased = aliased_params(program)
    result: dict[str, Lowered] = {}
    deadline = None if time_limit is None else time.monotonic() + time_limit
    for function in program.functions:
        if not function.in_core or function.verbatim is not None:
            continue
        limits = Limits() if deadline is None else Limits(seconds=max(0.01, deadline - time.monotonic()))
        try:
            item = lower(function, machine, aliased.get(function.name, ()), limits, default_trips, without)
        except Refused as refused:
            bag.extend(refused.diagnostics)
            continue
        result[function.name] = item
        if item.report.limit:
            bag.warn("W001", f"function {function.name}: saturation stopped at {item.report.limit}; the program is legal but may be dearer")
    bag.refuse_if_any()
    return result


def _verify_output(before: Program, after: Program, flat: bool) -> None:
    found = [d for d in verify_program(after) if d.severity is Severity.ERROR]
    for old, new in zip(before.functions, after.functions, strict=True):
        if old is not new:
            found += [*tile_ops_2d(new), *linearity(new), *_still_nd(new)] if flat else []
            found += blocked_scales(new)
    if found:
        raise Refused([_fault("X003", d) for d in found])


def _still_nd(function: Function) -> list[Diagnostic]:
    from extract.legal import nd_values

    return nd_values(function)


def _fault(code: str, d: Diagnostic) -> Diagnostic:
    return Diagnostic(code, f"[{d.code}] {d.message}", d.place, "this is a fault of the optimiser: please report it with the input program")


def _validated(before: Program, flat: Program, after: Program, seconds: float) -> dict[str, Any]:
    """Interpret the input against the 2-D program, and that against the output. Raises `Refused` at the first difference."""
    from pypto_ir.interp.compare import Verdict, equivalent

    verdicts: list[Verdict] = []
    if flat is not before:
        verdicts.append(equivalent(before, flat, seconds=seconds))
    if after is not flat:
        verdicts.append(compared(flat, after, seconds))
    functions: dict[str, Any] = {}
    for verdict in verdicts:
        if not verdict.equal:
            raise Refused([_fault("X004", Diagnostic("X004", str(verdict.difference)))])
        for name, covered in verdict.covered.items():
            runs = [{"seed": seed, "trips": trips} for seed, trips in covered.runs]
            earlier = functions.get(name, {"runs": [], "complete": True, "not_run": {}})
            functions[name] = {
                "runs": [*earlier["runs"], *runs],
                "complete": earlier["complete"] and covered.complete,
                "not_run": {**earlier["not_run"], **covered.refused},
            }
    return {"equal": True, "functions": functions}


def _stats(
    lowered: dict[str, Lowered], validated: dict[str, Any] | None, same: bool, wanted: bool, seconds: dict[str, float]
) -> dict[str, Any]:
    cost = sum(item.cost for item in lowered.values())
    bound = sum(item.lower_bound for item in lowered.values())
    fired: dict[str, int] = {}
    for item in lowered.values():
        for name, count in item.report.rules_fired.items():
            if rule(name) is not None:  # facts are no rewrites
                fired[name] = fired.get(name, 0) + count
    if validated is None:
        validated = {"equal": True, "identical": True} if same else {"equal": None, "skipped": not wanted}
    return {
        "cost": cost,
        "input_cost": sum(item.input_cost for item in lowered.values()),
        "lower_bound": bound,
        "gap": _gap(cost, bound),
        "proof": _proof(cost, bound),
        "validated": validated,
        "seconds": {phase: round(spent, 6) for phase, spent in seconds.items()},
        "egraph": {
            "classes": sum(item.classes for item in lowered.values()),
            "nodes": sum(item.nodes for item in lowered.values()),
            "iterations": max((item.report.iterations for item in lowered.values()), default=0),
        },
        "rules_fired": dict(sorted(fired.items())),
        "functions": {
            name: {
                "cost": item.cost,
                "input_cost": item.input_cost,
                "lower_bound": item.lower_bound,
                "gap": _gap(item.cost, item.lower_bound),
                "proof": _proof(item.cost, item.lower_bound),
                "changed": item.changed,
                "cycles": dict(zip(PIPES, item.price.cycles.values, strict=True)),
                "traffic": dict(sorted(item.price.traffic.items())),
                "peak_bytes": {memory.value: size for memory, size in item.allocation.peak.items()},
                "classes": item.classes,
                "nodes": item.nodes,
                "limit": item.report.limit,
            }
            for name, item in lowered.items()
        },
    }


def _gap(cost: float, bound: float) -> float:
    """The part of the cost that the bound does not account for."""
    return 0.0 if cost <= 0 else max(0.0, (cost - bound) / cost)


def _proof(cost: float, bound: float) -> str:
    return "optimal" if cost - bound <= 1e-9 * max(1.0, cost) else "bounded"
