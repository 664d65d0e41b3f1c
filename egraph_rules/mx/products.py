"""Operands of scaled products: the layouts and memories that their scales and data may have (`spec/mx.md` section 8).

A lhs is scaled by ZZ tiles (row_major/row_major, fractal 32, in Mat or LeftScale), a rhs by NN tiles (col_major/col_major, in Mat or
RightScale). `matmul_mx(l, l_scale, r, l_scale)` has the scales of its lhs where those of the rhs belong.
"""

from __future__ import annotations

from egraph_rules.mx.proofs import Where
from pypto_ir.diagnostics import Diagnostics, declare
from pypto_ir.ops.registry import kind_name, type_of
from pypto_ir.scale_boxes import FRACTAL, MX_LAYOUTS, is_scale_tile
from pypto_ir.stmt import Call
from pypto_ir.types import Layout, Memory, TileType

declare(B117="an operand of a scaled product lies in a memory or a layout of the other side")

#: op -> number of its first data operand; lhs, lhs scales, rhs and rhs scales follow each other
_PRODUCTS = {"tile.matmul_mx": 0, "tile.matmul_mx_bias": 0, "tile.matmul_mx_acc": 1}
_SIDES = (
    ("lhs", Layout.MX_A_ZZ, Memory.LEFT, Memory.LEFT_SCALE),
    ("rhs", Layout.MX_B_NN, Memory.RIGHT, Memory.RIGHT_SCALE),
)
#: memories from which an operand may still be moved to its own
_ON_THE_WAY = (None, Memory.MAT, Memory.VEC)


def check_product(at: Where, call: Call, bag: Diagnostics) -> None:
    """Report the operands of a scaled product that can never get where they belong."""
    first = _PRODUCTS.get(call.op)
    if first is None or len(call.args) < first + 4:
        return
    for i, (side, layout, data_memory, scale_memory) in enumerate(_SIDES):
        data, scale = type_of(call.args[first + 2 * i]), type_of(call.args[first + 2 * i + 1])
        if not isinstance(data, TileType) or not isinstance(scale, TileType):
            continue
        if data.memory not in (*_ON_THE_WAY, data_memory):
            message = f"the {side} of {call.op} is {kind_name(data)} in {data.memory.value if data.memory else 'no memory'}"
            bag.add("B117", message, at.place, f"move it to {data_memory.value}")
        boxed = scale.memory in (Memory.MAT, scale_memory)
        if scale.memory not in (*_ON_THE_WAY, scale_memory) or (boxed and not is_scale_tile(scale, layout)):
            view, order = scale.effective_view, MX_LAYOUTS[layout].value
            message = (
                f"the scales of the {side} of {call.op} are {kind_name(scale)} in {scale.memory.value if scale.memory else 'no memory'}, "
                f"{view.blayout.value}/{view.slayout.value}, fractal {view.fractal}"
            )
            wanted = f"{scale_memory.value}: {order}/{order}, fractal {FRACTAL}"
            help = f"load them from a tensor with layout {layout.value} and move them to {wanted}"
            bag.add("B117", message, at.place, help)
