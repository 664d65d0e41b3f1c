"""What docs/explaining.md shows is what the commands give, and its names are those that there are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from test_docs import ROOT, environment, folder, steps

from pypto_eqsat.sarif import SUBJECTS

PAGE = (ROOT / "docs" / "explaining.md").read_text(encoding="utf-8")
__all__ = ["folder"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_commands_of_the_page_print_what_it_shows(folder: Path) -> None:
    code = 0
    for block in blocks("console"):
        for command, shown in steps(block):
            if command == "echo $?":
                assert f"{code}\n" == shown
                continue
            done = subprocess.run(
                ["sh", "-c", command], cwd=folder, env=environment(folder), stdout=-1, stderr=-2, text=True, timeout=120, check=False
            )
            code = done.returncode
            assert done.stdout == shown, command
    assert (folder / "report.html").stat().st_size > 10_000


def test_python_of_the_page_runs(folder: Path) -> None:
    (code,) = blocks("python")
    command = [sys.executable, "-c", f"{code}print(len(html))"]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=True)
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("scale_add ['x_tile', ") and int(last) > 10_000


def test_table_of_remarks_names_every_subject() -> None:
    table = PAGE.partition("| kind | name |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`([a-z.-]+)`", row.split("|")[2] if row.count("|") > 3 else "")}
    assert named == {
        *SUBJECTS,
        "accumulators.one-buffer",
        "accumulators.row-windows",
        "accumulators.bands",
        "accumulators.column-blocks",
        "accumulators.page-loops",
        "products.batch-loops",
        "products.open-loads",
    }
