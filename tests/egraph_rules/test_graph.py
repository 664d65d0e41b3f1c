"""The choice graph: what it holds, and that its size does not grow with the batch."""

from __future__ import annotations

import pytest
from building import Build
from drawing import scratch_like
from product_programs import matrix

from egraph_rules.graph import MACHINE, saturated
from pypto_ir.dtypes import DType
from pypto_ir.expr import Var
from pypto_ir.stmt import Function, Param
from pypto_ir.types import Memory, dims, tile_type


def batched(count: int) -> Function:
    """Normalisation of [count, 16, 64] by its row maxima, a repeated operand, and a page write."""
    b = Build()
    shape = (count, 16, 64)
    x, gain = b.load("x", shape), b.load("gain", (1, 1, 64))
    m = b.let("m", "tile.row_max", x, scratch_like(b, "tmp", x))
    y = b.let("y", "tile.row_expand_sub", x, m)
    z = b.let("z", "tile.mul", y, gain)
    w = b.let("w", "tile.assemble", z, b.load("page", (1, 16, 64)), (1, 0, 0))
    b.out(b.let("r", "tile.reshape", w, (count, 32, 32)))
    return b.function()


# the reductions of all batches, [count * 16, 1], end at whole blocks for even counts
@pytest.mark.parametrize("count", [4, 16, 256])
def test_size_of_the_graph_is_the_same_for_every_batch(count: int) -> None:
    small, large = saturated(batched(2)), saturated(batched(count))
    assert (small.rows, small.node_count, len(small.classes)) == (
        large.rows,
        large.node_count,
        len(large.classes),
    )
    assert small.report.iterations == large.report.iterations
    assert small.report.rules_fired == large.report.rules_fired


def test_only_machine_nodes_are_kept_and_their_children_are_classes() -> None:
    graph = saturated(batched(2))
    names = {node.name for nodes in graph.classes.values() for node in nodes}
    assert names <= set(MACHINE) and {"Load2", "LoadEach", "Op2", "OpEach", "WithPages", "Store2"} <= names
    assert graph.node_count == sum(len(nodes) for nodes in graph.classes.values())


def test_page_counts_flat_forms_and_writes_are_found_by_number() -> None:
    graph = saturated(batched(5))
    numbers = graph.encoded.numbers
    assert graph.page_counts[graph.families[numbers["x"]]] == 5
    assert graph.shapes[graph.flat[numbers["x"]]] == (80, 64)
    assert graph.shapes[graph.flat[numbers["m"]]] == (80, 1)
    assert list(graph.writes) == [0] and graph.writes[0] in graph.classes


def test_reasons_are_recorded_with_the_value() -> None:
    b = Build()
    x, y = b.load("x", (2, 3, 8), (2, 2, 8)), b.load("y", (1, 3, 8))
    b.out(b.let("z", "tile.add", y, y))
    b.out(b.let("w", "tile.col_expand_mul", b.load("v", (2, 3, 8)), b.load("c", (2, 1, 8))))
    b.out(x)
    graph = saturated(b.function())
    of = {name: graph.obstacles.get(graph.values[n], ()) for name, n in graph.encoded.numbers.items()}
    assert of["x"] == ("gaps",) and of["c"] == ("repeats",) and of["z"] == ()


def test_nothing_but_accumulators_is_laid_out_in_columns() -> None:
    b = Build()
    left, right = matrix(b, "l", (2, 16, 32), DType.FP16), matrix(b, "r", (2, 32, 16), DType.FP16)
    b.out(b.let("second", "tile.batch_matmul_acc", b.let("first", "tile.batch_matmul", left, right), left, right))
    graph = saturated(b.function())
    assert set(graph.columns) == {graph.encoded.numbers[name] for name in ("first", "second")}


def test_a_tile_that_is_given_has_no_carrier() -> None:
    """A parameter, which the caller lays out."""
    b = Build()
    acc, x = (Var(name, tile_type(dims(2, 16, 16), DType.FP32, memory)) for name, memory in (("acc", Memory.ACC), ("x", Memory.VEC)))
    b.params += [Param(acc, "In"), Param(x, "In")]
    left, right = matrix(b, "l", (2, 16, 16), DType.FP16), matrix(b, "r", (2, 16, 16), DType.FP16)
    b.out(b.let("more", "tile.batch_matmul_acc", acc, left, right))
    b.out(b.let("y", "tile.exp", x))
    graph = saturated(b.function())
    for name in ("acc", "x"):
        number = graph.encoded.numbers[name]
        made = [graph.classes.get(carriers[number], []) for carriers in (graph.flat, graph.families, graph.columns) if number in carriers]
        assert not {n.name for nodes in made for n in nodes} & {"Leaf2", "LeafEach", "LeafCols"}
        assert graph.obstacles[graph.values[number]] == ("given",)
