"""How two programs differ: functions, statements, cost, and whether they compute the same.

    found = difference(a, b, target="ascend910b")
    found.verdict, found.functions["main"].changes

Structure is compared in the text that a program file has, statement by statement; costs are those of the model; the verdict comes from
interpretation of both on made inputs, `a` by value and `b` as the chip has it where its functions are 2-D.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from extract.legal import is_two_d
from extract.price import Price, price
from extract.target import PIPES, Target, load_target
from extract.trips import DEFAULT_TRIPS
from pypto_ir.acc_reads import AccReads
from pypto_ir.interp.compare import changed_functions
from pypto_ir.json_writer import function_lines
from pypto_ir.stmt import Function, Program
from pypto_ir.types import TensorType

if TYPE_CHECKING:
    from pypto_ir.interp.compare import Verdict

IDENTICAL, EQUAL, DIFFERENT, UNKNOWN = "identical", "equal", "different", "unknown"
#: seconds of interpretation unless told otherwise
SECONDS = 5.0
#: lines around a change
CONTEXT = 2


@dataclass(frozen=True, slots=True)
class FunctionDifference:
    """One function in both programs: `status` is same, changed, added or removed; costs are cycles of the model, None where the function
    is not there or does not run on a core; `cycles` are by pipe, before and after."""

    status: str
    before: float | None
    after: float | None
    cycles: dict[str, tuple[float, float]] = field(default_factory=dict)
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramDifference:
    """Two programs: the functions by name, whether their runs agree, and on what that rests."""

    functions: dict[str, FunctionDifference]
    verdict: str
    reason: str
    runs: dict[str, int]

    @property
    def before(self) -> float:
        return sum(f.before or 0.0 for f in self.functions.values())

    @property
    def after(self) -> float:
        return sum(f.after or 0.0 for f in self.functions.values())

    def as_json(self) -> dict[str, Any]:
        """The difference as plain values, in a fixed order."""
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "runs": self.runs,
            "cost": {"before": self.before, "after": self.after},
            "functions": {
                name: {
                    "status": f.status,
                    "cost": {"before": f.before, "after": f.after},
                    "cycles": {pipe: {"before": a, "after": b} for pipe, (a, b) in f.cycles.items()},
                    "changes": list(f.changes),
                }
                for name, f in self.functions.items()
            },
        }


def difference(
    a: Program, b: Program, *, target: str | None = None, default_trips: int = DEFAULT_TRIPS, seconds: float = SECONDS
) -> ProgramDifference:
    """Compare two verified programs, function by function by name. `target` prices both; where it is None each is priced for its own."""
    machines = tuple(load_target(target or p.target) for p in (a, b))
    names = [*(f.name for f in a.functions), *(f.name for f in b.functions if a.function(f.name) is None)]
    texts = tuple(map(function_lines, (a, b)))
    functions = {}
    for name in names:
        lines = tuple(text.get(name, []) for text in texts)
        functions[name] = _function((a.function(name), b.function(name)), lines, machines, default_trips)
    verdict, reason, runs = _verdict(a, b, functions, machines[1].acc_reads, seconds)
    return ProgramDifference(functions, verdict, reason, runs)


def _function(
    pair: tuple[Function | None, Function | None], lines: tuple[list[str], ...], machines: tuple[Target, ...], trips: int
) -> FunctionDifference:
    prices = [_price(f, machine, trips) for f, machine in zip(pair, machines, strict=True)]
    old, new = (None if p is None else p.cost for p in prices)
    before, after = lines
    if None in pair:
        changes = tuple([f"+{line}" for line in after] or [f"-{line}" for line in before])
        return FunctionDifference("removed" if pair[1] is None else "added", old, new, changes=changes)
    if pair[0] == pair[1]:
        return FunctionDifference("same", old, new)
    cycles = {}
    if prices[0] is not None and prices[1] is not None:
        values = zip(PIPES, prices[0].cycles.pipes, prices[1].cycles.pipes, strict=True)
        cycles = {pipe: (x, y) for pipe, x, y in values if x or y}
    changes = tuple(difflib.unified_diff(before, after, n=CONTEXT, lineterm=""))[2:]
    return FunctionDifference("changed", old, new, cycles, changes)


def _price(f: Function | None, machine: Target, trips: int) -> Price | None:
    return price(f, machine, trips) if f is not None and f.in_core and f.verbatim is None else None


def _verdict(
    a: Program, b: Program, functions: dict[str, FunctionDifference], reads: AccReads, seconds: float
) -> tuple[str, str, dict[str, int]]:
    """The verdict, the reason of it, and the runs by function that it rests on."""
    status = {f.status for f in functions.values()}
    if status <= {"same"}:
        return IDENTICAL, "every function is the same", {}
    only = [name for name, f in functions.items() if f.status in ("added", "removed")]
    interfaces = [f.name for f in a.functions if (g := b.function(f.name)) is not None and _interface(f) != _interface(g)]
    if interfaces:
        return DIFFERENT, f"the parameters or results of {', '.join(interfaces)} differ", {}
    if only and not [n for n in changed_functions(a, b) if b.function(n) is not None]:
        return UNKNOWN, f"{', '.join(only)} stands in one program only", {}
    found = _compared(a, b, frozenset(only), reads, seconds)
    runs = {name: len(covered.runs) for name, covered in found.covered.items()}
    if not found.equal:
        return DIFFERENT, str(found.difference), runs
    if found.not_covered or only:
        why = [f"{name} was not run ({_first(found, name)})" for name in found.not_covered]
        why += [f"{name} stands in one program only" for name in only]
        return UNKNOWN, "; ".join(why), runs
    cut = [name for name, covered in found.covered.items() if not covered.complete]
    rest = f"; loops of {', '.join(cut)} were cut short in every run" if cut else ""
    return EQUAL, f"{sum(runs.values())} runs agree{rest}", runs


def _first(found: Verdict, name: str) -> str:
    return next(iter(found.covered[name].refused), "no time was left")


def _compared(a: Program, b: Program, only: frozenset[str], reads: AccReads, seconds: float) -> Verdict:
    from pypto_eqsat.mx_stage import compared
    from pypto_ir.interp.compare import equivalent

    if _holds_scales(a) or _holds_scales(b):
        return compared(a, b, seconds)
    changed = [b.function(name) for name in changed_functions(a, b)]
    flat = all(f is None or not f.in_core or is_two_d(f) for f in changed)
    return equivalent(a, b, seconds=seconds, mode="l0c" if flat else "buffer", reads=reads, without=only)


def _holds_scales(p: Program) -> bool:
    from egraph_rules.mx.block import holds_mx

    return holds_mx(p)


def _interface(f: Function) -> tuple[object, ...]:
    """What a caller sees; the shape of a tensor of scales may be the logical one or that of its boxes."""

    def seen(t: object) -> object:
        return (t.dtype, "scales") if isinstance(t, TensorType) and t.dtype.value.startswith("FP8E8M0") else t

    return (tuple((p.var.name, seen(p.var.type), p.direction) for p in f.params), tuple(map(seen, f.returns)))
