"""Which rule made a node: rule files in which every rule also notes what it makes.

    (rule ((= f (Pages x)) ..) ((union f (RowsOf (Flat x) p))) :ruleset pages :name "pages.rows")

becomes

    (rule ((= f (Pages x)) ..) ((union f (RowsOf (Flat x) p)) (maker-RowsOf "pages.rows" (Flat x) p)) :ruleset pages :name "pages.rows")

`maker-RowsOf` is a relation over the operands of `RowsOf`. Its rows are rebuilt as those of the constructor are, so that after saturation
the row of a node and the rows that tell of its rules have equal operands. No rule reads these relations: the classes and nodes stay as
they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

Term: TypeAlias = "str | list[Term]"

PREFIX = "maker-"
_TOKEN = re.compile(r'"[^"]*"|;[^\n]*|[()]|[^\s()";]+')


def terms(text: str) -> list[Term]:
    """The S-expressions of a text, comments left out."""
    stack: list[list[Term]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif not token.startswith(";"):
            stack[-1].append(token)
    if len(stack) != 1:
        raise ValueError("a parenthesis is open at the end of the text")
    return stack[0]


def written(term: Term) -> str:
    """A term as text on one line."""
    return term if isinstance(term, str) else f"({' '.join(map(written, term))})"


def noting(rules: Mapping[str, str], constructors: tuple[str, ...]) -> dict[str, str]:
    """The texts of rule files, by name, with rules that note which of the constructors they make; the first file declares them."""
    first, *others = rules
    language = terms(rules[first])
    sorts = {name: given for name, given in _constructors(language) if name in constructors}
    relations: list[Term] = [["relation", f"{PREFIX}{name}", ["String", *given]] for name, given in sorts.items()]
    texts = {first: _lines([*language, *relations])}
    for file in others:
        texts[file] = _lines(_noted(term, sorts) for term in terms(rules[file]))
    return texts


def _lines(items: Iterable[Term]) -> str:
    return "".join(f"{written(term)}\n" for term in items)


def _constructors(language: list[Term]) -> Iterator[tuple[str, list[Term]]]:
    """The constructors of the datatypes with the sorts of their operands."""
    for command in language:
        match command:
            case ["datatype", str(), *variants]:
                yield from _variants(variants)
            case ["datatype*", *types]:
                for declared in types:
                    if isinstance(declared, list):
                        yield from _variants(declared[1:])


def _variants(variants: list[Term]) -> Iterator[tuple[str, list[Term]]]:
    for variant in variants:
        match variant:
            case [str(name), *sorts]:
                yield name, sorts


def _noted(command: Term, sorts: dict[str, list[Term]]) -> Term:
    match command:
        case ["rule", facts, list(actions), *options]:
            name = options[options.index(":name") + 1]
            notes: dict[str, Term] = {}
            for made in _made(actions, sorts):
                note: Term = [f"{PREFIX}{made[0]}", name, *made[1:]]
                notes[written(note)] = note
            return ["rule", facts, [*actions, *notes.values()], *options]
    return command


def _made(term: Term, sorts: dict[str, list[Term]]) -> Iterator[list[Term]]:
    """The constructor applications inside a term."""
    if isinstance(term, list):
        if term and isinstance(term[0], str) and term[0] in sorts:
            yield term
        for part in term:
            yield from _made(part, sorts)


def makers(rows: dict[str, list[tuple[tuple[Any, ...], Any]]], constructor: str) -> dict[tuple[Any, ...], tuple[str, ...]]:
    """The rules that made each node of a constructor, by the node's operands as they stand in the frozen e-graph; sorted by name."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for (name, *operands), _ in rows.get(f"{PREFIX}{constructor}", ()):
        found.setdefault(tuple(operands), []).append(name)
    return {operands: tuple(sorted(names)) for operands, names in found.items()}
