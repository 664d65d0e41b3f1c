"""Op calls made ready to run: the declaration, operand conversions and result extents are worked out once per
statement.

`y = tile.muls(x, s)` with `y` of valid shape [1, v, 64] becomes a function of the environment that looks up
`x`, rounds `s` to its type, evaluates `v`, and hands all of it to the op's meaning. An undefined scalar
operand makes the whole result undefined, an undefined offset or extent is a `RunError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, MakeTuple, dtype_of
from pypto_ir.interp.l0c import AccTile, Accumulators
from pypto_ir.interp.scalars import Environment, Thunk, compile_dims, compile_expr
from pypto_ir.interp.values import UNDEFINED, Evaluation, RunError, Tile, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.ops.registry import OpDef, Role, find_op, type_of
from pypto_ir.stmt import Call
from pypto_ir.types import ScalarType, TensorType, TileType, TupleType, Type

if TYPE_CHECKING:
    from pypto_ir.interp.inputs import Lane


def compile_call(call: Call, t: Type | None, *, in_place: bool, division: str, lane: Lane, acc: Accumulators | None = None) -> Thunk:
    """The call as a function of an environment; `acc` says how accumulators are treated where they lie in
    memory of their own. What has no meaning raises `RunError` R003 when it is reached, not before.
    """
    lanes = {
        "tile.get_block_idx": lane.block,
        "tile.get_block_num": lane.blocks,
        "tile.get_subblock_idx": lane.subblock,
    }
    if call.op in lanes:
        held = lanes[call.op]
        return lambda env: held
    op = find_op(call.op)
    if op is None or op.meaning is None:
        if op is not None and op.barrier and t is None and not _hands_on(op, call):
            return lambda env: None
        return _without_meaning(call.op)
    return _compile(op, call, t, in_place, division, acc)


def _hands_on(op: OpDef, call: Call) -> bool:
    """True where other cores see data of this call, as those of a push; a barrier hands nothing on."""
    data = any(isinstance(type_of(arg), TileType | TensorType) for arg in call.args)
    return bool(op.writes or op.writes_memory) or (data and not op.name.startswith("system."))


def _without_meaning(name: str) -> Thunk:
    def refuse(env: Environment) -> Any:
        raise RunError(f"{name} has no meaning in the interpreter", "R003")

    return refuse


def _compile(op: OpDef, call: Call, t: Type | None, in_place: bool, division: str, acc: Accumulators | None) -> Thunk:
    meaning = op.meaning if acc is None else acc.meaning(op, t)
    assert meaning is not None
    operands = tuple(_operand(op, i, arg, division) for i, arg in enumerate(call.args))
    scratch = tuple(i for i in range(len(call.args)) if in_place and operand_role(op, i) is Role.SCRATCH)
    extents = extents_of(t if isinstance(t, TileType) or op.aliases is None else None, division)
    dtype = t.dtype if isinstance(t, TileType | TensorType | ScalarType) else None
    finish = _finish(t)
    kwargs = call.kwargs

    def run(env: Environment) -> Any:
        args = tuple([operand(env) for operand in operands])
        blank = False
        if UNDEFINED in args:
            if op.name in _CELL_WRITES:
                return _blank_cell(args, in_place)
            args, blank = _defined(op, call, args), True
        shape, valid = extents(env)
        evaluation = Evaluation(op, args, kwargs, t, shape, valid, dtype, in_place, call)
        try:
            result = finish(meaning(evaluation))
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
            raise RunError(f"{op.name} failed on its operands: {error!r}", "R010") from error
        for i in scratch:
            if isinstance(args[i], Tile):
                args[i].ok[...] = False
        return _undefined(result) if blank else result

    return run


def operand_role(op: OpDef, i: int) -> Role:
    """The role of operand `i` of an op; the last declared operand stands for all that follow it."""
    return op.operands[min(i, len(op.operands) - 1)].role if op.operands else Role.DATA


def _operand(op: OpDef, i: int, arg: Expr, division: str) -> Thunk:
    optional = bool(op.operands) and op.operands[min(i, len(op.operands) - 1)].optional
    if isinstance(arg, MakeTuple):
        if not arg.items and optional:
            return lambda env: None
        return compile_dims(arg.items, division)[1] if _integral(arg.items) else compile_expr(arg, division)
    value = compile_expr(arg, division)
    dtype = dtype_of(arg)
    if dtype is None or dtype is DType.BOOL or dtype.is_float:
        return value
    holder = numpy_dtype(dtype).type
    if isinstance(arg, Const):
        held = holder(value({}))
        return lambda env: held

    def scalar(env: Environment) -> Any:
        number = value(env)
        return number if number is UNDEFINED else holder(number)

    return scalar


def _integral(items: tuple[Expr, ...]) -> bool:
    types = [dtype_of(item) for item in items]
    return all(t is not None and t.is_int for t in types)


def extents_of(t: Type | None, division: str) -> Callable[[Environment], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shape and valid extents of a type as a function of the environment; empty ones for types without extents."""
    if not isinstance(t, TileType | TensorType):
        return lambda env: ((), ())
    fixed_shape, shape = compile_dims(t.shape, division)
    fixed_valid, valid = compile_dims(t.valid, division)
    if fixed_shape is not None and fixed_valid is not None:
        held = (fixed_shape, fixed_valid)
        if _inside(*held):
            return lambda env: held

    def evaluate(env: Environment) -> tuple[tuple[int, ...], tuple[int, ...]]:
        extents = shape(env), valid(env)
        if not _inside(*extents):
            raise RunError(f"valid extents {list(extents[1])} do not lie in the shape {list(extents[0])}")
        return extents

    return evaluate


def _inside(shape: tuple[int, ...], valid: tuple[int, ...]) -> bool:
    return len(valid) == len(shape) and all(0 <= v <= n for v, n in zip(valid, shape, strict=True))


def _finish(t: Type | None) -> Callable[[Any], Any]:
    """What makes of a meaning's result the form in which the interpreter holds it."""
    if isinstance(t, ScalarType):
        dtype = t.dtype
        convert: Callable[[Any], Any] = bool if dtype is DType.BOOL else numpy_dtype(dtype).type if dtype.is_float else int
        return lambda value: value if value is UNDEFINED else convert(value)
    if isinstance(t, TupleType):
        parts = tuple(map(_finish, t.items))
        return lambda value: tuple([part(v) for part, v in zip(parts, value, strict=True)])
    return lambda value: value


_CELL_WRITES = ("tensor.write", "tile.write")


def _blank_cell(args: tuple[Any, ...], in_place: bool) -> Any:
    """A write of an undefined scalar at index `args[1]` of `args[0]`: that one cell becomes undefined."""
    target, at = args[0], args[1]
    if isinstance(target, AccTile):
        raise RunError("tile.write writes an accumulator, which only matrix products do", "R011")
    if isinstance(target, Tile):
        written = target if in_place else Tile(target.data.copy(), target.ok.copy(), target.valid)
        if any(not 0 <= i < n for i, n in zip(at, written.shape, strict=True)):
            raise RunError(f"a write at {list(at)} of a tile {list(written.shape)}")
        written.ok[at] = np.False_
        return written
    one = (1,) * len(target.shape)
    target.write(at, np.zeros(one, dtype=numpy_dtype(target.dtype)), np.zeros(one, dtype=bool))
    return target


def _defined(op: OpDef, call: Call, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """`args` with undefined scalars replaced by zeros, for an op whose result will be marked undefined as a
    whole.
    """
    if op.writes_memory:
        raise RunError(f"{op.name} writes memory by an undefined scalar", "R005")
    zeros = []
    for arg, e in zip(args, call.args, strict=True):
        dtype = dtype_of(e)
        zeros.append(numpy_dtype(dtype).type(0) if arg is UNDEFINED and dtype is not None else arg)
    return tuple(zeros)


def _undefined(value: Any) -> Any:
    """A result of which nothing is defined, in place where it is a tile."""
    match value:
        case Tile():
            value.ok[...] = np.False_
            return value
        case AccTile():
            value.blank()
            return value
        case tuple():
            return tuple(_undefined(v) for v in value)
        case int() | float() | np.generic():
            return UNDEFINED
    return value
