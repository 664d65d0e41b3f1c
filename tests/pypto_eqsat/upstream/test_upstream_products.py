"""Rows BatchMatmul, SharedBatchMatmulOperand, NdTensorMatmulConversion and MatLoadRoundtrip of `spec/flatten.md` section 13: the ops,
offsets and windows of upstream, in its order."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, give, kernel, loop, main, shapes
from upstream_support import (
    calls,
    incore,
    ints,
    let,
    load,
    lowered_as_upstream,
    mat,
    out,
    ret,
    slices,
    store,
    store_offsets,
    stored,
    tensor,
    types,
    windows,
)

from pypto_ir.ops.registry import type_of
from pypto_ir.stmt import Assign, Call, Program, uses, walk
from pypto_ir.types import Memory, TensorType, TileLayout


def bmm(lhs: list[int], rhs: list[int], dtype: str = "FP16", batch: list[int] | None = None, **stores: Any) -> Program:
    """load x load, stored at once."""
    shape = [*(batch if batch is not None else lhs[:-2]), lhs[-2], rhs[-1]]
    zeros = [0] * len(shape)
    return incore(
        [tensor("x", *lhs, dtype=dtype), tensor("y", *rhs, dtype=dtype), out("out_0", *shape)],
        [
            mat("a", "x", [0] * len(lhs), lhs),
            mat("b", "y", [0] * len(rhs), rhs),
            let("p", "tile.batch_matmul", "a", "b"),
            store("out_1", "p", zeros, "out_0", **stores),
            ret("out_1"),
        ],
    )


def steps(p: Program) -> list[str]:
    """Every op in order, with views."""
    return [c.op.removeprefix("tile.") for c in calls(p)]


VIEWED = ["tensor.view", "load", "tensor.view", "load"]
PAGE = ["slice", "slice", "matmul", "store"]


def loads(p: Program) -> list[tuple[list[int | None], list[int | None]]]:
    return [(ints(c, 1), ints(c, 2)) for c in calls(p, "tile.load")]


def test_operands_that_fit_are_loaded_whole_and_cut_for_every_page() -> None:
    after = lowered_as_upstream(bmm([2, 16, 128], [2, 128, 64]))
    assert steps(after) == [*VIEWED, *PAGE, *PAGE]
    assert loads(after) == [([0, 0], [32, 128]), ([0, 0], [256, 64])]
    assert slices(after) == [([16, 128], [0, 0]), ([128, 64], [0, 0]), ([16, 128], [16, 0]), ([128, 64], [128, 0])]
    assert store_offsets(after) == [[0, 0, 0], [1, 0, 0]] and windows(after) == [[1, 16, 64]] * 2


def test_loads_without_a_space_go_to_l1_where_only_products_read_them() -> None:
    before = stored(
        [tensor("x", 2, 16, 128, dtype="FP16"), tensor("y", 2, 128, 64, dtype="FP16")],
        [
            let("a", "tile.load", "x", [0, 0, 0], [2, 16, 128], [2, 16, 128]),
            let("b", "tile.load", "y", [0, 0, 0], [2, 128, 64], [2, 128, 64]),
            let("p", "tile.batch_matmul", "a", "b"),
        ],
        "p",
        [2, 16, 64],
    )
    after = lowered_as_upstream(before)
    assert steps(after) == [*VIEWED, *PAGE, *PAGE]
    assert [(t.memory, t.static_shape) for n, t in types(after).items() if n in "ab"] == [(Memory.MAT, (32, 128)), (Memory.MAT, (256, 64))]
    assert [c.kwarg("target_memory") for c in calls(after, "tile.load")] == ["Mat", "Mat"]


def test_loads_into_vec_stay_in_vec() -> None:
    before = stored(
        [tensor("x", 2, 16, 128, dtype="FP16"), tensor("y", 2, 128, 64, dtype="FP16")],
        [load("a", "x", [0, 0, 0], [2, 16, 128]), load("b", "y", [0, 0, 0], [2, 128, 64]), let("p", "tile.batch_matmul", "a", "b")],
        "p",
        [2, 16, 64],
    )
    after = lowered_as_upstream(before)
    assert steps(after) == ["load", "load", *PAGE, *PAGE]
    assert {t.memory for n, t in types(after).items() if n in "ab" or "slice" in n} == {Memory.VEC}


def test_batches_broadcast_and_a_repeated_page_is_cut_again() -> None:
    after = lowered_as_upstream(kernel("broadcast_bmm"))
    name = "bmm"
    assert steps_of(after, name) == [*VIEWED, *PAGE * 6]
    assert [(ints(c, 1), ints(c, 2)) for c in calls(after, "tile.load", name)] == [([0, 0], [32, 128]), ([0, 0], [384, 64])]
    found = slices(after, name)
    assert [at for _, at in found[::2]] == [[0, 0]] * 3 + [[16, 0]] * 3
    assert [at for _, at in found[1::2]] == [[0, 0], [128, 0], [256, 0]] * 2
    assert windows(after, name) == [[1, 1, 16, 64]] * 6
    assert store_offsets(after, name) == [[i, j, 0, 0] for i in (0, 1) for j in (0, 1, 2)]


def steps_of(p: Program, name: str) -> list[str]:
    return [c.op.removeprefix("tile.") for c in calls(p, name=name)]


def test_operand_with_gaps_is_loaded_page_by_page_where_it_is_used() -> None:
    before = stored(
        [tensor("x", 2, 16, 2, dtype="FP16"), tensor("y", 2, 4, 5, dtype="FP16")],
        [mat("a", "x", [0, 0, 0], [2, 16, 2]), mat("b", "y", [0, 0, 0], [2, 2, 5]), let("p", "tile.batch_matmul", "a", "b")],
        "p",
        [2, 16, 5],
    )
    after = lowered_as_upstream(before)
    page = ["slice", "tensor.view", "load", "matmul", "store"]
    assert steps(after) == ["tensor.view", "load", *page, *page]
    views = [ints(c, 1) for c in calls(after, "tensor.view")]
    assert views == [[32, 2], [8, 5], [8, 5]]
    assert loads(after) == [([0, 0], [32, 2]), ([0, 0], [2, 5]), ([4, 0], [2, 5])]


@pytest.mark.parametrize("sides", ["both", "left", "right"])
def test_transposed_views_are_cut_by_columns(sides: str) -> None:
    left, right = sides in ("both", "left"), sides in ("both", "right")
    lhs, rhs = ([2, 128, 16] if left else [2, 16, 128]), ([2, 64, 128] if right else [2, 128, 64])
    body: list[Json] = [mat("a", "x", [0, 0, 0], lhs), mat("b", "y", [0, 0, 0], rhs)]
    if left:
        body.append(let("at", "tile.transpose_view", "a"))
    if right:
        body.append(let("bt", "tile.transpose_view", "b"))
    body.append(let("p", "tile.batch_matmul", "at" if left else "a", "bt" if right else "b"))
    after = lowered_as_upstream(stored([tensor("x", *lhs, dtype="FP16"), tensor("y", *rhs, dtype="FP16")], body, "p", [2, 16, 64]))
    held = shapes(after)
    assert held.get("at", (16, 256)) == (16, 256) and held.get("bt", (128, 128)) == (128, 128)
    wanted = [[[0, 128 * b] if left else [16 * b, 0], [0, 64 * b] if right else [128 * b, 0]] for b in (0, 1)]
    assert [at for _, at in slices(after)] == [at for page in wanted for at in page]


@pytest.mark.parametrize(("lhs", "rhs", "pages"), [([3, 16, 32], [3, 32, 64], 3), ([1, 16, 32], [1, 32, 64], 1)], ids=["3d", "single"])
def test_keywords_of_a_store_stand_on_every_page(lhs: list[int], rhs: list[int], pages: int) -> None:
    after = lowered_as_upstream(bmm(lhs, rhs, atomic="Add"))
    assert steps(after) == [*VIEWED, *PAGE * pages]
    assert [c.kwarg("atomic") for c in calls(after, "tile.store")] == ["Add"] * pages


def test_reshape_of_batch_dims_is_looked_through() -> None:
    before = stored(
        [tensor("x", 1, 16, 32, dtype="FP16"), tensor("y", 1, 1, 32, 64, dtype="FP16")],
        [
            mat("a", "x", [0, 0, 0], [1, 16, 32]),
            let("r", "tile.reshape", "a", [1, 1, 16, 32]),
            mat("b", "y", [0, 0, 0, 0], [1, 1, 32, 64]),
            let("p", "tile.batch_matmul", "r", "b"),
        ],
        "p",
        [1, 1, 16, 64],
    )
    after = lowered_as_upstream(before)
    assert steps(after) == [*VIEWED, *PAGE]


def test_one_product_that_is_not_stored_at_once_has_the_authors_name() -> None:
    before = stored(
        [tensor("x", 1, 16, 32, dtype="FP16"), tensor("y", 1, 32, 64, dtype="FP16")],
        [
            mat("a", "x", [0, 0, 0], [1, 16, 32]),
            mat("b", "y", [0, 0, 0], [1, 32, 64]),
            let("p", "tile.batch_matmul", "a", "b"),
            let("r", "tile.reshape", "p", [16, 64]),
        ],
        "r",
        [16, 64],
    )
    after = lowered_as_upstream(before)
    assert steps(after) == [*VIEWED, "slice", "slice", "matmul", "reshape", "store"]
    assert types(after)["p"].memory is Memory.ACC


def test_products_that_are_not_stored_at_once_are_put_together_in_vec() -> None:
    before = stored(
        [tensor("x", 2, 16, 32, dtype="FP16"), tensor("y", 2, 32, 64, dtype="FP16")],
        [
            mat("a", "x", [0, 0, 0], [2, 16, 32]),
            mat("b", "y", [0, 0, 0], [2, 32, 64]),
            let("p", "tile.batch_matmul", "a", "b"),
            let("e", "tile.exp", "p"),
        ],
        "e",
        [2, 16, 64],
    )
    after = lowered_as_upstream(before, faults=("W402",))
    page = ["slice", "slice", "matmul", "move", "assemble"]
    assert steps(after) == [*VIEWED, "create", *page, *page, "exp", "store"]
    assert [ints(c, 2) for c in calls(after, "tile.assemble")] == [[0, 0], [16, 0]]
    assert windows(after) == [[2, 16, 64]]


def test_operands_too_large_together_are_both_loaded_by_page() -> None:
    after = lowered_as_upstream(kernel("one_fits_bmm"))
    page = ["tensor.view", "load", "tensor.view", "load", "matmul", "store"]
    assert steps_of(after, "bmm") == page * 2
    found = [(ints(c, 1), ints(c, 2)) for c in calls(after, "tile.load", "bmm")]
    assert found == [([0, 0], [64, 512]), ([0, 0], [512, 256]), ([0, 0], [64, 512]), ([512, 0], [512, 256])]


def test_without_a_target_everything_fits() -> None:
    before = kernel("one_fits_bmm")
    from dataclasses import replace

    after = lowered_as_upstream(replace(before, target=None))
    assert steps_of(after, "bmm") == [*VIEWED, *PAGE * 2]


def test_batch_one_kernels_keep_one_accumulator() -> None:
    for name, function in (("q_proj_4d", "q_proj"), ("expert_gate", "exp_gate_mm")):
        after = lowered_as_upstream(kernel(name))
        found = steps_of(after, function)
        assert found.count("matmul") == found.count("matmul_acc") == 1
        assert "move" not in found and "assemble" not in found and found.count("slice") == 4


# SharedBatchMatmulOperand


def shared(nested: bool) -> Program:
    """x times y and x times z, the second one in a loop where `nested`."""
    parts = [("x", [2, 64, 512]), ("y", [2, 512, 256]), ("z", [2, 512, 256])]
    second: list[Json] = [
        mat("c", "z", [0, 0, 0], [2, 512, 256]),
        let("q", "tile.batch_matmul", "a", "c"),
        store("o2", "q", [0, 0, 0], "w" if nested else "out_1"),
    ]
    if nested:
        second = [loop("i", [0, 2, 1], {"w": "out_1"}, [*second, give("o2")], ["o3"])]
    return incore(
        [*(tensor(n, *s, dtype="BF16") for n, s in parts), out("out_0", 2, 64, 256), out("out_1", 2, 64, 256)],
        [
            mat("a", "x", [0, 0, 0], [2, 64, 512]),
            mat("b", "y", [0, 0, 0], [2, 512, 256]),
            let("p", "tile.batch_matmul", "a", "b"),
            store("o1", "p", [0, 0, 0], "out_0"),
            *second,
            ret("o1", "o3" if nested else "o2"),
        ],
    )


def test_shared_operand_is_loaded_by_page_for_each_product_and_not_left_dead() -> None:
    after = lowered_as_upstream(shared(nested=False))
    assert steps(after) == ["tensor.view", "load", "tensor.view", "load", "matmul", "store"] * 4
    assert "a" not in types(after)


def test_shared_operand_with_a_nested_use_is_kept() -> None:
    after = lowered_as_upstream(shared(nested=True))
    names = {s.target.name for s in walk(main(after).body) if isinstance(s, Assign)}
    assert "a" in names
    assert any(v.name == "a" for s in walk(main(after).body) for v in uses(s))


# NdTensorMatmulConversion, MatLoadRoundtrip


def test_accumulating_product_of_batch_one_forwards_its_predicate() -> None:
    bridge = {"__compiler_tensor_to_tile_mat_bridge": True}
    before = stored(
        [tensor("x", 1, 16, 256, dtype="FP16"), tensor("y", 1, 256, 64, dtype="FP16")],
        [
            let("z", "tile.create", [1, 16, 64], dtype="FP32", target_memory="Acc"),
            loop(
                "k",
                [0, 256, 64],
                {"acc": "z"},
                [
                    mat("a", "x", [0, 0, "k"], [1, 16, 64], attrs=bridge),
                    mat("b", "y", [0, "k", 0], [1, 64, 64], attrs=bridge),
                    let("n", "tile.batch_matmul_acc", "acc", "a", "b", "k == 0"),
                    give("n"),
                ],
                ["r"],
            ),
        ],
        "r",
        [1, 16, 64],
    )
    after = lowered_as_upstream(before)
    assert steps(after) == ["create", *VIEWED, "slice", "slice", "matmul_acc", "store"]
    assert len(calls(after, "tile.matmul_acc")[0].args) == 4
    assert all(dict(c.attrs) == bridge for c in calls(after, "tile.load"))
    assert [c.kwarg("target_memory") for c in calls(after, "tile.create")] == ["Acc"]


@pytest.mark.parametrize("memory", ["Mat", "Vec"])
def test_load_states_the_space_of_its_tile(memory: str) -> None:
    body = [load("a", "x", [1, 0, 0], [1, 16, 128], memory=memory), ret()]
    before = incore([tensor("x", 2, 16, 128, dtype="FP16")], body)
    after = lowered_as_upstream(before)
    assert types(after)["a"].memory is Memory(memory)
    assert calls(after, "tile.load")[0].kwarg("target_memory") == memory


def test_page_in_l1_is_loaded_from_a_2d_view() -> None:
    body = [mat("a", "x", [1, 0, 0], [1, 16, 128]), let("b", "tile.move", "a", target_memory="Left"), ret()]
    after = lowered_as_upstream(incore([tensor("x", 2, 16, 128, dtype="FP16")], body))
    assert steps(after) == ["tensor.view", "load", "move"]
    assert ints(calls(after, "tensor.view")[0], 1) == [32, 128]
    assert loads(after) == [([16, 0], [16, 128])]
    assert types(after)["a"].static_shape == (16, 128) and types(after)["a"].view is None


@pytest.mark.parametrize("distributed", [False, True])
def test_view_keeps_the_valid_part_and_kind_of_its_tensor(distributed: bool) -> None:
    more: Json = {"valid": [1, 16, 128], **({"distributed": True} if distributed else {})}
    body = [mat("a", "x", [0, 0, 0], [1, 16, 128]), let("b", "tile.move", "a", target_memory="Left"), ret()]
    after = lowered_as_upstream(incore([tensor("x", 2, 16, 128, dtype="FP16", **more)], body))
    view = calls(after, "tensor.view")[0]
    assert (ints(view, 1), ints(view, 2)) == ([32, 128], [16, 128])
    made = next(s.target.type for s in walk(main(after).body) if isinstance(s, Assign) and s.value is view)
    assert isinstance(made, TensorType) and made.distributed is distributed


def test_dn_weight_keeps_its_order_under_a_branch() -> None:
    dn: Json = {"layout": "DN"}
    before = stored(
        [
            tensor("x", 1, 16, 128, dtype="FP16"),
            tensor("w", 1, 128, 64, dtype="FP16", **dn),
            {"name": "c", "type": {"scalar": "INDEX"}, "range": [0, 1]},
        ],
        [
            mat("a", "x", [0, 0, 0], [1, 16, 128]),
            {
                "if": "c > 0",
                "then": [mat("b", "w", [0, 0, 0], [1, 128, 64]), let("p", "tile.batch_matmul", "a", "b"), give("p")],
                "else": [mat("b2", "w", [0, 0, 0], [1, 128, 64]), let("q", "tile.batch_matmul", "a", "b2"), give("q")],
                "results": ["r"],
            },
        ],
        "r",
        [1, 16, 64],
    )
    after = lowered_as_upstream(before)
    view = types(after)["b"].effective_view
    assert (view.blayout, view.slayout) == (TileLayout.ROW_MAJOR, TileLayout.COL_MAJOR)
    assert types(after)["b"].static_shape == (128, 64)
    for c in calls(after, "tile.load"):
        window = ints(c, 2)
        assert window in ([16, 128], [1, 128, 64])


def test_positions_of_pages_are_those_of_product_and_store() -> None:
    before = bmm([2, 16, 32], [2, 32, 64])
    lines = [{**s, "loc": f"k.py:{i}:1"} for i, s in enumerate(_body(before))]
    after = lowered_as_upstream(_with(before, lines))
    places = {c.op: s.loc for s in walk(main(after).body) if isinstance(s, Assign) and isinstance(c := s.value, Call)}
    assert places["tensor.view"] in ("k.py:0:1", "k.py:1:1")
    assert (places["tile.slice"], places["tile.matmul"], places["tile.store"]) == ("k.py:2:1", "k.py:2:1", "k.py:3:1")
    assert type_of(calls(after, "tile.store")[0].args[2]) is not None


def _body(p: Program) -> list[Json]:
    import json

    from pypto_ir.json_writer import write_program

    body: list[Json] = json.loads(write_program(p))["functions"][0]["body"]
    return body


def _with(p: Program, body: list[Json]) -> Program:
    import json

    from pypto_ir.json_reader import read_program
    from pypto_ir.json_writer import write_program

    value = json.loads(write_program(p))
    value["functions"][0]["body"] = body
    return read_program(json.dumps(value), "test.json")
