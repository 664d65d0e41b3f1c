"""One function through the pass.

    lowered = flatten(function, target)
    lowered.function, lowered.faults

`faults` are the warnings W401 and W402: where upstream's own program would be wrong or would not be accepted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from egraph_rules.buffers import buffers
from extract.gaps import packed
from extract.legal import nd_values
from extract.repair import linear
from extract.target import Target
from extract.upstream.carries import narrowed
from extract.upstream.checks import preconditions
from extract.upstream.judgement import packings
from extract.upstream.state import State
from extract.upstream.walk import Walk, same
from pypto_ir.diagnostics import Diagnostic, Place, Refused, Severity
from pypto_ir.names import names_of
from pypto_ir.stmt import Function, uses, walk
from pypto_ir.verify import tile_ops_2d

Aliased = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Flattened:
    """The 2-D function, the very same object where the pass changes nothing, and how upstream's own would be wrong."""

    function: Function
    faults: tuple[Diagnostic, ...] = ()


def flatten(function: Function, target: Target, aliased: Aliased = ()) -> Flattened:
    """What upstream makes of an in-core function on a target, with the copies that its program lacks; `aliased` are pairs of parameters
    that may be one buffer.

    Linear in the size of the result. Raises `Refused` with every reason at once.
    """
    return repaired(written(function, target, aliased))


def written(function: Function, target: Target, aliased: Aliased = ()) -> Flattened:
    """`flatten` without the copies: what upstream writes, right or wrong."""
    found = preconditions(function)
    if found:
        raise Refused(found)
    plans, refusals = packings(function, target)
    if refusals:
        raise Refused(refusals)
    statements = list(walk(function.body))
    state = State(function, target, buffers(function, aliased), names_of(function), plans)
    counts = Counter(v.name for s in statements for v in uses(s))
    body = Walk(state, counts).block(function.body)
    state.bag.refuse_if_any()
    body = narrowed(state, body)
    state.bag.refuse_if_any()
    result = function if same(body, function.body) else replace(function, body=body)
    _check_2d(result)
    return Flattened(result, tuple(state.faults))


def _check_2d(function: Function) -> None:
    """Refuse what still has more than two dims: parameters, tiles of other devices, ops that no rule makes 2-D."""
    found = [*tile_ops_2d(function), *nd_values(function)]
    if found:
        help = "reshape the tile to two dims first, or pass it with rank 2"
        raise Refused([Diagnostic("L413", d.message, replace(d.place, path=None), help) for d in _first_of_each(found)])


def _first_of_each(found: list[Diagnostic]) -> list[Diagnostic]:
    """One finding for each statement."""
    seen: dict[Place, Diagnostic] = {}
    for d in found:
        seen.setdefault(replace(d.place, path=None), d)
    return list(seen.values())


def repaired(flat: Flattened) -> Flattened:
    """The function with the copies that linear buffers need, and a fault that tells of them; upstream writes over what is still read.
    Raises `Refused` where a tile cannot be copied."""
    result = flat.function
    for repair in (packed, linear):
        result, problems = repair(result)
        if problems:
            raise Refused(problems)
    if result == flat.function:
        return flat
    message = "upstream overwrites a tile in place that is still read, or reshapes a window with gaps: copies were added"
    fault = Diagnostic("W401", message, Place(function=result.name), severity=Severity.WARNING)
    return Flattened(result, (*flat.faults, fault))
