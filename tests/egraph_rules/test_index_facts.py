"""What index facts prove and what they must not: one positive row and a near miss for each form, and one for each hazard.

The facts of `o`, a scalar that each program defines, are asked for where it is defined.
"""

from __future__ import annotations

from typing import Any

import pytest
from helpers import Json, const, function, give, loop, program, ret, scalar

from egraph_rules.index_facts import Fact, IndexFacts, Proof
from pypto_ir.expr import Expr
from pypto_ir.stmt import Assign, Program, Stmt, walk


def let(name: str, expr: Any) -> Json:
    return {"let": name, "expr": expr}


def main(params: list[Json], *body: Json) -> Program:
    """A program of one entry function with scalar parameters; it returns nothing."""
    return program(function("main", params, [*body, ret()], kind="Orchestration", returns=[]), target=None)


def calling(kernel_params: list[Json], kernel: list[Json], *body: Json, params: list[Json] | None = None) -> Program:
    """A function `kernel` and an entry `main` that calls it in `body`."""
    return program(
        function("kernel", kernel_params, [*kernel, ret()], kind="Orchestration", returns=[]),
        function("main", params or [], [*body, ret()], kind="Orchestration", returns=[]),
        target=None,
    )


def call(*args: Any, name: str = "kernel") -> Json:
    return {"call": name, "args": list(args)}


def where(p: Program, name: str = "o") -> tuple[str, Expr, Stmt]:
    """Function, expression and statement of the definition of a name."""
    for f in p.functions:
        for s in walk(f.body):
            if isinstance(s, Assign) and s.target.name == name:
                return f.name, s.value, s  # type: ignore[return-value]
    raise AssertionError(f"no {name} in the program")


def fact(p: Program, name: str = "o", **options: Any) -> Fact:
    f, e, s = where(p, name)
    return IndexFacts(p, **options).of(f, e, s)


def proof(p: Program, divisor: int = 16, name: str = "o") -> Proof:
    f, e, s = where(p, name)
    return IndexFacts(p).prove(f, e, divisor, s)


def int32(value: int) -> Json:
    return const(value, "INT32")


def test_one_meaning_of_division_holds_for_a_whole_expression_of_constants() -> None:
    """240 // 8 is 30, or 254 where kernels read -16; 254 // 8 would be 31, but is 0 for those that read -2."""
    names = {n: const(v, "UINT8") for n, v in (("a", 240), ("b", 8), ("k", 16))}
    p = main([], *(let(n, e) for n, e in names.items()), let("o", "a // b // b * k"))
    assert fact(p).values is None and (fact(p).lo, fact(p).hi, fact(p).modulus) == (0, 48, 48)
    assert proof(p).proved


I100, J100 = scalar("i", range=(0, 100)), scalar("j", range=(0, 100))
ANY, WORD = scalar("x"), scalar("x", "INT32")

#: expression of i, j in [0, 100] and any x: what is said of it
FORMS = {
    "(i * 4) * (j * 4)": "multiple of 16, in [0, 160000]",
    "(i * 16 + 8) + 8": "multiple of 16, in [16, 1616]",
    "16 * i - (x % 16) + x % 16": "multiple of 16, in [0, 1600]",
    "i * 16 + 8": "8 more than a multiple of 16, in [8, 1608]",
    "(i + 100) - j": "in [0, 200]",
    "(i + 99) - j": "in [-1, 199]",
    "i - i % 16": "multiple of 16, in [0, 96]",
    "max(i, j) - j": "in [0, 100]",
    "i - min(j, i)": "in [0, 100]",
    "i - min(j, j)": "in [-100, 100]",
    "i % 16": "in [0, 15]",
    "(i * 4) % 16": "multiple of 4, in [0, 12]",
    "x % 16": "in [-15, 15]",
    "(x // 16) * 16": "multiple of 16",
    "(i // 16) * 16": "multiple of 16, in [0, 96]",
    "x - x % 16": "multiple of 16",
    "min(i * 16, j * 48)": "multiple of 16, in [0, 1600]",
    "max(x, 0)": "at least 0",
    "min(x, 0)": "at most 0",
    "x & -16": "multiple of 16",
    "x & 15": "in [0, 15]",
    "i & j": "in [0, 100]",
    "x & i": "in [0, 100]",
    "(i * 16) | (j * 8)": "multiple of 8, in [0, 2040]",
    "(i * 16) ^ (j * 8)": "multiple of 8, in [0, 2040]",
    "(x & 48) | 5": "5 more than a multiple of 16, in [5, 53]",
    "i << 4": "multiple of 16, in [0, 1600]",
    "(i * 64) >> 2": "multiple of 16, in [0, 1600]",
    "x >> 60": "in [-1, 0]",
    "(i * 12 * 16) // 12": "multiple of 16, in [0, 1600]",
    "(16 * i + j % 16) // 16": "in [0, 100]",
    "(i // 4) // 5": "in [0, 5]",
    "x // 16 * 16 - (x // 4) // 4 * 16": "0",
    "x // 16 * 16 - (x // 4) // -4 * 16": "multiple of 16",
    "(i * 256 + j % 16) // 16": "multiple of 16, in [0, 1600]",
    "(i * 256 + j % 17) // 16": "in [0, 1601]",
    "(x * 256 + j % 16) // 16": "any INDEX",
    "(i * 1152921504606846976 + j % 16) // 16": "any INDEX",
    "(i * 16 + j % 16 + 8) % 16": "in [0, 15]",
    "(i * 16 + j % 8 + 8) % 16": "in [8, 15]",
    "(i * 48 + 20) // 16": "1 more than a multiple of 3, in [1, 301]",
    "-(i * 16)": "multiple of 16, in [-1600, 0]",
    "abs(x * 16)": "multiple of 16, at least 0",
    "(x - i) * (x - i)": "any INDEX",
    "i * i": "in [0, 10000]",
    "cast(cast(i * 16, \"INT32\"), \"INDEX\")": "multiple of 16, in [0, 1600]",
    "cast(cast(i * 16, \"INT8\"), \"INDEX\")": "multiple of 16, in [-128, 112]",
    "cast(i * 12, \"INT8\")": "multiple of 4",
    "x >= x": "1",
}  # fmt: skip


@pytest.mark.parametrize("text", FORMS)
def test_facts_of_forms(text: str) -> None:
    assert str(fact(main([I100, J100, ANY], let("o", text)))) == FORMS[text]


def test_a_product_of_three_survives_no_wrap_and_a_power_of_two_does() -> None:
    body = [let("three", {"const": 3, "dtype": "INT32"}), let("eight", {"const": 8, "dtype": "INT32"})]
    assert fact(main([WORD], *body, let("o", "x * three"))).multiple_of == 1
    assert fact(main([WORD], *body, let("o", "x * eight"))).multiple_of == 8


def test_a_sign_needs_that_nothing_wraps_at_the_width() -> None:
    body = [loop("i", [int32(0), int32(46368), int32(16)], {}, [let("o", "i * i")])]
    found = fact(main([], *body))
    assert found.multiple_of == 256 and found.lo < 0 and not found.cannot_wrap
    body = [loop("i", [int32(0), int32(46336), int32(16)], {}, [let("o", "i * i")])]
    found = fact(main([], *body))
    assert (found.lo, found.cannot_wrap) == (0, True)


# ---- loops ----


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ([0, 256, 16], "multiple of 16, in [0, 240]"),
        ([0, 250, 16], "multiple of 16, in [0, 240]"),
        ([48, -1, -16], "multiple of 16, in [0, 48]"),
        ([48, 0, -16], "multiple of 16, in [16, 48]"),
        ([48, -2, -16], "multiple of 16, in [0, 48]"),
        ([48, -17, -16], "multiple of 16, in [-16, 48]"),
        ([8, 64, 16], "8 more than a multiple of 16, in [8, 56]"),
        (["i", "j", 1], "in [0, 99]"),
        (["i", "j", -1], "in [1, 100]"),
        (["i * 16", "i * 16 + 64", 16], "multiple of 16, in [0, 1648]"),
        ([0, "x", "i"], "at least 0"),
        ([0, "x", "i + 1"], "at least 0"),
        ([0, "x", "i * 16 + 16"], "multiple of 16, at least 0"),
        ([0, "i", "j - 50"], "in [0, 99]"),
        ([5, 5, 1], "never computed"),
        ([0, 8, -1], "never computed"),
    ],
    ids=str,
)
def test_facts_of_loop_variables(bounds: list[Any], said: str) -> None:
    found = str(fact(main([I100, J100, ANY], loop("k", bounds, {}, [let("o", "k")]))))
    assert found == said


def test_the_stop_of_a_loop_bounds_what_is_left() -> None:
    body = [loop("c", [0, "x", 16], {}, [let("o", "min(16, x - c)")])]
    assert str(fact(main([ANY], *body))) == "in [1, 16]"
    body = [loop("c", [0, "x", 16], {}, [let("o", "min(16, x - c - 2)")])]
    assert fact(main([ANY], *body)).lo == -1
    down = [loop("c", ["x", 0, -16], {}, [let("o", "x - c")])]
    assert fact(main([ANY], *down)).lo == 0


def test_a_loop_that_may_not_run_hands_on_its_first_value() -> None:
    body = loop("k", [0, "i", 1], {"a": "8"}, [let("b", "k * 16"), give("b")], ["r"])
    assert fact(main([I100], body, let("o", "r"))).multiple_of == 8
    runs = loop("k", [0, "i + 1", 1], {"a": "8"}, [let("b", "k * 16"), give("b")], ["r"])
    assert fact(main([I100], runs, let("o", "r"))).multiple_of == 16


def test_carried_scalars_are_proved_by_induction() -> None:
    body = loop("k", [0, 10, 1], {"a": "32"}, [let("o", "a"), let("b", "a + 16"), give("b")], ["r"])
    assert str(fact(main([], body))) == "multiple of 16, in [32, 176]"
    assert str(fact(main([], body, let("p", "r")), "p")) == "multiple of 16, in [48, 192]"
    down = loop("k", [0, "i", 1], {"a": "1600"}, [let("o", "a"), let("b", "a - 16"), give("b")], ["r"])
    assert str(fact(main([I100], down))) == "multiple of 16, in [16, 1600]"
    broken = loop("k", [0, 10, 1], {"a": "32"}, [let("o", "a"), let("b", "a + 8"), give("b")], ["r"])
    assert fact(main([], broken)).multiple_of == 8


def test_a_sum_that_may_wrap_has_no_sign() -> None:
    body = loop("k", [0, 10, 1], {"a": "c"}, [let("o", "a"), let("b", "a + c"), give("b")], ["r"])
    wraps = main([], let("c", int32(1 << 28)), body)
    assert fact(wraps).multiple_of == 1 << 28 and fact(wraps).lo < 0
    stays = main([], let("c", int32(1 << 27)), body)
    assert fact(stays).lo == 1 << 27


def test_two_carried_values_that_swap_are_either() -> None:
    body = loop("k", [0, 10, 1], {"a": "16", "b": "32"}, [let("o", "a"), give("b", "a")], ["r", "s"])
    assert str(fact(main([], body))) == "multiple of 16, in [16, 32]"


def test_a_while_knows_its_condition_inside_and_its_end_outside() -> None:
    loop_ = {
        "while": "w < x",
        "carry": [{"name": "w", "init": "0"}],
        "body": [let("o", "w"), let("n", "w + 16"), give("n")],
        "results": ["r"],
    }
    assert str(fact(main([scalar("x", range=(0, 100))], loop_))) == "multiple of 16, in [0, 96]"
    p = main([scalar("x", range=(0, 100))], loop_, let("p", "r"))
    assert str(fact(p, "p")) == "multiple of 16, in [0, 112]"


# ---- branches ----


def branch(condition: str, then: list[Json], orelse: list[Json] | None = None, results: tuple[str, ...] = ()) -> Json:
    made: Json = {"if": condition, "then": then}
    if orelse is not None:
        made["else"] = orelse
    return {**made, "results": list(results)} if results else made


def test_a_phi_is_either_arm() -> None:
    body = branch("x < 0", [give("i * 32")], [give("i * 48")], ("r",))
    assert str(fact(main([I100, ANY], body, let("o", "r")))) == "multiple of 16, in [0, 4800]"


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("x >= 0", "at least 0"),
        ("x >= 0 and x < 10", "in [0, 9]"),
        ("not (x < 0 or x > 9)", "in [0, 9]"),
        ("x == 48", "48"),
        ("x % 16 == 0", "multiple of 16"),
        ("x % 16 == 3", "3 more than a multiple of 16"),
        ("x * 16 < i", "at most 6"),
        ("x + 8 > 20", "at least 13"),
        ("i < x", "at least 1"),
        ("x != 0", "any INDEX"),
    ],
)
def test_conditions_say_something_of_names_in_their_arm(condition: str, said: str) -> None:
    p = main([I100, ANY], branch(condition, [let("o", "x")]), let("p", "x"))
    assert str(fact(p)) == said
    assert str(fact(p, "p")) == "any INDEX"


def test_the_other_arm_knows_the_opposite() -> None:
    p = main([ANY], branch("x < 16", [let("a", "x")], [let("o", "x - 16")]))
    assert fact(p).lo == 0


def test_definitions_before_a_condition_profit_from_it() -> None:
    p = main([ANY], let("y", "x * 16"), branch("x >= 0 and x < 4", [let("o", "y + 16")]))
    assert str(fact(p)) == "multiple of 16, in [16, 64]"


def test_a_condition_on_a_carried_name_is_not_about_the_next_trip() -> None:
    body = loop("k", [0, 4, 1], {"a": "x"}, [branch("a >= 0", [let("p", "a")]), let("o", "a"), give("x")], ["r"])
    assert fact(main([ANY], body)).lo < 0


# ---- where a program runs, extents ----


def test_lanes_and_extents() -> None:
    tensor = {"name": "t", "type": {"tensor": ["N", 64], "dtype": "FP32"}}
    body = [
        {"let": "b", "op": "tile.get_block_idx", "args": []},
        {"let": "n", "op": "tile.get_block_num", "args": []},
        {"let": "s", "op": "tile.get_subblock_idx", "args": []},
        {"let": "d", "op": "tensor.dim", "args": ["t", 0]},
        {"let": "e", "op": "tensor.dim", "args": ["t", 1]},
        let("o", "n - b"), let("p", "b * 16"), let("q", "s"), let("r", "d"), let("v", "e"),
    ]  # fmt: skip
    p = program(function("main", [tensor], [*body, ret()], returns=[]), dynamic=["N"], target=None)
    facts = {name: fact(p, name) for name in "opqrv"}
    assert (facts["o"].lo, facts["p"].lo, facts["p"].multiple_of) == (1, 0, 16)
    assert (str(facts["q"]), facts["r"].lo, str(facts["v"])) == ("in [0, 1]", 0, "64")


def test_blocks_of_a_launch_are_counted_where_the_launch_says_so() -> None:
    kernel = [{"let": "b", "op": "tile.get_block_idx", "args": []}, let("o", "b")]
    launch = {"let": "t", "submit": "kernel", "args": [], "core_num": 8}
    assert str(fact(calling([], kernel, launch))) == "in [0, 7]"
    assert str(fact(calling([], kernel, launch, {"let": "u", "submit": "kernel", "args": [], "core_num": 24}))) == "in [0, 23]"
    assert fact(calling([], kernel, launch, {"let": "u", "submit": "kernel", "args": []})).hi > 1000


# ---- calls ----


def test_a_parameter_is_what_all_calls_give() -> None:
    kernel = [let("o", "x * 8")]
    assert str(fact(calling([ANY], kernel, call(2), call(6)))) == "16 more than a multiple of 32, in [16, 48]"
    assert str(fact(calling([ANY], kernel, loop("m", [0, 8, 2], {}, [call("m")])))) == "multiple of 16, in [0, 48]"
    assert proof(calling([ANY], kernel, call(2), call(1))).proved is False


def test_results_of_functions_are_what_their_returns_give() -> None:
    p = program(
        {
            "name": "f",
            "kind": "Orchestration",
            "params": [ANY],
            "returns": [{"scalar": "INDEX"}],
            "body": [branch("x < 3", [give("x * 32")], [give("x * 16")], ("r",)), ret("r")],
        },
        function("main", [], [{"let": "o", "call": "f", "args": [2]}, let("p", "o"), ret()], kind="Orchestration", returns=[]),
        target=None,
    )
    assert str(fact(p, "p")) == "64"


def test_recursion_is_proved_by_induction_with_the_calls_from_outside() -> None:
    def ring(first: int, step: int) -> Program:
        inner = branch("n > 0", [call("x + s", "n - 1", name="f")])
        f = function("f", [ANY, scalar("n")], [let("s", step), let("o", "x"), inner, ret()], kind="Orchestration", returns=[])
        return program(f, function("main", [], [call(first, 3, name="f"), ret()], kind="Orchestration", returns=[]), target=None)

    assert fact(ring(32, 16)).multiple_of == 16
    assert fact(ring(32, 8)).multiple_of == 8
    assert fact(ring(8, 16)).multiple_of == 8


def test_a_ring_that_only_calls_itself_is_entered_from_outside() -> None:
    f = function("f", [ANY], [let("o", "x"), call("x * 16", name="g"), ret()], kind="Orchestration", returns=[])
    g = function("g", [ANY], [call("x", name="f"), ret()], kind="Orchestration", returns=[])
    assert str(fact(program(f, g, target=None))) == "any INDEX"


def test_entries_are_called_from_outside_too() -> None:
    p = calling([ANY], [let("o", "x")], call(16))
    assert str(fact(p)) == "16"
    assert str(fact(p, entries=["kernel"])) == "any INDEX"


def test_a_range_binds_who_calls_from_outside_only() -> None:
    bounded = scalar("x", range=(0, 15))
    assert str(fact(main([bounded], let("o", "x")))) == "in [0, 15]"
    assert str(fact(calling([bounded], [let("o", "x")], call(-16)))) == "-16"


def test_a_launch_fills_a_gap_of_outputs_and_a_wrong_one_says_nothing() -> None:
    out = {"name": "out", "type": {"tensor": [16, 16], "dtype": "FP32"}, "direction": "Out"}
    launch = {"let": ["r", "t"], "submit": "kernel", "args": [16]}
    kernel = function("kernel", [ANY, out], [let("o", "x"), ret("out")], kind="Orchestration")
    p = program(kernel, function("main", [], [launch, ret()], kind="Orchestration", returns=[]), target=None)
    assert str(fact(p)) == "16"
    short = function("kernel", [out, ANY], [let("o", "x"), ret("out")], kind="Orchestration")
    text = {**launch, "args": []}
    p = program(short, function("main", [], [text, ret()], kind="Orchestration", returns=[]), target=None)
    assert str(fact(p)) == "any INDEX"


def test_calls_that_never_run_count_for_nothing() -> None:
    p = calling([ANY], [let("o", "x")], loop("k", [0, 0, 1], {}, [call(8)]), call(16))
    assert fact(p).constant == 16


# ---- unsigned, widths ----


def test_unsigned_values_with_a_top_bit_are_no_index() -> None:
    word = scalar("u", "UINT64")
    p = main([word], let("sixteen", {"const": 16, "dtype": "UINT64"}), let("o", "u * sixteen"))
    found = proof(p)
    assert found.fact.multiple_of == 16 and not found.proved
    assert found.obstacle is not None and found.obstacle.kind == "range"
    small = main([scalar("u", "UINT64", range=(0, 100))], let("sixteen", {"const": 16, "dtype": "UINT64"}), let("o", "u * sixteen"))
    assert proof(small).proved


def test_an_unsigned_difference_wraps_to_huge_values() -> None:
    p = main([scalar("a", "UINT32", range=(0, 9)), scalar("b", "UINT32", range=(0, 9))], let("o", "a - b"))
    assert fact(p).hi == 2**32 - 1
    cast = main([scalar("a", "UINT32", range=(0, 9)), scalar("b", "UINT32", range=(0, 9))], let("o", 'cast(a - b, "INDEX")'))
    assert fact(cast).lo < 0 < 2**32 - 10 < fact(cast).hi


def test_a_name_of_another_integer_type_holds_the_wrapped_value() -> None:
    p = main([scalar("i", range=(0, 100))], {"let": "o", "expr": "i * 16", "type": {"scalar": "INT8"}}, let("p", "o"))
    assert str(fact(p, "p")) == "multiple of 16"


# ---- what broke a proof ----


def test_the_deepest_expression_that_fails_is_named() -> None:
    p = main([I100, J100, ANY], let("g", "j * 8"), let("row", "i * 16"), let("o", "row + g"))
    found = proof(p)
    assert found.obstacle is not None
    assert str(found.obstacle) == "j is in [0, 100]"
    assert (found.obstacle.kind, found.obstacle.divisor) == ("divisible", 2)
    assert str(found.fact) == "multiple of 8, in [0, 2400]"


def test_the_sign_is_blamed_on_what_may_be_negative() -> None:
    p = main([I100, ANY], let("o", "i * 16 + x * 16"))
    found = proof(p)
    assert found.obstacle is not None and found.obstacle.kind == "sign"
    assert str(found.obstacle) == "x is any INDEX"


def test_wrapping_is_named() -> None:
    body = [loop("i", [int32(0), int32(46368), int32(16)], {}, [let("o", "i * i")])]
    found = proof(main([], *body))
    assert found.obstacle is not None and found.obstacle.wraps
    assert str(found.obstacle) == "i * i is multiple of 256 and may wrap"


def test_the_call_that_fails_is_named() -> None:
    p = calling([ANY], [let("o", "x * 8")], call(2), {**call("y"), "loc": "model.py:7:4"}, params=[scalar("y", range=(0, 9))])
    found = proof(p)
    assert found.obstacle is not None
    assert str(found.obstacle) == "y is in [0, 9], in call 1 in main at model.py:7:4"
    assert [c.number for c in found.obstacle.calls] == [1]
    assert found.obstacle.function == "main"


def test_loops_and_carries_are_followed() -> None:
    body = loop("k", [0, 10, 1], {"a": "32"}, [let("o", "a"), let("b", "a + 8"), give("b")], ["r"])
    found = proof(main([], body))
    assert found.obstacle is not None and str(found.obstacle) == "8 is 8"
    start = loop("k", [8, 64, 16], {}, [let("o", "k")])
    found = proof(main([], start))
    assert found.obstacle is not None and str(found.obstacle) == "8 is 8"


# ---- relations ----


def ask_relation(p: Program, a: str, b: str) -> Any:
    f, _, s = where(p)
    _, x, _ = where(p, a)
    _, y, _ = where(p, b)
    return IndexFacts(p).relation(f, x, y, s)


def test_relations_of_expressions() -> None:
    body = loop("k", [0, "x", 16], {}, [let("a", "k * 16 + 16"), let("b", "(k + 1) * 16"), let("c", "k * 16"), let("o", "k")])
    p = main([ANY], body)
    assert ask_relation(p, "a", "b").equal
    same = ask_relation(p, "a", "c")
    assert same.difference == 16 and same.disjoint(16, 16) and not same.disjoint(17, 17) and same.differ


def test_a_sum_that_may_wrap_is_not_the_larger_one() -> None:
    p = main([WORD], let("c", int32(1)), let("a", "x + c"), let("b", "x"), let("o", "x"))
    found = ask_relation(p, "a", "b")
    assert found.lo < 0 < found.hi and found.differ


def test_windows_in_bounds_and_out_of_them() -> None:
    inner = [let("v", "min(16, x - c)"), let("o", "c")]
    p = main([ANY], loop("c", [0, "x", 16], {}, inner))
    f, offset, s = where(p)
    facts = IndexFacts(p)
    n, v = p.functions[0].params[0].var, where(p, "v")[1]
    from pypto_ir.expr import index

    assert facts.inside(f, offset, v, n, s) is True
    assert facts.inside(f, offset, index(1), n, s) is True
    assert facts.inside(f, offset, index(16), n, s) is None
    assert facts.inside(f, index(32), index(16), index(40), s) is False
    assert facts.inside(f, index(-1), index(16), index(40), s) is False


def test_without_a_statement_names_are_those_of_their_definition() -> None:
    from pypto_ir.expr import Binary, index
    from pypto_ir.types import scalar_var

    body = loop("k", [0, "x", 16], {"a": "0"}, [let("b", "a + 16"), give("b")], ["r"])
    facts = IndexFacts(main([scalar("x", range=(0, 100))], body))
    assert str(facts.of("main", scalar_var("k"))) == "multiple of 16, in [0, 96]"
    assert str(facts.of("main", Binary("sub", scalar_var("x"), scalar_var("k")))) == "in [1, 100]"
    assert str(facts.of("main", Binary("add", scalar_var("a"), index(16)))) == "multiple of 16, in [16, 112]"
    assert str(facts.of("main", scalar_var("r"))) == "multiple of 16, in [0, 112]"


def test_a_condition_relates_sums_that_it_names() -> None:
    start = [let("m", "x + i * 16"), let("e", "m + 16")]
    p = main([I100, ANY, scalar("n")], *start, branch("m + 16 <= n", [let("a", "n"), let("b", "e"), let("o", "m")]))
    assert ask_relation(p, "a", "b").lo == 0


def test_bodies_that_are_not_in_ssa_form_are_not_believed() -> None:
    p = main([ANY], let("a", "x"), let("o", "a"))
    f = p.functions[0]
    from dataclasses import replace

    twice = replace(p, functions=(replace(f, body=(f.body[0], *f.body)),))
    with pytest.raises(ValueError, match="a is defined twice"):
        IndexFacts(twice)
