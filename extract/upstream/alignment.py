"""Whether a row offset is a multiple of a window's height (`spec/flatten.md` 8.4, test 16a).

`t * 16` is a multiple of 16 for every t; so is `r` where `r = t * 16` defines it. Of what is not constant only powers of two are proved,
since fixed-width arithmetic that wraps around keeps divisibility by these alone.
"""

from __future__ import annotations

from extract.upstream.chains import Chains
from pypto_ir.expr import Binary, Expr, Var, const_int

#: expressions that one proof looks at
STEPS = 256


def aligned(chains: Chains, row: Expr, height: int) -> bool:
    """True where `row` is proved to be a multiple of `height` that is not known to be negative."""
    value = const_int(row)
    if value is not None:
        return value >= 0 and value % height == 0
    return height & (height - 1) == 0 and _Proof(chains).multiple(row, height)


class _Proof:
    def __init__(self, chains: Chains) -> None:
        self.chains, self.left = chains, STEPS

    def multiple(self, e: Expr, of: int) -> bool:
        self.left -= 1
        if self.left < 0:
            return False
        value = const_int(e)
        if value is not None:
            return value % of == 0
        match e:
            case Binary(op="mul", left=a, right=b):
                return self.multiple(a, of) or self.multiple(b, of)
            case Binary(op="add" | "sub", left=a, right=b):
                return self.multiple(a, of) and self.multiple(b, of)
            case Var(name=name):
                s = self.chains.defs.get(name)
                return s is not None and len(s.targets) == 1 and _is_scalar(s.value) and self.multiple(s.value, of)  # type: ignore[arg-type]
        return False


def _is_scalar(value: object) -> bool:
    return isinstance(value, Binary | Var) or const_int(value) is not None  # type: ignore[arg-type]
