"""Accumulator memory: where bytes lie, what a product writes, what each instruction reads."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from extract.target import load_target
from pypto_ir.acc_reads import AccReads
from pypto_ir.dtypes import DType
from pypto_ir.interp.compare import Verdict, equivalent
from pypto_ir.interp.l0c import AccTile, Accumulators, Storage, element, elements
from pypto_ir.interp.machine import run
from pypto_ir.interp.values import RunError
from pypto_ir.stmt import Program
from pypto_ir.types import Memory
from tests.acc_programs import Window, created, drained, factors, parameters, windowed, written
from tests.helpers import incore, kernel, let, load, loop, out, ret, scalar, store, tensor, tile

Q = scalar("v", range=(1, 32))


def verdict(p: Program, **more: Any) -> Verdict:
    return equivalent(p, p, p.functions[0].name, mode="l0c", reads=load_target(p.target).acc_reads, seconds=10.0, **more)


def right(p: Program, **more: Any) -> bool:
    """True where a program gives in accumulator memory what it gives by value; it must have run."""
    found = verdict(p, **more)
    assert found.difference is not None or found.validated, found.covered
    return found.equal


# ---- addresses ---------------------------------------------------------------------------------------------


def test_elements_lie_in_blocks_of_1024_bytes() -> None:
    """The two statements of `spec/hardware.md` 4.2 and `spec/flatten.md` 0.3, written out again."""
    for rows, columns in ((16, 16), (32, 64), (48, 32), (64, 16)):
        table = elements(rows, columns, rows)
        for r, c in product(range(rows), range(columns)):
            block = (c // 16) * (rows // 16) + r // 16
            assert table[r, c] * 4 == block * 1024 + (r % 16) * 64 + (c % 16) * 4 == element(r, c, rows) * 4
        assert sorted(table.ravel()) == list(range(rows * columns))


def test_a_column_window_begins_a_whole_column_of_blocks_later() -> None:
    whole = AccTile(Storage(16 * 256, DType.FP32), 0, 16, (16, 256), (16, 256), False, True)
    assert whole.window(0, 64, (16, 64)).byte == 4096
    tall = AccTile(Storage(48 * 64, DType.FP32), 0, 48, (48, 64), (48, 64), False, True)
    assert tall.window(16, 0, (16, 16)).byte == 1024
    assert tall.window(16, 32, (32, 32)).window(16, 16, (16, 16)).byte == tall.window(32, 48, (16, 16)).byte == (3 * 48 + 32) * 64


def test_a_product_knows_no_stride_but_its_own() -> None:
    """[16, 32] into rows 16.. of [32, 32]: the second block goes right behind the first, over rows that belong to column block 1."""
    acc = Accumulators(AccReads())
    whole = AccTile(Storage(32 * 32, DType.FP32), 0, 32, (32, 32), (32, 32), False, True)
    made = whole.window(16, 0, (16, 32))
    block = np.arange(16 * 32, dtype=np.float32).reshape(16, 32) + 1
    made.write(16, 32, acc.read(_filled(block), "tile.store", None), keep=False)
    found = acc.read(whole, "tile.store", None).data
    assert (found[16:, :16] == block[:, :16]).all() and (found[:16, 16:] == block[:, 16:]).all()
    assert not found[:16, :16].any() and not found[16:, 16:].any()


def _filled(block: Any) -> AccTile:
    rows, columns = block.shape
    source = AccTile(Storage(rows * columns, DType.FP32), 0, rows, (rows, columns), (rows, columns), False, True)
    source.fill(block, np.ones(block.shape, dtype=bool))
    return source


# ---- packing -----------------------------------------------------------------------------------------------

COLUMNS = [
    ((16, 128), [Window(0, 0, 16, 64), Window(0, 64, 16, 64)]),
    ((32, 96), [Window(0, 32 * b, 32, 32) for b in range(3)]),
    ((48, 64), [Window(0, 0, 48, 16), Window(0, 16, 48, 48)]),
    ((64, 64), [Window(0, 16, 64, 32)]),
]
NARROW = [
    ((32, 16), [Window(0, 0, 16, 16), Window(16, 0, 16, 16)]),
    ((48, 16), [Window(0, 0, 32, 16), Window(32, 0, 16, 16)]),
    ((48, 32), [Window(0, 0, 32, 16), Window(16, 16, 16, 16)]),
    ((64, 64), [Window(16, 48, 32, 16), Window(0, 0, 16, 16)]),
    ((32, 32), [Window(8, 0, 16, 16)]),
]
ROWS = [
    ((32, 64), [Window(0, 0, 16, 64), Window(16, 0, 16, 64)]),
    ((32, 32), [Window(16, 0, 16, 32)]),
    ((48, 64), [Window(0, 0, 32, 32), Window(32, 32, 16, 32)]),
    ((64, 48), [Window(0, 0, 48, 48)]),
]
ASKEW = [
    ((16, 32), [Window(0, 8, 16, 16)]),
    ((32, 64), [Window(0, 8, 32, 32)]),
    ((16, 64), [Window(0, 24, 16, 8), Window(0, 60, 16, 4), Window(0, 12, 16, 8)]),
]


@pytest.mark.parametrize(("shape", "windows"), [*COLUMNS, *NARROW])
@pytest.mark.parametrize("dtype", ["FP16", "INT8"])
def test_right_packing_gives_right_numbers(shape: tuple[int, int], windows: list[Window], dtype: str) -> None:
    for target in ("ascend910b", "ascend950"):
        assert right(windowed(shape, windows, dtype, target=target))
    assert right(drained(shape, windows))


@pytest.mark.parametrize(("shape", "windows"), ROWS)
def test_row_windows_wider_than_a_block_give_wrong_numbers(shape: tuple[int, int], windows: list[Window]) -> None:
    for target in ("ascend910b", "ascend950"):
        assert not right(windowed(shape, windows, target=target))
    assert not right(drained(shape, windows))
    assert not right(windowed(shape, windows), keep=True)
    assert equivalent(windowed(shape, windows), windowed(shape, windows), "main").equal, "buffer mode knows no blocks"


@pytest.mark.parametrize(("shape", "windows"), ASKEW)
def test_windows_that_begin_within_a_block_give_wrong_numbers(shape: tuple[int, int], windows: list[Window]) -> None:
    assert not right(windowed(shape, windows)) and not right(windowed(shape, windows), keep=True)


def test_what_a_product_leaves_in_its_last_blocks_is_undefined_unless_kept() -> None:
    low = windowed((32, 16), [Window(0, 0, 32, 16), Window(0, 0, 8, 16)])
    assert not right(low) and right(low, keep=True)
    slim = windowed((16, 16), [Window(0, 0, 16, 16), Window(0, 0, 16, 8)])
    assert not right(slim) and right(slim, keep=True)
    legacy = windowed((16, 16), [Window(0, 0, 8, 16), Window(8, 0, 8, 16)])
    assert right(legacy, keep=True)
    found = verdict(legacy)
    assert (
        found.difference is not None
        and "R011" not in found.difference.after
        and "of an accumulator of 1024 bytes" in found.difference.after
    )


def test_runtime_windows() -> None:
    """`row_windows` of the kernels is written row by row; the same in columns is right."""
    assert not right(kernel("row_windows"))
    windows = [Window(0, "n * 32", 16, 32)]
    assert right(windowed((16, 128), windows, scalars=[scalar("n", range=(0, 3))]))
    assert not right(windowed((64, 32), [Window("n * 16", 0, 16, 32)], scalars=[scalar("n", range=(0, 3))]))


# ---- partial valid rows ------------------------------------------------------------------------------------


def _plain(extra: list[Any], result: str, target: str, valid: Any = "v") -> Program:
    """x[32, 16] valid [v, 16] times y[16, 64], `extra` after it; the tile `result` is stored."""
    w = Window(0, 0, 32, 64, valid)
    body = [*factors(0, w, 0, "FP16"), let("m", "tile.matmul", "a0_0", "b0_0"), *extra, store("o", result, [0, 0], "out"), ret("o")]
    return incore([*parameters([w], "FP16", [Q]), out("out", 32, 64)], body, target=target)


@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
def test_compact_tiles_are_stored_with_the_rows_that_the_product_had(target: str) -> None:
    assert right(_plain([], "m", target))


@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
def test_compact_tiles_are_added_to_where_the_product_before_left_them(target: str) -> None:
    w = Window(0, 0, 32, 64, "v")
    more = [*factors(0, w, 1, "FP16"), let("n", "tile.matmul_acc", "m", "a0_1", "b0_1")]
    assert right(_plain(more, "n", target))


@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
def test_a_product_of_few_rows_in_a_tile_that_is_not_compact_is_read_wrongly(target: str) -> None:
    """The carry of `spec/flatten.md` 11: the accumulator is typed by its full init, the product is valid [v, 64]."""
    w = Window(0, 0, 32, 64, "v")
    view = let("s", "tile.set_validshape", "acc2", "v", 64)
    body = [
        created((32, 64), "FP16"),
        *factors(0, w, 0, "FP16"),
        let("acc2", "tile.matmul_acc", "acc", "a0_0", "b0_0", {"const": True, "dtype": "BOOL"}),
    ]
    params = [*parameters([w], "FP16", [Q]), out("out", 32, 64)]
    assert not right(incore(params, [*body, store("o", "acc2", [0, 0], "out"), ret("o")], target=target))
    assert not right(incore(params, [*body, view, store("o", "s", [0, 0], "out"), ret("o")], target=target))


@pytest.mark.parametrize("rows", [16, 17, 31, 32])
def test_whole_blocks_of_rows_need_no_compact_mode(rows: int) -> None:
    """17 and more of 32 rows are two blocks, as all 32 are."""
    body = let("s", "tile.set_validshape", "m", rows, 64)
    assert right(_plain([body], "s", "ascend910b", rows))
    w = Window(0, 0, 32, 64, rows)
    acc = let("n", "tile.matmul_acc", "acc", "a0_0", "b0_0", {"const": True, "dtype": "BOOL"})
    seen = let("s", "tile.set_validshape", "n", rows, 64)
    p = incore(
        [*parameters([w], "FP16"), out("out", 32, 64)],
        [created((32, 64), "FP16"), *factors(0, w, 0, "FP16"), acc, seen, store("o", "s", [0, 0], "out"), ret("o")],
    )
    assert right(p) == (rows > 16)


# ---- what reads --------------------------------------------------------------------------------------------

READERS = {
    # (op, space): rows of a block column on Ascend910B and Ascend950, as (not compact, compact) pairs, for 32 rows of which 9 are valid
    ("tile.store", None): ((32, 16), (32, 16)),
    ("tile.move", Memory.MAT): ((32, 32), (32, 32)),
    ("tile.move", Memory.VEC): ((32, 16), (32, 32)),
    ("tile.extract", Memory.MAT): ((32, 32), (32, 32)),
    ("tile.extract", Memory.VEC): ((32, 16), (32, 16)),
    ("tile.assemble", Memory.MAT): ((32, 32), (32, 32)),
    ("tile.assemble", Memory.VEC): ((32, 16), (16, 16)),
    ("tile.add", Memory.VEC): ((32, 16), (32, 32)),
}


@pytest.mark.parametrize("reader", READERS)
def test_each_instruction_has_its_own_stride(reader: tuple[str, Memory | None]) -> None:
    """`spec/hardware.md` 4.5; the valid rows are a constant of the type, which a move on Ascend950 asks for."""
    op, space = reader
    data = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    for a5, compact in product((False, True), repeat=2):
        storage = Storage(32 * 32, DType.FP32)
        storage.cells[:], storage.ok[:] = np.arange(32 * 32), True
        source = AccTile(storage, 0, 32, (32, 32), (9, 32), compact, True)
        stride = READERS[reader][a5][compact]
        found = Accumulators(AccReads(a5, a5)).read(source, op, space)
        wanted = np.array([[(c // 16 * stride + r) * 16 + c % 16 for c in range(32)] for r in range(9)])
        assert (found.data[:9] == wanted).all() and not found.ok[9:].any() and found.data.shape == data.shape


def test_a_move_on_ascend950_takes_the_valid_rows_where_they_are_not_constant() -> None:
    storage = Storage(32 * 32, DType.FP32)
    storage.cells[:], storage.ok[:] = np.arange(32 * 32), True
    source = AccTile(storage, 0, 32, (32, 32), (9, 32), False, fixed=False)
    assert Accumulators(AccReads(to_vec=True, by_valid_rows=True)).read(source, "tile.move", Memory.VEC).data[0, 16] == 16 * 16
    assert Accumulators(AccReads()).read(source, "tile.move", Memory.VEC).data[0, 16] == 32 * 16
    assert Accumulators(AccReads()).read(source, "tile.move", Memory.MAT).data[0, 16] == 32 * 16


def test_an_extract_begins_at_its_own_block() -> None:
    w = Window(0, 0, 32, 64)
    body = [*factors(0, w, 0, "FP16"), let("m", "tile.matmul", "a0_0", "b0_0")]
    for at, good in ((16, True), (8, False)):
        cut = let("e", "tile.extract", "m", 16, at, [16, 32], target_memory="Vec")
        p = incore(
            [*parameters([w], "FP16"), out("out", 16, 32)], [*body, cut, store("o", "e", [0, 0], "out"), ret("o")], target="ascend950"
        )
        assert right(p) == good


def test_an_accumulator_written_into_a_mat_tile() -> None:
    w = Window(0, 0, 32, 64)
    full = let("t", "tile.create", [64, 64], dtype="BF16", target_memory="Mat")
    into = let("u", "tile.assemble", "t", "m", [32, 0])
    move = let("left", "tile.slice", "u", [32, 64], [32, 0])
    body = [
        *factors(0, w, 0, "FP16"),
        let("m", "tile.matmul", "a0_0", "b0_0"),
        full,
        into,
        move,
        store("o", "left", [0, 0], "out"),
        ret("o"),
    ]
    assert right(incore([*parameters([w], "FP16"), out("out", 32, 64, dtype="BF16")], body))


# ---- all products ------------------------------------------------------------------------------------------


def test_every_kind_of_product_writes_blocks() -> None:
    params = [
        tensor("x", 16, 64, dtype="FP16"), tensor("r", 1, 64, dtype="FP16"), tensor("y", 64, 48, dtype="FP16"),
        tensor("bias", 1, 48), out("out", 16, 48), out("row", 16, 48),
    ]  # fmt: skip
    body = [
        load("a", "x", [0, 0], [16, 64], memory="Mat"),
        load("s", "r", [0, 0], [1, 64], memory="Mat"),
        load("b", "y", [0, 0], [64, 48], memory="Mat"),
        load("z", "bias", [0, 0], [1, 48], memory="Mat"),
        let("p", "tile.matmul_bias", "a", "b", "z"),
        let("q", "tile.matmul_acc", "p", "a", "b"),
        store("o", "q", [0, 0], "out"),
        let("g", "tile.gemv", "s", "b"),
        let("h", "tile.gemv_acc", "g", "s", "b"),
        store("w", "h", [0, 0], "row"),
        ret("o", "w"),
    ]
    assert right(incore(params, body))


def test_products_with_shared_scales() -> None:
    data, scale = {"dtype": "FP8E4M3FN"}, {"dtype": "FP8E8M0"}
    params = [tile("a", 16, 64, memory="Left", **data), tile("sa", 16, 2, memory="LeftScale", **scale)]
    params += [tile("b", 64, 64, memory="Right", **data), tile("sb", 2, 64, memory="RightScale", **scale), out("out", 16, 128)]
    body = [let("first", "tile.matmul_mx", "a", "sa", "b", "sb"), created((16, 128), "FP16")]
    acc = "acc"
    for b in range(2):
        at = [0, 64 * b]
        body += [
            let(f"w{b}", "tile.slice", acc, [16, 64], at),
            let(f"i{b}", "tile.matmul_acc", f"w{b}", "fa", "fb", {"const": True, "dtype": "BOOL"}),
            let(f"p{b}", "tile.matmul_mx_acc", f"i{b}", "a", "sa", "b", "sb"),
            let(f"acc{b}", "tile.assemble", acc, f"p{b}", at),
        ]
        acc = f"acc{b}"
    params += [tile("fa", 16, 16, memory="Left", dtype="FP16"), tile("fb", 16, 64, memory="Right", dtype="FP16")]
    body += [store("o", acc, [0, 0], "out"), store("o2", "first", [0, 0], "o"), ret("o2")]
    assert right(incore(params, body, target="ascend950"))


def test_a_predicate_that_is_undefined_leaves_nothing_defined() -> None:
    w = Window(0, 0, 16, 32)
    create = let("t", "tile.create", [1, 1], dtype="INT32", target_memory="Vec")
    body = [
        create, let("u", "tile.read", "t", [0, 0]), let("c", "tile.create", [16, 32], dtype="FP32", target_memory="Acc"),
        *factors(0, w, 0, "FP16"), *factors(0, w, 1, "FP16"),
        let("m", "tile.matmul", "a0_0", "b0_0"), let("n", "tile.matmul_acc", "m", "a0_1", "b0_1", 'u == cast(0, "INT32")'),
        store("o", "n", [0, 0], "out"), ret("o"),
    ]  # fmt: skip
    p = incore([*parameters([w], "FP16"), out("out", 16, 32)], body)
    buffer = run(p, "main", mode="l0c").memory["out"]
    assert not buffer.arrays()[1].any()


# ---- what no instruction does ------------------------------------------------------------------------------


def _refused(p: Program) -> str:
    with pytest.raises(RunError) as caught:
        run(p, "main", mode="l0c")
    assert caught.value.code == "R011"
    return caught.value.message


def test_only_products_write_accumulators() -> None:
    windows = [Window(0, 0, 16, 16), Window(0, 16, 16, 16)]
    params = [*parameters(windows, "FP16"), out("out", 16, 32)]
    start = [created((16, 32), "FP16"), *written(windows, "FP16")]
    ends = {
        "copies into it": let("z", "tile.assemble", "acc_1_1", "p0_1", [0, 16]),
        "writes an accumulator": let("z", "tile.fillpad_inplace", "acc_1_1"),
        "makes a tile in Acc": let("z", "tile.move", "acc_1_1", target_memory="Acc"),
    }
    for words, last in ends.items():
        assert words in _refused(incore(params, [*start, last, store("o", "acc_1_1", [0, 0], "out"), ret("o")]))


def test_another_shape_is_the_same_bytes() -> None:
    """[16, 64] seen as [32, 32] is no row-major reshape: the blocks stay where they are."""
    params = [tensor("x", 16, 16, dtype="FP16"), tensor("y", 16, 64, dtype="FP16"), out("out", 32, 32)]
    body = [
        load("a", "x", [0, 0], [16, 16], memory="Mat"),
        load("b", "y", [0, 0], [16, 64], memory="Mat"),
        let("m", "tile.matmul", "a", "b"),
        let("r", "tile.reshape", "m", [32, 32]),
        store("o", "r", [0, 0], "out"),
        ret("o"),
    ]
    p = incore(params, body)
    assert not right(p)
    given = np.arange(16 * 64).reshape(16, 64) % 1024
    cells = run(p, "main", {"x": np.eye(16, dtype=np.float16), "y": given.astype(np.float16)}, mode="l0c").memory["out"].arrays()[0]
    flat = np.zeros(16 * 64)
    for r, c in product(range(16), range(64)):
        flat[element(r, c, 16)] = given[r, c]
    wanted = [[flat[element(r, c, 32)] for c in range(32)] for r in range(32)]
    assert (cells.reshape(32, 32) == wanted).all()


def test_n_d_accumulators_have_no_place() -> None:
    found = verdict(kernel("batch_acc_k_loop"))
    assert not found.validated and any("R003" in reason and "2-D" in reason for c in found.covered.values() for reason in c.refused)


# ---- carries and parameters --------------------------------------------------------------------------------


def test_accumulators_carried_through_loops_and_handed_over() -> None:
    params = [tensor("x", 16, 64, dtype="FP16"), tensor("y", 64, 64, dtype="FP16"), tile("given", 16, 64, memory="Acc"), out("out", 16, 64)]
    body = [
        loop("k", [0, 64, 16], {"c": "given"}, [
            load("a", "x", [0, "k"], [16, 16], memory="Mat"), load("b", "y", ["k", 0], [16, 64], memory="Mat"),
            let("d", "tile.matmul_acc", "c", "a", "b"), {"yield": ["d"]},
        ], ["e"]),
        store("o", "e", [0, 0], "out"),
        ret("o", "e"),
    ]  # fmt: skip
    returns = [params[3]["type"], params[2]["type"]]
    assert right(incore(params, body, returns=returns))


def test_modes_have_names() -> None:
    with pytest.raises(ValueError, match="l1"):
        run(kernel("row_windows"), "row_windows", mode="l1")
