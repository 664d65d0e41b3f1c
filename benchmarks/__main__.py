"""`python -m benchmarks performance`, and the other commands by name; the rest are its arguments."""

from __future__ import annotations

import sys
from importlib import import_module

COMMANDS = {
    "performance": "ratios of time and size, written to docs/performance.md",
    "accumulators": "accumulators of 2 to 256 pages in loops, written to docs/performance.md",
    "fuzz": "random programs against the interpreter",
    "fuzz_index": "index facts of random programs against all values of small ranges",
    "extractors": "the extractor on public and generated e-graphs, written to docs/performance.md",
    "ablate": "kernels with rules left out: table, CSV and plot",
    "policy": "the cheapest programs beside upstream's: table, CSV and plot, written to docs/performance.md",
    "batch": "many programs in processes: throughput, memory, bytes, written to docs/performance.md",
    "docs": "the parts of docs/ that are made from the code",
}


def main(argv: list[str]) -> int:
    """Run a command; the result is the exit code, 2 where there is no such command."""
    if argv and argv[0] in COMMANDS:
        result: int | None = import_module(f"benchmarks.{argv[0]}").main(argv[1:])
        return result or 0
    asked = bool(argv) and argv[0] in ("-h", "--help")
    print("usage: python -m benchmarks COMMAND ..", file=sys.stdout if asked else sys.stderr)
    for name, what in COMMANDS.items():
        print(f"  {name:12} {what}", file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
