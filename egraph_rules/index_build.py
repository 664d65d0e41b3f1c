"""From a program to its equations: the body of every function, callers first."""

from __future__ import annotations

from collections.abc import Iterable

from egraph_rules.index_calls import call_graph
from egraph_rules.index_equations import Equations
from egraph_rules.index_walk import Walk
from pypto_ir.stmt import Function, Program, definitions, walk


def equations_of(program: Program, entries: Iterable[str] = ()) -> Equations:
    """The equations of a program; `entries` are called from outside too. Raises `ValueError` where a function is not in SSA form."""
    equations = Equations(program, call_graph(program, entries))
    for function in equations.graph.order:
        _assert_ssa(function)
        Walk(equations, equations.functions[function.name]).build()
    return equations


def _assert_ssa(function: Function) -> None:
    seen = {p.var.name for p in function.params}
    for s in walk(function.body):
        for v in definitions(s):
            if v.name in seen:
                raise ValueError(f"{function.name} is not in SSA form: {v.name} is defined twice")
            seen.add(v.name)
