"""Files of the command line: whole or untouched, and reported before any work where they cannot be
written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cli_support import ADD, cli

from pypto_eqsat.files import UsageFault, check_writable, read_input, write_atomically
from pypto_ir.diagnostics import Refused
from pypto_ir.json_text import MAX_BYTES


def test_a_file_is_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    path.write_text("old")
    path.chmod(0o640)
    write_atomically(str(path), b"new")
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["o.json"]


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomically(str(tmp_path / "o.json"), b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "o.json").stat().st_mode) == 0o640


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_atomically(str(tmp_path / "link.json"), b"new")
    assert (tmp_path / "link.json").is_symlink() and (tmp_path / "real.json").read_bytes() == b"new"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "o.json"
    path.write_text("old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageFault, match="no space left"):
        write_atomically(str(path), b"new")
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["o.json"]


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "o.json"
    path.write_text("old")

    def interrupted(fd: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(str(path), b"new")
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["o.json"]


def test_checking_an_output_leaves_nothing_behind(tmp_path: Path) -> None:
    check_writable(str(tmp_path / "o.json"))
    check_writable("-")
    check_writable(os.devnull)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["none/o.json", ".", "file/o.json", "a\0b", "x" * 300 + ".json", "dir/"])
def test_an_output_that_cannot_be_written_is_code_2_before_any_work(path: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dir").mkdir()
    with pytest.raises(UsageFault) as caught:
        check_writable(str(tmp_path / path) + ("/" if path.endswith("/") else ""))
    assert caught.value.diagnostic.code == "U003"
    if "\0" in path:
        return  # no process can be given such an argument
    before = sorted(p.name for p in tmp_path.iterdir())
    for option in ("-o", "--stats"):
        # the input does not exist either: the output is looked at first
        done = cli("optimize", "missing.json", option, path, cwd=tmp_path)
        assert done.code == 2 and "[U003]" in done.err and "Traceback" not in done.err, done
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_a_refused_program_leaves_the_output_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    out.write_text("old")
    (tmp_path / "p.json").write_text('{"pypto_ir": 1}')
    done = cli("optimize", tmp_path / "p.json", "-o", out)
    assert done.code == 1 and out.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o.json", "p.json"]


def test_a_program_may_be_optimised_in_place(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(ADD.read_bytes())
    assert cli("optimize", path, "-o", path).code == 0
    assert cli("check", "--2d", path).code == 0


def test_result_and_statistics_need_two_places(tmp_path: Path) -> None:
    done = cli("optimize", ADD, "-o", tmp_path / "o", "--stats", tmp_path / "o")
    assert done.code == 2 and "[U001]" in done.err and not (tmp_path / "o").exists()


def test_devices_are_written_directly() -> None:
    assert cli("optimize", ADD, "-o", os.devnull).code == 0
    if Path("/dev/full").exists():
        done = cli("optimize", ADD, "-o", "/dev/full")
        assert done.code == 2 and "[U003]" in done.err and "no space" in done.err


@pytest.mark.parametrize("name", ["missing.json", ".", "a/b.json"])
def test_an_input_that_cannot_be_read_is_code_2(name: str, tmp_path: Path) -> None:
    for command in ("check", "run", "optimize"):
        done = cli(command, name, cwd=tmp_path)
        folder = (command, name) == ("optimize", ".")  # may be a folder, whose results need another
        assert done.code == 2 and f"[{'U001' if folder else 'U002'}]" in done.err and name in done.err and "Traceback" not in done.err, done


def test_a_huge_file_is_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(100 * 2**30)
    with pytest.raises(Refused) as caught:  # 100 GiB are more than any memory that reads them
        read_input(str(path))
    assert caught.value.diagnostics[0].code == "J001"
    assert MAX_BYTES < 100 * 2**20
