"""What upstream's rules prove and is true is proved by index facts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from helpers import const, incore, let, loop, ret, scalar
from test_upstream_prover import MULTIPLES, SIGNS, prover

from benchmarks.pages import generated
from egraph_rules.mx.facts import FactProver
from egraph_rules.mx.proofs import Where
from egraph_rules.mx.upstream import Confirmed, UpstreamProver
from pypto_ir.stmt import Assign, walk
from tests.generators.index_programs import Drawn, Probe, random_index_program
from tests.generators.index_provers import Compared, compare_provers, held

PROGRAMS = 6


def test_facts_prove_every_multiple_that_upstreams_rules_prove() -> None:
    body = [{"let": f"x{i}", "expr": text} for i, (text, _, _) in enumerate(MULTIPLES) if "// n" not in text]
    p = incore([scalar("n")], [*body, ret()])
    rules, at, value = prover(p)
    facts = FactProver(p)
    asked = 0
    for i, (text, by, _) in enumerate(MULTIPLES):
        if "// n" not in text and rules.divisible(at, value(f"x{i}"), by) is None:
            asked += 1
            assert facts.divisible(at, value(f"x{i}"), by) is None, text
    assert asked >= 9


def test_facts_prove_every_sign_that_upstreams_rules_prove() -> None:
    lanes = [let("b", "tile.get_block_idx"), let("c", "tile.get_block_num"), let("s", "tile.get_subblock_idx")]
    texts = [text for text, _ in SIGNS if text not in ("b // b", "b // 0")]
    p = incore([scalar("n")], [*lanes, *({"let": f"x{i}", "expr": text} for i, text in enumerate(texts)), ret()])
    rules, at, value = prover(p)
    facts = FactProver(p)
    proved = [text for i, text in enumerate(texts) if rules.non_negative(at, value(f"x{i}")) is None]
    assert len(proved) >= 7
    assert [text for text in proved if facts.non_negative(at, value(f"x{texts.index(text)}")) is not None] == []


@pytest.mark.parametrize("first", range(0, PROGRAMS, 3))
def test_what_only_upstreams_rules_prove_of_random_programs_is_false(first: int) -> None:
    found = Compared()
    for seed in range(first, first + 3):
        found.add(compare_provers(random_index_program(random.Random(seed))))
    assert found.missed == [] and found.offsets > 20 and found.only_facts > 0


def test_a_false_proof_is_told_from_a_true_one() -> None:
    """The square that wraps at its width: upstream's rules prove it, a value contradicts it, and no policy takes it."""
    bounds = [const(n, "INT32") for n in (46336, 46368, 16)]
    p = incore([], [loop("i", bounds, {}, [{"let": "x", "expr": "i * i"}, {"let": "y", "expr": "i + i"}]), ret()])
    x, y = (s for s in walk(p.functions[0].body) if isinstance(s, Assign))
    drawn = Drawn(p, [Probe("main", x, x.value), Probe("main", y, y.value)])  # type: ignore[arg-type]
    assert held(drawn, drawn.probes[0], 16) is False and held(drawn, drawn.probes[1], 16)
    found = compare_provers(drawn)
    assert (found.both, found.only_facts, found.false, found.missed) == (1, 0, ["main: i * i"], [])
    policy, at = Confirmed(UpstreamProver(p), FactProver(p)), Where(p.functions[0], (), y)
    assert policy.divisible(at, x.target, 16) is None and policy.non_negative(at, x.target) is not None


def test_the_page_of_provers_holds_a_measured_table_without_a_miss() -> None:
    page = (Path(__file__).parents[2] / "docs" / "provers.md").read_text(encoding="utf-8")
    lines = [line.strip("| ").rsplit(" | ", 1) for line in generated(page, "table").splitlines() if line.startswith("| ")]
    counts = {what.partition(",")[0]: int(count) for what, count in lines if count.isdigit()}
    facts, upstream = counts["proved by index facts"], counts["proved by upstream's rules"]
    assert counts["by both"] + counts["by index facts only"] == facts > upstream > 0
    assert [count for what, count in lines if "true for every value" in what] == ["0"]
