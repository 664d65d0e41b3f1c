"""What lies where in a memory while a function runs: statements from left to right, addresses from the bottom up.

Every buffer is a box from its birth to its last use at its address, the line above them the bytes that are live, the dashed line what the
memory holds. A memory that is used by less than a quarter is drawn with a break below that line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from extract.allocate import Allocation
from extract.liveness import Buffer
from extract.target import Target
from pypto_ir.stmt import Function, walk
from pypto_ir.types import Memory
from pypto_ir.verify.places import statement_text

WIDTH, HEIGHT, TOP = 720, 170, 16
#: buffers that are drawn one by one; of more than these only the line of live bytes is
BOXES = 300
#: buffers that are listed
LISTED = 40
_HUES = 6


@dataclass(frozen=True, slots=True)
class BufferRow:
    """A buffer in words: name, bytes with all copies, addresses, the statements that it lives from and to, and its hue."""

    name: str
    bytes: int
    addresses: str
    first: str
    last: str
    hue: int


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """One memory: its picture, its numbers, and its buffers, the largest first; `left_out` are not listed."""

    memory: str
    peak: int
    capacity: int | None
    at: str
    percent: float | None
    picture: Markup
    buffers: list[BufferRow]
    left_out: int
    broken: bool


def memory_maps(function: Function, allocation: Allocation, machine: Target) -> list[MemoryMap]:
    """The maps of all memories that a function uses."""
    statements = [statement_text(s) for s in walk(function.body)]
    return [_map(memory, allocation, machine, statements) for memory in allocation.live.peaks]


def _map(memory: Memory, allocation: Allocation, machine: Target, statements: list[str]) -> MemoryMap:
    peak, capacity = allocation.live.peaks[memory], machine.capacity(memory)
    mine = [(b, at) for b, at in allocation.table() if b.memory is memory]
    top = max([peak.bytes, allocation.extent.get(memory, 0)])
    broken = capacity is not None and top * 4 < capacity
    scale = top * 1.3 if capacity is None or broken else max(capacity, top) * 1.02
    picture = _picture(memory, mine, len(statements), scale, capacity, broken, peak.bytes)
    ordered = sorted(enumerate(mine), key=lambda item: (-item[1][0].total, item[0]))
    rows = [_row(n, b, at, statements) for n, (b, at) in ordered[:LISTED]]
    percent = None if not capacity else round(100 * peak.bytes / capacity, 1)
    at = statements[peak.position] if peak.position < len(statements) else "the end"
    return MemoryMap(memory.value, peak.bytes, capacity, at, percent, picture, rows, max(0, len(mine) - LISTED), broken)


def _row(number: int, b: Buffer, at: tuple[int, ...], statements: list[str]) -> BufferRow:
    def text(position: int) -> str:
        return statements[position] if 0 <= position < len(statements) else "the end" if position > 0 else "the start"

    return BufferRow(b.name, b.total, ", ".join(f"{a:,}" for a in at), text(b.first), text(b.last), number % _HUES)


def _picture(
    memory: Memory, mine: list[tuple[Buffer, tuple[int, ...]]], length: int, scale: float, capacity: int | None, broken: bool, peak: int
) -> Markup:
    step = WIDTH / max(1, length)
    floor = HEIGHT - 1

    def y(size: float) -> float:
        return round(floor - (floor - TOP) * size / scale, 2)

    parts = [Markup('<line class="axis" x1="0" y1="{0}" x2="{1}" y2="{0}"/>').format(floor, WIDTH)]
    if len(mine) <= BOXES:
        for n, (b, at) in enumerate(mine):
            first, last = max(0, b.first), min(length - 1, b.last)
            for address in at:
                x, high = round(first * step, 2), max(1.0, round(y(address) - y(address + b.bytes), 2))
                box = Markup('<rect class="h{0}" x="{1}" y="{2}" width="{3}" height="{4}"><title>{5}</title></rect>')
                title = f"{b.name}: {b.bytes:,} bytes at {address:,}"
                parts.append(box.format(n % _HUES, x, y(address + b.bytes), max(1.0, round((last - first + 1) * step, 2)), high, title))
    points = " ".join(f"{round(p * step, 2)},{y(size)}" for p, size in _steps((b for b, _ in mine), length))
    parts.append(Markup('<polyline class="live" points="{0}"/>').format(points))
    if capacity is not None:
        line = TOP / 2 if broken else y(capacity)
        parts.append(Markup('<line class="capacity" x1="0" y1="{0}" x2="{1}" y2="{0}"/>').format(round(line, 2), WIDTH))
        if broken:
            parts.append(Markup('<path class="break" d="M0 {0} l6 -4 l6 8 l6 -4"/>').format(TOP + 3))
    label = f"{memory.value}: at most {peak:,} bytes live" + (f" of {capacity:,}" if capacity is not None else "")
    inner = Markup("").join(parts)
    return Markup('<svg viewBox="0 0 {0} {1}" role="img" aria-label="{2}" preserveAspectRatio="none">{3}</svg>').format(
        WIDTH, HEIGHT, label, inner
    )


def _steps(buffers: Iterable[Buffer], length: int) -> list[tuple[int, int]]:
    """The corners of the line of live bytes."""
    change: dict[int, int] = {}
    for b in buffers:
        change[max(0, b.first)] = change.get(max(0, b.first), 0) + b.total
        end = min(length, b.last + 1)
        change[end] = change.get(end, 0) - b.total
    points, live = [(0, 0)], 0
    for position in sorted(change):
        points.append((position, live))
        live += change[position]
        points.append((position, live))
    return [*points, (length, live)]
