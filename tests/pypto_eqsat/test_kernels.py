"""The kernels of the shared folder through the whole pipeline."""

from __future__ import annotations

from collections import Counter

import pytest
from helpers import (
    SHARED,
    assert_all_2d,
    calls,
    cost,
    ints,
    kernel,
    lowered,
    main,
    ops,
    shapes,
    windows,
)

from pypto_eqsat.driver import optimize
from pypto_ir.stmt import Assign, For, Program, walk
from pypto_ir.text import expr_text
from pypto_ir.types import Memory, TileType

#: kernel -> its in-core function, for those that become 2-D programs
LOWERED = {
    "add_3d": "main_incore_0",
    "rmsnorm_4d": "rmsnorm",
    "softmax_tail_4d": "softmax",
    "kv_cache_write": "rope_kv",
    "assemble_pages": "pages",
}
#: kernels of the cube unit, whose accumulators stay in L0C
PRODUCTS = {
    "batch_acc_k_loop": "batch_acc",
    "broadcast_bmm": "bmm",
    "expert_gate": "exp_gate_mm",
    "one_fits_bmm": "bmm",
    "q_proj_4d": "q_proj",
    "row_windows": "row_windows",
}
IDENTICAL = ("mx_expert",)


def test_every_kernel_of_the_folder_is_named_here() -> None:
    found = {file.stem for file in (SHARED / "kernels").glob("*.json")}
    assert found == {*LOWERED, *PRODUCTS, *IDENTICAL}


@pytest.mark.parametrize("name", LOWERED)
def test_kernel_becomes_a_legal_2d_program_with_the_same_results(name: str) -> None:
    after = lowered(kernel(name), dearer=True, complete=False)
    assert_all_2d(after)


@pytest.mark.parametrize("name", LOWERED)
@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
def test_kernel_is_lowered_for_each_target_at_no_more_than_its_price(name: str, target: str) -> None:
    before = kernel(name)
    result = optimize(before, target=target)
    assert result.stats["cost"] == pytest.approx(cost(result.program, target))
    assert result.stats["cost"] <= cost(before, target)
    assert optimize(result.program, target=target, validate=False).program is result.program


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
def test_product_kernel_becomes_a_settled_2d_program_with_the_same_results(name: str, target: str) -> None:
    result = optimize(kernel(name), target=target)
    assert_all_2d(result.program)
    assert result.stats["validated"]["equal"]
    assert result.stats["cost"] == pytest.approx(cost(result.program, target))
    assert optimize(result.program, target=target, validate=False).program is result.program


@pytest.mark.parametrize("name", [*LOWERED, *PRODUCTS, *IDENTICAL])
def test_exact_choice_of_every_kernel_is_proved_within_a_second(name: str) -> None:
    stats = optimize(kernel(name), validate=False, choice_seconds=1.0).stats
    assert (stats["proof"], stats["gap"]) == ("optimal", 0.0)


def accumulators(program: Program, function: str) -> list[tuple[int, ...]]:
    """The shapes of the tiles created in L0C."""
    made = [
        s.target.type for s in walk(main(program, function).body) if isinstance(s, Assign) and getattr(s.value, "op", "") == "tile.create"
    ]
    return [t.static_shape for t in made if isinstance(t, TileType) and t.memory is Memory.ACC and t.static_shape]


def test_each_distinct_page_of_a_broadcast_product_is_made_once() -> None:
    after = lowered(kernel("broadcast_bmm"), dearer=True)
    count = Counter(ops(after, "bmm"))
    assert (count["matmul"], count["store"]) == (6, 6)
    assert count["slice"] == 5 and count["load"] == 2
    assert count["move"] == count["assemble"] == 0


def test_an_operand_that_fits_is_loaded_once_and_the_other_by_page() -> None:
    after = lowered(kernel("one_fits_bmm"), dearer=True, complete=False)
    loads = [ints(c, 2) for c in calls(after, "tile.load", "bmm")]
    assert loads == [[64, 512], [512, 256], [512, 256]]


def test_a_k_loop_carries_one_accumulator_with_its_pages_side_by_side() -> None:
    after = lowered(kernel("batch_acc_k_loop"), dearer=True, complete=False)
    assert accumulators(after, "batch_acc") == [(16, 128)]
    (loop,) = (s for s in walk(main(after, "batch_acc").body) if isinstance(s, For))
    assert len(loop.carries) == 1
    cuts = [ints(c, 2) for c in calls(after, "tile.slice", "batch_acc") if c.args[0].type.memory is Memory.ACC]  # type: ignore[union-attr]
    assert cuts == [[0, 0], [0, 64]] * 2
    assert [ints(c, 2) for c in calls(after, "tile.assemble", "batch_acc")] == [[0, 0], [0, 64]]
    assert windows(after, "batch_acc") == [[1, 16, 64]] * 2


def test_row_windows_stand_side_by_side_at_runtime_columns() -> None:
    after = lowered(kernel("row_windows"), dearer=True, complete=False)
    assert accumulators(after, "row_windows") == [(16, 128)]
    inside = [expr_text(c.args[2].items[1]) for c in calls(after, "tile.assemble", "row_windows")]  # type: ignore[union-attr]
    assert inside == ["t0 // 16 * 32"]
    assert [ints(c, 1) for c in calls(after, "tile.store", "row_windows")] == [[0, 0], [16, 0], [32, 0], [48, 0]]


@pytest.mark.parametrize(("name", "tiles"), [("expert_gate", [(16, 256)]), ("q_proj_4d", [])])
def test_one_page_kernels_keep_one_accumulator_with_no_move_and_no_slice(name: str, tiles: list[tuple[int, ...]]) -> None:
    after = lowered(kernel(name), dearer=True, complete=False)
    assert accumulators(after, PRODUCTS[name]) == tiles
    assert not {"slice", "assemble", "move", "reshape"} & set(ops(after, PRODUCTS[name]))


@pytest.mark.parametrize("name", IDENTICAL)
def test_2d_kernel_with_nothing_to_gain_comes_back_as_the_same_object(name: str) -> None:
    before = kernel(name)
    result = optimize(before, stages=("flatten",))
    assert result.program is before
    assert result.stats["cost"] == result.stats["input_cost"] == pytest.approx(cost(before))
    assert result.stats["validated"] == {"equal": True, "identical": True}


def test_add_3d_keeps_three_ops_and_stores_the_whole_box() -> None:
    after = lowered(kernel("add_3d"))
    assert ops(after, "main_incore_0") == ["load", "add", "store"]
    assert shapes(after, "main_incore_0") == {"x_tile": (6, 4), "y_tile": (6, 4)}
    assert windows(after, "main_incore_0") == [[2, 3, 4]]


def test_rmsnorm_4d_works_on_single_pages_and_keeps_its_pipelines() -> None:
    before = kernel("rmsnorm_4d")
    after = optimize(before, validate=False).program
    assert shapes(after, "rmsnorm")["x"] == (16, 128) and shapes(after, "rmsnorm")["g"] == (1, 128)
    assert shapes(after, "rmsnorm")["tmp"] == (16, 128)
    assert windows(after, "rmsnorm") == [[1, 1, 16, 128]]
    assert [(s.kind, s.attrs) for s in walk(main(after, "rmsnorm").body) if isinstance(s, For)] == [
        (s.kind, s.attrs) for s in walk(main(before, "rmsnorm").body) if isinstance(s, For)
    ]


def test_kv_cache_write_drops_the_reshapes_and_is_cheaper() -> None:
    before = kernel("kv_cache_write")
    after = lowered(before)
    assert "reshape" not in ops(after, "rope_kv")
    assert windows(after, "rope_kv") == [[1, 1, 1, 64]]
    assert cost(after) < cost(before)


def test_assemble_pages_does_not_load_the_page_that_is_written_over() -> None:
    before = kernel("assemble_pages")
    after = lowered(before)
    loads = [ints(c, 1) for c in calls(after, "tile.load", "pages") if c.args[0].name == "x"]
    assert loads == [[0, 0, 0], [1, 0, 0], [3, 0, 0]]
    assert cost(after) < cost(before)
