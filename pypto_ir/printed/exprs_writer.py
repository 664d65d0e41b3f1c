"""Scalar expressions as PyPTO prints them: the fewest parentheses, constants bare or typed.

INDEX constants are bare, `pl.const(42, pl.INT32)` and `pl.const(-0.25, pl.BF16)` are typed, FP32 prints with
17 digits. A tree of constants only is typed in every leaf, since a reader folds bare ones; so are the
constants of a composite dim (`spec/tile_ir.md` section 8).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pypto_ir.dtypes import DType
from pypto_ir.expr import BINARY_OPS, COMPARISONS, Binary, Cast, Const, Expr, Item, MakeTuple, Unary, Var

_PRECEDENCE = {
    "or": 1, "and": 3, "not": 4,
    "eq": 5, "ne": 5, "lt": 5, "le": 5, "gt": 5, "ge": 5,
    "bitor": 6, "bitxor": 7, "bitand": 8, "shl": 9, "shr": 9, "add": 10, "sub": 10,
    "mul": 11, "truediv": 11, "floordiv": 11, "mod": 11, "neg": 12, "bitnot": 12, "pow": 13,
}  # fmt: skip
_ATOM = 14
_UNARY = {"neg": "-", "bitnot": "~", "not": "not "}
_NOT_ARITHMETIC = COMPARISONS | {"and", "or", "min", "max"}

#: text and how tightly it binds, and the text with typed leaves of what consists of constants only
_Part = tuple[str, int, str | None]


class ExprWriter:
    """Writes expressions; `names` are the variables that print under another name."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def text(self, e: Expr) -> str:
        """An expression as an operand or value."""
        if type(e) is Var:
            return self.names.get(e.name, e.name)
        if type(e) is Const:
            return const_text(e)
        return self._part(e, False)[0]

    def dim(self, e: Expr) -> str:
        """A dim or an entry of a view: a constant is bare whatever its dtype."""
        if type(e) is Const:
            return str(e.value)
        return self._part(e, True)[0]

    def list(self, items: tuple[Expr, ...]) -> str:
        return "[" + ", ".join([self.text(i) for i in items]) + "]"

    def dims(self, items: tuple[Expr, ...]) -> str:
        return "[" + ", ".join([self.dim(i) for i in items]) + "]"

    def _part(self, e: Expr, typed: bool) -> _Part:
        match e:
            case Var(name=name):
                return self.names.get(name, name), _ATOM, None
            case Const(dtype=dtype):
                full = typed_text(e)
                text = full if typed and dtype is DType.INDEX else const_text(e)
                return text, _ATOM, full
            case MakeTuple(items=items):
                return "[" + ", ".join([self._part(i, typed)[0] for i in items]) + "]", _ATOM, None
            case Item(of=of, index=i):
                return f"{self._at_least(of, _ATOM, typed)}[{i}]", _ATOM, None
            case Cast(operand=a, dtype=d):
                return f"pl.cast({self._part(a, typed)[0]}, pl.{d.value})", _ATOM, None
            case Unary(op="abs", operand=a):
                return f"abs({self._part(a, typed)[0]})", _ATOM, None
            case Unary(op=op, operand=a):
                level = _PRECEDENCE[op]
                part = self._part(a, typed)
                if part[2] is not None and op != "not":
                    whole = _UNARY[op] + _typed(part, level)
                    return whole, level, whole
                return _UNARY[op] + _closed(part[0], part[1], level), level, None
            case Binary(op="min" | "max" as op, left=a, right=b):
                return f"pl.{op}({self._part(a, typed)[0]}, {self._part(b, typed)[0]})", _ATOM, None
            case Binary(op=op, left=a, right=b):
                return self._binary(op, self._part(a, typed), self._part(b, typed))
        raise TypeError(f"not an expression: {e!r}")

    def _binary(self, op: str, a: _Part, b: _Part) -> _Part:
        level = _PRECEDENCE[op]
        # comparisons do not chain, and on the left of ** a sign binds less tightly than the operator
        left = level + 1 if op == "pow" or level == 5 else level
        right = level + 1
        if op == "pow" and a[0].startswith("-"):
            a = (a[0], _PRECEDENCE["neg"], a[2])
        if a[2] is not None and b[2] is not None and op not in _NOT_ARITHMETIC:
            whole = f"{_typed(a, left)} {BINARY_OPS[op]} {_typed(b, right)}"
            return whole, level, whole
        return f"{_closed(a[0], a[1], left)} {BINARY_OPS[op]} {_closed(b[0], b[1], right)}", level, None

    def _at_least(self, e: Expr, level: int, typed: bool) -> str:
        text, own, _ = self._part(e, typed)
        return _closed(text, own, level)


def _typed(part: _Part, level: int) -> str:
    text, own, full = part
    assert full is not None
    # the typed form of a single constant is a call, whatever its bare form is
    return _closed(full, own if text == full else _ATOM, level)


def _closed(text: str, own: int, level: int) -> str:
    return text if own >= level else f"({text})"


def float_text(value: float) -> str:
    """A float with 17 digits; `1e999` and its negation are the infinities, their difference is NaN."""
    if math.isnan(value):
        return "1e999 - 1e999"
    if math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    text = f"{value:.17g}"
    return text if "." in text or "e" in text else f"{text}.0"


def typed_text(c: Const) -> str:
    """`pl.const(42, pl.INT32)`."""
    value = c.value
    text = float_text(value) if isinstance(value, float) else str(value)
    return f"pl.const({text}, pl.{c.dtype.value})"


def const_text(c: Const) -> str:
    """A constant: bare where its text implies its type."""
    value = c.value
    if type(value) is bool:
        return "True" if value else "False"
    if c.dtype is DType.INDEX:
        return str(value)
    if c.dtype is DType.FP32 and isinstance(value, float) and math.isfinite(value):
        return float_text(value)
    return typed_text(c)
