"""Type rules: for every op at least one call with its result type, and calls that are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from op_support import (
    BF16,
    FP16,
    FP32,
    INT8,
    INT16,
    INT32,
    UINT8,
    V,
    W,
    at,
    const,
    infer,
    raw_t,
    tensor_t,
    tile_t,
)

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, index
from pypto_ir.ops.registry import OpError, Role, Trait, all_ops, find_op
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import Call
from pypto_ir.types import (
    BOOL,
    INDEX,
    Compact,
    Layout,
    Memory,
    Pad,
    ScalarType,
    TensorView,
    TileLayout,
    Type,
    dims,
    scalar_var,
    tensor_type,
)

MAT, ACC, LEFT, RIGHT = Memory.MAT, Memory.ACC, Memory.LEFT, Memory.RIGHT
ROW, COL, NONE = TileLayout.ROW_MAJOR, TileLayout.COL_MAJOR, TileLayout.NONE_BOX
E4M3, E8M0 = DType.FP8E4M3FN, DType.FP8E8M0

T = tile_t((16, 64), valid=(V, 60))
H = tile_t((16, 64), FP16)
I = tile_t((16, 64), INT16)  # noqa: E741
U = tile_t((16, 64))
N3 = tile_t((2, 16, 64))
S32, S16 = ScalarType(FP32), ScalarType(INT16)
MASK = tile_t((16, 32), UINT8, (16, 8))
COLUMN = tile_t((16, 1), valid=(V, 1))
ROWS3 = tile_t((2, 16, 1), blayout=COL)

Row = tuple[str, tuple[Any, ...], dict[str, Any], Type]
TYPES: list[Row] = []


def case(op: str, *operands: Any, to: Type, **kwargs: Any) -> None:
    TYPES.append((f"tile.{op}" if "." not in op else op, operands, kwargs, to))


# elementwise: shape by broadcast, dtype by promotion, valid region and layout of the first tile
for op in ("add", "sub", "mul", "maximum", "minimum", "fmod", "part_add", "part_mul", "part_max", "part_min"):
    case(op, T, U, to=T)
    case(op, U, T, to=U)
    case(op, H, T, to=U)
    case(op, tile_t((1, 64)), U, to=tile_t((16, 64), valid=(1, 64)))
    case(op, tile_t((16, 1)), U, to=tile_t((16, 64), valid=(16, 1), blayout=COL))
    case(op, U, N3, to=N3)
for op in ("and", "or", "shl", "shr"):
    case(op, I, I, to=I)
case("shl", I, tile_t((16, 64), INT32), to=I)
case("and", I, tile_t((16, 64), INT32), to=tile_t((16, 64), INT32))
case("div", T, T, to=T, high_precision=True)
for op in ("adds", "subs", "muls", "divs", "maximums", "minimums", "fmods", "lrelu"):
    case(op, T, S32, to=T)
    case(op, tile_t((16, 64), BF16), S32, to=tile_t((16, 64), BF16))
for op in ("ands", "ors", "shls", "shrs"):
    case(op, I, S16, to=I)
for op in ("neg", "exp", "recip", "sqrt", "abs", "relu", "log", "sin", "cos", "rsqrt"):
    case(op, T, to=T)
    case(op, tile_t((2, 16, 1), blayout=COL, pad=Pad.MIN), to=tile_t((2, 16, 1), blayout=COL, pad=Pad.MIN))
case("rsqrt", T, U, to=T)
case("not", I, to=I)
case("xor", I, I, I, to=I)
case("xors", I, S16, I, to=I)
case("rem", T, U, U, to=T)
case("rems", I, S16, I, to=I)
case("rems", I, S32, I, to=tile_t((16, 64), FP32))
case("prelu", T, T, U, to=T)
for op in ("addc", "subc"):
    case(op, H, T, tile_t((1, 64)), to=U)
for op in ("addsc", "subsc"):
    case(op, T, S32, U, to=T)

# casts, masks and selection
case("cast", T, to=tile_t((16, 64), BF16, (V, 60)), target_type="BF16")
case("cast", ROWS3, to=tile_t((2, 16, 1), INT32, blayout=COL), target_type="INT32", mode="floor")
case("cmp", U, U, to=MASK, cmp_type=4)
mask_bytes = Binary("floordiv", Binary("add", W, index(7)), index(8))
case(
    "cmps",
    tile_t((2, 16, 300), valid=(2, V, W)),
    S32,
    to=tile_t((2, 16, 64), UINT8, (2, V, mask_bytes)),
    cmp_type=0,
)
case("sel", MASK, T, U, tile_t((1, 32), UINT8), to=T)
case("sels", MASK, T, tile_t((1, 32), UINT8), S32, to=T)

# reductions and expansions
for op in ("sum", "max", "min", "prod"):
    case(f"row_{op}", T, U, to=COLUMN)
    case(f"row_{op}", N3, N3, to=ROWS3)
    case(f"col_{op}", T, to=tile_t((1, 64), valid=(1, 60)))
    case(f"col_{op}", N3, to=tile_t((1, 16, 64)))
for op in ("argmax", "argmin"):
    case(f"row_{op}", T, U, to=tile_t((16, 1), INT32, (V, 1)))
    case(f"col_{op}", T, U, to=tile_t((1, 64), INT32, (1, 60)))
case("col_sum", T, U, to=tile_t((1, 64), valid=(1, 60)))
for op in ("", "_add", "_sub", "_mul", "_div", "_max", "_min", "_expdif"):
    case(f"row_expand{op}", T, COLUMN, to=T)
    case(f"row_expand{op}", N3, ROWS3, to=N3)
    case(f"row_expand{op}", tile_t((1, 1, 16, 64)), tile_t((16, 1)), to=tile_t((1, 1, 16, 64)))
    case(f"col_expand{op}", T, tile_t((1, 64)), to=T)
    case(f"col_expand{op}", tile_t((1, 1, 16, 64), BF16), tile_t((1, 1, 1, 64)), to=tile_t((1, 1, 16, 64)))
case("row_expand_add", U, tile_t((16, 8)), to=U)
case("expands", T, S32, to=T)
case("expands", I, S32, to=U)

# memory
X3 = tensor_t((4, 16, 64), FP16)
case(
    "load",
    X3,
    (V, 0, 0),
    (1, 16, 64),
    (1, W, 64),
    to=tile_t((1, 16, 64), FP16, (1, W, 64)),
    target_memory="Vec",
)
case("load", X3, (0, 0, 0), (1, 16, 64), to=tile_t((1, 16, 64), FP16, memory=None))
case(
    "load",
    X3,
    (0, 0, 0),
    (2, 16, 1),
    (2, 16, 1),
    to=tile_t((2, 16, 1), FP16, blayout=COL),
    target_memory="Vec",
)
case(
    "load",
    X3,
    (0, 0, 0),
    (2, 16, 1),
    (2, 16, 1),
    to=tile_t((2, 16, 1), FP16, memory=MAT),
    target_memory="Mat",
)
case(
    "load",
    tensor_t((64, 32), layout=Layout.DN),
    (0, 0),
    (64, 32),
    (64, 32),
    to=tile_t((64, 32), memory=MAT, blayout=ROW, slayout=COL),
    target_memory="Mat",
)
case("load", tensor_t((64, 32)), (0, 0), (1, 32), (1, 32), to=raw_t((1, 32), memory=MAT), target_memory="Mat")
case(
    "load",
    tensor_t((32, 64), layout=Layout.DN),
    (0, 0),
    (32, 1),
    (32, 1),
    to=raw_t((32, 1), memory=MAT),
    target_memory="Mat",
)
case(
    "load",
    tensor_t((32, 2), E8M0, layout=Layout.MX_A_ZZ),
    (0, 0),
    (32, 2),
    (32, 2),
    to=tile_t((32, 2), E8M0, memory=MAT, blayout=ROW, fractal=32),
    target_memory="Mat",
)
clamped = Binary("min", Binary("max", Binary("sub", V, W), index(0)), index(16))
case(
    "load",
    tensor_t((64, 8), valid=(V, 8)),
    (W, 0),
    (16, 8),
    (16, 8),
    to=tile_t((16, 8), valid=(clamped, 8)),
    target_memory="Vec",
    clamp=True,
)
OUT = tensor_t((4, 16, 64))
case("store", N3, (1, 0, 0), OUT, to=OUT, atomic="Add")
case("store", tile_t((32, 64)), (0, 0, 0), OUT, (2, 16, 64), to=OUT)
case("store", U, (V, 0, 0), OUT, to=OUT)
case(
    "store", tile_t((4, 64)), (4, 0), tensor_t((16, 64), valid=(4, 64)), to=tensor_t((16, 64), valid=(8, 64))
)
case("create", (2, 8, 64), to=tile_t((2, 8, 64), memory=ACC), dtype="FP32", target_memory="Acc")
case("create", (2, 8), to=tile_t((2, 8), INT8, memory=None), dtype="INT8")
case(
    "create",
    (32, 64),
    to=tile_t((32, 64), BF16, memory=MAT, blayout=ROW, slayout=COL),
    dtype="BF16",
    target_memory="Mat",
    transpose=True,
)
case(
    "create",
    (32, 64),
    to=raw_t((32, 64), BF16, memory=MAT),
    dtype="BF16",
    target_memory="Mat",
    flat_layout=True,
)
case("full", (2, 8, 64), const(1.5), to=tile_t((2, 8, 64)), dtype="FP32")
case("full", (16, 1), const(0.0), to=raw_t((16, 1)), dtype="FP32")

# views and windows
case("slice", U, (8, 64), (V, 0), to=tile_t((8, 64)))
case("slice", T, (8, 64), (0, 0), to=tile_t((8, 64), valid=(Binary("min", V, index(8)), 60)))
case("slice", N3, (1, 16, 64), (1, 0, 0), (), (0,), to=U)
case("slice", N3, (1, 1, 64), (1, V, 0), (), (0, 1), to=tile_t((1, 64)))
case(
    "slice",
    N3,
    (1, 16, 64),
    (V, 0, 0),
    (1, 16, W),
    to=tile_t((1, 16, 64), valid=(1, 16, W)),
    pad_value="null",
)
case("slice", T, (16, 1), (0, 0), to=raw_t((16, 1), valid=dims(Binary("min", V, index(16)), 1)))
case("slice", tile_t((32, 64), memory=MAT), (16, 64), (0, 0), to=tile_t((16, 64), memory=MAT))
case(
    "slice",
    tile_t((32, 64), memory=MAT),
    (16, 64),
    (0, 0),
    (V, 64),
    to=raw_t((16, 64), memory=MAT, valid=dims(V, 64)),
)
case("slice", U, (8, 64), (8, 0), to=tile_t((8, 64), pad=Pad.MIN), pad_value="min")
partial = (Binary("min", V, index(8)), 60)
case(
    "extract",
    tile_t((16, 64), BF16, (V, 60), MAT),
    0,
    0,
    (8, 64),
    to=tile_t((8, 64), BF16, partial, LEFT, blayout=ROW, compact=Compact.NORMAL),
    target_memory="Left",
)
case("extract", U, 8, 0, (8, 64), to=tile_t((8, 64)))
case("assemble", N3, tile_t((1, 16, 64)), (1, 0, 0), to=N3)
case("assemble", tile_t((16, 64), valid=(4, 64)), tile_t((4, 64)), (4, 0), to=tile_t((16, 64), valid=(8, 64)))
case("assemble", H, tile_t((8, 64)), (8, 0), to=H)
case("reshape", tile_t((64, 1)), (1, 64), to=tile_t((1, 64)))
case("reshape", ROWS3, (32, 1), to=tile_t((32, 1)))
case("reshape", tile_t((1, 16, 64), valid=(1, V, 64)), (16, 64), to=tile_t((16, 64), valid=(V, 64)))
case("reshape", tile_t((4, 16), memory=MAT), (1, 4, 16), to=tile_t((1, 4, 16), memory=MAT))
case(
    "reshape",
    tile_t((4, 16), memory=MAT, valid=(V, 16)),
    (1, 4, 16),
    to=raw_t((1, 4, 16), memory=MAT, valid=dims(1, V, 16)),
)
case("reinterpret_view", tile_t((4, 8)), to=tile_t((4, 16), INT16), dtype="INT16")
case("reinterpret_view", tile_t((4, 8)), (4, 1, 16), to=tile_t((4, 1, 16), INT16), dtype="INT16")
case(
    "reinterpret_view", tile_t((64, 1), pad=Pad.ZERO), to=tile_t((128, 1), INT16, pad=Pad.ZERO), dtype="INT16"
)
case("reinterpret_view", tile_t((4, 8), INT8, (V, 4)), to=tile_t((4, 2), INT32, (V, 1)), dtype="INT32")
case("transpose", T, 0, 1, to=tile_t((64, 16)))
case("transpose", N3, -2, -1, N3, to=tile_t((2, 64, 16)))
case("transpose", tile_t((1, 16)), 0, 1, to=raw_t((16, 1)))
case(
    "transpose_view", tile_t((64, 32), memory=MAT), to=tile_t((32, 64), memory=MAT, blayout=ROW, slayout=COL)
)
case("transpose_view", T, to=tile_t((64, 16), valid=(60, V), blayout=COL))
case("move", tile_t((16, 64), memory=MAT), to=tile_t((16, 64), memory=LEFT), target_memory="Left")
case(
    "move", tile_t((16, 1), memory=MAT), to=tile_t((16, 1), memory=RIGHT, blayout=ROW), target_memory="Right"
)
case(
    "move",
    tile_t((32, 64), valid=(32, V), memory=ACC),
    to=tile_t((32, 64), valid=(32, V), blayout=COL, slayout=ROW),
)
case(
    "move",
    T,
    to=tile_t((16, 64), valid=(V, 60), memory=MAT, blayout=ROW),
    target_memory="Mat",
    blayout="row_major",
)
case(
    "move",
    tile_t((32, 2), UINT8, memory=MAT, blayout=ROW, fractal=32),
    to=tile_t((32, 2), E8M0, memory=Memory.LEFT_SCALE),
    target_memory="LeftScale",
)
case("set_validshape", U, V, W, to=tile_t((16, 64), valid=(V, W)))
case("fillpad", T, to=tile_t((16, 64), pad=Pad.ZERO))
case("fillpad", U, to=tile_t((16, 64), pad=Pad.MIN), pad_value="min")
case("fillpad_inplace", T, to=tile_t((16, 64), pad=Pad.MAX), pad_value="max")
case("fillpad_expand", T, (16, 128), to=tile_t((16, 128), pad=Pad.ZERO))
case("concat", T, tile_t((16, 8)), to=tile_t((16, 72)))
case("read", T, (V, 0), to=S32)
case("write", T, (0, W), S32, to=T)

# tensors
strides = TensorView(dims(64, 1))
case("tensor.view", OUT, (64, 64), to=tensor_type(dims(64, 64), FP32, strides))
case(
    "tensor.view",
    tensor_t((2, 16, 64), valid=(1, 16, 64)),
    (32, 64),
    (16, 64),
    to=tensor_type(dims(32, 64), FP32, TensorView(dims(64, 1), valid=dims(16, 64))),
)
case(
    "tensor.view",
    tensor_t((64, 32)),
    to=tensor_type(dims(32, 64), FP32, TensorView(dims(1, 32), Layout.DN)),
    layout="DN",
)
case("tensor.view", OUT, to=tensor_type(dims(4, 16, 64), FP32, TensorView(dims(1024, 64, 1))), layout="ND")
case("tensor.dim", tensor_t((V, 64)), 0, to=INDEX)
case("tensor.read", OUT, (0, V, 3), to=S32)
case("tensor.write", OUT, (0, V, 3), S32, to=OUT)
for op in ("get_block_idx", "get_block_num", "get_subblock_idx"):
    case(op, to=INDEX)

# products
A, B = tile_t((16, 64), BF16, memory=MAT), tile_t((64, 32), BF16, memory=MAT)
PARTIAL = tile_t((16, 64), BF16, (V, 64), MAT)
C = tile_t((16, 32), memory=ACC)
BIAS = tile_t((1, 32), memory=Memory.BIAS)
COMPACT = tile_t((16, 32), valid=(V, 32), memory=ACC, compact=Compact.NORMAL)
case("matmul", A, B, to=C)
case("matmul", PARTIAL, B, to=COMPACT)
case(
    "matmul",
    tile_t((16, 64), INT8, memory=MAT),
    tile_t((64, 32), INT8, memory=MAT),
    to=tile_t((16, 32), INT32, memory=ACC),
)
case("matmul_acc", C, A, B, to=C)
case("matmul_acc", COMPACT, PARTIAL, B, BOOL, to=COMPACT)
case("matmul_acc", tile_t((16, 32)), A, B, to=C)
case("matmul_bias", A, B, BIAS, to=C)
ROW1, G = tile_t((1, 64), BF16, memory=LEFT), tile_t((16, 32), valid=(1, 32), memory=ACC)
case("gemv", ROW1, B, to=G, acc_phase="partial")
case("gemv_acc", G, ROW1, B, to=G)
case("gemv_bias", ROW1, B, BIAS, to=G)
case("batch_matmul", tile_t((2, 1, 16, 64)), tile_t((3, 64, 32)), to=tile_t((2, 3, 16, 32), memory=ACC))
case("batch_matmul", PARTIAL, B, to=C)
acc3 = tile_t((2, 16, 32), memory=ACC)
case("batch_matmul_acc", acc3, tile_t((2, 16, 64)), tile_t((64, 32)), to=acc3)
case("batch_matmul_acc", acc3, tile_t((2, 16, 64)), tile_t((64, 32)), BOOL, to=acc3)
MX = (
    tile_t((32, 64), E4M3, memory=LEFT),
    tile_t((32, 2), E8M0, memory=Memory.LEFT_SCALE),
    tile_t((64, 32), E4M3, memory=RIGHT),
    tile_t((2, 32), E8M0, memory=Memory.RIGHT_SCALE),
)
C32 = tile_t((32, 32), memory=ACC)
case("matmul_mx", *MX, to=C32)
case("matmul_mx_acc", C32, *MX, to=C32)
case("matmul_mx_bias", *MX, BIAS, to=C32)


@pytest.mark.parametrize(
    ("op", "operands", "kwargs", "expected"), TYPES, ids=[f"{r[0]}-{i}" for i, r in enumerate(TYPES)]
)
def test_the_result_type_of(
    op: str, operands: tuple[Any, ...], kwargs: dict[str, Any], expected: Type
) -> None:
    assert infer(op, *operands, **kwargs) == expected


def test_every_op_has_a_type_test() -> None:
    assert {row[0] for row in TYPES} == {op.name for op in all_ops()}


REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("tile.add", (T,), {}, "takes 2 operands, found 1"),
    ("tile.add", (T, T, T), {}, "takes 2 operands, found 3"),
    ("tile.rsqrt", (), {}, "takes 1 to 2 operands, found 0"),
    ("tile.add", (T, S32), {}, "operand 1 .rhs. of tile.add must be a tile, found a scalar FP32"),
    ("tile.muls", (T, T), {}, "must be a scalar, found a tile"),
    ("tile.load", (T, (0, 0), (1, 1)), {}, "must be a tensor"),
    ("tile.slice", (T, S32, (0, 0)), {}, "must be a literal tuple"),
    ("tile.slice", (T, (8, 64), at(const(1.5), index(0))), {}, "literal tuple of integer"),
    ("tile.neg", (T,), {"speed": 1}, "no keyword argument speed"),
    ("tile.cast", (T,), {}, "needs the keyword argument target_type"),
    ("tile.cast", (T,), {"target_type": "FP31"}, "cannot be FP31"),
    ("tile.cast", (T,), {"target_type": "BF16", "mode": 2}, "cannot be 2"),
    ("tile.recip", (T,), {"high_precision": 1}, "cannot be 1"),
    ("tile.load", (X3, (0, 0, 0), (1, 16, 64)), {"target_memory": "Left"}, "cannot be Left"),
    ("tile.cast", (T,), {"target_type": "FP32"}, "to itself"),
    ("tile.add", (T, tile_t((8, 64))), {}, "do not broadcast"),
    ("tile.and", (T, T), {}, "dtype FP32"),
    ("tile.adds", (T, index(1)), {}, "dtype INDEX"),
    ("tile.adds", (T, const(True, DType.BOOL)), {}, "dtype BOOL"),
    ("tile.ands", (I, S32), {}, "dtype FP32"),
    ("tile.shls", (I, const(-1, INT16)), {}, "negative amount"),
    ("tile.subs", (tile_t((4, 4), UINT8), S32), {}, "dtype UINT8"),
    ("tile.div", (T, U), {}, "equal valid regions"),
    ("tile.div", (U, tile_t((1, 64))), {}, "equal shapes"),
    ("tile.div", (H, U), {}, "one dtype"),
    ("tile.sin", (H,), {}, "dtype FP16"),
    ("tile.cmp", (T, T), {"cmp_type": 6}, "cmp_type"),
    ("tile.sels", (tile_t((8, 32), UINT8), U, U, S32), {}, "valid bytes"),
    ("tile.sel", (U, U, U, U), {}, "dtype FP32"),
    ("tile.row_sum", (U, tile_t((16, 32))), {}, "scratch operand"),
    ("tile.row_sum", (U, H), {}, "scratch operand"),
    ("tile.row_argmax", (U, tile_t((16, 128))), {}, "scratch operand"),
    ("tile.row_max", (tile_t((16, 64), valid=(16, 0)), U), {}, "empty valid region"),
    ("tile.row_min", (tile_t((16, 64), BF16), tile_t((16, 64), BF16)), {}, "dtype BF16"),
    ("tile.col_sum", (tile_t((16,)),), {}, "rank 2 or more"),
    ("tile.row_expand_mul", (U, U), {}, "last dim of 1"),
    ("tile.row_expand_mul", (U, tile_t((8, 1))), {}, "do not broadcast"),
    ("tile.row_expand_mul", (tile_t((1, 64)), tile_t((16, 1))), {}, "cannot spread"),
    ("tile.row_expand_add", (U, COLUMN), {}, "equal valid rows"),
    ("tile.col_expand", (U, tile_t((1, 32))), {}, "as many columns"),
    ("tile.load", (X3, (0, 0), (16, 64)), {}, "offsets for a source of rank 3"),
    ("tile.load", (X3, (4, 0, 0), (1, 16, 64)), {}, "past the end"),
    ("tile.store", (N3, (3, 0, 0), OUT), {}, "past the end of dimension 0"),
    ("tile.store", (N3, (0, 0), OUT), {}, "2 offsets for a tensor of rank 3"),
    ("tile.store", (N3, (0, 0), tensor_t((32, 64))), {}, "rank-3 tile"),
    ("tile.store", (U, (3, 0, 0), OUT, (2, 8, 64)), {}, "past the end"),
    ("tile.store", (tile_t((4, 4), UINT8), (0, 0), tensor_t((4, 4), UINT8)), {"atomic": "Add"}, "atomically"),
    ("tile.create", ((V, 4),), {"dtype": "FP32"}, "constant positive dims"),
    ("tile.create", ((0, 4),), {"dtype": "FP32"}, "constant positive dims"),
    ("tile.create", ((4, 4),), {"dtype": "FP32", "target_memory": "LeftScale"}, "LeftScale"),
    ("tile.create", ((4, 4),), {"dtype": "FP32", "target_memory": "Vec", "transpose": True}, "transpose"),
    ("tile.full", ((4, 4), S32), {"dtype": "FP32"}, "must be a constant"),
    ("tile.slice", (N3, (2, 16, 64), (0, 0, 0), (), (0,)), {}, "only full unit axes"),
    ("tile.slice", (N3, (1, 16, 64), (0, 0, 0), (), (3,)), {}, "distinct axes"),
    ("tile.slice", (N3, (2, 16, 64), (1, 0, 0)), {}, "past the end"),
    ("tile.assemble", (N3, tile_t((1, 16, 64)), (2, 0, 0)), {}, "past the end"),
    ("tile.assemble", (N3, H, (0, 0, 0)), {}, "FP16 into FP32"),
    ("tile.assemble", (N3, U, (0, 0)), {}, "2 offsets"),
    ("tile.reshape", (U, (16, 32)), {}, "1024 elements are not 512"),
    ("tile.reshape", (T, (32, 32)), {}, "real data"),
    ("tile.reinterpret_view", (tile_t((4, 3), INT8),), {"dtype": "INT32"}, "no whole number"),
    ("tile.reinterpret_view", (A,), {"dtype": "INT16"}, "packed flat"),
    ("tile.transpose", (U, 0, 2), {}, "two different axes"),
    ("tile.transpose", (U, 1, -1), {}, "two different axes"),
    ("tile.move", (A,), {"target_memory": "LeftScale"}, "LeftScale"),
    ("tile.set_validshape", (U, 17, 64), {}, "set_validshape"),
    ("tile.set_validshape", (N3, 2, 2), {}, "rank 2"),
    ("tile.fillpad_expand", (U, (8, 64)), {}, "fillpad_expand"),
    ("tile.concat", (U, tile_t((8, 64))), {}, "concat"),
    ("tile.read", (U, (16, 0)), {}, "tile.read at"),
    ("tile.read", (U, (0,)), {}, "1 indices"),
    ("tensor.view", (OUT, (64, 32)), {}, "elements are not"),
    ("tensor.view", (tensor_t((2, 4), valid=(1, 4)), (8,)), {}, "partly valid"),
    ("tensor.view", (tensor_t((2, 4)),), {"layout": "NZ"}, "NZ"),
    ("tensor.view", (tensor_t((2, 4)),), {}, "shape or a layout"),
    ("tensor.dim", (OUT, 3), {}, "axis 3"),
    ("tensor.read", (OUT, (0, 0, 64)), {}, "tensor.read at"),
    ("tile.matmul", (A, A), {}, "K does not agree"),
    ("tile.matmul", (A, tile_t((64, 32), FP16)), {}, "one dtype"),
    ("tile.matmul", (A, tile_t((64, 32), BF16, (48, 32))), {}, "too few rows"),
    ("tile.matmul_acc", (tile_t((16, 32), INT32), A, B), {}, "dtype INT32"),
    ("tile.matmul_acc", (tile_t((16, 16)), A, B), {}, "the product"),
    ("tile.matmul_acc", (tile_t((16, 32), valid=(8, 32)), A, B), {}, "is valid"),
    ("tile.matmul_acc", (C, A, B, index(1)), {}, "init_cond"),
    ("tile.matmul_bias", (A, B, tile_t((1, 16))), {}, "bias"),
    ("tile.gemv", (A, B), {}, "one row"),
    ("tile.batch_matmul", (tile_t((2, 16, 64)), tile_t((3, 64, 32))), {}, "do not broadcast"),
    ("tile.matmul_mx", (MX[0], tile_t((32, 1), E8M0), *MX[2:]), {}, "scale operand 1"),
    ("tile.matmul_mx", (MX[2], MX[3], MX[0], MX[1]), {}, "scale operand"),
]


@pytest.mark.parametrize(
    ("op", "operands", "kwargs", "text"), REFUSED, ids=[f"{r[0]}-{r[3]}" for r in REFUSED]
)
def test_operands_that_do_not_fit_are_refused(
    op: str, operands: tuple[Any, ...], kwargs: dict[str, Any], text: str
) -> None:
    with pytest.raises(OpError) as caught:
        infer(op, *operands, **kwargs)
    assert re.search(text, f"{caught.value.message}; {caught.value.help}")


def test_an_unknown_op_is_a_key_error() -> None:
    with pytest.raises(KeyError, match=r"tile\.unheard"):
        infer_call(Call("tile.unheard"))


def test_an_omitted_middle_operand_may_be_the_empty_tuple() -> None:
    assert infer("tile.slice", N3, (1, 16, 64), (0, 0, 0), (), (0,)) == U


def test_ops_that_write_alias_what_they_write() -> None:
    for op in all_ops():
        if op.writes or op.writes_memory:
            assert op.aliases == (op.writes or op.writes_memory)[0], op.name


def test_in_place_ops_and_views_are_declared_as_such() -> None:
    writers = {op.name for op in all_ops() if op.writes}
    views = {op.name for op in all_ops() if op.aliases == 0 and not op.writes and not op.writes_memory}
    assert writers == {
        f"tile.{name}"
        for name in (
            "assemble", "matmul_acc", "gemv_acc", "batch_matmul_acc",
            "matmul_mx_acc", "fillpad_inplace", "write",
        )
    }  # fmt: skip
    names = ("slice", "reshape", "reinterpret_view", "transpose_view", "set_validshape")
    assert views == {*(f"tile.{name}" for name in names), "tensor.view"}


def test_ops_without_a_meaning_are_opaque() -> None:
    for op in all_ops():
        assert op.meaning is not None or op.trait is Trait.OPAQUE, op.name


def test_expanded_operands_have_roles() -> None:
    row, col = find_op("tile.row_expand_mul"), find_op("tile.col_expand_mul")
    assert row is not None and col is not None
    assert [row.operands[1].role, col.operands[1].role] == [Role.ROW_SCALAR, Role.COL_VECTOR]


def test_scalar_arithmetic_takes_any_named_scalar_type() -> None:
    assert infer("tile.adds", T, scalar_var("s", INT32)) == T
    assert infer("tile.cmps", U, scalar_var("s", BF16), cmp_type=0) == MASK


def test_a_col_major_input_of_row_min_is_refused() -> None:
    with pytest.raises(OpError, match="col_major"):
        infer("tile.row_min", tile_t((16, 64), blayout=COL), U)
    assert NONE is U.effective_view.slayout
