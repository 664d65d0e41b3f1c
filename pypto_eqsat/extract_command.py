"""`pypto-eqsat extract`: the cheapest extraction of an e-graph that comes from elsewhere.

cost 1701, lower bound 1701, gap 0.00 %, optimal; greedy 1819
"""

from __future__ import annotations

import argparse
import json

from extract.gym import Result, best, read_gym
from pypto_eqsat.cli import DONE, LIMIT
from pypto_eqsat.files import check_writable, display_name, read_input, say, write_atomically


def extract_graph(arguments: argparse.Namespace) -> int:
    """Read, extract, write the choice where it is asked for, and say what it costs. Exit code 3 where the time ended before the proof."""
    output = arguments.output
    if output is not None:
        check_writable(output)
    name = display_name(arguments.input)
    result = best(read_gym(read_input(arguments.input), name), arguments.time_limit, name)
    if output is not None:
        write_atomically(output, f"{json.dumps(_written(result), indent=1, ensure_ascii=False)}\n".encode())
    if output != "-":
        costs = f"cost {result.cost:.9g}, lower bound {result.bound:.9g}, gap {100 * result.gap:.2f} %"
        say(f"{costs}, {_proof(result)}; greedy {result.greedy_cost:.9g}")
    return DONE if result.optimal else LIMIT


def _written(result: Result) -> dict[str, object]:
    return {
        "cost": result.cost,
        "lower_bound": result.bound,
        "gap": result.gap,
        "proof": _proof(result),
        "greedy_cost": result.greedy_cost,
        "choices": result.choices,
    }


def _proof(result: Result) -> str:
    return "optimal" if result.optimal else "bounded"
