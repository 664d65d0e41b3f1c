"""The rules by name: equation, side condition, and what would go wrong without it, read from the comments of the rule files.

Above each rule stands

    ; flat.load
    ;   flat(load(t, o, s)) = load2d(t, o, s)
    ;   when the valid region of the load is a run of rows of the collapse
    ;   else the load of valid [2, 2, 8] of [2, 3, 8] puts page 1 at row 2, ..

and every `(rule ..)` or `(rewrite ..)` up to the next such comment belongs to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from egraph_rules.engine import INDEX_FILES, RULE_FILES, rule_text

_HEAD = re.compile(r"^; (?P<name>[a-z0-9]+(?:[.-][a-z0-9]+)+)$")
_NAMED = re.compile(r':name "(?P<name>[^"]+)"')


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite rule; `parts` are the names of the e-graph rules that carry it out, as they appear in statistics."""

    name: str
    equation: str
    condition: str
    counterexample: str
    ruleset: str
    parts: tuple[str, ...]


class UnknownRule(ValueError):
    """No rule, part of a rule or rule file has the name; `known` are those of rules and files."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"there is no rule or rule file {name!r}")
        self.name, self.known = name, known


@cache
def rules() -> tuple[Rule, ...]:
    """Every rewrite rule of tiles in file order. Facts are no rewrites and are not among them."""
    return tuple(rule for file in RULE_FILES[2:] for rule in _rules_of(file))


@cache
def index_rules() -> tuple[Rule, ...]:
    """Every rewrite rule of index expressions in file order."""
    return tuple(rule for file in INDEX_FILES[2:] for rule in _rules_of(file))


@cache
def every_rule() -> tuple[Rule, ...]:
    """The rules of the e-graph for tiles and for index expressions, then those that rewrite whole programs."""
    from egraph_rules.mx.rules import RULES

    return (*rules(), *index_rules(), *RULES)


def rule(name: str) -> Rule | None:
    """The rule of a name, or the one that a part of that name belongs to."""
    return next((r for r in every_rule() if r.name == name or name in r.parts), None)


def parts_of(names: Iterable[str]) -> frozenset[str]:
    """What the engine leaves out for names of rules, of parts of rules or of rule files: a rule goes with all of its parts. Raises
    `UnknownRule`."""
    files = RULE_FILES[2:]
    found: set[str] = set()
    for name in names:
        known = rule(name)
        if name in files:
            found.add(name)
        elif known is not None:
            found.update(known.parts if name == known.name else (name,))
        else:
            raise UnknownRule(name, [*files, *(r.name for r in rules())])
    return frozenset(found)


def _rules_of(file: str) -> list[Rule]:
    found: list[Rule] = []
    lines = rule_text(file).splitlines()
    starts = [i for i, line in enumerate(lines) if _HEAD.match(line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        match = _HEAD.match(lines[start])
        assert match
        comment = _paragraphs(lines[start + 1 : end])
        parts = tuple(m["name"] for line in lines[start:end] if not line.startswith(";") for m in _NAMED.finditer(line))
        if len(comment) != 3 or not parts:
            raise ValueError(f"{file}.egg: {match['name']} needs an equation, a condition, a counter-example and a rule")
        equation, condition, counterexample = comment
        found.append(Rule(match["name"], equation, condition.removeprefix("when "), counterexample.removeprefix("else "), file, parts))
    return found


def _paragraphs(lines: list[str]) -> list[str]:
    """The equation, the condition and the counter-example of a comment, continuation lines joined."""
    result: list[str] = []
    for line in lines:
        if not line.startswith(";   "):
            break
        text = line[1:].strip()
        if not result or text.startswith(("when ", "else ")):
            result.append(text)
        else:
            result[-1] += " " + text
    return result
