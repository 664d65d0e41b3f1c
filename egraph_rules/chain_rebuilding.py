"""Functions built again with the members of some chains of accumulators as other tiles: one of another type, or several.

    for k carry c = acc:               for k carry c_band = acc_band, c_band_1 = acc_band_1:
        ..                                 ..
        yield m                            yield m_band, m_band_1

Control flow hands on all tiles of a member side by side; what becomes of the ops that touch one is said where this is derived from.
"""

from __future__ import annotations

from dataclasses import replace

from pypto_ir.expr import Expr, Var
from pypto_ir.names import names_of
from pypto_ir.ops.rules import infer_call
from pypto_ir.rebuilding import Rebuilder, changed
from pypto_ir.stmt import Assign, Block, Call, Carry, Eval, Function, Stmt, Yield


class ChainRebuilder(Rebuilder):
    """Builds `source` again; `tiles` are what stands for every name that is not what it was."""

    def __init__(self, source: Function) -> None:
        self.source = source
        self.names = names_of(source)
        self.tiles: dict[str, tuple[Var, ...]] = {}

    def built(self) -> Function:
        return replace(self.source, body=self.block(self.source.body))

    # what is derived says what becomes of members and of ops

    def become(self, v: Var) -> tuple[Var, ...] | None:
        """The tiles that a name stands for from its definition on; None for a name that stays."""
        raise NotImplementedError

    def call(self, s: Assign | Eval, call: Call) -> list[Stmt]:
        """The statements that stand for one with a call."""
        raise NotImplementedError

    # the rest is the same for all

    def define(self, v: Var) -> tuple[Var, ...]:
        made = self.become(v)
        if made is None:
            return (v,)
        self.tiles[v.name] = made
        return made

    def read(self, e: Expr) -> tuple[Expr, ...]:
        return self.tiles.get(e.name, (e,)) if isinstance(e, Var) else (e,)

    def block(self, block: Block) -> Block:
        return tuple(t for s in block for t in self.statements(s))

    def statements(self, s: Stmt) -> list[Stmt]:
        match s:
            case Assign(value=Var(name=name)) if name in self.tiles:
                self.tiles[s.target.name] = self.tiles[name]
                return []
            case Assign(value=Call() as call) | Eval(value=Call() as call):
                return self.call(s, call)
            case Yield(values=values):
                return [changed(s, values=tuple(t for e in values for t in self.read(e)))]
        return [self.statement(s)]

    def carries(self, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
        return tuple(Carry(var, init) for c in carries for init, var in zip(self.read(c.init), self.define(c.var), strict=True))

    def results(self, results: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(v for r in results for v in self.define(r))

    def value_at(self, s: Assign | Eval, name: str, call: Call) -> Assign:
        """`name = call` at the place of a statement."""
        return Assign((Var(name, infer_call(call)),), replace(call, loc=s.value.loc), s.loc)  # type: ignore[union-attr]
