"""Optimising keeps its promises on random programs: legal, equal, readable, stable and never dearer, or refused with a reason."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pypto_ir.json_writer import write_program
from pypto_ir.ops.registry import Trait, all_ops
from pypto_ir.stmt import Assign, Call, For, If, Program, While, walk
from pypto_ir.types import TileType
from tests.generators import check, random_program
from tests.generators.property import Failure, accepted

EXAMPLES = 300
#: programs of the test of what the generator covers, and least part of them that is not refused
SAMPLE, LOWERED = 60, 0.6


@given(st.randoms(use_true_random=False))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
def test_a_random_program_is_lowered_as_promised_or_refused_with_a_reason(source: random.Random) -> None:
    check(random_program(source))


def test_most_random_programs_are_lowered_and_compared_by_running_them() -> None:
    outcomes = [check(random_program(random.Random(seed))) for seed in range(1000, 1000 + SAMPLE)]
    lowered = [o for o in outcomes if not o.refused]
    assert len(lowered) >= LOWERED * SAMPLE, Counter(code for o in outcomes for code in o.codes)
    assert sum(o.ran for o in lowered) >= 0.9 * sum(o.changed for o in lowered) > 0.5 * len(lowered)


def _statements(seeds: range) -> list[object]:
    return [s for seed in seeds for f in random_program(random.Random(seed)).functions for s in walk(f.body)]


def test_random_programs_are_accepted_by_the_verifiers_and_the_same_for_a_seed() -> None:
    for seed in range(200):
        program = random_program(random.Random(seed))
        assert not accepted(program)
        assert write_program(program) == write_program(random_program(random.Random(seed)))


def test_random_programs_hold_every_elementwise_and_row_wise_op_all_ranks_and_all_regions() -> None:
    statements = _statements(range(2500))
    used = Counter(s.value.op for s in statements if isinstance(s, Assign) and isinstance(s.value, Call))
    wanted = {
        op.name for op in all_ops()
        if op.trait in (Trait.POINTWISE, Trait.ROW_WISE) and op.name.startswith("tile.") and op.meaning is not None
    }  # fmt: skip
    structure = ("load", "store", "create", "full", "slice", "assemble", "reshape", "reinterpret_view", "set_validshape",
                 "transpose", "matmul", "matmul_acc", "read", "write", "fillpad", "fillpad_inplace")  # fmt: skip
    wanted |= {f"tile.{name}" for name in structure} | {"tensor.read"}
    assert not wanted - set(used)
    assert {type(s) for s in statements} >= {For, While, If}
    types = [s.target.type for s in statements if isinstance(s, Assign) and isinstance(s.target.type, TileType)]
    assert {t.rank for t in types} == {1, 2, 3, 4, 5}
    assert any(t.valid != t.shape for t in types)


def test_a_broken_promise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that computes something else fails the check, so that a pass means something."""
    from dataclasses import replace

    from tests.generators import property as promises

    def wrong(program: Program, **options: object) -> object:
        result = honest(program, **options)
        functions = tuple(
            replace(f, body=tuple(_other(s) for s in f.body)) if f.in_core else f for f in result.program.functions
        )
        result.program = replace(result.program, functions=functions)
        return result

    honest = promises.optimize
    monkeypatch.setattr(promises, "optimize", wrong)
    caught = Counter[str]()
    for seed in range(12):
        try:
            check(random_program(random.Random(seed)))
        except Failure as failure:
            caught[failure.kind] += 1
    assert caught


def _other(s: object) -> object:
    from dataclasses import replace

    if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.load":
        return replace(s, value=replace(s.value, op="tile.load", args=(*s.value.args[:1], s.value.args[1], *s.value.args[2:])))
    if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.add":
        return replace(s, value=replace(s.value, op="tile.sub"))
    if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.adds":
        return replace(s, value=replace(s.value, op="tile.muls"))
    return s
