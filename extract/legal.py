"""What the engine accepts, and what counts as a legal 2-D program.

Before anything is encoded, `refusals` finds what no rule can lower: tiles whose physical dims are not constant, and ops that take N-D
tiles and have no N-D form. After emission, `is_two_d` says whether a function needs no lowering at all.
"""

from __future__ import annotations

from egraph_rules.encode import is_store, is_value
from egraph_rules.row_windows import Obstacle
from pypto_ir.diagnostics import Diagnostic, Place, declare
from pypto_ir.expr import Expr, Item, MakeTuple, Var, const_int
from pypto_ir.ops.registry import dims_text, type_of
from pypto_ir.scale_boxes import is_blocked
from pypto_ir.stmt import (
    Assign,
    Call,
    Eval,
    Function,
    FunctionCall,
    Return,
    Stmt,
    Submit,
    definitions,
    tuple_items,
    uses,
    walk,
)  # fmt: skip
from pypto_ir.types import Memory, TensorType, TileType
from pypto_ir.verify.linearity import violations
from pypto_ir.verify.places import statement_text
from pypto_ir.verify.tiles2d import tile_ops_2d

declare(
    L001="a tile of rank above 2 has a physical dimension that is not constant",
    L002="an op takes a tile of rank above 2 and has no form for it",
    L111="a batched product adds to a tile that does not lie in L0C",
    L110="an accumulator is written through row windows that the cube unit cannot address",
)


def refusals(function: Function) -> list[Diagnostic]:
    """Why no rule can lower a function, one diagnostic for each statement that stands in the way."""
    found: list[Diagnostic] = []
    for s in walk(function.body):
        place = Place(function=function.name, statement=statement_text(s), loc=s.loc)
        dynamic = _dynamic_dim(s)
        if dynamic is not None:
            found.append(Diagnostic("L001", _dynamic_text(s, *dynamic), place))
        elif not is_value(s) and not is_store(s) and not _reads_a_cell(s):
            found.extend(_nd_operands(s, place))
        elif isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.batch_matmul_acc":
            found.extend(_outside_l0c(s.value, place))
    return found


def _reads_a_cell(s: Stmt) -> bool:
    """A read of one cell, which has a place in the collapse too."""
    return isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.read"


def _outside_l0c(call: Call, place: Place) -> list[Diagnostic]:
    """A product onto a tile of another memory: there is no way into L0C but the matrix unit."""
    t = type_of(call.args[0])
    if not isinstance(t, TileType) or t.memory in (None, Memory.ACC):
        return []
    name = getattr(call.args[0], "name", "a value")
    message = (
        f"{call.op} adds to {name}, which lies in {t.memory.value}: only the matrix unit writes Acc (L0C), and it adds to what lies there"
    )
    return [Diagnostic("L111", message, place, "begin the accumulator with tile.create in Acc, or with a product; at batch 1 too")]


def _dynamic_dim(s: Stmt) -> tuple[TileType, int] | None:
    operands = [e for e in getattr(getattr(s, "value", None), "args", ()) if isinstance(e, Var)]
    for var in (*definitions(s), *operands):
        t = var.type
        if isinstance(t, TileType) and t.rank > 2 and t.static_shape is None:
            return t, next(i for i, d in enumerate(t.shape) if const_int(d) is None)
    return None


def _dynamic_text(s: Stmt, t: TileType, axis: int) -> str:
    op = s.value.op if isinstance(s, Assign | Eval) and isinstance(s.value, Call) else type(s).__name__.lower()
    return (
        f"{op}: a tile {dims_text(t.shape)} has a dynamic (non-constant) dimension {axis} and cannot be flattened to 2D: tiles are "
        "buffers of fixed size on the chip, and a dynamic dim has no bound. Iterate over it with pl.range or pl.parallel so that "
        "each slice is static (with the run-time extent in valid_shape), or reshape the tensor to 2D before the in-core scope"
    )


def _nd_operands(s: Stmt, place: Place) -> list[Diagnostic]:
    """N-D tiles that a statement of the skeleton takes as they are."""
    match s:
        case Assign(value=Call(op=op, args=args)) | Eval(value=Call(op=op, args=args)):
            parts: list[Expr] = [p for a in args for p in (tuple_items(a) or (a,))]
            what = f"{op} is not supported on tiles of rank above 2"
        case Assign(value=(FunctionCall() | Submit()) as call) | Eval(value=(FunctionCall() | Submit()) as call):
            parts, what = list(call.args), f"a tile of rank above 2 cannot be passed to {call.function}"
        case Return(values=values):
            parts, what = list(values), "a tile of rank above 2 cannot be returned: it has no 2-D type of the same signature"
        case Assign(value=(Item() | MakeTuple()) as value):
            parts, what = [value, *getattr(value, "items", ())], "a tile of rank above 2 cannot be an element of a tuple"
        case _:
            return []
    return [
        Diagnostic("L002", f"{what}; found {dims_text(t.shape)}", place, "reshape the tile to rank 2 first")
        for t in map(type_of, parts)
        if isinstance(t, TileType) and t.rank > 2
    ]


def window_diagnostics(function: Function, obstacles: list[Obstacle]) -> list[Diagnostic]:
    """Accumulators that are written through windows which the cube unit cannot address, with what keeps them from being pages."""
    return [
        Diagnostic(
            "L110",
            f"the row windows of the accumulator {o.chain} have no address in L0C, and cannot stand side by side: {o.reason}",
            Place(function=function.name, statement=statement_text(o.s), loc=o.s.loc),
            "write every part through row windows of one height that divides the rows and is a multiple of 16, at aligned offsets "
            "(acc[..] = pl.matmul_acc(acc[..], lhs, rhs, init_cond=..)), and store the result after the reduction; or keep a window "
            "at most 16 columns wide",
        )
        for o in obstacles
    ]


def is_two_d(function: Function) -> bool:
    """True where a function is legal as it stands: it passes TileOps2D, no value has rank above 2, every store into a tensor of rank
    above 2 names its box unless it stores scales, and no tile is read after it was overwritten in place."""
    if is_nd(function) or tile_ops_2d(function):
        return False
    for s in walk(function.body):
        if is_store(s) and isinstance(s, Assign | Eval) and isinstance(s.value, Call):
            target = type_of(s.value.args[2])
            if isinstance(target, TensorType) and target.rank > 2 and len(s.value.args) < 4 and not is_blocked(target):
                return False
    return not violations(function)


def is_nd(function: Function) -> bool:
    """True where a function defines or reads a value of rank above 2."""
    return any(_wide(s) is not None for s in walk(function.body))


def nd_values(function: Function) -> list[Diagnostic]:
    """Every value of rank above 2 that a function defines or reads, one diagnostic for each statement."""
    found = []
    for s in walk(function.body):
        wide = _wide(s)
        if wide is not None:
            place = Place(function=function.name, statement=statement_text(s), loc=s.loc)
            found.append(Diagnostic("L002", f"{wide.name} still has rank {wide.type.rank}", place))  # type: ignore[union-attr]
    return found


def _wide(s: Stmt) -> Var | None:
    """The first tile of rank above 2 that a statement defines or reads itself."""
    for v in (*definitions(s), *uses(s)):
        if isinstance(v.type, TileType) and v.type.rank > 2:
            return v
    return None
