"""The tests of accumulator memory notice wrong block arithmetic: 8 for 16, M for N, rows for columns, a
forgotten fact. Each mutant is a module with a few words changed; the test that is named must fail.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import test_congruence
import test_interp_l0c
import test_verify_accumulators

import pypto_ir.congruence
import pypto_ir.interp.l0c
import pypto_ir.verify.acc_places
import pypto_ir.verify.acc_rules
import pypto_ir.verify.accumulators
from pypto_ir.interp.values import RunError

L0C, PLACES, RULES = pypto_ir.interp.l0c, pypto_ir.verify.acc_places, pypto_ir.verify.acc_rules
FOLLOW, MODULO = sys.modules["pypto_ir.verify.accumulators"], pypto_ir.congruence
BATTERIES = (test_interp_l0c, test_verify_accumulators, test_congruence)

#: label: module, text in it, text in its place, the test that notices
MUTANTS: dict[str, tuple[ModuleType, str, str, str]] = {
    # the interpreter of accumulator memory
    "blocks of 8": (L0C, "BLOCK = 16", "BLOCK = 8", "test_a_column_window_begins_a_whole_column_of_blocks_later"),
    "a tile begins at rows for columns": (
        L0C,
        "return (column // BLOCK * stride + row)",
        "return (row // BLOCK * stride + column)",
        "test_a_column_window_begins_a_whole_column_of_blocks_later",
    ),
    "an element begins at its row's rest": (
        L0C,
        "* BLOCK + column % BLOCK",
        "* BLOCK + row % BLOCK",
        "test_elements_lie_in_blocks_of_1024_bytes",
    ),
    "elements go by rows": (
        L0C,
        "return (c // BLOCK * stride + r) * BLOCK + c % BLOCK",
        "return (r // BLOCK * stride + c) * BLOCK + r % BLOCK",
        "test_a_move_on_ascend950_takes_the_valid_rows_where_they_are_not_constant",
    ),
    "elements lie row by row": (
        L0C,
        "return (c // BLOCK * stride + r) * BLOCK + c % BLOCK",
        "return r * columns + c",
        "test_a_move_on_ascend950_takes_the_valid_rows_where_they_are_not_constant",
    ),
    "a product's stride is N": (
        L0C,
        "cells, ok, stride = self.storage.cells, self.storage.ok, whole_blocks(m)",
        "cells, ok, stride = self.storage.cells, self.storage.ok, whole_blocks(n)",
        "test_a_product_knows_no_stride_but_its_own",
    ),
    "a product knows the accumulator's stride": (
        L0C,
        "cells, ok, stride = self.storage.cells, self.storage.ok, whole_blocks(m)",
        "cells, ok, stride = self.storage.cells, self.storage.ok, self.rows",
        "test_a_product_knows_no_stride_but_its_own",
    ),
    "a product adds to what lies at the accumulator's stride": (
        L0C,
        "return replace(self, valid=(m, n)).read(whole_blocks(m))",
        "return replace(self, valid=(m, n)).read(self.rows)",
        "test_compact_tiles_are_added_to_where_the_product_before_left_them",
    ),
    "a product adds to what lies N rows apart": (
        L0C,
        "return replace(self, valid=(m, n)).read(whole_blocks(m))",
        "return replace(self, valid=(m, n)).read(whole_blocks(n))",
        "test_a_predicate_that_is_undefined_leaves_nothing_defined",
    ),
    "M is taken from the right factor": (
        L0C,
        "m, n = args[left].valid[-2]",
        "m, n = args[right].valid[-1]",
        "test_a_predicate_that_is_undefined_leaves_nothing_defined",
    ),
    "N is taken from the left factor": (
        L0C,
        "args[left].valid[-2], args[right].valid[-1]",
        "args[left].valid[-2], args[left].valid[-2]",
        "test_another_shape_is_the_same_bytes",
    ),
    "a window begins by its own rows": (
        L0C,
        "self.first + element(row, column, self.rows)",
        "self.first + element(row, column, whole_blocks(shape[0]))",
        "test_a_column_window_begins_a_whole_column_of_blocks_later",
    ),
    "a window begins at column, row": (
        L0C,
        "self.first + element(row, column, self.rows)",
        "self.first + element(column, row, self.rows)",
        "test_a_column_window_begins_a_whole_column_of_blocks_later",
    ),
    "blocks are cut, not rounded up": (
        L0C,
        "return -(-extent // BLOCK) * BLOCK",
        "return extent // BLOCK * BLOCK",
        "test_a_move_on_ascend950_takes_the_valid_rows_where_they_are_not_constant",
    ),
    "an accumulator has N rows": (
        L0C,
        "rows, columns = map(whole_blocks, shape)",
        "columns, rows = map(whole_blocks, shape)",
        "test_a_predicate_that_is_undefined_leaves_nothing_defined",
    ),
    "the rest of blocks is always kept": (
        L0C,
        "if not keep:",
        "if False:",
        "test_what_a_product_leaves_in_its_last_blocks_is_undefined_unless_kept",
    ),
    "the rest of blocks is never kept": (
        L0C,
        "if not keep:",
        "if True:",
        "test_what_a_product_leaves_in_its_last_blocks_is_undefined_unless_kept",
    ),
    "compact tiles are stored by all rows": (
        L0C,
        "packed if source.compact else source.rows",
        "source.rows",
        "test_each_instruction_has_its_own_stride",
    ),
    "all tiles are stored by their valid rows": (
        L0C,
        "packed if source.compact else source.rows",
        "packed",
        "test_a_move_on_ascend950_takes_the_valid_rows_where_they_are_not_constant",
    ),
    "an extract into Mat goes by valid rows": (
        L0C,
        "return source.rows if into is Memory.MAT else by_mode",
        "return by_mode",
        "test_each_instruction_has_its_own_stride",
    ),
    "an assemble goes by all rows": (
        L0C,
        "return source.rows if into is Memory.MAT else packed",
        "return source.rows",
        "test_each_instruction_has_its_own_stride",
    ),
    "a move on Ascend950 goes by valid rows": (
        L0C,
        "return packed if self.reads.by_valid_rows and not source.fixed else",
        "return packed if self.reads.by_valid_rows else",
        "test_each_instruction_has_its_own_stride",
    ),
    "a move on Ascend910B goes by valid rows": (
        L0C,
        "return packed if self.reads.by_valid_rows and not source.fixed else",
        "return packed if not source.fixed else",
        "test_a_move_on_ascend950_takes_the_valid_rows_where_they_are_not_constant",
    ),
    "any window goes back anywhere": (
        L0C,
        "(place.storage, place.first, place.rows) == (source.storage, source.first, source.rows)",
        "place.storage is source.storage",
        "test_only_products_write_accumulators",
    ),
    "a reshape moves the bytes along": (
        L0C,
        "rows=whole_blocks(rows), shape=(rows, columns)",
        "shape=(rows, columns)",
        "test_another_shape_is_the_same_bytes",
    ),
    # the verifier
    "places in blocks of 8": (PLACES, "BLOCK = 16", "BLOCK = 8", "test_accumulator_parameters_are_whole_and_hold_something"),
    "windows need the accumulator's columns": (
        RULES,
        "if place.rows.extent != rows:",
        "if place.columns.extent != columns:",
        "test_the_diagnostic_names_place_numbers_cause_and_remedy",
    ),
    "windows of 17 columns are one block column": (
        RULES,
        "if columns > BLOCK:\n            yield",
        "if columns > 2 * BLOCK:\n            yield",
        "test_unstated_accumulators_are_followed_through_control_flow",
    ),
    "windows of 16 columns are two": (
        RULES,
        "if columns > BLOCK:\n            yield",
        "if columns >= BLOCK:\n            yield",
        "test_windows_are_judged_by_their_own_columns_whatever_lies_around_them",
    ),
    "few rows for few columns": (
        RULES,
        "if columns > BLOCK:\n            yield",
        "if rows > BLOCK:\n            yield",
        "test_the_diagnostic_names_place_numbers_cause_and_remedy",
    ),
    "windows begin at rows": (
        RULES,
        "at = self.place.columns\n",
        "at = self.place.rows\n",
        "test_windows_are_judged_by_their_own_columns_whatever_lies_around_them",
    ),
    "only as many columns as there are must fit": (
        RULES,
        "within_block(min(columns, BLOCK), BLOCK)",
        "within_block(1, BLOCK)",
        "test_windows_are_judged_by_their_own_columns_whatever_lies_around_them",
    ),
    "what is read may begin anywhere": (
        RULES,
        "if not self.at.begins.within_block",
        "if False and not self.at.begins.within_block",
        "test_windows_that_are_only_read_begin_at_blocks_too",
    ),
    "no stride is looked at": (
        RULES,
        "if not coincide(written, read):",
        "if False:",
        "test_a_carry_that_is_read_with_more_rows_than_its_product_has_is_refused",
    ),
    "no read is looked at": (RULES, "and not coincide(lies, read):", "and False:", "test_each_instruction_must_read_what_lies_there"),
    "no handing on is looked at": (
        RULES,
        "and not coincide(lies, then):",
        "and False:",
        "test_accumulators_handed_on_under_another_valid_shape",
    ),
    "no window of a compact tile is looked at": (
        RULES,
        "and not coincide(stride_by_type(t, place), place.stride)",
        "and False",
        "test_each_instruction_must_read_what_lies_there",
    ),
    "rows of a product are its columns": (
        FOLLOW,
        "left.valid[-2], right.valid[-1]",
        "right.valid[-1], left.valid[-2]",
        "test_accumulator_parameters_are_whole_and_hold_something",
    ),
    "written cells are forgotten": (
        FOLLOW,
        "replace(a, written=most(a.written, n))",
        "replace(a, written=NOTHING)",
        "test_rows_of_another_trip_are_not_those_of_this_one",
    ),
    "names of another trip are kept": (
        FOLLOW,
        "if e is not None and all(self.levels.get(v.name, 0) < self.level for v in variables(e))",
        "if e is not None",
        "test_rows_of_another_trip_are_not_those_of_this_one",
    ),
    "loops are followed once": (FOLLOW, "if after == state:", "if True:", "test_rows_of_another_trip_are_not_those_of_this_one"),
    "every column is known to be the root's": (
        PLACES,
        "pairs = ((self.rows.offset, other.rows.offset), (self.columns.offset, other.columns.offset))",
        "pairs = ((self.rows.offset, other.rows.offset),)",
        "test_a_window_of_another_trip_is_not_the_window_of_this_one",
    ),
    "every row is known to be the root's": (
        PLACES,
        "pairs = ((self.rows.offset, other.rows.offset), (self.columns.offset, other.columns.offset))",
        "pairs = ((self.columns.offset, other.columns.offset),)",
        "test_what_is_written_by_anything_else_is_refused",
    ),
    "every buffer is one": (PLACES, "self.root == other.root and ", "", "test_a_window_goes_back_into_its_own_accumulator_only"),
    "rows end in whole blocks always": (
        RULES,
        "ends = size == axis.extent or last",
        "ends = True",
        "test_windows_are_judged_by_their_own_columns_whatever_lies_around_them",
    ),
    "all rows are written by every product": (
        RULES,
        "mine = provably_equal",
        "mine = True or provably_equal",
        "test_accumulator_parameters_are_whole_and_hold_something",
    ),
    # facts
    "steps are ignored": (MODULO, "return start.plus(ANY.times(step))", "return start", "test_loop_variables_run_in_steps"),
    "every quotient is exact": (MODULO, "if self.divisible_by(n):", "if True:", "test_expressions"),
    "meeting keeps the first": (
        MODULO,
        "gcd(self.modulus, other.modulus, self.residue - other.residue)",
        "self.modulus",
        "test_meeting_keeps_what_is_common",
    ),
    "products keep the larger": (
        MODULO,
        "crossed = gcd(self.modulus * other.modulus, self.residue * other.modulus, other.residue * self.modulus)",
        "crossed = self.modulus * other.modulus",
        "test_loop_variables_run_in_steps",
    ),
    "sums keep the first": (MODULO, "gcd(self.modulus, other.modulus))", "self.modulus)", "test_loop_variables_run_in_steps"),
    "narrow types do not wrap": (
        MODULO,
        "return found if dtype.bits >= 64 or _fits(found, dtype)",
        "return found if True",
        "test_narrow_types_wrap",
    ),
    "blocks may be crossed": (MODULO, "self.residue % known + size <= known", "self.residue % known < known", "test_questions"),
}


def mutated(module: ModuleType, old: str, new: str) -> ModuleType:
    """A module with a text in place of another one, which it must hold once at least."""
    source = inspect.getsource(module)
    assert old in source, f"{module.__name__} does not hold {old!r}"
    result = ModuleType(module.__name__)
    result.__dict__["__file__"] = module.__file__
    sys.modules["mutant"] = result
    result.__name__ = "mutant"
    exec(
        compile(source.replace(old, new).replace("\ndeclare(", "\n(lambda **k: None)("), f"<mutant of {module.__name__}>", "exec"),
        result.__dict__,
    )
    return result


def install(patch: pytest.MonkeyPatch, module: ModuleType, mutant: ModuleType) -> None:
    """Let every module that took something from `module` take it from the mutant."""
    mine = {id(value): name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    mine |= {id(value): name for name, value in vars(module).items() if name.isupper()}
    for user in [m for name, m in sys.modules.items() if name.startswith(("pypto_ir.", "test_", "tests."))]:
        for name, value in list(vars(user).items()):
            if user is not module and mine.get(id(value)) == name and name in vars(mutant):
                patch.setattr(user, name, vars(mutant)[name])


def cases(name: str) -> Iterator[Callable[[], Any]]:
    """A test with each of its parameters, as calls without arguments."""
    test = next(vars(battery)[name] for battery in BATTERIES if name in vars(battery))
    rows: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", []):
        names, values = mark.args
        keys = [names] if isinstance(names, str) else list(names)
        given = [dict(zip(keys, v if len(keys) > 1 else (v,), strict=True)) for v in values]
        rows = [{**row, **more} for row in rows for more in given]
    return (partial(test, **row) for row in rows)


def caught(test: str) -> bool:
    """True where a test fails for some of its parameters."""
    for case in cases(test):
        try:
            case()
        except (AssertionError, RunError, ValueError, pytest.fail.Exception):
            return True
    return False


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, old, new, test = MUTANTS[name]
    install(monkeypatch, module, mutated(module, old, new))
    assert caught(test)


@pytest.mark.parametrize("module", [L0C, PLACES, RULES, FOLLOW, MODULO], ids=lambda module: module.__name__)
def test_a_module_in_its_own_place_is_not_noticed(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant without a change passes: what is noticed is the change."""
    install(monkeypatch, module, mutated(module, "import", "import"))
    assert not any(caught(test) for test in sorted({test for m, _, _, test in MUTANTS.values() if m is module}))
