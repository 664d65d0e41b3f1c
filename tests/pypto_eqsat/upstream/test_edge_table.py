"""Every row of the tables of regions and windows in `spec/flatten.md`, under `--policy upstream` and by default.

What upstream takes is the same program under the policy and no dearer by default. What it rejects has a code under the policy; by default
it compiles and is equal under interpretation where a sound lowering exists, else it is refused with a cause and a remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers import Json, assert_no_dearer, lowered, refused, scalar, tile
from upstream_support import calls, incore, ints, let, load, lowered_as_upstream, mat, out, refused_by_upstream, ret, store, tensor, windows

from pypto_ir.stmt import Program

#: what happens by default: "compiles", or the code of the refusal
COMPILES = "compiles"


@dataclass(frozen=True)
class Row:
    """A row of a table: its program, the code and words of upstream's refusal (None: it takes it), what happens by default, and how
    upstream's own program would be wrong where it takes it."""

    program: Callable[[], Program]
    code: str | None = None
    words: tuple[str, ...] = ()
    default: str = COMPILES
    faults: tuple[str, ...] = ()


def assembled(box: list[int], dims: list[int]) -> Callable[[], Program]:
    """A tile of the shape of a region written into one of the dims of the table."""

    def build() -> Program:
        zeros = [0] * len(dims)
        body = [
            load("t", "x", zeros, dims),
            load("u", "s", zeros, box),
            let("z", "tile.assemble", "t", "u", zeros),
            let("e", "tile.exp", "z"),
            store("o", "e", zeros, "out_0"),
            ret("o"),
        ]
        return incore([tensor("x", *dims), tensor("s", *box), out("out_0", *dims)], body)

    return build


def windowed(valid: list[Any], size: list[Any]) -> Callable[[], Program]:
    """Two pages loaded into L1 from a tensor of dynamic dims, as far as they are valid, and multiplied."""

    def build() -> Program:
        shape = [valid[0], 16, 64]
        body = [
            mat("a", "x", [0, 0, 0], shape, valid),
            mat("b", "y", [0, 0], [64, 16]),
            let("p", "tile.batch_matmul", "a", "b"),
            store("o", "p", [0, 0, 0], "out_0"),
            ret("o"),
        ]
        params = [
            tensor("x", *size, dtype="FP16"),
            tensor("y", 64, 16, dtype="FP16"),
            scalar("v", range=(1, 16)),
            out("out_0", valid[0], 16, 16),
        ]
        return incore(params, body, dynamic=[d for d in size if isinstance(d, str)])

    return build


NOT_ONE_BAND = ("does not collapse to a contiguous row band", "every dimension below the outermost partial one must be written in full")
#: section 1.1: valid / dims
CONTIGUOUS: dict[str, Row] = {
    "[1,2,5] / [2,4,5]": Row(assembled([1, 2, 5], [2, 4, 5])),
    "[2,2,5] / [2,4,5]": Row(assembled([2, 2, 5], [2, 4, 5]), "L403", NOT_ONE_BAND),
    "[2,2,8] / [2,4,8]": Row(assembled([2, 2, 8], [2, 4, 8]), "L403", NOT_ONE_BAND),
    "[2,16,128] / [4,16,128]": Row(assembled([2, 16, 128], [4, 16, 128])),
    "[1,16,128] / [2,16,128]": Row(assembled([1, 16, 128], [2, 16, 128])),
    "[2,4,16] / [4,8,16]": Row(assembled([2, 4, 16], [4, 8, 16]), "L403", NOT_ONE_BAND),
    "[2,4,16] / [4,4,32]": Row(assembled([2, 4, 16], [4, 4, 32])),
    "[1,2,4,8] / [2,2,4,8]": Row(assembled([1, 2, 4, 8], [2, 2, 4, 8])),
    "[2,1,4,8] / [2,2,4,8]": Row(assembled([2, 1, 4, 8], [2, 2, 4, 8]), "L403", NOT_ONE_BAND),
    "[1,v,64] / [B,S,64]": Row(windowed([1, "v", 64], ["B", "S", 64])),
    "[2,v,64] / [B,S,64]": Row(
        windowed([2, "v", 64], ["B", "S", 64]), faults=("W401 upstream loads whole pages although only [2, v, 64]",) * 2
    ),
}


def stored(
    shape: list[int], target: list[Any], offsets: list[int], valid: list[int] | None = None, box: list[int] | None = None
) -> Callable[[], Program]:
    """A tile stored as its author has it, perhaps with a box."""

    def build() -> Program:
        body = [load("t", "x", [0] * len(shape), shape, valid), store("o", "t", offsets, "out_0", box), ret("o")]
        return incore([tensor("x", *shape), out("out_0", *target)], body, dynamic=[d for d in target if isinstance(d, str)])

    return build


def reshaped() -> Program:
    """[B, 1, D] of a flat [B, D]."""
    body = [
        load("t", "x", [0, 0], [4, 64]),
        let("r", "tile.reshape", "t", [4, 1, 64]),
        store("o", "r", [0, 3, 0], "out_0"),
        ret("o"),
    ]
    return incore([tensor("x", 4, 64), out("out_0", 4, 6, 64)], body)


#: section 4.1: tile, offsets -> tensor, with the window of what is taken
WINDOWS: dict[str, tuple[Row, list[int] | None]] = {
    "[M,N] -> [B,M,N]": (Row(stored([3, 8], [2, 3, 8], [1, 0, 0])), [1, 3, 8]),
    "[2,3,4] -> [2,3,4]": (Row(stored([2, 3, 4], [2, 3, 4], [0, 0, 0])), [2, 3, 4]),
    "[6,8] @0 -> [2,3,8]": (Row(stored([6, 8], [2, 3, 8], [0, 0, 0])), [2, 3, 8]),
    "[3,8] -> [4,3,8]": (Row(stored([3, 8], [4, 3, 8], [0, 0, 0])), [1, 3, 8]),
    "[6,8] -> [2,3,D]": (Row(stored([6, 8], [2, 3, "D"], [0, 0, 0])), [2, 3, 8]),
    "[1,16,512] valid [1,10,512] -> [1,10,512]": (Row(stored([1, 16, 512], [1, 10, 512], [0, 0, 0], [1, 10, 512])), [1, 10, 512]),
    "[B,1,D] -> [B,S,D]": (Row(lambda: reshaped()), [4, 1, 64]),
    "[8,8] @[1,0,0] -> [4,4,8]": (Row(stored([8, 8], [4, 4, 8], [1, 0, 0])), [2, 4, 8]),
    "[6,8] @[0,2,0] -> [4,4,8]": (
        Row(stored([6, 8], [4, 4, 8], [0, 2, 0]), "L407", ("must fill axis 1 (extent 4) a whole number of times",)),
        None,
    ),
    "[8,8] @[0,2,0] -> [4,4,8]": (Row(stored([8, 8], [4, 4, 8], [0, 2, 0]), "L408", ("must start at offset 0",)), None),
    "[12,8] -> [2,2,4,8]": (Row(stored([12, 8], [2, 2, 4, 8], [0] * 4), "L407", ("must fill axis 1 (extent 2)",)), None),
    "[24,8] -> [2,2,4,8]": (Row(stored([24, 8], [2, 2, 4, 8], [0] * 4), "L407", ("axis 0 (extent 2)",), "L103"), None),
    "[6,10] -> [2,3,8]": (Row(stored([6, 10], [2, 3, 8], [0, 0, 0]), "L405", ("10 columns",), "L103"), None),
    "[6,8] @[0,0,4] -> [2,6,8]": (Row(stored([6, 8], [2, 6, 8], [0, 0, 4]), "L417", ("runs past the tensor",), "L103"), None),
    "[6,8] @[5,0,0] -> [2,6,8]": (Row(stored([6, 8], [2, 6, 8], [5, 0, 0]), "L417", ("runs past the tensor",), "L103"), None),
    "[8,8] -> [2,D,4,8]": (Row(stored([8, 8], [2, "D", 4, 8], [0] * 4), "L409", ("dynamic extent",)), None),
}


def on_x(*body: Json, shape: list[int], result: list[int]) -> Callable[[], Program]:
    """Statements that make z of the loaded tile t, which is stored."""

    def build() -> Program:
        around = [load("t", "x", [0] * len(shape), shape), *body, store("o", "z", [0] * len(result), "out_0"), ret("o")]
        return incore([tensor("x", *shape), out("out_0", *result)], around)

    return build


def dynamic_tiles() -> Program:
    tiles = [tile(n, "n", 3, 4) for n in ("a", "b")]
    return incore(tiles, [let("y", "tile.add", "a", "b"), ret()], dynamic=["n"])


def dynamic_window() -> Program:
    body = [let("t", "tile.load", "x", [0, 0, 0], [1, "S", 512], [1, "S", 512], target_memory="Vec"), ret()]
    return incore([tensor("x", 1, "S", 512)], body, dynamic=["S"])


def lower_rank() -> Program:
    body = [
        load("t", "x", [0, 0, 0], [4, 8, 16]),
        load("u", "s", [0, 0], [8, 16]),
        let("z", "tile.assemble", "t", "u", [2, 0, 0]),
        store("o", "z", [0, 0, 0], "out_0"),
        ret("o"),
    ]
    return incore([tensor("x", 4, 8, 16), tensor("s", 8, 16), out("out_0", 4, 8, 16)], body)


def one_load_into_l1() -> Program:
    """A window of L1 that is no run of rows, and that no product reads."""
    body = [mat("a", "x", [0, 0, 0], [2, 8, 32]), let("b", "tile.move", "a", target_memory="Left"), ret()]
    return incore([tensor("x", 2, 16, 32, dtype="FP16")], body, returns=[])


DYNAMIC = ("cannot be flattened to 2D", "pl.parallel", "reshap")
#: sections 1 and 13: what upstream refuses before it rewrites anything, and while it does
ERRORS: dict[str, Row] = {
    "a dynamic tile": Row(dynamic_tiles, "L001", (*DYNAMIC, "dynamic (non-constant) dimension 0"), "L001"),
    "a dynamic window": Row(dynamic_window, "L001", (*DYNAMIC, "dynamic (non-constant) dimension 1"), "L001"),
    "a slice of an N-D tile": Row(
        on_x(let("z", "tile.slice", "t", [1, 3, 8], [1, 0, 0]), shape=[2, 3, 8], result=[1, 3, 8]),
        "L401",
        ("is not supported on >2D tiles",),
    ),
    "a read of an N-D tile": Row(
        on_x(let("c", "tile.read", "t", [1, 0, 0]), let("z", "tile.adds", "t", "c"), shape=[2, 3, 8], result=[2, 3, 8]),
        "L401",
        ("is not supported on >2D tiles",),
    ),
    "an assemble that is no band": Row(assembled([2, 4, 16], [4, 8, 16]), "L403", ("contiguous row band",)),
    "an assemble of another rank": Row(lower_rank, "L402", ("rank-2 source", "pl.tile.reshape")),
    "a transposed batch axis": Row(
        on_x(let("z", "tile.transpose", "t", 0, 1), shape=[2, 3, 8], result=[3, 2, 8]), "L404", ("only last-two-axes tile.transpose",)
    ),
    "a row count that is no whole number of axes": WINDOWS["[12,8] -> [2,2,4,8]"][0],
    "an offset on an axis that is filled": WINDOWS["[6,8] @[0,2,0] -> [4,4,8]"][0],
    "a load into L1 that is no run of rows": Row(one_load_into_l1, "L414", ("is no run of rows",)),
    "a column reduction over merged rows": Row(
        on_x(let("z", "tile.col_sum", "t"), shape=[2, 3, 8], result=[1, 3, 8]), "L412", ("which is not the collapse of [1, 3, 8]",)
    ),
    "a tile padded to a larger N-D shape": Row(
        on_x(let("z", "tile.fillpad_expand", "t", [2, 4, 8], pad_value="zero"), shape=[2, 3, 8], result=[2, 4, 8]),
        "L411",
        ("no dimension may shrink",),
    ),
    "an operand repeated over an outer axis": Row(
        on_x(load("r", "x", [1, 0, 0], [1, 3, 8]), let("z", "tile.add", "t", "r"), shape=[2, 3, 8], result=[2, 3, 8]),
        "L411",
        ("as 2-D tiles",),
    ),
}
TABLE = {**{f"1.1 {k}": r for k, r in CONTIGUOUS.items()}, **{f"4.1 {k}": r for k, (r, _) in WINDOWS.items()}, **ERRORS}


PAGE = Path(__file__).parents[3] / "docs" / "regions.md"


def line(name: str) -> str:
    """The line of a row in the table of the page."""
    row = TABLE[name]
    upstream = row.code or ("taken, wrongly" if row.faults else "taken")
    return f"| {name} | {upstream} | {row.default} |"


def test_the_page_has_the_rows_of_the_table() -> None:
    _, _, table = PAGE.read_text(encoding="utf-8").partition("| case | upstream | by default |\n|---|---|---|\n")
    assert table.partition("\n\n")[0].splitlines() == [line(name) for name in TABLE]


@pytest.mark.parametrize("name", TABLE)
def test_row_under_the_policy(name: str) -> None:
    row = TABLE[name]
    if row.code is not None:
        refused_by_upstream(row.program(), row.code, *row.words)
    else:
        lowered_as_upstream(row.program(), faults=row.faults)


@pytest.mark.parametrize("name", [n for n in TABLE if TABLE[n].code is None])
def test_row_that_upstream_takes_is_no_dearer_by_default(name: str) -> None:
    before = TABLE[name].program()
    assert_no_dearer(lowered(before, dearer=True), lowered_as_upstream(before, faults=TABLE[name].faults))


@pytest.mark.parametrize("name", [n for n in TABLE if TABLE[n].code is not None])
def test_row_that_upstream_rejects_compiles_by_default_or_says_why_not(name: str) -> None:
    row = TABLE[name]
    if row.default == COMPILES:
        lowered(row.program(), dearer=True)
        return
    found = refused(row.program()).diagnostics
    assert {d.code for d in found} == {row.default}
    assert all(d.help or d.code == "L001" for d in found)


@pytest.mark.parametrize("name", [n for n, (_, window) in WINDOWS.items() if window is not None])
def test_window_of_a_row_that_is_taken(name: str) -> None:
    row, window = WINDOWS[name]
    for after in (lowered_as_upstream(row.program()), lowered(row.program())):
        assert windows(after) == [window]


def test_box_of_the_author_is_kept_and_a_second_run_changes_nothing() -> None:
    before = stored([6, 8], [2, 3, 8], [0, 0, 0], None, [2, 3, 8])()
    twice = "W401 upstream writes the box of the store a second time"
    for after in (lowered_as_upstream(before, faults=(twice,)), lowered(before)):
        assert [ints(c, 3) for c in calls(after, "tile.store")] == [[2, 3, 8]]
        assert lowered(after) is after
