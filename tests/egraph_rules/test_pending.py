"""Factors of products on their way: loads that name no memory go to L1, transposes there are views; what is read otherwise stays."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, calls, incore, let, lowered, main, out, refused, ret, store, tensor, types

from egraph_rules.pending import into_l1
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Severity
from pypto_ir.stmt import Program
from pypto_ir.types import Memory
from pypto_ir.verify import verify_program


def load(name: str, source: str, shape: list[int]) -> Json:
    return let(name, "tile.load", source, [0] * len(shape), shape, shape)


def product(*steps: Json, left: str = "a", right: str = "b", **options: Any) -> Program:
    """[2, 16, 64] times [2, 64, 32] with steps between the loads and the product."""
    return incore(
        [
            tensor("x", 2, 16, 64, dtype="FP16"),
            tensor("y", 2, 64, 32, dtype="FP16"),
            out("out_0", 2, 16, 32),
            out("more", 2, 16, 64, dtype="FP16"),
        ],
        [
            load("a", "x", [2, 16, 64]),
            load("b", "y", [2, 64, 32]),
            *steps,
            let("p", "tile.batch_matmul", left, right),
            store("out_1", "p", [0, 0, 0], "out_0"),
            ret("out_1", "more"),
        ],
        **options,
    )


def spaces(p: Program) -> dict[str, Memory | None]:
    made = into_l1(main(p))
    changed = Program(p.name, (made,), p.target)
    assert not [d for d in verify_program(changed) if d.severity is Severity.ERROR]
    return {name: t.memory for name, t in types(changed).items()}


def test_loads_of_factors_go_to_l1_with_their_keyword() -> None:
    before = product()
    assert [spaces(before)[name] for name in "ab"] == [Memory.MAT] * 2
    after = lowered(before, dearer=True)
    assert [call.kwarg("target_memory") for call in calls(after, "tile.load")] == ["Mat"] * 2
    assert optimize(before, policy_cost=True).stats["cost"] <= optimize(before, policy="upstream").stats["cost"] * (1 + 1e-9)


@pytest.mark.parametrize(
    "steps",
    [
        (let("r", "tile.reshape", "a", [2, 1, 16, 64]), let("l", "tile.reshape", "r", [2, 16, 64])),
        (let("l", "tile.slice", "a", [2, 16, 64], [0, 0, 0]),),
        ({"let": "l", "expr": "a"},),
    ],
    ids=["batch dims", "window", "name"],
)
def test_what_a_load_is_seen_as_goes_with_it(steps: tuple[Json, ...]) -> None:
    found = spaces(product(*steps, left="l"))
    assert found["a"] is found["l"] is Memory.MAT


@pytest.mark.parametrize(
    "steps",
    [
        (store("m", "a", [0, 0, 0], "more"),),
        (let("e", "tile.exp", "a"), store("m", "e", [0, 0, 0], "more")),
        (let("r", "tile.reshape", "a", [2, 16, 64]), store("m", "r", [0, 0, 0], "more")),
    ],
    ids=["stored", "computed with", "seen otherwise and stored"],
)
def test_load_that_is_read_otherwise_stays_as_it_is(steps: tuple[Json, ...]) -> None:
    found = spaces(product(*steps))
    assert (found["a"], found["b"]) == (None, Memory.MAT)


def test_reshape_that_cuts_pages_otherwise_keeps_a_load_where_it_is() -> None:
    found = spaces(product(let("l", "tile.reshape", "b", [2, 16, 128]), let("k", "tile.reshape", "l", [2, 64, 32]), right="k"))
    assert (found["a"], found["b"]) == (Memory.MAT, None)


def test_function_without_open_loads_is_the_same_object() -> None:
    before = main(lowered(product(), dearer=True))
    assert into_l1(before) is before


# transposes in L1


def in_l1(name: str, source: str, shape: list[int], valid: list[int] | None = None) -> Json:
    return let(name, "tile.load", source, [0] * len(shape), shape, valid or shape, target_memory="Mat")


def turned(*steps: Json, right: str = "b", results: tuple[str, ...] = ("out_1",), **options: Any) -> Program:
    """[2, 16, 64] times what steps make of w [2, 32, 64], or of one page of it, in L1."""
    w = options.pop("w", [2, 32, 64])
    return incore(
        [
            tensor("x", 2, 16, 64, dtype="FP16"),
            tensor("y", *w, dtype="FP16"),
            out("out_0", 2, 16, 32),
            out("more", 2, 64, 32, dtype="FP16"),
        ],
        [
            in_l1("a", "x", [2, 16, 64]),
            options.pop("load", in_l1("w", "y", w)),
            *steps,
            let("p", "tile.batch_matmul", "a", right),
            store("out_1", "p", [0, 0, 0], "out_0"),
            ret("out_1", "more"),
        ],
        **options,
    )


TURN = let("b", "tile.transpose", "w", -1, -2)


@pytest.mark.parametrize(
    ("before", "views"),
    [
        (turned(TURN), 1),
        (turned(let("b", "tile.transpose", "w", 0, 1), w=[32, 64]), 1),
        (turned(TURN, load=load("w", "y", [2, 32, 64])), 1),
        (turned(TURN, let("c", "tile.slice", "b", [2, 64, 32], [0, 0, 0]), right="c"), 1),
        (turned(let("t", "tile.transpose_view", "w"), let("u", "tile.transpose", "t", 1, 2), let("b", "tile.transpose", "u", 1, 2)), 1),
    ],
    ids=["pages", "E1: one matrix", "a load that names no memory", "a window", "twice"],
)
def test_factor_that_is_transposed_in_l1_is_seen_transposed(before: Program, views: int) -> None:
    after = lowered(before, dearer=True)
    assert not calls(after, "tile.transpose") and len(calls(after, "tile.transpose_view")) >= views


@pytest.mark.parametrize(
    "before",
    [
        turned(TURN, store("m", "b", [0, 0, 0], "more")),
        turned(TURN, load=in_l1("w", "y", [2, 32, 64], [2, 9, 64])),
    ],
    ids=["stored too", "cut"],
)
def test_tile_that_is_transposed_in_l1_for_others_or_in_part_is_refused(before: Program) -> None:
    assert [d.code for d in refused(before, "tile.transpose: b", "no unit does", "tile.transpose_view").diagnostics] == ["L108"]


def test_pages_in_l1_change_places_without_being_moved() -> None:
    before = incore(
        [tensor("x", 2, 3, 16, 64, dtype="FP16"), tensor("y", 64, 32, dtype="FP16"), out("out_0", 3, 2, 16, 32)],
        [
            in_l1("w", "x", [2, 3, 16, 64]),
            let("a", "tile.transpose", "w", 0, 1),
            in_l1("b", "y", [64, 32]),
            let("p", "tile.batch_matmul", "a", "b"),
            store("out_1", "p", [0, 0, 0, 0], "out_0"),
            ret("out_1"),
        ],
    )
    after = lowered(before, dearer=True)
    assert not calls(after, "tile.transpose") and not calls(after, "tile.assemble")
