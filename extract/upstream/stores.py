"""Stores (`spec/flatten.md` sections 4 and 8.6): the box of its tensor that a flat tile fills, and the pages of packed accumulators.

A tile [6, 8] at the origin of a tensor [2, 3, 8] fills the box [2, 3, 8], which the store names as its fourth operand. A packed
accumulator is stored page by page, straight from L0C.
"""

from __future__ import annotations

from dataclasses import replace

from egraph_rules import forms
from extract.upstream.packing import Packing
from extract.upstream.state import State, Stop, tuple_of
from pypto_ir.diagnostics import declare
from pypto_ir.expr import Expr, MakeTuple, Var, const_int, index
from pypto_ir.ops.registry import dims_text, type_of
from pypto_ir.regions import NoWindow, add_index, partition_window
from pypto_ir.stmt import Assign, Call, Eval, tuple_items
from pypto_ir.types import Dims, Memory, TensorType, TileType, dims

declare(
    L405="upstream: a store writes more columns than its tensor has",
    L406="upstream: a store writes rows past the end of its tensor",
    L407="upstream: the rows of a store do not fill an axis of its tensor a whole number of times",
    L408="upstream: a store fills an axis of its tensor that it does not start at 0",
    L409="upstream: rows of a dynamic extent cannot be laid over several axes of a tensor",
    L417="upstream's store would leave its tensor: it does not look at the offsets of a box that fits",
)

_CAUSES = {
    "columns": "L405", "rows": "L406", "leading": "L406", "whole": "L407", "start": "L408", "dynamic": "L409",
    "negative": "L417", "outside": "L417",
}  # fmt: skip


def store(state: State, s: Assign | Eval, call: Call) -> None:
    source = call.args[0]
    t, target = type_of(source), type_of(call.args[2])
    assert isinstance(t, TileType) and isinstance(target, TensorType)
    plan = state.packed.get(source.name) if isinstance(source, Var) else None
    if plan is not None and isinstance(s, Assign):
        _drained(state, s, call, plan)
        return
    args = state.exprs(call.args)
    if isinstance(args[0], Var) and args[0].name in state.columns:
        raise Stop(
            "L416",
            f"{args[0].name} is a transposed view {dims_text(type_of(args[0]).shape)} whose pages stand side by side",  # type: ignore[union-attr]
            "use tile.transpose, or take the view of one page at a time",
        )
    if target.rank > 2:
        args = _with_box(state, s, args, t, target)
    if all(a is b for a, b in zip(args, call.args, strict=False)) and len(args) == len(call.args):
        state.put(s)
        return
    kwargs = state.keywords(call.kwargs)
    state.put(replace(s, value=replace(call, args=args, kwargs=kwargs)))


def _with_box(state: State, s: Assign | Eval, args: tuple[Expr, ...], t: TileType, target: TensorType) -> tuple[Expr, ...]:
    """The operands with the box that the tile fills, computed from its valid region before flattening."""
    if len(args) > 3:
        state.fault(s, "upstream writes the box of the store a second time, which does not parse again")
        return args
    offsets = tuple_items(args[1])
    assert offsets is not None
    found = partition_window(t.valid, target.shape, offsets)
    if isinstance(found, NoWindow):
        raise Stop(
            _CAUSES[found.cause],
            f"the store of a tile {dims_text(t.valid)} {found.reason}",
            "store one whole axis at a time in a loop, or reshape the destination",
        )
    if isinstance(s, Eval):
        state.fault(s, "upstream gives a store that stands by itself no box, and code generation needs one")
    elif target.distributed:
        state.fault(s, "upstream gives a store into a distributed tensor no box, and code generation needs one")
    elif _type(args[0]).memory is Memory.ACC and any(const_int(d) != 1 for d in found[:-2]):
        message = f"the box {dims_text(found)} of an accumulator: the machine stores from L0C one matrix at a time"
        state.fault(s, message, "W402")
    return (*args, MakeTuple(found))


def _type(e: Expr) -> TileType:
    t = type_of(e)
    assert isinstance(t, TileType)
    return t


def _drained(state: State, s: Assign, call: Call, plan: Packing) -> None:
    """One store for every page of a packed accumulator."""
    acc, target = state.expr(call.args[0]), state.expr(call.args[2])
    offsets = state.exprs(tuple_items(call.args[1]) or ())
    shape = tuple_of(*dims(plan.rows, plan.cols))
    for number in range(plan.pages):
        at = tuple_of(*dims(0, number * plan.cols))
        page = state.let(f"acc_drain_{number}", Call("tile.slice", (acc, shape, at)), s)
        moved, box = _page_box(plan, offsets, number)
        stored = replace(call, args=(page, MakeTuple(moved), target, *box), kwargs=state.keywords(call.kwargs))
        target = state.let(f"{s.target.name}_{number}", stored, s, s.target.type)
    state.stands_for(s, target)


def _page_box(plan: Packing, offsets: Dims, number: int) -> tuple[Dims, tuple[Expr, ...]]:
    """Where page `number` goes and its box; a window of rows goes below the one before it and needs none."""
    if plan.row_windows:
        return (add_index(offsets[0], index(number * plan.rows)), *offsets[1:]), ()
    lead = len(plan.batch)
    at = forms.unravel(number, plan.batch)
    moved = (*(add_index(o, index(i)) for o, i in zip(offsets[:lead], at, strict=True)), *offsets[lead:])
    return moved, (MakeTuple((*dims(*(1,) * lead), *dims(plan.rows, plan.cols))),)
