"""Operands of batched products, block by block: kept whole, or loaded page by page where they are used (`spec/flatten.md` 7.1 to 7.3).

On a machine with 512 KiB of L1 the operands [2, 64, 512] and [2, 512, 256] of BF16 (128 and 512 KiB) do not fit together, so both are
loaded by page, although the left one alone would fit. The statements of an operand that only such products read are left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod

from egraph_rules import forms
from egraph_rules.buffers import EVERYTHING, Buffers, written
from pypto_ir.expr import Expr, Var, const_int
from pypto_ir.ops.registry import type_of
from pypto_ir.regions import collapse_contiguous
from pypto_ir.stmt import Assign, Block, Call, Stmt, tuple_items, uses
from pypto_ir.types import TensorType, TileType, same_dims

#: which operands of a batched op are matrices
MATRICES = {"tile.batch_matmul": (0, 1), "tile.batch_matmul_acc": (1, 2)}


@dataclass(slots=True)
class Route:
    """How the pages of an operand are made. `load` is the load that makes the operand, if one does, `transposed` where a transpose_view
    stands between, `peeled` the batch dims below reshapes of batch dims. `early` says that the load reads a buffer that is written before
    the product."""

    name: str
    whole: bool = True
    fits: bool = True
    load: Assign | None = None
    transposed: bool = False
    batch: tuple[int, ...] = ()
    peeled: tuple[int, ...] = ()
    early: bool = False


@dataclass(slots=True)
class Routing:
    """The operands of one block: `only` are values that nothing but its products read, `drop` those that products load by page,
    `routes` the routes of both operands of a product by the identity of its statement."""

    defs: dict[str, Assign] = field(default_factory=dict)
    only: set[str] = field(default_factory=set)
    drop: set[str] = field(default_factory=set)
    routes: dict[int, tuple[Route, Route]] = field(default_factory=dict)
    early: dict[str, Route] = field(default_factory=dict)


def routing(block: Block, counts: Counter[str], capacity: int | None, buffers: Buffers) -> Routing:
    """The routes of a block; `counts` are the uses of every name in the function, `capacity` the bytes of L1."""
    found = Routing({s.target.name: s for s in block if isinstance(s, Assign) and len(s.targets) == 1})
    products = [(i, s) for i, s in enumerate(block) if _matrices(s)]
    if not products:
        return found
    at_top = Counter(v.name for s in block for v in uses(s))
    as_operand = Counter(e.name for _, s in products for e in _matrices(s) if isinstance(e, Var))
    found.only = {name for name, n in as_operand.items() if n == at_top[name] == counts[name]}
    _walk_back(found, counts)
    whole: set[str] = set()
    by_page: set[str] = set()
    positions = {id(s): i for i, s in enumerate(block)}
    writes = _Writes(block, buffers)
    for i, s in products:
        lhs, rhs = (_route(found.defs, e) for e in _matrices(s))
        fits = capacity is None or _bytes(_matrices(s)) <= capacity
        for route in (lhs, rhs):
            route.fits = fits
            route.whole = _kept_whole(route, fits)
            (whole if route.whole else by_page).update(_chain(found.defs, route.name))
            if not route.whole and route.load is not None and writes.between(positions[id(route.load)], i, route.load):
                route.early = True
                found.early[route.load.target.name] = route
        found.routes[id(s)] = (lhs, rhs)
    found.drop = (found.only & by_page) - whole
    return found


def is_product(s: Stmt) -> bool:
    return isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op in MATRICES


def _matrices(s: Stmt) -> tuple[Expr, ...]:
    if not is_product(s):
        return ()
    call = s.value  # type: ignore[union-attr]
    return tuple(call.args[i] for i in MATRICES[call.op])  # type: ignore[union-attr]


def is_batch_reshape(call: Call) -> bool:
    """True for a reshape of two operands that changes batch dims only: [2, 2, M, K] to [4, M, K] (`spec/flatten.md` 7.2)."""
    if call.op != "tile.reshape" or len(call.args) != 2:
        return False
    source, shape = type_of(call.args[0]), tuple_items(call.args[1])
    if not isinstance(source, TileType) or shape is None or source.rank < 2 or len(shape) < 2:
        return False
    return same_dims(source.shape[-2:], shape[-2:]) and all(const_int(d) is not None for d in (*source.shape, *shape))


def _seen_through(defs: dict[str, Assign], name: str) -> tuple[Call, Var] | None:
    """The batch-only reshape or transpose_view of the block that defines a name, and its operand."""
    s = defs.get(name)
    if s is None or not isinstance(s.value, Call) or not s.value.args or not isinstance(s.value.args[0], Var):
        return None
    view = s.value.op == "tile.transpose_view" or is_batch_reshape(s.value)
    return (s.value, s.value.args[0]) if view else None


def _walk_back(found: Routing, counts: Counter[str]) -> None:
    stack = list(found.only)
    while stack:
        seen = _seen_through(found.defs, stack.pop())
        if seen is not None and counts[seen[1].name] == 1 and seen[1].name not in found.only:
            found.only.add(seen[1].name)
            stack.append(seen[1].name)


def _chain(defs: dict[str, Assign], name: str) -> list[str]:
    """A name and what it is a view of."""
    names = [name]
    while (seen := _seen_through(defs, names[-1])) is not None:
        names.append(seen[1].name)
    return names


def _route(defs: dict[str, Assign], operand: Expr) -> Route:
    t = type_of(operand)
    assert isinstance(operand, Var) and isinstance(t, TileType)
    route = Route(operand.name, batch=(t.static_shape or ())[:-2], peeled=(t.static_shape or ())[:-2])
    name = operand.name
    while (seen := _seen_through(defs, name)) is not None:
        call, source = seen
        if call.op == "tile.transpose_view":
            if route.transposed:
                return route
            route.transposed = True
        elif not route.transposed and isinstance(source.type, TileType):
            route.peeled = (source.type.static_shape or ())[:-2]
        name = source.name
    s = defs.get(name)
    if s is not None and isinstance(s.value, Call) and s.value.op == "tile.load":
        route.load = s
    return route


def _kept_whole(route: Route, fits: bool) -> bool:
    """Whole where both fit and the window is one run of rows, or where no load of pages exists."""
    load = route.load
    if load is None or not isinstance(load.target.type, TileType) or load.target.type.rank <= 2:
        return True
    return fits and whole_contiguous(load)


def whole_contiguous(load: Assign) -> bool:
    """True where the window of a load is one run of rows of the flattened tensor (`spec/flatten.md` 7.3)."""
    assert isinstance(load.value, Call)
    args, t = load.value.args, load.target.type
    tensor = type_of(args[0])
    valid = tuple_items(args[3]) if len(args) > 3 else None
    if valid is None or not isinstance(tensor, TensorType) or not isinstance(t, TileType) or t.rank <= 2 or t.rank != tensor.rank:
        return True
    return collapse_contiguous(valid, tensor.shape)


def _bytes(operands: tuple[Expr, ...]) -> int:
    """The bytes of tiles as the author wrote them; a dynamic one counts as nothing."""
    total = 0
    for e in operands:
        t = type_of(e)
        shape = t.static_shape if isinstance(t, TileType) else None
        if isinstance(t, TileType) and shape is not None:
            total += prod(shape) * t.dtype.bits // 8
    return total


class _Writes:
    """Where the statements of a block write which buffer."""

    def __init__(self, block: Block, buffers: Buffers) -> None:
        self.buffers = buffers
        self.at: dict[str, list[int]] = {}
        for i, s in enumerate(block):
            for name in written(s, buffers):
                self.at.setdefault(name, []).append(i)

    def between(self, first: int, last: int, load: Assign) -> bool:
        """True where what a load reads is written after statement `first` and before `last`."""
        from bisect import bisect_right

        assert isinstance(load.value, Call)
        source = load.value.args[0]
        names = (EVERYTHING, *((self.buffers.of(source.name),) if isinstance(source, Var) else ()))
        for name in names:
            places = self.at.get(name, [])
            i = bisect_right(places, first)
            if i < len(places) and places[i] < last:
                return True
        return False


def lead_is_whole(valid: tuple[Expr, ...], window: tuple[Expr, ...]) -> bool:
    """True where every page of a window is valid: the batch extents are those of the window."""
    return same_dims(valid[:-2], window[:-2])


def page_index(route: Route, number: int, batch: tuple[int, ...]) -> int:
    """The page of an operand that page `number` of a product of batch dims `batch` reads."""
    return forms.spread_index(number, (*route.batch, 0, 0), (*batch, 0, 0))
