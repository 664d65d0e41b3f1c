"""What the machine can do to fill L1, checked on emitted programs: a load makes boxes of one matrix, unless they lie in memory as boxes
(`spec/hardware.md` 4.7), and no tile there is copied into another (`spec/flatten.md` 9)."""

from __future__ import annotations

from pypto_ir.expr import const_int
from pypto_ir.ops.registry import type_of
from pypto_ir.stmt import Assign, Call, Function, tuple_items, walk
from pypto_ir.types import Layout, Memory, TensorType, TileLayout, TileType
from pypto_ir.verify.places import statement_text


def impossible(f: Function) -> list[str]:
    """The statements of a function that fill L1 in a way that the machine has not."""
    found = [s for s in walk(f.body) if isinstance(s, Assign) and isinstance(s.value, Call) and not _possible(s, s.value)]
    return [statement_text(s) for s in found]


def _possible(s: Assign, call: Call) -> bool:
    made = s.target.type
    if not isinstance(made, TileType) or made.memory is not Memory.MAT:
        return True
    if call.op == "tile.assemble":
        part = type_of(call.args[1])
        return isinstance(part, TileType) and part.memory is not Memory.MAT
    source = type_of(call.args[0]) if call.op == "tile.load" else None
    if not isinstance(source, TensorType) or made.effective_view.slayout is TileLayout.NONE_BOX:
        return True
    return source.layout not in (Layout.ND, Layout.DN) or all(const_int(n) == 1 for n in (tuple_items(call.args[2]) or ())[:-2])
