"""Names that program files do not have, given others: a value `max` of a printed program becomes `max_1`.

In program files min, max, abs, cast, true and false are words of expressions. Names are cosmetic, so the
program stays the same; one without such names comes back as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pypto_ir.expr import Expr, Var, substitute
from pypto_ir.expr_parser import RESERVED
from pypto_ir.json_calls import substituted
from pypto_ir.rebuilding import Rebuilder
from pypto_ir.stmt import Function, Program, definitions, walk
from pypto_ir.types import MemRef, TensorType, TileType, Type


def spelled(program: Program) -> Program:
    """The program with names that program files can spell."""
    functions = tuple(_function(f, program.dynamic) for f in program.functions)
    return program if functions == program.functions else replace(program, functions=functions)


def _function(f: Function, dynamic: tuple[str, ...]) -> Function:
    variables = [p.var for p in f.params] + [v for s in walk(f.body) for v in definitions(s)]
    names = {v.name for v in variables}
    clashes = sorted(names & RESERVED)
    if not clashes:
        return f
    taken = names | set(dynamic) | RESERVED
    by: dict[str, str] = {}
    for name in clashes:
        n = 1
        while f"{name}_{n}" in taken:
            n += 1
        by[name] = f"{name}_{n}"
        taken.add(by[name])
    renamer = _Renamer(by, {v.name: Var(by[v.name], v.type) for v in variables if v.name in by})
    return renamer.function(f)


class _Renamer(Rebuilder):
    """Builds a function again with other names."""

    def __init__(self, names: Mapping[str, str], variables: Mapping[str, Expr]) -> None:
        self.names, self.variables = names, variables

    def type(self, t: Type) -> Type:
        t = substituted(t, self.variables)
        ref = t.memref if isinstance(t, TensorType | TileType) else None
        if isinstance(t, TensorType | TileType) and isinstance(ref, MemRef) and ref.base in self.names:
            return replace(t, memref=replace(ref, base=self.names[ref.base]))
        return t

    def var(self, v: Var) -> Var:
        return Var(self.names.get(v.name, v.name), self.type(v.type))

    def expr(self, e: Expr) -> Expr:
        return substitute(e, self.variables)
