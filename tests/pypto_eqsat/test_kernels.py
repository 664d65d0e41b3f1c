"""The kernels of the shared folder through the whole pipeline."""

from __future__ import annotations

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
    refused,
    shapes,
    windows,
)

from pypto_eqsat.driver import optimize
from pypto_ir.stmt import For, walk

#: kernel -> its in-core function, for those that become 2-D programs
LOWERED = {
    "add_3d": "main_incore_0",
    "rmsnorm_4d": "rmsnorm",
    "softmax_tail_4d": "softmax",
    "kv_cache_write": "rope_kv",
    "assemble_pages": "pages",
}
#: batched products and what feeds them wait for their own rules; the first op that the refusal names
REFUSED = {
    "batch_acc_k_loop": "tile.batch_matmul_acc",
    "broadcast_bmm": "tile.batch_matmul",
    "expert_gate": "tile.transpose_view",
    "one_fits_bmm": "tile.batch_matmul",
    "q_proj_4d": "tile.batch_matmul",
}
IDENTICAL = ("mx_expert", "row_windows")


def test_every_kernel_of_the_folder_is_named_here() -> None:
    found = {file.stem for file in (SHARED / "kernels").glob("*.json")}
    assert found == {*LOWERED, *REFUSED, *IDENTICAL}


@pytest.mark.parametrize("name", LOWERED)
def test_kernel_becomes_a_legal_2d_program_with_the_same_results(name: str) -> None:
    after = lowered(kernel(name))
    assert_all_2d(after)


@pytest.mark.parametrize("name", LOWERED)
@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
def test_kernel_is_lowered_for_each_target_at_no_more_than_its_price(name: str, target: str) -> None:
    before = kernel(name)
    result = optimize(before, target=target)
    assert result.stats["cost"] == pytest.approx(cost(result.program, target))
    assert result.stats["cost"] <= cost(before, target)
    assert optimize(result.program, target=target, validate=False).program is result.program


@pytest.mark.parametrize(("name", "op"), REFUSED.items())
def test_kernel_with_batched_products_is_refused_with_the_statement_named(name: str, op: str) -> None:
    refusal = refused(kernel(name), op)
    assert {d.code for d in refusal.diagnostics} == {"L104"}
    assert all(d.place.function and d.place.statement and d.help for d in refusal.diagnostics)


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


def test_assemble_pages_writes_its_page_as_a_row_band() -> None:
    after = lowered(kernel("assemble_pages"))
    assert [ints(c, 2) for c in calls(after, "tile.assemble", "pages")] == [[16, 0]]
    assert windows(after, "pages") == [[4, 8, 16]]
