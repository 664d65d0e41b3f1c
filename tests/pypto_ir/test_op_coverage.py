"""Every op of the registry has a test of its type rule and of its meaning, and every op of the specification
and of the printed programs is in the registry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import test_op_effects
import test_op_gathers
import test_op_meanings
import test_op_tensors
import test_op_types

from pypto_ir.ops.registry import all_ops, find_op

SHARED = Path(__file__).parents[2].parent / "shared"
#: twins of tile ops, compared with them one by one
TWINS = {f"tensor.{name}" for name in test_op_tensors.PLAIN}
#: ops whose result is no tile; tested by name
OTHERS = {
    "tile.store", "tile.read", "tensor.read", "tensor.write", "tensor.view", "tensor.dim",
    "tile.gather_compare", "tensor.gather_compare", "tile.mscatter", "tile.alloc", "tile.tget_scale_addr",
    "array.create", "array.get_element", "array.update_element",
    "tile.sort32", "tile.mrgsort_format1", "tile.mrgsort_format2",
}  # fmt: skip
NAME = re.compile(r"\b(?:tile|tensor|array|system|pld(?:\.\w+)*)\.[a-z]\w*")


def test_every_op_has_a_type_test() -> None:
    tables = (test_op_types.TYPES, test_op_gathers.TYPES, test_op_effects.TYPES, test_op_tensors.TYPES)
    tested = {row[0] for table in tables for row in table} | TWINS
    assert tested == {op.name for op in all_ops()}


def test_every_op_with_a_meaning_has_a_meaning_test() -> None:
    tables = (test_op_meanings.CASES, test_op_gathers.MEANINGS, test_op_tensors.MEANINGS)
    tested = {row[0] for table in tables for row in table} | TWINS | OTHERS
    assert tested == {op.name for op in all_ops() if op.meaning is not None}


TILE_OPS = """
load store move create full ci tri random slice extract assemble reshape reinterpret_view transpose
transpose_view concat set_validshape fillpad fillpad_inplace fillpad_expand read write
add sub mul maximum minimum fmod and or div part_add part_mul part_max part_min
adds subs muls divs maximums minimums fmods ands ors shls shrs shl shr xor xors rem rems
addc subc addsc subsc neg exp recip sqrt abs relu log rsqrt sin cos not cast lrelu prelu
cmp cmps sel sels row_sum row_max row_min row_prod row_argmax row_argmin
col_sum col_max col_min col_prod col_argmax col_argmin row_expand col_expand expands
row_expand_add row_expand_sub row_expand_mul row_expand_div row_expand_max row_expand_min row_expand_expdif
col_expand_add col_expand_sub col_expand_mul col_expand_div col_expand_max col_expand_min col_expand_expdif
matmul matmul_acc matmul_bias gemv gemv_acc gemv_bias batch_matmul batch_matmul_acc
matmul_mx matmul_mx_acc matmul_mx_bias tget_scale_addr gather gather_mask gatherb gather_compare
mgather mscatter scatter scatter_mask scatter_update sort32 mrgsort_format1 mrgsort_format2
gather_row get_block_idx get_block_num get_subblock_idx alloc aiv_shard aic_gather
tpush_to_aiv tpush_to_aic tpop_from_aic tpop_from_aiv
"""
TENSOR_OPS = """
view dim read write create slice assemble reshape transpose full cast add exp matmul matmul_acc row_sum
col_max fillpad gather gather_mask scatter scatter_update sort32 random ci expand_clone set_validshape
paged_gather create_l1 gather_row concat aiv_shard aic_gather adds muls
"""
ARRAY_OPS = "create get_element update_element"
SYSTEM_OPS = """
sync_src sync_dst bar_v bar_all syncall fence cacheinvalid tfree_to_aic tfree_to_aiv reserve_buffer
import_peer_buffer aic_initialize_pipe aiv_initialize_pipe task_dummy task_invalid
"""
PLD_OPS = """
tile.remote_load tile.remote_store tile.get tile.put tensor.allreduce tensor.put alloc_window_buffer window
world_size rank nranks get_comm_ctx system.notify system.wait
"""
#: what `spec/tile_ir.md` sections 7 and 10 name, families written out
SPECIFIED = [
    f"{space}.{word}"
    for space, words in (
        ("tile", TILE_OPS),
        ("tensor", TENSOR_OPS),
        ("array", ARRAY_OPS),
        ("system", SYSTEM_OPS),
        ("pld", PLD_OPS),
    )
    for word in words.split()
]


@pytest.mark.parametrize("name", SPECIFIED)
def test_an_op_of_the_specification_is_known(name: str) -> None:
    assert find_op(name) is not None


@pytest.mark.parametrize("path", sorted((SHARED / "dumps").glob("*.py")), ids=lambda p: p.stem)
def test_ops_of_printed_programs_are_known(path: Path) -> None:
    names = {m.group().removesuffix("_") for m in NAME.finditer(path.read_text())}
    assert sorted(n for n in names if find_op(n) is None) == []
