"""Printed programs from a few lines, for the tests of the printed form."""

from __future__ import annotations

import textwrap

from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.printed.program_writer import write_text
from pypto_ir.stmt import Program

INCORE = "type=pl.FunctionType.InCore, level=pl.Level.CHIP_DIE, role=pl.Role.SubWorker"
PARAMS = (
    "x: pl.Tensor[[64, 64], pl.FP32], n: pl.Scalar[pl.INDEX], i: pl.Scalar[pl.INT32], q: pl.Scalar[pl.BOOL], "
    "f: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]"
)


def function(body: str, params: str = PARAMS, returns: str = "", decorator: str = f"({INCORE})") -> str:
    """One function `f` of a class, indented."""
    arrow = f" -> {returns}" if returns else ""
    inner = textwrap.indent(textwrap.dedent(body).strip("\n"), "        ")
    return f"    @pl.function{decorator}\n    def k({params}){arrow}:\n{inner}"


def program(*functions: str, head: str = "") -> str:
    """A whole text."""
    return f"# pypto.program: P\nimport pypto.language as pl\n\n{head}@pl.program\nclass P:\n" + "\n".join(functions)


def text(body: str, **rest: str) -> str:
    """A program of one function with this body."""
    return program(function(body, **rest))


def read(source: str) -> Program:
    """A program that is read without a warning."""
    printed = read_printed(source, "p.py")
    assert [str(w) for w in printed.warnings] == []
    return printed.program


def body_of(source: str) -> str:
    """The canonical body of the function `k` of a text, without its indent."""
    written = write_text(read_printed(source, "p.py").program)
    lines = written.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("    def k("))
    return textwrap.dedent("\n".join(lines[start + 1 :]))


def assert_canonical(source: str) -> Program:
    """Text that reads and writes to the same bytes, through program files too."""
    result = read(source)
    assert write_text(result) == source
    again = read_program(write_program(result))
    assert again == result
    assert write_text(again) == source
    return result
