"""What a run of the pass knows while it walks a function: names, what stands for every value by now, and what it has to say.

`State.let` deduces the type of a call and writes it under a name: `let("lhs_slice_0", Call("tile.slice", ..))` for a page, or
`own(s, call)` for the value that the author named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from egraph_rules.buffers import Buffers
from extract.target import Target
from pypto_ir.diagnostics import Diagnostic, Diagnostics, Place, Severity, declare
from pypto_ir.expr import Expr, MakeTuple, Var, substitute
from pypto_ir.linear import all_provably_equal
from pypto_ir.names import Names
from pypto_ir.ops.registry import OpError, type_of
from pypto_ir.ops.rules import infer_call, stamp
from pypto_ir.rebuilding import Rebuilder, same
from pypto_ir.stmt import Assign, Block, Call, Eval, Function, Keywords, Stmt, Value
from pypto_ir.types import Memory, TileType, Type, same_dims, with_valid
from pypto_ir.verify.places import statement_text

if TYPE_CHECKING:
    from extract.upstream.packing import Packing

declare(
    L411="upstream: the 2-D form of an op is refused by the op's own type rule",
    W401="upstream's program would be wrong here, or upstream would fail; a right program is given instead",
    W402="upstream's program is not accepted by the passes or the machine after it, and is given as it is",
)


class Stop(Exception):
    """A statement that has no lowering: `code`, what was found, what to do instead."""

    def __init__(self, code: str, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.help = code, message, help


class _Substitution(Rebuilder):
    """Variables replaced by what stands for them."""

    def __init__(self, env: Mapping[str, Expr]) -> None:
        self.env = env

    def expr(self, e: Expr) -> Expr:
        return substitute(e, self.env)


@dataclass(slots=True)
class State:
    """`env` maps an author's name to what stands for it where that is not the author's variable; `columns` are values whose pages lie
    side by side, [K, batch * N], `packed` the accumulators that are packed by columns; `pages` are page loads written ahead of their
    use."""

    function: Function
    target: Target
    buffers: Buffers
    names: Names
    packed: dict[str, Packing] = field(default_factory=dict)
    env: dict[str, Expr] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    pages: dict[tuple[str, int], Var] = field(default_factory=dict)
    out: list[Stmt] = field(default_factory=list)
    bag: Diagnostics = field(default_factory=Diagnostics)
    faults: list[Diagnostic] = field(default_factory=list)
    comment: str | None = None

    # diagnostics

    def place(self, s: Stmt) -> Place:
        return Place(function=self.function.name, statement=statement_text(s), loc=s.loc)

    def fault(self, s: Stmt, message: str, code: str = "W401") -> None:
        """Say how upstream's program differs, or why it is not accepted."""
        self.faults.append(Diagnostic(code, message, self.place(s), severity=Severity.WARNING))

    # operands

    def expr(self, e: Expr) -> Expr:
        """`e` with what stands for its variables; the same object where nothing changed."""
        return _Substitution(self.env).expr(e) if self.env else e

    def value(self, value: Value) -> Value:
        """An assigned value with its operands replaced; the same object where nothing changed."""
        return _Substitution(self.env).value(value) if self.env else value

    def exprs(self, items: tuple[Expr, ...]) -> tuple[Expr, ...]:
        new = tuple(map(self.expr, items))
        return items if same(new, items) else new

    def keywords(self, items: Keywords) -> Keywords:
        return _Substitution(self.env).keywords(items)

    # statements

    def put(self, s: Stmt) -> None:
        """Write a statement; the first one that stands for an author's statement takes its comment."""
        if self.comment is not None and s.comment is None:
            s = replace(s, comment=self.comment)
        self.comment = None
        self.out.append(s)

    def let(self, name: str, call: Call, s: Assign | Eval, t: Type | None = None) -> Var:
        """`name = call`, with the position of `s`; `name` gets a number where it is taken."""
        var = Var(self.names.free(name), t or deduced(call))
        self.put(Assign((var,), call, s.loc))
        return var

    def own(self, s: Assign, call: Call, t: Type | None = None) -> Var:
        """The author's name for `call`, its type deduced or given; the memory space and MemRef that were stated stay."""
        var = Var(s.target.name, carried(t or deduced(call), s.target.type))
        self.env[s.target.name] = var
        self.put(replace(s, targets=(var,), value=call, comment=self.comment))
        return var

    def stands_for(self, s: Assign, e: Expr) -> None:
        """`e` stands for the value that the author named."""
        self.env[s.target.name] = e

    def inside(self) -> list[Stmt]:
        """Begin a block; the statements written so far."""
        saved, self.out = self.out, []
        return saved

    def outside(self, saved: list[Stmt]) -> Block:
        """End a block that `inside` began: its statements."""
        block, self.out = tuple(self.out), saved
        return block


def deduced(call: Call) -> Type:
    """The type of a call. Raises `Stop` where its type rule refuses it."""
    try:
        return infer_call(call)
    except OpError as error:
        raise Stop("L411", f"as 2-D tiles: {error.message}", error.help) from error


def carried(t: Type, stated: Type) -> Type:
    """`t` with the memory space (where it has none) and the MemRef that the author stated for the value."""
    if not isinstance(t, TileType) or not isinstance(stated, TileType):
        return t
    t = stamp(t, stated.memory)
    return t if stated.memref is None else replace(t, memref=stated.memref)


def handed(var: Var, value: Expr, wanted: Type) -> Var:
    """A carried name or result of control flow: the type of what it is handed, and the valid region that `wanted` states. An accumulator
    that is stated to be fully valid is as valid as what is handed: a batched product does not say more."""
    t = type_of(value)
    if not isinstance(t, TileType) or not isinstance(wanted, TileType):
        return var
    said = t.memory is not Memory.ACC or not same_dims(wanted.valid, wanted.shape)
    if said and t.rank == wanted.rank and not all_provably_equal(t.valid, wanted.valid):
        t = with_valid(t, wanted.valid)
    return var if t == var.type else Var(var.name, t)


def tuple_of(*values: Expr) -> MakeTuple:
    return MakeTuple(values)
