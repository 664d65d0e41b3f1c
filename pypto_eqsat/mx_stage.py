"""The second stage: MX scale tensors in physical form, after every function is 2-D.

    blocking = block(program, policy="cheapest", stores=False)
    blocking.program      the program with rank-5 scales, every function stamped

What is refused is refused with every reason at once; what is given is verified by the driver, as every other result.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from egraph_rules.index_calls import call_sites
from egraph_rules.mx.block import Blocking, block_scales
from pypto_ir.diagnostics import Diagnostics
from pypto_ir.stmt import Program
from pypto_ir.types import ScalarType

if TYPE_CHECKING:
    from egraph_rules.index_facts import IndexFacts
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

    A function that is called with offsets into scales runs through its callers: that these are whole boxes was proved of what the
    callers give, not of any number. Where no caller can be run, it runs by itself on numbers of which the proved facts hold."""
    from pypto_ir.interp.compare import equivalent
    from pypto_ir.interp.filled import filled

    called, programs = _called(before), (filled(before), filled(after))
    verdict = equivalent(*programs, seconds=seconds, without=called)
    alone = called - _reached(before, {name for name, covered in verdict.covered.items() if covered.runs})
    if not verdict.equal or not alone:
        return verdict
    from egraph_rules.index_facts import IndexFacts

    others = {f.name for f in before.functions} - alone
    second = equivalent(*programs, seconds=seconds, without=others, given=partial(_fitting, IndexFacts(before)))
    covered = {**verdict.covered, **second.covered}
    return replace(second, covered=covered, seconds=verdict.seconds + second.seconds)


def _called(program: Program) -> frozenset[str]:
    """Functions with scalar parameters that are called in the program."""
    names = {site.callee for f in program.functions for site in call_sites(f)}
    return frozenset(f.name for f in program.functions if f.name in names and any(isinstance(p.var.type, ScalarType) for p in f.params))


def _reached(program: Program, names: set[str]) -> set[str]:
    """The functions that some of these call, directly or through others."""
    callees = {f.name: {site.callee for site in call_sites(f)} for f in program.functions}
    found, stack = set[str](), list(names)
    while stack:
        for name in callees.get(stack.pop(), ()):
            if name not in found:
                found.add(name)
                stack.append(name)
    return found


def _fitting(facts: IndexFacts, name: str, seed: int) -> dict[str, int]:
    """Numbers for the integer parameters of a function of which its facts hold: by seed the least that is not negative, and the next."""
    function = facts.program.function(name)
    assert function is not None
    numbers = {}
    for param in function.params:
        if isinstance(param.var.type, ScalarType) and param.var.type.dtype.is_int:
            fact = facts.of(name, param.var)
            step = fact.modulus or 1
            least = max(fact.lo, min(0, fact.hi))
            least += (fact.residue - least) % step
            numbers[param.var.name] = (
                fact.constant if fact.constant is not None else least + step * min(seed, max(fact.hi - least, 0) // step)
            )
    return numbers


def stats(blocking: Blocking | None) -> dict[str, Any]:
    """What the stage did, ready for JSON; `unbounded` are the windows that are not proved to end inside their tensor."""
    if blocking is None:
        return {"run": False}
    unbounded = [{"function": f, "statement": s} for f, s in blocking.unbounded]
    return {"run": True, "windows": blocking.loads, "unbounded": unbounded}
