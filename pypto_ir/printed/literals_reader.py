"""Values of keyword arguments and attributes: numbers, strings, words of enumerations, variables, lists.

`{"arg_directions": [pl.adir.input], "hot": True}` is `(("arg_directions", ("input",)), ("hot", True))`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from pypto_ir.expr import Const
from pypto_ir.printed.exprs_reader import Exprs, attribute, shown
from pypto_ir.printed.words import DTYPE, DTYPES, MEMBERS, enum_record
from pypto_ir.stmt import Keywords, Literal, Record

_MAX_DEPTH = 30


class Literals:
    """Reads the literals of one function."""

    def __init__(self, exprs: Exprs) -> None:
        self.exprs, self.r = exprs, exprs.r

    def keywords(self, items: list[ast.keyword], enums: Mapping[str, str]) -> Keywords:
        """Keyword arguments of a call."""
        result: list[tuple[str, Literal]] = []
        for item in items:
            if item.arg is None:
                self.r.fail("P301", item.value, "found `**`, allowed are keyword arguments")
            result.append((item.arg, self.literal(item.value, enums.get(item.arg))))
        return tuple(result)

    def record(self, node: ast.expr, enums: Mapping[str, str], depth: int = 0) -> Keywords:
        """A dict with string keys."""
        if not isinstance(node, ast.Dict):
            self.r.fail("P301", node, f"found {shown(node)}, allowed are attributes `{{..}}`")
        result: list[tuple[str, Literal]] = []
        seen: set[str] = set()
        for key, value in zip(node.keys, node.values, strict=True):
            if not (isinstance(key, ast.Constant) and type(key.value) is str):
                self.r.fail("P301", key or value, "keys of attributes are strings")
            if key.value in seen:
                self.r.fail("P301", key, f"the key {shown(key)} occurs twice")
            seen.add(key.value)
            result.append((key.value, self.literal(value, enums.get(key.value), depth + 1)))
        return tuple(result)

    def literal(self, node: ast.expr, enum: str | None, depth: int = 0) -> Literal:
        """A literal; a member of the enumeration `enum` becomes a word."""
        if depth > _MAX_DEPTH:
            self.r.fail("P003", node, f"a literal is nested more than {_MAX_DEPTH} levels deep")
        match node:
            case ast.Constant(value=None | bool() | float() as plain):
                return plain
            case ast.Constant(value=int() as number):
                return self.exprs.fits(number, node)
            case ast.Constant(value=str() as text):
                try:
                    text.encode()
                except UnicodeEncodeError:
                    self.r.fail("P301", node, "the string holds half of a surrogate pair")
                return text
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return tuple(self.literal(item, enum, depth + 1) for item in items)
            case ast.Dict():
                return Record(self.record(node, {}, depth))
            case ast.Attribute():
                return self.word(node, enum)
        value = self.exprs.value(node, 0)
        if isinstance(value, Const) and type(value.value) is bool:
            return bool(value.value)
        return value

    def word(self, node: ast.expr, enum: str | None) -> Literal:
        """A member of an enumeration: its bare name where the keyword implies the enumeration."""
        path = attribute(node)
        if path is None or path[0] not in ("pl", "pld") or len(path) < 2:
            self.r.fail("P301", node, f"found {shown(node)}, which is no member of an enumeration")
        *classes, member = path[1:]
        name = ".".join(classes)
        known = MEMBERS.get(name)
        if name == DTYPE and member not in DTYPES:
            self.r.fail("P301", node, f"found {shown(node)}, which is no dtype")
        if path[0] == "pl" and name == enum:
            if known is not None and member not in known:
                allowed = ", ".join(sorted(known))
                self.r.fail("P301", node, f"found {shown(node)}, allowed: {allowed}")
            return member
        return enum_record(".".join(path[1:] if path[0] == "pl" else path))
