"""Wrong side conditions of what is done with accumulators are noticed: 8 for 16, M for N, `<=` for `<`, a forgotten fact, a window of an
older version. Each mutant is a module or a rule with a few words changed; the result of the program that is named must differ from what it
is, or break a promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from test_narrowed_accumulators import several

import egraph_rules.bands
import egraph_rules.column_blocks
import egraph_rules.narrowed
import egraph_rules.one_buffer
import egraph_rules.row_pages
import egraph_rules.row_windows
import egraph_rules.values
import egraph_rules.windows
import extract.elaborate
import extract.machine
from egraph_rules import forms
from egraph_rules.catalogue import rule
from egraph_rules.engine import Engine, UnsoundRule, rule_text
from egraph_rules.one_buffer import one_buffer
from pypto_eqsat.driver import optimize
from pypto_ir.json_writer import write_program
from pypto_ir.ops.registry import OpError
from pypto_ir.stmt import Function, Program
from tests.acc_programs import Window, drained, windowed
from tests.carried_programs import split_k
from tests.changed_code import change
from tests.generators import Failure, check_accumulators
from tests.helpers import Dim, Json, give, incore, let, load, loop, out, ret, scalar, store, tensor, tile

NARROW, BUFFER, ROWS = egraph_rules.narrowed, egraph_rules.one_buffer, egraph_rules.row_windows
PAGED, BANDS, BLOCKS = egraph_rules.row_pages, egraph_rules.bands, egraph_rules.column_blocks
VALUES, WINDOWS = egraph_rules.values, egraph_rules.windows
EMIT, MACHINE = extract.elaborate, extract.machine

# ---- programs ----------------------------------------------------------------------------------------------


def batch(m: int, n: int, body: list[Json] | None = None, last: str = "c", batch: int = 2) -> Program:
    """A K loop of products onto pages [m, n], "c"; `body` stands between the loop and the store of `last`."""
    turn = [
        load("a", "x", [0, 0, "k"], [batch, m, 16], memory="Mat"),
        load("b", "y", [0, "k", 0], [batch, 16, n], memory="Mat"),
        let("p", "tile.batch_matmul_acc", "acc", "a", "b", "k == 0"),
        give("p"),
    ]
    create = let("z", "tile.create", [batch, m, n], dtype="FP32", target_memory="Acc")
    work = [create, loop("k", [0, 32, 16], {"acc": "z"}, turn, ["c"]), *(body or [])]
    params = [tensor("x", batch, m, 32, dtype="FP16"), tensor("y", batch, 32, n, dtype="FP16"), scalar("n", range=(0, 1))]
    return incore([*params, out("out", batch, m, n)], [*work, store("o", last, [0, 0, 0], "out"), ret("o")])


def paged(row: Dim, height: int, column: Dim = 0, width: int = 64) -> Program:
    """A product onto a window of page `n` of pages [32, 64]."""
    window, at = [1, height, width], ["n", row, column]
    body = [
        let("w", "tile.slice", "c", window, at),
        load("aw", "x", [0, 0, 0], [1, height, 16], memory="Mat"),
        load("bw", "y", [0, 0, 0], [1, 16, width], memory="Mat"),
        let("m", "tile.batch_matmul_acc", "w", "aw", "bw"),
        let("d", "tile.assemble", "c", "m", at),
    ]
    return batch(32, 64, body, "d")


def shared() -> Program:
    """Pages of one right factor, of two columns of blocks, stored with rows between them."""
    body = [
        load("a", "x", [0, 0, 0], [2, 16, 16], memory="Mat"),
        load("b", "y", [0, 0, 0], [1, 16, 32], memory="Mat"),
        let("c", "tile.batch_matmul", "a", "b"),
        store("o", "c", [0, 0, 0], "out"),
        ret("o"),
    ]
    return incore([tensor("x", 2, 16, 16, dtype="FP16"), tensor("y", 1, 16, 32, dtype="FP16"), out("out", 2, 20, 32)], body)


def reshaped(shape: list[int]) -> Program:
    """Pages [2, 32, 32] under another shape, stored under it."""
    return batch(32, 32, [let("v", "tile.reshape", "c", shape), let("u", "tile.reshape", "v", [2, 32, 32])], "u")


def rows(
    shape: tuple[int, int],
    height: int,
    at: Dim = "16 * t",
    trips: int = 2,
    more: tuple[tuple[int, Dim], ...] = (),
    drain: int | None = None,
    wide: int | None = None,
    use: str = "",
    cut: bool = False,
) -> Program:
    """A loop over t of products onto windows of `height` rows, then windows of other heights at other rows; stored as a whole, or the
    first `drain` rows of it, or what `use` makes of it. Right factors are valid in `wide` columns, left ones are `cut` from larger
    tiles."""
    n = shape[1]

    def left(i: str, high: int) -> list[Json]:
        if not cut:
            return [load(f"a{i}", "x", [0, 0], [high, 16], memory="Mat")]
        return [load(f"l{i}", "x", [0, 0], [32, 16], memory="Mat"), let(f"a{i}", "tile.slice", f"l{i}", [high, 16], [0, 0])]

    def step(i: str, acc: str, high: int, row: Dim) -> list[Json]:
        return [
            *left(i, high),
            load(f"b{i}", "y", [0, 0], [16, n], [16, wide or n], memory="Mat"),
            let(f"w{i}", "tile.slice", acc, [high, n], [row, 0]),
            let(f"m{i}", "tile.matmul_acc", f"w{i}", f"a{i}", f"b{i}", {"const": True, "dtype": "BOOL"}),
            let(f"s{i}", "tile.assemble", acc, f"m{i}", [row, 0]),
        ]

    body: list[Json] = [let("z", "tile.create", list(shape), dtype="FP32", target_memory="Acc")]
    body += [loop("t", [0, trips, 1], {"acc": "z"}, [*step("", "acc", height, at), give("s")], ["r"])]
    last = "r"
    for i, (high, row) in enumerate(more):
        body += step(str(i), last, high, row)
        last = f"s{i}"
    if drain is not None:
        body += [let("d", "tile.slice", last, [drain, n], [0, 0])]
        last = "d"
    if use:
        body += [let("v", use, last, target_memory="Vec")]
        last = "v"
    params = [tensor("x", 64, 16, dtype="FP16"), tensor("y", 16, n, dtype="FP16"), scalar("q", range=(0, 48))]
    return incore([*params, out("out", *shape)], [*body, store("o", last, [0, 0], "out"), ret("o")])


def started(read: bool = False, outside: bool = False, reverse: bool = False) -> Program:
    """A K loop whose first trip multiplies and whose others add."""
    product = [let("p", "tile.batch_matmul", "a", "b"), give("p")]
    added = [let("q", "tile.batch_matmul_acc", "z" if outside else "acc", "a", "b"), give("q")]
    branch = {"if": "k != 0" if reverse else "k == 0", "then": added if reverse else product, "else": product if reverse else added}
    turn: list[Json] = [
        load("a", "x", [0, 0, "16 * k"], [2, 16, 16], memory="Mat"),
        load("b", "y", [0, "16 * k", 0], [2, 16, 32], memory="Mat"),
        {**branch, "results": ["j"]},
        *([{"op": "tile.store", "args": ["acc", [0, 0, 0], "early"]}] if read else []),
        give("j"),
    ]
    body = [
        load("a0", "x", [0, 0, 0], [2, 16, 16], memory="Mat"),
        load("b0", "y", [0, 0, 0], [2, 16, 32], memory="Mat"),
        let("z", "tile.batch_matmul", "a0", "b0"),
        loop("k", [0, 3, 1], {"acc": "z"}, turn, ["r"]),
    ]
    params = [tensor("x", 2, 16, 48, dtype="FP16"), tensor("y", 2, 48, 32, dtype="FP16"), out("early", 2, 16, 32)]
    return incore([*params, out("out", 2, 16, 32)], [*body, store("o", "r", [0, 0, 0], "out"), ret("early", "o")])


def few(*valid: Any, shape: tuple[int, int] = (64, 64), cut: bool = False) -> Program:
    """Products of `valid` rows each onto one accumulator."""
    body: list[Json] = [let("m", "tile.create", list(shape), dtype="FP32", target_memory="Acc")]
    last = "m"
    for i, v in enumerate(valid):
        body += [
            load(f"a{i}", "x", [0, 0], [shape[0], 16], [v, 16], memory="Mat"),
            load(f"b{i}", "y", [0, 0], [16, shape[1]], memory="Mat"),
            let(f"m{i}", "tile.matmul_acc", last, f"a{i}", f"b{i}", {"const": i == 0, "dtype": "BOOL"}),
        ]
        last = f"m{i}"
    if cut:
        body += [let("w", "tile.slice", last, [shape[0], 16], [0, 16])]
        last = "w"
    params = [tensor("x", shape[0], 16, dtype="FP16"), tensor("y", 16, shape[1], dtype="FP16"), scalar("v", range=(1, shape[0]))]
    return incore([*params, out("out", *shape)], [*body, store("o", last, [0, 0], "out"), ret("o")])


def beside(*windows: Window, shape: tuple[int, int] = (64, 64)) -> Program:
    """Products onto windows of one accumulator, at rows or columns `n` from 0 to 16."""
    return windowed(shape, windows, scalars=[scalar("n", range=(0, 16))])


def used_as(*steps: Json, shape: tuple[int, ...] = (64, 64)) -> Program:
    """A product of few rows onto an accumulator, "m0", and what is done with it; "o" is returned."""
    return several("v", use=lambda _: [*steps, ret("o")], outs=(list(shape),))


def from_outside() -> Program:
    params = [tile("z", 64, 64, memory="Acc"), tensor("x", 64, 16, dtype="FP16"), tensor("y", 16, 64, dtype="FP16"), out("out", 64, 64)]
    factors = [load("a", "x", [0, 0], [64, 16], [20, 16], memory="Mat"), load("b", "y", [0, 0], [16, 64], memory="Mat")]
    return incore(params, [*factors, let("m", "tile.matmul_acc", "z", "a", "b"), store("o", "m", [0, 0], "out"), ret("o")])


PROGRAMS: dict[str, Callable[[], Program]] = {
    "whole blocks": lambda: batch(16, 64),
    "tall pages": lambda: batch(48, 32),
    "half rows": lambda: batch(24, 32),
    "half columns": lambda: batch(16, 24),
    "low rows": lambda: batch(8, 16),
    "one column of blocks": lambda: batch(16, 16, [let("e", "tile.move", "c", target_memory="Vec")], "e"),
    "one right factor": shared,
    "one page": lambda: batch(16, 64, batch=1),
    "part of a page": lambda: paged(0, 32, 32, 32),
    "low window": lambda: paged(16, 16),
    "upper window": lambda: paged(0, 16),
    "other pages": lambda: reshaped([4, 16, 32]),
    "few rows": lambda: split_k([2, 64, 64], 20),
    "few rows of many": lambda: split_k([64, 256]),
    "few rows of one column": lambda: few("v", shape=(64, 16)),
    "one pitch": lambda: few(50),
    "fewer rows than a block": lambda: few("v", shape=(8, 64)),
    "several pitches": lambda: few("v", 64),
    "windows of few rows": lambda: few(20, cut=True),
    "few rows from outside": from_outside,
    "few rows handed on": lambda: used_as(
        let("f", "tile.full", [64, 64], {"const": 0.0, "dtype": "FP32"}, dtype="FP32"),
        loop("i", [0, 2, 1], {"c": "f"}, [let("u", "tile.move", "m0", target_memory="Vec"), give("u")], ["r"]),
        store("o", "r", [0, 0], "out_0"),
    ),
    "few rows in boxes": lambda: used_as(store("o", "m0", [0, 0, 0], "out_0", [2, 32, 64]), shape=(2, 32, 64)),
    "inside": lambda: split_k([64, 256], inside="v + 0 * k"),
    "few rows read": lambda: split_k([64, 256], inside="v + 0 * k", read=True),
    "row windows": lambda: rows((32, 64), 16),
    "tall row windows": lambda: rows((96, 32), 48, "48 * t"),
    "constant row window": lambda: rows((48, 32), 16, more=((16, 32),)),
    "half row windows": lambda: rows((32, 64), 8, "8 * t"),
    "half wide row windows": lambda: rows((32, 24), 16),
    "unknown rows": lambda: rows((64, 32), 16, "q"),
    "half known rows": lambda: rows((64, 32), 16, "8 * t"),
    "rows of two heights": lambda: rows((64, 32), 16, more=((32, 32),)),
    "drained by two heights": lambda: rows((64, 32), 16, trips=4, drain=32),
    "uneven rows": lambda: rows((40, 32), 16),
    "narrow windows": lambda: rows((32, 16), 16),
    "wider windows": lambda: rows((32, 32), 16),
    "half rows of larger tiles": lambda: rows((32, 64), 8, "8 * t", cut=True),
    "half rows moved": lambda: rows((32, 64), 8, "8 * t", use="tile.move"),
    "quarter known half rows": lambda: rows((32, 64), 8, "4 * t"),
    "columns cut": lambda: rows((64, 32), 16, "q", wide=20),
    "overlapping rows": lambda: beside(Window(0, 0, 32, 64), Window(16, 0, 32, 64)),
    "overlapping columns": lambda: beside(Window("n", 8, 16, 24), Window("n", 16, 16, 24)),
    "columns of half blocks": lambda: beside(Window("n", 0, 16, 24)),
    "columns inside a block": lambda: beside(Window(0, 24, 64, 32)),
    "columns in a block": lambda: beside(Window(0, 24, 64, 8)),
    "rows of two bands": lambda: beside(Window(0, 0, 16, 64), Window(16, 0, 32, 64)),
    "rows drained one by one": lambda: drained((64, 64), [Window(0, 0, 16, 64), Window(16, 0, 32, 64)]),
    "started": lambda: started(),
    "added first": lambda: started(reverse=True),
    "read again": lambda: started(read=True),
    "added to another": lambda: started(outside=True),
}


def outcome(name: str) -> tuple[str, ...]:
    """What becomes of a program: the codes of its refusal and the first reason, or its text."""
    program = PROGRAMS[name]()
    try:
        found = check_accumulators(program)
    except (Failure, UnsoundRule, OpError, AssertionError, KeyError, ValueError) as error:
        return ("broken", type(error).__name__)
    if found.refused:
        return (*found.codes, found.message)
    return ("lowered", write_program(optimize(program, validate=False).program))


@cache
def honest(name: str) -> tuple[str, ...]:
    return outcome(name)


# ---- mutants -----------------------------------------------------------------------------------------------

#: label: module, text in it, text in its place, the program that shows it
MUTANTS: dict[str, tuple[ModuleType, str, str, str]] = {
    # which accumulators stand side by side
    "pages of 8 rows stand side by side": (forms, "shape[-2] % 16 == 0 and shape[-1]", "shape[-2] % 8 == 0 and shape[-1]", "half rows"),
    "pages of 8 columns stand side by side": (forms, "shape[-1] % 16 == 0\n", "shape[-1] % 8 == 0\n", "half columns"),
    "columns are asked of rows": (forms, "and shape[-1] % 16 == 0\n", "and shape[-2] % 16 == 0\n", "half columns"),
    "rows are asked of columns": (forms, "and shape[-2] % 16 == 0 and shape[-1]", "and shape[-1] % 16 == 0 and shape[-1]", "half rows"),
    "pages need 32 rows": (forms, "shape[-2] % 16 == 0 and shape[-1]", "shape[-2] % 32 == 0 and shape[-1]", "whole blocks"),
    "rows that lie closer stand side by side": (forms, "if t.effective_view.compact is not Compact.NULL:", "if False:", "few rows"),
    "pages stand side by side by M": (
        forms,
        "return (shape[-2], pages(shape) * shape[-1])",
        "return (shape[-2], pages(shape) * shape[-2])",
        "tall pages",
    ),
    "rows of two columns of blocks have an address": (forms, "shape[-1] <= 16 and", "shape[-1] <= 32 and", "one right factor"),
    # where a window stands
    "a window may be lower than its page": (WINDOWS, "or w.box[-2] != shape[-2] or", "or", "upper window"),
    "a window may begin below the first row": (WINDOWS, "or w.box[-2] != shape[-2] or const_int(w.offsets[-2]) != 0", "", "low window"),
    "a window stands at M for every page": (
        WINDOWS,
        'Binary("mul", number, index(shape[-1]))',
        'Binary("mul", number, index(shape[-2]))',
        "part of a page",
    ),
    "the column of a window is forgotten": (
        WINDOWS,
        'Binary("add", Binary("mul", number, index(shape[-1])), w.offsets[-1])',
        'Binary("mul", number, index(shape[-1]))',
        "part of a page",
    ),
    # emission
    "a page is M columns on": (
        MACHINE,
        "return (shape[0], cols), tuple_of(0, number * cols)",
        "return (shape[0], cols), tuple_of(0, number * shape[0])",
        "whole blocks",
    ),
    "a drained page is M columns on": (MACHINE, "tuple_of(0, number * cols))))", "tuple_of(0, number * rows))))", "whole blocks"),
    "windows are cut from an older version": (
        EMIT,
        "            packed = self.assign(name, call, made, c)\n        return packed\n\n    def page(",
        "            last = self.assign(name, call, made, c)\n        return last\n\n    def page(",
        "whole blocks",
    ),
    "a page is put back where it was not": (
        EMIT,
        'typed(Call("tile.assemble", (packed, page, at)))',
        'typed(Call("tile.assemble", (packed, page, tuple_of(0, 0))))',
        "whole blocks",
    ),
    # windows of rows
    "blocks of 8 rows": (ROWS, "if rows % BOX == 0:", "if rows % 8 == 0:", "half row windows"),
    "windows may divide the rows unevenly": (ROWS, "if t.static_shape[0] % rows:", "if False:", "uneven rows"),
    "rows of a window are not asked for": (ROWS, "if rows % BOX == 0:", "if True:", "half row windows"),
    "pages lie as high as they are": (ROWS, "Pages(rows, whole_blocks(rows))", "Pages(rows, rows)", "half row windows"),
    "parts of larger tiles have more rows": (
        ROWS,
        'if made.op == "tile.load" and len(made.args) == 4:',
        "if made.op:",
        "half rows of larger tiles",
    ),
    "pages of few rows are moved as one tile": (ROWS, 'or s.value.op == "tile.move"', "", "half rows moved"),
    "a raised factor is valid in all rows": (
        PAGED,
        "MakeTuple((pitch, columns)), valid)",
        "MakeTuple((pitch, columns)), MakeTuple((pitch, columns)))",
        "half row windows",
    ),
    "a page is stored where the one before lies": (PAGED, "plus(row, start), column", "row, column", "half row windows"),
    "all rows of a page are stored": (
        PAGED,
        "MakeTuple((index(pages.rows), high",
        "MakeTuple((index(pages.pitch), high",
        "half row windows",
    ),
    "columns of an accumulator are not asked for": (ROWS, "if t.static_shape[1] % BOX:", "if False:", "half wide row windows"),
    "columns are asked of the rows": (ROWS, "if t.static_shape[1] % BOX:", "if t.static_shape[0] % BOX:", "half wide row windows"),
    "alignment is forgotten": (ROWS, "None if fact.is_multiple_of(rows) else", "None if True else", "half known rows"),
    "alignment is asked of 8": (ROWS, "fact.is_multiple_of(rows)", "fact.is_multiple_of(rows // 2)", "half known rows"),
    "anything is aligned": (ROWS, "fact.is_multiple_of(rows)", "fact.is_multiple_of(1)", "unknown rows"),
    "windows may have two heights": (ROWS, "if len(heights) > 1:", "if len(heights) > 2:", "rows of two heights"),
    "drains may have two heights": (
        ROWS,
        "len(shape) != 2 or len(offsets) != 2 or shape[0] != rows",
        "len(shape) != 2 or len(offsets) != 2",
        "drained by two heights",
    ),
    "windows of one column of blocks are less than 16 wide": (ROWS, "0 < cols <= BOX", "0 < cols < BOX", "narrow windows"),
    "windows of two columns of blocks are addressed": (
        ROWS,
        "0 < cols <= BOX and column // BOX == (column + cols - 1) // BOX",
        "0 < cols <= 2 * BOX",
        "wider windows",
    ),
    "full height is asked of columns": (ROWS, "rows == parent.static_shape[0]", "rows == parent.static_shape[1]", "row windows"),
    "pages are as many as columns": (
        PAGED,
        "dims(rows // pages.rows, pages.pitch, columns)",
        "dims(columns // pages.rows, pages.pitch, rows)",
        "row windows",
    ),
    "a page is one too far": (PAGED, "return index(value // rows)", "return index(value // rows - 1)", "constant row window"),
    "a page is not divided for": (PAGED, 'normalize(Binary("floordiv", offset, Const(rows)))', "offset", "row windows"),
    # windows as tiles of their own
    "columns at 8 begin a block": (ROWS, "column % BOX != 0 and", "column % 8 != 0 and", "columns inside a block"),
    "columns of one block are tiles of their own": (
        ROWS,
        "column % BOX != 0 and column // BOX != (column + cols - 1) // BOX",
        "column % BOX != 0",
        "columns in a block",
    ),
    "bands may overlap": (BANDS, "or bounds.index(end) != bounds.index(start) + 1", "", "overlapping rows"),
    "a band is stored where the one before lies": (BANDS, "(plus(row, start), column) if", "(row, column) if", "rows of two bands"),
    "columns are stored below": (
        BANDS,
        "if axis == ROWS else (row, plus(column, start))",
        "if True else (row, column)",
        "columns inside a block",
    ),
    "a window of a band counts from the first": (
        BANDS,
        "plan.moved(at, start - plan.bounds[band])",
        "plan.moved(at, start)",
        "rows drained one by one",
    ),
    # columns of blocks
    "blocks begin at 8": (BLOCKS, "column % BOX:", "column % 8:", "overlapping columns"),
    "blocks may end inside": (BLOCKS, "if columns % BOX and column + columns != whole:", "if False:", "columns of half blocks"),
    "blocks may end at 8": (BLOCKS, "if columns % BOX and", "if columns % 8 and", "columns of half blocks"),
    "products of 8 rows keep the rest": (BLOCKS, "rows % BOX == 0:", "rows % 8 == 0:", "quarter known half rows"),
    "factors may be valid in part": (BLOCKS, "or not same_dims(right.valid, right.shape)", "", "columns cut"),
    "every block takes the first columns": (BLOCKS, "MakeTuple(dims(0, start))", "MakeTuple(dims(0, 0))", "unknown rows"),
    "every block is the first": (BLOCKS, "plus(column, start)", "column", "unknown rows"),
    "blocks are cut from an older version": (
        BLOCKS,
        'parent = made(parent.name if start else s.target.name, "blocks"',
        'made(parent.name if start else s.target.name, "blocks"',
        "unknown rows",
    ),
    # one buffer
    "a product adds to what the buffer held": (BUFFER, "args=(acc, *call.args, TRUE)", "args=(acc, *call.args)", "started"),
    "the predicate is turned around": (BUFFER, 'return Unary("not", cond) if', "return cond if", "added first"),
    "pitches are equal where rows are": (NARROW, "whole_blocks(number) == whole_blocks(extent)", "number == extent", "one pitch"),
    "few rows of less than a block are narrow": (NARROW, "extent <= BLOCK", "extent == BLOCK", "fewer rows than a block"),
    "every pitch is one": (NARROW, "if provably_equal(rows, t.shape[-2]):", "if True:", "few rows of many"),
    "narrow tiles of one column are declared too": (NARROW, "shape[1] > BLOCK", "shape[1] >= BLOCK", "few rows of one column"),
    "tiles of 16 columns are wide": (
        NARROW,
        "len(shape) == 2 and shape[1] > BLOCK",
        "len(shape) == 2 and shape[0] < BLOCK",
        "few rows of many",
    ),
    "rows may be computed later": (NARROW, "        if late:", "        if False:", "inside"),
    "products may have several pitches": (
        NARROW,
        "if not all(provably_equal(p.rows, first.rows) for p in products):",
        "if False:",
        "several pitches",
    ),
    "few rows may come from outside": (NARROW, "if any(map(self.member, params)):", "if False:", "few rows from outside"),
    "what is handed on may have fewer rows": (NARROW, "if isinstance(e, Var) and e.name in self.types:", "if False:", "few rows handed on"),
    "boxes may divide few rows": (
        NARROW,
        "if box is None or not all(const_int(d) == 1 for d in box[:-2]):",
        "if box is None:",
        "few rows in boxes",
    ),
    "windows of few rows may be cut": (NARROW, 'if call.op == "tile.slice" and', 'if call.op == "none" and', "windows of few rows"),
    "pages of few rows stand side by side": (NARROW, "groups = {found.of(name) for name in narrow}", "groups = set()", "few rows"),
}

#: label: module, text in it, text in its place, the step that leaves the program alone that is named
ALONE: dict[str, tuple[ModuleType, str, str, Callable[[Function], Function], str]] = {
    "the buffer may be read again": (
        BUFFER,
        "acc.name not in fresh or self.readers[acc.name] != 1 or",
        "acc.name not in fresh or",
        one_buffer,
        "read again",
    ),
    "the buffer may be of another trip": (
        BUFFER,
        "acc.name not in fresh or self.readers[acc.name] != 1 or",
        "",
        one_buffer,
        "added to another",
    ),
    "an accumulator of few rows may be read": (BUFFER, "if self.readers[name] == 1}", "}", one_buffer, "few rows read"),
}

#: label: the part of a rule, text in it, text in its place, the program that shows it
RULES: dict[str, tuple[str, str, str, str]] = {
    "reshaped pages may be others": ("cols.reshape", "(= p (page s)) (= p (page (shape x)))", "", "other pages"),
    "a first product adds": ("cols.product", "(first-form i)", "(page-form i)", "started"),
    "all pages are the first window": (
        "cols.slice",
        "(Slice2 i (Cols x) d (Num 0) k)",
        "(Slice2 i (Cols x) d (Num 0) (Num 0))",
        "part of a page",
    ),
    "a window goes back to the first page": ("cols.assemble", "(Flat x) (Num 0) k)", "(Flat x) (Num 0) (Num 0))", "part of a page"),
    "pages are as wide as all of them": ("pages.cols", "(= p (page (shape x)))", "(= p (columns (shape x)))", "whole blocks"),
    "a created buffer has the shape of a page": ("cols.create", "(= c (columns s))", "(= c (page s))", "whole blocks"),
}


def changed_rule(part: str, old: str, new: str) -> dict[str, str]:
    found = rule(part)
    assert found is not None
    text = rule_text(found.ruleset)
    end = text.index(f':name "{part}"')
    start = text.rindex("\n(rule", 0, end)
    assert old in text[start:end], f"{part} has no {old}"
    return {found.ruleset: text[:start] + text[start:end].replace(old, new) + text[end:]}


@contextmanager
def rules(texts: dict[str, str]) -> Iterator[None]:
    with patch("egraph_rules.graph.engine", lambda without, noting=(): Engine(without, texts)):
        yield


@pytest.mark.parametrize("label", MUTANTS)
def test_wrong_condition_is_noticed(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, old, new, name = MUTANTS[label]
    usual = honest(name)
    change(monkeypatch, module, old, new)
    assert outcome(name) != usual


@pytest.mark.parametrize("label", ALONE)
def test_step_that_does_too_much_is_noticed(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, old, new, step, name = ALONE[label]
    function = PROGRAMS[name]().functions[0]
    assert step(function) is function
    change(monkeypatch, module, old, new)
    assert step(function) is not function


@pytest.mark.parametrize("label", RULES)
def test_wrong_rule_is_noticed(label: str) -> None:
    part, old, new, name = RULES[label]
    usual = honest(name)
    with rules(changed_rule(part, old, new)):
        assert outcome(name) != usual


@pytest.mark.parametrize("name", sorted({row[3] for row in (*MUTANTS.values(), *RULES.values())}))
def test_programs_are_what_they_are(name: str) -> None:
    """A program gives one result, which is no broken promise."""
    assert honest(name)[0] != "broken" and outcome(name) == honest(name)
