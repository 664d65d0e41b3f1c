"""Random programs under `--policy upstream`, and the cost of the default beside that of a legal upstream lowering."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from helpers import kernel
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pypto_eqsat.driver import Result, optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.interp.compare import equivalent
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Program
from pypto_ir.verify import linearity, tile_ops_2d, verify_program
from tests.generators import random_batched, random_program

EXAMPLES = 60
#: about the most statements of a function
STATEMENTS = 7
KERNELS = (
    "add_3d", "assemble_pages", "batch_acc_k_loop", "broadcast_bmm", "expert_gate", "kv_cache_write", "mx_expert", "one_fits_bmm",
    "q_proj_4d", "rmsnorm_4d", "row_windows", "softmax_tail_4d",
)  # fmt: skip

SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def as_upstream(program: Program) -> Result | None:
    """The program as upstream lowers it, legal and equal to its input; None where upstream refuses it, with codes of the pass."""
    try:
        result = optimize(program, policy="upstream", validate=False)
    except Refused as refused:
        errors = [d.code for d in refused.diagnostics if not d.code.startswith("W")]
        assert errors and all(code in ("L001", "M001", "V202", "V203") or code.startswith("L4") for code in errors), str(refused)
        return None
    after = result.program
    assert not [d for d in verify_program(after) if d.severity.value == "error"]
    assert not [d for f in after.functions if f.in_core for d in (*tile_ops_2d(f), *linearity(f))]
    verdict = equivalent(program, after, seeds=range(2), seconds=1.0)
    assert verdict.equal, str(verdict.difference)
    assert read_program(write_program(after)) == after
    return result


@given(st.randoms(use_true_random=False))
@SETTINGS
def test_random_program_is_lowered_rightly_or_refused(source: random.Random) -> None:
    as_upstream(random_program(source, STATEMENTS))


@given(st.randoms(use_true_random=False))
@SETTINGS
def test_random_batched_program_is_lowered_rightly_or_refused(source: random.Random) -> None:
    as_upstream(random_batched(source))


def test_batched_programs_are_well_typed_the_same_for_a_seed_and_mostly_lowered() -> None:
    outcomes = Counter[str]()
    for seed in range(60):
        program = random_batched(random.Random(seed))
        assert not [d for d in verify_program(program) if d.severity.value == "error"]
        assert write_program(program) == write_program(random_batched(random.Random(seed)))
        try:
            result = optimize(program, policy="upstream", validate=False, policy_cost=True)
        except Refused as refused:
            outcomes.update({d.code for d in refused.diagnostics})
            continue
        outcomes["lowered"] += 1
        outcomes["compared"] += result.stats["policy_cost"] is not None
    assert outcomes["lowered"] >= 30 and outcomes["compared"] >= 20, outcomes
    assert outcomes["L425"] and outcomes["L426"]


def no_dearer(program: Program) -> bool:
    """The default costs no more than a legal upstream lowering; False where there is none, or no default."""
    try:
        stats = optimize(program, validate=False, policy_cost=True).stats
    except Refused:
        return False
    if stats["policy_cost"] is None:
        assert stats["policy_reason"]
        return False
    assert stats["cost"] <= stats["policy_cost"] * (1 + 1e-9), (stats["cost"], stats["policy_cost"])
    return True


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
def test_default_costs_no_more_than_upstream_on_the_kernels(name: str, target: str) -> None:
    try:
        stats = optimize(kernel(name), target=target, validate=False, policy_cost=True).stats
    except Refused as refused:
        assert name == "mx_expert" and target == "ascend910b", str(refused)
        return
    assert stats["policy_cost"] is not None, stats["policy_reason"]
    assert stats["cost"] <= stats["policy_cost"] * (1 + 1e-9)


def test_default_costs_no_more_than_upstream_on_random_programs() -> None:
    compared = sum(no_dearer(random_program(random.Random(seed), STATEMENTS)) for seed in (*range(30), 1301, 1899))
    assert compared >= 10


def test_default_costs_no_more_than_upstream_on_random_batched_programs() -> None:
    assert sum(no_dearer(random_batched(random.Random(seed))) for seed in range(20)) >= 7


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_many_random_programs_cost_no_more_than_upstream(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        no_dearer(random_program(random.Random(seed), STATEMENTS))
        no_dearer(random_batched(random.Random(seed)))
        as_upstream(random_batched(random.Random(10_000 + seed)))
