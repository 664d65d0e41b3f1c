"""The printed reference programs under `--policy upstream`: byte for byte what the real pass gave, but where the reason stands here."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from helpers import SHARED
from upstream_support import lowered_as_upstream, refused_by_upstream

from pypto_eqsat.driver import optimize
from pypto_ir.formats import read_any, write_as
from pypto_ir.stmt import Program

DUMPS = SHARED / "dumps"
TWINS = sorted(path.name.removesuffix(".flattened.py") for path in DUMPS.glob("*.flattened.py"))
ALONE = sorted({path.stem for path in DUMPS.glob("*.py") if ".flattened" not in path.name} - {*TWINS})
#: the real pass drops comments, which are kept here
COMMENTED = ("naming", "collisions")
#: boxes of stores: the real pass of August 2026 writes the physical shape, later ones the valid region before flattening
BOXES = {
    "gm_stores": [("[1, 16, 64]", "[pl.min(pl.max(4 - n, 0), 1), 16, 64]")],
    "ranks_tails": [
        ("[2, 16, 32]", "[pl.min(2, n), 16, 32]"),
        ("[4, 16, 128]", "[4, 16, 100]"),
        ("[1, 16, 128]", "[1, 16, w + 4]"),
        ("[4, 8, 64]", "[v, 8, 64]"),
    ],
}
#: a copy before an op in place, of a tile that is read again after it
COPIED = {"tile_views": "n_copy"}
#: the accumulator of its first function goes to Vec in August 2026 and is packed by columns later
PACKED = {"batched_products": "k_loop"}
REJECTED = ("views_nd",)


def text_of(name: str) -> str:
    return (DUMPS / f"{name}.py").read_bytes().decode()


def dump(name: str) -> Program:
    return read_any(text_of(name), f"{name}.py")


def result_of(name: str) -> str:
    return write_as(optimize(dump(name), policy="upstream", stages=("flatten",), validate=False).program, "text")


def lines(text: str) -> list[str]:
    """The lines of a printed program without those that are comments of statements."""
    return [line for line in text.split("\n") if not re.match(r"\s+#", line)]


def test_lists_name_every_dump() -> None:
    special = {*COMMENTED, *BOXES, *COPIED, *PACKED}
    assert len(TWINS) == 13 and len(ALONE) == 14 and special <= {*TWINS} and {*REJECTED} <= {*ALONE}


@pytest.mark.parametrize("name", [n for n in TWINS if n not in (*COMMENTED, *BOXES, *COPIED, *PACKED)])
def test_a_dump_becomes_its_twin_byte_for_byte(name: str) -> None:
    assert result_of(name) == text_of(f"{name}.flattened")


@pytest.mark.parametrize("name", COMMENTED)
def test_a_dump_becomes_its_twin_with_its_comments(name: str) -> None:
    assert lines(result_of(name)) == lines(text_of(f"{name}.flattened"))
    assert result_of(name) == text_of(name)


@pytest.mark.parametrize("name", BOXES)
def test_a_dump_becomes_its_twin_but_for_the_boxes_of_its_stores(name: str) -> None:
    found, twin = result_of(name).split("\n"), text_of(f"{name}.flattened").split("\n")
    differing = [(a, b) for a, b in zip(twin, found, strict=True) if a != b]
    assert [b for _, b in differing] == [
        a.removesuffix(f", {old})") + f", {new})" for (a, _), (old, new) in zip(differing, BOXES[name], strict=True)
    ]


@pytest.mark.parametrize("name", COPIED)
def test_a_dump_becomes_its_twin_with_one_copy_more(name: str) -> None:
    copy = COPIED[name]
    found = [line for line in result_of(name).split("\n") if not line.lstrip().startswith(f"{copy}:")]
    assert [line.replace(copy, copy.removesuffix("_copy")) for line in found] == text_of(f"{name}.flattened").split("\n")


@pytest.mark.parametrize("name", PACKED)
def test_a_dump_becomes_its_twin_but_for_the_accumulator(name: str) -> None:
    found, twin = functions(result_of(name)), functions(text_of(f"{name}.flattened"))
    assert found.keys() == twin.keys()
    assert [f for f in twin if found[f] != twin[f]] == [PACKED[name]]
    packed = found[PACKED[name]]
    assert packed.count("tile.create") == 1 and "[16, 32], pl.FP32, pl.Mem.Acc" in packed and "tile.move" not in packed
    # the operands, their routes, offsets and names are those of the twin
    operands = r"(?m)^\s+((?:a0|am|lhs_slice|rhs_pb)\w*: .*)$"
    assert re.findall(operands, packed) == re.findall(operands, twin[PACKED[name]])


def functions(text: str) -> dict[str, str]:
    """The text of every function by its name."""
    parts = re.split(r"(?m)^    (?=@pl\.function)", text)[1:]
    return {re.search(r"    def (\w+)\(", part).group(1): part.rstrip("\n") for part in parts}  # type: ignore[union-attr]


@pytest.mark.parametrize("name", [n for n in ALONE if n not in REJECTED])
def test_a_dump_that_the_real_pass_leaves_alone_comes_back_as_the_same_object(name: str) -> None:
    before = dump(name)
    assert optimize(before, policy="upstream", stages=("flatten",), validate=False).program is before


@pytest.mark.parametrize("name", REJECTED)
def test_a_dump_that_the_real_pass_rejects_is_refused(name: str) -> None:
    refused_by_upstream(dump(name), "L401", "tile.slice is not supported on >2D tiles")


@pytest.mark.parametrize("name", ["batched_products", "converted", "ranks_tails", "reduce_expand"])
def test_a_lowered_dump_computes_the_same(name: str) -> None:
    before = dump(name)
    lowered_as_upstream(replace(before, functions=tuple(f for f in before.functions if f.in_core)))
