"""Linearity by windows: which reads see a write in place, told apart by rows, views and positions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pypto_ir.json_reader import read_program
from pypto_ir.stmt import Function
from pypto_ir.verify import linearity, violations

Json = dict[str, Any]


def function(*body: Json, shape: tuple[int, int] = (64, 32)) -> Function:
    params = [
        {"name": "x", "type": {"tensor": list(shape), "dtype": "FP32"}},
        {"name": "n", "type": {"scalar": "INDEX"}, "range": [0, 3]},
        {"name": "given", "type": {"tile": [16, 32], "dtype": "FP32", "memory": "Vec"}},
        {"name": "out", "type": {"tensor": list(shape), "dtype": "FP32"}, "direction": "Out"},
    ]
    text = json.dumps({"pypto_ir": 1, "functions": [{"name": "f", "kind": "InCore", "params": params, "body": list(body)}]})
    return read_program(text).functions[0]


def op(name: str, op: str, *args: Any, **kwargs: Any) -> Json:
    return {"let": name, "op": op, "args": list(args), **({"kwargs": kwargs} if kwargs else {})}


def load(name: str, rows: int = 16) -> Json:
    return op(name, "tile.load", "x", [0, 0], [rows, 32], [rows, 32], target_memory="Vec")


def use(name: str, number: int = 0) -> Json:
    """A read of a tile."""
    return op(f"use{number}", "tile.exp", name)


def create(name: str) -> Json:
    return op(name, "tile.create", [16, 32], dtype="FP32", target_memory="Vec")


def slice_of(name: str, source: str, row: Any, rows: int = 4, *more: Any) -> Json:
    return op(name, "tile.slice", source, [rows, 32], [row, 0], *more)


def into(name: str, target: str, source: str, row: Any) -> Json:
    return op(name, "tile.assemble", target, source, [row, 0])


def found(*body: Json) -> list[tuple[str, str]]:
    """(variable that is read, buffer that was overwritten) of each violation."""
    return [(v.var, v.buffer) for v in violations(function(*body))]


HEAD = (load("t"), load("s", 4))


@pytest.mark.parametrize(("row", "seen"), [(0, False), (3, False), (4, True), (5, True), (8, True), (11, True), (12, False)])
def test_a_window_sees_a_write_that_touches_one_of_its_rows(row: int, seen: bool) -> None:
    """The window is rows 7 to 11 of 16, four rows are written."""
    body = (slice_of("w", "t", 7, 5), into("a", "t", "s", row), use("w"))
    assert found(*HEAD, *body) == ([("w", "t")] if seen else [])


@pytest.mark.parametrize(("row", "seen"), [(5, False), (6, True), (7, True), (8, True), (9, False)])
def test_a_window_of_a_window_lies_at_the_sum_of_their_rows(row: int, seen: bool) -> None:
    """Rows 2 to 3 of rows 5 to 12 are rows 7 and 8; two rows are written."""
    two = op("s2", "tile.slice", "s", [2, 32], [0, 0])
    body = (slice_of("w", "t", 5, 8), slice_of("v", "w", 2, 2), two, into("a", "t", "s2", row))
    assert found(*HEAD, *body, use("v")) == ([("v", "t")] if seen else [])


def test_a_change_of_the_valid_region_keeps_the_place() -> None:
    narrowed = op("c", "tile.set_validshape", "t", 12, 32)
    window = slice_of("w", "c", 0)
    assert found(*HEAD, narrowed, window, into("a", "t", "s", 4), use("w")) == []
    assert found(*HEAD, narrowed, window, into("a", "t", "s", 3), use("w")) == [("w", "t")]


def test_a_reshape_has_other_coordinates_and_is_all_of_its_operand() -> None:
    reshaped = op("r", "tile.reshape", "t", [32, 16])
    window = op("w", "tile.slice", "r", [8, 16], [0, 0])
    assert found(*HEAD, reshaped, window, into("a", "t", "s", 12), use("w")) == [("w", "t")]
    assert found(*HEAD, reshaped, op("w", "tile.exp", "r"), into("a", "t", "s", 12), use("w")) == []


def test_a_window_at_a_row_that_is_not_known_may_be_anywhere() -> None:
    assert found(*HEAD, slice_of("w", "t", "n"), into("a", "t", "s", 12), use("w")) == [("w", "t")]
    assert found(*HEAD, slice_of("w", "t", 0), into("a", "t", "s", "n"), use("w")) == [("w", "t")]
    assert found(*HEAD, slice_of("w", "t", "n"), into("a", "t", "s", "n + 4"), use("w")) == []
    assert found(*HEAD, slice_of("w", "t", "n"), into("a", "t", "s", "n + 3"), use("w")) == [("w", "t")]


def test_one_cell_is_written() -> None:
    write = op("a", "tile.write", "t", [8, 3], {"const": 1.0, "dtype": "FP32"})
    assert found(*HEAD, slice_of("w", "t", 4), write, use("w")) == []
    assert found(*HEAD, slice_of("w", "t", 5), write, use("w")) == [("w", "t")]
    assert found(*HEAD, slice_of("w", "t", 8), write, use("w")) == [("w", "t")]
    assert found(*HEAD, slice_of("w", "t", 9), write, use("w")) == []
    assert found(*HEAD, write, use("t")) == [("t", "t")]
    assert found(*HEAD, write, use("a")) == []


def test_a_parameter_has_a_buffer_of_its_own() -> None:
    assert found(*HEAD, into("a", "given", "s", 0), use("given")) == [("given", "given")]
    assert found(*HEAD, into("a", "given", "s", 0), use("a"), use("t", 1)) == []


def test_the_source_of_an_assemble_is_read_and_keeps_its_data() -> None:
    assert found(*HEAD, into("a", "t", "s", 0), use("s")) == []
    assert found(*HEAD, slice_of("w", "t", 0), into("a", "t", "s", 0), into("b", "a", "w", 8), use("b")) == [("w", "t")]


def test_a_window_that_nobody_wrote_may_be_put_back() -> None:
    window = slice_of("w", "t", 4)
    assert found(*HEAD, window, into("a", "t", "w", 4), use("t")) == []
    assert found(*HEAD, window, into("a", "t", "w", 4), use("a"), use("w", 1)) == []
    # elsewhere it is a write
    assert found(*HEAD, window, into("a", "t", "w", 8), use("t")) == [("t", "t")]
    assert found(*HEAD, window, into("a", "t", "w", 8), use("w")) == []
    assert found(*HEAD, window, into("a", "t", "w", 6), use("w")) == [("w", "t")]


def test_what_a_window_lacks_is_lost_where_it_is_put_back() -> None:
    """Of 4 rows of which n are valid, the others are not defined in the result, which lies in the buffer of t."""
    part = slice_of("w", "t", 4, 4, ["n", 32])
    assert found(load("t"), part, into("t2", "t", "w", 4), use("t2")) == []
    assert found(load("t"), part, into("t2", "t", "w", 4), use("t")) == [("t", "t")]
    assert found(load("t"), slice_of("v", "t", 8), part, into("t2", "t", "w", 4), use("v")) == []
    written = (slice_of("w", "t", 4), into("p", "w", "s", 0), op("q", "tile.set_validshape", "p", "n", 32), into("t2", "t", "q", 4))
    assert found(*HEAD, *written, use("p"), use("t2", 1)) == []
    assert found(*HEAD, *written, use("t")) == [("t", "t")]


def test_a_window_of_another_buffer_is_not_put_back() -> None:
    assert found(*HEAD, load("u"), slice_of("w", "u", 4), into("a", "t", "w", 4), use("t")) == [("t", "t")]


def test_putting_back_makes_the_writes_of_the_window_known_and_no_others() -> None:
    other = load("s2", 4)
    window, written, back = slice_of("w", "t", 4), into("p", "w", "s", 0), into("a", "t", "p", 4)
    assert found(*HEAD, window, written, back, use("a")) == []
    assert found(*HEAD, window, written, back, use("t")) == [("t", "t")]
    beside = into("b", "t", "s2", 8)
    assert found(*HEAD, other, window, beside, written, back, use("a")) == [("a", "t")]
    assert found(*HEAD, other, beside, slice_of("w", "b", 4), written, into("a", "b", "p", 4), use("a")) == []


def test_scratch_is_garbage_afterwards_unless_it_had_no_content() -> None:
    row = op("m", "tile.row_max", "t", "c")
    assert found(load("t"), load("c"), row, use("c")) == [("c", "c")]
    assert found(load("t"), create("c"), row, use("c")) == []
    filled = into("f", "c", "s", 0)
    assert found(*HEAD, create("c"), filled, op("m", "tile.row_max", "t", "f"), use("f")) == [("f", "c")]
    assert found(*HEAD, create("c"), row, op("m2", "tile.row_max", "t", "c")) == []


def test_the_message_names_what_was_read_where_it_lay_and_what_overwrote_it() -> None:
    f = function(*HEAD, slice_of("w", "t", 0), into("a", "t", "s", 0), use("w"), load("c"), op("m", "tile.row_max", "t", "c"), use("c", 1))
    first, second, third = linearity(f, ("functions", 0))
    assert first.message == "w is read after `a = tile.assemble` wrote its buffer in place (made for t)"
    assert "read w before that statement" in str(first.help)
    assert second.message == "t is read after `a = tile.assemble` wrote its buffer in place"
    assert third.message == "c is read after `m = tile.row_max` used its buffer as scratch"
    assert [d.place.path for d in (first, second, third)] == [f"$.functions[0].body[{i}]" for i in (4, 6, 7)]


# control flow


def branch(then: list[Json], orelse: list[Json] | None, *results: str) -> Json:
    return {"if": "n == 0", "then": then, **({"else": orelse} if orelse is not None else {}), "results": list(results)}


def test_a_write_in_one_arm_is_not_seen_in_the_other_but_behind_both() -> None:
    write = into("a", "t", "s", 0)
    assert found(*HEAD, branch([write], [use("t")])) == []
    assert found(*HEAD, branch([use("t")], [write])) == []
    assert found(*HEAD, branch([write], None), use("t")) == [("t", "t")]
    assert found(*HEAD, branch([], [write]), use("t")) == [("t", "t")]
    assert found(*HEAD, branch([write, use("t")], None)) == [("t", "t")]


def test_what_an_arm_gives_knows_of_the_writes_of_that_arm_only() -> None:
    write = into("a", "t", "s", 0)
    assert found(*HEAD, branch([write, {"yield": ["a"]}], [{"yield": ["t"]}], "y"), use("y")) == []
    assert found(*HEAD, branch([write, {"yield": ["t"]}], [{"yield": ["t"]}], "y"), use("y")) == [("y", "t")]
    assert found(*HEAD, branch([{"yield": ["t"]}], [write, {"yield": ["t"]}], "y"), use("y")) == [("y", "t")]
    later = into("b", "y", "s", 4)
    assert found(*HEAD, branch([write, {"yield": ["a"]}], [{"yield": ["t"]}], "y"), later, use("y")) == [("y", "t")]


def trips(*body: Json, to: Any = 3, carry: dict[str, str] | None = None, results: tuple[str, ...] = ()) -> Json:
    carries = [{"name": k, "init": v} for k, v in (carry or {}).items()]
    return {"for": "i", "range": [0, to, 1], "carry": carries, "body": list(body), "results": list(results)}


def test_a_write_in_a_later_trip_spoils_what_was_made_before_the_loop() -> None:
    write, both = into("a", "t", "s", 0), [("t", "t")] * 2  # the write reads t, too
    assert found(*HEAD, trips(use("t"), write)) == both
    assert found(*HEAD, trips(use("t"), write, to=1)) == []
    assert found(*HEAD, trips(use("t"), write, to=0)) == []
    assert found(*HEAD, trips(use("t"), write, to="n")) == both
    assert found(*HEAD, trips(write), use("t")) == both
    assert found(*HEAD, trips(write, to=0), use("t")) == []


def test_a_while_is_followed_like_a_loop_of_unknown_trips() -> None:
    write = into("a", "t", "s", 0)
    loop = {"while": "n < 3", "carry": [], "body": [use("t"), write], "results": []}
    assert found(*HEAD, loop) == [("t", "t")] * 2


def test_rows_of_different_trips_may_be_the_same() -> None:
    window = slice_of("w", "t", "i * 4")
    assert found(*HEAD, trips(window, use("w"), into("a", "t", "s", "i * 4"))) == [("w", "t"), ("t", "t")]
    assert found(*HEAD, trips(into("a", "c", "s", "i * 4"), {"yield": ["a"]}, carry={"c": "t"}, results=("r",)), use("r")) == []


def test_the_result_of_a_loop_is_its_init_where_no_trip_may_run() -> None:
    keep = (load("u", 16), {"yield": ["u"]})
    assert found(*HEAD, trips(*keep, to="n", carry={"c": "t"}, results=("r",)), into("a", "r", "s", 0), use("t")) == [("t", "t")]
    assert found(*HEAD, trips(*keep, to=3, carry={"c": "t"}, results=("r",)), into("a", "r", "s", 0), use("t")) == []
    assert found(*HEAD, trips(*keep, to=0, carry={"c": "t"}, results=("r",)), into("a", "r", "s", 0), use("t")) == [("t", "t")]


def test_buffers_that_move_on_by_one_each_trip_are_followed_until_they_repeat() -> None:
    """Three buffers in a circle: the one that is written in the third trip was made first."""
    names = ("a", "b", "c")
    made = [load(name) for name in names]
    body = (into("w", "ca", "s", 0), {"yield": ["cb", "cc", "w"]})
    loop = trips(*body, to=4, carry={f"c{n}": n for n in names}, results=("ra", "rb", "rc"))
    for name in names:
        assert found(*made, load("s", 4), loop, use(name)) == [(name, name)]
    short = {**loop, "range": [0, 2, 1]}
    assert [found(*made, load("s", 4), short, use(name)) for name in names] == [[("a", "a")], [("b", "b")], []]
