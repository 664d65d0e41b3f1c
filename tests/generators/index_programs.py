"""Random index programs: scalars of every width, every operator, loops with steps of either sign, branches, `while`, calls, recursion.

    drawn = random_index_program(random.Random(7))
    drawn.program, drawn.probes

Two programs of five are plain: most of their expressions are of the forms that upstream's prover follows, sums, products and quotients
by powers of two of names and multiples of 16, with loops of constant start and step. One of five has operands of fewer bits than the
operation.
Parameters of entry functions have small ranges, so that all their values can be run. A probe is an expression at a statement, of which
a prover will be asked there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from egraph_rules.index_calls import call_sites
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Item, MakeTuple, Unary, Var, dtype_of
from pypto_ir.stmt import (
    Assign,
    Call,
    Carry,
    For,
    Function,
    FunctionCall,
    If,
    Param,
    Program,
    Return,
    Scope,
    Stmt,
    Submit,
    While,
    Yield,
)
from pypto_ir.types import BOOL, INDEX, ScalarType, TupleType

INTEGERS = tuple(d for d in DType if d.is_int)
#: INDEX and the widths of real programs more often than the small ones, which wrap
_WEIGHTED = (DType.INDEX,) * 8 + (DType.INT32,) * 4 + (DType.INT64, DType.UINT32, DType.UINT64) * 2 + INTEGERS
_BINARY = ("add", "sub", "mul") * 5 + ("floordiv", "mod") * 4 + ("min", "max", "bitand", "bitor", "bitxor", "shl", "shr") * 2 + ("pow",)
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
#: loops of any width, INDEX more often
_LOOPS = (DType.INDEX,) * 8 + (DType.INT32, DType.INT64) * 2 + INTEGERS
_FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 16, 16, 24, 32, 48, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Probe:
    """An expression that is asked of where a statement of a function reads it."""

    function: str
    statement: Stmt
    expr: Expr


@dataclass(slots=True)
class Drawn:
    """A program and what will be asked of it."""

    program: Program
    probes: list[Probe]


@dataclass(slots=True)
class _Draw:
    """One function while it is drawn: the names in view by block, and the statements of the open blocks."""

    source: Random
    name: str
    callees: list[Function]
    probes: list[Probe]
    plain: bool = False
    mixed: bool = False
    views: list[list[Var]] = field(default_factory=lambda: [[]])
    blocks: list[list[Stmt]] = field(default_factory=lambda: [[]])
    counter: int = 0
    loops: int = 0

    # ---- draws ----

    def chance(self, percent: int) -> bool:
        return self.source.randrange(100) < percent

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def names(self, dtype: DType | None = None) -> list[Var]:
        found = [v for view in self.views for v in view if isinstance(v.type, ScalarType)]
        return found if dtype is None else [v for v in found if dtype_of(v) is dtype]

    def const(self, dtype: DType) -> Const:
        if self.chance(8):
            value = self.source.choice((-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1, 1 << dtype.bits - 2, 1 << dtype.bits // 2))
        elif self.chance(25):
            value = -self.source.choice(_FACTORS)
        else:
            value = self.source.choice((0, *_FACTORS))
        lo = 0 if dtype.is_unsigned else -(1 << dtype.bits - 1)
        return Const((value - lo) % (1 << dtype.bits) + lo, dtype)

    def multiple(self, dtype: DType) -> Const:
        """A multiple of 16, as far as the type has one; sometimes a large one, whose sums and products wrap."""
        factor = self.source.choice((16, 16, 16, 32, 48, 64, 256, -16, 0, 1 << dtype.bits - 4, 8, 5))
        return self.wrapped(factor, dtype)

    def simple(self, dtype: DType, depth: int) -> Expr:
        """An expression of forms that upstream's prover follows."""
        names = self.names(dtype)
        if depth == 0 or self.chance(20):
            return self.source.choice(names) if names and self.chance(70) else self.multiple(dtype)
        left = self.simple(dtype, depth - 1)
        match self.source.randrange(10):
            case 0 | 1 | 2:
                return Binary("add", left, self.simple(dtype, depth - 1))
            case 3:
                return Binary("sub", left, self.simple(dtype, depth - 1))
            case 4 | 5 | 6:
                return Binary("mul", left, self.multiple(dtype))
            case 7:
                return Binary("mul", left, self.simple(dtype, depth - 1))
        return Binary("floordiv", left, self.wrapped(self.source.choice((1, 2, 4, 8, 16, 3, 1 << dtype.bits - 2)), dtype))

    def expr(self, dtype: DType, depth: int) -> Expr:
        """An expression of a type."""
        if self.plain and self.chance(75):
            return self.simple(dtype, depth)
        names = self.names(dtype)
        if names and (depth == 0 or self.chance(25)):
            return self.source.choice(names[-6:] if self.chance(70) else names)
        if depth == 0 or self.chance(5):
            others = [v for v in self.names() if v.type != BOOL and dtype_of(v) is not dtype]
            return Cast(self.source.choice(others), dtype) if others and self.chance(50) else self.const(dtype)
        kind = self.source.randrange(100)
        if kind < 8:
            return Unary(self.source.choice(("neg", "abs", "bitnot")), self.expr(dtype, depth - 1))
        if kind < 16:
            return Cast(self.expr(self.source.choice(_WEIGHTED), depth - 1), dtype)
        if kind < 24 and (again := self.pattern(dtype, depth)) is not None:
            return again
        op = self.source.choice(_BINARY)
        left = self.expr(dtype, depth - 1)
        if op in ("shl", "shr"):
            by: Expr = Const(self.source.randrange(min(dtype.bits, 6)), dtype)
            return Binary(op, left, Binary("bitand", self.expr(dtype, 0), self.wrapped(3, dtype)) if self.chance(20) else by)
        if op == "pow":
            return Binary(op, left, Const(self.source.randrange(4), dtype))
        if op in ("floordiv", "mod", "mul") and self.chance(75):
            return Binary(op, left, self.const(dtype))
        if op in ("bitand", "bitor", "bitxor") and self.chance(60):
            mask = self.source.choice((15, 7, 1, 48, 240, ~15, ~7, ~1))
            return Binary(op, left, self.wrapped(mask, dtype))
        if self.mixed and self.chance(25):
            return Binary(op, left, self.expr(self.narrower(dtype), depth - 1))
        if self.chance(10) and op != "pow":
            dtype = next((d for d in INTEGERS if d.bits == dtype.bits and d.is_signed != dtype.is_signed), dtype)
        return Binary(op, left, self.expr(dtype, depth - 1))

    def narrower(self, dtype: DType) -> DType:
        """A signed type of fewer bits, where there is one; unsigned numbers may be extended in two ways."""
        return self.source.choice([d for d in INTEGERS if d.bits < dtype.bits and d.is_signed] or [dtype])

    def wrapped(self, value: int, dtype: DType) -> Const:
        lo = 0 if dtype.is_unsigned else -(1 << dtype.bits - 1)
        return Const((value - lo) % (1 << dtype.bits) + lo, dtype)

    def pattern(self, dtype: DType, depth: int) -> Expr | None:
        """Forms that identities apply to: x - x % c, (x // c) * c, c * (x // c) + x % c, max(a, b) - b."""
        x = self.expr(dtype, depth - 1)
        c = self.wrapped(self.source.choice((2, 3, 4, 8, 12, 16, -4)), dtype)
        rest, whole = Binary("mod", x, c), Binary("mul", Binary("floordiv", x, c), c)
        other = self.expr(dtype, depth - 1)
        return self.source.choice(
            (
                Binary("sub", x, rest),
                whole,
                Binary("add", rest, whole),
                Binary("sub", x, whole),
                Binary("sub", Binary("max", x, other), other),
                Binary("sub", x, Binary("min", other, x)),
                Binary("floordiv", Binary("mul", x, c), c),
                Binary(self.source.choice(("floordiv", "mod")), Binary("add", Binary("mul", other, c), rest), c),
                Binary("add", Binary("sub", Binary("mul", x, c), rest), rest),
            )
        )

    def condition(self, depth: int) -> Expr:
        kind = self.source.randrange(100)
        if kind < 12 and depth:
            return Binary(self.source.choice(("and", "or")), self.condition(depth - 1), self.condition(depth - 1))
        if kind < 18 and depth:
            return Unary("not", self.condition(depth - 1))
        if kind < 24 and (names := [v for v in self.names() if v.type == BOOL]):
            return self.source.choice(names)
        dtype = self.source.choice([dtype_of(v) for v in self.names() if v.type != BOOL] or [DType.INDEX])
        assert dtype is not None
        left = self.expr(dtype, 1)
        if self.chance(20):
            return Binary("eq", Binary("mod", left, self.wrapped(self.source.choice((2, 4, 16)), dtype)), self.const(dtype))
        if self.mixed and self.chance(25):
            return Binary(self.source.choice(_COMPARISONS), left, self.expr(self.narrower(dtype), 1))
        return Binary(self.source.choice(_COMPARISONS), left, self.const(dtype) if self.chance(50) else self.expr(dtype, 1))

    # ---- statements ----

    def emit(self, s: Stmt) -> Stmt:
        """Add a statement; often something is asked of before it."""
        for _ in range(self.source.randrange(3)):
            dtype = self.source.choice(_WEIGHTED)
            if names := [v for v in self.names() if v.type != BOOL]:
                dtype = dtype_of(self.source.choice(names)) or dtype
            self.probes.append(Probe(self.name, s, self.expr(dtype, self.source.randrange(3))))
        self.blocks[-1].append(s)
        return s

    def define(self, var: Var) -> Var:
        self.views[-1].append(var)
        return var

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        self.views.append([])
        self.blocks.append([])
        yield self.blocks[-1]
        self.blocks.pop()
        self.views.pop()

    def let(self) -> None:
        if self.chance(6):
            self.emit_defined(Var(self.fresh("t"), BOOL), self.condition(1))
            return
        dtype = self.source.choice(_WEIGHTED)
        e = self.expr(dtype, 1 + self.source.randrange(3))
        if dtype is DType.INDEX and self.chance(5):
            dtype = self.source.choice(INTEGERS)
        if self.chance(4) and (names := self.names()):
            pair = MakeTuple((e, self.source.choice(names)))
            t = TupleType((ScalarType(dtype_of(e) or dtype), pair.items[1].type))  # type: ignore[union-attr]
            whole = self.fresh("p")
            self.emit(Assign((Var(whole, t),), pair))
            self.emit_defined(Var(self.fresh("v"), t.items[0]), Item(Var(whole, t), 0))
            return
        self.emit_defined(Var(self.fresh("v"), ScalarType(dtype)), e)

    def emit_defined(self, var: Var, value: Expr) -> None:
        self.emit(Assign((var,), value))
        self.define(var)

    def lane(self) -> None:
        op = self.source.choice(("tile.get_block_idx", "tile.get_block_num", "tile.get_subblock_idx"))
        var = Var(self.fresh("b"), INDEX)
        self.emit(Assign((var,), Call(op)))
        self.define(var)

    def bounds(self, dtype: DType) -> tuple[Expr, Expr, Expr]:
        """A loop of few trips, mostly; start and stop may be expressions."""

        def near(value: int) -> Expr:
            names = self.names(dtype)
            if names and self.chance(35):
                name = self.source.choice(names)
                return name if self.chance(60) else Binary("add", name, self.wrapped(value, dtype))
            return self.wrapped(value, dtype)

        step = self.source.choice((1, 1, 2, 3, 4, 16, -1, -2, -16, 8))
        start, trips = self.source.choice((0, 0, 16, 48, -16, 5, 64)), self.source.randrange(5)
        stop = start + step * trips - (self.source.randrange(abs(step)) * (1 if step > 0 else -1) if trips else 0)
        by: Expr = self.wrapped(step, dtype)
        if self.chance(15) and (names := self.names(dtype)):
            by = self.source.choice(names)
        return near(start), near(stop), by

    def aligned(self, dtype: DType) -> tuple[Expr, Expr, Expr]:
        """A loop over multiples of 16, upwards or downwards, of no to four trips."""
        step, trips = self.source.choice((16, 16, 32, 48, -16, -32)), self.source.randrange(5)
        start = self.source.choice((0, 0, 16, 64, -16)) + (-step * trips if step < 0 else 0)
        return self.wrapped(start, dtype), self.wrapped(start + step * trips, dtype), self.wrapped(step, dtype)

    def loop(self, depth: int, size: int) -> None:
        self.loops += 1
        dtype = self.source.choice(_LOOPS)
        start, stop, step = self.bounds(dtype)
        if self.plain and self.chance(70):
            start, stop, step = self.aligned(dtype)
        inits = self.carried()
        with self.block() as body:
            var = self.define(Var(self.fresh("i"), ScalarType(dtype)))
            carries = tuple(Carry(self.define(Var(self.fresh("c"), ScalarType(dtype_of(e) or dtype))), e) for e in inits)
            self.fill(depth - 1, size)
            if carries:
                self.emit(Yield(tuple(self.step(c.var) for c in carries)))
            statements = tuple(body)
        results = tuple(Var(self.fresh("r"), c.var.type) for c in carries)
        kind = self.source.choice(("range", "parallel", "pipeline"))
        self.emit(For(var, start, stop, step, statements, carries, results, kind if not carries else "range"))
        for r in results:
            self.define(r)
        self.loops -= 1

    def carried(self) -> list[Expr]:
        if not self.chance(55):
            return []
        return [self.expr(self.source.choice(_WEIGHTED), self.source.randrange(2)) for _ in range(1 + self.source.randrange(2))]

    def step(self, carry: Var) -> Expr:
        """What the next trip gets: often the carried value and something."""
        dtype = dtype_of(carry)
        assert dtype is not None
        if self.chance(60):
            by = self.const(dtype) if self.chance(70) else self.expr(dtype, 1)
            return Binary(self.source.choice(("add", "add", "add", "sub", "mul", "max", "bitand")), carry, by)
        return self.expr(dtype, 1 + self.source.randrange(2))

    def while_loop(self, depth: int, size: int) -> None:
        dtype = self.source.choice((DType.INDEX, DType.INT32, DType.INT64))
        counter = Var(self.fresh("w"), ScalarType(dtype))
        by = self.source.choice((1, 3, 16))
        stop = self.wrapped(by * self.source.randrange(4), dtype)
        carried = self.carried()
        with self.block() as body:
            carries = (Carry(self.define(counter), self.wrapped(0, dtype)),)
            more = tuple(Carry(self.define(Var(self.fresh("c"), ScalarType(dtype_of(e) or dtype))), e) for e in carried)
            condition: Expr = Binary("lt", counter, stop)
            if self.chance(30):
                condition = Binary("and", condition, self.condition(0))
            self.fill(depth - 1, size)
            ahead = Binary("add", counter, self.wrapped(by, dtype))
            self.emit(Yield((ahead, *(self.step(c.var) for c in more))))
            statements = tuple(body)
        results = tuple(Var(self.fresh("r"), c.var.type) for c in (*carries, *more))
        self.emit(While(condition, statements, (*carries, *more), results))
        for r in results:
            self.define(r)

    def branch(self, depth: int, size: int) -> None:
        condition = self.condition(1)
        types = [self.source.choice(_WEIGHTED) for _ in range(self.source.randrange(3))]
        arms = []
        for _ in range(2 if types or self.chance(50) else 1):
            with self.block() as body:
                self.fill(depth - 1, size)
                if types:
                    self.emit(Yield(tuple(self.expr(t, 1) for t in types)))
                arms.append(tuple(body))
        results = tuple(Var(self.fresh("r"), ScalarType(t)) for t in types)
        self.emit(If(condition, arms[0], arms[1] if len(arms) > 1 else None, results))
        for r in results:
            self.define(r)

    def call(self, callee: Function) -> None:
        args = tuple(self.expr(dtype_of(p.var) or DType.INDEX, 1 + self.source.randrange(2)) for p in callee.params)
        types = callee.returns
        launch = self.chance(20)
        targets = tuple(Var(self.fresh("r"), t) for t in types)
        if launch:
            self.emit(Assign((*targets, Var(self.fresh("task"), ScalarType(DType.TASK_ID))), Submit(callee.name, args)))
        else:
            self.emit(Assign(targets, FunctionCall(callee.name, args)))
        for t in targets:
            self.define(t)

    def fill(self, depth: int, size: int) -> None:
        """About `size` statements of the open block."""
        for _ in range(1 + self.source.randrange(max(1, size))):
            kind = self.source.randrange(100)
            if kind < 16 and depth and self.loops < 3:
                self.loop(depth, size // 2)
            elif kind < 28 and depth:
                self.branch(depth, size // 2)
            elif kind < 32 and depth and self.loops < 2:
                self.while_loop(depth, size // 2)
            elif kind < 42 and self.callees:
                self.call(self.source.choice(self.callees))
            elif kind < 46:
                self.lane()
            elif kind < 48:
                var = Var(self.fresh("v"), INDEX)
                self.emit(Scope("cluster", (Assign((var,), self.const(DType.INDEX)),)))
                self.define(var)
            else:
                self.let()

    def function(self, params: tuple[Param, ...], size: int, returns: int, uncalled: Sequence[Function] = ()) -> Function:
        for p in params:
            self.define(p.var)
        self.fill(2, size)
        for callee in uncalled:
            self.call(callee)
        types = [self.source.choice(_WEIGHTED) for _ in range(returns)]
        self.emit(Return(tuple(self.expr(t, 1) for t in types)))
        return Function(self.name, params, tuple(ScalarType(t) for t in types), tuple(self.blocks[0]), "Orchestration")


def random_index_program(source: Random, size: int = 7) -> Drawn:
    """A program of one entry function and up to two functions that it calls, one of them perhaps recursive."""
    probes: list[Probe] = []
    functions: list[Function] = []
    kind = source.randrange(5)
    plain, mixed = kind < 2, kind == 4
    for n in range(source.randrange(3)):
        draw = _Draw(source, f"f{n}", list(functions), probes, plain, mixed)
        params = tuple(Param(Var(f"x{k}", ScalarType(source.choice(_WEIGHTED)))) for k in range(1 + source.randrange(2)))
        made = draw.function(params, size // 2 + 1, 1 + source.randrange(2))
        functions.append(_recursive(source, made) if source.randrange(100) < 25 else made)
    draw = _Draw(source, "main", functions, probes, plain, mixed)
    called = {site.callee for f in functions for site in call_sites(f) if site.callee != f.name}
    uncalled = [f for f in functions if f.name not in called]
    return Drawn(Program("random", (*functions, draw.function(_entry_params(source), size, 0, uncalled)), None), probes)


def _entry_params(source: Random) -> tuple[Param, ...]:
    params = []
    for k in range(source.randrange(3)):
        dtype = source.choice(_WEIGHTED)
        lo = source.choice((0, 0, 1, 16, 3)) if dtype.is_unsigned or source.randrange(2) else -source.choice((1, 5, 8))
        lo = max(lo, 0 if dtype.is_unsigned else -(1 << dtype.bits - 1))
        most = (1 << dtype.bits - (not dtype.is_unsigned)) - 1
        lo = min(lo, most)
        params.append(Param(Var(f"n{k}", ScalarType(dtype)), range=(lo, min(lo + source.randrange(5), most))))
    return tuple(params)


def _recursive(source: Random, f: Function) -> Function:
    """`f` with a depth that counts down, calling itself with other arguments."""
    depth = Var("depth", INDEX)
    result = tuple(Var(f"again{k}", t) for k, t in enumerate(f.returns))
    args: list[Expr] = []
    for p in f.params:
        dtype = dtype_of(p.var)
        assert dtype is not None
        step = Const(source.choice((0, 1, 4, 16)) % (1 << dtype.bits - 1), dtype)
        args.append(Binary(source.choice(("add", "mul", "max")), p.var, step))
    deeper = FunctionCall(f.name, (*args, Binary("sub", depth, Const(1, DType.INDEX))))
    own = f.body[-1]
    assert isinstance(own, Return)
    branch = If(
        Binary("gt", depth, Const(0, DType.INDEX)),
        (Assign(result, deeper), Yield(result)),
        (Yield(own.values),),
        tuple(Var(f"out{k}", t) for k, t in enumerate(f.returns)),
    )
    body = (*f.body[:-1], branch, Return(branch.results))
    return Function(f.name, (*f.params, Param(depth, range=(0, 2))), f.returns, body, f.kind)
