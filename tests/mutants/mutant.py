"""A mutant: one file of the project with one change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256


@dataclass(frozen=True, slots=True)
class Edit:
    """The change of a part of a text: `start` and `end` count bytes, `where` is the function, rule or object around it, `what`
    says it in a few words."""

    start: int
    end: int
    new: str
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """`text` is the whole of `file` (a path from the root of the project) with the change; `where` is the part that is changed.

    `name` is unique and says nothing of line numbers, so that it holds while other parts of the file change.
    """

    name: str
    file: str
    where: str
    text: str

    @property
    def key(self) -> str:
        """A digest of name and text."""
        return sha256(f"{self.name}\n{self.text}".encode()).hexdigest()[:16]

    @property
    def idle(self) -> bool:
        """True where a rule does not do what it is for, which is soon noticed if its tests are any good."""
        return self.name.startswith(f"{self.file} {self.where}: does not")


def short(text: str, most: int = 70) -> str:
    """A piece of source on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 2]}.."


def mutants_of(file: str, source: str, edits: Iterable[Edit]) -> Iterator[Mutant]:
    """The mutants that edits of one file give; edits that would have one name are numbered."""
    data = source.encode()
    names: Counter[str] = Counter()
    for e in edits:
        name = f"{file} {e.where}: {e.what}"
        names[name] += 1
        text = (data[: e.start] + e.new.encode() + data[e.end :]).decode()
        yield Mutant(name if names[name] == 1 else f"{name} ({names[name]})", file, e.where, text)
