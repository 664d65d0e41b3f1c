"""Row windows of an accumulator, seen as pages: [T*R, N] with windows of R rows is [T, R, N].

    acc = create [64, 32]                          acc = create [4, 16, 32]
    w = slice(acc, [16, 32], [t0, 0])              w = reshape(slice(acc, [1, 16, 32], [t0 // 16, 0, 0]), [16, 32])
    m = matmul_acc(w, x, y)                        m = matmul_acc(w, x, y)
    acc1 = assemble(acc, m, [t0, 0])               acc1 = assemble(acc, reshape(m, [1, 16, 32]), [t0 // 16, 0, 0])
    store(acc1, [r, c], out)                       store(reshape(acc1, [64, 32]), [r, c], out)

The cube unit writes compactly and knows no distance between columns of boxes, so a window of some rows that is wider than one box has no
address (`spec/hardware.md` 4.4). As pages the windows have the carriers of any batch: side by side in one tile, or a tile for each. The
two columns mean the same where every window starts at a multiple of R: t0 // R * R is t0 then. Windows that are no pages are tiles of their
own (`bands`), or are written a column of blocks at a time (`column_blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from egraph_rules.bands import BOX, COLUMNS, ROWS, Bands, bands, only_stored, split_bands
from egraph_rules.chains import Chains, accumulates, chains, handed, in_acc
from egraph_rules.column_blocks import by_column_blocks, open_rows, unblocked
from egraph_rules.index_facts import IndexFacts
from egraph_rules.row_pages import BATCHED, Pages, Plan, as_pages, left_factor
from pypto_ir.expr import Expr, Var, const_int
from pypto_ir.stmt import (
    Assign,
    Call,
    Eval,
    For,
    Function,
    If,
    Program,
    Stmt,
    While,
    Yield,
    definitions,
    tuple_items,
    uses,
    walk,
)
from pypto_ir.types import TileType, same_dims
from pypto_ir.verify.acc_places import whole_blocks


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why the row windows of an accumulator are no pages: `s` is the statement that stands in the way."""

    s: Stmt
    chain: str
    reason: str


@dataclass(slots=True)
class Lifted:
    """The function with its windows as pages, as tiles of their own or in columns of blocks (the same object where there are none), and
    what stood in the way."""

    given: Function
    function: Function
    pages: bool = False
    bands: bool = False
    blocks: bool = False
    obstacles: list[Obstacle] = field(default_factory=list)


@dataclass(slots=True)
class _Chain:
    """Accumulators of one buffer: its windows of rows, all statements that touch it, and the pages that they make."""

    name: str
    touching: list[Stmt] = field(default_factory=list)
    #: windows that a product is written through and that the cube unit cannot address as they stand
    windows: list[Assign] = field(default_factory=list)
    #: the names of all windows that a product is written through
    written: set[str] = field(default_factory=set)


def lift_row_windows(function: Function) -> Lifted:
    """Turn every accumulator that is written through windows of rows into one of pages, of tiles or of columns of blocks."""
    result = Lifted(function, function)
    if not any(isinstance(s, Assign) and isinstance(s.value, Call) and accumulates(s.value) for s in walk(function.body)):
        return result
    apart = {c.name: plan for c, members in _windowed(function, chains(function), _askew) if (plan := _columns(function, c, members))}
    if apart:
        result.bands, result.function = True, split_bands(function, chains(function), apart)
    _lift(result)
    return result


def _columns(function: Function, chain: _Chain, members: list[Var]) -> Bands | None:
    """Bands of columns of a chain with windows that begin inside a box, where it has them."""
    if _shapes(chain, members) is not None:
        return None
    found = bands(members, chain.touching, chain.written, only_stored(function), COLUMNS)
    return found if isinstance(found, Bands) else None


def _lift(result: Lifted) -> None:
    """Each chain with windows of rows in the first form that it has."""
    function = result.function
    found = chains(function)
    wanted = list(_windowed(function, found, lambda *window: not addressable(*window)))
    if not wanted:
        return
    facts = IndexFacts(Program(function.name, (function,)))
    plan = Plan({}, {}, frozenset())
    apart: dict[str, Bands] = {}
    blocked: set[str] = set()
    for chain, members in wanted:
        odd = _shapes(chain, members)
        pages = odd or _pages(function, found, chain, members, facts)
        if isinstance(pages, Plan) and not pages.tall:
            plan = plan.joined(pages)
            continue
        tiles = "" if odd else bands(members, chain.touching, chain.written, only_stored(function), ROWS)
        if isinstance(tiles, Bands):
            apart[chain.name] = tiles
            continue
        if isinstance(pages, Plan):
            plan = plan.joined(pages)
            continue
        products = _products(function, found, chain)
        why = next((reason for s, column in products if (reason := _unblocked(s, column, members))), None)
        if why is None:
            blocked |= {s.target.name for s, _ in products}
            continue
        nor = f"; nor can its rows be tiles of their own: {tiles}" if tiles else ""
        nor += f"; nor is a product written a column of blocks at a time: {why}"
        result.obstacles.append(replace(pages, reason=pages.reason + nor))
    if plan.pages:
        result.pages, result.function = True, as_pages(result.function, found, plan)
    if apart:
        result.bands, result.function = True, split_bands(result.function, found, apart)
    if blocked:
        result.blocks, result.function = True, by_column_blocks(result.function, blocked)


def addressable(window: TileType, parent: TileType, offsets: tuple[Expr, ...]) -> bool:
    """True where the cube unit can write a window as it stands: at full height, or within one column of boxes at a constant column."""
    rows, cols = window.static_shape or (0, 0)
    if parent.static_shape is None or rows == parent.static_shape[0]:
        return True
    column = const_int(offsets[1])
    return column is not None and column >= 0 and 0 < cols <= BOX and column // BOX == (column + cols - 1) // BOX


def _askew(window: TileType, parent: TileType, offsets: tuple[Expr, ...]) -> bool:
    """True for a window of several columns of boxes that begins inside of one."""
    _, cols = window.static_shape or (0, 0)
    column = const_int(offsets[1])
    return column is not None and column % BOX != 0 and column // BOX != (column + cols - 1) // BOX


Odd = Callable[[TileType, TileType, tuple[Expr, ...]], bool]


def _windowed(function: Function, found: Chains, odd: Odd) -> Iterator[tuple[_Chain, list[Var]]]:
    """The chains of which some window that is `odd` is accumulated into, each with its members."""
    written = {
        found.of(s.target.name) for s in walk(function.body) if isinstance(s, Assign) and isinstance(s.value, Call) and accumulates(s.value)
    }
    every: dict[str, _Chain] = {}
    for s in walk(function.body):
        cut = _cut(s)
        if cut is None or found.of(s.target.name) not in written:  # type: ignore[union-attr]
            continue
        window, parent, offsets = cut
        chain = every.setdefault(found.of(parent.name), _Chain(found.of(parent.name)))
        chain.written.add(s.target.name)  # type: ignore[union-attr]
        if odd(window, parent.type, offsets):  # type: ignore[arg-type]
            chain.windows.append(s)  # type: ignore[arg-type]
    result = {name: chain for name, chain in every.items() if chain.windows}
    if not result:
        return
    for s in walk(function.body):
        for name in {found.of(v.name) for v in (*definitions(s), *uses(s)) if in_acc(v)}:
            if name in result:
                result[name].touching.append(s)
    members = _members(function, found)
    yield from ((chain, members[name]) for name, chain in result.items())


def _products(function: Function, found: Chains, chain: _Chain) -> list[tuple[Assign, int | None]]:
    """The products onto windows that have no address as they stand, each with the column that its window begins at, where it is known."""
    columns: dict[str, int | None] = {}
    for w in chain.windows:
        _, _, offsets = _cut(w) or (None, None, (None, None))
        column = const_int(offsets[1])  # type: ignore[arg-type]
        name = found.of(w.target.name)
        columns[name] = column if columns.get(name, column) == column else None
    return [
        (s, columns[found.of(s.target.name)])
        for s in walk(function.body)
        if isinstance(s, Assign) and isinstance(s.value, Call) and accumulates(s.value) and found.of(s.target.name) in columns
    ]


def _cut(s: Stmt) -> tuple[TileType, Var, tuple[Expr, ...]] | None:
    """Window type, parent and offsets of a slice of a 2-D accumulator."""
    if not isinstance(s, Assign) or not isinstance(s.value, Call) or s.value.op != "tile.slice" or len(s.value.args) < 3:
        return None
    parent, offsets = s.value.args[0], tuple_items(s.value.args[2])
    if not in_acc(parent) or parent.type.rank != 2 or offsets is None or len(offsets) != 2:  # type: ignore[union-attr]
        return None
    if s.target.type.rank != 2:  # type: ignore[union-attr]
        return None
    return s.target.type, parent, offsets  # type: ignore[return-value]


def _members(function: Function, found: Chains) -> dict[str, list[Var]]:
    result: dict[str, list[Var]] = {}
    for v in (*(p.var for p in function.params), *(v for s in walk(function.body) for v in definitions(s))):
        if in_acc(v):
            result.setdefault(found.of(v.name), []).append(v)
    return result


def _shapes(chain: _Chain, members: list[Var]) -> Obstacle | None:
    """What in the types of a chain keeps its rows together, or None."""

    def no(reason: str) -> Obstacle:
        return Obstacle(chain.windows[0], members[0].name, reason)

    for v in members:
        t = v.type
        assert isinstance(t, TileType)
        if t.static_shape is None or t.rank != 2 or not same_dims(t.shape, members[0].type.shape):  # type: ignore[union-attr]
            return no(f"{v.name} is no tile of the same shape")
        if not same_dims(t.valid, t.shape):
            return no(f"{v.name} is valid in a part of it only, which has no place once the windows stand side by side")
        if t.memref is not None:
            return no(f"{v.name} is bound to a buffer whose layout cannot change")
        if t.dtype.bytes != 4:
            return no(f"its elements of {t.dtype.value} are not 4 bytes wide")
    return None


def _pages(function: Function, found: Chains, chain: _Chain, members: list[Var], facts: IndexFacts) -> Plan | Obstacle:
    """How a chain is written as pages, or why it cannot be."""

    def no(s: Stmt, reason: str) -> Obstacle:
        return Obstacle(s, members[0].name, reason)

    heights = {_rows(w): w for w in chain.windows}
    first = chain.windows[0]
    if len(heights) > 1:
        a, b = sorted(heights)[:2]
        return no(heights[b], f"it is written through row windows of different heights ({a} and {b} rows)")
    (rows,) = heights
    t = members[0].type
    assert isinstance(t, TileType) and t.static_shape is not None
    if t.static_shape[0] % rows:
        return no(first, f"windows of {rows} rows do not divide its {t.static_shape[0]} rows evenly")
    if t.static_shape[1] % BOX:
        return no(first, f"its column extent {t.static_shape[1]} is no multiple of {BOX}")
    for s in chain.touching:
        reason = _use(function.name, s, {v.name for v in members}, rows, facts)
        if reason is not None:
            return no(s, reason)
    pages = {chain.name: Pages(rows, whole_blocks(rows))}
    if rows % BOX == 0:
        return Plan(pages, {}, frozenset())
    raised = _raised(function, found, chain)
    if isinstance(raised, str):
        return no(first, f"the row extent {rows} of its windows is no multiple of {BOX}, and {raised}")
    return Plan(pages, {found.of(name): pages[chain.name] for name in chain.written}, raised)


def _raised(function: Function, found: Chains, chain: _Chain) -> frozenset[str] | str:
    """The left factors of the products onto the windows of a chain, all of which can be had with more rows than are valid; or why not."""
    windows = {found.of(name) for name in chain.written}
    makers = {s.target.name: s.value for s in walk(function.body) if isinstance(s, Assign) and isinstance(s.value, Call)}
    lefts: set[str] = set()
    for s in chain.touching:
        if isinstance(s, Assign) and isinstance(s.value, Call) and (s.value.op in BATCHED or s.value.op == "tile.move"):
            return f"{s.value.op} takes all of its rows as one tile"
    for s in walk(function.body):
        call = s.value if isinstance(s, Assign | Eval) else None
        if not any(in_acc(v) and found.of(v.name) in windows for v in (*definitions(s), *uses(s))):
            continue
        if isinstance(s, For | While | If | Yield) or (isinstance(s, Assign) and isinstance(s.value, Var)):
            continue
        if not isinstance(call, Call):
            return "a window is handed to something that takes it as it is"
        if not (isinstance(s, Assign) and in_acc(s.target) and found.of(s.target.name) in windows and accumulates(call)):
            continue
        if call.op != "tile.matmul_acc":
            return f"{call.op} has no form for a factor of more rows"
        name: str | None = call.args[1].name if isinstance(call.args[1], Var) else None
        while name is not None:
            lefts.add(name)
            made = makers.get(name, Call("", ()))
            if made.op == "tile.load" and len(made.args) == 4:
                break
            source = made.args[0] if made.op == "tile.move" else None
            name = source.name if isinstance(source, Var) and not in_acc(source) else None
        if name is None:
            return "the left factor of a product is no load, which could be one of more rows"
    return frozenset(lefts)


def _use(function: str, s: Stmt, members: set[str], rows: int, facts: IndexFacts) -> str | None:
    """What a statement does to a chain that pages cannot do, or None."""
    match s:
        case For() | While() | If():
            odd = [v.name for v, others in handed(s) if v.name in members and not all(isinstance(e, Var) for e in others)]
            return f"{odd[0]} is joined with something that is no tile" if odd else None
        case Yield():
            return None
        case Assign(value=Var()):
            return None
        case Assign(value=Call(op="tile.create")):
            return None
        case Assign(value=Call(op="tile.slice" | "tile.assemble" as op, args=args, kwargs=kwargs)) if len(args) == 3 and not kwargs:
            offsets = tuple_items(args[2])
            window = args[1] if op == "tile.assemble" else s.target
            shape = window.type.static_shape if isinstance(window, Var) and isinstance(window.type, TileType) else None
            if shape is None or offsets is None or len(shape) != 2 or len(offsets) != 2 or shape[0] != rows:
                return f"this window does not have the {rows} rows of the others"
            fact = facts.of(function, offsets[0], s)
            return None if fact.is_multiple_of(rows) else f"the row offset of this window is {fact}, not known to be a multiple of {rows}"
        case Assign(value=Call(op="tile.store", args=args)) | Eval(value=Call(op="tile.store", args=args)) if len(args) == 3:
            return None
        case Assign(value=Call(op="tile.move")):
            return None
        case Assign(value=Call(op=op) as call) if op in BATCHED and left_factor(call) is not None:
            return None
        case Assign(value=Call(op=op)) | Eval(value=Call(op=op)):
            return f"{op} reads or writes it as one flat tile, not a window at a time"
    return "it is handed to something that reads it as one flat tile"


def _unblocked(s: Assign, column: int | None, members: list[Var]) -> str | None:
    """Why a product onto a window from `column` on is not written by columns of blocks, or None."""
    call, t = s.value, members[0].type
    assert isinstance(call, Call) and isinstance(t, TileType)
    return unblocked(call, column, const_int(t.shape[-1])) or open_rows(call)


def _rows(s: Assign) -> int:
    t = s.target.type
    assert isinstance(t, TileType) and t.static_shape is not None
    return t.static_shape[0]
