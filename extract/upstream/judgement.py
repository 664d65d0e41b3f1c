"""Whether a chain of accumulators can be packed, test by test in upstream's order (`spec/flatten.md` 8.3 and 8.4).

The first test that fails gives the reason. A batched chain whose pages have at most 16 columns may stay as it is where the reason is one
of geometry; every other failure refuses the function.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from extract.target import Target
from extract.upstream.alignment import aligned
from extract.upstream.chains import ACCUMULATES, Chains, Use, chains
from extract.upstream.packing import Packing
from extract.upstream.reasons import Reason, refused, uneven
from pypto_ir.diagnostics import Diagnostic
from pypto_ir.expr import Var, const_int
from pypto_ir.ops.registry import type_of
from pypto_ir.stmt import Assign, Call, Function, Stmt, tuple_items, walk
from pypto_ir.types import Dims, Memory, TileType, Type, same_dims

#: columns of one block of L0C
BLOCK = 16


@dataclass(frozen=True, slots=True)
class Seed:
    """What asks for packing: a batched accumulation, or a window of rows that is accumulated into. `name` is the accumulator, None where
    it has none."""

    s: Stmt
    name: str | None
    plan: Packing


def packings(function: Function, target: Target) -> tuple[dict[str, Packing], list[Diagnostic]]:
    """The packing of every accumulator that is packed, by name, and why chains that need one cannot have it."""
    statements = list(walk(function.body))
    if not any(isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op in ACCUMULATES for s in statements):
        return {}, []
    work = _Judge(function, target, chains(function))
    return work.run(statements)


class _Judge:
    def __init__(self, function: Function, target: Target, found: Chains) -> None:
        self.function, self.target, self.chains = function, target, found
        self.plans: dict[str, Packing] = {}
        self.findings: list[Diagnostic] = []
        #: the windows of every chain that begins with a slice
        self.windows: dict[str, list[Assign]] = {}
        self.accumulated: set[str] = set()

    def run(self, statements: list[Stmt]) -> tuple[dict[str, Packing], list[Diagnostic]]:
        groups: dict[str, list[Seed]] = {}
        for s in statements:
            if isinstance(s, Assign) and isinstance(s.value, Call):
                if s.value.op == "tile.slice":
                    self.windows.setdefault(self.chains.of(s.target.name), []).append(s)
                elif s.value.op == "tile.matmul_acc":
                    self.accumulated.add(self.chains.of(s.target.name))
        for seed in [x for s in statements if isinstance(s, Assign) and isinstance(s.value, Call) for x in self.seeds(s, s.value)]:
            group = self.chains.of(seed.name) if seed.name is not None else f"{id(seed.s)}"
            groups.setdefault(group, []).append(seed)
        members = self.chains.members()
        for group, seeds in groups.items():
            reason = self.judged(seeds, members.get(group, []))
            if reason is None:
                self.plans.update(dict.fromkeys(members[group], seeds[0].plan))
            elif not self.as_it_is(seeds[0], reason, members.get(group, [])):
                self.findings.append(refused(self.function, seeds[0].s, seeds[0].plan, reason))
        return self.plans, self.findings

    def seeds(self, s: Assign, call: Call) -> list[Seed]:
        t = type_of(call.args[0]) if call.args else None
        shape = t.static_shape if isinstance(t, TileType) else None
        if shape is None or not isinstance(t, TileType):
            return []
        name = call.args[0].name if isinstance(call.args[0], Var) else None
        if call.op == "tile.batch_matmul_acc" and len(shape) > 2 and prod(shape[:-2]) > 1:
            return [Seed(s, name, Packing(shape[:-2], shape[-2], shape[-1], t.dtype, shape))]
        if call.op == "tile.slice" and self.chains.of(s.target.name) in self.accumulated and len(shape) == 2:
            return self.row_window(s, call, name, t, shape)
        return []

    def row_window(self, s: Assign, call: Call, name: str | None, t: TileType, shape: tuple[int, ...]) -> list[Seed]:
        view = s.target.type
        window = view.static_shape if isinstance(view, TileType) else None
        if window is None or len(window) != 2 or window[0] >= shape[0] or _addressable(call, window):
            return []
        if shape[0] % window[0]:
            self.findings.append(uneven(self.function, s, shape[0], window[0]))
            return []
        plan = Packing((shape[0] // window[0],), window[0], shape[1], t.dtype, shape, row_windows=True)
        return [Seed(s, name, plan)]

    def as_it_is(self, seed: Seed, reason: Reason, members: list[str]) -> bool:
        """True for a batched chain whose pages lie in one block of columns: its windows are addressed as they stand."""
        roots = any(self.op(name) == "tile.batch_matmul" for name in members)
        return not seed.plan.row_windows and not reason.forced and seed.plan.cols <= BLOCK and not roots

    def op(self, name: str) -> str | None:
        s = self.chains.defs.get(name)
        if s is None:
            return None
        return s.value.op if isinstance(s.value, Call) else "alias"

    # the tests

    def judged(self, seeds: list[Seed], members: list[str]) -> Reason | None:
        """Why a chain cannot be packed; None where it can."""
        plan = seeds[0].plan
        if any(seed.name is None for seed in seeds):
            return Reason("L421", "its accumulator is not a named value, so its chain cannot be tracked")
        return self.agreed(seeds) or self.allocations(plan, members) or self.geometry(plan) or self.each(plan, members)

    def agreed(self, seeds: list[Seed]) -> Reason | None:
        first = seeds[0].plan
        for other in (seed.plan for seed in seeds[1:]):
            if other == first:
                continue
            if first.row_windows and other.row_windows and first.shape == other.shape and first.dtype is other.dtype:
                return Reason("L422", f"it has row windows of different heights ({first.rows} and {other.rows} rows)")
            return Reason("L422", "two tile.batch_matmul_acc calls with different batch geometries share it")
        return None

    def allocations(self, plan: Packing, members: list[str]) -> Reason | None:
        roots = [n for n in members if self.op(n) == "tile.create" or (self.op(n) == "tile.batch_matmul" and self.shape(n) == plan.shape)]
        if len(roots) <= 1:
            return None
        return Reason(
            "L423",
            f"it is allocated by {len(roots)} separate definitions ({', '.join(roots)}) that control flow then merges, which would need an "
            "L0C-to-L0C copy",
            "write it with a single allocation: create the accumulator before the branch or loop, and let the first step start it with "
            "init_cond=True",
            geometry=False,
            forced=True,
        )

    def shape(self, name: str) -> tuple[int, ...] | None:
        t = self.chains.types.get(name)
        return t.static_shape if t is not None else None

    def geometry(self, plan: Packing) -> Reason | None:
        if plan.dtype.bits != 32:
            return Reason("L424", f"its element is not 4 bytes wide ({plan.dtype.value})")
        if plan.rows % BLOCK:
            return Reason("L425", f"the page row extent M={plan.rows} is not a multiple of {BLOCK}")
        if plan.cols % BLOCK:
            return Reason("L426", f"the page column extent N={plan.cols} is not a multiple of {BLOCK}")
        budget = self.target.capacity(Memory.ACC) or None
        size = plan.pages * plan.rows * plan.cols * 4
        if budget is not None and size > budget:
            return Reason("L427", f"it needs {size} bytes of Acc (L0C), which exceeds the {budget}-byte budget")
        step = self.target.acc_row_alignment(plan.dtype)
        held = -(-plan.rows // step) * step * plan.pages * plan.cols * 4
        if plan.row_windows and budget is not None and held > budget:
            return Reason(
                "L428",
                f"its windows take {held} bytes and exceed the target's physical L0C capacity after row alignment to {step}",
            )
        return None

    def each(self, plan: Packing, members: list[str]) -> Reason | None:
        for name in members:
            reason = self.member(plan, name)
            if reason is not None:
                return reason
            for use in self.chains.uses.get(name, ()):
                reason = self.use(plan, name, use)
                if reason is not None:
                    return reason
        return None

    def member(self, plan: Packing, name: str) -> Reason | None:
        t, op = self.chains.types[name], self.op(name)
        if name in self.chains.poisoned:
            return Reason("L429", f"{name} reaches a function parameter or a control-flow carry that cannot be retyped")
        if t.static_shape != plan.shape or t.dtype is not plan.dtype:
            return Reason("L430", f"{name} does not carry its {len(plan.shape)}-D shape, so the chain is not one buffer")
        if not same_dims(t.valid, t.shape):
            return Reason("L431", f"{name} carries a partial valid_shape, which has no equivalent once the pages sit side by side")
        if plan.row_windows and t.memref is not None:
            return Reason("L432", f"{name} has an explicitly bound MemRef, whose physical layout cannot be repacked")
        if t.memory not in (None, Memory.ACC):
            made = self.definition(plan, name, op) if op is not None else None
            if made is not None:  # the memory is that of the op, which is the cause to name
                return replace(made, forced=False)
            return Reason("L433", f"{name} is annotated to live in {t.memory.value} memory, but only the matrix unit writes Acc")
        if op is None:
            return None if name in self.chains.given else Reason("L434", f"{name} has no definition that can be rewritten")
        return self.definition(plan, name, op)

    def definition(self, plan: Packing, name: str, op: str) -> Reason | None:
        allowed = {"alias", "tile.batch_matmul_acc", "tile.create"}
        if op in allowed or (op == "tile.assemble" and plan.row_windows):
            return None
        if op == "tile.batch_matmul" and self.shape(name) == plan.shape:
            return None
        if plan.row_windows:
            return Reason(
                "L435",
                f"the parent accumulator {name} is produced by {op}; row-window packing requires tile.create followed by slice writebacks",
            )
        return Reason(
            "L435",
            f"{name} is produced by {op}, which cannot write Acc (L0C) at all",
            "begin the accumulator with tile.create or with a product; it fails the same way at batch 1",
            geometry=False,
            forced=True,
        )

    def use(self, plan: Packing, name: str, use: Use) -> Reason | None:
        if use.kind in ("carry", "accumulate"):
            return None
        if use.kind in ("window", "insert") and plan.row_windows:
            return self.window_use(plan, name, use)
        if use.kind == "store":
            return self.store_use(plan, name, use)
        if use.kind == "move":
            return Reason(
                "L439",
                f"{name} is drained by tile.move into a vector epilogue: its pages keep L0C's block layout, which tile.assemble cannot "
                "write into a row-packed vector tile",
                "store the accumulator to global memory and load it again, or write an explicit loop over the batch; this is not specific "
                "to accumulators",
                geometry=False,
            )
        return Reason("L440", f"{name} is consumed by {use.by}, which reads it as one flat tile rather than one page at a time")

    def window_use(self, plan: Packing, name: str, use: Use) -> Reason | None:
        assert isinstance(use.s, Assign) and isinstance(use.s.value, Call)
        call = use.s.value
        view = use.s.target.type if use.kind == "window" else type_of(call.args[1])
        if not self.fits_window(plan, view, tuple_items(call.args[2])):
            return Reason("L436", f"a window of {name} does not have the common static row extent {plan.rows} and an aligned row offset")
        if use.kind == "insert" and not self.writes_back(name, call):
            return Reason("L437", f"tile.assemble into {name} does not write a matmul_acc result back to its original window")
        return None

    def fits_window(self, plan: Packing, view: Type, offset: Dims | None) -> bool:
        """True for a fully valid tile of the common height at a row that is a multiple of it."""
        shape = view.static_shape if isinstance(view, TileType) else None
        if shape is None or len(shape) != 2 or shape[0] != plan.rows or offset is None or len(offset) != 2:
            return False
        return isinstance(view, TileType) and same_dims(view.valid, view.shape) and aligned(self.chains, offset[0], plan.rows)

    def writes_back(self, name: str, call: Call) -> bool:
        """True where the source is accumulated in exactly one window of this chain, at the very offset of the write."""
        source = call.args[1]
        chain = self.chains.of(source.name) if isinstance(source, Var) else None
        found = self.windows.get(chain, []) if chain in self.accumulated else []
        if len(found) != 1 or not isinstance(found[0].value, Call):
            return False
        parent = found[0].value.args[0]
        same = isinstance(parent, Var) and self.chains.of(parent.name) == self.chains.of(name)
        return same and found[0].value.args[2] == call.args[2]

    def store_use(self, plan: Packing, name: str, use: Use) -> Reason | None:
        call = use.s.value if isinstance(use.s, Assign) else None
        rank = len(plan.shape)
        if isinstance(call, Call) and len(call.args) == 3:
            offsets, tensor = tuple_items(call.args[1]), type_of(call.args[2])
            if offsets is not None and len(offsets) == rank == getattr(tensor, "rank", None):
                return None
        return Reason("L438", f"{name} is stored through a tile.store whose window cannot be split into one store per batch page")


def _addressable(call: Call, window: tuple[int, ...]) -> bool:
    """True for a window inside one block of 16 columns, which the matrix unit addresses as it stands: [16, 16] at [16, 0]."""
    offset = tuple_items(call.args[2])
    column = const_int(offset[1]) if offset is not None and len(offset) == 2 else None
    width = window[1]
    return 1 <= width <= BLOCK and column is not None and column >= 0 and column // BLOCK == (column + width - 1) // BLOCK
