"""Who calls whom: the call sites of a program, how arguments meet parameters, and which functions are entered from outside.

In a program where `main` calls `gemm` and nobody calls `main`, the parameters of `gemm` are what `main` hands it, and those of `main` are
anything. A ring of functions that only call each other is entered from outside too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pypto_ir.expr import Expr
from pypto_ir.stmt import Assign, Eval, Function, FunctionCall, Program, Stmt, Submit, walk
from pypto_ir.types import CommCtxType


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call or launch: `statement` of the function `caller`, its `number`-th from 0, of the function `callee`."""

    caller: str
    number: int
    callee: str
    statement: Assign | Eval

    def __str__(self) -> str:
        where = f" at {self.statement.loc}" if self.statement.loc else ""
        return f"call {self.number} in {self.caller}{where}"


@dataclass(frozen=True, slots=True)
class CallGraph:
    """Call sites in program order, functions so that callers come first where they can, and those entered from outside."""

    sites: tuple[CallSite, ...]
    order: tuple[Function, ...]
    entries: frozenset[str]
    _of: dict[str, list[CallSite]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for site in self.sites:
            self._of.setdefault(site.callee, []).append(site)

    def of(self, callee: str) -> Sequence[CallSite]:
        """The calls of a function in program order."""
        return self._of.get(callee, ())


def called(s: Stmt) -> FunctionCall | Submit | None:
    """The call of a function that a statement makes."""
    return s.value if isinstance(s, Assign | Eval) and isinstance(s.value, FunctionCall | Submit) else None


def call_sites(function: Function) -> list[CallSite]:
    """The calls in a function in program order."""
    found = ((s, called(s)) for s in walk(function.body) if isinstance(s, Assign | Eval))
    return [CallSite(function.name, i, call.function, s) for i, (s, call) in enumerate((s, c) for s, c in found if c is not None)]


def call_graph(program: Program, entries: Iterable[str] = ()) -> CallGraph:
    """The call graph of a program; `entries` are functions that may be called from outside besides those that nobody calls."""
    import networkx as nx

    sites = [site for f in program.functions for site in call_sites(f)]
    places = {f.name: i for i, f in enumerate(program.functions)}
    graph = nx.DiGraph()
    graph.add_nodes_from(places)
    graph.add_edges_from((s.caller, s.callee) for s in sites if s.callee in places)
    rings = nx.condensation(graph)
    first = {n: min(places[name] for name in rings.nodes[n]["members"]) for n in rings}
    outside = {name for n in rings if not rings.in_degree(n) for name in rings.nodes[n]["members"]}
    ordered = [
        name
        for n in nx.lexicographical_topological_sort(rings, key=first.__getitem__)
        for name in sorted(rings.nodes[n]["members"], key=places.__getitem__)
    ]
    functions = tuple(program.functions[places[name]] for name in ordered)
    return CallGraph(tuple(sites), functions, frozenset(outside | set(entries)))


def arguments(call: FunctionCall | Submit, callee: Function) -> tuple[Expr | None, ...] | None:
    """The argument of every parameter of a callee, None for one that the run time fills; None for a call that does not fit.

    A call gives one argument for each parameter. A launch may leave out Out parameters in the middle: its leading arguments go by
    position, as many last ones as there are trailing communication contexts to these.
    """
    given, wanted = len(call.args), len(callee.params)
    if given == wanted:
        return call.args
    if isinstance(call, FunctionCall) or given > wanted:
        return None
    trailing = 0
    while trailing < wanted and isinstance(callee.params[wanted - 1 - trailing].var.type, CommCtxType):
        trailing += 1
    if given < trailing:
        return None
    gap: tuple[None, ...] = (None,) * (wanted - given)
    return (*call.args[: given - trailing], *gap, *call.args[given - trailing :])
