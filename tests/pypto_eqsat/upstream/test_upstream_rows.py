"""Rows of `spec/flatten.md` section 13 without products, under `--policy upstream`: the expected programs hold to the letter, redundant
reshapes included, and what upstream rejects is refused with a code of its own."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, assert_all_2d, flat, function, give, loop, main, program, scalar, shapes, types
from upstream_support import (
    calls,
    const,
    incore,
    ints,
    let,
    load,
    lowered_as_upstream,
    ops,
    out,
    refused_by_upstream,
    ret,
    store,
    stored,
    tensor,
    windows,
)

from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.expr import const_int
from pypto_ir.stmt import For, If, Program, While, walk
from pypto_ir.types import TileType
from tests.pypto_eqsat.test_flatten_rows_ops import SINGLE_INPUT, fill, nd_body, one_op
from tests.pypto_eqsat.test_flatten_rows_stores import assembled, collapsed_store, converted, raised

# SingleInput, TwoInput, Unchanged


@pytest.mark.parametrize("row", SINGLE_INPUT)
def test_single_input_op_under_the_policy(row: str) -> None:
    shape, op, rest, options = SINGLE_INPUT[row]
    rest = ("t0",) if op == "tile.mul" else rest
    after = lowered_as_upstream(one_op(shape, op, *rest, lower=False, **options))
    assert after == one_op(shape, op, *rest, lower=True, **options)


@pytest.mark.parametrize(("op", "shape"), [("tile.add", (2, 3, 4)), ("tile.sub", (3, 4, 5))], ids=["add_3d", "sub_3d"])
def test_two_input_op_under_the_policy(op: str, shape: tuple[int, ...]) -> None:
    assert lowered_as_upstream(one_op(shape, op, lower=False, inputs=2)) == one_op(shape, op, lower=True, inputs=2)


def test_reinterpret_views_are_made_again_from_the_flat_source() -> None:
    def chain(lower: bool) -> Program:
        made = {"type": flat(6, 4)} if lower else {}
        return incore(
            [tensor("x", 2, 3, 4), out("out_0", 2, 3, 4)],
            [
                load("t", "x", [0, 0, 0], [2, 3, 4], **made),
                let("narrow", "tile.reinterpret_view", "t", dtype="INT16"),
                let("back", "tile.reinterpret_view", "narrow", dtype="FP32"),
                store("out_1", "back", [0, 0, 0], "out_0", [2, 3, 4] if lower else None),
                ret("out_1"),
            ],
        )

    assert lowered_as_upstream(chain(lower=False)) == chain(lower=True)


@pytest.mark.parametrize("shape", [(32, 64), (64,)], ids=["2d_tile", "1d_tile"])
def test_tiles_of_low_rank_come_back_as_the_same_object(shape: tuple[int, ...]) -> None:
    zeros = [0] * len(shape)
    body = [load("t", "x", zeros, shape), let("y", "tile.add", "t", "t")]
    before = stored([tensor("x", *shape)], body, "y", list(shape))
    assert optimize(before, policy="upstream").program is before


@pytest.mark.parametrize("kind", ["Group", "Spmd", "Orchestration", "Opaque"])
def test_function_of_another_kind_comes_back_as_the_same_object(kind: str) -> None:
    params, body = nd_body()
    before = program(function("main", params, body, kind=kind), function("core", params, body))
    after = optimize(before, policy="upstream").program
    assert after.functions[0] is before.functions[0]
    assert after.functions[1] is not before.functions[1]


def test_control_flow_of_2d_tiles_comes_back_as_the_same_object() -> None:
    before = incore(
        [tensor("x", 16, 64), scalar("n"), out("out_0", 16, 64)],
        [
            load("t", "x", [0, 0], [16, 64]),
            loop("i", [0, 4, 1], {"c": "t"}, [let("y", "tile.exp", "c"), give("y")], ["r"]),
            {"if": "n > 2", "then": [let("a", "tile.neg", "r"), give("a")], "else": [give("r")], "results": ["p"]},
            store("o", "p", [0, 0], "out_0"),
            ret("o"),
        ],
    )
    assert optimize(before, policy="upstream").program is before


# Errors


def test_dynamic_shape_error_under_the_policy() -> None:
    tiles: list[Json] = [{"name": n, "type": {"tile": ["n", 3, 4], "dtype": "FP32", "memory": "Vec"}} for n in ("a", "b")]
    before = incore(tiles, [let("y", "tile.add", "a", "b"), ret()], dynamic=["n"])
    words = ("tile.add", "dynamic (non-constant) dimension 0", "cannot be flattened to 2D", "pl.range", "pl.parallel", "reshap")
    refused_by_upstream(before, "L001", *words)


CELLS_AND_WINDOWS: list[tuple[str, tuple[Any, ...]]] = [
    ("tile.slice", ([1, 3, 8], [1, 0, 0])),
    ("tile.read", ([1, 0, 0],)),
    ("tile.write", ([1, 0, 0], const(1.5))),
]


@pytest.mark.parametrize(("op", "args"), CELLS_AND_WINDOWS, ids=["slice", "read", "write"])
def test_cells_and_windows_of_nd_tiles_are_refused(op: str, args: tuple[Any, ...]) -> None:
    before = incore([tensor("x", 2, 3, 8)], [load("t", "x", [0, 0, 0], [2, 3, 8]), let("s", op, "t", *args), ret()])
    refused_by_upstream(before, "L401", f"{op} is not supported on >2D tiles", "pl.tile.reshape")


def test_all_preconditions_are_reported_at_once() -> None:
    body = [load("t", "x", [0, 0, 0], [2, 3, 8]), *(let(f"s{i}", "tile.slice", "t", [1, 3, 8], [i, 0, 0]) for i in (0, 1)), ret()]
    with pytest.raises(Refused) as caught:
        optimize(incore([tensor("x", 2, 3, 8)], body), policy="upstream")
    assert [d.place.statement for d in caught.value.diagnostics] == ["s0 = tile.slice", "s1 = tile.slice"]


# ChainedOps, ConstantOps, MultiOutput


def test_chained_load_exp_add_muls_store_under_the_policy() -> None:
    def chain(lower: bool) -> Program:
        made = {"type": flat(6, 4)} if lower else {}
        return incore(
            [tensor("x", 2, 3, 4), out("out_0", 2, 3, 4)],
            [
                load("t", "x", [0, 0, 0], [2, 3, 4], **made),
                let("e", "tile.exp", "t"),
                let("a", "tile.add", "e", "t"),
                let("m", "tile.muls", "a", const(0.5)),
                store("out_1", "m", [0, 0, 0], "out_0", [2, 3, 4] if lower else None),
                ret("out_1"),
            ],
        )

    assert lowered_as_upstream(chain(lower=False)) == chain(lower=True)


def test_create_full_add_chain_under_the_policy() -> None:
    def chain(lower: bool) -> Program:
        shape = [6, 4] if lower else [2, 3, 4]
        return incore(
            [out("out_0", 2, 3, 4)],
            [
                fill("c", "tile.create", shape),
                fill("f", "tile.full", shape, const(1.5)),
                let("g", "tile.full", shape, const(2.0), dtype="FP32"),
                let("s", "tile.add", "f", "g"),
                store("out_1", "s", [0, 0, 0], "out_0", [2, 3, 4] if lower else None),
                ret("out_1"),
            ],
        )

    assert lowered_as_upstream(chain(lower=False)) == chain(lower=True)


def test_mixed_2d_and_3d_tiles_under_the_policy() -> None:
    before = incore(
        [tensor("x", 2, 3, 8), tensor("y", 16, 32), out("p_0", 2, 3, 8), out("q_0", 16, 32)],
        [
            load("a", "x", [0, 0, 0], [2, 3, 8]),
            load("b", "y", [0, 0], [16, 32]),
            let("c", "tile.exp", "a"),
            let("d", "tile.exp", "b"),
            store("p_1", "c", [0, 0, 0], "p_0"),
            store("q_1", "d", [0, 0], "q_0"),
            ret("p_1", "q_1"),
        ],
    )
    after = lowered_as_upstream(before)
    assert shapes(after) == {"a": (6, 8), "b": (16, 32), "c": (6, 8), "d": (16, 32)}
    assert windows(after) == [[2, 3, 8], None]


def test_two_stores_of_one_load_and_several_functions() -> None:
    params = [tensor("x", 2, 3, 4), out("p_0", 2, 3, 4), out("q_0", 2, 3, 4)]
    body = [
        load("t", "x", [0, 0, 0], [2, 3, 4]),
        let("e", "tile.exp", "t"),
        store("p_1", "e", [0, 0, 0], "p_0"),
        store("q_1", "t", [0, 0, 0], "q_0"),
        ret("p_1", "q_1"),
    ]
    after = lowered_as_upstream(program(function("f", params, body), function("g", params, body, kind="AIV")))
    for name in ("f", "g"):
        assert ops(after, name) == ["load", "exp", "store", "store"]
        assert windows(after, name) == [[2, 3, 4]] * 2


# RankRaisingViews, ReshapedStore, CollapsedStore


@pytest.mark.parametrize("target", [[2, 8, 128], [16, 1, 128], [4, 4, 128], [2, 2, 4, 128], [16, 8, 16]], ids=str)
def test_rank_raising_reshape_becomes_a_2d_reshape(target: list[int]) -> None:
    lower = [128, 16] if target == [16, 8, 16] else [16, 128]
    after = lowered_as_upstream(raised(target))
    assert after == raised(target, lower=lower)


def test_rank_raising_reinterpret_view_becomes_a_2d_one() -> None:
    def build(shape: list[int], window: list[int] | None) -> Program:
        return incore(
            [tensor("x", 4, 8), out("out_0", 4, 1, 16, dtype="INT16")],
            [
                load("t", "x", [0, 0], [4, 8]),
                let("r", "tile.reinterpret_view", "t", shape, dtype="INT16"),
                store("out_1", "r", [0, 0, 0], "out_0", window),
                ret("out_1"),
            ],
        )

    assert lowered_as_upstream(build([4, 1, 16], None)) == build([4, 16], [4, 1, 16])


def test_2d_tile_reshaped_to_3d_is_stored_in_the_box_of_its_3d_type() -> None:
    def build(target: list[int], window: list[int] | None) -> Program:
        return incore(
            [tensor("x", 4, 64), out("out_0", 4, 6, 64), scalar("s", range=(0, 5))],
            [
                load("t", "x", [0, 0], [4, 64]),
                let("r", "tile.reshape", "t", target),
                store("out_1", "r", [0, "s", 0], "out_0", window),
                ret("out_1"),
            ],
        )

    assert lowered_as_upstream(build([4, 1, 64], None)) == build([4, 64], [4, 1, 64])


@pytest.mark.parametrize(
    ("rows", "target", "offsets", "window"),
    [
        (6, [2, 3, 8], [0, 0, 0], [2, 3, 8]),
        (3, [4, 3, 8], [0, 0, 0], [1, 3, 8]),
        (8, [4, 4, 8], [1, 0, 0], [2, 4, 8]),
        (6, [2, 3, "D"], [0, 0, 0], [2, 3, 8]),
    ],
    ids=str,
)
def test_collapsed_2d_tile_is_stored_in_a_box(rows: int, target: list[Any], offsets: list[int], window: list[int]) -> None:
    after = lowered_as_upstream(collapsed_store(rows, 8, target, offsets))
    assert after == collapsed_store(rows, 8, target, offsets, window)


@pytest.mark.parametrize(
    ("rows", "cols", "target", "offsets", "code", "words"),
    [
        (12, 8, [2, 2, 4, 8], [0, 0, 0, 0], "L407", "must fill axis 1 (extent 2) a whole number of times"),
        (6, 8, [4, 4, 8], [0, 2, 0], "L407", "must fill axis 1 (extent 4) a whole number of times"),
        (8, 8, [4, 4, 8], [0, 2, 0], "L408", "must start at offset 0"),
        (24, 8, [2, 2, 4, 8], [0, 0, 0, 0], "L407", "must fill axis 0 (extent 2) a whole number of times"),
        (32, 8, [2, 2, 4, 8], [0, 0, 0, 0], "L406", "runs past the tensor"),
        (8, 8, [4, 4, 8], [3, 0, 0], "L406", "runs past the tensor"),
        (6, 10, [2, 3, 8], [0, 0, 0], "L405", "10 columns"),
        (6, 8, [2, 6, 8], [0, 0, 4], "L417", "runs past the tensor"),
        (6, 8, [2, 6, 8], [5, 0, 0], "L417", "runs past the tensor"),
    ],
    ids=str,
)
def test_store_without_a_box_is_refused_with_a_code_for_each_cause(
    rows: int, cols: int, target: list[Any], offsets: list[int], code: str, words: str
) -> None:
    refused_by_upstream(collapsed_store(rows, cols, target, offsets), code, words)


def test_rows_over_a_dynamic_axis_are_refused() -> None:
    refused_by_upstream(collapsed_store(8, 8, [2, "D", 4, 8], [0, 0, 0, 0]), "L409", "dynamic extent")


# Assemble


@pytest.mark.parametrize(
    ("source", "offsets", "at"),
    [([1, 8, 16], [2, 0, 0], [16, 0]), ([1, 4, 16], [2, 4, 0], [20, 0]), ([2, 8, 16], [1, 0, 0], [8, 0]), ([1, 8, 16], [0, 0, 0], [0, 0])],
    ids=["a page", "half a page", "two pages", "offset zero"],
)
def test_nd_assemble_offset_collapses_under_the_policy(source: list[int], offsets: list[int], at: list[int]) -> None:
    assert lowered_as_upstream(assembled(source, offsets)) == assembled(source, offsets, lower=True, at=at)


def test_2d_assemble_comes_back_as_the_same_object() -> None:
    before = stored(
        [tensor("x", 32, 16), tensor("s", 8, 16)],
        [load("t", "x", [0, 0], [32, 16]), load("u", "s", [0, 0], [8, 16]), let("z", "tile.assemble", "t", "u", [16, 0])],
        "z",
        [32, 16],
    )
    assert optimize(before, policy="upstream").program is before


def test_nd_assemble_that_is_no_row_band_is_refused() -> None:
    refused_by_upstream(assembled([2, 4, 16], [0, 0, 0]), "L403", "contiguous row band", "assembling one contiguous page per iteration")


def test_nd_assemble_of_another_rank_is_refused() -> None:
    body = [load("t", "x", [0, 0, 0], [4, 8, 16]), load("u", "s", [0, 0], [8, 16]), let("z", "tile.assemble", "t", "u", [2, 0, 0])]
    before = stored([tensor("x", 4, 8, 16), tensor("s", 8, 16)], body, "z", [4, 8, 16])
    refused_by_upstream(before, "L402", "rank-2 source", "pl.tile.reshape")


# DynamicValid


@pytest.mark.parametrize(("extent", "size"), [("v", 16), ("min(16, S)", "S"), (10, 16), (16, 16)])
def test_valid_regions_go_into_the_flat_type_and_the_box(extent: Any, size: int | str) -> None:
    after = lowered_as_upstream(converted([1, extent, 512], lower=False, size=size))
    assert after == converted([1, extent, 512], lower=True, size=size)
    for t in types(after).values():
        assert t.static_shape == (16, 512) and const_int(t.valid[1]) == 512
        assert const_int(t.valid[0]) == (extent if isinstance(extent, int) else None)


def test_dynamic_physical_shape_is_refused() -> None:
    before = incore(
        [tensor("x", 1, "S", 512, dtype="BF16")],
        [let("t", "tile.load", "x", [0, 0, 0], [1, "S", 512], [1, "S", 512], target_memory="Vec"), ret()],
        dynamic=["S"],
    )
    refused_by_upstream(before, "L001", "cannot be flattened to 2D", "pl.parallel", "reshap", "dynamic (non-constant) dimension 1")


# ControlFlow


def test_loops_and_branches_hand_on_2d_tiles() -> None:
    before = incore(
        [tensor("x", 2, 3, 8), scalar("n", range=(0, 4)), out("out_0", 2, 3, 8)],
        [
            load("t", "x", [0, 0, 0], [2, 3, 8]),
            loop("i", [0, "n", 1], {"c": "t"}, [let("y", "tile.muls", "c", const(0.5)), give("y")], ["r"]),
            {"if": "n > 2", "then": [let("a", "tile.neg", "r"), give("a")], "else": [give("t")], "results": ["p"]},
            store("o", "p", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    after = lowered_as_upstream(before)
    assert_all_2d(after)
    for s in walk(main(after).body):
        if isinstance(s, For):
            assert [c.var.type.static_shape for c in s.carries if isinstance(c.var.type, TileType)] == [(6, 8)]
        if isinstance(s, For | If | While):
            assert [r.type.static_shape for r in s.results if isinstance(r.type, TileType)] == [(6, 8)]
    assert windows(after) == [[2, 3, 8]]


def test_while_loop_hands_on_2d_tiles() -> None:
    before = incore(
        [tensor("x", 2, 3, 8), out("out_0", 2, 3, 8)],
        [
            load("t", "x", [0, 0, 0], [2, 3, 8]),
            {"let": "zero", "expr": 0},
            {
                "while": "k < 3",
                "carry": [{"name": "c", "init": "t"}, {"name": "k", "init": "zero"}],
                "body": [let("y", "tile.muls", "c", const(0.5)), {"let": "m", "expr": "k + 1"}, give("y", "m")],
                "results": ["r", "q"],
            },
            store("o", "r", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    after = lowered_as_upstream(before)
    assert ops(after) == ["load", "muls", "store"] and windows(after) == [[2, 3, 8]]


# StandaloneTranspose


def test_nd_transpose_unrolls_to_2d_transposes() -> None:
    before = stored([tensor("x", 2, 3, 8)], [load("t", "x", [0, 0, 0], [2, 3, 8]), let("s", "tile.transpose", "t", 1, 2)], "s", [2, 8, 3])
    after = lowered_as_upstream(before)
    page = ["slice", "slice", "transpose", "assemble"]
    assert ops(after) == ["load", "create", "create", *page, *page, "store"]
    assert [ints(c, 0) for c in calls(after, "tile.create")] == [[16, 3], [6, 8]]
    assert [ints(c, 2) for c in calls(after, "tile.slice")] == [[0, 0], [0, 0], [3, 0], [3, 0]]
    assert [ints(c, 2) for c in calls(after, "tile.assemble")] == [[0, 0], [8, 0]]
    assert all(len(c.args) == 4 for c in calls(after, "tile.transpose"))


def test_2d_transpose_gets_its_scratch_tile() -> None:
    before = stored([tensor("x", 3, 8)], [load("t", "x", [0, 0], [3, 8]), let("s", "tile.transpose", "t", 0, 1)], "s", [8, 3])
    after = lowered_as_upstream(before)
    assert ops(after) == ["load", "create", "transpose", "store"]
    assert ints(calls(after, "tile.create")[0], 0) == [3, 8]


@pytest.mark.parametrize("axes", [(0, 1), (0, 2), (-3, -1)])
def test_transpose_of_a_batch_axis_is_refused(axes: tuple[int, int]) -> None:
    before = incore([tensor("x", 2, 3, 8)], [load("t", "x", [0, 0, 0], [2, 3, 8]), let("s", "tile.transpose", "t", *axes), ret()])
    refused_by_upstream(before, "L404", "only last-two-axes tile.transpose on >2D tiles is supported", "batch axis")
