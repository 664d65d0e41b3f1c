"""What declarations say beyond types: unknown ops, omitted operands, aliases, writes, traits, roles."""

from __future__ import annotations

import pytest
from op_support import BF16, INT32, infer
from test_op_types import MASK, N3, T, U

from pypto_ir.ops.registry import Role, Trait, all_ops, find_op
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import Call
from pypto_ir.types import scalar_var


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
            "matmul_mx_acc", "fillpad_inplace", "write", "tget_scale_addr",
            "scatter", "scatter_mask", "scatter_update", "gather_row",
        )
    }  # fmt: skip
    names = ("slice", "reshape", "reinterpret_view", "transpose_view", "set_validshape")
    tensors = ("view", "slice", "reshape", "set_validshape")
    assert views == {*(f"tile.{name}" for name in names), *(f"tensor.{name}" for name in tensors)}


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
