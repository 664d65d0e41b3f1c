"""Batched products at their cheapest: pages that are made once, operands that are loaded once, products that are one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod

import pytest
from helpers import calls, cost, incore, ints, kernel, let, load, lowered, ops, out, ret, store, tensor

from pypto_eqsat.driver import optimize
from pypto_ir.stmt import Program
from pypto_ir.types import Memory, TileType

TARGETS = ("ascend910b", "ascend950")
KIB = 1 << 10


def read_bytes(p: Program, name: str) -> int:
    """Bytes that the loads of a function without loops read from global memory."""
    found = 0
    for call in calls(p, "tile.load", name):
        source = call.args[0].type  # type: ignore[union-attr]
        found += prod(n or 0 for n in ints(call, 3)) * source.dtype.bytes  # type: ignore[union-attr]
    return found


def in_l1(p: Program, op: str, name: str = "main") -> int:
    """How many calls of an op read a tile in L1."""
    first = [call.args[0].type for call in calls(p, op, name)]  # type: ignore[union-attr]
    return sum(isinstance(t, TileType) and t.memory is Memory.MAT for t in first)


@pytest.mark.parametrize("target", TARGETS)
def test_each_of_the_five_pages_of_a_broadcast_product_is_made_once(target: str) -> None:
    after = lowered(replace(kernel("broadcast_bmm"), target=target), dearer=True)
    count = Counter(ops(after, "bmm"))
    whole = [n for call in calls(after, "tile.load", "bmm") for n in ints(call, 2)[:1] if n not in (16, 128)]
    # a load of several pages is cut once for each, any other load is a page
    assert in_l1(after, "tile.slice", "bmm") + count["load"] - len(whole) == 5
    cuts = [(call.args[0].name, *ints(call, 2)) for call in calls(after, "tile.slice", "bmm")]  # type: ignore[union-attr]
    assert len(set(cuts)) == len(cuts)
    assert (count["matmul"], count["store"]) == (6, 6)


def test_operand_that_fits_is_loaded_once_and_64_kib_less_is_read_than_by_upstream() -> None:
    before = replace(kernel("one_fits_bmm"), target="ascend910b")
    after, theirs = lowered(before, dearer=True, complete=False), optimize(before, policy="upstream").program
    loads = [ints(call, 2) for call in calls(after, "tile.load", "bmm")]
    assert loads == [[64, 512], [512, 256], [512, 256]]
    assert read_bytes(theirs, "bmm") - read_bytes(after, "bmm") == 64 * KIB
    assert cost(after) < cost(theirs)


@pytest.mark.parametrize("target", TARGETS)
def test_projection_of_batch_one_has_no_slice_assemble_or_move(target: str) -> None:
    after = lowered(replace(kernel("q_proj_4d"), target=target), dearer=True, complete=False)
    assert not {"slice", "assemble", "move", "reshape"} & set(ops(after, "q_proj"))


def product(left: list[int], right: list[int], result: list[int], turned: bool = False, dtype: str = "FP16") -> Program:
    """A batched product, its right side seen transposed or not, stored whole."""
    side = [let("r", "tile.transpose_view", "b")] if turned else []
    return incore(
        [tensor("x", *left, dtype=dtype), tensor("y", *right, dtype=dtype), out("out_0", *result)],
        [
            load("a", "x", [0] * len(left), left, memory="Mat"),
            load("b", "y", [0] * len(right), right, memory="Mat"),
            *side,
            let("p", "tile.batch_matmul", "a", "r" if turned else "b"),
            store("out_1", "p", [0] * len(result), "out_0"),
            ret("out_1"),
        ],
    )


def test_batch_of_rows_times_one_matrix_is_one_product_and_one_store() -> None:
    after = lowered(product([4, 16, 64], [64, 32], [4, 16, 32]), dearer=True)
    assert Counter(ops(after)) == {"tensor.view": 2, "load": 2, "matmul": 1, "store": 1}


def test_matrix_times_a_transposed_batch_is_one_product_with_its_pages_side_by_side() -> None:
    before = product([16, 64], [4, 32, 64], [4, 16, 32], turned=True)
    result = optimize(before, policy_cost=True)
    after = lowered(before, dearer=True)
    assert Counter(ops(after)) == {"tensor.view": 1, "load": 2, "transpose_view": 1, "matmul": 1, "slice": 4, "store": 4}
    assert in_l1(after, "tile.slice") == 0
    apart = optimize(before, without_rules=frozenset({"cols.product.turned"}), validate=False)
    assert result.stats["cost"] < apart.stats["cost"] <= result.stats["policy_cost"] * (1 + 1e-9)


def test_pages_side_by_side_that_l0c_cannot_hold_stay_products_of_their_own() -> None:
    # 16 pages of [64, 64] FP32 are 256 KiB, L0C of the target holds 128
    after = lowered(product([64, 32], [16, 64, 32], [16, 64, 64], turned=True), dearer=True, complete=False)
    assert Counter(ops(after))["matmul"] == 16


def test_operand_that_is_part_of_a_load_is_loaded_as_that_part() -> None:
    before = incore(
        [tensor("x", 4, 16, 64, dtype="FP16"), tensor("y", 64, 32, dtype="FP16"), out("out_0", 2, 16, 32)],
        [
            load("w", "x", [0, 0, 0], [4, 16, 64], memory="Mat"),
            let("a", "tile.slice", "w", [2, 16, 64], [1, 0, 0]),
            load("b", "y", [0, 0], [64, 32], memory="Mat"),
            let("p", "tile.batch_matmul", "a", "b"),
            store("out_1", "p", [0, 0, 0], "out_0"),
            ret("out_1"),
        ],
    )
    after = lowered(before, dearer=True)
    assert [(ints(c, 1), ints(c, 2)) for c in calls(after, "tile.load")] == [([16, 0], [32, 64]), ([0, 0], [64, 32])]
    assert "slice" not in ops(after)


def test_rows_of_pages_in_l1_that_are_no_run_are_loaded_page_by_page() -> None:
    before = incore(
        [tensor("x", 2, 32, 64, dtype="FP16"), tensor("y", 2, 64, 32, dtype="FP16"), out("out_0", 2, 16, 32)],
        [
            load("w", "x", [0, 0, 0], [2, 32, 64], memory="Mat"),
            let("a", "tile.slice", "w", [2, 16, 64], [0, 16, 0]),
            load("b", "y", [0, 0, 0], [2, 64, 32], memory="Mat"),
            let("p", "tile.batch_matmul", "a", "b"),
            store("out_1", "p", [0, 0, 0], "out_0"),
            ret("out_1"),
        ],
    )
    after = lowered(before, dearer=True)
    found = [(ints(c, 1), ints(c, 2)) for c in calls(after, "tile.load")]
    assert ([16, 0], [16, 64]) in found and ([48, 0], [16, 64]) in found
