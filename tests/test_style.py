"""The house: clean under ruff and mypy, imports in one direction, files of one idea, nothing left open."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: a package may import those before it
ORDER = ("pypto_ir", "egraph_rules", "extract", "pypto_eqsat")
SOURCES = sorted(file for package in ORDER for file in (ROOT / package).rglob("*.py"))
TEXTS = (".py", ".egg", ".md", ".toml", ".json", ".sh", "")
#: a folder of one machine, such as a home or a temporary folder
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(home|root|tmp|work|Users|mnt)/[A-Za-z.]")


def name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the project, environments, caches and build products left out."""
    for folder in (*ORDER, "benchmarks", "docs", "examples", "tests", ".ci"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.is_file() and file.suffix in TEXTS and "__pycache__" not in file.parts:
                yield file, file.read_text(encoding="utf-8")
    for file in sorted(ROOT.glob("*")):
        if file.is_file() and file.suffix in TEXTS:
            yield file, file.read_text(encoding="utf-8")


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, level=0):
                yield node.lineno, module or ""
            case ast.ImportFrom():
                pytest.fail(f"{name(file)}:{node.lineno}: relative import")


CHECKED = (*ORDER, "benchmarks", "tests")


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(("ruff", "check", "--quiet", *CHECKED), id="ruff-check"),
        pytest.param(("ruff", "format", "--quiet", "--check", *CHECKED), id="ruff-format"),
        pytest.param(("mypy", "--no-error-summary"), id="mypy"),
    ],
)
def test_tools_find_nothing(tool: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-m", *tool], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_packages_import_in_one_direction() -> None:
    wrong = []
    for file in SOURCES:
        allowed = ORDER[: ORDER.index(file.relative_to(ROOT).parts[0]) + 1]
        for line, module in imports(file):
            top = module.partition(".")[0]
            if top in ("tests", "benchmarks") or (top in ORDER and top not in allowed):
                wrong.append(f"{name(file)}:{line}: {module}")
    assert wrong == []


def test_only_the_engine_knows_egglog() -> None:
    engine = ROOT / "egraph_rules" / "engine.py"
    users = {name(file) for file in SOURCES for _, module in imports(file) if module.partition(".")[0] == "egglog"}
    assert users <= {name(engine)}
    assert [name(f) for f in SOURCES if f != engine and re.search(r"[\"']egglog(\.\w+)*[\"']", f.read_text())] == []


def test_slow_libraries_are_imported_where_they_are_used() -> None:
    """NumPy, ml_dtypes and networkx take longer to import than all of the packages."""
    slow = {"numpy", "ml_dtypes", "networkx"}
    found = [
        f"{name(file)}:{node.lineno}"
        for file in SOURCES
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if (isinstance(node, ast.Import) and any(a.name.partition(".")[0] in slow for a in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in slow)
    ]
    assert found == []


def test_every_module_says_what_it_is_and_can_be_read_in_one_sitting() -> None:
    long = {name(f): n for f in SOURCES if (n := len(f.read_text(encoding="utf-8").splitlines())) > 400}
    assert long == {}
    bare = [name(f) for f in SOURCES if (tree := ast.parse(f.read_text(encoding="utf-8"))).body and not ast.get_docstring(tree)]
    assert bare == []


def test_nothing_is_left_open() -> None:
    marks = re.compile(r"\b(TO" r"DO|FIX" r"ME)\b")
    assert [name(file) for file, text in texts() if marks.search(text)] == []


def test_no_text_holds_a_path_of_a_machine() -> None:
    found = [f"{name(f)}: {m[0]}" for f, text in texts() if f != Path(__file__) and (m := MACHINE_PATH.search(text))]
    assert found == []


@pytest.mark.parametrize("package", ORDER)
def test_packages_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()
