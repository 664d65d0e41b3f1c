"""Paths of statements and how diagnostics name them."""

from __future__ import annotations

import pytest

from pypto_ir.expr import Var, index
from pypto_ir.stmt import (
    Assign,
    Break,
    Call,
    Continue,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Return,
    Scope,
    Stmt,
    Submit,
    While,
    Yield,
)  # fmt: skip
from pypto_ir.types import BOOL, scalar_var
from pypto_ir.verify.places import arms, place, statement_text, walk_paths

A, B, N = (scalar_var(name) for name in "abn")
P = Var("p", BOOL)
ONE = index(1)


def let(target: Var) -> Assign:
    return Assign((target,), ONE)


def loop(*body: Stmt) -> For:
    return For(scalar_var("i"), index(0), N, ONE, tuple(body))


def test_statements_come_in_program_order_with_the_path_of_their_json_form() -> None:
    inner = loop(let(B), Continue())
    branch = If(P, (let(A), inner), (Scope("cluster", (let(N),)),))
    block = (let(A), While(P, (branch, Break())), If(P, (let(B),)), Return(()))
    assert list(walk_paths(block, ("body",))) == [
        (("body", 0), block[0]),
        (("body", 1), block[1]),
        (("body", 1, "body", 0), branch),
        (("body", 1, "body", 0, "then", 0), let(A)),
        (("body", 1, "body", 0, "then", 1), inner),
        (("body", 1, "body", 0, "then", 1, "body", 0), let(B)),
        (("body", 1, "body", 0, "then", 1, "body", 1), Continue()),
        (("body", 1, "body", 0, "else", 0), branch.orelse[0]),  # type: ignore[index]
        (("body", 1, "body", 0, "else", 0, "body", 0), let(N)),
        (("body", 1, "body", 1), Break()),
        (("body", 2), block[2]),
        (("body", 2, "then", 0), let(B)),
        (("body", 3), block[3]),
    ]
    assert list(walk_paths((), ("body",))) == []


def test_arms_are_named_as_in_the_json_form() -> None:
    assert arms(If(P, (let(A),), (let(B),))) == (("then", (let(A),)), ("else", (let(B),)))
    assert arms(If(P, (let(A),))) == (("then", (let(A),)),)
    assert arms(loop(let(A))) == arms(While(P, (let(A),))) == arms(Scope("cluster", (let(A),))) == (("body", (let(A),)),)
    assert arms(let(A)) == ()


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (Assign((A,), Call("tile.add", ())), "a = tile.add"), (Assign((A, B), FunctionCall("g")), "a, b = g"),
        (Assign((A,), Submit("g")), "a = g"), (let(A), "a"), (Eval(Call("system.sync", ())), "system.sync"), (Eval(N), ""),
        (loop(), "for i"), (If(P, ()), "if"), (While(P, ()), "while"), (Scope("cluster", ()), "scope cluster"),
        (Return(()), "return"), (Yield(()), "yield"), (Break(), "break"), (Continue(), "continue"),
    ],
)  # fmt: skip
def test_a_statement_is_named_by_what_it_defines_and_calls(statement: Stmt, text: str) -> None:
    assert statement_text(statement) == text


def test_a_place_has_the_path_the_function_and_the_statement() -> None:
    path = ("functions", 0, "body", 3, "then", 1)
    function = Function("f")
    assert (place(function, path).path, place(function, path).function, place(function, path).statement) == (
        "$.functions[0].body[3].then[1]",
        "f",
        None,
    )
    assert place("g", path).function == "g"
    s = Assign((A,), Call("tile.add", ()), loc="k.py:7:3")
    assert (place(function, path, s).statement, place(function, path, s).loc) == ("a = tile.add", "k.py:7:3")
    assert place(function, path).loc is None
