"""What an author or a pass wrote around the tile ops stands in the lowered text: only ranks of tiles and windows of stores change."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import SHARED

from pypto_eqsat.driver import optimize
from pypto_ir.formats import read_any, write_as
from pypto_ir.printed.program_writer import write_text
from pypto_ir.stmt import Assign, Call, Eval, Function, FunctionCall, Submit, walk

DUMPS = sorted((SHARED / "dumps").glob("*.py"))
HEAD = """
# pypto.program: P
import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore, level=pl.Level.CHIP_DIE, role=pl.Role.SubWorker)
    def k(x: pl.Tensor[[8, 8, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 8, 64], pl.FP32, pl.MemRef("gm", 0, 16384)]], \
log: pl.InOut[pl.Tensor[[16], pl.FP32]]) -> pl.Tensor[[8, 8, 64], pl.FP32, pl.MemRef("gm", 0, 16384)]:
"""
#: 3-D tiles below everything that may stand around them
BEFORE = """
pl.func_attr({"mx_tensor_views_blocked": True, "k": 3, "name": "n"})
# first
t: pl.Tile[[2, 8, 64], pl.FP32, pl.MemRef("ping"), pl.Mem.Vec] = pl.tile.load(x, [0, 0, 0], [2, 8, 64], [2, 8, 64], \
target_memory=pl.Mem.Vec, attrs={"__bridge": True})
with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)], name_hint="block"):
    # in the loop
    for i, (acc, m) in pl.pipeline(4, stage=2, init_values=(out, t), attrs={"unroll": 4}):
        u: pl.Tile[[2, 8, 64], pl.FP32, pl.MemRef("ring", slots=2)[i % 2], pl.Mem.Vec] = pl.tile.load(x, [i * 2, 0, 0], [2, 8, 64], \
[2, 8, 64], target_memory=pl.Mem.Vec)
        # add them up
        # (two lines)
        v: pl.Tile[[2, 8, 64], pl.FP32, pl.Mem.Vec] = pl.tile.add(m, u)
        pl.tensor.write(log, [i], 1.0)
        o: pl.Tensor[[8, 8, 64], pl.FP32, pl.MemRef("gm", 0, 16384)] = pl.tile.store(v, [i * 2, 0, 0], acc, atomic=pl.AtomicType.Add)
        # after the store
        w: pl.Scalar[pl.FP32] = pl.tensor.read(log, [i])
        pl.tensor.write(log, [i + 4], w)
        r, s = pl.yield_(o, v)
pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
# between
pl.system.bar_v()
pl.tensor.write(log, [9], 2.0)
# last
return r
"""


def text(body: str) -> str:
    return (HEAD + textwrap.indent(body.strip("\n"), "        ")).strip("\n")


def flattened(source: str) -> str:
    """The text with [2, 8, 64] tiles as [16, 64] and stores that say their windows, as flattening writes them."""
    return re.sub(r"(pl\.tile\.store\(\w+, \[[^]]*\], \w+)", r"\1, [2, 8, 64]", source.replace("pl.Tile[[2, 8, 64]", "pl.Tile[[16, 64]"))


def test_only_ranks_and_windows_change() -> None:
    before = read_any(text(BEFORE), "p.py")
    assert write_text(before) == text(BEFORE)
    assert write_text(optimize(before).program) == flattened(text(BEFORE))


LINES = {
    "loops_all": ("pl.pipeline(", "pl.parallel(", "pl.unroll(", "pl.while_(", "attrs=", "pl.cond(", "break"),
    "branches": ("if ", "else:", "break", "continue", "pl.tensor.write("),
    "gm_stores": ("atomic=pl.AtomicType.Add", "pl.InOut["),
    "fill_create": ("rounds=",),
    "tensor_forms": ("pl.TensorLayout.", "pl.tensor.dim(", "pl.tensor.write("),
    "ranks_tails": ("pl.dynamic(", "pl.tensor.dim("),
    "collisions": ("# ",),
    "naming": ("# ", "__iter_", "__rv_", "__phi_", "__idx_"),
    "memrefs": ("pl.MemRef(", "pl.tile.alloc("),
    "call_directions": ("arg_directions", "pl.submit(", "pl.spmd_submit(", "deps="),
    "orchestration": ("pl.submit(", "deps=[", "pl.system.task_dummy(", "allow_early_resolve"),
    "function_kinds": ("pl.func_attr(", "auto_scope=False", "@pl.function"),
    "scopes": ("name_hint=", "pl.cluster(", "pl.spmd(", "optimizations="),
    "cross_core": ("pl.tile.tpush", "pl.tile.tpop", "pl.system."),
}


@pytest.mark.parametrize("name", LINES)
def test_marks_of_a_dump_stand_as_often_in_its_result(name: str) -> None:
    source = (SHARED / "dumps" / f"{name}.py").read_bytes().decode()
    result = write_as(optimize(read_any(source, name), validate=False).program, "text")
    for mark in LINES[name]:
        assert source.count(mark) > 0, mark
        assert result.count(mark) == source.count(mark), mark


EFFECTS = ("store", "write", "read", "tpush_to_aiv", "tpush_to_aic", "tpop_from_aic", "tpop_from_aiv", "mscatter", "mgather", "alloc")


def effects(function: Function) -> list[str]:
    """Effects, calls of functions and submits, in the order of the text; a store by pages counts once."""
    found = []
    for s in walk(function.body):
        match s:
            case Assign(value=FunctionCall() | Submit() as call) | Eval(value=FunctionCall() | Submit() as call):
                found.append(repr(call))
            case Assign(value=Call(op=op)) | Eval(value=Call(op=op)) if op.startswith("system.") or op.split(".")[1] in EFFECTS:
                found.append(op)
    return [e for i, e in enumerate(found) if e != "tile.store" or e not in found[max(i - 1, 0) : i]]


def named(function: Function) -> set[str]:
    """The functions that a function calls."""
    calls = (s.value for s in walk(function.body) if isinstance(s, Assign | Eval))
    return {c.function for c in calls if isinstance(c, FunctionCall | Submit)}


def waits(function: Function) -> bool:
    """True where the rules of a later issue are needed: batched products, windows of N-D tiles."""
    ops = {s.value.op for s in walk(function.body) if isinstance(s, Assign) and isinstance(s.value, Call)}
    return bool(ops & {"tile.batch_matmul", "tile.batch_matmul_acc"}) or function.name == "windows"


@pytest.mark.parametrize("path", DUMPS, ids=lambda p: p.name)
def test_effects_keep_their_order_and_functions_their_frame(path: Path) -> None:
    before = read_any(path.read_bytes().decode(), path.name)
    left_out = {f.name for f in before.functions if f.in_core and waits(f)}
    before = replace(before, functions=tuple(f for f in before.functions if f.name not in left_out and not named(f) & left_out))
    after = optimize(before, stages=("flatten",), validate=False).program
    for f, g in zip(before.functions, after.functions, strict=True):
        assert replace(g, body=f.body) == f
        assert effects(g) == effects(f)
