"""Global memory: buffers that come into being page by page, and tensors as strided views of them.

A buffer of up to 65,536 elements is one page; a larger one has pages of 4096 elements, made from a hash when
they are first touched (`pypto_ir.interp.fill`), so reading a window [16, 512] of a weight [32, 2048, 4096]
makes 16 pages, not 256 MiB. Every cell knows whether it is defined and whether it was written: storing an
undefined cell makes memory undefined there.

A tensor with shape [4, 8] and no strides has element (2, 3) at 2 * 8 + 3 = 19; with layout DN it is at 3 * 4
+ 2 = 14. NZ is addressed by its logical row-major index: what a program computes does not depend on where the
cells lie. Scales (MX_A_ZZ, MX_B_NN) are packed bytes: cell (37, 3) of a logical MX_A_ZZ tensor [64, 4] is at
byte 171, where the blocked tensor [1, 4, 2, 16, 2] of the same memory has its cell (0, 2, 1, 5, 1), and where a
view as ND finds it (`pypto_ir.scale_boxes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from pypto_ir.dtypes import DType
from pypto_ir.interp.fill import generate
from pypto_ir.interp.values import RunError, numpy_dtype
from pypto_ir.lazy import np
from pypto_ir.scale_boxes import BLOCKED_RANK, MX_LAYOUTS, blocked_shape, logical_shape
from pypto_ir.scale_boxes import strides as box_strides
from pypto_ir.types import Layout

#: buffers up to this many elements are one page
DENSE = 65_536
#: elements of a page of a larger buffer
PAGE = 4096
#: most elements of one buffer that may come into being in a run
RESIDENT_LIMIT = 1 << 28
#: most pages that a buffer may have (2**40 elements)
PAGE_LIMIT = 1 << 28


class Buffer:
    """A flat store of `size` elements; with `fill` None its cells start undefined, else with `generate(..,
    seed, name, fill)`.
    """

    __slots__ = (
        "_data",
        "_ok",
        "_slots",
        "_used",
        "_written",
        "all_ok",
        "dtype",
        "fill",
        "name",
        "page_size",
        "seed",
        "size",
    )

    def __init__(self, name: str, size: int, dtype: DType, *, seed: int = 0, fill: str | None = "small") -> None:
        self.name, self.size, self.dtype, self.seed, self.fill = name, size, dtype, seed, fill
        self.page_size = max(size, 1) if size <= DENSE else PAGE
        pages = -(-size // self.page_size)
        if pages > PAGE_LIMIT:
            raise RunError(f"buffer {name} of {size} elements is too large to address", "R009")
        self._slots = np.zeros(max(pages, 1), dtype=np.int32)
        self._used = 0
        self.all_ok = fill is not None
        self._data = np.empty((0, self.page_size), dtype=numpy_dtype(dtype))
        self._ok = np.empty((0, self.page_size), dtype=bool)
        self._written = np.empty((0, self.page_size), dtype=bool)

    @property
    def dense(self) -> bool:
        """True where the whole buffer is one page."""
        return self.size <= DENSE

    @property
    def resident(self) -> int:
        """Elements that have come into being."""
        return int(self._used) * self.page_size

    def arrays(self) -> tuple[Any, Any, Any]:
        """Data, definedness and written marks of a dense buffer, flat and shared."""
        if not self._used:
            self._touch(np.zeros(1, dtype=np.int64))
        return self._data[0], self._ok[0], self._written[0]

    def gather(self, addresses: Any) -> tuple[Any, Any]:
        """Data and definedness of the cells at flat `addresses`, in the shape of `addresses`."""
        row, column = self._locate(addresses)
        return self._data[row, column], self._ok[row, column]

    def scatter(self, addresses: Any, data: Any, ok: Any) -> None:
        """Write the cells at flat `addresses`; cells that are not `ok` become undefined."""
        row, column = self._locate(addresses)
        self._data[row, column] = data
        self._ok[row, column] = ok
        self._written[row, column] = True
        self.all_ok = self.all_ok and bool(np.all(ok))

    def written_pages(self) -> Iterator[int]:
        """The numbers of the pages of which a cell was written, ascending."""
        for page in np.flatnonzero(self._slots):
            if self._written[self._slots[page] - 1].any():
                yield int(page)

    def page(self, number: int) -> tuple[Any, Any, Any]:
        """Data, definedness and written marks of one page; cells past the end of the buffer are undefined and
        unwritten.
        """
        self._touch(np.array([number]))
        slot = int(self._slots[number]) - 1
        return self._data[slot], self._ok[slot], self._written[slot]

    def _locate(self, addresses: Any) -> tuple[Any, Any]:
        page, column = np.divmod(addresses, self.page_size)
        row = self._slots[page]
        if not row.all():
            self._touch(np.unique(page[row == 0]))
            row = self._slots[page]
        return row - 1, column

    def _touch(self, pages: Any) -> None:
        for page in pages:
            if self._slots[page]:
                continue
            if self._used == len(self._data):
                self._grow()
            slot, start = self._used, int(page) * self.page_size
            count = min(self.page_size, self.size - start)
            if self.fill is not None and count:
                self._data[slot, :count] = generate(start, count, self.dtype, self.seed, self.name, self.fill)
                self._ok[slot, :count] = True
            self._used += 1
            self._slots[page] = self._used

    def _grow(self) -> None:
        capacity = max(1, 2 * len(self._data)) if not self.dense else 1
        if capacity * self.page_size > RESIDENT_LIMIT:
            raise RunError(f"buffer {self.name} holds more than {RESIDENT_LIMIT} elements in this run", "R009")
        for field in ("_data", "_ok", "_written"):
            old = getattr(self, field)
            new = np.zeros((capacity, self.page_size), dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, field, new)


def packed_strides(shape: Sequence[int], layout: Layout = Layout.ND) -> tuple[int, ...]:
    """Element strides of a packed tensor: row-major, with the last two axes swapped for DN (`spec/tile_ir.md`
    section 2).
    """
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    if layout is Layout.DN and len(shape) >= 2:
        strides[-2], strides[-1] = 1, shape[-2]
    return tuple(strides)


class Tensor:
    """A view of a buffer: `shape` and `valid` extents, element `strides`, `offset` of its first element.
    Views share the buffer. Logical scales have `boxes` for each axis: cells of a box, the distance between
    boxes and that between cells of a box; their strides are a label.
    """

    __slots__ = ("_nd", "boxes", "buffer", "dtype", "layout", "offset", "shape", "strides", "valid")

    def __init__(
        self,
        buffer: Buffer,
        shape: Sequence[int],
        valid: Sequence[int] | None = None,
        layout: Layout = Layout.ND,
        strides: Sequence[int] | None = None,
        offset: int = 0,
    ) -> None:
        self.buffer, self.shape, self.dtype = buffer, tuple(shape), buffer.dtype
        self.valid = self.shape if valid is None else tuple(valid)
        self.layout = layout
        self.strides = tuple(strides) if strides is not None else packed_strides(self.shape, layout)
        self.offset = offset
        self.boxes = _boxes(self.shape, self.strides, layout)
        self._nd: tuple[Any, Any, Any] | None = None
        last = offset + sum((s - 1) * t for s, t in zip(self.shape, self.strides, strict=True))
        if prod(self.shape) and (last >= buffer.size or offset < 0):
            where = f"ends at element {last} of buffer {buffer.name}, which has {buffer.size}"
            raise RunError(f"a view {list(self.shape)} {where}")

    @staticmethod
    def fresh(name: str, shape: Sequence[int], dtype: DType, layout: Layout = Layout.ND) -> Tensor:
        """A packed tensor of its own whose cells are all undefined."""
        return Tensor(Buffer(name, prod(shape), dtype, fill=None), shape, layout=layout)

    @staticmethod
    def of(name: str, array: Any, dtype: DType) -> Tensor:
        """A packed tensor that holds a NumPy array, all of it defined."""
        tensor = Tensor(Buffer(name, prod(np.shape(array)), dtype), np.shape(array))
        tensor.load(array)
        return tensor

    def view(
        self,
        shape: Sequence[int],
        valid: Sequence[int] | None = None,
        layout: Layout | None = None,
        strides: Sequence[int] | None = None,
    ) -> Tensor:
        """The same memory under another shape; packed for `layout` (default: the one that it has) where no
        strides are given.
        """
        seen = Tensor(self.buffer, shape, valid, layout or self.layout, strides, self.offset)
        if self.boxes is not None and (seen.shape, seen.layout) == (self.shape, self.layout):
            seen.boxes = self.boxes
        return seen

    def physical(self) -> Tensor:
        """Logical scales as the blocked tensor of the same memory; any other tensor as it is."""
        shape = blocked_shape(self.layout, self.shape)
        return self if self.boxes is None or shape is None else self.view(shape)

    def logical(self) -> Tensor:
        """Blocked scales as the logical tensor of the same memory; any other tensor as it is."""
        blocked = self.layout in MX_LAYOUTS and len(self.shape) == BLOCKED_RANK
        return self.view(logical_shape(self.layout, self.shape)) if blocked else self

    def window(self, offsets: Sequence[int], sizes: Sequence[int], valid: Sequence[int] | None = None) -> Tensor:
        """The box [offsets, offsets + sizes) as a view; raises `RunError` where it leaves the tensor."""
        self._check(offsets, sizes, "window")
        if self.boxes is not None:
            return self._boxed_window(offsets, sizes, valid)
        start = self.offset + sum(o * t for o, t in zip(offsets, self.strides, strict=True))
        return Tensor(self.buffer, sizes, valid, self.layout, self.strides, start)

    def _boxed_window(self, offsets: Sequence[int], sizes: Sequence[int], valid: Sequence[int] | None) -> Tensor:
        assert self.boxes is not None
        if any(o % box for o, (box, _, _) in zip(offsets, self.boxes, strict=True)):
            raise RunError(f"a window at {list(offsets)} of {self.buffer.name} cuts a box of scales")
        start = self.offset + sum(o // box * far for o, (box, far, _) in zip(offsets, self.boxes, strict=True))
        part = Tensor(self.buffer, sizes, valid, self.layout, self.strides, start)
        part.boxes = self.boxes
        return part

    def read(self, offsets: Sequence[int], sizes: Sequence[int]) -> tuple[Any, Any]:
        """Copies of data and definedness of the box [offsets, offsets + sizes), both of shape `sizes`;
        `RunError` out of bounds.
        """
        self._check(offsets, sizes, "read")
        buffer = self.buffer
        if 0 in sizes:
            return np.empty(sizes, dtype=buffer._data.dtype), np.ones(sizes, dtype=bool)
        if buffer.dense and self.boxes is None:
            nd, box = self._arrays(), _box(offsets, sizes)
            return nd[0][box].copy(), np.ones(sizes, dtype=bool) if buffer.all_ok else nd[1][box].copy()
        data, ok = buffer.gather(self._addresses(offsets, sizes))
        return data, ok

    def write(self, offsets: Sequence[int], data: Any, ok: Any = True, accumulate: bool = False) -> None:
        """Write the box at `offsets` of the shape of `data`, converted to the tensor's dtype; cells not `ok`
        become undefined there.

        With `accumulate` the data are added to what is there. Raises `RunError` out of bounds."""
        sizes = np.shape(data)
        self._check(offsets, sizes, "write")
        buffer = self.buffer
        if 0 in sizes:
            return
        if data.dtype != buffer._data.dtype:
            data = data.astype(buffer._data.dtype)
        if accumulate:
            old, defined = self.read(offsets, sizes)
            data, ok = old + data, defined & ok
        if not buffer.dense or self.boxes is not None:
            buffer.scatter(self._addresses(offsets, sizes), data, ok)
            return
        nd, box = self._arrays(), _box(offsets, sizes)
        nd[0][box] = data
        nd[2][box] = True
        if not np.all(ok):
            buffer.all_ok = False
        if not buffer.all_ok:
            nd[1][box] = ok

    def load(self, array: Any) -> None:
        """Set the contents to an array of the tensor's shape, without marking the cells as written."""
        self.write((0,) * len(self.shape), np.asarray(array, dtype=self.buffer._data.dtype))
        self.buffer._written[:] = False

    def _arrays(self) -> tuple[Any, Any, Any]:
        if self._nd is None:
            stride = np.lib.stride_tricks.as_strided
            self._nd = tuple(
                stride(flat[self.offset :], self.shape, tuple(t * flat.itemsize for t in self.strides)) for flat in self.buffer.arrays()
            )
        return self._nd

    def _addresses(self, offsets: Sequence[int], sizes: Sequence[int]) -> Any:
        result = np.int64(self.offset)
        boxes = self.boxes or tuple((1, t, 0) for t in self.strides)
        for axis, (o, n, (box, far, near)) in enumerate(zip(offsets, sizes, boxes, strict=True)):
            which, inside = np.divmod(np.arange(n, dtype=np.int64) + o, box)
            steps = which * far + inside * near
            result = result + steps.reshape((n,) + (1,) * (len(sizes) - 1 - axis))
        return np.broadcast_to(result, tuple(sizes))

    def _check(self, offsets: Sequence[int], sizes: Sequence[int], what: str) -> None:
        if len(offsets) != len(self.shape) or len(sizes) != len(self.shape):
            raise RunError(f"a {what} of rank {len(offsets)} on a tensor of rank {len(self.shape)} ({self.buffer.name})")
        if 0 in sizes:
            return
        for axis, (o, n, extent) in enumerate(zip(offsets, sizes, self.shape, strict=True)):
            if o < 0 or n < 0 or o + n > extent:
                where = f"on axis {axis} of {self.buffer.name}, which has {extent} there"
                raise RunError(f"{what} of elements {o} to {o + n} {where}")


def _boxes(shape: tuple[int, ...], strides: tuple[int, ...], layout: Layout) -> tuple[tuple[int, int, int], ...] | None:
    """The boxes of logical scales; None for what lies by its strides."""
    if layout not in MX_LAYOUTS or blocked_shape(layout, shape) is None or strides != packed_strides(shape):
        return None
    return box_strides(layout, shape)


def _box(offsets: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(o, o + n) for o, n in zip(offsets, sizes, strict=True))
