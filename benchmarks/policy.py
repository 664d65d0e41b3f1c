"""What the cheapest program saves beside upstream's: every kernel and every printed program, before, under upstream's policy, and after.

    python -m benchmarks policy                       table into docs/performance.md; policy.csv and policy.png in `policy`
    python -m benchmarks policy --programs DIR --output DIR --dry-run

Costs are cycles of the model, of all in-core functions of a program; a program with N-D ops has a cost before that no chip could reach. A
line names the codes of a refusal, and why there is nothing of upstream's to compare with.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

from benchmarks.pages import rewrite
from benchmarks.performance import KERNELS, ROOT
from benchmarks.tables import csv_text
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.formats import read_document

DUMPS = ROOT.parent / "shared" / "dumps"
#: for a program that names no target
TARGET = "ascend910b"


@dataclass(frozen=True, slots=True)
class Row:
    """A program: cycles of the model, None where there is no program; `why` are the codes of a refusal, or what upstream's lacks."""

    program: str
    before: float | None
    upstream: float | None
    after: float | None
    proof: str
    why: str = ""

    @property
    def ratio(self) -> float | None:
        return self.after / self.upstream if self.after and self.upstream else None

    def __str__(self) -> str:
        ratio = "" if self.ratio is None else f"{self.ratio:.3f}"
        cells = (self.program, _cost(self.before), _cost(self.upstream), _cost(self.after), ratio, self.proof or self.why)
        return f"| {' | '.join(cells)} |"


def _cost(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


def files(folders: Iterable[Path]) -> Iterator[Path]:
    """Program files of some folders, by name; what has been flattened before is left out."""
    for folder in folders:
        found = [*folder.glob("*.json"), *folder.glob("*.py")]
        yield from sorted(f for f in found if not f.name.endswith(".flattened.py"))


def measured(file: Path) -> Row | None:
    """A program under both policies; None where nothing of it runs on a core."""
    program = read_document(file.read_text(encoding="utf-8"), file.name).program
    if not any(f.in_core and f.verbatim is None for f in program.functions):
        return None
    try:
        stats = optimize(program, target=program.target or TARGET, policy_cost=True).stats
    except Refused as refused:
        codes = " ".join(sorted({d.code for d in refused.diagnostics}))
        return Row(file.stem, None, None, None, "", f"refused: {codes}")
    reason = stats["policy_reason"] or ""
    why = reason.partition("]")[0].lstrip("[") if stats["policy_cost"] is None else ""
    return Row(file.stem, stats["input_cost"], stats["policy_cost"], stats["cost"], stats["proof"], why)


def mean_ratio(rows: list[Row]) -> float:
    """The geometric mean of the ratios, 1 where there are none."""
    ratios = [row.ratio for row in rows if row.ratio is not None]
    return exp(sum(map(log, ratios)) / len(ratios)) if ratios else 1.0


def table(rows: list[Row]) -> str:
    """All rows and what they come to."""
    compared = [row for row in rows if row.ratio is not None]
    cheaper = sum((row.ratio or 1) < 1 - 1e-9 for row in compared)
    dearer = sum((row.ratio or 1) > 1 + 1e-9 for row in compared)
    alone = sum(row.after is not None and row.upstream is None for row in rows)
    best = min((row.ratio or 1 for row in compared), default=1.0)
    head = [
        f"{len(rows)} programs; upstream compiles {len(compared)} of them to a legal program, and {alone} more are compiled here alone. Of "
        f"those {len(compared)}, {cheaper} become cheaper, the best to {best:.3f} of upstream's cost, {dearer} dearer; the geometric mean "
        f"of the ratios is {mean_ratio(rows):.3f}.",
        "",
        "| program | before | upstream | after | after / upstream | proof, or why there is none |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *map(str, rows)])


def plot(rows: list[Row], path: Path) -> None:
    """The ratio of every program that both compile, as bars from 1."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = sorted((row for row in rows if row.ratio is not None), key=lambda row: -(row.ratio or 1))
    figure, axis = pyplot.subplots(figsize=(8, 1.2 + 0.22 * len(shown)), layout="constrained")
    axis.barh([row.program for row in shown], [(row.ratio or 1) - 1 for row in shown], left=1)
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_title("cost of the cheapest program over that of upstream's")
    figure.savefig(path, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def main(argv: list[str]) -> int:
    """Measure and write; the exit code is 1 where a program is dearer than upstream's."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks policy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=Path, action="append", metavar="DIR", help="program files (default: kernels and dumps)")
    parser.add_argument("--output", type=Path, default=Path("policy"), metavar="DIR", help="where CSV and plot go (default: policy)")
    parser.add_argument("--no-plot", action="store_true", help="leave out the plot, which needs matplotlib (extra `benchmark`)")
    parser.add_argument("--dry-run", action="store_true", help="print the table, write nothing")
    arguments = parser.parse_args(argv)
    rows = [row for file in files(arguments.programs or (KERNELS, DUMPS)) if (row := measured(file)) is not None]
    if not rows:
        parser.error("there are no program files")
    text = table(rows)
    print(text)
    if not arguments.dry_run:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "policy.csv").write_text(csv_text(rows, Row), encoding="utf-8")
        if not arguments.no_plot:
            plot(rows, arguments.output / "policy.png")
        rewrite("performance.md", "policy", text)
    return 1 if any((row.ratio or 1) > 1 + 1e-9 for row in rows) else 0
