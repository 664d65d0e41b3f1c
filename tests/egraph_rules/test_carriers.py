"""What the carriers of small programs hold: with one condition of a rule left out, some class has a node more; with one action left out,
a node less.

New rules add nodes: `PYTHONPATH=. python tests/egraph_rules/test_carriers.py` states what is held anew, for its author to look through.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from carrier_programs import PROGRAMS

from egraph_rules.graph import ENode, Graph, saturated
from pypto_ir.stmt import Function


def nodes(graph: Graph, c: int | None) -> str:
    """The nodes of a class by name, with what their operands are spread from and to; `-` where nobody asked for it, `nothing` where it has
    none."""
    if c is None:
        return "-"
    return " ".join(sorted(_text(graph, n) for n in graph.classes.get(c, ()))) or "nothing"


def _text(graph: Graph, node: ENode) -> str:
    if node.name not in ("OpEach", "AccCols"):
        return node.name
    spread = [n.data for c in node.children for n in graph.classes.get(c, ()) if n.name == "Spread"]
    return f"{node.name}({', '.join(f'{list(one)} to {list(two)}' for one, two in spread)})"


def held(function: Function) -> list[str]:
    """Of each value the nodes of its flat form, its pages, and its pages side by side, and after `!` what keeps it from a flat form;
    then the nodes of each store."""
    graph = saturated(function)
    found = []
    for name, number in graph.encoded.numbers.items():
        if name not in ("beside", "other"):
            forms = [nodes(graph, carrier.get(number)) for carrier in (graph.flat, graph.families, graph.columns)]
            while len(forms) > 1 and forms[-1] == "-":
                forms.pop()
            obstacles = graph.obstacles.get(graph.values[number], ())
            found.append(" ! ".join((f"{name} = {' | '.join(forms)}", *obstacles)))
    return [*found, *(f"store = {nodes(graph, c)}" for _, c in sorted(graph.writes.items())[:-1])]


#: program -> what stands in it, as `held` says it
STATED = Path(__file__).with_name("carriers.json")
HELD: dict[str, list[str]] = json.loads(STATED.read_text(encoding="utf-8"))


def test_what_is_held_is_stated_of_every_program() -> None:
    assert list(HELD) == list(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_carriers_hold_what_is_stated_and_nothing_else(name: str) -> None:
    assert held(PROGRAMS[name]()) == HELD[name]


if __name__ == "__main__":
    lines = (f" {json.dumps(name)}: {json.dumps(held(make()))}" for name, make in PROGRAMS.items())
    STATED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
