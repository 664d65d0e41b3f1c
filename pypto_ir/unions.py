"""Names in disjoint groups (union-find): which values lie in one buffer, which accumulators are one chain."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Unions:
    """Groups of names; a group is named after the first side of the first `join` that made it. A name that was never joined is a group of
    its own."""

    root: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> str:
        """The name of a group."""
        top = name
        while self.root.get(top, top) != top:
            top = self.root[top]
        while self.root.get(name, name) != top:
            self.root[name], name = top, self.root[name]
        return top

    def join(self, a: str, b: str) -> None:
        """Make the groups of two names one."""
        x, y = self.of(a), self.of(b)
        if x != y:
            self.root[y] = x
