"""The faults of upstream that `spec/upstream_faults.md` shows, by its names: under `--policy upstream` each is lowered rightly with a
warning that says how upstream's program differs, or refused with a code."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, flat, give, loop, main, scalar, shapes
from upstream_support import (
    calls,
    const,
    incore,
    ints,
    let,
    load,
    lowered_as_upstream,
    mat,
    ops,
    out,
    refused_by_upstream,
    ret,
    slices,
    store,
    store_offsets,
    tensor,
    types,
    windows,
)

from pypto_eqsat.driver import optimize
from pypto_ir.stmt import Assign, Program, walk


def half(name: str, *shape: Any, **more: Any) -> Json:
    return tensor(name, *shape, dtype="FP16", **more)


def built(params: list[Json], body: list[Json], *results: str, **options: Any) -> Program:
    return incore(params, [*body, ret(*results)], **options)


def product(lhs: str, rhs: str, zeros: int) -> list[Json]:
    return [let("p", "tile.batch_matmul", lhs, rhs), store("o", "p", [0] * zeros, "out")]


# Batch reshape peeling


def test_a1_reshape_of_batch_dims_keeps_the_broadcast_of_the_product() -> None:
    body = [
        mat("l", "x", [0, 0, 0], [3, 16, 32]),
        let("a", "tile.reshape", "l", [3, 1, 16, 32]),
        mat("b", "y", [0, 0, 0, 0], [1, 3, 32, 16]),
        *product("a", "b", 4),
    ]
    before = built([half("x", 3, 16, 32), half("y", 1, 3, 32, 16), out("out", 3, 3, 16, 16)], body, "o")
    after = lowered_as_upstream(before, faults=("W401 upstream multiplies the batches [3] and [1, 3]",))
    assert ops(after).count("matmul") == 9 and "reshape" not in ops(after)
    assert store_offsets(after) == [[i, j, 0, 0] for i in range(3) for j in range(3)]


@pytest.mark.parametrize(
    ("lhs", "reshaped", "rhs", "result"),
    [
        ([6, 16, 32], [2, 3, 16, 32], [32, 16], [2, 3, 16, 16]),
        ([2, 2, 16, 32], [4, 16, 32], [4, 32, 16], [4, 16, 16]),
    ],
    ids=["A2 batch split of a shared weight", "A3 batch merge"],
)
def test_a_product_of_reshaped_batches_that_upstream_refuses_is_right(
    lhs: list[int], reshaped: list[int], rhs: list[int], result: list[int]
) -> None:
    body = [
        mat("l", "x", [0] * len(lhs), lhs),
        let("a", "tile.reshape", "l", reshaped),
        mat("b", "y", [0] * len(rhs), rhs),
        *product("a", "b", len(result)),
    ]
    before = built([half("x", *lhs), half("y", *rhs), out("out", *result)], body, "o")
    after = lowered_as_upstream(before, faults=("W401 upstream",))
    assert ops(after).count("matmul") == ops(after).count("store") == result[0] * (result[1] if len(result) > 3 else 1)


def test_a4_reshape_into_an_accumulation() -> None:
    body = [
        mat("l", "x", [0, 0, 0], [3, 16, 32]),
        let("a", "tile.reshape", "l", [3, 1, 16, 32]),
        mat("b", "y", [0, 0, 0, 0], [1, 3, 32, 16]),
        let("c", "tile.create", [3, 3, 16, 16], dtype="FP32", target_memory="Acc"),
        let("p", "tile.batch_matmul_acc", "c", "a", "b", "n == 0"),
        store("o", "p", [0, 0, 0, 0], "out"),
    ]
    params = [half("x", 3, 16, 32), half("y", 1, 3, 32, 16), scalar("n", range=(0, 0)), out("out", 3, 3, 16, 16)]
    after = lowered_as_upstream(built(params, body, "o"), faults=("W401 upstream multiplies the batches",))
    assert ops(after).count("matmul_acc") == 9 and shapes(after)["c"] == (16, 144)


# Operand routing and loads by page


def by_page(valid: list[Any], tail: int = 16) -> list[Json]:
    """A window with gaps of x, loaded by page, times y."""
    return [mat("a", "x", [0, 0, 0], [2, 8, 32], valid), mat("b", "y", [0, 0, 0], [2, 32, tail])]


def test_b1_page_loads_keep_the_valid_region() -> None:
    body = [*by_page([2, "v", 32]), *product("a", "b", 3)]
    before = built([half("x", 2, 16, 32), half("y", 2, 32, 16), scalar("v", range=(1, 8)), out("out", 2, 8, 16)], body, "o")
    after = lowered_as_upstream(before, faults=("W401 upstream loads whole pages although only [2, v, 32]",) * 2)
    assert [ints(c, 3) for c in calls(after, "tile.load") if ints(c, 2) == [8, 32]] == [[None, 32]] * 2


def test_page_loads_of_a_partly_valid_batch_are_refused() -> None:
    body = [*by_page(["v", 8, 32]), *product("a", "b", 3)]
    before = built([half("x", 2, 16, 32), half("y", 2, 32, 16), scalar("v", range=(1, 2)), out("out", 2, 8, 16)], body, "o")
    refused_by_upstream(before, "L415", "[v, 8, 32]")


def test_b2_page_loads_read_the_tensor_as_it_is_named_now() -> None:
    body = [
        mat("l", "z", [0, 0, 0], [2, 16, 32]),
        mat("m", "y", [0, 0, 0], [2, 32, 16]),
        let("q", "tile.batch_matmul", "l", "m"),
        store("w1", "q", [0, 0, 0], "w"),
        mat("a", "w1", [0, 0, 0], [2, 8, 16]),
        mat("b", "u", [0, 0, 0], [2, 16, 16]),
        *product("a", "b", 3),
    ]
    params = [
        half("z", 2, 16, 32), half("y", 2, 32, 16), half("u", 2, 16, 16),
        half("w", 2, 16, 16, direction="InOut"), out("out", 2, 8, 16),
    ]  # fmt: skip
    before = built(params, body, "w1", "o")
    after = lowered_as_upstream(before, faults=("W401 upstream loads the pages from the tensor as it was named",) * 2)
    sources = [c.args[0].name for c in calls(after, "tensor.view")[-3:]]  # type: ignore[union-attr]
    assert sources.count("w1_1") == 2


def test_b3_page_loads_stay_above_a_store_to_their_tensor() -> None:
    body = [
        mat("a", "io", [2, 0, 0], [2, 8, 32]),
        load("t", "io", [0, 0, 0], [2, 16, 32]),
        store("x1", "t", [2, 0, 0], "io"),
        mat("b", "y", [0, 0, 0], [2, 32, 16]),
        *product("a", "b", 3),
    ]
    before = built([half("io", 4, 16, 32, direction="InOut"), half("y", 2, 32, 16), out("out", 2, 8, 16)], body, "x1", "o")
    after = lowered_as_upstream(before, faults=("W401 upstream loads the pages below a store",))
    written = [c.op for c in calls(after) if c.op in ("tile.load", "tile.store")]
    assert written[:4] == ["tile.load", "tile.load", "tile.load", "tile.store"]
    assert [ints(c, 1) for c in calls(after, "tile.load")[:2]] == [[32, 0], [48, 0]]


@pytest.mark.parametrize("source", ["moved", "alias", "two_d"])
def test_b4_to_b7_operands_that_do_not_fit_and_are_no_nd_load_are_kept_whole(source: str) -> None:
    weights: list[Json] = {
        "moved": [load("y0", "y", [0, 0], [512, 128]), let("w", "tile.move", "y0", target_memory="Mat")],
        "alias": [mat("y0", "y", [0, 0], [512, 128]), {"let": "w", "expr": "y0"}],
        "two_d": [mat("w", "y", [0, 0], [512, 128])],
    }[source]
    body = [mat("a", "x", [0, 0, 0], [2, 240, 512]), *weights, *product("a", "w", 3)]
    before = built([half("x", 2, 240, 512), half("y", 512, 128), out("out", 2, 240, 128)], body, "o")
    result = optimize(before, policy="upstream", validate=False)
    assert [d.code for d in result.diagnostics] == ["W401"]
    assert [at for shape, at in slices(result.program) if shape == [512, 128]] == [[0, 0]] * 2
    assert ops(result.program).count("load") == 3


def test_b8_transposed_view_outside_the_loop_is_cut_by_columns() -> None:
    body = [
        mat("y0", "y", [0, 0, 0], [2, 64, 32]),
        let("w", "tile.transpose_view", "y0"),
        loop(
            "i",
            [0, 2, 1],
            {"c": "out"},
            [mat("a", "x", [0, 0, 0], [2, 16, 32]), let("p", "tile.batch_matmul", "a", "w"), store("o", "p", [0, 0, 0], "c"), give("o")],
            ["r"],
        ),
    ]
    before = built([half("x", 2, 16, 32), half("y", 2, 64, 32), out("out", 2, 16, 64)], body, "r")
    after = lowered_as_upstream(before, faults=("W401 upstream does not see that w is a transposed view",) * 2)
    assert [at for shape, at in slices(after) if shape == [32, 64]] == [[0, 0], [0, 64]]


def test_b9_reshape_of_batch_dims_outside_the_loop() -> None:
    body = [
        mat("x0", "x", [0, 0, 0], [2, 16, 32]),
        let("a", "tile.reshape", "x0", [1, 2, 16, 32]),
        loop(
            "i",
            [0, 2, 1],
            {"c": "out"},
            [
                mat("w", "y", [0, 0, 0, 0], [1, 2, 32, 16]),
                let("p", "tile.batch_matmul", "a", "w"),
                store("o", "p", [0, 0, 0, 0], "c"),
                give("o"),
            ],
            ["r"],
        ),
    ]
    before = built([half("x", 2, 16, 32), half("y", 1, 2, 32, 16), out("out", 1, 2, 16, 16)], body, "r")
    assert ops(lowered_as_upstream(before)).count("matmul") == 2


@pytest.mark.parametrize(
    ("kind", "more"), [("DN", {"layout": "DN"}), ("strided", {"stride": [8192, 64, 1]})], ids=["B10 DN", "B16 strided"]
)
def test_pages_of_tensors_that_are_not_packed_rows_are_loaded_from_the_tensor(kind: str, more: Json) -> None:
    shape = [2, 64, 64]
    body = [
        mat("a", "x", [0, 0, 0], [2, 16, 32]),
        mat("b", "d", [0, 0, 0], [2, 32, 64]),
        *product("a", "b", 3),
    ]
    before = built([half("x", 2, 16, 32), half("d", *shape, **more), out("out", 2, 16, 64)], body, "o")
    after = lowered_as_upstream(before, faults=("W401 upstream loads pages of a",) * 2)
    found = [(ints(c, 1), ints(c, 2)) for c in calls(after, "tile.load")]
    assert found[-2:] == [([0, 0, 0], [1, 32, 64]), ([1, 0, 0], [1, 32, 64])]


def test_b11_operands_loaded_outside_the_loop_must_fit_whole() -> None:
    body = [
        mat("w", "y", [0, 0, 0], [2, 512, 256]),
        mat("a", "x", [0, 0, 0], [2, 64, 512]),
        loop("i", [0, 2, 1], {"c": "out"}, [*product("a", "w", 3)[:1], store("o", "p", [0, 0, 0], "c"), give("o")], ["r"]),
    ]
    before = built([half("x", 2, 64, 512), half("y", 2, 512, 256), out("out", 2, 64, 256)], body, "r")
    refused_by_upstream(before, "M001", "Mat holds 524,288 bytes")


@pytest.mark.parametrize("used", [False, True], ids=["B12", "B13"])
def test_load_into_l1_with_gaps_is_refused(used: bool) -> None:
    body = [mat("a", "x", [0, 0, 0], [2, 8, 32])]
    if used:
        body += [mat("b", "y", [0, 0, 0], [2, 32, 16]), *product("a", "b", 3)]
    body.append(let("l", "tile.move", "a", target_memory="Left"))
    params = [half("x", 2, 16, 32), half("y", 2, 32, 16), out("out", 2, 8, 16)]
    before = built(params, body, *(["o"] if used else []), returns=[] if not used else [params[2]["type"]])
    refused_by_upstream(before, "L414", "[2, 8, 32]", "no run of rows")


def test_b14_operand_by_page_with_another_use_is_loaded_twice() -> None:
    body = [
        mat("a", "x", [0, 0, 0], [2, 32, 512]),
        mat("b", "y", [0, 0, 0], [2, 512, 256]),
        *product("a", "b", 3),
        let("l", "tile.move", "a", target_memory="Left"),
    ]
    before = built([half("x", 2, 32, 512), half("y", 2, 512, 256), out("out", 2, 32, 256)], body, "o")
    found = ops(optimize(before, policy="upstream", validate=False).program)
    assert found.count("load") == 5


def test_b15_dn_load_keeps_its_batch_and_says_so() -> None:
    before = built([half("d", 2, 32, 64, layout="DN")], [mat("w", "d", [0, 0, 0], [2, 32, 64])])
    after = lowered_as_upstream(before, faults=("W402 a load of [2, 32, 64] from a DN tensor",))
    assert ints(calls(after, "tile.load")[0], 2) == [2, 32, 64] and shapes(after)["w"] == (64, 64)


def test_b16_whole_load_of_a_strided_tensor_is_refused() -> None:
    before = built([half("x", 2, 16, 32, stride=[1024, 64, 1])], [mat("a", "x", [0, 0, 0], [1, 16, 32])])
    refused_by_upstream(before, "L411", "requires a packed source")


# Stores and fusion


def test_c2_and_c3_a_second_run_changes_nothing() -> None:
    before = built(
        [tensor("x", 2, 3, 8), out("out", 2, 3, 8)], [load("t", "x", [0, 0, 0], [2, 3, 8]), store("o", "t", [0, 0, 0], "out")], "o"
    )
    after = lowered_as_upstream(before)
    again = optimize(after, policy="upstream")
    assert again.program is after
    assert [(d.code, "a second time" in d.message) for d in again.diagnostics] == [("W401", True)]


def test_c4_store_into_a_distributed_tensor_gets_its_box() -> None:
    params = [tensor("x", 2, 3, 8), out("out", 2, 3, 8, distributed=True)]
    before = built(params, [load("t", "x", [0, 0, 0], [2, 3, 8]), store("o", "t", [0, 0, 0], "out")], "o")
    after = lowered_as_upstream(before, faults=("W401 upstream gives a store into a distributed tensor no box",))
    assert windows(after) == [[2, 3, 8]]


@pytest.mark.parametrize(
    ("target", "words"),
    [({"distributed": True}, "a distributed tensor"), ({}, "a tensor of rank 2")],
    ids=["C5 distributed", "C10 2-D"],
)
def test_product_that_is_stored_at_once_needs_a_plain_tensor_of_its_rank(target: Json, words: str) -> None:
    shape = [2, 16, 16] if target else [32, 16]
    body = [mat("a", "x", [0, 0, 0], [2, 16, 32]), mat("b", "y", [0, 0, 0], [2, 32, 16])]
    body += [let("p", "tile.batch_matmul", "a", "b"), let("r", "tile.reshape", "p", [32, 16])] if not target else []
    body += [*product("a", "b", 3)] if target else [store("o", "r", [0, 0], "out")]
    params = [half("x", 2, 16, 32), half("y", 2, 32, 16), out("out", *shape, **target)]
    if not target:  # a tile of rank 3 is not stored into a tensor of rank 2 at all
        assert ops(lowered_as_upstream(built(params, body, "o"), faults=("W402",))).count("matmul") == 2
        return
    refused_by_upstream(built(params, body, "o"), "L410", words, "offsets rank must match")


def test_c6_store_that_stands_by_itself_gets_its_box() -> None:
    params = [tensor("x", 2, 3, 8), out("out", 2, 3, 8)]
    body = [load("t", "x", [0, 0, 0], [2, 3, 8]), {"op": "tile.store", "args": ["t", [0, 0, 0], "out"]}]
    after = lowered_as_upstream(built(params, body, "out"), faults=("W401 upstream gives a store that stands by itself no box",))
    assert windows(after) == [[2, 3, 8]]


def test_c7_result_of_a_store_keeps_its_widened_valid_region() -> None:
    params = [tensor("x", 1, 16, 32), out("out", 2, 16, 32, valid=[1, 16, 32])]
    body = [load("t", "x", [0, 0, 0], [1, 16, 32]), store("o", "t", [1, 0, 0], "out")]
    before = incore(params, [*body, ret()], returns=[])
    after = optimize(before, policy="upstream").program
    kept = [s.target.type for p in (before, after) for s in walk(main(p).body) if isinstance(s, Assign) and s.target.name == "o"]
    assert kept[0] == kept[1]


def test_c11_product_that_is_read_again_is_not_taken_into_its_store() -> None:
    params = [half("x", 2, 16, 32), half("y", 2, 32, 16), out("out", 2, 16, 16), out("out2", 2, 16, 16)]
    body = [mat("a", "x", [0, 0, 0], [2, 16, 32]), mat("b", "y", [0, 0, 0], [2, 32, 16]), *product("a", "b", 3)]
    before = built(params, [*body, store("q", "p", [0, 0, 0], "out2")], "o", "q")
    after = lowered_as_upstream(before, faults=("W401 upstream stores p at once", "W402 the pages of the product"))
    assert windows(after) == [[2, 16, 16]] * 2


def test_c12_store_that_does_not_follow_at_once_goes_through_vec() -> None:
    params = [half("x", 2, 16, 32), half("y", 2, 32, 16), out("out", 2, 16, 16)]
    body = [mat("a", "x", [0, 0, 0], [2, 16, 32]), mat("b", "y", [0, 0, 0], [2, 32, 16]), *product("a", "b", 3)]
    body.insert(3, {"let": "z", "expr": 1})
    after = lowered_as_upstream(built(params, body, "o"), faults=("W402 the pages of the product are put together in Vec",))
    assert ops(after).count("move") == ops(after).count("assemble") == 2


# N-D meaning


def on_x(*body: Json, valid: list[Any] | None = None, **more: Any) -> Program:
    """Statements on the tile x0 [2, 3, 8], of which `valid` is valid."""
    params = [tensor("x", 2, 3, 8), tensor("y", 2, 3, 8), tensor("r", 2, 1, 8), tensor("s", 1, 3, 8), tensor("c", 1, 3, 1)]
    return incore(params, [load("x0", "x", [0, 0, 0], [2, 3, 8], valid), *body, ret()], returns=[], **more)


@pytest.mark.parametrize("op", ["tile.col_sum", "tile.col_max", "tile.col_min", "tile.col_prod"])
def test_d1_column_reductions_over_merged_rows_are_refused(op: str) -> None:
    refused_by_upstream(on_x(let("s0", op, "x0")), "L412", "which is not the collapse of [1, 3, 8]")


def test_column_reduction_over_one_row_that_may_be_none_is_refused() -> None:
    """Of no row the 2-D reduction makes one."""
    params = [tensor("x", 16, 1, 8), scalar("n", range=(0, 1)), out("out", 1, 1, 8)]
    body = [load("t", "x", [0, 0, 0], [16, 1, 8], [1, "n", 8]), let("y", "tile.col_min", "t"), store("o", "y", [0, 0, 0], "out"), ret("o")]
    refused_by_upstream(incore(params, body), "L412", "is valid in [1, 8], and [1, n, 8] of [1, 1, 8] is [n, 8]")


def test_d2_expansion_of_a_row_per_page_is_refused() -> None:
    before = on_x(load("r0", "r", [0, 0, 0], [2, 1, 8]), let("e", "tile.col_expand_mul", "x0", "r0"))
    refused_by_upstream(before, "L412", "[2, 1, 8] is repeated along an outer axis")


@pytest.mark.parametrize(("op", "source", "shape"), [("tile.add", "s", [1, 3, 8]), ("tile.row_expand_add", "c", [1, 3, 1])])
def test_d3_and_d4_operands_repeated_over_an_outer_axis_are_refused(op: str, source: str, shape: list[int]) -> None:
    before = on_x(load("r0", source, [0, 0, 0], shape), let("e", op, "x0", "r0"))
    refused_by_upstream(before, "L411", "as 2-D tiles")


def test_operands_repeated_over_all_rows_or_columns_are_right() -> None:
    def build(lower: bool) -> Program:
        made = {"type": flat(6, 8)} if lower else {}
        return incore(
            [tensor("x", 2, 3, 8), tensor("row", 1, 1, 8), out("out_0", 2, 3, 8)],
            [
                load("t", "x", [0, 0, 0], [2, 3, 8], **made),
                load("v", "row", [0, 0, 0], [1, 1, 8], **({"type": flat(1, 8)} if lower else {})),
                let("e", "tile.col_expand_mul", "t", "v"),
                store("out_1", "e", [0, 0, 0], "out_0", [2, 3, 8] if lower else None),
                ret("out_1"),
            ],
        )

    assert lowered_as_upstream(build(lower=False)) == build(lower=True)


GAPS = [2, 2, 8]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([load("y0", "y", [0, 0, 0], [2, 3, 8]), let("e", "tile.add", "x0", "y0")], "do not meet in the flat tiles"),
        ([let("e", "tile.fillpad", "x0", pad_value="zero")], "lie close together in the flat tile"),
        ([let("e", "tile.transpose", "x0", 1, 2)], "lie close together in the flat tile"),
        (
            [load("y0", "y", [0, 0, 0], [2, 3, 8]), let("e", "tile.assemble", "y0", "x0", [0, 0, 0])],
            "lie close together in the flat tile",
        ),
    ],
    ids=["D5 another box", "D6 fillpad", "D7 transpose", "D8 assemble"],
)
def test_rows_of_a_region_with_gaps_are_not_read_where_they_are_not(body: list[Json], words: str) -> None:
    refused_by_upstream(on_x(*body, valid=GAPS), "L412", words)


def test_equal_regions_with_gaps_go_from_load_to_store() -> None:
    params = [tensor("x", 2, 3, 8), tensor("y", 2, 3, 8), out("out", 2, 3, 8)]
    body = [
        load("a", "x", [0, 0, 0], [2, 3, 8], GAPS),
        load("b", "y", [0, 0, 0], [2, 3, 8], GAPS),
        let("e", "tile.add", "a", "b"),
        let("m", "tile.muls", "e", const(2.0)),
        store("o", "m", [0, 0, 0], "out"),
    ]
    after = lowered_as_upstream(built(params, body, "o"))
    assert windows(after) == [GAPS] and shapes(after)["m"] == (6, 8)


@pytest.mark.parametrize("reader", ["store", "move", "carry"])
def test_d10_transposed_view_is_read_by_products_alone(reader: str) -> None:
    body: list[Json] = [mat("y0", "y", [0, 0, 0], [2, 64, 32]), let("w", "tile.transpose_view", "y0")]
    if reader == "move":
        body.append(let("v", "tile.move", "w", target_memory="Vec"))
    elif reader == "store":
        body.append(store("o", "w", [0, 0, 0], "out"))
    else:
        body.append(loop("i", [0, 2, 1], {"c": "w"}, [give("c")], ["r"]))
    before = incore([half("y", 2, 64, 32), out("out", 2, 32, 64, dtype="FP16")], [*body, ret()], returns=[])
    refused_by_upstream(before, "L416", "side by side")


def test_d14_expanding_pad_of_an_nd_shape_is_refused() -> None:
    refused_by_upstream(on_x(let("e", "tile.fillpad_expand", "x0", [2, 4, 8], pad_value="zero")), "L411", "no dimension may shrink")


# Transpose


@pytest.mark.parametrize("rank", [2, 3])
def test_e1_and_e2_transpose_that_feeds_a_product_is_lowered(rank: int) -> None:
    shape, axes = ([64, 32], (0, 1)) if rank == 2 else ([2, 64, 32], (1, 2))
    body = [
        mat("x0", "x", [0, 0, 0], [2, 16, 32]),
        mat("y0", "y", [0] * rank, shape),
        let("w", "tile.transpose", "y0", *axes),
        *product("x0", "w", 3),
    ]
    before = built([half("x", 2, 16, 32), half("y", *shape), out("out", 2, 16, 64)], body, "o")
    after = lowered_as_upstream(before, faults=("W401 upstream drops the transpose", "W402 upstream transposes y0 in L1"))
    assert ops(after).count("transpose") == (1 if rank == 2 else 2)


def test_e3_swap_with_a_unit_axis_is_refused() -> None:
    before = incore([tensor("x", 1, 3, 8)], [load("t", "x", [0, 0, 0], [1, 3, 8]), let("s", "tile.transpose", "t", 0, 1), ret()])
    refused_by_upstream(before, "L404", "batch axis")


def test_e4_transpose_of_one_page_still_has_its_pool_and_pages() -> None:
    body = [load("t", "x", [0, 0, 0], [1, 3, 8]), let("s", "tile.transpose", "t", 1, 2), store("o", "s", [0, 0, 0], "out")]
    after = lowered_as_upstream(built([tensor("x", 1, 3, 8), out("out", 1, 8, 3)], body, "o"))
    assert ops(after) == ["load", "create", "create", "slice", "slice", "transpose", "assemble", "store"]


# Book-keeping


def test_f1_attributes_are_kept_on_every_op() -> None:
    body = [
        load("a", "x", [0, 0, 0], [2, 3, 8], attrs={"k": 1}),
        let("b", "tile.exp", "a", attrs={"k": 2}),
        store("o", "b", [0, 0, 0], "out", attrs={"k": 3}),
    ]
    after = lowered_as_upstream(built([tensor("x", 2, 3, 8), out("out", 2, 3, 8)], body, "o"))
    assert [dict(c.attrs) for c in calls(after)] == [{"k": 1}, {"k": 2}, {"k": 3}]


def test_f3_page_of_one_row_reads_back_from_its_text() -> None:
    before = built([half("x", 2, 16, 128)], [mat("a", "x", [1, 3, 0], [1, 1, 128])])
    after = lowered_as_upstream(before)
    assert types(after)["a"].static_shape == (1, 128)


def test_f5_tile_parameters_of_rank_three_are_refused() -> None:
    q: Json = {"name": "q", "type": {"tile": [2, 3, 8], "dtype": "FP32", "memory": "Vec"}}
    before = incore([q, out("out", 2, 3, 8)], [let("e", "tile.exp", "q"), store("o", "e", [0, 0, 0], "out"), ret("o")])
    refused_by_upstream(before, "L413", "rank")


def test_f6_sequences_of_rank_three_are_refused() -> None:
    before = incore([tensor("x", 2, 3, 8)], [let("i", "tile.ci", const(0, "INT32"), [1, 1, 8], dtype="INT32"), ret()])
    refused_by_upstream(before, "L413", "[1, 1, 8]")
