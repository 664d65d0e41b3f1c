"""What each rule is worth: kernels are lowered with rules left out, and costs, e-graphs and times are compared with all rules.

    python -m benchmarks ablate                        every rule file and every rule left out in turn
    python -m benchmarks ablate --rule flat.load --rule pages      these alone
    python -m benchmarks ablate --kernels DIR --output DIR
    python -m benchmarks ablate --files --docs         every rule file, the table also written to docs/performance.md

Writes ablation.csv (a line for every kernel and rule set), ablation.md (a line for every rule set) and ablation.png. A kernel that has no
legal program without a rule is infeasible there; its line names the codes of the refusal. Ratios are over the kernels that stay feasible.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from time import process_time

from benchmarks.pages import DOCS, replaced
from benchmarks.performance import KERNELS
from benchmarks.tables import csv_text
from egraph_rules.catalogue import UnknownRule, parts_of, rules
from egraph_rules.engine import RULE_FILES
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.json_reader import read_program
from pypto_ir.stmt import Program

#: the rule set without anything left out
ALL = "all rules"


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel under a rule set: cost in cycles of the model, size of the e-graph, seconds of the processor; `refused` has the codes of the
    refusal, and cost and sizes are None then."""

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
    if stats is None:
        return Row(left_out, kernel, None, None, None, None, None, spent, codes)
    size = stats["egraph"]
    return Row(left_out, kernel, stats["cost"], stats["lower_bound"], size["classes"], size["nodes"], size["iterations"], spent)


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
    parser.add_argument("--output", type=Path, default=Path("ablation"), metavar="DIR", help="where the results go (default: ablation)")
    parser.add_argument("--no-plot", action="store_true", help="leave out the plot, which needs matplotlib (extra `benchmark`)")
    arguments = parser.parse_args(argv)
    left_out = arguments.rule or [*RULE_FILES[2:], *(() if arguments.files else (rule.name for rule in rules()))]
    try:
        parts_of(left_out)
    except UnknownRule as fault:
        parser.error(str(fault))
    programs = {file.stem: read_program(file.read_text(encoding="utf-8"), file.name) for file in sorted(arguments.kernels.glob("*.json"))}
    if not programs:
        parser.error(f"there are no program files in {arguments.kernels}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    found = []
    for row in rows(programs, left_out, max(1, arguments.rounds)):
        found.append(row)
        cost = f"{row.cost:.0f}" if row.cost is not None else f"refused {row.refused}"
        print(f"{row.left_out:28} {row.kernel:24} {cost:>20} {row.nodes or 0:6} e-nodes {row.seconds:7.3f} s", file=sys.stderr)
    (arguments.output / "ablation.csv").write_text(csv_text(found, Row), encoding="utf-8")
    text = table(found)
    (arguments.output / "ablation.md").write_text(text, encoding="utf-8")
    print(text, end="")
    if arguments.docs:
        page = DOCS / "performance.md"
        page.write_text(replaced(page.read_text(encoding="utf-8"), "ablation", text), encoding="utf-8")
    if not arguments.no_plot:
        plot(found, arguments.output / "ablation.png")
    return 0
