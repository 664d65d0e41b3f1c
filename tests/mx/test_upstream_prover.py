"""Upstream's prover, rule by rule (`spec/mx.md` section 6), its budget, and the calls that it follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from helpers import Json, const, function, incore, let, loop, program, ret, scalar
from scales import mx_refused, scale_load, scales

from egraph_rules.mx.proofs import Gap, Where
from egraph_rules.mx.upstream import BUDGET, UpstreamProver
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Expr, Var, index
from pypto_ir.stmt import Assign, Eval, Function, FunctionCall, Param, Program, Return, Submit, walk
from pypto_ir.types import INDEX, CommCtxType, ScalarType


def defined(*lines: str, **scalars: str) -> tuple[UpstreamProver, Where, Callable[[str], Expr]]:
    """A function of these scalar definitions (`x = n * 16`); its prover, a place in it, and its names."""
    body: list[Json] = []
    for line in lines:
        name, _, text = line.partition(" = ")
        body.append(let(name, text[:-2]) if text.endswith("()") else {"let": name, "expr": text})
    p = incore([scalar("n"), *(scalar(k, v) for k, v in scalars.items())], [*body, ret()])
    return prover(p)


def prover(p: Program, name: str = "main") -> tuple[UpstreamProver, Where, Callable[[str], Expr]]:
    f = p.function(name)
    assert f is not None
    values = {v.name: v for s in walk(f.body) for v in getattr(s, "targets", ())}
    values |= {x.var.name: x.var for x in f.params}
    return UpstreamProver(p), Where(f, ("functions", 0), f.body[-1]), lambda n: values[n]


MULTIPLES = [
    ("48", 16, True), ("-48", 16, True), ("8", 16, False), ("0", 16, True),
    ("n * 16", 16, True), ("16 * n", 16, True), ("n * 4 * 4", 16, False), ("(n * 4) * (n * 4)", 16, False), ("n * 48", 16, True),
    ("n * 16 + 32", 16, True), ("n * 16 + 8", 16, False), ("n * 32 - n * 16", 16, True), ("n * 16 - 1", 16, False),
    ("n * 512 // 32", 16, True), ("n * 256 // 32", 16, False), ("n * 48 // 3", 16, False), ("n * 16 // -1", 16, False),
    ("n * 16 // n", 16, False), ("n", 16, False), ("n * 16 % 32", 16, False), ("min(n * 16, 32)", 16, False), ("-(n * 16)", 16, False),
    ("(n * 16) & 255", 16, False), ("n << 4", 16, False), ("abs(n * 16)", 16, False), ("n * 2", 2, True), ("n", 1, True),
]  # fmt: skip
SIGNS = [
    ("0", True), ("5", True), ("-1", False), ("b * 16", True), ("b + 4", True), ("b - 0", False), ("4 - 3", False), ("b // 3", True),
    ("b // -3", False), ("b // 0", False), ("b // b", False), ("n", False), ("s", False), ("b * -1", False), ("b % 4", False),
    ("max(b, 3)", False), ("c", True), ("c * b + c", True),
]  # fmt: skip


@pytest.mark.parametrize(("text", "by", "proved"), MULTIPLES)
def test_multiples(text: str, by: int, proved: bool) -> None:
    facts, at, value = defined(f"x = {text}")
    gap = facts.divisible(at, value("x"), by)
    assert (gap is None) is proved or by == 1
    if by == 1:
        assert gap is not None  # a name that nothing defines is no multiple even of 1
    elif gap is not None:
        assert gap.function == "main" and gap.expr is not None


@pytest.mark.parametrize(("text", "proved"), SIGNS)
def test_signs(text: str, proved: bool) -> None:
    facts, at, value = defined("b = tile.get_block_idx()", "c = tile.get_block_num()", "s = tile.get_subblock_idx()", f"x = {text}")
    assert (facts.non_negative(at, value("x")) is None) is proved


def test_a_cast_is_followed_by_neither_proof() -> None:
    facts, at, value = defined('x = cast(k, "INDEX")', "y = x * 16", k="INT32")
    assert facts.divisible(at, value("x"), 2) and facts.non_negative(at, value("y")) and not facts.divisible(at, value("y"), 16)


LOOPS = [
    ((0, 64, 16), 16, True, True), ((256, 2048, 256), 16, True, True), ((8, 64, 16), 16, False, True), ((0, 64, 8), 16, False, True),
    ((48, -16, -16), 16, True, False), ((-32, 32, 16), 16, True, False), ((0, "n", 16), 16, True, True), ((0, 0, 16), 16, True, True),
    (("n", 64, 16), 16, False, False), ((0, 64, "n"), 16, False, False), (("n * 16", 640, 16), 16, False, False),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["range", "parallel", "pipeline", "unroll"])
@pytest.mark.parametrize(("bounds", "by", "multiple", "sign"), LOOPS)
def test_loops(bounds: tuple[Any, ...], by: int, multiple: bool, sign: bool, kind: str) -> None:
    attrs = {"attrs": {"pipeline_stages": 2}} if kind == "pipeline" else {}
    p = incore([scalar("n")], [loop("i", bounds, {}, [{"let": "x", "expr": "i"}], kind=kind, **attrs), ret()])
    facts, at, value = prover(p)
    assert (facts.divisible(at, value("x"), by) is None) is multiple
    assert (facts.non_negative(at, value("x")) is None) is sign


def test_carried_values_results_and_phis_have_no_definition() -> None:
    body = [{"let": "i1", "expr": "c + 16"}, {"yield": ["i1"]}]
    branch: Json = {
        "if": "n == 0",
        "then": [{"let": "p", "expr": "16 * n"}, {"yield": ["p"]}],
        "else": [{"yield": ["z"]}],
        "results": ["phi"],
    }
    p = incore(
        [scalar("n")],
        [{"let": "z", "expr": "0"}, loop("i", [0, 4, 1], {"c": "z"}, body, ["r"]), branch,
         {"let": "x", "expr": "r"}, {"let": "y", "expr": "phi"}, ret()],
    )  # fmt: skip
    facts, at, value = prover(p)
    for name in ("i1", "x", "y"):
        assert facts.divisible(at, value(name), 16) is not None
    assert facts.divisible(at, value("p"), 16) is None


def chain(nodes: int) -> Expr:
    """A product of 16 whose proof looks at this many nodes: each of the factors before the last fails first."""
    e: Expr = index(16)
    for _ in range((nodes - 1) // 2):
        e = Binary("mul", index(1), e)
    if nodes % 2 == 0:
        e = Var("alias", INDEX)
    return e


def proof_of(e: Expr) -> Gap | None:
    alias = Assign((Var("alias", INDEX),), chain(255))
    f = Function("main", (), (), (alias, Return(())), "InCore")
    return UpstreamProver(Program("P", (f,))).divisible(Where(f, (), f.body[-1]), e, 16)


@pytest.mark.parametrize(("nodes", "proved"), [(1, True), (255, True), (256, True), (257, False), (259, False)])
def test_the_budget_is_256_nodes_of_a_proof(nodes: int, proved: bool) -> None:
    assert BUDGET == 256
    gap = proof_of(chain(nodes))
    assert (gap is None) is proved
    assert gap is None or "256 steps" in str(gap)


def test_a_failed_factor_costs_what_it_took() -> None:
    """128 sums of two unproved names, one after another, are too many before the factor that proves the product."""
    e: Expr = index(16)
    for _ in range(100):
        e = Binary("mul", Binary("add", index(1), index(1)), e)
    assert proof_of(e) is not None  # (sum, first addend) and the product: 3 nodes a step
    e = index(16)
    for _ in range(80):
        e = Binary("mul", e, Binary("add", index(1), index(1)))
    assert proof_of(e) is None  # the factor that proves comes first


def test_every_proof_has_a_budget_of_its_own() -> None:
    facts, at, value = defined("b = tile.get_block_idx()", "x = b * 16")
    wide: Expr = value("x")
    for _ in range(47):
        wide = Binary("add", wide, value("x"))
    # 48 names, behind each of them a product, its first factor with the call behind it, and 16; 47 sums: 255 nodes in all
    for _ in range(3):
        assert facts.divisible(at, wide, 16) is not None
        assert facts.non_negative(at, wide) is None
        assert facts.divisible(at, Binary("add", value("x"), value("x")), 16) is None


def test_a_power_of_two_that_does_not_fit_is_not_followed() -> None:
    big = Const(1 << 62, DType.INDEX)
    facts, at, value = defined("x = n * 16")
    assert facts.divisible(at, Binary("floordiv", Binary("mul", value("n"), big), big), 2) is not None


# calls


def kernel(*names: str) -> Json:
    return function("k", [scalar(n) for n in names], [{"let": "x", "expr": names[0]}, ret()])


def caller(name: str, *body: Json) -> Json:
    return function(name, [scalar("m")], [*body, ret()], kind="Orchestration")


def calling(*args: Any) -> Json:
    return {"call": "k", "args": list(args)}


def test_every_caller_must_prove_a_parameter() -> None:
    good, also, bad = calling("m * 16"), calling(32), calling("m")
    facts, at, value = prover(program(kernel("row"), caller("a", good), caller("b", also)), "k")
    assert facts.divisible(at, value("x"), 16) is None
    facts, at, value = prover(program(kernel("row"), caller("a", good), caller("b", also, bad)), "k")
    gap = facts.divisible(at, value("x"), 16)
    assert gap is not None and gap.function == "b" and "in b" in str(gap) and "m of b" in str(gap)
    assert len(gap.sites) == 1


def test_parameters_are_followed_through_several_functions() -> None:
    middle = function("mid", [scalar("r")], [{"call": "k", "args": ["r * 2"]}, ret()], kind="Orchestration")
    facts, at, value = prover(program(kernel("row"), middle, caller("a", {"call": "mid", "args": ["m * 8"]})), "k")
    assert facts.divisible(at, value("x"), 16) is not None  # a single factor must carry the divisor: 2, or 8
    assert facts.divisible(at, value("x"), 8) is None
    gap = facts.non_negative(at, value("x"))
    assert gap is not None and gap.function == "a" and len(gap.sites) == 2


def test_no_caller_and_recursion_are_refused() -> None:
    facts, at, value = prover(program(kernel("row")), "k")
    assert facts.divisible(at, value("x"), 2) is not None
    again = function("k", [scalar("row")], [{"let": "x", "expr": "row"}, {"call": "k", "args": ["row"]}, ret()])
    facts, at, value = prover(program(again, caller("a", calling(0))), "k")
    gap = facts.divisible(at, value("x"), 2)
    assert gap is not None and "steps" in str(gap)


def launched(args: tuple[Expr, ...], *params: Var, submit: bool = True) -> tuple[UpstreamProver, Where]:
    """A function of these parameters that is launched with these arguments."""
    k = Function("k", tuple(map(Param, params)), (), (Return(()),), "InCore")
    target = (Var("tid", ScalarType(DType.TASK_ID)),) if submit else ()
    launch = Submit("k", args) if submit else FunctionCall("k", args)
    s = Assign(target, launch) if submit else Eval(launch)
    return UpstreamProver(Program("P", (k, Function("main", (), (), (s,), "Orchestration")))), Where(k, (), k.body[0])


ROW, COL, CTX, CTX2 = Var("row", INDEX), Var("col", INDEX), Var("ctx", CommCtxType()), Var("ctx2", CommCtxType())
SIXTEEN, ONE, HANDLE = index(16), index(1), Var("handle", CommCtxType())


def test_a_launch_may_leave_out_parameters_before_the_contexts_at_the_end() -> None:
    facts, at = launched((SIXTEEN, HANDLE), ROW, COL, CTX)
    assert facts.divisible(at, ROW, 16) is None
    assert facts.divisible(at, COL, 16) is not None  # left out: nobody says what it is
    facts, at = launched((SIXTEEN, HANDLE, HANDLE), ROW, COL, CTX, CTX2)
    assert facts.divisible(at, ROW, 16) is None and facts.divisible(at, COL, 16) is not None


def test_a_call_that_does_not_fit_poisons_every_scalar_parameter() -> None:
    for args, params, submit in (
        ((SIXTEEN,), (ROW, COL), False), ((SIXTEEN, SIXTEEN, SIXTEEN), (ROW, COL), False),
        ((SIXTEEN, SIXTEEN, SIXTEEN), (ROW, COL), True), ((HANDLE,), (ROW, CTX, CTX2), True),
    ):  # fmt: skip
        facts, at = launched(args, *params, submit=submit)
        gap = facts.divisible(at, ROW, 16)
        assert gap is not None and "does not give it" in str(gap)


def test_what_it_accepts_wrongly_is_what_upstream_accepts_wrongly() -> None:
    """A square in INT32 that wraps to a negative number: rules that do not know of widths call it non-negative."""
    bounds = [const(0, "INT32"), const(46368, "INT32"), const(16, "INT32")]
    p = incore([], [loop("i", bounds, {}, [{"let": "x", "expr": "i * i"}]), ret()])
    facts, at, value = prover(p)
    assert facts.non_negative(at, value("x")) is None and facts.divisible(at, value("x"), 16) is None
    assert (46352 * 46352 + 2**31) % 2**32 - 2**31 == -2146459392


def test_the_tool_does_not_follow_where_upstream_is_wrong() -> None:
    bounds = [const(0, "INT32"), const(46368, "INT32"), const(16, "INT32")]
    body = [{"let": "x", "expr": "i * i"}, scale_load("t", "s", ["x", 0], [16, 2])]
    (d,) = mx_refused(incore([scales("s", 64, 2)], [loop("i", bounds, {}, body), ret()]), "B109", policy="upstream")
    assert "upstream's rules accept it" in d.message and "at its width" in d.message


def test_the_variable_of_a_spread_scope_is_a_block_index() -> None:
    scope = {"scope": "spmd", "var": "b", "attrs": {"core_num": 2}, "body": [{"let": "x", "expr": "b * 16"}]}
    facts, at, value = prover(incore([], [scope, ret()], kind="Opaque"))
    assert facts.non_negative(at, value("x")) is None and facts.divisible(at, value("x"), 16) is None
