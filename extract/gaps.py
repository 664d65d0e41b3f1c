"""Windows with gaps: a window of some columns of a tile has gaps between its rows, so it cannot be seen under another shape.

    w = slice(x [16, 64], [16, 32], [0, 0])        w = slice(x, [16, 32], [0, 0])
    r = reshape(w, [512])                          w_copy = move(w); r = reshape(w_copy, [512])

By value both columns mean the same; on the chip only the right one has the 512 elements side by side.
"""

from __future__ import annotations

from dataclasses import replace

from extract.machine import typed
from pypto_ir.diagnostics import Diagnostic, Diagnostics, Place, declare
from pypto_ir.expr import Expr, Var, const_int
from pypto_ir.names import names_of
from pypto_ir.ops.registry import find_op
from pypto_ir.stmt import Assign, Block, Call, For, Function, If, Scope, Stmt, While, Yield, terminator, tuple_items, walk
from pypto_ir.types import Memory, TileType
from pypto_ir.verify.places import statement_text

declare(V203="a window with gaps between its rows must be copied to be reshaped, and its memory has no copy")

_RESHAPES = frozenset({"tile.reshape", "tile.reinterpret_view"})


def packed(function: Function) -> tuple[Function, list[Diagnostic]]:
    """The function with a copy in front of every reshape of a window with gaps, and why where it cannot have one."""
    work = _Work(function, _with_gaps(function))
    if not work.gaps:
        return function, []
    body = work.block(function.body)
    return replace(function, body=body), list(work.bag)


def _with_gaps(function: Function) -> set[str]:
    """Names of tiles that are, or see, a window with gaps."""
    found: set[str] = set()
    grown = True
    while grown:
        before = len(found)
        for s in walk(function.body):
            match s:
                case Assign(targets=(target,), value=Var(name=name)) if name in found:
                    found.add(target.name)
                case Assign(targets=(target,), value=Call() as call) if _sees_gaps(call, found):
                    found.add(target.name)
                case For(carries=carries, body=body, results=results) | While(carries=carries, body=body, results=results):
                    last = terminator(body)
                    yields = last.values if isinstance(last, Yield) else ()
                    for i, carry in enumerate(carries):
                        group = [carry.init, carry.var, *yields[i : i + 1]]
                        if any(isinstance(e, Var) and e.name in found for e in group):
                            found |= {v.name for v in (carry.var, *results[i : i + 1])}
                case If(then=then, orelse=orelse, results=results):
                    for arm in (then, orelse or ()):
                        last = terminator(arm)
                        values = last.values if isinstance(last, Yield) else ()
                        found |= {r.name for r, v in zip(results, values, strict=False) if isinstance(v, Var) and v.name in found}
        grown = len(found) > before
    return found


def _sees_gaps(call: Call, found: set[str]) -> bool:
    """True where a call gives a view with gaps: a window of some columns of several rows, or a view of such a one."""
    op = find_op(call.op)
    if op is None or op.aliases is None or op.aliases >= len(call.args) or call.op in _RESHAPES:
        return False
    source = call.args[op.aliases]
    if not isinstance(source, Var) or not isinstance(source.type, TileType):
        return False
    if call.op == "tile.slice":
        window = tuple_items(call.args[1]) or ()
        whole = source.type.shape
        columns = bool(window) and len(window) == len(whole) and const_int(window[-1]) != const_int(whole[-1])
        return (columns and any(const_int(d) != 1 for d in window[:-1])) or (source.name in found and not _one_row(window))
    return source.name in found


def _one_row(window: tuple[object, ...]) -> bool:
    return all(const_int(d) == 1 for d in window[:-1])  # type: ignore[arg-type]


class _Work:
    def __init__(self, function: Function, gaps: set[str]) -> None:
        self.function, self.gaps, self.bag = function, gaps, Diagnostics()
        self.names = names_of(function)

    def block(self, statements: Block) -> Block:
        result: list[Stmt] = []
        for s in statements:
            match s:
                case For(body=body) | While(body=body) | Scope(body=body):
                    result.append(replace(s, body=self.block(body)))
                case If(then=then, orelse=orelse):
                    arm = None if orelse is None else self.block(orelse)
                    result.append(replace(s, then=self.block(then), orelse=arm))
                case Assign(value=Call(op=op, args=args) as call) if op in _RESHAPES and self.has_gaps(args[0]):
                    result += self.copied(s, call, args[0])
                case _:
                    result.append(s)
        return tuple(result)

    def has_gaps(self, e: Expr) -> bool:
        return isinstance(e, Var) and e.name in self.gaps

    def copied(self, s: Assign, call: Call, source: Expr) -> list[Stmt]:
        assert isinstance(source, Var) and isinstance(source.type, TileType)
        if source.type.memory not in (None, Memory.VEC):
            where = Place(function=self.function.name, statement=statement_text(s), loc=s.loc)
            self.bag.add("V203", f"{source.name} is a window with gaps between its rows", where, "load the window by itself")
            return [s]
        move, made = typed(Call("tile.move", (source,), (("target_memory", Memory.VEC.value),)))
        copy = Var(self.names.derived(source.name, "copy"), made)
        return [Assign((copy,), move, s.loc), replace(s, value=replace(call, args=(copy, *call.args[1:])))]
