"""Upstream's lowering beside the cheapest one: as the result (`--policy upstream`), and as the cost to compare with (`policy_cost`).

Where upstream refuses a function, or its program would be wrong or is not accepted by what comes after it, there is no cost to compare
with, and `reason` says why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from egraph_rules.buffers import aliased_params
from extract.allocate import allocate, capacity_faults
from extract.bound import skeleton
from extract.lower import Lowered
from extract.price import Price, price
from extract.target import Target
from extract.upstream.flatten import Aliased, Flattened, flatten
from pypto_ir.diagnostics import Diagnostic, Refused, Severity
from pypto_ir.stmt import Function, Program
from pypto_ir.verify import accumulators, linearity, verify_program


@dataclass(frozen=True, slots=True)
class PolicyCost:
    """What upstream's program costs in cycles of the model, None where it has no legal one; `reason` says why it has none, `price` what
    it costs by pipe."""

    cost: float | None
    reason: str | None = None
    price: Price | None = None


def baseline(function: Function, target: Target, aliased: Aliased, default_trips: int) -> tuple[Lowered, tuple[Diagnostic, ...]]:
    """A function as upstream lowers it, priced and placed in memory, and the warnings about upstream's own program. Raises `Refused`
    where upstream refuses it or the target cannot hold it."""
    flat = flatten(function, target, aliased)
    before, after = price(function, target, default_trips), price(flat.function, target, default_trips)
    allocation = allocate(flat.function, target)
    if not allocation.fits:
        raise Refused(capacity_faults(flat.function, allocation))
    bound = min(after.cost, price(skeleton(function), target, default_trips).cost)
    changed = flat.function is not function
    return Lowered(flat.function, after.cost, before.cost, bound, changed, after, allocation), flat.faults


def policy_costs(program: Program, target: Target, default_trips: int) -> dict[str, PolicyCost]:
    """What upstream's program of every in-core function costs, by name."""
    aliased = aliased_params(program)
    flat: dict[str, Flattened | PolicyCost] = {}
    for f in program.functions:
        if f.in_core and f.verbatim is None:
            try:
                flat[f.name] = flatten(f, target, aliased.get(f.name, ()))
            except Refused as refused:
                flat[f.name] = PolicyCost(None, _reason(refused.diagnostics))
    made = {name: item.function for name, item in flat.items() if isinstance(item, Flattened)}
    changed = {f.name: made[f.name] for f in program.functions if f.name in made and made[f.name] is not f}
    wrong = _errors(replace(program, functions=tuple(made.get(f.name, f) for f in program.functions)), changed, target)
    return {
        name: item if isinstance(item, PolicyCost) else _cost(item, wrong.get(name, []), target, default_trips)
        for name, item in flat.items()
    }


def _errors(program: Program, made: dict[str, Function], target: Target) -> dict[str, list[Diagnostic]]:
    """What the verifiers hold against a program of which functions were `made`; what an author relies on in the others is no error."""
    result: dict[str, list[Diagnostic]] = {}
    for d in verify_program(program):
        if d.severity is Severity.ERROR and d.place.function is not None:
            result.setdefault(d.place.function, []).append(d)
    for name, function in made.items():
        result.setdefault(name, []).extend([*linearity(function), *accumulators(function, reads=target.acc_reads)])
    for function in program.functions:
        if function.name not in made:
            wrong = [d for d in accumulators(function, reads=target.acc_reads) if d.severity is Severity.ERROR]
            result.setdefault(function.name, []).extend(wrong)
    return result


def _cost(item: Flattened, wrong: list[Diagnostic], target: Target, default_trips: int) -> PolicyCost:
    found: tuple[Diagnostic, ...] = (*item.faults, *wrong)
    if not found:
        allocation = allocate(item.function, target)
        found = () if allocation.fits else tuple(capacity_faults(item.function, allocation))
    if found:
        return PolicyCost(None, _reason(found))
    its_price = price(item.function, target, default_trips)
    return PolicyCost(its_price.cost, price=its_price)


def _reason(found: tuple[Diagnostic, ...]) -> str:
    """The first finding in one line, with its code and statement."""
    d = found[0]
    return f"[{d.code}] {d.place}: {d.message}" if str(d.place) else f"[{d.code}] {d.message}"


def total(costs: dict[str, PolicyCost]) -> PolicyCost:
    """The cost of a program: that of all its functions, none where one of them has none."""
    for item in costs.values():
        if item.cost is None:
            return item
    return PolicyCost(sum(item.cost or 0.0 for item in costs.values()))
