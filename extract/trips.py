"""Trip counts of loops from constants and parameter ranges.

`for c in range(0, n, 16)` runs 4 times where n is the constant 64, up to 8 times where n is a parameter of
range [1, 128], and `default` times where nothing bounds n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from pypto_ir.expr import Binary, Cast, Const, Expr, Unary, Var, const_int
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
    ends = (loop.stop, loop.start) if step > 0 else (loop.start, loop.stop)
    distance = interval(Binary("sub", *ends), ranges)[1]
    return default if distance is None else max(0, -(-distance // abs(step)))


def nested(runs: float, count: float) -> float:
    """The runs of a body that runs `count` times for each of the `runs` around it; finite for any nest of loops."""
    return min(MOST_RUNS, runs * count)


def loop_range(loop: For, ranges: Ranges) -> Interval:
    """The bounds of a loop variable."""
    step = const_int(loop.step)
    start, stop = interval(loop.start, ranges), interval(loop.stop, ranges)
    if step is None or step == 0:
        return _ANY
    if step > 0:
        return start[0], None if stop[1] is None else stop[1] - 1
    return None if stop[0] is None else stop[0] + 1, start[1]


def interval(e: Expr, ranges: Ranges) -> Interval:
    """Bounds of an integer expression; equal terms of sums cancel first, so that `i + 8 - i` is 8 whatever i
    is."""
    form = linear(e)
    low: int | None = form.constant
    high: int | None = form.constant
    for atom, coefficient in form.terms:
        a, b = _atom(atom, ranges)
        if coefficient < 0:
            a, b = b, a
        low = None if low is None or a is None else low + coefficient * a
        high = None if high is None or b is None else high + coefficient * b
    return low, high


def _atom(e: Expr, ranges: Ranges) -> Interval:
    match e:
        case Var(name=name):
            return ranges.get(name, _ANY)
        case Cast(operand=a, dtype=d) if d.is_int:
            return interval(a, ranges)
        case Unary(op="abs", operand=a):
            low, high = interval(a, ranges)
            return 0, None if low is None or high is None else max(abs(low), abs(high))
        case Binary(op="min", left=a, right=b):
            (a0, a1), (b0, b1) = interval(a, ranges), interval(b, ranges)
            return _both(a0, b0, min), _either(a1, b1, min)
        case Binary(op="max", left=a, right=b):
            (a0, a1), (b0, b1) = interval(a, ranges), interval(b, ranges)
            return _either(a0, b0, max), _both(a1, b1, max)
        case Binary(op="floordiv", left=a, right=Const() as b) if (by := const_int(b)) is not None and by > 0:
            low, high = interval(a, ranges)
            return None if low is None else low // by, None if high is None else high // by
        case Binary(op="mod", right=Const() as b) if (by := const_int(b)) is not None and by > 0:
            return 0, by - 1
        case Binary(op="mul", left=a, right=b):
            (a0, a1), (b0, b1) = interval(a, ranges), interval(b, ranges)
            if a0 is None or a1 is None or b0 is None or b1 is None:
                return _ANY
            corners = (a0 * b0, a0 * b1, a1 * b0, a1 * b1)
            return min(corners), max(corners)
    return _ANY


def _both(a: int | None, b: int | None, of: Callable[[int, int], int]) -> int | None:
    return None if a is None or b is None else of(a, b)


def _either(a: int | None, b: int | None, of: Callable[[int, int], int]) -> int | None:
    return b if a is None else a if b is None else of(a, b)
