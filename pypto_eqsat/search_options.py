"""The options of every command that searches for the cheapest program: what for, how long, and without which rules."""

from __future__ import annotations

import argparse
from typing import TypeVar

P = TypeVar("P", bound=argparse.ArgumentParser)


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Options whose values `options_of` reads."""
    add_target(parser)
    parser.add_argument("--time-limit", metavar="SECONDS", type=seconds, help="stop searching after this time (exit code 3)")
    parser.add_argument(
        "--choice-seconds",
        metavar="SECONDS",
        type=seconds,
        help="work to choose in each function, in seconds of a usual core (default: 5, exit code 3)",
    )
    parser.add_argument("--node-limit", metavar="N", type=count, help="e-nodes of a function (default: 2,000,000, exit code 3)")
    parser.add_argument("--memory-limit", metavar="MIB", type=count, help="memory of the process while it searches (exit code 3)")
    parser.add_argument(
        "--policy",
        choices=("cheapest", "upstream"),
        default="cheapest",
        help="the program of least cost (default), or the one that PyPTO's hand-written passes give",
    )
    parser.add_argument("--stage", choices=("flatten", "mx"), help="run one pass only: tiles to 2-D, or MX scales to boxes (default: both)")
    parser.add_argument("--mx-stores", action="store_true", help="let stores of whole FP8E8M0 boxes into MX scales pass")
    add_without_rule(parser)
    parser.add_argument("--no-validate", action="store_true", help="do not interpret input and output to compare them")
    parser.add_argument("--validate-seconds", metavar="SECONDS", type=seconds, help="time for that comparison (default: 0.25)")


def add_target(parser: argparse.ArgumentParser) -> None:
    """The option `--target`, which `checked_target` reads."""
    parser.add_argument(
        "--target", metavar="NAME", help="compile for this target, a name or a .json file, instead of the one that the program names"
    )


def add_without_rule(parser: argparse.ArgumentParser) -> None:
    """The option `--without-rule`, which `checked_rules` reads."""
    parser.add_argument(
        "--without-rule",
        metavar="NAME",
        action="append",
        default=[],
        help="leave out a rewrite rule or a whole rule file, for experiments; may be given several times",
    )


def add_folder_options(parser: argparse.ArgumentParser) -> None:
    """Options for many programs."""
    many = parser.add_argument_group("many programs", "where IN is a folder")
    many.add_argument("--jobs", metavar="N", type=count, help="processes (default: one for each processor)")
    many.add_argument("--scheduler", metavar="ADDRESS", help="the Dask cluster that does the work, tcp://HOST:PORT (extra: dask)")
    many.add_argument("--cache", metavar="DIR", help="where finished results are kept (default: OUT/.pypto-eqsat)")
    many.add_argument("--no-cache", action="store_true", help="neither use finished results nor keep them")


def add_diff(commands: argparse._SubParsersAction[P]) -> P:
    """The command `diff`."""
    diff = commands.add_parser("diff", help="compare two programs: structure, cost, and what they compute", allow_abbrev=False)
    diff.add_argument("a", metavar="A", help="program file, - for standard input")
    diff.add_argument("b", metavar="B", help="the other one")
    diff.add_argument("--json", action="store_true", help="as JSON")
    diff.add_argument("--target", metavar="NAME", help="price both for this target, a name or a .json file")
    diff.add_argument("--seconds", metavar="SECONDS", type=seconds, help="time to interpret both (default: 5)")
    return diff


def add_reduce(commands: argparse._SubParsersAction[P]) -> P:
    """The command `reduce`."""
    reduce = commands.add_parser("reduce", help="make a failing program as small as it can be", allow_abbrev=False)
    reduce.add_argument("input", metavar="IN", help="program file, - for standard input")
    reduce.add_argument("-o", "--output", metavar="OUT", default="-", help="where the result goes (default: standard output)")
    reduce.add_argument(
        "--check", metavar="CMD", help="a command that exits with 0 while the failure is there; {} in it, or its end, gets the candidate"
    )
    reduce.add_argument("--code", metavar="CODE", help="the failure is this error of optimize, as L001 (default: the first that it gives)")
    reduce.add_argument("--dearer", action="store_true", help="the failure is a result that costs more than upstream's")
    reduce.add_argument("-q", "--quiet", action="store_true", help="errors only")
    add_search_options(reduce)
    return reduce


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    value = float(text)
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"found {text}, allowed is a number of seconds above 0")
    return value


def count(text: str) -> int:
    """A number of things, 1 or more."""
    value = int(text)
    if not 0 < value < 2**31:
        raise argparse.ArgumentTypeError(f"found {text}, allowed are 1 to 2**31 - 1")
    return value
