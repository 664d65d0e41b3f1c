"""JSON text to plain values, safely: bounded size and nesting, UTF-8 only, every problem as a finding with
its place.

The standard parser does the work (a kernel takes some 50 µs); places are computed by `json_place` only when
something is wrong. So `{"a": 1, "a": 2}` costs one comparison per object to notice and a second walk only
because it has to be reported.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pypto_ir.diagnostics import Diagnostic, Place, Refused, declare
from pypto_ir.json_place import position

declare(
    J001="the file is larger than the size limit",
    J002="the file is not UTF-8 text",
    J003="the text is not JSON",
    J004="nesting is deeper than the limit",
    J005="a key occurs twice in one object",
    J006="a number is not finite or has too many digits",
)

#: largest program text in bytes; a kernel has a few thousand
MAX_BYTES = 64 * 2**20
#: deepest nesting of objects and lists; a loop takes two levels
MAX_NESTING = 100

_NOT_A_NUMBER = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|(-?\b(?:NaN|Infinity)\b)', re.DOTALL)
_MANY_DIGITS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|(-?\d{1000,})', re.DOTALL)
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|([\[{])|([\]}])', re.DOTALL)


class _Constant(ValueError):
    """NaN or Infinity stands in the text, which JSON does not have."""


def parse_json(text: str, file: str | None) -> tuple[Any, bool]:
    """The value of a JSON text and whether a key occurs twice somewhere; raises `Refused` (J003, J004, J006)
    with the place."""
    repeated = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        result = dict(pairs)
        if len(result) != len(pairs):
            repeated = True
        return result

    try:
        value = json.loads(text, object_pairs_hook=build, parse_constant=_refuse_constant)
    except json.JSONDecodeError as fault:
        raise _refused("J003", f"not JSON: {_reason(fault, text)}", file, text, fault.pos) from None
    except RecursionError:
        raise _too_deep(text, file) from None
    except _Constant as fault:
        help = 'write {"const": "nan", "dtype": "FP32"} (or "inf", "-inf")'
        raise _refused("J006", f"found {fault}, which is no JSON number", file, text, _first(_NOT_A_NUMBER, text), help) from None
    except ValueError:
        where = _first(_MANY_DIGITS, text)
        raise _refused("J006", "found a number of thousands of digits; allowed are 64-bit integers", file, text, where) from None
    if _deeper_than(value, MAX_NESTING):
        raise _too_deep(text, file)
    return value, repeated


def decode(data: bytes, file: str | None) -> str:
    """UTF-8 bytes as text; raises `Refused` (J001, J002) where they are too many, no UTF-8, or start with a
    byte order mark."""
    if len(data) > MAX_BYTES:
        raise too_large(file)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or data[:3] == b"\xef\xbb\xbf":
        message = f"found a byte order mark ({data[:3].hex(' ')}) at the start; allowed is UTF-8 without one"
        raise Refused([Diagnostic("J002", message, Place(file, 1, 1))])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        start = data.rfind(b"\n", 0, fault.start) + 1
        column = len(data[start : fault.start].decode("utf-8", "replace")) + 1
        byte = f"the byte 0x{data[fault.start]:02x} at offset {fault.start}"
        message = f"found {byte}, which is not UTF-8: {fault.reason}"
        raise Refused([Diagnostic("J002", message, Place(file, line, column))]) from None


def too_large(file: str | None) -> Refused:
    """The refusal of a file over the size limit."""
    message = f"the program is larger than {MAX_BYTES >> 20} MiB; nothing of it was read"
    return Refused([Diagnostic("J001", message, Place(file), "split it into programs of fewer functions")])


def _refuse_constant(word: str) -> Any:
    raise _Constant(word)


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
        if not level:
            return False
        level = [
            child
            for node in level
            if type(node) in (dict, list)
            for child in (node.values() if type(node) is dict else node)
            if type(child) in (dict, list)
        ]
    return bool(level)


def _too_deep(text: str, file: str | None) -> Refused:
    depth = 0
    for token in _STRUCTURE.finditer(text):
        if token[1]:
            depth += 1
            if depth > MAX_NESTING:
                message = f"objects and lists are nested more than {MAX_NESTING} levels deep here"
                return _refused("J004", message, file, text, token.start())
        elif token[2]:
            depth -= 1
    return _refused("J004", f"objects and lists are nested more than {MAX_NESTING} levels deep", file, text, 0)


def _reason(fault: json.JSONDecodeError, text: str) -> str:
    if fault.pos >= len(text.rstrip()):
        return "the text ends here, in the middle of a value" if text.strip() else "the text is empty"
    found = text[fault.pos : fault.pos + 20].split("\n")[0]
    return f"{fault.msg[0].lower()}{fault.msg[1:]}, found {found!a}"


def _first(pattern: re.Pattern[str], text: str) -> int:
    return next((m.start() for m in pattern.finditer(text) if m.lastindex), 0)


def _refused(code: str, message: str, file: str | None, text: str, offset: int, help: str | None = None) -> Refused:
    line, column = position(text, offset)
    return Refused([Diagnostic(code, message, Place(file, line, column), help)])
