"""Run-time values: tiles with undefined cells, and what an op's meaning gets to see.

A tile is an array of its physical shape, a mask of the cells that hold defined data, and its valid extents.
`tile.create` makes a tile of which no cell is defined; a load with valid shape [1, 3, 8] defines three rows.
An op that reads an undefined cell, or a cell outside the valid region, makes an undefined cell: nothing is
raised until a result that must be defined is compared.

Views share storage with what they view (NumPy views). Ops that overwrite operand 0 ask for it with
`Evaluation.target`: by value they get a copy, in buffer mode the storage itself, so that whoever still looks
at the old value sees the write, as on the chip.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pypto_ir.diagnostics import declare
from pypto_ir.dtypes import DType
from pypto_ir.lazy import ml_dtypes, np

if TYPE_CHECKING:
    from pypto_ir.interp.memory import Tensor
    from pypto_ir.ops.registry import OpDef
    from pypto_ir.stmt import Call, Keywords
    from pypto_ir.types import Type


declare(
    R001="a read, a write or an extent lies outside what it is taken from",
    R002="a data type has no number format in the interpreter",
    R003="an op or a function has no meaning in the interpreter",
    R004="the step limit is reached",
    R005="control flow, an offset or an extent depends on an undefined value",
    R006="scalar arithmetic without a result: division by zero, a shift by more than the width",
    R007="the time limit is reached",
    R008="calls are nested too deeply",
    R009="global memory of a run takes more space than the interpreter allows",
    R010="the meaning of an op failed on its operands",
)


class RunError(Exception):
    """A program cannot be interpreted any further; `code` is one of the R codes above."""

    def __init__(self, message: str, code: str = "R001") -> None:
        super().__init__(message)
        self.message, self.code = message, code


class Undefined:
    """The scalar that an undefined cell holds: arithmetic on it is undefined again, deciding on it raises
    `RunError` R005.
    """

    __slots__ = ()
    __array_ufunc__ = None

    def __bool__(self) -> bool:
        raise RunError("a decision depends on an undefined value", "R005")

    def __repr__(self) -> str:
        return "undefined"


#: the one undefined scalar: what an op whose result is a scalar returns for a cell that holds no defined data
UNDEFINED = Undefined()


@dataclass(slots=True)
class Tile:
    """A tile value: `data` and `ok` have the physical shape (`ok` False = undefined cell), `valid` are the
    valid extents.
    """

    data: Any
    ok: Any
    valid: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    def readable(self) -> Any:
        """The mask of cells that are defined and inside the valid region."""
        if self.valid == self.shape:
            return self.ok
        mask = np.zeros(self.shape, dtype=bool)
        region = tuple(slice(0, v) for v in self.valid)
        mask[region] = self.ok[region]
        return mask


@dataclass(slots=True)
class Evaluation:
    """One evaluation of an op.

    `args` by operand: `Tile`, `Tensor`, a NumPy scalar or Python bool, a tuple of ints, or None for an
    omitted middle operand. `shape`, `valid` and `dtype` are those of the result type with all extents
    evaluated (empty and None where the result is neither a tile nor a new tensor). `call` is what was written, for what the types
    of its operands decide.
    """

    op: OpDef
    args: tuple[Any, ...]
    kwargs: Keywords
    type: Type | None
    shape: tuple[int, ...]
    valid: tuple[int, ...]
    dtype: DType | None
    in_place: bool
    call: Call

    def kwarg(self, name: str) -> Any:
        """The value of a keyword argument, its declared default where absent."""
        for key, value in self.kwargs:
            if key == name:
                return value
        declared = self.op.kwarg(name)
        return declared.default if declared else None

    def tile(self, i: int) -> Tile:
        arg = self.args[i]
        assert isinstance(arg, Tile), f"operand {i} of {self.op.name} is no tile"
        return arg

    def tensor(self, i: int) -> Tensor:
        arg: Tensor = self.args[i]
        return arg

    def target(self, i: int = 0) -> Tile:
        """Operand `i` to write into: its own storage in buffer mode, a copy by value."""
        t = self.tile(i)
        return t if self.in_place else Tile(t.data.copy(), t.ok.copy(), t.valid)

    def fresh(self, data: Any, ok: Any) -> Tile:
        """A new tile of the result's dtype from `data`, defined where `ok` is and in the valid region."""
        array = np.asarray(data)
        wanted = numpy_dtype(self.dtype) if self.dtype else array.dtype
        if array.dtype != wanted:
            array = array.astype(wanted)
        array = np.array(np.broadcast_to(array, self.shape), order="C")
        isinstance(ok, np.ndarray) and ok.shape == self.shape
        mask = np.array(np.broadcast_to(ok, self.shape), order="C")
        if self.valid != self.shape:
            inside = np.zeros(self.shape, dtype=bool)
            inside[tuple(slice(0, v) for v in self.valid)] = True
            mask &= inside
        return Tile(array, mask, self.valid)

    def view(self, data: Any, ok: Any) -> Tile:
        """A tile that shares the storage of `data` and `ok`, with the result's valid region."""
        return Tile(data, ok, self.valid)


@cache
def numpy_dtype(dtype: DType) -> Any:
    """The NumPy type that holds a data type; narrow floats come from ml_dtypes, 4-bit integers are held in a
    byte.
    """
    match dtype:
        case DType.BOOL:
            return np.dtype(bool)
        case DType.INT4 | DType.INT8:
            return np.dtype(np.int8)
        case DType.UINT4 | DType.UINT8:
            return np.dtype(np.uint8)
        case DType.INT16 | DType.UINT16 | DType.INT32 | DType.UINT32 | DType.INT64 | DType.UINT64:
            return np.dtype(dtype.value.lower())
        case DType.INDEX | DType.TASK_ID:
            return np.dtype(np.int64)
        case DType.FP16:
            return np.dtype(np.float16)
        case DType.FP32:
            return np.dtype(np.float32)
        case DType.BF16:
            return np.dtype(ml_dtypes.bfloat16)
        case DType.FP8E4M3FN:
            return np.dtype(ml_dtypes.float8_e4m3fn)
        case DType.FP8E5M2:
            return np.dtype(ml_dtypes.float8_e5m2)
        case DType.FP8E8M0:
            return np.dtype(ml_dtypes.float8_e8m0fnu)
        case DType.FP4:
            return np.dtype(ml_dtypes.float4_e2m1fn)
    raise RunError(f"{dtype.value} has no number format here", "R002")
