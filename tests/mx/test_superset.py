"""What upstream's rules prove and is true is proved by index facts."""

from __future__ import annotations

from helpers import const, incore, let, loop, ret, scalar
from test_upstream_prover import MULTIPLES, SIGNS, prover

from egraph_rules.mx.facts import FactProver
from egraph_rules.mx.proofs import Where
from egraph_rules.mx.upstream import Confirmed, UpstreamProver
from pypto_ir.stmt import Assign, walk


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


def test_a_false_proof_of_upstreams_rules_is_not_confirmed() -> None:
    """The square that wraps at its width: upstream's rules prove that it is not negative, and no policy takes it."""
    bounds = [const(n, "INT32") for n in (46336, 46368, 16)]
    p = incore([], [loop("i", bounds, {}, [{"let": "x", "expr": "i * i"}, {"let": "y", "expr": "i + i"}]), ret()])
    x, y = (s for s in walk(p.functions[0].body) if isinstance(s, Assign))
    policy, at = Confirmed(UpstreamProver(p), FactProver(p)), Where(p.functions[0], (), y)
    for prover_of, proved in ((policy.upstream, True), (policy, False)):
        assert prover_of.divisible(at, x.target, 16) is None and (prover_of.non_negative(at, x.target) is None) is proved
        assert prover_of.non_negative(at, y.target) is None
