"""Every other op (`spec/flatten.md` section 5): the same op on tiles of two dims.

Most ops commute with the collapse, so they are written again on the flat operands and their type is deduced: `exp` of [2, 3, 4] is `exp`
of [6, 4]. Creates, assembles, reshapes and transposes have numbers in their operands that change with it.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from egraph_rules import forms
from extract.upstream.loads import collapsed
from extract.upstream.meaning import misfit
from extract.upstream.routing import is_batch_reshape
from extract.upstream.state import State, Stop, carried, tuple_of
from pypto_ir.diagnostics import declare
from pypto_ir.expr import Expr, Var, const_int, index
from pypto_ir.ops.registry import OpError, dims_text, type_of
from pypto_ir.ops.rules import infer_call
from pypto_ir.regions import merged_shape
from pypto_ir.stmt import Assign, Call, Eval, FunctionCall, Submit, tuple_items
from pypto_ir.types import Memory, TileType, Type, dims

declare(
    L404="upstream: a transpose involves a batch axis",
    L412="upstream's 2-D form of an op would compute other values",
    L416="upstream: a transposed view with its pages side by side is read by something else than a batched product",
)


def fill(state: State, s: Assign, call: Call) -> None:
    """tile.create and tile.full: the merged shape; an accumulator that is packed gets its packed shape and space."""
    plan = state.packed.get(s.target.name)
    if plan is not None:
        state.own(s, replace(plan.create(call.loc), attrs=call.attrs))
        return
    t = s.target.type
    if not isinstance(t, TileType) or t.rank <= 2:
        state.put(s)
        return
    new = replace(call, args=(tuple_of(*merged_shape(t.shape)), *state.exprs(call.args[1:])))
    state.own(s, new)


def assemble(state: State, s: Assign, call: Call) -> None:
    """tile.assemble into a tile of rank above 2: the offset as row and column of the collapse."""
    target = type_of(call.args[0])
    offset = tuple_items(call.args[2])
    assert isinstance(target, TileType) and offset is not None
    plan = state.packed.get(s.target.name)
    if plan is not None:
        at = state.exprs(offset)
        state.own(s, replace(call, args=(*state.exprs(call.args[:2]), plan.window_at(at))))
        return
    if target.rank <= 2:
        generic(state, s)
        return
    part = type_of(call.args[1])
    if isinstance(part, TileType) and target.memory is part.memory is Memory.MAT:
        state.fault(s, "upstream writes one tile in L1 into another, and nothing copies from L1 to L1", "W402")
    at = state.exprs(offset)
    moved = tuple_of(collapsed(at, target.shape), at[-1])
    _rewritten(state, s, call, replace(call, args=(*state.exprs(call.args[:2]), moved)))


def window(state: State, s: Assign, call: Call) -> None:
    """tile.slice: of a packed accumulator its columns, else as every op."""
    source = call.args[0]
    plan = state.packed.get(source.name) if isinstance(source, Var) else None
    offset = tuple_items(call.args[2])
    if plan is None or offset is None:
        generic(state, s)
        return
    at = state.exprs(offset)
    state.own(s, replace(call, args=(state.expr(source), call.args[1], plan.window_at(at), *state.exprs(call.args[3:]))))


def reshape(state: State, s: Assign, call: Call, only_products: bool) -> None:
    """tile.reshape and tile.reinterpret_view; `only_products` says that batched products alone read the result."""
    t = s.target.type
    source = state.expr(call.args[0])
    if only_products and is_batch_reshape(call):
        state.stands_for(s, source)
        return
    if not isinstance(t, TileType) or t.rank <= 2 or len(call.args) < 2:
        generic(state, s)
        return
    _rewritten(state, s, call, replace(call, args=(source, tuple_of(*merged_shape(t.shape)))))


def transpose_view(state: State, s: Assign, call: Call) -> None:
    """A view with rows and columns swapped: of a flattened batch its pages stand side by side, [K, batch * N]."""
    t = s.target.type
    assert isinstance(t, TileType)
    new = state.value(call)
    assert isinstance(new, Call)
    if new is call:
        state.put(s)
        return
    _not_turned(state, new.args)
    var = state.own(s, new)
    if t.rank > 2 and prod((t.static_shape or (1,))[:-2]) > 1:
        state.columns.add(var.name)


def transpose(state: State, s: Assign, call: Call, only_products: bool) -> None:
    """tile.transpose: with the scratch tile that the instruction needs, page by page where the tile has pages."""
    source = call.args[0]
    t = type_of(source)
    assert isinstance(t, TileType)
    if only_products:
        state.fault(s, f"upstream drops the transpose and still reads {s.target.name}, since only batched products read it")
    if t.memory is Memory.MAT:
        state.fault(s, f"upstream transposes {getattr(source, 'name', 'a tile')} in L1, and the unit that does so reads UB", "W402")
    if t.rank > 2:
        _transposed_pages(state, s, call, t)
        return
    if len(call.args) > 3:
        generic(state, s)
        return
    new = state.value(call)
    assert isinstance(new, Call)
    shape = tuple_of(*t.shape)
    tmp = state.let("transpose_tmp", _create(shape, t, call), s)
    state.own(s, replace(new, args=(*new.args, tmp)))


def _create(shape: Expr, t: TileType, call: Call) -> Call:
    space = t.memory or Memory.VEC
    return Call("tile.create", (shape,), (("dtype", t.dtype.value), ("target_memory", space.value)), loc=call.loc)


def _transposed_pages(state: State, s: Assign, call: Call, t: TileType) -> None:
    rank, axes = t.rank, [const_int(a) for a in call.args[1:3]]
    last = {a % rank for a in axes if a is not None}
    if last != {rank - 2, rank - 1}:
        raise Stop(
            "L404",
            f"only last-two-axes tile.transpose on >2D tiles is supported; a transpose involving a batch axis (axes "
            f"{axes[0]}, {axes[1]} of rank {rank}) is not lowered",
            "reshape the tile so that the transposed axes are the last two",
        )
    source = state.expr(call.args[0])
    _not_turned(state, (source,))
    if not forms.rows_prefix(t):
        raise Stop("L412", _gaps(call, t), "fill the tile (tile.fillpad on one page at a time), or transpose one page at a time")
    shape = t.static_shape
    assert shape is not None
    pages, rows, cols = prod(shape[:-2]), *shape[-2:]
    name = s.target.name
    made = _create(tuple_of(*dims(pages * cols, rows)), t, call)
    whole = Var(name, carried(infer_call(made), s.target.type))
    state.put(Assign((whole,), made, s.loc))
    pool = state.let("trans_tmp_pool", _create(tuple_of(*dims(pages * rows, cols)), t, call), s)
    shape_of_page = tuple_of(*dims(rows, cols))
    for i in range(pages):
        at = tuple_of(*dims(i * rows, 0))
        page = state.let(f"trans_page_{i}", Call("tile.slice", (source, shape_of_page, at)), s)
        tmp = state.let(f"trans_tmp_{i}", Call("tile.slice", (pool, shape_of_page, at)), s)
        axes_of_page = (index(0), index(1))
        turned = state.let(f"trans_{i}", replace(call, args=(page, *axes_of_page, tmp)), s)
        whole = state.let(name, Call("tile.assemble", (whole, turned, tuple_of(*dims(i * cols, 0)))), s)
    state.stands_for(s, whole)


def generic(state: State, s: Assign) -> None:
    """Any statement whose operands may have been flattened: an op is deduced again, everything else keeps its type."""
    new = state.value(s.value)
    if new is s.value:
        state.put(s)
    elif isinstance(new, Call) and isinstance(s.value, Call):
        if new.op.startswith("tile."):
            _rewritten(state, s, s.value, new)
        else:
            state.put(replace(s, value=new))
    elif isinstance(new, Var):
        alias(state, s, new)
    else:
        _not_turned(state, getattr(new, "args", ()))
        state.put(replace(s, value=new))


def alias(state: State, s: Assign, source: Var) -> None:
    """`y = x` of a value that has changed."""
    var = Var(s.target.name, source.type)
    state.env[s.target.name] = var
    if source.name in state.columns:
        state.columns.add(var.name)
    state.put(replace(s, targets=(var,), value=source))


def evaluated(state: State, s: Eval) -> None:
    """A call for its effect."""
    new = state.value(s.value)
    if new is s.value:
        state.put(s)
        return
    _not_turned(state, getattr(new, "args", ()))
    assert isinstance(new, Call | FunctionCall | Submit)
    if isinstance(new, Call) and isinstance(s.value, Call) and new.op.startswith("tile."):
        _check(s.value, None, new, None)
    state.put(replace(s, value=new))


def _rewritten(state: State, s: Assign, call: Call, new: Call) -> None:
    """`new` for `call`, if it computes the collapse of what the author's op computes."""
    _not_turned(state, new.args)
    stated = s.target.type
    if len(s.targets) > 1 or not isinstance(stated, TileType):
        _check(call, None, new, None)
        state.put(replace(s, value=new))
        return
    t = _deduced(new, stated)
    _check(call, stated, new, t)
    state.own(s, new, t)


def _deduced(call: Call, stated: TileType) -> Type:
    from pypto_ir.ops.registry import find_op

    op = find_op(call.op)
    if op is not None and op.annotated:
        return forms.flat_type(stated)
    try:
        return infer_call(call)
    except OpError as error:
        raise Stop("L411", f"as 2-D tiles: {error.message}", error.help) from error


def _check(call: Call, stated: TileType | None, new: Call, t: Type | None) -> None:
    reason = misfit(call, stated, new, t)
    if reason is not None:
        raise Stop("L412", reason, "apply the op to one page at a time, in a loop over the batch")


def _not_turned(state: State, args: tuple[Expr, ...]) -> None:
    for a in args:
        if isinstance(a, Var) and a.name in state.columns:
            raise Stop(
                "L416",
                f"{a.name} is a transposed view {dims_text(a.type.shape)} whose pages stand side by side, and not the collapse of its "  # type: ignore[union-attr]
                "N-D tile",
                "use tile.transpose, or take the view of one page at a time",
            )


def _gaps(call: Call, t: TileType) -> str:
    return f"{call.op}: only {dims_text(t.valid)} of {dims_text(t.shape)} is valid, whose rows lie close together in the flat tile"
