"""What each rule is worth: kernels are lowered with rules left out, and costs, e-graphs and times are compared with all rules.

    python -m benchmarks ablate                        every rule file and every rule left out in turn
    python -m benchmarks ablate --rule flat.load --rule pages      these alone
    python -m benchmarks ablate --kernels DIR --output DIR
    python -m benchmarks ablate --files --docs         every rule file, the table also written to docs/performance.md
    python -m benchmarks ablate --scheduler ADDRESS    on a Dask cluster (extra `dask`); --jobs N in processes of this machine

Writes ablation.csv (a line for every kernel and rule set), ablation.md (a line for every rule set) and ablation.png. A kernel that has no
legal program without a rule is infeasible there; its line names the codes of the refusal. Ratios are over the kernels that stay feasible.
In this process, seconds are those of the processor. Workers tell those of the clock, which hold the loading of rules where a rule set is
new to them: `--rounds 3` leaves that out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.pages import rewrite
from benchmarks.performance import KERNELS
from benchmarks.tables import csv_text
from egraph_rules.catalogue import UnknownRule, parts_of, rules
from egraph_rules.engine import RULE_FILES
from pypto_eqsat.batch.dask_pool import DaskPool
from pypto_eqsat.batch.job import Job, Outcome
from pypto_eqsat.batch.local_pool import LocalPool
from pypto_eqsat.driver import optimize
from pypto_eqsat.files import UsageFault
from pypto_eqsat.options import Options
from pypto_ir.diagnostics import Refused, Severity
from pypto_ir.json_reader import read_program
from pypto_ir.stmt import Program

#: the rule set without anything left out
ALL = "all rules"


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel under a rule set: cost in cycles of the model, size of the e-graph, seconds; `refused` has the codes of the refusal, and
    cost and sizes are None then, and the seconds of a worker 0."""

    left_out: str
    kernel: str
    cost: float | None
    lower_bound: float | None
    classes: int | None
    nodes: int | None
    iterations: int | None
    seconds: float
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """A rule set over all kernels, beside all rules: geometric mean of the cost ratios, number of kernels that became dearer and that
    became infeasible, e-nodes and seconds of the kernels that are feasible in both, as ratios of sums."""

    left_out: str
    cost: float
    dearer: int
    infeasible: int
    nodes: float
    seconds: float

    def __str__(self) -> str:
        return f"| {self.left_out} | {self.cost:.3f} | {self.dearer} | {self.infeasible} | {self.nodes:.2f} | {self.seconds:.2f} |"


def measured(program: Program, kernel: str, left_out: str, rounds: int = 1) -> Row:
    """One kernel without a rule, a rule file, or nothing; the seconds are the least of some rounds."""
    without = frozenset() if left_out == ALL else frozenset((left_out,))
    spent, codes, stats = float("inf"), "", None
    for _ in range(rounds):
        begun = process_time()
        try:
            stats = optimize(program, without_rules=without, policy_cost=False).stats
        except Refused as refused:
            codes = " ".join(sorted({d.code for d in refused.diagnostics}))
        spent = min(spent, process_time() - begun)
    return _row(left_out, kernel, stats, spent, codes)


def _row(left_out: str, kernel: str, stats: dict[str, Any] | None, seconds: float, codes: str) -> Row:
    if stats is None:
        return Row(left_out, kernel, None, None, None, None, None, seconds, codes)
    size = stats["egraph"]
    return Row(left_out, kernel, stats["cost"], stats["lower_bound"], size["classes"], size["nodes"], size["iterations"], seconds)


def gathered(pool: LocalPool | DaskPool, files: dict[str, bytes], left_out: Iterable[str], rounds: int) -> Iterator[Row]:
    """The rows of `rows`, in their order, from workers: a job for every kernel, rule set and round. Raises `UsageFault` where a cluster is
    lost."""
    wanted = [(name, kernel) for name in (ALL, *left_out) for kernel in files]
    jobs = {f"{number}.{turn}/{kernel}.json": (name, kernel) for number, (name, kernel) in enumerate(wanted) for turn in range(rounds)}
    found: dict[tuple[str, str], Row] = {}
    made = (Job(job, files[kernel], Options(without_rules=() if name == ALL else (name,))) for job, (name, kernel) in jobs.items())
    for job, outcome in pool.run(made):
        row = _told(*jobs[job.name], outcome)
        found[jobs[job.name]] = min(found.get(jobs[job.name], row), row, key=lambda r: r.seconds)
    return (found[key] for key in wanted)


def _told(left_out: str, kernel: str, outcome: Outcome) -> Row:
    """What a worker tells of a kernel."""
    if not outcome.good:
        codes = sorted({d.code for d in outcome.diagnostics if d.severity is Severity.ERROR})
        return _row(left_out, kernel, None, 0.0, " ".join(codes))
    spent = outcome.stats["seconds"]
    return _row(left_out, kernel, outcome.stats, spent["total"] - spent.get("policy", 0.0), "")


def rows(programs: dict[str, Program], left_out: Iterable[str], rounds: int) -> Iterator[Row]:
    """Every kernel with all rules, then without each of the rules or files."""
    for name in (ALL, *left_out):
        for kernel, program in programs.items():
            if kernel == next(iter(programs)):
                # the engine is made for a rule set when it is first used
                measured(program, kernel, name)
            yield measured(program, kernel, name, rounds)


def summaries(found: list[Row]) -> list[Summary]:
    """A line for every rule set but all rules, in the order of the rows."""
    base = {row.kernel: row for row in found if row.left_out == ALL}
    result = []
    for name in dict.fromkeys(row.left_out for row in found if row.left_out != ALL):
        pairs = [(base[row.kernel], row) for row in found if row.left_out == name and base[row.kernel].cost is not None]
        both = [(a, b) for a, b in pairs if b.cost is not None]
        ratios = [(b.cost or 0) / a.cost for a, b in both if a.cost]
        result.append(
            Summary(
                name,
                exp(sum(map(log, ratios)) / len(ratios)) if ratios else 1.0,
                sum(ratio > 1 + 1e-9 for ratio in ratios),
                len(pairs) - len(both),
                _ratio(sum(b.nodes or 0 for _, b in both), sum(a.nodes or 0 for a, _ in both)),
                _ratio(sum(b.seconds for _, b in both), sum(a.seconds for a, _ in both)),
            )
        )
    return result


def _ratio(a: float, b: float) -> float:
    return a / b if b else 1.0


def table(found: list[Row]) -> str:
    """The summaries as a table, what costs most first."""
    ranked = sorted(summaries(found), key=lambda s: (-s.infeasible, -s.cost, s.nodes, s.left_out))
    head = ["| left out | cost | dearer | infeasible | e-nodes | time |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *map(str, ranked)]) + "\n"


def plot(found: list[Row], path: Path) -> None:
    """Cost, infeasible kernels and e-nodes of every rule set that differs from all rules, as bars."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [s for s in summaries(found) if s.infeasible or s.dearer or abs(s.nodes - 1) > 0.01] or summaries(found)
    shown.sort(key=lambda s: (s.infeasible, s.cost, -s.nodes))
    names = [s.left_out for s in shown]
    panels = (
        ("cost over all rules", [s.cost for s in shown], 1.0),
        ("infeasible kernels", [float(s.infeasible) for s in shown], 0.0),
        ("e-nodes over all rules", [s.nodes for s in shown], 1.0),
    )
    figure, axes = pyplot.subplots(1, len(panels), sharey=True, figsize=(11, 1.2 + 0.22 * len(names)), layout="constrained")
    for axis, (title, values, neutral) in zip(axes, panels, strict=True):
        axis.barh(names, [value - neutral for value in values], left=neutral)
        axis.axvline(neutral, color="black", linewidth=0.8)
        axis.set_title(title)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def _read(files: dict[str, bytes]) -> dict[str, Program]:
    return {kernel: read_program(data.decode(), f"{kernel}.json") for kernel, data in files.items()}


def _pool(scheduler: str | None, jobs: int) -> AbstractContextManager[LocalPool | DaskPool | None]:
    """The workers that are asked for; None for this process."""
    if scheduler is not None:
        return DaskPool(scheduler)
    return LocalPool(jobs) if jobs > 0 else nullcontext()


def main(argv: list[str]) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks ablate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=Path, default=KERNELS, metavar="DIR", help="where the program files are")
    parser.add_argument("--rule", action="append", metavar="NAME", help="a rule or rule file to leave out (default: each in turn)")
    parser.add_argument("--files", action="store_true", help="leave out rule files alone, no single rules")
    parser.add_argument("--docs", action="store_true", help="write the table to docs/performance.md as well")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="runs of each, of which the fastest counts (default: 1)")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="processes to work in (default: this one)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="the scheduler of a Dask cluster to work on")
    parser.add_argument("--output", type=Path, default=Path("ablation"), metavar="DIR", help="where the results go (default: ablation)")
    parser.add_argument("--no-plot", action="store_true", help="leave out the plot, which needs matplotlib (extra `benchmark`)")
    arguments = parser.parse_args(argv)
    left_out = arguments.rule or [*RULE_FILES[2:], *(() if arguments.files else (rule.name for rule in rules()))]
    try:
        parts_of(left_out)
    except UnknownRule as fault:
        parser.error(str(fault))
    files = {file.stem: file.read_bytes() for file in sorted(arguments.kernels.glob("*.json"))}
    if not files:
        parser.error(f"there are no program files in {arguments.kernels}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    found, rounds = [], max(1, arguments.rounds)
    try:
        with _pool(arguments.scheduler, arguments.jobs) as pool:
            for row in gathered(pool, files, left_out, rounds) if pool is not None else rows(_read(files), left_out, rounds):
                found.append(row)
                cost = f"{row.cost:.0f}" if row.cost is not None else f"refused {row.refused}"
                print(f"{row.left_out:28} {row.kernel:24} {cost:>20} {row.nodes or 0:6} e-nodes {row.seconds:7.3f} s", file=sys.stderr)
    except UsageFault as fault:
        print(fault.diagnostic, file=sys.stderr)
        return 2
    (arguments.output / "ablation.csv").write_text(csv_text(found, Row), encoding="utf-8")
    text = table(found)
    (arguments.output / "ablation.md").write_text(text, encoding="utf-8")
    print(text, end="")
    if arguments.docs:
        rewrite("performance.md", "ablation", text)
    if not arguments.no_plot:
        plot(found, arguments.output / "ablation.png")
    return 0
