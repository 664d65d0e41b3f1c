"""The extractor on public e-graphs, on generated ones and on the kernels, beside greedy extraction and the best costs known.

    python -m benchmarks extractors                    measures and writes the table of docs/performance.md
    python -m benchmarks extractors --seconds 10 --only tensat --dry-run

The exit code is 1 where a public graph costs more than greedy-dag makes it, or more than is asked of it below.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from math import inf
from pathlib import Path
from time import perf_counter

from benchmarks.graphs import generated
from benchmarks.machine import here
from benchmarks.pages import rewrite
from benchmarks.performance import KERNELS
from egraph_rules.buffers import aliased_params
from egraph_rules.graph import saturated
from egraph_rules.prepared import prepared
from extract.dag.solve import extract
from extract.decide import decide
from extract.effort import ChoiceLimits
from extract.gym import best, read_gym
from extract.question import ask
from extract.target import load_target
from pypto_ir.diagnostics import Refused
from pypto_ir.json_reader import read_program

GRAPHS = Path(__file__).parents[2] / "shared" / "egraphs"
#: seconds for a graph, as the public comparison of extraction-gym has it
SECONDS = 60.0
#: e-nodes of the generated graphs
SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
#: beginning of a public graph's name -> (best cost known, who found or proved it, what is asked here); README.md of the folder
KNOWN = {
    "rover-box_filter_3iteration": (1701.0, "proved by HiGHS in 28 s", 1701.0),
    "rover-mcm_3_7_21_original_8iteration": (1050.0, "proved by CP-SAT in 2 s, CPLEX in 66 s", 1050.0),
    "flexc-5cd5008c": (136.0, "proved in 1.5 s", 136.0),
    "flexc-03d369d0": (36.0, "", 36.0),
    "tensat-resnet50": (4.385795, "proved by CPLEX in 23 s", inf),
    "tensat-bert": (0.704720, "proved by CPLEX in 4,243 s; SCIP 0.767 after 900 s", 0.767),
    "tensat-vgg": (4.850757, "not proved by CPLEX in 10 h", inf),
    "eggcc-bril-fib_shape": (51.0, "proved by CP-SAT in 0.5 s", 51.0),
    "impress-mul512": (136680.0, "proved by HiGHS in 3 s", 136680.0),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: sizes of the e-graph, costs and bound in its own measure, seconds for the choice."""

    name: str
    nodes: int
    classes: int
    greedy: float
    cost: float
    bound: float
    seconds: float
    known: str = ""
    good: bool = True

    def __str__(self) -> str:
        gap = (self.cost - self.bound) / self.cost if self.cost else 0.0
        proof = "proved" if gap <= 1e-9 else f"{100 * gap:.1f} %"
        sizes = f"{self.nodes:,} / {self.classes:,}"
        costs = f"{self.greedy:.7g} | {self.cost:.7g} | {self.bound:.7g}"
        return f"| {self.name} | {sizes} | {costs} | {proof} | {self.seconds:.1f} | {self.known} |"


def public(folder: Path, seconds: float) -> Iterator[Row]:
    """The public graphs of a folder."""
    for file in sorted(folder.glob("*.json.gz")):
        name = file.name.removesuffix(".json.gz")
        gym = read_gym(file.read_bytes(), file.name)
        begun = perf_counter()
        result = best(gym, seconds)
        spent = perf_counter() - begun
        known, by, asked = next((known for start, known in KNOWN.items() if name.startswith(start)), (None, "", inf))
        said = "" if known is None else f"{known:.6g}{', ' if by else ''}{by}"
        good = result.cost <= result.greedy_cost and result.cost <= asked * (1 + 1e-6)
        # the class that reads the roots is not one of the file's
        yield Row(name, len(gym.nodes), len(gym.classes), result.greedy_cost, result.cost, result.bound, spent, said, good)


def made(sizes: tuple[int, ...], seconds: float) -> Iterator[Row]:
    """Generated graphs."""
    for size in sizes:
        dag = generated(size, size)
        begun = perf_counter()
        result = extract(dag, seconds)
        spent = perf_counter() - begun
        assert result is not None, "a generated graph has no extraction"
        name = f"generated, {size:,} e-nodes"
        costs = float(result.greedy_cost), float(result.cost), float(result.bound)
        yield Row(name, dag.node_count, dag.class_count, *costs, spent, good=result.cost <= result.greedy_cost)


def kernels(folder: Path, seconds: float) -> Iterator[Row]:
    """The choice in the functions of kernels, where regions and pipes count; costs in cycles of the model."""
    for file in sorted(folder.glob("*.json")):
        program = read_program(file.read_text(encoding="utf-8"), file.name)
        target, aliased = load_target(program.target), aliased_params(program)
        total = [0.0] * 6
        for function in program.functions:
            if not function.in_core or function.verbatim is not None:
                continue
            graph = saturated(prepared(function).function, aliased.get(function.name, ()))
            begun = perf_counter()
            try:
                asked = ask(graph, target)
            except Refused:
                continue
            found = decide(asked.problem, asked.choices, asked.bound, ChoiceLimits(seconds))
            spent = perf_counter() - begun
            sizes = graph.node_count, len(graph.classes)
            total = [a + b for a, b in zip(total, (*sizes, found.greedy_cost, found.cost, found.bound, spent), strict=True)]
        nodes, classes, greedy, cost, bound, spent = total
        yield Row(f"kernel {file.stem}", int(nodes), int(classes), greedy, cost, bound, spent, good=cost <= greedy)


def main(argv: list[str]) -> int:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks extractors", description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=Path, default=GRAPHS, metavar="DIR", help="where the public e-graphs are")
    parser.add_argument("--kernels", type=Path, default=KERNELS, metavar="DIR", help="where the program files are")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help="time for each graph (default: 60)")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), metavar="N", help="e-nodes of the generated graphs")
    parser.add_argument("--dry-run", action="store_true", help="print the table, write nothing")
    arguments = parser.parse_args(argv)
    head = [
        f"{here()}, OR-Tools {version('ortools')}; {arguments.seconds:g} seconds for each graph.",
        "",
        "| e-graph | nodes / classes | greedy | cost | lower bound | gap | seconds | best known |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(head), flush=True)
    found: list[Row] = []
    sources = (public(arguments.graphs, arguments.seconds), made(tuple(arguments.sizes), arguments.seconds))
    for source in (*sources, kernels(arguments.kernels, arguments.seconds)):
        for row in source:
            found.append(row)
            print(row, flush=True)
    if not arguments.dry_run:
        text = "\n".join([*head, *map(str, found)])
        rewrite("performance.md", "extractors", text)
    return 0 if all(row.good for row in found) else 1
