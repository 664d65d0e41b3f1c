"""Every program that the e-graph of a function holds, one choice at a time, and whether all mean the same.

The classes that some choice needs and the options of each are all visited: an option is forced to the
front, the rest stays greedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

from building import program

from egraph_rules.engine import Engine
from egraph_rules.graph import ENode, Graph, saturated
from extract import choice as choosing
from extract.candidates import problem
from extract.choice import FORMS, Choice, choose, with_option
from extract.cleanup import without_dead_tiles
from extract.emit import NotAvailable, emit
from extract.legal import is_two_d, refusals
from extract.plan import Plan, greedy, plan
from extract.repair import linear
from extract.target import load_target
from extract.weights import class_weights
from pypto_ir.interp.compare import equivalent
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Function
from pypto_ir.verify import verify_program

TARGET = load_target("ascend910b")
#: no generated instance has more
MOST = 400


@dataclass(slots=True)
class Alternatives:
    """`functions` by their text in order of discovery; `unavailable` counts choices that have no place."""

    graph: Graph
    functions: dict[str, Function] = field(default_factory=dict)
    unavailable: int = 0
    missing: bool = False

    @property
    def fired(self) -> dict[str, int]:
        return self.graph.report.rules_fired


def choices(graph: Graph) -> Iterator[Choice]:
    """The greedy choices, then for each option of each class that some choice needs one with that option."""
    weights = class_weights(graph)
    preferred = FORMS if graph.encoded.handovers else ()
    first = [choose(graph, TARGET, weights), *(choose(graph, TARGET, weights, form) for form in preferred)]
    queue, seen = [c for c in first if not c.missing], set[tuple[int, ENode]]()
    for current in queue:
        yield current
        for c in current.needed:
            seen.add((c, current.best(c).node))
        for c in current.needed:
            for number, option in enumerate(current.options[c]):
                if (c, option.node) not in seen:
                    seen.add((c, option.node))
                    other = with_option(graph, current, c, number)
                    if other is not None and not other.missing:
                        queue.append(other)
        assert len(queue) <= MOST


def planned(graph: Graph, choice: Choice) -> Plan:
    """The plan that carries out a greedy choice."""
    question = problem(graph, choice, TARGET)
    return plan(question, greedy(question, choice))


def emitted(graph: Graph, choice: Choice) -> Function | None:
    """The repaired function of a choice, or None where some chosen node cannot stand where it is needed."""
    try:
        function, problems = linear(without_dead_tiles(emit(graph, choice, planned(graph, choice))))
    except NotAvailable:
        return None
    return None if problems else function


def alternatives(function: Function, without: frozenset[str] = frozenset()) -> Alternatives:
    """Everything that the e-graph of a function holds."""
    assert not refusals(function)
    graph = saturated(function, without=without)
    result = Alternatives(graph)
    result.missing = True
    for choice in choices(graph):
        result.missing = False
        made = emitted(graph, choice)
        if made is None:
            result.unavailable += 1
        else:
            result.functions.setdefault(write_program(program(made)), made)
    return result


def difference(function: Function, made: Function, seeds: int = 2) -> str | None:
    """What is wrong with a lowered function: not 2-D, ill-typed, or something else on made inputs."""
    if not is_two_d(made):
        return "not 2-D"
    found = verify_program(program(made))
    if found:
        return str(found[0])
    verdict = equivalent(program(function), program(made), "main", seeds=range(seeds), fills=("small",), seconds=20.0)
    if not verdict.equal:
        return str(verdict.difference)
    return None if verdict.validated else f"no run counted: {verdict.covered['main'].refused}"


def assert_all_equal(function: Function, found: Alternatives) -> None:
    for text, made in found.functions.items():
        wrong = difference(function, made)
        assert wrong is None, f"{wrong}\n{write_program(program(function))}\n{text}"


@contextmanager
def rules_changed(texts: Mapping[str, str]) -> Iterator[None]:
    """Inside, functions are saturated with other texts for some of the rule files."""
    with patch("egraph_rules.graph.engine", lambda without, noting=(): Engine(without, texts)):
        yield


@contextmanager
def refused_options() -> Iterator[list[int]]:
    """Inside, nodes that the type check of the choice refuses are counted into the list's only element."""
    count, original = [0], choosing._Search.option

    def counted(self: choosing._Search, c: int, node: ENode) -> choosing.Option | None:
        option = original(self, c, node)
        count[0] += option is None
        return option

    with patch.object(choosing._Search, "option", counted):
        yield count
