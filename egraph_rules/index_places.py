"""Places of a function: what each block knows of values beyond their definitions.

In the body of `for c in range(0, n, 16)` holds c <= n - 1, in the arm of `if x > 3` x is at least 4. A scope has the nodes of the values
computed or refined in it, and the relations that hold in it; what it does not have, the scope around it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from egraph_rules.index_bounds import Limit
from egraph_rules.index_values import ValueId

#: the scalar or the tuple of scalars that a name stands for; None for what is no scalar
Handle: TypeAlias = "ValueId | tuple[Handle, ...] | None"


@dataclass(slots=True, eq=False)
class Place:
    """A block of a function, with its outer block. `refines` are values of which more is known here than outside; `reached` is the node
    that has a fact where the block is ever entered, None for that of the outer block."""

    outer: Place | None = None
    nodes: dict[ValueId, int] = field(default_factory=dict)
    limits: dict[ValueId, list[Limit]] = field(default_factory=dict)
    refines: set[ValueId] = field(default_factory=set)
    reached: int | None = None

    def around(self) -> Iterator[Place]:
        """This place and those around it, from the inside out."""
        place: Place | None = self
        while place is not None:
            yield place
            place = place.outer

    def node(self, value: ValueId) -> tuple[int, Place] | None:
        """The innermost node of a value, and where it is."""
        return next(((p.nodes[value], p) for p in self.around() if value in p.nodes), None)

    def reach(self) -> int:
        """The node that has a fact where this place is ever reached."""
        return next(p.reached for p in self.around() if p.reached is not None)

    def limits_of(self, value: ValueId) -> list[Limit]:
        """Every relation of a value that holds here."""
        return [limit for p in self.around() for limit in p.limits.get(value, ())]

    def add_limit(self, value: ValueId, limit: Limit) -> None:
        self.limits.setdefault(value, []).append(limit)


def common(a: Place, b: Place) -> Place:
    """The innermost place that is around both."""
    outside = list(a.around())
    return next(p for p in b.around() if any(p is q for q in outside))
