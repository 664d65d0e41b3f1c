"""Functions built statement by statement, with types deduced by the registry.

b = Build()
x = b.load("x", (2, 3, 8))          # a tensor parameter x_in of that shape, and its load
b.out(b.let("y", "tile.add", x, x)) # a tensor parameter y_out, and the store of y
b.function()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, MakeTuple, Var, const_int, index
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import (
    Assign,
    Call,
    Carry,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Param,
    Program,
    Return,
    Stmt,
    While,
    Yield,
)
from pypto_ir.types import INDEX, ScalarType, TensorType, TileType, Type, dims, tensor_type

Shape = tuple[int, ...]


def operand(value: Any) -> Expr:
    """An operand from a number (INDEX, or FP32 where it is a float), a tuple or an expression."""
    if isinstance(value, tuple | list):
        return MakeTuple(tuple(map(operand, value)))
    if isinstance(value, bool):
        return Const(value, DType.BOOL)
    if isinstance(value, int):
        return index(value)
    return Const(value, DType.FP32) if isinstance(value, float) else value


def sizes(t: TileType) -> Shape:
    """The physical extents of a tile."""
    shape = t.static_shape
    assert shape is not None
    return shape


class Build:
    """A function under construction; nested blocks are built inside `loop`, `repeat` and `branch`."""

    def __init__(self, name: str = "main", kind: str = "InCore") -> None:
        self.name, self.kind = name, kind
        self.params: list[Param] = []
        self.blocks: list[list[Stmt]] = [[]]
        self.results: list[Var] = []
        self.handed: tuple[Expr, ...] = ()

    # parameters

    def tensor(self, name: str, shape: Any, dtype: DType = DType.FP32, direction: str = "In") -> Var:
        return self.given(name, tensor_type(dims(*shape), dtype), direction)

    def given(self, name: str, t: TensorType, direction: str = "In") -> Var:
        """A parameter of a type, which may lie in another layout."""
        var = Var(name, t)
        self.params.append(Param(var, direction))
        return var

    def scalar(self, name: str, low: int, high: int, dtype: DType = DType.INDEX) -> Var:
        known = next((p.var for p in self.params if p.var.name == name), None)
        if known is None:
            known = Var(name, ScalarType(dtype))
            self.params.append(Param(known, "In", (low, high)))
        return known

    # statements

    def put(self, s: Stmt) -> None:
        self.blocks[-1].append(s)

    def let(
        self,
        name: str,
        op: str,
        *args: Any,
        loc: str | None = None,
        comment: str | None = None,
        **kwargs: Any,
    ) -> Var:
        """`name = op(args, kwargs)`; the keyword `attrs` gives attributes of the call, `at` its position."""
        attrs, at = tuple(kwargs.pop("attrs", {}).items()), kwargs.pop("at", None)
        call = Call(op, tuple(map(operand, args)), tuple(kwargs.items()), attrs, at)
        var = Var(name, infer_call(call))
        self.put(Assign((var,), call, loc, comment))
        return var

    def read(self, name: str, source: Var, shape: Shape, valid: Any = None, at: Any = None, **rest: Any) -> Var:
        """A load from a tensor at hand."""
        at = tuple(0 for _ in shape) if at is None else at
        memory = rest.pop("target_memory", "Vec")
        return self.let(name, "tile.load", source, at, shape, valid or shape, target_memory=memory, **rest)

    def load(self, name: str, shape: Shape, valid: Any = None, dtype: DType = DType.FP32, **rest: Any) -> Var:
        """A load of all of a new tensor parameter."""
        return self.read(name, self.tensor(f"{name}_in", shape, dtype), shape, valid, **rest)

    def create(self, name: str, shape: Shape, dtype: DType = DType.FP32, **rest: Any) -> Var:
        return self.let(name, "tile.create", shape, dtype=dtype.value, target_memory="Vec", **rest)

    def full(self, name: str, shape: Shape, value: float, dtype: DType = DType.FP32) -> Var:
        return self.let(name, "tile.full", shape, Const(value, dtype), dtype=dtype.value)

    def store(self, name: str, tile: Var, target: Var, at: Any = None, *box: Any, **rest: Any) -> Var:
        assert isinstance(tile.type, TileType)
        at = tuple(0 for _ in target.type.shape) if at is None else at  # type: ignore[union-attr]
        return self.let(name, "tile.store", tile, at, target, *box, **rest)

    def out(self, tile: Var, shape: Any = None, at: Any = None) -> Var:
        """Store a tile into a new tensor parameter that the function returns."""
        assert isinstance(tile.type, TileType)
        target = self.tensor(f"{tile.name}_out", shape or sizes(tile.type), tile.type.dtype, "Out")
        result = self.store(f"{tile.name}_out_1", tile, target, at)
        self.results.append(result)
        return result

    def yields(self, *values: Expr) -> None:
        self.handed = values
        self.put(Yield(values))

    @contextmanager
    def _inside(self) -> Iterator[list[Stmt]]:
        body: list[Stmt] = []
        self.blocks.append(body)
        yield body
        self.blocks.pop()

    @contextmanager
    def loop(self, var: str, stop: Any, carried: dict[str, Var] | None = None, start: Any = 0) -> Iterator[Any]:
        """A counting loop. Gives the loop variable and the carried names; the results are `<carried>_end`."""
        carries = [Carry(Var(n, v.type), v) for n, v in (carried or {}).items()]
        i = Var(var, INDEX)
        with self._inside() as body:
            yield (i, *(c.var for c in carries)) if carries else i
        results = tuple(Var(f"{c.var.name}_end", c.var.type) for c in carries)
        self.put(For(i, operand(start), operand(stop), index(1), tuple(body), tuple(carries), results))
        self.ended = results

    @contextmanager
    def repeat(self, cond: Any, carried: dict[str, tuple[Type, Expr]]) -> Iterator[Any]:
        """A while loop; `cond` maps the carried names to the condition."""
        carries = [Carry(Var(n, t), v) for n, (t, v) in carried.items()]
        with self._inside() as body:
            yield tuple(c.var for c in carries)
        results = tuple(Var(f"{c.var.name}_end", c.var.type) for c in carries)
        self.put(While(cond(*(c.var for c in carries)), tuple(body), tuple(carries), results))
        self.ended = results

    def branch(self, cond: Expr, then: Any, orelse: Any, results: dict[str, Type] | None = None) -> tuple[Var, ...]:
        """An if whose arms are built by calling `then` and `orelse`."""
        arms = []
        for arm in (then, orelse):
            with self._inside() as body:
                arm()
            arms.append(tuple(body))
        found = tuple(Var(n, t) for n, t in (results or {}).items())
        self.put(If(cond, arms[0], arms[1] or None, found))
        return found

    def call(self, name: str, function: str, *args: Expr, type: Type) -> Var:
        var = Var(name, type)
        self.put(Assign((var,), FunctionCall(function, args)))
        return var

    def effect(self, op: str, *args: Any, **kwargs: Any) -> None:
        self.put(Eval(Call(op, tuple(map(operand, args)), tuple(kwargs.items()))))

    # the whole

    def function(self) -> Function:
        body = (*self.blocks[0], Return(tuple(self.results)))
        returns = tuple(r.type for r in self.results)
        return Function(self.name, tuple(self.params), returns, body, self.kind)


def program(function: Function) -> Program:
    return Program("p", (function,))


def extents(t: Type) -> tuple[int | None, ...]:
    return tuple(map(const_int, t.shape))  # type: ignore[union-attr]
