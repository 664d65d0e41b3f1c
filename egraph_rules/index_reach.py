"""Which places of a program are ever reached.

In the arm of `if n * 0 != 0`, and in the body of `for i in range(0, 0, 16)`, anything holds: what a call hands in there is no source of a
parameter, and a constant that would be no offset is none that is ever used. A place is reached where the place around it is, its loop
runs and its condition can hold; a function is where a call of it is, or where it is called from outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from egraph_rules.index_domain import Fact
from egraph_rules.index_nodes import Facts, NodeId
from pypto_ir.dtypes import DType

_YES = Fact(DType.BOOL, 1, 1, 0, 1)


@dataclass(slots=True)
class Entered:
    """That a function is entered: from outside, or from some place of a call."""

    outside: bool
    places: list[NodeId] = field(default_factory=list)

    @property
    def inputs(self) -> list[NodeId]:
        return self.places

    def evaluate(self, facts: Facts) -> Fact | None:
        return _YES if self.outside or any(facts[n] is not None for n in self.places) else None


@dataclass(frozen=True, slots=True)
class Reached:
    """That a block is entered: the place around it is reached, and what decides it can be: a loop variable has a value (`holds` is None),
    or a condition has this outcome."""

    around: NodeId
    decides: NodeId
    holds: bool | None = None

    @property
    def inputs(self) -> tuple[NodeId, NodeId]:
        return self.around, self.decides

    def evaluate(self, facts: Facts) -> Fact | None:
        found = facts[self.decides]
        if facts[self.around] is None or found is None:
            return None
        return _YES if self.holds is None or found.allows(int(self.holds)) else None
