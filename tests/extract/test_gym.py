"""E-graphs in the form of extraction-gym: read with every fault told, extracted as well as is known."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from extract.gym import best, read_gym
from pypto_ir.diagnostics import Refused
from tests.helpers import SHARED

GRAPHS = SHARED / "egraphs"
#: what is proved best in moments, with its cost (README.md of the folder)
PROVED = {
    "eggcc-bril-fib_shape.bril": 51,
    "flexc-03d369d0-bb23-477a-8ea1-a452efc850fe": 36,
    "flexc-5cd5008c-4481-4751-90cf-0a0e23cd3d30": 136,
    "impress-mul512": 136680,
    "rover-mcm_3_7_21_original_8iteration_egraph": 1050,
    "tensat-resnet50": 4.38579496,
    "egg-lambda_fib": 1,
}


def graph(**nodes: dict[str, Any]) -> dict[str, Any]:
    return {"nodes": nodes, "root_eclasses": ["A"]}


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def refused(data: bytes) -> list[str]:
    with pytest.raises(Refused) as caught:
        best(read_gym(data, "g.json"), 1.0, "g.json")
    return [f"{d.place}: {d.code}" for d in caught.value.diagnostics]


def test_children_name_nodes_and_mean_their_classes() -> None:
    value = graph(
        a={"op": "f", "eclass": "A", "cost": 0.5, "children": ["dear", "dear"]},
        dear={"op": "x", "eclass": "B", "cost": 4},
        cheap={"op": "y", "eclass": "B", "cost": 0.25},
        unused={"op": "z", "eclass": "C", "subsumed": False, "else": 1},
    )
    result = best(read_gym(encoded(value)), 10.0)
    assert result.choices == {"A": "a", "B": "cheap"}
    assert (result.cost, result.bound, result.optimal, result.gap) == (0.75, 0.75, True, 0.0)


def test_subsumed_nodes_are_never_taken() -> None:
    value = graph(a={"eclass": "A", "cost": 1, "subsumed": True}, b={"eclass": "A", "cost": 9})
    assert best(read_gym(encoded(value)), 10.0).choices == {"A": "b"}


def test_a_class_is_paid_once_and_costs_of_decimal_fractions_add_up() -> None:
    value = graph(
        a={"eclass": "A", "cost": 0.1, "children": ["b", "c"]},
        b={"eclass": "B", "cost": 0.2, "children": ["d"]},
        c={"eclass": "C", "cost": 0.3, "children": ["d"]},
        d={"eclass": "D", "cost": 0.7},
    )
    assert best(read_gym(encoded(value)), 10.0).cost == pytest.approx(1.3)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_everything_that_is_wrong_is_told_with_its_place(pack: Any) -> None:
    value = {
        "nodes": {
            "a": {"children": ["b", "zz", 3], "eclass": 7, "cost": -1, "subsumed": "no"},
            "b": {"cost": "2"},
            "c": 7,
            "d": {"eclass": "D", "children": ["q", "c"], "cost": 1e300},
            "e": {"eclass": "E", "children": ["q"]},
        },
        "root_eclasses": ["Q", 4],
    }
    where = [line.partition(" ")[2] for line in refused(pack(encoded(value)))]
    assert where == [
        "$.nodes.a.children[2]: J101",
        "$.nodes.a.eclass: J101",
        "$.nodes.a.cost: G002",
        "$.nodes.a.subsumed: J101",
        "$.nodes.b: J103",
        "$.nodes.c: J101",
        "$.nodes.d.cost: G002",
        "$.nodes.e.children[0]: G001",
        "$.root_eclasses[0]: G001",
        "$.root_eclasses[1]: J101",
    ]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (encoded([]), ["g.json:1:1 $: J101"]),
        (encoded({"nodes": {}}), ["g.json:1:1 $: J103"]),
        (encoded({"nodes": [], "root_eclasses": []}), ["g.json:1:11 $.nodes: J101"]),
        (b'{"nodes": {"a": {"eclass": "A", "eclass": "B"}}, "root_eclasses": ["B"]}', ["g.json:1:33 $.nodes.a.eclass: J005"]),
        (b"{", ["g.json:1:2: J003"]),
        (gzip.compress(b"{}" * 500, mtime=0)[:-9], ["g.json: G004"]),
        (b"\x1f\x8bnonsense", ["g.json: G004"]),
        (encoded(graph(a={"eclass": "A", "children": ["a"]})), ["g.json $.root_eclasses: G003"]),
    ],
)
def test_files_that_are_no_e_graphs_are_refused(data: bytes, found: list[str]) -> None:
    assert refused(data) == found


@pytest.mark.parametrize("name", PROVED)
def test_public_graphs_are_proved_best(name: str) -> None:
    result = best(read_gym((GRAPHS / f"{name}.json.gz").read_bytes()), 120.0)
    assert result.optimal
    assert result.cost == pytest.approx(PROVED[name], rel=1e-6)
