"""Mutants of Python code: conditions forced or weakened, comparisons off by one, summands and factors left out, numbers changed,
statements left out, entries of tables left out.

`max(unit, 1)` gives `min(unit, 1)`, `unit`, `1` and `max(unit, 2)`; `if a and not b: bag.add(..)` gives `if True`, `if False`, `if a`,
`if not b`, `if a and b`, and the same `if` without the report. Texts of messages, annotations and decorators are left as they are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.mutants.mutant import Edit, short

_OTHER = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_SAME = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_SWAPPED = {"max": "min", "min": "max", "any": "all", "all": "any", "ceil": "int"}
_JOIN = {ast.And: " and ", ast.Or: " or "}
_CODE = re.compile("[A-Z][0-9]{3}")
#: keyword arguments that say how, not what
_MANNER = ("strict", "key")


def python_edits(source: str) -> Iterator[Edit]:
    """Every edit of a module, in the order of its text."""
    yield from sorted(_Module(source).edits(), key=lambda e: (e.start, e.end, e.what))


class _Module:
    def __init__(self, source: str) -> None:
        self.data = source.encode()
        self.tree = ast.parse(source)
        self.lines = [0]
        for line in self.data.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def edits(self) -> Iterator[Edit]:
        for node in self.tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
                if not (target.startswith("__") or _is_type(target)):
                    yield from self.table(node.value, target)
                    yield from self.visit(node.value, target)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield from self.visit(node, "")

    # ---- places ----

    def span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.lines[node.lineno - 1] + node.col_offset, self.lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()

    def edit(self, node: ast.AST, new: str, where: str, what: str | None = None) -> Edit:
        start, end = self.span(node)
        return Edit(start, end, new, where, what or f"{short(self.text(node))} -> {short(new)}")

    # ---- what is visited ----

    def visit(self, node: ast.AST, where: str) -> Iterator[Edit]:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                where = f"{where}.{node.name}" if where else node.name
                for statement in node.body:
                    yield from self.visit(statement, where)
                return
            case ast.JoinedStr() | ast.Assert() | ast.Raise():
                return
            case ast.AnnAssign():
                if node.value is not None:
                    yield from self.visit(node.value, where)
                return
            case ast.keyword(arg=arg) if arg in _MANNER:
                return
        yield from self.here(node, where)
        for child in ast.iter_child_nodes(node):
            yield from self.visit(child, where)

    def here(self, node: ast.AST, where: str) -> Iterator[Edit]:
        match node:
            case ast.If(test=test) | ast.While(test=test):
                yield from self.forced(test, where, always=isinstance(node, ast.If))
            case ast.comprehension(ifs=tests):
                for test in tests:
                    yield from self.forced(test, where)
            case ast.match_case(guard=ast.expr() as guard):
                yield from self.forced(guard, where)
            case ast.IfExp(body=body, orelse=orelse) if not (_is_text(body) or _is_text(orelse)):
                yield self.edit(node, f"({self.text(body)})", where)
                yield self.edit(node, f"({self.text(orelse)})", where)
            case ast.Return(value=ast.Call() as made) if _is_report(made):
                yield self.edit(node, "return None", where, f"{short(self.text(node))} left out")
            case ast.Expr(value=ast.Call() | ast.Yield()) | ast.AugAssign() | ast.Return(value=None) | ast.Continue():
                yield self.edit(node, "pass", where, f"{short(self.text(node))} left out")
            case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
                yield self.edit(node, "yield from ()", where, f"{short(self.text(node))} left out")
            case ast.BoolOp(op=op, values=values):
                for i, value in enumerate(values):
                    rest = [self.text(v) for v in values[:i] + values[i + 1 :]]
                    yield self.edit(
                        node, f"({_JOIN[type(op)].join(rest)})", where, f"{short(self.text(value))} left out of {short(self.text(node))}"
                    )
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self.edit(node, f"({self.text(operand)})", where)
            case ast.Compare():
                yield from self.compare(node, where)
            case ast.BinOp(left=left, op=op, right=right) if not (_is_text(left) or _is_text(right)):
                yield self.edit(node, f"({self.text(left)})", where)
                if isinstance(op, ast.Add | ast.Mult | ast.BitOr):
                    yield self.edit(node, f"({self.text(right)})", where)
            case ast.Call():
                yield from self.call(node, where)
            case ast.Constant(value=bool() as value):
                yield self.edit(node, str(not value), where)
            case ast.Constant(value=int() | float() as number):
                yield self.edit(node, repr(number + 1), where)

    def forced(self, test: ast.expr, where: str, always: bool = True) -> Iterator[Edit]:
        for value in (True, False) if always else (False,):
            yield self.edit(test, str(value), where, f"{short(self.text(test))} is {'always' if value else 'never'} so")

    def compare(self, node: ast.Compare, where: str) -> Iterator[Edit]:
        parts = [self.text(node.left), *map(self.text, node.comparators)]
        for changed, _ in enumerate(node.ops):
            new = parts[0]
            for i, op in enumerate(node.ops):
                new += f" {(_OTHER if i == changed else _SAME)[type(op)]} {parts[i + 1]}"
            yield self.edit(node, new, where)

    def call(self, node: ast.Call, where: str) -> Iterator[Edit]:
        match node.func:
            case ast.Name(id=name) if name in _SWAPPED:
                yield self.edit(node.func, _SWAPPED[name], where, f"{short(self.text(node))} with {_SWAPPED[name]}")
                if name in ("max", "min") and len(node.args) == 2:
                    for argument in node.args:
                        yield self.edit(node, f"({self.text(argument)})", where)

    def table(self, node: ast.expr, where: str) -> Iterator[Edit]:
        """Entries of displays in the value of a module's name, each left out."""
        for inner in ast.walk(node):
            match inner:
                case ast.Tuple(elts=items) | ast.Set(elts=items) | ast.List(elts=items) if len(items) > 1 and any(map(_is_word, items)):
                    texts = [self.text(item) for item in items]
                    left, right = "[]" if isinstance(inner, ast.List) else "{}" if isinstance(inner, ast.Set) else "()"
                    for i, text in enumerate(texts):
                        rest = "".join(f"{t}, " for t in texts[:i] + texts[i + 1 :])
                        yield self.edit(inner, f"{left}{rest}{right}", where, f"{short(text)} left out of {short(self.text(inner), 40)}")
                case ast.Dict(keys=keys, values=values):
                    entries = [
                        f"**{self.text(v)}" if k is None else f"{self.text(k)}: {self.text(v)}" for k, v in zip(keys, values, strict=True)
                    ]
                    for i, entry in enumerate(entries):
                        rest = "".join(f"{e}, " for e in entries[:i] + entries[i + 1 :])
                        yield self.edit(inner, f"{{{rest}}}", where, f"{short(entry)} left out")


def _is_type(name: str) -> bool:
    """A module's name for a type: `Written = Expr | None`."""
    return name[:1].isupper() and not name.isupper()


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_report(call: ast.Call) -> bool:
    """True for a call that makes a finding: its first argument is the code of a diagnostic."""
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Constant) and isinstance(first.value, str) and _CODE.fullmatch(first.value) is not None


def _is_word(node: ast.expr) -> bool:
    """An entry of a table: a name of an op, a member of an enumeration, or a row of such."""
    return isinstance(node, ast.Attribute | ast.Tuple) or _is_text(node)
