"""Batched products (`spec/flatten.md` 7.4 to 7.6): one 2-D product for every page.

[2, 16, 128] x [2, 128, 64] that is stored at once becomes, for page 0 and page 1, two slices, a product and a store of [1, 16, 64].
Whatever is not stored at once goes to Vec page by page. A slice is written for every page of the result, also where it is the whole
tile, and again for a page that is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from egraph_rules import forms
from extract.upstream.loads import load_page
from extract.upstream.packing import Packing
from extract.upstream.routing import MATRICES, Route, Routing, page_index
from extract.upstream.state import State, Stop, carried, deduced, tuple_of
from pypto_ir.diagnostics import declare
from pypto_ir.expr import Expr, MakeTuple, Var, index
from pypto_ir.ops.registry import OpError, dims_text, type_of
from pypto_ir.regions import add_index, broadcast, static
from pypto_ir.stmt import TRUE, Assign, Call, tuple_items
from pypto_ir.types import Memory, TensorType, TileType, dims, same_dims

declare(L410="upstream: a batched product is stored at once into a tensor that is not as its pages need it")


@dataclass(frozen=True, slots=True)
class _Product:
    """A batched product at work: its statement, the batch dims of its result, rows and columns of a page."""

    state: State
    s: Assign
    call: Call
    routes: tuple[Route, Route]
    batch: tuple[int, ...]
    rows: int
    cols: int

    @property
    def pages(self) -> int:
        return prod(self.batch)

    def operands(self, number: int) -> tuple[Var, Var]:
        """The matrices of page `number` of the result, left before right."""
        left, right = (
            _page(self.state, self.s, route, e, side, page_index(route, number, self.batch))
            for route, e, side in zip(self.routes, self._matrices(), ("lhs", "rhs"), strict=True)
        )
        return left, right

    def _matrices(self) -> tuple[Expr, ...]:
        return tuple(self.call.args[i] for i in MATRICES[self.call.op])

    def made(self, op: str, *args: Expr) -> Call:
        return Call(op, args, self.call.kwargs, self.call.attrs, self.call.loc)


def product(state: State, s: Assign, routing: Routing, follows: Assign | None) -> bool:
    """A batched product. `follows` is the store of it that stands next, if any; True where that store was taken with it."""
    work = _begun(state, s, routing)
    plan = state.packed.get(s.target.name)
    if plan is not None:
        _packed_root(work, plan)
        return False
    if follows is not None and _can_fuse(work, follows):
        _stored(work, follows)
        return True
    if work.pages == 1:
        state.own(s, work.made("tile.matmul", *work.operands(0)))
        return False
    _staged(work)
    return False


def accumulated(state: State, s: Assign, routing: Routing) -> None:
    """A product that is added to an accumulator, page by page in place."""
    work = _begun(state, s, routing)
    acc = state.expr(work.call.args[0])
    t = type_of(acc)
    if not isinstance(acc, Var) or not isinstance(t, TileType) or t.rank != 2:
        raise Stop("L413", f"the accumulator of tile.batch_matmul_acc has no 2-D form, found {dims_text(getattr(t, 'shape', ()))}")
    rest = state.exprs(work.call.args[3:])
    if work.pages == 1:
        state.own(s, work.made("tile.matmul_acc", acc, *work.operands(0), *rest))
        return
    packed = s.target.name in state.packed
    base = acc.name
    for number in range(work.pages):
        at = tuple_of(index(0), index(number * work.cols)) if packed else tuple_of(index(number * work.rows), index(0))
        left, right = work.operands(number)
        acc = _updated(work, acc, base, number, at, (left, right, *rest))
    state.stands_for(s, acc)


def _updated(work: _Product, acc: Var, base: str, number: int, at: MakeTuple, operands: tuple[Expr, ...]) -> Var:
    """One page of an accumulator multiplied into and written back where it was: the offset is one tuple."""
    state, s = work.state, work.s
    shape = tuple_of(*dims(work.rows, work.cols))
    page = state.let(f"acc_page_{number}", Call("tile.slice", (acc, shape, at)), s)
    done = state.let(f"matmul_acc_{number}", work.made("tile.matmul_acc", page, *operands), s)
    return state.let(base, Call("tile.assemble", (acc, done, at)), s)


def _begun(state: State, s: Assign, routing: Routing) -> _Product:
    call, t = s.value, s.target.type
    assert isinstance(call, Call) and isinstance(t, TileType)
    shape = t.static_shape
    assert shape is not None, "dynamic tiles are refused before"
    work = _Product(state, s, call, routing.routes[id(s)], shape[:-2], *shape[-2:])
    for route in work.routes:
        name = route.name
        if not route.fits and route.whole and route.load is None and name in routing.only:
            state.fault(s, f"upstream drops {name}, which is no load and does not fit into L1, although its pages are cut from it")
        elif not route.fits and route.whole and route.load is not None:
            state.fault(s, f"upstream ends in an internal error on {name}, a 2-D operand that does not fit into L1 with the other one")
    _peel_fault(work)
    return work


def _peel_fault(work: _Product) -> None:
    """Upstream looks through reshapes of batch dims and then broadcasts the dims below them."""
    peeled = [r.peeled for r in work.routes]
    if peeled == [r.batch for r in work.routes]:
        return
    batch = _broadcast(*peeled)
    if batch is not None and prod(batch) == work.pages:
        below = [replace(r, batch=r.peeled) for r in work.routes]
        if all([page_index(r, n, work.batch) for r in work.routes] == [page_index(r, n, batch) for r in below] for n in range(work.pages)):
            return
    work.state.fault(
        work.s,
        f"upstream multiplies the batches {' and '.join(str(list(b)) for b in peeled)} from before the reshapes, which do not give "
        f"the batch {list(work.batch)} of the product",
    )


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        found = broadcast("tile.batch_matmul", dims(*left), dims(*right))
    except OpError:
        return None
    return static(found)


def _page(state: State, s: Assign, route: Route, operand: Expr, side: str, number: int) -> Var:
    if not route.whole:
        return load_page(state, s, route, side, number)
    t, flat = type_of(operand), state.expr(operand)
    assert isinstance(t, TileType) and isinstance(flat, Var) and t.static_shape is not None
    rows, cols = t.static_shape[-2:]
    turned = flat.name in state.columns
    if turned and not route.transposed:
        state.fault(s, f"upstream does not see that {route.name} is a transposed view, and cuts rows of it that it does not have")
    at = (0, number * cols) if turned else (number * rows, 0)
    call = Call("tile.slice", (flat, tuple_of(*dims(rows, cols)), tuple_of(*dims(*at))))
    return state.let(f"{side}_slice_{number}", call, s)


# ---- stored at once ----------------------------------------------------------------------------------------


def _can_fuse(work: _Product, store: Assign) -> bool:
    assert isinstance(store.value, Call)
    target, offsets = type_of(store.value.args[2]), tuple_items(store.value.args[1]) or ()
    assert isinstance(target, TensorType) and isinstance(work.s.target.type, TileType)
    if len(store.value.args) > 3 and not same_dims(tuple_items(store.value.args[3]) or (), work.s.target.type.shape):
        return False
    wanted = len(work.batch) + 2
    if target.distributed or len(offsets) != wanted:
        what = "a distributed tensor" if target.distributed else f"a tensor of rank {len(offsets)}"
        raise Stop(
            "L410",
            f"{work.s.target.name} {dims_text(work.s.target.type.shape)} is stored at once into {what}; its pages need a plain tensor of "
            f"rank {wanted} (offsets rank must match the product)",
            f"store into a tensor of rank {wanted}, or write the batch loop out in the kernel",
        )
    return True


def _stored(work: _Product, store: Assign) -> None:
    state, call = work.state, store.value
    assert isinstance(call, Call)
    offsets = state.exprs(tuple_items(call.args[1]) or ())
    target = state.expr(call.args[2])
    lead = len(work.batch)
    below = _broadcast(*(r.peeled for r in work.routes))
    if below is not None and len(below) != lead:
        state.fault(
            work.s, f"upstream refuses the store, which has {lead + 2} offsets, for the batch {list(below)} from before the reshapes"
        )
    box = (MakeTuple((*dims(*(1,) * lead), *dims(work.rows, work.cols))),) if lead else ()
    for number in range(work.pages):
        page = state.let(f"matmul_{number}", work.made("tile.matmul", *work.operands(number)), work.s)
        at = forms.unravel(number, work.batch)
        moved = (*(add_index(o, index(i)) for o, i in zip(offsets[:lead], at, strict=True)), *offsets[lead:])
        stored = replace(call, args=(page, MakeTuple(moved), target, *box), kwargs=state.keywords(call.kwargs))
        target = state.let(f"{store.target.name}_{number}", stored, store, store.target.type)
    state.stands_for(store, target)


# ---- staged in Vec, packed in L0C --------------------------------------------------------------------------


def _staged(work: _Product) -> None:
    """The pages one below the other in a Vec tile."""
    state, s = work.state, work.s
    t = s.target.type
    assert isinstance(t, TileType)
    kwargs = (("dtype", t.dtype.value), ("target_memory", Memory.VEC.value))
    made = Call("tile.create", (tuple_of(*dims(work.pages * work.rows, work.cols)),), kwargs, loc=work.call.loc)
    whole = Var(s.target.name, carried(deduced(made), t))
    state.put(Assign((whole,), made, s.loc))
    for number in range(work.pages):
        page = state.let(f"matmul_{number}", work.made("tile.matmul", *work.operands(number)), s)
        moved = state.let(f"matmul_vec_{number}", Call("tile.move", (page,), (("target_memory", Memory.VEC.value),)), s)
        at = tuple_of(*dims(number * work.rows, 0))
        whole = state.let(s.target.name, Call("tile.assemble", (whole, moved, at)), s)
    state.stands_for(s, whole)
    state.fault(
        s,
        "the pages of the product are put together in Vec; they keep L0C's block layout there, which code generation refuses to assemble",
        "W402",
    )


def _packed_root(work: _Product, plan: Packing) -> None:
    """A product that begins a packed accumulator: every page is accumulated into its columns with a true init predicate."""
    state, s = work.state, work.s
    made = plan.create(work.call.loc)
    acc = Var(s.target.name, deduced(made))
    state.put(Assign((acc,), made, s.loc))
    for number in range(work.pages):
        at = tuple_of(*dims(0, number * work.cols))
        acc = _updated(work, acc, s.target.name, number, at, (*work.operands(number), TRUE))
    state.stands_for(s, acc)
