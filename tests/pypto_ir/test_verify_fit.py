"""Which types agree, which arguments fit a parameter, which annotations a load or create may carry, and what loops are followed."""

from __future__ import annotations

from itertools import product

import pytest

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, Item, MakeTuple, Var, index
from pypto_ir.stmt import (
    Assign,
    Break,
    Call,
    Continue,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Param,
    Program,
    Return,
    Scope,
    Stmt,
    Submit,
    While,
    Yield,
)  # fmt: skip
from pypto_ir.types import (
    BOOL,
    INDEX,
    ArrayType,
    Layout,
    Memory,
    ScalarType,
    TensorType,
    TensorView,
    TileType,
    TupleType,
    Type,
    UnknownType,
    dims,
    scalar_var,
    tensor_type,
    tile_type,
)  # fmt: skip
from pypto_ir.verify.aliases import Box, Ref, Write
from pypto_ir.verify.loops import NODES, exact_work, pattern, small, trip_count
from pypto_ir.verify.ssa import verify_ssa
from pypto_ir.verify.types import agree, verify_types

F32, F16 = DType.FP32, DType.FP16
N, M = scalar_var("n"), scalar_var("m")
P = Var("p", BOOL)
TWICE, SUM = Binary("mul", index(2), N), Binary("add", N, N)


def tile(*shape: int | Expr, dtype: DType = F32) -> TileType:
    return tile_type(dims(*shape), dtype, Memory.VEC)


def tensor(*shape: int | Expr, dtype: DType = F32) -> TensorType:
    return TensorType(dims(*shape), dtype)


# what agrees


@pytest.mark.parametrize("make", [tile, tensor])
def test_tiles_and_tensors_agree_where_dtype_and_every_extent_do(make: type) -> None:
    for a, b, same in (
        (make(6, 4), make(6, 4), True), (make(6, 4), make(6, 5), False), (make(6, 4), make(5, 4), False), (make(6, 4), make(4, 6), False),
        (make(6, 4), make(6, 4, 1), False), (make(6), make(6, 4), False), (make(6, 4), make(6, 4, dtype=F16), False),
        (make(SUM, 4), make(TWICE, 4), True), (make(N, 4), make(M, 4), False), (make(N, 4), make(N, 4), True),
        (make(N, 4), make(6, 4), False),
        (make(4, 6, dtype=F16), make(6, 4), False),
    ):  # fmt: skip
        assert agree(a, b) == agree(b, a) == same, (a, b)


def test_scalars_agree_by_dtype_and_index_with_int64() -> None:
    kinds = [ScalarType(d) for d in (DType.INDEX, DType.INT64, DType.INT32, F32, DType.BOOL)]
    for a, b in product(kinds, kinds):
        assert agree(a, b) == (a == b or {a.dtype, b.dtype} == {DType.INDEX, DType.INT64}), (a, b)


def test_tuples_agree_part_by_part_and_arrays_where_they_are_equal() -> None:
    pair = TupleType((tile(6, 4), INDEX))
    assert agree(pair, TupleType((tile(6, 4), INDEX)))
    assert not agree(pair, TupleType((tile(6, 5), INDEX))) and not agree(pair, TupleType((tile(6, 4), BOOL)))
    assert not agree(pair, TupleType((tile(6, 4),))) and not agree(TupleType((tile(6, 4),)), pair)
    assert agree(ArrayType(4, F32), ArrayType(4, F32))
    assert not agree(ArrayType(4, F32), ArrayType(5, F32)) and not agree(ArrayType(4, F32), ArrayType(4, F16))


def test_what_is_not_known_agrees_with_everything_and_kinds_do_not_mix() -> None:
    kinds: list[Type] = [tile(6, 4), tensor(6, 4), INDEX, TupleType((INDEX,)), ArrayType(4, F32)]
    for a in kinds:
        assert agree(a, UnknownType()) and agree(UnknownType(), a)
        for b in kinds:
            assert agree(a, b) == (a is b), (a, b)


# what is reported of statements


def codes(*body: Stmt, callee: Function | None = None, returns: tuple[Type, ...] = (), params: tuple[Var, ...] = ()) -> list[str]:
    function = Function("f", tuple(map(Param, params)), returns, tuple(body))
    return [d.code for d in verify_types(Program(functions=(function, *((callee,) if callee else ()))))]


def argument(wanted: Type, given: Type) -> bool:
    """Whether a call takes an argument."""
    callee = Function("g", (Param(Var("a", wanted)),))
    found = codes(Eval(FunctionCall("g", (Var("x", given),))), callee=callee)
    assert found in ([], ["T203"])
    return not found


@pytest.mark.parametrize("make", [tile, tensor])
def test_an_argument_fits_where_no_constant_extent_disproves_it(make: type) -> None:
    for wanted, given, fits in (
        (make(6, 4), make(6, 4), True), (make(6, 4), make(6, 5), False), (make(6, 4), make(5, 4), False),
        (make(N, 4), make(6, 4), True), (make(N, 4), make(6, 5), False), (make(6, 4), make(M, 4), True), (make(6, 4), make(M, 5), False),
        (make(N, 4), make(M, 4), True), (make(6, 4), make(6, 4, 1), False), (make(6, 4, 1), make(6, 4), False),
        (make(6, 4), make(6, 4, dtype=F16), False), (make(N, 4), make(6, 4, dtype=F16), False),
    ):  # fmt: skip
        assert argument(wanted, given) == fits, (wanted, given)


def test_arguments_of_other_kinds_fit_as_types_agree() -> None:
    assert argument(INDEX, ScalarType(DType.INT64)) and not argument(INDEX, ScalarType(F32))
    assert not argument(tile(6, 4), tensor(6, 4)) and not argument(tensor(6, 4), tile(6, 4))
    pair = TupleType((tile(N, 4), INDEX))
    assert argument(pair, TupleType((tile(6, 4), INDEX)))
    assert not argument(pair, TupleType((tile(6, 5), INDEX))) and not argument(pair, TupleType((tile(6, 4), BOOL)))
    assert not argument(pair, TupleType((tile(6, 4),)))


LEAF = Function("g", (Param(Var("a", INDEX)), Param(Var("b", INDEX))), (tile(6, 4), INDEX))
T, K = Var("t", tile(6, 4)), Var("i", INDEX)
TASK = Var("task", ScalarType(DType.TASK_ID))
BOTH = TupleType((tile(6, 4), INDEX))


def test_a_call_gives_as_many_arguments_as_there_are_parameters_and_a_submit_at_most() -> None:
    for count, call, submit in ((1, ["T203"], []), (2, [], []), (3, ["T203"], ["T203"])):
        assert codes(Eval(FunctionCall("g", (N,) * count)), callee=LEAF) == call
        assert codes(Eval(Submit("g", (N,) * count)), callee=LEAF) == submit


def test_results_are_taken_one_by_one_or_as_one_tuple() -> None:
    call = FunctionCall("g", (N, N))
    assert codes(Assign((T, K), call), callee=LEAF) == []
    assert codes(Assign((Var("r", BOTH),), call), callee=LEAF) == []
    assert codes(Assign((K, T), call), callee=LEAF) == ["T201", "T201"]
    assert codes(Assign((T, Var("j", BOOL)), call), callee=LEAF) == ["T201"]
    assert codes(Assign((T,), call), callee=LEAF) == ["T203"]
    assert codes(Assign((T, K, Var("k", INDEX)), call), callee=LEAF) == ["T203"]
    assert codes(Assign((Var("r", TupleType((tile(6, 4), BOOL))),), call), callee=LEAF) == ["T201"]
    assert codes(Assign((Var("r", TupleType((tile(6, 4),))),), call), callee=LEAF) == ["T203"]
    # the first of several targets may be a tuple itself
    nested = Function("g", (), (BOTH, INDEX))
    assert codes(Assign((Var("r", BOTH), K), FunctionCall("g")), callee=nested) == []
    assert codes(Assign((Var("r", BOTH), Var("j", BOOL)), FunctionCall("g")), callee=nested) == ["T201"]


def test_a_submit_gives_its_task_behind_the_results() -> None:
    submit = Submit("g", (N, N))
    assert codes(Assign((T, K, TASK), submit), callee=LEAF) == []
    assert codes(Assign((T, K), submit), callee=LEAF) == ["T203"]
    assert codes(Assign((T, TASK, K), submit), callee=LEAF) == ["T201", "T201"]


def test_a_function_that_is_not_there_is_reported_once() -> None:
    assert codes(Assign((T,), FunctionCall("h", (T, T)))) == ["T205"]


def test_every_returned_value_is_compared() -> None:
    assert codes(Return((T, N)), returns=(tile(6, 4), INDEX)) == []
    assert codes(Return((N, T)), returns=(tile(6, 4), INDEX)) == ["T206", "T206"]
    assert codes(Return((T, T)), returns=(tile(6, 4), INDEX)) == ["T206"]
    assert codes(Return((T,)), returns=(tile(N, 4),)) == []


def test_every_bound_of_a_loop_is_an_integer() -> None:
    half = Var("h", ScalarType(F32))
    for start, stop, step in ((half, N, N), (N, half, N), (N, N, half)):
        assert codes(For(K, start, stop, step, ())) == ["T204"]
    assert codes(For(K, half, T, P, ())) == ["T204"] * 3
    assert codes(For(K, N, N, N, ())) == []


def test_arms_are_compared_with_every_result() -> None:
    def branch(then: tuple[Expr, ...], orelse: tuple[Expr, ...] | None) -> list[str]:
        results = (Var("r", tile(6, 4)), Var("s", INDEX))
        return codes(If(P, (Yield(then),), (Yield(orelse),) if orelse else None, results))

    assert branch((T, N), (T, N)) == []
    assert branch((N, N), (T, N)) == branch((T, N), (T, T)) == ["T202"]
    assert branch((N, T), (N, T)) == ["T202"] * 4
    assert branch((T, T), None) == ["T202"]


ZEROS = MakeTuple(dims(0, 0, 0, 0, 0))


def annotated(op: str, shape: tuple[int | Expr, ...], stated: Type) -> list[str]:
    """What is reported of a load or create of `shape` whose definition states another type."""
    window = MakeTuple(dims(*shape))
    if op == "tile.create":
        call = Call(op, (window,), (("dtype", "FP32"), ("target_memory", "Vec")))
    else:
        zeros = MakeTuple(ZEROS.items[: len(shape)])
        call = Call(op, (Var("x", tensor(*shape)), zeros, window, window), (("target_memory", "Vec"),))
    return codes(Assign((Var("y", stated),), call))


@pytest.mark.parametrize("op", ["tile.load", "tile.create"])
def test_a_load_or_create_above_rank_2_may_carry_the_type_of_its_collapse(op: str) -> None:
    for stated in (tile(24, 5), tile(2, 3, 4, 5)):
        assert annotated(op, (2, 3, 4, 5), stated) == [], stated
    for stated in (
        tile(12, 10),
        tile(24, 5, dtype=F16),
        tile(23, 5),
        tile(24, 6),
        tile(6, 4, 5),
        tile(120),
        tile(N, 5),
        tensor(24, 5),
        INDEX,
    ):
        assert annotated(op, (2, 3, 4, 5), stated) == ["T201"], stated
    assert annotated(op, (4, 5), tile(5, 4)) == ["T201"]
    assert annotated(op, (4,), tile(1, 4)) == ["T201"]
    assert annotated(op, (2, 3, 4), tile(6, 4)) == []


def test_a_load_of_rank_5_may_carry_any_tile_type_of_as_many_elements() -> None:
    """spec/tile_ir.md section 8."""
    for stated in (tile(60, 2), tile(24, 5), tile(6, 4, 5), tile(2, 60)):
        assert annotated("tile.load", (1, 2, 3, 4, 5), stated) == [], stated
    for stated in (tile(60, 3), tile(60, 2, dtype=F16), tensor(60, 2)):
        assert annotated("tile.load", (1, 2, 3, 4, 5), stated) == ["T201"], stated
    assert annotated("tile.create", (1, 2, 3, 4, 5), tile(60, 2)) == ["T201"]
    assert annotated("tile.load", (2, 3, 4, 5), tile(60, 2)) == ["T201"]


def test_extents_that_are_not_constant_are_no_flat_type() -> None:
    window = MakeTuple(dims(N, 3, 4))
    load = Call("tile.load", (Var("x", tensor(8, 3, 4)), MakeTuple(dims(0, 0, 0)), window, window), (("target_memory", "Vec"),))
    (code,) = codes(Assign((Var("y", tile(M, 4)),), load))
    assert code == "T201"


def test_scales_fit_in_their_logical_and_their_blocked_form() -> None:
    logical, blocked = (
        tensor_type(dims(*shape), DType.FP8E8M0, TensorView(layout=Layout.MX_A_ZZ)) for shape in ((64, 4), (1, 4, 2, 16, 2))
    )
    assert argument(logical, blocked) and argument(blocked, logical)
    assert not argument(logical, tensor_type(dims(1, 4, 2, 16, 2), DType.FP8E8M0))


def test_no_other_op_may_carry_a_flat_type() -> None:
    full = Call("tile.full", (MakeTuple(dims(2, 3, 4)), index(0)), (("dtype", "FP32"),))
    assert codes(Assign((Var("y", tile(6, 4)),), full)) == ["T201"]


def test_an_op_whose_rule_is_not_pinned_down_carries_what_is_stated_but_takes_no_wrong_operands() -> None:
    x = Var("x", tensor(6, 4))
    assert codes(Assign((Var("y", tensor(9, 9)),), Call("tensor.add", (x, x)))) == []
    assert codes(Assign((Var("y", UnknownType()),), Call("tensor.add", (x, x)))) == []
    (code,) = codes(Assign((Var("y", tensor(9, 9)),), Call("tensor.add", (x,))))
    assert code.startswith("T1")


def test_calls_whose_result_is_dropped_are_checked_too() -> None:
    (code,) = codes(Eval(Call("tile.add", (T,))))
    assert code.startswith("T1")
    assert codes(Eval(Call("tile.add", (T, T)))) == []
    assert codes(Assign((Var("y", UnknownType()),), Call("tile.add", (T, T)))) == []


def test_a_contradiction_names_the_value() -> None:
    function = Function("f", (), (), (Assign((Var("y", tile(6, 5)),), Call("tile.add", (T, T))),))
    (d,) = verify_types(Program(functions=(function,)))
    assert d.message.startswith("y is stated as") and "[6, 5]" in d.message and "[6, 4]" in d.message


def test_a_number_is_no_tile_of_numbers() -> None:
    assert codes(Assign((Var("y", tile(4, 4, dtype=DType.INT32)),), index(1))) == ["T201"]
    assert codes(Assign((Var("y", ScalarType(DType.INT32)),), index(1))) == []
    assert codes(Assign((Var("y", ScalarType(F32)),), index(1))) == ["T201"]


def test_one_of_several_results_may_be_a_tuple() -> None:
    pair = TupleType((INDEX, INDEX))
    callee = Function("g", (), (pair, INDEX))
    both = (Var("a", pair), Var("b", INDEX))
    assert codes(Assign(both, FunctionCall("g", ())), callee=callee) == []
    assert codes(Assign((Var("a", TupleType((pair, INDEX))),), FunctionCall("g", ())), callee=callee) == []
    assert codes(Assign((Var("a", pair),), FunctionCall("g", ())), callee=callee) == ["T201"]


def test_expressions_are_compared_with_what_is_stated() -> None:
    assert codes(Assign((Var("y", TupleType((INDEX, INDEX))),), MakeTuple((N, M)))) == []
    assert codes(Assign((Var("y", TupleType((INDEX, BOOL))),), MakeTuple((N, M)))) == ["T201"]
    assert codes(Assign((Var("y", BOOL),), Binary("lt", N, M))) == []
    assert codes(Assign((Var("y", INDEX),), Binary("lt", N, M))) == ["T201"]
    assert codes(Assign((Var("y", UnknownType()),), Var("u", UnknownType()))) == []
    pair = Var("q", BOTH)
    assert codes(Assign((Var("y", tile(6, 4)),), Item(pair, 0))) == []
    assert codes(Assign((Var("y", tile(6, 5)),), Item(pair, 0))) == ["T201"]


# functions without a body of their own, names of loops and scopes


def ssa(*body: Stmt, returns: tuple[Type, ...] = (), **more: object) -> list[str]:
    function = Function("f", (Param(N), Param(P)), returns, tuple(body), **more)  # type: ignore[arg-type]
    return [d.code for d in verify_ssa(Program(functions=(function,), dynamic=("n",)))]


def test_a_function_from_elsewhere_has_no_body_to_check() -> None:
    unused = Assign((Var("y", INDEX),), Var("nowhere", INDEX))
    assert ssa(unused, returns=(INDEX,)) == ["S102", "S107"]
    assert ssa(unused, returns=(INDEX,), verbatim="..") == []
    assert ssa(unused, returns=(INDEX,), external_source="kernel.cce") == []


def test_a_function_with_results_ends_in_a_return_on_every_way() -> None:
    done = Return((N,))
    for body, whole in (
        ((done,), True), ((), False), ((If(P, (done,)),), False), ((If(P, (done,), ()),), False), ((If(P, (), (done,)),), False),
        ((If(P, (done,), (done,)),), True), ((Scope("cluster", (done,)),), True), ((Scope("cluster", ()),), False),
        ((Scope("cluster", (If(P, (done,)),)),), False),
        ((While(P, (done,)),), False), ((If(P, (Scope("cluster", (done,)),), (done,)),), True),
        ((If(P, (If(P, (done,)),), (done,)),), False), ((If(P, (done,), (If(P, (done,)),)),), False),
    ):  # fmt: skip
        assert ssa(*body, returns=(INDEX,)) == ([] if whole else ["S107"]), body
    assert ssa() == []


def test_parameters_are_defined_once_and_may_be_named_as_dims() -> None:
    twice = Program(functions=(Function("f", (Param(N), Param(N))),))
    assert [(d.code, d.place.path) for d in verify_ssa(twice)] == [("S101", "$.functions[0].params[1]")]
    shaped = Function("f", (Param(Var("x", tensor(N, 4))), Param(N)), (tensor(M, 4),), (Return((Var("x", tensor(N, 4)),)),))
    assert [(d.code, d.place.path) for d in verify_ssa(Program(functions=(shaped,)))] == [("S102", "$.functions[0].returns[0]")]
    assert [d.code for d in verify_ssa(Program(functions=(shaped,), dynamic=("n", "m")))] == []


def test_a_dim_missing_from_a_signature_is_reported_once() -> None:
    x, y = Var("x", tensor(M, Binary("add", M, index(1)))), Var("y", tensor(M, 4))
    program = Program(functions=(Function("f", (Param(x), Param(y))),))
    assert [(d.code, d.place.path) for d in verify_ssa(program)] == [("S102", "$.functions[0].params[0]")]


def test_the_reason_why_a_name_is_out_of_view_is_told() -> None:
    def message(*body: Stmt) -> str:
        function = Function("f", (Param(N), Param(P)), (), tuple(body))
        (found,) = verify_ssa(Program(functions=(function,)))
        return found.message + " / " + str(found.help)

    a, b = scalar_var("a"), scalar_var("b")
    assert "its own definition" in message(Assign((a,), a))
    assert "it is defined nowhere before" in message(Assign((a,), b)) and "None" in message(Assign((a,), b))
    ended = message(If(P, (Assign((a,), N),)), Assign((b,), a))
    assert "its definition is in a block that has ended" in ended and "yield" in ended


def test_a_block_ends_with_each_statement_that_leaves_it() -> None:
    after = Assign((scalar_var("a"),), N)
    for end in (Return(()), Break(), Continue(), Yield(())):
        loop = While(P, (end, after))
        assert "S103" in ssa(loop), end
    assert ssa(While(P, (after, Break()))) == []


# how loops are followed


def loop(start: Expr, stop: Expr, step: Expr, *body: Stmt) -> For:
    return For(K, start, stop, step, body)


def test_trips_are_counted_where_all_bounds_are_constant() -> None:
    for bounds, trips in (((0, 4, 1), 4), ((0, 128, 64), 2), ((0, 129, 64), 3), ((4, 4, 1), 0), ((8, 0, -2), 4), ((0, 4, 0), None)):
        assert trip_count(loop(*dims(*bounds))) == trips, bounds
    for bounds in ((N, 4, 1), (0, N, 1), (0, 4, N)):
        assert trip_count(loop(*dims(*bounds))) is None
    assert trip_count(While(P, ())) is None


def test_an_expression_is_small_up_to_a_number_of_nodes() -> None:
    def chain(nodes: int) -> Expr:
        e: Expr = N
        for _ in range((nodes - 1) // 2):
            e = Binary("add", e, N)
        return e

    assert NODES == 48
    assert small(N) and small(chain(47)) and not small(chain(49)) and not small(chain(2001))
    assert small(MakeTuple(tuple([N] * 47))) and not small(MakeTuple(tuple([N] * 48)))


def test_carries_repeat_where_buffers_boxes_and_staleness_do() -> None:
    whole, part = Box(dims(0, 0), (16, 32)), Box(dims(8, 0), (8, 32))
    stale = (Write(None, (), Return(())),)

    def ref(buffer: int, box: Box = whole, missing: tuple[Write, ...] = ()) -> tuple[Ref, ...]:
        return (Ref(buffer, box, True, 0, missing),)

    outside = 2
    first = pattern([ref(0), ref(1)], outside)
    assert pattern([ref(0), ref(1)], outside) == first
    for other in ([ref(1), ref(0)], [ref(0), ref(0)], [ref(0, part), ref(1)], [ref(0, missing=stale), ref(1)], [ref(0), ref(2)]):
        assert pattern(other, outside) != first
    # buffers made in the loop are new ones in every trip: only which of them are one counts
    assert pattern([ref(5), ref(6)], outside) == pattern([ref(9), ref(7)], outside) != pattern([ref(5), ref(5)], outside)
    assert pattern([ref(2), ref(3)], outside) == pattern([ref(8), ref(9)], outside)
    assert pattern([ref(0), ref(2)], outside) == pattern([ref(0), ref(3)], outside)


def test_work_counts_statements_twice_for_each_loop_around_them() -> None:
    s = Assign((scalar_var("a"),), N)
    assert exact_work(()) == 0 and exact_work((s, s, s)) == 3
    assert exact_work((loop(N, N, N, s, s),)) == exact_work((While(P, (s, s)),)) == 5
    assert exact_work((loop(N, N, N, loop(N, N, N, s)),)) == 1 + 2 * (1 + 2)
    assert exact_work((If(P, (s, s), (s,)),)) == 4 and exact_work((Scope("cluster", (s,)), s)) == 3
