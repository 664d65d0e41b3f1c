"""Follows a function in program order and finds which buffer every tile lies in, and when it is live.

The rules are those of `extract/liveness.py`. A loop carry gets a provisional buffer, since only the end
of the body tells whether the yielded tile lies in it; then it is joined with that of the initial value
where the two can be one:

    x = load(..); for k, (a,), init (x,): y = add(a, t); yield y -> r; store(r)

y lies elsewhere, so a's buffer is overwritten when the body ends; x is not read after the loop's
statement, so x, a and r are one buffer, live to the store, and y is live from the add to the end of the
body."""

from __future__ import annotations

from extract.slots import Location, Slot
from extract.target import Target
from extract.tile_places import Loop, TilePlaces
from pypto_ir.expr import Expr, Item, MakeTuple, Var
from pypto_ir.ops.registry import OpError, find_op
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
    Eval,
    For,
    Function,
    If,
    Scope,
    Stmt,
    While,
    Yield,
    uses,
    walk,
)  # fmt: skip
from pypto_ir.types import Memory, TileType, TupleType, Type

#: position of the last read of what the caller owns
_FOREVER = 1 << 60
#: where the tiles of a yield lie
_Places = list[Location | None]


def slots_of(function: Function, target: Target) -> tuple[list[Slot], dict[str, int]]:
    """The buffers of a function by birth, with final ranges, and the buffer of every tile by name (`t.0` for
    the first item of a tuple t)."""
    return _Walk(function, target).run()


class _Walk(TilePlaces):
    def __init__(self, function: Function, target: Target) -> None:
        super().__init__(target)
        self.function = function
        self.stages, self.at = 1, -1

    def run(self) -> tuple[list[Slot], dict[str, int]]:
        end = -1
        for end, s in enumerate(walk(self.function.body)):
            self.last_read.update((v.name, end) for v in uses(s))
        for param in self.function.params:
            if isinstance(param.var.type, TileType | TupleType):
                self.last_read[param.var.name] = _FOREVER
                self.make(param.var, None, 0)
        for slot in self.slots.items:
            slot.last = max(slot.last, end)
        self.block(self.function.body)
        numbers = self.slots.roots()
        places = {number: i for i, number in enumerate(numbers)}
        names = {name: self.slots.find(where.slot) for name, where in self.values.items()}
        return [self.slots.items[n] for n in numbers], {name: places[n] for name, n in names.items() if n in places}

    # ---- statements ----

    def block(self, block: Block) -> _Places | None:
        """Follow a block; where the tiles lie that it yields, None without a yield."""
        for s in block:
            self.at += 1
            self.read(uses(s), self.at)
            match s:
                case Yield(values=values):
                    return [self.value(e) for e in values]
                case Assign(targets=(target,), value=Call() as call):
                    self.call(call, target, s)
                case Assign(targets=(target,), value=Var() | Item() | MakeTuple() as value):
                    self.rename(target, value)
                case Assign(targets=targets):
                    for target in targets:
                        self.make(target, s, self.at)
                case Eval(value=Call() as call):
                    self.evaluate(call, s)
                case For() | While():
                    self.loop(s)
                case If():
                    self.branch(s)
                case Scope(body=body):
                    self.block(body)
        return None

    def rename(self, target: Var, value: Expr) -> None:
        if isinstance(target.type, TupleType):
            for i in range(len(target.type.items)):
                where = self.value(value.items[i] if isinstance(value, MakeTuple) else Item(value, i))
                if where is not None:
                    self.bind(f"{target.name}.{i}", where)
                    slot = self.slots.of(where)
                    slot.next_read = max(slot.next_read, self.last_read.get(target.name, -1))
            return
        where = self.value(value)
        if where is not None:
            self.bind(target.name, where)

    def evaluate(self, call: Call, s: Stmt) -> None:
        """A call whose result is dropped still writes it somewhere."""
        try:
            made = infer_call(call)
        except (KeyError, OpError):
            return
        if isinstance(made, TileType):
            self.call(call, Var(f"the result of {call.op}", made), s)

    def call(self, call: Call, target: Var, s: Stmt) -> None:
        op, made = find_op(call.op), target.type
        if op is not None and isinstance(made, TileType):
            shared = op.aliases if op.aliases is not None else op.writes[0] if op.writes else None
            source = self.value(call.args[shared]) if shared is not None and shared < len(call.args) else None
            if source is not None and self.slots.of(source).memory is (made.memory or Memory.VEC):
                self.bind(target.name, source if op.writes else self.seen(source, call.args[shared or 0], made))
                return
        loads = op is not None and op.reads_memory and _memory(made) in (Memory.VEC, Memory.MAT)
        self.make(target, s, self.at, self.stages if loads else 1)

    # ---- loops ----

    def loop(self, s: For | While) -> None:
        at, loop, stages = self.at, Loop(self.at + 1), self.stages
        inits = [self.value(c.init) for c in s.carries]
        homes: _Places = []
        for carry in s.carries:
            home = self.new(carry.var.name, carry.var.type, s, at) if isinstance(carry.var.type, TileType) else None
            homes.append(home)
            if home is not None:
                self.slots.of(home).fresh_in = loop.number
                loop.used.append(home.slot)
        self.nest.append(loop)
        for carry, home in zip(s.carries, homes, strict=True):
            if home is not None:
                self.bind(carry.var.name, home)
            else:
                self.make(carry.var, s, at)
        if isinstance(s, For) and s.kind == "pipeline":
            self.stages *= _stages(s)
        yielded = self.block(s.body) or list(homes)
        self.stages = stages
        self.nest.pop()
        for number in loop.used:
            slot = self.slots.items[self.slots.find(number)]
            slot.last = max(slot.last, self.at)
        self.settle(s, at, inits, homes, yielded)

    def settle(self, s: For | While, at: int, inits: _Places, homes: _Places, yielded: _Places) -> None:
        """Find the home of every carry when the body is known, and bind the results."""
        slots, moved, taken = self.slots, [False] * len(homes), set[int]()
        ends = [y if y is not None else h for y, h in zip(yielded, homes, strict=True)]
        for i, (home, end) in enumerate(zip(homes, ends, strict=True)):
            if home is not None and end is not None and not slots.same(home, end):
                alone = self.born(end, at, ends) and self.bound_to_share(home, end)
                if alone and not slots.of(home).read_within(slots.of(end).first, self.at):
                    slots.join(end.slot, home.slot)
                    slots.of(home).overwritten = True
                else:
                    moved[i] = True
        order = sorted(range(len(homes)), key=lambda i: self.replaced(homes[i], moved[i]))
        places = list(homes)
        for i in order:
            home, init = homes[i], inits[i]
            if home is None:
                continue
            if init is not None and slots.find(init.slot) not in taken and slots.of(init).memory is slots.of(home).memory:
                replaced = self.replaced(home, moved[i])
                if not replaced or self.free_after(slots.of(init), at):
                    slots.join(home.slot, init.slot)
                    slots.of(init).overwritten |= replaced
                    places[i] = init
                    if replaced:
                        taken.add(slots.find(init.slot))
            if places[i] is home:
                slots.of(home).fresh_in = self.loop_number
        self.stage(s, ends, homes, moved)
        for place, result in zip(places, s.results, strict=False):
            if place is not None:
                self.bind(result.name, place)
            else:
                self.make(result, s, self.at)

    def replaced(self, home: Location | None, moved: bool) -> bool:
        """True where the body overwrites a home with what is not computed in it."""
        return home is not None and (moved or self.slots.of(home).overwritten)

    def stage(self, s: Stmt, ends: _Places, homes: _Places, moved: list[bool]) -> None:
        """Staging buffers for carries that take the content of another carry's home."""
        overwritten = {self.slots.find(h.slot): i for i, h in enumerate(homes) if h is not None and moved[i]}
        for i, end in enumerate(ends):
            if moved[i] and end is not None and overwritten.get(self.slots.find(end.slot), i) != i:
                slot = self.slots.of(end)
                self.slots.add(
                    Slot(
                        f"{slot.name}, staged",
                        slot.memory,
                        slot.size,
                        self.at,
                        self.at,
                        s,
                        len(self.nest),
                        self.loop_number,
                    )
                )

    def free_after(self, slot: Slot, at: int) -> bool:
        """True where no name bound so far reads a buffer after a position, nor a later trip of a loop
        around."""
        return slot.fresh_in == self.loop_number and slot.next_read <= at

    def born(self, where: Location, after: int, yielded: _Places) -> bool:
        """True where a value has a buffer for itself that is made after a position, and is yielded once."""
        number = self.slots.find(where.slot)
        once = sum(y is not None and self.slots.find(y.slot) == number for y in yielded) == 1
        return once and where.region == 0 and self.slots.items[number].first > after

    def bound_to_share(self, a: Location, b: Location) -> bool:
        """True where two equal buffers lie in a memory that has no copy to itself."""
        x, y = self.slots.of(a), self.slots.of(b)
        return x.memory is y.memory and x.size == y.size and not self.target.can_move(x.memory, x.memory)

    # ---- branches ----

    def branch(self, s: If) -> None:
        at = self.at
        one = self.block(s.then)
        middle = self.at
        two = self.block(s.orelse) if s.orelse is not None else None
        for i, result in enumerate(s.results):
            a, b = (arm[i] if arm is not None else None for arm in (one, two))
            if a is None or b is None:
                where = a or b
            elif self.slots.same(a, b):
                where = a
            else:
                where = self.shared(a, b, at, middle, one or [], two or [])
                if where is None:
                    where = self.merged(a, b, result, s, at, one or [], two or [])
            if where is not None:
                self.bind(result.name, where)
            else:
                self.make(result, s, at)

    def shared(self, a: Location, b: Location, at: int, middle: int, one: _Places, two: _Places) -> Location | None:
        """One buffer for what both arms yield, in a memory without copies; None where it cannot be."""
        if not self.bound_to_share(a, b):
            return None
        slots, left, right = self.slots, self.born(a, at, one), self.born(b, at, two)
        if left and right:
            slots.join(b.slot, a.slot)
            return a
        if not left and not right:
            return None
        made, old, end = (a, b, middle) if left else (b, a, self.at)
        slot = slots.of(old)
        if old.region or slot.read_within(slots.of(made).first, end) or not self.free_after(slot, self.at):
            return None
        slots.join(made.slot, old.slot)
        slot.overwritten = True
        return old

    def merged(self, a: Location, b: Location, result: Var, s: If, at: int, one: _Places, two: _Places) -> Location:
        """The buffer that the arms copy their tiles to: one of an arm, or a new one."""
        assert isinstance(result.type, TileType)
        if self.born(a, at, one):
            home = a
        elif self.born(b, at, two):
            home = b
        else:
            home = self.new(result.name, result.type, s, at)
        slot = self.slots.of(home)
        slot.first, slot.last = min(slot.first, at), max(slot.last, self.at)
        return home


def _memory(t: Type) -> Memory | None:
    return (t.memory or Memory.VEC) if isinstance(t, TileType) else None


def _stages(s: For) -> int:
    found = next((v for k, v in s.attrs if k == "pipeline_stages"), 1)
    return found if isinstance(found, int) and found > 0 else 1
