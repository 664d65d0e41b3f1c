"""What was found out about choices, as conditions on candidates that the choice keeps from then on.

A cut says what a choice with certain candidates, and without certain others, costs beside its model (a copy of 64 KiB in a loop), or that
no such choice can be carried out. A row says what a memory holds at one point: the tiles that are certainly live there may not be larger
than the memory. Both hold for every choice that can be carried out: none that fits is lost, and none is priced too high.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from extract.cycles import Cycles


@dataclass(frozen=True, slots=True)
class Cut:
    """A choice with every candidate of `chosen` and none of `absent` costs `extra` more, region by region; None where it is none."""

    chosen: tuple[int, ...]
    absent: tuple[int, ...]
    extra: tuple[tuple[int, Cycles], ...] | None = None

    def holds(self, members: set[int]) -> bool:
        return members.issuperset(self.chosen) and members.isdisjoint(self.absent)

    @property
    def candidates(self) -> set[int]:
        return {*self.chosen, *self.absent}


@dataclass(frozen=True, slots=True)
class Link:
    """A way in which a tile is needed: `user` is chosen (None: the skeleton reads it anyway), and none of `others`, which it could read
    instead."""

    user: int | None
    others: tuple[int, ...]

    def holds(self, members: set[int]) -> bool:
        return (self.user is None or self.user in members) and members.isdisjoint(self.others)


@dataclass(frozen=True, slots=True)
class Need:
    """The tile of a candidate at the point of a row: its bytes (0 where it lies in a tile that it reads), the readers that keep it live
    there, and the candidates that lie in it, which keep it live where they are live."""

    candidate: int
    size: int
    readers: tuple[Link, ...]
    parts: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A memory at one point: `capacity` bytes; `needs` in an order that has parts before what they lie in."""

    memory: str
    capacity: int
    position: int
    needs: tuple[Need, ...]

    def live(self, members: set[int]) -> set[int]:
        """The chosen candidates whose tiles are certainly live at the point."""
        found: set[int] = set()
        for need in self.needs:
            if need.candidate in members and (
                any(link.holds(members) for link in need.readers)
                or any(link.user in found and link.holds(members) for link in need.parts)
            ):  # fmt: skip
                found.add(need.candidate)
        return found

    def exceeded(self, members: set[int]) -> bool:
        """True where what is certainly live is larger than the memory."""
        live = self.live(members)
        return sum(need.size for need in self.needs if need.candidate in live) > self.capacity

    @property
    def candidates(self) -> set[int]:
        found = {need.candidate for need in self.needs}
        for need in self.needs:
            for link in (*need.readers, *need.parts):
                found.update(link.others if link.user is None else (link.user, *link.others))
        return found


@dataclass(slots=True)
class Conditions:
    """All cuts and rows that were found so far."""

    cuts: list[Cut]
    rows: list[Row]

    def __bool__(self) -> bool:
        """True where there is a condition."""
        return bool(self.cuts or self.rows)

    def allow(self, members: set[int]) -> bool:
        """False where a choice is ruled out."""
        if any(cut.extra is None and cut.holds(members) for cut in self.cuts):
            return False
        return not any(row.exceeded(members) for row in self.rows)

    def extra(self, members: set[int]) -> Iterable[tuple[int, Cycles]]:
        """What a choice costs beside its candidates, region by region."""
        for cut in self.cuts:
            if cut.extra is not None and cut.holds(members):
                yield from cut.extra

    def within(self, members: set[int]) -> Conditions:
        """The conditions on a part of the candidates; no condition may be on several parts."""
        return Conditions(
            [cut for cut in self.cuts if not members.isdisjoint(cut.candidates)],
            [row for row in self.rows if not members.isdisjoint(row.candidates)],
        )
