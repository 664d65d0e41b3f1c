"""Rules of the e-graph of quotients that state facts or fold: each proved by z3 for all values of its width, however kernels divide.

`low.quotient` says that x // d is at least l / d where x is at least l >= 0; at 8 bits that is tried for all x, l and d at once.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import z3
from index_models import Vectors, counterexample
from index_proofs import egg_rules, proves
from test_quotient_rules import CLAIMS, divides, fits, q, wide

from pypto_ir.dtypes import DType

M = Vectors(DType.INT8)
S = SimpleNamespace(**{name: M.value(name) for name in "xyabcdlhmg"})
#: rule -> (what it finds, what it says), for one way to divide
FACTS: dict[str, Callable[[Any, str], tuple[list[Any], Any]]] = {
    "same": lambda s, w: ([s.a == s.b], s.a == s.b),
    "range.known": lambda s, w: ([s.x == s.c], z3.And(s.c <= s.x, s.x <= s.c, z3.Or(s.x == 0, divides(s.c, s.x)))),
    "low.quotient": lambda s, w: ([s.d > 0, s.x >= s.l, s.l >= 0], q(s.x, s.d, w) >= s.l / s.d),
    "high.quotient": lambda s, w: ([s.d > 0, s.x <= s.h], q(s.x, s.d, w) <= s.h / s.d),
    "multiple.quotient": lambda s, w: (
        [s.d > 0, s.m > 0, divides(s.m, s.x), divides(s.d, s.m)], divides(s.m / s.d, q(s.x, s.d, w))
    ),
    "range.product": lambda s, w: (
        [s.c > 0, fits(wide(s.x) * wide(s.c)), s.l <= s.x, s.x <= s.h],
        z3.And(wide(s.l) * wide(s.c) <= wide(s.x * s.c), wide(s.x * s.c) <= wide(s.h) * wide(s.c)),
    ),
    "greatest.quotient": lambda s, w: ([s.g == 127], q(s.x, s.d, w) <= s.g),
    "greatest.product": lambda s, w: ([s.g == 127], s.x * s.c <= s.g),
    "greatest.sum": lambda s, w: ([s.g == 127], s.x + s.y <= s.g),
    "constants.quotient": lambda s, w: ([s.b > 0, s.a >= 0], q(s.a, s.b, w) == s.a / s.b),
    "constants.quotient.multiple": lambda s, w: ([s.b > 0, divides(s.b, s.a)], q(s.a, s.b, w) * s.b == s.a),
    "sum.zero": lambda s, w: ([], s.x + 0 == s.x),
    "zero.sum": lambda s, w: ([], 0 + s.x == s.x),
    "less.zero": lambda s, w: ([], s.x - 0 == s.x),
    "times.one": lambda s, w: ([], s.x * 1 == s.x),
    "times.zero": lambda s, w: ([], s.x * 0 == 0),
}  # fmt: skip
#: what a rule must find, and what is so where one of it is left out
GUARDS = {
    "low.quotient": (2,), "high.quotient": (1,), "multiple.quotient": (2, 3), "range.product": (0, 1), "constants.quotient.multiple": (1,),
}  # fmt: skip
#: parts of a rule under another name have its claim
PARTS = {"quotient.sum-with-rest.left": "quotient.sum-with-rest"}


def refuted(name: str, way: str, without: int | None = None) -> bool:
    found, said = FACTS[name](S, way)
    given = [f for i, f in enumerate(found) if i != without]
    return counterexample(*given, S.d != 0, S.b != 0, S.c != 0, S.m != 0, z3.Not(said)) is not None


@pytest.mark.parametrize("way", ["floor", "trunc"])
@pytest.mark.parametrize("name", FACTS)
@proves(*(f"egg {name}" for name in FACTS))
def test_rules_that_state_facts_hold_for_all_values(name: str, way: str) -> None:
    assert not refuted(name, way)


@pytest.mark.parametrize(("name", "condition"), [(n, i) for n, found in GUARDS.items() for i in found])
def test_what_they_find_is_needed(name: str, condition: int) -> None:
    assert any(refuted(name, way, condition) for way in ("floor", "trunc"))


def test_every_rule_of_the_files_has_a_claim() -> None:
    assert {PARTS.get(name, name) for name in egg_rules()} == set(FACTS) | set(CLAIMS)
