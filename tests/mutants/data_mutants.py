"""Mutants of the data of a target: every number and every flag changed.

`"slope": 2` becomes 3, `"bandwidth": 100.9` becomes 110.99, `"by_row": true` false.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.mutants.mutant import Mutant

#: entries that say how the file is written
_FORM = ("target_format",)


def data_mutants(file: str, source: str) -> Iterator[Mutant]:
    """A mutant for each number or flag of a JSON file."""
    data = json.loads(source)
    for path, value in _leaves(data, ()):
        if path[0] in _FORM:
            continue
        holder: Any = data
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = changed = _changed(value)
        where = ".".join(map(str, path))
        yield Mutant(f"{file} {where}: {value} -> {changed}", file, where, json.dumps(data, indent=2))
        holder[path[-1]] = value


def _changed(value: float) -> float:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else round(value * 1.1, 6) or 1.0


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], float]]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, bool | int | float):
        yield path, value
