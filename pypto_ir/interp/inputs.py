"""The inputs of a run: dynamic dims, scalars and tensors of a function's parameters, all determined by the
seed.

A scalar with range [0, 496] is 496 for seed 0, 0 for seed 1, and one of the ends or a value between for the
others; without a range it is small. A dynamic dim is between 1 and 70, the same in every signature of the
program. Given inputs take the place of made ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import variables
from pypto_ir.interp.fill import generate, key
from pypto_ir.interp.memory import Buffer, Tensor
from pypto_ir.interp.scalars import compile_dims, constant
from pypto_ir.interp.values import RunError, Tile, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.stmt import Function, Param, Program
from pypto_ir.types import ScalarType, TensorType, TileType, TupleType, Type, type_exprs

_SMALL = (1, 0, 2, 3, 4, 5, 7, 8, 15, 16)
_BLOCKS = (8, 4, 24, 1, 48, 2)


@dataclass(frozen=True, slots=True)
class Lane:
    """Which of the parallel lanes a run is: block index, number of blocks, index of the vector core in its
    block.
    """

    block: int
    blocks: int
    subblock: int

    @staticmethod
    def of(seed: int) -> Lane:
        """The lane of a seed; block 0 of 8 for seed 0, block indices stay below 4."""
        blocks = _BLOCKS[seed % len(_BLOCKS)]
        block = key(seed, "block") % min(blocks, 4) if seed else 0
        return Lane(block, blocks, key(seed, "subblock") % 2)


def dim_names(program: Program) -> tuple[str, ...]:
    """The names of dynamic dims: those declared, and names in signature types that are no parameter of their
    function.
    """
    names = dict.fromkeys(program.dynamic)
    for function in program.functions:
        own = {param.var.name for param in function.params}
        for t in (*(param.var.type for param in function.params), *function.returns):
            for e in type_exprs(t):
                names.update(dict.fromkeys(v.name for v in variables(e) if v.name not in own))
    return tuple(names)


def make_dims(program: Program, seed: int, given: Mapping[str, Any]) -> dict[str, int]:
    """A size for every dynamic dim, 1 to 70 by the seed."""
    return {name: int(given.get(name, key(seed, f"dim {name}") % 70 + 1)) for name in dim_names(program)}


def make_arguments(function: Function, dims: Mapping[str, int], seed: int, fill: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A value for every parameter, by name; scalars first, since extents may name them. Raises `RunError` for
    what cannot be made.
    """
    env: dict[str, Any] = dict(dims)
    scalars = [p for p in function.params if isinstance(p.var.type, ScalarType)]
    for param in (*scalars, *(p for p in function.params if p not in scalars)):
        name = param.var.name
        env[name] = _argument(param, param.var.type, env, seed, fill, given.get(name))
    return {param.var.name: env[param.var.name] for param in function.params}


def _argument(param: Param, t: Type, env: Mapping[str, Any], seed: int, fill: str, given: Any) -> Any:
    name = param.var.name
    match t:
        case ScalarType(dtype=dtype):
            return constant(_scalar(param, dtype, seed) if given is None else given, dtype)
        case TensorType(shape=shape, view=view):
            sizes = _extents(compile_dims(shape, "floor")[1](env), name)
            valid = compile_dims(t.valid, "floor")[1](env)
            strides = compile_dims(view.stride, "floor")[1](env) if view and view.stride else None
            if given is None:
                last = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) + 1 if strides else prod(sizes)
                buffer = Buffer(name, max(last, prod(sizes)), t.dtype, seed=seed, fill=fill)
                return Tensor(buffer, sizes, valid, t.layout, strides)
            tensor = Tensor(Buffer(name, prod(sizes), t.dtype, seed=seed, fill=fill), sizes, valid, t.layout)
            # scales are given as the matrix that they are; the blocked form may also be given as it lies
            taker = tensor.logical() if np.ndim(given) == 2 else tensor
            _same_shape(name, given, taker.shape)
            taker.load(np.asarray(given))
            return tensor
        case TileType(shape=shape):
            sizes = _extents(compile_dims(shape, "floor")[1](env), name)
            valid = compile_dims(t.valid, "floor")[1](env)
            if given is None:
                data = generate(0, prod(sizes), t.dtype, seed, name, fill).reshape(sizes)
            else:
                _same_shape(name, given, sizes)
                data = np.array(given, dtype=numpy_dtype(t.dtype))
            return Tile(data, np.ones(sizes, dtype=bool), valid)
        case TupleType(items=items):
            return tuple(_argument(param, item, env, seed + 1000 * (i + 1), fill, None) for i, item in enumerate(items))
    return None


def _scalar(param: Param, dtype: DType, seed: int) -> int | float | bool:
    number = key(seed, param.var.name)
    if dtype is DType.BOOL:
        return number % 2 == 1
    if param.range is None:
        if dtype.is_float:
            return float(number % 9) - 4.0
        return _SMALL[seed] if seed < 2 else min(_SMALL[number % len(_SMALL)], 7 if dtype.bits < 8 else 16)
    lowest, highest = param.range
    if seed < 2:
        return lowest if seed else highest
    return (lowest, highest, lowest + (number >> 8) % (highest - lowest + 1))[number % 3]


def _extents(sizes: tuple[int, ...], name: str) -> tuple[int, ...]:
    if any(n < 0 for n in sizes):
        raise RunError(f"{name} has a negative extent in {list(sizes)}")
    return sizes


def _same_shape(name: str, given: Any, sizes: tuple[int, ...]) -> None:
    if tuple(np.shape(given)) != sizes:
        raise RunError(f"the input for {name} has shape {list(np.shape(given))}, the parameter {list(sizes)}")
