"""Whether two programs do the same: `before` by value, `after` in buffer or l0c mode, on the same made inputs.

    verdict = equivalent(before, after, seconds=5.0)

Compared are every cell of global memory that either run wrote and every returned value, bit by bit (NaN
equals NaN, 0.0 and -0.0 differ), wherever the run of `before` defines it; where `before` is undefined
anything goes, where only `after` is undefined it is a difference. Loops are first cut to 2 trips, then to 8,
to 64 and not at all, as long as time is left; only loops that both programs have
with equal bounds, and no copy of them, are cut.
Inputs for which `before` has no meaning (an offset out of bounds) cover nothing; other seeds are tried then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from time import monotonic
from typing import Any, TypeAlias

from pypto_ir.acc_reads import AccReads
from pypto_ir.expr import Expr, Var, transform
from pypto_ir.interp.machine import STEP_LIMIT, Outcome, run
from pypto_ir.interp.memory import Buffer, Tensor
from pypto_ir.interp.statements import LoopKey
from pypto_ir.interp.values import UNDEFINED, RunError, Tile
from pypto_ir.lazy import np
from pypto_ir.linear import normalize
from pypto_ir.stmt import For, Function, Program, While, walk

#: seconds that the first run of a function may take however little time there is
FIRST_TRY = 5.0
TRIPS = (2, 8, 64, None)
#: seeds tried beyond the given ones for a function for which none of those gave a run that counts
SPARE_SEEDS = 16
#: reasons of `after` that say nothing about equality: no meaning, step, time, depth and memory limits
_LIMITS = ("R002", "R003", "R004", "R007", "R008", "R009")


#: the inputs of a run, by the name of its function and its seed
Given: TypeAlias = Callable[[str, int], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first cell in which two outcomes differ: `what` names the buffer or returned value, values are as
    NumPy prints them.
    """

    function: str
    seed: int
    what: str
    index: tuple[int, ...]
    before: str
    after: str

    def __str__(self) -> str:
        at = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        values = f"is {self.before} before and {self.after} after"
        return f"function {self.function}, seed {self.seed}: {self.what}{at} {values}"


@dataclass(slots=True)
class Covered:
    """What was run of one function: (seed, trips) pairs, whether some run had no loop cut, and reasons of
    runs that did not count.
    """

    runs: list[tuple[int, int | None]] = field(default_factory=list)
    complete: bool = False
    refused: dict[str, int] = field(default_factory=dict)

    def refuse(self, error: RunError, which: str) -> None:
        reason = f"{which}: [{error.code}] {error.message}"
        self.refused[reason] = self.refused.get(reason, 0) + 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """`equal` is False where a difference was found; `covered` says by function on what the answer rests."""

    equal: bool
    difference: Difference | None
    covered: dict[str, Covered]
    seconds: float

    @property
    def validated(self) -> bool:
        """True where no difference was found and every function was run at least once."""
        return self.equal and all(c.runs for c in self.covered.values())

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Functions of which no run counted."""
        return tuple(name for name, c in self.covered.items() if not c.runs)


def equivalent(
    before: Program,
    after: Program,
    function: str | None = None,
    *,
    seeds: Iterable[int] = range(4),
    seconds: float = 10.0,
    fills: tuple[str, ...] = ("small", "wide"),
    trips: tuple[int | None, ...] = TRIPS,
    step_limit: int = STEP_LIMIT,
    mode: str = "buffer",
    reads: AccReads | None = None,
    keep: bool = False,
    without: Container[str] = (),
    given: Given | None = None,
) -> Verdict:
    """Compare one function of two programs, or all functions whose text differs and all that call one of
    them; those that `without` names are run by their callers only. `given` says
    what a run of a function with a seed gets as inputs; the rest is made.

    For each bound of `trips` every seed is run with each fill; seeds alternate between floor and truncating
    division. `after` runs in `mode`, with `reads` and `keep` as `run` has them. Stops at the first
    difference, or after `seconds`; a function that was not tried by then still gets its share of half that
    time.
    """
    start = monotonic()
    names = [function] if function is not None else [n for n in changed_functions(before, after) if n not in without]
    seeds = tuple(seeds)
    how = {"mode": mode, "reads": reads, "keep": keep}
    comparison = _Comparison(before, after, {name: Covered() for name in names}, _common_loops(before, after), step_limit, how, given)
    grace = max(seconds / (2 * max(len(names), 1)), FIRST_TRY)
    cases = [(limit, seed, fill) for limit in trips for seed in seeds for fill in fills]
    spare = [(trips[0], max(seeds, default=0) + extra, fills[0]) for extra in range(1, SPARE_SEEDS + 1)]
    for number, (limit, seed, fill) in enumerate((*cases, *spare)):
        for name, covered in comparison.covered.items():
            if number >= len(cases) and covered.runs:
                continue
            untried = not covered.runs and not covered.refused
            left = max(start + seconds - monotonic(), grace if untried else 0.0)
            if left <= 0 or (name, seed, fill) in comparison.finished:
                continue
            difference = comparison.attempt(name, seed, fill, limit, monotonic() + left)
            if difference is not None:
                return Verdict(False, difference, comparison.covered, monotonic() - start)
    return Verdict(True, None, comparison.covered, monotonic() - start)


@dataclass(slots=True)
class _Comparison:
    before: Program
    after: Program
    covered: dict[str, Covered]
    cuttable: frozenset[LoopKey]
    step_limit: int
    how: dict[str, Any]
    given: Given | None = None
    finished: set[tuple[str, int, str]] = field(default_factory=set)

    def attempt(self, name: str, seed: int, fill: str, trips: int | None, deadline: float) -> Difference | None:
        """Run both programs once and compare; records what was covered."""
        covered = self.covered[name]
        options: dict[str, Any] = {
            "inputs": self.given(name, seed) if self.given is not None else None,
            "seed": seed,
            "fill": fill,
            "max_trips": trips,
            "cuttable": self.cuttable,
            "step_limit": self.step_limit,
            "deadline": deadline,
            "division": "trunc" if seed % 2 else "floor",
        }
        try:
            first = run(self.before, name, mode="value", **options)
        except RunError as error:
            covered.refuse(error, "before")
            return None
        try:
            second = run(self.after, name, **self.how, **options)
        except RunError as error:
            if error.code in _LIMITS:
                covered.refuse(error, "after")
                return None
            return Difference(name, seed, "the run", (), "defined", f"refused: {error.message}")
        difference = compare(first, second, name, seed)
        if difference is None:
            covered.runs.append((seed, trips))
            if first.complete and second.complete:
                covered.complete = True
                self.finished.add((name, seed, fill))
        return difference


def changed_functions(before: Program, after: Program) -> list[str]:
    """The functions that differ between two programs, in the order of `before`, and those that call one of
    them.
    """
    changed = {f.name for f in before.functions if after.function(f.name) != f}
    while True:
        callers = {f.name for f in before.functions if f.name not in changed and changed & set(_callees(f))}
        if not callers:
            return [f.name for f in before.functions if f.name in changed]
        changed |= callers


def _callees(function: Function) -> Iterator[str]:
    for s in walk(function.body):
        name = getattr(getattr(s, "value", None), "function", None)
        if isinstance(name, str):
            yield name


def _common_loops(before: Program, after: Program) -> frozenset[LoopKey]:
    """The loops of both programs that run equally often: none of which `after` has a copy, as where pages are done group by group."""
    loops, others = _loops(before), _loops(after)
    count, counted = Counter(map(_kind, loops.items())), Counter(map(_kind, others.items()))
    return frozenset(
        key for key, bounds in loops.items() if others.get(key) == bounds and count[_kind((key, bounds))] == counted[_kind((key, bounds))]
    )


def _kind(loop: tuple[LoopKey, tuple[Expr, ...]]) -> tuple[str, tuple[Expr, ...]]:
    """The function and the bounds of a loop, whatever their variables are called: those of a copy have other names."""
    (function, _), bounds = loop
    return function, tuple(transform(e, lambda v: Var("", v.type)) for e in bounds)


def _loops(program: Program) -> dict[LoopKey, tuple[Expr, ...]]:
    found: dict[LoopKey, tuple[Expr, ...]] = {}
    for function in program.functions:
        for s in walk(function.body):
            if isinstance(s, For):
                found[function.name, s.var.name] = tuple(map(normalize, (s.start, s.stop, s.step)))
            elif isinstance(s, While):
                found[function.name, s.carries[0].var.name if s.carries else "while"] = (normalize(s.cond),)
    return found


def compare(before: Outcome, after: Outcome, function: str = "", seed: int = 0) -> Difference | None:
    """The first difference of two outcomes of runs on the same inputs, or None."""
    for name, buffer in before.memory.items():
        found = _compare_buffers(buffer, after.memory[name])
        if found is not None:
            return Difference(function, seed, f"buffer {name}", *found)
    if len(before.returned) != len(after.returned):
        counts = str(len(before.returned)), str(len(after.returned))
        return Difference(function, seed, "number of returned values", (), *counts)
    names = {id(buffer): name for outcome in (before, after) for name, buffer in outcome.memory.items()}
    for i, (a, b) in enumerate(zip(before.returned, after.returned, strict=True)):
        found = _compare_values(a, b, names)
        if found is not None:
            return Difference(function, seed, f"returned value {i}", *found)
    return None


def _compare_buffers(a: Buffer, b: Buffer) -> tuple[tuple[int, ...], str, str] | None:
    if a.size != b.size or a.dtype != b.dtype:
        return (), f"{a.size} x {a.dtype.value}", f"{b.size} x {b.dtype.value}"
    for number in sorted({*a.written_pages(), *b.written_pages()}):
        (data, ok, written), (other, other_ok, other_written) = a.page(number), b.page(number)
        position = _first((written | other_written) & ok, data, other, other_ok)
        if position is not None:
            at = (number * a.page_size + position[0],)
            return at, str(data[position]), str(other[position]) if other_ok[position] else "undefined"
    return None


def _compare_values(a: Any, b: Any, names: dict[int, str]) -> tuple[tuple[int, ...], str, str] | None:
    if a is UNDEFINED:
        return None
    if isinstance(a, Tile) and isinstance(b, Tile):
        return _compare_cells(a.data, a.readable(), b.data, b.readable())
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        a, b = a.physical(), b.physical()
        one, two = names.get(id(a.buffer)), names.get(id(b.buffer))
        if one != two or a.shape != b.shape:
            return (), f"a view {list(a.shape)} of {one}", f"a view {list(b.shape)} of {two}"
        if one is not None:
            return None
        origin = (0,) * len(a.shape)
        if prod(a.shape) == 0:
            return None
        (data, ok), (other, other_ok) = a.read(origin, a.shape), b.read(origin, b.shape)
        return _compare_cells(data, ok, other, other_ok)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        for one, two in zip(a, b, strict=True):
            found = _compare_values(one, two, names)
            if found is not None:
                return found
        return None
    if b is UNDEFINED or isinstance(a, Tile | Tensor | tuple) or isinstance(b, Tile | Tensor | tuple):
        return (), str(a), str(b)
    return _compare_cells(np.asarray(a), np.True_, np.asarray(b), np.True_)


def _compare_cells(data: Any, ok: Any, other: Any, other_ok: Any) -> tuple[tuple[int, ...], str, str] | None:
    if data.shape != other.shape or data.dtype != other.dtype:
        return (), f"{list(data.shape)} of {data.dtype}", f"{list(other.shape)} of {other.dtype}"
    position = _first(ok, data, other, other_ok)
    if position is None:
        return None
    return (
        position,
        str(data[position]),
        str(other[position]) if np.broadcast_to(other_ok, data.shape)[position] else "undefined",
    )


def _first(wanted: Any, data: Any, other: Any, other_ok: Any) -> tuple[int, ...] | None:
    """The index of the first wanted cell that is undefined in `other` or differs in its bits (two NaNs are
    equal).
    """
    bits = np.dtype(f"u{data.dtype.itemsize}")
    same = np.ascontiguousarray(data).view(bits) == np.ascontiguousarray(other).view(bits)
    same = same.reshape(data.shape)
    if not same.all():
        same = same | ((data != data) & (other != other))
    wrong = np.asarray(wanted & ~(same & other_ok))
    if not wrong.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
