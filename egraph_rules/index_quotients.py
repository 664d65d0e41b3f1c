"""Quotients of offsets, with as few operations as the rules of `rules/quotients.egg` allow.

Of the offset r of `r = row * 16`, where that cannot wrap, the quotient by 16 is row: no operation instead of a division. The offset and
the definitions below it become an e-graph with their facts; of the equal expressions the one of least cost is written, as an INDEX, from
names that are in view. Where none is cheaper the plain quotient is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from egraph_rules.engine import INDEX_FILES, Commands, Frozen, Limits, engine
from egraph_rules.index_domain import Fact, bounds
from egraph_rules.index_equations import FunctionEquations
from egraph_rules.index_places import Place
from egraph_rules.index_solve import extend
from egraph_rules.index_system import System
from egraph_rules.index_values import ValueId, alike
from egraph_rules.index_wrapping import stays
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Var, children, dtype_of
from pypto_ir.stmt import Stmt
from pypto_ir.types import ScalarType

#: how many values below an offset are looked at
_VALUES = 32
_LIMITS = Limits(nodes=20_000, seconds=2.0, iterations=64)
#: program operation -> e-node, and the relation that says it does not wrap
_NODES = {"add": ("Sum", "exact-sum"), "sub": ("Less", "exact-difference"), "mul": ("Times", "exact-product")}
_DIVISIONS = {"floordiv": "Quot", "mod": "Rest"}
#: e-node -> program operation, and its cost in instructions of a scalar unit; a division takes several
_OPS = {"Sum": ("add", 1), "Less": ("sub", 1), "Times": ("mul", 1), "Quot": ("floordiv", 4), "Rest": ("mod", 4)}
_EXACT = {name: exact for name, exact in _NODES.values()}
_INT64 = bounds(DType.INT64)


@dataclass(slots=True)
class Quotients:
    """Finds quotients at the places of one program."""

    system: System
    facts: list[Fact | None]

    def of(self, function: FunctionEquations, offset: Expr, value: ValueId | None, divisor: int, at: Stmt | None) -> Expr:
        """`offset // divisor` as an INDEX expression where a statement reads it."""
        dtype = dtype_of(offset) or DType.INDEX
        plain = Binary("floordiv", _indexed(offset, dtype), Const(divisor, DType.UINT64 if dtype is DType.UINT64 else DType.INDEX))
        if value is None:
            return plain
        place = function.place(at)
        node = self.system.node(value, place)
        extend(self.system, self.facts)
        fact = None if self.facts[place.reach()] is None else self.facts[node]
        if fact is not None and fact.constant is not None:
            return Const(fact.constant // divisor, DType.INDEX)
        if dtype.is_unsigned or fact is None:
            return plain
        found = _Question(self, function, at).best(value, divisor)
        return plain if found is None or found[0] >= _price(plain) else found[1]


def _indexed(e: Expr, dtype: DType) -> Expr:
    return Cast(e, DType.INDEX) if dtype.bits < 64 else e


def _price(e: Expr) -> int:
    """The cost of evaluating an expression."""
    own = 0
    if isinstance(e, Binary):
        own = 4 if e.op in _DIVISIONS else 1
    elif children(e):
        own = 1
    return own + sum(map(_price, children(e)))


class _Question:
    """One quotient: the e-graph of an offset and what is below it."""

    def __init__(self, quotients: Quotients, function: FunctionEquations, at: Stmt | None) -> None:
        self.system, self.facts = quotients.system, quotients.facts
        self.function, self.at = function, at
        self.place: Place = function.place(at)
        self.commands = Commands()
        self.terms: dict[ValueId, Any] = {}
        self.named: dict[ValueId, Expr] = {}

    def best(self, value: ValueId, divisor: int) -> tuple[int, Expr] | None:
        """Cost and expression of the cheapest quotient from names in view; None where there is none."""
        self.encode(value)
        if len(self.terms) < 2:
            return None
        root = self.commands.call("Quot", self.terms[value], self.commands.call("Known", divisor))
        self.commands.fact("wanted", root)
        with engine(files=INDEX_FILES).session() as session:
            session.run(self.commands)
            session.saturate(_LIMITS)
            frozen = session.freeze()
        (wanted,) = (inputs[0] for inputs, _ in frozen.rows["wanted"])
        return _Extraction(frozen, self.named).best(wanted)

    def encode(self, value: ValueId) -> Any:
        """The term of a value, what is below it first."""
        if value in self.terms:
            return self.terms[value]
        term, commands = self.system.term(value, self.place), self.commands
        node = self.system.node(value, self.place)
        extend(self.system, self.facts)
        fact = self.facts[node]
        if fact is None or (fact.constant is not None and abs(fact.constant) <= _INT64[1]):
            made = commands.call("Known", 0 if fact is None else fact.residue)
            self.terms[value] = made
            return made
        made = commands.call("Named", value)
        self.terms[value] = made
        if (name := self.name(value)) is not None:
            self.named[value] = name
        if -_INT64[1] <= fact.lo and fact.hi <= _INT64[1]:
            commands.set("low", made, fact.lo)
            commands.set("high", made, fact.hi)
            commands.set("greatest", made, min(bounds(term.dtype)[1], _INT64[1]))
            if fact.multiple_of <= _INT64[1]:
                commands.set("multiple", made, fact.multiple_of)
        if len(self.terms) < _VALUES and all(alike(self.system.values[o].dtype, term.dtype) for o in term.operands):
            self.structure(made, value)
        return made

    def structure(self, made: Any, value: ValueId) -> None:
        """The operation that a value is, where the language has it."""
        term, commands = self.system.term(value, self.place), self.commands
        if term.op in _DIVISIONS and (self.system.values[term.operands[1]].constant or 0) > 0:
            x, d = (self.encode(o) for o in term.operands)
            commands.fact("same", made, commands.call(_DIVISIONS[term.op], x, d))
        elif term.op in _NODES:
            name, exact = _NODES[term.op]
            operands = term.operands
            if term.op == "mul" and self.system.values[operands[0]].constant is not None:
                operands = (operands[1], operands[0])
            a, b = (self.encode(o) for o in operands)
            commands.fact("same", made, commands.call(name, a, b))
            if stays(self.system, self.facts, term, self.system.node(value, self.place), self.place):
                commands.fact(exact, a, b)

    def name(self, value: ValueId) -> Expr | None:
        """A name of a value that is in view, as an INDEX."""
        dtype = self.system.values[value].dtype
        fact = self.facts[self.system.node(value, self.place)]
        if not dtype.is_int or fact is None:
            return None
        found = self.function.name_of(value, self.at)
        return None if found is None else _indexed(Var(found, ScalarType(dtype)), dtype)


class _Extraction:
    """The cheapest expression of every class: names and constants first, then what is made of classes that have one."""

    def __init__(self, frozen: Frozen, named: dict[ValueId, Expr]) -> None:
        self.costs: dict[int, tuple[int, Expr]] = {}
        for (number,), out in frozen.rows["Known"]:
            self.offer(out, 0, Const(number, DType.INDEX))
        for (number,), out in frozen.rows["Named"]:
            if number in named:
                self.offer(out, _price(named[number]), named[number])
        # an operation that wraps at its own width would not wrap as an INDEX
        exact = {name: {inputs for inputs, _ in frozen.rows[relation]} for name, relation in _EXACT.items()}
        rows = [
            (op, cost, inputs, out)
            for name, (op, cost) in _OPS.items()
            for inputs, out in frozen.rows[name]
            if name not in exact or inputs in exact[name]
        ]
        changed = True
        while changed:
            changed = False
            for op, cost, (a, b), out in rows:
                if a in self.costs and b in self.costs:
                    (x, left), (y, right) = self.costs[a], self.costs[b]
                    changed |= self.offer(out, cost + x + y, Binary(op, left, right))

    def offer(self, out: int, cost: int, e: Expr) -> bool:
        """Keep an expression where it is the cheapest of its class so far."""
        if out in self.costs and self.costs[out][0] <= cost:
            return False
        self.costs[out] = (cost, e)
        return True

    def best(self, wanted: int) -> tuple[int, Expr] | None:
        return self.costs.get(wanted)
