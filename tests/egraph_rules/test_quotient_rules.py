"""Rules of quotients: proved by z3 at their width, held against true instances in the e-graph, and wrong without their conditions.

A proof takes every value of x, a, b and every constant at 8 bits, with floor and with truncating division. An instance is a small
e-graph whose facts are those that some values really have; whatever the rules unite must be equal for all of these values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import z3
from index_instances import FIRED, WrongUnion, check_instances
from index_models import Vectors, counterexample
from index_proofs import proves

from egraph_rules.catalogue import index_rules
from egraph_rules.engine import INDEX_FILES, Engine, rule_text
from pypto_ir.dtypes import DType

NAMES = [r.name for r in index_rules()]
M = Vectors(DType.INT8)


@dataclass(frozen=True, slots=True)
class Claim:
    """Left and right side over x, a, b, c, d, k, and the conditions by name."""

    sides: Callable[[Any, str], tuple[Any, Any]]
    conditions: dict[str, Callable[[Any, str], Any]]


#: the unknowns of a claim
UNKNOWNS = SimpleNamespace(**{name: M.value(name) for name in "xabcdk"})


def wide(v: Any) -> Any:
    return z3.SignExt(v.size(), v)


def fits(exact: Any) -> Any:
    """That a number of twice the width is one of the width."""
    half = 1 << exact.size() // 2 - 1
    return z3.And(exact >= -half, exact < half)


def q(a: Any, b: Any, way: str) -> Any:
    return M.divide(a, b, way)


def r(a: Any, b: Any, way: str) -> Any:
    return a - q(a, b, way) * b


def divides(d: Any, v: Any) -> Any:
    return z3.SRem(v, d) == 0


POSITIVE: dict[str, Callable[[Any, str], Any]] = {"d > 0": lambda s, w: s.d > 0}
SUM = {"a + b does not wrap": lambda s, w: fits(wide(s.a) + wide(s.b))}
CLAIMS = {
    "quotient.one": Claim(lambda s, w: (q(s.x, z3.BitVecVal(1, s.x.size()), w), s.x), {}),
    "quotient.product": Claim(
        lambda s, w: (q(s.x * s.c, s.d, w), s.x * q(s.c, s.d, w)),
        {
            **POSITIVE,
            "d divides c": lambda s, w: divides(s.d, s.c),
            "x * c does not wrap": lambda s, w: fits(wide(s.x) * wide(s.c)),
        },
    ),
    "quotient.cancel": Claim(
        lambda s, w: (q(s.x * s.c, s.c * s.k, w), q(s.x, s.k, w)),
        {
            "c > 0": lambda s, w: s.c > 0,
            "k > 0": lambda s, w: s.k > 0,
            "c * k is a number": lambda s, w: fits(wide(s.c) * wide(s.k)),
            "x * c does not wrap": lambda s, w: fits(wide(s.x) * wide(s.c)),
        },
    ),
    "quotient.sum": Claim(
        lambda s, w: (q(s.a + s.b, s.d, w), q(s.a, s.d, w) + q(s.b, s.d, w)),
        {**POSITIVE, **SUM, "d divides a": lambda s, w: divides(s.d, s.a), "d divides b": lambda s, w: divides(s.d, s.b)},
    ),
    "quotient.sum-with-rest": Claim(
        lambda s, w: (q(s.a + s.b, s.d, w), q(s.a, s.d, w) + q(s.b, s.d, w)),
        {
            **POSITIVE,
            **SUM,
            "d divides a": lambda s, w: divides(s.d, s.a),
            "a is not negative": lambda s, w: s.a >= 0,
            "b is not negative": lambda s, w: s.b >= 0,
        },
    ),
    "quotient.difference": Claim(
        lambda s, w: (q(s.a - s.b, s.d, w), q(s.a, s.d, w) - q(s.b, s.d, w)),
        {
            **POSITIVE,
            "a - b does not wrap": lambda s, w: fits(wide(s.a) - wide(s.b)),
            "d divides a": lambda s, w: divides(s.d, s.a),
            "d divides b": lambda s, w: divides(s.d, s.b),
        },
    ),
    "quotient.quotient": Claim(
        lambda s, w: (q(q(s.x, s.a, w), s.b, w), q(s.x, s.a * s.b, w)),
        {
            "a > 0": lambda s, w: s.a > 0,
            "b > 0": lambda s, w: s.b > 0,
            "a * b is a number": lambda s, w: fits(wide(s.a) * wide(s.b)),
        },
    ),
    "quotient.small": Claim(
        lambda s, w: (q(s.x, s.d, w), z3.BitVecVal(0, s.x.size())), {"0 <= x": lambda s, w: s.x >= 0, "x < d": lambda s, w: s.x < s.d}
    ),
    "quotient.rounded": Claim(
        lambda s, w: (q(s.x - r(s.x, s.d, w), s.d, w), q(s.x, s.d, w)),
        {**POSITIVE, "x - x % d does not wrap": lambda s, w: fits(wide(s.x) - wide(r(s.x, s.d, w)))},
    ),
    "quotient.undone": Claim(
        lambda s, w: (q(s.x, s.d, w) * s.d, s.x), {**POSITIVE, "d divides x": lambda s, w: divides(s.d, s.x)}
    ),
    "rest.zero": Claim(
        lambda s, w: (r(s.x, s.d, w), z3.BitVecVal(0, s.x.size())), {**POSITIVE, "d divides x": lambda s, w: divides(s.d, s.x)}
    ),
}  # fmt: skip


def refuted(name: str, way: str, without: str | None = None) -> bool:
    """True where z3 finds values that satisfy the conditions of a claim, but for one, and not its equation."""
    claim, s = CLAIMS[name], UNKNOWNS
    left, right = claim.sides(s, way)
    given = [condition(s, way) for label, condition in claim.conditions.items() if label != without]
    if without is not None:  # a few divisors do to find a counter-example
        given.append(z3.Or([s.d == n for n in (3, 16)]))
    nonzero = [v != 0 for v in (s.a, s.b, s.c, s.d, s.k, s.a * s.b, s.c * s.k)]
    return counterexample(*given, *nonzero, left != right) is not None


def test_every_rule_has_a_claim() -> None:
    assert set(CLAIMS) == set(NAMES)


@pytest.mark.parametrize("way", ["floor", "trunc"])
@pytest.mark.parametrize("name", NAMES)
@proves(*(f"egg {part}" for rule in index_rules() for part in rule.parts))
def test_rules_hold_for_all_values_at_eight_bits(name: str, way: str) -> None:
    assert not refuted(name, way)


@pytest.mark.parametrize("dtype", [DType.INT16, DType.INT32, DType.INT64], ids=lambda d: d.value)
@pytest.mark.parametrize("name", NAMES)
def test_rules_hold_at_the_widths_of_offsets_for_the_constants_of_boxes(name: str, dtype: DType) -> None:
    """All values of x, a and b, divisors of 2 and 16; quotients of quotients have constants a and b."""
    model = Vectors(dtype)
    for d, c, k in ((2, 32, 8), (16, 16, 2), (16, 256, 16)):
        unknown = {v: model.value(v) for v in "xab"}
        if name == "quotient.quotient":
            unknown |= {"a": model.number(d), "b": model.number(k)}
        s = SimpleNamespace(**unknown, d=model.number(d), c=model.number(c), k=model.number(k))
        for way in ("floor", "trunc"):
            left, right = CLAIMS[name].sides(s, way)
            given = [condition(s, way) for condition in CLAIMS[name].conditions.values()]
            assert counterexample(*given, left != right) is None, (d, c, k, way)


#: signs of constants: where a rule holds for negative ones too it does not need to
SIGNS = {f"{v} > 0" for v in "abcdk"}


@pytest.mark.parametrize(("name", "condition"), [(n, c) for n in NAMES for c in CLAIMS[n].conditions if c not in SIGNS])
def test_every_condition_is_needed_with_one_of_the_divisions(name: str, condition: str) -> None:
    assert any(refuted(name, way, condition) for way in ("floor", "trunc"))


# ---- the rules in the e-graph ----


def without(rule: str, text: str) -> Engine:
    """An engine in which the parts of a rule have lost a condition."""
    commands = rule_text("quotients").split("\n\n")
    changed = [c.replace(text, "") if f'"{rule}' in c else c for c in commands]
    assert changed != commands
    return Engine(texts={"quotients": "\n\n".join(changed)}, files=INDEX_FILES)


def test_what_rules_unite_is_equal_and_every_rule_fires() -> None:
    FIRED.clear()
    check_instances(Engine(files=INDEX_FILES), 150)
    parts = {part for rule in index_rules() for part in rule.parts}
    assert parts <= set(FIRED)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("quotient.product", "(exact-product x (Known c)) "),
        ("quotient.product", "(= 0 (% c d)) "),
        ("quotient.cancel", "(exact-product x (Known c)) "),
        ("quotient.cancel", "(= 0 (% d c)) "),
        ("quotient.sum", "(exact-sum a b) "),
        ("quotient.sum", "(= n (multiple b)) (= 0 (% n d))"),
        ("quotient.sum-with-rest", "(exact-sum a b) "),
        ("quotient.sum-with-rest", "(= l (low b)) (>= l 0)"),
        ("quotient.sum-with-rest", "(= 0 (% m d))"),
        ("quotient.difference", "(exact-difference a b) "),
        ("quotient.difference", "(= n (multiple b)) (= 0 (% n d))"),
        ("quotient.quotient", "(= g (greatest x)) (<= c g)"),
        ("quotient.small", "(= l (low x)) (>= l 0) "),
        ("quotient.small", "(= h (high x)) (< h d)"),
        ("quotient.rounded", "(exact-difference x r) "),
        ("quotient.undone", "(= 0 (% m d))"),
        ("rest.zero", "(= 0 (% m d))"),
    ],
)  # fmt: skip
def test_a_rule_without_a_condition_is_caught(rule: str, text: str) -> None:
    with pytest.raises(WrongUnion):
        check_instances(without(rule, text), 150)
