"""What a lowering must keep of the author's: names, comments, kwargs, attributes, MemRefs, and effects in
their order.

Writes to global memory are effects: a store whose result is never used stays, writes to one buffer keep
their order, and a load between them reads what the first one wrote.
"""

from __future__ import annotations

import pytest
from helpers import (
    calls,
    const,
    give,
    incore,
    let,
    load,
    loop,
    lowered,
    main,
    ops,
    out,
    ret,
    shapes,
    store,
    tensor,
    types,
    windows,
)

from pypto_ir.stmt import Assign, Call, Eval, For, Program, Stmt, walk

# what belongs to the author


def test_names_are_kept() -> None:
    before = incore(
        [tensor("x", 2, 3, 8), out("out_0", 2, 3, 8)],
        [
            load("t", "x", [0, 0, 0], (2, 3, 8)),
            let("m", "tile.muls", "t", const(2.0)),
            let("y", "tile.sub", "m", "t"),
            store("o", "y", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    after = lowered(before)
    assert list(shapes(after)) == list(shapes(before))


def test_names_made_by_the_lowering_come_from_the_value_and_are_new() -> None:
    before = incore(
        [tensor("x", 2, 8, 16), tensor("w", 1, 8, 16), out("out_0", 2, 8, 16)],
        [
            load("t", "x", [0, 0, 0], (2, 8, 16)),
            load("g", "w", [0, 0, 0], (1, 8, 16)),
            let("t_0", "tile.exp", "g"),
            let("y", "tile.add", "t", "t_0"),
            store("o", "y", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    after = lowered(before, dearer=True)
    names = [s.target.name for s in walk(main(after).body) if isinstance(s, Assign)]
    assert len(set(names)) == len(names)
    roots = ("t", "g", "t_0", "y", "o")
    assert all(any(name == r or name.startswith(f"{r}_") for r in roots) for name in names)


def comments(p: Program) -> list[str]:
    return [s.comment for s in walk(main(p).body) if s.comment]


def test_comments_and_kwargs_and_attributes_are_kept() -> None:
    bridge = {"__compiler_tensor_to_tile_mat_bridge": True}
    before = incore(
        [tensor("x", 2, 3, 8, dtype="BF16"), out("out_0", 2, 3, 8)],
        [
            {**load("t", "x", [0, 0, 0], (2, 3, 8), attrs=bridge), "comment": "all of x"},
            {**let("c", "tile.cast", "t", target_type="FP32", mode="floor"), "comment": "wide"},
            {**store("o", "c", [0, 0, 0], "out_0", atomic="Add", attrs={"tag": 7}), "comment": "back"},
            ret("o"),
        ],
    )
    after = lowered(before)
    assert comments(after) == ["all of x", "wide", "back"]
    for old, new in zip(calls(before), calls(after), strict=True):
        assert (new.op, new.kwargs, new.attrs) == (old.op, old.kwargs, old.attrs)


def test_comment_of_a_statement_that_vanishes_goes_to_the_next_one() -> None:
    before = incore(
        [tensor("x", 4, 8), out("out_0", 4, 1, 8)],
        [
            load("t", "x", [0, 0], (4, 8)),
            {**let("r", "tile.reshape", "t", [4, 1, 8]), "comment": "one row each"},
            {**store("o", "r", [0, 0, 0], "out_0"), "comment": "done"},
            ret("o"),
        ],
    )
    after = lowered(before)
    assert ops(after) == ["load", "store"]
    assert comments(after) == ["one row each\ndone"]


def test_memref_of_the_author_stays_with_its_value() -> None:
    memref = {"base": "mem_vec_0", "offset": 256, "size": 96}
    before = incore(
        [tensor("x", 2, 3, 4), {"name": "mem_vec_0", "type": {"ptr": True}}, out("out_0", 2, 3, 4)],
        [
            load("t", "x", [0, 0, 0], (2, 3, 4)),
            let(
                "y",
                "tile.exp",
                "t",
                type={"tile": [2, 3, 4], "dtype": "FP32", "memory": "Vec", "memref": memref},
            ),
            store("o", "y", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    assert types(before)["y"].memref is not None
    after = lowered(before)
    assert types(after)["y"].memref == types(before)["y"].memref
    assert types(after)["t"].memref is None


# effects


def effects(p: Program) -> list[tuple[str, str]]:
    """The stores of `main` in order: what is stored, into what."""
    stores = calls(p, "tile.store")
    return [(c.args[0].name, c.args[2].name) for c in stores]  # type: ignore[union-attr]


def test_store_whose_result_is_never_used_stays() -> None:
    before = incore(
        [tensor("x", 2, 3, 8), out("out_0", 2, 3, 8)],
        [load("t", "x", [0, 0, 0], (2, 3, 8)), store("o", "t", [0, 0, 0], "out_0"), ret("out_0")],
    )
    after = lowered(before)
    assert effects(after) == [("t", "out_0")]
    assert main(after).body[-1] == main(before).body[-1]


def test_store_written_as_a_statement_gets_its_window() -> None:
    statement = {"op": "tile.store", "args": ["t", [0, 0, 0], "out_0"]}
    before = incore(
        [tensor("x", 2, 3, 8), out("out_0", 2, 3, 8)],
        [load("t", "x", [0, 0, 0], (2, 3, 8)), statement, ret("out_0")],
    )
    after = lowered(before)
    assert windows(after) == [[2, 3, 8]]
    assert isinstance(main(after).body[1], Eval)


def test_two_stores_to_one_buffer_keep_their_order() -> None:
    before = incore(
        [tensor("x", 2, 3, 8), out("out_0", 4, 3, 8)],
        [
            load("t", "x", [0, 0, 0], (2, 3, 8)),
            let("a", "tile.exp", "t"),
            let("b", "tile.neg", "t"),
            store("o1", "b", [1, 0, 0], "out_0"),
            store("o2", "a", [0, 0, 0], "o1"),
            ret("o2"),
        ],
    )
    after = lowered(before)
    assert effects(after) == [("b", "out_0"), ("a", "o1")]


def test_unchained_stores_to_one_buffer_keep_their_order() -> None:
    before = incore(
        [tensor("x", 2, 3, 8), out("out_0", 2, 3, 8)],
        [
            load("t", "x", [0, 0, 0], (2, 3, 8)),
            let("a", "tile.exp", "t"),
            store("o1", "t", [0, 0, 0], "out_0"),
            store("o2", "a", [0, 0, 0], "out_0"),
            ret("out_0"),
        ],
    )
    after = lowered(before)
    assert effects(after) == [("t", "out_0"), ("a", "out_0")]


@pytest.mark.parametrize("source", ["o1", "buffer"], ids=["through the result", "through the parameter"])
def test_load_between_two_stores_reads_what_the_first_wrote(source: str) -> None:
    before = incore(
        [tensor("x", 2, 3, 8), tensor("buffer", 2, 3, 8, direction="InOut"), out("out_0", 2, 3, 8)],
        [
            load("t", "x", [0, 0, 0], (2, 3, 8)),
            load("old", "buffer", [0, 0, 0], (2, 3, 8)),
            let("a", "tile.exp", "t"),
            store("o1", "a", [0, 0, 0], "buffer"),
            load("mid", source, [0, 0, 0], (2, 3, 8)),
            let("b", "tile.neg", "old"),
            store("o2", "b", [0, 0, 0], "o1"),
            let("c", "tile.sub", "mid", "old"),
            store("p", "c", [0, 0, 0], "out_0"),
            ret("o2", "p"),
        ],
    )
    after = lowered(before)
    assert [s for s in _touching(after) if s in ("old", "mid", "o1", "o2")] == ["old", "o1", "mid", "o2"]


def _touching(p: Program) -> list[str]:
    def touches(s: Stmt) -> bool:
        return isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op in ("tile.load", "tile.store")

    return [s.target.name for s in walk(main(p).body) if touches(s) and isinstance(s, Assign)]


def test_page_loads_are_not_moved_past_a_store_to_their_buffer() -> None:
    """[2, 8, 16] + [1, 8, 16] goes page by page; both loads read the buffer before it is overwritten."""
    before = incore(
        [tensor("w", 1, 8, 16), tensor("buffer", 2, 8, 16, direction="InOut"), out("out_0", 2, 8, 16)],
        [
            load("t", "buffer", [0, 0, 0], (2, 8, 16)),
            load("g", "w", [0, 0, 0], (1, 8, 16)),
            let("z", "tile.full", [2, 8, 16], const(3.0), dtype="FP32"),
            store("b1", "z", [0, 0, 0], "buffer"),
            let("y", "tile.add", "t", "g"),
            store("o", "y", [0, 0, 0], "out_0"),
            ret("b1", "o"),
        ],
    )
    lowered(before, dearer=True)


def test_value_that_is_read_after_its_buffer_was_overwritten_in_place_is_copied() -> None:
    before = incore(
        [tensor("x", 4, 8, 16), tensor("s", 1, 8, 16), out("a", 4, 8, 16), out("b", 4, 8, 16)],
        [
            load("t", "x", [0, 0, 0], (4, 8, 16)),
            load("u", "s", [0, 0, 0], (1, 8, 16)),
            let("z", "tile.assemble", "t", "u", [2, 0, 0]),
            let("y", "tile.add", "z", "t"),
            store("a1", "y", [0, 0, 0], "a"),
            store("b1", "z", [0, 0, 0], "b"),
            ret("a1", "b1"),
        ],
    )
    lowered(before, dearer=True)


# buffers


def test_carries_that_start_from_equal_fills_keep_a_buffer_each() -> None:
    """A carry lives in the buffer of its first value: one fill for both would be overwritten."""

    def build(lower: bool) -> Program:
        shape = [4, 8] if lower else [1, 4, 8]
        made = {"type": {"tile": [4, 8]}} if lower else {}
        window = [1, 4, 8] if lower else None
        body = [
            load("t", "x", ["i", 0, 0], [1, 4, 8], **made),
            let("a1", "tile.add", "a", "t"),
            let("b1", "tile.maximum", "b", "t"),
            give("a1", "b1"),
        ]
        return incore(
            [tensor("x", 5, 4, 8), out("p", 1, 4, 8), out("q", 1, 4, 8)],
            [
                let("z", "tile.full", shape, const(0.0), dtype="FP32"),
                let("y", "tile.full", shape, const(0.0), dtype="FP32"),
                loop("i", [0, 5, 1], {"a": "z", "b": "y"}, body, ["r", "s"]),
                store("p1", "r", [0, 0, 0], "p", window),
                store("q1", "s", [0, 0, 0], "q", window),
                ret("p1", "q1"),
            ],
        )

    assert lowered(build(lower=False)) == build(lower=True)


def test_equal_fills_that_are_only_read_are_one_tile() -> None:
    before = incore(
        [tensor("x", 2, 4, 8), out("p", 2, 4, 8)],
        [
            load("t", "x", [0, 0, 0], [2, 4, 8]),
            let("z", "tile.full", [2, 4, 8], const(3.0), dtype="FP32"),
            let("y", "tile.full", [2, 4, 8], const(3.0), dtype="FP32"),
            let("a", "tile.add", "t", "z"),
            let("b", "tile.mul", "a", "y"),
            store("p1", "b", [0, 0, 0], "p"),
            ret("p1"),
        ],
    )
    assert ops(lowered(before)).count("full") == 1


def test_pages_of_a_fill_that_are_only_read_are_one_tile() -> None:
    """[2, 3, 4] * [1, 3, 4] has no flat form and pages of 48 bytes cannot be cut from a tile."""
    before = incore(
        [tensor("x", 2, 3, 4), tensor("w", 1, 3, 4), out("p", 2, 3, 4)],
        [
            load("t", "x", [0, 0, 0], [2, 3, 4]),
            load("g", "w", [0, 0, 0], [1, 3, 4]),
            let("z", "tile.full", [2, 3, 4], const(3.0), dtype="FP32"),
            let("a", "tile.mul", "t", "g"),
            let("b", "tile.add", "a", "z"),
            store("p1", "b", [0, 0, 0], "p"),
            ret("p1"),
        ],
    )
    after = lowered(before, dearer=True)
    assert ops(after).count("full") == 1 and ops(after).count("mul") == 2


def test_pages_of_a_carried_fill_keep_a_buffer_each() -> None:
    body = [
        load("t", "x", ["i", 0, 0, 0], [1, 2, 3, 4]),
        load("g", "w", ["i", 0, 0, 0], [1, 1, 3, 4]),
        let("y", "tile.mul", "t", "g"),
        let("a1", "tile.add", "a", "y"),
        give("a1"),
    ]
    before = incore(
        [tensor("x", 4, 2, 3, 4), tensor("w", 4, 1, 3, 4), out("p", 1, 2, 3, 4)],
        [
            let("z", "tile.full", [1, 2, 3, 4], const(0.0), dtype="FP32"),
            loop("i", [0, 4, 1], {"a": "z"}, body, ["r"]),
            store("p1", "r", [0, 0, 0, 0], "p"),
            ret("p1"),
        ],
    )
    after = lowered(before, dearer=True)
    (around,) = (s for s in main(after).body if isinstance(s, For))
    firsts = [carry.init for carry in around.carries]
    assert len(set(firsts)) == len(firsts) == 2
