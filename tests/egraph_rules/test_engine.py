"""The engine: limits, sessions, the shape sentinel, and one order of rows in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alternatives import TARGET, rules_changed
from building import Build

from egraph_rules.encode import encode
from egraph_rules.engine import RULE_FILES, Commands, Engine, Limits, UnsoundRule, engine, rule_text
from egraph_rules.graph import saturated
from extract.lower import lower
from pypto_ir.diagnostics import Refused
from pypto_ir.stmt import Function

HERE = Path(__file__).parent
#: flat(x) is not its page
UNSOUND = """
; flat.wrong
;   flat(x) = x
;   when true
;   else x of rank 3 and its flat form are one class
(rule ((= v (Flat x))) ((union v x)) :ruleset flatten :name "flat.wrong")
"""


def chain(length: int) -> Function:
    b = Build()
    x = b.load("x0", (2, 3, 8))
    for i in range(length):
        x = b.let(f"x{i + 1}", "tile.add", x, x)
    b.out(x)
    return b.function()


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(nodes=10), "10 e-nodes"),
        (Limits(seconds=0.0), "0 s of saturation"),
        (Limits(iterations=1), "1 iterations"),
        (Limits(memory=1), "1 MiB"),
    ],
)
def test_limit_that_stops_saturation_is_named(limits: Limits, text: str) -> None:
    assert saturated(chain(30), limits=limits).report.limit == text


def test_saturation_that_ends_names_no_limit() -> None:
    report = saturated(chain(30)).report
    assert report.limit is None and 0 < report.iterations < Limits().iterations


def test_an_engine_that_starts_over_gives_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egraph_rules.engine.SESSIONS", 2)
    own = Engine(files=RULE_FILES)
    graphs: list[object] = []
    rows = []
    for _ in range(5):
        with own.session() as session:
            graphs.append(session._egraph)
            session.run(encode(chain(3))[1])
            session.saturate(Limits())
            rows.append(session.freeze().rows)
    assert [graphs.index(g) for g in graphs] == [0, 0, 2, 2, 4]
    assert all(r == rows[0] for r in rows)


def test_rules_that_fired_are_counted_by_name() -> None:
    fired = saturated(chain(3)).report.rules_fired
    assert list(fired) == sorted(fired) and all(fired.values())
    assert fired["flat.load"] == 1 and fired["flat.op"] == 3 and "flat.full" not in fired


def test_rules_are_left_out_by_name_and_by_file() -> None:
    function = chain(2)
    assert "pages.load" in saturated(function).report.rules_fired
    assert "pages.load" not in saturated(function, without=frozenset({"pages.load"})).report.rules_fired
    rest = saturated(function, without=frozenset({"pages"})).report.rules_fired
    assert "flat.load" in rest and not any(name.startswith("pages.") for name in rest)


def test_sessions_do_not_see_each_other() -> None:
    one, two = chain(2), chain(5)
    fresh = Engine()
    rows = []
    for function in (one, two, one):
        _, commands = encode(function)
        with fresh.session() as session:
            session.run(commands)
            session.saturate(Limits())
            rows.append(session.freeze().rows)
    assert rows[0] == rows[2] != rows[1]


def test_session_that_failed_leaves_the_engine_clean() -> None:
    fresh, commands = Engine(), Commands()
    commands.set("load-shape", 0, (2, 3))
    commands.set("load-shape", 0, (3, 2))
    with pytest.raises(UnsoundRule), fresh.session() as session:
        session.run(commands)
    with fresh.session() as session:
        assert not session.freeze().rows["load-shape"]


def test_engine_of_a_choice_of_rules_is_built_once() -> None:
    assert engine(frozenset()) is engine(frozenset()) is not engine(frozenset({"pages"}))


def test_rule_that_unites_shapes_stops_the_run_and_is_refused_as_a_fault() -> None:
    with rules_changed({"flatten": rule_text("flatten") + UNSOUND}):
        with pytest.raises(UnsoundRule):
            saturated(chain(1))
        with pytest.raises(Refused) as refused:
            lower(chain(1), TARGET)
    assert [d.code for d in refused.value.diagnostics] == ["X001"]


def test_other_rule_texts_are_used_in_place_of_the_files() -> None:
    function = chain(1)
    with rules_changed({name: f"(ruleset {name})" for name in RULE_FILES[3:]}):
        assert not any(name.startswith("pages.") for name in saturated(function).report.rules_fired)
    assert any(name.startswith("pages.") for name in saturated(function).report.rules_fired)


_PRINT = """
import hashlib, sys
sys.path[:0] = sys.argv[1:]
from test_engine import chain
from egraph_rules.encode import encode
from egraph_rules.engine import Limits, engine
import flat_programs, page_programs
from drawing import Draw
functions = [chain(4)]
for programs in (flat_programs.PROGRAMS, page_programs.PROGRAMS):
    functions += [make(Draw(name, 1)) for name, make in programs.items()]
for function in functions:
    with engine().session() as session:
        session.run(encode(function)[1])
        report = session.saturate(Limits())
        frozen = session.freeze()
    print(hashlib.sha256(repr((frozen.rows, frozen.sorts, report.rules_fired)).encode()).hexdigest())
"""


def test_frozen_rows_are_the_same_in_processes_with_other_hash_seeds() -> None:
    outputs = []
    for seed in ("0", "1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", _PRINT, str(HERE), str(HERE.parents[1])]
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert outputs[0] == outputs[1] == outputs[2] and len(outputs[0].split()) > 30


def test_every_thread_has_engines_of_its_own() -> None:
    """An e-graph may be entered by the thread alone that made it."""

    def size() -> int:
        return saturated(chain(4)).node_count

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: id(engine())).result() != id(engine())
        assert pool.submit(size).result() == size() == pool.submit(size).result()
