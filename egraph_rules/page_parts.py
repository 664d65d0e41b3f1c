"""Parts of batched values: what a group of pages reads of a factor, and where it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pypto_ir.expr import Binary, Const, Expr, MakeTuple, const_int, index
from pypto_ir.linear import normalize
from pypto_ir.ops.matmul import factors as positions
from pypto_ir.ops.registry import find_op
from pypto_ir.stmt import Assign, Call, Function, tuple_items, walk
from pypto_ir.types import dims, same_dims

#: pairs of parameters that may be one tensor
Aliased = tuple[tuple[str, str], ...]


def factors(call: Call) -> tuple[Expr, Expr]:
    """The two factors of a product or of an accumulation."""
    op = find_op(call.op)
    places = positions(op) if op is not None else None
    assert places is not None, "only products have factors"
    left, right = places
    return call.args[left], call.args[right]


def readable(function: Function, aliased: Aliased) -> set[str]:
    """The parameters that a function reads and does not write, under no other name either: `aliased` are those that may be one tensor."""
    return {p.var.name for p in function.params if p.direction == "In"}.difference(*aliased)


def whole_loads(function: Function) -> dict[str, Call]:
    """Loads of windows that are valid everywhere, by the name of what they load."""
    found: dict[str, Call] = {}
    for s in walk(function.body):
        match s:
            case Assign(value=Call(op="tile.load", args=(_, _, shape, valid)) as call) if same_dims(
                tuple_items(shape) or (), tuple_items(valid) or ()
            ):
                found[s.target.name] = call
    return found


def part_of_load(load: Call, shape: Sequence[int], at: Sequence[Expr | int]) -> Call:
    """A load of the part at `at` of what a load of a whole window loads."""
    source, offsets, *_ = load.args
    moved = tuple(plus(o, n) for o, n in zip(tuple_items(offsets) or (), at, strict=True))
    return replace(load, args=(source, MakeTuple(moved), MakeTuple(dims(*shape)), MakeTuple(dims(*shape))))


def plus(e: Expr, n: Expr | int) -> Expr:
    """A sum, computed where it can be."""
    more = n if isinstance(n, int) else const_int(n)
    known = const_int(e)
    if more == 0:
        return e
    if known is not None and more is not None:
        return index(known + more)
    return normalize(Binary("add", e, Const(n) if isinstance(n, int) else n))
