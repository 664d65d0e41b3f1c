"""Random accumulator programs: by value all have a meaning, and in accumulator memory those that the verifier
accepts have the same; what it refuses is mostly wrong there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from pypto_ir.expr import const_int
from pypto_ir.interp.machine import run
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Assign, Block, Call, For, If, Program, Stmt, blocks, tuple_items, walk
from pypto_ir.types import TileType
from tests.generators import random_accumulators
from tests.generators.blocks import Blocks, check_blocks
from tests.generators.property import accepted

#: programs of each kind
SAMPLE = 160


@cache
def program(seed: int, deep: bool) -> Program:
    return random_accumulators(random.Random(seed), deep)


@cache
def outcomes() -> tuple[Blocks, ...]:
    return tuple(check_blocks(program(seed, False)) for seed in range(SAMPLE))


@pytest.mark.parametrize("deep", [False, True])
def test_programs_have_a_meaning_by_value_and_mostly_a_defined_one(deep: bool) -> None:
    defined = 0
    for seed in range(SAMPLE):
        p = program(seed, deep)
        assert not accepted(p)
        cells = 0
        for inputs in range(2):
            for buffer in run(p, "main", seed=inputs).memory.values():
                _, ok, written = buffer.arrays()
                cells += int((ok & written).sum())
        defined += cells > 0
    assert defined >= 0.9 * SAMPLE


def test_what_the_verifier_accepts_is_right_in_accumulator_memory_and_what_it_refuses_mostly_wrong() -> None:
    found = outcomes()
    fine = [o for o in found if not o.codes]
    refused = [o for o in found if o.refused]
    assert len(fine) >= 0.3 * SAMPLE and len(refused) >= 0.2 * SAMPLE
    assert all(o.right for o in fine)
    assert sum(not o.right for o in refused) >= 0.6 * len(refused)
    astray = [o for o in refused if "V301" in o.codes]
    assert sum(not o.right for o in astray) >= 0.7 * len(astray) > 5


def test_every_kind_of_finding_occurs() -> None:
    codes = Counter(code for o in outcomes() for code in o.codes)
    assert {"V301", "V302", "V303", "V304"} <= set(codes), codes


def test_a_seed_gives_one_program_which_is_read_back() -> None:
    for seed in range(0, SAMPLE, 8):
        for deep in (False, True):
            text = write_program(program(seed, deep))
            assert text == write_program(random_accumulators(random.Random(seed), deep))
            assert read_program(text) == program(seed, deep)


# ---- what the generator covers -----------------------------------------------------------------------------


def _statements(deep: bool) -> Iterator[Stmt]:
    for seed in range(SAMPLE):
        yield from walk(program(seed, deep).functions[0].body)


def _calls(deep: bool, op: str) -> list[Call]:
    return [s.value for s in _statements(deep) if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == op]


def _depth(block: Block) -> int:
    return max((isinstance(s, For) + max(map(_depth, blocks(s)), default=0) for s in block), default=0)


def test_programs_have_loops_branches_predicates_windows_and_drains_of_all_kinds() -> None:
    assert {_depth(program(seed, False).functions[0].body) for seed in range(SAMPLE)} >= {0, 1, 2, 3}
    assert sum(isinstance(s, If) for s in _statements(False)) > 20
    products = _calls(False, "tile.matmul_acc")
    assert {len(c.args) for c in products} == {3, 4}
    offsets = [tuple_items(c.args[2]) or () for c in _calls(False, "tile.slice")]
    for axis in range(2):
        assert {const_int(o[axis]) is None for o in offsets} == {False, True}
    drained = Counter(s.value.op for s in _statements(False) if isinstance(s, Assign) and isinstance(s.value, Call))
    assert min(drained[op] for op in ("tile.store", "tile.extract", "tile.move", "tile.assemble")) > 10
    accs = [sum(isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.create" for s in p) for p in _bodies(False)]
    assert set(accs) == {1, 2, 3}


def _bodies(deep: bool) -> Iterator[Block]:
    return (program(seed, deep).functions[0].body for seed in range(SAMPLE))


def test_deep_programs_have_batches_of_several_ranks_broadcast_too() -> None:
    products = _calls(True, "tile.batch_matmul_acc")
    ranks = {tuple(a.type.rank for a in c.args[:3] if isinstance(getattr(a, "type", None), TileType)) for c in products}
    assert {(3, 3, 3), (4, 4, 4)} <= ranks and any(len(set(r)) > 1 for r in ranks)
    assert {len(c.args) for c in products} == {3, 4}
