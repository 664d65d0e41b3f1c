"""The faults of upstream that `spec/upstream_faults.md` shows, by its names: by default each program is lowered rightly, or refused with
the reason. Under `--policy upstream` they are in `upstream/test_upstream_faults.py`."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, calls, incore, ints, let, load, lowered, main, ops, out, refused, ret, scalar, store, tensor, windows

from pypto_ir.expr import Var
from pypto_ir.stmt import Assign, Call, Program, walk


def half(name: str, *shape: Any, **more: Any) -> Json:
    return tensor(name, *shape, dtype="FP16", **more)


def mat(name: str, source: str, shape: list[int], at: list[Any] | None = None, valid: list[Any] | None = None) -> Json:
    return load(name, source, at or [0] * len(shape), shape, valid, memory="Mat")


def built(params: list[Json], body: list[Json], *results: str) -> Program:
    return incore(params, [*body, ret(*results)])


# batch reshape peeling


@pytest.mark.parametrize(
    ("lhs", "reshaped", "rhs", "result"),
    [
        ([3, 16, 32], [3, 1, 16, 32], [1, 3, 32, 16], [3, 3, 16, 16]),
        ([6, 16, 32], [2, 3, 16, 32], [32, 16], [2, 3, 16, 16]),
        ([2, 2, 16, 32], [4, 16, 32], [4, 32, 16], [4, 16, 16]),
    ],
    ids=["A1 broadcast", "A2 batch split of a shared weight", "A3 batch merge"],
)
def test_product_of_reshaped_batches_has_all_its_pages(lhs: list[int], reshaped: list[int], rhs: list[int], result: list[int]) -> None:
    body = [
        mat("l", "x", lhs),
        let("a", "tile.reshape", "l", reshaped),
        mat("b", "y", rhs),
        let("p", "tile.batch_matmul", "a", "b"),
        store("o", "p", [0] * len(result), "out"),
    ]
    lowered(built([half("x", *lhs), half("y", *rhs), out("out", *result)], body, "o"), dearer=True)


def test_a4_accumulation_of_reshaped_batches_has_all_its_pages() -> None:
    body = [
        mat("l", "x", [3, 16, 32]),
        let("a", "tile.reshape", "l", [3, 1, 16, 32]),
        mat("b", "y", [1, 3, 32, 16]),
        let("c", "tile.create", [3, 3, 16, 16], dtype="FP32", target_memory="Acc"),
        let("p", "tile.batch_matmul_acc", "c", "a", "b", "n == 0"),
        store("o", "p", [0, 0, 0, 0], "out"),
    ]
    params = [half("x", 3, 16, 32), half("y", 1, 3, 32, 16), scalar("n", range=(0, 0)), out("out", 3, 3, 16, 16)]
    assert ops(lowered(built(params, body, "o"), dearer=True)).count("matmul_acc") == 9


# loads page by page


PRODUCT = [let("p", "tile.batch_matmul", "a", "b"), store("o", "p", [0, 0, 0], "out")]


def test_b1_loads_of_pages_keep_the_valid_region() -> None:
    params = [half("x", 2, 16, 32), half("y", 2, 32, 16), scalar("v", range=(1, 16)), out("out", 2, 16, 16)]
    body = [mat("a", "x", [2, 16, 32], None, [2, "v", 32]), mat("b", "y", [2, 32, 16]), *PRODUCT]
    after = lowered(built(params, body, "o"), dearer=True)
    read = [call for call in calls(after, "tile.load") if ints(call, 2)[-2:] == [16, 32]]
    assert read and all(ints(call, 3)[-2:] == [None, 32] for call in read)


def test_b2_and_b3_loads_of_pages_read_the_tensor_as_it_is_where_they_stand() -> None:
    """The first load reads what the store before it wrote, and not what the store behind it writes."""
    params = [tensor("io", 4, 16, 32, dtype="FP16", direction="InOut"), half("y", 2, 32, 16), out("out", 2, 8, 16)]
    body = [
        load("t", "io", [0, 0, 0], [2, 16, 32]),
        store("io_1", "t", [2, 0, 0], "io"),
        mat("a", "io_1", [2, 8, 32], [2, 0, 0]),
        let("u", "tile.add", "t", "t"),
        store("io_2", "u", [2, 0, 0], "io_1"),
        mat("b", "y", [2, 32, 16]),
        *PRODUCT,
    ]
    lowered(built(params, body, "io_2", "o"), dearer=True)


# stores


@pytest.mark.parametrize("at", [[0, 0, 4], [5, 0, 0]], ids=["columns", "rows"])
def test_c1_store_that_leaves_its_target_is_refused(at: list[int]) -> None:
    params = [tensor("x", 6, 8), out("out", 2, 6, 8)]
    refused(built(params, [load("t", "x", [0, 0], [6, 8]), store("o", "t", at, "out")], "o"), "past")


def test_c2_store_with_a_box_keeps_it_and_gets_no_fifth_operand() -> None:
    params = [tensor("x", 6, 8), out("out", 2, 3, 8)]
    body = [load("t", "x", [0, 0], [6, 8]), let("e", "tile.exp", "t"), store("o", "e", [0, 0, 0], "out", [2, 3, 8])]
    after = lowered(built(params, body, "o"))
    assert windows(after) == [[2, 3, 8]] and len(calls(after, "tile.store")[0].args) == 4


def test_c6_store_that_stands_by_itself_gets_its_box() -> None:
    params = [tensor("x", 2, 3, 8), out("out", 2, 3, 8)]
    body = [load("t", "x", [0, 0, 0], [2, 3, 8]), {"op": "tile.store", "args": ["t", [0, 0, 0], "out"]}]
    assert windows(lowered(built(params, body, "out"), dearer=True)) == [[2, 3, 8]]


def test_c8_every_store_of_a_page_adds() -> None:
    params = [half("x", 2, 16, 32), half("y", 2, 32, 16), out("out", 2, 16, 16)]
    body = [mat("a", "x", [2, 16, 32]), mat("b", "y", [2, 32, 16]), PRODUCT[0], store("o", "p", [0, 0, 0], "out", atomic="Add")]
    after = lowered(built(params, body, "o"), dearer=True)
    assert {call.kwarg("atomic") for call in calls(after, "tile.store")} == {"Add"}


@pytest.mark.parametrize("apart", [False, True], ids=["C11 second use", "C12 a statement between"])
def test_product_is_stored_wherever_its_stores_stand(apart: bool) -> None:
    params = [half("x", 2, 16, 32), half("y", 2, 32, 16), out("out", 2, 16, 16), out("out2", 2, 16, 16)]
    body = [mat("a", "x", [2, 16, 32]), mat("b", "y", [2, 32, 16]), *PRODUCT, store("q", "p", [0, 0, 0], "out2")]
    if apart:
        body.insert(3, {"let": "z", "expr": 1})
    after = lowered(built(params, body, "o", "q"), dearer=True)
    assert "move" not in ops(after) and ops(after).count("matmul") <= 2


# windows


def windowed(*body: Json, valid: list[Any] | None = None, shape: tuple[int, ...] = (4, 8, 16)) -> Program:
    """Something written into, or read from, a tile [4, 8, 16], of which y is stored."""
    params = [tensor("x", 4, 8, 16), tensor("s", 2, 8, 16), tensor("r", 8, 16), out("out", *shape)]
    return built(params, [load("t", "x", [0, 0, 0], [4, 8, 16], valid), *body, store("o", "y", [0, 0, 0], "out")], "o")


def test_d8_pages_of_a_cut_source_stay_where_they_belong() -> None:
    lowered(
        windowed(load("u", "s", [0, 0, 0], [2, 8, 16], [2, 5, 16]), let("y", "tile.assemble", "t", "u", [0, 0, 0])),
        dearer=True,
    )


def test_d11_slice_of_a_page_is_rows_of_the_collapse() -> None:
    after = lowered(windowed(let("y", "tile.slice", "t", [1, 8, 16], [2, 0, 0]), shape=(1, 8, 16)), dearer=True)
    assert all(isinstance(t, Var) for call in calls(after, "tile.store") for t in call.args[:1])


def test_d12_source_of_fewer_axes_has_unit_axes_before_them() -> None:
    lowered(windowed(load("u", "r", [0, 0], [8, 16]), let("y", "tile.assemble", "t", "u", [2, 0, 0])), dearer=True)


def test_d13_window_that_is_no_band_is_written_in_two() -> None:
    after = lowered(
        windowed(load("u", "s", [0, 0, 0], [2, 4, 16]), let("y", "tile.assemble", "t", "u", [0, 0, 0])),
        dearer=True,
    )
    assert [ints(call, 2) for call in calls(after, "tile.assemble")] == [[0, 0], [8, 0]]


# book-keeping


def test_f1_attributes_stay_on_every_op() -> None:
    params = [tensor("x", 2, 3, 8), out("out", 2, 3, 8)]
    body = [
        {**load("a", "x", [0, 0, 0], [2, 3, 8]), "attrs": {"k": 1}},
        let("b", "tile.exp", "a", attrs={"k": 2}),
        {**store("o", "b", [0, 0, 0], "out"), "attrs": {"k": 3}},
    ]
    after = lowered(built(params, body, "o"), dearer=True)
    found = [s.value.attrs for s in walk(main(after).body) if isinstance(s, Assign) and isinstance(s.value, Call)]
    assert found == [(("k", 1),), (("k", 2),), (("k", 3),)]


# what only upstream's text gives a form


def test_box_that_the_author_gives_stands_once_where_upstream_is_the_fallback() -> None:
    """A column that `tile.full` makes lies row by row, its reshape to 2-D column by column: no rule has both for one value."""
    body = [
        let("f", "tile.full", [1, 16, 1], 2.0, dtype="FP32"),
        let("r", "tile.reshape", "f", [16, 1]),
        store("o", "r", [0, 0, 0], "out", [1, 16, 1]),
    ]
    before = built([out("out", 1, 32, 1)], body, "o")
    after = lowered(before, dearer=True)
    assert ops(after) == ["full", "reshape", "store"] and windows(after) == [[1, 16, 1]]
