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
