"""The prover of upstream's pass, rule by rule and with its budget (`spec/mx.md` section 6): what `--policy upstream` asks.

`k0 // 32` with k0 from range(256, 2048, 256) is a multiple of 2, because 256 is one of 64; it is not negative, because k0 starts at 256
and steps upwards. Each of the two proofs may look at 256 nodes of the expressions.

It takes for granted that sums and products do not overflow, so some of what it accepts is false: `i * i` in INT32 over
range(0, 46368, 16) is -2146459392 at i = 46352. Its accepts are those of upstream, not those of the default.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from egraph_rules.index_calls import CallSite, arguments, call_sites, called
from egraph_rules.mx.proofs import Gap, Prover, Where
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Var, const_int, dtype_of, index
from pypto_ir.stmt import Assign, Call, For, Function, FunctionCall, Program, Scope, Submit, Value, walk
from pypto_ir.types import ScalarType

#: nodes that one proof may look at
BUDGET = 256
#: the largest divisor that fits where upstream keeps it
_LARGEST = (1 << 63) - 1
_NON_NEGATIVE = frozenset({"tile.get_block_idx", "tile.get_block_num"})

#: a name in a function: (function, name)
Name: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class ProgramScalars:
    """What one walk over a program finds: scalar definitions, names of block indices and counts, loops with constant start and step,
    and for every scalar parameter the arguments of all calls (None for an argument that is missing)."""

    definitions: dict[Name, Value] = field(default_factory=dict)
    blocks: set[Name] = field(default_factory=set)
    loops: dict[Name, tuple[int, int]] = field(default_factory=dict)
    sources: dict[Name, list[tuple[CallSite, Expr | None]]] = field(default_factory=dict)

    @staticmethod
    def of(program: Program) -> ProgramScalars:
        found = ProgramScalars()
        functions = {f.name: f for f in program.functions}
        for function in program.functions:
            for s in walk(function.body):
                match s:
                    case For(start=Const() as start, step=Const() as step):
                        found.loops[function.name, s.var.name] = int(start.value), int(step.value)
                    case Assign(targets=(target,), value=value) if isinstance(target.type, ScalarType):
                        found.definitions.setdefault((function.name, target.name), value)
                        if isinstance(value, Call) and value.op in _NON_NEGATIVE:
                            found.blocks.add((function.name, target.name))
                    case Scope(kind="spmd", var=Var(name=name)):  # its variable is the block index
                        found.blocks.add((function.name, name))
            for site in call_sites(function):
                if site.callee in functions:
                    found._call(functions[site.callee], site)
        return found

    def _call(self, callee: Function, site: CallSite) -> None:
        """Note what a call gives each scalar parameter: nothing where it leaves a parameter to the run time, None for all of them where
        it does not fit."""
        call = called(site.statement)
        assert call is not None
        given = arguments(call, callee)
        for i, param in enumerate(callee.params):
            if isinstance(param.var.type, ScalarType) and (given is None or given[i] is not None):
                source = None if given is None else given[i]
                self.sources.setdefault((callee.name, param.var.name), []).append((site, source))


class UpstreamProver:
    """Proofs as upstream makes them."""

    forms = (
        "constants, scalar definitions, products, sums, differences (for the multiple only), quotients by a positive power of two, "
        "loops with constant start and step, tile.get_block_idx, tile.get_block_num, parameters that are proved at every call"
    )

    def __init__(self, program: Program) -> None:
        self.scalars = ProgramScalars.of(program)

    def divisible(self, at: Where, e: Expr, by: int) -> Gap | None:
        proof = _Proof(self.scalars)
        return None if proof.multiple(at.function.name, e, (), by) else proof.gap

    def non_negative(self, at: Where, e: Expr) -> Gap | None:
        proof = _Proof(self.scalars)
        return None if proof.non_negative(at.function.name, e, ()) else proof.gap

    def inside(self, at: Where, offset: Expr, size: int, extent: int) -> bool | None:
        value = const_int(offset)
        return None if value is None else 0 <= value <= extent - size

    def quotient(self, at: Where, e: Expr, by: int) -> Expr:
        """The plain quotient, so that the offset is computed as it was and then divided. The narrower operand is cast, on a tie of widths
        the offset keeps its type, and INDEX and INT64 need no cast."""
        dtype = dtype_of(e)
        if dtype is DType.UINT64:
            return Binary("floordiv", e, Cast(index(by), dtype))
        narrow = dtype is not None and dtype.bits < DType.INDEX.bits
        return Binary("floordiv", Cast(e, DType.INDEX) if narrow else e, index(by))


class Confirmed:
    """Upstream's proofs, as far as another prover, which knows of widths, comes to the same."""

    def __init__(self, upstream: UpstreamProver, sound: Prover) -> None:
        self.upstream, self.sound, self.forms = upstream, sound, upstream.forms

    def divisible(self, at: Where, e: Expr, by: int) -> Gap | None:
        return self.upstream.divisible(at, e, by) or _doubted(self.sound.divisible(at, e, by))

    def non_negative(self, at: Where, e: Expr) -> Gap | None:
        return self.upstream.non_negative(at, e) or _doubted(self.sound.non_negative(at, e))

    def inside(self, at: Where, offset: Expr, size: int, extent: int) -> bool | None:
        return self.upstream.inside(at, offset, size, extent)

    def quotient(self, at: Where, e: Expr, by: int) -> Expr:
        return self.upstream.quotient(at, e, by)


def _doubted(gap: Gap | None) -> Gap | None:
    return gap and replace(gap, reason="upstream's rules accept it, but it does not hold at its width")


class _Proof:
    """One proof: its budget, and where it broke."""

    def __init__(self, scalars: ProgramScalars) -> None:
        self.scalars, self.left, self.gap = scalars, BUDGET, Gap(None, "")

    def step(self, f: str, e: Value | None, sites: tuple[str, ...]) -> bool:
        """Pay for a node. False where there is none, or the budget is used up."""
        if e is None:
            return self.broken(f, None, sites, "the call does not give it")
        self.left -= 1
        if self.left < 0:
            return self.broken(f, e, sites, f"{BUDGET} steps are used up")
        return True

    def broken(self, f: str, e: Value | None, sites: tuple[str, ...], reason: str | None = None) -> bool:
        """Note a gap; of several the first is the one that is told, a gap of the budget before others."""
        spent = self.gap.reason is not None and self.left < 0
        if not spent:
            self.gap = Gap(None if isinstance(e, Call | FunctionCall | Submit) else e, f, None, sites, reason)
        return False

    def multiple(self, f: str, e: Value | None, sites: tuple[str, ...], d: int) -> bool:
        if not self.step(f, e, sites):
            return False
        match e:
            case Const() if (value := const_int(e)) is not None:
                return value % d == 0 or self.broken(f, e, sites)
            case Binary(op="mul", left=a, right=b):
                if self.multiple(f, a, sites, d) or self.multiple(f, b, sites, d):
                    return True
                return self.broken(f, e, sites, f"neither factor is a multiple of {d}")
            case Binary(op="add" | "sub", left=a, right=b):
                return self.multiple(f, a, sites, d) and self.multiple(f, b, sites, d)
            case Binary(op="floordiv", left=a, right=b):
                c = const_int(b)
                if c is None or c <= 0 or c & (c - 1) or c * d > _LARGEST:
                    return self.broken(f, e, sites, "the divisor is no positive power of two")
                return self.multiple(f, a, sites, c * d)
            case Var(name=name):
                start, step = self.scalars.loops.get((f, name), (None, None))
                if start is not None and step is not None and start % d == 0 and step % d == 0:
                    return True
                for origin in (origins := self.origins(f, e, sites)):
                    if not self.multiple(*origin, d):
                        return False
                return bool(origins)
        return self.broken(f, e, sites, "no rule for it")

    def non_negative(self, f: str, e: Value | None, sites: tuple[str, ...]) -> bool:
        if not self.step(f, e, sites):
            return False
        match e:
            case Const() if (value := const_int(e)) is not None:
                return value >= 0 or self.broken(f, e, sites)
            case Binary(op="mul" | "add", left=a, right=b):
                return self.non_negative(f, a, sites) and self.non_negative(f, b, sites)
            case Binary(op="floordiv", left=a, right=b):
                c = const_int(b)
                if c is None or c <= 0:
                    return self.broken(f, e, sites, "the divisor is no positive constant")
                return self.non_negative(f, a, sites)
            case Var(name=name):
                if (f, name) in self.scalars.blocks:
                    return True
                start, step = self.scalars.loops.get((f, name), (-1, -1))
                if start >= 0 and step >= 0:
                    return True
                for origin in (origins := self.origins(f, e, sites)):
                    if not self.non_negative(*origin):
                        return False
                return bool(origins)
        return self.broken(f, e, sites, "no rule for it")

    def origins(self, f: str, e: Var, sites: tuple[str, ...]) -> list[tuple[str, Value | None, tuple[str, ...]]]:
        """Where a name gets its value: for a parameter the arguments of all its calls, for any other name its definition. Empty, and a
        gap, where nothing says it."""
        sources = self.scalars.sources.get((f, e.name))
        if sources:
            return [(site.caller, source, (*sites, str(site))) for site, source in sources]
        definition = self.scalars.definitions.get((f, e.name))
        if definition is None:
            self.broken(f, e, sites, "no call or definition says what it is")
            return []
        return [(f, definition, sites)]
