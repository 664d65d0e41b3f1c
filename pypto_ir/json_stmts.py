"""Statements of program files: what each kind holds, what it binds, and where it may stand.

`{"for": "k", "range": [0, 256, 64], "carry": [{"name": "acc", "init": "acc0"}], "body": [..], "results":
["accf"]}` binds k and acc in its body and accf after it; acc and accf have the type of acc0. A statement that
cannot be read is reported, its names are bound all the same, and the statements after it are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, Var, const_int
from pypto_ir.json_annotations import merge
from pypto_ir.json_calls import read_function_call, read_op_call, read_submit
from pypto_ir.json_context import Reading
from pypto_ir.json_exprs import is_poisoned, read_expr, read_exprs, read_keywords, read_scalar
from pypto_ir.json_findings import Bad, Keys, found
from pypto_ir.json_forms import KEYS, TERMINATORS, label
from pypto_ir.json_names import POISON
from pypto_ir.json_place import Path
from pypto_ir.json_types import complete, read_annotation, read_type
from pypto_ir.ops.registry import type_of
from pypto_ir.stmt import (
    LOOP_KINDS,
    Assign,
    Block,
    Break,
    Carry,
    Continue,
    Eval,
    For,
    Function,
    If,
    Return,
    Scope,
    Stmt,
    Value,
    While,
    Yield,
)  # fmt: skip
from pypto_ir.types import ScalarType, TupleType, Type

declare(
    J501="an object is no statement, or is two",
    J502="a statement stands where it may not",
    J503="the number of values handed on does not fit",
    J504="a loop has a step of 0",
    J505="a call has another number of results than names",
)

_CARRY = Keys(("name", "init"))


class Statements:
    """Reads the statements of one function. `yields` is the number of values that the block at hand must hand
    on."""

    def __init__(self, r: Reading, functions: Mapping[str, Function], function: Function) -> None:
        self.r, self.functions, self.function = r, functions, function
        self.loops: list[bool] = []  # per enclosing loop: whether it carries values

    def block(self, value: Any, path: Path, yields: int | None, *, scope: bool = False) -> Block:
        """A block of statements. `yields`: how many values its yield hands on; None for the body of a
        function, which returns. The names of a `scope` stay visible after it."""
        statements = self.r.list(value, path, "statements")
        if scope:
            return self._statements(statements, path, yields)
        with self.r.names.block():
            return self._statements(statements, path, yields)

    def _statements(self, statements: list[Any], path: Path, yields: int | None) -> Block:
        r = self.r
        result: list[Stmt] = []
        last = len(statements) - 1
        outer = r.statement, r.loc
        ends = False
        for i, value in enumerate(statements):
            at: Path = (path, i)
            with suppress(Bad):
                kind = self._kind(value, at)
                loc = value.get("loc")
                r.statement, r.loc = label(kind, value), loc if type(loc) is str else None
                if kind in TERMINATORS:
                    self._place_of_terminator(kind, at, i == last, yields)
                ends = kind == ("return" if yields is None else "yield")
                result.append(self._statement(kind, value, at, yields))
            r.statement, r.loc = outer
        if yields and not ends:
            r.report(
                "J503",
                path,
                f"the block hands on nothing, {yields} value{'s are' if yields > 1 else ' is'} expected",
                'end it with {"yield": [..]}',
            )
        elif yields is None and self.function.returns and not ends:
            wanted = f"{len(self.function.returns)} value{'s' * (len(self.function.returns) > 1)}"
            r.report("J503", path, f"the body ends without return, the function returns {wanted}")
        return tuple(result)

    def _kind(self, value: Any, path: Path) -> str:
        r = self.r
        if type(value) is not dict:
            r.fail("J101", path, f"found {found(value)}, allowed is a statement, an object")
        kinds: list[str] = [key for key in value if key in KEYS]
        if len(kinds) != 1:
            what = f"the keys {' and '.join(kinds)} in one statement" if kinds else found(value)
            self._bind_all(value, path)
            r.fail("J501", path, f"found {what}, allowed is one of {', '.join(KEYS)}")
        return kinds[0]

    def _place_of_terminator(self, kind: str, path: Path, last: bool, yields: int | None) -> None:
        r = self.r
        if not last:
            r.report(
                "J502",
                path,
                f"{kind} is not the last statement of its block",
                "remove what follows, it is never reached",
            )
        if kind == "return" and yields is not None:
            r.fail(
                "J502",
                path,
                "return stands inside a loop, branch or scope",
                "hand values on with yields and return at the end of the function",
            )
        if kind == "yield" and yields is None:
            r.fail(
                "J502",
                path,
                "yield stands outside of a loop, branch and scope",
                "a function ends with return",
            )
        if kind in ("break", "continue"):
            if not self.loops:
                r.fail("J502", path, f"{kind} stands outside of a loop")
            if self.loops[-1]:
                r.fail("J502", path, f"{kind} stands in a loop that carries values")

    def _statement(self, kind: str, value: dict[str, Any], path: Path, yields: int | None) -> Stmt:
        r = self.r
        try:
            s = r.object(value, path, f"a statement `{kind}`", KEYS[kind])
            loc = r.string(s["loc"], (path, "loc"), "a source position") if "loc" in s else None
            comment = r.string(s["comment"], (path, "comment"), "a comment") if "comment" in s else None
            match kind:
                case "op" | "call" | "submit" | "expr":
                    return self._assign(kind, s, path, loc, comment)
                case "for":
                    return self._for(s, path, loc, comment)
                case "while":
                    return self._while(s, path, loc, comment)
                case "if":
                    return self._if(s, path, loc, comment)
                case "scope":
                    return self._scope(s, path, loc, comment, yields)
                case "yield" | "return":
                    return self._hand_on(kind, s, path, loc, comment, yields)
            r.flag(s[kind], (path, kind), kind)
            if s[kind] is not True:
                r.fail("J101", (path, kind), "found false, allowed is true")
            return Break(loc, comment) if kind == "break" else Continue(loc, comment)
        except Bad:
            self._bind_all(value, path)
            raise

    def _bind_all(self, value: dict[str, Any], path: Path) -> None:
        """Bind what a statement that cannot be read would have bound, so that its uses are not reported
        too."""
        for key in ("let", "results"):
            names = value.get(key, [])
            for name in names if type(names) is list else [names]:
                if type(name) is str and name not in self.r.names.defined:
                    with suppress(Bad):
                        self.r.names.check(name, (path, key), "a name")
                        self.r.names.define(name, (path, key), POISON)

    def _hand_on(
        self,
        kind: str,
        s: dict[str, Any],
        path: Path,
        loc: str | None,
        comment: str | None,
        yields: int | None,
    ) -> Stmt:
        values = read_exprs(self.r, s[kind], (path, kind), "values")
        wanted = len(self.function.returns) if yields is None else yields
        if len(values) != wanted:
            what = f"function {self.function.name} returns {wanted}" if yields is None else f"{wanted} expected by carry and results"
            self.r.fail("J503", (path, kind), f"found {len(values)} values, {what}")
        return Return(values, loc, comment) if kind == "return" else Yield(values, loc, comment)

    def _assign(self, kind: str, s: dict[str, Any], path: Path, loc: str | None, comment: str | None) -> Stmt:
        r = self.r
        value: Value
        types: tuple[Type, ...]
        match kind:
            case "op":
                value, t = read_op_call(r, s, path)
                types = (t,)
            case "call":
                value, types = read_function_call(r, s, path, self.functions)
            case "submit":
                value, types = read_submit(r, s, path, self.functions)
            case _:
                value, t = self._expr(s, path)
                types = (t,)
        if "let" not in s:
            assert not isinstance(value, Expr)
            return Eval(value, loc, comment)
        return Assign(self._targets(kind, s["let"], types, (path, "let")), value, loc, comment)

    def _expr(self, s: dict[str, Any], path: Path) -> tuple[Expr, Type]:
        e = read_expr(self.r, s["expr"], (path, "expr"))
        t = POISON if is_poisoned(e) else type_of(e)
        if "type" not in s:
            return e, t
        written = read_annotation(self.r, s["type"], (path, "type"))
        return e, complete(self.r, written) if t is POISON else merge(self.r, t, written, None)

    def _targets(self, kind: str, let: Any, types: tuple[Type, ...], path: Path) -> tuple[Var, ...]:
        r = self.r
        if type(let) is str:
            if not types:
                r.fail("J505", path, "the function returns nothing, found a name for its result")
            return (r.names.define(let, path, types[0] if len(types) == 1 else TupleType(types)),)
        if type(let) is not list:
            r.fail("J101", path, f"found {found(let)}, allowed is a name or a list of names")
        if kind not in ("call", "submit"):
            r.fail("J505", path, f"found {found(let)}, allowed is one name; only calls of functions bind several")
        if len(let) != len(types) or not let:
            r.fail("J505", path, f"found {len(let)} names, the call has {len(types)} results")
        return tuple(r.names.define(name, (path, i), t) for i, (name, t) in enumerate(zip(let, types, strict=True)))

    def _carries(self, s: dict[str, Any], path: Path) -> list[tuple[Any, Path, Expr]]:
        """Name, path of the name, and init of each carried value; inits are read in the scope around the
        loop."""
        r = self.r
        result: list[tuple[Any, Path, Expr]] = []
        for i, value in enumerate(r.list(s.get("carry", []), (path, "carry"), "carried values")):
            at: Path = ((path, "carry"), i)
            name: Any = value.get("name", "_") if type(value) is dict else "_"
            init: Expr = Var("_", POISON)
            with suppress(Bad):
                carry = r.object(value, at, "a carried value", _CARRY)
                init = read_expr(r, carry["init"], (at, "init"))
            result.append((name, (at, "name"), init))
        return result

    def _results(self, s: dict[str, Any], path: Path, types: list[Type], what: str) -> tuple[Var, ...]:
        r = self.r
        names = r.list(s.get("results", []), (path, "results"), "names of results")
        if len(names) != len(types):
            at = (path, "results") if "results" in s else path
            r.report("J503", at, f"found {len(names)} results, {what} {len(types)}")
            types = [*types, *[POISON] * len(names)][: len(names)]
        if "types" in s:
            types = self._stated(s["types"], (path, "types"), types)
        return tuple(r.names.define(n, ((path, "results"), i), t) for i, (n, t) in enumerate(zip(names, types, strict=True)))

    def _stated(self, value: Any, path: Path, types: list[Type]) -> list[Type]:
        """Types of results where the stated ones, null for none, differ from those of the values."""
        r = self.r
        stated = r.list(value, path, "the types of the results")
        if len(stated) != len(types):
            r.report("J503", path, f"found {len(stated)} types for {len(types)} results")
            return types
        result = list(types)
        for i, element in enumerate(stated):
            if element is not None:
                with suppress(Bad):
                    result[i] = read_type(r, element, (path, i))
        return result

    def _for(self, s: dict[str, Any], path: Path, loc: str | None, comment: str | None) -> Stmt:
        r = self.r
        bounds: list[Expr] = []
        value = r.list(s["range"], (path, "range"), "[start, stop, step]")
        if len(value) != 3:
            r.report("J106", (path, "range"), f"found {len(value)} bounds, allowed is [start, stop, step]")
        for i, element in enumerate(value[:3]):
            try:
                bounds.append(read_scalar(r, element, ((path, "range"), i), "a loop bound", "integer"))
            except Bad:
                bounds.append(Var("_", POISON))
        bounds += [Var("_", POISON)] * (3 - len(bounds))
        if const_int(bounds[2]) == 0:
            r.report("J504", ((path, "range"), 2), "found a step of 0, the loop would never end")
        typed = (b.dtype for b in bounds if isinstance(b, Const) and b.dtype is not DType.INDEX)
        kind = "range"
        with suppress(Bad):
            kind = r.word(s.get("kind", "range"), (path, "kind"), "loop kind", LOOP_KINDS)
        carried = self._carries(s, path)
        with r.names.block():
            var = r.names.define(s["for"], (path, "for"), ScalarType(next(typed, DType.INDEX)))
            carries = tuple(Carry(r.names.define(name, at, type_of(init)), init) for name, at, init in carried)
            body = self._loop_body(s, path, len(carries))
        results = self._results(s, path, [c.var.type for c in carries], "the loop carries")
        attrs = read_keywords(r, s.get("attrs", {}), (path, "attrs"), "the attributes")
        return For(var, bounds[0], bounds[1], bounds[2], body, carries, results, kind, attrs, loc, comment)

    def _while(self, s: dict[str, Any], path: Path, loc: str | None, comment: str | None) -> Stmt:
        r = self.r
        carried = self._carries(s, path)
        cond: Expr = Var("_", POISON)
        with r.names.block():
            carries = tuple(Carry(r.names.define(name, at, type_of(init)), init) for name, at, init in carried)
            with suppress(Bad):
                cond = read_scalar(r, s["while"], (path, "while"), "a condition", "BOOL")
            body = self._loop_body(s, path, len(carries))
        results = self._results(s, path, [c.var.type for c in carries], "the loop carries")
        return While(cond, body, carries, results, loc, comment)

    def _loop_body(self, s: dict[str, Any], path: Path, carries: int) -> Block:
        self.loops.append(carries > 0)
        try:
            return self.block(s["body"], (path, "body"), carries)
        finally:
            self.loops.pop()

    def _if(self, s: dict[str, Any], path: Path, loc: str | None, comment: str | None) -> Stmt:
        r = self.r
        cond: Expr = Var("_", POISON)
        with suppress(Bad):
            cond = read_scalar(r, s["if"], (path, "if"), "a condition", "BOOL")
        names = s.get("results", [])
        yields = len(names) if type(names) is list else 0
        if yields and "else" not in s:
            r.report(
                "J503",
                path,
                "the branch has results but no else arm",
                "yield the values of the other case there",
            )
        then = self.block(s["then"], (path, "then"), yields)
        orelse = self.block(s["else"], (path, "else"), yields) if "else" in s else None
        handed = then[-1].values if then and isinstance(then[-1], Yield) else ()
        types = [POISON if is_poisoned(e) else type_of(e) for e in handed]
        types = [*types, *[POISON] * yields][:yields]
        return If(cond, then, orelse, self._results(s, path, types, "the arms yield"), loc, comment)

    def _scope(self, s: dict[str, Any], path: Path, loc: str | None, comment: str | None, yields: int | None) -> Stmt:
        r = self.r
        kind = r.names.check(s["scope"], (path, "scope"), "the kind of a scope")
        attrs = read_keywords(r, s.get("attrs", {}), (path, "attrs"), "the attributes")
        # `with pl.at(..) as t` binds a task, every other scope the number of a lane
        dtype = DType.TASK_ID if kind == "at" else DType.INDEX
        var = r.names.define(s["var"], (path, "var"), ScalarType(dtype)) if "var" in s else None
        body = self.block(s["body"], (path, "body"), 0, scope=True)
        return Scope(kind, body, var, attrs, loc, comment)
