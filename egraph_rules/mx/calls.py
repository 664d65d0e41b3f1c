"""Calls of ops on MX scales: which ops may take them, and what their coordinates become.

load(a, [16, 2], [32, 2], [16, 2])   ->   load(a, [0, 1, 1, 0, 0], [1, 2, 1, 16, 2], [1, 2, 1, 16, 2])     tile [32, 2] valid [16, 2]
view(x [1, 128], [4, 32], MX_B_NN)   ->   view(x [1, 128], [1, 2, 2, 16, 2], MX_B_NN)
view(a [32, 4], [1, 128], ND)        ->   view(a [1, 2, 2, 16, 2], [1, 128], ND)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from egraph_rules.mx.offsets import blocked_offsets, check_inside
from egraph_rules.mx.proofs import Prover, Where
from egraph_rules.mx.types import blocked_window, mx_tensors, shape_finding, type_finding
from pypto_ir.diagnostics import Diagnostics, declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, MakeTuple
from pypto_ir.linear import all_provably_equal
from pypto_ir.ops.registry import dims_text, kind_name, type_of
from pypto_ir.regions import static
from pypto_ir.scale_boxes import BOX, FRACTAL, MX_LAYOUTS, by_axis, is_mx, is_scale_tile
from pypto_ir.stmt import Call, tuple_items
from pypto_ir.types import Dims, Layout, TensorType, TileType, Type

declare(
    B113="an op takes or makes MX scales that has no form for them",
    B114="a store into MX scales",
    B119="coordinates of MX scales are no literal tuples",
    B120="what is stored into MX scales is not made of whole FP8E8M0 boxes",
)

#: op -> the operand that may be an MX tensor
_TAKES = {"tile.load": 0, "tensor.view": 0, "tile.store": 2}
_MAKES = ("tensor.view", "tensor.create", "tile.store")


@dataclass(frozen=True, slots=True)
class Blocked:
    """A rewritten call; `window` for those that move boxes, `inside` where all of them are proved to lie in the tensor."""

    call: Call
    window: bool = False
    inside: bool = True


def check_call(at: Where, call: Call, target: Type | None, stores: bool, bag: Diagnostics) -> bool:
    """Whether a call has coordinates of scales to rewrite. Reports ops that may not take scales, or not there."""
    taken = [i for i, arg in enumerate(call.args) if mx_tensors(type_of(arg))]
    made = target is not None and bool(mx_tensors(target))
    if not taken and not made:
        return False
    allowed = ", ".join(f"{op} (operand {i})" for op, i in _TAKES.items() if stores or op != "tile.store")
    help = f"MX scales may be taken by {allowed}, by calls and task launches"
    if call.op == "tile.store" and 2 in taken and not stores:
        bag.add("B114", f"tile.store writes into an MX tensor, its operand 2 ({kind_name(type_of(call.args[2]))})", at.place, help)
        return False
    wrong = [i for i in taken if i != _TAKES.get(call.op) or not is_mx(type_of(call.args[i]))]
    if wrong:
        what = kind_name(type_of(call.args[wrong[0]]))
        bag.add("B113", f"{call.op} takes an MX tensor as its operand {wrong[0]} ({what}), which it has no form for", at.place, help)
        return False
    if made and call.op not in _MAKES:
        bag.add("B113", f"{call.op} makes an MX tensor, which it has no form for", at.place, "make it with tensor.create, or view ND bytes")
        return False
    return True


def rewrite_call(at: Where, call: Call, target: Type | None, prover: Prover, bag: Diagnostics, fired: dict[str, int]) -> Blocked | None:
    """The call with coordinates in boxes, or None after reporting why there is none. Types of its operands are left to the caller."""
    before = len(bag)
    done: Blocked | None = None
    match call.op:
        case "tile.load":
            done = _load(at, call, prover, bag, fired)
        case "tile.store":
            done = _store(at, call, prover, bag, fired)
        case "tensor.view" | "tensor.create":
            done = _shaped(at, call, target, bag)
    if done is not None and len(bag) == before:
        rule = _RULES[call.op]
        fired[rule] = fired.get(rule, 0) + 1
        return done
    return None


_RULES = {"tile.load": "mx.load", "tile.store": "mx.store", "tensor.view": "mx.view", "tensor.create": "mx.create"}


def _tuple(at: Where, call: Call, i: int, what: str, bag: Diagnostics) -> Dims | None:
    items = tuple_items(call.args[i]) if i < len(call.args) else None
    if items is None:
        bag.add("B119", f"the {what} of {call.op}, its operand {i}, are no literal tuple", at.place, "write them as a list")
    return items


def _load(at: Where, call: Call, prover: Prover, bag: Diagnostics, fired: dict[str, int]) -> Blocked | None:
    source = type_of(call.args[0])
    assert isinstance(source, TensorType)
    offsets, window = _tuple(at, call, 1, "offsets", bag), _tuple(at, call, 2, "shapes", bag)
    if offsets is None or window is None:
        return None
    return _moved(at, call, source.layout, source, offsets, window, 1, prover, bag, fired)


def _moved(
    at: Where, call: Call, layout: Layout, tensor: TensorType, offsets: Dims, window: Dims, first: int,
    prover: Prover, bag: Diagnostics, fired: dict[str, int],
) -> Blocked | None:  # fmt: skip
    """A load or store with offsets in operand `first` and every window after it in boxes."""
    finding = shape_finding(f"the window of {call.op},", layout, window)
    if finding is not None:
        finding.report(bag, at.place)
    placed = blocked_offsets(at, layout, offsets, prover, bag, fired)
    if finding is not None or placed is None or type_finding(tensor) is not None:
        return None
    fits, inside = check_inside(at, layout, offsets, window, tensor.shape, prover, bag)
    if not fits:
        return None
    boxes = MakeTuple(blocked_window(layout, window))
    args: list[Expr] = list(call.args)
    args[first] = MakeTuple(placed)
    for i in range(first + 1, len(args)):
        if tuple_items(args[i]) is not None:
            args[i] = boxes
    return Blocked(replace(call, args=tuple(args)), window=True, inside=inside)


def _store(at: Where, call: Call, prover: Prover, bag: Diagnostics, fired: dict[str, int]) -> Blocked | None:
    tile, target = type_of(call.args[0]), type_of(call.args[2])
    assert isinstance(target, TensorType)
    layout, order = target.layout, MX_LAYOUTS[target.layout].value
    whole = static(tile.valid) if isinstance(tile, TileType) and tile.rank == 2 else None
    sizes = None if whole is None else by_axis(layout, (whole[0], whole[1]))
    boxes = sizes is not None and all(n > 0 and n % box == 0 for n, box in zip(sizes, BOX, strict=True))
    if not isinstance(tile, TileType) or tile.dtype is not DType.FP8E8M0 or not is_scale_tile(tile, layout) or not boxes:
        region = f" valid {dims_text(tile.valid)}" if isinstance(tile, TileType) else ""
        help = f"store FP8E8M0 tiles of whole {BOX[0]} x {BOX[1]} boxes in {order}/{order}, fractal {FRACTAL}"
        bag.add("B120", f"tile.store into {layout.value} of {kind_name(tile)}{region}", at.place, help)
        return None
    offsets = _tuple(at, call, 1, "offsets", bag)
    if offsets is None:
        return None
    given = tuple_items(call.args[3]) if len(call.args) > 3 else None
    if given and not all_provably_equal(given, tile.valid):
        bag.add(
            "B120",
            f"the box {dims_text(given)} of tile.store is not what its tile holds, {dims_text(tile.valid)}",
            at.place,
            "leave it out",
        )
        return None
    return _moved(at, call, layout, target, offsets, tile.valid, 1, prover, bag, fired)


def _shaped(at: Where, call: Call, target: Type | None, bag: Diagnostics) -> Blocked | None:
    """A view or a new tensor: its shape becomes the blocked one where the result holds scales."""
    if target is None or not is_mx(target):
        return Blocked(call)
    assert isinstance(target, TensorType)
    at_shape = 1 if call.op == "tensor.view" else 0
    shape = _tuple(at, call, at_shape, "shape", bag)
    if shape is None or type_finding(target) is not None:
        return None
    boxes = MakeTuple(blocked_window(target.layout, shape))
    args = tuple(boxes if i >= at_shape and tuple_items(a) else a for i, a in enumerate(call.args))
    return Blocked(replace(call, args=args))
