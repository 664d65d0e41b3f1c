"""Type rules: for every op at least one call with its result type, and calls that are refused."""

from __future__ import annotations

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
    const,
    infer,
    raw_t,
    tensor_t,
    tile_t,
)

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, index
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
case("store", tile_t((4, 64)), (4, 0), tensor_t((16, 64), valid=(4, 64)), to=tensor_t((16, 64), valid=(8, 64)))
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
case("reinterpret_view", tile_t((64, 1), pad=Pad.ZERO), to=tile_t((128, 1), INT16, pad=Pad.ZERO), dtype="INT16")
case("reinterpret_view", tile_t((4, 8), INT8, (V, 4)), to=tile_t((4, 2), INT32, (V, 1)), dtype="INT32")
case("transpose", T, 0, 1, to=tile_t((64, 16)))
case("transpose", N3, -2, -1, N3, to=tile_t((2, 64, 16)))
case("transpose", tile_t((1, 16)), 0, 1, to=raw_t((16, 1)))
case("transpose_view", tile_t((64, 32), memory=MAT), to=tile_t((32, 64), memory=MAT, blayout=ROW, slayout=COL))
case("transpose_view", T, to=tile_t((64, 16), valid=(60, V), blayout=COL))
case("move", tile_t((16, 64), memory=MAT), to=tile_t((16, 64), memory=LEFT), target_memory="Left")
case("move", tile_t((16, 1), memory=MAT), to=tile_t((16, 1), memory=RIGHT, blayout=ROW), target_memory="Right")
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


@pytest.mark.parametrize(("op", "operands", "kwargs", "expected"), TYPES, ids=[f"{r[0]}-{i}" for i, r in enumerate(TYPES)])
def test_the_result_type_of(op: str, operands: tuple[Any, ...], kwargs: dict[str, Any], expected: Type) -> None:
    assert infer(op, *operands, **kwargs) == expected
