"""Upstream's program as a start and as a fallback of the choice.

Where it is cheaper than what the rules give, or the rules give nothing, it is lowered again as a 2-D program of its own: the default never
costs more than a legal upstream lowering, and compiles what upstream compiles rightly, or would if its program were put right. Where pages
in loops are proved to be cheaper than all ways to write them out, upstream's program, which writes them out, is not made.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from egraph_rules.batch_loops import page_counts
from extract.bound import skeleton
from extract.legal import is_two_d
from extract.lower import MOST_WRITTEN, Lowered
from extract.price import price
from extract.target import Target
from pypto_ir.diagnostics import Diagnostic, Refused, Severity
from pypto_ir.stmt import Function
from pypto_ir.verify import accumulators

if TYPE_CHECKING:
    from extract.upstream.flatten import Flattened

Aliased = tuple[tuple[str, str], ...]

#: codes of upstream's reasons to refuse an accumulator (`spec/flatten.md` 8.4)
ACCUMULATORS = frozenset(f"L{number}" for number in range(420, 441))


@dataclass(frozen=True, slots=True)
class FromBoth:
    """The cheapest 2-D form of a function; `fallback` tells that only upstream's text gave one, `remarks` which accumulators upstream
    refuses that are lowered here."""

    lowered: Lowered
    fallback: bool = False
    remarks: tuple[Diagnostic, ...] = ()


def lower_from_both(
    function: Function, lower: Callable[[Function], Lowered], target: Target, aliased: Aliased, default_trips: int
) -> FromBoth:
    """The cheapest 2-D form that `lower` gives of a function, from its own text or from upstream's. Raises `Refused` where there is
    none."""
    result, refusal = None, None
    try:
        result = lower(function)
    except Refused as refused:
        if any(d.code.startswith("X") for d in refused.diagnostics):
            raise
        refusal = refused
    if result is not None and (result.in_loops or max(page_counts(function), default=0) > MOST_WRITTEN):
        return FromBoth(result)  # upstream writes all pages out
    start, remarks = _upstream(function, target, aliased)
    cheaper = start is not None and (result is None or price(start.function, target, default_trips).cost < result.cost * (1 - 1e-9))
    right = None if start is None or not cheaper else _right(start, target, mended=result is None)
    if right is not None:
        with suppress(Refused):
            other = lower(right)
            if result is None or other.cost < result.cost * (1 - 1e-9):
                bound = price(skeleton(function), target, default_trips).cost if result is None else result.lower_bound
                other.input_cost = price(function, target, default_trips).cost
                other.lower_bound, other.changed = min(other.cost, bound), True
                other.beaten, other.refusal = result, refusal.diagnostics if refusal is not None else ()
                return FromBoth(other, result is None)
    if result is None:
        assert refusal is not None
        raise refusal
    return FromBoth(result, remarks=remarks)


def _upstream(function: Function, target: Target, aliased: Aliased) -> tuple[Flattened | None, tuple[Diagnostic, ...]]:
    """What upstream writes for a function that is not legal as it stands, right or wrong; and what to remark where it refuses."""
    if _is_legal(function, target):
        return None, ()
    from extract.upstream.flatten import written

    try:
        return written(function, target, aliased), ()
    except Refused as refused:
        return None, tuple(_remark(d) for d in refused.diagnostics if d.code in ACCUMULATORS)


def _right(flat: Flattened, target: Target, mended: bool) -> Function | None:
    """What upstream writes, None where that is wrong or not legal; with `mended`, where it is wrong and cannot be put right (W401)."""
    from extract.upstream.flatten import repaired

    try:
        made = repaired(flat)
    except Refused:
        return None
    faults = {d.code for d in made.faults}
    right = faults <= {"W401"} if mended else not faults
    return made.function if right and _is_legal(made.function, target) else None


def _is_legal(function: Function, target: Target) -> bool:
    """True for a function without N-D tiles whose accumulators can be addressed."""
    return is_two_d(function) and not accumulators(function, reads=target.acc_reads)


def _remark(d: Diagnostic) -> Diagnostic:
    """Upstream's reason to refuse an accumulator, of one that is lowered all the same."""
    message = f"this accumulator is lowered here, in tiles of its own or otherwise; upstream refuses it: {d.message}"
    return replace(d, message=message, help=None, severity=Severity.NOTE)
