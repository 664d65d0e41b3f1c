"""The printed reference programs: read and written to the same bytes, as text and through program files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pypto_ir.formats import format_of, read_any, read_document, write_as
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.printed.program_reader import read_printed, read_text
from pypto_ir.printed.program_writer import write_text

SHARED = Path(__file__).parents[2].parent / "shared"
DUMPS = sorted((SHARED / "dumps").glob("*.py"))
KERNELS = sorted((SHARED / "kernels").glob("*.json"))


def text_of(path: Path) -> str:
    return path.read_bytes().decode()


def test_all_reference_texts_are_here() -> None:
    assert len(DUMPS) == 40


@pytest.mark.parametrize("path", DUMPS, ids=lambda p: p.name)
def test_reading_and_writing_gives_the_same_bytes(path: Path) -> None:
    text = text_of(path)
    assert write_text(read_text(text, path.name)) == text


@pytest.mark.parametrize("path", DUMPS, ids=lambda p: p.name)
def test_deduced_types_agree_with_every_annotation(path: Path) -> None:
    assert [str(w) for w in read_printed(text_of(path), path.name).warnings] == []


def test_texts_that_a_formatter_has_been_over_are_read_to_the_same_programs(tmp_path: Path) -> None:
    for path in DUMPS:
        (tmp_path / path.name).write_text(text_of(path), encoding="utf-8")
    for length in ("200", "80"):
        command = [sys.executable, "-m", "ruff", "format", "--quiet", "--isolated", "--line-length", length, str(tmp_path)]
        subprocess.run(command, check=True)
        for path in DUMPS:
            formatted = (tmp_path / path.name).read_text(encoding="utf-8")
            assert formatted != text_of(path)
            assert write_text(read_text(formatted, path.name)) == text_of(path)


@pytest.mark.parametrize("path", DUMPS, ids=lambda p: p.name)
def test_through_program_files_and_back(path: Path) -> None:
    text = text_of(path)
    program = read_text(text, path.name)
    json_text = write_program(program)
    again = read_program(json_text, f"{path.stem}.json")
    assert again == program
    assert write_text(again) == text
    assert write_program(read_text(write_text(again))) == json_text


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.name)
def test_kernels_through_printed_text_and_back(path: Path) -> None:
    program = read_any(path.read_text(encoding="utf-8"), path.name)
    text = write_as(program, "text")
    printed = read_printed(text)
    assert [str(w) for w in printed.warnings] == []
    assert write_text(printed.program) == text
    again = read_program(write_program(printed.program))
    assert write_text(again) == text
    assert again.target == program.target and {f.name for f in again.functions} == {f.name for f in program.functions}


def test_the_format_is_told_by_content() -> None:
    assert format_of(KERNELS[0].read_text()) == "json"
    assert {format_of(text_of(path)) for path in DUMPS} == {"text"}
    document = read_document(text_of(DUMPS[0]), DUMPS[0].name)
    assert document.format == "text" and document.program == read_text(text_of(DUMPS[0]))
