"""Meanings: for every op at least one evaluation on small numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_support import BF16, FP32, INT8, INT16, INT32, UINT8, Value, const, defined, run

from pypto_ir.dtypes import DType
from pypto_ir.interp.memory import Tensor
from pypto_ir.types import Memory, TileLayout

N = None
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = []


def case(op: str, *operands: Any, to: Any, **kwargs: Any) -> None:
    CASES.append((f"tile.{op}" if "." not in op else op, operands, kwargs, to))


def t(data: Any, dtype: DType = FP32, **rest: Any) -> Value:
    return Value(data, dtype, **rest)


def i16(data: Any) -> Value:
    return t(data, INT16)


def i32(data: Any) -> Value:
    return t(data, INT32)


A, B = t([[1.0, -2.0, 3.0]]), t([[4.0, 5.0, -0.5]])
IA, IB = i16([[7, -7, 32767]]), i16([[2, 2, 1]])
TMP, ITMP = t([[0.0, 0.0, 0.0]], ok=False), i16([[0, 0, 0]])

case("add", A, B, to=[[5.0, 3.0, 2.5]])
case("add", IA, IB, to=[[9, -5, -32768]])
case("sub", A, B, to=[[-3.0, -7.0, 3.5]])
case("mul", A, B, to=[[4.0, -10.0, -1.5]])
case("maximum", A, B, to=[[4.0, 5.0, 3.0]])
case("minimum", A, B, to=[[1.0, -2.0, -0.5]])
case("fmod", t([[-7.0, 7.0]]), t([[3.0, -3.0]]), to=[[-1.0, 1.0]])
case("rem", t([[-7.0, 7.0]]), t([[3.0, -3.0]]), t([[0.0, 0.0]], ok=False), to=[[2.0, -2.0]])
case("and", IA, IB, to=[[2, 0, 1]])
case("or", IA, IB, to=[[7, -5, 32767]])
case("xor", IA, IB, ITMP, to=[[5, -5, 32766]])
case("xors", IA, const(1, INT16), ITMP, to=[[6, -8, 32766]])
case("shl", IA, IB, to=[[28, -28, -2]])
case("shr", IA, IB, to=[[1, -2, 16383]])
case("shls", IA, const(16, INT16), to=[[0, 0, 0]])
case("shrs", IA, const(1, INT16), to=[[3, -4, 16383]])
case("shrs", t([[200]], UINT8), const(1, UINT8), to=[[100]])
case("div", A, t([[2.0, 4.0, -3.0]]), to=[[0.5, -0.5, -1.0]])
case("div", IA, i16([[2, 2, 0]]), to=[[3, -3, 0]])
case("part_add", t([[1.0, 2.0, 3.0]]), t([[10.0, 20.0, 0.0]], valid=(1, 2)), to=[[11.0, 22.0, 3.0]])
case("part_mul", t([[1.0, 2.0, 3.0]]), t([[10.0, 20.0, 0.0]], valid=(1, 2)), to=[[10.0, 40.0, 3.0]])
case("part_max", t([[1.0, 2.0, 3.0]]), t([[-1.0, 20.0, 0.0]], valid=(1, 2)), to=[[1.0, 20.0, 3.0]])
case("part_min", t([[1.0, 2.0, 3.0]], ok=[[True, True, False]]), t([[-1.0, 20.0, 0.0]]), to=[[-1.0, 2.0, N]])
case("adds", A, const(0.5), to=[[1.5, -1.5, 3.5]])
case("subs", A, const(0.5), to=[[0.5, -2.5, 2.5]])
case("muls", A, const(2.0), to=[[2.0, -4.0, 6.0]])
case("divs", IA, const(2, INT16), to=[[3, -3, 16383]])
case("maximums", A, const(0.0), to=[[1.0, 0.0, 3.0]])
case("minimums", A, const(0.0), to=[[0.0, -2.0, 0.0]])
case("fmods", IA, const(4, INT16), to=[[3, -3, 3]])
case("rems", IA, const(4, INT16), ITMP, to=[[3, 1, 3]])
case("lrelu", A, const(0.5), to=[[1.0, -1.0, 3.0]])
case("prelu", A, t([[2.0, 3.0, 4.0]]), TMP, to=[[1.0, -6.0, 3.0]])
case("ands", IA, const(6, INT16), to=[[6, 0, 6]])
case("ors", IA, const(8, INT16), to=[[15, -7, 32767]])
case("addc", A, B, A, to=[[6.0, 1.0, 5.5]])
case("subc", A, B, A, to=[[-4.0, -5.0, 0.5]])
case("addsc", A, const(1.0), B, to=[[6.0, 4.0, 3.5]])
case("subsc", A, const(1.0), B, to=[[-4.0, -8.0, 2.5]])
case("neg", i16([[3, -32768]]), to=[[-3, -32768]])
case("exp", t([[0.0, -np.inf]]), to=[[1.0, 0.0]])
case("recip", t([[4.0, -0.5]]), to=[[0.25, -2.0]])
case("sqrt", t([[9.0, 2.25]]), to=[[3.0, 1.5]])
case("rsqrt", t([[4.0, 0.25]]), to=[[0.5, 2.0]])
case("abs", A, to=[[1.0, 2.0, 3.0]])
case("relu", A, to=[[1.0, 0.0, 3.0]])
case("log", t([[1.0, 0.0]]), to=[[0.0, -np.inf]])
case("sin", t([[0.0]]), to=[[0.0]])
case("cos", t([[0.0]]), to=[[1.0]])
case("not", i16([[0, 5]]), to=[[-1, -6]])

HALVES = t([[0.5, 1.5, 2.5, -0.5, -2.5, 1e10]])
for mode, numbers in {
    "none": [0, 2, 2, 0, -2],
    "rint": [0, 2, 2, 0, -2],
    "round": [1, 2, 3, -1, -3],
    "floor": [0, 1, 2, -1, -3],
    "ceil": [1, 2, 3, 0, -2],
    "trunc": [0, 1, 2, 0, -2],
    "odd": [1, 1, 3, -1, -3],
}.items():
    case("cast", HALVES, to=[[*numbers, 2147483647]], target_type="INT32", mode=mode)
case("cast", t([[np.nan, -5.0, 300.0]]), to=[[0, 0, 255]], target_type="UINT8")
case("cast", t([[-1e30, 1e30]]), to=[[-(2**63), 2**63 - 1]], target_type="INT64")
case("cast", i16([[300, -1]]), to=[[44, 255]], target_type="UINT8")
case("cast", t([[1.00390625, 1.01171875]]), to=[[1.0, 1.015625]], target_type="BF16")
case("cast", i32([[3]]), to=[[3.0]], target_type="FP16")

BITS = t([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]])
case("cmp", BITS, t([[5.0] * 10]), to=[[0b00111111, 0, *[N] * 30]], cmp_type=3)
case("cmp", i16([[1, 2]]), t([[1.0, 2.5]]), to=[[1, *[N] * 31]], cmp_type=0)
for kind, bits in enumerate((0b00000010, 0b11111101, 0b00000001, 0b00000011, 0b11111100, 0b11111110)):
    row = [bits, 0 if kind in (0, 2, 3) else 3]
    case("cmps", BITS, const(1.0), to=[[*row, *[N] * 30]], cmp_type=kind)
case("cmps", t([[9.0, 9.0, 9.0]], valid=(1, 2)), const(1.0), to=[[0b11, *[N] * 31]], cmp_type=4)
MASK = t([[0b101, *[0] * 31]], UINT8, valid=(1, 1))
case("sel", MASK, A, B, TMP, to=[[1.0, 5.0, 3.0]])
case("sel", MASK, t([[1.0, 2.0, 3.0]], ok=[[True, False, False]]), B, TMP, to=[[1.0, 5.0, N]])
case("sels", MASK, A, TMP, const(9.0), to=[[1.0, 9.0, 3.0]])

M23 = t([[1.0, 5.0, 5.0], [4.0, 2.0, -1.0]])
TMP23 = t(np.zeros((2, 3)), ok=False)
PART = t([[1.0, 2.0, 99.0], [3.0, 4.0, 99.0], [99.0, 99.0, 99.0]], valid=(2, 2))
TMP33 = t(np.zeros((3, 3)), ok=False)
for op, rows, columns in (
    ("sum", [[3.0], [7.0], [N]], [[4.0, 6.0, N]]),
    ("max", [[2.0], [4.0], [N]], [[3.0, 4.0, N]]),
    ("min", [[1.0], [3.0], [N]], [[1.0, 2.0, N]]),
    ("prod", [[2.0], [12.0], [N]], [[3.0, 8.0, N]]),
):
    case(f"row_{op}", PART, TMP33, to=rows)
    case(f"col_{op}", PART, to=columns)
case("row_argmax", M23, TMP23, to=[[1], [0]])
case("row_argmin", M23, TMP23, to=[[0], [2]])
case("col_argmax", M23, TMP23, to=[[1, 0, 0]])
case("col_argmin", M23, TMP23, to=[[0, 1, 1]])
case("col_sum", t([[[1.0, 2.0]], [[3.0, 4.0]]]), to=[[[4.0, 6.0]]])
case("row_sum", t([[100, 100]], INT8), t([[0, 0]], INT8), to=[[-56]])

R, C = t([[10.0], [2.0]]), t([[1.0, 2.0, 4.0]])
Q = t([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
case("row_expand", t(np.zeros((2, 3)), ok=False), R, to=[[10.0] * 3, [2.0] * 3])
case("row_expand_add", Q, R, to=[[11.0, 12.0, 13.0], [6.0, 7.0, 8.0]])
case("row_expand_add", Q, t([[10.0] * 8, [2.0] * 8]), to=[[11.0, 12.0, 13.0], [6.0, 7.0, 8.0]])
case("row_expand_sub", Q, R, to=[[-9.0, -8.0, -7.0], [2.0, 3.0, 4.0]])
case("row_expand_mul", Q, R, to=[[10.0, 20.0, 30.0], [8.0, 10.0, 12.0]])
case("row_expand_div", Q, t([[2.0], [4.0]]), to=[[0.5, 1.0, 1.5], [1.0, 1.25, 1.5]])
case("row_expand_max", Q, R, to=[[10.0] * 3, [4.0, 5.0, 6.0]])
case("row_expand_min", Q, R, to=[[1.0, 2.0, 3.0], [2.0] * 3])
case("row_expand_expdif", t([[1.0, -np.inf]]), t([[1.0]]), to=[[1.0, 0.0]])
case("row_expand_mul", t([[[1.0], [2.0]], [[3.0], [4.0]]]), R, to=[[[10.0], [4.0]], [[30.0], [8.0]]])
case("row_expand_mul", t([[1.0, 1.0]]), t([[[3.0]]]), to=[[3.0, 3.0]])
case("col_expand", t(np.zeros((2, 3)), ok=False), C, to=[[1.0, 2.0, 4.0]] * 2)
case("col_expand_add", Q, C, to=[[2.0, 4.0, 7.0], [5.0, 7.0, 10.0]])
case("col_expand_sub", Q, C, to=[[0.0, 0.0, -1.0], [3.0, 3.0, 2.0]])
case("col_expand_mul", Q, C, to=[[1.0, 4.0, 12.0], [4.0, 10.0, 24.0]])
case("col_expand_div", Q, C, to=[[1.0, 1.0, 0.75], [4.0, 2.5, 1.5]])
case("col_expand_max", Q, C, to=[[1.0, 2.0, 4.0], [4.0, 5.0, 6.0]])
case("col_expand_min", Q, C, to=[[1.0, 2.0, 3.0], [1.0, 2.0, 4.0]])
case("col_expand_expdif", t([[1.0], [1.0]]), t([[1.0]]), to=[[1.0], [1.0]])
case("col_expand_mul", Q, t([[2.0] * 3, [9.0] * 3]), to=[[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]])
case("expands", t(np.zeros((2, 2)), ok=False, valid=(1, 2)), const(3.0), to=[[3.0, 3.0], [N, N]])

G = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
case("load", Tensor.of("x", G, FP32), (1, 1, 2), (1, 2, 2), (1, 1, 2), to=[[[18.0, 19.0], [N, N]]])
case(
    "load",
    Tensor.of("x", G, FP32),
    (1, 2, 0),
    (1, 2, 4),
    (1, 2, 4),
    to=[[[20.0, 21.0, 22.0, 23.0], [N] * 4]],
    clamp=True,
)
case("create", (1, 2), to=[[N, N]], dtype="FP32")
case("full", (1, 2), const(1.5), to=[[1.5, 1.5]], dtype="FP32")
case("full", (1, 2), const(1.5), to=[[1, 1]], dtype="INT32")
case("slice", Q, (1, 2), (1, 1), to=[[5.0, 6.0]])
case("slice", t(G), (1, 1, 2), (1, 2, 2), (), (0,), to=[[22.0, 23.0]])
case("extract", PART, 1, 1, (2, 2), to=[[4.0, N], [N, N]])
case("assemble", Q, t([[7.0, 8.0]]), (1, 0), to=[[1.0, 2.0, 3.0], [7.0, 8.0, 6.0]])
case("assemble", t([[1.0, 2.0, 3.0]], BF16), t([[1.00390625]]), (0, 1), to=[[1.0, 1.0, 3.0]])
case("assemble", t([[1.0, 2.0, 3.0]]), t([[9.0, 9.0]], valid=(1, 1)), (0, 1), to=[[1.0, 9.0, N]])
case("reshape", t(G, valid=(1, 2, 4)), (6, 4), to=[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], *[[N] * 4] * 4])
case("reinterpret_view", t([[1.0, 2.0]]), to=[[0x3F800000, 0x40000000]], dtype="INT32")
case("reinterpret_view", i32([[0x00020001, 5]]), to=[[1, 2, 5, 0]], dtype="INT16")
case("reinterpret_view", t([[1, 2, 3, 4]], INT8), to=[[0x04030201]], dtype="INT32")
case("reinterpret_view", i32([[0x00020001], [5]]), to=[[1], [2], [5], [0]], dtype="INT16")
case("reinterpret_view", i32([[1, 2]]), (4, 1), to=[[1], [0], [2], [0]], dtype="INT16")
case("transpose", Q, 0, 1, to=[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])
case("transpose", PART, 0, 1, to=[[1.0, 3.0, N], [2.0, 4.0, N], [N, N, N]])
case("transpose_view", PART, to=[[1.0, 3.0, N], [2.0, 4.0, N], [N, N, N]])
case("move", PART, to=[[1.0, 2.0, N], [3.0, 4.0, N], [N] * 3], target_memory="Mat")
SCALE = {"blayout": TileLayout.ROW_MAJOR, "fractal": 32}
bytes_ = t([[127, 128]], UINT8, memory=Memory.MAT, view=SCALE)
case("move", bytes_, to=[[1.0, 2.0]], target_memory="LeftScale")
case("set_validshape", Q, 1, 2, to=[[1.0, 2.0, N], [N, N, N]])
case("fillpad", PART, to=[[1.0, 2.0, 0.0], [3.0, 4.0, 0.0], [0.0] * 3])
case("fillpad", t([[1.0, 2.0]], valid=(1, 1)), to=[[1.0, -np.inf]], pad_value="min")
case("fillpad", t([[1, 2]], INT8, valid=(1, 1)), to=[[1, 127]], pad_value="max")
case("fillpad_inplace", t([[1, 2]], UINT8, valid=(1, 1)), to=[[1, 0]], pad_value="min")
case(
    "fillpad_expand",
    t([[1.0, 9.0]], valid=(1, 1)),
    (2, 3),
    to=[[1.0, np.inf, np.inf], [np.inf] * 3],
    pad_value="max",
)
case("concat", t([[1.0]]), t([[2.0, 3.0]], valid=(1, 1)), to=[[1.0, 2.0, N]])
case("write", t([[1.0, 2.0]]), (0, 1), const(7.0), to=[[1.0, 7.0]])

X, Y = t([[1.0, 2.0], [3.0, 4.0]]), t([[5.0, 6.0], [7.0, 8.0]])
XY = [[19.0, 22.0], [43.0, 50.0]]
ONES, BIAS = t([[1.0, 1.0], [1.0, 1.0]]), t([[1.0, 2.0]])
case("matmul", X, Y, to=XY)
case("matmul", t([[1.0, 99.0], [3.0, 99.0]], valid=(2, 1)), Y, to=[[5.0, 6.0], [15.0, 18.0]])
case("matmul", t([[1.0, 2.0], [3.0, 4.0]], ok=[[True, False], [True, True]]), Y, to=[[N, N], XY[1]])
case("matmul", t([[100, 100]], INT8), t([[100], [100]], INT8), to=[[20000]])
case("matmul_acc", ONES, X, Y, to=[[20.0, 23.0], [44.0, 51.0]])
case("matmul_acc", t(np.zeros((2, 2)), ok=False), X, Y, const(True, DType.BOOL), to=XY)
case("matmul_acc", ONES, t([[1.0, 2.0], [9.0, 9.0]], valid=(1, 2)), Y, to=[[20.0, 23.0], [1.0, 1.0]])
case("matmul_bias", X, Y, BIAS, to=[[20.0, 24.0], [44.0, 52.0]])
VEC = t([[1.0, 2.0]])
UNDEF = [[N, N]] * 15
G16 = t(np.ones((16, 2)), valid=(1, 2))
case("gemv", VEC, Y, to=[XY[0], *UNDEF])
case("gemv_acc", G16, VEC, Y, to=[[20.0, 23.0], *UNDEF])
case("gemv_bias", VEC, Y, BIAS, to=[[20.0, 24.0], *UNDEF])
STACK = t([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]])
case("batch_matmul", STACK, Y, to=[XY, [[5.0, 6.0], [7.0, 8.0]]])
case(
    "batch_matmul_acc",
    t(np.ones((2, 2, 2))),
    STACK,
    Y,
    to=[[[20.0, 23.0], [44.0, 51.0]], [[6.0, 7.0], [8.0, 9.0]]],
)
E4M3, E8M0 = DType.FP8E4M3FN, DType.FP8E8M0
K = np.zeros((16, 64))
K[0, 0], K[0, 32] = 2.0, 3.0
SA = np.ones((16, 2))
SA[0] = [4.0, 0.5]
SB = np.ones((2, 32))
SB[1] = 8.0
MX = (t(K, E4M3), t(SA, E8M0), t(np.ones((64, 32)), E4M3), t(SB, E8M0))
MXY = [[2.0 * 4.0 + 3.0 * 0.5 * 8.0] * 32, *[[0.0] * 32] * 15]
case("matmul_mx", *MX, to=MXY)
case("matmul_mx_acc", t(np.full((16, 32), 0.5)), *MX, to=[[c + 0.5 for c in row] for row in MXY])
case("matmul_mx_bias", *MX, t([[1.0] * 32]), to=[[c + 1.0 for c in row] for row in MXY])


@pytest.mark.parametrize(("op", "operands", "kwargs", "expected"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_the_meaning_of(op: str, operands: tuple[Any, ...], kwargs: dict[str, Any], expected: Any) -> None:
    assert defined(run(op, *operands, **kwargs)) == expected
