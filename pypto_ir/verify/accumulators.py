"""Accumulators: what a matrix product may write, and what may read it (`spec/hardware.md` 4.4 and 4.5,
`spec/flatten.md` 8 and 12).

The matrix unit has an address and its own number of rows, no stride: it writes blocks of 16 x 16 one behind
another, block columns as far apart as its own rows. A window [64, 32] at column 32 of [64, 128] lies so, a
window [16, 32] at row 16 of it does not: V301. Windows of at most 16 columns are one column of blocks,
whatever lies around them. Offsets known at run time must be proved to be multiples of 16; what could not be
proved is told.

Whether a product leaves those cells of its blocks alone that it does not fill is not documented: a program
that relies on it gets the warning V303, unless `keep` says that it may.

Statements are followed in order, a loop until what is known of its carries no longer changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pypto_ir.acc_chains import is_acc, unstated_accumulators
from pypto_ir.acc_reads import AccReads
from pypto_ir.congruence import ANY, Congruence, congruence, exactly, progression
from pypto_ir.diagnostics import Diagnostic, Severity
from pypto_ir.expr import Expr, Item, MakeTuple, Var, variables
from pypto_ir.ops.matmul import factors
from pypto_ir.ops.registry import OpDef, find_op, type_of
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Param,
    Return,
    Scope,
    Stmt,
    Submit,
    While,
    Yield,
    definitions,
    walk,
)
from pypto_ir.types import Memory, TileType
from pypto_ir.verify.acc_places import NOTHING, Axis, Place, Written, met, most
from pypto_ir.verify.acc_rules import Finding, Product, Reading, complete, cut, handed_on, made, reshaped, written_over
from pypto_ir.verify.places import StmtPath, place

#: what is followed of a value: the place of an accumulator, what is known of an integer
Fact: TypeAlias = Place | Congruence
_VIEWS = frozenset({"tile.slice", "tile.reshape", "tile.set_validshape"})


def accumulators(function: Function, path: StmtPath = (), *, reads: AccReads | None = None, keep: bool = False) -> list[Diagnostic]:
    """What the accumulators of a function are written or read by that no instruction of the target does; nothing for kinds other than
    InCore, AIC and AIV. `path` is the function's own path, `reads` tells how
    the target's instructions read accumulators."""
    if not function.in_core or not any(is_acc(v.type) for v in _bound(function)):
        return []
    follow = _Walk(reads or AccReads(), keep, unstated_accumulators(function))
    for param in function.params:
        follow.define(param.var, follow.parameter(param))
    follow.block(function.body, (*path, "body"))
    return [
        Diagnostic(f.code, f.message, place(function, at, s), f.help, Severity.WARNING if f.code == "V303" else Severity.ERROR)
        for at, (s, found) in follow.found.items()
        for f in found
    ]


def _bound(function: Function) -> Iterator[Var]:
    yield from (param.var for param in function.params)
    for s in walk(function.body):
        yield from definitions(s)


def _item(e: Expr) -> str:
    """The name under which the place of an element of a tuple is kept."""
    assert isinstance(e, Item)
    return f"{e.of.name}.{e.index}" if isinstance(e.of, Var) else "it"


def _offsets(call: Call) -> tuple[Expr, ...]:
    """Where a slice or assemble of a 2-D tile lies, which their types ask to be a literal tuple."""
    assert isinstance(call.args[2], MakeTuple)
    return call.args[2].items


def _join(a: Fact, b: Fact, name: str) -> Fact:
    """What is known where two facts come together under a name."""
    if isinstance(a, Place) and isinstance(b, Place):
        return met(a, b, name)
    return a.joined(b) if isinstance(a, Congruence) and isinstance(b, Congruence) else ANY


@dataclass(slots=True)
class _Walk:
    """What is known by name; `levels` tells how many loops are around the definition of a name, `stable` what was known of the carries of
    a loop when it was followed last."""

    reads: AccReads
    keep: bool
    unstated: frozenset[str]
    places: dict[str, Place] = field(default_factory=dict)
    scalars: dict[str, Congruence] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    level: int = 0
    stable: dict[int, tuple[Fact, ...]] = field(default_factory=dict)
    found: dict[StmtPath, tuple[Stmt, tuple[Finding, ...]]] = field(default_factory=dict)

    # ---- facts ----

    def define(self, var: Var, fact: Fact) -> None:
        self.levels[var.name] = self.level
        if isinstance(fact, Place):
            self.places[var.name] = fact
        else:
            self.scalars[var.name] = fact

    def acc(self, e: Expr) -> TileType | None:
        """The type of a 2-D tile in accumulator memory, None for any other value."""
        t = type_of(e)
        if not isinstance(t, TileType) or t.rank != 2:
            return None
        return t if is_acc(t) or (isinstance(e, Var) and e.name in self.unstated) else None

    def whole(self, var: Var, written: Written) -> Fact:
        """A buffer of its own for a name, where it is an accumulator."""
        t = self.acc(var)
        return Place.whole(var.name, t, written) if t is not None else ANY

    def parameter(self, param: Param) -> Fact:
        match param.range:
            case (low, high) if low == high:
                return exactly(low)
        return self.whole(param.var, None)

    def place(self, e: Expr) -> tuple[TileType, Place] | None:
        """Type and place of an accumulator, None for any other value."""
        t = self.acc(e)
        if t is None:
            return None
        name = e.name if isinstance(e, Var) else _item(e)
        return t, self.places.get(name, Place.unknown(name))

    def known(self, e: Expr) -> Congruence:
        return congruence(e, self.scalars)

    def fact(self, e: Expr) -> Fact:
        """What is known of an expression: a place for an accumulator."""
        found = self.place(e)
        return found[1] if found is not None else self.known(e)

    def report(self, found: Sequence[Finding], s: Stmt, at: StmtPath) -> None:
        """What is found at a statement, in place of what was found before."""
        self.found[at] = (s, tuple(found))

    # ---- statements ----

    def block(self, block: Block, path: StmtPath) -> tuple[Expr, ...]:
        """Follow a block; returns what it yields."""
        for i, s in enumerate(block):
            if isinstance(s, Yield):
                return s.values
            self.statement(s, (*path, i))
        return ()

    def statement(self, s: Stmt, at: StmtPath) -> None:
        match s:
            case Assign():
                self.assign(s, at)
            case Eval(value=Call() as call):
                self.call(call, None, s, at)
            case Eval(value=FunctionCall() | Submit() as call):
                self.hand_over(call, s, at)
            case Return(values=values):
                self.report(self.leave(values, "returned"), s, at)
            case For() | While():
                self.loop(s, at)
            case If():
                self.branch(s, at)
            case Scope(body=body):
                self.block(body, (*at, "body"))

    def assign(self, s: Assign, at: StmtPath) -> None:
        target, value = s.targets[0], s.value
        match value:
            case Call():
                self.call(value, target, s, at)
            case FunctionCall() | Submit():
                self.hand_over(value, s, at)
                for result in s.targets:
                    self.define(result, self.whole(result, None))
            case MakeTuple(items=items):
                for i, item in enumerate(items):
                    found = self.place(item)
                    if found is not None:
                        self.places[f"{target.name}.{i}"] = found[1]
            case _:
                self.define(target, self.fact(value))

    def hand_over(self, call: FunctionCall | Submit, s: Stmt, at: StmtPath) -> None:
        """Arguments of a call of a function, which takes an accumulator for a whole one."""
        self.report(self.leave(call.args, f"handed to {call.function}"), s, at)

    def leave(self, values: Sequence[Expr], how: str) -> list[Finding]:
        return [f for e in values if (known := self.place(e)) is not None for f in complete(*known, how)]

    # ---- calls ----

    def call(self, call: Call, target: Var | None, s: Stmt, at: StmtPath) -> None:
        op, operands = find_op(call.op), [self.place(e) for e in call.args]
        into = target if target is not None and self.acc(target) is not None else None
        deep = any(isinstance(t := type_of(e), TileType) and t.rank > 2 for e in call.args)
        if op is None or deep or (into is None and not any(operands)):
            if target is not None:
                self.define(target, self.whole(target, None))
            return
        first = operands[0]
        found: list[Finding] = []
        result: Fact = ANY
        if into is not None and call.op == "tile.create":
            result = self.whole(into, NOTHING)
        elif into is not None and factors(op) is not None:
            result, found = self.product(op, call, into)
        elif into is not None and first is not None and call.op in _VIEWS:
            result, found = self.view(call, into, *first)
        elif first is not None and op.writes:
            result, found = self.write(call, *first)
        else:
            found = self.read(call, operands, target)
            if into is not None:
                found += made(call.op)
                result = self.whole(into, None)
        self.report(found, s, at)
        if target is not None:
            self.define(target, result)

    def product(self, op: OpDef, call: Call, target: Var) -> tuple[Place, list[Finding]]:
        positions = factors(op)
        assert positions is not None and isinstance(target.type, TileType)
        left, right = (type_of(call.args[i]) for i in positions)
        assert isinstance(left, TileType) and isinstance(right, TileType)
        onto = self.place(call.args[0]) if op.writes else None
        t, where = onto or (target.type, Place.whole(target.name, target.type, NOTHING))
        made = Product(op.name, t, where, left.valid[-2], right.valid[-1], self.scalars, self.keep)
        rows, columns = (replace(a, written=most(a.written, n)) for a, n in ((where.rows, made.m), (where.columns, made.n)))
        found: list[Finding] = [*made.findings()]
        others = [None if op.writes and i == 0 else self.place(e) for i, e in enumerate(call.args)]
        found += self.read(call, others, target, Memory.MAT)
        return Place(where.root, rows, columns), found

    def view(self, call: Call, target: Var, t: TileType, where: Place) -> tuple[Fact, list[Finding]]:
        assert isinstance(target.type, TileType)
        if call.op == "tile.set_validshape":
            return where, [*handed_on(t, where, target.type)]
        if call.op == "tile.reshape":
            if target.type.static_shape == t.static_shape:
                return where, [*handed_on(t, where, target.type)]
            return self.whole(target, NOTHING if where.blank else None), [*reshaped(t, where)]
        return self.window(where, _offsets(call)), [*cut(t, where)]

    def window(self, where: Place, offsets: Sequence[Expr]) -> Place:
        """The place at a row and a column of another one."""
        rows, columns = (axis.part(e, self.known(e)) for axis, e in zip((where.rows, where.columns), offsets, strict=True))
        return Place(where.root, rows, columns)

    def write(self, call: Call, t: TileType, where: Place) -> tuple[Place, list[Finding]]:
        """A write that is no product: only an assemble that puts a window back where it was taken."""
        axes = (where.rows, where.columns)
        if call.op == "tile.assemble":
            source, offsets = self.place(call.args[1]), _offsets(call)
            if source is not None and self.window(where, offsets).same_window(source[1]):
                windows = (source[1].rows, source[1].columns)
                back = (a.putting_back(w, self.known(e)) for a, w, e in zip(axes, windows, offsets, strict=True))
                return Place(where.root, *back), []
        return Place(where.root, *(replace(a, written=None) for a in axes)), [*written_over(call.op, t, where)]

    def read(
        self, call: Call, operands: Sequence[tuple[TileType, Place] | None], target: Var | None, into: Memory | None = None
    ) -> list[Finding]:
        result = target.type if target is not None and isinstance(target.type, TileType) else None
        if into is None and result is not None:
            into = result.memory
        found: list[Finding] = []
        for operand in operands:
            if operand is not None:
                (t, where), columns, at = operand, operand[0].static_shape, operand[1].columns
                if call.op == "tile.extract" and result is not None:
                    columns, at = result.static_shape, self.window(where, call.args[1:3]).columns
                found += Reading(call.op, t, where, at, columns[1] if columns else 0, into, self.reads).findings()
        return found

    # ---- control flow ----

    def branch(self, s: If, at: StmtPath) -> None:
        arms = [self.block(s.then, (*at, "then")), self.block(s.orelse or (), (*at, "else"))]
        found: list[Finding] = []
        for result, given in zip(s.results, zip(*arms, strict=False), strict=False):
            found += [f for e in given for f in self.handed(e, result)]
            one, two = map(self.fact, given)
            self.define(result, _join(one, two, result.name))
        self.report(found, s, at)

    def handed(self, e: Expr, to: Var) -> Iterator[Finding]:
        found = self.place(e)
        if found is not None and isinstance(to.type, TileType):
            yield from handed_on(*found, to.type)

    def loop(self, s: For | While, at: StmtPath) -> None:
        names = [c.var.name for c in s.carries]
        found = [f for c in s.carries for f in self.handed(c.init, c.var)]
        state = tuple(self.fact(c.init) for c in s.carries)
        if id(s) in self.stable:
            state = tuple(map(_join, state, self.stable[id(s)], names))
        self.level += 1
        while True:
            if isinstance(s, For):
                self.define(s.var, progression(self.known(s.start), self.known(s.step)))
            for carry, fact in zip(s.carries, state, strict=True):
                self.define(carry.var, fact)
            yields = self.block(s.body, (*at, "body"))
            ends = [self.outside(self.fact(e)) for e in yields]
            after = tuple(map(_join, state, ends, names))
            if after == state:
                break
            state = after
        found += [f for e, c in zip(yields, s.carries, strict=False) for f in self.handed(e, c.var)]
        self.level -= 1
        self.stable[id(s)] = state
        for result, carry, fact in zip(s.results, s.carries, state, strict=False):
            found += self.handed(carry.var, result)
            self.define(result, fact)
        self.report(found, s, at)

    def outside(self, fact: Fact) -> Fact:
        """A fact of a trip as the next one knows it: what names values of this trip is forgotten."""
        if not isinstance(fact, Place):
            return fact

        def kept(e: Expr | None) -> Expr | None:
            return e if e is not None and all(self.levels.get(v.name, 0) < self.level for v in variables(e)) else None

        def axis(a: Axis) -> Axis:
            return replace(a, offset=kept(a.offset), written=kept(a.written))

        return Place(fact.root, axis(fact.rows), axis(fact.columns))
