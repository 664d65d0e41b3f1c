"""Carries of partly valid accumulators (`spec/flatten.md` section 11).

A product of [v, K] rows leaves its rows in L0C close together, at a pitch of v rounded up to 16, and its type says so: valid [v, 256],
compact. A loop that carries it from a fully valid [64, 256] would be read at a pitch of 64. The carry begins with a compact tile of
valid [v, 256] instead:

    acc_narrowed_storage = create([64, 256], compact=True)
    acc_narrowed = set_validshape(acc_narrowed_storage, v, 256)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from egraph_rules.encode import yielded
from extract.upstream import ops
from extract.upstream.routing import Routing
from extract.upstream.state import State, tuple_of
from extract.upstream.walk import Walk
from pypto_ir.expr import Expr, Var, const_int, variables
from pypto_ir.linear import provably_equal, provably_le
from pypto_ir.ops.registry import type_of
from pypto_ir.stmt import Assign, Call, Carry, Eval, For, Stmt, While, definitions, walk
from pypto_ir.types import Dims, Memory, TileType, same_dims
from pypto_ir.verify.acc_places import BLOCK, whole_blocks


def narrowed(state: State, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A flattened body with the carries repaired; the very same one where none needs it."""
    if not any(isinstance(s, For | While) and any(_wanted(c, y) for c, y in _handed(s)) for s in walk(body)):
        return body
    state.env = {}
    return _Narrowing(state, body).block(body)


def _handed(s: For | While) -> Iterator[tuple[Carry, Expr]]:
    """The carries of a loop with what its body yields for them."""
    return zip(s.carries, yielded(s.body), strict=False)


def _wanted(c: Carry, y: Expr) -> Dims | None:
    """The valid extents that a carry takes over from what is yielded, where they differ in a way that the rows in L0C tell."""
    carried, given, init = c.var.type, type_of(y), type_of(c.init)
    if not isinstance(carried, TileType) or not isinstance(given, TileType) or not isinstance(init, TileType):
        return None
    if carried.rank != 2 or given.rank != 2 or given.memory is not Memory.ACC or _pitches_coincide(given):
        return None
    extents = list(carried.valid)
    for axis in range(2):
        old, new = carried.valid[axis], given.valid[axis]
        fills = provably_equal(init.valid[axis], init.shape[axis])
        if not provably_equal(old, new) and (fills or provably_le(new, init.valid[axis])):
            extents[axis] = new
    return None if same_dims(tuple(extents), carried.valid) else tuple(extents)


def _pitches_coincide(t: TileType) -> bool:
    """`AccPitchesCoincide` (`spec/flatten.md` 11) for the valid rows and all rows of a tile; of one of 8 rows they never do."""
    used, height = t.valid[0], const_int(t.shape[0])
    number = const_int(used)
    return provably_equal(used, t.shape[0]) or height == (BLOCK if number is None else whole_blocks(number))


class _Narrowing(Walk):
    """Walks a flattened function; `defs` and `defined` are the assignments and the names so far."""

    def __init__(self, state: State, body: tuple[Stmt, ...]) -> None:
        super().__init__(state, Counter())
        self.defs = {s.target.name: s for s in walk(body) if isinstance(s, Assign)}
        self.defined = {p.var.name for p in state.function.params}
        self.defined.update(v.name for p in state.function.params for e in getattr(p.var.type, "shape", ()) for v in variables(e))

    def statement(self, s: Stmt, found: Routing, follows: Stmt | None) -> bool:
        if isinstance(s, For | While):
            s = self.repaired(s)
        self.defined.update(v.name for v in definitions(s))
        if isinstance(s, Eval):
            ops.evaluated(self.state, s)
            return False
        return super().statement(s, found, follows)

    def call(self, s: Assign, call: Call, found: Routing, follows: Stmt | None) -> bool:
        ops.generic(self.state, s)
        return False

    def repaired(self, s: For | While) -> For | While:
        carries = []
        for c, y in _handed(s):
            wanted = _wanted(c, y)
            carries.append(c if wanted is None else self.narrow(s, c, wanted))
        carries += s.carries[len(carries) :]
        return s if all(a is b for a, b in zip(carries, s.carries, strict=True)) else replace(s, carries=tuple(carries))

    def narrow(self, s: For | While, c: Carry, extents: Dims) -> Carry:
        seed = self.seed(c.init)
        t = c.var.type
        assert isinstance(t, TileType)
        if seed is None:
            return c
        late = [v.name for e in extents for v in variables(e) if v.name not in self.defined]
        if late:
            message = (
                f"the accumulator {c.var.name} is valid by {late[0]}, which is computed inside the loop: its rows are read at another "
                "pitch than they are written at"
            )
            self.state.fault(s, message, "W402")
            return c
        compact = () if provably_equal(extents[0], t.shape[0]) else (("compact", True),)
        kwargs = (("dtype", t.dtype.value), ("target_memory", Memory.ACC.value), *compact)
        at = self.defs[seed]
        storage = self.state.let(f"{seed}_narrowed_storage", Call("tile.create", (tuple_of(*t.shape),), kwargs), at)
        init = self.state.let(f"{seed}_narrowed", Call("tile.set_validshape", (storage, *extents)), at)
        return Carry(self.received(c.var, init), init)

    def seed(self, e: Expr) -> str | None:
        """The tile.create that a value is, through aliases."""
        while isinstance(e, Var) and (s := self.defs.get(e.name)) is not None:
            if isinstance(s.value, Call):
                return e.name if s.value.op == "tile.create" else None
            if not isinstance(s.value, Var):
                return None
            e = s.value
        return None
