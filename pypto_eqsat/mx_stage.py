"""The second stage: MX scale tensors in physical form, after every function is 2-D.

    blocking = block(program, policy="cheapest", stores=False)
    blocking.program      the program with rank-5 scales, every function stamped

What is refused is refused with every reason at once; what is given is verified by the driver, as every other result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from egraph_rules.mx.block import Blocking, block_scales
from pypto_ir.diagnostics import Diagnostics
from pypto_ir.stmt import Assign, Eval, FunctionCall, Program, Submit, walk
from pypto_ir.types import ScalarType

if TYPE_CHECKING:
    from egraph_rules.mx.proofs import Prover
    from pypto_ir.interp.compare import Verdict

#: the policy under which offsets are proved by upstream's rules; under any other they are proved by facts
UPSTREAM = "upstream"


def prover(program: Program, policy: str) -> Prover:
    """What proves offsets under a policy. What upstream's rules prove is taken where the facts confirm it: they know of widths, and a
    wrong program must not leave."""
    from egraph_rules.mx.facts import FactProver

    if policy != UPSTREAM:
        return FactProver(program)
    from egraph_rules.mx.upstream import Confirmed, UpstreamProver

    return Confirmed(UpstreamProver(program), FactProver(program))


def block(program: Program, source: Program, *, policy: str = "cheapest", stores: bool = False) -> Blocking:
    """The scales of `program` in physical form; `source` is what the user gave, of which diagnostics name the places. Raises `Refused`
    with every reason."""
    bag = Diagnostics()
    result = block_scales(program, prover(program, policy), bag, stores=stores)
    if bag.has_errors:
        same = {f.name for f, g in zip(program.functions, source.functions, strict=True) if f is g}
        found, bag = list(bag), Diagnostics()
        # a path leads through the source only where the function is still the one that was given
        bag.extend(d if d.place.function in same else replace(d, place=replace(d.place, path=None)) for d in found)
        bag.refuse_if_any()
    return result


def compared(before: Program, after: Program, seconds: float) -> Verdict:
    """Whether the stage changed what a program computes. New tiles hold zeros, so that what is added to them counts.

    A function that is called with offsets into scales runs through its callers only: that these are whole boxes was proved of what the
    callers give, not of any number."""
    from pypto_ir.interp.compare import equivalent
    from pypto_ir.interp.filled import filled

    return equivalent(filled(before), filled(after), seconds=seconds, without=_called(before))


def _called(program: Program) -> frozenset[str]:
    """Functions with scalar parameters that are called in the program."""
    values = (s.value for f in program.functions for s in walk(f.body) if isinstance(s, Assign | Eval))
    calls = {value.function for value in values if isinstance(value, FunctionCall | Submit)}
    return frozenset(f.name for f in program.functions if f.name in calls and any(isinstance(p.var.type, ScalarType) for p in f.params))


def stats(blocking: Blocking | None) -> dict[str, Any]:
    """What the stage did, ready for JSON; `unbounded` are the windows that are not proved to end inside their tensor."""
    if blocking is None:
        return {"run": False}
    unbounded = [{"function": f, "statement": s} for f, s in blocking.unbounded]
    return {"run": True, "windows": blocking.loads, "unbounded": unbounded}
