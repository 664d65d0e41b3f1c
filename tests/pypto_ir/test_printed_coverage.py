# ruff: noqa: E501 (a printed statement stands on one line)
"""Every call of the specification's count of real programs (`spec/tile_ir.md` section 10) is read as it is typed there, and every form
of section 8 occurs in a text that the tests read."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
import test_printed_forms
import test_printed_ops
import test_printed_sugar
from printed_support import function, program

from pypto_ir.ops.registry import all_ops
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.printed.program_writer import write_text
from pypto_ir.verify import verify_program

SHARED = Path(__file__).parents[2].parent / "shared"
SPEC = (SHARED / "spec" / "tile_ir.md").read_text(encoding="utf-8").split("## 10. ")[1]
PARAMS = (
    "x: pl.Tensor[[64, 64], pl.FP32], idx: pl.Tensor[[64, 64], pl.INT32], n: pl.Scalar[pl.INDEX], q: pl.Scalar[pl.BOOL], "
    "f: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]"
)
T = "pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec]"
#: a tile in Vec, a scratch tile, an index tile, a column and a row; operands of a product
TILES = """
t = pl.load(x, [0, 0], [16, 64])
tmp = pl.tile.create([16, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)
ix = pl.load(idx, [0, 0], [16, 64])
col = pl.row_max(t, tmp)
row = pl.tile.col_max(t)
m = pl.load(x, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
left = pl.move(m, target_memory=pl.Mem.Left)
right = pl.move(m, target_memory=pl.Mem.Right)
"""
PIPE = "0, dir_mask=1, slot_size=1024, id=0"
#: call -> a statement that holds it; a plain call of a name is `v = <call>`
USES = {
    "pl.load": "v = pl.load(x, [0, n], [16, 32])",
    "pl.store": "out = pl.store(t, [0, 0], out)",
    "pl.range": "for i in pl.range(0, n, 16):\n    pass",
    "pl.create_tensor": "v = pl.create_tensor([16, 64], dtype=pl.FP32)",
    "pl.add": "v = pl.add(t, 1.0)",
    "pl.cast": "v = pl.cast(t, pl.BF16)",
    "pl.slice": "v = pl.slice(t, [8, 64], [0, 0])",
    "pl.mul": "v = pl.mul(t, t)",
    "pl.reshape": "v = pl.reshape(t, [32, 32])",
    "pl.yield_": "for i, (c,) in pl.range(4, init_values=(t,)):\n    d = pl.exp(c)\n    r = pl.yield_(d)",
    "pl.at": "with pl.at(level=pl.Level.CORE_GROUP):\n    v = pl.exp(t)",
    "pl.tile.load": f"v: {T} = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)",
    "pl.read": "v = pl.read(x, [0, n])",
    "pl.assemble": "v = pl.assemble(t, t[0:8, :], [8, 0])",
    "pld.window": "b: pl.Ptr = pld.alloc_window_buffer(4096)\nv: pld.DistributedTensor[[16, 64], pl.FP32] = pld.window(b, [16, 64], dtype=pl.FP32)",
    "pl.matmul": "v = pl.matmul(left, right)",
    "pld.alloc_window_buffer": "v: pl.Ptr = pld.alloc_window_buffer(4096)",
    "pl.spmd": "for i in pl.spmd(8):\n    pass",
    "pl.move": "v = pl.move(m, target_memory=pl.Mem.Left)",
    "pl.full": "v = pl.full([16, 64], dtype=pl.FP32, value=0.0)",
    "pl.tile.store": "v: pl.Tensor[[64, 64], pl.FP32] = pl.tile.store(t, [0, 0], out)",
    "pl.pipeline": "for i in pl.pipeline(4, stage=2):\n    pass",
    "pl.submit": "v = pl.submit(self.g, x)",
    "pl.col_expand_mul": "v = pl.col_expand_mul(t, row)",
    "pl.dynamic": "v: pl.Scalar[pl.INDEX] = M + 1",
    "pl.sub": "v = pl.sub(t, t)",
    "pl.exp": "v = pl.exp(t)",
    "pld.world_size": "v = pld.world_size()",
    "pl.row_expand_mul": "v = pl.row_expand_mul(t, col)",
    "pl.parallel": "for i in pl.parallel(8):\n    pass",
    "pl.tile.add": f"v: {T} = pl.tile.add(t, t)",
    "pl.write": "pl.write(out, [0, n], f)",
    "pl.tensor.dim": "v: pl.Scalar[pl.INDEX] = pl.tensor.dim(x, 0)",
    "pl.matmul_acc": "acc = pl.matmul(left, right)\nv = pl.matmul_acc(acc, left, right)",
    "pl.tile.get_block_idx": "v: pl.Scalar[pl.INDEX] = pl.tile.get_block_idx()",
    "pl.const": "v: pl.Scalar[pl.INT32] = pl.const(3, pl.INT32)",
    "pl.manual_scope": "with pl.manual_scope():\n    pass",
    "pl.row_sum": "v = pl.row_sum(t, tmp)",
    "pl.min": "v = pl.min(n, 16)",
    "pl.max": "v = pl.max(n, 16)",
    "pl.tile.create": f"v: {T} = pl.tile.create([16, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)",
    "pl.array.create": "v = pl.array.create(4, dtype=pl.INT32)",
    "pl.tensor.read": "v: pl.Scalar[pl.FP32] = pl.tensor.read(x, [0, n])",
    "pl.tile.matmul": "v: pl.Tile[[64, 64], pl.FP32, pl.Mem.Acc] = pl.tile.matmul(left, right)",
    "pl.scope": "with pl.scope():\n    pass",
    "pl.maximum": "v = pl.maximum(t, 0.0)",
    "pl.minimum": "v = pl.minimum(t, t)",
    "pl.set_validshape": "v = pl.set_validshape(t, n, 64)",
    "pl.recip": "v = pl.recip(t)",
    "pl.tile.move": "v = pl.tile.move(m, target_memory=pl.Mem.Right)",
    "pl.gather": "v = pl.gather(t, ix, tmp)",
    "pl.tile.reshape": "v: pl.Tile[[32, 32], pl.FP32, pl.Mem.Vec] = pl.tile.reshape(t, [32, 32])",
    "pl.tile.slice": "v: pl.Tile[[8, 64], pl.FP32, pl.Mem.Vec] = pl.tile.slice(t, [8, 64], [0, 0])",
    "pl.system.task_invalid": "v: pl.Scalar[pl.TASK_ID] = pl.system.task_invalid()",
    "pl.tile.alloc": "v: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 4096)",
    "pl.tile.full": f"v: {T} = pl.tile.full([16, 64], dtype=pl.FP32, value=0.5)",
    "pld.system.notify": "pld.system.notify(x, n)",
    "pl.tile.extract": "v: pl.Tile[[16, 16], pl.FP32, pl.Mem.Left] = pl.tile.extract(m, 0, n, [16, 16], target_memory=pl.Mem.Left)",
    "pl.row_max": "v = pl.row_max(t, tmp)",
    "pl.fillpad": "v = pl.fillpad(t, pad_value=pl.PadValue.zero)",
    "pl.reserve_buffer": "v = pl.reserve_buffer(name='b', size=4096, base=0)",
    "pl.div": "v = pl.div(t, t)",
    "pl.tile.set_validshape": f"v: {T[:-1]}, pl.TileView(valid_shape=[n, 64])] = pl.tile.set_validshape(t, n, 64)",
    "pl.row_expand_div": "v = pl.row_expand_div(t, col)",
    "pld.tensor.allreduce": "v: pl.Tensor[[64, 64], pl.FP32] = pld.tensor.allreduce(x)",
    "pl.split_aiv": "for i in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n    pass",
    "pl.tensor.write": "pl.tensor.write(out, [0, n], f)",
    "pl.tile.muls": f"v: {T} = pl.tile.muls(t, f)",
    "pl.aiv_initialize_pipe": f"pl.aiv_initialize_pipe({PIPE})",
    "pl.unroll": "for i in pl.unroll(4):\n    pass",
    "pl.system.task_dummy": "v: pl.Scalar[pl.TASK_ID] = pl.system.task_dummy(deps=[])",
    "pl.tpop_from_aic": f"v: {T} = pl.tpop_from_aic(split=0)",
    "pld.system.wait": "pld.system.wait(x, n)",
    "pl.neg": "v = pl.neg(t)",
    "pl.arange": "v = pl.arange(0, [1, 64], dtype=pl.INT32)",
    "pl.import_peer_buffer": "v = pl.import_peer_buffer(name='b', peer_func='g')",
    "pl.split": "with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.LEFT_RIGHT)]):\n    pass",
    "pl.tile.mul": f"v: {T} = pl.tile.mul(t, t)",
    "pl.row_expand_sub": "v = pl.row_expand_sub(t, col)",
    "pl.create_tile": "v = pl.create_tile([16, 64], dtype=pl.FP32)",
    "pl.tensor.create": "v: pl.Tensor[[16, 64], pl.FP32] = pl.tensor.create([16, 64], dtype=pl.FP32, layout=pl.TensorLayout.ND)",
    "pl.aic_initialize_pipe": f"pl.aic_initialize_pipe({PIPE})",
    "pl.dim": "v = pl.dim(x, 0)",
    "pl.create": "v = pl.tile.create([16, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)",
    "pl.sqrt": "v = pl.sqrt(t)",
    "pl.rsqrt": "v = pl.rsqrt(t)",
    "pl.abs": "v = pl.abs(t)",
    "pl.get_block_idx": "v = pl.get_block_idx()",
    "pl.get_block_num": "v = pl.get_block_num()",
    "pl.mrgsort": "v = pl.mrgsort(t, 64)",
    "pl.sort32": "v = pl.sort32(t, ix)",
    "pl.col_expand": "v = pl.col_expand(t, row)",
    "pl.col_expand_add": "v = pl.col_expand_add(t, row)",
    "pl.col_sum": "v = pl.col_sum(t)",
    "pl.col_max": "v = pl.col_max(t)",
    "pl.cmp": "v = pl.cmp(t, t, cmp_type=4)",
    "pl.concat": "v = pl.concat(t, t)",
    "pl.transpose": "v = pl.transpose(t, 0, 1)",
    "pl.transpose_view": "v = pl.transpose_view(m)",
    "pl.gather_row": "v = pl.gather_row(t, x, [0, 0], [7, 0], [1, 64])",
    "pl.syncall": "pl.system.syncall()",
    "pl.async_prefetch": "pl.system.async_prefetch(x)",
    "pl.task_dummy": "v: pl.Scalar[pl.TASK_ID] = pl.system.task_dummy(deps=[])",
    "pld.tensor.put": "pld.tensor.put(x, out)",
    "pld.tile.remote_store": "pld.tile.remote_store(t, [0, 0], out)",
    "pld.get_comm_ctx": "v: pld.CommCtxType = pld.get_comm_ctx(x)",
    "pld.rank": "v = pld.rank()",
    "pld.nranks": "v = pld.nranks()",
}


def text_of(call: str) -> str:
    """A program with the statement of a call."""
    callee = function("return a", "a: pl.Tensor[[64, 64], pl.FP32]", "pl.Tensor[[64, 64], pl.FP32]").replace("def k(", "def g(")
    source = program(callee, function(TILES + USES[call], PARAMS), head='M = pl.dynamic("M")\n\n')
    return source.replace("language as pl\n", "language as pl\nimport pypto.language.distributed as pld\n")


def counted() -> set[str]:
    """The calls of the two lists of the specification."""
    table, kernels = SPEC.split("Real kernels only")
    rows = set(re.findall(r"^\| \d+ \| (pld?\.[\w.]+) \|", table, re.MULTILINE))
    names = re.findall(r"(?:^|, |: )(pld\.[a-z_.0-9]+|[a-z_0-9]+) \d+", kernels.split("Reading:")[0].split("top 80:")[1].replace("\n", " "))
    return rows | {name if name.startswith("pld.") else f"pl.{name}" for name in names}


def test_every_counted_call_has_a_statement() -> None:
    assert len(counted()) > 100
    assert counted() - USES.keys() == set()


@pytest.mark.parametrize("call", USES)
def test_a_counted_call_is_read_as_it_is_typed(call: str) -> None:
    printed = read_printed(text_of(call), "p.py")
    assert [str(w) for w in printed.warnings] == []
    assert [str(d) for d in verify_program(printed.program)] == []
    text = write_text(printed.program)
    again = read_printed(text, "p.py")
    assert again.warnings == () and write_text(again.program) == text


FORMS = {
    "header": (r"^# pypto\.program: \w+\nimport pypto\.language as pl$", r'^M = pl\.dynamic\("M"\)$', r"^@pl\.program\nclass \w+:$"),
    "decorators": (
        r"@pl\.function\n", r"type=pl\.FunctionType\.InCore", r"FunctionType\.AIC\b", r"FunctionType\.AIV\b", r"FunctionType\.Group",
        r"FunctionType\.Spmd", r"FunctionType\.Orchestration", r"level=pl\.Level\.CHIP_DIE", r"level=pl\.Level\.HOST", r"level=pl\.Level\.CHIP\b",
        r"role=pl\.Role\.SubWorker", r"role=pl\.Role\.Orchestrator", r"auto_scope=False", r'external_source="', r"FunctionType\.AIV, attrs=\{",
    ),
    "signatures": (r"def \w+\(self, ", r"def \w+\(\):", r"def \w+\(\w+: ", r"pl\.Out\[", r"pl\.InOut\[", r"\) -> pl\.", r"\) -> tuple\[pl\..*, "),
    "function attrs": (r"pl\.func_attr\(\{", r'"split": pl\.SplitMode\.UP_DOWN|"split": pl\.SplitMode\.LEFT_RIGHT', r'"dtype": pl\.FP16'),
    "bodies": (r"^ +pass$", r"^ +\.\.\.$", r"^ +return$", r"^ +return \w+$", r"^ +return \w+, \w+"),
    "comments": (r"^ +# \w.*\n +# ", r"^ +# .*\n +for ", r"^ +# .*\n +if ", r"^ +# .*\n +return"),
    "names": (r"\bi_1\b", r"__ssa_v\d", r"__iter_v\d", r"__rv_v\d", r"__phi_v\d", r"__idx_v\d"),
    "types": (
        r"pl\.Scalar\[pl\.BOOL\]", r"pl\.Tensor\[\[\w+, 64\], ", r"pl\.Tuple\[pl\.", r"pl\.Tuple\[\(\)\]", r"pl\.Array\[4, ", r": pl\.Ptr = ",
        r"N \* pl\.const\(2, pl\.INDEX\) \+ pl\.const\(1, pl\.INDEX\)", r"valid_shape=\[pl\.min\(\w+, pl\.const\(16, pl\.INDEX\)\)",
        r"\) // pl\.const\(8, pl\.INDEX\)", r"pld\.DistributedTensor\[", r"pl\.UnknownType", r"pld\.CommCtxType",
    ),
    "tensor views": (
        r"pl\.TensorView\(stride=\[\], layout=pl\.TensorLayout\.(DN|NZ)\)", r"stride=\[64, 1\]", r"MX_A_ZZ", r"MX_B_NN",
        r"pl\.TensorView\(valid_shape=\[.*pad=pl\.PadValue\.min\)", r"pl\.TensorView\(\)", r"pl\.FP32, pl\.NZ\]", r"pl\.FP32, pl\.ND\]",
    ),
    "tile views": (
        r"pl\.TileView\(valid_shape=", r"stride=\[64, 1\], start_offset=", r"blayout=pl\.TileLayout\.col_major", r"blayout=pl\.TileLayout\.row_major",
        r"slayout=pl\.TileLayout\.none_box", r"slayout=pl\.TileLayout\.col_major", r"fractal=\d", r"pad=pl\.PadValue\.zero", r"compact=pl\.CompactMode\.normal",
    ),
    "spaces": tuple(rf"pl\.Mem\.{m}\b" for m in ("Vec", "Mat", "Left", "Right", "Acc", "Bias", "LeftScale", "RightScale", "DDR")),
    "memrefs": (
        r"pl\.MemRef\(buf, 4096, 4096\)", r'pl\.MemRef\("\w+", 0, \d+\)', r'pl\.MemRef\("ping"\)', r"slots=2\)\[0\]", r"slots=2\)\[i % 2\]",
        r"pl\.tile\.alloc\(pl\.Mem\.Vec, \d+\)",
    ),
    "constants": (
        r"= -5$", r"pl\.const\(-?\d+, pl\.INT32\)", r"pl\.const\(1, pl\.BOOL\)", r"pl\.const\(1, pl\.FP16\)", r"pl\.const\(-0\.25, pl\.BF16\)",
        r"0\.10000000000000001", r"1e\+30", r"9\.9999999999999995e-08", r"10000000000000000\.0", r"= True$",
        r"pl\.const\(16, pl\.INDEX\) \* pl\.const\(4, pl\.INDEX\)",
    ),
    "operators": (
        r"\w \+ \w", r"\w - -1", r" \* ", r"\w / \w", r" // ", r" % ", r" << ", r" >> ", r" & ", r" \| ", r" \^ ", r" \*\* ", r"= -\w", r"= --\w", r"= ~\w",
        r" and ", r" or ", r"= not \w", r" == ", r" != ", r" < ", r" <= ", r" > ", r" >= ", r"pl\.min\(", r"pl\.max\(", r"abs\(n\)", r"pl\.cast\(\w+, pl\.INDEX\)",
    ),
    "tuples": (r"pl\.Tuple\[.*\] = \[\w+, \w+\]", r"\w\[0\]$", r"_tuple_tmp: pl\.Tuple\[", r"_submit_tmp: pl\.Tuple\["),
    "calls": (
        r"pl\.tile\.and_\(", r"pl\.tile\.or_\(", r"pl\.tile\.not_\(", r"mode='round'", r"target_type=pl\.", r"target_memory=pl\.Mem\.Vec", r"atomic=pl\.AtomicType\.Add",
        r"pl\.PipeType\.V\b", r"pl\.PadValue\.zero", r"pl\.TileLayout\.row_major", r"pl\.TensorLayout\.ND", r'attrs=\{"', r"__compiler_tensor_to_tile_mat_bridge",
        r"pl\.tile\.reinterpret_view\(\w+, dtype=.*, shape=\[", r"pl\.tile\.full\(\[.*\], dtype=.*, value=", r"scratch=", r"valid_shape=\[1, 60\]",
        r"pl\.tensor\.adds\(", r"= pld\.\w+\(|\bpld\.system\.", r"pl\.system\.bar_", r"pl\.tile\.tpush_to_ai[cv]\(", r"pl\.tile\.tpop_from_ai[cv]\(",
        r"pl\.tile\.store\(\w+, \[.*\], \w+, \[", r"shapes=\[", r"clamp=True", r"pl\.exp\(pl\.exp\(|pl\.add\(pl\.exp\(",
    ),
    "functions called": (
        r"self\.\w+\(\w+, ", r"device=1", r'attrs=\{"arg_directions": \[pl\.adir\.input, pl\.adir\.scalar, pl\.adir\.output_existing\]', r"pl\.adir\.inout",
        r"pl\.submit\(self\.", r"pl\.spmd_submit\(self\.", r"deps=\[\w+\]", r"dumps=\[", r"core_num=4", r"sync_start=True", r"allow_early_resolve=True", r"predicate=\(",
        r"pl\.system\.task_dummy\(deps=\[\w+, \w+\]\)",
    ),
    "statements": (r"^ +pl\.tensor\.write\(", r"^ +\w+: pl\.\S+ = \w+$", r"^ +\w+: .* = pl\.yield_\(\w+\)$", r"^ +\w+, \w+ = pl\.yield_\(\w+, \w+\)$"),
    "loops": (
        r"in pl\.range\(\w+\):", r"in pl\.range\(\w+, \w+\):", r"in pl\.range\(\w+, \w+, -?\w+\):", r"for \w+, \(\w+,\) in pl\.range\(.*init_values=\(\w+,\)\)",
        r"for \w+, \(\w+, \w+\) in pl\.range\(", r"in pl\.parallel\(", r"in pl\.unroll\(", r"in pl\.pipeline\(8, stage=2", r"stage=\d, init_values=",
        r"attrs=\{\"\w+\": \d", r"pl\.range\(pl\.const\(0, pl\.INT32\), ", r"pl\.range\(pl\.const\(4, pl\.INT64\)\)", r"0, -1\)",
        r"^ +while .*:$", r"for \(\w+,\) in pl\.while_\(init_values=\(\w+,\)\)", r"for \(\w+, \w+\) in pl\.while_\(", r"pl\.cond\(", r"^ +break$", r"^ +continue$",
    ),
    "branches": (r"^ +if .*:$", r"^ +else:$", r"^ *elif ", r"^ +else:\n +if "),
    "scopes": (
        r"with pl\.at\(level=pl\.Level\.CORE_GROUP\):", r"optimizations=\[pl\.split\(pl\.SplitMode\.UP_DOWN\)\]", r'name_hint="\w+"', r"\) as tid:", r"no_dep_args=\[",
        r"with pl\.cluster\(\):", r"with pl\.spmd\(", r"for \w+ in pl\.spmd\(8", r"for \w+ in pl\.split_aiv\(2, mode=pl\.SplitMode\.",
        r"with pl\.scope\(mode=pl\.ScopeMode\.MANUAL\):", r"with pl\.scope\(\):", r"with pl\.manual_scope\(\):", r"pl\.tile\.aiv_shard\(\w+\)",
    ),
    "typed by hand": (
        r"^ *\w+ = pl\.load\(", r"pl\.add\(\w+, 2\)", r"pl\.create_tile\(", r"pl\.create_tensor\(", r"pl\.full\(", r"out = pl\.store\(\w+, \[.*\], out\)", r"pl\.arange\(",
        r"= t\[0:8, :\]", r"= t\[n, 3\]", r"= t\[2, 0:32\]", r"t\[8:16, :\] = u", r"^ *v, w = n, 2", r"TILE \* 2", r"n \+= 2", r"pl\.load\(.*shapes=\[",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def texts() -> str:
    """Everything in the printed form that tests of this folder read."""
    forms, sugar = test_printed_forms, test_printed_sugar
    pieces = [path.read_text() for path in sorted((SHARED / "dumps").glob("*.py"))]
    pieces += [Path(module.__file__ or "").read_text() for module in (forms, sugar)]
    pieces += [f"v: pl.Scalar[pl.{dtype}] = {expression}" for dtype, expression in forms.SCALARS]
    pieces += [*forms.TYPES, *(textwrap.dedent(s) for s in forms.STATEMENTS.values())]
    pieces += [*sugar.SHORT, *sugar.ON_TILES, *sugar.OLD, *(body for body, _ in sugar.REBOUND.values())]
    pieces += [write_text(test_printed_ops.program(op)) for op in all_ops()]
    return "\n".join([*pieces, *map(text_of, USES)])


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_the_specification_occurs_in_texts_that_are_read(form: str, texts: str) -> None:
    assert [pattern for pattern in FORMS[form] if not re.search(pattern, texts, re.MULTILINE)] == []


def test_every_op_occurs_in_texts_that_are_read(texts: str) -> None:
    printed = {name.replace("pl.", "", 1) if name.startswith("pl.") else name for name in re.findall(r"\bpld?(?:\.\w+)+(?=\()", texts)}
    assert [op.name for op in all_ops() if op.name not in printed and f"{op.name}_" not in printed] == []
