"""What `pypto-eqsat COMMAND --help` says beside the options: what a command is for, examples, exit codes, environment.

Every command has a page here; `complete` puts it around the options that the parser lists.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

_DONE, _USAGE = (0, "done"), (2, "wrong usage, or a file that cannot be read or written")
_REFUSED = (1, "the program was refused; every reason is on standard error")
_LIMIT = (3, "a limit was hit, and the best valid program so far was written")
_INTERRUPTED = (130, "interrupted; files are whole, or as they were before")
_WORKING = (_DONE, _REFUSED, _USAGE, _LIMIT, _INTERRUPTED)
_READING = (_DONE, _REFUSED, _USAGE)

ENVIRONMENT = {
    "NO_COLOR": "set to anything: no colours on a terminal",
    "CLICOLOR_FORCE": "set to 1: colours in files and pipes as well",
    "PYPTO_EQSAT_DEBUG": "set to 1: an internal fault ends in a traceback",
}


@dataclass(frozen=True, slots=True)
class Page:
    """What stands around the options of a command: text, examples as (what, command), exit codes as (number, meaning)."""

    text: str
    examples: tuple[tuple[str, str], ...]
    exits: tuple[tuple[int, str], ...] = _READING


PAGES = {
    "optimize": Page(
        "Lowers a program whose in-core functions hold tiles of any rank to the cheapest legal program of 2-D tiles, and brings MX scales "
        "into boxes. Input and result are compared by interpretation before anything is written. Where IN is a folder, every program file "
        "below it is lowered, OUT is a folder as well, and finished results are kept, so that a run can be stopped and given again.",
        (
            ("one program, with its statistics", "pypto-eqsat optimize prog.json -o lowered.json --stats stats.json"),
            ("from and to a pipe, for another machine", "pypto-eqsat optimize - --target ascend950 < prog.json > lowered.json"),
            ("what PyPTO's own passes would give", "pypto-eqsat optimize prog.py -o upstream.py --policy upstream"),
            ("what each phase made of it, and how long it took", "pypto-eqsat optimize prog.json -o o.json --print-after all --timing"),
            ("a folder, in four processes", "pypto-eqsat optimize kernels -o lowered --jobs 4"),
            ("a folder, on a cluster", "pypto-eqsat optimize kernels -o lowered --scheduler tcp://10.0.0.5:8786"),
            ("an experiment without the rules of one file", "pypto-eqsat optimize prog.json -o o.json --without-rule pages"),
        ),
        (_DONE, (1, "the program, or one of a folder, was refused; every reason is on standard error"), _USAGE, _LIMIT, _INTERRUPTED),
    ),
    "explain": Page(
        "Says of every function which choices mattered, what else there was and what it would have cost, and what stands in the way of a "
        "function that is refused.",
        (("in words", "pypto-eqsat explain prog.json"), ("for machines", "pypto-eqsat explain prog.json --format json")),
        _WORKING,
    ),
    "convert": Page(
        "Writes a program file in the other of its two forms: JSON, or the text that PyPTO prints and parses. Converting there and back "
        "gives the same bytes.",
        (
            ("by the suffix", "pypto-eqsat convert prog.json -o prog.py"),
            ("in a pipe", "pypto-eqsat convert - --to json < prog.py"),
        ),
    ),
    "check": Page(
        "Reads and verifies a program: names and scopes, types, linear buffers, accumulators. Says every error with its place.",
        (("an input", "pypto-eqsat check prog.json"), ("a result", "pypto-eqsat check --2d lowered.json")),
    ),
    "run": Page(
        "Interprets a function on given inputs or on made ones, and prints what it returned and wrote with checksums. Two programs that "
        "print the same for one seed computed the same.",
        (
            ("on made inputs", "pypto-eqsat run prog.json --seed 7"),
            ("as on the chip, where views share storage", "pypto-eqsat run lowered.json --seed 7 --buffer"),
            ("on an array of your own", "pypto-eqsat run prog.json --input x=x.npy --save results"),
        ),
    ),
    "diff": Page(
        "Compares two programs function by function: the statements that differ, the cost of both by pipe, and, by interpretation on made "
        "inputs, whether they compute the same.",
        (
            ("an input and its result", "pypto-eqsat diff prog.json lowered.json"),
            ("two policies, for machines", "pypto-eqsat diff upstream.json lowered.json --json"),
        ),
        (
            (0, "identical, or the runs agree"),
            (1, "they compute different values, or a program was refused"),
            _USAGE,
            (3, "no run could tell"),
        ),
    ),
    "reduce": Page(
        "Takes away statements, carried values, arms, parameters and functions of a failing program as long as it fails alike (delta "
        "debugging), for a bug report or a test. What a failure is, is said by --check, --code or --dearer.",
        (
            ("the first error that optimize gives", "pypto-eqsat reduce prog.json -o small.json"),
            ("one error of several", "pypto-eqsat reduce prog.json -o small.json --code M001"),
            ("a check of your own", "pypto-eqsat reduce prog.json -o small.json --check './still_fails.sh {}'"),
        ),
        (
            (0, "nothing more can go"),
            (1, "the program was refused by the reader or the verifier"),
            (2, "wrong usage, or the program does not fail"),
            (3, "the time was over; the smallest so far was written"),
            (130, "interrupted; the smallest so far was written"),
        ),
    ),
    "extract": Page(
        "Chooses the cheapest nodes of an e-graph in the JSON form of extraction-gym: cost, lower bound, and whether the choice is proved.",
        (("a public e-graph", "pypto-eqsat extract bert.json.gz -o choice.json --time-limit 60"),),
        _WORKING,
    ),
    "rules": Page(
        "Every rewrite rule with its equation, the condition under which it holds, and what that condition guards against.",
        (("all of a family", "pypto-eqsat rules pages"), ("for machines", "pypto-eqsat rules --json")),
    ),
    "targets": Page(
        "The targets that are built in; or checks a target file and prints it, as a start for one of your own.",
        (
            ("list", "pypto-eqsat targets"),
            ("a start", "pypto-eqsat targets ascend950 > mine.json"),
            ("check", "pypto-eqsat targets mine.json"),
        ),
    ),
    "schema": Page("The JSON Schema of program files.", (("for an editor", "pypto-eqsat schema > program.schema.json"),)),
    "completion": Page(
        "A script that makes a shell complete commands, options and files.",
        (
            ("bash", 'eval "$(pypto-eqsat completion bash)"'),
            ("zsh", 'eval "$(pypto-eqsat completion zsh)"'),
            ("fish", "pypto-eqsat completion fish | source"),
        ),
    ),
}


def complete(parser: argparse.ArgumentParser, name: str) -> None:
    """Put the page of a command around its options."""
    page = PAGES[name]
    examples = "\n".join(f"  {what}:\n    {command}" for what, command in page.examples)
    exits = "\n".join(f"  {number:<4} {meaning}" for number, meaning in page.exits)
    parser.description = page.text
    parser.epilog = f"examples:\n{examples}\n\nexit codes:\n{exits}\n\nenvironment:\n{_environment()}"
    parser.formatter_class = Formatter


def overview() -> str:
    """What stands below the list of commands."""
    exits = "\n".join(f"  {number:<4} {meaning}" for number, meaning in _WORKING)
    first = PAGES["optimize"].examples[0][1]
    return f"example:\n  {first}\n\nExit codes:\n{exits}\n\nenvironment:\n{_environment()}\n\nCOMMAND --help says more of each command."


def _environment() -> str:
    return "\n".join(f"  {name:<18} {meaning}" for name, meaning in ENVIRONMENT.items())


class Formatter(argparse.HelpFormatter):
    """Fills descriptions to the width of the terminal, and leaves the lists below the options as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)
