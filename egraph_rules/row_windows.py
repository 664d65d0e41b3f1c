"""Row windows of an accumulator, seen as pages: [T*R, N] with windows of R rows is [T, R, N].

    acc = create [64, 32]                          acc = create [4, 16, 32]
    w = slice(acc, [16, 32], [t0, 0])              w = reshape(slice(acc, [1, 16, 32], [t0 // 16, 0, 0]), [16, 32])
    m = matmul_acc(w, x, y)                        m = matmul_acc(w, x, y)
    acc1 = assemble(acc, m, [t0, 0])               acc1 = assemble(acc, reshape(m, [1, 16, 32]), [t0 // 16, 0, 0])
    store(acc1, [r, c], out)                       store(reshape(acc1, [64, 32]), [r, c], out)

The cube unit writes compactly and knows no distance between columns of boxes, so a window of some rows that is wider than one box has no
address (`spec/hardware.md` 4.4). As pages the windows have the carriers of any batch: side by side in one tile, or a tile for each. The
two columns mean the same where every window starts at a multiple of R: t0 // R * R is t0 then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from egraph_rules.chains import Chains, accumulates, chains, handed, in_acc
from egraph_rules.index_facts import IndexFacts
from egraph_rules.page_parts import factors
from egraph_rules.row_bands import BOX, Bands, bands, only_stored, split_bands
from pypto_ir.expr import Binary, Const, Expr, MakeTuple, Var, const_int, index
from pypto_ir.linear import normalize
from pypto_ir.names import names_of
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
    Carry,
    Eval,
    For,
    Function,
    If,
    Program,
    Scope,
    Stmt,
    While,
    Yield,
    definitions,
    tuple_items,
    uses,
    walk,
)
from pypto_ir.types import TileType, dims, same_dims, tile_type


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why the row windows of an accumulator are no pages: `s` is the statement that stands in the way."""

    s: Stmt
    chain: str
    reason: str


@dataclass(slots=True)
class Lifted:
    """The function with its row windows as pages or as tiles of their own (the same object where there are none), and what stood in the
    way."""

    given: Function
    function: Function
    pages: bool = False
    bands: bool = False
    obstacles: list[Obstacle] = field(default_factory=list)


@dataclass(slots=True)
class _Chain:
    """Accumulators of one buffer: its windows of rows, all statements that touch it, and the pages that they make."""

    name: str
    rows: int = 0
    touching: list[Stmt] = field(default_factory=list)
    #: windows that a product is written through and that the cube unit cannot address as they stand
    windows: list[Assign] = field(default_factory=list)
    #: the names of all windows that a product is written through
    written: set[str] = field(default_factory=set)


def lift_row_windows(function: Function) -> Lifted:
    """Turn every accumulator that is written through windows of rows into one of pages."""
    if not any(isinstance(s, Assign) and isinstance(s.value, Call) and accumulates(s.value) for s in walk(function.body)):
        return Lifted(function, function)
    found = chains(function)
    wanted = {c.name: c for c in _windowed(function, found)}
    if not wanted:
        return Lifted(function, function)
    facts, result = IndexFacts(Program(function.name, (function,))), Lifted(function, function)
    members = _members(function, found)
    pages: dict[str, int] = {}
    apart: dict[str, Bands] = {}
    for name, chain in wanted.items():
        obstacle = _shapes(chain, members[name])
        if obstacle is None:
            obstacle = _obstacle(function.name, chain, members[name], facts)
            if obstacle is None:
                pages[name] = chain.rows
                continue
            found_bands = bands(members[name], chain.touching, chain.written, only_stored(function))
            if isinstance(found_bands, Bands):
                apart[name] = found_bands
                continue
            obstacle = replace(obstacle, reason=f"{obstacle.reason}; nor can its rows be tiles of their own: {found_bands}")
        result.obstacles.append(obstacle)
    if pages:
        result.pages, result.function = True, _Rewrite(function, found, pages).function()
    if apart:
        result.bands, result.function = True, split_bands(result.function, found, apart)
    return result


def addressable(window: TileType, parent: TileType, offsets: tuple[Expr, ...]) -> bool:
    """True where the cube unit can write a window as it stands: at full height, or within one column of boxes at a constant column."""
    rows, cols = window.static_shape or (0, 0)
    if parent.static_shape is None or rows == parent.static_shape[0]:
        return True
    column = const_int(offsets[1])
    return column is not None and column >= 0 and 0 < cols <= BOX and column // BOX == (column + cols - 1) // BOX


def _windowed(function: Function, found: Chains) -> Iterator[_Chain]:
    """The chains of which some window of rows is accumulated into."""
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
        if not addressable(window, parent.type, offsets):  # type: ignore[arg-type]
            chain.windows.append(s)  # type: ignore[arg-type]
    result = {name: chain for name, chain in every.items() if chain.windows}
    for s in walk(function.body):
        for name in {found.of(v.name) for v in (*definitions(s), *uses(s)) if in_acc(v)}:
            if name in result:
                result[name].touching.append(s)
    yield from result.values()


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


def _obstacle(function: str, chain: _Chain, members: list[Var], facts: IndexFacts) -> Obstacle | None:
    """Why a chain cannot be seen as pages, or None; sets the rows of its pages."""

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
    if rows % BOX:
        return no(first, f"the row extent {rows} of its windows is no multiple of {BOX}")
    if t.static_shape[1] % BOX:
        return no(first, f"its column extent {t.static_shape[1]} is no multiple of {BOX}")
    chain.rows = rows
    for s in chain.touching:
        reason = _use(function, s, {v.name for v in members}, rows, facts)
        if reason is not None:
            return no(s, reason)
    return None


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
        case Assign(value=Call(op=op) as call) if op in _BATCHED and _left(call) is not None:
            return None
        case Assign(value=Call(op=op)) | Eval(value=Call(op=op)):
            return f"{op} reads or writes it as one flat tile, not a window at a time"
    return "it is handed to something that reads it as one flat tile"


def _rows(s: Assign) -> int:
    t = s.target.type
    assert isinstance(t, TileType) and t.static_shape is not None
    return t.static_shape[0]


#: products of whole accumulators -> those that make them page by page
_BATCHED = {"tile.matmul": "tile.batch_matmul", "tile.matmul_acc": "tile.batch_matmul_acc"}


def _left(call: Call) -> Var | None:
    """The left operand of a product, fully valid, whose rows are those of all pages."""
    left, _ = factors(call)
    if not isinstance(left, Var) or not isinstance(left.type, TileType) or left.type.static_shape is None:
        return None
    return left if same_dims(left.type.valid, left.type.shape) else None


class _Rewrite:
    """Writes a function anew with the chains of `rows` as pages; `rows` are those of a page, by chain."""

    def __init__(self, function: Function, found: Chains, rows: dict[str, int]) -> None:
        self.source, self.found, self.rows = function, found, rows
        self.names = names_of(function)

    def function(self) -> Function:
        return replace(self.source, body=self.block(self.source.body))

    def page_rows(self, e: object) -> int | None:
        return self.rows.get(self.found.of(e.name)) if isinstance(e, Var) and in_acc(e) else None

    def paged(self, v: Var) -> Var:
        """A member of a chain with its type of pages; any other name as it is."""
        rows = self.page_rows(v)
        if rows is None:
            return v
        t = v.type
        assert isinstance(t, TileType) and t.static_shape is not None
        return Var(v.name, tile_type(dims(t.static_shape[0] // rows, rows, t.static_shape[1]), t.dtype, t.memory))

    def block(self, statements: Block) -> Block:
        return tuple(t for s in statements for t in self.statement(s))

    def statement(self, s: Stmt) -> list[Stmt]:
        match s:
            case For(body=body, carries=carries) | While(body=body, carries=carries):
                moved = tuple(Carry(self.paged(c.var), self.expr(c.init)) for c in carries)
                return [replace(s, body=self.block(body), carries=moved, results=tuple(map(self.paged, s.results)))]
            case If(then=then, orelse=orelse, results=results):
                arm = None if orelse is None else self.block(orelse)
                return [replace(s, then=self.block(then), orelse=arm, results=tuple(map(self.paged, results)))]
            case Scope(body=body):
                return [replace(s, body=self.block(body))]
            case Yield(values=values):
                return [replace(s, values=tuple(map(self.expr, values)))]
            case Assign(targets=(target,), value=Var() as source) if self.page_rows(target):
                return [replace(s, targets=(self.paged(target),), value=self.paged(source))]
            case Assign(value=Call() as call):
                return self.call(s, call)
            case Eval(value=Call(op="tile.store") as call) if self.page_rows(call.args[0]):
                before, source = self.flat(call.args[0], s)
                return [before, replace(s, value=replace(call, args=(source, *call.args[1:])))]
        return [s]

    def expr(self, e: Expr) -> Expr:
        return self.paged(e) if isinstance(e, Var) else e

    def call(self, s: Assign, call: Call) -> list[Stmt]:
        first = call.args[0] if call.args else None
        made = call.op == "tile.create" or call.op in _BATCHED
        rows = self.page_rows(s.target if made else first)
        if rows is None:
            return [s]
        match call.op:
            case "tile.matmul" | "tile.matmul_acc":
                return self.product(s, call, rows)
            case "tile.create":
                target = self.paged(s.target)
                return [replace(s, targets=(target,), value=replace(call, args=(MakeTuple(target.type.shape), *call.args[1:])))]  # type: ignore[union-attr]
            case "tile.slice":
                return self.window(s, call, rows)
            case "tile.assemble":
                return self.write_back(s, call, rows)
        assert isinstance(first, Var)
        if call.op == "tile.move":
            # the pages move, and are one flat tile where they arrive
            moved = self.value(s, self.names.derived(s.target.name, "pages"), replace(call, args=(self.paged(first), *call.args[1:])))
            whole = Call("tile.reshape", (moved.target, MakeTuple(s.target.type.shape)))  # type: ignore[union-attr]
            return [moved, replace(s, value=whole)]
        before, source = self.flat(first, s)
        return [before, replace(s, value=replace(call, args=(source, *call.args[1:])))]

    def product(self, s: Assign, call: Call, rows: int) -> list[Stmt]:
        """A product of the whole accumulator, page by page: rows of the left side go with the pages."""
        left = _left(call)
        assert left is not None and isinstance(left.type, TileType) and left.type.static_shape is not None
        high, wide = left.type.static_shape
        pages = Call("tile.reshape", (left, MakeTuple(dims(high // rows, rows, wide))))
        cut = self.value(s, self.names.derived(left.name, "pages"), pages)
        args = tuple(cut.target if a is left else self.expr(a) for a in call.args)
        return [cut, replace(s, targets=(self.paged(s.target),), value=replace(call, op=_BATCHED[call.op], args=args))]

    def value(self, s: Assign | Eval, name: str, call: Call) -> Assign:
        """`name = call` at the place of a statement."""
        return Assign((Var(name, infer_call(call)),), replace(call, loc=s.value.loc), s.loc)  # type: ignore[union-attr]

    def flat(self, e: Expr, s: Assign | Eval) -> tuple[Assign, Var]:
        """An accumulator of pages under its 2-D shape."""
        assert isinstance(e, Var) and isinstance(e.type, TileType)
        made = self.value(s, self.names.derived(e.name, "flat"), Call("tile.reshape", (self.paged(e), MakeTuple(e.type.shape))))
        return made, made.target

    def at(self, call: Call, rows: int) -> MakeTuple:
        """The position of a window among pages."""
        offsets = tuple_items(call.args[2])
        assert offsets is not None
        return MakeTuple((quotient(offsets[0], rows), index(0), offsets[1]))

    def window(self, s: Assign, call: Call, rows: int) -> list[Stmt]:
        t = s.target.type
        assert isinstance(t, TileType)
        one = MakeTuple((index(1), *t.shape))
        cut = self.value(
            s, self.names.derived(s.target.name, "page"), Call(call.op, (self.expr(call.args[0]), one, self.at(call, rows)), (), call.attrs)
        )
        return [cut, replace(s, value=Call("tile.reshape", (cut.target, MakeTuple(t.shape)), loc=call.loc))]

    def write_back(self, s: Assign, call: Call, rows: int) -> list[Stmt]:
        part = call.args[1]
        assert isinstance(part, Var) and isinstance(part.type, TileType)
        one = Call("tile.reshape", (part, MakeTuple((index(1), *part.type.shape))))
        page = self.value(s, self.names.derived(part.name, "page"), one)
        back = replace(call, args=(self.expr(call.args[0]), page.target, self.at(call, rows)))
        return [page, replace(s, targets=(self.paged(s.target),), value=back)]


def quotient(offset: Expr, rows: int) -> Expr:
    """The page that starts at a row; the quotient of the expression as it stands, since re-associated products may wrap."""
    value = const_int(offset)
    return index(value // rows) if value is not None else normalize(Binary("floordiv", offset, Const(rows)))
