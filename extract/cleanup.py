"""Removes pure tile statements whose result nobody reads."""

from __future__ import annotations

from dataclasses import replace

from egraph_rules.encode import is_value
from pypto_ir.stmt import Block, For, Function, If, Scope, Stmt, While, uses


def without_dead_tiles(function: Function) -> Function:
    """The function without pure tile ops that nothing reads, chains of them included. Writes, scalars and control flow stay."""
    live: set[str] = set()

    def block(statements: Block) -> Block:
        kept: list[Stmt] = []
        for s in reversed(statements):
            if is_value(s) and s.target.name not in live:  # type: ignore[union-attr]
                continue
            match s:
                case For(body=body) | While(body=body) | Scope(body=body):
                    s = replace(s, body=block(body))
                case If(then=then, orelse=orelse):
                    arm = None if orelse is None else block(orelse)
                    s = replace(s, then=block(then), orelse=arm)
            live.update(v.name for v in uses(s))
            kept.append(s)
        return tuple(reversed(kept))

    return replace(function, body=block(function.body))
