"""Expression texts: precedence, what is told apart by parentheses, types of operands, bounds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Item, Unary, Var, index
from pypto_ir.expr_parser import MAX_DEPTH, MAX_LENGTH, ExprError, parse_expr
from pypto_ir.text import expr_text
from pypto_ir.types import INDEX, ScalarType, TupleType, Type, dims, tile_type

TYPES: dict[str, Type] = {
    "a": INDEX, "b": INDEX, "i": ScalarType(DType.INT32), "j": ScalarType(DType.INT64),
    "u": ScalarType(DType.UINT16), "x": ScalarType(DType.FP32), "h": ScalarType(DType.FP16),
    "p": ScalarType(DType.BOOL), "q": ScalarType(DType.BOOL),
    "t": tile_type(dims(4, 8), DType.FP32), "pair": TupleType((INDEX, ScalarType(DType.FP32))),
    "id": ScalarType(DType.TASK_ID),
}  # fmt: skip


def lookup(name: str, offset: int) -> Var:
    if name not in TYPES:
        raise ExprError(f"{name} is not defined", offset)
    return Var(name, TYPES[name])


def parse(text: str) -> Expr:
    return parse_expr(text, lookup)


A, B, P, Q = (Var(n, TYPES[n]) for n in "abpq")


def test_precedence_is_that_of_python() -> None:
    assert parse("a + b * 2") == Binary("add", A, Binary("mul", B, index(2)))
    assert parse("a - b - 1") == Binary("sub", Binary("sub", A, B), index(1))
    assert parse("a ** b ** 2") == Binary("pow", A, Binary("pow", B, index(2)))
    assert parse("-a ** 2") == Unary("neg", Binary("pow", A, index(2)))
    assert parse("a ** -b") == Binary("pow", A, Unary("neg", B))
    assert parse("not a < b and p or q") == Binary("or", Binary("and", Unary("not", Binary("lt", A, B)), P), Q)
    assert parse("a & b << 1 | 3 ^ ~a") == Binary(
        "bitor",
        Binary("bitand", A, Binary("shl", B, index(1))),
        Binary("bitxor", index(3), Unary("bitnot", A)),
    )


def test_nothing_is_folded() -> None:
    assert parse("2 + 3") == Binary("add", index(2), index(3))
    assert parse("a + 0") == Binary("add", A, index(0))


def test_a_negative_number_and_a_negated_number_differ() -> None:
    assert parse("-5") == index(-5)
    assert parse("- 5") == index(-5)
    assert parse("-(5)") == Unary("neg", index(5))
    assert parse("--5") == Unary("neg", index(-5))
    assert parse("-5 ** 2") == Unary("neg", Binary("pow", index(5), index(2)))
    assert parse("a - -5") == Binary("sub", A, index(-5))
    assert parse("-9223372036854775808") == index(-(2**63))


def test_a_cast_and_a_typed_constant_differ() -> None:
    assert parse('cast(2, "INT32")') == Cast(index(2), DType.INT32)
    assert parse('cast((2), "INT32")') == Const(2, DType.INT32)
    assert parse("cast((-2), 'INT8')") == Const(-2, DType.INT8)
    assert parse('cast((0.5), "FP16")') == Const(0.5, DType.FP16)
    assert parse('cast("-inf", "BF16")') == Const(-math.inf, DType.BF16)
    nan = parse('cast("nan", "FP32")')
    assert isinstance(nan, Const) and math.isnan(nan.value) and nan == parse('cast("nan", "FP32")')
    assert parse("2.0") == Const(2.0, DType.FP32)
    assert parse("1e3") == Const(1000.0, DType.FP32)
    assert parse("true") == Const(True, DType.BOOL)


def test_elements_of_tuples() -> None:
    assert parse("pair[0] + a") == Binary("add", Item(Var("pair", TYPES["pair"]), 0), A)
    for text in ("pair[2]", "a[0]", "pair[a]", "pair[-1]"):
        with pytest.raises(ExprError):
            parse(text)


@pytest.mark.parametrize("text", ["i + 1", "x + h", "a + x", "p + a", "p == q", "u < i", "id + 1", "a / b", "x & x"])
def test_mixed_operands_are_refused(text: str) -> None:
    with pytest.raises(ExprError, match=r"takes|divides"):
        parse(text)


@pytest.mark.parametrize("text", ["a and b", "not a", "~x", "~p", "-p", "abs(p)", "not t", "t + 1", "min(a, x)", "pair + 1"])
def test_operands_of_the_wrong_kind_are_refused(text: str) -> None:
    with pytest.raises(ExprError):
        parse(text)


def test_index_and_int64_mix() -> None:
    assert parse("a + j") == Binary("add", A, Var("j", TYPES["j"]))


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("", 0),
        ("a +", 3),
        ("a b", 2),
        ("(a", 2),
        ("a)", 1),
        ("a < b < 3", 6),
        ("a == not p", 5),
        ("min(a)", 5),
        ("max(a, b, 1)", 8),
        ("cast(a)", 6),
        ('cast(a, "INT33")', 8),
        ("cast(a, INT32)", 8),
        ("a $ b", 2),
        ("3x", 0),
        ("a if p else b", 2),
        ("lambda: 0", 6),
        ("a.b", 1),
        ("f(a)", 0),
        ("1_000", 0),
        ("0x10", 0),
        ("a\nb", 1),
        ("'abc'", 0),
        ("[1]", 0),
        ("9223372036854775808", 0),
        ("a + -9223372036854775809", 5),
        ("1e999", 0),
        ("é", 0),
        ("١", 0),
        ("abs(a, b)", 5),
        ('cast(id, "INT64")', 0),
        ('cast((300), "INT8")', 0),
        ("*", 0),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place(text: str, offset: int) -> None:
    with pytest.raises(ExprError) as caught:
        parse(text)
    assert caught.value.offset == offset, caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "a" + ")" * 10_000,
        "-" * 10_000 + "a",
        "not " * 10_000 + "p",
        "abs(" * 5_000 + "a" + ")" * 5_000,
        " + ".join(["a"] * 3_000),
        " ** ".join(["a"] * 3_000),
        "a" * (MAX_LENGTH + 1),
        "9" * 15_000,
        "1." + "9" * 15_000 + "e",
    ],
)
def test_long_and_deep_texts_are_refused(text: str) -> None:
    with pytest.raises(ExprError):
        parse(text)


def test_a_tree_of_the_allowed_depth_is_read() -> None:
    e = parse(" + ".join(["a"] * MAX_DEPTH))
    assert parse(expr_text(e)) == e


def _numbers(dtype: DType) -> st.SearchStrategy[Expr]:
    names = [n for n, t in TYPES.items() if isinstance(t, ScalarType) and t.dtype is dtype]
    leaves: list[st.SearchStrategy[Expr]] = [st.sampled_from([Var(n, TYPES[n]) for n in names])]
    if dtype.is_float:
        leaves.append(st.floats(width=16).filter(lambda v: v == v).map(lambda v: Const(v, dtype)))
    else:
        leaves.append(st.integers(-(2**31), 2**31 - 1).map(lambda v: Const(v, dtype)))
    leaf = st.one_of(leaves)
    ops = ["add", "sub", "mul", "mod", "min", "max", "pow"] + (
        ["truediv"] if dtype.is_float else ["floordiv", "bitand", "bitor", "bitxor", "shl", "shr"]
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(Binary, st.sampled_from(ops), inner, inner),
            st.builds(Unary, st.sampled_from(["neg", "abs"] if dtype.is_float else ["neg", "abs", "bitnot"]), inner),
            st.builds(Cast, inner, st.just(dtype)),
        ),
        max_leaves=12,
    )


_BOOLS = st.recursive(
    st.one_of(
        st.sampled_from([P, Q, Const(True, DType.BOOL)]),
        st.builds(
            Binary,
            st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]),
            _numbers(DType.INT32),
            _numbers(DType.INT32),
        ),
    ),
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from(["and", "or"]), inner, inner),
        st.builds(Unary, st.just("not"), inner),
    ),
    max_leaves=8,
)


@given(st.one_of(_numbers(DType.INDEX), _numbers(DType.INT32), _numbers(DType.FP32), _numbers(DType.FP16), _BOOLS))
@settings(deadline=None)
def test_every_tree_has_a_text_that_reads_back_to_it(e: Expr) -> None:
    assert parse(expr_text(e)) == e


@given(st.text(alphabet="ab12 .+-*/%()<>=&|^~,[]\"'notandmincastINT", max_size=40))
@settings(deadline=None, max_examples=400)
def test_any_text_reads_or_is_refused(text: str) -> None:
    try:
        e = parse(text)
    except ExprError as fault:
        assert 0 <= fault.offset <= len(text) and fault.message
    else:
        assert parse(expr_text(e)) == e
