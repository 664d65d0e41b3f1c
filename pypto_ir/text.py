"""Expressions as text in the Python syntax of program files, with the fewest parentheses that keep the tree.

`expr_parser` reads the text back to the same tree. Two trees that Python spells alike differ in parentheses:
-5 is the constant, -(5) the negation of 5; cast(2, "INT32") casts an INDEX constant, cast((2), "INT32") is
the INT32 constant.
"""

from __future__ import annotations

from pypto_ir.dtypes import DType
from pypto_ir.expr import BINARY_OPS, Binary, Cast, Const, Expr, Item, MakeTuple, Unary, Var

_PRECEDENCE = {
    "or": 1, "and": 2, "not": 3,
    "eq": 4, "ne": 4, "lt": 4, "le": 4, "gt": 4, "ge": 4,
    "bitor": 5, "bitxor": 6, "bitand": 7, "shl": 8, "shr": 8, "add": 9, "sub": 9,
    "mul": 10, "truediv": 10, "floordiv": 10, "mod": 10, "neg": 11, "bitnot": 11, "pow": 12,
}  # fmt: skip
_ATOM = 13


def expr_text(e: Expr) -> str:
    """`e` in Python syntax; constants that are neither INDEX, FP32 nor BOOL print as `cast((value),
    "DTYPE")`."""
    return _text(e)[0]


def _text(e: Expr) -> tuple[str, int]:
    match e:
        case Const(value=v, dtype=d):
            return _const(v, d)
        case Var(name=n):
            return n, _ATOM
        case MakeTuple(items=items):
            return "[" + ", ".join(expr_text(i) for i in items) + "]", _ATOM
        case Item(of=of, index=i):
            return f"{_at_least(of, _ATOM)}[{i}]", _ATOM
        case Cast(operand=a, dtype=d):
            return f'cast({expr_text(a)}, "{d.value}")', _ATOM
        case Unary(op="abs", operand=a):
            return f"abs({expr_text(a)})", _ATOM
        case Unary(op=op, operand=a):
            level = _PRECEDENCE[op]
            if op == "neg" and isinstance(a, Const):
                text = expr_text(a)
                return f"-({text})" if text[0].isdigit() else f"-{text}", level
            return {"neg": "-", "not": "not ", "bitnot": "~"}[op] + _at_least(a, level), level
        case Binary(op="min" | "max" as op, left=a, right=b):
            return f"{op}({expr_text(a)}, {expr_text(b)})", _ATOM
        case Binary(op=op, left=a, right=b):
            level = _PRECEDENCE[op]
            # ** binds to the right, comparisons do not associate at all, everything else binds to the left
            left = level + 1 if op == "pow" or level == 4 else level
            right = _PRECEDENCE["neg"] if op == "pow" else level + 1
            return f"{_at_least(a, left)} {BINARY_OPS[op]} {_at_least(b, right)}", level
    raise TypeError(f"not an expression: {e!r}")


def _at_least(e: Expr, level: int) -> str:
    text, own = _text(e)
    return text if own >= level else f"({text})"


def _const(value: int | float | bool, dtype: DType) -> tuple[str, int]:
    if isinstance(value, int) and not isinstance(value, bool) and (dtype.is_float or dtype is DType.BOOL):
        return f'cast(({value}), "{dtype.value}")', _ATOM
    if dtype is DType.BOOL:
        return ("true" if value else "false"), _ATOM
    if dtype is DType.INDEX:
        return str(value), _ATOM if value >= 0 else _PRECEDENCE["neg"]
    text = repr(float(value) if dtype.is_float else value)
    if text.lstrip("-") in ("inf", "nan"):
        return f'cast("{text}", "{dtype.value}")', _ATOM
    if dtype is DType.FP32:
        return text, _PRECEDENCE["neg"] if text.startswith("-") else _ATOM
    return f'cast(({text}), "{dtype.value}")', _ATOM
