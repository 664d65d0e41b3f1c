"""Accumulators followed through statements: names, tuples, calls, writes that nobody names, arms and loops."""

from __future__ import annotations

from typing import Any

import pytest
from test_verify_accumulators import TRUE, codes, found

from pypto_ir.diagnostics import Severity
from pypto_ir.stmt import Program
from pypto_ir.verify import accumulators
from tests.acc_programs import Window, created, factors, parameters, windowed
from tests.helpers import Json, function, give, incore, let, loop, out, program, ret, scalar, store, tile

FULL, FEW = Window(0, 0, 32, 64), Window(0, 0, 32, 64, "v")
V, N = scalar("v", range=(1, 32)), scalar("n", range=(0, 1))
ACC: Json = {"tile": [32, 64], "dtype": "FP32", "memory": "Acc"}


def product(name: str, i: int, w: Window) -> list[Json]:
    """The product of the factors of window i, all rows or v of them."""
    return [*factors(i, w, 0, "FP16"), let(name, "tile.matmul", f"a{i}_0", f"b{i}_0")]


def after(*body: Json, stored: str | None = None, windows: tuple[Window, ...] = (FULL, FEW), others: tuple[Json, ...] = ()) -> Program:
    """Statements on a full product `p` and one of v rows, `q`; a tile is stored at the end. `others` are further functions."""
    params = [*parameters(windows, "FP16", [V, N]), out("out", 32, 64)]
    end = [store("o", stored, [0, 0], "out"), ret("o")] if stored else [ret("out")]
    return program(function("main", params, [*product("p", 0, FULL), *product("q", 1, FEW), *body, *end]), *others)


def bare(op: str, *args: Any, **kwargs: Any) -> Json:
    """A call whose result nobody names."""
    return {"op": op, "args": list(args), **({"kwargs": kwargs} if kwargs else {})}


def window(name: str, of: str, column: Any, columns: int = 32, rows: int = 32) -> Json:
    return let(name, "tile.slice", of, [rows, columns], [0, column])


# ---- which functions ---------------------------------------------------------------------------------------


def test_only_functions_of_cores_hold_accumulators() -> None:
    wrong = windowed((32, 64), [Window(16, 0, 16, 64)])
    (f,) = wrong.functions
    assert {d.severity for d in accumulators(f)} == {Severity.ERROR}
    for kind, seen in (("InCore", True), ("AIC", True), ("Orchestration", False)):
        body = [created((32, 64), "FP16"), let("w", "tile.slice", "acc", [16, 64], [16, 0]), *factors(0, Window(0, 0, 16, 64), 0, "FP16")]
        body += [let("m", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE)]
        p = program(function("main", parameters([Window(0, 0, 16, 64)], "FP16"), body, kind=kind))
        assert bool(codes(p)) == seen, kind


def test_an_accumulator_that_is_only_given_is_one() -> None:
    p = incore([tile("acc", 32, 64, memory="Acc")], [bare("tile.fillpad_inplace", "acc"), ret()])
    assert codes(p) == {"V305"}


# ---- names and tuples --------------------------------------------------------------------------------------


def test_another_name_is_the_same_accumulator() -> None:
    put = [
        {"let": "same", "expr": "acc"},
        *factors(0, Window(0, 32, 32, 32), 0, "FP16"),
        window("w", "same", 32),
        let("m", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE),
        let("z", "tile.assemble", "acc", "m", [0, 32]),
    ]
    params = [*parameters([Window(0, 32, 32, 32)], "FP16"), out("out", 32, 64)]
    assert not found(incore(params, [created((32, 64), "FP16"), *put, store("o", "z", [0, 0], "out"), ret("o")]))


@pytest.mark.parametrize(("index", "expected"), [(0, set()), (1, {"V304"})])
def test_elements_of_a_tuple_are_followed(index: int, expected: set[str]) -> None:
    """The second one is compact: it is no tile to cut windows of."""
    element = {"item": index, "of": "pair"}
    assert codes(after({"let": "pair", "expr": ["p", "q"]}, {"let": "e", "expr": element}, window("w", "e", 32))) == expected
    both = {"let": "pair", "expr": ["n", "p", "q"]}
    assert codes(after(both, {"let": "e", "expr": {"item": index + 1, "of": "pair"}}, window("w", "e", 32))) == expected


def test_other_elements_of_a_tuple_are_no_accumulators() -> None:
    body = [created((32, 64), "FP16", stated=False), let("z", "tile.move", "p", target_memory="Vec"), {"let": "pair", "expr": ["z", "p"]}]
    assert codes(after(*body, {"let": "e", "expr": {"item": 0, "of": "pair"}}, let("y", "tile.exp", "e"), stored="y")) == set()


def test_nothing_is_known_of_elements_of_elements() -> None:
    deep = {"name": "deep", "type": {"tuple": [{"tuple": [ACC]}]}}
    element = {"let": "e", "expr": {"item": 0, "of": {"item": 0, "of": "deep"}}}
    body = [element, *factors(0, FULL, 0, "FP16"), let("m", "tile.matmul_acc", "e", "a0_0", "b0_0"), ret()]
    assert codes(incore([*parameters([FULL], "FP16"), deep], body)) == {"V301", "V302"}


def test_windows_in_a_tuple_are_windows() -> None:
    body = [window("w", "p", 32), {"let": "pair", "expr": ["p", "w"]}]
    for index, expected in ((0, set()), (1, {"V301"})):
        p = after(
            *body, {"let": "e", "expr": {"item": index, "of": "pair"}}, {"call": "take", "args": ["e"]}, others=_taker(64 - 32 * index)
        )
        assert codes(p) == expected


def _taker(columns: int) -> tuple[Json, ...]:
    return (function("take", [tile("x", 32, columns, memory="Acc")], [ret()]),)


# ---- calls -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["call", "submit"])
def test_what_is_handed_to_a_function_is_a_whole_accumulator(how: str) -> None:
    for argument, columns, expected in (("p", 64, set()), ("w", 32, {"V301"})):
        p = after(window("w", "p", 32), {how: "take", "args": [argument]}, others=_taker(columns))
        assert codes(p) == expected
        assert all("handed to take" in d.message for d in found(p))


@pytest.mark.parametrize("source", [{"let": "r", "call": "make", "args": []}, {"let": ["r", "task"], "submit": "make", "args": []}])
def test_what_a_function_gives_is_whole_and_holds_something(source: Json) -> None:
    make = function("make", [], [created((32, 64), "FP16", "made"), ret("made")], returns=[ACC])
    fill = let("m", "tile.matmul_acc", "r", "a0_0", "b0_0")
    assert codes(after(source, fill, others=(make,))) == set()
    assert codes(after(source, let("m", "tile.reshape", "r", [64, 32]), others=(make,))) == {"V306"}
    given = (source, window("w", "r", 32), {"call": "take", "args": ["w"]})
    assert codes(after(*given, others=(make, *_taker(32)))) == {"V301"}


def test_an_op_without_a_declaration_is_not_judged() -> None:
    magic = {"let": "m", "op": "vendor.magic", "args": ["q"], "type": ACC}
    assert not found(after(magic)) and codes(after(magic, let("r", "tile.reshape", "m", [64, 32]))) == {"V306"}
    assert not found(after(bare("vendor.effect", "q") | {"type": {"unknown": True}}))


def test_writes_that_nobody_names_are_judged() -> None:
    assert codes(after(bare("tile.fillpad_inplace", "p"))) == {"V305"}
    assert codes(after(bare("tile.store", "q", [0, 0], "out"))) == set()


def test_what_another_op_makes_in_l0c_is_refused() -> None:
    (d,) = found(after(let("z", "tile.move", "p", target_memory="Acc")))
    assert d.code == "V305" and "tile.move makes a tile in Acc" in d.message
    assert codes(after(let("z", "tile.move", "p", target_memory="Vec"), let("y", "tile.exp", "z"), stored="y")) == set()


# ---- views -------------------------------------------------------------------------------------------------


def test_views_that_keep_the_shape_hand_on_what_is_written() -> None:
    for view in (let("s", "tile.set_validshape", "q", 32, 64), let("s", "tile.reshape", "p", [32, 64])):
        assert codes(after(view)) == ({"V304"} if "set" in view["op"] else set())
    narrowed = let("s", "tile.set_validshape", "p", "v", 64)
    assert codes(after(narrowed)) == set()
    # the place is the same one: a window of it is put back into p
    put = [
        let("s", "tile.set_validshape", "p", 32, 64), window("w", "s", 32), *factors(2, Window(0, 0, 32, 32), 0, "FP16"),
        let("m", "tile.matmul_acc", "w", "a2_0", "b2_0"), let("z", "tile.assemble", "p", "m", [0, 32]),
    ]  # fmt: skip
    assert codes(after(*put, windows=(FULL, FEW, Window(0, 0, 32, 32)))) == set()


def test_another_shape_of_what_holds_nothing_holds_nothing() -> None:
    """v of 16 rows into [16, 16], of which nothing is written, or of which nothing is known."""
    w = Window(0, 0, 16, 16, "v")
    body = [created((32, 8), "FP16"), let("r", "tile.reshape", "acc", [16, 16]), *factors(0, w, 0, "FP16")]
    p = incore(
        [*parameters([w], "FP16", [scalar("v", range=(1, 16))])], [*body, let("m", "tile.matmul_acc", "r", "a0_0", "b0_0", TRUE), ret()]
    )
    assert codes(p) == set()
    held = incore(
        [*parameters([w], "FP16", [scalar("v", range=(1, 16))]), tile("acc", 32, 8, memory="Acc")],
        [*body[1:], let("m", "tile.matmul_acc", "r", "a0_0", "b0_0", TRUE), ret()],
    )
    assert codes(held) == {"V303", "V306"}


def test_rows_and_columns_of_windows_are_not_mixed() -> None:
    """A window at row 16, column 32 of [64, 64], one block column wide, put back there and nowhere else."""
    w = Window(16, 32, 16, 16)
    start = [created((64, 64), "FP16"), *factors(0, w, 0, "FP16"), let("w", "tile.slice", "acc", [16, 16], [16, 32])]
    start += [let("m", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE)]
    for at, expected in (([16, 32], set()), ([32, 16], {"V305"}), ([16, 16], {"V305"}), ([32, 32], {"V305"})):
        body = [*start, let("z", "tile.assemble", "acc", "m", at), store("o", "z", [0, 0], "out"), ret("o")]
        assert codes(incore([*parameters([w], "FP16"), out("out", 64, 64)], body)) == expected


# ---- what is written ---------------------------------------------------------------------------------------


def _twice(first: Window, second: Window, shape: tuple[int, int] = (32, 32)) -> Program:
    return windowed(shape, [first, second], scalars=[V])


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Window(0, 0, 16, 16), Window(16, 0, 16, 16, "v"), set()),
        (Window(0, 0, 32, 16), Window(16, 0, 16, 16, "v"), {"V303"}),
        (Window(16, 0, 16, 16), Window(16, 0, 16, 16, "v"), {"V303"}),
    ],
)
def test_what_a_product_wrote_is_known_to_those_after_it(first: Window, second: Window, expected: set[str]) -> None:
    """v rows of a window of which nothing, all rows, or those rows are written before."""
    assert codes(_twice(first, second)) >= expected


def test_a_product_reads_its_other_operands() -> None:
    """The sum that it starts from is no operand that it reads into L1."""
    body = [*factors(2, Window(0, 0, 32, 64, "v"), 0, "FP16"), let("more", "tile.matmul_acc", "q", "a2_0", "b2_0")]
    assert codes(after(*body, windows=(FULL, FEW, FEW))) == set()


# ---- arms and loops ----------------------------------------------------------------------------------------


def arms(then: list[Json], orelse: list[Json], *results: str) -> Json:
    return {"if": "n > 0", "then": then, "else": orelse, "results": list(results)}


def test_every_result_of_a_branch_is_followed() -> None:
    both = arms([give("n", "p")], [give("n", "p")], "k", "r")
    assert codes(after(both, window("w", "r", 32))) == set()
    assert codes(after(arms([give("p", "q")], [give("p", "q")], "a", "b"), window("w", "b", 32))) == {"V304"}
    assert codes(after(arms([give("p", "q")], [give("p", "q")], "a", "b"), window("w", "a", 32))) == set()


def test_a_branch_without_another_arm_is_followed() -> None:
    stored = {"if": "n > 0", "then": [bare("tile.store", "p", [0, 0], "out")]}
    assert codes(after(stored, stored="p")) == set()
    assert codes(after({"if": "n > 0", "then": [window("w", "q", 32)]})) == {"V304"}


def test_a_window_is_not_handed_to_a_function_that_gives_something_either() -> None:
    small = {**ACC, "tile": [32, 32]}
    same = function("same", [tile("x", 32, 32, memory="Acc")], [ret("x")], returns=[small])
    assert codes(after(window("w", "p", 32), {"let": "r", "call": "same", "args": ["w"]}, others=(same,))) == {"V301"}


def test_statements_of_a_scope_are_followed() -> None:
    assert codes(after({"scope": "cluster", "body": [window("w", "q", 32)]})) == {"V304"}


def test_nothing_is_known_where_one_arm_gives_no_accumulator() -> None:
    moved = let("z", "tile.move", "p", target_memory="Vec")
    assert codes(after(moved, arms([give("p")], [give("z")], "r"), window("w", "r", 32))) == {"V304"}
    assert codes(after(moved, arms([give("z")], [give("p")], "r"), window("w", "r", 32))) == set()


def test_numbers_that_arms_and_loops_give_are_known_by_what_they_have_in_common() -> None:
    """16 or 48 is a block, 16 or 40 is none."""
    w = Window(0, "k", 32, 16)
    for other, expected in (("48", set()), ("40", {"V302"})):
        values = ([{"let": "k1", "expr": "16"}, give("k1")], [{"let": "k2", "expr": other}, give("k2")])
        body = [created((32, 64), "FP16"), arms(*values, "k"), window("w", "acc", "k", 16), *factors(0, w, 0, "FP16")]
        p = incore([*parameters([w], "FP16", [N])], [*body, let("m", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE), ret()])
        assert codes(p) == expected


def test_results_of_a_loop_are_what_its_trips_have_in_common() -> None:
    for step, expected in ((16, set()), (8, {"V302"})):
        w = Window(0, "last", 32, 16)
        body = [
            {"let": "zero", "expr": "0"},
            loop("i", [0, "n", 1], {"k": "zero"}, [{"let": "next", "expr": f"k + {step}"}, give("next")], ["last"]),
            created((32, 64), "FP16"), window("w", "acc", "last", 16), *factors(0, w, 0, "FP16"),
        ]  # fmt: skip
        p = incore([*parameters([w], "FP16", [N])], [*body, let("m", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE), ret()])
        assert codes(p) == expected


def test_a_while_is_followed_like_a_loop() -> None:
    for step, expected in ((16, set()), (8, {"V302"})):
        w = Window(0, "k", 32, 16)
        inside = [window("w", "acc", "k", 16), *factors(0, w, 0, "FP16"), let("m", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE)]
        inside += [{"let": "next", "expr": f"k + {step}"}, give("next")]
        body = [created((32, 64), "FP16"), {"let": "zero", "expr": "0"}]
        body += [{"while": "k < 64", "carry": [{"name": "k", "init": "zero"}], "body": inside, "results": ["last"]}, ret()]
        assert codes(incore([*parameters([w], "FP16")], body)) == expected


def test_what_a_loop_carries_under_another_type_is_refused_where_it_is_handed_on() -> None:
    """Full at the start, v rows after each trip: block columns lie elsewhere."""
    inner = [*factors(2, FEW, 0, "FP16"), let("r", "tile.matmul", "a2_0", "b2_0"), give("r")]
    p = after(loop("i", [0, 2, 1], {"c": "p"}, inner, ["e"]), windows=(FULL, FEW, FEW))
    assert {(d.code, d.place.statement) for d in found(p)} == {("V304", "for i")}
    kept = [give("c")]
    assert codes(after(loop("i", [0, 2, 1], {"c": "p"}, kept, ["e"]))) == set()


def test_findings_inside_of_loops_are_told_once() -> None:
    inside = [window("w", "q", 32), give("c")]
    assert [d.code for d in found(after(loop("i", [0, 4, 1], {"c": "p"}, inside, ["e"])))] == ["V304"]


def test_windows_of_a_loop_are_those_of_its_last_trip_outside() -> None:
    """A window at t * 16 of the trip is put back at t * 16 of it; after the loop nobody knows t."""
    w = Window(0, 0, 32, 16)
    at = {"let": "at", "expr": "t * 16"}
    inside = [
        at, window("w", "c", "at", 16), *factors(0, w, 0, "FP16"), let("m", "tile.matmul_acc", "w", "a0_0", "b0_0", TRUE),
        let("d", "tile.assemble", "c", "m", [0, "at"]), give("d"),
    ]  # fmt: skip
    body = [created((32, 64), "FP16"), loop("t", [0, 4, 1], {"c": "acc"}, inside, ["e"]), store("o", "e", [0, 0], "out"), ret("o")]
    assert codes(incore([*parameters([w], "FP16"), out("out", 32, 64)], body)) == set()
