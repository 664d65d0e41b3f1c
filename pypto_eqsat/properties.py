"""What a pass asks of a program, what it gives, and what it takes away.

A pipeline reads these to order passes and to decide which verifiers run in between: flattening asks for a
program in SSA form whose in-core functions hold tile ops, and gives one in which every tile of an in-core
function has two dims (`spec/flatten.md` sections 0 and 12). Nothing that held before is lost by it, so a
pipeline with {SSAForm, IncoreTileOps, NormalizedStmtStructure} has TileOps2D beside these three afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PassProperties:
    """The contract of a pass, in names of properties: `required` before it, `produced` by it, `invalidated`
    by it (what holds before and may not hold afterwards)."""

    name: str
    required: tuple[str, ...]
    produced: tuple[str, ...]
    invalidated: tuple[str, ...] = ()

    def missing(self, holding: Iterable[str]) -> tuple[str, ...]:
        """The required properties that are not among `holding`, in order of declaration."""
        found = frozenset(holding)
        return tuple(p for p in self.required if p not in found)

    def after(self, holding: Iterable[str]) -> tuple[str, ...]:
        """The properties that hold after the pass where `holding` held before: those that it keeps, in the
        order given, then those that it adds."""
        kept = [p for p in dict.fromkeys(holding) if p not in self.invalidated]
        return (*kept, *(p for p in self.produced if p not in kept))


#: the first stage of `pypto_eqsat.optimize` as a pass
FLATTEN = PassProperties(
    name="FlattenTileNdTo2D",
    required=("SSAForm", "IncoreTileOps", "NormalizedStmtStructure"),
    produced=("SSAForm", "TileOps2D", "NormalizedStmtStructure"),
)

#: its second stage, MX scales in physical form
BLOCK_MX = PassProperties(
    name="BlockMxScaleTensorViews",
    required=("SSAForm", "IncoreTileOps", "TileOps2D", "NormalizedStmtStructure"),
    produced=("SSAForm", "TileOps2D", "NormalizedStmtStructure"),
)
