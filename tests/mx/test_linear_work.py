"""Blocking takes work in proportion to the program, whether offsets are proved or refused: calls of functions are counted, not seconds."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable

import pytest
from helpers import Json, function, incore, let, program, ret, scalar
from scales import scale_load, scales

from egraph_rules.mx.block import block_scales
from egraph_rules.mx.facts import FactProver
from egraph_rules.mx.proofs import Prover
from egraph_rules.mx.upstream import UpstreamProver
from pypto_ir.diagnostics import Diagnostics
from pypto_ir.stmt import Program

#: how much more work than in proportion four times as much may take; anything quadratic would take four times as much
LINEAR = 1.15


def products(n: int) -> Program:
    """Loads at `b * 16`, `b * 32`, ..."""
    body = [let("b", "tile.get_block_idx")]
    for i in range(n):
        body += [{"let": f"r{i}", "expr": f"b * {16 * (i % 3 + 1)}"}, scale_load(f"t{i}", "s", [f"r{i}", 0], [16, 2])]
    return incore([scales("s", 256, 2)], [*body, ret()])


def chain(n: int, first: str) -> Program:
    """Loads at each of n definitions that follow from one another."""
    body = [let("b", "tile.get_block_idx"), {"let": "r0", "expr": first}]
    for i in range(n):
        e = f"r{i} + 16" if i % 2 else f"min(r{i}, {16 * (i + 1)})"
        body += [{"let": f"r{i + 1}", "expr": e}, scale_load(f"t{i}", "s", [f"r{i + 1}", 0], [16, 2])]
    return incore([scales("s", 1 << 20, 2)], [*body, ret()])


def sites(n: int, last: int) -> Program:
    """As many loads at a row as there are calls that give it."""
    loads: list[Json] = []
    for i in range(n):
        loads += [{"let": f"r{i}", "expr": f"row + {16 * i}"}, scale_load(f"t{i}", "s", [f"r{i}", 0], [16, 2])]
    k = function("k", [scales("s", 1 << 20, 2), scalar("row")], [*loads, ret()], returns=[])
    rows = [*(16 * i for i in range(n - 1)), last]
    body: list[Json] = [{"call": "k", "args": ["s", row]} for row in rows]
    return program(k, function("main", [scales("s", 1 << 20, 2)], [*body, ret()], kind="Orchestration", returns=[]))


def work(p: Program, prover: Callable[[Program], Prover], refused: bool) -> int:
    bag, profile = Diagnostics(), cProfile.Profile()
    profile.runcall(lambda: block_scales(p, prover(p), bag))
    assert bag.has_errors is refused
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


CASES: dict[str, tuple[Callable[[int], Program], Callable[[Program], Prover], bool]] = {
    "products, upstream's rules": (products, UpstreamProver, False),
    "products": (products, FactProver, False),
    "a chain": (lambda n: chain(n, "b * 16"), FactProver, False),
    "a chain that starts beside a box": (lambda n: chain(n, "b * 8"), FactProver, True),
    "call sites": (lambda n: sites(n, 48), FactProver, False),
    "call sites, the last beside a box": (lambda n: sites(n, 8), FactProver, True),
}


@pytest.mark.parametrize("name", CASES)
def test_four_times_the_loads_take_four_times_the_work(name: str) -> None:
    make, prover, refused = CASES[name]
    work(make(4), prover, refused)  # what is made once a process
    small, large = work(make(50), prover, refused), work(make(200), prover, refused)
    assert large < 4 * LINEAR * small, large / small
