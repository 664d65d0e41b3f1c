"""Names that are bound again inside loops and branches, which programs do not have: made carried values.

    acc = pl.load(..)
    for k in pl.range(8):
        acc = pl.add(acc, t)

carries acc through the loop, as if the author had written `for k, (acc_1,) in pl.range(8,
init_values=(acc,))` and a yield. A name is carried where the body reads it before it binds it, or where it is
read after the loop. Programs that PyPTO prints bind no name twice; for them nothing here runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pypto_ir.expr import Expr
from pypto_ir.stmt import Block, Carry, If, Yield

if TYPE_CHECKING:
    from pypto_ir.printed.stmts_reader import Handed, Statements


class Rebinding:
    """The re-bound names of one function. `nodes` is its body, looked at when a name may be bound twice."""

    def __init__(self, s: Statements) -> None:
        self.s = s
        self.rebound: frozenset[str] = frozenset()
        self.last_read: dict[str, int] = {}
        self.carried: list[set[str]] = []

    def prepare(self, params: Iterable[str], nodes: list[ast.stmt]) -> None:
        """Note which names the function binds more than once, and where each of them is read last."""
        seen, twice = set(params), set()
        for name in _bound(nodes):
            if name in seen:
                twice.add(name)
            seen.add(name)
        self.rebound = frozenset(twice)
        if twice:
            for node in nodes:
                for part in ast.walk(node):
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and part.id in twice:
                        self.last_read[part.id] = max(self.last_read.get(part.id, 0), part.lineno)

    # ---- loops ---------------------------------------------------------------------------------------------

    def rebound_in_loop(self, node: ast.For | ast.While) -> list[str]:
        """The names that the loop has to carry, in the order of their first binding."""
        if not self.rebound:
            return []
        head = [node.test] if isinstance(node, ast.While) else []
        result = []
        for name in dict.fromkeys(_bound(node.body)):
            if name not in self.rebound or name not in self.s.names.visible:
                continue
            first = _first(node.body, name) if not any(_reads(e, name) for e in head) else "read"
            if first == "read" or self._read_after(name, node):
                result.append(name)
        self.carried.append(set(result))
        return result

    def carries(self, names: list[str]) -> list[Carry]:
        """Carried values for re-bound names, inside of the block of the loop."""
        result = []
        for name in names:
            init = self.s.names.visible[name]
            result.append(Carry(self.s.names.define(name, init.type), init))
        return result

    def hand_on(self, names: list[str], body: Block, handed: Handed | None) -> tuple[Block, Handed | None]:
        """The body with a yield of the re-bound names, and what it hands on."""
        if self.rebound:
            self.carried.pop()
        if not names:
            return body, handed
        from pypto_ir.printed.stmts_reader import Handed

        values: tuple[Expr, ...] = tuple(self.s.names.visible[name] for name in names)
        if handed is None:
            return (*body, Yield(values)), Handed(values)
        whole = (*handed.values, *values)
        last = body[-1]
        return (*body[:-1], Yield(whole, comment=last.comment)), Handed(whole, handed.names, None, handed.node)

    # ---- branches ------------------------------------------------------------------------------------------

    def rebound_in_branch(self, node: ast.If) -> list[str]:
        """The names whose values after the branch depend on the arm that ran."""
        if not self.rebound:
            return []
        then, orelse = set(_bound(node.body)), set(_bound(node.orelse))
        result = []
        for name in dict.fromkeys((*_bound(node.body), *_bound(node.orelse))):
            known = name in self.s.names.visible or (name in then and name in orelse)
            if name in self.rebound and known and self._read_after(name, node):
                result.append(name)
        return result

    def branch(self, node: ast.If, cond: Expr, names: list[str], comment: str | None) -> None:
        """Add a branch whose results are re-bound names."""
        s = self.s
        arms: list[Block] = []
        types = []
        for nodes in (node.body, node.orelse):
            with s.names.block():
                block, handed = s.block(nodes, "branch") if nodes else ((), None)
                if handed is not None:
                    help = "hand all of them on with the yield, or none"
                    s.r.fail("P603", node, f"the arms yield and bind {', '.join(names)} again", help)
                values = tuple(s.names.visible[name] for name in names)
                arms.append((*block, Yield(values)))
                types.append([v.type for v in values])
        results = tuple(s.names.define(n, t) for n, t in zip(names, types[0], strict=True))
        s.add(If(cond, arms[0], arms[1], results, comment=comment), node)

    def _read_after(self, name: str, node: ast.stmt) -> bool:
        after = self.last_read.get(name, 0) > (node.end_lineno or 0)
        return after or any(name in carried for carried in self.carried)


def _bound(nodes: list[ast.stmt]) -> Iterator[str]:
    """The names that statements bind, those inside of them included, without what yields bind."""
    stack: list[Iterator[ast.stmt]] = [iter(nodes)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                if not _is_yield(value):
                    yield name
            case ast.Assign(targets=[target], value=value):
                if not _is_yield(value):
                    yield from _targets(target)
            case ast.AugAssign(target=target):
                yield from _targets(target)
            case ast.For() | ast.While() | ast.If():
                stack.append(iter(node.orelse))
                stack.append(iter(node.body))
            case ast.With():
                stack.append(iter(node.body))


def _is_yield(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "yield_"


def _targets(target: ast.expr) -> list[str]:
    match target:
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
            return [name]
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return [name for item in items for name in _targets(item)]
    return []


def _reads(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(node))


def _first(nodes: list[ast.stmt], name: str) -> str | None:
    """What a block does first with a name: it may "read" it, it surely does "bind" it, or neither."""
    for node in nodes:
        match node:
            case ast.If(test=test, body=body, orelse=orelse):
                if _reads(test, name):
                    return "read"
                arms = (_first(body, name), _first(orelse, name))
                if "read" in arms:
                    return "read"
                if arms == ("bind", "bind"):
                    return "bind"
            case ast.For(iter=head, body=body) | ast.While(test=head, body=body):
                if _reads(head, name) or _first(body, name) == "read":
                    return "read"
            case ast.With(body=body):
                first = _first(body, name)
                if first is not None:
                    return first
            case _:
                if _reads(node, name):
                    return "read"
                if name in _bound([node]):
                    return "bind"
    return None
