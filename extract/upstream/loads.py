"""Loads (`spec/flatten.md` section 3): a window of a tensor as a tile of two dims.

A load into Vec keeps its window, only its tile is [6, 4] where it was [2, 3, 4]. A natural load into L1, whose tile is NZ, takes its
window from a 2-D view of the tensor: [1, 16, 128] at [1, 0, 0] of [2, 16, 128] is [16, 128] at [16, 0] of [32, 128].
"""

from __future__ import annotations

from dataclasses import replace

from egraph_rules import forms
from extract.upstream.routing import Route, lead_is_whole
from extract.upstream.state import State, Stop, deduced, tuple_of
from pypto_ir.diagnostics import declare
from pypto_ir.expr import Expr, MakeTuple, Var, const_int, index
from pypto_ir.linear import all_provably_equal
from pypto_ir.ops.registry import dims_text, type_of
from pypto_ir.ops.tensors import packed_strides
from pypto_ir.regions import add_index, collapse_contiguous, mul_index
from pypto_ir.stmt import Assign, Call, tuple_items
from pypto_ir.types import Dims, Layout, Memory, Pad, TensorType, TileLayout, TileType, same_dims

declare(
    L414="upstream ends in an internal error: a window of a load into L1 is no run of rows of its tensor",
    L415="upstream: a page of a load that is only partly valid over its batch cannot be loaded by itself",
)


def load(state: State, s: Assign, call: Call, pending: bool) -> None:
    """A load; `pending` says that its space is not stated and that batched products alone read it, so that it goes to L1."""
    t = s.target.type
    assert isinstance(t, TileType)
    new = state.value(call)
    assert isinstance(new, Call)
    if pending:
        new = in_mat(new)
        t = _mat_type(new)
    if t.rank <= 2:
        if new is call:
            state.put(s)
        else:
            state.own(s, new, t)
        return
    tensor = type_of(new.args[0])
    assert isinstance(tensor, TensorType)
    flat = forms.flat_type(t)
    if not _natural(t, tensor):
        if t.memory is Memory.MAT and tensor.layout is Layout.DN and any(const_int(d) != 1 for d in t.shape[:-2]):
            message = f"a load of {dims_text(t.shape)} from a DN tensor into L1 keeps its batch, and the machine loads one matrix at a time"
            state.fault(s, message, "W402")
        state.own(s, new, flat)
        return
    offsets, window, valid = windows(new)
    for region, what in ((window, "window"), (valid, "valid part")):
        if not collapse_contiguous(region, tensor.shape):
            raise Stop(
                "L414",
                f"the {what} {dims_text(region)} of a load into L1 from a tensor {dims_text(tensor.shape)} is no run of rows",
                "load one page at a time, or use it in batched products of the same block only",
            )
    view = view_2d(state, s, new.args[0], f"{s.target.name}_view2d")
    args = (view, tuple_of(collapsed(offsets, tensor.shape), offsets[-1]), _merged(window), _merged(valid))
    made = replace(new, args=args)
    if const_int(flat.shape[0]) == 1:
        made_type = deduced(made)  # one row has no NZ order, and its printed type says so
        assert isinstance(made_type, TileType)
        flat = replace(made_type, memref=flat.memref)
    elif not all_provably_equal(_valid_of(made), flat.valid):
        # min(16 * v, 32) rows of the view are 16 * min(v, 2), which the op sees only where they are asked for
        made = replace(made, args=(*args[:3], MakeTuple(flat.valid)))
    state.own(s, made, flat)


def _valid_of(call: Call) -> Dims:
    t = deduced(call)
    assert isinstance(t, TileType)
    return t.valid


def in_mat(call: Call) -> Call:
    """A load without a space as a load into L1, the only space that reaches the matrix unit."""
    return replace(call, kwargs=(*call.kwargs, ("target_memory", Memory.MAT.value)))


def _mat_type(call: Call) -> TileType:
    t = deduced(call)
    assert isinstance(t, TileType)
    return t


def is_pending(s: Assign, call: Call) -> bool:
    """True for a load that states no space."""
    t = s.target.type
    return isinstance(t, TileType) and t.rank > 2 and t.memory is not Memory.MAT and call.kwarg("target_memory") is None


def _natural(t: TileType, tensor: TensorType) -> bool:
    v = t.effective_view
    boxed = v.blayout is TileLayout.COL_MAJOR and v.slayout is TileLayout.ROW_MAJOR
    return t.memory is Memory.MAT and boxed and tensor.layout is not Layout.NZ


def windows(call: Call) -> tuple[Dims, Dims, Dims]:
    """Offsets, window and valid extents of a load; valid extents that are not given are the window."""
    offsets, window = tuple_items(call.args[1]), tuple_items(call.args[2])
    valid = tuple_items(call.args[3]) if len(call.args) > 3 else None
    assert offsets is not None and window is not None, "the op takes literal tuples"
    return offsets, window, valid or window


def collapsed(offsets: Dims, dims: Dims) -> Expr:
    """The row of a position in the collapse: [b, r, 0] of [B, 16, 64] is b * 16 + r."""
    row = offsets[0]
    for offset, extent in zip(offsets[1:-1], dims[1:-1], strict=True):
        row = add_index(mul_index(row, extent), offset)
    return row


def product(extents: Dims) -> Expr:
    """The product of extents in order, constants folded as they meet: [B, 4, 16] is B * 4 * 16."""
    result: Expr = index(1)
    for e in extents:
        result = mul_index(result, e)
    return result


def _merged(extents: Dims) -> MakeTuple:
    return tuple_of(product(extents[:-1]), extents[-1])


def view_2d(state: State, s: Assign, tensor: Expr, name: str) -> Var:
    """The 2-D view of a tensor, with its valid part where it has one."""
    t = type_of(tensor)
    assert isinstance(t, TensorType)
    args: tuple[Expr, ...] = (tensor, _merged(t.shape))
    if not same_dims(t.valid, t.shape):
        if not collapse_contiguous(t.valid, t.shape):
            raise Stop("L414", f"the valid part {dims_text(t.valid)} of a tensor {dims_text(t.shape)} is no run of its rows")
        args = (*args, _merged(t.valid))
    elif t.view is not None and t.view.pad is not Pad.NULL:
        args = (*args, MakeTuple(()))
    loc = s.value.loc if isinstance(s.value, Call) else None
    return state.let(name, Call("tensor.view", args, loc=loc), s)


def load_page(state: State, s: Assign, route: Route, side: str, number: int) -> Var:
    """Page `number` of an operand, loaded by itself and turned where the operand is a transposed view."""
    assert route.load is not None and isinstance(route.load.value, Call)
    ahead = state.pages.get((route.load.target.name, number))
    page = ahead or _loaded(state, s, route.load, route.load.value, side, number)
    if not route.transposed:
        return page
    return state.let(f"{side}_pbview_{number}", Call("tile.transpose_view", (page,)), s)


def load_early(state: State, route: Route) -> None:
    """Write the page loads of an operand where its load stands, since what it reads is written before they are used."""
    s = route.load
    assert s is not None and isinstance(s.value, Call)
    _, window, _ = windows(s.value)
    state.fault(s, "upstream loads the pages below a store to the same tensor, and reads what that store wrote")
    for number in range(forms.pages(_static(window))):
        state.pages[s.target.name, number] = _loaded(state, s, s, s.value, s.target.name, number)


def _loaded(state: State, s: Assign, load: Assign, call: Call, side: str, number: int) -> Var:
    offsets, window, valid = windows(call)
    if not lead_is_whole(valid, window):
        raise Stop(
            "L415",
            f"pages of the window {dims_text(window)}, of which {dims_text(valid)} is valid, are loaded one by one",
            "make the valid extents of the batch those of the window, or write the batch loop out",
        )
    if not same_dims(valid, window):
        state.fault(s, f"upstream loads whole pages although only {dims_text(valid)} of {dims_text(window)} is valid")
    tensor = state.expr(call.args[0])
    if tensor is not call.args[0]:
        state.fault(s, "upstream loads the pages from the tensor as it was named before the pass, which no longer exists")
    t = type_of(tensor)
    assert isinstance(t, TensorType) and isinstance(load.target.type, TileType)
    lead = len(window) - 2
    position = forms.unravel(number, _static(window)[:lead])
    at = (*(add_index(o, index(i)) for o, i in zip(offsets[:lead], position, strict=True)), *offsets[lead:])
    if load.target.type.memory is not Memory.MAT and call.kwarg("target_memory") is None:
        call = in_mat(call)
    if t.layout is not Layout.ND or not _packed(t):
        state.fault(s, f"upstream loads pages of a {t.layout.value} or strided tensor through a packed 2-D view: its addresses are wrong")
        ones = (index(1),) * lead
        args = (tensor, MakeTuple(at), MakeTuple((*ones, *window[lead:])), MakeTuple((*ones, *valid[lead:])))
        page = forms.page_type(load.target.type)
        return state.let(f"{side}_pbload_{number}", replace(call, args=args), s, replace(page, memory=Memory.MAT))
    view = view_2d(state, s, tensor, f"{side}_pbview2d_{number}")
    made = replace(call, args=(view, tuple_of(collapsed(at, t.shape), at[-1]), tuple_of(*window[lead:]), tuple_of(*valid[lead:])))
    return state.let(f"{side}_pbload_{number}", made, s)


def _packed(t: TensorType) -> bool:
    stride = t.view.stride if t.view else ()
    return not stride or all_provably_equal(stride, packed_strides(t.shape, t.layout))


def _static(window: Dims) -> tuple[int, ...]:
    return tuple(const_int(d) or 0 for d in window)
