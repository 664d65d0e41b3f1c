"""Whole programs: one or two in-core functions, sometimes called by an orchestration function."""

from __future__ import annotations

from pypto_ir.expr import Var, variables
from pypto_ir.stmt import Assign, Function, FunctionCall, Param, Program, Return
from pypto_ir.types import TensorType, type_exprs
from tests.generators import control, memory, values, views
from tests.generators.builder import Builder, Source

#: deepest nest of loops and branches
DEPTH = 2


def random_program(source: Source, most: int = 12) -> Program:
    """A program of at most about `most` statements a function, in which every index is in bounds."""
    first = _function(Builder(source, 3), "main", most)
    functions = [first]
    draw = Builder(source, 0)
    if draw.chance(12):
        functions.append(_function(Builder(source, 3), "second", max(2, most // 2)))
    if draw.chance(15):
        functions.append(_caller(draw, functions))
    target = draw.choose(("ascend910b", "ascend950", None))
    return Program("random", tuple(functions), target)


def _function(b: Builder, name: str, most: int) -> Function:
    size = 1 + b.below(most)
    memory.load(b)
    fill(b, size)
    control.drain(b, 3)
    if not memory.outputs(b):
        last = b.tiles() or [memory.load(b)]
        memory.store(b, last[-1])
    outputs = memory.outputs(b)
    current = b.frames[0].current
    returned = tuple(p.var if b.chance(15) else current[p.var.name] for p in outputs)
    b.emit(Return(returned))
    kind = "InCore" if not b.chance(15) else "AIV"
    return Function(name, tuple(b.params), tuple(p.var.type for p in outputs), tuple(b.frames[0].block), kind)


def fill(b: Builder, size: int) -> None:
    """Add about `size` random statements to the open block."""
    for _ in range(size):
        _statement(b, size)
    if len(b.frames) > 1:
        control.drain(b, 1)


def _statement(b: Builder, size: int) -> None:
    match b.below(32):
        case 0 | 1 | 2 | 3 | 4 | 5 | 6:
            values.apply(b, b.choose(values.POINTWISE))
        case 7 | 8:
            values.apply(b, b.choose(values.ROW_WISE))
        case 9 | 10:
            values.apply(b, b.choose(values.EXPANDING))
        case 11:
            values.apply(b, b.choose(values.COLUMN_REDUCING))
        case 12:
            values.apply(b, b.choose(values.PADDING))
        case 13:
            memory.load(b)
        case 14:
            values.full(b)
        case 15 | 16:
            views.reshape(b)
        case 17:
            views.reinterpret(b)
        case 18 | 19:
            views.cut(b)
        case 20 | 21:
            views.assemble(b)
        case 22:
            views.pages(b)
        case 23:
            b.choose((views.set_valid, values.transpose, values.read, values.write))(b)
        case 24:
            b.choose((values.matmul, views.accumulator_window, values.matmul))(b)
        case 25:
            b.choose((memory.read_tensor, memory.write_tensor))(b)
        case 26 | 27:
            known = b.tiles()
            if known:
                memory.store(b, b.recent(known))
        case 28 | 29 if len(b.frames) <= DEPTH:
            control.loop(b, fill, max(1, size // 2))
        case 30 if len(b.frames) <= DEPTH:
            control.branch(b, fill, max(1, size // 2))
        case 31 if len(b.frames) <= DEPTH:
            control.while_loop(b, fill, max(1, size // 2))
        case _:
            values.apply(b, b.choose(values.POINTWISE))


def _caller(b: Builder, functions: list[Function]) -> Function:
    """An orchestration function that calls the others, two parameters on one tensor sometimes."""
    for f in functions:
        if any(True for p in f.params for e in type_exprs(p.var.type) for _ in variables(e)):
            continue
        args = tuple(_argument(b, p) for p in f.params)
        targets = tuple(Var(b.fresh("r"), t) for t in f.returns)
        b.emit(Assign(targets, FunctionCall(f.name, args)))
    return Function("host", tuple(b.params), (), (*b.frames[0].block, Return(())), "Orchestration")


def _argument(b: Builder, p: Param) -> Var:
    same = [q.var for q in b.params if q.var.type == p.var.type and q.direction == "InOut"]
    if same and isinstance(p.var.type, TensorType) and b.chance(40):
        return b.choose(same)
    direction = "InOut" if isinstance(p.var.type, TensorType) else "In"
    return b.parameter(p.var.type, "g", direction, p.range)
