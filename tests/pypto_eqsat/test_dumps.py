"""The printed reference programs through the whole pipeline: 2-D, no dearer than upstream's answer, equal, and the rest untouched."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import SHARED, assert_all_2d, cost

from extract.legal import is_two_d
from extract.price import price_program
from extract.target import load_target
from pypto_eqsat.cli import DONE, main
from pypto_eqsat.driver import optimize
from pypto_ir.formats import read_any, write_as
from pypto_ir.interp.compare import equivalent
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.stmt import Program

DUMPS = SHARED / "dumps"
NAMES = sorted(path.stem for path in DUMPS.glob("*.py") if ".flattened" not in path.name)
TWINS = sorted(path.name.removesuffix(".flattened.py") for path in DUMPS.glob("*.flattened.py"))
#: N-D windows that upstream rejects
REJECTED = ("views_nd",)
#: where the rules find a cheaper program, of those that upstream leaves alone
GAINS = {"cube_spaces": ["views"], "partial_products": ["rows"], "sort_gather": ["pick"]}
UNCHANGED = [name for name in NAMES if name not in (*TWINS, *REJECTED, *GAINS)]
SECONDS = 2.0


def text_of(name: str) -> str:
    return (DUMPS / f"{name}.py").read_bytes().decode()


def dump(name: str) -> Program:
    return read_any(text_of(name), f"{name}.py")


def functions_of(text: str) -> dict[str, str]:
    """The text of every function by its name."""
    parts = re.split(r"(?m)^    (?=@pl\.function)", text)[1:]
    return {re.search(r"    def (\w+)\(", part).group(1): part.rstrip("\n") for part in parts}  # type: ignore[union-attr]


def only(program: Program, name: str) -> Program:
    """The program with one of its functions."""
    return replace(program, functions=tuple(f for f in program.functions if f.name == name))


def assert_lowered(before: Program, after: Program) -> None:
    """A legal 2-D program that computes the same, that reads back from its text, and that a second run leaves alone."""
    assert_all_2d(after)
    verdict = equivalent(before, after, seeds=range(3), seconds=SECONDS)
    assert verdict.equal, verdict.difference
    for name, covered in verdict.covered.items():
        # random numbers have no meaning of their own
        assert covered.runs or any("tile.random" in reason for reason in covered.refused), name
    text = write_as(after, "text")
    printed = read_printed(text, "after.py")
    assert printed.warnings == ()
    assert write_as(printed.program, "text") == text
    assert write_as(optimize(printed.program, validate=False).program, "text") == text


def test_the_lists_name_every_dump() -> None:
    assert len(NAMES) == 27 and len(TWINS) == 13
    assert {*GAINS, *REJECTED} <= {*NAMES}


@pytest.mark.parametrize("name", TWINS)
def test_a_dump_becomes_a_2d_program_that_costs_no_more_than_its_twin(name: str) -> None:
    before, twin = dump(name), dump(f"{name}.flattened")
    result = optimize(before)
    assert result.diagnostics == () and not result.limit_hit
    assert_lowered(before, result.program)
    target = load_target(before.target)
    ours, theirs = price_program(result.program, target), price_program(twin, target)
    assert ours.keys() == theirs.keys()
    assert sum(p.cost for p in ours.values()) <= sum(p.cost for p in theirs.values()) * (1 + 1e-9)
    assert all(ours[f].cost <= theirs[f].cost * (1 + 1e-9) for f in ours)
    assert result.stats["cost"] == pytest.approx(sum(p.cost for p in ours.values()))


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("target", ["ascend910b", "ascend950"])
def test_no_target_makes_a_dump_dearer_than_its_twin(name: str, target: str) -> None:
    result = optimize(dump(name), target=target, validate=False)
    assert cost(result.program, target) <= cost(dump(f"{name}.flattened"), target) * (1 + 1e-9)


@pytest.mark.parametrize("name", TWINS)
def test_upstreams_answer_computes_the_same_as_its_input(name: str) -> None:
    verdict = equivalent(dump(name), dump(f"{name}.flattened"), seeds=range(2), seconds=0.5)
    assert verdict.equal, verdict.difference


def test_what_surrounds_a_batched_product_is_lowered() -> None:
    """The RMS norm of `converted`, outlined by upstream: the Out parameter is returned and the store is unused."""
    before = dump("converted")
    alone = only(before, "norms")
    twin = only(dump("converted.flattened"), "norms")
    result = optimize(alone)
    assert_lowered(alone, result.program)
    assert cost(result.program) <= cost(twin) * (1 + 1e-9)
    text = write_as(result.program, "text")
    assert "pl.dynamic" in text and text.endswith("        return nrm__iter_v1")


@pytest.mark.parametrize("name", REJECTED)
def test_windows_that_upstream_rejects_are_lowered(name: str) -> None:
    before = dump(name)
    assert_lowered(before, optimize(before).program)


@pytest.mark.parametrize("name", UNCHANGED)
def test_a_dump_with_nothing_to_gain_comes_back_byte_for_byte(name: str) -> None:
    before = dump(name)
    result = optimize(before, stages=("flatten",))
    assert result.program is before
    assert write_as(result.program, "text") == text_of(name)
    assert result.diagnostics == ()


@pytest.mark.parametrize("name", GAINS)
def test_a_gain_in_a_2d_dump_is_a_legal_cheaper_program(name: str) -> None:
    before = dump(name)
    result = optimize(before)
    assert_lowered(before, result.program)
    assert [f for f, s in result.stats["functions"].items() if s["changed"]] == GAINS[name]
    assert all(result.stats["functions"][f]["cost"] < result.stats["functions"][f]["input_cost"] for f in GAINS[name])


@pytest.mark.parametrize("name", NAMES)
def test_functions_with_nothing_to_gain_keep_every_byte(name: str) -> None:
    before = dump(name)
    result = optimize(before, stages=("flatten",), validate=False)
    old, new = functions_of(text_of(name)), functions_of(write_as(result.program, "text"))
    assert list(old) == list(new) == [f.name for f in before.functions]
    for f in before.functions:
        changed = f.name in result.functions and result.functions[f.name].changed
        assert (old[f.name] == new[f.name]) is not changed
        nd = f.in_core and not is_two_d(f)
        assert not changed or nd or result.functions[f.name].cost < result.functions[f.name].input_cost


def test_from_file_to_file_on_the_command_line_as_in_the_library(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        out = tmp_path / f"{name}.out.py"
        code = main(["optimize", "--no-validate", str(DUMPS / f"{name}.py"), "-o", str(out)])
        shown = capfd.readouterr()
        assert (code, shown.out, shown.err) == (DONE, "", "")
        result = optimize(dump(name), validate=False)
        assert out.read_bytes().decode() == write_as(result.program, "text")
        assert main(["check", "--2d", str(out)]) == DONE
        assert capfd.readouterr().out.endswith(", 2-D\n")
