"""Reading and checking a target file.

Every object of the file is checked against the fields it must have: `{"pipe": "MTE9", "bandwidth": -1, ..}`
under `channels.DDR->Vec` gives two diagnostics, `channels.DDR->Vec.pipe` and `channels.DDR->Vec.bandwidth`,
and the reading goes on to the end of the file before it refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any

from extract.cycles import rounded
from extract.target import (
    PIPES,
    VECTOR_FAMILIES,
    Channel,
    Code,
    Cube,
    Drain,
    Family,
    Steps,
    Store,
    Target,
    Transpose,
    VectorUnit,
)  # fmt: skip
from pypto_ir.acc_reads import AccReads
from pypto_ir.diagnostics import Diagnostic, Diagnostics, Place, Refused
from pypto_ir.dtypes import DType
from pypto_ir.types import Memory

_Fields = dict[str, Any]
#: stands for an object that is missing or no object: it is reported once, and nothing inside it
_ABSENT: _Fields = {}
#: kind of a field -> (what it must be, test, stand-in while other errors are collected)
_KINDS: dict[str, tuple[str, Callable[[Any], bool], Any]] = {
    "text": ("a non-empty string", lambda v: isinstance(v, str) and v.strip() != "", "?"),
    "flag": ("true or false", lambda v: isinstance(v, bool), False),
    "count": ("a positive integer", lambda v: _is_int(v) and v > 0, 1),
    "positive": ("a number above 0", lambda v: _is_number(v) and v > 0, 1.0),
    "number": ("a number of at least 0", lambda v: _is_number(v) and v >= 0, 0.0),
    "object": ("an object", lambda v: isinstance(v, dict), _ABSENT),
    "list": ("a non-empty list", lambda v: isinstance(v, list) and len(v) > 0, []),
    "pipe": ("one of " + ", ".join(PIPES), lambda v: v in PIPES, "S"),
    "format": ("the integer 1", lambda v: _is_int(v) and v == 1, 1),
    "rate": ("'GiB/s' or 'bytes/cycle'", lambda v: v in ("GiB/s", "bytes/cycle"), "bytes/cycle"),
    "bytes": ("'bytes'", lambda v: v == "bytes", "bytes"),
    "GHz": ("'GHz'", lambda v: v == "GHz", "GHz"),
}


def _is_int(v: object) -> bool:
    return isinstance(v, int) and not isinstance(v, bool)


def _is_number(v: object) -> bool:
    return isinstance(v, int | float) and not isinstance(v, bool) and isfinite(v)


def parse_target(text: str, file: str) -> Target:
    """The target that a file's text describes; raises `Refused` with U302 or every U303."""
    duplicates: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> _Fields:
        found: _Fields = {}
        for key, value in items:
            if key in found:
                duplicates.append(key)
            found[key] = value
        return found

    try:
        root = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        place = Place(file, error.lineno, error.colno)
        raise Refused([Diagnostic("U302", f"the target file is not JSON: {error.msg}", place)]) from None
    except (RecursionError, ValueError):
        message = "the target file is not JSON that can be read: its nesting is too deep or a number too long"
        raise Refused([Diagnostic("U302", message, Place(file))]) from None
    reader = _Reader(file)
    for key in duplicates:
        reader.report("", f"the key {key!r} is given twice in one object")
    result = reader.target(root)
    reader.found.refuse_if_any()
    return result


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.found = Diagnostics()

    def report(self, path: str, message: str, help: str | None = None) -> None:
        self.found.add("U303", message, Place(self.file, path=path or None), help)

    def fields(self, value: object, path: str, required: dict[str, str], optional: dict[str, str] | None = None) -> _Fields:
        """The checked fields of an object; a stand-in for each that is missing or wrong."""
        silent = value is _ABSENT
        if not isinstance(value, dict):
            self.report(path, f"must be an object, found {_short(value)}")
            silent, value = True, _ABSENT
        kinds = required | (optional or {})
        result: _Fields = {}
        for key, kind in kinds.items():
            words, test, stand_in = _KINDS[kind]
            here = f"{path}.{key}" if path else key
            if key not in value:
                if key in required:
                    result[key] = stand_in
                    if not silent:
                        self.report(here, f"is missing; it must be {words}")
            elif test(value[key]):
                result[key] = value[key]
            else:
                result[key] = stand_in
                self.report(here, f"must be {words}, found {_short(value[key])}")
        for key in value:
            if key not in kinds:
                self.report(f"{path}.{key}" if path else key, "is not known here", f"known are {', '.join(kinds)}")
        return result

    def target(self, root: object) -> Target:
        parts = (
            "clock",
            "cores",
            "memories",
            "acc_rows",
            "acc_reads",
            "channels",
            "mat_fill",
            "issue",
            "cube",
            "drain",
            "vector",
            "fallback",
            "code",
        )
        top = self.fields(
            root,
            "",
            {"target_format": "format", "name": "text", "title": "text"} | dict.fromkeys(parts, "object"),
        )
        clock = self.fields(top["clock"], "clock", {"value": "positive", "unit": "GHz", "source": "text"})
        cores = self.fields(top["cores"], "cores", {"cube": "count", "vector": "count", "source": "text"})
        per_pipe = {p: "positive" for p in PIPES if p != "S"}
        issue = self.fields(top["issue"], "issue", per_pipe | {"unit": "text", "source": "text"})
        pipe_objects = {p: "object" for p in PIPES if p != "S"}
        fallback = self.fields(top["fallback"], "fallback", pipe_objects | {"unit": "text", "source": "text"})
        rates = {p: self.fields(fallback[p], f"fallback.{p}", {"fixed": "positive", "elements": "positive"}) for p in pipe_objects}
        cube = {"fixed": "number", "fractal": "positive", "fractal_fp32": "positive"}
        code = self.fields(top["code"], "code", {"cached": "count", "fetch": "number", "unit": "text", "source": "text"})
        drain = {"fixed": "number", "row_floor": "positive", "bandwidth": "positive", "odd_penalty": "number"}
        return Target(
            name=top["name"],
            title=top["title"],
            clock_ghz=float(clock["value"]),
            cube_cores=cores["cube"],
            vector_cores=cores["vector"],
            memories=self.memories(top["memories"]),
            acc_rows=self.acc_rows(top["acc_rows"]),
            acc_reads=self.acc_reads(top["acc_reads"]),
            channels=self.channels(top["channels"], clock["value"]),
            mat_fill=self.channel(top["mat_fill"], "mat_fill", clock["value"]),
            issue={p: float(issue[p]) for p in per_pipe} | {"S": 0.0},
            cube=Cube(**self.numbers(top["cube"], "cube", cube)),
            drain=Drain(**self.numbers(top["drain"], "drain", drain)),
            vector=self.vector(top["vector"]),
            fallback={p: (float(r["fixed"]), float(r["elements"])) for p, r in rates.items()} | {"S": (1.0, float("inf"))},
            code=Code(code["cached"], rounded(float(code["fetch"])), code["source"]),
        )

    def numbers(self, value: object, path: str, kinds: dict[str, str]) -> _Fields:
        """Numbers with one unit and one source; the unit is for readers and is dropped."""
        found = self.fields(value, path, kinds | {"unit": "text", "source": "text"})
        del found["unit"]
        return {key: v if key == "source" else float(v) for key, v in found.items()}

    def memories(self, value: _Fields) -> dict[Memory, Store]:
        result: dict[Memory, Store] = {}
        kinds = {
            "capacity": "count",
            "alignment": "count",
            "allocation": "count",
            "unit": "bytes",
            "source": "text",
        }
        for name, entry in value.items():
            found = self.fields(entry, f"memories.{name}", kinds)
            memory = self.memory(name, f"memories.{name}")
            if memory is not None:
                result[memory] = Store(found["capacity"], found["alignment"], found["allocation"], found["source"])
        for memory in (Memory.VEC, Memory.MAT, Memory.LEFT, Memory.RIGHT, Memory.ACC):
            if memory.value not in value and value is not _ABSENT:
                self.report(f"memories.{memory.value}", "is missing; every target states this memory")
        return result

    def memory(self, name: str, path: str) -> Memory | None:
        known = {m.value: m for m in Memory}
        if name not in known:
            self.report(path, f"there is no memory {name!r}", f"the memories are {', '.join(known)}")
        return known.get(name)

    def acc_rows(self, value: _Fields) -> dict[DType | None, int]:
        names = {d.value: d for d in DType}
        optional = {name: "count" for name in names}
        found = self.fields(value, "acc_rows", {"default": "count", "unit": "text", "source": "text"}, optional)
        return {None: found["default"]} | {names[n]: v for n, v in found.items() if n in names}

    def acc_reads(self, value: _Fields) -> AccReads:
        found = self.fields(value, "acc_reads", {"to_vec": "flag", "by_valid_rows": "flag", "source": "text"})
        return AccReads(found["to_vec"], found["by_valid_rows"])

    def channels(self, value: _Fields, clock: float) -> dict[tuple[Memory, Memory], Channel]:
        result: dict[tuple[Memory, Memory], Channel] = {}
        for key, entry in value.items():
            path = f"channels.{key}"
            channel = self.channel(entry, path, clock)
            source, arrow, to = key.partition("->")
            if not arrow:
                self.report(path, "must be named after its two memories, such as 'DDR->Vec'")
                continue
            a, b = self.memory(source, path), self.memory(to, path)
            if a is not None and b is not None:
                result[a, b] = channel
        for needed in ("DDR->Vec", "DDR->Mat", "Vec->DDR", "Mat->Left", "Mat->Right", "Acc->DDR", "Vec->Vec"):
            if needed not in value and value is not _ABSENT:
                self.report(f"channels.{needed}", "is missing; every target has this move")
        return result

    def channel(self, value: object, path: str, clock: float) -> Channel:
        kinds = {"pipe": "pipe", "bandwidth": "positive", "unit": "rate", "source": "text"}
        found = self.fields(value, path, kinds, {"element_bytes": "count"})
        rate = float(found["bandwidth"])
        if found["unit"] == "GiB/s":
            rate = rate * 2**30 / (clock * 1e9)
        return Channel(found["pipe"], rate, found.get("element_bytes"), found["source"])

    def vector(self, value: object) -> VectorUnit:
        objects = (
            "repeat",
            "families",
            "row_reduce",
            "col_reduce",
            "row_expand",
            "row_broadcast",
            "transpose",
        )
        top = self.fields(value, "vector", {"unit": "text"} | dict.fromkeys(objects, "object"))
        repeat = self.fields(
            top["repeat"],
            "vector.repeat",
            {"bytes": "count", "narrow_rows": "flag", "ragged_startup": "number", "source": "text"},
        )
        families = self.fields(top["families"], "vector.families", dict.fromkeys(VECTOR_FAMILIES, "object"))
        transpose = {"fixed": "number", "column": "positive", "block": "positive"}
        return VectorUnit(
            repeat_bytes=repeat["bytes"],
            narrow_rows=repeat["narrow_rows"],
            ragged_startup=float(repeat["ragged_startup"]),
            families={name: self.family(families[name], f"vector.families.{name}") for name in VECTOR_FAMILIES},
            row_reduce=self.steps(top["row_reduce"], "vector.row_reduce"),
            col_reduce=self.steps(top["col_reduce"], "vector.col_reduce"),
            row_expand=self.steps(top["row_expand"], "vector.row_expand"),
            row_broadcast=self.numbers(top["row_broadcast"], "vector.row_broadcast", {"fixed": "number"})["fixed"],
            transpose=Transpose(**self.numbers(top["transpose"], "vector.transpose", transpose)),
        )

    def family(self, value: object, path: str) -> Family:
        optional = {
            "row_slope": "positive",
            "row_fixed": "number",
            "row_startup": "number",
            "half_slope": "positive",
        }
        optional |= {"half_row_slope": "positive", "precise_slope": "positive", "by_row": "flag"}
        found = self.fields(value, path, {"startup": "number", "slope": "positive", "source": "text"}, optional)
        slope, startup = float(found["slope"]), float(found["startup"])
        row_slope = float(found.get("row_slope", slope))
        half = float(found.get("half_slope", slope))
        half_row = half if "half_slope" in found else row_slope
        return Family(
            startup=startup,
            slope=slope,
            row_slope=row_slope,
            row_fixed=float(found.get("row_fixed", 0)),
            row_startup=float(found.get("row_startup", startup)),
            half_slope=half,
            half_row_slope=float(found.get("half_row_slope", half_row)),
            precise_slope=float(found.get("precise_slope", slope)),
            by_row=found.get("by_row", False),
            source=found["source"],
        )

    def steps(self, value: object, path: str) -> Steps:
        kinds = {"startup": "number", "steps": "list", "beyond": "number", "unit": "text", "source": "text"}
        found = self.fields(value, path, kinds)
        steps: list[tuple[int, float]] = []
        for i, pair in enumerate(found["steps"]):
            good = isinstance(pair, list) and len(pair) == 2 and _is_int(pair[0]) and _is_number(pair[1])
            if not good or pair[0] <= (steps[-1][0] if steps else 0) or pair[1] <= 0:
                self.report(
                    f"{path}.steps[{i}]",
                    f"must be [bytes, cycles], bytes above the step before, found {_short(pair)}",
                )
            else:
                steps.append((pair[0], float(pair[1])))
        return Steps(float(found["startup"]), tuple(steps) or ((256, 1.0),), float(found["beyond"]), found["source"])


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
