"""Linearity: no tile is read after an op in place overwrote its buffer, in the same trip of a loop or a later one.

Programs mean what they mean by value; on the chip an op in place changes what every view and every older name
of its buffer shows. So in `y = assemble(x, s, [0, 0])`, `z = add(x, x)` the add reads the wrong data: V201.
The chain `x1 = assemble(x0, ..)`, `x2 = assemble(x1, ..)` is fine, and so is a window that is written and put
back where it was taken (`spec/flatten.md` 8.5): `w = slice(a, s, o)`, `p = matmul_acc(w, ..)`, `b =
assemble(a, p, o)`: the assemble finds its data in place already.

Statements are followed in order with concrete buffers. A loop that writes, or hands on other tiles than it was
given, is followed for two trips, or until its carries repeat (at most 8); offsets that depend on the trip are
different unknowns in each trip. Where nests of such loops would take more than `WORK` visits, inner loops are
followed once per later trip of an outer one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from pypto_ir.diagnostics import Diagnostic, Diagnostics, declare
from pypto_ir.expr import Expr, Item, MakeTuple, Var, const_int, transform, variables
from pypto_ir.interp.calls import operand_role
from pypto_ir.linear import normalize
from pypto_ir.ops.registry import OpDef, Role, find_op, type_of
from pypto_ir.recent import recent
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
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
    blocks,
    terminator,
    value_exprs,
    walk,
)
from pypto_ir.types import INDEX, ScalarType, TileType, TupleType, Type, same_dims
from pypto_ir.verify.aliases import Box, Buffers, Ref, Value, Write, covers
from pypto_ir.verify.loops import exact_work, pattern, small, trip_count
from pypto_ir.verify.places import StmtPath, place, statement_text

declare(V201="a tile is read after its buffer was overwritten in place")

_POSITION = Var("at", INDEX)
#: most trips of one loop that are followed
TRIPS = 8
#: statement visits above which nested loops are followed less often, unless three levels explain them
WORK = 10_000


@dataclass(frozen=True, slots=True)
class Violation:
    """`reader` reads `var` although `write` changed its `buffer` (the name that the buffer was made for) after `var` was computed.

    `scratch` tells that the write left garbage in an operand used as scratch."""

    write_path: StmtPath
    write: Stmt
    buffer: str
    reader_path: StmtPath
    reader: Stmt
    var: str
    scratch: bool


def linearity(function: Function, path: StmtPath = ()) -> list[Diagnostic]:
    """One diagnostic for each violation of a function, in order of the readers; `path` is the function's own path."""
    bag = Diagnostics()
    for v in violations(function):
        did = "used its buffer as scratch" if v.scratch else "wrote its buffer in place"
        name = f" (made for {v.buffer})" if v.buffer != v.var else ""
        message = f"{v.var} is read after `{statement_text(v.write)}` {did}{name}"
        help = f"read {v.var} before that statement, or let that statement write a copy"
        bag.add("V201", message, place(function, (*path, *v.reader_path), v.reader), help)
    return list(bag)


@recent(4)
def violations(function: Function) -> tuple[Violation, ...]:
    """Every read of an overwritten tile in a function, in the order in which following the statements meets them; for one read at most
    `MISSED` + 1 (9) of the writes that spoil it."""
    statements = sum(1 for _ in walk(function.body))
    follow = _Walk(exact_work(function.body) > max(WORK, 8 * statements))
    follow.note_writes(function.body)
    for param in function.params:
        follow.make(param.var)
    follow.block(function.body, ("body",))
    return tuple(follow.found.values())


@dataclass(slots=True)
class _Walk:
    sparing: bool
    buffers: Buffers = field(default_factory=Buffers)
    values: dict[str, Value] = field(default_factory=dict)
    scalars: dict[str, Expr] = field(default_factory=dict)
    found: dict[tuple[StmtPath, StmtPath, str], Violation] = field(default_factory=dict)
    serial: count[int] = field(default_factory=count)
    later_trip: int = 0
    writing: set[int] = field(default_factory=set)

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
            case Eval(value=value):
                self.read_all(value_exprs(value), s, at)
            case Return(values=values):
                self.read_all(values, s, at)
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
                self.read_all(value_exprs(value), s, at)
                for result in s.targets:
                    self.make(result)
            case _ if isinstance(target.type, ScalarType):
                known = target.type.dtype.is_int
                self.scalars[target.name] = self.offset(value, target) if known else self.unknown(target)
            case _:
                self.bind(target, value)

    # ---- values ----

    def value(self, e: Expr) -> Value:
        """The places that an expression may denote; nothing for what is no tile."""
        match e:
            case Var(name=name):
                return self.values.get(name, ())
            case Item(of=Var(name=name), index=i):
                return self.values.get(f"{name}.{i}", ())
        return ()

    def bind(self, target: Var, e: Expr) -> None:
        if isinstance(target.type, TupleType):
            for i, name in enumerate(_names(target)):
                self.values[name] = self.value(e.items[i] if isinstance(e, MakeTuple) else Item(e, i))
        else:
            self.values[target.name] = self.value(e)

    def make(self, target: Var, blank: bool = False) -> None:
        """A fresh buffer for every tile in the target, a fresh unknown for a scalar."""
        match target.type:
            case TileType() as t:
                self.values[target.name] = self.buffers.fresh(target.name, t, blank)
            case TupleType(items=items):
                for name, item in zip(_names(target), items, strict=True):
                    if isinstance(item, TileType):
                        self.values[name] = self.buffers.fresh(target.name, item)
            case ScalarType():
                self.scalars[target.name] = self.unknown(target)

    def unknown(self, v: Var) -> Expr:
        return Var(f"{v.name}@{next(self.serial)}", v.type)

    def offset(self, e: Expr, v: Var = _POSITION) -> Expr:
        """An integer expression over what is the same in every trip and the unknowns of this trip; an unknown like `v` where it grows
        too long."""
        resolved = normalize(transform(e, lambda u: self.scalars.get(u.name, u)))
        return resolved if small(resolved) else self.unknown(v)

    def read_all(self, exprs: Iterable[Expr], s: Stmt, at: StmtPath) -> None:
        for e in exprs:
            self.read(e, s, at)

    def read(self, e: Expr, s: Stmt, at: StmtPath) -> None:
        for v in variables(e):
            for name in (f"{v.name}.{e.index}",) if isinstance(e, Item) else _names(v):
                for ref in self.values.get(name, ()):
                    for write in self.buffers.missed(ref):
                        self.report(write, ref, v.name, s, at)

    def report(self, write: Write, ref: Ref, var: str, s: Stmt, at: StmtPath) -> None:
        buffer = self.buffers.names[ref.buffer]
        violation = Violation(write.path, write.statement, buffer, at, s, var, write.scratch)
        self.found.setdefault((write.path, at, var), violation)

    # ---- calls ----

    def call(self, call: Call, target: Var | None, s: Stmt, at: StmtPath) -> None:
        op = find_op(call.op)
        if op is None:
            self.read_all(value_exprs(call), s, at)
        elif op.writes:
            self.call_in_place(op, call, target, s, at)
            return
        elif op.aliases is not None:
            self.read_all((e for i, e in enumerate(call.args) if i != op.aliases), s, at)
            if target is not None:
                self.values[target.name] = self.view(call, self.value(call.args[op.aliases]))
            return
        else:
            scratch = _scratch(op, call)
            self.read_all((e for i, e in enumerate(call.args) if i not in scratch), s, at)
            for i in scratch:
                self.spoil(call.args[i], s, at)
        if target is not None:
            self.make(target, blank=call.op == "tile.create")

    def call_in_place(self, op: OpDef, call: Call, target: Var | None, s: Stmt, at: StmtPath) -> None:
        (first,) = op.writes
        base = self.value(call.args[first])
        self.read_all((e for i, e in enumerate(call.args) if i != first), s, at)
        result = self.put_back(call, base, s, at) if op.name == "tile.assemble" else None
        if result is None:
            self.read(call.args[first], s, at)
            for ref in base:
                self.buffers.write(ref, Write(self.written(call, ref), at, s))
            result = tuple(self.buffers.knows_all(ref) for ref in base)
        if target is None:
            return
        if result:
            self.values[target.name] = result
        else:
            self.make(target)

    def spoil(self, e: Expr, s: Stmt, at: StmtPath) -> None:
        """Log that an operand's content is lost, unless it never had any."""
        for ref in self.value(e):
            if not self.buffers.blank[ref.buffer] or self.buffers.logs[ref.buffer]:
                self.buffers.write(ref, Write(ref.box, at, s, scratch=True))

    def written(self, call: Call, ref: Ref) -> Box | None:
        """The part of operand 0's place `ref` that an op in place writes."""
        if ref.box is None or not ref.exact:
            return ref.box
        part = None
        if call.op == "tile.assemble":
            part = self.window(call.args[2], type_of(call.args[1]), ref.box)
        elif call.op == "tile.write":
            cell = self.offsets(call.args[1])
            part = ref.box.part(cell, (1,) * len(cell))
        return part or ref.box

    def offsets(self, e: Expr) -> tuple[Expr, ...]:
        """The elements of a position."""
        return tuple(map(self.offset, _literal(e)))

    def window(self, offset: Expr, t: Type, box: Box) -> Box | None:
        """The box of a tile of type `t` at an offset in `box`."""
        assert isinstance(t, TileType)
        return box.part(self.offsets(offset), t.static_shape) if t.static_shape is not None else None

    def put_back(self, call: Call, base: Value, s: Stmt, at: StmtPath) -> Value | None:
        """The result of an assemble that puts a written window back where it was taken, None where it is none. What the window lacks is
        lost for all who knew it."""
        t, source = type_of(call.args[1]), self.value(call.args[1])
        if len(source) != len(base):
            return None
        places = []
        for ref, window in zip(base, source, strict=True):
            if ref.buffer != window.buffer or ref.box is None or not (ref.exact and window.exact):
                return None
            box = self.window(call.args[2], t, ref.box)
            if box is None or box != window.box:
                return None
            places.append((ref, box, self.buffers.missed(ref)))
        result = []
        for ref, box, missed in places:
            assert isinstance(t, TileType)
            if not same_dims(t.valid, t.shape) and not any(covers(w.box, box) for w in missed):
                self.buffers.write(ref, Write(box, at, s))
            result.append(self.buffers.knows_all(ref, tuple(w for w in missed if not covers(box, w.box))))
        return tuple(result)

    def view(self, call: Call, source: Value) -> Value:
        """The places of a view of `source`: a smaller box for a slice, the same one in other coordinates for the others."""
        if call.op != "tile.slice":
            return tuple(Ref(r.buffer, r.box, r.exact and call.op in _SAME_COORDINATES, r.seen, r.missing) for r in source)
        sizes = tuple(map(const_int, _literal(call.args[1])))
        drops = len(call.args) > 4 and call.args[4] != MakeTuple(())
        result = []
        for ref in source:
            part = None
            if ref.exact and ref.box is not None:
                part = ref.box.part(self.offsets(call.args[2]), sizes)  # type: ignore[arg-type]
            exact = part is not None and not drops
            result.append(Ref(ref.buffer, part or ref.box, exact, ref.seen, ref.missing))
        return tuple(result)

    # ---- control flow ----

    def branch(self, s: If, at: StmtPath) -> None:
        buffers, mark = self.buffers, len(self.buffers.journal)
        yielded = self.block(s.then, (*at, "then"))
        one = [buffers.settle(self.value(e)) for e in yielded]
        in_then = buffers.take_back(mark)
        yielded = self.block(s.orelse or (), (*at, "else"))
        two = [buffers.settle(self.value(e)) for e in yielded]
        in_else = buffers.take_back(mark)
        buffers.put_back(in_then)
        buffers.put_back(in_else)
        for result, arms in zip(s.results, zip(one, two, strict=False), strict=False):
            self.hand_out(result, list(arms))

    def hand_out(self, result: Var, settled: list[Value]) -> None:
        if isinstance(result.type, TileType):
            self.values[result.name] = self.buffers.merge(settled)
        else:
            self.make(result)

    def loop(self, s: For | While, at: StmtPath) -> None:
        trips = trip_count(s)
        most = TRIPS if id(s) in self.writing or _turns(s) else 1
        if self.sparing and self.later_trip:
            most = 1
        if trips is not None:
            most = min(most, trips)
        outside = len(self.buffers.names)
        carried = [self.buffers.settle(self.value(c.init)) for c in s.carries]
        ends = [] if trips else [carried]
        patterns: list[object] = []
        for trip in range(most):
            seen = pattern(carried, outside)
            if seen in patterns:
                break
            if trip:
                patterns.append(seen)
            self.later_trip += trip > 0
            if isinstance(s, For):
                self.make(s.var)
            for carry, value in zip(s.carries, carried, strict=True):
                self.hand_out(carry.var, [value])
            yielded = self.block(s.body, (*at, "body"))
            carried = [self.buffers.settle(self.value(e)) for e in yielded]
            ends.append(carried)
            self.later_trip -= trip > 0
        for result, values in zip(s.results, zip(*ends, strict=True), strict=False):
            self.hand_out(result, list(values))

    def note_writes(self, block: Block) -> bool:
        """Note the statements of a block that hold an op which changes a buffer, in place or as scratch; True where there is one."""
        noted = False
        for s in block:
            inside = [self.note_writes(inner) for inner in blocks(s)]
            if True in inside or (isinstance(s, Assign | Eval) and isinstance(s.value, Call) and _changes(s.value)):
                self.writing.add(id(s))
                noted = True
        return noted


#: views whose result has the coordinates of their operand
_SAME_COORDINATES = frozenset({"tile.set_validshape"})


def _literal(e: Expr) -> tuple[Expr, ...]:
    """The elements of a shape or position, which the types of ops ask to be a literal tuple."""
    assert isinstance(e, MakeTuple)
    return e.items


def _changes(call: Call) -> bool:
    op = find_op(call.op)
    return op is not None and bool(op.writes or _scratch(op, call))


def _scratch(op: OpDef, call: Call) -> list[int]:
    """The operands of a call that serve as scratch."""
    return [i for i in range(len(call.args)) if operand_role(op, i) is Role.SCRATCH]


def _names(v: Var) -> tuple[str, ...]:
    """The names under which the places of a variable are kept: its own, or one for each element of a tuple."""
    return tuple(f"{v.name}.{i}" for i in range(len(v.type.items))) if isinstance(v.type, TupleType) else (v.name,)


def _turns(s: For | While) -> bool:
    """True where a loop hands on tiles other than those that it was given: what a later trip reads is not what the first one reads."""
    end = terminator(s.body)
    given = zip(s.carries, end.values if isinstance(end, Yield) else (), strict=False)
    return any(isinstance(c.var.type, TileType) and e != c.var for c, e in given)
