"""Loops, whiles and branches around random statements, with tiles, tensors and scalars handed through them.

for i in range(2, -1, -1) carry acc = x:      bounds: i is between 0 and 2
    ..
    yield acc + load(a, [i * 4, 0])
"""

from __future__ import annotations

from collections.abc import Callable

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, Var, index
from pypto_ir.stmt import Break, Carry, Continue, For, If, Stmt, While, Yield
from pypto_ir.types import TensorType, TileType, same_dims, scalar_var
from tests.generators import memory, values, views
from tests.generators.builder import FLOATS, INTS, Bounded, Builder, tile

#: adds some statements to the open block
Fill = Callable[[Builder, int], None]


def loop(b: Builder, fill: Fill, size: int) -> None:
    """A for loop of few trips; its variable is drawn as an offset inside."""
    start, stop, step, low, high = _range(b)
    kind, attrs = "range", ()
    if b.chance(25):
        kind = b.choose(("pipeline", "parallel"))
        attrs = (("pipeline_stages", 2),) if kind == "pipeline" else ()
    var = scalar_var(b.fresh("i"))
    with _Carried(b, fill) as carried:
        b.frames[-1].bounded.append(Bounded(var, low, high))
        carried.body(size)
        body = carried.close()
    results = carried.results()
    b.emit(For(var, start, stop, step, body, carried.carries, results, kind, attrs))
    carried.publish(results)


def _range(b: Builder) -> tuple[Expr, Expr, Expr, int, int]:
    """Start, stop, step and the bounds of the variable."""
    match b.below(10):
        case 0 | 1 | 2:
            n = b.choose((2, 3, 4))
            return index(0), index(n), index(1), 0, n - 1
        case 3 | 4:
            n, step = b.choose((2, 3)), b.choose((2, 4))
            return index(0), index(n * step - b.below(step)), index(step), 0, (n - 1) * step
        case 5:
            n = b.choose((2, 3))
            return index(n), index(-1), index(-1), 0, n
        case 6:
            return index(3), index(3), index(1), 0, 3
        case 7:
            return index(1), index(4), index(2), 1, 3
        case _:
            limit = b.choose((3, 2, 4))
            n = b.count(0, limit)
            return index(0), n.var, index(1), 0, limit - 1


def while_loop(b: Builder, fill: Fill, size: int) -> None:
    """A while loop that counts a carried scalar up to a constant or a scalar parameter."""
    limit = b.choose((2, 3))
    stop = b.count(0, limit).var if b.chance(40) else index(limit)
    count = scalar_var(b.fresh("k"))
    with _Carried(b, fill) as carried:
        b.frames[-1].bounded.append(Bounded(count, 0, limit - 1))
        carried.body(size)
        body = carried.close(Binary("add", count, index(1)))
    results = (scalar_var(b.fresh("k")), *carried.results())
    carries = (Carry(count, index(0)), *carried.carries)
    b.emit(While(Binary("lt", count, stop), body, carries, results))
    b.frames[-1].bounded.append(Bounded(results[0], 0, limit))
    carried.publish(results[1:])


class _Carried:
    """The block of a loop body with the values carried through it."""

    def __init__(self, b: Builder, fill: Fill) -> None:
        self.b, self.fill = b, fill
        self.carries: tuple[Carry, ...] = ()
        self.roots: dict[str, Var] = {}
        self._block = b.block()

    def __enter__(self) -> _Carried:
        b = self.b
        tiles = [v for v in b.tiles(lambda t: t.dtype in (*FLOATS, *INTS)) if b.chance(35)][-2:]
        if tiles and b.chance(5):
            tiles.append(tiles[0])
        roots = [r for r in b.frames[-1].current if b.chance(35)][:2]
        outer = b.frames[-1]
        frame = self._block.__enter__()
        for init in tiles:
            var = Var(b.fresh("c"), init.type)
            self.carries += (Carry(var, init),)
            frame.tiles.append(var)
            b.used.add(init.name)
        for root in roots:
            var = Var(b.fresh("o"), outer.current[root].type)
            self.carries += (Carry(var, outer.current[root]),)
            self.roots[root] = frame.current[root] = var
        return self

    def __exit__(self, *error: object) -> None:
        self._block.__exit__(None, None, None)

    def body(self, size: int) -> None:
        self.b.loops += 1
        self.fill(self.b, size)
        self.b.loops -= 1

    def close(self, *first: Expr) -> tuple[Stmt, ...]:
        """The body with its yield; without anything carried a break or continue may stand in it."""
        b, frame = self.b, self.b.frames[-1]
        if not self.carries and not first:
            if b.chance(15) and frame.bounded:
                cond = Binary("eq", frame.bounded[0].var, index(1))
                at = b.below(len(frame.block) + 1)
                frame.block.insert(at, If(cond, (Break() if b.chance(50) else Continue(),)))
            return tuple(frame.block)
        by_name = {var.name: root for root, var in self.roots.items()}
        after = [frame.current[by_name[c.var.name]] if c.var.name in by_name else next_value(b, c.var) for c in self.carries]
        frame.block.append(Yield((*first, *after)))
        return tuple(frame.block)

    def results(self) -> tuple[Var, ...]:
        return tuple(Var(self.b.fresh("z"), c.var.type) for c in self.carries)

    def publish(self, results: tuple[Var, ...]) -> None:
        """Make the results visible after the loop, in place of what was carried in."""
        b = self.b
        by_name = {var.name: root for root, var in self.roots.items()}
        for carry, result in zip(self.carries, results, strict=True):
            if carry.var.name in by_name:
                b.frames[-1].current[by_name[carry.var.name]] = result
            else:
                b.define(result)
                if isinstance(carry.init, Var):
                    values.overwritten(b, carry.init)


def next_value(b: Builder, var: Var) -> Var:
    """A visible value that may take the place of a carried tile: same dtype and shape, mostly same region."""
    t = var.type
    assert isinstance(t, TileType)
    if not b.chance(70):
        found = [v for v in b.tiles() if _takes(t, tile(v), strict=not b.chance(10)) and v.name != var.name]
        if found:
            chosen = b.recent(found)
            b.used.add(chosen.name)
            return chosen
    made = None
    match b.below(4):
        case 0:
            made = b.call("tile.adds", [var, b.constant(t.dtype)])
        case 1:
            made = b.call("tile.add", [var, values.alike(b, var)])
        case 2 if t.rank >= 2:
            made = views.assemble_into(b, var)
        case 3:
            made = var
    result = made if made is not None and _takes(t, tile(made), strict=True) else var
    b.used.add(result.name)
    return result


def _takes(t: TileType, other: TileType, strict: bool) -> bool:
    if strict:
        return t == other
    return t.dtype is other.dtype and same_dims(t.shape, other.shape) and t.memory is other.memory


def branch(b: Builder, fill: Fill, size: int) -> None:
    """A branch with or without an else, with tiles, a scalar and tensors as results."""
    cond = condition(b)
    before = dict(b.frames[-1].current)
    wanted = [v for v in b.tiles(lambda t: t.dtype in (*FLOATS, *INTS)) if b.chance(30)][-2:]
    roots = [r for r in before if b.chance(35)][:2]
    arms: list[tuple[Stmt, ...]] = []
    for _ in range(2 if wanted or roots or b.chance(50) else 1):
        with b.block() as frame:
            fill(b, max(1, size // 2))
            if wanted or roots:
                chosen = [*(next_value(b, v) for v in wanted), *(frame.current[r] for r in roots)]
                frame.block.append(Yield(tuple(chosen)))
            arms.append(tuple(frame.block))
    results = tuple(Var(b.fresh("p"), v.type) for v in (*wanted, *(before[r] for r in roots)))
    b.emit(If(cond, arms[0], arms[1] if len(arms) > 1 else None, results))
    for result in results[: len(wanted)]:
        b.define(result)
    for root, result in zip(roots, results[len(wanted) :], strict=True):
        assert isinstance(result.type, TensorType)
        b.frames[-1].current[root] = result


def condition(b: Builder) -> Expr:
    """A comparison of scalars."""
    known = b.bounded()
    if known and not b.chance(30):
        s = b.recent(known)
        return Binary(b.choose(("eq", "lt", "ge", "ne")), s.var, index(s.low + b.below(s.high - s.low + 1)))
    read = b.scalars(DType.INT32)
    if read and b.chance(50):
        value = b.constant(DType.INT32)
        return Binary("gt", read[-1], value)
    return Binary("lt", b.count(0, 3).var, index(2))


def drain(b: Builder, most: int) -> None:
    """Store values of the open block that nothing uses yet."""
    frame = b.frames[-1]
    loose = [v for v in frame.tiles if v.name not in b.used and v.name not in b.hidden]
    for var in loose[-most:]:
        memory.store(b, var)
