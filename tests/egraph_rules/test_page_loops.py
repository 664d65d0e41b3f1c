"""Loops that run once for every group of pages of an accumulator."""

from __future__ import annotations

from typing import Any

import pytest
from building import Build, program, sizes
from product_programs import matrix

from egraph_rules import page_loops
from egraph_rules.page_loops import split_page_loops
from extract.lower import lower
from extract.target import load_target
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Var, index
from pypto_ir.interp.compare import equivalent
from pypto_ir.json_writer import write_program
from pypto_ir.ops.registry import OpError
from pypto_ir.stmt import Assign, Call, For, Function, While, walk
from pypto_ir.types import INDEX
from pypto_ir.verify import verify_program
from tests.changed_code import change

FP16 = DType.FP16
#: bytes of a page [16, 32] of FP32
PAGE = 16 * 32 * 4
ROWS = load_target("ascend910b").acc_row_alignment


def accumulating(batch: tuple[int, ...], left: tuple[int, ...], right: tuple[int, ...], **ways: object) -> Function:
    """A loop of two trips that adds products of batch dims `left` and `right` to an accumulator. `ways`: factors of `dtype`, `depth` loops
    around each other, `produced` by a product before them, under an `arm`, stored `twice`; `outside` loads the right factor before the
    loop, `narrow` cuts its columns, `low` are pages of 8 rows; `written`, `shared` and `busy` read or write what a loop for some pages
    first must not."""
    b = Build()
    rows, dtype = 8 if ways.get("low") else 16, ways.get("dtype", FP16)
    x, y = b.tensor("x", (*left, rows, 16), dtype), b.tensor("y", (*right, 16, 32), dtype, "InOut" if ways.get("written") else "In")
    columns = b.scalar("n", 8, 32) if ways.get("narrow") else 32

    def factors(i: int) -> tuple[Var, Var]:
        a = b.read(f"a{i}", x, (*left, rows, 16), target_memory="Mat")
        return a, b.read(f"b{i}", y, (*right, 16, 32), (*right, 16, columns), target_memory="Mat")

    if ways.get("produced"):
        acc0 = b.let("acc0", "tile.batch_matmul", *factors(0))
    else:
        held = "INT32" if dtype is DType.INT8 else "FP32"
        acc0 = b.let("acc0", "tile.create", (*batch, rows, 32), dtype=held, target_memory="Acc")
    before = factors(1) if ways.get("outside") else None

    def nest(depth: int, acc: Var) -> Var:
        with b.loop(f"k{depth}", 2, {f"acc_{depth}": acc}) as (k, inner):
            if depth > 1:
                b.yields(nest(depth - 1, inner))
            else:
                taken = before or factors(2)
                if ways.get("busy"):
                    b.out(b.let("e", "tile.exp", b.read("f", b.tensor("fs", (16, 32)), (16, 32))))
                if ways.get("arm"):
                    (part,) = b.branch(
                        Binary("eq", k, Const(0)),
                        lambda: b.yields(b.let("m", "tile.batch_matmul_acc", inner, *taken)),
                        lambda: b.yields(inner),
                        {"p": acc.type},
                    )
                else:
                    part = b.let("m", "tile.batch_matmul_acc", inner, *taken, Binary("eq", k, Const(0)))
                b.yields(part)
        return b.ended[0]

    end = nest(int(ways.get("depth", 1)), acc0)  # type: ignore[call-overload]
    b.out(b.let("v", "tile.move", end, target_memory="Vec") if ways.get("moved") else end)
    if ways.get("twice"):
        b.results.append(b.store("again", end, b.tensor("other", (*batch, 16, 32), direction="Out")))
    return b.function()


def accumulators(function: Function) -> list[tuple[int, ...]]:
    made = ("tile.create", "tile.batch_matmul")
    return [
        sizes(s.target.type)  # type: ignore[arg-type]
        for s in walk(function.body)
        if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op in made
    ]


@pytest.mark.parametrize(
    ("batch", "left", "right", "pages", "groups", "ways"),
    [
        ((4,), (4,), (4,), 2, [(2,)] * 2, {}),
        ((4,), (4,), (4,), 3, [(2,)] * 2, {}),
        ((3,), (3,), (1,), 2, [(1,)] * 3, {}),
        ((3,), (), (3,), 1, [(1,)] * 3, {"depth": 3}),
        ((2, 4), (2, 4), (4,), 4, [(1, 4)] * 2, {"outside": True}),
        ((2, 4), (2, 1), (1, 4), 3, [(1, 2)] * 4, {"arm": True}),
        ((4,), (4,), (4,), 2, [(2,)] * 2, {"produced": True, "twice": True}),
        ((2,), (2,), (2,), 1, [(1,)] * 2, {"narrow": True}),
    ],
)
def test_loops_run_for_some_pages_first(
    batch: tuple[int, ...],
    left: tuple[int, ...],
    right: tuple[int, ...],
    pages: int,
    groups: list[tuple[int, ...]],
    ways: dict[str, object],
) -> None:
    before = accumulating(batch, left, right, **ways)
    after = split_page_loops(before, pages * PAGE, ROWS)
    assert not verify_program(program(after))
    assert equivalent(program(before), program(after)).equal
    assert [shape[:-2] for shape in accumulators(after)] == groups
    outermost = [s for s in after.body if isinstance(s, For | While)]
    assert len(outermost) == len(groups)


def test_a_while_loop_runs_for_some_pages_first() -> None:
    b = Build()
    acc0 = b.let("acc0", "tile.create", (2, 16, 32), dtype="FP32", target_memory="Acc")
    x, y = matrix(b, "x", (2, 16, 16), FP16), matrix(b, "y", (2, 16, 32), FP16)
    carried = {"i": (INDEX, index(0)), "acc": (acc0.type, acc0)}
    with b.repeat(lambda i, acc: Binary("lt", i, Const(3)), carried) as (i, acc):
        b.yields(Binary("add", i, Const(1)), b.let("m", "tile.batch_matmul_acc", acc, x, y))
    b.out(b.ended[1])
    before = b.function()
    after = split_page_loops(before, PAGE, ROWS)
    assert len([s for s in after.body if isinstance(s, While)]) == 2
    assert equivalent(program(before), program(after)).equal


@pytest.mark.parametrize(
    ("pages", "ways"),
    [
        pytest.param(4, {}, id="all pages fit"),
        pytest.param(0, {}, id="no page fits"),
        pytest.param(2, {"written": True}, id="a factor is written by the function"),
        pytest.param(2, {"busy": True}, id="the loop stores something else"),
        pytest.param(2, {"moved": True}, id="the accumulator is read as a whole"),
    ],
)
def test_loops_that_must_stay_are_the_same_object(pages: int, ways: dict[str, object]) -> None:
    before = accumulating((4,), (4,), (4,), **ways)
    assert split_page_loops(before, pages * PAGE, ROWS) is before


def test_groups_are_as_large_as_l0c_pads_them() -> None:
    """Of INT32, L0C of ascend910b holds 32 rows where a page has 16 (`spec/hardware.md` 1.1)."""
    before = accumulating((4,), (4,), (4,), dtype=DType.INT8)
    found = [split_page_loops(before, 4 * PAGE, load_target(name).acc_row_alignment) for name in ("ascend910b", "ascend950")]
    assert found[1] is before
    assert [shape[:-2] for shape in accumulators(found[0])] == [(2,), (2,)]
    assert equivalent(program(before), program(found[0])).equal


def test_parameters_that_may_be_one_tensor_are_not_read_later() -> None:
    before = accumulating((4,), (4,), (4,))
    assert split_page_loops(before, 2 * PAGE, ROWS, (("x", "r0_out"),)) is before


def test_an_accumulator_that_l0c_cannot_hold_is_lowered_group_by_group() -> None:
    b = Build()
    acc0 = b.let("acc0", "tile.create", (4, 128, 128), dtype="FP32", target_memory="Acc")
    x, y = b.tensor("x", (4, 128, 32), FP16), b.tensor("y", (32, 128), FP16)
    with b.loop("k", 2, {"acc": acc0}) as (k, acc):
        at = Binary("mul", k, Const(16))
        a = b.read("a", x, (4, 128, 16), at=(0, 0, at), target_memory="Mat")
        c = b.read("c", y, (16, 128), at=(at, 0), target_memory="Mat")
        b.yields(b.let("m", "tile.batch_matmul_acc", acc, a, c, Binary("eq", k, Const(0))))
    b.out(b.ended[0])
    before = b.function()
    result = lower(before, load_target("ascend910b"))
    assert equivalent(program(before), program(result.function)).equal
    assert result.changed and result.lower_bound <= result.cost
    assert len([s for s in result.function.body if isinstance(s, For)]) == 2


# ---- wrong conditions --------------------------------------------------------------------------------------

#: label: text in the module, text in its place, the program that shows it: batch dims of accumulator and factors, pages that fit, ways
WRONG: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "pages of 8 rows take half a block": ("-(-rows // unit) * unit * columns", "rows * columns", ((4,), (4,), (4,), 2, {"low": True})),
    "blocks of 8 rows": ("-(-rows // unit) * unit * columns", "-(-rows // 8) * 8 * columns", ((4,), (4,), (4,), 2, {"low": True})),
    "columns are rows": ("* unit * columns", "* unit * rows", ((4,), (4,), (4,), 2, {})),
    "blocks of 16 rows, whatever the type": ("acc_rows(t.dtype)", "16", ((4,), (4,), (4,), 4, {"dtype": DType.INT8})),
    "what just fits does not": ("n <= fits)", "n < fits)", ((4,), (4,), (4,), 2, {})),
    "groups divide unevenly": ("if extent % n == 0 and n <= fits", "if n <= fits", ((3,), (3,), (1,), 2, {})),
    "groups have parts of inner dims": ("if _all_whole(group, batch) else 1", "", ((2, 5), (2, 1), (1, 5), 4, {})),
    "inner dims take no room": ("        fits //= most\n", "", ((2, 4), (2, 4), (4,), 4, {})),
    "other stores are repeated": (
        "known is not None and known.pure and not known.writes and not known.reads_memory",
        "True",
        ((4,), (4,), (4,), 2, {"busy": True}),
    ),
    "what is written is read later": ("and args[0].name in self.readable", "", ((4,), (4,), (4,), 2, {"written": True})),
    "a factor of one page has as many as others": ("[0 if n == 1 else self.start", "[self.start", ((2, 4), (2, 1), (1, 4), 3, {})),
    "a factor of one page is cut": ("[1 if n == 1 else self.split.group", "[self.split.group", ((4,), (4,), (1,), 2, {})),
    "factors begin at the first page": ("(*at, 0, 0))", "(*(0 for _ in at), 0, 0))", ((4,), (4,), (4,), 2, {})),
    "factors have fewer batch dims": ("skipped = len(self.start) - len(batch)", "skipped = 0", ((2, 4), (2, 4), (4,), 4, {})),
    "groups are stored over the first": (
        "zip(at, (*self.start, 0, 0), strict=True)",
        "zip(at, (0,) * len(at), strict=True)",
        ((4,), (4,), (4,), 2, {}),
    ),
    "groups are stored into an older version": ("        self.targets[root] = made\n", "", ((4,), (4,), (4,), 2, {})),
    "every copy has the author's names": ("if not self.last:", "if False:", ((4,), (4,), (4,), 2, {})),
    "what is read as a whole is divided": (
        "return self.pure(s) and not self.touches(s)",
        "return True",
        ((4,), (4,), (4,), 2, {"moved": True}),
    ),
}


def result(batch: tuple[int, ...], left: tuple[int, ...], right: tuple[int, ...], pages: int, ways: dict[str, object]) -> str:
    """What becomes of a program: that it stays, that it breaks, or its text."""
    before = accumulating(batch, left, right, **ways)
    try:
        after = split_page_loops(before, pages * PAGE, ROWS)
        if after is before:
            return "stays"
        sound = not verify_program(program(after)) and equivalent(program(before), program(after), seconds=2.0).equal
        return write_program(program(after)) if sound else "broken"
    except (OpError, AssertionError, ValueError, KeyError) as error:
        return f"broken: {type(error).__name__}"


@pytest.mark.parametrize("label", WRONG)
def test_wrong_condition_is_noticed(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, given = WRONG[label]
    usual = result(*given)
    assert not usual.startswith("broken")
    change(monkeypatch, page_loops, old, new)
    assert result(*given) != usual
