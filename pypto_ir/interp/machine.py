"""Runs a program: by value (ops that write in place get copies) or in buffer mode (they write the storage that views share).

    outcome = run(program, "main_incore_0", seed=3, mode="buffer", max_trips=2)

Each function is made ready once: names, ops and constant extents are resolved per statement, not per trip. A loop of more than `max_trips`
trips runs its first `max_trips` - 1 trips and the last one, and the outcome says so: `range(0, 4096, 512)` with `max_trips=2` runs 0 and
3584. All four kinds of loops run in order; negative steps count as Python's `range`. Parallel lanes are not run: one run is one lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeAlias

from pypto_ir.expr import Var
from pypto_ir.interp.calls import compile_call
from pypto_ir.interp.inputs import Lane, dim_names, make_arguments, make_dims
from pypto_ir.interp.memory import Buffer, Tensor
from pypto_ir.interp.scalars import Thunk, compile_dims, compile_expr, wrapper
from pypto_ir.interp.values import UNDEFINED, RunError
from pypto_ir.lazy import np
from pypto_ir.stmt import (
    Assign, Block, Break, Call, Continue, Eval, For, Function, FunctionCall, If, Program, Return, Scope, Stmt, Submit, Value,
    While, Yield,
)  # fmt: skip
from pypto_ir.types import ScalarType, TensorType, Type

STEP_LIMIT = 10_000_000
CALL_DEPTH = 32

#: identifies a loop: the function's name and the name of the loop variable (of a `while`: of its first carried name)
LoopKey: TypeAlias = tuple[str, str]
Signal: TypeAlias = "tuple[str, tuple[Any, ...]] | None"
Step: TypeAlias = Callable[[dict[str, Any]], Signal]

_BREAK: Signal = ("break", ())
_CONTINUE: Signal = ("continue", ())


@dataclass(frozen=True, slots=True)
class Cut:
    """A loop of which not every trip was run; `trips` is None for a `while` that was stopped."""

    function: str
    loop: str
    trips: int | None
    ran: int


@dataclass(slots=True)
class Outcome:
    """What a run gave: the returned values, the buffers of tensor parameters by name, statements executed, loops cut short."""

    returned: tuple[Any, ...]
    memory: dict[str, Buffer]
    steps: int
    cuts: tuple[Cut, ...]

    @property
    def complete(self) -> bool:
        """True where every trip of every loop was run."""
        return not self.cuts


def run(
    program: Program,
    function_name: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    mode: str = "value",
    fill: str = "small",
    max_trips: int | None = None,
    cuttable: frozenset[LoopKey] | None = None,
    step_limit: int = STEP_LIMIT,
    deadline: float | None = None,
    division: str = "floor",
) -> Outcome:
    """Run one function of a program.

    `inputs` holds arrays for tensor and tile parameters, numbers for scalars and dynamic dims, by name; what it does not name is made from
    `seed` (`pypto_ir.interp.inputs`, `fill`). `mode` is value or buffer, `division` floor or trunc. `cuttable` limits what `max_trips` may
    cut (None: every loop), `deadline` is a `time.monotonic` instant. Raises `RunError` where the program has no meaning for these inputs or
    a limit is reached, `ValueError` for options that do not exist.
    """
    if mode not in ("value", "buffer") or division not in ("floor", "trunc"):
        raise ValueError(f"no such way to run: mode {mode!r}, division {division!r}")
    if max_trips is not None and max_trips < 1:
        raise ValueError("max_trips must be at least 1")
    function = program.function(function_name)
    if function is None:
        raise RunError(f"the program has no function {function_name}", "R003")
    given = inputs or {}
    unknown = set(given) - {p.var.name for p in function.params} - set(dim_names(program))
    if unknown:
        raise RunError(f"inputs {sorted(unknown)} are neither parameters of {function_name} nor dynamic dims")
    with np.errstate(all="ignore"):
        dims = make_dims(program, seed, given)
        arguments = make_arguments(function, dims, seed, fill, given)
        machine = _Machine(program, dims, mode == "buffer", division, Lane.of(seed), max_trips, cuttable, step_limit, deadline)
        returned = machine.call(function, tuple(arguments.values()))
    memory = {name: value.buffer for name, value in arguments.items() if isinstance(value, Tensor)}
    return Outcome(returned, memory, machine.steps, tuple(machine.cuts.values()))


@dataclass(slots=True)
class _Machine:
    program: Program
    dims: dict[str, int]
    in_place: bool
    division: str
    lane: Lane
    max_trips: int | None
    cuttable: frozenset[LoopKey] | None
    step_limit: int
    deadline: float | None
    steps: int = 0
    depth: int = 0
    next_check: int = 0
    cuts: dict[LoopKey, Cut] = field(default_factory=dict)
    bodies: dict[str, tuple[Step, ...]] = field(default_factory=dict)

    def call(self, function: Function, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run a function on argument values; returns its returned values."""
        if function.verbatim is not None or function.external_source is not None:
            raise RunError(f"function {function.name} has a body that is not Tile IR", "R003")
        if len(args) != len(function.params):
            raise RunError(f"function {function.name} takes {len(function.params)} arguments, {len(args)} given")
        if self.depth >= CALL_DEPTH:
            raise RunError(f"calls are nested more than {CALL_DEPTH} deep in {function.name}", "R008")
        if function.name not in self.bodies:
            self.bodies[function.name] = _Compiler(self, function.name).block(function.body)
        env: dict[str, Any] = dict(self.dims)
        env.update(zip((p.var.name for p in function.params), args, strict=True))
        self.depth += 1
        signal = self.block(self.bodies[function.name], env)
        self.depth -= 1
        return signal[1] if signal is not None and signal[0] == "return" else ()

    def block(self, steps: tuple[Step, ...], env: dict[str, Any]) -> Signal:
        """Run the statements of a block until one of them hands control on."""
        self.steps += len(steps) + 1
        if self.steps >= self.next_check:
            self.check_limits()
        for step in steps:
            signal = step(env)
            if signal is not None:
                return signal
        return None

    def check_limits(self) -> None:
        self.next_check = min(self.steps + 64, self.step_limit + 1)
        if self.steps > self.step_limit:
            raise RunError(f"more than {self.step_limit} statements were executed", "R004")
        if self.deadline is not None and monotonic() > self.deadline:
            raise RunError("the time for this run is over", "R007")

    def trips(self, key: LoopKey, all_trips: range) -> Iterable[int]:
        """The trips of a loop that are run."""
        limit = self.max_trips
        if limit is None or len(all_trips) <= limit or (self.cuttable is not None and key not in self.cuttable):
            return all_trips
        self.cuts[key] = Cut(*key, len(all_trips), limit)
        return (*all_trips[: limit - 1], all_trips[-1])

    def stops(self, key: LoopKey, ran: int) -> bool:
        """True where a `while` is stopped after `ran` trips."""
        if self.max_trips is None or ran < self.max_trips or (self.cuttable is not None and key not in self.cuttable):
            return False
        self.cuts[key] = Cut(*key, None, ran)
        return True


@dataclass(frozen=True, slots=True)
class _Compiler:
    """Makes the statements of one function ready to run."""

    machine: _Machine
    function: str

    def block(self, block: Block) -> tuple[Step, ...]:
        return tuple([self.statement(s) for s in block])

    def statement(self, s: Stmt) -> Step:
        match s:
            case Assign(targets=targets, value=value):
                return self.assign(targets, value)
            case Eval(value=value):
                effect = self.value(value, None)
                return lambda env: None if effect(env) is None else None
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

    def expr(self, e: Any) -> Thunk:
        return compile_expr(e, self.machine.division)

    def assign(self, targets: tuple[Var, ...], value: Value) -> Step:
        compute = self.value(value, targets[0].type if len(targets) == 1 else None)
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
                return compile_call(value, t, in_place=machine.in_place, division=machine.division, lane=machine.lane)
            case FunctionCall(function=name, args=args):
                parts = tuple(self.expr(a) for a in args)

                def call(env: dict[str, Any]) -> Any:
                    result = machine.call(self.callee(name), tuple([part(env) for part in parts]))
                    return result[0] if len(result) == 1 else result

                return call  # type: ignore[return-value]
            case Submit():
                return self.submit(value)
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

    def loop(self, s: For) -> Step:
        machine, key = self.machine, (self.function, s.var.name)
        bounds = tuple(self.expr(e) for e in (s.start, s.stop, s.step))
        body, name = self.block(s.body), s.var.name
        inits = tuple(self.expr(c.init) for c in s.carries)
        carried = tuple(c.var.name for c in s.carries)
        results = tuple(r.name for r in s.results)
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
                env.update(zip(carried, values, strict=True))
                signal = machine.block(body, env)
                if signal is not None:
                    kind, handed = signal
                    if kind == "return":
                        return signal
                    if kind == "break":
                        break
                    if kind == "yield":
                        values = handed
            env.update(zip(results, values, strict=True))
            return None

        return run_loop

    def while_loop(self, s: While) -> Step:
        machine, key = self.machine, (self.function, s.carries[0].var.name if s.carries else "while")
        cond, body = self.expr(s.cond), self.block(s.body)
        inits = tuple(self.expr(c.init) for c in s.carries)
        carried = tuple(c.var.name for c in s.carries)
        results = tuple(r.name for r in s.results)

        def run_while(env: dict[str, Any]) -> Signal:
            values = tuple([init(env) for init in inits])
            ran = 0
            while True:
                env.update(zip(carried, values, strict=True))
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
            env.update(zip(results, values, strict=True))
            return None

        return run_while

    def branch(self, s: If) -> Step:
        machine, cond = self.machine, self.expr(s.cond)
        then, orelse = self.block(s.then), self.block(s.orelse or ())
        results = tuple(r.name for r in s.results)

        def run_branch(env: dict[str, Any]) -> Signal:
            signal = machine.block(then if cond(env) else orelse, env)
            if signal is None or signal[0] != "yield":
                return signal
            env.update(zip(results, signal[1], strict=True))
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
