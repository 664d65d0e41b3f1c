"""Runs a function on a memory of marks and checks that no tile is overwritten while it is still read.

Every execution of an op that makes a tile writes a fresh mark into all units of the tile's addresses; views
and results in place keep the mark of their operand; scratch is overwritten with a mark of its own. Reading a
tile (a view reads nothing) checks that all of its units still hold its mark. Loops run 0 to 3 trips and
branches either way. Between the places of an initial value, a carried name, a yielded value and a result the
machine copies where they differ, all sources first.

Of liveness only one thing is believed: the buffer that each name lies in. Ranges and overlaps are not used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from random import Random

from extract.allocate import Allocation
from extract.liveness import Buffer
from extract.target import Target
from pypto_ir.expr import Var
from pypto_ir.interp.calls import operand_role
from pypto_ir.ops.registry import Role, find_op
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
    Eval,
    For,
    Function,
    If,
    Return,
    Scope,
    Stmt,
    While,
    Yield,
    uses,
)
from pypto_ir.types import Memory, TileType

#: most statements of one run
STEPS = 3_000


class Clash(AssertionError):
    """A tile that was overwritten, or lies where nothing may."""


def bytes_of(t: TileType) -> int:
    """Bytes of the physical shape."""
    shape = t.static_shape
    assert shape is not None
    return -(-prod(shape) * t.dtype.bits // 8)


@dataclass(slots=True)
class Tile:
    """A tile at run time: its units and the mark that they must hold."""

    memory: Memory
    units: range
    mark: int

    def overlaps(self, other: Tile) -> bool:
        common = self.units.start < other.units.stop and other.units.start < self.units.stop
        return self.memory is other.memory and common


@dataclass(slots=True)
class MemoryMachine:
    function: Function
    target: Target
    allocation: Allocation
    source: Random
    cells: dict[Memory, list[int]] = field(default_factory=dict)
    table: list[tuple[Buffer, tuple[int, ...]]] = field(default_factory=list)
    tiles: dict[str, Tile] = field(default_factory=dict)
    made: dict[int, int] = field(default_factory=dict)
    marks: int = 0
    steps: int = 0

    def run(self) -> None:
        self.table = self.allocation.table()
        for memory, size in self.allocation.extent.items():
            self.cells[memory] = [0] * (size // self.target.allocation(memory))
        self.addresses_are_legal()
        self.block(self.function.body)

    def addresses_are_legal(self) -> None:
        for buffer, addresses in self.table:
            unit, capacity = self.target.allocation(buffer.memory), self.target.capacity(buffer.memory)
            assert len(addresses) == buffer.copies
            for address in addresses:
                if address % unit or address < 0 or (capacity is not None and address + buffer.bytes > capacity):
                    raise Clash(f"{buffer.name} of {buffer.bytes} bytes lies at {address} of {capacity}")

    # ---- memory ----

    def mark(self) -> int:
        self.marks += 1
        return self.marks

    def place(self, var: Var, mark: int) -> Tile:
        """Make a tile in the next copy of its buffer."""
        number = self.allocation.live.places[var.name]
        buffer, addresses = self.table[number]
        turn = self.made[number] = self.made.get(number, -1) + 1
        unit = self.target.allocation(buffer.memory)
        assert isinstance(var.type, TileType)
        size = bytes_of(var.type)
        assert 0 < size <= buffer.bytes, f"{var.name} needs {size} of {buffer.bytes} bytes"
        start = addresses[turn % buffer.copies] // unit
        return Tile(buffer.memory, range(start, start + -(-size // unit)), mark)

    def write(self, tile: Tile) -> None:
        units = tile.units
        self.cells[tile.memory][units.start : units.stop] = [tile.mark] * len(units)

    def check(self, name: str, s: Stmt) -> None:
        tile = self.tiles.get(name)
        if tile is not None:
            held = self.cells[tile.memory][tile.units.start : tile.units.stop]
            if held.count(tile.mark) != len(tile.units):
                raise Clash(f"{name} is read after its place was overwritten: {s}")

    def copy(self, pairs: list[tuple[Var, Var]]) -> None:
        """Give each first name the content of the second, in its own place."""
        pairs = [(a, b) for a, b in pairs if isinstance(b, Var) and b.name in self.tiles]
        sources = [self.tiles[b.name] for _, b in pairs]
        for (a, _), source in zip(pairs, sources, strict=True):
            self.tiles[a.name] = Tile(source.memory, self.home(a, source), source.mark)
        for a, _ in pairs:
            self.write(self.tiles[a.name])

    def home(self, var: Var, source: Tile) -> range:
        """Where `var` takes the content of a tile: in place if that is its buffer, else in the first copy."""
        buffer, addresses = self.table[self.allocation.live.places[var.name]]
        unit = self.target.allocation(buffer.memory)
        starts = [a // unit for a in addresses]
        start = source.units.start if source.units.start in starts else starts[0]
        return range(start, start + len(source.units))

    # ---- statements ----

    def block(self, block: Block) -> tuple[Var, ...]:
        for s in block:
            self.steps += 1
            if self.steps > STEPS:
                return ()
            if isinstance(s, Assign | Eval) and isinstance(s.value, Call):
                self.call(s.value, s.target if isinstance(s, Assign) else None, s)
                continue
            for v in uses(s):
                self.check(v.name, s)
            match s:
                case Assign(targets=(target,), value=Var(name=name)) if name in self.tiles:
                    self.tiles[target.name] = self.tiles[name]
                case Yield(values=values):
                    return values  # type: ignore[return-value]
                case For() | While():
                    self.loop(s)
                case If(then=then, orelse=orelse, results=results):
                    arm = then if self.source.random() < 0.5 else orelse or ()
                    self.copy(list(zip(results, self.block(arm), strict=False)))
                case Scope(body=body):
                    self.block(body)
                case Return():
                    return ()
        return ()

    def loop(self, s: For | While) -> None:
        args = [c.var for c in s.carries]
        self.copy([(c.var, c.init) for c in s.carries])  # type: ignore[misc]
        for _ in range(self.source.randrange(4)):
            self.copy(list(zip(args, self.block(s.body), strict=False)))
            if self.steps > STEPS:
                return
        self.copy(list(zip(s.results, args, strict=True)))

    def call(self, call: Call, target: Var | None, s: Stmt) -> None:
        op = find_op(call.op)
        assert op is not None
        operands = [(i, a) for i, a in enumerate(call.args) if isinstance(a, Var) and a.name in self.tiles]
        scratch = [a for i, a in operands if operand_role(op, i) is Role.SCRATCH]
        viewed = op.aliases if not op.writes else None
        for i, a in operands:
            if a not in scratch and i != viewed:
                self.check(a.name, s)
        busy = [self.tiles[a.name] for _, a in operands if a not in scratch]
        for a in scratch:
            spoiled = self.tiles[a.name]
            if any(map(spoiled.overlaps, busy)):
                raise Clash(f"scratch {a.name} overlaps an operand: {s}")
            busy.append(spoiled)
            spoiled.mark = self.mark()
            self.write(spoiled)
        if target is None or not isinstance(target.type, TileType):
            return
        if op.aliases is not None:
            source = self.tiles[call.args[op.aliases].name]  # type: ignore[union-attr]
            units = -(-bytes_of(target.type) // self.target.allocation(source.memory))
            start = source.units.start
            self.tiles[target.name] = Tile(source.memory, range(start, start + min(units, len(source.units))), source.mark)
            if op.writes:
                self.write(source)
            return
        tile = self.place(target, self.mark())
        if any(map(tile.overlaps, busy)):
            raise Clash(f"{target.name} overlaps an operand: {s}")
        self.write(tile)
        self.tiles[target.name] = tile
