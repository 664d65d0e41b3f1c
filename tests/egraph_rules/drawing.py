"""What generated instances draw from: ranks, shapes, dtypes, valid regions, ops.

Instance number n of a rule has rank 3 + n % 3 and draws all else from a generator seeded by the rule's name
and n, so that an instance is the same in every run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod

from building import Build, Shape, sizes

from pypto_ir.dtypes import DType
from pypto_ir.expr import Expr, Var
from pypto_ir.stmt import Function
from pypto_ir.types import TileType

#: instances of each rule
INSTANCES = 10
FLOATS = (DType.FP32, DType.FP16, DType.BF16)
ALL = (*FLOATS, DType.INT32, DType.INT16)

BINARY = ("tile.add", "tile.sub", "tile.mul", "tile.maximum", "tile.minimum")
UNARY = ("tile.neg", "tile.abs", "tile.relu", "tile.exp")
ROW_EXPAND = ("tile.row_expand_sub", "tile.row_expand_mul", "tile.row_expand_max", "tile.row_expand")
COL_EXPAND = ("tile.col_expand_add", "tile.col_expand_mul", "tile.col_expand_min", "tile.col_expand")


class Draw:
    """The choices of one instance."""

    def __init__(self, name: str, number: int) -> None:
        self.random = random.Random(f"{name} {number}")
        self.number, self.rank = number, 3 + number % 3

    def dtype(self, options: tuple[DType, ...] = ALL) -> DType:
        return options[(self.number + self.random.randrange(2)) % len(options)]

    def batch(self, rank: int | None = None) -> Shape:
        """Dims before the page, of 2 to 12 pages."""
        count = (self.rank if rank is None else rank) - 2
        while True:
            found = tuple(self.random.choice((1, 2, 2, 3)) for _ in range(count))
            if 1 < prod(found) <= 12:
                return found

    def page(self) -> Shape:
        """A page whose cells are whole 32-byte blocks in every dtype."""
        return (self.random.choice((2, 4, 6)), self.random.choice((8, 16)))

    def shape(self) -> Shape:
        return (*self.batch(), *self.page())

    def rows_valid(self, b: Build, shape: Shape) -> tuple[int | Expr, ...]:
        """A valid region that is a run of rows of the collapse: full, [1, v, C], or cut columns."""
        kind = self.random.choice(("full", "full", "rows", "v", "columns", "both"))
        rows, cols = shape[-2:]
        first = (1,) * (len(shape) - 2)
        match kind:
            case "rows":
                return (*first, self.random.randint(1, rows), cols)
            case "v":
                return (*first, b.scalar("v", 1, rows), cols)
            case "columns":
                return (*shape[:-1], cols - 3)
            case "both":
                return (*first, rows - 1, cols - 1)
        return shape

    def page_valid(self, b: Build, shape: Shape) -> tuple[int | Expr, ...]:
        """A valid region that is the same in every page: full, cut rows, or cut columns."""
        rows, cols = shape[-2:]
        match self.random.choice(("full", "full", "rows", "v", "columns")):
            case "rows":
                return (*shape[:-2], rows - 1, cols)
            case "v":
                return (*shape[:-2], b.scalar("v", 1, rows), cols)
            case "columns":
                return (*shape[:-1], cols - 3)
        return shape

    def pointwise(self, b: Build, name: str, x: Var) -> Var:
        """A pointwise op of one tile."""
        assert isinstance(x.type, TileType)
        op = self.random.choice(UNARY[:3] if x.type.dtype in (DType.INT32, DType.INT16) else UNARY)
        return b.let(name, op, x)


def scratch_like(b: Build, name: str, x: Var) -> Var:
    """A scratch tile of the shape and dtype of another tile."""
    assert isinstance(x.type, TileType)
    return b.create(name, sizes(x.type), x.type.dtype)


Generator = Callable[[Draw], Function]


def instances(name: str, generator: Generator) -> list[Function]:
    return [generator(Draw(name, number)) for number in range(INSTANCES)]
