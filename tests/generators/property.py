"""What optimising a program promises, checked on one program.

Either the program is refused, with codes that say what cannot be lowered, or the result is a legal 2-D
program that computes the same, is read back from its own file, costs no more than a legal input, and is not
changed by a second run.
"""

from __future__ import annotations

from dataclasses import dataclass

from extract.legal import is_two_d
from extract.price import price_program
from extract.target import load_target
from pypto_eqsat.driver import Result, optimize
from pypto_ir.diagnostics import Diagnostic, Refused, Severity
from pypto_ir.interp.compare import equivalent
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Program
from pypto_ir.verify import accumulators, linearity, tile_ops_2d, verify_program

#: seeds beyond the default ones, and seconds of the comparison
SEEDS, SECONDS = range(4), 2.0
#: reasons of a refusal besides those of lowering: buffers that cannot be linear, accumulators that products cannot address
REFUSALS = frozenset({"V202", "V203", "V301", "V302", "V304", "V305", "V306"})


class Failure(AssertionError):
    """A broken promise; `kind` is one word for it, so that failures can be counted."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Outcome:
    """`codes` are the reasons of a refusal, empty where the program was lowered; `ran` tells whether a run
    compared input and output; `changed` whether they differ at all."""

    codes: tuple[str, ...] = ()
    message: str = ""
    changed: bool = False
    ran: bool = False

    @property
    def refused(self) -> bool:
        return bool(self.codes)


def accepted(program: Program) -> list[Diagnostic]:
    """What the verifiers hold against a program; nothing for generated ones."""
    return [d for d in verify_program(program) if d.severity is Severity.ERROR]


def check(program: Program, upstream: bool = False) -> Outcome:
    """Optimise and check everything that is promised; raises `Failure` where something is broken. With `upstream` the result may cost no
    more than upstream's program, where that one is legal."""
    errors = accepted(program)
    if errors:
        raise Failure("generator", str(errors[0]))
    text = write_program(program)
    _same(read_program(text), program, "input-round-trip")
    try:
        result = optimize(program, validate=False, policy_cost=upstream)
    except Refused as refused:
        return refusal(refused)
    after = result.program
    legal(program, after)
    if upstream:
        no_dearer(result)
    out = write_program(after)
    _same(read_program(out), after, "round-trip")
    _cost(program, after, result.stats["cost"])
    again = optimize(after, validate=False).program
    if write_program(again) != out:
        raise Failure("idempotence", "a second run changes the program")
    changed = after is not program
    ran = False
    if changed:
        verdict = equivalent(program, after, seeds=SEEDS, seconds=SECONDS)
        if not verdict.equal:
            raise Failure("equality", str(verdict.difference))
        ran = verdict.validated
    return Outcome(changed=changed, ran=ran)


def refusal(refused: Refused, reasons: frozenset[str] = REFUSALS) -> Outcome:
    """A refusal as an outcome; raises `Failure` where it has reasons besides those of lowering and `reasons`."""
    found = [d for d in refused.diagnostics if d.severity is Severity.ERROR]
    for d in found:
        if not (d.code.startswith("L") or d.code in reasons):
            raise Failure(d.code, str(d)) from refused
    return Outcome(tuple(dict.fromkeys(d.code for d in found)), str(found[0]))


def _same(read: Program, program: Program, kind: str) -> None:
    if read != program:
        raise Failure(kind, "the program read back differs")


def legal(before: Program, after: Program) -> None:
    """Raises `Failure` where a result is no legal 2-D program, or where what is no in-core function was changed."""
    errors = accepted(after)
    for old, f in zip(before.functions, after.functions, strict=True):
        if f.in_core:
            errors += [*tile_ops_2d(f), *linearity(f)]
            if not is_two_d(f):
                raise Failure("two-d", f"{f.name} is no legal 2-D program")
        elif f != old:
            raise Failure("untouched", f"{f.name} is no in-core function and was changed")
    if errors:
        raise Failure(f"legal-{errors[0].code}", str(errors[0]))


def no_dearer(result: Result) -> None:
    """Raises `Failure` where upstream's program is legal and costs less."""
    cost, upstream = result.stats["cost"], result.stats["policy_cost"]
    if upstream is not None and cost > upstream * (1 + 1e-9):
        raise Failure("dearer-than-upstream", f"the result costs {cost}, upstream's program {upstream}")


def _cost(before: Program, after: Program, stated: float) -> None:
    """The stated cost is that of the result, and no function that was legal has become dearer."""
    target = load_target(before.target)
    old, new = price_program(before, target), price_program(after, target)
    total = sum(p.cost for p in new.values())
    if abs(total - stated) > 1e-6 * max(1.0, total):
        raise Failure("stated-cost", f"the result costs {total}, stated is {stated}")
    for f in before.functions:
        addressable = not any(d.severity is Severity.ERROR for d in accumulators(f, reads=target.acc_reads))
        if f.in_core and addressable and is_two_d(f) and new[f.name].cost > old[f.name].cost * (1 + 1e-9):
            raise Failure("dearer", f"{f.name} costs {new[f.name].cost}, its legal input {old[f.name].cost}")
