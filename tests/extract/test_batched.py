"""Random programs of batched products: refused for a reason or lowered rightly, at no more than upstream's program or any choice of a
brute force, in memories that hold them."""

from __future__ import annotations

import random
from collections import Counter
from math import prod

import pytest

from pypto_eqsat.driver import optimize
from pypto_ir.dtypes import DType
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Assign, Call, For, If, Program, walk
from pypto_ir.types import Layout, Memory, TensorType, TileType
from tests.generators import random_batched
from tests.generators.lowered_products import check_large, check_near, check_products
from tests.generators.property import accepted
from tests.helpers import incore, let, load, loop, ops, out, ret, scalar, store, tensor

SHORT, NEAR = 24, 10
#: programs of large batches: three that upstream lowers legally, two of these loops here, and one that it does not
LARGE = (4, 6, 9, 1)
#: programs of a long run of each kind, in parts
LONG, PARTS = 1_000, 10


def statements(near: bool, count: int = 120) -> list[Assign]:
    programs = (random_batched(random.Random(seed), near) for seed in range(count))
    return [s for p in programs for f in p.functions for s in walk(f.body) if isinstance(s, Assign) and isinstance(s.value, Call)]


def test_products_are_lowered_as_promised() -> None:
    outcomes = [check_products(random_batched(random.Random(seed))) for seed in range(SHORT)]
    assert sum(o.ran for o in outcomes) >= SHORT * 0.7, Counter(o.codes for o in outcomes)


def test_products_near_the_limits_fit_or_have_no_choice_that_fits() -> None:
    outcomes = [check_near(random_batched(random.Random(seed), near=True)) for seed in range(NEAR)]
    assert sum(not o.refused for o in outcomes) >= NEAR * 0.6, Counter(o.codes for o in outcomes)


def test_large_batches_cost_no_more_than_upstream_writes_out() -> None:
    assert all(check_large(random_batched(random.Random(seed), large=True)).ran for seed in LARGE)


@pytest.mark.long
def test_hundred_programs_of_large_batches_are_lowered_as_promised() -> None:
    for seed in range(100):
        check_large(random_batched(random.Random(seed), large=True))


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_a_thousand_programs_of_products_are_lowered_as_promised(part: int) -> None:
    for seed in range(SHORT + part * LONG // PARTS, SHORT + (part + 1) * LONG // PARTS):
        check_products(random_batched(random.Random(seed)))


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_a_thousand_programs_near_the_limits_fit_or_have_no_choice_that_fits(part: int) -> None:
    for seed in range(NEAR + part * LONG // PARTS, NEAR + (part + 1) * LONG // PARTS):
        check_near(random_batched(random.Random(seed), near=True))


def test_programs_are_accepted_by_the_verifiers_and_the_same_for_a_seed() -> None:
    for near in (False, True):
        for seed in range(60):
            program = random_batched(random.Random(seed), near)
            assert not accepted(program)
            assert write_program(program) == write_program(random_batched(random.Random(seed), near))


def test_programs_hold_operands_and_drains_of_every_form() -> None:
    found = statements(near=False)
    used = Counter(s.value.op for s in found)  # type: ignore[union-attr]
    wanted = ("batch_matmul", "batch_matmul_acc", "transpose_view", "transpose", "slice", "reshape", "move", "cast", "muls", "store")
    assert not [op for op in wanted if used[f"tile.{op}"] < 5], used
    loads = [s for s in found if isinstance(s.value, Call) and s.value.op == "tile.load"]
    sources = [s.value.args[0].type for s in loads]  # type: ignore[union-attr]
    assert {t.layout for t in sources if isinstance(t, TensorType)} == {Layout.ND, Layout.DN, Layout.NZ}
    assert {s.target.type.memory for s in loads if isinstance(s.target.type, TileType)} == {Memory.MAT, Memory.VEC, None}
    products = [s for s in found if isinstance(s.value, Call) and s.value.op == "tile.batch_matmul"]
    factors = [[e.type.shape[:-2] for e in s.value.args] for s in products]  # type: ignore[union-attr]
    assert sum(a != b for a, b in factors) >= 10
    read = Counter(e.name for s in products for e in s.value.args)  # type: ignore[union-attr]
    assert sum(n > 1 for n in read.values()) >= 10
    stores = [s.value for s in found if isinstance(s.value, Call) and s.value.op == "tile.store"]
    narrowed = [c for c in stores if c.args[0].type.dtype is DType.FP32 and c.args[2].type.dtype is not DType.FP32]  # type: ignore[union-attr]
    assert len(narrowed) >= 5 and sum(len(c.args) > 3 for c in stores) >= 3 and sum(bool(c.kwarg("atomic")) for c in stores) >= 3


def test_programs_have_loops_and_arms() -> None:
    programs: list[Program] = [random_batched(random.Random(seed)) for seed in range(60)]
    kinds = Counter(type(s) for p in programs for f in p.functions for s in walk(f.body))
    assert kinds[For] >= 10 and kinds[If] >= 2
    assert {p.target for p in programs} == {"ascend910b", "ascend950", None}


def test_tiles_near_the_limits_are_about_as_large_as_their_memories() -> None:
    made = [s.target.type for s in statements(near=True, count=40) if isinstance(s.target.type, TileType)]
    in_l1 = [_bytes(t) for t in made if t.memory is Memory.MAT]
    assert sum(1 << 18 <= n <= 1 << 20 for n in in_l1) >= len(in_l1) * 0.2
    assert any(_bytes(t) >= 1 << 16 for t in made if t.memory is Memory.ACC)
    assert any(_bytes(t) >= 1 << 16 for t in made if t.memory is Memory.VEC)


def _bytes(t: TileType) -> int:
    shape = t.static_shape
    assert shape is not None
    return prod(shape) * t.dtype.bytes


@pytest.mark.parametrize("named", [True, False])
def test_what_a_store_costs_beside_its_price_is_learned(named: bool) -> None:
    """Pages of which 107 of 256 columns are valid are drained row by row, which costs more than what the choice thinks."""
    pages = [
        load("x", "a", [0, 0], [32, 512], memory="Mat"),
        load("w", "b", [0, 0, 0], [3, 512, 256], [3, 512, 107], memory="Mat"),
        let("p", "tile.batch_matmul", "x", "w"),
    ]
    drain = store("o", "p", [0, 0, 0], "out") if named else {"op": "tile.store", "args": ["p", [0, 0, 0], "out"]}
    params = [scalar("n", range=(0, 3)), tensor("a", 32, 512, dtype="BF16"), tensor("b", 3, 512, 256, dtype="BF16"), out("out", 3, 32, 256)]
    program = incore(params, [loop("i", [0, "n", 1], {}, [*pages, drain]), ret("out")], target="ascend910b")
    assert not check_products(program, compare=False).refused
    result = optimize(program, validate=False)
    assert result.stats["gap"] == 0 and "matmul_acc" in ops(result.program)
