"""What is mutated, and the tests that have to notice.

Tests come in stages, the quick ones that speak of the changed part first; the first failure ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from egraph_rules.catalogue import rule
from tests.mutants.data_mutants import data_mutants
from tests.mutants.mutant import Mutant, mutants_of
from tests.mutants.python_mutants import python_edits
from tests.mutants.rule_mutants import rule_edits

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Stage:
    """Tests that are run together: those of `files` (patterns from the root of the project) whose names hold one of `words`, if there are
    any, and none of `without`."""

    files: tuple[str, ...]
    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def paths(self, root: Path) -> list[str]:
        """The files, as they stand; one that is not there is left out."""
        return list(dict.fromkeys(str(path.relative_to(root)) for pattern in self.files for path in sorted(root.glob(pattern))))

    def chosen(self, items: Iterable[pytest.Item]) -> list[pytest.Item]:
        """The tests of this stage, in the order of its files."""
        by_file: dict[str, list[pytest.Item]] = {}
        for item in items:
            by_file.setdefault(item.nodeid.partition("::")[0], []).append(item)
        found = (item for file in self.paths(Path.cwd()) for item in by_file.get(file, ()))
        return [i for i in found if (not self.words or any(w in i.name for w in self.words)) and not any(w in i.name for w in self.without)]

    def arguments(self, root: Path) -> list[str]:
        """The same as arguments of pytest."""
        terms = [f"not {word}" for word in self.without]
        if self.words:
            terms.append(f"({' or '.join(self.words)})")
        return [*self.paths(root), *(("-k", " and ".join(terms)) if terms else ())]


@dataclass(frozen=True, slots=True)
class Subject:
    """A group of files: `files` are patterns from the root of the project, `stages` gives the tests for a mutant."""

    name: str
    files: tuple[str, ...]
    make: Callable[[str, str], Iterator[Mutant]]
    stages: Callable[[Mutant], tuple[Stage, ...]]

    def paths(self) -> list[Path]:
        return sorted({path for pattern in self.files for path in ROOT.glob(pattern)})

    def mutants(self) -> Iterator[Mutant]:
        for path in self.paths():
            yield from self.make(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def _of_python(file: str, source: str) -> Iterator[Mutant]:
    return mutants_of(file, source, python_edits(source))


def _of_rules(file: str, source: str) -> Iterator[Mutant]:
    return mutants_of(file, source, rule_edits(source))


_RULES = "tests/egraph_rules/test_rules.py"
_CARRIERS = Stage(("tests/egraph_rules/test_facts.py", "tests/egraph_rules/test_carriers.py"))
#: test_mutants.py is left out of what may notice: it states texts of rules
_OF_RULES = ("test_rule_conditions", "test_shape_facts", "test_encode", "test_forms", "test_graph", "test_engine", "test_accumulators")


def _rule_stages(mutant: Mutant) -> tuple[Stage, ...]:
    others = Stage(tuple(f"tests/egraph_rules/{name}.py" for name in _OF_RULES))
    near, every = Stage((_RULES,), ("does_not_fire",)), Stage((_RULES,), ("alternatives_equal",))
    found = rule(mutant.where)
    if found is None:
        return _CARRIERS, others, near, every
    return (
        _CARRIERS,
        Stage((_RULES,), (f"does_not_fire_where_its_condition_fails[{found.name}-",)),
        Stage((_RULES,), (f"[{found.name}]",)),
        others,
        near,
        every,
    )


#: module of checks -> the tests of it
_OF_CHECKS = {
    "linearity": ("linear_values", "windows", "linearity"),
    "aliases": ("aliases", "linearity", "windows"),
    "loops": ("fit", "linear_values"),
    "accumulators": ("acc_walk", "accumulators"),
    "acc_rules": ("acc_rules", "accumulators"),
    "acc_places": ("acc_places", "accumulators"),
    "boxes": ("boxes",),
    "places": ("places",),
    "ssa": ("ssa", "fit"),
    "tiles2d": ("types",),
    "types": ("types", "fit"),
}


def _check_stages(mutant: Mutant) -> tuple[Stage, ...]:
    near = _OF_CHECKS.get(Path(mutant.file).stem, ())
    return (
        *(Stage((f"tests/pypto_ir/test_verify_{name}.py",), without=_HURRIED) for name in near),
        Stage(("tests/pypto_ir/test_verify_*.py",), without=_HURRIED),
        Stage(("tests/extract/test_repair.py", "tests/pypto_eqsat/test_flatten_rows_properties.py")),
    )


def _fixed(*stages: Stage) -> Callable[[Mutant], tuple[Stage, ...]]:
    return lambda mutant: stages


#: tests of time, of large programs, and of orders over many prices
_HURRIED = ("linear_in", "thousand", "remembered", "larger_tile", "two_halves")

SUBJECTS = (
    Subject("rules", ("egraph_rules/rules/*.egg",), _of_rules, _rule_stages),
    Subject(
        "checks",
        ("pypto_ir/verify/*.py",),
        _of_python,
        _check_stages,
    ),
    Subject(
        "prices",
        ("extract/cycles*.py", "extract/moves.py", "extract/cost.py", "extract/price.py"),
        _of_python,
        _fixed(Stage(("tests/extract/test_cost_tables.py", "tests/extract/test_cost*.py"), without=_HURRIED)),
    ),
    Subject(
        "targets",
        ("extract/targets/*.json",),
        data_mutants,
        _fixed(
            Stage(("tests/extract/test_target_numbers.py", "tests/extract/test_target*.py")),
            Stage(("tests/extract/test_cost*.py",), without=_HURRIED),
        ),
    ),
)


@cache
def everything() -> tuple[tuple[Subject, Mutant], ...]:
    """Every mutant with its subject, in a fixed order."""
    return tuple((subject, mutant) for subject in SUBJECTS for mutant in subject.mutants())
