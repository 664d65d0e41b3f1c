"""What broke a proof: the deepest expression that is not what its user needs, found from the offset down.

For `row + g * 8`, which is no multiple of 16, it is g * 8 where row is one; for a parameter it is the argument of the first call that does
not give one, in the function that calls. Definitions, what arms and loop bodies yield, loop bounds and calls are followed; facts decide
which way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import gcd

from egraph_rules.index_calls import CallGraph, CallSite, arguments, called
from egraph_rules.index_domain import Fact
from pypto_ir.expr import Binary, Cast, Expr, Item, MakeTuple, Unary, Var, const_int
from pypto_ir.stmt import Assign, Call, For, Function, FunctionCall, If, Stmt, Submit, While, Yield, definitions, terminator, walk
from pypto_ir.text import expr_text

#: no divisor beyond this is looked for: of the values that a type holds it divides 0 alone
_LARGEST = 1 << 64
#: how a fact is asked for: function, expression, statement
Ask = Callable[[str, Expr, Stmt | None], Fact]


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
    _functions: dict[str, Function] = field(init=False)

    def __post_init__(self) -> None:
        self._functions = {f.name: f for f in self.graph.order}

    def obstacle(self, kind: str, function: str, expr: Expr, divisor: int, at: Stmt | None) -> Obstacle:
        """The deepest failing expression under one that fails."""
        step = _Step(function, expr, at, divisor)
        seen: set[tuple[str, Expr, int]] = set()
        while True:
            seen.add((step.function, step.expr, step.divisor))
            below = [s for s in self.sources(kind, step) if self.fails(kind, s)]
            new = next((s for s in below if (s.function, s.expr, s.divisor) not in seen), None)
            if new is None:
                fact = self.ask(step.function, step.expr, step.at)
                computed = isinstance(step.expr, Binary | Unary | Cast)
                wraps = computed and not below and self._would_hold(kind, step)
                return Obstacle(kind, step.function, step.expr, fact, step.calls, step.divisor, wraps)
            step = new

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

    def sources(self, kind: str, s: _Step) -> Iterator[_Step]:
        """The expressions that one follows from, with what each would have to be."""
        if isinstance(s.expr, Var):
            yield from self.of_name(kind, s, s.expr.name)
        elif isinstance(s.expr, Item) and isinstance(s.expr.of, MakeTuple):
            yield _Step(s.function, s.expr.of.items[s.expr.index], s.at, s.divisor, s.calls)
        else:
            yield from self.operands(kind, s)

    def operands(self, kind: str, s: _Step) -> Iterator[_Step]:
        """Operands that an operation needs to be so."""
        e = s.expr
        parts: list[tuple[Expr, int]] = []
        match e:
            case Unary(op="neg" | "abs", operand=a) if kind == "divisible":
                parts = [(a, s.divisor)]
            case Cast(operand=a):
                parts = [(a, s.divisor)]
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

    def of_name(self, kind: str, s: _Step, name: str) -> Iterator[_Step]:
        """What a name gets its value from."""
        bound = self._bound(s.function).get(name)
        if bound is None:
            yield from self.of_parameter(s, name)
            return
        for e, at in _given(bound, name, kind):
            yield _Step(s.function, e, at, s.divisor, s.calls)

    def of_parameter(self, s: _Step, name: str) -> Iterator[_Step]:
        """The arguments that calls give for a parameter."""
        function = self._functions[s.function]
        position = next((i for i, p in enumerate(function.params) if p.var.name == name), None)
        if position is None:
            return
        for site in self.graph.of(s.function):
            call = called(site.statement)
            args = None if call is None else arguments(call, function)
            if args is not None and (arg := args[position]) is not None:
                yield _Step(site.caller, arg, site.statement, s.divisor, (*s.calls, site))

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
