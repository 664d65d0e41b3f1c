"""The numbers of the built-in targets against the tables of spec/hardware.md, row by row."""

from __future__ import annotations

from math import ceil, inf

import pytest

from extract.target import Family, Steps, Target, load_target
from pypto_ir.dtypes import DType
from pypto_ir.types import Memory

A2, A5 = load_target("ascend910b"), load_target("ascend950")
BOTH = pytest.mark.parametrize("target", [A2, A5], ids=["ascend910b", "ascend950"])
GIB = 2**30

#: spec/hardware.md 2.3: instruction, family, cycles at the start of a stream, cycles per repeat
REPEATS_A2 = (
    ("TADD", "add", 24, 2), ("TMUL", "mul", 25, 2), ("TDIV", "div", 30, 4), ("TEXP", "exp", 31, 2),
    ("TSQRT", "sqrt", 39, 2), ("TRSQRT", "rsqrt", 24, 1), ("TLOG", "log", 33, 2), ("TRECIP", "recip", 55, 5),
    ("TMULS", "muls", 26, 1), ("TADDS", "adds", 31, 1), ("TMINS", "mins", 30, 1), ("TLRELU", "lrelu", 26, 1),
    ("TABS", "abs", 29, 1), ("TEXPANDS", "fill", 24, 1), ("vcopy", "copy", 24, 1), ("TAND", "logic", 20, 2),
    ("TCVT", "cast", 27, 1), ("TCVT", "widen", 27, 1), ("TSEL", "select", 27, 2), ("TDIVS", "divs", 45, 5),
    ("vgather", "gather", 24, 47), ("as TADD", "compare", 24, 2),
)  # fmt: skip

#: spec/hardware.md 2.4: instruction, families, a, b, a2, c2, d2 for FP32, a and a2 for FP16
FITS_A5 = (
    ("TADD/TSUB", ("add", "logic", "compare", "select"), 1.247, 55.1, 1.875, 2.876, 44.3, 1.247, 1.875),
    ("TMUL", ("mul",), 1.194, 56.3, 1.871, 2.912, 44.8, 1.194, 1.871),
    ("TMINS", ("mins", "adds", "muls", "lrelu", "fill", "copy"), 1.059, 53.1, 1.10, 4.53, 49.6, 1.059, 1.10),
    ("TNEG", ("abs",), 1.059, 55.1, 1.10, 4.53, 51.5, 1.059, 1.10),
    ("TEXP", ("exp", "log"), 1.967, 62.7, 1.855, 2.54, 60.6, 3.76, 4.0),
    ("TSQRT", ("sqrt",), 1.967, 63.7, 1.855, 2.54, 61.6, 3.76, 4.0),
    ("TDIVS / TRECIP", ("divs", "recip", "div"), 1.908, 64.5, 1.869, 2.475, 62.9, 3.55, 3.55),
    ("TRSQRT", ("rsqrt",), 4.03, 75.6, 4.0, 0, 76.5, 4.03, 4.0),
    ("TCVT f32->f16/bf16", ("cast",), 1.32, 52.3, 2.258, 1.042, 55.2, 1.32, 2.258),
    ("TCVT f16/bf16->f32", ("widen",), 1.270, 51.7, 1.270, 1.930, 51.7, 1.270, 1.270),
)  # fmt: skip


@pytest.mark.parametrize(("family", "startup", "slope"), [row[1:] for row in REPEATS_A2], ids=[row[1] for row in REPEATS_A2])
def test_vector_families_of_ascend910b_are_rows_of_the_table(family: str, startup: float, slope: float) -> None:
    found = A2.vector.families[family]
    assert (found.startup, found.slope, found.row_slope, found.row_fixed) == (startup, slope, slope, 0)
    assert (found.half_slope, found.half_row_slope) == ((9, 9) if family == "divs" else (slope, slope))
    assert found.by_row == (family in ("cast", "widen", "gather"))


@pytest.mark.parametrize(
    ("families", "a", "b", "a2", "c2", "d2", "half", "half_row"), [r[1:] for r in FITS_A5], ids=[r[0] for r in FITS_A5]
)
def test_vector_families_of_ascend950_are_rows_of_the_fit(
    families: tuple[str, ...], a: float, b: float, a2: float, c2: float, d2: float, half: float, half_row: float
) -> None:
    for name in families:
        f: Family = A5.vector.families[name]
        assert (f.slope, f.startup, f.row_slope, f.row_fixed, f.row_startup) == (a, b, a2, c2, d2), name
        assert (f.half_slope, f.half_row_slope) == (half, half_row), name
        assert f.by_row == (name == "widen")


def test_every_family_stands_in_a_table() -> None:
    named = {name for row in FITS_A5 for name in row[1]}
    assert named | {"gather"} == {row[1] for row in REPEATS_A2} == set(A2.vector.families) == set(A5.vector.families)
    assert A5.vector.families["gather"] == A2.vector.families["gather"].__class__(
        **{name: getattr(A2.vector.families["gather"], name) for name in Family.__slots__ if name != "source"},
        source=A5.vector.families["gather"].source,
    )


def test_the_high_precision_reciprocal_of_ascend950_has_a_slope_of_its_own() -> None:
    for name, family in A5.vector.families.items():
        assert family.precise_slope == (345 if name == "recip" else family.slope), name


@BOTH
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # bytes of a row -> cycles per row; FP32 64, 96, 160, 176, 256, 304, 336 columns and beyond
        ("row_reduce", {256: 7, 257: 9, 512: 9, 513: 10, 768: 10, 769: 10.75, 1024: 10.75, 1025: 13.2, 1280: 13.2, 1281: 14,
                        1536: 14, 1537: 15.4, 1793: 16.8}),
        ("col_reduce", {256: 19.5, 257: 22, 512: 22, 513: 24, 1024: 24, 1025: 28, 1536: 28, 1537: 30, 1793: 32}),
        ("row_expand", {512: 14, 513: 21, 768: 21, 769: 28}),
    ],
)  # fmt: skip
def test_cycles_per_row_are_the_steps_of_the_table(target: object, steps: str, expected: dict[int, float]) -> None:
    """spec/hardware.md 2.3, row reductions, column reductions, TROWEXPAND; no figures for a5."""
    found: Steps = getattr(target.vector, steps)  # type: ignore[attr-defined]
    assert {width: found.per_row(width) for width in expected} == expected


@BOTH
def test_starts_of_streams_and_small_constants_are_those_of_the_text(target: object) -> None:
    v = target.vector  # type: ignore[attr-defined]
    assert (v.row_reduce.startup, v.col_reduce.startup, v.row_expand.startup) == (32, 15, 37)
    assert v.row_broadcast == 19
    assert (v.transpose.fixed, v.transpose.column, v.transpose.block) == (7, 4, 2)
    assert v.repeat_bytes == 256
    assert (v.narrow_rows, v.ragged_startup) == ((True, 16) if target is A2 else (False, 0))


def test_machines_have_the_cores_and_the_clock_of_the_table() -> None:
    """spec/hardware.md 1.2."""
    assert (A2.cube_cores, A2.vector_cores, A2.clock_ghz) == (24, 48, 1.85)
    assert (A5.cube_cores, A5.vector_cores, A5.clock_ghz) == (36, 72, 1.85)


@BOTH
def test_addresses_and_buffers_are_aligned_as_the_table_says(target: object) -> None:
    """spec/hardware.md 1.1, hard alignment and what PyPTO's allocator rounds up to."""
    rounded = {Memory.VEC: 128, Memory.MAT: 128, Memory.LEFT: 64, Memory.RIGHT: 64, Memory.ACC: 128, Memory.BIAS: 64}
    if target is A5:
        rounded |= {Memory.LEFT_SCALE: 32, Memory.RIGHT_SCALE: 32}
    assert {m: s.allocation for m, s in target.memories.items()} == rounded  # type: ignore[attr-defined]
    assert {s.alignment for s in target.memories.values()} == {32}  # type: ignore[attr-defined]
    assert target.acc_row_alignment(DType.FP32) == 16  # type: ignore[attr-defined]


#: channel -> GiB/s (spec/hardware.md 1.3), as cycles = bytes / 2^30 / rate * 1.85e9
GIB_PER_SECOND_A2 = {"DDR->Mat": 135.0, "DDR->Vec": 100.9, "Vec->DDR": 188.46, "Mat->DDR": 32, "Mat->Bias": 32,
                     "Acc->Mat": 128, "Acc->DDR": 70, "Vec->Vec": 1024}  # fmt: skip
#: a5 where it has no figure of its own has that of a2; L1 loads by the published GEMM (1.4: 148 GB/s)
GIB_PER_SECOND_A5 = {"DDR->Mat": 148e9 / GIB, "DDR->Vec": 100.9, "Vec->DDR": 188.46, "Vec->Mat": 188.46, "Mat->Bias": 32,
                     "Acc->Mat": 128, "Acc->Vec": 128, "Acc->DDR": 70, "Vec->Vec": 1024}  # fmt: skip
#: spec/hardware.md 2.2, calibrated rates of L1 -> L0 in bytes per cycle
CALIBRATED = (
    (A2, {"Mat->Left": 129.7, "Mat->Right": 85.4}),
    (A5, {"Mat->Left": 206.3, "Mat->Right": 223.8, "Mat->LeftScale": 206.3, "Mat->RightScale": 223.8}),
)


def test_channels_have_the_rates_of_the_tables() -> None:
    for (target, calibrated), per_second in zip(CALIBRATED, (GIB_PER_SECOND_A2, GIB_PER_SECOND_A5), strict=True):
        rates = {f"{a.value}->{b.value}": c for (a, b), c in target.channels.items()}
        assert set(rates) == set(calibrated) | set(per_second)
        for name, rate in calibrated.items():
            assert rates[name].bytes_per_cycle == rate
        for name, rate in per_second.items():
            assert rates[name].bytes_per_cycle == pytest.approx(rate * GIB / 1.85e9, rel=1e-3), name
        assert target.mat_fill.bytes_per_cycle == pytest.approx(32 * GIB / 1.85e9)
        for name, channel in rates.items():
            assert channel.element_bytes == (2 if name.startswith("Acc") else None)


@BOTH
def test_every_channel_is_on_the_pipe_of_its_instruction(target: object) -> None:
    """spec/hardware.md 3, instruction -> pipe."""
    for (a, b), channel in target.channels.items():  # type: ignore[attr-defined]
        if a is Memory.ACC:
            expected = "FIX"
        elif a is Memory.DDR:
            expected = "MTE2"
        elif a is b is Memory.VEC:
            expected = "V"
        else:
            expected = "MTE3" if a is Memory.VEC or b is Memory.DDR else "MTE1"
        assert channel.pipe == expected, (a, b)
    assert target.mat_fill.pipe == "MTE2"  # type: ignore[attr-defined]


@BOTH
def test_what_is_not_known_costs_the_fallback(target: object) -> None:
    """spec/hardware.md 3, scalar 1; matrix 4 + n / 16, GM pipes 3 + n / 32, MTE1 1 + n / 64, other 2 + n / 32 for n elements."""
    gm, other = (3, 32), (2, 32)
    expected = {"M": (4, 16), "MTE2": gm, "MTE3": gm, "FIX": gm, "MTE1": (1, 64), "V": other}
    assert dict(target.fallback) == expected | {"S": (1, inf)}  # type: ignore[attr-defined]
    assert dict(target.issue) == {pipe: fixed for pipe, (fixed, _) in expected.items()} | {"S": 0}  # type: ignore[attr-defined]


@BOTH
def test_code_is_fetched_by_lines_beyond_what_the_instruction_cache_is_assumed_to_hold(target: Target) -> None:
    """16 KiB of cache and 128 bytes an instruction are assumed; spec/hardware.md 1.3: lines of 512 bytes, 50 cycles and 150 for a miss."""
    assert (target.code.cached, target.code.fetch) == (16 * 1024 / 128, (50 + 150) / (512 / 128))


def test_products_and_drains_have_the_constants_of_the_fits() -> None:
    """spec/hardware.md 2.1 and 2.2."""
    assert (A2.cube.fixed, A2.cube.fractal, A2.cube.fractal_fp32) == (21, 1, 2)
    assert (A5.cube.fixed, A5.cube.fractal, A5.cube.fractal_fp32) == (25, 1, 8)
    assert (A2.drain.fixed, A2.drain.row_floor, A2.drain.bandwidth, A2.drain.odd_penalty) == (164, 4.45, 118, 2.6)
    assert (A5.drain.fixed, A5.drain.row_floor, A5.drain.bandwidth, A5.drain.odd_penalty) == (343.4, 4.59, 215, 0.26)
    assert ceil(128 * A5.drain.row_floor + A5.drain.fixed) <= 950
