"""N-D ops whose axes are those of the author's tile, not of the flat one: reductions of axis 0.

col_sum of [2, 3, 8] is [1, 3, 8]: page 0 and page 1 are added; [6, 8] as one tile would add all six rows
"""

from __future__ import annotations

from typing import Any

import pytest
from helpers import calls, incore, ints, let, load, lowered, ops, out, refused, ret, shapes, store, tensor

from pypto_ir.stmt import Program

REDUCTIONS = ["col_sum", "col_max", "col_min", "col_prod"]
#: the rules that reduce axis 0 page by page
BY_PAGES = frozenset({"pages.col-reduce", "fold.first", "fold.next"})


def reduced(op: str, shape: list[int], valid: list[Any] | None = None, scratch: bool = False) -> Program:
    zeros, result = [0] * len(shape), [1, *shape[1:]]
    dtype = "INT32" if op.startswith("col_arg") else "FP32"
    tmp = [let("tmp", "tile.create", shape, dtype="FP32", target_memory="Vec")] if scratch else []
    body = [load("t", "x", zeros, shape, valid), *tmp, let("y", f"tile.{op}", "t", *(["tmp"] if scratch else []))]
    return incore([tensor("x", *shape), out("out_0", *result, dtype=dtype)], [*body, store("o", "y", zeros, "out_0"), ret("o")])


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("shape", [[2, 3, 8], [1, 3, 8], [3, 2, 4, 8], [2, 1, 8]], ids=str)
def test_axis_zero_is_reduced_with_a_page_as_a_row(op: str, shape: list[int]) -> None:
    after = lowered(reduced(op, shape), dearer=True, without_rules=BY_PAGES)
    page = shape[-1]
    for d in shape[1:-1]:
        page *= d
    assert [o for o in ops(after) if o != "reshape"] == ["load", op, "store"]
    assert (1, page) in shapes(after).values()


@pytest.mark.parametrize("op", ["col_argmax", "col_argmin", "col_sum"])
def test_scratch_of_a_reduction_is_seen_as_its_operand_is(op: str) -> None:
    after = lowered(reduced(op, [2, 3, 8], scratch=True), dearer=True, without_rules=BY_PAGES)
    assert {s for n, s in shapes(after).items() if n.startswith("y_2d")} <= {(2, 24), (1, 24)}


@pytest.mark.parametrize(
    ("op", "fold", "shape", "valid"),
    [
        ("col_sum", "add", [3, 3, 8], None),
        ("col_max", "maximum", [2, 3, 3], None),
        ("col_min", "minimum", [2, 3, 8], [2, 2, 8]),
        ("col_prod", "mul", [2, 2, 3, 8], [2, 2, 3, 5]),
    ],
)
def test_axis_zero_is_reduced_page_by_page(op: str, fold: str, shape: list[int], valid: list[Any] | None) -> None:
    found = ops(lowered(reduced(op, shape, valid), dearer=True))
    assert op not in found and found.count(fold) == (shape[0] - 1) * (1 if len(shape) == 3 else shape[1])


@pytest.mark.parametrize("valid", [[1, 3, 8], [2, 3, 8], [1, 2, 8]], ids=str)
def test_valid_pages_alone_are_reduced(valid: list[int]) -> None:
    assert "col_max" in ops(lowered(reduced("col_max", [3, 3, 8], valid), dearer=True))


@pytest.mark.parametrize(
    ("shape", "valid", "code", "words"),
    [([3, 3, 3], [2, 3, 3], "L104", "32-byte blocks"), ([3, 3, 8], [2, 2, 8], "L101", "does not collapse")],
    ids=["a page that is no whole block, beside missing ones", "gaps between the pages, and missing ones"],
)
def test_reduction_without_a_2d_form_says_why(shape: list[int], valid: list[int] | None, code: str, words: str) -> None:
    assert {d.code for d in refused(reduced("col_sum", shape, valid), words).diagnostics} == {code}


@pytest.mark.parametrize(
    ("shape", "larger", "valid", "count"),
    [
        ([2, 3, 8], [2, 4, 8], None, 2),
        ([2, 3, 8], [2, 4, 16], [2, 2, 8], 2),
        ([2, 3, 8], [2, 3, 16], None, 1),
        ([2, 3, 8], [2, 3, 16], [1, 2, 8], 1),
        ([1, 3, 8], [1, 4, 8], [1, 2, 5], 1),
    ],
    ids=str,
)
def test_tiles_are_padded_to_a_larger_shape_page_by_page_or_row_by_row(
    shape: list[int], larger: list[int], valid: list[int] | None, count: int
) -> None:
    body = [load("t", "x", [0, 0, 0], shape, valid), let("y", "tile.fillpad_expand", "t", larger, pad_value="zero")]
    before = incore([tensor("x", *shape), out("out_0", *larger)], [*body, store("o", "y", [0, 0, 0], "out_0"), ret("o")])
    assert ops(lowered(before, dearer=True)).count("fillpad_expand") == count


# transposes


def transposed(shape: list[int], axes: tuple[int, int], before: str | None = None, after: str | None = None) -> Program:
    """A tile loaded, transposed and stored, perhaps with an op on either side."""
    result = list(shape)
    a, b = axes
    result[a], result[b] = result[b], result[a]
    body, last = [load("t", "x", [0] * len(shape), shape)], "t"
    for name, op in (("b", before), ("y", "transpose"), ("z", after)):
        if op is not None:
            body.append(let(name, f"tile.{op}", last, *(axes if op == "transpose" else ())))
            last = name
    return incore([tensor("x", *shape), out("out_0", *result)], [*body, store("o", last, [0] * len(shape), "out_0"), ret("o")])


@pytest.mark.parametrize(
    ("shape", "axes"), [([1, 3, 8], (0, 1)), ([2, 1, 4, 8], (1, 2)), ([2, 1, 1, 8], (0, 2)), ([4, 1, 8], (0, 1))], ids=str
)
def test_moving_an_axis_of_one_is_a_view(shape: list[int], axes: tuple[int, int]) -> None:
    assert ops(lowered(transposed(shape, axes, "exp", "neg"), dearer=True)) == ["load", "exp", "neg", "store"]


def test_swapped_batch_axes_are_loaded_or_stored_in_another_order() -> None:
    stored = lowered(transposed([2, 3, 4, 8], (0, 1), before="exp"), dearer=True, without_rules=frozenset({"pages.moved"}))
    assert [ints(c, 1) for c in calls(stored, "tile.store")] == [[j, i, 0, 0] for i in range(2) for j in range(3)]
    loaded = lowered(transposed([2, 3, 4, 8], (0, 1), after="exp"), dearer=True, without_rules=frozenset({"pages.moved"}))
    assert [ints(c, 1) for c in calls(loaded, "tile.load")] == [[i, j, 0, 0] for j in range(3) for i in range(2)]


def test_rows_of_all_pages_are_a_page_of_the_load_or_a_box_of_the_store() -> None:
    loaded = lowered(transposed([2, 3, 8], (0, 1), after="exp"), dearer=True, without_rules=frozenset({"transpose.seen"}))
    assert [(ints(c, 1), ints(c, 2)) for c in calls(loaded, "tile.load")] == [([0, i, 0], [2, 1, 8]) for i in range(3)]
    stored = lowered(transposed([2, 3, 8], (0, 1), before="exp"), dearer=True, without_rules=frozenset({"transpose.seen"}))
    assert [(ints(c, 1), ints(c, 3)) for c in calls(stored, "tile.store")] == [([0, b, 0], [3, 1, 8]) for b in range(2)]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [([2, 3, 8], (0, 1)), ([2, 3, 4, 8], (0, 2)), ([2, 2, 2, 3, 8], (1, 3)), ([8, 3, 8], (0, 2)), ([2, 8, 3, 8], (-1, 1))],
    ids=str,
)
def test_any_two_axes_change_places_between_two_ops(shape: list[int], axes: tuple[int, int]) -> None:
    assert ops(lowered(transposed(shape, axes, "exp", "neg"), dearer=True)).count("neg") >= 1


@pytest.mark.parametrize(("shape", "axes"), [([2, 3, 8], (1, 2)), ([2, 3, 8], (0, 1)), ([16, 8], (0, 1))], ids=str)
def test_transpose_of_a_transpose_is_the_tile(shape: list[int], axes: tuple[int, int]) -> None:
    zeros = [0] * len(shape)
    before = incore(
        [tensor("x", *shape), out("out_0", *shape)],
        [
            load("t", "x", zeros, shape),
            let("y", "tile.transpose", "t", *axes),
            let("z", "tile.transpose", "y", *axes[::-1]),
            store("o", "z", zeros, "out_0"),
            ret("o"),
        ],
    )
    assert ops(lowered(before, dearer=True)) == ["load", "store"]


def test_transposed_load_is_not_read_again_after_a_store_to_its_buffer() -> None:
    before = incore(
        [tensor("io", 2, 3, 8, direction="InOut"), tensor("w", 2, 3, 8), out("out_0", 3, 2, 8)],
        [
            load("t", "io", [0, 0, 0], [2, 3, 8]),
            load("u", "w", [0, 0, 0], [2, 3, 8]),
            store("io_1", "u", [0, 0, 0], "io"),
            let("y", "tile.transpose", "t", 0, 1),
            let("z", "tile.exp", "y"),
            store("o", "z", [0, 0, 0], "out_0"),
            ret("io_1", "o"),
        ],
    )
    after = lowered(before, dearer=True)
    order = [c.args[0].name if c.op == "tile.load" else c.op for c in calls(after) if c.op in ("tile.load", "tile.store")]  # type: ignore[union-attr]
    assert "io" not in order[order.index("tile.store") :]


def test_rows_that_are_no_whole_block_do_not_change_places() -> None:
    assert {d.code for d in refused(transposed([2, 3, 3], (0, 1), "exp", "neg"), "32-byte blocks").diagnostics} == {"L104"}


def test_transposes_of_other_ranks_and_dtypes_share_nothing_but_their_axes() -> None:
    """Axes 0 and 1 are the last two of a matrix, and whole rows of three axes; each scratch has the dtype of its tile."""
    sources = [tensor("x", 16, 16), tensor("y", 2, 3, 16), tensor("w", 16, 16, dtype="FP16")]
    before = incore(
        [*sources, out("a", 16, 16), out("b", 3, 2, 16), out("c", 16, 16, dtype="FP16")],
        [
            load("x0", "x", [0, 0], [16, 16]),
            let("x1", "tile.transpose", "x0", 0, 1),
            store("a1", "x1", [0, 0], "a"),
            load("y0", "y", [0, 0, 0], [2, 3, 16]),
            let("y1", "tile.transpose", "y0", 0, 1),
            let("y2", "tile.exp", "y1"),
            store("b1", "y2", [0, 0, 0], "b"),
            load("w0", "w", [0, 0], [16, 16]),
            let("w1", "tile.transpose", "w0", 0, 1),
            store("c1", "w1", [0, 0], "c"),
            ret("a1", "b1", "c1"),
        ],
    )
    after = lowered(before, dearer=True)
    assert [str(dict(c.kwargs)["dtype"]) for c in calls(after, "tile.create")] == ["FP32", "FP16"]
    assert ops(after).count("transpose") == 2
