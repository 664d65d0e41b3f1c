"""`optimize DIR`: the bytes of one by one, whatever happens to one program, a worker, the disk or the run itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_support import KERNELS, ROOT, cli

from benchmarks.scaling import straight_line
from pypto_eqsat import files
from pypto_eqsat.batch import engine, local_pool
from pypto_eqsat.batch.cache import Cache, key_of
from pypto_eqsat.batch.job import DIED, DONE, FAULT, REFUSED, Job, Outcome, perform
from pypto_eqsat.batch.local_pool import TRIES, LocalPool
from pypto_eqsat.batch.summary import line_of, table
from pypto_eqsat.cli import main
from pypto_eqsat.files import UsageFault
from pypto_eqsat.options import Options
from pypto_ir.diagnostics import CODES, Diagnostic, Place

NAMES = ("add_3d", "kv_cache_write", "softmax_tail_4d")
QUICK = Options(validate=False)


class Deadly(bytes):
    """Bytes that end the process which unpacks them, as a system without memory does."""

    def __reduce__(self) -> tuple[Any, ...]:
        return signal.raise_signal, (signal.SIGKILL,)


class DeadlyOnce(bytes):
    """Bytes that end the first process which unpacks them; `marker` is a file that remembers it."""

    marker = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return unpacked, (self.marker, bytes(self))


def unpacked(marker: str, data: bytes) -> bytes:
    if not os.path.exists(marker):
        Path(marker).touch()
        signal.raise_signal(signal.SIGKILL)
    return data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three kernels, one of them in a folder inside."""
    result = tmp_path / "in"
    (result / "inner").mkdir(parents=True)
    for name in NAMES:
        where = result / "inner" if name == NAMES[1] else result
        (where / f"{name}.json").write_bytes((KERNELS / f"{name}.json").read_bytes())
    return result


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that is not hidden, by its path."""
    found = (f for f in folder.rglob("*") if f.is_file() and not any(p.startswith(".") for p in f.relative_to(folder).parts))
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in found}


def one_by_one(folder: Path, to: Path) -> dict[str, bytes]:
    """What `optimize` gives for every program by itself, those that are refused left out."""
    for name in contents(folder):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        main(["optimize", str(folder / name), "-o", str(to / name)])
    return contents(to)


def test_bytes_are_those_of_one_by_one_and_the_table_tells_costs(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", str(folder), "-o", str(tmp_path / "out"), "--jobs", "2"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert contents(tmp_path / "out") == one_by_one(folder, tmp_path / "single")
    assert shown[0].split() == ["program", "before", "upstream", "after", "status"]
    assert [line.split()[0] for line in shown[1:4]] == sorted(contents(folder))
    assert all(line.endswith("done, optimal") for line in shown[1:4])
    assert shown[-1].startswith("3 programs: 3 done; cost ") and " where upstream's cost " in shown[-1]


def test_a_second_run_computes_nothing_and_gives_the_same(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["optimize", str(folder), "-o", str(tmp_path / "out"), "--jobs", "1", "--stats", str(tmp_path / "s.json")]
    assert main(given) == 0
    first, before = capsys.readouterr().out, contents(tmp_path / "out")
    monkeypatch.setattr(LocalPool, "_free", lambda self: pytest.fail("a process was started"))
    (tmp_path / "out" / f"{NAMES[0]}.json").unlink()
    assert main(given) == 0
    assert capsys.readouterr().out == first and contents(tmp_path / "out") == before
    stats = json.loads((tmp_path / "s.json").read_text())
    assert all(entry["cached"] and entry["proof"] == "optimal" for entry in stats.values()) and len(stats) == 3


def test_a_bad_program_stops_no_other_and_is_said(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.json").write_text('{"pypto_ir": 1, "functions": [{"name": 7}]}')
    (folder / "refused.json").write_bytes((ROOT / "examples" / "refused.json").read_bytes())
    (folder / "notes.txt").write_text("no program")
    given = ["optimize", str(folder), "-o", str(tmp_path / "out"), "--jobs", "2"]
    assert main(given) == 1
    done = capsys.readouterr()
    assert "refused, L001" in done.out and "5 programs: 3 done, 2 refused" in done.out
    assert f"{folder / 'bad.json'}:1:" in done.err and "kernel.py:7:4: error[L001]" in done.err
    assert sorted(contents(tmp_path / "out")) == sorted(("inner/kv_cache_write.json", "add_3d.json", "softmax_tail_4d.json"))
    again = cli(*given)  # refusals are kept as well, and said by a process that lowered nothing
    assert (again.code, again.out) == (1, done.out) and sorted(again.err.splitlines()) == sorted(done.err.splitlines())


def test_a_program_that_cannot_be_read_is_one_bad_program(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "gone.json").symlink_to("nowhere.json")
    assert main(["optimize", str(folder), "-o", str(tmp_path / "out"), "-q"]) == 1
    done = capsys.readouterr()
    assert done.out == "" and "[U002]" in done.err and len(contents(tmp_path / "out")) == 3


def test_results_inside_the_folder_of_programs_are_no_programs(folder: Path) -> None:
    for _ in range(2):
        assert main(["optimize", str(folder), "-o", str(folder / "out"), "--no-validate"]) == 0
        assert len(contents(folder / "out")) == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "U001"),
        (("-o", "file"), "U003"),
        (("-o", "/proc/none/o"), "U003"),
        (("-o", "o", "--cache", "file/c"), "U003"),
        (("-o", "o", "--stats", "none/s"), "U003"),
        (("-o", "o", "--without-rule", "nope"), "U004"),
        (("-o", "o", "--jobs", "0"), "U001"),
    ],
)
def test_what_cannot_work_is_said_before_any_work(
    arguments: tuple[str, ...], code: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert main(["optimize", str(folder), *arguments]) == 2
    assert f"[{code}]" in capsys.readouterr().err and contents(tmp_path / "o") == {}


def test_an_empty_folder_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    assert main(["optimize", str(tmp_path / "in"), "-o", str(tmp_path / "out")]) == 2
    assert "there is no program file in it" in capsys.readouterr().err


def test_a_full_disk_stops_the_run_and_keeps_what_is_finished(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, left = os.fsync, [3]  # a kept result and a result of the first program, and the kept one of the second

    def full(handle: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        sync(handle)

    given = ["optimize", str(folder), "-o", str(tmp_path / "out"), "--jobs", "1", "--no-validate"]
    monkeypatch.setattr(files.os, "fsync", full)
    assert main(given) == 2
    said = capsys.readouterr().err
    assert "[U003]: cannot be written: no space left on device" in said and "1 of 3 programs are finished" in said
    assert "Traceback" not in said and len(contents(tmp_path / "out")) == 1
    assert not [f for f in (tmp_path / "out").rglob("*.tmp")]
    monkeypatch.setattr(files.os, "fsync", sync)
    assert main(given) == 0 and len(contents(tmp_path / "out")) == 3


def test_a_killed_run_loses_nothing_that_was_finished(folder: Path, tmp_path: Path) -> None:
    (folder / "zz_long.json").write_text(straight_line(20_000))  # still at work when the run is killed
    out, stats = tmp_path / "out", tmp_path / "s.json"
    command = [sys.executable, "-m", "pypto_eqsat", "optimize", str(folder), "-o", str(out), "--jobs", "1"]
    run = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 200
    while len(contents(out)) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    children = _children(run.pid)
    run.kill()
    run.wait()
    _gone(children)  # nobody takes what they are at work on
    assert run.stderr is not None
    run.stderr.close()
    (folder / "zz_long.json").unlink()
    finished = contents(out)
    assert len(finished) == 3 and not list(out.rglob("*.tmp"))
    assert finished == {name: data for name, data in one_by_one(folder, tmp_path / "single").items()}
    assert cli("optimize", folder, "-o", out, "--stats", stats).code == 0
    assert [entry["cached"] for entry in json.loads(stats.read_text()).values()] == [True] * 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_how_to_go_on(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "long.json").write_text(straight_line(20_000))
    command = [sys.executable, "-m", "pypto_eqsat", "optimize", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--jobs", "1"]
    run = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not _children(run.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    children = _children(run.pid)
    run.send_signal(number)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130 and "note[U105]: interrupted: 0 of 1 programs are finished" in said and "Traceback" not in said
    _gone(children)


def _gone(children: list[int]) -> None:
    """There were children of a process, and they end before long."""
    deadline = time.monotonic() + 30
    while any(_alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert children and not any(_alive(child) for child in children)


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(n) for n in path.read_text().split()] if path.exists() else []


def _alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    try:
        return "State:\tZ" not in status.read_text()
    except OSError:
        return False


def test_a_worker_that_dies_costs_its_program_alone(tmp_path: Path) -> None:
    data = (KERNELS / "add_3d.json").read_bytes()
    jobs = [Job("a.json", data, QUICK), Job("b.json", Deadly(), QUICK), Job("c.json", data, QUICK)]
    with LocalPool(2) as pool:
        found = {job.name: outcome for job, outcome in pool.run(iter(jobs))}
    assert {name: outcome.status for name, outcome in found.items()} == {"a.json": DONE, "b.json": DIED, "c.json": DONE}
    (said,) = found["b.json"].diagnostics
    assert said.code == "U101" and f"signal 9, SIGKILL), {TRIES} times; the system does that" in said.message and "--jobs" in str(said.help)


def test_a_program_whose_worker_died_once_is_tried_again(tmp_path: Path) -> None:
    data = DeadlyOnce((KERNELS / "add_3d.json").read_bytes())
    data.marker = str(tmp_path / "died")
    with LocalPool(1) as pool:
        ((_, outcome),) = pool.run(iter([Job("a.json", data, QUICK)]))
    assert outcome.status == DONE and Path(data.marker).exists()


def test_a_process_is_replaced_after_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_pool, "LIFE", 2)
    started = []
    free = LocalPool._free

    def counted(self: LocalPool) -> Any:
        worker = free(self)
        started.append(worker.process.pid)
        return worker

    monkeypatch.setattr(LocalPool, "_free", counted)
    with LocalPool(1) as pool:
        found = [outcome.status for _, outcome in pool.run(Job(f"{i}.json", b"{}", QUICK) for i in range(5))]
    assert found == [REFUSED] * 5 and len(set(started)) == 3


def test_no_more_programs_are_read_than_are_at_work() -> None:
    drawn: list[int] = []

    def jobs() -> Any:
        for i in range(6):
            drawn.append(i)
            yield Job(f"{i}.json", b"{}", QUICK)

    with LocalPool(2) as pool:
        for done, _ in enumerate(pool.run(jobs()), 1):
            assert len(drawn) <= done + 2
    assert len(drawn) == 6


def test_a_key_is_what_the_result_depends_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("a.json", b"{}", Options())
    other_target = tmp_path / "t.json"
    other_target.write_text("1")
    different = [
        replace(job, data=b"{ }"),
        replace(job, name="a.py"),
        replace(job, options=Options(target="ascend950")),
        replace(job, options=Options(target=str(other_target))),
        replace(job, options=Options(without_rules=("pages",))),
        replace(job, options=Options(policy="upstream")),
        replace(job, options=Options(validate_seconds=1.0)),
    ]
    keys = [key_of(job), *map(key_of, different)]
    assert len(set(keys)) == len(keys)
    assert key_of(replace(job, name="inner/b.json")) == key_of(job)
    before = key_of(different[3])
    other_target.write_text("2")
    assert key_of(different[3]) != before, "the text of a target file counts"
    monkeypatch.setattr(engine, "installed", lambda name: "99")
    engine.engine_digest.cache_clear()
    try:
        assert key_of(job) != keys[0], "so do the versions of libraries"
    finally:
        monkeypatch.undo()
        engine.engine_digest.cache_clear()
    assert key_of(job) == keys[0]


def test_the_engine_is_the_text_of_its_modules_rules_and_targets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for package in engine.PACKAGES:
        (tmp_path / package).mkdir()
    (tmp_path / "extract" / "t.json").write_text("1")
    monkeypatch.setattr(engine, "__file__", str(tmp_path / "pypto_eqsat" / "batch" / "engine.py"))
    digests = set()
    for name, text in (("extract/t.json", "1"), ("extract/t.json", "2"), ("egraph_rules/a.egg", "1"), ("pypto_ir/a.py", "1")):
        (tmp_path / name).write_text(text)
        engine.engine_digest.cache_clear()
        digests.add(engine.engine_digest())
    monkeypatch.undo()
    engine.engine_digest.cache_clear()
    assert len(digests) == 4


def test_results_come_back_from_the_cache_as_they_went_and_damaged_ones_do_not(tmp_path: Path) -> None:
    cache, key = Cache(str(tmp_path / "c")), "ab" + "0" * 62
    said = (Diagnostic("W001", "slow", Place("f.json", 1, 2), "help"), Diagnostic("L001", "é"))
    outcome = Outcome(REFUSED, None, said, {"cost": 1.5}, {"L001": CODES["L001"]}, "e")
    assert cache.get(key) is None
    cache.put(key, outcome)
    assert cache.get(key) == outcome
    cache.put(key, Outcome(FAULT, None, said))
    assert cache.get(key) == outcome, "a fault is not kept"
    (entry,) = (tmp_path / "c").rglob("*.json")
    whole = entry.read_bytes()
    for damaged in (b"", whole[:-20], whole.replace(b"slow", b"fast"), b"[]", b'{"sha256": 1}'):
        entry.write_bytes(damaged)
        assert cache.get(key) is None


def test_a_fault_inside_is_the_outcome_of_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    import pypto_eqsat.driver as driver

    def broken(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(driver, "optimize", broken)
    outcome = perform(Job("a.json", (KERNELS / "add_3d.json").read_bytes(), QUICK))
    assert outcome.status == FAULT and outcome.diagnostics[0].code == "X900" and outcome.diagnostics[0].place.file == "a.json"
    assert "fault, X900" in table([line_of("a.json", outcome, False)])


def test_a_target_file_of_the_users_own_is_taken(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.json"
    own.write_text((ROOT / "extract" / "targets" / "ascend950.json").read_text())
    assert main(["optimize", str(folder / "add_3d.json"), "--target", str(own), "-o", str(tmp_path / "o.json")]) == 0
    assert main(["optimize", str(folder), "--target", str(own), "-o", str(tmp_path / "out"), "--no-validate"]) == 0
    assert main(["optimize", str(folder), "--target", "none.json", "-o", str(tmp_path / "o")]) in (1, 2)
    assert "[U301]" in capsys.readouterr().err


def test_an_output_folder_that_is_write_protected_is_said(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    with pytest.raises(UsageFault, match="write-protected"):
        Cache(str(tmp_path))
