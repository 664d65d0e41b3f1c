"""Scalar expressions from text in Python syntax: `k0 * 32 + min(16, n - c) // 2`.

Nothing is folded and nothing evaluated: the tree is as written, `2 + 3` stays a sum. What has no sign of its
own in Python is told apart by parentheses, so that every tree has a text: `-5` is the constant, `-(5)` the
negation of 5; `cast(2, "INT32")` casts the INDEX constant 2, `cast((2), "INT32")` is the INT32 constant 2
(and `cast("nan", "FP16")` the one that has no digits). Operands of different widths or categories are
refused, INDEX and INT64 mix.
"""

from __future__ import annotations

import difflib
import keyword
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from pypto_ir.dtypes import DType, promote_scalar
from pypto_ir.expr import COMPARISONS, LOGICAL, Binary, Cast, Const, Expr, Item, Unary, Var
from pypto_ir.scalar_rules import binary_fault, typed_constant, unary_fault
from pypto_ir.types import ScalarType, TupleType, UnknownType

#: longest expression text in characters
MAX_LENGTH = 20_000
#: deepest expression tree; a sum of a hundred terms is that deep
MAX_DEPTH = 100

#: words that are no names, so that every program has a printed form too
RESERVED = frozenset({"min", "max", "abs", "cast", "true", "false", *keyword.kwlist})
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_TOKEN = re.compile(
    r"[ \t]*(?:(?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|(?P<int>\d+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<op>\*\*|//|<<|>>|<=|>=|==|!=|[-+*/%<>&|^~(),\[\]])"
    r"|(?P<string>\"[^\"\\]*\"|'[^'\\]*')|(?P<end>\Z))",
    re.ASCII,
)
_BINARY = {
    "or": ("or", 1), "and": ("and", 2),
    "==": ("eq", 4), "!=": ("ne", 4), "<": ("lt", 4), "<=": ("le", 4), ">": ("gt", 4), ">=": ("ge", 4),
    "|": ("bitor", 5), "^": ("bitxor", 6), "&": ("bitand", 7), "<<": ("shl", 8), ">>": ("shr", 8),
    "+": ("add", 9), "-": ("sub", 9), "*": ("mul", 10), "/": ("truediv", 10), "//": ("floordiv", 10),
    "%": ("mod", 10), "**": ("pow", 12),
}  # fmt: skip
_NOT, _COMPARE, _UNARY, _POWER = 3, 4, 11, 12
_DTYPES = {d.value: d for d in DType}
_NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class ExprError(Exception):
    """The text is no expression: `offset` is the place in it, from 0."""

    def __init__(self, message: str, offset: int = 0, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.offset, self.help = message, offset, help


@dataclass(frozen=True, slots=True)
class _Part:
    """A parsed piece: `dtype` is None where a name in it is unknown, `literal` marks a number in parentheses
    of its own."""

    expr: Expr
    dtype: DType | None
    depth: int = 1
    literal: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    offset: int


def parse_expr(text: str, lookup: Callable[[str, int], Var]) -> Expr:
    """The expression of a text; `lookup(name, offset)` gives the variable of a name. Raises `ExprError`."""
    if len(text) > MAX_LENGTH:
        raise ExprError(f"the expression has {len(text)} characters, allowed are {MAX_LENGTH}")
    return _Parser(_tokens(text), lookup).whole()


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while True:
        found = _TOKEN.match(text, at)
        kind = found.lastgroup if found else None
        if found is None or kind is None:
            start = at + len(text[at:]) - len(text[at:].lstrip(" \t"))
            raise ExprError(f"found {text[start : start + 12]!a}, which starts nothing in an expression", start)
        token = _Token(kind, found[kind], found.start(kind))
        glued = tokens and tokens[-1].kind in ("int", "float") and kind in ("int", "float", "name")
        if glued and tokens[-1].offset + len(tokens[-1].text) == token.offset:
            raise ExprError(
                f"found {ascii(tokens[-1].text + token.text)[:40]}, which is neither a number nor a name",
                tokens[-1].offset,
            )
        tokens.append(token)
        if kind == "end":
            return tokens
        at = found.end()


class _Parser:
    """Precedence climbing over the tokens of one expression."""

    def __init__(self, tokens: list[_Token], lookup: Callable[[str, int], Var]) -> None:
        self.tokens, self.lookup = tokens, lookup
        self.at = 0
        self.open = 0

    def whole(self) -> Expr:
        part = self.binary(0)
        if self.token.kind != "end":
            self.unexpected("an operator or the end")
        return part.expr

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def next(self) -> _Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def unexpected(self, allowed: str) -> NoReturn:
        token = self.token
        found = "the end" if token.kind == "end" else ascii(token.text)[:40]
        raise ExprError(f"found {found}, allowed is {allowed}", token.offset)

    def expect(self, text: str) -> None:
        if self.token.kind == "string" or self.token.text != text:
            self.unexpected(f"`{text}`")
        self.at += 1

    def binary(self, least: int) -> _Part:
        """An expression of operators that bind at least as tightly as `least`."""
        self.open += 1
        if self.open > MAX_DEPTH:
            raise ExprError(f"the expression is nested more than {MAX_DEPTH} levels deep", self.token.offset)
        left = self.prefix(least)
        compared = False
        while True:
            token = self.token
            op, level = _BINARY.get(token.text, ("", -1)) if token.kind in ("op", "name") else ("", -1)
            if level < least or not op:
                break
            if level == _COMPARE and compared:
                raise ExprError(
                    "comparisons do not chain",
                    token.offset,
                    f"write `(a {token.text} b) and (b {token.text} c)`",
                )
            compared = level == _COMPARE
            self.at += 1
            right = self.binary(_UNARY if op == "pow" else level + 1)
            left = self.join(op, token, left, right)
        self.open -= 1
        return left

    def join(self, op: str, token: _Token, left: _Part, right: _Part) -> _Part:
        dtype: DType | None = None
        if left.dtype and right.dtype:
            fault = binary_fault(op, token.text, left.dtype, right.dtype)
            if fault:
                raise ExprError(fault, token.offset, _cast_help(left.dtype, right.dtype))
            dtype = DType.BOOL if op in COMPARISONS or op in LOGICAL else promote_scalar(left.dtype, right.dtype)
        return self.part(Binary(op, left.expr, right.expr), dtype, max(left.depth, right.depth), token.offset)

    def part(self, e: Expr, dtype: DType | None, below: int, offset: int) -> _Part:
        if below >= MAX_DEPTH:
            raise ExprError(
                f"the expression is a tree of more than {MAX_DEPTH} levels",
                offset,
                "define parts of it by statements",
            )
        return _Part(e, dtype, below + 1)

    def prefix(self, least: int) -> _Part:
        token = self.token
        if token.kind == "op" and token.text in ("-", "~"):
            if least > _UNARY:
                self.unexpected("an operand")
            self.at += 1
            number = self.token
            if token.text == "-" and number.kind in ("int", "float") and self.tokens[self.at + 1].text != "**":
                self.at += 1
                return _Part(_number(number, negative=True), DType.INDEX if number.kind == "int" else DType.FP32)
            return self.unary("neg" if token.text == "-" else "bitnot", token, _UNARY)
        if token.kind == "name" and token.text == "not":
            if least > _NOT:
                self.unexpected("an operand (put `not ..` in parentheses)")
            self.at += 1
            return self.unary("not", token, _NOT)
        return self.atom()

    def unary(self, op: str, token: _Token, level: int) -> _Part:
        operand = self.binary(level)
        fault = unary_fault(op, operand.dtype) if operand.dtype else None
        if fault:
            raise ExprError(fault, token.offset)
        dtype = DType.BOOL if op == "not" else operand.dtype
        return self.part(Unary(op, operand.expr), dtype, operand.depth, token.offset)

    def atom(self) -> _Part:
        token = self.next()
        match token.kind:
            case "int":
                return _Part(_number(token), DType.INDEX)
            case "float":
                return _Part(_number(token), DType.FP32)
            case "name" if token.text in ("true", "false"):
                return _Part(Const(token.text == "true", DType.BOOL), DType.BOOL)
            case "name" if token.text in ("min", "max", "abs", "cast"):
                return self.call(token)
            case "name" if token.text not in RESERVED:
                return self.variable(token)
            case "op" if token.text == "(":
                bare = self.token.kind in ("int", "float") or self.token.text == "-"
                inner = self.binary(0)
                self.expect(")")
                return _Part(inner.expr, inner.dtype, inner.depth, bare and isinstance(inner.expr, Const))
        self.at -= 1
        self.unexpected("a name, a number, `(`, `-`, `~`, `not`, min, max, abs or cast")

    def variable(self, token: _Token) -> _Part:
        var = self.lookup(token.text, token.offset)
        e: Expr = var
        t = var.type
        while self.token.text == "[":
            self.at += 1
            if self.token.kind != "int":
                self.unexpected("the number of an element")
            element = int(self.next().text)
            self.expect("]")
            if isinstance(t, TupleType):
                if element >= len(t.items):
                    raise ExprError(f"{token.text} has {len(t.items)} elements, found [{element}]", token.offset)
                t = t.items[element]
            elif not isinstance(t, UnknownType):
                raise ExprError(f"{token.text} is no tuple and has no element [{element}]", token.offset)
            e = Item(e, element)
        if isinstance(t, ScalarType):
            return _Part(e, t.dtype)
        alone = self.at == len(self.tokens) - 1 and self.open == 1 and self.tokens[0] is token
        if alone or isinstance(t, UnknownType):
            return _Part(e, None)
        raise ExprError(f"{token.text} is no scalar and cannot be part of an expression", token.offset)

    def call(self, token: _Token) -> _Part:
        self.expect("(")
        if token.text == "cast":
            return self.cast(token)
        first = self.binary(0)
        if token.text == "abs":
            self.expect(")")
            fault = unary_fault("abs", first.dtype) if first.dtype else None
            if fault:
                raise ExprError(fault, token.offset)
            return self.part(Unary("abs", first.expr), first.dtype, first.depth, token.offset)
        self.expect(",")
        second = self.binary(0)
        self.expect(")")
        return self.join(token.text, token, first, second)

    def cast(self, token: _Token) -> _Part:
        word = self.next() if self.token.kind == "string" else None
        operand = None if word else self.binary(0)
        self.expect(",")
        if self.token.kind != "string":
            self.unexpected('a quoted dtype such as "INT32"')
        name = self.next()
        self.expect(")")
        dtype = _DTYPES.get(name.text[1:-1])
        if dtype is None or dtype is DType.TASK_ID:
            close = difflib.get_close_matches(name.text[1:-1], list(_DTYPES), 1)
            raise ExprError(
                f"found {ascii(name.text)[:40]}, which is no dtype",
                name.offset,
                f"did you mean {close[0]}?" if close else None,
            )
        if operand is None or operand.literal:
            return _Part(self.constant(word, operand, dtype, token), dtype)
        if operand.dtype is DType.TASK_ID:
            raise ExprError("a TASK_ID cannot be cast", token.offset)
        return self.part(Cast(operand.expr, dtype), dtype, operand.depth, token.offset)

    def constant(self, word: _Token | None, operand: _Part | None, dtype: DType, token: _Token) -> Const:
        value: int | float | bool
        if word is not None:
            if word.text[1:-1] not in _NON_FINITE:
                raise ExprError(f'found {word.text[:40]}, allowed are "inf", "-inf" and "nan"', word.offset)
            value = _NON_FINITE[word.text[1:-1]]
        else:
            assert operand is not None and isinstance(operand.expr, Const)
            value = operand.expr.value
        try:
            constant = typed_constant(value, dtype)
            # `cast((1), "FP16")` is an integer constant of a float type, `cast((1.0), "FP16")` is not
            return Const(value, dtype) if type(value) is int else constant
        except ValueError as fault:
            raise ExprError(str(fault), token.offset) from None


def _number(token: _Token, negative: bool = False) -> Const:
    if token.kind == "float":
        value = float(token.text)
        if value == float("inf"):
            raise ExprError("the number is too large for a float", token.offset, 'write cast("inf", "FP32")')
        return Const(-value if negative else value, DType.FP32)
    if len(token.text) > 20 or int(token.text) > 2**63 - (0 if negative else 1):
        raise ExprError("the number does not fit 64 bits", token.offset)
    return Const(-int(token.text) if negative else int(token.text), DType.INDEX)


def _cast_help(left: DType, right: DType) -> str | None:
    if left.is_float != right.is_float or DType.BOOL in (left, right):
        return None
    wide, narrow = (left, right) if left.bits >= right.bits else (right, left)
    return f'cast one of them: cast(.., "{wide.value}") or cast(.., "{narrow.value}")'
