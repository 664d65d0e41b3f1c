"""Rules of facts one by one, on terms that are put into the e-graph as they are: shapes of machine nodes, what a type says, positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from egraph_rules.engine import Commands, Frozen, Limits, engine

Shape = tuple[int, ...]
Term = Callable[[Commands], Any]


def saturated(fill: Callable[[Commands], None]) -> Frozen:
    commands = Commands()
    fill(commands)
    with engine().session() as session:
        session.run(commands)
        session.saturate(Limits())
        return session.freeze()


def shape_of(make: Term) -> Shape | None:
    """The shape of a term, None where no rule says one."""
    frozen = saturated(lambda c: c.set("value", 0, make(c)))
    ((_, number),) = frozen.rows["value"]
    return dict((args[0], shape) for args, shape in frozen.rows.get("shape", ())).get(number)


def leaf(c: Commands, shape: Shape, number: int = 0) -> Any:
    """A value of a shape."""
    c.set("shape", c.call("Leaf", number), shape)
    return c.call("Leaf", number)


def op(c: Commands, rule: str | None, *shapes: Shape) -> Any:
    """A machine op whose shape follows a rule from its operands'."""
    if rule is not None:
        c.fact("shape-rule", 0, rule)
    operands = c.call("Nil")
    for i, shape in reversed(list(enumerate(shapes))):
        operands = c.call("Data", leaf(c, shape, i), operands)
    return c.call("Op2", 0, operands)


def with_table(table: str, key: Any, value: Any, make: Term) -> Term:
    def fill(c: Commands) -> Any:
        c.set(table, key, value)
        return make(c)

    return fill


def zero(c: Commands) -> Any:
    return c.call("Num", 0)


A, B, N_D = (6, 8), (4, 2), (2, 3, 8)
TERMS: dict[str, tuple[Term, Shape]] = {
    "flat": (with_table("collapsed", N_D, A, lambda c: c.call("Flat", leaf(c, N_D))), A),
    "packed": (with_table("collapsed", N_D, A, lambda c: c.call("Packed", leaf(c, N_D))), A),
    "columns": (with_table("columns", N_D, (3, 16), lambda c: c.call("Cols", leaf(c, N_D))), (3, 16)),
    "load": (with_table("load-shape", 0, A, lambda c: c.call("Load2", 0)), A),
    "load of a view": (with_table("load-shape", 0, A, lambda c: c.call("LoadIn2", 0, leaf(c, B))), A),
    "accumulated columns": (lambda c: c.call("AccCols", 0, leaf(c, A), c.call("FNil")), A),
    "create": (lambda c: c.call("Create2", 0, A), A),
    "full": (lambda c: c.call("Full2", 0, A), A),
    "reshape": (lambda c: c.call("Reshape2", leaf(c, B), A), A),
    "reinterpret": (lambda c: c.call("Reinterpret2", 0, leaf(c, B), A), A),
    "slice": (lambda c: c.call("Slice2", 0, leaf(c, B), A, zero(c), zero(c)), A),
    "assemble": (lambda c: c.call("Assemble2", 0, leaf(c, A), leaf(c, B, 1), zero(c), zero(c)), A),
    "assemble of pieces": (lambda c: c.call("AssembleEach", 0, leaf(c, A), c.call("LeafEach", 1), 0, zero(c), zero(c)), A),
    "packed rows": (lambda c: c.call("PackRows", c.call("LeafEach", 1), A), A),
}


@pytest.mark.parametrize("name", TERMS)
def test_a_machine_node_has_a_shape(name: str) -> None:
    make, shape = TERMS[name]
    assert shape_of(make) == shape


@pytest.mark.parametrize(
    ("rule", "shapes", "expected"),
    [
        ("first", (A, B), A),
        ("second", (A, B), B),
        ("row_reduce", (A,), (6, 1)),
        ("row_reduce", (N_D,), None),
        ("col_reduce", (A,), (1, 8)),
        ("col_reduce", (N_D,), None),
        ("row_mask", ((6, 8),), (6, 32)),
        ("row_mask", ((6, 256),), (6, 32)),
        ("row_mask", ((6, 257),), (6, 64)),
        ("row_mask", (N_D,), None),
        ("broadcast", ((6, 1), (1, 8)), A),
        ("broadcast", ((1, 8), (6, 1)), A),
        ("broadcast", (A, A), A),
        ("broadcast", (N_D, A), None),
        ("broadcast", (A, N_D), None),
        ("broadcast_12", ((9, 32), (6, 1), (1, 8)), A),
        ("broadcast_3", ((6, 1), (1, 8), (1, 1)), A),
        ("broadcast_3", ((1, 1), (6, 1), (1, 8)), A),
        ("broadcast_3", ((1, 8), (1, 1), (6, 1)), A),
        ("broadcast_3", (N_D, A, A), None),
        ("broadcast_3", (A, N_D, A), None),
        ("broadcast_3", (A, A, N_D), None),
        ("broadcast_mask", ((6, 1), (1, 256)), (6, 32)),
        ("broadcast_mask", ((1, 257), (6, 1)), (6, 64)),
        ("broadcast_mask", (N_D, A), None),
        ("broadcast_mask", (A, N_D), None),
        ("other", (A, A, A), None),
        (None, (A, A, A), None),
        (None, (B, A, A), None),
    ],
)
def test_the_shape_of_an_op_follows_its_rule_and_no_other(rule: str | None, shapes: tuple[Shape, ...], expected: Shape | None) -> None:
    assert shape_of(lambda c: op(c, rule, *shapes)) == expected


#: what a type may say of its values
SAID = (
    "rows-prefix", "gaps", "even-pages", "whole", "packs", "in-acc", "movable", "row-major", "row-windows",
)  # fmt: skip


def test_what_a_type_says_holds_of_its_values_and_of_no_others() -> None:
    def fill(c: Commands) -> None:
        for number in range(2):
            c.set("value", number, c.call("Leaf", number))
            c.set("kind", c.call("Leaf", number), number)
        c.set("kind-shape", 0, A)
        c.set("kind-width", 0, 4)
        c.set("kind-region", 0, 5)
        c.set("kind-packing", 0, 6)
        c.set("flat-kind", 0, 7)
        c.fact("Flat", c.call("Leaf", 0))
        for word in SAID:
            c.fact(f"kind-{word}", 0)

    frozen = saturated(fill)
    classes = {args[0]: output for args, output in frozen.rows["value"]}
    for word in SAID:
        assert {args[0] for args, _ in frozen.rows[word]} == {classes[0]}, word
    for function, said in (("shape", A), ("width", 4), ("region", 5), ("packing", 6)):
        assert {args[0]: output for args, output in frozen.rows[function]} == {classes[0]: said}
    ((_, flat),) = frozen.rows["Flat"]
    assert {args[0]: output for args, output in frozen.rows["kind"]} == {classes[0]: 0, classes[1]: 1, flat: 7}


def plus(c: Commands, a: Any, b: Any) -> Any:
    return c.call("Plus", a, b)


def num(c: Commands, n: int) -> Any:
    return c.call("Num", n)


def sym(c: Commands) -> Any:
    return c.call("Sym", 0)


@pytest.mark.parametrize(
    ("one", "two", "equal"),
    [
        (lambda c: plus(c, num(c, 2), num(c, 5)), lambda c: num(c, 7), True),
        (lambda c: plus(c, sym(c), num(c, 0)), sym, True),
        (lambda c: plus(c, num(c, 0), sym(c)), sym, True),
        (lambda c: plus(c, sym(c), num(c, 1)), sym, False),
        (lambda c: plus(c, num(c, 1), sym(c)), sym, False),
        (lambda c: plus(c, plus(c, sym(c), num(c, 2)), num(c, 5)), lambda c: plus(c, sym(c), num(c, 7)), True),
    ],
)
def test_sums_of_constants_are_one_position(one: Term, two: Term, equal: bool) -> None:
    def fill(c: Commands) -> None:
        c.set("window-at", 0, one(c))
        c.set("window-at", 1, two(c))

    positions = dict((args[0], output) for args, output in saturated(fill).rows["window-at"])
    assert (positions[0] == positions[1]) == equal


@pytest.mark.parametrize(
    ("make", "base", "offset"),
    [
        (lambda c: num(c, 5), lambda c: num(c, 0), 5),
        (sym, sym, 0),
        (lambda c: plus(c, sym(c), num(c, 3)), sym, 3),
        (lambda c: plus(c, plus(c, sym(c), c.call("Sym", 1)), num(c, 3)), lambda c: plus(c, sym(c), c.call("Sym", 1)), 3),
        (lambda c: plus(c, sym(c), c.call("Sym", 1)), lambda c: plus(c, sym(c), c.call("Sym", 1)), 0),
    ],
)
def test_a_position_is_what_varies_of_it_and_a_constant(make: Term, base: Term, offset: int) -> None:
    def fill(c: Commands) -> None:
        c.set("window-at", 0, make(c))
        c.set("window-at", 1, base(c))

    frozen = saturated(fill)
    positions = dict((args[0], output) for args, output in frozen.rows["window-at"])
    assert [args[1:] for args, _ in frozen.rows["at"] if args[0] == positions[0]] == [(positions[1], offset)]
