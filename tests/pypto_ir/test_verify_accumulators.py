"""Accumulators in the verifier: what a product may write and what may read it, told with place, cause and remedy."""

from __future__ import annotations

from typing import Any

import pytest
from test_interp_l0c import ASKEW, COLUMNS, NARROW, ROWS, right

from extract.target import load_target
from pypto_ir.acc_chains import unstated_accumulators
from pypto_ir.diagnostics import Diagnostic, Severity
from pypto_ir.formats import read_document
from pypto_ir.stmt import Program
from pypto_ir.verify import accumulators
from tests.acc_programs import Window, created, drained, factors, parameters, windowed, written
from tests.helpers import SHARED, Json, give, incore, let, loop, out, ret, scalar, store, tile

TRUE = {"const": True, "dtype": "BOOL"}


def found(p: Program, **more: Any) -> list[Diagnostic]:
    return [d for f in p.functions for d in accumulators(f, ("functions", 0), reads=load_target(p.target).acc_reads, **more)]


def codes(p: Program, **more: Any) -> set[str]:
    return {d.code for d in found(p, **more)}


# ---- windows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "windows"), [*COLUMNS, *NARROW])
def test_addressable_windows_pass(shape: tuple[int, int], windows: list[Window]) -> None:
    for p in (windowed(shape, windows), windowed(shape, windows, "INT8"), drained(shape, windows)):
        assert not found(p) and not found(p, keep=True)


@pytest.mark.parametrize(("shape", "windows"), ROWS)
def test_windows_in_rows_of_another_stride_are_refused(shape: tuple[int, int], windows: list[Window]) -> None:
    assert codes(windowed(shape, windows)) == codes(drained(shape, windows), keep=True) == {"V301"}


@pytest.mark.parametrize(("shape", "windows"), ASKEW)
def test_windows_that_begin_within_a_block_are_refused(shape: tuple[int, int], windows: list[Window]) -> None:
    assert codes(windowed(shape, windows)) >= {"V302"} == codes(windowed(shape, windows), keep=True)


def test_the_diagnostic_names_place_numbers_cause_and_remedy() -> None:
    first, second = found(windowed((32, 64), [Window(16, 0, 16, 64)]))
    assert first.place.path == "$.functions[0].body[4]" and first.place.statement == "p0_0 = tile.matmul_acc"
    assert all(
        words in first.message for words in ("[16, 64] at [16, 0]", "[32, 64]", "16 rows apart", "32 rows apart", "first 16 columns")
    )
    assert first.help is not None and "t * N" in first.help
    assert second.place.path == "$.functions[0].body[9]"


def test_windows_are_judged_by_their_own_columns_whatever_lies_around_them() -> None:
    assert not found(windowed((128, 256), [Window(64, 240, 32, 16)]))
    assert codes(windowed((128, 256), [Window(64, 224, 32, 32)])) == {"V301"}
    assert codes(windowed((128, 256), [Window(64, 248, 32, 8)])) == {"V303"}
    assert not found(windowed((128, 256), [Window(64, 248, 32, 8)]), keep=True)
    assert codes(windowed((128, 256), [Window(64, 232, 32, 16)]), keep=True) == {"V302"}


def test_accumulators_whose_space_is_not_stated_are_accumulators_too() -> None:
    """The compiler puts into Acc what a product writes; until then only the product's own type says so."""
    for shape, windows in (COLUMNS[0], ROWS[0]):
        p, said = (windowed(shape, windows, stated=stated) for stated in (False, True))
        assert [d.message for d in found(p)] == [d.message for d in found(said)]
        assert right(p) == right(said) == (not found(p))


def test_unstated_accumulators_are_followed_through_control_flow() -> None:
    w = Window(16, 0, 16, 32)
    body = [
        created((32, 32), "FP16", stated=False),
        created((32, 32), "FP16", "vec", stated=False),
        *factors(0, w, 0, "FP16"),
        loop("i", [0, 2, 1], {"c": "acc"}, [
            {"let": "same", "expr": "c"},
            let("w", "tile.slice", "same", [16, 32], [16, 0]),
            let("p", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE),
            let("d", "tile.assemble", "same", "p", [16, 0]),
            give("d"),
        ], ["e"]),
        {"if": "n > 0", "then": [give("e")], "else": [give("acc")], "results": ["r"]},
        store("o", "r", [0, 0], "out"),
        ret("o"),
    ]  # fmt: skip
    p = incore([*parameters([w], "FP16", [scalar("n", range=(0, 1))]), out("out", 32, 32)], body)
    assert unstated_accumulators(p.functions[0]) == {"acc", "c", "same", "w", "d", "e", "r"}
    assert codes(p) == {"V301"} and not right(p)


# ---- offsets known at run time -----------------------------------------------------------------------------

SCALARS = [scalar("t", range=(0, 3)), scalar("n", range=(0, 48)), scalar("z", range=(64, 64))]


@pytest.mark.parametrize(
    ("column", "fine"),
    [
        ("t * 64", True), ("t * 16 + 16", True), ("z", True), ("(n // 16) * 16", True), ("(n // 3) * 64", True), ("min(t * 16, 48)", True),
        ("n", False), ("t * 8", False), ("t * 16 + 8", False), ("n // 16", False), ("max(n, 16)", False), ("n % 48", False),
    ],
)  # fmt: skip
def test_runtime_columns_must_be_multiples_of_16(column: str, fine: bool) -> None:
    p = windowed((16, 1088), [Window(0, column, 16, 64)], scalars=SCALARS)
    if fine:
        assert not found(p) and right(p)
        return
    for d in found(p):
        assert d.code == "V302" and f"`{column}`" in d.message and ("modulo" in d.message or "nothing is known" in d.message)
    assert codes(p) == {"V302"}


def _looped(bounds: list[int | str], column: str, scalars: list[Json] | None = None) -> Program:
    """Windows [16, 32] of [16, 128] in a loop, at a column that the loop variable i tells."""
    w = Window(0, "at", 16, 32)
    body = [
        created((16, 128), "FP16"),
        loop("i", bounds, {"c": "acc"}, [
            *factors(0, w, 0, "FP16"),
            {"let": "at", "expr": column},
            let("w", "tile.slice", "c", [16, 32], [0, "at"]),
            let("p", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE),
            let("d", "tile.assemble", "c", "p", [0, "at"]),
            give("d"),
        ], ["e"]),
        store("o", "e", [0, 0], "out"),
        ret("o"),
    ]  # fmt: skip
    return incore([*parameters([w], "FP16", scalars or []), out("out", 16, 128)], body)


def test_loop_facts_prove_offsets() -> None:
    assert not found(_looped([0, 128, 32], "i")) and right(_looped([0, 128, 32], "i"))
    assert not found(_looped([96, -1, -32], "i"))
    assert not found(_looped([0, "t", 1], "i * 32", [scalar("t", range=(0, 4))]))
    assert codes(_looped([8, 96, 32], "i")) == {"V302"}
    assert codes(_looped([0, 4, 1], "i")) == {"V302"}
    assert codes(_looped([0, 96, 24], "i")) == {"V302"}


def test_carried_offsets_are_followed_until_nothing_changes() -> None:
    def program(step: int) -> Program:
        w = Window(0, "at", 16, 32)
        body = [
            created((16, 256), "FP16"),
            {"let": "zero", "expr": "0"},
            {
                **loop("i", [0, 4, 1], {"c": "acc", "at": "zero"}, [
                    *factors(0, w, 0, "FP16"),
                    let("w", "tile.slice", "c", [16, 32], [0, "at"]),
                    let("p", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE),
                    let("d", "tile.assemble", "c", "p", [0, "at"]),
                    {"let": "next", "expr": f"at + {step}"},
                    give("d", "next"),
                ], ["e", "last"]),
            },
            store("o", "e", [0, 0], "out"),
            ret("o"),
        ]  # fmt: skip
        return incore([*parameters([w], "FP16"), out("out", 16, 256)], body)

    assert not found(program(32)) and right(program(32))
    assert codes(program(8)) == {"V302"} and not right(program(8))


# ---- last blocks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "windows"),
    [
        ((16, 16), [Window(0, 0, 8, 16), Window(8, 0, 8, 16)]),
        ((32, 16), [Window(0, 0, 32, 16), Window(0, 0, 8, 16)]),
        ((16, 16), [Window(0, 0, 16, 16), Window(0, 0, 16, 8)]),
        ((16, 64), [Window(0, 0, 16, 24), Window(0, 32, 16, 24)]),
    ],
)
def test_products_that_may_write_beside_their_window_are_refused_unless_they_keep_it(shape: tuple[int, int], windows: list[Window]) -> None:
    p = windowed(shape, windows)
    assert codes(p) == {"V303"} and right(p) == (shape == (16, 64)), "nothing lies beside the windows of the last one"
    assert not found(p, keep=True) and right(p, keep=True)
    for d in found(p):
        assert d.severity is Severity.WARNING and "not documented" in d.message and d.help is not None and "multiple of 16" in d.help


def test_the_end_of_an_accumulator_belongs_to_nobody() -> None:
    for shape, windows in (((8, 24), [Window(0, 0, 8, 24)]), ((24, 16), [Window(16, 0, 8, 16)]), ((16, 40), [Window(0, 16, 16, 24)])):
        p = windowed(shape, windows)
        assert not found(p) and right(p)


def test_fewer_valid_rows_than_were_written_before_are_refused() -> None:
    """[16, 64] written full, then v rows of it: what becomes of the others is not documented. v rows every time are fine."""
    v = scalar("v", range=(1, 16))
    fewer = windowed((16, 64), [Window(0, 0, 16, 64), Window(0, 0, 16, 64, "v")], scalars=[v])
    assert codes(fewer) == {"V303"} and not found(fewer, keep=True)
    assert not right(fewer) and right(fewer, keep=True)
    same = windowed((16, 64), [Window(0, 0, 16, 64, "v")], scalars=[v])
    assert not found(same) and right(same)


def test_rows_of_another_trip_are_not_those_of_this_one() -> None:
    """16 rows in the first trip, 8 in the second: both are `v`, and what becomes of the other 8 is not documented."""
    w = Window(0, 0, 16, 64, "v")
    body = [
        created((16, 64), "FP16"),
        loop("i", [0, 2, 1], {"c": "acc"}, [
            {"let": "v", "expr": "16 - i * 8"},
            *factors(0, w, 0, "FP16"), let("d", "tile.matmul_acc", "c", "a0_0", "b0_0", TRUE), give("d"),
        ], ["e"]),
        store("o", "e", [0, 0], "out"),
        ret("o"),
    ]  # fmt: skip
    p = incore([*parameters([w], "FP16"), out("out", 16, 64)], body)
    assert codes(p) == {"V303"} and not right(p)


def test_windows_that_are_only_read_begin_at_blocks_too() -> None:
    w = Window(0, 0, 16, 64)
    for column, fine in ((32, True), (24, False)):
        for cut in (
            let("d", "tile.slice", "m", [16, 32], [0, column]),
            let("d", "tile.extract", "m", 0, column, [16, 32], target_memory="Vec"),
        ):
            body = [*factors(0, w, 0, "FP16"), let("m", "tile.matmul", "a0_0", "b0_0"), cut, store("o", "d", [0, 0], "out"), ret("o")]
            p = incore([*parameters([w], "FP16"), out("out", 16, 32)], body)
            assert codes(p) == (set() if fine else {"V302"}) and right(p) == fine


# ---- strides -----------------------------------------------------------------------------------------------

Q = scalar("v", range=(1, 32))


def _carry(compact: bool, target: str = "ascend910b", read: Json | None = None) -> Program:
    """v of 32 rows accumulated in a loop (`spec/flatten.md` 11), from a full tile that nothing is written of, or from a first product."""
    w = Window(0, 0, 32, 64, "v")
    body = [
        *factors(1, w, 0, "FP16"),
        let("acc", "tile.matmul", "a1_0", "b1_0") if compact else created((32, 64), "FP16"),
        loop("i", [0, 3, 1], {"c": "acc"}, [
            *factors(0, w, 0, "FP16"), let("d", "tile.matmul_acc", "c", "a0_0", "b0_0", "i == 0"), give("d"),
        ], ["e"]),
    ]  # fmt: skip
    last = "e"
    if read is not None:
        body, last = [*body, read], read["let"]
    end = [store("o", last, [0, 0], "out"), ret("o")]
    return incore([*parameters([w, w], "FP16", [Q]), out("out", 32, 64)], [*body, *end], target=target)


def test_a_carry_that_is_read_with_more_rows_than_its_product_has_is_refused() -> None:
    (only,) = found(_carry(False))
    assert only.code == "V304" and "v rows" in only.message and "32 rows" in only.message and "set_validshape" in (only.help or "")
    assert not right(_carry(False))


def test_a_narrowed_carry_passes() -> None:
    for target in ("ascend910b", "ascend950"):
        assert not found(_carry(True, target)) and right(_carry(True, target))


def test_each_instruction_must_read_what_lies_there() -> None:
    into_mat = let("m", "tile.move", "e", target_memory="Mat")
    cut = let("m", "tile.extract", "e", 0, 0, [32, 32], target_memory="Mat")
    window = let("m", "tile.slice", "e", [32, 32], [0, 32])
    widen = let("m", "tile.set_validshape", "e", 32, 64)
    for read in (into_mat, cut, window, widen):
        assert codes(_carry(True, "ascend910b", read)) == {"V304"}, read["op"]
    for read in (into_mat, widen):
        assert not right(_carry(True, "ascend910b", read))
    assert not found(_carry(True, "ascend950", into_mat)) and right(_carry(True, "ascend950", into_mat))


def test_accumulators_handed_on_under_another_valid_shape() -> None:
    """One arm gives a compact tile of v rows, the other a full one; the name that takes both says full."""
    full, few = Window(0, 0, 32, 64), Window(0, 0, 32, 64, "v")
    body = [
        {
            "if": "v > 4",
            "then": [*factors(1, few, 0, "FP16"), let("p", "tile.matmul", "a1_0", "b1_0"), give("p")],
            "else": [*factors(0, full, 0, "FP16"), let("q", "tile.matmul", "a0_0", "b0_0"), give("q")],
            "results": ["r"],
        },
        store("o", "r", [0, 0], "out"),
        ret("o"),
    ]
    p = incore([*parameters([full, few], "FP16", [Q]), out("out", 32, 64)], body)
    (only,) = found(p)
    assert only.code == "V304" and "handed on" in only.message and only.place.statement == "if"


# ---- other writers -----------------------------------------------------------------------------------------


def test_what_is_written_by_anything_else_is_refused() -> None:
    windows = [Window(0, 0, 16, 16), Window(0, 16, 16, 16)]
    params = [*parameters(windows, "FP16", [scalar("n", range=(0, 1))]), out("out", 16, 32)]
    start = [created((16, 32), "FP16"), *written(windows, "FP16")]
    for last in (
        let("z", "tile.assemble", "acc_1_1", "p0_1", [0, 16]),
        let("z", "tile.assemble", "acc_1_1", "p1_1", [0, "n * 16"]),
        let("z", "tile.fillpad_inplace", "acc_1_1"),
        let("z", "tile.move", "acc_1_1", target_memory="Acc"),
        let("z", "tile.assemble", "acc_1_1", "p1_1", ["n", 16]),
    ):
        p = incore(params, [*start, last, store("o", "z", [0, 0], "out"), ret("o")])
        assert "V305" in codes(p), last


def test_a_window_goes_back_into_its_own_accumulator_only() -> None:
    windows = [Window(0, 16, 16, 16)]
    params = [*parameters(windows, "FP16"), out("out", 16, 32)]
    other = [*factors(0, Window(0, 0, 16, 32), 0, "FP16")]
    body = [created((16, 32), "FP16"), created((16, 32), "FP16", "two"), *written(windows, "FP16")]
    last = let("z", "tile.assemble", "two", "p0_1", [0, 16])
    assert other and codes(incore(params, [*body, last, store("o", "z", [0, 0], "out"), ret("o")])) == {"V305"}


def test_another_shape_of_a_written_accumulator_is_refused() -> None:
    w = Window(0, 0, 16, 64)
    body = [*factors(0, w, 0, "FP16"), let("m", "tile.matmul", "a0_0", "b0_0"), let("r", "tile.reshape", "m", [32, 32])]
    assert codes(incore([*parameters([w], "FP16"), out("out", 32, 32)], [*body, store("o", "r", [0, 0], "out"), ret("o")])) == {"V306"}


def test_what_is_made_of_an_n_d_accumulator_is_taken_for_a_whole_one() -> None:
    w = Window(0, 0, 16, 64)
    body = [
        let("z", "tile.create", [1, 16, 64], dtype="FP32", target_memory="Acc"),
        let("r", "tile.reshape", "z", [16, 64]),
        *factors(0, w, 0, "FP16"),
        let("p", "tile.matmul_acc", "r", "a0_0", "b0_0", TRUE),
        store("o", "p", [0, 0], "out"),
        ret("o"),
    ]
    assert not found(incore([*parameters([w], "FP16"), out("out", 16, 64)], body))


# ---- control flow ------------------------------------------------------------------------------------------


def _phi(one: tuple[int, int], two: tuple[int, int], window: Window) -> Program:
    """A window of what a branch gives: the accumulator `one` or `two`."""
    names = {"acc": one, "other": two}
    body: list[Json] = [created(shape, "FP16", name) for name, shape in names.items()]
    body += [
        {"if": "n > 0", "then": [give("acc")], "else": [give("other")], "results": ["c"]},
        *factors(0, window, 0, "FP16"),
        let("w", "tile.slice", "c", [window.rows, window.columns], [window.row, window.column]),
        let("p", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE),
        let("d", "tile.assemble", "c", "p", [window.row, window.column]),
        store("o", "d", [0, 0], "out"),
        ret("o"),
    ]
    return incore([*parameters([window], "FP16", [scalar("n", range=(0, 1))]), out("out", *one)], body)


def test_a_buffer_that_a_branch_gives_is_one_of_its_own() -> None:
    good = _phi((32, 64), (32, 64), Window(0, 32, 32, 32))
    assert not found(good) and right(good)
    assert codes(_phi((32, 64), (32, 64), Window(16, 0, 16, 32))) == {"V301"}


def test_windows_that_arms_give_are_known_by_what_both_have_in_common() -> None:
    def program(column: int) -> Program:
        window = Window(0, 0, 16, 32)
        body = [
            created((16, 128), "FP16"),
            {
                "if": "n > 0",
                "then": [let("w1", "tile.slice", "acc", [16, 32], [0, column]), give("w1")],
                "else": [let("w2", "tile.slice", "acc", [16, 32], [0, 64]), give("w2")],
                "results": ["w"],
            },
            *factors(0, window, 0, "FP16"),
            let("p", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE),
            store("o", "p", [0, 0], "out"),
            ret("o"),
        ]
        return incore([*parameters([window], "FP16", [scalar("n", range=(0, 1))]), out("out", 16, 32)], body)

    assert not found(program(16)) and right(program(16))
    (only, *_) = found(program(8))
    assert only.code == "V302" and "8 modulo 56" in only.message


def test_a_window_of_another_trip_is_not_the_window_of_this_one() -> None:
    """The carried product is the window of the trip before; it is put back at this trip's column."""
    w = Window(0, 0, 16, 16)
    body = [
        created((16, 64), "FP16"),
        *factors(0, w, 0, "FP16"),
        let("w0", "tile.slice", "acc", [16, 16], [0, 0]),
        let("p0", "tile.matmul_acc", "w0", "a0_0", "b0_0", TRUE),
        loop("i", [0, 3, 1], {"c": "acc", "p": "p0"}, [
            let("d", "tile.assemble", "c", "p", [0, "i * 16"]),
            let("w", "tile.slice", "d", [16, 16], [0, "i * 16"]),
            let("q", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE),
            give("d", "q"),
        ], ["e", "f"]),
        store("o", "e", [0, 0], "out"),
        ret("o"),
    ]  # fmt: skip
    p = incore([*parameters([w], "FP16"), out("out", 16, 64)], body)
    assert codes(p) == {"V305"}


def test_windows_are_not_handed_to_functions_nor_returned() -> None:
    acc = {"tile": [16, 64], "dtype": "FP32", "memory": "Acc"}
    whole = incore([tile("acc", 16, 64, memory="Acc")], [ret("acc")], returns=[acc])
    assert not found(whole)
    part = incore(
        [tile("acc", 32, 64, memory="Acc")],
        [let("w", "tile.slice", "acc", [16, 64], [0, 0]), ret("w")],
        returns=[acc],
    )
    assert codes(part) == {"V301"}


def test_accumulator_parameters_are_whole_and_hold_something() -> None:
    w = Window(0, 0, 16, 64, "v")
    body = [*factors(0, w, 0, "FP16"), let("p", "tile.matmul_acc", "acc", "a0_0", "b0_0"), store("o", "p", [0, 0], "out"), ret("o")]
    params = [*parameters([w], "FP16", [scalar("v", range=(1, 16))]), tile("acc", 16, 64, memory="Acc"), out("out", 16, 64)]
    assert codes(incore(params, body)) == {"V303"}


# ---- all dumps, and cost -----------------------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted((SHARED / "dumps").glob("*.py")), ids=lambda file: file.stem)
def test_nothing_is_found_in_what_the_compiler_accepts(file: Any) -> None:
    p = read_document(file.read_text(encoding="utf-8"), file.name).program
    assert not [d for f in p.functions for d in accumulators(f, reads=load_target(p.target).acc_reads)]


def test_deep_nests_are_followed_in_time() -> None:
    """12 loops in each other, each carrying an accumulator and a column that grows: passes add up, they do not multiply."""
    w = Window(0, 0, 16, 16)
    depth = 12
    body: list[Json] = [
        let("w", "tile.slice", f"c{depth - 1}", [16, 16], [0, f"k{depth - 1}"]),
        let("p", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE),
        let(f"e{depth}", "tile.assemble", f"c{depth - 1}", "p", [0, f"k{depth - 1}"]),
        {"let": f"m{depth}", "expr": f"k{depth - 1} + 16"},
    ]
    for level in reversed(range(depth)):
        outer = (f"c{level - 1}", f"k{level - 1}") if level else ("acc", "zero")
        inner = [*body, give(f"e{level + 1}", f"m{level + 1}")]
        body = [loop(f"i{level}", [0, 2, 1], {f"c{level}": outer[0], f"k{level}": outer[1]}, inner, [f"e{level}", f"m{level}"])]
    start = [created((16, 65536), "FP16"), {"let": "zero", "expr": "0"}, *factors(0, w, 0, "FP16")]
    p = incore([*parameters([w], "FP16"), out("out", 16, 65536)], [*start, *body, store("o", "e0", [0, 0], "out"), ret("o")])
    assert not found(p)
