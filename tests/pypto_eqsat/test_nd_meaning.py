"""N-D ops whose axes are those of the author's tile, not of the flat one: reductions of axis 0.

col_sum of [2, 3, 8] is [1, 3, 8]: page 0 and page 1 are added; [6, 8] as one tile would add all six rows
"""

from __future__ import annotations

from typing import Any

import pytest
from helpers import incore, let, load, lowered, ops, out, refused, ret, shapes, store, tensor

from pypto_ir.stmt import Program

REDUCTIONS = ["col_sum", "col_max", "col_min", "col_prod"]


def reduced(op: str, shape: list[int], valid: list[Any] | None = None, scratch: bool = False) -> Program:
    zeros, result = [0] * len(shape), [1, *shape[1:]]
    dtype = "INT32" if op.startswith("col_arg") else "FP32"
    tmp = [let("tmp", "tile.create", shape, dtype="FP32", target_memory="Vec")] if scratch else []
    body = [load("t", "x", zeros, shape, valid), *tmp, let("y", f"tile.{op}", "t", *(["tmp"] if scratch else []))]
    return incore([tensor("x", *shape), out("out_0", *result, dtype=dtype)], [*body, store("o", "y", zeros, "out_0"), ret("o")])


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("shape", [[2, 3, 8], [1, 3, 8], [3, 2, 4, 8], [2, 1, 8]], ids=str)
def test_axis_zero_is_reduced_with_a_page_as_a_row(op: str, shape: list[int]) -> None:
    after = lowered(reduced(op, shape), dearer=True)
    page = shape[-1]
    for d in shape[1:-1]:
        page *= d
    assert [o for o in ops(after) if o != "reshape"] == ["load", op, "store"]
    assert (1, page) in shapes(after).values()


@pytest.mark.parametrize("op", ["col_argmax", "col_argmin", "col_sum"])
def test_scratch_of_a_reduction_is_seen_as_its_operand_is(op: str) -> None:
    after = lowered(reduced(op, [2, 3, 8], scratch=True), dearer=True)
    assert {s for n, s in shapes(after).items() if n.startswith("y_2d")} <= {(2, 24), (1, 24)}


@pytest.mark.parametrize("valid", [[1, 3, 8], [2, 3, 8], [1, 2, 8]], ids=str)
def test_valid_pages_alone_are_reduced(valid: list[int]) -> None:
    assert "col_max" in ops(lowered(reduced("col_max", [3, 3, 8], valid), dearer=True))


@pytest.mark.parametrize(
    ("shape", "valid", "code", "words"),
    [([2, 3, 3], None, "L104", "32-byte blocks"), ([2, 3, 8], [2, 2, 8], "L101", "does not collapse")],
    ids=["a page that is no whole block", "gaps between the pages"],
)
def test_reduction_without_a_2d_form_says_why(shape: list[int], valid: list[int] | None, code: str, words: str) -> None:
    assert {d.code for d in refused(reduced("col_sum", shape, valid), words).diagnostics} == {code}
