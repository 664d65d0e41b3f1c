"""SSA form, scopes and block shapes: each way to break them is reported with its code and path."""

from __future__ import annotations

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, Var, index
from pypto_ir.stmt import (
    Assign,
    Block,
    Break,
    Carry,
    Continue,
    For,
    Function,
    If,
    Param,
    Program,
    Return,
    Scope,
    Stmt,
    While,
    Yield,
)  # fmt: skip
from pypto_ir.types import BOOL, INDEX, TensorType, Type, dims, scalar_var
from pypto_ir.verify import verify_program
from pypto_ir.verify.ssa import verify_ssa

A, B, C, D, N = (scalar_var(name) for name in "abcdn")


ONE = index(1)


def let(target: Var, value: Expr = ONE) -> Assign:
    return Assign((target,), value)


def program(*body: Stmt, returns: tuple[Type, ...] = ()) -> Program:
    params = (Param(N), Param(Var("p", BOOL)))
    return Program(functions=(Function("f", params, returns, tuple(body)),))


def found(*body: Stmt, returns: tuple[Type, ...] = ()) -> list[tuple[str, str | None]]:
    return [(d.code, d.place.path) for d in verify_ssa(program(*body, returns=returns))]


def loop(body: Block, carries: tuple[Carry, ...] = (), results: tuple[Var, ...] = (), var: str = "i") -> For:
    return For(scalar_var(var), index(0), N, index(1), body, carries, results)


P = Var("p", BOOL)
AT = "$.functions[0].body"


def test_a_name_defined_twice_is_reported_at_the_second_definition() -> None:
    assert found(let(A), let(A)) == [("S101", f"{AT}[1]")]
    assert found(let(N)) == [("S101", f"{AT}[0]")]
    assert found(loop((let(A),)), loop((let(A),), var="j")) == [("S101", f"{AT}[1].body[0]")]


def test_a_use_before_its_definition_and_of_itself_is_reported() -> None:
    assert found(let(B, A), let(A)) == [("S102", f"{AT}[0]")]
    assert found(let(A, Binary("add", A, index(1)))) == [("S102", f"{AT}[0]")]


def test_names_of_a_loop_body_and_of_an_arm_end_with_it() -> None:
    assert found(loop((let(A),)), let(B, A)) == [("S102", f"{AT}[1]")]
    assert found(loop((let(A),)), let(B, scalar_var("i"))) == [("S102", f"{AT}[1]")]
    assert found(If(P, (let(A),), (let(B, A),))) == [("S102", f"{AT}[0].else[0]")]
    assert found(If(P, (let(A),)), let(B, A)) == [("S102", f"{AT}[1]")]


def test_a_name_that_is_defined_again_inside_stays_in_view_outside() -> None:
    assert found(let(A), loop((let(A),)), let(B, A)) == [("S101", f"{AT}[1].body[0]")]


def test_the_body_of_a_loop_sees_its_variable_and_its_carries() -> None:
    i, carry = scalar_var("i"), (Carry(A, index(0)),)
    assert found(loop((let(B, i),))) == [] and found(loop((let(B, A), Yield((i,))), carry, (C,))) == []
    assert found(While(P, (let(B, A), Yield((B,))), carry, (C,))) == []


def test_names_of_a_scope_stay_in_view() -> None:
    assert found(Scope("cluster", (let(A),), C), let(B, Binary("add", A, C))) == []
    assert found(loop((Scope("cluster", (let(A),)), let(B, A))), let(D, A)) == [("S102", f"{AT}[1]")]


def test_an_extent_in_a_type_is_a_use() -> None:
    tensor = Var("t", TensorType(dims(A, 4), DType.FP32))
    assert found(Assign((tensor,), tensor)) == [("S102", f"{AT}[0]"), ("S102", f"{AT}[0]")]
    bad = Program(functions=(Function("f", (Param(tensor),)),))
    assert [(d.code, d.place.path) for d in verify_ssa(bad)] == [("S102", "$.functions[0].params[0]")]
    assert not list(verify_ssa(Program(functions=bad.functions, dynamic=("a",))))


def test_an_extent_in_the_type_of_a_carry_or_a_result_is_a_use() -> None:
    shaped, carry = TensorType(dims(A, 4), DType.FP32), (Carry(Var("c", TensorType(dims(A, 4), DType.FP32)), N),)
    assert found(loop((Yield((N,)),), carry, (D,))) == found(While(P, (Yield((N,)),), carry, (D,))) == [("S102", f"{AT}[0]")]
    plain = (Carry(B, N),)
    for s in (
        loop((Yield((N,)),), plain, (Var("r", shaped),)),
        While(P, (Yield((N,)),), plain, (Var("r", shaped),)),
        If(P, (Yield((N,)),), (Yield((N,)),), (Var("r", shaped),)),
    ):
        assert found(s) == [("S102", f"{AT}[0]")], s


def test_a_carried_loop_yields_as_many_values_as_it_carries() -> None:
    carry = (Carry(A, index(0)),)
    assert found(loop((let(B, A), Yield((B,))), carry, (C,))) == []
    assert found(loop((Yield((A, A)),), carry, (C,))) == [("S106", f"{AT}[0].body[0]")]
    assert found(loop((let(B, A),), carry, (C,))) == [("S104", f"{AT}[0].body")]
    assert found(loop((Yield((A,)),), carry)) == [("S106", f"{AT}[0]")]
    assert found(loop((Yield((N,)),))) == [("S106", f"{AT}[0].body[0]")]
    assert found(loop((let(B, A),), carry)) == [("S104", f"{AT}[0].body"), ("S106", f"{AT}[0]")]
    assert found(loop((Return(()),), carry, (C,))) == []


def test_the_init_of_a_carry_does_not_see_the_carried_name() -> None:
    assert found(loop((Yield((A,)),), (Carry(A, A),), (C,))) == [("S102", f"{AT}[0]")]
    assert found(While(P, (Yield((A,)),), (Carry(A, A),), (C,))) == [("S102", f"{AT}[0]")]
    assert found(While(P, (Yield((A,)),), (Carry(A, D),), (C,))) == [("S102", f"{AT}[0]")]


def test_the_condition_of_a_while_reads_its_carries() -> None:
    cond = Binary("lt", A, N)
    assert found(While(cond, (let(B, A), Yield((B,))), (Carry(A, index(0)),), (C,))) == []
    assert found(While(Binary("lt", D, N), (Yield((A,)),), (Carry(A, index(0)),), (C,))) == [("S102", f"{AT}[0]")]


def test_both_arms_of_a_branch_with_results_yield() -> None:
    assert found(If(P, (Yield((N,)),), (Yield((N,)),), (A,)), let(B, A)) == []
    assert found(If(P, (Yield((N,)),), None, (A,))) == [("S104", f"{AT}[0]")]
    assert found(If(P, (Yield((N,)),), (let(B),), (A,))) == [("S104", f"{AT}[0].else")]
    assert found(If(P, (Yield((N, N)),), (Yield((N,)),), (A,))) == [("S106", f"{AT}[0].then[0]")]


def test_a_yield_outside_of_loops_and_arms_is_reported() -> None:
    assert found(Yield((N,))) == [("S104", f"{AT}[0]")]


def test_nothing_follows_what_ends_a_block() -> None:
    assert found(Return(()), let(A)) == [("S103", f"{AT}[1]")]
    assert found(If(P, (Yield((N,)), let(B)), (Yield((N,)),), (A,))) == [
        ("S103", f"{AT}[0].then[1]"), ("S104", f"{AT}[0].then"),
    ]  # fmt: skip


def test_break_and_continue_belong_in_loops_without_carries() -> None:
    assert found(loop((If(P, (Break(),)), If(P, (Continue(),))))) == []
    assert found(Break()) == [("S105", f"{AT}[0]")]
    assert found(loop(()), Break()) == [("S105", f"{AT}[1]")]
    carried = loop((If(P, (Continue(),)), Yield((A,))), (Carry(A, index(0)),), (C,))
    assert found(carried) == [("S105", f"{AT}[0].body[0].then[0]")]
    assert found(loop((loop((Break(),), var="j"), Yield((A,))), (Carry(A, index(0)),), (C,))) == []


def test_returns_give_what_the_function_declares() -> None:
    assert found(Return((N,)), returns=(INDEX,)) == []
    assert found(Return(()), returns=(INDEX,)) == [("S107", f"{AT}[0]")]
    assert found(let(A), returns=(INDEX,)) == [("S107", "$.functions[0]")]
    assert found(If(P, (Return((N,)),), (Return((N,)),)), returns=(INDEX,)) == []


def test_a_function_defined_twice_is_reported() -> None:
    twice = Program(functions=(Function("f"), Function("f")))
    assert [d.code for d in verify_ssa(twice)] == ["S108"]


def test_every_violation_is_reported_not_only_the_first() -> None:
    assert [code for code, _ in found(let(A), let(A), let(B, D), Break(), Yield(()))] == [
        "S101", "S102", "S105", "S103", "S104",
    ]  # fmt: skip


def test_ten_thousand_statements_and_deep_nests_are_checked() -> None:
    long = [let(scalar_var(f"v{i}"), scalar_var(f"v{i - 1}") if i else index(0)) for i in range(10_000)]
    assert found(*long) == []
    nest: tuple[Stmt, ...] = (let(A, B),)
    for depth in range(200):
        nest = (loop(nest, var=f"i{depth}"),)
    assert [code for code, _ in found(*nest)] == ["S102"]


def test_a_sound_program_has_no_findings_at_all() -> None:
    carry = (Carry(A, index(0)),)
    body = (
        loop((let(B, Binary("add", A, N)), Yield((B,))), carry, (C,)),
        let(D, Binary("mul", C, index(2))),
        Return((C,)),
    )
    assert verify_program(program(*body, returns=(INDEX,))) == []
