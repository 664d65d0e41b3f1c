"""The library entry: statistics, limits, targets, and that a wrong program never leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import (
    assert_equal_runs,
    calls,
    checked,
    cost,
    function,
    incore,
    kernel,
    let,
    load,
    loop,
    lowered,
    main,
    ops,
    out,
    program,
    refused,
    ret,
    scalar,
    store,
    tensor,
)

from egraph_rules.catalogue import rules
from extract.legal import is_two_d
from pypto_eqsat import driver
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused, Severity
from pypto_ir.expr import Const, Var
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Assign, Call, Function, Program

ROOT = Path(__file__).parents[2]
KEYS = [
    "cost",
    "input_cost",
    "lower_bound",
    "gap",
    "proof",
    "policy_cost",
    "policy_reason",
    "validated",
    "seconds",
    "egraph",
    "rules_fired",
    "functions",
    "mx",
]


def added(op: str = "tile.exp", **options: Any) -> Program:
    return incore(
        [tensor("x", 2, 3, 8), out("out_0", 2, 3, 8)],
        [
            load("t", "x", [0, 0, 0], [2, 3, 8]),
            let("y", op, "t"),
            store("o", "y", [0, 0, 0], "out_0"),
            ret("o"),
        ],
        **options,
    )


# statistics


@pytest.mark.parametrize("name", ["add_3d", "softmax_tail_4d", "mx_expert"])
def test_statistics_have_exactly_the_promised_keys_and_are_json(name: str) -> None:
    result = optimize(kernel(name))
    stats = result.stats
    assert list(stats) == KEYS
    assert set(stats["egraph"]) == {"classes", "nodes", "iterations"}
    assert all(isinstance(n, int) and n > 0 for n in stats["egraph"].values())
    assert json.loads(json.dumps(stats, allow_nan=False)) == stats


@pytest.mark.parametrize("name", ["add_3d", "rmsnorm_4d", "kv_cache_write", "mx_expert"])
def test_costs_in_the_statistics_are_those_of_the_programs(name: str) -> None:
    before = kernel(name)
    stats = optimize(before).stats
    assert stats["input_cost"] == pytest.approx(cost(before))
    assert 0 < stats["lower_bound"] <= stats["cost"] <= stats["input_cost"]
    assert stats["gap"] == pytest.approx(1 - stats["lower_bound"] / stats["cost"], abs=1e-9)
    assert stats["proof"] == ("optimal" if stats["gap"] < 1e-9 else "bounded")
    assert stats["cost"] == pytest.approx(sum(f["cost"] for f in stats["functions"].values()))


def test_rules_that_fired_are_named_as_in_the_catalogue() -> None:
    fired = optimize(kernel("rmsnorm_4d")).stats["rules_fired"]
    assert {"flat.load", "flat.op", "store.flat"} <= set(fired)
    assert all(isinstance(n, int) and n > 0 for n in fired.values())
    assert list(fired) == sorted(fired)
    known = {part for rule in rules() for part in (rule.name, *rule.parts)}
    assert set(fired) <= known


def test_seconds_are_given_by_phase_and_add_up() -> None:
    seconds = optimize(added()).stats["seconds"]
    assert {"verify", "saturate", "choose", "emit", "price", "validate", "total"} <= set(seconds)
    assert all(spent >= 0 for spent in seconds.values())
    assert sum(spent for phase, spent in seconds.items() if phase != "total") <= seconds["total"] + 1e-3


def test_statistics_of_functions_name_those_in_core_only() -> None:
    body = [load("t", "x", [0, 0, 0], [2, 3, 8]), store("o", "t", [0, 0, 0], "out_0"), ret("o")]
    params = [tensor("x", 2, 3, 8), out("out_0", 2, 3, 8)]
    p = program(function("a", params, body), function("b", params, body, kind="Group"))
    result = optimize(p)
    assert set(result.stats["functions"]) == {"a"}
    assert result.stats["functions"]["a"]["changed"] is True


def test_program_without_in_core_functions_costs_nothing() -> None:
    before = added(kind="Orchestration")
    result = optimize(before)
    assert result.program is before
    assert (result.stats["cost"], result.stats["gap"], result.stats["proof"]) == (0, 0.0, "optimal")


# validation


def test_validation_says_what_it_ran() -> None:
    validated = optimize(kernel("add_3d"), validate_seconds=5.0).stats["validated"]
    assert validated["equal"] is True
    (covered,) = validated["functions"].values()
    assert covered["complete"] is True
    assert {run["seed"] for run in covered["runs"]} == {0, 1, 2, 3}


def test_validate_false_skips_interpretation_and_says_so() -> None:
    checked_run, skipped = optimize(added()), optimize(added(), validate=False)
    assert skipped.program == checked_run.program
    assert skipped.stats["validated"] == {"equal": None, "skipped": True}
    assert "validate" not in skipped.stats["seconds"]


def test_validation_within_a_tiny_budget_still_runs_every_function_once() -> None:
    result = optimize(kernel("rmsnorm_4d"), validate_seconds=0.2)
    assert all(f["runs"] for f in result.stats["validated"]["functions"].values())
    assert result.stats["seconds"]["validate"] < 5


def _forged(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    real = driver.lower

    def forge(*args: Any, **kwargs: Any) -> Any:
        item = real(*args, **kwargs)
        item.function = change(item.function)
        return item

    monkeypatch.setattr(driver, "lower", forge)


def _with_op(f: Function, old: str, new: str) -> Function:
    def changed(s: Any) -> Any:
        if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == old:
            return replace(s, value=replace(s.value, op=new))
        return s

    return replace(f, body=tuple(map(changed, f.body)))


def test_program_that_computes_other_values_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    _forged(monkeypatch, lambda f: _with_op(f, "tile.exp", "tile.neg"))
    refusal = refused(added(), "before and", "report it with the input program")
    assert [d.code for d in refusal.diagnostics] == ["X004"]


def test_program_that_the_verifier_refuses_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    _forged(monkeypatch, lambda f: replace(f, body=f.body[1:]))
    refusal = refused(added())
    assert {d.code for d in refusal.diagnostics} == {"X003"}


def test_nd_program_never_leaves_as_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    before = added()
    _forged(monkeypatch, lambda f: replace(f, body=main(before).body))
    refusal = refused(before, "[2, 3, 8]", validate=False)
    assert {d.code for d in refusal.diagnostics} == {"X003"}


# limits


@pytest.mark.parametrize("name", ["add_3d", "assemble_pages", "softmax_tail_4d", "kv_cache_write"])
@pytest.mark.parametrize("limit", [1e-9, 1e-3])
def test_time_limit_gives_a_legal_program_or_a_refusal(name: str, limit: float) -> None:
    before = kernel(name)
    try:
        result = optimize(before, time_limit=limit)
    except Refused as refusal:
        assert all(d.code.startswith(("L", "W")) for d in refusal.diagnostics)
        return
    assert all(is_two_d(f) for f in result.program.functions if f.in_core)
    assert_equal_runs(before, result.program)
    warned = [d for d in result.diagnostics if d.code in ("W001", "W002")]
    assert result.limit_hit == bool(warned)
    assert all(d.severity is Severity.WARNING for d in warned)


def test_generous_limits_change_nothing() -> None:
    free = optimize(kernel("add_3d"))
    limited = optimize(kernel("add_3d"), time_limit=60, node_limit=10_000, memory_limit=1 << 20, choice_seconds=60)
    assert free.program == limited.program
    assert not limited.limit_hit and not limited.diagnostics


@pytest.mark.parametrize(("limit", "text"), [({"node_limit": 1}, "1 e-nodes"), ({"memory_limit": 1}, "1 MiB")])
def test_limit_of_nodes_and_of_memory_is_reported_for_each_function(limit: dict[str, int], text: str) -> None:
    result = optimize(kernel("rmsnorm_4d"), **limit)  # type: ignore[arg-type]
    (found,) = (d for d in result.diagnostics if d.code == "W001")
    assert result.limit_hit and text in found.message and found.severity is Severity.WARNING
    assert [item["limit"] for item in result.stats["functions"].values()] == [text]


def packed_sums(count: int) -> Program:
    """Sums that are made by pages, and read under another shape: each may be packed for itself."""
    body = []
    for n in range(count):
        body += [load(f"x{n}", "x", [0, 0, 0], [4, 4, 8]), load(f"w{n}", "w", [n, 0, 0], [1, 4, 8])]
        body += [let(f"y{n}", "tile.add", f"x{n}", f"w{n}"), let(f"e{n}", "tile.exp", f"y{n}")]
        body += [let(f"z{n}", "tile.reshape", f"e{n}", [4, 2, 16]), store(f"s{n}", f"z{n}", [n * 4, 0, 0], "o" if n == 0 else f"s{n - 1}")]
    params = [tensor("x", 4, 4, 8), tensor("w", count, 4, 8), out("o", 4 * count, 2, 16)]
    return incore(params, [*body, ret(f"s{count - 1}")])


def test_limit_of_the_choice_is_reported_with_what_is_not_proved() -> None:
    free = optimize(packed_sums(40))
    result = optimize(packed_sums(40), choice_seconds=1e-6)
    (found,) = result.diagnostics
    assert (found.code, found.severity, result.limit_hit) == ("W002", Severity.WARNING, True)
    assert "the seconds of the choice" in found.message and f"{result.stats['gap']:.1%}" in found.message
    assert result.stats["proof"] == "bounded" and result.stats["lower_bound"] <= free.stats["cost"] <= result.stats["cost"]
    assert free.diagnostics == () and not free.limit_hit and free.stats["proof"] == "optimal"


# targets


def test_unknown_target_is_refused_with_the_known_ones() -> None:
    refusal = refused(added(), "ascend910", "ascend910b", "ascend950", target="ascend910")
    assert [d.code for d in refusal.diagnostics] == ["U301"]


def test_target_argument_overrides_the_one_of_the_program_and_leaves_its_name() -> None:
    before = kernel("softmax_tail_4d")
    result = optimize(before, target="ascend950")
    assert result.stats["cost"] == pytest.approx(cost(result.program, "ascend950"))
    assert result.program.target == before.target == "ascend910b"


def test_program_without_a_target_is_lowered_too() -> None:
    after = lowered(added(target=None))
    assert after.target is None


# input


def test_input_program_is_not_changed() -> None:
    before = kernel("rmsnorm_4d")
    text = write_program(before)
    result = optimize(before)
    assert result.program is not before
    assert write_program(before) == text


def test_program_that_does_not_verify_is_refused_before_any_work() -> None:
    before = added()
    first, *others = main(before).body
    assert isinstance(first, Assign) and isinstance(first.value, Call)
    stray = Var("nowhere", main(before).params[0].var.type)
    reading = replace(first, value=replace(first.value, args=(stray, *first.value.args[1:])))
    broken = replace(main(before), body=(reading, *others))
    refusal = refused(replace(before, functions=(broken,)), "nowhere")
    assert all(d.code.startswith("S") for d in refusal.diagnostics)


def test_refusals_of_all_functions_come_at_once() -> None:
    params = [tensor("x", 2, 4, 8), out("out_0", 1, 4, 8)]
    cut = load("t", "x", [0, 0, 0], [2, 4, 8], [1, 4, 6])
    body = [cut, let("y", "tile.col_sum", "t"), store("o", "y", [0, 0, 0], "out_0"), ret("o")]
    p = program(*(function(f"f{i}", params, body) for i in range(3)))
    refusal = refused(p, "f0", "f1", "f2")
    assert [d.place.function for d in refusal.diagnostics] == ["f0", "f1", "f2"]


def test_rules_can_be_left_out_by_file_and_by_name() -> None:
    before = added()
    pages = checked(before, optimize(before, without_rules=frozenset({"flat.op"})), dearer=True)
    assert cost(pages) > cost(optimize(before).program)
    refusal = refused(before, without_rules=frozenset({"flatten", "pages"}))
    assert {d.code for d in refusal.diagnostics} <= {"L103", "L104"}


def test_default_trips_weigh_loops_of_unknown_length() -> None:
    body = [
        load("t", "x", ["k", 0, 0], [1, 3, 8]),
        store("o1", "t", ["k", 0, 0], "o"),
        {"yield": ["o1"]},
    ]
    before = incore(
        [tensor("x", 64, 3, 8), scalar("n"), out("out_0", 64, 3, 8)],
        [loop("k", [0, "n", 1], {"o": "out_0"}, body, ["r"]), ret("r")],
    )
    few, many = (optimize(before, default_trips=n, validate=False).stats["cost"] for n in (4, 40))
    assert many == pytest.approx(10 * few, rel=0.05)


def test_constant_expressions_in_operands_are_kept_as_the_author_wrote_them() -> None:
    before = incore(
        [tensor("x", 8, 3, 8), scalar("i", range=(0, 3)), out("out_0", 8, 3, 8)],
        [
            load("t", "x", ["i * 2 + 1", 0, 0], [1, 3, 8]),
            store("o", "t", ["i * 2 + 1", 0, 0], "out_0"),
            ret("o"),
        ],
    )
    after = lowered(before)
    assert ops(after) == ["load", "store"]
    assert [c.args[1] for c in calls(after)] == [c.args[1] for c in calls(before)]
    assert not isinstance(calls(after)[0].args[1], Const)


# the package


def test_importing_the_package_loads_neither_egglog_nor_numpy() -> None:
    code = (
        "import sys, pypto_eqsat\n"
        "assert not {'egglog', 'numpy', 'networkx'} & set(sys.modules), 'loaded'\n"
        "pypto_eqsat.PassProperties\n"
        "assert not {'egglog', 'numpy', 'networkx'} & set(sys.modules), 'loaded'\n"
        "pypto_eqsat.optimize\n"
        "print(sorted(pypto_eqsat.__all__))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "optimize" in run.stdout


def test_result_of_a_checked_run_passes_every_promise() -> None:
    before = added()
    checked(before, optimize(before))
