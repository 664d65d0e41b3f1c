"""The scripts of `completion` in the shells themselves, where they are installed: what zsh and fish offer after a part of a command."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_support import cli

#: types a line into an interactive zsh and asks for the choices
_ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "autoload -U compinit; compinit -u -d dump; source script; PS1=; bindkey '^I' list-choices; LISTMAX=1000; print REA''DY"
zpty -r shell started '*READY*'
zpty -w -n shell "$1"$'\\t'
seen=
for i in {1..50}; do
    while zpty -r -t shell part; do seen+=$part; done
    [[ $seen == *$2* ]] && break
    sleep 0.2
done
print -r -- $seen
zpty -d shell
"""

CASES = [
    ("opt", "optimize", "lower a program"),
    ("optimize --pol", "--policy", "the program of least cost"),
    ("optimize --policy ", "upstream", "cheapest"),
    ("completion ", "fish", "zsh"),
    ("explain ", "program.json", "program.json"),
]


def choices(shell: str, line: str, expected: str, folder: Path) -> str:
    """What a shell prints as choices for `pypto-eqsat line`."""
    (folder / "script").write_text(cli("completion", shell).out, encoding="utf-8")
    (folder / "program.json").write_text("{}", encoding="utf-8")
    line = f"pypto-eqsat {line}"
    if shell == "fish":
        command = ["fish", "--no-config", "-c", f"source script; complete -C '{line}'"]
    else:
        command = ["zsh", "-f", "-c", _ZSH, "zsh", line, expected]
    environment = {**os.environ, "HOME": str(folder), "TERM": "dumb", "COLUMNS": "200"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize(("line", "first", "second"), CASES)
def test_a_shell_offers_what_the_command_line_takes(shell: str, line: str, first: str, second: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    seen = choices(shell, line, second, tmp_path)
    assert first in seen and second in seen, seen
