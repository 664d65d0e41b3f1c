"""What a person at a terminal sees, and what a file or a pipe gets."""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli_support import ADD, KERNELS, ROOT, cli
from helpers import kernel

from benchmarks.scaling import straight_line
from pypto_eqsat import driver, terminal
from pypto_eqsat.cli import main, parser
from pypto_eqsat.completion import SHELLS, script
from pypto_eqsat.manual import ENVIRONMENT, PAGES
from pypto_eqsat.terminal import Progress, coloured, duration, shown
from pypto_ir.diagnostics import Diagnostic, Place, Refused, Severity
from pypto_ir.json_reader import read_program


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "CLICOLOR_FORCE", "TERM"):
        monkeypatch.delenv(name, raising=False)


def commands() -> dict[str, Any]:
    (found,) = (action.choices for action in parser()._actions if action.choices)
    return dict(found)  # type: ignore[arg-type]


# colours and carets


@pytest.mark.parametrize(
    ("stream", "environment", "expected"),
    [
        (Tty(), {}, True),
        (Tty(), {"NO_COLOR": "1"}, False),
        (Tty(), {"NO_COLOR": ""}, True),
        (Tty(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"CLICOLOR_FORCE": "1"}, True),
        (io.StringIO(), {"CLICOLOR_FORCE": "0"}, False),
        (io.StringIO(), {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
        (None, {}, False),
    ],
)
def test_colours_are_for_terminals(stream: Any, environment: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert coloured(stream) is expected


def test_a_terminal_gets_the_line_of_the_file_with_a_caret(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text('{\n\t"pypto_ir": 2\n}\n')
    d = Diagnostic("J001", "too much", Place(str(file), 2, 14), "less", Severity.WARNING)
    assert shown(d, io.StringIO()) == str(d)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown(d, Tty()))
    assert text.splitlines() == [
        f"{file}:2:14: warning[J001]: too much",
        '  |  "pypto_ir": 2',
        "  |              ^",
        "  help: less",
    ]
    for place in (Place(str(file), 99, 1), Place(str(tmp_path / "none"), 1, 1), Place("x"), Place()):
        assert "^" not in shown(Diagnostic("J001", "m", place), Tty())


def test_long_lines_are_cut_around_the_caret(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text("x" * 5000 + "HERE" + "y" * 5000)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown(Diagnostic("J001", "m", Place(str(file), 1, 5001)), Tty())).splitlines()
    assert len(text[1]) < 200 and text[1][text[2].index("^") :].startswith("HERE")


# progress


def run_in_terminal(*arguments: str, seconds: float = 100.0, **environment: str) -> tuple[int, str]:
    """A command whose standard error is a terminal, and what that got."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **environment}
    command = [sys.executable, "-m", "pypto_eqsat", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=env) as run:
        os.close(theirs)
        parts = []
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:
                break
            if not data:
                break
            parts.append(data)
        os.close(ours)
        return run.wait(seconds), b"".join(parts).decode()


def test_long_work_shows_its_progress_on_a_terminal_and_takes_it_away(tmp_path: Path) -> None:
    long = tmp_path / "long.json"
    long.write_text(straight_line(2_000))
    code, said = run_in_terminal("optimize", str(long), "-o", str(tmp_path / "o.json"), "--choice-seconds", "3", "--no-validate")
    assert code in (0, 3)
    lines = [part for part in said.split("\r") if part.strip()]
    assert any(re.match(r"long\.json: lowering kernel, \d+ s", line) for line in lines)
    assert said.endswith("\r") or "W002" in said


def test_progress_waits_is_shown_and_goes() -> None:
    stream = Tty()
    with Progress(lambda: "3 of 9", stream, patience=0.0):
        deadline = time.monotonic() + 20
        while "3 of 9" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert stream.getvalue().startswith("\r3 of 9") and stream.getvalue().endswith("\r      \r")
    for stream, patience in ((Tty(), 100.0), (io.StringIO(), 0.0)):
        with Progress(lambda: "text", stream, patience=patience):
            time.sleep(3 * terminal.PERIOD)
        assert stream.getvalue() == ""


def test_durations_are_said_as_people_say_them() -> None:
    assert [duration(s) for s in (0.4, 59.4, 60, 200, 3600, 7500)] == ["0 s", "59 s", "1 min 0 s", "3 min 20 s", "1 h 0 min", "2 h 5 min"]


# more and less


def test_verbose_tells_what_is_done_and_gained_and_quiet_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["optimize", str(KERNELS / "expert_gate.json"), "-o", str(tmp_path / "o.json")]
    assert main([*given, "-v"]) == 0
    said = capsys.readouterr().err
    assert "expert_gate.json: lowering " in said and "comparing input and result" in said
    assert re.search(r"cost [\d,.]+ before, [\d,.]+ after, optimal\n$", said)
    assert main(given) == 0 and capsys.readouterr().err == ""


def test_quiet_leaves_out_warnings_and_keeps_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    warning = Diagnostic("W001", "slow", severity=Severity.WARNING)
    monkeypatch.setattr(driver, "optimize", lambda p, **_: driver.Result(p, {}, (warning,)))
    given = ["optimize", str(ADD), "-o", str(tmp_path / "o.json")]
    assert main(given) == 0 and "W001" in capsys.readouterr().err
    assert main([*given, "-q"]) == 0 and capsys.readouterr().err == ""
    assert main([*given, "-q", "--target", "none"]) == 2
    assert main(["check", "missing.json"]) == 2 and capsys.readouterr().err.count("error[U00") == 2


def test_times_of_every_phase_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", str(ADD), "-o", str(tmp_path / "o.json"), "--timing"]) == 0
    rows = [line.split() for line in capsys.readouterr().err.splitlines()]
    times = {row[0]: float(row[1]) for row in rows}
    assert {"verify", "saturate", "validate", "total"} <= times.keys()
    assert sum(t for phase, t in times.items() if phase != "total") <= times["total"] * 1.01


def test_programs_between_phases_are_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = KERNELS / "mx_expert.json"
    given = ["optimize", str(source), "-o", str(tmp_path / "o.json"), "--no-validate"]
    assert main([*given, "--print-after", "all"]) == 0
    parts = capsys.readouterr().err.split("--- after ")[1:]
    texts = {head: text for head, _, text in (part.partition("\n") for part in parts)}
    assert list(texts) == ["read", "flatten", "mx"]
    assert read_program(texts["read"]) == read_program(source.read_text())
    assert read_program(texts["mx"]) == read_program((tmp_path / "o.json").read_text()) != read_program(texts["flatten"])
    assert main([*given, "--print-after", "flatten", "--stage", "mx"]) == 0 and capsys.readouterr().err == ""
    assert main([*given, "--print-after", "nope"]) == 2


# faults


class PanicException(BaseException):
    """As the bindings of a library in Rust raise it."""


@pytest.mark.parametrize("fault", [KeyError("lost"), RecursionError("deep"), MemoryError(), PanicException("left == right")])
def test_a_fault_inside_leaves_a_reproducer_and_no_traceback(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYPTO_EQSAT_DEBUG", raising=False)
    monkeypatch.setattr(driver, "optimize", broken)
    assert main(["optimize", str(ADD), "-o", "o.json"]) == 1
    said = capsys.readouterr().err
    (kept,) = tmp_path.iterdir()
    assert "error[X900]: internal fault in " in said and kept.name in said and "PYPTO_EQSAT_DEBUG=1" in said and "Traceback" not in said
    assert read_program(kept.read_text()) == kernel("add_3d")
    monkeypatch.setenv("PYPTO_EQSAT_DEBUG", "1")
    with pytest.raises(type(fault)):
        main(["optimize", str(ADD), "-o", "o.json"])


def test_a_reproducer_that_cannot_be_written_is_no_second_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import pypto_eqsat.commands as commands_module
    from pypto_eqsat.files import UsageFault

    def full(path: str) -> None:
        if path.startswith("pypto-eqsat-"):
            raise UsageFault("U003", "cannot be written: no space left on device", path)

    def broken(*_: object, **__: object) -> None:
        raise Refused([Diagnostic("X003", "wrong")])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands_module, "check_writable", full)
    monkeypatch.setattr(driver, "optimize", broken)
    assert main(["optimize", str(ADD), "-o", "o.json"]) == 1
    assert "no space left on device" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("wait", [0.1, 0.4])
def test_an_interrupted_run_leaves_no_part_of_a_file(number: signal.Signals, wait: float, tmp_path: Path) -> None:
    source, out = tmp_path / "long.json", tmp_path / "o.json"
    source.write_text(straight_line(5_000))
    out.write_text("as it was")
    command = [sys.executable, "-m", "pypto_eqsat", "optimize", str(source), "-o", str(out), "--stats", str(tmp_path / "s.json")]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True) as run:
        time.sleep(wait)
        run.send_signal(number)
        _, said = run.communicate(timeout=100)
    assert run.returncode in (130, -number) and "Traceback" not in said.partition("KeyboardInterrupt")[0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["long.json", "o.json"] and out.read_text() == "as it was"


_WRITER = """
import sys
from pypto_eqsat.files import write_atomically
data = [bytes([65 + i]) * 40_000_000 for i in range(2)]
print("ready", flush=True)
while True:
    for part in data:
        write_atomically(sys.argv[1], part)
"""


def test_a_process_killed_while_it_writes_leaves_a_whole_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "o"
    path.write_bytes(b"A" * 40_000_000)
    for wait in (0.0, 0.02, 0.05, 0.11):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], env=environment, stdout=subprocess.PIPE) as run:
            assert run.stdout is not None and run.stdout.readline() == b"ready\n"
            time.sleep(wait)
            run.kill()
        data = path.read_bytes()
        assert len(data) == 40_000_000 and data.count(data[:1]) == len(data)
        if hasattr(os, "O_TMPFILE"):
            left = [p for p in tmp_path.iterdir() if p != path]
            assert all(p.stat().st_size == 40_000_000 for p in left), "only what is whole may have a name"
            for p in left:
                p.unlink()


# help and completion


def test_every_command_has_a_page_with_examples_that_parse(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(commands()) <= set(PAGES)
    for name in commands():
        page = PAGES[name]
        assert main([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"usage: pypto-eqsat {name}") and "exit codes:\n  0 " in text
        assert all(variable in text for variable in ENVIRONMENT)
        for what, command in page.examples:
            assert f"  {what}:\n    {command}\n" in text
            words = re.search(r"pypto-eqsat ([^<>|)]*)", command)
            assert words, command
            arguments = shlex.split(words[1].strip().rstrip('"'))
            assert arguments[0] == name
            parser().parse_args(arguments)


def test_help_of_all_names_exit_codes_and_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "Exit codes:\n  0    done\n" in text and "NO_COLOR" in text


def complete(words: list[str], folder: Path) -> list[str]:
    """What bash offers for the last word of a command line."""
    line = " ".join(f"'{w}'" for w in words)
    code = (
        f"{script(parser(), 'bash')}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}\n_pypto_eqsat\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(["bash", "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_words_and_files(tmp_path: Path) -> None:
    (tmp_path / "prog.json").touch()
    (tmp_path / "results").mkdir()
    assert set(complete(["pypto-eqsat", ""], tmp_path)) == {*commands(), "--help", "--version"}
    assert complete(["pypto-eqsat", "opt"], tmp_path) == ["optimize"]
    assert complete(["pypto-eqsat", "optimize", "--pol"], tmp_path) == ["--policy"]
    assert complete(["pypto-eqsat", "optimize", "--policy", "u"], tmp_path) == ["upstream"]
    assert complete(["pypto-eqsat", "optimize", "-o", "p"], tmp_path) == ["prog.json"]
    assert complete(["pypto-eqsat", "optimize", "pr"], tmp_path) == ["prog.json"]
    assert complete(["pypto-eqsat", "optimize", "x", "--cache", ""], tmp_path) == ["results"]
    assert complete(["pypto-eqsat", "optimize", "--jobs", ""], tmp_path) == []
    assert complete(["pypto-eqsat", "completion", ""], tmp_path) == list(SHELLS)


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_name_every_command_and_option_and_are_taken_by_their_shell(shell: str) -> None:
    done = cli("completion", shell)
    assert done.code == 0 and done.out.rstrip("\n") == script(parser(), shell)
    for name, command in commands().items():
        assert name in done.out
        for action in command._actions:
            for spelling in action.option_strings:
                assert (spelling if shell != "fish" else spelling.lstrip("-")) in done.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=done.out, text=True, check=True)
