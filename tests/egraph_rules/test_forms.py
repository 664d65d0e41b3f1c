"""Shapes and types of carriers in numbers."""

from __future__ import annotations

from itertools import product

import pytest
from building import Shape

from egraph_rules import forms
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, index
from pypto_ir.types import Memory, TileLayout, TileType, TileView, dims, scalar_var, tile_type

V = scalar_var("v")


def tile(shape: Shape, valid: tuple[int | Expr, ...] | None = None) -> TileType:
    view = TileView(valid=dims(*valid)) if valid else None
    return tile_type(dims(*shape), DType.FP32, Memory.VEC, view)


@pytest.mark.parametrize(
    ("shape", "collapsed", "lead", "page", "batch", "pages"),
    [
        ((8,), (8,), 1, (8,), (), 1),
        ((6, 4), (6, 4), 6, (6, 4), (), 1),
        ((2, 3, 4), (6, 4), 6, (3, 4), (2,), 2),
        ((2, 1, 3, 4), (6, 4), 6, (3, 4), (2,), 2),
        ((2, 3, 1, 16, 64), (96, 64), 96, (16, 64), (2, 3), 6),
    ],
)
def test_shape_arithmetic(shape: Shape, collapsed: Shape, lead: int, page: Shape, batch: Shape, pages: int) -> None:
    assert forms.collapsed(shape) == collapsed
    assert (forms.lead(shape), forms.page(shape), forms.batch(shape), forms.pages(shape)) == (
        lead,
        page,
        batch,
        pages,
    )


@pytest.mark.parametrize(
    ("valid", "prefix", "even", "whole"),
    [
        (None, True, True, True),
        ((1, 3, 8), True, False, False),
        ((1, 2, 8), True, False, False),
        ((1, V, 8), True, False, False),
        ((2, 2, 8), False, True, False),
        ((2, V, 8), False, True, False),
        ((2, 3, 5), True, True, False),
        ((1, 2, 5), True, False, False),
    ],
)
def test_facts_of_valid_regions(valid: tuple[int | Expr, ...] | None, prefix: bool, even: bool, whole: bool) -> None:
    t = tile((2, 3, 8), valid)
    assert (forms.rows_prefix(t), forms.even_pages(t), forms.whole(t)) == (prefix, even, whole)


@pytest.mark.parametrize("shape", [(2, 3, 8), (1, 3, 8), (3, 1, 8), (1, 1, 8), (2, 1, 3, 8), (1, 2, 2, 8), (2, 1, 1, 8)], ids=str)
def test_regions_are_prefixes_where_their_rows_are_the_first_of_the_collapse(shape: Shape) -> None:
    for valid in product(*(range(d + 1) for d in shape[:-1]), (0, 5)):
        numbers = [i for i, at in enumerate(product(*map(range, shape[:-1]))) if all(a < v for a, v in zip(at, valid[:-1], strict=True))]
        empty = valid[-1] == 0
        assert forms.rows_prefix(tile(shape, valid)) == (empty or numbers == [*range(len(numbers))]), valid


def test_axes_of_one_are_all_there_or_not_at_all() -> None:
    assert forms.rows_prefix(tile((1, 3, 8), (V, V, 8))) and not forms.rows_prefix(tile((2, 3, 8), (V, V, 8)))
    assert forms.region(tile((1, 3, 8), (V, 2, 8))) == forms.region(tile((3, 8), (Binary("mul", index(2), V), 8)))


def test_region_is_in_normal_form() -> None:
    a, b = tile((1, 16, 8), (1, V, 8)), tile((1, 16, 8), (1, Binary("add", V, index(0)), 8))
    assert forms.region(a) == forms.region(b) == (V, index(8))


def test_flat_type_keeps_layout_and_drops_stride() -> None:
    view = TileView(valid=dims(1, V, 8), stride=dims(24, 8, 1), blayout=TileLayout.COL_MAJOR)
    flat = forms.flat_type(TileType(dims(2, 3, 8), DType.FP32, Memory.VEC, view))
    assert flat.static_shape == (6, 8) and flat.valid == (V, index(8))
    assert flat.effective_view.blayout is TileLayout.COL_MAJOR and not flat.effective_view.stride
    plain = tile((6, 8))
    assert forms.flat_type(plain) is plain


def test_page_type_is_that_of_a_load_of_the_page() -> None:
    assert forms.page_type(tile((2, 3, 8), (2, V, 5))) == tile((3, 8), (V, 5))


@pytest.mark.parametrize(
    ("source", "target", "reads"),
    [
        ((2, 1, 4, 8), (2, 3, 4, 8), [0, 0, 0, 1, 1, 1]),
        ((1, 3, 4, 8), (2, 3, 4, 8), [0, 1, 2, 0, 1, 2]),
        ((3, 4, 8), (2, 3, 4, 8), [0, 1, 2, 0, 1, 2]),
        ((4, 8), (2, 3, 4, 8), [0] * 6),
        ((2, 3, 4, 8), (2, 3, 4, 8), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_pages_that_broadcasting_reads(source: Shape, target: Shape, reads: list[int]) -> None:
    assert [forms.spread_index(n, source, target) for n in range(6)] == reads


def test_unravel_is_row_major() -> None:
    assert [forms.unravel(n, (2, 3)) for n in range(6)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert forms.unravel(0, ()) == ()
