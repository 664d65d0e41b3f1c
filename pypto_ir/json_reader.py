"""Program files to programs (`spec/program_json.md`): `read_program(text, "add_3d.json")`.

Reading has three steps: text to plain JSON values (`json_text`), signatures of all functions, then bodies, so
that a function may be called before the file defines it. Everything that is wrong is collected; each finding
has file, line, column and JSON path, and says what was found and what is allowed. A kernel of 30 statements
reads in about a millisecond.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from pypto_ir.diagnostics import declare
from pypto_ir.expr import Var
from pypto_ir.json_context import Reading
from pypto_ir.json_exprs import read_keywords
from pypto_ir.json_findings import Bad, Keys, found, refuse_if_any
from pypto_ir.json_names import POISON
from pypto_ir.json_place import Path
from pypto_ir.json_stmts import Statements
from pypto_ir.json_text import MAX_BYTES, decode, parse_json, too_large
from pypto_ir.json_types import read_type
from pypto_ir.stmt import DIRECTIONS, FUNCTION_KINDS, Function, Param, Program
from pypto_ir.types import INDEX, ScalarType, Type, UnknownType

declare(
    J601="the file is of another format or version",
    J602="a function is defined twice",
    J603="a function has no body, or more than one",
    J604="a range is empty or on no integer scalar",
)

FORMAT = 1
TARGETS = ("ascend910b", "ascend950")
_PROGRAM = Keys(("pypto_ir", "functions"), ("name", "target", "dynamic"))
_FUNCTION = Keys(
    ("name",),
    (
        "kind",
        "params",
        "returns",
        "attrs",
        "level",
        "role",
        "auto_scope",
        "external_source",
        "verbatim",
        "body",
    ),
)
_PARAM = Keys(("name", "type"), ("direction", "range"))


def read_program(text: str | bytes, file: str | None = None) -> Program:
    """The program of a JSON text. `file` names it in diagnostics. Raises `Refused` with every error found."""
    if isinstance(text, bytes):
        text = decode(text, file)
    elif len(text) > MAX_BYTES:
        raise too_large(file)
    value, repeated = parse_json(text, file)
    r = Reading()
    program = Program()
    with r.bounded():
        program = _program(r, value)
    refuse_if_any(r.findings, text, file, repeated)
    return program


def _program(r: Reading, value: Any) -> Program:
    if type(value) is dict and "pypto_ir" in value and (type(value["pypto_ir"]) is not int or value["pypto_ir"] != FORMAT):
        r.fail(
            "J601",
            (None, "pypto_ir"),
            f"found {found(value['pypto_ir'])}, allowed is the format version {FORMAT}",
        )
    fields = r.object(value, None, "a program", _PROGRAM)
    name, target = "program", None
    with suppress(Bad):
        name = r.names.check(fields.get("name", name), (None, "name"), "the name of the program")
    with suppress(Bad):
        target = r.word(fields["target"], (None, "target"), "target", TARGETS) if "target" in fields else None
    dynamic = _dynamic(r, fields.get("dynamic", []))
    values = r.list(fields["functions"], (None, "functions"), "the functions")
    signatures: list[tuple[Function, int]] = []
    known: dict[str, Function] = {}
    for i, function in enumerate(values):
        path: Path = ((None, "functions"), i)
        r.function = None
        with suppress(Bad):
            signature = _signature(r, function, path, dynamic)
            if signature.name in known:
                r.report("J602", (path, "name"), f"the function {signature.name} is defined before")
            known.setdefault(signature.name, signature)
            signatures.append((signature, i))
    functions: list[Function] = []
    for signature, i in signatures:
        with suppress(Bad):
            functions.append(_with_body(r, signature, values[i], ((None, "functions"), i), dynamic, known))
    return Program(name, tuple(functions), target, tuple(var.name for var in dynamic))


def _dynamic(r: Reading, value: Any) -> tuple[Var, ...]:
    result: dict[str, Var] = {}
    with suppress(Bad):
        for i, element in enumerate(r.list(value, (None, "dynamic"), "the names of dynamic dims")):
            with suppress(Bad):
                name = r.names.check(element, ((None, "dynamic"), i), "the name of a dynamic dim")
                if name in result:
                    r.report("J201", ((None, "dynamic"), i), f"{name} is listed before")
                result[name] = Var(name, INDEX)
    return tuple(result.values())


def _signature(r: Reading, value: Any, path: Path, dynamic: tuple[Var, ...]) -> Function:
    """A function without its body. What is wrong in it is reported here and only here."""
    fields = r.object(value, path, "a function", _FUNCTION)
    name = r.names.check(fields["name"], (path, "name"), "the name of a function")
    r.function = name
    f = Function(name)
    r.names.start(dynamic)
    with suppress(Bad):
        f = replace(f, kind=r.word(fields.get("kind", f.kind), (path, "kind"), "function kind", FUNCTION_KINDS))
    with suppress(Bad):
        f = replace(f, params=_params(r, fields.get("params", []), (path, "params")))
    with suppress(Bad):
        values = r.list(fields.get("returns", []), (path, "returns"), "the types of the results")
        f = replace(f, returns=tuple(_type_or_poison(r, t, ((path, "returns"), i)) for i, t in enumerate(values)))
    with suppress(Bad):
        f = replace(f, attrs=read_keywords(r, fields.get("attrs", {}), (path, "attrs"), "the attributes"))
    texts: dict[str, Any] = {}
    for key in ("level", "role", "external_source", "verbatim"):
        if key in fields:
            with suppress(Bad):
                texts[key] = r.string(fields[key], (path, key), key)
    f = replace(f, **texts)
    if "auto_scope" in fields:
        with suppress(Bad):
            f = replace(f, auto_scope=r.flag(fields["auto_scope"], (path, "auto_scope"), "auto_scope"))
    if "body" in fields and "verbatim" in fields:
        r.report("J603", path, "found both body and verbatim, allowed is one of them")
    if not fields.keys() & {"body", "verbatim", "external_source"}:
        r.report("J603", path, "the function has no body", "give its statements as body, or its text as verbatim")
    return f


def _type_or_poison(r: Reading, value: Any, path: Path) -> Type:
    try:
        return read_type(r, value, path)
    except Bad:
        return POISON


def _params(r: Reading, value: Any, path: Path) -> tuple[Param, ...]:
    params: list[Param] = []
    for i, element in enumerate(r.list(value, path, "the parameters")):
        at: Path = (path, i)
        with suppress(Bad):
            fields = r.object(element, at, "a parameter", _PARAM)
            var = r.names.define(fields["name"], (at, "name"), _type_or_poison(r, fields["type"], (at, "type")))
            direction = "In"
            with suppress(Bad):
                direction = r.word(fields.get("direction", "In"), (at, "direction"), "direction", DIRECTIONS)
            bounds = None
            with suppress(Bad):
                bounds = _range(r, fields["range"], (at, "range"), var.type) if "range" in fields else None
            params.append(Param(var, direction, bounds))
    return tuple(params)


def _range(r: Reading, value: Any, path: Path, t: Type) -> tuple[int, int]:
    pair = r.list(value, path, "[lowest, highest]")
    if len(pair) != 2:
        r.fail("J106", path, f"found {len(pair)} numbers, allowed is [lowest, highest]")
    low = r.integer(pair[0], (path, 0), "the lowest value")
    high = r.integer(pair[1], (path, 1), "the highest value")
    if not isinstance(t, UnknownType) and not (isinstance(t, ScalarType) and t.dtype.is_int):
        r.fail("J604", path, "found a range of a parameter that is no integer scalar")
    if low > high:
        r.fail("J604", path, f"found the empty range {low} to {high}")
    return low, high


def _with_body(
    r: Reading,
    f: Function,
    value: dict[str, Any],
    path: Path,
    dynamic: tuple[Var, ...],
    functions: dict[str, Function],
) -> Function:
    r.function, r.statement, r.loc = f.name, None, None
    if "body" not in value:
        return f
    r.names.start(dynamic)
    for param in f.params:
        r.names.visible.setdefault(param.var.name, param.var)
        r.names.defined.add(param.var.name)
    return replace(f, body=Statements(r, functions, f).block(value["body"], (path, "body"), None))
