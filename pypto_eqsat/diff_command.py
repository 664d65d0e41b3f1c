"""`pypto-eqsat diff A B`: what changed, what it costs, and whether both compute the same.

The exit code is 0 where the programs are identical or their runs agree, 1 where they compute different values, 3 where no run could tell.
"""

from __future__ import annotations

import argparse
import json
import sys

from pypto_eqsat.cli import DONE, LIMIT, REFUSED
from pypto_eqsat.commands import load_verified
from pypto_eqsat.files import STANDARD, UsageFault, say
from pypto_eqsat.options import checked_target
from pypto_eqsat.program_diff import DIFFERENT, SECONDS, UNKNOWN, FunctionDifference, ProgramDifference, difference
from pypto_eqsat.terminal import coloured

_EXITS = {DIFFERENT: REFUSED, UNKNOWN: LIMIT}
_RED, _GREEN, _OFF = "\x1b[31m", "\x1b[32m", "\x1b[0m"


def diff_programs(arguments: argparse.Namespace) -> int:
    """Print the difference of two program files, as text or JSON."""
    if arguments.a == arguments.b == STANDARD:
        raise UsageFault("U001", "standard input can be one of the programs, not both")
    target = checked_target(arguments.target)
    a, b = load_verified(arguments.a), load_verified(arguments.b)
    found = difference(a.program, b.program, target=target, seconds=arguments.seconds or SECONDS)
    if arguments.json:
        say(json.dumps(found.as_json(), indent=1, ensure_ascii=False))
    else:
        say("\n".join(_text(found, coloured(sys.stdout))))
    return _EXITS.get(found.verdict, DONE)


def _text(found: ProgramDifference, colours: bool) -> list[str]:
    lines = []
    for name, f in found.functions.items():
        lines.append(f"function {name}: {f.status}{_cost(f)}")
        lines += [f"  {pipe:5} {_step(*pair)}" for pipe, pair in f.cycles.items() if pair[0] != pair[1]]
        lines += [f"  {_marked(line, colours)}" for line in f.changes]
    lines.append(f"cost: {_step(found.before, found.after)} cycles of the model")
    lines.append(f"verdict: {found.verdict} ({found.reason})")
    return lines


def _cost(f: FunctionDifference) -> str:
    if f.before is None or f.after is None:
        one = f.before if f.after is None else f.after
        return "" if one is None else f", cost {one:,.1f}"
    return f", cost {_step(f.before, f.after)}"


def _step(before: float, after: float) -> str:
    if before == after:
        return f"{before:,.1f} in both"
    part = f" ({(after - before) / before:+.1%})" if before else ""
    return f"{before:,.1f} -> {after:,.1f}{part}"


def _marked(line: str, colours: bool) -> str:
    colour = {"+": _GREEN, "-": _RED}.get(line[:1]) if colours else None
    return line if colour is None else f"{colour}{line}{_OFF}"
