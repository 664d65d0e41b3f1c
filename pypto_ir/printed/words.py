"""Words of printed programs: enumerations by the keyword that they stand under, names of ops and levels.

`target_memory=pl.Mem.Mat` is the word "Mat" and `mode='round'` the word "round": which of the two a word
prints as follows from its keyword. What stands under another keyword is kept as a record:
`kind=pl.Kind.X` is `{"enum": "Kind.X"}`.
"""

from __future__ import annotations

import keyword

from pypto_ir.dtypes import DType
from pypto_ir.stmt import Record
from pypto_ir.types import Compact, Layout, Memory, Pad, TileLayout

DTYPES = {d.value: d for d in DType}
MEMORIES = {m.value: m for m in Memory}
LAYOUTS = {v.value: v for v in Layout}
TILE_LAYOUTS = {v.value: v for v in TileLayout}
PADS = {p.value: p for p in Pad}
COMPACTS = {c.value: c for c in Compact}

#: enumerations and their members; the dtypes are attributes of `pl` itself
DTYPE = ""
MEMBERS: dict[str, frozenset[str]] = {
    DTYPE: frozenset(DTYPES),
    "Mem": frozenset(MEMORIES),
    "TensorLayout": frozenset(LAYOUTS),
    "TileLayout": frozenset(TILE_LAYOUTS),
    "PadValue": frozenset(PADS),
    "CompactMode": frozenset(COMPACTS),
    "AtomicType": frozenset({"None_", "Add"}),
    "PipeType": frozenset({"MTE1", "MTE2", "MTE3", "M", "V", "S", "FIX", "ALL"}),
    "SplitMode": frozenset({"NONE", "UP_DOWN", "LEFT_RIGHT"}),
    "ScopeMode": frozenset({"AUTO", "MANUAL"}),
    "Level": frozenset(
        {
            "AIV",
            "AIC",
            "CORE_GROUP",
            "CHIP_DIE",
            "CHIP",
            "HOST",
            "CLUSTER_0",
            "CLUSTER_1",
            "CLUSTER_2",
            "GLOBAL",
        }
    ),
    "Role": frozenset({"SubWorker", "Orchestrator", "Worker"}),
    "adir": frozenset({"input", "output", "output_existing", "inout", "scalar", "no_dep"}),
}
#: keyword -> enumeration, for keyword arguments of calls and for attributes
OF_KWARG = {
    "target_memory": "Mem", "memory": "Mem", "space": "Mem",
    "dtype": DTYPE, "target_type": DTYPE, "output_dtype": DTYPE, "out_dtype": DTYPE, "count_dtype": DTYPE,
    "layout": "TensorLayout", "blayout": "TileLayout", "slayout": "TileLayout",
    "pad_value": "PadValue", "compact": "CompactMode", "atomic": "AtomicType",
    "set_pipe": "PipeType", "wait_pipe": "PipeType", "pipe": "PipeType",
}  # fmt: skip
OF_ATTRIBUTE = {"split": "SplitMode", "arg_directions": "adir", "arg_direction_overrides": "adir"}
OF_SCOPE: dict[str, dict[str, str]] = {
    "at": {"level": "Level", "role": "Role", "split": "SplitMode"},
    "split_aiv": {"mode": "SplitMode"},
    "scope": {"mode": "ScopeMode"},
}

#: level and role that a function has by its kind (`spec/tile_ir.md` section 5)
IMPLIED: dict[str, tuple[str | None, str | None]] = {
    "Orchestration": ("CHIP", "Orchestrator"),
    "Graph": ("CHIP", "Orchestrator"),
    "InCore": ("CHIP_DIE", "SubWorker"),
    "AIC": ("AIC", "SubWorker"),
    "AIV": ("AIV", "SubWorker"),
    "Group": ("CORE_GROUP", "SubWorker"),
}

#: names that printed programs use themselves
TAKEN = frozenset({"pl", "pld", "self", *keyword.kwlist})

#: operands that print as keywords: op -> (position, keyword, whether it stands after the other keywords)
KEYWORD_OPERANDS: dict[str, tuple[tuple[int, str, bool], ...]] = {
    "tile.full": ((1, "value", True),),
    "tensor.full": ((1, "value", True),),
    "tile.reinterpret_view": ((1, "shape", True),),
    "tile.gather_row": ((5, "valid_shape", False),),
    "tile.mgather": ((2, "scratch", False), (3, "valid_shape", False)),
}
#: ops whose value prints bare, whatever its dtype
FILLS = frozenset({"tile.full", "tensor.full"})
#: ops whose keyword argument prints as first operand
LEADING_KEYWORD = {"tile.alloc": "memory"}


def op_name(path: tuple[str, ...]) -> str:
    """The op of a printed path: ("tile", "and_") is `tile.and`."""
    last = path[-1]
    if last.endswith("_") and keyword.iskeyword(last[:-1]):
        path = (*path[:-1], last[:-1])
    return ".".join(path)


def printed_op(op: str) -> str:
    """An op as it prints: `pl.tile.and_`; `pld` ops have a prefix of their own."""
    text = op + "_" if keyword.iskeyword(op.rpartition(".")[2]) else op
    return text if op.startswith("pld.") else f"pl.{text}"


def enum_record(name: str) -> Record:
    """A member of an enumeration that its keyword does not imply."""
    return Record((("enum", name),))


def enum_of_record(value: Record) -> str | None:
    """The member that a record stands for, or None where it is an ordinary object."""
    match value.items:
        case (("enum", str() as name),):
            return name
    return None
