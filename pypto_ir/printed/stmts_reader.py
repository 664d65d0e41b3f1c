"""Statements of printed programs: definitions, branches, what blocks hand on.

    if p > 0:
        y: pl.Tile[[16, 16], pl.FP32] = pl.yield_(a)
    else:
        y: pl.Tile[[16, 16], pl.FP32] = pl.yield_(b)

is one branch with the result y, whose type is the annotated one, without a memory space
(`spec/tile_ir.md` section 8). A statement that cannot be read is reported, its names are bound all the same,
and the statements after it are read.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import Const, Expr, Var
from pypto_ir.ops.registry import kind_name, type_of
from pypto_ir.printed import loops_reader
from pypto_ir.printed.annotations import merged
from pypto_ir.printed.calls_reader import Calls
from pypto_ir.printed.comments import Comments
from pypto_ir.printed.exprs_reader import Bare, Exprs, attribute, shown, typed
from pypto_ir.printed.reading import POISON, Bad, Names, Reading
from pypto_ir.printed.sugar import Sugar
from pypto_ir.printed.types_reader import Annotation, Types
from pypto_ir.stmt import (
    Assign,
    Block,
    Break,
    Call,
    Continue,
    Eval,
    Function,
    FunctionCall,
    If,
    Return,
    Stmt,
    Submit,
    Value,
    Yield,
)  # fmt: skip
from pypto_ir.types import ScalarType, TupleType, Type, UnknownType

declare(
    P405="the type of a value is neither written nor deduced",
    P601="a statement has a form that programs do not have",
    P602="a statement stands where it may not",
    P603="the number of values handed on does not fit",
)

#: deepest nesting of loops and branches; deeper ones have no program file either
MAX_BLOCKS = 40

_SCALAR_CALLS = frozenset({("pl", "const"), ("pl", "min"), ("pl", "max"), ("pl", "cast"), ("abs",), ("float",)})


@dataclass(slots=True)
class Handed:
    """What the yield of a block hands on: values, and the names and annotation that it binds."""

    values: tuple[Expr, ...]
    names: list[ast.Name] = field(default_factory=list)
    annotation: Annotation | None = None
    node: ast.stmt | None = None


class Statements:
    """Reads the statements of one function. `lines` keeps the place of every statement by its identity."""

    def __init__(
        self,
        r: Reading,
        names: Names,
        constants: Mapping[str, Bare | bool],
        functions: Mapping[str, Function],
        function: Function,
        types: dict[str, Annotation],
        comments: Comments,
        lines: dict[int, tuple[int, int]],
    ) -> None:
        self.r, self.names, self.function, self.comments, self.lines = r, names, function, comments, lines
        self.exprs = Exprs(r, names, constants)
        self.types = Types(self.exprs, types)
        self.calls = Calls(self.exprs, functions)
        self.sugar = Sugar(self)
        self.calls.sugar = self.sugar
        self.exprs.call = self.bound
        self.exprs.element = self.sugar.element
        self.out: list[Stmt] = []
        self.loops: list[bool] = []  # per enclosing loop: whether it carries values
        self.depth = 0
        self.hoists = True

    # ---- blocks --------------------------------------------------------------------------------------------

    def body(self, nodes: list[ast.stmt]) -> Block:
        """The body of the function."""
        block, handed = self.block(nodes, "function")
        if handed is not None:
            block = (*block[:-1], Return(handed.values, comment=block[-1].comment))
        wanted = len(self.function.returns)
        last = block[-1] if block else None
        if isinstance(last, Return):
            if len(last.values) != wanted and not self.r.errors:
                found = f"found {len(last.values)} values, {self.function.name} returns {wanted}"
                self.r.report("P603", nodes[-1], found)
        elif wanted and not self.r.errors:
            message = f"the body ends without return, the function returns {wanted}"
            self.r.report("P603", nodes[-1], message)
        return block

    def block(self, nodes: list[ast.stmt], kind: str) -> tuple[Block, Handed | None]:
        """A block of statements and what it hands on. `kind` is function, loop, branch or scope."""
        outer, self.out = self.out, []
        self.depth += 1
        handed: Handed | None = None
        try:
            if self.depth > MAX_BLOCKS:
                self.r.fail("P003", nodes[0], f"blocks are nested more than {MAX_BLOCKS} deep")
            last = len(nodes) - 1
            for i, node in enumerate(nodes):
                comment = self.comments.take(node)
                try:
                    handed = self._statement(node, comment, kind, i == last) or handed
                except Bad:
                    self._bind_all(node)
            return tuple(self.out), handed
        finally:
            self.depth -= 1
            self.out = outer

    def add(self, s: Stmt, node: ast.stmt) -> None:
        self.lines[id(s)] = (node.lineno, node.col_offset)
        self.out.append(s)

    def _statement(self, node: ast.stmt, comment: str | None, kind: str, last: bool) -> Handed | None:
        match node:
            case ast.AnnAssign(target=ast.Name(), value=ast.expr()):
                if self._is_yield(node.value):
                    return self._yield(node, node.value, [node.target], node.annotation, comment, kind, last)
                self._annotated(node, comment)
            case ast.Expr(value=ast.Constant(value=str() as text)):
                self.comments.document(text if comment is None else f"{comment}\n{text}")
            case ast.Expr(value=value):
                if self._is_yield(value):
                    return self._yield(node, value, [], None, comment, kind, last)
                self._eval(node, value, comment)
            case ast.Assign(targets=[target], value=value):
                if self._is_yield(value):
                    names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                    return self._yield(node, value, names, None, comment, kind, last)
                self.sugar.assign(node, target, value, comment)
            case ast.For():
                loops_reader.read_for(self, node, comment)
            case ast.While():
                loops_reader.read_while(self, node, comment)
            case ast.If():
                self._if(node, comment)
            case ast.With():
                loops_reader.read_with(self, node, comment)
            case ast.Return(value=value):
                self._return(node, value, comment, kind, last)
            case ast.Break() | ast.Continue():
                self._jump(node, comment, last)
            case ast.Pass():
                pass
            case ast.AugAssign():
                self.sugar.augmented(node, comment)
            case _:
                self.r.fail("P601", node, f"found {shown(node)}, which is no statement of a program")
        return None

    def _bind_all(self, node: ast.stmt) -> None:
        """Bind what a statement that cannot be read would have bound, so that its uses are not reported
        too."""
        targets: list[ast.expr] = []
        match node:
            case ast.AnnAssign() | ast.AugAssign():
                targets = [node.target]
            case ast.Assign():
                targets = node.targets
            case ast.For() | ast.While() | ast.If() | ast.With():
                for inner in [*node.body, *getattr(node, "orelse", [])][-50:]:
                    if isinstance(inner, ast.AnnAssign | ast.Assign):
                        self._bind_all(inner)
        for target in targets:
            for name in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                if isinstance(name, ast.Name):
                    self.names.define(name.id, POISON)

    # ---- definitions ---------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value | Bare:
        """What a definition defines: an expression, a bare number, a call."""
        kind = type(node)
        if kind is ast.Call:
            path = attribute(node.func)  # type: ignore[attr-defined]
            if path not in _SCALAR_CALLS:
                return self.calls.call(node)  # type: ignore[arg-type]
        if kind is ast.Subscript or (kind is ast.Call and path == ("pl", "cast") and node.args):  # type: ignore[attr-defined]
            short = self.sugar.short(node)
            if short is not None:
                return short
        return self.exprs.value(node, 0)

    def deduced(self, value: Value, node: ast.AST, annotated: bool) -> Type:
        """The type of a value as its op, function or operands give it."""
        match value:
            case Call():
                return self.calls.type_of(value, node, annotated)
            case FunctionCall() | Submit():
                return self.calls.result_type(value)
        return type_of(value)

    def bound(self, node: ast.Call) -> Expr:
        """A call inside an expression, bound to a name of its own before the statement."""
        value = self.calls.call(node)
        if isinstance(value, Expr):
            return value
        if not self.hoists:
            self.r.fail("P601", node, "a call cannot stand here", "bind it to a name in the body before")
        t = self.deduced(value, node, False)
        if isinstance(t, UnknownType):
            self.r.fail("P405", node, f"the type of {shown(node)} is not known", "bind it to a name with a type")
        base = value.op.rpartition(".")[2] if isinstance(value, Call) else value.function
        var = self.names.temporary(f"{base}_tmp", t)
        self.out.append(Assign((var,), value))
        return var

    def _annotated(self, node: ast.AnnAssign, comment: str | None) -> None:
        assert node.value is not None and isinstance(node.target, ast.Name)
        value = self.value(node.value)
        written = self.types.annotation(node.annotation)
        self.define(node, node.target.id, value, written, comment)

    def define(self, node: ast.stmt, name: str, value: Value | Bare, written: Annotation | None, comment: str | None) -> Var:
        """Add `name: written = value`."""
        t: Type
        where = node.value if isinstance(node, ast.AnnAssign | ast.Assign) and node.value else node
        if not isinstance(value, Expr | Call | FunctionCall | Submit):
            value = self._retyped(value, written, node)
        if written is None:
            t = self.deduced(value, where, False)
            if isinstance(t, UnknownType) and t is not POISON:
                help = f"annotate it: {name}: pl.Tile[..] = .."
                self.r.fail("P405", node, f"the type of {name} is neither written nor deduced", help)
        else:
            t = written.type
            deduced = self.deduced(value, where, True)
            if deduced is not t and deduced is not POISON:
                op = value.op if isinstance(value, Call) else None
                t = merged(self.r, node, deduced, written, op, isinstance(value, FunctionCall | Submit))
        var = self.names.define(name, t)
        self.add(Assign((var,), value, comment=comment), node)
        return var

    def _retyped(self, value: Bare, written: Annotation | None, node: ast.stmt) -> Const:
        """A bare number takes the annotated dtype."""
        if written is not None and isinstance(written.type, ScalarType):
            dtype = written.type.dtype
            if dtype.is_float if isinstance(value, float) else dtype is not DType.TASK_ID:
                at = node.value if isinstance(node, ast.AnnAssign) and node.value else node
                return self.exprs.constant(value, dtype, at)  # type: ignore[arg-type]
        result = typed(value)
        assert isinstance(result, Const)
        return result

    def _eval(self, node: ast.Expr, value: ast.expr, comment: str | None) -> None:
        if not isinstance(value, ast.Call):
            self.r.fail("P601", node, f"found {shown(value)}, allowed as a statement is a call")
        call = self.value(value)
        if not isinstance(call, Call | FunctionCall | Submit):
            self.r.fail("P601", node, f"found {shown(value)}, whose value is not used")
        if isinstance(call, Call):
            self.calls.type_of(call, node, True)
        self.add(Eval(call, comment=comment), node)

    # ---- what blocks hand on -------------------------------------------------------------------------------

    def _is_yield(self, node: ast.expr | None) -> bool:
        return type(node) is ast.Call and attribute(node.func) == ("pl", "yield_")

    def _yield(
        self,
        node: ast.stmt,
        call: ast.expr | None,
        names: list[ast.expr],
        annotation: ast.expr | None,
        comment: str | None,
        kind: str,
        last: bool,
    ) -> Handed:
        assert isinstance(call, ast.Call)
        if not last:
            self.r.fail("P602", node, "a yield is not the last statement of its block")
        if kind == "scope" or (kind == "function" and names):
            self.r.fail("P602", node, f"a yield that binds names stands in a {kind}")
        if call.keywords:
            self.r.fail("P601", node, "a yield takes values only")
        values = self.exprs.exprs(call.args)
        targets: list[ast.Name] = []
        for name in names:
            if not isinstance(name, ast.Name):
                self.r.fail("P601", name, f"found {shown(name)}, a yield binds names")
            targets.append(name)
        if targets and len(targets) != len(values):
            self.r.fail("P603", node, f"found {len(targets)} names for {len(values)} values")
        written = self.types.annotation(annotation) if annotation is not None else None
        self.add(Yield(values, comment=comment), node)
        return Handed(values, targets, written, node)

    def _return(self, node: ast.Return, value: ast.expr | None, comment: str | None, kind: str, last: bool) -> None:
        if kind != "function":
            help = "hand values on with yields and return at the end of the function"
            self.r.fail("P602", node, "return stands inside a loop, branch or scope", help)
        if not last:
            self.r.fail("P602", node, "return is not the last statement", "remove what follows")
        nodes = value.elts if isinstance(value, ast.Tuple) else [value] if value is not None else []
        values = tuple(self._operand(n) for n in nodes)
        self.add(Return(values, comment=comment), node)

    def _operand(self, node: ast.expr) -> Expr:
        return self.exprs.expr(node)

    def _jump(self, node: ast.Break | ast.Continue, comment: str | None, last: bool) -> None:
        word = "break" if isinstance(node, ast.Break) else "continue"
        if not last:
            self.r.fail("P602", node, f"{word} is not the last statement of its block")
        if not self.loops:
            self.r.fail("P602", node, f"{word} stands outside of a loop")
        if self.loops[-1]:
            self.r.fail("P602", node, f"{word} stands in a loop that carries values")
        jump = Break if isinstance(node, ast.Break) else Continue
        self.add(jump(comment=comment), node)

    def _if(self, node: ast.If, comment: str | None) -> None:
        cond = self.exprs.boolean(node.test, "a condition")
        rebound = self.sugar.rebound_in_branch(node)
        if rebound:
            self.sugar.branch(node, cond, rebound, comment)
            return
        with self.names.block():
            then, first = self.block(node.body, "branch")
        orelse: Block | None = None
        second: Handed | None = None
        if node.orelse:
            with self.names.block():
                orelse, second = self.block(node.orelse, "branch")
            orelse = orelse or None
        types = self._phi_types(node, first, second)
        s = If(cond, then, orelse, (), comment=comment)
        if first is not None and first.names:
            results = tuple(self.names.define(n.id, t) for n, t in zip(first.names, types, strict=True))
            s = If(cond, then, orelse, results, comment=comment)
        self.add(s, node)

    def _phi_types(self, node: ast.If, first: Handed | None, second: Handed | None) -> list[Type]:
        """The types of the results: the annotation of one arm, else those of the values of the first arm."""
        if first is None and second is None:
            return []
        if first is None or second is None:
            if self.r.errors:
                raise Bad
            where = (first or second).node or node  # type: ignore[union-attr]
            self.r.fail("P603", where, "one arm of the branch yields, the other does not")
        if [n.id for n in first.names] != [n.id for n in second.names]:
            self.r.fail("P603", second.node or node, "the arms of the branch yield to different names")
        written = first.annotation or second.annotation
        if written is not None:
            return [written.type]
        return [type_of(v) for v in first.values]

    def tuple_types(self, t: Type, count: int, node: ast.AST) -> tuple[Type, ...]:
        """The types of the elements of a tuple that is bound to `count` names."""
        if not isinstance(t, TupleType) or len(t.items) != count:
            self.r.fail("P603", node, f"found {count} names for {kind_name(t)}")
        return t.items
