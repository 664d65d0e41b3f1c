"""How fast the engine starts and works, as ratios that one run measures side by side.

    python -m benchmarks performance              measures and writes the table of docs/performance.md
    python -m benchmarks performance --rounds 15 --dry-run

Seconds differ from machine to machine, and on one machine from minute to minute; ratios of medians of
alternating runs hardly do. The unit is `python -c "import egglog"`, what every user of egglog pays: 0.21 s
beside 0.25 s for a whole run of `optimize` is a ratio of 1.19. The exit code is 1 where a ratio is above its
bound or a module was loaded that should not be.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.machine import here
from benchmarks.pages import rewrite

ROOT = Path(__file__).parents[1]
KERNELS = ROOT.parent / "shared" / "kernels"
#: modules that commands which only read and check must not load
HEAVY = ("egglog", "numpy", "networkx", "ml_dtypes", "ortools", "highspy", "scipy", "z3")
BATCHES = (2, 256)
_PROBE = """
import contextlib, io, sys
from pypto_eqsat.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    code = main(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules}))
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: `ratio` is measured over base, `bound` None where none is promised."""

    what: str
    measured: str
    base: str
    ratio: float
    bound: float | None

    @property
    def good(self) -> bool:
        return self.bound is None or self.ratio <= self.bound

    def __str__(self) -> str:
        bound = "" if self.bound is None else f"{self.bound:g}"
        return f"| {self.what} | {self.measured} | {self.base} | {self.ratio:.2f} | {bound} |"


def loaded(*arguments: str) -> tuple[int, list[str]]:
    """The exit code of a command, and which of `HEAVY` it loaded."""
    done = subprocess.run([sys.executable, "-c", _PROBE, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    code, *modules = done.stdout.split()
    return int(code), [name for name in HEAVY if name in modules]


def batched_program(batch: int) -> str:
    """A softmax-like kernel over [batch, 16, 64], as a program file."""
    shape: list[Any] = [batch, 16, 64]
    at, memory = [0, 0, 0], {"target_memory": "Vec"}

    def let(name: str, op: str, *args: Any, **kwargs: str) -> dict[str, Any]:
        return {"let": name, "op": f"tile.{op}", "args": list(args), **({"kwargs": kwargs} if kwargs else {})}

    body = [
        let("x", "load", "source", at, shape, shape, **memory),
        let("y", "load", "other", at, shape, shape, **memory),
        let("xy", "mul", "x", "y"),
        let("tmp", "create", shape, dtype="FP32", **memory),
        let("top", "row_max", "xy", "tmp"),
        let("low", "row_expand_sub", "xy", "top"),
        let("e", "exp", "low"),
        let("sum", "row_sum", "e", "tmp"),
        let("soft", "row_expand_div", "e", "sum"),
        let("out_1", "store", "soft", at, "out"),
        {"return": ["out_1"]},
    ]
    tensor = {"tensor": shape, "dtype": "FP32"}
    params = [{"name": name, "type": tensor} for name in ("source", "other")]
    params.append({"name": "out", "type": tensor, "direction": "Out"})
    kernel = {"name": "softmax", "kind": "InCore", "params": params, "returns": [tensor], "body": body}
    return json.dumps({"pypto_ir": 1, "name": "Batched", "functions": [kernel]})


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def alternating(rounds: int, *works: Callable[[], object]) -> list[float]:
    """The median seconds of each work, after one run of each that does not count; one run of each a round, so
    that all meet the same load.
    """
    times: list[list[float]] = [[] for _ in works]
    for work in works:
        work()
    for _ in range(rounds):
        for found, work in zip(times, works, strict=True):
            found.append(seconds(work))
    return [median(found) for found in times]


def process(*arguments: str) -> Callable[[], object]:
    """A run of Python in a process of its own, with compiled modules kept as an installation keeps them."""
    command = [sys.executable, *arguments]
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return lambda: subprocess.run(command, cwd=ROOT, env=kept, stdout=subprocess.DEVNULL, check=True)


def starting(rounds: int, kernels: Path) -> Iterator[Row]:
    """Whole processes and warm calls over the import of egglog."""
    from pypto_eqsat.driver import optimize
    from pypto_ir.json_reader import read_program

    program = read_program((kernels / "rmsnorm_4d.json").read_text(encoding="utf-8"), "rmsnorm_4d.json")
    add, rmsnorm = str(kernels / "add_3d.json"), str(kernels / "rmsnorm_4d.json")
    run = ("-m", "pypto_eqsat")
    works = {
        "`pypto-eqsat --help`, whole process": (process(*run, "--help"), None),
        "`check rmsnorm_4d.json`, whole process": (process(*run, "check", rmsnorm), None),
        "`optimize add_3d.json`, whole process": (process(*run, "optimize", add), 2.0),
        "`optimize --no-validate add_3d.json`, whole process": (
            process(*run, "optimize", "--no-validate", add),
            None,
        ),
        "`optimize(rmsnorm_4d, validate=False)`, warm call": (lambda: optimize(program, validate=False), 0.2),
        "`optimize(rmsnorm_4d)`, warm call": (lambda: optimize(program), 0.2),
    }
    base, *times = alternating(rounds, process("-c", "import egglog"), *(work for work, _ in works.values()))
    for (what, (_, bound)), time in zip(works.items(), times, strict=True):
        yield Row(what, f"{time * 1e3:.0f} ms", f"{base * 1e3:.0f} ms", time / base, bound)


def sizes(rounds: int) -> Iterator[Row]:
    """The e-graph of one kernel at two batch counts."""
    from pypto_eqsat.driver import optimize
    from pypto_ir.json_reader import read_program

    programs = [read_program(batched_program(batch), "batched.json") for batch in BATCHES]
    few, many = (optimize(p, validate=False).stats["egraph"] for p in programs)
    saturation: list[list[float]] = [[], []]
    for _ in range(rounds):
        for found, program in zip(saturation, programs, strict=True):
            found.append(optimize(program, validate=False).stats["seconds"]["saturate"])
    title = f"batch {BATCHES[1]} over batch {BATCHES[0]}"
    for key in ("classes", "nodes"):
        yield Row(f"{title}: {key} of the e-graph", str(many[key]), str(few[key]), many[key] / few[key], 1.0)
    small, large = map(median, saturation)
    yield Row(f"{title}: saturation", f"{large * 1e3:.1f} ms", f"{small * 1e3:.1f} ms", large / small, 1.25)


def main(argv: list[str]) -> int:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks performance", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="runs of each measurement (default: 9)")
    parser.add_argument("--kernels", type=Path, default=KERNELS, metavar="DIR", help="where the program files are")
    parser.add_argument("--dry-run", action="store_true", help="print the table, write nothing")
    arguments = parser.parse_args(argv)
    rounds = max(1, arguments.rounds)
    light = {
        "`pypto-eqsat --help`": ("--help",),
        "`check`": ("check", str(arguments.kernels / "rmsnorm_4d.json")),
    }
    found = {what: loaded(*command)[1] for what, command in light.items()}
    from benchmarks.index import facts
    from benchmarks.reading import reading
    from benchmarks.scaling import growth, proofs

    rows = [*starting(rounds, arguments.kernels), *sizes(5 * rounds), *reading(rounds), *facts(rounds)]
    rows += [*proofs(arguments.kernels), *growth()]
    text = "\n".join(
        [
            f"{here()}, egglog {version('egglog')}, NumPy {version('numpy')}; medians of {rounds} alternating runs "
            f"({5 * rounds} for saturation).",
            "",
            "| what | measured | over | ratio | bound |",
            "|---|---|---|---|---|",
            *map(str, rows),
            "",
            f"Looked for among the loaded modules: {', '.join(HEAVY)}.",
            *(f"{what} loads {', '.join(modules) or 'none of them'}." for what, modules in found.items()),
        ]
    )
    print(text)
    if not arguments.dry_run:
        rewrite("performance.md", "table", text)
    return 0 if all(row.good for row in rows) and not any(found.values()) else 1
