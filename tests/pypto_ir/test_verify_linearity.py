"""Linearity: each way to read an overwritten buffer is caught, each legal use of ops in place is accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pypto_ir.interp.compare import equivalent
from pypto_ir.json_reader import read_program
from pypto_ir.stmt import Program
from pypto_ir.verify import linearity, violations

KERNELS = sorted((Path(__file__).parents[2].parent / "shared" / "kernels").glob("*.json"))


def program(body: list[dict[str, Any]], **extra: Any) -> Program:
    params = [
        {"name": "x", "type": {"tensor": [64, 32], "dtype": "FP32"}},
        {"name": "n", "type": {"scalar": "INDEX"}, "range": [0, 3]},
        {"name": "out", "type": {"tensor": [64, 32], "dtype": "FP32"}, "direction": "Out"},
    ]
    function = {"name": "f", "kind": "InCore", "params": params, "body": body, **extra}
    return read_program(json.dumps({"pypto_ir": 1, "functions": [function]}))


def load(name: str, row: Any = 0, rows: int = 16) -> dict[str, Any]:
    shape = [rows, 32]
    args = ["x", [row, 0], shape, shape]
    return {"let": name, "op": "tile.load", "args": args, "kwargs": {"target_memory": "Vec"}}


def op(name: str, op: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"let": name, "op": op, "args": list(args), **({"kwargs": kwargs} if kwargs else {})}


def store(name: str, tile: str, row: Any = 0, to: str = "out") -> dict[str, Any]:
    return op(name, "tile.store", tile, [row, 0], to)


def read_by(p: Program) -> list[tuple[str, str]]:
    """(variable that is read, buffer that was overwritten) of each violation."""
    return [(v.var, v.buffer) for v in violations(p.functions[0])]


def test_a_view_read_after_its_buffer_was_assembled_into_is_caught() -> None:
    p = program(
        [
            load("t"), load("s", 16, 8),
            op("v", "tile.slice", "t", [8, 32], [0, 0]),
            op("a", "tile.assemble", "t", "s", [4, 0]),
            op("z", "tile.add", "v", "s"),
            store("o1", "z"), store("o2", "a", 16, "o1"),
        ]
    )  # fmt: skip
    assert read_by(p) == [("v", "t")]
    (finding,) = linearity(p.functions[0], ("functions", 0))
    assert finding.code == "V201" and finding.place.path == "$.functions[0].body[4]"


def test_a_view_of_rows_that_the_assemble_leaves_alone_is_accepted() -> None:
    p = program(
        [
            load("t"), load("s", 16, 8),
            op("v", "tile.slice", "t", [8, 32], [0, 0]),
            op("a", "tile.assemble", "t", "s", [8, 0]),
            op("z", "tile.add", "v", "s"),
            store("o1", "z"), store("o2", "a", 16, "o1"),
        ]
    )  # fmt: skip
    assert read_by(p) == []
    assert equivalent(p, p, "f").validated


@pytest.mark.parametrize("row", [0, "i * 8"])
def test_a_full_hoisted_out_of_a_loop_that_writes_it_is_caught(row: Any) -> None:
    body = [load("s", "i * 8", 8), op("a", "tile.assemble", "z", "s", [row, 0]), store("o1", "a", "i * 16")]
    p = program([op("z", "tile.full", [16, 32], 0, dtype="FP32"), {"for": "i", "range": [0, 2, 1], "body": body}])
    assert read_by(p) == [("z", "z")]


def test_a_full_inside_of_the_loop_that_writes_it_is_accepted() -> None:
    body = [
        op("z", "tile.full", [16, 32], 0, dtype="FP32"), load("s", "i * 8", 8),
        op("a", "tile.assemble", "z", "s", ["i * 8", 0]), store("o1", "a", "i * 16"),
    ]  # fmt: skip
    assert read_by(program([{"for": "i", "range": [0, 2, 1], "body": body}])) == []


def test_a_loop_of_one_trip_may_write_what_was_made_before_it() -> None:
    body = [load("s", 0, 8), op("a", "tile.assemble", "z", "s", [0, 0]), store("o1", "a")]
    p = program([op("z", "tile.full", [16, 32], 0, dtype="FP32"), {"for": "i", "range": [0, 1, 1], "body": body}])
    assert read_by(p) == []


def test_two_uses_of_one_load_of_which_one_is_overwritten_are_caught() -> None:
    p = program(
        [
            load("t"), load("s", 16, 8),
            op("a", "tile.assemble", "t", "s", [0, 0]),
            op("e", "tile.exp", "t"),
            store("o1", "a"), store("o2", "e", 16, "o1"),
        ]
    )  # fmt: skip
    assert read_by(p) == [("t", "t")]
    assert not equivalent(p, p, "f").equal


def test_the_same_load_twice_is_accepted() -> None:
    p = program(
        [
            load("t"), load("u"), load("s", 16, 8),
            op("a", "tile.assemble", "t", "s", [0, 0]),
            op("e", "tile.exp", "u"),
            store("o1", "a"), store("o2", "e", 16, "o1"),
        ]
    )  # fmt: skip
    assert read_by(p) == []


def carried_twice(reads_first: bool) -> Program:
    write = op("a1", "tile.assemble", "a", "s", [0, 0])
    reads = [op("e", "tile.exp", "b"), store("o1", "e")]
    body = [
        load("s", "i * 8", 8),
        *([*reads, write] if reads_first else [write, *reads]),
        {"yield": ["a1", "b"]},
    ]
    carry = [{"name": "a", "init": "t"}, {"name": "b", "init": "t"}]
    loop = {"for": "i", "range": [0, "n", 1], "carry": carry, "body": body, "results": ["ra", "rb"]}
    return program([load("t"), loop])


@pytest.mark.parametrize("reads_first", [False, True])
def test_one_buffer_carried_twice_and_written_is_caught(reads_first: bool) -> None:
    assert read_by(carried_twice(reads_first)) == [("b", "t")]


@pytest.mark.parametrize("trips", [1, 2])
def test_what_a_loop_without_writes_hands_to_its_next_trip_is_followed(trips: int) -> None:
    """The first trip reads what it was given, the second one the view of a buffer that was overwritten before the loop."""
    p = program(
        [
            load("t"), load("s", 16, 8), load("u", 24, 8),
            op("v", "tile.slice", "t", [8, 32], [0, 0]),
            op("a", "tile.assemble", "t", "s", [4, 0]),
            {
                "for": "k", "range": [0, trips, 1], "carry": [{"name": "c", "init": "u"}], "results": ["r"],
                "body": [store("o", "c"), {"yield": ["v"]}],
            },
            store("o2", "a", 16),
        ]
    )  # fmt: skip
    assert read_by(p) == ([("c", "t")] if trips == 2 else [])


def test_buffers_that_swap_places_in_every_trip_are_told_apart() -> None:
    carry = [{"name": "a", "init": "t"}, {"name": "b", "init": "u"}]
    body = [
        load("s", "i * 8", 8), op("a1", "tile.assemble", "a", "s", [0, 0]),
        op("e", "tile.exp", "b"), store("o1", "e"), {"yield": ["b", "a1"]},
    ]  # fmt: skip
    loop = {"for": "i", "range": [0, "n", 1], "carry": carry, "body": body, "results": ["ra", "rb"]}
    assert read_by(program([load("t"), load("u", 16), loop])) == []
    stale = [*body[:4], op("w", "tile.exp", "u"), store("o2", "w"), body[4]]
    assert read_by(program([load("t"), load("u", 16), {**loop, "body": stale}])) == [("u", "u")]


def test_a_chain_of_assembles_is_accepted() -> None:
    p = program(
        [
            load("x0"), load("s", 16, 8), load("r", 24, 8),
            op("x1", "tile.assemble", "x0", "s", [0, 0]),
            op("x2", "tile.assemble", "x1", "r", [8, 0]),
            op("v", "tile.slice", "x2", [8, 32], [0, 0]), op("e", "tile.exp", "v"),
            store("o1", "x2"), store("o2", "e", 16, "o1"),
        ]
    )  # fmt: skip
    assert read_by(p) == []
    assert equivalent(p, p, "f").validated


def test_a_chain_that_goes_back_to_an_older_link_is_caught() -> None:
    p = program(
        [
            load("x0"), load("s", 16, 8),
            op("x1", "tile.assemble", "x0", "s", [0, 0]),
            op("x2", "tile.assemble", "x0", "s", [8, 0]),
            store("o1", "x1"), store("o2", "x2", 16, "o1"),
        ]
    )  # fmt: skip
    assert read_by(p) == [("x0", "x0"), ("x1", "x0")]


def accumulator(body: list[dict[str, Any]], *after: dict[str, Any]) -> Program:
    create = op("acc0", "tile.create", [32, 32], dtype="FP32", target_memory="Acc")
    loop = {
        "for": "k",
        "range": [0, "n", 1],
        "carry": [{"name": "acc", "init": "acc0"}],
        "body": body,
        "results": ["accf"],
    }
    return program([create, loop, *after])


def mat(name: str, rows: int, row: Any = 0) -> dict[str, Any]:
    return {**load(name, row, rows), "kwargs": {"target_memory": "Mat"}}


def test_a_carried_accumulator_is_accepted() -> None:
    step = op("acc1", "tile.matmul_acc", "acc", "l", "r", "k == 0")
    p = accumulator([mat("l", 32), mat("r", 32, "k"), step, {"yield": ["acc1"]}], store("o", "accf"))
    assert read_by(p) == []
    assert equivalent(p, p, "f").validated


def windows(offset: Any, then: list[dict[str, Any]]) -> Program:
    body = [
        mat("l", 16), mat("r", 32, "k"),
        op("w", "tile.slice", "acc", [16, 32], ["k % 2 * 16", 0]),
        op("p", "tile.matmul_acc", "w", "l", "r", True),
        *then,
        op("acc1", "tile.assemble", "acc", "p", [offset, 0]),
        {"yield": ["acc1"]},
    ]  # fmt: skip
    return accumulator(body, store("o", "accf"))


def test_a_window_written_and_put_back_where_it_was_taken_is_accepted() -> None:
    p = windows("k % 2 * 16", [])
    assert read_by(p) == []
    assert equivalent(p, p, "f").validated


def test_a_window_put_back_elsewhere_is_caught() -> None:
    assert read_by(windows(16, [])) == [("acc", "acc0")]


def test_the_base_of_a_written_window_read_before_the_window_is_put_back_is_caught() -> None:
    assert read_by(windows("k % 2 * 16", [store("o2", "acc")])) == [("acc", "acc0")]


def test_an_old_accumulator_read_after_the_loop_is_caught() -> None:
    step = op("acc1", "tile.matmul_acc", "acc", "l", "r", "k == 0")
    loop = [mat("l", 32), mat("r", 32, "k"), step, {"yield": ["acc1"]}]
    assert read_by(accumulator(loop, store("o", "acc0"))) == [("acc0", "acc0")]


def branch(then: list[dict[str, Any]], orelse: list[dict[str, Any]]) -> dict[str, Any]:
    return {"if": "n == 0", "then": then, "else": orelse, "results": ["y"]}


def test_arms_that_both_write_one_buffer_are_told_apart() -> None:
    then = [op("a", "tile.assemble", "t", "s", [0, 0]), {"yield": ["a"]}]
    orelse = [op("b", "tile.assemble", "t", "s", [8, 0]), {"yield": ["b"]}]
    head, tail = [load("t"), load("s", 16, 8), branch(then, orelse)], store("o", "y")
    assert read_by(program([*head, tail])) == []
    assert read_by(program([*head, tail, store("o2", "t", 16)])) == [("t", "t"), ("t", "t")]


def test_a_write_to_what_a_branch_gave_reaches_both_sources() -> None:
    p = program(
        [
            load("t"), load("u", 16), load("s", 32, 8),
            branch([{"yield": ["t"]}], [{"yield": ["u"]}]),
            op("a", "tile.assemble", "y", "s", [0, 0]),
            store("o1", "a"), store("o2", "t", 16, "o1"), store("o3", "u", 32, "o2"),
        ]
    )  # fmt: skip
    assert read_by(p) == [("t", "t"), ("u", "u")]


def test_a_tile_read_after_it_served_as_scratch_is_caught() -> None:
    body = [
        load("t"),
        load("c"),
        op("m", "tile.row_max", "t", "c"),
        store("o1", "c"),
        op("e", "tile.exp", "m"),
    ]
    (found,) = violations(program(body).functions[0])
    assert found.scratch and found.var == "c"


def test_one_scratch_may_serve_several_ops() -> None:
    create = op("c", "tile.create", [16, 32], dtype="FP32", target_memory="Vec")
    rows = [op("m", "tile.row_max", "t", "c"), op("d", "tile.row_expand_sub", "t", "m")]
    p = program([load("t"), create, *rows, op("q", "tile.row_sum", "d", "c"), store("o", "d")])
    assert read_by(p) == []


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_every_kernel_is_linear(path: Path) -> None:
    for function in read_program(path.read_text(), path.name).functions:
        assert linearity(function) == []


def test_ten_thousand_statements_and_deep_nests_of_writing_loops_are_followed() -> None:
    chain = [op(f"t{i + 1}", "tile.assemble", f"t{i}", "s", [0, 0]) for i in range(10_000)]
    assert read_by(program([load("t0"), load("s", 16, 8), *chain, store("o", "t10000"), store("o2", "t0")])) != []
    nest = [op("a", "tile.assemble", "z", "s", ["i0", 0])]
    for depth in range(40):
        nest = [{"for": f"i{depth}", "range": [0, "n", 1], "body": nest}]
    made = op("z", "tile.full", [16, 32], 0, dtype="FP32")
    assert read_by(program([made, load("s", 0, 8), *nest])) == [("z", "z")]
