"""The command line: `pypto-eqsat optimize prog.json -o lowered.json`.

Exit codes: 0 done, 1 the program was refused with diagnostics, 2 wrong usage or a file that cannot be read or
written, 3 a limit was hit and the best valid program so far was written. Diagnostics go to standard error,
all of them; nothing ever ends in a traceback, unless PYPTO_EQSAT_DEBUG=1 asks for it. Commands import what
they need when they run, so that `--help` and `check` load neither egglog nor a solver.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, NoReturn

from pypto_eqsat.files import UsageFault, abandon_output, say, tell
from pypto_eqsat.manual import Formatter, complete, overview
from pypto_eqsat.search_options import (
    add_diff,
    add_folder_options,
    add_reduce,
    add_search_options,
    add_target,
    add_without_rule,
    count,
    seconds,
)
from pypto_eqsat.terminal import be_quiet, is_quiet, shown
from pypto_eqsat.version import installed
from pypto_ir.diagnostics import Diagnostic, Place, Refused, Severity, declare

declare(X900="an internal fault was caught; nothing was written")

DONE, REFUSED, USAGE, LIMIT, INTERRUPTED = 0, 1, 2, 3, 130
DEBUG = "PYPTO_EQSAT_DEBUG"
_PACKAGES = ("pypto_ir", "egraph_rules", "extract", "pypto_eqsat")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    try:
        return _guarded(argv)
    except BrokenPipeError:  # whoever read our output has stopped reading: nothing is left to say
        abandon_output()
        return DONE


def _guarded(argv: Sequence[str] | None) -> int:
    try:
        arguments = parser().parse_args(argv)
        be_quiet(getattr(arguments, "quiet", False))
        command: Any = arguments.command
        return int(command(arguments))
    except SystemExit as end:  # --help, --version and wrong usage
        return end.code if isinstance(end.code, int) else DONE
    except UsageFault as fault:
        report([fault.diagnostic])
        return USAGE
    except Refused as refused:
        report(refused.diagnostics)
        return REFUSED
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as fault:
        if debugging() or not unexpected(fault):
            raise
        report([internal(fault)])
        return REFUSED


def debugging() -> bool:
    """Whether an internal fault shall end in a traceback."""
    return os.environ.get(DEBUG, "") not in ("", "0")


def unexpected(fault: BaseException) -> bool:
    """Whether an exception is a fault inside: also what a library of Rust raises where it panics, which is no `Exception`."""
    return isinstance(fault, Exception) or type(fault).__name__ == "PanicException"


def internal(fault: BaseException) -> Diagnostic:
    """What is said of an exception that nobody expected."""
    what = f"{type(fault).__name__}: {fault}".split("\n")[0][:300]
    notes = "".join(f"; {note}" for note in getattr(fault, "__notes__", ()))
    message = f"internal fault in {_where(fault.__traceback__)}: {what}{notes}"
    help = f"this is a bug: run it again with {DEBUG}=1 and report the traceback together with the input file"
    return Diagnostic("X900", message, Place(), help)


def _where(trace: TracebackType | None) -> str:
    """The innermost function of ours that the fault came through."""
    place = "an unknown function"
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in _PACKAGES:
            place = f"{module}.{trace.tb_frame.f_code.co_qualname}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place


def report(diagnostics: Iterable[Diagnostic]) -> None:
    """Print diagnostics to standard error, and how many errors there are where they are several."""
    items = [d for d in diagnostics if d.severity is Severity.ERROR or not is_quiet()]
    errors = sum(d.severity is Severity.ERROR for d in items)
    lines = [shown(d, sys.stderr) for d in items]
    if errors > 1:
        lines.append(f"{errors} errors")
    tell("".join(f"{line}\n" for line in lines))


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are diagnostics and whose help is printed as all output is. The value of `--remarks` is part of
    its word, so that `--remarks prog.json` names a program and no expression."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        given = sys.argv[1:] if args is None else list(args)
        end = given.index("--") if "--" in given else len(given)
        return super().parse_known_args(["--remarks=" if a == "--remarks" else a for a in given[:end]] + given[end:], namespace)

    def print_help(self, file: Any = None) -> None:
        say(self.format_help().rstrip())

    def error(self, message: str) -> NoReturn:
        raise UsageFault("U001", message, self.prog, f"see {self.prog} --help")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> None:
        say(f"pypto-eqsat {installed() or '(not installed)'}")
        parser.exit(0)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = _Parser(
        prog="pypto-eqsat",
        description="Lowers N-D tile programs to the cheapest legal 2-D program, by equality saturation.",
        epilog=overview(),
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)

    optimize = commands.add_parser("optimize", help="lower a program", allow_abbrev=False)
    optimize.add_argument("input", metavar="IN", help="program file, - for standard input, or a folder of program files")
    optimize.add_argument(
        "-o", "--output", metavar="OUT", default="-", help="where the result goes (default: standard output); for a folder, a folder"
    )
    add_search_options(optimize)
    optimize.add_argument("-v", "--verbose", action="store_true", help="say what is done, and what it gained")
    optimize.add_argument("-q", "--quiet", action="store_true", help="errors only")
    optimize.add_argument("--stats", metavar="FILE", help="write cost, bounds, times and what was validated as JSON")
    optimize.add_argument("--timing", action="store_true", help="say how long each phase took")
    optimize.add_argument(
        "--print-after",
        metavar="PHASE",
        choices=("read", "flatten", "mx", "all"),
        action="append",
        default=[],
        help="print the program as it is after a phase, to standard error: read, flatten, mx or all",
    )
    optimize.add_argument(
        "--remarks",
        metavar="[=REGEX]",
        help="say what was done (passed), what could not be (missed) and what was found (analysis), each with its place; "
        "REGEX is searched for in kind:name:function, as in missed: or pages or :q_proj$",
    )
    optimize.add_argument(
        "--remarks-format", choices=("text", "json", "sarif"), default="text", help="the form of remarks; SARIF holds the diagnostics, too"
    )
    optimize.add_argument("--remarks-file", metavar="FILE", help="where remarks go (default: standard error, as text)")
    optimize.add_argument("--report", metavar="FILE.html", help="write a page that shows what was chosen, why, and what it gains")
    optimize.add_argument("--report-times", action="store_true", help="show phase times in the report, which then differ from run to run")
    add_folder_options(optimize)
    optimize.set_defaults(command=_command("optimize"))

    explain = commands.add_parser("explain", help="say why a program is lowered as it is, and what stands in the way", allow_abbrev=False)
    explain.add_argument("input", metavar="IN", help="program file, - for standard input")
    explain.add_argument("--format", choices=("text", "json"), default="text", help="for people (default) or for machines")
    add_target(explain)
    add_without_rule(explain)
    explain.add_argument(
        "--choices",
        metavar="N",
        type=count,
        help="choices of a function that are decided anew to find their runners-up (default: 24), the most cycles first",
    )
    explain.set_defaults(command=_command("explain"))

    convert = commands.add_parser("convert", help="write a program in the other form, JSON or printed", allow_abbrev=False)
    convert.add_argument("input", metavar="IN", help="program file, - for standard input")
    convert.add_argument("-o", "--output", metavar="OUT", default="-", help="where the result goes (default: standard output)")
    convert.add_argument(
        "--to",
        choices=("json", "text"),
        help="the form to write (default: by the suffix of OUT, .json or .py, else the other form)",
    )
    convert.set_defaults(command=_command("convert"))

    check = commands.add_parser("check", help="read and verify a program", allow_abbrev=False)
    check.add_argument("input", metavar="IN", help="program file, - for standard input")
    check.add_argument(
        "--2d",
        dest="two_d",
        action="store_true",
        help="also that in-core functions hold 2-D tiles, linear buffers and accumulators that products can address",
    )
    check.set_defaults(command=_command("check"))

    run = commands.add_parser("run", help="interpret a function", allow_abbrev=False)
    run.add_argument("input", metavar="IN", help="program file, - for standard input")
    run.add_argument("--function", metavar="F", help="the function to run (default: the only one)")
    run.add_argument(
        "--seed",
        metavar="N",
        type=_seed,
        default=0,
        help="seed of the inputs that are not given (default: 0)",
    )
    run.add_argument(
        "--input",
        metavar="NAME=VALUE",
        dest="inputs",
        action="append",
        default=[],
        help="a .npy file or a number for a parameter",
    )
    how = run.add_mutually_exclusive_group()
    how.add_argument(
        "--buffer",
        action="store_true",
        help="ops that work in place write, views share storage, as on the chip",
    )
    how.add_argument(
        "--l0c",
        action="store_true",
        help="also that accumulators lie in the blocks of their memory, where products know no stride (2-D tiles only)",
    )
    run.add_argument("--save", metavar="DIR", help="save results and written tensors there as .npy files")
    run.set_defaults(command=_command("run"))

    extract = commands.add_parser("extract", help="choose the cheapest nodes of an e-graph", allow_abbrev=False)
    extract.add_argument("input", metavar="IN", help="e-graph in the JSON form of extraction-gym, also gzipped; - for standard input")
    extract.add_argument("-o", "--output", metavar="OUT", help="where the choice goes, as JSON (default: it is not written)")
    extract.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=seconds,
        default=60.0,
        help="stop improving after this time (default: 60; exit code 3 where the choice is not proved best by then)",
    )
    extract.set_defaults(command=_command("extract"))

    rules = commands.add_parser("rules", help="list the rewrite rules", allow_abbrev=False)
    rules.add_argument("name", metavar="NAME", nargs="?", help="a rule, or the beginning of names")
    rules.add_argument("--json", action="store_true", help="as JSON")
    rules.set_defaults(command=_command("rules"))

    targets = commands.add_parser("targets", help="list the targets, or check and print one", allow_abbrev=False)
    targets.add_argument("name", metavar="NAME", nargs="?", help="a target, or the path of a target file")
    targets.set_defaults(command=_command("targets"))

    add_diff(commands).set_defaults(command=_command("diff"))
    add_reduce(commands).set_defaults(command=_command("reduce"))

    completion = commands.add_parser("completion", help="print a script that completes commands in a shell", allow_abbrev=False)
    completion.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    completion.set_defaults(command=_command("completion"))

    schema = commands.add_parser("schema", help="print the JSON Schema of program files", allow_abbrev=False)
    schema.set_defaults(command=_command("schema"))
    for name, command in commands.choices.items():
        complete(command, name)
    return top


def _command(name: str) -> Any:
    def command(arguments: argparse.Namespace) -> int:
        from pypto_eqsat import commands

        result: int = getattr(commands, name)(arguments)
        return result

    return command


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**63:
        raise argparse.ArgumentTypeError(f"found {text}, allowed are 0 to 2**63 - 1")
    return value
