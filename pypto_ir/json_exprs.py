"""Expressions and literals of program files.

`"k0 * 32"` is an expression, `7` an INDEX constant, `{"const": 2.0, "dtype": "FP32"}` a typed one, `[0, "k",
0]` a tuple. Keyword arguments and attributes hold literals instead: there `"Mat"` is a word and `{"var":
"n"}` the value n.
"""

from __future__ import annotations

import math
from typing import Any

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, Item, MakeTuple, Var, dtype_of
from pypto_ir.expr_parser import RESERVED, ExprError, parse_expr
from pypto_ir.json_context import Reading
from pypto_ir.json_findings import Bad, Keys, found, short
from pypto_ir.json_names import POISON
from pypto_ir.json_place import Path
from pypto_ir.ops.registry import kind_name, type_of
from pypto_ir.scalar_rules import typed_constant
from pypto_ir.stmt import Keywords, Literal, Record
from pypto_ir.types import TupleType, UnknownType

declare(
    J301="text is no expression",
    J302="an expression has the wrong type here",
    J303="a constant is no value of its type",
    J304="a literal is not allowed here",
)

_CONST = Keys(("const", "dtype"), ("integer",))
_ITEM = Keys(("item", "of"))
DTYPES = {d.value: d for d in DType}
#: one object for each: a NaN equals only itself, and only as the same object
_WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_FORMS = "an expression: an integer, a string, true, false, a list, {const, dtype} or {item, of}"


def read_expr(r: Reading, value: Any, path: Path, plain: DType | None = None) -> Expr:
    """An expression; a plain number takes the type `plain` where given, INDEX else. Raises `Bad` after
    reporting."""
    kind = type(value)
    if kind is str:
        if value.isidentifier() and value not in RESERVED and value.isascii():
            return r.names.lookup(value, path, 0)
        return _read_text(r, value, path)
    if kind is int and plain is None:
        return Const(r.integer(value, path, "an INDEX constant"), DType.INDEX)
    if kind is bool:
        return Const(value, DType.BOOL)
    if kind is list:
        return MakeTuple(read_exprs(r, value, path, "a tuple"))
    if kind is dict:
        return _read_item(r, value, path) if "item" in value or "of" in value else _read_const(r, value, path)
    if kind in (int, float) and plain is not None:
        return _constant(r, value, plain, path)
    if kind is float:
        r.fail(
            "J101",
            path,
            f"found {value!r}, a number with a fraction needs a type here",
            f'write {{"const": {value!r}, "dtype": "FP32"}}',
        )
    r.fail("J101", path, f"found {found(value)}, allowed is {_FORMS}")


def read_exprs(r: Reading, value: Any, path: Path, what: str) -> tuple[Expr, ...]:
    """A list of expressions, all of them read before it fails."""
    result: list[Expr] = []
    bad = False
    for i, element in enumerate(r.list(value, path, what)):
        try:
            result.append(read_expr(r, element, (path, i)))
        except Bad:
            bad = True
    if bad:
        raise Bad
    return tuple(result)


def read_scalar(r: Reading, value: Any, path: Path, what: str, kind: str) -> Expr:
    """An expression of one kind: `integer`, `BOOL` or `scalar`."""
    e = read_expr(r, value, path)
    t = type_of(e)
    d = dtype_of(e)
    fits = d is not None and (kind == "scalar" or (d.is_int if kind == "integer" else d is DType.BOOL))
    if not fits and not isinstance(t, UnknownType):
        allowed = "an integer" if kind == "integer" else f"a {kind}"
        r.fail("J302", path, f"found {kind_name(t)}, allowed as {what} is {allowed}")
    return e


def is_poisoned(e: Expr) -> bool:
    """True where a part of the expression could not be read, so that nothing can be said about its type."""
    match e:
        case MakeTuple(items=items):
            return any(map(is_poisoned, items))
        case Const():
            return False
        case Var(type=t):
            return t is POISON
    return dtype_of(e) is None and isinstance(type_of(e), UnknownType)


def _read_text(r: Reading, text: str, path: Path) -> Expr:
    try:
        return parse_expr(text, lambda name, offset: r.names.lookup(name, path, offset))
    except ExprError as fault:
        r.fail("J301", path, f"in the expression {short(text)}: {fault.message}", fault.help, offset=fault.offset)


def _read_const(r: Reading, value: Any, path: Path) -> Expr:
    fields = r.object(value, path, "a typed constant {const, dtype}", _CONST)
    dtype = DTYPES[r.word(fields["dtype"], (path, "dtype"), "dtype", tuple(DTYPES))]
    number = fields["const"]
    at = (path, "const")
    if type(number) is str:
        number = _WORDS[r.word(number, at, "constant", tuple(_WORDS))]
    elif type(number) not in (int, float, bool):
        r.fail("J101", at, f'found {found(number)}, allowed is a number, true, false, "inf", "-inf" or "nan"')
    elif number in (float("inf"), float("-inf")):
        r.fail("J303", at, "the number is too large for a float", 'write "inf" or "-inf"')
    if "integer" in fields and r.flag(fields["integer"], (path, "integer"), "integer"):
        # an integer constant of a float type or BOOL, which prints without a fraction
        return Const(r.integer(number, at, "an integer constant"), dtype)
    return _constant(r, number, dtype, at)


def _constant(r: Reading, number: int | float | bool, dtype: DType, path: Path) -> Const:
    try:
        return typed_constant(number, dtype)
    except (ValueError, OverflowError) as fault:
        r.fail(
            "J303",
            path,
            str(fault) if isinstance(fault, ValueError) else f"the number is too large for {dtype.value}",
        )


def _read_item(r: Reading, value: Any, path: Path) -> Expr:
    fields = r.object(value, path, "an element {item, of}", _ITEM)
    index = r.integer(fields["item"], (path, "item"), "the number of an element", 0, 2**31)
    of = read_expr(r, fields["of"], (path, "of"))
    t = type_of(of)
    if isinstance(t, TupleType):
        if index >= len(t.items):
            r.fail(
                "J105",
                (path, "item"),
                f"found {index}, the tuple has {len(t.items)} elements, counted from 0",
            )
    elif not isinstance(t, UnknownType):
        r.fail("J302", (path, "of"), f"found {kind_name(t)}, allowed is a tuple")
    return Item(of, index)


def read_literal(r: Reading, value: Any, path: Path) -> Literal:
    """A literal of a keyword argument or an attribute."""
    match value:
        case None | bool():
            return value
        case int():
            return r.integer(value, path, "a literal")
        case float():
            if value in (float("inf"), float("-inf")):
                r.fail("J303", path, "the number is too large for a float")
            return value
        case str():
            return r.string(value, path, "a word")
        case list():
            return tuple(read_literal(r, element, (path, i)) for i, element in enumerate(value))
    if type(value) is dict and len(value) == 1 and "var" in value:
        name = r.names.check(value["var"], (path, "var"), "the name of a value")
        return r.names.lookup(name, (path, "var"), 0)
    if type(value) is dict and len(value) == 1 and "expr" in value:
        return read_expr(r, value["expr"], (path, "expr"))
    return Record(read_keywords(r, value, path, "a literal"))


def read_keywords(r: Reading, value: Any, path: Path, what: str) -> Keywords:
    """An object of literals: keyword arguments or attributes, in their order."""
    if type(value) is not dict:
        r.fail("J101", path, f"found {found(value)}, allowed is {what}, an object")
    result: list[tuple[str, Literal]] = []
    bad = False
    for key, element in value.items():
        try:
            result.append((r.string(key, (path, key), "a key"), read_literal(r, element, (path, key))))
        except Bad:
            bad = True
    if bad:
        raise Bad
    return tuple(result)
