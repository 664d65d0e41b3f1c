"""A function whose cheapest choice does not fit its memories gets the next cheapest that does."""

from __future__ import annotations

from random import Random

import pytest
from helpers import incore, let, load, lowered, ops, out, refused, ret, store, tensor

from extract.effort import ChoiceLimits
from extract.lower import lower
from extract.target import load_target
from pypto_ir.diagnostics import Refused
from pypto_ir.stmt import Program
from tests.generators import random_batched


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


#: a program of which some 200 choices are cheaper than the first that fits
LATE = 50_190


def test_program_of_which_many_cheaper_choices_do_not_fit_is_found_in_time() -> None:
    function = random_batched(Random(LATE), near=True).functions[0]
    found = lower(function, load_target("ascend950"))
    assert found.allocation.fits and found.limit is None and found.lower_bound == found.cost


def test_refusal_tells_of_the_limit_that_ended_the_search_for_what_fits() -> None:
    function = random_batched(Random(LATE), near=True).functions[0]
    with pytest.raises(Refused) as caught:
        lower(function, load_target("ascend950"), choice_limits=ChoiceLimits(0.2, clock=60.0))
    assert {d.code for d in caught.value.diagnostics} == {"M001"}
    assert "it stopped at the seconds of the choice, and what was not tried may fit" in str(caught.value)
    # nothing more could be tried here
    assert "raise the limit" not in str(refused(exponential(2, 512, 128)))
