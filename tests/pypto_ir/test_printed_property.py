"""Random programs, expressions and types: printed and read back they are the same."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

from generators import random_program
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Unary, Var, dtype_of, index
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.ops.registry import type_of
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.printed.program_writer import write_text
from pypto_ir.stmt import Assign, Function, Param, Program, Stmt, Yield, blocks, terminator, walk
from pypto_ir.types import (
    INDEX,
    Compact,
    Layout,
    Memory,
    MemRef,
    Pad,
    ScalarType,
    TensorView,
    TileLayout,
    TupleType,
    Type,
    implicit_view,
    tensor_type,
    tile_type,
)

NAMES = {
    "n": DType.INDEX, "m": DType.INDEX, "i": DType.INT32, "k": DType.INT64, "u": DType.UINT8,
    "f": DType.FP32, "h": DType.FP16, "b": DType.BF16, "q": DType.BOOL,
}  # fmt: skip
VARS = {name: Var(name, ScalarType(dtype)) for name, dtype in NAMES.items()}
PARAMS = tuple(Param(v) for v in VARS.values())
INTS = [DType.INDEX, DType.INT32, DType.INT64, DType.UINT8]
FLOATS = [DType.FP32, DType.FP16, DType.BF16]


def returned(program: Program) -> Program:
    """A program after printing, reading and, through its file, once more; printed to the same text."""
    text = write_text(program)
    printed = read_printed(text, "p.py")
    assert [str(w) for w in printed.warnings] == []
    assert write_text(printed.program) == text
    again = read_program(write_program(printed.program))
    assert again == printed.program
    return printed.program


def plain(program: Program) -> dict[str, Any]:
    """A program file as plain values, its functions by name, without empty else arms, which do not print."""

    def stripped(value: Any) -> Any:
        if isinstance(value, list):
            return [stripped(v) for v in value]
        if isinstance(value, dict):
            return {k: stripped(v) for k, v in value.items() if not (k == "else" and v == [])}
        return value

    result: dict[str, Any] = stripped(json.loads(write_program(program)))
    result["functions"].sort(key=lambda f: f["name"])
    return result


def typed_as_yielded(s: Stmt) -> bool:
    """True where the results of a statement have the types of the values that its blocks yield."""
    results = getattr(s, "results", ())
    ends = [end for block in blocks(s) if isinstance(end := terminator(block), Yield)]
    return all(r.type == type_of(v) for end in ends for r, v in zip(results, end.values, strict=False))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_random_programs(seed: int) -> None:
    text = write_program(random_program(random.Random(seed)))
    program = read_program(text)
    # printed results of loops, and several of a branch, have the types of the yielded values
    assume('"types"' not in text and all(typed_as_yielded(s) for f in program.functions for s in walk(f.body)))
    again = returned(program)
    assume('"types"' not in write_program(again))
    assert plain(again) == plain(program)


def constants(dtype: DType) -> st.SearchStrategy[Expr]:
    if dtype.is_float:
        floats = st.floats(width=32) | st.floats()
        return floats.map(lambda v: Const(v, dtype)) | st.integers(-9, 9).map(lambda v: Const(v, dtype))
    low = 0 if dtype.is_unsigned else -(2 ** (dtype.bits - 1))
    high = 2**dtype.bits - 1 if dtype.is_unsigned else 2 ** (dtype.bits - 1) - 1
    return (st.integers(-9 if low else 0, 9) | st.integers(low, high)).map(lambda v: Const(v, dtype))


def numbers(dtype: DType, depth: int) -> st.SearchStrategy[Expr]:
    """Expressions of exactly this dtype."""
    named = [v for name, v in VARS.items() if NAMES[name] is dtype]
    leaves = st.sampled_from(named) | constants(dtype)
    if depth == 0:
        return leaves
    inner = st.deferred(lambda: numbers(dtype, depth - 1))
    ops = ["add", "sub", "mul", "min", "max", "pow", "mod", "floordiv"]
    ops += ["truediv"] if dtype.is_float else ["bitand", "bitor", "bitxor", "shl", "shr"]
    binary = st.builds(Binary, st.sampled_from(ops), inner, inner)
    unary = st.builds(Unary, st.sampled_from(["neg", "abs"] + ([] if dtype.is_float else ["bitnot"])), inner)
    casts = st.sampled_from([d for d in INTS + FLOATS if d is not dtype]).flatmap(lambda d: numbers(d, 0).map(lambda e: Cast(e, dtype)))
    return leaves | binary | unary | casts


def booleans(depth: int) -> st.SearchStrategy[Expr]:
    leaves = st.sampled_from([VARS["q"], *(Const(v, DType.BOOL) for v in (True, False, 1))])
    if depth == 0:
        return leaves
    inner = st.deferred(lambda: booleans(depth - 1))
    compared = st.sampled_from(INTS + FLOATS).flatmap(
        lambda d: st.builds(Binary, st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]), numbers(d, 1), numbers(d, 1))
    )
    logical = st.builds(Binary, st.sampled_from(["and", "or"]), inner, inner)
    return leaves | compared | logical | st.builds(Unary, st.just("not"), inner)


EXPRESSIONS = st.sampled_from(INTS + FLOATS).flatmap(lambda d: numbers(d, 3)) | booleans(3)


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS)
def test_random_expressions(e: Expr) -> None:
    dtype = dtype_of(e)
    assert dtype is not None
    s = Assign((Var("v", ScalarType(dtype)),), e)
    program = Program("P", (Function("k", PARAMS, (), (s,), "InCore"),))
    body = returned(program).functions[0].body
    assert body == (s,)


DIMS = st.integers(1, 64).map(index) | st.sampled_from([VARS["n"], Binary("add", VARS["n"], index(1)), Binary("min", VARS["m"], index(8))])
EXTENTS = st.sampled_from([index(0), index(1), VARS["m"], Binary("floordiv", VARS["n"], index(8))])
MEMREFS = st.none() | st.builds(
    MemRef,
    st.sampled_from(["buf", "ring"]),
    st.booleans(),
    st.none() | st.sampled_from([index(0), index(64), Binary("mul", VARS["n"], index(4))]),
    st.none() | st.integers(0, 9000),
    st.none() | st.integers(1, 4),
    st.none() | st.sampled_from([index(1), Binary("mod", VARS["n"], index(2))]),
)


@st.composite
def types(draw: st.DrawFn, depth: int = 1) -> Type:
    kind = draw(st.integers(0, 3 if depth else 2))
    dtype = draw(st.sampled_from([d for d in DType if d is not DType.TASK_ID]))
    if kind == 0:
        return ScalarType(dtype)
    if kind == 3:
        return TupleType(tuple(draw(st.lists(types(depth - 1), max_size=3))))
    shape = tuple(draw(st.lists(DIMS, min_size=1, max_size=4)))
    valid = tuple(draw(EXTENTS) for _ in shape) if draw(st.booleans()) else ()
    stride = tuple(draw(EXTENTS) for _ in shape) if draw(st.booleans()) else ()
    pad = draw(st.sampled_from(Pad))
    if kind == 1:
        view = TensorView(stride, draw(st.sampled_from(Layout)), valid, pad)
        return tensor_type(shape, dtype, view, memref=draw(MEMREFS))
    memory = draw(st.none() | st.sampled_from(Memory))
    tile_view = replace(
        implicit_view(shape, memory),
        valid=valid,
        stride=stride,
        pad=pad,
        start_offset=draw(st.none() | EXTENTS),
        compact=draw(st.sampled_from(Compact)),
        fractal=draw(st.sampled_from([32, 512, 1024])),
        blayout=draw(st.sampled_from(TileLayout)),
        slayout=draw(st.sampled_from(TileLayout)),
    )
    return tile_type(shape, dtype, memory, tile_view, draw(MEMREFS) if memory else None)


@settings(max_examples=300, deadline=None)
@given(types())
def test_random_types(t: Type) -> None:
    params = (Param(Var("n", INDEX)), Param(Var("m", INDEX)), Param(Var("p", t)))
    program = Program("P", (Function("k", params, (), (), "InCore"),))
    assert returned(program).functions[0].params[2].var.type == t
