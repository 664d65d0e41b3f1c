"""Whether a 2-D op computes the collapse of what the N-D op computes (`spec/flatten.md` section 14, L9, and section 2).

`col_sum` of [2, 3, 4] sums over the first axis and gives [1, 3, 4]; on [6, 4] it sums over both and gives [1, 4]. Upstream emits the
latter. Only ops of one cell or one row commute with the collapse, on operands that are repeated along rows or over the whole tile, and on
equal valid regions where the rows of a region do not form one run.
"""

from __future__ import annotations

from egraph_rules import forms
from pypto_ir.expr import index
from pypto_ir.linear import all_provably_equal
from pypto_ir.ops.registry import OpDef, Role, Trait, dims_text, find_op, type_of
from pypto_ir.stmt import Call
from pypto_ir.types import Dims, TileType, Type, same_dim, same_dims

ONE = index(1)
_BY_ROWS = frozenset({Trait.POINTWISE, Trait.ROW_WISE})
_OPAQUE = "its 2-D form is not known to compute the same"


def misfit(call: Call, stated: TileType | None, new: Call, deduced: Type | None) -> str | None:
    """Why `new`, whose operands are flat, is not the collapse of `call`, of which `stated` is the type; None where it is."""
    op = find_op(call.op)
    tiles = [(i, t) for i, t in enumerate(map(type_of, call.args)) if isinstance(t, TileType)]
    if op is None or not any(t.rank > 2 for t in (*(t for _, t in tiles), *((stated,) if stated else ()))):
        return None
    if stated is not None and isinstance(deduced, TileType):
        shape = stated.static_shape
        if shape is not None and deduced.static_shape != forms.collapsed(shape):
            return f"{call.op} of the flat tiles is {dims_text(deduced.shape)}, which is not the collapse of {dims_text(stated.shape)}"
    read = [(i, t) for i, t in tiles if _role(op, i) is not Role.SCRATCH]
    if op.trait in _BY_ROWS:
        return _rows_differ(call.op, [t for _, t in read], stated)
    if op.trait is Trait.OPAQUE:
        return f"{call.op} of tiles of rank above 2: {_OPAQUE}"
    for _, t in read:
        if op.trait is Trait.WHOLE and not forms.whole(t):
            return f"{call.op} takes cells by their place in {dims_text(t.shape)}, of which only {dims_text(t.valid)} is valid"
        if not forms.rows_prefix(t):
            return (
                f"{call.op}: only {dims_text(t.valid)} of {dims_text(t.shape)} is valid, whose rows lie close together in the flat tile "
                "and not where the op looks for them"
            )
    if stated is not None and isinstance(deduced, TileType) and not all_provably_equal(deduced.valid, forms.region(stated)):
        # an axis of one row of which a run tells whether it is valid: what is reduced over no row is no row in 2-D
        return (
            f"{call.op} of the flat tiles is valid in {dims_text(deduced.valid)}, and {dims_text(stated.valid)} of "
            f"{dims_text(stated.shape)} is {dims_text(forms.region(stated))}"
        )
    return None


def _role(op: OpDef, i: int) -> Role:
    return op.operands[min(i, len(op.operands) - 1)].role


def _rows_differ(name: str, operands: list[TileType], stated: TileType | None) -> str | None:
    """An operand that is repeated along an outer axis, or whose valid rows are others than those of the first one."""
    widest = max((stated, *operands) if stated is not None else operands, key=lambda t: t.rank)
    lead = _lead(stated.shape if stated is not None else widest.shape, widest.rank)
    first: Dims | None = None
    gaps = any(not forms.rows_prefix(t) for t in operands)
    for t in operands:
        own = _lead(t.shape, widest.rank)
        if all(same_dim(d, ONE) for d in own) and not same_dims(own, lead):
            continue  # one row, repeated over all rows of the flat tile as over those of every page
        if not same_dims(own, lead):
            return f"{name}: {dims_text(t.shape)} is repeated along an outer axis, which no flat tile is"
        valid = _lead(t.valid, widest.rank)
        if gaps and first is not None and not same_dims(valid, first):
            return f"{name}: the rows of the valid regions {dims_text(first)} and {dims_text(valid)} do not meet in the flat tiles"
        first = valid
    return None


def _lead(shape: Dims, rank: int) -> Dims:
    """The row dims of a shape that is lifted to `rank`."""
    return (*(ONE,) * (rank - len(shape)), *shape[:-1])
