"""Result types of op calls in printed reference programs: what a program states is what the type rules say.

The reader here knows just enough of the printed form: parameters, annotated assignments of op calls, loops
with carried values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, MakeTuple, Var, index
from pypto_ir.ops.registry import find_op
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import Call
from pypto_ir.types import (
    Compact,
    Dims,
    Layout,
    Memory,
    Pad,
    ScalarType,
    TensorType,
    TensorView,
    TileLayout,
    TileType,
    TileView,
    Type,
    UnknownType,
    implicit_view,
    tensor_type,
    tile_type,
)

DUMPS = Path(__file__).parents[2].parent / "shared" / "dumps"
BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod"}
COMPARE = {ast.Eq: "eq", ast.Gt: "gt", ast.Lt: "lt"}
#: operands that print as keywords
POSITIONAL = {"tile.reinterpret_view": ("shape",), "tile.full": ("value",)}
#: names of programs -> number of calls that must be seen at least, so that the reader cannot skip everything
PROGRAMS = {
    "elementwise": 40,
    "reduce_expand": 25,
    "ranks_tails": 12,
    "tile_views": 16,
    "views_nd": 10,
    "cube_spaces": 30,
    "partial_products": 9,
    "mx_products": 10,
    "tensor_forms": 10,
    "fill_create": 6,
    "batched_products": 15,
    "gm_stores": 6,
    "store_boxes": 3,
}


def word(node: ast.expr) -> str:
    return ast.unparse(node).rsplit(".", 1)[-1]


class Reader:
    """Names in scope of one function and the expressions and types that are written with them."""

    def __init__(self) -> None:
        self.names: dict[str, Var] = {}

    def expr(self, node: ast.expr) -> Expr:
        match node:
            case ast.Constant(value=float() as v):
                return Const(v, DType.FP32)
            case ast.Constant(value=int() as v):
                return index(v)
            case ast.Name(id=name):
                return self.names.get(name) or Var(name, ScalarType(DType.INDEX))
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return MakeTuple(tuple(map(self.expr, items)))
            case ast.BinOp(left=a, op=op, right=b):
                return Binary(BINARY[type(op)], self.expr(a), self.expr(b))
            case ast.Compare(left=a, ops=[op], comparators=[b]):
                return Binary(COMPARE[type(op)], self.expr(a), self.expr(b))
            case ast.UnaryOp(operand=ast.Constant(value=v)):
                return index(-v) if isinstance(v, int) else Const(-v, DType.FP32)
            case ast.Call(func=f, args=[value, dtype]) if word(f) == "const":
                return Const(ast.literal_eval(value), DType(word(dtype)))
            case ast.Call(func=f, args=[value, dtype]) if word(f) == "cast":
                return Cast(self.expr(value), DType(word(dtype)))
            case ast.Call(func=f, args=[a, b]) if word(f) in ("min", "max"):
                return Binary(word(f), self.expr(a), self.expr(b))
        return Var("other", UnknownType())

    def dims(self, node: ast.expr) -> Dims:
        result = self.expr(node)
        assert isinstance(result, MakeTuple)
        return result.items

    def type(self, node: ast.expr) -> Type:
        if not isinstance(node, ast.Subscript):
            return UnknownType()
        kind = word(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        match kind:
            case "Out" | "InOut":
                return self.type(parts[0])
            case "Scalar":
                return ScalarType(DType(word(parts[0])))
            case "Tensor":
                return self.tensor(parts)
            case "Tile":
                return self.tile(parts)
        return UnknownType()

    def tensor(self, parts: list[ast.expr]) -> TensorType:
        view = TensorView()
        if len(parts) > 2:
            assert isinstance(parts[2], ast.Call)
            given = {k.arg: k.value for k in parts[2].keywords}
            view = TensorView(
                self.dims(given["stride"]) if "stride" in given else (),
                Layout(word(given["layout"])) if "layout" in given else Layout.ND,
                self.dims(given["valid_shape"]) if "valid_shape" in given else (),
                Pad(word(given["pad"])) if "pad" in given else Pad.NULL,
            )
        return tensor_type(self.dims(parts[0]), DType(word(parts[1])), view)

    def tile(self, parts: list[ast.expr]) -> TileType:
        shape, memory = self.dims(parts[0]), Memory(word(parts[2])) if len(parts) > 2 else None
        fields = {}
        implied = implicit_view(shape, memory)
        if len(parts) > 3:
            assert isinstance(parts[3], ast.Call)
            fields = {k.arg: k.value for k in parts[3].keywords}
        view = TileView(
            valid=self.dims(fields["valid_shape"]) if "valid_shape" in fields else (),
            blayout=TileLayout(word(fields["blayout"])) if "blayout" in fields else implied.blayout,
            slayout=TileLayout(word(fields["slayout"])) if "slayout" in fields else implied.slayout,
            fractal=ast.literal_eval(fields["fractal"]) if "fractal" in fields else implied.fractal,
            pad=Pad(word(fields["pad"])) if "pad" in fields else Pad.NULL,
            compact=Compact(word(fields["compact"])) if "compact" in fields else Compact.NULL,
        )
        return tile_type(shape, DType(word(parts[1])), memory, view)

    def call(self, node: ast.Call) -> Call | None:
        """The op call of an expression, or None where the registry does not know it."""
        path = ast.unparse(node.func).split(".")
        if len(path) < 3 or path[1] not in ("tile", "tensor"):
            return None
        op = f"{path[1]}.{path[2].rstrip('_')}"
        if find_op(op) is None:
            return None
        moved = POSITIONAL.get(op, ())
        args = [*map(self.expr, node.args), *(self.expr(k.value) for k in node.keywords if k.arg in moved)]
        kwargs = tuple((str(k.arg), self.keyword(k.value)) for k in node.keywords if k.arg not in moved)
        return Call(op, tuple(args), kwargs)

    @staticmethod
    def keyword(node: ast.expr) -> str | int | float | bool:
        try:
            value: str | int | float | bool = ast.literal_eval(node)
        except ValueError:
            return word(node)
        return value

    def calls(self, body: list[ast.stmt]) -> Iterator[tuple[str, Call, Type]]:
        """Every known op call of a body with the stated type of its target."""
        for s in body:
            match s:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=stated, value=ast.Call() as value):
                    written = self.type(stated)
                    call = self.call(value)
                    if call is not None:
                        yield ast.unparse(s), call, written
                    self.names[name] = Var(name, written)
                case ast.AnnAssign(target=ast.Name(id=name), annotation=stated):
                    self.names[name] = Var(name, self.type(stated))
                case ast.For(target=ast.Tuple(elts=[_, ast.Tuple(elts=carried)]), iter=ast.Call(keywords=ks)):
                    inits = next(k.value for k in ks if k.arg == "init_values")
                    for var, init in zip(carried, self.dims(inits), strict=True):
                        assert isinstance(var, ast.Name)
                        self.names[var.id] = Var(
                            var.id, init.type if isinstance(init, Var) else UnknownType()
                        )
                    yield from self.calls(s.body)
                case ast.For(body=inner) | ast.While(body=inner):
                    yield from self.calls(inner)
                case ast.If(body=then, orelse=orelse):
                    yield from self.calls(then)
                    yield from self.calls(orelse)


def calls_of(name: str) -> list[tuple[str, Call, Type]]:
    tree = ast.parse((DUMPS / f"{name}.py").read_text())
    found = []
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        reader = Reader()
        for a in function.args.args:
            assert a.annotation is not None
            reader.names[a.arg] = Var(a.arg, reader.type(a.annotation))
        found.extend(reader.calls(function.body))
    return found


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_printed_types_are_deduced(name: str) -> None:
    calls = calls_of(name)
    assert len(calls) >= PROGRAMS[name]
    wrong = []
    for text, call, stated in calls:
        deduced = infer_call(call)
        if deduced != stated:
            wrong.append(f"{text}\n   deduced {deduced}\n   stated  {stated}")
    assert not wrong, "\n".join(wrong)
