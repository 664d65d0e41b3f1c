"""Optimising random programs: legal, equal, readable, stable and never dearer, or refused with a reason."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pypto_ir.json_writer import write_program
from pypto_ir.ops.registry import Trait, all_ops
from pypto_ir.stmt import Assign, Block, Call, For, If, Program, Stmt, While, walk
from pypto_ir.types import TileType
from tests.generators import Failure, check, random_program
from tests.generators import property as promises
from tests.generators.property import accepted

EXAMPLES = 500
#: about the most statements of a function: these runs are short, long ones are for `benchmarks.fuzz`
STATEMENTS = 7
#: programs of the test of what the generator covers, and least part of them that is not refused
SAMPLE, LOWERED = 30, 0.6

#: ops that want whole blocks of pairs, which random tiles seldom are
SORTING = {"tile.sort32", "tile.mrgsort_format1"}


@given(st.randoms(use_true_random=False))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
def test_a_random_program_is_lowered_as_promised_or_refused_with_a_reason(source: random.Random) -> None:
    check(random_program(source, STATEMENTS))


def test_most_random_programs_are_lowered_and_compared_by_running_them() -> None:
    outcomes = [check(random_program(random.Random(seed), STATEMENTS)) for seed in range(1000, 1000 + SAMPLE)]
    lowered = [o for o in outcomes if not o.refused]
    assert len(lowered) >= LOWERED * SAMPLE, Counter(code for o in outcomes for code in o.codes)
    assert sum(o.ran for o in lowered) >= 0.9 * sum(o.changed for o in lowered) > 0.5 * len(lowered)


def _statements(seeds: range) -> list[Stmt]:
    return [s for seed in seeds for f in random_program(random.Random(seed)).functions for s in walk(f.body)]


def test_random_programs_are_accepted_by_the_verifiers_and_the_same_for_a_seed() -> None:
    for seed in range(200):
        program = random_program(random.Random(seed))
        assert not accepted(program)
        assert write_program(program) == write_program(random_program(random.Random(seed)))


def test_random_programs_hold_every_elementwise_and_row_wise_op_all_ranks_and_all_regions() -> None:
    statements = _statements(range(800))
    used = Counter(s.value.op for s in statements if isinstance(s, Assign) and isinstance(s.value, Call))
    wanted = {
        op.name for op in all_ops()
        if op.trait in (Trait.POINTWISE, Trait.ROW_WISE)
        and op.name.startswith("tile.") and op.meaning is not None
    }  # fmt: skip
    structure = (
        "load", "store", "create", "full", "slice", "assemble", "reshape", "reinterpret_view",
        "set_validshape", "transpose", "matmul", "matmul_acc", "read", "write", "fillpad", "fillpad_inplace",
    )  # fmt: skip
    wanted |= {f"tile.{name}" for name in structure} | {"tensor.read"}
    assert not wanted - set(used) - SORTING
    assert {type(s) for s in statements} >= {For, While, If}
    types = [s.target.type for s in statements if isinstance(s, Assign) and isinstance(s.target.type, TileType)]
    assert {t.rank for t in types} == {1, 2, 3, 4, 5}
    assert any(t.valid != t.shape for t in types)


#: ops that may be taken for one another without a complaint of the verifiers
WRONG = {
    "tile.add": "tile.sub",
    "tile.adds": "tile.muls",
    "tile.exp": "tile.neg",
    "tile.row_max": "tile.row_sum",
}


def _miscompiled(block: Block) -> Block:
    return tuple(
        replace(s, value=replace(s.value, op=WRONG.get(s.value.op, s.value.op)))
        if isinstance(s, Assign) and isinstance(s.value, Call)
        else s
        for s in block
    )


def test_a_result_that_computes_something_else_breaks_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = promises.optimize

    def wrong(program: Program, **options: Any) -> Any:
        result = honest(program, **options)
        functions = tuple(replace(f, body=_miscompiled(f.body)) if f.in_core else f for f in result.program.functions)
        result.program = replace(result.program, functions=functions)
        return result

    monkeypatch.setattr(promises, "optimize", wrong)
    caught = Counter[str]()
    for seed in range(15):
        try:
            check(random_program(random.Random(seed)))
        except Failure as failure:
            caught[failure.kind] += 1
    assert caught["equality"] + caught["stated-cost"] + caught["idempotence"] > 0
