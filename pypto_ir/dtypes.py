"""Data types: widths, classes and promotion (`spec/tile_ir.md` section 1).

`promote(FP16, INT32)` is FP16 (float beats int), `promote(INT16, UINT16)` is INT16 (same width, signed wins), and a BOOL cell
takes one byte although it holds one bit.
"""

from __future__ import annotations

from enum import Enum

#: bits of an element, by its printed name
_BITS = {
    "BOOL": 1,
    "INT4": 4, "INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64,
    "UINT4": 4, "UINT8": 8, "UINT16": 16, "UINT32": 32, "UINT64": 64,
    "INDEX": 64, "TASK_ID": 64,
    "FP4": 4, "HF4": 4, "HF8": 8,
    "FP8E4M3FN": 8, "FP8E5M2": 8, "FP8E8M0": 8, "FP16": 16, "BF16": 16, "FP32": 32,
}  # fmt: skip


class DType(Enum):
    """An element type; the value is its printed name."""

    BOOL = "BOOL"
    INT4 = "INT4"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    UINT4 = "UINT4"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INDEX = "INDEX"
    FP4 = "FP4"
    HF4 = "HF4"
    HF8 = "HF8"
    FP8E4M3FN = "FP8E4M3FN"
    FP8E5M2 = "FP8E5M2"
    FP8E8M0 = "FP8E8M0"
    FP16 = "FP16"
    BF16 = "BF16"
    FP32 = "FP32"
    TASK_ID = "TASK_ID"

    def __init__(self, printed: str) -> None:
        #: signed integers, INDEX among them
        self.is_signed = printed.startswith("INT") or printed == "INDEX"
        self.is_unsigned = printed.startswith("UINT")
        self.is_int = self.is_signed or self.is_unsigned
        self.is_float = printed.startswith(("FP", "HF", "BF"))
        #: width in bits; BOOL is 1 although a cell takes a byte
        self.bits = _BITS[printed]
        #: bytes of one element, `ceil(bits / 8)`
        self.bytes = (self.bits + 7) // 8
        #: INT64, UINT64 and INDEX: the types that take part in addressing without a cast
        self.is_index_like = printed in ("INT64", "UINT64", "INDEX")

    __hash__ = object.__hash__  # there is one object of each; hashing its name takes four times as long


def promote(a: DType, b: DType) -> DType:
    """The result type of a tile or tensor op on `a` and `b` (`spec/tile_ir.md` section 1)."""
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    if a.is_int and b.is_int and a.is_signed != b.is_signed:
        return a if a.is_signed else b
    return a


def promote_scalar(a: DType, b: DType) -> DType | None:
    """The result type of scalar arithmetic, or None where the operands do not mix (BOOL, or int with float)."""
    if DType.BOOL in (a, b) or a.is_float != b.is_float or not (a.is_float or (a.is_int and b.is_int)):
        return None
    return b if b.bits > a.bits else a
