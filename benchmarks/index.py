"""How long index facts take, and that the time is linear in the size of a program.

`definitions(10000)` is a loop over range(0, n, 16) with 10,000 scalar definitions in a chain, of eight operators;
`call_sites(1000)` an entry with 1,000 calls, each of a product, to functions that are proved by all of their calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.performance import Row, alternating
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Expr, Var
from pypto_ir.stmt import Assign, For, Function, FunctionCall, Param, Program, Return, Stmt
from pypto_ir.types import INDEX

#: definitions of a chain, and calls of a program
DEFINITIONS, CALLS = 10_000, 1_000
#: how much slower than in proportion a program of four times the size may be; a quadratic part would give 4
LINEAR = 1.5


def index(value: int) -> Const:
    return Const(value, DType.INDEX)


def definitions(count: int) -> Program:
    """A loop whose body is a chain of definitions."""
    i, n = Var("i", INDEX), Var("n", INDEX)
    body: list[Stmt] = []
    last = i
    for k in range(count):
        operators: tuple[tuple[str, Expr], ...] = (
            ("add", index(16)), ("mod", index(4096)), ("mul", index(2)), ("min", index(1 << 20)),
            ("add", last), ("sub", i), ("floordiv", index(2)), ("max", index(0)),
        )  # fmt: skip
        op, by = operators[k % len(operators)]
        target = Var(f"v{k}", INDEX)
        body.append(Assign((target,), Binary(op, last, by)))
        last = target
    loop = For(i, index(0), n, index(16), tuple(body))
    return Program("definitions", (Function("main", (Param(n),), (), (loop, Return(())), "Orchestration"),))


def call_sites(count: int, functions: int = 10) -> Program:
    """An entry that calls functions with products of loop variables."""
    x, y = Var("x", INDEX), Var("y", INDEX)
    callees = [
        Function(f"f{c}", (Param(x),), (INDEX,), (Assign((y,), Binary("mul", x, index(16))), Return((y,))), "Orchestration")
        for c in range(functions)
    ]
    body: list[Stmt] = []
    for k in range(count):
        a, r = Var(f"a{k}", INDEX), Var(f"r{k}", INDEX)
        body += [Assign((a,), Binary("mul", Var("i", INDEX), index(16 * k))), Assign((r,), FunctionCall(f"f{k % functions}", (a,)))]
    loop = For(Var("i", INDEX), index(0), index(64), index(1), tuple(body))
    return Program("calls", (*callees, Function("main", (), (), (loop, Return(())), "Orchestration")))


def facts(rounds: int) -> Iterator[Row]:
    """The time of a whole analysis for each definition and each call, beside that of a program of a quarter."""
    from egraph_rules.index_facts import IndexFacts

    for what, count, make in (("definitions", DEFINITIONS, definitions), ("call sites", CALLS, call_sites)):
        large, small = make(count), make(count // 4)
        whole, quarter = alternating(rounds, lambda p=large: IndexFacts(p), lambda p=small: IndexFacts(p))  # type: ignore[misc]
        per, base = whole / count * 1e6, quarter / (count // 4) * 1e6
        title = f"index facts of {count:,} {what} ({whole * 1e3:.0f} ms): each, over each of {count // 4:,}"
        yield Row(title, f"{per:.0f} µs", f"{base:.0f} µs", per / base, LINEAR)
