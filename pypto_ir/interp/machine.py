"""Runs a program: by value (ops that write in place get copies), in buffer mode (they write the storage that
views share), or in l0c mode (buffer mode with accumulators in the blocks of their memory).

    outcome = run(program, "main_incore_0", seed=3, mode="buffer", max_trips=2)

Each function is made ready once: names, ops and constant extents are resolved per statement, not per trip. A
loop of more than `max_trips` trips runs its first `max_trips` - 1 trips and the last one, and the outcome
says so: `range(0, 4096, 512)` with `max_trips=2` runs 0 and 3584. All four kinds of loops run in order;
negative steps count as Python's `range`. Parallel lanes are not run: one run is one lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from pypto_ir.acc_chains import stated, unstated_accumulators
from pypto_ir.acc_reads import AccReads
from pypto_ir.interp.inputs import Lane, dim_names, make_arguments, make_dims
from pypto_ir.interp.l0c import Accumulators
from pypto_ir.interp.memory import Buffer, Tensor
from pypto_ir.interp.scalars import DIVISIONS
from pypto_ir.interp.statements import LoopKey, Signal, StatementCompiler, Step
from pypto_ir.interp.values import RunError
from pypto_ir.lazy import np
from pypto_ir.scale_boxes import is_blocked, is_mx
from pypto_ir.stmt import Function, Program
from pypto_ir.types import Type

STEP_LIMIT = 10_000_000
CALL_DEPTH = 32
MODES = ("value", "buffer", "l0c")


@dataclass(frozen=True, slots=True)
class Cut:
    """A loop of which not every trip was run; `trips` is None for a `while` that was stopped."""

    function: str
    loop: str
    trips: int | None
    ran: int


@dataclass(slots=True)
class Outcome:
    """What a run gave: the returned values, the buffers of tensor parameters by name, statements executed,
    loops cut short.
    """

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
    reads: AccReads | None = None,
    keep: bool = False,
) -> Outcome:
    """Run one function of a program.

    `inputs` holds arrays for tensor and tile parameters, numbers for scalars and dynamic dims, by name; what
    it does not name is made from `seed` (`pypto_ir.interp.inputs`, `fill`). `mode` is value, buffer or l0c
    (`pypto_ir.interp.l0c`: `reads` tells how instructions of the target read accumulators, `keep`
    that a product keeps the cells of its blocks that it does not fill), `division` floor, trunc or kernel
    (`pypto_ir.interp.scalars`). `cuttable` limits what `max_trips` may cut (None: every loop), `deadline` is
    a `time.monotonic` instant. Raises `RunError` where the program has no meaning for these inputs or a limit
    is reached, `ValueError` for options that do not exist.
    """
    if mode not in MODES or division not in DIVISIONS:
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
        acc = Accumulators(reads or AccReads(), keep) if mode == "l0c" else None
        machine = Machine(
            program,
            dims,
            mode != "value",
            division,
            Lane.of(seed),
            max_trips,
            cuttable,
            step_limit,
            deadline,
            acc,
        )
        values = tuple(arguments.values())
        if acc is None:
            returned = machine.call(function, values)
        else:
            unstated = unstated_accumulators(function)
            types = (stated(p.var, unstated) for p in function.params)
            placed = map(acc.place, values, types)
            returned = tuple(map(acc.result, machine.call(function, tuple(placed))))
    memory = {name: value.buffer for name, value in arguments.items() if isinstance(value, Tensor)}
    return Outcome(returned, memory, machine.steps, tuple(machine.cuts.values()))


def _taken(t: Type, value: Any) -> Any:
    """An argument as its parameter has it: scales are the same memory in their logical and their blocked form."""
    if not is_mx(t) or not isinstance(value, Tensor) or len(value.shape) == len(t.shape):
        return value
    return value.physical() if is_blocked(t) else value.logical()


@dataclass(slots=True)
class Machine:
    """The state of one run: what it may do, how far it has got, and the functions made ready so far."""

    program: Program
    dims: dict[str, int]
    in_place: bool
    division: str
    lane: Lane
    max_trips: int | None
    cuttable: frozenset[LoopKey] | None
    step_limit: int
    deadline: float | None
    acc: Accumulators | None = None
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
            unstated = unstated_accumulators(function) if self.acc is not None else frozenset()
            self.bodies[function.name] = StatementCompiler(self, function.name, unstated).block(function.body)
        env: dict[str, Any] = dict(self.dims)
        env.update((p.var.name, _taken(p.var.type, arg)) for p, arg in zip(function.params, args, strict=True))
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
