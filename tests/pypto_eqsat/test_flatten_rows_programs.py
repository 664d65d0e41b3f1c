"""Whole programs of the kinds of `spec/flatten.md` section 13: ranks 3 to 6, loops, branches, several
functions, dynamic valid regions, operands that repeat along the batch.
"""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from helpers import (
    Json,
    assert_all_2d,
    calls,
    checked,
    const,
    cost,
    flat,
    function,
    give,
    incore,
    let,
    load,
    loop,
    lowered,
    ops,
    out,
    program,
    refused,
    ret,
    scalar,
    shapes,
    store,
    tensor,
    tile,
    windows,
)

from pypto_eqsat.driver import optimize
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Program

SHAPES = [(2, 3, 8), (4, 2, 16), (2, 2, 3, 8), (3, 1, 4, 16), (2, 1, 2, 3, 8), (2, 2, 1, 2, 2, 16)]


def tmp(name: str, shape: tuple[int, ...]) -> Json:
    return let(name, "tile.create", list(shape), dtype="FP32", target_memory="Vec")


def softmax(shape: tuple[int, ...]) -> list[Json]:
    """Row-wise: y = exp(x - max(x)) / sum(exp(x - max(x)))."""
    return [
        tmp("w1", shape),
        let("m", "tile.row_max", "t", "w1"),
        let("d", "tile.row_expand_sub", "t", "m"),
        let("e", "tile.exp", "d"),
        tmp("w2", shape),
        let("s", "tile.row_sum", "e", "w2"),
        let("y", "tile.row_expand_div", "e", "s"),
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax_of_any_rank_works_on_the_collapse(shape: tuple[int, ...]) -> None:
    zeros = [0] * len(shape)
    before = incore(
        [tensor("x", *shape), out("out_0", *shape)],
        [load("t", "x", zeros, shape), *softmax(shape), store("o", "y", zeros, "out_0"), ret("o")],
    )
    after = lowered(before)
    rows = prod(shape[:-1])
    assert ops(after) == ops(before)
    assert {s for s in shapes(after).values()} == {(rows, shape[-1]), (rows, 1)}
    assert windows(after) == [list(shape)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_row_and_column_vectors_of_any_rank(shape: tuple[int, ...]) -> None:
    zeros, ones = [0] * len(shape), [1] * (len(shape) - 1)
    before = incore(
        [
            tensor("x", *shape),
            tensor("g", *ones, shape[-1]),
            tensor("h", *shape[:-1], 1),
            out("out_0", *shape),
        ],
        [
            load("t", "x", zeros, shape),
            load("gamma", "g", zeros, (*ones, shape[-1])),
            load("scale", "h", zeros, (*shape[:-1], 1)),
            let("a", "tile.row_expand_mul", "t", "scale"),
            let("b", "tile.col_expand_mul", "a", "gamma"),
            store("o", "b", zeros, "out_0"),
            ret("o"),
        ],
    )
    after = lowered(before)
    assert shapes(after)["gamma"] == (1, shape[-1])
    assert shapes(after)["scale"] == (prod(shape[:-1]), 1)
    assert ops(after) == ops(before)


@pytest.mark.parametrize("chunk", [4, 6])
def test_loop_over_a_dynamic_axis_with_a_valid_tail(chunk: int) -> None:
    def build(lower: bool) -> Program:
        made = {"type": flat(chunk, 32)} if lower else {}
        scratch = [chunk, 32] if lower else [1, chunk, 32]
        window = [1, "v", 32]
        body = [
            {"let": "v", "expr": f"min({chunk}, n - c)"},
            load("t", "x", ["b", "c", 0], [1, chunk, 32], window, **made),
            let("e", "tile.exp", "t"),
            let("w", "tile.create", scratch, dtype="FP32", target_memory="Vec"),
            let("s", "tile.row_sum", "e", "w"),
            let("y", "tile.row_expand_div", "e", "s"),
            store("o1", "y", ["b", "c", 0], "o", window if lower else None),
            give("o1"),
        ]
        inner = loop("c", [0, "n", chunk], {"o": "p"}, body, ["o2"])
        outer = loop("b", [0, 3, 1], {"p": "out_0"}, [inner, give("o2")], ["q"], kind="parallel")
        params = [tensor("x", 3, 20, 32), scalar("n", range=(1, 20)), out("out_0", 3, 20, 32)]
        return incore(params, [outer, ret("q")])

    assert lowered(build(lower=False)) == build(lower=True)


def test_nd_tile_carried_by_a_loop_is_carried_flat() -> None:
    def build(lower: bool) -> Program:
        made = {"type": flat(8, 16)} if lower else {}
        body = [
            load("t", "x", ["k", 0, 0, 0], [1, 2, 4, 16], **made),
            let("a1", "tile.add", "a", "t"),
            give("a1"),
        ]
        zeros = let("z", "tile.full", [8, 16] if lower else [1, 2, 4, 16], const(0.0), dtype="FP32")
        box = [1, 2, 4, 16] if lower else None
        return incore(
            [tensor("x", 5, 2, 4, 16), out("out_0", 1, 2, 4, 16)],
            [
                zeros,
                loop("k", [0, 5, 1], {"a": "z"}, body, ["af"], kind="pipeline", attrs={"pipeline_stages": 2}),
                store("o", "af", [0, 0, 0, 0], "out_0", box),
                ret("o"),
            ],
        )

    assert lowered(build(lower=False)) == build(lower=True)


def test_while_loop_that_carries_an_nd_tile() -> None:
    def build(lower: bool) -> Program:
        made = {"type": flat(6, 8)} if lower else {}
        body = [
            let("t1", "tile.muls", "u", const(0.5)),
            {"let": "i1", "expr": "i + 1"},
            give("i1", "t1"),
        ]
        return incore(
            [tensor("x", 2, 3, 8), scalar("n", range=(0, 5)), out("out_0", 2, 3, 8)],
            [
                load("t", "x", [0, 0, 0], [2, 3, 8], **made),
                {"let": "zero", "expr": "0"},
                {
                    "while": "i < n",
                    "carry": [{"name": "i", "init": "zero"}, {"name": "u", "init": "t"}],
                    "body": body,
                    "results": ["i_f", "u_f"],
                },
                store("o", "u_f", [0, 0, 0], "out_0", [2, 3, 8] if lower else None),
                ret("o"),
            ],
        )

    assert lowered(build(lower=False)) == build(lower=True)


def test_branch_that_gives_an_nd_tile() -> None:
    def build(lower: bool) -> Program:
        made = {"type": flat(6, 8)} if lower else {}
        return incore(
            [tensor("x", 2, 3, 8), scalar("p"), out("out_0", 2, 3, 8)],
            [
                load("t", "x", [0, 0, 0], [2, 3, 8], **made),
                {
                    "if": "p > 0",
                    "then": [let("a", "tile.exp", "t"), give("a")],
                    "else": [let("b", "tile.neg", "t"), give("b")],
                    "results": ["y"],
                },
                store("o", "y", [0, 0, 0], "out_0", [2, 3, 8] if lower else None),
                ret("o"),
            ],
        )

    assert lowered(build(lower=False)) == build(lower=True)


def test_several_functions_that_call_each_other() -> None:
    """The in-core callee is lowered, the orchestration stays as it is and still computes the same."""
    shape = (3, 2, 8)
    params = [tensor("x", *shape), out("o", *shape)]
    core = function(
        "core",
        params,
        [
            load("t", "x", [0, 0, 0], shape),
            let("y", "tile.exp", "t"),
            store("o1", "y", [0, 0, 0], "o"),
            ret("o1"),
        ],
    )
    other = function(
        "aiv",
        params,
        [
            load("t", "x", [0, 0, 0], shape),
            let("y", "tile.neg", "t"),
            store("o1", "y", [0, 0, 0], "o"),
            ret("o1"),
        ],
        kind="AIV",
    )
    caller = function(
        "top",
        [tensor("x", *shape), out("a", *shape), out("b", *shape)],
        [
            {"let": "a1", "call": "core", "args": ["x", "a"]},
            {"let": "b1", "call": "aiv", "args": ["a1", "b"]},
            ret("a1", "b1"),
        ],
        kind="Orchestration",
    )
    before = program(core, other, caller)
    result = optimize(before)
    after = checked(before, result)
    assert after.functions[2] is before.functions[2]
    assert_all_2d(after)
    assert set(result.functions) == {"core", "aiv"}
    covered = result.stats["validated"]["functions"]
    assert set(covered) == {"core", "aiv", "top"} and all(f["runs"] for f in covered.values())


# page by page


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 8, 16), (1, 8, 16)),
        ((2, 3, 8, 16), (1, 3, 8, 16)),
        ((2, 3, 8, 16), (2, 1, 8, 16)),
        ((2, 8, 16), (8, 16)),
    ],
    ids=str,
)
def test_operand_that_repeats_along_the_batch_is_taken_page_by_page(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    before = incore(
        [tensor("x", *left), tensor("w", *right), out("out_0", *left)],
        [
            load("t", "x", [0] * len(left), left),
            load("g", "w", [0] * len(right), right),
            let("y", "tile.mul", "t", "g"),
            store("o", "y", [0] * len(left), "out_0"),
            ret("o"),
        ],
    )
    after = lowered(before, dearer=True)
    assert ops(after).count("mul") == prod(left[:-2])
    assert ops(after).count("load") <= 2 * prod(left[:-2])


def test_each_page_of_a_repeated_operand_is_loaded_once() -> None:
    before = incore(
        [tensor("x", 4, 8, 16), tensor("w", 1, 8, 16), out("out_0", 4, 8, 16)],
        [
            load("t", "x", [0, 0, 0], (4, 8, 16)),
            load("g", "w", [0, 0, 0], (1, 8, 16)),
            let("y", "tile.mul", "t", "g"),
            store("o", "y", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    after = lowered(before, dearer=True)
    sources = [c.args[0].name for c in calls(after, "tile.load")]  # type: ignore[union-attr]
    assert sources.count("w") == 1


# nothing to gain


def two_d(**options: Any) -> Program:
    return incore(
        [tensor("x", 32, 64), out("out_0", 32, 64)],
        [
            load("t", "x", [0, 0], (32, 64)),
            let("w", "tile.create", [32, 64], dtype="FP32", target_memory="Vec"),
            let("m", "tile.row_max", "t", "w"),
            let("y", "tile.row_expand_sub", "t", "m"),
            store("o", "y", [0, 0], "out_0"),
            ret("o"),
        ],
        **options,
    )


@pytest.mark.parametrize("kind", ["InCore", "AIC", "AIV"])
@pytest.mark.parametrize("target", ["ascend910b", "ascend950", None])
def test_2d_program_comes_back_as_the_same_object(kind: str, target: str | None) -> None:
    before = two_d(kind=kind, target=target)
    result = optimize(before)
    assert result.program is before
    assert result.stats["cost"] == result.stats["input_cost"] == pytest.approx(cost(before))
    assert not result.functions["main"].changed


@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
def test_lowered_program_is_a_fixed_point_byte_for_byte(shape: tuple[int, ...]) -> None:
    zeros = [0] * len(shape)
    before = incore(
        [tensor("x", *shape), out("out_0", *shape)],
        [load("t", "x", zeros, shape), *softmax(shape), store("o", "y", zeros, "out_0"), ret("o")],
    )
    once = optimize(before).program
    assert write_program(optimize(once).program) == write_program(once)


# tiles from outside


def test_parameter_that_is_an_nd_tile_is_named_in_the_refusal() -> None:
    before = incore(
        [tile("t", 2, 3, 8), out("out_0", 2, 3, 8)],
        [let("y", "tile.exp", "t"), store("o", "y", [0, 0, 0], "out_0"), ret("o")],
    )
    refusal = refused(before, "the parameter t is a tile [2, 3, 8]")
    assert [d.code for d in refusal.diagnostics] == ["L105"]


def test_pages_of_one_tile_are_pages_wherever_they_are_written() -> None:
    """The scratch of a transpose is one tile for all pages, beside a carry that is handed on page by page."""
    body = [
        let("t", "tile.transpose", "c", 1, 2),
        store("o", "t", [2, 0, 0], "out_0", atomic="Add"),
        give("p"),
    ]
    before = incore(
        [tensor("x", 2, 16, 1, dtype="INT32"), out("out_0", 4, 1, 16, dtype="INT32")],
        [
            load("x0", "x", [0, 0, 0], [2, 16, 1]),
            let("p", "tile.fillpad_inplace", "x0", pad_value="min"),
            loop("i", [2, -1, -1], {"c": "x0"}, body, ["z"]),
            ret(),
        ],
        returns=[],
    )
    assert_all_2d(lowered(before, dearer=True))
