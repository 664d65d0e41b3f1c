"""The passes on PyPTO's own programs, played by a module of the same surface, on texts and on programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers import SHARED, kernel

from pypto_eqsat import passes
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.json_writer import write_program
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.printed.program_writer import write_text
from pypto_ir.stmt import Program

DUMP = (SHARED / "dumps" / "elementwise.py").read_text()


class FakeProgram:
    """A `pypto.ir.Program`: made by the parser, printed by a method; `read_printed` stands for the parser itself."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def as_python(self, format: bool = True) -> str:
        assert format is False, "a formatter would run"
        return write_text(self.program)


def parse(text: str) -> FakeProgram:
    return FakeProgram(read_printed(text).program)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Puts a `pypto` with these names into `language` and `ir` in the place of whatever is installed."""

    def installed(language: dict[str, Any] | None = None, ir: dict[str, Any] | None = None) -> None:
        package = ModuleType("pypto")
        monkeypatch.setitem(sys.modules, "pypto", package)
        for name, content in (("language", {"parse": parse} if language is None else language), ("ir", ir or {"Program": FakeProgram})):
            module = ModuleType(f"pypto.{name}")
            vars(module).update(content)
            setattr(package, name, module)
            monkeypatch.setitem(sys.modules, f"pypto.{name}", module)

    yield installed


def test_a_program_of_pypto_comes_back_as_one(install: Callable[..., None]) -> None:
    install()
    for run in (passes.flatten_tile_nd_to_2d, passes.optimize):
        result = run(parse(DUMP), target="ascend910b")
        assert type(result) is FakeProgram
        assert result.as_python(format=False) == write_text(optimize(read_printed(DUMP).program, target="ascend910b").program)


def test_scales_are_blocked_after_tiles_are_flat(install: Callable[..., None]) -> None:
    install()
    before = FakeProgram(kernel("mx_expert"))
    flat = passes.flatten_tile_nd_to_2d(before)
    blocked = passes.block_mx_scale_tensor_views(flat)
    assert "mx_tensor_views_blocked" not in flat.as_python(format=False) and "mx_tensor_views_blocked" in blocked.as_python(format=False)
    assert passes.optimize(before).as_python(format=False) == blocked.as_python(format=False)


def test_what_does_not_change_is_the_same_object(install: Callable[..., None]) -> None:
    install()
    flat = passes.flatten_tile_nd_to_2d(parse(DUMP))
    assert passes.flatten_tile_nd_to_2d(flat) is flat
    program = kernel("rmsnorm_4d")
    once = passes.optimize(program)
    assert passes.optimize(once) is once
    text = write_text(once)
    assert passes.optimize(text) is text


def test_texts_and_programs_come_back_as_what_they_are() -> None:
    program = kernel("add_3d")
    lowered = optimize(program).program
    assert passes.optimize(program) == lowered
    assert passes.optimize(write_program(program)) == write_program(lowered)
    assert passes.optimize(write_text(program), target="ascend910b") == write_text(lowered)


def test_older_names_of_the_parser_and_of_the_printer_are_found(install: Callable[..., None]) -> None:
    class Bare:
        def __init__(self, program: Program) -> None:
            self.program = program

    def bare(text: str) -> Bare:
        return Bare(read_printed(text).program)

    install({"parse_program": bare}, {"Program": Bare, "python_print": lambda p: write_text(p.program)})
    assert type(passes.optimize(bare(DUMP))) is Bare


@pytest.mark.parametrize(
    ("language", "ir", "words"),
    [
        ({}, None, ("no parser of printed programs", "pypto.language.parse")),
        (None, {"Program": type("Program", (), {})}, ("no printer of programs", "as_python")),
        (None, {"Program": None}, ("found a ", "PyPTO is not installed")),
    ],
)
def test_what_pypto_lacks_is_said(language: Any, ir: Any, words: tuple[str, ...], install: Callable[..., None]) -> None:
    install(language, ir)
    given = ir["Program"]() if ir and ir["Program"] else parse(DUMP)
    with pytest.raises(Refused) as caught:
        passes.optimize(given)
    (found,) = caught.value.diagnostics
    assert found.code == "L901" and all(word in str(found) for word in words)


def test_without_pypto_only_its_own_programs_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pypto", "pypto.ir", "pypto.language"):
        monkeypatch.setitem(sys.modules, name, None)
    assert passes.optimize(DUMP) != DUMP
    for given in (parse(DUMP), 7, b"text"):
        with pytest.raises(Refused, match=r"L901.*found a "):
            passes.optimize(given)


def test_a_program_that_pypto_would_read_otherwise_does_not_leave(install: Callable[..., None]) -> None:
    def other(text: str) -> FakeProgram:
        return parse(text.replace("mode='ceil'", "mode='floor'"))

    def refusing(text: str) -> FakeProgram:
        raise ValueError("line 3: unexpected\nmore")

    cases = (
        (other, r"line \d+ was written as .*ceil.* and is printed as .*floor"),
        (refusing, "its parser refuses the lowered program: line 3: unexpected$"),
        (lambda text: text, "its parser gives a str"),
        (lambda text: Broken(read_printed(text).program), "is not read back"),
        (lambda text: parse(text[: text.rindex("    @pl.function")]), "are missing|was written as"),
    )
    for made, message in cases:
        install({"parse": made})
        with pytest.raises(Refused) as caught:
            passes.optimize(parse(DUMP))
        (found,) = caught.value.diagnostics
        assert found.code == "X005"
        assert re.search(message, found.message), found.message


class Broken(FakeProgram):
    def as_python(self, format: bool = True) -> str:
        return "@pl.program\nclass P:\n    oops"


def test_refusals_name_the_lines_of_the_text(tmp_path: Path) -> None:
    text = (SHARED / "dumps" / "views_nd.py").read_text().replace("4, 16, 64", "4, n, 64", 1)
    with pytest.raises(Refused) as caught:
        passes.optimize(text)
    assert caught.value.diagnostics[0].place.line is not None


def test_every_pass_says_what_it_asks_for_and_gives() -> None:
    assert passes.PROPERTIES["flatten_tile_nd_to_2d"].name == "FlattenTileNdTo2D"
    assert passes.PROPERTIES["block_mx_scale_tensor_views"].required[-2:] == ("TileOps2D", "NormalizedStmtStructure")
