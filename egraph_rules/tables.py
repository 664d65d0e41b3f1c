"""What an i64 in an e-node stands for: ops with their constant operands, loads, stores, page maps.

Rules see numbers; everything that they do not decide by stays here. The op entry of `b = tile.muls(a, 2.0)` has the template
`(Hole(0), 2.0)`: tile operands are holes that e-classes fill, all else is kept as written.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from egraph_rules.loads import ViewEntry
from pypto_ir.expr import Expr
from pypto_ir.partition import RowBox
from pypto_ir.stmt import Call, Keywords
from pypto_ir.types import Dims, MemRef, TileType

Versions: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Hole:
    """The place of tile operand `number` in a template."""

    number: int


@dataclass(frozen=True, slots=True)
class OpEntry:
    """An op applied to tiles: its other operands, keyword arguments and attributes, the buffer versions that it reads."""

    op: str
    template: tuple[Expr | Hole, ...]
    kwargs: Keywords = ()
    attrs: Keywords = ()
    reads: Versions = ()
    memref: MemRef | None = None


@dataclass(frozen=True, slots=True)
class LoadEntry:
    """A load as the author wrote it, its result type, and the buffer versions that it reads. `order` is given where the axes of the tile
    are in another order than those of the window: axis k of the tile is axis order[k] of the window."""

    call: Call
    type: TileType
    reads: Versions
    order: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """A store statement: `name` is the result (None for a bare statement), `window` the box operand that the flat form needs (None
    where it needs none), `refusal` why there is no box, and `boxes` the several that its rows fill then (empty where they are unknown).
    Where what is stored is one run of rows of the target's 2-D `view`, it may be written through that (None: there is none). `order` is
    given where axis k of the tile goes along another axis of the target, counted from its tile's first."""

    call: Call
    name: str | None
    tile: TileType
    window: Dims | None = None
    refusal: str | None = None
    view: ViewEntry | None = None
    boxes: tuple[RowBox, ...] = ()
    order: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FillEntry:
    """A create or full: `identity` is the statement of a create, and of a full that a loop carries, so that two buffers stay two."""

    call: Call
    type: TileType
    identity: str | None = None


@dataclass(frozen=True, slots=True)
class LeafEntry:
    """A value that the e-graph knows by name; `handover` is the number of the carry or branch result that it comes from, None for a
    value whose form is given."""

    name: str
    type: TileType
    handover: int | None = None


@dataclass(frozen=True, slots=True)
class Handover:
    """A value that control flow hands on in one form: `names` are the carried name and the result of a loop, or the result of a branch;
    `sources` what is handed in: init and yield, or the yields of both arms. Choosing a form of a name obliges every source to have it.
    `alike` tells that all of them have one valid region."""

    names: tuple[str, ...]
    sources: tuple[str, ...]
    alike: bool = False


K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class Table(Generic[K]):
    """Numbers entries in order of first appearance; equal entries have one number."""

    items: list[K] = field(default_factory=list)
    _numbers: dict[K, int] = field(default_factory=dict)

    def number(self, item: K) -> int:
        found = self._numbers.get(item)
        if found is None:
            found = self._numbers[item] = len(self.items)
            self.items.append(item)
        return found

    def __getitem__(self, number: int) -> K:
        return self.items[number]

    def __len__(self) -> int:
        return len(self.items)


@dataclass(slots=True)
class Tables:
    """All tables of one function."""

    ops: Table[OpEntry] = field(default_factory=Table)
    loads: Table[LoadEntry] = field(default_factory=Table)
    stores: Table[StoreEntry] = field(default_factory=Table)
    fills: Table[FillEntry] = field(default_factory=Table)
    leaves: Table[LeafEntry] = field(default_factory=Table)
    windows: Table[Hashable] = field(default_factory=Table)
    pages: Table[tuple[int, ...]] = field(default_factory=Table)
    positions: Table[Expr] = field(default_factory=Table)
    regions: Table[Dims] = field(default_factory=Table)
    views: Table[ViewEntry] = field(default_factory=Table)
    kinds: Table[TileType] = field(default_factory=Table)
