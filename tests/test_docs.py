"""What README.md shows is what the commands give, and the generated pages say what the code declares."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.accumulating import LOOPS, WRITTEN_OUT
from benchmarks.docs import PAGES
from benchmarks.pages import generated, replaced
from pypto_eqsat import optimize
from pypto_eqsat.cli import parser
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOOLS = ("sh", "cat", "cksum", "basename", "dirname", "grep")


#: pages whose files are written and whose commands are run in order, word for word
GUIDES = ("first-program.md", "results.md", "targets.md", "writing-rules.md")


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def steps(block: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output shown below it."""
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = step.partition("\n")
        yield command, shown


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples in it and the command line on the path."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "bin").mkdir()
    for name, module in (("pypto-eqsat", "-m pypto_eqsat"), ("python", "")):
        tool = tmp_path / "bin" / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        tool.chmod(0o755)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def run_console(folder: Path, page: str = README) -> None:
    """Write the files of a page (`file=NAME` behind the language of a block) and run every command of its console blocks, all in order;
    compare what is printed with what is shown."""
    code = 0
    for info, block in re.findall(r"^```([^\n]+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        _, named, file = info.partition("file=")
        if named:
            (folder / file).write_text(block)
        for command, shown in steps(block) if info == "console" else ():
            if command == "echo $?":
                assert f"{code}\n" == shown
                continue
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=folder,
                env=environment(folder),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=240,
                check=False,
            )
            code = done.returncode
            assert done.stdout == shown, command


@pytest.mark.parametrize("name", GUIDES)
def test_commands_and_files_of_a_guide_do_what_it_shows(name: str, folder: Path) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert "```console\n$ " in page
    run_console(folder, page)


@pytest.mark.parametrize("name", sorted(file.name for file in (ROOT / "docs").glob("*.md")))
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "docs" / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_commands_of_the_readme_print_what_it_shows_and_the_lowered_body_is_the_one_shown(
    folder: Path,
) -> None:
    run_console(folder)
    before, after = blocks("json")
    shown = json.loads(f"[{before}]"), json.loads(f"[{after}]")
    source, result = (json.loads((folder / name).read_text()) for name in ("examples/scale_add.json", "lowered.json"))
    assert shown == (source["functions"][0]["body"], result["functions"][0]["body"])


def test_statistics_have_the_fields_of_the_readme(folder: Path) -> None:
    run_console(folder)
    stats = json.loads((folder / "stats.json").read_text())
    table = README.partition("`--stats FILE` writes JSON:")[2].partition("Exit codes")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert [name for cell in first for name in re.findall(r"`(\w+)`", cell)] == [
        "cost", "input_cost", "lower_bound", "gap", "proof",
        "policy_cost", "policy_reason", "validated", "seconds", "egraph", "rules_fired", "functions", "mx",
    ]  # fmt: skip
    assert sorted(stats) == sorted(name for cell in first for name in re.findall(r"`(\w+)`", cell))


def test_python_of_the_readme_runs(folder: Path) -> None:
    (code,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    program, _, last = done.stdout.rstrip("\n").rpartition("\n")
    assert read_program(program, "printed").target == "ascend910b"
    assert last.split()[0] in ("optimal", "bounded")


def test_readme_lists_every_command_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)[ `]", README.partition("## Commands")[2].partition("In Python")[0], re.MULTILINE)
    (commands,) = (action.choices for action in parser()._actions if action.choices)
    assert rows == list(commands)


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("name", ["scale_add", "softmax_rows"])
def test_examples_become_2d_programs_of_the_same_meaning(name: str) -> None:
    source = (ROOT / "examples" / f"{name}.json").read_text()
    program = read_program(source, name)
    assert write_program(program) == source, "examples are written as the writer writes them"
    result = optimize(program)
    assert result.program != program
    assert result.stats["validated"]["equal"] is True
    assert result.stats["validated"]["functions"][name]["runs"]


def project(folder: Path, python: str) -> Path:
    """A copy of what the set-up needs, with an environment that counts as installed."""
    root = folder / "a project"
    for part in ("examples", ".ci"):
        shutil.copytree(ROOT / part, root / part)
    shutil.copy(ROOT / "pyproject.toml", root)
    tool = root / ".venv" / "bin" / "python"
    tool.parent.mkdir(parents=True)
    tool.write_text(python)
    tool.chmod(0o755)
    stamp = subprocess.run(["cksum"], stdin=(root / "pyproject.toml").open(), capture_output=True, text=True, check=True)
    (root / ".venv" / ".installed-test").write_text(f"{stamp.stdout.strip()} {root}\n")
    return root


def test_examples_run_shows_input_and_result_from_any_folder_and_installs_once(tmp_path: Path) -> None:
    fake = f"""#!/bin/sh
case "$*" in *"pip install"*) echo "would install" >&2; exit 1;; esac
PYTHONPATH="{ROOT}" exec "{sys.executable}" "$@"
"""
    root = project(tmp_path, fake)
    done = subprocess.run([root / "examples" / "run"], cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    source = (root / "examples" / "scale_add.json").read_text()
    result = write_program(optimize(read_program(source, "scale_add.json")).program)
    assert done.stdout == (
        f"--- input: {root}/examples/scale_add.json\n{source}--- result of: pypto-eqsat optimize scale_add.json\n{result}"
    )
    (root / "pyproject.toml").write_text((root / "pyproject.toml").read_text() + "\n")
    done = subprocess.run([root / "examples" / "run"], cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "installing pypto-eqsat\nwould install\nrun: the installation failed\n"


def test_setup_without_a_python_says_what_it_needs(tmp_path: Path) -> None:
    root = project(tmp_path, "#!/bin/sh\nexit 1\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found
        (tools / name).symlink_to(found)
    done = subprocess.run([root / "examples" / "run"], env={"PATH": str(tools)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "needs Python 3.11 or later with venv" in done.stderr


@pytest.mark.parametrize("name", PAGES)
def test_generated_page_is_what_the_code_declares(name: str) -> None:
    part, made = PAGES[name]
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert generated(page, part) == made().strip(), "run: python -m benchmarks docs"


def test_replacing_a_part_keeps_the_rest_and_needs_its_markers() -> None:
    page = "a\n<!-- begin t -->\nold\n<!-- end t -->\nb\n"
    assert generated(replaced(page, "t", "new"), "t") == "new"
    assert replaced(page, "t", "old") == page
    with pytest.raises(ValueError, match="begin u"):
        replaced(page, "u", "new")


def test_performance_page_holds_a_measured_table() -> None:
    table = generated((ROOT / "docs" / "performance.md").read_text(encoding="utf-8"), "table")
    rows = [line.strip("| ").split("|") for line in table.splitlines() if line.startswith("|")][2:]
    bounded = [(float(row[3]), float(row[4])) for row in rows if len(row) == 5 and row[4].strip()]
    assert len(bounded) == 19
    assert all(ratio <= bound for ratio, bound in bounded)
    assert table.count("none of them") == 2


def test_performance_page_holds_accumulators_whose_time_does_not_depend_on_their_pages() -> None:
    table = generated((ROOT / "docs" / "performance.md").read_text(encoding="utf-8"), "accumulators")
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert [int(row[0]) for row in rows] == [*WRITTEN_OUT, *LOOPS]
    graphs = {row[1]: {r[2] for r in rows if r[1] == row[1]} for row in rows}
    assert all(len(found) == 1 for found in graphs.values())
    ratios = re.findall(r"over \d+: ([\d.]+) \(bound ([\d.]+)\)", table)
    assert len(ratios) == 3 and all(float(ratio) <= float(bound) for ratio, bound in ratios)


@pytest.mark.parametrize("script", ["examples/run", "tests/run", ".ci/run", ".ci/environment"])
def test_scripts_are_valid_sh(script: str) -> None:
    subprocess.run(["sh", "-n", ROOT / script], check=True)
    assert os.access(ROOT / script, os.X_OK) == script.endswith("run")
