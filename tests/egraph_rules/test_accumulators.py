"""Accumulators made ready for the e-graph: one buffer where two arms meet, windows of rows as pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from building import Build, program, sizes
from product_programs import matrix

from egraph_rules.one_buffer import one_buffer
from egraph_rules.row_windows import lift_row_windows
from egraph_rules.whole_windows import whole_windows
from extract.lower import lower
from extract.target import load_target
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Expr, Unary, Var
from pypto_ir.interp.compare import equivalent
from pypto_ir.stmt import Assign, Call, Function, If, walk
from pypto_ir.verify import verify_program

FP16 = DType.FP16


def assigns(function: Function, op: str) -> list[Assign]:
    return [s for s in walk(function.body) if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == op]


def made(function: Function, op: str) -> list[Call]:
    return [s.value for s in assigns(function, op)]  # type: ignore[misc]


def assert_same(before: Function, after: Function) -> None:
    assert not verify_program(program(after))
    assert equivalent(program(before), program(after)).equal


# one buffer


def started(reverse: bool = False, read: bool = False, outside: bool = False, more: bool = False) -> Function:
    """A K loop whose first trip multiplies and whose others accumulate."""
    b = Build()
    acc0 = b.let("acc0", "tile.create", (16, 32), dtype="FP32", target_memory="Acc")
    with b.loop("k", 3, {"acc": acc0}) as (k, acc):
        x, y = matrix(b, "x", (16, 16), FP16), matrix(b, "y", (16, 32), FP16)
        into = acc0 if outside else acc

        def fresh() -> None:
            if more:
                b.let("w", "tile.move", x, target_memory="Left")
            b.yields(b.let("m0", "tile.matmul", x, y))

        def added() -> None:
            b.yields(b.let("m1", "tile.matmul_acc", into, x, y))

        arms = (added, fresh) if reverse else (fresh, added)
        (joined,) = b.branch(Binary("gt" if reverse else "eq", k, Const(0)), *arms, {"joined": acc0.type})
        if read:
            b.out(acc)
        b.yields(joined)
    b.out(b.ended[0])
    return b.function()


def test_a_branch_that_only_starts_an_accumulator_becomes_a_predicate() -> None:
    before = started()
    after = one_buffer(before)
    assert_same(before, after)
    (call,) = made(after, "tile.matmul_acc")
    assert call.args[3] == Binary("eq", Var("k", call.args[3].left.type), Const(0))  # type: ignore[union-attr]
    assert not any(isinstance(s, If) for s in walk(after.body)) and not made(after, "tile.matmul")


def test_the_predicate_is_negated_where_the_other_arm_starts() -> None:
    before = started(reverse=True)
    after = one_buffer(before)
    assert_same(before, after)
    (call,) = made(after, "tile.matmul_acc")
    assert isinstance(call.args[3], Unary) and call.args[3].op == "not"


def test_arms_that_do_more_stay_two_and_write_one_buffer() -> None:
    before = started(more=True)
    after = one_buffer(before)
    assert_same(before, after)
    assert any(isinstance(s, If) for s in walk(after.body))
    assert [len(c.args) for c in made(after, "tile.matmul_acc")] == [4, 3] and not made(after, "tile.matmul")


@pytest.mark.parametrize("more", [{"read": True}, {"outside": True}])
def test_a_product_keeps_its_own_buffer_where_the_other_is_read_or_of_another_trip(more: dict[str, bool]) -> None:
    before = started(**more)
    assert one_buffer(before) is before


def test_a_function_without_branches_is_the_same_object() -> None:
    b = Build()
    b.out(b.load("x", (2, 3, 8)))
    before = b.function()
    assert one_buffer(before) is before and lift_row_windows(before).function is before


# windows that are all of an accumulator


def one_page(shape: tuple[int, ...], offsets: tuple[int, ...]) -> Function:
    b = Build()
    rows = shape[-2]
    acc = b.let("acc", "tile.create", (1, 16, 24), dtype="FP32", target_memory="Acc")
    acc = b.let("m", "tile.batch_matmul_acc", acc, matrix(b, "x", (1, 16, 16), FP16), matrix(b, "y", (1, 16, 24), FP16), True)
    cut = b.let("cut", "tile.slice", acc, shape, offsets)
    part = b.let("part", "tile.batch_matmul_acc", cut, matrix(b, "u", (1, rows, 16), FP16), matrix(b, "v", (1, 16, shape[-1]), FP16))
    b.out(b.let("more", "tile.assemble", acc, part, offsets))
    return b.function()


def test_a_window_that_is_all_of_an_accumulator_is_the_accumulator() -> None:
    before = one_page((1, 16, 24), (0, 0, 0))
    after = whole_windows(before)
    assert_same(before, after)
    assert not made(after, "tile.slice") and not made(after, "tile.assemble")
    lowered = lower(before, load_target("ascend910b")).function
    assert equivalent(program(before), program(lowered), mode="l0c").equal


def test_a_window_of_a_part_of_it_stays() -> None:
    for shape, offsets in (((1, 8, 24), (0, 0, 0)), ((1, 16, 8), (0, 0, 16))):
        before = one_page(shape, offsets)
        assert whole_windows(before) is before


# windows of rows


def windows(
    shape: tuple[int, int] = (64, 32), rows: int = 16, at: Callable[[Var], Expr] | None = None, last: int | None = None, use: str = ""
) -> Function:
    """An accumulator that a loop updates window by window; `last` is the height of one window more."""
    b = Build()
    acc0 = b.let("acc0", "tile.create", shape, dtype="FP32", target_memory="Acc")
    y = matrix(b, "y", (16, shape[1]), FP16)
    with b.loop("t", shape[0] // rows, {"acc": acc0}) as (t, acc):
        at = at or (lambda v: Binary("mul", v, Const(rows)))
        x = matrix(b, "x", (rows, 16), FP16)
        cut = b.let("cut", "tile.slice", acc, (rows, shape[1]), (at(t), 0))
        part = b.let("part", "tile.matmul_acc", cut, x, y, True)
        b.yields(b.let("more", "tile.assemble", acc, part, (at(t), 0)))
    end = b.ended[0]
    if last is not None:
        x = matrix(b, "xl", (last, 16), FP16)
        cut = b.let("cut_l", "tile.slice", end, (last, shape[1]), (0, 0))
        part = b.let("part_l", "tile.matmul_acc", cut, x, y)
        end = b.let("end_l", "tile.assemble", end, part, (0, 0))
    if use:
        end = b.let("used", use, end, target_memory="Vec")
    b.out(end)
    return b.function()


@pytest.mark.parametrize(
    ("shape", "rows", "at"),
    [
        ((64, 32), 16, None),
        ((64, 48), 32, None),
        ((96, 32), 48, None),
        ((64, 32), 16, lambda t: Binary("sub", Const(48), Binary("mul", t, Const(16)))),
        ((48, 32), 8, None),
        ((72, 32), 24, None),
    ],
)
def test_windows_of_rows_become_pages_of_whole_blocks(shape: tuple[int, int], rows: int, at: Callable[[Var], Expr] | None) -> None:
    before = windows(shape, rows, at)
    lifted = lift_row_windows(before)
    assert not lifted.obstacles and lifted.given is before
    assert_same(before, lifted.function)
    (create,) = made(lifted.function, "tile.create")
    assert [e.value for e in create.args[0].items] == [shape[0] // rows, -(-rows // 16) * 16, shape[1]]  # type: ignore[union-attr]
    assert all(d.code == "V306" for d in verify_program(program(lifted.function)))


def test_a_moved_accumulator_moves_page_by_page() -> None:
    before = windows(use="tile.move")
    after = lift_row_windows(before).function
    assert_same(before, after)
    (move,) = made(after, "tile.move")
    assert len(move.args[0].type.shape) == 3  # type: ignore[union-attr]


def used(op: str) -> Function:
    """An accumulator with a window of rows that an op reads as a whole."""
    b = Build()
    acc = b.let("acc", "tile.create", (32, 32), dtype="FP32", target_memory="Acc")
    cut = b.let("cut", "tile.slice", acc, (16, 32), (0, 0))
    part = b.let("part", "tile.matmul_acc", cut, matrix(b, "x", (16, 16), FP16), matrix(b, "y", (16, 32), FP16), True)
    b.out(b.let("e", op, b.let("more", "tile.assemble", acc, part, (0, 0))))
    return b.function()


def eighths(t: Var) -> Expr:
    return Binary("mul", t, Const(8))


@pytest.mark.parametrize(
    ("function", "widths"),
    [
        (lambda: windows(last=32), [16, 16] * 2),
        (lambda: windows(shape=(64, 40)), [16, 16, 8]),
        (lambda: windows(at=eighths), [16, 16]),
        (lambda: windows(shape=(72, 32)), [16, 16]),
        (lambda: used("tile.exp"), [16, 16]),
        (lambda: banded((48, 32), [(0, 32), (16, 32)]), [16, 16] * 2),
        (lambda: banded((48, 32), [(0, 16), (8, 16)]), [16, 16] * 2),
    ],
)
def test_windows_that_are_neither_pages_nor_tiles_are_written_by_columns_of_blocks(
    function: Callable[[], Function], widths: list[int]
) -> None:
    before = function()
    lifted = lift_row_windows(before)
    assert lifted.blocks and not lifted.pages and not lifted.bands and not lifted.obstacles
    assert_same(before, lifted.function)
    assert [sizes(c.args[0].type)[1] for c in made(lifted.function, "tile.matmul_acc")] == widths


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"rows": 8, "last": 16}, "different heights (8 and 16 rows)"),
        ({"shape": (64, 24), "rows": 8}, "column extent 24"),
        ({"rows": 8, "use": "tile.move"}, "row extent 8 of its windows is no multiple of 16, and tile.move takes all of its rows"),
        ({"rows": 8, "at": lambda t: Binary("mul", t, Const(4))}, "the row offset of this window is"),
    ],
)
def test_what_keeps_windows_of_half_blocks_from_being_pages_is_said(given: dict[str, Any], reason: str) -> None:
    (obstacle,) = lift_row_windows(windows(**given)).obstacles
    assert reason in obstacle.reason and "it has 8 rows, and what it leaves of its last blocks" in obstacle.reason


def test_windows_that_the_cube_unit_can_address_stay() -> None:
    b = Build()
    acc = b.let("acc", "tile.create", (32, 16), dtype="FP32", target_memory="Acc")
    cut = b.let("cut", "tile.slice", acc, (16, 16), (16, 0))
    part = b.let("part", "tile.matmul_acc", cut, matrix(b, "x", (16, 16), FP16), matrix(b, "y", (16, 16), FP16), True)
    b.out(b.let("more", "tile.assemble", acc, part, (16, 0)))
    before = b.function()
    lifted = lift_row_windows(before)
    assert lifted.function is before and not lifted.obstacles


def test_a_product_of_nothing_is_defined_where_its_operands_are_only() -> None:
    """K and the columns of the right side are cut by one extent that may be 0."""
    b = Build()
    v = b.scalar("v", 0, 8)
    x = b.read("x", b.tensor("xs", (2, 16, 8), FP16), (2, 16, 8), (2, 16, v), target_memory="Mat")
    y = b.read("y", b.tensor("ys", (2, 8, 16), FP16), (2, 8, 16), (2, 8, v), target_memory="Mat")
    b.out(b.let("z", "tile.batch_matmul", x, y))
    before = b.function()
    after = lower(before, load_target("ascend910b")).function
    assert equivalent(program(before), program(after)).equal


# windows of rows that are no pages


def cut(b: Build, acc: Var, i: int, start: int, rows: int, columns: int, at: Expr | int | None = None) -> Var:
    """A product onto rows of an accumulator that is put back where it was taken."""
    x, y = matrix(b, f"x{i}", (rows, 16), FP16), matrix(b, f"y{i}", (16, columns), FP16)
    offsets = (start if at is None else at, 0)
    window = b.let(f"w{i}", "tile.slice", acc, (rows, columns), offsets)
    return b.let(f"m{i}", "tile.assemble", acc, b.let(f"p{i}", "tile.matmul_acc", window, x, y), offsets)


def banded(shape: tuple[int, int], windows: list[tuple[int, int]], product: bool = False, drain: str = "", arm: bool = False) -> Function:
    """Windows of (row, height) in a loop, of an accumulator that is created or begins as a `product`; one more update in one `arm`."""
    b = Build()
    if product:
        acc0 = b.let("acc0", "tile.matmul", matrix(b, "x", (shape[0], 16), FP16), matrix(b, "y", (16, shape[1]), FP16))
    else:
        acc0 = b.let("acc0", "tile.create", shape, dtype="FP32", target_memory="Acc")
    with b.loop("k", 2, {"acc": acc0}) as (k, acc):
        for i, (start, rows) in enumerate(windows):
            acc = cut(b, acc, i, start, rows, shape[1])
        if arm:

            def more() -> None:
                b.yields(cut(b, acc, 9, *windows[0], shape[1]))

            (acc,) = b.branch(Binary("eq", k, Const(0)), more, lambda: b.yields(acc), {"joined": acc0.type})
        b.yields(acc)
    end = b.ended[0]
    if drain == "tile.extract":
        b.out(b.let("d", drain, end, 16, 0, (16, shape[1]), target_memory="Vec"))
    elif drain == "tile.slice":
        b.out(b.let("d", drain, end, (windows[1][0] + windows[1][1], 16), (0, 16)), (shape[0] + 8, shape[1]), (8, 0))
    b.out(end)
    return b.function()


@pytest.mark.parametrize(
    ("given", "heights"),
    [
        ({"shape": (48, 32), "windows": [(0, 16), (16, 32)]}, [16, 32]),
        ({"shape": (40, 32), "windows": [(16, 16)]}, [16, 16, 8]),
        ({"shape": (24, 32), "windows": [(8, 8)], "arm": True}, [8, 8, 8]),
        ({"shape": (32, 24), "windows": [(16, 16)], "product": True}, [16, 16]),
        ({"shape": (48, 24), "windows": [(0, 32), (32, 16)], "drain": "tile.extract"}, [32, 16]),
        ({"shape": (64, 32), "windows": [(0, 16), (16, 32)], "drain": "tile.slice"}, [16, 32, 16]),
    ],
)
def test_windows_that_are_no_pages_become_tiles_of_their_own(given: dict[str, Any], heights: list[int]) -> None:
    before = banded(**given)
    lifted = lift_row_windows(before)
    assert lifted.bands and not lifted.pages and not lifted.obstacles
    assert_same(before, lifted.function)
    assert not [d for d in verify_program(program(lifted.function)) if d.code == "V302"]
    op = "tile.matmul" if given.get("product") else "tile.create"
    assert [sizes(s.target.type)[0] for s in assigns(lifted.function, op)] == heights  # type: ignore[arg-type]


def columns_from(column: int, width: int, product: bool = False) -> Function:
    """Products onto `width` columns of an accumulator [32, 64], one row window and one of full height."""
    b = Build()
    acc = b.let("acc0", "tile.create", (32, 64), dtype="FP32", target_memory="Acc")
    if product:
        acc = b.let("p", "tile.matmul_acc", acc, matrix(b, "x", (32, 16), FP16), matrix(b, "y", (16, 64), FP16), True)
    for i, (row, rows) in enumerate([(0, 32), (16, 16)]):
        x, y = matrix(b, f"x{i}", (rows, 16), FP16), matrix(b, f"y{i}", (16, width), FP16)
        window = b.let(f"w{i}", "tile.slice", acc, (rows, width), (row, column))
        part = b.let(f"m{i}", "tile.matmul_acc", window, x, y, not product)
        acc = b.let(f"s{i}", "tile.assemble", acc, part, (row, column))
    b.out(acc)
    return b.function()


@pytest.mark.parametrize(("column", "width", "widths"), [(24, 32, [24, 32, 8]), (8, 56, [8, 56]), (8, 32, [8, 32, 24])])
def test_columns_that_begin_inside_a_block_are_tiles_of_their_own(column: int, width: int, widths: list[int]) -> None:
    before = columns_from(column, width)
    lifted = lift_row_windows(before)
    assert lifted.bands and not lifted.obstacles
    assert_same(before, lifted.function)
    assert [sizes(s.target.type)[1] for s in assigns(lifted.function, "tile.create")] == widths  # type: ignore[arg-type]


def test_columns_stay_together_where_one_product_writes_them_all() -> None:
    lifted = lift_row_windows(columns_from(24, 32, product=True))
    assert not lifted.bands and "begins at a column that is no multiple of 16" in lifted.obstacles[0].reason
