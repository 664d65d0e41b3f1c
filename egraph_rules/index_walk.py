"""The walk over a function: every statement adds its equations.

`for i in range(0, n, 16)` gives a loop variable with its rule, the relation i <= n - 1 in its body, and for each carried value a rule
that joins what it starts as with what the body yields.
"""

from __future__ import annotations

from collections.abc import Iterable

from egraph_rules.index_bounds import Limit
from egraph_rules.index_calls import arguments
from egraph_rules.index_conditions import refine
from egraph_rules.index_domain import bounds
from egraph_rules.index_equations import scalars
from egraph_rules.index_nodes import AfterLoop, Carried, Choice, Join, LoopVariable
from egraph_rules.index_operands import Operands
from egraph_rules.index_places import Handle, Place
from egraph_rules.index_reach import Reached
from egraph_rules.index_values import ValueId, alike, combine
from pypto_ir.dtypes import DType
from pypto_ir.expr import MakeTuple, Var
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
    For,
    FunctionCall,
    If,
    Return,
    Scope,
    Stmt,
    Submit,
    Value,
    While,
    Yield,
    terminator,
)
from pypto_ir.types import ScalarType, TupleType, Type


class Walk(Operands):
    """Walks the body of one function."""

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
                    self.equations.join(result, self.handle(e, place), place)
            case _:
                if (call := getattr(s, "value", None)) is not None and isinstance(call, FunctionCall | Submit):
                    self.call(call, place)

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

    def call(self, call: FunctionCall | Submit, place: Place) -> list[Handle]:
        """Hand arguments to the parameters of a function of the program; gives its results."""
        callee = self.equations.functions.get(call.function)
        if callee is None:
            return []
        args = arguments(call, callee.function)
        callee.entered.places.append(place.reach())
        for i, param in enumerate(callee.params):
            e = None if args is None else args[i]
            self.equations.join(param, None if e is None else self.handle(e, place), place)
        self.equations.join(callee.cores, self.launched(call, place), place)
        results: list[Handle] = [self.received(r, callee.root, place) for r in callee.results]
        return [*results, self.equations.anything(ScalarType(DType.TASK_ID), "a task", place)] if isinstance(call, Submit) else results

    def launched(self, call: FunctionCall | Submit, place: Place) -> ValueId:
        """The number of blocks that a call runs in: its own, those of the caller where it names none."""
        if isinstance(call, FunctionCall):
            return self.cores
        return self.count(dict(call.fields).get("core_num"), place)

    def received(self, result: Handle, callee: Place, place: Place) -> Handle:
        """What arrives of a result of a function at a call."""
        if isinstance(result, tuple):
            return tuple(self.received(r, callee, place) for r in result)
        if result is None:
            return None
        term = self.values[result]
        return self.system.leaf(term.dtype, term.name, place, Join(term.dtype, [(callee.nodes[result], place.reach())]))

    def loop(self, s: For, place: Place) -> None:
        body = Place(place)
        dtype = s.var.type.dtype if isinstance(s.var.type, ScalarType) else DType.INDEX
        start, stop, step = (self.scalar(e, place) for e in (s.start, s.stop, s.step))
        nodes = (self.system.node(start, place), self.system.node(stop, place), self.system.node(step, place))
        var = self.system.leaf(dtype, s.var.name, body, LoopVariable(dtype, *nodes))
        self.f.bind(s.var.name, var, body)
        self.system.enter(body, Reached(place.reach(), body.nodes[var]))
        if all(alike(self.values[v].dtype, dtype) for v in (start, stop)):
            least, greatest = bounds(dtype)
            signed = tuple((n, 0, greatest // 2) for n in nodes[:2]) if dtype.is_unsigned else ()
            for up, sign in ((True, (nodes[2], 1, greatest // 2 if signed else greatest)), (False, (nodes[2], least, -1))):
                body.add_limit(var, Limit(up, stop, -1 if up else 1, guards=(sign, *signed)))
                body.add_limit(var, Limit(not up, start, guards=(sign, *signed)))
        inits = [self.handle(c.init, place) for c in s.carries]
        carried = [self.carry(c.var, init, place, body) for c, init in zip(s.carries, inits, strict=True)]
        self.block(s.body, body)
        ends = self.yielded(s.body, len(carried), body)
        for handle, end in zip(carried, ends, strict=True):
            self.close(handle, end, body, body, nodes)
        for result, init, end in zip(s.results, inits, ends, strict=False):
            self.bind(result, self.after(result, init, end, body, place, nodes), place)

    def carry(self, var: Var, init: Handle, place: Place, body: Place) -> Handle:
        """The values of a carried name inside of a loop."""
        handle = self._carry(var.type, var.name, init, place, body)
        self.f.bind(var.name, handle, body)
        return handle

    def _carry(self, t: Type, name: str, init: Handle, place: Place, body: Place) -> Handle:
        if isinstance(t, TupleType):
            parts: tuple[Handle, ...] = init if isinstance(init, tuple) else (None,) * len(t.items)
            return tuple(self._carry(item, f"{name}[{i}]", parts[i], place, body) for i, item in enumerate(t.items))
        if not isinstance(t, ScalarType):
            return None
        first = init if isinstance(init, int) else self.scalar(MakeTuple(()), place, t.dtype)
        return self.system.leaf(t.dtype, name, body, Carried(t.dtype, self.system.node(first, place)), True)

    def yielded(self, block: Block, count: int, place: Place) -> tuple[Handle, ...]:
        """What a block hands on; nothing is known of what it does not name."""
        end = terminator(block)
        found = tuple(self.handle(e, place) for e in end.values) if isinstance(end, Yield) else ()
        return (*found, *(None,) * count)[:count]

    def close(self, carry: Handle, after: Handle, head: Place, body: Place, loop: tuple[int, int, int] | None = None) -> None:
        """What the body yields becomes the carried value of the next trip; `loop` are the bounds that count the trips."""
        if isinstance(carry, tuple):
            for i, part in enumerate(carry):
                self.close(part, after[i] if isinstance(after, tuple) else None, head, body, loop)
            return
        if carry is None:
            return
        rule = self.system.nodes[head.nodes[carry]].rule
        assert isinstance(rule, Carried)
        if not isinstance(after, int):
            after = self.scalar(MakeTuple(()), body, rule.dtype)
        rule.yielded, rule.loop = self.system.node(after, body), loop
        old, new = self.values[carry], self.values[after]
        by = combine(new.form, old.form, -1)
        if alike(new.dtype, old.dtype) and not by.coefficient(carry):
            rule.increment = self.system.sums(by, body)

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
        self.system.enter(body, Reached(head.reach(), self.system.node(condition, head), True))
        refine(self.system, body, condition, True)
        refine(self.system, end, condition, False)
        self.block(s.body, body)
        ends = self.yielded(s.body, len(carried), body)
        for handle, after in zip(carried, ends, strict=True):
            self.close(handle, after, head, body)
        for handle, result in zip(carried, s.results, strict=False):
            self.bind(result, self.left(handle, result.name, end, place), place)

    def left(self, carry: Handle, name: str, end: Place, place: Place) -> Handle:
        """A carried value where the condition of a `while` no longer holds."""
        if isinstance(carry, tuple):
            return tuple(self.left(part, name, end, place) for part in carry)
        if carry is None:
            return None
        dtype = self.values[carry].dtype
        return self.system.leaf(dtype, name, place, Join(dtype, [(self.system.node(carry, end), place.reach())]))

    def branch(self, s: If, place: Place) -> None:
        condition = self.scalar(s.cond, place, DType.BOOL)
        test = self.system.node(condition, place)
        arms = []
        for block, holds in ((s.then, True), (s.orelse or (), False)):
            arm = Place(place)
            self.system.enter(arm, Reached(place.reach(), test, holds))
            refine(self.system, arm, condition, holds)
            self.block(block, arm)
            arms.append((self.yielded(block, len(s.results), arm), arm))
        for i, result in enumerate(s.results):
            sides = [(handles[i], arm) for handles, arm in arms]
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
            lanes = count if isinstance(count, int) else 2
            index = {"spmd": self.block_index, "split_aiv": lambda: self.subblock(lanes)}.get(s.kind, lambda: None)
            self.bind(s.var, index(), place)
        self.block(s.body, place)
        self.cores = outer
