"""Names of tiles and the places that they lie in.

`z = load(..)` of [16, 64] FP32 makes a buffer of 4,096 bytes. `v = reshape(z, [64, 16])` binds v to the whole
of it, `w = slice(z, [8, 64], [0, 0])` binds w to a region of it. Reading any of the three keeps it alive: up
to the reader where the load stands in the same loop, to the end of the loop where it stands in front of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from extract.slots import NOT_COUNTED, Location, Slot, Slots, footprint
from extract.target import Target
from pypto_ir.expr import Expr, Item, Var, const_int
from pypto_ir.stmt import Stmt
from pypto_ir.types import Memory, TileType, TupleType


@dataclass(slots=True)
class Loop:
    """A loop that is open: its number, and the buffers from outside that it reads."""

    number: int
    used: list[int] = field(default_factory=list)


class TilePlaces:
    """The buffers that names lie in; `last_read` is the last position of every name."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.slots, self.values = Slots(), dict[str, Location]()
        self.bases: dict[str, int] = {}
        self.nest: list[Loop] = []
        self.regions = 0
        self.last_read: dict[str, int] = {}

    @property
    def loop_number(self) -> int:
        return self.nest[-1].number if self.nest else 0

    def new(self, name: str, t: TileType, s: Stmt | None, at: int, copies: int = 1) -> Location:
        """A buffer that is born at a position, inside the loops that are open."""
        memory = t.memory or Memory.VEC
        size = 0 if memory in NOT_COUNTED else footprint(t, self.target)
        slot = Slot(name, memory, size, at, at, s, len(self.nest), self.loop_number, copies)
        return Location(self.slots.add(slot), 0)

    def bind(self, name: str, where: Location) -> None:
        self.values[name] = where
        slot = self.slots.of(where)
        slot.next_read = max(slot.next_read, self.last_read.get(name, -1))

    def make(self, target: Var, s: Stmt | None, at: int, copies: int = 1) -> None:
        """New buffers for the tiles of a variable."""
        match target.type:
            case TileType() as t:
                placed = t.memref is not None
                where = self.placed(t, s, at) if placed else self.new(target.name, t, s, at, copies)
                self.bind(target.name, where)
            case TupleType(items=items):
                for i, item in enumerate(items):
                    if isinstance(item, TileType):
                        where = self.new(f"{target.name}[{i}]", item, s, at)
                        self.bind(f"{target.name}.{i}", where)
                        slot = self.slots.of(where)
                        slot.next_read = max(slot.next_read, self.last_read.get(target.name, -1))

    def placed(self, t: TileType, s: Stmt | None, at: int) -> Location:
        """The place of a tile in memory that the author named: a buffer a base, as large as needed."""
        ref = t.memref
        assert ref is not None
        offset = const_int(ref.offset) if ref.offset is not None else 0
        each = (offset or 0) + max(ref.size or 0, footprint(t, self.target))
        unit = self.target.allocation(t.memory or Memory.VEC)
        size = -(-each * (ref.slots or 1) // unit) * unit
        number = self.bases.get(ref.base)
        if number is None or self.slots.items[self.slots.find(number)].memory is not (t.memory or Memory.VEC):
            number = self.bases[ref.base] = self.new(ref.base, t, s, at).slot
        slot = self.slots.items[self.slots.find(number)]
        slot.size, slot.last = max(slot.size, size), max(slot.last, at)
        slot.depth = min(slot.depth, len(self.nest))
        return Location(number, self.region())

    def region(self) -> int:
        self.regions += 1
        return self.regions

    def value(self, e: Expr) -> Location | None:
        match e:
            case Var(name=name):
                return self.values.get(name)
            case Item(of=Var(name=name), index=i):
                return self.values.get(f"{name}.{i}")
        return None

    def read(self, variables: Iterable[Var], at: int) -> None:
        for v in variables:
            items = len(v.type.items) if isinstance(v.type, TupleType) else 0
            for name in (v.name, *(f"{v.name}.{i}" for i in range(items))):
                where = self.values.get(name)
                if where is not None:
                    self.need(self.slots.find(where.slot), at)

    def need(self, number: int, at: int) -> None:
        slot = self.slots.items[number]
        slot.last = max(slot.last, at)
        if not slot.reads or slot.reads[-1] != at:
            slot.reads.append(at)
        if slot.depth < len(self.nest):
            self.nest[slot.depth].used.append(number)

    def seen(self, source: Location, operand: Expr, made: TileType) -> Location:
        """The place of a view: a region of its own where it shows a part only."""
        whole = operand.type if isinstance(operand, Var) else None
        if isinstance(whole, TileType) and footprint(whole, self.target) == footprint(made, self.target):
            return source
        return Location(source.slot, self.region())
