"""The published JSON Schema of program files, format 1 (draft 2020-12).

It describes the form of a file: `{"pypto_ir": 1, "functions": []}` is valid, `{"pypto_ir": 2, "functions":
[]}` is not. What a form cannot say (names, scopes, types, operand counts) is checked by `json_reader`.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def schema_text() -> str:
    """The schema as it is published."""
    return files("pypto_ir").joinpath("program.schema.json").read_text(encoding="utf-8")


def schema() -> dict[str, Any]:
    """The schema as plain values, for a validator."""
    result: dict[str, Any] = json.loads(schema_text())
    return result
