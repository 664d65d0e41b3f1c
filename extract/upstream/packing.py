"""Which accumulators are packed by columns, decided once over a whole function (`spec/flatten.md` section 8).

The matrix unit writes an [M, N] product without gaps, so that a row window of a tile with more than 16 columns is no destination. Two
pages [16, 64] of an accumulator therefore become one tile [16, 128] with page b at columns b * 64; and 16-row windows of a [64, 32]
accumulator become windows of [16, 128], the window at row r at columns r // 16 * 32. A chain of values is packed as a whole or not at
all; why it cannot be is an error, but for narrow batches, whose row windows can be addressed as they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, MakeTuple, const_int, index
from pypto_ir.regions import add_index, mul_index
from pypto_ir.stmt import Call
from pypto_ir.types import Dims, Memory, dims


@dataclass(frozen=True, slots=True)
class Packing:
    """How a chain is packed: `batch` pages of `rows` x `cols` side by side; `shape` is that of its values before, and with `row_windows`
    a page is a window of rows of it."""

    batch: tuple[int, ...]
    rows: int
    cols: int
    dtype: DType
    shape: tuple[int, ...]
    row_windows: bool = False

    @property
    def pages(self) -> int:
        return prod(self.batch)

    def create(self, loc: str | None) -> Call:
        """The packed accumulator."""
        shape = MakeTuple(dims(self.rows, self.pages * self.cols))
        return Call("tile.create", (shape,), (("dtype", self.dtype.value), ("target_memory", Memory.ACC.value)), loc=loc)

    def window_at(self, offset: Dims) -> MakeTuple:
        """Where the window at a row and a column of the accumulator lies in the packed one: [16, 0] of 16-row windows of 32 columns is
        [0, 32]. A row that is not constant is divided as it is written, since fixed-width arithmetic does not reassociate."""
        row, column = offset
        value = const_int(row)
        page: Expr = Binary("floordiv", row, index(self.rows)) if value is None else index(value // self.rows)
        return MakeTuple((index(0), add_index(mul_index(page, index(self.cols)), column)))
