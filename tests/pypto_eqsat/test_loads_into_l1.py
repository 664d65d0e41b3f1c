"""Factors of batched products on their way into L1, by default: every load reads one matrix, or boxes as they lie (`spec/hardware.md` 4.7),
and what was loaded is not copied there (`spec/flatten.md` 9)."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, calls, incore, let, load, lowered, main, out, refused, ret, store, tensor

from pypto_ir.stmt import Program
from tests.generators.ways_into_l1 import impossible


def half(name: str, *shape: Any, **more: Any) -> Json:
    return tensor(name, *shape, dtype="FP16", **more)


def mat(name: str, source: str, shape: list[int], at: list[Any] | None = None) -> Json:
    return load(name, source, at or [0] * len(shape), shape, memory="Mat")


def product(x: Json, y: Json, *body: Json, shape: tuple[int, ...] = (2, 16, 32), **options: Any) -> Program:
    """What makes the factors a and b of tensors x and y, their product, and its store."""
    end = [let("p", "tile.batch_matmul", "a", "b"), store("o", "p", [0] * len(shape), "out"), ret("o")]
    return incore([x, y, out("out", *shape)], [*body, *end], **options)


@pytest.mark.parametrize("layout", ["ND", "NZ", "DN"])
def test_transposed_pages_are_not_copied_into_one_factor(layout: str) -> None:
    turned = [mat("t", "x", [2, 64, 16]), let("a", "tile.transpose_view", "t"), mat("b", "y", [64, 32])]
    after = lowered(product(half("x", 2, 64, 16, layout=layout), half("y", 64, 32), *turned), dearer=True)
    assert not impossible(main(after))


def test_pages_that_are_no_run_of_rows_are_not_put_together_in_l1() -> None:
    pages = [mat("w", "x", [2, 16, 64], [0, 16, 64]), let("a", "tile.reshape", "w", [32, 64]), mat("b", "y", [64, 32])]
    before = product(half("x", 2, 48, 128), half("y", 64, 32), *pages, shape=(32, 32))
    found = refused(before, "tile.reshape: a [32, 64]", "nothing copies from L1 to L1", "load what is multiplied as one tile")
    assert [d.code for d in found.diagnostics] == ["L107"]


def test_a_tile_in_l1_is_not_written_into_another() -> None:
    written = [mat("w", "x", [2, 32, 64]), mat("v", "x", [2, 16, 64]), let("a", "tile.assemble", "w", "v", [0, 16, 0])]
    before = product(half("x", 2, 32, 64), half("y", 64, 32), *written, mat("b", "y", [64, 32]), shape=(2, 32, 32))
    assert [d.code for d in refused(before, "tile.assemble: a [2, 32, 64]", "parts of v, w").diagnostics] == ["L107"]


def test_whole_pages_that_are_written_in_l1_are_taken_from_where_they_were_loaded() -> None:
    written = [mat("w", "x", [2, 16, 64]), mat("v", "x", [1, 16, 64], [2, 0, 0]), let("a", "tile.assemble", "w", "v", [1, 0, 0])]
    after = lowered(product(half("x", 3, 16, 64), half("y", 64, 32), *written, mat("b", "y", [64, 32])), dearer=True)
    assert not impossible(main(after))
    assert not calls(after, "tile.assemble")
