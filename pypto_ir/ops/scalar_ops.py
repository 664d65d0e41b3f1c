"""Ops that ask where the program runs: the block of the core, the number of blocks, the vector lane
(`spec/tile_ir.md` section 7).

All give an INDEX. Their value belongs to the run, not to the operands, so they have no meaning here: the
interpreter supplies it.
"""

from __future__ import annotations

from pypto_ir.ops.registry import CallSite, Trait, declare_op
from pypto_ir.types import INDEX, Type


def _index_type(_: CallSite) -> Type:
    return INDEX


for _name in ("get_block_idx", "get_block_num", "get_subblock_idx"):
    declare_op(f"tile.{_name}", (), infer=_index_type, trait=Trait.OPAQUE)
