"""Ops on whole tensors in Orchestration bodies: result types, memory that is shared or new, meanings."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
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
    at,
    cells,
    const,
    evaluation,
    infer,
    run,
    tensor_t,
    tile_t,
)

from pypto_ir.dtypes import DType
from pypto_ir.interp.memory import Tensor
from pypto_ir.interp.values import RunError, Tile
from pypto_ir.ops.registry import Kind, OpError, Role, find_op
from pypto_ir.ops.rules import infer_call
from pypto_ir.ops.tensor_twins import REDUCTIONS, TWINS, as_tensor
from pypto_ir.stmt import Call
from pypto_ir.types import (
    Layout,
    Pad,
    TensorView,
    TupleType,
    Type,
    UnknownType,
    dims,
    scalar_var,
    tensor_type,
)

N = None
UINT32 = DType.UINT32
X, P = tensor_t((32, 64)), tensor_t((32, 64), valid=(V, 64))
D = scalar_var("d")
SEEDS = tuple(scalar_var(f"s{i}", INT32) for i in range(6))
PADDED = tensor_type(dims(32, 64), FP32, TensorView(pad=Pad.MIN))

TYPES: list[tuple[str, tuple[Any, ...], dict[str, Any], Type]] = [
    ("tensor.create", ((32, 64),), {"dtype": "FP32", "layout": "ND"}, X),
    (
        "tensor.create",
        ((D, 64),),
        {"dtype": "BF16", "layout": "DN", "manual_dep": True},
        tensor_t((D, 64), BF16, layout=Layout.DN),
    ),
    ("tensor.create", ((4,),), {"dtype": "INT32", "layout": "ND", "init_value": 0}, tensor_t((4,), INT32)),
    ("tensor.full", ((32, 64), const(1.0)), {"dtype": "FP32"}, X),
    ("tensor.create_l1", ((32, 64),), {"dtype": "FP32", "slots": 2}, X),
    ("tensor.expand_clone", (tensor_t((1, 64)), (32, 64)), {}, X),
    ("tensor.paged_gather", (X, at(1, 2)), {"pages": 4}, UnknownType()),
    ("tensor.slice", (tensor_t((D, 64)), (32, 64), (V, 0)), {}, X),
    ("tensor.slice", (X, (1, 64), (3, 0), (), (0,)), {}, tensor_t((64,))),
    (
        "tensor.slice",
        (X, (16, 64), (0, 0), (V, 64)),
        {"pad_value": "min"},
        tensor_type(dims(16, 64), FP32, TensorView(valid=dims(V, 64), pad=Pad.MIN)),
    ),
    ("tensor.reshape", (X, (2, 16, 64)), {}, tensor_t((2, 16, 64))),
    ("tensor.set_validshape", (X, V, 64), {}, P),
    ("tensor.assemble", (tensor_t((D, 64)), X, (V, 0)), {}, tensor_t((D, 64))),
    (
        "tensor.assemble",
        (tensor_t((32, 64), valid=(8, 64)), tensor_t((8, 64)), (8, 0)),
        {"atomic": "Add"},
        tensor_t((32, 64), valid=(16, 64)),
    ),
    (
        "tensor.matmul",
        (tensor_t((16, 64), BF16), tensor_t((64, 32), BF16)),
        {"a_trans": False, "b_trans": False, "c_matrix_nz": False},
        tensor_t((16, 32), BF16),
    ),
    (
        "tensor.matmul",
        (tensor_t((2, 64, 16), BF16), tensor_t((32, 64), BF16)),
        {"a_trans": True, "b_trans": True, "out_dtype": "FP32"},
        tensor_t((2, 16, 32)),
    ),
    (
        "tensor.matmul_acc",
        (tensor_t((16, 32)), tensor_t((16, 64), BF16), tensor_t((64, 32), BF16)),
        {"a_trans": False},
        tensor_t((16, 32)),
    ),
    ("tensor.row_sum", (P,), {}, tensor_t((32, 1), valid=(V, 1))),
    ("tensor.row_max", (P,), {"axis": -1, "keep_dim": False}, tensor_t((32,), valid=(V,))),
    ("tensor.col_sum", (tensor_t((4, 8, 64)),), {"axis": 0, "keep_dim": False}, tensor_t((8, 64))),
    ("tensor.col_argmax", (X,), {}, tensor_t((1, 64), INT32)),
    ("tensor.scatter", (X, tensor_t((1, 4)), tensor_t((1, 4), INT32)), {}, X),
    ("tensor.gather_row", (X, tensor_t((128, 64)), (0, 0), (7, 0), (1, 64)), {"transpose": False}, X),
    ("tensor.fillpad", (P,), {"pad_value": "min"}, PADDED),
    ("tensor.cast", (X,), {"target_type": "BF16", "mode": "round"}, tensor_t((32, 64), BF16)),
    ("tensor.div", (X, tensor_t((1, 64))), {}, X),
    ("tensor.row_expand_mul", (P, tensor_t((32, 1))), {}, P),
    (
        "tensor.gather_compare",
        (X, const(1.0)),
        {"cmp_mode": 4, "out_cols": 8},
        TupleType((tensor_t((32, 8), INT32), tensor_t((1, 32), INT32))),
    ),
    ("tensor.ci", (const(0, INT32), (1, 8)), {"dtype": "INT32"}, tensor_t((1, 8), INT32)),
    ("tensor.tri", (const(0, INT32), (8, 8)), {"dtype": "FP32"}, tensor_t((8, 8))),
    ("tensor.gather", (X, tensor_t((8, 4), INT32)), {}, tensor_t((8, 4))),
    ("tensor.gather_mask", (X,), {"mask_pattern": 3}, tensor_t((32, 16))),
    ("tensor.gatherb", (X, tensor_t((32, 2), UINT32)), {}, tensor_t((32, 16))),
    ("tensor.scatter_mask", (X, tensor_t((32, 32))), {"mask_pattern": 1}, X),
    ("tensor.scatter_update", (X, tensor_t((1, 2), INT32), tensor_t((2, 64))), {"dim": -2}, X),
    ("tensor.sort32", (X, tensor_t((32, 64), UINT32)), {}, tensor_t((32, 128))),
    ("tensor.mrgsort_format1", (X, const(16, INT32)), {}, X),
    ("tensor.mrgsort_format2", (X, X, tensor_t((32, 128))), {}, tensor_t((32, 128))),
    ("tensor.aiv_shard", (X,), {"split": 1}, tensor_t((16, 64))),
    ("tensor.aic_gather", (X,), {"split": 2}, tensor_t((32, 128))),
    ("tensor.sels", (tensor_t((32, 32), UINT8), X, const(1.0)), {}, X),
    ("tensor.transpose", (X, 0, 1), {}, tensor_t((64, 32))),
    (
        "tensor.fillpad_expand",
        (X, (64, 64)),
        {"pad_value": "zero"},
        tensor_type(dims(64, 64), FP32, TensorView(pad=Pad.ZERO)),
    ),
    ("tensor.not", (tensor_t((4, 4), INT16),), {}, tensor_t((4, 4), INT16)),
    ("tensor.random", (*SEEDS, (8, 64)), {"dtype": "UINT32"}, tensor_t((8, 64), UINT32)),
]


@pytest.mark.parametrize(("op", "operands", "kwargs", "expected"), TYPES, ids=[f"{r[0]}-{i}" for i, r in enumerate(TYPES)])
def test_the_result_type_of(op: str, operands: Any, kwargs: Any, expected: Type) -> None:
    assert infer(op, *operands, **kwargs) == expected


REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("tensor.create", ((0, 4),), {"dtype": "FP32"}, "all positive"),
    ("tensor.create", ((),), {"dtype": "FP32"}, "at least one dim"),
    ("tensor.expand_clone", (X, (1, 64)), {}, "expand_clone of"),
    ("tensor.slice", (X, (32, 64), (1, 0)), {}, "past the end"),
    ("tensor.slice", (X, (2, 64), (0, 0), (), (0,)), {}, "only full unit axes"),
    ("tensor.reshape", (X, (32, 32)), {}, "2048 elements are not 1024"),
    ("tensor.set_validshape", (X, 33, 64), {}, "set_validshape"),
    ("tensor.assemble", (X, tensor_t((8, 64), BF16), (0, 0)), {}, "cast the source"),
    ("tensor.assemble", (X, tensor_t((64,)), (0, 0)), {}, "same rank"),
    (
        "tensor.assemble",
        (tensor_t((4, 4), UINT8), tensor_t((4, 4), UINT8), (0, 0)),
        {"atomic": "Add"},
        "atomically",
    ),
    ("tensor.matmul", (X, X), {}, "K does not agree"),
    ("tensor.matmul", (tensor_t((64,)), X), {}, "rank 2 or more"),
    ("tensor.matmul_acc", (X, X, X), {"b_trans": True}, "the accumulator of"),
    ("tensor.row_sum", (X,), {"axis": 0}, "it reduces axis 1 of rank 2"),
    ("tensor.add", (X, tensor_t((3, 64))), {}, "do not broadcast"),
]


@pytest.mark.parametrize(("op", "operands", "kwargs", "text"), REFUSED, ids=[f"{r[0]}-{r[3]}" for r in REFUSED])
def test_operands_that_do_not_fit_are_refused(op: str, operands: Any, kwargs: Any, text: str) -> None:
    with pytest.raises(OpError) as caught:
        infer(op, *operands, **kwargs)
    assert re.search(text, f"{caught.value.message}; {caught.value.help}")


# ---- twins -------------------------------------------------------------------------------------------------

#: twins whose operands the generic call below does not fit, with operands of their own in TYPES or MEANINGS
SPECIAL = {
    "ci", "tri", "random", "gather", "gatherb", "gather_compare", "gather_mask", "gather_row", "scatter",
    "scatter_mask", "scatter_update", "sort32", "mrgsort_format1", "mrgsort_format2",
    "aiv_shard", "aic_gather", "div", "sels", "transpose", "fillpad_expand", "not",
}  # fmt: skip
KWARGS = {"cmp": {"cmp_type": 4}, "cmps": {"cmp_type": 0}, "cast": {"target_type": "INT8"}}
INTEGER = {"and", "or", "xor", "shl", "shr", "ands", "ors", "xors", "shls", "shrs"}
PLAIN = sorted({*TWINS, *REDUCTIONS} - SPECIAL)


def operands_of(name: str) -> tuple[list[Any], list[Any]]:
    """Tensors for `tensor.<name>` and tiles for `tile.<name>` of the same content."""
    op = find_op(f"tile.{name}")
    assert op is not None
    dtype = INT32 if name in INTEGER else FP32
    rng, tensors, tiles = np.random.default_rng(3), [], []
    for o in op.operands:
        if o.optional:
            break
        if o.kind is Kind.SCALAR:
            tensors.append(const(2 if dtype is INT32 else 2.0, dtype))
            tiles.append(tensors[-1])
            continue
        shape = {Role.ROW_SCALAR: (4, 1), Role.COL_VECTOR: (1, 64)}.get(o.role, (4, 64))
        held = UINT8 if o.name == "mask" else dtype
        data = rng.integers(1, 9, shape)
        if o.role is not Role.SCRATCH:
            tensors.append(Tensor.of(o.name, data, held))
        tiles.append((data, held))
    return tensors, tiles


@pytest.mark.parametrize("name", PLAIN)
def test_a_twin_has_type_and_value_of_its_tile_op(name: str) -> None:
    from op_support import Value

    tensors, tiles = operands_of(name)
    kwargs: dict[str, Any] = KWARGS.get(name, {})
    tile_types = [o if not isinstance(o, tuple) else tile_t(o[0].shape, o[1]) for o in tiles]
    tensor_types = [o if not isinstance(o, Tensor) else tensor_t(o.shape, o.dtype) for o in tensors]
    assert infer(f"tensor.{name}", *tensor_types, **kwargs) == as_tensor(infer(f"tile.{name}", *tile_types, **kwargs))
    values = [o if not isinstance(o, tuple) else Value(o[0], o[1]) for o in tiles]
    wanted: Tile = run(f"tile.{name}", *values, **kwargs)
    found: Tensor = run(f"tensor.{name}", *tensors, **kwargs)
    data, ok = found.read((0, 0), found.shape)
    assert found.dtype is tensor_dtype(name, kwargs, tensor_types) and ok.tolist() == wanted.readable().tolist()
    assert data.tobytes() == np.ascontiguousarray(wanted.data).tobytes()


def tensor_dtype(name: str, kwargs: Any, types: list[Any]) -> DType:
    return infer(f"tensor.{name}", *types, **kwargs).dtype  # type: ignore[union-attr]


@pytest.mark.parametrize("name", sorted({*TWINS, *REDUCTIONS, "div"}))
def test_a_twin_reads_its_tensors_and_is_believed(name: str) -> None:
    op, tile_op = find_op(f"tensor.{name}"), find_op(f"tile.{name}")
    assert op is not None and tile_op is not None
    tensors = tuple(i for i, o in enumerate(op.operands) if o.kind is Kind.TENSOR)
    assert op.reads_memory == tensors and op.annotated
    assert op.writes_memory == ((0,) if tile_op.writes else ())
    assert (op.meaning is None) == (tile_op.meaning is None)


# ---- meanings ----------------------------------------------------------------------------------------------


def x(data: Any, dtype: DType = FP32) -> Tensor:
    return Tensor.of("x", np.asarray(data), dtype)


A = [[1.0, 2.0], [3.0, 4.0]]
MEANINGS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("tensor.create", ((2,),), {"dtype": "FP32", "layout": "ND"}, [N, N]),
    ("tensor.create", ((2,),), {"dtype": "INT32", "layout": "ND", "init_value": 7}, [7, 7]),
    ("tensor.full", ((1, 2), const(1.5)), {"dtype": "FP16"}, [[1.5, 1.5]]),
    ("tensor.expand_clone", (x([[1.0, 2.0]]), (2, 2)), {}, [[1.0, 2.0], [1.0, 2.0]]),
    ("tensor.slice", (x(A), (1, 2), (1, 0)), {}, [[3.0, 4.0]]),
    ("tensor.slice", (x(A), (1, 2), (1, 0), (), (0,)), {}, [3.0, 4.0]),
    ("tensor.slice", (x(A), (2, 2), (1, 0)), {"clamp": True}, [[3.0, 4.0]]),
    ("tensor.reshape", (x(A), (4,)), {}, [1.0, 2.0, 3.0, 4.0]),
    ("tensor.set_validshape", (x(A), 1, 2), {}, A),
    ("tensor.assemble", (x(A), x([[9.0]]), (1, 0)), {}, [[1.0, 2.0], [9.0, 4.0]]),
    ("tensor.assemble", (x(A), x([[9.0]]), (1, 0)), {"atomic": "Add"}, [[1.0, 2.0], [12.0, 4.0]]),
    ("tensor.matmul", (x(A), x(A)), {}, [[7.0, 10.0], [15.0, 22.0]]),
    ("tensor.matmul", (x(A), x(A)), {"a_trans": True}, [[10.0, 14.0], [14.0, 20.0]]),
    ("tensor.matmul", (x(A), x(A)), {"b_trans": True}, [[5.0, 11.0], [11.0, 25.0]]),
    ("tensor.matmul", (x([[100]], INT8), x([[100]], INT8)), {"out_dtype": "INT32"}, [[10000]]),
    ("tensor.matmul_acc", (x([[1.0, 1.0]] * 2), x(A), x(A)), {}, [[8.0, 11.0], [16.0, 23.0]]),
    (
        "tensor.matmul_acc",
        (x([[1.0, 1.0]] * 2), x(A), x(A), const(True, DType.BOOL)),
        {},
        [[7.0, 10.0], [15.0, 22.0]],
    ),
    ("tensor.row_sum", (x(A),), {"keep_dim": False}, [3.0, 7.0]),
    ("tensor.col_max", (x(A),), {"keep_dim": False}, [3.0, 4.0]),
    ("tensor.div", (x(A), x([[2.0, 4.0]])), {}, [[0.5, 0.5], [1.5, 1.0]]),
    ("tensor.not", (x([[0]], INT16),), {}, [[-1]]),
    ("tensor.transpose", (x(A), 0, 1), {}, [[1.0, 3.0], [2.0, 4.0]]),
    ("tensor.sels", (x([[1] + [0] * 31], UINT8), x([[1.0, 2.0]]), const(9.0)), {}, [[1.0, 9.0]]),
    ("tensor.fillpad_expand", (x([[1.0]]), (1, 2)), {"pad_value": "zero"}, [[1.0, 0.0]]),
    ("tensor.ci", (const(0, INT32), (1, 3)), {"dtype": "INT32"}, [[0, 1, 2]]),
    ("tensor.tri", (const(0, INT32), (2, 2)), {"dtype": "FP32"}, [[1.0, 0.0], [1.0, 1.0]]),
    ("tensor.gather", (x(A), x([[3, 0]], INT32)), {}, [[4.0, 1.0]]),
    ("tensor.gather_mask", (x(A),), {"mask_pattern": 2}, [[2.0], [4.0]]),
    ("tensor.gatherb", (x([list(range(8))], INT32), x([[0]], UINT32)), {}, [list(range(8))]),
    ("tensor.gather_row", (x(A), x([[7.0, 8.0]]), (1, 0), (0, 0), (1, 2)), {}, [[1.0, 2.0], [7.0, 8.0]]),
    ("tensor.scatter", (x(A), x([[9.0]]), x([[3]], INT32)), {}, [[1.0, 2.0], [3.0, 9.0]]),
    ("tensor.scatter_mask", (x([[0.0, 0.0]]), x([[5.0]])), {"mask_pattern": 1}, [[5.0, N]]),
    ("tensor.scatter_update", (x(A), x([[0]], INT32), x([[9.0, 8.0]])), {}, [[9.0, 8.0], [3.0, 4.0]]),
    ("tensor.sort32", (x([[1.0]], FP16), x([[0]], UINT32)), {}, [[N, N]]),
    (
        "tensor.mrgsort_format1",
        (x([[4.0, 0.0, 3.0, 0.0, 2.0, 0.0, 5.0, 0.0]]), const(2, INT32)),
        {},
        [[5.0, 0.0, 4.0, 0.0, 3.0, 0.0, 2.0, 0.0]],
    ),
    (
        "tensor.mrgsort_format2",
        (x([[4.0, 0.0]]), x([[5.0, 0.0]]), x([[0.0] * 4])),
        {},
        [[5.0, 0.0, 4.0, 0.0]],
    ),
]


@pytest.mark.parametrize(("op", "operands", "kwargs", "expected"), MEANINGS, ids=[f"{r[0]}-{i}" for i, r in enumerate(MEANINGS)])
def test_the_meaning_of(op: str, operands: Any, kwargs: Any, expected: Any) -> None:
    fresh = [Tensor.of("x", o.read((0,) * len(o.shape), o.shape)[0], o.dtype) if isinstance(o, Tensor) else o for o in operands]
    assert cells(run(op, *fresh, **kwargs)) == expected


def test_matches_of_a_tensor_are_two_tensors() -> None:
    found, counts = run("tensor.gather_compare", x(A), const(2.0), cmp_mode=4, out_cols=2)
    assert (cells(found), cells(counts)) == ([[N, N], [0, 1]], [[0, 2]])


def test_slices_and_reshapes_share_memory() -> None:
    whole = x(np.zeros((4, 2)))
    window = run("tensor.slice", whole, (2, 2), (2, 0))
    run("tensor.assemble", window, x([[5.0]]), (1, 1))
    assert cells(whole)[3] == [0.0, 5.0]
    assert cells(run("tensor.reshape", whole, (2, 4)))[1] == [0.0, 0.0, 0.0, 5.0]


def test_a_slice_is_valid_where_its_source_is() -> None:
    source = x(np.zeros((4, 2))).view((4, 2), (3, 2))
    declared = find_op("tensor.slice")
    assert declared is not None and declared.meaning is not None
    made = declared.meaning(evaluation(declared, [source, (2, 2), (2, 0)], {}, tensor_t((2, 2))))
    assert (made.shape, made.valid) == ((2, 2), (1, 2))


def test_a_slice_past_its_source_and_a_reshape_with_gaps_are_run_errors() -> None:
    declared, reshape = find_op("tensor.slice"), find_op("tensor.reshape")
    assert declared is not None and declared.meaning is not None
    assert reshape is not None and reshape.meaning is not None
    with pytest.raises(RunError, match=r"tensor\.slice of"):
        declared.meaning(evaluation(declared, [x(A), (2, 2), (1, 0)], {}, tensor_t((2, 2))))
    window = x(A).window((0, 0), (2, 1))
    with pytest.raises(RunError, match="gaps"):
        reshape.meaning(evaluation(reshape, [window, (1, 2)], {}, tensor_t((1, 2))))


def test_ops_that_make_tensors_leave_their_operands_alone() -> None:
    source = x(A)
    made = run("tensor.adds", source, const(1.0))
    assert cells(source) == A and made.buffer is not source.buffer


def test_a_type_that_a_program_states_may_differ() -> None:
    op = find_op("tensor.matmul")
    assert op is not None and op.annotated
    assert isinstance(infer_call(Call("tensor.paged_gather")), UnknownType)
