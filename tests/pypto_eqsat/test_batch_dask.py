"""The same on a Dask cluster: bytes, dead workers, a scheduler that is not there or goes away, workers of another version."""

from __future__ import annotations

import csv
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_support import KERNELS, ROOT

from benchmarks import ablate
from pypto_eqsat.batch import dask_pool
from pypto_eqsat.batch.dask_pool import DaskPool
from pypto_eqsat.batch.job import DIED, DONE, FAULT, Job, Outcome, perform
from pypto_eqsat.cli import main
from pypto_eqsat.files import UsageFault
from pypto_eqsat.options import Options

distributed = pytest.importorskip("distributed")
ADD = (KERNELS / "add_3d.json").read_bytes()
QUICK = Options(validate=False)


def started(**options: Any) -> Any:
    return distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50, **options)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes, which give a program up when it killed two. They come back however long that takes: by default, a cluster on
    one machine takes those that are not there 15 seconds after they died for lost."""
    import dask

    settings = {"distributed.scheduler.allowed-failures": 1, "distributed.deploy.lost-worker-timeout": "1 hour"}
    with dask.config.set(settings), started(processes=True) as result:
        yield result


def perform_or_die(job: Job) -> Outcome:
    if job.data == b"die":
        os.kill(os.getpid(), signal.SIGKILL)
    return perform(job)


def perform_elsewhere(job: Job) -> Outcome:
    return replace(perform(job), engine="another")


def test_a_cluster_gives_the_bytes_of_this_machine(cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    for name in ("add_3d", "kv_cache_write"):
        (tmp_path / "in" / f"{name}.json").write_bytes((KERNELS / f"{name}.json").read_bytes())
    (tmp_path / "in" / "bad.json").write_text("{}")
    tables = []
    for out, how in (("here", ("--jobs", "1")), ("there", ("--scheduler", cluster.scheduler_address))):
        assert main(["optimize", str(tmp_path / "in"), "-o", str(tmp_path / out), *how]) == 1
        tables.append(capsys.readouterr())
    assert tables[0] == tables[1] and "3 programs: 2 done, 1 refused" in tables[0].out
    for file in (tmp_path / "here").glob("*.json"):
        assert (tmp_path / "there" / file.name).read_bytes() == file.read_bytes()


def test_a_rule_set_experiment_runs_on_a_cluster(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "add_3d.json").write_bytes(ADD)
    asked = ["--kernels", str(tmp_path / "in"), "--rule", "flat.load", "--no-plot"]
    lines = []
    for out, how in (("here", []), ("there", ["--scheduler", cluster.scheduler_address])):
        assert ablate.main([*asked, "--output", str(tmp_path / out), *how]) == 0
        with (tmp_path / out / "ablation.csv").open() as file:
            lines.append([{**row, "seconds": ""} for row in csv.DictReader(file)])
    assert lines[0] == lines[1] and [row["left_out"] for row in lines[0]] == [ablate.ALL, "flat.load"]


def test_a_program_that_kills_workers_is_given_up_and_others_are_not(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_pool, "perform", perform_or_die)
    jobs = [Job("a.json", ADD, QUICK), Job("b.json", b"die", QUICK), Job("c.json", ADD, QUICK)]
    with DaskPool(cluster.scheduler_address) as pool:
        found = {job.name: outcome for job, outcome in pool.run(iter(jobs))}
    assert (found["b.json"].status, found["b.json"].diagnostics[0].code) == (DIED, "U101")
    assert "died" in found["b.json"].diagnostics[0].message
    assert {found["a.json"].status, found["c.json"].status} == {DONE}


def test_workers_of_another_version_are_said(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_pool, "perform", perform_elsewhere)
    with DaskPool(cluster.scheduler_address) as pool:
        ((_, outcome),) = pool.run(iter([Job("a.json", ADD, QUICK)]))
    assert outcome.status == FAULT and outcome.diagnostics[0].code == "U104" and "digest another, here" in outcome.diagnostics[0].message


def test_threads_of_one_worker_do_not_meet_in_an_e_graph() -> None:
    jobs = [Job(f"{i}.json", ADD, QUICK) for i in range(6)]
    with started(processes=False) as small, DaskPool(small.scheduler_address) as pool:
        outcomes = [outcome for _, outcome in pool.run(iter(jobs))]
    assert {(o.status, o.output) for o in outcomes} == {(DONE, perform(jobs[0]).output)}


_CLUSTER = """
import sys
from distributed import LocalCluster
address = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0").scheduler_address
print(address, flush=True)
sys.stdin.read()
"""


def test_a_scheduler_that_dies_stops_the_run() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    jobs = iter([Job(f"{i}.json", ADD, QUICK) for i in range(1000)])
    with subprocess.Popen([sys.executable, "-c", _CLUSTER], env=environment, text=True, **pipes) as machine:
        assert machine.stdout is not None
        with (
            DaskPool(machine.stdout.readline().strip(), connect=60) as pool,
            pytest.raises(UsageFault, match="the scheduler was lost") as caught,
        ):
            for number, _ in enumerate(pool.run(jobs)):
                if number == 1:
                    machine.kill()
    assert caught.value.diagnostic.code == "U102" and "what is finished is kept" in str(caught.value.diagnostic.help)


def test_nobody_at_the_address_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_pool, "CONNECT", 0.5)
    monkeypatch.setattr(DaskPool.__init__, "__defaults__", (0.5, 0.5))
    for address in ("tcp://127.0.0.1:9", "nonsense", "tcp://127.0.0.1"):
        with pytest.raises(UsageFault) as caught:
            DaskPool(address)
        assert caught.value.diagnostic.code == "U102"
        del caught
        gc.collect()  # a client that came to nothing closes when it is collected; in the thread of the next one, it would wait for itself
    (tmp_path / "add.json").write_bytes(ADD)
    assert main(["optimize", str(tmp_path), "-o", str(tmp_path / "o"), "--scheduler", "tcp://127.0.0.1:9"]) == 2
    said = capsys.readouterr().err
    assert "tcp://127.0.0.1:9: error[U102]: no scheduler answered" in said and "0 of 1 programs are finished" in said


def test_a_cluster_without_workers_is_said() -> None:
    empty = distributed.LocalCluster(n_workers=0, dashboard_address=":0", processes=False, silence_logs=50)
    with empty, DaskPool(empty.scheduler_address, workers=0.3) as pool, pytest.raises(UsageFault, match="no worker came"):
        list(pool.run(iter([Job("a.json", ADD, QUICK)])))


def test_a_cluster_that_loses_its_last_worker_stops_the_run() -> None:
    jobs = iter([Job(f"{i}.json", ADD, QUICK) for i in range(1000)])
    with (
        started(processes=False) as shrinking,
        DaskPool(shrinking.scheduler_address, workers=0.3) as pool,
        pytest.raises(UsageFault, match=r"no worker is left, and none came within 0\.3 s") as caught,
    ):
        for number, _ in enumerate(pool.run(jobs)):
            if number == 1:
                shrinking.scale(0)
    assert caught.value.diagnostic.code == "U102"


def test_a_missing_extra_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    (tmp_path / "add.json").write_bytes(ADD)
    assert main(["optimize", str(tmp_path), "-o", str(tmp_path / "o"), "--scheduler", "tcp://127.0.0.1:9"]) == 2
    said = capsys.readouterr().err
    assert "error[U103]: --scheduler needs the package distributed" in said and "pip install 'pypto-eqsat[dask]'" in said
