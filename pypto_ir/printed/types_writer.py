"""Types as PyPTO prints them: `pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[12, 64])]`.

A view prints the fields that differ from what shape and space imply; a tensor view always prints stride and
layout (`spec/tile_ir.md` section 8).
"""

from __future__ import annotations

from collections.abc import Mapping

from pypto_ir.printed.exprs_writer import ExprWriter
from pypto_ir.types import (
    ArrayType,
    CommCtxType,
    Compact,
    MemRef,
    Pad,
    PtrType,
    ScalarType,
    TensorType,
    TensorView,
    TileType,
    TileView,
    TupleType,
    Type,
    UnknownType,
    implicit_view,
)  # fmt: skip


class TypeWriter:
    """Writes types; `buffers` are the names that a `tile.alloc` of the function defines. Texts of types
    without a MemRef are kept by the identity of the type."""

    def __init__(self, exprs: ExprWriter, kept: dict[int, str]) -> None:
        self.exprs, self.kept = exprs, kept
        self.buffers: frozenset[str] = frozenset()

    def text(self, t: Type) -> str:
        found = self.kept.get(id(t))
        if found is None:
            found = self._text(t)
            if getattr(t, "memref", None) is None and not isinstance(t, TupleType) and not self.exprs.names:
                self.kept[id(t)] = found
        return found

    def _text(self, t: Type) -> str:
        match t:
            case ScalarType(dtype=d):
                return f"pl.Scalar[pl.{d.value}]"
            case TensorType():
                return self._tensor(t)
            case TileType():
                return self._tile(t)
            case TupleType(items=items):
                return "pl.Tuple[" + (", ".join(map(self.text, items)) or "()") + "]"
            case ArrayType(extent=n, dtype=d):
                return f"pl.Array[{n}, pl.{d.value}]"
            case PtrType():
                return "pl.Ptr"
            case CommCtxType():
                return "pld.CommCtxType"
            case UnknownType():
                return "pl.UnknownType"

    def _tensor(self, t: TensorType) -> str:
        parts = [self.exprs.dims(t.shape), f"pl.{t.dtype.value}"]
        if t.view is not None:
            parts.append(self._tensor_view(t.view))
        if t.memref is not None:
            parts.append(self._memref(t.memref))
        prefix = "pld.DistributedTensor" if t.distributed else "pl.Tensor"
        return f"{prefix}[{', '.join(parts)}]"

    def _tensor_view(self, v: TensorView) -> str:
        parts = [f"valid_shape={self.exprs.dims(v.valid)}"] if v.valid else []
        parts += [f"stride={self.exprs.dims(v.stride)}", f"layout=pl.TensorLayout.{v.layout.value}"]
        if v.pad is not Pad.NULL:
            parts.append(f"pad=pl.PadValue.{v.pad.value}")
        return f"pl.TensorView({', '.join(parts)})"

    def _tile(self, t: TileType) -> str:
        parts = [self.exprs.dims(t.shape), f"pl.{t.dtype.value}"]
        if t.memref is not None:
            parts.append(self._memref(t.memref))
        if t.memory is not None:
            parts.append(f"pl.Mem.{t.memory.value}")
        if t.view is not None:
            parts.append(self._tile_view(t.view, implicit_view(t.shape, t.memory)))
        return f"pl.Tile[{', '.join(parts)}]"

    def _tile_view(self, v: TileView, implied: TileView) -> str:
        dims = self.exprs.dims
        parts = [f"valid_shape={dims(v.valid)}"] if v.valid else []
        if v.stride:
            parts.append(f"stride={dims(v.stride)}")
        if v.start_offset is not None:
            parts.append(f"start_offset={self.exprs.dim(v.start_offset)}")
        if v.blayout is not implied.blayout:
            parts.append(f"blayout=pl.TileLayout.{v.blayout.value}")
        if v.slayout is not implied.slayout:
            parts.append(f"slayout=pl.TileLayout.{v.slayout.value}")
        if v.fractal != implied.fractal:
            parts.append(f"fractal={v.fractal}")
        if v.pad is not Pad.NULL:
            parts.append(f"pad=pl.PadValue.{v.pad.value}")
        if v.compact is not Compact.NULL:
            parts.append(f"compact=pl.CompactMode.{v.compact.value}")
        return f"pl.TileView({', '.join(parts)})"

    def _memref(self, m: MemRef) -> str:
        base = self.exprs.names.get(m.base, m.base) if m.base in self.buffers else f'"{m.base}"'
        parts = [base]
        if m.offset is not None and m.size is not None:
            parts += [self.exprs.text(m.offset), str(m.size)]
        elif m.offset is not None:
            parts.append(f"offset={self.exprs.text(m.offset)}")
        elif m.size is not None:
            parts.append(f"size={m.size}")
        if m.slots is not None:
            parts.append(f"slots={m.slots}")
        plain = m.offset is None and m.size is None and base != m.base
        if m.pinned is not plain:
            parts.append(f"pinned={m.pinned}")
        index = f"[{self.exprs.text(m.slot)}]" if m.slot is not None else ""
        return f"pl.MemRef({', '.join(parts)}){index}"


def type_text(t: Type, names: Mapping[str, str] | None = None) -> str:
    """One type, for messages."""
    return TypeWriter(ExprWriter(names or {}), {}).text(t)
