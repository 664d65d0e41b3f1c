"""Random damage to real programs: the reader reads them or refuses them with codes and places, and does
nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pypto_ir.diagnostics import Refused
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program

KERNELS = sorted((Path(__file__).parents[2].parent / "shared" / "kernels").glob("*.json"))
TEXTS = [p.read_text(encoding="utf-8") for p in (*KERNELS, Path(__file__).with_name("every_form.json"))]
PROGRAMS = [json.loads(text) for text in TEXTS]

NUMBERS = st.one_of(
    st.integers(-3, 5),
    st.sampled_from([2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, -1]),
    st.floats(allow_nan=False),
)
WORDS = st.sampled_from(
    [
        "",
        "x",
        "acc",
        "k",
        "k + 1",
        "k ** 2",
        "1 / 0",
        "-1",
        "2.5",
        "x_tile",
        "out",
        "min",
        "lambda",
        "FP32",
        "Mat",
        "InCore",
        "tile.add",
        "tile.load",
        "tile.store",
        "tile.reshape",
        "vendor.op",
        "let",
        "op",
        "for",
        "dtype",
        "\ud800",
        "é",
        "(" * 200,
        "a" * 500,
        'cast(k, "INT32")',
        "k == 0",
        "true",
        "nb",
        "ctx",
        "pos",
        "inf",
        "nan",
    ]
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(child, (*path, key))


PLACES = [list(places(program)) for program in PROGRAMS]


def damaged(program: Any, where: list[tuple[Any, ...]], draw: Any) -> Any:
    path = draw(st.sampled_from(where))
    if not path:
        return draw(VALUES)
    holder = program
    for step in path[:-1]:
        try:
            holder = holder[step]
        except (KeyError, IndexError, TypeError):
            return program
    key = path[-1]
    if not isinstance(holder, dict | list) or (isinstance(holder, dict) != isinstance(key, str)):
        return program
    if (key not in holder) if isinstance(holder, dict) else key >= len(holder):
        return program
    match draw(st.sampled_from(["drop", "replace", "number", "double", "rename", "move"])):
        case "drop":
            del holder[key]
        case "replace":
            holder[key] = draw(VALUES)
        case "number":
            holder[key] = draw(NUMBERS) if isinstance(holder[key], int) else draw(WORDS)
        case "double" if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        case "rename" if isinstance(holder, dict):
            holder[draw(WORDS)] = holder.pop(key)
        case "move" if isinstance(holder, list):
            holder.insert(0, holder.pop(key))
    return program


@st.composite
def broken_programs(draw: Any) -> Any:
    which = draw(st.integers(0, len(PROGRAMS) - 1))
    program = copy.deepcopy(PROGRAMS[which])
    for _ in range(draw(st.integers(1, 4))):
        program = damaged(program, PLACES[which], draw)
    return program


def reads_or_refuses(text: str | bytes) -> None:
    try:
        program = read_program(text, "p.json")
    except Refused as refused:
        assert refused.diagnostics
        for d in refused.diagnostics:
            assert d.place.file == "p.json" and d.message and str(d)
            assert d.place.line is not None and d.place.column is not None
        return
    written = write_program(program)
    assert write_program(read_program(written)) == written


@given(broken_programs())
@example(
    {
        "pypto_ir": 1,
        "functions": [{"name": "f", "body": [{"return": []}], "params": [{"name": "f", "type": {}}]}],
    }
)
@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_a_damaged_program_is_read_or_refused_with_places(program: Any) -> None:
    reads_or_refuses(json.dumps(program, indent=1))


@given(st.sampled_from(TEXTS), st.data())
@settings(deadline=None, max_examples=150)
def test_damaged_text_is_read_or_refused_with_places(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    width = data.draw(st.integers(0, 30))
    filler = data.draw(st.text(alphabet='{}[]",:0123456789abcnulltrue \n\\', max_size=8))
    reads_or_refuses(text[:at] + filler + text[at + width :])


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_any_bytes_are_read_or_refused_with_places(data: bytes) -> None:
    reads_or_refuses(data)
