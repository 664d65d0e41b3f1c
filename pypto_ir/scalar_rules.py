"""What scalar operators and constants of program files may be: operands of one category and width, values
that their type holds.

INDEX and INT64 mix, INT32 and INT64 do not; 300 is no INT8. `unary_fault` and `binary_fault` say what is
wrong, or None.
"""

from __future__ import annotations

from pypto_ir.dtypes import DType, promote_scalar
from pypto_ir.expr import LOGICAL, Const

_INT_OPS = frozenset({"bitand", "bitor", "bitxor", "shl", "shr"})


def unary_fault(op: str, dtype: DType) -> str | None:
    """Why a unary operator cannot take an operand of this type, or None where it can."""
    if op == "not":
        return None if dtype is DType.BOOL else f"`not` takes a BOOL, found {dtype.value}"
    if op == "bitnot":
        return None if dtype.is_int else f"`~` takes an integer, found {dtype.value}"
    sign = "-" if op == "neg" else op
    return None if dtype.is_int or dtype.is_float else f"`{sign}` takes a number, found {dtype.value}"


def binary_fault(op: str, spelling: str, left: DType, right: DType) -> str | None:
    """Why a binary operator cannot take operands of these types, or None where it can."""
    found = f"found {left.value} and {right.value}"
    if op in LOGICAL:
        return None if left is right is DType.BOOL else f"`{spelling}` takes BOOLs, {found}"
    if promote_scalar(left, right) is None:
        return f"`{spelling}` takes two integers or two floats, {found}"
    if left.bits != right.bits:
        return f"`{spelling}` takes operands of one width, {found}"
    if op in _INT_OPS and not left.is_int:
        return f"`{spelling}` takes integers, {found}"
    if op == "truediv" and not left.is_float:
        return f"`/` divides floats, {found}"
    return None


def typed_constant(value: int | float | bool, dtype: DType) -> Const:
    """A constant of a type from a number; raises `ValueError` where the type does not hold it."""
    if dtype is DType.BOOL:
        if value in (0, 1):
            return Const(bool(value), DType.BOOL)
    elif dtype.is_float:
        return Const(float(value), dtype)
    elif dtype.is_int and not isinstance(value, bool) and value == value and value not in (float("inf"), float("-inf")):
        low = 0 if dtype.is_unsigned else -(2 ** (dtype.bits - 1))
        high = 2**dtype.bits - 1 if dtype.is_unsigned else 2 ** (dtype.bits - 1) - 1
        if int(value) == value and low <= value <= high:
            return Const(int(value), dtype)
        if int(value) == value:
            raise ValueError(f"found {_short(value)}, {dtype.value} holds {low} to {high}")
    raise ValueError(f"found {_short(value)}, which is no value of {dtype.value}")


def _short(value: float) -> str:
    try:
        text = str(value)
    except ValueError:  # more digits than Python prints
        return "a number of thousands of digits"
    return text if len(text) <= 40 else f"{text[:20]}.. ({len(text)} characters)"
