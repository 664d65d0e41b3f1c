"""The forms of statements: which keys each kind has, and a statement in a few words.

A statement has exactly one of the keys of `KEYS` itself (`op`, `for`, `yield`, ..), which says what it is.
"""

from __future__ import annotations

from typing import Any

from pypto_ir.json_findings import Keys

_NOTES = ("loc", "comment")
KEYS: dict[str, Keys] = {
    "op": Keys(("op", "args"), ("let", "kwargs", "attrs", "type", *_NOTES)),
    "expr": Keys(("let", "expr"), ("type", *_NOTES)),
    "call": Keys(("call", "args"), ("let", "kwargs", "attrs", *_NOTES)),
    "submit": Keys(
        ("submit", "args"),
        (
            "let",
            "deps",
            "core_num",
            "sync_start",
            "allow_early_resolve",
            "predicate",
            "dumps",
            "device",
            "attrs",
            *_NOTES,
        ),
    ),
    "for": Keys(("for", "range", "body"), ("kind", "carry", "results", "types", "attrs", *_NOTES)),
    "while": Keys(("while", "body"), ("carry", "results", "types", *_NOTES)),
    "if": Keys(("if", "then"), ("else", "results", "types", *_NOTES)),
    "scope": Keys(("scope", "body"), ("var", "attrs", *_NOTES)),
    "yield": Keys(("yield",), _NOTES),
    "return": Keys(("return",), _NOTES),
    "break": Keys(("break",), _NOTES),
    "continue": Keys(("continue",), _NOTES),
}
TERMINATORS = frozenset({"yield", "return", "break", "continue"})


def label(kind: str, value: dict[str, Any]) -> str:
    """A statement in a few words for messages: `y_tile = tile.add`, `for k0`, `return`."""
    if kind in ("if", "while", *TERMINATORS) or type(value[kind]) is not str:
        return kind
    what = "" if kind == "expr" else value[kind][:60]
    let = value.get("let", "")
    if kind in ("for", "scope"):
        return f"{kind} {what}"
    return f"{let[:60]} = {what}".removesuffix(" = ") if type(let) is str and let else what or kind
