"""What each op is made of: the instructions, moves and scalar cycles that spec/hardware.md gives for it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from extract.cost import cost, cycles
from extract.cycles import Cycles, on_pipe, rounded
from extract.target import Target, load_target
from pypto_ir.dtypes import DType
from pypto_ir.ops.registry import Kind, Role, find_op
from pypto_ir.types import (
    INDEX,
    Memory,
    ScalarType,
    TensorType,
    TileLayout,
    TileType,
    TileView,
    TupleType,
    Type,
    UnknownType,
    dims,
    tensor_type,
    tile_type,
    with_valid,
)

A2, A5 = load_target("ascend910b"), load_target("ascend950")
BOTH = pytest.mark.parametrize("target", [A2, A5], ids=["ascend910b", "ascend950"])
F32, F16, BF16, I8 = DType.FP32, DType.FP16, DType.BF16, DType.INT8
VEC, MAT, LEFT, RIGHT, ACC, BIAS, DDR = Memory.VEC, Memory.MAT, Memory.LEFT, Memory.RIGHT, Memory.ACC, Memory.BIAS, Memory.DDR
SCALE = DType.FP8E8M0


def tile(*shape: int, dtype: DType = F32, memory: Memory | None = VEC, valid: tuple[int, ...] | None = None) -> TileType:
    made = tile_type(dims(*shape), dtype, memory)
    return with_valid(made, dims(*valid)) if valid else made


def gm(*shape: int, dtype: DType = F32) -> TensorType:
    return tensor_type(dims(*shape), dtype)


def price(op: str, *operands: Type, made: Type | None = None, target: Target = A2, **kwargs: object) -> Cycles:
    result = made if made is not None else operands[0]
    return cycles(op, operands, result, tuple(kwargs.items()), target)  # type: ignore[arg-type]


# scalar work: spec/hardware.md 2.2 (TRESHAPE, TASSIGN, TSUBVIEW, TALLOC, TFREE) and 3 (TPUSH, TPOP)

VIEWS = ("tile.slice", "tile.reshape", "tile.reinterpret_view", "tile.transpose_view", "tile.set_validshape")
QUEUES = (
    "tile.tpush_to_aiv",
    "tile.tpush_to_aic",
    "tile.tpop_from_aic",
    "tile.tpop_from_aiv",
    "system.tfree_to_aic",
    "system.tfree_to_aiv",
)
ADDRESSES = ("tile.create", "tile.alloc", "tile.tget_scale_addr", "tile.get_block_idx", "tile.get_block_num", "tile.get_subblock_idx")
CELLS = ("tile.read", "tile.write", "tensor.read", "tensor.write", "array.create", "array.get_element", "array.update_element")
WINDOWS = ("tensor.view", "tensor.dim", "tensor.create", "tensor.slice", "tensor.reshape", "tensor.set_validshape")


@BOTH
@pytest.mark.parametrize("op", VIEWS + QUEUES + ADDRESSES + CELLS + WINDOWS)
def test_metadata_and_single_cells_cost_one_scalar_cycle(op: str, target: Target) -> None:
    for operands in ((tile(64, 64),), (gm(64, 64), tile(64, 64))):
        for made in (tile(64, 64), gm(64, 64), ScalarType(F32)):
            found = cost(op, operands, made, (), target)
            assert (found.cycles, found.traffic) == (Cycles(s=1.0), ())


# moves


@pytest.mark.parametrize("op", ["tile.load", "tile.gather_row", "tile.mgather", "pld.tile.remote_load"])
@BOTH
def test_what_comes_from_global_memory_is_a_load(op: str, target: Target) -> None:
    for t, rate in ((tile(32, 64), target.channels[DDR, VEC]), (tile(32, 64, dtype=F16, memory=MAT), target.channels[DDR, MAT])):
        found = cost(op, (gm(64, 64), INDEX), t, (), target)
        size = 32 * 64 * t.dtype.bits // 8
        assert found.cycles == on_pipe("MTE2", size / rate.bytes_per_cycle, 3)
        assert found.traffic == ((f"DDR->{t.memory.value}", size),)  # type: ignore[union-attr]


@pytest.mark.parametrize("op", ["tile.store", "tile.mscatter", "pld.tile.remote_store"])
@BOTH
def test_what_goes_to_global_memory_is_a_store(op: str, target: Target) -> None:
    found = cost(op, (tile(32, 64), INDEX, gm(64, 64)), gm(64, 64), (), target)
    assert found.cycles == on_pipe("MTE3", 32 * 64 * 4 / target.channels[VEC, DDR].bytes_per_cycle, 3)
    assert found.traffic == (("Vec->DDR", 32 * 64 * 4),)


@pytest.mark.parametrize("op", ["tile.move", "tile.extract", "tile.aiv_shard", "tile.aic_gather"])
def test_what_goes_between_memories_takes_their_channel(op: str) -> None:
    source, made = tile(32, 64, dtype=F16, memory=MAT), tile(32, 64, dtype=F16, memory=LEFT)
    assert price(op, source, made=made) == on_pipe("MTE1", 32 * 64 * 2 / 129.7, 1)


def test_an_extract_moves_its_window_and_a_move_its_operand() -> None:
    whole, part = tile(64, 64, dtype=F16, memory=MAT), tile(16, 64, dtype=F16, memory=LEFT)
    assert price("tile.extract", whole, made=part) == on_pipe("MTE1", 16 * 64 * 2 / 129.7, 1)
    assert price("tile.move", whole, made=part) == on_pipe("MTE1", 64 * 64 * 2 / 129.7, 1)


def test_the_memory_of_a_result_is_its_own_else_the_one_asked_for_else_vec() -> None:
    anywhere = tile(32, 64, memory=None)
    for word, made in (("Mat", tile(32, 64, memory=MAT)), ("Vec", tile(32, 64))):
        assert price("tile.load", gm(32, 64), made=anywhere, target_memory=word) == price("tile.load", gm(32, 64), made=made)
    assert price("tile.load", gm(32, 64), made=anywhere) == price("tile.load", gm(32, 64), made=tile(32, 64))
    assert price("tile.load", gm(32, 64), made=anywhere, other="Mat") == price("tile.load", gm(32, 64), made=tile(32, 64))
    assert price("tile.load", gm(32, 64), made=tile(32, 64), target_memory="Mat") == price("tile.load", gm(32, 64), made=tile(32, 64))


def test_a_store_of_a_tile_in_no_memory_is_one_from_vec() -> None:
    assert price("tile.store", tile(32, 64, memory=None), gm(32, 64), made=gm(32, 64)) == price(
        "tile.store", tile(32, 64), gm(32, 64), made=gm(32, 64)
    )
    assert price("tile.move", tile(32, 64, memory=None), made=tile(32, 64)) == price("tile.move", tile(32, 64), made=tile(32, 64))


def test_l1_without_boxes_counts_whole_blocks_of_32_bytes() -> None:
    """spec/hardware.md 2.2: ND and NZ count whole 32-B blocks; a boxed tile has its valid bytes."""
    boxed = tile(16, 20, dtype=F16, memory=MAT)
    plain = tile_type(dims(16, 20), F16, MAT, TileView())
    assert cost("tile.load", (gm(16, 20),), boxed, (), A2).traffic == (("DDR->Mat", 16 * 20 * 2),)
    assert cost("tile.load", (gm(16, 20),), plain, (), A2).traffic == (("DDR->Mat", 16 * 64),)
    assert cost("tile.move", (tile(16, 20, dtype=F16),), boxed, (), A5).traffic == (("Vec->Mat", 16 * 20 * 2),)
    assert cost("tile.move", (tile(16, 20, dtype=F16),), plain, (), A5).traffic == (("Vec->Mat", 16 * 64),)
    wide = tile_type(dims(16, 16), F16, MAT, TileView())
    assert cost("tile.load", (gm(16, 16),), wide, (), A2).traffic == (("DDR->Mat", 16 * 32),)


@pytest.mark.parametrize(
    ("shape", "dtype", "to", "size"),
    [
        # 16 rows of 32 bytes for Left, 32 bytes of rows by 16 columns for Right
        ((17, 17), F16, LEFT, 32 * 32 * 2), ((17, 17), F16, RIGHT, 32 * 32 * 2),
        ((17, 17), F32, LEFT, 32 * 24 * 4), ((17, 17), F32, RIGHT, 24 * 32 * 4),
        ((17, 33), I8, LEFT, 32 * 64), ((33, 17), I8, RIGHT, 64 * 32),
        ((2, 17, 17), F16, LEFT, 2 * 32 * 32 * 2),
        ((16, 64), DType.FP4, LEFT, 16 * 64 // 2), ((17, 65), DType.FP4, LEFT, 32 * 128 // 2),
    ],
)  # fmt: skip
def test_operands_of_products_move_in_whole_fractals(shape: tuple[int, ...], dtype: DType, to: Memory, size: int) -> None:
    found = cost("tile.move", (tile(*shape, dtype=dtype, memory=MAT),), tile(*shape, dtype=dtype, memory=to), (), A2)
    assert found.traffic == ((f"Mat->{to.value}", size),)
    assert found.cycles == on_pipe("MTE1", size / (129.7 if to is LEFT else 85.4), 1)


def test_accumulators_are_taken_out_in_whole_fractals_at_two_bytes() -> None:
    """spec/hardware.md 2.2: 2 * m * ceil16(n) / 74.3 on chip, all physical rows, after the fixed part of a drain."""
    rate = 128 * 2**30 / 1.85e9
    for acc, size in (
        (tile(32, 20, memory=ACC), 32 * 32 * 2),
        (tile(32, 40, memory=ACC, valid=(20, 33)), 32 * 48 * 2),
        (tile(32, 32, memory=ACC, valid=(20, 32)), 32 * 32 * 2),
    ):
        made = tile(*(32, 20), dtype=F16, memory=MAT)
        assert price("tile.move", acc, made=made) == on_pipe("FIX", 164 + size / rate, 3)
        assert price("tile.move", acc, made=tile(32, 20), target=A5) == on_pipe("FIX", 343.4 + size / rate, 3)


def test_a_way_that_names_no_element_takes_them_at_their_size() -> None:
    way = (ACC, MAT)
    plain = replace(A2, channels={**A2.channels, way: replace(A2.channels[way], element_bytes=None)})
    acc, made = tile(32, 32, memory=ACC), tile(32, 32, dtype=F16, memory=MAT)
    expected = 164 + 32 * 32 * 4 / A2.channels[way].bytes_per_cycle
    assert price("tile.move", acc, made=made, target=plain) == on_pipe("FIX", expected, 3)


@pytest.mark.parametrize(("n", "odd"), [(8, 1), (16, 1), (24, 3), (40, 5), (48, 3), (56, 7), (64, 1), (20, 3), (33, 5)])
def test_drains_pay_for_the_odd_part_of_a_rows_units(n: int, odd: int) -> None:
    """spec/hardware.md 2.2: fixed + m * (max(floor, 4 n / bw) + pen * (odd - 1)), units of 8 columns."""
    rows = 20
    acc = tile(32, 80, memory=ACC, valid=(rows, n))
    expected = 164 + rows * (max(4.45, 4 * n / 118) + 2.6 * (odd - 1))
    assert price("tile.store", acc, gm(rows, n), made=gm(rows, n)) == on_pipe("FIX", expected, 3)


def test_an_empty_accumulator_costs_the_fixed_part() -> None:
    acc = tile(16, 16, memory=ACC, valid=(0, 0))
    assert price("tile.store", acc, gm(16, 16), made=gm(16, 16)) == on_pipe("FIX", 164, 3)


def test_copies_in_ub_are_one_run_or_a_piece_per_row() -> None:
    """spec/hardware.md 2.2: bytes / 594, one DMA per row if strided; a piece takes at least a cycle."""
    rate = 1024 * 2**30 / 1.85e9

    def copy(t: TileType) -> Cycles:
        return price("tile.move", t, made=t)

    assert copy(tile(64, 64)) == on_pipe("V", 64 * 256 / rate, 2)
    assert copy(tile(64, 64, valid=(64, 63))) == on_pipe("V", 64, 2)
    assert copy(tile(1, 64, valid=(1, 63))) == on_pipe("V", 252 / rate, 2)
    assert copy(tile(2, 64, valid=(2, 63))) == on_pipe("V", 2, 2)
    assert copy(tile(8, 512, valid=(8, 500))) == on_pipe("V", 8 * 2000 / rate, 2)
    assert cost("tile.move", (tile(8, 16),), tile(8, 16), (), A2).traffic == (("Vec->Vec", 8 * 16 * 4),)


def test_an_assemble_copies_its_part_by_rows_unless_they_are_whole() -> None:
    rate = 1024 * 2**30 / 1.85e9
    part = tile(8, 512)
    assert price("tile.assemble", tile(64, 512), part) == on_pipe("V", 8 * 2048 / rate, 2)
    assert price("tile.assemble", tile(64, 513), part) == on_pipe("V", 8 * 2048 / rate, 2)
    assert price("tile.assemble", tile(64, 64), tile(8, 64)) == on_pipe("V", 8 * 256 / rate, 2)
    assert price("tile.assemble", tile(64, 128), tile(8, 64)) == on_pipe("V", 8, 2)
    anywhere = tile(8, 64, memory=None)
    assert price("tile.assemble", tile(64, 128, memory=None), anywhere) == on_pipe("V", 8, 2)


def test_an_assemble_across_memories_is_a_move() -> None:
    into, part = tile(64, 64, dtype=F16, memory=MAT), tile(16, 64, memory=ACC)
    assert price("tile.assemble", into, part) == price("tile.move", part, made=tile(16, 64, dtype=F16, memory=MAT))
    acc, vec = tile(64, 64, memory=ACC), tile(16, 64)
    assert price("tile.assemble", acc, vec) == on_pipe("FIX", 3 + 16 * 64 / 32, 3)
    assert price("tile.assemble", vec, acc, target=A5) == price("tile.move", acc, made=tile(64, 64), target=A5)


def test_a_concat_copies_each_part_by_rows() -> None:
    a, b = tile(8, 16), tile(8, 32)
    assert price("tile.concat", a, b, made=tile(8, 48)) == on_pipe("V", 8, 2) + on_pipe("V", 8, 2)
    found = cost("tile.concat", (a, b), tile(8, 48), (), A2)
    assert found.traffic == (("Vec->Vec", 8 * 16 * 4 + 8 * 32 * 4),)


def test_a_scatter_update_copies_its_rows() -> None:
    source = tile(4, 16)
    assert price("tile.scatter_update", tile(64, 16), tile(1, 4, dtype=DType.INT32), source) == on_pipe("V", 4, 2)


@pytest.mark.parametrize("op", ["tile.full", "tile.fillpad", "tile.fillpad_inplace", "tile.fillpad_expand"])
def test_a_fill_of_l1_takes_its_bandwidth(op: str) -> None:
    """spec/hardware.md 1.3, L1 fill 32 GiB/s; physical bytes."""
    t = tile(32, 64, dtype=F16, memory=MAT, valid=(16, 64))
    assert price(op, t) == on_pipe("MTE2", 32 * 64 * 2 / (32 * 2**30 / 1.85e9), 3)


def test_only_fills_fill_l1() -> None:
    t = tile(32, 64, dtype=F16, memory=MAT)
    assert price("tile.add", t, t, made=t).v == price("tile.add", tile(32, 64, dtype=F16), made=tile(32, 64, dtype=F16)).v


def test_moves_without_a_way_cost_an_unknown_instruction_of_fix() -> None:
    assert price("tile.move", tile(32, 64), made=tile(32, 64, memory=ACC)) == on_pipe("FIX", 3 + 32 * 64 / 32, 3)


# vector instructions

ADD, MUL, CAST = ("add",), ("mul",), ("cast",)
POINTWISE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "sub", "maximum", "minimum", "part_add", "part_max", "part_min"), ADD),
    "mul": MUL, "part_mul": MUL, "div": ("div",), "divs": ("divs",),
    "exp": ("exp",), "sqrt": ("sqrt",), "rsqrt": ("rsqrt",), "log": ("log",), "recip": ("recip",), "abs": ("abs",),
    "neg": ("muls",), "relu": ("mins",), "lrelu": ("lrelu",), "adds": ("adds",), "subs": ("adds",), "muls": ("muls",),
    "maximums": ("mins",), "minimums": ("mins",),
    **dict.fromkeys(("and", "or", "xor", "not", "shl", "shr", "ands", "ors", "xors", "shls", "shrs"), ("logic",)),
    # x - trunc(x / y) * y
    "fmod": ("div", "cast", "mul", "add"), "rem": ("div", "cast", "mul", "add"),
    "fmods": ("divs", "cast", "muls", "add"), "rems": ("divs", "cast", "muls", "add"),
    # two sums
    "addc": ("add", "add"), "subc": ("add", "add"), "addsc": ("add", "add"), "subsc": ("add", "add"),
    "cmp": ("compare",), "cmps": ("compare",), "sel": ("select",), "sels": ("select",), "prelu": ("compare", "mul", "select"),
    # range reduction by two casts and a polynomial of eight terms
    "sin": ("cast", "cast", *("mul", "add") * 8), "cos": ("cast", "cast", *("mul", "add") * 8),
    "expands": ("fill",), "full": ("fill",), "ci": ("fill",), "tri": ("fill", "select"), "random": ("mul", "logic") * 10,
    **dict.fromkeys(("gather", "gatherb", "gather_mask", "scatter", "scatter_mask"), ("gather",)),
    "fillpad_inplace": ("fill",), "fillpad": ("copy", "fill"), "fillpad_expand": ("copy", "fill"),
}  # fmt: skip


def instructions(families: tuple[str, ...], rows: int, each: int, target: Target) -> Cycles:
    """Instructions over `rows` rows of `each` repeats, all of them one run unless a family goes by row."""
    total = Cycles()
    for name in families:
        f = target.vector.families[name]
        if f.by_row:
            total = total + on_pipe("V", rows * (f.row_slope * each + f.row_fixed), 2)
        else:
            total = total + on_pipe("V", rows * each * f.slope, 2)
    return total


@BOTH
@pytest.mark.parametrize("op", POINTWISE)
def test_pointwise_ops_are_made_of_their_instructions(op: str, target: Target) -> None:
    t = tile(16, 128)
    assert price(f"tile.{op}", t, t, target=target) == instructions(POINTWISE[op], 16, 2, target)


SPREADS = {"add": ADD, "sub": ADD, "mul": MUL, "div": ("div",), "max": ADD, "min": ADD, "expdif": ("add", "exp")}


@BOTH
@pytest.mark.parametrize("op", SPREADS)
def test_fused_broadcasts_cost_the_plain_op_and_for_rows_19_cycles(op: str, target: Target) -> None:
    """spec/hardware.md 2.3: TROWEXPAND<op> is 19 + the plain binary op, TCOLEXPAND<op> the plain one."""
    t, column, row = tile(16, 128), tile(16, 1), tile(1, 128)
    plain = instructions(SPREADS[op], 16, 2, target)
    assert price(f"tile.col_expand_{op}", t, row, target=target) == plain
    assert price(f"tile.row_expand_{op}", t, column, target=target) == plain + Cycles(v=19)


@BOTH
@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod", "argmax", "argmin"])
def test_reductions_cost_cycles_per_row_and_positions_a_second_pass(kind: str, target: Target) -> None:
    """spec/hardware.md 2.3, row and column reductions."""
    passes = 2 if kind.startswith("arg") else 1
    for cols, row_cycles, col_cycles in ((64, 7, 19.5), (128, 9, 22), (160, 10, 24)):
        t = tile(16, cols)
        assert price(f"tile.row_{kind}", t, made=tile(16, 1), target=target) == on_pipe("V", 16 * row_cycles, 2) * passes
        assert price(f"tile.col_{kind}", t, made=tile(1, cols), target=target) == on_pipe("V", 16 * col_cycles, 2) * passes


def test_reductions_count_valid_rows_and_valid_bytes() -> None:
    t = tile(16, 128, valid=(10, 64))
    assert price("tile.row_sum", t, made=tile(16, 1)) == on_pipe("V", 10 * 7, 2)
    assert price("tile.col_sum", t, made=tile(1, 128)) == on_pipe("V", 10 * 19.5, 2)


def test_materialised_broadcasts_cost_14_cycles_a_row_or_a_copy_of_each_row() -> None:
    """spec/hardware.md 2.3, TROWEXPAND and TCOLEXPAND."""
    rate = 1024 * 2**30 / 1.85e9
    t = tile(16, 128, valid=(10, 128))
    assert price("tile.row_expand", t, tile(16, 1), made=t) == on_pipe("V", 10 * 14, 2)
    assert price("tile.col_expand", t, tile(1, 128), made=t) == on_pipe("V", 10, 2)
    wide = tile(16, 512, valid=(10, 512))
    assert price("tile.col_expand", wide, tile(1, 512), made=wide) == on_pipe("V", 10 * 2048 / rate, 2)


@BOTH
def test_transposes_pay_by_columns_of_32_bytes_and_blocks_of_16_rows(target: Target) -> None:
    """spec/hardware.md 2.3: X * (4 + 2 Y) + 7 + bytes / 594, page by page."""
    rate = 1024 * 2**30 / 1.85e9

    def expected(rows: int, cols: int, size: int, pages: int = 1) -> Cycles:
        x, y = -(-cols * size // 32), -(-rows // 16)
        return on_pipe("V", pages * (x * (4 + 2 * y) + 7 + rows * cols * size / rate), 2)

    for rows, cols, dtype, size in ((64, 64, F32, 4), (17, 24, F32, 4), (48, 16, F16, 2), (32, 32, I8, 1)):
        assert price("tile.transpose", tile(rows, cols, dtype=dtype), target=target) == expected(rows, cols, size)
    assert price("tile.transpose", tile(2, 3, 32, 64), target=target) == expected(32, 64, 4, 6)
    assert price("tile.transpose", tile(32, 64, valid=(8, 8)), target=target) == expected(32, 64, 4)


@BOTH
def test_casts_count_the_repeats_of_their_wider_side(target: Target) -> None:
    """spec/hardware.md 2.3 and 2.4: TCVT; widening is a row of its own on a5."""
    wide, narrow = tile(16, 128), tile(16, 128, dtype=F16)
    cast, widen = (target.vector.families[name] for name in ("cast", "widen"))
    each = cast.row_slope * 2 + cast.row_fixed if cast.by_row else cast.slope * 2
    assert price("tile.cast", wide, made=narrow, target=target) == on_pipe("V", 16 * each, 2)
    assert price("tile.cast", narrow, made=wide, target=target) == on_pipe("V", 16 * (widen.row_slope * 2 + widen.row_fixed), 2)
    assert price("tile.cast", wide, made=tile(16, 128, dtype=DType.INT32), target=target) == price(
        "tile.cast", wide, made=narrow, target=target
    )


def test_halves_of_a5_have_slopes_of_their_own() -> None:
    """spec/hardware.md 2.4: TEXP FP16 3.76 for a run, 4.0 for rows; FP32 1.967 and 1.855."""
    for dtype in (F16, BF16):
        assert price("tile.exp", tile(16, 128, dtype=dtype), target=A5).v == rounded(16 * 3.76)
        assert price("tile.exp", tile(16, 256, dtype=dtype, valid=(16, 128)), target=A5).v == rounded(16 * (4.0 + 2.54))
    assert price("tile.exp", tile(16, 64), target=A5).v == rounded(16 * 1.967)
    assert price("tile.exp", tile(16, 128, valid=(16, 64)), target=A5).v == rounded(16 * (1.855 + 2.54))


def test_repeats_of_a_run_a_strided_and_a_narrow_tile() -> None:
    """spec/hardware.md 2.3: narrower than 256 B a repeat per row; strided rows each by themselves; on a5 a run however narrow."""
    add5 = A5.vector.families["add"]
    for shape, valid, a2, a5 in (
        ((16, 64), None, 16 * 2, rounded(16 * add5.slope)),
        ((16, 65), None, 17 * 2, rounded(17 * add5.slope)),
        ((16, 63), None, 16 * 2, rounded(16 * add5.slope)),
        ((16, 32), None, 16 * 2, rounded(8 * add5.slope)),
        ((16, 32), (16, 31), 16 * 2, rounded(16 * (add5.row_slope + add5.row_fixed))),
        ((16, 64), (16, 63), 16 * 2, rounded(16 * (add5.row_slope + add5.row_fixed))),
        ((16, 128), (16, 65), 16 * 2 * 2, rounded(16 * (2 * add5.row_slope + add5.row_fixed))),
        ((16, 128), (1, 65), 2 * 2, rounded(2 * add5.slope)),
        ((16, 128), (3, 128), 6 * 2, rounded(6 * add5.slope)),
    ):
        t = tile(*shape, valid=valid)
        assert price("tile.add", t, t).v == a2, (shape, valid)
        assert price("tile.add", t, t, target=A5).v == a5, (shape, valid)


def test_a_column_is_one_run_of_its_elements() -> None:
    for rows, repeats in ((64, 1), (65, 2), (128, 2), (300, 5)):
        column = tile(rows, 1)
        assert price("tile.add", column, column).v == repeats * 2
        assert price("tile.cast", column, made=tile(rows, 1, dtype=F16)).v == repeats
    shaped = tile_type(dims(128, 2), F32, VEC, TileView(blayout=TileLayout.COL_MAJOR))
    assert price("tile.add", shaped, shaped).v == 4 * 2


def test_an_op_works_on_the_larger_of_operand_and_result() -> None:
    source, bits = tile(16, 128), tile(16, 32, dtype=DType.UINT8)
    assert price("tile.cmp", source, source, made=bits).v == 32 * 2
    assert price("tile.add", tile(1, 128), source, made=source).v == 32 * 2


def test_high_precision_is_asked_for_by_its_own_word_and_by_true() -> None:
    t = tile(32, 64)
    plain, precise = rounded(32 * 1.908), 345 * 32
    assert price("tile.recip", t, target=A5, high_precision=True).v == precise
    assert price("tile.recip", t, target=A5, high_precision=False).v == plain
    assert price("tile.recip", t, target=A5, other=True).v == plain
    assert price("tile.recip", t, target=A5).v == plain


# products: spec/hardware.md 2.1


@pytest.mark.parametrize(
    ("op", "at"),
    [("matmul", (0, 1)), ("matmul_acc", (1, 2)), ("matmul_bias", (0, 1)), ("gemv", (0, 1)), ("gemv_acc", (1, 2)), ("gemv_bias", (0, 1)),
     ("batch_matmul", (0, 1)), ("batch_matmul_acc", (1, 2)), ("matmul_mx", (0, 2)), ("matmul_mx_acc", (1, 3)), ("matmul_mx_bias", (0, 2))],
)  # fmt: skip
def test_products_find_their_operands(op: str, at: tuple[int, int]) -> None:
    """Left [32, 64] and right [64, 48] of FP16: 2 * 4 * 3 fractals, 21 cycles in front; bias and scales lie where they are needed."""
    acc, bias = tile(32, 48, memory=ACC), tile(1, 48, memory=BIAS)
    left, right = tile(32, 64, dtype=F16, memory=LEFT), tile(64, 48, dtype=F16, memory=RIGHT)
    sa, sb = tile(32, 2, dtype=SCALE, memory=Memory.LEFT_SCALE), tile(2, 48, dtype=SCALE, memory=Memory.RIGHT_SCALE)
    operands: list[Type] = [left, sa, right, sb] if "mx" in op else [left, right]
    if op.endswith("_acc"):
        operands.insert(0, acc)
    elif op.endswith("_bias"):
        operands.append(bias)
    assert (operands[at[0]], operands[at[1]]) == (left, right)
    assert price(f"tile.{op}", *operands, made=acc) == on_pipe("M", 21 + 2 * 4 * 3, 4)


def test_operands_in_l1_pay_their_way_each_by_its_channel() -> None:
    acc = tile(32, 48, memory=ACC)
    left, right, bias = tile(32, 64, dtype=F16, memory=MAT), tile(64, 48, dtype=F16, memory=MAT), tile(1, 48, memory=MAT)
    in_l0 = tile(32, 64, dtype=F16, memory=LEFT), tile(64, 48, dtype=F16, memory=RIGHT)
    product = on_pipe("M", 21 + 24, 4)
    a, b = on_pipe("MTE1", 4096 / 129.7, 1), on_pipe("MTE1", 6144 / 85.4, 1)
    c = on_pipe("MTE1", 48 * 4 / (32 * 2**30 / 1.85e9), 1)
    assert price("tile.matmul", left, in_l0[1], made=acc) == product + a
    assert price("tile.matmul", in_l0[0], right, made=acc) == product + b
    assert price("tile.matmul_bias", *in_l0, bias, made=acc) == product + c
    assert price("tile.gemv_bias", *in_l0, bias, made=acc) == product + c
    assert price("tile.matmul_bias", left, right, bias, made=acc) == product + a + b + c


def test_operands_in_no_memory_are_priced_as_if_in_l1() -> None:
    acc = tile(32, 48, memory=ACC)
    there = price("tile.matmul", tile(32, 64, dtype=F16, memory=MAT), tile(64, 48, dtype=F16, memory=MAT), made=acc)
    assert price("tile.matmul", tile(32, 64, dtype=F16, memory=None), tile(64, 48, dtype=F16, memory=None), made=acc) == there


@pytest.mark.parametrize(("op", "at"), [("matmul_mx", (1, 3)), ("matmul_mx_acc", (2, 4)), ("matmul_mx_bias", (1, 3))])
def test_scales_in_l1_pay_their_way_into_the_scale_buffers(op: str, at: tuple[int, int]) -> None:
    f8 = DType.FP8E4M3FN
    acc, bias = tile(32, 48, memory=ACC), tile(1, 48, memory=MAT)
    near = [tile(32, 128, dtype=f8, memory=LEFT), tile(32, 4, dtype=SCALE, memory=Memory.LEFT_SCALE),
            tile(128, 48, dtype=f8, memory=RIGHT), tile(4, 48, dtype=SCALE, memory=Memory.RIGHT_SCALE)]  # fmt: skip
    extra = Cycles()
    operands = [acc, *near] if op.endswith("acc") else [*near, bias] if op.endswith("bias") else near
    if op.endswith("bias"):
        extra = on_pipe("MTE1", 48 * 4 / (32 * 2**30 / 1.85e9), 1)
    product = on_pipe("M", 25 + 2 * 4 * 3, 4) + extra
    assert price(f"tile.{op}", *operands, made=acc, target=A5) == product
    for index, size, rate in ((at[0], 32 * 4, 206.3), (at[1], 4 * 48, 223.8)):
        moved = [*operands]
        t = moved[index]
        moved[index] = tile(*t.static_shape, dtype=SCALE, memory=MAT)  # type: ignore[misc]
        assert price(f"tile.{op}", *moved, made=acc, target=A5) == product + on_pipe("MTE1", size / rate, 1)


@pytest.mark.parametrize(
    ("m", "k", "n", "dtype", "count"),
    [(16, 16, 16, F16, 1), (17, 16, 16, F16, 2), (16, 17, 16, F16, 2), (16, 16, 17, F16, 2), (16, 8, 16, F32, 1), (16, 9, 16, F32, 2),
     (16, 32, 16, I8, 1), (16, 33, 16, I8, 2), (16, 64, 16, DType.FP4, 1), (16, 65, 16, DType.FP4, 2), (48, 64, 80, BF16, 60)],
)  # fmt: skip
def test_products_count_fractals(m: int, k: int, n: int, dtype: DType, count: int) -> None:
    """spec/hardware.md 2.1: ceil(m / 16) * ceil(k / kt) * ceil(n / 16), kt = 32 / sizeof(A), twice as long for FP32."""
    a, b = tile(m, k, dtype=dtype, memory=LEFT), tile(k, n, dtype=dtype, memory=RIGHT)
    assert price("tile.matmul", a, b, made=tile(m, n, memory=ACC)) == on_pipe("M", 21 + count * (2 if dtype is F32 else 1), 4)


def test_products_count_what_is_valid_and_fp32_by_the_left_operand() -> None:
    a, b = tile(32, 64, dtype=F16, memory=LEFT, valid=(16, 48)), tile(64, 64, dtype=F16, memory=RIGHT, valid=(48, 20))
    assert price("tile.matmul", a, b, made=tile(32, 64, memory=ACC)).m == 21 + 1 * 3 * 2
    mixed = tile(16, 16, memory=LEFT), tile(16, 16, dtype=F16, memory=RIGHT)
    assert price("tile.matmul", *mixed, made=tile(16, 16, memory=ACC)).m == 21 + 2 * 2


def test_batched_products_pay_each_page_with_its_own_traffic() -> None:
    a, b = tile(2, 3, 32, 64, dtype=F16, memory=MAT), tile(3, 64, 48, dtype=F16, memory=MAT)
    made = tile(2, 3, 32, 48, memory=ACC)
    page = on_pipe("M", 21 + 24, 4) + on_pipe("MTE1", 4096 / 129.7, 1) + on_pipe("MTE1", 6144 / 85.4, 1)
    assert price("tile.batch_matmul", a, b, made=made) == page * 6
    assert price("tile.batch_matmul", a, b, made=UnknownType()) == page * 6
    assert cost("tile.batch_matmul", (a, b), made, (), A2).traffic == (("Mat->Left", 6 * 4096), ("Mat->Right", 6 * 6144))
    acc = tile(2, 3, 32, 48, memory=ACC)
    assert price("tile.batch_matmul_acc", acc, a, b, made=made) == page * 6


def test_a_cut_page_of_a_batch_is_priced_as_cut() -> None:
    a = tile(2, 32, 64, dtype=F16, memory=MAT, valid=(2, 16, 48))
    b = tile(2, 64, 48, dtype=F16, memory=RIGHT, valid=(2, 48, 16))
    found = price("tile.batch_matmul", a, b, made=tile(2, 32, 48, memory=ACC))
    assert found == (on_pipe("M", 21 + 1 * 3 * 1, 4) + on_pipe("MTE1", 16 * 48 * 2 / 129.7, 1)) * 2


def test_a_product_of_no_tiles_is_an_unknown_instruction() -> None:
    assert price("tile.matmul", tile(32, 64), INDEX, made=tile(32, 64, memory=ACC)) == on_pipe("M", 4 + 2048 / 16, 4)
    assert price("tile.matmul", INDEX, tile(32, 64), made=tile(32, 64, memory=ACC)) == on_pipe("M", 4 + 2048 / 16, 4)
    assert price("tile.matmul", tile(32, 64), made=tile(32, 64, memory=ACC)) == on_pipe("M", 4 + 2048 / 16, 4)


# unknown ops


@pytest.mark.parametrize("memory", [LEFT, RIGHT, BIAS, Memory.LEFT_SCALE, Memory.RIGHT_SCALE])
def test_unknown_ops_into_operand_buffers_are_mte1(memory: Memory) -> None:
    assert price("tile.mystery", tile(16, 64), made=tile(32, 64, memory=memory)) == Cycles(mte1=1 + 2048 / 64, s=1)


def test_unknown_ops_count_the_largest_of_their_tiles() -> None:
    small, large = tile(16, 64), tile(32, 64)
    assert (
        price("tile.mystery", small, large, made=small) == price("tile.mystery", large, small, made=small) == Cycles(v=2 + 2048 / 32, s=2)
    )
    assert price("tile.mystery", small, made=large) == Cycles(v=2 + 2048 / 32, s=2)
    assert price("tile.mystery", large, made=TupleType((small, small))) == Cycles(v=2 + 2048 / 32, s=2)


def test_each_instruction_is_issued_on_the_scalar_pipe() -> None:
    """spec/hardware.md 3; what S itself does and what it issues add up."""
    assert on_pipe("S", 5, 2) == Cycles(s=7)
    assert on_pipe("V", 5, 2) == Cycles(v=5, s=2)
    assert on_pipe("S", 5) == Cycles(s=5)


def test_cycles_are_rounded_up_to_the_grid() -> None:
    assert [rounded(x) for x in (0, 1, 1 / 1024, 1.0001, 0.5)] == [0, 1, 1 / 1024, 1 + 1 / 1024, 0.5]
    for small, large in pairwise(x / 5000 for x in range(200)):
        assert large <= rounded(large) < large + 1 / 1024 and rounded(small) <= rounded(large)


# ops on operands that they are not made for, and ops known by their declaration only


@pytest.mark.parametrize("op", ["tile.store", "tile.move", "tile.extract", "tile.assemble", "tile.scatter_update", "tile.gather_compare",
                                "tile.transpose", "tile.cast", "tile.row_sum", "tile.col_max"])  # fmt: skip
def test_an_op_without_tiles_to_work_on_is_a_scalar_one(op: str) -> None:
    for operands in ((), (INDEX,), (INDEX, INDEX, INDEX)):
        assert cycles(op, operands, INDEX, (), A2) == Cycles(s=1)


def test_an_assemble_or_update_that_lacks_its_part_is_an_unknown_instruction() -> None:
    t = tile(32, 64)
    unknown = Cycles(v=2 + 2048 / 32, s=2)
    for op in ("tile.assemble", "tile.scatter_update"):
        for operands in ((t,), (t, INDEX), (t, INDEX, INDEX), (INDEX, t)):
            assert price(op, *operands, made=t) == unknown, (op, operands)
    assert price("tile.concat", t, t, made=INDEX) == unknown
    assert price("tile.mystery", t, made=INDEX) == unknown
    assert price("tile.load", gm(32, 64), made=gm(32, 64)) == Cycles(s=1)
    assert price("tile.full", INDEX, made=gm(32, 64), target_memory="Mat") == Cycles(s=1)


def test_a_product_counts_the_pages_of_its_result_or_the_most_of_an_operand() -> None:
    a, b = tile(3, 32, 64, dtype=F16, memory=LEFT), tile(64, 48, dtype=F16, memory=RIGHT)
    page = on_pipe("M", 21 + 24, 4)
    assert price("tile.batch_matmul", a, b, made=tile(6, 32, 48, memory=ACC)) == page * 6
    assert price("tile.batch_matmul", a, b, made=tile(2, 32, 48, memory=ACC)) == page * 2
    assert price("tile.batch_matmul", a, b, made=INDEX) == page * 3


def test_parts_of_a_concat_that_are_no_tiles_cost_nothing() -> None:
    t = tile(8, 16)
    assert price("tile.concat", t, INDEX, made=tile(8, 16)) == on_pipe("V", 8, 2)
    wide, half = tile(8, 128), tile(8, 128, dtype=F16)
    assert price("tile.cast", INDEX, wide, made=half, target=A5) == price("tile.cast", wide, made=half, target=A5)
    assert price("tile.cast", INDEX, made=wide, target=A5) == price("tile.adds", wide, target=A5)
    assert price("tile.move", INDEX, made=wide, target=A5) == price("tile.adds", wide, target=A5)


def declared(monkeypatch: pytest.MonkeyPatch, like: str, **changes: object) -> None:
    """Lets `tile.new` be an op that is declared like another."""
    op = find_op(like)
    assert op is not None
    monkeypatch.setattr("extract.cost.find_op", lambda name: replace(op, name=name, **changes) if name == "tile.new" else find_op(name))


def new(*operands: Type, made: Type, target: Target = A2) -> Cycles:
    return cost("tile.new", operands, made, (), target).cycles


def test_a_declared_op_of_no_family_is_priced_by_its_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    t, small = tile(32, 64), tile(8, 64)
    declared(monkeypatch, "tile.reshape")
    assert new(t, made=t) == Cycles(s=1)
    assert new(INDEX, made=INDEX) == Cycles(s=1)
    declared(monkeypatch, "tile.row_sum")
    assert new(INDEX, t, made=tile(32, 1)) == price("tile.row_sum", t, made=tile(32, 1))
    assert new(INDEX, made=t) == price("tile.row_sum", t, made=tile(32, 1))
    assert new(small, t, made=tile(8, 1)) == price("tile.row_sum", small, made=tile(8, 1))
    declared(monkeypatch, "tile.col_sum")
    assert new(INDEX, t, made=tile(1, 64)) == price("tile.col_sum", t, made=tile(1, 64))
    for target in (A2, A5):
        declared(monkeypatch, "tile.add")
        for operands in ((t, small), (small, t), (small, small)):
            assert new(*operands, made=t, target=target) == price("tile.add", t, t, target=target)
        assert new(t, small, made=small, target=target) == price("tile.add", t, t, target=target)
        declared(monkeypatch, "tile.exp")
        assert new(t, made=small, target=target) == price("tile.adds", t, target=target)
        declared(monkeypatch, "tile.adds")
        assert new(t, INDEX, made=t, target=target) == price("tile.adds", t, target=target)
        declared(monkeypatch, "tile.prelu")
        scratch = sum(o.role is Role.SCRATCH for o in find_op("tile.prelu").operands)  # type: ignore[union-attr]
        assert scratch and new(t, t, t, made=t, target=target) == price("tile.add", t, t, target=target)


def test_scratch_is_no_data_of_a_declared_op(monkeypatch: pytest.MonkeyPatch) -> None:
    t = tile(32, 64)
    exp = find_op("tile.exp")
    assert exp is not None
    (data,) = exp.operands
    declared(monkeypatch, "tile.exp", operands=(data, replace(data, role=Role.SCRATCH)))
    assert new(t, t, made=t, target=A5) == price("tile.adds", t, target=A5)
    declared(monkeypatch, "tile.exp", operands=(data, replace(data, kind=Kind.SCALAR)))
    assert new(t, INDEX, made=t, target=A5) == price("tile.adds", t, target=A5)
    declared(monkeypatch, "tile.exp", operands=(data, data))
    assert new(t, t, made=t, target=A5) == price("tile.add", t, target=A5)


def told_apart() -> Target:
    """A machine on which every family of vector instructions has a slope of its own."""
    families = {
        name: replace(f, slope=float(i), row_slope=float(i), row_fixed=0.0) for i, (name, f) in enumerate(A5.vector.families.items(), 3)
    }
    return replace(A5, vector=replace(A5.vector, families=families))


def test_every_op_is_priced_by_its_own_families_and_not_by_one_that_costs_the_same() -> None:
    target, t = told_apart(), tile(16, 128)
    for op, families in POINTWISE.items():
        assert price(f"tile.{op}", t, t, target=target) == instructions(families, 16, 2, target), op
    for op, families in SPREADS.items():
        assert price(f"tile.col_expand_{op}", t, tile(1, 128), target=target) == instructions(families, 16, 2, target), op


def test_of_operand_and_result_of_one_size_the_result_counts() -> None:
    assert price("tile.gather", tile(8, 64), made=tile(64, 8)).v == 64 * 47
    assert price("tile.gather", tile(64, 8), made=tile(8, 64)).v == 8 * 47


def test_operands_of_products_elsewhere_take_the_whole_way() -> None:
    acc = tile(32, 48, memory=ACC)
    left, right = tile(32, 64, dtype=F16), tile(64, 48, dtype=F16, memory=RIGHT)
    way = price("tile.move", left, made=tile(32, 64, dtype=F16, memory=LEFT), target=A5)
    assert way.mte3 > 0 and way.mte1 > 0
    assert price("tile.matmul", left, right, made=acc, target=A5) == on_pipe("M", 25 + 24, 4) + way
    page, batch = tile(32, 64, memory=ACC), tile(2, 32, 64, memory=ACC)
    pages = price("tile.batch_matmul", batch, right, made=tile(2, 32, 48, memory=ACC), target=A5)
    assert pages == price("tile.matmul", page, right, made=acc, target=A5) * 2


def test_narrow_and_strided_rows_on_a_machine_where_they_differ() -> None:
    """With a repeat per narrow row, and rows that cost more than the repeats of a run."""
    target = replace(A5, vector=replace(A5.vector, narrow_rows=True))
    add = target.vector.families["add"]
    run, row = add.slope, add.row_slope + add.row_fixed
    for shape, valid, expected in (
        ((16, 32), None, 16 * run), ((16, 32), (16, 31), 16 * run), ((16, 64), (16, 63), 16 * row), ((16, 64), None, 16 * run),
        ((16, 63), (16, 62), 16 * run), ((16, 65), (16, 63), 16 * row), ((1, 32), (1, 31), run),
    ):  # fmt: skip
        t = tile(*shape, valid=valid)
        assert price("tile.add", t, t, target=target).v == rounded(expected), (shape, valid)


def test_high_precision_is_never_quicker_than_the_plain_form() -> None:
    half = tile(16, 128, dtype=F16)
    assert price("tile.exp", half, target=A5, high_precision=True) == price("tile.exp", half, target=A5)
    assert price("tile.recip", half, target=A5, high_precision=True).v == 16 * 345


@BOTH
def test_columns_of_a_transpose_are_whole_blocks_of_32_bytes(target: Target) -> None:
    rate = 1024 * 2**30 / 1.85e9
    for cols, x in ((20, 3), (8, 1), (9, 2), (264, 33)):
        expected = x * (4 + 2) + 7 + 16 * cols * 4 / rate
        assert price("tile.transpose", tile(16, cols), target=target) == on_pipe("V", expected, 2), cols


def test_only_l1_counts_whole_blocks() -> None:
    assert cost("tile.load", (gm(16, 20),), tile(16, 20, dtype=F16), (), A2).traffic == (("DDR->Vec", 16 * 40),)
    assert cost("tile.store", (tile(16, 20, dtype=F16), gm(16, 20)), gm(16, 20), (), A2).traffic == (("Vec->DDR", 16 * 40),)
    for cols, size in ((15, 32), (16, 32), (17, 64), (33, 96), (48, 96), (49, 128)):
        plain = tile_type(dims(16, cols), F16, MAT, TileView())
        assert cost("tile.load", (gm(16, cols),), plain, (), A2).traffic == (("DDR->Mat", 16 * size),), cols


def test_rows_without_valid_columns_cost_the_floor_of_a_drain() -> None:
    acc = tile(16, 16, memory=ACC, valid=(16, 0))
    assert price("tile.store", acc, gm(16, 16), made=gm(16, 16)) == on_pipe("FIX", 164 + 16 * 4.45, 3)
