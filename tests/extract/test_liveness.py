"""Live ranges in programs that are counted by hand; a tile [16, 64] of FP32 takes 4,096 bytes."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import give, incore, let, load, loop, main, out, ret, scalar, store, tensor, tile

from extract.liveness import Liveness, liveness
from extract.slots import footprint
from extract.target import load_target
from pypto_ir.dtypes import DType
from pypto_ir.types import Memory, dims, tile_type

PAGE = 4096
TARGET = load_target("ascend910b")
PARAMS = [tensor("x", 64, 64), tensor("h", 64, 64, dtype="FP16"), out("o", 64, 64), scalar("n")]


def page(name: str, memory: str = "Vec", source: str = "x") -> Any:
    return load(name, source, [0, 0], [16, 64], memory=memory)


def keep(source: str, number: int = 0) -> Any:
    return store(f"kept_{source}_{number}", source, [0, 0], "o")


def live(*body: Any, params: list[Any] | None = None) -> Liveness:
    before = incore(PARAMS if params is None else params, [*body, ret("o")])
    return liveness(main(before), TARGET)


def ranges(found: Liveness) -> dict[str, tuple[int, int]]:
    return {b.name: (b.first, b.last) for b in found.buffers}


def peak(found: Liveness, memory: Memory = Memory.VEC) -> int:
    """Pages that are live together at most."""
    return found.peaks[memory].bytes // PAGE


def test_a_tile_lives_from_its_definition_to_its_last_reader() -> None:
    found = live(page("a"), page("b"), let("c", "tile.add", "a", "b"), let("d", "tile.exp", "c"), keep("d"))
    assert ranges(found) == {"a": (0, 2), "b": (1, 2), "c": (2, 3), "d": (3, 4)}
    top = found.peaks[Memory.VEC]
    assert (top.bytes, top.position, [b.name for b in top.live]) == (3 * PAGE, 2, ["a", "b", "c"])


def test_what_nobody_reads_takes_its_buffer_where_it_is_made() -> None:
    found = live(page("a"), page("b"), let("c", "tile.exp", "b"), keep("c"))
    assert ranges(found)["a"] == (0, 0)


def test_views_and_results_in_place_lie_in_the_buffer_of_their_operand() -> None:
    found = live(
        page("a"),
        let("v", "tile.reshape", "a", [64, 16]),
        let("w", "tile.slice", "v", [16, 16], [0, 0]),
        page("b"),
        let("c", "tile.create", [16, 64], dtype="FP32", target_memory="Vec"),
        let("d", "tile.assemble", "c", "b", [0, 0]),
        let("e", "tile.exp", "w"),
        keep("d"),
        keep("e"),
    )
    assert ranges(found) == {"a": (0, 6), "b": (3, 5), "c": (4, 7), "e": (6, 8)}
    assert found.places["w"] == found.places["v"] == found.places["a"]
    assert found.places["d"] == found.places["c"]


def test_scratch_lives_at_its_op() -> None:
    made = let("s", "tile.create", [16, 64], dtype="FP32", target_memory="Vec")
    found = live(page("a"), made, let("r", "tile.row_sum", "a", "s"), keep("r"), keep("a"))
    assert ranges(found)["s"] == (1, 2)


def test_a_tile_from_outside_a_loop_lives_through_all_of_its_trips() -> None:
    found = live(
        page("a"),
        loop("k", [0, "n", 1], {}, [let("b", "tile.exp", "a"), keep("b"), page("c"), keep("c")]),
    )
    assert ranges(found) == {"a": (0, 5), "b": (2, 3), "c": (4, 5)}


def test_a_tile_from_between_two_loops_lives_through_the_inner_one_only() -> None:
    inner = loop("j", [0, "n", 1], {}, [let("b", "tile.exp", "a"), keep("b"), page("c"), keep("c")])
    found = live(loop("k", [0, "n", 1], {}, [page("a"), inner, page("d"), keep("d")]))
    assert ranges(found) == {"a": (1, 6), "b": (3, 4), "c": (5, 6), "d": (7, 8)}


def test_a_carry_that_is_updated_in_place_is_one_buffer() -> None:
    found = live(
        let("a", "tile.create", [16, 64], dtype="FP32", target_memory="Vec"),
        loop(
            "k",
            [0, "n", 1],
            {"c": "a"},
            [page("b"), let("d", "tile.assemble", "c", "b", [0, 0]), give("d")],
            ["r"],
        ),
        keep("r"),
    )
    assert ranges(found) == {"a": (0, 5), "b": (2, 3)}
    assert len({found.places[name] for name in ("a", "c", "d", "r")}) == 1


def test_a_carry_that_is_replaced_keeps_its_home_beside_the_new_tile() -> None:
    body = [let("d", "tile.exp", "c"), give("d")]
    found = live(page("a"), loop("k", [0, "n", 1], {"c": "a"}, body, ["r"]), keep("r"))
    assert ranges(found) == {"a": (0, 4), "d": (2, 3)}
    assert found.places["a"] == found.places["c"] == found.places["r"] != found.places["d"]


def test_a_replaced_carry_has_a_home_of_its_own_where_the_initial_tile_is_read_later() -> None:
    body = [let("d", "tile.exp", "c"), give("d")]
    found = live(page("a"), loop("k", [0, "n", 1], {"c": "a"}, body, ["r"]), keep("r"), keep("a"))
    assert ranges(found) == {"a": (0, 5), "c": (1, 4), "d": (2, 3)}


def test_a_tile_that_enters_a_loop_anew_in_every_trip_of_another_is_copied() -> None:
    body = [let("d", "tile.exp", "c"), give("d")]
    inner = loop("j", [0, "n", 1], {"c": "a"}, body, ["r"])
    found = live(page("a"), loop("k", [0, "n", 1], {}, [inner, keep("r")]))
    assert ranges(found) == {"a": (0, 5), "c": (2, 5), "d": (3, 4)}


def test_a_carry_that_is_only_handed_on_shares_the_buffer_of_the_initial_tile() -> None:
    body = [let("d", "tile.exp", "c"), keep("d"), give("c")]
    found = live(page("a"), loop("k", [0, "n", 1], {"c": "a"}, body, ["r"]), keep("r"), keep("a"))
    assert ranges(found) == {"a": (0, 6), "d": (2, 3)}


def test_carries_that_change_places_need_a_staging_buffer_each() -> None:
    swap = loop("k", [0, "n", 1], {"c": "a", "d": "b"}, [give("d", "c")], ["r", "s"])
    found = live(page("a"), page("b"), swap, keep("r"), keep("s"))
    assert peak(found) == 4


def test_two_carries_of_one_initial_tile_have_two_homes() -> None:
    body = [let("e", "tile.exp", "c"), let("f", "tile.exp", "d"), give("e", "f")]
    found = live(page("a"), loop("k", [0, "n", 1], {"c": "a", "d": "a"}, body, ["r", "s"]), keep("r"), keep("s"))
    assert found.places["c"] != found.places["d"]
    assert peak(found) == 4


def branch(then: list[Any], other: list[Any], *results: str) -> Any:
    return {"if": "n < 2", "then": then, "else": other, "results": list(results)}


def test_the_result_of_a_branch_lies_in_the_tile_of_one_arm() -> None:
    found = live(
        page("a"),
        branch(
            [let("b", "tile.exp", "a"), give("b")],
            [let("c", "tile.sqrt", "a"), let("d", "tile.exp", "c"), give("d")],
            "r",
        ),
        keep("r"),
    )
    assert ranges(found) == {"a": (0, 4), "b": (1, 7), "c": (4, 5), "d": (5, 6)}
    assert found.places["r"] == found.places["b"]


def test_a_tile_that_an_arm_hands_on_and_others_read_later_is_copied() -> None:
    hand_on = branch([give("a")], [give("b")], "r")
    found = live(page("a"), page("b"), hand_on, keep("r"), keep("a"), keep("b"))
    assert ranges(found) == {"a": (0, 6), "b": (1, 7), "r": (2, 5)}


def test_two_parts_of_one_buffer_are_not_one_place() -> None:
    top, bottom = (let(name, "tile.slice", "a", [8, 64], [row, 0]) for name, row in (("w", 0), ("v", 8)))
    found = live(page("a"), branch([top, give("w")], [bottom, give("v")], "r"), keep("r"), keep("a"))
    assert found.places["w"] == found.places["v"] == found.places["a"] != found.places["r"]
    assert ranges(found) == {"a": (0, 7), "r": (1, 6)}


def test_an_accumulator_that_one_arm_starts_and_the_other_goes_on_with_is_one_buffer() -> None:
    product = branch(
        [let("p", "tile.matmul", "l", "t"), give("p")],
        [let("q", "tile.matmul_acc", "c", "l", "t"), give("q")],
        "e",
    )
    found = live(
        let("a", "tile.create", [16, 64], dtype="FP32", target_memory="Acc"),
        loop(
            "k",
            [0, "n", 1],
            {"c": "a"},
            [
                load("l", "h", [0, 0], [16, 64], memory="Mat"),
                load("t", "h", [0, 0], [64, 64], memory="Mat"),
                product,
                give("e"),
            ],
            ["r"],
        ),
        keep("r"),
    )
    assert peak(found, Memory.ACC) == 1
    assert len({found.places[name] for name in "acpqer"}) == 1


def test_an_accumulator_is_not_started_in_a_buffer_that_is_still_read() -> None:
    product = branch(
        [let("p", "tile.matmul", "l", "t"), give("p")],
        [let("q", "tile.matmul_acc", "c", "l", "t"), give("q")],
        "e",
    )
    found = live(
        load("l", "h", [0, 0], [16, 64], memory="Mat"),
        load("t", "h", [0, 0], [64, 64], memory="Mat"),
        let("c", "tile.matmul", "l", "t"),
        product,
        keep("e"),
        keep("c"),
    )
    assert found.places["p"] != found.places["c"]
    assert peak(found, Memory.ACC) == 2


@pytest.mark.parametrize(("kind", "pages"), [("range", 2), ("pipeline", 4)])
def test_loads_in_a_pipelined_loop_count_once_a_stage(kind: str, pages: int) -> None:
    stages = {"kind": kind, "attrs": {"pipeline_stages": 3}} if kind == "pipeline" else {}
    body = [page("a"), let("b", "tile.exp", "a"), keep("b")]
    found = live(loop("k", [0, "n", 1], {}, body, **stages))
    assert peak(found) == pages
    assert {b.name: b.copies for b in found.buffers} == {"a": pages - 1, "b": 1}


def test_nested_pipelines_multiply_their_stages_and_spare_what_is_computed() -> None:
    attrs = {"kind": "pipeline", "attrs": {"pipeline_stages": 2}}
    inner = loop("j", [0, "n", 1], {}, [page("b"), let("c", "tile.exp", "b"), keep("c")], **attrs)
    found = live(loop("k", [0, "n", 1], {}, [page("a"), keep("a"), inner], **attrs))
    assert {b.name: b.copies for b in found.buffers} == {"a": 2, "b": 4, "c": 1}


def test_tiles_of_one_named_memory_are_one_buffer() -> None:
    def placed(name: str, offset: int) -> Any:
        where = {"tile": [16, 64], "dtype": "FP32", "memory": "Vec"}
        return page(name) | {"type": {**where, "memref": {"base": "m", "offset": offset, "size": PAGE}}}

    found = live(placed("a", 0), keep("a"), placed("b", PAGE), keep("b"), page("c"), keep("c"))
    assert ranges(found) == {"m": (0, 3), "c": (4, 5)}
    assert found.buffers[0].bytes == 2 * PAGE


def test_a_parameter_lives_throughout() -> None:
    found = live(page("b"), keep("b"), params=[*PARAMS, tile("a", 16, 64)])
    assert ranges(found)["a"] == (0, 2)


def test_memory_is_counted_apart() -> None:
    found = live(
        load("l", "h", [0, 0], [16, 64], memory="Mat"),
        load("r", "h", [0, 0], [64, 64], memory="Mat"),
        let("p", "tile.matmul", "l", "r"),
        keep("p"),
    )
    assert {m: p.bytes for m, p in found.peaks.items()} == {
        Memory.MAT: 16 * 64 * 2 + 64 * 64 * 2,
        Memory.ACC: PAGE,
    }


@pytest.mark.parametrize(
    ("shape", "dtype", "memory", "expected"),
    [
        ((16, 64), DType.FP32, None, 4096),
        ((16, 64), DType.FP16, Memory.MAT, 2048),
        ((1, 8), DType.FP32, Memory.VEC, 128),  # 32 bytes, rounded up to the unit of Vec
        ((16, 16), DType.FP32, Memory.ACC, 1024),
        ((16, 16), DType.INT32, Memory.ACC, 2048),  # rows of INT32 accumulators come in 32 on ascend910b
        ((16, 64), DType.FP16, Memory.LEFT, 2048),
    ],
)
def test_a_footprint_is_that_of_the_physical_shape(shape: tuple[int, int], dtype: DType, memory: Memory | None, expected: int) -> None:
    assert footprint(tile_type(dims(*shape), dtype, memory), TARGET) == expected
