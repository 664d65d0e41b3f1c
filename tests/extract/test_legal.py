"""What the engine takes, and what counts as a legal 2-D function."""

from __future__ import annotations

from dataclasses import replace

import pytest
from alternatives import TARGET
from building import Build

from extract.legal import is_two_d, nd_values, refusals
from extract.lower import lower
from pypto_ir.diagnostics import Refused
from pypto_ir.dtypes import DType
from pypto_ir.expr import MakeTuple, Var
from pypto_ir.stmt import Assign, Call, Function, Return
from pypto_ir.types import Memory, TupleType, dims, scalar_var, tile_type

ND = tile_type(dims(2, 3, 8), DType.FP32, Memory.VEC)


def codes(function: Function) -> list[str]:
    return [d.code for d in refusals(function)]


def test_static_tiles_of_any_rank_are_taken() -> None:
    b = Build()
    b.out(b.load("x", (2, 3, 8), (1, b.scalar("v", 1, 3), 8)))
    assert codes(b.function()) == []


@pytest.mark.parametrize(("shape", "expected"), [((2, scalar_var("n"), 8), ["L001"]), ((scalar_var("n"), 8), [])])
def test_tile_of_rank_above_2_with_a_dynamic_dim_is_refused(shape: tuple[object, ...], expected: list[str]) -> None:
    t = tile_type(dims(*shape), DType.FP32, Memory.VEC)  # type: ignore[arg-type]
    b = Build()
    n = b.scalar("n", 1, 8)
    source = b.tensor("src", (8,) * len(shape))
    zeros = MakeTuple(dims(*(0 for _ in shape)))
    window = MakeTuple(t.shape)
    b.put(
        Assign(
            (Var("x", t),),
            Call("tile.load", (source, zeros, window, window), (("target_memory", "Vec"),)),
            "f.py:3",
        )
    )
    found = refusals(b.function())
    assert [d.code for d in found] == expected and n.name == "n"
    if found:
        assert "dimension 1" in found[0].message and found[0].place.loc == "f.py:3"
        with pytest.raises(Refused):
            lower(b.function(), TARGET)


def test_nd_tile_in_an_op_without_a_declaration_is_refused() -> None:
    b = Build()
    b.effect("tile.somebody_else", b.load("x", (2, 3, 8)))
    assert codes(b.function()) == ["L002"]


def test_nd_tile_passed_to_a_function_is_refused() -> None:
    b = Build()
    b.call("r", "other", b.load("x", (2, 3, 8)), type=b.tensor("t", (4,)).type)
    assert codes(b.function()) == ["L002"]


def test_nd_tile_that_is_returned_or_put_in_a_tuple_is_refused() -> None:
    b = Build()
    x = b.load("x", (2, 3, 8))
    b.put(Assign((Var("pair", TupleType((ND, ND))),), MakeTuple((x, x))))
    function = b.function()
    assert codes(function) == ["L002", "L002"]
    function = replace(function, body=(function.body[0], Return((x,))), returns=(ND,))
    assert codes(function) == ["L002"]


def _plain(shape: tuple[int, ...], target: tuple[int, ...], *box: tuple[int, ...]) -> Function:
    b = Build()
    out = b.tensor("out", target, direction="Out")
    b.results.append(b.store("out_1", b.load("x", shape), out, None, *box))
    return b.function()


def test_2d_function_with_plain_stores_is_legal() -> None:
    assert is_two_d(_plain((8, 16), (8, 16)))
    assert not nd_values(_plain((8, 16), (8, 16)))


def test_store_into_a_tensor_of_rank_above_2_must_name_its_box() -> None:
    assert not is_two_d(_plain((8, 16), (2, 8, 16)))
    assert is_two_d(_plain((8, 16), (2, 8, 16), (1, 8, 16)))


def test_values_of_rank_above_2_are_not_legal() -> None:
    function = _plain((2, 3, 8), (2, 3, 8))
    assert not is_two_d(function)
    assert [d.code for d in nd_values(function)] == ["L002", "L002"]


def test_transpose_without_scratch_is_not_legal_and_gets_it() -> None:
    b = Build()
    b.out(b.let("y", "tile.transpose", b.load("x", (8, 16)), 0, 1))
    function = b.function()
    assert not is_two_d(function)
    found = lower(function, TARGET)
    assert found.changed and is_two_d(found.function)


def test_tile_read_after_it_was_overwritten_is_not_legal() -> None:
    b = Build()
    x = b.load("x", (8, 16))
    y = b.let("y", "tile.assemble", x, b.load("s", (8, 16)), (0, 0))
    b.out(b.let("z", "tile.add", x, y))
    assert not is_two_d(b.function())


def test_legal_function_with_nothing_to_gain_is_handed_back_itself() -> None:
    function = _plain((8, 16), (2, 8, 16), (1, 8, 16))
    found = lower(function, TARGET)
    assert found.function is function and not found.changed and found.cost == found.input_cost


@pytest.mark.xfail(
    strict=True,
    raises=Refused,
    reason="an N-D tile in an explicit layout and its 2-D reshape are one class with two layouts",
)
def test_nd_tile_in_an_explicit_layout_is_lowered_where_it_is_reshaped_to_2d() -> None:
    b = Build()
    m = b.let("m", "tile.move", b.load("x", (2, 8, 16)), target_memory="Vec", blayout="col_major")
    b.out(b.let("z", "tile.add", b.let("y", "tile.reshape", m, (16, 16)), b.load("w", (16, 16))))
    assert is_two_d(lower(b.function(), TARGET).function)
