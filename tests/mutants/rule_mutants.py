"""Mutants of rewrite rules and of rules of facts: conditions left out or changed, operands of what is made swapped, actions left out.

`(rule ((= v (Flat x)) (= x (Load i)) (rows-prefix x)) ((union v (Load2 i))) ..)` gives a rule without `(rows-prefix x)` and one that does
nothing. Without `(= x (Load i))` nothing binds i: the engine refuses such a rule, and it is no mutant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from egraph_rules.engine import RULE_FILES, bindings, rule_text
from tests.mutants.mutant import Edit, short

_TOKEN = re.compile(r'[()]|"[^"]*"|[^\s()"]+')
_NAMED = re.compile(r':name "(?P<name>[^"]+)"')
#: constructors whose operands of one sort mean the same in either order
_COMMUTE = ("Plus",)
_HEADS = {"!=": "=", "<": "<=", "max": "min"}


@dataclass(slots=True)
class Term:
    """A term of a rule file: `word` for a symbol or literal, else its parts; `start` and `end` are places in the text."""

    start: int
    end: int = 0
    word: str = ""
    parts: list[Term] = field(default_factory=list)

    @property
    def head(self) -> str:
        return self.parts[0].word if self.parts else ""

    def walk(self) -> Iterator[Term]:
        yield self
        for part in self.parts:
            yield from part.walk()


def terms(text: str) -> list[Term]:
    """The terms of a text without comments."""
    top = Term(0)
    stack = [top]
    for token in _TOKEN.finditer(text):
        if token[0] == "(":
            stack.append(Term(token.start()))
            stack[-2].parts.append(stack[-1])
        elif token[0] == ")":
            stack.pop().end = token.end()
        else:
            stack[-1].parts.append(Term(token.start(), token.end(), token[0]))
    return top.parts


class Checker:
    """Says which changed rules the engine takes."""

    def __init__(self) -> None:
        self._egraph: Any = bindings().EGraph()
        self._serial = count()
        for name in RULE_FILES:
            self._load(rule_text(name))

    def takes(self, rule: str) -> bool:
        """True where a rule has every name bound and every sort right."""
        try:
            self._load(_NAMED.sub(f':name "changed {next(self._serial)}"', rule))
        except bindings().EggSmolError:
            return False
        return True

    def _load(self, text: str) -> None:
        code = _blanked(text)
        for term in terms(code):
            self._egraph.run_program(*self._egraph.parse_program(code[term.start : term.end], "mutants.egg"))


def sorts() -> dict[str, tuple[str, ...]]:
    """The sorts of the operands of every constructor."""
    found: dict[str, tuple[str, ...]] = {}
    for name in RULE_FILES:
        for term in terms(_blanked(rule_text(name))):
            if term.head == "datatype":
                types = [term.parts[1:]]
            elif term.head == "datatype*":
                types = [inner.parts for inner in term.parts[1:]]
            else:
                continue
            for constructors in types:
                found |= {c.head: tuple(p.word for p in c.parts[1:]) for c in constructors[1:]}
    return found


def rule_edits(source: str) -> Iterator[Edit]:
    """Every edit of the rules of a file that the engine takes."""
    checker, operands = Checker(), sorts()
    for rule in terms(_blanked(source)):
        if rule.head not in ("rule", "rewrite"):
            continue
        text = source[rule.start : rule.end]
        named = _NAMED.search(text)
        assert named is not None, f"a rule without a name: {short(text)}"
        for start, end, new, what in _edits(rule, source, operands):
            changed = text[: start - rule.start] + new + text[end - rule.start :]
            if checker.takes(_blanked(changed)):
                begin = len(source[:start].encode())
                yield Edit(begin, begin + len(source[start:end].encode()), new, named["name"], what)


def _edits(rule: Term, source: str, operands: dict[str, tuple[str, ...]]) -> Iterator[tuple[int, int, str, str]]:
    def text(term: Term) -> str:
        return source[term.start : term.end]

    if rule.head == "rule":
        conditions, actions = rule.parts[1].parts, rule.parts[2].parts
        for part in conditions:
            yield part.start, part.end, "", f"without {short(text(part))}"
        for part in actions:
            yield part.start, part.end, "", f"does not {short(text(part))}"
        made = actions
    else:
        yield rule.parts[2].start, rule.parts[2].end, text(rule.parts[1]), "does nothing"
        made = [rule.parts[2]]
    for term in (inner for part in rule.parts[1:3] for inner in part.walk()):
        if re.fullmatch(r"-?\d+", term.word):
            yield term.start, term.end, str(int(term.word) + 1), f"{_around(rule, term, source)}: {term.word} -> {int(term.word) + 1}"
        elif term.word.startswith('"'):
            yield term.start, term.end, '"other"', f"{_around(rule, term, source)}: {term.word} -> other"
        elif term.word in _HEADS and term.end - term.start == len(term.word):
            yield term.start, term.end, _HEADS[term.word], f"{_around(rule, term, source)}: {term.word} -> {_HEADS[term.word]}"
        elif term.head in ("+", "*", "/"):
            yield term.start, term.end, text(term.parts[1]), f"{short(text(term))} -> {short(text(term.parts[1]))}"
    for term in (inner for part in made for inner in part.walk()):
        kinds = operands.get(term.head, ())
        for i, kind in enumerate(kinds):
            for j in range(i + 1, len(kinds)):
                one, two = term.parts[i + 1], term.parts[j + 1]
                if kinds[j] == kind and term.head not in _COMMUTE and text(one) != text(two):
                    new = text(two) + source[one.end : two.start] + text(one)
                    yield one.start, two.end, new, f"{short(text(one), 30)} and {short(text(two), 30)} of {term.head} swapped"


def _around(rule: Term, inner: Term, source: str) -> str:
    """The term that a word stands in."""
    found = next(t for t in rule.walk() if inner in t.parts)
    return short(source[found.start : found.end])


def _blanked(text: str) -> str:
    """A text with its comments turned to blanks, so that places stay."""
    return re.sub(r"(?m)^\s*;.*$|(?<=\s);[^\n\"]*$", lambda m: " " * len(m[0]), text)
