"""The price of one op on one target: cycles per pipe and bytes per channel.

`cycles("tile.load", (tensor, ..), tile [128, 256] FP16 in Mat, (), ascend910b)` is 836.4 cycles of MTE2 and 3
of S, the issue. The price depends on the types of operands and result alone, so that a candidate can be
priced before it is a statement, and it is remembered. Every op but a window of L0C has a price above zero: views
and creates take a cycle of S, an op of which nothing is known takes the fallback of `spec/hardware.md` 3, a
declared op of no family takes that of its trait.

Prices are additive: the start of a vector stream, which the first instruction of a stream pays and those
behind it do not, is no part of them. What every instruction pays is its issue on S. The window of a load or
store has no price of its own: its bytes are those of the tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from extract import cycles_vector as vector
from extract.cycles import ZERO, Cycles
from extract.cycles_cube import is_product, product
from extract.extent import Extent, extent
from extract.moves import Cost, fallback, fill_mat, scalar, together, transfer, vector_copy
from extract.target import Target
from pypto_ir.ops.registry import Kind, Role, ShapeRule, Trait, find_op, type_of
from pypto_ir.stmt import Call, Keywords
from pypto_ir.types import Memory, TensorType, TileType, Type

_SCALAR = frozenset(
    {
        "tile.create", "tile.slice", "tile.reshape", "tile.reinterpret_view", "tile.transpose_view",
        "tile.set_validshape", "tile.alloc", "tile.read", "tile.write", "tile.tget_scale_addr",
        "tile.get_block_idx", "tile.get_block_num", "tile.get_subblock_idx",
        "tile.tpush_to_aiv", "tile.tpush_to_aic", "tile.tpop_from_aic", "tile.tpop_from_aiv",
        "system.tfree_to_aic", "system.tfree_to_aiv",
        "tensor.view", "tensor.dim", "tensor.read", "tensor.write", "tensor.create", "tensor.slice",
        "tensor.reshape", "tensor.set_validshape",
        "array.create", "array.get_element", "array.update_element",
    }
)  # fmt: skip
_LOADS = frozenset({"tile.load", "tile.gather_row", "tile.mgather", "pld.tile.remote_load"})
_STORES = frozenset({"tile.store", "tile.mscatter", "pld.tile.remote_store"})
_MOVES = frozenset({"tile.move", "tile.extract", "tile.aiv_shard", "tile.aic_gather"})


def cycles(op: str, operands: Sequence[Type], result: Type, kwargs: Keywords, target: Target) -> Cycles:
    """Cycles per pipe of one op on operands of these types."""
    return cost(op, tuple(operands), result, kwargs, target).cycles


def call_cost(call: Call, result: Type, target: Target) -> Cost:
    """The price of a call whose result has type `result`, as a statement: what costs anything is one instruction."""
    return _stated(call.op, tuple(type_of(a) for a in call.args), result, call.kwargs, target)


#: a program asks for the same prices again and again, other programs for others
@lru_cache(maxsize=1 << 12)
def _stated(op: str, operands: tuple[Type, ...], result: Type, kwargs: Keywords, target: Target) -> Cost:
    priced = cost(op, operands, result, kwargs, target)
    return priced if priced.cycles == ZERO else priced._replace(cycles=replace(priced.cycles, code=1.0))


def cost(op: str, operands: tuple[Type, ...], result: Type, kwargs: Keywords, target: Target) -> Cost:
    """The price of one op: cycles per pipe and bytes per channel. What the vector unit does includes bringing its operands to UB: a later
    pass moves there what lies elsewhere (`spec/tile_ir.md` 6)."""
    own = _alone(op, operands, result, kwargs, target)
    afar = [t for t in operands if isinstance(t, TileType) and t.memory not in (None, Memory.VEC)] if own.cycles.v else []
    return together((own, *(transfer(t.memory or Memory.VEC, Memory.VEC, extent(t), target) for t in afar))) if afar else own


def _alone(op: str, operands: tuple[Type, ...], result: Type, kwargs: Keywords, target: Target) -> Cost:
    """The price of one op on operands where its unit reads them."""
    if _folds(op, operands):
        return Cost(ZERO)
    if op in _SCALAR:
        return scalar()
    tiles = tuple(extent(t) if isinstance(t, TileType) else None for t in operands)
    made = extent(result) if isinstance(result, TileType) else None
    to = _memory(made, kwargs)
    first = tiles[0] if tiles else None
    if is_product(op):
        pages = made.pages if made else max((t.pages for t in tiles if t), default=1)
        priced = product(op, tiles, pages, target)
        if priced is not None:
            return priced
    elif op in _LOADS and made:
        return transfer(Memory.DDR, to, made, target)
    elif op in _STORES and first:
        return transfer(first.memory or Memory.VEC, Memory.DDR, first, target)
    elif op in _MOVES and first and made:
        moved = made if op == "tile.extract" else first
        return transfer(first.memory or Memory.VEC, to, _boxed_as(moved, made), target)
    elif op == "tile.assemble" and len(tiles) > 1 and first and tiles[1]:
        return _assemble(first, tiles[1], target)
    elif op == "tile.concat" and made:
        return _concat(tiles, target)
    elif op == "tile.scatter_update" and len(tiles) > 2 and tiles[2]:
        return vector_copy(tiles[2], target, whole_rows=False)
    elif op == "tile.gather_compare" and first:
        return vector.elementwise(("compare", "gather"), first, target)
    elif op == "tile.transpose" and first:
        return vector.transpose(first, target)
    elif made and to is Memory.MAT and op.startswith(("tile.full", "tile.fillpad")):
        return fill_mat(made, target)
    else:
        priced = _vector(op, tiles, made, kwargs, target)
        if priced is not None:
            return priced
    return _by_trait(op, operands, tiles, made, target)


def _folds(op: str, operands: tuple[Type, ...]) -> bool:
    """True for windows of an accumulator and the write-backs into it: the first is an operand of the product that writes it, the second a
    copy to where the page is (`spec/flatten.md` 8.5)."""
    tiles = [t.memory for t in operands if isinstance(t, TileType)]
    return op in ("tile.slice", "tile.assemble") and bool(tiles) and all(m is Memory.ACC for m in tiles)


def _memory(made: Extent | None, kwargs: Keywords) -> Memory:
    """Where a result lies: its type's memory, else the one asked for, else Vec."""
    if made and made.memory:
        return made.memory
    word = next((v for k, v in kwargs if k == "target_memory"), None)
    return next((m for m in Memory if m.value == word), Memory.VEC)


def _boxed_as(moved: Extent, made: Extent) -> Extent:
    """The extents of what is moved in the layout of where it goes."""
    return moved if moved.boxed == made.boxed else replace(moved, boxed=made.boxed)


def _assemble(into: Extent, part: Extent, target: Target) -> Cost:
    """A copy of the written part."""
    source, to = part.memory or Memory.VEC, into.memory or Memory.VEC
    if source is Memory.VEC and to is Memory.VEC:
        return vector_copy(part, target, whole_rows=part.valid_cols == into.cols)
    return transfer(source, to, part, target)


def _concat(tiles: tuple[Extent | None, ...], target: Target) -> Cost:
    return together(vector_copy(t, target, whole_rows=False) for t in tiles if t)


def _vector(op: str, tiles: tuple[Extent | None, ...], made: Extent | None, kwargs: Keywords, target: Target) -> Cost | None:
    """The price of a vector op of a known family, else None."""
    first = next((t for t in tiles if t), None)
    if op == "tile.cast" and first and made:
        return vector.cast(first, made, target)
    reduced = vector.reduction(op)
    if reduced is not None and first:
        return vector.reduce(*reduced, first, target)
    if made is None:
        return None
    if op == "tile.row_expand":
        return vector.expand_rows(made, target)
    if op == "tile.col_expand":
        return vector.expand_columns(made, target)
    spread = vector.broadcast(op)
    if spread is not None:
        axis, families = spread
        extra = target.vector.row_broadcast if axis == "row" else 0.0
        return vector.elementwise(families, made, target, extra=extra)
    families = vector.pointwise(op) or ()
    if not families:
        return None
    precise = any(k == "high_precision" and v is True for k, v in kwargs)
    return vector.elementwise(families, _larger(first, made), target, precise)


def _larger(operand: Extent | None, made: Extent) -> Extent:
    """Of operand and result the one with more bytes: a compare works on its operands and gives packed
    bits."""
    return operand if operand and operand.valid_bytes > made.valid_bytes else made


def _by_trait(
    op: str,
    operands: tuple[Type, ...],
    tiles: tuple[Extent | None, ...],
    made: Extent | None,
    target: Target,
) -> Cost:
    """The price of an op of no family: what its declaration implies, else the fallback of the pipe its types
    point to."""
    declared = find_op(op)
    known = [t for t in (*tiles, made) if t]
    if declared is not None and known:
        work = max(known, key=lambda t: t.valid_bytes)
        first = next((t for t in tiles if t), work)
        match declared.trait, declared.shape:
            case Trait.VIEW, _:
                return scalar()
            case _, ShapeRule.ROW_REDUCE:
                return vector.reduce("row", 1, first, target)
            case _, ShapeRule.COL_REDUCE:
                return vector.reduce("col", 1, first, target)
            case Trait.POINTWISE, _:
                data = sum(o.kind is Kind.TILE and o.role is not Role.SCRATCH for o in declared.operands)
                return vector.elementwise(("add",) if data > 1 else ("adds",), work, target)
    if not known:
        return scalar()
    elements = max(t.elements for t in known)
    return fallback(_fallback_pipe(operands, made), elements, target)


def _fallback_pipe(operands: tuple[Type, ...], made: Extent | None) -> str:
    if made and made.memory is Memory.ACC:
        return "M"
    if made and made.memory in (
        Memory.LEFT,
        Memory.RIGHT,
        Memory.BIAS,
        Memory.LEFT_SCALE,
        Memory.RIGHT_SCALE,
    ):
        return "MTE1"
    if any(isinstance(t, TensorType) for t in operands):
        return "MTE2" if made else "MTE3"
    return "V"
