"""What optimising a program of batched products promises.

Either the program is refused with codes that say why, or the result is 2-D, computes the same, costs no more than a legal lowering of
upstream's, and lies in the target's memories without overlaps. The exact choice is that of a brute force where there are few choices, and
what is refused for its size has no choice that fits.
"""

from __future__ import annotations

from random import Random

from egraph_rules.buffers import aliased_params
from egraph_rules.narrowed import narrow_accumulators
from extract.allocate import allocate
from extract.price import price
from extract.target import Target, load_target
from pypto_eqsat.driver import Result, optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.interp.compare import equivalent
from pypto_ir.stmt import Function, Program
from pypto_ir.verify import accumulators
from tests.extract.brute_force import CHOICES, asked
from tests.extract.every_choice import EveryChoice
from tests.extract.memory_machine import Clash, MemoryMachine
from tests.generators.property import REFUSALS, Failure, Outcome, accepted, legal, refusal
from tests.generators.ways_into_l1 import impossible

#: inputs that every program runs on, and seconds for that
SEEDS, SECONDS = range(2), 2.0
#: choices that are written as programs: all of a function that has no more, the cheapest of one that has
WRITTEN = 40
#: runs of each result in a memory of marks
RUNS = 3


def check_products(program: Program, compare: bool = True, brute: bool = True) -> Outcome:
    """Optimise and check everything that is promised; raises `Failure` where something is broken. Values are compared where `compare`
    asks for it, and choices with those of a brute force where `brute` does: of large tiles and of large batches that takes long."""
    errors = accepted(program)
    if errors:
        raise Failure("generator", str(errors[0]))
    target = load_target(program.target)
    try:
        result = optimize(program, validate=False, policy_cost=True)
    except Refused as refused:
        outcome = refusal(refused, REFUSALS | {"M001"})
        if "M001" in outcome.codes and brute:
            _nothing_fits(program, target)
        return outcome
    after = result.program
    legal(program, after)
    _no_dearer(result)
    for f in after.functions:
        _placed(f, target)
    if brute:
        _cheapest(program, result, target)
    if after is program or not compare:
        return Outcome(changed=after is not program)
    keep = any(d.code == "V303" for d in result.diagnostics)
    verdict = equivalent(program, after, mode="l0c", reads=target.acc_reads, keep=keep, seeds=SEEDS, seconds=SECONDS)
    if not verdict.equal:
        raise Failure("equality", str(verdict.difference))
    return Outcome(changed=True, ran=verdict.validated)


def check_near(program: Program) -> Outcome:
    """The promises of a program near the limits, whose values are compared by the smaller ones."""
    return check_products(program, compare=False)


def check_large(program: Program) -> Outcome:
    """The promises of a program of large batches, which may be loops where upstream writes them out; what they cost counts, not how
    they are chosen."""
    return check_products(program, brute=False)


def _no_dearer(result: Result) -> None:
    cost, upstream = result.stats["cost"], result.stats["policy_cost"]
    if upstream is not None and cost > upstream * (1 + 1e-9):
        raise Failure("dearer-than-upstream", f"the result costs {cost}, upstream's program {upstream}")


def _placed(f: Function, target: Target) -> None:
    """No product writes what it cannot address, L1 is filled as the machine can, no tile is overwritten while it is read, and none lies
    outside of its memory."""
    astray = impossible(f)
    if astray:
        raise Failure("way-into-l1", astray[0])
    wrong = [d for d in accumulators(f, reads=target.acc_reads) if d.severity.value == "error"]
    if wrong:
        raise Failure(f"addressable-{wrong[0].code}", str(wrong[0]))
    allocation = allocate(f, target)
    if not allocation.fits:
        raise Failure("capacity", f"{f.name} needs {allocation.peak}")
    for run in range(RUNS):
        try:
            MemoryMachine(f, target, allocation, Random(run)).run()
        except Clash as clash:
            raise Failure("overlap", str(clash)) from clash


def _every(program: Program, target: Target, most: int) -> list[EveryChoice]:
    """All choices of the functions that have no more than `most`."""
    aliased, found = aliased_params(program), []
    for f in program.functions:
        question = asked(f, aliased.get(f.name, ()), target)
        every = None if question is None else EveryChoice.of(question, most)
        if every is not None:
            found.append(every)
    return found


def _cheapest(program: Program, result: Result, target: Target) -> None:
    """The exact choice is that of the brute force, and no choice that fits is cheaper than the result."""
    for every in _every(program, target, CHOICES):
        if len(every.choices) <= WRITTEN:
            try:
                every.compared(target)
            except AssertionError as error:
                raise Failure("brute-force", str(error)) from error
            continue
        first = every.first_that_fits(target, WRITTEN)
        cost = result.stats["cost"]
        if first is not None and first.function is not None:
            # accumulators of partly valid products are declared by their rows, which costs something
            least = price(narrow_accumulators(first.function), target).cost
            if least < cost * (1 - 1e-9):
                raise Failure("brute-force", f"the result costs {cost}, a choice that fits {least}")


def _nothing_fits(program: Program, target: Target) -> None:
    for every in _every(program, target, CHOICES):
        first = every.first_that_fits(target, len(every.choices))
        if first is not None:
            raise Failure("refused-though-it-fits", f"a choice that fits costs {first.price.cost if first.price else '?'}")
