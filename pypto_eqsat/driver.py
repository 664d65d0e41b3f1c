"""The pipeline: verify, lower every in-core function, verify again, interpret input against output.

result = optimize(read_program(text))
result.program      the 2-D program
result.stats        costs, bounds, rule counts and times, ready for JSON
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from egraph_rules.buffers import aliased_params
from egraph_rules.catalogue import parts_of, rule
from egraph_rules.chains import fills_partly
from egraph_rules.engine import Limits
from egraph_rules.mx.block import holds_mx
from extract.effort import SLOWEST, SOLVE_SECONDS, ChoiceLimits
from extract.lower import Lowered, lower
from extract.target import PIPES, Target, load_target
from extract.trips import DEFAULT_TRIPS
from pypto_eqsat.mx_stage import block, compared
from pypto_eqsat.mx_stage import stats as mx_stats
from pypto_eqsat.warm_start import Aliased, FromBoth, lower_from_both
from pypto_ir.acc_reads import AccReads
from pypto_ir.diagnostics import Diagnostic, Diagnostics, Refused, Severity, declare
from pypto_ir.stmt import Function, Program
from pypto_ir.verify import accumulators, linearity, tile_ops_2d, verify_program
from pypto_ir.verify.boxes import blocked_scales

if TYPE_CHECKING:
    from pypto_eqsat.policy import PolicyCost
    from pypto_eqsat.record import Record
    from pypto_ir.interp.compare import Verdict

declare(
    X003="the emitted program does not pass the verifier",
    X004="the emitted program computes other values than the input",
    W001="a limit stopped the rules before their end",
    W002="a limit stopped the choice before its proof",
    W403="the rules give no 2-D form of a function, and it was lowered as upstream lowers it",
)

#: the passes, in the order in which they run: tiles to 2-D, then MX scales to boxes
STAGES = ("flatten", "mx")
#: what is told of a run: what is done next, or with a program the pass that is done
Watch: TypeAlias = "Callable[[str, Program | None], None]"
#: seconds that interpretation goes on for unless told otherwise; every changed function is run at least once, however short that is
VALIDATE_SECONDS = 0.005


@dataclass(slots=True)
class Result:
    """What `optimize` gives: the program, statistics, warnings, and whether a limit was hit on the way."""

    program: Program
    stats: dict[str, Any]
    diagnostics: tuple[Diagnostic, ...] = ()
    limit_hit: bool = False
    functions: dict[str, Lowered] = field(default_factory=dict)
    policy: dict[str, PolicyCost] = field(default_factory=dict)


def optimize(
    program: Program,
    *,
    target: str | None = None,
    time_limit: float | None = None,
    node_limit: int | None = None,
    memory_limit: int | None = None,
    choice_seconds: float = SOLVE_SECONDS,
    validate: bool = True,
    validate_seconds: float = VALIDATE_SECONDS,
    default_trips: int = DEFAULT_TRIPS,
    without_rules: frozenset[str] = frozenset(),
    policy: str = "cheapest",
    policy_cost: bool = False,
    stages: tuple[str, ...] = STAGES,
    mx_stores: bool = False,
    watch: Watch | None = None,
    record: Record | None = None,
) -> Result:
    """Lower every InCore, AIC and AIV function to 2-D tiles at the least cost that the rules reach, or with the policy "upstream" as
    upstream's hand-written pass does; then bring MX scales into their physical form.

    `target` overrides the program's. `time_limit` bounds the seconds of search over the whole program, `choice_seconds` the work of the
    choice in each function (`extract.effort`), `node_limit` the e-nodes of each, `memory_limit` the MiB that the process may hold. A
    limit that is hit is reported (W001, W002); the program is legal all the same. `without_rules` leaves out rules or rule files by
    name (`UnknownRule` is raised where there is none of that name), `policy_cost` tells what upstream's program costs. `stages` are the
    passes that run; where both do, a program without MX scales is not stamped as blocked. `mx_stores` lets stores of whole boxes into
    scales pass. `watch` is called with what is done next, and with the name of a pass and its program when it is done. `record` is
    filled with how every function was decided, whether the program is refused in the end or not. Raises `Refused` with every reason
    where a function has no legal form, or where the result fails the verifier or computes other values than the input: a wrong program
    never leaves.
    """
    started = time.perf_counter()
    watch = watch or _unwatched
    bag = Diagnostics()
    bag.extend(verify_program(program))
    bag.refuse_if_any()
    machine = load_target(target or program.target)
    seconds = {"verify": time.perf_counter() - started}
    flatten, mx = (stage in stages for stage in STAGES)
    if not flatten:
        lowered: dict[str, Lowered] = {}
    elif policy == "upstream":
        lowered = _as_upstream(program, machine, bag, default_trips)
    else:
        search = _Search(time_limit, node_limit, memory_limit, choice_seconds)
        lowered = _lower_all(program, machine, bag, search, default_trips, parts_of(without_rules), watch, record)
    functions = tuple(lowered[f.name].function if f.name in lowered else f for f in program.functions)
    same = all(a is b for a, b in zip(functions, program.functions, strict=True))
    flat = output = program if same else replace(program, functions=functions)
    for item in lowered.values():
        for phase, spent in item.seconds.items():
            seconds[phase] = seconds.get(phase, 0.0) + spent
    if flatten:
        watch("flatten", flat)
    blocking = None
    if mx and (not flatten or holds_mx(flat)):
        begun = time.perf_counter()
        watch("bringing scales into boxes", None)
        blocking = block(flat, program, policy=policy, stores=mx_stores)
        output, same = blocking.program, same and blocking.program is flat
        seconds["mx"] = time.perf_counter() - begun
        watch("mx", output)
    begun = time.perf_counter()
    keep = flatten and _verify_accumulators(program, flat, machine.acc_reads, bag, relied=policy == "upstream")
    if not same:
        _verify_output(program, output, flatten)
    seconds["verify"] += time.perf_counter() - begun
    validated: dict[str, Any] | None = None
    if validate and not same:
        begun = time.perf_counter()
        watch("comparing input and result", None)
        runs = [_compare(program, flat, validate_seconds, machine.acc_reads, keep)] if flat is not program else []
        validated = _validated([*runs, *([compared(flat, output, validate_seconds)] if output is not flat else [])])
        seconds["validate"] = time.perf_counter() - begun
    upstream: dict[str, PolicyCost] | None = None
    if policy_cost:
        from pypto_eqsat.policy import policy_costs

        begun = time.perf_counter()
        upstream = policy_costs(program, machine, default_trips)
        seconds["policy"] = time.perf_counter() - begun
    seconds["total"] = time.perf_counter() - started
    limit_hit = any(item.report.limit or item.limit for item in lowered.values())
    stats = _stats(lowered, validated, same, validate, seconds, upstream)
    if blocking is not None:
        stats["rules_fired"] = dict(sorted({**stats["rules_fired"], **blocking.fired}.items()))
    return Result(output, {**stats, "mx": mx_stats(blocking)}, tuple(bag), limit_hit, lowered, upstream or {})


def _unwatched(_: str, __: Program | None) -> None:
    """Nobody watches."""


class _Search:
    """The limits of the search over a whole program, and what of them is left for the next function."""

    def __init__(self, seconds: float | None, nodes: int | None, memory: int | None, choice_seconds: float) -> None:
        self.nodes, self.memory, self.choice_seconds = nodes, memory, choice_seconds
        self.deadline = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        return None if self.deadline is None else max(0.01, self.deadline - time.monotonic())

    def saturation(self) -> Limits:
        free = Limits()
        return Limits(self.nodes or free.nodes, self.left or free.seconds, free.iterations, self.memory)

    def choice(self) -> ChoiceLimits:
        left = self.left
        clock = None if left is None else min(left, SLOWEST * self.choice_seconds)
        return ChoiceLimits(self.choice_seconds, memory=self.memory, clock=clock)


def _lower_all(
    program: Program,
    machine: Target,
    bag: Diagnostics,
    search: _Search,
    default_trips: int,
    without: frozenset[str],
    watch: Watch,
    record: Record | None,
) -> dict[str, Lowered]:
    """Every in-core function lowered; all refusals at once."""
    aliased = aliased_params(program)
    result: dict[str, Lowered] = {}
    for function in program.functions:
        if not function.in_core or function.verbatim is not None:
            continue
        watch(f"lowering {function.name}", None)
        limits, pairs = search.saturation(), aliased.get(function.name, ())

        def once(f: Function, limits: Limits = limits, pairs: Aliased = pairs) -> Lowered:
            return lower(f, machine, pairs, limits, default_trips, without, search.choice(), record is not None)

        try:
            made = FromBoth(once(function)) if without else lower_from_both(function, once, machine, pairs, default_trips)
        except Refused as refused:
            bag.extend(refused.diagnostics)
            if record is not None:
                record.refused[function.name] = refused.diagnostics
            continue
        item = result[function.name] = made.lowered
        if record is not None:
            record.lowered[function.name] = item
        bag.extend(made.remarks)
        if made.fallback:
            bag.warn("W403", f"function {function.name} was lowered as upstream lowers it, since the rules give no 2-D form of it")
        if item.report.limit:
            bag.warn("W001", f"function {function.name}: saturation stopped at {item.report.limit}; the program is legal but may be dearer")
        if item.limit:
            gap = _gap(item.cost, item.lower_bound)
            bag.warn("W002", f"function {function.name}: the choice stopped at {item.limit}; {gap:.1%} of the cost is not proved")
    bag.refuse_if_any()
    return result


def _as_upstream(program: Program, machine: Target, bag: Diagnostics, default_trips: int) -> dict[str, Lowered]:
    """Every in-core function as upstream lowers it; all refusals at once."""
    from pypto_eqsat.policy import baseline

    aliased = aliased_params(program)
    result: dict[str, Lowered] = {}
    for function in program.functions:
        if function.in_core and function.verbatim is None:
            try:
                result[function.name], faults = baseline(function, machine, aliased.get(function.name, ()), default_trips)
                bag.extend(faults)
            except Refused as refused:
                bag.extend(refused.diagnostics)
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


def _verify_accumulators(before: Program, after: Program, reads: AccReads, bag: Diagnostics, relied: bool) -> bool:
    """Raise `Refused` where a product writes what it cannot address, changed functions and others alike: what the rules did not move
    stands as the author wrote it. An author may rely on products that keep the rest of their blocks, in batches too, and is warned; the
    result tells whether one does. So may upstream (`relied`). The rules may not."""
    found: list[Diagnostic] = []
    for i, (old, new) in enumerate(zip(before.functions, after.functions, strict=True)):
        wrong = accumulators(new, ("functions", i), reads=reads)
        if old is not new:
            kept = relied or (bool(wrong) and (fills_partly(old) or any(d.code == "V303" for d in accumulators(old, reads=reads))))
            wrong = [replace(d, place=replace(d.place, path=None), severity=d.severity if kept else Severity.ERROR) for d in wrong]
        found += wrong
    if any(d.severity is Severity.ERROR for d in found):
        raise Refused(found)
    bag.extend(found)
    return bool(found)


def _still_nd(function: Function) -> list[Diagnostic]:
    from extract.legal import nd_values

    return nd_values(function)


def _fault(code: str, d: Diagnostic) -> Diagnostic:
    return Diagnostic(code, f"[{d.code}] {d.message}", d.place, "this is a fault of the optimiser: please report it with the input program")


def _compare(before: Program, after: Program, seconds: float, reads: AccReads | None, keep: bool) -> Verdict:
    """Interpret input against 2-D program, whose accumulators lie in the blocks of their memory."""
    from pypto_ir.interp.compare import equivalent

    return equivalent(before, after, seconds=seconds, mode="l0c", reads=reads, keep=keep)


def _validated(verdicts: list[Verdict]) -> dict[str, Any]:
    """What was run by function, over all stages. Raises `Refused` at the first difference."""
    functions: dict[str, Any] = {}
    for verdict in verdicts:
        if not verdict.equal:
            raise Refused([_fault("X004", Diagnostic("X004", str(verdict.difference)))])
        for name, covered in verdict.covered.items():
            earlier = functions.get(name, {"runs": [], "complete": True, "not_run": {}})
            functions[name] = {
                "runs": [*earlier["runs"], *({"seed": seed, "trips": trips} for seed, trips in covered.runs)],
                "complete": earlier["complete"] and covered.complete,
                "not_run": {**earlier["not_run"], **covered.refused},
            }
    return {"equal": True, "functions": functions}


def _stats(
    lowered: dict[str, Lowered],
    validated: dict[str, Any] | None,
    same: bool,
    wanted: bool,
    seconds: dict[str, float],
    compared: dict[str, PolicyCost] | None,
) -> dict[str, Any]:
    cost = sum(item.cost for item in lowered.values())
    upstream = None
    if compared is not None:
        from pypto_eqsat.policy import total

        upstream = total(compared)
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
        **_policy(upstream),
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
                **_policy(None if compared is None else compared[name]),
                "changed": item.changed,
                "cycles": dict(zip(PIPES, item.price.cycles.pipes, strict=True)),
                "code": {"instructions": item.price.instructions, "cycles": item.price.code},
                "traffic": dict(sorted(item.price.traffic.items())),
                "peak_bytes": {memory.value: size for memory, size in item.allocation.peak.items()},
                "classes": item.classes,
                "nodes": item.nodes,
                "limit": item.report.limit or item.limit,
            }
            for name, item in lowered.items()
        },
    }


def _policy(compared: PolicyCost | None) -> dict[str, Any]:
    if compared is None:
        return {"policy_cost": None, "policy_reason": "not asked for"}
    return {"policy_cost": compared.cost, "policy_reason": compared.reason}


def _gap(cost: float, bound: float) -> float:
    """The part of the cost that the bound does not account for."""
    return 0.0 if cost <= 0 else max(0.0, (cost - bound) / cost)


def _proof(cost: float, bound: float) -> str:
    return "optimal" if cost - bound <= 1e-9 * max(1.0, cost) else "bounded"
