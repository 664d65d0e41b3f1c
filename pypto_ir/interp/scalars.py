"""Scalar expressions as functions of an environment: fixed-width arithmetic as `spec/tile_ir.md` section 3
has it.

Integers are Python ints kept inside their type, BOOL is a Python bool, floats are NumPy scalars of their
type. `i * 2` on an INT8 `i` of 100 is -56. Division is floor (Python's `//` and `%`, -7 // 2 = -4),
truncating (-7 // 2 = -3), or as kernels are lowered: truncating, with unsigned numbers divided, widened and
counted in loops as the signed numbers of their bits, so that a UINT8 200 // 2 is -56 // 2 = 228 (`spec/mx.md` H1, H3). `and` and
`or` evaluate both sides. Anything computed from `UNDEFINED` is `UNDEFINED`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

from pypto_ir.dtypes import DType
from pypto_ir.expr import (
    COMPARISONS,
    LOGICAL,
    Binary,
    Cast,
    Const,
    Expr,
    Item,
    MakeTuple,
    Unary,
    Var,
    dtype_of,
)  # fmt: skip
from pypto_ir.interp.fill import bounds
from pypto_ir.interp.values import UNDEFINED, RunError, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.text import expr_text
from pypto_ir.types import Dims

Environment: TypeAlias = Mapping[str, Any]
Thunk: TypeAlias = Callable[[Environment], Any]

#: the meanings that division has
DIVISIONS = ("floor", "trunc", "kernel")


def wrapper(dtype: DType) -> Callable[[Any], Any]:
    """The function that brings a result into a type: wraps integers to their width, rounds floats, makes a
    bool of BOOL.
    """
    if dtype is DType.BOOL:
        return bool
    if dtype.is_float:
        holder: Callable[[Any], Any] = numpy_dtype(dtype).type
        return holder
    lowest, highest = bounds(dtype)
    span = highest - lowest + 1

    def wrap(value: int) -> int:
        return value if lowest <= value <= highest else (value - lowest) % span + lowest

    return wrap


def constant(value: int | float | bool, dtype: DType) -> Any:
    """A constant as the interpreter holds it."""
    return wrapper(dtype)(value if dtype.is_float or dtype is DType.BOOL else int(value))


def convert(value: Any, source: DType | None, target: DType) -> Any:
    """A cast: integers wrap, floats go to integers by truncation (undefined where the value does not fit),
    BOOL is 0 or 1.
    """
    if value is UNDEFINED:
        return value
    if target is DType.BOOL:
        return bool(value != 0)
    if target.is_float or source is None or not source.is_float:
        return wrapper(target)(value if target.is_float else int(value))
    number = float(value)
    lowest, highest = bounds(target)
    return int(number) if number == number and lowest - 1 < number < highest + 1 else UNDEFINED


def compile_expr(e: Expr, division: str = "floor") -> Thunk:
    """`e` as a function of an environment; `division` is one of `DIVISIONS`. Evaluating raises `RunError` for
    what has no result.
    """
    match e:
        case Const(value=value, dtype=dtype):
            held = constant(value, dtype)
            return lambda env: held
        case Var(name=name):
            return _variable(name)
        case MakeTuple(items=items):
            parts = tuple(compile_expr(item, division) for item in items)
            return lambda env: tuple([part(env) for part in parts])
        case Item(of=of, index=i):
            whole = compile_expr(of, division)
            return lambda env: whole(env)[i]
        case Cast(operand=a, dtype=dtype):
            inner, source = compile_expr(a, division), dtype_of(a)
            if division == "kernel" and source is not None and dtype.is_int and source.bits < dtype.bits:
                number = signed(inner, source)
                return lambda env: convert(number(env), source, dtype)
            return lambda env: convert(inner(env), source, dtype)
        case Unary():
            return _unary(e, division)
        case Binary():
            return _binary(e, division)
    raise TypeError(f"not an expression: {e!r}")


def compile_dims(dims: Dims, division: str) -> tuple[tuple[int, ...] | None, Thunk]:
    """Extents as (their value where all are constant, a function that evaluates them to a tuple of ints)."""
    if all(isinstance(d, Const) for d in dims):
        held = tuple(int(d.value) for d in dims if isinstance(d, Const))
        return held, lambda env: held
    parts = tuple(compile_expr(d, division) for d in dims)

    def evaluate(env: Environment) -> tuple[int, ...]:
        values = tuple([part(env) for part in parts])
        if UNDEFINED in values:
            raise RunError("an extent or an offset is undefined", "R005")
        return values

    return None, evaluate


def _variable(name: str) -> Thunk:
    def read(env: Environment) -> Any:
        try:
            return env[name]
        except KeyError:
            raise RunError(f"{name} has no value here") from None

    return read


def _unary(e: Unary, division: str) -> Thunk:
    inner, dtype = compile_expr(e.operand, division), dtype_of(e.operand)
    function = operation_of_one(e.op, DType.BOOL if dtype is None else dtype)

    def evaluate(env: Environment) -> Any:
        value = inner(env)
        return value if value is UNDEFINED else function(value)

    return evaluate


@cache
def operation_of_one(op: str, dtype: DType) -> Callable[[Any], Any]:
    """A unary operator on numbers of `dtype`."""
    functions: dict[str, Callable[[Any], Any]] = {
        "neg": operator.neg,
        "abs": abs,
        "not": operator.not_,
        "bitnot": operator.not_ if dtype is DType.BOOL else operator.invert,
    }
    function, wrap = functions[op], wrapper(DType.BOOL if op == "not" else dtype)
    return lambda value: wrap(function(value))


def _binary(e: Binary, division: str) -> Thunk:
    left, right = compile_expr(e.left, division), compile_expr(e.right, division)
    dtype = _result_type(e)
    if dtype is None:
        return _no_type(e)
    function = operation(e.op, dtype, division)

    def evaluate(env: Environment) -> Any:
        a, b = left(env), right(env)
        if a is UNDEFINED or b is UNDEFINED:
            return UNDEFINED
        return function(a, b)

    return evaluate


def _no_type(e: Binary) -> Thunk:
    def refuse(env: Environment) -> Any:
        raise RunError(f"operands of {expr_text(e)} do not mix", "R002")

    return refuse


def _result_type(e: Binary) -> DType | None:
    if e.op in COMPARISONS or e.op in LOGICAL:
        return DType.BOOL
    if dtype_of(e.left) is DType.BOOL and dtype_of(e.right) is DType.BOOL and e.op in ("bitand", "bitor", "bitxor"):
        return DType.BOOL
    return dtype_of(e)


@cache
def operation(op: str, dtype: DType, division: str = "floor") -> Callable[[Any, Any], Any]:
    """A binary operator on numbers, with a result of `dtype`. It raises `RunError` for what has no result."""
    function, wrap = _function(op, dtype, division), wrapper(dtype)
    return lambda a, b: wrap(function(a, b))


def _function(op: str, dtype: DType, division: str) -> Callable[[Any, Any], Any]:
    simple: dict[str, Callable[[Any, Any], Any]] = {
        "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max,
        "eq": operator.eq, "ne": operator.ne,
        "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
        "and": lambda a, b: bool(a) and bool(b), "or": lambda a, b: bool(a) or bool(b),
        "bitand": operator.and_, "bitor": operator.or_, "bitxor": operator.xor,
    }  # fmt: skip
    if op in simple:
        return simple[op]
    if dtype.is_float:
        floor = division == "floor"
        real: dict[str, Callable[[Any, Any], Any]] = {
            "truediv": lambda a, b: np.divide(a, b), "pow": lambda a, b: np.power(a, b),
            "floordiv": lambda a, b: np.floor(np.divide(a, b)) if floor else np.trunc(np.divide(a, b)),
            "mod": lambda a, b: np.mod(a, b) if floor else np.fmod(a, b),
        }  # fmt: skip
        return real[op]
    return _integer_function(op, dtype, division)


def signed(number: Thunk, dtype: DType | None) -> Thunk:
    """An expression of a type, with its value as the signed number of its bits."""
    read = _by_bits(dtype)
    return lambda env: read(number(env))


def _by_bits(dtype: DType | None) -> Callable[[Any], Any]:
    """The function that reads a number of a type as the signed one of its bits."""
    if dtype is None or not dtype.is_unsigned:
        return lambda value: value
    half = 1 << (dtype.bits - 1)
    return lambda value: value if value is UNDEFINED else (value ^ half) - half


def _integer_function(op: str, dtype: DType, division: str) -> Callable[[int, int], int]:
    bits = dtype.bits
    read = _by_bits(dtype if division == "kernel" else None)

    def nonzero(b: int) -> int:
        if b == 0:
            raise RunError("integer division by zero", "R006")
        return b

    def amount(b: int) -> int:
        if not 0 <= b < bits:
            raise RunError(f"a shift by {b} on {bits} bits", "R006")
        return b

    def truncated(a: int, b: int) -> int:
        a, b = read(a), read(nonzero(b))
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient

    def power(a: int, b: int) -> int:
        if b < 0:
            raise RunError("a negative power of an integer", "R006")
        return pow(a, b, 1 << bits)

    table: dict[str, Callable[[int, int], int]] = {
        "floordiv": (lambda a, b: a // nonzero(b)) if division == "floor" else truncated,
        "mod": (lambda a, b: a % nonzero(b)) if division == "floor" else lambda a, b: read(a) - truncated(a, b) * read(b),
        "truediv": truncated,
        "pow": power,
        "shl": lambda a, b: a << amount(b),
        "shr": lambda a, b: a >> amount(b),
    }
    return table[op]
