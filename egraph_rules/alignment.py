"""Which index expressions are multiples of a number, whatever the run-time values are.

`t * 16` is a multiple of 16 for every t; so are the variable of `for t0 in range(0, n, 16)` and sums of such. Where the divisor is a power
of two, arithmetic that wraps at its width keeps this. For other divisors only what cannot wrap is taken: constants, and loop variables
between constants.
"""

from __future__ import annotations

from pypto_ir.expr import Binary, Expr, Var, const_int
from pypto_ir.stmt import Assign, Call, For, Function, FunctionCall, Submit, walk

#: expressions looked at for one answer
BUDGET = 256


class Alignment:
    """What is known about the index expressions of one function."""

    def __init__(self, function: Function) -> None:
        self.defined: dict[str, Expr] = {}
        self.loops: dict[str, For] = {}
        for s in walk(function.body):
            if isinstance(s, For):
                self.loops[s.var.name] = s
            elif isinstance(s, Assign) and len(s.targets) == 1 and not isinstance(s.value, Call | FunctionCall | Submit):
                self.defined[s.target.name] = s.value

    def multiple(self, e: Expr, divisor: int) -> bool:
        """True where `e` is a multiple of `divisor` and, if constant, not negative."""
        value = const_int(e)
        if value is not None:
            return value >= 0 and value % divisor == 0
        return self._known(e, divisor, [BUDGET])

    def _known(self, e: Expr, divisor: int, budget: list[int]) -> bool:
        budget[0] -= 1
        if budget[0] < 0:
            return False
        value = const_int(e)
        if value is not None:
            return value % divisor == 0
        wraps = divisor & (divisor - 1) != 0
        match e:
            case Var(name=name) if name in self.loops:
                loop = self.loops[name]
                parts = (loop.start, loop.step)
                bounded = all(const_int(p) is not None for p in (*parts, loop.stop))
                return (bounded or not wraps) and all(self._known(p, divisor, budget) for p in parts)
            case Var(name=name) if name in self.defined:
                return self._known(self.defined[name], divisor, budget)
            case Binary(op="add" | "sub", left=a, right=b) if not wraps:
                return self._known(a, divisor, budget) and self._known(b, divisor, budget)
            case Binary(op="mul", left=a, right=b) if not wraps:
                return self._known(a, divisor, budget) or self._known(b, divisor, budget)
        return False
