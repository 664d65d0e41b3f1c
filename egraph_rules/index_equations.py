"""What equations know of a program: its functions, with the values of their names, parameters and results, and the place of every
statement.

Parameters and results are joins: what a call hands in, or a return hands out, is one more source of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from egraph_rules.index_calls import CallGraph
from egraph_rules.index_domain import Fact, bounds, join, make, outside, top
from egraph_rules.index_nodes import Given, Join
from egraph_rules.index_places import Handle, Place, common
from egraph_rules.index_reach import Entered
from egraph_rules.index_system import System
from egraph_rules.index_values import ValueId, alike, combine
from pypto_ir.dtypes import DType
from pypto_ir.stmt import Function, Program, Stmt
from pypto_ir.types import ScalarType, TupleType, Type

#: blocks of a launch are counted in 32 bits
BLOCKS = Fact(DType.INDEX, 1, (1 << 31) - 1)


class FunctionEquations:
    """What the equations know of one function: its names, the place of every statement, its parameters and results."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.root = Place()
        self.names: dict[str, Handle] = {}
        self.params: list[Handle] = []
        self.results: list[Handle] = []
        self.cores: ValueId = -1
        self.entered = Entered(False)
        self._at: dict[int, tuple[Stmt, Place, int]] = {}
        self._bound: dict[ValueId, list[tuple[str, Place, int]]] = {}
        self._homes: dict[str, Place] = {}
        self._clock = 0

    def bind(self, name: str, handle: Handle, place: Place, always: bool = False) -> None:
        """Give a name its value; the name is in view from here on in a place, or `always`."""
        self.names[name] = handle
        self._homes[name] = place
        self._clock += not always
        if isinstance(handle, int):
            self._bound.setdefault(handle, []).append((name, place, 0 if always else self._clock))

    def put(self, s: Stmt, place: Place) -> None:
        """A statement stands in a place, behind what was bound so far."""
        before = self._at.get(id(s))
        if before is None:
            self._at[id(s)] = (s, place, self._clock)
        else:
            self._at[id(s)] = (s, common(before[1], place), min(before[2], self._clock))

    def place(self, s: Stmt | None) -> Place:
        """Where the operands of a statement are read; the whole function for None."""
        return self.root if s is None or id(s) not in self._at else self._at[id(s)][1]

    def innermost(self, names: Iterable[str]) -> Place:
        """The innermost place in which one of these names is bound."""
        found = [self.root, *(self._homes[name] for name in names if name in self._homes)]
        return max(found, key=lambda place: sum(1 for _ in place.around()))

    def name_of(self, value: ValueId, s: Stmt | None) -> str | None:
        """A name of a value that is in view where a statement stands; a parameter for None."""
        found = None if s is None else self._at.get(id(s))
        place, clock = (self.root, 0) if found is None else found[1:]
        around = list(place.around())
        return next((name for name, p, bound in self._bound.get(value, ()) if bound <= clock and any(p is q for q in around)), None)


class Equations:
    """The equations of a program, with the signatures of its functions but not their bodies yet."""

    def __init__(self, program: Program, graph: CallGraph) -> None:
        self.program, self.graph = program, graph
        self.system = System()
        self.functions = {f.name: FunctionEquations(f) for f in program.functions}
        self._joins: dict[ValueId, Join] = {}
        for function in graph.order:
            self._signature(self.functions[function.name])

    def _signature(self, f: FunctionEquations) -> None:
        """Values for the parameters and results of a function, before any call of it is seen."""
        external = f.function.name in self.graph.entries
        self.system.enter(f.root, f.entered)
        f.entered.outside = external
        for param in f.function.params:
            bounded = param.range if external else None
            handle = self._open(param.var.type, param.var.name, f.root, external, bounded)
            f.params.append(handle)
            f.bind(param.var.name, handle, f.root, always=True)
        unknown = f.function.verbatim is not None or f.function.external_source is not None
        f.results = [self._open(t, f"result {i} of {f.function.name}", f.root, unknown) for i, t in enumerate(f.function.returns)]
        cores = Join(DType.INDEX, given=BLOCKS if external else None)
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
            given = make(t.dtype, *_within(t.dtype, *bounded)) if bounded is not None else outside(t.dtype)
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
            if not isinstance(source, int):
                rule.given = join(rule.given, top(rule.dtype))
                return
            arrived, old, new = (self.system.node(source, place), place.reach()), self.system.values[into], self.system.values[source]
            by = combine(new.form, old.form, -1)
            if new.form.coefficient(into) == 1 and alike(new.dtype, old.dtype):
                rule.deeper.append((*arrived, self.system.sums(by, place)))
            else:
                rule.sources.append(arrived)

    def anything(self, t: Type, name: str, place: Place) -> Handle:
        """A value of a type that nothing else is known of."""
        if isinstance(t, TupleType):
            return tuple(self.anything(item, f"{name}[{i}]", place) for i, item in enumerate(t.items))
        return self.system.leaf(t.dtype, name, place, Given(top(t.dtype))) if isinstance(t, ScalarType) else None


def _within(dtype: DType, lo: int, hi: int) -> tuple[int, int]:
    """An interval clipped to a type."""
    least, greatest = bounds(dtype)
    return max(lo, least), min(hi, greatest)


def scalars(handle: Handle) -> Iterable[ValueId]:
    """The scalars of a value."""
    if isinstance(handle, tuple):
        for part in handle:
            yield from scalars(part)
    elif handle is not None:
        yield handle
