"""What a function that is stamped as blocked may hold: tensors of boxes, loads and stores of whole boxes, tiles that they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Expr, MakeTuple, Var, index
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import Assign, Call, Eval, For, Function, Param, Stmt
from pypto_ir.types import (
    INDEX,
    Layout,
    Memory,
    TensorType,
    TensorView,
    TileLayout,
    TileType,
    TileView,
    TupleType,
    Type,
    dims,
    tensor_type,
    tile_type,
)
from pypto_ir.verify.boxes import STAMP, blocked_scales, stamped

ROW, COL = TileLayout.ROW_MAJOR, TileLayout.COL_MAJOR
A, B = Layout.MX_A_ZZ, Layout.MX_B_NN
STAMPED = ((STAMP, True),)


def mx(*shape: int | Expr, layout: Layout = A) -> TensorType:
    return tensor_type(dims(*shape), DType.FP8E8M0, TensorView(layout=layout))


def tile(rows: int, columns: int, order: TileLayout = ROW, fractal: int = 32, memory: Memory = Memory.MAT) -> TileType:
    return tile_type(dims(rows, columns), DType.FP8E8M0, memory, TileView(blayout=order, slayout=order, fractal=fractal))


def function(*body: Stmt, params: tuple[Type, ...] = (), returns: tuple[Type, ...] = (), attrs: tuple = STAMPED) -> Function:  # type: ignore[type-arg]
    held = tuple(Param(Var(f"p{i}", t)) for i, t in enumerate(params))
    return Function("main", held, returns, body, "InCore", attrs=attrs)


def codes(f: Function) -> list[str]:
    return [d.code for d in blocked_scales(f, ("functions", 0))]


def loads(
    offsets: tuple[int | Expr, ...] = (0, 1, 0, 0, 0),
    window: tuple[int | Expr, ...] = (1, 2, 2, 16, 2),
    valid: tuple[int | Expr, ...] | None = None,
    result: TileType | None = None,
    source: TensorType | None = None,
) -> Function:
    """A load of two blocks and two pairs of [1, 4, 2, 16, 2]."""
    s = Var("s", mx(1, 4, 2, 16, 2) if source is None else source)
    operands = (MakeTuple(dims(*offsets)), MakeTuple(dims(*window)), MakeTuple(dims(*(window if valid is None else valid))))
    load = Call("tile.load", (s, *operands), (("target_memory", "Mat"),))
    return function(Assign((Var("t", tile(32, 4) if result is None else result),), load))


def test_a_function_without_the_stamp_may_hold_anything() -> None:
    logical = function(params=(mx(64, 4),), attrs=(("k", 3),))
    assert codes(logical) == [] and not stamped(logical)
    assert stamped(replace(logical, attrs=(("k", 3), *STAMPED, ("n", 1)))) and not stamped(replace(logical, attrs=()))
    assert codes(replace(logical, attrs=((STAMP, False),))) == ["V401"], "the stamp counts, not its value"


@pytest.mark.parametrize(
    "t", [mx(64, 4), mx(1, 4, 2, 16), mx(2, 4, 2, 16, 2), mx(1, 4, 2, 8, 2), mx(1, 4, 2, 16, 4), mx(1, 4, 2, 16, 2, 1)]
)
def test_tensors_that_are_not_blocked_are_found_wherever_they_stand(t: TensorType) -> None:
    good = mx(1, 4, 2, 16, 2)
    nested = TupleType((good, TupleType((INDEX, t))))
    assert codes(function(params=(t, good))) == codes(function(params=(good,), returns=(good, t))) == ["V401"]
    assert codes(function(params=(nested,))) == codes(function(Assign((Var("x", t),), Var("y", t)))) == ["V401"]
    inner = For(Var("i", INDEX), index(0), index(4), index(1), (Assign((Var("x", t),), Var("y", t)),))
    (d,) = blocked_scales(function(inner), ("functions", 0))
    assert (d.code, d.place.path, d.place.statement) == ("V401", "$.functions[0].body[0].body[0]", "x")
    assert "not blocked" in d.message and d.help
    (d,) = blocked_scales(function(params=(good, t)), ("functions", 0))
    assert d.place.path == "$.functions[0].params[1]"
    (d,) = blocked_scales(function(returns=(t,)), ("functions", 0))
    assert d.place.path == "$.functions[0].returns[0]"


def test_other_tensors_are_no_matter_of_boxes() -> None:
    plain = tensor_type(dims(64, 4), DType.FP8E8M0)
    assert codes(function(params=(plain, mx(1, 4, 2, 16, 2, layout=B)), returns=(plain,))) == []
    load = Call("tile.load", (Var("p0", plain), *(MakeTuple(dims(*d)) for d in ((8, 1), (8, 2), (8, 2)))), (("target_memory", "Mat"),))
    assert codes(function(Assign((Var("t", infer_call(load)),), load), Eval(Call("tile.get_block_idx")))) == []


def test_whole_boxes_pass() -> None:
    assert codes(loads()) == []
    assert codes(loads(offsets=(0, 2, 0, 0, 0))) == [], "the last blocks"
    assert codes(loads(offsets=(0, Var("i", INDEX), Binary("mul", Var("i", INDEX), index(2)), 0, 0))) == []
    assert (
        codes(loads(window=(1, 2, 1, 16, 2), offsets=(0, 0, 1, 0, 0), result=tile(2, 32, COL), source=mx(1, 4, 2, 16, 2, layout=B))) == []
    )
    narrowed = tile_type(dims(32, 4), DType.FP8E8M0, Memory.MAT, TileView(valid=dims(20, 3), blayout=ROW, slayout=ROW, fractal=32))
    assert codes(loads(result=narrowed)) == []


@pytest.mark.parametrize("offsets", [
    (0, 0), (0, 0, 0, 0), (1, 0, 0, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1), (0, 3, 0, 0, 0), (0, 0, 1, 0, 0), (0, -1, 0, 0, 0),
    (Var("i", INDEX), 0, 0, 0, 0), (0, 0, 0, Var("i", INDEX), 0),
])  # fmt: skip
def test_offsets_that_are_not_those_of_boxes(offsets: tuple[int | Expr, ...]) -> None:
    f = loads(offsets)
    assert codes(f) == ["V402"]
    (d,) = blocked_scales(f)
    assert "tile.load" in d.message and d.help and d.place.statement == "t = tile.load"


@pytest.mark.parametrize("window", [
    (1, 2, 2, 16), (2, 2, 2, 16, 2), (1, 2, 2, 8, 2), (1, 2, 2, 16, 4), (1, 2, Var("n", INDEX), 16, 2), (1, 5, 2, 16, 2), (1, 2, 3, 16, 2),
])  # fmt: skip
def test_windows_that_are_not_whole_boxes(window: tuple[int | Expr, ...]) -> None:
    assert codes(loads((0, 0, 0, 0, 0), window)) == ["V402"]


def test_a_valid_operand_of_other_boxes_than_the_window() -> None:
    assert codes(loads(valid=(1, 1, 2, 16, 2))) == ["V402"]


@pytest.mark.parametrize("result", [
    tile(16, 4), tile(4, 32), tile(64, 2), tile(32, 4, COL), tile(32, 4, ROW, 512), tile(32, 4, memory=Memory.LEFT_SCALE),
    tile_type(dims(32, 4), DType.FP8E8M0, Memory.MAT),
    tile_type(dims(32, 4), DType.FP8E8M0, Memory.MAT, TileView(blayout=ROW, slayout=COL, fractal=32)),
])  # fmt: skip
def test_tiles_that_the_boxes_do_not_hold(result: TileType) -> None:
    f = loads(result=result)
    assert codes(f) == ["V403"]
    (d,) = blocked_scales(f)
    assert "[32, 4]" in str(d.help)


def stores(offsets: tuple[int, ...], box: tuple[int, ...] | None = None, source: TileType | None = None) -> Function:
    operands = (Var("t", source or tile(16, 2)), MakeTuple(dims(*offsets)), Var("s", mx(1, 4, 2, 16, 2)))
    given = () if box is None else (MakeTuple(dims(*box)),)
    return function(Assign((Var("o", mx(1, 4, 2, 16, 2)),), Call("tile.store", (*operands, *given))))


def test_stores_are_held_to_the_same() -> None:
    assert codes(stores((0, 1, 1, 0, 0))) == codes(stores((0, 3, 1, 0, 0), (1, 1, 1, 16, 2))) == []
    assert codes(stores((0, 1, 1, 0, 1))) == codes(stores((0, 1, 1))) == codes(stores((0, 4, 1, 0, 0), (1, 1, 1, 16, 2))) == ["V402"]
    assert codes(stores((0, 0, 0, 0, 0), (1, 1, 1, 32, 1))) == codes(stores((0, 4, 1, 0, 0))) == codes(stores((0, 0, 2, 0, 0))) == ["V402"]
    half = tile_type(dims(16, 2), DType.FP8E8M0, Memory.MAT, TileView(valid=dims(8, 2), blayout=ROW, slayout=ROW, fractal=32))
    assert codes(stores((0, 0, 0, 0, 0), source=half)) == ["V402"]


def test_calls_without_a_name_are_held_to_the_same() -> None:
    for f, expected in (
        (stores((0, 4, 1, 0, 0)), ["V402"]),
        (stores((0, 1, 1, 0, 0)), []),
        (loads(), []),
        (loads((0, 3, 0, 0, 0)), ["V402"]),
    ):
        (s,) = f.body
        assert isinstance(s, Assign) and codes(function(Eval(s.value))) == expected


def test_a_valid_region_that_is_not_constant_is_not_made_of_boxes() -> None:
    cut = tile_type(dims(16, 2), DType.FP8E8M0, Memory.MAT, TileView(valid=dims(Var("n", INDEX), 2), blayout=ROW, slayout=ROW, fractal=32))
    assert codes(stores((0, 0, 0, 0, 0), source=cut)) == ["V402"]
    assert codes(stores((0, 0, 0, 0, 0), (1, 1, 1, 16, 2), source=cut)) == []


def test_offsets_that_are_no_literal_are_told() -> None:
    at, load = Var("at", TupleType((INDEX,) * 5)), loads().body[0]
    assert isinstance(load, Assign) and isinstance(load.value, Call)
    args = (load.value.args[0], at, *load.value.args[2:])
    (d,) = blocked_scales(function(replace(load, value=replace(load.value, args=args))))
    assert d.code == "V402" and "no literal offsets" in d.message


def test_boxes_of_an_unknown_number_may_be_there() -> None:
    assert codes(loads(offsets=(0, 7, 0, 0, 0), source=mx(1, Var("n", INDEX), 2, 16, 2))) == []
    assert codes(loads(offsets=(0, 0, 1, 0, 0), source=mx(1, Var("n", INDEX), 2, 16, 2))) == ["V402"]
