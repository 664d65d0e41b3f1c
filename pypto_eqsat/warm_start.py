"""Upstream's program as a start and as a fallback of the choice.

Where it is cheaper than what the rules give, or the rules give nothing, it is lowered again as a 2-D program of its own: the default never
costs more than a legal upstream lowering, and compiles what upstream compiles rightly.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from extract.bound import skeleton
from extract.legal import is_two_d
from extract.lower import Lowered
from extract.price import price
from extract.target import Target
from pypto_ir.diagnostics import Refused
from pypto_ir.stmt import Function
from pypto_ir.verify import accumulators

Aliased = tuple[tuple[str, str], ...]


def lower_from_both(
    function: Function, lower: Callable[[Function], Lowered], target: Target, aliased: Aliased, default_trips: int
) -> tuple[Lowered, bool]:
    """The cheapest 2-D form that `lower` gives of a function, from its own text or from upstream's; True beside it where it gave none of
    the former. Raises `Refused` where there is none."""
    result, refusal = None, None
    try:
        result = lower(function)
    except Refused as refused:
        if any(d.code.startswith("X") for d in refused.diagnostics):
            raise
        refusal = refused
    start = _legal(function, target, aliased)
    if start is not None and (result is None or price(start, target, default_trips).cost < result.cost * (1 - 1e-9)):
        with suppress(Refused):
            other = lower(start)
            if result is None or other.cost < result.cost * (1 - 1e-9):
                bound = price(skeleton(function), target, default_trips).cost if result is None else result.lower_bound
                other.input_cost = price(function, target, default_trips).cost
                other.lower_bound, other.changed = min(other.cost, bound), True
                other.beaten, other.refusal = result, refusal.diagnostics if refusal is not None else ()
                return other, result is None
    if result is None:
        assert refusal is not None
        raise refusal
    return result, False


def _legal(function: Function, target: Target, aliased: Aliased) -> Function | None:
    """What upstream's pass makes of a function with N-D tiles, where that is a legal program."""
    if is_two_d(function):
        return None
    from extract.upstream.flatten import flatten

    try:
        flat = flatten(function, target, aliased)
    except Refused:
        return None
    legal = not flat.faults and is_two_d(flat.function) and not accumulators(flat.function, target=target.name)
    return flat.function if legal else None
