"""`pypto-eqsat extract`: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.pypto_eqsat.cli_support import cli

GRAPH = {
    "nodes": {
        "a": {"op": "f", "eclass": "A", "cost": 1, "children": ["b", "c"]},
        "b": {"op": "g", "eclass": "B", "cost": 2},
        "b2": {"op": "h", "eclass": "B", "cost": 0.5, "children": ["d"]},
        "c": {"op": "i", "eclass": "C", "cost": 0.5, "children": ["d"]},
        "d": {"op": "x", "eclass": "D", "cost": 1.25},
    },
    "root_eclasses": ["A"],
}


def test_the_choice_is_written_and_its_cost_is_said(tmp_path: Path) -> None:
    source, out = tmp_path / "graph.json.gz", tmp_path / "choice.json"
    source.write_bytes(gzip.compress(json.dumps(GRAPH).encode()))
    done = cli("extract", source, "-o", out)
    assert (done.code, done.err) == (0, "")
    assert done.out == "cost 3.25, lower bound 3.25, gap 0.00 %, optimal; greedy 3.25\n"
    assert json.loads(out.read_text()) == {
        "cost": 3.25,
        "lower_bound": 3.25,
        "gap": 0.0,
        "proof": "optimal",
        "greedy_cost": 3.25,
        "choices": {"A": "a", "B": "b2", "C": "c", "D": "d"},
    }


def test_the_same_bytes_come_out_of_every_process(tmp_path: Path) -> None:
    first, second = (cli("extract", "-", "-o", "-", stdin=json.dumps(GRAPH).encode()) for _ in range(2))
    assert first == second and json.loads(first.out)["proof"] == "optimal"


def test_bad_graphs_leave_no_file(tmp_path: Path) -> None:
    out = tmp_path / "choice.json"
    bad = json.dumps({"nodes": {"a": {"eclass": "A", "children": ["z"]}}, "root_eclasses": ["A"]}).encode()
    cli("extract", "-", "-o", out, stdin=bad).refused_with("G001")
    cli("extract", tmp_path / "absent.json").refused_with("U002")
    cli("extract", "-", "-o", tmp_path, stdin=bad).refused_with("U003")
    assert not out.exists()
