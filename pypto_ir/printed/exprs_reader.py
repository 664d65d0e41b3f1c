"""Scalar expressions and tuples of printed programs, with the arithmetic that the printed form implies.

A bare number is INDEX, and of two widths the narrower operand is cast: with i of INT32, `i + 1` is
`cast(i, INDEX) + 1`. What consists of bare numbers only is folded, `16 * 4 + 2` is 66, while
`pl.const(16, pl.INDEX) * pl.const(4, pl.INDEX)` stays a product (`spec/tile_ir.md` section 8).
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType, promote_scalar
from pypto_ir.expr import COMPARISONS, Binary, Cast, Const, Expr, Item, MakeTuple, Unary, Var, dtype_of
from pypto_ir.ops.registry import kind_name, type_of
from pypto_ir.printed.reading import Bad, Names, Reading
from pypto_ir.printed.words import DTYPES
from pypto_ir.types import TensorType, TileType, TupleType, UnknownType

declare(
    P301="an expression has a form that programs do not have",
    P302="an expression has the wrong type here",
    P303="a number does not fit its type",
)

#: deepest expression; the same limit as in program files
MAX_DEPTH = 100

#: a bare number is kept as such until its place gives it a type
Bare: TypeAlias = "int | float"

_BINARY: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Div: "truediv", ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "bitand",
    ast.BitOr: "bitor", ast.BitXor: "bitxor", ast.Pow: "pow",
}  # fmt: skip
_COMPARE: dict[type, str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"
}  # fmt: skip
_UNARY: dict[type, str] = {ast.USub: "neg", ast.Invert: "bitnot", ast.Not: "not"}
_INTEGER_OPS = frozenset({"shl", "shr", "bitand", "bitor", "bitxor"})
_FOLD: dict[str, Callable[[Bare, Bare], Bare]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
    "mod": operator.mod, "truediv": operator.truediv,
    "shl": operator.lshift, "shr": operator.rshift, "bitand": operator.and_, "bitor": operator.or_,
    "bitxor": operator.xor,
}  # fmt: skip


def attribute(node: ast.AST) -> tuple[str, ...] | None:
    """The names of `pl.tile.add` as ("pl", "tile", "add"), or None where a node is no such path."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    names.append(node.id)
    return tuple(reversed(names))


def bare_const(value: Bare) -> Const:
    """A bare number: INDEX, or FP32 where it has a fraction."""
    return Const(value, DType.FP32 if isinstance(value, float) else DType.INDEX)


class Exprs:
    """Reads the expressions of one function. `call` reads what is called and is no scalar function."""

    def __init__(self, r: Reading, names: Names, constants: Mapping[str, Bare | bool]) -> None:
        self.r, self.names, self.constants = r, names, constants
        self.call: Callable[[ast.Call], Expr] | None = None
        self.element: Callable[[ast.Subscript, Expr], Expr] | None = None
        #: values of nodes that were read ahead, by the identity of the node
        self.known: dict[int, Expr | Bare] = {}

    def expr(self, node: ast.expr) -> Expr:
        """An expression, or `Bad` after reporting."""
        value = self.value(node, 0)
        return value if isinstance(value, Expr) else bare_const(value)

    def exprs(self, nodes: list[ast.expr]) -> tuple[Expr, ...]:
        return tuple([self.expr(node) for node in nodes])

    def dims(self, node: ast.expr, what: str, low: int = 0) -> tuple[Expr, ...]:
        """A list of integer expressions whose constants are at least `low`: a shape, extents, strides."""
        if not isinstance(node, ast.List | ast.Tuple):
            self.r.fail("P301", node, f"found {shown(node)}, allowed as {what} is a list `[..]`")
        items = self.exprs(node.elts)
        for item, at in zip(items, node.elts, strict=True):
            if type(item) is not Const or item.dtype is not DType.INDEX:
                self.integer(item, at, f"part of {what}")
            if type(item) is Const and item.value < low:
                self.r.fail("P303", at, f"found {item.value} in {what}, allowed are {low} and more")
        return items

    def integer(self, e: Expr, node: ast.expr, what: str) -> Expr:
        d = dtype_of(e)
        if d is None or not d.is_int:
            t = type_of(e)
            if not isinstance(t, UnknownType) or d is not None:
                self.r.fail("P302", node, f"found {kind_name(t)}, allowed as {what} is an integer")
        return e

    def boolean(self, node: ast.expr, what: str) -> Expr:
        """A condition."""
        e = self.expr(node)
        if dtype_of(e) is not DType.BOOL and not isinstance(type_of(e), UnknownType):
            self.r.fail("P302", node, f"found {kind_name(type_of(e))}, allowed as {what} is a BOOL")
        return e

    def number(self, node: ast.expr, what: str) -> int:
        """A bare integer."""
        value = self.value(node, 0)
        if type(value) is not int:
            self.r.fail("P301", node, f"found {shown(node)}, allowed as {what} is an integer")
        return value

    def value(self, node: ast.expr, depth: int) -> Expr | Bare:
        """An expression, or the number that a subtree of bare numbers folds to."""
        kind = type(node)
        if kind is ast.Constant:
            return self._constant(node)  # type: ignore[arg-type]
        if kind is ast.Name:
            return self._name(node)  # type: ignore[arg-type]
        if self.known and id(node) in self.known:
            return self.known.pop(id(node))
        if depth >= MAX_DEPTH - 1:
            self.r.fail("P003", node, f"an expression is nested more than {MAX_DEPTH} levels deep")
        match node:
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                a, b = self.value(left, depth + 1), self.value(right, depth + 1)
                return self.join(_BINARY[type(op)], a, b, node)
            case ast.UnaryOp():
                return self._unary(node, depth)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                a, b = self.value(left, depth + 1), self.value(right, depth + 1)
                return self.join(_COMPARE[type(op)], typed(a), typed(b), node)
            case ast.Compare(ops=[_, _, *_]):
                self.r.fail("P301", node, "comparisons do not chain", "write `a < b and b < c`")
            case ast.BoolOp(op=bool_op, values=values):
                return self._logical("and" if isinstance(bool_op, ast.And) else "or", values, depth)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return MakeTuple(tuple([typed(self.value(item, depth + 1)) for item in items]))
            case ast.Call():
                return self._call(node, depth)
            case ast.Subscript(value=of):
                return self._item(node, typed(self.value(of, depth + 1)))
        self.r.fail("P301", node, f"found {shown(node)}, which is no expression of a program")

    def _constant(self, node: ast.Constant) -> Expr | Bare:
        value = node.value
        if type(value) is int:
            return self.fits(value, node)
        if type(value) is float:
            return value
        if type(value) is bool:
            return Const(value, DType.BOOL)
        self.r.fail("P301", node, f"found {shown(node)}, which is no expression of a program")

    def fits(self, value: Bare, node: ast.expr) -> Bare:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            self.r.fail("P303", node, "the number does not fit 64 bits")
        return value

    def _name(self, node: ast.Name) -> Expr | Bare:
        name = node.id
        var = self.names.visible.get(name)
        if var is not None:
            return var
        if name in self.constants:
            value = self.constants[name]
            return Const(value, DType.BOOL) if isinstance(value, bool) else value
        return self.names.lookup(name, node)

    def join(self, op: str, a: Expr | Bare, b: Expr | Bare, node: ast.expr) -> Expr | Bare:
        """A binary operation: folded where both sides are bare, else with the narrower side cast."""
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            return self._folded(op, a, b, node)
        a, b = typed(a), typed(b)
        left, right = dtype_of(a), dtype_of(b)
        if left is None or right is None:
            if not isinstance(type_of(a if left is None else b), UnknownType):
                found = f"found {kind_name(type_of(a))} and {kind_name(type_of(b))}"
                self.r.fail("P302", node, f"arithmetic works on scalars, {found}")
            return Binary(op, a, b)
        if left is not right:
            promoted = promote_scalar(left, right)
            if promoted is None:
                message = f"the operands do not mix, found {left.value} and {right.value}"
                self.r.fail("P302", node, message, "cast one of them: pl.cast(x, pl.FP32)")
            if left.bits < right.bits:
                a = Cast(a, right)
            elif right.bits < left.bits:
                b = Cast(b, left)
        elif left is DType.BOOL or left is DType.TASK_ID:
            self.r.fail("P302", node, f"found two operands of {left.value}, allowed are numbers")
        if op in _INTEGER_OPS and not left.is_int:
            self.r.fail("P302", node, f"found operands of {left.value}, allowed are integers")
        if op == "truediv" and not left.is_float:
            self.r.fail("P302", node, f"`/` divides floats, found operands of {left.value}", "write `//`")
        return Binary(op, a, b)

    def _folded(self, op: str, a: Bare, b: Bare, node: ast.expr) -> Expr | Bare:
        if op in COMPARISONS or op in ("min", "max"):
            return Binary(op, bare_const(a), bare_const(b))
        try:
            if op in ("shl", "shr") and not 0 <= b < 64:
                self.r.fail("P303", node, "a shift is by 0 to 63 bits")
            if op == "pow":
                fits = isinstance(a, float) or isinstance(b, float) or (0 <= b < 64 and abs(a) < 2**32)
                result = a**b if fits else 2**64
            else:
                result = _FOLD[op](a, b)
        except (ArithmeticError, TypeError, ValueError) as fault:
            self.r.fail("P303", node, f"the numbers cannot be folded: {fault}")
        if not isinstance(result, int | float):
            self.r.fail("P303", node, "the numbers fold to a complex number")
        return self.fits(result, node)

    def _unary(self, node: ast.UnaryOp, depth: int) -> Expr | Bare:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            number = node.operand.value
            if type(number) is int or type(number) is float:
                return self.fits(-number, node)
        a = self.value(node.operand, depth + 1)
        if isinstance(node.op, ast.UAdd):
            if isinstance(a, Expr):
                self.r.fail("P301", node, "found a unary `+`", "leave it out")
            return a
        op = _UNARY[type(node.op)]
        if not isinstance(a, Expr) and op != "not":
            if isinstance(a, float) and op == "bitnot":
                self.r.fail("P302", node, "`~` takes an integer")
            return self.fits(-a if op == "neg" else ~a, node)  # type: ignore[operator]
        a = typed(a)
        d = dtype_of(a)
        if d is None:
            if not isinstance(type_of(a), UnknownType):
                self.r.fail("P302", node, f"arithmetic works on scalars, found {kind_name(type_of(a))}")
        elif not (d is DType.BOOL if op == "not" else d.is_int or (d.is_float and op == "neg")):
            self.r.fail("P302", node, f"found an operand of {d.value}, which `{op}` does not take")
        return Unary(op, a)

    def _logical(self, op: str, values: list[ast.expr], depth: int) -> Expr:
        if depth + len(values) > MAX_DEPTH:
            self.r.fail("P003", values[-1], f"an expression is nested more than {MAX_DEPTH} levels deep")
        result: Expr | None = None
        for node in values:
            e = typed(self.value(node, depth + 1))
            if dtype_of(e) is not DType.BOOL and not isinstance(type_of(e), UnknownType):
                self.r.fail("P302", node, f"`{op}` takes BOOLs, found {kind_name(type_of(e))}")
            result = e if result is None else Binary(op, result, e)
        assert result is not None
        return result

    def _call(self, node: ast.Call, depth: int) -> Expr | Bare:
        path = attribute(node.func)
        if path == ("pl", "const"):
            return self._typed_constant(node, depth)
        if path in (("pl", "min"), ("pl", "max")) and len(node.args) == 2 and not node.keywords:
            a, b = (self.value(arg, depth + 1) for arg in node.args)
            if not isinstance(a, Expr) or not isinstance(type_of(a), TileType | TensorType):
                return self.join(path[1], a, b, node)
            self.keep(node.args[0], a)
            self.keep(node.args[1], b)
        if path == ("abs",) and len(node.args) == 1 and not node.keywords:
            return Unary("abs", self._scalar(node.args[0], depth))
        if path == ("pl", "cast") and node.args:
            operand = self.value(node.args[0], depth + 1)
            if not isinstance(operand, Expr) or not isinstance(type_of(operand), TileType | TensorType):
                return self._cast(node, typed(operand))
            self.keep(node.args[0], operand)
        if path == ("float",) and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
            word = node.args[0].value
            if word in ("inf", "-inf", "nan"):
                return float(word)
        if self.call is None:
            self.r.fail("P301", node, "found a call, which has no place here")
        return self.call(node)

    def keep(self, node: ast.expr, value: Expr | Bare) -> None:
        """Remember the value of a node that will be read again, so that a call in it is bound once."""
        if not isinstance(node, ast.Name | ast.Constant):
            self.known[id(node)] = value

    def _scalar(self, node: ast.expr, depth: int) -> Expr:
        e = typed(self.value(node, depth + 1))
        if dtype_of(e) is None and not isinstance(type_of(e), UnknownType):
            self.r.fail("P302", node, f"found {kind_name(type_of(e))}, allowed is a scalar")
        return e

    def _cast(self, node: ast.Call, operand: Expr) -> Expr:
        named = [k.value for k in node.keywords if k.arg in ("dtype", "target_type")]
        dtypes = [*node.args[1:], *named]
        if len(dtypes) != 1 or len(named) != len(node.keywords):
            self.r.fail("P301", node, "allowed is `pl.cast(value, pl.FP32)`")
        d = dtype_of(operand)
        if d is None and not isinstance(type_of(operand), UnknownType):
            self.r.fail("P302", node, f"found {kind_name(type_of(operand))}, only scalars and tiles are cast")
        if d is DType.TASK_ID:
            self.r.fail("P302", node, "a TASK_ID cannot be cast")
        return Cast(operand, self.dtype(dtypes[0]))

    def dtype(self, node: ast.expr) -> DType:
        """A dtype: `pl.FP32`."""
        path = attribute(node)
        if path is None or len(path) != 2 or path[0] != "pl" or path[1] not in DTYPES:
            self.r.fail("P301", node, f"found {shown(node)}, allowed is a dtype such as pl.FP32")
        return DTYPES[path[1]]

    def _typed_constant(self, node: ast.Call, depth: int) -> Expr:
        if len(node.args) != 2 or node.keywords:
            self.r.fail("P301", node, "allowed is `pl.const(number, pl.INT32)`")
        value = self.value(node.args[0], depth + 1)
        dtype = self.dtype(node.args[1])
        if isinstance(value, Const) and value.dtype is DType.BOOL and dtype is DType.BOOL:
            return value
        if isinstance(value, Expr):
            self.r.fail("P301", node.args[0], f"found {shown(node.args[0])}, allowed is a number")
        return self.constant(value, dtype, node)

    def constant(self, value: Bare, dtype: DType, node: ast.expr) -> Const:
        """A number of a type; an integer stays one as constant of a float type."""
        if isinstance(value, float):
            if dtype.is_float:
                return Const(value, dtype)
            self.r.fail("P303", node, f"found {value!r}, which is no value of {dtype.value}")
        if dtype is DType.BOOL:
            low, high = 0, 1
        elif dtype.is_float:
            low, high = -(2**63), 2**63 - 1
        elif dtype.is_unsigned:
            low, high = 0, 2**dtype.bits - 1
        elif dtype.is_int:
            low, high = -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
        else:
            self.r.fail("P303", node, f"{dtype.value} has no constants")
        if not low <= value <= high:
            self.r.fail("P303", node, f"found {value}, {dtype.value} holds {low} to {high}")
        return Const(value, dtype)

    def _item(self, node: ast.Subscript, of: Expr) -> Expr:
        t = type_of(of)
        if isinstance(t, TupleType | UnknownType):
            index = node.slice
            if not (isinstance(index, ast.Constant) and type(index.value) is int and index.value >= 0):
                self.r.fail("P301", node, "allowed as number of an element is 0, 1, ..")
            if isinstance(t, TupleType) and index.value >= len(t.items):
                message = f"found element {index.value}, the tuple has {len(t.items)}, counted from 0"
                self.r.fail("P302", node, message)
            return Item(of, index.value)
        if self.element is None:
            self.r.fail("P302", node, f"found an element of {kind_name(t)}, allowed is one of a tuple")
        return self.element(node, of)


def typed(value: Expr | Bare) -> Expr:
    """A bare number as a constant, anything else as it is."""
    return value if isinstance(value, Expr) else bare_const(value)


def shown(node: ast.AST) -> str:
    """A node in a few words for messages."""
    match node:
        case ast.Constant(value=value):
            try:
                text = ascii(value)
            except ValueError:
                return "a number of thousands of digits"
            return text if len(text) <= 40 else f"{text[:40]}.."
        case ast.Name(id=name):
            return name[:60]
        case ast.Attribute():
            path = attribute(node)
            return ".".join(path)[:80] if path else "an attribute of a value"
        case ast.Call(func=func):
            path = attribute(func)
            return f"a call of {'.'.join(path)[:80]}" if path else "a call"
        case ast.Subscript(value=of):
            path = attribute(of)
            return f"{'.'.join(path)[:80]}[..]" if path else "a subscript"
    return f"`{type(node).__name__}`"


__all__ = ["MAX_DEPTH", "Bad", "Bare", "Exprs", "Var", "attribute", "bare_const", "shown", "typed"]
