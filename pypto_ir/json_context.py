"""One run of the reader: checked access to the fields of JSON values.

`r.integer(value, path, "a size", 0)` is the integer, or records that there is none at `path` and raises
`Bad`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from pypto_ir.diagnostics import declare
from pypto_ir.json_findings import MAX_FINDINGS, Bad, Enough, Finding, Keys, bound, found, short
from pypto_ir.json_names import Names
from pypto_ir.json_place import Path

declare(
    J101="a value has the wrong JSON type",
    J102="a key is not known here",
    J103="a key is missing",
    J104="a word is not one of the allowed ones",
    J105="a number is outside the allowed range",
    J106="a list has the wrong number of elements",
    J107="text holds half of a surrogate pair and cannot be written as UTF-8",
    J199="there are more errors than are listed",
)


class Reading:
    """One run of the reader: what was found, and where it is at the moment."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.function: str | None = None
        self.statement: str | None = None
        self.loc: str | None = None
        self.names = Names(self)

    def report(
        self,
        code: str,
        path: Path,
        message: str,
        help: str | None = None,
        *,
        on_key: bool = False,
        offset: int | None = None,
    ) -> None:
        """Record a finding at a path; `offset` is a place inside the string there, `on_key` points at the key
        instead."""
        self.findings.append(Finding(code, message, path, help, on_key, offset, self.function, self.statement, self.loc))
        if len(self.findings) >= MAX_FINDINGS:
            raise Enough

    def fail(self, code: str, path: Path, message: str, help: str | None = None, **rest: Any) -> NoReturn:
        """Record a finding and give up the part at hand."""
        self.report(code, path, message, help, **rest)
        raise Bad

    def object(self, value: Any, path: Path, what: str, keys: Keys) -> dict[str, Any]:
        """A JSON object with only the allowed keys; every unknown and every missing key is reported."""
        if type(value) is not dict:
            self.fail("J101", path, f"found {found(value)}, allowed is {what}, an object")
        if not value.keys() <= keys.allowed:
            for key in value:
                if key not in keys.allowed:
                    self.unknown(
                        "J102",
                        (path, key),
                        f"the key {short(key)} in {what}",
                        key,
                        (*keys.required, *keys.optional),
                        on_key=True,
                    )
        missing = [key for key in keys.required if key not in value]
        if missing:
            self.fail("J103", path, f"{what} needs the key{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
        return value

    def unknown(self, code: str, path: Path, what: str, word: str, allowed: Iterable[str], *, on_key: bool = False) -> None:
        """Report a word that is not among the allowed ones, with the nearest of them."""
        choices = list(allowed)
        close = difflib.get_close_matches(word[:60], choices, 1)
        listed = ", ".join(choices[:30]) + (", .." if len(choices) > 30 else "")
        message = f"found {what}, which is not known; allowed: {listed}" if choices else f"found {what}, allowed is nothing"
        self.report(code, path, message, f"did you mean {close[0]}?" if close else None, on_key=on_key)

    def list(self, value: Any, path: Path, what: str) -> list[Any]:
        if type(value) is not list:
            self.fail("J101", path, f"found {found(value)}, allowed is {what}, a list")
        return value

    def string(self, value: Any, path: Path, what: str) -> str:
        if type(value) is not str:
            self.fail("J101", path, f"found {found(value)}, allowed is {what}, a string")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                self.fail("J107", path, f"{what} holds half of a surrogate pair")
        return value

    def word(self, value: Any, path: Path, what: str, allowed: Sequence[str]) -> str:
        """One of the allowed words."""
        if type(value) is str and value in allowed:
            return value
        if type(value) is not str:
            self.fail("J101", path, f"found {found(value)}, allowed is {what}, one of {', '.join(allowed)}")
        self.unknown("J104", path, f"the {what} {short(value)}", value, allowed)
        raise Bad

    def integer(self, value: Any, path: Path, what: str, low: int = -(2**63), high: int = 2**63 - 1) -> int:
        if type(value) is not int:
            self.fail("J101", path, f"found {found(value)}, allowed is {what}, an integer")
        if not low <= value <= high:
            self.fail("J105", path, f"found {found(value)}, allowed is {what} from {bound(low)} to {bound(high)}")
        return value

    def flag(self, value: Any, path: Path, what: str) -> bool:
        if type(value) is not bool:
            self.fail("J101", path, f"found {found(value)}, allowed is {what}, true or false")
        return value

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """The whole reading: stops quietly after `MAX_FINDINGS` findings, with a last one that says so."""
        try:
            yield
        except Enough:
            self.findings.append(
                Finding(
                    "J199",
                    f"reading stopped after {MAX_FINDINGS} errors",
                    None,
                    None,
                    False,
                    None,
                    None,
                    None,
                    None,
                )
            )
        except Bad:
            return
