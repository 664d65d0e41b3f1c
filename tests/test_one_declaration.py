"""An op with a pointwise trait is one declaration: flattened, by pages too, priced, interpreted, printed in both forms and documented."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from helpers import checked, incore, kernel, let, load, out, ret, store, tensor

from benchmarks.docs import ops_text
from extract.price import price_program
from extract.target import load_target
from pypto_eqsat.driver import optimize
from pypto_ir.interp.machine import run
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.ops import registry
from pypto_ir.ops.numeric import pointwise
from pypto_ir.ops.registry import ShapeRule, Trait, all_ops, declare_op, scalar, tile
from pypto_ir.ops.rules import in_vec, same_as
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.printed.program_writer import write_text
from pypto_ir.stmt import Program

NAME = "tile.leaky_square"


@pytest.fixture
def declared() -> Iterator[None]:
    """A new op, `x * x` above zero and `s * x` elsewhere, and no edit but its declaration."""
    all_ops()
    declare_op(
        NAME,
        (tile("src"), scalar("slope")),
        infer=in_vec(same_as(0)),
        trait=Trait.POINTWISE,
        meaning=pointwise(lambda x, s: np.where(x > 0, x * x, x * s)),
        shape=ShapeRule.FIRST,
        doc="the square of positive elements, others times the slope",
    )
    yield
    del registry._OPS[NAME]


def program(*shape: int) -> Program:
    at = [0] * len(shape)
    slope = {"const": 0.5, "dtype": "FP32"}
    body = [load("t", "x", at, shape), let("y", NAME, "t", slope), let("z", "tile.add", "y", "t"), store("o", "z", at, "out"), ret("o")]
    return incore([tensor("x", *shape), out("out", *shape)], body)


def ops(p: Program) -> list[str]:
    return [s.value.op for s in p.functions[0].body if hasattr(s, "value") and hasattr(s.value, "op")]


def test_it_is_flattened_and_the_result_computes_the_same(declared: None) -> None:
    before = program(3, 16, 64)
    result = optimize(before)
    assert ops(result.program) == ["tile.load", NAME, "tile.add", "tile.store"]
    checked(before, result)
    assert result.stats["validated"]["functions"]["main"]["runs"]


def test_it_goes_by_pages_where_a_flat_tile_does_not_fit(declared: None) -> None:
    """256 KiB are more than the vector units' memory; eight pages one after the other are not."""
    before = program(8, 64, 128)
    result = optimize(before)
    assert ops(result.program).count(NAME) == 8
    checked(before, result, dearer=True)


def test_it_has_a_price_on_every_target(declared: None) -> None:
    for target in ("ascend910b", "ascend950"):
        machine = load_target(target)
        small, large = (price_program(program(n, 16, 64), machine)["main"] for n in (1, 4))
        without = price_program(kernel("add_3d"), machine)
        assert 0 < small.cost < large.cost and without
        assert small.cycles.values != large.cycles.values


def test_it_is_interpreted(declared: None) -> None:
    x = np.linspace(-2, 2, 16 * 64, dtype=np.float32).reshape(1, 16, 64)
    (result,) = run(program(1, 16, 64), "main", {"x": x}).returned
    data, ok = result.read((0, 0, 0), (1, 16, 64))
    assert ok.all() and np.array_equal(data, np.where(x > 0, x * x, x * np.float32(0.5)) + x)


def test_it_is_printed_and_read_in_both_forms(declared: None) -> None:
    for p in (program(2, 16, 64), optimize(program(2, 16, 64)).program):
        assert read_program(write_program(p)) == p
        text = write_text(p)
        assert f"pl.{NAME}(t, 0.5)" in text
        assert write_text(read_printed(text).program) == text


def test_it_is_documented(declared: None) -> None:
    (line,) = (line for line in ops_text().splitlines() if f"`{NAME}`" in line)
    assert "pointwise" in line and "src" in line and "slope" in line and "the square of positive elements" in line


def test_without_the_declaration_nobody_knows_it() -> None:
    assert NAME not in ops_text() and registry.find_op(NAME) is None
