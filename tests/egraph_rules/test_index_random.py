"""Random index programs, run for all values of their parameters: everything that facts say is true, and whatever upstream's prover
accepts is proved unless a value contradicts it.

Long runs: `python -m benchmarks fuzz_index --programs 20000`.
"""

from __future__ import annotations

import random

import pytest

from pypto_ir.expr import Binary, Cast, Unary, children
from pypto_ir.stmt import For, FunctionCall, If, Submit, While, own_exprs, walk
from pypto_ir.verify import verify_program
from tests.generators.index_programs import INTEGERS, random_index_program
from tests.generators.index_property import check_index

PROGRAMS, CHUNK = 300, 25


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_everything_that_facts_say_is_true(first: int) -> None:
    proved = seen = 0
    for seed in range(first, first + CHUNK):
        checked = check_index(random_index_program(random.Random(seed)))
        assert checked.missed == []
        proved += sum(j.proved for j in checked.judged)
        seen += checked.seen
    assert proved > 20 and seen > 1000


#: programs of long runs that found something, and what it was
FOUND = {
    8965: "a parameter's argument was written with operands that only its caller knows",
    15329: "two values of the same number were each written with the other",
    18835: "a value was written with one that was just being made",
    13314: "a division of a division was taken by value first, and then as kernels read it",
    9211: "a loop of UINT16 past 32767 is as an index a loop to a negative bound, which a long run shows",
    16450: "a constant of a function that nobody calls is false as kernels divide it",
    18271: "all blocks but the first divide by zero before the product that would wrap",
}


@pytest.mark.parametrize("seed", FOUND, ids=str)
def test_what_long_runs_found_stays_mended(seed: int) -> None:
    assert check_index(random_index_program(random.Random(seed))).missed == []


def test_drawn_programs_are_well_typed_and_hold_every_operator_width_and_statement() -> None:
    operators, types, statements = set(), set(), set()
    for seed in range(150):
        program = random_index_program(random.Random(seed)).program
        assert [d for d in verify_program(program) if d.severity.name == "ERROR"] == []
        for f in program.functions:
            for s in walk(f.body):
                value = getattr(s, "value", None)
                statements.add(type(value if isinstance(value, FunctionCall | Submit) else s))
                stack = list(own_exprs(s))
                while stack:
                    e = stack.pop()
                    if isinstance(e, Binary | Unary):
                        operators.add(e.op)
                    if isinstance(e, Cast):
                        types.add(e.dtype)
                    stack.extend(children(e))
    assert {"add", "sub", "mul", "floordiv", "mod", "min", "max", "neg", "abs", "bitnot", "pow"} <= operators
    assert {"bitand", "bitor", "bitxor", "shl", "shr", "and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge"} <= operators
    assert types == set(INTEGERS)
    assert {For, While, If, FunctionCall, Submit} <= statements
