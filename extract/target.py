"""Targets: what a machine can hold, how its memories are joined and what its instructions cost.

A target is data, `extract/targets/<name>.json`, where every number stands beside its unit and its source.
`ascend910b` says, for example, that DDR to Vec moves 100.9 GiB/s on pipe MTE2; at 1.85 GHz that is 58.56
bytes a cycle, so a [128, 256] tile of FP16 (65,536 bytes) takes 1119 cycles to load.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pypto_ir.acc_reads import AccReads
from pypto_ir.diagnostics import Diagnostic, Place, Refused, declare
from pypto_ir.dtypes import DType
from pypto_ir.types import Memory

declare(
    U301="no target of this name, or its file cannot be read",
    U302="a target file is not JSON",
    U303="a target file has a missing, unknown or ill-formed entry",
)

_FOLDER = Path(__file__).with_name("targets")

#: the pipes of a block (`spec/hardware.md` 3); MTE2 stands for those of the cube core and the vector core
PIPES = ("MTE2", "MTE1", "M", "FIX", "V", "MTE3", "S")

#: the families of vector instructions that a target prices
VECTOR_FAMILIES = (
    "add", "mul", "div", "exp", "sqrt", "rsqrt", "log", "recip", "adds", "muls", "mins", "divs", "lrelu",
    "abs", "fill", "copy", "logic", "compare", "select", "cast", "widen", "gather",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Store:
    """A memory of one core, sizes in bytes: `capacity` None means unlimited, `alignment` is the hard one of
    addresses, `allocation` what buffers are rounded up to."""

    capacity: int | None
    alignment: int
    allocation: int
    source: str


@dataclass(frozen=True, slots=True)
class Channel:
    """A direct move between two memories. `bytes_per_cycle` counts `element_bytes` per element where given,
    else the bytes of the valid region."""

    pipe: str
    bytes_per_cycle: float
    element_bytes: int | None
    source: str


@dataclass(frozen=True, slots=True)
class Cube:
    """Cycles of a matmul: `fixed + fractals * fractal` (`fractal_fp32` where the left operand is FP32)."""

    fixed: float
    fractal: float
    fractal_fp32: float
    source: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Cycles of storing an accumulator of m rows: `fixed + m * (max(row_floor, row bytes / bandwidth) +
    odd_penalty * (odd - 1))`, where `odd` is the odd part of the row's number of 32-byte units."""

    fixed: float
    row_floor: float
    bandwidth: float
    odd_penalty: float
    source: str


@dataclass(frozen=True, slots=True)
class Family:
    """Cycles of a family of vector instructions.

    `slope * repeats` for contiguous tiles, `(row_slope * repeats of a row + row_fixed) * rows` for strided
    ones; `by_row`: always the latter. `startup` and `row_startup` are paid by the first instruction of a
    stream and are no part of a price. `half_*` hold for 2-byte floats, `precise_slope` for the high-precision
    form.
    """

    startup: float
    slope: float
    row_slope: float
    row_fixed: float
    row_startup: float
    half_slope: float
    half_row_slope: float
    precise_slope: float
    by_row: bool
    source: str


@dataclass(frozen=True, slots=True)
class Steps:
    """Cycles per row by the bytes of a row: the first step that is wide enough, then `beyond` for every
    further 256 bytes."""

    startup: float
    steps: tuple[tuple[int, float], ...]
    beyond: float
    source: str

    def per_row(self, row_bytes: float) -> float:
        for limit, value in self.steps:
            if row_bytes <= limit:
                return value
        limit, value = self.steps[-1]
        return value + self.beyond * -(-(row_bytes - limit) // 256)


@dataclass(frozen=True, slots=True)
class Transpose:
    """Cycles of a transpose in UB: `X * (column + block * Y) + fixed + bytes / (Vec to Vec bandwidth)`, X
    32-byte columns, Y blocks of 16 rows."""

    fixed: float
    column: float
    block: float
    source: str


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """`repeat_bytes` are handled by one repeat; with `narrow_rows` a tile narrower than that takes one repeat
    per row; `ragged_startup` is added to the startup of a stream where a row is no whole number of
    repeats."""

    repeat_bytes: int
    narrow_rows: bool
    ragged_startup: float
    families: Mapping[str, Family]
    row_reduce: Steps
    col_reduce: Steps
    row_expand: Steps
    row_broadcast: float
    transpose: Transpose


@dataclass(frozen=True, slots=True)
class Code:
    """What static code costs a run: `cached` instructions stay in the instruction cache from run to run, each
    one beyond them is fetched anew in `fetch` cycles."""

    cached: int
    fetch: float
    source: str

    def cost(self, instructions: float) -> float:
        """Cycles that so many instructions take to fetch."""
        return self.fetch * max(0.0, instructions - self.cached)


#: code without a price
FREE_CODE = Code(0, 0.0, "no target")


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A machine. Compared by identity: load a target once, and derive variants with `dataclasses.replace`.

    `name` None is the machine of a program that states no target: the numbers of `ascend910b`, capacities
    without limit, code without a price. `issue` are cycles of pipe S per instruction on each pipe; `fallback` maps a pipe to (fixed
    cycles, elements per cycle).
    """

    name: str | None
    title: str
    clock_ghz: float
    cube_cores: int
    vector_cores: int
    memories: Mapping[Memory, Store]
    acc_rows: Mapping[DType | None, int]
    acc_reads: AccReads
    channels: Mapping[tuple[Memory, Memory], Channel]
    mat_fill: Channel
    issue: Mapping[str, float]
    cube: Cube
    drain: Drain
    vector: VectorUnit
    fallback: Mapping[str, tuple[float, float]]
    code: Code

    def capacity(self, memory: Memory) -> int | None:
        """Bytes that a memory holds: None without limit, 0 where the machine does not have it."""
        store = self.memories.get(memory)
        if store is not None:
            return store.capacity
        return None if self.name is None or memory is Memory.DDR else 0

    def alignment(self, memory: Memory) -> int:
        """The alignment in bytes that an address in `memory` must have."""
        store = self.memories.get(memory)
        return store.alignment if store else 1

    def allocation(self, memory: Memory) -> int:
        """What the size of a buffer in `memory` is rounded up to, in bytes."""
        store = self.memories.get(memory)
        return store.allocation if store else 1

    def acc_row_alignment(self, dtype: DType) -> int:
        """What the physical rows of an accumulator are rounded up to."""
        return self.acc_rows.get(dtype, self.acc_rows[None])

    def can_move(self, source: Memory, to: Memory) -> bool:
        """True where one instruction moves data from `source` to `to`."""
        return (source, to) in self.channels

    def route(self, source: Memory, to: Memory) -> tuple[tuple[Memory, Memory], ...] | None:
        """The fewest direct moves from `source` to `to` (at least one; among equals the first in the target's
        order), or None."""
        return _route(self, source, to)


@cache
def _route(target: Target, source: Memory, to: Memory) -> tuple[tuple[Memory, Memory], ...] | None:
    queue: deque[tuple[Memory, tuple[tuple[Memory, Memory], ...]]] = deque([(source, ())])
    seen: set[Memory] = set()
    while queue:
        at, hops = queue.popleft()
        for a, b in target.channels:
            if a is not at or b in seen or (a is b and b is not to):
                continue
            if b is to:
                return (*hops, (a, b))
            seen.add(b)
            queue.append((b, (*hops, (a, b))))
    return None


def targets() -> tuple[str, ...]:
    """The names of the built-in targets."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))


def load_target(name_or_path: str | Path | None) -> Target:
    """The target of a name (`ascend910b`), of a user's own file (a path that ends in `.json`), or of a
    program without one.

    None gives the numbers of `ascend910b` with unlimited capacities and name None. Raises `Refused` with
    every finding at once: U301 unknown name or unreadable file, U302 not JSON, U303 entries that are missing,
    unknown or ill-formed.
    """
    if name_or_path is None:
        return _without_limits()
    text = str(name_or_path)
    if not text.endswith(".json"):
        if text not in targets():
            known = ", ".join(targets())
            raise Refused(
                [
                    Diagnostic(
                        "U301",
                        f"no target is called {text!r}",
                        help=f"use one of {known}, or the path of a .json file",
                    )
                ]
            )
        return _built_in(text)
    return _read(Path(text))


def source_of(name_or_path: str) -> str:
    """The text of a target's file, for a target that `load_target` knows."""
    path = Path(name_or_path) if name_or_path.endswith(".json") else _FOLDER / f"{name_or_path}.json"
    return path.read_text(encoding="utf-8")


@cache
def _built_in(name: str) -> Target:
    return _read(_FOLDER / f"{name}.json")


@cache
def _without_limits() -> Target:
    base = _built_in("ascend910b")
    unlimited = {memory: replace(store, capacity=None) for memory, store in base.memories.items()}
    return replace(base, name=None, title=f"no target (prices of {base.title}, no limits)", memories=unlimited, code=FREE_CODE)


def _read(path: Path) -> Target:
    from extract.target_file import parse_target

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Refused([Diagnostic("U301", f"the target file cannot be read: {reason}", Place(str(path)))]) from None
    return parse_target(text, str(path))
