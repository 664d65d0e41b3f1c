"""Every rewrite rule, found by its name, over generated programs: all that it gives is equal, and it matters.

The programs of a rule are in `flat_programs`, `page_programs`, `product_programs`, `packed_programs`, `transpose_programs`
and `window_programs`, those on which it must not fire in these or in `near_misses` and `product_near_misses`.
"""

from __future__ import annotations

from functools import cache

import flat_programs
import packed_programs
import page_programs
import product_programs
import pytest
import transpose_programs
import window_programs
from alternatives import TARGET, Alternatives, alternatives, assert_all_equal
from building import program
from drawing import INSTANCES, instances
from near_misses import NEAR_MISSES as TILE_NEAR_MISSES
from near_misses import ON_VALUE
from product_near_misses import NEAR_MISSES as PRODUCT_NEAR_MISSES

from egraph_rules.catalogue import rule, rules
from egraph_rules.graph import saturated
from extract.legal import refusals
from extract.lower import lower
from pypto_ir.diagnostics import Refused
from pypto_ir.ops.registry import Role, all_ops
from pypto_ir.stmt import Function
from pypto_ir.verify import verify_program

PROGRAMS = {
    **flat_programs.PROGRAMS,
    **page_programs.PROGRAMS,
    **product_programs.PROGRAMS,
    **packed_programs.PROGRAMS,
    **transpose_programs.PROGRAMS,
    **window_programs.PROGRAMS,
}
NAMES = [r.name for r in rules()]
NEAR_MISSES = {
    **TILE_NEAR_MISSES,
    **PRODUCT_NEAR_MISSES,
    **packed_programs.NEAR_MISSES,
    **transpose_programs.NEAR_MISSES,
    **window_programs.NEAR_MISSES,
}

#: rules that change no emitted program, and why they are there; without them the e-graph is larger
COMPACTING = {
    "flat.identity": "a value of rank 2 and its flat form get equal nodes by other rules; here they are one",
    "spread.same": "a spread hands on the pages that it is given; the rule saves the class between them",
}
#: parts of a rule that record why it does not hold; near misses fire them
_REASONS = ("obstacle", "stuck")
#: parts that no program reaches: a stuck operand would have to follow a row scalar or a column vector
_UNREACHED = {"flat.args.row-scalar.stuck", "flat.args.col-vector.stuck"}


@cache
def programs(name: str) -> list[Function]:
    return instances(name, PROGRAMS[name])


@cache
def everything(name: str, number: int) -> Alternatives:
    return alternatives(programs(name)[number])


def _parts(name: str) -> tuple[str, ...]:
    found = rule(name)
    assert found is not None
    return found.parts


def _rewrites(name: str) -> tuple[str, ...]:
    return tuple(p for p in _parts(name) if not any(word in p for word in _REASONS))


def test_every_rule_has_a_generator_of_programs() -> None:
    assert set(PROGRAMS) == set(NAMES)
    assert len(NAMES) == len(set(NAMES))


def test_every_side_condition_has_a_near_miss() -> None:
    conditional = {r.name for r in rules() if not r.condition.startswith("true")}
    assert conditional - set(NEAR_MISSES) == {"flat.args.scratch", "packed.args.scratch"} & conditional
    assert set(NEAR_MISSES) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_programs_are_well_typed_and_of_several_ranks_shapes_and_dtypes(name: str) -> None:
    texts = [program(f) for f in programs(name)]
    assert len(texts) >= INSTANCES
    assert not [d for p in texts for d in verify_program(p)]
    tensors = {(p.var.type.shape, p.var.type.dtype) for f in programs(name) for p in f.params if hasattr(p.var.type, "shape")}
    assert len(tensors) >= 5


@pytest.mark.parametrize("name", NAMES)
def test_rule_fires_in_each_of_its_programs(name: str) -> None:
    for number in range(INSTANCES):
        assert set(_rewrites(name)) & set(everything(name, number).fired), programs(name)[number]


@cache
def _fired_near() -> frozenset[str]:
    """What fires in the near misses of all rules."""
    return frozenset(part for near in NEAR_MISSES.values() for make in near for part in saturated(make()).report.rules_fired)


@pytest.mark.parametrize("name", NAMES)
def test_every_part_of_a_rule_fires_somewhere(name: str) -> None:
    seen = {part for number in range(INSTANCES) for part in everything(name, number).fired}
    if set(_parts(name)) - set(_rewrites(name)) - seen:
        seen |= _fired_near()
    assert set(_parts(name)) - seen <= _UNREACHED


def test_operands_after_a_row_scalar_or_column_vector_are_scratch() -> None:
    for op in all_ops():
        roles = [o.role for o in op.operands]
        for i, role in enumerate(roles):
            if role in (Role.ROW_SCALAR, Role.COL_VECTOR):
                assert set(roles[i + 1 :]) <= {Role.SCRATCH}, op.name


@pytest.mark.parametrize("name", NAMES)
def test_all_alternatives_equal_the_program(name: str) -> None:
    for number, function in enumerate(programs(name)):
        found = everything(name, number)
        assert found.functions
        assert_all_equal(function, found)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in COMPACTING])
def test_programs_get_lost_or_refused_without_the_rule(name: str) -> None:
    lost = 0
    for number, function in enumerate(programs(name)):
        rest = alternatives(function, frozenset(_parts(name)))
        lost += rest.missing or bool(set(everything(name, number).functions) - set(rest.functions))
    assert lost >= INSTANCES - 2, f"only {lost} of {INSTANCES} programs need {name}"


@pytest.mark.parametrize("name", COMPACTING)
def test_compacting_rule_gives_the_same_programs_in_fewer_classes(name: str) -> None:
    for number, function in enumerate(programs(name)):
        found = everything(name, number)
        rest = alternatives(function, frozenset(_parts(name)))
        assert set(found.functions) == set(rest.functions)
        assert (found.graph.rows, len(found.graph.classes)) < (rest.graph.rows, len(rest.graph.classes))


@pytest.mark.parametrize(("name", "number"), [(n, i) for n, near in NEAR_MISSES.items() for i in range(len(near))])
def test_rule_does_not_fire_where_its_condition_fails(name: str, number: int) -> None:
    function = NEAR_MISSES[name][number]()
    assert not verify_program(program(function)) and not refusals(function)
    graph = saturated(function)
    if name in ON_VALUE:
        assert ON_VALUE[name](graph)
    else:
        assert not set(_rewrites(name)) & set(graph.report.rules_fired)
    found = alternatives(function)
    if found.missing:
        with pytest.raises(Refused) as refused:
            lower(function, TARGET)
        assert all(d.code.startswith("L") for d in refused.value.diagnostics)
    else:
        assert found.functions
        assert_all_equal(function, found)
