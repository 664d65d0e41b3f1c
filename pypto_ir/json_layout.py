"""How program files look: one-space indents, and on one line whatever fits there.

`{"let": "y", "op": "tile.add", "args": ["x", "x"]}` always takes one line, a loop never does, and everything
else (parameters, carries, short arms) takes one where the whole line has at most 150 characters. The same
value always gives the same text.
"""

from __future__ import annotations

import json
from typing import Any

#: longest line of what need not be on one line
WIDTH = 150


class Open(dict[str, Any]):
    """An object that always takes several lines."""


class Line(dict[str, Any]):
    """An object that always takes one line."""


def layout(value: Any) -> str:
    """The text of a JSON value, with a final newline."""
    out: list[str] = []
    _write(value, 0, "", "", out)
    return "\n".join(out) + "\n"


def _write(value: Any, indent: int, prefix: str, suffix: str, out: list[str]) -> None:
    lead = " " * indent + prefix
    if not isinstance(value, dict | list) or not value or isinstance(value, Line):
        out.append(lead + json.dumps(value, ensure_ascii=False) + suffix)
        return
    if not _must_open(value):
        text = json.dumps(value, ensure_ascii=False)
        if len(lead) + len(text) + len(suffix) <= WIDTH:
            out.append(lead + text + suffix)
            return
    if isinstance(value, dict):
        brackets = "{}"
        parts = [(json.dumps(k, ensure_ascii=False) + ": ", v) for k, v in value.items()]
    else:
        brackets = "[]"
        parts = [("", v) for v in value]
    out.append(lead + brackets[0])
    for i, (key, part) in enumerate(parts):
        _write(part, indent + 1, key, "," if i < len(parts) - 1 else "", out)
    out.append(" " * indent + brackets[1] + suffix)


def _must_open(value: Any) -> bool:
    if isinstance(value, Open):
        return True
    if isinstance(value, Line) or not isinstance(value, dict | list):
        return False
    return any(map(_must_open, value if isinstance(value, list) else value.values()))
