"""A function under construction: names, visible values, statements, and draws that keep indices in bounds.

Scalars are known with bounds: a loop variable of `for i in range(0, 6, 2)` is between 0 and 4, so `i` is an
offset of a window of 4 rows in 8, and `min(i, 3)` one of a window of 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Expr, MakeTuple, Var, index
from pypto_ir.ops.registry import OpError
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import Assign, Call, Eval, Param, Stmt
from pypto_ir.types import Memory, ScalarType, TensorType, TileType, Type, scalar_var

T = TypeVar("T")
Shape = tuple[int, ...]
FLOATS = (DType.FP32, DType.FP16, DType.BF16)
INTS = (DType.INT32, DType.INT16, DType.INT8)
#: most elements of a tile: programs stay small, so that many of them run
MOST = 1024


class Source(Protocol):
    """Where draws come from."""

    def randrange(self, stop: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class Bounded:
    """An INDEX scalar with the bounds of its value, both included."""

    var: Var
    low: int
    high: int


@dataclass(slots=True)
class Frame:
    """What one block adds: statements, tiles, scalars, bounded scalars, the current name of each tensor."""

    block: list[Stmt] = field(default_factory=list)
    tiles: list[Var] = field(default_factory=list)
    scalars: list[Var] = field(default_factory=list)
    bounded: list[Bounded] = field(default_factory=list)
    current: dict[str, Var] = field(default_factory=dict)


class Builder:
    """One function under construction; `size` is the number of statements that it still should get."""

    def __init__(self, source: Source, size: int) -> None:
        self.source, self.size = source, size
        self.params: list[Param] = []
        self.frames = [Frame()]
        self.hidden: set[str] = set()
        self.used: set[str] = set()
        self.loops = 0
        self._count = 0

    # ---- draws ---------------------------------------------------------------------------------------------

    def below(self, stop: int) -> int:
        return int(self.source.randrange(stop)) if stop > 1 else 0

    def chance(self, percent: int) -> bool:
        """True in `percent` of the draws; the smallest draw is False."""
        return self.below(100) >= 100 - percent

    def choose(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def recent(self, items: Sequence[T]) -> T:
        """One of the items, the last ones more often."""
        return self.choose(items[-4:][::-1] if not self.chance(30) else items)

    # ---- names and statements ------------------------------------------------------------------------------

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def emit(self, s: Stmt) -> None:
        self.frames[-1].block.append(s)

    def call(self, op: str, args: Sequence[Expr | tuple[Any, ...]], prefix: str = "t", **kwargs: Any) -> Var | None:
        """Add `v = op(args)`; None, and no statement, where the type rule refuses the operands."""
        exprs = tuple(_operand(a) for a in args)
        call = Call(op, exprs, tuple(kwargs.items()))
        try:
            t = infer_call(call)
        except OpError:
            return None
        var = Var(self.fresh(prefix), t)
        self.emit(Assign((var,), call))
        for e in exprs:
            if isinstance(e, Var):
                self.used.add(e.name)
        self.define(var)
        return var

    def effect(self, op: str, args: Sequence[Expr | tuple[Any, ...]], **kwargs: Any) -> bool:
        """Add a call for its effect; False where the type rule refuses it."""
        call = Call(op, tuple(_operand(a) for a in args), tuple(kwargs.items()))
        try:
            infer_call(call)
        except OpError:
            return False
        self.emit(Eval(call))
        self.used.update(e.name for e in call.args if isinstance(e, Var))
        return True

    def define(self, var: Var) -> None:
        """Make a value visible from here to the end of the block."""
        if isinstance(var.type, TileType):
            self.frames[-1].tiles.append(var)
        elif isinstance(var.type, ScalarType):
            self.frames[-1].scalars.append(var)

    @contextmanager
    def block(self) -> Iterator[Frame]:
        """A nested block; what it defines is out of view afterwards."""
        frame = Frame(current=dict(self.frames[-1].current))
        self.frames.append(frame)
        try:
            yield frame
        finally:
            self.frames.pop()

    # ---- visible values ------------------------------------------------------------------------------------

    def tiles(self, accept: Callable[[TileType], bool] = lambda t: True, memory: Memory = Memory.VEC) -> list[Var]:
        return [
            v for frame in self.frames for v in frame.tiles
            if v.name not in self.hidden and v.type.memory is memory and accept(v.type)  # type: ignore[union-attr]
        ]  # fmt: skip

    def hide(self, var: Var) -> None:
        """Let a value not be drawn any more, such as one that was overwritten."""
        self.hidden.add(var.name)

    def bounded(self) -> list[Bounded]:
        return [b for frame in self.frames for b in frame.bounded]

    def scalars(self, dtype: DType) -> list[Var]:
        return [v for frame in self.frames for v in frame.scalars if v.type == ScalarType(dtype)]

    def parameter(self, t: Type, prefix: str, direction: str = "In", bounds: tuple[int, int] | None = None) -> Var:
        var = Var(self.fresh(prefix), t)
        self.params.append(Param(var, direction, bounds))
        if isinstance(t, TensorType) and direction != "In":
            for frame in self.frames:
                frame.current[var.name] = var
        return var

    def count(self, low: int, high: int) -> Bounded:
        """A scalar parameter between the bounds."""
        own = {p.var.name for p in self.params}
        known = [b for b in self.frames[0].bounded if b.var.name in own and low <= b.low and b.high <= high]
        if known and self.chance(50):
            return self.choose(known)
        b = Bounded(scalar_var(self.fresh("n")), low, high)
        self.params.append(Param(b.var, "In", (low, high)))
        self.frames[0].bounded.append(b)
        return b

    # ---- index expressions ---------------------------------------------------------------------------------

    def offset(self, limit: int) -> Expr:
        """An expression whose value is in 0..limit."""
        if limit <= 0:
            return index(0)
        fitting = [b for b in self.bounded() if b.low >= 0]
        if fitting and self.chance(55):
            b = self.recent(fitting)
            if b.high > limit:
                return Binary("min", b.var, index(limit))
            step = limit // b.high if b.high > 0 else 1
            if step > 1 and self.chance(70):
                return Binary("mul", b.var, index(step))
            if b.high < limit and self.chance(30):
                return Binary("add", b.var, index(1 + self.below(limit - b.high)))
            return b.var
        return index(self.below(limit + 1)) if self.chance(50) else index(0)

    def extent(self, limit: int, signature: bool = False) -> Expr:
        """An expression whose value is in 0..limit, for a valid extent; mostly at least 1. In a signature it
        names parameters only."""
        if self.chance(45):
            inner = [b for b in self.frames[-1].bounded if b.low >= 0 and not signature]
            if inner and self.chance(40):
                return Binary("min", Binary("add", self.choose(inner).var, index(1)), index(limit))
            return self.count(0 if self.chance(20) else 1, limit).var
        return index(limit - self.below(limit))

    def constant(self, dtype: DType) -> Expr:
        """A scalar operand for a tile of `dtype`: a constant, or a scalar that was read."""
        known = self.scalars(dtype)
        if known and self.chance(40):
            return self.recent(known)
        if dtype.is_float:
            return Const(self.choose((2.0, 0.5, -1.0, 1.5, 3.0)), dtype if self.chance(70) else DType.FP32)
        return Const(self.choose((2, 1, 3, 5)), dtype)

    # ---- shapes --------------------------------------------------------------------------------------------

    def shape(self, rank: int | None = None) -> Shape:
        """Dims of a tile, at most `MOST` elements in all, the last dim mostly of whole 32-byte blocks."""
        rank = rank if rank is not None else self.choose((3, 2, 4, 3, 2, 5, 4, 1))
        last = self.choose((8, 16, 8, 16, 32, 4, 3, 1))
        dims = [last]
        room = MOST // last
        for _ in range(rank - 1):
            d = self.choose([n for n in (2, 1, 4, 3, 8, 16) if n <= room])
            room //= d
            dims.insert(0, d)
        return tuple(dims)

    def dtype(self) -> DType:
        return self.choose((DType.FP32, DType.FP32, DType.FP16, DType.BF16, DType.INT32, DType.INT16, DType.INT8))


def ints(dims: Sequence[Expr]) -> Shape | None:
    """Dims as integers, or None where one is not constant."""
    values = [int(d.value) for d in dims if isinstance(d, Const)]
    return tuple(values) if len(values) == len(dims) else None


def shape_of(var: Var) -> Shape:
    """The static shape of a tile or tensor."""
    found = ints(var.type.shape)  # type: ignore[union-attr]
    assert found is not None, "generated shapes are static"
    return found


def tile(var: Var) -> TileType:
    assert isinstance(var.type, TileType)
    return var.type


def _operand(a: Expr | tuple[Any, ...]) -> Expr:
    if isinstance(a, tuple):
        return MakeTuple(tuple(index(i) if isinstance(i, int) else i for i in a))
    return index(a) if isinstance(a, int) else a
