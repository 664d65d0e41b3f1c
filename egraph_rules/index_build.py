"""From a program to its equations: one walk over every function, callers first.

`for i in range(0, n, 16)` gives a loop variable with its rule, the relation i <= n - 1 in its body, and for each carried value a rule
that joins what it starts as with what the body yields.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Item, MakeTuple, Unary, Var, const_int
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
    For,
    Function,
    FunctionCall,
    If,
    Program,
    Return,
    Scope,
    Stmt,
    Submit,
    Value,
    While,
    Yield,
    definitions,
    terminator,
    walk,
)
from pypto_ir.types import INDEX, ScalarType, TensorType, TupleType, Type

from egraph_rules.index_bounds import Limit
from egraph_rules.index_calls import CallGraph, arguments, call_graph
from egraph_rules.index_conditions import refine
from egraph_rules.index_domain import INDEX_LIMIT, Fact, bounds, join, make, outside, top
from egraph_rules.index_nodes import AfterLoop, Carried, Choice, Given, Join, LoopVariable
from egraph_rules.index_places import Handle, Place, common
from egraph_rules.index_system import System
from egraph_rules.index_values import ValueId, combine

#: blocks of a launch are counted in 32 bits
_BLOCKS = Fact(DType.INDEX, 1, (1 << 31) - 1)


class FunctionEquations:
    """What the equations know of one function: its names, the place of every statement, its parameters and results."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.root = Place()
        self.names: dict[str, Handle] = {}
        self.params: list[Handle] = []
        self.results: list[Handle] = []
        self.cores: ValueId = -1
        self._at: dict[int, tuple[Stmt, Place]] = {}

    def place(self, s: Stmt | None) -> Place:
        """Where the operands of a statement are read; the whole function for None."""
        if s is None or id(s) not in self._at:
            return self.root
        return self._at[id(s)][1]

    def put(self, s: Stmt, place: Place) -> None:
        before = self._at.get(id(s))
        self._at[id(s)] = (s, place if before is None else common(before[1], place))


class Builder:
    """Builds the equations of a program. Raises `ValueError` where a function is not in SSA form."""

    def __init__(self, program: Program, entries: Iterable[str] = ()) -> None:
        self.program = program
        self.system = System()
        self.graph: CallGraph = call_graph(program, entries)
        self.functions = {f.name: FunctionEquations(f) for f in program.functions}
        self._joins: dict[ValueId, Join] = {}
        for function in self.graph.order:
            self._signature(self.functions[function.name])
        for function in self.graph.order:
            _assert_ssa(function)
            FunctionBuilder(self, self.functions[function.name]).build()

    def _signature(self, f: FunctionEquations) -> None:
        """Values for the parameters and results of a function, before any call of it is seen."""
        external = f.function.name in self.graph.entries
        for param in f.function.params:
            bounded = param.range if external else None
            handle = self._open(param.var.type, param.var.name, f.root, external, bounded)
            f.params.append(handle)
            f.names[param.var.name] = handle
        unknown = f.function.verbatim is not None or f.function.external_source is not None
        f.results = [self._open(t, f"result {i} of {f.function.name}", f.root, unknown) for i, t in enumerate(f.function.returns)]
        cores = Join(DType.INDEX, given=_BLOCKS if external else None)
        f.cores = self.system.leaf(DType.INDEX, "the number of blocks", f.root, cores, True)
        self._joins[f.cores] = cores

    def _open(self, t: Type, name: str, place: Place, external: bool, bounded: tuple[int, int] | None = None) -> Handle:
        """A value that sources are joined into later."""
        if isinstance(t, TupleType):
            return tuple(self._open(item, f"{name}[{i}]", place, external) for i, item in enumerate(t.items))
        if not isinstance(t, ScalarType):
            return None
        given = None
        if external:
            given = make(t.dtype, *within(t.dtype, *bounded)) if bounded is not None else outside(t.dtype)
        rule = Join(t.dtype, given=given)
        value = self.system.leaf(t.dtype, name, place, rule, True)
        self._joins[value] = rule
        return value

    def join(self, into: Handle, source: Handle, place: Place) -> None:
        """What is `source` at a place may arrive as `into`; a source that is no such value may be anything."""
        if isinstance(into, tuple):
            parts = source if isinstance(source, tuple) and len(source) == len(into) else (None,) * len(into)
            for a, b in zip(into, parts, strict=True):
                self.join(a, b, place)
        elif into is not None:
            rule = self._joins[into]
            if isinstance(source, int):
                rule.sources.append(self.system.node(source, place))
            else:
                rule.given = join(rule.given, top(rule.dtype))

    def anything(self, t: Type, name: str, place: Place) -> Handle:
        """A value of a type that nothing else is known of."""
        if isinstance(t, TupleType):
            return tuple(self.anything(item, f"{name}[{i}]", place) for i, item in enumerate(t.items))
        return self.system.leaf(t.dtype, name, place, Given(top(t.dtype))) if isinstance(t, ScalarType) else None


def within(dtype: DType, lo: int, hi: int) -> tuple[int, int]:
    """An interval clipped to a type."""
    least, greatest = bounds(dtype)
    return max(lo, least), min(hi, greatest)


def _assert_ssa(function: Function) -> None:
    seen = {p.var.name for p in function.params}
    for s in walk(function.body):
        for v in definitions(s):
            if v.name in seen:
                raise ValueError(f"{function.name} is not in SSA form: {v.name} is defined twice")
            seen.add(v.name)


class FunctionBuilder:
    """Walks the body of one function."""

    def __init__(self, builder: Builder, equations: FunctionEquations) -> None:
        self.builder, self.f = builder, equations
        self.system, self.values = builder.system, builder.system.values
        self.cores = equations.cores
        self.blocks: dict[ValueId, ValueId] = {}
        self.lane: ValueId | None = None

    def build(self) -> None:
        """Add the equations of the body; results of the function are ranked behind them."""
        f, system = self.f, self.system
        for handle in (*f.params, f.cores):
            for value in scalars(handle):
                system.rank(f.root.nodes[value])
        self.block(f.function.body, f.root)
        for handle in f.results:
            for value in scalars(handle):
                system.rank(f.root.nodes[value])

    # ---- expressions ----

    def handle(self, e: Expr, place: Place) -> Handle:
        """The value of an expression."""
        values = self.values
        match e:
            case Const(value=v, dtype=dtype):
                if dtype.is_int or dtype is DType.BOOL:
                    return values.const(dtype, int(v))
                return self.builder.anything(ScalarType(dtype), "a number", place)
            case Var(name=name):
                return self.f.names[name] if name in self.f.names else self.dim(e)
            case MakeTuple(items=items):
                return tuple(self.handle(item, place) for item in items)
            case Item(of=of, index=i):
                whole = self.handle(of, place)
                return whole[i] if isinstance(whole, tuple) and i < len(whole) else None
            case Unary(op=op, operand=a):
                x = self.handle(a, place)
                return values.unary(op, x) if isinstance(x, int) else None
            case Cast(operand=a, dtype=dtype):
                x = self.handle(a, place)
                return values.cast(x, dtype) if isinstance(x, int) else None
            case Binary(op=op, left=a, right=b):
                x, y = self.handle(a, place), self.handle(b, place)
                return values.binary(op, x, y) if isinstance(x, int) and isinstance(y, int) else None
        return None

    def dim(self, v: Var) -> Handle:
        """A name that no statement defines: an extent of the signature."""
        if not isinstance(v.type, ScalarType):
            return None
        known = v.name in self.builder.program.dynamic and v.type == INDEX
        fact = make(DType.INDEX, 0, INDEX_LIMIT) if known else top(v.type.dtype)
        self.f.names[v.name] = value = self.system.leaf(v.type.dtype, v.name, self.f.root, Given(fact))
        return value

    def scalar(self, e: Expr, place: Place, dtype: DType = DType.INDEX) -> ValueId:
        """The value of a scalar expression; anything of `dtype` for one that is none."""
        found = self.handle(e, place)
        if not isinstance(found, int):
            found = self.builder.anything(ScalarType(dtype), "a value", place)
        assert isinstance(found, int)
        return found

    # ---- statements ----

    def block(self, block: Block, place: Place) -> None:
        for s in block:
            self.f.put(s, place)
            self.statement(s, place)

    def statement(self, s: Stmt, place: Place) -> None:
        match s:
            case Assign(targets=targets, value=value):
                self.assign(targets, value, place)
            case For():
                self.loop(s, place)
            case While():
                self.while_loop(s, place)
            case If():
                self.branch(s, place)
            case Scope():
                self.scope(s, place)
            case Return(values=values):
                for result, e in zip(self.f.results, values, strict=False):
                    self.builder.join(result, self.handle(e, place), place)
            case _:
                if (call := getattr(s, "value", None)) is not None and isinstance(call, FunctionCall | Submit):
                    self.call(call, place)

    def bind(self, target: Var, handle: Handle, place: Place) -> None:
        """Give a name its value, as what its type says."""
        t = target.type
        if isinstance(t, ScalarType):
            if not isinstance(handle, int):
                handle = self.builder.anything(t, target.name, place)
            elif t.dtype.is_int:
                handle = self.values.cast(handle, t.dtype)
            if isinstance(handle, int):
                self.system.node(handle, place)
        elif isinstance(t, TupleType) and not isinstance(handle, tuple):
            handle = self.builder.anything(t, target.name, place)
        self.f.names[target.name] = handle

    def assign(self, targets: tuple[Var, ...], value: Value, place: Place) -> None:
        if isinstance(value, Call):
            self.bind(targets[0], self.op(value, targets[0], place), place)
        elif isinstance(value, FunctionCall | Submit):
            results = self.call(value, place)
            whole = len(targets) == 1 and isinstance(targets[0].type, TupleType)
            handles: Iterable[Handle] = (tuple(results),) if whole else results
            for target, handle in zip(targets, [*handles, *[None] * len(targets)], strict=False):
                self.bind(target, handle, place)
        else:
            self.bind(targets[0], self.handle(value, place), place)

    def op(self, call: Call, target: Var, place: Place) -> Handle:
        """The result of an op: where the program runs, an extent, or anything of its type."""
        match call.op:
            case "tile.get_block_idx":
                return self.block_index()
            case "tile.get_block_num":
                return self.cores
            case "tile.get_subblock_idx":
                return self.subblock(2)
            case "tensor.dim":
                return self.extent(call, place)
        return self.builder.anything(target.type, target.name, place)

    def block_index(self) -> ValueId:
        """The block that runs: below the number of blocks."""
        if self.cores not in self.blocks:
            zero, one = (self.system.node(self.values.const(DType.INDEX, n), self.f.root) for n in (0, 1))
            rule = LoopVariable(DType.INDEX, zero, self.system.node(self.cores, self.f.root), one)
            value = self.system.leaf(DType.INDEX, "the block", self.f.root, rule)
            self.f.root.add_limit(value, Limit(True, self.cores, -1))
            self.blocks[self.cores] = value
        return self.blocks[self.cores]

    def subblock(self, count: int) -> ValueId:
        """The vector lane that runs."""
        if self.lane is None:
            self.lane = self.system.leaf(DType.INDEX, "the vector lane", self.f.root, Given(make(DType.INDEX, 0, max(count, 2) - 1)))
        return self.lane

    def extent(self, call: Call, place: Place) -> Handle:
        """An extent of a tensor: that of its type where it is named, else not negative."""
        source = call.args[0] if call.args else None
        axis = const_int(call.args[1]) if len(call.args) > 1 else None
        if isinstance(source, Var) and isinstance(source.type, TensorType) and axis is not None:
            shape = source.type.shape
            if -len(shape) <= axis < len(shape):
                found = self.handle(shape[axis], place)
                if isinstance(found, int):
                    return self.values.cast(found, DType.INDEX)
        return self.system.leaf(DType.INDEX, "an extent", place, Given(make(DType.INDEX, 0, INDEX_LIMIT)))

    # ---- calls ----

    def call(self, call: FunctionCall | Submit, place: Place) -> list[Handle]:
        """Hand arguments to the parameters of a function of the program; gives its results."""
        callee = self.builder.functions.get(call.function)
        if callee is None:
            return []
        args = arguments(call, callee.function)
        for i, param in enumerate(callee.params):
            e = None if args is None else args[i]
            self.builder.join(param, None if e is None else self.handle(e, place), place)
        self.builder.join(callee.cores, self.launched(call, place), place)
        results: list[Handle] = [self.received(r, callee.root, place) for r in callee.results]
        return [*results, self.builder.anything(ScalarType(DType.TASK_ID), "a task", place)] if isinstance(call, Submit) else results

    def launched(self, call: FunctionCall | Submit, place: Place) -> ValueId:
        """The number of blocks that a call runs in: its own, those of the caller where it names none."""
        if isinstance(call, FunctionCall):
            return self.cores
        return self.count(dict(call.fields).get("core_num"), place)

    def count(self, stated: object, place: Place) -> ValueId:
        """A stated number of blocks."""
        found: Handle = None
        if isinstance(stated, int):
            found = self.values.const(DType.INDEX, stated)
        elif isinstance(stated, Const | Var | Unary | Binary | Cast | Item):
            found = self.handle(stated, place)
        if not isinstance(found, int):
            return self.system.leaf(DType.INDEX, "the number of blocks", self.f.root, Given(_BLOCKS))
        return self.values.cast(found, DType.INDEX)

    def received(self, result: Handle, callee: Place, place: Place) -> Handle:
        """What arrives of a result of a function at a call."""
        if isinstance(result, tuple):
            return tuple(self.received(r, callee, place) for r in result)
        if result is None:
            return None
        term = self.values[result]
        return self.system.leaf(term.dtype, term.name, place, Join(term.dtype, [callee.nodes[result]]))

    # ---- control flow ----

    def loop(self, s: For, place: Place) -> None:
        body = Place(place)
        dtype = s.var.type.dtype if isinstance(s.var.type, ScalarType) else DType.INDEX
        start, stop, step = (self.scalar(e, place) for e in (s.start, s.stop, s.step))
        nodes = (self.system.node(start, place), self.system.node(stop, place), self.system.node(step, place))
        var = self.system.leaf(dtype, s.var.name, body, LoopVariable(dtype, *nodes))
        self.f.names[s.var.name] = var
        least, greatest = bounds(dtype)
        if all(self.values[v].dtype.bits == dtype.bits and self.values[v].dtype.is_signed == dtype.is_signed for v in (start, stop)):
            whole = tuple((n, least, greatest) for n in nodes[:2])
            for up in (True, False):
                guards = (*whole, (nodes[2], 1, greatest) if up else (nodes[2], least, -1))
                body.add_limit(var, Limit(up, stop, -1 if up else 1, guards=guards))
                body.add_limit(var, Limit(not up, start, guards=guards))
        carried = [(c, self.carry(c.var, self.handle(c.init, place), place, body)) for c in s.carries]
        self.block(s.body, body)
        yielded = self.yielded(s.body, body)
        for i, (carry, handle) in enumerate(carried):
            after = yielded[i] if i < len(yielded) else None
            self.close(handle, after, body, nodes)
            if i < len(s.results):
                init = self.handle(carry.init, place)
                self.bind(s.results[i], self.after(s.results[i], init, after, body, place, nodes), place)

    def carry(self, var: Var, init: Handle, place: Place, body: Place) -> Handle:
        """The values of a carried name inside of a loop."""
        handle = self._carry(var.type, var.name, init, place, body)
        self.f.names[var.name] = handle
        return handle

    def _carry(self, t: Type, name: str, init: Handle, place: Place, body: Place) -> Handle:
        if isinstance(t, TupleType):
            parts: tuple[Handle, ...] = init if isinstance(init, tuple) else (None,) * len(t.items)
            return tuple(self._carry(item, f"{name}[{i}]", parts[i], place, body) for i, item in enumerate(t.items))
        if not isinstance(t, ScalarType):
            return None
        first = init if isinstance(init, int) else self.scalar(MakeTuple(()), place, t.dtype)
        return self.system.leaf(t.dtype, name, body, Carried(t.dtype, self.system.node(first, place)), True)

    def yielded(self, block: Block, place: Place) -> tuple[Handle, ...]:
        end = terminator(block)
        return tuple(self.handle(e, place) for e in end.values) if isinstance(end, Yield) else ()

    def close(self, carry: Handle, after: Handle, body: Place, loop: tuple[int, int, int] | None) -> None:
        """What the body yields becomes the carried value of the next trip."""
        if isinstance(carry, tuple):
            for i, part in enumerate(carry):
                self.close(part, after[i] if isinstance(after, tuple) else None, body, loop)
            return
        if carry is None:
            return
        rule = self.system.nodes[body.nodes[carry]].rule
        assert isinstance(rule, Carried)
        if not isinstance(after, int):
            after = self.scalar(MakeTuple(()), body, rule.dtype)
        rule.yielded = self.system.node(after, body)
        old, new = self.values[carry], self.values[after]
        by = combine(new.form, old.form, -1)
        if loop is not None and new.dtype.bits == old.dtype.bits and new.dtype.is_signed == old.dtype.is_signed and not by.coefficient(carry):
            rule.loop, rule.increment = loop, self.system.sums(by, body)

    def after(self, result: Var, init: Handle, after: Handle, body: Place, place: Place, loop: tuple[int, int, int]) -> Handle:
        """The value that a loop ends with."""
        if isinstance(result.type, TupleType) and isinstance(init, tuple) and isinstance(after, tuple):
            parts = zip(result.type.items, init, after, strict=True)
            return tuple(self.after(Var(result.name, t), a, b, body, place, loop) for t, a, b in parts)
        if not isinstance(result.type, ScalarType) or not isinstance(init, int) or not isinstance(after, int):
            return None
        rule = AfterLoop(result.type.dtype, self.system.node(init, place), self.system.node(after, body), loop)
        return self.system.leaf(result.type.dtype, result.name, place, rule)

    def while_loop(self, s: While, place: Place) -> None:
        head = Place(place)
        carried = [self.carry(c.var, self.handle(c.init, place), place, head) for c in s.carries]
        condition = self.scalar(s.cond, head, DType.BOOL)
        body, end = Place(head), Place(head)
        refine(self.system, body, condition, True)
        refine(self.system, end, condition, False)
        self.block(s.body, body)
        yielded = self.yielded(s.body, body)
        for i, handle in enumerate(carried):
            self.close_while(handle, yielded[i] if i < len(yielded) else None, head, body)
            if i < len(s.results):
                self.bind(s.results[i], self.left(handle, s.results[i].name, end, place), place)

    def close_while(self, carry: Handle, after: Handle, head: Place, body: Place) -> None:
        if isinstance(carry, tuple):
            for i, part in enumerate(carry):
                self.close_while(part, after[i] if isinstance(after, tuple) else None, head, body)
        elif carry is not None:
            rule = self.system.nodes[head.nodes[carry]].rule
            assert isinstance(rule, Carried)
            rule.yielded = self.system.node(after if isinstance(after, int) else self.scalar(MakeTuple(()), body, rule.dtype), body)

    def left(self, carry: Handle, name: str, end: Place, place: Place) -> Handle:
        """A carried value where the condition of a `while` no longer holds."""
        if isinstance(carry, tuple):
            return tuple(self.left(part, name, end, place) for part in carry)
        if carry is None:
            return None
        dtype = self.values[carry].dtype
        return self.system.leaf(dtype, name, place, Join(dtype, [self.system.node(carry, end)]))

    def branch(self, s: If, place: Place) -> None:
        condition = self.scalar(s.cond, place, DType.BOOL)
        test = self.system.node(condition, place)
        arms = []
        for block, holds in ((s.then, True), (s.orelse or (), False)):
            arm = Place(place)
            refine(self.system, arm, condition, holds)
            self.block(block, arm)
            arms.append((self.yielded(block, arm), arm))
        for i, result in enumerate(s.results):
            sides = [(handles[i] if i < len(handles) else None, arm) for handles, arm in arms]
            self.bind(result, self.chosen(result.type, result.name, test, sides, place), place)

    def chosen(self, t: Type, name: str, test: int, sides: list[tuple[Handle, Place]], place: Place) -> Handle:
        """The result of a branch; what an arm that returns would yield is never seen."""
        if isinstance(t, TupleType):
            split = [[(h[i] if isinstance(h, tuple) and i < len(h) else None, arm) for h, arm in sides] for i in range(len(t.items))]
            return tuple(self.chosen(item, f"{name}[{i}]", test, split[i], place) for i, item in enumerate(t.items))
        if not isinstance(t, ScalarType):
            return None
        nodes = [self.system.node(h if isinstance(h, int) else self.scalar(MakeTuple(()), arm, t.dtype), arm) for h, arm in sides]
        return self.system.leaf(t.dtype, name, place, Choice(t.dtype, test, nodes[0], nodes[1]))

    def scope(self, s: Scope, place: Place) -> None:
        """A scope runs its body in place; a launch over blocks has its own number of them."""
        outer, stated = self.cores, dict(s.attrs)
        if s.kind == "spmd":
            self.cores = self.count(stated.get("core_num"), place)
        if s.var is not None:
            count = stated.get("count", 2)
            known = {"spmd": self.block_index, "split_aiv": lambda: self.subblock(count if isinstance(count, int) else 2)}
            self.bind(s.var, known[s.kind]() if s.kind in known else None, place)
        self.block(s.body, place)
        self.cores = outer


def scalars(handle: Handle) -> Iterable[ValueId]:
    """The scalars of a value."""
    if isinstance(handle, tuple):
        for part in handle:
            yield from scalars(part)
    elif handle is not None:
        yield handle
