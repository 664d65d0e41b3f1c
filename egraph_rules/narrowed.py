"""Accumulators whose products fill a part of their rows only.

    acc0 = create [64, 256]                        s = create [64, 256], compact
                                                   acc0 = set_validshape(s, v, 256)
    for k carry acc = acc0:                        for k carry acc = acc0:
        m = matmul_acc(acc, x, y)                      m = matmul_acc(acc, x, y)
        yield m                                        yield m
    store(m, [0, 0], out)                          store(m, [0, 0], out)

accumulator.narrowed: where x is valid in v rows of 64, the columns of blocks that the product writes lie v rows apart, rounded up to 16.
Who takes the accumulator for 64 rows reads every column of blocks but the first at another place (`spec/flatten.md` 11). The two columns
above compute the same where every product of the accumulator has v rows, it begins as a create, and v is known before its first use:
rows from v on are never defined then, and nobody may miss them. A product of 64 rows before the others would define them; a v that is
another one in every trip has no name where the accumulator begins (one that is the same in all of them is computed in front of the loop:
`invariants`). Products onto such accumulators are written a column of blocks at a time
(`column_blocks`), which has no pitch; where they cannot be, V304 says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from egraph_rules.chains import Chains, chains, in_acc
from egraph_rules.column_blocks import by_column_blocks, unblocked
from egraph_rules.invariants import hoisted
from pypto_ir.diagnostics import Severity
from pypto_ir.expr import Expr, MakeTuple, Var, const_int, index, variables
from pypto_ir.linear import provably_equal
from pypto_ir.names import names_of
from pypto_ir.ops.matmul import acc_tile, factors
from pypto_ir.ops.registry import OpError, find_op, type_of
from pypto_ir.ops.rules import infer_call
from pypto_ir.rebuilding import Rebuilder, changed, same
from pypto_ir.stmt import Assign, Block, Call, Eval, For, Function, Return, Stmt, Value, While, Yield, definitions, tuple_items, uses, walk
from pypto_ir.types import Dims, TileType, Type, same_dims
from pypto_ir.verify import accumulators
from pypto_ir.verify.acc_places import BLOCK, whole_blocks


class Declined(Exception):
    """An accumulator that cannot be narrowed; the text says why."""


def narrow_accumulators(function: Function) -> Function:
    """The function with every accumulator of partly valid products declared by their rows; the same object where there is none."""
    narrow = {p.target.name: p for p in _products(function) if p.narrow and _wide(p.target)}
    found = chains(function) if narrow else Chains()
    for chain in dict.fromkeys(map(found.of, narrow)):
        extents = {v.name for name, p in narrow.items() if found.of(name) == chain for e in (p.rows, p.columns) for v in variables(e)}
        early = hoisted(function, extents)
        for text in (function,) if early is function else (function, early):
            try:
                function = _Narrowing(text, found, chain).function(text)
                break
            except (Declined, OpError):
                continue
        else:
            function = _by_blocks(function, [p for name, p in narrow.items() if found.of(name) == chain])
    return function


def _by_blocks(function: Function, products: list[_Product]) -> Function:
    """The function with narrow products of one accumulator written a column of blocks at a time, where all of them can be: a window from
    column 72 on has no block of its own, and is told of as the author wrote it."""
    if any(unblocked(p.call, 0, const_int(p.columns)) for p in products):
        return function
    blocks = by_column_blocks(function, {p.target.name for p in products})
    made = _names(blocks) - _names(function)
    wrong = (d.place.statement for d in accumulators(blocks) if d.severity is Severity.ERROR)
    return function if any(s is not None and s.partition(" = ")[0] in made for s in wrong) else blocks


def _names(function: Function) -> set[str]:
    return {v.name for s in walk(function.body) for v in definitions(s)}


def partly_written(function: Function) -> frozenset[str]:
    """The accumulators of batches that some product fills in rows of another pitch than that of their pages."""
    narrow = [p.target.name for p in _products(function) if p.narrow]
    if not narrow:
        return frozenset()
    found = chains(function)
    for s in walk(function.body):
        # a window is written where its parent lies
        if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op in ("tile.slice", "tile.reshape") and in_acc(s.target):
            found.join(s.target.name, s.value.args[0].name)  # type: ignore[union-attr]
    groups = {found.of(name) for name in narrow}
    return frozenset(v.name for s in walk(function.body) for v in definitions(s) if in_acc(v) and found.of(v.name) in groups)


def same_pitch(t: TileType, rows: Expr) -> bool:
    """True where the first `rows` of an accumulator lie at the pitch of all its rows."""
    number, extent = const_int(rows), const_int(t.shape[-2])
    if provably_equal(rows, t.shape[-2]):
        return True
    if extent is None:
        return False
    return extent <= BLOCK if number is None else whole_blocks(number) == whole_blocks(extent)


@dataclass(frozen=True, slots=True)
class _Product:
    """A product `call` into `target` of the valid `rows` of its left and `columns` of its right factor."""

    target: Var
    call: Call
    rows: Expr
    columns: Expr

    @property
    def narrow(self) -> bool:
        assert isinstance(self.target.type, TileType)
        return not same_pitch(self.target.type, self.rows)


def _products(function: Function) -> Iterator[_Product]:
    for s in walk(function.body):
        if isinstance(s, Assign) and isinstance(s.value, Call) and in_acc(s.targets[0]):
            positions = _multiplies(s.value)
            if positions is not None:
                left, right = (type_of(s.value.args[i]) for i in positions)
                assert isinstance(left, TileType) and isinstance(right, TileType)
                yield _Product(s.target, s.value, left.valid[-2], right.valid[-1])


def _multiplies(call: Call) -> tuple[int, int] | None:
    """Where a product has its factors; None for other ops."""
    op = find_op(call.op)
    return factors(op) if op is not None else None


def _wide(v: Var) -> bool:
    """A 2-D tile of several columns of blocks: a single one lies the same at any pitch."""
    shape = v.type.static_shape if isinstance(v.type, TileType) else None
    return shape is not None and len(shape) == 2 and shape[1] > BLOCK


class _Narrowing(Rebuilder):
    """Writes a function with one chain narrowed. `types` are those of what changes beside it, `waiting` the creates that are not written
    yet, `visible` the names that a statement may use."""

    def __init__(self, source: Function, found: Chains, chain: str) -> None:
        self.found, self.chain = found, chain
        self.types: dict[str, TileType] = {}
        self.waiting: dict[str, Assign] = {}
        products = [p for p in _products(source) if self.member(p.target)]
        first = products[0]
        assert isinstance(first.target.type, TileType)
        if not all(provably_equal(p.rows, first.rows) for p in products):
            raise Declined("its products have different rows")
        all_columns = all(provably_equal(p.columns, first.columns) for p in products)
        self.rows, self.columns = first.rows, first.columns if all_columns else first.target.type.shape[1]
        self.narrow = acc_tile(first.target.type.shape, first.target.type.dtype, (self.rows, self.columns))
        params = [p.var for p in source.params]
        if any(map(self.member, params)):
            raise Declined("it comes from outside")
        self.names = names_of(source)
        self.visible = {v.name for v in params} | {v.name for t in params for e in getattr(t.type, "shape", ()) for v in variables(e)}

    def member(self, v: Var) -> bool:
        return in_acc(v) and self.found.of(v.name) == self.chain

    # types

    def var(self, v: Var) -> Var:
        t = self.narrow if self.member(v) else self.types.get(v.name, v.type)
        return v if t == v.type else Var(v.name, t)

    def retyped(self, v: Var, t: Type) -> Var:
        """A name with the type that is deduced for it now."""
        if self.member(v):
            if t != self.narrow:
                raise Declined(f"{v.name} would be of another type than the rest")
        elif t != v.type:
            if not isinstance(t, TileType):
                raise Declined(f"{v.name} would be of another type")
            self.types[v.name] = t
        return self.var(v)

    # statements

    def block(self, block: Block) -> Block:
        result: list[Stmt] = []
        before = set(self.visible)
        for s in block:
            if isinstance(s, Assign) and isinstance(s.value, Call) and self.member(s.targets[0]) and s.value.op == "tile.create":
                self.waiting[s.target.name] = s
                continue
            if self.waiting:
                result += self.begun(s)
            result.append(self.statement(s))
            self.visible.update(v.name for v in definitions(s))
        self.visible = before
        return tuple(result)

    def begun(self, s: Stmt) -> Iterator[Stmt]:
        """The creates that a statement is the first to use, narrowed."""
        used = {v.name for t in walk((s,)) for v in uses(t)}
        for name in [n for n in self.waiting if n in used]:
            yield from self.created(self.waiting.pop(name))

    def created(self, s: Assign) -> Iterator[Stmt]:
        late = [v.name for e in (self.rows, self.columns) for v in variables(e) if v.name not in self.visible]
        if late:
            raise Declined(f"{late[0]} is computed after its first use")
        call, t = s.value, s.target.type
        assert isinstance(call, Call) and isinstance(t, TileType)
        if t.memref is not None or not same_dims(t.valid, t.shape):
            raise Declined(f"{s.target.name} is given in part, or at a place of its own")
        whole = replace(call, kwargs=(*call.kwargs, ("compact", True)))
        storage = Var(self.names.derived(s.target.name, "storage"), infer_call(whole))
        cut = Call("tile.set_validshape", (storage, self.rows, self.columns), loc=call.loc)
        if infer_call(cut) != self.narrow:
            raise Declined(f"{s.target.name} is of another type than the rest")
        yield replace(s, targets=(storage,), value=whole)
        yield replace(s, targets=(self.var(s.target),), value=cut, comment=None)

    def statement(self, s: Stmt) -> Stmt:
        match s:
            case For() | While():
                self.visible.update(v.name for v in definitions(s) if v not in s.results)
                self.handed_on(tuple(c.init for c in s.carries))
            case Yield(values=values):
                self.handed_on(values)
            case Assign(targets=(target,), value=Call() as call):
                return self.call(s, target, call)
            case Assign(targets=(target,), value=Var() as source):
                return changed(s, targets=(self.retyped(target, self.var(source).type),), value=self.var(source))
            case Eval(value=Call(op="tile.store") as call):
                return changed(s, value=self.store(call))
            case Assign() | Eval() | Return():
                if any(self.member(v) or v.name in self.types for v in uses(s)):
                    raise Declined("it is handed to something that takes it as it was")
        return super().statement(s)

    def handed_on(self, values: tuple[Expr, ...]) -> None:
        """Refuse values beside the chain that change their type: the names under which they are handed on would change too."""
        for e in values:
            if isinstance(e, Var) and e.name in self.types:
                raise Declined(f"{e.name} is handed on")

    def call(self, s: Assign, target: Var, call: Call) -> Stmt:
        new = self.value(call)
        assert isinstance(new, Call)
        if self.member(target) and not _multiplies(call):
            raise Declined(f"{target.name} is made by {call.op}")
        if call.op == "tile.slice" and self.member(call.args[0]):  # type: ignore[arg-type]
            raise Declined("windows of it are cut")
        if call.op == "tile.store":
            return changed(s, value=self.store(call))
        if new is call and not self.member(target):
            return super().statement(s)
        return changed(s, targets=(self.retyped(target, infer_call(new)),), value=new)

    def store(self, call: Call) -> Value:
        """A store of what is valid: its box shrinks with the tile."""
        new = self.value(call)
        source = new.args[0] if isinstance(new, Call) else None
        if not isinstance(new, Call) or not isinstance(source, Var) or same(source, call.args[0]) or len(new.args) < 4:
            return new
        box = tuple_items(new.args[3])
        assert isinstance(source.type, TileType)
        if box is None or not all(const_int(d) == 1 for d in box[:-2]):
            raise Declined("its store has a box that its rows do not fill evenly")
        return replace(new, args=(*new.args[:3], MakeTuple((*box[:-2], *_extents(source.type)))))


def _extents(t: TileType) -> Dims:
    return tuple(index(n) if (n := const_int(e)) is not None else e for e in t.valid)
