"""The names of one function: defined once, visible in their block and the blocks inside it.

After `for k: {y = ..}` the name y can neither be used (J203) nor be given to another value (J201). A value
that could not be read has the type `POISON`, and nothing is reported about what uses it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pypto_ir.diagnostics import declare
from pypto_ir.expr import Var
from pypto_ir.expr_parser import NAME, RESERVED
from pypto_ir.json_findings import Bad, short
from pypto_ir.json_place import Path
from pypto_ir.types import Type, UnknownType

if TYPE_CHECKING:
    from pypto_ir.json_context import Reading

declare(
    J201="a name is defined twice",
    J202="a name is not defined",
    J203="a name is used outside its scope or before its definition",
    J204="a name is not allowed",
)

#: the type of a value that could not be read; told from a real unknown type by identity
POISON = UnknownType()


class Names:
    """The names of one function: defined once, visible in their block and the blocks inside it."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.visible: dict[str, Var] = {}
        self.defined: set[str] = set()
        self.trail: list[str] = []

    def start(self, dynamic: Iterable[Var]) -> None:
        """Begin a function: only the dynamic dims of the program are visible."""
        self.visible = {var.name: var for var in dynamic}
        self.defined = set(self.visible)
        self.trail = []

    def check(self, value: Any, path: Path, what: str) -> str:
        """A name that may be given to something; raises `Bad` where it may not."""
        name = self.reading.string(value, path, what)
        if not NAME.match(name):
            self.reading.fail(
                "J204",
                path,
                f"found {short(name)}, a name is letters, digits and _, and starts with no digit",
            )
        if name in RESERVED:
            self.reading.fail(
                "J204",
                path,
                f"found {short(name)}, which is a reserved word and cannot be a name",
                f"write {name}_",
            )
        return name

    def define(self, value: Any, path: Path, t: Type) -> Var:
        """A new variable; a name that cannot be one, or is taken, is reported and the variable given all the
        same."""
        try:
            name = self.check(value, path, "the name of a value")
        except Bad:
            return Var("_", POISON)
        if name in self.defined:
            self.reading.report(
                "J201",
                path,
                f"{name} is defined before in this function",
                "a name is defined once in a function",
            )
            if name in self.visible:
                return Var(name, t)
        var = Var(name, t)
        self.defined.add(name)
        self.visible[name] = var
        self.trail.append(name)
        return var

    def lookup(self, name: str, path: Path, offset: int | None) -> Var:
        """The variable of a name; an unknown one is reported and given the type `POISON`."""
        var = self.visible.get(name)
        if var is not None:
            return var
        if name in self.defined:
            message = f"{name} is defined inside another block and cannot be seen here"
            self.reading.report("J203", path, message, "hand it on with a yield and the results of its block", offset=offset)
        else:
            close = difflib.get_close_matches(name[:60], list(self.visible)[-2000:], 1)
            self.reading.report(
                "J202",
                path,
                f"{short(name)} is not defined",
                f"did you mean {close[0]}?" if close else None,
                offset=offset,
            )
        return Var(name, POISON)

    @contextmanager
    def block(self) -> Iterator[None]:
        """A block whose names end with it."""
        mark = len(self.trail)
        try:
            yield
        finally:
            for name in self.trail[mark:]:
                self.visible.pop(name, None)
            del self.trail[mark:]
