"""Quotients of offsets: the cheapest equal expression from names in view, the plain quotient where nothing is cheaper."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, const, loop, scalar
from test_index_facts import ANY, I100, branch, calling, let, main, where

from egraph_rules.index_facts import IndexFacts
from pypto_ir.dtypes import DType
from pypto_ir.expr import dtype_of
from pypto_ir.stmt import Program
from pypto_ir.text import expr_text


def quotient(p: Program, divisor: int = 16, name: str = "o") -> str:
    """The quotient of the definition of a name, where it stands."""
    f, e, s = where(p, name)
    facts = IndexFacts(p)
    assert facts.prove(f, e, divisor, s).proved
    return expr_text(facts.quotient(f, e, divisor, s))


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ([let("o", "i * 16")], "i"),
        ([let("o", "i * 256")], "i * 16"),
        ([let("r", "i * 16"), let("o", "r")], "i"),
        ([let("r", "i * 16"), let("o", "r + 32")], "i + 2"),
        ([let("r", "i * 16"), let("s", "i * 48"), let("o", "r + s")], "i + i * 3"),
        ([let("o", "i // 16 * 16")], "i // 16"),
        ([let("o", "i - i % 16")], "i // 16"),
        ([let("r", "i // 4 * 64"), let("o", "r")], "r // 16"),
        ([let("o", "i // 4 * 64")], "i // 4 * 4"),
        ([let("o", "48")], "3"),
        ([let("o", "(i * 64) // 2")], "i * 2"),
    ],
    ids=str,
)
def test_quotients_without_a_division(body: list[Json], written: str) -> None:
    assert quotient(main([I100], *body)) == written


def test_a_parameter_is_divided_as_it_is() -> None:
    calls = [{"call": "kernel", "args": [n]} for n in (32, 48)]
    assert quotient(calling([ANY], [let("r", "x + 0"), let("o", "r")], *calls)) == "r // 16"


def test_a_negative_offset_that_is_never_reached_is_divided_as_it_is() -> None:
    """-32 // 16 as a constant would be refused as the offset of a load that no run comes to."""
    program = calling([ANY], [branch("0 < 0", [let("o", "x * 16 - 32")])], {"call": "kernel", "args": [0]})
    assert quotient(program) == "(x * 16 - 32) // 16"


def int32(name: str, bounds: tuple[int, int]) -> Json:
    return scalar(name, "INT32", range=bounds)


def word(value: int) -> Any:
    return const(value, "INT32")


def test_a_product_that_may_wrap_is_divided_as_it_is() -> None:
    def product(most: int) -> Program:
        return main([int32("x", (0, most))], let("c", word(256)), let("r", "x * c"), let("o", "r"))

    assert quotient(product(1 << 20)) == 'cast(x, "INDEX") * 16'
    p = product(1 << 24)
    facts, (f, e, s) = IndexFacts(p), where(p)
    assert expr_text(facts.quotient(f, e, 16, s)) == 'cast(r, "INDEX") // 16'
    assert not facts.prove(f, e, 16, s).proved


def test_an_operation_that_wraps_at_its_width_is_not_done_at_another() -> None:
    body = [let("c", {"const": 16, "dtype": "INT8"}), let("u", {"const": 1, "dtype": "INT8"}), let("o", "a * c // u")]
    p = main([scalar("a", "INT8", range=(16, 17))], *body)
    assert quotient(p) == 'cast(a * c // u, "INDEX") // 16'


def test_names_of_another_arm_or_of_later_are_not_in_view() -> None:
    p = main([I100], branch("i < 5", [let("m", "i // 4")], [let("o", "i // 4 * 16")]), let("n", "i // 4"))
    assert quotient(p) == "i // 4"
    p = main([I100], let("m", "i // 4"), branch("i < 5", [let("q", "i")], [let("o", "i // 4 * 16")]))
    assert quotient(p) == "m"


def test_an_unsigned_offset_keeps_its_type() -> None:
    p = main([scalar("u", "UINT64", range=(0, 100))], let("c", {"const": 16, "dtype": "UINT64"}), let("o", "u * c"))
    f, e, s = where(p)
    written = IndexFacts(p).quotient(f, e, 16, s)
    assert dtype_of(written) is DType.UINT64 and expr_text(written).startswith("u * c // ")


def test_in_a_loop_the_quotient_is_that_of_its_variable() -> None:
    p = main([ANY], loop("k", [0, "x", 1], {}, [let("o", "k * 32")]))
    assert quotient(p) == "k * 2"
