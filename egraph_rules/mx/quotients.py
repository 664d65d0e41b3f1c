"""An offset in boxes: `FloorDiv(offset, 16)`, or an equal expression of fewer operations where nothing wraps.

    r0            ->  r0 // 16
    i * 16 + 32   ->  i + 2            where the facts prove that neither i * 16 nor i * 16 + 32 wraps
    row + blk * 16  ->  row // 16 + blk

Why the condition: x * 256 with x = 1 << 24 in INT32 is 0, and so is (x * 256) // 16, but x * 16 is 268435456. The quotient of the
original expression is always right, since the offset was proved to be a multiple: floor and truncating division agree on it.
"""

from __future__ import annotations

from egraph_rules.mx.proofs import Prover, Where
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Expr, Unary, children, const_int, dtype_of, index
from pypto_ir.linear import Linear, linear, to_expr


def quotient(at: Where, offset: Expr, by: int, prover: Prover, fired: dict[str, int]) -> Expr:
    """`offset // by`, where `offset` is proved to be a non-negative multiple of `by`."""
    value = const_int(offset)
    if value is not None:
        return _used(fired, "mx.offset.constant", index(value // by))
    plain = divided(offset, by)
    if prover.rewrites and dtype_of(offset) is DType.INDEX:
        shorter = _termwise(offset, by)
        if operations(shorter) < operations(plain) and prover.exact(at, offset) and prover.exact(at, shorter):
            return _used(fired, "mx.offset.termwise", shorter)
    return _used(fired, "mx.offset.quotient", plain)


def _used(fired: dict[str, int], rule: str, e: Expr) -> Expr:
    fired[rule] = fired.get(rule, 0) + 1
    return e


def divided(offset: Expr, by: int) -> Expr:
    """The quotient with upstream's promotion: the narrower operand is cast, the offset on a tie of widths keeps its type, and INDEX and
    INT64 need no cast."""
    dtype = dtype_of(offset)
    if dtype is DType.UINT64:
        return Binary("floordiv", offset, Cast(index(by), dtype))
    if dtype is not None and dtype.bits < DType.INDEX.bits:
        offset = Cast(offset, DType.INDEX)
    return Binary("floordiv", offset, index(by))


def _termwise(offset: Expr, by: int) -> Expr:
    """The quotient of every term that `by` divides, and of the rest, which is a multiple too since the whole is one."""
    form = linear(offset)
    whole = tuple((atom, c // by) for atom, c in form.terms if c % by == 0)
    rest = tuple((atom, c) for atom, c in form.terms if c % by)
    constant = form.constant
    if constant % by == 0:
        left, kept = constant // by, 0
    else:
        left, kept = 0, constant
    if not rest:
        return to_expr(Linear(left, whole)) if not kept else divided(offset, by)
    remaining = Binary("floordiv", to_expr(Linear(kept, rest)), index(by))
    return to_expr(Linear(left, ((remaining, 1), *whole)))


def operations(e: Expr) -> int:
    """How many operations an expression computes."""
    count, stack = 0, [e]
    while stack:
        node = stack.pop()
        count += isinstance(node, Binary | Unary | Cast)
        stack.extend(children(node))
    return count
