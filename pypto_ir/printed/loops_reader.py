"""Loops and scopes of printed programs.

`for i, (acc,) in pl.range(0, 8, 2, init_values=(x,)):` carries acc; the name that the yield at the end of the
body binds is the value after the loop. `for h in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):` and `with
pl.at(level=pl.Level.CORE_GROUP):` are scopes, whose names stay in view.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, Var, const_int, index
from pypto_ir.ops.registry import type_of
from pypto_ir.printed.exprs_reader import attribute, shown
from pypto_ir.printed.reading import POISON
from pypto_ir.printed.words import OF_SCOPE
from pypto_ir.stmt import LOOP_KINDS, Block, Carry, For, Keywords, Literal, Scope, While
from pypto_ir.types import INDEX, ScalarType, Type

if TYPE_CHECKING:
    from pypto_ir.printed.stmts_reader import Handed, Statements

declare(
    P604="a loop is malformed",
    P605="a scope is malformed",
)

#: scopes whose first positional argument is an attribute
_COUNTS = {"spmd": "core_num", "split_aiv": "count"}
TASK_ID = ScalarType(DType.TASK_ID)


def read_for(s: Statements, node: ast.For, comment: str | None) -> None:
    """Any `for`: a loop, a while loop with carries, or a scope with a variable."""
    path = attribute(node.iter.func) if isinstance(node.iter, ast.Call) else None
    if node.orelse:
        s.r.fail("P604", node.orelse[0], "a loop has no else")
    if path is None or len(path) != 2 or path[0] != "pl" or not isinstance(node.iter, ast.Call):
        s.r.fail("P604", node.iter, f"found {shown(node.iter)}, allowed is pl.range, pl.parallel, pl.pipeline, ..")
    call = node.iter
    match path[1]:
        case "range" | "parallel" | "pipeline" | "unroll":
            _loop(s, node, call, path[1], comment)
        case "while_":
            _while(s, node, call, comment)
        case "spmd" | "split_aiv":
            if not isinstance(node.target, ast.Name):
                s.r.fail("P605", node.target, f"found {shown(node.target)}, the scope binds one name")
            _scope(s, node, path[1], call, node.target, INDEX, comment)
        case other:
            s.r.fail(
                "P604",
                call,
                f"pl.{other[:60]} is no loop",
                f"loops are pl.{', pl.'.join(LOOP_KINDS)}, pl.while_",
            )


def _names(s: Statements, node: ast.expr) -> list[str]:
    items = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    result = []
    for item in items:
        if not isinstance(item, ast.Name):
            s.r.fail("P604", item, f"found {shown(item)}, a loop binds names")
        result.append(item.id)
    return result


def _loop(s: Statements, node: ast.For, call: ast.Call, kind: str, comment: str | None) -> None:
    inits: tuple[Expr, ...] = ()
    names: list[str] = []
    attrs: Keywords = ()
    stage: Keywords = ()
    for k in call.keywords:
        match k.arg:
            case "init_values" if isinstance(k.value, ast.Tuple | ast.List):
                inits = s.exprs.exprs(k.value.elts)
            case "attrs":
                attrs = s.calls.literals.record(k.value, {})
            case "stage" if kind == "pipeline":
                stage = (("pipeline_stages", s.calls.literals.literal(k.value, None)),)
            case other:
                s.r.fail("P604", k.value, f"found {other}, which a loop does not take so")
    match node.target:
        case ast.Name(id=name):
            pass
        case ast.Tuple(elts=[ast.Name(id=name), carried]):
            names = _names(s, carried)
        case _:
            s.r.fail("P604", node.target, "allowed is `for i in ..` or `for i, (acc,) in ..`")
    if len(names) != len(inits):
        s.r.fail("P604", node.target, f"found {len(names)} carried names for {len(inits)} initial values")
    start, stop, step = _bounds(s, call)
    typed = (b.dtype for b in (start, stop, step) if isinstance(b, Const) and b.dtype is not DType.INDEX)
    extra = s.sugar.rebound_in_loop(node)
    with s.names.block():
        var = s.names.define(name, ScalarType(next(typed, DType.INDEX)))
        carries = [Carry(s.names.define(n, type_of(e)), e) for n, e in zip(names, inits, strict=True)]
        carries += s.sugar.carries(extra)
        body, handed = _loop_body(s, node.body, bool(carries))
        body, handed = s.sugar.hand_on(extra, body, handed)
    results = _results(s, node, carries, handed, extra)
    s.add(
        For(var, start, stop, step, body, tuple(carries), results, kind, (*stage, *attrs), comment=comment),
        node,
    )


def _bounds(s: Statements, call: ast.Call) -> tuple[Expr, Expr, Expr]:
    bounds = [s.exprs.integer(s.exprs.expr(arg), arg, "a loop bound") for arg in call.args]
    result: tuple[Expr, Expr, Expr]
    match bounds:
        case [stop]:
            result = (index(0), stop, index(1))
        case [start, stop]:
            result = (start, stop, index(1))
        case [start, stop, step]:
            result = (start, stop, step)
        case _:
            s.r.fail(
                "P604",
                call,
                f"found {len(bounds)} bounds, allowed are stop; start, stop; or start, stop, step",
            )
    if const_int(result[2]) == 0:
        s.r.fail("P604", call, "found a step of 0, the loop would never end")
    return result


def _loop_body(s: Statements, nodes: list[ast.stmt], carries: bool) -> tuple[Block, Handed | None]:
    s.loops.append(carries)
    try:
        return s.block(nodes, "loop")
    finally:
        s.loops.pop()


def _results(s: Statements, node: ast.stmt, carries: list[Carry], handed: Handed | None, extra: list[str]) -> tuple[Var, ...]:
    """The values after a loop: named by its yield, of the types of the yielded values."""
    explicit = len(carries) - len(extra)
    yielded = len(handed.values) if handed else 0
    if yielded != len(carries):
        if not s.r.errors:
            where = handed.node if handed and handed.node else node
            s.r.report("P603", where, f"the loop carries {explicit} values, its body yields {yielded - len(extra)}")
        names = [n.id for n in handed.names] if handed else []
        return tuple(s.names.define(name, POISON) for name in names)
    if handed is None:
        return ()
    names = [n.id for n in handed.names]
    types: list[Type] = [type_of(v) for v in handed.values]
    names += [f"{c.var.name}_out" for c in carries[len(names) : explicit]]
    return tuple(s.names.define(n, t) for n, t in zip([*names, *extra], types, strict=True))


def _while(s: Statements, node: ast.For, call: ast.Call, comment: str | None) -> None:
    if call.args or [k.arg for k in call.keywords] != ["init_values"]:
        s.r.fail("P604", call, "allowed is pl.while_(init_values=(x,))")
    values = call.keywords[0].value
    if not isinstance(values, ast.Tuple | ast.List):
        s.r.fail("P604", values, "init_values is a tuple")
    inits, names = s.exprs.exprs(values.elts), _names(s, node.target)
    if len(names) != len(inits):
        s.r.fail("P604", node.target, f"found {len(names)} carried names for {len(inits)} initial values")
    with s.names.block():
        carries = [Carry(s.names.define(n, type_of(e)), e) for n, e in zip(names, inits, strict=True)]
        match node.body:
            case [ast.Expr(value=ast.Call(func=func, args=[cond], keywords=[])), *rest] if attribute(func) == ("pl", "cond"):
                test = _condition(s, cond)
            case _:
                s.r.fail("P604", node.body[0], "the first line of the body is `pl.cond(<condition>)`")
        body, handed = _loop_body(s, rest, True)
    results = _results(s, node, carries, handed, [])
    s.add(While(test, body, tuple(carries), results, comment=comment), node)


def _condition(s: Statements, node: ast.expr) -> Expr:
    """A condition of a while loop, which is evaluated before every trip: no call can be bound before it."""
    s.hoists = False
    try:
        return s.exprs.boolean(node, "a condition")
    finally:
        s.hoists = True


def read_while(s: Statements, node: ast.While, comment: str | None) -> None:
    """`while cond:`, without carried values in the text."""
    if node.orelse:
        s.r.fail("P604", node.orelse[0], "a loop has no else")
    extra = s.sugar.rebound_in_loop(node)
    with s.names.block():
        carries = s.sugar.carries(extra)
        cond = _condition(s, node.test)
        body, handed = _loop_body(s, node.body, bool(carries))
        body, handed = s.sugar.hand_on(extra, body, handed)
    results = _results(s, node, carries, handed, extra)
    s.add(While(cond, body, tuple(carries), results, comment=comment), node)


def read_with(s: Statements, node: ast.With, comment: str | None) -> None:
    """`with pl.at(..):`, `pl.cluster`, `pl.spmd`, `pl.scope` and other scopes without a loop variable."""
    if len(node.items) != 1:
        s.r.fail("P605", node, "a scope stands alone in its `with`")
    item = node.items[0]
    call = item.context_expr
    path = attribute(call.func) if isinstance(call, ast.Call) else None
    if path is None or len(path) != 2 or path[0] != "pl" or not isinstance(call, ast.Call):
        s.r.fail("P605", call, f"found {shown(call)}, allowed is a scope such as pl.at(..)")
    var = item.optional_vars
    if var is not None and not isinstance(var, ast.Name):
        s.r.fail("P605", var, f"found {shown(var)}, a scope binds one name")
    # `with pl.at(..) as t` binds a task, every other scope the number of a lane
    _scope(s, node, path[1], call, var, TASK_ID if path[1] == "at" else INDEX, comment)


def _scope(
    s: Statements,
    node: ast.For | ast.With,
    kind: str,
    call: ast.Call,
    target: ast.Name | None,
    t: Type,
    comment: str | None,
) -> None:
    attrs: Keywords
    if kind == "manual_scope":
        kind, attrs = "scope", (("mode", "MANUAL"),)
    else:
        attrs = _attributes(s, kind, call)
    var = s.names.define(target.id, t) if target is not None else None
    body, _ = s.block(node.body, "scope")
    s.add(Scope(kind, body, var, attrs, comment=comment), node)


def _attributes(s: Statements, kind: str, call: ast.Call) -> Keywords:
    enums = OF_SCOPE.get(kind, {})
    result: list[tuple[str, Literal]] = []
    if call.args:
        if len(call.args) > 1 or kind not in _COUNTS:
            s.r.fail("P605", call.args[-1], f"pl.{kind} takes keyword arguments")
        count = s.calls.literals.literal(call.args[0], None)
        if not (kind == "split_aiv" and count == 2):
            result.append((_COUNTS[kind], count))
    for k in call.keywords:
        if k.arg is None:
            s.r.fail("P605", k.value, "found `**`, allowed are keyword arguments")
        if k.arg == "optimizations" and kind == "at":
            result.extend(_optimizations(s, k.value))
            continue
        value = s.calls.literals.literal(k.value, enums.get(k.arg))
        if k.arg == "name_hint" and kind == "spmd" and isinstance(value, str) and not value.endswith("_spmd"):
            value += "_spmd"
        result.append((k.arg, value))
    return tuple(result)


def _optimizations(s: Statements, node: ast.expr) -> Keywords:
    """`[pl.split(pl.SplitMode.UP_DOWN)]` is the attribute `split`."""
    match node:
        case ast.List(elts=[ast.Call(func=func, args=[mode], keywords=[])]) if attribute(func) == (
            "pl",
            "split",
        ):
            return (("split", s.calls.literals.literal(mode, "SplitMode")),)
    s.r.fail("P605", node, "allowed is optimizations=[pl.split(pl.SplitMode.UP_DOWN)]")
