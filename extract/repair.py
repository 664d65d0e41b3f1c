"""Linear buffers: where a tile is still read after an op in place would overwrite it, the op gets a copy.

    x = load(..)                   x = load(..)
    y = assemble(x, s, [0, 0])     x_copy = move(x); y = assemble(x_copy, s, [0, 0])
    z = add(x, y)                  z = add(x, y)

By value both columns mean the same; on the chip only the right one adds the old x. A copy needs a path from the memory to itself, which
only Vec has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from extract.machine import typed
from pypto_ir.diagnostics import Diagnostic, Diagnostics, declare
from pypto_ir.expr import MakeTuple, Var
from pypto_ir.names import Names, names_of
from pypto_ir.ops.registry import Role, find_op
from pypto_ir.stmt import Assign, Block, Call, Eval, For, Function, If, Scope, Stmt, While
from pypto_ir.types import Memory, TileType
from pypto_ir.verify.linearity import Violation, violations
from pypto_ir.verify.places import StmtPath, place

declare(V202="a tile must be copied before an op overwrites it in place, and its memory has no copy")

#: rounds of copies; each round removes every violation that is found, copies can only uncover shorter ones
ROUNDS = 8


def linear(function: Function) -> tuple[Function, list[Diagnostic]]:
    """The function with copies where it needs them, and why where it cannot have them."""
    names = names_of(function)
    for _ in range(ROUNDS):
        found = violations(function)
        if not found:
            return function, []
        edits: dict[StmtPath, Callable[[Stmt], list[Stmt]]] = {}
        bag = Diagnostics()
        for v in found:
            edit = _edit(v, names)
            if edit is None:
                bag.add(
                    "V202",
                    f"{v.var} is read after its buffer ({v.buffer}) was overwritten in place, and only a Vec tile can be copied",
                    place(function, v.write_path, v.write),
                    f"read {v.var} before that statement, or load it a second time",
                )
            else:
                edits[v.write_path] = edit
        if bag.has_errors:
            return function, list(bag)
        function = replace(function, body=_rebuilt(function.body, ("body",), edits))
    return function, [
        Diagnostic(
            "V202", f"{v.var} is still overwritten too early after {ROUNDS} rounds of copies", place(function, v.write_path, v.write)
        )
        for v in violations(function)
    ]


def _edit(v: Violation, names: Names) -> Callable[[Stmt], list[Stmt]] | None:
    """How to rewrite the statement that overwrites, or None where it cannot be."""
    s = v.write
    if not isinstance(s, Assign | Eval) or not isinstance(s.value, Call):
        return None
    op = find_op(s.value.op)
    if op is None:
        return None
    if v.scratch:
        roles = [op.operands[min(i, len(op.operands) - 1)].role for i in range(len(s.value.args))]
        operands = [i for i, role in enumerate(roles) if role is Role.SCRATCH]
    else:
        operands = list(op.writes[:1])
    for i in operands:
        source = s.value.args[i]
        copyable = isinstance(source, Var) and isinstance(source.type, TileType) and source.type.memory in (None, Memory.VEC)
        if not copyable:
            return None
    return (lambda stmt: _with_copies(stmt, operands, v.scratch, names)) if operands else None


def _with_copies(s: Stmt, operands: list[int], scratch: bool, names: Names) -> list[Stmt]:
    assert isinstance(s, Assign | Eval) and isinstance(s.value, Call)
    args, before = list(s.value.args), []
    for i in operands:
        source = args[i]
        assert isinstance(source, Var) and isinstance(source.type, TileType)
        memory = (source.type.memory or Memory.VEC).value
        if scratch:
            kwargs = (("dtype", source.type.dtype.value), ("target_memory", memory))
            call, made = typed(Call("tile.create", (MakeTuple(source.type.shape),), kwargs))
        else:
            call, made = typed(Call("tile.move", (source,), (("target_memory", memory),)))
        copy = Var(names.derived(source.name, "tmp" if scratch else "copy"), made)
        before.append(Assign((copy,), call, s.loc))
        args[i] = copy
    return [*before, replace(s, value=replace(s.value, args=tuple(args)))]


def _rebuilt(block: Block, path: StmtPath, edits: dict[StmtPath, Callable[[Stmt], list[Stmt]]]) -> Block:
    result: list[Stmt] = []
    for i, s in enumerate(block):
        here = (*path, i)
        match s:
            case For(body=body) | While(body=body) | Scope(body=body):
                s = replace(s, body=_rebuilt(body, (*here, "body"), edits))
            case If(then=then, orelse=orelse):
                arm = None if orelse is None else _rebuilt(orelse, (*here, "else"), edits)
                s = replace(s, then=_rebuilt(then, (*here, "then"), edits), orelse=arm)
        result.extend(edits[here](s) if here in edits else [s])
    return tuple(result)
