"""Loads that name no memory: those that feed batched products only go to L1, all others stay as they are."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, calls, incore, let, lowered, main, out, ret, store, tensor, types

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
