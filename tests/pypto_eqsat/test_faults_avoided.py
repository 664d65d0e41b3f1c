"""What upstream gets wrong about valid regions, stores and column reductions (`spec/upstream_faults.md`, by its names) goes right by
default: each program is lowered, equal under interpretation, and shows what keeps it from the fault."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import (
    Json,
    calls,
    give,
    incore,
    ints,
    let,
    load,
    loop,
    lowered,
    main,
    ops,
    out,
    refused,
    ret,
    scalar,
    shapes,
    store,
    tensor,
    tile,
    types,
    windows,
)  # fmt: skip

from pypto_eqsat.driver import optimize
from pypto_ir.stmt import Assign, Program, walk
from pypto_ir.types import TensorType


def half(name: str, *shape: Any, **more: Any) -> Json:
    return tensor(name, *shape, dtype="FP16", **more)


def mat(name: str, source: str, offsets: list[Any], shape: list[int], valid: list[Any] | None = None) -> Json:
    return load(name, source, offsets, shape, valid, memory="Mat")


def built(params: list[Json], body: list[Json], *results: str, **options: Any) -> Program:
    return incore(params, [*body, ret(*results)], **options)


def product(lhs: str, rhs: str, out_name: str = "out") -> list[Json]:
    return [let("p", "tile.batch_matmul", lhs, rhs), store("o", "p", [0, 0, 0], out_name)]


# loads


def test_b1_loads_by_page_keep_a_narrowed_valid_shape() -> None:
    body = [mat("a", "x", [0, 0, 0], [2, 16, 32], [2, "v", 32]), mat("b", "y", [0, 0, 0], [2, 32, 16]), *product("a", "b")]
    before = built([half("x", 2, 16, 32), half("y", 2, 32, 16), scalar("v", range=(1, 16)), out("out", 2, 16, 16)], body, "o")
    after = lowered(before, dearer=True)
    loads = [c for c in calls(after, "tile.load") if ints(c, 2)[-1] == 32]
    assert loads and all(ints(c, 3)[-2] is None for c in loads)


def test_b2_a_load_reads_the_tensor_that_a_store_returned() -> None:
    body = [
        load("t", "io", [0, 0, 0], [2, 16, 32]),
        store("io_1", "t", [2, 0, 0], "io"),
        mat("a", "io_1", [2, 0, 0], [2, 8, 32]),
        mat("b", "y", [0, 0, 0], [2, 32, 16]),
        *product("a", "b"),
    ]
    params = [half("io", 4, 16, 32, direction="InOut"), half("y", 2, 32, 16), out("out", 2, 8, 16)]
    lowered(built(params, body, "io_1", "o"), dearer=True)


def test_b3_loads_do_not_sink_below_a_store_to_their_tensor() -> None:
    body = [
        mat("a", "io", [2, 0, 0], [2, 8, 32]),
        load("t", "io", [0, 0, 0], [2, 16, 32]),
        store("io_1", "t", [2, 0, 0], "io"),
        mat("b", "y", [0, 0, 0], [2, 32, 16]),
        *product("a", "b"),
    ]
    params = [half("io", 4, 16, 32, direction="InOut"), half("y", 2, 32, 16), out("out", 2, 8, 16)]
    after = lowered(built(params, body, "io_1", "o"), dearer=True)
    order = [c.op for c in calls(after) if c.op == "tile.store" or (c.op == "tile.load" and ints(c, 2)[-2:] == [8, 32])]
    assert order.index("tile.store") == 2, order


def test_b12_a_window_of_l1_that_is_no_run_of_rows_is_loaded_page_by_page() -> None:
    body = [mat("a", "x", [0, 0, 0], [2, 8, 32]), mat("b", "y", [0, 0, 0], [2, 32, 16]), *product("a", "b")]
    after = lowered(built([half("x", 2, 16, 32), half("y", 2, 32, 16), out("out", 2, 8, 16)], body, "o"), dearer=True)
    assert [ints(c, 1) for c in calls(after, "tile.load") if ints(c, 2) == [8, 32]] == [[0, 0], [16, 0]]


# stores


@pytest.mark.parametrize("offsets", [[0, 0, 4], [5, 0, 0]], ids=str)
def test_c1_a_window_that_leaves_its_tensor_is_refused(offsets: list[int]) -> None:
    before = built([tensor("x", 6, 8), out("out", 2, 6, 8)], [load("t", "x", [0, 0], [6, 8]), store("o", "t", offsets, "out")], "o")
    assert {d.code for d in refused(before, "runs past the tensor").diagnostics} == {"L103"}


def test_c2_a_window_of_the_author_is_the_only_one() -> None:
    before = built(
        [tensor("x", 6, 8), out("out", 2, 3, 8)], [load("t", "x", [0, 0], [6, 8]), store("o", "t", [0, 0, 0], "out", [2, 3, 8])], "o"
    )
    after = lowered(before)
    assert [len(c.args) for c in calls(after, "tile.store")] == [4] and windows(after) == [[2, 3, 8]]


def test_c3_a_second_run_changes_nothing() -> None:
    body = [load("t", "x", [0, 0, 0], [2, 3, 8]), store("o", "t", [0, 0, 0], "out")]
    once = lowered(built([tensor("x", 2, 3, 8), out("out", 2, 3, 8)], body, "o"))
    assert optimize(once).program is once


def test_c4_and_c5_stores_into_a_distributed_tensor_have_their_windows() -> None:
    body = [load("t", "x", [0, 0, 0], [2, 3, 8]), store("o", "t", [0, 0, 0], "out")]
    assert windows(lowered(built([tensor("x", 2, 3, 8), out("out", 2, 3, 8, distributed=True)], body, "o"))) == [[2, 3, 8]]
    body = [mat("a", "x", [0, 0, 0], [2, 16, 32]), mat("b", "y", [0, 0, 0], [2, 32, 16]), *product("a", "b")]
    params = [half("x", 2, 16, 32), half("y", 2, 32, 16), out("out", 2, 16, 16, distributed=True)]
    after = lowered(built(params, body, "o"), dearer=True)
    assert ops(after).count("matmul") == 2 and all(w is None or w[0] == 1 for w in windows(after))


def test_c6_a_store_that_stands_by_itself_has_its_window() -> None:
    body = [load("t", "x", [0, 0, 0], [2, 3, 8]), {"op": "tile.store", "args": ["t", [0, 0, 0], "out"]}]
    assert windows(lowered(built([tensor("x", 2, 3, 8), out("out", 2, 3, 8)], body, "out"))) == [[2, 3, 8]]


def test_c7_a_widened_valid_region_of_a_tensor_stays() -> None:
    body = [load("t", "x", [0, 0, 0], [1, 16, 32]), store("o", "t", [1, 0, 0], "out")]
    before = incore([tensor("x", 1, 16, 32), out("out", 2, 16, 32, valid=[1, 16, 32])], [*body, ret()], returns=[])
    after = optimize(before).program
    kept = [s.target.type for p in (before, after) for s in walk(main(p).body) if isinstance(s, Assign) and s.target.name == "o"]
    assert kept[0] == kept[1] and isinstance(kept[0], TensorType)


def test_c8_every_page_of_an_atomic_store_adds() -> None:
    body = [mat("a", "x", [0, 0, 0], [2, 16, 32]), mat("b", "y", [0, 0, 0], [2, 32, 64]), let("p", "tile.batch_matmul", "a", "b")]
    body.append(let("o", "tile.store", "p", [0, 0, 0], "out", atomic="Add"))
    params = [half("x", 2, 16, 32), half("y", 2, 32, 64), tensor("out", 2, 16, 64, direction="InOut")]
    after = lowered(built(params, body, "o"), dearer=True)
    assert all(dict(c.kwargs).get("atomic") == "Add" for c in calls(after, "tile.store"))


def test_c9_an_accumulator_is_stored_through_windows_of_one_matrix() -> None:
    body = [
        let("c", "tile.create", [2, 16, 16], dtype="FP32", target_memory="Acc"),
        mat("a", "x", [0, 0, 0], [2, 16, 64]),
        mat("b", "y", [0, 0, 0], [2, 64, 16]),
        let("p", "tile.batch_matmul_acc", "c", "a", "b", "n == 0"),
        store("o", "p", [0, 0, 0], "out"),
    ]
    params = [half("x", 2, 16, 64), half("y", 2, 64, 16), scalar("n", range=(0, 0)), out("out", 2, 16, 16)]
    after = lowered(built(params, body, "o"), dearer=True)
    assert all(w is None or w[:-2] == [1] for w in windows(after))


def test_c11_a_product_that_is_stored_twice_is_defined_for_both() -> None:
    body = [
        mat("a", "x", [0, 0, 0], [2, 16, 32]),
        mat("b", "y", [0, 0, 0], [2, 32, 16]),
        *product("a", "b"),
        store("q", "p", [0, 0, 0], "out2"),
    ]
    params = [half("x", 2, 16, 32), half("y", 2, 32, 16), out("out", 2, 16, 16), out("out2", 2, 16, 16)]
    assert ops(lowered(built(params, body, "o", "q"), dearer=True)).count("matmul") == 2


def test_c12_a_store_further_down_needs_no_other_memory() -> None:
    body = [mat("a", "x", [0, 0, 0], [2, 16, 32]), mat("b", "y", [0, 0, 0], [2, 32, 16]), *product("a", "b")]
    body.insert(3, {"let": "z", "expr": 1})
    after = lowered(built([half("x", 2, 16, 32), half("y", 2, 32, 16), out("out", 2, 16, 16)], body, "o"), dearer=True)
    assert "move" not in ops(after) and "assemble" not in ops(after)


# N-D meaning


def on_x(*body: Json, valid: list[Any] | None = None, result: tuple[int, ...] = (2, 3, 8)) -> Program:
    """Statements that make z of the tile x0 [2, 3, 8], of which `valid` is valid."""
    params = [
        tensor("x", 2, 3, 8),
        tensor("y", 2, 3, 8),
        tensor("r", 2, 1, 8),
        tensor("s", 1, 3, 8),
        tensor("c", 1, 3, 1),
        out("o", *result),
    ]
    around = [load("x0", "x", [0, 0, 0], [2, 3, 8], valid), *body, store("o1", "z", [0] * len(result), "o"), ret("o1")]
    return incore(params, around)


@pytest.mark.parametrize("op", ["col_sum", "col_max", "col_min", "col_prod"])
def test_d1_column_reductions_do_not_reduce_merged_rows(op: str) -> None:
    after = lowered(on_x(let("z", f"tile.{op}", "x0"), result=(1, 3, 8)), dearer=True)
    assert {(1, 24), (3, 8)} & set(shapes(after).values()) and (1, 8) not in shapes(after).values()


@pytest.mark.parametrize(
    ("op", "source", "shape"),
    [("col_expand_mul", "r", [2, 1, 8]), ("add", "s", [1, 3, 8]), ("add", "r", [2, 1, 8]), ("row_expand_add", "c", [1, 3, 1])],
    ids=["D2", "D3 rows of one page", "D3 a row for each page", "D4"],
)
def test_operands_that_are_repeated_over_an_outer_axis_go_page_by_page(op: str, source: str, shape: list[int]) -> None:
    after = lowered(on_x(load("r0", source, [0, 0, 0], shape), let("z", f"tile.{op}", "x0", "r0")), dearer=True)
    assert ops(after).count(op) == 2


GAPS = [2, 2, 8]


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ([load("y0", "y", [0, 0, 0], [2, 3, 8]), let("z", "tile.add", "x0", "y0")], (2, 3, 8)),
        ([let("z", "tile.fillpad", "x0", pad_value="zero")], (2, 3, 8)),
        ([let("w", "tile.fillpad", "x0", pad_value="zero"), let("z", "tile.transpose", "w", 1, 2)], (2, 8, 3)),
    ],
    ids=["D5 another region", "D6 fillpad", "D7 transpose"],
)
def test_rows_of_a_region_with_gaps_are_read_where_they_are(body: list[Json], result: tuple[int, ...]) -> None:
    after = lowered(on_x(*body, valid=GAPS, result=result), dearer=True)
    assert all(t.static_shape != (6, 8) or t.valid == t.shape for n, t in types(after).items() if n.startswith(("x0", "z")))


def test_d8_an_assembled_region_with_gaps_keeps_its_rows() -> None:
    body = [load("y0", "y", [0, 0, 0], [2, 3, 8]), let("z", "tile.assemble", "y0", "x0", [0, 0, 0])]
    lowered(on_x(*body, valid=GAPS), dearer=True)


def test_d9_a_packed_region_is_not_reshaped() -> None:
    with pytest.raises(Exception, match="only part of it holds real"):
        on_x(let("z", "tile.reshape", "x0", [6, 8]), valid=GAPS, result=(6, 8))


# transposes and book-keeping


def test_e3_and_e4_a_transpose_of_one_page_is_one_op_or_none() -> None:
    unit = on_x_one(let("z", "tile.transpose", "t", 0, 1), [3, 1, 8])
    assert ops(lowered(unit, dearer=True)) == ["load", "store"]
    one = on_x_one(let("z", "tile.transpose", "t", 1, 2), [1, 8, 3])
    assert ops(lowered(one, dearer=True)) == ["load", "create", "transpose", "store"]


def on_x_one(body: Json, result: list[int]) -> Program:
    around = [load("t", "x", [0, 0, 0], [1, 3, 8]), body, store("o", "z", [0, 0, 0], "out"), ret("o")]
    return incore([tensor("x", 1, 3, 8), out("out", *result)], around)


def test_f1_attributes_are_kept_on_every_op() -> None:
    body = [
        load("a", "x", [0, 0, 0], [2, 3, 8], attrs={"k": 1}),
        let("b", "tile.exp", "a", attrs={"k": 2}),
        store("o", "b", [0, 0, 0], "out", attrs={"k": 3}),
    ]
    after = lowered(built([tensor("x", 2, 3, 8), out("out", 2, 3, 8)], body, "o"))
    assert [dict(c.attrs) for c in calls(after)] == [{"k": 1}, {"k": 2}, {"k": 3}]


def test_f5_a_tile_parameter_of_rank_three_and_its_carry_are_refused() -> None:
    body = [loop("i", [0, "n", 1], {"c": "q"}, [load("b", "x", [0, 0, 0], [2, 3, 8]), give("b")], ["r"]), store("o", "r", [0, 0, 0], "out")]
    before = built([tile("q", 2, 3, 8), tensor("x", 2, 3, 8), scalar("n", range=(0, 3)), out("out", 2, 3, 8)], body, "o")
    assert {d.code for d in refused(before, "q", "not even a reshape", "rank 2, as [6, 8]").diagnostics} == {"L105"}
    unread = [load("b", "x", [0, 0, 0], [2, 3, 8]), store("o", "b", [0, 0, 0], "out")]
    assert ops(lowered(built([tile("q", 2, 3, 8), tensor("x", 2, 3, 8), out("out", 2, 3, 8)], unread, "o"))) == ["load", "store"]
