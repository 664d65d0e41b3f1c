"""Places every tile buffer of a 2-D function at an address, and says why where they do not all fit.

On ascend910b, whose Vec memory gives 188,416 bytes to programs, three FP32 tiles [64, 256] of 65,536 bytes
that are live together take 196,608: M001 names the three and what makes them. Two such tiles and then one of
[64, 128] lie at 0, 65536 and 131072.

The live ranges are those of `extract/liveness.py`; addresses are multiples of `Target.allocation`, and
buffers that live together share no byte. Where the peak fits and no addresses are found, `Overflow.proved`
tells whether there are none or the steps that are allowed did not find them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extract.liveness import Buffer, Liveness, Peak, liveness
from extract.placement import Item, height_of, place
from extract.target import Target
from pypto_ir.diagnostics import Diagnostic, Place, declare
from pypto_ir.stmt import Function, Stmt, walk
from pypto_ir.types import Memory
from pypto_ir.verify.places import statement_text

declare(M001="the tiles that are live together do not fit into a memory of the target")

#: tiles that a diagnostic names
SHOWN = 16


@dataclass(frozen=True, slots=True)
class Overflow:
    """A memory that is too small: bytes it holds, bytes needed, and the worst point. `fragmented` where the
    peak fits and no addresses were found; `proved` where none exist."""

    memory: Memory
    capacity: int
    needed: int
    peak: Peak
    fragmented: bool = False
    proved: bool = True


@dataclass(frozen=True, slots=True)
class Allocation:
    """Addresses in bytes for every copy of every buffer (by birth), the bytes that each memory takes with its
    gaps, and the memories that are too small. Where a memory overflows, its addresses pass its end."""

    live: Liveness
    addresses: tuple[tuple[int, ...], ...]
    extent: Mapping[Memory, int]
    overflows: tuple[Overflow, ...]

    @property
    def fits(self) -> bool:
        return not self.overflows

    @property
    def peak(self) -> dict[Memory, int]:
        """The most bytes that are live together in each memory."""
        return {memory: peak.bytes for memory, peak in self.live.peaks.items()}

    def table(self) -> list[tuple[Buffer, tuple[int, ...]]]:
        """Every buffer with the addresses of its copies."""
        return list(zip(self.live.buffers, self.addresses, strict=True))


def allocate(function: Function, target: Target) -> Allocation:
    """Addresses for the tiles of a function; without a limit (no target, or none for a memory) they are still
    given."""
    live = liveness(function, target)
    addresses: list[tuple[int, ...]] = [()] * len(live.buffers)
    extent: dict[Memory, int] = {}
    overflows = []
    for memory, peak in live.peaks.items():
        unit, capacity = target.allocation(memory), target.capacity(memory)
        mine = [(i, b) for i, b in enumerate(live.buffers) if b.memory is memory]
        items = [Item(b.first, b.last, b.bytes // unit) for _, b in mine for _ in range(b.copies)]
        over = capacity is not None and peak.bytes > capacity
        found = place(items, None if over or capacity is None else capacity // unit)
        spare = iter(found.at)
        for i, b in mine:
            addresses[i] = tuple(next(spare) * unit for _ in range(b.copies))
        extent[memory] = height_of(items, found.at) * unit
        if capacity is not None and over:
            overflows.append(Overflow(memory, capacity, peak.bytes, peak))
        elif capacity is not None and not found.fits:
            overflows.append(Overflow(memory, capacity, extent[memory], peak, True, found.proved))
    return Allocation(live, tuple(addresses), extent, tuple(overflows))


def capacity_faults(function: Function, allocation: Allocation) -> list[Diagnostic]:
    """One diagnostic for each memory that is too small: what it holds, what is needed, and the live tiles at
    the worst point, the largest first."""
    if allocation.fits:
        return []
    statements = list(walk(function.body))
    return [_fault(function, o, statements) for o in allocation.overflows]


def _fault(function: Function, o: Overflow, statements: list[Stmt]) -> Diagnostic:
    at = statements[o.peak.position] if o.peak.position < len(statements) else None
    text = statement_text(at) if at is not None else None
    where = Place(function=function.name, statement=text, loc=at.loc if at is not None else None)
    largest = sorted(o.peak.live, key=lambda b: (-b.total, b.first))
    tiles = ", ".join(map(_tile_text, largest[:SHOWN]))
    if len(largest) > SHOWN:
        rest = largest[SHOWN:]
        tiles += f" and {len(rest)} others ({sum(b.total for b in rest):,} bytes)"
    name = o.memory.value
    if not o.capacity:
        return Diagnostic("M001", f"the target has no memory {name}; it would hold {tiles}", where, "use another memory")
    if o.fragmented:
        why = "no addresses exist at which they do" if o.proved else "no addresses were found at which they do"
        message = (
            f"{name} holds {o.capacity:,} bytes and at most {o.peak.bytes:,} are live together, but {why} "
            f"(at best {o.needed:,} bytes); the most are live here: {tiles}"
        )
    else:
        message = f"{name} holds {o.capacity:,} bytes, and here {o.needed:,} are live together: {tiles}"
    copies = any(b.copies > 1 for b in o.peak.live)
    stages = ", or give the pipelined loop fewer stages" if copies else ""
    help = f"use smaller tiles or split the work, load tiles nearer to their use and again where needed{stages}"
    return Diagnostic("M001", message, where, help)


def _tile_text(b: Buffer) -> str:
    size = f"{b.total:,} bytes" + (f" for {b.copies} stages" if b.copies > 1 else "")
    made = statement_text(b.statement) if b.statement is not None else "a parameter"
    return f"{b.name} ({size}, {made})"
