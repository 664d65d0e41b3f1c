"""What programs typed by hand may leave out, and old spellings: read to the canonical form."""

from __future__ import annotations

import textwrap

import pytest
from effort import calls_of
from printed_support import PARAMS, body_of, function, program, read, text

from pypto_ir.printed.program_writer import write_text
from pypto_ir.verify import verify_program

T = "pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec]"
LOAD = f"t: {T} = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)"
V = "v: pl.Scalar[pl.INDEX] = "

SHORT = {
    "t = pl.load(x, [0, 0], [16, 64])": LOAD,
    "t = pl.load(x, offsets=[0, 0], shapes=[16, 64])": LOAD,
    "t = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)": LOAD,
    "c = pl.create_tile([16, 64], dtype=pl.FP32)": f"c: {T} = pl.tile.create([16, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)",
    "c = pl.tile.full([16, 64], pl.FP32, 1)": f"c: {T} = pl.tile.full([16, 64], dtype=pl.FP32, value=1)",
    "v = n + 1": f"{V}n + 1",
    "v, w = n, 2": f"{V}n\nw: pl.Scalar[pl.INDEX] = 2",
    "n += 2": "n_1: pl.Scalar[pl.INDEX] = n + 2",
    "v: pl.Scalar[pl.INT32] = 5": "v: pl.Scalar[pl.INT32] = pl.const(5, pl.INT32)",
    "v: pl.Scalar[pl.BF16] = -0.5": "v: pl.Scalar[pl.BF16] = pl.const(-0.5, pl.BF16)",
    "v = 16 * 4 + 2": f"{V}66",
    "v = n + (2 + 3)": f"{V}n + 5",
    "v = n + 2 + 3": f"{V}n + 2 + 3",
    "v = TILE * 2 + n": f"{V}32 + n",
    "v = pl.tile.get_block_idx() * 2": "get_block_idx_tmp: pl.Scalar[pl.INDEX] = pl.tile.get_block_idx()\n" + V + "get_block_idx_tmp * 2",
    "with pl.manual_scope():\n    pass": "with pl.scope(mode=pl.ScopeMode.MANUAL):\n    pass",
    'for i_1 in pl.spmd(4, name_hint="a"):\n    pass': 'for i_1 in pl.spmd(4, name_hint="a_spmd"):\n    pass',
    "if q:\n    pass\nelse:\n    pass": "if q:\n    pass",
    "if q:\n    pass\nelif n > 2:\n    break_ = 1": "if q:\n    pass\nelse:\n    if n > 2:\n        break_: pl.Scalar[pl.INDEX] = 1",
    '"""Says what."""\nreturn': "# Says what.\nreturn",
    "v = n  # beside": f"# beside\n{V}n",
}


@pytest.mark.parametrize("short", SHORT)
def test_short_forms(short: str) -> None:
    assert body_of(program(function(short), head="TILE = 16\n\n")) == SHORT[short]


ON_TILES = {
    "u = pl.add(t, t)": "pl.tile.add(t, t)",
    "u = pl.add(t, 2)": "pl.tile.adds(t, 2.0)",
    "u = pl.mul(t, f)": "pl.tile.muls(t, f)",
    "u = pl.exp(t)": "pl.tile.exp(t)",
    "u = t[0:8, :]": "pl.tile.slice(t, [8, 64], [0, 0])",
    "u = t[n:n + 8, 32:64]": "pl.tile.slice(t, [8, 32], [n, 32])",
    "u = t[2, 0:32]": "pl.tile.slice(t, [1, 32], [2, 0], [], [0])",
    "u = t[n, 3]": "pl.tile.read(t, [n, 3])",
    "u = pl.cast(t, pl.FP16)": "pl.tile.cast(t, target_type=pl.FP16, mode='round')",
    "u = pl.cast(t, target_type=pl.FP16, mode='rint')": "pl.tile.cast(t, target_type=pl.FP16, mode='rint')",
    "u = pl.store(t, [0, 0], out)": "pl.tile.store(t, [0, 0], out)",
    "u = pl.tile.store(t, [0, 0], out, shapes=[16, 64])": "pl.tile.store(t, [0, 0], out, [16, 64])",
    "u = pl.move(t, target_memory=pl.Mem.Mat)": "pl.tile.move(t, target_memory=pl.Mem.Mat)",
    "u = pl.reshape(t, [32, 32])": "pl.tile.reshape(t, [32, 32])",
}


@pytest.mark.parametrize("short", ON_TILES)
def test_ops_are_chosen_by_their_operands(short: str) -> None:
    last = body_of(text(f"{LOAD}\n{short}")).split("\n")[-1]
    assert last.startswith("u: pl.") and last.endswith(f" = {ON_TILES[short]}")


def test_calls_inside_operands_are_bound_once_and_in_order() -> None:
    body = body_of(text(f"{LOAD}\nu = pl.add(pl.exp(t), pl.mul(pl.exp(t), 2.0))"))
    assert [line.split(" = ")[1] for line in body.split("\n")[1:]] == [
        "pl.tile.exp(t)",
        "pl.tile.exp(t)",
        "pl.tile.muls(exp_tmp_1, 2.0)",
        "pl.tile.add(exp_tmp, muls_tmp)",
    ]


def test_deep_calls_take_linear_time() -> None:
    def calls(depth: int) -> int:
        return calls_of(lambda: body_of(text(f"{LOAD}\nu = " + "pl.exp(" * depth + "t" + ")" * depth)))

    assert body_of(text(f"{LOAD}\nu = " + "pl.exp(" * 60 + "t" + ")" * 60)).count("pl.tile.exp(") == 60
    assert calls(60) < 4.4 * calls(15)


REBOUND = {
    "straight": ("t = pl.exp(t)\nt = pl.neg(t)", 2),
    "loop": ("for a in pl.range(n):\n    t = pl.exp(t)", 1),
    "branch": ("if q:\n    t = pl.exp(t)", 1),
    "branch with else": ("if q:\n    t = pl.exp(t)\nelse:\n    t = pl.neg(t)", 2),
    "nested": (
        "for a in pl.range(n):\n    for b in pl.range(2):\n        if q:\n            t = pl.exp(t)",
        1,
    ),
    "while": ("while n < 4:\n    t = pl.exp(t)\n    n = n + 1", 1),
    "temporaries": ("for a in pl.range(n):\n    w = pl.exp(t)\n    w = pl.neg(w)\n    t = pl.add(t, w)", 3),
}


@pytest.mark.parametrize("name", REBOUND)
def test_names_that_are_bound_again_become_carried_values(name: str) -> None:
    body, calls = REBOUND[name]
    source = text(f"{LOAD}\n{body}\nout = pl.store(t, [0, 0], out)\nreturn out", returns="pl.Tensor[[64, 64], pl.FP32]")
    result = read(source)
    assert [str(d) for d in verify_program(result)] == []
    written = write_text(result)
    assert write_text(read(written)) == written
    assert sum(written.count(f"pl.tile.{op}(") for op in ("exp", "neg", "add")) == calls


def test_what_a_loop_binds_before_it_reads_is_not_carried() -> None:
    body = body_of(text("for a in pl.range(n):\n    w = a + 1\n    w = w * 2\nfor b in pl.range(n):\n    w = b\n    w = w + 3"))
    assert "init_values" not in body and "w_2" in body


def test_assignment_to_a_part_is_an_assemble() -> None:
    body = body_of(text(f"{LOAD}\nu = t[0:8, :]\nt[8:16, :] = u\nx[0, n] = 1.0\nw = pl.exp(t)"))
    assert body.split("\n")[2:] == [
        f"t_1: {T} = pl.tile.assemble(t, u, [8, 0])",
        "pl.tensor.write(x, [0, n], 1.0)",
        f"w: {T} = pl.tile.exp(t_1)",
    ]


OLD = {
    "pl.Tensor[[64, 64], pl.FP32, pl.NZ]": "pl.Tensor[[64, 64], pl.FP32, pl.TensorView(stride=[], layout=pl.TensorLayout.NZ)]",
    "pl.Tensor[[64, 64], pl.FP32, pl.ND]": "pl.Tensor[[64, 64], pl.FP32]",
    "pl.Tensor[[64, 64], pl.FP32, pl.TensorView()]": "pl.Tensor[[64, 64], pl.FP32]",
    "pl.Tile[[64, 64], pl.FP32, pl.TileView(), pl.Mem.Mat]": "pl.Tile[[64, 64], pl.FP32, pl.Mem.Mat]",
    "pl.Tile[[64, 64], pl.FP32, pl.Mem.Mat, pl.TileView(blayout=pl.TileLayout.col_major)]": "pl.Tile[[64, 64], pl.FP32, pl.Mem.Mat]",
    'pl.Tile[[64, 64], pl.FP32, pl.Mem.Vec, pl.MemRef("b")]': 'pl.Tile[[64, 64], pl.FP32, pl.MemRef("b"), pl.Mem.Vec]',
}


@pytest.mark.parametrize("old", OLD)
def test_old_spellings_of_types(old: str) -> None:
    assert f"def k(a: {OLD[old]}):" in write_text(read(program(function("pass", params=f"a: {old}"))))


def test_old_spellings_of_functions() -> None:
    source = program(
        function(
            "return a",
            "a: pl.Scalar[pl.INDEX]",
            "tuple[pl.Scalar[pl.INDEX]]",
            '(type=pl.FunctionType.AIV, attrs={"tag": 1})',
        )
    ).replace("def k(", "def k(self, ")
    assert textwrap.dedent(write_text(read(source)).split("class P:\n")[1]) == textwrap.dedent("""\
        @pl.function(type=pl.FunctionType.AIV, level=pl.Level.AIV, role=pl.Role.SubWorker)
        def k(a: pl.Scalar[pl.INDEX]) -> pl.Scalar[pl.INDEX]:
            pl.func_attr({"tag": 1})
            return a""")


def test_a_dim_is_named_by_its_string() -> None:
    source = program(
        function("v: pl.Scalar[pl.INDEX] = A", params="a: pl.Tensor[[A, B], pl.FP32]"),
        head='A = pl.dynamic("M")\nB = pl.dynamic("M")\n\n',
    )
    assert 'M = pl.dynamic("M")\n\n' in write_text(read(source)) and "pl.Tensor[[M, M], pl.FP32]" in write_text(read(source))


def test_parameters_may_be_bound_again() -> None:
    assert PARAMS.startswith("x:")
    assert body_of(text("x_1 = n\nx = pl.tensor.view(x, [32, 128])\nv = x_1")).split("\n")[1].startswith("x_2: pl.Tensor")
