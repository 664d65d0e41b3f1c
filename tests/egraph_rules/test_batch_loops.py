"""Products of large batches as loops over their pages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from building import Build, program, sizes

import extract.lower as lowering
from egraph_rules.batch_loops import roll_batches
from extract.lower import MOST_WRITTEN, lower
from extract.price import price
from extract.target import FREE_CODE, Target, load_target
from extract.upstream.flatten import flatten
from pypto_ir.diagnostics import Diagnostic, Place, Refused
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Var
from pypto_ir.interp.compare import equivalent
from pypto_ir.stmt import Assign, Call, For, Function, walk
from pypto_ir.verify import verify_program

FP16 = DType.FP16
TARGET = load_target("ascend910b")


def rolled(function: Function, capacity: int | None = None, aliased: tuple[tuple[str, str], ...] = ()) -> Function:
    return roll_batches(function, 5, capacity, lambda dtype: 32 if dtype is DType.INT32 else 16, aliased)


def statements(function: Function) -> int:
    return sum(1 for _ in walk(function.body))


def products(
    batch: tuple[int, ...], left: tuple[int, ...], right: tuple[int, ...], page: tuple[int, int] = (16, 16), **ways: Any
) -> Function:
    """A product of two loads, stored; or, in a `loop`, added to an accumulator. `began` by a product, the accumulator is stored `twice`;
    a product that is `moved` may be `scaled` then. Factors that are `cut` or read `again` or `written`, and what is `added` to, cannot be
    loops."""
    rows, columns = page
    b = Build()
    dtype = ways.get("dtype", FP16)
    x = b.tensor("x", (*left, rows, 32), dtype, "InOut" if ways.get("written") else "In")
    y = b.tensor("y", (*right, 32, columns), dtype)
    valid = (*right, 16, b.scalar("n", 1, columns)) if ways.get("cut") else None

    def factors(k: Any) -> tuple[Var, Var]:
        lead = tuple(0 for _ in left)
        a = b.read("a", x, (*left, rows, 16), at=(*lead, 0, k), target_memory="Mat")
        return a, b.read("c", y, (*right, 16, columns), valid, at=(*(0 for _ in right), k, 0), target_memory="Mat")

    if ways.get("loop"):
        held = "INT32" if dtype is DType.INT8 else "FP32"
        if ways.get("began"):
            acc0 = b.let(
                "acc0", "tile.batch_matmul", *(b.read(f"{n}0", *rest, target_memory="Mat") for n, *rest in _first(x, y, left, right, page))
            )
        else:
            acc0 = b.let("acc0", "tile.create", (*batch, rows, columns), dtype=held, target_memory="Acc")
        with b.loop("k", 2, {"acc": acc0}) as (k, acc):
            first = () if ways.get("began") else (Binary("eq", k, Const(0)),)
            b.yields(b.let("m", "tile.batch_matmul_acc", acc, *factors(Binary("mul", k, Const(16))), *first))
        made = b.ended[0]
    else:
        a, c = factors(0)
        made = b.let("m", "tile.batch_matmul", a, c)
        if ways.get("again"):
            b.out(b.let("m2", "tile.batch_matmul", a, c))
    if ways.get("moved"):
        made = b.let("v", "tile.move", made, target_memory="Vec")
    if ways.get("scaled"):
        made = b.let("s", "tile.muls", b.let("e", "tile.abs", made), 0.5)
    if ways.get("added"):
        made = b.let("u", "tile.add", made, b.read("f", b.tensor("fs", (*batch, rows, columns)), (*batch, rows, columns)))
    b.out(made, (*(n + 1 for n in batch), rows, columns), (*(1 for _ in batch), 0, 0))
    if ways.get("twice"):
        b.results.append(b.store("again", made, b.tensor("other", (*batch, rows, columns), direction="Out")))
    return b.function()


def _first(x: Var, y: Var, left: tuple[int, ...], right: tuple[int, ...], page: tuple[int, int]) -> list[tuple[Any, ...]]:
    return [("a", x, (*left, page[0], 16)), ("c", y, (*right, 16, page[1]))]


@pytest.mark.parametrize(
    ("batch", "left", "right", "ways"),
    [
        ((6,), (6,), (6,), {}),
        ((6,), (6,), (), {}),
        ((2, 3), (2, 1), (1, 3), {}),
        ((3, 2), (3, 2), (2,), {"page": (8, 24)}),
        ((6,), (6,), (6,), {"moved": True}),
        ((2, 3), (2, 3), (2, 3), {"moved": True, "scaled": True}),
        ((6,), (6,), (6,), {"loop": True}),
        ((2, 3), (2, 3), (3,), {"loop": True, "twice": True}),
        ((1, 6), (1, 6), (1, 1), {"loop": True, "began": True, "page": (32, 16)}),
        ((6,), (6,), (6,), {"loop": True, "dtype": DType.INT8}),
    ],
)
def test_products_of_large_batches_are_loops(
    batch: tuple[int, ...], left: tuple[int, ...], right: tuple[int, ...], ways: dict[str, Any]
) -> None:
    before = products(batch, left, right, **ways)
    after = rolled(before)
    assert after is not before and not verify_program(program(after))
    assert equivalent(program(before), program(after)).equal
    made = [
        s for s in walk(after.body) if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op.startswith("tile.batch_matmul")
    ]
    assert made and all(set(sizes(s.target.type)[:-2]) == {1} for s in made)  # type: ignore[arg-type]
    loops = sum(isinstance(s, For) for s in walk(after.body)) - sum(isinstance(s, For) for s in walk(before.body))
    axes = sum(n > 1 for n in batch)
    stores = 1 + bool(ways.get("twice"))
    assert loops == axes * ((1 + bool(ways.get("began")) + stores) if ways.get("loop") else 1)


@pytest.mark.parametrize(
    ("given", "capacity"),
    [
        pytest.param({"batch": (4,), "left": (4,), "right": (4,)}, None, id="a small batch"),
        pytest.param({"cut": True}, None, id="a factor that is valid in part"),
        pytest.param({"again": True}, None, id="a factor that another product reads"),
        pytest.param({"written": True}, None, id="a factor that the function may write"),
        pytest.param({"moved": True, "added": True}, None, id="a product to which another tile is added"),
        pytest.param({"loop": True, "moved": True}, None, id="an accumulator that is moved as a whole"),
        pytest.param({"twice": True}, 1, id="a product that is stored twice"),
        pytest.param({"loop": True}, 6 * 16 * 16 * 4 - 1, id="an accumulator that L0C does not hold"),
        pytest.param({"loop": True, "dtype": DType.INT8}, 6 * 32 * 16 * 4 - 1, id="an accumulator that L0C pads"),
        pytest.param({"loop": True, "page": (8, 16)}, None, id="pages that are no boxes"),
        pytest.param({"loop": True, "page": (16, 24)}, None, id="pages that are no columns of boxes"),
    ],
)
def test_what_has_to_be_written_out_is_the_same_object(given: dict[str, Any], capacity: int | None) -> None:
    before = products(**{"batch": (6,), "left": (6,), "right": (6,), **given})
    assert rolled(before, capacity) is before


def test_an_accumulator_that_fits_exactly_is_a_loop() -> None:
    before = products((6,), (6,), (6,), loop=True)
    assert rolled(before, 6 * 16 * 16 * 4) is not before


def test_a_parameter_that_may_be_another_one_is_not_read_later() -> None:
    before = products((6,), (6,), (6,))
    assert rolled(before, aliased=(("x", "m_out"),)) is before


def loops(function: Function) -> int:
    return sum(isinstance(s, For) for s in walk(function.body))


@pytest.mark.parametrize("ways", [{}, {"loop": True}])
def test_neither_the_result_nor_the_graph_grows_with_a_batch_whose_code_is_fetched(ways: dict[str, Any]) -> None:
    few, many = (lower(products((n,), (n,), (n,), **ways), TARGET) for n in (64, 128 if ways else 1024))
    assert few.nodes == many.nodes and few.price.code == many.price.code == 0
    assert statements(few.function) == statements(many.function) and loops(few.function) > 0
    assert all(found.lower_bound == pytest.approx(found.cost, rel=0.01) for found in (few, many))


@pytest.mark.parametrize(("pages", "ways"), [(2, {}), (16, {}), (40, {"moved": True}), (16, {"loop": True}), (40, {"loop": True})])
def test_batches_are_loops_where_that_is_cheaper(pages: int, ways: dict[str, Any]) -> None:
    """What is cheaper depends on the instruction cache of the machine, not on the batch alone."""
    before = products((pages,), (pages,), (pages,), **ways)
    as_loops = roll_batches(before, 2, None, TARGET.acc_row_alignment)
    for target in (TARGET, replace(TARGET, code=replace(TARGET.code, cached=48)), replace(TARGET, code=replace(TARGET.code, cached=512))):
        result, texts = lower(before, target), (_written_out(before, target), lower(as_loops, target).cost)
        assert result.cost == min(texts), (pages, target.code)
        rolled = loops(result.function) > loops(before)
        assert rolled == (texts[1] < texts[0])
        assert rolled == (texts[0] > _written_out(before, replace(TARGET, code=FREE_CODE)))


@pytest.mark.parametrize(
    "ways",
    [{}, {"moved": True}, {"moved": True, "scaled": True}, {"page": (8, 24)}]
    + [{"loop": True, **more} for more in ({}, {"began": True}, {"twice": True}, {"dtype": DType.INT8, "page": (32, 16)})],
)
def test_where_loops_are_proved_cheaper_upstreams_program_is_dearer(ways: dict[str, Any]) -> None:
    """So that it need not be made there: all of its pages are written out."""
    found = []
    for pages in (2, 43, 64):
        before = products((pages,), (pages,), (pages,), **ways)
        result = lower(before, TARGET)
        assert result.in_loops == (result.price.instructions < pages)
        if result.in_loops:
            assert price(flatten(before, TARGET).function, TARGET).cost > result.cost
        found.append(result.in_loops)
    assert found[0] is False and found[-1] is True


def _written_out(function: Function, target: Target) -> float:
    """The cost of the function without loops over pages."""
    free = lower(function, replace(target, code=FREE_CODE))
    return price(free.function, target).cost


def test_without_a_price_of_code_batches_are_written_out_as_long_as_the_text_stays_finite() -> None:
    free = load_target(None)
    written, rolled = (lower(products((n,), (n,), (n,)), free).function for n in (64, MOST_WRITTEN + 1))
    assert loops(written) == 0 and statements(written) > 3 * 64
    assert loops(rolled) == 1 and statements(rolled) < 20


def test_of_several_batches_the_largest_becomes_a_loop_first() -> None:
    b = Build()
    for name, n in (("p", 30), ("q", 4)):
        a = b.read(f"{name}_a", b.tensor(f"{name}_x", (n, 16, 16), FP16), (n, 16, 16), target_memory="Mat")
        c = b.read(f"{name}_c", b.tensor(f"{name}_y", (n, 16, 16), FP16), (n, 16, 16), target_memory="Mat")
        b.out(b.let(name, "tile.batch_matmul", a, c))
    result = lower(b.function(), TARGET)
    assert loops(result.function) == 1 and result.price.code == 0
    assert sum(1 for s in result.function.body if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.matmul") == 4


def test_a_fault_of_one_text_is_told_though_another_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    before = products((40,), (40,), (40,))
    once = lowering._lower_once

    def faulty(f: Function, *rest: Any) -> Any:
        if f is before:
            raise Refused([Diagnostic("X001", "the rules disagree", Place())])
        return once(f, *rest)

    monkeypatch.setattr(lowering, "_lower_once", faulty)
    with pytest.raises(Refused, match="X001"):
        lower(before, TARGET)
