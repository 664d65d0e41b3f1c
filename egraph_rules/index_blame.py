"""What broke a proof: the deepest expression that is not what its user needs, found from the offset down.

For `row + g * 8`, which is no multiple of 16, it is g * 8 where row is one; for a parameter it is the argument of the first call that does
not give one, in the function that calls. Definitions, what arms and loop bodies yield, loop bounds and calls are followed; facts decide
which way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import gcd
from typing import TypeAlias

from egraph_rules.index_calls import CallGraph, CallSite, arguments, called
from egraph_rules.index_domain import Fact
from pypto_ir.expr import Binary, Cast, Expr, Item, MakeTuple, Unary, Var, const_int
from pypto_ir.stmt import Assign, Call, For, Function, FunctionCall, If, Stmt, Submit, While, Yield, definitions, terminator, walk
from pypto_ir.text import expr_text

#: no divisor beyond this is looked for: of the values that a type holds it divides 0 alone
_LARGEST = 1 << 64
#: how a fact is asked for: function, expression, statement
Ask = Callable[[str, Expr, Stmt | None], Fact]
#: what is asked of an expression: kind, function, expression, identity of the statement, divisor
_Key: TypeAlias = tuple[str, str, Expr, int, int]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What broke a proof: an expression of a function, the best fact that is known of it, and the calls that led to it, the last one
    nearest to it.

    `kind` is "divisible", "sign", or "range" for an unsigned value that may be too large for an index. `divisor` is the one that is
    missing there: 4 for g in g * 4, which is to be a multiple of 16. `wraps` says that the operands are as needed and the operation may
    wrap.
    """

    kind: str
    function: str
    expr: Expr
    fact: Fact
    calls: tuple[CallSite, ...] = ()
    divisor: int = 1
    wraps: bool = False

    def __str__(self) -> str:
        where = "".join(f", in {call}" for call in self.calls)
        return f"{expr_text(self.expr)} is {self.fact}{' and may wrap' if self.wraps else ''}{where}"


@dataclass(frozen=True, slots=True)
class _Step:
    """An expression where a statement reads it, and what it should be."""

    function: str
    expr: Expr
    at: Stmt | None
    divisor: int
    calls: tuple[CallSite, ...] = ()


@dataclass(slots=True)
class Blame:
    """Finds obstacles. `ask` gives facts, `graph` the calls of the program."""

    ask: Ask
    graph: CallGraph
    _binds: dict[str, dict[str, Stmt]] = field(default_factory=dict)
    _found: dict[_Key, Obstacle] = field(default_factory=dict)
    _calls: dict[tuple[str, str, str, int], list[tuple[CallSite, _Step]]] = field(default_factory=dict)
    _functions: dict[str, Function] = field(init=False)

    def __post_init__(self) -> None:
        self._functions = {f.name: f for f in self.graph.order}

    def obstacle(self, kind: str, function: str, expr: Expr, divisor: int, at: Stmt | None) -> Obstacle:
        """The deepest failing expression under one that fails.

        What was found under an expression is kept: 1,000 offsets of one chain of definitions take as long as the chain. In a ring of
        carried values it is what the first question that came there found.
        """
        step: _Step | None = _Step(function, expr, at, divisor)
        path: list[tuple[_Key, int]] = []
        seen: set[tuple[str, Expr, int]] = set()
        while True:
            assert step is not None
            last, key = step, (kind, step.function, step.expr, id(step.at), step.divisor)
            path.append((key, len(last.calls)))
            if key in self._found:
                below = self._found[key]
                break
            seen.add((last.function, last.expr, last.divisor))
            step, failing = self._below(kind, last, seen)
            if step is None:
                below = replace(self._itself(kind, last, failing), calls=())
                break
        found = replace(below, calls=(*last.calls, *below.calls))
        for key, count in path:
            self._found[key] = replace(found, calls=found.calls[count:])
        return found

    def _below(self, kind: str, step: _Step, seen: set[tuple[str, Expr, int]]) -> tuple[_Step | None, bool]:
        """The first failing expression that one follows from and that was not seen, and whether any fails."""
        failing = False
        for source in self.failing(kind, step):
            failing = True
            if (source.function, source.expr, source.divisor) not in seen:
                return source, True
        return None, failing

    def _itself(self, kind: str, step: _Step, failing: bool) -> Obstacle:
        """The obstacle that an expression is by itself; `failing` says that what it follows from fails too."""
        computed = isinstance(step.expr, Binary | Unary | Cast)
        wraps = computed and not failing and self._would_hold(kind, step)
        return Obstacle(kind, step.function, step.expr, self.ask(step.function, step.expr, step.at), step.calls, step.divisor, wraps)

    def fails(self, kind: str, s: _Step) -> bool:
        fact = self.ask(s.function, s.expr, s.at)
        if kind == "divisible":
            return not fact.is_multiple_of(s.divisor)
        return not fact.non_negative

    def _would_hold(self, kind: str, s: _Step) -> bool:
        """True for an operation that keeps what its operands are unless it wraps."""
        e = s.expr
        if kind == "range" or not isinstance(e, Binary | Cast):
            return False
        if isinstance(e, Cast):
            return True
        keeps = ("add", "sub", "mul", "shl") if kind == "divisible" else ("add", "mul", "shl")
        return e.op in keeps and (kind == "sign" or any(not self.fails(kind, part) for part in self.operands(kind, s)))

    # ---- where an expression comes from ----

    def failing(self, kind: str, s: _Step) -> Iterator[_Step]:
        """The expressions that one follows from and that are not what they would have to be."""
        if not isinstance(s.expr, Var):
            yield from (part for part in self.operands(kind, s) if self.fails(kind, part))
        elif (bound := self._bound(s.function).get(s.expr.name)) is not None:
            given = (_Step(s.function, e, at, s.divisor, s.calls) for e, at in _given(bound, s.expr.name, kind))
            yield from (source for source in given if self.fails(kind, source))
        else:
            for site, argument in self.failing_calls(kind, s, s.expr.name):
                yield replace(argument, calls=(*s.calls, site))

    def failing_calls(self, kind: str, s: _Step, name: str) -> list[tuple[CallSite, _Step]]:
        """The calls that give a parameter what it must not be, and what they give; looked for once, since they are the same wherever the
        function reads the parameter."""
        key = (kind, s.function, name, s.divisor)
        if key not in self._calls:
            given = ((site, _Step(site.caller, e, site.statement, s.divisor)) for site, e in self.arguments(s.function, name))
            self._calls[key] = [(site, argument) for site, argument in given if self.fails(kind, argument)]
        return self._calls[key]

    def arguments(self, name: str, parameter: str) -> Iterator[tuple[CallSite, Expr]]:
        """What calls give for a parameter of a function."""
        function = self._functions[name]
        position = next((i for i, p in enumerate(function.params) if p.var.name == parameter), None)
        if position is None:
            return
        for site in self.graph.of(name):
            call = called(site.statement)
            given = None if call is None else arguments(call, function)
            if given is not None and (argument := given[position]) is not None:
                yield site, argument

    def operands(self, kind: str, s: _Step) -> Iterator[_Step]:
        """Operands that an operation needs to be so."""
        e = s.expr
        parts: list[tuple[Expr, int]] = []
        match e:
            case Unary(op="neg" | "abs", operand=a) if kind == "divisible":
                parts = [(a, s.divisor)]
            case Cast(operand=a):
                parts = [(a, s.divisor)]
            case Item(of=MakeTuple(items=items), index=i):
                parts = [(items[i], s.divisor)]
            case Binary(op="add" | "min" | "max", left=a, right=b):
                parts = [(a, s.divisor), (b, s.divisor)]
            case Binary(op="sub", left=a, right=b) if kind == "divisible":
                parts = [(a, s.divisor), (b, s.divisor)]
            case Binary(op="mul", left=a, right=b):
                parts = self.factors(kind, a, b, s.divisor)
            case Binary(op="shl", left=a, right=b) if (k := const_int(b)) is not None and k >= 0:
                parts = [(a, s.divisor // gcd(s.divisor, 1 << min(k, _LARGEST.bit_length())))]
            case Binary(op="floordiv", left=a, right=b) if (c := const_int(b)) is not None and c > 0:
                parts = [(a, s.divisor * c)] if kind == "divisible" else [(a, s.divisor)]
        for part, divisor in parts:
            if divisor <= _LARGEST:  # a carried value that each trip divides would ask for ever more
                yield _Step(s.function, part, s.at, divisor, s.calls)

    @staticmethod
    def factors(kind: str, a: Expr, b: Expr, divisor: int) -> list[tuple[Expr, int]]:
        """The factor that is no constant must be a multiple of what the constant one lacks."""
        if kind == "sign":
            return [(a, divisor), (b, divisor)]
        x, y = const_int(a), const_int(b)
        if y is not None:
            return [(a, divisor // gcd(divisor, y))]
        if x is not None:
            return [(b, divisor // gcd(divisor, x))]
        return []

    def _bound(self, function: str) -> dict[str, Stmt]:
        if function not in self._binds:
            body = self._functions[function].body
            self._binds[function] = {v.name: s for s in walk(body) for v in definitions(s)}
        return self._binds[function]


def _given(s: Stmt, name: str, kind: str) -> Iterator[tuple[Expr, Stmt]]:
    """The expressions that a statement binds a name to."""
    match s:
        case Assign(targets=(_,), value=value) if not isinstance(value, Call | FunctionCall | Submit):
            yield value, s
        case For(var=var, start=start, step=step, stop=stop) if var.name == name:
            yield start, s
            yield (step if kind == "divisible" else stop), s
        case For(carries=carries, results=results) | While(carries=carries, results=results):
            for i, carry in enumerate(carries):
                if name == carry.var.name or (i < len(results) and results[i].name == name):
                    yield carry.init, s
                    yield from _yielded(s.body, i)
        case If(then=then, orelse=orelse, results=results):
            i = next(i for i, r in enumerate(results) if r.name == name)
            yield from _yielded(then, i)
            yield from _yielded(orelse or (), i)


def _yielded(block: tuple[Stmt, ...], i: int) -> Iterator[tuple[Expr, Stmt]]:
    end = terminator(block)
    if isinstance(end, Yield) and i < len(end.values):
        yield end.values[i], end
