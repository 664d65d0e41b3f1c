"""Expressions and ops of a function as values: what a name stands for, what an operand is, where the program runs.

`tile.get_block_idx()` is one value in a function, below `tile.get_block_num()`; `tensor.dim(x, 0)` is the extent that the type of x names.
"""

from __future__ import annotations

from egraph_rules.index_bounds import Limit
from egraph_rules.index_domain import INDEX_LIMIT, make, top
from egraph_rules.index_equations import BLOCKS, Equations, FunctionEquations
from egraph_rules.index_nodes import Given, LoopVariable
from egraph_rules.index_places import Handle, Place
from egraph_rules.index_values import ValueId
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Item, MakeTuple, Unary, Var, const_int
from pypto_ir.stmt import Call
from pypto_ir.types import INDEX, ScalarType, TensorType, TupleType


class Operands:
    """Turns the expressions of one function into values."""

    def __init__(self, equations: Equations, function: FunctionEquations) -> None:
        self.equations, self.f = equations, function
        self.system, self.values = equations.system, equations.system.values
        self.cores = function.cores
        self.blocks: dict[ValueId, ValueId] = {}
        self.lanes: dict[int, ValueId] = {}

    def handle(self, e: Expr, place: Place) -> Handle:
        """The value of an expression."""
        values = self.values
        match e:
            case Const(value=v, dtype=dtype):
                if dtype.is_int or dtype is DType.BOOL:
                    return values.const(dtype, int(v))
                return self.equations.anything(ScalarType(dtype), "a number", place)
            case Var(name=name):
                return self.f.names[name] if name in self.f.names else self.dim(e)
            case MakeTuple(items=items):
                return tuple(self.handle(item, place) for item in items)
            case Item(of=of, index=i):
                whole = self.handle(of, place)
                return whole[i] if isinstance(whole, tuple) and i < len(whole) else None
            case Unary(op=op, operand=a):
                x = self.handle(a, place)
                return values.unary(op, x) if isinstance(x, int) else None
            case Cast(operand=a, dtype=dtype):
                x = self.handle(a, place)
                return values.cast(x, dtype) if isinstance(x, int) else None
            case Binary(op=op, left=a, right=b):
                x, y = self.handle(a, place), self.handle(b, place)
                return values.binary(op, x, y) if isinstance(x, int) and isinstance(y, int) else None
        return None

    def dim(self, v: Var) -> Handle:
        """A name that no statement defines: an extent of the signature."""
        if not isinstance(v.type, ScalarType):
            return None
        known = v.name in self.equations.program.dynamic and v.type == INDEX
        fact = make(DType.INDEX, 0, INDEX_LIMIT) if known else top(v.type.dtype)
        value = self.system.leaf(v.type.dtype, v.name, self.f.root, Given(fact))
        self.f.bind(v.name, value, self.f.root, always=True)
        return value

    def scalar(self, e: Expr, place: Place, dtype: DType = DType.INDEX) -> ValueId:
        """The value of a scalar expression; anything of `dtype` for one that is none."""
        found = self.handle(e, place)
        if not isinstance(found, int):
            found = self.equations.anything(ScalarType(dtype), "a value", place)
        assert isinstance(found, int)
        return found

    def bind(self, target: Var, handle: Handle, place: Place) -> None:
        """Give a name its value, as what its type says."""
        t = target.type
        if isinstance(t, ScalarType):
            if not isinstance(handle, int):
                handle = self.equations.anything(t, target.name, place)
            elif t.dtype.is_int:
                handle = self.values.cast(handle, t.dtype)
            if isinstance(handle, int):
                self.system.node(handle, place)
        elif isinstance(t, TupleType) and not isinstance(handle, tuple):
            handle = self.equations.anything(t, target.name, place)
        self.f.bind(target.name, handle, place)

    def op(self, call: Call, target: Var, place: Place) -> Handle:
        """The result of an op: where the program runs, an extent, or anything of its type."""
        match call.op:
            case "tile.get_block_idx":
                return self.block_index()
            case "tile.get_block_num":
                return self.cores
            case "tile.get_subblock_idx":
                return self.subblock(2)
            case "tensor.dim":
                return self.extent(call, place)
        return self.equations.anything(target.type, target.name, place)

    def block_index(self) -> ValueId:
        """The block that runs: below the number of blocks."""
        if self.cores not in self.blocks:
            zero, one = (self.system.node(self.values.const(DType.INDEX, n), self.f.root) for n in (0, 1))
            rule = LoopVariable(DType.INDEX, zero, self.system.node(self.cores, self.f.root), one)
            value = self.system.leaf(DType.INDEX, "the block", self.f.root, rule)
            self.f.root.add_limit(value, Limit(True, self.cores, -1))
            self.blocks[self.cores] = value
        return self.blocks[self.cores]

    def subblock(self, count: int) -> ValueId:
        """The vector lane that runs."""
        if count not in self.lanes:
            rule = Given(make(DType.INDEX, 0, max(count, 2) - 1))
            self.lanes[count] = self.system.leaf(DType.INDEX, "the vector lane", self.f.root, rule)
        return self.lanes[count]

    def extent(self, call: Call, place: Place) -> Handle:
        """An extent of a tensor: that of its type where it is named, else not negative."""
        source = call.args[0] if call.args else None
        axis = const_int(call.args[1]) if len(call.args) > 1 else None
        if isinstance(source, Var) and isinstance(source.type, TensorType) and axis is not None:
            shape = source.type.shape
            if -len(shape) <= axis < len(shape):
                found = self.handle(shape[axis], place)
                if isinstance(found, int):
                    return self.values.cast(found, DType.INDEX)
        return self.system.leaf(DType.INDEX, "an extent", place, Given(make(DType.INDEX, 0, INDEX_LIMIT)))

    def count(self, stated: object, place: Place) -> ValueId:
        """A stated number of blocks."""
        found: Handle = None
        if isinstance(stated, int):
            found = self.values.const(DType.INDEX, stated)
        elif isinstance(stated, Const | Var | Unary | Binary | Cast | Item):
            found = self.handle(stated, place)
        if not isinstance(found, int):
            return self.system.leaf(DType.INDEX, "the number of blocks", self.f.root, Given(BLOCKS))
        return self.values.cast(found, DType.INDEX)
