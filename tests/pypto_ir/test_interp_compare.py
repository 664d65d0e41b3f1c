"""Comparing programs: what differs is found, what may differ is not, and the coverage is told."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pypto_ir.dtypes import DType
from pypto_ir.interp.compare import changed_functions, compare, equivalent
from pypto_ir.interp.machine import Outcome
from pypto_ir.interp.memory import Buffer, Tensor
from pypto_ir.interp.values import UNDEFINED
from pypto_ir.json_reader import read_program
from pypto_ir.stmt import Program


def program(*body: dict[str, Any], extra: list[dict[str, Any]] | None = None) -> Program:
    params = [
        {"name": "x", "type": {"tensor": [2, 3, 8], "dtype": "FP32"}},
        {"name": "k", "type": {"scalar": "INDEX"}, "range": [0, 40]},
        {"name": "out", "type": {"tensor": [2, 3, 8], "dtype": "FP32"}, "direction": "Out"},
    ]
    function = {"name": "f", "kind": "InCore", "params": params, "body": list(body)}
    return read_program(json.dumps({"pypto_ir": 1, "functions": [function, *(extra or [])]}))


def op(name: str, op: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"let": name, "op": op, "args": list(args), **({"kwargs": kwargs} if kwargs else {})}


def load(name: str, flat: bool = False, offset: Any = 0) -> dict[str, Any]:
    shape = [2, 3, 8]
    loaded = op(name, "tile.load", "x", [offset, 0, 0], shape, shape, target_memory="Vec")
    return {**loaded, "type": {"tile": [6, 8], "dtype": "FP32"}} if flat else loaded


N_D = program(load("t"), op("y", "tile.muls", "t", 2.0), op("o", "tile.store", "y", [0, 0, 0], "out"))
FLAT = program(
    load("t", flat=True),
    op("y", "tile.muls", "t", 2.0),
    op("o", "tile.store", "y", [0, 0, 0], "out", [2, 3, 8]),
)


def test_a_flattened_program_equals_what_it_came_from() -> None:
    verdict = equivalent(N_D, FLAT)
    assert verdict.equal and verdict.validated and verdict.difference is None
    assert list(verdict.covered) == ["f"] and verdict.covered["f"].complete
    assert {seed for seed, _ in verdict.covered["f"].runs} == {0, 1, 2, 3}


def test_the_first_differing_cell_is_named() -> None:
    one = program(
        load("t"),
        op("y", "tile.muls", "t", 2.0),
        op("o", "tile.store", "y", [0, 0, 0], "out"),
        op("z", "tensor.write", "out", [1, 2, 3], {"const": 77.0, "dtype": "FP32"}),
    )
    verdict = equivalent(N_D, one)
    assert not verdict.equal and not verdict.validated and verdict.difference is not None
    found = verdict.difference
    assert (found.what, found.index, found.after) == ("buffer out", (43,), "77.0")
    assert "buffer out[43]" in str(found)


def test_a_write_that_only_one_of_them_makes_is_a_difference() -> None:
    nothing = program(load("t"))
    assert not equivalent(N_D, nothing).equal
    assert not equivalent(nothing, N_D).equal


def test_what_is_undefined_before_may_be_anything_after_but_not_the_other_way_round() -> None:
    made = op("t", "tile.create", [2, 3, 8], dtype="FP32", target_memory="Vec")
    undefined = program(made, op("o", "tile.store", "t", [0, 0, 0], "out"))
    defined = program(load("t"), op("o", "tile.store", "t", [0, 0, 0], "out"))
    assert equivalent(undefined, defined).validated
    verdict = equivalent(defined, undefined)
    assert verdict.difference is not None and verdict.difference.after == "undefined"


def test_an_after_that_leaves_its_tensors_is_a_difference_and_a_before_that_does_covers_nothing() -> None:
    outside = program(load("t", offset="k + 1"), op("o", "tile.store", "t", [0, 0, 0], "out"))
    verdict = equivalent(N_D, outside)
    assert verdict.difference is not None and verdict.difference.after.startswith("refused: ")
    verdict = equivalent(outside, N_D)
    assert verdict.equal and not verdict.validated and verdict.not_covered == ("f",)
    reasons = list(verdict.covered["f"].refused)
    assert reasons[0].startswith("before: [R001] read of elements 41 to 43 on axis 0 of x")


def test_other_seeds_are_tried_where_the_given_ones_have_no_meaning() -> None:
    write = op("w", "tensor.write", "out", [0, 0, 0], "s")
    bad = program(op("s", "tensor.read", "x", ["k // 40 * 2", 0, 0]), write)
    verdict = equivalent(bad, bad, "f", seeds=(0,))
    assert verdict.validated and all(seed > 0 for seed, _ in verdict.covered["f"].runs)


def test_ops_without_a_meaning_are_told_as_not_covered() -> None:
    unknown = {"let": "u", "op": "vendor.thing", "args": [], "type": {"tile": [6, 8], "dtype": "FP32"}}
    for before, after, which in ((program(unknown), N_D, "before"), (N_D, program(unknown), "after")):
        verdict = equivalent(before, after)
        assert verdict.equal and verdict.not_covered == ("f",)
        assert list(verdict.covered["f"].refused) == [f"{which}: [R003] vendor.thing has no meaning in the interpreter"]


def looped(stop: Any, name: str = "i", write: Any = "i") -> Program:
    value = {"const": 1.0, "dtype": "FP32"}
    body = [op("w", "tensor.write", "out", [f"{write} // 24", f"{write} // 8 % 3", f"{write} % 8"], value)]
    return program({"for": name, "range": [0, stop, 1], "body": body})


def test_only_loops_that_both_have_with_equal_bounds_are_cut() -> None:
    verdict = equivalent(looped(40), looped(40), "f", trips=(2,))
    assert verdict.validated and not verdict.covered["f"].complete
    renamed = looped(40, "j", "j")
    verdict = equivalent(looped(40), renamed, "f", trips=(2,))
    assert verdict.validated and verdict.covered["f"].complete
    split = looped(20, write="(i * 2)")
    assert not equivalent(looped(40), split, "f", trips=(2,)).equal


def test_loops_that_were_split_into_groups_are_not_cut() -> None:
    """Half of the pages in a copy of the loop: cut to two trips, the loop that kept its name would do less than its copy. The loop
    inside has bounds of its own in each copy."""

    def summed(name: str, last: str, page: int) -> list[dict[str, Any]]:
        inner, i = f"j{name}", f"i{name}"
        body = [
            op(f"t{name}", "tile.load", "x", [page, 0, 0], [1, 3, 8], [1, 3, 8], target_memory="Vec"),
            {"op": "tile.store", "args": [f"t{name}", [page, 0, 0], last], "kwargs": {"atomic": "Add"}},
        ]
        inside = {"for": inner, "range": [i, f"({i} + 5)", 1], "body": body}
        return [{"for": i, "range": [0, 5, 1], "body": [inside]}]

    whole = [
        op("t", "tile.load", "x", [0, 0, 0], [2, 3, 8], [2, 3, 8], target_memory="Vec"),
        {"op": "tile.store", "args": ["t", [0, 0, 0], "out"], "kwargs": {"atomic": "Add"}},
    ]
    inside = {"for": "j", "range": ["i", "(i + 5)", 1], "body": whole}
    before = program({"for": "i", "range": [0, 5, 1], "body": [inside]})
    verdict = equivalent(before, program(*summed("_group", "out", 0), *summed("", "out", 1)), "f", trips=(2,))
    assert verdict.validated and verdict.covered["f"].complete
    once = program(*summed("", "out", 1))
    assert not equivalent(before, once, "f", trips=(2,)).equal


def test_more_trips_are_run_while_time_is_left() -> None:
    verdict = equivalent(looped(40), looped(40), "f", seeds=(0,), fills=("small",))
    assert verdict.covered["f"].runs == [(0, 2), (0, 8), (0, 64)] and verdict.covered["f"].complete


def test_a_difference_in_a_middle_trip_is_found_when_all_trips_are_run() -> None:
    value = {"const": 2.0, "dtype": "FP32"}
    odd = {"if": "i == 20", "then": [op("v", "tensor.write", "out", [0, 0, 0], value)]}
    once = looped(40)
    data = json.loads(json.dumps({"for": "i", "range": [0, 40, 1], "body": [odd]}))
    write = op("w", "tensor.write", "out", ["i // 24", "i // 8 % 3", "i % 8"], {"const": 1.0, "dtype": "FP32"})
    data["body"].insert(0, write)
    assert equivalent(once, program(data), "f", trips=(2,)).equal
    assert not equivalent(once, program(data), "f").equal


def test_the_time_budget_is_kept() -> None:
    write = op("w", "tensor.write", "out", [0, 0, 0], {"const": 1.0, "dtype": "FP32"})
    long = program({"for": "i", "range": [0, 1 << 40, 1], "body": [write]})
    verdict = equivalent(long, long, "f", seconds=1.0)
    assert verdict.validated and not verdict.covered["f"].complete
    assert any("[R007]" in reason for reason in verdict.covered["f"].refused)


def test_functions_that_differ_and_their_callers_are_compared() -> None:
    def of(tail: str, callee: str = "leaf") -> Program:
        leaf = {"name": "leaf", "body": [{"let": "a", "expr": tail}]}
        caller = {"name": "caller", "body": [{"call": callee, "args": []}]}
        return read_program(json.dumps({"pypto_ir": 1, "functions": [caller, leaf, {"name": "other", "body": []}]}))

    assert changed_functions(of("1"), of("2")) == ["caller", "leaf"]
    assert changed_functions(of("1"), of("1")) == []
    assert equivalent(of("1"), of("1")).validated


def returned(before: Any, after: Any) -> str | None:
    found = compare(Outcome((before,), {}, 0, ()), Outcome((after,), {}, 0, ()))
    return None if found is None else found.what


def test_returned_scalars_are_compared_by_their_bits() -> None:
    f = np.float32
    assert returned(f(np.nan), f(np.nan)) is None
    assert returned(f(0.0), f(-0.0)) == "returned value 0"
    assert returned(3, 3) is None and returned(3, 4) == "returned value 0"
    assert returned(UNDEFINED, 4) is None and returned(4, UNDEFINED) == "returned value 0"
    assert returned((1, f(2)), (1, f(2))) is None and returned((1, f(2)), (1, f(3))) == "returned value 0"
    assert returned(f(1), np.float16(1)) == "returned value 0"


@pytest.mark.parametrize("dtype", [DType.FP32, DType.BF16, DType.FP8E4M3FN, DType.INT8, DType.BOOL])
def test_buffers_are_compared_by_their_bits_in_every_format(dtype: DType) -> None:
    def outcome(values: list[float]) -> Outcome:
        tensor = Tensor(Buffer("b", 4, dtype), (4,))
        tensor.write((0,), np.array(values).astype(tensor.read((0,), (4,))[0].dtype))
        return Outcome((), {"b": tensor.buffer}, 0, ())

    assert compare(outcome([0, 1, 1, 0]), outcome([0, 1, 1, 0])) is None
    found = compare(outcome([0, 1, 1, 0]), outcome([0, 1, 0, 0]))
    assert found is not None and found.index == (2,)
    if dtype.is_float:
        assert compare(outcome([0, np.nan, 1, 1]), outcome([0, np.nan, 1, 1])) is None
        assert compare(outcome([0, 1, 1, 1]), outcome([-0.0, 1, 1, 1])) is not None
