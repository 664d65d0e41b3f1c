# ruff: noqa: E501 (a printed statement stands on one line)
"""Every form of the printed language in canonical spelling: read and written to the same bytes, as text and
through program files."""

from __future__ import annotations

import re

import pytest
from printed_support import assert_canonical, function, program, read, text

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Unary, Var, index
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.printed.program_writer import write_text
from pypto_ir.stmt import Assign, Call, Function, Program
from pypto_ir.types import INDEX

T = "pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec]"
LOAD = f"t: {T} = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)"

SCALARS = [
    ("INDEX", "n + 1"),
    ("INDEX", "-5"),
    ("INDEX", "n - (n - 2)"),
    ("INDEX", "n - 2 - 3"),
    ("INDEX", "(n + 1) * (n - 1)"),
    ("INDEX", "n // 4 % 3"),
    ("INDEX", "n // (4 % n)"),
    ("INDEX", "n + n << 2"),
    ("INDEX", "(n << 2) + (n >> 1)"),
    ("INDEX", "n & 7 | n ^ 3"),
    ("INDEX", "n ** 2"),
    ("INDEX", "(-n) ** 2"),
    ("INDEX", "-n ** 2"),
    ("INDEX", "n ** -1"),
    ("INDEX", "n ** (-n)"),
    ("INDEX", "n ** (n ** 2)"),
    ("INDEX", "(n ** n) ** 2"),
    ("INDEX", "--n"),
    ("INDEX", "n - -1"),
    ("INDEX", "-(n + 1)"),
    ("INDEX", "~n"),
    ("INDEX", "abs(n)"),
    ("INDEX", "pl.min(16, n - 1)"),
    ("INDEX", "pl.max(pl.min(n, 4), 0)"),
    ("INDEX", "pl.min(2, 3)"),
    ("INDEX", "pl.const(16, pl.INDEX) * pl.const(4, pl.INDEX)"),
    ("INDEX", "n + pl.const(2, pl.INDEX) * pl.const(3, pl.INDEX)"),
    ("INDEX", "-pl.const(5, pl.INDEX)"),
    ("INDEX", "-pl.const(-5, pl.INDEX)"),
    ("INDEX", "pl.cast(f, pl.INDEX)"),
    ("INT32", "i + pl.const(7, pl.INT32)"),
    ("INT32", "pl.const(-1, pl.INT32)"),
    ("INT32", "pl.cast(n, pl.INT32)"),
    ("INT32", "pl.cast(5, pl.INT32)"),
    ("INT32", "pl.cast(i, pl.INDEX) % 7"),
    ("INT64", "pl.const(9223372036854775807, pl.INT64)"),
    ("UINT8", "pl.const(255, pl.UINT8)"),
    ("FP32", "f * 2.5"),
    ("FP32", "f / 3.0"),
    ("FP32", "0.10000000000000001"),
    ("FP32", "1e+30"),
    ("FP32", "-9.9999999999999995e-08"),
    ("FP32", "10000000000000000.0"),
    ("FP32", "-0.0"),
    ("FP32", "pl.const(0.5, pl.FP32) * pl.const(2.0, pl.FP32)"),
    ("FP32", "pl.const(1, pl.FP32)"),
    ("FP32", "f + pl.const(1, pl.FP32)"),
    ("BF16", "pl.const(-0.25, pl.BF16)"),
    ("FP16", "pl.const(1, pl.FP16)"),
    ("FP16", "pl.const(1e999, pl.FP16)"),
    ("FP32", "pl.const(-1e999, pl.FP32)"),
    ("FP32", "pl.const(1e999 - 1e999, pl.FP32)"),
    ("BOOL", "True"),
    ("BOOL", "pl.const(1, pl.BOOL)"),
    ("BOOL", "not q"),
    ("BOOL", "not n < 2"),
    ("BOOL", "n < 2 and (q or n >= 3)"),
    ("BOOL", "q and q and q"),
    ("BOOL", "q and (q and q)"),
    ("BOOL", "q or q and not q"),
    ("BOOL", "n != 0 or n <= 1 or n > 5 or n == 2"),
]


@pytest.mark.parametrize(("dtype", "expression"), SCALARS, ids=lambda v: v)
def test_scalar_expressions(dtype: str, expression: str) -> None:
    assert_canonical(text(f"v: pl.Scalar[pl.{dtype}] = {expression}"))


TYPES = [
    "pl.Tensor[[N, 64], pl.FP32]",
    "pl.Tensor[[N * pl.const(2, pl.INDEX) + pl.const(1, pl.INDEX), 64], pl.FP32]",
    "pl.Tensor[[pl.min(N, pl.const(16, pl.INDEX)), (N + pl.const(7, pl.INDEX)) // pl.const(8, pl.INDEX)], pl.FP16]",
    "pl.Tensor[[4, 64], pl.BF16, pl.TensorView(stride=[], layout=pl.TensorLayout.DN)]",
    "pl.Tensor[[4, 64], pl.BF16, pl.TensorView(stride=[64, 1], layout=pl.TensorLayout.ND)]",
    "pl.Tensor[[4, 64], pl.BF16, pl.TensorView(valid_shape=[N, 60], stride=[], layout=pl.TensorLayout.ND, pad=pl.PadValue.min)]",
    'pl.Tensor[[4, 64], pl.FP32, pl.MemRef("gm", 0, 1024)]',
    'pl.Tensor[[4, 64], pl.FP32, pl.TensorView(stride=[], layout=pl.TensorLayout.NZ), pl.MemRef("gm", 0, 1024)]',
    "pl.Tile[[4, 64], pl.FP4]",
    "pl.Tile[[4, 64], pl.FP32, pl.Mem.DDR]",
    "pl.Tile[[64, 1], pl.FP32, pl.Mem.Vec, pl.TileView(blayout=pl.TileLayout.row_major)]",
    "pl.Tile[[64, 64], pl.FP8E5M2, pl.Mem.Mat, pl.TileView(slayout=pl.TileLayout.none_box)]",
    "pl.Tile[[64, 64], pl.FP32, pl.Mem.Acc, pl.TileView(valid_shape=[N, 64], stride=[64, 1], start_offset=N * pl.const(4, pl.INDEX), blayout=pl.TileLayout.row_major, fractal=512, pad=pl.PadValue.zero, compact=pl.CompactMode.normal)]",
    'pl.Tile[[64, 64], pl.FP32, pl.MemRef("ring", slots=2)[N % 2], pl.Mem.Vec]',
    'pl.Tile[[64, 64], pl.FP32, pl.MemRef("ping"), pl.Mem.LeftScale]',
    "pl.Scalar[pl.TASK_ID]",
    "pl.Tuple[()]",
    "pl.Tuple[pl.Scalar[pl.INT8], pl.Tuple[pl.Ptr]]",
    "pl.Array[4, pl.INT32]",
    "pl.Ptr",
    "pl.UnknownType",
]


@pytest.mark.parametrize("t", TYPES)
def test_types(t: str) -> None:
    head = 'N = pl.dynamic("N")\n\n' if re.search(r"\bN\b", t) else ""
    assert_canonical(program(function("pass", params=f"a: {t}"), head=head))


@pytest.mark.parametrize("direction", ["Out", "InOut"])
def test_directions(direction: str) -> None:
    f = assert_canonical(text("pass", params=f"a: pl.{direction}[pl.Tensor[[4], pl.FP32]]")).functions[0]
    assert f.params[0].direction == direction


def test_distributed_tensors_print_with_their_own_prefix() -> None:
    source = text("pass", params="a: pld.DistributedTensor[[4], pl.FP32], c: pld.CommCtxType")
    source = source.replace("language as pl\n", "language as pl\nimport pypto.language.distributed as pld\n")
    assert assert_canonical(source).functions[0].params[0].var.type.distributed  # type: ignore[union-attr]


STATEMENTS = {
    "loops": """
        for a in pl.range(4):
            pass
        for b in pl.range(1, n):
            pl.system.bar_all()
        for c in pl.parallel(0, 8, 2):
            pass
        for d in pl.unroll(3):
            pass
        for e in pl.pipeline(8, stage=2):
            pass
        for g in pl.range(8, 0, -1):
            break
        for h in pl.range(pl.const(4, pl.INT64)):
            continue
        for j in pl.range(4, attrs={"lanes": 4, "note": "h\\"i", "hot": True, "rate": 0.5}):
            pass
    """,
    "carries": """
        for a, (b,) in pl.pipeline(0, n, 2, stage=3, init_values=(0,), attrs={"k": 1}):
            c: pl.Scalar[pl.INDEX] = b + a
            d: pl.Scalar[pl.INDEX] = pl.yield_(c)
        for e, (g, h) in pl.range(n, init_values=(d, f)):
            j, k_1 = pl.yield_(g, h)
        for (l, m) in pl.while_(init_values=(j, k_1)):
            pl.cond(l < 10)
            o: pl.Scalar[pl.INDEX] = l + 1
            p, r = pl.yield_(o, m)
        for (s,) in pl.while_(init_values=(p,)):
            pl.cond(s < 10)
            u: pl.Scalar[pl.INDEX] = pl.yield_(s + 1)
    """,
    "while": """
        while q:
            while n < 4 and q:
                break
            continue
    """,
    "branches": """
        if q:
            pass
        if n == 0:
            a: pl.Scalar[pl.INDEX] = pl.yield_(n + 1)
        else:
            a: pl.Scalar[pl.INDEX] = pl.yield_(2)
        if q:
            b, c = pl.yield_(a, f)
        else:
            if n > 1:
                d: pl.Scalar[pl.INDEX] = pl.yield_(1)
            else:
                d: pl.Scalar[pl.INDEX] = pl.yield_(n)
            b, c = pl.yield_(d, 0.5)
    """,
    "phi without a space": f"""
        {LOAD}
        if q:
            y: pl.Tile[[16, 64], pl.FP32] = pl.yield_(t)
        else:
            y: pl.Tile[[16, 64], pl.FP32] = pl.yield_(t)
        z: {T} = pl.tile.exp(y)
    """,
    "comments": """
        # one
        # two
        a: pl.Scalar[pl.INDEX] = n
        # on a loop
        for b in pl.range(2):
            # inside
            if q:
                #
                # "quoted" # twice
                break
        # last
        return
    """,
    "calls": f"""
        {LOAD}
        a: pl.Tile[[16, 64], pl.FP16, pl.Mem.Vec] = pl.tile.cast(t, target_type=pl.FP16, mode='rint', attrs={{"k": [1, 2], "dtype": pl.FP16, "e": pl.Kind.Some, "v": [n], "none": None}})
        b: pl.Tile[[16, 64], pl.INT16, pl.Mem.Vec] = pl.tile.unheard_of(a, n + 1, [n, 0], word='x\\'y', space=pl.Mem.Mat, flag=False, odd=pl.Odd.Member, deep={{"k": 1}})
        c: pl.Tile[[16, 64], pl.INT16, pl.Mem.Vec] = pl.tile.not_(b)
        d: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 8192)
        e: pl.Tile[[16, 64], pl.FP32, pl.MemRef(d, n * 4, 4096), pl.Mem.Vec] = pl.tile.exp(t)
        g: pl.Tuple[pl.Scalar[pl.INDEX], pl.Scalar[pl.FP32]] = [n, f]
        h: pl.Scalar[pl.FP32] = g[1]
        j: pl.Scalar[pl.FP32] = h
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
    """,
    "scopes": """
        with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)], name_hint="h", deps=[n], no_dep_args=[x], dumps=[x]) as tid:
            a: pl.Scalar[pl.INDEX] = n
        with pl.at(level=pl.Level.HOST, role=pl.Role.SubWorker):
            pass
        with pl.cluster():
            with pl.spmd(n + 1):
                pass
        for b in pl.spmd(8, sync_start=True, name_hint="l_spmd"):
            c: pl.Scalar[pl.INDEX] = b + a
        for d in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
            pass
        for e in pl.split_aiv(4, mode=pl.SplitMode.NONE):
            pass
        with pl.scope():
            pass
        with pl.scope(mode=pl.ScopeMode.MANUAL):
            g: pl.Scalar[pl.INDEX] = c
        return
    """,
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements(name: str) -> None:
    assert_canonical(text(STATEMENTS[name]))


def test_functions_in_order_with_their_decorators() -> None:
    f = "x: pl.Tensor[[4], pl.FP32]"
    source = program(
        function("return x", f, "pl.Tensor[[4], pl.FP32]", "").replace("def k(", "def b(self, "),
        function("return x, x", f, "tuple[pl.Tensor[[4], pl.FP32], pl.Tensor[[4], pl.FP32]]", "").replace("def k(", "def z(self, "),
        function(
            """
            pl.func_attr({"tag": 1, "who": "a\\\\b", "dtype": pl.FP16, "split": pl.SplitMode.LEFT_RIGHT})
            y: pl.Tensor[[4], pl.FP32] = self.b(x, device=1, attrs={"arg_directions": [pl.adir.input]})
            _tuple_tmp: pl.Tuple[pl.Tensor[[4], pl.FP32], pl.Tensor[[4], pl.FP32]] = self.z(y)
            u: pl.Tensor[[4], pl.FP32] = _tuple_tmp[0]
            _submit_tmp: pl.Tuple[pl.Tensor[[4], pl.FP32], pl.Scalar[pl.TASK_ID]] = pl.submit(self.b, u, deps=[], dumps=[x], sync_start=True, allow_early_resolve=True, predicate=(x, 'eq', 1))
            t: pl.Scalar[pl.TASK_ID] = _submit_tmp[1]
            _submit_tmp_1: pl.Tuple[pl.Tensor[[4], pl.FP32], pl.Scalar[pl.TASK_ID]] = pl.spmd_submit(self.b, u, deps=[t], core_num=4)
            v: pl.Scalar[pl.TASK_ID] = pl.system.task_dummy(deps=[t])
            return u
            """,
            f,
            "pl.Tensor[[4], pl.FP32]",
            "(type=pl.FunctionType.Orchestration, level=pl.Level.CHIP, role=pl.Role.Orchestrator, auto_scope=False)",
        ).replace("def k(", "def a(self, "),
        function("...", f, decorator='(level=pl.Level.HOST, role=pl.Role.SubWorker, external_source="k.cpp")').replace("def k(", "def c("),
        function(
            "total = 0\nfor row in x:\n    total += 1\n\n    print(total)",
            f,
            decorator="(level=pl.Level.HOST, role=pl.Role.SubWorker)",
        ).replace("def k(", "def d("),
    )
    p = assert_canonical(source)
    assert [g.name for g in p.functions] == ["b", "z", "a", "c", "d"]
    assert p.function("a").attrs[0] == ("tag", 1)  # type: ignore[union-attr]
    assert p.function("d").verbatim == "total = 0\nfor row in x:\n    total += 1\n\n    print(total)"  # type: ignore[union-attr]


def test_functions_in_a_cycle_stand_by_name() -> None:
    names = ("c", "a", "b")
    calls = {"a": "b", "b": "c", "c": "a"}
    parts = [function(f"self.{calls[n]}()", "", decorator="").replace("def k(", f"def {n}(self").replace("(self)", "(self)") for n in names]
    written = write_text(read(program(*parts)))
    assert [line.split("(")[0].split()[1] for line in written.split("\n") if line.startswith("    def ")] == [
        "a",
        "b",
        "c",
    ]


def test_an_empty_lane_loop_at_the_end_of_a_function_is_followed_by_a_blank_line() -> None:
    one = function("for i in pl.spmd(8):\n    pass", "", decorator="").replace("def k(", "def a(self")
    two = function("pass", "", decorator="").replace("def k(", "def b(self")
    assert_canonical(program(one + "\n", two))


def test_dynamic_dims_are_sorted_and_unused_ones_left_out() -> None:
    f = function("pass", params="a: pl.Tensor[[M, A], pl.FP32]")
    head = 'B = pl.dynamic("B")\nM = pl.dynamic("M")\nA = pl.dynamic("A")\n\n'
    written = write_text(read(program(f, head=head)))
    assert 'A = pl.dynamic("A")\nM = pl.dynamic("M")\n\n@pl' in written and '"B"' not in written


def test_target_and_ranges_are_kept_in_the_head() -> None:
    source = text("pass")
    source = source.replace("P\nimport", "P\n# pypto-eqsat.target: ascend950\n# pypto-eqsat.range: k.n = -3..8\nimport")
    p = assert_canonical(source)
    assert p.target == "ascend950" and p.functions[0].params[1].range == (-3, 8)


def test_names_that_printed_text_uses_itself_are_renamed() -> None:
    pl = Var("pl", INDEX)
    f = Function("k", body=(Assign((pl,), index(1)), Assign((Var("pl_1", INDEX),), pl)), kind="InCore")
    assert_canonical(write_text(Program("P", (f,))))
    assert "pl_2: pl.Scalar[pl.INDEX] = 1\n        pl_1: pl.Scalar[pl.INDEX] = pl_2" in write_text(Program("P", (f,)))


def test_what_the_writer_fills_in_for_ops() -> None:
    t = read(text(LOAD)).functions[0].body[0]
    assert isinstance(t, Assign)
    cast = Assign((t.targets[0],), Call("tile.cast", (t.targets[0],), (("target_type", "FP16"),)))
    add = Assign((t.targets[0],), Call("tensor.add", (t.targets[0], Const(1.0, DType.FP32))))
    written = write_text(Program("P", (Function("k", body=(cast, add)),)))
    assert "pl.tile.cast(t, target_type=pl.FP16, mode='round')" in written
    assert "pl.tensor.adds(t, 1.0)" in written


def test_implied_casts() -> None:
    f = read(text("a: pl.Scalar[pl.INDEX] = i + 1\nb: pl.Scalar[pl.BOOL] = i == 0\nc: pl.Scalar[pl.INDEX] = 16 * 4 + n")).functions[0]
    i, n = f.params[2].var, f.params[1].var
    values = [s.value for s in f.body if isinstance(s, Assign)]
    assert values == [
        Binary("add", Cast(i, DType.INDEX), index(1)),
        Binary("eq", Cast(i, DType.INDEX), index(0)),
        Binary("add", index(64), n),
    ]


def test_trees_that_look_alike_differ() -> None:
    f = read(text("a: pl.Scalar[pl.INDEX] = -5\nb: pl.Scalar[pl.INDEX] = -pl.const(5, pl.INDEX)")).functions[0]
    assert [s.value for s in f.body if isinstance(s, Assign)] == [index(-5), Unary("neg", index(5))]


def test_names_that_program_files_do_not_have_are_renamed_in_them() -> None:
    body = f"""
        {LOAD}
        max: pl.Scalar[pl.INDEX] = n
        min: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 4096)
        abs: pl.Tile[[16, 64], pl.FP32, pl.MemRef(min, max * 4, 64), pl.Mem.Vec, pl.TileView(valid_shape=[max, 64])] = pl.tile.load(x, [max, 0], [16, 64], [max, 64], target_memory=pl.Mem.Vec)
        for true, (cast,) in pl.range(max, init_values=(abs,)):
            if true > 2:
                false: {T} = pl.yield_(t)
            else:
                false: {T} = pl.yield_(t)
            pl.system.say(at=[max], deep={{"k": true}})
            max_1: pl.Tile[[16, 64], pl.FP32, pl.MemRef(min, max * 4, 64), pl.Mem.Vec, pl.TileView(valid_shape=[max, 64])] = pl.yield_(cast)
    """
    source = text(body)
    first = read(source)
    assert write_text(first) == source
    again = read_program(write_program(first))
    assert {"max_2", "min_1", "abs_1", "true_1", "cast_1", "false_1"} <= set(re.findall(r"\w+_\d", write_text(again)))
    assert write_program(read(write_text(again))) == write_program(first)
