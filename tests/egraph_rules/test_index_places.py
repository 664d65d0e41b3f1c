"""Facts of places: arms that are never taken, loops that never run, a few values one by one, and equal operands that are out of view."""

from __future__ import annotations

from helpers import const, function, give, loop, program, ret, scalar
from test_index_facts import call, calling, let, main, where

from egraph_rules.index_facts import Fact, IndexFacts, Proof
from pypto_ir.dtypes import DType
from pypto_ir.expr import Var, index
from pypto_ir.stmt import Assign, Function, Param, Program, Return, Submit
from pypto_ir.types import INDEX, CommCtxType, ScalarType


def fact(p: Program) -> Fact:
    return IndexFacts(p).of(*where(p))


def proof(p: Program, by: int = 16) -> Proof:
    f, e, s = where(p)
    return IndexFacts(p).prove(f, e, by, s)


def test_anything_holds_in_a_loop_that_never_runs_and_not_in_one_that_does() -> None:
    for stop, proved in ((0, True), (1, False)):
        assert proof(main([], loop("k", [0, stop, 1], {}, [let("o", 8)]))).proved is proved


def test_a_call_in_a_loop_that_never_runs_is_no_source_of_a_parameter() -> None:
    for stop, proved in ((0, True), (1, False)):
        p = calling([scalar("x")], [let("o", "x")], loop("k", [0, stop, 1], {}, [call(8)]), call(16))
        assert proof(p).proved is proved


def test_arguments_of_three_calls_are_known_one_by_one() -> None:
    p = calling([scalar("x")], [let("o", "x")], call(0), call(16), call(80))
    assert str(fact(p)) == "one of 0, 16, 80"
    assert not fact(p).allows(32) and fact(p).allows(80)


def test_a_product_wraps_only_where_some_combination_does() -> None:
    """4 * 32 wraps at eight bits, 4 * 16 does not."""
    by = {"const": 4, "dtype": "INT8"}
    for last, proved in ((16, True), (32, False)):
        args = [call(const(n, "INT8")) for n in (0, 4, last)]
        assert proof(calling([scalar("x", "INT8")], [let("four", by), let("o", "x * four")], *args)).proved is proved


def test_operands_that_equal_those_of_another_loop_are_taken_where_they_are_in_view() -> None:
    """`0 * n` is the value that `(i - i) * n` is in a loop over i, which is out of view behind it."""
    body = loop("i", [0, 4, 1], {}, [let("z", "i - i"), let("y", "z * (x // 3)")])
    p = main([scalar("x", range=(0, 9))], body, let("o", "(0 * (x // 3)) // 2 + 16"))
    assert proof(p).proved


def test_the_search_for_what_broke_a_proof_ends_where_every_trip_divides() -> None:
    """Of c = (c + x) // 2 each trip asks for twice the divisor, and c starts at a multiple of all of them."""
    body = loop("k", [0, "x", 1], {"c": "0"}, [let("d", "(c + x) // 2"), give("d")], ["r"])
    found = proof(main([scalar("x")], body, let("o", "r")))
    assert not found.proved and found.obstacle is not None and found.obstacle.divisor <= 1 << 64


def test_an_unsigned_quotient_of_zero_is_zero_whatever_its_divisor_is_as_a_signed_number() -> None:
    """`12 * 0 // 2147483648` in UINT32: kernels divide by -2147483648, and 0 by either is 0."""
    words = [let(name, {"const": n, "dtype": "UINT32"}) for name, n in (("a", 12), ("z", 0), ("h", 1 << 31))]
    assert fact(main([], *words, let("o", "a * z // h"))).constant == 0


def test_a_loop_over_unsigned_numbers_never_comes_to_those_that_are_no_index() -> None:
    """2**63 of range(64, n, 16) would be after 2**59 trips, which no run makes; in steps of 2**20 it is near enough."""
    for step, proved in ((16, True), (1 << 20, False)):
        bounds = [const(64, "UINT64"), "u", const(step, "UINT64")]
        assert proof(main([scalar("u", "UINT64")], loop("k", bounds, {}, [let("o", "k")]))).proved is proved


def test_a_sum_in_a_loop_that_nothing_bounds_stays_an_index() -> None:
    for start, by, dtype, proved in (
        (0, 16, "INDEX", True),
        (0, -16, "INDEX", False),
        (0, 1 << 16, "INDEX", False),
        (0, 16, "INT32", False),
    ):
        turn = {
            "while": "a != x",
            "carry": [{"name": "a", "init": "z"}],
            "body": [let("o", "a"), let("b", "a + s"), give("b")],
            "results": ["r"],
        }
        p = main([scalar("x", dtype)], let("z", const(start, dtype)), let("s", const(by, dtype)), turn)
        assert proof(p).proved is proved


def test_what_a_function_hands_to_itself_grows_by_its_increments() -> None:
    """x + 16 of each call from 32 is at least 32; x - 16 may be anything below."""
    for step, proved in ((16, True), (-16, False)):
        inner = {"if": "n > 0", "then": [call(f"x + {step}", "n - 1", name="f")]}
        f = function("f", [scalar("x"), scalar("n")], [let("o", "x"), inner, ret()], kind="Orchestration", returns=[])
        body = [call(32, "m", name="f"), ret()]
        p = program(f, function("main", [scalar("m")], body, kind="Orchestration", returns=[]), target=None)
        assert proof(p).proved is proved


def pairs(*given: tuple[object, object], body: str = "x + y", between: bool = False) -> Program:
    """A function of x and y, and calls that give pairs of these, through another function where `between`."""
    xy = [scalar("x"), scalar("y")]
    k = function("k", xy, [let("o", body), ret()], kind="Orchestration", returns=[])
    m = function("m", xy, [call("x", "y + 0", name="k"), ret()], kind="Orchestration", returns=[])
    calls = [call(*pair, name="m" if between else "k") for pair in given]
    entry = function("main", [scalar("i", range=(0, 9))], [*calls, ret()], kind="Orchestration", returns=[])
    return program(k, *([m] if between else []), entry, target=None)


def test_a_sum_of_two_parameters_is_proved_call_by_call() -> None:
    for between in (False, True):
        assert proof(pairs((8, 8), (16, 0), between=between)).proved
        assert proof(pairs(("i", "32 - i"), (40, 8), between=between)).proved
        assert not proof(pairs((8, 8), (16, 8), between=between)).proved
        assert not proof(pairs((16, 8), (8, 8), between=between)).proved
        assert not proof(pairs(("i", "16 - i"), ("i", "15 - i"), between=between)).proved
    assert str(proof(pairs((8, 8), (16, 0))).fact) == "16"


def test_calls_that_are_not_all_known_prove_nothing() -> None:
    p = pairs((8, 8), (16, 0))
    f, e, s = where(p)
    assert not IndexFacts(p, entries=["k"]).prove(f, e, 16, s).proved
    inner = {"if": "n > 0", "then": [call("x + 8", "y + 8", "n - 1", name="f")]}
    xy = [scalar("x"), scalar("y"), scalar("n")]
    f_ = function("f", xy, [let("o", "x + y"), inner, ret()], kind="Orchestration", returns=[])
    entry = function("main", [], [call(8, 8, 3, name="f"), call(16, 0, 3, name="f"), ret()], kind="Orchestration", returns=[])
    assert not proof(program(f_, entry, target=None)).proved


def test_what_a_call_gives_is_no_more_than_what_its_place_allows() -> None:
    """k(i, j) in the arm where i + j is 16, and only there."""
    xy = [scalar("x"), scalar("y")]
    for condition, proved in (("j == 16 - i", True), ("j == 15 - i", False)):
        k = function("k", xy, [loop("c", [0, 64, 16], {}, [let("o", "x + y + c")]), ret()], kind="Orchestration", returns=[])
        body = [{"if": condition, "then": [call("i", "j", name="k")]}, ret()]
        entry = function("main", [scalar("i", range=(0, 9)), scalar("j", range=(0, 99))], body, kind="Orchestration", returns=[])
        assert proof(program(k, entry, target=None)).proved is proved


def test_of_a_loop_that_runs_once_no_trip_sees_what_the_body_yields() -> None:
    for stop, proved in (("1", True), ("2", False), ("i", False)):
        body = loop("k", [0, stop, 1], {"a": "16"}, [let("o", "a"), let("b", "a * 3 + 1"), give("b")], ["r"])
        assert proof(main([scalar("i", range=(0, 9))], body)).proved is proved


def test_a_launch_with_a_gap_before_its_contexts_gives_what_it_gives() -> None:
    """k(row, col, ctx) launched with (16, ctx): the run time fills col."""
    row, col, context, handle = Var("row", INDEX), Var("col", INDEX), Var("ctx", CommCtxType()), Var("handle", CommCtxType())
    known = Assign((Var("o", INDEX),), row)
    k = Function("k", (Param(row), Param(col), Param(context)), (), (known, Return(())), "Orchestration")
    launch = Assign((Var("t", ScalarType(DType.TASK_ID)),), Submit("k", (index(16), handle)))
    main_ = Function("main", (Param(handle),), (), (launch, Return(())), "Orchestration")
    facts = IndexFacts(Program("P", (k, main_)))
    assert facts.of("k", row, known).constant == 16
    assert str(facts.of("k", col, known)) == "any INDEX"
