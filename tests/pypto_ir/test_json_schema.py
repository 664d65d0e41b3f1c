"""The published schema: what the reader and the writer agree on has its form, what the reader refuses by form
has not."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pypto_ir import json_context, json_exprs, json_forms, json_reader, json_types
from pypto_ir.diagnostics import Refused
from pypto_ir.dtypes import DType
from pypto_ir.expr_parser import RESERVED
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.schema import schema

SCHEMA = schema()
VALIDATOR = Draft202012Validator(SCHEMA)
KERNELS = sorted((Path(__file__).parents[2].parent / "shared" / "kernels").glob("*.json"))
EVERY_FORM = Path(__file__).with_name("every_form.json")
DEFS = SCHEMA["$defs"]


def test_the_schema_is_a_schema_of_its_draft() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", [*KERNELS, EVERY_FORM], ids=lambda p: p.stem)
def test_programs_and_what_is_written_are_valid(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    VALIDATOR.validate(json.loads(text))
    VALIDATOR.validate(json.loads(write_program(read_program(text))))


BROKEN: dict[str, Any] = {
    "another version": lambda p, f, b: p.update(pypto_ir=2),
    "no functions": lambda p, f, b: p.pop("functions"),
    "an unknown key of the program": lambda p, f, b: p.update(extra=1),
    "an unknown target": lambda p, f, b: p.update(target="ascend"),
    "an unknown kind": lambda p, f, b: f.update(kind="Incore"),
    "an unknown key of a statement": lambda p, f, b: b[0].update(kwarg={}),
    "two statements in one": lambda p, f, b: b[1].update(call="f"),
    "an empty statement": lambda p, f, b: b.insert(0, {}),
    "a number for a name": lambda p, f, b: b[0].update(let=5),
    "a reserved word for a name": lambda p, f, b: b[0].update(let="cast"),
    "null for an operand": lambda p, f, b: b[1].update(args=[None]),
    "a dim of 0": lambda p, f, b: f["params"][0]["type"].update(tensor=[0, 3, 4]),
    "a type of no kind": lambda p, f, b: f["params"][0].update(type={"dtype": "FP32"}),
    "an unknown dtype": lambda p, f, b: f["params"][0]["type"].update(dtype="F32"),
    "two bounds of a loop": lambda p, f, b: b.insert(0, {"for": "k", "range": [0, 2], "body": []}),
    "body and verbatim": lambda p, f, b: f.update(verbatim="x"),
    "no body": lambda p, f, b: f.pop("body"),
    "an integer of 65 bits": lambda p, f, b: b.insert(0, {"let": "i", "expr": 2**64}),
    "false for true": lambda p, f, b: b.insert(0, {"break": False}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_form_is_invalid_and_refused(name: str) -> None:
    program = json.loads(KERNELS[0].read_text())
    assert KERNELS[0].stem == "add_3d"
    function = program["functions"][0]
    BROKEN[name](program, function, function["body"])
    assert not VALIDATOR.is_valid(program)
    with pytest.raises(Refused):
        read_program(json.dumps(program))


def keys_of(definition: dict[str, Any]) -> tuple[set[str], set[str]]:
    return set(definition["properties"]), set(definition["required"])


@pytest.mark.parametrize("kind", json_forms.KEYS)
def test_statements_have_the_keys_that_the_reader_knows(kind: str) -> None:
    keys = json_forms.KEYS[kind]
    assert keys_of(DEFS[f"{kind}_statement"]) == (set(keys.allowed), set(keys.required))


@pytest.mark.parametrize(
    ("definition", "keys"),
    [
        (SCHEMA, json_reader._PROGRAM),
        (DEFS["function"], json_reader._FUNCTION),
        (DEFS["param"], json_reader._PARAM),
        (DEFS["view"], json_types._VIEW),
        (DEFS["memref"], json_types._MEMREF),
        (DEFS["constant"], json_exprs._CONST),
        (DEFS["item"], json_exprs._ITEM),
        *[(DEFS[f"{kind}_type"], keys) for kind, keys in json_types._KINDS.items()],
    ],
    ids=lambda value: "",
)
def test_objects_have_the_keys_that_the_reader_knows(definition: dict[str, Any], keys: json_context.Keys) -> None:
    assert keys_of(definition) == (set(keys.allowed), set(keys.required))


def test_words_are_those_of_the_reader() -> None:
    assert DEFS["dtype"]["enum"] == [d.value for d in DType]
    assert DEFS["tile_type"]["properties"]["memory"]["enum"] == list(json_types.MEMORIES)
    assert DEFS["tensor_type"]["properties"]["layout"]["enum"] == list(json_types.LAYOUTS)
    assert DEFS["view"]["properties"]["pad"]["enum"] == list(json_types.PADS)
    reserved = DEFS["name"]["not"]["pattern"].removeprefix("^(").removesuffix(")$").split("|")
    assert set(reserved) == RESERVED


def test_the_schema_is_given_anew_each_time() -> None:
    first = schema()
    untouched = copy.deepcopy(first)
    first["title"] = "changed"
    assert schema() == untouched
