"""Type rules refuse operands that do not fit, and say what was found."""

from __future__ import annotations

import re
from typing import Any

import pytest
from op_support import BF16, FP16, INT8, INT16, INT32, UINT8, V, at, const, infer, tensor_t, tile_t
from test_op_types import COL, COLUMN, E8M0, MX, N3, OUT, S32, X3, A, B, C, H, I, T, U

from pypto_ir.dtypes import DType
from pypto_ir.expr import index
from pypto_ir.ops.registry import OpError

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


@pytest.mark.parametrize(("op", "operands", "kwargs", "text"), REFUSED, ids=[f"{r[0]}-{r[3]}" for r in REFUSED])
def test_operands_that_do_not_fit_are_refused(op: str, operands: tuple[Any, ...], kwargs: dict[str, Any], text: str) -> None:
    with pytest.raises(OpError) as caught:
        infer(op, *operands, **kwargs)
    assert re.search(text, f"{caught.value.message}; {caught.value.help}")


def test_a_col_major_input_of_row_min_is_refused() -> None:
    with pytest.raises(OpError, match="col_major"):
        infer("tile.row_min", tile_t((16, 64), blayout=COL), U)
