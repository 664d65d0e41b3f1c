"""Ops drawn from the registry by trait and operand role: elementwise, row-wise, page-wise, regions, spaces.

Operand 0 is a visible tile. Every further operand is made to fit its role: data of the same shape, `[.., 1]`
row scalars, `[1, N]` column vectors, fresh scratch, constants of the tile's dtype.
"""

from __future__ import annotations

from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, Var, index
from pypto_ir.ops.registry import Kwarg, OpDef, Role, ShapeRule, Trait, all_ops
from pypto_ir.types import same_dims
from tests.generators import memory
from tests.generators.builder import FLOATS, INTS, Builder, Shape, ints, shape_of, tile

_MX_AND_CUBE = ("matmul", "gemv")


def _by_trait(*traits: Trait) -> tuple[OpDef, ...]:
    return tuple(
        op for op in all_ops()
        if op.trait in traits and op.meaning is not None and op.name.startswith("tile.")
        and not any(word in op.name for word in _MX_AND_CUBE)
    )  # fmt: skip


_WITH = (Role.ROW_SCALAR, Role.COL_VECTOR)
POINTWISE = tuple(op for op in _by_trait(Trait.POINTWISE) if all(o.role not in _WITH for o in op.operands))
EXPANDING = tuple(op for op in _by_trait(Trait.POINTWISE) if any(o.role in _WITH for o in op.operands))
ROW_WISE = _by_trait(Trait.ROW_WISE)
COLUMN_REDUCING = tuple(op for op in _by_trait(Trait.PAGE_WISE) if op.shape is ShapeRule.COL_REDUCE)
PADDING = tuple(op for op in all_ops() if op.name in ("tile.fillpad", "tile.fillpad_inplace"))


def data(b: Builder, floats: bool = False) -> Var:
    """A tile to work on: a visible one, or a new load."""
    known = b.tiles(lambda t: t.dtype in (FLOATS if floats else (*FLOATS, *INTS)))
    if known and not b.chance(15):
        return b.recent(known)
    return memory.load(b, dtype=b.choose(FLOATS) if floats else None)


def alike(b: Builder, var: Var, dtype: DType | None = None) -> Var:
    """A tile of the same shape, and mostly of the same valid region."""
    t, wanted = tile(var), dtype or tile(var).dtype
    known = b.tiles(lambda o: o.dtype is wanted and same_dims(o.shape, t.shape) and same_dims(o.valid, t.valid))
    if known and not b.chance(25):
        return b.recent(known)
    shape = shape_of(var)
    if b.chance(12):
        narrow = b.choose((shape[1:], tuple(1 if i < len(shape) - 1 else n for i, n in enumerate(shape))))
        shape = narrow or shape
    if b.chance(15) and len(shape) > 1:
        made = b.call("tile.full", [shape, _number(wanted, 2)], "f", dtype=wanted.value)
        if made is not None:
            return made
    return memory.load(b, shape, wanted, full=ints(t.valid) == shape)


def scratch(b: Builder, var: Var) -> Var | None:
    """A tile whose content does not matter."""
    made = b.call("tile.create", [shape_of(var)], "tmp", dtype=tile(var).dtype.value, target_memory="Vec")
    if made is not None:
        b.hide(made)
    return made


def apply(b: Builder, op: OpDef) -> Var | None:
    """A call of an op of the registry on fitting operands, or None where none was found."""
    if op.name in ("tile.sel", "tile.sels"):
        return _select(b, op)
    first = data(b)
    args: list[Expr] = []
    for i, operand in enumerate(op.operands):
        if operand.optional and not b.chance(50):
            break
        made = first if i == 0 else _operand(b, op, i, first)
        if made is None:
            return None
        args.append(made)
    result = b.call(op.name, args, **_kwargs(b, op, first))
    if result is not None and op.writes:
        overwritten(b, first)
    return result


def overwritten(b: Builder, var: Var) -> None:
    """Mostly do not read the old value of what was overwritten."""
    if not b.chance(20):
        b.hide(var)


def _operand(b: Builder, op: OpDef, i: int, first: Var) -> Expr | None:
    match op.operands[i].role:
        case Role.DATA if op.trait is Trait.POINTWISE or op.trait is Trait.ROW_WISE:
            return alike(b, first)
        case Role.ROW_SCALAR:
            return _row_scalar(b, first)
        case Role.COL_VECTOR:
            shape = shape_of(first)
            return _shaped(b, (*(1 for _ in shape[:-1]), shape[-1]), first)
        case Role.SCRATCH:
            return scratch(b, first)
        case Role.SCALAR:
            return b.constant(tile(first).dtype)
    return None


def _row_scalar(b: Builder, first: Var) -> Var:
    shape = shape_of(first)
    if b.chance(50):
        op = b.choose([o for o in ROW_WISE if o.shape is ShapeRule.ROW_REDUCE and "arg" not in o.name])
        tmp = scratch(b, first)
        made = b.call(op.name, [first, tmp]) if tmp is not None else None
        if made is not None:
            return made
    return _shaped(b, (*shape[:-1], 1), first)


def _shaped(b: Builder, shape: Shape, first: Var) -> Var:
    dtype = tile(first).dtype
    known = b.tiles(lambda t: t.dtype is dtype and ints(t.shape) == shape)
    return b.recent(known) if known and b.chance(80) else memory.load(b, shape, dtype, full=not b.chance(20))


def _kwargs(b: Builder, op: OpDef, first: Var) -> dict[str, object]:
    return {k.name: value for k in op.kwargs if (value := _kwarg(b, k, first)) is not None}


def _kwarg(b: Builder, k: Kwarg, first: Var) -> object:
    if k.name == "target_type":
        return b.choose([d.value for d in (*FLOATS, *INTS) if d is not tile(first).dtype])
    if k.name == "cmp_type":
        return b.below(6)
    if k.name == "target_memory":
        return "Vec" if not b.chance(10) else "Mat"
    if k.words and k.type is str and k.name in ("mode", "pad_value"):
        return b.choose(k.words)
    return None


def _select(b: Builder, op: OpDef) -> Var | None:
    first = data(b)
    mask = b.call("tile.cmps", [first, b.constant(tile(first).dtype)], "m", cmp_type=b.below(6))
    tmp = scratch(b, first)
    if mask is None or tmp is None:
        return None
    if op.name == "tile.sel":
        return b.call(op.name, [mask, first, alike(b, first), tmp])
    return b.call(op.name, [mask, first, tmp, b.constant(tile(first).dtype)])


def full(b: Builder) -> Var | None:
    """A filled or, seldom, an uninitialised tile."""
    dtype = b.dtype()
    if b.chance(25):
        return b.call("tile.create", [b.shape()], "c", dtype=dtype.value, target_memory="Vec")
    return b.call("tile.full", [b.shape(), _number(dtype, b.below(4))], "f", dtype=dtype.value)


def _number(dtype: DType, n: int) -> Const:
    return Const(float(n) if dtype.is_float else n, dtype)


def read(b: Builder) -> bool:
    """A scalar read from a tile."""
    known = b.tiles(lambda t: ints(t.valid) is not None and t.rank <= 2) if b.chance(80) else b.tiles(lambda t: ints(t.valid) is not None)
    if not known:
        return False
    source = b.recent(known)
    at = tuple(b.offset(n - 1) for n in ints(tile(source).valid) or ())
    return b.call("tile.read", [source, at], "s") is not None


def write(b: Builder) -> bool:
    """One cell written in place."""
    known = b.tiles(lambda t: t.rank <= 2 and t.dtype in (*FLOATS, *INTS))
    if not known:
        return False
    target = b.recent(known)
    at = tuple(b.offset(n - 1) for n in shape_of(target))
    value = b.constant(tile(target).dtype)
    if b.call("tile.write", [target, at, value], "w") is None:
        return False
    overwritten(b, target)
    return True


def matmul(b: Builder) -> bool:
    """A product of two loaded tiles, accumulated further sometimes, 2-D or seldom batched."""
    m, k, n = (b.choose((16, 8, 4)) for _ in range(3))
    batch = (2,) if b.chance(8) else ()
    dtype = b.choose((DType.FP16, DType.BF16, DType.FP32))
    name = "tile.batch_matmul" if batch else "tile.matmul"

    def pair() -> list[Var]:
        return [memory.load(b, (*batch, *s), dtype, "Mat", full=True) for s in ((m, k), (k, n))]

    acc = b.call(name, pair(), "acc")
    if acc is None:
        return False
    while not batch and b.chance(35):
        into = acc
        acc = b.call("tile.matmul_acc", [into, *pair()], "acc")
        if acc is None:
            return True
        overwritten(b, into)
    return memory.store(b, acc) if b.chance(85) else True


def transpose(b: Builder) -> bool:
    """The data of a tile with two axes swapped; the last two of rank 2 mostly."""
    known = b.tiles(lambda t: t.rank == 2) if b.chance(85) else b.tiles(lambda t: t.rank >= 2)
    if not known:
        return False
    source = b.recent(known)
    rank = tile(source).rank
    axes = (rank - 2, rank - 1) if b.chance(80) else (0, rank - 1)
    return b.call("tile.transpose", [source, index(axes[0]), index(axes[1])]) is not None
