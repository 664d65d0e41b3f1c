"""The passes as PyPTO calls them: a program in, a program of the same kind out.

    from pypto_eqsat.passes import flatten_tile_nd_to_2d
    lowered = flatten_tile_nd_to_2d(program, target="ascend910b")

`program` may be a `pypto.ir.Program`, the text of one (printed, or a program file), or a `pypto_ir.stmt.Program`; what comes back is what
was given. PyPTO's own program is printed by its printer, lowered as text, and parsed by its parser; what the parser made is printed once
more and held against what was written, so that nothing is lost or changed on the way. PyPTO is imported when such a program is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, TypeVar

from pypto_eqsat.driver import STAGES
from pypto_eqsat.driver import optimize as optimize_program
from pypto_eqsat.properties import BLOCK_MX, FLATTEN, PassProperties
from pypto_ir.diagnostics import Diagnostic, Refused, declare
from pypto_ir.formats import read_document, write_as
from pypto_ir.stmt import Program

declare(
    L901="PyPTO is needed for what was given and is not there, or lacks a printer or parser",
    X005="PyPTO reads the lowered program as another one than was written",
)

_Any = TypeVar("_Any")
#: where PyPTO's parser of printed programs has been, newest first: module and function
PARSERS = (("pypto.language", "parse"), ("pypto.language", "parse_program"), ("pypto", "parse"))
#: what prints a program: a method of it, or a function of `pypto.ir`
PRINTERS = ("as_python", "python_print")


def flatten_tile_nd_to_2d(program: _Any, **options: Any) -> _Any:
    """FlattenTileNdTo2D: in-core functions with tiles of any rank become functions of 2-D tiles, at the least cost that the rules reach.

    `options` are those of `pypto_eqsat.optimize`, mostly `target`. Raises `Refused` with every reason where there is no legal form, and
    where PyPTO is needed and lacks something (L901)."""
    result: _Any = _run(program, (STAGES[0],), options)
    return result


def block_mx_scale_tensor_views(program: _Any, **options: Any) -> _Any:
    """BlockMxScaleTensorViews: tensors of MX scales get the shape of the boxes that their bytes lie in. Options and errors are those of
    `flatten_tile_nd_to_2d`."""
    result: _Any = _run(program, (STAGES[1],), options)
    return result


def optimize(program: _Any, **options: Any) -> _Any:
    """Both passes, one after the other. Options and errors are those of `flatten_tile_nd_to_2d`."""
    result: _Any = _run(program, STAGES, options)
    return result


#: what each pass asks for and gives, by the name of its function
PROPERTIES: dict[str, PassProperties] = {"flatten_tile_nd_to_2d": FLATTEN, "block_mx_scale_tensor_views": BLOCK_MX}


def _run(program: Any, stages: tuple[str, ...], options: dict[str, Any]) -> Any:
    if isinstance(program, Program):
        return optimize_program(program, stages=stages, **options).program
    if isinstance(program, str):
        return _text(program, stages, options)
    return _pypto(program, stages, options)


def _text(text: str, stages: tuple[str, ...], options: dict[str, Any]) -> str:
    """The text of the lowered program, in the form of the given one; the same text where nothing changed."""
    document = read_document(text)
    try:
        result = optimize_program(document.program, stages=stages, **options)
    except Refused as refused:
        raise Refused(document.located(refused.diagnostics)) from None
    return text if result.program is document.program else write_as(result.program, document.format)


def _pypto(program: Any, stages: tuple[str, ...], options: dict[str, Any]) -> Any:
    known = _program_class()
    if known is None or not isinstance(program, known):
        raise _lacking(
            f"found a {type(program).__module__}.{type(program).__qualname__}",
            "give a pypto.ir.Program, the text of a program, or a pypto_ir.stmt.Program"
            + ("; PyPTO is not installed in this environment" if known is None else ""),
        )
    parse = _parser()
    text = _printed(program)
    lowered = _text(text, stages, options)
    if lowered == text:
        return program
    try:
        result = parse(lowered)
    except Exception as fault:
        raise _misread(f"its parser refuses the lowered program: {_first_line(fault)}") from fault
    if not isinstance(result, known):
        raise _misread(f"its parser gives a {type(result).__qualname__}")
    wrong = _difference(lowered, _printed(result))
    if wrong is not None:
        raise _misread(wrong)
    return result


def _program_class() -> type | None:
    """PyPTO's class of programs, None where PyPTO is not installed."""
    try:
        found = import_module("pypto.ir").Program
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) else None


def _parser() -> Callable[[str], Any]:
    """PyPTO's parser of printed programs."""
    for module, name in PARSERS:
        try:
            found = getattr(import_module(module), name, None)
        except ImportError:
            continue
        if callable(found):
            parse: Callable[[str], Any] = found
            return parse
    looked = ", ".join(f"{module}.{name}" for module, name in PARSERS)
    raise _lacking(f"this PyPTO has no parser of printed programs (looked for {looked})", "install a version that has one")


def _printed(program: Any) -> str:
    """A program as PyPTO prints it, without a formatter behind its printer where it can be told so."""
    for printer in _printers(program):
        try:
            return str(printer(format=False))
        except TypeError:  # a printer without that argument
            return str(printer())
    raise _lacking(f"this PyPTO has no printer of programs (looked for {' and '.join(PRINTERS)})", "install a version that has one")


def _printers(program: Any) -> Iterator[Callable[..., Any]]:
    method = getattr(program, PRINTERS[0], None)
    if callable(method):
        yield method
    function = getattr(import_module("pypto.ir"), PRINTERS[1], None)
    if callable(function):
        yield lambda **given: function(program, **given)


def _difference(written: str, printed: str) -> str | None:
    """The first line in which PyPTO's program is not what was written, None where both are one program."""
    ours = _lines(written)
    try:
        again = _lines(printed)
    except Refused as refused:
        return f"what it prints of the lowered program is not read back: {refused.diagnostics[0].message}"
    for number, (a, b) in enumerate(zip(ours, again, strict=False), 1):
        if a != b:
            return f"line {number} was written as {a.strip()!r} and is printed as {b.strip()!r}"
    missing = len(ours) - len(again)
    return f"{abs(missing)} lines are {'missing' if missing > 0 else 'new'}" if missing else None


def _lines(text: str) -> list[str]:
    """The lines of the canonical text, comments left out: PyPTO keeps none."""
    return [line for line in write_as(read_document(text).program, "text").splitlines() if not line.lstrip().startswith("#")]


def _lacking(what: str, help: str) -> Refused:
    return Refused([Diagnostic("L901", what, help=help)])


def _misread(what: str) -> Refused:
    help = "nothing was changed; please report it with the program and the version of PyPTO"
    return Refused([Diagnostic("X005", what, help=help)])


def _first_line(fault: Exception) -> str:
    return (str(fault) or type(fault).__name__).splitlines()[0][:200]
