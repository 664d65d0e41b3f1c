"""A function whose cheapest choice does not fit its memories gets the next cheapest that does."""

from __future__ import annotations

import pytest
from helpers import incore, let, load, lowered, ops, out, refused, ret, store, tensor

from pypto_ir.stmt import Program


def exponential(*shape: int) -> Program:
    return incore(
        [tensor("x", *shape), out("out_0", *shape)],
        [
            load("t", "x", [0] * len(shape), list(shape)),
            let("e", "tile.exp", "t"),
            store("o", "e", [0] * len(shape), "out_0"),
            ret("o"),
        ],
    )


def test_tile_that_fits_stays_whole() -> None:
    after = lowered(exponential(4, 16, 64), dearer=True)
    assert ops(after) == ["load", "exp", "store"]


@pytest.mark.parametrize("pages", [4, 8])
def test_tile_that_is_too_large_goes_page_by_page(pages: int) -> None:
    after = lowered(exponential(pages, 96, 128), dearer=True)
    assert ops(after) == ["load", "exp", "store"] * pages


def test_page_that_is_too_large_is_refused_with_the_live_tiles() -> None:
    found = refused(exponential(2, 512, 128))
    assert "M001" in str(found) and "Vec" in str(found)
