"""Windows as rules see them: which rows and pages of a tile they lie in, and whether their pieces start where a view can."""

from __future__ import annotations

import pytest
from building import Shape

from egraph_rules import windows
from egraph_rules.windows import Window
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, index, variables
from pypto_ir.types import Memory, dims, scalar_var, tile_type

V = scalar_var("v")


def window(of: Shape, box: Shape, at: tuple[int | Expr, ...], dtype: DType = DType.FP32, memory: Memory = Memory.VEC) -> Window:
    return Window(0, 0, tile_type(dims(*of), dtype, memory), box, dims(*at))


@pytest.mark.parametrize(
    ("of", "box", "at", "pages"),
    [
        ((4, 8, 16), (1, 8, 16), (2, 0, 0), (2,)),
        ((4, 8, 16), (2, 4, 8), (1, 3, 8), (1, 2)),
        ((4, 8, 16), (2, 4, 8), (1, V, 0), (1, 2)),
        ((2, 3, 8, 16), (2, 1, 8, 16), (0, 1, 0, 0), (1, 4)),
        ((4, 8, 16), (1, 8, 16), (V, 0, 0), None),
        ((4, 8, 16), (2, 8, 16), (3, 0, 0), None),
    ],
)
def test_pages_that_a_window_lies_in(of: Shape, box: Shape, at: tuple[int | Expr, ...], pages: Shape | None) -> None:
    assert windows.pages_of(of, box, dims(*at)) == pages


def test_rows_that_pages_of_a_window_are_apart() -> None:
    assert windows.page_rows((4, 8, 16), (2, 4, 16)) == (0, 8)
    assert windows.page_rows((2, 3, 8, 16), (2, 2, 4, 16)) == (0, 8, 24, 32)


@pytest.mark.parametrize(
    ("of", "at", "dtype", "pieces", "part"),
    [
        ((4, 8, 16), (1, 3, 8), DType.FP32, True, True),
        ((4, 8, 16), (1, 3, 8), DType.FP16, False, False),
        ((4, 8, 16), (V, V, 0), DType.FP16, True, True),
        ((4, 8, 16), (0, 0, Binary("mul", V, index(8))), DType.FP32, True, True),
        ((4, 8, 16), (0, 0, V), DType.FP32, False, False),
        # page 1 starts at byte 72
        ((4, 3, 6), (1, 0, 0), DType.FP32, False, True),
        ((4, 4, 6), (1, 0, 0), DType.FP32, True, True),
    ],
)
def test_pieces_start_at_multiples_of_32_bytes(of: Shape, at: tuple[int | Expr, ...], dtype: DType, pieces: bool, part: bool) -> None:
    w = window(of, (2, 1, 1), at, dtype)
    assert windows.starts_aligned(w, windows.page_rows(of, w.box)) is pieces
    assert windows.part_aligned(w) is part


def test_window_of_full_height_in_one_page_of_an_accumulator_stands_among_its_columns() -> None:
    found = windows.column_of(window((2, 16, 32), (1, 16, 16), (V, 0, 16), memory=Memory.ACC))
    assert found is not None and [v.name for v in variables(found)] == ["v"]
    for box, at in (((2, 16, 16), (0, 0, 0)), ((1, 8, 16), (0, 8, 0))):
        assert windows.column_of(window((2, 16, 32), box, at, memory=Memory.ACC)) is None
    assert windows.column_of(window((2, 16, 32), (1, 16, 16), (0, 0, 0))) is None
