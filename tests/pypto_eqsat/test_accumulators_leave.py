"""No product that writes astray leaves the tool; what rests on undocumented behaviour leaves with a warning,
where the author wrote it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cli_support import KERNELS, cli

from pypto_eqsat import driver
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused, Severity
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Program
from tests.acc_programs import Window, drained, windowed
from tests.helpers import Json, give, incore, let, load, loop, out, ret, scalar, store, tensor

#: full height and side by side; and windows that begin in the middle of a block and overlap
BESIDE = windowed((32, 64), [Window(0, 0, 32, 32), Window(0, 32, 32, 32)])
ASKEW = windowed((32, 64), [Window(0, 8, 32, 32), Window(0, 24, 32, 32)])
#: pages of 8 rows in one block of 16
TIGHT = windowed((16, 16), [Window(0, 0, 8, 16), Window(8, 0, 8, 16)])


def test_an_addressable_program_comes_back_without_a_word() -> None:
    result = optimize(BESIDE, policy_cost=False)
    assert result.program is BESIDE and not result.diagnostics


def test_an_unchanged_program_that_writes_astray_is_refused_at_its_statement() -> None:
    with pytest.raises(Refused) as caught:
        optimize(ASKEW, policy_cost=False)
    found = caught.value.diagnostics
    assert {d.code for d in found} == {"V302"} and found[0].place.path == "$.functions[0].body[4]"
    assert all(d.place.function == "main" and "tile.matmul_acc" in (d.place.statement or "") for d in found)


def test_an_author_may_rely_on_what_is_not_documented_and_is_warned() -> None:
    result = optimize(TIGHT, policy_cost=False)
    assert result.program is TIGHT
    assert {(d.code, d.severity) for d in result.diagnostics} == {("V303", Severity.WARNING)}


def test_an_author_of_batches_may_rely_on_it_too() -> None:
    """Products of 12 rows onto pages of 16 that were written before."""
    factors = [load("a", "x", [0, 0, 0], [2, 16, 16], memory="Mat"), load("b", "y", [0, 0, 0], [2, 16, 32], memory="Mat")]
    few = load("c", "x", [0, 0, 0], [2, 16, 16], [2, 12, 16], memory="Mat")
    body = [*factors, few, let("m", "tile.batch_matmul", "a", "b"), let("n", "tile.batch_matmul_acc", "m", "c", "b")]
    params = [tensor("x", 2, 16, 16, dtype="FP16"), tensor("y", 2, 16, 32, dtype="FP16"), out("out", 2, 16, 32)]
    result = optimize(incore(params, [*body, store("o", "n", [0, 0, 0], "out"), ret("o")]))
    assert {(d.code, d.severity) for d in result.diagnostics} == {("V303", Severity.WARNING)}
    assert result.stats["validated"]["equal"]


def test_products_of_few_columns_touch_their_own_pages_only() -> None:
    """30 of 32 rows and v of 16 columns of each page, side by side: what page 0 leaves undefined lies before page 1. Then whole pages."""
    left, right = [2, 32, 32], [2, 32, 16]
    factors = [load("a", "x", [0, 0, 0], left, [2, 30, 32], memory="Mat"), load("b", "y", [0, 0, 0], right, [2, 32, "v"], memory="Mat")]
    more = [load("c", "x", [0, 0, 0], left, memory="Mat"), load("d", "y", [0, 0, 0], right, memory="Mat")]
    body = [*factors, *more, let("m", "tile.batch_matmul", "a", "b"), let("n", "tile.batch_matmul_acc", "m", "c", "d")]
    sides = [tensor("x", *left, dtype="FP16"), tensor("y", *right, dtype="FP16")]
    params = [scalar("v", range=(1, 16)), *sides, out("out", *right)]
    result = optimize(incore(params, [*body, store("o", "n", [0, 0, 0], "out"), ret("o")], target="ascend910b"))
    assert not [d for d in result.diagnostics if d.code == "V303"]
    assert result.stats["validated"]["equal"]


def test_warnings_of_a_function_stay_when_another_one_is_lowered() -> None:
    """The rules leave the accumulator alone and lower the N-D tile of the second function."""
    shape = [2, 4, 8]
    body = [load("t", "x", [0, 0, 0], shape), let("u", "tile.exp", "t"), store("o", "u", [0, 0, 0], "out"), ret("o")]
    (second,) = incore([tensor("x", *shape), out("out", *shape)], body).functions
    both = replace(TIGHT, functions=(*TIGHT.functions, replace(second, name="second")))
    result = optimize(both, policy_cost=False)
    assert result.program.functions[0] is both.functions[0] and result.program.functions[1] is not both.functions[1]
    assert {d.code for d in result.diagnostics} == {"V303"} and result.stats["validated"]["equal"]


def test_the_last_comparison_sees_where_bytes_lie() -> None:
    """Two lowerings that are right by value and in shared buffers; the one with windows in rows is caught."""
    rows, columns = [Window(0, 0, 16, 64), Window(16, 0, 16, 64)], [Window(0, 0, 32, 32), Window(0, 32, 32, 32)]
    assert driver._compare(windowed((32, 64), columns), drained((32, 64), columns), 1.0, None, False).equal
    assert not driver._compare(windowed((32, 64), rows), drained((32, 64), rows), 1.0, None, False).equal


# ---- the command line --------------------------------------------------------------------------------------


def test_check_2d_names_what_products_cannot_address() -> None:
    done = cli("check", "--2d", KERNELS / "row_windows.json")
    assert done.code == 1 and "not 2-D: row_windows" in done.out
    assert "[V301]" in done.err and "row_windows.json:" in done.err and "help: lay the windows side by side" in done.err


def test_check_2d_warns_of_what_is_not_documented(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(write_program(TIGHT))
    done = cli("check", "--2d", path)
    assert done.code == 0 and done.out.endswith("1 function, 2-D\n") and "warning[V303]" in done.err
    assert cli("check", path).err == ""


# ---- who is blamed -----------------------------------------------------------------------------------------


def batch(rows: int, *more: Json, last: str = "c", box: list[int] | None = None) -> Program:
    """Two pages of a product, then what is done with them; `last` is stored, into `box`."""
    page, target = [2, rows, 64], [4, 20, 64]
    body = [
        load("a", "x", [0, 0, 0], [2, rows, 16], memory="Mat"),
        load("b", "y", [0, 0, 0], [2, 16, 64], memory="Mat"),
        let("c", "tile.batch_matmul", "a", "b"),
        *more,
        store("o", last, [0, 0, 0], "out", *([box] if box else [])),
        ret("o"),
    ]
    params = [tensor("x", 2, rows, 16, dtype="FP16"), tensor("y", 2, 16, 64, dtype="FP16"), out("out", *(target if box else page))]
    return incore(params, body)


@pytest.mark.parametrize(
    ("program", "statement"),
    [
        (batch(24, let("d", "tile.slice", "c", [1, 24, 64], [1, 0, 0]), last="d", box=[2, 12, 64]), "o = tile.store"),
        (batch(32, box=[4, 16, 64]), "o = tile.store"),
        (batch(24, box=[4, 12, 64]), "o = tile.store"),
    ],
)
def test_a_store_that_divides_the_pages_of_an_accumulator_is_blamed(program: Program, statement: str) -> None:
    with pytest.raises(Refused) as caught:
        optimize(program)
    (found,) = caught.value.diagnostics
    assert (found.code, found.place.statement) == ("L103", statement) and "divides the" in found.message


def test_no_limit_decides_whom_is_blamed_for_an_accumulator_that_is_read_too_late() -> None:
    carried = loop("k", [0, 3, 1], {"acc": "c"}, [let("p", "tile.batch_matmul_acc", "acc", "a", "b"), give("p")], ["r"])
    twice = [let("m0", "tile.batch_matmul_acc", "r", "a", "b"), let("m1", "tile.batch_matmul_acc", "r", "a2", "b")]
    twice.insert(0, load("a2", "x", [0, 0, 0], [2, 32, 16], [2, 32, 8], memory="Mat"))
    moved = [let(f"u{i}", "tile.move", f"m{i}", target_memory="Vec") for i in range(2)]
    program = batch(32, carried, *twice, *moved, let("e", "tile.add", "u0", "u1"), last="e")
    found = set()
    for seconds in (0.0, 0.01, 1.0):
        with pytest.raises(Refused) as caught:
            optimize(program, choice_seconds=seconds)
        found.add(tuple((d.code, d.place.statement, d.message) for d in caught.value.diagnostics))
    (diagnostics,) = found
    assert [(code, statement) for code, statement, _ in diagnostics] == [("V202", f"m{i} = tile.batch_matmul_acc") for i in range(2)]
    assert diagnostics[0][2].startswith("r is read after its buffer (c)")
