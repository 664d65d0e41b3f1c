"""Result types of op calls in printed reference programs: what a program states is what the type rules say.

The reader here knows just enough of the printed form: parameters, assignments and statements of op calls,
loops with carried values, branches, scopes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Item, MakeTuple, Var, index
from pypto_ir.ops.registry import type_of
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import Call, Literal
from pypto_ir.types import (
    ArrayType,
    Compact,
    Dims,
    Layout,
    Memory,
    Pad,
    PtrType,
    ScalarType,
    TensorType,
    TensorView,
    TileLayout,
    TileType,
    TileView,
    TupleType,
    Type,
    UnknownType,
    implicit_view,
    tensor_type,
    tile_type,
)

DUMPS = Path(__file__).parents[2].parent / "shared" / "dumps"
BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.LShift: "shl", ast.RShift: "shr", ast.Div: "truediv",
}  # fmt: skip
COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Gt: "gt", ast.GtE: "ge", ast.Lt: "lt", ast.LtE: "le"}
#: operands that print as keywords
POSITIONAL = {
    "tile.reinterpret_view": ("shape",),
    "tile.full": ("value",),
    "tile.gather_row": ("valid_shape",),
    "tile.mgather": ("scratch", "valid_shape"),
}
#: ops without a type of their own: the program alone states it
STATED = {"tile.tpop_from_aic"}
SPLITS = {"NONE": 0, "UP_DOWN": 1, "LEFT_RIGHT": 2}
PROGRAMS = sorted(p.stem for p in DUMPS.glob("*.py") if not p.stem.endswith(".flattened"))
OP_CALL = re.compile(r"\bpl\.(tile|tensor|array|system)\.\w+\(")
Found: TypeAlias = tuple[str, Call, Type | None]


def word(node: ast.expr) -> str:
    return ast.unparse(node).rsplit(".", 1)[-1]


class Reader:
    """Names in scope of one function and the expressions and types that are written with them."""

    def __init__(self) -> None:
        self.names: dict[str, Var] = {}
        self.split: int | None = None

    def expr(self, node: ast.expr) -> Expr:
        match node:
            case ast.Constant(value=float() as v):
                return Const(v, DType.FP32)
            case ast.Constant(value=bool() as v):
                return Const(v, DType.BOOL)
            case ast.Constant(value=int() as v):
                return index(v)
            case ast.Name(id=name):
                return self.names.get(name) or Var(name, ScalarType(DType.INDEX))
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return MakeTuple(tuple(map(self.expr, items)))
            case ast.Subscript(value=of, slice=ast.Constant(value=int() as i)):
                return Item(self.expr(of), i)
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
            return PtrType() if word(node) == "Ptr" else UnknownType()
        kind = word(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = [p for p in parts if not ast.unparse(p).startswith("pl.MemRef")]
        match kind:
            case "Out" | "InOut":
                return self.type(parts[0])
            case "Scalar":
                return ScalarType(DType(word(parts[0])))
            case "Array":
                return ArrayType(ast.literal_eval(parts[0]), DType(word(parts[1])))
            case "Tuple":
                return TupleType(tuple(map(self.type, parts)))
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
        """The op call of an expression, or None where it is no op call."""
        path = ast.unparse(node.func).split(".")
        if len(path) < 3 or path[0] != "pl":
            return None
        op = f"{path[1]}.{path[2].rstrip('_')}"
        moved = POSITIONAL.get(op, ())
        operands = list(node.args)
        kwargs = [(str(k.arg), self.keyword(k.value)) for k in node.keywords if k.arg not in (*moved, "attrs")]
        if op == "tile.alloc":
            kwargs.insert(0, ("memory", word(operands.pop(0))))
        if op == "tile.aiv_shard" and self.split is not None:
            kwargs.append(("split", self.split))
        args = [self.expr(a) for a in operands]
        for name in moved:
            found = next((k.value for k in node.keywords if k.arg == name), None)
            if found is not None:
                args.append(self.expr(found))
        return Call(op, tuple(args), tuple(kwargs))

    def keyword(self, node: ast.expr) -> Literal:
        if isinstance(node, ast.List):
            return tuple(self.keyword(e) for e in node.elts)
        if isinstance(node, ast.Name):
            return self.names[node.id]
        try:
            value: str | int | float | bool = ast.literal_eval(node)
        except ValueError:
            return word(node)
        return value

    def calls(self, body: list[ast.stmt]) -> Iterator[Found]:
        """Every op call of a body with the stated type of its target, None for a statement."""
        for s in body:
            match s:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=stated, value=value):
                    written = self.type(stated)
                    if isinstance(value, ast.Call) and (call := self.call(value)) is not None:
                        yield ast.unparse(s), call, written
                    self.names[name] = Var(name, written)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call(args=values)):
                    for target, value in zip(targets, values, strict=True):
                        assert isinstance(target, ast.Name)
                        self.names[target.id] = Var(target.id, type_of(self.expr(value)))
                case ast.Expr(value=ast.Call() as value):
                    if (call := self.call(value)) is not None:
                        yield ast.unparse(s), call, None
                case ast.For(target=target, iter=ast.Call() as header, body=inner):
                    self.split, outer = self.split_of(header), self.split
                    if isinstance(target, ast.Tuple):
                        self.carry(target if word(header.func) == "while_" else target.elts[1], header)
                    yield from self.calls(inner)
                    self.split = outer
                case ast.While(body=inner) | ast.With(body=inner):
                    yield from self.calls(inner)
                case ast.If(body=then, orelse=orelse):
                    yield from self.calls(then)
                    yield from self.calls(orelse)

    def split_of(self, header: ast.Call) -> int | None:
        if word(header.func) != "split_aiv":
            return self.split
        return SPLITS[next(word(k.value) for k in header.keywords if k.arg == "mode")]

    def carry(self, target: ast.expr, header: ast.Call) -> None:
        inits = next(k.value for k in header.keywords if k.arg == "init_values")
        assert isinstance(target, ast.Tuple)
        for var, init in zip(target.elts, self.dims(inits), strict=True):
            assert isinstance(var, ast.Name)
            self.names[var.id] = Var(var.id, type_of(init))


def calls_of(name: str) -> list[Found]:
    tree = ast.parse((DUMPS / f"{name}.py").read_text())
    found: list[Found] = []
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        if any("HOST" in ast.unparse(d) for d in function.decorator_list):
            continue
        reader = Reader()
        for a in function.args.args:
            if a.annotation is not None:
                reader.names[a.arg] = Var(a.arg, reader.type(a.annotation))
        found.extend(reader.calls(function.body))
    return found


def test_the_reference_programs_are_there() -> None:
    assert len(PROGRAMS) == 27


@pytest.mark.parametrize("name", PROGRAMS)
def test_printed_types_are_deduced(name: str) -> None:
    calls = calls_of(name)
    assert len(calls) == len(OP_CALL.findall((DUMPS / f"{name}.py").read_text()))
    wrong = []
    for text, call, stated in calls:
        deduced = infer_call(call)
        if stated is not None and deduced != stated and call.op not in STATED:
            wrong.append(f"{text}\n   deduced {deduced}\n   stated  {stated}")
    assert not wrong, "\n".join(wrong)
