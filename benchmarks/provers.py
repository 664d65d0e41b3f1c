"""What index facts prove of random programs, and what the rules of upstream's pass prove of the same offsets.

    python -m benchmarks provers --programs 200          prints the table and writes docs/provers.md

Every offset of a program is asked for a non-negative multiple of 16. What only upstream's rules prove is run for all values of the
program's parameters: it must be false. Exit code 1 where some is not.
"""

from __future__ import annotations

import argparse
import random

from benchmarks.pages import DOCS, replaced
from tests.generators.index_programs import random_index_program
from tests.generators.index_provers import Compared, compare_provers


def table(programs: int, first: int, found: Compared) -> str:
    """The page's table."""
    facts = found.both + found.only_facts
    upstream = found.both + len(found.false) + len(found.unseen) + len(found.missed)
    ratio = f", {facts / found.both:.1f} times as many as the true ones of upstream" if found.both else ""
    rows = [
        ("offsets asked for", found.offsets),
        (f"proved by index facts{ratio}", facts),
        ("proved by upstream's rules", upstream),
        ("by both", found.both),
        ("by index facts only", found.only_facts),
        ("by upstream's rules only, and false for some value", len(found.false)),
        ("by upstream's rules only, where no run comes to", len(found.unseen)),
        ("by upstream's rules only, and true for every value that was seen", len(found.missed)),
    ]
    lines = [f"Programs {first} to {first + programs - 1}:", "", "| | offsets |", "|---|---|"]
    return "\n".join([*lines, *(f"| {what} | {count} |" for what, count in rows)])


def main(argv: list[str]) -> int:
    """Compare, print, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks provers", description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default 0)")
    arguments = parser.parse_args(argv)
    found = Compared()
    for seed in range(arguments.seed, arguments.seed + arguments.programs):
        one = compare_provers(random_index_program(random.Random(seed)))
        for text in one.missed:
            print(f"seed {seed}: only upstream's rules prove {text}")
        found.add(one)
    text = table(arguments.programs, arguments.seed, found)
    print(text)
    page = DOCS / "provers.md"
    page.write_text(replaced(page.read_text(encoding="utf-8"), "table", text), encoding="utf-8")
    return 1 if found.missed else 0
