"""Calls of printed programs: of ops (`pl.tile.add(a, b)`), of functions (`self.k(a)`), and task launches.

`pl.tile.full([1, 16], dtype=pl.FP32, value=0.0)` has the operands `[1, 16]` and `0.0`: some operands print as
keywords. A bare integer in a data position of a tile op takes the tile's dtype; a call inside an operand is
bound to a name of its own before the statement.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, MakeTuple
from pypto_ir.json_calls import TASK_ID, plain_dtype, result_types
from pypto_ir.ops.registry import OpDef, OpError, find_op
from pypto_ir.ops.rules import infer_call
from pypto_ir.printed.exprs_reader import Bare, Exprs, attribute, shown, typed
from pypto_ir.printed.literals_reader import Literals
from pypto_ir.printed.words import (
    DTYPES,
    FILLS,
    KEYWORD_OPERANDS,
    LEADING_KEYWORD,
    OF_ATTRIBUTE,
    OF_KWARG,
    op_name,
)
from pypto_ir.stmt import Call, Function, FunctionCall, Keywords, Literal, Submit
from pypto_ir.types import TupleType, Type, UnknownType

if TYPE_CHECKING:
    from pypto_ir.printed.sugar import Sugar

declare(
    P401="a call has a form that programs do not have",
    P402="an op refuses its operands or keyword arguments",
    P403="a function that is not in the program is called",
    P404="the arguments of a call do not fit the function",
    P502="an op refuses its operands, but its result is annotated",
)

#: printed order of the keyword arguments of a submit -> the order in programs
SUBMIT_FIELDS = ("deps", "core_num", "sync_start", "allow_early_resolve", "predicate", "dumps", "device")


#: keyword arguments that may stand among the operands, in their order
_WORDS = {
    "tile.cast": ("target_type",),
    "tensor.cast": ("target_type",),
    "tile.create": ("dtype", "target_memory"),
    "tensor.create": ("dtype",),
    "tile.full": ("dtype",),
    "tensor.full": ("dtype",),
    "tile.move": ("target_memory",),
    "array.create": ("dtype",),
}


class Calls:
    """Reads the calls of one function; `functions` are the signatures of the program."""

    def __init__(self, exprs: Exprs, functions: Mapping[str, Function], sugar: Sugar | None = None) -> None:
        self.exprs, self.r, self.functions = exprs, exprs.r, functions
        self.literals = Literals(exprs)
        self.sugar = sugar

    def call(self, node: ast.Call) -> Call | FunctionCall | Submit | Expr:
        """What a call expression is; `Bad` after reporting."""
        path = attribute(node.func)
        match path:
            case ("self", name):
                return self._function_call(node, name)
            case ("pl", "submit" | "spmd_submit"):
                return self._submit(node)
            case ("pl", "tile" | "tensor" | "array" | "system", _):
                return self.op_call(node, op_name(path[1:]))
            case ("pld", *_):
                return self.op_call(node, op_name(path))
            case ("pl", _) if self.sugar is not None:
                return self.sugar.call(node, path[1])
        self.r.fail("P401", node, f"found {shown(node)}, which is neither an op nor a function of the program")

    # ---- ops -----------------------------------------------------------------------------------------------

    def op_call(self, node: ast.Call, name: str) -> Call:
        """The call of the op `name`."""
        op = find_op(name)
        attrs: Keywords = ()
        moved = {key: position for position, key, _ in KEYWORD_OPERANDS.get(name, ())}
        nodes: list[ast.expr] = node.args
        named: list[ast.keyword] = []
        leading: Keywords = ()
        placed: dict[int, ast.expr] = {}
        for k in node.keywords:
            if k.arg == "attrs":
                attrs = self.literals.record(k.value, OF_ATTRIBUTE)
            elif k.arg in moved:
                placed[moved[k.arg]] = k.value
            elif k.arg == "shapes" and name == "tile.store":
                placed[3] = k.value
            else:
                named.append(k)
        if name in LEADING_KEYWORD and nodes:
            leading = ((LEADING_KEYWORD[name], self.literals.literal(nodes[0], "Mem")),)
            nodes = nodes[1:]
        if any(type(n) is ast.Attribute for n in nodes):
            leading, nodes = self._words(name, nodes, leading)
        kwargs = (*leading, *self.literals.keywords(named, OF_KWARG)) if named or leading else ()
        args = self._args(op, nodes, kwargs)
        if placed:
            args = self._with_placed(op, args, placed, kwargs, node)
        return Call(name, args, kwargs, attrs)

    def _words(self, name: str, nodes: list[ast.expr], leading: Keywords) -> tuple[Keywords, list[ast.expr]]:
        """Members of enumerations among the operands as keyword arguments: `pl.tile.cast(t, pl.FP16)`."""
        keys = iter(_WORDS.get(name, ()))
        rest: list[ast.expr] = []
        for node in nodes:
            key = next(keys, None) if type(node) is ast.Attribute else None
            if key is None:
                rest.append(node)
            else:
                leading = (*leading, (key, self.literals.literal(node, OF_KWARG[key])))
        return leading, rest

    def _args(self, op: OpDef | None, nodes: list[ast.expr], kwargs: Keywords) -> tuple[Expr, ...]:
        args: list[Expr] = []
        value = self.exprs.value
        for i, node in enumerate(nodes):
            if type(node) is ast.Starred:
                self.r.fail("P401", node, "found `*`, operands are given one by one")
            e = value(node, 0)
            args.append(e if isinstance(e, Expr) else self.bare(op, i, args, kwargs, e, node))
        return tuple(args)

    def bare(self, op: OpDef | None, i: int, args: list[Expr], kwargs: Keywords, value: Bare, node: ast.expr) -> Const:
        """A bare number as operand `i`: an integer takes the dtype of the tile, a float stays FP32; what
        fills a tile or tensor takes its dtype."""
        if op is not None and op.name in FILLS:
            word = next((v for k, v in kwargs if k == "dtype"), None)
            fill = DTYPES.get(word) if isinstance(word, str) else None
            if fill is not None and (fill.is_float or isinstance(value, int)):
                return self.exprs.constant(value, fill, node)
        elif isinstance(value, int) and op is not None:
            dtype = plain_dtype(op, i, args, kwargs)
            if dtype is not None:
                return self.exprs.constant(float(value) if dtype.is_float else value, dtype, node)
        result = typed(value)
        assert isinstance(result, Const)
        return result

    def _with_placed(
        self,
        op: OpDef | None,
        args: tuple[Expr, ...],
        placed: dict[int, ast.expr],
        kwargs: Keywords,
        node: ast.Call,
    ) -> tuple[Expr, ...]:
        result = list(args)
        for position in sorted(placed):
            if position < len(result):
                self.r.fail("P401", placed[position], "an operand is given twice")
            while len(result) < position:
                result.append(MakeTuple(()))
            at = placed[position]
            e = self.exprs.value(at, 0)
            if not isinstance(e, Expr):
                e = self.bare(op, position, result, kwargs, e, at)
            result.append(e)
        return tuple(result)

    def type_of(self, call: Call, node: ast.AST, annotated: bool) -> Type:
        """The deduced type of an op call: unknown for an op that the registry does not know. A refusal is an
        error, or a warning where an annotation gives the type."""
        try:
            return infer_call(call)
        except KeyError:
            return UnknownType()
        except OpError as fault:
            if annotated:
                self.r.warn("P502", node, fault.message, fault.help)
                return UnknownType()
            self.r.fail("P402", node, fault.message, fault.help)

    # ---- functions -----------------------------------------------------------------------------------------

    def _callee(self, node: ast.AST, name: str) -> Function:
        if name not in self.functions:
            import difflib

            close = difflib.get_close_matches(name[:60], list(self.functions)[:2000], 1)
            help = f"did you mean {close[0]}?" if close else None
            self.r.fail("P403", node, f"{name[:60]} is no function of the program", help)
        return self.functions[name]

    def _function_call(self, node: ast.Call, name: str) -> FunctionCall:
        callee = self._callee(node, name)
        args = self.exprs.exprs(node.args)
        attrs: Keywords = ()
        named = []
        for k in node.keywords:
            if k.arg == "attrs":
                attrs = self.literals.record(k.value, OF_ATTRIBUTE)
            else:
                named.append(k)
        if len(args) != len(callee.params):
            message = f"{name} takes {len(callee.params)} arguments, found {len(args)}"
            self.r.fail("P404", node, message, _parameters(callee))
        return FunctionCall(name, args, self.literals.keywords(named, {}), attrs)

    def _submit(self, node: ast.Call) -> Submit:
        path = attribute(node.args[0]) if node.args else None
        if path is None or len(path) != 2 or path[0] != "self":
            self.r.fail("P401", node, "the first argument of a submit is a function: `pl.submit(self.k, ..)`")
        callee = self._callee(node.args[0], path[1])
        args = self.exprs.exprs(node.args[1:])
        if len(args) > len(callee.params):
            message = f"{path[1]} takes {len(callee.params)} arguments at most, found {len(args)}"
            self.r.fail("P404", node, message, _parameters(callee))
        fields: dict[str, Literal] = {}
        attrs: Keywords = ()
        for k in node.keywords:
            match k.arg:
                case "attrs":
                    attrs = self.literals.record(k.value, OF_ATTRIBUTE)
                case "deps" | "dumps":
                    if not isinstance(k.value, ast.List | ast.Tuple):
                        self.r.fail("P401", k.value, f"{k.arg} is a list")
                    fields[k.arg] = self.exprs.exprs(k.value.elts)
                case "sync_start" | "allow_early_resolve":
                    if not (isinstance(k.value, ast.Constant) and type(k.value.value) is bool):
                        self.r.fail("P401", k.value, f"{k.arg} is True or False")
                    if k.value.value:
                        fields[k.arg] = True
                case "predicate":
                    if not isinstance(k.value, ast.List | ast.Tuple):
                        self.r.fail("P401", k.value, "a predicate is a tuple")
                    fields[k.arg] = self.literals.literal(k.value, None)
                case "core_num" | "device":
                    fields[k.arg] = self.exprs.integer(self.exprs.expr(k.value), k.value, k.arg)
                case _:
                    allowed = ", ".join(SUBMIT_FIELDS)
                    self.r.fail("P401", k.value, f"found {k.arg}, a submit takes {allowed} and attrs")
        ordered = tuple((key, fields[key]) for key in SUBMIT_FIELDS if key in fields)
        return Submit(path[1], args, ordered, attrs)

    def result_type(self, value: FunctionCall | Submit) -> Type:
        """The type of the result of a call or submit; several results are a tuple."""
        callee = self.functions[value.function]
        types = result_types(callee, value.args)
        if isinstance(value, Submit):
            types = (*types, TASK_ID)
        return types[0] if len(types) == 1 else TupleType(types)


def _parameters(callee: Function) -> str:
    listed = ", ".join(p.var.name for p in callee.params)
    return f"its parameters are {listed}" if listed else "it has no parameters"


__all__ = ["SUBMIT_FIELDS", "Calls", "DType"]
