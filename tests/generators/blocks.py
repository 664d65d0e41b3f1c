"""What the verifier and the interpreter of accumulator memory promise of one 2-D program.

A program that the verifier accepts computes in blocks of accumulator memory what it computes by value; one
that it only warns of does where products keep the rest of their blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from extract.target import load_target
from pypto_ir.diagnostics import Severity
from pypto_ir.interp.compare import equivalent
from pypto_ir.stmt import Program
from pypto_ir.verify import accumulators, linearity
from tests.generators.property import Failure, accepted

#: every program runs whole, on inputs of both parities
SEEDS, SECONDS = range(2), 5.0


@dataclass(frozen=True, slots=True)
class Blocks:
    """What was found of a program, and whether its run in accumulator memory gave the values that it has by value."""

    codes: frozenset[str]
    refused: bool
    right: bool


def check_blocks(program: Program) -> Blocks:
    """Run a program by value and in accumulator memory; raises `Failure` where that breaks a promise."""
    errors = [*accepted(program), *(d for f in program.functions for d in linearity(f))]
    if errors:
        raise Failure("generator", str(errors[0]))
    found = [d for f in program.functions for d in accumulators(f, reads=load_target(program.target).acc_reads)]
    refused = any(d.severity is Severity.ERROR for d in found)
    right = _right(program, keep=False)
    if not found and not right:
        raise Failure("accepted", "the verifier accepts what is wrong in accumulator memory")
    if found and not refused and not (right or _right(program, keep=True)):
        raise Failure("warned", "a program that relies on the rest of its blocks alone is wrong although they are kept")
    return Blocks(frozenset(d.code for d in found), refused, right)


def _right(program: Program, keep: bool) -> bool:
    verdict = equivalent(
        program, program, program.functions[0].name, mode="l0c", reads=load_target(program.target).acc_reads, keep=keep,
        seeds=SEEDS, seconds=SECONDS, fills=("small",), trips=(None,),
    )  # fmt: skip
    if verdict.equal and not verdict.validated:
        raise Failure("never-run", str(verdict.covered))
    return verdict.equal
