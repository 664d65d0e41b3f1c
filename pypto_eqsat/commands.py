"""The commands behind the command line; each takes the parsed arguments and gives the exit code.

`check prog.json` prints `prog.json: 2 functions, 31 statements` or every diagnostic. `optimize` looks at its
output paths before it works, and writes them when all of the work is done.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pypto_eqsat.cli import DEBUG, DONE, LIMIT, REFUSED, debugging, internal, report, unexpected
from pypto_eqsat.files import (
    STANDARD,
    UsageFault,
    check_writable,
    display_name,
    read_input,
    say,
    write_atomically,
)
from pypto_eqsat.observe import observing, one_program_only
from pypto_eqsat.options import checked_rules, checked_target, options_of, unknown_name
from pypto_eqsat.watching import Watching
from pypto_ir.diagnostics import Diagnostic, Refused, Severity
from pypto_ir.formats import JSON, TEXT, Document, format_of_path, read_document, write_as
from pypto_ir.stmt import Program, walk


@dataclass(frozen=True, slots=True)
class Source:
    """A program and the text that it was read from, which gives diagnostics their lines."""

    document: Document
    name: str

    @property
    def program(self) -> Program:
        return self.document.program

    def located(self, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
        return self.document.located(diagnostics)

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Work on the program whose refusals get the lines of the file."""
        try:
            yield
        except Refused as refused:
            raise Refused(self.located(refused.diagnostics)) from None


def load(path: str) -> Source:
    """The program of a file or of standard input, in either form, not verified yet; what its reader warns of
    is printed."""
    from pypto_ir.json_text import decode

    name = display_name(path)
    document = read_document(decode(read_input(path), name), name)
    report(document.warnings)
    return Source(document, name)


def load_verified(path: str) -> Source:
    """A program that the verifier has nothing against; its warnings are printed. Raises `Refused`."""
    return verified(load(path))


def verified(source: Source) -> Source:
    """The same program, that the verifier has nothing against; its warnings are printed. Raises `Refused`."""
    from pypto_ir.verify import verify_program

    diagnostics = source.located(verify_program(source.program))
    if any(d.severity is Severity.ERROR for d in diagnostics):
        raise Refused(diagnostics)
    report(diagnostics)
    return source


def optimize(arguments: argparse.Namespace) -> int:
    if os.path.isdir(arguments.input):
        from pypto_eqsat.batch.command import optimize_folder

        one_program_only(arguments)
        return optimize_folder(arguments)
    output, stats = arguments.output, arguments.stats
    if stats is not None and stats == output:
        raise UsageFault("U001", "the result and --stats go to the same place", stats, "give --stats another file")
    options = options_of(arguments)
    check_writable(output)
    if stats is not None:
        check_writable(stats)
    with observing(arguments) as watched:
        source = watched.source = load(arguments.input)

        from pypto_eqsat.driver import optimize as optimize_program

        keywords = {**options.keywords(), "policy_cost": stats is not None, **watched.options}
        with Watching(arguments, source) as watching, source.locating(), reproducing(source.program):
            result = watched.result = optimize_program(source.program, **keywords, watch=watching.watch)
    report(source.located(result.diagnostics))
    format = format_of_path(output) or source.document.format
    write_atomically(output, write_as(result.program, format).encode())
    if stats is not None:
        write_atomically(stats, (json.dumps(result.stats, indent=1, ensure_ascii=False) + "\n").encode())
    watching.close(result)
    return LIMIT if result.limit_hit else DONE


def explain(arguments: argparse.Namespace) -> int:
    from pypto_eqsat.explain_command import explain_program

    options = {"target": checked_target(arguments.target), "without_rules": checked_rules(arguments.without_rule)}
    return explain_program(load(arguments.input), arguments, options)


@contextmanager
def reproducing(program: Program) -> Iterator[None]:
    """Keep the program of a fault inside the optimiser (a diagnostic with an X-code, or an exception that nobody expected) in a file of the
    current folder, named after its content, and say where it is."""
    try:
        yield
    except Refused as refused:
        if not any(d.code.startswith("X") for d in refused.diagnostics):
            raise
        found = refused.diagnostics
    except BaseException as fault:
        if debugging() or not unexpected(fault):
            raise
        found = (internal(fault),)
    else:
        return
    help = _reproducer(program)
    raise Refused([replace(d, help=help) if d.code.startswith("X") else d for d in found]) from None


def _reproducer(program: Program) -> str:
    """Write the program of a fault; what to do with it."""
    from pypto_ir.json_writer import write_program

    report_it = f"this is a fault of the optimiser: please report it with the version and the traceback that {DEBUG}=1 shows"
    try:
        data = write_program(program).encode()
        path = f"pypto-eqsat-{hashlib.sha256(data).hexdigest()[:12]}.json"
        check_writable(path)
        write_atomically(path, data)
    except UsageFault as fault:
        return f"{report_it}, and with the program ({fault.diagnostic.message})"
    except Refused:
        return f"{report_it}, and with the program"
    return f"{report_it}, and with {path}, which holds the program; pypto-eqsat reduce makes it smaller"


def diff(arguments: argparse.Namespace) -> int:
    from pypto_eqsat.diff_command import diff_programs

    return diff_programs(arguments)


def reduce(arguments: argparse.Namespace) -> int:
    from pypto_eqsat.reduce_command import reduce_program

    return reduce_program(arguments)


def completion(arguments: argparse.Namespace) -> int:
    from pypto_eqsat.cli import parser
    from pypto_eqsat.completion import script

    say(script(parser(), arguments.shell))
    return DONE


def convert(arguments: argparse.Namespace) -> int:
    output = arguments.output
    check_writable(output)
    source = load(arguments.input)
    other = TEXT if source.document.format == JSON else JSON
    format = arguments.to or format_of_path(output) or other
    write_atomically(output, write_as(source.program, format).encode())
    return DONE


def check(arguments: argparse.Namespace) -> int:
    source = load_verified(arguments.input)
    program = source.program
    count = len(program.functions)
    statements = sum(1 for f in program.functions for _ in walk(f.body))
    text = f"{source.name}: {count} function{'s' * (count != 1)}"
    if not arguments.two_d:
        say(f"{text}, {statements} statement{'s' * (statements != 1)}")
        return DONE
    found = _not_two_d(program)
    bad = [d for d in found if d.severity is Severity.ERROR]
    if not bad:
        say(f"{text}, 2-D")
        report(source.located(found))
        return DONE
    names = [f.name for f in program.functions if any(d.place.function == f.name for d in bad)]
    say(f"{text}, not 2-D: {', '.join(names)}")
    report(source.located(found))
    return REFUSED


def _not_two_d(program: Program) -> list[Diagnostic]:
    from extract.target import load_target
    from pypto_ir.verify import accumulators, linearity, tile_ops_2d

    result: list[Diagnostic] = []
    for i, function in enumerate(program.functions):
        if function.in_core:
            result += tile_ops_2d(function, ("functions", i))
            result += linearity(function, ("functions", i))
            result += accumulators(function, ("functions", i), reads=load_target(program.target).acc_reads)
    return result


def run(arguments: argparse.Namespace) -> int:
    from pypto_eqsat.run_command import run_function

    source = load_verified(arguments.input)
    with source.locating():
        return run_function(source.program, arguments)


def extract(arguments: argparse.Namespace) -> int:
    from pypto_eqsat.extract_command import extract_graph

    return extract_graph(arguments)


def rules(arguments: argparse.Namespace) -> int:
    from egraph_rules.catalogue import every_rule as all_rules

    wanted = arguments.name
    known = sorted(all_rules(), key=lambda rule: str(rule.name))
    chosen = [r for r in known if wanted is None or wanted in (r.name, *r.parts) or r.name.startswith(f"{wanted.rstrip('.')}.")]
    if not chosen:
        raise unknown_name("rule", wanted, [r.name for r in known])
    fields = ("name", "ruleset", "equation", "condition", "counterexample")
    rows = [{key: getattr(rule, key) for key in fields} for rule in chosen]
    if arguments.json:
        say(json.dumps(rows, indent=1, ensure_ascii=False))
        return DONE
    for i, row in enumerate(rows):
        say(("\n" if i else "") + f"{row['name']}  ({row['ruleset']})")
        for key in fields[2:]:
            if row[key]:
                lines = str(row[key]).strip().splitlines()
                say(f"  {key.replace('counterexample', 'guards against'):15} {lines[0].strip()}")
                for line in lines[1:]:
                    say(f"  {'':15} {line.strip()}")
    return DONE


def targets(arguments: argparse.Namespace) -> int:
    from extract.target import load_target, source_of
    from extract.target import targets as built_in

    if arguments.name is not None:
        load_target(arguments.name)
        say(source_of(arguments.name).rstrip())
        return DONE
    for name in built_in():
        known = load_target(name)
        say(f"{name}  {known.title}")
        for memory, its in known.memories.items():
            say(f"  {memory.value:12} {its.capacity:>9,} bytes, addresses by {its.allocation}")
    return DONE


def schema(_: argparse.Namespace) -> int:
    from pypto_ir.schema import schema_text

    write_atomically(STANDARD, schema_text().encode())
    return DONE
