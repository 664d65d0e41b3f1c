"""From what has no 2-D form to what cannot be written because of it.

`x = tile.load` has a dynamic dim, `y = tile.exp` reads x, `out_1 = tile.store` writes y: the chain of x is these three statements.
A chain is the shortest way through the uses of a value to a store or to a result of the function.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto_ir.diagnostics import Diagnostic
from pypto_ir.stmt import Block, For, Function, If, Return, Scope, Stmt, While, Yield, blocks, definitions, uses, walk
from pypto_ir.verify.places import statement_text


class Uses:
    """Who reads the values of a function."""

    def __init__(self, function: Function) -> None:
        self.statements = list(walk(function.body))
        self.readers: dict[str, list[Stmt]] = {}
        self.owners: dict[int, Stmt] = {}
        self.texts: dict[str, list[Stmt]] = {}
        for s in self.statements:
            self.texts.setdefault(statement_text(s), []).append(s)
            for v in uses(s):
                self.readers.setdefault(v.name, []).append(s)
        self._own(function.body, None)

    def _own(self, block: Block, owner: Stmt | None) -> None:
        for s in block:
            if isinstance(s, Yield) and owner is not None:
                self.owners[id(s)] = owner
            inner = owner if isinstance(s, Scope) else s
            for nested in blocks(s):
                self._own(nested, inner)

    def statement_of(self, d: Diagnostic) -> Stmt | None:
        """The statement that a diagnostic names."""
        found = self.texts.get(d.place.statement or "", [])
        return next((s for s in found if s.loc == d.place.loc), found[0] if found else None)

    def chain(self, start: Stmt) -> list[Stmt]:
        """The statements from one to the store or result that waits for it, these included."""
        before: dict[int, Stmt | None] = {id(start): None}
        waiting = [start]
        for s in waiting:
            if s is not start and (isinstance(s, Return) or _writes(s)):
                return _back(s, before)
            for reader in self.next(s):
                if id(reader) not in before:
                    before[id(reader)] = s
                    waiting.append(reader)
        return [start]

    def next(self, s: Stmt) -> list[Stmt]:
        """The statements that read what a statement makes; what is yielded is made by the loop or branch around."""
        if isinstance(s, Yield):
            owner = self.owners.get(id(s))
            return [] if owner is None else [owner]
        names = [v.name for v in definitions(s)]
        if isinstance(s, For | While):
            names += [c.var.name for c in s.carries]
        if isinstance(s, If) and not names:
            return []
        return [reader for name in names for reader in self.readers.get(name, ())]


def _writes(s: Stmt) -> bool:
    return statement_text(s).rpartition(" = ")[2] == "tile.store"


def _back(s: Stmt, before: dict[int, Stmt | None]) -> list[Stmt]:
    found, at = [], s
    while True:
        found.append(at)
        earlier = before[id(at)]
        if earlier is None:
            return found[::-1]
        at = earlier


def chains(function: Function, diagnostics: Iterable[Diagnostic]) -> list[tuple[Diagnostic, list[str]]]:
    """Every diagnostic about a function with the statements that wait for what it names, in words; none where it names none."""
    known = Uses(function)
    result = []
    for d in diagnostics:
        start = known.statement_of(d)
        result.append((d, [] if start is None else [statement_text(s) for s in known.chain(start)]))
    return result
