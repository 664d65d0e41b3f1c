"""The rule-set experiment: what is left out, what is measured, what is written."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path

import pytest

from benchmarks import ablate
from benchmarks.ablate import ALL, Row, measured, summaries, table
from benchmarks.pages import DOCS, generated
from benchmarks.tables import csv_text
from egraph_rules.catalogue import UnknownRule, parts_of
from egraph_rules.engine import RULE_FILES
from egraph_rules.graph import saturated
from pypto_eqsat.batch.dask_pool import DaskPool
from pypto_eqsat.batch.local_pool import LocalPool
from pypto_eqsat.driver import optimize
from tests.helpers import SHARED, kernel
from tests.pypto_eqsat.cli_support import cli

KERNEL = SHARED / "kernels" / "add_3d.json"


def test_a_rule_goes_with_all_of_its_parts_and_a_file_with_its_rules() -> None:
    assert parts_of(["flat.load"]) == {"flat.load", "flat.load.obstacle"}
    assert parts_of(["flat.load.obstacle", "pages"]) == {"flat.load.obstacle", "pages"}
    with pytest.raises(UnknownRule, match=r"flat\.lod"):
        parts_of(["flat.lod"])


def test_what_is_left_out_does_not_fire() -> None:
    function = next(f for f in kernel("add_3d").functions if f.in_core)
    fired = saturated(function).report.rules_fired
    assert "flat.load" in fired
    fired = saturated(function, without=parts_of(["flatten"])).report.rules_fired
    assert fired and not any(name.startswith("flat.") for name in fired)


def test_without_a_rule_a_kernel_is_dearer_or_infeasible_and_the_row_says_so() -> None:
    program = kernel("add_3d")
    base, without = measured(program, "add_3d", ALL), measured(program, "add_3d", "flatten")
    assert base.cost == optimize(program).stats["cost"] and base.refused == ""
    assert without.cost is None and without.refused.startswith("L")
    by_pages = measured(program, "add_3d", "flat.load")
    assert by_pages.cost is None or by_pages.cost >= (base.cost or 0)


def test_summaries_compare_what_is_feasible_in_both() -> None:
    found = [
        Row(ALL, "a", 100.0, 100.0, 5, 10, 4, 1.0),
        Row(ALL, "b", 50.0, 50.0, 5, 10, 4, 1.0),
        Row("r", "a", 400.0, 400.0, 4, 8, 4, 0.5),
        Row("r", "b", None, None, None, None, None, 0.1, "L104"),
    ]
    (summary,) = summaries(found)
    assert (summary.cost, summary.dearer, summary.infeasible, summary.nodes, summary.seconds) == (pytest.approx(4.0), 1, 1, 0.8, 0.5)
    assert "| r | 4.000 | 1 | 1 | 0.80 | 0.50 |" in table(found)
    rows = list(csv.reader(io.StringIO(csv_text(found, Row))))
    assert rows[0][:3] == ["left_out", "kernel", "cost"] and rows[4] == ["r", "b", "", "", "", "", "", "0.1", "L104"]


def test_the_experiment_writes_table_csv_and_plot(tmp_path: Path) -> None:
    kernels, out = tmp_path / "kernels", tmp_path / "out"
    kernels.mkdir()
    (kernels / KERNEL.name).write_bytes(KERNEL.read_bytes())
    plots = True
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        plots = False
    given = ["--kernels", str(kernels), "--output", str(out), "--rule", "pages", "--rule", "flat.load"]
    assert ablate.main([*given, *([] if plots else ["--no-plot"])]) == 0
    assert sorted(file.name for file in out.iterdir()) == ["ablation.csv", "ablation.md", *(["ablation.png"] if plots else [])]
    lines = (out / "ablation.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["left_out", ALL, "pages", "flat.load"]


def told(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    """Rows without their times."""
    return [astuple(replace(row, seconds=0.0)) for row in rows]


def test_workers_find_what_this_process_finds() -> None:
    files = {name: (KERNEL.parent / f"{name}.json").read_bytes() for name in ("add_3d", "kv_cache_write")}
    programs = {name: kernel(name) for name in files}
    with LocalPool(1) as pool:
        found = list(ablate.gathered(pool, files, ["flatten", "flat.load"], 2))
    assert told(found) == told(ablate.rows(programs, ["flatten", "flat.load"], 1))
    assert all(row.seconds > 0 for row in found if row.cost is not None) and {row.refused for row in found} > {""}


def test_a_cluster_that_nobody_reaches_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(ablate, "DaskPool", partial(DaskPool, connect=0.5))
    assert ablate.main(["--rule", "pages", "--output", str(tmp_path), "--scheduler", "tcp://127.0.0.1:9", "--no-plot"]) == 2
    assert "error[U102]: no scheduler answered" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_the_written_table_has_every_rule_file() -> None:
    lines = generated((DOCS / "performance.md").read_text(), "ablation").splitlines()[2:]
    cells = {line.strip("| ").split(" | ")[0]: line for line in lines}
    assert set(cells) == set(RULE_FILES[2:])


def test_rules_are_left_out_on_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert cli("optimize", KERNEL, "-o", out, "--without-rule", "pages").code == 0
    cli("optimize", KERNEL, "-o", out, "--without-rule", "flat.lod").refused_with("U004")
