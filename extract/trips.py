"""Trip counts of loops from constants and parameter ranges.

`for c in range(0, n, 16)` runs 4 times where n is the constant 64, up to 8 times where n is a parameter of
range [1, 128], and `default` times where nothing bounds n.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from egraph_rules import index_trips
from egraph_rules.index_domain import INDEX_LIMIT, Fact, bounds, exactly, into, make, meet, outside, top
from egraph_rules.index_nodes import apply
from egraph_rules.index_transfer import cast
from egraph_rules.index_trips import variable
from egraph_rules.index_values import Form, Term
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Unary, Var, children, const_int, dtype_of
from pypto_ir.linear import linear
from pypto_ir.stmt import For, Function

#: the least and the greatest value of an expression, both included; None is no bound
Interval: TypeAlias = tuple[int | None, int | None]
Ranges: TypeAlias = Mapping[str, Interval]

#: trips of a loop whose bounds say nothing
DEFAULT_TRIPS = 16

#: runs above which nothing is told apart: what runs more often is priced as if it ran that often
MOST_RUNS = 1e60

_ANY: Interval = (None, None)


def parameter_ranges(function: Function) -> dict[str, Interval]:
    """The stated ranges of a function's scalar parameters."""
    return {p.var.name: p.range for p in function.params if p.range is not None}


def trips(loop: For, ranges: Ranges, default: int = DEFAULT_TRIPS) -> int:
    """How often the body of a loop runs: exact for constant bounds, the upper end of what the ranges allow,
    else `default`.

    `ranges` maps names of scalars (parameters, outer loop variables) to their values' bounds. 0 where the
    loop never runs.
    """
    step = const_int(loop.step)
    if step is None or step == 0:
        return default
    far, near = (loop.stop, loop.start) if step > 0 else (loop.start, loop.stop)
    high, low = interval(far, ranges)[1], interval(near, ranges)[0]
    found = [] if high is None or low is None else [high - low]
    if dtype_of(loop.var) in (DType.INDEX, DType.INT64) and (between := interval(Binary("sub", far, near), ranges)[1]) is not None:
        found.append(between)  # equal terms cancel, as in range(i, i + 64, 16)
    return max(0, -(-min(found) // abs(step))) if found else default


def nested(runs: float, count: float) -> float:
    """The runs of a body that runs `count` times for each of the `runs` around it; finite for any nest of loops."""
    return min(MOST_RUNS, runs * count)


def loop_range(loop: For, ranges: Ranges) -> Interval:
    """The bounds of a loop variable."""
    found = variable(dtype_of(loop.var) or DType.INDEX, _of_bounds(loop, ranges))
    return _ANY if found is None else _ends(found)


def surely_runs(loop: For, ranges: Ranges) -> bool:
    """True where the body of a loop runs at least once."""
    return index_trips.surely_runs(_of_bounds(loop, ranges))


def _of_bounds(loop: For, ranges: Ranges) -> list[Fact | None]:
    return [_Facts(ranges).of(e) for e in (loop.start, loop.stop, loop.step)]


def interval(e: Expr, ranges: Ranges) -> Interval:
    """Bounds of an integer expression at the width of its type, with floor and with truncating division; equal terms of sums cancel
    first, so that `i + 8 - i` is 8 whatever i is."""
    return _ends(_Facts(ranges).of(e))


def _ends(a: Fact) -> Interval:
    """The ends of a fact; what only says how large anything may be is no bound."""
    least, greatest = bounds(a.dtype)
    far = INDEX_LIMIT >> 1
    return None if a.lo <= max(least, -far) else a.lo, None if a.hi >= min(greatest, far) else a.hi


class _Facts:
    """Facts of expressions over names of which bounds are known, each found once."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self.found: dict[Expr, Fact] = {}

    def of(self, e: Expr, part: bool = False) -> Fact:
        """The fact of an operation, met with what the linear form of a sum says; `part` is an operand of such a sum."""
        if isinstance(e, Const) and e.dtype.is_int:
            return exactly(e.dtype, int(e.value))
        if isinstance(e, Var):
            return _known(self.ranges.get(e.name, _ANY), dtype_of(e) or DType.INDEX)
        if e not in self.found:
            self.found[e] = self._operation(e, part)
        return self.found[e]

    def _operation(self, e: Expr, part: bool) -> Fact:
        dtype = dtype_of(e) or DType.INDEX
        if isinstance(e, Cast) and dtype.is_int:
            return cast(self.of(e.operand), dtype) or top(dtype)
        if not isinstance(e, Unary | Binary):
            return top(dtype)
        sums = e.op in ("add", "sub", "mul", "neg")
        operands: list[Fact | None] = [self.of(a, sums) for a in children(e)]
        found = apply(Term(e.op, dtype, (), Form(0)), operands) or top(dtype)
        return (meet(found, self._of_form(e, dtype)) or found) if sums and not part and dtype.is_int else found

    def _of_form(self, e: Expr, dtype: DType) -> Fact | None:
        form = linear(e)
        low = high = form.constant
        for atom, coefficient in form.terms:
            a = self.of(atom, True)
            if not a.dtype.is_int or (a.dtype.bits < dtype.bits and a.dtype.is_unsigned and a.hi > bounds(a.dtype)[1] // 2):
                return top(dtype)  # widened by value, or by its bits
            ends = sorted((coefficient * a.lo, coefficient * a.hi))
            low, high = low + ends[0], high + ends[1]
        return into(dtype, low, high)


def _known(given: Interval, dtype: DType) -> Fact:
    """A name of which bounds are known; an INDEX that nothing bounds is at most as large as memory."""
    whole = outside(dtype)
    least = whole.lo if given[0] is None else max(given[0], bounds(dtype)[0])
    greatest = whole.hi if given[1] is None else min(given[1], bounds(dtype)[1])
    return make(dtype, min(least, greatest), greatest) or whole
