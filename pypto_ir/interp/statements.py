"""Statements made ready to run: each becomes a function of the environment that tells how its block goes on.

`x = a + 1` becomes a function that sets `x` and returns None, `yield acc1` one that returns
`("yield", (v,))`, which the loop around it takes as the values of the next trip. What is constant in a run
(names, ops, constant extents, the kind of division) is looked up here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pypto_ir.acc_chains import stated
from pypto_ir.dtypes import DType
from pypto_ir.expr import Cast, Var, dtype_of
from pypto_ir.interp.calls import compile_call, extents_of
from pypto_ir.interp.l0c import AccTile
from pypto_ir.interp.memory import Tensor
from pypto_ir.interp.scalars import Thunk, compile_dims, compile_expr, signed, wrapper
from pypto_ir.interp.values import UNDEFINED, RunError, Tile
from pypto_ir.stmt import (
    Assign,
    Block,
    Break,
    Call,
    Continue,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Return,
    Scope,
    Stmt,
    Submit,
    Value,
    While,
    Yield,
)
from pypto_ir.types import ScalarType, TensorType, TileType, Type

if TYPE_CHECKING:
    from pypto_ir.interp.machine import Machine

#: identifies a loop: the names of its function and of its variable (of a `while`: of its first carried value)
LoopKey: TypeAlias = tuple[str, str]
#: how a block goes on: (return, yield, break or continue, values), or None to go on with the next statement
Signal: TypeAlias = "tuple[str, tuple[Any, ...]] | None"
Step: TypeAlias = Callable[[dict[str, Any]], Signal]

_BREAK: Signal = ("break", ())
_CONTINUE: Signal = ("continue", ())


@dataclass(frozen=True, slots=True)
class StatementCompiler:
    """Makes the statements of one function ready to run; tiles named in `unstated` lie in Acc although their types do not say so."""

    machine: Machine
    function: str
    unstated: frozenset[str] = frozenset()

    def block(self, block: Block) -> tuple[Step, ...]:
        return tuple([self.statement(s) for s in block])

    def statement(self, s: Stmt) -> Step:
        match s:
            case Assign(targets=targets, value=value):
                return self.assign(targets, value)
            case Eval(value=value):
                return self.effect(value)
            case Return(values=values):
                return self.hand_on("return", values)
            case Yield(values=values):
                return self.hand_on("yield", values)
            case Break():
                return lambda env: _BREAK
            case Continue():
                return lambda env: _CONTINUE
            case For():
                return self.loop(s)
            case While():
                return self.while_loop(s)
            case If():
                return self.branch(s)
            case Scope():
                return self.scope(s)
        raise TypeError(f"not a statement: {s!r}")

    def effect(self, value: Value) -> Step:
        compute = self.value(value, None)

        def run_effect(env: dict[str, Any]) -> Signal:
            compute(env)
            return None

        return run_effect

    def expr(self, e: Any) -> Thunk:
        return compile_expr(e, self.machine.division)

    def assign(self, targets: tuple[Var, ...], value: Value) -> Step:
        compute = self.value(value, stated(targets[0], self.unstated) if len(targets) == 1 else None)
        if len(targets) == 1:
            name = targets[0].name

            def assign_one(env: dict[str, Any]) -> Signal:
                env[name] = compute(env)
                return None

            return assign_one
        names = tuple(t.name for t in targets)

        def assign_all(env: dict[str, Any]) -> Signal:
            env.update(zip(names, compute(env), strict=True))
            return None

        return assign_all

    def value(self, value: Value, t: Type | None) -> Thunk:
        machine = self.machine
        match value:
            case Call():
                return compile_call(value, t, in_place=machine.in_place, division=machine.division, lane=machine.lane, acc=machine.acc)
            case FunctionCall(function=name, args=args):
                parts = tuple(self.expr(a) for a in args)

                def call(env: dict[str, Any]) -> Any:
                    result = machine.call(self.callee(name), tuple([part(env) for part in parts]))
                    return result[0] if len(result) == 1 else result

                return call  # type: ignore[return-value]
            case Submit():
                return self.submit(value)
        retyped = isinstance(t, ScalarType) and t.dtype.is_int and t.dtype is not DType.INDEX
        if isinstance(t, ScalarType) and retyped and dtype_of(value) is DType.INDEX:
            # a value of dtype INDEX takes the integer dtype that its definition states
            return self.expr(Cast(value, t.dtype))
        return self.expr(value)

    def callee(self, name: str) -> Function:
        function = self.machine.program.function(name)
        if function is None:
            raise RunError(f"the program has no function {name}", "R003")
        return function

    def submit(self, value: Submit) -> Thunk:
        """A task launch runs the function at once; its last result is the task's id, which is 0."""
        machine, parts = self.machine, tuple(self.expr(a) for a in value.args)

        def launch(env: Mapping[str, Any]) -> Any:
            function = self.callee(value.function)
            args = [part(env) for part in parts]
            for param in function.params[len(args) :]:
                if not isinstance(param.var.type, TensorType):
                    raise RunError(f"parameter {param.var.name} of {function.name} gets no argument", "R003")
                shape = compile_dims(param.var.type.shape, machine.division)[1](machine.dims)
                args.append(Tensor.fresh(param.var.name, shape, param.var.type.dtype, param.var.type.layout))
            return (*machine.call(function, tuple(args)), 0)

        return launch

    def hand_on(self, kind: str, values: tuple[Any, ...]) -> Step:
        parts = tuple(self.expr(v) for v in values)
        return lambda env: (kind, tuple([part(env) for part in parts]))

    def receiver(self, names: tuple[Var, ...]) -> Callable[[dict[str, Any], tuple[Any, ...]], None]:
        """Binds what a block hands on. A tile arrives with the valid region that its name's type states: what one arm or trip handed on
        may be valid further, or less far."""
        keys = tuple(v.name for v in names)
        stated = [(i, extents_of(v.type, self.machine.division)) for i, v in enumerate(names) if isinstance(v.type, TileType)]

        def bind(env: dict[str, Any], values: tuple[Any, ...]) -> None:
            if len(values) != len(keys):
                raise ValueError(f"{len(values)} values for {len(keys)} names")
            env.update(zip(keys, values, strict=True))
            for i, region in stated:
                value = values[i]
                if isinstance(value, Tile | AccTile):
                    valid = region(env)[1]
                    if isinstance(value, AccTile):
                        env[keys[i]] = value.seen_as(names[i].type, valid)
                    elif valid != value.valid:
                        env[keys[i]] = Tile(value.data, value.ok, valid)

        return bind

    def loop(self, s: For) -> Step:
        machine, key = self.machine, (self.function, s.var.name)
        bounds = tuple(self.expr(e) for e in (s.start, s.stop, s.step))
        if machine.division == "kernel":
            bounds = tuple(signed(bound, dtype_of(e)) for bound, e in zip(bounds, (s.start, s.stop, s.step), strict=True))
        body, name = self.block(s.body), s.var.name
        inits = tuple(self.expr(c.init) for c in s.carries)
        carried = self.receiver(tuple(c.var for c in s.carries))
        results = self.receiver(s.results)
        wrap = wrapper(s.var.type.dtype) if isinstance(s.var.type, ScalarType) else int

        def run_loop(env: dict[str, Any]) -> Signal:
            start, stop, step = (bound(env) for bound in bounds)
            if start is UNDEFINED or stop is UNDEFINED or step is UNDEFINED:
                raise RunError(f"the bounds of loop {name} are undefined", "R005")
            if step == 0:
                raise RunError(f"loop {name} has step 0", "R006")
            values = tuple([init(env) for init in inits])
            for i in machine.trips(key, range(start, stop, step)):
                env[name] = wrap(i)
                carried(env, values)
                signal = machine.block(body, env)
                if signal is not None:
                    kind, handed = signal
                    if kind == "return":
                        return signal
                    if kind == "break":
                        break
                    if kind == "yield":
                        values = handed
            results(env, values)
            return None

        return run_loop

    def while_loop(self, s: While) -> Step:
        machine, key = self.machine, (self.function, s.carries[0].var.name if s.carries else "while")
        cond, body = self.expr(s.cond), self.block(s.body)
        inits = tuple(self.expr(c.init) for c in s.carries)
        carried = self.receiver(tuple(c.var for c in s.carries))
        results = self.receiver(s.results)

        def run_while(env: dict[str, Any]) -> Signal:
            values = tuple([init(env) for init in inits])
            ran = 0
            while True:
                carried(env, values)
                if not cond(env) or machine.stops(key, ran):
                    break
                signal = machine.block(body, env)
                ran += 1
                if signal is not None:
                    kind, handed = signal
                    if kind == "return":
                        return signal
                    if kind == "break":
                        break
                    if kind == "yield":
                        values = handed
            results(env, values)
            return None

        return run_while

    def branch(self, s: If) -> Step:
        machine, cond = self.machine, self.expr(s.cond)
        then, orelse = self.block(s.then), self.block(s.orelse or ())
        results = self.receiver(s.results)

        def run_branch(env: dict[str, Any]) -> Signal:
            signal = machine.block(then if cond(env) else orelse, env)
            if signal is None or signal[0] != "yield":
                return signal
            results(env, signal[1])
            return None

        return run_branch

    def scope(self, s: Scope) -> Step:
        machine, body = self.machine, self.block(s.body)
        lane = machine.lane.subblock if s.kind == "split_aiv" else machine.lane.block
        name = s.var.name if s.var is not None and isinstance(s.var.type, ScalarType) else None

        def run_scope(env: dict[str, Any]) -> Signal:
            if name is not None:
                env[name] = lane
            return machine.block(body, env)

        return run_scope
