"""Prices of moving data: loads, stores, drains of accumulators and copies between memories
(`spec/hardware.md` 1.3, 2.2).

Loading [128, 256] of FP16 into L1 is 65,536 bytes at 78.35 bytes a cycle: 836 cycles on MTE2. Storing an
accumulator [16, 256] of FP32 on ascend910b is 164 + 16 * 1024 / 118 = 303 cycles on FIX. A move that the
memory graph does not have takes the shortest way round: on ascend910b an accumulator reaches Vec through
global memory, a drain and a load.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from extract.cycles import ZERO, Cycles, on_pipe
from extract.extent import Extent
from extract.target import Target
from pypto_ir.types import Memory


class Cost(NamedTuple):
    """The price of one op: cycles per pipe, and the bytes that it moves through each channel (`DDR->Vec`)."""

    cycles: Cycles
    traffic: tuple[tuple[str, int], ...] = ()


def together(costs: Iterable[Cost]) -> Cost:
    """The price of several instructions."""
    cycles, traffic = ZERO, dict[str, int]()
    for cost in costs:
        cycles = cycles + cost.cycles
        for channel, size in cost.traffic:
            traffic[channel] = traffic.get(channel, 0) + size
    return Cost(cycles, tuple(traffic.items()))


def times(count: int, cost: Cost) -> Cost:
    """The price of `count` equal instructions."""
    return Cost(cost.cycles * count, tuple((channel, size * count) for channel, size in cost.traffic))


def instruction(pipe: str, cycles: float, target: Target) -> Cost:
    """One instruction: its cycles on its pipe and its issue on S."""
    return Cost(on_pipe(pipe, cycles, target.issue[pipe]))


def scalar(count: float = 1.0) -> Cost:
    """`count` scalar instructions: a view, a branch, an address."""
    return Cost(Cycles(s=float(count)))


def fallback(pipe: str, elements: int, target: Target) -> Cost:
    """The price of an instruction of which nothing is known (`spec/hardware.md` 3, last line of the
    overheads)."""
    fixed, rate = target.fallback[pipe]
    return instruction(pipe, fixed + elements / rate, target)


def transfer(source: Memory, to: Memory, tile: Extent, target: Target) -> Cost:
    """The price of moving a tile from one memory to another, by the shortest way that the machine has.

    Where there is none, as for anything into an accumulator, the price of an unknown instruction on FIX.
    """
    if source is Memory.VEC and to is Memory.VEC:
        return vector_copy(tile, target, whole_rows=tile.valid_cols == tile.cols)
    route = target.route(source, to)
    if route is None:
        return fallback("FIX", tile.elements, target)
    return together(_hop(a, b, tile, target) for a, b in route)


def _hop(source: Memory, to: Memory, tile: Extent, target: Target) -> Cost:
    channel = target.channels[source, to]
    size = tile.valid_bytes
    if source is Memory.ACC:
        cycles = drain(tile, target) if to is Memory.DDR else _take_out(tile, to, target)
    else:
        if to in (Memory.LEFT, Memory.RIGHT):
            size = fractal_bytes(tile, to)
        elif to is Memory.MAT and not tile.boxed:
            size = tile.valid_rows * ceil(tile.row_bytes / 32) * 32
        cycles = size / channel.bytes_per_cycle
    priced = instruction(channel.pipe, cycles, target)
    return Cost(priced.cycles, ((f"{source.value}->{to.value}", size),))


def drain(tile: Extent, target: Target) -> float:
    """Cycles of storing the valid region of an accumulator (`spec/hardware.md` 2.2, FIXPIPE drain)."""
    d = target.drain
    row = tile.row_bytes
    units = ceil(row / 32)
    odd = units // (units & -units) if units else 1
    return d.fixed + tile.valid_rows * (max(d.row_floor, row / d.bandwidth) + d.odd_penalty * (odd - 1))


def _take_out(tile: Extent, to: Memory, target: Target) -> float:
    """Cycles of moving an accumulator on chip: all physical rows, columns in whole fractals."""
    channel = target.channels[Memory.ACC, to]
    size = tile.rows * ceil(tile.valid_cols / 16) * 16 * (channel.element_bytes or tile.size)
    return target.drain.fixed + size / channel.bytes_per_cycle


def fractal_bytes(tile: Extent, to: Memory) -> int:
    """Bytes of a matmul operand in whole fractals: 16 rows of 32 bytes for Left, 32 bytes of rows by 16
    columns for Right."""
    box = int(32 / tile.size)
    tall, wide = (16, box) if to is Memory.LEFT else (box, 16)
    rows = ceil(tile.valid_height / tall) * tall
    return int(tile.valid_pages * rows * ceil(tile.valid_cols / wide) * wide * tile.size)


def vector_copy(tile: Extent, target: Target, whole_rows: bool) -> Cost:
    """The price of a copy within UB: one run where whole rows are copied, else a piece per row of at least a
    cycle."""
    rate = target.channels[Memory.VEC, Memory.VEC].bytes_per_cycle
    cycles = tile.valid_bytes / rate if whole_rows or tile.valid_rows <= 1 else tile.valid_rows * max(1.0, tile.row_bytes / rate)
    priced = instruction("V", cycles, target)
    return Cost(priced.cycles, (("Vec->Vec", tile.valid_bytes),))


def fill_mat(tile: Extent, target: Target) -> Cost:
    """The price of filling the physical region of a tile in L1."""
    return instruction(target.mat_fill.pipe, tile.elements * tile.size / target.mat_fill.bytes_per_cycle, target)
