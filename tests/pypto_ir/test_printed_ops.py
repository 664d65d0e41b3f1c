"""Every op of the registry, printed with all of its operands and keyword arguments and read back."""

from __future__ import annotations

from typing import Any

import pytest

from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, MakeTuple, Var, index
from pypto_ir.ops.registry import Kind, Kwarg, OpDef, all_ops
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.printed.program_writer import write_text
from pypto_ir.stmt import Assign, Call, Eval, Function, Literal, Param, Program
from pypto_ir.types import Memory, ScalarType, dims, tensor_type, tile_type

TILE = Var("t", tile_type(dims(16, 64), DType.FP32, Memory.VEC))
TENSOR = Var("x", tensor_type(dims(16, 64), DType.FP32))
SCALAR = Var("s", ScalarType(DType.FP32))
PARAMS = (Param(TENSOR), Param(SCALAR), Param(TILE))
BY_KIND: dict[Kind, Expr] = {
    Kind.TILE: TILE,
    Kind.TENSOR: TENSOR,
    Kind.SCALAR: SCALAR,
    Kind.TUPLE: MakeTuple(dims(16, 64)),
    Kind.ANY: TILE,
}


def value(k: Kwarg) -> Literal:
    """A value of a keyword argument that is not its default."""
    if k.words:
        return next((w for w in k.words if w != k.default), k.words[0])
    samples: dict[Any, Literal] = {bool: True, int: 3, float: 0.5, str: "word", tuple: (TENSOR,)}
    return samples.get(k.type, 1)


def program(op: OpDef) -> Program:
    """The op with and without what is optional."""
    whole = Call(op.name, tuple(BY_KIND[o.kind] for o in op.operands), tuple((k.name, value(k)) for k in op.kwargs))
    if op.name in ("tile.full", "tensor.full"):
        whole = Call(op.name, (whole.args[0], Const(0.5, DType.FP32)), (("dtype", "FP32"),))
    bare = Call(
        op.name,
        tuple(BY_KIND[o.kind] for o in op.operands if not o.optional),
        tuple((k.name, value(k)) for k in op.kwargs if k.required or k.default is not None or k.name == "memory"),
    )
    if op.name in ("tile.full", "tensor.full"):
        bare = Call(op.name, (whole.args[0], Const(1, DType.INT32)), (("dtype", "INT32"),))
    body = (Eval(whole), Eval(whole if op.name == "tile.load" else bare))
    return Program("P", (Function("k", PARAMS, (), body, "InCore"),))


@pytest.mark.parametrize("op", all_ops(), ids=lambda op: op.name)
def test_every_op_prints_and_reads_back(op: OpDef) -> None:
    source = program(op)
    text = write_text(source)
    # the operands are made up: warnings of type rules do not matter
    again = read_printed(text, "p.py").program
    assert write_text(again) == text
    for s, t in zip(source.functions[0].body, again.functions[0].body, strict=True):
        assert isinstance(s, Eval) and isinstance(t, Eval)
        assert isinstance(s.value, Call) and isinstance(t.value, Call)
        assert (t.value.op, t.value.args) == (s.value.op, s.value.args)
        assert dict(t.value.kwargs) == dict(s.value.kwargs)


def test_the_ops_of_the_reference_are_known() -> None:
    names = {op.name for op in all_ops()}
    assert {"tile.load", "tile.and", "tile.mgather", "tile.alloc", "array.create", "tensor.create"} <= names
    assert len(names) > 250


def test_words_print_by_their_keyword() -> None:
    for op, shown in (
        ("tile.alloc", "pl.tile.alloc(pl.Mem."),
        ("tile.and", "pl.tile.and_(t, t)"),
        ("tile.full", "pl.tile.full([16, 64], dtype=pl.INT32, value=1)"),
        ("tile.full", "pl.tile.full([16, 64], dtype=pl.FP32, value=0.5)"),
        ("tile.store", "atomic=pl.AtomicType.Add"),
        ("tile.load", "target_memory=pl.Mem."),
        ("tile.cast", "target_type=pl."),
        ("tile.cast", "mode='"),
        ("tensor.view", "layout=pl.TensorLayout."),
        ("tile.move", "blayout=pl.TileLayout."),
        ("tile.fillpad", "pad_value=pl.PadValue."),
        ("tile.reinterpret_view", "shape=[16, 64]"),
        ("tile.gather_row", "valid_shape=[16, 64], transpose=True"),
    ):
        declared = next(o for o in all_ops() if o.name == op)
        assert shown in write_text(program(declared))


def test_a_load_prints_its_valid_extents() -> None:
    call = Call("tile.load", (TENSOR, *(MakeTuple(dims(16, 64)),) * 2))
    f = Function("k", PARAMS, (), (Eval(call),), "InCore")
    assert "pl.tile.load(x, [16, 64], [16, 64], [16, 64])" in write_text(Program("P", (f,)))


def test_index_operands_stay_bare() -> None:
    call = Call("tile.transpose", (TILE, index(0), index(1)))
    f = Function("k", PARAMS, (), (Assign((Var("a", TILE.type),), call),), "InCore")
    assert "pl.tile.transpose(t, 0, 1)" in write_text(Program("P", (f,)))
