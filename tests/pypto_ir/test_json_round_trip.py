"""Reading then writing gives an equal program, writing again the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_ir.diagnostics import Refused
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, MakeTuple, Var, index
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Assign, Call, Eval, Function, Param, Program, Record, Return
from pypto_ir.types import (
    INDEX,
    Memory,
    Pad,
    TensorView,
    TileLayout,
    TileView,
    Type,
    UnknownType,
    dims,
    tensor_type,
    tile_type,
)  # fmt: skip

KERNELS = sorted((Path(__file__).parents[2].parent / "shared" / "kernels").glob("*.json"))
EVERY_FORM = Path(__file__).with_name("every_form.json")


@pytest.mark.parametrize("path", [*KERNELS, EVERY_FORM], ids=lambda p: p.stem)
def test_a_canonical_file_comes_back_byte_for_byte(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert write_program(read_program(text, path.name)) == text


@pytest.mark.parametrize("path", [*KERNELS, EVERY_FORM], ids=lambda p: p.stem)
def test_layout_and_key_order_of_the_input_do_not_matter(path: Path) -> None:
    import json

    def turned(value: object) -> object:
        if isinstance(value, dict):
            keep = ("kwargs", "attrs", "words", "deep")
            return {k: v if k in keep else turned(v) for k, v in reversed(value.items())}
        return [turned(v) for v in value] if isinstance(value, list) else value

    text = path.read_text(encoding="utf-8")
    assert write_program(read_program(json.dumps(turned(json.loads(text)), indent=3))) == text


def test_there_are_kernels() -> None:
    assert len(KERNELS) >= 12


def assigned(call: Call, t: Type) -> Program:
    body = (Assign((Var("v", t),), call), Return(()))
    params = (Param(Var("x", tensor_type(dims(2, 3, 8), DType.FP32))), Param(Var("n", INDEX)))
    return Program(functions=(Function("f", params, (), body, "InCore"),))


LOAD = Call(
    "tile.load",
    (
        Var("x", tensor_type(dims(2, 3, 8), DType.FP32)),
        MakeTuple(dims(0, 0, 0)),
        MakeTuple(dims(2, 3, 8)),
        MakeTuple(dims(2, 3, 8)),
    ),
    (("target_memory", "Vec"),),
)


@pytest.mark.parametrize(
    "t",
    [
        tile_type(dims(2, 3, 8), DType.FP32, Memory.VEC),
        tile_type(dims(6, 8), DType.FP32, Memory.VEC),
        tile_type(dims(6, 8), DType.FP32, Memory.VEC, TileView(valid=dims(5, 8))),
        tile_type(
            dims(6, 8),
            DType.FP32,
            Memory.VEC,
            TileView(blayout=TileLayout.COL_MAJOR, pad=Pad.MIN, stride=dims(16, 1)),
        ),
        tile_type(dims(48, 1), DType.FP32, Memory.VEC),
        tile_type(dims(2, 3, 8), DType.FP32, Memory.VEC, TileView(fractal=1024, start_offset=index(64))),
    ],
    ids=str,
)
def test_the_type_of_a_load_survives(t: Type) -> None:
    program = assigned(LOAD, t)
    again = read_program(write_program(program))
    assert again == program
    assert again.functions[0].body[0].targets[0].type == t  # type: ignore[union-attr]


def test_a_type_is_written_only_where_it_differs_from_the_deduction() -> None:
    assert '"type": {"tile"' not in write_program(assigned(LOAD, tile_type(dims(2, 3, 8), DType.FP32, Memory.VEC)))
    assert '"type": {"tile": [6, 8]' in write_program(assigned(LOAD, tile_type(dims(6, 8), DType.FP32, Memory.VEC)))


def test_stale_types_of_uses_do_not_matter() -> None:
    stale = Call("tile.load", (Var("x", UnknownType()), *LOAD.args[1:]), LOAD.kwargs)
    text = write_program(assigned(LOAD, tile_type(dims(2, 3, 8), DType.FP32, Memory.VEC)))
    assert write_program(assigned(stale, tile_type(dims(2, 3, 8), DType.FP32, Memory.VEC))) == text


def test_an_index_constant_in_a_scalar_position_is_spelled_with_its_type() -> None:
    opaque = Call("tile.unheard", (Const(1, DType.INDEX), MakeTuple(dims(8, 8))))
    assert read_program(write_program(assigned(opaque, tile_type(dims(8, 8), DType.INT32)))).functions[0].body[0] == Assign(
        (Var("v", INDEX),), opaque
    )
    full = Call("tile.full", (MakeTuple(dims(8, 8)), Const(1, DType.INDEX)), (("dtype", "INT32"),))
    assert '{"const": 1, "dtype": "INDEX"}' in write_program(assigned(full, tile_type(dims(8, 8), DType.INT32)))


def test_what_has_no_form_is_refused() -> None:
    inside = Binary("add", MakeTuple((index(1),)), index(1))
    for attrs in (
        (("a", float("nan")),),
        (("a", Record((("var", "n"),))),),
        (("a", Record((("expr", "n"),))),),
    ):
        with pytest.raises(Refused) as caught:
            write_program(Program(functions=(Function("f", body=(Eval(Call("system.x", (), attrs=attrs)),)),)))
        assert caught.value.diagnostics[0].code == "J701"
    with pytest.raises(Refused):
        write_program(Program(functions=(Function("f", body=(Return((inside,)),)),)))


def test_defaults_are_left_out() -> None:
    text = write_program(Program(functions=(Function("f"),)))
    assert text == '{\n "pypto_ir": 1,\n "functions": [\n  {\n   "name": "f",\n   "body": []\n  }\n ]\n}\n'


def test_tensor_views_survive() -> None:
    t = tensor_type(dims(4, 8), DType.FP16, TensorView(stride=dims(8, 1), valid=dims(2, 8), pad=Pad.MAX))
    program = Program(functions=(Function("f", (Param(Var("x", t)),)),))
    assert read_program(write_program(program)).functions[0].params[0].var.type == t
