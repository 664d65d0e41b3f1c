"""What docs/performance.md promises on any machine: which modules commands load, and e-graph sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import index, reading, scaling
from benchmarks.accumulating import LOOPS, WRITTEN_OUT, accumulating_program
from benchmarks.performance import BATCHES, Row, alternating, batched_program, loaded, main
from benchmarks.reading import printed_program
from egraph_rules.index_build import equations_of
from egraph_rules.index_domain import Fact
from egraph_rules.index_nodes import Facts, Rule
from egraph_rules.index_solve import solve
from pypto_eqsat import optimize
from pypto_ir.json_reader import read_program
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.printed.program_writer import write_text
from pypto_ir.stmt import Assign, Call, For, Program, walk
from pypto_ir.verify import verify_program

EXAMPLE = str(Path(__file__).parents[1] / "examples" / "scale_add.json")


@pytest.mark.parametrize(
    "command",
    [("--help",), ("--version",), ("check", EXAMPLE), ("check", "missing.json"), ("schema",)],
    ids=" ".join,
)
def test_commands_that_do_not_compute_load_nothing_heavy(command: tuple[str, ...]) -> None:
    code, modules = loaded(*command)
    assert (code, modules) == (2 if "missing.json" in command else 0, [])


def test_optimize_loads_egglog_alone_and_numpy_only_to_interpret() -> None:
    assert loaded("optimize", "--no-validate", EXAMPLE) == (0, ["egglog"])
    assert loaded("optimize", EXAMPLE) == (0, ["egglog", "numpy"])


def test_a_batch_is_one_node_whatever_its_size() -> None:
    few, many = (optimize(read_program(batched_program(batch), "batched.json"), validate=False) for batch in BATCHES)
    assert few.stats["egraph"] == many.stats["egraph"]
    assert few.stats["rules_fired"] == many.stats["rules_fired"]


@pytest.mark.parametrize("batches", [WRITTEN_OUT, LOOPS])
def test_an_accumulator_in_three_loops_is_one_node_whatever_its_pages(batches: tuple[int, ...]) -> None:
    found = [optimize(read_program(accumulating_program(n), "accumulating.json"), validate=False) for n in batches]
    first = found[0].stats
    assert {tuple(r.stats["egraph"].items()) for r in found} == {tuple(first["egraph"].items())}
    assert all(r.stats["rules_fired"] == first["rules_fired"] and r.stats["proof"] == "optimal" for r in found)
    statements = {sum(1 for _ in walk(r.program.functions[0].body)) for r in found}
    assert len(statements) == (1 if batches == LOOPS else len(batches))


def test_works_are_measured_in_turns_after_a_first_run_of_each() -> None:
    calls: list[str] = []
    times = alternating(2, lambda: calls.append("a"), lambda: calls.append("b"))
    assert calls == ["a", "b"] * 3
    assert len(times) == 2
    assert all(time >= 0 for time in times)


def test_a_row_is_good_up_to_its_bound() -> None:
    assert Row("w", "2 ms", "1 ms", 2.0, 2.0).good
    assert not Row("w", "2 ms", "1 ms", 2.01, 2.0).good
    assert str(Row("w", "2 ms", "1 ms", 2.0, None)) == "| w | 2 ms | 1 ms | 2.00 |  |"


def test_help_of_the_benchmark_says_what_it_writes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "--dry-run" in capsys.readouterr().out


def test_the_printed_program_that_is_read_is_canonical_and_as_large_as_real_dumps() -> None:
    text = printed_program()
    assert 1e6 <= len(text) < 1.1e6
    printed = read_printed(text)
    assert len(printed.program.functions) == 50 and printed.warnings == () and verify_program(printed.program) == []
    assert write_text(printed.program) == text


def test_reading_rows_have_the_promised_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "FUNCTIONS", 4)
    rows = list(reading.reading(1))
    assert [row.bound for row in rows] == [6.0, None, *[reading.LINEAR] * 4]
    assert all(row.ratio > 0 for row in rows)


def op_count(text: str) -> tuple[int, int]:
    """Ops and loops of a generated kernel, which has nothing against it."""
    program = read_program(text, "scaling.json")
    assert verify_program(program) == []
    statements = list(walk(program.functions[0].body))
    calls = [s for s in statements if isinstance(s, Assign) and isinstance(s.value, Call)]
    return len(calls), sum(isinstance(s, For) for s in statements)


def test_generated_kernels_have_the_sizes_that_they_are_called_by() -> None:
    assert [op_count(scaling.straight_line(n)) for n in (10, 100, 1_000)] == [(11, 0), (101, 0), (1_001, 0)]
    assert op_count(scaling.loops(28, 400)) == (400, 28)


def test_graph_of_a_straight_line_grows_in_proportion() -> None:
    found = [optimize(read_program(scaling.straight_line(n), "s.json"), choice_seconds=1e-6).stats["egraph"] for n in (100, 200, 300)]
    for key in ("classes", "nodes"):
        a, b, c = (egraph[key] for egraph in found)
        assert c - b == b - a > 0
    assert found[0]["iterations"] == found[2]["iterations"], "the rounds of saturation do not grow with the depth"


@pytest.mark.parametrize(("power", "good"), [(1.0, True), (2.0, False)])
def test_rows_of_growth_tell_linear_from_quadratic(power: float, good: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(ops: int, seconds: float) -> dict[str, float]:
        return {"seconds": 0.3 + 1e-4 * ops**power, "kib": 50_000 + ops**power, "prove": seconds, "gap": 0.25}

    monkeypatch.setattr(scaling, "measured", measured)
    rows = list(scaling.growth())
    assert [row.bound for row in rows] == [scaling.LINEAR, scaling.LINEAR, scaling.OVER]
    assert [row.good for row in rows] == [good, good, True] and "25% of the cost not proved" in rows[2].what


def test_figures_are_measured_in_a_process_of_its_own() -> None:
    found = scaling.measured(20, 1e-6)
    assert found["seconds"] > 0 and found["kib"] > 10_000 and 0 <= found["gap"] < 1


def test_400_ops_in_28_loops_are_proved_or_nearly_so() -> None:
    result = optimize(read_program(scaling.loops(28, 400), "loops.json"), validate=False)
    assert result.stats["gap"] <= scaling.GAP


def test_rows_of_index_facts_have_the_promised_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "DEFINITIONS", 40)
    monkeypatch.setattr(index, "CALLS", 40)
    rows = list(index.facts(1))
    assert [row.bound for row in rows] == [index.LINEAR] * 2
    assert all(row.ratio > 0 for row in rows)
    assert [verify_program(p) for p in (index.definitions(40), index.call_sites(40))] == [[], []]


def test_the_work_of_index_facts_grows_with_the_program_and_not_faster() -> None:
    """Nodes of the equations, and how often they are evaluated, of programs of two sizes."""
    for make in (index.definitions, index.call_sites):
        small, large = (evaluations(make(size)) for size in (200, 800))
        assert large <= 4.2 * small


def evaluations(p: Program) -> int:
    """How many facts the solver computes for a program."""
    equations = equations_of(p)
    count = 0

    class Counted:
        def __init__(self, rule: Rule) -> None:
            self.rule, self.inputs = rule, rule.inputs

        def evaluate(self, facts: Facts) -> Fact | None:
            nonlocal count
            count += 1
            return self.rule.evaluate(facts)

    for node in equations.system.nodes:
        node.rule = Counted(node.rule)
    solve(equations.system)
    return count
