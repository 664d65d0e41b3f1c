"""Accumulators with windows of rows written as pages of a batch; a page is as high as a window, or the next multiple of 16.

    acc = create [64, 32]                          acc = create [8, 16, 32]
    w = slice(acc, [8, 32], [t0, 0])               w = reshape(slice(acc, [1, 16, 32], [t0 // 8, 0, 0]), [16, 32])
    x = load(a, [k, 0], [8, 16])                   x_tall = load(a, [k, 0], [16, 16], valid [8, 16])
    m = matmul_acc(w, x, y)                        m = matmul_acc(w, x_tall, y)
    acc1 = assemble(acc, m, [t0, 0])               acc1 = assemble(acc, reshape(m, [1, 16, 32]), [t0 // 8, 0, 0])
    store(acc1, [r, c], out)                       store(slice(page 0 of acc1, [8, 32], [0, 0]), [r, c], out); .. [r + 8, c], ..

A product of 8 rows writes its columns of blocks 16 rows apart and leaves the rest of them undefined: that is where nobody's rows are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from egraph_rules.chain_rebuilding import ChainRebuilder
from egraph_rules.chains import Chains, in_acc
from egraph_rules.page_parts import factors, plus
from pypto_ir.expr import Binary, Const, Expr, MakeTuple, Var, const_int, index
from pypto_ir.linear import normalize
from pypto_ir.stmt import Assign, Call, Eval, Function, Stmt, definitions, tuple_items
from pypto_ir.types import TileType, dims, same_dims, tile_type

#: products of whole accumulators -> those that make them page by page
BATCHED = {"tile.matmul": "tile.batch_matmul", "tile.matmul_acc": "tile.batch_matmul_acc"}


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages of `rows` rows that lie `pitch` rows high."""

    rows: int
    pitch: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is written as pages: `pages` by chain; windows that are written at another height by their own chain; and the left factors of
    their products."""

    pages: dict[str, Pages]
    tall: dict[str, Pages]
    lefts: frozenset[str]

    def joined(self, other: Plan) -> Plan:
        return Plan({**self.pages, **other.pages}, {**self.tall, **other.tall}, self.lefts | other.lefts)


def as_pages(function: Function, found: Chains, plan: Plan) -> Function:
    """The function with the chains of a plan as pages."""
    return _Paged(function, found, plan).built()


def left_factor(call: Call) -> Var | None:
    """The left operand of a product, fully valid, whose rows are those of all pages."""
    left, _ = factors(call)
    if not isinstance(left, Var) or not isinstance(left.type, TileType) or left.type.static_shape is None:
        return None
    return left if same_dims(left.type.valid, left.type.shape) else None


class _Paged(ChainRebuilder):
    def __init__(self, function: Function, found: Chains, plan: Plan) -> None:
        super().__init__(function)
        self.found, self.plan = found, plan
        #: left factors at the height of the pages they are for
        self.raised: dict[str, Var] = {}

    def pages(self, e: object) -> Pages | None:
        """The pages of a member of a chain."""
        return self.plan.pages.get(self.found.of(e.name)) if isinstance(e, Var) and in_acc(e) else None

    def tall(self, e: object) -> Pages | None:
        """The pages that a window is written to at another height than its own."""
        return self.plan.tall.get(self.found.of(e.name)) if isinstance(e, Var) and in_acc(e) else None

    def become(self, v: Var) -> tuple[Var, ...] | None:
        pages, high = self.pages(v), self.tall(v)
        t = v.type
        if pages is None and high is None:
            return None
        assert isinstance(t, TileType) and t.static_shape is not None
        rows, columns = t.static_shape
        shape = dims(rows // pages.rows, pages.pitch, columns) if pages is not None else dims(high.pitch, columns)  # type: ignore[union-attr]
        return (Var(v.name, tile_type(shape, t.dtype, t.memory)),)

    def at_pages(self, v: Var) -> Var:
        """A member or a high window as it is by now."""
        (made,) = self.tiles.get(v.name) or self.define(v)
        return made

    def call(self, s: Assign | Eval, call: Call) -> list[Stmt]:
        first = call.args[0] if call.args else None
        made = call.op == "tile.create" or call.op in BATCHED
        pages = self.pages(definitions(s)[0] if made else first)
        if isinstance(s, Assign):
            if s.target.name in self.plan.lefts:
                return [s, self.raise_left(s, call)]
            if pages is None and self.tall(s.target) and call.op == "tile.matmul_acc":
                return [self.raised_product(s, call)]
        if pages is None:
            return self.low(s, call)
        if not isinstance(s, Assign) or call.op == "tile.store":
            return self.stored(s, call, pages)
        match call.op:
            case "tile.matmul" | "tile.matmul_acc":
                return self.product(s, call, pages)
            case "tile.create":
                target = self.at_pages(s.target)
                return [replace(s, targets=(target,), value=replace(call, args=(MakeTuple(target.type.shape), *call.args[1:])))]  # type: ignore[union-attr]
            case "tile.slice":
                return self.window(s, call, pages)
            case "tile.assemble":
                return self.write_back(s, call, pages)
        assert call.op == "tile.move" and isinstance(first, Var)
        # the pages move, and are one flat tile where they arrive
        moved = self.value_at(s, self.names.derived(s.target.name, "pages"), replace(call, args=(self.at_pages(first), *call.args[1:])))
        whole = Call("tile.reshape", (moved.target, MakeTuple(s.target.type.shape)))  # type: ignore[union-attr]
        return [moved, replace(s, value=whole)]

    # windows

    def place(self, call: Call, pages: Pages) -> MakeTuple:
        """The position of a window among pages."""
        offsets = tuple_items(call.args[2])
        assert offsets is not None
        return MakeTuple((quotient(offsets[0], pages.rows), index(0), offsets[1]))

    def window(self, s: Assign, call: Call, pages: Pages) -> list[Stmt]:
        t = s.target.type
        assert isinstance(t, TileType)
        page = (index(pages.pitch), t.shape[1])
        base = Call(call.op, (*self.read(call.args[0]), MakeTuple((index(1), *page)), self.place(call, pages)), (), call.attrs)
        cut = self.value_at(s, self.names.derived(s.target.name, "page"), base)
        seen = Call("tile.reshape", (cut.target, MakeTuple(page)), loc=call.loc)
        if pages.pitch == pages.rows:
            return [cut, replace(s, value=seen)]
        if self.tall(s.target):
            return [cut, replace(s, targets=self.define(s.target), value=seen)]
        high = self.value_at(s, self.names.derived(s.target.name, "high"), seen)
        return [cut, high, replace(s, value=_rows_of(high.target, pages))]

    def write_back(self, s: Assign, call: Call, pages: Pages) -> list[Stmt]:
        (part,) = self.read(call.args[1])
        assert isinstance(part, Var) and isinstance(part.type, TileType)
        one = Call("tile.reshape", (part, MakeTuple((index(1), *part.type.shape))))
        page = self.value_at(s, self.names.derived(part.name, "page"), one)
        back = replace(call, args=(*self.read(call.args[0]), page.target, self.place(call, pages)))
        return [page, replace(s, targets=self.define(s.target), value=back)]

    # products

    def product(self, s: Assign, call: Call, pages: Pages) -> list[Stmt]:
        """A product of the whole accumulator, page by page: rows of the left side go with the pages."""
        left = left_factor(call)
        assert left is not None and isinstance(left.type, TileType) and left.type.static_shape is not None
        high, wide = left.type.static_shape
        shape = dims(high // pages.rows, pages.rows, wide)
        cut = self.value_at(s, self.names.derived(left.name, "pages"), Call("tile.reshape", (left, MakeTuple(shape))))
        args = tuple(t for a in call.args for t in ((cut.target,) if a is left else self.read(a)))
        return [cut, replace(s, targets=self.define(s.target), value=replace(call, op=BATCHED[call.op], args=args))]

    def raised_product(self, s: Assign, call: Call) -> Stmt:
        """A product onto a window at the height of its page, whose last rows no factor has."""
        window, left, *rest = call.args
        assert isinstance(left, Var)
        return replace(s, targets=self.define(s.target), value=replace(call, args=(*self.read(window), self.raised[left.name], *rest)))

    def raise_left(self, s: Assign, call: Call) -> Assign:
        """A left factor again, with more rows than are valid."""
        t = s.target.type
        assert isinstance(t, TileType)
        if call.op == "tile.move":
            source = call.args[0]
            assert isinstance(source, Var)
            again = replace(call, args=(self.raised[source.name], *call.args[1:]))
        else:
            tensor, offsets, shape, valid = call.args
            rows, columns = tuple_items(shape) or ()
            pitch = index(-(-(const_int(rows) or 0) // 16) * 16)
            again = replace(call, args=(tensor, offsets, MakeTuple((pitch, columns)), valid))
        made = self.value_at(s, self.names.derived(s.target.name, "high"), again)
        self.raised[s.target.name] = made.target
        return made

    # reads

    def low(self, s: Assign | Eval, call: Call) -> list[Stmt]:
        """An op beside the chains: what it reads of high windows are the rows that they have."""
        before: list[Stmt] = []
        args: list[Expr] = []
        for e in call.args:
            pages = self.tall(e)
            if pages is not None and isinstance(e, Var):
                low = self.value_at(s, self.names.derived(e.name, "low"), _rows_of(self.at_pages(e), pages))
                before.append(low)
                e = low.target
            args.append(e)
        return [*before, replace(s, value=replace(call, args=tuple(args)))] if before else [s]

    def stored(self, s: Assign | Eval, call: Call, pages: Pages) -> list[Stmt]:
        """The store of a whole accumulator: as one tile, or of every page the rows that it has."""
        source, at, target = call.args
        assert isinstance(source, Var) and isinstance(source.type, TileType) and source.type.static_shape is not None
        whole = self.at_pages(source)
        if pages.pitch == pages.rows:
            flat = self.value_at(s, self.names.derived(source.name, "flat"), Call("tile.reshape", (whole, MakeTuple(source.type.shape))))
            return [flat, replace(s, value=replace(call, args=(flat.target, at, target)))]
        *outer, row, column = tuple_items(at) or ()
        result: list[Stmt] = []
        rows, columns = source.type.static_shape
        for start in range(0, rows, pages.rows):
            box = MakeTuple(dims(1, pages.pitch, columns)), MakeTuple(dims(start // pages.rows, 0, 0))
            page = self.value_at(s, self.names.derived(source.name, "page"), Call("tile.slice", (whole, *box)))
            high = Call("tile.reshape", (page.target, MakeTuple(dims(pages.pitch, columns))))
            seen = self.value_at(s, self.names.derived(source.name, "high"), high)
            low = self.value_at(s, self.names.derived(source.name, "low"), _rows_of(seen.target, pages))
            place = MakeTuple((*outer, plus(row, start), column))
            one = replace(s, value=replace(call, args=(low.target, place, target)))
            if isinstance(one, Assign) and start + pages.rows < rows:
                target = Var(self.names.derived(one.target.name, "page"), one.target.type)
                one = replace(one, targets=(target,), comment=None)
            result += [page, seen, low, one]
        return result


def _rows_of(high: Var, pages: Pages) -> Call:
    """The rows of a page that somebody has."""
    assert isinstance(high.type, TileType)
    return Call("tile.slice", (high, MakeTuple((index(pages.rows), high.type.shape[1])), MakeTuple(dims(0, 0))))


def quotient(offset: Expr, rows: int) -> Expr:
    """The page that starts at a row; the quotient of the expression as it stands, since re-associated products may wrap."""
    value = const_int(offset)
    return index(value // rows) if value is not None else normalize(Binary("floordiv", offset, Const(rows)))
