"""Offsets in boxes: what is emitted and at which width, what facts prove beyond upstream's rules, and what they must not prove."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, calls, const, function, give, incore, let, loop, program, ret, scalar, store
from scales import A, B, blocked, call, keep, kept, mx_refused, scale_load, scales, texts

from egraph_rules.mx.proofs import Where
from egraph_rules.mx.upstream import UpstreamProver
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Var, index
from pypto_ir.stmt import Function, Program, Return, tuple_items
from pypto_ir.types import ScalarType


def rows(body: list[Json], bounds: tuple[Any, ...], offset: str = "x", extent: int = 64, **more: Any) -> Program:
    """A loop over i that loads the box of rows at an offset and keeps it there."""
    inner = [*body, scale_load("t", "s", [offset, 0], [16, 2]), store("w", "t", [offset, 0], "c"), give("w")]
    params = [scales("s", extent, 2), *more.pop("params", []), kept(extent, 2)]
    return incore(params, [loop("i", bounds, {"c": "o_0"}, inner, ["o"]), ret("o")], **more)


PLAIN = UpstreamProver(Program("P"))
AT = Where(Function("main"), (), Return(()))


@pytest.mark.parametrize("dtype", [DType.INDEX, DType.INT64])
def test_a_64_bit_offset_is_divided_as_it_is(dtype: DType) -> None:
    x = Var("x", ScalarType(dtype))
    assert PLAIN.quotient(AT, x, 16) == Binary("floordiv", x, index(16))


@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT16, DType.INT8, DType.UINT32])
def test_a_narrower_offset_is_cast_first(dtype: DType) -> None:
    x = Var("x", ScalarType(dtype))
    assert PLAIN.quotient(AT, x, 16) == Binary("floordiv", Cast(x, DType.INDEX), index(16))


def test_an_unsigned_64_bit_offset_keeps_its_type_and_the_divisor_is_cast() -> None:
    x = Var("x", ScalarType(DType.UINT64))
    assert PLAIN.quotient(AT, x, 2) == Binary("floordiv", x, Cast(index(2), DType.UINT64))


@pytest.mark.parametrize("policy", ["cheapest", "upstream"])
@pytest.mark.parametrize("dtype", ["INT32", "INT64", "UINT64", "UINT32", "INT16"])
def test_offsets_of_every_width_are_rewritten_and_equal(dtype: str, policy: str) -> None:
    bounds = tuple(const(n, dtype) for n in (0, 64, 16))
    after = blocked(rows([{"let": "x", "expr": "i"}], bounds), policy=policy)
    (load,) = calls(after, "tile.load")
    assert len(tuple_items(load.args[1]) or ()) == 5


QUOTIENTS = [
    ([], "i", "i // 16"), ([{"let": "x", "expr": "i + 16"}], "x", "x // 16"), ([{"let": "x", "expr": "b * 16"}], "x", "b"),
    ([{"let": "x", "expr": "i"}], "x", "i // 16"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "offset"), [(b, o) for b, o, _ in QUOTIENTS])
def test_upstreams_quotients_divide_the_offset_that_was_written(body: list[Json], offset: str) -> None:
    start = [let("b", "tile.get_block_idx")]
    before = rows([*start, *body], (0, 32, 16), offset)
    after = blocked(before, policy="upstream")
    assert texts(after, "tile.load", 1) == [["0", f"{offset} // 16", "0", "0", "0"]]


def test_a_cheaper_quotient_is_taken_where_nothing_wraps() -> None:
    after = blocked(rows([let("b", "tile.get_block_idx"), {"let": "x", "expr": "b * 16"}], (0, 1, 1)))
    assert texts(after, "tile.load", 1) == [["0", "b", "0", "0", "0"]]
    after = blocked(rows([], (0, 4, 1), "i * 16"))
    assert texts(after, "tile.load", 1) == [["0", "i", "0", "0", "0"]]


def test_a_product_that_wraps_is_divided_after_it_wrapped() -> None:
    """x * 256 at x = 1 << 24 in INT32 is 0: box 0, not box 268435456 // 16."""
    bounds = tuple(const(n, "INT32") for n in (1 << 24, (1 << 24) + 1, 1))
    before = rows([{"let": "x", "expr": {"const": 0, "dtype": "INT32"}}, {"let": "y", "expr": "i * f + x"}], bounds, "y",
                  params=[scalar("f", "INT32", range=(256, 256))])  # fmt: skip
    after = blocked(before)
    (load,) = calls(after, "tile.load")
    box = (tuple_items(load.args[1]) or ())[1]
    assert box == index(0) or isinstance(box, Binary)


#: programs that facts prove and upstream's rules do not: scalars, body, loop, offset
BEYOND = {
    "a product of two factors": ([], (0, 64, 16), [let("b", "tile.get_block_idx"), {"let": "x", "expr": "(b * 4) * (4 * 1)"}], "x"),
    "residues that add up": ([], (0, 4, 1), [{"let": "x", "expr": "(i * 16 + 8) + 8"}], "x"),
    "a difference of a remainder": ([], (0, 64, 8), [{"let": "x", "expr": "i - i % 16"}], "x"),
    "a mask": ([], (0, 64, 8), [{"let": "x", "expr": "i & 48"}], "x"),
    "a shift": ([], (0, 4, 1), [{"let": "x", "expr": "i << 4"}], "x"),
    "a minimum": ([], (0, 64, 16), [{"let": "x", "expr": "min(i, 32)"}], "x"),
    "a maximum": ([], (0, 64, 16), [{"let": "x", "expr": "max(i, 32)"}], "x"),
    "a loop that counts down": ([], (48, -1, -16), [], "i"),
    "a difference that is not negative": ([], (0, 64, 16), [{"let": "x", "expr": "48 - i"}], "x"),
    "a symbolic start and step": ([scalar("n", range=(0, 1))], ("n * 32", 64, 16), [], "i"),
    "a remainder": ([], (0, 128, 16), [{"let": "x", "expr": "i % 64"}], "x"),
    "a parameter with a range": ([scalar("n", range=(1, 1))], (0, 32, 16), [{"let": "x", "expr": "i + n * 16"}], "x"),
    "a branch": (
        [scalar("n")], (0, 64, 16),
        [{"if": "n == 0", "then": [{"let": "p", "expr": "i"}, give("p")], "else": [{"let": "q", "expr": "i // 32 * 32"}, give("q")],
          "results": ["x"]}], "x",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BEYOND)
def test_facts_prove_more_than_upstream(name: str) -> None:
    params, bounds, body, offset = BEYOND[name]
    before = rows(body, bounds, offset, extent=128, params=params)
    blocked(before)
    mx_refused(before, *{d.code for d in _refusal(before)}, policy="upstream")


def _refusal(before: Program) -> tuple[Any, ...]:
    with pytest.raises(Refused) as caught:
        optimize(before, stages=("mx",), policy="upstream")
    assert {d.code for d in caught.value.diagnostics} <= {"B108", "B109"}
    return caught.value.diagnostics


def test_a_carried_offset_is_proved_by_induction() -> None:
    inner = [
        scale_load("t", "s", ["r", 0], [16, 2]), store("w", "t", ["r", 0], "c"),
        {"let": "r1", "expr": "min(r + 16, 48)"}, give("w", "r1"),
    ]  # fmt: skip
    before = incore(
        [scales("s", 64, 2), kept(64, 2)],
        [{"let": "zero", "expr": "0"}, loop("i", [0, 4, 1], {"c": "o_0", "r": "zero"}, inner, ["o", "q"]), ret("o")],
    )
    blocked(before)
    mx_refused(before, "B108", policy="upstream")


#: offsets that look proved and are not: what they are, and the code
FALSE = {
    "a square that wraps": (tuple(const(n, "INT32") for n in (0, 46368, 16)), [{"let": "x", "expr": "i * i"}], "x", "B109"),
    "a count that passes below 0": ((48, -32, -16), [], "i", "B109"),
    "a step of half a box": ((0, 64, 8), [], "i", "B108"),
    "a rest": ((0, 64, 16), [{"let": "x", "expr": "i + i % 24"}], "x", "B108"),
    "a quotient of a multiple of too little": ((0, 512, 64), [{"let": "x", "expr": "i // 8"}], "x", "B108"),
    "a difference": ((0, 64, 16), [{"let": "x", "expr": "32 - i"}], "x", "B109"),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_what_is_not_true_is_not_proved(name: str) -> None:
    bounds, body, offset, code = FALSE[name]
    found = mx_refused(rows(body, bounds, offset), code)
    assert "cannot be proven" in found[0].message


def test_the_call_that_broke_a_proof_is_named() -> None:
    k = function(
        "k", [scales("s", 64, 2), scalar("row"), kept(16, 2)],
        [{"let": "x", "expr": "row * 4"}, scale_load("t", "s", ["x", 0], [16, 2]), *keep("t"), ret("o")],
    )  # fmt: skip
    params = [scales("s", 64, 2), kept(16, 2)]
    outer = [
        function(f"f{i}", params, [{**call("o", "k", "s", i, "o_0"), "loc": f"main.py:{i}:1"}, ret("o")], kind="Orchestration")
        for i in (4, 8, 6)
    ]
    for policy in ("cheapest", "upstream"):
        (d,) = mx_refused(program(k, *outer), "B108", policy=policy)
        if policy == "cheapest":
            assert "main.py:6:1" in d.message and "f6" in d.message and "main.py:4:1" not in d.message
        else:
            assert "neither factor" in d.message


@pytest.mark.parametrize(("layout", "offsets"), [(A, ["n", "m"]), (B, ["m", "n"])])
def test_block_and_group_axis_are_told_apart_in_both_layouts(layout: str, offsets: list[str]) -> None:
    """n counts rows of boxes, m pairs of groups; the block axis comes first in the blocked tensor of either layout."""
    shape, window = ((64, 8), [16, 2]) if layout == A else ((8, 64), [2, 16])
    params = [scales("s", *shape, layout=layout), scalar("p", range=(0, 3)), scalar("q", range=(0, 3)), kept(*window)]
    lets = [{"let": "n", "expr": "p * 16"}, {"let": "m", "expr": "q * 2"}]
    after = blocked(incore(params, [*lets, scale_load("t", "s", offsets, window), *keep("t"), ret("o")]))
    assert texts(after, "tile.load", 1) == [["0", "p", "q", "0", "0"]]


def test_offsets_of_boxes_are_never_taken_from_outside() -> None:
    """A function that the program calls with whole boxes may still be called from elsewhere if nobody in the program calls it."""
    lonely = function("k", [scales("s", 64, 2), scalar("row")], [scale_load("t", "s", ["row", 0], [16, 2]), ret()])
    mx_refused(program(lonely), "B108")
    ranged = function("k", [scales("s", 64, 2), scalar("row", range=(0, 0))], [scale_load("t", "s", ["row", 0], [16, 2]), ret()])
    blocked(program(ranged), equal=False)
