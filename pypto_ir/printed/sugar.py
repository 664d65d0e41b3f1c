"""What programs typed by hand may leave out or shorten (`spec/tile_ir.md` section 8, last item).

`t = pl.load(x, [0, 0], [16, 64])` is `pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)`,
`pl.add(t, 2)` on a tile is `pl.tile.adds(t, 2.0)`, `t[0:8, :]` a slice. Names that are bound again inside
loops and branches are handled by `rebinding`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pypto_ir.dtypes import DType
from pypto_ir.expr import BINARY_OPS, Const, Expr, Item, MakeTuple, Var, const_int, dtype_of, index
from pypto_ir.ops.registry import find_op, kind_name, type_of
from pypto_ir.printed.exprs_reader import shown, typed
from pypto_ir.printed.rebinding import Rebinding
from pypto_ir.printed.words import op_name
from pypto_ir.scale_boxes import is_mx
from pypto_ir.stmt import Assign, Call, Eval, FunctionCall, Keywords, Submit
from pypto_ir.types import TensorType, TileType, TupleType, Type

if TYPE_CHECKING:
    from pypto_ir.printed.stmts_reader import Statements

#: short name -> op, where it does not depend on the operands
_ALIASES = {
    "load": "tile.load", "store": "tile.store", "move": "tile.move", "create_tile": "tile.create",
    "create_tensor": "tensor.create", "full": "tensor.full", "arange": "tile.ci",
    "mrgsort": "tile.mrgsort_format1", "dim": "tensor.dim",
    "get_block_idx": "tile.get_block_idx", "get_block_num": "tile.get_block_num",
    "get_subblock_idx": "tile.get_subblock_idx", "reserve_buffer": "system.reserve_buffer",
    "import_peer_buffer": "system.import_peer_buffer", "aiv_initialize_pipe": "system.aiv_initialize_pipe",
    "aic_initialize_pipe": "system.aic_initialize_pipe", "tpush_to_aiv": "tile.tpush_to_aiv",
    "tpush_to_aic": "tile.tpush_to_aic", "tpop_from_aiv": "tile.tpop_from_aiv",
    "tpop_from_aic": "tile.tpop_from_aic",
    "tfree_to_aic": "system.tfree_to_aic", "tfree_to_aiv": "system.tfree_to_aiv",
}  # fmt: skip
#: keywords that short forms have for operands: op -> names by position
_OPERANDS = {
    "tile.load": ("tensor", "offsets", "shapes", "valid_shapes"),
    "tile.store": ("tile", "offsets", "output_tensor", "shapes"),
    "tile.slice": ("tile", "shape", "offset", "valid_shape", "drop_dims"),
    "tensor.slice": ("tensor", "shape", "offset", "valid_shape", "drop_dims"),
}


class Sugar(Rebinding):
    """The short forms of one function."""

    def __init__(self, s: Statements) -> None:
        super().__init__(s)

    # ---- calls ---------------------------------------------------------------------------------------------

    def call(self, node: ast.Call, name: str) -> Call | FunctionCall | Submit | Expr:
        """`pl.<name>(..)`: the op that the operands choose."""
        s = self.s
        op = _ALIASES.get(name)
        if op is None:
            first = type_of(typed(self._ahead(node.args[0]))) if node.args else None
            if not isinstance(first, TileType | TensorType):
                help = "write pl.tile.<op> or pl.tensor.<op>; short forms need a tile or tensor as first operand"
                s.r.fail("P401", node, f"found {shown(node)}, which is no op for these operands", help)
            op = self._dispatched(node, name, isinstance(first, TileType))
        call = s.calls.op_call(self._positional(node, op), op)
        return self.completed(call)

    def _ahead(self, node: ast.expr) -> Expr | int | float:
        """The value of an operand that will be read again, so that a call in it is bound once."""
        value = self.s.exprs.value(node, 0)
        self.s.exprs.keep(node, value)
        return value

    def _dispatched(self, node: ast.Call, name: str, tile: bool) -> str:
        plain = op_name(("tile" if tile else "tensor", name))
        if len(node.args) >= 2 and not isinstance(node.args[1], ast.Attribute):
            second = self._ahead(node.args[1])
            scalar = not isinstance(second, Expr) or dtype_of(second) is not None
            with_scalar = plain + "s"
            if scalar and find_op(with_scalar) is not None:
                return with_scalar
        return plain

    def _positional(self, node: ast.Call, op: str) -> ast.Call:
        """The call with operands that are given by keyword in their places."""
        names = _OPERANDS.get(op, ())
        given = {k.arg: k.value for k in node.keywords if k.arg in names[len(node.args) :]}
        if not given:
            return node
        args = list(node.args)
        for name in names[len(args) :]:
            if name not in given:
                break
            args.append(given.pop(name))
        rest = [k for k in node.keywords if k.value not in args]
        return ast.copy_location(ast.Call(node.func, args, rest), node)

    def completed(self, call: Call) -> Call:
        """The call with the operands and keyword arguments that the short form leaves to its defaults."""
        args, kwargs = call.args, call.kwargs
        match call.op:
            case "tile.load":
                if len(args) == 3:
                    args = (*args, args[2])
                if call.kwarg("target_memory") is None and args:
                    source = type_of(args[0])
                    mx = is_mx(source)
                    kwargs = (("target_memory", "Mat" if mx else "Vec"), *kwargs)
            case "tile.create" if call.kwarg("target_memory") is None:
                kwargs = (*kwargs, ("target_memory", "Vec"))
            case "tile.cast" | "tensor.cast":
                kwargs = _named(kwargs, "dtype", "target_type")
                if call.kwarg("mode") is None:
                    kwargs = (*kwargs, ("mode", "round"))
            case "tile.move" if call.kwarg("target_memory") is None:
                kwargs = (("target_memory", "Vec"), *kwargs)
            case "tensor.create" if call.kwarg("layout") is None:
                kwargs = (*kwargs, ("layout", "ND"))
        return Call(call.op, args, kwargs, call.attrs)

    # ---- subscripts ----------------------------------------------------------------------------------------

    def short(self, node: ast.expr) -> Call | FunctionCall | Submit | Expr | None:
        """What `t[0:8, :]` and `pl.cast(t, pl.FP16)` are where t is a tile or tensor, else None."""
        operand = node.args[0] if isinstance(node, ast.Call) else getattr(node, "value", None)
        if not isinstance(operand, ast.expr):
            return None
        of = self._ahead(operand)
        if not isinstance(of, Expr) or not isinstance(type_of(of), TileType | TensorType):
            return None
        if isinstance(node, ast.Call):
            return self.call(node, "cast")
        assert isinstance(node, ast.Subscript)
        self.s.exprs.known.pop(id(operand), None)
        return self.subscript(node, of)

    def element(self, node: ast.Subscript, of: Expr) -> Expr:
        """`t[0:8, i]` inside an expression: a slice, or an element where every index is a number."""
        call = self.subscript(node, of)
        t = self.s.calls.type_of(call, node, False)
        var = self.s.names.temporary(f"{call.op.rpartition('.')[2]}_tmp", t)
        self.s.out.append(Assign((var,), call))
        return var

    def subscript(self, node: ast.Subscript, of: Expr) -> Call:
        """The slice or read that a subscript of a tile or tensor is."""
        t = type_of(of)
        if not isinstance(t, TileType | TensorType):
            self.s.r.fail("P302", node, f"found an element of {kind_name(t)}")
        space = "tile" if isinstance(t, TileType) else "tensor"
        offsets, shape, dropped = self._ranges(node, t)
        if len(dropped) == len(t.shape):
            return Call(f"{space}.read", (of, MakeTuple(offsets)))
        args: tuple[Expr, ...] = (of, MakeTuple(shape), MakeTuple(offsets))
        if dropped:
            args = (*args, MakeTuple(()), MakeTuple(dropped))
        return Call(f"{space}.slice", args)

    def _ranges(self, node: ast.Subscript, t: TileType | TensorType) -> tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[Expr, ...]]:
        """Offsets, extents, and the axes that have an index instead of a range."""
        s = self.s
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) > len(t.shape):
            s.r.fail("P302", node, f"found {len(parts)} indices for rank {len(t.shape)}")
        offsets: list[Expr] = []
        shape: list[Expr] = []
        dropped: list[Expr] = []
        for axis, extent in enumerate(t.shape):
            part = parts[axis] if axis < len(parts) else ast.Slice()
            if not isinstance(part, ast.Slice):
                offsets.append(s.exprs.integer(s.exprs.expr(part), part, "an index"))
                shape.append(index(1))
                dropped.append(index(axis))
                continue
            if part.step is not None:
                s.r.fail("P302", part.step, "a range of a tile or tensor has no step")
            low = s.exprs.value(part.lower, 0) if part.lower is not None else 0
            high = s.exprs.value(part.upper, 0) if part.upper is not None else typed_dim(extent)
            offsets.append(typed(low))
            shape.append(typed(self._extent(low, high, node)))
        return tuple(offsets), tuple(shape), tuple(dropped)

    def _extent(self, low: Expr | int | float, high: Expr | int | float, node: ast.expr) -> Expr | int | float:
        if low == 0 and not isinstance(low, Expr):
            return high
        if isinstance(high, Expr) or isinstance(low, Expr):
            from pypto_ir.expr import Binary
            from pypto_ir.linear import normalize

            e = Binary("sub", typed(high), typed(low))
            constant = const_int(normalize(e))
            return constant if constant is not None else e
        return high - low

    # ---- statements ----------------------------------------------------------------------------------------

    def assign(self, node: ast.Assign, target: ast.expr, value: ast.expr, comment: str | None) -> None:
        """`x = ..`, `a, b = ..`, `t[0:8] = v`, without an annotation."""
        s = self.s
        match target:
            case ast.Name(id=name):
                s.define(node, name, s.value(value), None, comment)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(node, targets, value, comment)
            case ast.Subscript(value=ast.Name() as base):
                self._replace(node, target, base, value, comment)
            case _:
                s.r.fail("P601", target, f"found {shown(target)}, allowed is the name of a value")

    def _unpack(self, node: ast.Assign, targets: list[ast.expr], value: ast.expr, comment: str | None) -> None:
        s = self.s
        names: list[str] = []
        for target in targets:
            if not isinstance(target, ast.Name):
                s.r.fail("P601", target, f"found {shown(target)}, allowed is the name of a value")
            names.append(target.id)
        read = typed_value(s.value(value))
        t: Type
        match read:
            case MakeTuple(items=items) if len(items) == len(names):
                for name, item in zip(names, items, strict=True):
                    s.define(node, name, item, None, comment)
                    comment = None
                return
            case FunctionCall() | Submit():
                types = s.tuple_types(s.deduced(read, node, False), len(names), node)
                variables = tuple(s.names.define(n, t) for n, t in zip(names, types, strict=True))
                s.add(Assign(variables, read, comment=comment), node)
                return
            case Var(type=TupleType()):
                whole: Expr = read
                t = read.type
            case _:
                t = s.deduced(read, node, False)
                temporary = s.names.temporary("_tuple_tmp", t)
                s.add(Assign((temporary,), read, comment=comment), node)
                comment, whole = None, temporary
        for i, (name, item_type) in enumerate(zip(names, s.tuple_types(t, len(names), node), strict=True)):
            s.add(Assign((s.names.define(name, item_type),), Item(whole, i), comment=comment), node)
            comment = None

    def _replace(self, node: ast.Assign, target: ast.Subscript, base: ast.Name, value: ast.expr, comment: str | None) -> None:
        """`t[0:8] = v` binds t again, to an assemble; `x[i, j] = s` writes a tensor in place."""
        s = self.s
        of = s.names.lookup(base.id, base)
        if not isinstance(of.type, TileType | TensorType):
            s.r.fail("P302", target, f"found an element of {kind_name(of.type)}")
        source = s.exprs.value(value, 0)
        offsets, _, dropped = self._ranges(target, of.type)
        if len(dropped) == len(of.type.shape):
            dtype = of.type.dtype
            scalar = source if isinstance(source, Expr) else _as(source, dtype)
            if isinstance(of.type, TensorType):
                write = Call("tensor.write", (of, MakeTuple(offsets), scalar))
                s.calls.type_of(write, node, False)
                s.add(Eval(write, comment=comment), node)
                return
            call = Call("tile.write", (of, MakeTuple(offsets), scalar))
        else:
            space = "tile" if isinstance(of.type, TileType) else "tensor"
            call = Call(f"{space}.assemble", (of, typed(source), MakeTuple(offsets)))
        s.define(node, base.id, call, None, comment)

    def augmented(self, node: ast.AugAssign, comment: str | None) -> None:
        """`x += 1` on scalars."""
        if not isinstance(node.target, ast.Name):
            self.s.r.fail("P601", node, "allowed on the left is the name of a value")
        left = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        sum_ = ast.copy_location(ast.BinOp(left, node.op, node.value), node)
        self.s.define(node, node.target.id, self.s.value(sum_), None, comment)


def typed_dim(extent: Expr) -> Expr | int:
    constant = const_int(extent)
    return extent if constant is None else constant


def typed_value(value: object) -> Call | FunctionCall | Submit | Expr:
    """A read value with a bare number as a constant."""
    if isinstance(value, int | float):
        return typed(value)
    assert isinstance(value, Expr | Call | FunctionCall | Submit)
    return value


def _as(value: int | float, dtype: DType) -> Const:
    return Const(float(value), dtype) if dtype.is_float else Const(value, dtype)


def _named(kwargs: Keywords, old: str, new: str) -> Keywords:
    return tuple((new if key == old else key, value) for key, value in kwargs)


__all__ = ["BINARY_OPS", "Sugar"]
