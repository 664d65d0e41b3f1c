"""Target files: what the built-in ones say, and that a bad one is refused with every finding at once."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from extract.target import VECTOR_FAMILIES, load_target, targets
from pypto_ir.diagnostics import Refused
from pypto_ir.dtypes import DType
from pypto_ir.types import Memory

FOLDER = Path(__file__).parents[2] / "extract" / "targets"
GOOD: dict[str, Any] = json.loads((FOLDER / "ascend910b.json").read_text())


def refused(path: Path | str) -> list[str]:
    """The findings on a file, as `code path`."""
    with pytest.raises(Refused) as caught:
        load_target(path)
    return [f"{d.code} {d.place.path or ''}".strip() for d in caught.value.diagnostics]


def written(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "mine.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_both_machines_are_listed() -> None:
    assert targets() == ("ascend910b", "ascend950")
    assert [load_target(name).name for name in targets()] == list(targets())


def test_a_target_is_loaded_once() -> None:
    assert load_target("ascend950") is load_target("ascend950")
    assert load_target(None) is load_target(None)


@pytest.mark.parametrize(
    ("memory", "a2", "a5"),
    [("Vec", 184, 240), ("Mat", 512, 512), ("Left", 64, 64), ("Right", 64, 64), ("Acc", 128, 256),
     ("Bias", 1, 4), ("LeftScale", 0, 4), ("RightScale", 0, 4)],
)  # fmt: skip
def test_capacities_are_those_that_programs_may_use(memory: str, a2: int, a5: int) -> None:
    """spec/hardware.md 1.1, spec/flatten.md 10; in KiB."""
    assert load_target("ascend910b").capacity(Memory(memory)) == a2 * 1024
    assert load_target("ascend950").capacity(Memory(memory)) == a5 * 1024


def test_the_memory_graph_is_that_of_the_machine() -> None:
    """spec/hardware.md 1.2."""
    a2, a5 = load_target("ascend910b"), load_target("ascend950")
    only_a5 = [("Vec", "Mat"), ("Acc", "Vec"), ("Mat", "LeftScale"), ("Mat", "RightScale")]
    for source, to in only_a5:
        assert not a2.can_move(Memory(source), Memory(to)) and a5.can_move(Memory(source), Memory(to))
    assert a2.can_move(Memory.MAT, Memory.DDR) and not a5.can_move(Memory.MAT, Memory.DDR)
    for target in (a2, a5):
        assert not any(to is Memory.ACC for _, to in target.channels)
        assert target.route(Memory.VEC, Memory.ACC) is None
    assert a2.route(Memory.ACC, Memory.VEC) == ((Memory.ACC, Memory.DDR), (Memory.DDR, Memory.VEC))
    assert a5.route(Memory.ACC, Memory.VEC) == ((Memory.ACC, Memory.VEC),)
    assert a2.route(Memory.MAT, Memory.MAT) == ((Memory.MAT, Memory.DDR), (Memory.DDR, Memory.MAT))


def test_bandwidths_are_in_bytes_per_cycle() -> None:
    """spec/hardware.md 1.3, column B/cycle."""
    a2 = load_target("ascend910b")
    expected = {("DDR", "Mat"): 78.4, ("DDR", "Vec"): 58.6, ("Vec", "DDR"): 109.4, ("Mat", "DDR"): 18.6,
                ("Acc", "Mat"): 74.3, ("Acc", "DDR"): 40.6, ("Vec", "Vec"): 594}  # fmt: skip
    for (source, to), rate in expected.items():
        assert a2.channels[Memory(source), Memory(to)].bytes_per_cycle == pytest.approx(rate, rel=2e-3)


def test_accumulator_rows_are_aligned_per_dtype() -> None:
    assert load_target("ascend910b").acc_row_alignment(DType.INT32) == 32
    assert load_target("ascend910b").acc_row_alignment(DType.FP32) == 16
    assert load_target("ascend950").acc_row_alignment(DType.INT32) == 16


def test_no_target_has_the_prices_of_ascend910b_and_no_limits() -> None:
    free, a2 = load_target(None), load_target("ascend910b")
    assert free.name is None and (free.channels, free.vector) == (a2.channels, a2.vector)
    assert all(free.capacity(memory) is None for memory in Memory)
    assert free.alignment(Memory.VEC) == 32


def test_code_costs_nothing_without_a_target_and_what_a_file_says_with_one(tmp_path: Path) -> None:
    assert load_target(None).code.cost(1e6) == 0
    mine = deepcopy(GOOD)
    mine["code"] |= {"cached": 4, "fetch": 0.3}
    code = load_target(written(tmp_path, mine)).code
    assert [code.cost(n) for n in (0, 4, 5, 14)] == [0, 0, 308 / 1024, 10 * 308 / 1024]
    mine["code"] |= {"cached": 0, "fetch": -1}
    del mine["code"]["source"]
    assert refused(written(tmp_path, mine)) == ["U303 code.cached", "U303 code.fetch", "U303 code.source"]


def test_every_entry_of_the_built_in_files_states_unit_and_source() -> None:
    def check(value: object, path: str, unit: bool) -> None:
        if not isinstance(value, dict):
            return
        unit = unit or "unit" in value
        if any(isinstance(v, int | float | list) and not isinstance(v, bool) for v in value.values()) and path not in ("", ".fallback."):
            parent_has_source = path.startswith(".fallback")
            assert "source" in value or parent_has_source, path
            assert unit or path.startswith(".cores"), path
        for key, inner in value.items():
            check(inner, f"{path}.{key}", unit)

    for name in targets():
        data = json.loads((FOLDER / f"{name}.json").read_text())
        data.pop("target_format")
        check(data, "", False)


def test_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    mine = deepcopy(GOOD)
    mine["name"], mine["memories"]["Vec"]["capacity"] = "mine", 4096
    target = load_target(written(tmp_path, mine))
    assert (target.name, target.capacity(Memory.VEC)) == ("mine", 4096)
    assert target.vector == load_target("ascend910b").vector


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Refused, match=r"U301.*'ascend310'(?s:.*)ascend910b, ascend950"):
        load_target("ascend310")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "absent.json") == ["U301"]
    (tmp_path / "folder.json").mkdir()
    assert refused(tmp_path / "folder.json") == ["U301"]
    (tmp_path / "latin.json").write_bytes(b'{"name": "\xe9"}')
    assert refused(tmp_path / "latin.json") == ["U301"]


@pytest.mark.parametrize("text", ["", "{", '{"name": }', "[" * 200_000, '{"target_format": ' + "9" * 5000 + "}"])
def test_what_is_not_json_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    assert refused(written(tmp_path, text)) == ["U302"]


@pytest.mark.parametrize("content", [[], 3, "text", None, {}])
def test_json_of_another_kind_is_refused(tmp_path: Path, content: object) -> None:
    found = refused(written(tmp_path, json.dumps(content)))
    assert found and all(f.startswith("U303") for f in found)


def test_every_wrong_entry_is_reported_at_once(tmp_path: Path) -> None:
    bad = deepcopy(GOOD)
    bad["clock"]["value"] = 0
    bad["cores"]["cube"] = True
    bad["memories"]["Vec"]["capacity"] = -1
    bad["memories"]["Attic"] = bad["memories"].pop("Bias")
    del bad["memories"]["Acc"]
    bad["channels"]["DDR->Vec"]["pipe"] = "MTE9"
    bad["channels"]["DDR->Mat"]["bandwidth"] = float("inf")
    bad["channels"]["Vec"] = bad["channels"]["Vec->Vec"]
    bad["issue"]["V"] = "two"
    bad["extra"] = 1
    del bad["vector"]["families"]["exp"]
    bad["vector"]["families"]["add"]["slope"] = 0
    bad["vector"]["row_reduce"]["steps"] = [[256, 7], [128, 8], "x"]
    bad["cube"]["source"] = " "
    assert sorted(refused(written(tmp_path, bad))) == [
        "U303 channels.DDR->Mat.bandwidth",
        "U303 channels.DDR->Vec.pipe",
        "U303 channels.Vec",
        "U303 clock.value",
        "U303 cores.cube",
        "U303 cube.source",
        "U303 extra",
        "U303 issue.V",
        "U303 memories.Acc",
        "U303 memories.Attic",
        "U303 memories.Vec.capacity",
        "U303 vector.families.add.slope",
        "U303 vector.families.exp",
        "U303 vector.row_reduce.steps[1]",
        "U303 vector.row_reduce.steps[2]",
    ]


def test_a_key_given_twice_is_reported(tmp_path: Path) -> None:
    text = json.dumps(GOOD).replace('"name": "ascend910b"', '"name": "a", "name": "b"')
    with pytest.raises(Refused, match="'name' is given twice"):
        load_target(written(tmp_path, text))


@pytest.mark.parametrize("key", sorted(GOOD))
def test_each_missing_part_is_named_and_nothing_else(tmp_path: Path, key: str) -> None:
    bad = deepcopy(GOOD)
    del bad[key]
    assert refused(written(tmp_path, bad)) == [f"U303 {key}"]


def test_families_are_those_that_prices_use() -> None:
    assert set(GOOD["vector"]["families"]) == set(VECTOR_FAMILIES)
