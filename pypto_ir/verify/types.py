"""Types: every call is deduced again and must agree with what it is assigned to; carries, arguments and
conditions must fit.

An annotation may refine a deduced type (memory space, view, valid region) but not change its dtype or shape,
with two exceptions (`spec/tile_ir.md` section 8): a load or create of rank > 2 may carry a 2-D type, [2, 3,
4] as [6, 4], and a load of a rank-5 window any tile type with as many elements. Ops whose type rule is marked
as not pinned down (`OpDef.annotated`) may carry any type. Extents are compared as
normal forms: `n + n` and `2 * n` agree, `n` and `m` do not.
"""

from __future__ import annotations

from math import prod

from pypto_ir.diagnostics import Diagnostics, declare
from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, Var, dtype_of
from pypto_ir.linear import provably_equal
from pypto_ir.ops.registry import OpError, find_op, kind_name, type_of
from pypto_ir.ops.rules import check_call, infer_call
from pypto_ir.scale_boxes import same_memory
from pypto_ir.stmt import (
    Assign,
    Call,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Program,
    Return,
    Stmt,
    Submit,
    While,
    Yield,
    blocks,
    terminator,
)
from pypto_ir.text import expr_text
from pypto_ir.types import (
    INDEX,
    ArrayType,
    Dims,
    ScalarType,
    TensorType,
    TileType,
    TupleType,
    Type,
    UnknownType,
    same_dim,
)
from pypto_ir.verify.places import StmtPath, place, walk_paths

declare(
    T201="the type of a value contradicts what is deduced for it",
    T202="a carried, yielded or resulting value has another shape or dtype than its carry or result",
    T203="an argument of a function call does not fit its parameter",
    T204="a condition is not BOOL, or a loop bound is no integer",
    T205="the function called is not in the program",
    T206="a returned value does not fit the type that the function declares",
    T207="the operands of a scalar expression do not mix",
)


def verify_types(program: Program) -> Diagnostics:
    """Every contradiction between types in a program, functions in order."""
    bag = Diagnostics()
    for i, function in enumerate(program.functions):
        check = _TypeCheck(bag, program, function)
        for at, s in walk_paths(function.body, ("functions", i, "body")):
            check.statement(s, at)
    return bag


class _TypeCheck:
    def __init__(self, bag: Diagnostics, program: Program, function: Function) -> None:
        self.bag, self.program, self.function = bag, program, function

    def add(self, code: str, message: str, s: Stmt, at: StmtPath, help: str | None = None) -> None:
        self.bag.add(code, message, place(self.function, at, s), help)

    def statement(self, s: Stmt, at: StmtPath) -> None:
        match s:
            case Assign():
                self.assign(s, at)
            case Eval(value=Call() as call):
                self.call(call, None, s, at)
            case Eval(value=FunctionCall() | Submit() as call):
                self.function_call(call, None, s, at)
            case For() | While():
                self.loop(s, at)
            case If(cond=cond):
                self.condition(cond, s, at)
                for arm in blocks(s):
                    self.handed_on(s.results, arm, s, at)
            case Return(values=values):
                for i, (value, t) in enumerate(zip(values, self.function.returns, strict=False)):
                    if not _fits(t, type_of(value)):
                        self.differs("T206", f"returned value {i}", t, type_of(value), s, at)

    def assign(self, s: Assign, at: StmtPath) -> None:
        target, value = s.targets[0], s.value
        match value:
            case Call():
                self.call(value, target, s, at)
            case FunctionCall() | Submit():
                self.function_call(value, s.targets, s, at)
            case _:
                self.scalar(value, s, at)
                stated, deduced = target.type, type_of(value)
                # a value of dtype INDEX takes the dtype that its definition states
                retyped = deduced == INDEX and isinstance(stated, ScalarType) and stated.dtype.is_int
                if not retyped and not agree(stated, deduced):
                    self.differs("T201", target.name, stated, deduced, s, at)

    def scalar(self, e: Expr, s: Stmt, at: StmtPath) -> None:
        if not isinstance(e, Var) and isinstance(type_of(e), UnknownType):
            message = f"the operands of {expr_text(e)} have types that do not mix"
            self.add("T207", message, s, at, "cast one of them")

    def differs(self, code: str, what: str, stated: Type, found: Type, s: Stmt, at: StmtPath) -> None:
        message = f"{what} is stated as {kind_name(stated)} and found to be {kind_name(found)}"
        self.add(code, message, s, at, "state the type that is found, or change what is computed")

    def call(self, call: Call, target: Var | None, s: Stmt, at: StmtPath) -> None:
        declared = find_op(call.op)
        if declared is None:
            return
        try:
            if declared.annotated:
                check_call(declared, call)
                return  # the type rule is not pinned down: what is stated is believed
            deduced = infer_call(call)
        except OpError as error:
            self.add(error.code, error.message, s, at, error.help)
            return
        if target is not None and not agree(target.type, deduced) and not _flattened(call, target.type, deduced):
            self.differs("T201", target.name, target.type, deduced, s, at)

    def function_call(self, call: FunctionCall | Submit, targets: tuple[Var, ...] | None, s: Stmt, at: StmtPath) -> None:
        callee = self.program.function(call.function)
        if callee is None:
            self.add("T205", f"the program has no function {call.function}", s, at)
            return
        given, wanted = len(call.args), len(callee.params)
        if given > wanted or (given < wanted and not isinstance(call, Submit)):
            self.add("T203", f"{callee.name} takes {wanted} arguments, {given} are given", s, at)
        for param, arg in zip(callee.params, call.args, strict=False):
            if not _fits(param.var.type, type_of(arg)):
                found, stated = kind_name(type_of(arg)), kind_name(param.var.type)
                self.add(
                    "T203",
                    f"parameter {param.var.name} of {callee.name} is {stated}, {found} is given",
                    s,
                    at,
                )
        if targets is None:
            return
        results: tuple[Type, ...] = callee.returns
        if isinstance(call, Submit):
            results = (*results, ScalarType(DType.TASK_ID))
        taken = tuple(target.type for target in targets)
        if len(taken) == 1 and isinstance(taken[0], TupleType):
            taken = taken[0].items
        if len(taken) != len(results):
            self.add("T203", f"{callee.name} gives {len(results)} results, {len(taken)} are taken", s, at)
        for i, (t, result) in enumerate(zip(taken, results, strict=False)):
            if not _fits(result, t):
                self.differs("T201", f"result {i} of {callee.name}", t, result, s, at)

    def loop(self, s: For | While, at: StmtPath) -> None:
        if isinstance(s, While):
            self.condition(s.cond, s, at)
        else:
            for what, bound in (("start", s.start), ("stop", s.stop), ("step", s.step)):
                dtype = dtype_of(bound)
                if dtype is None or not dtype.is_int:
                    message = f"the {what} of loop {s.var.name} is {kind_name(type_of(bound))}"
                    self.add("T204", message, s, at, "loop bounds are integers")
        for carry in s.carries:
            if not agree(carry.var.type, type_of(carry.init)):
                self.differs("T202", f"the init of carry {carry.var.name}", carry.var.type, type_of(carry.init), s, at)
        self.handed_on(tuple(c.var for c in s.carries), s.body, s, at)
        for carry, result in zip(s.carries, s.results, strict=False):
            if not agree(carry.var.type, result.type):
                self.differs("T202", f"result {result.name}", result.type, carry.var.type, s, at)

    def handed_on(self, takers: tuple[Var, ...], block: tuple[Stmt, ...], s: Stmt, at: StmtPath) -> None:
        end = terminator(block)
        if isinstance(end, Yield):
            for taker, value in zip(takers, end.values, strict=False):
                if not agree(taker.type, type_of(value)):
                    self.differs("T202", f"what is yielded for {taker.name}", taker.type, type_of(value), s, at)

    def condition(self, cond: Expr, s: Stmt, at: StmtPath) -> None:
        if dtype_of(cond) is not DType.BOOL:
            message = f"the condition {expr_text(cond)} is {kind_name(type_of(cond))}"
            self.add("T204", message, s, at, "compare it with something")


def agree(a: Type, b: Type) -> bool:
    """True for the same kind, dtype and shape; INDEX and INT64 scalars agree, since no cast stands between them."""
    match a, b:
        case (UnknownType(), _) | (_, UnknownType()):
            return True
        case ScalarType(dtype=x), ScalarType(dtype=y):
            return x is y or {x, y} == {DType.INDEX, DType.INT64}
        case TileType(shape=m, dtype=x), TileType(shape=n, dtype=y):
            return x is y and _same_shape(m, n)
        case TensorType(shape=m, dtype=x), TensorType(shape=n, dtype=y):
            return x is y and _same_shape(m, n)
        case TupleType(items=parts), TupleType(items=others):
            return len(parts) == len(others) and all(map(agree, parts, others))
        case ArrayType(), ArrayType():
            return a == b
    return type(a) is type(b)


def _same_shape(a: Dims, b: Dims) -> bool:
    return len(a) == len(b) and all(map(provably_equal, a, b))


def _fits(wanted: Type, given: Type) -> bool:
    """Like `agree` across a call: extents that are not constant on both sides are not compared, and scales are the same in their
    logical and their blocked form."""
    match wanted, given:
        case TileType(shape=m, dtype=x), TileType(shape=n, dtype=y):
            return x is y and len(m) == len(n) and not any(map(_disproved, m, n))
        case TensorType(shape=m, dtype=x) as a, TensorType(shape=n, dtype=y) as b:
            return (x is y and len(m) == len(n) and not any(map(_disproved, m, n))) or same_memory(a, b)
        case TupleType(items=parts), TupleType(items=others):
            return len(parts) == len(others) and all(map(_fits, parts, others))
    return agree(wanted, given)


def _disproved(a: Expr, b: Expr) -> bool:
    x, y = _size((a,)), _size((b,))
    return x is not None and y is not None and x != y


def _size(shape: Dims) -> int | None:
    sizes = TileType(shape, DType.FP32).static_shape
    return prod(sizes) if sizes is not None else None


def _flattened(call: Call, target: Type, deduced: Type) -> bool:
    """True where a load or create carries the type that flattening gives it."""
    if call.op not in ("tile.load", "tile.create") or not isinstance(target, TileType):
        return False
    assert isinstance(deduced, TileType)
    size = _size(target.shape)
    if target.dtype is not deduced.dtype or size is None or size != _size(deduced.shape):
        return False
    if call.op == "tile.load" and deduced.rank == 5:
        return True
    return target.rank == 2 and deduced.rank > 2 and same_dim(target.shape[1], deduced.shape[-1])
