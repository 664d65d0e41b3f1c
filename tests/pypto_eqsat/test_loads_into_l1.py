"""Factors of batched products on their way into L1, by default: every load reads one matrix, or boxes as they lie (`spec/hardware.md` 4.7),
and what was loaded is not copied there (`spec/flatten.md` 9)."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, calls, incore, ints, let, load, lowered, main, out, refused, ret, scalar, store, tensor

from pypto_eqsat.driver import optimize
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.ops.registry import type_of
from pypto_ir.stmt import Program
from pypto_ir.types import Layout, TensorType
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


def test_a_window_of_a_window_of_a_load_is_a_load_of_its_own() -> None:
    cut = [
        mat("w", "x", [4, 32, 64]),
        let("v", "tile.slice", "w", [2, 32, 64], [1, 0, 0]),
        let("a", "tile.slice", "v", [2, 16, 64], [0, 16, 0]),
        mat("b", "y", [2, 64, 32]),
    ]
    after = lowered(product(half("x", 4, 32, 64), half("y", 2, 64, 32), *cut), dearer=True)
    assert [ints(c, 1) for c in calls(after, "tile.load") if ints(c, 2) == [16, 64]] == [[48, 0], [80, 0]]
    assert not impossible(main(after))


def test_a_window_of_a_transposed_view_is_the_view_of_a_load() -> None:
    cut = [mat("w", "y", [2, 64, 64]), let("t", "tile.transpose_view", "w"), let("b", "tile.slice", "t", [2, 64, 32], [0, 0, 32])]
    after = lowered(product(half("x", 2, 16, 64), half("y", 2, 64, 64), mat("a", "x", [2, 16, 64]), *cut), dearer=True)
    assert [ints(c, 1) for c in calls(after, "tile.load") if ints(c, 2) == [32, 64] and ints(c, 1) != [0, 0]] == [[32, 0], [96, 0]]
    assert not impossible(main(after))


def test_rows_that_a_tensor_holds_of_its_window_are_asked_for_as_the_tile_has_them() -> None:
    """Of a tensor [v, 16, 64] the window holds min(v, 2) pages, and its view min(16 * v, 32) rows: the program can be read again."""
    before = incore(
        [scalar("v", range=(2, 4)), half("x", 4, 16, 64, valid=["v", 16, 64]), half("y", 2, 64, 32), out("out", 2, 16, 32)],
        [
            mat("a", "x", [2, 16, 64]),
            mat("b", "y", [2, 64, 32]),
            let("p", "tile.batch_matmul", "a", "b"),
            store("o", "p", [0, 0, 0], "out"),
            ret("o"),
        ],
    )
    for policy in ("cheapest", "upstream"):
        after = optimize(before, policy=policy).program
        assert read_program(write_program(after)) == after and not impossible(main(after))


# tensors that lie column by column


def seen(p: Program) -> list[tuple[list[int | None], list[int | None]]]:
    """Offsets and windows of the loads from tensors that lie column by column."""
    sources = [(call, type_of(call.args[0])) for call in calls(p, "tile.load")]
    return [(ints(c, 1), ints(c, 2)) for c, t in sources if isinstance(t, TensorType) and t.layout is Layout.DN]


DN: Json = {"layout": "DN"}


@pytest.mark.parametrize("stride", [{}, {"stride": [2048, 1, 128]}], ids=["packed", "strides given"])
def test_pages_side_by_side_in_a_dn_tensor_are_one_load(stride: Json) -> None:
    """B10: the view has the column stride of the tensor, 128, and not that of all rows of its pages."""
    y = half("y", 2, 128, 16, **DN, **stride)
    after = lowered(
        product(half("x", 16, 32), y, mat("a", "x", [16, 32]), mat("b", "y", [2, 32, 16], [0, 64, 0]), shape=(2, 16, 16)), dearer=True
    )
    assert seen(after) == [([64, 0], [32, 32])] and len(calls(after, "tile.matmul")) == 1
    assert not impossible(main(after))


def test_transposed_pages_of_a_dn_tensor_are_rows_of_one_factor() -> None:
    turned = [mat("t", "x", [2, 2, 64, 16]), let("a", "tile.transpose_view", "t"), mat("b", "y", [64, 32])]
    after = lowered(product(half("x", 2, 2, 64, 16, **DN), half("y", 64, 32), *turned, shape=(2, 2, 16, 32)), dearer=True)
    assert seen(after) == [([0, 0], [64, 64])] and len(calls(after, "tile.matmul")) == 1


@pytest.mark.parametrize(
    ("more", "window"),
    [({"stride": [4096, 1, 64]}, 16), ({"valid": [2, 64, 9]}, 16), ({}, 8)],
    ids=["gaps between pages", "a part is valid", "part of a page"],
)
def test_pages_of_a_dn_tensor_that_are_no_run_of_columns_are_loaded_one_by_one(more: Json, window: int) -> None:
    loads = [mat("a", "x", [2, 16, 64]), mat("b", "y", [2, 64, window])]
    before = product(half("x", 2, 16, 64), half("y", 2, 64, 16, **DN, **more), *loads, shape=(2, 16, window))
    after = lowered(before, dearer=True)
    assert seen(after) == [([b, 0, 0], [1, 64, window]) for b in range(2)]
