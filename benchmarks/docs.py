"""Parts of pages that are made from the code: every rewrite rule, every op, every code of a diagnostic, every module.

python -m benchmarks docs            writes docs/rules.md, docs/ops.md, docs/diagnostics.md and docs/architecture.md
python -m benchmarks docs --check    exit code 1 where they are out of date
"""

from __future__ import annotations

import argparse
import ast
import sys
from importlib import import_module
from itertools import groupby
from pkgutil import walk_packages

from benchmarks.pages import DOCS, generated, rewrite
from pypto_ir.ops.registry import OpDef

PACKAGES = ("pypto_ir", "egraph_rules", "extract", "pypto_eqsat")
_FAMILIES = {
    "J": "Reading program files",
    "P": "Reading printed programs",
    "S": "Names and scopes",
    "T": "Types and ops",
    "V": "The 2-D form, linear buffers and accumulators",
    "L": "Lowering",
    "B": "Boxes of MX scales",
    "G": "E-graphs of others",
    "M": "Memories of the target",
    "R": "Running a program",
    "U": "Command line, files and targets",
    "W": "Warnings",
    "X": "Faults of the optimiser",
}


def rules_text() -> str:
    """Every rewrite rule by rule file: equation, condition, counter-example."""
    from egraph_rules.catalogue import every_rule

    lines: list[str] = []
    for ruleset, members in groupby(every_rule(), key=lambda rule: rule.ruleset):
        lines += [f"## {ruleset}", ""]
        for rule in members:
            lines += [f"### {rule.name}", "", "```text", rule.equation, "```", ""]
            lines += [f"- when: {rule.condition}", f"- guards against: {rule.counterexample}", ""]
    return "\n".join(lines)


def ops_text() -> str:
    """Every declared op by name space: operands, keyword arguments, and what rules know of it."""
    from pypto_ir.ops.registry import all_ops

    lines: list[str] = []
    for space, members in groupby(all_ops(), key=lambda op: op.name.partition(".")[0]):
        lines += [f"## {space}", "", "| op | operands | keyword arguments | trait | about |", "|---|---|---|---|---|"]
        lines += [_op_row(op) for op in members]
        lines.append("")
    return "\n".join(lines)


def _op_row(op: OpDef) -> str:
    operands = ", ".join(f"[{o.name}]" if o.optional else o.name for o in op.operands) + (", .." if op.variadic else "")
    kwargs = ", ".join(f"{k.name}{'' if k.required else '?'}" for k in op.kwargs) + (" .." if op.open else "")
    about = [op.doc] if op.doc else []
    about += [f"writes {', '.join(op.operands[i].name for i in op.writes)} in place"] if op.writes else []
    about += [f"pages by `{op.page_op}`"] if op.page_op else []
    about += ["ordered against everything"] if op.barrier else []
    return f"| `{op.name}` | {_cell(operands)} | {_cell(kwargs)} | {op.trait.value} | {_cell('; '.join(about))} |"


def diagnostics_text() -> str:
    """Every code that some module declares, by its letter."""
    from pypto_ir.diagnostics import CODES

    for package in PACKAGES:
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    lines: list[str] = []
    for letter, codes in groupby(sorted(CODES), key=lambda code: code[0]):
        lines += [f"## {letter}: {_FAMILIES[letter]}", "", "| code | meaning |", "|---|---|"]
        lines += [f"| {code} | {_cell(CODES[code])} |" for code in codes]
        lines.append("")
    return "\n".join(lines)


def modules_text() -> str:
    """Every module and the first paragraph of its docstring."""
    lines: list[str] = []
    for package in PACKAGES:
        lines += [f"### {package}", "", "| module | what it is |", "|---|---|"]
        for file in sorted((DOCS.parent / package).rglob("*.py")):
            about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
            if about:
                name = file.relative_to(DOCS.parent).as_posix()
                first = " ".join(about.partition("\n\n")[0].split())
                lines.append(f"| `{name}` | {_cell(first)} |")
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


#: page -> (marker of its generated part, what the part should be)
PAGES = {
    "rules.md": ("rules", rules_text),
    "ops.md": ("ops", ops_text),
    "diagnostics.md": ("codes", diagnostics_text),
    "architecture.md": ("modules", modules_text),
}


def stale() -> list[str]:
    """The pages whose generated part is not what the code says."""
    return [name for name, (part, made) in PAGES.items() if generated((DOCS / name).read_text(encoding="utf-8"), part) != made().strip()]


def main(argv: list[str]) -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks docs", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a page is out of date")
    arguments = parser.parse_args(argv)
    old = stale()
    if arguments.check:
        for name in old:
            print(f"docs/{name} is out of date", file=sys.stderr)
        return 1 if old else 0
    for name in old:
        part, made = PAGES[name]
        rewrite(name, part, made())
        print(f"wrote docs/{name}")
    return 0
