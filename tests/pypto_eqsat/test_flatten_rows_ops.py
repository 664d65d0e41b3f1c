"""Rows of `spec/flatten.md` section 13, groups SingleInput, TwoInput, Unchanged, Errors, ChainedOps,
ConstantOps and MultiOutput.

Each test is named after its row. The expected programs are written out: loads keep their N-D window, ops work
on the collapse, and a store into a tensor of rank above 2 names its box.
"""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from helpers import (
    Json,
    assert_no_dearer,
    calls,
    const,
    flat,
    function,
    incore,
    ints,
    let,
    load,
    lowered,
    out,
    program,
    refused,
    ret,
    store,
    tensor,
    tile,
)  # fmt: skip

from pypto_eqsat.driver import optimize
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Program


def collapsed(*shape: int) -> Json:
    return flat(prod(shape[:-1]), shape[-1])


def one_op(
    shape: tuple[int, ...],
    op: str,
    *rest: Any,
    lower: bool,
    dtype: str = "FP32",
    kind: str = "InCore",
    inputs: int = 1,
) -> Program:
    """load, one op, store; with `lower` in the 2-D form that is expected."""
    zeros, tiles = [0] * len(shape), [f"t{i}" for i in range(inputs)]
    made = {"type": collapsed(*shape)} if lower else {}
    operands = tiles if inputs > 1 else tiles * (2 if op == "tile.add" else 1)
    body = [
        *(load(t, f"x{i}", zeros, shape, **made) for i, t in enumerate(tiles)),
        let("y", op, *operands, *rest),
        store("out_1", "y", zeros, "out_0", shape if lower else None),
        ret("out_1"),
    ]
    params = [
        *(tensor(f"x{i}", *shape, dtype=dtype) for i in range(inputs)),
        out("out_0", *shape, dtype=dtype),
    ]
    return incore(params, body, kind=kind)


SINGLE_INPUT: dict[str, tuple[tuple[int, ...], str, tuple[Any, ...], dict[str, Any]]] = {
    "add_3d_fp32": ((2, 3, 4), "tile.add", (), {}),
    "mul_4d_fp32": ((2, 3, 4, 5), "tile.mul", (), {}),
    "add_5d_fp32": ((2, 2, 2, 2, 4), "tile.add", (), {}),
    "exp_3d_fp32": ((2, 3, 4), "tile.exp", (), {}),
    "neg_3d_fp32": ((4, 2, 8), "tile.neg", (), {}),
    "muls_3d_fp32": ((2, 3, 4), "tile.muls", (const(2.0),), {}),
    "adds_3d_fp32": ((2, 4, 8), "tile.adds", (const(1.0),), {}),
    "add_3d_aic": ((2, 3, 4), "tile.add", (), {"kind": "AIC"}),
    "exp_3d_aiv": ((2, 3, 4), "tile.exp", (), {"kind": "AIV"}),
    "add_3d_fp16": ((2, 4, 8), "tile.add", (), {"dtype": "FP16"}),
}


@pytest.mark.parametrize("row", SINGLE_INPUT)
def test_single_input_op(row: str) -> None:
    shape, op, rest, options = SINGLE_INPUT[row]
    if op == "tile.mul":
        rest = ("t0",)
    after = lowered(one_op(shape, op, *rest, lower=False, **options))
    assert after == one_op(shape, op, *rest, lower=True, **options)


def test_reinterpret_view_chain_is_recreated_from_flattened_source() -> None:
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

    after = lowered(chain(lower=False))
    assert_no_dearer(after, chain(lower=True))
    assert after == chain(lower=True)


@pytest.mark.parametrize(("op", "shape"), [("tile.add", (2, 3, 4)), ("tile.sub", (3, 4, 5))], ids=["add_3d", "sub_3d"])
def test_two_input_op(op: str, shape: tuple[int, ...]) -> None:
    after = lowered(one_op(shape, op, lower=False, inputs=2))
    assert after == one_op(shape, op, lower=True, inputs=2)


@pytest.mark.parametrize("shape", [(32, 64), (64,)], ids=["2d_tile", "1d_tile"])
def test_low_rank_tile_unchanged(shape: tuple[int, ...]) -> None:
    zeros = [0] * len(shape)
    before = incore(
        [tensor("x", *shape), out("out_0", *shape)],
        [
            load("t", "x", zeros, shape),
            let("y", "tile.add", "t", "t"),
            store("o", "y", zeros, "out_0"),
            ret("o"),
        ],
    )
    result = optimize(before)
    assert result.program is before
    assert write_program(result.program) == write_program(before)


def nd_body() -> tuple[list[Json], list[Json]]:
    params = [tensor("x", 2, 3, 4), out("out_0", 2, 3, 4)]
    return params, [
        load("t", "x", [0, 0, 0], [2, 3, 4]),
        let("y", "tile.add", "t", "t"),
        store("o", "y", [0, 0, 0], "out_0"),
        ret("o"),
    ]


@pytest.mark.parametrize("kind", ["Opaque", "Orchestration", "Inline", "Graph"])
def test_non_incore_function_unchanged(kind: str) -> None:
    before = incore(*nd_body(), kind=kind)
    assert optimize(before).program is before


@pytest.mark.parametrize("kind", ["Group", "Spmd"])
def test_group_function_unchanged(kind: str) -> None:
    before = incore(*nd_body(), kind=kind)
    assert optimize(before).program is before


@pytest.mark.parametrize("kind", ["Opaque", "Orchestration", "Group", "Spmd"])
def test_function_of_another_kind_stays_the_same_object_beside_a_lowered_one(kind: str) -> None:
    before = program(function("core", *nd_body()), function("other", *nd_body(), kind=kind))
    after = lowered(before)
    assert after.functions[0] is not before.functions[0]
    assert after.functions[1] is before.functions[1]


def test_dynamic_shape_error() -> None:
    params = [tile("t", "n", 3, 4), out("out_0", 2, 3, 4)]
    before = incore(params, [let("y", "tile.add", "t", "t"), ret("out_0")], dynamic=["n"])
    refusal = refused(
        before,
        "tile.add",
        "has a dynamic (non-constant) dimension 0",
        "cannot be flattened to 2D",
        "pl.parallel",
        "reshap",
    )
    assert [d.code for d in refusal.diagnostics] == ["L001"]


def test_chained_load_exp_add_muls_store() -> None:
    def chain(lower: bool) -> Program:
        made = {"type": flat(6, 4)} if lower else {}
        return incore(
            [tensor("x", 2, 3, 4), out("out_0", 2, 3, 4)],
            [
                load("t", "x", [0, 0, 0], [2, 3, 4], **made),
                let("e", "tile.exp", "t"),
                let("s", "tile.add", "e", "t"),
                let("m", "tile.muls", "s", const(0.5)),
                store("out_1", "m", [0, 0, 0], "out_0", [2, 3, 4] if lower else None),
                ret("out_1"),
            ],
        )

    assert lowered(chain(lower=False)) == chain(lower=True)


def fill(name: str, op: str, shape: list[int], *rest: Any) -> Json:
    more = {"target_memory": "Vec"} if op == "tile.create" else {}
    return let(name, op, shape, *rest, dtype="FP32", **more)


def test_constant_op_shape_flattened() -> None:
    """create and full, each the target of a write, so that neither is dead."""

    def build(shape: list[int], lower: bool) -> Program:
        made = {"type": flat(6, 4)} if lower else {}
        at = [0, 0] if lower else [0, 0, 0]
        return incore(
            [tensor("x", 2, 3, 4), out("a", 2, 3, 4), out("b", 2, 3, 4)],
            [
                load("t", "x", [0, 0, 0], [2, 3, 4], **made),
                fill("c", "tile.create", shape),
                let("d", "tile.assemble", "c", "t", at),
                fill("f", "tile.full", shape, const(1.5)),
                store("a1", "d", [0, 0, 0], "a", [2, 3, 4] if lower else None),
                store("b1", "f", [0, 0, 0], "b", [2, 3, 4] if lower else None),
                ret("a1", "b1"),
            ],
        )

    after = lowered(build([2, 3, 4], lower=False))
    assert_no_dearer(after, build([6, 4], lower=True))
    fills = [c for c in calls(after) if c.op in ("tile.create", "tile.full")]
    assert "tile.full" in [c.op for c in fills]
    assert all(ints(c, 0) == [6, 4] for c in fills)


def test_create_full_add_chain() -> None:
    def build(shape: list[int], lower: bool) -> Program:
        made = {"type": flat(6, 4)} if lower else {}
        return incore(
            [tensor("x", 2, 3, 4), out("out_0", 2, 3, 4)],
            [
                load("t", "x", [0, 0, 0], [2, 3, 4], **made),
                fill("f", "tile.full", shape, const(2.0)),
                let("y", "tile.add", "t", "f"),
                store("out_1", "y", [0, 0, 0], "out_0", [2, 3, 4] if lower else None),
                ret("out_1"),
            ],
        )

    assert lowered(build([2, 3, 4], lower=False)) == build([6, 4], lower=True)


def test_mixed_2d_and_3d_tiles() -> None:
    def build(lower: bool) -> Program:
        made = {"type": flat(6, 4)} if lower else {}
        return incore(
            [tensor("x", 2, 3, 4), tensor("y", 32, 64), out("a", 2, 3, 4), out("b", 32, 64)],
            [
                load("t", "x", [0, 0, 0], [2, 3, 4], **made),
                load("u", "y", [0, 0], [32, 64]),
                let("p", "tile.add", "t", "t"),
                let("q", "tile.mul", "u", "u"),
                store("a1", "p", [0, 0, 0], "a", [2, 3, 4] if lower else None),
                store("b1", "q", [0, 0], "b"),
                ret("a1", "b1"),
            ],
        )

    assert lowered(build(lower=False)) == build(lower=True)


def test_two_stores_same_shape() -> None:
    def build(lower: bool) -> Program:
        made = {"type": flat(6, 4)} if lower else {}
        box = [2, 3, 4] if lower else None
        return incore(
            [tensor("x", 2, 3, 4), out("a", 2, 3, 4), out("b", 2, 3, 4)],
            [
                load("t", "x", [0, 0, 0], [2, 3, 4], **made),
                let("p", "tile.exp", "t"),
                let("q", "tile.neg", "t"),
                store("a1", "p", [0, 0, 0], "a", box),
                store("b1", "q", [0, 0, 0], "b", box),
                ret("a1", "b1"),
            ],
        )

    assert lowered(build(lower=False)) == build(lower=True)


def test_multiple_incore_functions() -> None:
    def part(name: str, shape: tuple[int, ...], op: str, lower: bool) -> Json:
        made = {"type": collapsed(*shape)} if lower else {}
        zeros = [0] * len(shape)
        return function(
            name,
            [tensor("x", *shape), out("o", *shape)],
            [
                load("t", "x", zeros, shape, **made),
                let("y", op, "t"),
                store("o1", "y", zeros, "o", shape if lower else None),
                ret("o1"),
            ],
        )

    def build(lower: bool) -> Program:
        return program(part("first", (2, 3, 4), "tile.exp", lower), part("second", (3, 2, 2, 8), "tile.neg", lower))

    assert lowered(build(lower=False)) == build(lower=True)
