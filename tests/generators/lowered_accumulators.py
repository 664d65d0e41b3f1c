"""What optimising a program of accumulators promises.

Either the program is refused with codes that say why, or the result is 2-D, every product addresses what it writes, the accumulators fit
into L0C, and the result computes the same, with shared buffers as well as in the blocks of accumulator memory, at no more than what
upstream's program costs where that one is legal.
"""

from __future__ import annotations

from extract.allocate import allocate
from extract.target import load_target
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused, Severity
from pypto_ir.interp.compare import equivalent
from pypto_ir.stmt import Program
from pypto_ir.types import Memory
from pypto_ir.verify import accumulators
from tests.generators.property import Failure, Outcome, accepted, legal, no_dearer, refusal

#: inputs of both parities, on which every program runs whole, and seconds for that
SEEDS, SECONDS = range(2), 5.0
#: seconds of each choice: what is promised holds of choices without a proof too
CHOICE_SECONDS = 0.3


def check_accumulators(program: Program) -> Outcome:
    """Optimise and check everything that is promised; raises `Failure` where something is broken."""
    errors = accepted(program)
    if errors:
        raise Failure("generator", str(errors[0]))
    try:
        result = optimize(program, validate=False, policy_cost=True, choice_seconds=CHOICE_SECONDS)
    except Refused as refused:
        return refusal(refused)
    after = result.program
    legal(program, after)
    _placed(program, after)
    no_dearer(result)
    if after is program:
        return Outcome()
    # an author may rely on products that keep the rest of their blocks, and is warned
    relied = any(d.code == "V303" for d in result.diagnostics)
    return Outcome(changed=True, ran=all(_ran(program, after, mode, relied) for mode in ("buffer", "l0c")))


def _placed(before: Program, after: Program) -> None:
    """Every product addresses what it writes, and all accumulators that live together fit into L0C."""
    target = load_target(before.target)
    for f in after.functions:
        wrong = [d for d in accumulators(f, reads=target.acc_reads) if d.severity is Severity.ERROR]
        if wrong:
            raise Failure(f"addressable-{wrong[0].code}", str(wrong[0]))
        allocation = allocate(f, target)
        held, size = allocation.peak.get(Memory.ACC, 0), target.capacity(Memory.ACC)
        if not allocation.fits or (size is not None and held > size):
            raise Failure("capacity", f"{f.name} holds {held} bytes of the {size} of L0C")


def _ran(before: Program, after: Program, mode: str, keep: bool) -> bool:
    reads = load_target(before.target).acc_reads
    verdict = equivalent(
        before,
        after,
        mode=mode,
        reads=reads,
        keep=keep,
        seeds=SEEDS,
        seconds=SECONDS,
        fills=("small",),
        trips=(None,),
    )
    if not verdict.equal:
        raise Failure(f"equality-{mode}", str(verdict.difference))
    return verdict.validated
